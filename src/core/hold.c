/* hold.c: what is held, by whom, until when, and how does it end?
 *
 * A hold is one possession by one owner, carried by a turn; the user has one or more grants
 * (handles) on it. Its validity is one atomic number, so that a user may ask at any time without a
 * lock.
 *
 * It ends by the release of its last handle (the turn goes back to the store, or on to the next
 * claim of this client), or by loss: then every handle is told, once, and stays lost whatever
 * comes. */
#include <assert.h>
#include <string.h>

#include "core/core.h"

static bool same_owner(const struct hf__owner *a, const struct hf__owner *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == HF_OWNER_THREAD)
        return a->thread == b->thread;
    return a->kind == HF_OWNER_NAMED && strcmp(a->name, b->name) == 0;
}

struct hf__hold *hf__hold_find(const struct hf__name *name, const struct hf__owner *owner)
{
    HF__LIST_FOR(node, &name->holds)
    {
        struct hf__hold *hold = HF__LIST_ENTRY(node, struct hf__hold, place);

        if (hold->grant_count > 0 && same_owner(&hold->owner, owner))
            return hold;
    }
    return NULL;
}

bool hf__hold_valid(const struct hf__hold *hold, uint64_t now_ns)
{
    uint64_t until_ns = atomic_load_explicit(&hold->valid_until_ns, memory_order_acquire);

    return now_ns < until_ns;
}

void hf__hold_set_validity(struct hf__hold *hold, uint64_t valid_until_ns)
{
    if (valid_until_ns > hold->end_ns)
        valid_until_ns = hold->end_ns;
    atomic_store_explicit(&hold->valid_until_ns, valid_until_ns, memory_order_release);
}

bool hf__hold_ended(const struct hf__hold *hold, uint64_t now_ns)
{
    return now_ns >= hold->turn->valid_until_ns || now_ns >= hold->end_ns;
}

const char *hf__hold_cause(const struct hf__hold *hold, uint64_t now_ns)
{
    bool has_maximum = hold->end_ns != HF__NEVER && !hold->end_is_lease;
    /* Where the store ends the turn itself, its lease is the maximum. */
    bool store_ends = hold->turn && hold->turn->ends;

    return has_maximum && (store_ends || now_ns >= hold->end_ns) ? HF__CAUSE_MAX_HOLD
                                                                 : HF__CAUSE_EXPIRED;
}

/* --- birth --- */

static struct hf_grant *take_grant(struct hf__core *core)
{
    struct hf_grant *grant;

    if (hf__list_empty(&core->free_grants)) {
        grant = hf__env_new(core->env, sizeof(*grant));
        if (!grant)
            return NULL;
        grant->core = core;
        hf__list_init(&grant->place);
        hf__list_init(&grant->note.place);
        return grant;
    }
    grant = HF__LIST_ENTRY(core->free_grants.next, struct hf_grant, place);
    hf__list_remove(&grant->place);
    core->free_grant_count--;
    return grant;
}

static struct hf_grant *new_grant(struct hf__core *core, struct hf__hold *hold,
                                  const struct hf__terms *terms, void *client)
{
    struct hf_grant *grant = take_grant(core);

    if (!grant)
        return NULL;
    grant->releasing = false;
    grant->announces = false;
    grant->abandoned = false;
    grant->client = client;
    grant->hold = hold;
    grant->user = terms->user;
    grant->mode = terms->mode;
    grant->answer.status = HF_PENDING;
    hf__list_append(&hold->grants, &grant->place);
    hold->grant_count++;
    core->stats.held++;
    return grant;
}

void hf__hold_end(struct hf__hold *hold, uint64_t end_ns)
{
    hold->end_is_lease = end_ns < hold->latest_ns;
    hold->end_ns = hold->end_is_lease ? end_ns : hold->latest_ns;
}

static void limit(struct hf__hold *hold, const struct hf__terms *terms, const struct hf__turn *turn,
                  uint64_t now_ns)
{
    uint64_t max_hold_ns = terms->max_hold_ns;

    /* The session may last for less than the lease, and is renewed. */
    uint64_t lease_end_ns = turn->core->recipe->in_session
                                ? hf__validity_until(turn->asked_ns, terms->lease_ns)
                                : turn->valid_until_ns;

    hold->latest_ns = max_hold_ns > 0 ? now_ns + max_hold_ns : HF__NEVER;
    hf__hold_end(hold, terms->fixed_lease ? lease_end_ns : HF__NEVER);
}

static struct hf__hold *take_hold(struct hf__core *core)
{
    struct hf__hold *hold;

    if (!hf__list_empty(&core->free_holds)) {
        hold = HF__LIST_ENTRY(core->free_holds.next, struct hf__hold, place);
        hf__list_remove(&hold->place);
        return hold;
    }
    hold = hf__env_new(core->env, sizeof(*hold));
    if (hold) {
        hf__list_init(&hold->place);
        hf__list_init(&hold->grants);
    }
    return hold;
}

