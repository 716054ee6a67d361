/* query.c: what is asked of the server, and who hears the answer?
 *
 * A quest is a question under way; its address is the tag that the answer comes back with. What the
 * answer means is for whoever asked to say.
 *
 * What can go wrong: the server says no, and its words become a status of ours; it says what is no
 * answer at all: the connection ends. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/etcd.h"

#define ANSWER_NS (10 * HF__NS_PER_S) /* the longest that one of etcd's own requests takes */

static const char *path_of(enum hf__query query)
{
    switch (query) {
    case HF__QUERY_LOGIN:
        return "/etcdserverpb.Auth/Authenticate";
    case HF__QUERY_STATUS:
    case HF__QUERY_TERM:
        return "/etcdserverpb.Maintenance/Status";
    case HF__QUERY_MEMBERS:
        return "/etcdserverpb.Cluster/MemberList";
    case HF__QUERY_GRANT:
        return "/etcdserverpb.Lease/LeaseGrant";
    case HF__QUERY_REVOKE:
        return "/etcdserverpb.Lease/LeaseRevoke";
    case HF__QUERY_SPAN:
        return "/etcdserverpb.Lease/LeaseTimeToLive";
    case HF__QUERY_HELLO:
    case HF__QUERY_PROBE:
    case HF__QUERY_LIST:
        return "/etcdserverpb.KV/Range";
    case HF__QUERY_DELETE:
        return "/etcdserverpb.KV/DeleteRange";
    case HF__QUERY_NONE:
    case HF__QUERY_CLAIM:
    case HF__QUERY_LOOK:
    case HF__QUERY_CONVOY:
    case HF__QUERY_UNDO:
    case HF__QUERY_MOVE:
    case HF__QUERY_LOWER:
    case HF__QUERY_SEEK:
    case HF__QUERY_BREAK:
        return "/etcdserverpb.KV/Txn";
    }
    return "";
}

static struct hf__quest *take_quest(struct hf__etcd *conn)
{
    struct hf__quest *quest;

    if (hf__list_empty(&conn->free_quests)) {
        quest = hf__env_new(conn->base.env, sizeof(*quest));
        if (quest)
            hf__list_init(&quest->place);
        return quest;
    }
    quest = HF__LIST_ENTRY(conn->free_quests.next, struct hf__quest, place);
    hf__list_remove(&quest->place);
    return quest;
}

static struct hf__quest *give_up(struct hf__etcd *conn, struct hf__quest *quest, enum hf__way way,
                                 int status)
{
    if (quest)
        hf__list_append(&conn->free_quests, &quest->place);
    if (conn->ending || hf__link_end_if_over(conn, &conn->links[way]))
        return NULL;
    hf__etcd_end(conn, status == HF_ENOMEM
                           ? hf__error_set(conn->base.error, HF_ENOMEM, "out of memory")
                           : hf__error_set(conn->base.error, status, "nothing more can be sent"));
    return NULL;
}

struct hf__quest *hf__query_send(struct hf__etcd *conn, enum hf__query query, enum hf__way way,
                                 const ProtobufCMessage *message)
{
    struct hf__quest *quest = take_quest(conn);
    struct hf__rpc_request request = { .path = path_of(query), .now_ns = conn->now_ns };
    int status;

    if (!quest)
        return give_up(conn, NULL, way, HF_ENOMEM);
    hf__buffer_consume(&conn->packed, hf__buffer_count(&conn->packed));
    status = hf__message_pack(message, &conn->packed);
    if (status < 0)
        return give_up(conn, quest, way, status);
    *quest = (struct hf__quest){ .query = query,
                                 .number = ++conn->quest_count,
                                 .way = way,
                                 .sent_ns = conn->now_ns,
                                 .seen_revision = conn->seen_revision };
    hf__list_init(&quest->place);
    request.message.at = hf__buffer_front(&conn->packed);
    request.message.count = hf__buffer_count(&conn->packed);
    request.deadline_ns = conn->now_ns + ANSWER_NS;
    request.tag = (uint64_t)(uintptr_t)quest;
    status = hf__rpc_start(conn->links[way].rpc, &request, NULL);
    if (status < 0)
        return give_up(conn, quest, way, status);
    hf__list_append(&conn->quests, &quest->place);
    return quest;
}

