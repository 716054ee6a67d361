/* advisory.c: a lock that is a session's (pg_advisory_lock): where does a claim stand, and what
 * comes next?
 *
 * The happy path: the client's first session tries, and one function of the server (advisory.sql)
 * takes the lock, draws the fence and commits it. Who finds it taken waits in a session of its own
 * (seat.c), where the server lets it in in the order of coming, and then draws the fence there. A
 * renewal is a sign of life of the session: the server ends one that is silent for the shortest
 * lease of what it has (idle_session_timeout), and never sooner than we have stopped believing.
 *
 * What can go wrong: the session ends: all that it had is lost, and whoever gets the lock next
 * waits until the lease of the lost one must have ended. All seats are taken: the claim is refused,
 * and asks again. A claim that no longer waits: its session is called back by the first one, again
 * and again, because the call may come too early; if it has the lock by then, it gives it back. A
 * lock is a session's as often as it took it, so no session is asked for a key that it has, unless
 * both are readers. A break: the holder is told, and gives it back itself. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "engine/postgres/postgres.h"

/* --- beginning --- */

enum way {
    WAY_MAIN,  /* the first session may try */
    WAY_SEAT,  /* it has that lock: only another session can wait for it */
    WAY_CLASH, /* it has it by another name */
};

static enum way find_way(struct hf__postgres *conn, struct hf__berth *berth,
                         const struct hf__berth **out_other)
{
    enum way way = WAY_MAIN;

    berth->beside = false;

    HF__LIST_FOR(member, &conn->roll.members)
    {
        const struct hf__berth *other =
            hf__berth_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (other == berth || other->key != berth->key || other->state == HF__BERTH_OUT)
            continue;
        if (other->name_bytes != berth->name_bytes ||
            memcmp(other->name, berth->name, berth->name_bytes) != 0)
            return WAY_CLASH;
        if (other->session != conn)
            continue;
        berth->beside = true;
        *out_other = other;
        way = berth->shared && other->shared ? way : WAY_SEAT;
    }
    return way;
}

static void refuse_by(struct hf__postgres *conn, struct hf__berth *berth,
                      const struct hf__berth *other)
{
    struct hf__reply reply = { .kind = HF__REPLY_REFUSED, .ahead = 1 };

    if (other) {
        hf__bearer_read(other->who, strlen(other->who), &conn->bearer);
        reply.holder = conn->bearer.is_known ? &conn->bearer.holder : NULL;
    }
    hf__berth_answer(conn, berth, &reply);
    hf__berth_go_out(conn, berth);
}

void hf__advisory_call(struct hf__postgres *conn, struct hf__berth *berth,
                       const struct hf__berth *other)
{
    struct hf__postgres *seat = hf__seat_take(conn, berth);

    if (!seat) {
        refuse_by(conn, berth, other);
        return;
    }
    hf__berth_part(conn, berth);
    hf__berth_join(seat, berth);
    berth->state = HF__BERTH_CALLING;
    if (seat->base.state == HF__CONN_UP)
        hf__berth_seated(seat);
}

static void begin(struct hf__postgres *conn, struct hf__berth *berth)
{
    const struct hf__berth *other = NULL;
    enum way way = find_way(conn, berth, &other);

    assert(berth->state == HF__BERTH_OUT);

    hf__list_remove(&berth->parted);
    berth->was_broken = berth->was_crowded = false;
    if (way == WAY_CLASH) {
        hf__berth_fail(conn, berth,
                       hf__error_set(conn->base.error, HF_EINTEGRITY,
                                     "another name that is in use here has the same key"));
        hf__berth_go_out(conn, berth);
    } else if (way == WAY_MAIN) {
        hf__berth_join(conn, berth);
        berth->state = HF__BERTH_TRYING;
        hf__berth_step(conn, HF__STATEMENT_ADVISORY_TRY, berth);
    } else if (berth->queueing) {
        hf__advisory_call(conn, berth, other);
    } else {
        refuse_by(conn, berth, other);
    }
}

