/* engine.c: MySQL and MariaDB behind the seam: requests become statements, results become replies.
 *
 * open() sets out for a server (cable.c); when there is a connection, a burst of statements
 * introduces us (arrival.c), and requests follow in the order in which they came, without waiting
 * for each other's answers. Renewals and refreshes are gathered, and travel together. advance()
 * sends, reads, and hands out one reply at a time. The connection that the keeper has also listens,
 * on a line of its own (bell.c).
 *
 * What can go wrong: the connection dies: whoever waits is answered, UNKNOWN if it was written for
 * the server and FAILED if not, and the connection is DOWN. A server that will not do: another one
 * of the URL is tried, and if there is none the connection is DOWN with the reason. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/mysql/mysql.h"

#define CONNECT_NS   (5 * HF__NS_PER_S)
#define SHARE_NS_MIN (250 * HF__NS_PER_MS)
#define ITEM_BYTES   (2 + HF_NAME_BYTES_MAX + HF__TOKEN_BYTES + 8 + 1)
#define LOOK_NS      (5 * HF__NS_PER_MS)

extern const struct hf__engine hf__mysql_engine;

static struct hf__mysql *mysql_of(struct hf__conn *conn)
{
    return (struct hf__mysql *)conn;
}

/* --- opening and closing --- */

/* Of one server; what the URL asked for stays. */
static void leave(struct hf__mysql *conn)
{
    hf__parcel_done(conn);
    hf__anchor_done(conn);
    hf__vigil_done(&conn->vigils);
    hf__bell_done(conn);
    hf__cable_close(&conn->cable);
    hf__buffer_consume(&conn->said, hf__buffer_count(&conn->said));
    conn->said_at = 0;
    conn->first_deadline_ns = HF__NEVER;
}

static void mysql_close(struct hf__conn *base)
{
    struct hf__mysql *conn = mysql_of(base);

    if (!conn->url)
        return;
    leave(conn);
    hf__buffer_done(&conn->said);
    hf__buffer_done(&conn->spare);
    hf__env_free(base->env, conn->gathered);
    conn->gathered = NULL;
    explicit_bzero(conn->password, sizeof(conn->password));
    conn->url = NULL;
}

/* Its share of what is left is for this server. */
static int set_out(struct hf__mysql *conn)
{
    uint64_t left_ns = conn->by_ns > conn->now_ns ? conn->by_ns - conn->now_ns : 0;
    uint64_t share_ns = left_ns / (1 + conn->url->server_count - conn->tried);
    int status;

    share_ns = share_ns < SHARE_NS_MIN ? SHARE_NS_MIN : share_ns;
    conn->base.polls_more = true;
    conn->cable.password = conn->password;
    conn->cable.by_ns = share_ns < left_ns ? conn->now_ns + share_ns : conn->by_ns;
    status = hf__cable_open(&conn->cable, conn->base.env, conn->url, conn->server, conn->now_ns);
    if (status < 0)
        (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), conn->cable.error);
    return status;
}

static int mysql_open(struct hf__conn *base, const struct hf__conn_options *options)
{
    struct hf__mysql *conn = mysql_of(base);
    struct hf__conn kept = *base;
    size_t server = conn->server; /* the last that did */
    int status;

    mysql_close(base);
    memset(conn, 0, sizeof(*conn));
    conn->base = kept;
    conn->url = options->url;
    conn->now_ns = options->now_ns;
    conn->first_deadline_ns = HF__NEVER;
    conn->server = server;
    conn->tried = 1;
    conn->by_ns = conn->now_ns + CONNECT_NS;
    hf__list_init(&conn->parcels);
    hf__vigil_init(&conn->vigils, base->env);
    hf__anchor_init(conn, options->client_id);
    hf__buffer_init(&conn->said, base->env, HF__MYSQL_PACKET_MAX);
    hf__buffer_init(&conn->spare, base->env, HF__MYSQL_BATCH_MAX * ITEM_BYTES);
    conn->gathered = hf__env_new(base->env, HF__MYSQL_BATCH_MAX * sizeof(*conn->gathered));
    if (!conn->gathered)
        return hf__error_set(base->error, HF_ENOMEM, "out of memory");
    /* A claim on the keeper's connection, made when a turn of the same lock ends on the other, is
     * in line before the next turn begins, though that may be a short one. */
    conn->sends_at_once = !options->carries_calls;
    status = hf__whither_read(conn, options);
    if (status < 0)
        return status;
    base->state = HF__CONN_CONNECTING;
    return set_out(conn);
}

static bool mysql_parting(struct hf__conn *base)
{
    return hf__bell_part(mysql_of(base));
}

/* --- taking requests --- */

