/* convoy.c: which claims are made, and which keys are deleted, together?
 *
 * A server works longer for a question than for what is in it. So claims of several locks that hope
 * that nobody is there (hope.c), and the keys of others that are given back at about the same time,
 * go by one transaction: they wait here until the connection writes (link.c). If all the lines are
 * empty, all the keys are made, at one revision; the keys that are given back are deleted in either
 * case. One question carries several quests then: the first is the tag, and the others are chained
 * to it. At most one claim of a line travels at a time: two would both find it empty.
 *
 * What can go wrong: somebody stands in one of the lines, and nobody knows in which: then no key
 * was made, and each claim goes on by itself, with a look at its line. The server refuses all of
 * them: for the sake of one, whose right was taken away, or because they are more than it takes in
 * one transaction, or because their lease is gone: then each is asked for by itself. */
#include <assert.h>
#include <string.h>

#include "engine/etcd/etcd.h"

/* The guard, and of each claim where its line ends, its key and its value. */
#define TEXTS_BYTES_MAX                                                                            \
    (HF__LOCK_KEY_BYTES +                                                                          \
     HF__CONVOY_MAX * (HF__LOCK_KEY_BYTES + HF__OWN_KEY_BYTES + HF__VALUE_BYTES))

static struct hf__stand *stand_of(struct hf__list *node)
{
    return HF__LIST_ENTRY(node, struct hf__stand, travel);
}

void hf__convoy_init(struct hf__convoy *convoy, const struct hf__env *env)
{
    hf__list_init(&convoy->claims);
    hf__list_init(&convoy->departures);
    hf__buffer_init(&convoy->texts, env, TEXTS_BYTES_MAX);
}

void hf__convoy_done(struct hf__convoy *convoy)
{
    hf__buffer_done(&convoy->texts);
}

bool hf__convoy_waits(const struct hf__etcd *conn)
{
    return conn->convoy.count > 0;
}

bool hf__convoy_leave(struct hf__etcd *conn, struct hf__stand *stand)
{
    if (hf__list_empty(&stand->travel))
        return false;
    hf__list_remove(&stand->travel);
    conn->convoy.count--;
    return true;
}

static struct hf__stand *take_first(struct hf__etcd *conn, struct hf__list *travellers)
{
    struct hf__stand *stand = stand_of(travellers->next);

    (void)hf__convoy_leave(conn, stand);
    return stand;
}

/* --- asking --- */

static void delete_alone(struct hf__etcd *conn, struct hf__stand *stand)
{
    Hf__Etcd__DeleteRangeRequest request = HF__ETCD__DELETE_RANGE_REQUEST__INIT;
    char key[HF__OWN_KEY_BYTES];

    request.key = hf__etcd_bytes(key, hf__stand_key(stand, key));
    request.prev_kv = hf__stand_has_past(stand);
    (void)hf__query_send_for(conn, HF__QUERY_DELETE, stand, &request.base);
}

static size_t texts_bytes(const struct hf__convoy *convoy)
{
    size_t bytes = HF__LOCK_KEY_BYTES;

    HF__LIST_FOR(node, &convoy->claims)
    {
        bytes += 2 * stand_of(node)->line->key_bytes + HF__STAND_TOKEN + 1 + HF__VALUE_BYTES;
    }
    HF__LIST_FOR(node, &convoy->departures)
    {
        bytes += stand_of(node)->line->key_bytes + HF__STAND_TOKEN + 1;
    }
    return bytes;
}

/* Returns where the next text may be put. */
static char *add_claim(struct hf__txn *txn, const struct hf__stand *stand, char *end)
{
    const struct hf__rank *line = stand->line;
    size_t key_bytes;
    size_t value_bytes;
    char *key;

    memcpy(end, line->key, line->key_bytes);
    end[line->key_bytes - 1]++; /* behind "/" */
    hf__txn_if_none(txn, hf__etcd_bytes(line->key, line->key_bytes),
                    hf__etcd_bytes(end, line->key_bytes));
    key = end + line->key_bytes;
    key_bytes = hf__stand_key(stand, key);
    value_bytes = hf__revision_value(stand, key + key_bytes);
    hf__txn_put(txn, hf__etcd_bytes(key, key_bytes), hf__etcd_bytes(key + key_bytes, value_bytes),
                stand->lease->id);
    return key + key_bytes + value_bytes;
}

