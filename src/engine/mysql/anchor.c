/* anchor.c: a lock that is a session's (GET_LOCK) or a transaction's (SELECT ... FOR UPDATE): where
 * does a claim stand, and what comes next?
 *
 * The happy path of `named`: the client's first session tries, and one procedure of the server
 * takes the lock, draws the fence and commits it. Who finds it taken waits in a session of its own
 * (rope.c), where the server lets it in, and then draws the fence there. `for-update` has a session
 * for every lock, whose transaction stays open; the first session commits the fence. A renewal is a
 * sign of life of the session: the server ends one that is silent for the shortest lease of what it
 * has, and never sooner than we have stopped believing.
 *
 * What can go wrong: the session ends: all that it had is lost, and whoever of ours gets the lock
 * next waits until the lease of the lost one must have ended. Sixteen wait already: the claim is
 * refused, and asks again. A claim that no longer waits: its session is cut, and ended by the first
 * one. The server lets a session have one lock twice, so the first session is never asked for one
 * that it has. A break: the holder is told, and gives it back itself. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "engine/mysql/mysql.h"

#define KEY_BYTES_OF_MYSQL 64
#define KEY_DIGEST_BYTES   24
#define ENDED              "session ended"

void hf__anchor_init(struct hf__mysql *conn, uint64_t client_id)
{
    hf__roll_init(&conn->mooring.roll, conn->base.env);
    hf__list_init(&conn->mooring.parted);
    hf__list_init(&conn->mooring.timed);
    conn->mooring.client_id = client_id;
}

void hf__anchor_done(struct hf__mysql *conn)
{
    hf__rope_done(conn);
    if (!conn->mooring.roll.env)
        return;
    hf__list_init(&conn->mooring.parted);
    hf__list_init(&conn->mooring.timed);
    hf__roll_done(&conn->mooring.roll);
    conn->mooring.idle_ns = conn->mooring.idle_told_ns = conn->mooring.idle_count = 0;
}

/* --- beginning --- */

/* One of the same name that the first session has, or is asked for. */
static const struct hf__anchor *find_other(struct hf__mysql *conn, const struct hf__anchor *anchor)
{
    HF__LIST_FOR(member, &conn->mooring.roll.members)
    {
        const struct hf__anchor *other =
            hf__anchor_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (other != anchor && other->session == conn && other->key_bytes == anchor->key_bytes &&
            memcmp(other->key, anchor->key, anchor->key_bytes) == 0)
            return other;
    }
    return NULL;
}

static void refuse_by(struct hf__mysql *conn, struct hf__anchor *anchor,
                      const struct hf__anchor *other)
{
    struct hf__reply reply = { .kind = HF__REPLY_REFUSED, .ahead = 1 };

    hf__bearer_read(other->who, strlen(other->who), &conn->bearer);
    reply.holder = conn->bearer.is_known ? &conn->bearer.holder : NULL;
    hf__mooring_answer(conn, anchor, &reply);
    hf__mooring_go_out(conn, anchor);
}

static void call(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    struct hf__mysql *rope = hf__rope_take(conn, anchor);

    if (!rope && anchor->queueing) {
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_REFUSED); /* it asks again */
        hf__mooring_go_out(conn, anchor);
        return;
    }
    if (!rope) {
        hf__mooring_fail(conn, anchor,
                         hf__error_set(conn->base.error, HF_ELIMIT,
                                       "no more connections for locks, of which %d are the most",
                                       HF__MYSQL_ROPES));
        hf__mooring_go_out(conn, anchor);
        return;
    }
    hf__mooring_join(rope, anchor);
    anchor->state = HF__ANCHOR_CALLING;
    if (anchor->waits)
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_QUEUED);
    hf__rope_ready(rope);
}

