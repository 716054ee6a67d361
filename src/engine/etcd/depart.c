/* depart.c: which keys are deleted together?
 *
 * A server works longer for a question than for what is in it. So the keys of several locks that
 * are given back at about the same time go by one transaction: they wait here until the connection
 * writes (link.c). A key that is alone is deleted as it is. One question carries several quests
 * then: the first is the tag, and the others are chained to it.
 *
 * What can go wrong: the server refuses all of them for the sake of one, whose right was taken
 * away, or because they are more than it takes in one transaction: then each is asked for by
 * itself. */
#include "engine/etcd/etcd.h"

static struct hf__stand *stand_of(struct hf__list *node)
{
    return HF__LIST_ENTRY(node, struct hf__stand, departure);
}

/* --- asking --- */

bool hf__depart_waits(const struct hf__etcd *conn)
{
    return conn->departing.count > 0;
}

void hf__depart_leave(struct hf__etcd *conn, struct hf__stand *stand)
{
    if (hf__list_empty(&stand->departure))
        return;
    hf__list_remove(&stand->departure);
    conn->departing.count--;
}

static struct hf__stand *take_first(struct hf__etcd *conn)
{
    struct hf__stand *stand = stand_of(conn->departing.stands.next);

    hf__depart_leave(conn, stand);
    return stand;
}

static void ask_alone(struct hf__etcd *conn, struct hf__stand *stand)
{
    Hf__Etcd__DeleteRangeRequest request = HF__ETCD__DELETE_RANGE_REQUEST__INIT;
    char key[HF__OWN_KEY_BYTES];

    request.key = hf__etcd_bytes(key, hf__stand_key(stand, key));
    request.prev_kv = hf__stand_has_past(stand);
    (void)hf__query_send_for(conn, HF__QUERY_DELETE, stand, &request.base);
}

/* false: there is no memory for the keys. */
static bool write_down(struct hf__etcd *conn, struct hf__txn *txn)
{
    void *space = NULL;
    char *key;

    if (hf__buffer_reserve(&conn->departing.keys, conn->departing.count * HF__OWN_KEY_BYTES,
                           &space) < 0)
        return false;
    key = space;
    hf__txn_init(txn);
    HF__LIST_FOR(node, &conn->departing.stands)
    {
        const struct hf__stand *stand = stand_of(node);
        size_t key_bytes = hf__stand_key(stand, key);

        hf__txn_delete(txn, hf__etcd_bytes(key, key_bytes), hf__stand_has_past(stand));
        key += key_bytes;
    }
    return true;
}

static void ask_together(struct hf__etcd *conn)
{
    struct hf__quest *first;
    struct hf__txn txn;

    if (!write_down(conn, &txn)) {
        while (hf__depart_waits(conn))
            ask_alone(conn, take_first(conn));
        return;
    }
    first = hf__query_send_for(conn, HF__QUERY_DELETES, take_first(conn), &txn.request.base);
    for (struct hf__quest *last = first; last && hf__depart_waits(conn); last = last->next)
        last->next = hf__query_chain(conn, first, take_first(conn));
}

void hf__depart_send(struct hf__etcd *conn)
{
    if (conn->departing.count > 1)
        ask_together(conn);
    else if (hf__depart_waits(conn))
        ask_alone(conn, take_first(conn));
}

void hf__depart_with_others(struct hf__etcd *conn, struct hf__stand *stand)
{
    if (stand->departs_alone || conn->departing.is_refused) {
        ask_alone(conn, stand);
        return;
    }
    if (conn->departing.count == HF__TXN_OPERATIONS)
        hf__depart_send(conn);
    hf__depart_leave(conn, stand);
    hf__list_append(&conn->departing.stands, &stand->departure);
    conn->departing.count++;
}

void hf__depart_pass(struct hf__etcd *conn, const struct hf__rank *line)
{
    HF__LIST_FOR(node, &conn->departing.stands)
    {
        if (stand_of(node)->line == line) {
            hf__depart_send(conn);
            return;
        }
    }
}

/* --- answers --- */

static bool is_whole(const struct hf__quest *first, const Hf__Etcd__TxnResponse *response)
{
    size_t part = 0;

    for (const struct hf__quest *quest = first; quest; quest = quest->next, part++) {
        if (part >= response->n_responses ||
            response->responses[part]->response_case !=
                HF__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE)
            return false;
    }
    return part == response->n_responses;
}

static void hear_answer(struct hf__etcd *conn, const struct hf__quest *first,
                        const Hf__Etcd__TxnResponse *response)
{
    size_t part = 0;

    if (!is_whole(first, response)) {
        hf__etcd_end_by_nonsense(conn);
        return;
    }
    for (const struct hf__quest *quest = first; quest; quest = quest->next, part++) {
        if (quest->stand && quest->course == quest->stand->course)
            hf__stand_hear_deleted(conn, quest->stand,
                                   response->responses[part]->response_delete_range);
    }
}

static void hear_refusal(struct hf__etcd *conn, const struct hf__quest *first,
                         const struct hf__rpc_event *event)
{
    bool is_answered = event->fate == HF__RPC_FATE_ANSWERED;
    bool is_too_long = is_answered && event->code == HF__RPC_CODE_INVALID_ARGUMENT;
    bool is_denied = is_answered && event->code == HF__RPC_CODE_PERMISSION_DENIED;

    conn->departing.is_refused = conn->departing.is_refused || is_too_long;
    for (const struct hf__quest *quest = first; quest; quest = quest->next) {
        if (!quest->stand)
            continue;
        quest->stand->departs_alone = is_denied;
        if (quest->course != quest->stand->course)
            continue;
        if (is_denied || is_too_long)
            ask_alone(conn, quest->stand);
        else
            hf__stand_fail_by(conn, quest->stand, event);
    }
}

void hf__depart_hear(struct hf__etcd *conn, const struct hf__quest *first,
                     const struct hf__rpc_event *event)
{
    Hf__Etcd__TxnResponse *response;

    if (event->kind == HF__RPC_FAILED) {
        hear_refusal(conn, first, event);
        return;
    }
    response = hf__query_unpack(conn, &hf__etcd__txn_response__descriptor, event);
    if (!response)
        return;
    hear_answer(conn, first, response);
    hf__message_free(&conn->memory, &response->base);
}
