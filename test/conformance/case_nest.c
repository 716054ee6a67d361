/* case_nest.c: may the same owner take the same lock again, and does it go with the last handle
 * and not before? */

#include <string.h>

#include "task.h"
#include "world.h"

static struct hf_acquire_options by_thread(const struct world *world)
{
    struct hf_acquire_options options = world_trying(world);

    options.owner = HF_OWNER_THREAD;
    return options;
}

static struct hf_acquire_options by_name(const struct world *world, const char *owner_name)
{
    struct hf_acquire_options options = world_trying(world);

    options.owner = HF_OWNER_NAMED;
    options.owner_name = owner_name;
    return options;
}

CASE(a_thread_may_take_its_lock_again)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_thread(world);
    hf_client *other = world_open(world);
    hf_grant *grants[5];

    for (int i = 0; i < 5; i++) {
        grants[i] = world_take(world->client, name.text, &options);
        CHECK(i == 0 || grants[i] != grants[0]);
        CHECK_NUMBER(hf_grant_fence(grants[0]), hf_grant_fence(grants[i]));
        CHECK_TEXT(name.text, hf_grant_name(grants[i]));
    }
    CHECK_NUMBER(1, world_listed(world, name.text).holders);
    for (int i = 4; i >= 0; i--) {
        CHECK(hf_grant_valid(grants[i]));
        CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
        world_give_back(grants[i]);
    }
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_EXCLUSIVE));
    hf_close(other);
}

CASE(nested_handles_may_end_in_any_order)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_thread(world);
    hf_client *other = world_open(world);
    hf_grant *outer = world_take(world->client, name.text, &options);
    hf_grant *inner = world_take(world->client, name.text, &options);

    world_give_back(outer);
    CHECK(hf_grant_valid(inner));
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    outer = world_take(world->client, name.text, &options);
    CHECK_NUMBER(hf_grant_fence(inner), hf_grant_fence(outer));
    world_give_back(inner);
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    world_give_back(outer);
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_EXCLUSIVE));
    hf_close(other);
}

CASE(a_new_nest_has_a_new_fence)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_thread(world);
    uint64_t fence = 0;

    if (!world_has_fences(world))
        return;

    for (int i = 0; i < 3; i++) {
        hf_grant *outer = world_take(world->client, name.text, &options);
        hf_grant *inner = world_take(world->client, name.text, &options);

        CHECK(hf_grant_fence(outer) > fence);
        fence = hf_grant_fence(inner);
        world_give_back(inner);
        world_give_back(outer);
    }
}

CASE(threads_are_different_owners)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_thread(world);
    struct task task = { .client = world->client, .name = name.text, .options = &options };
    hf_grant *grant = world_take(world->client, name.text, &options);

    task_start(&task);
    CHECK_STATUS(HF_EBUSY, task_join(&task));
    CHECK(!task.grant);
    world_give_back(grant);
}

/* A new thread may get the number of one that has ended; it is somebody else all the same. */
CASE(a_new_thread_is_not_the_one_that_ended)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_thread(world);
    struct task first = { .client = world->client, .name = name.text, .options = &options };

    task_start(&first);
    CHECK_STATUS(HF_OK, task_join(&first));
    for (int i = 0; i < 20; i++) {
        struct task next = { .client = world->client, .name = name.text, .options = &options };

        task_start(&next);
        CHECK_STATUS(HF_EBUSY, task_join(&next));
    }
    world_give_back(first.grant);
}

CASE(a_named_owner_is_the_same_in_every_thread)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options alice = by_name(world, "alice");
    struct hf_acquire_options bob = by_name(world, "bob");
    struct task task = { .client = world->client, .name = name.text, .options = &alice };
    hf_grant *grant = world_take(world->client, name.text, &alice);
    hf_grant *refused = NULL;

    task_start(&task);
    CHECK_STATUS(HF_OK, task_join(&task));
    CHECK_NUMBER(hf_grant_fence(grant), hf_grant_fence(task.grant));
    CHECK_STATUS(HF_EBUSY, hf_acquire(world->client, name.text, &bob, &refused));
    world_give_back(grant);
    CHECK_STATUS(HF_EBUSY, hf_acquire(world->client, name.text, &bob, &refused));
    world_give_back(task.grant);
    world_give_back(world_take(world->client, name.text, &bob));
}

