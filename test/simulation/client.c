/* client.c: a process: the real core, its memory, its clock, its life and its death.
 *
 * It is stepped when something arrives, when something is due, and after its users have asked for
 * something; each time a little later than it could be. While it is paused nothing of it runs, but
 * letters arrive and its clock goes on; the step after a pause may go on with the clock as it was
 * read before. A crash takes its memory away without a word; a close is orderly. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "simulation.h"

#define JITTER_NS (200 * HF__NS_PER_US)

struct block {
    struct block *next;
    struct block *prev;
    size_t bytes;
    size_t unused; /* keeps what follows aligned */
};

/* --- memory and chance, as the core gets them --- */

static void *allocate(void *context, size_t bytes)
{
    struct client *client = context;
    struct world *world = client->world;
    struct block *block;

    if (client->state == CLIENT_UP && fault_on(world, FAULT_ALLOCATION) &&
        world_chance(world, 10)) {
        fault_count(world, FAULT_ALLOCATION);
        return NULL;
    }
    block = calloc(1, sizeof(*block) + bytes);
    if (!block)
        abort();
    block->bytes = bytes;
    block->next = client->blocks;
    if (client->blocks)
        client->blocks->prev = block;
    client->blocks = block;
    client->block_count++;
    return block + 1;
}

/* Spoiled, so that whoever still reads it is found out. */
static void release(void *context, void *memory)
{
    struct client *client = context;
    struct block *block;

    if (!memory)
        return;
    block = (struct block *)memory - 1;
    if (block->next)
        block->next->prev = block->prev;
    if (block->prev)
        block->prev->next = block->next;
    else
        client->blocks = block->next;
    client->block_count--;
    memset(memory, 0xdd, block->bytes);
    free(block);
}

static void draw(void *context, void *out_bytes, size_t bytes)
{
    struct client *client = context;

    dice_fill(&client->dice, out_bytes, bytes);
}

static void trace(void *context, const char *line)
{
    struct client *client = context;
    int name = line[0] == 'n' && line[2] == ':' ? line[1] - '0' : -1;

    report_line(client->world, name, "client %d: %s", client->index, name >= 0 ? line + 4 : line);
}

/* --- life --- */

uint64_t client_now(const struct client *client)
{
    return world_clock(&client->clock, client->world->now_ns);
}

bool client_runs(const struct client *client)
{
    return client->state != CLIENT_DOWN && client->paused_until <= client->world->now_ns;
}

static void start_core(struct client *client)
{
    struct world *world = client->world;
    char error[HF__ERROR_BYTES];
    uint64_t skew_us = world_between(world, 0, 4000000);
    struct hf__core_options options = {
        .url = &world->url,
        .purpose = "simulation",
        .lease_ns = world->plan.lease_ns,
        .connect_ns = CONNECT_NS,
        .caller_driven = client->caller_driven,
        .now_ns = client_now(client),
        .wall_us = 1000000000 + world->now_ns / HF__NS_PER_US + skew_us,
    };
    int status;

    client->core = calloc(1, sizeof(*client->core));
    if (!client->core)
        abort();
    client->core->recipe = engine_recipe(world->plan.kind);
    client->core->driver.engine = &engine_simulated;
    status = hf__core_init(client->core, &client->env, &options, error);
    assert(status == HF_OK);
    (void)status;
}

void client_start(struct world *world, int index)
{
    struct client *client = &world->clients[index];

    assert(client->state == CLIENT_DOWN);

    client->world = world;
    client->index = index;
    client->life++;
    client->dice.state = dice_roll(&world->dice);
    client->caller_driven = world_chance(world, 40);
    client->eager = world_chance(world, 30);
    client->step_at_ns = HF__NEVER;
    client->paused_until = 0;
    client->stale_ns = 0;
    client->seen_ns = client_now(client);
    client->acquired = client->busy = client->timed_out = client->handed_on = 0;
    memset(client->fence_seen, 0, sizeof(client->fence_seen));
    client->env = (struct hf__env){
        .allocate = allocate,
        .release = release,
        .random = draw,
        .trace = world->trace ? trace : NULL,
        .memory_context = client,
        .random_context = client,
        .trace_context = client,
    };
    start_core(client);
    client->state = CLIENT_UP;
    /* Whoever is refused by a quorum asks all its stores again: a few make as much traffic as
     * many. */
    client->user_count = (int)world_between(world, 1, world->plan.stores > 1 ? 2 : USERS_MAX);
    for (int i = 0; i < client->user_count; i++) {
        client->users[i] = (struct user){ .index = i };
        user_plan(client, &client->users[i], world_between(world, 0, world->plan.think_ns));
    }
    client_plan_step(client, world->now_ns);
    TRACE(world, -1, "client %d begins, life %u", index, client->life);
}

static void end(struct client *client)
{
    struct world *world = client->world;

    free(client->core);
    client->core = NULL;
    client->state = CLIENT_DOWN;
    client->step_at_ns = HF__NEVER;
    network_cut_client(world, client);
    memset(client->serials, 0, sizeof(client->serials));
    if (world->plan.kind == KIND_KERNEL)
        store_bury(world, &world->stores[0], client->index);
    if (world->phase != PHASE_CLOSING)
        calendar_add(world,
                     (struct event){ .at_ns = world->now_ns + world_between(world, 50 * MS, 3 * S),
                                     .kind = EVENT_CLIENT_UP,
                                     .who = (uint32_t)client->index });
}

