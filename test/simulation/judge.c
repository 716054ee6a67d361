/* judge.c: what must never be?
 *
 * It sees every client, every store and every letter, at true time. A violation ends the seed; the
 * seed is then run again with its trace, and the story of the name in question is told.
 *
 * The laws: a hold that its own client takes for valid is owned at the store, at that instant, by
 * the same claim id; no two conflicting holds are valid at once; fences rise; a loss is final and
 * is told; every answer is one that its situation allows; nobody passes others by more than 32;
 * what nobody remembers is not in the store. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "simulation.h"

#define PATIENCE_MS 40 /* several round trips: who waits less may not hear from the store at all */

void judge_violation(struct world *world, int name, const char *format, ...)
{
    va_list arguments;

    if (world->violated)
        return;
    world->violated = true;
    world->violated_name = name;
    va_start(arguments, format);
    (void)vsnprintf(world->violation, sizeof(world->violation), format, arguments);
    va_end(arguments);
    TRACE(world, name, "VIOLATION: %s", world->violation);
}

/* No fault has struck at that time, nor shortly before it, nor since. */
static bool calm_since(const struct world *world, uint64_t true_ns)
{
    return world->last_fault_ns == HF__NEVER || true_ns > world->last_fault_ns + CALM_NS;
}

static bool drew(const struct world *world, enum fault fault)
{
    return (world->plan.faults & 1u << fault) != 0;
}

static bool is_quorum(const struct world *world)
{
    return world->plan.stores > 1;
}

/* --- possession --- */

static bool holds(const struct user *user)
{
    return user->state == USER_HOLDING || user->state == USER_ASKING;
}

static bool believes(const struct client *client, const struct user *user)
{
    return client->state != CLIENT_DOWN && holds(user) &&
           hf__hold_valid(user->grants[0]->hold, client_now(client));
}

static uint32_t owned_at(const struct world *world, int name, const uint8_t *token)
{
    uint32_t stores = 0;

    for (size_t i = 0; i < world->plan.stores; i++) {
        const struct store *store = &world->stores[i];
        const struct shelf *shelf = &store->shelves[name];
        uint64_t now_ns = store_clock(world, store);

        for (size_t j = 0; j < shelf->count; j++) {
            const struct entry *entry = &shelf->entries[j];

            if (entry->owner && (entry->end_ns > now_ns || entry->broken) &&
                memcmp(entry->token, token, HF__TOKEN_BYTES) == 0)
                stores++;
        }
    }
    return stores;
}

static void check_owned(struct world *world, const struct client *client, const struct user *user)
{
    uint32_t stores = owned_at(world, user->name, user->token);
    const struct record *record = record_get(world, user->token);

    for (size_t i = 0; i < world->plan.stores; i++)
        stores += record->endings[i] == ENDING_FORGOTTEN;
    if (stores >= world->plan.stores / 2 + 1)
        return;
    judge_violation(world, user->name,
                    "client %d user %d takes fence %llu for valid, but %u stores know it as owner",
                    client->index, user->index, (unsigned long long)user->fence, stores);
}

/* Whoever could look at the clock and saw that it is over may never see it valid again. */
static void check_final(struct world *world, const struct client *client, struct user *user)
{
    if (!holds(user) || !client_runs(client) || client->stale_ns > 0)
        return;
    if (!believes(client, user))
        user->seen_over = true;
    else if (user->seen_over)
        judge_violation(world, user->name, "client %d user %d: it was over, and is valid again",
                        client->index, user->index);
}

void judge_exclusion(struct world *world)
{
    const struct user *first[NAMES_MAX] = { NULL };
    const struct client *whose[NAMES_MAX] = { NULL };
    bool exclusive[NAMES_MAX] = { false };

    for (int i = 0; i < world->plan.clients; i++) {
        struct client *client = &world->clients[i];

        for (int j = 0; client->state != CLIENT_DOWN && j < client->user_count; j++) {
            struct user *user = &client->users[j];
            int name = user->name;

            check_final(world, client, user);
            if (!believes(client, user) || user->broken)
                continue;
            check_owned(world, client, user);
            if (first[name] && (exclusive[name] || user->mode == HF_EXCLUSIVE))
                judge_violation(world, name,
                                "two holders: client %d user %d with fence %llu, and client %d "
                                "user %d with fence %llu",
                                whose[name]->index, first[name]->index,
                                (unsigned long long)first[name]->fence, i, j,
                                (unsigned long long)user->fence);
            if (first[name] && !exclusive[name] && user->mode == HF_SHARED)
                world_point(world, POINT_SHARED_TOGETHER);
            first[name] = user;
            whose[name] = client;
            exclusive[name] = exclusive[name] || user->mode == HF_EXCLUSIVE;
        }
    }
}