static void begin(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    const struct hf__anchor *other = NULL;

    assert(anchor->state == HF__ANCHOR_OUT);

    hf__list_remove(&anchor->parted);
    anchor->was_broken = anchor->waits = false;
    anchor->begun++;
    if (hf__sql_recipe(conn)->keeps_open) {
        call(conn, anchor);
        return;
    }
    other = find_other(conn, anchor);
    if (!other) {
        hf__mooring_join(conn, anchor);
        anchor->state = HF__ANCHOR_TRYING;
        hf__mooring_step(conn, HF__SQL_TRY, anchor);
    } else if (anchor->queueing && hf__rope_blocked(conn) < HF__MYSQL_BLOCKED) {
        anchor->waits = true;
        call(conn, anchor);
    } else {
        refuse_by(conn, anchor, other);
    }
}

/* --- what the core asks --- */

static void serve_claim(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    switch (anchor->state) {
    case HF__ANCHOR_OUT:
        if (anchor->entry.ticket.kind == HF__REQUEST_CLAIM)
            begin(conn, anchor);
        else
            hf__mooring_answer_plainly(conn, anchor, HF__REPLY_GONE);
        break;
    case HF__ANCHOR_CALLING:
        if (anchor->waits)
            hf__mooring_answer_plainly(conn, anchor, HF__REPLY_QUEUED);
        break;
    case HF__ANCHOR_BLOCKED:
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_QUEUED);
        break;
    case HF__ANCHOR_LOCKED: /* also where it must wait: it is a sign of life */
        hf__mooring_enter(anchor);
        break;
    case HF__ANCHOR_TRYING:
    case HF__ANCHOR_ENTERING:
    case HF__ANCHOR_CONFIRMING:
    case HF__ANCHOR_HELD:
    case HF__ANCHOR_LEAVING:
        break; /* the answer that is under way, or what follows it, answers this too */
    }
}

static void serve_release(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    switch (anchor->state) {
    case HF__ANCHOR_OUT:
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_GONE);
        break;
    case HF__ANCHOR_CALLING:
        hf__rope_give_back(anchor->session);
        hf__mooring_go_out(conn, anchor);
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_GONE);
        break;
    case HF__ANCHOR_BLOCKED:
        hf__mooring_quit(conn, anchor);
        break;
    case HF__ANCHOR_LOCKED:
    case HF__ANCHOR_HELD:
        hf__mooring_leave(conn, anchor);
        break;
    case HF__ANCHOR_TRYING:
    case HF__ANCHOR_ENTERING:
    case HF__ANCHOR_CONFIRMING:
    case HF__ANCHOR_LEAVING:
        break;
    }
}

void hf__anchor_serve(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    enum hf__request_kind kind = anchor->entry.ticket.kind;

    if (kind == HF__REQUEST_NONE)
        return;
    if (kind == HF__REQUEST_RELEASE)
        serve_release(conn, anchor);
    else if (kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_INSPECT)
        serve_claim(conn, anchor);
    else
        hf__mooring_answer_plainly(conn, anchor, HF__REPLY_GONE);
}

/* The server's name of a lock: ours, as it is, so that other programs' are excluded. One that is
 * too long for any program is called by its digest. */
static int name_key(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    bool maria = conn->about.is_mariadb;
    uint8_t digest[32];

    for (size_t i = 0; i < anchor->name_bytes && !maria; i++) {
        unsigned char byte = (unsigned char)anchor->name[i];

        if (byte >= 0x80 || (byte >= 'A' && byte <= 'Z'))
            return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                                 "MySQL's GET_LOCK does not tell great letters from small: 'named' "
                                 "has names of ASCII without great letters there");
    }
    anchor->key_bytes = anchor->name_bytes;
    if (anchor->name_bytes <= (maria ? HF__MYSQL_KEY_BYTES : KEY_BYTES_OF_MYSQL)) {
        memcpy(anchor->key, anchor->name, anchor->name_bytes);
        return HF_OK;
    }
    hf__sha256(anchor->name, anchor->name_bytes, digest);
    anchor->key_bytes =
        (size_t)snprintf(anchor->key, sizeof(anchor->key), "%s", HF__DATABASE_PREFIX);
    for (size_t i = 0; i < KEY_DIGEST_BYTES; i++)
        anchor->key_bytes +=
            (size_t)snprintf(anchor->key + anchor->key_bytes, 3, "%02x", digest[i]);
    return HF_OK;
}

