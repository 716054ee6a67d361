/* mooring.c: which step does a claim take, and for how long may its session be silent?
 *
 * A claim belongs to the session that has its lock, or waits for it; the session knows the shortest
 * lease of what it has, which is how long it may be silent before the server ends it
 * (wait_timeout, in whole seconds: never sooner than the holder has stopped to believe). Every step
 * is one statement, sent at once. What the core must hear is noted in the roll.
 *
 * What can go wrong: a step that cannot be sent ends its session, and whoever is bereft of it is
 * told there. */
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "engine/mysql/mysql.h"

#define IDLE_S_MOST 86400u

struct hf__mysql *hf__mooring_main(struct hf__mysql *session)
{
    return session->mooring.main ? session->mooring.main : session;
}

/* --- how long may a session be silent? --- */

static void count_lease(struct hf__mooring *mooring, uint64_t lease_ns)
{
    if (mooring->idle_count == 0 || lease_ns < mooring->idle_ns) {
        mooring->idle_ns = lease_ns;
        mooring->idle_count = 0;
    }
    mooring->idle_count += lease_ns == mooring->idle_ns;
}

void hf__mooring_join(struct hf__mysql *session, struct hf__anchor *anchor)
{
    assert(!anchor->session);

    anchor->session = session;
    count_lease(&session->mooring, anchor->lease_ns);
}

void hf__mooring_part(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    struct hf__mysql *session = anchor->session;

    if (!session)
        return;
    anchor->session = NULL;
    if (anchor->lease_ns != session->mooring.idle_ns || --session->mooring.idle_count > 0)
        return;
    session->mooring.idle_ns = 0;
    HF__LIST_FOR(member, &conn->mooring.roll.members)
    {
        const struct hf__anchor *other =
            hf__anchor_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (other->session == session)
            count_lease(&session->mooring, other->lease_ns);
    }
}

/* --- steps --- */

void hf__mooring_set_timer(struct hf__mysql *conn, struct hf__anchor *anchor, uint64_t at_ns)
{
    anchor->at_ns = at_ns;
    if (at_ns == HF__NEVER)
        hf__list_remove(&anchor->timed);
    else if (hf__list_empty(&anchor->timed))
        hf__list_append(&conn->mooring.timed, &anchor->timed);
}

static uint64_t idle_s_of(const struct hf__mysql *session)
{
    uint64_t idle_ns = session->mooring.idle_ns;

    return idle_ns > 0 ? (idle_ns + HF__NS_PER_S - 1) / HF__NS_PER_S : IDLE_S_MOST;
}

static int write_step(struct hf__mysql *session, enum hf__sql sql, const struct hf__anchor *anchor)
{
    char text[160];

    if (sql == HF__SQL_IDLE) {
        unsigned idle_s = (unsigned)idle_s_of(session);

        (void)snprintf(text, sizeof(text),
                       "SET SESSION wait_timeout = %u /*M!100300 , idle_transaction_timeout = %u,"
                       " idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0"
                       " */",
                       idle_s, idle_s);
        return hf__sql_query(session, &session->cable, text);
    }
    if (sql == HF__SQL_KILL) {
        (void)snprintf(text, sizeof(text), "KILL CONNECTION %llu",
                       (unsigned long long)anchor->session->cable.number);
        return hf__sql_query(session, &session->cable, text);
    }
    return hf__sql_send_step(session, sql, anchor);
}

static void send_step(struct hf__mysql *session, enum hf__sql sql, struct hf__anchor *anchor)
{
    struct hf__parcel *parcel =
        session->ending ? NULL : hf__parcel_new(session, HF__PARCEL_STEP, 0);

    if (!parcel) {
        if (!session->ending)
            hf__mysql_end(session, HF_ENOMEM);
        return;
    }
    parcel->sql = sql;
    parcel->deadline_ns = HF__NEVER;
    parcel->anchor = anchor;
    if (anchor) {
        parcel->index = anchor->begun;
        anchor->under_way++;
        anchor->entry.sent = true;
    }
    if (hf__parcel_send(session, parcel, write_step(session, sql, anchor)) == HF_OK)
        hf__cable_advance(&session->cable, hf__mooring_main(session)->now_ns);
}

