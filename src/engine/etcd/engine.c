/* engine.c: etcd behind the seam: requests become calls, answers and events become replies.
 *
 * open() goes to one of the servers, and to the next if that one is not there: who we are, which
 * server it is, a read that only a leader with a majority answers, and the watch; then it is up.
 * submit() only writes down, and advance() sends, reads, and hands out one reply at a time.
 * Renewals are not asked one by one: that the lease lives is enough.
 *
 * What can go wrong: a connection dies: whoever waits is answered, and the next open() goes on with
 * the leases and keys that there are. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/etcd/etcd.h"

#define PACKED_BYTES_MAX (1u << 20)
#define MEMBERS_MIN      3 /* for one of them to be missed by nobody */

extern const struct hf__engine hf__etcd_engine;

static struct hf__etcd *etcd_of(struct hf__conn *conn)
{
    return (struct hf__etcd *)conn;
}

ProtobufCBinaryData hf__etcd_bytes(const void *bytes, size_t count)
{
    /* The library takes what it never writes to as writable. */
    return (ProtobufCBinaryData){ .len = count, .data = (uint8_t *)(uintptr_t)bytes };
}

ProtobufCBinaryData hf__etcd_proof_key(const struct hf__etcd *conn)
{
    bool has_prefix = conn->prefix_bytes > 0;

    return hf__etcd_bytes(has_prefix ? conn->prefix : "@", has_prefix ? conn->prefix_bytes : 1);
}

void hf__etcd_end(struct hf__etcd *conn, int status)
{
    if (conn->ending)
        return;
    conn->ending = true;
    conn->end_status = status;
}

void hf__etcd_end_by_nonsense(struct hf__etcd *conn)
{
    hf__etcd_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                     "the server answered what was not asked"));
}

/* --- opening and closing --- */

static void be_born(struct hf__etcd *conn, const struct hf__conn_options *options)
{
    conn->is_born = true;
    conn->url = options->url;
    conn->server = (size_t)(options->client_id % options->url->server_count);
    conn->evict_at_ns = HF__NEVER;
    hf__list_init(&conn->leases);
    hf__list_init(&conn->quests);
    hf__list_init(&conn->free_quests);
    hf__convoy_init(&conn->convoy, conn->base.env);
    hf__roll_init(&conn->roll, conn->base.env);
    hf__buffer_init(&conn->packed, conn->base.env, PACKED_BYTES_MAX);
    hf__memory_init(&conn->memory, conn->base.env, HF__MESSAGE_MEMORY_MAX);
}

static int etcd_open(struct hf__conn *base, const struct hf__conn_options *options)
{
    struct hf__etcd *conn = etcd_of(base);
    int status;

    if (!conn->is_born)
        be_born(conn, options);
    conn->now_ns = options->now_ns;
    conn->ending = false;
    conn->tried = 0;
    status = hf__demand_read(conn, options);
    if (status < 0)
        return status;
    base->state = HF__CONN_CONNECTING;
    return hf__link_open(conn);
}

/* A server whose client hangs up drops what it has not begun with: leases would live on, and what
 * lives by them. So their end is waited for. */
static bool etcd_parting(struct hf__conn *base)
{
    struct hf__etcd *conn = etcd_of(base);

    if (!conn->greeted || conn->ending)
        return false;
    if (!conn->is_parting) {
        conn->is_parting = true;
        hf__lease_revoke_all(conn);
    }
    return !conn->ending && (hf__convoy_waits(conn) || !hf__list_empty(&conn->quests));
}

static void etcd_close(struct hf__conn *base)
{
    struct hf__etcd *conn = etcd_of(base);

    if (!conn->is_born)
        return;
    hf__roster_done(conn);
    while (!hf__list_empty(&conn->roll.members)) {
        conn->ending = true; /* nothing more is sent */
        hf__stand_free(conn, (struct hf__stand *)HF__LIST_ENTRY(conn->roll.members.next,
                                                                struct hf__entry, member));
    }
    hf__lease_done(conn);
    hf__link_close(conn);
    hf__query_done(conn);
    hf__rank_done(conn);
    hf__roll_done(&conn->roll);
    hf__convoy_done(&conn->convoy);
    hf__buffer_done(&conn->packed);
    hf__memory_done(&conn->memory);
    explicit_bzero(conn->password, sizeof(conn->password));
    explicit_bzero(conn->token, sizeof(conn->token));
    conn->is_born = false;
}

