/* answers.c: whose is this answer, and what does it become?
 *
 * Answers come in the order of the questions (asked.c); each belongs to the oldest that has none,
 * and its recipe knows what it says. A batch is one answer that becomes many replies. Messages come
 * in between, and belong to nobody's question.
 *
 * What can go wrong: an answer that nobody asked for, or that is none to what was asked: the server
 * is not to be trusted: the reply is UNKNOWN, and the connection ends. A script that the server
 * does not know any more: all are loaded again, and the core asks again. */
#include "base/clock.h"
#include "engine/redis/raw.h"

#define LOAD_NS (5 * HF__NS_PER_S)

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
    /* Perhaps it answered another question: then what follows would be taken for the answer to the
     * next one. */
    hf__traffic_end(conn, HF_EPROTOCOL);
}

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
    if (hf__request_musters(request))
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
int hf__answers_next_of_batch(struct hf__redis *conn, struct hf__reply *out_reply)
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
    return hf__answers_next_of_batch(conn, out_reply);
}

static int hear_step(struct hf__redis *conn, struct hf__asked *asked, const struct hf__value *value,
                     struct hf__reply *out_reply)
{
    struct hf__course *course = asked->course;
    struct hf__reply unheard;
    int got = 0;

    if (value->kind == HF__VALUE_ERROR && hf__wire_begins(value, "NOSCRIPT"))
        load_again(conn, conn->now_ns + LOAD_NS);
    /* Too late: it must not go on, though its last question was answered; it may have to undo. */
    if (course && conn->now_ns >= course->deadline_ns) {
        got = hf__course_give_up(conn, course, out_reply);
        course = asked->course; /* NULL: it has ended */
        hf__list_remove(&asked->place);
        if (course && course->forsaken)
            (void)conn->recipe->step(conn, course, asked, value, &unheard);
    } else if (course) {
        hf__list_remove(&asked->place);
        got = conn->recipe->step(conn, course, asked, value, out_reply);
    }
    if (got > 0 && !is_answer_to(out_reply->ticket.kind, out_reply->kind))
        hf__redis_protocol_error(conn, value, out_reply);
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
        hf__traffic_end(conn, refusal.status);
        return 0;
    }
    if (hf__list_empty(&conn->asked) || asked->from >= conn->sent_bytes) {
        hf__traffic_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                            "the server answered what nobody asked"));
        return 0;
    }
    switch (asked->kind) {
    case HF__ASKED_GREETING:
    case HF__ASKED_LOAD:
        status = hf__greet_hear(conn, asked, value, now_ns);
        hf__asked_free(conn, asked);
        if (status < 0)
            hf__traffic_end(conn, status);
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
int hf__answers_next(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    while (!conn->ending) {
        const struct hf__value *value;
        int got = hf__wire_in_next(&conn->in, &value, conn->base.error);

        if (got < 0) {
            hf__traffic_end(conn, got);
            return 0;
        }
        if (got > 0 && hear(conn, value, now_ns, out_reply) > 0)
            return 1;
        if (got > 0)
            continue;
        if (hf__traffic_receive(conn) == 0)
            return 0;
    }
    return 0;
}
