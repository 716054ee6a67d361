/* ballot.c: what does a client do with the answers of a quorum?
 *
 * The real core claims a lock at 3 and at 5 stores whose answers are written down in advance: all
 * assignments of answers, in order of the stores and against it. What the client says and sends is
 * compared with the laws of the quorum: held only with a majority that accepted the same fence and
 * with enough of the lease left; undone at every store otherwise, and again at whoever has not
 * confirmed. */
#include <stdlib.h>

#include "check.h"
#include "core/core.h"
#include "failing_env.h"

#define START_NS    (1000 * HF__NS_PER_S)
#define LEASE_NS    (10 * HF__NS_PER_S)
#define WAIT_MS     1000
#define SENT_MAX    64
#define STORES_MAX  5
#define COUNTER_LOW 5000000000000000ull /* above every proposal of this test */

enum answer { ACCEPTS, LOW, REFUSES, FAILS, IS_UNKNOWN, IS_SILENT };
#define ANSWERS 6

struct sent {
    struct hf__ticket ticket;
    uint64_t fence;
    size_t store;
    bool answered;
};

struct table {
    struct failing_env memory; /* first: a conn finds the table as the context of its memory */
    struct hf__core core;
    struct hf__url url;
    struct hf_claim *claim;
    struct sent sent[SENT_MAX];
    size_t sent_count;
    uint32_t stores;
    struct hf__reply reply; /* the next one to be fetched */
    size_t reply_store;
    bool has_reply;
};

struct seat {
    struct hf__conn base;
    size_t store;
};

/* --- stores that say what the test wants --- */

static struct table *table_of(const struct hf__conn *conn)
{
    return conn->env->memory_context;
}

static int open(struct hf__conn *conn, const struct hf__conn_options *options)
{
    ((struct seat *)conn)->store = options->server;
    conn->state = HF__CONN_UP;
    conn->promises = conn->recipe->promises;
    return HF_OK;
}

static void close(struct hf__conn *conn)
{
    conn->state = HF__CONN_DOWN;
}

static int submit(struct hf__conn *conn, const struct hf__request *request)
{
    struct table *table = table_of(conn);

    assert_true(table->sent_count < SENT_MAX);
    table->sent[table->sent_count++] = (struct sent){ .ticket = request->ticket,
                                                      .fence = request->fence,
                                                      .store = ((struct seat *)conn)->store };
    return HF_OK;
}

static void pollset(struct hf__conn *conn, struct hf__pollset *set)
{
    (void)conn;
    (void)set;
}

static int advance(struct hf__conn *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct table *table = table_of(conn);

    (void)now_ns;
    if (!table->has_reply || table->reply_store != ((struct seat *)conn)->store)
        return 0;
    table->has_reply = false;
    *out_reply = table->reply;
    return 1;
}

static const struct hf__recipe recipe = {
    .name = "quorum", .pattern = HF__PATTERN_QUORUM, .promises = HF_PROMISE_FENCE, .leases = true
};
static const struct hf__recipe *const recipes[] = { &recipe, NULL };
static const char *const schemes[] = { "table", NULL };
static const struct hf__engine engine = {
    .name = "table",
    .url_schemes = schemes,
    .recipes = recipes,
    .conn_size = sizeof(struct seat),
    .open = open,
    .close = close,
    .submit = submit,
    .pollset = pollset,
    .advance = advance,
};

/* --- one claim at them --- */

static struct table *begin(uint32_t stores)
{
    struct table *table = calloc(1, sizeof(*table));
    struct hf__core_options options = { .purpose = "ballot",
                                        .lease_ns = LEASE_NS,
                                        .connect_ns = 10 * LEASE_NS,
                                        .caller_driven = true,
                                        .now_ns = START_NS,
                                        .wall_us = START_NS / HF__NS_PER_US };
    char error[HF__ERROR_BYTES];

    assert_non_null(table);
    failing_env_init(&table->memory, 0);
    table->stores = stores;
    table->url.server_count = stores;
    table->core.recipe = &recipe;
    table->core.driver.engine = &engine;
    options.url = &table->url;
    CHECK_EQUAL(hf__core_init(&table->core, &table->memory.env, &options, error), HF_OK);
    return table;
}

