/* glance.c: what if an event never comes?
 *
 * Whoever waits is told by an event that the one ahead has gone, and asks for nothing meanwhile. So
 * that an event which was lost costs time, and not the turn, those who wait look by themselves, one
 * after another, whether the one ahead is still there and still in their way: each every few
 * seconds, and if they are many, later, so that all of a client together ask for little.
 *
 * What can go wrong: the answer comes when its place waits for another one, or no more: it is not
 * heeded. The server sends an event before it shows the change to whoever asks; so one that finds
 * the change, and has heard of none, has missed it. */
#include <stdbool.h>

#include "base/clock.h"
#include "engine/zookeeper/zookeeper.h"

#define EACH_NS (15 * HF__NS_PER_S) /* one place, if there are few */
#define GAP_NS  (3 * HF__NS_PER_S)  /* between two, however many there are */

static bool is_waiting(const struct hf__place *place)
{
    return place->state == HF__PLACE_QUEUED && place->watches_ahead && !place->entry.forsaken;
}

void hf__glance_begin(struct hf__zookeeper *conn)
{
    if (conn->glance_at_ns == HF__NEVER)
        conn->glance_at_ns = conn->now_ns + EACH_NS;
}

static void look_ahead(struct hf__zookeeper *conn, struct hf__place *place)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];
    struct hf__zasked *asked;

    hf__ask_child_path(place, place->ahead.name, path);
    asked = hf__ask_about(conn, HF__STEP_GLANCE, place, HF__OPCODE_GET_DATA, path);
    if (asked)
        asked->index = (uint32_t)place->ahead.sequence;
    hf__ask_watch(conn, false);
}

void hf__glance_keep(struct hf__zookeeper *conn)
{
    struct hf__place *next = NULL;
    uint64_t count = 0;

    if (conn->now_ns < conn->glance_at_ns)
        return;
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (!is_waiting(place))
            continue;
        if (!next)
            next = place;
        count++;
    }
    conn->glance_at_ns = HF__NEVER; /* until somebody waits again */
    if (!next)
        return;
    hf__list_remove(&next->entry.member); /* behind those that have not looked yet */
    hf__list_append(&conn->roll.members, &next->entry.member);
    conn->glance_at_ns = conn->now_ns + (EACH_NS / count > GAP_NS ? EACH_NS / count : GAP_NS);
    look_ahead(conn, next);
}

void hf__glance_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                     struct hf__jute_reader *answer)
{
    struct hf__place *place = asked->owner;
    struct hf__jute_text data = hf__jute_get_text(answer);
    struct hf__bearer bearer;
    bool is_gone = error == HF__ZERROR_NO_NODE;
    bool lets_in;
    bool is_marked;

    if (!is_waiting(place) || (uint32_t)place->ahead.sequence != asked->index)
        return;
    if (!is_gone && (error != HF__ZERROR_OK || answer->broken))
        return;
    hf__layout_bearer(conn, &data, &bearer);
    lets_in = place->mode == HF_SHARED && bearer.is_known && bearer.mode == HF_SHARED;
    is_marked = bearer.is_broken && place->evict_at_ns == HF__NEVER;
    if (!is_gone && !lets_in && !is_marked)
        return;
    conn->base.rescued += is_gone || lets_in;
    place->watches_ahead = false;
    place->entry.changed = true;
    hf__roll_tell(&conn->roll, &place->entry);
}
