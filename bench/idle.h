/* idle.h: W6: what do 200 who wait cost? */
#ifndef BENCH_IDLE_H
#define BENCH_IDLE_H

#include "crew.h"

#define BENCH_WAITERS 200

/* As the functions of crew.h answer. */
int bench_idle_run(struct bench_crew *crew, struct bench_row *row);

#endif
