/* inbox.c: whose is this answer, and what does it become?
 *
 * Answers come in the order of the questions (parcel.c). One row with a text, or the number of rows
 * that were changed, is the answer to one request; a text of many lines is the answer to a batch
 * and becomes many replies; a list is one row at a time.
 *
 * What can go wrong: an error: failure.c says what it means. A transaction that was left open, by a
 * statement that was killed: what was answered is not committed, so it is UNKNOWN, and the
 * connection ends. The connection is cut: what has come before is heard, and then it ends. */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "engine/mysql/mysql.h"
#include "engine/verdict.h"

void hf__mysql_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                     struct hf__reply *out_reply)
{
    *out_reply = (struct hf__reply){ .kind = kind, .ticket = *ticket, .ahead = HF__AHEAD_UNKNOWN };
}

void hf__mysql_end(struct hf__mysql *conn, int status)
{
    assert(status < 0);

    conn->ending = true;
    conn->end_status = status;
}

void hf__mysql_end_by_nonsense(struct hf__mysql *conn)
{
    hf__mysql_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                      "%s: the server answered what it never should",
                                      hf__cable_peer(&conn->cable)));
}

/* --- one answer --- */

static void forget_said(struct hf__mysql *conn)
{
    hf__buffer_consume(&conn->said, hf__buffer_count(&conn->said));
    conn->said_at = 0;
}

/* The one text of the one row: a second one is nonsense. */
static void note_row(struct hf__mysql *conn, struct hf__result *result)
{
    size_t bytes;
    const uint8_t *text = hf__packet_string(&result->row, &bytes);

    if (result->columns != 1 || !text || result->row.at != result->row.end ||
        hf__buffer_count(&conn->said) > 0 || memchr(text, 0, bytes) ||
        hf__buffer_append(&conn->said, text, bytes) < 0 ||
        hf__buffer_append(&conn->said, "", 1) < 0)
        hf__mysql_end_by_nonsense(conn);
}

static void send_fallback(struct hf__mysql *conn, struct hf__parcel *parcel)
{
    hf__list_remove(&parcel->place);
    parcel->is_brief = false;
    hf__list_append(&conn->parcels, &parcel->place);
    if (hf__buffer_append(&conn->cable.output, parcel->fallback, parcel->fallback_bytes) < 0)
        hf__mysql_end(conn,
                      hf__error_set(conn->base.error, HF_ELIMIT, "%s: too much waits to be sent",
                                    hf__cable_peer(&conn->cable)));
}

/* An UPDATE has taken it, or given it back, or found that it is not as simple as that. 0: the last
 * of these, and the parcel is on its way again. */
static int hear_brief(struct hf__mysql *conn, struct hf__parcel *parcel,
                      const struct hf__result *result, struct hf__reply *out_reply)
{
    bool gives = parcel->tickets[0].kind == HF__REQUEST_RELEASE;
    bool has_row = hf__buffer_count(&conn->said) > 0;

    if (result->changed == 0 && !has_row) {
        conn->is_crowded[gives][parcel->slot] = true;
        if (parcel->abandoned || parcel->answered > 0)
            hf__parcel_free(conn, parcel);
        else
            send_fallback(conn, parcel);
        return 0;
    }
    if (has_row || result->changed != 1 || !(gives || hf__verdict_is_fence(result->number))) {
        hf__mysql_end_by_nonsense(conn);
        return 1;
    }
    hf__mysql_reply(&parcel->tickets[0], gives ? HF__REPLY_GONE : HF__REPLY_GRANTED, out_reply);
    out_reply->released = gives;
    out_reply->fence = gives ? 0 : result->number;
    return 1;
}

/* What the next one with this name had better try. */
static void note_crowd(struct hf__mysql *conn, const struct hf__parcel *parcel,
                       const struct hf__reply *reply)
{
    const char *said = hf__buffer_front(&conn->said);
    size_t bytes = strlen(said);

    if (reply->ticket.kind == HF__REQUEST_CLAIM)
        conn->is_crowded[0][parcel->slot] = reply->kind != HF__REPLY_GRANTED || reply->others_wait;
    else if (reply->ticket.kind == HF__REQUEST_RELEASE && bytes > 0)
        conn->is_crowded[1][parcel->slot] = said[bytes - 1] != '0';
}

static int hear_one(struct hf__mysql *conn, struct hf__parcel *parcel, struct hf__result *result,
                    struct hf__reply *out_reply)
{
    const struct hf__ticket ticket = parcel->tickets[0];
    bool wanted = !parcel->abandoned && parcel->answered < parcel->count;

