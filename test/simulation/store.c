/* store.c: who holds and who waits, as the store sees it?
 *
 * A shelf per name; on it an entry per claim, in order of arrival: owners, and those who wait. In
 * the queue recipes whoever asks gets a place, the first who fit are made owners, and whoever
 * leaves appoints them: for what is left of their own deadline, with a message that may be lost. In
 * the lease recipe there is at most one entry, and in the quorum the counter follows the proposal.
 *
 * Dead owners and dead waiters are found when somebody asks (the kernel knows at once). Every
 * request may come twice, and a request that comes too late is refused. */
#include <assert.h>
#include <string.h>

#include "simulation.h"

static bool has_leases(const struct world *world)
{
    return world->plan.kind != KIND_KERNEL;
}

uint64_t store_clock(const struct world *world, const struct store *store)
{
    return world_clock(&store->clock, world->now_ns);
}

void store_start(struct world *world, size_t index)
{
    struct store *store = &world->stores[index];
    struct timepiece clock = store->clock;

    memset(store, 0, sizeof(*store));
    store->index = index;
    store->clock = clock;
    store->up = true;
    store->doubted = world->plan.begins && world->plan.stores > 1;
    store->epoch = 1;
    for (size_t name = 0; name < NAMES_MAX; name++)
        store->shelves[name].counter = 1000;
}

/* --- letters --- */

/* Nobody hears the answer to the second copy of a request. */
static void reply_to(struct world *world, const struct question *question, struct letter *letter)
{
    if (question->repeated)
        network_drop(world, letter);
    else
        network_answer(world, letter);
}

static void answer(struct world *world, const struct question *question, struct hf__reply reply)
{
    struct letter *letter = network_letter(world, LETTER_ANSWER, question->serial);

    reply.ticket = question->ticket;
    letter->reply = reply;
    TRACE(world, question->name, "store: %s to client %d, turn %llx (round %u): %s%s",
          report_request(question->ticket.kind), question->client,
          (unsigned long long)question->ticket.claim_id, question->ticket.round,
          report_reply(reply.kind), reply.released ? ", it was there" : "");
    reply_to(world, question, letter);
}

static void answer_busy(struct world *world, const struct question *question,
                        const struct shelf *shelf, struct hf__reply reply)
{
    struct letter *letter = network_letter(world, LETTER_ANSWER, question->serial);

    reply.ticket = question->ticket;
    letter->reply = reply;
    letter->holder.pid = 100 + shelf->entries[0].client;
    letter->holder.fence = shelf->entries[0].fence;
    memcpy(letter->holder.host, "host", sizeof("host"));
    TRACE(world, question->name, "store: %s to client %d, turn %llx (round %u): %s",
          report_request(question->ticket.kind), question->client,
          (unsigned long long)question->ticket.claim_id, question->ticket.round,
          report_reply(reply.kind));
    reply_to(world, question, letter);
}

static void tell(struct world *world, const struct store *store, const struct entry *entry,
                 struct hf__reply reply)
{
    const struct client *client = &world->clients[entry->client];
    uint64_t serial = world->plan.kind == KIND_CONNECTION
                          ? entry->serial
                          : network_channel(world, entry->client, store->index);
    struct letter *letter;

    if (serial == 0 || client->life != entry->life || client->state == CLIENT_DOWN)
        return;
    letter = network_letter(world, LETTER_ANSWER, serial);
    reply.ticket = (struct hf__ticket){ .kind = HF__REQUEST_NONE, .claim_id = entry->claim_id };
    letter->reply = reply;
    letter->end_ns = !has_leases(world) && entry->owner && entry->ends ? entry->end_ns : 0;
    network_answer(world, letter);
}

/* --- entries --- */

static struct entry *find(struct world *world, struct shelf *shelf, const struct question *question)
{
    bool by_session = world->plan.kind == KIND_CONNECTION;