/* Who waits and lives keeps its place. */
void judge_purged(struct world *world, int name, const struct entry *entry)
{
    const struct client *client = &world->clients[entry->client];

    if (client->state == CLIENT_UP && client->life == entry->life &&
        calm_since(world, entry->since_ns))
        judge_violation(world, name, "client %d lost its place in line in calm weather",
                        entry->client);
}

void judge_broken(struct world *world, const uint8_t *token)
{
    for (int i = 0; i < world->plan.clients; i++) {
        for (int j = 0; j < world->clients[i].user_count; j++) {
            struct user *user = &world->clients[i].users[j];

            if (holds(user) && memcmp(user->token, token, HF__TOKEN_BYTES) == 0)
                user->broken = true;
        }
    }
}

/* --- grants --- */

void judge_stored_grant(struct world *world, const struct store *store, const struct entry *entry)
{
    struct record *record = record_get(world, entry->token);
    const struct attempt *attempt;

    record->granted[store->index] = true;
    if (record->attempt >= world->attempt_count)
        return;
    attempt = &world->attempts[record->attempt];
    if (attempt->status == HF_EUNREACHABLE && !is_quorum(world))
        judge_violation(world, record->name,
                        "client %d was told UNREACHABLE, and is granted it afterwards",
                        record->client);
}

static void check_fence(struct client *client, const struct user *user,
                        const struct attempt *attempt)
{
    struct world *world = client->world;
    int name = user->name;
    bool forgetful = drew(world, FAULT_STORE_AMNESIA) && world->plan.forgets_fences &&
                     !is_quorum(world); /* there the majority sees to it */
    uint64_t floor =
        user->mode == HF_SHARED ? world->fence_exclusive[name] : world->fence_any[name];
    size_t shared = world->last_shared_count[name];

    if (user->fence <= attempt->fence_floor)
        judge_violation(world, name, "client %d accepts fence %llu, and had seen %llu before",
                        client->index, (unsigned long long)user->fence,
                        (unsigned long long)attempt->fence_floor);
    if (user->fence <= floor && !forgetful)
        judge_violation(world, name, "client %d user %d gets fence %llu, others had %llu before",
                        client->index, user->index, (unsigned long long)user->fence,
                        (unsigned long long)floor);
    for (size_t i = 0; i < 16 && i < shared; i++) {
        if (world->last_shared[name][i] == user->fence && !forgetful)
            judge_violation(world, name, "fence %llu is given twice",
                            (unsigned long long)user->fence);
    }
    if (user->mode == HF_SHARED)
        world->last_shared[name][world->last_shared_count[name]++ % 16] = user->fence;
    else if (user->fence > world->fence_exclusive[name])
        world->fence_exclusive[name] = user->fence;
    if (user->fence > world->fence_any[name])
        world->fence_any[name] = user->fence;
    if (user->fence > client->fence_seen[name])
        client->fence_seen[name] = user->fence;
}

