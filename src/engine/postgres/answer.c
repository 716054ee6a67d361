/* answer.c: whose is this answer, and what does it become?
 *
 * libpq hands out results in the order of the questions (errand.c); behind those of each comes the
 * sign that it is over. A batch is one result that becomes many replies, a list is one row at a
 * time, and messages come in between.
 *
 * What can go wrong: an error: sqlstate.c says what it means. The connection is cut: what has come
 * before is heard, and then it ends. A server that sends without end is left (inflow.c). */
#include <assert.h>
#include <string.h>

#include "engine/postgres/postgres.h"

#define LIST_ROWS_MAX 65536
#define NULLS_MAX     2 /* libpq ends the results of one question by NULL; two: nothing came */

void hf__postgres_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                        struct hf__reply *out_reply)
{
    *out_reply = (struct hf__reply){ .kind = kind, .ticket = *ticket, .ahead = HF__AHEAD_UNKNOWN };
}

void hf__postgres_end(struct hf__postgres *conn, int status)
{
    assert(status < 0);

    conn->ending = true;
    conn->end_status = status;
}

static struct hf__errand *oldest(const struct hf__postgres *conn)
{
    if (hf__list_empty(&conn->errands))
        return NULL;
    return HF__LIST_ENTRY(conn->errands.next, struct hf__errand, place);
}

static void end_by_nonsense(struct hf__postgres *conn)
{
    hf__postgres_end(conn,
                     hf__error_set(conn->base.error, HF_EPROTOCOL,
                                   "%s: the server answered what it never should", conn->peer));
}

/* A list must not be piled up in memory; this is to be said before its first row has come. */
void hf__answer_expect(struct hf__postgres *conn)
{
    struct hf__errand *errand = oldest(conn);

    if (!errand || errand->kind != HF__ERRAND_LIST || errand->by_rows)
        return;
    errand->by_rows = true;
    (void)PQsetSingleRowMode(conn->pg);
}

/* --- one answer --- */

int hf__answer_text(const PGresult *result, const char **out_text)
{
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1 ||
        PQnfields(result) != 1)
        return 0;
    *out_text = PQgetvalue(result, 0, 0);
    return 1;
}

static int hear_one(struct hf__postgres *conn, struct hf__errand *errand, const PGresult *result,
                    struct hf__reply *out_reply)
{
    const struct hf__ticket *ticket = &errand->tickets[0];
    bool wanted = !errand->abandoned && errand->answered < errand->count;
    const char *text;

    errand->answered = errand->count;
    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        hf__postgres_reply(ticket, HF__REPLY_FAILED, out_reply);
        out_reply->status = hf__sqlstate_judge(conn, result, &out_reply->kind);
    } else if (hf__answer_text(result, &text) > 0) {
        hf__queue_hear(conn, ticket, text, out_reply);
    } else {
        hf__postgres_reply(ticket, HF__REPLY_UNKNOWN, out_reply);
        end_by_nonsense(conn);
        out_reply->status = HF_EPROTOCOL;
    }
    return wanted ? 1 : 0;
}

/* One reply of a batch. */
static int next_of_batch(struct hf__postgres *conn, struct hf__errand *errand,
                         struct hf__reply *out_reply)
{
    const struct hf__ticket *ticket = &errand->tickets[errand->answered];
    int row = (int)errand->answered++;

    if (PQresultStatus(conn->current) == PGRES_FATAL_ERROR) {
        hf__postgres_reply(ticket, HF__REPLY_FAILED, out_reply);
        out_reply->status = hf__sqlstate_judge(conn, conn->current, &out_reply->kind);
    } else if (PQresultStatus(conn->current) == PGRES_TUPLES_OK &&
               PQntuples(conn->current) == (int)errand->count && PQnfields(conn->current) == 1) {
        hf__queue_hear(conn, ticket, PQgetvalue(conn->current, row, 0), out_reply);
        conn->idle_told_ns = errand->idle_ns;
        if (hf__postgres_is_advisory(conn))
            hf__heard_renewal(conn, out_reply);
    } else {
        hf__postgres_reply(ticket, HF__REPLY_UNKNOWN, out_reply);
        end_by_nonsense(conn);
        out_reply->status = HF_EPROTOCOL;
    }
    return 1;
}

static int next_of_list(struct hf__postgres *conn, struct hf__errand *errand,
                        struct hf__reply *out_reply)
{
    ExecStatusType got = PQresultStatus(conn->current);

    if (got != PGRES_FATAL_ERROR && got != PGRES_SINGLE_TUPLE && got != PGRES_TUPLES_OK) {
        end_by_nonsense(conn);
        return 0;
    }
    errand->is_heard = got != PGRES_SINGLE_TUPLE;
    if (got == PGRES_FATAL_ERROR) {
        hf__postgres_reply(&errand->tickets[0], HF__REPLY_FAILED, out_reply);
        out_reply->status = hf__sqlstate_judge(conn, conn->current, &out_reply->kind);
        out_reply->kind = HF__REPLY_FAILED;
        errand->answered = 1;
        return 1;
    }
    while (conn->current_row < PQntuples(conn->current)) {
        if (++errand->index > LIST_ROWS_MAX) {
            hf__postgres_reply(&errand->tickets[0], HF__REPLY_FAILED, out_reply);
            out_reply->status = hf__error_set(conn->base.error, HF_ELIMIT,
                                              "more than %d hold and wait there", LIST_ROWS_MAX);
            errand->answered = 1;
            return 1;
        }
        if (!hf__queue_entry(conn, conn->current, conn->current_row++))
            continue;
        hf__postgres_reply(&errand->tickets[0], HF__REPLY_ENTRY, out_reply);
        out_reply->entry = &conn->entry;
        return 1;
    }
    return 0;
}

