/* jute_limits.c (unit): what of ZooKeeper's protocol cannot be, or does not fit?
 *
 * Lengths and counts that no server should send, packets at the limit and beyond it, memory that
 * runs out at every place in turn, and the mistakes of a caller. */
#include "engine/zookeeper/jute.h"

#include <string.h>

#include "check.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"

static void store(uint8_t *to, int64_t number)
{
    for (size_t i = 0; i < 4; i++)
        to[i] = (uint8_t)((uint64_t)number >> (24 - 8 * i));
}

TEST(jute, a_text_that_cannot_be_is_refused)
{
    static const int64_t lengths[] = { 9, 10, 1 << 20, INT32_MAX, -2, -9, INT32_MIN };
    uint8_t bytes[12] = { 0 };
    struct hf__jute_reader reader;
    struct hf__jute_text text;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        memset(bytes, 'x', sizeof(bytes));
        store(bytes, lengths[i]);
        hf__jute_read(&reader, bytes, sizeof(bytes));
        text = hf__jute_get_text(&reader);
        CHECK(reader.broken && text.bytes && text.count == 0 && !text.is_absent);
        /* 8 bytes stand there still, but nobody knows any more what they are. */
        CHECK_EQUAL(hf__jute_get_i32(&reader), 0);
        CHECK(hf__jute_get_i64(&reader) == 0);
        CHECK(!hf__jute_get_bool(&reader));
        CHECK_EQUAL(hf__jute_get_count(&reader, 1), 0);
        CHECK(!hf__jute_get_text(&reader).is_absent);
        CHECK(reader.broken && reader.left == 0);
    }
    store(bytes, 8);
    hf__jute_read(&reader, bytes, sizeof(bytes));
    text = hf__jute_get_text(&reader);
    CHECK(!reader.broken && text.count == 8 && text.bytes == (const char *)bytes + 4);
}

TEST(jute, a_count_that_cannot_be_is_refused)
{
    static const struct {
        int64_t count;
        size_t bytes_min;
        bool can_be;
    } samples[] = {
        { 0, 1, true },          { 8, 1, true },          { 9, 1, false },
        { 2, 4, true },          { 3, 4, false },         { 1, 8, true },
        { 1, 9, false },         { 0, 9, true },          { -1, 4, true },
        { -2, 4, false },        { INT32_MIN, 1, false }, { INT32_MAX, 1, false },
        { INT32_MAX, 8, false }, { 2, SIZE_MAX, false },  { 1 << 30, 4, false },
    };

    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        uint8_t bytes[12] = { 0 };
        struct hf__jute_reader reader;
        size_t wanted = samples[i].can_be && samples[i].count > 0 ? (size_t)samples[i].count : 0;

        store(bytes, samples[i].count);
        hf__jute_read(&reader, bytes, sizeof(bytes));
        CHECK_EQUAL(hf__jute_get_count(&reader, samples[i].bytes_min), wanted);
        CHECK_EQUAL(reader.broken, !samples[i].can_be);
        CHECK_EQUAL(reader.left, samples[i].can_be ? 8 : 0);
    }
}

TEST(jute, a_length_that_cannot_be_is_refused_for_good)
{
    static const int64_t lengths[] = { HF__JUTE_BYTES_MAX + 1, INT32_MAX, -1, -2, INT32_MIN };
    static const char *const told[] = { "1966081", "2147483647", "-1", "-2", "-2147483648" };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct hf__jute_reader reader = { .left = 77 };
        uint8_t bytes[4];
        struct failing_env world;
        struct hf__jute_in in;

        failing_env_init(&world, 0);
        hf__jute_in_init(&in, &world.env);
        store(bytes, lengths[i]);
        CHECK_EQUAL(hf__buffer_append(&in.buffer, bytes, 4), HF_OK);
        for (int again = 0; again < 2; again++) {
            char error[HF__ERROR_BYTES] = "";

            CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), HF_EPROTOCOL);
            CHECK(strstr(error, told[i]));
            CHECK_EQUAL(reader.left, 77);
        }
        CHECK_EQUAL(world.allocations, 1);
        hf__jute_in_done(&in);
        CHECK_EQUAL(world.live, 0);
    }
}

TEST(jute, takes_no_memory_for_what_was_only_announced)
{
    static const int64_t lengths[] = { HF__JUTE_BYTES_MAX, 1 << 20, 5 };
    char error[HF__ERROR_BYTES] = "";
    struct hf__jute_reader reader;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        uint8_t bytes[4];
        struct failing_env world;
        struct hf__jute_in in;

        failing_env_init(&world, 2); /* the first is the buffer with these few bytes */
        hf__jute_in_init(&in, &world.env);
        CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
        CHECK_EQUAL(world.allocations, 0);
        store(bytes, lengths[i]);
        CHECK_EQUAL(hf__buffer_append(&in.buffer, bytes, 4), HF_OK);
        CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
        CHECK_EQUAL(world.allocations, 1);
        CHECK(in.buffer.memory_bytes <= 1024);
        hf__jute_in_done(&in);
        CHECK_EQUAL(world.live, 0);
    }
}

/* With room for a read behind its last byte but one, as whoever reads from a socket needs it; and
 * in 2 MiB, which are given back when it is done with. */
