/* rate.h: W1 to W4: acquire and release, over and over. */
#ifndef BENCH_RATE_H
#define BENCH_RATE_H

#include "job.h"

/* In a worker. */
void bench_rate_work(const struct bench_job *job, uint32_t process);

#endif
