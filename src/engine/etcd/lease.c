/* lease.c: how long does the server keep what is ours?
 *
 * Turns of equal length share a lease, with an id that we choose; it is granted when the first
 * needs it, and given signs of life while anybody lodges there. One sign answers for all.
 *
 * A sign of life that was acknowledged proves little by itself: a leader that was stopped, and
 * does not know yet that there is another, acknowledges it too. And such a leader may have leases
 * ended when it goes on, though its successor keeps them alive (etcd's issue 15247). So a read goes
 * behind the acknowledgement, which only a leader with a majority behind it answers, and which
 * tells its term. If that is the term in which the lease was granted, nobody else has ever counted
 * how long it lives, nor will before the sign of life was sent: from then on the turn is valid. If
 * it is a later one, the lease is past: whoever lodges there moves to a new one, which no former
 * leader has heard of.
 *
 * What can go wrong: the lease is not known any more: its keys are gone, and all who lodged there
 * are told. A grant whose answer is lost: the id is ours, so it is asked for again, and "there is
 * such a lease" is as good as an answer. */
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/etcd.h"

#define SIGNS   3          /* of life, in the time of a lease */
#define FRESH   12         /* such a part of the lease is not worth another sign */
#define TTL_MAX 9000000000 /* s: the server's own limit */

struct hf__lease *hf__lease_find(const struct hf__etcd *conn, int64_t id)
{
    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        if (lease->id == id)
            return lease;
    }
    return NULL;
}

size_t hf__lease_guard_key(const struct hf__etcd *conn, const struct hf__lease *lease,
                           char out_key[HF__LOCK_KEY_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    char *end = out_key + conn->prefix_bytes;

    /* It has no "/" behind the prefix, so it is in nobody's line. */
    memcpy(out_key, conn->prefix, conn->prefix_bytes);
    *end++ = '@';
    for (int shift = 60; shift >= 0; shift -= 4)
        *end++ = digits[(uint64_t)lease->id >> shift & 15];
    return (size_t)(end - out_key);
}

static int64_t ttl_of(uint64_t lease_ns)
{
    return (int64_t)((lease_ns + HF__NS_PER_S - 1) / HF__NS_PER_S);
}

static int64_t next_id(struct hf__etcd *conn)
{
    uint64_t id = (conn->client_id + ++conn->lease_count * 0x9e3779b97f4a7c15) & INT64_MAX;

    return id > 0 ? (int64_t)id : 1;
}

/* --- who lodges where --- */

/* Too old to be counted upon, or past, with nobody there whom that concerns. */
static bool is_stale(const struct hf__etcd *conn, const struct hf__lease *lease)
{
    return lease->is_alive && lease->pins == 0 && hf__list_empty(&lease->stands) &&
           (lease->is_past || conn->now_ns > lease->alive_ns + lease->ttl_ns / 2);
}

static void drop(struct hf__etcd *conn, struct hf__lease *lease)
{
    hf__list_remove(&lease->member);
    hf__env_free(conn->base.env, lease);
}

struct hf__lease *hf__lease_for(struct hf__etcd *conn, struct hf__stand *stand)
{
    int64_t ttl_s = ttl_of(stand->lease_ns);
    struct hf__lease *lease = NULL;

    if (stand->lease && stand->lease->ttl_s == ttl_s && !stand->lease->is_past)
        return stand->lease;
    if (stand->next && stand->next->ttl_s == ttl_s && !stand->next->is_past)
        return stand->next;
    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *other = HF__LIST_ENTRY(member, struct hf__lease, member);

        if (is_stale(conn, other))
            drop(conn, other); /* it ends by itself */
        else if (other->ttl_s == ttl_s && !other->is_fixed && !stand->is_fixed && !other->is_past)
            lease = other;
    }
    if (lease)
        return lease;
    lease = hf__env_new(conn->base.env, sizeof(*lease));
    if (!lease)
        return NULL;
    lease->id = next_id(conn);
    lease->ttl_s = ttl_s < TTL_MAX ? ttl_s : TTL_MAX;
    lease->is_fixed = stand->is_fixed;
    hf__list_init(&lease->member);
    hf__list_init(&lease->stands);
    hf__list_init(&lease->renewals);
    hf__list_init(&lease->waiting);
    hf__list_append(&conn->leases, &lease->member);
    return lease;
}

