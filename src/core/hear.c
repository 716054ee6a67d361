/* hear.c: what does an answer mean to the turn that asked?
 *
 * The pattern says which move follows; here each move is made: a win is believed if enough of it
 * is left by our own clock, a renewal moves the end of validity out, a doubt is tried again
 * until that end, a loss is told at once, a departure is repeated until it is confirmed.
 *
 * What can go wrong: an answer to a question that was overtaken by another (its round has passed)
 * is not heard at all; a fence that does not rise, or a promise that the store does not keep,
 * undoes the claim and says so. */
#include <assert.h>
#include <string.h>

#include "core/core.h"

#define RETRY_FIRST_NS (20 * HF__NS_PER_MS)
#define RETRY_MOST_NS  (500 * HF__NS_PER_MS)
#define BUSY_FIRST_NS  (5 * HF__NS_PER_MS)
#define BUSY_MOST_NS   (200 * HF__NS_PER_MS)
#define RENEW_FIRST_NS (50 * HF__NS_PER_MS)
#define RENEWAL_SLOTS  64u /* in the time between two renewals */
#define APPOINTED_NS   (5 * HF__NS_PER_MS)

static bool passing(int status)
{
    return status == HF_OK || status == HF_EUNREACHABLE || status == HF_EUNKNOWN;
}

static void detach(struct hf_claim *claim)
{
    claim->turn->claim = NULL;
    claim->turn = NULL;
}

/* The claim ends here with what the store said for good; the turn is undone if need be: of a quorum
 * others may have it. */
static void give_up(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    struct hf_claim *claim = turn->claim;
    bool others = turn->ballot.locked || turn->ballot.asked;

    hf__error_set(claim->error, reply->status, "%s", hf__driver_error(&turn->core->driver));
    detach(claim);
    if (reply->kind == HF__REPLY_UNKNOWN || claim->perhaps_done || claim->heard_busy ||
        turn->fence > 0 || others)
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
    if (reply->fence > turn->fence_passed)
        turn->fence_passed = reply->fence;
    claim->heard_busy = true;
    turn->name->busy_before = turn->core->next_number;
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
    hf__turn_move(turn, HF__TURN_WAITING);
    turn->ask_again_ns = hf__retry_after(now_ns, turn->tries++, BUSY_FIRST_NS, BUSY_MOST_NS,
                                         &turn->core->random_state);
}

