/* buffer.c: where do bytes wait, to be sent or to be understood?
 *
 * In one piece of memory, between a front that moves up as they are consumed and a back that moves
 * up as they come. An empty buffer starts again at the beginning; one that has room only at its
 * front is moved down when that is at least half of it, so that a byte is moved a bounded number of
 * times; otherwise the memory doubles. What is known to become long gets its whole room in one step
 * once HF__BUFFER_KEPT_BYTES of it have come, and not before: what is outgrown is memory, too.
 *
 * What can go wrong: more than bytes_max would wait (HF_ELIMIT, for a server must not make us grow
 * without end), and no memory (HF_ENOMEM). In both cases nothing has changed. Memory is wiped when
 * it is given back: credentials pass through here.
 *
 * Pure: no clock, no I/O; memory by the env. */
#include "base/buffer.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "holdfast/holdfast.h"

#define FIRST_BYTES 1024

static void give_back(struct hf__buffer *buffer)
{
    if (buffer->memory)
        explicit_bzero(buffer->memory, buffer->memory_bytes);
    hf__env_free(buffer->env, buffer->memory);
    buffer->memory = NULL;
    buffer->memory_bytes = 0;
}

void hf__buffer_init(struct hf__buffer *buffer, const struct hf__env *env, size_t bytes_max)
{
    assert(buffer && env);
    assert(bytes_max > 0 && bytes_max <= SIZE_MAX / 4);

    *buffer = (struct hf__buffer){ .env = env, .bytes_max = bytes_max };
}

void hf__buffer_done(struct hf__buffer *buffer)
{
    assert(buffer && buffer->env);

    give_back(buffer);
    buffer->front = 0;
    buffer->back = 0;
}

static int grow(struct hf__buffer *buffer, size_t bytes_needed)
{
    size_t count = buffer->back - buffer->front;
    size_t bytes = buffer->memory_bytes ? buffer->memory_bytes * 2 : FIRST_BYTES;
    uint8_t *memory;

    while (bytes < bytes_needed)
        bytes *= 2;
    if (bytes > HF__BUFFER_KEPT_BYTES && bytes < buffer->bytes_expected)
        bytes = buffer->bytes_expected;
    memory = hf__env_new(buffer->env, bytes);
    if (!memory)
        return HF_ENOMEM;
    if (count > 0)
        memcpy(memory, buffer->memory + buffer->front, count);
    give_back(buffer);
    buffer->memory = memory;
    buffer->memory_bytes = bytes;
    buffer->front = 0;
    buffer->back = count;
    return HF_OK;
}

int hf__buffer_make_room(struct hf__buffer *buffer, size_t count, void **out_space)
{
    size_t waiting = hf__buffer_count(buffer);

    assert(out_space);
    assert(count > 0);

    if (count > buffer->bytes_max - waiting)
        return HF_ELIMIT;
    if (count > buffer->memory_bytes - buffer->back) {
        bool fits = waiting + count <= buffer->memory_bytes;

        if (fits && buffer->front >= buffer->memory_bytes / 2) {
            memmove(buffer->memory, buffer->memory + buffer->front, waiting);
            buffer->front = 0;
            buffer->back = waiting;
        } else if (grow(buffer, waiting + count) < 0) {
            return HF_ENOMEM;
        }
    }
    *out_space = buffer->memory + buffer->back;
    return HF_OK;
}

int hf__buffer_append(struct hf__buffer *buffer, const void *bytes, size_t count)
{
    void *space = NULL;
    int status;

    assert(buffer);
    assert(bytes || count == 0);

    if (count == 0)
        return HF_OK;
    status = hf__buffer_reserve(buffer, count, &space);
    if (status < 0)
        return status;
    memcpy(space, bytes, count);
    hf__buffer_commit(buffer, count);
    return HF_OK;
}

size_t hf__buffer_room(const struct hf__buffer *buffer)
{
    return buffer->bytes_max - hf__buffer_count(buffer);
}

void hf__buffer_consume(struct hf__buffer *buffer, size_t count)
{
    assert(count <= hf__buffer_count(buffer));

    buffer->front += count;
    if (buffer->front < buffer->back)
        return;
    buffer->front = 0;
    buffer->back = 0;
    buffer->bytes_expected = 0;
    if (buffer->memory_bytes > HF__BUFFER_KEPT_BYTES)
        give_back(buffer);
}
