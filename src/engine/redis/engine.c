/* engine.c: Redis behind the seam: requests become commands, answers and messages become replies.
 *
 * open() starts a stream; when it is up, a burst of commands introduces us (greet.c), and requests
 * follow in the order in which they came. submit() only writes down; renewals and refreshes are
 * gathered until the next advance(), and travel together. advance() sends, reads, and hands out one
 * reply at a time: of a batch, of an answer, of a message, of a deadline that has passed.
 *
 * A recipe may want some of its requests on a connection of their own: it is opened beside this
 * one, lives and dies with it, and only here is known that they are two.
 *
 * What can go wrong: the connection dies, or the server sends nonsense: whoever waits is answered,
 * UNKNOWN if its first byte was sent and FAILED if not, and the connection is DOWN. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/raw.h"

#define CONNECT_NS (5 * HF__NS_PER_S)

extern const struct hf__engine hf__redis_engine;
extern const struct hf__engine hf__redis_quorum_engine;

static struct hf__redis *redis_of(struct hf__conn *conn)
{
    return (struct hf__redis *)conn;
}

/* --- opening and closing --- */

static void let_go(struct hf__redis *conn)
{
    hf__stream_close(conn->stream);
    conn->stream = NULL;
    hf__asked_done(conn);
    hf__lookout_done(conn);
    hf__course_done(conn);
    hf__scan_done(conn);
    hf__wire_out_done(&conn->out);
    hf__wire_in_done(&conn->in);
    hf__env_free(conn->base.env, conn->gathered);
    conn->gathered = NULL;
    hf__env_free(conn->base.env, conn->sightings);
    conn->sightings = NULL;
    explicit_bzero(conn->password, sizeof(conn->password));
    conn->recipe = NULL;
}

static void redis_close(struct hf__conn *base)
{
    struct hf__redis *conn = redis_of(base);

    if (conn->apart && conn->apart->recipe)
        let_go(conn->apart);
    hf__env_free(base->env, conn->apart);
    conn->apart = NULL;
    if (conn->recipe)
        let_go(conn);
}

static int open_one(struct hf__redis *conn, const struct hf__conn_options *options)
{
    struct hf__conn *base = &conn->base;
    struct hf__conn kept = *base;
    struct hf__stream_options stream = {
        .env = base->env,
        .url = options->url,
        .server = options->server,
        .port = HF__REDIS_PORT,
        .tls = hf__terms_tls(options->url),
        .now_ns = options->now_ns,
        .deadline_ns = options->now_ns + CONNECT_NS,
    };
    int status;

    memset(conn, 0, sizeof(*conn));
    conn->base = kept;
    base->holds_back = false;
    conn->peer_cpu = -1;
    conn->recipe = (const struct hf__redis_recipe *)(const void *)base->recipe;
    conn->url = options->url;
    conn->now_ns = options->now_ns;
    conn->first_deadline_ns = HF__NEVER;
    conn->reads_left = HF__REDIS_READS_MAX;
    conn->greet_by_ns = stream.deadline_ns;
    hf__list_init(&conn->asked);
    hf__list_init(&conn->free_asked);
    hf__list_init(&conn->lookouts);
    hf__list_init(&conn->free_lookouts);
    hf__list_init(&conn->courses);
    hf__wire_out_init(&conn->out, base->env);
    hf__wire_in_init(&conn->in, base->env);
    conn->gathered = hf__env_new(base->env, HF__REDIS_BATCH_MAX * sizeof(*conn->gathered));
    if (!conn->gathered)
        return hf__error_set(base->error, HF_ENOMEM, "out of memory");
    status = hf__terms_read(conn, options);
    if (status == HF_OK)
        status = hf__secret_of(conn->url, conn->password, conn->base.error);
    if (status < 0)
        return status;
    base->state = HF__CONN_CONNECTING;
    return hf__stream_open(&stream, &conn->stream, base->error);
}

