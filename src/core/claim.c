/* claim.c: how does an attempt get to the store, and how does it end?
 *
 * The happy path: a claim is started, joins its name's queue, gets a turn at the store (at once,
 * or, where a recipe hands on, when no turn of this client could be handed to it), wins, and is
 * fetched. Nested claims of an owner that holds already never leave this file.
 *
 * What can go wrong: the wait ends (ETIMEDOUT only if somebody said "busy"; otherwise EUNREACHABLE,
 * or EUNKNOWN when a question is still without an answer), the store is not reached in time, the
 * user cancels, the client closes. Each of them finishes the claim at once and undoes its turn
 * behind it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"
#include "base/text.h"
#include "core/core.h"

static uint64_t soonest(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

void hf__claim_set_timer(struct hf_claim *claim)
{
    uint64_t at_ns = soonest(claim->wait_until_ns, claim->retry_at_ns);

    if (!claim->heard_busy && (claim->turn || claim->retry_at_ns != HF__NEVER))
        at_ns = soonest(at_ns, claim->reach_until_ns);
    if (claim->answer.status != HF_PENDING)
        at_ns = HF__NEVER;
    hf__heap_set(&claim->core->claim_timers, &claim->timer, at_ns);
}

/* --- start --- */

static int check_limits(const struct hf__core *core, const struct hf__name *name,
                        char error[HF__ERROR_BYTES])
{
    if (core->closing)
        return hf__error_set(error, HF_ECANCELLED, "the client is being closed");
    if (core->stats.waiting >= HF__WAITERS_MAX)
        return hf__error_set(error, HF_ELIMIT, "this client has %u waiting claims already",
                             HF__WAITERS_MAX);
    if (name->waiting_count >= HF__WAITERS_MAX)
        return hf__error_set(error, HF_ELIMIT, "%u claims wait for this lock already",
                             HF__WAITERS_MAX);
    if (core->stats.held >= HF__GRANTS_MAX)
        return hf__error_set(error, HF_ELIMIT, "this client holds %u grants already",
                             HF__GRANTS_MAX);
    return HF_OK;
}

static int fill(struct hf_claim *claim, const struct hf__terms *terms, uint64_t now_ns)
{
    struct hf__core *core = claim->core;

    claim->terms = *terms;
    claim->terms.owner.name = NULL;
    if (terms->owner.kind == HF_OWNER_NAMED) {
        claim->owner_name = hf__env_copy_text(core->env, terms->owner.name);
        if (!claim->owner_name)
            return HF_ENOMEM;
        claim->terms.owner.name = claim->owner_name;
    }
    claim->terms.purpose = core->purpose;
    if (terms->purpose && strcmp(terms->purpose, core->purpose) != 0) {
        hf__text_copy(claim->purpose, sizeof(claim->purpose), terms->purpose);
        claim->terms.purpose = claim->purpose;
    }
    claim->number = core->next_number++;
    claim->wait_until_ns =
        terms->wait_ms == 0 ? HF__NEVER : hf__clock_after_ms(now_ns, terms->wait_ms);
    claim->reach_until_ns = HF__NEVER;
    claim->retry_at_ns = HF__NEVER;
    claim->ahead = HF__AHEAD_UNKNOWN;
    return HF_OK;
}

static struct hf_claim *take_claim(struct hf__core *core)
{
    struct hf_claim *claim;

    if (hf__list_empty(&core->free_claims)) {
        claim = hf__env_new(core->env, sizeof(*claim));
        if (!claim)
            return NULL;
        claim->core = core;
        hf__list_init(&claim->place);
        hf__list_init(&claim->member);
        hf__list_init(&claim->note.place);
        hf__heap_node_init(&claim->timer);
        return claim;
    }
    claim = HF__LIST_ENTRY(core->free_claims.next, struct hf_claim, place);
    hf__list_remove(&claim->place);
    core->free_claim_count--;
    return claim;
}

static int make(struct hf__core *core, struct hf__name *name, const struct hf__terms *terms,
                uint64_t now_ns, struct hf_claim **out_claim)
{
    struct hf_claim *claim = take_claim(core);
    int status;

    if (!claim)
        return HF_ENOMEM;
    claim->name = name;
    name->claim_count++;
    claim->answer.status = HF_PENDING;
    claim->bell = &claim->answer.wake;
    claim->turn = NULL;
    claim->tries = 0;
    claim->heard_busy = false;
    claim->heard_here = false;
    claim->perhaps_done = false;
    claim->holder.pid = 0;
    claim->holder.purpose[0] = '\0';
    claim->error[0] = '\0';
    status = fill(claim, terms, now_ns);
    if (status == HF_OK)
        status = hf__heap_reserve(&core->claim_timers, (size_t)core->stats.waiting + 1);
    if (status < 0) {
        hf__claim_free(claim);
        return status;
    }
    hf__list_append(&core->claims, &claim->member);
    *out_claim = claim;
    return HF_OK;
}

