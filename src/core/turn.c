/* turn.c: the life of one claim at the store, as this client sees it. The one state machine.
 *
 * The happy path: idle, asking (CLAIM), perhaps waiting, held (RENEW now and then), leaving
 * (RELEASE), idle. Here are its states, its questions and what it does when time passes; what the
 * answers mean is in hear.c.
 *
 * What can go wrong:
 * - no answer, or a connection that died: the same question again, as the same claim, until
 *   somebody's time is up; then the caller is told what is known, and the turn is undone in the
 *   background;
 * - a renewal that fails: DOUBTED, tried again until the end of validity, never beyond;
 * - the end of validity: LOST, by our own clock, whether the store was reached or not;
 * - an answer to a question that was overtaken by another (its round has passed): not heard at all;
 * - a RELEASE without an answer: repeated until it is confirmed, or until the lease must have
 *   ended. */
#include <assert.h>
#include <string.h>

#include "core/core.h"

#define RENEW_NS_MAX (1 * HF__NS_PER_S)

#define TO(state) (1u << HF__TURN_##state)

/* clang-format off */
static const struct {
    const char *name;
    unsigned allowed; /* the states that may follow */
} rules[] = {
    [HF__TURN_IDLE]    = { "idle",    TO(ASKING) },
    [HF__TURN_ASKING]  = { "asking",  TO(ASKING) | TO(WAITING) | TO(HELD) | TO(LEAVING)
                                    | TO(IDLE) },
    [HF__TURN_WAITING] = { "waiting", TO(ASKING) | TO(WAITING) | TO(HELD) | TO(LEAVING)
                                    | TO(IDLE) },
    [HF__TURN_HELD]    = { "held",    TO(DOUBTED) | TO(LEAVING) | TO(LOST) },
    [HF__TURN_DOUBTED] = { "doubted", TO(HELD) | TO(LEAVING) | TO(LOST) },
    [HF__TURN_LEAVING] = { "leaving", TO(IDLE) },
    [HF__TURN_LOST]    = { "lost",    TO(LEAVING) | TO(IDLE) },
};
/* clang-format on */

const char *hf__turn_state_name(enum hf__turn_state state)
{
    return rules[state].name;
}

void hf__turn_move(struct hf__turn *turn, enum hf__turn_state next)
{
    assert(rules[turn->state].allowed & (1u << next));

    hf__trace(turn->core->env, "%s: %s -> %s (turn %llx)", turn->name->text,
              rules[turn->state].name, rules[next].name, (unsigned long long)turn->id);
    turn->state = next;
    if (next == HF__TURN_WAITING && hf__list_empty(&turn->waiting))
        hf__list_append(&turn->core->waiting_turns, &turn->waiting);
    if (next != HF__TURN_WAITING)
        hf__list_remove(&turn->waiting);
}

/* --- birth and death --- */

static int make_room(struct hf__core *core)
{
    size_t room = core->turn_room ? core->turn_room * 2 : 64;
    struct hf__turn **turns;

    if (core->turn_count < core->turn_room)
        return HF_OK;
    if (hf__heap_reserve(&core->turn_timers, room) < 0)
        return HF_ENOMEM;

    turns = hf__env_new(core->env, room * sizeof(struct hf__turn *));
    if (!turns)
        return HF_ENOMEM;
    if (core->turns)
        memcpy(turns, core->turns, core->turn_count * sizeof(struct hf__turn *));
    hf__env_free(core->env, core->turns);
    core->turns = turns;
    core->turn_room = room;
    return HF_OK;
}

static struct hf__turn *take_turn(struct hf__core *core)
{
    struct hf__turn *turn = core->free_turns;

    if (turn) {
        core->free_turns = turn->next_free;
        turn->next_free = NULL;
        return turn;
    }
    if (make_room(core) < 0)
        return NULL;
    turn = hf__env_new(core->env, sizeof(*turn));
    if (!turn)
        return NULL;

    turn->id = core->turn_count;
    turn->core = core;
    hf__list_init(&turn->place);
    hf__list_init(&turn->waiting);
    hf__heap_node_init(&turn->timer);
    core->turns[core->turn_count++] = turn;
    return turn;
}

/* Never used twice. Whoever sees one in a store could use it, so there it must be hard to guess. */
static void make_token(struct hf__turn *turn)
{
    if (!turn->core->recipe->local_tokens) {
        hf__env_random(turn->core->env, turn->token, sizeof(turn->token));
        return;
    }
    memcpy(turn->token, &turn->id, sizeof(turn->id));
    memcpy(turn->token + sizeof(turn->id), &turn->core->hash_seed, sizeof(turn->core->hash_seed));
}

