/* engine.c: ZooKeeper behind the seam: requests become packets, answers and events become replies.
 *
 * open() goes to one of the servers, and to the next if that one is not there; a session is asked
 * for, or the one that we have. submit() only writes down, and advance() sends, reads, and hands
 * out one reply at a time. Renewals are not asked one by one: that the session lives is enough.
 *
 * What can go wrong: the connection dies: whoever waits is answered, and the next open() takes the
 * session up again, with all that belongs to it. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/zookeeper/zookeeper.h"

#define CONNECT_NS    (5 * HF__NS_PER_S)
#define SERVER_NS_MIN (500 * HF__NS_PER_MS)
#define READ_BYTES    16384u
#define READS_MAX     64u

extern const struct hf__engine hf__zookeeper_engine;

static struct hf__zookeeper *zookeeper_of(struct hf__conn *conn)
{
    return (struct hf__zookeeper *)conn;
}

void hf__zookeeper_end(struct hf__zookeeper *conn, int status)
{
    conn->ending = true;
    conn->end_status = status;
}

/* --- opening and closing --- */

/* What belongs to one connection, and not to the session. */
static void forget_connection(struct hf__zookeeper *conn)
{
    hf__stream_close(conn->stream);
    conn->stream = NULL;
    hf__jute_out_done(&conn->out);
    hf__jute_in_done(&conn->in);
    hf__jute_out_init(&conn->out, conn->base.env);
    hf__jute_in_init(&conn->in, conn->base.env);
    conn->stream_state = HF__STREAM_CONNECTING;
    conn->introduced = false;
    conn->greeted = false;
    conn->may_read = false;
    conn->reads_left = READS_MAX;
    conn->lived_ns = 0;
    conn->is_beating = false;
    hf__footprint_forget(conn);
    conn->joining = 0;
    conn->base.holds_back = false;
    HF__LIST_FOR(node, &conn->asked)
    {
        hf__ask_free(conn, HF__LIST_ENTRY(node, struct hf__zasked, place));
    }
}

static bool has_output(const struct hf__zookeeper *conn)
{
    return conn->joining > 0 || hf__buffer_count(&conn->out.buffer) > 0;
}

static void zookeeper_close(struct hf__conn *base)
{
    struct hf__zookeeper *conn = zookeeper_of(base);

    if (!conn->recipe)
        return;
    if (conn->greeted && !conn->ending && conn->stream) { /* so that nothing waits for its end */
        hf__ask_close(conn);
        (void)hf__stream_write(conn->stream, hf__buffer_front(&conn->out.buffer),
                               hf__buffer_count(&conn->out.buffer));
    }
    hf__stream_close(conn->stream);
    conn->stream = NULL;
    hf__inquiry_done(conn);
    hf__roll_done(&conn->roll);
    hf__ask_done(conn);
    hf__footprint_forget(conn);
    hf__jute_out_done(&conn->out);
    hf__jute_in_done(&conn->in);
    explicit_bzero(conn->secret, sizeof(conn->secret));
    explicit_bzero(&conn->session, sizeof(conn->session));
    conn->recipe = NULL;
}

static int open_stream(struct hf__zookeeper *conn)
{
    bool tls = hf__wishes_tls(conn->url);
    uint64_t share_ns = CONNECT_NS / conn->url->server_count;
    struct hf__stream_options options = {
        .env = conn->base.env,
        .url = conn->url,
        .server = conn->server,
        .port = tls ? HF__ZOOKEEPER_TLS_PORT : HF__ZOOKEEPER_PORT,
        .tls = tls,
        .now_ns = conn->now_ns,
    };

    /* One that starts may never answer who came too early: the session must outlast that. */
    if (conn->session.id != 0 && share_ns > conn->session.timeout_ns / 3)
        share_ns = conn->session.timeout_ns / 3;
    if (share_ns < SERVER_NS_MIN)
        share_ns = SERVER_NS_MIN;
    conn->server_by_ns = conn->now_ns + share_ns;
    options.deadline_ns = conn->server_by_ns;
    conn->tried++;
    forget_connection(conn);
    return hf__stream_open(&options, &conn->stream, conn->base.error);
}

