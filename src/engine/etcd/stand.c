/* stand.c: which claims stand where, how do they leave, and what must the core hear?
 *
 * A stand has one key, under a token that no other stand has. What the core asked becomes a course:
 * one question to the server, or several, one after the other; answers to an earlier course mean
 * nothing.
 *
 * The server remembers every key that ever was, until somebody has it forget (compaction), and goes
 * through all of them when it reads a line. So tokens are used again, lest a line become slower
 * with every claim; but only if every question of the stand that had it was answered, so that
 * nothing can be under way that speaks of the same key; and rather for the lock that had it before,
 * so that each line has few of them.
 *
 * What can go wrong: a claim whose answer never came may still be under way somewhere, and would
 * make its key when we have left long ago. So whoever leaves then raises the guard, which every
 * claim of the lease names: a claim with an older number is void. The connection ends: whoever
 * waits for an answer is told that there is none, and stands stay, because leases do. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/etcd.h"

_Static_assert(HF__SPARE_TOKENS == 64, "conn->spares has a bit for each");

static struct hf__stand *stand_of(struct hf__entry *entry)
{
    return (struct hf__stand *)entry;
}

size_t hf__stand_key(const struct hf__stand *stand, char out_key[HF__OWN_KEY_BYTES])
{
    const struct hf__rank *line = stand->line;

    memcpy(out_key, line->key, line->key_bytes);
    memcpy(out_key + line->key_bytes, stand->token, sizeof(stand->token));
    return line->key_bytes + HF__STAND_TOKEN;
}

bool hf__stand_owns(const struct hf__stand *stand, const ProtobufCBinaryData *key)
{
    size_t bytes = stand->line->key_bytes;

    return key->len == bytes + HF__STAND_TOKEN &&
           memcmp(key->data + bytes, stand->token, HF__STAND_TOKEN) == 0 &&
           memcmp(key->data, stand->line->key, bytes) == 0;
}

/* --- coming and going --- */

/* Which of these places (> 0) is the lock's own, or the next one? */
static size_t place_near(uint64_t places, const struct hf__rank *line)
{
    size_t own = line->hash % HF__SPARE_TOKENS;
    uint64_t from_own = own == 0 ? places : places >> own | places << (HF__SPARE_TOKENS - own);

    assert(places != 0);
    return (own + (size_t)__builtin_ctzll(from_own)) % HF__SPARE_TOKENS;
}

static void take_token(struct hf__etcd *conn, struct hf__stand *stand,
                       const struct hf__request *request)
{
    static const char digits[] = "0123456789abcdef";

    if (conn->spares != 0) {
        size_t place = place_near(conn->spares, stand->line);

        memcpy(stand->token, conn->spare_tokens[place], HF__STAND_TOKEN);
        conn->spares &= ~(1ull << place);
    }
    for (size_t i = 0; !*stand->token && i < HF__TOKEN_BYTES; i++) {
        stand->token[2 * i + 1] = digits[request->token[i] >> 4];
        stand->token[2 * i + 2] = digits[request->token[i] & 15];
    }
    stand->token[0] = request->mode == HF_SHARED ? 'r' : 'w';
}

/* Its key is not there, and nothing is under way that could make or delete it. */
static void spare_token(struct hf__etcd *conn, struct hf__stand *stand)
{
    if (!*stand->token || stand->asked != stand->heard)
        return;
    if (~conn->spares != 0) {
        size_t place = place_near(~conn->spares, stand->line);

        memcpy(conn->spare_tokens[place], stand->token, HF__STAND_TOKEN);
        conn->spares |= 1ull << place;
    }
    stand->token[0] = '\0';
}

static void read_claim(struct hf__etcd *conn, struct hf__stand *stand,
                       const struct hf__request *request)
{
    stand->queueing = request->queueing;
    stand->mode = request->mode;
    stand->is_fixed = request->ends;
    stand->has_grace = request->grace_ns > 0;
    if (!*stand->token)
        take_token(conn, stand, request);
    hf__bearer_write(request, conn->whence, conn->purpose, stand->bearer);
}

