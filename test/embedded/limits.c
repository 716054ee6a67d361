/* limits.c: many names, many grants, many waiters; and what is said when the table is full. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "player.h"

#define NAMES     100000u
#define HELD      10000u
#define PROCESSES 10u
#define CLAIMS    100u

static const struct wish once_wish = { .once = true };

static const char *name_of(char out_name[64], uint32_t i)
{
    (void)snprintf(out_name, 64, "limits/name/%u", i);
    return out_name;
}

#ifndef HF__EMBEDDED_HOOKS

TEST(limits, a_hundred_thousand_names)
{
    struct world world;
    struct mate mate;
    struct mate other;
    char name[64];
    uint64_t start_ns = hf__clock_now_ns();

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "many"), HF_OK);
    for (uint32_t i = 0; i < NAMES; i++) {
        struct stub stub;

        CHECK_EQUAL(mate_claim(&mate, name_of(name, i), NULL, &stub).kind, HF__REPLY_GRANTED);
        CHECK(mate_release(&mate, &stub).released);
    }
    printf("%u names in %.2f s\n", NAMES, (double)(hf__clock_now_ns() - start_ns) / 1e9);
    CHECK_EQUAL(mate_open(&other, &world, "other"), HF_OK);
    for (uint32_t i = 0; i < NAMES; i += 97) { /* found again, and one lock each */
        struct stub stub;
        struct stub second;

        CHECK_EQUAL(mate_claim(&mate, name_of(name, i), NULL, &stub).kind, HF__REPLY_GRANTED);
        CHECK_EQUAL(mate_claim(&other, name, &once_wish, &second).kind, HF__REPLY_REFUSED);
        CHECK(mate_release(&mate, &stub).released);
    }
    mate_close(&other);
    mate_close(&mate);
    world_end(&world);
}

/* More names than there is room for, one after another: those that nobody uses make room. */
TEST(limits, names_that_nobody_uses_make_room)
{
    struct world world;
    struct mate mate;
    struct stub kept;
    struct stub stub;
    char name[64];
    uint64_t first = 0;
    uint32_t used;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "many"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "limits/kept", NULL, &kept).kind, HF__REPLY_GRANTED);
    for (uint32_t i = 0; i < HF__SHORT_NAMES_MAX + 10000; i++) {
        struct world_reply reply = mate_claim(&mate, name_of(name, i), NULL, &stub);

        CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
        if (i == 0)
            first = reply.fence;
        CHECK(mate_release(&mate, &stub).released);
    }
    CHECK_EQUAL(hf__table_locks_used(mate_inside(&mate), HF__REGION_SHORT, &used), HF_OK);
    CHECK_EQUAL(used, HF__SHORT_NAMES_MAX);
    CHECK_EQUAL(mate_claim(&mate, name_of(name, 0), NULL, &stub).kind, HF__REPLY_GRANTED);
    CHECK(stub.fence > first); /* it was collected, and its fence was not forgotten */
    CHECK_EQUAL(mate_tell(&mate, HF__REQUEST_RENEW, &kept).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&mate, &kept).released);
    mate_close(&mate);
    world_end(&world);
}

#else

/* This build's table is small. */
TEST(limits, a_full_table_says_what_is_full)
{
    struct world world;
    struct mate mate;
    struct stub *stubs = calloc(HF__SHORT_NAMES_MAX, sizeof(*stubs));
    struct stub stub;
    struct world_reply reply;
    char(*names)[64] = calloc(HF__SHORT_NAMES_MAX + 1, sizeof(*names));
    uint64_t fence;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "many"), HF_OK);
    for (uint32_t i = 0; i < HF__SHORT_NAMES_MAX; i++)
        CHECK_EQUAL(mate_claim(&mate, name_of(names[i], i), NULL, &stubs[i]).kind,
                    HF__REPLY_GRANTED);
    reply = mate_claim(&mate, "limits/one more", NULL, &stub);
    CHECK((int)reply.kind == -1 && reply.status == HF_ELIMIT);
    CHECK(strstr(mate.conn->error, "512 names of up to 96 bytes in use") != NULL);
    CHECK(strstr(mate.conn->error, "end some, or use another directory") != NULL);
    reply = mate_claim(&mate, names[5], &once_wish, &stub); /* what is there goes on */
    CHECK_EQUAL(reply.kind, HF__REPLY_REFUSED);
    CHECK(mate_release(&mate, &stubs[7]).released);
    reply = mate_claim(&mate, "limits/one more", NULL, &stub);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    CHECK(reply.fence > stubs[7].fence);
    fence = reply.fence;
    CHECK(mate_release(&mate, &stub).released);
    CHECK_EQUAL(mate_claim(&mate, names[7], NULL, &stubs[7]).kind, HF__REPLY_GRANTED);
    CHECK(stubs[7].fence > fence); /* the same lock, under its old name: never the same fence */
    mate_close(&mate);
    free(stubs);
    free(names);
    world_end(&world);
}