void hf__lease_aim(struct hf__stand *stand, struct hf__lease *lease)
{
    if (stand->next)
        stand->next->pins--;
    stand->next = lease;
    if (lease)
        lease->pins++;
}

void hf__lease_lodge(struct hf__stand *stand, struct hf__lease *lease)
{
    hf__list_remove(&stand->lodger);
    stand->lease = lease;
    hf__list_append(&lease->stands, &stand->lodger);
}

void hf__lease_leave(struct hf__etcd *conn, struct hf__stand *stand)
{
    struct hf__lease *lease = stand->lease;

    hf__list_remove(&stand->lodger);
    hf__list_remove(&stand->renewal);
    stand->lease = NULL;
    if (!lease || !lease->is_fixed || !hf__list_empty(&lease->stands) || lease->is_asked ||
        lease->pins > 0)
        return;
    if (lease->is_alive && conn->greeted && !conn->ending) {
        Hf__Etcd__LeaseRevokeRequest request = HF__ETCD__LEASE_REVOKE_REQUEST__INIT;

        request.id = lease->id;
        (void)hf__query_send(conn, HF__QUERY_REVOKE, HF__WAY_CALLS, &request.base);
    }
    drop(conn, lease);
}

void hf__lease_void(struct hf__etcd *conn, struct hf__lease *lease)
{
    struct hf__list homeless; /* claims that have not left yet: the server will say nothing */

    hf__list_init(&homeless);
    lease->is_alive = false;
    HF__LIST_FOR(node, &lease->stands)
    {
        struct hf__stand *stand = HF__LIST_ENTRY(node, struct hf__stand, lodger);

        hf__list_remove(&stand->lodger);
        hf__list_remove(&stand->renewal);
        stand->lease = NULL;
        if (stand->state != HF__STAND_LEAVING && hf__convoy_leave(conn, stand))
            hf__list_append(&homeless, &stand->renewal);
        hf__stand_lose(conn, stand, "expired");
    }
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__stand *stand =
            (struct hf__stand *)HF__LIST_ENTRY(member, struct hf__entry, member);

        if (stand->next == lease)
            hf__lease_aim(stand, NULL);
    }
    drop(conn, lease);
    HF__LIST_FOR(node, &homeless)
    {
        hf__list_remove(node);
        hf__revision_claim(conn, HF__LIST_ENTRY(node, struct hf__stand, renewal));
    }
}

uint64_t hf__lease_left_ns(const struct hf__stand *stand)
{
    uint64_t end_ns = stand->lease ? stand->lease->alive_ns + stand->lease->ttl_ns : 0;
    uint64_t sent_ns = stand->entry.ticket.sent_ns;
    uint64_t left_ns = end_ns > sent_ns ? end_ns - sent_ns : 1;

    return stand->lease_ns < left_ns ? stand->lease_ns : left_ns;
}

/* --- the grant --- */

void hf__lease_ask(struct hf__etcd *conn, struct hf__lease *lease)
{
    Hf__Etcd__LeaseGrantRequest request = HF__ETCD__LEASE_GRANT_REQUEST__INIT;
    struct hf__quest *quest;

    if (lease->is_asked)
        return;
    request.id = lease->id;
    request.ttl = lease->ttl_s;
    quest = hf__query_send(conn, HF__QUERY_GRANT, HF__WAY_CALLS, &request.base);
    if (!quest)
        return;
    quest->lease_id = lease->id;
    lease->is_asked = true;
    if (lease->signed_ns == 0 || conn->term < lease->term)
        lease->term = conn->term;
    if (lease->signed_ns == 0)
        lease->signed_ns = conn->now_ns; /* the first time that it may have been heard of */
}

void hf__lease_wait(struct hf__etcd *conn, struct hf__stand *stand, struct hf__lease *lease)
{
    stand->entry.sent = true;
    hf__list_append(&lease->waiting, &stand->renewal);
    hf__lease_ask(conn, lease);
}

static void move_all(struct hf__list *from, struct hf__list *to)
{
    while (!hf__list_empty(from)) {
        struct hf__list *first = from->next;

        hf__list_remove(first);
        hf__list_append(to, first);
    }
}

