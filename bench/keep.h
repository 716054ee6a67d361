/* keep.h: W7, many locks of one client that are held for long. */
#ifndef BENCH_KEEP_H
#define BENCH_KEEP_H

#include "crew.h"

#define BENCH_KEPT   10000
#define BENCH_LEASES 3

/* As the functions of crew.h answer. */
int bench_keep_run(struct bench_crew *crew, struct bench_row *row);

#endif
