/* turns.c: mutual exclusion, order, modes and answers, with several connections in one process. */
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "world.h"

TEST(turns, one_claim_is_granted_and_given_back)
{
    struct world world;
    struct mate mate;
    struct stub stub;
    struct world_reply reply;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    reply = mate_claim(&mate, "a", NULL, &stub);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    CHECK(reply.fence > 1ull << HF__COUNTER_BITS);
    reply = mate_release(&mate, &stub);
    CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
    CHECK(reply.released);
    reply = mate_release(&mate, &stub);
    CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
    CHECK(!reply.released);
    mate_close(&mate);
    CHECK_EQUAL(world_files(&world, "s."), 0);
    world_end(&world);
}

TEST(turns, who_comes_second_waits_and_is_woken)
{
    struct world world;
    struct mate first;
    struct mate second;
    struct stub held;
    struct stub waiting;
    struct world_reply reply;

    world_make(&world);
    CHECK_EQUAL(mate_open(&first, &world, "first"), HF_OK);
    CHECK_EQUAL(mate_open(&second, &world, "second"), HF_OK);
    CHECK_EQUAL(mate_claim(&first, "a", NULL, &held).kind, HF__REPLY_GRANTED);
    reply = mate_claim(&second, "a", NULL, &waiting);
    CHECK_EQUAL(reply.kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(reply.ahead, 1);
    CHECK(reply.has_holder);
    CHECK_TEXT(reply.holder.purpose, "first");
    CHECK_EQUAL(reply.holder.fence, held.fence);
    CHECK(!mate_hears_within(&second, &waiting, HF__REPLY_GRANTED, NULL, 0));
    reply = mate_release(&first, &held);
    CHECK(reply.kind == HF__REPLY_GONE && reply.released);
    CHECK(mate_hears(&second, &waiting, HF__REPLY_GRANTED, &reply));
    CHECK_EQUAL(reply.fence, held.fence + 1);
    reply = mate_release(&second, &waiting);
    CHECK(reply.kind == HF__REPLY_GONE && reply.released);
    mate_close(&first);
    mate_close(&second);
    world_end(&world);
}
