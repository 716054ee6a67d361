/* core.c: what is due in this client, and what did the stores answer?
 *
 * hf__core_step fetches every reply that the connections have, hands each to the turn or operation
 * that asked, then does what is due by the time that it was handed: renewals, ends of validity,
 * ends of waits, questions to be put again. It goes round until neither is left, because an answer
 * may make something due, and what is done may be answered at once.
 *
 * What can go wrong: a reply for a turn that has ended finds nobody and is dropped; so does one of
 * an earlier life of the same slot (the id carries a generation). */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "core/core.h"

#define ROUNDS_MAX 1000000 /* of one step: beyond it two parties answer each other without end */
#define DUE_MAX    256     /* between two looks for answers */

int hf__core_init(struct hf__core *core, const struct hf__env *env,
                  const struct hf__core_options *options, char error[HF__ERROR_BYTES])
{
    int status;

    hf__list_init(&core->notes);
    hf__list_init(&core->claims);
    hf__list_init(&core->operations);
    hf__list_init(&core->waiting_turns);
    hf__list_init(&core->idle_names);
    hf__list_init(&core->free_holds);
    hf__list_init(&core->free_claims);
    hf__list_init(&core->free_grants);
    hf__heap_init(&core->turn_timers, env);
    hf__heap_init(&core->claim_timers, env);
    hf__env_random(env, &core->hash_seed, sizeof(core->hash_seed));
    hf__env_random(env, &core->random_state, sizeof(core->random_state));
    core->random_state |= 1;
    core->env = env;
    core->next_number = 1;
    core->refresh_at_ns = HF__NEVER;
    core->connect_ns = options->connect_ns;
    core->lease_ns = options->lease_ns;
    core->stats.struct_size = sizeof(core->stats);
    hf__text_copy(core->purpose, sizeof(core->purpose), options->purpose);

    hf__env_random(env, &core->driver.client_id, sizeof(core->driver.client_id));
    core->driver.env = env;
    core->driver.purpose = core->purpose;
    core->driver.lease_ns = options->lease_ns;
    core->driver.random_state = &core->random_state;
    core->driver.caller_driven = options->caller_driven;
    core->driver.proposal_offset_us = options->wall_us - options->now_ns / HF__NS_PER_US;
    core->driver.recipe = core->recipe;
    assert(core->recipe && core->driver.engine);

    core->driver.url = hf__env_new(env, sizeof(*core->driver.url));
    if (!core->driver.url)
        return hf__error_set(error, HF_ENOMEM, "out of memory");
    *core->driver.url = *options->url;
    status = hf__driver_open(&core->driver, options->now_ns);
    if (status < 0)
        return hf__error_set(error, status, "%s", hf__driver_error(&core->driver));
    return HF_OK;
}

void hf__core_done(struct hf__core *core)
{
    hf__driver_close(&core->driver);
    hf__heap_done(&core->turn_timers); /* before the turns that lie in it */
    hf__heap_done(&core->claim_timers);
    HF__LIST_FOR(node, &core->operations)
    {
        hf__operation_free(core, HF__LIST_ENTRY(node, struct hf__operation, place));
    }
    HF__LIST_FOR(hold, &core->free_holds)
    {
        hf__env_free(core->env, HF__LIST_ENTRY(hold, struct hf__hold, place));
    }
    HF__LIST_FOR(claim, &core->free_claims)
    {
        hf__env_free(core->env, HF__LIST_ENTRY(claim, struct hf_claim, place));
    }
    HF__LIST_FOR(grant, &core->free_grants)
    {
        hf__env_free(core->env, HF__LIST_ENTRY(grant, struct hf_grant, place));
    }
    for (size_t i = 0; i < core->turn_count; i++)
        hf__env_free(core->env, core->turns[i]);
    hf__env_free(core->env, core->turns);
    hf__names_done(core);
}

