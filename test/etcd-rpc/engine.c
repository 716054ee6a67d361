/* engine.c: is everything heard that a thread has read for others, and done that several asked for
 * at once? The engine alone, by its seam, before a real etcd. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pollset.h"
#include "base/stream.h"
#include "base/url.h"
#include "check.h"
#include "engine/engine.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"
#include "store.h"

#define LEASE_NS   (30 * HF__NS_PER_S)
#define ANSWER_NS  (60 * HF__NS_PER_S)
#define HANG_MS    20000 /* an end to waiting, not a measure */
#define CLAIMS     5
#define TURNS      200 /* after fewer nobody is told any more what happens to a lock */
#define GRACE_NS   (20 * HF__NS_PER_S)
#define TRAVELLERS 16
#define CONNECT_US 5000 /* between two tries */
#define REFUSAL_MS 200  /* by then a refusal is there, most likely */

extern const struct hf__engine hf__etcd_engine;

struct desk {
    struct store store;
    struct failing_env world;
    struct hf__url url;
    struct hf__conn *conn;
    uint16_t number; /* no two on one store have the same */
    bool is_apart;   /* it has locks of its own, too */
};

static int advance(struct desk *desk, struct hf__reply *out_reply)
{
    return hf__etcd_engine.advance(desk->conn, hf__clock_now_ns(), out_reply);
}

/* As a thread that leads: it polls all that there is. */
static void wait_for_news(struct desk *desk)
{
    struct hf__pollset set;

    hf__pollset_init(&set);
    hf__etcd_engine.pollset(desk->conn, &set);
    (void)poll(set.fds, (nfds_t)set.count,
               (int)hf__clock_wait_ms(hf__clock_now_ns(), set.deadline_ns));
}

/* To a store that was started. */
static void desk_connect(struct desk *desk)
{
    struct hf__conn_options options = { .url = &desk->url,
                                        .purpose = "test",
                                        .lease_ns = LEASE_NS,
                                        .client_id = 1u + desk->number,
                                        .carries_calls = true,
                                        .carries_keeping = true };
    struct hf__reply reply;
    char error[HF__ERROR_BYTES];
    char text[64];

    (void)snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)desk->store.port);
    CHECK_EQUAL(hf__url_parse(text, &desk->url, error), HF_OK);
    failing_env_init(&desk->world, 0);
    desk->conn = hf__env_new(&desk->world.env, hf__etcd_engine.conn_size);
    CHECK(desk->conn);
    desk->conn->engine = &hf__etcd_engine;
    desk->conn->recipe = hf__etcd_engine.recipes[0];
    desk->conn->env = &desk->world.env;
    while (desk->conn->state != HF__CONN_UP) { /* it takes a moment until somebody is there */
        store_check(&desk->store);
        options.now_ns = hf__clock_now_ns();
        CHECK_EQUAL(hf__etcd_engine.open(desk->conn, &options), HF_OK);
        while (advance(desk, &reply) == 0 && desk->conn->state != HF__CONN_UP)
            wait_for_news(desk);
        if (desk->conn->state != HF__CONN_UP)
            (void)usleep(CONNECT_US);
    }
}

static void desk_open(struct desk *desk)
{
    store_start(&desk->store, STORE_PLAIN);
    desk_connect(desk);
}

static void desk_leave(struct desk *desk)
{
    hf__etcd_engine.close(desk->conn);
    hf__env_free(&desk->world.env, desk->conn);
    CHECK_EQUAL(desk->world.live, 0);
}

static void desk_close(struct desk *desk)
{
    desk_leave(desk);
    store_stop(&desk->store);
}

/* What is asked for, but for what every question has. */
struct wish {
    enum hf__request_kind kind;
    uint64_t claim;
    uint64_t lock; /* 0: as the claim */
    uint64_t grace_ns;
    uint64_t fence;
    uint64_t lease_ns;  /* RENEW: another one from now on; 0: the same, LEASE_NS */
    uint64_t answer_ns; /* 0: ANSWER_NS */
    int mode;
    bool ends;    /* its lease is fixed */
    bool is_long; /* the name */
};

