/* workload.c: what are the workloads called? */
#include "workload.h"

#include <assert.h>

const char *bench_workload_name(enum bench_workload workload)
{
    static const char *const names[BENCH_WORKLOADS] = { "W1", "W2", "W2b", "W3",
                                                        "W4", "W5", "W6",  "W7" };

    assert((unsigned)workload < BENCH_WORKLOADS);
    return names[workload];
}