/* All claims have the same lease. */
static void write_down(const struct hf__etcd *conn, struct hf__txn *txn, char *text)
{
    hf__txn_init(txn);
    if (!hf__list_empty(&conn->convoy.claims)) {
        const struct hf__lease *lease = stand_of(conn->convoy.claims.next)->lease;
        size_t guard_bytes = hf__lease_guard_key(conn, lease, text);

        assert(lease->is_alive);
        hf__txn_if_version(txn, hf__etcd_bytes(text, guard_bytes), lease->guard);
        text += guard_bytes;
    }
    HF__LIST_FOR(node, &conn->convoy.claims)
    {
        text = add_claim(txn, stand_of(node), text);
    }
    HF__LIST_FOR(node, &conn->convoy.departures)
    {
        const struct hf__stand *stand = stand_of(node);
        size_t key_bytes = hf__stand_key(stand, text);

        hf__txn_delete(txn, hf__etcd_bytes(text, key_bytes), hf__stand_has_past(stand));
        hf__txn_do_anyway(txn);
        text += key_bytes;
    }
}

/* The question, or the one before it in the chain, carries this one too; NULL: the connection
 * ends. */
static struct hf__quest *carry(struct hf__etcd *conn, struct hf__quest *last,
                               struct hf__stand *stand, const struct hf__txn *txn)
{
    struct hf__quest *quest =
        last ? hf__query_chain(conn, last, stand)
             : hf__query_send_for(conn, HF__QUERY_CONVOY, stand, &txn->request.base);

    stand->entry.sent = true;
    return quest;
}