    if (result->kind == HF__RESULT_ROW)
        note_row(conn, result);
    if (!result->is_last || conn->ending)
        return 0;
    hf__mysql_reply(&ticket, HF__REPLY_UNKNOWN, out_reply);
    out_reply->status = HF_EPROTOCOL;
    if (result->kind == HF__RESULT_ERROR) {
        out_reply->status =
            hf__failure_of(ticket.kind, hf__failure_judge(conn, result, &out_reply->kind));
    } else if (result->in_transaction) {
        out_reply->status = hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                          "%s: a transaction was left open by a killed statement",
                                          hf__cable_peer(&conn->cable));
        hf__mysql_end(conn, HF_EUNREACHABLE);
    } else if (parcel->is_brief) {
        if (hear_brief(conn, parcel, result, out_reply) == 0)
            return 0;
    } else if (hf__buffer_count(&conn->said) == 0) {
        hf__mysql_end_by_nonsense(conn);
    } else {
        hf__mysql_queue_hear(conn, &ticket, hf__buffer_front(&conn->said), out_reply);
        note_crowd(conn, parcel, out_reply);
    }
    forget_said(conn);
    hf__parcel_free(conn, parcel);
    return wanted ? 1 : 0;
}

/* --- many answers --- */

/* One reply of a batch: a line. */
static int next_of_batch(struct hf__mysql *conn, struct hf__parcel *parcel,
                         struct hf__reply *out_reply)
{
    const struct hf__ticket *ticket = &parcel->tickets[parcel->answered];
    char *line = NULL;
    char *end = NULL;

    if (parcel->abandoned || parcel->answered == parcel->count) {
        forget_said(conn);
        hf__parcel_free(conn, parcel);
        return 0;
    }
    parcel->answered++;
    if (parcel->code > 0) {
        struct hf__result result = { .code = parcel->code };

        if (hf__buffer_count(&conn->said) > 0)
            (void)hf__text_copy(result.text, sizeof(result.text), hf__buffer_front(&conn->said));
        hf__mysql_reply(ticket, HF__REPLY_FAILED, out_reply);
        out_reply->status =
            hf__failure_of(ticket->kind, hf__failure_judge(conn, &result, &out_reply->kind));
        return 1;
    }
    if (hf__buffer_count(&conn->said) > conn->said_at) {
        line = (char *)conn->said.memory + conn->said.front + conn->said_at;
        end = strchr(line, '\n');
    }
    if (!end) {
        hf__mysql_reply(ticket, HF__REPLY_UNKNOWN, out_reply);
        hf__mysql_end_by_nonsense(conn);
        out_reply->status = HF_EPROTOCOL;
        return 1;
    }
    *end = '\0';
    conn->said_at += (size_t)(end - line) + 1;
    hf__mysql_queue_hear(conn, ticket, line, out_reply);
    if (hf__sql_recipe(conn)->moors)
        hf__outcome_renewal(conn, out_reply);
    return 1;
}

/* It answers all of them, one after the other; its words are kept until then. */
static void note_error(struct hf__mysql *conn, struct hf__parcel *parcel, uint32_t code,
                       const char *text)
{
    forget_said(conn);
    (void)hf__buffer_append(&conn->said, text, strlen(text) + 1);
    parcel->code = code;
}

static void hear_many(struct hf__mysql *conn, struct hf__parcel *parcel, struct hf__result *result)
{
    if (result->kind == HF__RESULT_ROW)
        note_row(conn, result);
    if (!result->is_last)
        return;
    if (result->kind == HF__RESULT_ERROR)
        note_error(conn, parcel, result->code, result->text);
    else if (result->in_transaction !=
             (hf__sql_recipe(conn)->keeps_open && conn->mooring.main != NULL))
        note_error(conn, parcel, HF__MYSQL_INTERRUPTED, "a transaction was left open");
    parcel->is_heard = true;
}

static int hear_list(struct hf__mysql *conn, struct hf__parcel *parcel, struct hf__result *result,
                     struct hf__reply *out_reply)
{
    bool wanted = !parcel->abandoned && parcel->answered < parcel->count;

    if (result->kind != HF__RESULT_ERROR && result->columns != HF__MYSQL_LIST_COLUMNS) {
        hf__mysql_end_by_nonsense(conn);
        return 0;
    }
    if (result->kind == HF__RESULT_ROW) {
        hf__mysql_reply(&parcel->tickets[0], HF__REPLY_ENTRY, out_reply);
        out_reply->entry = &conn->entry;
        if (wanted && hf__mysql_queue_entry(conn, result))
            return 1;
        if (result->row.failed)
            hf__mysql_end_by_nonsense(conn);
        return 0;
    }
    if (!result->is_last)
        return 0;
    hf__mysql_reply(&parcel->tickets[0], HF__REPLY_DONE, out_reply);
    if (result->kind == HF__RESULT_ERROR) {
        out_reply->status =
            hf__failure_of(HF__REQUEST_LIST, hf__failure_judge(conn, result, &out_reply->kind));
        out_reply->kind = HF__REPLY_FAILED;
    }
    hf__parcel_free(conn, parcel);
    return wanted ? 1 : 0;
}