    for (size_t i = 0; i < shelf->count; i++) {
        struct entry *entry = &shelf->entries[i];

        if (memcmp(entry->token, question->token, HF__TOKEN_BYTES) == 0 &&
            (!by_session || entry->serial == question->serial))
            return entry;
    }
    return NULL;
}

static void take_out(struct world *world, struct store *store, int name, size_t place,
                     enum ending ending)
{
    struct shelf *shelf = &store->shelves[name];
    struct entry *entry = &shelf->entries[place];
    struct record *record = record_get(world, entry->token);

    TRACE(world, name, "store %zu: turn %llx of client %d (%s) is taken out: %d", store->index,
          (unsigned long long)entry->claim_id, entry->client, entry->owner ? "owner" : "waiting",
          (int)ending);
    /* What its holder gave back, nobody takes away, though an older session had it as well. */
    if (entry->owner && record->endings[store->index] != ENDING_RELEASED)
        record->endings[store->index] =
            entry->broken && ending != ENDING_RELEASED ? ENDING_BROKEN : ending;
    if (entry->broken)
        judge_broken(world, entry->token);
    shelf->count--;
    memmove(entry, entry + 1, (shelf->count - place) * sizeof(*entry));
}

static void purge(struct world *world, struct store *store, int name)
{
    struct shelf *shelf = &store->shelves[name];
    uint64_t now_ns = store_clock(world, store);
    size_t i = 0;
    bool head = true; /* nobody who waits stands before it */

    while (i < shelf->count) {
        struct entry *entry = &shelf->entries[i];

        if (entry->end_ns > now_ns) {
            head = head && entry->owner;
            i++;
            continue;
        }
        if (!entry->owner && head)
            world_point(world, POINT_DEAD_HEAD_PURGED);
        if (!entry->owner)
            judge_purged(world, name, entry);
        if (entry->broken)
            world_point(world, POINT_GRACE_OVER);
        take_out(world, store, name, i, ENDING_EXPIRED);
    }
}

static bool fits(const struct shelf *shelf, const struct entry *asker)
{
    for (size_t i = 0; i < shelf->count; i++) {
        const struct entry *entry = &shelf->entries[i];

        if (entry->owner && (entry->mode == HF_EXCLUSIVE || asker->mode == HF_EXCLUSIVE))
            return false;
    }
    return true;
}

static bool anybody_waits(const struct shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++) {
        if (!shelf->entries[i].owner)
            return true;
    }
    return shelf->curious_count > 0;
}

static struct entry *add(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];
    struct entry *entry = &shelf->entries[shelf->count];

    if (shelf->count == ENTRIES_MAX)
        return NULL;
    *entry = (struct entry){
        .client = question->client,
        .life = question->life,
        .mode = question->mode,
        .ends = question->ends,
        .claim_id = question->ticket.claim_id,
        .serial = question->serial,
        .number = store->next_number++,
        .lease_ns = question->lease_ns,
        .grace_ns = question->grace_ns,
        .end_ns = has_leases(world) ? store_clock(world, store) + question->lease_ns : HF__NEVER,
        .since_ns = world->now_ns,
    };
    memcpy(entry->token, question->token, HF__TOKEN_BYTES);
    shelf->count++;
    return entry;
}

static void own(struct world *world, struct store *store, int name, struct entry *entry)
{
    struct shelf *shelf = &store->shelves[name];

    entry->owner = true;
    shelf->counter++;
    entry->fence =
        engine_recipe(world->plan.kind)->hands_on ? shelf->counter * 256 : shelf->counter;
    if (!has_leases(world) && entry->ends) {
        entry->end_ns = store_clock(world, store) + entry->lease_ns;
        calendar_add(world, (struct event){ .at_ns = world_when(&store->clock, entry->end_ns),
                                            .kind = EVENT_STORE_TIMER,
                                            .who = (uint32_t)store->index });
    }
    TRACE(world, name, "store %zu: turn %llx of client %d owns it, fence %llu", store->index,
          (unsigned long long)entry->claim_id, entry->client, (unsigned long long)entry->fence);
    judge_stored_grant(world, store, entry);
}