static void claim(struct table *table, int64_t wait_ms)
{
    struct hf__terms terms = { .wait_ms = wait_ms, .lease_ns = LEASE_NS };

    CHECK_EQUAL(hf__claim_start(&table->core, "name", &terms, START_NS, &table->claim), HF_OK);
    hf__core_step(&table->core, START_NS);
}

/* Answers the last question of this kind that the store was asked; false: there is none left. */
static bool answer(struct table *table, enum hf__request_kind kind, size_t store,
                   struct hf__reply reply, uint64_t now_ns)
{
    for (size_t i = table->sent_count; i-- > 0;) {
        struct sent *sent = &table->sent[i];

        if (sent->store != store || sent->ticket.kind != kind || sent->answered)
            continue;
        sent->answered = true;
        if (reply.kind == HF__REPLY_GRANTED && reply.fence == 0)
            reply.fence = sent->fence;
        reply.ticket = sent->ticket;
        table->reply = reply;
        table->reply_store = store;
        table->has_reply = true;
        hf__core_step(&table->core, now_ns);
        CHECK(!table->has_reply);
        return true;
    }
    return false;
}

static struct hf__reply reply_of(enum answer answer)
{
    switch (answer) {
    case ACCEPTS:
        return (struct hf__reply){ .kind = HF__REPLY_GRANTED };
    case LOW:
        return (struct hf__reply){ .kind = HF__REPLY_GRANTED, .low = true, .fence = COUNTER_LOW };
    case REFUSES:
        return (struct hf__reply){ .kind = HF__REPLY_REFUSED };
    case FAILS:
        return (struct hf__reply){ .kind = HF__REPLY_FAILED, .status = HF_EUNREACHABLE };
    case IS_UNKNOWN:
    case IS_SILENT:
        break;
    }
    return (struct hf__reply){ .kind = HF__REPLY_UNKNOWN, .status = HF_EUNKNOWN };
}

/* To how many stores such a question went; each store gets each round at most once. */
static uint32_t asked(const struct table *table, enum hf__request_kind kind)
{
    uint32_t stores = 0;

    for (size_t i = 0; i < table->sent_count; i++) {
        if (table->sent[i].ticket.kind == kind)
            stores |= 1u << table->sent[i].store;
    }
    return (uint32_t)__builtin_popcount(stores);
}

static uint32_t count_sent(const struct table *table, enum hf__request_kind kind)
{
    uint32_t count = 0;

    for (size_t i = 0; i < table->sent_count; i++)
        count += table->sent[i].ticket.kind == kind;
    return count;
}

/* Gives back and frees everything, and looks for leaks. */
static void finish(struct table *table, uint64_t now_ns)
{
    if (table->claim) {
        hf__claim_cancel(table->claim, now_ns);
        if (table->claim->grant)
            hf__hold_abandon(HF__TAKE(table->claim->grant), now_ns);
        hf__claim_free(table->claim);
    }
    hf__core_close(&table->core, now_ns);
    for (size_t i = 0; i < table->stores; i++)
        answer(table, HF__REQUEST_RELEASE, i, (struct hf__reply){ .kind = HF__REPLY_GONE }, now_ns);
    CHECK(hf__core_idle(&table->core));
    hf__core_done(&table->core);
    CHECK_EQUAL(table->memory.live, 0);
    free(table);
}

/* When the wait is over, and those that could not be told at once are told too. */
static void finish_later(struct table *table)
{
    uint64_t now_ns = START_NS + 2 * WAIT_MS * HF__NS_PER_MS;

    for (size_t i = 0; i < table->stores; i++)
        answer(table, HF__REQUEST_RELEASE, i, (struct hf__reply){ .kind = HF__REPLY_GONE }, now_ns);
    hf__core_step(&table->core, now_ns + HF__NS_PER_S);
    finish(table, now_ns + HF__NS_PER_S);
}

/* --- all assignments --- */

struct assignment {
    uint32_t stores;
    bool backwards;
    enum answer answers[STORES_MAX];
};

static bool make(uint32_t stores, uint32_t number, struct assignment *out_assignment)
{
    out_assignment->stores = stores;
    out_assignment->backwards = number % 2 == 1;
    number /= 2;
    for (uint32_t i = 0; i < stores; i++) {
        out_assignment->answers[i] = (enum answer)(number % ANSWERS);
        number /= ANSWERS;
    }
    return number == 0;
}

