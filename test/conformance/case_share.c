/* case_share.c: do readers hold together, writers alone, both in order of arrival, and can a
 * writer become a reader without letting anybody slip in between? */

#include "peer.h"
#include "task.h"
#include "world.h"

CASE(readers_hold_together)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, 0);
    struct peer other;
    hf_client *second;
    hf_grant *grants[2];

    if (!world_can_share(world))
        return;

    other = peer_start(world);
    second = world_open(world);
    grants[0] = world_take(world->client, name.text, &reading);
    grants[1] = world_take(second, name.text, &reading);
    CHECK_STATUS(HF_OK, peer_try(&other, 0, name.text, HF_SHARED));
    CHECK_NUMBER(HF_SHARED, hf_grant_mode(grants[0]));
    CHECK(hf_grant_valid(grants[0]) && hf_grant_valid(grants[1]));
    CHECK_NUMBER(3, world_listed(world, name.text).holders);
    world_give_back(grants[0]);
    world_give_back(grants[1]);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    hf_close(second);
    peer_end(&other);
}

CASE(readers_of_one_client_hold_together)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, LIMIT_MS);
    hf_grant *grants[8];

    if (!world_can_share(world))
        return;

    for (int i = 0; i < 8; i++)
        grants[i] = world_take(world->client, name.text, &reading);
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    for (int i = 0; i < 8; i++) {
        CHECK(hf_grant_valid(grants[i]));
        world_give_back(grants[i]);
    }
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

CASE(readers_and_writers_exclude_each_other)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, 0);
    hf_client *other;
    hf_grant *grant;

    if (!world_can_share(world))
        return;

    other = world_open(world);
    grant = world_take(world->client, name.text, NULL);
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_SHARED));
    world_give_back(grant);
    grant = world_take(world->client, name.text, &reading);
    CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_SHARED));
    world_give_back(grant);
    CHECK_STATUS(HF_OK, world_try(other, name.text, HF_EXCLUSIVE));
    hf_close(other);
}

CASE(a_writer_waits_for_every_reader)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, 0);
    struct peer writer;
    hf_grant *grants[3];

    if (!world_can_share(world))
        return;

    writer = peer_start(world);
    for (int i = 0; i < 3; i++)
        grants[i] = world_take(world->client, name.text, &reading);
    peer_ask_acquire(&writer, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    for (int i = 0; i < 3; i++) {
        world_sleep_ms(A_WHILE_MS / 3);
        CHECK(!peer_answered(&writer));
        world_give_back(grants[i]);
    }
    CHECK_STATUS(HF_OK, peer_hear(&writer).status);
    CHECK_STATUS(HF_OK, peer_release(&writer, 0));
    peer_end(&writer);
}

static bool is_fair_and_shared(struct world *world)
{
    return world_can_share(world) && world_is_fair(world);
}

CASE(a_reader_behind_a_waiting_writer_waits)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, HF_FOREVER);
    struct peer writer;
    struct peer reader;
    hf_grant *grant;

    if (!is_fair_and_shared(world))
        return;

    writer = peer_start(world);
    reader = peer_start(world);
    grant = world_take(world->client, name.text, &reading);
    peer_ask_acquire(&writer, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_SHARED));
    peer_ask_acquire(&reader, 0, name.text, &reading);
    world_wait_for_waiters(world, name.text, 2);
    world_sleep_ms(A_WHILE_MS);
    CHECK(!peer_answered(&reader) && !peer_answered(&writer));

    world_give_back(grant);
    CHECK_STATUS(HF_OK, peer_hear(&writer).status);
    world_sleep_ms(A_WHILE_MS);
    CHECK(!peer_answered(&reader));
    CHECK_STATUS(HF_OK, peer_release(&writer, 0));
    CHECK_STATUS(HF_OK, peer_hear(&reader).status);
    CHECK_STATUS(HF_OK, peer_release(&reader, 0));
    peer_end(&writer);
    peer_end(&reader);
}

