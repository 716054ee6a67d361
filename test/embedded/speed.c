/* speed.c: how long does it take? Prints; decides nothing.
 *
 *     speed            uncontended cycle; four processes on one lock, beside a bare futex chain and
 *                      flock(2); hand-off between two, beside a bare futex wake
 *
 * The contended part blocks as a client would: it spins on the wake word first, then sleeps. */
#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "world.h"

#define PROCESSES   4
#define RUN_NS      (1 * HF__NS_PER_S)
#define SPIN_PAUSES 2000 /* of the chain */
#define SPIN_MIN    16
#define SPIN_MAX    4096
#define CYCLES      20000u
#define TOKENS      256u
#define HAND_OFFS   20000u

extern const struct hf__engine hf__embedded_engine;

struct shared {
    _Atomic uint32_t go;
    _Atomic uint32_t stop;
    _Atomic uint64_t cycles[PROCESSES];
    _Atomic uint64_t slept[PROCESSES];
    _Atomic uint64_t started_ns;
    uint64_t samples[HAND_OFFS];
    _Atomic uint32_t sample_count;
    struct {
        struct hf__wake wake;
        char pad[124];
    } chain[PROCESSES];
};

static struct hf__request request_for(enum hf__request_kind kind, const uint8_t *token)
{
    return (struct hf__request){
        .ticket = { .kind = kind, .claim_id = 1, .round = 1, .sent_ns = 1 },
        .name = "bench/lock",
        .name_bytes = 10,
        .token = token,
        .queueing = true,
        .blocking = true,
        .purpose = "speed",
        .lease_ns = HF__NS_PER_S,
        .deadline_ns = HF__NEVER,
    };
}

/* The best of many short runs: others use this machine too. */
static double uncontended_once(struct mate *mate, const uint8_t (*tokens)[16], int advances)
{
    struct hf__request claim = request_for(HF__REQUEST_CLAIM, NULL);
    struct hf__request release = request_for(HF__REQUEST_RELEASE, NULL);
    struct hf__reply reply;
    uint64_t start_ns = hf__clock_now_ns();

    for (uint32_t i = 0; i < CYCLES; i++) {
        claim.token = tokens[i % TOKENS];
        release.token = claim.token;
        if (hf__embedded_engine.submit(mate->conn, &claim) != HF_OK)
            abort();
        for (int j = 0; j < advances; j++)
            (void)hf__embedded_engine.advance(mate->conn, 1, &reply);
        if (hf__embedded_engine.submit(mate->conn, &release) != HF_OK)
            abort();
        for (int j = 0; j < advances; j++)
            (void)hf__embedded_engine.advance(mate->conn, 1, &reply);
    }
    return (double)(hf__clock_now_ns() - start_ns) / (double)CYCLES;
}

static void uncontended(struct mate *mate)
{
    static uint8_t tokens[TOKENS][16];

    hf__env_random(&mate->world->env, tokens, sizeof(tokens));
    for (int advances = 1; advances <= 2; advances++) {
        double best_ns = 1e9;

        for (uint32_t run = 0; run < 200; run++) {
            double ns = uncontended_once(mate, (const uint8_t(*)[16])tokens, advances);

            best_ns = ns < best_ns ? ns : best_ns;
        }
        printf("uncontended: %.1f ns a cycle (%d x advance after each submit)\n", best_ns,
               advances);
    }
}

