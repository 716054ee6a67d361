/* berth.c: where does a claim of the recipe advisory stand, and which step does it take?
 *
 * A berth belongs to the session that has its lock, or waits for it; the session knows the shortest
 * lease among its berths, which is how long it may be silent before the server ends it. Every step
 * is one prepared statement, sent at once. What the core must hear is noted in the roll.
 *
 * What can go wrong: a step that cannot be sent ends its session, and whoever is bereft of it is
 * told there. */
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "engine/postgres/postgres.h"

/* --- how long may a session be silent? --- */

void hf__berth_idle_text(uint64_t idle_ns, char out_text[24])
{
    (void)snprintf(out_text, 24, "%llu",
                   (unsigned long long)((idle_ns + HF__NS_PER_MS - 1) / HF__NS_PER_MS));
}

static void count_lease(struct hf__postgres *session, uint64_t lease_ns)
{
    if (session->idle_count == 0 || lease_ns < session->idle_ns) {
        session->idle_ns = lease_ns;
        session->idle_count = 0;
    }
    session->idle_count += lease_ns == session->idle_ns;
}

void hf__berth_join(struct hf__postgres *session, struct hf__berth *berth)
{
    assert(!berth->session);

    berth->session = session;
    session->berths++;
    count_lease(session, berth->lease_ns);
}

void hf__berth_part(struct hf__postgres *conn, struct hf__berth *berth)
{
    struct hf__postgres *session = berth->session;

    if (!session)
        return;
    berth->session = NULL;
    session->berths--;
    if (berth->lease_ns != session->idle_ns || --session->idle_count > 0)
        return;
    session->idle_ns = 0;
    HF__LIST_FOR(member, &conn->roll.members)
    {
        const struct hf__berth *other =
            hf__berth_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (other->session == session)
            count_lease(session, other->lease_ns);
    }
}

/* --- steps --- */

void hf__berth_set_timer(struct hf__postgres *conn, struct hf__berth *berth, uint64_t at_ns)
{
    berth->at_ns = at_ns;
    if (at_ns == HF__NEVER)
        hf__list_remove(&berth->timed);
    else if (hf__list_empty(&berth->timed))
        hf__list_append(&conn->timed, &berth->timed);
}

void hf__berth_step(struct hf__postgres *session, enum hf__statement statement,
                    struct hf__berth *berth)
{
    struct hf__errand *errand =
        session->ending ? NULL : hf__errand_new(session, HF__ERRAND_STEP, 0);

    if (!errand) {
        if (!session->ending)
            hf__postgres_end(session, HF_ENOMEM);
        return;
    }
    errand->statement = statement;
    errand->deadline_ns = HF__NEVER;
    errand->idle_ns = session->idle_ns;
    if (berth && statement != HF__STATEMENT_ADVISORY_FORGET) {
        errand->berth = berth;
        berth->under_way++;
        berth->entry.sent = true;
    }
    if (hf__errand_send(session, errand, hf__statement_send_step(session, statement, berth)) ==
        HF_OK)
        hf__errand_flush(session);
}

void hf__berth_go_out(struct hf__postgres *conn, struct hf__berth *berth)
{
    hf__berth_part(conn, berth);
    hf__berth_set_timer(conn, berth, HF__NEVER);
    berth->leaves = NULL;
    berth->state = HF__BERTH_OUT;
    if (hf__list_empty(&berth->parted))
        hf__list_append(&conn->parted, &berth->parted);
}

void hf__berth_answer(struct hf__postgres *conn, struct hf__berth *berth,
                      const struct hf__reply *reply)
{
    struct hf__reply *own = &berth->entry.reply;

    if (!hf__roll_answer(&conn->roll, &berth->entry, reply->kind))
        return;
    own->fence = reply->kind == HF__REPLY_GRANTED ? reply->fence : 0;
    own->ahead = reply->ahead;
    own->others_wait = reply->others_wait;
    own->released = reply->released;
    own->cause = reply->cause;
    own->status = reply->status;
    if (reply->holder) {
        berth->entry.holder = *reply->holder;
        own->holder = &berth->entry.holder;
    }
}

void hf__berth_answer_plainly(struct hf__postgres *conn, struct hf__berth *berth,
                              enum hf__reply_kind kind)
{
    hf__berth_answer(conn, berth, &(struct hf__reply){ .kind = kind, .ahead = HF__AHEAD_UNKNOWN });
}

void hf__berth_fail(struct hf__postgres *conn, struct hf__berth *berth, int status)
{
    hf__berth_answer(conn, berth,
                     &(struct hf__reply){ .kind = HF__REPLY_FAILED, .status = status });
}

/* It has the lock, or may have it. Its lease counts no more when the server is told how long to
 * wait for us. */
void hf__berth_leave(struct hf__postgres *conn, struct hf__berth *berth)
{
    struct hf__postgres *session = berth->session;

    assert(session && berth->state != HF__BERTH_LEAVING);

    hf__berth_part(conn, berth);
    hf__berth_set_timer(conn, berth, HF__NEVER);
    berth->leaves = session;
    berth->state = HF__BERTH_LEAVING;
    hf__berth_step(session, HF__STATEMENT_ADVISORY_LEAVE, berth);
}

void hf__berth_enter(struct hf__berth *berth)
{
    assert(berth->state == HF__BERTH_LOCKED);

    berth->state = HF__BERTH_ENTERING;
    hf__berth_step(berth->session, HF__STATEMENT_ADVISORY_ENTER, berth);
}

void hf__berth_look(struct hf__postgres *conn, struct hf__berth *berth)
{
    hf__berth_set_timer(conn, berth, HF__NEVER);
    berth->looks = true;
    hf__berth_step(conn, HF__STATEMENT_ADVISORY_LOOK, berth);
}

void hf__berth_quit(struct hf__postgres *conn, struct hf__berth *berth)
{
    hf__berth_set_timer(conn, berth, HF__NEVER);
    berth->quits = true;
    berth->is_called = true;
    hf__berth_step(conn, HF__STATEMENT_ADVISORY_QUIT, berth);
}

void hf__berth_seated(struct hf__postgres *seat)
{
    struct hf__berth *berth = seat->sitter;

    if (!berth)
        return;
    assert(berth->state == HF__BERTH_CALLING);

    berth->state = HF__BERTH_BLOCKED;
    berth->in_line = berth->quits = berth->is_called = berth->is_back = false;
    hf__berth_step(seat, HF__STATEMENT_ADVISORY_WAIT, berth);
    hf__berth_look(seat->main, berth);
}
