/* footprint.c: has anybody been here since we left?
 *
 * Whoever held a lock, and was first in its line, has left behind it a line in which everybody has
 * a greater number. The server counts a lock's nodes one by one: if the next that we make has the
 * next number, nobody came in between, and it is first without a look at the line. So whoever takes
 * the same lock again and again asks for its node alone.
 *
 * What can go wrong: the lock's own node is removed when its line has been empty for a while, and
 * made anew by whoever comes next, with numbers from 0 on. So it is watched, from a time on when it
 * had a node of ours and could not be removed; the event that it went comes before the answer to
 * whatever we ask after that. Without that watch, after a break in the connection, or for a lock
 * whose memory was given to another, the line is read. */
#include <string.h>

#include "base/clock.h"
#include "engine/zookeeper/zookeeper.h"

#define LATER_NS (20 * HF__NS_PER_MS) /* who holds for longer wants to know who comes */

static struct hf__footprint *slot_of(struct hf__zookeeper *conn, uint32_t hash)
{
    return &conn->footprints[hash % HF__FOOTPRINTS];
}

/* NULL: nothing is remembered of this lock. */
static struct hf__footprint *find(struct hf__zookeeper *conn, const struct hf__place *place)
{
    struct hf__footprint *print = slot_of(conn, place->path_hash);

    return print->path && strcmp(print->path, place->path) == 0 ? print : NULL;
}

bool hf__footprint_hopes(struct hf__zookeeper *conn, const struct hf__place *place)
{
    const struct hf__footprint *print = find(conn, place);

    return print && print->is_watched && print->is_fresh && place->full_name_bytes == 0;
}

bool hf__footprint_proves(struct hf__zookeeper *conn, const struct hf__place *place)
{
    struct hf__footprint *print = find(conn, place);
    bool proves = print && print->is_watched && print->is_fresh && place->has_node &&
                  print->next == place->node.sequence;

    if (print)
        print->is_fresh = false; /* until we have left again */
    return proves;
}

/* It holds, and so its lock's node cannot go: from now on it is watched, unless we are here for the
 * first time and perhaps for the last. */
void hf__footprint_hold(struct hf__zookeeper *conn, struct hf__place *place)
{
    struct hf__footprint *print = slot_of(conn, place->path_hash);
    struct hf__zasked *asked;

    if (place->mode != HF_EXCLUSIVE || place->full_name_bytes > 0)
        return;
    if (!print->path || strcmp(print->path, place->path) != 0) {
        hf__env_free(conn->base.env, print->path);
        *print = (struct hf__footprint){ .path = hf__env_copy_text(conn->base.env, place->path) };
        return;
    }
    if (print->is_watched || print->is_asked)
        return;
    asked = hf__ask_about(conn, HF__STEP_FOOTPRINT, NULL, HF__OPCODE_EXISTS, place->path);
    hf__ask_watch(conn, true);
    if (!asked)
        return;
    print->is_asked = true;
    print->number = ++conn->footprint_number;
    asked->index = print->number;
    asked->course = place->path_hash;
}

void hf__footprint_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error)
{
    struct hf__footprint *print = slot_of(conn, asked->course);

    if (!print->is_asked || print->number != asked->index)
        return; /* it was given to another lock */
    print->is_asked = false;
    print->is_watched = error == HF__ZERROR_OK;
}

void hf__footprint_leave(struct hf__zookeeper *conn, const struct hf__place *place)
{
    struct hf__footprint *print = find(conn, place);

    if (!print || !print->is_watched || !place->was_first || place->node.sequence >= INT32_MAX - 1)
        return;
    print->next = place->node.sequence + 1;
    print->is_fresh = true;
}

void hf__footprint_event(struct hf__zookeeper *conn, int32_t type, const struct hf__jute_text *path)
{
    struct hf__footprint *print =
        slot_of(conn, (uint32_t)hf__name_hash(path->bytes, path->count, 0));

    if (type == HF__WATCH_CHILDREN || !print->path || strlen(print->path) != path->count ||
        memcmp(print->path, path->bytes, path->count) != 0)
        return;
    print->is_watched = false;
    print->is_fresh = false;
}

void hf__footprint_forget(struct hf__zookeeper *conn)
{
    for (size_t i = 0; i < HF__FOOTPRINTS; i++) {
        hf__env_free(conn->base.env, conn->footprints[i].path);
        conn->footprints[i] = (struct hf__footprint){ 0 };
    }
}

/* --- who comes meanwhile --- */

/* Nothing was read of the line, and so nobody tells who comes; most have left before it matters. */
void hf__footprint_watch_later(struct hf__zookeeper *conn, struct hf__place *place)
{
    place->watch_at_ns = conn->now_ns + LATER_NS;
    if (place->watch_at_ns < conn->watch_at_ns)
        conn->watch_at_ns = place->watch_at_ns;
}

void hf__footprint_keep(struct hf__zookeeper *conn)
{
    uint64_t first_ns = HF__NEVER;

    if (conn->now_ns < conn->watch_at_ns)
        return;
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (place->state != HF__PLACE_HELD || place->watch_at_ns == HF__NEVER)
            continue;
        if (conn->now_ns >= place->watch_at_ns) {
            place->watch_at_ns = HF__NEVER;
            conn->recipe->event(conn, place, HF__WATCH_CHILDREN, NULL);
        } else if (place->watch_at_ns < first_ns) {
            first_ns = place->watch_at_ns;
        }
    }
    conn->watch_at_ns = first_ns;
}
