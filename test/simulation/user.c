/* user.c: what do people do with locks?
 *
 * A user does one thing at a time: it claims, waits or gives up waiting, holds for a while, perhaps
 * nests, extends or downgrades, and gives back; now and then it looks who holds, or breaks somebody
 * else's lock. It notices a loss late or not at all, as people do. */
#include <assert.h>
#include <string.h>

#include "simulation.h"

static const char *const names[NAMES_MAX] = { "n0", "n1", "n2" };

static bool can_share(const struct client *client)
{
    return (client->core->recipe->promises & HF_PROMISE_SHARED) != 0;
}

/* In some seeds there are moments in which each client works on a name of its own, without a
 * pause. */
static bool is_hurried(const struct world *world)
{
    return world->plan.hurries && world->now_ns % (13 * S) < 400 * MS;
}

void user_plan(struct client *client, struct user *user, uint64_t in_ns)
{
    struct world *world = client->world;

    user->next_ns = world->now_ns + in_ns;
    calendar_add(world, (struct event){ .at_ns = user->next_ns,
                                        .kind = EVENT_USER,
                                        .who = (uint32_t)client->index,
                                        .what = (uint64_t)user->index });
}

static void rest(struct client *client, struct user *user)
{
    struct world *world = client->world;
    uint64_t think_ns = client->eager || is_hurried(world) ? 3 * MS : world->plan.think_ns;

    user->state = USER_IDLE;
    user_plan(client, user, world_between(world, 0, think_ns));
}

/* --- asking for it --- */

static uint64_t draw_lease(struct world *world)
{
    uint64_t lease_ns = world->plan.lease_ns;

    return world_between(world, lease_ns / 2, lease_ns + lease_ns / 2);
}

static int64_t draw_wait(struct world *world)
{
    if (world_chance(world, 20))
        return 0;
    if (world_chance(world, 45))
        return (int64_t)world_between(world, 5, world_chance(world, 50) ? 200 : 5000);
    return HF_FOREVER;
}

static void draw_terms(struct client *client, struct user *user, struct hf__terms *terms)
{
    static const char *const owners[] = { "anna", "bert", "carl", "dora" };
    struct world *world = client->world;

    *terms = (struct hf__terms){
        .mode = can_share(client) && world_chance(world, 30) ? HF_SHARED : HF_EXCLUSIVE,
        .wait_ms = draw_wait(world),
        .lease_ns = draw_lease(world),
        .blocking = world_chance(world, 60),
        .fixed_lease = world_chance(world, 8),
        .grace_ns = world_chance(world, 20) ? world_between(world, 10 * MS, 500 * MS) : 0,
        .max_hold_ns =
            world_chance(world, 10) ? world_between(world, 20 * MS, world->plan.lease_ns * 2) : 0,
        .purpose = "simulation",
    };
    if (terms->fixed_lease && world_chance(world, 50)) /* two ends, and the earlier one counts */
        terms->max_hold_ns = terms->lease_ns + world_between(world, 0, terms->lease_ns / 2);
    user->owner_kind = (int)world_between(world, HF_OWNER_NONE, HF_OWNER_NAMED);
    terms->owner.kind = user->owner_kind;
    terms->owner.thread = (uint64_t)user->index + 1;
    terms->owner.name = owners[user->index];
    user->fixed_lease = terms->fixed_lease;
    user->max_hold = terms->max_hold_ns > 0;
    user->max_hold_ns = terms->max_hold_ns;
    user->lease_ns = terms->lease_ns;
    user->mode = terms->mode;
}

/* Nothing but the lock, on the client's own name: so that turns are handed on and on. */
static void hurry(const struct client *client, struct user *user, struct hf__terms *terms)
{
    user->name = client->index % client->world->plan.names;
    user->mode = terms->mode = HF_EXCLUSIVE;
    user->fixed_lease = terms->fixed_lease = false;
    terms->wait_ms = HF_FOREVER;
    terms->grace_ns = 0;
}

static void begin_attempt(struct client *client, struct user *user, struct hf__terms *terms)
{
    struct world *world = client->world;
    struct attempt attempt = {
        .client = client->index,
        .user = user->index,
        .name = user->name,
        .mode = terms->mode,
        .wait_ms = terms->wait_ms,
        .status = HF_PENDING,
        .started_ns = world->now_ns,
        .number = client->core->next_number,
        .fence_floor = client->fence_seen[user->name],
        .busy_at_home = judge_busy_at_home(client, user),
    };

    user->attempt = record_attempt(world, &attempt);
    user->granted_told = user->lost_told = false;
    user->pending_event = 0;
    user->asked_ns = client_now(client);
    terms->user = (void *)(uintptr_t)(user->attempt + 1);
}

