/* case_lease.c: does a grant last as long as it was promised, and does its holder know its end
 * before anybody else is let in? */

#include <signal.h>
#include <string.h>

#include "peer.h"
#include "task.h"
#include "world.h"

/* The last instant at which the grant was certainly still believed: read before the look. */
static uint64_t watch_until_invalid(hf_grant *grant)
{
    uint64_t until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS;
    uint64_t look_ns = world_now_ns();
    uint64_t valid_ns = 0;

    while (hf_grant_valid(grant)) {
        valid_ns = look_ns;
        CHECK(look_ns < until_ns);
        if (hf_grant_remaining_ms(grant) > 20)
            world_sleep_ms(1); /* close to the end, every instant counts */
        look_ns = world_now_ns();
    }
    return valid_ns;
}

CASE(renewal_keeps_a_short_lease_alive)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    hf_client *other = world_open(world);
    hf_grant *grant = world_take(world->client, name.text, &options);
    uint64_t end_ns = world_now_ns() + 3 * (uint64_t)world->lease_ms * NS_PER_MS;

    while (world_now_ns() < end_ns) {
        CHECK(hf_grant_valid(grant));
        CHECK(hf_grant_remaining_ms(grant) > 0);
        CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
        world_sleep_ms(20);
    }
    CHECK_NUMBER(0, world_stats(world->client).lost);
    world_give_back(grant);
    hf_close(other);
}

CASE(a_fixed_lease_ends_as_lost_before_another_gets_in)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    struct peer other = peer_start(world);
    hf_grant *grant = world_take(world->client, name.text, &options);
    uint64_t fence = hf_grant_fence(grant);
    uint64_t valid_ns;
    struct peer_answer answer;

    peer_ask_acquire(&other, 0, name.text, NULL);
    valid_ns = watch_until_invalid(grant);
    answer = peer_hear(&other);
    CHECK_STATUS(HF_OK, answer.status);
    CHECK(valid_ns <= answer.after_ns);
    CHECK(answer.fence > fence || !(world->promises & HF_PROMISE_FENCE));
    CHECK(!hf_grant_valid(grant));
    CHECK_NUMBER(0, hf_grant_remaining_ms(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));

    /* A release that came too late takes nothing from the next one. */
    CHECK_NUMBER(1, peer_do(&other, PEER_VALID, 0, 0).number);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    CHECK_NUMBER(1, world_stats(world->client).lost);
    peer_end(&other);
}

CASE(a_fixed_lease_may_be_released_early)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, 60000);
    hf_grant *grant = world_take(world->client, name.text, &options);

    CHECK(hf_grant_remaining_ms(grant) <= 60000);
    world_give_back(grant);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

CASE(remaining_falls_to_zero_when_validity_ends)
{
    struct name name = world_name(world, "lock");
    /* Where there are sessions, what is beyond them comes with their renewal. */
    struct hf_acquire_options options = world_fixed(world, world_left_ms(world, world->lease_ms));
    hf_grant *grant = world_take(world->client, name.text, &options);
    int64_t remaining_ms = hf_grant_remaining_ms(grant);
    uint64_t until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS;

    CHECK(remaining_ms <= options.lease_ms);
    while (remaining_ms > 0) {
        int64_t later_ms = hf_grant_remaining_ms(grant);

        CHECK(later_ms <= remaining_ms);
        remaining_ms = later_ms;
        CHECK(world_now_ns() < until_ns);
        world_sleep_ms(1);
    }
    /* Rounded down: the last millisecond may still be valid, for a millisecond. */
    world_sleep_ms(2);
    CHECK(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
}

CASE(the_lease_of_the_client_is_the_default)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_grant *grant;

    options.fixed_lease = true;
    grant = world_take(world->client, name.text, &options);
    CHECK(hf_grant_remaining_ms(grant) <= world->lease_ms);
    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
}

