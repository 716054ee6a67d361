/* fault.c: what goes wrong, and when?
 *
 * A seed draws a few kinds of faults, not all, so that each is sometimes seen undisturbed by the
 * others. Some strike at an instant, some stay on for a while. All end when the healing begins. */
#include <assert.h>

#include "simulation.h"

#define BIT(fault) (1u << FAULT_##fault)

#define DRIFT_PPM_MAX 4800 /* two clocks differ by less than the margin of 1 % */

static uint32_t possible(enum kind kind)
{
    uint32_t process = BIT(CLIENT_CRASH) | BIT(CLIENT_CLOSE) | BIT(PAUSE) | BIT(PAUSE_IN_STEP) |
                       BIT(REFUSED_SUBMIT) | BIT(ALLOCATION) | BIT(STORE_FAILS);
    uint32_t stream = process | BIT(DELAY) | BIT(CUT_BEFORE) | BIT(CUT_AFTER) | BIT(CUT_LATE) |
                      BIT(PARTITION) | BIT(DRIFT);
    uint32_t network = stream | BIT(LOSS) | BIT(NEWS_LOSS) | BIT(DUPLICATE) | BIT(STORE_CRASH);

    switch (kind) {
    case KIND_KERNEL:
        return process;
    case KIND_QUEUE:
    case KIND_LEASE:
        return network | BIT(STORE_AMNESIA);
    case KIND_CONNECTION:
        return stream | BIT(STORE_AMNESIA);
    case KIND_QUORUM3:
    case KIND_QUORUM5:
        return network | BIT(STORE_AMNESIA);
    }
    assert(!"a kind that does not exist");
    return 0;
}

static uint32_t draw_faults(struct world *world)
{
    uint32_t choice = possible(world->plan.kind);
    uint32_t drawn = 0;
    uint64_t wanted = world_between(world, 1, 4);

    for (uint64_t i = 0; i < wanted; i++) {
        enum fault fault;

        do
            fault = (enum fault)world_between(world, 0, FAULTS - 1);
        while (!(choice & 1u << fault));
        drawn |= 1u << fault;
    }
    return drawn;
}

static enum kind draw_kind(struct world *world, int kind)
{
    /* The recipes with the most in them come most often. */
    static const enum kind kinds[] = { KIND_KERNEL, KIND_QUEUE,      KIND_QUEUE,   KIND_QUEUE,
                                       KIND_LEASE,  KIND_CONNECTION, KIND_QUORUM3, KIND_QUORUM5 };
    uint64_t place = world_between(world, 0, sizeof(kinds) / sizeof(*kinds) - 1);

    return kind >= 0 ? (enum kind)kind : kinds[place];
}

static void draw_clock(struct world *world, struct timepiece *clock)
{
    bool drifts = (world->plan.faults & BIT(DRIFT)) != 0;

    clock->base_ns = 1000 * S + (world->plan.kind == KIND_KERNEL ? 0 : world_between(world, 0, S));
    clock->ppm = 0;
    if (!drifts)
        return;
    clock->ppm = (int64_t)world_between(world, 0, 2 * DRIFT_PPM_MAX) - DRIFT_PPM_MAX;
    if (world_chance(world, 50))
        clock->ppm = clock->ppm < 0 ? -DRIFT_PPM_MAX : DRIFT_PPM_MAX;
    fault_count(world, FAULT_DRIFT);
}

