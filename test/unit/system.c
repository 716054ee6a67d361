/* system.c: the real calls of the base layer into the system, counted, and refused on demand. */
#include "system.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

struct system_control system_control;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);
ssize_t __real_getrandom(void *buffer, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *buffer, size_t bytes, unsigned flags);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

void system_as_usual(void)
{
    atomic_store(&system_control.calloc_refusals, 0);
    atomic_store(&system_control.calloc_calls, 0);
    atomic_store(&system_control.calloc_refuse_at, 0);
    atomic_store(&system_control.calloc_refuse_later, false);
    atomic_store(&system_control.calloc_refused, 0);
    atomic_store(&system_control.blocks, 0);
    atomic_store(&system_control.getrandom_calls, 0);
    atomic_store(&system_control.getrandom_errno, 0);
    atomic_store(&system_control.getrandom_at_most, 0);
    atomic_store(&system_control.syscalls, 0);
}

static bool is_refused(size_t call)
{
    size_t refuse_at = atomic_load(&system_control.calloc_refuse_at);

    if (atomic_load(&system_control.calloc_refusals) > 0) {
        atomic_fetch_sub(&system_control.calloc_refusals, 1);
        return true;
    }
    if (refuse_at == 0 || call < refuse_at)
        return false;
    return call == refuse_at || atomic_load(&system_control.calloc_refuse_later);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    void *memory;

    if (is_refused(atomic_fetch_add(&system_control.calloc_calls, 1) + 1)) {
        atomic_fetch_add(&system_control.calloc_refused, 1);
        return NULL;
    }
    memory = __real_calloc(count, bytes);
    if (memory)
        atomic_fetch_add(&system_control.blocks, 1);
    return memory;
}

void __wrap_free(void *memory)
{
    if (memory)
        atomic_fetch_sub(&system_control.blocks, 1);
    __real_free(memory);
}

ssize_t __wrap_getrandom(void *buffer, size_t bytes, unsigned flags)
{
    size_t nth = atomic_fetch_add(&system_control.getrandom_calls, 1);
    size_t at_most = atomic_load(&system_control.getrandom_at_most);
    int refusal = atomic_load(&system_control.getrandom_errno);

    if (at_most > 0 && nth % 2 == 1)
        refusal = EINTR;
    if (refusal != 0) {
        errno = refusal;
        return -1;
    }
    return __real_getrandom(buffer, at_most > 0 && at_most < bytes ? at_most : bytes, flags);
}

/* futex(2) has six arguments, and all of ours are given. */
long __wrap_syscall(long number, ...)
{
    long words[6];
    va_list arguments;

    va_start(arguments, number);
    for (size_t i = 0; i < 6; i++)
        words[i] = va_arg(arguments, long);
    va_end(arguments);

    atomic_fetch_add(&system_control.syscalls, 1);
    return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