static struct hf__turn *make(struct hf__core *core, struct hf__name *name,
                             const struct hf__terms *terms)
{
    struct hf__turn *turn = take_turn(core);

    if (!turn)
        return NULL;

    /* The upper half of the id tells this life from those before: a late answer finds nobody. */
    turn->id += 1ull << 32;
    turn->name = name;
    turn->claim = NULL;
    turn->hold = NULL;
    turn->leaver = NULL;
    turn->asker = NULL;
    turn->mode = terms->mode;
    turn->ends = (!core->recipe->in_session || core->recipe->ends_fixed) &&
                 (terms->fixed_lease || (terms->max_hold_ns > 0 && !core->recipe->leases));
    turn->lease_ns = terms->lease_ns;
    if (!core->recipe->leases && terms->max_hold_ns > 0 &&
        (!terms->fixed_lease || terms->max_hold_ns < terms->lease_ns))
        turn->lease_ns = terms->max_hold_ns;
    turn->grace_ns = terms->grace_ns;
    turn->calls = false;
    turn->others_wait = false;
    turn->lowered = false;
    turn->lowered_perhaps = false;
    turn->overtaken = false;
    turn->left_unanswered = false;
    turn->at_risk = false;
    turn->refused = HF_OK;
    turn->tries = 0;
    turn->handed_on = 0;
    turn->hand_on_until = UINT64_MAX;
    turn->heard_ns = 0;
    turn->stored_until_ns = 0;
    turn->proposal = 0;
    turn->extend_lease_ns = 0;
    turn->renew_at_ns = HF__NEVER;
    turn->ask_again_ns = HF__NEVER;
    turn->leave_until_ns = HF__NEVER;
    turn->valid_until_ns = 0;
    turn->fence = 0;
    turn->fence_passed = 0;
    turn->fence_floor = name->fence_seen;
    make_token(turn);
    hf__list_append(&name->turns, &turn->place);
    return turn;
}

int hf__turn_new(struct hf_claim *claim, struct hf__turn **out_turn)
{
    struct hf__turn *turn = make(claim->core, claim->name, &claim->terms);

    if (!turn)
        return HF_ENOMEM;
    turn->claim = claim;
    turn->calls = claim->terms.blocking;
    claim->turn = turn;
    *out_turn = turn;
    return HF_OK;
}

void hf__turn_free(struct hf__turn *turn)
{
    struct hf__core *core = turn->core;

    assert(!turn->claim && !turn->hold && !turn->leaver && !turn->asker);

    hf__turn_move(turn, HF__TURN_IDLE);
    hf__heap_remove(&core->turn_timers, &turn->timer);
    hf__list_remove(&turn->place);
    turn->asking = HF__REQUEST_NONE;
    turn->round++; /* nobody listens any more */
    hf__names_settle(core, turn->name);
    turn->name = NULL;
    turn->next_free = core->free_turns;
    core->free_turns = turn;
}

struct hf__turn *hf__turn_find(const struct hf__core *core, uint64_t id)
{
    size_t index = (size_t)(id & UINT32_MAX);

    if (index >= core->turn_count || core->turns[index]->id != id || !core->turns[index]->name)
        return NULL;
    return core->turns[index];
}

/* --- questions --- */

