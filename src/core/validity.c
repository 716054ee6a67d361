/* validity.c: until when may a holder believe that it holds?
 *
 * The store counts a lease from the moment it applies our request; we only know when we sent it.
 * So we count from the send, and give a margin away to clocks that differ in speed. Every
 * rounding errs towards believing too little.
 *
 * Pure: no clock, no I/O, no allocation. */
#include <assert.h>

#include "core/core.h"

#define DRIFT_DIVISOR  100                 /* 1 % of the lease ...            */
#define DRIFT_NS_FLOOR (2 * HF__NS_PER_MS) /* ... plus 2 ms, as RedLock takes */

uint64_t hf__validity_until(uint64_t sent_ns, uint64_t lease_ns)
{
    uint64_t drift_ns = lease_ns / DRIFT_DIVISOR + DRIFT_NS_FLOOR;

    assert(lease_ns <= HF__HOLD_MS_MAX * HF__NS_PER_MS);
    assert(sent_ns <= UINT64_MAX - lease_ns);

    /* What is left of an appointed turn may be less than the margin: then it is not valid at
     * all. */
    return lease_ns > drift_ns ? sent_ns + lease_ns - drift_ns : sent_ns;
}
