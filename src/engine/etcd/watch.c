/* watch.c: what happens at the server without our asking?
 *
 * One watch over everything that begins with the prefix, opened before anybody waits, and for good:
 * one for each wait would often begin in the past, and the server serves such ones late. Events of
 * locks that nobody of ours wants are passed over.
 *
 * But a server works a third more for a turn that it tells somebody about. So the watch is closed
 * when it has told much to a client that did not wait for anything lately, nor has held anything
 * for long, and opened again as soon as one does. Then all look anew.
 *
 * What can go wrong: the server ends the watch, or has forgotten where it was: the connection ends,
 * and with the next one everybody looks anew. Who holds is broken while there is no watch: it looks
 * when there is one again, which is soon, for it has held for long by then. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/etcd/etcd.h"

#define LONG_NS      (20 * HF__NS_PER_MS) /* who holds for so long wants to know who comes */
#define WANTED_NS    HF__NS_PER_S         /* since somebody last waited */
#define UNWANTED_MAX 64                   /* events */

/* --- open and closed --- */

static void open_watch(struct hf__etcd *conn)
{
    Hf__Etcd__WatchCreateRequest create = HF__ETCD__WATCH_CREATE_REQUEST__INIT;
    Hf__Etcd__WatchRequest request = HF__ETCD__WATCH_REQUEST__INIT;
    struct hf__rpc *rpc = conn->links[HF__WAY_KEEP].rpc;
    struct hf__rpc_request open = { .path = "/etcdserverpb.Watch/Watch",
                                    .now_ns = conn->now_ns,
                                    .deadline_ns = HF__NEVER };
    char end[HF__LOCK_KEY_BYTES];
    size_t bytes = conn->prefix_bytes;
    int status;

    memcpy(end, conn->prefix, bytes);
    if (bytes > 0)
        end[bytes - 1]++;
    create.prev_kv = true;
    create.fragment = true; /* many events at once may be more than a message of ours */
    create.key = hf__etcd_bytes(bytes > 0 ? conn->prefix : "", bytes > 0 ? bytes : 1);
    create.range_end = hf__etcd_bytes(bytes > 0 ? end : "", bytes > 0 ? bytes : 1);
    request.request_union_case = HF__ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    hf__buffer_consume(&conn->packed, hf__buffer_count(&conn->packed));
    status = hf__message_pack(&request.base, &conn->packed);
    if (status == HF_OK)
        status = hf__rpc_open(rpc, &open, &conn->watch.call);
    if (status == HF_OK)
        status = hf__rpc_send(rpc, conn->watch.call,
                              (struct hf__rpc_bytes){ hf__buffer_front(&conn->packed),
                                                      hf__buffer_count(&conn->packed) });
    conn->watch.look_ns = 0;
    if (status < 0)
        hf__etcd_end(conn, hf__error_set(conn->base.error, status, "the server cannot be watched"));
}

void hf__watch_open(struct hf__etcd *conn)
{
    struct hf__rpc_request open = { .path = "/etcdserverpb.Lease/LeaseKeepAlive",
                                    .now_ns = conn->now_ns,
                                    .deadline_ns = HF__NEVER };
    int status = hf__rpc_open(conn->links[HF__WAY_KEEP].rpc, &open, &conn->keeping);

    if (status < 0)
        hf__etcd_end(conn, hf__error_set(conn->base.error, status, "no lease can be kept"));
    else
        open_watch(conn);
}

void hf__watch_want(struct hf__etcd *conn)
{
    conn->watch.wanted_ns = conn->now_ns;
    if (!conn->watch.call && !conn->ending)
        open_watch(conn);
}

void hf__watch_see_grant(struct hf__etcd *conn)
{
    if (!conn->watch.call && conn->watch.look_ns == 0)
        conn->watch.look_ns = conn->now_ns + LONG_NS;
}

/* Does anybody wait, or has held for long? */
static bool is_wanted(const struct hf__etcd *conn)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        const struct hf__stand *stand =
            (struct hf__stand *)HF__LIST_ENTRY(member, struct hf__entry, member);

        if (stand->state == HF__STAND_QUEUED ||
            (stand->state == HF__STAND_HELD && conn->now_ns >= stand->held_ns + LONG_NS))
            return true;
    }
    return false;
}

void hf__watch_tend(struct hf__etcd *conn)
{
    if (conn->watch.look_ns == 0 || conn->now_ns < conn->watch.look_ns)
        return;
    conn->watch.look_ns = 0;
    if (is_wanted(conn))
        hf__watch_want(conn);
    else if (!hf__list_empty(&conn->roll.members))
        hf__watch_see_grant(conn);
}

/* Whoever waits for an answer comes back soon enough. */
uint64_t hf__watch_deadline(const struct hf__etcd *conn)
{
    bool is_due = conn->watch.look_ns > 0 && hf__list_empty(&conn->quests);

    return is_due ? conn->watch.look_ns : HF__NEVER;
}

static void close_if_unwanted(struct hf__etcd *conn)
{
    if (conn->ending || conn->watch.unwanted < UNWANTED_MAX ||
        conn->now_ns < conn->watch.wanted_ns + WANTED_NS)
        return;
    conn->watch.unwanted = 0;
    if (is_wanted(conn)) {
        conn->watch.wanted_ns = conn->now_ns;
        return;
    }
    (void)hf__rpc_cancel(conn->links[HF__WAY_KEEP].rpc, conn->watch.call);
    conn->watch = (struct hf__watch){ 0 };
    hf__watch_see_grant(conn);
}