TEST(limits, long_names_have_a_limit_of_their_own)
{
    struct world world;
    struct mate mate;
    struct stub stub;
    struct world_reply reply;
    char names[HF__LONG_NAMES_MAX + 1][200];

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "many"), HF_OK);
    for (uint32_t i = 0; i <= HF__LONG_NAMES_MAX; i++)
        (void)snprintf(names[i], sizeof(names[i]), "%0150u", i);
    for (uint32_t i = 0; i < HF__LONG_NAMES_MAX; i++)
        CHECK_EQUAL(mate_claim(&mate, names[i], NULL, &stub).kind, HF__REPLY_GRANTED);
    reply = mate_claim(&mate, names[HF__LONG_NAMES_MAX], NULL, &stub);
    CHECK((int)reply.kind == -1 && reply.status == HF_ELIMIT);
    CHECK(strstr(mate.conn->error, "names of more than 96 bytes") != NULL);
    CHECK_EQUAL(mate_claim(&mate, "short", NULL, &stub).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    world_end(&world);
}

TEST(limits, claims_in_line_have_a_limit)
{
    static const struct wish shared_wish = { .shared = true };
    struct world world;
    struct mate mate;
    struct stub *stubs = calloc(HF__NODES_MAX, sizeof(*stubs));
    struct stub stub;
    struct world_reply reply;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "many"), HF_OK);
    for (uint32_t i = 0; i < HF__NODES_MAX; i++)
        CHECK_EQUAL(mate_claim(&mate, "limits/read", &shared_wish, &stubs[i]).kind,
                    HF__REPLY_GRANTED);
    reply = mate_claim(&mate, "limits/read", &shared_wish, &stub);
    CHECK((int)reply.kind == -1 && reply.status == HF_ELIMIT);
    CHECK(strstr(mate.conn->error, "2048 claims in line, shared or with a lease") != NULL);
    CHECK(strstr(mate.conn->error, "end some") != NULL);
    CHECK_EQUAL(mate_claim(&mate, "limits/other", NULL, &stub).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&mate, &stubs[1000]).released);
    CHECK_EQUAL(mate_claim(&mate, "limits/read", &shared_wish, &stub).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    free(stubs);
    world_end(&world);
}

static int open_and_stay(struct world *world, void *context)
{
    _Atomic uint32_t *step = context;
    struct mate mate;

    if (mate_open(&mate, world, "child") < 0)
        return 1;
    world_step(step, 1);
    return world_wait_step(step, 2) ? 0 : 2;
}

/* The dead make room; the living do not. */
TEST(limits, clients_have_a_limit)
{
    struct world world;
    struct mate *mates = calloc(HF__SESSIONS_MAX, sizeof(*mates));
    struct mate mate;
    _Atomic uint32_t *step = world_share(sizeof(*step));
    uint32_t count = 0;
    pid_t child;

    world_make(&world);
    child = world_fork(&world, open_and_stay, step);
    CHECK(world_wait_step(step, 1));
    while (count < HF__SESSIONS_MAX && mate_open(&mates[count], &world, "many") == HF_OK)
        count++;
    CHECK_EQUAL(count, HF__SESSIONS_MAX - 2); /* the child; and a place to sweep from */
    mate_close(&mates[count]);                /* the one that was refused */
    CHECK_EQUAL(mate_open(&mate, &world, "one more"), HF_ELIMIT);
    CHECK(strstr(mate.conn->error, "clients; end some, or use another directory") != NULL);
    mate_close(&mate);
    kill(child, SIGKILL); /* it leaves everything as it is */
    waitpid(child, NULL, 0);
    CHECK_EQUAL(mate_open(&mate, &world, "one more"), HF_OK);
    mate_close(&mate);
    mate_close(&mates[0]);
    CHECK_EQUAL(mate_open(&mates[0], &world, "again"), HF_OK);
    for (uint32_t i = 0; i < count; i++)
        mate_close(&mates[i]);
    free(mates);
    world_end(&world);
    world_unshare(step, sizeof(*step));
}

