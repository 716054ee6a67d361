/* course.c: how does a request go that takes several commands?
 *
 * Each command is an entry among what was asked, which points here; its answer decides what comes
 * next, and the last one is the answer to the request.
 *
 * What can go wrong: no answer in time, or a connection that ends: the request is answered here,
 * UNKNOWN if the first byte of its first command was sent; what it asked before finds nobody. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/raw.h"

#define WORDS_MAX 16

struct hf__course *hf__course_new(struct hf__redis *conn, const struct hf__request *request)
{
    struct hf__course *course = hf__env_new(conn->base.env, sizeof(*course));

    if (!course) {
        hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        return NULL;
    }
    hf__list_init(&course->place);
    course->ticket = request->ticket;
    course->deadline_ns = request->deadline_ns;
    course->from = HF__NEVER;
    course->ear = hf__raw_ear(conn, request);
    course->number = request->fence / 256;
    course->lease_ms = request->lease_ns / HF__NS_PER_MS;
    course->grace_ms = request->grace_ns / HF__NS_PER_MS;
    course->latest_us = hf__words_latest_us(conn, request);
    course->key_bytes = hf__raw_key(conn, request, course->key);
    hf__words_token(request->token, course->token);
    if (request->ticket.kind == HF__REQUEST_CLAIM)
        hf__words_who(conn, request->ticket.claim_id, request->purpose, course->who);
    hf__list_append(&conn->courses, &course->place);
    return course;
}

bool hf__course_waits(const struct hf__redis *conn, const struct hf__course *course)
{
    const struct hf__redis *where = conn->beside ? conn->beside : conn;

    HF__LIST_FOR(place, &where->courses)
    {
        const struct hf__course *other = HF__LIST_ENTRY(place, struct hf__course, place);

        if (other != course && other->ticket.claim_id == course->ticket.claim_id)
            return true;
    }
    /* Also what was answered UNKNOWN already: the server may not have come to it yet. */
    HF__LIST_FOR(under_way, &where->asked)
    {
        const struct hf__asked *asked = HF__LIST_ENTRY(under_way, struct hf__asked, place);

        if (asked->kind == HF__ASKED_STEP && asked->tickets[0].claim_id == course->ticket.claim_id)
            return true;
    }
    return false;
}

struct hf__asked *hf__course_ask(struct hf__redis *conn, struct hf__course *course, uint32_t step)
{
    struct hf__asked *asked = hf__asked_begin(conn, HF__ASKED_STEP, 0);

    if (!asked)
        return NULL;
    asked->step = step;
    asked->course = course;
    asked->tickets[0] = course->ticket;
    if (course->from == HF__NEVER)
        course->from = asked->from;
    return asked;
}

static size_t count_words(const char *const *words)
{
    size_t count = 0;

    while (words[count])
        count++;
    assert(count < WORDS_MAX);
    return count;
}

static void add_words(struct hf__redis *conn, const char *const *words)
{
    for (; *words; words++)
        hf__wire_out_text(&conn->out, *words);
}

int hf__course_send(struct hf__redis *conn, struct hf__course *course, uint32_t step,
                    const char *const *words)
{
    struct hf__asked *asked = hf__course_ask(conn, course, step);

    if (!asked)
        return HF_ENOMEM;
    hf__wire_out_begin(&conn->out, count_words(words));
    add_words(conn, words);
    return hf__asked_end(conn, asked, HF__NEVER);
}

int hf__course_run(struct hf__redis *conn, struct hf__course *course, uint32_t step,
                   uint32_t script, const char *const *words)
{
    struct hf__asked *asked = hf__course_ask(conn, course, step);

    if (!asked)
        return HF_ENOMEM;
    hf__raw_begin(conn, script, course->key, course->key_bytes, count_words(words));
    add_words(conn, words);
    return hf__asked_end(conn, asked, HF__NEVER);
}

