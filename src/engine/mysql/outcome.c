/* outcome.c: what does the server's answer mean to a claim whose lock is a session's, and what
 * comes next?
 *
 * The happy path: the try has the lock and its fence. Or it was refused, the wait in a session of
 * its own was granted, and the fence is drawn. Where the lock is a transaction's, that must still
 * be open when the fence has been committed: only then was it held all the time.
 *
 * What can go wrong: the lock is there, but somebody died with it: its lease must end first. An
 * error: what may have been taken is given back, or ends with its session. A break: the lock is
 * given back, after the grace if there is one. An answer that is none: the session ends, with all
 * that it has. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/mysql/mysql.h"

/* --- what the server answers --- */

/* False: it is nonsense, and the session ends. */
static bool read_answer(struct hf__mysql *session, enum hf__request_kind kind, const char *text,
                        struct hf__reply *out_reply)
{
    struct hf__ticket ticket = { .kind = kind };
    struct hf__mysql *conn = hf__mooring_main(session);

    if (!text) {
        hf__mysql_end_by_nonsense(session);
        return false;
    }
    hf__mysql_queue_hear(session, &ticket, text, out_reply);
    if (session != conn && out_reply->kind == HF__REPLY_FAILED)
        (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), session->base.error);
    return !session->ending;
}

static void give_back(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    if (anchor->session && anchor->session != conn)
        hf__rope_give_back(anchor->session);
    hf__mooring_go_out(conn, anchor);
}

static void hold(struct hf__mysql *conn, struct hf__anchor *anchor, uint64_t fence)
{
    struct hf__reply reply = { .kind = HF__REPLY_GRANTED, .fence = fence };

    anchor->state = HF__ANCHOR_HELD;
    if (anchor->entry.ticket.kind == HF__REQUEST_RELEASE)
        hf__anchor_serve(conn, anchor);
    else
        hf__mooring_answer(conn, anchor, &reply);
}

void hf__outcome_locked(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    hf__anchor_serve(conn, anchor);
    if (anchor->state != HF__ANCHOR_LOCKED)
        return;
    anchor->entry.changed = true;
    hf__roll_tell(&conn->mooring.roll, &anchor->entry);
}

static bool is_locked(const char *text)
{
    return text && strcmp(text, "locked") == 0;
}

/* It is another's. Who wants to stands in line, as long as there are not too many who do. */
static void hear_refused(struct hf__mysql *conn, struct hf__anchor *anchor, struct hf__reply *reply)
{
    bool asks = anchor->entry.ticket.kind == HF__REQUEST_CLAIM;
    struct hf__mysql *rope = anchor->session == conn ? NULL : anchor->session;

    if (asks && anchor->queueing && hf__rope_blocked(conn) < HF__MYSQL_BLOCKED) {
        anchor->waits = true;
        hf__mooring_part(conn, anchor);
        rope = rope ? rope : hf__rope_take(conn, anchor);
        if (rope) {
            hf__mooring_join(rope, anchor);
            anchor->state = HF__ANCHOR_CALLING;
            reply->kind = HF__REPLY_QUEUED;
            reply->ahead = HF__AHEAD_UNKNOWN; /* of others who wait the server says nothing */
            hf__mooring_answer(conn, anchor, reply);
            hf__rope_ready(rope);
            return;
        }
    }
    hf__mooring_answer(conn, anchor, reply);
    give_back(conn, anchor);
}

static void hear_try(struct hf__mysql *session, struct hf__anchor *anchor, const char *text)
{
    struct hf__mysql *conn = hf__mooring_main(session);
    struct hf__reply reply;

    if (is_locked(text)) {
        anchor->state = HF__ANCHOR_LOCKED;
        hf__outcome_locked(conn, anchor);
        return;
    }
    if (!read_answer(session, HF__REQUEST_CLAIM, text, &reply))
        return;
    if (reply.kind == HF__REPLY_GRANTED) {
        hold(conn, anchor, reply.fence);
        return;
    }
    if (anchor->entry.ticket.kind == HF__REQUEST_RELEASE) {
        give_back(conn, anchor);
        hf__anchor_serve(conn, anchor);
    } else if (reply.kind == HF__REPLY_REFUSED) {
        hear_refused(conn, anchor, &reply);
    } else if (reply.kind == HF__REPLY_FAILED) {
        hf__mooring_answer(conn, anchor, &reply);
        give_back(conn, anchor);
    } else {
        hf__mysql_end_by_nonsense(session);
    }
}

/* The wait has an end, and begins again. */
static void hear_wait(struct hf__mysql *session, struct hf__anchor *anchor, const char *text)
{
    struct hf__mysql *conn = hf__mooring_main(session);
    struct hf__reply reply;

    if (is_locked(text)) {
        anchor->state = HF__ANCHOR_LOCKED;
        hf__outcome_locked(conn, anchor);
    } else if (!read_answer(session, HF__REQUEST_CLAIM, text, &reply)) {
        return;
    } else if (reply.kind == HF__REPLY_REFUSED) {
        hf__mooring_step(session, HF__SQL_WAIT, anchor);
    } else {
        hf__mysql_end_by_nonsense(session);
    }
}