/* Handed on within the process: at most 32, and once others wait only to earlier claims. */
static void check_hand_on(struct client *client, const struct user *user,
                          const struct attempt *attempt)
{
    struct world *world = client->world;
    const struct record *record = record_get(world, user->token);
    struct shelf *shelf = &world->stores[0].shelves[user->name];
    uint64_t handed = user->fence & 255;
    const struct hf__hold *hold = user->grants[0]->hold;
    uint64_t now_ns = client_now(client);

    if (!engine_recipe(world->plan.kind)->hands_on || handed == 0)
        return;
    client->handed_on++;
    world_point(world, POINT_HANDED_ON);
    if (handed == HF__HAND_ON_MAX)
        world_point(world, POINT_HANDED_ON_32);
    if (handed > HF__HAND_ON_MAX)
        judge_violation(world, user->name, "client %d hands on for the %llu. time in a turn",
                        client->index, (unsigned long long)handed);
    if (hf__hold_valid(hold, now_ns) && hold->end_ns == HF__NEVER &&
        atomic_load(&hold->valid_until_ns) < now_ns + client->half_lease_ns[user->name] &&
        world->now_ns == client->released_ns[user->name])
        judge_violation(world, user->name,
                        "client %d hands on with less than half of the lease left", client->index);
    if (record->crowded && attempt->number >= record->crowded_number)
        judge_violation(world, user->name,
                        "client %d hands on to a claim that came after the news that others wait",
                        client->index);
    for (size_t i = 0; i < shelf->count; i++) {
        struct entry *entry = &shelf->entries[i];

        if (entry->owner || entry->client == client->index ||
            entry->since_ns >= attempt->started_ns)
            continue;
        if (++entry->passed[client->index] > HF__HAND_ON_MAX)
            judge_violation(world, user->name, "client %d passes client %d for the 33rd time",
                            client->index, entry->client);
    }
}

/* Within one client and without faults, whoever came first is served first. */
static void check_order(struct client *client, const struct user *user,
                        const struct attempt *attempt)
{
    struct world *world = client->world;

    if (!(client->core->recipe->promises & HF_PROMISE_FAIR))
        return;
    for (int i = 0; i < client->user_count; i++) {
        const struct user *other = &client->users[i];
        const struct attempt *earlier = &world->attempts[other->attempt];

        if (other == user || other->state != USER_WAITING || other->name != user->name ||
            other->claim->answer.status != HF_PENDING || earlier->number >= attempt->number ||
            (earlier->mode == HF_SHARED && attempt->mode == HF_SHARED) ||
            !calm_since(world, earlier->started_ns))
            continue;
        judge_violation(world, user->name,
                        "client %d serves user %d before user %d, who came first", client->index,
                        user->index, other->index);
    }
}

void judge_grant(struct client *client, struct user *user, const struct attempt *attempt)
{
    struct world *world = client->world;
    const struct hf__hold *hold = user->grants[0]->hold;

    world->grants++;
    world->grants_in_phase++;
    world->tally->grants++;
    world_mix(world, user->fence);
    TRACE(world, user->name, "client %d user %d HOLDS it, fence %llu%s", client->index, user->index,
          (unsigned long long)user->fence, user->mode == HF_SHARED ? ", shared" : "");
    if (hold->mode != attempt->mode)
        judge_violation(world, user->name, "client %d asked for mode %d and got %d", client->index,
                        attempt->mode, hold->mode);
    /* Else it was lost before anybody could look, or taken away before it was handed on. */
    if (hf__hold_valid(hold, client_now(client)) && !user->broken)
        check_fence(client, user, attempt);
    check_hand_on(client, user, attempt);
    check_order(client, user, attempt);
    if (attempt->appointed && attempt->confirmed)
        world_point(world, POINT_APPOINTED_CONFIRMED);
    if (!attempt->appointed && attempt->confirmed)
        world_point(world, POINT_LATE_GRANT_CONFIRMED);
    if (attempt->unknown)
        world_point(world, POINT_AMBIGUOUS_GRANTED);
}

/* --- answers of claims --- */

bool judge_busy_at_home(const struct client *client, const struct user *user)
{
    for (int i = 0; i < client->user_count; i++) {
        const struct user *other = &client->users[i];

        if (other != user && other->name == user->name && other->state != USER_IDLE &&
            other->state != USER_LOOKING)
            return true;
    }
    return false;
}

/* Nothing of it is in any store, and nothing on the way to one; of a quorum, no majority has it. */
static void check_nothing_taken(struct world *world, const struct user *user,
                                const struct attempt *attempt)
{
    size_t number = (size_t)(attempt - world->attempts);
    uint32_t most = is_quorum(world) ? (uint32_t)world->plan.stores / 2 : 0;

    for (size_t i = 0; i < world->record_count; i++) {
        const struct record *record = &world->records[i];
        bool on_its_way = record->claims_under_way > 0 && !is_quorum(world);

        if (record->attempt != number || record->client != attempt->client)
            continue;
        if (on_its_way || owned_at(world, user->name, record->token) > most)
            judge_violation(world, user->name,
                            "client %d user %d is told that certainly nothing was taken, but %s",
                            attempt->client, attempt->user,
                            on_its_way ? "a request is on its way" : "it owns it");
    }
}

