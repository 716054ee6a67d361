/* validity.c: does a holder stop believing before the store stops holding, for every lease? */
#include "check.h"
#include "core/core.h"

#define SENT_NS      (1000 * HF__NS_PER_S)
#define LEASE_NS_MIN (HF_LEASE_MS_MIN * HF__NS_PER_MS)
#define LEASE_NS_MAX (HF_LEASE_MS_MAX * HF__NS_PER_MS)

TEST(validity, ends_before_the_lease_does)
{
    for (uint64_t lease_ns = LEASE_NS_MIN; lease_ns <= LEASE_NS_MAX; lease_ns *= 2) {
        for (uint64_t odd_ns = 0; odd_ns < 200; odd_ns++) {
            uint64_t until_ns = hf__validity_until(SENT_NS, lease_ns + odd_ns);

            CHECK(until_ns > SENT_NS);
            CHECK(until_ns < SENT_NS + lease_ns + odd_ns);
        }
    }
}

/* A store whose clock runs a hundredth faster than ours ends the lease when ours has counted that
 * much less: by then we must have stopped, with two milliseconds to spare. */
TEST(validity, a_clock_that_is_a_hundredth_faster_is_covered)
{
    for (uint64_t lease_ns = LEASE_NS_MIN; lease_ns <= LEASE_NS_MAX; lease_ns = lease_ns * 3 / 2) {
        uint64_t ends_ns = SENT_NS + lease_ns - lease_ns / 100;

        CHECK(hf__validity_until(SENT_NS, lease_ns) + 2 * HF__NS_PER_MS <= ends_ns);
    }
}

TEST(validity, most_of_a_lease_can_be_used)
{
    for (uint64_t lease_ns = LEASE_NS_MIN; lease_ns <= LEASE_NS_MAX; lease_ns *= 2)
        CHECK(hf__validity_until(SENT_NS, lease_ns) >= SENT_NS + lease_ns * 97 / 100);
}

TEST(validity, a_longer_lease_and_a_later_send_are_never_worth_less)
{
    uint64_t before_ns = 0;

    for (uint64_t lease_ns = 0; lease_ns < 300 * HF__NS_PER_MS; lease_ns += 9999) {
        uint64_t until_ns = hf__validity_until(SENT_NS, lease_ns);

        CHECK(until_ns >= before_ns);
        CHECK(hf__validity_until(SENT_NS + 1, lease_ns) == until_ns + 1);
        before_ns = until_ns;
    }
}

/* What is left of an appointed turn may be next to nothing. */
TEST(validity, less_than_the_margin_is_worth_nothing)
{
    for (uint64_t lease_ns = 0; lease_ns <= 2 * HF__NS_PER_MS; lease_ns += HF__NS_PER_US)
        CHECK(hf__validity_until(SENT_NS, lease_ns) == SENT_NS);
}

TEST(validity, what_no_clock_can_say_is_refused)
{
    uint64_t longest_ns = HF__HOLD_MS_MAX * HF__NS_PER_MS;

    CHECK(hf__validity_until(SENT_NS, longest_ns) < SENT_NS + longest_ns);
    CHECK_ABORTS(hf__validity_until(SENT_NS, longest_ns + 1));
    CHECK_ABORTS(hf__validity_until(UINT64_MAX - LEASE_NS_MIN + 1, LEASE_NS_MIN));
}
