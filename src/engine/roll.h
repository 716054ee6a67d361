/* roll.h: which claims does a connection know, what was it asked about them, and what must the core
 * hear?
 *
 * For engines that ask the server several questions for one request of the core. An engine's own
 * struct of a claim starts with struct hf__entry. */
#ifndef HF_ENGINE_ROLL_H
#define HF_ENGINE_ROLL_H

#include "base/list.h"
#include "engine/engine.h"

struct hf__entry {
    struct hf__list member;  /* in roll->members */
    struct hf__list telling; /* in roll->telling: it has something for the core */
    struct hf__entry *chain; /* of one bucket */
    uint64_t claim_id;
    bool forsaken; /* the core knows it no longer: it ends by itself */

    /* What the core asked; kind NONE: nothing. */
    struct hf__ticket ticket;
    uint64_t deadline_ns;
    bool sent; /* the server may have heard of it */

    /* For the core. */
    bool has_reply;
    struct hf__reply reply;
    bool has_holder;
    struct hf__holder holder; /* reply.holder points at a copy of it */
    bool changed;
    bool crowded;
    const char *gone; /* why */
};

struct hf__roll {
    const struct hf__env *env;
    struct hf__list members;
    struct hf__list telling;
    struct hf__entry **buckets;
    size_t bucket_count;
    size_t count;
    uint64_t first_deadline_ns; /* no entry has an earlier one */
    struct hf__holder holder;   /* that a reply points at */
};

void hf__roll_init(struct hf__roll *roll, const struct hf__env *env);
/* Frees the entries too. */
void hf__roll_done(struct hf__roll *roll);

/* Forsaken ones are not found. */
struct hf__entry *hf__roll_find(const struct hf__roll *roll, uint64_t claim_id);
/* A zeroed one of so many bytes, or NULL. */
struct hf__entry *hf__roll_add(struct hf__roll *roll, uint64_t claim_id, size_t bytes);
void hf__roll_remove(struct hf__roll *roll, struct hf__entry *entry);

/* It was asked this. */
void hf__roll_ask(struct hf__roll *roll, struct hf__entry *entry,
                  const struct hf__request *request);
/* The answer, if something was asked: false if not. The rest of entry->reply may be set after. */
bool hf__roll_answer(struct hf__roll *roll, struct hf__entry *entry, enum hf__reply_kind kind);
/* Nobody knows any more what becomes of it. */
void hf__roll_give_up(struct hf__roll *roll, struct hf__entry *entry, int status);
/* There is news: `changed`, `crowded` or `gone` has been set. */
void hf__roll_tell(struct hf__roll *roll, struct hf__entry *entry);
/* The next that the core must hear, and whose it is; NULL: nothing. Answers come before news. */
struct hf__entry *hf__roll_next(struct hf__roll *roll, struct hf__reply *out_reply);
/* One whose time is over, if there is such; the caller answers it. */
struct hf__entry *hf__roll_late(struct hf__roll *roll, uint64_t now_ns);

void hf__roll_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                    struct hf__reply *out_reply);

#endif