/* Writer holds; readers 0 1 2, writer 3, reader 4 wait, in this order. */
CASE(readers_that_stand_together_are_admitted_together)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, HF_FOREVER);
    struct peer peers[5];
    hf_grant *grant;

    if (!is_fair_and_shared(world))
        return;

    grant = world_take(world->client, name.text, NULL);
    for (size_t i = 0; i < 5; i++) {
        peers[i] = peer_start(world);
        peer_ask_acquire(&peers[i], 0, name.text, i == 3 ? NULL : &reading);
        world_wait_for_waiters(world, name.text, i + 1);
    }
    world_give_back(grant);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(HF_OK, peer_hear(&peers[i]).status);
    world_sleep_ms(A_WHILE_MS);
    CHECK(!peer_answered(&peers[3]) && !peer_answered(&peers[4]));
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(HF_OK, peer_release(&peers[i], 0));
    CHECK_STATUS(HF_OK, peer_hear(&peers[3]).status);
    world_sleep_ms(A_WHILE_MS);
    CHECK(!peer_answered(&peers[4]));
    CHECK_STATUS(HF_OK, peer_release(&peers[3], 0));
    CHECK_STATUS(HF_OK, peer_hear(&peers[4]).status);
    CHECK_STATUS(HF_OK, peer_release(&peers[4], 0));
    for (int i = 0; i < 5; i++)
        peer_end(&peers[i]);
}

CASE(a_reader_looks_only_at_earlier_writers)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, HF_FOREVER);
    struct peer reader;
    struct peer writer;
    hf_grant *grant;

    if (!is_fair_and_shared(world))
        return;

    reader = peer_start(world);
    writer = peer_start(world);
    grant = world_take(world->client, name.text, NULL);
    peer_ask_acquire(&reader, 0, name.text, &reading);
    world_wait_for_waiters(world, name.text, 1);
    peer_ask_acquire(&writer, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 2);
    world_give_back(grant);
    CHECK_STATUS(HF_OK, peer_hear(&reader).status);
    CHECK(!peer_answered(&writer));
    CHECK_STATUS(HF_OK, peer_release(&reader, 0));
    CHECK_STATUS(HF_OK, peer_hear(&writer).status);
    CHECK_STATUS(HF_OK, peer_release(&writer, 0));
    peer_end(&reader);
    peer_end(&writer);
}

/* Takes and gives back without a pause until told to stop. */
struct stream {
    struct task task;
    struct hf_acquire_options options;
    atomic_bool over;
};

static void flow(struct task *task)
{
    struct stream *stream = (struct stream *)task->context;

    while (!atomic_load(&stream->over)) {
        hf_grant *grant = world_take(task->client, task->name, &stream->options);

        world_sleep_ms(2);
        world_give_back(grant);
    }
}

static void check_not_starved(struct world *world, const struct hf_acquire_options *crowd,
                              const struct hf_acquire_options *single)
{
    struct name name = world_name(world, "lock");
    struct stream streams[3];
    hf_client *clients[3];

    for (int i = 0; i < 3; i++) {
        clients[i] = world_open(world);
        streams[i] = (struct stream){ .options = *crowd };
        streams[i].task = (struct task){
            .client = clients[i], .name = name.text, .run = flow, .context = &streams[i]
        };
        task_start(&streams[i].task);
    }
    for (int i = 0; i < 10; i++)
        world_give_back(world_take(world->client, name.text, single));
    for (int i = 0; i < 3; i++)
        atomic_store(&streams[i].over, true);
    for (int i = 0; i < 3; i++) {
        task_join(&streams[i].task);
        hf_close(clients[i]);
    }
}

CASE(a_stream_of_readers_does_not_starve_a_writer)
{
    struct hf_acquire_options reading = world_shared(world, LIMIT_MS);
    struct hf_acquire_options writing = world_waiting(world, LIMIT_MS);

    if (is_fair_and_shared(world))
        check_not_starved(world, &reading, &writing);
}