static void appoint(struct world *world, struct store *store, int name, struct entry *entry)
{
    own(world, store, name, entry);
    world_point(world, POINT_APPOINTED);
    if (world->plan.news_grants)
        tell(world, store, entry,
             (struct hf__reply){ .kind = HF__REPLY_GRANTED,
                                 .fence = entry->fence,
                                 .appointed = has_leases(world),
                                 .lease_ns = has_leases(world) ? entry->lease_ns : 0,
                                 .others_wait = anybody_waits(&store->shelves[name]) });
    else
        tell(world, store, entry, (struct hf__reply){ .kind = HF__REPLY_CHANGED });
}

static void tell_curious(struct world *world, struct store *store, int name)
{
    struct shelf *shelf = &store->shelves[name];

    for (size_t i = 0; i < shelf->curious_count; i++) {
        struct entry to = { .client = shelf->curious[i].client,
                            .life = shelf->curious[i].life,
                            .claim_id = shelf->curious[i].claim_id };
        tell(world, store, &to, (struct hf__reply){ .kind = HF__REPLY_CHANGED });
    }
    shelf->curious_count = 0;
}

/* Everybody who fits is let in, in order; `asker` hears it in the answer to its own question. */
void store_settle(struct world *world, struct store *store, int name, const struct entry *asker)
{
    struct shelf *shelf = &store->shelves[name];

    purge(world, store, name);
    for (size_t i = 0; i < shelf->count; i++) {
        struct entry *entry = &shelf->entries[i];

        if (entry->owner)
            continue;
        if (!fits(shelf, entry))
            return;
        if (entry == asker)
            own(world, store, name, entry);
        else
            appoint(world, store, name, entry);
    }
    if (shelf->count == 0)
        tell_curious(world, store, name);
}

/* --- requests --- */

static void refresh(struct world *world, struct store *store, struct entry *entry,
                    const struct question *question)
{
    uint64_t end_ns = store_clock(world, store) + question->lease_ns;

    if (!has_leases(world))
        return;
    if (end_ns > entry->end_ns)
        entry->end_ns = end_ns;
    entry->lease_ns = question->lease_ns;
    if (question->lease_ns > store->longest_lease_ns)
        store->longest_lease_ns = question->lease_ns;
}

static void answer_owner(struct world *world, struct store *store, const struct question *question,
                         const struct entry *entry)
{
    struct shelf *shelf = &store->shelves[question->name];
    struct letter *letter;
    struct hf__reply reply = {
        .kind = HF__REPLY_GRANTED,
        .fence = entry->fence,
        .others_wait = anybody_waits(shelf),
        .ticket = question->ticket,
    };

    if (entry->broken) {
        answer(world, question, (struct hf__reply){ .kind = HF__REPLY_GONE, .cause = "broken" });
        return;
    }
    if (has_leases(world) && question->ticket.kind == HF__REQUEST_INSPECT)
        reply.lease_ns = entry->end_ns - store_clock(world, store);
    if (has_leases(world) || !entry->ends) {
        answer(world, question, reply);
        return;
    }
    letter = network_letter(world, LETTER_ANSWER, question->serial);
    letter->reply = reply;
    letter->end_ns = entry->end_ns;
    reply_to(world, question, letter);
}

static void answer_waiter(struct world *world, struct store *store, const struct question *question,
                          const struct entry *entry)
{
    const struct shelf *shelf = &store->shelves[question->name];
    uint32_t ahead = (uint32_t)(entry - shelf->entries);
    uint64_t scale = engine_recipe(world->plan.kind)->hands_on ? 256 : 1;

    answer_busy(world, question, shelf,
                (struct hf__reply){
                    .kind = HF__REPLY_QUEUED, .ahead = ahead, .fence = shelf->counter * scale });
}

