/* heap.c: which deadline comes first?
 *
 * A binary heap of pointers to nodes that lie inside other objects. A node knows its place, so that
 * a timer is moved or removed in O(log n) without a search. Nodes of equal time come in any order.
 *
 * Only hf__heap_reserve can fail; setting a timer never does, because whoever made the object has
 * reserved its place. */
#include "base/heap.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "holdfast/holdfast.h"

#define ROOM_MIN 16

static void put(struct hf__heap *heap, size_t place, struct hf__heap_node *node)
{
    heap->nodes[place] = node;
    node->place = place;
}

static void rise(struct hf__heap *heap, struct hf__heap_node *node)
{
    size_t place = node->place;

    while (place > 0) {
        size_t parent = (place - 1) / 2;

        if (heap->nodes[parent]->at_ns <= node->at_ns)
            break;
        put(heap, place, heap->nodes[parent]);
        place = parent;
    }
    put(heap, place, node);
}

static void sink(struct hf__heap *heap, struct hf__heap_node *node)
{
    size_t place = node->place;

    while (place < heap->count / 2) {
        size_t child = place * 2 + 1;

        if (child + 1 < heap->count && heap->nodes[child + 1]->at_ns < heap->nodes[child]->at_ns)
            child++;
        if (node->at_ns <= heap->nodes[child]->at_ns)
            break;
        put(heap, place, heap->nodes[child]);
        place = child;
    }
    put(heap, place, node);
}

void hf__heap_init(struct hf__heap *heap, const struct hf__env *env)
{
    assert(heap && env);

    *heap = (struct hf__heap){ .env = env };
}

void hf__heap_done(struct hf__heap *heap)
{
    assert(heap);

    for (size_t i = 0; i < heap->count; i++)
        heap->nodes[i]->place = HF__HEAP_OUTSIDE;
    if (heap->nodes)
        hf__env_free(heap->env, heap->nodes);
    *heap = (struct hf__heap){ .env = heap->env };
}

void hf__heap_node_init(struct hf__heap_node *node)
{
    assert(node);

    node->at_ns = HF__NEVER;
    node->place = HF__HEAP_OUTSIDE;
}

int hf__heap_reserve(struct hf__heap *heap, size_t count)
{
    size_t room = heap->room < ROOM_MIN ? ROOM_MIN : heap->room;
    struct hf__heap_node **nodes;

    if (count <= heap->room)
        return HF_OK;
    if (count > SIZE_MAX / sizeof(struct hf__heap_node *) / 2)
        return HF_ENOMEM;

    while (room < count)
        room *= 2;
    nodes = hf__env_new(heap->env, room * sizeof(struct hf__heap_node *));
    if (!nodes)
        return HF_ENOMEM;

    if (heap->nodes) {
        memcpy(nodes, heap->nodes, heap->count * sizeof(struct hf__heap_node *));
        hf__env_free(heap->env, heap->nodes);
    }
    heap->nodes = nodes;
    heap->room = room;
    return HF_OK;
}

void hf__heap_set(struct hf__heap *heap, struct hf__heap_node *node, uint64_t at_ns)
{
    assert(node->place == HF__HEAP_OUTSIDE || heap->nodes[node->place] == node);

    if (at_ns == HF__NEVER) {
        hf__heap_remove(heap, node);
        return;
    }
    if (node->place == HF__HEAP_OUTSIDE) {
        assert(heap->count < heap->room);
        put(heap, heap->count, node);
        heap->count++;
    }

    node->at_ns = at_ns;
    rise(heap, node);
    sink(heap, node);
}

void hf__heap_remove(struct hf__heap *heap, struct hf__heap_node *node)
{
    size_t place = node->place;
    struct hf__heap_node *last;

    if (place == HF__HEAP_OUTSIDE)
        return;

    assert(place < heap->count);
    assert(heap->nodes[place] == node);

    heap->count--;
    last = heap->nodes[heap->count];
    hf__heap_node_init(node);
    if (last == node)
        return;

    put(heap, place, last);
    rise(heap, last);
    sink(heap, last);
}

struct hf__heap_node *hf__heap_first(const struct hf__heap *heap)
{
    assert(heap);

    return heap->count > 0 ? heap->nodes[0] : NULL;
}