static struct hf_grant *make(struct hf__turn *turn, const struct hf__terms *terms, void *client,
                             uint64_t now_ns)
{
    struct hf__core *core = turn->core;
    struct hf__hold *hold = take_hold(core);
    struct hf_grant *grant;

    if (!hold)
        return NULL;
    grant = new_grant(core, hold, terms, client);
    if (!grant) {
        hf__list_append(&core->free_holds, &hold->place);
        return NULL;
    }

    hold->name = turn->name;
    hold->turn = turn;
    hold->owner = terms->owner;
    hold->owner_name = NULL;
    hold->mode = terms->mode;
    hold->fence = turn->fence;
    hold->lost_cause = NULL;
    hold->asked = false;
    limit(hold, terms, turn, now_ns);
    atomic_store_explicit(&hold->lease_ns, terms->lease_ns, memory_order_relaxed);
    hf__hold_set_validity(hold, turn->valid_until_ns);
    hf__list_append(&turn->name->holds, &hold->place);
    turn->hold = hold;
    return grant;
}

int hf__hold_new(struct hf_claim *claim, struct hf__turn *turn, uint64_t now_ns)
{
    claim->grant = make(turn, &claim->terms, claim->client, now_ns);
    if (!claim->grant)
        return HF_ENOMEM;
    turn->hold->owner_name = claim->owner_name; /* the text is the hold's from now on */
    claim->owner_name = NULL;
    claim->terms.owner.kind = HF_OWNER_NONE;
    return HF_OK;
}

struct hf_grant *hf__hold_take(struct hf__turn *turn, const struct hf__terms *terms, void *client,
                               uint64_t now_ns)
{
    assert(terms->owner.kind == HF_OWNER_NONE);

    return make(turn, terms, client, now_ns);
}

int hf__hold_nest(struct hf__hold *hold, struct hf_claim *claim)
{
    claim->grant = new_grant(claim->core, hold, &claim->terms, claim->client);
    return claim->grant ? HF_OK : HF_ENOMEM;
}

/* --- telling --- */

void hf__hold_tell(struct hf__hold *hold, int event_kind, uint64_t now_ns)
{
    HF__LIST_FOR(node, &hold->grants)
    {
        struct hf_grant *grant = HF__LIST_ENTRY(node, struct hf_grant, place);
        struct hf_event event = {
            .kind = event_kind,
            .status = event_kind == HF_EVENT_LOST ? HF_ELOST : HF_OK,
            .grant = grant,
            .user = grant->user,
            .remaining_ms = hf__clock_left_ms(now_ns, atomic_load(&hold->valid_until_ns)),
            .cause = hold->lost_cause ? hold->lost_cause : "",
        };

        if (!grant->releasing)
            hf__events_put(grant->core, &grant->note, &event);
    }
}

void hf__hold_lose(struct hf__hold *hold, const char *cause, uint64_t now_ns)
{
    if (hold->lost_cause)
        return;
    hold->lost_cause = cause;
    atomic_store_explicit(&hold->valid_until_ns, 0, memory_order_release);
    if (hold->grant_count == 0)
        return;
    HF__LIST_ENTRY(hold->grants.next, struct hf_grant, place)->core->stats.lost++;
    hf__hold_tell(hold, HF_EVENT_LOST, now_ns);
}

/* --- the end --- */

static void free_hold(struct hf__core *core, struct hf__hold *hold)
{
    assert(hold->grant_count == 0 && !hold->turn);

    hf__list_remove(&hold->place);
    if (hold->owner_name)
        hf__env_free(core->env, hold->owner_name);
    hold->owner_name = NULL;
    hold->owner.kind = HF_OWNER_NONE;
    hf__names_settle(core, hold->name);
    hf__list_append(&core->free_holds, &hold->place);
}

/* Without asking the store: the turn goes on under the next fence of its 256. */
static void hand_on(struct hf__turn *turn, struct hf_claim *next, uint64_t now_ns)
{
    turn->handed_on++;
    turn->fence++;
    turn->lease_ns = next->terms.lease_ns;
    turn->core->stats.handed_on++;
    if (turn->fence > turn->name->fence_seen)
        turn->name->fence_seen = turn->fence;
    hf__trace(turn->core->env, "%s: handed on (turn %llx)", turn->name->text,
              (unsigned long long)turn->id);
    turn->at_risk = false; /* whom that was told is gone */
    hf__claim_win(next, turn, now_ns);
    hf__turn_set_timer(turn); /* its own maximal hold */
}

static int give_back(struct hf_grant *grant, struct hf__turn *turn, uint64_t now_ns)
{
    struct hf_claim *next = hf__claim_next_local(turn, now_ns);
    struct hf__core *core = turn->core;
    struct hf__name *name = turn->name;

    turn->hold->turn = NULL;
    turn->hold = NULL;
    if (next) {
        hand_on(turn, next, now_ns);
        core->stats.released++;
        return HF_OK;
    }
    turn->leaver = grant->abandoned ? NULL : grant;
    hf__turn_leave(turn, now_ns);
    hf__claim_serve(core, name, now_ns);
    return HF_PENDING;
}

