/* setnx.c: SETNX, then EXPIRE: the oldest lock on Redis, for fleets that still use it.
 *
 * The happy path: SETNX takes the key; when that is answered, PEXPIRE gives it its time limit and a
 * script its number, if the value is still ours. RELEASE, on a connection of its own and one at a
 * time: WATCH and GET, and if the value is ours MULTI, DEL, EXEC. EXEC drops every WATCH of its
 * connection, so two releases under way on one could delete what one of them saw too early.
 *
 * What can go wrong, and is the reason to use another recipe:
 * - whoever dies between the two commands leaves a lock without a time limit. Who finds one with
 *   the same value twice, 5 s apart, gives it one. Its holder may live: then it was too slow;
 * - a SETNX that the server executes after we gave it up leaves the same.
 * EXEC that finds the key changed (a renewal, perhaps) starts again. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/raw.h"
#include "scripts_setnx.h"

#define REPAIR_NS     (5 * HF__NS_PER_S)
#define SIGHTINGS_MAX 64

enum { BREAK = HF__RAW_MORE, LOOK, REPAIR };

static const char *const scripts[] = {
    [HF__RAW_CLAIM] = setnx_claim,
    [HF__RAW_RENEW] = set_renew,
    [HF__RAW_RELEASE] = setnx_left,
    [HF__RAW_LIST] = set_list,
    [BREAK] = set_break,
    [LOOK] = setnx_look,
    [REPAIR] = setnx_repair,
    NULL,
};

enum step {
    STEP_SETNX,
    STEP_PEXPIRE,
    STEP_NUMBER,
    STEP_LOOK,
    STEP_REPAIR,
    STEP_WATCH,
    STEP_GET,
    STEP_MULTI, /* and what is queued behind it */
    STEP_EXEC,
    STEP_LEFT,
};

/* A lock without a time limit, as it was when we met it first. */
struct hf__sighting {
    uint64_t key_hash; /* 0: free */
    uint64_t value_hash;
    uint64_t since_ns;
};

/* --- locks without a time limit --- */

static struct hf__sighting *place_of(struct hf__redis *conn, uint64_t key_hash)
{
    struct hf__sighting *oldest;

    if (!conn->sightings)
        conn->sightings = hf__env_new(conn->base.env, SIGHTINGS_MAX * sizeof(*conn->sightings));
    if (!conn->sightings)
        return NULL;
    oldest = conn->sightings;
    for (size_t i = 0; i < SIGHTINGS_MAX; i++) {
        struct hf__sighting *place = &conn->sightings[i];

        if (place->key_hash == key_hash)
            return place;
        if (place->since_ns < oldest->since_ns)
            oldest = place;
    }
    return oldest;
}

/* True: it has been so for long enough. */
static bool is_forsaken(struct hf__redis *conn, const struct hf__course *course,
                        const struct hf__value *value)
{
    uint64_t key_hash = hf__name_hash(course->key, course->key_bytes, 0) | 1;
    uint64_t value_hash = hf__name_hash(value->text, value->bytes, 0);
    struct hf__sighting *place = place_of(conn, key_hash);

    if (!place)
        return false;
    if (place->key_hash != key_hash || place->value_hash != value_hash) {
        *place = (struct hf__sighting){ key_hash, value_hash, conn->now_ns };
        return false;
    }
    return conn->now_ns - place->since_ns >= REPAIR_NS;
}

static void forget_sighting(struct hf__redis *conn, const struct hf__course *course)
{
    uint64_t key_hash = hf__name_hash(course->key, course->key_bytes, 0) | 1;
    struct hf__sighting *place = conn->sightings ? place_of(conn, key_hash) : NULL;

    if (place && place->key_hash == key_hash)
        *place = (struct hf__sighting){ 0 };
}

/* Nobody waits for the answer: the next look will see. */
static int send_repair(struct hf__redis *conn, struct hf__course *course,
                       const struct hf__value *value)
{
    struct hf__asked *asked = hf__course_ask(conn, course, STEP_REPAIR);

    if (!asked)
        return HF_ENOMEM;
    hf__raw_begin(conn, REPAIR, course->key, course->key_bytes, 2);
    hf__wire_out_word(&conn->out, value->text, value->bytes);
    hf__wire_out_number(&conn->out, course->lease_ms);
    return hf__asked_end(conn, asked, HF__NEVER);
}

/* --- taking it --- */

static int send_limit(struct hf__redis *conn, struct hf__course *course)
{
    char lease[24];
    char grace[24];
    char latest[24];
    const char *expire[] = { "PEXPIRE", course->key, lease, NULL };
    const char *number[] = { course->token, lease, grace, latest, course->who, NULL };
    int status;

    (void)snprintf(lease, sizeof(lease), "%llu", (unsigned long long)course->lease_ms);
    (void)snprintf(grace, sizeof(grace), "%llu", (unsigned long long)course->grace_ms);
    (void)snprintf(latest, sizeof(latest), "%llu", (unsigned long long)course->latest_us);
    status = hf__course_send(conn, course, STEP_PEXPIRE, expire);
    return status < 0 ? status : hf__course_run(conn, course, STEP_NUMBER, HF__RAW_CLAIM, number);
}

