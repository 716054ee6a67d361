/* heard.c: what does the server's answer mean to a berth, and what comes next?
 *
 * The happy path: the try has the lock and its fence. Or it was refused, the wait in a seat was
 * granted, and the fence is drawn there.
 *
 * What can go wrong: the lock is there, but somebody died with it: its lease must end first. An
 * error: what may have been taken is given back. A wait that was called back may have the lock all
 * the same, whatever it answers: it is given back too. A break: the lock is given back, after the
 * grace if there is one. An answer that is none: the session ends, with all that it has. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/postgres/postgres.h"

#define LOOK_NS  (2 * HF__NS_PER_MS) /* until a session that was told to wait is looked for again */
#define QUIT_NS  (20 * HF__NS_PER_MS)  /* until it is called back again */
#define AGAIN_NS (100 * HF__NS_PER_MS) /* after an error */

/* --- what the server answers --- */

/* False: it is nonsense, and the session ends. */
static bool read_answer(struct hf__postgres *session, enum hf__request_kind kind, const char *text,
                        struct hf__reply *out_reply)
{
    struct hf__ticket ticket = { .kind = kind };

    hf__queue_hear(session, &ticket, text, out_reply);
    return !session->ending;
}

static void end_by_nonsense(struct hf__postgres *session)
{
    hf__postgres_end(session,
                     hf__error_set(session->base.error, HF_EPROTOCOL,
                                   "%s: the server answered what it never should", session->peer));
}

static void hold(struct hf__postgres *conn, struct hf__berth *berth, const struct hf__reply *reply)
{
    berth->state = HF__BERTH_HELD;
    if (berth->entry.ticket.kind == HF__REQUEST_RELEASE)
        hf__advisory_serve(conn, berth);
    else
        hf__berth_answer(conn, berth, reply);
}

static void hear_try(struct hf__postgres *conn, struct hf__berth *berth, const char *text)
{
    struct hf__reply reply;
    bool asks = berth->entry.ticket.kind == HF__REQUEST_CLAIM;

    if (!read_answer(conn, HF__REQUEST_CLAIM, text, &reply))
        return;
    if (reply.kind == HF__REPLY_GRANTED) {
        conn->idle_told_ns = conn->idle_ns;
        hold(conn, berth, &reply);
    } else if (reply.kind == HF__REPLY_REFUSED && asks && berth->queueing) {
        reply.ahead = HF__AHEAD_UNKNOWN; /* until it stands in line: who is in the way */
        hf__berth_answer(conn, berth, &reply);
        hf__advisory_call(conn, berth, NULL);
    } else if (reply.kind == HF__REPLY_REFUSED || reply.kind == HF__REPLY_FAILED) {
        if (!asks)
            reply.kind = HF__REPLY_GONE;
        hf__berth_answer(conn, berth, &reply);
        hf__berth_go_out(conn, berth);
    } else {
        end_by_nonsense(conn);
    }
}

/* "wait ms": somebody's lease has not ended. */
static bool hear_wait_longer(struct hf__postgres *conn, struct hf__berth *berth, const char *text)
{
    static const char word[] = "wait ";
    uint64_t ms;

    if (strncmp(text, word, strlen(word)) != 0 ||
        !hf__text_to_u64(text + strlen(word), strlen(text) - strlen(word), &ms) ||
        ms > HF_LEASE_MS_MAX)
        return false;
    berth->state = HF__BERTH_LOCKED;
    hf__berth_set_timer(conn, berth, conn->now_ns + (ms + 1) * HF__NS_PER_MS);
    if (berth->entry.ticket.kind == HF__REQUEST_RELEASE)
        hf__advisory_serve(conn, berth);
    else
        hf__berth_answer_plainly(conn, berth, HF__REPLY_QUEUED);
    return true;
}

static void hear_enter(struct hf__postgres *session, struct hf__berth *berth, const char *text)
{
    struct hf__postgres *conn = hf__berth_main(session);
    struct hf__reply reply;

    if (hear_wait_longer(conn, berth, text) ||
        !read_answer(session, HF__REQUEST_CLAIM, text, &reply))
        return;
    if (reply.kind != HF__REPLY_GRANTED) {
        end_by_nonsense(session);
        return;
    }
    hf__berth_set_timer(conn, berth, HF__NEVER);
    hold(conn, berth, &reply);
}

/* It has the lock: whoever asks goes on, and who does not is told that it is worth to ask. */
void hf__heard_lock(struct hf__postgres *conn, struct hf__berth *berth)
{
    if (berth->looks)
        return; /* what that writes down must not come after what follows */
    if (berth->quits) {
        hf__berth_leave(conn, berth);
        return;
    }
    hf__advisory_serve(conn, berth);
    if (berth->state == HF__BERTH_LOCKED) {
        berth->entry.changed = true;
        hf__roll_tell(&conn->roll, &berth->entry);
    }
}

