/* breaks.c: a turn is taken away, and its holder knows it before anybody else is let in. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "world.h"

static const struct wish once_wish = { .once = true };
static const struct wish shared_wish = { .shared = true };

/* The breaker's request is answered only when the holder has left, and the holder here leaves only
 * when it is driven; so both are driven in turn. */
static bool break_and_drive(struct mate *breaker, struct mate *holder, const char *name,
                            uint64_t fence, struct world_reply *out_reply)
{
    struct stub job = { .id = breaker->next_id++, .name = name };
    struct hf__request request = {
        .ticket = { .kind = HF__REQUEST_BREAK,
                    .claim_id = job.id,
                    .round = 1000000,
                    .sent_ns = hf__clock_now_ns() },
        .name = name,
        .name_bytes = strlen(name),
        .fence = fence,
        .deadline_ns = HF__NEVER,
    };

    if (breaker->conn->engine->submit(breaker->conn, &request) < 0)
        return false;
    for (int i = 0; i < 5000; i++) {
        if (mate_hears_within(breaker, &job, HF__REPLY_DONE, out_reply, 0) ||
            mate_hears_within(breaker, &job, HF__REPLY_GONE, out_reply, 0))
            return true;
        mate_sleep(holder, 1);
    }
    return false;
}

static void break_one(const struct wish *wish)
{
    struct world world;
    struct mate holder;
    struct mate breaker;
    struct mate waiter;
    struct stub held;
    struct stub waiting;
    struct stub tried;
    struct world_reply reply;

    world_make(&world);
    CHECK_EQUAL(mate_open(&holder, &world, "holder"), HF_OK);
    CHECK_EQUAL(mate_open(&breaker, &world, "breaker"), HF_OK);
    CHECK_EQUAL(mate_open(&waiter, &world, "waiter"), HF_OK);
    CHECK_EQUAL(mate_claim(&holder, "a", wish, &held).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&waiter, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_break(&breaker, "a", held.fence + 1).kind, HF__REPLY_GONE);
    CHECK_EQUAL(mate_break(&breaker, "b", held.fence).kind, HF__REPLY_GONE);
    CHECK(break_and_drive(&breaker, &holder, "a", held.fence, &reply));
    CHECK_EQUAL(reply.kind, HF__REPLY_DONE);
    CHECK(mate_hears_within(&holder, &held, HF__REPLY_GONE, &reply, 0)); /* it knew before */
    CHECK_TEXT(reply.cause, "broken");
    CHECK(mate_hears(&waiter, &waiting, HF__REPLY_GRANTED, &reply));
    CHECK(reply.fence > held.fence);
    CHECK_EQUAL(mate_break(&breaker, "a", held.fence).kind, HF__REPLY_GONE); /* over by now */
    CHECK(!mate_release(&holder, &held).released);
    CHECK(mate_release(&waiter, &waiting).released);
    CHECK_EQUAL(mate_claim(&breaker, "a", &once_wish, &tried).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&breaker, &tried).released);
    mate_close(&holder);
    mate_close(&waiter);
    CHECK_EQUAL(mate_remains(&breaker).sessions, 1);
    CHECK_EQUAL(mate_remains(&breaker).inflated, 0);
    mate_close(&breaker);
    world_end(&world);
}

TEST(breaks, a_turn_without_a_node)
{
    break_one(NULL);
}

TEST(breaks, a_turn_with_a_node)
{
    struct wish wish = { .purpose = "other" };

    break_one(&wish);
}

TEST(breaks, a_reader_among_readers)
{
    struct world world;
    struct mate mates[3];
    struct stub stubs[3];
    struct world_reply reply;

    world_make(&world);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(mate_open(&mates[i], &world, "reader"), HF_OK);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(mate_claim(&mates[i], "a", &shared_wish, &stubs[i]).kind, HF__REPLY_GRANTED);
    CHECK(break_and_drive(&mates[0], &mates[1], "a", stubs[1].fence, &reply));
    CHECK_EQUAL(reply.kind, HF__REPLY_DONE);
    CHECK(mate_hears(&mates[1], &stubs[1], HF__REPLY_GONE, &reply));
    CHECK_TEXT(reply.cause, "broken");
    CHECK_EQUAL(mate_tell(&mates[2], HF__REQUEST_RENEW, &stubs[2]).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&mates[0], &stubs[0]).released);
    CHECK(mate_release(&mates[2], &stubs[2]).released);
    for (int i = 0; i < 3; i++)
        mate_close(&mates[i]);
    world_end(&world);
}

TEST(breaks, ones_own_turn)
{
    struct world world;
    struct mate mate;
    struct stub held;
    struct world_reply reply;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "alone"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &held).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_break(&mate, "a", held.fence).kind, HF__REPLY_DONE);
    CHECK(mate_hears(&mate, &held, HF__REPLY_GONE, &reply));
    CHECK_TEXT(reply.cause, "broken");
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &held).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    world_end(&world);
}