/* Without a majority: nothing may stay behind, and the next try is another claim. */
static void repose(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    struct hf_claim *claim = turn->claim;
    bool refused = reply->kind == HF__REPLY_REFUSED || reply->kind == HF__REPLY_QUEUED;
    bool was_granted = turn->fence > 0 && !refused && reply->kind != HF__REPLY_GONE;

    if (!refused && !passing(reply->status)) {
        give_up(turn, reply, now_ns);
        return;
    }
    if (refused)
        note_busy(turn, reply);
    if (reply->kind == HF__REPLY_UNKNOWN || was_granted)
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

/* `lease_ns` is what the store gave, which may be less than what the turn will ask for next. */
static uint64_t draw_renewal(const struct hf__turn *turn, uint64_t sent_ns, uint64_t lease_ns)
{
    uint64_t third_ns = (lease_ns < turn->lease_ns ? lease_ns : turn->lease_ns) / HF__RENEWALS;
    uint64_t slot_ns;
    uint64_t at_ns;

    if (!turn->core->recipe->leases || turn->ends)
        return HF__NEVER;
    if (third_ns < HF__NS_PER_MS) /* cut short by a maximal hold */
        third_ns = HF__NS_PER_MS;
    /* A tenth earlier at random, so that what was taken at once is not renewed at once for ever. */
    at_ns = hf__retry_after(sent_ns + third_ns - third_ns / 5, 0, third_ns / 5, third_ns / 5,
                            &turn->core->random_state);
    /* And then back to one of few moments, other ones for each client: what falls on the same one
     * travels together. */
    slot_ns = third_ns / RENEWAL_SLOTS;
    return at_ns - (at_ns + turn->core->driver.client_id % slot_ns) % slot_ns;
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

/* The store, as it is now, promises less than the user requires. */
static void refuse_promise(struct hf__turn *turn, uint64_t now_ns)
{
    struct hf_claim *claim = turn->claim;

    hf__error_set(claim->error, HF_EPROMISE, "the store does not keep a promise that is required");
    detach(claim);
    hf__turn_leave(turn, now_ns);
    hf__claim_finish(claim, HF_EPROMISE, now_ns);
}

/* Others wait: from now on the turn is handed only to claims that are here already. The first such
 * news counts; later ones must not let in who came in between. */
static void crowd(struct hf__turn *turn)
{
    if (turn->others_wait)
        return;
    turn->others_wait = true;
    turn->hand_on_until = turn->core->next_number;
}

/* A fixed lease is had in full: who was appointed has only what is left of its deadline. */
static bool is_partial(const struct hf__turn *turn, const struct hf__reply *reply)
{
    return turn->core->recipe->leases &&
           (reply->ticket.kind == HF__REQUEST_NONE || reply->ticket.kind == HF__REQUEST_INSPECT);
}

/* Who was appointed renews soon; but a turn that is over sooner had better not leave a renewal in
 * the way of the next one's. More than half of the lease is left. */
static uint64_t appointed_wait(uint64_t lease_ns)
{
    return lease_ns / 20 < APPOINTED_NS ? lease_ns / 20 : APPOINTED_NS;
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

    /* Where the end is not counted in leases, news need not say since when. */
    if (sent_ns == 0 && !turn->core->recipe->leases)
        sent_ns = now_ns;
    turn->asking = HF__REQUEST_NONE;
    if (goes_back(turn, fence)) {
        refuse_grant(turn, fence, now_ns);
        return;
    }
    if (turn->core->required & ~hf__driver_promises(&turn->core->driver)) {
        refuse_promise(turn, now_ns);
        return;
    }
    if (reply->others_wait)
        crowd(turn);
    turn->valid_until_ns = limited ? hf__validity_until(sent_ns, lease_ns) : HF__NEVER;
    turn->fence = fence;
    if (turn->ends ? is_partial(turn, reply) : turn->valid_until_ns < now_ns + lease_ns / 2) {
        hf__turn_send(turn, HF__REQUEST_RENEW, now_ns);
        return;
    }
    if (now_ns >= turn->valid_until_ns) {
        repose(turn, reply, now_ns); /* a fixed lease that is over before it began */
        return;
    }
    turn->renew_at_ns = draw_renewal(turn, sent_ns, lease_ns);
    if (reply->appointed && turn->renew_at_ns != HF__NEVER) {
        turn->renew_at_ns = now_ns + appointed_wait(lease_ns);
        turn->ask_again_ns = HF__NEVER;
        turn->round++; /* what is under way was answered before this */
    }
    if (fence > turn->name->fence_seen)
        turn->name->fence_seen = fence;
    hf__turn_move(turn, HF__TURN_HELD);
    hf__claim_win(turn->claim, turn, now_ns);
}

bool hf__hear_prompt(struct hf__turn *turn, uint64_t fence)
{
    uint32_t required = turn->core->required;

    assert(turn->state == HF__TURN_ASKING);

    if (goes_back(turn, fence))
        return false;
    if (required && (required & ~hf__driver_promises(&turn->core->driver)))
        return false;
    turn->valid_until_ns = HF__NEVER;
    turn->fence = fence;
    turn->name->fence_seen = fence;
    hf__turn_move(turn, HF__TURN_HELD);
    return true;
}

static void note_margin(struct hf__turn *turn, uint64_t now_ns)
{
    struct hf_client_stats *stats = &turn->core->stats;
    uint64_t margin_ms = (uint64_t)hf__clock_left_ms(now_ns, turn->valid_until_ns);

    if (stats->renewed == 0 || margin_ms < stats->lowest_margin_ms)
        stats->lowest_margin_ms = margin_ms;
    stats->renewed++;
}

/* When to renew next. A DOWNGRADE moves no end: if it took the place of a renewal, that is due. */
static void schedule(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    uint64_t lease_ns = reply->lease_ns > 0 ? reply->lease_ns : turn->asked_lease_ns;
    uint64_t next_ns = draw_renewal(turn, reply->ticket.sent_ns, lease_ns);
    bool renewed = reply->ticket.kind != HF__REQUEST_DOWNGRADE;

    if (next_ns == HF__NEVER || renewed)
        turn->renew_at_ns = next_ns;
    else if (turn->renew_at_ns == HF__NEVER)
        turn->renew_at_ns = now_ns;
    if (turn->lowered)
        turn->renew_at_ns = now_ns; /* still to be confirmed */
}

/* Renewed, extended or lowered. */
static void keep(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    struct hf__hold *hold = turn->hold;
    uint64_t lease_ns = reply->lease_ns > 0 ? reply->lease_ns : turn->asked_lease_ns;
    uint64_t until_ns = hf__validity_until(reply->ticket.sent_ns, lease_ns);
    bool limited = turn->core->recipe->leases || turn->ends;

    if (reply->others_wait)
        crowd(turn);
    if (reply->ticket.kind == HF__REQUEST_NONE)
        return;
    turn->asking = HF__REQUEST_NONE;
    turn->tries = 0;
    if (reply->ticket.kind == HF__REQUEST_DOWNGRADE) {
        turn->lowered = turn->lowered_perhaps = false;
        turn->mode = HF_SHARED;
        hold->mode = HF_SHARED;
    } else if (limited) {
        note_margin(turn, now_ns);
        if (turn->extend_lease_ns > 0 && hold->end_is_lease)
            hf__hold_end(hold,
                         turn->core->recipe->in_session
                             ? hf__validity_until(reply->ticket.sent_ns, turn->extend_lease_ns)
                             : until_ns);
        if (turn->extend_lease_ns > 0 || until_ns > turn->valid_until_ns)
            turn->valid_until_ns = until_ns;
    }
    if (turn->extend_lease_ns > 0) {
        atomic_store(&hold->lease_ns, turn->extend_lease_ns);
        turn->lease_ns = turn->extend_lease_ns; /* renewals keep to it */
    }
    turn->extend_lease_ns = 0;
    schedule(turn, reply, now_ns);
    if (turn->state == HF__TURN_DOUBTED)
        hf__turn_move(turn, HF__TURN_HELD);
    hf__hold_set_validity(hold, turn->valid_until_ns);
    if (turn->at_risk)
        hf__hold_tell(hold, HF_EVENT_SAFE, now_ns);
    turn->at_risk = false;
    if (turn->asker)
        hf__events_answer(turn->core, &turn->asker->answer, HF_OK);
    turn->asker = NULL;
    turn->overtaken = false;
}

static void doubt(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    bool limited = turn->core->recipe->leases && !turn->ends;
    uint64_t most_ns = turn->lease_ns / 12 > RENEW_FIRST_NS ? turn->lease_ns / 12 : RENEW_FIRST_NS;
    bool perhaps = reply->kind == HF__REPLY_UNKNOWN || turn->overtaken;

    turn->asking = HF__REQUEST_NONE;
    turn->extend_lease_ns = 0;
    turn->overtaken = false;
    if (reply->ticket.kind == HF__REQUEST_DOWNGRADE && perhaps)
        turn->lowered_perhaps = true; /* go on until it is confirmed */
    else if (!turn->lowered_perhaps)
        turn->lowered = false; /* certainly not applied: it is exclusive as before */
    if (turn->asker)
        hf__events_answer(turn->core, &turn->asker->answer, perhaps ? HF_EUNKNOWN : reply->status);
    turn->asker = NULL;
    if (!limited)
        return;

    turn->core->stats.renew_failed++;
    turn->renew_at_ns =
        hf__retry_after(now_ns, turn->tries++, RENEW_FIRST_NS, most_ns, &turn->core->random_state);
    if (turn->state == HF__TURN_HELD)
        hf__turn_move(turn, HF__TURN_DOUBTED);
    if (!turn->at_risk)
        hf__hold_tell(turn->hold, HF_EVENT_AT_RISK, now_ns);
    turn->at_risk = true;
}

/* A store that still has something of ours is told; one that said GONE has nothing, except that of
 * a quorum a few may, and that a broken holder with a grace leaves when its user says so. */
void hf__hear_loss(struct hf__turn *turn, const char *cause, bool gone, uint64_t now_ns)
{
    struct hf__hold *hold = turn->hold;
    bool has_maximum = hold->end_ns != HF__NEVER && !hold->end_is_lease;

    /* Where the store ends the turn itself, its lease is the maximum. */
    if (turn->ends && has_maximum && strcmp(cause, HF__CAUSE_EXPIRED) == 0)
        cause = HF__CAUSE_MAX_HOLD;
    if (turn->asker)
        hf__events_answer(turn->core, &turn->asker->answer, HF_ELOST);
    turn->asker = NULL;
    turn->asking = HF__REQUEST_NONE;
    hf__turn_move(turn, HF__TURN_LOST);
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

void hf__hear_leaver(struct hf__turn *turn, int status)
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
    hf__hold_answer(leaver, status);
}

static void leave_done(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    /* What an unanswered release left may also have gone for another reason, if there was one. */
    bool left = reply->released || (turn->left_unanswered && !reply->cause);

    hf__hear_leaver(turn, left ? HF_OK : HF_ELOST);
    if (turn->ballot.stragglers == 0 || now_ns >= turn->stored_until_ns) {
        hf__turn_free(turn);
        return;
    }
    turn->asking = HF__REQUEST_NONE;
    turn->ask_again_ns = hf__retry_after(now_ns, turn->tries++, RETRY_FIRST_NS, RETRY_MOST_NS,
                                         &turn->core->random_state);
}

static void leave_again(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
{
    turn->asking = HF__REQUEST_NONE;
    if (reply->kind == HF__REPLY_UNKNOWN && turn->asked_ns < turn->valid_until_ns)
        turn->left_unanswered = true;
    if (now_ns >= turn->stored_until_ns) {
        hf__hear_leaver(turn, HF_EUNKNOWN);
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
        hf__turn_move(turn, HF__TURN_WAITING);
        return;
    case HF__MOVE_ASK:
        turn->proposal = reply->fence;
        hf__turn_ask(turn, now_ns);
        return;
    case HF__MOVE_INSPECT:
        hf__turn_send(turn, HF__REQUEST_INSPECT, now_ns);
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
        hf__turn_verify(turn, now_ns);
        return;
    case HF__MOVE_CROWD:
        crowd(turn);
        return;
    case HF__MOVE_DOUBT:
        doubt(turn, reply, now_ns);
        return;
    case HF__MOVE_LOSE:
        hf__hear_loss(turn, reply->cause ? reply->cause : HF__CAUSE_GONE,
                      reply->kind == HF__REPLY_GONE, now_ns);
        return;
    case HF__MOVE_LEFT:
        leave_done(turn, reply, now_ns);
        return;
    case HF__MOVE_AGAIN:
        leave_again(turn, reply, now_ns);
        return;
    }
}

void hf__hear_reply(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns)
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
    if (news && reply->kind == HF__REPLY_GRANTED && reply->fence <= turn->fence_passed)
        return; /* appointed long ago: we lost that turn unheard, and wait again */
    if (phase == HF__PHASE_HOLDING && hf__hold_ended(turn->hold, now_ns)) {
        /* Whoever asked the clock knows that it is over: no answer brings it back. */
        hf__hear_loss(turn, hf__hold_cause(turn->hold, now_ns), false, now_ns);
        return;
    }

    next = hf__pattern_move(turn->core->recipe->pattern, phase, reply->kind);
    hf__trace(turn->core->env, "%s: reply %d to %d: %s (turn %llx)", turn->name->text,
              (int)reply->kind, (int)reply->ticket.kind, hf__pattern_move_name(next),
              (unsigned long long)turn->id);
    make(turn, next, reply, now_ns);
    if (hf__turn_find(turn->core, id) == turn)
        hf__turn_set_timer(turn);
}