/* Its wait has failed, and no call for it is under way that could meet another. A wait that is
 * ended in the moment in which it is granted leaves the session with the lock, though the answer is
 * an error: a lock of a session outlives what was undone. So it is given back in any case. */
static void come_back(struct hf__postgres *conn, struct hf__berth *berth)
{
    if (berth->is_back && !berth->is_called && !berth->looks)
        hf__berth_leave(conn, berth);
}

static void hear_look(struct hf__postgres *conn, struct hf__berth *berth, const char *text)
{
    struct hf__reply reply;

    berth->looks = false;
    if (!read_answer(conn, HF__REQUEST_CLAIM, text, &reply))
        return;
    if (berth->state == HF__BERTH_LOCKED) {
        hf__heard_lock(conn, berth);
    } else if (berth->state == HF__BERTH_BLOCKED && berth->is_back) {
        come_back(conn, berth);
    } else if (berth->state == HF__BERTH_BLOCKED && reply.kind == HF__REPLY_QUEUED) {
        berth->in_line = true;
        berth->ahead = reply.ahead;
        if (berth->entry.ticket.kind == HF__REQUEST_CLAIM)
            hf__berth_answer(conn, berth, &reply);
        else
            hf__advisory_serve(conn, berth);
    } else if (berth->state == HF__BERTH_BLOCKED && !berth->quits) {
        hf__berth_set_timer(conn, berth, conn->now_ns + LOOK_NS);
    }
}

static void hear_quit(struct hf__postgres *conn, struct hf__berth *berth)
{
    berth->is_called = false;
    if (berth->state == HF__BERTH_BLOCKED && !berth->is_back)
        hf__berth_set_timer(conn, berth, conn->now_ns + QUIT_NS);
    else if (berth->state == HF__BERTH_BLOCKED)
        come_back(conn, berth);
}

static void hear_leave(struct hf__postgres *session, struct hf__berth *berth, const char *text)
{
    struct hf__postgres *conn = hf__berth_main(session);
    struct hf__reply reply;

    if (!read_answer(session, HF__REQUEST_RELEASE, text, &reply))
        return;
    if (session->sitter == berth)
        hf__seat_give_back(session);
    hf__berth_go_out(conn, berth);
    if (berth->tells_broken) {
        berth->tells_broken = false;
        berth->entry.gone = "broken";
        hf__roll_tell(&conn->roll, &berth->entry);
    }
    if (berth->entry.ticket.kind == HF__REQUEST_RELEASE)
        hf__berth_answer(conn, berth, &reply);
    else
        hf__advisory_serve(conn, berth);
}

static void hear_lower(struct hf__postgres *session, struct hf__berth *berth, const char *text)
{
    struct hf__postgres *conn = hf__berth_main(session);
    struct hf__reply reply;

    if (!read_answer(session, HF__REQUEST_DOWNGRADE, text, &reply))
        return;
    if (reply.kind == HF__REPLY_GRANTED) {
        berth->shared = true;
        berth->who[0] = 'r';
    }
    if (berth->entry.ticket.kind == HF__REQUEST_DOWNGRADE)
        hf__berth_answer(conn, berth, &reply);
}

/* --- errors --- */

/* Does the session have this lock for another as well? */
static bool is_shared_out(struct hf__postgres *conn, const struct hf__berth *berth)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        const struct hf__berth *other =
            hf__berth_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (other != berth && other->session == berth->session && other->key == berth->key)
            return true;
    }
    return false;
}

/* It perhaps has the lock, and no fence. To give back what it does not have is harmless, unless
 * another reader has the same. */
static void undo(struct hf__postgres *session, struct hf__berth *berth, int status)
{
    struct hf__postgres *conn = hf__berth_main(session);

    if (is_shared_out(conn, berth)) {
        hf__postgres_end(session, status);
        return;
    }
    if (berth->entry.ticket.kind != HF__REQUEST_RELEASE)
        hf__berth_fail(conn, berth, status);
    hf__berth_leave(conn, berth);
}

/* The wait ended without the lock: it was called back, or the server has its reasons. */
static void hear_called(struct hf__postgres *seat, struct hf__berth *berth, int status)
{
    struct hf__postgres *conn = seat->main;

    berth->is_back = true;
    if (berth->quits) {
        come_back(conn, berth);
        return;
    }
    hf__berth_step(conn, HF__STATEMENT_ADVISORY_FORGET, berth);
    berth->quits = true;
    if (berth->entry.ticket.kind == HF__REQUEST_NONE) {
        berth->entry.gone = HF__BERTH_ENDED;
        hf__roll_tell(&conn->roll, &berth->entry);
    } else {
        hf__berth_fail(conn, berth, status);
    }
    come_back(conn, berth);
}