struct hf__quest *hf__query_send_for(struct hf__etcd *conn, enum hf__query query,
                                     struct hf__stand *stand, const ProtobufCMessage *message)
{
    struct hf__quest *quest = hf__query_send(conn, query, HF__WAY_CALLS, message);

    stand->asked++;
    if (!quest)
        return NULL;
    quest->stand = stand;
    quest->course = stand->course;
    return quest;
}

struct hf__quest *hf__query_chain(struct hf__etcd *conn, struct hf__quest *last,
                                  struct hf__stand *stand)
{
    struct hf__quest *quest = take_quest(conn);

    stand->asked++;
    if (!quest)
        return give_up(conn, NULL, last->way, HF_ENOMEM);
    *quest = *last;
    quest->next = NULL;
    last->next = quest;
    quest->stand = stand;
    quest->course = stand->course;
    hf__list_init(&quest->place);
    hf__list_append(&conn->quests, &quest->place);
    return quest;
}

void hf__query_forget(struct hf__etcd *conn, const struct hf__stand *stand)
{
    HF__LIST_FOR(node, &conn->quests)
    {
        struct hf__quest *quest = HF__LIST_ENTRY(node, struct hf__quest, place);

        if (quest->stand == stand)
            quest->stand = NULL;
    }
}

void hf__query_done(struct hf__etcd *conn)
{
    struct hf__list *lists[] = { &conn->quests, &conn->free_quests };

    for (size_t i = 0; i < 2; i++) {
        HF__LIST_FOR(node, lists[i])
        {
            hf__list_remove(node);
            hf__env_free(conn->base.env, HF__LIST_ENTRY(node, struct hf__quest, place));
        }
    }
}

/* --- answers --- */

int hf__query_status(struct hf__etcd *conn, const struct hf__rpc_event *event, bool *out_perhaps)
{
    static const struct {
        int code;
        int status;
    } codes[] = {
        { HF__RPC_CODE_PERMISSION_DENIED, HF_EDENIED },
        { HF__RPC_CODE_INVALID_ARGUMENT, HF_EDENIED },     /* user or password */
        { HF__RPC_CODE_FAILED_PRECONDITION, HF_EDENIED },  /* a user, where nobody has a name */
        { HF__RPC_CODE_UNAUTHENTICATED, HF_EUNREACHABLE }, /* the token is old: we come again */
        { HF__RPC_CODE_RESOURCE_EXHAUSTED, HF_ELIMIT },
        { HF__RPC_CODE_UNIMPLEMENTED, HF_EUNSUPPORTED },
    };
    int status = event->status < 0 ? event->status : HF_EUNREACHABLE;
    bool is_known = false;

    for (size_t i = 0; event->fate == HF__RPC_FATE_ANSWERED && i < sizeof(codes) / sizeof(*codes);
         i++) {
        if (codes[i].code == event->code) {
            status = codes[i].status;
            is_known = true;
        }
    }
    if (is_known && status == HF_ELIMIT && strstr(event->text, "too many requests"))
        status = HF_EUNREACHABLE; /* it is behind with its work, and will catch up */
    *out_perhaps = event->fate != HF__RPC_FATE_NEVER && !is_known;
    return hf__error_set(conn->base.error, status, "%s: %s",
                         hf__stream_peer(conn->links[HF__WAY_CALLS].stream), event->text);
}

