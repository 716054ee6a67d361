/* jute.c (unit): are ZooKeeper's records written as they are, and never read further than they go?
 *
 * Random records of all types are written, cut in every way, and read again. That others write the
 * same bytes is jute_oracle.c's; what cannot be, or does not fit, jute_limits.c's. */
#include "engine/zookeeper/jute.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dice.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"

#define ROUNDS     3000
#define FIELDS_MAX 12
#define TEXT_MAX   40
#define STAT_BYTES 68u

enum kind {
    KIND_BOOL,
    KIND_I32,
    KIND_I64,
    KIND_TEXT,
    KIND_NOTHING,
    KIND_COUNT, /* of elements of one byte each: what follows is that long at least */
    KINDS,
};

struct field {
    enum kind kind;
    int64_t number;
    char text[TEXT_MAX];
    size_t count;
    size_t end; /* in the record */
};

struct record {
    struct field fields[FIELDS_MAX];
    size_t count;
};

static size_t bytes_of(const struct field *field)
{
    switch (field->kind) {
    case KIND_BOOL:
        return 1;
    case KIND_I64:
        return 8;
    case KIND_TEXT:
        return 4 + field->count;
    case KIND_I32:
    case KIND_NOTHING:
    case KIND_COUNT:
    case KINDS:
        break;
    }
    return 4;
}

/* Numbers of all sizes, and the greatest and the least among them. */
static int64_t draw_number(struct dice *dice)
{
    switch (dice_below(dice, 20)) {
    case 0:
        return INT64_MAX;
    case 1:
        return INT64_MIN;
    case 2:
        return -1;
    default:
        return (int64_t)dice_roll(dice) >> dice_below(dice, 64);
    }
}

static void draw(struct record *record, struct dice *dice)
{
    size_t end = 0;

    *record = (struct record){ .count = 1 + dice_below(dice, FIELDS_MAX) };
    for (size_t i = 0; i < record->count; i++) {
        struct field *field = &record->fields[i];

        field->kind = (enum kind)dice_below(dice, KINDS);
        if (field->kind == KIND_COUNT && i + 1 == record->count)
            field->kind = KIND_I32; /* nothing follows */
        if (field->kind == KIND_BOOL)
            field->number = (int64_t)dice_below(dice, 2);
        else if (field->kind == KIND_I32)
            field->number = (int32_t)draw_number(dice);
        else if (field->kind == KIND_I64)
            field->number = draw_number(dice);
        else if (field->kind == KIND_COUNT)
            field->number = (int64_t)dice_below(dice, 3) - 1;
        if (field->kind == KIND_TEXT) {
            field->count = dice_below(dice, TEXT_MAX);
            dice_fill(dice, field->text, field->count);
        }
        end += bytes_of(field);
        field->end = end;
    }
}

static void put(struct hf__jute_out *out, const struct record *record)
{
    hf__jute_begin(out);
    for (size_t i = 0; i < record->count; i++) {
        const struct field *field = &record->fields[i];

        switch (field->kind) {
        case KIND_BOOL:
            hf__jute_put_bool(out, field->number != 0);
            break;
        case KIND_I64:
            hf__jute_put_i64(out, field->number);
            break;
        case KIND_TEXT:
            hf__jute_put_text(out, field->text, field->count);
            break;
        case KIND_NOTHING:
            hf__jute_put_nothing(out);
            break;
        case KIND_I32:
        case KIND_COUNT:
        case KINDS:
            hf__jute_put_i32(out, (int32_t)field->number);
        }
    }
    hf__jute_end(out);
}

static void check_text(struct hf__jute_reader *reader, const struct field *field, bool is_there)
{
    struct hf__jute_text text = hf__jute_get_text(reader);

    CHECK(text.bytes);
    CHECK_EQUAL(text.count, is_there ? field->count : 0);
    CHECK_EQUAL(text.is_absent, is_there && field->kind == KIND_NOTHING);
    CHECK(memcmp(text.bytes, field->text, text.count) == 0);
}

