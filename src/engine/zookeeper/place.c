/* place.c: which claims does this session have, where do they stand, and what must the core hear?
 *
 * A place is found by the core's number. What the core asked becomes a course: a few questions to
 * the server, counted in `open`; the last answer decides. What there is to tell, an answer or news,
 * is noted in the place, which then stands in conn->telling until advance() has come round to it.
 *
 * What can go wrong: the connection ends: whoever waits for an answer is told that there is none,
 * and places stay, because the session does. The session ends: all nodes are gone, or will be
 * before anybody else can take their turn. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/zookeeper/zookeeper.h"

#define FRESH 12 /* such a part of the lease is not worth another beat */

/* --- coming and going --- */

struct hf__place *hf__place_find(const struct hf__zookeeper *conn, uint64_t claim_id)
{
    return (struct hf__place *)hf__roll_find(&conn->roll, claim_id);
}

/* NULL, with conn->base.error: no memory, or no such name. */
struct hf__place *hf__place_new(struct hf__zookeeper *conn, const struct hf__request *request)
{
    char path[HF__PATH_BYTES];
    bool hashed;
    struct hf__place *place;

    if (hf__layout_path(conn, request->name, request->name_bytes, path, &hashed) < 0)
        return NULL;
    place =
        (struct hf__place *)hf__roll_add(&conn->roll, request->ticket.claim_id,
                                         sizeof(*place) + strlen(path) + request->name_bytes + 2);
    if (!place) {
        hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        return NULL;
    }
    hf__list_init(&place->renewal);
    place->evict_at_ns = HF__NEVER;
    place->watch_at_ns = HF__NEVER;
    place->path_bytes = strlen(path);
    place->path = memcpy(place->text, path, place->path_bytes + 1);
    place->path_hash = (uint32_t)hf__name_hash(path, place->path_bytes, 0);
    place->full_name_bytes = hashed ? request->name_bytes : 0;
    place->full_name =
        memcpy(place->text + place->path_bytes + 1, request->name, request->name_bytes);
    return place;
}

void hf__place_free(struct hf__zookeeper *conn, struct hf__place *place)
{
    hf__list_remove(&place->renewal);
    HF__LIST_FOR(node, &conn->asked)
    {
        struct hf__zasked *asked = HF__LIST_ENTRY(node, struct hf__zasked, place);

        if (asked->owner == place)
            asked->owner = NULL;
    }
    hf__roll_remove(&conn->roll, &place->entry);
}

/* --- courses --- */

void hf__place_begin(struct hf__place *place)
{
    place->course++;
    place->open = 0;
    place->error = place->parent_error = 0;
    place->searches = false;
    place->makes = false;
    place->confirms = false;
    place->is_listed = false;
    place->ahead_is_gone = false;
    place->wants_list = false;
    place->list_number = 0;
    place->hopes = false;
}

uint64_t hf__place_lease_ns(const struct hf__zookeeper *conn, const struct hf__place *place)
{
    uint64_t end_ns = conn->session.older_ns + conn->session.timeout_ns;
    uint64_t most_ns =
        end_ns > place->entry.ticket.sent_ns ? end_ns - place->entry.ticket.sent_ns : 1;

    return place->lease_ns < most_ns ? place->lease_ns : most_ns;
}

void hf__place_answer(struct hf__zookeeper *conn, struct hf__place *place, enum hf__reply_kind kind)
{
    struct hf__reply *reply = &place->entry.reply;

    place->course++; /* what is still under way for it means nothing any more */
    place->open = 0;
    place->tries = 0;
    hf__list_remove(&place->renewal);
    if (!hf__roll_answer(&conn->roll, &place->entry, kind))
        return;
    reply->fence = kind == HF__REPLY_GRANTED ? (uint64_t)place->czxid * 256 : 0;
    reply->lease_ns = kind == HF__REPLY_GRANTED ? hf__place_lease_ns(conn, place) : 0;
    reply->others_wait = kind == HF__REPLY_GRANTED && place->others_wait;
    reply->ahead = kind == HF__REPLY_QUEUED || kind == HF__REPLY_REFUSED ? place->ahead_count
                                                                         : HF__AHEAD_UNKNOWN;
    reply->holder =
        place->entry.has_holder && kind != HF__REPLY_GRANTED ? &place->entry.holder : NULL;
}