static void send_all(struct hf__etcd *conn)
{
    struct hf__convoy *convoy = &conn->convoy;
    struct hf__quest *last = NULL;
    struct hf__txn txn;
    void *texts = NULL;

    if (hf__buffer_reserve(&convoy->texts, texts_bytes(convoy), &texts) < 0) {
        hf__etcd_end(conn, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return;
    }
    write_down(conn, &txn, texts);
    while (!conn->ending && !hf__list_empty(&convoy->claims)) {
        struct hf__stand *stand = take_first(conn, &convoy->claims);

        hf__stand_count_claim(stand);
        last = carry(conn, last, stand, &txn);
        if (!last)
            return;
        last->hopes = true;
        last->lease_id = stand->lease->id;
    }
    while (!conn->ending && !hf__list_empty(&convoy->departures)) {
        last = carry(conn, last, take_first(conn, &convoy->departures), &txn);
        if (!last)
            return;
        last->hopes = false;
    }
}

void hf__convoy_send(struct hf__etcd *conn)
{
    struct hf__convoy *convoy = &conn->convoy;

    if (conn->ending) /* with what still waits here */
        return;
    if (convoy->count == 1 && hf__list_empty(&convoy->claims))
        delete_alone(conn, take_first(conn, &convoy->departures));
    else if (convoy->count > 0)
        send_all(conn);
}

static void join(struct hf__etcd *conn, struct hf__stand *stand, struct hf__list *travellers)
{
    assert(hf__list_empty(&stand->travel));

    if (conn->convoy.count == HF__CONVOY_MAX)
        hf__convoy_send(conn);
    hf__list_append(travellers, &stand->travel);
    conn->convoy.count++;
}

static bool may_join(const struct hf__etcd *conn, const struct hf__stand *stand)
{
    return !stand->travels_alone && !conn->convoy.is_refused;
}

void hf__convoy_delete(struct hf__etcd *conn, struct hf__stand *stand)
{
    (void)hf__convoy_leave(conn, stand);
    if (may_join(conn, stand))
        join(conn, stand, &conn->convoy.departures);
    else
        delete_alone(conn, stand);
}

static bool shares_lease(const struct hf__convoy *convoy, const struct hf__stand *stand)
{
    return hf__list_empty(&convoy->claims) || stand_of(convoy->claims.next)->lease == stand->lease;
}

void hf__convoy_claim(struct hf__etcd *conn, struct hf__stand *stand)
{
    assert(stand->lease && stand->lease->is_alive);

    (void)hf__convoy_leave(conn, stand);
    hf__convoy_pass(conn, stand->line);
    if (!may_join(conn, stand) || !shares_lease(&conn->convoy, stand))
        hf__convoy_send(conn);
    join(conn, stand, &conn->convoy.claims);
    if (!may_join(conn, stand))
        hf__convoy_send(conn);
}

static bool is_among(const struct hf__list *travellers, const struct hf__rank *line)
{
    HF__LIST_FOR(node, travellers)
    {
        if (stand_of(node)->line == line)
            return true;
    }
    return false;
}

void hf__convoy_pass(struct hf__etcd *conn, const struct hf__rank *line)
{
    if (is_among(&conn->convoy.claims, line) || is_among(&conn->convoy.departures, line))
        hf__convoy_send(conn);
}

/* --- answers --- */

/* Claims come first, and if they were in vain there is no word of them. */
static bool is_whole(const struct hf__quest *first, const Hf__Etcd__TxnResponse *response)
{
    size_t part = 0;

    for (const struct hf__quest *quest = first; quest; quest = quest->next) {
        Hf__Etcd__ResponseOp__ResponseCase kind =
            quest->hopes ? HF__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT
                         : HF__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;

        if (quest->hopes && !response->succeeded)
            continue;
        if (part >= response->n_responses || response->responses[part++]->response_case != kind)
            return false;
    }
    return part == response->n_responses;
}

static void hear_answer(struct hf__etcd *conn, const struct hf__quest *first,
                        const Hf__Etcd__TxnResponse *response)
{
    size_t part = 0;

    for (const struct hf__quest *quest = first; quest; quest = quest->next) {
        bool is_heard = quest->stand && quest->course == quest->stand->course;

        if (is_heard && quest->hopes)
            hf__revision_hear_hope(conn, quest, response);
        else if (is_heard)
            hf__stand_hear_deleted(conn, quest->stand,
                                   response->responses[part]->response_delete_range);
        part += response->succeeded || !quest->hopes;
    }
}

/* Nothing was done, and perhaps for the sake of another. */
static void ask_each(struct hf__etcd *conn, const struct hf__quest *first, bool is_denied)
{
    for (const struct hf__quest *quest = first; quest; quest = quest->next) {
        if (!quest->stand)
            continue;
        quest->stand->travels_alone = quest->stand->travels_alone || is_denied;
        if (quest->course != quest->stand->course)
            continue;
        if (quest->hopes)
            hf__revision_again(conn, quest->stand);
        else
            delete_alone(conn, quest->stand);
    }
}

static void hear_refusal(struct hf__etcd *conn, const struct hf__quest *first,
                         const struct hf__rpc_event *event)
{
    int code = event->fate == HF__RPC_FATE_ANSWERED ? event->code : HF__RPC_CODE_OK;
    bool is_too_long = first->next && code == HF__RPC_CODE_INVALID_ARGUMENT;
    bool is_denied = first->next && code == HF__RPC_CODE_PERMISSION_DENIED;
    bool is_void = first->hopes && code == HF__RPC_CODE_NOT_FOUND;
    struct hf__lease *lease = is_void ? hf__lease_find(conn, first->lease_id) : NULL;

    if (lease)
        hf__lease_void(conn, lease);
    conn->convoy.is_refused = conn->convoy.is_refused || is_too_long;
    if (is_denied || is_too_long || is_void) {
        ask_each(conn, first, is_denied);
        return;
    }
    for (const struct hf__quest *quest = first; quest; quest = quest->next) {
        if (quest->stand && quest->course == quest->stand->course)
            hf__stand_fail_by(conn, quest->stand, event);
    }
}

void hf__convoy_hear(struct hf__etcd *conn, const struct hf__quest *first,
                     const struct hf__rpc_event *event)
{
    Hf__Etcd__TxnResponse *response;
    int status = HF_OK;

    if (event->kind == HF__RPC_FAILED) {
        hear_refusal(conn, first, event);
        return;
    }
    response = hf__query_unpack(conn, &hf__etcd__txn_response__descriptor, event);
    if (!response)
        return;
    if (first->hopes)
        status = hf__revision_check(conn, first, response);
    if (status < 0)
        hf__etcd_end(conn, status);
    else if (!is_whole(first, response))
        hf__etcd_end_by_nonsense(conn);
    else
        hear_answer(conn, first, response);
    hf__message_free(&conn->memory, &response->base);
}
