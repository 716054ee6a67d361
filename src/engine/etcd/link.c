/* link.c: the two connections to a server: how are they made, and how do bytes pass?
 *
 * Both go to the same server, and end together. One carries calls, the other leases and the watch,
 * so that many calls cannot hold up a sign of life.
 *
 * What can go wrong: a server that is not there: the next is tried. One that says nothing, though
 * something was asked: the connection ends, for another may be heard. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/etcd.h"

#define CONNECT_NS    (5 * HF__NS_PER_S)
#define SERVER_NS_MIN (500 * HF__NS_PER_MS)
#define SILENCE_NS    (3 * HF__NS_PER_S)
#define NEWS_NS       HF__NS_PER_MS
#define READ_BYTES    16384u
#define READS_MAX     64u
#define HELD_BACK_MAX 65536u
#define HELD_MAX      8
#define HELD_NS       HF__NS_PER_MS
/* Parts of the shortest lease that somebody needs. A third has passed when the next sign of life is
 * sent: what is left must do for a server that says nothing, one that is there no more, and one
 * that is. */
#define SILENCE_PARTS 4
#define CONNECT_PARTS 6

static void put_authority(const struct hf__etcd *conn, char *out_text, size_t text_bytes)
{
    const struct hf__url_server *server = &conn->url->servers[conn->server];
    bool is_number = strchr(server->host, ':') != NULL;

    (void)snprintf(out_text, text_bytes, "%s%s%s:%u", is_number ? "[" : "", server->host,
                   is_number ? "]" : "", (unsigned)(server->port ? server->port : HF__ETCD_PORT));
}

/* Whoever holds or waits for a short time only must find another server soon, if there is one: else
 * what is under way is more likely to be answered than what would be asked anew. */
static uint64_t patience_ns(const struct hf__etcd *conn, uint64_t most_ns, uint64_t parts)
{
    uint64_t patience_ns = most_ns;

    if (conn->url->server_count == 1)
        return most_ns;
    HF__LIST_FOR(member, &conn->leases)
    {
        const struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        if (lease->is_alive && !hf__list_empty(&lease->stands) &&
            lease->ttl_ns / parts < patience_ns)
            patience_ns = lease->ttl_ns / parts;
    }
    return patience_ns > SERVER_NS_MIN ? patience_ns : SERVER_NS_MIN;
}

static int open_one(struct hf__etcd *conn, struct hf__etcd_link *link)
{
    bool tls = hf__demand_tls(conn->url);
    char authority[sizeof(conn->url->servers->host) + 16];
    struct hf__rpc_options rpc = { .env = conn->base.env, .authority = authority, .tls = tls };
    struct hf__stream_options stream = {
        .env = conn->base.env,
        .url = conn->url,
        .server = conn->server,
        .port = HF__ETCD_PORT,
        .tls = tls,
        .protocol = "h2",
        .now_ns = conn->now_ns,
        .deadline_ns = conn->server_by_ns,
    };
    int status;

    put_authority(conn, authority, sizeof(authority));
    link->state = HF__STREAM_CONNECTING;
    link->may_read = false;
    link->reads_left = READS_MAX;
    link->heard_ns = conn->now_ns;
    status = hf__rpc_new(&rpc, &link->rpc);
    if (status < 0)
        return hf__error_set(conn->base.error, status, "out of memory");
    return hf__stream_open(&stream, &link->stream, conn->base.error);
}

void hf__link_close(struct hf__etcd *conn)
{
    for (size_t way = 0; way < HF__WAYS; way++) {
        struct hf__etcd_link *link = &conn->links[way];

        hf__stream_close(link->stream);
        hf__rpc_free(link->rpc);
        *link = (struct hf__etcd_link){ 0 };
    }
    HF__LIST_FOR(node, &conn->quests)
    {
        hf__list_remove(node);
        hf__list_append(&conn->free_quests, node);
    }
    conn->watch = (struct hf__watch){ 0 };
    conn->keeping = NULL;
    conn->is_greeting = false;
    conn->greeted = false;
    conn->base.holds_back = false;
}

int hf__link_open(struct hf__etcd *conn)
{
    uint64_t share_ns = CONNECT_NS / conn->url->server_count;
    int status = HF_OK;

    hf__link_close(conn);
    conn->tried++;
    conn->server_by_ns = conn->now_ns + patience_ns(conn, share_ns, CONNECT_PARTS);
    for (size_t way = 0; status == HF_OK && way < HF__WAYS; way++)
        status = open_one(conn, &conn->links[way]);
    return status;
}

/* --- bytes --- */

static bool is_answered_soon(const struct hf__quest *quest)
{
    return quest->query == HF__QUERY_CLAIM || quest->query == HF__QUERY_LOOK ||
           quest->query == HF__QUERY_DELETE || quest->query == HF__QUERY_CONVOY;
}