/* --- what the core asks --- */

static void serve_claim(struct hf__postgres *conn, struct hf__berth *berth)
{
    switch (berth->state) {
    case HF__BERTH_OUT:
        if (berth->entry.ticket.kind == HF__REQUEST_CLAIM)
            begin(conn, berth);
        else
            hf__berth_answer_plainly(conn, berth, HF__REPLY_GONE);
        break;
    case HF__BERTH_BLOCKED:
        if (berth->in_line && !berth->quits)
            hf__berth_answer(
                conn, berth,
                &(struct hf__reply){ .kind = HF__REPLY_QUEUED, .ahead = berth->ahead });
        break;
    case HF__BERTH_LOCKED:
        if (!berth->looks) /* also where it must wait: it is a sign of life */
            hf__berth_enter(berth);
        break;
    case HF__BERTH_TRYING:
    case HF__BERTH_CALLING:
    case HF__BERTH_ENTERING:
    case HF__BERTH_HELD:
    case HF__BERTH_LEAVING:
        break; /* the answer that is under way, or what follows it, answers this too */
    }
}

static void serve_release(struct hf__postgres *conn, struct hf__berth *berth)
{
    switch (berth->state) {
    case HF__BERTH_OUT:
        hf__berth_answer_plainly(conn, berth, HF__REPLY_GONE);
        break;
    case HF__BERTH_CALLING:
        hf__seat_give_back(berth->session);
        hf__berth_go_out(conn, berth);
        hf__berth_answer_plainly(conn, berth, HF__REPLY_GONE);
        break;
    case HF__BERTH_BLOCKED:
        if (!berth->quits)
            hf__berth_quit(conn, berth);
        break;
    case HF__BERTH_LOCKED:
    case HF__BERTH_HELD:
        if (!berth->looks)
            hf__berth_leave(conn, berth);
        break;
    case HF__BERTH_TRYING:
    case HF__BERTH_ENTERING:
    case HF__BERTH_LEAVING:
        break;
    }
}

/* Whatever was asked, as far as it can be answered where the claim stands now. */
void hf__advisory_serve(struct hf__postgres *conn, struct hf__berth *berth)
{
    enum hf__request_kind kind = berth->entry.ticket.kind;

    if (kind == HF__REQUEST_NONE)
        return;
    if (kind == HF__REQUEST_RELEASE)
        serve_release(conn, berth);
    else if (kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_INSPECT)
        serve_claim(conn, berth);
    else if (kind == HF__REQUEST_DOWNGRADE && berth->state == HF__BERTH_HELD)
        hf__berth_step(berth->session, HF__STATEMENT_ADVISORY_LOWER, berth);
    else
        hf__berth_answer_plainly(conn, berth, HF__REPLY_GONE);
}

/* The first 8 bytes of SHA-256 over prefix and name, as a signed number. */
static int64_t key_of(const struct hf__postgres *conn, const struct hf__request *request)
{
    uint8_t text[HF__POSTGRES_PREFIX_BYTES + HF_NAME_BYTES_MAX];
    uint8_t digest[32];
    size_t bytes = strlen(conn->prefix);
    uint64_t number;

    if (conn->has_key)
        return conn->lock_key;
    memcpy(text, conn->prefix, bytes);
    memcpy(text + bytes, request->name, request->name_bytes);
    hf__sha256(text, bytes + request->name_bytes, digest);
    memcpy(&number, digest, sizeof(number));
    return (int64_t)be64toh(number);
}

static struct hf__berth *add_berth(struct hf__postgres *conn, const struct hf__request *request)
{
    struct hf__berth *berth = hf__berth_of(
        hf__roll_add(&conn->roll, request->ticket.claim_id, sizeof(*berth) + request->name_bytes));

