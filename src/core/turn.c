/* turn.c: the life of one claim at the store, as this client sees it. The one state machine.
 *
 * The happy path: idle, asking (CLAIM), perhaps waiting, held (RENEW now and then), leaving (RELEASE),
 * idle. Which move follows an answer is the pattern's decision; what the move means is here.
 *
 * What can go wrong:
 * - no answer, or a connection that died: the same question again, as the same claim, until somebody's
 *   time is up; then the caller is told what is known, and the turn is undone in the background;
 * - a renewal that fails: DOUBTED, tried again until the end of validity, never beyond;
 * - the end of validity: LOST, by our own clock, whether the store was reached or not;
 * - an answer to a question that was overtaken by another (its round has passed): not heard at all;
 * - a RELEASE without an answer: repeated until it is confirmed, or until the lease must have ended. */
#include <assert.h>
#include <string.h>

#include "core/core.h"

#define RETRY_FIRST_NS (20 * HF__NS_PER_MS)
#define RETRY_MOST_NS  (500 * HF__NS_PER_MS)
#define BUSY_FIRST_NS  (5 * HF__NS_PER_MS)
#define BUSY_MOST_NS   (200 * HF__NS_PER_MS)
#define RENEW_FIRST_NS (50 * HF__NS_PER_MS)
#define ASK_NS_MAX     (5 * HF__NS_PER_S)
#define RENEW_NS_MAX   (1 * HF__NS_PER_S)
#define RENEWALS       3 /* in one lease */

#define TO(state) (1u << HF__TURN_##state)

/* clang-format off */
static const struct {
    const char *name;
    unsigned allowed; /* the states that may follow */
} rules[] = {
    [HF__TURN_IDLE]    = { "idle",    TO(ASKING) },
    [HF__TURN_ASKING]  = { "asking",  TO(ASKING) | TO(WAITING) | TO(HELD) | TO(LEAVING) | TO(IDLE) },
    [HF__TURN_WAITING] = { "waiting", TO(ASKING) | TO(WAITING) | TO(HELD) | TO(LEAVING) | TO(IDLE) },
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

static void move(struct hf__turn *turn, enum hf__turn_state next)
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

int hf__turn_new(struct hf_claim *claim, struct hf__turn **out_turn)
{
    struct hf__core *core = claim->core;
    const struct hf__terms *terms = &claim->terms;
    struct hf__turn *turn = take_turn(core);

    if (!turn)
        return HF_ENOMEM;

    /* The upper half of the id tells this life from those before: a late answer finds nobody. */
    turn->id += 1ull << 32;
    turn->name = claim->name;
    turn->claim = claim;
    turn->hold = NULL;
    turn->leaver = NULL;
    turn->asker = NULL;
    turn->mode = terms->mode;
    turn->ends = terms->fixed_lease || (terms->max_hold_ns > 0 && !core->recipe->leases);
    turn->lease_ns = terms->lease_ns;
    if (!core->recipe->leases && terms->max_hold_ns > 0 &&
        (!terms->fixed_lease || terms->max_hold_ns < terms->lease_ns))
        turn->lease_ns = terms->max_hold_ns;
    turn->grace_ns = terms->grace_ns;
    turn->others_wait = false;
    turn->lowered = false;
    turn->left_unanswered = false;
    turn->at_risk = false;
    turn->refused = HF_OK;
    turn->tries = 0;
    turn->handed_on = 0;
    turn->hand_on_until = UINT64_MAX;
    turn->heard_ns = 0;
    turn->stored_ns = 0;
    turn->proposal = 0;
    turn->extend_lease_ns = 0;
    turn->renew_at_ns = HF__NEVER;
    turn->ask_again_ns = HF__NEVER;
    turn->leave_until_ns = HF__NEVER;
    turn->valid_until_ns = 0;
    turn->fence = 0;
    turn->fence_floor = claim->name->fence_seen;
    hf__env_random(core->env, turn->token, sizeof(turn->token));
    hf__list_append(&claim->name->turns, &turn->place);
    claim->turn = turn;
    *out_turn = turn;
    return HF_OK;
}

void hf__turn_free(struct hf__turn *turn)
{
    struct hf__core *core = turn->core;

    assert(!turn->claim && !turn->hold && !turn->leaver && !turn->asker);

    move(turn, HF__TURN_IDLE);
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

static void set_timer(struct hf__turn *turn)
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
    uint64_t most_ns = turn->lease_ns / RENEWALS;
    uint64_t by_ns;

    if (kind == HF__REQUEST_RENEW || kind == HF__REQUEST_DOWNGRADE)
        return now_ns + soonest(turn->lease_ns / 6, RENEW_NS_MAX);

    by_ns = now_ns + soonest(most_ns, ASK_NS_MAX);
    if (turn->claim && !turn->claim->heard_busy)
        by_ns = soonest(by_ns, turn->claim->reach_until_ns);
    return by_ns;
}

static void send(struct hf__turn *turn, enum hf__request_kind kind, uint64_t now_ns)
{
    struct hf__core *core = turn->core;
    struct hf_claim *claim = turn->claim;
    bool keeps = kind == HF__REQUEST_RENEW || kind == HF__REQUEST_INSPECT ||
                 (kind == HF__REQUEST_RELEASE && !turn->leaver);
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
        .lease_ns = turn->extend_lease_ns > 0 ? turn->extend_lease_ns : turn->lease_ns,
        .grace_ns = turn->grace_ns,
        .fence = kind == HF__REQUEST_CLAIM ? turn->proposal : turn->fence,
        .purpose = claim ? claim->terms.purpose : "",
        .deadline_ns = answer_by(turn, kind, now_ns),
    };

    turn->asking = kind;
    turn->asked_ns = now_ns;
    turn->asked_lease_ns = request.lease_ns;
    turn->ask_again_ns = HF__NEVER;
    if (kind != HF__REQUEST_RELEASE)
        turn->stored_ns = now_ns;
    turn->refused = hf__driver_submit(&core->driver, keeps ? HF__LANE_KEEP : HF__LANE_CALL,
                                      &request, &turn->ballot);
}