static void check_silence(struct client *client, const struct user *user,
                          const struct attempt *attempt, int status)
{
    struct world *world = client->world;
    bool impatient = attempt->wait_ms > 0 && attempt->wait_ms < PATIENCE_MS;

    if (attempt->heard_busy && !is_quorum(world))
        judge_violation(world, user->name, "client %d user %d heard 'busy' and is told %s",
                        client->index, user->index, hf__error_name(status));
    if (calm_since(world, attempt->started_ns) && !impatient)
        judge_violation(world, user->name, "client %d user %d is told %s in calm weather",
                        client->index, user->index, hf__error_name(status));
    if (status == HF_EUNREACHABLE) {
        world_point(world, POINT_UNREACHABLE);
        check_nothing_taken(world, user, attempt);
        return;
    }
    world_point(world, POINT_UNKNOWN);
    if (!attempt->asked_store)
        judge_violation(world, user->name, "client %d user %d asked nobody, and is told UNKNOWN",
                        client->index, user->index);
    if (!is_quorum(world) && owned_at(world, user->name, attempt->token) == 0)
        world_point(world, POINT_AMBIGUOUS_NOT_GRANTED);
}

static bool is_allowed(struct client *client, const struct user *user,
                       const struct attempt *attempt, int status)
{
    struct world *world = client->world;
    bool refused = drew(world, FAULT_REFUSED_SUBMIT);
    bool busy = attempt->heard_busy || attempt->busy_at_home;
    uint64_t waited_ns = client_now(client) - user->asked_ns;

    switch (status) {
    case HF_OK:
        return true;
    case HF_EBUSY:
        world_point(world, POINT_BUSY);
        return attempt->wait_ms == 0 && (busy || judge_busy_at_home(client, user));
    case HF_ETIMEDOUT:
        world_point(world, POINT_TIMED_OUT);
        return attempt->wait_ms > 0 && waited_ns >= (uint64_t)attempt->wait_ms * MS && busy;
    case HF_ECANCELLED:
        world_point(world, POINT_CANCELLED);
        return attempt->cancelled || client->state == CLIENT_CLOSING;
    case HF_EUNREACHABLE:
    case HF_EUNKNOWN:
        check_silence(client, user, attempt, status);
        return true;
    case HF_EINTEGRITY:
        world_point(world, POINT_INTEGRITY);
        world->grants_in_phase++; /* of a store that went back nobody can get more than that */
        return drew(world, FAULT_STORE_AMNESIA) && world->plan.forgets_fences;
    case HF_ENOMEM:
        world_point(world, POINT_NO_MEMORY);
        return refused || drew(world, FAULT_ALLOCATION);
    case HF_ELIMIT:
    case HF_ESYSTEM:
        return refused;
    default:
        return false;
    }
}

void judge_answer(struct client *client, struct user *user, struct attempt *attempt, int status)
{
    struct world *world = client->world;

    TRACE(world, user->name, "client %d user %d: the claim answers %s", client->index, user->index,
          hf__error_name(status));
    world_mix(world, (uint64_t)(int64_t)status);
    if (attempt->status != HF_PENDING)
        judge_violation(world, user->name, "a claim is answered twice");
    attempt->status = status;
    client->acquired += status == HF_OK;
    client->busy += status == HF_EBUSY;
    client->timed_out += status == HF_ETIMEDOUT;
    if (!is_allowed(client, user, attempt, status))
        judge_violation(
            world, user->name, "client %d user %d: %s is no answer here (waits %lld ms, %s)",
            client->index, user->index, hf__error_name(status), (long long)attempt->wait_ms,
            attempt->heard_busy ? "heard 'busy'" : "never heard 'busy'");
}

/* --- answers of holders' questions --- */

static bool taken_away(const struct world *world, const struct record *record)
{
    uint32_t stores = 0;

    for (size_t i = 0; i < world->plan.stores; i++)
        stores += record->endings[i] > ENDING_RELEASED || !record->granted[i];
    return stores > (world->plan.stores - 1) / 2;
}