void hf__place_fail(struct hf__zookeeper *conn, struct hf__place *place, int32_t error)
{
    int status = hf__ask_status(conn, error);

    hf__place_answer(conn, place, HF__REPLY_FAILED);
    place->entry.reply.status = status;
}

/* --- leaving --- */

static void delete_node(struct hf__zookeeper *conn, struct hf__place *place)
{
    hf__place_begin(place);
    place->open = 1;
    if (!conn->recipe->single && !place->others_wait) {
        hf__join_delete(conn, place);
        return;
    }
    hf__ask_delete_own(conn, place);
    if (conn->recipe->single)
        place->is_doubted = true; /* if its answer is lost, the next node may be another's */
}

/* The answer to the create, or a search, will bring us here again. */
void hf__place_leave(struct hf__zookeeper *conn, struct hf__place *place)
{
    place->state = HF__PLACE_LEAVING;
    place->watches_ahead = false;
    place->evict_at_ns = HF__NEVER;
    place->watch_at_ns = HF__NEVER;
    if (place->is_creating)
        return;
    if (place->has_node && !place->is_doubted) {
        delete_node(conn, place);
        return;
    }
    if (place->maybe_made || place->has_node) {
        hf__place_begin(place);
        place->searches = true;
        place->open = 1;
        hf__ask_sync(conn, place->path);
        hf__ask_about(conn, HF__STEP_CHILDREN, place,
                      conn->recipe->single ? HF__OPCODE_GET_DATA : HF__OPCODE_GET_CHILDREN,
                      place->path);
        hf__ask_watch(conn, false);
        return;
    }
    hf__place_hear_delete(conn, place, HF__ZERROR_NO_NODE);
}

void hf__place_hear_delete(struct hf__zookeeper *conn, struct hf__place *place, int32_t error)
{
    bool was_there = error == HF__ZERROR_OK && !place->was_broken &&
                     (place->fence == 0 || place->fence / 256 == (uint64_t)place->czxid);

    if (error != HF__ZERROR_OK && error != HF__ZERROR_NO_NODE) {
        if (place->entry.ticket.kind != HF__REQUEST_NONE)
            hf__place_fail(conn, place, error);
        return; /* of one that nobody asks about: when we are connected again */
    }
    if (error == HF__ZERROR_OK)
        hf__footprint_leave(conn, place);
    place->has_node = false;
    place->maybe_made = false;
    place->was_first = false;
    if (place->entry.forsaken) {
        hf__place_free(conn, place);
        return;
    }
    if (place->entry.ticket.kind == HF__REQUEST_RELEASE) {
        hf__place_answer(conn, place, HF__REPLY_GONE);
        place->entry.reply.released = was_there;
        place->entry.reply.cause = place->was_voided ? "expired" : NULL;
    } else if (place->entry.ticket.kind == HF__REQUEST_CLAIM && place->was_refused) {
        hf__place_answer(conn, place, HF__REPLY_REFUSED);
    }
}

/* --- what the core must hear --- */

/* The core asks no more about it: its node, if it has one, must go all the same. */
static void forsake(struct hf__zookeeper *conn, struct hf__place *place)
{
    place->entry.forsaken = true;
    if (!place->has_node && !place->maybe_made && !place->is_creating)
        hf__place_free(conn, place);
    else if (conn->greeted && !conn->ending)
        hf__place_leave(conn, place);
    else
        place->state = HF__PLACE_LEAVING;
}