/* Same name, same owner: nested, or an answer that waiting could not change. */
static void nest(struct hf_claim *claim, struct hf__hold *hold, uint64_t now_ns)
{
    bool shared = hold->mode == HF_SHARED || (hold->turn && hold->turn->lowered);
    int status;

    if (!hf__hold_valid(hold, now_ns)) {
        hf__error_set(claim->error, HF_ELOST, "the outer grant of this owner is lost");
        hf__claim_finish(claim, HF_ELOST, now_ns);
        return;
    }
    if (shared && claim->terms.mode == HF_EXCLUSIVE) {
        hf__error_set(claim->error, HF_EDEADLOCK,
                      "this owner holds it shared: waiting for exclusive would be for itself");
        hf__claim_finish(claim, HF_EDEADLOCK, now_ns);
        return;
    }
    status = hf__hold_nest(hold, claim);
    hf__claim_finish(claim, status, now_ns);
}

/* --- the local queue --- */

/* From exclusive to exclusive, never from or to a fixed lease, only with the grace that the store
 * was told (it must wait for this holder as long as for the first), and not against the rules of
 * waiting in line: at most 32 in a turn, and once others wait only to claims that came before that
 * news. */
static bool fits(const struct hf__turn *turn, const struct hf_claim *claim)
{
    return turn->core->recipe->hands_on && turn->mode == HF_EXCLUSIVE && !turn->ends &&
           !turn->lowered && claim->terms.mode == HF_EXCLUSIVE && !claim->terms.fixed_lease &&
           claim->terms.grace_ns == turn->grace_ns;
}

struct hf_claim *hf__claim_next_local(const struct hf__turn *turn, uint64_t now_ns)
{
    const struct hf__name *name = turn->name;
    struct hf_claim *claim;

    if (hf__list_empty(&name->waiting))
        return NULL;
    claim = HF__LIST_ENTRY(name->waiting.next, struct hf_claim, place);
    if (claim->turn || !fits(turn, claim) || turn->handed_on >= HF__HAND_ON_MAX)
        return NULL;
    if (turn->others_wait && claim->number >= turn->hand_on_until)
        return NULL;
    /* It asks the clock, not the store: half of the lease must be left. */
    if (turn->valid_until_ns != HF__NEVER && turn->valid_until_ns < now_ns + turn->lease_ns / 2)
        return NULL;
    return claim;
}

/* A claim keeps out of the store's queue while a turn of this client may yet be handed to it, or
 * while one that is incompatible stands there for all. */
static bool may_stand(const struct hf_claim *claim)
{
    const struct hf__name *name = claim->name;

    HF__LIST_FOR(node, &name->turns)
    {
        const struct hf__turn *turn = HF__LIST_ENTRY(node, struct hf__turn, place);
        bool standing = turn->state == HF__TURN_ASKING || turn->state == HF__TURN_WAITING;
        bool held = turn->state == HF__TURN_HELD || turn->state == HF__TURN_DOUBTED;

        if (standing && (turn->mode == HF_EXCLUSIVE || claim->terms.mode == HF_EXCLUSIVE))
            return false;
        if (held && fits(turn, claim))
            return false;
    }
    return true;
}

static void refuse_try(struct hf_claim *claim, uint64_t now_ns)
{
    hf__text_copy(claim->holder.purpose, sizeof(claim->holder.purpose), "this client");
    hf__claim_finish(claim, HF_EBUSY, now_ns);
}

/* A turn of this client holds it, or was told that others do: true for all who queue behind it. */
static bool is_busy(const struct hf__name *name)
{
    HF__LIST_FOR(node, &name->turns)
    {
        const struct hf__turn *turn = HF__LIST_ENTRY(node, struct hf__turn, place);

        if (turn->hold || (turn->claim && turn->claim->heard_busy))
            return true;
    }
    return false;
}

/* The same has become true while it was queued. */
static bool was_behind_busy(const struct hf_claim *claim)
{
    return claim->number < claim->name->busy_before;
}

static void stand(struct hf_claim *claim, uint64_t now_ns)
{
    struct hf__turn *turn;

    if (hf__turn_new(claim, &turn) < 0) {
        hf__error_set(claim->error, HF_ENOMEM, "out of memory");
        hf__claim_finish(claim, HF_ENOMEM, now_ns);
        return;
    }
    claim->retry_at_ns = HF__NEVER;
    if (claim->reach_until_ns == HF__NEVER) { /* its first question; until now it waited here */
        claim->heard_here = claim->heard_here || was_behind_busy(claim);
        claim->reach_until_ns = soonest(now_ns + claim->core->connect_ns, claim->wait_until_ns);
    }
    if (claim->core->fresh)
        hf__claim_set_timer(claim->core->fresh);
    claim->core->fresh = claim; /* most are answered in this very step, and need no timer */
    hf__turn_ask(turn, now_ns);
}