static int submit(struct desk *desk, const struct wish *wish)
{
    uint8_t token[HF__TOKEN_BYTES] = { (uint8_t)wish->claim, (uint8_t)desk->number,
                                       (uint8_t)(desk->number >> 8) };
    char name[HF_NAME_BYTES_MAX];
    uint64_t answer_ns = wish->answer_ns ? wish->answer_ns : ANSWER_NS;
    struct hf__request request = { .ticket = { .kind = wish->kind, .claim_id = wish->claim },
                                   .name = name,
                                   .token = token,
                                   .mode = wish->mode,
                                   .ends = wish->ends,
                                   .queueing = true,
                                   .lease_ns = wish->lease_ns ? wish->lease_ns : LEASE_NS,
                                   .shorten = wish->lease_ns > 0,
                                   .grace_ns = wish->grace_ns,
                                   .fence = wish->fence,
                                   .deadline_ns = hf__clock_now_ns() + answer_ns };

    memset(name, '/', sizeof(name)); /* which makes a key longer than other bytes do */
    name[0] = 'n';
    name[1] = (char)('0' + (wish->lock ? wish->lock : wish->claim));
    if (desk->is_apart)
        (void)snprintf(name + 2, sizeof(name) - 2, "%u", desk->number);
    request.name_bytes = wish->is_long ? sizeof(name) : desk->is_apart ? strlen(name) : 2;
    return hf__etcd_engine.submit(desk->conn, &request);
}

static void ask_for(struct desk *desk, const struct wish *wish)
{
    CHECK_EQUAL(submit(desk, wish), HF_OK);
}

/* `number`: of the claim, and of the lock. */
static void ask_with(struct desk *desk, enum hf__request_kind kind, uint64_t number,
                     uint64_t grace_ns, uint64_t fence)
{
    ask_for(desk, &(struct wish){ kind, number, .grace_ns = grace_ns, .fence = fence });
}

static void ask(struct desk *desk, enum hf__request_kind kind, uint64_t number)
{
    ask_with(desk, kind, number, 0, 0);
}

static void await(struct desk *desk, struct hf__reply *out_reply)
{
    int got;

    while ((got = advance(desk, out_reply)) == 0)
        wait_for_news(desk);
    CHECK_EQUAL(got, 1);
}

/* One thread waits by reading; another looks in between, and leaves it nothing to read. */
TEST(engine, what_was_read_for_others_is_heard)
{
    char bytes[HF__LISTEN_BYTES];
    struct hf__reply reply;
    struct desk desk = { 0 };
    int got;

    desk_open(&desk);
    ask(&desk, HF__REQUEST_CLAIM, 1);
    while ((got = advance(&desk, &reply)) == 0) { /* first for the lease, then for the lock */
        struct pollfd answer = { .fd = hf__etcd_engine.listen(desk.conn), .events = POLLIN };

        CHECK(answer.fd >= 0);
        CHECK_EQUAL(advance(&desk, &reply), 0);
        CHECK_EQUAL(poll(&answer, 1, HANG_MS), 1);
        hf__etcd_engine.heard(desk.conn, bytes, hf__stream_listen(answer.fd, bytes));
    }
    CHECK_EQUAL(got, 1);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    desk_close(&desk);
}

