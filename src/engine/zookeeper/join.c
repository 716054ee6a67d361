/* join.c: which nodes are deleted together?
 *
 * A server works longer for a packet and a change of its own than for what is in them. So nodes of
 * several locks that are given back at about the same time are deleted by one transaction: they
 * wait here until something else is asked, as many wait as are under way, or a moment has passed. A
 * node that is alone is deleted as it is. Nodes are not made together: the server does not tell the
 * czxid of each, which is a fence.
 *
 * What can go wrong: one of them is not there any more, and all others stay: nothing was changed,
 * and each is asked for again by itself. */
#include <string.h>

#include "base/clock.h"
#include "engine/zookeeper/zookeeper.h"

#define JOINED_MAX 32u
#define MOMENT_NS  HF__NS_PER_MS

static struct hf__zasked *asked_of(struct hf__list *node)
{
    return HF__LIST_ENTRY(node, struct hf__zasked, place);
}

static void put_head(struct hf__zookeeper *conn, int32_t opcode, bool is_end)
{
    hf__jute_put_i32(&conn->out, opcode);
    hf__jute_put_bool(&conn->out, is_end);
    hf__jute_put_i32(&conn->out, -1);
}

/* --- asking --- */

/* The first of those that are not written down; they are the last that were asked. */
static struct hf__list *first_waiting(struct hf__zookeeper *conn)
{
    struct hf__list *node = &conn->asked;

    for (size_t i = 0; i < conn->joining; i++)
        node = node->prev;
    return node;
}

/* Is a node of the same lock among them? */
static bool is_there(struct hf__zookeeper *conn, const struct hf__place *place)
{
    struct hf__list *node = first_waiting(conn);

    for (; node != &conn->asked; node = node->next) {
        const struct hf__place *other = asked_of(node)->owner;

        if (other && other->path_hash == place->path_hash && strcmp(other->path, place->path) == 0)
            return true;
    }
    return false;
}

void hf__join_delete(struct hf__zookeeper *conn, struct hf__place *place)
{
    if (conn->joining == JOINED_MAX || is_there(conn, place))
        hf__join_write(conn);
    if (conn->joining == 0)
        conn->joining_since_ns = conn->now_ns;
    if (hf__ask_note(conn, HF__STEP_DELETE, place))
        conn->joining++;
}

/* Those who wait are not of its lock, and need not go before it. */
void hf__join_pass(struct hf__zookeeper *conn, struct hf__place *place)
{
    size_t joining = conn->joining;
    struct hf__list *first = first_waiting(conn);
    struct hf__list *own;

    if (joining == 0 || is_there(conn, place)) {
        hf__ask_create(conn, place);
        return;
    }
    conn->joining = 0;
    hf__ask_create(conn, place);
    conn->joining = joining;
    own = conn->asked.prev;
    if (asked_of(own)->owner != place || asked_of(own)->step != HF__STEP_CREATE)
        return; /* memory ran out */
    hf__list_remove(own);
    hf__list_append(first, own); /* before it */
}

uint64_t hf__join_deadline(const struct hf__zookeeper *conn)
{
    return conn->joining > 0 ? conn->joining_since_ns + MOMENT_NS : HF__NEVER;
}

/* Are more than wait here under way, so that an answer is sure to come soon, and more to wait? */
static bool awaits_more(const struct hf__zookeeper *conn)
{
    struct hf__list *node = conn->asked.next;
    size_t count = 0;

    for (; node != &conn->asked && count <= conn->joining; node = node->next) {
        const struct hf__zasked *asked = asked_of(node);

        if (asked->xid == 0 || (asked->step != HF__STEP_CREATE && asked->step != HF__STEP_DELETE))
            break;
        count++;
    }
    return count > conn->joining;
}

bool hf__join_holds_back(const struct hf__zookeeper *conn)
{
    if (conn->base.pace == HF__PACE_AT_ONCE || conn->joining == 0 || conn->joining == JOINED_MAX ||
        conn->now_ns >= hf__join_deadline(conn) || !conn->greeted)
        return false;
    return conn->base.pace == HF__PACE_LATER || awaits_more(conn);
}

/* Nobody wants them any more. */
static void drop_forgotten(struct hf__zookeeper *conn)
{
    struct hf__list *node = conn->asked.prev;

    for (size_t i = conn->joining; i > 0; i--) {
        struct hf__zasked *asked = asked_of(node);

        node = node->prev;
        if (asked->owner)
            continue;
        hf__ask_free(conn, asked);
        conn->joining--;
    }
}

static void write_parts(struct hf__zookeeper *conn, struct hf__list *first, int32_t xid)
{
    for (struct hf__list *node = first; node != &conn->asked; node = node->next) {
        struct hf__zasked *asked = asked_of(node);

        asked->xid = xid;
        asked->joined = node->next == &conn->asked ? HF__JOINED_LAST : HF__JOINED_MORE;
        put_head(conn, HF__OPCODE_DELETE, false);
        hf__ask_put_delete(conn, asked->owner);
    }
    put_head(conn, HF__OPCODE_FAILED, true);
}

void hf__join_write(struct hf__zookeeper *conn)
{
    struct hf__zasked *first;
    bool is_alone;

    drop_forgotten(conn);
    if (conn->joining == 0)
        return;
    first = asked_of(first_waiting(conn));
    is_alone = conn->joining == 1;
    conn->joining = 0;
    first->xid = hf__ask_number(conn);
    hf__jute_begin(&conn->out);
    hf__jute_put_i32(&conn->out, first->xid);
    hf__jute_put_i32(&conn->out, is_alone ? HF__OPCODE_DELETE : HF__OPCODE_MULTI);
    if (is_alone)
        hf__ask_put_delete(conn, first->owner);
    else
        write_parts(conn, &first->place, first->xid);
    hf__ask_end(conn);
}

/* --- hearing --- */

/* What the server says of one part: of a transaction that failed, each says so, and what went
 * wrong with it; that is not what would go wrong with it alone. */
static bool has_failed(struct hf__jute_reader *answer)
{
    int32_t opcode = hf__jute_get_i32(answer);
    bool is_end = hf__jute_get_bool(answer);
    int32_t error = hf__jute_get_i32(answer);

    if (opcode == HF__OPCODE_FAILED)
        (void)hf__jute_get_i32(answer);
    else if (opcode != HF__OPCODE_DELETE || error != HF__ZERROR_OK)
        answer->broken = true;
    answer->broken = answer->broken || is_end;
    return opcode == HF__OPCODE_FAILED;
}

static void hear_part(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                      bool is_undone)
{
    if (!asked->owner || asked->course != asked->owner->course)
        return;
    if (is_undone)
        hf__ask_delete_own(conn, asked->owner);
    else
        hf__place_hear_delete(conn, asked->owner, error);
}

void hf__join_hear(struct hf__zookeeper *conn, struct hf__zasked *first, int32_t error,
                   struct hf__jute_reader *answer)
{
    struct hf__zasked *asked = first;
    enum hf__joined joined = HF__JOINED_MORE;
    bool is_undone = false;

    while (joined != HF__JOINED_LAST) {
        bool failed = error == HF__ZERROR_OK && has_failed(answer);

        answer->broken = answer->broken || (asked != first && failed != is_undone);
        if (error == HF__ZERROR_OK && answer->broken)
            return; /* the connection ends, and nobody knows what was done */
        is_undone = failed;
        joined = asked->joined;
        hear_part(conn, asked, error, is_undone);
        if (asked != first)
            hf__ask_free(conn, asked);
        asked = asked_of(conn->asked.next);
    }
}
