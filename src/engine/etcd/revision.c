/* revision.c: one key for each claim; the server's revision at its making is its place in the line,
 * and its fence.
 *
 * The happy path: one transaction makes the key, if it is not there yet, and reads the line; the
 * lowest revision holds. A reader waits for the last writer ahead of it, a writer for whatever is
 * ahead. The watch tells when that one goes; then one transaction checks that our key is there,
 * with our lease, and reads who is ahead now.
 *
 * What can go wrong: a claim whose answer is lost is asked again, and finds its key. News that came
 * before the answer which it belongs to: the line remembers the revision that was told last, and
 * what was read before that is read again. The lease has ended: its keys are gone, and a claim
 * begins anew with another one. A holder that was broken with a grace: its value says so, and
 * whoever waits for it deletes it when that time is over. A server whose revisions contradict each
 * other, or fall, is left. */
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/etcd.h"

#define NEAREST      16  /* of those that may stand in the way, so many are read at a time */
#define TRIES_MAX    100 /* of one course that finds the world changed again and again */
#define LOOKS_NS     (2 * HF__NS_PER_S) /* between two looks though nothing was heard */
#define REVISION_MAX (INT64_MAX / 256)  /* a fence has it, and a byte more */

/* --- questions --- */

/* Where the keys begin that may stand in the way of a claim, and where they end: readers pass over
 * those of readers. What other programs write is nobody's reader. */
struct bounds {
    char from[HF__LOCK_KEY_BYTES + 1];
    size_t from_bytes;
    char to[HF__LOCK_KEY_BYTES + 1];
    size_t to_bytes;
};

static void set_bounds(const struct hf__rank *line, char from, char to, struct bounds *out_bounds)
{
    memcpy(out_bounds->from, line->key, line->key_bytes);
    memcpy(out_bounds->to, line->key, line->key_bytes);
    out_bounds->from[line->key_bytes] = from;
    out_bounds->from_bytes = line->key_bytes + (from != 0);
    out_bounds->to[line->key_bytes] = to;
    out_bounds->to_bytes = line->key_bytes + (to != 0);
    if (to == 0)
        out_bounds->to[line->key_bytes - 1]++; /* behind "/" */
}

/* The line as this claim must see it: the last who may stand in its way. */
struct view {
    struct bounds low;
    struct bounds high;
};

static void set_view(const struct hf__stand *stand, struct view *out_view)
{
    set_bounds(stand->line, 0, stand->mode == HF_SHARED ? 'r' : 0, &out_view->low);
    set_bounds(stand->line, 's', 0, &out_view->high);
}

static void read_view(struct hf__txn *txn, const struct hf__stand *stand, const struct view *view,
                      int64_t below)
{
    for (int i = 0; i < (stand->mode == HF_SHARED ? 2 : 1); i++) {
        const struct bounds *bounds = i == 0 ? &view->low : &view->high;
        Hf__Etcd__RangeRequest *range =
            hf__txn_range(txn, hf__etcd_bytes(bounds->from, bounds->from_bytes));

        range->range_end = hf__etcd_bytes(bounds->to, bounds->to_bytes);
        range->sort_target = HF__ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
        range->sort_order = HF__ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
        range->limit = NEAREST;
        range->max_create_revision = below > 0 ? below - 1 : 0;
    }
}

/* About the stand's key, by this lease; NULL: it could not be sent. */
static struct hf__quest *ask(struct hf__etcd *conn, struct hf__stand *stand, enum hf__query query,
                             const struct hf__lease *lease, const struct hf__txn *txn)
{
    struct hf__quest *quest = hf__query_send_for(conn, query, stand, &txn->request.base);

    stand->entry.sent = true;
    if (quest)
        quest->lease_id = lease->id;
    return quest;
}

size_t hf__revision_value(const struct hf__stand *stand, char out_value[HF__VALUE_BYTES])
{
    const struct hf__rank *line = stand->line;
    size_t bytes = strlen(stand->bearer);

    memcpy(out_value, stand->bearer, bytes);
    if (!line->hashed)
        return bytes;
    out_value[bytes++] = '\n';
    memcpy(out_value + bytes, line->name, line->name_bytes);
    return bytes + line->name_bytes;
}