CASE(a_maximal_hold_ends_a_grant_that_is_renewed)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    struct peer other = peer_start(world);
    struct peer_answer answer;
    struct hf_event event;
    uint64_t valid_ns;
    uint64_t started_ns = world_now_ns();
    hf_grant *grant;

    options.max_hold_ms = 3 * world->lease_ms;
    grant = world_take(world->client, name.text, &options);
    CHECK(hf_grant_remaining_ms(grant) <= options.max_hold_ms);
    peer_ask_acquire(&other, 0, name.text, NULL);
    valid_ns = watch_until_invalid(grant);
    answer = peer_hear(&other);
    CHECK_STATUS(HF_OK, answer.status);
    CHECK(valid_ns <= answer.after_ns);
    CHECK(valid_ns - started_ns > (uint64_t)world->lease_ms * NS_PER_MS); /* it was renewed */
    event = world_event(world->client, HF_EVENT_LOST);
    CHECK(event.grant == grant);
    CHECK_TEXT("max hold", event.cause);
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(extend_sets_the_end_and_does_not_add_to_it)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, 20000);
    hf_grant *grant = world_take(world->client, name.text, &options);
    uint64_t fence = hf_grant_fence(grant);

    CHECK(hf_grant_remaining_ms(grant) > world_left_ms(world, 15000));
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(HF_OK, hf_grant_extend(grant, 30000));
        CHECK(hf_grant_remaining_ms(grant) > world_left_ms(world, 20000));
        CHECK(hf_grant_remaining_ms(grant) <= 30000);
    }
    CHECK_NUMBER(fence, hf_grant_fence(grant));
    world_give_back(grant);
}

CASE(extend_may_shorten)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, 3600000);
    struct peer other = peer_start(world);
    hf_grant *grant = world_take(world->client, name.text, &options);
    uint64_t valid_ns;
    struct peer_answer answer;

    CHECK_STATUS(HF_OK, hf_grant_extend(grant, world->lease_ms));
    CHECK(hf_grant_remaining_ms(grant) <= world->lease_ms);
    peer_ask_acquire(&other, 0, name.text, NULL);
    valid_ns = watch_until_invalid(grant);
    answer = peer_hear(&other);
    CHECK_STATUS(HF_OK, answer.status);
    CHECK(valid_ns <= answer.after_ns);
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(extend_again_and_again_keeps_a_fixed_lease)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, 2 * world->lease_ms);
    hf_client *other = world_open(world);
    hf_grant *grant = world_take(world->client, name.text, &options);
    uint64_t end_ns = world_now_ns() + 3 * (uint64_t)options.lease_ms * NS_PER_MS / 2;

    while (world_now_ns() < end_ns) {
        CHECK_STATUS(HF_OK, hf_grant_extend(grant, options.lease_ms));
        CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
        world_sleep_ms(50);
    }
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
    hf_close(other);
}

CASE(a_lost_grant_cannot_be_extended)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    hf_grant *grant = world_take(world->client, name.text, &options);

    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_grant_extend(grant, 10000));
    CHECK(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
}

CASE(extend_takes_only_a_lease_within_the_limits)
{
    struct name name = world_name(world, "lock");
    hf_grant *grant = world_take(world->client, name.text, NULL);

    CHECK_STATUS(HF_EINVAL, hf_grant_extend(grant, -1));
    CHECK_STATUS(HF_EINVAL, hf_grant_extend(grant, HF_LEASE_MS_MIN - 1));
    CHECK_STATUS(HF_EINVAL, hf_grant_extend(grant, (int64_t)HF_LEASE_MS_MAX + 1));
    CHECK_STATUS(HF_EINVAL, hf_grant_extend(grant, INT64_MAX));
    CHECK_STATUS(HF_EINVAL, hf_grant_extend(grant, INT64_MIN));
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
}

CASE(extend_does_not_reach_beyond_the_maximal_hold)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    hf_grant *grant;

    options.max_hold_ms = 2 * world->lease_ms;
    grant = world_take(world->client, name.text, &options);
    CHECK_STATUS(HF_OK, hf_grant_extend(grant, 60000));
    CHECK(hf_grant_remaining_ms(grant) <= options.max_hold_ms);
    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
}

/* Another gets in meanwhile; where the store frees nobody who stands still, nobody does: NULL. */
static hf_grant *take_beside_stopped(struct world *world, const char *name)
{
    struct hf_acquire_options options = world_waiting(world, 2 * world->lease_ms);
    hf_grant *grant = NULL;

    if (!world_caveat_names(world, "Nothing ends the lock"))
        return world_take(world->client, name, NULL); /* its lease ends, though it stands */
    CHECK_STATUS(HF_ETIMEDOUT, hf_acquire(world->client, name, &options, &grant));
    return NULL;
}

