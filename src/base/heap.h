/* heap.h: which deadline comes first? A binary heap of embedded nodes, which know their place. */
#ifndef HF_BASE_HEAP_H
#define HF_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"

#define HF__HEAP_OUTSIDE SIZE_MAX

struct hf__heap_node {
    uint64_t at_ns;
    size_t place; /* HF__HEAP_OUTSIDE: in no heap */
};

struct hf__heap {
    const struct hf__env *env;
    struct hf__heap_node **nodes;
    size_t count;
    size_t room;
};

void hf__heap_init(struct hf__heap *heap, const struct hf__env *env);
void hf__heap_done(struct hf__heap *heap);
void hf__heap_node_init(struct hf__heap_node *node);
/* Makes sure that `count` nodes fit, so that setting a timer later cannot fail: HF_OK or
 * HF_ENOMEM. */
int hf__heap_reserve(struct hf__heap *heap, size_t count);
/* Adds the node, or moves it. Room must have been reserved. HF__NEVER takes it out. */
void hf__heap_set(struct hf__heap *heap, struct hf__heap_node *node, uint64_t at_ns);
void hf__heap_remove(struct hf__heap *heap, struct hf__heap_node *node); /* harmless when outside */
struct hf__heap_node *hf__heap_first(const struct hf__heap *heap);       /* NULL: empty */

#endif
