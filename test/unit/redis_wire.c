/* redis_wire.c (unit): are the bytes of a Redis server read as others read them?
 *
 * The oracle is hiredis' reader: random replies of RESP2, cut into random pieces, give the same
 * tree there and here. What RESP3 adds, limits and lack of memory are walked one by one. */
#include "engine/redis/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "check.h"
#include "dice.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"

#define REPLIES      20000
#define REPLY_BYTES  (1 << 16)
#define DEPTH_MAX    6 /* hiredis 0.14 takes no more than 7 */
#define ELEMENTS_MAX 5

struct bytes {
    char at[REPLY_BYTES];
    size_t count;
};

static void put(struct bytes *bytes, const void *from, size_t count)
{
    CHECK(bytes->count + count <= sizeof(bytes->at));
    memcpy(bytes->at + bytes->count, from, count);
    bytes->count += count;
}

static void put_text(struct bytes *bytes, const char *text)
{
    put(bytes, text, strlen(text));
}

static void put_number(struct bytes *bytes, char type, int64_t number)
{
    char line[32];
    int written = snprintf(line, sizeof(line), "%c%lld\r\n", type, (long long)number);

    put(bytes, line, (size_t)written);
}

static int64_t draw_number(struct dice *dice)
{
    int64_t number = (int64_t)dice_roll(dice) >> dice_below(dice, 64);

    return dice_below(dice, 50) == 0 ? INT64_MAX : number;
}

static void put_line(struct bytes *bytes, struct dice *dice, char type)
{
    size_t count = dice_below(dice, 40);

    put(bytes, &type, 1);
    for (size_t i = 0; i < count; i++) {
        char letter = (char)(' ' + (int)dice_below(dice, 95));

        put(bytes, &letter, 1);
    }
    put_text(bytes, "\r\n");
}

static void put_binary(struct bytes *bytes, struct dice *dice)
{
    char text[64];
    size_t count = dice_below(dice, sizeof(text));

    dice_fill(dice, text, count);
    put_number(bytes, '$', (int64_t)count);
    put(bytes, text, count);
    put_text(bytes, "\r\n");
}

/* One that holds no others. */
static void put_leaf(struct bytes *bytes, struct dice *dice)
{
    switch (dice_below(dice, 7)) {
    case 0:
        put_line(bytes, dice, '+');
        return;
    case 1:
        put_line(bytes, dice, '-');
        return;
    case 2:
        put_text(bytes, "$-1\r\n");
        return;
    case 3:
        put_text(bytes, "*-1\r\n");
        return;
    case 4:
        put_number(bytes, ':', draw_number(dice));
        return;
    default:
        put_binary(bytes, dice);
    }
}

/* A whole reply: how many elements each open array still lacks. */
static void draw_reply(struct bytes *bytes, struct dice *dice)
{
    uint64_t lacking[DEPTH_MAX + 1] = { 1 };
    size_t depth = 0;

    bytes->count = 0;
    while (depth > 0 || lacking[0] > 0) {
        if (lacking[depth] == 0) {
            depth--;
            continue;
        }
        lacking[depth]--;
        if (depth < DEPTH_MAX && dice_below(dice, 3) == 0) {
            lacking[++depth] = dice_below(dice, ELEMENTS_MAX);
            put_number(bytes, '*', (int64_t)lacking[depth]);
            continue;
        }
        put_leaf(bytes, dice);
    }
}

static void compare_leaf(const struct hf__value *ours, const redisReply *theirs)
{
    static const enum hf__value_kind kinds[] = {
        [REDIS_REPLY_STRING] = HF__VALUE_TEXT,    [REDIS_REPLY_ARRAY] = HF__VALUE_ARRAY,
        [REDIS_REPLY_INTEGER] = HF__VALUE_NUMBER, [REDIS_REPLY_NIL] = HF__VALUE_NIL,
        [REDIS_REPLY_STATUS] = HF__VALUE_STATUS,  [REDIS_REPLY_ERROR] = HF__VALUE_ERROR,
    };

    CHECK_EQUAL(ours->kind, kinds[theirs->type]);
    if (theirs->type == REDIS_REPLY_INTEGER)
        CHECK(ours->number == theirs->integer);
    if (theirs->type == REDIS_REPLY_STRING || theirs->type == REDIS_REPLY_STATUS ||
        theirs->type == REDIS_REPLY_ERROR) {
        CHECK_EQUAL(ours->bytes, theirs->len);
        CHECK(memcmp(ours->text, theirs->str, theirs->len) == 0);
    }
    CHECK_EQUAL(ours->count, theirs->type == REDIS_REPLY_ARRAY ? theirs->elements : 0);
}