/* Are more than wait here under way, so that an answer is sure to come soon, and more to wait? */
static bool awaits_more(const struct hf__etcd *conn)
{
    uint64_t waiting = conn->quest_count - conn->sent_quests + conn->convoy.count;
    uint64_t under_way = 0;

    if (waiting >= HELD_MAX)
        return false;
    HF__LIST_FOR(node, &conn->quests)
    {
        const struct hf__quest *quest = HF__LIST_ENTRY(node, struct hf__quest, place);

        if (quest->number > conn->sent_quests || !is_answered_soon(quest))
            return false;
        if (++under_way > waiting)
            return true;
    }
    return false;
}

/* The server works longer for each packet than for what it asks: many questions had better leave
 * in one. */
static bool holds_back(const struct hf__etcd *conn, size_t count)
{
    if (conn->base.pace == HF__PACE_AT_ONCE || count >= HELD_BACK_MAX || !conn->greeted ||
        conn->now_ns >= conn->held_since_ns + HELD_NS)
        return false;
    return conn->base.pace == HF__PACE_LATER || awaits_more(conn);
}

static void write_out(struct hf__etcd *conn, struct hf__etcd_link *link)
{
    const void *bytes;
    size_t count;

    while (!conn->ending && (count = hf__rpc_output(link->rpc, &bytes)) > 0) {
        ssize_t sent = hf__stream_write(link->stream, bytes, count);

        if (sent < 0)
            hf__etcd_end(conn, hf__stream_error(link->stream, conn->base.error));
        if (sent == 0)
            link->may_read = true; /* a server that hung up may have said why */
        if (sent <= 0)
            return;
        hf__rpc_sent(link->rpc, (size_t)sent);
    }
}

static void send_calls(struct hf__etcd *conn)
{
    struct hf__etcd_link *link = &conn->links[HF__WAY_CALLS];
    const void *bytes;
    size_t count = hf__rpc_output(link->rpc, &bytes);
    bool waits = hf__convoy_waits(conn);

    if (!conn->base.holds_back)
        conn->held_since_ns = conn->now_ns;
    conn->base.holds_back = (count > 0 || waits) && holds_back(conn, count);
    if (conn->base.holds_back)
        return;
    hf__convoy_send(conn);
    conn->sent_quests = conn->quest_count;
    if (count > 0 || waits)
        write_out(conn, link);
}

void hf__link_send(struct hf__etcd *conn)
{
    if (!conn->ending && conn->links[HF__WAY_CALLS].state == HF__STREAM_UP)
        send_calls(conn);
    if (!conn->ending && conn->links[HF__WAY_KEEP].state == HF__STREAM_UP)
        write_out(conn, &conn->links[HF__WAY_KEEP]);
}

/* 1: both are up; 0: not yet; < 0: this server is none. */
int hf__link_connect(struct hf__etcd *conn)
{
    int up = 1;

    for (size_t way = 0; way < HF__WAYS; way++) {
        struct hf__etcd_link *link = &conn->links[way];

        if (link->state == HF__STREAM_CONNECTING)
            link->state = hf__stream_advance(link->stream, conn->now_ns);
        if (link->state == HF__STREAM_DOWN)
            return hf__stream_error(link->stream, conn->base.error);
        up = up && link->state == HF__STREAM_UP;
    }
    return up;
}

static int tell_end(struct hf__etcd *conn, const struct hf__etcd_link *link)
{
    int status = hf__stream_error(link->stream, conn->base.error);

    if (status == HF_EUNREACHABLE && !link->was_heard && !hf__demand_tls(conn->url))
        (void)hf__error_set(conn->base.error, status,
                            "%s: it hung up before it said a word; perhaps it wants TLS (etcds://)",
                            hf__stream_peer(link->stream));
    return status;
}

bool hf__link_end_if_over(struct hf__etcd *conn, const struct hf__etcd_link *link)
{
    int status = conn->ending ? HF_OK : hf__rpc_error(link->rpc, conn->base.error);

    if (status < 0)
        hf__etcd_end(conn, status);
    return status < 0;
}

/* 1: something came. */
static int receive(struct hf__etcd *conn, struct hf__etcd_link *link)
{
    char bytes[READ_BYTES];
    ssize_t got;

    if (!link->may_read || link->reads_left == 0 || link->state != HF__STREAM_UP ||
        (conn->base.is_heard && link == &conn->links[HF__WAY_CALLS]))
        return 0;
    link->reads_left--;
    link->read_ns = conn->now_ns;
    got = hf__stream_read(link->stream, bytes, sizeof(bytes));
    if (got < 0) {
        link->state = HF__STREAM_DOWN;
        hf__etcd_end(conn, tell_end(conn, link));
    }
    if (got <= 0) {
        link->may_read = false;
        return 0;
    }
    link->may_read = (size_t)got == sizeof(bytes);
    link->heard_ns = conn->now_ns;
    link->was_heard = true;
    (void)hf__rpc_feed(link->rpc, bytes, (size_t)got, conn->now_ns);
    (void)hf__link_end_if_over(conn, link);
    return 1;
}

