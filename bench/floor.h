/* floor.h: the memory that the parent and its workers share while they measure.
 *
 * The parent sets the stage, the workers follow it and report on arrival. Whatever two contenders
 * write lies on different pairs of cache lines (processors fetch them in pairs). */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BENCH_CONTENDERS_MAX 16
#define BENCH_LOCKS_MAX      16
#define BENCH_SAMPLES_MAX    2048
#define BENCH_SIDES_MAX      3
#define BENCH_APART          128 /* bytes */
#define BENCH_REASON_BYTES   768

enum bench_stage {
    BENCH_STAGE_REST,    /* wait                                     */
    BENCH_STAGE_WARM,    /* work, and let nobody count it            */
    BENCH_STAGE_MEASURE, /* work, and count                          */
    BENCH_STAGE_END,     /* let go of everything, and leave          */
};

/* What the lock guards, in no way that would do without it. */
struct bench_tally {
    alignas(BENCH_APART) volatile uint64_t count;
    volatile uint32_t inside; /* who is; 0: nobody */
};

/* A lock of futexes: strictly in order of arrival, everybody asleep on a word of their own. */
struct bench_chain {
    alignas(BENCH_APART) _Atomic uint32_t next; /* the ticket that the next one draws */
    struct {
        alignas(BENCH_APART) _Atomic uint32_t word; /* the ticket whose turn it is */
    } turns[BENCH_CONTENDERS_MAX];
};

/* The least that hands something over between two: the number of the one who has it. */
struct bench_token {
    alignas(BENCH_APART) _Atomic uint32_t word;
};

/* One thread of one worker. It writes here when a slice has ended, the samples as they come. */
struct bench_contender {
    alignas(BENCH_APART) uint64_t cycles; /* while it was measured           */
    uint64_t cycles_ever;                 /* in this slice, warming up too   */
    uint32_t sample_count;
    uint32_t samples_ns[BENCH_SAMPLES_MAX];
};

/* W5: whose turn it is, and when it was given away. */
struct bench_baton {
    alignas(BENCH_APART) _Atomic uint32_t asked; /* the round in which the waiter is waiting */
    _Atomic uint32_t taken; /* the last round in which the waiter got it; a futex */
    alignas(BENCH_APART) uint64_t released_ns;
    bool last; /* nobody releases after this */
};

/* W6, W7: what one process used. */
struct bench_usage {
    double cpu_s;
    double seconds;
    double connections;
    double lost;
    double margin_ms;
};

struct bench_failure {
    int exit_status;
    char reason[BENCH_REASON_BYTES];
};

struct bench_floor {
    alignas(BENCH_APART) _Atomic uint32_t word; /* slice x 4 + enum bench_stage; a futex */
    uint32_t side;                              /* which of the job's is at work */
    alignas(BENCH_APART) _Atomic uint32_t arrived;
    _Atomic uint64_t rescued;
    _Atomic uint32_t overlaps;
    atomic_flag failing;
    _Atomic uint32_t failed;
    struct bench_failure failure; /* once failed */
    struct bench_tally tallies[BENCH_SIDES_MAX];
    struct bench_chain chain;
    struct bench_token token;
    struct bench_baton baton;
    struct bench_usage usages[BENCH_CONTENDERS_MAX];
    struct bench_contender contenders[BENCH_CONTENDERS_MAX];
};

/* NULL: the operating system refused. Inherited through fork. */
struct bench_floor *bench_floor_new(void);
void bench_floor_free(struct bench_floor *floor);

static inline enum bench_stage bench_floor_stage(struct bench_floor *floor)
{
    return (enum bench_stage)(atomic_load_explicit(&floor->word, memory_order_acquire) & 3);
}

/* The parent: REST ends a slice, and any other stage but MEASURE begins one. */
void bench_floor_set_stage(struct bench_floor *floor, enum bench_stage stage);
/* A worker sleeps as long as it has seen the present slice; answers what to do in the next one. So
 * nobody misses a slice, even if it was over before he woke. */
enum bench_stage bench_floor_next(struct bench_floor *floor, uint32_t *slice);
/* A worker sleeps as long as this is the stage. */
void bench_floor_wait(struct bench_floor *floor, enum bench_stage stage);
/* The parent learns that one more is where it should be. */
void bench_floor_arrive(struct bench_floor *floor);

/* A worker leaves its reason; the first one counts. The process must end then. */
__attribute__((format(printf, 3, 4))) void
bench_floor_fail(struct bench_floor *floor, int exit_status, const char *format, ...);

#endif