/* After these the core has forgotten the claim. */
static bool is_last(const struct hf__place *place, const struct hf__reply *reply)
{
    if (reply->ticket.kind == HF__REQUEST_RELEASE)
        return reply->kind == HF__REPLY_GONE;
    if (reply->ticket.kind == HF__REQUEST_NONE)
        return reply->kind == HF__REPLY_GONE && !place->has_node &&
               place->entry.ticket.kind == HF__REQUEST_NONE;
    return reply->ticket.kind == HF__REQUEST_CLAIM &&
           (reply->kind == HF__REPLY_FAILED ||
            (reply->kind == HF__REPLY_REFUSED && !place->queueing));
}

int hf__place_next(struct hf__zookeeper *conn, struct hf__reply *out_reply)
{
    struct hf__place *place = (struct hf__place *)hf__roll_next(&conn->roll, out_reply);

    if (!place)
        return 0;
    if (is_last(place, out_reply))
        forsake(conn, place);
    return 1;
}

static void answer_alive(struct hf__zookeeper *conn, struct hf__place *place, uint64_t sent_ns)
{
    if (place->entry.ticket.sent_ns > sent_ns)
        place->entry.ticket.sent_ns = sent_ns;
    hf__place_answer(conn, place,
                     place->state == HF__PLACE_HELD     ? HF__REPLY_GRANTED
                     : place->state == HF__PLACE_QUEUED ? HF__REPLY_QUEUED
                                                        : HF__REPLY_GONE);
}

void hf__place_renew(struct hf__zookeeper *conn, struct hf__place *place)
{
    uint64_t fresh_ns = hf__place_lease_ns(conn, place) / FRESH;

    place->entry.sent = true;
    if (conn->lived_ns > 0 && conn->now_ns < conn->lived_ns + fresh_ns)
        answer_alive(conn, place, conn->lived_ns);
    else
        hf__list_append(&conn->renewals, &place->renewal);
}

/* A beat answers also for whoever asked after it was sent: from then on it is valid. */
void hf__place_renewed(struct hf__zookeeper *conn, uint64_t sent_ns)
{
    HF__LIST_FOR(node, &conn->renewals)
    {
        struct hf__place *place = HF__LIST_ENTRY(node, struct hf__place, renewal);

        answer_alive(conn, place, sent_ns);
    }
}

/* --- ends --- */

static void give_up(struct hf__zookeeper *conn, struct hf__place *place, int status)
{
    enum hf__reply_kind kind = place->entry.sent ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED;

    hf__place_answer(conn, place, kind);
    place->entry.reply.status = status;
}

void hf__place_expire(struct hf__zookeeper *conn)
{
    struct hf__entry *entry;

    while ((entry = hf__roll_late(&conn->roll, conn->now_ns))) {
        hf__error_set(conn->base.error, HF_EUNREACHABLE, "no answer in time");
        give_up(conn, (struct hf__place *)entry, HF_EUNREACHABLE);
    }
}

/* Of what was under way, nobody knows whether it was done. */
void hf__place_end_all(struct hf__zookeeper *conn)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (place->is_creating)
            place->maybe_made = true;
        place->is_creating = false;
        place->wants_list = false;
        place->list_number = 0;
        place->course++;
        place->open = 0;
        if (place->entry.ticket.kind != HF__REQUEST_NONE)
            give_up(conn, place, conn->end_status);
    }
    HF__LIST_FOR(node, &conn->asked)
    {
        hf__ask_free(conn, HF__LIST_ENTRY(node, struct hf__zasked, place));
    }
    conn->joining = 0;
    conn->is_beating = false;
}

void hf__place_void_all(struct hf__zookeeper *conn)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (place->entry.forsaken) {
            hf__place_free(conn, place);
            continue;
        }
        if (place->state == HF__PLACE_HELD || place->state == HF__PLACE_QUEUED) {
            place->entry.gone = "expired";
            hf__roll_tell(&conn->roll, &place->entry);
        }
        if (place->state != HF__PLACE_LEAVING)
            place->state = HF__PLACE_OUTSIDE;
        place->has_node = false;
        place->maybe_made = false;
        place->was_voided = true;
        place->watches_ahead = place->watches_own = place->watches_children = false;
        place->evict_at_ns = HF__NEVER;
    }
}
