/* operation.c: who holds, who waits, and how is a lock taken away?
 *
 * LIST and BREAK are questions that belong to no claim. The answers to a LIST are copied as they
 * come, because they live only until the next one; the caller visits the copies when no lock is
 * held. Of a quorum every store is asked, also those that come up a little later: a holder is who
 * may hold on a majority of them, and a turn is broken when no majority can have it any more.
 *
 * What can go wrong: too few stores answer: the operation fails, though some may have done it. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/name.h"
#include "core/core.h"

#define OPERATION_BIT (1ull << 63) /* no turn's id has it */
#define COME_UP_NS    (1 * HF__NS_PER_S)

/* A store whose connection is being made is waited for, but not for long. */
static int ask(struct hf__core *core, struct hf__operation *operation, uint64_t now_ns)
{
    int failure = HF_OK;

    operation->request.ticket.sent_ns = now_ns;
    operation->request.deadline_ns = now_ns + core->connect_ns;
    for (size_t i = 0; i < core->driver.stores; i++) {
        int status;

        if (!(operation->unasked & (1u << i)))
            continue;
        status = hf__driver_submit_to(&core->driver, i, &operation->request);
        if (status == HF_PENDING && now_ns < operation->ask_until_ns)
            continue;
        operation->unasked &= ~(1u << i);
        if (status == HF_OK)
            operation->open++;
        else
            failure = status == HF_PENDING ? HF_EUNREACHABLE : status;
    }
    return operation->open > 0 || operation->unasked > 0 ? HF_OK : failure;
}

static int start(struct hf__core *core, const struct hf__request *request, uint64_t now_ns,
                 struct hf__operation **out_operation)
{
    struct hf__operation *operation = hf__env_new(core->env, sizeof(*operation));
    int status;

    if (!operation)
        return hf__error_set(core->driver.error, HF_ENOMEM, "out of memory");
    hf__list_init(&operation->place);
    hf__list_init(&operation->entries);
    operation->id = OPERATION_BIT | core->next_number++;
    operation->request = *request;
    operation->request.ticket.claim_id = operation->id;
    operation->unasked = (uint32_t)((1ull << core->driver.stores) - 1);
    operation->ask_until_ns =
        now_ns + (core->connect_ns < COME_UP_NS ? core->connect_ns : COME_UP_NS);
    operation->answer.status = HF_PENDING;
    hf__list_append(&core->operations, &operation->place);
    status = ask(core, operation, now_ns);
    if (status == HF_OK)
        *out_operation = operation;
    else
        hf__operation_free(core, operation);
    return status;
}

int hf__operation_list(struct hf__core *core, const char *glob, uint64_t now_ns,
                       struct hf__operation **out_operation)
{
    struct hf__request request = { .ticket = { .kind = HF__REQUEST_LIST }, .glob = glob };

    return start(core, &request, now_ns, out_operation);
}

int hf__operation_break(struct hf__core *core, const char *name, uint64_t fence, uint64_t now_ns,
                        struct hf__operation **out_operation)
{
    struct hf__request request = {
        .ticket = { .kind = HF__REQUEST_BREAK },
        .name = name,
        /* Whatever was handed on within the process belongs to the same turn. */
        .fence = core->recipe->hands_on ? fence & ~255ull : fence,
    };
    int status = hf__name_check(name, &request.name_bytes);

    if (status < 0)
        return hf__error_set(core->driver.error, status, "a lock name has 1 to %d bytes",
                             HF_NAME_BYTES_MAX);
    return start(core, &request, now_ns, out_operation);
}

static char *put(char *to, const char *text, const char **out_text)
{
    size_t bytes = strlen(text) + 1;

    memcpy(to, text, bytes);
    *out_text = to;
    return to + bytes;
}

static int copy_entry(struct hf__core *core, struct hf__operation *operation,
                      const struct hf_holding *holding)
{
    size_t bytes = strlen(holding->name) + strlen(holding->host) + strlen(holding->purpose) + 3;
    struct hf__entry *entry = hf__env_new(core->env, sizeof(*entry) + bytes);
    char *to;

    if (!entry)
        return HF_ENOMEM;
    hf__list_init(&entry->place);
    entry->votes = 1;
    entry->holding = *holding;
    entry->holding.struct_size = sizeof(entry->holding);
    to = put(entry->texts, holding->name, &entry->holding.name);
    to = put(to, holding->host, &entry->holding.host);
    put(to, holding->purpose, &entry->holding.purpose);
    hf__list_append(&operation->entries, &entry->place);
    return HF_OK;
}

