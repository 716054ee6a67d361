/* world.c: one seed from beginning to end.
 *
 * Forty-two seconds in which things go wrong, sixteen in which everything works again and must make
 * progress, then no new claims: whoever waits gets its answer, everything is given back, every
 * client is closed, and nothing may be left. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "simulation.h"

#define EVENTS_MAX 400000
#define LOOK_NS    (100 * MS)

struct world *world_new(struct tally *tally, FILE *trace)
{
    struct world *world = calloc(1, sizeof(*world));

    if (!world)
        abort();
    world->tally = tally;
    world->trace = trace;
    return world;
}

static void clear(struct world *world)
{
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (world->clients[i].state != CLIENT_DOWN) {
            world->phase = PHASE_CLOSING;
            client_crash(&world->clients[i]);
        }
    }
    for (size_t i = 0; i < world->calendar.count; i++) {
        if (world->calendar.events[i].letter)
            network_drop(world, world->calendar.events[i].letter);
    }
    world->calendar.count = 0;
    world->record_count = world->attempt_count = world->session_count = 0;
    if (world->record_heads)
        memset(world->record_heads, 0, RECORD_HEADS * sizeof(*world->record_heads));
}

void world_free(struct world *world)
{
    clear(world);
    while (world->spare_letters) {
        struct letter *letter = world->spare_letters;

        world->spare_letters = letter->next;
        free(letter);
    }
    free(world->calendar.events);
    free(world->sessions);
    free(world->attempts);
    free(world->records);
    free(world->record_heads);
    free(world);
}

/* --- time and chance --- */

uint64_t world_clock(const struct timepiece *clock, uint64_t true_ns)
{
    int64_t gained_ns =
        (int64_t)true_ns / 1000000 * clock->ppm + (int64_t)true_ns % 1000000 * clock->ppm / 1000000;

    return clock->base_ns + true_ns + (uint64_t)gained_ns;
}

uint64_t world_when(const struct timepiece *clock, uint64_t clock_ns)
{
    uint64_t true_ns;
    int64_t off_ns;

    if (clock_ns <= clock->base_ns)
        return 0;
    if (clock_ns > clock->base_ns + 100000 * S)
        return 100000 * S;
    true_ns = clock_ns - clock->base_ns;
    do {
        off_ns = (int64_t)(clock_ns - world_clock(clock, true_ns));
        true_ns = (uint64_t)((int64_t)true_ns + off_ns);
    } while (off_ns > 1 || off_ns < -1);
    while (world_clock(clock, true_ns) < clock_ns)
        true_ns++;
    return true_ns;
}

bool world_chance(struct world *world, unsigned percent)
{
    return dice_below(&world->dice, 100) < percent;
}

uint64_t world_between(struct world *world, uint64_t low, uint64_t high)
{
    assert(low <= high);

    return low + dice_below(&world->dice, high - low + 1);
}

void world_mix(struct world *world, uint64_t number)
{
    world->hash = (world->hash ^ number) * 0x9e3779b97f4a7c15;
    world->hash ^= world->hash >> 29;
}

void world_point(struct world *world, enum point point)
{
    world->tally->points[point]++;
}

bool world_calm(const struct world *world)
{
    return world->last_fault_ns == HF__NEVER || world->now_ns > world->last_fault_ns + CALM_NS;
}

/* --- phases --- */

static bool all_quiet(const struct world *world)
{
    for (int i = 0; i < world->plan.clients; i++) {
        const struct client *client = &world->clients[i];

        for (int j = 0; client->state != CLIENT_DOWN && j < client->user_count; j++) {
            if (client->users[j].state != USER_IDLE)
                return false;
        }
    }
    return true;
}

static void blame(struct world *world)
{
    for (int i = 0; i < world->plan.clients; i++) {
        const struct client *client = &world->clients[i];

        for (int j = 0; client->state != CLIENT_DOWN && j < client->user_count; j++) {
            const struct user *user = &client->users[j];

            if (user->state != USER_IDLE)
                judge_violation(world, user->name, "client %d user %d never gets on (state %d)", i,
                                j, (int)user->state);
        }
    }
    judge_violation(world, -1, "the end does not come");
}

static void close_all(struct world *world)
{
    world->phase = PHASE_CLOSING;
    for (int i = 0; i < world->plan.clients && !world->violated; i++) {
        if (world->clients[i].state == CLIENT_UP)
            client_close(&world->clients[i]);
    }
}

static bool all_closed(const struct world *world)
{
    for (int i = 0; i < world->plan.clients; i++) {
        if (world->clients[i].state != CLIENT_DOWN)
            return false;
    }
    return true;
}

/* True: it is over. */
static bool advance_phase(struct world *world)
{
    if (world->phase == PHASE_SAFETY && world->now_ns >= HEAL_AT_NS) {
        world->phase = PHASE_HEALING;
        world->grants_in_phase = 0;
        fault_heal(world);
    } else if (world->phase == PHASE_HEALING && world->now_ns >= DRAIN_AT_NS) {
        world->phase = PHASE_DRAINING;
        if (world->grants_in_phase == 0)
            judge_violation(world, -1, "nobody got anything while everything worked");
    } else if (world->phase == PHASE_DRAINING && all_quiet(world)) {
        close_all(world);
    } else if (world->phase == PHASE_CLOSING && all_closed(world)) {
        judge_end(world);
        return true;
    }
    if (world->now_ns >= END_BY_NS)
        blame(world);
    if (world_calm(world))
        judge_orphans(world);
    calendar_add(world, (struct event){ .at_ns = world->now_ns + LOOK_NS, .kind = EVENT_PHASE });
    return false;
}