static void be_born(struct hf__zookeeper *conn, const struct hf__conn_options *options)
{
    conn->recipe = (const struct hf__zookeeper_recipe *)(const void *)conn->base.recipe;
    conn->url = options->url;
    conn->server = (size_t)(options->client_id % options->url->server_count);
    conn->evict_at_ns = HF__NEVER;
    conn->glance_at_ns = HF__NEVER;
    conn->watch_at_ns = HF__NEVER;
    hf__list_init(&conn->asked);
    hf__list_init(&conn->free_asked);
    hf__roll_init(&conn->roll, conn->base.env);
    hf__list_init(&conn->renewals);
    hf__jute_out_init(&conn->out, conn->base.env);
    hf__jute_in_init(&conn->in, conn->base.env);
}

static int zookeeper_open(struct hf__conn *base, const struct hf__conn_options *options)
{
    struct hf__zookeeper *conn = zookeeper_of(base);
    int status;

    if (!conn->recipe)
        be_born(conn, options);
    conn->now_ns = options->now_ns;
    conn->ending = false;
    conn->tried = 0;
    status = hf__wishes_read(conn, options);
    if (status < 0)
        return status;
    base->state = HF__CONN_CONNECTING;
    return open_stream(conn);
}

/* --- requests --- */

static void read_request(struct hf__zookeeper *conn, struct hf__place *place,
                         const struct hf__request *request)
{
    static const char digits[] = "0123456789abcdef";

    hf__roll_ask(&conn->roll, &place->entry, request);
    hf__list_remove(&place->renewal);
    if (request->lease_ns > 0)
        place->lease_ns = request->lease_ns;
    if (request->ticket.kind == HF__REQUEST_RELEASE)
        place->fence = request->fence;
    if (request->ticket.kind != HF__REQUEST_CLAIM)
        return;
    place->queueing = request->queueing;
    place->mode = request->mode;
    place->grace_ns = request->grace_ns;
    for (size_t i = 0; i < HF__TOKEN_BYTES; i++) {
        place->token[2 * i] = digits[request->token[i] >> 4];
        place->token[2 * i + 1] = digits[request->token[i] & 15];
    }
    hf__layout_data(conn, request, place->data);
}

static void lower(struct hf__zookeeper *conn, struct hf__place *place)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];

    if (place->state != HF__PLACE_HELD || !place->has_node) {
        hf__place_answer(conn, place, HF__REPLY_GONE);
        return;
    }
    place->data[0] = 'r';
    hf__ask_child_path(place, place->node.name, path);
    hf__place_begin(place);
    place->open = 1;
    hf__ask_set_data(conn, HF__STEP_LOWER, place, path, place->data);
}

static void renew(struct hf__zookeeper *conn, struct hf__place *place)
{
    if (place->state != HF__PLACE_HELD || !place->has_node || place->was_broken) {
        hf__place_answer(conn, place, HF__REPLY_GONE);
        return;
    }
    hf__place_renew(conn, place);
}

static void begin(struct hf__zookeeper *conn, struct hf__place *place)
{
    switch (place->entry.ticket.kind) {
    case HF__REQUEST_CLAIM:
        conn->recipe->claim(conn, place);
        return;
    case HF__REQUEST_INSPECT:
        conn->recipe->inspect(conn, place);
        return;
    case HF__REQUEST_RENEW:
        renew(conn, place);
        return;
    case HF__REQUEST_DOWNGRADE:
        lower(conn, place);
        return;
    case HF__REQUEST_RELEASE:
        hf__place_leave(conn, place);
        return;
    case HF__REQUEST_NONE:
    case HF__REQUEST_BREAK:
    case HF__REQUEST_LIST:
    case HF__REQUEST_SURVEY:
    case HF__REQUEST_ADMIT:
    case HF__REQUEST_FOUND:
        return;
    }
}