int hf__stand_enter(struct hf__etcd *conn, const struct hf__request *request,
                    struct hf__stand **out_stand)
{
    struct hf__stand *stand = stand_of(hf__roll_find(&conn->roll, request->ticket.claim_id));
    struct hf__rank *line;
    int status;

    if (!stand) {
        status = hf__rank_enter(conn, request->name, request->name_bytes, &line);
        if (status < 0)
            return status;
        stand = stand_of(hf__roll_add(&conn->roll, request->ticket.claim_id, sizeof(*stand)));
        if (!stand) {
            hf__rank_leave(conn, line);
            return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        }
        stand->line = line;
        stand->evict_at_ns = HF__NEVER;
        hf__list_init(&stand->neighbour);
        hf__list_init(&stand->lodger);
        hf__list_init(&stand->renewal);
        hf__list_init(&stand->travel);
        hf__list_append(&line->stands, &stand->neighbour);
    }
    (void)hf__convoy_leave(conn, stand);
    hf__convoy_pass(conn, stand->line);
    hf__roll_ask(&conn->roll, &stand->entry, request);
    hf__list_remove(&stand->renewal);
    hf__lease_aim(stand, NULL);
    stand->course++;
    stand->tries = 0;
    stand->extends = request->shorten;
    if (request->lease_ns > 0)
        stand->lease_ns = request->lease_ns;
    if (request->ticket.kind == HF__REQUEST_RELEASE)
        stand->fence = request->fence;
    if (request->ticket.kind == HF__REQUEST_CLAIM)
        read_claim(conn, stand, request);
    *out_stand = stand;
    return HF_OK;
}

void hf__stand_free(struct hf__etcd *conn, struct hf__stand *stand)
{
    struct hf__rank *line = stand->line;

    hf__query_forget(conn, stand);
    (void)hf__convoy_leave(conn, stand);
    hf__list_remove(&stand->neighbour);
    hf__rank_leave(conn, line);
    hf__lease_aim(stand, NULL);
    hf__lease_leave(conn, stand);
    hf__env_free(conn->base.env, stand->evict_key);
    hf__roll_remove(&conn->roll, &stand->entry);
}

/* --- answers --- */

void hf__stand_answer(struct hf__etcd *conn, struct hf__stand *stand, enum hf__reply_kind kind)
{
    struct hf__reply *reply = &stand->entry.reply;
    uint64_t left_ns = kind == HF__REPLY_GRANTED ? hf__lease_left_ns(stand) : 0;
    bool waits = kind == HF__REPLY_QUEUED || kind == HF__REPLY_REFUSED;

    stand->course++; /* what is still under way for it means nothing any more */
    stand->tries = 0;
    hf__list_remove(&stand->renewal);
    if (!hf__roll_answer(&conn->roll, &stand->entry, kind))
        return;
    reply->fence = kind == HF__REPLY_GRANTED ? (uint64_t)stand->revision * 256 : 0;
    reply->lease_ns = left_ns;
    reply->others_wait = kind == HF__REPLY_GRANTED && stand->others_wait;
    reply->ahead = waits ? stand->ahead_count : HF__AHEAD_UNKNOWN;
    reply->holder = stand->entry.has_holder && waits ? &stand->entry.holder : NULL;
}

void hf__stand_fail(struct hf__etcd *conn, struct hf__stand *stand, int status)
{
    hf__stand_answer(conn, stand, HF__REPLY_FAILED);
    stand->entry.reply.status = status;
}

void hf__stand_fail_by(struct hf__etcd *conn, struct hf__stand *stand,
                       const struct hf__rpc_event *event)
{
    bool perhaps;
    int status = hf__query_status(conn, event, &perhaps);

    hf__stand_answer(conn, stand, perhaps ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED);
    stand->entry.reply.status = status;
}