/* A turn that has ended no longer keeps others of this client in the local queue. They keep the
 * name alive. */
static void serve_behind(struct hf__core *core, uint64_t id, struct hf__name *name, uint64_t now_ns)
{
    const struct hf__turn *turn = hf__turn_find(core, id);

    if (!turn || turn->state == HF__TURN_LEAVING || turn->state == HF__TURN_LOST)
        hf__claim_serve(core, name, now_ns);
}

static void hear(struct hf__core *core, struct hf__reply *reply, size_t store, uint64_t now_ns)
{
    struct hf__turn *turn;
    struct hf__name *name;
    bool queued;

    if (reply->ticket.kind == HF__REQUEST_LIST || reply->ticket.kind == HF__REQUEST_BREAK) {
        hf__operation_hear(core, reply);
        return;
    }
    if (hf__request_musters(reply->ticket.kind)) {
        hf__muster_hear(&core->driver, store, reply);
        return;
    }
    turn = hf__turn_find(core, reply->ticket.claim_id);
    if (!turn)
        return;
    if (!hf__driver_count(&core->driver, &turn->ballot, store, reply))
        return;
    name = turn->name;
    queued = core->recipe->hands_on && !hf__list_empty(&name->waiting);
    hf__hear_reply(turn, reply, now_ns);
    if (queued)
        serve_behind(core, reply->ticket.claim_id, name, now_ns);
}

static void do_turn(struct hf__core *core, struct hf__turn *turn, uint64_t now_ns)
{
    struct hf__name *name = turn->name;
    uint64_t id = turn->id;
    bool queued = core->recipe->hands_on && !hf__list_empty(&name->waiting);

    hf__heap_remove(&core->turn_timers, &turn->timer);
    hf__turn_due(turn, now_ns);
    if (queued)
        serve_behind(core, id, name, now_ns);
}

/* All waiting turns at once, so that an engine can ask about all of them in one request. */
static void refresh(struct hf__core *core, uint64_t now_ns)
{
    uint64_t lease_ns = HF__NEVER;

    if (!core->recipe->leases || hf__list_empty(&core->waiting_turns)) {
        core->refresh_at_ns = HF__NEVER;
        return;
    }
    HF__LIST_FOR(node, &core->waiting_turns)
    {
        struct hf__turn *turn = HF__LIST_ENTRY(node, struct hf__turn, waiting);

        if (turn->lease_ns < lease_ns)
            lease_ns = turn->lease_ns;
    }
    if (core->refresh_at_ns == HF__NEVER || core->refresh_at_ns > now_ns + lease_ns / 3) {
        core->refresh_at_ns = now_ns + lease_ns / 3;
        return;
    }
    if (now_ns < core->refresh_at_ns)
        return;

    core->refresh_at_ns = now_ns + lease_ns / 3;
    HF__LIST_FOR(again, &core->waiting_turns)
    {
        hf__turn_refresh(HF__LIST_ENTRY(again, struct hf__turn, waiting), now_ns);
    }
}

static bool do_due(struct hf__core *core, uint64_t now_ns)
{
    struct hf__heap_node *turn = hf__heap_first(&core->turn_timers);
    struct hf__heap_node *claim = hf__heap_first(&core->claim_timers);

    /* Turns first: what a store refused is heard before a wait that ends at the same instant. */
    if (turn && turn->at_ns <= now_ns) {
        do_turn(core, HF__LIST_ENTRY(turn, struct hf__turn, timer), now_ns);
        return true;
    }
    if (claim && claim->at_ns <= now_ns) {
        hf__heap_remove(&core->claim_timers, claim);
        hf__claim_due(HF__LIST_ENTRY(claim, struct hf_claim, timer), now_ns);
        return true;
    }
    return false;
}

/* All at once, so that an engine can ask about all of them in one request. */
static bool do_all_due(struct hf__core *core, uint64_t now_ns)
{
    uint32_t done = 0;

    while (done < DUE_MAX && do_due(core, now_ns))
        done++;
    return done > 0;
}