/* As a blocked caller: until the claim is granted. */
static uint64_t acquire(struct hf__conn *conn, const uint8_t *token, struct shared *shared,
                        int self)
{
    struct hf__request claim = request_for(HF__REQUEST_CLAIM, token);
    struct hf__reply reply = { 0 };
    struct hf__wake *wake = NULL;
    static uint32_t pauses[PROCESSES] = { 256, 256, 256, 256 };

    assert(hf__embedded_engine.submit(conn, &claim) == HF_OK);
    while (true) {
        uint32_t seen = wake ? hf__wake_look(wake) : 0;
        bool spun;

        while (hf__embedded_engine.advance(conn, hf__clock_now_ns(), &reply) == 1) {
            if (reply.kind == HF__REPLY_GRANTED)
                return reply.fence;
            assert(reply.kind == HF__REPLY_QUEUED);
            wake = reply.wake;
            seen = hf__wake_look(wake);
        }
        assert(wake);
        hf__wake_wait(wake, seen, hf__clock_now_ns() + HF__NS_PER_S, pauses[self], &spun);
        if (!spun)
            atomic_fetch_add(&shared->slept[self], 1);
        if (spun && pauses[self] < SPIN_MAX) /* as api/loop.c does */
            pauses[self] *= 2;
        if (!spun && pauses[self] > SPIN_MIN)
            pauses[self] /= 2;
    }
}

static void release(struct hf__conn *conn, const uint8_t *token)
{
    struct hf__request request = request_for(HF__REQUEST_RELEASE, token);
    struct hf__reply reply;

    assert(hf__embedded_engine.submit(conn, &request) == HF_OK);
    while (hf__embedded_engine.advance(conn, hf__clock_now_ns(), &reply) == 1)
        ;
}

static void contend(struct world *world, struct shared *shared, int self)
{
    struct mate mate;
    uint8_t token[16] = { 0 };

    assert(mate_open(&mate, world, "speed") == HF_OK);
    token[15] = (uint8_t)self;
    while (!atomic_load(&shared->go))
        ;
    for (uint64_t i = 0; !atomic_load(&shared->stop); i++) {
        memcpy(token, &i, sizeof(i));
        acquire(mate.conn, token, shared, self);
        release(mate.conn, token);
        atomic_fetch_add_explicit(&shared->cycles[self], 1, memory_order_relaxed);
    }
    if (mate.conn->rescued)
        printf("  rescued: %llu\n", (unsigned long long)mate.conn->rescued);
    mate_close(&mate);
}

static void contend_flock(struct world *world, struct shared *shared, int self)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/flock", world->directory);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (!atomic_load(&shared->go))
        ;
    while (!atomic_load(&shared->stop)) {
        flock(fd, LOCK_EX);
        flock(fd, LOCK_UN);
        atomic_fetch_add_explicit(&shared->cycles[self], 1, memory_order_relaxed);
    }
}

/* The least that a strict FIFO among four can be: each wakes the next. */
static void contend_chain(struct world *world, struct shared *shared, int self)
{
    struct hf__wake *mine = &shared->chain[self].wake;
    struct hf__wake *next = &shared->chain[(self + 1) % PROCESSES].wake;
    uint32_t seen = 0;
    bool spun;

    (void)world;
    while (!atomic_load(&shared->go))
        ;
    if (self == 0)
        hf__wake_ring(next);
    while (!atomic_load(&shared->stop)) {
        if (!hf__wake_wait(mine, seen, hf__clock_now_ns() + HF__NS_PER_S / 10, SPIN_PAUSES, &spun))
            continue;
        seen = hf__wake_look(mine);
        atomic_fetch_add_explicit(&shared->cycles[self], 1, memory_order_relaxed);
        hf__wake_ring(next);
    }
}

static double run(struct world *world, const char *what, int count,
                  void (*body)(struct world *, struct shared *, int))
{
    struct shared *shared = world_share(sizeof(*shared));
    pid_t children[PROCESSES];
    uint64_t total = 0;
    uint64_t slept = 0;

    for (int i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct hf__env env;

            assert(hf__env_init(&env) == HF_OK);
            world->env = env;
            body(world, shared, i);
            _exit(0);
        }
    }
    usleep(20000);
    atomic_store(&shared->go, 1);
    usleep((useconds_t)(RUN_NS / 1000));
    atomic_store(&shared->stop, 1);
    printf("%-12s %d processes:", what, count);
    for (int i = 0; i < count; i++) {
        waitpid(children[i], NULL, 0);
        total += shared->cycles[i];
        slept += shared->slept[i];
    }
    for (int i = 0; i < count; i++)
        printf(" %4.1f%%", 100.0 * (double)shared->cycles[i] / (double)total);
    printf("  %.3f M cycles/s, slept %.3f M\n", (double)total / 1e6, (double)slept / 1e6);
    world_unshare(shared, sizeof(*shared));
    return (double)total;
}