void hf__turn_ask(struct hf__turn *turn, uint64_t now_ns)
{
    assert(turn->claim && turn->claim->turn == turn);

    move(turn, HF__TURN_ASKING);
    send(turn, HF__REQUEST_CLAIM, now_ns);
    set_timer(turn);
}

void hf__turn_refresh(struct hf__turn *turn, uint64_t now_ns)
{
    assert(turn->state == HF__TURN_WAITING);

    if (turn->ask_again_ns != HF__NEVER)
        return; /* it will ask by itself */
    send(turn, HF__REQUEST_INSPECT, now_ns);
    set_timer(turn);
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
        hf__events_answer(&turn->asker->answer, HF_ELOST);
    turn->asker = NULL;
    turn->tries = 0;
    turn->extend_lease_ns = 0;
    turn->ballot.stragglers = 0;
    turn->leave_until_ns = now_ns + turn->core->connect_ns;
    move(turn, HF__TURN_LEAVING);
    send(turn, HF__REQUEST_RELEASE, now_ns);
    set_timer(turn);
}

void hf__turn_extend(struct hf__turn *turn, uint64_t lease_ns, uint64_t now_ns)
{
    turn->extend_lease_ns = lease_ns;
    send(turn, HF__REQUEST_RENEW, now_ns);
    set_timer(turn);
}

void hf__turn_lower(struct hf__turn *turn, uint64_t now_ns)
{
    turn->lowered = true;
    send(turn, HF__REQUEST_DOWNGRADE, now_ns);
    set_timer(turn);
}

/* --- answers --- */

static bool passing(int status)
{
    return status == HF_OK || status == HF_EUNREACHABLE || status == HF_EUNKNOWN;
}

static void detach(struct hf_claim *claim)
{
    claim->turn->claim = NULL;
    claim->turn = NULL;
}

/* The claim ends here with what the store said for good; the turn is undone if need be. */
static void give_up(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    struct hf_claim *claim = turn->claim;

    hf__error_set(claim->error, reply->status, "%s", hf__driver_error(&turn->core->driver));
    detach(claim);
    if (reply->kind == HF__REPLY_UNKNOWN || claim->perhaps_done || claim->heard_busy)
        hf__turn_leave(turn, now_ns);
    else
        hf__turn_free(turn);
    hf__claim_finish(claim, reply->status, now_ns);
}