static int open_apart(struct hf__redis *conn, const struct hf__conn_options *options)
{
    struct hf__conn_options own = *options;
    struct hf__redis *apart = hf__env_new(conn->base.env, sizeof(*apart));
    int status;

    if (!apart)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    own.carries_calls = own.carries_keeping = false; /* nobody sends messages there */
    apart->base = (struct hf__conn){ .engine = conn->base.engine,
                                     .recipe = conn->base.recipe,
                                     .env = conn->base.env };
    conn->apart = apart;
    status = open_one(apart, &own);
    apart->beside = conn;
    if (status < 0)
        hf__text_copy(conn->base.error, sizeof(conn->base.error), apart->base.error);
    return status;
}

static int redis_open(struct hf__conn *base, const struct hf__conn_options *options)
{
    struct hf__redis *conn = redis_of(base);
    int status;

    redis_close(base);
    status = open_one(conn, options);
    if (status == HF_OK && conn->recipe->releases_apart)
        status = open_apart(conn, options);
    return status;
}

/* --- taking requests --- */

static int flush_gathered(struct hf__redis *conn)
{
    struct hf__asked *asked;
    uint64_t deadline_ns = HF__NEVER;

    if (conn->gathered_count == 0)
        return HF_OK;
    asked = hf__asked_begin(conn, HF__ASKED_MANY, conn->gathered_count);
    if (!asked)
        return HF_ENOMEM;
    for (uint32_t i = 0; i < conn->gathered_count; i++) {
        asked->tickets[i] = conn->gathered[i].ticket;
        if (conn->gathered[i].deadline_ns < deadline_ns)
            deadline_ns = conn->gathered[i].deadline_ns;
    }
    conn->recipe->ask_many(conn);
    conn->gathered_count = 0;
    return hf__asked_end(conn, asked, deadline_ns);
}

static int gather(struct hf__redis *conn, const struct hf__request *request)
{
    struct hf__gathered *place;
    bool hashed;
    int status = HF_OK;

    if (conn->gathered_count == HF__REDIS_BATCH_MAX ||
        (conn->gathered_count > 0 && conn->gathered_kind != request->ticket.kind))
        status = flush_gathered(conn);
    if (status < 0)
        return status;
    place = &conn->gathered[conn->gathered_count++];
    conn->gathered_kind = request->ticket.kind;
    place->ticket = request->ticket;
    place->deadline_ns = request->deadline_ns;
    place->lease_ms = request->lease_ns / HF__NS_PER_MS;
    place->shorten = request->shorten;
    place->key_bytes = hf__words_key(conn, request->name, request->name_bytes, place->key, &hashed);
    hf__words_token(request->token, place->token);
    return HF_OK;
}

/* A server that may have forgotten its locks gives none out until they must have ended. */
static int check_quarantine(struct hf__redis *conn, const struct hf__request *request)
{
    bool claims = request->ticket.kind == HF__REQUEST_CLAIM;

    if (conn->restart_wait_ns == 0 || !(claims || request->ticket.kind == HF__REQUEST_RENEW))
        return HF_OK;
    if (request->lease_ns > conn->restart_wait_ns)
        return hf__error_set(conn->base.error, HF_EINVAL,
                             "a lease of %llu ms is longer than restart_wait (%llu ms)",
                             (unsigned long long)(request->lease_ns / HF__NS_PER_MS),
                             (unsigned long long)(conn->restart_wait_ns / HF__NS_PER_MS));
    if (claims && conn->greeted && request->ticket.sent_ns < conn->open_from_ns)
        return hf__error_set(
            conn->base.error, HF_EUNREACHABLE,
            "the server was restarted: nothing is granted for another %lld ms",
            (long long)hf__clock_wait_ms(request->ticket.sent_ns, conn->open_from_ns));
    return HF_OK;
}

