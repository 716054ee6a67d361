/* case_claim.c: may a program ask for a lock without blocking, look at how it stands, and walk
 * away at any moment, leaving nothing behind? */

#include <stdio.h>

#include "peer.h"
#include "task.h"
#include "world.h"

#define CROWD 1000
#define RACES 200

CASE(a_claim_on_a_free_lock_is_granted)
{
    struct name name = world_name(world, "lock");
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    hf_grant *grant = world_fetch(claim);

    CHECK(hf_grant_valid(grant));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    hf_claim_free(claim);
    CHECK(hf_grant_valid(grant));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    world_give_back(grant);
}

CASE(a_claim_on_a_held_lock_is_pending_until_it_is_free)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    hf_grant *grant = UNTOUCHED(hf_grant);

    CHECK_STATUS(HF_PENDING, hf_claim_wait(claim, 0, &grant));
    CHECK_STATUS(HF_PENDING, hf_claim_wait(claim, A_WHILE_MS, &grant));
    CHECK_STATUS(HF_PENDING, hf_claim_wait(claim, 0, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));

    world_give_back(held);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, LIMIT_MS, &grant));
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
    hf_claim_free(claim);
    hf_close(other);
}

static void ask_after(hf_claim *claim, uint64_t for_ms)
{
    uint64_t until_ns = world_now_ns() + for_ms * NS_PER_MS;
    hf_grant *grant = UNTOUCHED(hf_grant);

    while (world_now_ns() < until_ns) {
        CHECK_STATUS(HF_PENDING, hf_claim_wait(claim, 0, &grant));
        world_sleep_ms(1);
    }
}

/* Whoever asks and does not wait must not keep the client's own thread from what comes. */
CASE(a_claim_that_is_only_asked_after_is_granted)
{
    struct name name = world_name(world, "lock");
    struct name kept_name = world_name(world, "kept");
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_grant *kept = world_take(world->client, kept_name.text, NULL);
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    hf_grant *grant = NULL;

    ask_after(claim, 2 * (uint64_t)world->lease_ms);
    CHECK(hf_grant_valid(kept)); /* what answered its renewals was heard */
    world_give_back(held);
    WAIT_UNTIL(hf_claim_wait(claim, 0, &grant) == HF_OK);
    CHECK(hf_grant_valid(grant));
    CHECK(hf_grant_valid(kept));
    world_give_back(grant);
    world_give_back(kept);
    hf_claim_free(claim);
    hf_close(other);
}

CASE(a_claim_hands_out_its_grant_once)
{
    struct name name = world_name(world, "lock");
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    hf_grant *grant = world_fetch(claim);
    hf_grant *again = UNTOUCHED(hf_grant);

    CHECK_STATUS(HF_OK, hf_claim_wait(claim, 0, &again));
    CHECK(again == UNTOUCHED(hf_grant) || !again);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, HF_FOREVER, &again));
    CHECK(again == UNTOUCHED(hf_grant) || !again);
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
    hf_claim_free(claim);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

CASE(a_claim_that_does_not_wait_is_busy_and_stays_so)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_trying(world);
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_claim *claim = world_claim(world->client, name.text, &options);
    hf_grant *grant = UNTOUCHED(hf_grant);

    CHECK_STATUS(HF_EBUSY, hf_claim_wait(claim, LIMIT_MS, &grant));
    world_give_back(held);
    CHECK_STATUS(HF_EBUSY, hf_claim_wait(claim, 0, &grant));
    hf_claim_cancel(claim);
    CHECK_STATUS(HF_EBUSY, hf_claim_wait(claim, HF_FOREVER, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    hf_claim_free(claim);
    hf_close(other);
}

CASE(a_claim_with_a_wait_limit_times_out_and_stays_so)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, world_brief_ms(world));
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    uint64_t started_ns = world_now_ns();
    hf_claim *claim = world_claim(world->client, name.text, &options);
    hf_grant *grant = UNTOUCHED(hf_grant);

    CHECK_STATUS(HF_ETIMEDOUT, hf_claim_wait(claim, LIMIT_MS, &grant));
    CHECK(world_now_ns() - started_ns >= (uint64_t)(options.wait_ms - 1) * NS_PER_MS);
    world_give_back(held);
    CHECK_STATUS(HF_ETIMEDOUT, hf_claim_wait(claim, 0, &grant));
    CHECK_STATUS(HF_ETIMEDOUT, hf_claim_wait(claim, HF_FOREVER, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    hf_claim_free(claim);
    WAIT_UNTIL(world_try(world->client, name.text, HF_EXCLUSIVE) == HF_OK);
    hf_close(other);
}

CASE(cancel_from_another_thread_wakes_whoever_waits_for_the_claim)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    struct task task = { .claim = world_claim(world->client, name.text, NULL) };

    task_start(&task);
    world_wait_for_waiters(world, name.text, 1);
    world_sleep_ms(A_WHILE_MS);
    CHECK(!task_done(&task));
    hf_claim_cancel(task.claim);
    CHECK_STATUS(HF_ECANCELLED, task_join(&task));
    CHECK(!task.grant);
    WAIT_UNTIL(world_listed(world, name.text).waiters == 0);
    hf_claim_free(task.claim);
    world_give_back(held);
    hf_close(other);
}