static void hear_arrival(struct hf__mysql *conn, struct hf__parcel *parcel,
                         struct hf__result *result)
{
    bool is_last = result->is_last;
    int status = hf__arrival_hear(conn, parcel, result);

    if (is_last && status == HF_OK) {
        hf__parcel_free(conn, parcel);
        status = hf__arrival_finish(conn);
    }
    if (status < 0 && !conn->ending)
        hf__mysql_end(conn, status);
}

/* Who should have been woken may have gone, or be another account's: then it looks by itself. */
static void hear_ring(struct hf__mysql *conn, struct hf__parcel *parcel,
                      const struct hf__result *result)
{
    bool in_vain = result->code == HF__MYSQL_NO_SUCH_THREAD || result->code == HF__MYSQL_NOT_OURS;
    enum hf__reply_kind kind;

    if (result->kind == HF__RESULT_ROW)
        hf__mysql_end_by_nonsense(conn);
    if (!result->is_last || conn->ending)
        return;
    if (result->kind == HF__RESULT_ERROR && !in_vain)
        (void)hf__failure_judge(conn, result, &kind);
    hf__parcel_free(conn, parcel);
}

/* A step of a lock that is a session's. */
static void hear_step(struct hf__mysql *conn, struct hf__parcel *parcel, struct hf__result *result)
{
    const char *text;

    if (result->kind == HF__RESULT_ROW)
        note_row(conn, result);
    if (!result->is_last || conn->ending)
        return;
    text = hf__buffer_count(&conn->said) > 0 ? hf__buffer_front(&conn->said) : NULL;
    hf__list_remove(&parcel->place); /* what follows may be sent, and is behind it */
    hf__outcome_hear(conn, parcel, result, text);
    forget_said(conn);
    hf__parcel_free(conn, parcel);
}

/* --- the stream of results --- */

static int hear(struct hf__mysql *conn, struct hf__parcel *parcel, struct hf__result *result,
                struct hf__reply *out_reply)
{
    switch (parcel->kind) {
    case HF__PARCEL_ARRIVAL:
        hear_arrival(conn, parcel, result);
        return 0;
    case HF__PARCEL_ONE:
        return hear_one(conn, parcel, result, out_reply);
    case HF__PARCEL_MANY:
        hear_many(conn, parcel, result);
        return 0;
    case HF__PARCEL_LIST:
        return hear_list(conn, parcel, result, out_reply);
    case HF__PARCEL_RING:
        hear_ring(conn, parcel, result);
        return 0;
    case HF__PARCEL_STEP:
        hear_step(conn, parcel, result);
        return 0;
    }
    return 0;
}

/* Something that nobody asked for: why the server is about to hang up. */
static void hear_unasked(struct hf__mysql *conn, const struct hf__result *result)
{
    enum hf__reply_kind kind;

    if (result->kind == HF__RESULT_ERROR)
        (void)hf__failure_judge(conn, result, &kind);
    if (!conn->ending)
        hf__mysql_end_by_nonsense(conn);
}

static enum hf__result_form form_of(const struct hf__parcel *parcel)
{
    if (!parcel)
        return HF__RESULT_OF_QUERY;
    if (parcel->kind == HF__PARCEL_STEP && parcel->sql >= HF__SQL_IDLE)
        return HF__RESULT_OF_QUERY;
    if (parcel->kind != HF__PARCEL_ARRIVAL)
        return HF__RESULT_OF_EXECUTING;
    return parcel->step == HF__ARRIVAL_PREPARE ? HF__RESULT_OF_PREPARING : HF__RESULT_OF_QUERY;
}

int hf__inbox_next(struct hf__mysql *conn, struct hf__reply *out_reply)
{
    while (!conn->ending) {
        struct hf__parcel *parcel = hf__parcel_oldest(conn);
        struct hf__result result;

        if (parcel && parcel->is_heard) {
            if (next_of_batch(conn, parcel, out_reply) > 0)
                return 1;
            continue;
        }
        hf__result_next(&conn->cable, form_of(parcel), &result);
        if (result.kind == HF__RESULT_NONE)
            return 0;
        if (!parcel)
            hear_unasked(conn, &result);
        else if (hear(conn, parcel, &result, out_reply) > 0)
            return 1;
    }
    return 0;
}
