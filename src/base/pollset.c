/* pollset.c: what is there to wait for?
 *
 * Every connection adds its descriptors and its next deadline, then one poll(2) waits for all of
 * them. The set has a fixed size: a descriptor that finds it full is refused, never forgotten.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "base/pollset.h"

#include <assert.h>

#include "base/clock.h"

void hf__pollset_init(struct hf__pollset *set)
{
    assert(set);

    set->count = 0;
    set->deadline_ns = HF__NEVER;
}

bool hf__pollset_add(struct hf__pollset *set, int fd, short events)
{
    assert(fd >= 0);
    assert(set->count <= HF__POLLSET_MAX);

    if (set->count == HF__POLLSET_MAX)
        return false;

    set->fds[set->count] = (struct pollfd){ .fd = fd, .events = events };
    set->count++;
    return true;
}

void hf__pollset_until(struct hf__pollset *set, uint64_t deadline_ns)
{
    assert(set);

    if (deadline_ns < set->deadline_ns)
        set->deadline_ns = deadline_ns;
}