CASE(the_same_owner_of_another_client_is_somebody_else)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options alice = by_name(world, "alice");
    struct hf_acquire_options thread = by_thread(world);
    hf_client *other = world_open(world);
    hf_grant *grant = world_take(world->client, name.text, &alice);
    hf_grant *refused = NULL;

    CHECK_STATUS(HF_EBUSY, hf_acquire(other, name.text, &alice, &refused));
    world_give_back(grant);
    grant = world_take(world->client, name.text, &thread);
    CHECK_STATUS(HF_EBUSY, hf_acquire(other, name.text, &thread, &refused));
    world_give_back(grant);
    hf_close(other);
}

CASE(an_owner_does_not_nest_under_a_grant_of_nobody)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options thread = by_thread(world);
    struct hf_acquire_options alice = by_name(world, "alice");
    hf_grant *grant = world_take(world->client, name.text, NULL);
    hf_grant *refused = NULL;

    CHECK_STATUS(HF_EBUSY, hf_acquire(world->client, name.text, &thread, &refused));
    CHECK_STATUS(HF_EBUSY, hf_acquire(world->client, name.text, &alice, &refused));
    world_give_back(grant);

    grant = world_take(world->client, name.text, &thread);
    CHECK_STATUS(HF_EBUSY, hf_acquire(world->client, name.text, &alice, &refused));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    world_give_back(grant);
}

CASE(shared_under_exclusive_is_granted)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options writing = by_thread(world);
    struct hf_acquire_options reading = by_thread(world);
    hf_client *other;
    hf_grant *outer;
    hf_grant *inner;

    if (!world_can_share(world))
        return;

    other = world_open(world);
    reading.mode = HF_SHARED;
    outer = world_take(world->client, name.text, &writing);
    inner = world_take(world->client, name.text, &reading);
    CHECK_NUMBER(hf_grant_fence(outer), hf_grant_fence(inner));
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_SHARED)); /* still exclusive */
    world_give_back(inner);
    CHECK(hf_grant_valid(outer));
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_SHARED));
    world_give_back(outer);
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_SHARED));
    hf_close(other);
}

CASE(shared_under_shared_is_granted)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = by_name(world, "alice");
    hf_grant *outer;
    hf_grant *inner;

    if (!world_can_share(world))
        return;

    reading.mode = HF_SHARED;
    outer = world_take(world->client, name.text, &reading);
    inner = world_take(world->client, name.text, &reading);
    CHECK_NUMBER(hf_grant_fence(outer), hf_grant_fence(inner));
    CHECK_NUMBER(1, world_listed(world, name.text).holders);
    world_give_back(outer);
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    world_give_back(inner);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

CASE(exclusive_under_shared_is_a_deadlock)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = by_thread(world);
    struct hf_acquire_options writing = by_thread(world);
    hf_grant *outer;
    hf_grant *inner = UNTOUCHED(hf_grant);

    if (!world_can_share(world))
        return;

    reading.mode = HF_SHARED;
    writing.wait_ms = HF_FOREVER;
    outer = world_take(world->client, name.text, &reading);
    CHECK_STATUS(HF_EDEADLOCK, hf_acquire(world->client, name.text, &writing, &inner));
    writing.wait_ms = 0;
    CHECK_STATUS(HF_EDEADLOCK, hf_acquire(world->client, name.text, &writing, &inner));
    CHECK(inner == UNTOUCHED(hf_grant));
    CHECK(hf_grant_valid(outer));
    world_give_back(outer);
}

CASE(under_a_lost_grant_nothing_is_nested)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options first = by_thread(world);
    struct hf_acquire_options again = by_thread(world);
    hf_grant *inner = UNTOUCHED(hf_grant);
    hf_grant *outer;

    first.lease_ms = world->lease_ms;
    first.fixed_lease = true;
    again.wait_ms = HF_FOREVER;
    outer = world_take(world->client, name.text, &first);
    WAIT_UNTIL(!hf_grant_valid(outer));
    CHECK_STATUS(HF_ELOST, hf_acquire(world->client, name.text, &again, &inner));
    CHECK(inner == UNTOUCHED(hf_grant));
    CHECK_STATUS(HF_ELOST, hf_release(outer));

    /* With the last handle of the lost nest gone, the owner may begin anew. */
    outer = world_take(world->client, name.text, &again);
    CHECK(hf_grant_valid(outer));
    world_give_back(outer);
}

