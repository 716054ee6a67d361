/* line.c: who holds, and who is next?
 *
 * The line of a lock is a list of nodes: first those that hold, then those that wait, in the order
 * of their arrival. If the lock's word carries an owner, that one (who took the lock without a
 * node) holds before all others. All of this is looked at and changed only between enter and leave,
 * under the lock's guard, and through its journal: so each commit is a step from one valid line to
 * another, and it does not matter where between two commits somebody dies.
 *
 * settle lets in whoever is next: a waiter if nobody holds, further readers if only readers hold.
 * Each grant raises the fence. Whoever must know of a change is noted down, and rung after the
 * guard is free, because he may run at once and want it.
 *
 * Entering makes the lock inflated, by a compare-and-swap that keeps its owner; leaving an empty
 * line deflates it, again by a compare-and-swap and only after the journal is cleared, because from
 * then on others change the word without the guard.
 *
 * What can go wrong: a link, node or word that does not fit: HF_EINTEGRITY, and nothing is
 * committed. */
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define PEEKS_MAX  1000u
#define SWAPS_MAX  1000000u
#define STEP_PUTS  16u /* the most that one step below puts into the journal */
#define AHEAD_MAX  4096u
#define STEP_RINGS 4u /* ... and rings                                       */

static uint32_t guard_of(uint32_t lock)
{
    return lock % HF__LOCK_GUARDS;
}

/* --- the lock's word --- */

bool hf__line_peek(const struct hf__embedded *conn, uint32_t lock, struct hf__word *out_word)
{
    const struct hf__lock_cell *cell = hf__table_lock(&conn->table, lock);

    for (uint32_t i = 0; i < PEEKS_MAX; i++) {
        struct hf__word word = hf__word_peek(&cell->low);

        if (word.high == hf__seal_high(&conn->table.seal, lock, word.low, (uint32_t)word.high)) {
            *out_word = word;
            return true;
        }
        HF__WORD_PAUSE();
    }
    return false;
}

static struct hf__word make_word(const struct hf__embedded *conn, uint32_t lock, uint64_t low,
                                 uint32_t owner)
{
    struct hf__word word = { low, hf__seal_high(&conn->table.seal, lock, low, owner) };

    return word;
}

/* Under the guard. What we hold in `line` goes into the journal. */
static void put_word(struct hf__line *line)
{
    uint64_t low = line->fence << HF__WORD_SHIFT | HF__WORD_INFLATED;
    struct hf__word word = make_word(line->conn, line->lock, low, line->owner);

    hf__guard_put(line->conn, &line->cell->low, word.low);
    hf__guard_put(line->conn, &line->cell->high, word.high);
}

static void put_ends(struct hf__line *line)
{
    const struct hf__table *table = &line->conn->table;

    hf__guard_put(line->conn, &line->cell->line,
                  hf__seal_pair(&table->seal, hf__table_place(table, &line->cell->line),
                                line->first, line->last));
}

/* --- entering and leaving --- */

static int inflate(struct hf__line *line)
{
    struct hf__embedded *conn = line->conn;
    struct hf__word word;

    for (uint32_t i = 0; i < SWAPS_MAX; i++) {
        struct hf__word inflated;

        if (!hf__line_peek(conn, line->lock, &word))
            return hf__table_damaged(conn, "a lock");
        if (word.low & HF__WORD_RETIRED)
            return HF__LINE_STALE;
        line->owner = (uint32_t)word.high;
        line->fence = word.low >> HF__WORD_SHIFT;
        if (word.low & HF__WORD_INFLATED)
            return HF_OK;
        hf__death_point("before inflating");
        inflated = make_word(conn, line->lock, word.low | HF__WORD_INFLATED, line->owner);
        if (hf__word_exchange(&line->cell->low, word, inflated)) {
            hf__death_point("inflated");
            return HF_OK;
        }
    }
    return hf__table_damaged(conn, "a lock");
}

