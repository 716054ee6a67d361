/* case_driven.c: can a program with a loop of its own drive the client, without any thread? */

#include <poll.h>
#include <string.h>

#include "peer.h"
#include "world.h"

#define FDS_MAX 64

/* One round of the user's loop: wait for what the client waits for, and for its events. */
static void turn_loop(hf_client *client)
{
    struct pollfd fds[FDS_MAX];
    int64_t timeout_ms = hf_client_timeout_ms(client);
    int count = hf_client_pollfds(client, fds, FDS_MAX);

    CHECK(count >= 0 && count <= FDS_MAX);
    CHECK(timeout_ms >= -1);
    if (timeout_ms < 0 || timeout_ms > 1000)
        timeout_ms = 1000; /* the case has a limit of its own to watch */
    CHECK(poll(fds, (nfds_t)count, (int)timeout_ms) >= 0);
    CHECK_STATUS(HF_OK, hf_client_step(client));
}

static struct hf_event drive_until(hf_client *client, int kind)
{
    struct hf_event event = { .struct_size = sizeof event };
    uint64_t until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS;

    while (hf_client_next_event(client, &event) == 0) {
        CHECK(world_now_ns() < until_ns);
        turn_loop(client);
    }
    CHECK_NUMBER(kind, event.kind);
    return event;
}

CASE(a_driven_client_starts_no_thread)
{
    struct name name = world_name(world, "lock");
    hf_client *client;
    hf_claim *claim;
    hf_grant *grant = NULL;
    int threads;

    hf_close(world->client); /* the one with a keeper */
    world->client = NULL;
    threads = world_thread_count();

    client = world_open_driven(world);
    CHECK_NUMBER(threads, world_thread_count());
    claim = world_claim(client, name.text, NULL);
    drive_until(client, HF_EVENT_GRANTED);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, 0, &grant));
    CHECK_NUMBER(threads, world_thread_count());
    hf_release_start(grant);
    drive_until(client, HF_EVENT_RELEASED);
    hf_claim_free(claim);
    CHECK_NUMBER(threads, world_thread_count());
    hf_close(client);
}

CASE(a_driven_claim_is_granted_by_the_callers_own_loop)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    hf_client *client = world_open_driven(world);
    struct hf_event event;
    hf_claim *claim;
    hf_grant *grant = UNTOUCHED(hf_grant);

    peer_acquire(&other, 0, name.text, NULL);
    claim = world_claim(client, name.text, NULL);
    if (world->promises & HF_PROMISE_FAIR) {
        uint64_t until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS;

        while (world_listed(world, name.text).waiters == 0) {
            CHECK(world_now_ns() < until_ns);
            turn_loop(client);
        }
    }
    CHECK_STATUS(HF_PENDING, hf_claim_wait(claim, 0, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    event = drive_until(client, HF_EVENT_GRANTED);
    CHECK(event.claim == claim);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, 0, &grant));
    CHECK(hf_grant_valid(grant));
    CHECK_STATUS(HF_EBUSY, peer_try(&other, 0, name.text, HF_EXCLUSIVE));
    hf_release_start(grant);
    event = drive_until(client, HF_EVENT_RELEASED);
    CHECK_STATUS(HF_OK, event.status);
    CHECK_STATUS(HF_OK, peer_try(&other, 0, name.text, HF_EXCLUSIVE));
    hf_claim_free(claim);
    hf_close(client);
    peer_end(&other);
}

/* As by a program that sleeps instead of polling. */
static void step_until(hf_client *client, uint64_t until_ns)
{
    while (world_now_ns() < until_ns) {
        CHECK_STATUS(HF_OK, hf_client_step(client));
        world_sleep_ms(1);
    }
}

CASE(a_driven_client_that_is_only_stepped_hears_what_comes)
{
    struct name name = world_name(world, "lock");
    struct hf_event event = { .struct_size = sizeof event };
    hf_grant *held = world_take(world->client, name.text, NULL);
    hf_client *client = world_open_driven(world);
    hf_claim *claim = world_claim(client, name.text, NULL);
    hf_grant *grant = NULL;

    step_until(client, world_now_ns() + 2 * (uint64_t)world->lease_ms * NS_PER_MS);
    CHECK_NUMBER(0, hf_client_next_event(client, &event));
    world_give_back(held);
    for (uint64_t until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS;
         hf_client_next_event(client, &event) == 0;) {
        CHECK(world_now_ns() < until_ns);
        step_until(client, world_now_ns() + NS_PER_MS);
    }
    CHECK_NUMBER(HF_EVENT_GRANTED, event.kind);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, 0, &grant));
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
    hf_claim_free(claim);
    hf_close(client);
}

