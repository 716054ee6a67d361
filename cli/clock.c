/* clock.c: what time is it, and how long may poll(2) sleep?
 *
 * CLOCK_BOOTTIME, because a lease runs on while the machine is suspended. The call is a plain
 * system call: the guard uses it after a fork. It cannot fail on a kernel that knows the clock, and
 * the library needs the same one. */
#include "clock.h"

#include <assert.h>
#include <limits.h>
#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);

    assert(!failed);
    return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec;
}

int clock_poll_ms(uint64_t now_ns, uint64_t until_ns)
{
    uint64_t wait_ms;

    if (until_ns <= now_ns)
        return 0;

    wait_ms = (until_ns - now_ns - 1) / NS_PER_MS + 1;
    return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}