void judge_release(struct client *client, struct user *user, int status)
{
    struct world *world = client->world;
    struct record *record = record_get(world, user->token);
    /* It may have died with its connection before the release got through. */
    bool cut_off = world->plan.kind == KIND_CONNECTION && !calm_since(world, user->granted_ns);
    /* ... or validity ended before the store could be told: then nobody can say whose it was. */
    bool too_late = client_now(client) >= user->valid_until_ns;

    world_mix(world, (uint64_t)(int64_t)status);
    if (status == HF_EUNKNOWN) {
        world_point(world, POINT_RELEASE_UNKNOWN);
        if (calm_since(world, user->granted_ns) && client->state == CLIENT_UP)
            judge_violation(world, user->name, "client %d: release is UNKNOWN in calm weather",
                            client->index);
        return;
    }
    if (status == HF_OK && !user->handed_on && !is_quorum(world) && !record->released_unanswered &&
        record->endings[0] > ENDING_RELEASED)
        judge_violation(world, user->name, "client %d: release says OK of what was taken away",
                        client->index);
    if (status == HF_OK && !user->valid_before)
        judge_violation(world, user->name, "client %d: a lost hold is released as if it were held",
                        client->index);
    if (status == HF_ELOST && !user->valid_before && !user->lost_cause)
        world_point(world, POINT_LOST_AT_RELEASE);
    if (user->lost_cause && strcmp(user->lost_cause, HF__CAUSE_CLOSED) == 0)
        world_point(world, POINT_LOST_CLOSED);
    if (status == HF_ELOST && user->valid_before && !taken_away(world, record) && !cut_off &&
        !too_late)
        judge_violation(world, user->name, "client %d: release says LOST, and nothing was",
                        client->index);
    if (status != HF_OK && status != HF_ELOST)
        judge_violation(world, user->name, "client %d: release answers %s", client->index,
                        hf__error_name(status));
}

void judge_asking(struct client *client, struct user *user, int status)
{
    struct world *world = client->world;
    const struct hf__hold *hold = user->grants[0]->hold;
    uint64_t until_ns = atomic_load(&hold->valid_until_ns);
    uint64_t wanted_ns = hf__validity_until(user->asked_ns, user->extend_ns);
    bool failed = status == HF_EUNKNOWN || status == HF_EUNREACHABLE || status == HF_ENOMEM ||
                  status == HF_ELIMIT || status == HF_ESYSTEM;

    if (failed && !calm_since(world, user->granted_ns))
        return;
    if (status == HF_ELOST && !hf__hold_valid(hold, client_now(client)))
        return;
    /* An answer is waited for for a sixth of the lease: at the end of the longest hold, hardly. */
    if (status == HF_EUNKNOWN && user->max_hold &&
        until_ns < client_now(client) + 16 * world->plan.latency_ns)
        return;
    if (status != HF_OK) {
        judge_violation(world, user->name, "client %d: extend or downgrade answers %s",
                        client->index, hf__error_name(status));
        return;
    }
    if (user->extend_ns == 0 || until_ns == HF__NEVER || until_ns == 0 || user->max_hold)
        return;
    if (until_ns < wanted_ns)
        judge_violation(world, user->name,
                        "client %d extended to %llu ms, and it is valid for %lld ms less",
                        client->index, (unsigned long long)(user->extend_ns / MS),
                        (long long)(wanted_ns - until_ns) / (long long)MS);
}

void judge_operation(struct client *client, struct user *user, int status)
{
    struct world *world = client->world;
    bool lost = status == HF_ELOST && user->breaking;
    bool memory = status == HF_ENOMEM && drew(world, FAULT_ALLOCATION);
    bool closed = status == HF_ECANCELLED && client->state == CLIENT_CLOSING;
    bool silent = status == HF_EUNKNOWN || status == HF_EUNREACHABLE;
    bool refused = drew(world, FAULT_REFUSED_SUBMIT) &&
                   (status == HF_ENOMEM || status == HF_ELIMIT || status == HF_ESYSTEM);

    if (status == HF_OK || lost || memory || closed)
        return;
    if ((silent || refused) && !world_calm(world))
        return;
    judge_violation(world, -1, "client %d: %s answers %s", client->index,
                    user->breaking ? "break" : "list", hf__error_name(status));
}

/* --- losses --- */

