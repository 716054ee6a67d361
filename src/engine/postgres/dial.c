/* dial.c: how do we get to a server?
 *
 * The name is resolved (not by libpq, which would block), its addresses are tried one after the
 * other, each for its share of the time that is left, and then the next server of the URL. libpq
 * connects, agrees upon TLS and shows the password, a step at a time, whenever its socket is ready.
 *
 * What can go wrong: a server that is not there, or still starts: the next is tried, and the last
 * one's failure is the connection's. One that does not let us in, or is not who it should be: that
 * is final, for another must not hide it. */
#include <assert.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/postgres/postgres.h"

#define CONNECT_NS   (5 * HF__NS_PER_S)
#define SHARE_NS_MIN (250 * HF__NS_PER_MS)
#define ROOM_BYTES   (32 << 10)

/* Its NOTICEs would be written to the standard error. */
static void ignore(void *context, const PGresult *notice)
{
    (void)context;
    (void)notice;
}

static void hang_up(struct hf__postgres *conn)
{
    PQfinish(conn->pg);
    conn->pg = NULL;
    conn->connected = false;
    conn->dial.is_set_out = false;
}

static bool by_socket(const struct hf__postgres *conn)
{
    return hf__url_option(conn->url, "socket") != NULL;
}

static void begin_server(struct hf__postgres *conn)
{
    struct hf__url_server server = conn->url->servers[conn->dial.server];
    struct hf__dial *dial = &conn->dial;
    int status = HF_OK;

    dial->address = 0;
    dial->addresses.count = 1;
    server.port = hf__dsn_port(conn);
    (void)snprintf(conn->peer, sizeof(conn->peer), "%s:%u", server.host, (unsigned)server.port);
    if (!by_socket(conn))
        status = hf__resolve_start(conn->base.env, &server, &dial->addresses, &dial->resolve,
                                   conn->base.error);
    if (status < 0)
        hf__postgres_end(conn, status);
}

int hf__dial_start(struct hf__postgres *conn)
{
    conn->dial.by_ns = conn->now_ns + CONNECT_NS;
    conn->dial.tried = 1;
    begin_server(conn);
    return conn->ending ? conn->end_status : HF_OK;
}

bool hf__dial_next_server(struct hf__postgres *conn)
{
    /* A session that waits for a lock is of use only where the locks are. */
    if (conn->main || conn->dial.tried >= conn->url->server_count ||
        conn->now_ns >= conn->dial.by_ns)
        return false;
    hang_up(conn);
    conn->dial.tried++;
    conn->dial.server = (conn->dial.server + 1) % conn->url->server_count;
    begin_server(conn);
    return true;
}

/* The reason is in base.error. */
static void give_up_address(struct hf__postgres *conn, int status)
{
    bool passing = status == HF_EUNREACHABLE || status == HF_ELIMIT;

    hf__trace(conn->base.env, "postgres: %s", conn->base.error);
    hang_up(conn);
    conn->dial.address++;
    if (passing && conn->dial.address < conn->dial.addresses.count &&
        conn->now_ns < conn->dial.by_ns)
        return;
    if (!passing || !hf__dial_next_server(conn))
        hf__postgres_end(conn, status);
}

/* Names it for people too. */
static bool write_address(struct hf__postgres *conn, char *out_text, size_t text_bytes)
{
    const struct hf__address *address = &conn->dial.addresses.list[conn->dial.address];
    const struct sockaddr *socket = (const struct sockaddr *)&address->socket;
    bool is_six = socket->sa_family == AF_INET6;

    *out_text = '\0';
    if (by_socket(conn)) {
        (void)hf__text_copy(conn->peer, sizeof(conn->peer), hf__url_option(conn->url, "socket"));
        return true;
    }
    if (getnameinfo(socket, address->bytes, out_text, (socklen_t)text_bytes, NULL, 0,
                    NI_NUMERICHOST) != 0)
        return false;
    (void)snprintf(conn->peer, sizeof(conn->peer), "%s%.255s%s:%u", is_six ? "[" : "", out_text,
                   is_six ? "]" : "", (unsigned)hf__dsn_port(conn));
    return true;
}

static uint64_t share_until(const struct hf__postgres *conn)
{
    const struct hf__dial *dial = &conn->dial;
    uint64_t left_ns = dial->by_ns > conn->now_ns ? dial->by_ns - conn->now_ns : 0;
    size_t others = dial->addresses.count - dial->address - 1;
    uint64_t share_ns = left_ns / (1 + others + conn->url->server_count - dial->tried);

    share_ns = share_ns < SHARE_NS_MIN ? SHARE_NS_MIN : share_ns;
    return share_ns < left_ns ? conn->now_ns + share_ns : dial->by_ns;
}