static uint64_t draw_hold(struct world *world)
{
    if (is_hurried(world))
        return world_between(world, 0, 2 * MS);
    if (world_chance(world, 15))
        return world_between(world, 0, MS);
    if (world_chance(world, 10))
        return world_between(world, 0, world->plan.lease_ns * 3);
    return world_between(world, 0, world->plan.hold_ns);
}

static void take_grant(struct client *client, struct user *user, struct hf_grant *grant)
{
    struct world *world = client->world;
    const struct hf__hold *hold = grant->hold;

    user->grants[0] = grant;
    user->grant_count = 1;
    user->fence = hold->fence;
    user->granted_ns = world->now_ns;
    user->max_until_ns = user->max_hold ? client_now(client) + user->max_hold_ns : HF__NEVER;
    user->fixed_until_ns = user->fixed_lease ? client_now(client) + user->lease_ns : HF__NEVER;
    user->downgrading = user->lowered_perhaps = false;
    user->lost = user->seen_over = false;
    user->state = USER_HOLDING;
    memset(user->token, 0, HF__TOKEN_BYTES);
    if (hold->turn) /* else it is lost already */
        memcpy(user->token, hold->turn->token, HF__TOKEN_BYTES);
    user->broken = record_get(world, user->token)->endings[0] == ENDING_BROKEN;
    judge_grant(client, user, &world->attempts[user->attempt]);
}

/* Where the store is at hand, most want no more than the lock. */
static void simplify(const struct client *client, struct user *user, struct hf__terms *terms)
{
    if (!client->core->recipe->at_hand || !world_chance(client->world, 50))
        return;
    user->mode = terms->mode = HF_EXCLUSIVE;
    user->owner_kind = terms->owner.kind = HF_OWNER_NONE;
    user->fixed_lease = terms->fixed_lease = false;
    user->max_hold = false;
    user->max_hold_ns = terms->max_hold_ns = 0;
    terms->grace_ns = 0;
    terms->purpose = NULL;
}

/* What a blocking acquire tries first, where the store is at hand. Nothing is left to be done in a
 * step. */
static bool take_briefly(struct client *client, struct user *user, const struct hf__terms *terms)
{
    struct world *world = client->world;
    struct hf_grant *grant;

    if (!terms->blocking || !client->core->recipe->at_hand)
        return false;
    grant = hf__brief_take(client->core, names[user->name], terms, NULL, client->seen_ns);
    if (!grant)
        return false;
    world_point(world, POINT_TAKEN_BRIEFLY);
    judge_answer(client, user, &world->attempts[user->attempt], HF_OK);
    take_grant(client, user, grant);
    user_plan(client, user, draw_hold(world));
    judge_exclusion(world);
    return true;
}

/* What a blocking caller does first: it may have its answer without a step, which is then owed only
 * if there are timers to watch or events to tell. */
static void fetch(struct client *client, struct user *user)
{
    const struct hf__core *core = client->core;
    bool fetched;

    client->seen_ns = client_now(client);
    fetched = hf__core_fetch(client->core, &user->claim->answer, client->seen_ns);
    if (fetched)
        world_point(client->world, POINT_FETCHED);
    user_look(client, user);
    judge_exclusion(client->world);
    if (!fetched || !hf__list_empty(&core->notes) || core->turn_timers.count > 0 ||
        core->claim_timers.count > 0)
        client_wake(client);
}