/* Nothing may be read, nothing was told, and nothing is due. What is written down for it must be
 * asked for before: that it cannot be, for want of memory, is told too. */
static bool is_quiet(const struct hf__etcd *conn, const struct hf__etcd_link *link)
{
    return !link->may_read && !hf__rpc_has_next(link->rpc) &&
           conn->now_ns < hf__rpc_deadline_ns(link->rpc);
}

int hf__link_receive(struct hf__etcd *conn)
{
    struct hf__rpc_event event;
    int came = 0;

    for (size_t way = 0; way < HF__WAYS && !conn->ending; way++) {
        struct hf__etcd_link *link = &conn->links[way];

        if (link->state != HF__STREAM_UP || is_quiet(conn, link))
            continue;
        hf__rpc_tick(link->rpc, conn->now_ns);
        came = receive(conn, link) || came;
        while (!conn->ending && hf__rpc_next(link->rpc, &event)) {
            hf__query_hear(conn, (enum hf__way)way, &event);
            came = 1;
        }
        (void)hf__link_end_if_over(conn, link);
    }
    return came;
}

/* Whoever listens to the calls does not poll what is kept: news of that can wait for a moment. */
void hf__link_listen(struct hf__etcd *conn)
{
    struct hf__etcd_link *kept = &conn->links[HF__WAY_KEEP];

    kept->may_read = conn->now_ns >= kept->read_ns + NEWS_NS;
}

void hf__link_heard(struct hf__etcd *conn, const void *bytes, size_t count)
{
    struct hf__etcd_link *link = &conn->links[HF__WAY_CALLS];

    link->reads_left = READS_MAX;
    link->may_read = count == 0 || count == HF__LISTEN_BYTES;
    if (count == 0 || conn->ending)
        return;
    link->heard_ns = conn->now_ns;
    (void)hf__rpc_feed(link->rpc, bytes, count, conn->now_ns);
    (void)hf__link_end_if_over(conn, link);
}

/* --- waiting --- */

/* When the server has said nothing for too long, though it was asked; HF__NEVER: it was not. */
uint64_t hf__link_silent_at(const struct hf__etcd *conn)
{
    uint64_t since_ns = HF__NEVER;

    if (!hf__list_empty(&conn->quests)) { /* the oldest comes first */
        const struct hf__quest *quest = HF__LIST_ENTRY(conn->quests.next, struct hf__quest, place);
        uint64_t heard_ns = conn->links[quest->way].heard_ns;

        since_ns = quest->sent_ns > heard_ns ? quest->sent_ns : heard_ns;
    }
    HF__LIST_FOR(member, &conn->leases)
    {
        const struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        if (lease->sign == HF__SIGN_SENT && lease->signed_ns < since_ns)
            since_ns = lease->signed_ns;
    }
    return since_ns < HF__NEVER ? since_ns + patience_ns(conn, SILENCE_NS, SILENCE_PARTS)
                                : HF__NEVER;
}

void hf__link_pollset(struct hf__etcd *conn, struct hf__pollset *set)
{
    for (size_t way = 0; way < HF__WAYS; way++) {
        struct hf__etcd_link *link = &conn->links[way];
        const void *bytes;

        link->may_read = true;
        link->reads_left = READS_MAX;
        hf__stream_pollset(link->stream,
                           link->state == HF__STREAM_UP &&
                               !(conn->base.holds_back && way == HF__WAY_CALLS) &&
                               hf__rpc_output(link->rpc, &bytes) > 0,
                           set);
        hf__pollset_until(set, hf__rpc_has_next(link->rpc) ? 0 : hf__rpc_deadline_ns(link->rpc));
    }
    hf__pollset_until(set, hf__link_silent_at(conn));
    if (conn->base.holds_back)
        hf__pollset_until(set, conn->held_since_ns + HELD_NS);
}

bool hf__link_is_idle(const struct hf__etcd *conn)
{
    for (size_t way = 0; way < HF__WAYS; way++) {
        const struct hf__etcd_link *link = &conn->links[way];
        const void *bytes;

        /* Whoever listened has had it understood, but not heard. */
        if (hf__rpc_output(link->rpc, &bytes) > 0 || !is_quiet(conn, link))
            return false;
    }
    return !hf__convoy_waits(conn) && conn->now_ns < hf__link_silent_at(conn);
}
