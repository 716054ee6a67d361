/* bench.h: `holdfast bench`, for whoever has a command line. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

/* What `holdfast help bench` prints. */
extern const char bench_page[];

/* argv begins with the verb. Answers the exit status; dies of a signal that interrupts it. */
int bench_main(int argc, char **argv);

#endif