static void queue_here(struct hf_claim *claim)
{
    claim->heard_here = claim->heard_here || is_busy(claim->name);
    hf__claim_set_timer(claim);
}

void hf__claim_serve(struct hf__core *core, struct hf__name *name, uint64_t now_ns)
{
    bool blocked = false;

    if (core->closing || !core->recipe->hands_on)
        return;

    HF__LIST_FOR(node, &name->waiting)
    {
        struct hf_claim *claim = HF__LIST_ENTRY(node, struct hf_claim, place);

        if (claim->turn || claim->retry_at_ns != HF__NEVER)
            continue;
        blocked = blocked || !may_stand(claim);
        if (!blocked)
            stand(claim, now_ns);
        else if (claim->terms.wait_ms == 0)
            refuse_try(claim, now_ns);
        else
            queue_here(claim);
    }
}

/* --- the beginning --- */

static void refuse_shared(struct hf_claim *claim, uint64_t now_ns)
{
    hf__error_set(claim->error, HF_EUNSUPPORTED, "%s %s has no shared mode",
                  claim->core->driver.engine->name, claim->core->recipe->name);
    hf__claim_finish(claim, HF_EUNSUPPORTED, now_ns);
}

int hf__claim_start(struct hf__core *core, const char *text, const struct hf__terms *terms,
                    uint64_t now_ns, struct hf_claim **out_claim)
{
    struct hf__name *name;
    struct hf_claim *claim = NULL;
    struct hf__hold *outer = NULL;
    size_t bytes;
    int status;

    status = hf__name_check(text, &bytes);
    if (status < 0)
        return hf__error_set(core->driver.error, status, "a lock name has 1 to %d bytes",
                             HF_NAME_BYTES_MAX);
    status = hf__names_get(core, text, bytes, &name);
    if (status < 0)
        return hf__error_set(core->driver.error, status, "out of memory");

    status = check_limits(core, name, core->driver.error);
    if (status == HF_OK) {
        status = make(core, name, terms, now_ns, &claim);
        if (status < 0)
            hf__error_set(core->driver.error, status, "out of memory");
    }
    if (status < 0) {
        hf__names_settle(core, name);
        return status;
    }
    assert(claim);

    if (terms->owner.kind != HF_OWNER_NONE)
        outer = hf__hold_find(name, &terms->owner);
    hf__list_append(&name->waiting, &claim->place);
    name->waiting_count++;
    core->stats.waiting++;
    if (outer)
        nest(claim, outer, now_ns);
    else if (terms->mode == HF_SHARED && !(core->recipe->promises & HF_PROMISE_SHARED))
        refuse_shared(claim, now_ns);
    else if (core->recipe->hands_on)
        hf__claim_serve(core, name, now_ns);
    else
        stand(claim, now_ns);
    *out_claim = claim;
    return HF_OK;
}

/* --- the end --- */

static void count(struct hf__core *core, int status)
{
    if (status == HF_OK)
        core->stats.acquired++;
    else if (status == HF_EBUSY)
        core->stats.busy++;
    else if (status == HF_ETIMEDOUT)
        core->stats.timed_out++;
    else if (status == HF_EUNKNOWN)
        core->stats.unknown++;
}

static void describe(struct hf_claim *claim, int status)
{
    const struct hf__holder *holder = &claim->holder;
    char who[HF__HOST_BYTES + 32];
    char purpose[4 * HF__PURPOSE_BYTES];

    if (claim->error[0] || status == HF_OK)
        return;
    if (status != HF_EBUSY && status != HF_ETIMEDOUT) {
        const char *reason = hf__driver_error(&claim->core->driver);
        bool store = status == HF_EUNREACHABLE || status == HF_EUNKNOWN;
        hf__error_set(claim->error, status, "%s",
                      store && *reason ? reason : hf__error_text(status));
        return;
    }
    if (holder->pid != 0)
        snprintf(who, sizeof(who), "%s:%lld", holder->host, (long long)holder->pid);
    else
        hf__text_copy(who, sizeof(who), "somebody");
    hf__text_escape(holder->purpose, strlen(holder->purpose), purpose, sizeof(purpose));
    hf__error_set(claim->error, status, "%s by %s%s%.96s%s%s",
                  status == HF_EBUSY ? "held" : "still held", who, *purpose ? " (" : "", purpose,
                  *purpose ? ")" : "", status == HF_ETIMEDOUT ? " when the wait ended" : "");
}