static uint32_t count_of(const struct assignment *assignment, enum answer answer)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < assignment->stores; i++)
        count += assignment->answers[i] == answer;
    return count;
}

#define FOR_ALL(assignment)                                                                        \
    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2)                                   \
        for (uint32_t number = 0; make(stores, number, &(assignment)); number++)

static void answer_all(struct table *table, const struct assignment *assignment, uint64_t now_ns)
{
    for (uint32_t i = 0; i < assignment->stores; i++) {
        uint32_t store = assignment->backwards ? assignment->stores - 1 - i : i;

        if (assignment->answers[store] != IS_SILENT)
            answer(table, HF__REQUEST_CLAIM, store, reply_of(assignment->answers[store]), now_ns);
    }
}

static bool is_majority(uint32_t count, uint32_t stores)
{
    return count + count > stores;
}

/* Some say no for good: that ends the claim, but not what others have of it. */
TEST(ballot, a_claim_that_is_denied_is_undone_everywhere)
{
    static const struct hf__reply denial = { .kind = HF__REPLY_FAILED, .status = HF_EDENIED };

    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2) {
        for (uint32_t denied = stores / 2 + 1; denied <= stores; denied++) {
            struct table *table = begin(stores);

            claim(table, HF_FOREVER);
            for (uint32_t i = 0; i < stores; i++)
                answer(table, HF__REQUEST_CLAIM, i,
                       i < stores - denied ? reply_of(ACCEPTS) : denial, START_NS);
            CHECK_EQUAL(table->claim->answer.status, HF_EDENIED);
            CHECK_EQUAL(asked(table, HF__REQUEST_RELEASE), stores);
            finish(table, START_NS);
        }
    }
}

/* A minority must not stay locked anywhere, and who perhaps locked is told as well. */
TEST(ballot, held_with_a_majority_else_undone_everywhere)
{
    struct assignment a;

    FOR_ALL(a)
    {
        struct table *table = begin(stores);
        uint32_t accepted = count_of(&a, ACCEPTS);
        uint32_t locked = accepted + count_of(&a, LOW);
        uint32_t silent = count_of(&a, IS_SILENT);
        bool granted;

        claim(table, 0);
        CHECK_EQUAL(asked(table, HF__REQUEST_CLAIM), stores);
        answer_all(table, &a, START_NS + HF__NS_PER_MS);
        granted = table->claim->answer.status == HF_OK;
        CHECK(granted == is_majority(accepted, stores));
        if (granted)
            CHECK_EQUAL(table->claim->grant->hold->fence, table->sent[0].fence);
        if (!is_majority(locked + silent, stores))
            CHECK_EQUAL(asked(table, HF__REQUEST_RELEASE), stores);
        else
            CHECK_EQUAL(asked(table, HF__REQUEST_RELEASE), 0);
        finish(table, START_NS + 2 * HF__NS_PER_MS);
    }
}

TEST(ballot, a_try_is_busy_only_if_a_store_said_so)
{
    struct assignment a;

    FOR_ALL(a)
    {
        struct table *table = begin(stores);
        uint32_t refused = count_of(&a, REFUSES);
        bool busy;

        claim(table, 0);
        answer_all(table, &a, START_NS + HF__NS_PER_MS);
        busy = table->claim->answer.status == HF_EBUSY;
        if (busy)
            CHECK(refused > 0);
        if (is_majority(refused, stores) && count_of(&a, FAILS) + count_of(&a, IS_UNKNOWN) == 0)
            CHECK(busy); /* else a failure may decide before the first refusal comes */
        finish(table, START_NS + 2 * HF__NS_PER_MS);
    }
}

TEST(ballot, too_low_is_asked_again_above_all_that_was_told)
{
    struct assignment a;

    FOR_ALL(a)
    {
        struct table *table = begin(stores);
        uint32_t accepted = count_of(&a, ACCEPTS);
        uint32_t locked = accepted + count_of(&a, LOW);
        bool again =
            is_majority(locked, stores) && !is_majority(accepted + count_of(&a, IS_SILENT), stores);

        claim(table, 0);
        answer_all(table, &a, START_NS + HF__NS_PER_MS);
        CHECK_EQUAL(count_sent(table, HF__REQUEST_CLAIM), again ? 2 * stores : stores);
        for (size_t i = stores; again && i < 2 * stores; i++)
            CHECK(table->sent[i].fence == (COUNTER_LOW / 256 + 1) * 256);
        finish(table, START_NS + 2 * HF__NS_PER_MS);
    }
}