/* --- hand-off --- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void report(const char *what, struct shared *shared)
{
    uint32_t count = shared->sample_count;

    qsort(shared->samples, count, sizeof(*shared->samples), compare);
    printf("%-12s p50 %.2f us, p99 %.2f us (%u)\n", what, (double)shared->samples[count / 2] / 1e3,
           (double)shared->samples[count * 99ull / 100] / 1e3, count);
}

/* Two processes take turns; the time from the start of release to the other's return of acquire.
 * The waiter sleeps when it is released (a pause of the holder sees to it). */
static void hand_off(struct world *world, struct shared *shared, int self)
{
    struct mate mate;
    uint8_t token[16] = { 0 };

    assert(mate_open(&mate, world, "speed") == HF_OK);
    token[15] = (uint8_t)self;
    while (!atomic_load(&shared->go))
        ;
    for (uint64_t i = 0; atomic_load(&shared->sample_count) < HAND_OFFS / 10; i++) {
        uint64_t started_ns;

        memcpy(token, &i, sizeof(i));
        acquire(mate.conn, token, shared, self);
        started_ns = atomic_exchange(&shared->started_ns, 0);
        if (started_ns)
            shared->samples[atomic_fetch_add(&shared->sample_count, 1)] =
                hf__clock_now_ns() - started_ns;
        usleep(200);
        atomic_store(&shared->started_ns, hf__clock_now_ns());
        release(mate.conn, token);
    }
    mate_close(&mate);
}

static void hand_off_bare(struct world *world, struct shared *shared, int self)
{
    struct hf__wake *mine = &shared->chain[self].wake;
    struct hf__wake *next = &shared->chain[1 - self].wake;
    uint32_t seen = 0;
    bool spun;

    (void)world;
    while (!atomic_load(&shared->go))
        ;
    if (self == 0) {
        atomic_store(&shared->started_ns, hf__clock_now_ns());
        hf__wake_ring(next);
    }
    while (atomic_load(&shared->sample_count) < HAND_OFFS / 10) {
        if (!hf__wake_wait(mine, seen, hf__clock_now_ns() + HF__NS_PER_S / 10, 0, &spun))
            continue;
        seen = hf__wake_look(mine);
        shared->samples[atomic_fetch_add(&shared->sample_count, 1)] =
            hf__clock_now_ns() - atomic_load(&shared->started_ns);
        usleep(200);
        atomic_store(&shared->started_ns, hf__clock_now_ns());
        hf__wake_ring(next);
    }
}

static void run_hand_off(struct world *world, const char *what,
                         void (*body)(struct world *, struct shared *, int))
{
    struct shared *shared = world_share(sizeof(*shared));
    pid_t children[2];

    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct hf__env env;

            assert(hf__env_init(&env) == HF_OK);
            world->env = env;
            body(world, shared, i);
            _exit(0);
        }
    }
    usleep(20000);
    atomic_store(&shared->go, 1);
    for (int i = 0; i < 2; i++)
        waitpid(children[i], NULL, 0);
    report(what, shared);
    world_unshare(shared, sizeof(*shared));
}

int main(int argc, char **argv)
{
    struct world world;
    struct mate mate;

    (void)argv;
    world_make(&world);
    assert(mate_open(&mate, &world, "speed") == HF_OK);
    uncontended(&mate);
    mate_close(&mate);
    if (argc > 1)
        return 0;
    for (int i = 0; i < 3; i++) {
        run(&world, "embedded", PROCESSES, contend);
        run(&world, "futex chain", PROCESSES, contend_chain);
        run(&world, "flock", PROCESSES, contend_flock);
    }
    run(&world, "embedded", 2, contend);
    for (int i = 0; i < 2; i++) {
        run_hand_off(&world, "hand-off", hand_off);
        run_hand_off(&world, "bare futex", hand_off_bare);
    }
    world_end(&world);
    return 0;
}
