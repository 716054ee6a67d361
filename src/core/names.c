/* names.c: what does this client know about one lock name?
 *
 * A chained hash table. A name is there while something uses it (claims, turns, holds), and for
 * a while afterwards, because the last fence seen must be remembered to notice a store that went
 * back in time: the 65 536 names used last are kept, then the one idle for longest is forgotten. */
#include <assert.h>
#include <string.h>

#include "base/name.h"
#include "core/core.h"

#define BUCKETS_FIRST 64

static int grow(struct hf__core *core)
{
    size_t count = core->bucket_count ? core->bucket_count * 4 : BUCKETS_FIRST;
    struct hf__name **buckets = hf__env_new(core->env, count * sizeof(struct hf__name *));

    if (!buckets)
        return HF_ENOMEM;

    for (size_t i = 0; i < core->bucket_count; i++) {
        while (core->buckets[i]) {
            struct hf__name *name = core->buckets[i];
            core->buckets[i] = name->chain;
            name->chain = buckets[name->hash & (count - 1)];
            buckets[name->hash & (count - 1)] = name;
        }
    }
    hf__env_free(core->env, core->buckets);
    core->buckets = buckets;
    core->bucket_count = count;
    return HF_OK;
}

static void forget(struct hf__core *core, struct hf__name *name)
{
    struct hf__name **link = &core->buckets[name->hash & (core->bucket_count - 1)];

    assert(hf__list_empty(&name->waiting) && hf__list_empty(&name->holds));
    while (*link != name)
        link = &(*link)->chain;
    *link = name->chain;
    hf__list_remove(&name->idle);
    core->name_count--;
    hf__env_free(core->env, name);
}

static int add(struct hf__core *core, const char *text, size_t bytes, struct hf__name **out_name)
{
    struct hf__name *name;
    size_t bucket;

    if (core->name_count >= core->bucket_count && grow(core) < 0 && core->bucket_count == 0)
        return HF_ENOMEM; /* a table that cannot grow is only slower */

    name = hf__env_new(core->env, sizeof(*name) + bytes + 1);
    if (!name)
        return HF_ENOMEM;

    name->hash = hf__name_hash(text, bytes, core->hash_seed);
    name->bytes = bytes;
    memcpy(name->text, text, bytes);
    hf__list_init(&name->idle);
    hf__list_init(&name->waiting);
    hf__list_init(&name->holds);
    hf__list_init(&name->turns);
    bucket = name->hash & (core->bucket_count - 1);
    name->chain = core->buckets[bucket];
    core->buckets[bucket] = name;
    core->name_count++;
    *out_name = name;
    return HF_OK;
}

int hf__names_get(struct hf__core *core, const char *text, size_t bytes, struct hf__name **out_name)
{
    uint64_t hash = hf__name_hash(text, bytes, core->hash_seed);
    struct hf__name *name = NULL;
    int status;

    assert(bytes >= 1 && bytes <= HF_NAME_BYTES_MAX);

    if (core->bucket_count > 0)
        name = core->buckets[hash & (core->bucket_count - 1)];
    while (name &&
           (name->hash != hash || name->bytes != bytes || memcmp(name->text, text, bytes) != 0))
        name = name->chain;

    if (!name) {
        status = add(core, text, bytes, &name);
        if (status < 0)
            return status;
    } else if (!hf__list_empty(&name->idle)) {
        hf__list_remove(&name->idle);
        core->idle_count--;
    }
    *out_name = name;
    return HF_OK;
}

void hf__names_settle(struct hf__core *core, struct hf__name *name)
{
    if (name->claim_count > 0 || !hf__list_empty(&name->idle) || !hf__list_empty(&name->waiting) ||
        !hf__list_empty(&name->holds) || !hf__list_empty(&name->turns))
        return;

    hf__list_append(&core->idle_names, &name->idle);
    core->idle_count++;
    if (core->idle_count <= HF__NAMES_KEPT)
        return;

    core->idle_count--;
    forget(core, HF__LIST_ENTRY(core->idle_names.next, struct hf__name, idle));
}

void hf__names_done(struct hf__core *core)
{
    for (size_t i = 0; i < core->bucket_count; i++) {
        while (core->buckets[i]) {
            struct hf__name *name = core->buckets[i];
            core->buckets[i] = name->chain;
            hf__env_free(core->env, name);
        }
    }
    hf__env_free(core->env, core->buckets);
    core->buckets = NULL;
    core->bucket_count = 0;
}