/* Stands that were taken out of the lists of their leases: to find another one lets go of those
 * that nobody needs. */
static void go_on(struct hf__etcd *conn, struct hf__list *stands, int status)
{
    while (!hf__list_empty(stands)) {
        struct hf__stand *stand = HF__LIST_ENTRY(stands->next, struct hf__stand, renewal);

        hf__list_remove(&stand->renewal);
        if (status < 0)
            hf__stand_fail(conn, stand, status);
        else
            hf__revision_go_on(conn, stand);
    }
}

/* Those who waited for it go on, perhaps without it. */
static void serve(struct hf__etcd *conn, struct hf__lease *lease, int status)
{
    struct hf__list served;

    hf__list_init(&served);
    move_all(&lease->waiting, &served);
    go_on(conn, &served, status);
}

void hf__lease_hear_grant(struct hf__etcd *conn, const struct hf__quest *quest,
                          const struct hf__rpc_event *event)
{
    struct hf__lease *lease = hf__lease_find(conn, quest->lease_id);
    Hf__Etcd__LeaseGrantResponse *response;
    bool is_there = event->kind == HF__RPC_FAILED && event->fate == HF__RPC_FATE_ANSWERED &&
                    event->code == HF__RPC_CODE_FAILED_PRECONDITION;
    bool perhaps;

    if (!lease)
        return;
    lease->is_asked = false;
    if (is_there) { /* an earlier try got through, and was heard no earlier than it was sent */
        lease->ttl_ns = (uint64_t)lease->ttl_s * HF__NS_PER_S;
        lease->alive_ns = lease->signed_ns;
        lease->is_alive = true;
        serve(conn, lease, HF_OK);
        return;
    }
    if (event->kind == HF__RPC_FAILED) {
        serve(conn, lease, hf__query_status(conn, event, &perhaps));
        return;
    }
    response = hf__query_unpack(conn, &hf__etcd__lease_grant_response__descriptor, event);
    if (!response)
        return;
    if (response->id != lease->id || response->ttl <= 0 || response->ttl > TTL_MAX ||
        *response->error) {
        hf__etcd_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                         "the server granted another lease than was asked for"));
    } else {
        hf__lease_see_term(conn, response->header, false);
        lease->ttl_ns = (uint64_t)response->ttl * HF__NS_PER_S;
        lease->alive_ns = lease->signed_ns = quest->sent_ns;
        lease->is_alive = true;
        serve(conn, lease, HF_OK);
    }
    hf__message_free(&conn->memory, &response->base);
}

/* --- terms --- */

/* A server never knows of an earlier term than it did before, and what is asked of it after that is
 * done by who leads in that term, or in a later one. Another server may know of a term in which
 * nobody leads yet: so only what this one says is kept. */
void hf__lease_see_term(struct hf__etcd *conn, const Hf__Etcd__ResponseHeader *header,
                        bool is_first)
{
    if (is_first) {
        conn->member_id = header ? header->member_id : 0;
        conn->term = 0;
    }
    if (!header || header->member_id != conn->member_id || header->raft_term <= conn->term)
        return;
    conn->term = header->raft_term;
    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        lease->is_past = lease->is_past || lease->term < conn->term;
    }
}

/* --- signs of life --- */

static uint64_t due_ns(const struct hf__etcd *conn, const struct hf__lease *lease)
{
    if (!lease->is_alive || hf__list_empty(&lease->stands))
        return HF__NEVER;
    if (lease->is_past)
        return hf__list_empty(&lease->renewals) ? HF__NEVER : 0;
    if (lease->sign != HF__SIGN_NONE)
        return lease->sign == HF__SIGN_ANSWERED && !conn->is_probing ? 0 : HF__NEVER;
    if (!hf__list_empty(&lease->renewals))
        return 0;
    if (lease->is_fixed) /* only who asks for it gets more time */
        return HF__NEVER;
    return lease->alive_ns + lease->ttl_ns / SIGNS;
}

uint64_t hf__lease_deadline(const struct hf__etcd *conn)
{
    uint64_t first_ns = HF__NEVER;

    if (!conn->greeted)
        return HF__NEVER;
    HF__LIST_FOR(member, &conn->leases)
    {
        uint64_t at_ns = due_ns(conn, HF__LIST_ENTRY(member, struct hf__lease, member));

        if (at_ns < first_ns)
            first_ns = at_ns;
    }
    return first_ns;
}