/* Waits until the holder's time is over (and breaks the turn with that fence, if there is one);
 * then makes so many names that this one is collected. */
static void put_out_and_forget(struct mate *mate, const char *name, uint64_t fence)
{
    struct hf__embedded *conn = mate_inside(mate);
    uint32_t lock;
    bool forgotten = false;
    struct hf__word word;
    struct stub stub;

    if (mate_claim(mate, name, NULL, &stub).kind == HF__REPLY_QUEUED) {
        struct world_reply reply;

        if (fence != 0)
            CHECK_EQUAL(mate_break(mate, name, fence).kind, HF__REPLY_DONE);
        CHECK(mate_hears(mate, &stub, HF__REPLY_GRANTED, &reply));
    }
    lock = hf__stakes_find(&conn->stakes, stub.token)->lock;
    CHECK(mate_release(mate, &stub).released);
    for (uint32_t i = 0; i < 4 * HF__SHORT_NAMES_MAX && !forgotten; i++) {
        char other[64];

        CHECK_EQUAL(mate_claim(mate, name_of(other, i), NULL, &stub).kind, HF__REPLY_GRANTED);
        CHECK(mate_release(mate, &stub).released);
        CHECK(hf__line_peek(conn, lock, &word));
        forgotten = (word.low & HF__WORD_RETIRED) != 0;
    }
    CHECK(forgotten);
}

/* It was stopped for so long that others put it out and the name is not even in the table any
 * more: its turn is over, and nothing is damaged. */
TEST(limits, a_turn_whose_name_was_collected_is_gone)
{
    static const struct wish wishes[] = {
        { .ends = true, .lease_ns = 20 * HF__NS_PER_MS },                 /* expires          */
        { .ends = true, .lease_ns = 20 * HF__NS_PER_MS, .shared = true }, /* ... a reader     */
        { .once = true },                                                 /* fast, broken     */
        { .purpose = "other" },                                           /* in line, broken  */
    };
    static const enum hf__request_kind ways[] = { HF__REQUEST_INSPECT, HF__REQUEST_RENEW,
                                                  HF__REQUEST_DOWNGRADE, HF__REQUEST_RELEASE,
                                                  HF__REQUEST_NONE };

    for (size_t i = 0; i < 4 * sizeof(ways) / sizeof(*ways); i++) {
        enum hf__request_kind way = ways[i / 4];
        struct world world;
        struct mate victim;
        struct mate other;
        struct stub stub;
        struct world_reply reply;

        world_make(&world);
        CHECK_EQUAL(mate_open(&victim, &world, "victim"), HF_OK);
        CHECK_EQUAL(mate_open(&other, &world, "other"), HF_OK);
        reply = mate_claim(&victim, "limits/victim", &wishes[i % 4], &stub);
        CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
        put_out_and_forget(&other, "limits/victim", i % 4 < 2 ? 0 : stub.fence);
        if (way == HF__REQUEST_NONE)
            CHECK(mate_hears(&victim, &stub, HF__REPLY_GONE, &reply));
        else
            reply = mate_tell(&victim, way, &stub);
        CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
        CHECK(!reply.released);
        if (reply.cause[0] != '\0') /* else it ended so early that it was told before */
            CHECK(strcmp(reply.cause, i % 4 < 2 ? "expired" : "broken") == 0);
        CHECK_EQUAL(victim.conn->rescued, 0);
        mate_close(&victim);
        CHECK_EQUAL(mate_remains(&other).nodes, mate_inside(&other)->spare_count);
        mate_close(&other);
        world_end(&world);
    }
}

#endif

TEST(limits, a_client_that_holds_ten_thousand)
{
    static const struct wish shared_wish = { .shared = true };
    const uint32_t count = HELD < HF__SHORT_NAMES_MAX ? HELD : HF__SHORT_NAMES_MAX;

    for (int shared = 0; shared < 2; shared++) {
        struct world world;
        struct mate mate;
        struct mate other;
        struct stub *stubs = calloc(count, sizeof(*stubs));
        char(*names)[64] = calloc(count, sizeof(*names));
        struct stub stub;

        world_make(&world);
        CHECK_EQUAL(mate_open(&mate, &world, "many"), HF_OK);
        CHECK_EQUAL(mate_open(&other, &world, "other"), HF_OK);
        for (uint32_t i = 0; i < count; i++)
            CHECK_EQUAL(
                mate_claim(&mate, name_of(names[i], i), shared ? &shared_wish : NULL, &stubs[i])
                    .kind,
                HF__REPLY_GRANTED);
        CHECK_EQUAL(mate_list(&other, "limits/*", NULL, 0), (int)count);
        for (uint32_t i = 0; i < count; i += 7)
            CHECK_EQUAL(mate_claim(&other, names[i], &once_wish, &stub).kind, HF__REPLY_REFUSED);
        mate_sleep(&mate, 1);
        for (uint32_t i = 0; i < count / 2; i++)
            CHECK(mate_release(&mate, &stubs[i]).released);
        mate_close(&mate);
        CHECK_EQUAL(mate_list(&other, NULL, NULL, 0), 0);
        CHECK_EQUAL(mate_remains(&other).owned, 0);
        CHECK_EQUAL(mate_remains(&other).nodes, mate_inside(&other)->spare_count);
        mate_close(&other);
        free(stubs);
        free(names);
        world_end(&world);
    }
}

