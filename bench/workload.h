/* workload.h: the workloads, what is measured, and what a row of the result holds. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

enum bench_workload {
    BENCH_W1,  /* one thread, one lock                    */
    BENCH_W2,  /* 16 threads, 16 locks                    */
    BENCH_W2B, /* one thread, 16 locks at once            */
    BENCH_W3,  /* 8 threads of one process on one lock    */
    BENCH_W4,  /* 4 processes on one lock                 */
    BENCH_W5,  /* from release here to acquire there      */
    BENCH_W6,  /* 200 who wait                            */
    BENCH_W7,  /* 10 000 that are held; only when asked for */
};
#define BENCH_WORKLOADS 8

enum bench_placement {
    BENCH_PLACEMENT_SAME,  /* everybody on one CPU               */
    BENCH_PLACEMENT_SPLIT, /* neighbours on different CPUs       */
    BENCH_PLACEMENT_FREE,  /* as the scheduler likes; comes last */
};
#define BENCH_PLACEMENTS 3

/* What is absent is not a number. */
struct bench_figures {
    double cycles_per_s;
    double p50_us;
    double p99_us;
    double share_min;
    double share_max;
    double requests_per_s;
    double client_cpu_s; /* per 10 s */
    double connections;
    double lost;
    double margin_ms; /* least validity left when a renewal came through */
};

struct bench_row {
    enum bench_workload workload;
    enum bench_placement placement;
    bool meaningful; /* false: this placement says nothing about this workload    */
    struct bench_figures ours;
    struct bench_figures raw;
    struct bench_figures beside; /* another figure for people                                 */
    const char *beside_name;     /* NULL: there is none                                       */
    double ratio;                /* median over the slices; not a number: none                */
    double beside_ratio;
    uint64_t rescued; /* hand-overs that only the library's safety net had noticed */
};

const char *bench_workload_name(enum bench_workload workload);

#endif