static void send_sign(struct hf__etcd *conn, struct hf__lease *lease)
{
    Hf__Etcd__LeaseKeepAliveRequest request = HF__ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    struct hf__rpc_bytes message;

    request.id = lease->id;
    hf__buffer_consume(&conn->packed, hf__buffer_count(&conn->packed));
    if (hf__message_pack(&request.base, &conn->packed) < 0)
        return;
    message.at = hf__buffer_front(&conn->packed);
    message.count = hf__buffer_count(&conn->packed);
    if (hf__rpc_send(conn->links[HF__WAY_KEEP].rpc, conn->keeping, message) < 0)
        return; /* the stream has ended, which will be told */
    lease->sign = HF__SIGN_SENT;
    lease->signed_ns = conn->now_ns;
}

/* Behind all signs of life that were answered. */
static void probe(struct hf__etcd *conn)
{
    Hf__Etcd__RangeRequest request = HF__ETCD__RANGE_REQUEST__INIT;
    bool is_wanted = false;

    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        if (lease->sign != HF__SIGN_ANSWERED || lease->is_past)
            continue;
        lease->sign = HF__SIGN_READ;
        is_wanted = true;
    }
    if (!is_wanted)
        return;
    request.key = hf__etcd_proof_key(conn);
    request.count_only = true;
    conn->is_probing = hf__query_send(conn, HF__QUERY_PROBE, HF__WAY_KEEP, &request.base) != NULL;
}

static void move_on(struct hf__etcd *conn)
{
    struct hf__list movers;

    hf__list_init(&movers);
    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        if (lease->is_past)
            move_all(&lease->renewals, &movers);
    }
    go_on(conn, &movers, HF_OK);
}

void hf__lease_keep(struct hf__etcd *conn)
{
    if (conn->now_ns < hf__lease_deadline(conn))
        return;
    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);
        uint64_t at_ns = due_ns(conn, lease);

        /* Whoever is due soon need not come again. */
        if (lease->sign == HF__SIGN_NONE && !lease->is_past && at_ns < HF__NEVER &&
            conn->now_ns + lease->ttl_ns / FRESH >= at_ns)
            send_sign(conn, lease);
    }
    if (!conn->is_probing)
        probe(conn);
    move_on(conn);
}

static void answer_alive(struct hf__etcd *conn, struct hf__stand *stand)
{
    uint64_t alive_ns = stand->lease->alive_ns;

    if (stand->entry.ticket.sent_ns > alive_ns)
        stand->entry.ticket.sent_ns = alive_ns;
    hf__stand_answer(conn, stand,
                     stand->state == HF__STAND_HELD     ? HF__REPLY_GRANTED
                     : stand->state == HF__STAND_QUEUED ? HF__REPLY_QUEUED
                                                        : HF__REPLY_GONE);
}

static void hear_sign(struct hf__etcd *conn, const Hf__Etcd__LeaseKeepAliveResponse *response)
{
    struct hf__lease *lease = hf__lease_find(conn, response->id);

    if (!lease || lease->sign != HF__SIGN_SENT)
        return; /* of one that we have let go */
    lease->sign = HF__SIGN_ANSWERED;
    if (response->ttl <= 0 || response->ttl > TTL_MAX)
        hf__lease_void(conn, lease);
    else
        lease->ttl_ns = (uint64_t)response->ttl * HF__NS_PER_S;
}

void hf__lease_hear_kept(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    Hf__Etcd__LeaseKeepAliveResponse *response;
    bool perhaps;

    if (event->kind == HF__RPC_ENDED) {
        conn->keeping = NULL;
        hf__etcd_end(conn, hf__query_status(conn, event, &perhaps));
        return;
    }
    response = hf__query_unpack(conn, &hf__etcd__lease_keep_alive_response__descriptor, event);
    if (!response)
        return;
    hear_sign(conn, response);
    hf__message_free(&conn->memory, &response->base);
}

/* Whoever acknowledged the sign of life was the leader of the lease's own term, and still was when
 * the read was answered. */