/* --- a thousand waiters --- */

struct crowd {
    _Atomic uint32_t arrived;
    _Atomic uint32_t served;
    _Atomic uint32_t inside;
    _Atomic uint32_t violations;
    _Atomic uint64_t highest;
    _Atomic uint64_t rescued;
};

static int wait_in_crowd(struct world *world, void *context)
{
    struct crowd *crowd = context;
    struct stub *stubs = calloc(CLAIMS, sizeof(*stubs));
    struct mate mate;
    uint32_t served = 0;

    if (mate_open(&mate, world, "crowd") < 0) {
        fprintf(stderr, "open: %s\n", mate.conn->error);
        return 1;
    }
    for (uint32_t i = 0; i < CLAIMS; i++) {
        struct world_reply reply = mate_claim(&mate, "limits/crowd", NULL, &stubs[i]);

        if (reply.kind != HF__REPLY_QUEUED) {
            fprintf(stderr, "claim %u: reply %d, status %d: %s\n", i, (int)reply.kind, reply.status,
                    mate.conn->error);
            return 2;
        }
        atomic_fetch_add(&crowd->arrived, 1);
    }
    while (served < CLAIMS) {
        bool any = false;

        mate_sleep(&mate, 10000);
        for (uint32_t i = 0; i < CLAIMS; i++) {
            struct world_reply reply;

            if (!mate_hears_within(&mate, &stubs[i], HF__REPLY_GRANTED, &reply, 0))
                continue;
            any = true;
            if (atomic_fetch_add(&crowd->inside, 1) != 0 ||
                atomic_exchange(&crowd->highest, reply.fence) >= reply.fence)
                atomic_fetch_add(&crowd->violations, 1);
            atomic_fetch_sub(&crowd->inside, 1);
            if (!mate_release(&mate, &stubs[i]).released)
                return 3;
            served++;
            atomic_fetch_add(&crowd->served, 1);
        }
        if (!any && mate.dead != 0)
            return 4;
    }
    atomic_fetch_add(&crowd->rescued, mate.conn->rescued);
    mate_close(&mate);
    free(stubs);
    return 0;
}

TEST(limits, a_thousand_waiters_on_one_lock)
{
    struct crowd *crowd = world_share(sizeof(*crowd));
    struct world world;
    struct mate mate;
    struct stub held;
    pid_t children[PROCESSES];
    uint64_t start_ns;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "first"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "limits/crowd", NULL, &held).kind, HF__REPLY_GRANTED);
    for (uint32_t i = 0; i < PROCESSES; i++)
        children[i] = world_fork(&world, wait_in_crowd, crowd);
    CHECK(world_wait_step(&crowd->arrived, PROCESSES * CLAIMS));
    CHECK_EQUAL(mate_list(&mate, "limits/crowd", NULL, 0), (int)(PROCESSES * CLAIMS) + 1);
    start_ns = hf__clock_now_ns();
    CHECK(mate_release(&mate, &held).released);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        int status;

        CHECK_EQUAL(waitpid(children[i], &status, 0), children[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    printf("%u waiters served in %.3f s\n", crowd->served,
           (double)(hf__clock_now_ns() - start_ns) / 1e9);
    CHECK_EQUAL(crowd->served, PROCESSES * CLAIMS);
    CHECK_EQUAL(crowd->violations, 0);
    CHECK_EQUAL(crowd->rescued, 0);
    CHECK_EQUAL(mate_remains(&mate).inflated, 0);
    CHECK_EQUAL(mate_remains(&mate).sessions, 1);
    mate_close(&mate);
    world_end(&world);
    world_unshare(crowd, sizeof(*crowd));
}
