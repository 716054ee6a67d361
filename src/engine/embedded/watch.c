/* watch.c: what happened to our claims?
 *
 * Everybody in a line watches whoever is directly ahead of him, and nobody else: so a death wakes
 * exactly one. Waiters always do; holders (readers, several of them) only while somebody waits.
 * Whoever takes a node out of a line rings the one behind it, because that one must watch somebody
 * else now.
 *
 * Why nobody is forgotten. A grant is committed before it is told, so its giver may die in between.
 * But the giver is either the one ahead himself, whom the next one still watches (a watch ends only
 * when its owner has looked at the line again); or it is a third one who found the one ahead dead
 * or expired, which the next one notices as well, by the same watch or by its own timer. Whoever
 * notices a death looks at the line under its guard, which finishes what the dead one had begun,
 * and rings all those that hold without having seen it. A reader who sees that he was let in looks
 * at the line too, and rings the next one: so a crowd of readers lets itself in, even if the one
 * who began died in the middle. So does one who leaves without having seen it (line.c).
 *
 * On top of that, a safety net looks once a second. Whatever it finds that no ring had told is
 * counted (rescued); it looks twice, because a ring may be on its way. */
#include "base/clock.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define LOOKS_MAX (2 * HF__SESSIONS_MAX)

/* --- who is ahead --- */

void hf__watch_stop(struct hf__embedded *conn, struct hf__stake *stake)
{
    (void)conn;
    if (stake->watch) {
        assert(stake->watch->needed > 0);
        stake->watch->needed--;
    }
    stake->watch = NULL;
    stake->watched = HF__OWNER_NONE;
}

int hf__watch_ahead(struct hf__line *line, struct hf__stake *stake, const struct hf__node *node)
{
    struct hf__embedded *conn = line->conn;
    bool holding = node->state == HF__NODE_HOLDING;
    bool is_first_waiter = !holding;

    stake->ahead = line->owner;
    stake->ends_ns = holding ? node->ends_ns : 0;
    if (node->previous != 0) {
        struct hf__node before;
        int status = hf__line_member(line, node->previous, &before);

        if (status < 0)
            return status;
        is_first_waiter = !holding && before.state == HF__NODE_HOLDING;
        stake->ahead = before.owner;
        if (before.state == HF__NODE_HOLDING && before.ends_ns != 0 &&
            (stake->ends_ns == 0 || before.ends_ns < stake->ends_ns))
            stake->ends_ns = before.ends_ns;
    }
    if (holding && !hf__line_crowded(line))
        stake->ahead = HF__OWNER_NONE;
    if (stake->ends_ns != 0)
        hf__embedded_due(conn, stake->ends_ns);
    if (conn->net_ns == HF__NEVER) {
        conn->net_ns = conn->now_ns + HF__NET_NS;
        hf__embedded_due(conn, conn->net_ns);
    }
    return is_first_waiter ? hf__line_alert(line, false) : HF_OK;
}

int hf__watch_start(struct hf__embedded *conn, struct hf__stake *stake)
{
    struct hf__peer *peer = NULL;
    int dead = 0;

    if (stake->ahead == stake->watched && stake->ahead != HF__OWNER_NONE &&
        (stake->watch || hf__session_is_ours(conn, stake->ahead)))
        return hf__session_gone(conn, stake->ahead) > 0;

    hf__watch_stop(conn, stake);
    if (stake->ahead != HF__OWNER_NONE)
        dead = hf__peer_watch(conn, stake->ahead, &peer);
    if (dead > 0)
        return 1;
    stake->watched = stake->ahead;
    stake->watch = peer;
    if (peer)
        peer->needed++;
    hf__table_store(&hf__table_node(&conn->table, stake->node)->watching, stake->ahead);
    return 0;
}

int hf__watch_mend(struct hf__embedded *conn, uint32_t lock, uint32_t dead)
{
    struct hf__line line;
    int status = hf__line_enter(conn, lock, &line);

    if (status == HF__LINE_STALE)
        return HF_OK;
    if (status < 0)
        return status;
    status = hf__line_reap(&line, dead);
    if (status == HF_OK)
        status = hf__line_settle(&line, conn->now_ns);
    if (status == HF_OK)
        status = hf__line_alert(&line, true);
    if (status < 0)
        return hf__line_fail(&line, status);
    hf__sweep_add(conn, dead);
    return hf__line_leave(&line);
}

/* Let in together with us, by somebody who may have died before he could ring us all: each one
 * rings the next. */
