/* turns.c: mutual exclusion, order, modes and answers, with several connections in one process. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "world.h"

static const struct wish shared_wish = { .shared = true };
static const struct wish once_wish = { .once = true };
static const struct wish once_shared_wish = { .once = true, .shared = true };

#define MATES 4

/* A directory and a few connections. */
struct room {
    struct world world;
    struct mate mates[MATES];
};

static void open_room(struct room *room)
{
    static const char *const purposes[MATES] = { "first", "second", "third", "fourth" };

    world_make(&room->world);
    for (int i = 0; i < MATES; i++)
        CHECK_EQUAL(mate_open(&room->mates[i], &room->world, purposes[i]), HF_OK);
}

/* Nothing may be left of anybody. */
static void close_room(struct room *room)
{
    struct remains remains;

    for (int i = 1; i < MATES; i++)
        mate_close(&room->mates[i]);
    remains = mate_remains(&room->mates[0]);
    CHECK_EQUAL(remains.sessions, 1);
    CHECK_EQUAL(remains.guards, 0);
    mate_close(&room->mates[0]);
    CHECK_EQUAL(world_files(&room->world, "s."), 0);
    world_end(&room->world);
}

TEST(turns, one_claim_is_granted_and_given_back)
{
    struct room room;
    struct stub stub;
    struct world_reply reply;

    open_room(&room);
    reply = mate_claim(&room.mates[0], "a", NULL, &stub);
    CHECK_EQUAL(reply.kind, HF__REPLY_GRANTED);
    CHECK(reply.fence > 1ull << HF__COUNTER_BITS);
    CHECK(reply.fence < 1ull << 62);
    reply = mate_release(&room.mates[0], &stub);
    CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
    CHECK(reply.released);
    reply = mate_release(&room.mates[0], &stub);
    CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
    CHECK(!reply.released);
    close_room(&room);
}

TEST(turns, who_comes_second_waits_and_is_woken)
{
    struct room room;
    struct stub held;
    struct stub waiting;
    struct world_reply reply;

    open_room(&room);
    CHECK_EQUAL(mate_claim(&room.mates[0], "a", NULL, &held).kind, HF__REPLY_GRANTED);
    reply = mate_claim(&room.mates[1], "a", NULL, &waiting);
    CHECK_EQUAL(reply.kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(reply.ahead, 1);
    CHECK(reply.has_holder && !reply.wake);
    CHECK_TEXT(reply.holder.purpose, "first");
    CHECK_EQUAL(reply.holder.fence, held.fence);
    CHECK(!mate_hears_within(&room.mates[1], &waiting, HF__REPLY_GRANTED, NULL, 0));
    reply = mate_release(&room.mates[0], &held);
    CHECK(reply.kind == HF__REPLY_GONE && reply.released);
    CHECK(mate_hears(&room.mates[1], &waiting, HF__REPLY_GRANTED, &reply));
    CHECK_EQUAL(reply.fence, held.fence + 1);
    CHECK_EQUAL(reply.ticket.kind, HF__REQUEST_NONE);
    reply = mate_release(&room.mates[1], &waiting);
    CHECK(reply.kind == HF__REPLY_GONE && reply.released);
    close_room(&room);
}

/* Claims of several connections, mixed, are served in the order of their arrival. */
TEST(turns, the_line_is_strictly_first_come_first_served)
{
    struct room room;
    struct stub stubs[40];
    struct world_reply reply;

    open_room(&room);
    for (uint32_t i = 0; i < 40; i++) {
        reply = mate_claim(&room.mates[i * 7 % MATES], "a", NULL, &stubs[i]);
        CHECK_EQUAL(reply.kind, i == 0 ? HF__REPLY_GRANTED : HF__REPLY_QUEUED);
        CHECK(i == 0 || reply.ahead == i);
    }
    for (uint32_t i = 0; i < 40; i++) {
        if (i > 0) {
            CHECK(mate_hears(&room.mates[i * 7 % MATES], &stubs[i], HF__REPLY_GRANTED, &reply));
            CHECK_EQUAL(reply.fence, stubs[0].fence + i);
            CHECK_EQUAL(reply.others_wait, i < 39);
        }
        for (uint32_t j = i + 1; j < 40; j++)
            CHECK(!mate_hears_within(&room.mates[j * 7 % MATES], &stubs[j], HF__REPLY_GRANTED, NULL,
                                     0));
        CHECK(mate_release(&room.mates[i * 7 % MATES], &stubs[i]).released);
    }
    close_room(&room);
}

TEST(turns, readers_are_let_in_together_and_writers_alone)
{
    struct room room;
    struct stub stubs[6];
    struct mate *mates = room.mates;
    struct world_reply reply;

    open_room(&room);
    /* writer, reader, reader, writer, reader */
    CHECK_EQUAL(mate_claim(&mates[0], "a", NULL, &stubs[0]).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "a", &shared_wish, &stubs[1]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[2], "a", &shared_wish, &stubs[2]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[3], "a", NULL, &stubs[3]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[0], "a", &shared_wish, &stubs[4]).kind, HF__REPLY_QUEUED);
    CHECK(mate_release(&mates[0], &stubs[0]).released);
    CHECK(mate_hears(&mates[1], &stubs[1], HF__REPLY_GRANTED, &reply));
    CHECK_EQUAL(reply.fence, stubs[0].fence + 1);
    CHECK(mate_hears(&mates[2], &stubs[2], HF__REPLY_GRANTED, &reply));
    CHECK_EQUAL(reply.fence, stubs[0].fence + 2);
    CHECK(!mate_hears_within(&mates[3], &stubs[3], HF__REPLY_GRANTED, NULL, 0));
    CHECK(mate_release(&mates[1], &stubs[1]).released);
    CHECK(!mate_hears_within(&mates[3], &stubs[3], HF__REPLY_GRANTED, NULL, 0));
    CHECK(mate_release(&mates[2], &stubs[2]).released);
    CHECK(mate_hears(&mates[3], &stubs[3], HF__REPLY_GRANTED, &reply));
    CHECK_EQUAL(reply.fence, stubs[0].fence + 3);
    CHECK(!mate_hears_within(&mates[0], &stubs[4], HF__REPLY_GRANTED, NULL, 0));
    CHECK(mate_release(&mates[3], &stubs[3]).released);
    CHECK(mate_hears(&mates[0], &stubs[4], HF__REPLY_GRANTED, &reply));
    CHECK(mate_release(&mates[0], &stubs[4]).released);
    close_room(&room);
}