static void lose_connections(struct table *table, uint32_t count)
{
    for (uint32_t i = 0; i < table->stores; i++)
        table->core.driver.links[HF__LANE_CALL][i].conn->state =
            i < count ? HF__CONN_CONNECTING : HF__CONN_UP;
}

/* A proposal that fails takes no lock away: of so many that have it nobody may say that certainly
 * nothing was taken. The first are not even asked again, the others fail. */
TEST(ballot, a_majority_that_locked_for_an_earlier_proposal_is_not_forgotten)
{
    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2) {
        for (uint32_t unasked = 0; unasked <= stores; unasked++) {
            struct table *table = begin(stores);
            uint32_t majority = stores / 2 + 1;

            claim(table, WAIT_MS);
            for (uint32_t i = 0; i + 1 < majority; i++)
                answer(table, HF__REQUEST_CLAIM, i, reply_of(LOW), START_NS);
            for (uint32_t i = majority; i < stores; i++)
                answer(table, HF__REQUEST_CLAIM, i, reply_of(FAILS), START_NS);
            lose_connections(table, unasked);
            answer(table, HF__REQUEST_CLAIM, majority - 1, reply_of(LOW), START_NS);
            CHECK_EQUAL(count_sent(table, HF__REQUEST_CLAIM), 2 * stores - unasked);
            for (uint32_t i = unasked; i < stores; i++)
                answer(table, HF__REQUEST_CLAIM, i, reply_of(FAILS), START_NS);
            hf__core_step(&table->core, START_NS + WAIT_MS * HF__NS_PER_MS);
            CHECK_EQUAL(table->claim->answer.status, HF_EUNKNOWN);
            lose_connections(table, 0);
            finish_later(table);
        }
    }
}

TEST(ballot, a_fence_that_nobody_proposed_is_no_acceptance)
{
    struct table *table = begin(3);
    struct hf__reply liar = reply_of(ACCEPTS);

    claim(table, 0);
    liar.fence = table->sent[0].fence + 256;
    answer(table, HF__REQUEST_CLAIM, 0, liar, START_NS);
    answer(table, HF__REQUEST_CLAIM, 1, liar, START_NS);
    answer(table, HF__REQUEST_CLAIM, 2, reply_of(ACCEPTS), START_NS);
    CHECK(table->claim->answer.status != HF_OK);
    CHECK_EQUAL(asked(table, HF__REQUEST_RELEASE), 3);
    finish(table, START_NS);
}

/* Or one store that lies could keep a client from every lock for ever. */
TEST(ballot, a_counter_far_ahead_is_tried_once_and_not_remembered)
{
    static const enum answer answers[] = { LOW, ACCEPTS, REFUSES };
    struct table *table = begin(3);

    claim(table, HF_FOREVER);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 3; i++)
            answer(table, HF__REQUEST_CLAIM, i,
                   round && i == 1 ? reply_of(LOW) : reply_of(answers[i]), START_NS);
    }
    CHECK_EQUAL(count_sent(table, HF__REQUEST_CLAIM), 6);
    CHECK_EQUAL(asked(table, HF__REQUEST_RELEASE), 3);
    CHECK(table->sent[5].fence > COUNTER_LOW);
    for (size_t i = 0; i < 3; i++)
        answer(table, HF__REQUEST_RELEASE, i, (struct hf__reply){ .kind = HF__REPLY_GONE },
               START_NS);
    hf__core_step(&table->core, START_NS + HF__NS_PER_S);
    CHECK_EQUAL(count_sent(table, HF__REQUEST_CLAIM), 9);
    CHECK(table->sent[table->sent_count - 1].fence < COUNTER_LOW);
    finish(table, START_NS + HF__NS_PER_S);
}