static int add_anchor(struct hf__mysql *conn, const struct hf__request *request,
                      struct hf__anchor **out_anchor)
{
    struct hf__roll *roll = &conn->mooring.roll;
    struct hf__anchor *anchor = hf__anchor_of(
        hf__roll_add(roll, request->ticket.claim_id, sizeof(*anchor) + request->name_bytes));
    int status;

    if (!anchor)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    hf__list_init(&anchor->parted);
    hf__list_init(&anchor->timed);
    anchor->at_ns = HF__NEVER;
    anchor->lease_ns = request->lease_ns;
    anchor->name_bytes = request->name_bytes;
    memcpy(anchor->name, request->name, request->name_bytes);
    memcpy(anchor->token, request->token, HF__TOKEN_BYTES);
    status = hf__sql_recipe(conn)->keeps_open ? HF_OK : name_key(conn, anchor);
    if (status < 0) {
        hf__roll_remove(roll, &anchor->entry);
        return status;
    }
    hf__list_append(&conn->mooring.parted, &anchor->parted);
    *out_anchor = anchor;
    return HF_OK;
}

/* Another lease is written down first, for whoever comes next waits no longer than that. */
static int renew(struct hf__mysql *conn, struct hf__anchor *anchor,
                 const struct hf__request *request)
{
    if (request->lease_ns == anchor->lease_ns || request->ticket.kind != HF__REQUEST_RENEW)
        return hf__mysql_gather(anchor->session, request);
    anchor->next_lease_ns = request->lease_ns;
    hf__roll_ask(&conn->mooring.roll, &anchor->entry, request);
    hf__mooring_step(conn, HF__SQL_LEASE, anchor);
    return HF_OK;
}

int hf__anchor_submit(struct hf__mysql *conn, const struct hf__request *request)
{
    struct hf__roll *roll = &conn->mooring.roll;
    enum hf__request_kind kind = request->ticket.kind;
    struct hf__anchor *anchor = hf__anchor_of(hf__roll_find(roll, request->ticket.claim_id));
    bool looks =
        kind == HF__REQUEST_RENEW || kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_INSPECT;
    int status = HF_OK;

    /* Of one that is out: whoever comes next need not wait for the end of its lease. */
    if (kind == HF__REQUEST_LIST || kind == HF__REQUEST_BREAK ||
        (kind == HF__REQUEST_RELEASE && (!anchor || anchor->state == HF__ANCHOR_OUT)))
        return 1;
    if (anchor && looks && anchor->state == HF__ANCHOR_HELD && !anchor->was_broken)
        return renew(conn, anchor, request);
    if (!anchor)
        status = add_anchor(conn, request, &anchor);
    if (status < 0)
        return status;
    assert(anchor);
    if (kind == HF__REQUEST_CLAIM && anchor->state == HF__ANCHOR_OUT) {
        anchor->queueing = request->queueing;
        anchor->lease_ns = request->lease_ns;
        anchor->grace_ns = request->grace_ns;
        hf__bearer_write(request, conn->whence, conn->purpose, anchor->who);
    }
    hf__roll_ask(roll, &anchor->entry, request);
    anchor->entry.sent = anchor->state != HF__ANCHOR_OUT;
    hf__anchor_serve(conn, anchor);
    return HF_OK;
}

/* --- the end of a session --- */

static void lose(struct hf__mysql *conn, struct hf__anchor *anchor, int status)
{
    struct hf__roll *roll = &conn->mooring.roll;
    bool calls = anchor->state == HF__ANCHOR_CALLING;
    bool asked = anchor->entry.ticket.kind != HF__REQUEST_NONE;

    if (anchor->state == HF__ANCHOR_OUT)
        return;
    if (anchor->state == HF__ANCHOR_HELD || anchor->tells_broken || !asked) {
        anchor->entry.gone = anchor->tells_broken ? "broken" : ENDED;
        anchor->tells_broken = false;
        hf__roll_tell(roll, &anchor->entry);
    }
    hf__mooring_go_out(conn, anchor);
    if (calls && !conn->ending && anchor->entry.ticket.kind == HF__REQUEST_CLAIM)
        hf__mooring_fail(conn, anchor, status);
    hf__roll_give_up(roll, &anchor->entry, status);
}