/* --- leaving --- */

static void stop_waiting(struct hf__etcd *conn, struct hf__stand *stand)
{
    stand->has_ahead = false;
    stand->evict_at_ns = HF__NEVER;
    hf__env_free(conn->base.env, stand->evict_key);
    stand->evict_key = NULL;
}

void hf__stand_count_claim(struct hf__stand *stand)
{
    stand->claims++;
    stand->claims_out++;
}

void hf__stand_forget_claims(const struct hf__etcd *conn, struct hf__stand *stand)
{
    stand->claims_out = 0;
    stand->claims_from = conn->quest_count;
}

void hf__stand_hear_claimed(struct hf__stand *stand, const struct hf__quest *quest)
{
    if (quest->number > stand->claims_from && stand->claims_out > 0)
        stand->claims_out--;
}

/* Its key is gone, and cannot come again. */
static void be_gone(struct hf__etcd *conn, struct hf__stand *stand, bool was_there)
{
    stand->revision = 0;
    (void)hf__convoy_leave(conn, stand);
    spare_token(conn, stand);
    hf__stand_forget_claims(conn, stand);
    hf__lease_leave(conn, stand);
    if (stand->entry.forsaken) {
        hf__stand_free(conn, stand);
        return;
    }
    if (stand->entry.ticket.kind == HF__REQUEST_RELEASE) {
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
        stand->entry.reply.released = was_there;
        stand->entry.reply.cause = stand->was_voided ? "expired" : NULL;
    } else if (stand->entry.ticket.kind == HF__REQUEST_CLAIM && stand->was_refused) {
        hf__stand_answer(conn, stand, HF__REPLY_REFUSED);
    }
}

static void undo(struct hf__etcd *conn, struct hf__stand *stand)
{
    char key[HF__OWN_KEY_BYTES];
    char guard[HF__LOCK_KEY_BYTES];
    ProtobufCBinaryData guard_key =
        hf__etcd_bytes(guard, hf__lease_guard_key(conn, stand->lease, guard));
    struct hf__quest *quest;
    struct hf__txn txn;

    hf__txn_init(&txn);
    hf__txn_put(&txn, guard_key, hf__etcd_bytes("", 0), stand->lease->id);
    hf__txn_range(&txn, guard_key);
    hf__txn_delete(&txn, hf__etcd_bytes(key, hf__stand_key(stand, key)), true);
    quest = hf__query_send_for(conn, HF__QUERY_UNDO, stand, &txn.request.base);
    if (quest)
        quest->lease_id = stand->lease->id;
}

void hf__stand_leave(struct hf__etcd *conn, struct hf__stand *stand)
{
    stand->state = HF__STAND_LEAVING;
    stand->course++;
    hf__list_remove(&stand->renewal);
    hf__lease_aim(stand, NULL);
    stop_waiting(conn, stand);
    (void)hf__convoy_leave(conn, stand);
    if (!stand->lease || (stand->revision == 0 && stand->claims_out == 0)) {
        be_gone(conn, stand, false);
        return;
    }
    stand->entry.sent = true;
    if (stand->claims_out > 0)
        undo(conn, stand);
    else
        hf__convoy_delete(conn, stand);
}

/* That a key was there to be deleted says that it was still held, unless it may have been marked
 * meanwhile, or deleted and made again by another claim of ours. The server reads it for that. */
bool hf__stand_has_past(const struct hf__stand *stand)
{
    return stand->has_grace || stand->claims > 1;
}

/* Did it still hold when it was deleted? */
static bool was_held(const struct hf__stand *stand, const Hf__Etcd__DeleteRangeResponse *response)
{
    struct hf__bearer bearer = { 0 };

    if (!response || response->deleted == 0)
        return false;
    if (!hf__stand_has_past(stand))
        return !stand->was_broken;
    if (response->n_prev_kvs == 0)
        return false;
    hf__bearer_read((const char *)response->prev_kvs[0]->value.data,
                    response->prev_kvs[0]->value.len, &bearer);
    return !stand->was_broken && !bearer.is_broken &&
           (stand->fence == 0 ||
            stand->fence / 256 == (uint64_t)response->prev_kvs[0]->create_revision);
}