void *hf__query_unpack(struct hf__etcd *conn, const ProtobufCMessageDescriptor *type,
                       const struct hf__rpc_event *event)
{
    ProtobufCMessage *message = NULL;
    int status =
        hf__message_unpack(&conn->memory, type, event->message, &message, conn->base.error);

    if (status < 0)
        hf__etcd_end(conn, status);
    return message;
}

static void hear_answer(struct hf__etcd *conn, const struct hf__quest *quest,
                        const struct hf__rpc_event *event)
{
    switch (quest->query) {
    case HF__QUERY_NONE:
    case HF__QUERY_REVOKE:
        return;
    case HF__QUERY_LOGIN:
    case HF__QUERY_STATUS:
    case HF__QUERY_MEMBERS:
    case HF__QUERY_HELLO:
        hf__etcd_hear_greeting(conn, quest, event);
        return;
    case HF__QUERY_PROBE:
    case HF__QUERY_TERM:
        hf__lease_hear_probe(conn, quest, event);
        return;
    case HF__QUERY_GRANT:
        hf__lease_hear_grant(conn, quest, event);
        return;
    case HF__QUERY_LIST:
    case HF__QUERY_SPAN:
    case HF__QUERY_SEEK:
    case HF__QUERY_BREAK:
        hf__roster_hear(conn, quest, event);
        return;
    case HF__QUERY_DELETE:
    case HF__QUERY_UNDO:
        if (quest->stand)
            hf__stand_hear_leave(conn, quest->stand, quest, event);
        return;
    case HF__QUERY_CONVOY:
        hf__convoy_hear(conn, quest, event);
        return;
    case HF__QUERY_CLAIM:
    case HF__QUERY_LOOK:
    case HF__QUERY_MOVE:
    case HF__QUERY_LOWER:
        if (quest->stand)
            hf__revision_hear(conn, quest, event);
        return;
    }
}

static bool is_claim(const struct hf__quest *quest)
{
    return quest->query == HF__QUERY_CLAIM || quest->hopes;
}

/* It has done what it will ever do. */
static bool is_settled(const struct hf__rpc_event *event)
{
    return event->kind == HF__RPC_ANSWER || event->fate == HF__RPC_FATE_NEVER ||
           (event->fate == HF__RPC_FATE_ANSWERED && event->code == HF__RPC_CODE_NOT_FOUND);
}

/* Not before it was heard: a stand that ends meanwhile is forgotten by all who are listed. */
static void put_away(struct hf__etcd *conn, struct hf__quest *first)
{
    for (struct hf__quest *quest = first; quest; quest = quest->next) {
        hf__list_remove(&quest->place);
        hf__list_append(&conn->free_quests, &quest->place);
    }
}

void hf__query_hear(struct hf__etcd *conn, enum hf__way way, const struct hf__rpc_event *event)
{
    struct hf__quest *quest = (struct hf__quest *)(uintptr_t)event->tag;

    if (event->kind == HF__RPC_ANSWER || event->kind == HF__RPC_FAILED) {
        assert(quest);
        for (struct hf__quest *each = quest; each; each = each->next) {
            if (each->stand && event->kind == HF__RPC_ANSWER)
                each->stand->heard++;
            if (each->stand && is_claim(each) && is_settled(event))
                hf__stand_hear_claimed(each->stand, each);
        }
        hear_answer(conn, quest, event);
        put_away(conn, quest);
        if (event->kind == HF__RPC_FAILED && event->code == HF__RPC_CODE_UNAUTHENTICATED)
            hf__etcd_end(conn, HF_EUNREACHABLE); /* the next connection has a new token */
        return;
    }
    if (event->kind == HF__RPC_MESSAGE || event->kind == HF__RPC_ENDED) {
        if (event->call == conn->watch.call)
            hf__watch_hear(conn, event);
        else
            hf__lease_hear_kept(conn, event);
        return;
    }
    if (event->kind == HF__RPC_GOAWAY)
        hf__etcd_end(conn, hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: it goes: %s",
                                         hf__stream_peer(conn->links[way].stream), event->text));
}