void hf__anchor_bereft(struct hf__mysql *session)
{
    struct hf__mysql *conn = hf__mooring_main(session);

    HF__LIST_FOR(member, &conn->mooring.roll.members)
    {
        struct hf__anchor *anchor = hf__anchor_of(HF__LIST_ENTRY(member, struct hf__entry, member));

        if (session == conn || anchor->session == session)
            lose(conn, anchor, session->end_status);
    }
    session->mooring.anchor = NULL;
    if (session == conn)
        hf__rope_done(conn);
}

/* --- going on --- */

static void do_due(struct hf__mysql *conn)
{
    HF__LIST_FOR(place, &conn->mooring.timed)
    {
        struct hf__anchor *anchor = HF__LIST_ENTRY(place, struct hf__anchor, timed);

        if (conn->now_ns < anchor->at_ns)
            continue;
        hf__mooring_set_timer(conn, anchor, HF__NEVER);
        if (anchor->state == HF__ANCHOR_LOCKED)
            hf__outcome_locked(conn, anchor);
        else if (anchor->state == HF__ANCHOR_HELD && anchor->was_broken)
            hf__mooring_leave(conn, anchor);
    }
}

/* Nobody knows what becomes of it. A session that does not even let go is given up. */
static void give_up_late(struct hf__mysql *conn)
{
    struct hf__roll *roll = &conn->mooring.roll;
    struct hf__entry *late = hf__roll_late(roll, conn->now_ns);

    while (late) {
        struct hf__mysql *session = hf__anchor_of(late)->session;

        if (late->ticket.kind == HF__REQUEST_RELEASE && session && session != conn &&
            !session->ending)
            hf__mysql_end(session, HF_EUNREACHABLE);
        hf__roll_give_up(roll, late,
                         hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: no answer in time",
                                       hf__cable_peer(&conn->cable)));
        late = hf__roll_late(roll, conn->now_ns);
    }
}

static void tend_all(struct hf__mysql *conn)
{
    if (!hf__parcel_oldest(conn) && conn->gathered_count == 0)
        hf__mooring_tend(conn);
    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        struct hf__mysql *rope = conn->mooring.ropes[i];

        if (rope && !hf__parcel_oldest(rope) && rope->gathered_count == 0)
            hf__mooring_tend(rope);
    }
}

static void sweep(struct hf__mysql *conn)
{
    HF__LIST_FOR(place, &conn->mooring.parted)
    {
        struct hf__anchor *anchor = HF__LIST_ENTRY(place, struct hf__anchor, parted);

        if (anchor->under_way > 0 || anchor->entry.ticket.kind != HF__REQUEST_NONE)
            continue;
        hf__list_remove(&anchor->parted);
        hf__list_remove(&anchor->timed);
        hf__roll_remove(&conn->mooring.roll, &anchor->entry);
    }
}

int hf__anchor_advance(struct hf__mysql *conn, struct hf__reply *out_reply)
{
    if (!hf__sql_recipe(conn)->moors || conn->mooring.main)
        return 0;
    if (conn->ending) {
        hf__rope_end(conn);
        if (hf__rope_advance(conn, out_reply) > 0)
            return 1;
        hf__anchor_bereft(conn);
        return hf__roll_next(&conn->mooring.roll, out_reply) ? 1 : 0;
    }
    do_due(conn);
    if (hf__rope_advance(conn, out_reply) > 0)
        return 1;
    give_up_late(conn);
    tend_all(conn);
    if (hf__roll_next(&conn->mooring.roll, out_reply))
        return 1;
    sweep(conn);
    return 0;
}

void hf__anchor_pollset(struct hf__mysql *conn, struct hf__pollset *set)
{
    if (!hf__sql_recipe(conn)->moors || conn->mooring.main)
        return;
    hf__pollset_until(set, conn->mooring.roll.first_deadline_ns);
    HF__LIST_FOR(place, &conn->mooring.timed)
    {
        hf__pollset_until(set, HF__LIST_ENTRY(place, struct hf__anchor, timed)->at_ns);
    }
    hf__rope_pollset(conn, set);
}
