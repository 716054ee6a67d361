/* judge.h: memory that all processes of a test share, and in which each says what it holds; so that
 * whoever breaks the law is seen by the others. */
#ifndef TEST_EMBEDDED_JUDGE_H
#define TEST_EMBEDDED_JUDGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define JUDGE_LOCKS   4
#define JUDGE_WORKERS 65536 /* one for each life */
#define JUDGE_FENCES  (1u << 21)

struct judge_lock {
    _Atomic uint64_t writer;  /* whose life; 0: none */
    _Atomic uint64_t readers; /* how many, that are not doomed */
    _Atomic uint64_t highest; /* fence of a writer */
    _Atomic uint64_t fence_count;
    _Atomic uint64_t fences[JUDGE_FENCES];
};

struct judge {
    _Atomic uint32_t doomed[JUDGE_WORKERS];  /* it is being killed: what it says does not count */
    _Atomic uint32_t reading[JUDGE_WORKERS]; /* lock + 1 that this life reads */
    _Atomic uint64_t grants;
    _Atomic uint64_t rescued;
    _Atomic uint64_t violations;
    _Atomic uint64_t failures; /* answers that should not be */
    _Atomic uint64_t timeouts;
    _Atomic uint32_t stop;
    _Atomic uint32_t next_life;
    struct judge_lock locks[JUDGE_LOCKS];
};

struct judge *judge_new(void);
void judge_free(struct judge *judge);

/* Between them the lock is held by that life. */
void judge_enter(struct judge *judge, uint32_t life, uint32_t lock, bool shared, uint64_t fence);
void judge_leave(struct judge *judge, uint32_t life, uint32_t lock, bool shared);

/* How many fences were given twice. */
uint64_t judge_duplicates(struct judge *judge);

#endif
