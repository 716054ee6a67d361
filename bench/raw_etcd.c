/* raw_etcd.c: what is etcd measured against?
 *
 * The engine's own wire without the library (wire_etcd.h), blocking, one connection for every
 * contender, the least requests that could work: a transaction that puts the key under a lease if
 * it is absent takes the lock, DeleteRange gives it back. Who is refused asks again after a
 * millisecond. It has no line, no fence and no validity, and who loses its lease is not told.
 *
 * W2 is 16 in flight: contender 0 keeps 16 chains going over one connection, the other 15
 * contenders sleep. A chain is put, delete, put, delete, each begun by the answer to the one before
 * it; what has been begun leaves in one write. Nobody is woken between. So this is what the server
 * and one connection can do, with no thread that wanted the lock.
 *
 * The hand-over: one put and one delete, by the one who receives, when the other has passed it the
 * turn by a futex: that is what W5 is compared with.
 *
 * The keys are outside the prefix of ours, whose watch would otherwise hear of them.
 *
 * What can go wrong: the answer is not the one that was wanted: errno says about what, and the run
 * ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "futex.h"
#include "side.h"
#include "wire_etcd.h"

#define POLL_NS   1000000u
#define KEY_BYTES (BENCH_NAME_BYTES + 32)
#define IN_FLIGHT BENCH_LOCKS_MAX

/* W2: one of those that put and delete in turns. */
struct chain {
    char key[KEY_BYTES];
    bool holding;
    uint64_t begun_ns;
};

struct raw_etcd {
    struct bench_wire *wire;
    char key[KEY_BYTES];
    struct chain chains[IN_FLIGHT];
    uint32_t running; /* chains that wait for an answer */
};

static int fail(int error)
{
    errno = error;
    return HF_ESYSTEM;
}

static void name_key(const char name[BENCH_NAME_BYTES], uint32_t number, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "raw-%.*s-%u", BENCH_NAME_BYTES - 1, name, number);
}

static struct raw_etcd *raw_of(struct bench_seat *seat)
{
    struct raw_etcd *raw = seat->raw;

    if (raw)
        return raw;
    raw = calloc(1, sizeof(*raw));
    if (!raw)
        return NULL;
    seat->raw = raw;
    name_key(seat->name, 0, raw->key);
    if (bench_wire_open(seat->url, &raw->wire) < 0)
        return NULL;
    return raw;
}

/* Only while nothing is under way. */
static struct raw_etcd *ready_of(struct bench_seat *seat)
{
    struct raw_etcd *raw = raw_of(seat);

    if (raw && bench_wire_is_old(raw->wire) && bench_wire_renew(raw->wire) < 0)
        return NULL;
    return raw;
}

/* --- one cycle --- */

/* 1: it is ours; 0: somebody else's. */
static int put_key(struct raw_etcd *raw)
{
    struct bench_answer answer;

    if (bench_wire_put(raw->wire, raw->key, 0) < 0 || bench_wire_next(raw->wire, &answer) < 0)
        return HF_ESYSTEM;
    return answer.is_done;
}

static int delete_key(struct raw_etcd *raw)
{
    struct bench_answer answer;

    if (bench_wire_delete(raw->wire, raw->key, 0) < 0 || bench_wire_next(raw->wire, &answer) < 0)
        return HF_ESYSTEM;
    return answer.is_done ? HF_OK : fail(ENOENT);
}

static int acquire(struct bench_seat *seat)
{
    struct raw_etcd *raw = ready_of(seat);
    int status;

    if (!raw)
        return HF_ESYSTEM;
    while ((status = put_key(raw)) == 0)
        bench_clock_sleep(POLL_NS);
    return status < 0 ? status : HF_OK;
}

static int release(struct bench_seat *seat)
{
    return delete_key(raw_of(seat));
}

/* --- 16 of them at once, by one thread --- */

static int finish_all(struct raw_etcd *raw, int error)
{
    struct bench_answer answer;

    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (bench_wire_next(raw->wire, &answer) < 0)
            return HF_ESYSTEM;
        if (!answer.is_done)
            return fail(error);
    }
    return HF_OK;
}

static int acquire_all(struct bench_seat *seat)
{
    struct raw_etcd *raw = ready_of(seat);

    if (!raw)
        return HF_ESYSTEM;
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        name_key(seat->batch.names[i], 0, raw->chains[i].key);
        if (bench_wire_put(raw->wire, raw->chains[i].key, i) < 0)
            return HF_ESYSTEM;
    }
    return finish_all(raw, EBUSY);
}

static int release_all(struct bench_seat *seat)
{
    struct raw_etcd *raw = raw_of(seat);

    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (bench_wire_delete(raw->wire, raw->chains[i].key, i) < 0)
            return HF_ESYSTEM;
    }
    return finish_all(raw, ENOENT);
}

/* --- 16 chains, each of which begins what is next when it has its answer --- */