/* As much of it as there are bytes; what is beyond is 0 or empty. */
static void check(struct hf__jute_reader *reader, const struct record *record, size_t bytes)
{
    bool is_there = true;

    for (size_t i = 0; i < record->count; i++) {
        const struct field *field = &record->fields[i];
        int64_t count = field->number < 0 ? 0 : field->number;

        is_there = field->end <= bytes;
        /* Elements that were cut off cannot follow: the count is refused already. */
        if (field->kind == KIND_COUNT && is_there && bytes - field->end < (size_t)count)
            is_there = false;
        if (field->kind == KIND_BOOL)
            CHECK_EQUAL(hf__jute_get_bool(reader), is_there && field->number);
        else if (field->kind == KIND_I32)
            CHECK_EQUAL(hf__jute_get_i32(reader), is_there ? field->number : 0);
        else if (field->kind == KIND_I64)
            CHECK(hf__jute_get_i64(reader) == (is_there ? field->number : 0));
        else if (field->kind == KIND_COUNT)
            CHECK_EQUAL(hf__jute_get_count(reader, 1), is_there ? count : 0);
        else
            check_text(reader, field, is_there);
        CHECK_EQUAL(reader->broken, !is_there);
        if (!is_there)
            bytes = 0;
    }
    CHECK_EQUAL(reader->left, is_there ? bytes - record->fields[record->count - 1].end : 0);
}

TEST(jute, what_is_written_is_read)
{
    struct dice dice = { .state = 30 };
    char error[HF__ERROR_BYTES] = "";
    struct failing_env world;
    struct hf__jute_out out;
    struct hf__jute_in in;

    failing_env_init(&world, 0);
    hf__jute_out_init(&out, &world.env);
    hf__jute_in_init(&in, &world.env);
    for (int i = 0; i < ROUNDS; i++) {
        struct hf__jute_reader reader;
        struct record record;
        size_t bytes;

        draw(&record, &dice);
        bytes = record.fields[record.count - 1].end;
        put(&out, &record);
        CHECK_EQUAL(out.status, HF_OK);
        CHECK_EQUAL(hf__buffer_count(&out.buffer), 4 + bytes);
        CHECK_EQUAL(hf__buffer_append(&in.buffer, hf__buffer_front(&out.buffer), 4 + bytes), HF_OK);
        hf__buffer_consume(&out.buffer, 4 + bytes);
        CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 1);
        check(&reader, &record, bytes);
        CHECK_EQUAL(reader.left, 0);
        CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
    }
    hf__jute_out_done(&out);
    hf__jute_in_done(&in);
    CHECK_EQUAL(world.live, 0);
}

/* The piece is in memory of its own, so that the sanitizer sees whoever reads beyond it. */
TEST(jute, every_record_that_is_cut_off_is_broken_and_gives_zeros)
{
    struct dice dice = { .state = 31 };
    struct failing_env world;
    struct hf__jute_out out;

    failing_env_init(&world, 0);
    hf__jute_out_init(&out, &world.env);
    for (int i = 0; i < ROUNDS / 10; i++) {
        struct record record;
        size_t bytes;

        draw(&record, &dice);
        bytes = record.fields[record.count - 1].end;
        put(&out, &record);
        for (size_t cut = 0; cut < bytes; cut++) {
            const uint8_t *front = hf__buffer_front(&out.buffer);
            uint8_t *piece = malloc(cut ? cut : 1);
            struct hf__jute_reader reader;

            CHECK(piece);
            memcpy(piece, front + 4, cut);
            hf__jute_read(&reader, piece, cut);
            check(&reader, &record, cut);
            CHECK(reader.broken);
            free(piece);
        }
        hf__buffer_consume(&out.buffer, 4 + bytes);
    }
    hf__jute_out_done(&out);
    CHECK_EQUAL(world.live, 0);
}

