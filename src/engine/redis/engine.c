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
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/raw.h"

#define PORT          6379
#define CONNECT_NS    (5 * HF__NS_PER_S)
#define READ_BYTES    16384u
#define READS_MAX     64 /* between two waits: a server that sends without end gets no more */

#define READS_PER_LOOK 64u /* for the peer's CPU: servers seldom move */
#define HELD_BACK_MAX 16384u
#define RESTART_WAIT  "restart_wait"

extern const struct hf__engine hf__redis_engine;
extern const struct hf__engine hf__redis_quorum_engine;

static struct hf__redis *redis_of(struct hf__conn *conn)
{
    return (struct hf__redis *)conn;
}

void hf__redis_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                     struct hf__reply *out_reply)
{
    *out_reply = (struct hf__reply){ .kind = kind, .ticket = *ticket, .ahead = HF__AHEAD_UNKNOWN };
}

void hf__redis_protocol_error(struct hf__redis *conn, const struct hf__value *value,
                              struct hf__reply *out_reply)
{
    out_reply->kind = HF__REPLY_UNKNOWN;
    out_reply->status =
        hf__error_set(conn->base.error, HF_EPROTOCOL,
                      "the server answered what it never should (kind %d)", (int)value->kind);
}

/* --- opening and closing --- */

/* One that is counted twice is a majority of less than it seems. */
static bool names_one_twice(const struct hf__url *url)
{
    for (size_t i = 0; i < url->server_count; i++) {
        for (size_t k = 0; k < i; k++) {
            unsigned one = url->servers[i].port ? url->servers[i].port : PORT;
            unsigned other = url->servers[k].port ? url->servers[k].port : PORT;

            if (one == other && strcasecmp(url->servers[i].host, url->servers[k].host) == 0)
                return true;
        }
    }
    return false;
}

static int check_servers(struct hf__redis *conn, const struct hf__url *url)
{
    if (conn->base.recipe->pattern == HF__PATTERN_QUORUM) {
        if (url->server_count < 3 || url->server_count % 2 == 0)
            return hf__error_set(conn->base.error, HF_EURL,
                                 "it takes an odd number of servers, 3 or more, not %zu",
                                 url->server_count);
        if (names_one_twice(url))
            return hf__error_set(conn->base.error, HF_EURL,
                                 "one server is written twice: each counts once");
        if (hf__url_option(url, "socket"))
            return hf__error_set(conn->base.error, HF_EURL, "its servers have no common socket");
        return HF_OK;
    }
    if (url->server_count != 1)
        return hf__error_set(conn->base.error, HF_EURL,
                             "it takes one server (several independent ones: redlock://)");
    return HF_OK;
}

static int check_options(struct hf__redis *conn, const struct hf__url *url)
{
    static const char *const known[] = { "recipe", "prefix",   "password_file", "ca",        "cert",
                                         "tls",    "cert_key", "socket",        RESTART_WAIT };

    for (size_t i = 0; i < url->option_count; i++) {
        bool found = false;

        for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
            found = found || strcmp(url->options[i].key, known[k]) == 0;
        if (!found)
            return hf__error_set(conn->base.error, HF_EURL, "there is no option '%s' here",
                                 url->options[i].key);
    }
    return check_servers(conn, url);
}

static int read_options(struct hf__redis *conn, const struct hf__conn_options *options)
{
    const char *prefix = hf__url_option(options->url, "prefix");
    const char *wait = hf__url_option(options->url, RESTART_WAIT);
    int64_t wait_ms = 0;

    if (!hf__text_copy(conn->prefix, sizeof(conn->prefix),
                       prefix ? prefix : conn->recipe->default_prefix))
        return hf__error_set(conn->base.error, HF_EURL, "prefix= has at most %zu bytes",
                             sizeof(conn->prefix) - 1);
    if (wait && !hf__text_to_duration_ms(wait, &wait_ms))
        return hf__error_set(conn->base.error, HF_EURL, "restart_wait='%s' is no duration", wait);
    conn->restart_wait_ns = (uint64_t)wait_ms * HF__NS_PER_MS;
    hf__text_copy(conn->purpose, sizeof(conn->purpose), options->purpose);
    (void)snprintf(conn->client, sizeof(conn->client), "%016llx",
                   (unsigned long long)options->client_id);
    conn->wall_offset_us = options->wall_offset_us;
    conn->listens_to_calls = options->carries_calls;
    conn->listens_to_keeper = options->carries_keeping;
    conn->pid = (long)getpid();
    if (gethostname(conn->host, sizeof(conn->host) - 1) < 0 || !conn->host[0])
        hf__text_copy(conn->host, sizeof(conn->host), "unknown");
    for (char *at = conn->host; *at; at++) {
        if (*at <= ' ' || *at > '~')
            *at = '_';
    }
    return HF_OK;
}

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