void hf__mooring_tend(struct hf__mysql *session)
{
    if (!session->greeted || session->ending ||
        session->mooring.idle_told_ns == session->mooring.idle_ns)
        return;
    session->mooring.idle_told_ns = session->mooring.idle_ns;
    send_step(session, HF__SQL_IDLE, NULL);
}

void hf__mooring_step(struct hf__mysql *session, int sql, struct hf__anchor *anchor)
{
    if (sql != HF__SQL_LEAVE && sql != HF__SQL_KILL)
        hf__mooring_tend(session);
    send_step(session, (enum hf__sql)sql, anchor);
}

void hf__mooring_go_out(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    hf__mooring_part(conn, anchor);
    hf__mooring_set_timer(conn, anchor, HF__NEVER);
    anchor->state = HF__ANCHOR_OUT;
    if (hf__list_empty(&anchor->parted))
        hf__list_append(&conn->mooring.parted, &anchor->parted);
}

void hf__mooring_answer(struct hf__mysql *conn, struct hf__anchor *anchor,
                        const struct hf__reply *reply)
{
    struct hf__reply *own = &anchor->entry.reply;

    if (!hf__roll_answer(&conn->mooring.roll, &anchor->entry, reply->kind))
        return;
    own->fence = reply->kind == HF__REPLY_GRANTED ? reply->fence : 0;
    own->ahead = reply->ahead;
    own->released = reply->released;
    own->cause = reply->cause;
    own->status = reply->status;
    if (reply->holder) {
        anchor->entry.holder = *reply->holder;
        own->holder = &anchor->entry.holder;
    }
}

void hf__mooring_answer_plainly(struct hf__mysql *conn, struct hf__anchor *anchor,
                                enum hf__reply_kind kind)
{
    hf__mooring_answer(conn, anchor,
                       &(struct hf__reply){ .kind = kind, .ahead = HF__AHEAD_UNKNOWN });
}

void hf__mooring_fail(struct hf__mysql *conn, struct hf__anchor *anchor, int status)
{
    hf__mooring_answer(conn, anchor,
                       &(struct hf__reply){ .kind = HF__REPLY_FAILED, .status = status });
}

/* Where the lock is a transaction's, another session must commit the fence, or it would be undone
 * with the transaction; and who waits for somebody's lease to end must not be silent meanwhile. */
void hf__mooring_enter(struct hf__anchor *anchor)
{
    struct hf__mysql *session = anchor->session;
    bool keeps_open = hf__sql_recipe(session)->keeps_open;

    assert(anchor->state == HF__ANCHOR_LOCKED);

    anchor->state = HF__ANCHOR_ENTERING;
    if (keeps_open)
        send_step(session, HF__SQL_IDLE, NULL);
    hf__mooring_step(keeps_open ? hf__mooring_main(session) : session, HF__SQL_ENTER, anchor);
}

void hf__mooring_leave(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    struct hf__mysql *session = anchor->session;

    assert(session && anchor->state != HF__ANCHOR_LEAVING);

    hf__mooring_set_timer(conn, anchor, HF__NEVER);
    anchor->state = HF__ANCHOR_LEAVING;
    hf__mooring_step(session, HF__SQL_LEAVE, anchor);
}

/* The server ends that session, if it does not notice by itself: with the place in line, or with
 * the lock, if that came meanwhile. */
void hf__mooring_quit(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    struct hf__mysql *rope = anchor->session;

    assert(rope && rope != conn && anchor->state == HF__ANCHOR_BLOCKED);

    anchor->state = HF__ANCHOR_LEAVING;
    hf__mooring_step(conn, HF__SQL_KILL, anchor);
    hf__mooring_part(conn, anchor);
    hf__rope_cut(rope);
}