static uint64_t soonest(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

void hf__turn_set_timer(struct hf__turn *turn)
{
    uint64_t at_ns = turn->ask_again_ns;

    if (turn->refused)
        at_ns = 0;
    if (turn->state == HF__TURN_HELD || turn->state == HF__TURN_DOUBTED) {
        at_ns = soonest(at_ns, soonest(turn->renew_at_ns, turn->valid_until_ns));
        at_ns = soonest(at_ns, turn->hold->end_ns);
    }
    if (turn->leaver)
        at_ns = soonest(at_ns, turn->leave_until_ns);
    hf__heap_set(&turn->core->turn_timers, &turn->timer, at_ns);
}

static uint64_t answer_by(const struct hf__turn *turn, enum hf__request_kind kind, uint64_t now_ns)
{
    uint64_t most_ns = turn->lease_ns / HF__RENEWALS;
    uint64_t by_ns;

    /* What the keeper asks for it asks for again, rather soon; a caller would hear "unknown". */
    if (kind == HF__REQUEST_RENEW && !turn->asker)
        return now_ns + soonest(turn->lease_ns / 6, RENEW_NS_MAX);

    by_ns = now_ns + soonest(most_ns, HF__ASK_NS_MAX);
    if (turn->claim && !turn->claim->heard_busy)
        by_ns = soonest(by_ns, turn->claim->reach_until_ns);
    return by_ns;
}

/* A request that may have reached the store at any time up to its deadline. */
static void note_stored(struct hf__turn *turn, const struct hf__request *request)
{
    uint64_t lease_ns = request->lease_ns + request->lease_ns / 50;
    uint64_t until_ns = request->deadline_ns + lease_ns;
    const struct hf__recipe *recipe = turn->core->recipe;

    /* What lives with its connection is kept as long as others on that connection are served. */
    if ((!recipe->leases && !turn->ends) || recipe->pattern == HF__PATTERN_CONNECTION ||
        recipe->in_session)
        until_ns = HF__NEVER;
    if (until_ns > turn->stored_until_ns)
        turn->stored_until_ns = until_ns;
}

/* Calls for whoever blocks, which polls them itself; everything else is the keeper's. A RELEASE
 * must not overtake the CLAIM that it undoes: it travels on the same connection, unless the CLAIM
 * was answered. */
static enum hf__lane lane_of(const struct hf__turn *turn, enum hf__request_kind kind)
{
    bool calls = turn->calls;

    if (kind == HF__REQUEST_RENEW || kind == HF__REQUEST_INSPECT)
        return HF__LANE_KEEP;
    if (kind == HF__REQUEST_DOWNGRADE)
        calls = true;
    if (kind == HF__REQUEST_RELEASE && turn->leaver)
        calls = !turn->leaver->announces;
    if (kind == HF__REQUEST_RELEASE && turn->ballot.rejoining)
        calls = false; /* behind the renewal by which a store may take it again */
    return calls ? HF__LANE_CALL : HF__LANE_KEEP;
}

void hf__turn_send(struct hf__turn *turn, enum hf__request_kind kind, uint64_t now_ns)
{
    struct hf__core *core = turn->core;
    struct hf_claim *claim = turn->claim;
    struct hf__request request = {
        .ticket = { .kind = kind, .round = ++turn->round, .claim_id = turn->id, .sent_ns = now_ns },
        .name = turn->name->text,
        .name_bytes = turn->name->bytes,
        .token = turn->token,
        .mode = turn->mode,
        .queueing = claim && claim->terms.wait_ms != 0,
        .blocking = claim && claim->terms.blocking,
        .ends = turn->ends,
        .shorten = turn->extend_lease_ns > 0,
        .crowded = turn->others_wait,
        .lease_ns = turn->extend_lease_ns > 0 ? turn->extend_lease_ns : turn->lease_ns,
        .grace_ns = turn->grace_ns,
        .fence = kind == HF__REQUEST_CLAIM ? turn->proposal : turn->fence,
        .purpose = claim ? claim->terms.purpose : "",
        .deadline_ns = answer_by(turn, kind, now_ns),
    };

    if (turn->asker && turn->asking == kind)
        turn->overtaken = true;
    turn->asking = kind;
    turn->asked_ns = now_ns;
    turn->asked_lease_ns = request.lease_ns;
    turn->ask_again_ns = HF__NEVER;
    if (kind != HF__REQUEST_RELEASE)
        note_stored(turn, &request);
    turn->refused = hf__driver_submit(&core->driver, lane_of(turn, kind), &request, &turn->ballot);
}

void hf__turn_ask(struct hf__turn *turn, uint64_t now_ns)
{
    assert(turn->claim && turn->claim->turn == turn);

    hf__turn_move(turn, HF__TURN_ASKING);
    hf__turn_send(turn, HF__REQUEST_CLAIM, now_ns);
    hf__turn_set_timer(turn);
}

void hf__turn_refresh(struct hf__turn *turn, uint64_t now_ns)
{
    assert(turn->state == HF__TURN_WAITING);

    if (turn->ask_again_ns != HF__NEVER)
        return; /* it will ask by itself */
    hf__turn_send(turn, HF__REQUEST_INSPECT, now_ns);
    hf__turn_set_timer(turn);
}

void hf__turn_leave(struct hf__turn *turn, uint64_t now_ns)
{
    assert(turn->state != HF__TURN_LEAVING && turn->state != HF__TURN_IDLE);

    if (turn->claim)
        turn->claim->turn = NULL;
    turn->claim = NULL;
    if (turn->hold)
        turn->hold->turn = NULL;
    turn->hold = NULL;
    if (turn->asker)
        hf__events_answer(turn->core, &turn->asker->answer, HF_ELOST);
    turn->asker = NULL;
    turn->tries = 0;
    turn->extend_lease_ns = 0;
    turn->ballot.stragglers = 0;
    turn->leave_until_ns = now_ns + turn->core->connect_ns;
    hf__turn_move(turn, HF__TURN_LEAVING);
    hf__turn_send(turn, HF__REQUEST_RELEASE, now_ns);
    hf__turn_set_timer(turn);
}

/* 1: done; otherwise nothing has happened. */
static int send_prompt(struct hf__turn *turn, enum hf__request_kind kind, uint64_t now_ns,
                       uint64_t *out_fence)
{
    struct hf__request request = {
        .ticket = { .kind = kind, .round = ++turn->round, .claim_id = turn->id, .sent_ns = now_ns },
        .name = turn->name->text,
        .name_bytes = turn->name->bytes,
        .token = turn->token,
        .mode = turn->mode,
        .lease_ns = turn->lease_ns,
        .fence = turn->fence,
        .prompt = out_fence,
    };

    return hf__driver_prompt(&turn->core->driver, &request);
}

struct hf__turn *hf__turn_try(struct hf__core *core, struct hf__name *name,
                              const struct hf__terms *terms, uint64_t now_ns, uint64_t *out_fence)
{
    struct hf__turn *turn = make(core, name, terms);

    if (!turn)
        return NULL;
    assert(!turn->ends && !core->recipe->leases);

    hf__turn_move(turn, HF__TURN_ASKING);
    if (send_prompt(turn, HF__REQUEST_CLAIM, now_ns, out_fence) <= 0) {
        hf__turn_free(turn);
        return NULL;
    }
    turn->stored_until_ns = HF__NEVER; /* the store keeps it until a RELEASE is confirmed */
    return turn;
}

bool hf__turn_quit(struct hf__turn *turn, uint64_t now_ns)
{
    uint64_t fence;

    assert(turn->state == HF__TURN_HELD || turn->state == HF__TURN_ASKING);
    assert(!turn->claim && turn->core->recipe->at_hand);

    if (send_prompt(turn, HF__REQUEST_RELEASE, now_ns, &fence) <= 0)
        return false;

    if (turn->hold)
        turn->hold->turn = NULL;
    turn->hold = NULL;
    hf__turn_move(turn, HF__TURN_LEAVING);
    hf__turn_free(turn);
    return true;
}

/* The store may move the end in as soon as this is sent, whether we hear of it or not: from now on
 * no more than that is believed. */
void hf__turn_extend(struct hf__turn *turn, uint64_t lease_ns, uint64_t now_ns)
{
    bool limited = turn->core->recipe->leases || turn->ends;
    uint64_t until_ns = hf__validity_until(now_ns, lease_ns);

    if (limited && until_ns < turn->valid_until_ns) {
        turn->valid_until_ns = until_ns;
        hf__hold_set_validity(turn->hold, until_ns);
    }
    turn->extend_lease_ns = lease_ns;
    hf__turn_send(turn, HF__REQUEST_RENEW, now_ns);
    hf__turn_set_timer(turn);
}

void hf__turn_verify(struct hf__turn *turn, uint64_t now_ns)
{
    bool lowers = turn->lowered && turn->extend_lease_ns == 0;

    hf__turn_send(turn, lowers ? HF__REQUEST_DOWNGRADE : HF__REQUEST_RENEW, now_ns);
}

void hf__turn_lower(struct hf__turn *turn, uint64_t now_ns)
{
    turn->lowered = true;
    hf__turn_send(turn, HF__REQUEST_DOWNGRADE, now_ns);
    hf__turn_set_timer(turn);
}

/* --- time --- */

static void hold_due(struct hf__turn *turn, uint64_t now_ns)
{
    if (hf__hold_ended(turn->hold, now_ns)) {
        hf__hear_loss(turn, hf__hold_cause(turn->hold, now_ns), false, now_ns);
        return;
    }
    if (now_ns < turn->renew_at_ns)
        return;
    turn->renew_at_ns = HF__NEVER;
    hf__turn_verify(turn, now_ns);
}

static void leave_due(struct hf__turn *turn, uint64_t now_ns)
{
    if (turn->leaver && now_ns >= turn->leave_until_ns)
        hf__hear_leaver(turn, HF_EUNKNOWN);
    if (now_ns >= turn->ask_again_ns)
        hf__turn_send(turn, HF__REQUEST_RELEASE, now_ns);
}

void hf__turn_due(struct hf__turn *turn, uint64_t now_ns)
{
    uint64_t id = turn->id;
    int refused = turn->refused;

    turn->refused = HF_OK;
    if (refused < 0) {
        struct hf__reply reply = {
            .kind = refused == HF_EUNKNOWN ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED,
            .ticket = { .kind = turn->asking,
                        .round = turn->round,
                        .claim_id = turn->id,
                        .sent_ns = turn->asked_ns },
            .status = refused,
        };
        hf__hear_reply(turn, &reply, now_ns);
        return;
    }

    switch (turn->state) {
    case HF__TURN_ASKING:
    case HF__TURN_WAITING:
        if (now_ns >= turn->ask_again_ns)
            hf__turn_ask(turn, now_ns);
        break;
    case HF__TURN_HELD:
    case HF__TURN_DOUBTED:
        hold_due(turn, now_ns);
        break;
    case HF__TURN_LEAVING:
        leave_due(turn, now_ns);
        break;
    case HF__TURN_IDLE:
    case HF__TURN_LOST:
        break;
    }
    if (hf__turn_find(turn->core, id) == turn)
        hf__turn_set_timer(turn);
}