static void believe(struct hf__etcd *conn, struct hf__lease *lease)
{
    lease->alive_ns = lease->signed_ns;
    HF__LIST_FOR(node, &lease->renewals)
    {
        struct hf__stand *stand = HF__LIST_ENTRY(node, struct hf__stand, renewal);

        hf__list_remove(node);
        answer_alive(conn, stand);
    }
}

static void hear_read(struct hf__etcd *conn, const Hf__Etcd__ResponseHeader *header)
{
    uint64_t term = header ? header->raft_term : 0;

    conn->is_probing = false;
    hf__lease_see_term(conn, header, false);
    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        if (lease->sign != HF__SIGN_READ)
            continue;
        lease->sign = HF__SIGN_NONE;
        lease->is_past = lease->is_past || term > lease->term;
        if (!lease->is_past)
            believe(conn, lease);
    }
}

/* We may not read that; but it was read: that is found out after the leader was asked. What we were
 * not told is the term; but whoever told us no knows of no earlier one. */
static void hear_denial(struct hf__etcd *conn)
{
    Hf__Etcd__StatusRequest request = HF__ETCD__STATUS_REQUEST__INIT;

    (void)hf__query_send(conn, HF__QUERY_TERM, HF__WAY_KEEP, &request.base);
}

void hf__lease_hear_probe(struct hf__etcd *conn, const struct hf__quest *quest,
                          const struct hf__rpc_event *event)
{
    bool is_read = quest->query == HF__QUERY_PROBE;
    ProtobufCMessage *message;
    bool perhaps;
    int status = event->kind == HF__RPC_FAILED ? hf__query_status(conn, event, &perhaps) : HF_OK;

    if (status == HF_EDENIED && is_read) {
        hear_denial(conn);
        return;
    }
    if (status < 0) {
        hf__etcd_end(conn, status);
        return;
    }
    message = hf__query_unpack(conn,
                               is_read ? &hf__etcd__range_response__descriptor
                                       : &hf__etcd__status_response__descriptor,
                               event);
    if (!message)
        return;
    hear_read(conn, is_read ? ((Hf__Etcd__RangeResponse *)message)->header
                            : ((Hf__Etcd__StatusResponse *)message)->header);
    hf__message_free(&conn->memory, message);
}

/* A turn may be much shorter than the least lease of the server: measured by that, what is fresh
 * enough for the lease would be too old for the turn, which would ask again at once, for ever. */
static bool is_fresh(const struct hf__etcd *conn, const struct hf__stand *stand)
{
    const struct hf__lease *lease = stand->lease;
    uint64_t least_ns = stand->lease_ns < lease->ttl_ns ? stand->lease_ns : lease->ttl_ns;

    return conn->now_ns < lease->alive_ns + least_ns / FRESH;
}

void hf__lease_renew(struct hf__etcd *conn, struct hf__stand *stand)
{
    struct hf__lease *lease = stand->lease;

    stand->entry.sent = true;
    hf__list_remove(&stand->renewal);
    if (!stand->extends && is_fresh(conn, stand))
        answer_alive(conn, stand);
    else
        hf__list_append(&lease->renewals, &stand->renewal);
}

/* --- ends --- */

void hf__lease_disconnect(struct hf__etcd *conn)
{
    conn->is_probing = false;
    conn->keeping = NULL;
    HF__LIST_FOR(member, &conn->leases)
    {
        struct hf__lease *lease = HF__LIST_ENTRY(member, struct hf__lease, member);

        lease->sign = HF__SIGN_NONE;
        lease->is_asked = false;
    }
}

void hf__lease_revoke_all(struct hf__etcd *conn)
{
    Hf__Etcd__LeaseRevokeRequest request = HF__ETCD__LEASE_REVOKE_REQUEST__INIT;

    HF__LIST_FOR(member, &conn->leases)
    {
        request.id = HF__LIST_ENTRY(member, struct hf__lease, member)->id;
        if (!conn->ending)
            (void)hf__query_send(conn, HF__QUERY_REVOKE, HF__WAY_CALLS, &request.base);
    }
}

void hf__lease_done(struct hf__etcd *conn)
{
    HF__LIST_FOR(member, &conn->leases)
    {
        hf__list_remove(member);
        hf__env_free(conn->base.env, HF__LIST_ENTRY(member, struct hf__lease, member));
    }
}