CASE(a_stream_of_writers_does_not_starve_a_reader)
{
    struct hf_acquire_options reading = world_shared(world, LIMIT_MS);
    struct hf_acquire_options writing = world_waiting(world, LIMIT_MS);

    if (is_fair_and_shared(world))
        check_not_starved(world, &writing, &reading);
}

CASE(the_end_of_one_readers_lease_does_not_touch_another)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options lasting = world_shared(world, 0);
    struct hf_acquire_options fixed = world_fixed(world, world->lease_ms);
    struct peer writer;
    hf_client *other;
    hf_grant *grants[2];

    if (!world_can_share(world))
        return;

    writer = peer_start(world);
    other = world_open(world);
    fixed.mode = HF_SHARED;
    grants[0] = world_take(world->client, name.text, &lasting);
    grants[1] = world_take(other, name.text, &fixed);
    peer_ask_acquire(&writer, 0, name.text, NULL);
    WAIT_UNTIL(!hf_grant_valid(grants[1]));
    world_sleep_ms(A_WHILE_MS);
    CHECK(hf_grant_valid(grants[0]));
    CHECK(!peer_answered(&writer));
    CHECK_STATUS(HF_ELOST, hf_release(grants[1]));
    world_give_back(grants[0]);
    CHECK_STATUS(HF_OK, peer_hear(&writer).status);
    CHECK_STATUS(HF_OK, peer_release(&writer, 0));
    hf_close(other);
    peer_end(&writer);
}

CASE(downgrade_admits_readers_and_keeps_the_fence)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, HF_FOREVER);
    struct peer reader;
    hf_grant *grant;
    uint64_t fence;

    if (!world_can_downgrade(world))
        return;

    reader = peer_start(world);
    grant = world_take(world->client, name.text, NULL);
    fence = hf_grant_fence(grant);
    peer_ask_acquire(&reader, 0, name.text, &reading);
    world_wait_for_waiters(world, name.text, 1);
    CHECK_STATUS(HF_OK, hf_grant_downgrade(grant));
    CHECK_STATUS(HF_OK, peer_hear(&reader).status);
    CHECK(hf_grant_valid(grant));
    CHECK_NUMBER(HF_SHARED, hf_grant_mode(grant));
    CHECK_NUMBER(fence, hf_grant_fence(grant));
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_SHARED));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_OK, peer_release(&reader, 0));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    world_give_back(grant);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
    peer_end(&reader);
}

CASE(downgrade_lets_no_writer_in_between)
{
    struct name name = world_name(world, "lock");
    struct peer writer;
    hf_grant *grant;

    if (!world_can_downgrade(world))
        return;

    writer = peer_start(world);
    grant = world_take(world->client, name.text, NULL);
    peer_ask_acquire(&writer, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    CHECK_STATUS(HF_OK, hf_grant_downgrade(grant));
    world_sleep_ms(A_WHILE_MS);
    CHECK(hf_grant_valid(grant));
    CHECK(!peer_answered(&writer));
    world_give_back(grant);
    CHECK_STATUS(HF_OK, peer_hear(&writer).status);
    CHECK_STATUS(HF_OK, peer_release(&writer, 0));
    peer_end(&writer);
}

CASE(a_lost_grant_cannot_be_downgraded)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, world->lease_ms);
    hf_grant *grant;

    if (!world_can_downgrade(world))
        return;

    grant = world_take(world->client, name.text, &options);
    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_grant_downgrade(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
}

CASE(a_downgraded_grant_is_kept_alive)
{
    struct name name = world_name(world, "lock");
    hf_client *other;
    hf_grant *grant;
    uint64_t end_ns;

    if (!world_can_downgrade(world))
        return;

    other = world_open(world);
    grant = world_take(world->client, name.text, NULL);
    CHECK_STATUS(HF_OK, hf_grant_downgrade(grant));
    end_ns = world_now_ns() + 2 * (uint64_t)world->lease_ms * NS_PER_MS;
    while (world_now_ns() < end_ns) {
        CHECK(hf_grant_valid(grant));
        CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
        world_sleep_ms(50);
    }
    world_give_back(grant);
    hf_close(other);
}