CASE(cancel_is_idempotent_and_its_answer_is_given_again)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    hf_grant *grant = UNTOUCHED(hf_grant);

    hf_claim_cancel(claim);
    hf_claim_cancel(claim);
    CHECK_STATUS(HF_ECANCELLED, hf_claim_wait(claim, HF_FOREVER, &grant));
    hf_claim_cancel(claim);
    CHECK_STATUS(HF_ECANCELLED, hf_claim_wait(claim, 0, &grant));
    world_give_back(held);
    CHECK_STATUS(HF_ECANCELLED, hf_claim_wait(claim, A_WHILE_MS, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    WAIT_UNTIL(world_try(other, name.text, HF_EXCLUSIVE) == HF_OK);
    hf_claim_free(claim);
    hf_close(other);
}

CASE(cancel_after_the_grant_came_changes_nothing)
{
    struct name name = world_name(world, "lock");
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    hf_grant *grant = NULL;

    WAIT_UNTIL(world_stats(world->client).held == 1);
    hf_claim_cancel(claim);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, 0, &grant));
    CHECK(hf_grant_valid(grant));
    hf_claim_cancel(claim);
    CHECK(hf_grant_valid(grant));
    hf_claim_free(claim);
    world_give_back(grant);
}

CASE(freeing_a_claim_cancels_what_is_under_way)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_claim *claim = world_claim(world->client, name.text, NULL);

    world_wait_for_waiters(world, name.text, 1);
    hf_claim_free(claim);
    WAIT_UNTIL(world_listed(world, name.text).waiters == 0);
    world_give_back(held);
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_EXCLUSIVE));
    CHECK_NUMBER(0, world_stats(world->client).waiting);
    hf_close(other);
}

CASE(freeing_a_claim_releases_a_grant_that_was_never_fetched)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    struct hf_acquire_options options = world_waiting(world, LIMIT_MS);

    WAIT_UNTIL(world_stats(world->client).held == 1);
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    hf_claim_free(claim);
    world_give_back(world_take(other, name.text, &options));
    WAIT_UNTIL(world_stats(world->client).held == 0);
    hf_close(other);
}

