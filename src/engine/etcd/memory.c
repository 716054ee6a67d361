/* memory.c: how much may a library take on behalf of a server?
 *
 * nghttp2 and protobuf-c allocate as they decode. Each block has a head with its size, so that what
 * is in use can be counted, and refused beyond a limit. Small blocks are kept when they are freed:
 * a call takes half a dozen, of the same sizes again and again, and none of them costs the env's
 * allocator anything once the first calls are over. What is freed is wiped, so what is given is
 * always zero.
 *
 * What can go wrong: beyond bytes_max (is_exhausted says that it was this), and no memory. Both are
 * NULL, and nothing has changed.
 *
 * Pure: no clock, no I/O; memory by the env. */
#include "engine/etcd/memory.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define CLASS_BYTES_FIRST 64
#define CLASS_NONE        HF__MEMORY_CLASSES

/* A sanitizer sees the use of a block that was freed only if it really was. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEPT_BYTES_MAX 0
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KEPT_BYTES_MAX 0
#endif
#ifndef KEPT_BYTES_MAX
#define KEPT_BYTES_MAX (256u << 10)
#endif

struct hf__memory_block {
    _Alignas(max_align_t) size_t room; /* of what follows */
    struct hf__memory_block *next;
};

static struct hf__memory_block *block_of(void *memory)
{
    return (struct hf__memory_block *)memory - 1;
}

/* The least class whose blocks hold so many bytes, head included. */
static size_t class_of(size_t whole_bytes)
{
    size_t class_bytes = CLASS_BYTES_FIRST;
    size_t number = 0;

    while (number < HF__MEMORY_CLASSES && class_bytes < whole_bytes) {
        class_bytes *= 2;
        number++;
    }
    return number;
}

static size_t whole_bytes_of(size_t number, size_t bytes)
{
    return number == CLASS_NONE ? bytes + sizeof(struct hf__memory_block)
                                : (size_t)CLASS_BYTES_FIRST << number;
}

void hf__memory_init(struct hf__memory *memory, const struct hf__env *env, size_t bytes_max)
{
    assert(memory && env);
    assert(bytes_max > 0);

    *memory = (struct hf__memory){ .env = env, .bytes_max = bytes_max };
}

void hf__memory_done(struct hf__memory *memory)
{
    assert(memory && memory->bytes == 0);

    for (size_t i = 0; i < HF__MEMORY_CLASSES; i++) {
        while (memory->kept[i]) {
            struct hf__memory_block *block = memory->kept[i];

            memory->kept[i] = block->next;
            hf__env_free(memory->env, block);
        }
    }
    memory->kept_bytes = 0;
}

void *hf__memory_new(struct hf__memory *memory, size_t bytes)
{
    struct hf__memory_block *block;
    size_t number;
    size_t whole_bytes;

    assert(memory && memory->bytes <= memory->bytes_max);

    if (bytes > memory->bytes_max) {
        memory->is_exhausted = true;
        return NULL;
    }
    number = class_of(bytes + sizeof(*block));
    whole_bytes = whole_bytes_of(number, bytes);
    if (whole_bytes > memory->bytes_max - memory->bytes) {
        memory->is_exhausted = true;
        return NULL;
    }
    block = number == CLASS_NONE ? NULL : memory->kept[number];
    if (block) {
        memory->kept[number] = block->next;
        memory->kept_bytes -= whole_bytes;
    } else {
        block = hf__env_new(memory->env, whole_bytes);
    }
    if (!block) {
        memory->is_starved = true;
        return NULL;
    }
    block->room = whole_bytes - sizeof(*block);
    block->next = NULL;
    memory->bytes += whole_bytes;
    return block + 1;
}

void *hf__memory_resize(struct hf__memory *memory, void *block, size_t bytes)
{
    size_t room = block ? block_of(block)->room : 0;
    void *moved;

    assert(bytes > 0);

    if (block && bytes <= room)
        return block;
    moved = hf__memory_new(memory, bytes);
    if (!moved)
        return NULL;
    if (block)
        memcpy(moved, block, room);
    hf__memory_free(memory, block);
    return moved;
}

void hf__memory_free(struct hf__memory *memory, void *block)
{
    struct hf__memory_block *freed;
    size_t whole_bytes;
    size_t number;

    assert(memory);

    if (!block)
        return;
    freed = block_of(block);
    whole_bytes = freed->room + sizeof(*freed);
    number = class_of(whole_bytes);
    assert(whole_bytes <= memory->bytes);

    explicit_bzero(block, freed->room);
    memory->bytes -= whole_bytes;
    if (number == CLASS_NONE || whole_bytes + memory->kept_bytes > KEPT_BYTES_MAX) {
        hf__env_free(memory->env, freed);
        return;
    }
    freed->next = memory->kept[number];
    memory->kept[number] = freed;
    memory->kept_bytes += whole_bytes;
}
