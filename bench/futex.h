/* futex.h: the bare system call, on a word that several processes share. */
#ifndef BENCH_FUTEX_H
#define BENCH_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BENCH_FUTEX_ALL INT_MAX

/* Returns when woken, when the word is another one, or for no reason: look again. */
static inline void bench_futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static inline void bench_futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

#endif