static void count_loss(struct world *world, const char *cause)
{
    static const struct {
        const char *cause;
        enum point point;
    } causes[] = {
        { HF__CAUSE_EXPIRED, POINT_LOST_EXPIRED }, { HF__CAUSE_MAX_HOLD, POINT_LOST_MAX_HOLD },
        { HF__CAUSE_GONE, POINT_LOST_GONE },       { "broken", POINT_LOST_BROKEN },
        { "session ended", POINT_LOST_SESSION },
    };

    for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
        if (strcmp(causes[i].cause, cause) == 0)
            world_point(world, causes[i].point);
    }
}

/* Only single requests fail here, and none has for long enough that a renewal must have got
 * through. */
static bool renewable(const struct world *world, const struct user *user)
{
    uint32_t single = 1u << FAULT_LOSS | 1u << FAULT_NEWS_LOSS | 1u << FAULT_DUPLICATE |
                      1u << FAULT_STORE_FAILS | 1u << FAULT_REFUSED_SUBMIT |
                      1u << FAULT_ALLOCATION | 1u << FAULT_DRIFT;
    uint64_t enough_ns = user->lease_ns / 3 + 100 * MS;

    return !(world->plan.faults & ~single) && world->now_ns > world->last_fault_ns + enough_ns;
}

void judge_loss(struct client *client, struct user *user, const char *cause)
{
    struct world *world = client->world;
    const struct record *record = record_get(world, user->token);
    bool calm = calm_since(world, user->granted_ns) || renewable(world, user);

    TRACE(world, user->name, "client %d user %d has LOST it: %s", client->index, user->index,
          cause);
    count_loss(world, cause);
    if (strcmp(cause, HF__CAUSE_GONE) == 0 && !taken_away(world, record))
        judge_violation(world, user->name, "client %d user %d has lost what is not gone",
                        client->index, user->index);
    if (strcmp(cause, HF__CAUSE_EXPIRED) == 0 && calm && !user->fixed_lease && !user->broken)
        judge_violation(world, user->name,
                        "client %d user %d has lost a renewed lock in calm weather", client->index,
                        user->index);
    if (strcmp(cause, HF__CAUSE_MAX_HOLD) == 0 && !user->max_hold)
        judge_violation(world, user->name, "client %d user %d had no maximal hold", client->index,
                        user->index);
}

static void note_event(struct world *world, struct user *user, const struct hf__note *note)
{
    int kind = hf__list_empty(&note->place) ? 0 : note->event.kind;

    if (user->pending_event && kind && kind != user->pending_event)
        world_point(world, POINT_EVENT_REPLACED);
    user->pending_event = kind;
}

static void check_hold(struct client *client, struct user *user, uint64_t now_ns)
{
    struct world *world = client->world;
    const struct hf__hold *hold = user->grants[0]->hold;
    const struct hf__note *note = &user->grants[0]->note;
    bool valid = hf__hold_valid(hold, now_ns);
    bool pending = !hf__list_empty(&note->place) && note->event.kind == HF_EVENT_LOST;

    note_event(world, user, note);
    if (valid && (now_ns > user->max_until_ns || now_ns > user->fixed_until_ns))
        judge_violation(world, user->name, "client %d user %d holds beyond its %s", client->index,
                        user->index, now_ns > user->max_until_ns ? "maximum" : "fixed lease");
    if (user->lost && valid)
        judge_violation(world, user->name, "client %d user %d: LOST is not final", client->index,
                        user->index);
    if (!valid && !hold->lost_cause)
        judge_violation(world, user->name, "client %d user %d is not valid and not told",
                        client->index, user->index);
    if (valid && hold->lost_cause)
        judge_violation(world, user->name, "client %d user %d is lost and valid", client->index,
                        user->index);
    if (!hold->lost_cause)
        return;
    if (!user->lost)
        judge_loss(client, user, hold->lost_cause);
    user->lost = true;
    if (!pending && !user->lost_told && client->state == CLIENT_UP)
        judge_violation(world, user->name, "client %d user %d: LOST was dropped", client->index,
                        user->index);
}

/* --- a client after its step --- */