static int submit_one(struct hf__redis *conn, const struct hf__request *request)
{
    struct hf__conn *base = &conn->base;
    struct hf__asked *asked;
    int status = check_quarantine(conn, request);

    if (conn->ending)
        return conn->end_status;
    if (status < 0)
        return status;
    /* What a request says depends on what the server said first. */
    if (!conn->greeted)
        return hf__error_set(base->error, HF_EUNREACHABLE, "%s: not connected yet",
                             hf__stream_peer(conn->stream));
    if (request->ticket.kind == HF__REQUEST_LIST)
        return hf__scan_start(conn, request);
    if (request->ticket.kind == HF__REQUEST_RENEW || request->ticket.kind == HF__REQUEST_INSPECT)
        return gather(conn, request);
    if (conn->recipe->start) {
        status = conn->recipe->start(conn, request);
        if (status != 0)
            return status > 0 ? HF_OK : status;
    }

    asked = hf__asked_begin(conn, HF__ASKED_ONE, 1);
    if (!asked)
        return HF_ENOMEM;
    asked->tickets[0] = request->ticket;
    status = conn->recipe->ask(conn, request);
    if (status < 0) {
        hf__asked_free(conn, asked);
        return status;
    }
    return hf__asked_end(conn, asked, request->deadline_ns);
}

static int redis_submit(struct hf__conn *base, const struct hf__request *request)
{
    struct hf__redis *conn = redis_of(base);
    int status;

    if (!conn->apart || request->ticket.kind != HF__REQUEST_RELEASE)
        return submit_one(conn, request);
    status = submit_one(conn->apart, request);
    if (status < 0)
        hf__text_copy(base->error, sizeof(base->error), conn->apart->base.error);
    return status;
}

static void go_on(struct hf__redis *conn, uint64_t now_ns)
{
    enum hf__stream_state before = conn->stream_state;
    int status = HF_OK;

    if (conn->stream_state == HF__STREAM_CONNECTING)
        conn->stream_state = hf__stream_advance(conn->stream, now_ns);
    if (conn->stream_state == HF__STREAM_DOWN) {
        hf__traffic_end_with_stream(conn);
        return;
    }
    if (conn->stream_state != HF__STREAM_UP)
        return;
    if (before != HF__STREAM_UP)
        status = hf__greet_send(conn, now_ns);
    if (status == HF_OK && conn->clock_doubted)
        status = hf__greet_ask_time(conn, now_ns);
    if (status == HF_OK)
        status = flush_gathered(conn);
    if (status == HF_OK && conn->greeted && conn->recipe->proceed)
        status = conn->recipe->proceed(conn);
    if (status < 0)
        hf__traffic_end(conn, status);
    if (!conn->ending)
        hf__traffic_send(conn);
}

/* Nothing came, nothing is to be sent, nothing is due: so it is most of the times that it is looked
 * at. */
static bool is_idle(const struct hf__redis *conn, uint64_t now_ns)
{
    return conn->greeted && conn->stream_state == HF__STREAM_UP && !conn->ending &&
           !conn->may_read && now_ns < conn->first_deadline_ns && !conn->current &&
           conn->gathered_count == 0 && hf__buffer_count(&conn->out.buffer) == 0 &&
           hf__buffer_count(&conn->in.buffer) == conn->in.taken && !conn->clock_doubted &&
           hf__list_empty(&conn->lookouts) && hf__list_empty(&conn->courses);
}