    if (!berth)
        return NULL;
    hf__list_init(&berth->parted);
    hf__list_init(&berth->timed);
    berth->at_ns = HF__NEVER;
    berth->key = key_of(conn, request);
    berth->lease_ns = request->lease_ns;
    berth->name_bytes = request->name_bytes;
    memcpy(berth->name, request->name, request->name_bytes);
    memcpy(berth->token, request->token, HF__TOKEN_BYTES);
    hf__list_append(&conn->parted, &berth->parted);
    return berth;
}

/* Another lease counts from when the server is asked to obey it. */
static int renew(struct hf__postgres *conn, struct hf__berth *berth,
                 const struct hf__request *request)
{
    struct hf__postgres *session = berth->session;

    if (request->lease_ns != berth->lease_ns) {
        hf__berth_part(conn, berth);
        berth->lease_ns = request->lease_ns;
        hf__berth_join(session, berth);
    }
    return hf__postgres_collect(session, request);
}

int hf__advisory_submit(struct hf__postgres *conn, const struct hf__request *request)
{
    enum hf__request_kind kind = request->ticket.kind;
    struct hf__berth *berth = hf__berth_of(hf__roll_find(&conn->roll, request->ticket.claim_id));
    bool looks =
        kind == HF__REQUEST_RENEW || kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_INSPECT;

    if (kind == HF__REQUEST_LIST || kind == HF__REQUEST_BREAK ||
        (kind == HF__REQUEST_RELEASE && !berth))
        return 1;
    if (berth && looks && berth->state == HF__BERTH_HELD && !berth->was_broken)
        return renew(conn, berth, request);
    if (!berth)
        berth = add_berth(conn, request);
    if (!berth)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    if (kind == HF__REQUEST_CLAIM && berth->state == HF__BERTH_OUT) {
        berth->queueing = request->queueing;
        berth->shared = request->mode == HF_SHARED;
        berth->lease_ns = request->lease_ns;
        berth->grace_ns = request->grace_ns;
        hf__bearer_write(request, conn->whence, conn->purpose, berth->who);
    }
    hf__roll_ask(&conn->roll, &berth->entry, request);
    berth->entry.sent = berth->state != HF__BERTH_OUT;
    hf__advisory_serve(conn, berth);
    return HF_OK;
}

/* --- the end of a session --- */

static void lose(struct hf__postgres *conn, struct hf__berth *berth, int status)
{
    bool calls = berth->state == HF__BERTH_CALLING;
    bool asked = berth->entry.ticket.kind != HF__REQUEST_NONE;

    if (berth->state == HF__BERTH_OUT)
        return;
    if (berth->state == HF__BERTH_HELD || berth->tells_broken || (!asked && !berth->quits)) {
        berth->entry.gone = berth->tells_broken ? "broken" : HF__BERTH_ENDED;
        berth->tells_broken = false;
        hf__roll_tell(&conn->roll, &berth->entry);
    }
    if ((berth->state == HF__BERTH_BLOCKED || berth->state == HF__BERTH_LOCKED) && !conn->ending)
        hf__berth_step(conn, HF__STATEMENT_ADVISORY_FORGET, berth);
    hf__berth_go_out(conn, berth);
    if (calls && !conn->ending && berth->entry.ticket.kind == HF__REQUEST_CLAIM)
        hf__berth_answer_plainly(conn, berth, HF__REPLY_REFUSED); /* it asks again, here */
    hf__roll_give_up(&conn->roll, &berth->entry, status);
}

void hf__advisory_bereft(struct hf__postgres *session)
{
    struct hf__postgres *conn = hf__berth_main(session);

    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__berth *berth = hf__berth_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (session == conn || berth->session == session || berth->leaves == session)
            lose(conn, berth, session->end_status);
    }
    session->sitter = NULL;
    if (session == conn)
        hf__seat_done(conn);
}

/* --- going on --- */