static void hear_error(struct hf__postgres *session, const struct hf__errand *errand,
                       const PGresult *result)
{
    struct hf__postgres *conn = hf__berth_main(session);
    struct hf__berth *berth = errand->berth;
    enum hf__reply_kind kind;
    int status = hf__sqlstate_judge(session, result, &kind);

    if (session->ending || !berth)
        return;
    if (session->main)
        (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), session->base.error);
    if (errand->statement == HF__STATEMENT_ADVISORY_TRY && hf__sqlstate_is(result, "HF003")) {
        hf__berth_fail(conn, berth, status);
        hf__berth_go_out(conn, berth);
        hf__advisory_serve(conn, berth);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_TRY ||
               errand->statement == HF__STATEMENT_ADVISORY_ENTER) {
        undo(session, berth, status);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_WAIT) {
        hear_called(session, berth, status);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_LOOK) {
        berth->looks = false;
        if (berth->state == HF__BERTH_LOCKED)
            hf__heard_lock(conn, berth);
        else if (berth->is_back)
            come_back(conn, berth);
        else if (berth->state == HF__BERTH_BLOCKED && !berth->quits)
            hf__berth_set_timer(conn, berth, conn->now_ns + AGAIN_NS);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_QUIT) {
        hear_quit(conn, berth);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_LOWER) {
        hf__berth_fail(conn, berth, status);
    } else {
        hf__postgres_end(session, status); /* what it has goes with it */
    }
}

void hf__heard_step(struct hf__postgres *session, const struct hf__errand *errand,
                    const PGresult *result)
{
    struct hf__berth *berth = errand->berth;
    const char *text;

    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        hear_error(session, errand, result);
        return;
    }
    if (hf__answer_text(result, &text) <= 0) {
        end_by_nonsense(session);
        return;
    }
    if (errand->statement == HF__STATEMENT_ADVISORY_TRY) {
        hear_try(session, berth, text);
        return;
    }
    if (errand->statement != HF__STATEMENT_ADVISORY_LOOK &&
        errand->statement != HF__STATEMENT_ADVISORY_QUIT)
        session->idle_told_ns = errand->idle_ns;
    if (errand->statement == HF__STATEMENT_ADVISORY_WAIT) {
        berth->state = HF__BERTH_LOCKED;
        hf__berth_set_timer(hf__berth_main(session), berth, HF__NEVER);
        hf__heard_lock(hf__berth_main(session), berth);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_LOOK) {
        hear_look(session, berth, text);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_ENTER) {
        hear_enter(session, berth, text);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_LEAVE) {
        hear_leave(session, berth, text);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_QUIT) {
        hear_quit(session, berth);
    } else if (errand->statement == HF__STATEMENT_ADVISORY_LOWER) {
        hear_lower(session, berth, text);
    }
}

/* --- news --- */

static void hear_broken(struct hf__postgres *conn, struct hf__berth *berth, bool is_known)
{
    if (berth->state != HF__BERTH_HELD || berth->was_broken)
        return;
    berth->was_broken = true;
    if (berth->grace_ns == 0) { /* told when it is back: until then nobody else has it */
        berth->tells_broken = !is_known;
        hf__berth_leave(conn, berth);
        return;
    }
    hf__berth_set_timer(conn, berth, conn->now_ns + berth->grace_ns);
    if (is_known)
        return;
    berth->entry.gone = "broken";
    hf__roll_tell(&conn->roll, &berth->entry);
}

void hf__heard_renewal(struct hf__postgres *session, const struct hf__reply *reply)
{
    struct hf__postgres *conn = hf__berth_main(session);
    struct hf__berth *berth = hf__berth_of(hf__roll_find(&conn->roll, reply->ticket.claim_id));

    if (reply->kind != HF__REPLY_GONE || !berth || berth->state != HF__BERTH_HELD)
        return;
    if (reply->cause && strcmp(reply->cause, "broken") == 0)
        hear_broken(conn, berth, true);
    else
        hf__berth_leave(conn, berth);
}

/* "crowded tag", "broken tag" */
void hf__heard_message(struct hf__postgres *conn, const char *message)
{
    struct hf__reply reply;
    struct hf__berth *berth;

    if (!hf__queue_news(message, &reply))
        return;
    berth = hf__berth_of(hf__roll_find(&conn->roll, reply.ticket.claim_id));
    if (!berth)
        return;
    if (reply.kind == HF__REPLY_CROWDED && !berth->was_crowded) {
        berth->was_crowded = berth->entry.crowded = true;
        hf__roll_tell(&conn->roll, &berth->entry);
    } else if (reply.kind == HF__REPLY_GONE) {
        hear_broken(conn, berth, false);
    }
}
