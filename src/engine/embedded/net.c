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

/* Is there something about it that we have not been told? */
static bool is_suspect(struct hf__embedded *conn, const struct hf__stake *stake)
{
    struct hf__node node;
    uint32_t first;

    if (!hf__node_peek(conn, stake->node, &node))
        return true;
    if (stake->waiting ? node.state != HF__NODE_WAITING
                       : node.state != HF__NODE_HOLDING || (node.broken && !stake->cause))
        return true;
    if (!stake->waiting)
        return false;
    first = first_owner(conn, stake->lock);
    return first != HF__OWNER_NONE && first != conn->owner &&
           hf__session_dead(conn, first, NULL) > 0;
}

/* The one ahead of it, unless he is looked at more often anyway. */
static bool is_widowed(struct hf__embedded *conn, const struct hf__stake *stake)
{
    return stake->watch && !stake->watch->polled &&
           hf__session_dead(conn, stake->watched, NULL) > 0;
}

static int rescue(struct hf__embedded *conn, struct hf__stake *stake)
{
    uint32_t first = first_owner(conn, stake->lock);
    int status = HF_OK;

    conn->base.rescued++;
    hf__trace(conn->base.env, "embedded: rescued lock %u, node %u", stake->lock, stake->node);
    if (first != HF__OWNER_NONE && first != conn->owner && hf__session_dead(conn, first, NULL) > 0)
        status = hf__watch_mend(conn, stake->lock, first);
    if (status == HF_OK)
        status = hf__watch_look(conn, stake, true);
    if (status == HF_OK)
        status = hf__watch_check(conn, stake);
    return status;
}

static int look_in(struct hf__embedded *conn, struct hf__list *list, bool *out_suspicion)
{
    HF__LIST_FOR(place, list)
    {
        struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
        bool suspect = is_suspect(conn, stake) || is_widowed(conn, stake);
        int status;

        if (!suspect || !stake->suspected) {
            stake->suspected = suspect;
            *out_suspicion = *out_suspicion || suspect;
            continue;
        }
        stake->suspected = false;
        status = rescue(conn, stake);
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