/* --- the greeting --- */

static void greet(struct hf__etcd *conn)
{
    Hf__Etcd__StatusRequest status = HF__ETCD__STATUS_REQUEST__INIT;
    Hf__Etcd__MemberListRequest members = HF__ETCD__MEMBER_LIST_REQUEST__INIT;
    Hf__Etcd__RangeRequest hello = HF__ETCD__RANGE_REQUEST__INIT;

    for (size_t way = 0; *conn->token && way < HF__WAYS; way++) {
        if (hf__rpc_set_token(conn->links[way].rpc, conn->token) < 0)
            hf__etcd_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                             "the server gave us a token that cannot be sent"));
    }
    if (conn->ending)
        return;
    hello.key = hf__etcd_proof_key(conn);
    hello.limit = 1;
    hello.keys_only = true;
    conn->greetings_left = 4;
    (void)hf__query_send(conn, HF__QUERY_STATUS, HF__WAY_CALLS, &status.base);
    if (!conn->ending)
        (void)hf__query_send(conn, HF__QUERY_MEMBERS, HF__WAY_CALLS, &members.base);
    if (!conn->ending)
        (void)hf__query_send(conn, HF__QUERY_HELLO, HF__WAY_CALLS, &hello.base);
    if (!conn->ending)
        hf__watch_open(conn);
}

static void log_in(struct hf__etcd *conn)
{
    Hf__Etcd__AuthenticateRequest request;

    conn->is_greeting = true;
    conn->token[0] = '\0';
    conn->greetings_left = 1;
    if (!*conn->user) {
        greet(conn);
        return;
    }
    hf__etcd__authenticate_request__init(&request);
    request.name = conn->user;
    request.password = conn->password;
    (void)hf__query_send(conn, HF__QUERY_LOGIN, HF__WAY_CALLS, &request.base);
}

static void hear_login(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    Hf__Etcd__AuthenticateResponse *response =
        hf__query_unpack(conn, &hf__etcd__authenticate_response__descriptor, event);

    if (!response)
        return;
    if (!*response->token || !hf__text_copy(conn->token, sizeof(conn->token), response->token))
        hf__etcd_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                         "the server gave us no token that can be kept"));
    else
        greet(conn);
    hf__message_free(&conn->memory, &response->base);
}

/* "3.4.23" */
static bool is_too_old(const char *version)
{
    uint64_t minor = 0;
    size_t digits = strncmp(version, "3.", 2) == 0 ? strspn(version + 2, "0123456789") : 0;

    return digits > 0 && hf__text_to_u64(version + 2, digits, &minor) && minor < 4;
}

/* Those of the URL must be one: what we hold at one cluster, another gives to anybody. */
static bool is_stranger(struct hf__etcd *conn, const Hf__Etcd__ResponseHeader *header)
{
    if (conn->cluster_id == 0 && header)
        conn->cluster_id = header->cluster_id;
    return header && header->cluster_id != conn->cluster_id;
}

/* Why this server is none for us; HF_OK: it is one. */
static int judge(struct hf__etcd *conn, const Hf__Etcd__StatusResponse *response)
{
    const char *peer = hf__stream_peer(conn->links[HF__WAY_CALLS].stream);
    char shown[32];

    if (is_stranger(conn, response->header))
        return hf__error_set(conn->base.error, HF_EINTEGRITY,
                             "%s: it belongs to another cluster than the one before", peer);
    if (is_too_old(response->version)) {
        (void)hf__text_escape(response->version, strlen(response->version), shown, sizeof(shown));
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "the server is etcd %s; 3.4 is the least", shown);
    }
    if (response->islearner)
        return hf__error_set(conn->base.error, HF_EUNREACHABLE,
                             "the server is a learner, and takes no part yet");
    if (response->leader == 0)
        return hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: it knows no leader", peer);
    return HF_OK;
}

