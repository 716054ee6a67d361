/* clock.c: what time is it, and what does it cost to ask?
 *
 * CLOCK_MONOTONIC is one clock for all processes and CPUs, and is read without a system call. Its
 * own cost is of the order of an uncontended cycle, so the least that was ever seen between two
 * stamps is taken off every sample. */
#include "clock.h"

#include <time.h>

#define NS_PER_S 1000000000u
#define TRIES    1000

uint64_t bench_clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t bench_clock_cost_ns(void)
{
    uint64_t least_ns = UINT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        uint64_t begun_ns = bench_clock_now_ns();
        uint64_t taken_ns = bench_clock_now_ns() - begun_ns;

        if (taken_ns < least_ns)
            least_ns = taken_ns;
    }
    return least_ns;
}

uint64_t bench_clock_net_ns(uint64_t taken_ns, uint64_t cost_ns)
{
    return taken_ns > cost_ns ? taken_ns - cost_ns : 1;
}

void bench_clock_sleep(uint64_t wait_ns)
{
    struct timespec wait = { .tv_sec = (time_t)(wait_ns / NS_PER_S),
                             .tv_nsec = (long)(wait_ns % NS_PER_S) };

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, &wait) != 0)
        continue;
}