static void drop_current(struct hf__postgres *conn)
{
    PQclear(conn->current);
    conn->current = NULL;
}

/* 1: of what is being handed out there was one more. */
static int next_of_current(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    struct hf__errand *errand = oldest(conn);

    assert(errand && conn->current);
    if (!errand->abandoned && errand->answered < errand->count) {
        if (errand->kind == HF__ERRAND_MANY)
            return next_of_batch(conn, errand, out_reply);
        if (next_of_list(conn, errand, out_reply) > 0)
            return 1;
    }
    drop_current(conn);
    return 0;
}

/* --- the stream of results --- */

/* The oldest is over. */
static int finish(struct hf__postgres *conn, struct hf__errand *errand, struct hf__reply *out_reply)
{
    bool lists =
        errand->kind == HF__ERRAND_LIST && !errand->abandoned && errand->answered < errand->count;
    bool welcomes = errand->kind == HF__ERRAND_WELCOME;
    int status = HF_OK;

    if (lists && !errand->is_heard) {
        end_by_nonsense(conn);
        return 0;
    }
    if (lists)
        hf__postgres_reply(&errand->tickets[0], HF__REPLY_DONE, out_reply);
    hf__errand_free(conn, errand);
    hf__answer_expect(conn);
    if (welcomes)
        status = hf__welcome_arrive(conn);
    if (status < 0 && !conn->ending)
        hf__postgres_end(conn, status);
    return lists ? 1 : 0;
}

/* Behind the one result that there is: the connection was cut, as libpq says, or it is nonsense. */
static void hear_more(struct hf__postgres *conn, const PGresult *result)
{
    enum hf__reply_kind kind;

    if (PQresultStatus(result) == PGRES_FATAL_ERROR)
        (void)hf__sqlstate_judge(conn, result, &kind);
    if (!conn->ending)
        end_by_nonsense(conn);
}

/* The result is taken over. */
static int hear(struct hf__postgres *conn, PGresult *result, struct hf__reply *out_reply)
{
    struct hf__errand *errand = oldest(conn);
    int got = 0;
    int status;

    hf__inflow_heard(conn);
    if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
        PQclear(result);
        return finish(conn, errand, out_reply);
    }
    switch (errand->kind) {
    case HF__ERRAND_WELCOME:
        status = hf__welcome_hear(conn, errand, result);
        if (status < 0 && !conn->ending)
            hf__postgres_end(conn, status);
        break;
    case HF__ERRAND_ONE:
        got = hear_one(conn, errand, result, out_reply);
        break;
    case HF__ERRAND_STEP:
        if (errand->is_heard)
            hear_more(conn, result);
        else
            hf__heard_step(conn, errand, result);
        errand->is_heard = true;
        break;
    case HF__ERRAND_MANY:
    case HF__ERRAND_LIST:
        conn->current = result;
        conn->current_row = 0;
        return next_of_current(conn, out_reply);
    }
    PQclear(result);
    return got;
}

static int hear_message(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    PGnotify *message = PQnotifies(conn->pg);
    int got = 0;

    if (message) {
        hf__inflow_heard(conn);
        got = -1;
        if (hf__postgres_is_advisory(conn))
            hf__heard_message(conn, message->extra);
        else if (hf__queue_news(message->extra, out_reply))
            got = 1;
    }
    PQfreemem(message);
    return got;
}

/* Whoever waits for this connection may find that another thread's step has looked already, before
 * anything was there: then it need not wait once more to read what woke it. */
static bool has_come(struct hf__postgres *conn)
{
    if (conn->looked_ns == conn->now_ns)
        return false;
    conn->looked_ns = conn->now_ns;
    return hf__inflow_waiting(conn) > 0;
}

/* 1: something may have come. */
static int receive(struct hf__postgres *conn)
{
    if (conn->is_cut || (!conn->may_read && !has_come(conn)))
        return 0;
    conn->may_read = false;
    conn->looked_ns = conn->now_ns;
    conn->is_cut = !hf__inflow_read(conn);
    return 1;
}

/* What libpq says last; what the server said is in its results, and was heard. */
static void end_cut(struct hf__postgres *conn)
{
    const char *said = PQerrorMessage(conn->pg);

    hf__postgres_end(conn, hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: %.*s", conn->peer,
                                         (int)strcspn(said, "\n"), said));
}

int hf__answer_next(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    int nulls = 0;

    while (!conn->ending) {
        int got = conn->current ? next_of_current(conn, out_reply) : hear_message(conn, out_reply);

        if (got > 0)
            return 1;
        if (got < 0 || conn->current)
            continue;
        if (oldest(conn) && nulls < NULLS_MAX && !PQisBusy(conn->pg)) {
            PGresult *result = PQgetResult(conn->pg);

            nulls = result ? 0 : nulls + 1;
            if (result && hear(conn, result, out_reply) > 0)
                return 1;
            continue;
        }
        nulls = 0;
        if (receive(conn) > 0)
            continue;
        if (conn->is_cut && !conn->ending)
            end_cut(conn);
        return 0;
    }
    return 0;
}