static void tell_owners(struct world *world, struct store *store, int name)
{
    const struct shelf *shelf = &store->shelves[name];

    if (!engine_recipe(world->plan.kind)->hands_on)
        return;
    for (size_t i = 0; i < shelf->count; i++) {
        if (shelf->entries[i].owner)
            tell(world, store, &shelf->entries[i], (struct hf__reply){ .kind = HF__REPLY_CROWDED });
    }
}

static void claim_in_line(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];
    struct entry *entry = find(world, shelf, question);
    bool fresh = !entry;

    if (fresh)
        entry = add(world, store, question);
    else
        refresh(world, store, entry, question);
    if (!entry) {
        answer(world, question,
               (struct hf__reply){ .kind = HF__REPLY_FAILED, .status = HF_ELIMIT });
        return;
    }
    store_settle(world, store, question->name, entry);
    entry = find(world, shelf, question);
    assert(entry);
    if (entry->owner) {
        answer_owner(world, store, question, entry);
        return;
    }
    if (!question->queueing) {
        take_out(world, store, question->name, (size_t)(entry - shelf->entries), ENDING_RELEASED);
        answer_busy(world, question, shelf, (struct hf__reply){ .kind = HF__REPLY_REFUSED });
        return;
    }
    answer_waiter(world, store, question, entry);
    if (fresh)
        tell_owners(world, store, question->name);
}

static void note_curious(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];

    if (!world->plan.wakes || !question->queueing ||
        shelf->curious_count == sizeof(shelf->curious) / sizeof(*shelf->curious))
        return;
    for (size_t i = 0; i < shelf->curious_count; i++) {
        if (shelf->curious[i].claim_id == question->ticket.claim_id &&
            shelf->curious[i].client == question->client)
            return;
    }
    shelf->curious[shelf->curious_count].client = question->client;
    shelf->curious[shelf->curious_count].life = question->life;
    shelf->curious[shelf->curious_count++].claim_id = question->ticket.claim_id;
    tell_owners(world, store, question->name);
}

static void claim_lease(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];
    struct entry *entry = find(world, shelf, question);

    if (entry) {
        refresh(world, store, entry, question);
        answer_owner(world, store, question, entry);
        return;
    }
    if (shelf->count > 0) {
        note_curious(world, store, question);
        answer_busy(world, question, shelf, (struct hf__reply){ .kind = HF__REPLY_REFUSED });
        return;
    }
    entry = add(world, store, question);
    assert(entry);
    own(world, store, question->name, entry);
    answer_owner(world, store, question, entry);
}

/* The counter follows the proposal if it is above; whoever proposed too little hears the
 * counter. */
static void claim_quorum(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];
    struct entry *entry = find(world, shelf, question);

    if (!entry && shelf->count > 0) {
        const struct record *record = record_get(world, question->token);

        for (size_t i = 0; i < world->plan.stores; i++) {
            if (record->granted[i])
                world_point(world, POINT_QUORUM_SPLIT);
        }
        answer_busy(world, question, shelf, (struct hf__reply){ .kind = HF__REPLY_REFUSED });
        return;
    }
    if (!entry) {
        entry = add(world, store, question);
        assert(entry);
        entry->owner = true;
        if (record_get(world, entry->token)->endings[store->index] > ENDING_RELEASED)
            world_point(world, POINT_QUORUM_REJOINED);
        judge_stored_grant(world, store, entry);
    }
    refresh(world, store, entry, question);
    if (shelf->counter < question->fence) {
        shelf->counter = question->fence;
        entry->fence = question->fence;
    }
    answer(world, question,
           (struct hf__reply){ .kind = HF__REPLY_GRANTED,
                               .low = entry->fence != question->fence,
                               .fence = entry->fence == question->fence ? entry->fence
                                                                        : shelf->counter });
}

static void claim(struct world *world, struct store *store, const struct question *question)
{
    switch (world->plan.kind) {
    case KIND_KERNEL:
    case KIND_QUEUE:
    case KIND_CONNECTION:
        claim_in_line(world, store, question);
        return;
    case KIND_LEASE:
        claim_lease(world, store, question);
        return;
    case KIND_QUORUM3:
    case KIND_QUORUM5:
        claim_quorum(world, store, question);
        return;
    }
}

