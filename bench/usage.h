/* usage.h: what processes use while they are left alone. */
#ifndef BENCH_USAGE_H
#define BENCH_USAGE_H

#include "crew.h"

/* In a worker: how many sockets this process has; not a number where that cannot be seen. */
double bench_usage_sockets(void);
/* In a worker that stands where it should: from the beginning of the stage that measures to its
 * end. */
void bench_usage_watch(const struct bench_job *job, uint32_t process);

/* The parent: lets the workers begin, leaves them alone, watches for so long, and sees them end.
 * `count` is asked before and after (NULL: nobody counts); out_counted is the difference, and not a
 * number where nobody knows. As the functions of crew.h answer. */
int bench_usage_run(struct bench_crew *crew, uint64_t watch_ns, double (*count)(const char *url),
                    double *out_counted);
/* The parent: CPU and connections of one process. */
void bench_usage_conclude(const struct bench_job *job, uint32_t process,
                          struct bench_figures *figures);

#endif