static void do_due(struct hf__postgres *conn)
{
    HF__LIST_FOR(place, &conn->timed)
    {
        struct hf__berth *berth = HF__LIST_ENTRY(place, struct hf__berth, timed);

        if (conn->now_ns < berth->at_ns)
            continue;
        hf__berth_set_timer(conn, berth, HF__NEVER);
        if (berth->state == HF__BERTH_BLOCKED && berth->quits)
            hf__berth_quit(conn, berth);
        else if (berth->state == HF__BERTH_BLOCKED && !berth->in_line)
            hf__berth_look(conn, berth);
        else if (berth->state == HF__BERTH_LOCKED)
            hf__heard_lock(conn, berth);
        else if (berth->state == HF__BERTH_HELD && berth->was_broken)
            hf__berth_leave(conn, berth);
    }
}

/* What nobody asked for has changed how long the session may be silent. */
static void tend(struct hf__postgres *session)
{
    if (session->greeted && !session->ending && hf__list_empty(&session->errands) &&
        session->collected_count == 0 && session->idle_told_ns != session->idle_ns)
        hf__berth_step(session, HF__STATEMENT_ADVISORY_IDLE, NULL);
}

static void tend_all(struct hf__postgres *conn)
{
    tend(conn);
    for (size_t i = 0; i < HF__POSTGRES_SEATS; i++) {
        if (conn->seats[i])
            tend(conn->seats[i]);
    }
}

static void sweep(struct hf__postgres *conn)
{
    HF__LIST_FOR(place, &conn->parted)
    {
        struct hf__berth *berth = HF__LIST_ENTRY(place, struct hf__berth, parted);

        if (berth->under_way > 0 || berth->entry.ticket.kind != HF__REQUEST_NONE)
            continue;
        hf__list_remove(&berth->parted);
        hf__list_remove(&berth->timed);
        hf__roll_remove(&conn->roll, &berth->entry);
    }
}

int hf__advisory_advance(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    struct hf__entry *late;

    if (conn->ending) {
        hf__advisory_bereft(conn);
        return hf__roll_next(&conn->roll, out_reply) ? 1 : 0;
    }
    do_due(conn);
    if (hf__seat_advance(conn, out_reply) > 0)
        return 1;
    for (late = hf__roll_late(&conn->roll, conn->now_ns); late;
         late = hf__roll_late(&conn->roll, conn->now_ns))
        hf__roll_give_up(
            &conn->roll, late,
            hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: no answer in time", conn->peer));
    tend_all(conn);
    if (hf__roll_next(&conn->roll, out_reply))
        return 1;
    sweep(conn);
    return 0;
}

void hf__advisory_pollset(struct hf__postgres *conn, struct hf__pollset *set)
{
    hf__pollset_until(set, conn->roll.first_deadline_ns);
    HF__LIST_FOR(place, &conn->timed)
    {
        hf__pollset_until(set, HF__LIST_ENTRY(place, struct hf__berth, timed)->at_ns);
    }
    hf__seat_pollset(conn, set);
}

void hf__advisory_done(struct hf__postgres *conn)
{
    hf__list_init(&conn->parted);
    hf__list_init(&conn->timed);
    hf__roll_done(&conn->roll);
}

const struct hf__recipe hf__postgres_advisory = {
    .name = "advisory",
    .url_forms = "postgres://user[:password]@host[:port][,host...]/database?recipe=advisory"
                 "[&lock_key=N]",
    .summary = "pg_advisory_lock, held and waited for by sessions: excludes other programs that "
               "use the same key.",
    .caveat = "A lock ends with its session, so also with the server; other programs get in at "
              "once then, though the lost holder may not know yet, and ours when its lease must "
              "have ended, after a holder that stands still up to two leases. In order of arrival "
              "and woken for up to 16 contended names of a client, each on a connection of its "
              "own; beyond them by asking again. Whoever waits keeps back VACUUM. PostgreSQL 14 "
              "or later.",
    .schema = hf__statement_advisory,
    .pattern = HF__PATTERN_QUEUE,
    .promises = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                HF_PROMISE_CRASH,
    .hands_on = true,
    .leases = true,
    .in_session = true,
};