int hf__line_enter(struct hf__embedded *conn, uint32_t lock, struct hf__line *out_line)
{
    struct hf__line line = {
        .conn = conn,
        .cell = hf__table_lock(&conn->table, lock),
        .lock = lock,
    };
    uint64_t ends;
    int status;

    assert(lock < HF__LOCKS_MAX);
    assert(conn->ring_count == 0);

    status = hf__guard_take(conn, guard_of(lock));
    if (status < 0)
        return status;
    status = inflate(&line);
    ends = hf__table_load(&line.cell->line);
    if (status == HF_OK &&
        (!hf__seal_unpair(&conn->table.seal, hf__table_place(&conn->table, &line.cell->line), ends,
                          &line.first, &line.last) ||
         (line.first == 0) != (line.last == 0)))
        status = hf__table_damaged(conn, "a line");
    *out_line = line;
    if (status != HF_OK)
        return hf__line_fail(out_line, status);
    return HF_OK;
}

static void deflate(struct hf__line *line)
{
    uint64_t low = line->fence << HF__WORD_SHIFT;
    struct hf__word inflated =
        make_word(line->conn, line->lock, low | HF__WORD_INFLATED, line->owner);

    hf__death_point("before deflating");
    (void)hf__word_exchange(&line->cell->low, inflated,
                            make_word(line->conn, line->lock, low, line->owner));
    hf__death_point("deflated");
}

int hf__line_leave(struct hf__line *line)
{
    struct hf__embedded *conn = line->conn;
    int status;

    hf__guard_commit(conn);
    if (line->first == 0)
        deflate(line);
    status = hf__guard_give(conn);
    hf__death_point("guard given, nobody told");
    hf__line_tell(conn);
    hf__death_point("all told");
    return status;
}

int hf__line_fail(struct hf__line *line, int status)
{
    int given;

    line->conn->ring_count = 0;
    given = hf__guard_give(line->conn);
    return status < 0 || given == HF_OK ? status : given;
}

/* --- telling --- */

void hf__line_tell(struct hf__embedded *conn)
{
    for (uint32_t i = 0; i < conn->ring_count; i++) {
        const struct hf__ring *ring = &conn->rings[i];
        struct hf__session_cell *session = hf__session_cell(conn, ring->owner);
        struct hf__node_cell *node = ring->node ? hf__table_node(&conn->table, ring->node) : NULL;

        if (!session)
            continue;
        if (node)
            __atomic_fetch_add(&node->notice, 1, __ATOMIC_SEQ_CST);
        if (ring->holding)
            __atomic_fetch_add(&session->holding_news, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&session->news, 1, __ATOMIC_SEQ_CST);
        hf__death_point("news written, bell not rung");
        if (node && ring->granted && ring->blocking)
            hf__wake_ring(&node->wake);
        else if (ring->owner != conn->owner)
            hf__peer_ring(conn, ring->owner);
    }
    conn->ring_count = 0;
}

static struct hf__ring *note(struct hf__line *line, uint32_t node, uint32_t owner)
{
    struct hf__embedded *conn = line->conn;
    struct hf__ring *ring;

    for (uint32_t i = 0; i < conn->ring_count; i++) {
        if (conn->rings[i].node == node && conn->rings[i].owner == owner)
            return &conn->rings[i];
    }
    assert(conn->ring_count < HF__RINGS_MAX); /* make_room has seen to it */
    ring = &conn->rings[conn->ring_count++];
    *ring = (struct hf__ring){ .node = node, .owner = owner };
    return ring;
}

void hf__line_ring(struct hf__line *line, const struct hf__node *node, bool granted)
{
    struct hf__ring *ring = note(line, node->index, node->owner);

    ring->granted |= granted;
    ring->blocking = node->blocking;
    ring->holding |= !granted && node->state != HF__NODE_WAITING;
}