static void crowd(struct hf__etcd *conn, struct hf__stand *stand)
{
    stand->others_wait = true;
    stand->entry.crowded = true;
    hf__roll_tell(&conn->roll, &stand->entry);
}

/* What happened while there was no watch, nobody heard. */
static void hear_up(struct hf__etcd *conn, int64_t revision)
{
    conn->watch.is_up = true;
    conn->watch.revision = revision;
    if (!conn->greeted) {
        conn->greetings_left--;
        return;
    }
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__entry *entry = HF__LIST_ENTRY(member, struct hf__entry, member);
        struct hf__stand *stand = (struct hf__stand *)entry;

        stand->looked_ns = 0;
        if (stand->state == HF__STAND_QUEUED ||
            (stand->state == HF__STAND_HELD && stand->revision <= revision)) {
            entry->changed = true;
            hf__roll_tell(&conn->roll, entry);
        }
        if (stand->state == HF__STAND_HELD && !stand->others_wait)
            crowd(conn, stand); /* who came meanwhile must not be passed by */
    }
}

/* --- events --- */

/* Of a key that is a stand's own. */
static void hear_own(struct hf__etcd *conn, struct hf__stand *stand, const Hf__Etcd__Event *event)
{
    struct hf__bearer bearer;

    if (stand->revision == 0 || event->kv->mod_revision <= stand->revision ||
        stand->state == HF__STAND_LEAVING)
        return; /* of its making, or of what we did ourselves */
    if (event->type == HF__ETCD__EVENT__EVENT_TYPE__DELETE) {
        hf__stand_lose(conn, stand, "broken");
        return;
    }
    hf__bearer_read((const char *)event->kv->value.data, event->kv->value.len, &bearer);
    if (!bearer.is_broken || stand->was_broken)
        return;
    stand->was_broken = true;
    hf__stand_lose(conn, stand, "broken");
}

static void hear_other(struct hf__etcd *conn, struct hf__stand *stand, const Hf__Etcd__Event *event,
                       uint64_t hash)
{
    bool is_new = event->type == HF__ETCD__EVENT__EVENT_TYPE__PUT &&
                  event->kv->create_revision == event->kv->mod_revision;

    if (event->type == HF__ETCD__EVENT__EVENT_TYPE__DELETE && event->prev_kv &&
        event->kv->mod_revision > stand->revision &&
        event->prev_kv->create_revision < stand->revision && stand->ahead_count > 0 &&
        stand->ahead_count != HF__AHEAD_UNKNOWN)
        stand->ahead_count--;
    if (stand->state == HF__STAND_HELD && is_new && !stand->others_wait)
        crowd(conn, stand);
    if (stand->state == HF__STAND_QUEUED && stand->has_ahead && stand->ahead_hash == hash &&
        !is_new) {
        stand->has_ahead = false;
        stand->entry.changed = true;
        hf__roll_tell(&conn->roll, &stand->entry);
    }
}

static void hear_event(struct hf__etcd *conn, const Hf__Etcd__Event *event)
{
    struct hf__rank *line =
        event->kv ? hf__rank_find(conn, event->kv->key.data, event->kv->key.len) : NULL;
    uint64_t hash;

    if (!line)
        return;
    hash = hf__rank_hash(event->kv->key.data, event->kv->key.len);
    if (line->told_revision < event->kv->mod_revision)
        line->told_revision = event->kv->mod_revision;
    HF__LIST_FOR(node, &line->stands)
    {
        struct hf__stand *stand = HF__LIST_ENTRY(node, struct hf__stand, neighbour);
        bool is_last = line->stands.prev == line->stands.next; /* then the line may go with it */

        if (hf__stand_owns(stand, &event->kv->key))
            hear_own(conn, stand, event);
        else
            hear_other(conn, stand, event, hash);
        if (is_last)
            return;
    }
}

/* The server gives its reason as a text alone. */
static int status_of(const char *reason)
{
    bool is_denied = strstr(reason, "permission denied") || strstr(reason, "user name is empty");

    return is_denied ? HF_EDENIED : HF_EUNREACHABLE;
}

static void hear_response(struct hf__etcd *conn, const Hf__Etcd__WatchResponse *response)
{
    const char *reason = response->cancel_reason;
    char shown[HF__ERROR_BYTES / 2];

    if (response->canceled || response->compact_revision > 0) {
        (void)hf__text_escape(reason, strlen(reason), shown, sizeof(shown));
        hf__etcd_end(conn, hf__error_set(conn->base.error, status_of(reason),
                                         "the server ended the watch: %s", shown));
        return;
    }
    if (response->created && !conn->watch.is_up)
        hear_up(conn, response->header ? response->header->revision : 0);
    conn->watch.unwanted += (uint32_t)response->n_events;
    for (size_t i = 0; i < response->n_events && !conn->ending; i++)
        hear_event(conn, response->events[i]);
}

void hf__watch_hear(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    Hf__Etcd__WatchResponse *response;
    bool perhaps;

    if (event->kind == HF__RPC_ENDED) {
        conn->watch.call = NULL;
        hf__etcd_end(conn, hf__query_status(conn, event, &perhaps));
        return;
    }
    response = hf__query_unpack(conn, &hf__etcd__watch_response__descriptor, event);
    if (!response)
        return;
    hear_response(conn, response);
    hf__message_free(&conn->memory, &response->base);
    close_if_unwanted(conn);
}