/* In the order of the row: a container, then what is in it. */
static void compare(const struct hf__value *row, const redisReply *reply)
{
    struct {
        const redisReply *reply;
        size_t next;
    } open[DEPTH_MAX + 2] = { { reply, 0 } };
    size_t depth = 1;
    uint32_t at = 1;

    compare_leaf(row, reply);
    while (depth > 0) {
        const redisReply *container = open[depth - 1].reply;
        const redisReply *element;

        if (container->type != REDIS_REPLY_ARRAY || open[depth - 1].next == container->elements) {
            depth--;
            continue;
        }
        element = container->element[open[depth - 1].next++];
        CHECK(at < row->span);
        compare_leaf(&row[at++], element);
        open[depth].reply = element;
        open[depth++].next = 0;
    }
    CHECK_EQUAL(at, row->span);
}

/* Fed in pieces; what comes before the last byte is "not yet" to both. */
static void read_both(const struct bytes *bytes, struct dice *dice, struct hf__incoming *in,
                      redisReader *reader)
{
    const struct hf__value *row = NULL;
    char error[HF__ERROR_BYTES] = "";
    void *reply = NULL;

    for (size_t at = 0; at < bytes->count;) {
        size_t left = bytes->count - at;
        size_t count = 1 + dice_below(dice, left < 200 ? left : 200);
        int got;

        CHECK_EQUAL(hf__buffer_append(&in->buffer, bytes->at + at, count), HF_OK);
        CHECK_EQUAL(redisReaderFeed(reader, bytes->at + at, count), REDIS_OK);
        at += count;
        got = hf__wire_in_next(in, &row, error);
        CHECK_EQUAL(redisReaderGetReply(reader, &reply), REDIS_OK);
        CHECK_EQUAL(got, at == bytes->count ? 1 : 0);
        CHECK_EQUAL(got, reply ? 1 : 0);
    }
    compare(row, reply);
    freeReplyObject(reply);
}

TEST(redis_wire, reads_what_hiredis_reads)
{
    struct dice dice = { .state = 20 };
    struct bytes *bytes = calloc(1, sizeof(*bytes));
    redisReader *reader = redisReaderCreate();
    struct failing_env world;
    struct hf__incoming in;

    CHECK(bytes && reader);
    failing_env_init(&world, 0);
    hf__wire_in_init(&in, &world.env);
    for (int i = 0; i < REPLIES; i++) {
        draw_reply(bytes, &dice);
        read_both(bytes, &dice, &in, reader);
    }
    hf__wire_in_done(&in);
    redisReaderFree(reader);
    free(bytes);
    CHECK_EQUAL(world.live, 0);
}

static int read_text(const struct hf__env *env, const char *text, size_t count, char out_tree[256])
{
    static const char letters[] = "n+-:$*>?";
    const struct hf__value *row = NULL;
    char error[HF__ERROR_BYTES] = "";
    struct hf__incoming in;
    int got;

    hf__wire_in_init(&in, env);
    got = hf__buffer_append(&in.buffer, text, count);
    if (got == HF_OK)
        got = hf__wire_in_next(&in, &row, error);
    for (uint32_t i = 0; got == 1 && i < row->span && i < 255; i++) {
        out_tree[i] = letters[row[i].kind];
        out_tree[i + 1] = '\0';
    }
    hf__wire_in_done(&in);
    return got;
}

TEST(redis_wire, reads_what_the_third_version_adds)
{
    static const struct {
        const char *bytes;
        const char *tree;
    } samples[] = {
        { "_\r\n", "n" },
        { "#t\r\n", "?" },
        { ",1.5\r\n", "?" },
        { "(12345678901234567890\r\n", "?" },
        { "=7\r\ntxt:abc\r\n", "$" },
        { "!6\r\nERR no\r\n", "-" },
        { "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "*+:+*n" },
        { "~2\r\n:1\r\n:2\r\n", "*::" },
        { ">2\r\n+a\r\n:1\r\n", ">+:" },
        { "|1\r\n+a\r\n+b\r\n:1\r\n", ":" },
        { "*2\r\n|1\r\n+a\r\n*1\r\n|1\r\n+c\r\n+d\r\n+b\r\n:1\r\n$1\r\nx\r\n", "*:$" },
        { "|0\r\n*0\r\n", "*" },
    };
    struct failing_env world;

    failing_env_init(&world, 0);
    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        char tree[256] = "";

        CHECK_EQUAL(read_text(&world.env, samples[i].bytes, strlen(samples[i].bytes), tree), 1);
        CHECK_TEXT(tree, samples[i].tree);
    }
    CHECK_EQUAL(world.live, 0);
}

