/* vigil.c: when is it worth to look again?
 *
 * A database tells nobody that a lease has ended. The first in line knows when the holder's must
 * end if it is not renewed, and looks then: this is how a dead holder is noticed. Where nobody can
 * wake us, it looks more often.
 *
 * What can go wrong: no memory: the refresh finds out, later. */
#include "engine/vigil.h"

#include "base/clock.h"

#define SLACK_NS (2 * HF__NS_PER_MS) /* whole milliseconds are told */

struct vigil {
    struct hf__list place;
    uint64_t claim_id;
    uint64_t at_ns;
};

void hf__vigil_init(struct hf__vigils *vigils, const struct hf__env *env)
{
    vigils->env = env;
    hf__list_init(&vigils->list);
}

void hf__vigil_set(struct hf__vigils *vigils, uint64_t claim_id, uint64_t now_ns, uint64_t left_ms)
{
    uint64_t ms = left_ms < HF_LEASE_MS_MAX ? left_ms : HF_LEASE_MS_MAX;
    uint64_t at_ns = now_ns + ms * HF__NS_PER_MS + SLACK_NS;
    struct vigil *vigil;

    HF__LIST_FOR(place, &vigils->list)
    {
        vigil = HF__LIST_ENTRY(place, struct vigil, place);
        if (vigil->claim_id == claim_id) {
            vigil->at_ns = at_ns;
            return;
        }
    }
    vigil = hf__env_new(vigils->env, sizeof(*vigil));
    if (!vigil)
        return; /* the refresh will do */
    hf__list_init(&vigil->place);
    vigil->claim_id = claim_id;
    vigil->at_ns = at_ns;
    hf__list_append(&vigils->list, &vigil->place);
}

int hf__vigil_due(struct hf__vigils *vigils, uint64_t now_ns, struct hf__reply *out_reply)
{
    HF__LIST_FOR(place, &vigils->list)
    {
        struct vigil *vigil = HF__LIST_ENTRY(place, struct vigil, place);

        if (now_ns < vigil->at_ns)
            continue;
        *out_reply = (struct hf__reply){
            .kind = HF__REPLY_CHANGED,
            .ticket = { .kind = HF__REQUEST_NONE, .claim_id = vigil->claim_id },
            .ahead = HF__AHEAD_UNKNOWN,
        };
        hf__list_remove(place);
        hf__env_free(vigils->env, vigil);
        return 1;
    }
    return 0;
}

uint64_t hf__vigil_first(const struct hf__vigils *vigils)
{
    uint64_t first_ns = HF__NEVER;

    HF__LIST_FOR(place, &vigils->list)
    {
        uint64_t at_ns = HF__LIST_ENTRY(place, struct vigil, place)->at_ns;

        first_ns = at_ns < first_ns ? at_ns : first_ns;
    }
    return first_ns;
}

void hf__vigil_done(struct hf__vigils *vigils)
{
    HF__LIST_FOR(place, &vigils->list)
    {
        hf__list_remove(place);
        hf__env_free(vigils->env, HF__LIST_ENTRY(place, struct vigil, place));
    }
}