static int flush_gathered(struct hf__mysql *conn)
{
    struct hf__parcel *parcel;
    int written;

    if (conn->gathered_count == 0)
        return HF_OK;
    parcel = hf__parcel_new(conn, HF__PARCEL_MANY, conn->gathered_count);
    if (!parcel)
        return HF_ENOMEM;
    written = hf__sql_send_gathered(conn);
    parcel->deadline_ns = HF__NEVER;
    for (uint32_t i = 0; i < conn->gathered_count; i++) {
        parcel->tickets[i] = conn->gathered[i].ticket;
        if (conn->gathered[i].deadline_ns < parcel->deadline_ns)
            parcel->deadline_ns = conn->gathered[i].deadline_ns;
    }
    if (hf__parcel_send(conn, parcel, written) < 0)
        return conn->end_status;
    conn->gathered_count = 0;
    return HF_OK;
}

int hf__mysql_gather(struct hf__mysql *conn, const struct hf__request *request)
{
    struct hf__gathered *place;
    int status = HF_OK;

    if (conn->gathered_count == HF__MYSQL_BATCH_MAX ||
        (conn->gathered_count > 0 && conn->gathered_kind != request->ticket.kind))
        status = flush_gathered(conn);
    if (status < 0)
        return status;
    place = &conn->gathered[conn->gathered_count++];
    conn->gathered_kind = request->ticket.kind;
    place->ticket = request->ticket;
    place->deadline_ns = request->deadline_ns;
    place->lease_us = request->lease_ns / HF__NS_PER_US;
    place->shorten = request->shorten;
    place->name_bytes = request->name_bytes;
    memcpy(place->name, request->name, request->name_bytes);
    memcpy(place->token, request->token, HF__TOKEN_BYTES);
    return HF_OK;
}

/* Behind a release that hands it on. Without it the next in line comes late. */
static int ring(struct hf__mysql *conn)
{
    struct hf__parcel *parcel = hf__parcel_new(conn, HF__PARCEL_RING, 0);

    if (!parcel)
        return HF_OK;
    parcel->deadline_ns = HF__NEVER;
    return hf__parcel_send(conn, parcel, hf__sql_send_ring(conn));
}

static int submit_one(struct hf__mysql *conn, const struct hf__request *request)
{
    bool lists = request->ticket.kind == HF__REQUEST_LIST;
    struct hf__parcel *parcel = hf__parcel_new(conn, lists ? HF__PARCEL_LIST : HF__PARCEL_ONE, 1);
    bool hands_on;
    int written;

    if (!parcel)
        return HF_ENOMEM;
    parcel->tickets[0] = request->ticket;
    parcel->deadline_ns = request->deadline_ns;
    if (lists) {
        conn->list_all = request->glob == NULL;
        (void)hf__text_copy(conn->list_glob, sizeof(conn->list_glob),
                            request->glob ? request->glob : "");
        written = hf__sql_send_list(conn, request->glob);
    } else {
        written = hf__sql_send(conn, request, parcel);
    }
    hands_on = parcel->hands_on;
    written = hf__parcel_send(conn, parcel, written);
    return written == HF_OK && hands_on ? ring(conn) : written;
}

static int mysql_submit(struct hf__conn *base, const struct hf__request *request)
{
    struct hf__mysql *conn = mysql_of(base);
    enum hf__request_kind kind = request->ticket.kind;
    int status;

    if (conn->ending)
        return conn->end_status;
    if (request->ticket.sent_ns > conn->now_ns) /* it may have rested for long */
        conn->now_ns = request->ticket.sent_ns;
    /* What a request says depends on what the server said first. */
    if (!conn->greeted)
        return hf__error_set(base->error, HF_EUNREACHABLE, "%s: not connected yet",
                             hf__cable_peer(&conn->cable));
    if (kind == HF__REQUEST_DOWNGRADE || request->mode == HF_SHARED) {
        if (!(base->recipe->promises & HF_PROMISE_SHARED))
            return hf__error_set(base->error, HF_EUNSUPPORTED, "%s has no shared mode",
                                 base->recipe->name);
    }
    if (hf__sql_recipe(conn)->moors) {
        status = hf__anchor_submit(conn, request);
        if (status <= 0)
            return status;
    } else if (kind == HF__REQUEST_RENEW || kind == HF__REQUEST_INSPECT) {
        return hf__mysql_gather(conn, request);
    }
    /* One at a time: what it is matched with is kept beside the connection. */
    if (kind == HF__REQUEST_LIST && hf__parcel_has(conn, HF__PARCEL_LIST))
        return hf__error_set(base->error, HF_ELIMIT, "one listing at a time");
    status = submit_one(conn, request);
    if (conn->sends_at_once && status == HF_OK)
        hf__cable_advance(&conn->cable, conn->now_ns);
    return status;
}

/* --- going on --- */

static void go_on(struct hf__mysql *conn)
{
    bool before = conn->cable.phase == HF__CABLE_UP;
    int status = HF_OK;

    if (!before)
        hf__cable_advance(&conn->cable, conn->now_ns);
    if (conn->cable.phase == HF__CABLE_UP) {
        if (!before)
            status = hf__arrival_send(conn);
        if (status == HF_OK && conn->clock_doubted)
            status = hf__arrival_ask_time(conn);
        if (status == HF_OK && conn->greeted)
            status = flush_gathered(conn);
        hf__cable_advance(&conn->cable, conn->now_ns);
    }
    if (status < 0 && !conn->ending)
        hf__mysql_end(conn, status);
}