/* With a grace the holder keeps the lock until it lets go. */
TEST(breaks, a_grace_lets_the_holder_finish)
{
    struct world world;
    struct mate holder;
    struct mate breaker;
    struct stub held;
    struct stub tried;
    struct stub job;
    struct world_reply reply;
    struct wish wish = { .grace_ns = 30 * HF__NS_PER_S };
    struct hf__request request = { .ticket = { .kind = HF__REQUEST_BREAK, .round = 77 } };

    world_make(&world);
    CHECK_EQUAL(mate_open(&holder, &world, "holder"), HF_OK);
    CHECK_EQUAL(mate_open(&breaker, &world, "breaker"), HF_OK);
    CHECK_EQUAL(mate_claim(&holder, "a", &wish, &held).kind, HF__REPLY_GRANTED);
    job = (struct stub){ .id = breaker.next_id++ };
    request.ticket.claim_id = job.id;
    request.ticket.sent_ns = hf__clock_now_ns();
    request.name = "a";
    request.name_bytes = 1;
    request.fence = held.fence;
    request.deadline_ns = HF__NEVER;
    CHECK_EQUAL(breaker.conn->engine->submit(breaker.conn, &request), HF_OK);
    CHECK(mate_hears(&breaker, &job, HF__REPLY_DONE, NULL)); /* lost to him, and he may take long */
    CHECK(mate_hears(&holder, &held, HF__REPLY_GONE, &reply));
    CHECK_TEXT(reply.cause, "broken");
    CHECK_EQUAL(mate_claim(&breaker, "a", &once_wish, &tried).kind, HF__REPLY_REFUSED);
    reply = mate_release(&holder, &held);
    CHECK(reply.released); /* it was there until now ... */
    CHECK_TEXT(reply.cause, "broken");
    CHECK_EQUAL(mate_claim(&breaker, "a", &once_wish, &tried).kind, HF__REPLY_GRANTED);
    mate_close(&holder);
    mate_close(&breaker);
    world_end(&world);
}

TEST(breaks, a_request_that_ends_before_the_holder_has_left_says_so)
{
    struct world world;
    struct mate holder;
    struct mate breaker;
    struct stub held;
    struct world_reply reply;
    struct wish wish = { 0 };
    struct hf__request request;

    world_make(&world);
    CHECK_EQUAL(mate_open(&holder, &world, "holder"), HF_OK);
    CHECK_EQUAL(mate_open(&breaker, &world, "breaker"), HF_OK);
    CHECK_EQUAL(mate_claim(&holder, "a", &wish, &held).kind, HF__REPLY_GRANTED);
    request = (struct hf__request){
        .ticket = { .kind = HF__REQUEST_BREAK, .claim_id = breaker.next_id++ },
        .name = "a",
        .name_bytes = 1,
        .fence = held.fence,
        .deadline_ns = hf__clock_now_ns() + 20 * HF__NS_PER_MS,
    };
    reply = mate_ask(&breaker, &request);
    CHECK(reply.kind == HF__REPLY_UNKNOWN && reply.status == HF_EUNKNOWN);
    mate_close(&holder);
    mate_close(&breaker);
    world_end(&world);
}

/* --- other processes --- */

struct scene {
    _Atomic uint32_t step;
    _Atomic uint64_t fence;
    const struct wish *wish;
};

static int hold_and_pause(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", scene->wish, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    atomic_store(&scene->fence, stub.fence);
    world_step(&scene->step, 1);
    while (true)
        mate_sleep(&mate, 1000);
}

static pid_t start_holder(struct world *world, struct scene *scene, const struct wish *wish)
{
    pid_t child;

    scene->wish = wish;
    child = world_fork(world, hold_and_pause, scene);
    CHECK(world_wait_step(&scene->step, 1));
    return child;
}

/* A stopped process cannot keep what was taken from it for longer than a second. */
TEST(breaks, a_stopped_holder_is_put_out)
{
    const struct wish with_node = { .purpose = "other" };
    const struct wish *wishes[] = { NULL, &with_node };

    for (int i = 0; i < 2; i++) {
        struct scene *scene = world_share(sizeof(*scene));
        struct world world;
        struct mate mate;
        struct stub tried;
        struct world_reply reply;
        uint64_t start_ns;
        pid_t child;

        world_make(&world);
        child = start_holder(&world, scene, wishes[i]);
        kill(child, SIGSTOP);
        CHECK_EQUAL(mate_open(&mate, &world, "breaker"), HF_OK);
        CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &tried).kind, HF__REPLY_REFUSED);
        start_ns = hf__clock_now_ns();
        reply = mate_break(&mate, "a", scene->fence);
        CHECK_EQUAL(reply.kind, HF__REPLY_DONE);
        CHECK(hf__clock_now_ns() - start_ns >= HF__BROKEN_NS_MIN);
        reply = mate_claim(&mate, "a", &once_wish, &tried);
        CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
        CHECK(reply.fence > scene->fence);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        CHECK_EQUAL(mate_tell(&mate, HF__REQUEST_RENEW, &tried).kind, HF__REPLY_GRANTED);
        mate_close(&mate);
        world_end(&world);
        world_unshare(scene, sizeof(*scene));
    }
}

TEST(breaks, a_lease_of_a_stopped_holder_ends)
{
    const struct wish wish = { .ends = true, .lease_ns = 100 * HF__NS_PER_MS };
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub waiting;
    struct world_reply reply;
    pid_t child;

    world_make(&world);
    child = start_holder(&world, scene, &wish);
    kill(child, SIGSTOP);
    CHECK_EQUAL(mate_open(&mate, &world, "waiter"), HF_OK);
    reply = mate_claim(&mate, "a", NULL, &waiting);
    if (reply.kind == HF__REPLY_QUEUED)
        CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, &reply));
    CHECK(reply.fence > scene->fence);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

TEST(breaks, a_dead_holder_needs_no_patience)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub tried;
    pid_t child;

    world_make(&world);
    child = start_holder(&world, scene, NULL);
    CHECK_EQUAL(mate_open(&mate, &world, "breaker"), HF_OK);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_EQUAL(mate_break(&mate, "a", scene->fence).kind, HF__REPLY_DONE);
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &tried).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}