static void ask_later(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    if (!passing(reply->status)) {
        give_up(turn, reply, now_ns);
        return;
    }
    if (reply->kind == HF__REPLY_UNKNOWN)
        turn->claim->perhaps_done = true;
    turn->asking = HF__REQUEST_NONE;
    turn->ask_again_ns = hf__retry_after(now_ns, turn->tries++, RETRY_FIRST_NS, RETRY_MOST_NS,
                                         &turn->core->random_state);
}

static void note_busy(struct hf__turn *turn, const struct hf__reply *reply)
{
    struct hf_claim *claim = turn->claim;

    turn->asking = HF__REQUEST_NONE;
    turn->tries = reply->kind == HF__REPLY_QUEUED ? 0 : turn->tries;
    if (reply->ticket.kind != HF__REQUEST_NONE)
        turn->heard_ns = reply->ticket.sent_ns;
    claim->heard_busy = true;
    claim->perhaps_done = false;
    claim->ahead = reply->ahead;
    if (reply->holder)
        claim->holder = *reply->holder;
    if (reply->wake && claim->bell != reply->wake) {
        hf__wake_ring(claim->bell); /* whoever sleeps on the old word moves over */
        claim->bell = reply->wake;
    }
    hf__claim_set_timer(claim);
}

/* Refused, and in no line. */
static void stand_aside(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    struct hf_claim *claim = turn->claim;

    note_busy(turn, reply);
    if (claim->terms.wait_ms == 0) {
        detach(claim);
        hf__turn_free(turn);
        hf__claim_finish(claim, HF_EBUSY, now_ns);
        return;
    }
    move(turn, HF__TURN_WAITING);
    turn->ask_again_ns = hf__retry_after(now_ns, turn->tries++, BUSY_FIRST_NS, BUSY_MOST_NS,
                                         &turn->core->random_state);
}

/* Without a majority: nothing may stay behind, and the next try is another claim. */
static void repose(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    struct hf_claim *claim = turn->claim;
    bool refused = reply->kind == HF__REPLY_REFUSED || reply->kind == HF__REPLY_QUEUED;

    if (!refused && !passing(reply->status)) {
        give_up(turn, reply, now_ns);
        return;
    }
    if (refused)
        note_busy(turn, reply);
    if (reply->kind == HF__REPLY_UNKNOWN)
        claim->perhaps_done = true;
    detach(claim);
    hf__turn_leave(turn, now_ns);
    if (refused && claim->terms.wait_ms == 0) {
        hf__claim_finish(claim, HF_EBUSY, now_ns);
        return;
    }
    claim->retry_at_ns = hf__retry_after(now_ns, claim->tries++, BUSY_FIRST_NS, BUSY_MOST_NS,
                                         &turn->core->random_state);
    hf__claim_set_timer(claim);
}

static uint64_t draw_renewal(const struct hf__turn *turn, uint64_t sent_ns)
{
    uint64_t third_ns = turn->lease_ns / RENEWALS;

    if (!turn->core->recipe->leases || turn->ends)
        return HF__NEVER;
    /* A tenth earlier or later, so that the renewals of many clients spread out. */
    return hf__retry_after(sent_ns + third_ns - third_ns / 10, 0, third_ns / 5, third_ns / 5,
                           &turn->core->random_state) -
           third_ns / 10;
}

/* A fence that does not exceed what we knew before we asked: the store went back in time. */
static bool goes_back(struct hf__turn *turn, uint64_t fence)
{
    bool promised = (turn->core->recipe->promises & HF_PROMISE_FENCE) != 0;

    if (!promised)
        return false;
    return fence <= turn->fence_floor || fence >= HF__FENCE_MAX;
}

static void refuse_grant(struct hf__turn *turn, uint64_t fence, uint64_t now_ns)
{
    struct hf_claim *claim = turn->claim;

    hf__error_set(claim->error, HF_EINTEGRITY,
                  "%s: fence %llu does not exceed %llu: the store went back in time",
                  turn->core->driver.engine->name, (unsigned long long)fence,
                  (unsigned long long)turn->fence_floor);
    detach(claim);
    hf__turn_leave(turn, now_ns);
    hf__claim_finish(claim, HF_EINTEGRITY, now_ns);
}