static void inspect(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];
    struct entry *entry = find(world, shelf, question);

    if (entry && !entry->owner) {
        refresh(world, store, entry, question);
        store_settle(world, store, question->name, entry);
        entry = find(world, shelf, question);
        assert(entry);
    }
    if (!entry)
        answer(world, question, (struct hf__reply){ .kind = HF__REPLY_GONE });
    else if (entry->owner)
        answer_owner(world, store, question, entry);
    else
        answer_waiter(world, store, question, entry);
}

static void renew(struct world *world, struct store *store, const struct question *question)
{
    struct entry *entry = find(world, &store->shelves[question->name], question);
    uint64_t end_ns = store_clock(world, store) + question->lease_ns;

    if (!entry) {
        answer(world, question, (struct hf__reply){ .kind = HF__REPLY_GONE });
        return;
    }
    if (!entry->owner) {
        answer_waiter(world, store, question, entry);
        return;
    }
    if (!entry->broken && (has_leases(world) || entry->ends) &&
        (question->shorten || end_ns > entry->end_ns)) {
        entry->end_ns = end_ns;
        entry->lease_ns = question->lease_ns;
        if (!has_leases(world))
            calendar_add(world, (struct event){ .at_ns = world_when(&store->clock, end_ns),
                                                .kind = EVENT_STORE_TIMER,
                                                .who = (uint32_t)store->index });
    }
    answer_owner(world, store, question, entry);
}

static void release(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];
    struct entry *entry = find(world, shelf, question);
    bool quorum = world->plan.kind == KIND_QUORUM3 || world->plan.kind == KIND_QUORUM5;
    uint64_t handed_on = engine_recipe(world->plan.kind)->hands_on ? 255 : 0;
    /* A claim that came late again may stand where the turn was taken away. */
    bool there = entry && (question->fence == 0 || quorum ||
                           (entry->owner && entry->fence == (question->fence & ~handed_on)));

    if (entry) {
        if (entry->broken)
            world_point(world, POINT_GRACE_KEPT);
        take_out(world, store, question->name, (size_t)(entry - shelf->entries),
                 there ? ENDING_RELEASED : ENDING_EXPIRED);
    }
    answer(world, question, (struct hf__reply){ .kind = HF__REPLY_GONE, .released = there });
    store_settle(world, store, question->name, NULL);
}

static void downgrade(struct world *world, struct store *store, const struct question *question)
{
    struct entry *entry = find(world, &store->shelves[question->name], question);

    if (!entry || !entry->owner) {
        answer(world, question, (struct hf__reply){ .kind = HF__REPLY_GONE });
        return;
    }
    entry->mode = HF_SHARED;
    answer_owner(world, store, question, entry);
    store_settle(world, store, question->name, NULL);
}

static void break_turn(struct world *world, struct store *store, const struct question *question)
{
    struct shelf *shelf = &store->shelves[question->name];
    uint64_t now_ns = store_clock(world, store);

    for (size_t i = 0; i < shelf->count; i++) {
        struct entry *entry = &shelf->entries[i];

        if (!entry->owner || entry->broken || entry->fence != question->fence)
            continue;
        answer(world, question, (struct hf__reply){ .kind = HF__REPLY_DONE });
        tell(world, store, entry, (struct hf__reply){ .kind = HF__REPLY_GONE, .cause = "broken" });
        entry->broken = true;
        if (entry->end_ns > now_ns + entry->grace_ns)
            entry->end_ns = now_ns + entry->grace_ns;
        if (!has_leases(world) && entry->grace_ns > 0)
            calendar_add(world, (struct event){ .at_ns = world_when(&store->clock, entry->end_ns),
                                                .kind = EVENT_STORE_TIMER,
                                                .who = (uint32_t)store->index });
        store_settle(world, store, question->name, NULL);
        return;
    }
    answer(world, question, (struct hf__reply){ .kind = HF__REPLY_GONE });
}