/* "wait ms": somebody's lease has not ended. */
static bool hear_wait_longer(struct hf__mysql *conn, struct hf__anchor *anchor, const char *text)
{
    static const char word[] = "wait ";
    uint64_t ms;

    if (!text || strncmp(text, word, strlen(word)) != 0 ||
        !hf__text_to_u64(text + strlen(word), strlen(text) - strlen(word), &ms) ||
        ms > HF_LEASE_MS_MAX)
        return false;
    anchor->state = HF__ANCHOR_LOCKED;
    hf__mooring_set_timer(conn, anchor, conn->now_ns + (ms + 1) * HF__NS_PER_MS);
    if (anchor->entry.ticket.kind == HF__REQUEST_RELEASE)
        hf__anchor_serve(conn, anchor);
    else
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_QUEUED);
    return true;
}

static void hear_enter(struct hf__mysql *session, struct hf__anchor *anchor, const char *text)
{
    struct hf__mysql *conn = hf__mooring_main(session);
    struct hf__reply reply;

    if (hear_wait_longer(conn, anchor, text) ||
        !read_answer(session, HF__REQUEST_CLAIM, text, &reply))
        return;
    hf__mooring_set_timer(conn, anchor, HF__NEVER);
    if (reply.kind == HF__REPLY_FAILED) {
        anchor->state = HF__ANCHOR_LOCKED;
        hf__mooring_answer(conn, anchor, &reply);
        hf__mooring_leave(conn, anchor);
    } else if (reply.kind != HF__REPLY_GRANTED) {
        hf__mysql_end_by_nonsense(session);
    } else if (hf__sql_recipe(conn)->keeps_open) {
        anchor->state = HF__ANCHOR_CONFIRMING;
        anchor->fence = reply.fence;
        hf__mooring_step(anchor->session, HF__SQL_IDLE, anchor);
    } else {
        hold(conn, anchor, reply.fence);
    }
}

static void hear_leave(struct hf__mysql *session, struct hf__anchor *anchor, const char *text)
{
    struct hf__mysql *conn = hf__mooring_main(session);
    struct hf__reply reply;

    if (!read_answer(session, HF__REQUEST_RELEASE, text, &reply))
        return;
    give_back(conn, anchor);
    if (anchor->tells_broken) {
        anchor->tells_broken = false;
        anchor->entry.gone = "broken";
        hf__roll_tell(&conn->mooring.roll, &anchor->entry);
    }
    if (anchor->entry.ticket.kind == HF__REQUEST_RELEASE)
        hf__mooring_answer(conn, anchor, &reply);
    else
        hf__anchor_serve(conn, anchor);
}

/* Another lease is written down; now it is asked for, as ever. */
static void hear_lease(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    struct hf__mysql *session = anchor->session;

    if (anchor->state != HF__ANCHOR_HELD || !session) {
        hf__anchor_serve(conn, anchor);
        return;
    }
    hf__mooring_part(conn, anchor);
    anchor->lease_ns = anchor->next_lease_ns;
    hf__mooring_join(session, anchor);
    hf__mooring_step(session, HF__SQL_IDLE, anchor);
}

/* A sign of life was answered. */
static void hear_idle(struct hf__mysql *session, struct hf__anchor *anchor)
{
    struct hf__mysql *conn = hf__mooring_main(session);

    if (anchor && anchor->state == HF__ANCHOR_CONFIRMING)
        hold(conn, anchor, anchor->fence);
    else if (anchor && anchor->state == HF__ANCHOR_HELD &&
             anchor->entry.ticket.kind == HF__REQUEST_RENEW)
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_GRANTED);
}

/* --- errors --- */

static void hear_error(struct hf__mysql *session, const struct hf__parcel *parcel,
                       const struct hf__result *result)
{
    struct hf__mysql *conn = hf__mooring_main(session);
    struct hf__anchor *anchor = parcel->anchor;
    enum hf__sql sql = parcel->sql;
    enum hf__reply_kind kind;
    int status;

    assert(anchor || sql == HF__SQL_IDLE);
    if (sql == HF__SQL_KILL) { /* it has gone by itself */
        hf__mooring_go_out(conn, anchor);
        hf__anchor_serve(conn, anchor);
        return;
    }
    status = hf__failure_judge(session, result, &kind);
    if (session->ending)
        return;
    if (session != conn)
        (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), session->base.error);
    if (sql == HF__SQL_TRY || sql == HF__SQL_WAIT) {
        hf__mooring_fail(conn, anchor, status);
        give_back(conn, anchor);
    } else if (sql == HF__SQL_ENTER && anchor->session) {
        if (anchor->entry.ticket.kind != HF__REQUEST_RELEASE)
            hf__mooring_fail(conn, anchor, status);
        anchor->state = HF__ANCHOR_LOCKED;
        hf__mooring_leave(conn, anchor);
    } else if (sql == HF__SQL_LEASE) {
        hf__mooring_fail(conn, anchor, hf__failure_of(HF__REQUEST_RENEW, status));
    } else {
        hf__mysql_end(session, status); /* what it has goes with it */
    }
}

