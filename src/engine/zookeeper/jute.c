/* jute.c: how do records become bytes, and bytes records?
 *
 * A record is its fields in a row, all numbers big-endian: a boolean is one byte, a text its length
 * and its bytes, a vector its count and its elements; -1 stands for a text or a vector that is not
 * there. A packet is the length of a record and the record. Going out, the length is written last,
 * into the place that was kept for it. Coming in, bytes wait until a packet is whole; then a reader
 * walks over it where it lies, and nothing is copied.
 *
 * What can go wrong: no memory for what goes out (the status says so, and nothing follows half a
 * packet); a server that announces a packet below 0 or above the limit (an error, before memory is
 * taken for it); a packet that is shorter than its record, or a text or vector in it that is longer
 * than what is left (the reader is broken, and gives nothing but zeros from there on).
 *
 * Pure: no clock, no I/O; memory by the env. */
#include "engine/zookeeper/jute.h"

#include <assert.h>
#include <string.h>

#include "holdfast/holdfast.h"

#define LENGTH_BYTES 4u
#define READ_BYTES   65536u /* may be read at once, behind all but the last byte of a packet */

_Static_assert(HF__JUTE_BYTES_MAX <= INT32_MAX && HF__JUTE_OUT_MAX <= INT32_MAX,
               "a length is 31 bits");

/* --- out --- */

void hf__jute_out_init(struct hf__jute_out *out, const struct hf__env *env)
{
    *out = (struct hf__jute_out){ .status = HF_OK };
    hf__buffer_init(&out->buffer, env, HF__JUTE_OUT_MAX);
}

void hf__jute_out_done(struct hf__jute_out *out)
{
    hf__buffer_done(&out->buffer);
    out->packet_bytes = 0;
}

/* Room for a field at the end of the packet, or NULL. It counts as written. */
static uint8_t *extend(struct hf__jute_out *out, size_t count)
{
    void *space = NULL;

    if (out->status == HF_OK)
        out->status = hf__buffer_reserve(&out->buffer, count, &space);
    if (out->status != HF_OK)
        return NULL;
    hf__buffer_commit(&out->buffer, count);
    out->packet_bytes += count;
    return space;
}

static void store_u32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

void hf__jute_begin(struct hf__jute_out *out)
{
    uint8_t *space;

    assert(out->packet_bytes == 0 || out->status != HF_OK);

    space = extend(out, LENGTH_BYTES);
    if (space)
        store_u32(space, 0);
}

void hf__jute_put_bool(struct hf__jute_out *out, bool value)
{
    uint8_t *space;

    assert(out->packet_bytes > 0 || out->status != HF_OK);

    space = extend(out, 1);
    if (space)
        *space = value;
}

void hf__jute_put_i32(struct hf__jute_out *out, int32_t value)
{
    uint8_t *space;

    assert(out->packet_bytes > 0 || out->status != HF_OK);

    space = extend(out, 4);
    if (space)
        store_u32(space, (uint32_t)value);
}

void hf__jute_put_i64(struct hf__jute_out *out, int64_t value)
{
    uint8_t *space;

    assert(out->packet_bytes > 0 || out->status != HF_OK);

    space = extend(out, 8);
    if (!space)
        return;
    store_u32(space, (uint32_t)((uint64_t)value >> 32));
    store_u32(space + 4, (uint32_t)(uint64_t)value);
}

void hf__jute_put_text(struct hf__jute_out *out, const char *bytes, size_t count)
{
    uint8_t *space;

    assert(bytes || count == 0);
    assert(count <= INT32_MAX);
    assert(out->packet_bytes > 0 || out->status != HF_OK);

    space = extend(out, LENGTH_BYTES + count);
    if (!space)
        return;
    store_u32(space, (uint32_t)count);
    if (count > 0)
        memcpy(space + LENGTH_BYTES, bytes, count);
}

void hf__jute_put_nothing(struct hf__jute_out *out)
{
    hf__jute_put_i32(out, -1);
}

void hf__jute_end(struct hf__jute_out *out)
{
    if (out->status == HF_OK) {
        uint8_t *back = out->buffer.memory + out->buffer.back;

        assert(out->packet_bytes >= LENGTH_BYTES);
        assert(out->packet_bytes <= hf__buffer_count(&out->buffer));
        store_u32(back - out->packet_bytes, (uint32_t)(out->packet_bytes - LENGTH_BYTES));
    }
    out->packet_bytes = 0;
}

/* --- in --- */

void hf__jute_in_init(struct hf__jute_in *in, const struct hf__env *env)
{
    *in = (struct hf__jute_in){ 0 };
    hf__buffer_init(&in->buffer, env, LENGTH_BYTES + HF__JUTE_BYTES_MAX + READ_BYTES);
}

void hf__jute_in_done(struct hf__jute_in *in)
{
    hf__buffer_done(&in->buffer);
    in->taken = 0;
}

