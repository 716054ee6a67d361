/* retry.c: when shall we try again?
 *
 * Doubling from `first` to `most`, each time somewhere between a half and the whole of it, so that
 * clients which failed together do not come back together.
 *
 * Pure: the randomness is the caller's. */
#include <assert.h>

#include "core/core.h"

#define DOUBLINGS_MAX 20

/* xorshift64*: enough to spread retries; nothing secret hangs on it. */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state;

    assert(x != 0);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1Dull;
}

uint64_t hf__retry_after(uint64_t now_ns, uint32_t tries, uint64_t first_ns, uint64_t most_ns,
                         uint64_t *random_state)
{
    uint32_t doublings = tries < DOUBLINGS_MAX ? tries : DOUBLINGS_MAX;
    uint64_t whole_ns = first_ns << doublings;

    assert(first_ns > 0 && first_ns <= most_ns);
    assert(first_ns <= UINT64_MAX >> DOUBLINGS_MAX);

    if (whole_ns > most_ns)
        whole_ns = most_ns;
    return now_ns + whole_ns / 2 + draw(random_state) % (whole_ns / 2 + 1);
}
