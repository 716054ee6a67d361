/* wake_stress.c: is no ring ever lost, between threads and between processes?
 *
 * The news lies in plain memory beside the word, so that the thread sanitizer sees whether a ring
 * really carries it over. A lost ring shows as a wait that ends at a deadline of a minute. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wake.h"
#include "check.h"

#define LONG_NS    (60 * HF__NS_PER_S)
#define HAND_OVERS 20000
#define SLEEPERS   6
#define RINGERS    3
#define ROUNDS     1500
#define NEWS_EACH  4000

/* Two that pass one number to and fro: each adds one when it is its turn. */
struct table {
    struct hf__wake wakes[2];
    uint64_t turn; /* plain: whoever may change it was rung by who did before */
};

struct player {
    struct table *table;
    unsigned side;
    uint32_t spin_pauses;
    bool lost;
};

/* A ring is the turn: the first look must be before the other side can ring. */
static bool play(struct player *player, uint32_t seen)
{
    struct hf__wake *own = &player->table->wakes[player->side];
    struct hf__wake *others = &player->table->wakes[!player->side];

    for (uint64_t i = player->side; i < HAND_OVERS; i += 2) {
        uint64_t deadline_ns = hf__clock_now_ns() + LONG_NS;
        bool spun;

        if (i > 0 && !hf__wake_wait(own, seen, deadline_ns, player->spin_pauses, &spun))
            return false;
        if (player->table->turn != i)
            return false;
        seen = hf__wake_look(own);
        player->table->turn++;
        hf__wake_ring(others);
    }
    return true;
}

static void *play_in_thread(void *context)
{
    struct player *player = context;

    player->lost = !play(player, 0);
    return NULL;
}

static void check_two_threads(uint32_t spin_pauses)
{
    struct table table = { .turn = 0 };
    struct player players[2] = { { &table, 0, spin_pauses, true },
                                 { &table, 1, spin_pauses, true } };
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, play_in_thread, &players[i]), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK(!players[0].lost && !players[1].lost);
    CHECK_EQUAL(table.turn, HAND_OVERS);
}

TEST(wake_stress, two_threads_hand_over_without_a_loss)
{
    check_two_threads(0);
    check_two_threads(1);
    check_two_threads(100);
    check_two_threads(5000);
}

/* The same memory at two addresses: what the kernel must know a word by is not its address. */
static void check_two_processes(uint32_t spin_pauses)
{
    int file = memfd_create("wake", MFD_CLOEXEC);
    struct player players[2] = { { .side = 0, .spin_pauses = spin_pauses },
                                 { .side = 1, .spin_pauses = spin_pauses } };
    pid_t child;
    bool won;

    CHECK(file >= 0);
    CHECK_EQUAL(ftruncate(file, sizeof(struct table)), 0);
    for (int i = 0; i < 2; i++) {
        players[i].table =
            mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(players[i].table != MAP_FAILED);
    }
    CHECK(players[0].table != players[1].table);

    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        check_exit(play(&players[1], 0) ? 0 : 1);
    won = play(&players[0], 0);
    CHECK_EQUAL(check_reap(child), 0);
    CHECK(won);
    CHECK_EQUAL(players[0].table->turn, HAND_OVERS);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(munmap(players[i].table, sizeof(struct table)), 0);
    CHECK_EQUAL(close(file), 0);
}

TEST(wake_stress, two_processes_hand_over_without_a_loss)
{
    check_two_processes(0);
    check_two_processes(100);
    check_two_processes(5000);
}

/* One that calls and several that answer: a round ends when all have heard the call. */
struct class
{
    struct hf__wake bell;
    struct hf__wake desk;
    _Atomic uint32_t round;
    _Atomic uint32_t answers;
    _Atomic uint32_t lost;
};

static bool wait_for_value(struct hf__wake *wake, _Atomic uint32_t *value, uint32_t wanted)
{
    uint64_t deadline_ns = hf__clock_now_ns() + LONG_NS;
    bool in_time = true;

    while (in_time) {
        uint32_t seen = hf__wake_look(wake);
        bool spun;

        if (atomic_load_explicit(value, memory_order_relaxed) == wanted)
            return true;
        in_time = hf__wake_wait(wake, seen, deadline_ns, wanted % 3 * 20, &spun);
    }
    return false;
}

static void *answer_rounds(void *context)
{
    struct class *class = context;

    for (uint32_t round = 1; round <= ROUNDS; round++) {
        if (!wait_for_value(&class->bell, &class->round, round)) {
            atomic_fetch_add(&class->lost, 1);
            return NULL;
        }
        atomic_fetch_add_explicit(&class->answers, 1, memory_order_relaxed);
        hf__wake_ring(&class->desk);
    }
    return NULL;
}

TEST(wake_stress, a_ring_wakes_all_who_sleep)
{
    struct class class = { .round = 0 };
    pthread_t threads[SLEEPERS];
    bool heard = true;

    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, answer_rounds, &class), 0);
    for (uint32_t round = 1; round <= ROUNDS && heard; round++) {
        atomic_store_explicit(&class.round, round, memory_order_relaxed);
        hf__wake_ring(&class.bell);
        heard = wait_for_value(&class.desk, &class.answers, round * SLEEPERS);
    }
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK(heard);
    CHECK_EQUAL(class.lost, 0);
}

/* Several that bring news at any time and several that count it: all must see the last one. */
struct market {
    struct hf__wake wake;
    _Atomic uint32_t news;
    _Atomic uint32_t lost;
};

static void *bring_news(void *context)
{
    struct market *market = context;

    for (int i = 0; i < NEWS_EACH; i++) {
        atomic_fetch_add_explicit(&market->news, 1, memory_order_relaxed);
        hf__wake_ring(&market->wake);
        if (i % 7 == 0)
            (void)usleep(1);
    }
    return NULL;
}

static void *count_news(void *context)
{
    struct market *market = context;

    if (!wait_for_value(&market->wake, &market->news, RINGERS * NEWS_EACH))
        atomic_fetch_add(&market->lost, 1);
    return NULL;
}

TEST(wake_stress, everybody_hears_the_last_of_many_rings)
{
    struct market market = { .news = 0 };
    pthread_t ringers[RINGERS];
    pthread_t sleepers[SLEEPERS];

    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQUAL(pthread_create(&sleepers[i], NULL, count_news, &market), 0);
    for (int i = 0; i < RINGERS; i++)
        CHECK_EQUAL(pthread_create(&ringers[i], NULL, bring_news, &market), 0);
    for (int i = 0; i < RINGERS; i++)
        CHECK_EQUAL(pthread_join(ringers[i], NULL), 0);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_EQUAL(pthread_join(sleepers[i], NULL), 0);
    CHECK_EQUAL(market.lost, 0);
}