static void start_claim(struct client *client, struct user *user)
{
    struct world *world = client->world;
    struct hf__terms terms;
    int status;

    user->name = (int)world_between(world, 0, (uint64_t)world->plan.names - 1);
    draw_terms(client, user, &terms);
    if (is_hurried(world))
        hurry(client, user, &terms);
    simplify(client, user, &terms);
    begin_attempt(client, user, &terms);
    TRACE(world, user->name, "client %d user %d claims it%s, waits %lld ms, lease %llu ms%s%s",
          client->index, user->index, terms.mode == HF_SHARED ? " shared" : "",
          (long long)terms.wait_ms, (unsigned long long)(terms.lease_ns / MS),
          terms.fixed_lease ? ", fixed" : "", terms.max_hold_ns ? ", maximal hold" : "");
    if (take_briefly(client, user, &terms))
        return;
    user->state = USER_WAITING;
    status =
        hf__claim_start(client->core, names[user->name], &terms, client_now(client), &user->claim);
    if (status < 0) {
        judge_answer(client, user, &world->attempts[user->attempt], status);
        rest(client, user);
        return;
    }
    if (terms.wait_ms != 0 && world_chance(world, 12))
        user_plan(client, user, world_between(world, 0, world->plan.lease_ns));
    if (terms.blocking && world_chance(world, 40))
        fetch(client, user);
    else if (world_chance(world, 70))
        client_step(client);
    else
        client_wake(client);
}

static void cancel(struct client *client, struct user *user)
{
    struct world *world = client->world;
    bool too_late = user->claim->answer.status != HF_PENDING;

    TRACE(world, user->name, "client %d user %d cancels", client->index, user->index);
    world->attempts[user->attempt].cancelled = true;
    hf__claim_cancel(user->claim, client_now(client));
    if (too_late)
        world_point(world, POINT_CANCELLED_TOO_LATE);
    client_step(client);
}

/* --- having it --- */

/* For the judge, in case the turn is handed on. */
static void note_lease(struct client *client, const struct user *user)
{
    const struct hf__turn *turn = user->grants[0]->hold->turn;

    client->released_ns[user->name] = client->world->now_ns;
    client->half_lease_ns[user->name] = turn ? turn->lease_ns / 2 : 0;
}

/* Nobody fetches it: hf_claim_free() gives it back. */
static void abandon(struct client *client, struct user *user)
{
    world_point(client->world, POINT_ABANDONED);
    TRACE(client->world, user->name, "client %d user %d never fetches it", client->index,
          user->index);
    user->state = USER_IDLE;
    note_lease(client, user);
    hf__hold_abandon(user->grants[0], client_now(client));
    user->grant_count = 0;
    hf__claim_free(user->claim);
    user->claim = NULL;
    rest(client, user);
}

static void look_at_claim(struct client *client, struct user *user)
{
    struct world *world = client->world;
    struct hf_claim *claim = user->claim;
    int status = claim->answer.status;
    bool told = user->granted_told || !hf__list_empty(&claim->note.place);

    if (status == HF_PENDING)
        return;
    if (!claim->terms.blocking && !user->granted_told && client->state == CLIENT_UP &&
        world_chance(world, 30))
        return; /* it looks when the event has come */
    if (told == claim->terms.blocking)
        judge_violation(world, user->name, "client %d: an answer %s an event", client->index,
                        told ? "of a blocking acquire raises" : "of a claim comes without");
    judge_answer(client, user, &world->attempts[user->attempt], status);
    if (world->violated)
        return;
    if (status == HF_OK) {
        take_grant(client, user, HF__TAKE(claim->grant));
        if (world_chance(world, 3)) {
            abandon(client, user);
            return;
        }
    }
    user->claim = NULL;
    hf__claim_free(claim);
    if (status == HF_OK)
        user_plan(client, user, draw_hold(world));
    else
        rest(client, user);
}

static void nest(struct client *client, struct user *user)
{
    struct world *world = client->world;
    static const char *const owners[] = { "anna", "bert", "carl", "dora" };
    uint64_t now_ns = client_now(client);
    const struct hf__hold *hold = user->grants[0]->hold;
    bool valid = hf__hold_valid(hold, now_ns);
    struct hf__terms terms = {
        .mode = can_share(client) && world_chance(world, 40) ? HF_SHARED : HF_EXCLUSIVE,
        .wait_ms = draw_wait(world),
        .lease_ns = draw_lease(world),
        .blocking = true,
        .owner = { .kind = user->owner_kind,
                   .thread = (uint64_t)user->index + 1,
                   .name = owners[user->index] },
    };
    bool upwards = user->mode == HF_SHARED && terms.mode == HF_EXCLUSIVE;
    int wanted = !valid ? HF_ELOST : upwards ? HF_EDEADLOCK : HF_OK;
    struct hf_claim *claim = NULL;
    int status = hf__claim_start(client->core, names[user->name], &terms, now_ns, &claim);

    if (status == HF_OK) {
        status = claim->answer.status;
        if (status == HF_OK)
            user->grants[user->grant_count++] = HF__TAKE(claim->grant);
        if (status != HF_PENDING)
            hf__claim_free(claim);
    }
    client->acquired += status == HF_OK;
    if (status == HF_OK)
        world_point(world, POINT_NESTED);
    if (status == HF_ELOST)
        world_point(world, POINT_NESTED_UNDER_LOST);
    if (status == HF_EDEADLOCK)
        world_point(world, POINT_DEADLOCK);
    if (status != wanted && !(status == HF_ENOMEM && world->plan.faults & 1u << FAULT_ALLOCATION))
        judge_violation(world, user->name, "client %d user %d: a nested claim answers %s, not %s",
                        client->index, user->index, hf__error_name(status), hf__error_name(wanted));
    user_plan(client, user, draw_hold(world) / 2);
}

