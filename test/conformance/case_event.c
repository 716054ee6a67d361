/* case_event.c: is the user told what he has to know, once, in order, and by a descriptor that
 * says the truth? */

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"
#include "world.h"

#define MARK(number) ((void *)(uintptr_t)(number))

static void check_no_event(hf_client *client)
{
    struct hf_event event = { .struct_size = sizeof event };

    CHECK(!world_fd_readable(hf_client_event_fd(client)));
    CHECK_NUMBER(0, hf_client_next_event(client, &event));
}

CASE(a_granted_claim_is_told_by_one_event)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    struct hf_event event;
    hf_claim *claim;
    hf_grant *grant = NULL;

    options.user = MARK(4711);
    claim = world_claim(world->client, name.text, &options);
    world_wait_for_waiters(world, name.text, 1);
    check_no_event(world->client);
    world_give_back(held);

    event = world_event(world->client, HF_EVENT_GRANTED);
    CHECK_STATUS(HF_OK, event.status);
    CHECK(event.claim == claim);
    CHECK(event.user == MARK(4711));
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, 0, &grant));
    check_no_event(world->client);
    world_give_back(grant);
    check_no_event(world->client);
    hf_claim_free(claim);
    hf_close(other);
}

CASE(a_claim_that_ends_without_a_grant_is_told_too)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options trying = world_trying(world);
    struct hf_acquire_options waiting = world_waiting(world, world_brief_ms(world));
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_claim *claims[2];
    struct hf_event event;

    trying.user = MARK(1);
    waiting.user = MARK(2);
    claims[0] = world_claim(world->client, name.text, &trying);
    event = world_event(world->client, HF_EVENT_GRANTED);
    CHECK_STATUS(HF_EBUSY, event.status);
    CHECK(event.claim == claims[0] && event.user == MARK(1) && !event.grant);

    claims[1] = world_claim(world->client, name.text, &waiting);
    event = world_event(world->client, HF_EVENT_GRANTED);
    CHECK_STATUS(HF_ETIMEDOUT, event.status);
    CHECK(event.claim == claims[1] && event.user == MARK(2) && !event.grant);
    check_no_event(world->client);

    hf_claim_free(claims[0]);
    hf_claim_free(claims[1]);
    world_give_back(held);
    hf_close(other);
}

CASE(the_descriptor_is_readable_exactly_while_there_is_an_event)
{
    struct hf_event event = { .struct_size = sizeof event };
    int fd = hf_client_event_fd(world->client);
    hf_claim *claims[3];

    CHECK(!world_fd_readable(fd));
    for (int i = 0; i < 3; i++) {
        char suffix[2] = { (char)('a' + i), '\0' };
        struct name name = world_name(world, suffix);

        claims[i] = world_claim(world->client, name.text, NULL);
    }
    WAIT_UNTIL(world_stats(world->client).held == 3);
    CHECK_NUMBER(fd, hf_client_event_fd(world->client));
    for (int i = 0; i < 3; i++) {
        WAIT_UNTIL(world_fd_readable(fd));
        CHECK_NUMBER(1, hf_client_next_event(world->client, &event));
    }
    CHECK(!world_fd_readable(fd));
    CHECK_NUMBER(0, hf_client_next_event(world->client, &event));
    for (int i = 0; i < 3; i++) {
        world_give_back(world_fetch(claims[i]));
        hf_claim_free(claims[i]);
    }
}

CASE(blocking_acquires_emit_no_granted_event)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    struct hf_acquire_options options = world_waiting(world, LIMIT_MS);
    hf_grant *grant = world_take(world->client, name.text, NULL);

    peer_ask_acquire(&other, 0, name.text, &options);
    world_wait_for_waiters(world, name.text, 1);
    world_give_back(grant);
    CHECK_STATUS(HF_OK, peer_hear(&other).status);
    CHECK_NUMBER(0, peer_do(&other, PEER_EVENT, 0, A_WHILE_MS).number);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    check_no_event(world->client);
    peer_end(&other);
}

CASE(a_started_release_is_answered_by_an_event)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    struct hf_event event;
    hf_grant *grant;
    uintptr_t number;

    options.user = MARK(99);
    grant = world_take(world->client, name.text, &options);
    number = (uintptr_t)grant;
    hf_release_start(grant);
    event = world_event(world->client, HF_EVENT_RELEASED);
    CHECK_STATUS(HF_OK, event.status);
    CHECK((uintptr_t)event.grant == number);
    CHECK(event.user == MARK(99));
    check_no_event(world->client);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

CASE(a_started_release_of_a_lost_grant_answers_lost)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    struct hf_event event = { .struct_size = sizeof event };
    hf_grant *grant = world_take(world->client, name.text, &options);
    uintptr_t number = (uintptr_t)grant;

    WAIT_UNTIL(!hf_grant_valid(grant));
    hf_release_start(grant);
    while (event.kind != HF_EVENT_RELEASED) { /* its LOST may come first */
        struct pollfd descriptor = { .fd = hf_client_event_fd(world->client), .events = POLLIN };

        CHECK_NUMBER(1, poll(&descriptor, 1, LIMIT_MS));
        CHECK_NUMBER(1, hf_client_next_event(world->client, &event));
        CHECK(event.kind == HF_EVENT_RELEASED || event.kind == HF_EVENT_LOST);
    }
    CHECK_STATUS(HF_ELOST, event.status);
    CHECK((uintptr_t)event.grant == number);
    check_no_event(world->client);
}