void hf__course_end(struct hf__redis *conn, struct hf__course *course)
{
    HF__LIST_FOR(place, &conn->asked)
    {
        struct hf__asked *asked = HF__LIST_ENTRY(place, struct hf__asked, place);

        if (asked->kind == HF__ASKED_STEP && asked->course == course)
            asked->course = NULL;
    }
    hf__list_remove(&course->place);
    hf__env_free(conn->base.env, course);
}

static int answer(struct hf__redis *conn, struct hf__course *course, int status,
                  struct hf__reply *out_reply)
{
    bool sent = course->from < conn->sent_bytes;

    hf__redis_reply(&course->ticket, sent ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED, out_reply);
    out_reply->status = status;
    if (!course->forsaken)
        hf__course_end(conn, course);
    return 1;
}

int hf__course_fail(struct hf__redis *conn, struct hf__course *course,
                    const struct hf__value *value, struct hf__reply *out_reply)
{
    hf__redis_reply(&course->ticket, HF__REPLY_FAILED, out_reply);
    if (value->kind == HF__VALUE_ERROR)
        hf__words_error(conn, value, out_reply);
    else
        hf__redis_protocol_error(conn, value, out_reply);
    if (out_reply->kind != HF__REPLY_GONE)
        out_reply->kind = HF__REPLY_UNKNOWN;
    hf__course_end(conn, course);
    return 1;
}

int hf__course_refused(struct hf__redis *conn, struct hf__course *course, bool takes_nothing,
                       const struct hf__value *error, struct hf__reply *out_reply)
{
    int got = hf__course_fail(conn, course, error, out_reply);

    if (takes_nothing)
        out_reply->kind = HF__REPLY_FAILED;
    return got;
}

int hf__course_give_up(struct hf__redis *conn, struct hf__course *course,
                       struct hf__reply *out_reply)
{
    hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: no answer in time",
                  hf__stream_peer(conn->stream));
    if (course->from != HF__NEVER && course->from >= conn->sent_bytes) {
        conn->ending = true; /* what is written must not be sent any more */
        conn->end_status = HF_EUNREACHABLE;
        return 0;
    }
    if (course->from != HF__NEVER && conn->recipe->forsake && conn->recipe->forsake(conn, course)) {
        course->forsaken = true;
        course->deadline_ns = HF__NEVER;
    }
    return answer(conn, course, HF_EUNREACHABLE, out_reply);
}

int hf__course_expire(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    HF__LIST_FOR(place, &conn->courses)
    {
        struct hf__course *course = HF__LIST_ENTRY(place, struct hf__course, place);

        if (now_ns >= course->deadline_ns)
            return hf__course_give_up(conn, course, out_reply);
    }
    return 0;
}

int hf__course_end_next(struct hf__redis *conn, struct hf__reply *out_reply)
{
    while (!hf__list_empty(&conn->courses) &&
           HF__LIST_ENTRY(conn->courses.next, struct hf__course, place)->forsaken)
        hf__course_end(conn, HF__LIST_ENTRY(conn->courses.next, struct hf__course, place));
    if (hf__list_empty(&conn->courses))
        return 0;
    return answer(conn, HF__LIST_ENTRY(conn->courses.next, struct hf__course, place),
                  conn->end_status, out_reply);
}

uint64_t hf__course_first(const struct hf__redis *conn)
{
    uint64_t first_ns = HF__NEVER;

    HF__LIST_FOR(place, &conn->courses)
    {
        uint64_t at_ns = HF__LIST_ENTRY(place, struct hf__course, place)->deadline_ns;

        first_ns = at_ns < first_ns ? at_ns : first_ns;
    }
    return first_ns;
}

void hf__course_done(struct hf__redis *conn)
{
    HF__LIST_FOR(place, &conn->courses)
    {
        hf__list_remove(place);
        hf__env_free(conn->base.env, HF__LIST_ENTRY(place, struct hf__course, place));
    }
}