static void extend(struct client *client, struct user *user)
{
    struct world *world = client->world;
    uint64_t now_ns = client_now(client);
    uint64_t lease_ns = world_between(world, 100 * MS, world->plan.lease_ns * 2);
    struct hf_grant *grant = user->grants[0];

    user->state = USER_ASKING;
    user->asked_ns = now_ns;
    user->extend_ns = lease_ns;
    user->extend_shortens = now_ns + lease_ns < atomic_load(&grant->hold->valid_until_ns);
    TRACE(world, user->name, "client %d user %d extends to %llu ms", client->index, user->index,
          (unsigned long long)(lease_ns / MS));
    hf__hold_extend(grant, lease_ns, now_ns);
    client_step(client);
}

static void downgrade(struct client *client, struct user *user)
{
    user->state = USER_ASKING;
    user->asked_ns = client_now(client);
    user->extend_ns = 0;
    user->mode = HF_SHARED; /* it may happen at any time from now on */
    user->downgrading = true;
    TRACE(client->world, user->name, "client %d user %d downgrades", client->index, user->index);
    hf__hold_downgrade(user->grants[0], client_now(client));
    client_step(client);
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static void look_at_asking(struct client *client, struct user *user)
{
    struct world *world = client->world;
    const struct hf__hold *hold = user->grants[0]->hold;
    int status = user->grants[0]->answer.status;
    bool shared = user->downgrading && user->extend_ns == 0;

    if (status == HF_PENDING)
        return;
    TRACE(world, user->name, "client %d user %d: %s answers %s", client->index, user->index,
          shared ? "downgrade" : "extend", hf__error_name(status));
    user->state = USER_HOLDING;
    judge_asking(client, user, status);
    if (status == HF_OK && shared && hold->mode != HF_SHARED)
        judge_violation(world, user->name, "downgraded, and still exclusive");
    if (status == HF_OK)
        world_point(world, shared                  ? POINT_DOWNGRADED
                           : user->extend_shortens ? POINT_SHORTENED
                                                   : POINT_EXTENDED);
    if (status == HF_EUNKNOWN && !shared && user->extend_shortens)
        world_point(world, POINT_SHORTENED_UNKNOWN);
    if (status == HF_OK && !shared)
        user->lease_ns = user->extend_ns;
    if (!shared && user->fixed_lease && status != HF_ELOST)
        user->fixed_until_ns = later(user->fixed_until_ns, client_now(client) + user->extend_ns);
    if (shared && status == HF_EUNKNOWN)
        user->lowered_perhaps = true;
    else if (shared && status != HF_OK && !user->lowered_perhaps)
        user->mode = HF_EXCLUSIVE; /* certainly nothing happened */
    user_plan(client, user, draw_hold(world));
}

/* --- giving it back --- */

static void conclude_release(struct client *client, struct user *user, int status)
{
    TRACE(client->world, user->name, "client %d user %d: release answers %s", client->index,
          user->index, hf__error_name(status));
    judge_release(client, user, status);
    user->leaver = NULL;
    rest(client, user);
}

/* Somebody of this client could have it next, if others had not been waiting. */
static bool holds_back(struct client *client, const struct user *user)
{
    const struct hf__hold *hold = user->grants[0]->hold;
    const struct record *record = record_get(client->world, user->token);
    const struct hf_claim *next;

    if (!engine_recipe(client->world->plan.kind)->hands_on || !record->crowded ||
        hf__list_empty(&hold->name->waiting))
        return false;
    next = HF__LIST_ENTRY(hold->name->waiting.next, struct hf_claim, place);
    return !next->turn && next->number >= record->crowded_number;
}

static void release_last(struct client *client, struct user *user)
{
    struct world *world = client->world;
    struct hf_grant *grant = user->grants[0];
    uint64_t now_ns = client_now(client);

    if (holds_back(client, user))
        world_point(world, POINT_HAND_ON_CROWDED);
    note_lease(client, user);
    user->valid_before = hf__hold_valid(grant->hold, now_ns);
    user->valid_until_ns = atomic_load(&grant->hold->valid_until_ns);
    user->lost_cause = grant->hold->lost_cause;
    user->grant_count = 0;
    user->leaver = grant;
    user->announced = client->state == CLIENT_UP && world_chance(world, 25);
    user->asked_ns = now_ns;
    user->state = USER_LEAVING;
    grant->announces = user->announced;
    TRACE(world, user->name, "client %d user %d releases, %s", client->index, user->index,
          user->valid_before ? "valid" : "not valid");
    if (!user->announced && client->state == CLIENT_UP && world_chance(world, 50) &&
        hf__brief_give(grant, client->seen_ns)) {
        world_point(world, POINT_GIVEN_BRIEFLY);
        user->handed_on = false;
        hf__hold_free_grant(grant);
        conclude_release(client, user, HF_OK);
        return;
    }
    hf__hold_release(grant, now_ns);
    user->handed_on = grant->answer.status == HF_OK;
}

static void release_one(struct client *client, struct user *user)
{
    struct world *world = client->world;
    size_t place = (size_t)world_between(world, 0, user->grant_count - 1);
    struct hf_grant *grant = user->grants[place];
    bool valid = hf__hold_valid(grant->hold, client_now(client));

    user->grants[place] = user->grants[--user->grant_count];
    if (hf__brief_give(grant, client->seen_ns)) {
        judge_violation(world, user->name, "client %d user %d: an inner release gives it back",
                        client->index, user->index);
        return;
    }
    hf__hold_release(grant, client_now(client));
    if (grant->answer.status != (valid ? HF_OK : HF_ELOST))
        judge_violation(world, user->name, "client %d user %d: an inner release answers %s",
                        client->index, user->index, hf__error_name(grant->answer.status));
    hf__hold_free_grant(grant);
}

static void leave(struct client *client, struct user *user)
{
    while (user->grant_count > 1)
        release_one(client, user);
    release_last(client, user);
}

static void look_at_release(struct client *client, struct user *user)
{
    int status = user->leaver->answer.status;

    if (status == HF_PENDING || user->announced)
        return;
    hf__hold_free_grant(user->leaver);
    conclude_release(client, user, status);
}

/* --- looking after locks --- */

static bool find_victim(struct world *world, int *out_name, uint64_t *out_fence)
{
    for (int tries = 0; tries < 4; tries++) {
        const struct client *client =
            &world->clients[world_between(world, 0, (uint64_t)world->plan.clients - 1)];
        const struct user *user = &client->users[world_between(world, 0, USERS_MAX - 1)];

        if (client->state != CLIENT_UP || user->index >= client->user_count ||
            user->state != USER_HOLDING)
            continue;
        *out_name = user->name;
        *out_fence = user->fence;
        return true;
    }
    return false;
}

static void look_after(struct client *client, struct user *user)
{
    struct world *world = client->world;
    uint64_t fence = 0;
    int name = 0;
    int status;

    user->breaking = client->core->driver.stores == 1 && world_chance(world, 50) &&
                     find_victim(world, &name, &fence);
    if (user->breaking)
        TRACE(world, name, "client %d user %d breaks fence %llu", client->index, user->index,
              (unsigned long long)fence);
    status = user->breaking
                 ? hf__operation_break(client->core, names[name], fence, client_now(client),
                                       &user->operation)
                 : hf__operation_list(client->core, NULL, client_now(client), &user->operation);
    if (status < 0) {
        rest(client, user);
        return;
    }
    user->asked_ns = client_now(client);
    user->state = USER_LOOKING;
    client_step(client);
}

static void look_at_operation(struct client *client, struct user *user)
{
    struct world *world = client->world;
    int status = user->operation->answer.status;

    if (status == HF_PENDING)
        return;
    judge_operation(client, user, status);
    if (status == HF_OK)
        world_point(world, user->breaking ? POINT_BROKEN : POINT_LISTED);
    if (status == HF_ELOST)
        world_point(world, POINT_BREAK_TOO_LATE);
    hf__operation_free(client->core, user->operation);
    user->operation = NULL;
    rest(client, user);
}

/* --- when it is their turn --- */

static void act_idle(struct client *client, struct user *user)
{
    struct world *world = client->world;

    if (world->phase >= PHASE_DRAINING || client->state != CLIENT_UP)
        return;
    if (world_chance(world, 5))
        look_after(client, user);
    else
        start_claim(client, user);
}

static void act_holding(struct client *client, struct user *user)
{
    struct world *world = client->world;
    bool draining = world->phase >= PHASE_DRAINING;

    if (!draining && user->owner_kind != HF_OWNER_NONE && user->grant_count < NEST_MAX &&
        world_chance(world, 15)) {
        nest(client, user);
        return;
    }
    if (!draining && world_chance(world, 10)) {
        extend(client, user);
        return;
    }
    if (!draining && user->mode == HF_EXCLUSIVE && can_share(client) && world_chance(world, 8)) {
        downgrade(client, user);
        return;
    }
    if (user->grant_count > 1) {
        release_one(client, user);
        user_plan(client, user, draw_hold(world) / 4);
        return;
    }
    release_last(client, user);
    client_step(client);
}

void user_act(struct client *client, struct user *user)
{
    switch (user->state) {
    case USER_IDLE:
        act_idle(client, user);
        return;
    case USER_WAITING:
        cancel(client, user);
        return;
    case USER_HOLDING:
        act_holding(client, user);
        return;
    case USER_ASKING:
    case USER_LEAVING:
    case USER_LOOKING:
        return;
    }
}

void user_look(struct client *client, struct user *user)
{
    switch (user->state) {
    case USER_IDLE:
        return;
    case USER_WAITING:
        look_at_claim(client, user);
        break;
    case USER_ASKING:
        look_at_asking(client, user);
        break;
    case USER_LEAVING:
        look_at_release(client, user);
        break;
    case USER_LOOKING:
        look_at_operation(client, user);
        break;
    case USER_HOLDING:
        break;
    }
    if (user->state == USER_HOLDING && client->state == CLIENT_CLOSING) {
        leave(client, user);
        if (user->state == USER_LEAVING)
            look_at_release(client, user);
    }
}

static struct user *holder_of(struct client *client, const struct hf_grant *grant)
{
    for (int i = 0; i < client->user_count; i++) {
        struct user *user = &client->users[i];

        if (user->leaver == grant || (user->claim && user->claim->grant == grant))
            return user;
        for (size_t j = 0; j < user->grant_count; j++) {
            if (user->grants[j] == grant)
                return user;
        }
    }
    return NULL;
}

static void hear_event(struct client *client, struct user *user, const struct hf_event *event)
{
    struct world *world = client->world;
    bool first = user->grant_count > 0 ? user->grants[0] == event->grant : !user->leaver;

    if (first)
        user->pending_event = 0;
    if (event->kind == HF_EVENT_AT_RISK)
        world_point(world, POINT_AT_RISK);
    if (event->kind == HF_EVENT_SAFE)
        world_point(world, POINT_SAFE_AGAIN);
    if (event->kind == HF_EVENT_LOST && first && user->lost_told)
        judge_violation(world, user->name, "client %d user %d is told LOST twice", client->index,
                        user->index);
    if (event->kind != HF_EVENT_LOST && event->kind != HF_EVENT_RELEASED && user->lost_told)
        judge_violation(world, user->name, "client %d user %d is told something after LOST",
                        client->index, user->index);
    if (event->kind == HF_EVENT_LOST && first)
        user->lost_told = true;
    if (event->kind == HF_EVENT_RELEASED) {
        world_point(world, POINT_EVENT_RELEASED);
        assert(user->leaver == event->grant);
        conclude_release(client, user, event->status);
    }
}

void user_event(struct client *client, const struct hf_event *event)
{
    struct world *world = client->world;
    struct user *user;

    world_mix(world, (uint64_t)event->kind);
    if (event->kind == HF_EVENT_GRANTED) {
        for (int i = 0; i < client->user_count; i++) {
            user = &client->users[i];
            if (user->state == USER_WAITING && user->claim == event->claim) {
                user->granted_told = true;
                return;
            }
        }
    }
    user = event->grant ? holder_of(client, event->grant) : NULL;
    if (!user) {
        judge_violation(world, -1, "client %d gets an event %d of a handle that nobody has",
                        client->index, event->kind);
        return;
    }
    hear_event(client, user, event);
}
