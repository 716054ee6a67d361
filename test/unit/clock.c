/* clock.c: does every deadline err on the stated side? */
#include "base/clock.h"

#include <time.h>

#include "check.h"
#include "dice.h"

#define NOW_NS (123456789 * HF__NS_PER_S + 987654321)

__extension__ typedef unsigned __int128 uint128;

static uint64_t read_boottime_ns(void)
{
    struct timespec now;

    CHECK_EQUAL(clock_gettime(CLOCK_BOOTTIME, &now), 0);
    return (uint64_t)now.tv_sec * HF__NS_PER_S + (uint64_t)now.tv_nsec;
}

TEST(clock, is_the_one_that_counts_while_the_machine_sleeps)
{
    for (int i = 0; i < 1000; i++) {
        uint64_t before_ns = read_boottime_ns();
        uint64_t now_ns = hf__clock_now_ns();
        uint64_t after_ns = read_boottime_ns();

        CHECK(before_ns <= now_ns);
        CHECK(now_ns <= after_ns);
    }
}

/* As long as the tick is the same, what was read before is no older than a tick. */
TEST(clock, a_tick_is_short_and_time_does_not_stand_still)
{
    for (int i = 0; i < 5; i++) {
        uint64_t tick = hf__clock_tick();
        uint64_t read_ns = hf__clock_now_ns();
        uint64_t same_ns = read_ns;
        uint64_t next = tick;

        while (next == tick && same_ns < read_ns + 10 * HF__NS_PER_S) {
            same_ns = hf__clock_now_ns();
            next = hf__clock_tick();
        }
        CHECK(next > tick);
    }
}

TEST(clock, negative_milliseconds_are_never)
{
    CHECK(hf__clock_after_ms(NOW_NS, -1) == HF__NEVER);
    CHECK(hf__clock_after_ms(0, INT64_MIN) == HF__NEVER);
    CHECK(hf__clock_after_ms(HF__NEVER, -1) == HF__NEVER);
}

TEST(clock, a_sum_never_wraps)
{
    for (int now_bit = 0; now_bit < 64; now_bit++) {
        for (int ms_bit = 0; ms_bit < 63; ms_bit++) {
            uint64_t now_ns = (1ull << now_bit) + 1;
            int64_t ms = (int64_t)(1ull << ms_bit) - 1;
            uint64_t then_ns = hf__clock_after_ms(now_ns, ms);
            uint128 exact = now_ns;

            exact += (uint128)(uint64_t)ms * HF__NS_PER_MS;
            CHECK(then_ns == (exact > HF__NEVER ? HF__NEVER : (uint64_t)exact));
        }
    }
    CHECK(hf__clock_after_ms(HF__NEVER - HF__NS_PER_MS, 1) == HF__NEVER);
    CHECK(hf__clock_after_ms(HF__NEVER - HF__NS_PER_MS - 1, 1) == HF__NEVER - 1);
    CHECK(hf__clock_after_ms(HF__NEVER, 0) == HF__NEVER);
    CHECK(hf__clock_after_ms(0, INT64_MAX) == HF__NEVER);
    CHECK(hf__clock_after_ms(NOW_NS, 0) == NOW_NS);
}

TEST(clock, a_wait_is_rounded_up_and_a_validity_down)
{
    struct dice dice = { 1 };

    for (int i = 0; i < 100000; i++) {
        uint64_t apart_ns = dice_roll(&dice) >> dice_below(&dice, 64);
        uint64_t then_ns = apart_ns < HF__NEVER - NOW_NS ? NOW_NS + apart_ns : HF__NEVER - 1;
        uint64_t wait_ms = (uint64_t)hf__clock_wait_ms(NOW_NS, then_ns);
        uint64_t left_ms = (uint64_t)hf__clock_left_ms(NOW_NS, then_ns);

        apart_ns = then_ns - NOW_NS;
        CHECK(wait_ms >= apart_ns / HF__NS_PER_MS);
        CHECK(wait_ms * HF__NS_PER_MS >= apart_ns || wait_ms > UINT64_MAX / HF__NS_PER_MS);
        CHECK(wait_ms == 0 || (wait_ms - 1) * HF__NS_PER_MS < apart_ns);
        CHECK(left_ms * HF__NS_PER_MS <= apart_ns);
        CHECK(apart_ns - left_ms * HF__NS_PER_MS < HF__NS_PER_MS);
    }
}

TEST(clock, one_nanosecond_is_a_millisecond_to_wait_and_none_that_is_left)
{
    CHECK_EQUAL(hf__clock_wait_ms(NOW_NS, NOW_NS + 1), 1);
    CHECK_EQUAL(hf__clock_left_ms(NOW_NS, NOW_NS + 1), 0);
    CHECK_EQUAL(hf__clock_wait_ms(NOW_NS, NOW_NS + HF__NS_PER_MS), 1);
    CHECK_EQUAL(hf__clock_left_ms(NOW_NS, NOW_NS + HF__NS_PER_MS), 1);
    CHECK_EQUAL(hf__clock_left_ms(NOW_NS, NOW_NS + HF__NS_PER_MS - 1), 0);
}

TEST(clock, the_past_gives_zero)
{
    CHECK_EQUAL(hf__clock_wait_ms(NOW_NS, NOW_NS), 0);
    CHECK_EQUAL(hf__clock_left_ms(NOW_NS, NOW_NS), 0);
    CHECK_EQUAL(hf__clock_wait_ms(NOW_NS, NOW_NS - 1), 0);
    CHECK_EQUAL(hf__clock_left_ms(NOW_NS, NOW_NS - 1), 0);
    CHECK_EQUAL(hf__clock_wait_ms(NOW_NS, 0), 0);
    CHECK_EQUAL(hf__clock_left_ms(NOW_NS, 0), 0);
}

TEST(clock, never_is_waited_for_without_end_and_left_for_ever)
{
    CHECK_EQUAL(hf__clock_wait_ms(NOW_NS, HF__NEVER), -1);
    CHECK(hf__clock_left_ms(NOW_NS, HF__NEVER) == INT64_MAX);
    CHECK_EQUAL(hf__clock_wait_ms(HF__NEVER, HF__NEVER), -1);
}
