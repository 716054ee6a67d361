/* handover.h: W5: from the start of release in one process to the return of acquire in another. */
#ifndef BENCH_HANDOVER_H
#define BENCH_HANDOVER_H

#include "job.h"

/* In a worker. */
void bench_handover_work(const struct bench_job *job, uint32_t process);
/* In the parent, before each slice. */
void bench_handover_reset(struct bench_floor *floor);

#endif