static int advance_one(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    conn->now_ns = now_ns;
    if (is_idle(conn, now_ns))
        return 0;
    if (now_ns >= conn->first_deadline_ns)
        conn->may_read = true; /* the answer may lie there, and only we come late */
    if (conn->current && conn->current->kind == HF__ASKED_MANY)
        return hf__answers_next_of_batch(conn, out_reply);
    if (conn->current && hf__scan_next(conn, out_reply) > 0)
        return 1;
    if (!conn->ending)
        go_on(conn, now_ns);
    if (!conn->ending && conn->stream_state == HF__STREAM_UP &&
        hf__answers_next(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__asked_expire(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__course_expire(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__lookout_due(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__buffer_count(&conn->out.buffer) > 0 &&
        conn->stream_state == HF__STREAM_UP)
        hf__traffic_send(conn); /* what an answer made us ask */
    if (!conn->ending)
        return 0;
    if (flush_gathered(conn) < 0)
        conn->gathered_count = 0;
    if (hf__asked_end_next(conn, out_reply) > 0 || hf__course_end_next(conn, out_reply) > 0)
        return 1;
    if (conn->base.is_heard) { /* it goes when whoever reads from it has come back */
        hf__stream_hush(conn->stream);
        return 0;
    }
    hf__stream_close(conn->stream);
    conn->stream = NULL;
    return conn->end_status;
}

/* Both end together: what is left is answered on either, and then there is nothing to say. */
static int advance_both(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct hf__redis *apart = conn->apart;
    int got = advance_one(conn, now_ns, out_reply);
    int other;

    if (got > 0)
        return got;
    if (got < 0 && !apart->ending)
        hf__traffic_end(apart, got);
    other = advance_one(apart, now_ns, out_reply);
    if (other != 0 && !conn->ending)
        hf__text_copy(conn->base.error, sizeof(conn->base.error), apart->base.error);
    if (other >= 0)
        return other;
    if (got < 0)
        return got;
    hf__traffic_end(conn, other);
    return advance_one(conn, now_ns, out_reply);
}

static int redis_advance(struct hf__conn *base, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct hf__redis *conn = redis_of(base);
    int got =
        conn->apart ? advance_both(conn, now_ns, out_reply) : advance_one(conn, now_ns, out_reply);

    if (got < 0)
        base->state = HF__CONN_DOWN;
    else if (base->state == HF__CONN_CONNECTING && conn->greeted &&
             (!conn->apart || conn->apart->greeted))
        base->state = HF__CONN_UP;
    return got;
}

static void pollset_one(struct hf__redis *conn, struct hf__pollset *set)
{
    if (conn->ending || !conn->stream) {
        hf__pollset_until(set, 0);
        return;
    }
    conn->may_read = true;
    conn->reads_left = HF__REDIS_READS_MAX;
    hf__stream_pollset(conn->stream, hf__buffer_count(&conn->out.buffer) > 0, set);
    hf__pollset_until(set, conn->first_deadline_ns);
    hf__pollset_until(set, hf__lookout_first(conn));
    hf__pollset_until(set, hf__course_first(conn));
}

static void redis_pollset(struct hf__conn *base, struct hf__pollset *set)
{
    struct hf__redis *conn = redis_of(base);

    pollset_one(conn, set);
    if (conn->apart)
        pollset_one(conn->apart, set);
}

/* Where releases travel apart, there are two to wait for. */
static int redis_listen(struct hf__conn *base)
{
    struct hf__redis *conn = redis_of(base);
    int fd = -1;

    if (!conn->ending && conn->stream && !conn->apart && conn->stream_state == HF__STREAM_UP &&
        hf__buffer_count(&conn->out.buffer) == 0 && hf__traffic_awaits_answer(conn))
        fd = hf__stream_listener(conn->stream);
    base->is_heard = fd >= 0;
    return fd;
}

static void redis_heard(struct hf__conn *base, const void *bytes, size_t count)
{
    base->is_heard = false;
    hf__traffic_heard(redis_of(base), bytes, count);
}

static const char *const schemes[] = { "redis", "rediss", NULL };
static const struct hf__recipe *const recipes[] = {
    &hf__redis_fair.recipe,
    &hf__redis_set.recipe,
    &hf__redis_setnx.recipe,
    &hf__redis_getset.recipe,
    NULL,
};
static const char *const redlock_schemes[] = { "redlock", "redlocks", NULL };
static const struct hf__recipe *const redlock_recipes[] = { &hf__redis_quorum.recipe, NULL };

const struct hf__engine hf__redis_engine = {
    .name = "redis",
    .url_schemes = schemes,
    .recipes = recipes,
    .conn_size = sizeof(struct hf__redis),
    .open = redis_open,
    .close = redis_close,
    .submit = redis_submit,
    .pollset = redis_pollset,
    .advance = redis_advance,
    .listen = redis_listen,
    .heard = redis_heard,
};

/* The same connections, one to each server. */
const struct hf__engine hf__redis_quorum_engine = {
    .name = "redlock",
    .url_schemes = redlock_schemes,
    .recipes = redlock_recipes,
    .conn_size = sizeof(struct hf__redis),
    .open = redis_open,
    .close = redis_close,
    .submit = redis_submit,
    .pollset = redis_pollset,
    .advance = redis_advance,
    .listen = redis_listen,
    .heard = redis_heard,
};