/* Whether it remembers is known only when it has been greeted. */
TEST(ballot, a_store_that_is_not_up_yet_is_not_asked)
{
    struct table *table = begin(3);

    table->core.driver.links[HF__LANE_CALL][1].conn->state = HF__CONN_CONNECTING;
    claim(table, 0);
    CHECK_EQUAL(table->sent_count, 2);
    for (size_t i = 0; i < table->sent_count; i++)
        CHECK(table->sent[i].store != 1);
    table->core.driver.links[HF__LANE_CALL][1].conn->state = HF__CONN_UP;
    finish(table, START_NS);
}

/* So many cannot be asked that no majority can have it: what the others do with it makes nothing
 * unknown, whether the wait ends in the midst of the question or the question is given up. */
TEST(ballot, without_a_majority_to_be_asked_certainly_nothing_was_taken)
{
    for (uint32_t unasked = 0; unasked < STORES_MAX; unasked++) {
        for (uint32_t given_up = 0; given_up <= STORES_MAX - unasked; given_up++) {
            struct table *table = begin(STORES_MAX);
            uint64_t end_ns = START_NS + WAIT_MS * HF__NS_PER_MS;

            lose_connections(table, unasked);
            claim(table, WAIT_MS);
            CHECK_EQUAL(asked(table, HF__REQUEST_CLAIM), STORES_MAX - unasked);
            for (uint32_t i = 0; i < given_up; i++)
                answer(table, HF__REQUEST_CLAIM, unasked + i, reply_of(IS_UNKNOWN), end_ns - 1);
            CHECK_EQUAL(table->claim->answer.status, HF_PENDING);
            hf__core_step(&table->core, end_ns);
            CHECK_EQUAL(table->claim->answer.status, is_majority(STORES_MAX - unasked, STORES_MAX)
                                                         ? HF_EUNKNOWN
                                                         : HF_EUNREACHABLE);
            CHECK_EQUAL(asked(table, HF__REQUEST_RELEASE), STORES_MAX - unasked);
            lose_connections(table, 0);
            finish_later(table);
        }
    }
}

/* Nobody says "certainly nothing was taken" of what a majority may have. */
TEST(ballot, unreachable_is_said_only_if_no_majority_may_have_it)
{
    struct assignment a;

    FOR_ALL(a)
    {
        struct table *table = begin(stores);
        uint32_t free_of_it = count_of(&a, REFUSES) + count_of(&a, FAILS);

        claim(table, WAIT_MS);
        answer_all(table, &a, START_NS + HF__NS_PER_MS);
        hf__core_step(&table->core, START_NS + WAIT_MS * HF__NS_PER_MS);
        CHECK(table->claim->answer.status != HF_PENDING);
        if (table->claim->answer.status == HF_EUNREACHABLE)
            CHECK(!is_majority(stores - free_of_it, stores));
        finish_later(table);
    }
}

/* The answers lay in a buffer while we were stopped: a majority, and yet no time to hold it. */
TEST(ballot, a_majority_that_comes_late_is_not_believed)
{
    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2) {
        for (uint64_t late_ns = LEASE_NS / 2; late_ns <= 2 * LEASE_NS; late_ns += LEASE_NS / 8) {
            struct table *table = begin(stores);

            claim(table, HF_FOREVER);
            for (uint32_t i = 0; i < stores; i++)
                answer(table, HF__REQUEST_CLAIM, i, reply_of(ACCEPTS), START_NS + late_ns);
            CHECK_EQUAL(table->claim->answer.status, HF_PENDING);
            CHECK_EQUAL(asked(table, HF__REQUEST_RENEW), stores); /* is it ours still? */
            finish(table, START_NS + late_ns);
        }
    }
}

/* It had a majority, and nobody denies that it still does. */
TEST(ballot, a_late_majority_that_cannot_be_confirmed_is_unknown)
{
    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2) {
        struct table *table = begin(stores);
        uint64_t late_ns = START_NS + LEASE_NS / 2;

        claim(table, LEASE_NS / HF__NS_PER_MS);
        for (uint32_t i = 0; i < stores; i++)
            answer(table, HF__REQUEST_CLAIM, i, reply_of(ACCEPTS), late_ns);
        for (uint32_t i = 0; i < stores; i++)
            answer(table, HF__REQUEST_RENEW, i, reply_of(FAILS), late_ns);
        CHECK_EQUAL(asked(table, HF__REQUEST_RELEASE), stores);
        hf__core_step(&table->core, START_NS + LEASE_NS);
        CHECK_EQUAL(table->claim->answer.status, HF_EUNKNOWN);
        finish(table, START_NS + LEASE_NS);
    }
}

