/* case_break.c: can a lock be taken away from the turn that somebody looked at, and from no
 * other, and is its holder told? */

#include <string.h>

#include "peer.h"
#include "task.h"
#include "world.h"

CASE(break_takes_the_lock_from_its_holder_who_is_told)
{
    struct name name = world_name(world, "lock");
    struct hf_event event;
    hf_client *other;
    hf_grant *grant;

    if (!world_can_break(world))
        return;

    other = world_open(world);
    grant = world_take(world->client, name.text, NULL);
    CHECK_STATUS(HF_OK, hf_client_break(other, name.text, hf_grant_fence(grant)));
    event = world_event(world->client, HF_EVENT_LOST);
    CHECK(event.grant == grant);
    CHECK(world_tells_break(event.cause));
    CHECK(!hf_grant_valid(grant));
    CHECK_NUMBER(0, hf_grant_remaining_ms(grant));
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    CHECK_NUMBER(1, world_stats(world->client).lost);
    hf_close(other);
}

CASE(break_lets_the_next_in_and_leaves_the_queue_alone)
{
    struct name name = world_name(world, "lock");
    struct peer holder;
    struct peer waiters[3];
    uint64_t fence;

    if (!world_can_break(world) || !world_is_fair(world))
        return;

    holder = peer_start(world);
    fence = peer_acquire(&holder, 0, name.text, NULL);
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = peer_start(world);
        peer_ask_acquire(&waiters[i], 0, name.text, NULL);
        world_wait_for_waiters(world, name.text, i + 1);
    }
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, fence));
    for (int i = 0; i < 3; i++) {
        struct peer_answer answer = peer_hear(&waiters[i]);

        CHECK_STATUS(HF_OK, answer.status);
        CHECK(answer.fence > fence);
        fence = answer.fence;
        for (int later = i + 1; later < 3; later++)
            CHECK(!peer_answered(&waiters[later]));
        CHECK_STATUS(HF_OK, peer_release(&waiters[i], 0));
        peer_end(&waiters[i]);
    }
    CHECK_NUMBER(HF_EVENT_LOST, peer_do(&holder, PEER_EVENT, 0, LIMIT_MS).number);
    CHECK_STATUS(HF_ELOST, peer_release(&holder, 0));
    peer_end(&holder);
}

static void check_only_its_own_fence_breaks(hf_client *client, const char *name, uint64_t old,
                                            uint64_t fence)
{
    CHECK_STATUS(HF_ELOST, hf_client_break(client, name, old));
    CHECK_STATUS(HF_ELOST, hf_client_break(client, name, fence + 256));
    CHECK_STATUS(HF_ELOST, hf_client_break(client, name, fence + (1ull << 40)));
    CHECK_STATUS(HF_ELOST, hf_client_break(client, name, 1));
    world_sleep_ms(A_WHILE_MS);
}

/* Alone, and with somebody in line, which a store may keep in another way. */
CASE(break_with_another_fence_touches_nobody)
{
    struct name name = world_name(world, "lock");
    struct task task = { .name = name.text };
    hf_client *other;
    hf_grant *grant;
    uint64_t old;

    if (!world_can_break(world))
        return;

    other = world_open(world);
    grant = world_take(world->client, name.text, NULL);
    old = hf_grant_fence(grant);
    world_give_back(grant);
    grant = world_take(world->client, name.text, NULL);
    check_only_its_own_fence_breaks(other, name.text, old, hf_grant_fence(grant));
    CHECK(hf_grant_valid(grant));
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));

    task.client = other;
    task_start(&task);
    world_wait_for_waiters(world, name.text, 1);
    check_only_its_own_fence_breaks(world->client, name.text, old, hf_grant_fence(grant));
    CHECK(hf_grant_valid(grant));
    CHECK(!task_done(&task));
    world_give_back(grant);
    CHECK_STATUS(HF_OK, task_join(&task));
    world_give_back(task.grant);
    hf_close(other);
}

CASE(break_of_a_turn_that_is_over_answers_lost)
{
    struct name name = world_name(world, "lock");
    struct name never = world_name(world, "never-taken");
    hf_grant *grant;
    uint64_t fence;

    if (!world_can_break(world))
        return;

    CHECK_STATUS(HF_ELOST, hf_client_break(world->client, never.text, 256));
    grant = world_take(world->client, name.text, NULL);
    fence = hf_grant_fence(grant);
    world_give_back(grant);
    CHECK_STATUS(HF_ELOST, hf_client_break(world->client, name.text, fence));

    grant = world_take(world->client, name.text, NULL);
    fence = hf_grant_fence(grant);
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, fence));
    CHECK_STATUS(HF_ELOST, hf_client_break(world->client, name.text, fence));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    CHECK_NUMBER(0, world_listed(world, name.text).holders);
}

CASE(break_of_one_reader_leaves_the_others)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, 0);
    hf_client *other;
    hf_grant *grants[2];

    if (!world_can_break(world) || !world_can_share(world))
        return;

    other = world_open(world);
    grants[0] = world_take(world->client, name.text, &reading);
    grants[1] = world_take(other, name.text, &reading);
    CHECK_STATUS(HF_OK, hf_client_break(other, name.text, hf_grant_fence(grants[0])));
    world_event(world->client, HF_EVENT_LOST);
    world_sleep_ms(A_WHILE_MS);
    CHECK(hf_grant_valid(grants[1]));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_ELOST, hf_release(grants[0]));
    world_give_back(grants[1]);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
    hf_close(other);
}