static void hear_status(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    Hf__Etcd__StatusResponse *response =
        hf__query_unpack(conn, &hf__etcd__status_response__descriptor, event);
    int status;

    if (!response)
        return;
    conn->greetings_left--;
    hf__lease_see_term(conn, response->header, true);
    status = judge(conn, response);
    if (status < 0)
        hf__etcd_end(conn, status);
    hf__message_free(&conn->memory, &response->base);
}

static void hear_members(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    Hf__Etcd__MemberListResponse *response;
    size_t voters = 0;

    conn->base.promises = conn->base.recipe->promises;
    conn->base.withheld[0] = '\0';
    conn->greetings_left--;
    if (event->kind == HF__RPC_FAILED) {
        conn->base.promises &= ~(uint32_t)HF_PROMISE_FAILOVER;
        hf__text_copy(conn->base.withheld, sizeof(conn->base.withheld),
                      "the server does not tell how many there are");
        return;
    }
    response = hf__query_unpack(conn, &hf__etcd__member_list_response__descriptor, event);
    if (!response)
        return;
    for (size_t i = 0; i < response->n_members; i++)
        voters += !response->members[i]->islearner;
    if (voters < MEMBERS_MIN) {
        conn->base.promises &= ~(uint32_t)HF_PROMISE_FAILOVER;
        hf__text_copy(conn->base.withheld, sizeof(conn->base.withheld),
                      voters == 1 ? "it is one server alone" : "there are only two servers");
    }
    hf__message_free(&conn->memory, &response->base);
}

/* Denied, but not before the leader was asked: that will do. */
static void hear_hello(struct hf__etcd *conn, const struct hf__rpc_event *event, int status)
{
    Hf__Etcd__RangeResponse *response = NULL;

    if (status < 0 && status != HF_EDENIED) {
        hf__etcd_end(conn, status);
        return;
    }
    if (status == HF_OK)
        response = hf__query_unpack(conn, &hf__etcd__range_response__descriptor, event);
    if (response) {
        hf__revision_see(conn, response->header);
        hf__lease_see_term(conn, response->header, false);
        hf__message_free(&conn->memory, &response->base);
    }
    conn->greetings_left--;
}

void hf__etcd_hear_greeting(struct hf__etcd *conn, const struct hf__quest *quest,
                            const struct hf__rpc_event *event)
{
    bool perhaps;
    int status = event->kind == HF__RPC_FAILED ? hf__query_status(conn, event, &perhaps) : HF_OK;

    if (quest->query == HF__QUERY_MEMBERS)
        hear_members(conn, event);
    else if (quest->query == HF__QUERY_HELLO)
        hear_hello(conn, event, status);
    else if (status < 0)
        hf__etcd_end(conn, status);
    else if (quest->query == HF__QUERY_LOGIN)
        hear_login(conn, event);
    else
        hear_status(conn, event);
}

/* --- requests --- */