void fault_draw(struct world *world, int kind)
{
    struct plan *plan = &world->plan;

    plan->kind = draw_kind(world, kind);
    plan->faults = draw_faults(world);
    plan->stores = plan->kind == KIND_QUORUM5 ? 5 : plan->kind == KIND_QUORUM3 ? 3 : 1;
    plan->clients = (int)world_between(world, 3, plan->stores > 1 ? 4 : CLIENTS_MAX);
    plan->names = (int)world_between(world, 1, NAMES_MAX);
    plan->latency_ns = world_between(world, 100 * HF__NS_PER_US, 3 * MS);
    plan->lease_ns = world_between(world, 400 * MS, LEASE_NS_MAX / 2);
    plan->think_ns = world_between(world, 50 * MS, 4 * S);
    plan->hold_ns = world_between(world, 2 * MS, 300 * MS);
    plan->fault_gap_ns = world_between(world, 300 * MS, 6 * S);
    plan->news_grants = world_chance(world, 70);
    plan->wakes = world_chance(world, 60);
    plan->forgets_fences = world_chance(world, 50);
    plan->begins = world_chance(world, 50);
    plan->hurries = engine_recipe(plan->kind)->hands_on && world_chance(world, 15);
    if (plan->hurries)
        plan->names = NAMES_MAX;
    for (size_t i = 0; i < plan->stores; i++)
        draw_clock(world, &world->stores[i].clock);
    for (int i = 0; i < plan->clients; i++)
        draw_clock(world, &world->clients[i].clock);
}

bool fault_on(struct world *world, enum fault fault)
{
    return world->now_ns < world->window_ns[fault];
}

void fault_count(struct world *world, enum fault fault)
{
    world->tally->faults[fault]++;
}

static void lasts(struct world *world, uint64_t until_ns)
{
    if (world->last_fault_ns == HF__NEVER || until_ns > world->last_fault_ns)
        world->last_fault_ns = until_ns;
}

void fault_begin(struct world *world)
{
    for (size_t i = 0; world->plan.begins && world->plan.stores > 1 && i < world->plan.stores;
         i++) {
        uint64_t up_ns = world_between(world, 0, 10 * S);

        world->stores[i].up = false;
        calendar_add(world,
                     (struct event){ .at_ns = up_ns, .kind = EVENT_STORE_UP, .who = (uint32_t)i });
        lasts(world, up_ns);
    }
}

/* --- strikes --- */

static struct client *pick_client(struct world *world)
{
    struct client *client =
        &world->clients[world_between(world, 0, (uint64_t)world->plan.clients - 1)];

    return client->state == CLIENT_UP && client_runs(client) ? client : NULL;
}

static void open_window(struct world *world, enum fault fault)
{
    uint64_t for_ns = world_between(world, 100 * MS, world_chance(world, 30) ? 5 * S : S);

    world->window_ns[fault] = world->now_ns + for_ns;
    if (fault == FAULT_PARTITION) {
        world->partition_client = -1;
        world->partition_store = world_between(world, 0, world->plan.stores - 1);
        if (world_chance(world, 60))
            world->partition_client =
                (int)world_between(world, 0, (uint64_t)world->plan.clients - 1);
    }
    TRACE(world, -1, "%s from now on, for %llu ms", report_fault(fault),
          (unsigned long long)(for_ns / MS));
    lasts(world, world->window_ns[fault]);
}

static void cut(struct world *world, enum fault fault)
{
    const struct client *client = pick_client(world);
    size_t lane = world_between(world, 0, HF__LANES - 1);
    size_t store = world_between(world, 0, world->plan.stores - 1);

    if (!client || client->serials[lane][store] == 0)
        return;
    fault_count(world, fault);
    network_cut(world, client->serials[lane][store], fault);
}

/* A majority remembers. Who has forgotten all may do it again. */
static bool may_forget(const struct world *world, const struct store *store)
{
    size_t forgetful = 1;

    for (size_t i = 0; i < world->plan.stores; i++)
        forgetful += world->stores[i].doubted && !world->stores[i].is_founding;
    return world->now_ns <= HEAL_AT_NS - 6 * S &&
           (world->plan.stores == 1 || (store->doubted && !store->is_founding) ||
            2 * forgetful < world->plan.stores);
}