CASE(break_ends_every_handle_of_a_nest)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_trying(world);
    hf_client *other;
    hf_grant *outer;
    hf_grant *inner;

    if (!world_can_break(world))
        return;

    other = world_open(world);
    options.owner = HF_OWNER_THREAD;
    outer = world_take(world->client, name.text, &options);
    inner = world_take(world->client, name.text, &options);
    CHECK_STATUS(HF_OK, hf_client_break(other, name.text, hf_grant_fence(inner)));
    WAIT_UNTIL(!hf_grant_valid(outer) && !hf_grant_valid(inner));
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_ELOST, hf_release(inner));
    CHECK_STATUS(HF_ELOST, hf_release(outer));
    hf_close(other);
}

/* A recipe that knows no grace must say so rather than let the next in early. */
static bool has_grace(struct world *world, const char *name, struct hf_acquire_options *options)
{
    hf_grant *grant = UNTOUCHED(hf_grant);

    options->grace_ms = LIMIT_MS;
    if (!world_caveat_names(world, "grace"))
        return true;

    CHECK_STATUS(HF_EUNSUPPORTED, hf_acquire(world->client, name, options, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    world->refused = HF_EUNSUPPORTED;
    return false;
}

CASE(a_broken_holder_with_a_grace_lets_go_before_the_next_gets_in)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    struct peer next;
    struct peer_answer answer;
    uint64_t released_ns;
    hf_grant *grant;

    if (!world_can_break(world) || !has_grace(world, name.text, &options))
        return;

    next = peer_start(world);
    options.grace_ms = LIMIT_MS;
    grant = world_take(world->client, name.text, &options);
    peer_ask_acquire(&next, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, hf_grant_fence(grant)));
    world_event(world->client, HF_EVENT_LOST);
    CHECK(!hf_grant_valid(grant));
    world_sleep_ms(2 * A_WHILE_MS);
    CHECK(!peer_answered(&next));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    released_ns = world_now_ns();
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    answer = peer_hear(&next);
    CHECK_STATUS(HF_OK, answer.status);
    CHECK(answer.after_ns >= released_ns);
    CHECK_STATUS(HF_OK, peer_release(&next, 0));
    peer_end(&next);
}

CASE(a_grace_ends_though_the_broken_holder_stays)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    struct peer next;
    struct peer_answer answer;
    uint64_t broken_ns;
    hf_grant *grant;

    if (!world_can_break(world) || !has_grace(world, name.text, &options))
        return;

    next = peer_start(world);
    options.grace_ms = 500;
    grant = world_take(world->client, name.text, &options);
    peer_ask_acquire(&next, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    broken_ns = world_now_ns();
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, hf_grant_fence(grant)));
    answer = peer_hear(&next);
    CHECK_STATUS(HF_OK, answer.status);
    CHECK(answer.after_ns - broken_ns >= 500 * NS_PER_MS);
    CHECK_NUMBER(1, peer_do(&next, PEER_VALID, 0, 0).number);
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    CHECK_NUMBER(1, peer_do(&next, PEER_VALID, 0, 0).number);
    CHECK_STATUS(HF_OK, peer_release(&next, 0));
    peer_end(&next);
}

CASE(a_dead_holder_has_no_grace)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    struct peer holder;
    hf_grant *grant;
    uint64_t fence;

    if (!world_can_break(world) || !has_grace(world, name.text, &options) ||
        !world_frees_the_dead(world))
        return;

    holder = peer_start(world);
    options.grace_ms = 3600000;
    fence = peer_acquire(&holder, 0, name.text, &options);
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, fence));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    peer_kill(&holder);
    grant = world_take(world->client, name.text, NULL);
    CHECK(hf_grant_fence(grant) > fence);
    world_give_back(grant);
}

static int find_fence(const struct hf_holding *holding, void *context)
{
    uint64_t *fence = (uint64_t *)context;

    *fence = holding->fence;
    return 0;
}

/* The grant may be handed out, and is not valid; or the final answer is that it was lost. */
CASE(a_grant_that_is_broken_before_it_is_fetched_is_lost)
{
    struct name name = world_name(world, "lock");
    hf_claim *claim;
    hf_grant *grant = NULL;
    uint64_t fence = 0;
    int status;

    if (!world_can_break(world))
        return;

    claim = world_claim(world->client, name.text, NULL);
    WAIT_UNTIL(world_stats(world->client).held == 1);
    CHECK_STATUS(HF_OK, hf_client_list(world->client, name.text, find_fence, &fence));
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, fence));
    WAIT_UNTIL(world_stats(world->client).lost == 1);
    status = hf_claim_wait(claim, LIMIT_MS, &grant);
    CHECK(status == HF_OK || status == HF_ELOST);
    CHECK((status == HF_OK) == (grant != NULL));
    CHECK(!hf_grant_valid(grant));
    CHECK_STATUS(grant ? HF_ELOST : HF_OK, hf_release(grant));
    hf_claim_free(claim);
}