/* A writer that gives up must not keep the readers behind it. */
TEST(turns, a_waiter_that_leaves_lets_those_behind_it_in)
{
    struct room room;
    struct stub stubs[4];
    struct mate *mates = room.mates;

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", &shared_wish, &stubs[0]).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "a", NULL, &stubs[1]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[2], "a", &shared_wish, &stubs[2]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[3], "a", &shared_wish, &stubs[3]).kind, HF__REPLY_QUEUED);
    CHECK(mate_release(&mates[1], &stubs[1]).released);
    CHECK(mate_hears(&mates[2], &stubs[2], HF__REPLY_GRANTED, NULL));
    CHECK(mate_hears(&mates[3], &stubs[3], HF__REPLY_GRANTED, NULL));
    CHECK(mate_release(&mates[0], &stubs[0]).released);
    CHECK(mate_release(&mates[3], &stubs[3]).released);
    CHECK(mate_release(&mates[2], &stubs[2]).released);
    close_room(&room);
}

TEST(turns, trying_once_stands_in_no_line)
{
    struct room room;
    struct stub held;
    struct stub tried;
    struct mate *mates = room.mates;
    struct world_reply reply;

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", &once_wish, &held).kind, HF__REPLY_GRANTED);
    reply = mate_claim(&mates[1], "a", &once_wish, &tried);
    CHECK_EQUAL(reply.kind, HF__REPLY_REFUSED);
    CHECK(reply.has_holder && reply.holder.fence == held.fence);
    CHECK_EQUAL(reply.holder.pid, getpid());
    CHECK_EQUAL(mate_claim(&mates[1], "a", &once_shared_wish, &tried).kind, HF__REPLY_REFUSED);
    reply = mate_tell(&mates[1], HF__REQUEST_INSPECT, &tried);
    CHECK_EQUAL(reply.kind, HF__REPLY_GONE);
    CHECK(mate_release(&mates[0], &held).released);
    CHECK_EQUAL(mate_claim(&mates[1], "a", &once_shared_wish, &held).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[2], "a", &once_shared_wish, &tried).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&mates[1], &held).released);
    CHECK(mate_release(&mates[2], &tried).released);
    close_room(&room);
}