static void list(struct world *world, const struct store *store, const struct question *question)
{
    static const char *const names[NAMES_MAX] = { "n0", "n1", "n2" };

    for (size_t i = 0; i < (size_t)world->plan.names; i++) {
        for (size_t j = 0; j < store->shelves[i].count; j++) {
            const struct entry *entry = &store->shelves[i].entries[j];
            struct letter *letter = network_letter(world, LETTER_ANSWER, question->serial);

            letter->reply.kind = HF__REPLY_ENTRY;
            letter->reply.ticket = question->ticket;
            letter->entry = (struct hf_holding){ .struct_size = sizeof(letter->entry),
                                                 .name = names[i],
                                                 .mode = entry->mode,
                                                 .waiting = !entry->owner,
                                                 .position = (uint32_t)j,
                                                 .fence = entry->fence,
                                                 .host = "host",
                                                 .pid = 100 + entry->client,
                                                 .purpose = "simulated" };
            network_answer(world, letter);
        }
    }
    answer(world, question, (struct hf__reply){ .kind = HF__REPLY_DONE });
}

/* What it knows that one which forgot must be told. */
static void survey(struct world *world, struct store *store, const struct question *question)
{
    uint64_t highest = 0;

    for (size_t i = 0; i < NAMES_MAX; i++) {
        if (store->shelves[i].counter > highest)
            highest = store->shelves[i].counter;
    }
    for (size_t i = 0; store->is_founding && i < world->plan.stores; i++) {
        if (!world->stores[i].doubted)
            world_point(world, POINT_QUORUM_HALF_FOUNDED);
    }
    answer(world, question,
           (struct hf__reply){ .kind = store->doubted ? HF__REPLY_GONE : HF__REPLY_DONE,
                               .is_founding = store->is_founding,
                               .fence = store->doubted ? 0 : highest,
                               .lease_ns = store->doubted ? 0 : store->longest_lease_ns });
}

static void admit(struct world *world, struct store *store, const struct question *question)
{
    for (size_t i = 0; i < NAMES_MAX; i++) {
        if (store->shelves[i].counter < question->fence)
            store->shelves[i].counter = question->fence;
    }
    if (store->is_founding)
        world_point(world, POINT_QUORUM_FOUNDED);
    else if (store->doubted)
        world_point(world, POINT_QUORUM_ADMITTED);
    store->doubted = false;
    store->is_founding = false;
    answer(world, question, (struct hf__reply){ .kind = HF__REPLY_DONE });
}

static void found(struct world *world, struct store *store, const struct question *question)
{
    store->is_founding = store->doubted;
    answer(world, question, (struct hf__reply){ .kind = HF__REPLY_DONE });
}

static bool refuses(struct world *world, const struct question *question)
{
    if (world->now_ns > question->not_after_ns) {
        world_point(world, POINT_LATE_REQUEST_REFUSED);
        return true;
    }
    if (fault_on(world, FAULT_STORE_FAILS) && world_chance(world, 30)) {
        fault_count(world, FAULT_STORE_FAILS);
        return true;
    }
    return false;
}

/* In a connection recipe any sign of life keeps all that the session has. */
static void hear_session(struct world *world, struct store *store, const struct question *question)
{
    uint64_t now_ns = store_clock(world, store);

    for (size_t i = 0; world->plan.kind == KIND_CONNECTION && i < NAMES_MAX; i++) {
        for (size_t j = 0; j < store->shelves[i].count; j++) {
            struct entry *entry = &store->shelves[i].entries[j];
            uint64_t end_ns = now_ns + entry->lease_ns;

            if (entry->serial == question->serial && entry->end_ns > now_ns &&
                end_ns > entry->end_ns && !entry->ends && !entry->broken)
                entry->end_ns = end_ns;
        }
    }
}