static int check_mode(struct hf__zookeeper *conn, const struct hf__request *request)
{
    bool lowers = request->ticket.kind == HF__REQUEST_DOWNGRADE;

    if (conn->recipe->single && (lowers || request->mode == HF_SHARED))
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED, "%s has no shared mode",
                             conn->base.recipe->name);
    if (lowers && conn->layout != HF__LAYOUT_OWN)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "other programs' nodes cannot tell that they have become readers");
    if (!hf__layout_has_mode(conn, request->mode))
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "this layout has no shared mode (curator-rw has)");
    return HF_OK;
}

static int zookeeper_submit(struct hf__conn *base, const struct hf__request *request)
{
    struct hf__zookeeper *conn = zookeeper_of(base);
    enum hf__request_kind kind = request->ticket.kind;
    struct hf__place *place;
    int status;

    if (conn->ending)
        return conn->end_status;
    if (!conn->greeted)
        return hf__error_set(base->error, HF_EUNREACHABLE, "%s: not connected yet",
                             hf__stream_peer(conn->stream));
    if (kind == HF__REQUEST_LIST || kind == HF__REQUEST_BREAK)
        return hf__inquiry_start(conn, request);
    status = check_mode(conn, request);
    if (status < 0)
        return status;
    place = hf__place_find(conn, request->ticket.claim_id);
    if (!place)
        place = hf__place_new(conn, request);
    if (!place)
        return strstr(base->error, "memory") ? HF_ENOMEM : HF_ENAME;
    read_request(conn, place, request);
    begin(conn, place);
    return HF_OK;
}

/* --- going on --- */

static void send(struct hf__zookeeper *conn)
{
    size_t count;

    conn->base.holds_back = hf__join_holds_back(conn);
    if (!conn->base.holds_back)
        hf__join_write(conn);
    while (!conn->ending && (count = hf__buffer_count(&conn->out.buffer)) > 0) {
        ssize_t sent = hf__stream_write(conn->stream, hf__buffer_front(&conn->out.buffer), count);

        if (sent < 0)
            hf__zookeeper_end(conn, hf__stream_error(conn->stream, conn->base.error));
        if (sent == 0)
            conn->may_read = true; /* a server that hung up may have said why */
        if (sent <= 0)
            return;
        hf__buffer_consume(&conn->out.buffer, (size_t)sent);
    }
}

/* Another server may be there. */
static void try_next(struct hf__zookeeper *conn, int status)
{
    conn->server = (conn->server + 1) % conn->url->server_count;
    if (conn->tried >= conn->url->server_count || status == HF_EDENIED || status == HF_EURL) {
        hf__zookeeper_end(conn, status);
        return;
    }
    status = open_stream(conn);
    if (status < 0)
        hf__zookeeper_end(conn, status);
}

/* false: with the next server, which may be there at once. */
static bool go_on_connecting(struct hf__zookeeper *conn)
{
    enum hf__stream_state before = conn->stream_state;

    if (before == HF__STREAM_CONNECTING)
        conn->stream_state = hf__stream_advance(conn->stream, conn->now_ns);
    if (conn->stream_state == HF__STREAM_DOWN) {
        int status = hf__stream_error(conn->stream, conn->base.error);

        if (before == HF__STREAM_DOWN && !conn->introduced && status == HF_EUNREACHABLE &&
            !hf__wishes_tls(conn->url)) /* it came up, and was hung up on */
            hf__error_set(conn->base.error, status,
                          "%s before it said a word; perhaps it wants TLS (zookeepers://)",
                          conn->base.error);
        try_next(conn, status);
        return false;
    }
    if (conn->stream_state == HF__STREAM_UP && before != HF__STREAM_UP) {
        conn->heard_ns = conn->knocked_ns = conn->now_ns;
        conn->may_read = true;
        hf__ask_connect(conn);
    }
    if (conn->greeted || conn->now_ns < conn->server_by_ns)
        return true;
    try_next(conn,
             hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: it gave us no session in time",
                           hf__stream_peer(conn->stream)));
    return false;
}