bool hf__core_fetch(struct hf__core *core, const struct hf__answer *answer, uint64_t now_ns)
{
    struct hf__reply reply;
    size_t store = 0;

    while (answer->status == HF_PENDING &&
           hf__driver_advance(&core->driver, now_ns, &reply, &store) > 0)
        hear(core, &reply, store, now_ns);
    return answer->status != HF_PENDING;
}

void hf__core_step(struct hf__core *core, uint64_t now_ns)
{
    struct hf__reply reply;
    size_t store = 0;

    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        reply.kind = HF__REPLY_FAILED;
        if (hf__driver_advance(&core->driver, now_ns, &reply, &store) > 0) {
            hear(core, &reply, store, now_ns);
            continue;
        }
        if (do_all_due(core, now_ns))
            continue;
        refresh(core, now_ns);
        hf__muster_step(&core->driver, now_ns);
        hf__operation_step(core, now_ns);
        if (!core->fresh)
            return;
        hf__claim_set_timer(core->fresh);
        core->fresh = NULL; /* once more: its wait may be over, if we were stopped since it asked */
    }
    assert(!"a step that does not end");
}

uint64_t hf__core_deadline(const struct hf__core *core)
{
    const struct hf__heap_node *turn = hf__heap_first(&core->turn_timers);
    const struct hf__heap_node *claim = hf__heap_first(&core->claim_timers);
    uint64_t deadline_ns = hf__driver_deadline(&core->driver);

    if (turn && turn->at_ns < deadline_ns)
        deadline_ns = turn->at_ns;
    if (claim && claim->at_ns < deadline_ns)
        deadline_ns = claim->at_ns;
    if (core->refresh_at_ns < deadline_ns)
        deadline_ns = core->refresh_at_ns;
    if (!hf__list_empty(&core->operations) && hf__operation_deadline(core) < deadline_ns)
        deadline_ns = hf__operation_deadline(core);
    return deadline_ns;
}

static void close_hold(struct hf__hold *hold, uint64_t now_ns)
{
    struct hf__turn *turn = hold->turn;

    if (turn && turn->state != HF__TURN_LEAVING)
        hf__turn_leave(turn, now_ns);
    if (!hold->lost_cause) {
        hold->lost_cause = HF__CAUSE_CLOSED;
        atomic_store(&hold->valid_until_ns, 0);
    }
}

void hf__core_close(struct hf__core *core, uint64_t now_ns)
{
    core->closing = true;
    HF__LIST_FOR(node, &core->claims)
    {
        hf__claim_cancel(HF__LIST_ENTRY(node, struct hf_claim, member), now_ns);
    }
    for (size_t i = 0; i < core->bucket_count; i++) {
        for (struct hf__name *name = core->buckets[i]; name; name = name->chain) {
            HF__LIST_FOR(hold, &name->holds)
            {
                close_hold(HF__LIST_ENTRY(hold, struct hf__hold, place), now_ns);
            }
        }
    }
    HF__LIST_FOR(place, &core->operations)
    {
        struct hf__operation *operation = HF__LIST_ENTRY(place, struct hf__operation, place);

        if (operation->answer.status == HF_PENDING)
            hf__events_answer(core, &operation->answer, HF_ECANCELLED);
    }
}

bool hf__core_idle(const struct hf__core *core)
{
    for (size_t i = 0; i < core->turn_count; i++) {
        if (core->turns[i]->name)
            return false;
    }
    return true;
}

void hf__core_forsake(struct hf__core *core)
{
    for (size_t i = 0; i < core->turn_count; i++) {
        struct hf_grant *leaver = core->turns[i]->leaver;

        core->turns[i]->leaver = NULL;
        if (leaver)
            hf__hold_answer(leaver, HF_EUNKNOWN);
    }
}
