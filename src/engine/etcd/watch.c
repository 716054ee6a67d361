/* watch.c: what happens at the server without our asking?
 *
 * One watch over everything that begins with the prefix, opened before anybody waits: a watch that
 * is opened when it is needed begins in the past, and the server serves such ones late. Events of
 * locks that nobody of ours wants are passed over.
 *
 * What can go wrong: the server ends the watch, or has forgotten where it was: the connection ends,
 * and with the next one everybody looks anew. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/etcd/etcd.h"

void hf__watch_open(struct hf__etcd *conn)
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
    open.path = "/etcdserverpb.Lease/LeaseKeepAlive";
    if (status == HF_OK)
        status = hf__rpc_open(rpc, &open, &conn->keeping);
    if (status < 0)
        hf__etcd_end(conn, hf__error_set(conn->base.error, status, "the server cannot be watched"));
}

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
    if (stand->state == HF__STAND_HELD && is_new && !stand->others_wait) {
        stand->others_wait = true;
        stand->entry.crowded = true;
        hf__roll_tell(&conn->roll, &stand->entry);
    }
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
    if (response->created && !conn->watch.is_up) {
        conn->watch.is_up = true;
        conn->greetings_left--;
    }
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
}
