/* case_fence.c: does the number that guards the resource rise with every grant, whoever gets it
 * and whatever happened before? */

#include "peer.h"
#include "world.h"

#define ROUNDS 50

CASE(fences_rise_with_every_grant)
{
    struct name name = world_name(world, "lock");
    uint64_t fence = 0;

    if (!world_has_fences(world))
        return;

    for (int i = 0; i < ROUNDS; i++) {
        hf_grant *grant = world_take(world->client, name.text, NULL);

        CHECK(hf_grant_fence(grant) > fence);
        CHECK(hf_grant_fence(grant) < 1ull << 62);
        fence = hf_grant_fence(grant);
        world_give_back(grant);
    }
}

CASE(fences_rise_across_clients_and_processes)
{
    struct name name = world_name(world, "lock");
    struct peer peers[2];
    hf_client *second;
    uint64_t fence = 0;

    if (!world_has_fences(world))
        return;

    peers[0] = peer_start(world);
    peers[1] = peer_start(world);
    second = world_open(world);
    for (int i = 0; i < ROUNDS; i++) {
        hf_grant *grant = world_take(i % 2 ? second : world->client, name.text, NULL);
        uint64_t peers_fence;

        CHECK(hf_grant_fence(grant) > fence);
        fence = hf_grant_fence(grant);
        world_give_back(grant);
        peers_fence = peer_acquire(&peers[i % 2], 0, name.text, NULL);
        CHECK(peers_fence > fence);
        fence = peers_fence;
        CHECK_STATUS(HF_OK, peer_release(&peers[i % 2], 0));
    }
    hf_close(second);
    peer_end(&peers[0]);
    peer_end(&peers[1]);
}

CASE(fences_of_readers_are_distinct_and_rise)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, 0);
    hf_client *other;
    hf_grant *grants[20];
    hf_grant *writer;
    uint64_t last;

    if (!world_has_fences(world) || !world_can_share(world))
        return;

    other = world_open(world);
    for (int i = 0; i < 20; i++) {
        grants[i] = world_take(i % 2 ? other : world->client, name.text, &reading);
        CHECK(i == 0 || hf_grant_fence(grants[i]) > hf_grant_fence(grants[i - 1]));
    }
    last = hf_grant_fence(grants[19]);
    for (int i = 0; i < 20; i++)
        world_give_back(grants[i]);
    writer = world_take(other, name.text, NULL);
    CHECK(hf_grant_fence(writer) > last);
    world_give_back(writer);
    hf_close(other);
}

CASE(fences_rise_between_readers_and_writers)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, 0);
    uint64_t fence = 0;

    if (!world_has_fences(world) || !world_can_share(world))
        return;

    for (int i = 0; i < ROUNDS; i++) {
        hf_grant *grant = world_take(world->client, name.text, i % 3 ? &reading : NULL);

        CHECK(hf_grant_fence(grant) > fence);
        fence = hf_grant_fence(grant);
        world_give_back(grant);
    }
}

CASE(fences_rise_after_close_and_re_open)
{
    struct name name = world_name(world, "lock");
    uint64_t fence = 0;

    if (!world_has_fences(world))
        return;

    hf_close(world->client);
    world->client = NULL;
    for (int i = 0; i < 10; i++) {
        hf_client *client = world_open(world);
        hf_grant *grant = world_take(client, name.text, NULL);

        CHECK(hf_grant_fence(grant) > fence);
        fence = hf_grant_fence(grant);
        if (i % 2)
            world_give_back(grant);
        hf_close(client);
        if (i % 2 == 0)
            CHECK_STATUS(HF_ELOST, hf_release(grant));
    }
}

CASE(fences_rise_after_a_loss_a_break_and_a_death)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options fixed = world_fixed(world, world->lease_ms);
    struct peer other;
    hf_grant *grant;
    uint64_t fence;
    uint64_t others_fence;

    if (!world_has_fences(world) || !world_can_break(world))
        return;

    other = peer_start(world);
    grant = world_take(world->client, name.text, &fixed);
    fence = hf_grant_fence(grant);
    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));

    grant = world_take(world->client, name.text, NULL);
    CHECK(hf_grant_fence(grant) > fence);
    fence = hf_grant_fence(grant);
    CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, fence));
    others_fence = peer_acquire(&other, 0, name.text, NULL);
    CHECK(others_fence > fence);
    CHECK_STATUS(HF_ELOST, hf_release(grant));

    peer_kill(&other);
    if (!(world->promises & HF_PROMISE_CRASH)) /* the dead keep it until somebody takes it away */
        CHECK_STATUS(HF_OK, hf_client_break(world->client, name.text, others_fence));
    grant = world_take(world->client, name.text, NULL);
    CHECK(hf_grant_fence(grant) > others_fence);
    world_give_back(grant);
}

CASE(a_grant_keeps_its_fence)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options fixed = world_fixed(world, world->lease_ms);
    hf_grant *grant = world_take(world->client, name.text, &fixed);
    uint64_t fence = hf_grant_fence(grant);

    CHECK_STATUS(HF_OK, hf_grant_extend(grant, world->lease_ms));
    CHECK_NUMBER(fence, hf_grant_fence(grant));
    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_NUMBER(fence, hf_grant_fence(grant)); /* still what its late writes carry */
    CHECK_STATUS(HF_ELOST, hf_release(grant));
}