static int send_look(struct hf__redis *conn, struct hf__course *course)
{
    char lease[24];
    const char *words[] = { course->token, lease, course->ear, course->who, NULL };

    (void)snprintf(lease, sizeof(lease), "%llu", (unsigned long long)course->lease_ms);
    return hf__course_run(conn, course, STEP_LOOK, LOOK, words);
}

static int start_claim(struct hf__redis *conn, const struct hf__request *request)
{
    struct hf__course *course = hf__course_new(conn, request);
    const char *words[] = { "SETNX", NULL, NULL, NULL };

    if (!course)
        return HF_ENOMEM;
    words[1] = course->key;
    words[2] = course->token;
    /* Whoever is refused wants to know by whom: both questions travel together. */
    if (hf__course_send(conn, course, STEP_SETNX, words) < 0 || send_look(conn, course) < 0) {
        hf__course_end(conn, course);
        return HF_ENOMEM;
    }
    return 1;
}

/* "refused n who value left_ms" */
static int hear_look(struct hf__redis *conn, struct hf__course *course,
                     const struct hf__value *value, struct hf__reply *out_reply)
{
    const struct hf__value *held = hf__wire_at(value, 3);
    int64_t left_ms = 0;

    hf__raw_hear(conn, &course->ticket, value, out_reply);
    if (out_reply->kind != HF__REPLY_REFUSED || !held || held->kind != HF__VALUE_TEXT ||
        !hf__wire_number(hf__wire_at(value, 4), &left_ms))
        return hf__course_fail(conn, course, value, out_reply);
    if (held->bytes == 0 || left_ms != -1 ||
        (is_forsaken(conn, course, held) && send_repair(conn, course, held) == HF_OK))
        forget_sighting(conn, course);
    hf__course_end(conn, course);
    return 1;
}

/* --- giving it back --- */

/* The first that may go; NULL: none, or one is under way. */
static struct hf__course *next_release(struct hf__redis *conn)
{
    struct hf__course *next = NULL;

    HF__LIST_FOR(place, &conn->courses)
    {
        struct hf__course *course = HF__LIST_ENTRY(place, struct hf__course, place);

        if (course->from != HF__NEVER)
            return NULL;
        if (!next && !hf__course_waits(conn, course))
            next = course;
    }
    return next;
}

static int proceed(struct hf__redis *conn)
{
    struct hf__course *course = conn->beside ? next_release(conn) : NULL;
    const char *watch[] = { "WATCH", NULL, NULL };
    const char *get[] = { "GET", NULL, NULL };
    int status;

    if (!course)
        return HF_OK;
    watch[1] = get[1] = course->key;
    status = hf__course_send(conn, course, STEP_WATCH, watch);
    return status < 0 ? status : hf__course_send(conn, course, STEP_GET, get);
}

static int send_left(struct hf__redis *conn, struct hf__course *course, enum step step)
{
    char number[24];
    char leaver[HF__RAW_LEAVER_BYTES];
    const char *words[] = { course->token, number, leaver, NULL };

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)course->number);
    (void)hf__raw_leaver(conn, course->ticket.claim_id, leaver);
    return hf__course_run(conn, course, step, HF__RAW_RELEASE, words);
}

static int send_delete(struct hf__redis *conn, struct hf__course *course)
{
    const char *multi[] = { "MULTI", NULL };
    const char *delete[] = { "DEL", course->key, NULL };
    const char *exec[] = { "EXEC", NULL };
    int status = hf__course_send(conn, course, STEP_MULTI, multi);

    if (status == HF_OK)
        status = hf__course_send(conn, course, STEP_MULTI, delete);
    if (status == HF_OK)
        status = send_left(conn, course, STEP_MULTI);
    return status < 0 ? status : hf__course_send(conn, course, STEP_EXEC, exec);
}

static int hear_get(struct hf__redis *conn, struct hf__course *course,
                    const struct hf__value *value)
{
    const char *unwatch[] = { "UNWATCH", NULL };
    char broken[2 * HF__TOKEN_BYTES + 2];
    int status;

    (void)snprintf(broken, sizeof(broken), "!%s", course->token);
    course->released = hf__wire_is(value, course->token);
    if (course->released || hf__wire_is(value, broken))
        return send_delete(conn, course);
    status = hf__course_send(conn, course, STEP_MULTI, unwatch);
    return status < 0 ? status : send_left(conn, course, STEP_LEFT);
}

