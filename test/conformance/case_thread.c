/* case_thread.c: may any number of threads use one client, at the same time, in every way? */

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "task.h"
#include "world.h"

#define THREADS 8
#define LOCKS   4
#define ROUNDS  250
#define ASKED   25 /* rounds, where waiters are not woken but ask again */
#define NEW     30

/* Counters that nothing protects but the locks: read, then written, and a lost increment is an
 * exclusion that failed. Atomic only so that no tool mistakes the point of it for a mistake. */
struct counters {
    struct name names[LOCKS];
    _Atomic uint64_t counts[LOCKS];
    _Atomic uint64_t fences[LOCKS];
    bool has_fences;
    int rounds;
};

static void count_up(struct task *task)
{
    struct counters *counters = (struct counters *)task->context;

    for (int i = 0; i < counters->rounds; i++) {
        int lock = i % LOCKS;
        hf_grant *grant = world_take(task->client, counters->names[lock].text, NULL);
        uint64_t count = counters->counts[lock];

        if (i % 16 == 0)
            sched_yield(); /* invite the others in */
        CHECK(!counters->has_fences || hf_grant_fence(grant) > counters->fences[lock]);
        counters->fences[lock] = hf_grant_fence(grant);
        counters->counts[lock] = count + 1;
        world_give_back(grant);
    }
}

/* Where every turn is written to disk and told to somebody, a quarter of them must do: the case
 * waits for its threads no longer than for anything else. So it is with databases through a proxy:
 * from one holder to the next it takes two messages (queue), four (named, advisory) or six
 * (for-update), each waits for the one before, and the proxy keeps each for up to 5 ms. */
static int rounds_of(const struct world *world)
{
    bool is_database = strncmp(world->url, "mysql:", strlen("mysql:")) == 0 ||
                       strncmp(world->url, "postgres:", strlen("postgres:")) == 0;

    if (!(world->promises & HF_PROMISE_WAKEUP))
        return ASKED;
    return world_agrees_first(world) || (is_database && world->is_distant) ? ROUNDS / 4 : ROUNDS;
}

static struct counters new_counters(const struct world *world)
{
    return (struct counters){ .has_fences = world->promises & HF_PROMISE_FENCE,
                              .rounds = rounds_of(world) };
}

CASE(threads_lose_no_increment)
{
    struct counters counters = new_counters(world);
    struct task tasks[THREADS];
    uint64_t total = 0;

    for (int i = 0; i < LOCKS; i++) {
        char suffix[2] = { (char)('a' + i), '\0' };

        counters.names[i] = world_name(world, suffix);
    }
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (struct task){ .client = world->client, .run = count_up, .context = &counters };
        task_start(&tasks[i]);
    }
    for (int i = 0; i < THREADS; i++)
        task_join(&tasks[i]);
    for (int i = 0; i < LOCKS; i++)
        total += counters.counts[i];
    CHECK_NUMBER(THREADS * counters.rounds, total);
    CHECK_NUMBER(THREADS * counters.rounds, world_stats(world->client).acquired);
    CHECK_NUMBER(0, world_stats(world->client).rescued);
}