CASE(a_claim_that_nobody_waits_for_is_granted_all_the_same)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    hf_grant *held = world_take(world->client, name.text, NULL);
    struct peer_answer answer;

    peer_claim(&other, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    world_give_back(held);

    /* The peer sits in recv(): only its keeper can have taken the lock. */
    WAIT_UNTIL(world_try(world->client, name.text, HF_EXCLUSIVE) == HF_EBUSY);
    answer = peer_do(&other, PEER_FETCH, 0, LIMIT_MS);
    CHECK_STATUS(HF_OK, answer.status);
    peer_do(&other, PEER_FREE_CLAIM, 0, 0);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(a_claim_knows_how_many_are_ahead)
{
    struct name name = world_name(world, "lock");
    hf_client *second = world_open(world);
    hf_client *third = world_open(world);
    hf_grant *held = world_take(world->client, name.text, NULL);
    hf_claim *front;
    hf_claim *back;

    if (!world_is_fair(world)) {
        hf_claim *claim = world_claim(second, name.text, NULL);

        CHECK(hf_claim_position(claim) >= -1);
        hf_claim_free(claim);
        world_give_back(held);
        hf_close(second);
        hf_close(third);
        return;
    }
    front = world_claim(second, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    back = world_claim(third, name.text, NULL);
    WAIT_UNTIL(hf_claim_position(front) == 1);
    WAIT_UNTIL(hf_claim_position(back) == 2);

    world_give_back(held);
    world_give_back(world_fetch(front));
    world_give_back(world_fetch(back));
    hf_claim_free(front);
    hf_claim_free(back);
    hf_close(second);
    hf_close(third);
}

CASE(a_thousand_claims_of_one_thread_are_granted_in_order)
{
    struct name name = world_name(world, "lock");
    hf_claim *claims[CROWD];
    uint64_t fence = 0;

    if (!world_is_fair(world))
        return;

    for (size_t i = 0; i < CROWD; i++)
        claims[i] = world_claim(world->client, name.text, NULL);
    for (size_t i = 0; i < CROWD; i++) {
        hf_grant *grant = world_fetch(claims[i]);
        hf_grant *early = NULL;

        CHECK(!(world->promises & HF_PROMISE_FENCE) || hf_grant_fence(grant) > fence);
        fence = hf_grant_fence(grant);
        if (i + 1 < CROWD)
            CHECK_STATUS(HF_PENDING, hf_claim_wait(claims[i + 1], 0, &early));
        world_give_back(grant);
    }
    for (size_t i = 0; i < CROWD; i++)
        hf_claim_free(claims[i]);
}

CASE(claims_of_many_names_go_forward_together)
{
    hf_claim *claims[64];
    hf_grant *grants[64];

    for (int i = 0; i < 64; i++) {
        char suffix[16] = { 'n', (char)('0' + i / 10), (char)('0' + i % 10) };
        struct name name = world_name(world, suffix);

        claims[i] = world_claim(world->client, name.text, NULL);
    }
    for (int i = 63; i >= 0; i--)
        grants[i] = world_fetch(claims[i]);
    CHECK_NUMBER(64, world_stats(world->client).held);
    for (int i = 0; i < 64; i++) {
        hf_claim_free(claims[i]);
        world_give_back(grants[i]);
    }
}

CASE(two_threads_that_wait_for_one_claim_get_one_grant)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_claim *claim = world_claim(world->client, name.text, NULL);
    struct task first = { .claim = claim };
    struct task second = { .claim = claim };

    task_start(&first);
    task_start(&second);
    world_sleep_ms(A_WHILE_MS);
    world_give_back(held);
    CHECK_STATUS(HF_OK, task_join(&first));
    CHECK_STATUS(HF_OK, task_join(&second));
    CHECK((first.grant != NULL) != (second.grant != NULL));
    world_give_back(first.grant ? first.grant : second.grant);
    hf_claim_free(claim);
    hf_close(other);
}

static void release_held(struct task *task)
{
    task->status = hf_release(task->grant);
}

/* Either it was cancelled or it was granted, and in both cases nothing stays:
 * a turn that is nobody's would last for longer than anybody waits here. */
CASE(cancel_racing_with_the_grant_is_one_or_the_other)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    struct hf_acquire_options options = world_waiting(world, LIMIT_MS);
    int granted = 0;

    options.lease_ms = 2 * LIMIT_MS;
    for (int i = 0; i < RACES; i++) {
        struct task task = { .run = release_held, .grant = world_take(other, name.text, &options) };
        hf_claim *claim = world_claim(world->client, name.text, &options);
        hf_grant *grant = NULL;
        int status;

        task_start(&task);
        for (volatile int spin = 0; spin < (i % 50) * 200; spin++)
            continue;
        hf_claim_cancel(claim);
        status = hf_claim_wait(claim, LIMIT_MS, &grant);
        CHECK(status == HF_OK || status == HF_ECANCELLED);
        CHECK((status == HF_OK) == (grant != NULL));
        granted += status == HF_OK;
        CHECK_STATUS(HF_OK, task_join(&task));
        if (grant)
            world_give_back(grant);
        hf_claim_free(claim);
    }
    printf("granted %d of %d\n", granted, RACES);
    WAIT_UNTIL(world_try(other, name.text, HF_EXCLUSIVE) == HF_OK);
    hf_close(other);
}
