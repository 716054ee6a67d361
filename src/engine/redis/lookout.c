/* lookout.c: when is it worth to look again?
 *
 * Redis tells nobody that a lease has ended. The first in line knows when the holder's must end if
 * it is not renewed, and looks then: this is how a dead holder is noticed. */
#include "base/clock.h"
#include "engine/redis/redis.h"

#define SLACK_NS (2 * HF__NS_PER_MS) /* the server counts whole milliseconds */

void hf__lookout_set(struct hf__redis *conn, uint64_t claim_id, uint64_t left_ms)
{
    uint64_t ms = left_ms < HF_LEASE_MS_MAX ? left_ms : HF_LEASE_MS_MAX;
    uint64_t at_ns = conn->now_ns + ms * HF__NS_PER_MS + SLACK_NS;
    struct hf__lookout *lookout;

    HF__LIST_FOR(place, &conn->lookouts)
    {
        lookout = HF__LIST_ENTRY(place, struct hf__lookout, place);
        if (lookout->claim_id == claim_id) {
            lookout->at_ns = at_ns;
            return;
        }
    }
    if (hf__list_empty(&conn->free_lookouts)) {
        lookout = hf__env_new(conn->base.env, sizeof(*lookout));
        if (!lookout)
            return; /* the refresh will do */
        hf__list_init(&lookout->place);
    } else {
        lookout = HF__LIST_ENTRY(conn->free_lookouts.next, struct hf__lookout, place);
        hf__list_remove(&lookout->place);
    }
    lookout->claim_id = claim_id;
    lookout->at_ns = at_ns;
    hf__list_append(&conn->lookouts, &lookout->place);
}

int hf__lookout_due(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    HF__LIST_FOR(place, &conn->lookouts)
    {
        struct hf__lookout *lookout = HF__LIST_ENTRY(place, struct hf__lookout, place);
        struct hf__ticket ticket = { .kind = HF__REQUEST_NONE, .claim_id = lookout->claim_id };

        if (now_ns < lookout->at_ns)
            continue;
        hf__list_remove(place);
        hf__list_append(&conn->free_lookouts, place);
        hf__redis_reply(&ticket, HF__REPLY_CHANGED, out_reply);
        return 1;
    }
    return 0;
}

uint64_t hf__lookout_first(const struct hf__redis *conn)
{
    uint64_t first_ns = HF__NEVER;

    HF__LIST_FOR(place, &conn->lookouts)
    {
        uint64_t at_ns = HF__LIST_ENTRY(place, struct hf__lookout, place)->at_ns;

        first_ns = at_ns < first_ns ? at_ns : first_ns;
    }
    return first_ns;
}

void hf__lookout_done(struct hf__redis *conn)
{
    struct hf__list *lists[] = { &conn->lookouts, &conn->free_lookouts };

    for (size_t i = 0; i < 2; i++) {
        HF__LIST_FOR(place, lists[i])
        {
            hf__list_remove(place);
            hf__env_free(conn->base.env, HF__LIST_ENTRY(place, struct hf__lookout, place));
        }
    }
}
