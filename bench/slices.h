/* slices.h: ours and raw take turns in short slices; what came of it. */
#ifndef BENCH_SLICES_H
#define BENCH_SLICES_H

#include "crew.h"

/* Runs one of W1 to W5 in one placement. As the functions of crew.h answer. */
int bench_slices_run(struct bench_crew *crew, struct bench_row *row);

#endif
