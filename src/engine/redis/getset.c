/* getset.c: the value is the time at which it ends; whoever finds it past takes over by GETSET.
 *
 * The happy path: SETNX of the time; or GET of one that is past, and GETSET: if it returns what GET
 * saw, it is ours. A script then notes down whose it is, if the value is still ours. What is kept
 * is given later times; RELEASE deletes the key if it has our value.
 *
 * What can go wrong, and is the reason to use another recipe:
 * - the times are the clients' own: where their clocks are apart, one takes over what another still
 *   holds;
 * - whoever comes second with GETSET overwrites the time of the first: it puts that back, but the
 *   first may have looked meanwhile, and think that it has lost;
 * - a value says nothing of its owner: where an answer was lost, nobody knows whose it is until it
 *   is past. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/raw.h"
#include "scripts_getset.h"

enum { LOOK = HF__RAW_MORE, RESTORE };

static const char *const scripts[] = {
    [HF__RAW_CLAIM] = getset_claim,
    [HF__RAW_RENEW] = getset_renew,
    [HF__RAW_RELEASE] = getset_release,
    [HF__RAW_LIST] = set_list,
    [LOOK] = getset_look,
    [RESTORE] = getset_restore,
    NULL,
};

enum step { STEP_SETNX, STEP_GET, STEP_GETSET, STEP_NOTE, STEP_LOOK, STEP_RESTORE, STEP_RELEASE };

/* By our wall clock, as it was when the client was opened. */
static uint64_t wall_ms(const struct hf__redis *conn, uint64_t at_ns)
{
    return (uint64_t)(conn->wall_offset_us + (int64_t)(at_ns / HF__NS_PER_US)) / 1000;
}

/* --- asking --- */

static int start_claim(struct hf__redis *conn, const struct hf__request *request)
{
    struct hf__course *course = hf__course_new(conn, request);
    const char *words[] = { "SETNX", NULL, NULL, NULL };
    const char *get[] = { "GET", NULL, NULL };
    uint64_t expiry_ms;

    if (!course)
        return HF_ENOMEM;
    expiry_ms = wall_ms(conn, request->ticket.sent_ns) + course->lease_ms;
    (void)snprintf(course->value, sizeof(course->value), "%llu", (unsigned long long)expiry_ms);
    words[1] = get[1] = course->key;
    words[2] = course->value;
    /* Whoever is refused wants to know until when: both questions travel together. */
    if (hf__course_send(conn, course, STEP_SETNX, words) < 0 ||
        hf__course_send(conn, course, STEP_GET, get) < 0) {
        hf__course_end(conn, course);
        return HF_ENOMEM;
    }
    return 1;
}

static int start(struct hf__redis *conn, const struct hf__request *request)
{
    int status = hf__raw_check(conn, request);

    if (status < 0)
        return status;
    if (request->ticket.kind == HF__REQUEST_BREAK)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "getset has no fences: only its holder can end it");
    if (request->ticket.kind == HF__REQUEST_CLAIM)
        return start_claim(conn, request);
    if (request->ticket.kind == HF__REQUEST_RELEASE)
        return hf__course_new(conn, request) ? 1 : HF_ENOMEM;
    return 0;
}

/* A release goes when the claim that it undoes has come to its end. */
static int send_release(struct hf__redis *conn, struct hf__course *course)
{
    char leaver[HF__RAW_LEAVER_BYTES];
    const char *words[] = { course->token, leaver, NULL };

    (void)hf__raw_leaver(conn, course->ticket.claim_id, leaver);
    return hf__course_run(conn, course, STEP_RELEASE, HF__RAW_RELEASE, words);
}

static int proceed(struct hf__redis *conn)
{
    HF__LIST_FOR(place, &conn->courses)
    {
        struct hf__course *course = HF__LIST_ENTRY(place, struct hf__course, place);

        if (course->from == HF__NEVER && !hf__course_waits(conn, course) &&
            send_release(conn, course) < 0)
            return HF_ENOMEM;
    }
    return HF_OK;
}

static void ask_many(struct hf__redis *conn)
{
    hf__raw_begin_many(conn, 4);
    for (uint32_t i = 0; i < conn->gathered_count; i++) {
        const struct hf__gathered *one = &conn->gathered[i];

        hf__wire_out_word(&conn->out, one->token, 2 * HF__TOKEN_BYTES);
        hf__wire_out_number(&conn->out, one->lease_ms);
        hf__wire_out_text(&conn->out, one->shorten ? "1" : "0");
        hf__wire_out_number(&conn->out, wall_ms(conn, one->ticket.sent_ns) + one->lease_ms);
    }
}

/* --- the steps of a claim --- */

static int send_note(struct hf__redis *conn, struct hf__course *course)
{
    char lease[24];
    char latest[24];
    const char *words[] = { course->token, lease, "0", latest, course->who, course->value, NULL };

    (void)snprintf(lease, sizeof(lease), "%llu", (unsigned long long)course->lease_ms);
    (void)snprintf(latest, sizeof(latest), "%llu", (unsigned long long)course->latest_us);
    return hf__course_run(conn, course, STEP_NOTE, HF__RAW_CLAIM, words);
}

static int send_look(struct hf__redis *conn, struct hf__course *course)
{
    char lease[24];
    const char *words[] = { course->token, lease, course->ear, course->who, course->value, NULL };

    (void)snprintf(lease, sizeof(lease), "%llu", (unsigned long long)course->lease_ms);
    return hf__course_run(conn, course, STEP_LOOK, LOOK, words);
}