/* After what has come was heard. */
static void notice_end(struct hf__mysql *conn)
{
    if (conn->ending || conn->cable.phase != HF__CABLE_DOWN)
        return;
    (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), conn->cable.error);
    hf__mysql_end(conn, conn->cable.status);
}

/* Those who were never written for the server: certainly nothing came of it. */
static int refuse_gathered(struct hf__mysql *conn, struct hf__reply *out_reply)
{
    if (conn->gathered_count == 0)
        return 0;
    hf__mysql_reply(&conn->gathered[--conn->gathered_count].ticket, HF__REPLY_FAILED, out_reply);
    out_reply->status = conn->end_status;
    return 1;
}

/* This server will not do; is there another? One that does not let us in is not hidden by it. */
static bool turn_to_next(struct hf__mysql *conn)
{
    bool was_up = conn->cable.phase == HF__CABLE_UP || hf__parcel_oldest(conn);
    bool passing = conn->end_status == HF_EUNREACHABLE || conn->end_status == HF_ELIMIT;

    if (conn->greeted || !(was_up || passing) || conn->tried >= conn->url->server_count ||
        conn->now_ns >= conn->by_ns || conn->mooring.main)
        return false;
    hf__trace(conn->base.env, "mysql: %s", conn->base.error);
    leave(conn);
    conn->ending = false;
    conn->tried++;
    conn->server = (conn->server + 1) % conn->url->server_count;
    if (set_out(conn) == HF_OK)
        return true;
    conn->ending = true;
    return false;
}

/* Who asks again and again without waiting, as by hf_claim_wait(claim, 0, ...), or by what fails at
 * once as long as there is no connection, never says what it would wait for: nobody would read what
 * the server says. And at a deadline the answer may lie there, and only we come late. */
static void look(struct hf__mysql *conn)
{
    if (conn->now_ns < conn->look_at_ns && conn->now_ns < conn->first_deadline_ns)
        return;
    conn->look_at_ns = conn->now_ns + LOOK_NS;
    conn->cable.may_read = true;
    conn->bell.cable.may_read = true;
}

static int advance(struct hf__mysql *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    conn->now_ns = now_ns;
    look(conn);
    if (!conn->ending)
        go_on(conn);
    if (!conn->ending && hf__inbox_next(conn, out_reply) > 0)
        return 1;
    if (!conn->ending && conn->cable.phase == HF__CABLE_UP)
        hf__cable_advance(&conn->cable, now_ns); /* what the answers made us say */
    notice_end(conn);
    if (!conn->ending && hf__parcel_expire(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__bell_advance(conn, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__vigil_due(&conn->vigils, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__anchor_advance(conn, out_reply) > 0)
        return 1;
    if (!conn->ending || turn_to_next(conn))
        return 0;
    if (refuse_gathered(conn, out_reply) > 0 || hf__parcel_end_next(conn, out_reply) > 0 ||
        hf__anchor_advance(conn, out_reply) > 0)
        return 1;
    leave(conn);
    return conn->end_status;
}

static int mysql_advance(struct hf__conn *base, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct hf__mysql *conn = mysql_of(base);
    int got = advance(conn, now_ns, out_reply);

    if (got < 0)
        base->state = HF__CONN_DOWN;
    else if (base->state == HF__CONN_CONNECTING && conn->greeted)
        base->state = HF__CONN_UP;
    return got;
}

static void mysql_pollset(struct hf__conn *base, struct hf__pollset *set)
{
    struct hf__mysql *conn = mysql_of(base);

    if (conn->ending) {
        hf__pollset_until(set, 0);
        return;
    }
    hf__cable_pollset(&conn->cable, set);
    hf__bell_pollset(conn, set);
    hf__pollset_until(set, conn->first_deadline_ns);
    if (conn->gathered_count > 0)
        hf__pollset_until(set, 0);
    hf__pollset_until(set, hf__vigil_first(&conn->vigils));
    hf__anchor_pollset(conn, set);
}

static const char *const schemes[] = { "mysql", "mariadb", NULL };
static const struct hf__recipe *const recipes[] = {
    &hf__mysql_queue.recipe,      &hf__mysql_row.recipe,     &hf__mysql_named.recipe,
    &hf__mysql_for_update.recipe, &hf__mysql_version.recipe, NULL,
};

const struct hf__engine hf__mysql_engine = {
    .name = "mysql",
    .url_schemes = schemes,
    .recipes = recipes,
    .conn_size = sizeof(struct hf__mysql),
    .open = mysql_open,
    .parting = mysql_parting,
    .close = mysql_close,
    .submit = mysql_submit,
    .pollset = mysql_pollset,
    .advance = mysql_advance,
};