static int ring_next(struct hf__line *line, const struct hf__node *node)
{
    struct hf__node next;
    int status;

    if (node->state != HF__NODE_HOLDING || node->next == 0)
        return HF_OK;
    status = hf__line_member(line, node->next, &next);
    if (status == HF_OK && next.state == HF__NODE_HOLDING &&
        hf__table_load(&hf__table_node(&line->conn->table, next.index)->seen_fence) != next.fence)
        hf__line_ring(line, &next, true);
    return status;
}

/* 1: somebody ahead is dead: look once more. */
static int look_once(struct hf__embedded *conn, struct hf__stake *stake, bool death)
{
    struct hf__line line;
    struct hf__node node;
    int status = hf__line_enter(conn, stake->lock, &line);

    if (status == HF__LINE_STALE)
        hf__watch_stop(conn, stake); /* put out by others: its node says so */
    if (status != HF_OK)
        return status < 0 ? status : HF_OK;
    status = hf__line_settle(&line, conn->now_ns);
    if (status == HF_OK && death)
        status = hf__line_alert(&line, true);
    if (status == HF_OK)
        status = hf__line_member(&line, stake->node, &node);
    stake->ahead = HF__OWNER_NONE;
    if (status == HF_OK && (node.state == HF__NODE_WAITING || node.state == HF__NODE_HOLDING))
        status = hf__watch_ahead(&line, stake, &node);
    if (status == HF_OK)
        status = ring_next(&line, &node);
    if (status < 0)
        return hf__line_fail(&line, status);
    status = hf__line_leave(&line);
    if (status < 0)
        return status;
    return hf__watch_start(conn, stake);
}

static int look(struct hf__embedded *conn, struct hf__stake *stake, bool death)
{
    int status = 1;

    assert(stake->node != 0);

    for (uint32_t i = 0; i < LOOKS_MAX; i++) {
        status = look_once(conn, stake, death);
        if (status <= 0)
            return status;
        death = true;
        status = hf__watch_mend(conn, stake->lock, stake->ahead);
        if (status < 0)
            return status;
    }
    return hf__table_damaged(conn, "a line");
}

void hf__watch_again(struct hf__embedded *conn, struct hf__stake *stake)
{
    stake->ends_ns = conn->now_ns;
    hf__embedded_due(conn, conn->now_ns);
}

int hf__watch_look(struct hf__embedded *conn, struct hf__stake *stake, bool death)
{
    int status = look(conn, stake, death);

    if (status < 0)
        hf__watch_again(conn, stake); /* perhaps nobody is watched now */
    return status;
}

bool hf__watch_crowded(const struct hf__embedded *conn, const struct hf__stake *stake)
{
    const struct hf__table *table = &conn->table;
    const uint64_t *word = &hf__table_lock(table, stake->lock)->line;
    struct hf__node node;
    uint32_t first;
    uint32_t last;

    if (!hf__seal_unpair(&table->seal, hf__table_place(table, word), hf__table_load(word), &first,
                         &last) ||
        last == 0 || last > table->rooms[HF__REGION_NODES])
        return false;
    return hf__node_peek(conn, last, &node) && node.state == HF__NODE_WAITING;
}

/* --- one stake --- */

void hf__watch_hold(struct hf__embedded *conn, struct hf__stake *stake, const struct hf__node *node)
{
    stake->waiting = false;
    stake->suspected = false;
    stake->fence = node->fence;
    stake->ends_ns = node->ends_ns;
    hf__table_store(&hf__table_node(&conn->table, node->index)->seen_fence, node->fence);
    hf__list_remove(&stake->place);
    hf__list_append(&conn->holding, &stake->place);
    if (node->ends_ns != 0)
        hf__embedded_due(conn, node->ends_ns);
    if (conn->net_ns == HF__NEVER) {
        conn->net_ns = conn->now_ns + HF__NET_NS;
        hf__embedded_due(conn, conn->net_ns);
    }
}

/* The lock has lost its name though we had a place there: so others put us out, nobody was left in
 * the line, and the name was collected. Who saw that had the guard meanwhile, so no journal writes
 * to the node any more. */
int hf__watch_ended(struct hf__embedded *conn, const struct hf__stake *stake,
                    struct hf__node *out_node)
{
    if (!hf__node_peek(conn, stake->node, out_node) || out_node->owner != conn->owner ||
        (out_node->state != HF__NODE_ENDED && out_node->state != HF__NODE_IDLE))
        return hf__table_damaged(conn, "a place in a line");
    return HF_OK;
}

