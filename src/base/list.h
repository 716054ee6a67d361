/* list.h: an intrusive, circular, doubly linked list. A node that is in no list points at
 * itself. */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct hf__list {
    struct hf__list *next;
    struct hf__list *prev;
};

#define HF__LIST_ENTRY(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

/* The body may remove `node` itself, and nothing else of this list. */
#define HF__LIST_FOR(node, list)                                                                   \
    for (struct hf__list *node = (list)->next, *hf__next = node->next; node != (list);             \
         node = hf__next, hf__next = node->next)

static inline void hf__list_init(struct hf__list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool hf__list_empty(const struct hf__list *list)
{
    return list->next == list;
}

static inline void hf__list_append(struct hf__list *list, struct hf__list *node)
{
    assert(node->next == node);
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

static inline void hf__list_prepend(struct hf__list *list, struct hf__list *node)
{
    hf__list_append(list->next, node); /* before the first is after the head */
}

/* Harmless on a node that is in no list. */
static inline void hf__list_remove(struct hf__list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    hf__list_init(node);
}

#endif