static int etcd_submit(struct hf__conn *base, const struct hf__request *request)
{
    struct hf__etcd *conn = etcd_of(base);
    struct hf__stand *stand;
    int status;

    if (conn->ending)
        return conn->end_status;
    if (!conn->greeted)
        return hf__error_set(base->error, HF_EUNREACHABLE, "%s: not connected yet",
                             hf__stream_peer(conn->links[HF__WAY_CALLS].stream));
    if (request->ticket.kind == HF__REQUEST_LIST || request->ticket.kind == HF__REQUEST_BREAK)
        return hf__roster_start(conn, request);
    if (conn->is_raw &&
        (request->ticket.kind == HF__REQUEST_DOWNGRADE || request->mode == HF_SHARED))
        return hf__error_set(base->error, HF_EUNSUPPORTED, "layout=etcd has no shared mode");
    status = hf__stand_enter(conn, request, &stand);
    if (status < 0)
        return status;
    switch (request->ticket.kind) {
    case HF__REQUEST_CLAIM:
        hf__revision_claim(conn, stand);
        break;
    case HF__REQUEST_INSPECT:
        hf__revision_inspect(conn, stand);
        break;
    case HF__REQUEST_RENEW:
        hf__revision_renew(conn, stand);
        break;
    case HF__REQUEST_DOWNGRADE:
        hf__revision_lower(conn, stand);
        break;
    case HF__REQUEST_RELEASE:
        hf__stand_leave(conn, stand);
        break;
    case HF__REQUEST_NONE:
    case HF__REQUEST_BREAK:
    case HF__REQUEST_LIST:
    case HF__REQUEST_SURVEY:
    case HF__REQUEST_ADMIT:
    case HF__REQUEST_FOUND:
        break;
    }
    return HF_OK;
}

/* --- going on --- */

/* false: with the next server, which may be there at once. */
static bool go_on_connecting(struct hf__etcd *conn)
{
    int up = conn->ending ? conn->end_status : hf__link_connect(conn);

    if (up > 0 && !conn->is_greeting)
        log_in(conn);
    if (up >= 0 && !conn->ending && conn->now_ns < conn->server_by_ns)
        return true;
    if (up >= 0 && !conn->ending)
        up = hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: it did not greet us in time",
                           hf__stream_peer(conn->links[HF__WAY_CALLS].stream));
    if (conn->ending)
        up = conn->end_status;
    conn->server = (conn->server + 1) % conn->url->server_count;
    conn->ending = false;
    if (conn->tried < conn->url->server_count && up != HF_EDENIED && up != HF_EURL)
        up = hf__link_open(conn);
    if (up < 0) {
        hf__etcd_end(conn, up);
        return true;
    }
    return false;
}

static int tell(struct hf__etcd *conn, struct hf__reply *out_reply)
{
    return hf__stand_next(conn, out_reply) > 0 || hf__roster_next(conn, out_reply) > 0;
}

/* Until the core has something to hear, or nothing more came. */
static int hear(struct hf__etcd *conn, struct hf__reply *out_reply)
{
    int came = 1;

    while (!conn->ending && came) {
        came = hf__link_receive(conn);
        if (!conn->ending && tell(conn, out_reply))
            return 1;
    }
    return 0;
}

static void connect(struct hf__etcd *conn)
{
    while (!go_on_connecting(conn))
        continue;
    if (conn->ending)
        return;
    hf__link_send(conn);
    while (!conn->ending && hf__link_receive(conn))
        continue;
    if (conn->ending && conn->tried < conn->url->server_count)
        (void)go_on_connecting(conn); /* this one has just shown that it is none */
    if (conn->ending || !conn->is_greeting || conn->greetings_left > 0)
        return;
    conn->greeted = true;
    conn->base.state = HF__CONN_UP;
    hf__stand_reconnect(conn);
}

static int come_to_an_end(struct hf__etcd *conn, struct hf__reply *out_reply)
{
    if (conn->greeted) {
        conn->greeted = false;
        hf__lease_disconnect(conn);
        hf__stand_disconnect(conn);
        hf__roster_end(conn, conn->end_status);
    }
    if (tell(conn, out_reply))
        return 1;
    if (conn->base.is_heard) { /* it goes when whoever reads from it has come back */
        hf__stream_hush(conn->links[HF__WAY_CALLS].stream);
        return 0;
    }
    conn->server = (conn->server + 1) % conn->url->server_count;
    hf__link_close(conn);
    conn->base.state = HF__CONN_DOWN;
    return conn->end_status;
}

static bool is_idle(const struct hf__etcd *conn)
{
    return conn->greeted && !conn->ending && hf__list_empty(&conn->roll.telling) &&
           conn->now_ns < conn->roll.first_deadline_ns && conn->now_ns < conn->evict_at_ns &&
           !conn->listing.active && !conn->listing.has_reply &&
           conn->now_ns < hf__lease_deadline(conn) && conn->now_ns < hf__watch_deadline(conn) &&
           hf__link_is_idle(conn);
}

