/* options.h: the command line of `holdfast bench`. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

struct bench_options {
    const char *url;    /* NULL: $HOLDFAST_URL, else the embedded engine          */
    uint32_t require;   /* HF_PROMISE_*                                           */
    uint32_t workloads; /* 1 << enum bench_workload                               */
    uint64_t row_ns;    /* how long a workload runs in one placement              */
    uint64_t idle_ns;   /* how long the waiters of W6 are watched                 */
    uint64_t keep_ns;   /* how long the locks of W7 are held: three leases        */
    uint32_t slices;    /* ours and raw take turns so often                       */
    bool json;
    bool quiet;
};

/* 0: go on; otherwise everything is said. The exit status is in out_exit_status. */
int bench_options_parse(int argc, char **argv, struct bench_options *out_options,
                        int *out_exit_status);

#endif