/* A reader must not pass a writer that waits, not even one that only tries. */
TEST(turns, a_reader_does_not_pass_a_waiting_writer)
{
    struct room room;
    struct stub held;
    struct stub writer;
    struct stub tried;
    struct mate *mates = room.mates;

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", &shared_wish, &held).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "a", NULL, &writer).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[2], "a", &once_shared_wish, &tried).kind, HF__REPLY_REFUSED);
    CHECK(mate_release(&mates[1], &writer).released);
    CHECK_EQUAL(mate_claim(&mates[2], "a", &once_shared_wish, &tried).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&mates[0], &held).released);
    CHECK(mate_release(&mates[2], &tried).released);
    close_room(&room);
}

TEST(turns, a_claim_that_is_repeated_is_the_same_claim)
{
    struct room room;
    struct stub held;
    struct stub waiting;
    struct mate *mates = room.mates;
    struct world_reply reply;

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", NULL, &held).kind, HF__REPLY_GRANTED);
    reply = mate_tell(&mates[0], HF__REQUEST_CLAIM, &held);
    CHECK(reply.kind == HF__REPLY_GRANTED && reply.fence == held.fence);
    CHECK_EQUAL(mate_claim(&mates[1], "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    reply = mate_tell(&mates[1], HF__REQUEST_CLAIM, &waiting);
    CHECK(reply.kind == HF__REPLY_QUEUED && reply.ahead == 1);
    reply = mate_tell(&mates[1], HF__REQUEST_INSPECT, &waiting);
    CHECK(reply.kind == HF__REPLY_QUEUED && reply.ahead == 1);
    CHECK(mate_release(&mates[0], &held).released);
    reply = mate_tell(&mates[1], HF__REQUEST_INSPECT, &waiting);
    CHECK(reply.kind == HF__REPLY_GRANTED && reply.fence == held.fence + 1);
    CHECK(!mate_hears_within(&mates[1], &waiting, HF__REPLY_GRANTED, NULL, 0)); /* told already */
    CHECK(mate_release(&mates[1], &waiting).released);
    close_room(&room);
}

TEST(turns, downgrading_keeps_the_fence_and_lets_readers_in)
{
    struct room room;
    struct stub held;
    struct stub reader;
    struct stub writer;
    struct mate *mates = room.mates;
    struct world_reply reply;

    for (int with_node = 0; with_node < 2; with_node++) {
        struct wish wish = { .grace_ns = with_node ? HF__NS_PER_MS : 0 };

        open_room(&room);
        CHECK_EQUAL(mate_claim(&mates[0], "a", &wish, &held).kind, HF__REPLY_GRANTED);
        CHECK_EQUAL(mate_claim(&mates[1], "a", &shared_wish, &reader).kind, HF__REPLY_QUEUED);
        CHECK_EQUAL(mate_claim(&mates[2], "a", NULL, &writer).kind, HF__REPLY_QUEUED);
        reply = mate_tell(&mates[0], HF__REQUEST_DOWNGRADE, &held);
        CHECK(reply.kind == HF__REPLY_GRANTED && reply.fence == held.fence);
        CHECK(mate_hears(&mates[1], &reader, HF__REPLY_GRANTED, &reply));
        CHECK_EQUAL(reply.fence, held.fence + 1);
        CHECK(!mate_hears_within(&mates[2], &writer, HF__REPLY_GRANTED, NULL, 0));
        reply = mate_tell(&mates[0], HF__REQUEST_RENEW, &held);
        CHECK(reply.kind == HF__REPLY_GRANTED && reply.fence == held.fence);
        CHECK(mate_release(&mates[1], &reader).released);
        CHECK(mate_release(&mates[0], &held).released);
        CHECK(mate_hears(&mates[2], &writer, HF__REPLY_GRANTED, NULL));
        CHECK(mate_release(&mates[2], &writer).released);
        close_room(&room);
    }
}

TEST(turns, a_lease_ends_though_its_owner_lives)
{
    struct room room;
    struct stub held;
    struct stub waiting;
    struct mate *mates = room.mates;
    struct world_reply reply;
    struct wish wish = { .ends = true, .lease_ns = 50 * HF__NS_PER_MS };
    uint64_t start_ns = hf__clock_now_ns();

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", &wish, &held).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    CHECK(mate_hears(&mates[1], &waiting, HF__REPLY_GRANTED, &reply));
    CHECK(hf__clock_now_ns() - start_ns >= wish.lease_ns);
    CHECK(mate_hears(&mates[0], &held, HF__REPLY_GONE, &reply));
    CHECK_TEXT(reply.cause, "expired");
    reply = mate_release(&mates[0], &held);
    CHECK(reply.kind == HF__REPLY_GONE && !reply.released);
    CHECK(mate_release(&mates[1], &waiting).released);
    close_room(&room);
}

/* Nobody waits: the owner's own clock ends it. */
TEST(turns, a_lease_ends_also_when_nobody_waits)
{
    struct room room;
    struct stub held;
    struct mate *mates = room.mates;
    struct world_reply reply;
    struct wish wish = { .ends = true, .lease_ns = 20 * HF__NS_PER_MS };

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", &wish, &held).kind, HF__REPLY_GRANTED);
    CHECK(mate_hears(&mates[0], &held, HF__REPLY_GONE, &reply));
    CHECK_TEXT(reply.cause, "expired");
    CHECK_EQUAL(mate_claim(&mates[1], "a", &once_wish, &held).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&mates[1], &held).released);
    close_room(&room);
}

TEST(turns, a_lease_counts_from_when_its_waiter_hears_of_the_grant)
{
    struct room room;
    struct stub held;
    struct stub waiting;
    struct mate *mates = room.mates;
    struct world_reply reply;
    struct world_entry entry;
    struct wish wish = { .ends = true, .lease_ns = 60 * HF__NS_PER_S };

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", NULL, &held).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "a", &wish, &waiting).kind, HF__REPLY_QUEUED);
    mate_sleep(&mates[1], 50);
    CHECK(mate_release(&mates[0], &held).released);
    CHECK(mate_hears(&mates[1], &waiting, HF__REPLY_GRANTED, &reply));
    CHECK_EQUAL(mate_list(&mates[2], "a", &entry, 1), 1);
    CHECK(entry.remaining_ms > 0);
    CHECK(entry.remaining_ms * (int64_t)HF__NS_PER_MS >=
          (int64_t)(reply.ticket.sent_ns + wish.lease_ns - hf__clock_now_ns()) -
              (int64_t)HF__NS_PER_MS);
    CHECK(mate_release(&mates[1], &waiting).released);
    close_room(&room);
}

TEST(turns, renewing_moves_the_end_of_a_lease)
{
    struct room room;
    struct stub held;
    struct mate *mates = room.mates;
    struct world_entry entry;
    struct hf__request request;
    struct wish wish = { .ends = true, .lease_ns = HF__NS_PER_S };

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", &wish, &held).kind, HF__REPLY_GRANTED);
    request = (struct hf__request){
        .ticket = { .kind = HF__REQUEST_RENEW, .claim_id = held.id },
        .name = "a",
        .name_bytes = 1,
        .token = held.token,
        .lease_ns = 100 * HF__NS_PER_S,
        .ends = true,
    };
    CHECK_EQUAL(mate_ask(&mates[0], &request).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_list(&mates[1], "a", &entry, 1), 1);
    CHECK(entry.remaining_ms > 30000);
    request.lease_ns = 10 * HF__NS_PER_S; /* never shortened unless asked for */
    CHECK_EQUAL(mate_ask(&mates[0], &request).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_list(&mates[1], "a", &entry, 1), 1);
    CHECK(entry.remaining_ms > 30000);
    request.shorten = true;
    CHECK_EQUAL(mate_ask(&mates[0], &request).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_list(&mates[1], "a", &entry, 1), 1);
    CHECK(entry.remaining_ms <= 10000);
    CHECK(mate_release(&mates[0], &held).released);
    close_room(&room);
}

TEST(turns, the_list_shows_holders_and_waiters_in_order)
{
    struct room room;
    struct stub stubs[5];
    struct mate *mates = room.mates;
    struct world_entry entries[8];
    struct wish wish = { .purpose = "special" };

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "x/1", &shared_wish, &stubs[0]).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "x/1", &shared_wish, &stubs[1]).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[2], "x/1", &wish, &stubs[2]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[3], "x/1", &shared_wish, &stubs[3]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[3], "y", NULL, &stubs[4]).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_list(&mates[0], "x/*", entries, 8), 4);
    CHECK(!entries[0].waiting && !entries[1].waiting && entries[2].waiting && entries[3].waiting);
    CHECK_TEXT(entries[0].purpose, "first");
    CHECK_TEXT(entries[2].purpose, "special");
    CHECK_TEXT(entries[3].purpose, "fourth");
    CHECK_TEXT(entries[3].name, "x/1");
    CHECK_EQUAL(entries[0].position, 0);
    CHECK_EQUAL(entries[2].position, 1);
    CHECK_EQUAL(entries[3].position, 2);
    CHECK_EQUAL(entries[0].fence, stubs[0].fence);
    CHECK_EQUAL(entries[1].fence, stubs[1].fence);
    CHECK_EQUAL(entries[2].fence, 0);
    CHECK_EQUAL(entries[0].mode, HF_SHARED);
    CHECK_EQUAL(entries[2].mode, HF_EXCLUSIVE);
    CHECK_EQUAL(entries[0].pid, getpid());
    CHECK_EQUAL(entries[0].remaining_ms, -1);
    CHECK(entries[0].age_ms >= 0);
    CHECK(entries[0].host[0] != '\0');
    CHECK_EQUAL(mate_list(&mates[0], NULL, entries, 8), 5);
    CHECK_EQUAL(mate_list(&mates[0], "y", entries, 8), 1);
    CHECK_TEXT(entries[0].purpose, "fourth");
    CHECK_EQUAL(mate_list(&mates[0], "?", entries, 8), 1);
    CHECK_EQUAL(mate_list(&mates[0], "x/\\1", entries, 8), 4);
    CHECK_EQUAL(mate_list(&mates[0], "nothing", entries, 8), 0);
    CHECK_EQUAL(mate_list(&mates[0], "", entries, 8), 0);
    close_room(&room);
}