static void crash_store(struct world *world, bool forgets)
{
    struct store *store = &world->stores[world_between(world, 0, world->plan.stores - 1)];
    uint64_t down_ns = world_between(world, 20 * MS, 2 * S);

    if (!store->up || (forgets && !may_forget(world, store)))
        return;
    /* Whoever forgets who holds waits until nobody can: the longest lease there may be. Of a quorum
     * the others must see to that. */
    if (forgets && world->plan.stores > 1 && world_chance(world, 70))
        down_ns = world_between(world, MS, 60 * MS); /* back before anybody has noticed */
    if (forgets && world->plan.stores == 1)
        down_ns += LEASE_NS_MAX + LEASE_NS_MAX / 20;
    TRACE(world, -1, "store %zu crashes%s", store->index, forgets ? " and forgets" : "");
    fault_count(world, forgets ? FAULT_STORE_AMNESIA : FAULT_STORE_CRASH);
    store->up = false;
    store->epoch++;
    network_cut_store(world, store->index);
    if (forgets)
        store_forget(world, store, world->plan.forgets_fences || world->plan.stores > 1);
    store->doubted = store->doubted || (forgets && world->plan.stores > 1);
    store->is_founding = store->is_founding && !forgets;
    calendar_add(world, (struct event){ .at_ns = world->now_ns + down_ns,
                                        .kind = EVENT_STORE_UP,
                                        .who = (uint32_t)store->index });
    lasts(world, world->now_ns + down_ns);
}

static void pause(struct world *world, bool in_step)
{
    struct client *client = pick_client(world);
    uint64_t lease_ns = world->plan.lease_ns;
    uint64_t for_ns = world_between(world, MS, world_chance(world, 50) ? lease_ns : lease_ns * 3);

    if (!client)
        return;
    fault_count(world, in_step ? FAULT_PAUSE_IN_STEP : FAULT_PAUSE);
    client_pause(client, for_ns, in_step);
    lasts(world, world->now_ns + for_ns);
}

static void end_client(struct world *world, bool orderly)
{
    struct client *client = pick_client(world);

    if (!client)
        return;
    fault_count(world, orderly ? FAULT_CLIENT_CLOSE : FAULT_CLIENT_CRASH);
    if (orderly)
        client_close(client);
    else
        client_crash(client);
}

static void strike(struct world *world, enum fault fault)
{
    lasts(world, world->now_ns);
    switch (fault) {
    case FAULT_LOSS:
    case FAULT_NEWS_LOSS:
    case FAULT_DELAY:
    case FAULT_DUPLICATE:
    case FAULT_PARTITION:
    case FAULT_STORE_FAILS:
    case FAULT_REFUSED_SUBMIT:
    case FAULT_ALLOCATION:
        open_window(world, fault);
        return;
    case FAULT_CUT_BEFORE:
    case FAULT_CUT_AFTER:
    case FAULT_CUT_LATE:
        cut(world, fault);
        return;
    case FAULT_STORE_CRASH:
    case FAULT_STORE_AMNESIA:
        crash_store(world, fault == FAULT_STORE_AMNESIA);
        return;
    case FAULT_CLIENT_CRASH:
    case FAULT_CLIENT_CLOSE:
        end_client(world, fault == FAULT_CLIENT_CLOSE);
        return;
    case FAULT_PAUSE:
    case FAULT_PAUSE_IN_STEP:
        pause(world, fault == FAULT_PAUSE_IN_STEP);
        return;
    case FAULT_DRIFT:
        return;
    }
}

void fault_strike(struct world *world)
{
    enum fault fault;

    if (world->phase != PHASE_SAFETY)
        return;
    do
        fault = (enum fault)world_between(world, 0, FAULTS - 1);
    while (!(world->plan.faults & 1u << fault));
    strike(world, fault);
    calendar_add(world, (struct event){ .at_ns = world->now_ns +
                                                 world_between(world, MS, world->plan.fault_gap_ns),
                                        .kind = EVENT_FAULT });
}

/* What struck before ends by itself (a pause, a store that is down); nothing new begins. */
void fault_heal(struct world *world)
{
    for (size_t i = 0; i < FAULTS; i++)
        world->window_ns[i] = 0;
    lasts(world, world->now_ns);
}
