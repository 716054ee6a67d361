/* engine.c: is everything heard that a thread has read for others, and done that several asked for
 * at once? The engine alone, by its seam, before a real etcd. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/pollset.h"
#include "base/stream.h"
#include "base/url.h"
#include "check.h"
#include "engine/engine.h"
#include "holdfast/holdfast.h"
#include "store.h"

#define LEASE_NS  (30 * HF__NS_PER_S)
#define ANSWER_NS (60 * HF__NS_PER_S)
#define HANG_MS   20000 /* an end to waiting, not a measure */
#define CLAIMS    5
#define TURNS     200 /* after fewer nobody is told any more what happens to a lock */
#define GRACE_NS  (20 * HF__NS_PER_S)

extern const struct hf__engine hf__etcd_engine;

struct desk {
    struct store store;
    struct hf__env env;
    struct hf__url url;
    struct hf__conn *conn;
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
                                        .client_id = 1,
                                        .carries_calls = true,
                                        .carries_keeping = true };
    struct hf__reply reply;
    char error[HF__ERROR_BYTES];
    char text[64];

    (void)snprintf(text, sizeof(text), "etcd://127.0.0.1:%u", (unsigned)desk->store.port);
    CHECK_EQUAL(hf__url_parse(text, &desk->url, error), HF_OK);
    CHECK_EQUAL(hf__env_init(&desk->env), HF_OK);
    desk->conn = hf__env_new(&desk->env, hf__etcd_engine.conn_size);
    CHECK(desk->conn);
    desk->conn->engine = &hf__etcd_engine;
    desk->conn->recipe = hf__etcd_engine.recipes[0];
    desk->conn->env = &desk->env;
    while (desk->conn->state != HF__CONN_UP) { /* it takes a moment until somebody is there */
        options.now_ns = hf__clock_now_ns();
        CHECK_EQUAL(hf__etcd_engine.open(desk->conn, &options), HF_OK);
        while (advance(desk, &reply) == 0 && desk->conn->state != HF__CONN_UP)
            wait_for_news(desk);
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
    hf__env_free(&desk->env, desk->conn);
    hf__env_done(&desk->env);
}

static void desk_close(struct desk *desk)
{
    desk_leave(desk);
    store_stop(&desk->store);
}

/* `number`: of the claim, and of the lock. */
static void ask_with(struct desk *desk, enum hf__request_kind kind, uint64_t number,
                     uint64_t grace_ns, uint64_t fence)
{
    uint8_t token[HF__TOKEN_BYTES] = { (uint8_t)number };
    char name[8] = { 'n', (char)('0' + number) };
    struct hf__request request = { .ticket = { .kind = kind, .claim_id = number },
                                   .name = name,
                                   .name_bytes = 2,
                                   .token = token,
                                   .queueing = true,
                                   .lease_ns = LEASE_NS,
                                   .grace_ns = grace_ns,
                                   .fence = fence,
                                   .deadline_ns = hf__clock_now_ns() + ANSWER_NS };

    CHECK_EQUAL(hf__etcd_engine.submit(desk->conn, &request), HF_OK);
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
    other = (struct desk){ .store = desk.store };
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
    other = (struct desk){ .store = desk.store };
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