static int etcd_advance(struct hf__conn *base, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct hf__etcd *conn = etcd_of(base);

    conn->now_ns = now_ns;
    if (is_idle(conn))
        return 0;
    if (tell(conn, out_reply))
        return 1;
    if (!conn->ending && !conn->greeted)
        connect(conn);
    if (!conn->ending && conn->greeted) {
        hf__link_send(conn);
        if (hear(conn, out_reply) > 0)
            return 1;
    }
    if (!conn->ending && conn->greeted) {
        hf__stand_expire(conn);
        hf__stand_evict(conn);
        hf__lease_keep(conn);
        hf__watch_tend(conn);
        if (conn->now_ns >= hf__link_silent_at(conn))
            hf__etcd_end(conn,
                         hf__error_set(base->error, HF_EUNREACHABLE, "%s says nothing any more",
                                       hf__stream_peer(conn->links[HF__WAY_CALLS].stream)));
        if (tell(conn, out_reply))
            return 1;
    }
    hf__link_send(conn);
    return conn->ending ? come_to_an_end(conn, out_reply) : 0;
}

static void etcd_pollset(struct hf__conn *base, struct hf__pollset *set)
{
    struct hf__etcd *conn = etcd_of(base);

    if (conn->ending || !conn->links[HF__WAY_KEEP].stream) {
        hf__pollset_until(set, 0);
        return;
    }
    hf__link_pollset(conn, set);
    hf__pollset_until(set, conn->roll.first_deadline_ns);
    hf__pollset_until(set, conn->evict_at_ns);
    if (!conn->greeted)
        hf__pollset_until(set, conn->server_by_ns);
    hf__pollset_until(set, hf__lease_deadline(conn));
    hf__pollset_until(set, hf__watch_deadline(conn));
    if (conn->listing.active)
        hf__pollset_until(set, conn->listing.deadline_ns);
}

/* Answers to several questions come together, if nobody is in a hurry, and so do the next. */
static bool awaits_one(const struct hf__etcd *conn)
{
    const struct hf__quest *first = HF__LIST_ENTRY(conn->quests.next, struct hf__quest, place);
    const struct hf__quest *last = HF__LIST_ENTRY(conn->quests.prev, struct hf__quest, place);

    return !hf__list_empty(&conn->quests) && first->number == last->number &&
           first->way == HF__WAY_CALLS;
}

static int etcd_listen(struct hf__conn *base)
{
    struct hf__etcd *conn = etcd_of(base);
    const void *bytes;
    int fd = -1;

    if (!conn->ending && conn->greeted && awaits_one(conn) && !hf__convoy_waits(conn) &&
        hf__rpc_output(conn->links[HF__WAY_CALLS].rpc, &bytes) == 0 &&
        !hf__rpc_has_next(conn->links[HF__WAY_CALLS].rpc))
        fd = hf__stream_listener(conn->links[HF__WAY_CALLS].stream);
    base->is_heard = fd >= 0;
    if (base->is_heard)
        hf__link_listen(conn);
    return fd;
}

static void etcd_heard(struct hf__conn *base, const void *bytes, size_t count)
{
    base->is_heard = false;
    hf__link_heard(etcd_of(base), bytes, count);
}

static const char *const schemes[] = { "etcd", "etcds", NULL };
static const struct hf__recipe *const recipes[] = { &hf__etcd_revision, NULL };

const struct hf__engine hf__etcd_engine = {
    .name = "etcd",
    .url_schemes = schemes,
    .recipes = recipes,
    .conn_size = sizeof(struct hf__etcd),
    .open = etcd_open,
    .parting = etcd_parting,
    .close = etcd_close,
    .submit = etcd_submit,
    .pollset = etcd_pollset,
    .advance = etcd_advance,
    .listen = etcd_listen,
    .heard = etcd_heard,
};