/* Past, by our clock: a time that is no number is not a time, and never past. */
static int hear_get(struct hf__redis *conn, struct hf__course *course,
                    const struct hf__value *value)
{
    const char *take[] = { "GETSET", course->key, course->value, NULL };
    uint64_t end_ms;

    if (value->kind != HF__VALUE_TEXT || value->bytes >= sizeof(course->found) ||
        !hf__text_to_u64(value->text, value->bytes, &end_ms) ||
        end_ms >= wall_ms(conn, conn->now_ns))
        return send_look(conn, course);
    memcpy(course->found, value->text, value->bytes);
    course->found[value->bytes] = '\0';
    course->takes = true;
    return hf__course_send(conn, course, STEP_GETSET, take);
}

static int send_restore(struct hf__redis *conn, struct hf__course *course, const char *text,
                        size_t bytes)
{
    struct hf__asked *asked = hf__course_ask(conn, course, STEP_RESTORE);

    if (!asked)
        return HF_ENOMEM;
    hf__raw_begin(conn, RESTORE, course->key, course->key_bytes, 4);
    hf__wire_out_text(&conn->out, course->value);
    hf__wire_out_word(&conn->out, text, bytes);
    hf__wire_out_number(&conn->out, course->lease_ms);
    hf__wire_out_text(&conn->out, course->token);
    return hf__asked_end(conn, asked, HF__NEVER);
}

/* What GET saw, or nothing at all: nobody came before us. */
static int hear_getset(struct hf__redis *conn, struct hf__course *course,
                       const struct hf__value *value)
{
    if (value->kind == HF__VALUE_NIL || hf__wire_is(value, course->found))
        return send_note(conn, course);
    return send_restore(conn, course, value->text, value->bytes);
}

/* What we may have set names no owner: nobody else could tell that it is ours to remove. Whose it
 * was before is in the answer to GETSET, which must be waited for: one who came first would lose
 * its lock if ours were only deleted. */
static bool forsake(struct hf__redis *conn, struct hf__course *course)
{
    if (course->ticket.kind == HF__REQUEST_CLAIM && !course->takes)
        (void)send_restore(conn, course, "", 0);
    return course->takes;
}

/* Nobody waits for it any more. */
static int undo(struct hf__redis *conn, struct hf__course *course, const struct hf__value *value)
{
    bool second = value->kind == HF__VALUE_TEXT && !hf__wire_is(value, course->found);

    if (value->kind == HF__VALUE_TEXT || value->kind == HF__VALUE_NIL)
        (void)send_restore(conn, course, second ? value->text : "", second ? value->bytes : 0);
    hf__course_end(conn, course);
    return 0;
}

static int step(struct hf__redis *conn, struct hf__course *course, const struct hf__asked *asked,
                const struct hf__value *value, struct hf__reply *out_reply)
{
    int status = HF_OK;

    if (asked->step == STEP_GETSET)
        course->takes = false;
    if (course->forsaken)
        return asked->step == STEP_GETSET ? undo(conn, course, value) : 0;
    if (value->kind == HF__VALUE_ERROR)
        return hf__course_refused(conn, course, asked->step == STEP_SETNX, value, out_reply);
    switch ((enum step)asked->step) {
    case STEP_SETNX:
        if (!hf__raw_is_flag(value))
            return hf__course_fail(conn, course, value, out_reply);
        course->won = value->number == 1;
        status = course->won ? send_note(conn, course) : HF_OK;
        break;
    case STEP_GET:
        if (value->kind != HF__VALUE_TEXT && value->kind != HF__VALUE_NIL)
            return hf__course_fail(conn, course, value, out_reply);
        status = course->won ? HF_OK : hear_get(conn, course, value);
        break;
    case STEP_GETSET:
        if (value->kind != HF__VALUE_TEXT && value->kind != HF__VALUE_NIL)
            return hf__course_fail(conn, course, value, out_reply);
        status = hear_getset(conn, course, value);
        break;
    case STEP_NOTE:
    case STEP_LOOK:
    case STEP_RESTORE:
    case STEP_RELEASE:
        hf__raw_hear(conn, &course->ticket, value, out_reply);
        /* Whoever came second has nothing, whatever the server says. */
        if (asked->step == STEP_RESTORE && out_reply->kind == HF__REPLY_GRANTED)
            return hf__course_fail(conn, course, value, out_reply);
        hf__course_end(conn, course);
        return 1;
    }
    return status < 0 ? hf__course_fail(conn, course, value, out_reply) : 0;
}

const struct hf__redis_recipe hf__redis_getset = {
    .recipe = {
        .name = "getset",
        .url_forms = "redis://[user[:password]@]host[:port][/database]?recipe=getset rediss://...",
        .summary = "SETNX of the time at which it ends, GETSET to take over one that is past: for "
                   "fleets that use it already.",
        .caveat = "The times are the clients' own: where their clocks are apart, two hold it at "
                  "once. Its values name no owner: there are no fences, so nobody can break it; "
                  "where an answer was lost, it is free only when its time is past; and a program "
                  "that gives it back late with a plain DEL deletes its successor's. Not in order "
                  "of arrival; what another program holds is noticed by asking again. Use `set`.",
        .schema = "",
        .pattern = HF__PATTERN_LEASE,
        .promises = HF_PROMISE_DURABLE | HF_PROMISE_CRASH,
        .is_legacy = true,
        .leases = true,
    },
    .default_prefix = "",
    .raw_names = true,
    .scripts = scripts,
    .by_name = 1u << HF__RAW_CLAIM | 1u << HF__RAW_RELEASE | 1u << LOOK | 1u << RESTORE,
    .list_script = HF__RAW_LIST,
    .endings = hf__raw_endings,
    .start = start,
    .step = step,
    .forsake = forsake,
    .proceed = proceed,
    .ask_many = ask_many,
    .hear = hf__raw_hear,
    .news = hf__raw_news,
};