static void keep_sample(struct bench_contender *record, uint64_t taken_ns)
{
    if (record->sample_count == BENCH_SAMPLES_MAX)
        return;
    record->samples_ns[record->sample_count++] =
        taken_ns < UINT32_MAX ? (uint32_t)taken_ns : UINT32_MAX;
}

static int begin_cycle(struct raw_etcd *raw, uint32_t number)
{
    struct chain *chain = &raw->chains[number];

    chain->holding = false;
    chain->begun_ns = bench_clock_now_ns();
    raw->running++;
    return bench_wire_put(raw->wire, chain->key, number);
}

static int go_on(struct bench_seat *seat, uint32_t number, struct bench_contender *record)
{
    struct raw_etcd *raw = seat->raw;
    struct chain *chain = &raw->chains[number];
    enum bench_stage stage = bench_floor_stage(seat->floor);

    if (!chain->holding) {
        chain->holding = true;
        return bench_wire_delete(raw->wire, chain->key, number);
    }
    raw->running--;
    record->cycles_ever++;
    if (stage == BENCH_STAGE_MEASURE) {
        record->cycles++;
        keep_sample(record, bench_clock_now_ns() - chain->begun_ns);
    }
    if (stage == BENCH_STAGE_REST || bench_wire_is_old(raw->wire))
        return HF_OK;
    return begin_cycle(raw, number);
}

/* Until the slice is over, or the lease is old. */
static int run_chains(struct bench_seat *seat, struct bench_contender *record)
{
    struct raw_etcd *raw = ready_of(seat);
    struct bench_answer answer;

    if (!raw)
        return HF_ESYSTEM;
    for (uint32_t i = 0; i < IN_FLIGHT; i++) {
        name_key(seat->name, i, raw->chains[i].key);
        if (begin_cycle(raw, i) < 0)
            return HF_ESYSTEM;
    }
    while (raw->running > 0) {
        if (bench_wire_next(raw->wire, &answer) < 0)
            return HF_ESYSTEM;
        if (!answer.is_done)
            return fail(EBUSY); /* it was nobody's */
        if (go_on(seat, answer.tag, record) < 0)
            return HF_ESYSTEM;
    }
    return HF_OK;
}

static int run_together(struct bench_seat *seat, struct bench_contender *record)
{
    int status = HF_OK;

    record->cycles = 0;
    record->cycles_ever = 0;
    record->sample_count = 0;
    if (seat->number == 0) {
        while (status == HF_OK && bench_floor_stage(seat->floor) != BENCH_STAGE_REST)
            status = run_chains(seat, record);
        return status;
    }
    bench_floor_wait(seat->floor, BENCH_STAGE_WARM);
    bench_floor_wait(seat->floor, BENCH_STAGE_MEASURE);
    return HF_OK;
}

/* --- a hand-over --- */

static int acquire_turn(struct bench_seat *seat)
{
    struct raw_etcd *raw = ready_of(seat);
    _Atomic uint32_t *word = &seat->floor->token.word;
    uint32_t found;
    int status;

    if (!raw)
        return HF_ESYSTEM;
    while ((found = atomic_load(word)) != seat->number)
        bench_futex_wait(word, found);
    seat->floor->baton.released_ns = bench_clock_now_ns();
    status = put_key(raw);
    if (status == 0)
        return fail(EBUSY);
    return status < 0 ? status : delete_key(raw);
}

static int release_turn(struct bench_seat *seat)
{
    _Atomic uint32_t *word = &seat->floor->token.word;

    atomic_store(word, 1 - seat->number);
    bench_futex_wake(word, 1);
    return HF_OK;
}

static const struct bench_side cycle = { "raw gRPC", acquire, release, NULL, NULL };
static const struct bench_side together = { "raw gRPC", NULL, NULL, NULL, run_together };
static const struct bench_side batch = { "raw gRPC", acquire_all, release_all, NULL, NULL };
static const struct bench_side handover = { "raw gRPC", acquire_turn, release_turn, NULL, NULL };

const struct bench_raw bench_raw_etcd = {
    .engine = "etcd",
    .cycle = &cycle,
    .together = &together,
    .batch = &batch,
    .contended = &cycle,
    .handover = &handover,
    .count_requests = bench_wire_count,
    .counting = 0, /* who counts does not ask by gRPC */
    .sentences = {
        [BENCH_W1] = "the engine's gRPC, blocking: Txn that puts a key if it is absent, then\n"
                     "    DeleteRange",
        [BENCH_W2] = "the same, 16 in flight on one connection, each begun by the answer to the\n"
                     "    one before it",
        [BENCH_W2B] = "the same, one connection: 16 Txns at once, all awaited, then 16\n"
                      "    DeleteRanges",
        [BENCH_W3] = "the same, 8 threads with a connection each, asking again after 1 ms",
        [BENCH_W4] = "the same, 4 processes, asking again after 1 ms",
        [BENCH_W5] = "one Txn and one DeleteRange of it",
    },
};
