/* wake.c: does a ring end a wait, does nothing else, and does it cost what it should? */
#include "base/wake.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "system.h"

#define LONG_NS (60 * HF__NS_PER_S) /* longer than any healthy machine needs */

TEST(wake, a_ring_changes_what_is_seen)
{
    struct hf__wake wake = { 0 };

    for (int i = 0; i < 1000; i++) {
        uint32_t seen = hf__wake_look(&wake);

        CHECK(hf__wake_look(&wake) == seen);
        hf__wake_ring(&wake);
        CHECK(hf__wake_look(&wake) != seen);
    }
}

TEST(wake, a_ring_between_look_and_wait_is_not_missed)
{
    struct hf__wake wake = { 0 };
    uint32_t seen = hf__wake_look(&wake);
    bool spun = false;

    hf__wake_ring(&wake);
    CHECK(hf__wake_wait(&wake, seen, HF__NEVER, 0, &spun));
    CHECK(spun);
    CHECK(hf__wake_wait(&wake, seen, 0, 10, &spun));
    CHECK(spun);
}

TEST(wake, the_count_may_wrap)
{
    struct hf__wake wake = { UINT32_MAX - 1 };
    uint32_t seen = hf__wake_look(&wake);
    bool spun = false;

    hf__wake_ring(&wake);
    CHECK(hf__wake_look(&wake) == 0);
    CHECK(hf__wake_wait(&wake, seen, HF__NEVER, 0, &spun));
    atomic_store(&wake.word, UINT32_MAX); /* with a sleeper's bit */
    hf__wake_ring(&wake);
    CHECK(hf__wake_look(&wake) == 0);
}

TEST(wake, a_wait_ends_at_its_deadline_and_not_before)
{
    struct hf__wake wake = { 0 };
    bool spun = true;

    for (uint64_t wait_ns = 1; wait_ns <= 30 * HF__NS_PER_MS; wait_ns *= 3) {
        uint64_t deadline_ns = hf__clock_now_ns() + wait_ns;

        CHECK(!hf__wake_wait(&wake, hf__wake_look(&wake), deadline_ns, 5, &spun));
        CHECK(!spun);
        CHECK(hf__clock_now_ns() >= deadline_ns);
    }
}

TEST(wake, a_deadline_in_the_past_costs_no_sleep)
{
    struct hf__wake wake = { 0 };
    bool spun = true;

    system_as_usual();
    CHECK(!hf__wake_wait(&wake, 0, 0, 0, &spun));
    CHECK(!hf__wake_wait(&wake, 0, hf__clock_now_ns() - 1, 0, &spun));
    CHECK(!spun);
    CHECK_EQUAL(system_control.syscalls, 0);
    CHECK_EQUAL(atomic_load(&wake.word), 0);
}

TEST(wake, ringing_where_nobody_sleeps_costs_no_system_call)
{
    struct hf__wake wake = { 0 };

    system_as_usual();
    for (int i = 0; i < 1000; i++)
        hf__wake_ring(&wake);
    CHECK_EQUAL(system_control.syscalls, 0);
}

TEST(wake, a_sleeper_that_left_costs_one_needless_call_and_then_none)
{
    struct hf__wake wake = { 0 };
    bool spun;

    CHECK(!hf__wake_wait(&wake, 0, hf__clock_now_ns() + HF__NS_PER_MS, 0, &spun));
    CHECK_EQUAL(hf__wake_look(&wake) & 1, 1);
    system_as_usual();
    hf__wake_ring(&wake);
    CHECK_EQUAL(system_control.syscalls, 1);
    CHECK_EQUAL(hf__wake_look(&wake) & 1, 0);
    hf__wake_ring(&wake);
    CHECK_EQUAL(system_control.syscalls, 1);
}

/* What was seen may carry the bit of another sleeper, or not: it makes no difference. */
TEST(wake, the_bit_of_a_sleeper_is_no_news)
{
    struct hf__wake wake = { 8 };
    bool spun;

    CHECK(!hf__wake_wait(&wake, 9, hf__clock_now_ns() + HF__NS_PER_MS, 3, &spun));
    CHECK_EQUAL(atomic_load(&wake.word), 9);
    CHECK(!hf__wake_wait(&wake, 8, hf__clock_now_ns() + HF__NS_PER_MS, 3, &spun));
    CHECK_EQUAL(atomic_load(&wake.word), 9);
    CHECK(hf__wake_wait(&wake, 10, HF__NEVER, 3, &spun));
}

struct sleeper {
    struct hf__wake wake;
    uint64_t deadline_ns;
    uint32_t spin_pauses;
    bool answer;
    bool spun;
    _Atomic bool left;
};

static void *sleep_until_rung(void *context)
{
    struct sleeper *sleeper = context;

    sleeper->answer = hf__wake_wait(&sleeper->wake, 0, sleeper->deadline_ns, sleeper->spin_pauses,
                                    &sleeper->spun);
    atomic_store(&sleeper->left, true);
    return NULL;
}

static void wait_until_asleep(struct sleeper *sleeper)
{
    while (!(hf__wake_look(&sleeper->wake) & 1))
        (void)usleep(100);
}

TEST(wake, a_ring_wakes_a_sleeper)
{
    const uint64_t deadlines_ns[] = { HF__NEVER, hf__clock_now_ns() + LONG_NS };

    for (int round = 0; round < 200; round++) {
        struct sleeper sleeper = { .deadline_ns = deadlines_ns[round % 2] };
        pthread_t thread;

        CHECK_EQUAL(pthread_create(&thread, NULL, sleep_until_rung, &sleeper), 0);
        wait_until_asleep(&sleeper);
        hf__wake_ring(&sleeper.wake);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        CHECK(sleeper.answer);
        CHECK(!sleeper.spun);
        CHECK_EQUAL(hf__wake_look(&sleeper.wake), 2);
    }
}

TEST(wake, who_spins_needs_no_system_call)
{
    struct sleeper sleeper = { .deadline_ns = HF__NEVER, .spin_pauses = UINT32_MAX };
    pthread_t thread;

    system_as_usual();
    CHECK_EQUAL(pthread_create(&thread, NULL, sleep_until_rung, &sleeper), 0);
    (void)usleep(1000);
    hf__wake_ring(&sleeper.wake);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(sleeper.answer && sleeper.spun);
    CHECK_EQUAL(system_control.syscalls, 0);
}

static void ignore(int number)
{
    (void)number;
}

/* Without SA_RESTART. The signal may come before the thread sleeps, so it is sent until it works. */
TEST(wake, a_signal_ends_the_wait_early_and_is_no_news)
{
    struct sleeper sleeper = { .deadline_ns = HF__NEVER };
    struct sigaction action = { .sa_handler = ignore };
    struct sigaction before;
    pthread_t thread;

    CHECK_EQUAL(sigaction(SIGUSR1, &action, &before), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, sleep_until_rung, &sleeper), 0);
    wait_until_asleep(&sleeper);
    while (!atomic_load(&sleeper.left)) {
        CHECK_EQUAL(pthread_kill(thread, SIGUSR1), 0);
        (void)usleep(1000);
    }
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(sigaction(SIGUSR1, &before, NULL), 0);
    CHECK(!sleeper.answer);
}