static struct hf__operation *find(struct hf__core *core, uint64_t id)
{
    HF__LIST_FOR(node, &core->operations)
    {
        struct hf__operation *operation = HF__LIST_ENTRY(node, struct hf__operation, place);

        if (operation->id == id)
            return operation;
    }
    return NULL;
}

static int fail(struct hf__operation *operation, int status, const char *text)
{
    hf__error_set(operation->error, status, "%s", text);
    return status;
}

/* --- what a majority says --- */

static int compare(const struct hf__entry *one, const struct hf__entry *other)
{
    int order = strcmp(one->holding.name, other->holding.name);

    if (order != 0)
        return order;
    if (one->holding.fence != other->holding.fence)
        return one->holding.fence < other->holding.fence ? -1 : 1;
    return one->holding.pid < other->holding.pid ? -1 : one->holding.pid > other->holding.pid;
}

/* Merges `added`, in order, into `list`, which is in order too. */
static void merge(struct hf__list *list, struct hf__list *added)
{
    struct hf__list *at = list->next;

    HF__LIST_FOR(place, added)
    {
        struct hf__entry *entry = HF__LIST_ENTRY(place, struct hf__entry, place);

        while (at != list && compare(HF__LIST_ENTRY(at, struct hf__entry, place), entry) <= 0)
            at = at->next;
        hf__list_remove(place);
        hf__list_append(at, place); /* before it */
    }
}

/* Runs of one, two, four ... entries are merged until one is left. */
static void sort(struct hf__list *list)
{
    struct hf__list runs[64];
    size_t count = 0;

    HF__LIST_FOR(place, list)
    {
        size_t level = 0;
        struct hf__list run;

        hf__list_remove(place);
        hf__list_init(&run);
        hf__list_append(&run, place);
        for (; level < count && !hf__list_empty(&runs[level]); level++)
            merge(&run, &runs[level]);
        if (level == count)
            hf__list_init(&runs[count++]);
        merge(&runs[level], &run);
    }
    for (size_t level = 0; level < count; level++)
        merge(list, &runs[level]);
}

static void keep_what_a_majority_told(struct hf__core *core, struct hf__operation *operation)
{
    uint32_t stores = (uint32_t)core->driver.stores;
    uint32_t silent = stores - operation->done;
    struct hf__entry *before = NULL;

    sort(&operation->entries);
    HF__LIST_FOR(place, &operation->entries)
    {
        struct hf__entry *entry = HF__LIST_ENTRY(place, struct hf__entry, place);

        if (before && compare(before, entry) == 0) {
            before->votes++;
            hf__list_remove(place);
            hf__env_free(core->env, entry);
        } else {
            before = entry;
        }
    }
    HF__LIST_FOR(again, &operation->entries)
    {
        struct hf__entry *entry = HF__LIST_ENTRY(again, struct hf__entry, place);

        if (entry->votes + silent >= hf__quorum_majority(stores))
            continue;
        hf__list_remove(again);
        hf__env_free(core->env, entry);
    }
}

/* What a majority has with smaller numbers is not the turn's that was granted this one: it has its
 * own at least where it was granted. */
static bool held_by_another(const struct hf__operation *operation, uint32_t majority)
{
    for (uint32_t i = 0; i < operation->unsure; i++) {
        uint32_t same = 0;

        for (uint32_t k = 0; k < operation->unsure; k++)
            same += operation->turns[k] == operation->turns[i];
        if (same >= majority)
            return true;
    }
    return false;
}

/* A fence that was granted is known to one of every majority. Whoever says neither done nor gone
 * may still have the turn, or may have had it. */
static int conclude_break(struct hf__core *core, struct hf__operation *operation)
{
    uint32_t stores = (uint32_t)core->driver.stores;
    uint32_t majority = hf__quorum_majority(stores);
    uint32_t others = stores - operation->done - operation->gone;

    if (!operation->known)
        return fail(operation, HF_ELOST, "no turn has that fence");
    if (held_by_another(operation, majority))
        return fail(operation, HF_ELOST, "another turn holds it");
    if (operation->done + operation->gone < majority)
        return fail(operation, HF_EUNKNOWN, "servers that did not end it may be a majority");
    if (operation->done + others < majority)
        return fail(operation, HF_ELOST, "that turn is over already");
    return HF_OK;
}

