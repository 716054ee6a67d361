/* buffer.c: do bytes come out of a buffer as they went in, and never more than were allowed? */
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dice.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"

#define ROUNDS 20000

TEST(buffer, an_empty_one_owns_nothing)
{
    struct failing_env world;
    struct hf__buffer buffer;

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 10);
    CHECK_EQUAL(hf__buffer_count(&buffer), 0);
    CHECK(hf__buffer_front(&buffer) != NULL);
    CHECK_EQUAL(hf__buffer_append(&buffer, NULL, 0), HF_OK);
    hf__buffer_consume(&buffer, 0);
    CHECK_EQUAL(world.allocations, 0);
    hf__buffer_done(&buffer);
}

TEST(buffer, the_limit_is_exact_and_what_is_refused_changes_nothing)
{
    struct failing_env world;
    struct hf__buffer buffer;
    void *space = NULL;

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 10);
    CHECK_EQUAL(hf__buffer_append(&buffer, "12345678901", 11), HF_ELIMIT);
    CHECK_EQUAL(hf__buffer_append(&buffer, "1234567", 7), HF_OK);
    CHECK_EQUAL(hf__buffer_room(&buffer), 3);
    CHECK_EQUAL(hf__buffer_append(&buffer, "abcd", 4), HF_ELIMIT);
    CHECK_EQUAL(hf__buffer_reserve(&buffer, 4, &space), HF_ELIMIT);
    CHECK(space == NULL);
    CHECK_EQUAL(hf__buffer_append(&buffer, "abc", 3), HF_OK);
    CHECK_EQUAL(hf__buffer_append(&buffer, "d", 1), HF_ELIMIT);
    CHECK_EQUAL(hf__buffer_count(&buffer), 10);
    CHECK_EQUAL(memcmp(hf__buffer_front(&buffer), "1234567abc", 10), 0);
    hf__buffer_consume(&buffer, 1);
    CHECK_EQUAL(hf__buffer_append(&buffer, "d", 1), HF_OK);
    CHECK_EQUAL(memcmp(hf__buffer_front(&buffer), "234567abcd", 10), 0);
    hf__buffer_done(&buffer);
    CHECK_EQUAL(world.live, 0);
}

TEST(buffer, what_is_reserved_counts_only_once_it_is_committed)
{
    struct failing_env world;
    struct hf__buffer buffer;
    void *space = NULL;

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 1000);
    CHECK_EQUAL(hf__buffer_append(&buffer, "ab", 2), HF_OK);
    CHECK_EQUAL(hf__buffer_reserve(&buffer, 900, &space), HF_OK);
    memset(space, 'x', 900);
    CHECK_EQUAL(hf__buffer_count(&buffer), 2);
    hf__buffer_commit(&buffer, 3);
    CHECK_EQUAL(hf__buffer_count(&buffer), 5);
    CHECK_EQUAL(memcmp(hf__buffer_front(&buffer), "abxxx", 5), 0);
    hf__buffer_done(&buffer);
    hf__buffer_done(&buffer);
    CHECK_EQUAL(world.live, 0);
}

TEST(buffer, no_memory_changes_nothing)
{
    static const char many[5000] = "second";
    struct failing_env world;
    struct hf__buffer buffer;

    failing_env_init(&world, 2);
    hf__buffer_init(&buffer, &world.env, 1u << 20);
    CHECK_EQUAL(hf__buffer_append(&buffer, "first", 5), HF_OK);
    CHECK_EQUAL(hf__buffer_append(&buffer, many, sizeof(many)), HF_ENOMEM);
    CHECK_EQUAL(hf__buffer_count(&buffer), 5);
    CHECK_EQUAL(memcmp(hf__buffer_front(&buffer), "first", 5), 0);
    CHECK_EQUAL(hf__buffer_append(&buffer, many, sizeof(many)), HF_OK);
    CHECK_EQUAL(hf__buffer_count(&buffer), 5 + sizeof(many));
    hf__buffer_done(&buffer);
    CHECK_EQUAL(world.live, 0);
}