/* It is ours, by the store. Believed only if enough of it is left by our own clock: an answer that
 * lay in a buffer while we were stopped, or an appointment that came late, is confirmed first. */
static void win(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    bool limited = turn->core->recipe->leases || turn->ends;
    bool news = reply->ticket.kind == HF__REQUEST_NONE;
    uint64_t sent_ns = news && turn->core->recipe->leases ? turn->heard_ns : reply->ticket.sent_ns;
    uint64_t lease_ns = reply->lease_ns > 0 ? reply->lease_ns : turn->lease_ns;
    uint64_t fence = reply->fence > 0 ? reply->fence : turn->fence; /* a confirmation has none */

    if (news && !turn->core->recipe->leases)
        sent_ns = now_ns;
    turn->asking = HF__REQUEST_NONE;
    if (goes_back(turn, fence)) {
        refuse_grant(turn, fence, now_ns);
        return;
    }
    turn->valid_until_ns = limited ? hf__validity_until(sent_ns, lease_ns) : HF__NEVER;
    if (limited && now_ns >= turn->valid_until_ns && turn->ends) {
        repose(turn, reply, now_ns); /* over before it began */
        return;
    }
    if (limited && !turn->ends && turn->valid_until_ns < now_ns + lease_ns / 2) {
        turn->fence = fence;
        send(turn, HF__REQUEST_RENEW, now_ns);
        return;
    }
    turn->fence = fence;
    turn->others_wait = reply->others_wait;
    turn->hand_on_until = reply->others_wait ? turn->core->next_number : UINT64_MAX;
    turn->renew_at_ns = reply->appointed ? now_ns : draw_renewal(turn, sent_ns);
    if (fence > turn->name->fence_seen)
        turn->name->fence_seen = fence;
    move(turn, HF__TURN_HELD);
    hf__claim_win(turn->claim, turn, now_ns);
}

static void note_margin(struct hf__turn *turn, uint64_t now_ns)
{
    struct hf_client_stats *stats = &turn->core->stats;
    uint64_t margin_ms = (uint64_t)hf__clock_left_ms(now_ns, turn->valid_until_ns);

    if (stats->renewed == 0 || margin_ms < stats->lowest_margin_ms)
        stats->lowest_margin_ms = margin_ms;
    stats->renewed++;
}

/* Renewed, extended or lowered. */
static void keep(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    struct hf__hold *hold = turn->hold;
    uint64_t lease_ns = reply->lease_ns > 0 ? reply->lease_ns : turn->asked_lease_ns;
    uint64_t until_ns = hf__validity_until(reply->ticket.sent_ns, lease_ns);
    bool limited = turn->core->recipe->leases || turn->ends;

    if (reply->ticket.kind == HF__REQUEST_NONE)
        return;
    turn->asking = HF__REQUEST_NONE;
    turn->tries = 0;
    if (reply->ticket.kind == HF__REQUEST_DOWNGRADE) {
        turn->lowered = false;
        turn->mode = HF_SHARED;
        hold->mode = HF_SHARED;
    } else if (limited) {
        note_margin(turn, now_ns);
        if (turn->extend_lease_ns > 0 && hold->end_is_lease)
            hold->end_ns = until_ns;
        if (turn->extend_lease_ns > 0 || until_ns > turn->valid_until_ns)
            turn->valid_until_ns = until_ns;
    }
    if (turn->extend_lease_ns > 0)
        atomic_store(&hold->lease_ns, turn->extend_lease_ns);
    turn->extend_lease_ns = 0;
    turn->renew_at_ns = draw_renewal(turn, reply->ticket.sent_ns);
    if (turn->lowered)
        turn->renew_at_ns = now_ns; /* still to be confirmed */
    if (turn->state == HF__TURN_DOUBTED)
        move(turn, HF__TURN_HELD);
    hf__hold_set_validity(hold, turn->valid_until_ns);
    if (turn->at_risk)
        hf__hold_tell(hold, HF_EVENT_SAFE, now_ns);
    turn->at_risk = false;
    if (turn->asker)
        hf__events_answer(&turn->asker->answer, HF_OK);
    turn->asker = NULL;
}