static void send_claim(struct hf__etcd *conn, struct hf__stand *stand)
{
    char key[HF__OWN_KEY_BYTES];
    char guard[HF__LOCK_KEY_BYTES];
    char value[HF__VALUE_BYTES];
    ProtobufCBinaryData own = hf__etcd_bytes(key, hf__stand_key(stand, key));
    ProtobufCBinaryData guard_key =
        hf__etcd_bytes(guard, hf__lease_guard_key(conn, stand->lease, guard));
    struct view view;
    struct hf__txn txn;

    set_view(stand, &view);
    hf__txn_init(&txn);
    hf__txn_if_revision(&txn, own, 0);
    hf__txn_if_version(&txn, guard_key, stand->lease->guard);
    hf__txn_put(&txn, own, hf__etcd_bytes(value, hf__revision_value(stand, value)),
                stand->lease->id);
    read_view(&txn, stand, &view, 0);
    txn.otherwise = true;
    hf__txn_range(&txn, own);
    hf__txn_range(&txn, guard_key);
    hf__stand_count_claim(stand);
    (void)ask(conn, stand, HF__QUERY_CLAIM, stand->lease, &txn);
}

void hf__revision_claim(struct hf__etcd *conn, struct hf__stand *stand)
{
    struct hf__lease *lease;

    if (stand->was_refused) { /* its key may still be there */
        hf__stand_leave(conn, stand);
        return;
    }
    if (stand->revision > 0) {
        hf__revision_look(conn, stand);
        return;
    }
    if (stand->lease && stand->lease->is_past && stand->claims_out == 0 &&
        stand->tries++ < TRIES_MAX)
        hf__lease_leave(conn, stand);
    lease = stand->lease ? stand->lease : hf__lease_for(conn, stand);
    if (!lease) {
        hf__stand_fail(conn, stand, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return;
    }
    if (!stand->lease)
        hf__lease_lodge(stand, lease);
    if (!lease->is_alive)
        hf__lease_wait(conn, stand, lease);
    else if (hf__hope_may(conn, stand))
        hf__convoy_claim(conn, stand);
    else
        send_claim(conn, stand);
}

static void look_below(struct hf__etcd *conn, struct hf__stand *stand, int64_t below)
{
    char key[HF__OWN_KEY_BYTES];
    ProtobufCBinaryData own = hf__etcd_bytes(key, hf__stand_key(stand, key));
    struct view view;
    struct hf__txn txn;

    set_view(stand, &view);
    hf__txn_init(&txn);
    hf__txn_if_revision(&txn, own, stand->revision);
    hf__txn_if_lease(&txn, own, stand->lease->id);
    hf__txn_range(&txn, own);
    read_view(&txn, stand, &view, below);
    (void)ask(conn, stand, HF__QUERY_LOOK, stand->lease, &txn);
}

/* Claims that were not answered name the lease that they were made for: when the turn leaves it,
 * they must not come any more. A key that moves keeps its value, which may have been marked. */
static void move(struct hf__etcd *conn, struct hf__stand *stand, const struct hf__lease *lease)
{
    char key[HF__OWN_KEY_BYTES];
    char guard[HF__LOCK_KEY_BYTES];
    ProtobufCBinaryData own = hf__etcd_bytes(key, hf__stand_key(stand, key));
    bool raises_guard = stand->claims_out > 0 && lease != stand->lease;
    struct hf__quest *quest;
    struct hf__txn txn;

    hf__txn_init(&txn);
    hf__txn_if_revision(&txn, own, stand->revision);
    hf__txn_put(&txn, own, hf__etcd_bytes("", 0), lease->id)->ignore_value = true;
    if (raises_guard)
        hf__txn_put(&txn, hf__etcd_bytes(guard, hf__lease_guard_key(conn, stand->lease, guard)),
                    hf__etcd_bytes("", 0), stand->lease->id);
    quest = ask(conn, stand, HF__QUERY_MOVE, lease, &txn);
    if (quest)
        quest->raises_guard = raises_guard;
}

static void change_lease(struct hf__etcd *conn, struct hf__stand *stand, struct hf__lease *lease)
{
    if (!lease) {
        hf__stand_fail(conn, stand, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return;
    }
    if (++stand->tries > TRIES_MAX) {
        hf__stand_fail(
            conn, stand,
            hf__error_set(conn->base.error, HF_EUNREACHABLE, "the leader changes all the time"));
        return;
    }
    hf__lease_aim(stand, lease);
    if (lease->is_alive)
        move(conn, stand, lease);
    else
        hf__lease_wait(conn, stand, lease);
}

void hf__revision_look(struct hf__etcd *conn, struct hf__stand *stand)
{
    if (stand->revision == 0 || !stand->lease)
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
    else if (stand->lease->is_past)
        change_lease(conn, stand, hf__lease_for(conn, stand));
    else
        look_below(conn, stand, stand->revision);
}

/* Nothing has changed as long as nothing was heard; but once in a while somebody looks. */
void hf__revision_inspect(struct hf__etcd *conn, struct hf__stand *stand)
{
    if (stand->state == HF__STAND_QUEUED && stand->has_ahead && stand->lease &&
        !stand->lease->is_past && !stand->entry.changed && stand->looked_ns > 0 &&
        conn->now_ns < conn->look_at_ns) {
        hf__lease_renew(conn, stand);
        return;
    }
    if (conn->now_ns >= conn->look_at_ns)
        conn->look_at_ns = conn->now_ns + LOOKS_NS;
    hf__revision_look(conn, stand);
}

void hf__revision_renew(struct hf__etcd *conn, struct hf__stand *stand)
{
    struct hf__lease *lease;

    if (stand->state != HF__STAND_HELD || stand->was_broken || !stand->lease) {
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
        return;
    }
    lease = hf__lease_for(conn, stand);
    if (lease != stand->lease)
        change_lease(conn, stand, lease);
    else if (stand->looked_ns > 0)
        hf__lease_renew(conn, stand);
    else
        hf__revision_look(conn, stand);
}

void hf__revision_go_on(struct hf__etcd *conn, struct hf__stand *stand)
{
    if (stand->entry.ticket.kind == HF__REQUEST_CLAIM)
        hf__revision_claim(conn, stand);
    else if (stand->entry.ticket.kind == HF__REQUEST_INSPECT)
        hf__revision_inspect(conn, stand);
    else
        hf__revision_renew(conn, stand);
}

/* The value is written again: not over a mark that has just been made. */
void hf__revision_lower(struct hf__etcd *conn, struct hf__stand *stand)
{
    char key[HF__OWN_KEY_BYTES];
    char value[HF__VALUE_BYTES];
    ProtobufCBinaryData own = hf__etcd_bytes(key, hf__stand_key(stand, key));
    struct hf__txn txn;

    if (stand->state != HF__STAND_HELD || stand->was_broken || !stand->lease) {
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
        return;
    }
    stand->bearer[0] = 'r';
    hf__txn_init(&txn);
    hf__txn_if_revision(&txn, own, stand->revision);
    hf__txn_if_unmarked(&txn, own);
    hf__txn_put(&txn, own, hf__etcd_bytes(value, hf__revision_value(stand, value)),
                stand->lease->id);
    txn.otherwise = true;
    hf__txn_range(&txn, own);
    (void)ask(conn, stand, HF__QUERY_LOWER, stand->lease, &txn);
}

/* --- what the answers mean --- */

static void read_bearer(const struct hf__etcd *conn, const Hf__Etcd__KeyValue *kv,
                        struct hf__bearer *out_bearer)
{
    *out_bearer = (struct hf__bearer){ .mode = HF_EXCLUSIVE };
    if (!conn->is_raw)
        hf__bearer_read((const char *)kv->value.data, kv->value.len, out_bearer);
}

/* It will be deleted when its grace is over, if nobody else has done it by then. */
static void note_broken(struct hf__etcd *conn, struct hf__stand *stand,
                        const Hf__Etcd__KeyValue *kv, uint64_t grace_ms)
{
    stand->evict_key = hf__env_new(conn->base.env, kv->key.len);
    if (!stand->evict_key)
        return; /* its lease will end */
    memcpy(stand->evict_key, kv->key.data, kv->key.len);
    stand->evict_bytes = kv->key.len;
    stand->evict_revision = kv->create_revision;
    stand->evict_at_ns = conn->now_ns + grace_ms * HF__NS_PER_MS;
    if (stand->evict_at_ns < conn->evict_at_ns)
        conn->evict_at_ns = stand->evict_at_ns;
}

static void wait_for(struct hf__etcd *conn, struct hf__stand *stand, const Hf__Etcd__KeyValue *kv)
{
    struct hf__bearer bearer;

    read_bearer(conn, kv, &bearer);
    hf__env_free(conn->base.env, stand->evict_key);
    stand->evict_key = NULL;
    stand->evict_at_ns = HF__NEVER;
    stand->has_ahead = true;
    stand->ahead_hash = hf__rank_hash(kv->key.data, kv->key.len);
    if (bearer.is_broken)
        note_broken(conn, stand, kv, bearer.grace_ms);
}

/* Does another name have the same hash? */
static bool collides(const struct hf__rank *line, const Hf__Etcd__KeyValue *kv)
{
    const uint8_t *name = kv->value.len > 0 ? memchr(kv->value.data, '\n', kv->value.len) : NULL;
    size_t bytes = name ? kv->value.len - (size_t)(name + 1 - kv->value.data) : 0;

    return line->hashed && name &&
           (bytes != line->name_bytes || memcmp(name + 1, line->name, bytes) != 0);
}

/* What was read of the line. */
struct sight {
    const Hf__Etcd__KeyValue *ahead; /* the last that stands in the way; NULL: none does */
    const Hf__Etcd__KeyValue *oldest;
    int64_t below;   /* there may be more before this one; 0: there are none */
    int64_t count;   /* in the line, as far as it was read */
    uint32_t passed; /* so many of them came before */
    bool collides;
};

static void look_at(const struct hf__etcd *conn, const struct hf__stand *stand,
                    const Hf__Etcd__RangeResponse *range, struct sight *sight)
{
    bool is_free = true;
    struct hf__bearer bearer;

    sight->count += range->count;
    for (size_t i = 0; i < range->n_kvs; i++) { /* the last that came is the first */
        const Hf__Etcd__KeyValue *kv = range->kvs[i];

        sight->collides = sight->collides || collides(stand->line, kv);
        if (kv->create_revision >= stand->revision)
            continue;
        sight->passed++;
        if (!sight->oldest || kv->create_revision < sight->oldest->create_revision)
            sight->oldest = kv;
        read_bearer(conn, kv, &bearer);
        if (!is_free || (stand->mode == HF_SHARED && bearer.mode == HF_SHARED))
            continue;
        is_free = false;
        if (!sight->ahead || kv->create_revision > sight->ahead->create_revision)
            sight->ahead = kv;
    }
    if (is_free && range->n_kvs >= NEAREST) /* writers that have become readers, and who else? */
        sight->below = range->kvs[range->n_kvs - 1]->create_revision;
}

static void again(struct hf__etcd *conn, struct hf__stand *stand, int64_t below)
{
    stand->course++;
    if (++stand->tries > TRIES_MAX)
        hf__stand_fail(
            conn, stand,
            hf__error_set(conn->base.error, HF_EUNREACHABLE, "the line changes all the time"));
    else if (below > 0)
        look_below(conn, stand, below);
    else
        hf__revision_claim(conn, stand);
}

void hf__revision_again(struct hf__etcd *conn, struct hf__stand *stand)
{
    again(conn, stand, 0);
}

static void grant(struct hf__etcd *conn, struct hf__stand *stand, int64_t in_line)
{
    stand->looked_ns = conn->now_ns;
    if (stand->state != HF__STAND_HELD)
        stand->held_ns = conn->now_ns;
    stand->state = HF__STAND_HELD;
    hf__watch_see_grant(conn);
    stand->has_ahead = false;
    stand->others_wait = in_line > 1;
    if (in_line <= 1)
        hf__hope_revive(conn, stand);
    hf__stand_answer(conn, stand, HF__REPLY_GRANTED);
}

static void queue(struct hf__etcd *conn, struct hf__stand *stand, const struct sight *sight)
{
    struct hf__bearer bearer;

    read_bearer(conn, sight->oldest, &bearer);
    wait_for(conn, stand, sight->ahead);
    stand->looked_ns = conn->now_ns;
    stand->entry.holder = bearer.holder;
    stand->entry.holder.fence = (uint64_t)sight->oldest->create_revision * 256;
    stand->entry.has_holder = bearer.is_known;
    if (stand->ahead_count != HF__AHEAD_UNKNOWN && stand->ahead_count >= HF__LINE_MAX_ETCD) {
        hf__stand_fail(conn, stand,
                       hf__error_set(conn->base.error, HF_ELIMIT, "%u wait for this lock already",
                                     HF__LINE_MAX_ETCD));
        return;
    }
    if (!stand->queueing) { /* it tried, and stands in no line: it is told when its key is gone */
        stand->was_refused = true;
        hf__stand_leave(conn, stand);
        return;
    }
    stand->state = HF__STAND_QUEUED;
    hf__watch_want(conn);
    hf__stand_answer(conn, stand, HF__REPLY_QUEUED);
}

/* The view begins with the second part of the answer. */
static void decide(struct hf__etcd *conn, struct hf__stand *stand,
                   const Hf__Etcd__TxnResponse *response)
{
    struct sight sight = { 0 };

    for (size_t i = 1; i < response->n_responses; i++) {
        const Hf__Etcd__RangeResponse *range = hf__txn_ranged(response, i);

        if (range)
            look_at(conn, stand, range, &sight);
    }
    if (sight.collides) {
        hf__stand_fail(
            conn, stand,
            hf__error_set(conn->base.error, HF_EINTEGRITY, "another name has the same hash"));
        return;
    }
    if (stand->ahead_count == HF__AHEAD_UNKNOWN && sight.passed < NEAREST) /* all were read */
        stand->ahead_count = sight.passed;
    if (sight.below > 1 && (!sight.ahead || sight.ahead->create_revision < sight.below)) {
        again(conn, stand, sight.below);
        return;
    }
    if (!sight.ahead)
        grant(conn, stand, sight.count);
    else if (stand->line->told_revision > response->header->revision || /* perhaps of that one */
             conn->watch.revision > response->header->revision)         /* nobody heard of it */
        again(conn, stand, stand->revision);
    else
        queue(conn, stand, &sight);
}

/* Who was there before, as far as it was read: a reader sees no readers. */
static uint32_t count_others(const struct hf__stand *stand, const Hf__Etcd__TxnResponse *response)
{
    int64_t count = stand->mode == HF_EXCLUSIVE ? -1 : 0; /* without ourselves */

    for (size_t i = 1; i < response->n_responses; i++) {
        const Hf__Etcd__RangeResponse *range = hf__txn_ranged(response, i);

        count += range ? range->count : 0;
    }
    return count > 0 && count < HF__AHEAD_UNKNOWN ? (uint32_t)count : 0;
}

void hf__revision_hear_hope(struct hf__etcd *conn, const struct hf__quest *quest,
                            const Hf__Etcd__TxnResponse *response)
{
    struct hf__stand *stand = quest->stand;

    if (!response->succeeded || !stand->lease || stand->lease->id != quest->lease_id) {
        again(conn, stand, 0);
        return;
    }
    stand->was_broken = false;
    stand->was_voided = false;
    stand->revision = response->header->revision;
    stand->ahead_count = 0;
    grant(conn, stand, 1);
}

static void hear_claim(struct hf__etcd *conn, const struct hf__quest *quest,
                       const Hf__Etcd__TxnResponse *response)
{
    struct hf__stand *stand = quest->stand;
    const Hf__Etcd__RangeResponse *own = hf__txn_ranged(response, 0);
    const Hf__Etcd__RangeResponse *second = hf__txn_ranged(response, 1);
    bool is_found = !response->succeeded && own && own->n_kvs == 1;

    if (!second || response->succeeded == (own != NULL) ||
        (is_found && !hf__stand_owns(stand, &own->kvs[0]->key))) {
        hf__etcd_end_by_nonsense(conn);
        return;
    }
    if (!stand->lease || stand->lease->id != quest->lease_id) { /* which has ended meanwhile */
        again(conn, stand, 0);
        return;
    }
    stand->was_broken = false;
    stand->was_voided = false;
    if (response->succeeded) {
        stand->revision = response->header->revision;
        stand->ahead_count = count_others(stand, response);
        if (stand->ahead_count > 0)
            hf__hope_disappoint(conn, stand);
        decide(conn, stand, response);
    } else if (is_found) { /* an earlier try got through */
        stand->revision = own->kvs[0]->create_revision;
        stand->ahead_count = HF__AHEAD_UNKNOWN;
        again(conn, stand, stand->revision);
    } else { /* somebody who left has raised the guard */
        stand->lease->guard = second->n_kvs > 0 ? second->kvs[0]->version : 0;
        again(conn, stand, 0);
    }
}

static void be_broken(struct hf__etcd *conn, struct hf__stand *stand)
{
    stand->was_broken = true;
    hf__stand_answer(conn, stand, HF__REPLY_GONE);
    stand->entry.reply.cause = "broken";
}

static void hear_look(struct hf__etcd *conn, const struct hf__quest *quest,
                      const Hf__Etcd__TxnResponse *response)
{
    struct hf__stand *stand = quest->stand;
    const Hf__Etcd__RangeResponse *own = hf__txn_ranged(response, 0);
    struct hf__bearer bearer;

    if (!response->succeeded) {
        stand->revision = 0;
        stand->state = HF__STAND_OUTSIDE;
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
        return;
    }
    if (!own || own->n_kvs != 1 || !hf__stand_owns(stand, &own->kvs[0]->key)) {
        hf__etcd_end_by_nonsense(conn);
        return;
    }
    read_bearer(conn, own->kvs[0], &bearer);
    if (bearer.is_broken) {
        be_broken(conn, stand);
        return;
    }
    decide(conn, stand, response);
}

/* Then it was not lowered because it is marked. */
static bool is_there(const struct hf__stand *stand, const Hf__Etcd__RangeResponse *own)
{
    return own && own->n_kvs == 1 && hf__stand_owns(stand, &own->kvs[0]->key) &&
           own->kvs[0]->create_revision == stand->revision;
}

/* To another lease, or to be a reader. */
static void hear_move(struct hf__etcd *conn, const struct hf__quest *quest,
                      const Hf__Etcd__TxnResponse *response)
{
    struct hf__stand *stand = quest->stand;
    struct hf__lease *lease = hf__lease_find(conn, quest->lease_id);
    bool is_renewed = stand->entry.ticket.kind == HF__REQUEST_RENEW && stand->looked_ns > 0;

    if (!response->succeeded && is_there(stand, hf__txn_ranged(response, 0))) {
        be_broken(conn, stand);
        return;
    }
    if (!response->succeeded) {
        stand->revision = 0;
        stand->state = HF__STAND_OUTSIDE;
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
        return;
    }
    if (quest->query == HF__QUERY_LOWER)
        stand->mode = HF_SHARED;
    if (quest->raises_guard)
        hf__stand_forget_claims(conn, stand);
    if (lease && lease != stand->lease) {
        hf__lease_leave(conn, stand);
        hf__lease_lodge(stand, lease);
    }
    hf__lease_aim(stand, NULL);
    if (!lease)
        hf__stand_answer(conn, stand, HF__REPLY_GONE);
    else if (is_renewed || quest->query == HF__QUERY_LOWER)
        hf__stand_answer(conn, stand, HF__REPLY_GRANTED);
    else
        hf__revision_go_on(conn, stand);
}

/* That a lease is gone is true also when it is heard too late for whoever asked. */
static void hear_refusal(struct hf__etcd *conn, const struct hf__quest *quest,
                         const struct hf__rpc_event *event)
{
    struct hf__stand *stand = quest->stand;
    bool is_heard = quest->course == stand->course;
    bool is_void = event->fate == HF__RPC_FATE_ANSWERED && event->code == HF__RPC_CODE_NOT_FOUND;
    struct hf__lease *lease = is_void ? hf__lease_find(conn, quest->lease_id) : NULL;

    if (lease && quest->raises_guard)
        lease = is_heard ? stand->lease : NULL; /* of two: with this one went the key, or nobody
                                                 * keeps it */
    if (lease)
        hf__lease_void(conn, lease);
    if (!is_heard)
        return;
    if (is_void && quest->query == HF__QUERY_CLAIM)
        again(conn, stand, 0);
    else if (!is_void)
        hf__stand_fail_by(conn, stand, event);
    else if (quest->course == stand->course) /* what it has lost it was told: it wanted to move */
        hf__revision_go_on(conn, stand);
}

static bool were_made_by(const Hf__Etcd__RangeResponse *range, int64_t revision)
{
    for (size_t i = 0; i < range->n_kvs; i++) {
        if (range->kvs[i]->create_revision <= 0 || range->kvs[i]->create_revision > revision)
            return false;
    }
    return true;
}

void hf__revision_see(struct hf__etcd *conn, const Hf__Etcd__ResponseHeader *header)
{
    if (header && header->revision <= REVISION_MAX && header->revision > conn->seen_revision)
        conn->seen_revision = header->revision;
}

/* Revisions are the order of the line: what contradicts them must not be taken for a place in it.
 * Whoever was asked after one was seen has it; if not, it has forgotten, and perhaps a holder. */
int hf__revision_check(struct hf__etcd *conn, const struct hf__quest *quest,
                       const Hf__Etcd__TxnResponse *response)
{
    int64_t revision = response->header ? response->header->revision : 0;
    bool is_sound = revision > 0 && revision <= REVISION_MAX;

    for (size_t i = 0; is_sound && i < response->n_responses; i++) {
        const Hf__Etcd__RangeResponse *range = hf__txn_ranged(response, i);

        is_sound = !range || were_made_by(range, revision);
    }
    if (!is_sound)
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server answered what cannot be");
    if (revision < quest->seen_revision)
        return hf__error_set(conn->base.error, HF_EINTEGRITY,
                             "the server is at revision %lld, and has been at %lld",
                             (long long)revision, (long long)quest->seen_revision);
    hf__revision_see(conn, response->header);
    hf__lease_see_term(conn, response->header, false);
    return HF_OK;
}

void hf__revision_hear(struct hf__etcd *conn, const struct hf__quest *quest,
                       const struct hf__rpc_event *event)
{
    Hf__Etcd__TxnResponse *response;
    int status;

    if (event->kind == HF__RPC_FAILED) {
        hear_refusal(conn, quest, event);
        return;
    }
    if (quest->course != quest->stand->course)
        return;
    response = hf__query_unpack(conn, &hf__etcd__txn_response__descriptor, event);
    if (!response)
        return;
    status = hf__revision_check(conn, quest, response);
    if (status < 0)
        hf__etcd_end(conn, status);
    else if (quest->query == HF__QUERY_CLAIM)
        hear_claim(conn, quest, response);
    else if (quest->query == HF__QUERY_LOOK)
        hear_look(conn, quest, response);
    else
        hear_move(conn, quest, response);
    hf__message_free(&conn->memory, &response->base);
}

const struct hf__recipe hf__etcd_revision = {
    .name = "revision",
    .url_forms = "etcd://[user[:password]@]host[:port][,...][/path] etcds://...",
    .summary =
        "A key for each claim, in the order of etcd's revisions; each waiter is woken alone; "
        "shared and exclusive.",
    .caveat = "A lease has whole seconds, and a least length that the server sets (2 s with its "
              "defaults); after a change of leader a dead holder's lease begins anew.",
    .schema = "",
    .pattern = HF__PATTERN_QUEUE,
    .promises = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                HF_PROMISE_DURABLE | HF_PROMISE_FAILOVER | HF_PROMISE_CRASH,
    .is_default = true,
    .hands_on = true,
    .leases = true,
    .in_session = true,
    .ends_fixed = true,
};