/* A transaction that is open where none should be, or the other way round: what the session was
 * trusted with is lost. */
static bool is_astray(const struct hf__mysql *session, const struct hf__parcel *parcel,
                      const struct hf__result *result, const char *text)
{
    bool keeps = hf__sql_recipe(session)->keeps_open && session->mooring.main;
    enum hf__anchor_state state = parcel->anchor ? parcel->anchor->state : HF__ANCHOR_OUT;

    if (!keeps)
        return result->in_transaction;
    if (parcel->sql == HF__SQL_TRY || parcel->sql == HF__SQL_WAIT)
        return result->in_transaction != is_locked(text);
    if (parcel->sql == HF__SQL_LEAVE)
        return result->in_transaction;
    return !result->in_transaction && state > HF__ANCHOR_BLOCKED && state != HF__ANCHOR_LEAVING;
}

/* Of a claim, and it is what was asked for. */
static void hear_step(struct hf__mysql *session, struct hf__anchor *anchor, enum hf__sql sql,
                      const char *text)
{
    struct hf__mysql *conn = hf__mooring_main(session);

    if (sql == HF__SQL_KILL) {
        hf__mooring_go_out(conn, anchor);
        hf__anchor_serve(conn, anchor);
    } else if (sql == HF__SQL_LEASE) {
        hear_lease(conn, anchor);
    } else if (sql == HF__SQL_TRY) {
        hear_try(session, anchor, text);
    } else if (sql == HF__SQL_WAIT) {
        hear_wait(session, anchor, text);
    } else if (sql == HF__SQL_ENTER && anchor->session) { /* or it was lost meanwhile */
        hear_enter(session, anchor, text);
    } else if (sql == HF__SQL_LEAVE) {
        hear_leave(session, anchor, text);
    }
}

void hf__outcome_hear(struct hf__mysql *session, const struct hf__parcel *parcel,
                      const struct hf__result *result, const char *text)
{
    struct hf__anchor *anchor = parcel->anchor;

    if (anchor && parcel->index != anchor->begun)
        return; /* its session was lost since, and it has begun anew */
    if (result->kind == HF__RESULT_ERROR)
        hear_error(session, parcel, result);
    else if (is_astray(session, parcel, result, text))
        hf__mysql_end(session, hf__error_set(session->base.error, HF_EUNREACHABLE,
                                             "%s: the transaction is not as it was left",
                                             hf__cable_peer(&session->cable)));
    else if (parcel->sql == HF__SQL_IDLE)
        hear_idle(session, anchor);
    else if (anchor)
        hear_step(session, anchor, parcel->sql, text);
}

/* --- news --- */

static void hear_broken(struct hf__mysql *conn, struct hf__anchor *anchor, bool is_known)
{
    if (anchor->state != HF__ANCHOR_HELD || anchor->was_broken)
        return;
    anchor->was_broken = true;
    if (anchor->grace_ns == 0) { /* told when it is back: until then nobody else has it */
        anchor->tells_broken = !is_known;
        hf__mooring_leave(conn, anchor);
        return;
    }
    hf__mooring_set_timer(conn, anchor, conn->now_ns + anchor->grace_ns);
    if (is_known)
        return;
    anchor->entry.gone = "broken";
    hf__roll_tell(&conn->mooring.roll, &anchor->entry);
}

void hf__outcome_renewal(struct hf__mysql *session, const struct hf__reply *reply)
{
    struct hf__mysql *conn = hf__mooring_main(session);
    struct hf__anchor *anchor =
        hf__anchor_of(hf__roll_find(&conn->mooring.roll, reply->ticket.claim_id));

    if (reply->kind != HF__REPLY_GONE || !anchor || anchor->state != HF__ANCHOR_HELD)
        return;
    if (reply->cause && strcmp(reply->cause, "broken") == 0)
        hear_broken(conn, anchor, true);
    else
        hf__mooring_leave(conn, anchor);
}

bool hf__outcome_news(struct hf__mysql *conn, const struct hf__reply *reply)
{
    struct hf__anchor *anchor =
        hf__anchor_of(hf__roll_find(&conn->mooring.roll, reply->ticket.claim_id));

    if (anchor && reply->kind == HF__REPLY_GONE)
        hear_broken(conn, anchor, false);
    return false;
}
