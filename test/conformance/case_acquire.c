/* case_acquire.c: does a lock exclude, and does acquire wait as long as it was told to, not
 * longer, and say who is in the way? */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"
#include "task.h"
#include "world.h"

#define HOLDER "the-one-in-the-way"

CASE(acquire_takes_a_free_lock_and_release_gives_it_back)
{
    struct name name = world_name(world, "lock");
    hf_grant *grant = NULL;

    CHECK_STATUS(HF_OK, hf_acquire(world->client, name.text, NULL, &grant));
    CHECK(hf_grant_valid(grant));
    CHECK(hf_grant_remaining_ms(grant) > 0);
    CHECK_NUMBER(HF_EXCLUSIVE, hf_grant_mode(grant));
    CHECK_TEXT(name.text, hf_grant_name(grant));
    CHECK(!(world->promises & HF_PROMISE_FENCE) || hf_grant_fence(grant) > 0);
    CHECK_STATUS(HF_OK, hf_release(grant));
    CHECK_NUMBER(0, world_listed(world, name.text).holders);
}

CASE(acquire_waits_until_the_holder_lets_go)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    hf_grant *grant = world_take(world->client, name.text, NULL);

    peer_ask_acquire(&other, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    world_sleep_ms(A_WHILE_MS);
    CHECK(!peer_answered(&other));

    world_give_back(grant);
    CHECK_STATUS(HF_OK, peer_hear(&other).status);
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(acquire_that_does_not_wait_is_busy_at_once)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_trying(world);
    struct peer other = peer_start(world);
    hf_grant *grant = UNTOUCHED(hf_grant);

    peer_acquire(&other, 0, name.text, NULL);
    CHECK_STATUS(HF_EBUSY, hf_acquire(world->client, name.text, &options, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    CHECK_NUMBER(0, world_listed(world, name.text).waiters);

    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    CHECK_STATUS(HF_OK, hf_acquire(world->client, name.text, &options, &grant));
    world_give_back(grant);
    peer_end(&other);
}

/* By process or by purpose; a layout of another program's may have room for neither. */
static bool names_holder(const char *text, pid_t pid)
{
    char number[32];

    snprintf(number, sizeof number, "%lld", (long long)pid);
    return strstr(text, HOLDER) || strstr(text, number);
}

static int find_pid(const struct hf_holding *holding, void *context)
{
    int64_t *pid = (int64_t *)context;

    *pid = holding->waiting ? *pid : holding->pid;
    return 0;
}

static void check_text_names_holder(struct world *world, const struct peer *other, const char *name)
{
    char text[512];
    int64_t listed_pid = 0;

    snprintf(text, sizeof text, "%s", hf_client_error(world->client));
    CHECK_STATUS(HF_OK, hf_client_list(world->client, name, find_pid, &listed_pid));
    if (listed_pid == 0 && world->recipe.is_legacy)
        return;
    if (!names_holder(text, other->pid))
        fprintf(stderr, "the text is '%s'\n", text);
    CHECK(names_holder(text, other->pid));
}

CASE(a_busy_answer_names_the_holder)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options held = world_waiting(world, HF_FOREVER);
    struct hf_acquire_options options = world_trying(world);
    struct peer other = peer_start(world);
    hf_grant *grant = NULL;

    held.purpose = HOLDER;
    peer_acquire(&other, 0, name.text, &held);
    CHECK_STATUS(HF_EBUSY, hf_acquire(world->client, name.text, &options, &grant));
    check_text_names_holder(world, &other, name.text);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(a_timed_out_answer_names_the_holder)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options held = world_waiting(world, HF_FOREVER);
    struct hf_acquire_options options = world_waiting(world, world_brief_ms(world));
    struct peer other = peer_start(world);
    hf_grant *grant = UNTOUCHED(hf_grant);

    held.purpose = HOLDER;
    peer_acquire(&other, 0, name.text, &held);
    CHECK_STATUS(HF_ETIMEDOUT, hf_acquire(world->client, name.text, &options, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    check_text_names_holder(world, &other, name.text);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(a_wait_with_a_limit_lasts_no_less_than_the_limit)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, world_brief_ms(world));
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_grant *grant = NULL;
    uint64_t started_ns = world_now_ns();

    CHECK_STATUS(HF_ETIMEDOUT, hf_acquire(world->client, name.text, &options, &grant));
    CHECK(world_now_ns() - started_ns >= (uint64_t)(options.wait_ms - 1) * NS_PER_MS);
    CHECK(hf_grant_valid(held));
    world_give_back(held);
    hf_close(other);
}

CASE(a_wait_with_a_limit_succeeds_when_the_lock_comes_free_in_time)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, LIMIT_MS);
    struct peer other = peer_start(world);
    hf_grant *grant = world_take(world->client, name.text, NULL);

    peer_ask_acquire(&other, 0, name.text, &options);
    world_wait_for_waiters(world, name.text, 1);
    world_give_back(grant);
    CHECK_STATUS(HF_OK, peer_hear(&other).status);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(a_wait_that_timed_out_leaves_no_waiter_behind)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, world->lease_ms / 8);
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_grant *grant = NULL;

    for (int i = 0; i < 5; i++)
        CHECK_STATUS(HF_ETIMEDOUT, hf_acquire(world->client, name.text, &options, &grant));
    WAIT_UNTIL(world_listed(world, name.text).waiters == 0);
    CHECK_NUMBER(0, world_stats(world->client).waiting);

    /* Nobody who gave up stands between the holder and the next one. */
    world_give_back(held);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
    hf_close(other);
}