CASE(threads_with_clients_of_their_own_lose_no_increment)
{
    struct counters counters = new_counters(world);
    struct task tasks[THREADS];
    uint64_t total = 0;

    for (int i = 0; i < LOCKS; i++)
        counters.names[i] = world_name(world, "one-for-all");
    for (int i = 0; i < THREADS; i++) {
        tasks[i] =
            (struct task){ .client = world_open(world), .run = count_up, .context = &counters };
        task_start(&tasks[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        task_join(&tasks[i]);
        hf_close(tasks[i].client);
    }
    for (int i = 0; i < LOCKS; i++)
        total += counters.counts[i];
    CHECK_NUMBER(THREADS * counters.rounds, total);
}

/* Everything at once, on two names: what matters is that each call ends as documented. */
struct chaos {
    struct name names[2];
    atomic_int over;
};

static void live_wildly(struct task *task)
{
    struct chaos *chaos = (struct chaos *)task->context;
    unsigned seed = (unsigned)(uintptr_t)task;

    while (!atomic_load(&chaos->over)) {
        struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
        const char *name = chaos->names[(seed = seed * 1103515245u + 12345u) >> 16 & 1].text;
        hf_claim *claim = NULL;
        hf_grant *grant = NULL;
        int status;

        options.wait_ms = seed >> 20 & 1 ? 5 : HF_FOREVER;
        CHECK_STATUS(HF_OK, hf_claim_start(task->client, name, &options, &claim));
        if (seed >> 21 & 1)
            hf_claim_cancel(claim);
        status = hf_claim_wait(claim, HF_FOREVER, &grant);
        /* Unreachable: a store that needs more than these 5 ms for its first answer. */
        CHECK(status == HF_OK || status == HF_ETIMEDOUT || status == HF_ECANCELLED ||
              status == HF_EUNREACHABLE || status == HF_EUNKNOWN);
        CHECK((status == HF_OK) == (grant != NULL));
        if (grant && seed >> 22 & 1)
            hf_release_start(grant);
        else if (grant)
            world_give_back(grant);
        hf_claim_free(claim);
    }
}

static void drain(struct task *task)
{
    struct chaos *chaos = (struct chaos *)task->context;
    struct hf_event event = { .struct_size = sizeof event };

    while (!atomic_load(&chaos->over)) {
        if (hf_client_next_event(task->client, &event) == 0)
            world_sleep_ms(1);
    }
}

CASE(threads_may_use_one_client_in_every_way_at_once)
{
    struct chaos chaos = { .names = { world_name(world, "a"), world_name(world, "b") } };
    struct task tasks[THREADS];

    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (struct task){ .client = world->client,
                                  .run = i == 0 ? drain : live_wildly,
                                  .context = &chaos };
        task_start(&tasks[i]);
    }
    world_sleep_ms(1000);
    atomic_store(&chaos.over, 1);
    for (int i = 0; i < THREADS; i++)
        task_join(&tasks[i]);
    WAIT_UNTIL(world_stats(world->client).held == 0);
    WAIT_UNTIL(world_stats(world->client).waiting == 0);
    CHECK(world_stats(world->client).acquired > 0);
}

struct shared_grant {
    hf_grant *grant;
    int64_t lease_ms;
};

static void extend_often(struct task *task)
{
    struct shared_grant *shared = (struct shared_grant *)task->context;

    for (int i = 0; i < 100; i++)
        CHECK_STATUS(HF_OK, hf_grant_extend(shared->grant, shared->lease_ms));
}

CASE(threads_may_extend_one_grant_at_once)
{
    struct name name = world_name(world, "lock");
    struct shared_grant shared = { .lease_ms = 30000 };
    struct hf_acquire_options options = world_fixed(world, shared.lease_ms);
    struct task tasks[4];

    shared.grant = world_take(world->client, name.text, &options);
    for (int i = 0; i < 4; i++) {
        tasks[i] = (struct task){ .run = extend_often, .context = &shared };
        task_start(&tasks[i]);
    }
    for (int i = 0; i < 4; i++)
        task_join(&tasks[i]);
    CHECK(hf_grant_valid(shared.grant));
    world_give_back(shared.grant);
}

CASE(a_client_may_be_closed_while_its_threads_are_busy)
{
    for (int round = 0; round < 10; round++) {
        struct name name = world_name(world, "lock");
        hf_client *client = world_open(world);
        hf_grant *held = world_take(client, name.text, NULL);
        struct task tasks[4];

        for (int i = 0; i < 4; i++) {
            tasks[i] = (struct task){ .client = client, .name = name.text };
            task_start(&tasks[i]);
        }
        WAIT_UNTIL(world_stats(client).waiting == 4);
        hf_close(client);
        for (int i = 0; i < 4; i++)
            CHECK_STATUS(HF_ECANCELLED, task_join(&tasks[i]));
        CHECK_STATUS(HF_ELOST, hf_release(held));
    }
    CHECK_NUMBER(0, world_stats(world->client).held);
}

/* Names that nobody has used before, all asked for at the same instant. */
struct meeting {
    struct name names[NEW];
    pthread_barrier_t barrier;
    atomic_int winners[NEW];
};

static void meet(struct task *task)
{
    struct meeting *meeting = (struct meeting *)task->context;
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = 0;
    for (int i = 0; i < NEW; i++) {
        hf_grant *grant = NULL;
        int status;

        pthread_barrier_wait(&meeting->barrier);
        status = hf_acquire(task->client, meeting->names[i].text, &options, &grant);
        CHECK(status == HF_OK || status == HF_EBUSY);
        atomic_fetch_add(&meeting->winners[i], status == HF_OK);
        pthread_barrier_wait(&meeting->barrier);
        CHECK_STATUS(HF_OK, hf_release(grant));
    }
}

CASE(clients_that_meet_at_a_new_name_have_one_winner)
{
    struct meeting meeting = { 0 };
    struct task tasks[THREADS];

    for (int i = 0; i < NEW; i++) {
        char suffix[16];

        snprintf(suffix, sizeof suffix, "new-%d", i);
        meeting.names[i] = world_name(world, suffix);
    }
    CHECK(pthread_barrier_init(&meeting.barrier, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (struct task){ .client = world_open(world), .run = meet, .context = &meeting };
        task_start(&tasks[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        task_join(&tasks[i]);
        hf_close(tasks[i].client);
    }
    pthread_barrier_destroy(&meeting.barrier);
    for (int i = 0; i < NEW; i++) {
        int winners = atomic_load(&meeting.winners[i]);

        CHECK(winners <= 1);
        CHECK(winners == 1 || world_caveat_names(world, "none may win"));
    }
}

/* The user's handlers run in the user's threads: blocked there, a signal stays pending. */
CASE(the_librarys_thread_takes_no_signals)
{
    struct name name = world_name(world, "lock");
    hf_grant *grant = world_take(world->client, name.text, NULL);
    sigset_t wanted;
    sigset_t pending;
    int taken = 0;

    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1); /* whoever takes it dies of it */
    CHECK(pthread_sigmask(SIG_BLOCK, &wanted, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    world_sleep_ms(A_WHILE_MS);
    CHECK(sigpending(&pending) == 0);
    CHECK_NUMBER(1, sigismember(&pending, SIGUSR1));
    CHECK(sigwait(&wanted, &taken) == 0);
    CHECK_NUMBER(SIGUSR1, taken);
    world_give_back(grant);
}
