/* clock.c: a wall clock for every process of a test, as wrong as it is told to be.
 *
 * All processes of a test read one clock, so numbers that come from it rise by themselves, and
 * whatever else makes fences rise is never needed. Here clock_gettime() of the C library is
 * replaced, for the library under test too: the linker takes the first that it finds, and that is
 * the program's. Only CLOCK_REALTIME is wrong; time is measured by others.
 *
 * What can go wrong: somebody asks before the real one was found: then the kernel is asked. */

#include "clock.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int ask(clockid_t which, struct timespec *out_time);

static struct {
    _Atomic(ask *) ask;
    _Atomic int64_t ahead_s;
} real;

__attribute__((constructor)) static void find_real(void)
{
    void *found = dlsym(RTLD_NEXT, "clock_gettime");
    ask *function = NULL;

    memcpy(&function, &found, sizeof function); /* C has no other way */
    atomic_store(&real.ask, function);
}

void clock_set_ahead(int64_t ahead_s)
{
    atomic_store(&real.ahead_s, ahead_s);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t which, struct timespec *out_time)
{
    ask *function = atomic_load_explicit(&real.ask, memory_order_relaxed);
    int status =
        function ? function(which, out_time) : (int)syscall(SYS_clock_gettime, which, out_time);

    if (status == 0 && which == CLOCK_REALTIME)
        out_time->tv_sec += atomic_load(&real.ahead_s);
    return status;
}