CASE(locks_of_different_names_do_not_meet)
{
    struct name one = world_name(world, "a");
    struct name longer = world_name(world, "ab");
    struct name upper = world_name(world, "A");
    hf_client *other = world_open(world);
    hf_grant *first = world_take(world->client, one.text, NULL);
    hf_grant *second = world_take(other, longer.text, NULL);
    hf_grant *third = world_take(other, upper.text, NULL);

    CHECK_STATUS(HF_EBUSY, world_try(other, one.text, HF_EXCLUSIVE));
    world_give_back(first);
    CHECK(hf_grant_valid(second) && hf_grant_valid(third));
    CHECK_STATUS(HF_OK, world_try(other, one.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, longer.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, upper.text, HF_EXCLUSIVE));
    world_give_back(second);
    world_give_back(third);
    hf_close(other);
}

CASE(a_lock_excludes_the_threads_of_one_client)
{
    struct name name = world_name(world, "lock");
    struct task task = { .client = world->client, .name = name.text };
    hf_grant *grant = world_take(world->client, name.text, NULL);

    task_start(&task);
    WAIT_UNTIL(world_stats(world->client).waiting == 1);
    world_sleep_ms(A_WHILE_MS);
    CHECK(!task_done(&task));
    world_give_back(grant);
    CHECK_STATUS(HF_OK, task_join(&task));
    world_give_back(task.grant);
}

CASE(a_lock_excludes_two_clients_of_one_process)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_grant *grant = world_take(world->client, name.text, NULL);

    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    world_give_back(grant);
    grant = world_take(other, name.text, NULL);
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    world_give_back(grant);
    hf_close(other);
}

CASE(without_an_owner_a_lock_is_not_re_entrant)
{
    struct name name = world_name(world, "lock");
    hf_grant *grant = world_take(world->client, name.text, NULL);

    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
}

CASE(a_grant_may_be_released_by_another_thread)
{
    struct name name = world_name(world, "lock");
    struct task task = { .client = world->client, .name = name.text };

    task_start(&task);
    CHECK_STATUS(HF_OK, task_join(&task));
    CHECK(hf_grant_valid(task.grant));
    world_give_back(task.grant);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

static void notice(int signal_number)
{
    (void)signal_number;
}

CASE(signals_to_a_waiting_thread_do_not_end_its_wait)
{
    struct sigaction action = { .sa_handler = notice }; /* no SA_RESTART: calls are interrupted */
    struct name name = world_name(world, "lock");
    struct task task = { .client = world->client, .name = name.text };
    hf_client *other = world_open(world);
    hf_grant *grant = world_take(other, name.text, NULL);

    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    task_start(&task);
    world_wait_for_waiters(world, name.text, 1);
    for (int i = 0; i < 20; i++) {
        CHECK(pthread_kill(task.thread, SIGUSR1) == 0);
        world_sleep_ms(5);
        CHECK(!task_done(&task));
    }
    world_give_back(grant);
    CHECK_STATUS(HF_OK, task_join(&task));
    world_give_back(task.grant);
    hf_close(other);
}

CASE(a_dead_holder_makes_room_for_the_next)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    struct hf_acquire_options options = world_waiting(world, LIMIT_MS);
    struct task task = { .client = world->client, .name = name.text, .options = &options };
    uint64_t fence = peer_acquire(&other, 0, name.text, NULL);

    if (!(world->promises & HF_PROMISE_CRASH)) {
        CHECK_STATUS(HF_OK, peer_release(&other, 0));
        peer_end(&other);
        world->refused = HF_EPROMISE;
        return;
    }
    task_start(&task);
    world_wait_for_waiters(world, name.text, 1);
    peer_kill(&other);
    CHECK_STATUS(HF_OK, task_join(&task));
    CHECK(!(world->promises & HF_PROMISE_FENCE) || hf_grant_fence(task.grant) > fence);
    world_give_back(task.grant);
}

CASE(a_dead_waiter_falls_out_of_the_queue)
{
    struct name name = world_name(world, "lock");
    struct peer dead = peer_start(world);
    struct hf_acquire_options options = world_waiting(world, LIMIT_MS);
    struct task task = { .client = world->client, .name = name.text, .options = &options };
    hf_client *holder = world_open(world);
    hf_grant *grant = world_take(holder, name.text, NULL);

    peer_ask_acquire(&dead, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    task_start(&task);
    world_wait_for_waiters(world, name.text, 2);
    peer_kill(&dead);
    world_give_back(grant);
    CHECK_STATUS(HF_OK, task_join(&task));
    world_give_back(task.grant);
    hf_close(holder);
}

CASE(waiters_of_different_processes_are_served_in_order)
{
    struct name name = world_name(world, "lock");
    struct peer waiters[5];
    hf_grant *grant;
    uint64_t fence = 0;

    if (!world_is_fair(world))
        return;

    grant = world_take(world->client, name.text, NULL);
    for (size_t i = 0; i < 5; i++) {
        waiters[i] = peer_start(world);
        peer_ask_acquire(&waiters[i], 0, name.text, NULL);
        world_wait_for_waiters(world, name.text, i + 1);
    }
    world_give_back(grant);
    for (size_t i = 0; i < 5; i++) {
        struct peer_answer answer = peer_hear(&waiters[i]);

        CHECK_STATUS(HF_OK, answer.status);
        CHECK(answer.fence > fence || !(world->promises & HF_PROMISE_FENCE));
        fence = answer.fence;
        for (size_t later = i + 1; later < 5; later++)
            CHECK(!peer_answered(&waiters[later]));
        CHECK_STATUS(HF_OK, peer_release(&waiters[i], 0));
    }
    for (size_t i = 0; i < 5; i++)
        peer_end(&waiters[i]);
}
