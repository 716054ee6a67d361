/* engine.c: PostgreSQL behind the seam: requests become statements, results and messages become
 * replies.
 *
 * open() sets out for a server (dial.c); when there is a connection, a burst of statements
 * introduces us (welcome.c), and requests follow in the order in which they came. Each is given to
 * libpq at once, and is sent off by the next advance() at the latest; renewals and refreshes are
 * collected, and travel together. advance() sends, reads, and hands out one reply at a time.
 *
 * What can go wrong: the connection dies: whoever waits is answered, UNKNOWN if it was given to
 * libpq and FAILED if not, and the connection is DOWN. A server that will not do: another one of
 * the URL is tried, and if there is none the connection is DOWN with the reason. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/postgres/postgres.h"

#define ARRAY_BYTES_MAX (HF__POSTGRES_BATCH_MAX * (HF_NAME_BYTES_MAX + 8) + 64)

extern const struct hf__engine hf__postgres_engine;

static struct hf__postgres *postgres_of(struct hf__conn *conn)
{
    return (struct hf__postgres *)conn;
}

/* --- opening and closing --- */

/* Of one server; what the URL asked for stays. */
static void leave(struct hf__postgres *conn)
{
    PQclear(conn->current);
    conn->current = NULL;
    hf__errand_done(conn);
    hf__vigil_done(&conn->vigils);
    conn->first_deadline_ns = HF__NEVER;
    conn->inflow = (struct hf__inflow){ 0 };
    conn->is_cut = false;
    conn->wants_write = false;
    conn->has_open_end = false;
}

void hf__postgres_finish(struct hf__postgres *conn)
{
    if (!conn->url)
        return;
    leave(conn);
    hf__seat_done(conn);
    hf__advisory_done(conn);
    hf__dial_done(conn);
    for (size_t i = 0; i < HF__POSTGRES_ARRAYS; i++)
        hf__buffer_done(&conn->arrays[i]);
    hf__env_free(conn->base.env, conn->collected);
    conn->collected = NULL;
    explicit_bzero(conn->password, sizeof(conn->password));
    conn->url = NULL;
}

static void postgres_close(struct hf__conn *base)
{
    hf__postgres_finish(postgres_of(base));
}

int hf__postgres_start(struct hf__postgres *conn, const struct hf__conn_options *options,
                       struct hf__postgres *main)
{
    struct hf__conn kept = conn->base;
    struct hf__conn *base = &conn->base;
    size_t server = main ? main->dial.server : conn->dial.server; /* the last that did */
    int status;

    hf__postgres_finish(conn);
    memset(conn, 0, sizeof(*conn));
    conn->base = kept;
    conn->main = main;
    conn->url = options->url;
    conn->now_ns = options->now_ns;
    conn->first_deadline_ns = HF__NEVER;
    conn->dial.server = server;
    hf__list_init(&conn->errands);
    hf__vigil_init(&conn->vigils, base->env);
    hf__list_init(&conn->parted);
    hf__list_init(&conn->timed);
    hf__roll_init(&conn->roll, base->env);
    for (size_t i = 0; i < HF__POSTGRES_ARRAYS; i++)
        hf__buffer_init(&conn->arrays[i], base->env, ARRAY_BYTES_MAX);
    conn->collected = hf__env_new(base->env, HF__POSTGRES_BATCH_MAX * sizeof(*conn->collected));
    if (!conn->collected)
        return hf__error_set(base->error, HF_ENOMEM, "out of memory");
    /* A claim on the keeper's connection, made when a turn of the same lock ends on the other, is
     * in line before the next turn begins, though that may be a short one. */
    conn->sends_at_once = !options->carries_calls;
    status = hf__dsn_read(conn, options);
    if (status < 0)
        return status;
    base->state = HF__CONN_CONNECTING;
    return hf__dial_start(conn);
}

static int postgres_open(struct hf__conn *base, const struct hf__conn_options *options)
{
    return hf__postgres_start(postgres_of(base), options, NULL);
}

/* --- taking requests --- */