/* Let in by somebody else. A lease counts from now, when we learn of it. */
static int win(struct hf__embedded *conn, struct hf__stake *stake, struct hf__node *node)
{
    struct hf__line line;
    int status;

    if (stake->ends) {
        status = hf__line_enter(conn, stake->lock, &line);
        if (status == HF__LINE_STALE)
            return hf__watch_ended(conn, stake, node);
        if (status < 0)
            return status;
        status = hf__line_member(&line, stake->node, node);
        if (status < 0)
            return hf__line_fail(&line, status);
        if (node->state == HF__NODE_HOLDING && !node->broken) {
            node->ends_ns = conn->now_ns + node->lease_ns;
            hf__node_write(conn, node);
        }
        status = hf__line_leave(&line);
        if (status < 0 || node->state != HF__NODE_HOLDING)
            return status;
    }
    hf__watch_hold(conn, stake, node);
    if (stake->shared)
        return hf__watch_look(conn, stake, false);
    hf__watch_stop(conn, stake);
    return HF_OK;
}

/* Our node, as it is now; under the guard if it is being changed. */
static int read_own(struct hf__embedded *conn, struct hf__stake *stake, struct hf__node *out_node)
{
    struct hf__line line;
    int status;

    if (!hf__node_peek(conn, stake->node, out_node)) {
        status = hf__line_enter(conn, stake->lock, &line);
        if (status == HF__LINE_STALE)
            return hf__watch_ended(conn, stake, out_node);
        if (status < 0)
            return status;
        status = hf__line_member(&line, stake->node, out_node);
        if (status < 0)
            return hf__line_fail(&line, status);
        status = hf__line_leave(&line);
        if (status < 0)
            return status;
    }
    if (out_node->owner != conn->owner || out_node->lock != stake->lock)
        return hf__table_damaged(conn, "a place in a line");
    return HF_OK;
}

/* Put out by others. The guard is taken once, so that no journal writes to the node any more. */
static int bury(struct hf__embedded *conn, struct hf__stake *stake)
{
    int status = hf__guard_take(conn, stake->lock % HF__LOCK_GUARDS);

    if (status == HF_OK)
        status = hf__guard_give(conn);
    if (status == HF_OK)
        hf__keep_drop(conn, stake);
    return status;
}

static int refresh_node(struct hf__embedded *conn, struct hf__stake *stake, const char **out_cause)
{
    struct hf__node node;
    int status = read_own(conn, stake, &node);

    if (status < 0)
        return status;
    if (stake->waiting && node.state == HF__NODE_HOLDING && !node.broken) {
        status = win(conn, stake, &node);
        if (status < 0)
            return status;
    }
    if (node.state == HF__NODE_ENDED || node.state == HF__NODE_IDLE) {
        *out_cause = hf__keep_cause(&node);
        return bury(conn, stake);
    }
    if (!node.broken)
        return 1;

    /* Told first; then, without a grace, it leaves. With one it leaves when its user does, or
     * late. */
    *out_cause = "broken";
    if (!stake->cause) {
        stake->cause = "broken";
        stake->waiting = false;
        stake->ends_ns = node.ends_ns;
        hf__embedded_due(conn, node.ends_ns);
        hf__list_remove(&stake->place);
        hf__list_append(node.grace_ns == 0 ? &conn->leaving : &conn->holding, &stake->place);
    }
    return 0;
}

/* Held without a node: is it still ours, or did somebody give us a node to break it? */
static int refresh_fast(struct hf__embedded *conn, struct hf__stake *stake, const char **out_cause)
{
    struct hf__word word;
    struct hf__line line;
    struct hf__node node;
    int status;
    int found;

    /* Inflated: somebody may be about to break it, so what the word says now is not enough. */
    if (hf__line_peek(conn, stake->lock, &word) && word.low == stake->word.low &&
        word.high == stake->word.high)
        return 1;
    status = hf__line_enter(conn, stake->lock, &line);
    if (status < 0)
        return status;
    if (status == HF_OK && line.owner == conn->owner && line.fence == stake->fence)
        return hf__line_leave(&line) < 0 ? HF_EINTEGRITY : 1;
    found = status == HF_OK ? hf__keep_adopted(&line, stake, &node) : 0;
    if (found < 0)
        return hf__line_fail(&line, found);
    status = status == HF_OK ? hf__line_leave(&line) : HF_OK;
    if (status < 0)
        return status;
    if (found == 0) {
        *out_cause = "broken"; /* and put out meanwhile; the node is found when we close */
        hf__keep_drop(conn, stake);
        return 0;
    }
    stake->node = node.index;
    hf__watch_hold(conn, stake, &node);
    return refresh_node(conn, stake, out_cause);
}

int hf__watch_refresh(struct hf__embedded *conn, struct hf__stake *stake, const char **out_cause)
{
    if (stake->node == 0)
        return refresh_fast(conn, stake, out_cause);
    return refresh_node(conn, stake, out_cause);
}