TEST(jute, a_packet_is_these_bytes)
{
    static const char wanted[] = "\0\0\0\x1f"                       /* 31 bytes follow */
                                 "\x01\x02\x03\x04"                 /* 32 bits */
                                 "\xff\xff\xff\xfe"                 /* ... below 0 */
                                 "\x80\x02\x03\x04\x05\x06\x07\x08" /* 64 bits, below 0 */
                                 "\0\x01"                           /* false, true */
                                 "\0\0\0\x05/a\0\xc3\xa4"           /* a text, or a buffer */
                                 "\xff\xff\xff\xff"                 /* none */
                                 "\0\0\0\x04\0\0\0\0"               /* the next: an empty text */
                                 "\0\0\0\0";                        /* one with nothing in it */
    struct failing_env world;
    struct hf__jute_out out;

    failing_env_init(&world, 0);
    hf__jute_out_init(&out, &world.env);
    CHECK_EQUAL(world.allocations, 0);
    hf__jute_begin(&out);
    hf__jute_put_i32(&out, 0x01020304);
    hf__jute_put_i32(&out, -2);
    hf__jute_put_i64(&out, INT64_MIN + 0x02030405060708);
    hf__jute_put_bool(&out, false);
    hf__jute_put_bool(&out, true);
    hf__jute_put_text(&out, "/a\0\xc3\xa4", 5);
    hf__jute_put_nothing(&out);
    hf__jute_end(&out);
    hf__jute_begin(&out);
    hf__jute_put_text(&out, NULL, 0);
    hf__jute_end(&out);
    hf__jute_begin(&out);
    hf__jute_end(&out);
    CHECK_EQUAL(out.status, HF_OK);
    CHECK_EQUAL(hf__buffer_count(&out.buffer), sizeof(wanted) - 1);
    CHECK(memcmp(hf__buffer_front(&out.buffer), wanted, sizeof(wanted) - 1) == 0);
    hf__jute_out_done(&out);
    CHECK_EQUAL(world.live, 0);
}

/* Each grows the memory in the middle of a packet, or moves it, behind others that partly went. */
TEST(jute, the_length_finds_its_place_when_the_memory_moves)
{
    static const char text[3000];
    char error[HF__ERROR_BYTES] = "";
    struct failing_env world;
    struct hf__jute_out out;
    struct hf__jute_in in;

    failing_env_init(&world, 0);
    hf__jute_out_init(&out, &world.env);
    hf__jute_in_init(&in, &world.env);
    for (size_t i = 0; i < 200; i++) {
        struct hf__jute_reader reader;
        size_t waiting;

        hf__jute_begin(&out);
        for (size_t k = 0; k < i % 7; k++)
            hf__jute_put_text(&out, text, i * 13);
        hf__jute_end(&out);
        waiting = hf__buffer_count(&out.buffer);
        if (i % 5 == 4)
            waiting /= 2;
        CHECK_EQUAL(hf__buffer_append(&in.buffer, hf__buffer_front(&out.buffer), waiting), HF_OK);
        hf__buffer_consume(&out.buffer, waiting);
        while (hf__jute_in_next(&in, &reader, error) == 1)
            CHECK(reader.left == 0 ||
                  reader.left % (4 + (reader.at[2] * 256u + reader.at[3])) == 0);
        CHECK_TEXT(error, "");
    }
    CHECK(world.allocations > 4);
    hf__jute_out_done(&out);
    hf__jute_in_done(&in);
    CHECK_EQUAL(world.live, 0);
}