TEST(redis_wire, refuses_what_is_none)
{
    static const char *const samples[] = {
        "*400000000\r\n",
        "%16384\r\n",
        "$1048577\r\n",
        "*-2\r\n",
        "$-2\r\n",
        "*\r\n",
        ":\r\n",
        ":-\r\n",
        ":1a\r\n",
        "$3\r\nabcdef\r\n",
        "+OK\n",
        "\r\n",
        "\n\n",
        "x\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
        ":9223372036854775808\r\n",
        ":-9223372036854775809\r\n",
    };
    struct failing_env world;
    char tree[256];

    failing_env_init(&world, 0);
    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++)
        CHECK_EQUAL(read_text(&world.env, samples[i], strlen(samples[i]), tree), HF_EPROTOCOL);
    CHECK_EQUAL(read_text(&world.env, "\0\r\n", 3, tree), HF_EPROTOCOL);
    CHECK_EQUAL(world.live, 0);
}

TEST(redis_wire, takes_no_memory_for_what_was_only_announced)
{
    static const char *const samples[] = { "*16000\r\n", "$1000000\r\n", "*1\r\n*1\r\n$-1" };
    struct failing_env world;
    char tree[256];

    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        failing_env_init(&world, 2); /* the first is the buffer with these few bytes */
        CHECK_EQUAL(read_text(&world.env, samples[i], strlen(samples[i]), tree), 0);
        CHECK_EQUAL(world.refused, 0);
    }
}

TEST(redis_wire, an_answer_beyond_the_limit_is_refused_before_it_is_whole)
{
    static char piece[16384];
    const struct hf__value *row = NULL;
    char error[HF__ERROR_BYTES] = "";
    struct failing_env world;
    struct hf__incoming in;
    int got = 0;

    failing_env_init(&world, 0);
    hf__wire_in_init(&in, &world.env);
    CHECK_EQUAL(hf__buffer_append(&in.buffer, "*1000\r\n", 7), HF_OK);
    for (int i = 0; got == 0; i++) {
        CHECK(i < 100);
        CHECK_EQUAL(hf__buffer_append(&in.buffer, "$16384\r\n", 8), HF_OK);
        CHECK_EQUAL(hf__buffer_append(&in.buffer, piece, sizeof(piece)), HF_OK);
        CHECK_EQUAL(hf__buffer_append(&in.buffer, "\r\n", 2), HF_OK);
        got = hf__wire_in_next(&in, &row, error);
    }
    CHECK_EQUAL(got, HF_EPROTOCOL);
    CHECK(strstr(error, "bytes"));
    hf__wire_in_done(&in);
    CHECK_EQUAL(world.live, 0);
}

TEST(redis_wire, every_allocation_may_fail)
{
    static const char text[] = "*3\r\n:1\r\n$2\r\nhi\r\n*1\r\n_\r\n";
    size_t refused = 1;

    for (size_t nth = 1; refused > 0; nth++) {
        struct failing_env world;
        char tree[256] = "";
        int got;

        failing_env_init(&world, nth);
        got = read_text(&world.env, text, sizeof(text) - 1, tree);
        refused = world.refused;
        CHECK_EQUAL(got, refused > 0 ? HF_ENOMEM : 1);
        CHECK_EQUAL(world.live, 0);
    }
}

TEST(redis_wire, half_a_command_is_never_sent)
{
    size_t refused = 1;

    for (size_t nth = 1; refused > 0; nth++) {
        struct failing_env world;
        struct hf__outgoing out;

        failing_env_init(&world, nth);
        hf__wire_out_init(&out, &world.env);
        hf__wire_out_begin(&out, 3);
        hf__wire_out_text(&out, "SET");
        hf__wire_out_number(&out, 0);
        hf__wire_out_word(&out, "a\0b", 3);
        refused = world.refused;
        CHECK_EQUAL(out.status, refused > 0 ? HF_ENOMEM : HF_OK);
        if (refused == 0) {
            static const char wanted[] = "*3\r\n$3\r\nSET\r\n$1\r\n0\r\n$3\r\na\0b\r\n";

            CHECK_EQUAL(hf__buffer_count(&out.buffer), sizeof(wanted) - 1);
            CHECK(memcmp(hf__buffer_front(&out.buffer), wanted, sizeof(wanted) - 1) == 0);
        }
        hf__wire_out_done(&out);
        CHECK_EQUAL(world.live, 0);
    }
}