static void doubt(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    bool limited = turn->core->recipe->leases && !turn->ends;
    uint64_t most_ns = turn->lease_ns / 12 > RENEW_FIRST_NS ? turn->lease_ns / 12 : RENEW_FIRST_NS;

    turn->asking = HF__REQUEST_NONE;
    turn->extend_lease_ns = 0;
    if (turn->asker)
        hf__events_answer(&turn->asker->answer,
                          reply->kind == HF__REPLY_UNKNOWN ? HF_EUNKNOWN : reply->status);
    turn->asker = NULL;
    if (!limited)
        return;

    turn->core->stats.renew_failed++;
    turn->renew_at_ns =
        hf__retry_after(now_ns, turn->tries++, RENEW_FIRST_NS, most_ns, &turn->core->random_state);
    if (turn->state == HF__TURN_HELD)
        move(turn, HF__TURN_DOUBTED);
    if (!turn->at_risk)
        hf__hold_tell(turn->hold, HF_EVENT_AT_RISK, now_ns);
    turn->at_risk = true;
}

/* A store that still has something of ours is told; one that said GONE has nothing, except that of a
 * quorum a few may, and that a broken holder with a grace leaves when its user says so. */
static void lose(struct hf__turn *turn, const char *cause, bool gone, uint64_t now_ns)
{
    struct hf__hold *hold = turn->hold;

    if (turn->asker)
        hf__events_answer(&turn->asker->answer, HF_ELOST);
    turn->asker = NULL;
    turn->asking = HF__REQUEST_NONE;
    move(turn, HF__TURN_LOST);
    hf__hold_lose(hold, cause, now_ns);
    if (gone && turn->grace_ns > 0)
        return;
    if (!gone || turn->core->driver.stores > 1) {
        hf__turn_leave(turn, now_ns);
        return;
    }
    hold->turn = NULL;
    turn->hold = NULL;
    hf__turn_free(turn);
}

static void answer_leaver(struct hf__turn *turn, int status)
{
    struct hf_grant *leaver = turn->leaver;

    turn->leaver = NULL;
    if (!leaver)
        return;
    if (status == HF_OK)
        turn->core->stats.released++;
    else if (status == HF_EUNKNOWN)
        turn->core->stats.unknown++;
    else if (status == HF_ELOST)
        turn->core->stats.lost++;
    hf__events_answer(&leaver->answer, status);
}

static void leave_done(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    answer_leaver(turn, reply->released || turn->left_unanswered ? HF_OK : HF_ELOST);
    if (turn->ballot.stragglers == 0) {
        hf__turn_free(turn);
        return;
    }
    turn->asking = HF__REQUEST_NONE;
    turn->ask_again_ns = hf__retry_after(now_ns, turn->tries++, RETRY_FIRST_NS, RETRY_MOST_NS,
                                         &turn->core->random_state);
}

static void leave_again(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    uint64_t over_ns = turn->stored_ns + turn->lease_ns + turn->lease_ns / 50;

    turn->asking = HF__REQUEST_NONE;
    if (reply->kind == HF__REPLY_UNKNOWN && turn->asked_ns < turn->valid_until_ns)
        turn->left_unanswered = true;
    if (!passing(reply->status) || now_ns >= over_ns) {
        answer_leaver(turn, passing(reply->status) ? HF_EUNKNOWN : reply->status);
        hf__turn_free(turn);
        return;
    }
    turn->ask_again_ns = hf__retry_after(now_ns, turn->tries++, RETRY_FIRST_NS, RETRY_MOST_NS,
                                         &turn->core->random_state);
}

static enum hf__phase phase_of(enum hf__turn_state state)
{
    switch (state) {
    case HF__TURN_IDLE:
    case HF__TURN_ASKING:
        return HF__PHASE_ASKING;
    case HF__TURN_WAITING:
        return HF__PHASE_WAITING;
    case HF__TURN_HELD:
    case HF__TURN_DOUBTED:
        return HF__PHASE_HOLDING;
    case HF__TURN_LEAVING:
    case HF__TURN_LOST:
        return HF__PHASE_LEAVING;
    }
    assert(!"a state that does not exist");
    return HF__PHASE_LEAVING;
}