/* All have answered, or will not. */
static void conclude(struct hf__core *core, struct hf__operation *operation)
{
    uint32_t stores = (uint32_t)core->driver.stores;
    bool breaks = operation->request.ticket.kind == HF__REQUEST_BREAK;
    int status = HF_OK;

    if (operation->done + operation->gone + operation->unsure < hf__quorum_majority(stores)) {
        status = operation->failure < 0 ? operation->failure : HF_EUNREACHABLE;
        if (breaks && operation->done > 0)
            status = HF_EUNKNOWN;
        if (!*operation->error)
            fail(operation, status, "too few servers answered");
    } else if (breaks) {
        status = conclude_break(core, operation);
    } else if (stores > 1) {
        keep_what_a_majority_told(core, operation);
    }
    hf__events_answer(core, &operation->answer, status);
}

void hf__operation_step(struct hf__core *core, uint64_t now_ns)
{
    HF__LIST_FOR(node, &core->operations)
    {
        struct hf__operation *operation = HF__LIST_ENTRY(node, struct hf__operation, place);
        int status;

        if (operation->unasked == 0 || operation->answer.status != HF_PENDING)
            continue;
        status = ask(core, operation, now_ns);
        if (status < 0 && !operation->failure)
            operation->failure = fail(operation, status, hf__driver_error(&core->driver));
        if (operation->open == 0 && operation->unasked == 0)
            conclude(core, operation);
    }
}

uint64_t hf__operation_deadline(const struct hf__core *core)
{
    uint64_t deadline_ns = HF__NEVER;

    HF__LIST_FOR(node, &core->operations)
    {
        const struct hf__operation *operation = HF__LIST_ENTRY(node, struct hf__operation, place);

        if (operation->unasked > 0 && operation->answer.status == HF_PENDING &&
            operation->ask_until_ns < deadline_ns)
            deadline_ns = operation->ask_until_ns;
    }
    return deadline_ns;
}

void hf__operation_hear(struct hf__core *core, const struct hf__reply *reply)
{
    struct hf__operation *operation = find(core, reply->ticket.claim_id);
    bool breaks = reply->ticket.kind == HF__REQUEST_BREAK;

    if (!operation || operation->answer.status != HF_PENDING)
        return;

    switch (reply->kind) {
    case HF__REPLY_ENTRY:
        if (copy_entry(core, operation, reply->entry) < 0)
            hf__events_answer(core, &operation->answer,
                              fail(operation, HF_ENOMEM, "out of memory"));
        return;
    case HF__REPLY_DONE:
        operation->done++;
        operation->known = true;
        break;
    case HF__REPLY_GONE:
        operation->gone++;
        operation->known = operation->known || !reply->low;
        break;
    case HF__REPLY_REFUSED:
        operation->turns[operation->unsure++] = reply->fence;
        operation->known = operation->known || !reply->low;
        break;
    case HF__REPLY_FAILED:
    case HF__REPLY_UNKNOWN: /* a listing changes nothing, but a break may have happened */
        operation->failure = fail(
            operation, breaks && reply->kind == HF__REPLY_UNKNOWN ? HF_EUNKNOWN : reply->status,
            hf__driver_error(&core->driver));
        break;
    case HF__REPLY_GRANTED:
    case HF__REPLY_QUEUED:
    case HF__REPLY_CHANGED:
    case HF__REPLY_CROWDED:
        assert(!"an engine answered LIST or BREAK with a claim's answer");
    }
    if (--operation->open == 0 && operation->unasked == 0)
        conclude(core, operation);
}

void hf__operation_free(struct hf__core *core, struct hf__operation *operation)
{
    if (!operation)
        return;
    HF__LIST_FOR(node, &operation->entries)
    {
        hf__env_free(core->env, HF__LIST_ENTRY(node, struct hf__entry, place));
    }
    hf__list_remove(&operation->place);
    hf__env_free(core->env, operation);
}