/* Bytes are bytes: none of these names is another one. */
TEST(turns, names_are_any_bytes_and_distinct)
{
    static const char *const names[] = { "a",    "A",        "a ",          " a",          "a/b",
                                         "a//b", "..",       ".",           "a\n",         "a\x01",
                                         "\xff", "\xff\xfe", "caf\xc3\xa9", "cafe\xcc\x81" };
    enum { COUNT = sizeof(names) / sizeof(*names) };
    struct room room;
    struct stub stubs[COUNT];
    char long_name[HF_NAME_BYTES_MAX + 1];

    open_room(&room);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQUAL(mate_claim(&room.mates[0], names[i], &once_wish, &stubs[i]).kind,
                    HF__REPLY_GRANTED);
    for (size_t bytes = 90; bytes <= HF_NAME_BYTES_MAX; bytes++) {
        struct stub stub;
        struct stub other;

        memset(long_name, 'n', bytes);
        long_name[bytes] = '\0';
        CHECK_EQUAL(mate_claim(&room.mates[0], long_name, &once_wish, &stub).kind,
                    HF__REPLY_GRANTED);
        CHECK_EQUAL(mate_claim(&room.mates[1], long_name, &once_wish, &other).kind,
                    HF__REPLY_REFUSED);
        long_name[bytes - 1] = 'm';
        CHECK_EQUAL(mate_claim(&room.mates[1], long_name, &once_wish, &other).kind,
                    HF__REPLY_GRANTED);
        CHECK(mate_release(&room.mates[1], &other).released);
        CHECK(mate_release(&room.mates[0], &stub).released);
    }
    close_room(&room);
}

