/* net.c: has a ring been lost?
 *
 * Once a second, while claims stand in lines: is each of them where we think it is, does the one
 * ahead live, and does whoever is first of all (behind a stopped process nobody watches him)? In a
 * healthy system it finds nothing, and that is tested: what it finds is counted.
 *
 * A ring may be on its way, and a process that has just died may not have been noticed yet. So what
 * is found is only a suspicion; what is still so a quarter of a second later, and untold, is a
 * rescue. */
#include "base/clock.h"
#include "engine/embedded/embedded.h"

#define KNOWN 64u

/* Did anything reach us since we last looked? Then the normal way will find it. */
static bool was_told(const struct hf__embedded *conn)
{
    return __atomic_load_n(&conn->session->news, __ATOMIC_SEQ_CST) != conn->news_seen;
}

static uint32_t first_owner(struct hf__embedded *conn, uint32_t lock)
{
    const struct hf__table *table = &conn->table;
    const uint64_t *word = &hf__table_lock(table, lock)->line;
    struct hf__word lock_word;
    uint32_t first;
    uint32_t last;

    if (hf__line_peek(conn, lock, &lock_word) && (uint32_t)lock_word.high != HF__OWNER_NONE)
        return (uint32_t)lock_word.high;
    if (!hf__seal_unpair(&table->seal, hf__table_place(table, word), hf__table_load(word), &first,
                         &last) ||
        first == 0 || !hf__table_reaches(conn, HF__REGION_NODES, first))
        return HF__OWNER_NONE;
    return hf__node_owner(conn, first);
}

/* Asking costs three system calls, and many claims have the same one ahead. */
struct memory {
    uint32_t alive[KNOWN]; /* by slot */
};

static bool is_dead(struct hf__embedded *conn, uint32_t owner, struct memory *memory)
{
    uint32_t *known = &memory->alive[owner % KNOWN];

    if (owner == HF__OWNER_NONE || owner == conn->owner || *known == owner)
        return false;
    if (hf__session_dead(conn, owner, NULL) > 0)
        return true;
    *known = owner;
    return false;
}

/* Is there something about it that we have not been told? What; NULL: no. */
static const char *find_suspicion(struct hf__embedded *conn, const struct hf__stake *stake,
                                  struct memory *memory)
{
    struct hf__node node;

    if (!hf__node_peek(conn, stake->node, &node))
        return "its place is being changed for ever";
    if (stake->waiting && node.state != HF__NODE_WAITING)
        return "it was let in";
    if (!stake->waiting && (node.state != HF__NODE_HOLDING || (node.broken && !stake->cause)))
        return "it was put out";
    /* Those who are polled are looked at more often anyway. */
    if (stake->watch && !stake->watch->polled && is_dead(conn, stake->watched, memory))
        return "the one ahead is dead";
    if (stake->waiting && is_dead(conn, first_owner(conn, stake->lock), memory))
        return "the first one is dead";
    return NULL;
}

static int rescue(struct hf__embedded *conn, struct hf__stake *stake, const char *suspicion)
{
    uint32_t first = first_owner(conn, stake->lock);
    int status = HF_OK;

    conn->base.rescued++;
    hf__trace(conn->base.env, "embedded: rescued lock %u, node %u (watches %x, first %x): %s",
              stake->lock, stake->node, stake->watched, first, suspicion);
    if (first != HF__OWNER_NONE && first != conn->owner && hf__session_dead(conn, first, NULL) > 0)
        status = hf__watch_mend(conn, stake->lock, first);
    if (status == HF_OK)
        status = hf__watch_look(conn, stake, true);
    if (status == HF_OK)
        status = hf__news_check(conn, stake);
    return status;
}

static int look_in(struct hf__embedded *conn, struct hf__list *list, bool *out_suspicion)
{
    struct memory memory = { { 0 } };

    HF__LIST_FOR(place, list)
    {
        struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
        const char *suspicion = find_suspicion(conn, stake, &memory);
        int status;

        if (!suspicion || !stake->suspected) {
            stake->suspected = suspicion != NULL;
            *out_suspicion = *out_suspicion || suspicion;
            continue;
        }
        stake->suspected = false;
        status = rescue(conn, stake, suspicion);
        if (status < 0)
            return status;
    }
    return HF_OK;
}

int hf__net_look(struct hf__embedded *conn)
{
    bool suspicion = false;
    int status;

    if (hf__list_empty(&conn->waiting) && hf__list_empty(&conn->holding)) {
        conn->net_ns = HF__NEVER;
        return HF_OK;
    }
    if (was_told(conn)) {
        conn->net_ns = conn->now_ns + HF__NET_AGAIN_NS;
        return HF_OK;
    }
    status = look_in(conn, &conn->waiting, &suspicion);
    if (status == HF_OK)
        status = look_in(conn, &conn->holding, &suspicion);
    conn->net_ns = conn->now_ns + (suspicion ? HF__NET_AGAIN_NS : HF__NET_NS);
    return status;
}