TEST(ballot, one_store_votes_once_and_earlier_rounds_not_at_all)
{
    struct table *table = begin(3);
    struct hf__reply reply = reply_of(ACCEPTS);

    claim(table, HF_FOREVER);
    answer(table, HF__REQUEST_CLAIM, 0, reply, START_NS);
    table->sent[0].answered = false;
    answer(table, HF__REQUEST_CLAIM, 0, reply, START_NS); /* the network has doubled it */
    CHECK_EQUAL(table->claim->answer.status, HF_PENDING);
    table->sent[1].ticket.round--;
    answer(table, HF__REQUEST_CLAIM, 1, reply, START_NS);
    CHECK_EQUAL(table->claim->answer.status, HF_PENDING);
    answer(table, HF__REQUEST_CLAIM, 2, reply, START_NS);
    CHECK_EQUAL(table->claim->answer.status, HF_OK);
    finish(table, START_NS);
}

/* Whoever has not confirmed is asked until it has, and nobody else is. */
TEST(ballot, a_release_goes_on_until_every_store_has_confirmed)
{
    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2) {
        for (uint32_t deaf = 0; deaf < stores; deaf++) {
            struct table *table = begin(stores);
            uint64_t now_ns = START_NS + HF__NS_PER_MS;
            uint32_t before;

            claim(table, HF_FOREVER);
            for (uint32_t i = 0; i < stores; i++)
                answer(table, HF__REQUEST_CLAIM, i, reply_of(ACCEPTS), now_ns);
            hf__hold_abandon(HF__TAKE(table->claim->grant), now_ns);
            hf__core_step(&table->core, now_ns);
            CHECK_EQUAL(count_sent(table, HF__REQUEST_RELEASE), stores);
            for (uint32_t i = 0; i < stores; i++)
                answer(table, HF__REQUEST_RELEASE, i,
                       i == deaf ? reply_of(IS_UNKNOWN)
                                 : (struct hf__reply){ .kind = HF__REPLY_GONE, .released = true },
                       now_ns);
            CHECK(!hf__core_idle(&table->core));
            before = count_sent(table, HF__REQUEST_RELEASE);
            hf__core_step(&table->core, now_ns + HF__NS_PER_S);
            CHECK_EQUAL(count_sent(table, HF__REQUEST_RELEASE), before + 1);
            CHECK_EQUAL(table->sent[table->sent_count - 1].store, deaf);
            answer(table, HF__REQUEST_RELEASE, deaf, (struct hf__reply){ .kind = HF__REPLY_GONE },
                   now_ns + HF__NS_PER_S);
            CHECK(hf__core_idle(&table->core));
            finish(table, now_ns + HF__NS_PER_S);
        }
    }
}

/* Silence of a minority takes nothing away; the denial of a majority does, at once. */
TEST(ballot, a_renewal_is_kept_or_lost_by_majority)
{
    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2) {
        for (uint32_t denials = 0; denials <= stores; denials++) {
            struct table *table = begin(stores);
            uint64_t now_ns = START_NS + LEASE_NS / 2; /* the renewal is due by then */
            const struct hf__hold *hold;

            claim(table, HF_FOREVER);
            for (uint32_t i = 0; i < stores; i++)
                answer(table, HF__REQUEST_CLAIM, i, reply_of(ACCEPTS), START_NS);
            hold = table->claim->grant->hold;
            hf__core_step(&table->core, now_ns);
            CHECK_EQUAL(asked(table, HF__REQUEST_RENEW), stores);
            for (uint32_t i = 0; i < stores; i++)
                answer(table, HF__REQUEST_RENEW, i,
                       i < denials ? (struct hf__reply){ .kind = HF__REPLY_GONE }
                                   : reply_of(ACCEPTS),
                       now_ns);
            CHECK(hf__hold_valid(hold, now_ns) == !is_majority(denials, stores));
            CHECK((hold->lost_cause != NULL) == is_majority(denials, stores));
            if (!is_majority(denials, stores))
                CHECK(hf__hold_valid(hold, now_ns + LEASE_NS / 2));
            finish(table, now_ns);
        }
    }
}