static bool wants_tls(const struct hf__url *url)
{
    return strcmp(url->scheme, "rediss") == 0 || strcmp(url->scheme, "redlocks") == 0;
}

static int open_one(struct hf__redis *conn, const struct hf__conn_options *options)
{
    struct hf__conn *base = &conn->base;
    struct hf__conn kept = *base;
    struct hf__stream_options stream = {
        .env = base->env,
        .url = options->url,
        .server = options->server,
        .port = PORT,
        .tls = wants_tls(options->url),
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
    conn->reads_left = READS_MAX;
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
    status = check_options(conn, options->url);
    if (status == HF_OK)
        status = read_options(conn, options);
    if (status == HF_OK)
        status = hf__greet_password(conn);
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

/* --- moving bytes --- */

static void end(struct hf__redis *conn, int status)
{
    conn->ending = true;
    conn->end_status = status;
}

static void end_with_stream(struct hf__redis *conn)
{
    int status = hf__stream_error(conn->stream, conn->base.error);

    /* Redis hangs up without a word on whoever does not speak TLS where it does. */
    if (conn->stream_state == HF__STREAM_UP && !conn->has_heard && !wants_tls(conn->url) &&
        status == HF_EUNREACHABLE)
        hf__error_set(conn->base.error, status,
                      "%s before it said a word; perhaps it wants TLS (%ss://)", conn->base.error,
                      conn->url->scheme);
    end(conn, status);
}

static bool awaits_answer(const struct hf__redis *conn)
{
    const struct hf__asked *oldest = HF__LIST_ENTRY(conn->asked.next, struct hf__asked, place);

    return !hf__list_empty(&conn->asked) && oldest->from < conn->sent_bytes && !oldest->abandoned;
}

/* Where the server has the CPU that we run on, it gets to work only when we all wait: one burst
 * then costs less than many small ones. Where it has another one, it had better begin at once. */
static bool holds_back(const struct hf__redis *conn)
{
    size_t count = hf__buffer_count(&conn->out.buffer);

    if (conn->base.pace == HF__PACE_AT_ONCE || count == 0 || count >= HELD_BACK_MAX ||
        !conn->greeted)
        return false;
    if (conn->base.pace == HF__PACE_WITH_ANSWERS && !awaits_answer(conn))
        return false;
    return conn->base.is_near;
}

static void send_bytes(struct hf__redis *conn)
{
    size_t count;

    conn->base.is_near = conn->peer_cpu == sched_getcpu();
    conn->base.holds_back = holds_back(conn);
    if (conn->base.holds_back)
        return;
    while ((count = hf__buffer_count(&conn->out.buffer)) > 0) {
        ssize_t sent = hf__stream_write(conn->stream, hf__buffer_front(&conn->out.buffer), count);

        if (sent < 0)
            end_with_stream(conn);
        if (sent == 0)
            conn->may_read = true; /* a server that hung up may have said why */
        if (sent <= 0)
            return;
        conn->sent_bytes += (uint64_t)sent;
        hf__buffer_consume(&conn->out.buffer, (size_t)sent);
    }
}

/* 1: something came. */
static int receive_bytes(struct hf__redis *conn)
{
    void *space;
    ssize_t got;

    if (!conn->may_read || conn->reads_left == 0)
        return 0;
    conn->reads_left--;
    if (hf__buffer_reserve(&conn->in.buffer, READ_BYTES, &space) < 0) {
        end(conn, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return 0;
    }
    got = hf__stream_read(conn->stream, space, READ_BYTES);
    if (got < 0)
        end_with_stream(conn);
    if (got <= 0) {
        conn->may_read = false;
        return 0;
    }
    hf__buffer_commit(&conn->in.buffer, (size_t)got);
    if (conn->reads++ % READS_PER_LOOK == 0)
        conn->peer_cpu = hf__stream_peer_cpu(conn->stream);
    conn->has_heard = true;
    /* Less than there was room for: that was all. */
    conn->may_read = (size_t)got == READ_BYTES;
    return 1;
}

/* --- answers --- */

static int hear_push(struct hf__redis *conn, const struct hf__value *push,
                     struct hf__reply *out_reply)
{
    const struct hf__value *kind = hf__wire_at(push, 0);
    const struct hf__value *message = hf__wire_at(push, 2);

    if (hf__wire_is(kind, "subscribe"))
        hf__greet_listens(conn);
    if (!hf__wire_is(kind, "message") || !message || message->kind != HF__VALUE_TEXT)
        return 0;
    return conn->recipe->news(conn, message, out_reply) ? 1 : 0;
}

/* Which script is it that the server does not know? All are loaded again. */
static void load_again(struct hf__redis *conn, uint64_t deadline_ns)
{
    for (uint32_t i = 0; conn->recipe->scripts[i]; i++) {
        if (hf__greet_load(conn, i, deadline_ns) < 0)
            return;
    }
}

static bool is_answer_to(enum hf__request_kind request, enum hf__reply_kind answer)
{
    if (answer == HF__REPLY_FAILED || answer == HF__REPLY_UNKNOWN || answer == HF__REPLY_GONE)
        return true;
    if (request == HF__REQUEST_BREAK)
        return answer == HF__REPLY_DONE || answer == HF__REPLY_REFUSED;
    if (request == HF__REQUEST_SURVEY || request == HF__REQUEST_ADMIT)
        return answer == HF__REPLY_DONE;
    return request != HF__REQUEST_RELEASE && answer != HF__REPLY_DONE;
}

/* The core trusts that an engine answers what was asked; a server need not be trusted. */
static void hear_answer(struct hf__redis *conn, const struct hf__ticket *ticket,
                        const struct hf__value *value, struct hf__reply *out_reply)
{
    conn->recipe->hear(conn, ticket, value, out_reply);
    if (is_answer_to(ticket->kind, out_reply->kind))
        return;
    hf__redis_reply(ticket, HF__REPLY_UNKNOWN, out_reply);
    hf__redis_protocol_error(conn, value, out_reply);
}

static int hear_one(struct hf__redis *conn, struct hf__asked *asked, const struct hf__value *value,
                    struct hf__reply *out_reply)
{
    bool wanted = !asked->abandoned && asked->answered < asked->count;

    if (value->kind == HF__VALUE_ERROR) {
        hf__redis_reply(&asked->tickets[0], HF__REPLY_FAILED, out_reply);
        hf__words_error(conn, value, out_reply);
        if (hf__wire_begins(value, "NOSCRIPT"))
            load_again(conn, asked->deadline_ns);
    } else {
        hear_answer(conn, &asked->tickets[0], value, out_reply);
    }
    hf__asked_free(conn, asked);
    return wanted ? 1 : 0;
}

/* One reply of a batch. */
static int hear_next(struct hf__redis *conn, struct hf__reply *out_reply)
{
    struct hf__asked *asked = conn->current;
    const struct hf__value *value = conn->current_value;
    uint32_t index = asked->answered++;

    if (value->kind == HF__VALUE_ERROR) {
        hf__redis_reply(&asked->tickets[index], HF__REPLY_FAILED, out_reply);
        hf__words_error(conn, value, out_reply);
    } else if (value->kind != HF__VALUE_ARRAY || value->count != asked->count) {
        hf__redis_reply(&asked->tickets[index], HF__REPLY_UNKNOWN, out_reply);
        hf__redis_protocol_error(conn, value, out_reply);
    } else {
        hear_answer(conn, &asked->tickets[index], conn->current_item, out_reply);
        conn->current_item += conn->current_item->span;
    }
    if (asked->answered < asked->count)
        return 1;
    if (value->kind == HF__VALUE_ERROR && hf__wire_begins(value, "NOSCRIPT"))
        load_again(conn, asked->deadline_ns);
    conn->current = NULL;
    hf__asked_free(conn, asked);
    return 1;
}

static int hear_many(struct hf__redis *conn, struct hf__asked *asked, const struct hf__value *value,
                     struct hf__reply *out_reply)
{
    if (asked->abandoned || asked->answered > 0) { /* those left were told that no answer came */
        hf__asked_free(conn, asked);
        return 0;
    }
    hf__list_remove(&asked->place);
    conn->current = asked;
    conn->current_value = value;
    conn->current_item = value + 1;
    return hear_next(conn, out_reply);
}

static int hear_step(struct hf__redis *conn, struct hf__asked *asked, const struct hf__value *value,
                     struct hf__reply *out_reply)
{
    struct hf__course *course = asked->course;
    int got = 0;

    hf__list_remove(&asked->place);
    if (value->kind == HF__VALUE_ERROR && hf__wire_begins(value, "NOSCRIPT"))
        load_again(conn, conn->now_ns + CONNECT_NS);
    /* Too late: it must not go on, though its last question was answered. */
    if (course && conn->now_ns >= course->deadline_ns)
        got = hf__course_expire(conn, conn->now_ns, out_reply);
    else if (course)
        got = conn->recipe->step(conn, course, asked, value, out_reply);
    hf__asked_free(conn, asked);
    return got;
}

static int hear(struct hf__redis *conn, const struct hf__value *value, uint64_t now_ns,
                struct hf__reply *out_reply)
{
    struct hf__asked *asked = HF__LIST_ENTRY(conn->asked.next, struct hf__asked, place);
    struct hf__reply refusal = { .kind = HF__REPLY_FAILED };
    int status;

    if (value->kind == HF__VALUE_PUSH)
        return hear_push(conn, value, out_reply);
    if (value->kind == HF__VALUE_ERROR && conn->sent_bytes == 0) { /* we are not even let in */
        hf__words_error(conn, value, &refusal);
        end(conn, refusal.status);
        return 0;
    }
    if (hf__list_empty(&conn->asked) || asked->from >= conn->sent_bytes) {
        end(conn,
            hf__error_set(conn->base.error, HF_EPROTOCOL, "the server answered what nobody asked"));
        return 0;
    }
    switch (asked->kind) {
    case HF__ASKED_GREETING:
    case HF__ASKED_LOAD:
        status = hf__greet_hear(conn, asked, value, now_ns);
        hf__asked_free(conn, asked);
        if (status < 0)
            end(conn, status);
        return 0;
    case HF__ASKED_ONE:
        return hear_one(conn, asked, value, out_reply);
    case HF__ASKED_MANY:
        return hear_many(conn, asked, value, out_reply);
    case HF__ASKED_STEP:
        return hear_step(conn, asked, value, out_reply);
    case HF__ASKED_SCAN:
    case HF__ASKED_PAGE:
        hf__list_remove(&asked->place);
        return hf__scan_hear(conn, asked, value, out_reply);
    }
    return 0;
}

/* 1 with a reply; 0: nothing more has come. */
static int hear_all(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    while (!conn->ending) {
        const struct hf__value *value;
        int got = hf__wire_in_next(&conn->in, &value, conn->base.error);

        if (got < 0) {
            end(conn, got);
            return 0;
        }
        if (got > 0 && hear(conn, value, now_ns, out_reply) > 0)
            return 1;
        if (got > 0)
            continue;
        if (receive_bytes(conn) == 0)
            return 0;
    }
    return 0;
}

static void go_on(struct hf__redis *conn, uint64_t now_ns)
{
    enum hf__stream_state before = conn->stream_state;
    int status = HF_OK;

    if (conn->stream_state == HF__STREAM_CONNECTING)
        conn->stream_state = hf__stream_advance(conn->stream, now_ns);
    if (conn->stream_state == HF__STREAM_DOWN) {
        end_with_stream(conn);
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
        end(conn, status);
    if (!conn->ending)
        send_bytes(conn);
}

static int advance_one(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    conn->now_ns = now_ns;
    if (now_ns >= conn->first_deadline_ns)
        conn->may_read = true; /* the answer may lie there, and only we come late */
    if (conn->current && conn->current->kind == HF__ASKED_MANY)
        return hear_next(conn, out_reply);
    if (conn->current && hf__scan_next(conn, out_reply) > 0)
        return 1;
    if (!conn->ending)
        go_on(conn, now_ns);
    if (!conn->ending && conn->stream_state == HF__STREAM_UP &&
        hear_all(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__asked_expire(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__course_expire(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__lookout_due(conn, now_ns, out_reply) > 0)
        return 1;
    if (!conn->ending && hf__buffer_count(&conn->out.buffer) > 0 &&
        conn->stream_state == HF__STREAM_UP)
        send_bytes(conn); /* what an answer made us ask */
    if (!conn->ending)
        return 0;
    if (flush_gathered(conn) < 0)
        conn->gathered_count = 0;
    if (hf__asked_end_next(conn, out_reply) > 0 || hf__course_end_next(conn, out_reply) > 0)
        return 1;
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
        end(apart, got);
    other = advance_one(apart, now_ns, out_reply);
    if (other != 0 && !conn->ending)
        hf__text_copy(conn->base.error, sizeof(conn->base.error), apart->base.error);
    if (other >= 0)
        return other;
    if (got < 0)
        return got;
    end(conn, other);
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
    conn->reads_left = READS_MAX;
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
};