static int flush_collected(struct hf__postgres *conn)
{
    struct hf__errand *errand;

    if (conn->collected_count == 0)
        return HF_OK;
    errand = hf__errand_new(conn, HF__ERRAND_MANY, conn->collected_count);
    if (!errand)
        return HF_ENOMEM;
    errand->deadline_ns = HF__NEVER;
    errand->idle_ns = conn->idle_ns;
    for (uint32_t i = 0; i < conn->collected_count; i++) {
        errand->tickets[i] = conn->collected[i].ticket;
        if (conn->collected[i].deadline_ns < errand->deadline_ns)
            errand->deadline_ns = conn->collected[i].deadline_ns;
    }
    if (hf__errand_send(conn, errand, hf__statement_send_collected(conn)) < 0)
        return conn->end_status;
    conn->collected_count = 0;
    return HF_OK;
}

int hf__postgres_collect(struct hf__postgres *conn, const struct hf__request *request)
{
    struct hf__collected *place;
    int status = HF_OK;

    if (conn->collected_count == HF__POSTGRES_BATCH_MAX ||
        (conn->collected_count > 0 && conn->collected_kind != request->ticket.kind))
        status = flush_collected(conn);
    if (status < 0)
        return status;
    place = &conn->collected[conn->collected_count++];
    conn->collected_kind = request->ticket.kind;
    place->ticket = request->ticket;
    place->deadline_ns = request->deadline_ns;
    place->lease_us = request->lease_ns / HF__NS_PER_US;
    place->shorten = request->shorten;
    place->name_bytes = request->name_bytes;
    memcpy(place->name, request->name, request->name_bytes);
    memcpy(place->token, request->token, HF__TOKEN_BYTES);
    return HF_OK;
}

/* One at a time: what it is matched with is kept beside the connection. */
static int submit_list(struct hf__postgres *conn, struct hf__errand *errand, const char *glob)
{
    int status;

    conn->list_all = glob == NULL;
    (void)hf__text_copy(conn->list_glob, sizeof(conn->list_glob), glob ? glob : "");
    status = hf__errand_send(conn, errand, hf__statement_send_list(conn, glob));
    if (status == HF_OK)
        hf__answer_expect(conn);
    return status;
}

static bool has_list(const struct hf__postgres *conn)
{
    HF__LIST_FOR(place, &conn->errands)
    {
        if (HF__LIST_ENTRY(place, struct hf__errand, place)->kind == HF__ERRAND_LIST)
            return true;
    }
    return false;
}

static int postgres_submit(struct hf__conn *base, const struct hf__request *request)
{
    struct hf__postgres *conn = postgres_of(base);
    enum hf__request_kind kind = request->ticket.kind;
    bool lists = kind == HF__REQUEST_LIST;
    struct hf__errand *errand;
    int status;

    if (conn->ending)
        return conn->end_status;
    if (request->ticket.sent_ns > conn->now_ns) /* it may have rested for long */
        conn->now_ns = request->ticket.sent_ns;
    /* What a request says depends on what the server said first. */
    if (!conn->greeted)
        return hf__error_set(base->error, HF_EUNREACHABLE, "%s: not connected yet", conn->peer);
    if (hf__postgres_is_advisory(conn)) {
        status = hf__advisory_submit(conn, request);
        if (status <= 0)
            return status;
    } else if (kind == HF__REQUEST_RENEW || kind == HF__REQUEST_INSPECT) {
        return hf__postgres_collect(conn, request);
    }
    if (lists && has_list(conn))
        return hf__error_set(base->error, HF_ELIMIT, "one listing at a time");

    errand = hf__errand_new(conn, lists ? HF__ERRAND_LIST : HF__ERRAND_ONE, 1);
    if (!errand)
        return HF_ENOMEM;
    errand->tickets[0] = request->ticket;
    errand->deadline_ns = request->deadline_ns;
    status = lists ? submit_list(conn, errand, request->glob)
                   : hf__errand_send(conn, errand, hf__statement_send(conn, request));
    if (conn->sends_at_once)
        hf__errand_flush(conn);
    return status;
}

/* --- going on --- */

static void go_on(struct hf__postgres *conn)
{
    bool before = conn->connected;
    int status = HF_OK;

    if (!conn->connected)
        hf__dial_advance(conn);
    if (!conn->connected || conn->ending)
        return;
    if (!before)
        status = hf__welcome_send(conn);
    if (status == HF_OK && conn->clock_doubted)
        status = hf__welcome_ask_time(conn);
    if (status == HF_OK)
        status = flush_collected(conn);
    if (status < 0 && !conn->ending)
        hf__postgres_end(conn, status);
    hf__errand_flush(conn);
    if (conn->wants_write)
        conn->wants_write = PQflush(conn->pg) > 0;
}

