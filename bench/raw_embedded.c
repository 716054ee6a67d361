/* raw_embedded.c: what is the embedded engine measured against?
 *
 * flock(2): every contender has an open file description of its own. One system call takes the
 * lock, one gives it back; it is not in order of arrival.
 *
 * The chain: a lock in shared memory, strictly in order of arrival. A ticket is drawn, and its
 * owner sleeps on the word of that ticket until it holds the ticket's number; whoever leaves
 * draws its next ticket, writes the number that comes next, and wakes that one sleeper. So
 * everybody is in line all the time, and every cycle is one hand-over by one wake; drawing only
 * when it comes back, a process that is stopped in its wake would be out of line, and the others
 * would run through uncontended, a hundred times as fast. At the end of a slice each owner of a
 * ticket passes it on. Nobody spins. It survives no death, and gives no fence: it is the least
 * that could work, not a lock to use.
 *
 * The token: one word that names one of two, one sleeper, one wake. */
#include <errno.h>
#include <string.h>
#include <sys/file.h>

#include "futex.h"
#include "side.h"

static int change_flock(int fd, int operation)
{
    int status;

    do {
        status = flock(fd, operation);
    } while (status < 0 && errno == EINTR);
    return status < 0 ? HF_ESYSTEM : HF_OK;
}

static int acquire_flock(struct bench_seat *seat)
{
    return change_flock(seat->fd, LOCK_EX);
}

static int release_flock(struct bench_seat *seat)
{
    return change_flock(seat->fd, LOCK_UN);
}

static int change_all(struct bench_seat *seat, int operation)
{
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (change_flock(seat->batch.fds[i], operation) < 0)
            return HF_ESYSTEM;
    }
    return HF_OK;
}

static int acquire_all(struct bench_seat *seat)
{
    return change_all(seat, LOCK_EX);
}

static int release_all(struct bench_seat *seat)
{
    return change_all(seat, LOCK_UN);
}

static _Atomic uint32_t *turn_of(struct bench_chain *chain, uint32_t ticket)
{
    return &chain->turns[ticket % BENCH_CONTENDERS_MAX].word;
}

static void draw_ticket(struct bench_seat *seat)
{
    seat->ticket = atomic_fetch_add(&seat->floor->chain.next, 1);
    seat->in_line = true;
}

static int acquire_chain(struct bench_seat *seat)
{
    _Atomic uint32_t *word;
    uint32_t found;

    if (!seat->in_line)
        draw_ticket(seat);
    word = turn_of(&seat->floor->chain, seat->ticket);
    while ((found = atomic_load(word)) != seat->ticket)
        bench_futex_wait(word, found);
    return HF_OK;
}

static void call_ticket(struct bench_seat *seat, uint32_t ticket)
{
    _Atomic uint32_t *word = turn_of(&seat->floor->chain, ticket);

    atomic_store(word, ticket);
    bench_futex_wake(word, 1);
}

static int release_chain(struct bench_seat *seat)
{
    uint32_t held = seat->ticket;

    draw_ticket(seat);
    call_ticket(seat, held + 1);
    return HF_OK;
}

static int finish_chain(struct bench_seat *seat)
{
    if (!seat->in_line)
        return HF_OK;
    acquire_chain(seat);
    seat->in_line = false;
    call_ticket(seat, seat->ticket + 1);
    return HF_OK;
}

static int acquire_token(struct bench_seat *seat)
{
    _Atomic uint32_t *word = &seat->floor->token.word;
    uint32_t found;

    while ((found = atomic_load(word)) != seat->number)
        bench_futex_wait(word, found);
    return HF_OK;
}

static int release_token(struct bench_seat *seat)
{
    _Atomic uint32_t *word = &seat->floor->token.word;

    atomic_store(word, 1 - seat->number);
    bench_futex_wake(word, 1);
    return HF_OK;
}

const struct bench_side bench_side_flock = { "flock(2)", acquire_flock, release_flock, NULL, NULL };
static const struct bench_side batch = { "flock(2)", acquire_all, release_all, NULL, NULL };
const struct bench_side bench_side_chain = { "futex chain", acquire_chain, release_chain,
                                             finish_chain, NULL };
const struct bench_side bench_side_token = { "futex wake", acquire_token, release_token, NULL,
                                             NULL };

static const char chain_sentence[] =
    "a strict-FIFO chain of bare futex wakes: all are in line all the time, each asleep on\n"
    "    a word of its own; who releases wakes the next one; nobody spins";

static const struct bench_raw embedded = {
    .engine = "embedded",
    .cycle = &bench_side_flock,
    .batch = &batch,
    .contended = &bench_side_chain,
    .beside = &bench_side_flock,
    .handover = &bench_side_token,
    .idle = &bench_side_flock,
    .sentences = {
        [BENCH_W1] = "flock(2) on a file",
        [BENCH_W2] = "flock(2) on 16 files",
        [BENCH_W2B] = "flock(2) on 16 files, one after the other",
        [BENCH_W3] = "flock(2) on one file, each thread with a descriptor of its own",
        [BENCH_W4] = chain_sentence,
        [BENCH_W5] = "a bare futex wake from one process to the other",
        [BENCH_W6] = "200 threads that are blocked in flock(2)",
    },
};

static const struct bench_raw *const raws[] = {
    &embedded,
    &bench_raw_etcd,
#ifdef BENCH_HIREDIS
    &bench_raw_redis,
    &bench_raw_redlock,
#endif
#ifdef BENCH_LIBZOOKEEPER
    &bench_raw_zookeeper,
#endif
#ifdef BENCH_MARIADB
    &bench_raw_mysql,
#endif
#if HF_HAS_POSTGRES
    &bench_raw_postgres,
#endif
};

const struct bench_raw *bench_raw_find(const char *engine)
{
    for (size_t i = 0; i < sizeof(raws) / sizeof(*raws); i++) {
        if (strcmp(engine, raws[i]->engine) == 0)
            return raws[i];
    }
    return NULL;
}
