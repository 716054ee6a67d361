/* node.c: the places in the lines.
 *
 * A node belongs to the session whose name stands in its first word, put there by compare-and-swap;
 * a connection keeps a few for itself, so that most claims find one without looking. The other
 * words change only under the guard of the lock in whose line it stands, and carry a check
 * together.
 *
 * A node may go to another line only when no journal can still write to it. Whoever took it out
 * under the guard has cleared that journal himself. Whoever was put out by somebody else takes the
 * guard once before he uses the node again: if the other one died there, that finishes his work. */
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define PROBES      64u
#define PEEKS_MAX   64u
#define STATE_MASK  3u
#define IS_SHARED   4u
#define IS_BLOCKING 8u
#define IS_BROKEN   16u
#define IS_EXPIRED  32u
#define LOCK_SHIFT  8

static_assert(HF__LOCKS_MAX < 1u << (32 - LOCK_SHIFT), "a lock's number must fit");
static_assert(HF__NODES_MAX <= HF__PAIR_MASK, "a node's number must fit");

/* --- the words --- */

static uint64_t compose(const struct hf__embedded *conn, const struct hf__node *node)
{
    const struct hf__seal *seal = &conn->table.seal;
    uint32_t value = (uint32_t)node->state | (node->shared ? IS_SHARED : 0) |
                     (node->blocking ? IS_BLOCKING : 0) | (node->broken ? IS_BROKEN : 0) |
                     (node->expired ? IS_EXPIRED : 0) | node->lock << LOCK_SHIFT;
    uint64_t hash =
        hf__seal_mix(seal, ((uint64_t)node->owner << 32 | value) ^ HF__SEAL_NODE, node->index);

    hash = hf__seal_mix(seal, hash ^ node->fence, node->ends_ns);
    hash = hf__seal_mix(seal, hash ^ node->lease_ns, node->grace_ns);
    return hash << 32 | value;
}

static void decompose(uint64_t word, struct hf__node *out_node)
{
    uint32_t value = (uint32_t)word;

    out_node->state = (enum hf__node_state)(value & STATE_MASK);
    out_node->shared = (value & IS_SHARED) != 0;
    out_node->blocking = (value & IS_BLOCKING) != 0;
    out_node->broken = (value & IS_BROKEN) != 0;
    out_node->expired = (value & IS_EXPIRED) != 0;
    out_node->lock = value >> LOCK_SHIFT;
}

uint32_t hf__node_owner(const struct hf__embedded *conn, uint32_t index)
{
    const uint64_t *word = &hf__table_node(&conn->table, index)->owner;
    uint32_t owner;

    if (!hf__table_unsealed(&conn->table, word, hf__table_load(word), &owner))
        return HF__OWNER_NONE;
    return owner;
}

int hf__node_read(struct hf__embedded *conn, uint32_t index, struct hf__node *out_node)
{
    struct hf__node_cell *cell;
    uint64_t link;
    uint64_t state;

    if (index == 0 || !hf__table_reaches(conn, HF__REGION_NODES, index))
        return hf__table_damaged(conn, "a line");
    cell = hf__table_node(&conn->table, index);
    link = hf__guard_get(conn, &cell->link);
    state = hf__guard_get(conn, &cell->state);
    out_node->index = index;
    out_node->owner = hf__node_owner(conn, index);
    out_node->fence = hf__guard_get(conn, &cell->fence);
    out_node->ends_ns = hf__guard_get(conn, &cell->ends_ns);
    out_node->lease_ns = hf__guard_get(conn, &cell->lease_ns);
    out_node->grace_ns = hf__guard_get(conn, &cell->grace_ns);
    decompose(state, out_node);
    if (state != compose(conn, out_node))
        return hf__table_damaged(conn, "a place in a line");

    out_node->next = 0;
    out_node->previous = 0;
    if (out_node->state != HF__NODE_WAITING && out_node->state != HF__NODE_HOLDING)
        return HF_OK;
    if (!hf__seal_unpair(&conn->table.seal, hf__table_place(&conn->table, &cell->link), link,
                         &out_node->next, &out_node->previous))
        return hf__table_damaged(conn, "a line");
    return HF_OK;
}

void hf__node_write(struct hf__embedded *conn, const struct hf__node *node)
{
    struct hf__node_cell *cell = hf__table_node(&conn->table, node->index);

    hf__guard_put(conn, &cell->fence, node->fence);
    hf__guard_put(conn, &cell->ends_ns, node->ends_ns);
    hf__guard_put(conn, &cell->lease_ns, node->lease_ns);
    hf__guard_put(conn, &cell->grace_ns, node->grace_ns);
    hf__guard_put(conn, &cell->state, compose(conn, node));
}