/* --- events --- */

static void wake_user(struct client *client, size_t index)
{
    struct world *world = client->world;
    struct user *user = &client->users[index];

    if (client->state == CLIENT_DOWN || (int)index >= client->user_count ||
        user->next_ns != world->now_ns)
        return;
    if (!client_runs(client)) {
        user_plan(client, user, client->paused_until - world->now_ns + world_between(world, 1, MS));
        return;
    }
    if (client->stale_ns > 0)
        client_step(client);
    if (!world->violated && client->state != CLIENT_DOWN)
        user_act(client, user);
}

static void notice(struct world *world, uint64_t serial)
{
    struct session *session = &world->sessions[serial - 1];
    const struct client *client = &world->clients[session->client];

    /* Who is stopped has not heard of the cut: the store notices it by the silence, not before. */
    if (!session->known && client->life == session->life && client->state != CLIENT_DOWN) {
        calendar_add(world, (struct event){ .at_ns = world->now_ns + 20 * MS,
                                            .kind = EVENT_NOTICE,
                                            .what = serial });
        return;
    }
    session->cut_at_store = true;
    store_notice(world, &world->stores[session->store], serial);
}

static void step(struct world *world, struct client *client)
{
    if (client->step_at_ns != world->now_ns)
        return;
    client->step_at_ns = HF__NEVER;
    if (client_runs(client))
        client_step(client);
}

static void resume(struct world *world, const struct event *event)
{
    struct client *client = &world->clients[event->who];

    if (client->state != CLIENT_DOWN && client->life == event->what)
        client_resume(client);
}

static void settle_store(struct world *world, struct store *store)
{
    for (int name = 0; name < world->plan.names; name++)
        store_settle(world, store, name, NULL);
    judge_exclusion(world);
}

static bool happen(struct world *world, const struct event *event)
{
    world_mix(world, event->at_ns ^ (uint64_t)event->kind << 56 ^ (uint64_t)event->who << 48);
    switch (event->kind) {
    case EVENT_STEP:
        step(world, &world->clients[event->who]);
        break;
    case EVENT_USER:
        wake_user(&world->clients[event->who], (size_t)event->what);
        break;
    case EVENT_LETTER:
        network_arrive(world, event->letter);
        break;
    case EVENT_FAULT:
        fault_strike(world);
        break;
    case EVENT_RESUME:
        resume(world, event);
        break;
    case EVENT_STORE_UP:
        world->stores[event->who].up = true;
        world->stores[event->who].up_since_ns = world->now_ns;
        TRACE(world, -1, "store %u is back", event->who);
        break;
    case EVENT_STORE_TIMER:
        settle_store(world, &world->stores[event->who]);
        break;
    case EVENT_NOTICE:
        notice(world, event->what);
        break;
    case EVENT_CLIENT_UP:
        if (world->phase != PHASE_CLOSING)
            client_start(world, (int)event->who);
        break;
    case EVENT_PHASE:
        return advance_phase(world);
    }
    return false;
}

static void begin(struct world *world, uint64_t seed, int kind)
{
    clear(world);
    world->seed = seed;
    world->dice.state = seed;
    world->dice.state = dice_roll(&world->dice); /* so that no seed is the tail of another */
    world->now_ns = 0;
    world->phase = PHASE_SAFETY;
    world->last_fault_ns = HF__NEVER;
    world->calendar.next_order = 0;
    world->grants = world->grants_in_phase = 0;
    world->hash = seed;
    world->violated = false;
    memset(world->clients, 0, sizeof(world->clients));
    memset(world->window_ns, 0, sizeof(world->window_ns));
    memset(world->fence_any, 0, sizeof(world->fence_any));
    memset(world->fence_exclusive, 0, sizeof(world->fence_exclusive));
    memset(world->last_shared_count, 0, sizeof(world->last_shared_count));
    fault_draw(world, kind);
    world->url.server_count = world->plan.stores;
    for (size_t i = 0; i < world->plan.stores; i++)
        store_start(world, i);
    fault_begin(world);
    for (int i = 0; i < world->plan.clients; i++)
        client_start(world, i);
    calendar_add(world,
                 (struct event){ .at_ns = world_between(world, 0, 8 * S), .kind = EVENT_FAULT });
    calendar_add(world, (struct event){ .at_ns = LOOK_NS, .kind = EVENT_PHASE });
}

bool world_run(struct world *world, uint64_t seed, int kind)
{
    struct event event;
    bool over = false;

    begin(world, seed, kind);
    for (uint32_t count = 0; !over && !world->violated; count++) {
        if (!calendar_take(world, &event)) {
            judge_violation(world, -1, "nothing happens any more");
            break;
        }
        assert(event.at_ns >= world->now_ns);
        world->now_ns = event.at_ns;
        over = happen(world, &event);
        world->tally->events++;
        if (count >= EVENTS_MAX)
            judge_violation(world, -1, "more than %d events", EVENTS_MAX);
    }
    world->tally->seeds++;
    world->tally->kinds[world->plan.kind]++;
    return !world->violated;
}
