/* clock.c: what time is it, and how long is it until then?
 *
 * Nanoseconds since the machine was started, sleep included. A time to wait is rounded up, so that
 * who waits does not come back too early and spin; a time still valid is rounded down, so that
 * nobody believes too long. Sums that would wrap become HF__NEVER.
 *
 * Apart from the first two pure: no clock, no I/O, no allocation. */
#include "base/clock.h"

#include <assert.h>
#include <time.h>

uint64_t hf__clock_now_ns(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);

    assert(!failed);
    assert(now.tv_sec >= 0 && now.tv_nsec >= 0);

    return (uint64_t)now.tv_sec * HF__NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t hf__clock_tick(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_MONOTONIC_COARSE, &now);

    assert(!failed);

    return (uint64_t)now.tv_sec * HF__NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t hf__clock_after_ms(uint64_t now_ns, int64_t ms)
{
    if (ms < 0)
        return HF__NEVER;
    if ((uint64_t)ms > (HF__NEVER - now_ns) / HF__NS_PER_MS)
        return HF__NEVER;

    return now_ns + (uint64_t)ms * HF__NS_PER_MS;
}

int64_t hf__clock_wait_ms(uint64_t now_ns, uint64_t then_ns)
{
    uint64_t wait_ns;

    if (then_ns == HF__NEVER)
        return -1;
    if (then_ns <= now_ns)
        return 0;

    wait_ns = then_ns - now_ns;
    return (int64_t)(wait_ns / HF__NS_PER_MS + (wait_ns % HF__NS_PER_MS != 0));
}

int64_t hf__clock_left_ms(uint64_t now_ns, uint64_t then_ns)
{
    if (then_ns == HF__NEVER)
        return INT64_MAX;
    if (then_ns <= now_ns)
        return 0;

    return (int64_t)((then_ns - now_ns) / HF__NS_PER_MS);
}