bool store_answer(struct world *world, struct store *store, const struct question *question)
{
    TRACE(world, question->name, "store %zu: gets %s of client %d, turn %llx (round %u)",
          store->index, report_request(question->ticket.kind), question->client,
          (unsigned long long)question->ticket.claim_id, question->ticket.round);
    if (refuses(world, question)) {
        answer(world, question,
               (struct hf__reply){ .kind = HF__REPLY_FAILED, .status = HF_EUNREACHABLE });
        return false;
    }
    hear_session(world, store, question);
    store_settle(world, store, question->name, NULL);

    switch (question->ticket.kind) {
    case HF__REQUEST_CLAIM:
        claim(world, store, question);
        break;
    case HF__REQUEST_INSPECT:
        inspect(world, store, question);
        break;
    case HF__REQUEST_RENEW:
        renew(world, store, question);
        break;
    case HF__REQUEST_RELEASE:
        release(world, store, question);
        break;
    case HF__REQUEST_DOWNGRADE:
        downgrade(world, store, question);
        break;
    case HF__REQUEST_BREAK:
        break_turn(world, store, question);
        break;
    case HF__REQUEST_LIST:
        list(world, store, question);
        break;
    case HF__REQUEST_SURVEY:
        survey(world, store, question);
        break;
    case HF__REQUEST_ADMIT:
        admit(world, store, question);
        break;
    case HF__REQUEST_FOUND:
        found(world, store, question);
        break;
    case HF__REQUEST_NONE:
        assert(!"a question that nobody asks of a simulated store");
    }
    return true;
}

int store_prompt(struct world *world, const struct question *question, uint64_t *out_fence)
{
    struct store *store = &world->stores[0];
    struct shelf *shelf = &store->shelves[question->name];
    struct entry *entry;

    store_settle(world, store, question->name, NULL);
    entry = find(world, shelf, question);
    if (question->ticket.kind == HF__REQUEST_RELEASE) {
        if (!entry || !entry->owner || entry->broken || world_chance(world, 10))
            return 0;
        take_out(world, store, question->name, (size_t)(entry - shelf->entries), ENDING_RELEASED);
        store_settle(world, store, question->name, NULL);
        return 1;
    }
    assert(question->ticket.kind == HF__REQUEST_CLAIM && !entry);
    if (shelf->count > 0)
        return 0;
    entry = add(world, store, question);
    assert(entry);
    own(world, store, question->name, entry);
    *out_fence = entry->fence;
    return 1;
}

/* --- what happens to a store --- */

void store_forget(struct world *world, struct store *store, bool fences_too)
{
    for (int name = 0; name < NAMES_MAX; name++) {
        struct shelf *shelf = &store->shelves[name];

        while (shelf->count > 0)
            take_out(world, store, name, shelf->count - 1, ENDING_FORGOTTEN);
        shelf->curious_count = 0;
        if (fences_too)
            shelf->counter = shelf->counter > 1000 ? 1000 + (shelf->counter - 1000) / 2 : 1000;
    }
    if (fences_too)
        store->longest_lease_ns = 0;
}

static void remove_of(struct world *world, struct store *store, int client, uint64_t serial)
{
    for (int name = 0; name < NAMES_MAX; name++) {
        struct shelf *shelf = &store->shelves[name];
        bool removed = false;

        for (size_t i = shelf->count; i > 0; i--) {
            const struct entry *entry = &shelf->entries[i - 1];

            if (serial ? entry->serial != serial : entry->client != client)
                continue;
            take_out(world, store, name, i - 1, ENDING_EXPIRED);
            removed = true;
        }
        if (removed)
            store_settle(world, store, name, NULL);
    }
}

void store_bury(struct world *world, struct store *store, int client)
{
    remove_of(world, store, client, 0);
}

void store_notice(struct world *world, struct store *store, uint64_t serial)
{
    if (world->plan.kind == KIND_CONNECTION)
        remove_of(world, store, -1, serial);
}
