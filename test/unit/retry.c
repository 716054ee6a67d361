/* retry.c: do pauses grow, stay within their limits, and differ among those who failed together? */
#include "check.h"
#include "core/core.h"

#define NOW_NS   (7 * HF__NS_PER_S)
#define FIRST_NS (20 * HF__NS_PER_MS)
#define MOST_NS  (500 * HF__NS_PER_MS)
#define DRAWS    2000

static uint64_t pause_of(uint32_t tries, uint64_t *chance)
{
    return hf__retry_after(NOW_NS, tries, FIRST_NS, MOST_NS, chance) - NOW_NS;
}

/* The whole pause after so many tries, as the words of retry.c have it. */
static uint64_t whole_of(uint32_t tries)
{
    uint64_t whole_ns = FIRST_NS;

    for (uint32_t i = 0; i < tries && whole_ns < MOST_NS; i++)
        whole_ns *= 2;
    return whole_ns < MOST_NS ? whole_ns : MOST_NS;
}

TEST(retry, lies_between_a_half_and_the_whole_and_uses_both_ends)
{
    uint64_t chance = 1;

    for (uint32_t tries = 0; tries < 40; tries++) {
        uint64_t whole_ns = whole_of(tries);
        uint32_t early = 0;
        uint32_t late = 0;

        for (int i = 0; i < DRAWS; i++) {
            uint64_t pause_ns = pause_of(tries, &chance);

            CHECK(pause_ns >= whole_ns / 2 && pause_ns <= whole_ns);
            early += pause_ns < whole_ns / 2 + whole_ns / 16;
            late += pause_ns > whole_ns - whole_ns / 16;
        }
        CHECK(early > DRAWS / 16 && late > DRAWS / 16); /* an eighth each would be even */
    }
}

TEST(retry, grows_to_the_most_and_stays_there)
{
    uint64_t chance = 99;

    CHECK(whole_of(4) < MOST_NS && whole_of(5) == MOST_NS);
    for (uint32_t tries = 5; tries < 100; tries++)
        CHECK(pause_of(tries, &chance) <= MOST_NS);
    CHECK(pause_of(UINT32_MAX, &chance) >= MOST_NS / 2);
}

TEST(retry, those_who_failed_together_do_not_come_back_together)
{
    uint64_t pauses[64];

    for (uint64_t i = 0; i < 64; i++) {
        uint64_t chance = i + 1;

        pauses[i] = pause_of(3, &chance);
        for (uint64_t j = 0; j < i; j++)
            CHECK(pauses[i] != pauses[j]);
    }
}

TEST(retry, the_same_chance_gives_the_same_pause)
{
    uint64_t one = 5;
    uint64_t other = 5;

    for (uint32_t tries = 0; tries < 100; tries++)
        CHECK(pause_of(tries, &one) == pause_of(tries, &other));
    CHECK(one == other && one != 5);
}

TEST(retry, a_pause_that_cannot_grow_still_varies_within_it)
{
    uint64_t chance = 3;

    for (int i = 0; i < DRAWS; i++) {
        uint64_t at_ns = hf__retry_after(NOW_NS, 0, 1, 1, &chance);

        CHECK(at_ns >= NOW_NS && at_ns <= NOW_NS + 1);
    }
}

TEST(retry, nonsense_is_refused)
{
    uint64_t chance = 0;

    CHECK_ABORTS(hf__retry_after(NOW_NS, 0, FIRST_NS, MOST_NS, &chance)); /* it would stay 0 */
    chance = 1;
    CHECK_ABORTS(hf__retry_after(NOW_NS, 0, MOST_NS, FIRST_NS, &chance));
    CHECK_ABORTS(hf__retry_after(NOW_NS, 0, 0, FIRST_NS, &chance));
}