/* Those who were never given to libpq: certainly nothing came of it. */
static int refuse_collected(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    if (conn->collected_count == 0)
        return 0;
    hf__postgres_reply(&conn->collected[--conn->collected_count].ticket, HF__REPLY_FAILED,
                       out_reply);
    out_reply->status = conn->end_status;
    return 1;
}

/* This server will not do; is there another? */
static bool turn_to_next(struct hf__postgres *conn)
{
    if (!conn->connected || conn->greeted)
        return false;
    conn->ending = false;
    leave(conn);
    if (hf__dial_next_server(conn))
        return true;
    conn->ending = true;
    return false;
}

/* Sessions and what they have: of the recipe that has such. */
static int advance_sessions(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    if (!hf__postgres_is_advisory(conn) || conn->main)
        return 0;
    return hf__advisory_advance(conn, out_reply);
}

static int advance(struct hf__postgres *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    conn->now_ns = now_ns;
    if (now_ns >= conn->first_deadline_ns && now_ns != conn->late_ns) {
        conn->may_read = true; /* the answer may lie there, and only we come late */
        conn->late_ns = now_ns;
    }
    if (!conn->ending)
        go_on(conn);
    if (!conn->ending && conn->connected && hf__answer_next(conn, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__errand_expire(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__vigil_due(&conn->vigils, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && advance_sessions(conn, out_reply) > 0)
        return 1;
    if (!conn->ending || turn_to_next(conn))
        return 0;
    if (refuse_collected(conn, out_reply) > 0 || hf__errand_end_next(conn, out_reply) > 0)
        return 1;
    if (advance_sessions(conn, out_reply) > 0)
        return 1;
    PQclear(conn->current);
    conn->current = NULL;
    hf__dial_done(conn);
    return conn->end_status;
}

int hf__postgres_advance(struct hf__postgres *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    int got = advance(conn, now_ns, out_reply);

    if (got < 0)
        conn->base.state = HF__CONN_DOWN;
    else if (conn->base.state == HF__CONN_CONNECTING && conn->greeted)
        conn->base.state = HF__CONN_UP;
    return got;
}

static int postgres_advance(struct hf__conn *base, uint64_t now_ns, struct hf__reply *out_reply)
{
    return hf__postgres_advance(postgres_of(base), now_ns, out_reply);
}

void hf__postgres_await(struct hf__postgres *conn, struct hf__pollset *set)
{
    if (conn->ending) {
        hf__pollset_until(set, 0);
        return;
    }
    if (!conn->connected) {
        hf__dial_pollset(conn, set);
        return;
    }
    conn->may_read = true;
    if (PQsocket(conn->pg) < 0) { /* libpq has hung up, and says so when it is asked */
        hf__pollset_until(set, 0);
        return;
    }
    (void)hf__pollset_add(set, PQsocket(conn->pg),
                          (short)(conn->wants_write ? POLLIN | POLLOUT : POLLIN));
    hf__pollset_until(set, conn->first_deadline_ns);
    if (conn->collected_count > 0)
        hf__pollset_until(set, 0);
    hf__pollset_until(set, hf__vigil_first(&conn->vigils));
}

static void postgres_pollset(struct hf__conn *base, struct hf__pollset *set)
{
    struct hf__postgres *conn = postgres_of(base);

    hf__postgres_await(conn, set);
    if (hf__postgres_is_advisory(conn))
        hf__advisory_pollset(conn, set);
}

static const char *const schemes[] = { "postgres", "postgresql", NULL };
static const struct hf__recipe *const recipes[] = { &hf__postgres_queue, &hf__postgres_advisory,
                                                    NULL };

const struct hf__engine hf__postgres_engine = {
    .name = "postgres",
    .url_schemes = schemes,
    .recipes = recipes,
    .conn_size = sizeof(struct hf__postgres),
    .open = postgres_open,
    .close = postgres_close,
    .submit = postgres_submit,
    .pollset = postgres_pollset,
    .advance = postgres_advance,
};