void hf__claim_finish(struct hf_claim *claim, int status, uint64_t now_ns)
{
    struct hf__core *core = claim->core;
    struct hf__name *name = claim->name;
    struct hf__turn *turn = claim->turn;

    assert(claim->answer.status == HF_PENDING);
    assert(status != HF_PENDING);

    describe(claim, status);
    count(core, status);
    hf__list_remove(&claim->place);
    name->waiting_count--;
    core->stats.waiting--;
    hf__heap_remove(&core->claim_timers, &claim->timer);
    if (core->fresh == claim)
        core->fresh = NULL;
    claim->ahead = status == HF_OK ? 0 : HF__AHEAD_UNKNOWN;
    if (turn) {
        claim->turn = NULL;
        turn->claim = NULL;
        if (status != HF_OK)
            hf__turn_leave(turn, now_ns);
    }
    if (claim->bell != &claim->answer.wake)
        hf__wake_ring(claim->bell);
    hf__events_answer(core, &claim->answer, status);
    if (!claim->terms.blocking) {
        struct hf_event event = {
            .kind = HF_EVENT_GRANTED,
            .status = status,
            .claim = claim,
            .user = claim->terms.user,
            .cause = "",
        };
        hf__events_put(core, &claim->note, &event);
    }
    hf__names_settle(core, name);
}

void hf__claim_win(struct hf_claim *claim, struct hf__turn *turn, uint64_t now_ns)
{
    int status = hf__hold_new(claim, turn, now_ns);

    claim->turn = NULL;
    turn->claim = NULL;
    turn->name->busy_before = claim->core->next_number;
    if (status < 0) {
        hf__error_set(claim->error, status, "out of memory");
        hf__turn_leave(turn, now_ns);
    }
    hf__claim_finish(claim, status, now_ns);
    hf__claim_serve(claim->core, turn->name ? turn->name : claim->name, now_ns);
}

void hf__claim_cancel(struct hf_claim *claim, uint64_t now_ns)
{
    struct hf__name *name = claim->name;

    if (claim->answer.status != HF_PENDING)
        return;
    hf__claim_finish(claim, HF_ECANCELLED, now_ns);
    hf__claim_serve(claim->core, name, now_ns);
}

/* A question is under way, or it was ours by the store and is being confirmed. */
static bool is_perhaps_taken(const struct hf__turn *turn)
{
    if (turn->fence > 0)
        return true;
    return turn->asking != HF__REQUEST_NONE &&
           hf__driver_perhaps(&turn->core->driver, &turn->ballot);
}

void hf__claim_due(struct hf_claim *claim, uint64_t now_ns)
{
    struct hf__core *core = claim->core;
    struct hf__name *name = claim->name;
    bool waits_here = !claim->turn && claim->retry_at_ns == HF__NEVER;
    bool busy = claim->heard_busy || claim->heard_here || (waits_here && was_behind_busy(claim));
    bool perhaps = claim->perhaps_done || (claim->turn && is_perhaps_taken(claim->turn));
    int silent = perhaps ? HF_EUNKNOWN : HF_EUNREACHABLE;

    if (now_ns >= claim->wait_until_ns) {
        hf__claim_finish(claim, busy ? HF_ETIMEDOUT : silent, now_ns);
        hf__claim_serve(core, name, now_ns);
        return;
    }
    if (now_ns >= claim->reach_until_ns && !claim->heard_busy && !waits_here) {
        hf__claim_finish(claim, silent, now_ns);
        hf__claim_serve(core, name, now_ns);
        return;
    }
    if (now_ns >= claim->retry_at_ns) {
        claim->retry_at_ns = HF__NEVER;
        if (core->recipe->hands_on)
            hf__claim_serve(core, name, now_ns);
        else if (!core->closing)
            stand(claim, now_ns);
    }
    if (claim->answer.status == HF_PENDING)
        hf__claim_set_timer(claim);
}

void hf__claim_free(struct hf_claim *claim)
{
    struct hf__core *core = claim->core;

    assert(hf__list_empty(&claim->place));
    assert(!claim->grant);

    claim->name->claim_count--;
    hf__names_settle(core, claim->name);
    hf__events_drop(&claim->note);
    hf__list_remove(&claim->member);
    if (claim->terms.owner.kind == HF_OWNER_NAMED)
        hf__env_free(core->env, claim->owner_name);
    claim->owner_name = NULL;
    if (core->free_claim_count >= HF__SPARES_MAX) {
        hf__env_free(core->env, claim);
        return;
    }
    hf__list_prepend(&core->free_claims, &claim->place);
    core->free_claim_count++;
}
