/* roll.c: which claims does a connection know, and what must the core hear of them?
 *
 * An entry is found by the core's number. What there is to tell, an answer or news, is noted in the
 * entry, which then stands in roll->telling until advance() has come round to it. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/roll.h"

#define BUCKETS_FIRST 256

void hf__roll_init(struct hf__roll *roll, const struct hf__env *env)
{
    *roll = (struct hf__roll){ .env = env, .first_deadline_ns = HF__NEVER };
    hf__list_init(&roll->members);
    hf__list_init(&roll->telling);
}

void hf__roll_done(struct hf__roll *roll)
{
    HF__LIST_FOR(member, &roll->members)
    {
        hf__list_remove(member);
        hf__env_free(roll->env, HF__LIST_ENTRY(member, struct hf__entry, member));
    }
    hf__env_free(roll->env, roll->buckets);
    hf__roll_init(roll, roll->env);
}

/* --- the table --- */

static struct hf__entry **bucket_of(const struct hf__roll *roll, uint64_t claim_id)
{
    /* Ids count up in their upper half, and tell claims that live together apart in the lower. */
    uint64_t mixed = claim_id ^ (claim_id >> 32);

    return &roll->buckets[mixed & (roll->bucket_count - 1)];
}

struct hf__entry *hf__roll_find(const struct hf__roll *roll, uint64_t claim_id)
{
    struct hf__entry *entry = roll->bucket_count > 0 ? *bucket_of(roll, claim_id) : NULL;

    while (entry && (entry->claim_id != claim_id || entry->forsaken))
        entry = entry->chain;
    return entry;
}

static void chain(struct hf__roll *roll, struct hf__entry *entry)
{
    struct hf__entry **bucket = bucket_of(roll, entry->claim_id);

    entry->chain = *bucket;
    *bucket = entry;
}

static bool make_room(struct hf__roll *roll)
{
    size_t count = roll->bucket_count > 0 ? 2 * roll->bucket_count : BUCKETS_FIRST;
    struct hf__entry **buckets;

    if (roll->count < roll->bucket_count)
        return true;
    buckets = hf__env_new(roll->env, count * sizeof(*buckets));
    if (!buckets)
        return false;
    hf__env_free(roll->env, roll->buckets);
    roll->buckets = buckets;
    roll->bucket_count = count;
    HF__LIST_FOR(member, &roll->members)
    {
        chain(roll, HF__LIST_ENTRY(member, struct hf__entry, member));
    }
    return true;
}

struct hf__entry *hf__roll_add(struct hf__roll *roll, uint64_t claim_id, size_t bytes)
{
    struct hf__entry *entry = make_room(roll) ? hf__env_new(roll->env, bytes) : NULL;

    assert(bytes >= sizeof(*entry));
    if (!entry)
        return NULL;
    hf__list_init(&entry->member);
    hf__list_init(&entry->telling);
    entry->claim_id = claim_id;
    hf__list_append(&roll->members, &entry->member);
    chain(roll, entry);
    roll->count++;
    return entry;
}

void hf__roll_remove(struct hf__roll *roll, struct hf__entry *entry)
{
    struct hf__entry **link = bucket_of(roll, entry->claim_id);

    while (*link != entry)
        link = &(*link)->chain;
    *link = entry->chain;
    roll->count--;
    hf__list_remove(&entry->member);
    hf__list_remove(&entry->telling);
    hf__env_free(roll->env, entry);
}

/* --- questions and answers --- */

void hf__roll_ask(struct hf__roll *roll, struct hf__entry *entry, const struct hf__request *request)
{
    entry->ticket = request->ticket;
    entry->deadline_ns = request->deadline_ns;
    entry->sent = false;
    entry->has_reply = false;
    if (request->deadline_ns < roll->first_deadline_ns)
        roll->first_deadline_ns = request->deadline_ns;
}

void hf__roll_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                    struct hf__reply *out_reply)
{
    *out_reply = (struct hf__reply){ .kind = kind, .ticket = *ticket, .ahead = HF__AHEAD_UNKNOWN };
}

void hf__roll_tell(struct hf__roll *roll, struct hf__entry *entry)
{
    if (hf__list_empty(&entry->telling))
        hf__list_append(&roll->telling, &entry->telling);
}

bool hf__roll_answer(struct hf__roll *roll, struct hf__entry *entry, enum hf__reply_kind kind)
{
    if (entry->ticket.kind == HF__REQUEST_NONE)
        return false;
    hf__roll_reply(&entry->ticket, kind, &entry->reply);
    entry->ticket.kind = HF__REQUEST_NONE;
    entry->has_reply = true;
    hf__roll_tell(roll, entry);
    return true;
}

void hf__roll_give_up(struct hf__roll *roll, struct hf__entry *entry, int status)
{
    enum hf__reply_kind kind = entry->sent ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED;

    if (hf__roll_answer(roll, entry, kind))
        entry->reply.status = status;
}

static bool tell_one(struct hf__roll *roll, struct hf__entry *entry, struct hf__reply *out_reply)
{
    struct hf__ticket news = { .kind = HF__REQUEST_NONE, .claim_id = entry->claim_id };

    if (entry->has_reply) {
        *out_reply = entry->reply;
        entry->has_reply = false;
        if (out_reply->holder) {
            roll->holder = *out_reply->holder;
            out_reply->holder = &roll->holder;
        }
        return true;
    }
    if (!entry->gone && !entry->changed && !entry->crowded)
        return false;
    hf__roll_reply(&news, HF__REPLY_GONE, out_reply);
    out_reply->cause = entry->gone;
    if (entry->gone) {
        entry->gone = NULL;
    } else if (entry->changed) {
        out_reply->kind = HF__REPLY_CHANGED;
        entry->changed = false;
    } else {
        out_reply->kind = HF__REPLY_CROWDED;
        entry->crowded = false;
    }
    return true;
}

struct hf__entry *hf__roll_next(struct hf__roll *roll, struct hf__reply *out_reply)
{
    while (!hf__list_empty(&roll->telling)) {
        struct hf__entry *entry = HF__LIST_ENTRY(roll->telling.next, struct hf__entry, telling);

        if (!entry->forsaken && tell_one(roll, entry, out_reply))
            return entry;
        hf__list_remove(&entry->telling);
    }
    return NULL;
}

struct hf__entry *hf__roll_late(struct hf__roll *roll, uint64_t now_ns)
{
    uint64_t first_ns = HF__NEVER;

    if (now_ns < roll->first_deadline_ns)
        return NULL;
    HF__LIST_FOR(member, &roll->members)
    {
        struct hf__entry *entry = HF__LIST_ENTRY(member, struct hf__entry, member);

        if (entry->ticket.kind == HF__REQUEST_NONE)
            continue;
        if (now_ns >= entry->deadline_ns)
            return entry;
        if (entry->deadline_ns < first_ns)
            first_ns = entry->deadline_ns;
    }
    roll->first_deadline_ns = first_ns;
    return NULL;
}
