/* heap.c: is the first always the earliest, whatever was set, moved and removed before? */
#include "base/heap.h"

#include <stdlib.h>

#include "base/clock.h"
#include "check.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"

#define NODES 300
#define STEPS 30000

/* Every parent is not later than its children, and every node knows its place. */
static void check_shape(const struct hf__heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        CHECK_EQUAL(heap->nodes[i]->place, i);
        CHECK(i == 0 || heap->nodes[(i - 1) / 2]->at_ns <= heap->nodes[i]->at_ns);
    }
}

static void init_nodes(struct hf__heap_node nodes[NODES])
{
    for (size_t i = 0; i < NODES; i++)
        hf__heap_node_init(&nodes[i]);
}

TEST(heap, an_empty_heap_has_no_first)
{
    struct failing_env world;
    struct hf__heap heap;

    failing_env_init(&world, 1);
    hf__heap_init(&heap, &world.env);
    CHECK(!hf__heap_first(&heap));
    hf__heap_done(&heap);
    CHECK_EQUAL(world.allocations, 0);
}

TEST(heap, nodes_come_out_in_order_of_time)
{
    struct hf__heap_node nodes[NODES];
    struct failing_env world;
    struct dice dice = { 1 };
    struct hf__heap heap;
    uint64_t last_ns = 0;

    failing_env_init(&world, 0);
    init_nodes(nodes);
    hf__heap_init(&heap, &world.env);
    CHECK_EQUAL(hf__heap_reserve(&heap, NODES), HF_OK);
    for (size_t i = 0; i < NODES; i++)
        hf__heap_set(&heap, &nodes[i], dice_below(&dice, NODES)); /* so that some are equal */
    for (size_t i = 0; i < NODES; i++) {
        struct hf__heap_node *first = hf__heap_first(&heap);

        CHECK(first && first->at_ns >= last_ns);
        last_ns = first->at_ns;
        hf__heap_remove(&heap, first);
        CHECK(first->place == HF__HEAP_OUTSIDE);
    }
    CHECK(!hf__heap_first(&heap));
    hf__heap_done(&heap);
    CHECK_EQUAL(world.live, 0);
}

static uint64_t find_earliest(const uint64_t at_ns[NODES])
{
    uint64_t earliest_ns = HF__NEVER;

    for (size_t i = 0; i < NODES; i++)
        earliest_ns = at_ns[i] < earliest_ns ? at_ns[i] : earliest_ns;
    return earliest_ns;
}

TEST(heap, agrees_with_a_plain_table_over_a_long_course)
{
    struct hf__heap_node nodes[NODES];
    uint64_t at_ns[NODES];
    struct failing_env world;
    struct dice dice = { 2 };
    struct hf__heap heap;

    failing_env_init(&world, 0);
    init_nodes(nodes);
    hf__heap_init(&heap, &world.env);
    CHECK_EQUAL(hf__heap_reserve(&heap, NODES), HF_OK);
    for (size_t i = 0; i < NODES; i++)
        at_ns[i] = HF__NEVER;

    for (int step = 0; step < STEPS; step++) {
        size_t i = dice_below(&dice, NODES);
        uint64_t choice = dice_below(&dice, 4);

        at_ns[i] = choice < 2 ? dice_below(&dice, 1000) : HF__NEVER;
        if (choice == 3)
            hf__heap_remove(&heap, &nodes[i]);
        else
            hf__heap_set(&heap, &nodes[i], at_ns[i]);

        if (hf__heap_first(&heap))
            CHECK(hf__heap_first(&heap)->at_ns == find_earliest(at_ns));
        else
            CHECK(find_earliest(at_ns) == HF__NEVER);
        if (step % 64 == 0)
            check_shape(&heap);
    }
    for (size_t i = 0; i < NODES; i++)
        CHECK((nodes[i].place == HF__HEAP_OUTSIDE) == (at_ns[i] == HF__NEVER));
    hf__heap_done(&heap);
    for (size_t i = 0; i < NODES; i++)
        CHECK(nodes[i].place == HF__HEAP_OUTSIDE);
}

TEST(heap, removing_what_is_outside_is_harmless)
{
    struct hf__heap_node node;
    struct failing_env world;
    struct hf__heap heap;

    failing_env_init(&world, 0);
    hf__heap_init(&heap, &world.env);
    hf__heap_node_init(&node);
    hf__heap_remove(&heap, &node);
    hf__heap_set(&heap, &node, HF__NEVER);
    CHECK_EQUAL(heap.count, 0);
    CHECK_ABORTS(hf__heap_set(&heap, &node, 1)); /* no room was reserved */
    hf__heap_done(&heap);
}

static int grow(const struct hf__env *env)
{
    struct hf__heap_node nodes[NODES];
    int status = HF_OK;
    struct hf__heap heap;

    init_nodes(nodes);
    hf__heap_init(&heap, env);
    for (size_t i = 0; i < NODES && status == HF_OK; i++) {
        status = hf__heap_reserve(&heap, i + 1);
        if (status == HF_OK)
            hf__heap_set(&heap, &nodes[i], NODES - i);
    }
    check_shape(&heap); /* what was in there before the refusal must still be */
    hf__heap_done(&heap);
    return status;
}

TEST(heap, survives_every_refused_allocation)
{
    size_t refused = 1;
    size_t nth;

    for (nth = 1; refused > 0; nth++) {
        struct failing_env world;
        int status;

        failing_env_init(&world, nth);
        status = grow(&world.env);
        refused = world.refused;
        CHECK_EQUAL(status, refused > 0 ? HF_ENOMEM : HF_OK);
        CHECK_EQUAL(world.live, 0);
    }
    CHECK(nth > 4); /* it did grow in steps */
}

TEST(heap, an_impossible_size_is_no_memory)
{
    struct failing_env world;
    struct hf__heap heap;

    failing_env_init(&world, 0);
    hf__heap_init(&heap, &world.env);
    CHECK_EQUAL(hf__heap_reserve(&heap, SIZE_MAX), HF_ENOMEM);
    CHECK_EQUAL(hf__heap_reserve(&heap, SIZE_MAX / sizeof(void *)), HF_ENOMEM);
    CHECK_EQUAL(world.allocations, 0);
    CHECK_EQUAL(hf__heap_reserve(&heap, 0), HF_OK);
    CHECK_EQUAL(world.allocations, 0);
}