static void hear_undo(struct hf__etcd *conn, struct hf__stand *stand,
                      const Hf__Etcd__TxnResponse *response)
{
    const Hf__Etcd__RangeResponse *guard = hf__txn_ranged(response, 1);
    const Hf__Etcd__ResponseOp *last = response->n_responses > 2 ? response->responses[2] : NULL;

    if (!guard || guard->n_kvs != 1 || guard->kvs[0]->version <= 0 || !last ||
        last->response_case != HF__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE) {
        hf__etcd_end_by_nonsense(conn);
        return;
    }
    if (stand->lease && stand->lease->guard < guard->kvs[0]->version)
        stand->lease->guard = guard->kvs[0]->version;
    be_gone(conn, stand, was_held(stand, last->response_delete_range));
}

void hf__stand_hear_deleted(struct hf__etcd *conn, struct hf__stand *stand,
                            const Hf__Etcd__DeleteRangeResponse *response)
{
    be_gone(conn, stand, was_held(stand, response));
}

void hf__stand_hear_leave(struct hf__etcd *conn, struct hf__stand *stand,
                          const struct hf__quest *quest, const struct hf__rpc_event *event)
{
    bool is_void = event->kind == HF__RPC_FAILED && event->fate == HF__RPC_FATE_ANSWERED &&
                   event->code == HF__RPC_CODE_NOT_FOUND;
    ProtobufCMessage *message;

    if (quest->course != stand->course)
        return;
    if (is_void && stand->lease) { /* with the lease went the key */
        hf__lease_void(conn, stand->lease);
        return;
    }
    if (event->kind == HF__RPC_FAILED) { /* one that nobody asks about: with the next connection */
        hf__stand_fail_by(conn, stand, event);
        return;
    }
    message = hf__query_unpack(conn,
                               quest->query == HF__QUERY_UNDO
                                   ? &hf__etcd__txn_response__descriptor
                                   : &hf__etcd__delete_range_response__descriptor,
                               event);
    if (!message)
        return;
    if (quest->query == HF__QUERY_UNDO)
        hear_undo(conn, stand, (Hf__Etcd__TxnResponse *)message);
    else
        hf__stand_hear_deleted(conn, stand, (Hf__Etcd__DeleteRangeResponse *)message);
    hf__message_free(&conn->memory, message);
}

/* The key is gone, or is marked, and not by us. */
void hf__stand_lose(struct hf__etcd *conn, struct hf__stand *stand, const char *cause)
{
    bool marked = stand->lease && stand->was_broken; /* then the key is still there */

    if (!stand->lease)
        stand->was_voided = true;
    if (stand->state == HF__STAND_LEAVING) {
        if (!marked)
            be_gone(conn, stand, false);
        return;
    }
    if (!marked) {
        stand->revision = 0;
        if (!stand->lease)
            hf__stand_forget_claims(conn, stand);
    }
    if (stand->state == HF__STAND_HELD || stand->state == HF__STAND_QUEUED) {
        stand->entry.gone = cause;
        hf__roll_tell(&conn->roll, &stand->entry);
    }
    stop_waiting(conn, stand);
    if (!marked)
        stand->state = HF__STAND_OUTSIDE;
    /* A claim that is under way will hear of it from the server. */
    if (stand->entry.ticket.kind != HF__REQUEST_NONE &&
        stand->entry.ticket.kind != HF__REQUEST_CLAIM && stand->state == HF__STAND_OUTSIDE)
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
}

/* --- what the core must hear --- */

