/* jute.c (fuzz): bytes of a ZooKeeper server are packets or are refused, however they are cut; each
 * packet can be read as any record, never beyond its end, and what was read of it, written again,
 * is the same bytes. */
#include "engine/zookeeper/jute.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/holdfast.h"
#include "target.h"

#define PIECE_BYTES 4096

/* All that came of an input; equal for equal inputs. */
struct outcome {
    int status; /* of the last call */
    uint64_t packets;
    uint64_t hash;
};

/* One packet as one record; what is read is also written. */
struct walk {
    struct hf__jute_reader reader;
    struct hf__jute_out echo;
    const uint8_t *begin;
    const uint8_t *end;
    bool is_exact; /* what is true was written as 1 */
    struct outcome *outcome;
};

static void mix(struct outcome *outcome, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < count; i++)
        outcome->hash = (outcome->hash ^ at[i]) * 1099511628211u;
}

static void copy_bool(struct walk *walk)
{
    uint8_t byte = walk->reader.left > 0 ? *walk->reader.at : 0;
    bool value = hf__jute_get_bool(&walk->reader);

    assert(value == (byte != 0));
    walk->is_exact = walk->is_exact && byte <= 1;
    hf__jute_put_bool(&walk->echo, value);
    mix(walk->outcome, &value, sizeof(value));
}

static int32_t copy_i32(struct walk *walk)
{
    int32_t value = hf__jute_get_i32(&walk->reader);

    assert(value == 0 || !walk->reader.broken);
    hf__jute_put_i32(&walk->echo, value);
    mix(walk->outcome, &value, sizeof(value));
    return value;
}

static void copy_i64(struct walk *walk)
{
    int64_t value = hf__jute_get_i64(&walk->reader);

    assert(value == 0 || !walk->reader.broken);
    hf__jute_put_i64(&walk->echo, value);
    mix(walk->outcome, &value, sizeof(value));
}

static void copy_text(struct walk *walk)
{
    struct hf__jute_text text = hf__jute_get_text(&walk->reader);
    const uint8_t *at = (const uint8_t *)text.bytes;

    assert(text.bytes);
    assert(text.count == 0 || (!walk->reader.broken && !text.is_absent));
    assert(text.count == 0 || (at >= walk->begin && at + text.count <= walk->end));
    if (text.is_absent)
        hf__jute_put_nothing(&walk->echo);
    else
        hf__jute_put_text(&walk->echo, text.bytes, text.count);
    mix(walk->outcome, text.bytes, text.count);
}

static void copy_texts(struct walk *walk)
{
    struct hf__jute_reader ahead = walk->reader;
    int32_t written = hf__jute_get_i32(&ahead);
    size_t count = hf__jute_get_count(&walk->reader, 4);

    assert(count <= walk->reader.left / 4);
    assert(walk->reader.broken || count == (written < 0 ? 0 : (size_t)written));
    assert(walk->reader.broken || written >= -1);
    hf__jute_put_i32(&walk->echo, written);
    for (size_t i = 0; i < count && !walk->reader.broken; i++)
        copy_text(walk);
}

static void copy_stat(struct walk *walk)
{
    struct hf__jute_reader ahead = walk->reader;
    struct hf__jute_stat stat;

    copy_i64(walk);
    copy_i64(walk);
    copy_i64(walk);
    copy_i64(walk);
    copy_i32(walk);
    copy_i32(walk);
    copy_i32(walk);
    copy_i64(walk);
    copy_i32(walk);
    copy_i32(walk);
    copy_i64(walk);
    hf__jute_get_stat(&ahead, &stat);
    assert(ahead.left == walk->reader.left && ahead.broken == walk->reader.broken);
    assert(stat.pzxid == 0 || !ahead.broken);
}

static void copy_connect_response(struct walk *walk)
{
    copy_i32(walk);
    copy_i32(walk);
    copy_i64(walk);
    copy_text(walk);
    if (walk->reader.left > 0) /* old servers do not say whether they are read-only */
        copy_bool(walk);
}

static void copy_reply_header(struct walk *walk)
{
    copy_i32(walk);
    copy_i64(walk);
    copy_i32(walk);
}

static void copy_stat_reply(struct walk *walk)
{
    copy_reply_header(walk);
    copy_stat(walk);
}

static void copy_children_reply(struct walk *walk)
{
    copy_reply_header(walk);
    copy_texts(walk);
    copy_stat(walk);
}

static void copy_event(struct walk *walk)
{
    copy_reply_header(walk);
    copy_i32(walk);
    copy_i32(walk);
    copy_text(walk);
}

/* Broken: nothing is left. Sound: so many bytes were read as are written again, and the same. */
static void check_walk(struct walk *walk)
{
    size_t bytes = (size_t)(walk->end - walk->begin);
    size_t written = hf__buffer_count(&walk->echo.buffer) - 4;
    const uint8_t *echo = hf__buffer_front(&walk->echo.buffer);

    assert(walk->echo.status == HF_OK);
    mix(walk->outcome, &walk->reader.broken, sizeof(walk->reader.broken));
    if (walk->reader.broken) {
        assert(walk->reader.left == 0);
        assert(copy_i32(walk) == 0 && walk->reader.broken);
        return;
    }
    assert(written + walk->reader.left == bytes);
    assert(walk->reader.at + walk->reader.left == walk->end);
    assert(!walk->is_exact || written == 0 || memcmp(echo + 4, walk->begin, written) == 0);
}

static void check_packet(const struct hf__env *env, const struct hf__jute_reader *packet,
                         struct outcome *outcome)
{
    static void (*const shapes[])(struct walk * walk) = {
        copy_connect_response,
        copy_stat_reply,
        copy_children_reply,
        copy_event,
    };

    assert(!packet->broken && packet->left <= HF__JUTE_BYTES_MAX);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        struct walk walk = { .is_exact = true, .outcome = outcome };

        hf__jute_read(&walk.reader, packet->at, packet->left);
        walk.begin = packet->at;
        walk.end = packet->at + packet->left;
        hf__jute_out_init(&walk.echo, env);
        hf__jute_begin(&walk.echo);
        shapes[i](&walk);
        check_walk(&walk);
        hf__jute_end(&walk.echo);
        hf__jute_out_done(&walk.echo);
    }
    outcome->packets++;
}

static struct outcome read_all(const struct hf__env *env, const uint8_t *bytes, size_t count,
                               size_t piece)
{
    struct outcome outcome = { 0 };
    char error[HF__ERROR_BYTES] = "";
    struct hf__jute_reader packet;
    struct hf__jute_in in;

    hf__jute_in_init(&in, env);
    for (size_t at = 0; at < count && outcome.status >= 0; at += piece) {
        size_t next = count - at < piece ? count - at : piece;

        assert(hf__buffer_append(&in.buffer, bytes + at, next) == HF_OK);
        while ((outcome.status = hf__jute_in_next(&in, &packet, error)) == 1)
            check_packet(env, &packet, &outcome);
    }
    assert(outcome.status == 0 || (outcome.status == HF_EPROTOCOL && *error));
    hf__jute_in_done(&in);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct hf__env env;
    struct outcome whole;
    struct outcome cut;

    assert(hf__env_init(&env) == HF_OK);
    whole = read_all(&env, bytes, count, PIECE_BYTES);
    cut = read_all(&env, bytes, count, 1);
    assert(whole.status == cut.status);
    assert(whole.packets == cut.packets && whole.hash == cut.hash);
    hf__env_done(&env);
    return 0;
}