void client_crash(struct client *client)
{
    struct hf__driver *driver = &client->core->driver;

    TRACE(client->world, -1, "client %d crashes", client->index);
    for (size_t lane = 0; lane < HF__LANES; lane++) {
        for (size_t i = 0; i < STORES_MAX; i++) {
            if (driver->links[lane][i].conn)
                engine_drop(driver->links[lane][i].conn);
        }
    }
    while (client->blocks)
        release(client, client->blocks + 1);
    end(client);
}

void client_pause(struct client *client, uint64_t for_ns, bool in_step)
{
    struct world *world = client->world;

    TRACE(world, -1, "client %d is stopped for %llu ms", client->index,
          (unsigned long long)(for_ns / MS));
    client->stale_ns = in_step ? client_now(client) : 0;
    client->paused_until = world->now_ns + for_ns;
    calendar_add(world, (struct event){ .at_ns = client->paused_until,
                                        .kind = EVENT_RESUME,
                                        .who = (uint32_t)client->index,
                                        .what = client->life });
}

void client_resume(struct client *client)
{
    TRACE(client->world, -1, "client %d goes on", client->index);
    client->paused_until = 0;
    client->step_at_ns = HF__NEVER;
    judge_exclusion(client->world); /* its users may look at the clock before anything else runs */
    client_plan_step(client, client->world->now_ns + world_between(client->world, 0, MS));
}

void client_close(struct client *client)
{
    TRACE(client->world, -1, "client %d closes", client->index);
    client->state = CLIENT_CLOSING;
    client->close_by_ns = client_now(client) + CONNECT_NS;
    hf__core_close(client->core, client_now(client));
    client_step(client);
}

/* --- steps --- */

void client_plan_step(struct client *client, uint64_t at_ns)
{
    if (at_ns < client->world->now_ns)
        at_ns = client->world->now_ns;
    if (client->step_at_ns <= at_ns)
        return;
    client->step_at_ns = at_ns;
    calendar_add(
        client->world,
        (struct event){ .at_ns = at_ns, .kind = EVENT_STEP, .who = (uint32_t)client->index });
}

void client_wake(struct client *client)
{
    if (client_runs(client))
        client_plan_step(client,
                         client->world->now_ns + world_between(client->world, 0, JITTER_NS));
}

static void plan_next(struct client *client)
{
    struct world *world = client->world;
    struct hf__pollset set;
    uint64_t at_ns;

    hf__pollset_init(&set);
    hf__driver_pollset(&client->core->driver, HF__LANE_CALL, &set);
    hf__driver_pollset(&client->core->driver, HF__LANE_KEEP, &set);
    hf__pollset_until(&set, hf__core_deadline(client->core));
    if (client->state == CLIENT_CLOSING)
        hf__pollset_until(&set, client->close_by_ns);
    if (!hf__list_empty(&client->core->notes)) /* somebody will fetch them soon */
        client_plan_step(client, world->now_ns + world_between(world, 0, 20 * MS));
    if (set.deadline_ns == HF__NEVER)
        return;
    at_ns = world_when(&client->clock, set.deadline_ns);
    if (at_ns < world->now_ns)
        at_ns = world->now_ns;
    client_plan_step(client, at_ns + world_between(world, 0, JITTER_NS));
}

static void fetch_events(struct client *client)
{
    struct hf_event event;
    struct hf_grant *ended;

    while (hf__events_take(client->core, &event, &ended)) {
        user_event(client, &event);
        if (ended)
            hf__hold_free_grant(ended);
    }
}

static void look(struct client *client)
{
    for (int i = 0; i < client->user_count && !client->world->violated; i++)
        user_look(client, &client->users[i]);
}

static bool all_idle(const struct client *client)
{
    for (int i = 0; i < client->user_count; i++) {
        if (client->users[i].state != USER_IDLE)
            return false;
    }
    return true;
}

static void finish(struct client *client)
{
    uint64_t now_ns = client_now(client);
    bool late = now_ns >= client->close_by_ns;

    if (late) {
        hf__core_forsake(client->core);
        fetch_events(client);
        look(client);
    }
    if (!all_idle(client) || (!late && !hf__core_idle(client->core)))
        return;
    TRACE(client->world, -1, "client %d is closed", client->index);
    fetch_events(client);
    judge_done(client);
    hf__core_done(client->core);
    if (client->block_count > 0)
        judge_violation(client->world, -1, "client %d leaks %zu blocks", client->index,
                        client->block_count);
    end(client);
}

void client_step(struct client *client)
{
    struct world *world = client->world;
    bool stale = client->stale_ns > 0;
    uint64_t now_ns = stale ? client->stale_ns : client_now(client);

    assert(client_runs(client));

    client->stale_ns = 0;
    client->seen_ns = now_ns;
    hf__core_step(client->core, now_ns);
    look(client);
    if (world_chance(world, 60) || client->state == CLIENT_CLOSING) {
        fetch_events(client);
        look(client);
    }
    if (!stale)
        judge_client(client, now_ns);
    judge_exclusion(world);
    if (world->violated)
        return;
    if (client->state == CLIENT_CLOSING)
        finish(client);
    if (client->state != CLIENT_DOWN)
        plan_next(client);
}