/* The core asks no more about it: its key, if it has one, must go all the same. */
static void forsake(struct hf__etcd *conn, struct hf__stand *stand)
{
    stand->entry.forsaken = true;
    if (conn->greeted && !conn->ending)
        hf__stand_leave(conn, stand);
    else if (stand->revision == 0 && stand->claims_out == 0)
        hf__stand_free(conn, stand);
    else
        stand->state = HF__STAND_LEAVING;
}

/* After these the core has forgotten the claim. */
static bool is_last(const struct hf__stand *stand, const struct hf__reply *reply)
{
    if (reply->ticket.kind == HF__REQUEST_RELEASE)
        return reply->kind == HF__REPLY_GONE;
    if (reply->ticket.kind == HF__REQUEST_NONE)
        return reply->kind == HF__REPLY_GONE && stand->revision == 0 &&
               stand->entry.ticket.kind == HF__REQUEST_NONE;
    return reply->ticket.kind == HF__REQUEST_CLAIM &&
           (reply->kind == HF__REPLY_FAILED ||
            (reply->kind == HF__REPLY_REFUSED && !stand->queueing));
}

int hf__stand_next(struct hf__etcd *conn, struct hf__reply *out_reply)
{
    struct hf__stand *stand = stand_of(hf__roll_next(&conn->roll, out_reply));

    if (!stand)
        return 0;
    if (is_last(stand, out_reply))
        forsake(conn, stand);
    return 1;
}

/* --- ends --- */

void hf__stand_expire(struct hf__etcd *conn)
{
    struct hf__entry *entry;

    while ((entry = hf__roll_late(&conn->roll, conn->now_ns))) {
        struct hf__stand *stand = stand_of(entry);

        hf__error_set(conn->base.error, HF_EUNREACHABLE, "no answer in time");
        stand->course++;
        hf__list_remove(&stand->renewal);
        hf__lease_aim(stand, NULL);
        hf__roll_give_up(&conn->roll, entry, HF_EUNREACHABLE);
    }
}

/* Of what was under way, nobody knows whether it was done. */
void hf__stand_disconnect(struct hf__etcd *conn)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__entry *entry = HF__LIST_ENTRY(member, struct hf__entry, member);
        struct hf__stand *stand = stand_of(entry);

        stand->course++;
        (void)hf__convoy_leave(conn, stand);
        hf__list_remove(&stand->renewal);
        hf__lease_aim(stand, NULL);
        stand->looked_ns = 0; /* what was heard of the others is out of date */
        hf__roll_give_up(&conn->roll, entry, conn->end_status);
    }
}

/* What was told meanwhile, nobody heard. */
void hf__stand_reconnect(struct hf__etcd *conn)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__entry *entry = HF__LIST_ENTRY(member, struct hf__entry, member);
        struct hf__stand *stand = stand_of(entry);

        if (stand->state == HF__STAND_QUEUED) {
            entry->changed = true;
            hf__roll_tell(&conn->roll, entry);
        }
    }
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__stand *stand = stand_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (stand->state == HF__STAND_LEAVING && stand->entry.forsaken)
            hf__stand_leave(conn, stand);
    }
}

static void evict(struct hf__etcd *conn, struct hf__stand *stand)
{
    ProtobufCBinaryData key = hf__etcd_bytes(stand->evict_key, stand->evict_bytes);
    struct hf__txn txn;

    hf__txn_init(&txn);
    hf__txn_if_revision(&txn, key, stand->evict_revision);
    hf__txn_delete(&txn, key, false);
    (void)hf__query_send(conn, HF__QUERY_NONE, HF__WAY_CALLS, &txn.request.base);
    stand->evict_at_ns = HF__NEVER;
}

void hf__stand_evict(struct hf__etcd *conn)
{
    uint64_t first_ns = HF__NEVER;

    if (conn->now_ns < conn->evict_at_ns)
        return;
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__stand *stand = stand_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (conn->now_ns >= stand->evict_at_ns)
            evict(conn, stand);
        if (stand->evict_at_ns < first_ns)
            first_ns = stand->evict_at_ns;
    }
    conn->evict_at_ns = first_ns;
}