TEST(jute, a_stat_is_read_field_by_field)
{
    uint8_t bytes[STAT_BYTES];
    struct hf__jute_stat stat;
    struct hf__jute_reader reader;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i + 1);
    hf__jute_read(&reader, bytes, sizeof(bytes));
    hf__jute_get_stat(&reader, &stat);
    CHECK(!reader.broken && reader.left == 0);
    CHECK(stat.czxid == 0x0102030405060708);
    CHECK(stat.mzxid == 0x090a0b0c0d0e0f10);
    CHECK(stat.ctime == 0x1112131415161718);
    CHECK(stat.mtime == 0x191a1b1c1d1e1f20);
    CHECK_EQUAL(stat.version, 0x21222324);
    CHECK_EQUAL(stat.cversion, 0x25262728);
    CHECK_EQUAL(stat.aversion, 0x292a2b2c);
    CHECK(stat.ephemeral_owner == 0x2d2e2f3031323334);
    CHECK_EQUAL(stat.data_length, 0x35363738);
    CHECK_EQUAL(stat.num_children, 0x393a3b3c);
    CHECK(stat.pzxid == 0x3d3e3f4041424344);
    for (size_t cut = 0; cut < sizeof(bytes); cut++) {
        hf__jute_read(&reader, bytes, cut);
        hf__jute_get_stat(&reader, &stat);
        CHECK(reader.broken && reader.left == 0);
        CHECK(stat.pzxid == 0);
        CHECK(stat.czxid == (cut < 8 ? 0 : 0x0102030405060708));
    }
}

TEST(jute, any_byte_but_zero_is_true)
{
    for (int byte = 0; byte < 256; byte++) {
        uint8_t bytes[1] = { (uint8_t)byte };
        struct hf__jute_reader reader;

        hf__jute_read(&reader, bytes, 1);
        CHECK_EQUAL(hf__jute_get_bool(&reader), byte != 0);
        CHECK(!reader.broken);
        CHECK(!hf__jute_get_bool(&reader));
        CHECK(reader.broken);
    }
}

/* A stream of packets: each is handed out with its last byte, not sooner and not later. */
static void read_in_pieces(const struct hf__jute_out *out, const struct record *records,
                           size_t count, struct dice *dice, size_t piece_max)
{
    const uint8_t *bytes = hf__buffer_front(&out->buffer);
    size_t waiting = hf__buffer_count(&out->buffer);
    char error[HF__ERROR_BYTES] = "";
    size_t next = 0;
    size_t end = 0; /* of the packets that were handed out */
    struct failing_env world;
    struct hf__jute_in in;

    failing_env_init(&world, 0);
    hf__jute_in_init(&in, &world.env);
    for (size_t at = 0; at < waiting;) {
        size_t left = waiting - at;
        size_t piece = 1 + dice_below(dice, left < piece_max ? left : piece_max);
        struct hf__jute_reader reader;
        size_t allocations;

        CHECK_EQUAL(hf__buffer_append(&in.buffer, bytes + at, piece), HF_OK);
        at += piece;
        allocations = world.allocations;
        while (hf__jute_in_next(&in, &reader, error) == 1) {
            size_t length = reader.left;

            check(&reader, &records[next], length);
            CHECK_EQUAL(reader.left, 0);
            end += 4 + length;
            next++;
        }
        CHECK_EQUAL(world.allocations, allocations);
        CHECK(end <= at);
        CHECK(next == count || at < end + 4 + records[next].fields[records[next].count - 1].end);
    }
    CHECK_EQUAL(next, count);
    CHECK_TEXT(error, "");
    hf__jute_in_done(&in);
    CHECK_EQUAL(world.live, 0);
}

TEST(jute, packets_are_read_however_they_are_cut)
{
    enum { PACKETS = 40 };
    static struct record records[PACKETS];
    static const size_t pieces[] = { 1, 2, 7, 100, 100000 };
    struct dice dice = { .state = 32 };
    struct failing_env world;

    failing_env_init(&world, 0);
    for (int i = 0; i < 50; i++) {
        struct hf__jute_out out;

        hf__jute_out_init(&out, &world.env);
        for (size_t k = 0; k < PACKETS; k++) {
            draw(&records[k], &dice);
            put(&out, &records[k]);
        }
        for (size_t k = 0; k < sizeof(pieces) / sizeof(*pieces); k++)
            read_in_pieces(&out, records, PACKETS, &dice, pieces[k]);
        hf__jute_out_done(&out);
    }
    CHECK_EQUAL(world.live, 0);
}
