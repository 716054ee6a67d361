/* memory.h: memory for libraries that allocate by themselves, counted, with a limit and an end.
 *
 *     hf__memory_init(&memory, env, 16u << 20);
 *     session = ... (hf__memory_new, hf__memory_resize, hf__memory_free)
 *     if (memory.is_exhausted) ...                   not the machine's memory ran out, but this one
 *     hf__memory_done(&memory); */
#ifndef HF_ENGINE_ETCD_MEMORY_H
#define HF_ENGINE_ETCD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/env.h"

#define HF__MEMORY_CLASSES 8 /* blocks of 64 bytes to 8 KiB: those are kept for the next */

struct hf__memory_block;

struct hf__memory {
    const struct hf__env *env;
    size_t bytes_max;
    size_t bytes;      /* in use, what each block takes beside included */
    bool is_exhausted; /* something was refused because of bytes_max; whoever looks takes it back */
    bool is_starved;   /* ... because the env had none; likewise */
    size_t kept_bytes;
    struct hf__memory_block *kept[HF__MEMORY_CLASSES];
};

void hf__memory_init(struct hf__memory *memory, const struct hf__env *env, size_t bytes_max);
/* Everything must have been freed. */
void hf__memory_done(struct hf__memory *memory);

/* Zeroed; NULL: the limit, or no memory. */
void *hf__memory_new(struct hf__memory *memory, size_t bytes);
/* As realloc, with `block` NULL too: on NULL the old block lives on. bytes > 0. */
void *hf__memory_resize(struct hf__memory *memory, void *block, size_t bytes);
/* Wipes it, for it may have been a password. Accepts NULL. */
void hf__memory_free(struct hf__memory *memory, void *block);

#endif