/* The question waits in the socket while the process is stopped: what is asked first after it
 * goes on is hf_grant_valid(), before any other thread of it need have run. */
CASE(a_stop_longer_than_a_fixed_lease_is_noticed_at_once)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    struct peer holder = peer_start(world);
    struct peer_call question = { .verb = PEER_VALID };
    struct peer_answer answer;
    uint64_t fence = peer_acquire(&holder, 0, name.text, &options);
    hf_grant *grant;

    peer_stop(&holder);
    grant = take_beside_stopped(world, name.text);
    peer_ask(&holder, &question);
    peer_signal(&holder, SIGCONT);
    answer = peer_hear(&holder);
    CHECK_NUMBER(0, answer.number);
    CHECK_STATUS(HF_ELOST, peer_release(&holder, 0));
    if (!grant)
        grant = world_take(world->client, name.text, NULL); /* what ended was given back */
    CHECK(!(world->promises & HF_PROMISE_FENCE) || hf_grant_fence(grant) > fence);
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
    peer_end(&holder);
}

/* With no fixed lease it is the store's choice: either it keeps the lock for the stopped holder,
 * who is still valid afterwards, or it let another in, and the holder knows at once. */
CASE(a_stopped_holder_is_never_valid_beside_another)
{
    struct name name = world_name(world, "lock");
    struct peer holder = peer_start(world);
    struct peer_call question = { .verb = PEER_VALID };
    struct hf_acquire_options options = world_waiting(world, 2 * world->lease_ms);
    struct peer_answer answer;
    hf_grant *grant = NULL;
    int status;

    peer_acquire(&holder, 0, name.text, NULL);
    peer_stop(&holder);
    status = hf_acquire(world->client, name.text, &options, &grant);
    CHECK(status == HF_OK || status == HF_ETIMEDOUT);
    peer_ask(&holder, &question);
    peer_signal(&holder, SIGCONT);
    answer = peer_hear(&holder);
    CHECK(status != HF_OK || answer.number == 0);
    if (status == HF_OK)
        world_give_back(grant);
    CHECK_STATUS(answer.number ? HF_OK : HF_ELOST, peer_release(&holder, 0));
    peer_end(&holder);
}

CASE(a_waiter_that_was_stopped_is_served_all_the_same)
{
    struct name name = world_name(world, "lock");
    struct peer waiter = peer_start(world);
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    hf_grant *grant = world_take(world->client, name.text, NULL);

    peer_ask_acquire(&waiter, 0, name.text, &options);
    world_wait_for_waiters(world, name.text, 1);
    peer_stop(&waiter);
    world_sleep_ms(world->lease_ms * 3 / 2);
    peer_signal(&waiter, SIGCONT);
    world_give_back(grant);
    CHECK_STATUS(HF_OK, peer_hear(&waiter).status);
    CHECK_STATUS(HF_OK, peer_release(&waiter, 0));
    peer_end(&waiter);
}

static void burn(struct task *task)
{
    uint64_t end_ns = world_now_ns() + *(uint64_t *)task->context;

    while (world_now_ns() < end_ns)
        continue;
}

/* Threads that never sleep may make renewals late; then the holder knows before the next is in. */
CASE(a_starved_holder_is_never_valid_beside_another)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    uint64_t burn_ns = 3 * (uint64_t)world->lease_ms * NS_PER_MS / 2;
    struct task tasks[16];
    hf_grant *grant = world_take(world->client, name.text, NULL);
    uint64_t valid_ns = 0;
    uint64_t end_ns = world_now_ns() + burn_ns;
    struct peer_answer answer;
    int status;

    peer_ask_acquire(&other, 0, name.text, NULL);
    for (int i = 0; i < 16; i++) {
        tasks[i] = (struct task){ .run = burn, .context = &burn_ns };
        task_start(&tasks[i]);
    }
    while (world_now_ns() < end_ns) {
        uint64_t look_ns = world_now_ns();

        if (hf_grant_valid(grant))
            valid_ns = look_ns;
    }
    for (int i = 0; i < 16; i++)
        task_join(&tasks[i]);
    status = hf_release(grant);
    CHECK(status == HF_OK || status == HF_ELOST);
    answer = peer_hear(&other);
    CHECK_STATUS(HF_OK, answer.status);
    CHECK(valid_ns <= answer.after_ns);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}
