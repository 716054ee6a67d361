/* list.c: do nodes come back in the order in which they were put in? */
#include "base/list.h"

#include "check.h"
#include "dice.h"

#define NODES 20

struct item {
    int number;
    struct hf__list node;
};

static void init_items(struct item items[NODES])
{
    for (int i = 0; i < NODES; i++) {
        items[i].number = i;
        hf__list_init(&items[i].node);
    }
}

TEST(list, append_keeps_the_order_and_prepend_turns_it)
{
    struct item items[NODES];
    struct hf__list list;
    int expected = 0;

    init_items(items);
    hf__list_init(&list);
    CHECK(hf__list_empty(&list));
    for (int i = NODES / 2; i < NODES; i++)
        hf__list_append(&list, &items[i].node);
    for (int i = NODES / 2 - 1; i >= 0; i--)
        hf__list_prepend(&list, &items[i].node);
    CHECK(!hf__list_empty(&list));

    HF__LIST_FOR(node, &list)
    {
        CHECK_EQUAL(HF__LIST_ENTRY(node, struct item, node)->number, expected);
        expected++;
    }
    CHECK_EQUAL(expected, NODES);
}

TEST(list, a_node_may_leave_while_the_list_is_walked)
{
    struct item items[NODES];
    struct hf__list list;
    int left = 0;

    init_items(items);
    hf__list_init(&list);
    for (int i = 0; i < NODES; i++)
        hf__list_append(&list, &items[i].node);
    HF__LIST_FOR(node, &list)
    {
        if (HF__LIST_ENTRY(node, struct item, node)->number % 3 != 0)
            hf__list_remove(node);
    }
    HF__LIST_FOR(node, &list)
    {
        CHECK_EQUAL(HF__LIST_ENTRY(node, struct item, node)->number, 3 * left);
        left++;
    }
    CHECK_EQUAL(left, (NODES + 2) / 3);
    HF__LIST_FOR(node, &list)
    hf__list_remove(node);
    CHECK(hf__list_empty(&list));
}

TEST(list, removing_twice_is_harmless_and_entering_twice_a_mistake)
{
    struct item items[NODES];
    struct hf__list list;

    init_items(items);
    hf__list_init(&list);
    hf__list_append(&list, &items[0].node);
    hf__list_append(&list, &items[1].node);
    hf__list_remove(&items[0].node);
    hf__list_remove(&items[0].node);
    CHECK(list.next == &items[1].node && list.prev == &items[1].node);
    CHECK_ABORTS(hf__list_append(&list, &items[1].node));
    hf__list_append(&list, &items[0].node);
    CHECK(list.prev == &items[0].node);
}

TEST(list, stays_whole_under_any_course)
{
    bool inside[NODES] = { false };
    struct item items[NODES];
    struct dice dice = { 3 };
    struct hf__list list;

    init_items(items);
    hf__list_init(&list);
    for (int step = 0; step < 20000; step++) {
        size_t i = dice_below(&dice, NODES);
        size_t count = 0;

        if (inside[i])
            hf__list_remove(&items[i].node);
        else if (dice_below(&dice, 2))
            hf__list_append(&list, &items[i].node);
        else
            hf__list_prepend(&list, &items[i].node);
        inside[i] = !inside[i];

        HF__LIST_FOR(node, &list)
        {
            CHECK(node->next->prev == node && node->prev->next == node);
            CHECK(inside[HF__LIST_ENTRY(node, struct item, node)->number]);
            count++;
        }
        for (size_t j = 0; j < NODES; j++)
            count -= inside[j];
        CHECK_EQUAL(count, 0);
    }
}