CASE(a_driven_claim_times_out_in_the_callers_own_loop)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, world_brief_ms(world));
    hf_client *client = world_open_driven(world);
    hf_grant *held = world_take(world->client, name.text, NULL);
    hf_claim *claim = world_claim(client, name.text, &options);
    hf_grant *grant = NULL;

    CHECK_STATUS(HF_ETIMEDOUT, drive_until(client, HF_EVENT_GRANTED).status);
    CHECK_STATUS(HF_ETIMEDOUT, hf_claim_wait(claim, 0, &grant));
    hf_claim_free(claim);
    world_give_back(held);
    hf_close(client);
}

CASE(a_driven_client_keeps_its_lease_alive_by_steps)
{
    struct name name = world_name(world, "lock");
    hf_client *client = world_open_driven(world);
    hf_claim *claim = world_claim(client, name.text, NULL);
    uint64_t end_ns;
    hf_grant *grant = NULL;

    drive_until(client, HF_EVENT_GRANTED);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, 0, &grant));
    end_ns = world_now_ns() + 3 * (uint64_t)world->lease_ms * NS_PER_MS;
    while (world_now_ns() < end_ns) {
        turn_loop(client);
        CHECK(hf_grant_valid(grant));
    }
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_OK, hf_release(grant));
    hf_claim_free(claim);
    hf_close(client);
}

CASE(a_driven_client_learns_of_a_loss_in_its_own_loop)
{
    struct name name = world_name(world, "lock");
    hf_client *client = world_open_driven(world);
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    struct hf_event event;
    hf_grant *grant;

    grant = world_take(client, name.text, &options);
    event = drive_until(client, HF_EVENT_LOST);
    CHECK(event.grant == grant);
    CHECK(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    hf_close(client);
}

CASE(a_driven_client_learns_of_a_break_in_its_own_loop)
{
    struct name name = world_name(world, "lock");
    hf_client *client;
    struct hf_event event;
    hf_grant *grant;

    if (!world_can_break(world))
        return;

    client = world_open_driven(world);
    grant = world_take(client, name.text, NULL);
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, hf_grant_fence(grant)));
    event = drive_until(client, HF_EVENT_LOST);
    CHECK(event.grant == grant);
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    hf_close(client);
}

CASE(blocking_calls_work_on_a_driven_client_too)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    hf_client *client = world_open_driven(world);
    struct hf_acquire_options options = world_waiting(world, world_brief_ms(world));
    hf_grant *grant = world_take(client, name.text, NULL);

    CHECK_STATUS(HF_EBUSY, world_try(client, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_OK, hf_release(grant));

    peer_acquire(&other, 0, name.text, NULL);
    CHECK_STATUS(HF_ETIMEDOUT, hf_acquire(client, name.text, &options, &grant));
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    grant = world_take(client, name.text, NULL);
    CHECK_STATUS(HF_OK, hf_release(grant));
    hf_close(client);
    peer_end(&other);
}

/* Every call goes on with the connecting, too, by which there may be another number of them. */
CASE(pollfds_tells_how_many_there_are_and_fills_what_fits)
{
    hf_client *client = world_open_driven(world);
    uint64_t until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS;
    struct pollfd fds[FDS_MAX];
    unsigned char *bytes = (unsigned char *)fds;
    int told;
    int count;

    do {
        told = hf_client_pollfds(client, NULL, 0);
        memset(fds, 0xA5, sizeof fds);
        CHECK(hf_client_pollfds(client, fds, 0) >= 0);
        for (size_t i = 0; i < sizeof fds; i++)
            CHECK_NUMBER(0xA5, bytes[i]);
        count = hf_client_pollfds(client, fds, FDS_MAX);
        CHECK(count >= 0 && count <= FDS_MAX);
        for (size_t i = (size_t)count * sizeof fds[0]; i < sizeof fds; i++)
            CHECK_NUMBER(0xA5, bytes[i]);
    } while (told != count && world_now_ns() < until_ns);
    CHECK_NUMBER(told, count);
    for (int i = 0; i < count; i++)
        CHECK(fds[i].fd >= 0 && fds[i].events != 0);
    hf_close(client);
}

/* It returns at once; what it cannot promise is the answer of the first claim. */
CASE(a_driven_client_answers_an_unkept_promise_at_its_first_claim)
{
    struct name name = world_name(world, "lock");
    uint32_t all = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                   HF_PROMISE_DURABLE | HF_PROMISE_FAILOVER | HF_PROMISE_CRASH;
    struct hf_open_options options;
    hf_client *client = NULL;
    hf_claim *claim = NULL;
    hf_grant *grant = NULL;
    int status;

    hf_open_options_init(&options);
    options.caller_driven = true;
    options.require = all;
    CHECK_STATUS(HF_OK, hf_open(world->url, &options, &client));
    CHECK_STATUS(HF_OK, hf_claim_start(client, name.text, NULL, &claim));
    drive_until(client, HF_EVENT_GRANTED);
    status = hf_claim_wait(claim, 0, &grant);
    hf_claim_free(claim);
    CHECK_STATUS((world->promises & all) == all ? HF_OK : HF_EPROMISE, status);
    CHECK_STATUS(HF_OK, hf_release(grant));
    hf_close(client);
}