TEST(turns, closing_gives_everything_back)
{
    struct room room;
    struct stub stubs[5];
    struct mate *mates = room.mates;

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[1], "a", NULL, &stubs[0]).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[0], "a", NULL, &stubs[1]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[2], "b", &shared_wish, &stubs[2]).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "b", NULL, &stubs[3]).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mates[0], "b", &shared_wish, &stubs[4]).kind, HF__REPLY_QUEUED);
    mate_close(&mates[1]);
    CHECK(mate_hears(&mates[0], &stubs[1], HF__REPLY_GRANTED, NULL));
    CHECK(mate_hears(&mates[0], &stubs[4], HF__REPLY_GRANTED, NULL));
    CHECK_EQUAL(mate_open(&mates[1], &room.world, "again"), HF_OK);
    CHECK(mate_release(&mates[0], &stubs[1]).released);
    CHECK(mate_release(&mates[0], &stubs[4]).released);
    CHECK(mate_release(&mates[2], &stubs[2]).released);
    close_room(&room);
}

/* A fast owner whose only waiter goes away is as fast as before. */
TEST(turns, a_lock_without_a_line_is_deflated)
{
    struct room room;
    struct stub held;
    struct stub waiting;
    struct mate *mates = room.mates;

    open_room(&room);
    CHECK_EQUAL(mate_claim(&mates[0], "a", NULL, &held).kind, HF__REPLY_GRANTED);
    CHECK_EQUAL(mate_claim(&mates[1], "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_remains(&mates[0]).inflated, 1);
    CHECK(mate_release(&mates[1], &waiting).released);
    CHECK_EQUAL(mate_remains(&mates[0]).inflated, 0);
    CHECK_EQUAL(mate_remains(&mates[0]).owned, 1);
    CHECK(mate_release(&mates[0], &held).released);
    CHECK_EQUAL(mate_remains(&mates[0]).owned, 0);
    close_room(&room);
}