/* Out of the nest. Gives the status, or HF_PENDING when the store has to be asked. */
static int let_go(struct hf_grant *grant, uint64_t now_ns)
{
    struct hf__hold *hold = grant->hold;
    struct hf__core *core = grant->core;
    struct hf__turn *turn = hold->turn;
    bool valid = hf__hold_valid(hold, now_ns);
    int status = valid ? HF_OK : HF_ELOST;

    hf__list_remove(&grant->place);
    hold->grant_count--;
    core->stats.held--;
    if (!valid && !hold->lost_cause) { /* the loss shows at release */
        hold->lost_cause = hf__hold_cause(hold, now_ns);
        atomic_store(&hold->valid_until_ns, 0);
        core->stats.lost++;
        hf__hold_tell(hold, HF_EVENT_LOST, now_ns);
    }
    if (hold->grant_count > 0)
        return status;

    if (turn && valid) {
        status = give_back(grant, turn, now_ns);
    } else if (turn) {
        if (turn->state != HF__TURN_LOST)
            turn->renew_at_ns = HF__NEVER;
        hf__turn_leave(turn, now_ns);
        hf__claim_serve(core, hold->name, now_ns);
    }
    free_hold(core, hold);
    grant->hold = NULL;
    return status;
}

void hf__hold_release(struct hf_grant *grant, uint64_t now_ns)
{
    int status;

    assert(!grant->releasing);

    grant->releasing = true;
    grant->answer.status = HF_PENDING;
    hf__events_drop(&grant->note);
    status = let_go(grant, now_ns);
    grant->hold = NULL;
    if (status != HF_PENDING)
        hf__hold_answer(grant, status);
}

bool hf__hold_give(struct hf_grant *grant, uint64_t now_ns)
{
    struct hf__hold *hold = grant->hold;
    struct hf__core *core = grant->core;
    struct hf__turn *turn = hold->turn;
    bool plain = turn && turn->state == HF__TURN_HELD && !turn->ends && !turn->asker &&
                 turn->asking == HF__REQUEST_NONE && hold->grant_count == 1;

    assert(!grant->releasing);

    if (!plain || !hf__turn_quit(turn, now_ns))
        return false;
    grant->releasing = true;
    hf__events_drop(&grant->note);
    hf__list_remove(&grant->place);
    hold->grant_count = 0;
    core->stats.held--;
    core->stats.released++;
    free_hold(core, hold);
    grant->hold = NULL;
    return true;
}

void hf__hold_abandon(struct hf_grant *grant, uint64_t now_ns)
{
    grant->releasing = true;
    grant->abandoned = true;
    hf__events_drop(&grant->note);
    let_go(grant, now_ns);
    hf__hold_free_grant(grant);
}

/* The answer to a release: for whoever waits for it, or as the last event of the handle. */
void hf__hold_answer(struct hf_grant *grant, int status)
{
    struct hf_event event = {
        .kind = HF_EVENT_RELEASED,
        .status = status,
        .grant = grant,
        .user = grant->user,
        .cause = "",
    };

    if (grant->announces)
        hf__events_put(grant->core, &grant->note, &event);
    hf__events_answer(grant->core, &grant->answer, status);
}

void hf__hold_extend(struct hf_grant *grant, uint64_t lease_ns, uint64_t now_ns)
{
    struct hf__hold *hold = grant->hold;
    struct hf__turn *turn = hold->turn;

    grant->answer.status = HF_PENDING;
    if (!hf__hold_valid(hold, now_ns) || !turn || turn->asker) {
        hf__events_answer(grant->core, &grant->answer, turn && turn->asker ? HF_EBUSY : HF_ELOST);
        return;
    }
    /* Not beyond the maximal hold, where the store is to end it; elsewhere we do. */
    if (turn->ends && now_ns + lease_ns > hold->latest_ns)
        lease_ns = hold->latest_ns - now_ns;
    turn->asker = grant;
    hf__turn_extend(turn, lease_ns, now_ns);
}

void hf__hold_downgrade(struct hf_grant *grant, uint64_t now_ns)
{
    struct hf__hold *hold = grant->hold;
    struct hf__turn *turn = hold->turn;

    grant->answer.status = HF_PENDING;
    if (!hf__hold_valid(hold, now_ns) || !turn || turn->asker) {
        hf__events_answer(grant->core, &grant->answer, turn && turn->asker ? HF_EBUSY : HF_ELOST);
        return;
    }
    if (hold->mode == HF_SHARED) {
        hf__events_answer(grant->core, &grant->answer, HF_OK);
        return;
    }
    turn->asker = grant;
    hf__turn_lower(turn, now_ns);
}

void hf__hold_free_grant(struct hf_grant *grant)
{
    struct hf__core *core = grant->core;

    assert(hf__list_empty(&grant->place));

    hf__events_drop(&grant->note);
    if (core->free_grant_count >= HF__SPARES_MAX) {
        hf__env_free(core->env, grant);
        return;
    }
    hf__list_prepend(&core->free_grants, &grant->place);
    core->free_grant_count++;
}