TEST(jute, the_longest_packet_is_read)
{
    static const char piece[65536];
    char error[HF__ERROR_BYTES] = "";
    struct hf__jute_reader reader;
    struct failing_env world;
    struct hf__jute_in in;
    uint8_t length[4];
    void *space;

    failing_env_init(&world, 0);
    hf__jute_in_init(&in, &world.env);
    store(length, HF__JUTE_BYTES_MAX);
    CHECK_EQUAL(hf__buffer_append(&in.buffer, length, 4), HF_OK);
    for (size_t at = 0; at + sizeof(piece) < HF__JUTE_BYTES_MAX; at += sizeof(piece)) {
        CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
        CHECK_EQUAL(hf__buffer_append(&in.buffer, piece, sizeof(piece)), HF_OK);
    }
    CHECK_EQUAL(hf__buffer_append(&in.buffer, piece, sizeof(piece) - 1), HF_OK);
    CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
    CHECK_EQUAL(hf__buffer_reserve(&in.buffer, sizeof(piece), &space), HF_OK);
    CHECK_EQUAL(hf__buffer_append(&in.buffer, piece, 1), HF_OK);
    CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 1);
    CHECK_EQUAL(reader.left, HF__JUTE_BYTES_MAX);
    CHECK(in.buffer.memory_bytes <= 2u << 20);
    CHECK_EQUAL(world.live, 1);
    CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
    CHECK_EQUAL(world.live, 0);
    hf__jute_in_done(&in);
}

/* Ends with all that was put, or with a status and nothing behind what fitted. */
static size_t write_much(struct hf__jute_out *out)
{
    static const char text[700];
    size_t waiting;

    for (int i = 0; i < 5; i++) {
        hf__jute_begin(out);
        hf__jute_put_i32(out, i);
        hf__jute_put_i64(out, i);
        hf__jute_put_bool(out, true);
        hf__jute_put_text(out, text, sizeof(text));
        hf__jute_put_nothing(out);
        hf__jute_end(out);
    }
    waiting = hf__buffer_count(&out->buffer);
    if (out->status == HF_OK)
        return waiting;
    hf__jute_begin(out);
    hf__jute_put_bool(out, true);
    hf__jute_put_text(out, "", 0);
    hf__jute_end(out);
    CHECK(out->status != HF_OK);
    CHECK_EQUAL(hf__buffer_count(&out->buffer), waiting);
    return waiting;
}

TEST(jute, once_memory_has_run_out_nothing_more_is_written)
{
    size_t refused = 1;
    size_t nth = 0;

    while (refused > 0) {
        struct failing_env world;
        struct hf__jute_out out;
        size_t written;

        failing_env_init(&world, ++nth);
        hf__jute_out_init(&out, &world.env);
        written = write_much(&out);
        refused = world.refused;
        CHECK_EQUAL(out.status, refused > 0 ? HF_ENOMEM : HF_OK);
        CHECK(refused == 0 || written < 4096);
        CHECK(refused > 0 || written == 5 * (4 + 4 + 8 + 1 + 4 + 700 + 4));
        hf__jute_out_done(&out);
        CHECK_EQUAL(world.live, 0);
    }
    CHECK(nth > 3); /* the first, and as it grew */
}

TEST(jute, what_comes_in_is_lost_to_no_refusal_of_memory)
{
    static const char text[3000];
    size_t refused = 1;

    for (size_t nth = 1; refused > 0; nth++) {
        char error[HF__ERROR_BYTES] = "";
        struct hf__jute_reader reader;
        struct failing_env world;
        struct hf__jute_in in;
        uint8_t length[4];
        size_t at = 0;

        failing_env_init(&world, nth);
        hf__jute_in_init(&in, &world.env);
        store(length, sizeof(text));
        while (hf__buffer_append(&in.buffer, length, sizeof(length)) < 0)
            CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
        while (at < sizeof(text)) {
            CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
            if (hf__buffer_append(&in.buffer, text + at, 500) == HF_OK)
                at += 500;
        }
        refused = world.refused;
        CHECK(refused <= 1);
        CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 1);
        CHECK_EQUAL(reader.left, sizeof(text));
        hf__jute_in_done(&in);
        CHECK_EQUAL(world.live, 0);
    }
}

TEST(jute, more_than_may_wait_is_refused_before_it_is_copied)
{
    struct failing_env world;
    struct hf__jute_out out;

    failing_env_init(&world, 0);
    hf__jute_out_init(&out, &world.env);
    hf__jute_begin(&out);
    hf__jute_put_text(&out, "not so many", HF__JUTE_OUT_MAX);
    CHECK_EQUAL(out.status, HF_ELIMIT);
    hf__jute_end(&out);
    CHECK_EQUAL(out.status, HF_ELIMIT);
    CHECK_EQUAL(world.allocations, 1);
    hf__jute_out_done(&out);
    CHECK_EQUAL(world.live, 0);
}

TEST(jute, fields_stand_in_packets_and_packets_in_a_row)
{
    struct failing_env world;
    struct hf__jute_out out;

    failing_env_init(&world, 0);
    hf__jute_out_init(&out, &world.env);
    CHECK_ABORTS(hf__jute_put_bool(&out, true));
    CHECK_ABORTS(hf__jute_put_i32(&out, 1));
    CHECK_ABORTS(hf__jute_put_i64(&out, 1));
    CHECK_ABORTS(hf__jute_put_text(&out, "a", 1));
    CHECK_ABORTS(hf__jute_put_nothing(&out));
    CHECK_ABORTS(hf__jute_end(&out));
    hf__jute_begin(&out);
    CHECK_ABORTS(hf__jute_begin(&out));
    CHECK_ABORTS(hf__jute_put_text(&out, NULL, 1));
    hf__jute_end(&out);
    CHECK_ABORTS(hf__jute_put_i32(&out, 1));
    hf__jute_out_done(&out);
    CHECK_EQUAL(world.live, 0);
}