static int hear_exec(struct hf__redis *conn, struct hf__course *course,
                     const struct hf__value *value, struct hf__reply *out_reply)
{
    int64_t deleted = 0;
    int64_t known = 1; /* a script that fails says nothing, and others will be woken by time */

    if (value->kind == HF__VALUE_NIL) { /* it changed while we looked */
        course->from = HF__NEVER;
        return proceed(conn) < 0 ? hf__course_fail(conn, course, value, out_reply) : 0;
    }
    if (value->kind != HF__VALUE_ARRAY || !hf__wire_number(hf__wire_at(value, 0), &deleted))
        return hf__course_fail(conn, course, value, out_reply);
    (void)hf__wire_number(hf__wire_at(value, 1), &known);
    hf__redis_reply(&course->ticket, HF__REPLY_GONE, out_reply);
    out_reply->released = course->released && deleted > 0 && known > 0;
    hf__course_end(conn, course);
    return 1;
}

/* --- the steps --- */

static int start(struct hf__redis *conn, const struct hf__request *request)
{
    int status = hf__raw_check(conn, request);

    if (status < 0)
        return status;
    if (request->ticket.kind == HF__REQUEST_CLAIM)
        return start_claim(conn, request);
    if (request->ticket.kind == HF__REQUEST_RELEASE)
        return hf__course_new(conn, request) ? 1 : HF_ENOMEM;
    return 0;
}

static int ask(struct hf__redis *conn, const struct hf__request *request)
{
    assert(request->ticket.kind == HF__REQUEST_BREAK);

    hf__raw_ask_break(conn, BREAK, request);
    return HF_OK;
}

static int step(struct hf__redis *conn, struct hf__course *course, const struct hf__asked *asked,
                const struct hf__value *value, struct hf__reply *out_reply)
{
    int status = HF_OK;

    if (value->kind == HF__VALUE_ERROR)
        return hf__course_refused(conn, course, asked->step == STEP_SETNX, value, out_reply);
    switch ((enum step)asked->step) {
    case STEP_SETNX:
        if (!hf__raw_is_flag(value))
            return hf__course_fail(conn, course, value, out_reply);
        course->won = value->number == 1;
        status = course->won ? send_limit(conn, course) : HF_OK;
        break;
    case STEP_LOOK:
        if (course->won)
            break;
        if (value->kind != HF__VALUE_ARRAY || !hf__wire_is(hf__wire_at(value, 0), "ours"))
            return hear_look(conn, course, value, out_reply);
        status = send_limit(conn, course);
        break;
    case STEP_PEXPIRE: /* 0: it is gone already, as the next answer will say */
        if (!hf__raw_is_flag(value))
            return hf__course_fail(conn, course, value, out_reply);
        break;
    case STEP_WATCH: /* without it EXEC would delete what came after we looked */
        if (!hf__wire_is(value, "OK"))
            return hf__course_fail(conn, course, value, out_reply);
        break;
    case STEP_GET:
        if (value->kind != HF__VALUE_TEXT && value->kind != HF__VALUE_NIL)
            return hf__course_fail(conn, course, value, out_reply);
        status = hear_get(conn, course, value);
        break;
    case STEP_EXEC:
        return hear_exec(conn, course, value, out_reply);
    case STEP_NUMBER:
    case STEP_LEFT:
        hf__raw_hear(conn, &course->ticket, value, out_reply);
        out_reply->released = false; /* it was not there */
        hf__course_end(conn, course);
        return 1;
    case STEP_REPAIR:
    case STEP_MULTI:
        break;
    }
    return status < 0 ? hf__course_fail(conn, course, value, out_reply) : 0;
}

const struct hf__redis_recipe hf__redis_setnx = {
    .recipe = {
        .name = "setnx",
        .url_forms = "redis://[user[:password]@]host[:port][/database]?recipe=setnx rediss://...",
        .summary = "SETNX, then EXPIRE, under prefix and name as they are: for fleets that use it "
                   "already.",
        .caveat = "Whoever dies between the two commands leaves a lock without a time limit, which "
                  "only another waiter mends, after 5 s; whoever is slower than that between them, "
                  "or holds without a limit on purpose, is taken for dead; and a program that "
                  "gives it back late with a plain DEL deletes its successor's. Not in order of "
                  "arrival; what another program holds is noticed by asking again. Use `set`.",
        .schema = "",
        .pattern = HF__PATTERN_LEASE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_DURABLE,
        .is_legacy = true,
        .leases = true,
    },
    .default_prefix = "",
    .raw_names = true,
    .scripts = scripts,
    .by_name = 1u << HF__RAW_CLAIM | 1u << HF__RAW_RELEASE | 1u << LOOK | 1u << REPAIR,
    .list_script = HF__RAW_LIST,
    .endings = hf__raw_endings,
    .releases_apart = true,
    .start = start,
    .step = step,
    .proceed = proceed,
    .ask = ask,
    .ask_many = hf__raw_ask_many,
    .hear = hf__raw_hear,
    .news = hf__raw_news,
};