CASE(a_lost_grant_is_told_once_with_its_cause_and_its_user)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    struct hf_event event;
    hf_grant *grant;

    options.user = MARK(7);
    grant = world_take(world->client, name.text, &options);
    event = world_event(world->client, HF_EVENT_LOST);
    CHECK(event.grant == grant);
    CHECK(event.user == MARK(7));
    CHECK_TEXT("expired", event.cause);
    CHECK(!hf_grant_valid(grant));
    world_sleep_ms(A_WHILE_MS);
    check_no_event(world->client);
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    check_no_event(world->client);
}

/* Broken, and then its lease ends too: one handle, one event, the first cause. */
CASE(lost_is_never_replaced)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    hf_client *other = world_open(world);
    struct hf_event event;
    hf_grant *grant;
    uint64_t end_ns;

    if (!world_can_break(world)) {
        hf_close(other);
        return;
    }
    grant = world_take(world->client, name.text, &options);
    end_ns = world_now_ns() + (uint64_t)world->lease_ms * NS_PER_MS;
    CHECK_STATUS(HF_OK, hf_client_break(other, name.text, hf_grant_fence(grant)));
    WAIT_UNTIL(world_fd_readable(hf_client_event_fd(world->client)));
    WAIT_UNTIL(world_now_ns() > end_ns);
    world_sleep_ms(A_WHILE_MS);
    event = world_event(world->client, HF_EVENT_LOST);
    CHECK(event.grant == grant);
    CHECK(world_tells_break(event.cause));
    check_no_event(world->client);
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    hf_close(other);
}

CASE(events_of_a_freed_claim_are_dropped)
{
    struct name name = world_name(world, "lock");
    hf_claim *claim = world_claim(world->client, name.text, NULL);

    WAIT_UNTIL(world_fd_readable(hf_client_event_fd(world->client)));
    hf_claim_free(claim);
    check_no_event(world->client);
}

CASE(events_of_a_released_grant_are_dropped)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    hf_grant *grant = world_take(world->client, name.text, &options);

    WAIT_UNTIL(world_fd_readable(hf_client_event_fd(world->client)));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    check_no_event(world->client);
}

CASE(events_come_in_the_order_in_which_things_happened)
{
    static const int order[3] = { 2, 0, 1 };
    hf_client *other = world_open(world);
    struct name names[3];
    hf_grant *held[3];
    hf_claim *claims[3];

    for (int i = 0; i < 3; i++) {
        char suffix[2] = { (char)('a' + i), '\0' };
        struct hf_acquire_options options = world_waiting(world, HF_FOREVER);

        options.user = MARK(10 + i);
        names[i] = world_name(world, suffix);
        held[i] = world_take(other, names[i].text, NULL);
        claims[i] = world_claim(world->client, names[i].text, &options);
        world_wait_for_waiters(world, names[i].text, 1);
    }
    for (int i = 0; i < 3; i++) {
        uint64_t now_held = world_stats(world->client).held;

        world_give_back(held[order[i]]);
        WAIT_UNTIL(world_stats(world->client).held == now_held + 1);
    }
    for (int i = 0; i < 3; i++) {
        struct hf_event event = world_event(world->client, HF_EVENT_GRANTED);

        CHECK(event.user == MARK(10 + order[i]));
        CHECK(event.claim == claims[order[i]]);
    }
    check_no_event(world->client);
    for (int i = 0; i < 3; i++) {
        world_give_back(world_fetch(claims[i]));
        hf_claim_free(claims[i]);
    }
    hf_close(other);
}

/* A program compiled against an older header hands in a smaller struct. */
CASE(an_event_is_written_no_further_than_the_callers_struct)
{
    struct name name = world_name(world, "lock");
    union {
        struct hf_event event;
        unsigned char bytes[sizeof(struct hf_event)];
    } space;
    size_t small = offsetof(struct hf_event, remaining_ms);
    hf_claim *claim = world_claim(world->client, name.text, NULL);

    memset(space.bytes, 0xA5, sizeof space);
    space.event.struct_size = small;
    WAIT_UNTIL(world_fd_readable(hf_client_event_fd(world->client)));
    CHECK_NUMBER(1, hf_client_next_event(world->client, &space.event));
    CHECK_NUMBER(HF_EVENT_GRANTED, space.event.kind);
    CHECK(space.event.claim == claim);
    CHECK_NUMBER(small, space.event.struct_size);
    for (size_t i = small; i < sizeof space; i++)
        CHECK_NUMBER(0xA5, space.bytes[i]);
    world_give_back(world_fetch(claim));
    hf_claim_free(claim);
}
