/* buffer.h: bytes that wait: to be sent, or to be understood.
 *
 * In at the end, out at the front:
 *
 *     hf__buffer_append(&output, bytes, count);                to be sent later
 *     sent = hf__stream_write(stream, hf__buffer_front(&output), hf__buffer_count(&output));
 *     hf__buffer_consume(&output, sent);
 *
 *     hf__buffer_reserve(&input, 4096, &space);                to be read into
 *     got = hf__stream_read(stream, space, 4096);
 *     hf__buffer_commit(&input, got); */
#ifndef HF_BASE_BUFFER_H
#define HF_BASE_BUFFER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "holdfast/holdfast.h"

#define HF__BUFFER_KEPT_BYTES 65536 /* what grew beyond this is given back once it is empty */

struct hf__buffer {
    const struct hf__env *env;
    size_t bytes_max;
    size_t bytes_expected; /* 0, or what is going to wait, for all that is known */
    uint8_t *memory;       /* NULL until the first byte */
    size_t memory_bytes;
    size_t front; /* the bytes are memory[front .. back) */
    size_t back;
};

/* Allocates nothing yet. bytes_max: of what waits at one time. */
void hf__buffer_init(struct hf__buffer *buffer, const struct hf__env *env, size_t bytes_max);
/* Wipes what was in it, which may have been a password. May be used again afterwards. */
void hf__buffer_done(struct hf__buffer *buffer);

/* All or nothing. HF_ELIMIT: more than bytes_max would wait; HF_ENOMEM. `bytes` must not lie in
 * the buffer. */
int hf__buffer_append(struct hf__buffer *buffer, const void *bytes, size_t count);

/* What waits; the place is good until the next call that changes the buffer. Never NULL. */
static inline const void *hf__buffer_front(const struct hf__buffer *buffer)
{
    assert(buffer);

    return buffer->memory ? buffer->memory + buffer->front : (const uint8_t *)"";
}

static inline size_t hf__buffer_count(const struct hf__buffer *buffer)
{
    assert(buffer && buffer->env);
    assert(buffer->front <= buffer->back && buffer->back <= buffer->memory_bytes);

    return buffer->back - buffer->front;
}

/* What reserve does where the memory must be moved or grow. */
int hf__buffer_make_room(struct hf__buffer *buffer, size_t count, void **out_space);

/* Room for so many bytes at *out_space, until the next call on the buffer; commit says how many of
 * them have been written. count > 0. HF_ELIMIT, HF_ENOMEM. */
static inline int hf__buffer_reserve(struct hf__buffer *buffer, size_t count, void **out_space)
{
    assert(count > 0);

    if (count > buffer->memory_bytes - buffer->back ||
        count > buffer->bytes_max - hf__buffer_count(buffer))
        return hf__buffer_make_room(buffer, count, out_space);
    *out_space = buffer->memory + buffer->back;
    return HF_OK;
}

static inline void hf__buffer_commit(struct hf__buffer *buffer, size_t count)
{
    assert(buffer);
    assert(count <= buffer->memory_bytes - buffer->back);

    buffer->back += count;
}

/* How many more may wait before HF_ELIMIT. */
size_t hf__buffer_room(const struct hf__buffer *buffer);
void hf__buffer_consume(struct hf__buffer *buffer, size_t count);

#endif