static void make(struct hf__turn *turn, enum hf__move next, const struct hf__reply *reply,
                 uint64_t now_ns)
{
    switch (next) {
    case HF__MOVE_NONE:
        return;
    case HF__MOVE_HOLD:
        win(turn, reply, now_ns);
        return;
    case HF__MOVE_WAIT:
        note_busy(turn, reply);
        move(turn, HF__TURN_WAITING);
        return;
    case HF__MOVE_ASK:
        turn->proposal = reply->fence;
        hf__turn_ask(turn, now_ns);
        return;
    case HF__MOVE_INSPECT:
        send(turn, HF__REQUEST_INSPECT, now_ns);
        return;
    case HF__MOVE_RETRY:
        ask_later(turn, reply, now_ns);
        return;
    case HF__MOVE_REPOSE:
        repose(turn, reply, now_ns);
        return;
    case HF__MOVE_BUSY:
        stand_aside(turn, reply, now_ns);
        return;
    case HF__MOVE_KEEP:
        keep(turn, reply, now_ns);
        return;
    case HF__MOVE_VERIFY:
        send(turn, HF__REQUEST_RENEW, now_ns);
        return;
    case HF__MOVE_CROWD:
        turn->others_wait = true;
        turn->hand_on_until = turn->core->next_number;
        return;
    case HF__MOVE_DOUBT:
        doubt(turn, reply, now_ns);
        return;
    case HF__MOVE_LOSE:
        lose(turn, reply->cause ? reply->cause : HF__CAUSE_GONE, reply->kind == HF__REPLY_GONE,
             now_ns);
        return;
    case HF__MOVE_LEFT:
        leave_done(turn, reply, now_ns);
        return;
    case HF__MOVE_AGAIN:
        leave_again(turn, reply, now_ns);
        return;
    }
}

void hf__turn_hear(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    bool news = reply->ticket.kind == HF__REQUEST_NONE;
    enum hf__phase phase = phase_of(turn->state);
    enum hf__move next;
    uint64_t id = turn->id;

    if (!news && reply->ticket.round != turn->round)
        return; /* overtaken */
    if (news && phase == HF__PHASE_LEAVING)
        return; /* we are on our way out, and ask until that is confirmed */
    if (turn->state == HF__TURN_LOST)
        return;

    next = hf__pattern_move(turn->core->recipe->pattern, phase, reply->kind);
    hf__trace(turn->core->env, "%s: reply %d to %d: %s (turn %llx)", turn->name->text,
              (int)reply->kind, (int)reply->ticket.kind, hf__pattern_move_name(next),
              (unsigned long long)turn->id);
    make(turn, next, reply, now_ns);
    if (hf__turn_find(turn->core, id) == turn)
        set_timer(turn);
}

/* --- time --- */

static void hold_due(struct hf__turn *turn, uint64_t now_ns)
{
    bool held_too_long = now_ns >= turn->hold->end_ns && !turn->hold->end_is_lease;

    if (now_ns >= turn->valid_until_ns || now_ns >= turn->hold->end_ns) {
        lose(turn, held_too_long ? HF__CAUSE_MAX_HOLD : HF__CAUSE_EXPIRED, false, now_ns);
        return;
    }
    if (now_ns < turn->renew_at_ns)
        return;
    turn->renew_at_ns = HF__NEVER;
    send(turn, turn->lowered ? HF__REQUEST_DOWNGRADE : HF__REQUEST_RENEW, now_ns);
}

static void leave_due(struct hf__turn *turn, uint64_t now_ns)
{
    if (turn->leaver && now_ns >= turn->leave_until_ns)
        answer_leaver(turn, HF_EUNKNOWN);
    if (now_ns >= turn->ask_again_ns)
        send(turn, HF__REQUEST_RELEASE, now_ns);
}

void hf__turn_due(struct hf__turn *turn, uint64_t now_ns)
{
    uint64_t id = turn->id;
    int refused = turn->refused;

    turn->refused = HF_OK;
    if (refused < 0) {
        struct hf__reply reply = {
            .kind = HF__REPLY_FAILED,
            .ticket = { .kind = turn->asking,
                        .round = turn->round,
                        .claim_id = turn->id,
                        .sent_ns = turn->asked_ns },
            .status = refused,
        };
        hf__turn_hear(turn, &reply, now_ns);
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
        set_timer(turn);
}