CASE(every_handle_of_a_lost_nest_is_lost)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_thread(world);
    hf_grant *grants[3];

    options.lease_ms = world->lease_ms;
    options.fixed_lease = true;
    for (int i = 0; i < 3; i++)
        grants[i] = world_take(world->client, name.text, &options);
    WAIT_UNTIL(!hf_grant_valid(grants[0]));
    for (int i = 0; i < 3; i++) {
        CHECK(!hf_grant_valid(grants[i]));
        CHECK_NUMBER(0, hf_grant_remaining_ms(grants[i]));
    }
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(HF_ELOST, hf_release(grants[i]));
}

CASE(a_nested_grant_has_the_lease_of_the_outer_one)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options first = by_thread(world);
    struct hf_acquire_options again = by_thread(world);
    hf_grant *outer;
    hf_grant *inner;

    first.lease_ms = 60000;
    first.fixed_lease = true;
    again.lease_ms = world->lease_ms;
    again.max_hold_ms = world->lease_ms;
    outer = world_take(world->client, name.text, &first);
    inner = world_take(world->client, name.text, &again);
    CHECK(hf_grant_remaining_ms(inner) > world_left_ms(world, 40000));
    CHECK(hf_grant_remaining_ms(outer) > world_left_ms(world, 40000));
    world_sleep_ms(world->lease_ms * 3 / 2);
    CHECK(hf_grant_valid(inner) && hf_grant_valid(outer));
    world_give_back(inner);
    CHECK(hf_grant_valid(outer));
    world_give_back(outer);
}

CASE(nests_of_two_names_end_each_on_its_own)
{
    struct name one = world_name(world, "one");
    struct name two = world_name(world, "two");
    struct hf_acquire_options options = by_thread(world);
    hf_client *other = world_open(world);
    hf_grant *grants[4];

    grants[0] = world_take(world->client, one.text, &options);
    grants[1] = world_take(world->client, two.text, &options);
    grants[2] = world_take(world->client, one.text, &options);
    grants[3] = world_take(world->client, two.text, &options);
    world_give_back(grants[0]);
    world_give_back(grants[2]);
    CHECK_STATUS(HF_OK, world_try(other, one.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_EBUSY, world_try(other, two.text, HF_EXCLUSIVE));
    world_give_back(grants[1]);
    CHECK_STATUS(HF_EBUSY, world_try(other, two.text, HF_EXCLUSIVE));
    world_give_back(grants[3]);
    CHECK_STATUS(HF_OK, world_try(other, two.text, HF_EXCLUSIVE));
    hf_close(other);
}

CASE(a_claim_nests_as_an_acquire_does)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_name(world, "alice");
    hf_client *other = world_open(world);
    hf_grant *outer = world_take(world->client, name.text, &options);
    hf_claim *claim = world_claim(world->client, name.text, &options);
    hf_grant *inner = world_fetch(claim);

    CHECK_NUMBER(hf_grant_fence(outer), hf_grant_fence(inner));
    world_give_back(outer);
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    world_give_back(inner);
    hf_claim_free(claim);

    /* One that was never fetched counts, and goes when its claim is freed. */
    outer = world_take(world->client, name.text, &options);
    claim = world_claim(world->client, name.text, &options);
    world_give_back(outer);
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    hf_claim_free(claim);
    WAIT_UNTIL(world_try(other, name.text, HF_EXCLUSIVE) == HF_OK);
    hf_close(other);
}

/* Its own waiters do not stand between an owner and its nest: that would be waiting for oneself. */
CASE(an_owner_nests_although_others_wait)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = by_thread(world);
    hf_client *other = world_open(world);
    struct task task = { .client = other, .name = name.text };
    hf_grant *outer = world_take(world->client, name.text, &options);
    hf_grant *inner;

    task_start(&task);
    world_wait_for_waiters(world, name.text, 1);
    inner = world_take(world->client, name.text, &options);
    world_give_back(inner);
    CHECK(!task_done(&task));
    world_give_back(outer);
    CHECK_STATUS(HF_OK, task_join(&task));
    world_give_back(task.grant);
    hf_close(other);
}