TEST(engine, what_is_given_back_at_once_goes_by_one_transaction)
{
    struct hf__reply reply;
    struct desk desk = { 0 };
    uint64_t before = 0;

    desk_open(&desk);
    for (uint64_t i = 1; i <= CLAIMS; i++) {
        ask(&desk, HF__REQUEST_CLAIM, i);
        await(&desk, &reply);
        CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
        before = reply.fence / 256;
    }
    for (uint64_t i = 1; i <= CLAIMS; i++)
        ask(&desk, HF__REQUEST_RELEASE, i);
    for (uint64_t i = 1; i <= CLAIMS; i++) {
        await(&desk, &reply);
        CHECK(reply.kind == HF__REPLY_GONE && reply.released);
        CHECK_EQUAL(reply.ticket.claim_id, i);
    }
    ask(&desk, HF__REQUEST_CLAIM, 1);
    await(&desk, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(reply.fence / 256, before + 2); /* one revision for all of them */
    desk_close(&desk);
}

static uint64_t take_turn(struct desk *desk, uint64_t grace_ns)
{
    struct hf__reply reply;

    ask_with(desk, HF__REQUEST_CLAIM, 1, grace_ns, 0);
    await(desk, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    return reply.fence;
}

static bool give_back(struct desk *desk, uint64_t fence)
{
    struct hf__reply reply;

    ask_with(desk, HF__REQUEST_RELEASE, 1, 0, fence);
    do
        await(desk, &reply); /* news may have come first */
    while (reply.ticket.kind != HF__REQUEST_RELEASE);
    CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
    return reply.released;
}

/* Its key is deleted, or, if it has a grace, only marked. Whoever has taken many turns that nobody
 * waited for is not told of either, and must learn it from the answer to its release. */
TEST(engine, who_was_broken_and_heard_nothing_is_told_when_it_gives_back)
{
    static const uint64_t graces_ns[] = { 0, GRACE_NS, 0 };
    struct desk desk = { 0 };
    struct desk other;
    struct hf__reply reply;

    desk_open(&desk);
    other = (struct desk){ .store = desk.store, .number = 1 };
    desk_connect(&other);
    for (int i = 0; i < TURNS; i++)
        CHECK(give_back(&desk, take_turn(&desk, i % 2 == 0 ? 0 : GRACE_NS)));
    for (size_t i = 0; i < sizeof(graces_ns) / sizeof(*graces_ns); i++) {
        uint64_t fence = take_turn(&desk, graces_ns[i]);

        ask_with(&other, HF__REQUEST_BREAK, 1, 0, fence);
        await(&other, &reply);
        CHECK_EQUAL(reply.kind, HF__REPLY_DONE);
        CHECK(!give_back(&desk, fence));
        CHECK(give_back(&desk, take_turn(&desk, graces_ns[i])));
    }
    desk_leave(&other);
    desk_close(&desk);
}

/* With a fixed lease nobody renews, and without an event nobody would tell it before its end. */
TEST(engine, who_was_broken_while_there_was_no_watch_hears_it_when_there_is_one)
{
    struct desk desk = { 0 };
    struct desk other;
    struct hf__reply reply = { .kind = HF__REPLY_GRANTED };
    uint64_t until_ns;
    uint64_t fence;

    desk_open(&desk);
    other = (struct desk){ .store = desk.store, .number = 1 };
    desk_connect(&other);
    for (int i = 0; i < TURNS; i++)
        CHECK(give_back(&desk, take_turn(&desk, 0)));
    fence = take_turn(&desk, 0);
    ask_with(&other, HF__REQUEST_BREAK, 1, 0, fence);
    await(&other, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_DONE);
    until_ns = hf__clock_now_ns() + HANG_MS * HF__NS_PER_MS;
    while (reply.kind != HF__REPLY_GONE) {
        CHECK(hf__clock_now_ns() < until_ns);
        if (advance(&desk, &reply) == 0)
            wait_for_news(&desk);
        else if (reply.kind == HF__REPLY_CHANGED)
            ask(&desk, HF__REQUEST_RENEW, 1); /* as the core does */
    }
    desk_leave(&other);
    desk_close(&desk);
}

/* Its mark must outlast whatever it does to its key without knowing of it. */
TEST(engine, who_was_broken_and_wants_to_be_lowered_is_told)
{
    struct desk desk = { 0 };
    struct desk other;
    struct hf__reply reply;
    uint64_t fence;

    desk_open(&desk);
    other = (struct desk){ .store = desk.store, .number = 1 };
    desk_connect(&other);
    fence = take_turn(&desk, GRACE_NS);
    ask_with(&other, HF__REQUEST_BREAK, 1, 0, fence);
    await(&other, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_DONE);
    ask(&desk, HF__REQUEST_DOWNGRADE, 1);
    do
        await(&desk, &reply); /* news may have come first */
    while (reply.ticket.kind != HF__REQUEST_DOWNGRADE);
    CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
    CHECK_EQUAL(*store_ask(&desk.store, "get holdfast/n1/ --prefix --print-value-only"), '!');
    CHECK(!give_back(&desk, fence));
    CHECK_TEXT(store_ask(&desk.store, "get holdfast/n1/ --prefix --keys-only"), "");
    desk_leave(&other);
    desk_close(&desk);
}

static uint64_t lease_of_key(struct desk *desk, uint64_t number)
{
    const char *told = store_ask(&desk->store, "get holdfast/n%d/ --prefix -w fields", (int)number);
    const char *found = strstr(told, "\"Lease\" : ");

    CHECK(found);
    return strtoull(found + strlen("\"Lease\" : "), NULL, 10);
}

/* Between the question whether it holds and the mark its key moves to another lease. */
TEST(engine, who_is_broken_while_it_moves_keeps_its_lease)
{
    char bytes[HF__LISTEN_BYTES];
    struct pollfd answer = { .events = POLLIN };
    struct desk desk = { 0 };
    struct desk other;
    struct hf__reply reply;
    uint64_t before;
    uint64_t moved;

    desk_open(&desk);
    other = (struct desk){ .store = desk.store, .number = 1 };
    desk_connect(&other);
    ask_with(&other, HF__REQUEST_BREAK, 1, 0, take_turn(&desk, GRACE_NS));
    CHECK_EQUAL(advance(&other, &reply), 0);
    answer.fd = hf__etcd_engine.listen(other.conn);
    CHECK(answer.fd >= 0);
    CHECK_EQUAL(poll(&answer, 1, HANG_MS), 1);
    before = lease_of_key(&desk, 1);
    ask_for(&desk, &(struct wish){ HF__REQUEST_RENEW, 1, .lease_ns = 2 * LEASE_NS });
    await(&desk, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    moved = lease_of_key(&desk, 1);
    CHECK(moved != before);
    hf__etcd_engine.heard(other.conn, bytes, hf__stream_listen(answer.fd, bytes));
    await(&other, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_DONE);
    CHECK_EQUAL(*store_ask(&desk.store, "get holdfast/n1/ --prefix --print-value-only"), '!');
    CHECK_EQUAL(lease_of_key(&desk, 1), moved);
    desk_leave(&other);
    desk_close(&desk);
}

/* Which lodged there, who can live with it, and whoever wants to move there believes in it. */
static void revoke_lease_of(struct desk *desk, uint64_t number)
{
    char id[32];

    (void)snprintf(id, sizeof(id), "%" PRIx64, lease_of_key(desk, number));
    (void)store_ask(&desk->store, "lease revoke %s", id);
}

TEST(engine, who_moves_to_a_lease_that_is_gone_gets_another)
{
    struct desk desk = { 0 };
    struct hf__reply reply;
    uint64_t before;

    desk_open(&desk);
    (void)take_turn(&desk, 0);
    before = lease_of_key(&desk, 1);
    ask(&desk, HF__REQUEST_CLAIM, 2);
    await(&desk, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    ask_for(&desk, &(struct wish){ HF__REQUEST_RENEW, 2, .lease_ns = 2 * LEASE_NS });
    await(&desk, &reply);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    revoke_lease_of(&desk, 2);
    ask_for(&desk, &(struct wish){ HF__REQUEST_RENEW, 1, .lease_ns = 2 * LEASE_NS });
    do
        await(&desk, &reply); /* the other is told that it has lost its own */
    while (reply.ticket.kind != HF__REQUEST_RENEW);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    CHECK(reply.lease_ns > LEASE_NS);
    CHECK(lease_of_key(&desk, 1) != before);
    desk_close(&desk);
}

/* --- asked twice --- */

static void expect(struct desk *desk, enum hf__reply_kind kind, uint32_t ahead)
{
    struct hf__reply reply;

    do
        await(desk, &reply); /* news may have come first */
    while (reply.ticket.kind == HF__REQUEST_NONE);
    CHECK_EQUAL(reply.kind, kind);
    CHECK_EQUAL(reply.ahead, ahead);
}

/* Its key was made by a question whose answer nobody heard: it does not tell who was there. */
TEST(engine, who_asked_twice_for_a_place_knows_how_many_are_ahead)
{
    struct desk desk = { 0 };
    struct desk other;

    desk_open(&desk);
    other = (struct desk){ .store = desk.store, .number = 1 };
    desk_connect(&other);
    for (uint64_t claim = 1; claim <= 2; claim++)
        ask_for(&other, &(struct wish){ HF__REQUEST_CLAIM, claim, .lock = 7 });
    expect(&other, HF__REPLY_GRANTED, HF__AHEAD_UNKNOWN);
    expect(&other, HF__REPLY_QUEUED, 1);
    ask_for(&desk, &(struct wish){ HF__REQUEST_CLAIM, 3, .lock = 7 }); /* which hopes in vain */
    expect(&desk, HF__REPLY_QUEUED, 2);
    ask_for(&desk, &(struct wish){ HF__REQUEST_CLAIM, 4, .lock = 7, .answer_ns = 1 });
    expect(&desk, HF__REPLY_UNKNOWN, HF__AHEAD_UNKNOWN);
    ask_for(&desk, &(struct wish){ HF__REQUEST_CLAIM, 4, .lock = 7 });
    expect(&desk, HF__REPLY_QUEUED, 3);
    desk_leave(&other);
    desk_close(&desk);
}

/* --- several at once --- */

static void take(struct desk *desk, uint64_t number)
{
    struct hf__reply reply;

    ask(desk, HF__REQUEST_CLAIM, number);
    await(desk, &reply);
    if (reply.kind != HF__REPLY_GRANTED)
        fail_msg("claim %d of claim %d: reply %d, status %d: %s", (int)number,
                 (int)reply.ticket.claim_id, (int)reply.kind, reply.status, desk->conn->error);
}

static void give(struct desk *desk, uint64_t number)
{
    struct hf__reply reply;

    ask(desk, HF__REQUEST_RELEASE, number);
    await(desk, &reply);
    CHECK(reply.kind == HF__REPLY_GONE && reply.released);
}

/* The answers to so many claims, 1 and up, in whatever order they come: a server answers questions
 * of one connection side by side. */
static void hear_all(struct desk *desk, uint64_t count, struct hf__reply out_replies[CLAIMS + 1])
{
    struct hf__reply reply;

    for (uint64_t i = 1; i <= count; i++)
        out_replies[i].kind = HF__REPLY_FAILED;
    for (uint64_t i = 1; i <= count; i += reply.ticket.kind != HF__REQUEST_NONE) {
        await(desk, &reply);
        if (reply.ticket.kind == HF__REQUEST_NONE)
            continue; /* news */
        CHECK(reply.ticket.claim_id >= 1 && reply.ticket.claim_id <= count);
        CHECK_EQUAL(out_replies[reply.ticket.claim_id].kind, HF__REPLY_FAILED);
        out_replies[reply.ticket.claim_id] = reply;
    }
}

static void claim_all(struct desk *desk, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++)
        ask(desk, HF__REQUEST_CLAIM, i);
}

static void be_granted_all(struct desk *desk, uint64_t count,
                           struct hf__reply out_replies[CLAIMS + 1])
{
    hear_all(desk, count, out_replies);
    for (uint64_t i = 1; i <= count; i++)
        CHECK_EQUAL(out_replies[i].kind, HF__REPLY_GRANTED);
}

TEST(convoy, what_is_claimed_at_once_goes_by_one_transaction)
{
    struct hf__reply replies[CLAIMS + 1];
    struct desk desk = { 0 };

    desk_open(&desk);
    take(&desk, 9); /* there is a lease now */
    claim_all(&desk, CLAIMS);
    be_granted_all(&desk, CLAIMS, replies);
    for (uint64_t i = 2; i <= CLAIMS; i++)
        CHECK_EQUAL(replies[i].fence, replies[1].fence); /* one revision for all of them */
    desk_close(&desk);
}

TEST(convoy, there_is_room_for_the_longest_names_of_as_many_as_may_travel)
{
    struct desk desk = { 0 };
    struct hf__reply reply;

    desk_open(&desk);
    take(&desk, 9);
    for (uint64_t i = 0; i <= TRAVELLERS; i++)
        ask_for(&desk, &(struct wish){ HF__REQUEST_CLAIM, 10 + i, .is_long = true });
    for (uint64_t i = 0; i <= TRAVELLERS; i++) {
        await(&desk, &reply);
        CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    }
    desk_close(&desk);
}

TEST(convoy, what_is_given_back_travels_with_what_is_claimed)
{
    struct hf__reply replies[CLAIMS + 1];
    struct desk desk = { 0 };
    uint64_t before;

    desk_open(&desk);
    claim_all(&desk, 2);
    be_granted_all(&desk, 2, replies);
    before = replies[1].fence > replies[2].fence ? replies[1].fence : replies[2].fence;
    ask(&desk, HF__REQUEST_RELEASE, 1);
    ask(&desk, HF__REQUEST_CLAIM, 3);
    ask(&desk, HF__REQUEST_RELEASE, 2);
    ask(&desk, HF__REQUEST_CLAIM, 4);
    hear_all(&desk, 4, replies);
    CHECK(replies[1].released && replies[2].released);
    CHECK_EQUAL(replies[3].fence / 256, before / 256 + 1);
    CHECK_EQUAL(replies[4].fence, replies[3].fence);
    take(&desk, 5);
    CHECK_TEXT(store_ask(&desk.store, "get holdfast/n1 --prefix --keys-only"), "");
    desk_close(&desk);
}

/* Nobody is told in which of the lines somebody stands. */
TEST(convoy, one_that_is_held_keeps_nobody_else_waiting)
{
    struct hf__reply replies[CLAIMS + 1];
    struct desk desk = { 0 };
    struct desk other;
    struct hf__reply reply;

    desk_open(&desk);
    other = (struct desk){ .store = desk.store, .number = 1 };
    desk_connect(&other);
    take(&other, 3);
    take(&desk, 9);
    claim_all(&desk, CLAIMS);
    ask(&desk, HF__REQUEST_RELEASE, 9);
    await(&desk, &reply); /* in either case */
    CHECK(reply.ticket.claim_id == 9 && reply.kind == HF__REPLY_GONE && reply.released);
    hear_all(&desk, CLAIMS, replies);
    for (uint64_t i = 1; i <= CLAIMS; i++)
        CHECK_EQUAL(replies[i].kind, i == 3 ? HF__REPLY_QUEUED : HF__REPLY_GRANTED);
    give(&other, 3);
    await(&desk, &reply);
    CHECK_EQUAL(reply.ticket.claim_id, 3);
    CHECK_EQUAL(reply.kind, HF__REPLY_CHANGED);
    take(&desk, 3);
    desk_leave(&other);
    desk_close(&desk);
}

/* Whichever comes first; together they would both find the line empty. */
static void check_rivals(struct desk *desk, uint64_t count)
{
    struct hf__reply replies[CLAIMS + 1];
    int granted = 0;

    for (uint64_t i = 1; i <= count; i++)
        ask_for(desk, &(struct wish){ HF__REQUEST_CLAIM, i, .lock = i == 2 ? 2 : 7 });
    hear_all(desk, count, replies);
    for (uint64_t i = 1; i <= count; i++) {
        CHECK(replies[i].kind == HF__REPLY_GRANTED || replies[i].kind == HF__REPLY_QUEUED);
        granted += i != 2 && replies[i].kind == HF__REPLY_GRANTED;
    }
    CHECK_EQUAL(replies[2].kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(granted, 1);
}

TEST(convoy, claims_of_one_lock_never_travel_together)
{
    struct desk desk = { 0 };

    desk_open(&desk);
    take(&desk, 9);
    check_rivals(&desk, 4);
    desk_close(&desk);
}

TEST(convoy, claims_of_one_lock_that_waited_for_a_lease_never_do)
{
    struct desk desk = { 0 };

    desk_open(&desk);
    check_rivals(&desk, 4);
    desk_close(&desk);
}

/* What has not left may be taken back: nobody may find its key later. */
TEST(convoy, a_claim_that_was_given_up_before_it_travelled_is_not_made)
{
    struct desk desk = { 0 };
    struct hf__reply reply;

    desk_open(&desk);
    take(&desk, 9);
    desk.conn->pace = HF__PACE_LATER;
    ask_for(&desk, &(struct wish){ HF__REQUEST_CLAIM, 1, .answer_ns = 1 });
    await(&desk, &reply);
    CHECK(reply.ticket.claim_id == 1 && reply.kind == HF__REPLY_FAILED);
    ask(&desk, HF__REQUEST_CLAIM, 2);
    ask(&desk, HF__REQUEST_RELEASE, 2);
    await(&desk, &reply);
    CHECK(reply.ticket.claim_id == 2 && reply.kind == HF__REPLY_GONE && !reply.released);
    desk.conn->pace = HF__PACE_AT_ONCE;
    give(&desk, 9);
    CHECK_TEXT(store_ask(&desk.store, "get holdfast/n --prefix --keys-only"), "");
    desk_close(&desk);
}

/* The first that the server has, if there is one. */
static bool find_lease(struct desk *desk, char out_id[32])
{
    const char *list = strchr(store_ask(&desk->store, "lease list"), '\n');

    return list && sscanf(list, "%31s", out_id) == 1;
}

/* The client still believes in it. */
static void revoke_lease(struct desk *desk)
{
    char id[32];

    take(desk, 9);
    give(desk, 9);
    CHECK(find_lease(desk, id));
    (void)store_ask(&desk->store, "lease revoke %s", id);
}

TEST(convoy, claims_by_a_lease_that_was_revoked_are_made_by_another)
{
    struct hf__reply replies[CLAIMS + 1];
    struct desk desk = { 0 };

    desk_open(&desk);
    revoke_lease(&desk);
    claim_all(&desk, CLAIMS);
    be_granted_all(&desk, CLAIMS, replies);
    desk_close(&desk);
}

/* Two have left when that is found out, and two have not. */
TEST(convoy, claims_whose_lease_ends_before_they_travel_get_another)
{
    struct hf__reply replies[CLAIMS + 1];
    struct desk desk = { 0 };

    desk_open(&desk);
    revoke_lease(&desk);
    claim_all(&desk, 2);
    CHECK_EQUAL(advance(&desk, &replies[0]), 0);
    desk.conn->pace = HF__PACE_LATER;
    ask(&desk, HF__REQUEST_CLAIM, 3);
    ask(&desk, HF__REQUEST_CLAIM, 4);
    (void)poll(NULL, 0, REFUSAL_MS);
    be_granted_all(&desk, 4, replies);
    desk_close(&desk);
}

/* Each time it gives up before it has an answer, which comes all the same. */
static void claim_in_haste(struct desk *desk, int mode, char out_lease[32])
{
    uint64_t until_ns = hf__clock_now_ns() + HANG_MS * HF__NS_PER_MS;
    struct hf__reply reply;

    while (!find_lease(desk, out_lease)) {
        CHECK(hf__clock_now_ns() < until_ns);
        ask_for(desk,
                &(struct wish){ HF__REQUEST_CLAIM, 1, .mode = mode, .ends = true, .answer_ns = 1 });
        await(desk, &reply);
        CHECK_EQUAL(reply.kind, HF__REPLY_UNKNOWN);
        wait_for_news(desk);
        CHECK_EQUAL(advance(desk, &reply), 0);
    }
}

/* Whoever has so little time never hears what it asked; that its lease is gone counts all the same.
 * A fixed lease is given no sign of life, which would tell it too. */
static void outlive_a_lease(int mode)
{
    struct desk desk = { 0 };
    char lease[32];

    desk_open(&desk);
    claim_in_haste(&desk, mode, lease);
    (void)store_ask(&desk.store, "lease revoke %s", lease);
    claim_in_haste(&desk, mode, lease);
    desk_close(&desk);
}

TEST(convoy, that_its_lease_is_gone_is_heard_by_a_writer_in_haste)
{
    outlive_a_lease(HF_EXCLUSIVE);
}

/* Who looks at the line at once, and does not travel. */
TEST(engine, that_its_lease_is_gone_is_heard_by_a_reader_in_haste)
{
    outlive_a_lease(HF_SHARED);
}

/* Until all are answered, or the connection has ended: for nothing but what went wrong. */
static void bear(struct desk *desk, uint64_t asked)
{
    struct hf__reply reply;
    int got = 0;

    while (asked > 0 && got >= 0) {
        got = advance(desk, &reply);
        if (got == 0)
            wait_for_news(desk);
        if (got <= 0 || reply.ticket.kind == HF__REQUEST_NONE)
            continue;
        asked--;
        if ((reply.kind == HF__REPLY_FAILED || reply.kind == HF__REPLY_UNKNOWN) &&
            reply.status != HF_ENOMEM)
            fail_msg("claim %d: reply %d, status %d: %s", (int)reply.ticket.claim_id,
                     (int)reply.kind, reply.status, desk->conn->error);
    }
    CHECK(got >= 0 || got == HF_ENOMEM);
}

/* How many allocations were refused. More are asked for than may travel at a time. What an earlier
 * round left under way may come late: no round has anything to do with what another asked for. */
static size_t starve(struct desk *desk, size_t nth)
{
    uint64_t asked = 0;

    CHECK(nth <= UINT16_MAX);
    desk->number = (uint16_t)nth;
    desk->is_apart = true;
    desk_connect(desk);
    take(desk, 1);
    desk->world.fail_nth = desk->world.allocations + nth;
    for (uint64_t i = 1; i <= 2 * TRAVELLERS; i++) {
        enum hf__request_kind kind = i == 1 ? HF__REQUEST_RELEASE : HF__REQUEST_CLAIM;
        int status = submit(desk, &(struct wish){ .kind = kind, .claim = i });

        CHECK(status == HF_OK || status == HF_ENOMEM);
        asked += status == HF_OK;
    }
    bear(desk, asked);
    desk_leave(desk);
    return desk->world.refused;
}

TEST(convoy, memory_that_runs_out_harms_nobody)
{
    struct desk desk = { 0 };
    size_t nth = 1;

    store_start(&desk.store, STORE_PLAIN);
    while (starve(&desk, nth) > 0)
        nth++;
    CHECK(nth > 2 * TRAVELLERS); /* a stand, a line and a quest for most of them */
    store_stop(&desk.store);
}