/* A queue of numbered bytes, with pieces of any size in and out: they come as they went. */
TEST(buffer, any_course_of_pieces_keeps_the_order)
{
    struct dice dice = { .state = 11 };
    struct failing_env world;
    struct hf__buffer buffer;
    uint8_t piece[3000];
    uint8_t in = 0, out = 0;

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 100000);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint16_t draws[2];
        size_t count;
        const uint8_t *front;

        dice_fill(&dice, draws, sizeof(draws));
        count = draws[0] % (round % 7 == 0 ? sizeof(piece) : 40);
        for (size_t i = 0; i < count; i++)
            piece[i] = (uint8_t)(in + i);
        if (hf__buffer_append(&buffer, piece, count) == HF_OK)
            in = (uint8_t)(in + count);
        else
            CHECK(count > hf__buffer_room(&buffer));

        front = hf__buffer_front(&buffer);
        count = draws[1] % (1 + (round % 97 == 0 ? hf__buffer_count(&buffer) : 300));
        if (count > hf__buffer_count(&buffer))
            count = hf__buffer_count(&buffer);
        for (size_t i = 0; i < count; i++)
            CHECK_EQUAL(front[i], (uint8_t)(out + i));
        hf__buffer_consume(&buffer, count);
        out = (uint8_t)(out + count);
    }
    CHECK_EQUAL((uint8_t)(in - out), hf__buffer_count(&buffer) & 0xff);
    hf__buffer_done(&buffer);
    CHECK_EQUAL(world.live, 0);
}

/* A long stay of a few bytes with traffic behind them must not cost an allocation each time. */
TEST(buffer, steady_traffic_allocates_a_bounded_number_of_times)
{
    struct failing_env world;
    struct hf__buffer buffer;
    char piece[600] = "";

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 100000);
    CHECK_EQUAL(hf__buffer_append(&buffer, piece, sizeof(piece)), HF_OK);
    for (unsigned round = 0; round < ROUNDS; round++) {
        CHECK_EQUAL(hf__buffer_append(&buffer, piece, 1 + round % sizeof(piece)), HF_OK);
        hf__buffer_consume(&buffer, 1 + round % sizeof(piece));
    }
    CHECK(world.allocations < 10);
    hf__buffer_done(&buffer);
}

TEST(buffer, what_one_long_reply_took_is_given_back)
{
    struct failing_env world;
    struct hf__buffer buffer;
    void *space = NULL;

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 1u << 20);
    CHECK_EQUAL(hf__buffer_reserve(&buffer, 1u << 20, &space), HF_OK);
    hf__buffer_commit(&buffer, 1u << 20);
    CHECK_EQUAL(world.live, 1);
    hf__buffer_consume(&buffer, 1u << 20);
    CHECK_EQUAL(world.live, 0);
    CHECK_EQUAL(hf__buffer_append(&buffer, "a", 1), HF_OK);
    hf__buffer_consume(&buffer, 1);
    CHECK_EQUAL(world.live, 1); /* a small one is kept for the next */
    hf__buffer_done(&buffer);
    CHECK_EQUAL(world.live, 0);
}

TEST(buffer, what_is_known_to_become_long_takes_its_room_in_one_step_and_not_before_it_came)
{
    static const char piece[16384];
    const size_t long_bytes = 1300000;
    struct failing_env world;
    struct hf__buffer buffer;

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 2 * long_bytes);
    buffer.bytes_expected = long_bytes;
    while (hf__buffer_count(&buffer) + sizeof(piece) <= HF__BUFFER_KEPT_BYTES) {
        CHECK_EQUAL(hf__buffer_append(&buffer, piece, sizeof(piece)), HF_OK);
        CHECK(buffer.memory_bytes <= HF__BUFFER_KEPT_BYTES);
    }
    world.allocations = 0;
    while (hf__buffer_count(&buffer) + sizeof(piece) <= long_bytes)
        CHECK_EQUAL(hf__buffer_append(&buffer, piece, sizeof(piece)), HF_OK);
    CHECK_EQUAL(world.allocations, 1);
    CHECK_EQUAL(buffer.memory_bytes, long_bytes);
    hf__buffer_consume(&buffer, hf__buffer_count(&buffer));
    CHECK_EQUAL(buffer.bytes_expected, 0);
    CHECK_EQUAL(world.live, 0);
    hf__buffer_done(&buffer);
}

TEST(buffer, nonsense_aborts)
{
    struct failing_env world;
    struct hf__buffer buffer;

    failing_env_init(&world, 0);
    hf__buffer_init(&buffer, &world.env, 10);
    CHECK_ABORTS(hf__buffer_consume(&buffer, 1));
    CHECK_ABORTS(hf__buffer_commit(&buffer, 1));
    CHECK_ABORTS(hf__buffer_init(&buffer, &world.env, 0));
}