static uint32_t load_u32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

/* The rest of a packet goes behind what is here of it, in the memory that there is: what lies
 * before it is done with. Its bytes are moved once, and the buffer never grows beyond a packet. */
static void make_room(struct hf__buffer *buffer, size_t packet_bytes)
{
    size_t waiting = hf__buffer_count(buffer);

    buffer->bytes_expected = packet_bytes + READ_BYTES;
    if (buffer->front == 0 || buffer->front + packet_bytes + READ_BYTES <= buffer->memory_bytes)
        return;
    memmove(buffer->memory, buffer->memory + buffer->front, waiting);
    buffer->front = 0;
    buffer->back = waiting;
}

int hf__jute_in_next(struct hf__jute_in *in, struct hf__jute_reader *out_packet,
                     char error[HF__ERROR_BYTES])
{
    const uint8_t *front;
    uint32_t length;
    size_t waiting;

    hf__buffer_consume(&in->buffer, in->taken);
    in->taken = 0;
    waiting = hf__buffer_count(&in->buffer);
    if (waiting < LENGTH_BYTES)
        return 0;
    front = hf__buffer_front(&in->buffer);
    length = load_u32(front);
    if (length > HF__JUTE_BYTES_MAX)
        return hf__error_set(error, HF_EPROTOCOL, "the server announced a packet of %ld bytes",
                             (long)(int32_t)length);
    if (waiting - LENGTH_BYTES < length) {
        make_room(&in->buffer, LENGTH_BYTES + length);
        return 0;
    }
    in->taken = LENGTH_BYTES + length;
    hf__jute_read(out_packet, front + LENGTH_BYTES, length);
    return 1;
}

void hf__jute_read(struct hf__jute_reader *reader, const void *bytes, size_t count)
{
    assert(bytes || count == 0);

    *reader = (struct hf__jute_reader){ .at = bytes, .left = count };
}

static void give_up(struct hf__jute_reader *reader)
{
    reader->broken = true;
    reader->left = 0;
}

/* The next so many bytes (> 0), or NULL: they are not there. */
static const uint8_t *take(struct hf__jute_reader *reader, size_t count)
{
    const uint8_t *at = reader->at;

    assert(count > 0);
    assert(!reader->broken || reader->left == 0);

    if (count > reader->left) {
        give_up(reader);
        return NULL;
    }
    reader->at += count;
    reader->left -= count;
    return at;
}

bool hf__jute_get_bool(struct hf__jute_reader *reader)
{
    const uint8_t *at = take(reader, 1);

    return at && *at != 0;
}

int32_t hf__jute_get_i32(struct hf__jute_reader *reader)
{
    const uint8_t *at = take(reader, 4);

    return at ? (int32_t)load_u32(at) : 0;
}

int64_t hf__jute_get_i64(struct hf__jute_reader *reader)
{
    const uint8_t *at = take(reader, 8);

    return at ? (int64_t)((uint64_t)load_u32(at) << 32 | load_u32(at + 4)) : 0;
}

struct hf__jute_text hf__jute_get_text(struct hf__jute_reader *reader)
{
    struct hf__jute_text text = { .bytes = "" };
    int32_t length = hf__jute_get_i32(reader);
    const uint8_t *at = NULL;

    if (length == -1)
        text.is_absent = true;
    else if (length < 0)
        give_up(reader);
    else if (length > 0)
        at = take(reader, (size_t)length);
    if (at) {
        text.bytes = (const char *)at;
        text.count = (size_t)length;
    }
    return text;
}

void hf__jute_get_stat(struct hf__jute_reader *reader, struct hf__jute_stat *out_stat)
{
    /* One after the other: the initialisers of a struct may run in any order. */
    out_stat->czxid = hf__jute_get_i64(reader);
    out_stat->mzxid = hf__jute_get_i64(reader);
    out_stat->ctime = hf__jute_get_i64(reader);
    out_stat->mtime = hf__jute_get_i64(reader);
    out_stat->version = hf__jute_get_i32(reader);
    out_stat->cversion = hf__jute_get_i32(reader);
    out_stat->aversion = hf__jute_get_i32(reader);
    out_stat->ephemeral_owner = hf__jute_get_i64(reader);
    out_stat->data_length = hf__jute_get_i32(reader);
    out_stat->num_children = hf__jute_get_i32(reader);
    out_stat->pzxid = hf__jute_get_i64(reader);
}

size_t hf__jute_get_count(struct hf__jute_reader *reader, size_t bytes_min)
{
    int32_t count = hf__jute_get_i32(reader);

    assert(bytes_min > 0);

    if (count == -1)
        return 0;
    if (count < 0 || (size_t)count > reader->left / bytes_min) {
        give_up(reader);
        return 0;
    }
    return (size_t)count;
}