void hf__line_ring_session(struct hf__line *line, uint32_t owner)
{
    if (owner != HF__OWNER_NONE)
        (void)note(line, 0, owner);
}

void hf__line_forget_ring(struct hf__line *line, uint32_t node)
{
    struct hf__embedded *conn = line->conn;

    for (uint32_t i = 0; i < conn->ring_count; i++) {
        if (conn->rings[i].node == node)
            conn->rings[i] = conn->rings[--conn->ring_count];
    }
}

/* --- the list --- */

/* Reads a node that must stand in this line, with the one before it as given. */
static int read_member(struct hf__line *line, uint32_t index, uint32_t previous,
                       struct hf__node *out_node)
{
    int status = hf__node_read(line->conn, index, out_node);

    if (status < 0)
        return status;
    if (out_node->lock != line->lock || out_node->previous != previous ||
        (out_node->state != HF__NODE_WAITING && out_node->state != HF__NODE_HOLDING) ||
        (out_node->next == 0) != (index == line->last))
        return hf__table_damaged(line->conn, "a line");
    return HF_OK;
}

int hf__line_first(struct hf__line *line, struct hf__node *out_node)
{
    if (line->first == 0)
        return 0;
    return read_member(line, line->first, 0, out_node) < 0 ? HF_EINTEGRITY : 1;
}

int hf__line_next(struct hf__line *line, struct hf__node *node)
{
    uint32_t previous = node->index;

    if (node->next == 0)
        return 0;
    return read_member(line, node->next, previous, node) < 0 ? HF_EINTEGRITY : 1;
}

int hf__line_member(struct hf__line *line, uint32_t index, struct hf__node *out_node)
{
    int status = hf__node_read(line->conn, index, out_node);

    if (status < 0)
        return status;
    if (out_node->lock != line->lock)
        return hf__table_damaged(line->conn, "a line");
    return HF_OK;
}

/* Between two steps, when the line is valid: room for whatever the next step writes and rings. */
static void make_room(struct hf__line *line)
{
    struct hf__embedded *conn = line->conn;
    bool many_rings = conn->ring_count + STEP_RINGS > HF__RINGS_MAX;

    if (many_rings || !hf__guard_has_room(conn, STEP_PUTS))
        hf__guard_commit(conn);
    if (many_rings)
        hf__line_tell(conn); /* only what is committed may be told */
}

int hf__line_append(struct hf__line *line, struct hf__node *node)
{
    struct hf__node last;

    make_room(line);
    node->next = 0;
    node->previous = line->last;
    node->lock = line->lock;
    if (line->last != 0) {
        int status = hf__line_member(line, line->last, &last);

        if (status < 0)
            return status;
        if (last.next != 0)
            return hf__table_damaged(line->conn, "a line");
        last.next = node->index;
        hf__node_link(line->conn, &last);
    } else {
        line->first = node->index;
    }
    line->last = node->index;
    hf__node_link(line->conn, node);
    hf__node_write(line->conn, node);
    put_ends(line);
    return HF_OK;
}

/* It holds, and has not heard of it: whoever let it in died before he could tell. */
static bool is_unaware(const struct hf__embedded *conn, const struct hf__node *node)
{
    return node->state == HF__NODE_HOLDING &&
           hf__table_load(&hf__table_node(&conn->table, node->index)->seen_fence) != node->fence;
}