static void check_punctual(struct client *client, const struct user *user, uint64_t now_ns)
{
    struct world *world = client->world;
    const struct attempt *attempt = &world->attempts[user->attempt];
    bool pending = user->state == USER_WAITING && user->claim->answer.status == HF_PENDING;
    const char *late = NULL;

    if (pending && now_ns >= user->claim->wait_until_ns)
        late = "waits beyond its time";
    if (pending && attempt->wait_ms == 0 && now_ns > user->asked_ns + CONNECT_NS + 300 * MS)
        late = "tries for too long";
    if (user->state == USER_LEAVING && !user->announced && now_ns > user->asked_ns + CONNECT_NS)
        late = "gets no answer to its release";
    if (user->state == USER_ASKING && now_ns > user->asked_ns + 3 * S)
        late = "gets no answer to extend or downgrade";
    if (user->state == USER_LOOKING && now_ns > user->asked_ns + CONNECT_NS + S)
        late = "gets no answer to list or break";
    if (late)
        judge_violation(world, user->name, "client %d user %d %s", client->index, user->index,
                        late);
}

void judge_client(struct client *client, uint64_t now_ns)
{
    struct world *world = client->world;

    for (int i = 0; i < client->user_count && !world->violated; i++) {
        struct user *user = &client->users[i];

        if (holds(user))
            check_hold(client, user, now_ns);
        check_punctual(client, user, now_ns);
    }
}

/* --- the end --- */

static bool remembered(const struct world *world, const struct entry *entry)
{
    const struct client *client = &world->clients[entry->client];

    if (client->state == CLIENT_DOWN || client->life != entry->life)
        return false;
    for (size_t i = 0; i < client->core->turn_count; i++) {
        const struct hf__turn *turn = client->core->turns[i];

        if (turn->name && memcmp(turn->token, entry->token, HF__TOKEN_BYTES) == 0)
            return true;
    }
    return false;
}

/* In calm weather a store has nothing that its client does not know of. */
void judge_orphans(struct world *world)
{
    for (size_t i = 0; i < world->plan.stores; i++) {
        struct store *store = &world->stores[i];

        for (int name = 0; name < world->plan.names; name++) {
            const struct shelf *shelf = &store->shelves[name];

            for (size_t j = 0; j < shelf->count; j++) {
                const struct entry *entry = &shelf->entries[j];

                if (entry->end_ns <= store_clock(world, store) ||
                    !calm_since(world, entry->since_ns) || remembered(world, entry))
                    continue;
                judge_violation(world, name,
                                "store %zu keeps turn %llx of client %d, which nobody remembers", i,
                                (unsigned long long)entry->claim_id, entry->client);
            }
        }
    }
}

void judge_done(struct client *client)
{
    struct world *world = client->world;
    const struct hf_client_stats *stats = &client->core->stats;
    bool handed = stats->handed_on == client->handed_on ||
                  (drew(world, FAULT_ALLOCATION) && stats->handed_on > client->handed_on);

    if (client->core->driver.reconnected > 0)
        world_point(world, POINT_RECONNECTED);
    if (stats->held != 0 || stats->waiting != 0)
        judge_violation(world, -1, "client %d: %llu held and %llu waiting at the end",
                        client->index, (unsigned long long)stats->held,
                        (unsigned long long)stats->waiting);
    if (stats->acquired != client->acquired || stats->busy != client->busy ||
        stats->timed_out != client->timed_out || !handed)
        judge_violation(world, -1,
                        "client %d counts %llu acquired, %llu busy, %llu timed out, %llu handed "
                        "on; it was %llu, %llu, %llu, %llu",
                        client->index, (unsigned long long)stats->acquired,
                        (unsigned long long)stats->busy, (unsigned long long)stats->timed_out,
                        (unsigned long long)stats->handed_on, (unsigned long long)client->acquired,
                        (unsigned long long)client->busy, (unsigned long long)client->timed_out,
                        (unsigned long long)client->handed_on);
}

void judge_end(struct world *world)
{
    for (size_t i = 0; i < world->plan.stores; i++) {
        struct store *store = &world->stores[i];

        for (int name = 0; name < world->plan.names; name++) {
            const struct shelf *shelf = &store->shelves[name];

            for (size_t j = 0; j < shelf->count; j++) {
                const struct entry *entry = &shelf->entries[j];

                if (entry->end_ns > store_clock(world, store))
                    judge_violation(world, name,
                                    "store %zu still has turn %llx of client %d at the end", i,
                                    (unsigned long long)entry->claim_id, entry->client);
            }
        }
    }
}