static void connect(struct hf__zookeeper *conn)
{
    while (!conn->ending && !go_on_connecting(conn))
        continue;
}

/* 1: something came. */
static int receive(struct hf__zookeeper *conn)
{
    void *space;
    ssize_t got;

    if (!conn->may_read || conn->reads_left == 0 || conn->base.is_heard ||
        conn->stream_state != HF__STREAM_UP)
        return 0;
    conn->reads_left--;
    if (hf__buffer_reserve(&conn->in.buffer, READ_BYTES, &space) < 0) {
        hf__zookeeper_end(conn, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return 0;
    }
    got = hf__stream_read(conn->stream, space, READ_BYTES);
    if (got < 0) {
        conn->stream_state = HF__STREAM_DOWN;
        if (conn->greeted)
            hf__zookeeper_end(conn, hf__stream_error(conn->stream, conn->base.error));
        else
            connect(conn);
    }
    if (got <= 0) {
        conn->may_read = false;
        return 0;
    }
    hf__buffer_commit(&conn->in.buffer, (size_t)got);
    conn->may_read = (size_t)got == READ_BYTES;
    return 1;
}

/* Handles packets until the core has something to hear. 0: no more have come. */
static int hear(struct hf__zookeeper *conn, struct hf__reply *out_reply)
{
    while (!conn->ending) {
        struct hf__jute_reader packet;
        int got = hf__jute_in_next(&conn->in, &packet, conn->base.error);
        int status = got > 0 ? hf__session_hear(conn, &packet) : got;

        if (status < 0 && conn->session_ended) {
            conn->session_ended = false;
            conn->tried = 0; /* now we need another one */
            try_next(conn, status);
            connect(conn);
            continue;
        }
        if (status < 0 && !conn->ending)
            hf__zookeeper_end(conn, status);
        if (conn->ending)
            return 0;
        if (hf__place_next(conn, out_reply) > 0 || hf__inquiry_next(conn, out_reply) > 0)
            return 1;
        if (got == 0 && receive(conn) == 0)
            return 0;
    }
    return 0;
}

/* One that was broken has had its time to leave. */
static void evict(struct hf__zookeeper *conn)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];
    uint64_t first_ns = HF__NEVER;

    if (conn->now_ns < conn->evict_at_ns)
        return;
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (conn->now_ns >= place->evict_at_ns) {
            hf__ask_child_path(place, place->ahead.name, path);
            hf__ask_delete(conn, HF__STEP_NONE, conn->recipe->single ? place->path : path);
            place->evict_at_ns = HF__NEVER;
        }
        if (place->evict_at_ns < first_ns)
            first_ns = place->evict_at_ns;
    }
    conn->evict_at_ns = first_ns;
}

static int come_to_an_end(struct hf__zookeeper *conn, struct hf__reply *out_reply)
{
    if (conn->greeted || conn->introduced || !hf__list_empty(&conn->asked)) {
        conn->greeted = conn->introduced = false;
        hf__place_end_all(conn);
        hf__inquiry_end(conn, conn->end_status);
    }
    if (hf__place_next(conn, out_reply) > 0 || hf__inquiry_next(conn, out_reply) > 0)
        return 1;
    if (conn->base.is_heard) { /* it goes when whoever reads from it has come back */
        hf__stream_hush(conn->stream);
        return 0;
    }
    forget_connection(conn);
    conn->base.state = HF__CONN_DOWN;
    return conn->end_status;
}

static bool is_idle(const struct hf__zookeeper *conn)
{
    return conn->greeted && !conn->ending && !conn->may_read &&
           hf__list_empty(&conn->roll.telling) && hf__list_empty(&conn->renewals) &&
           !conn->listing.active && !conn->listing.has_reply &&
           conn->now_ns < conn->roll.first_deadline_ns && conn->now_ns < conn->evict_at_ns &&
           conn->now_ns < hf__session_deadline(conn) && !has_output(conn) &&
           hf__buffer_count(&conn->in.buffer) == conn->in.taken;
}