int hf__line_remove(struct hf__line *line, struct hf__node *node, enum hf__node_state state)
{
    struct hf__embedded *conn = line->conn;
    struct hf__node other;
    int status;

    assert(state == HF__NODE_IDLE || state == HF__NODE_ENDED);
    make_room(line);
    if (node->previous != 0) {
        status = hf__line_member(line, node->previous, &other);
        if (status < 0)
            return status;
        if (other.next != node->index)
            return hf__table_damaged(conn, "a line");
        other.next = node->next;
        hf__node_link(conn, &other);
    } else {
        line->first = node->next;
    }
    if (node->next != 0) {
        status = hf__line_member(line, node->next, &other);
        if (status < 0)
            return status;
        if (other.previous != node->index)
            return hf__table_damaged(conn, "a line");
        other.previous = node->previous;
        hf__node_link(conn, &other);
        if (is_unaware(conn, &other))
            hf__line_ring(line, &other, true); /* it counted on us to tell it */
        else if (other.state == HF__NODE_WAITING || hf__line_crowded(line))
            hf__line_ring(line, &other, false); /* somebody else is ahead of it now */
    } else {
        line->last = node->previous;
    }
    put_ends(line);
    node->state = state;
    hf__node_write(conn, node);
    hf__line_ring_session(
        line, (uint32_t)hf__table_load(&hf__table_node(&conn->table, node->index)->breaker));
    return HF_OK;
}

void hf__line_ring_behind(struct hf__line *line, const struct hf__node *node)
{
    struct hf__node behind;

    if (node->next == 0 || hf__line_member(line, node->next, &behind) < 0)
        return;
    make_room(line);
    hf__line_ring(line, &behind, false);
}

void hf__line_unown(struct hf__line *line)
{
    make_room(line);
    line->owner = HF__OWNER_NONE;
    put_word(line);
}

int hf__line_seat(struct hf__line *line, struct hf__node *node)
{
    struct hf__node first;

    assert(line->owner == node->owner);
    make_room(line);
    node->next = line->first;
    node->previous = 0;
    node->lock = line->lock;
    node->state = HF__NODE_HOLDING;
    node->fence = line->fence;
    if (line->first != 0) {
        int status = hf__line_member(line, line->first, &first);

        if (status < 0)
            return status;
        first.previous = node->index;
        hf__node_link(line->conn, &first);
    } else {
        line->last = node->index;
    }
    line->first = node->index;
    line->owner = HF__OWNER_NONE;
    hf__node_link(line->conn, node);
    hf__node_write(line->conn, node);
    put_ends(line);
    put_word(line);
    return HF_OK;
}

bool hf__line_crowded(struct hf__line *line)
{
    struct hf__node last;

    return line->last != 0 && hf__line_member(line, line->last, &last) == HF_OK &&
           last.state == HF__NODE_WAITING;
}

void hf__line_raise(struct hf__line *line, uint64_t fence)
{
    assert(line->owner == HF__OWNER_NONE);

    make_room(line);
    if (fence > line->fence)
        line->fence = fence;
    put_word(line);
}

/* How many stand before this node; 0: how many in all. */
uint32_t hf__line_ahead(struct hf__line *line, uint32_t until)
{
    const struct hf__table *table = &line->conn->table;
    uint32_t count = line->owner != HF__OWNER_NONE;
    uint32_t at = line->first;

    while (at != 0 && at != until) {
        const uint64_t *link = &hf__table_node(table, at)->link;
        uint32_t previous;

        if (count++ >= AHEAD_MAX || !hf__table_reaches(line->conn, HF__REGION_NODES, at) ||
            !hf__seal_unpair(&table->seal, hf__table_place(table, link),
                             hf__guard_get(line->conn, link), &at, &previous))
            return HF__AHEAD_UNKNOWN;
    }
    return count;
}

/* --- who is next --- */

static int grant(struct hf__line *line, struct hf__node *node, uint64_t now_ns)
{
    make_room(line);
    if ((line->fence & HF__COUNTER_MAX) == HF__COUNTER_MAX)
        return hf__table_damaged(line->conn, "the fence of a lock");
    line->fence++;
    put_word(line);
    node->state = HF__NODE_HOLDING;
    node->fence = line->fence;
    node->ends_ns = node->lease_ns ? now_ns + node->lease_ns : 0;
    hf__node_write(line->conn, node);
    hf__table_store(&hf__table_node(&line->conn->table, node->index)->since_ns, now_ns);
    hf__line_ring(line, node, true);
    return HF_OK;
}