static void set_out(struct hf__postgres *conn)
{
    char address[NI_MAXHOST];
    char *dsn = NULL;

    assert(!conn->pg);
    if (write_address(conn, address, sizeof(address)))
        dsn = hf__dsn_write(conn, address);
    conn->dial.share_ns = share_until(conn);
    conn->pg = dsn ? PQconnectStart(dsn) : NULL;
    hf__dsn_free(conn, dsn);
    if (!conn->pg) {
        hf__postgres_end(conn, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return;
    }
    (void)PQsetNoticeReceiver(conn->pg, ignore, NULL);
    (void)PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE); /* with the code */
    conn->dial.is_set_out = true;
    conn->dial.events = POLLOUT;
    if (PQstatus(conn->pg) == CONNECTION_BAD)
        give_up_address(conn, hf__sqlstate_judge_connect(conn));
}

static void come_in(struct hf__postgres *conn)
{
    const int room_bytes = ROOM_BYTES;

    /* libpq keeps what comes, as long as a message says that it is; so little must come at once. */
    (void)setsockopt(PQsocket(conn->pg), SOL_SOCKET, SO_RCVBUF, &room_bytes, sizeof(room_bytes));
    (void)PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
    if (PQsetnonblocking(conn->pg, 1) != 0 || PQenterPipelineMode(conn->pg) != 1) {
        hf__postgres_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                             "%s: libpq does not pipeline", conn->peer));
        return;
    }
    hf__trace(conn->base.env, "postgres: %s: connected", conn->peer);
    hf__inflow_begin(conn);
    conn->connected = true;
    conn->may_read = true;
}

/* Makes one move; false: there is none to make now. */
static bool go_on(struct hf__postgres *conn)
{
    struct pollfd ready = { .fd = PQsocket(conn->pg), .events = conn->dial.events };
    PostgresPollingStatusType next = PGRES_POLLING_ACTIVE;

    if (poll(&ready, 1, 0) > 0)
        next = PQconnectPoll(conn->pg);
    if (next == PGRES_POLLING_OK) {
        come_in(conn);
        return false;
    }
    if (next == PGRES_POLLING_FAILED) {
        give_up_address(conn, hf__sqlstate_judge_connect(conn));
        return true;
    }
    if (next != PGRES_POLLING_ACTIVE)
        conn->dial.events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (next != PGRES_POLLING_ACTIVE || conn->now_ns < conn->dial.share_ns)
        return next != PGRES_POLLING_ACTIVE;
    give_up_address(conn, hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                        "%s: no connection in time", conn->peer));
    return true;
}

static bool go_on_resolving(struct hf__postgres *conn)
{
    struct hf__dial *dial = &conn->dial;
    int status = hf__resolve_finish(dial->resolve, &dial->addresses, conn->base.error);

    if (status == 0 && conn->now_ns < dial->by_ns)
        return false;
    if (status == 0) {
        hf__resolve_drop(dial->resolve);
        status = hf__error_set(conn->base.error, HF_EUNREACHABLE,
                               "%s: no address was found for it in time", conn->peer);
    }
    dial->resolve = NULL;
    if (status < 0 && !hf__dial_next_server(conn))
        hf__postgres_end(conn, status);
    return true;
}

void hf__dial_advance(struct hf__postgres *conn)
{
    bool has_moved = true;

    while (has_moved && !conn->connected && !conn->ending) {
        if (conn->dial.resolve)
            has_moved = go_on_resolving(conn);
        else if (!conn->dial.is_set_out)
            set_out(conn);
        else
            has_moved = go_on(conn);
    }
}

void hf__dial_pollset(const struct hf__postgres *conn, struct hf__pollset *set)
{
    const struct hf__dial *dial = &conn->dial;

    hf__pollset_until(set, dial->is_set_out ? dial->share_ns : dial->by_ns);
    if (dial->resolve)
        (void)hf__pollset_add(set, hf__resolve_fd(dial->resolve), POLLIN);
    else if (dial->is_set_out)
        (void)hf__pollset_add(set, PQsocket(conn->pg), dial->events);
    else
        hf__pollset_until(set, 0);
}

void hf__dial_done(struct hf__postgres *conn)
{
    hf__resolve_drop(conn->dial.resolve);
    conn->dial.resolve = NULL;
    hang_up(conn);
}