static int zookeeper_advance(struct hf__conn *base, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct hf__zookeeper *conn = zookeeper_of(base);

    conn->now_ns = now_ns;
    if (is_idle(conn))
        return 0;
    if (hf__place_next(conn, out_reply) > 0 || hf__inquiry_next(conn, out_reply) > 0)
        return 1;
    if (!conn->ending && !conn->greeted)
        connect(conn);
    if (!conn->ending && conn->stream_state == HF__STREAM_UP)
        send(conn);
    if (!conn->ending && hear(conn, out_reply) > 0)
        return 1;
    if (!conn->ending && conn->greeted) {
        base->state = HF__CONN_UP;
        hf__place_expire(conn);
        evict(conn);
        hf__glance_keep(conn);
        hf__footprint_keep(conn);
        hf__session_keep(conn);
        if (hf__place_next(conn, out_reply) > 0 || hf__inquiry_next(conn, out_reply) > 0)
            return 1;
    }
    if (!conn->ending && conn->stream_state == HF__STREAM_UP)
        send(conn);
    return conn->ending ? come_to_an_end(conn, out_reply) : 0;
}

static void zookeeper_pollset(struct hf__conn *base, struct hf__pollset *set)
{
    struct hf__zookeeper *conn = zookeeper_of(base);

    if (conn->ending || !conn->stream) {
        hf__pollset_until(set, 0);
        return;
    }
    conn->may_read = true;
    conn->reads_left = READS_MAX;
    hf__stream_pollset(conn->stream,
                       hf__buffer_count(&conn->out.buffer) > 0 ||
                           (conn->joining > 0 && !conn->base.holds_back),
                       set);
    hf__pollset_until(set, hf__join_deadline(conn));
    hf__pollset_until(set, conn->roll.first_deadline_ns);
    hf__pollset_until(set, conn->evict_at_ns);
    if (!conn->greeted)
        hf__pollset_until(set, conn->server_by_ns);
    hf__pollset_until(set, hf__session_deadline(conn));
    if (conn->listing.active)
        hf__pollset_until(set, conn->listing.deadline_ns);
}

static int zookeeper_listen(struct hf__conn *base)
{
    struct hf__zookeeper *conn = zookeeper_of(base);
    int fd = -1;

    if (!conn->ending && conn->greeted && !has_output(conn) && !hf__list_empty(&conn->asked))
        fd = hf__stream_listener(conn->stream);
    base->is_heard = fd >= 0;
    return fd;
}

static void zookeeper_heard(struct hf__conn *base, const void *bytes, size_t count)
{
    struct hf__zookeeper *conn = zookeeper_of(base);

    base->is_heard = false;
    conn->reads_left = READS_MAX;
    conn->may_read = count == 0 || count == HF__LISTEN_BYTES;
    if (count > 0 && !conn->ending && hf__buffer_append(&conn->in.buffer, bytes, count) < 0)
        hf__zookeeper_end(conn, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
}

static const char *const schemes[] = { "zookeeper", "zookeepers", NULL };
static const struct hf__recipe *const recipes[] = {
    &hf__zookeeper_sequence.recipe,
    &hf__zookeeper_node.recipe,
    NULL,
};

const struct hf__engine hf__zookeeper_engine = {
    .name = "zookeeper",
    .url_schemes = schemes,
    .recipes = recipes,
    .conn_size = sizeof(struct hf__zookeeper),
    .open = zookeeper_open,
    .close = zookeeper_close,
    .submit = zookeeper_submit,
    .pollset = zookeeper_pollset,
    .advance = zookeeper_advance,
    .listen = zookeeper_listen,
    .heard = zookeeper_heard,
};