void hf__node_link(struct hf__embedded *conn, const struct hf__node *node)
{
    struct hf__node_cell *cell = hf__table_node(&conn->table, node->index);

    hf__guard_put(conn, &cell->link,
                  hf__seal_pair(&conn->table.seal, hf__table_place(&conn->table, &cell->link),
                                node->next, node->previous));
}

bool hf__node_peek(const struct hf__embedded *conn, uint32_t index, struct hf__node *out_node)
{
    const struct hf__node_cell *cell = hf__table_node(&conn->table, index);

    for (uint32_t i = 0; i < PEEKS_MAX; i++) {
        uint64_t state = hf__table_load(&cell->state);

        out_node->index = index;
        out_node->owner = hf__node_owner(conn, index);
        out_node->fence = hf__table_load(&cell->fence);
        out_node->ends_ns = hf__table_load(&cell->ends_ns);
        out_node->lease_ns = hf__table_load(&cell->lease_ns);
        out_node->grace_ns = hf__table_load(&cell->grace_ns);
        out_node->next = 0;
        out_node->previous = 0;
        decompose(state, out_node);
        if (state == compose(conn, out_node))
            return true;
        HF__WORD_PAUSE();
    }
    return false;
}

/* --- taking and giving --- */

/* In no line, and nobody else's business: so without a journal. */
static void clear(struct hf__embedded *conn, uint32_t index, uint32_t owner)
{
    struct hf__node_cell *cell = hf__table_node(&conn->table, index);
    struct hf__node node = { .index = index, .owner = owner, .state = HF__NODE_IDLE };

    hf__table_store(&cell->fence, 0);
    hf__table_store(&cell->ends_ns, 0);
    hf__table_store(&cell->lease_ns, 0);
    hf__table_store(&cell->grace_ns, 0);
    hf__table_store(&cell->seen_fence, 0);
    hf__table_store(&cell->watching, 0);
    hf__table_store(&cell->breaker, 0);
    hf__table_store(&cell->state, compose(conn, &node));
}

static bool probe(struct hf__embedded *conn, uint32_t owner, uint32_t most, uint32_t *out_node)
{
    uint32_t room = conn->table.rooms[HF__REGION_NODES];

    for (uint32_t i = 0; i < most && i < room; i++) {
        uint32_t index = conn->node_hint++ % room + 1;
        uint64_t *word = &hf__table_node(&conn->table, index)->owner;
        uint64_t free = hf__table_sealed(&conn->table, word, HF__OWNER_NONE);

        if (hf__table_load(word) == free &&
            hf__table_swap(word, free, hf__table_sealed(&conn->table, word, owner))) {
            hf__death_point("node taken");
            clear(conn, index, owner);
            *out_node = index;
            return true;
        }
    }
    return false;
}

int hf__node_take(struct hf__embedded *conn, uint32_t owner, uint32_t *out_node)
{
    uint32_t room;
    int status;

    if (owner == conn->owner && conn->spare_count > 0) {
        *out_node = conn->spare_nodes[--conn->spare_count];
        return HF_OK;
    }
    (void)hf__table_reaches(conn, HF__REGION_NODES, 1);
    if (probe(conn, owner, PROBES, out_node))
        return HF_OK;

    /* Others may take all that is new before we do; but each round has more than the one before. */
    do {
        room = conn->table.rooms[HF__REGION_NODES];
        status = hf__table_grow(conn, HF__REGION_NODES, room + 1);
        conn->node_hint = room;
        if (status == HF_OK && probe(conn, owner, conn->table.rooms[HF__REGION_NODES], out_node))
            return HF_OK;
    } while (status == HF_OK);
    return probe(conn, owner, HF__NODES_MAX, out_node) ? HF_OK : status;
}

void hf__node_free(struct hf__embedded *conn, uint32_t node, uint32_t owner)
{
    uint64_t *word = &hf__table_node(&conn->table, node)->owner;

    (void)hf__table_swap(word, hf__table_sealed(&conn->table, word, owner),
                         hf__table_sealed(&conn->table, word, HF__OWNER_NONE));
}

void hf__node_give(struct hf__embedded *conn, uint32_t node)
{
    if (conn->spare_count < HF__SPARE_NODES) {
        conn->spare_nodes[conn->spare_count++] = node;
        return;
    }
    hf__node_free(conn, node, conn->owner);
}

void hf__node_free_spare(struct hf__embedded *conn)
{
    while (conn->spare_count > 0)
        hf__node_free(conn, conn->spare_nodes[--conn->spare_count], conn->owner);
}