/* Puts out the holders whose time is over, and counts those that stay. `node` is then the first
 * that waits; 0: there is none. */
static int pass_holders(struct hf__line *line, uint64_t now_ns, struct hf__node *node,
                        uint32_t *out_count, bool *out_shared)
{
    int got = hf__line_first(line, node);

    *out_count = line->owner != HF__OWNER_NONE;
    *out_shared = *out_count == 0;
    for (uint32_t i = 0; got > 0 && node->state == HF__NODE_HOLDING; i++) {
        struct hf__node holder = *node;

        if (i > HF__NODES_MAX)
            return hf__table_damaged(line->conn, "a line");
        if (holder.ends_ns != 0 && holder.ends_ns <= now_ns) {
            holder.expired = !holder.broken;
            if (hf__line_remove(line, &holder, HF__NODE_ENDED) < 0)
                return HF_EINTEGRITY;
            hf__line_ring(line, &holder, false);
            /* The next one's link has changed: read it as the one behind whoever is now before
             * it. */
            if (holder.next == 0)
                return 0;
            got = read_member(line, holder.next, holder.previous, node) < 0 ? HF_EINTEGRITY : 1;
            continue;
        }
        (*out_count)++;
        *out_shared = *out_shared && holder.shared;
        got = hf__line_next(line, node);
    }
    return got;
}

int hf__line_settle(struct hf__line *line, uint64_t now_ns)
{
    struct hf__node node;
    uint32_t holders;
    bool shared;
    int got = pass_holders(line, now_ns, &node, &holders, &shared);

    for (uint32_t i = 0; got > 0; i++) {
        if (i > HF__NODES_MAX || node.state != HF__NODE_WAITING)
            return hf__table_damaged(line->conn, "a line");
        if (holders > 0 && !(shared && node.shared))
            return HF_OK;
        if (grant(line, &node, now_ns) < 0)
            return HF_EINTEGRITY;
        holders++;
        shared = shared && node.shared;
        got = hf__line_next(line, &node);
    }
    return got;
}

/* --- the dead --- */

int hf__line_reap(struct hf__line *line, uint32_t owner)
{
    struct hf__node node;
    int got;

    if (line->owner == owner)
        hf__line_unown(line);
    got = hf__line_first(line, &node);
    for (uint32_t i = 0; got > 0; i++) {
        struct hf__node member = node;

        if (i > HF__NODES_MAX)
            return hf__table_damaged(line->conn, "a line");
        if (member.owner != owner) {
            got = hf__line_next(line, &node);
            continue;
        }
        if (hf__line_remove(line, &member, HF__NODE_ENDED) < 0)
            return HF_EINTEGRITY;
        if (member.next == 0)
            return HF_OK;
        got = read_member(line, member.next, member.previous, &node) < 0 ? HF_EINTEGRITY : 1;
    }
    return got;
}

int hf__line_alert(struct hf__line *line, bool unseen)
{
    struct hf__node node;
    uint32_t ahead = HF__OWNER_NONE;
    int got = hf__line_first(line, &node);

    for (uint32_t i = 0; got > 0 && node.state == HF__NODE_HOLDING; i++) {
        const struct hf__node_cell *cell = hf__table_node(&line->conn->table, node.index);
        bool blind = ahead != HF__OWNER_NONE && hf__table_load(&cell->watching) != ahead;

        if (i > HF__NODES_MAX)
            return hf__table_damaged(line->conn, "a line");
        make_room(line);
        if (unseen && hf__table_load(&cell->seen_fence) != node.fence)
            hf__line_ring(line, &node, true);
        else if (blind)
            hf__line_ring(line, &node, false);
        ahead = node.owner;
        got = hf__line_next(line, &node);
    }
    return got < 0 ? got : HF_OK;
}
