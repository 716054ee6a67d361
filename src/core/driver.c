/* driver.c: how do the connections of one client look like one store?
 *
 * Each link is opened, and opened again with growing pauses after it died; grants that are still
 * valid stay valid meanwhile, because nothing here touches them. One store: requests and replies
 * pass through. A quorum: a request goes to every store, each reply is a vote, and the first vote
 * that decides becomes the reply (pattern/quorum.c). A RELEASE is repeated to the stores that have
 * not confirmed it (ballot.stragglers), until the core gives up.
 *
 * What can go wrong: open() fails for good (a bad URL, no right): the status and text are kept,
 * and every submit answers with them, until a later open succeeds. */
#include "core/driver.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "core/core.h"

#define REOPEN_FIRST_NS (50 * HF__NS_PER_MS)
#define REOPEN_MOST_NS  (1 * HF__NS_PER_S)

#define FENCES_OF_A_TURN 256 /* the lowest 8 bits count what is handed on within the client */
#define FAR_US           (3600ull * 1000 * 1000) /* ahead of the time: a store takes no more */

static int start(struct hf__driver *driver, size_t lane, size_t store, uint64_t now_ns)
{
    struct hf__link *link = &driver->links[lane][store];
    struct hf__conn_options options = {
        .url = driver->url,
        .server = store,
        .purpose = driver->purpose,
        .lease_ns = driver->lease_ns,
        .now_ns = now_ns,
        .caller_driven = driver->caller_driven,
        .client_id = driver->client_id,
        .wall_offset_us = (int64_t)driver->proposal_offset_us,
        .carries_calls = driver->lanes == 1 || lane == HF__LANE_CALL,
        .carries_keeping = driver->lanes == 1 || lane == HF__LANE_KEEP,
    };
    int status;

    link->conn->state = HF__CONN_CONNECTING;
    link->is_up = false;
    link->reopen_at_ns = HF__NEVER;
    status = driver->engine->open(link->conn, &options);
    if (status == HF_OK)
        return HF_OK;

    link->conn->state = HF__CONN_DOWN;
    link->reopen_at_ns = hf__retry_after(now_ns, link->tries++, REOPEN_FIRST_NS, REOPEN_MOST_NS,
                                         driver->random_state);
    link->failure = status;
    driver->status = status;
    return hf__error_set(driver->error, status, "%s: %s", driver->engine->name, link->conn->error);
}

int hf__driver_open(struct hf__driver *driver, uint64_t now_ns)
{
    int status = HF_OK;

    driver->lanes =
        driver->recipe->keeper_listens || driver->caller_driven || driver->recipe->in_session
            ? 1
            : HF__LANES;
    driver->stores = driver->recipe->pattern == HF__PATTERN_QUORUM ? driver->url->server_count : 1;
    assert(driver->stores >= 1 && driver->stores <= HF_SERVERS_MAX);

    for (size_t lane = 0; lane < driver->lanes; lane++) {
        for (size_t i = 0; i < driver->stores; i++) {
            struct hf__link *link = &driver->links[lane][i];

            link->conn = hf__env_new(driver->env, driver->engine->conn_size);
            if (!link->conn)
                return hf__error_set(driver->error, HF_ENOMEM, "out of memory");
            link->conn->engine = driver->engine;
            link->conn->recipe = driver->recipe;
            link->conn->env = driver->env;
            status = start(driver, lane, i, now_ns);
            if (status < 0)
                return status;
        }
    }
    return HF_OK;
}

bool hf__driver_parting(struct hf__driver *driver)
{
    bool parting = false;

    for (size_t lane = 0; driver->engine->parting && lane < driver->lanes; lane++) {
        for (size_t i = 0; i < driver->stores; i++) {
            struct hf__conn *conn = driver->links[lane][i].conn;

            if (conn->state == HF__CONN_UP)
                parting = driver->engine->parting(conn) || parting;
        }
    }
    return parting;
}

void hf__driver_close(struct hf__driver *driver)
{
    for (size_t lane = 0; lane < HF__LANES; lane++) {
        for (size_t i = 0; i < HF_SERVERS_MAX; i++) {
            struct hf__link *link = &driver->links[lane][i];

            if (!link->conn)
                continue;
            driver->engine->close(link->conn);
            hf__env_free(driver->env, link->conn);
            link->conn = NULL;
        }
    }
    if (driver->url)
        hf__url_wipe(driver->url);
    hf__env_free(driver->env, driver->url);
    driver->url = NULL;
    driver->lanes = 0; /* nothing is left to ask, to fetch or to poll */
    driver->stores = 0;
}

static int pass(struct hf__driver *driver, enum hf__lane lane, size_t store,
                const struct hf__request *request)
{
    struct hf__link *link = &driver->links[driver->lanes > 1 ? lane : HF__LANE_CALL][store];
    int status;

    if (driver->lanes == 0)
        return HF_ECANCELLED;
    if (link->conn->state == HF__CONN_DOWN)
        return driver->status < 0 ? driver->status : HF_EUNREACHABLE;
    /* Whether it remembers is known only when it has been greeted. */
    if (driver->stores > 1 && link->conn->state != HF__CONN_UP)
        return hf__error_set(driver->error, HF_EUNREACHABLE, "%s: server %zu is not connected yet",
                             driver->engine->name, store + 1);
    if (link->conn->doubted && request->ticket.kind == HF__REQUEST_CLAIM)
        return hf__error_set(driver->error, HF_EUNREACHABLE,
                             "%s: server %zu is new or has forgotten its locks, and is not counted "
                             "before it has seen a majority of the others",
                             driver->engine->name, store + 1);

    status = driver->engine->submit(link->conn, request);
    if (status < 0)
        hf__error_set(driver->error, status, "%s: %s", driver->engine->name, link->conn->error);
    return status;
}

/* A proposal of ours is above all that we have seen, and near the time, so that a client which
 * comes late is seldom too low. */
static uint64_t propose(struct hf__driver *driver, uint64_t now_ns)
{
    uint64_t proposal = (driver->proposal_offset_us + now_ns / HF__NS_PER_US) * FENCES_OF_A_TURN;

    if (proposal <= driver->highest_proposal)
        proposal = driver->highest_proposal + FENCES_OF_A_TURN;
    driver->highest_proposal = proposal;
    return proposal;
}

/* A store that tells of fences far ahead of the time has had a wrong clock, or it lies. One
 * proposal above them is tried; the others would not follow, so no other claim must suffer. */
static bool is_far(const struct hf__driver *driver, uint64_t fence, uint64_t now_ns)
{
    uint64_t now_us = driver->proposal_offset_us + now_ns / HF__NS_PER_US;

    return fence / FENCES_OF_A_TURN > now_us + FAR_US;
}

static void propose_again(struct hf__driver *driver, const struct hf__ballot *ballot,
                          struct hf__reply *reply)
{
    uint64_t proposal = (ballot->votes.highest / FENCES_OF_A_TURN + 1) * FENCES_OF_A_TURN;
    uint64_t now_ns = reply->ticket.sent_ns;

    if (is_far(driver, ballot->fence, now_ns)) { /* that was it */
        reply->kind = HF__REPLY_REFUSED;
        reply->fence = 0;
        return;
    }
    reply->kind = HF__REPLY_CHANGED; /* the core asks again, with this proposal */
    reply->fence = proposal;
    if (!is_far(driver, proposal, now_ns) && driver->highest_proposal < proposal)
        driver->highest_proposal = proposal;
}

/* A store that came back without our lock takes it again, with the fence that we have, once a
 * majority has said that it is still ours. */
static int pass_or_rejoin(struct hf__driver *driver, enum hf__lane lane, size_t store,
                          const struct hf__request *request, uint32_t rejoining)
{
    struct hf__request again = *request;

    if (!(rejoining & (1u << store)))
        return pass(driver, lane, store, request);
    again.ticket.kind = HF__REQUEST_CLAIM;
    again.rejoins = true;
    return pass(driver, lane, store, &again);
}

/* What did not come about changes nothing about what the store has since an earlier proposal. */
static void add_failure(struct hf__ballot *ballot, uint32_t bit)
{
    if (ballot->locked & bit)
        ballot->votes.unknown++;
    else
        ballot->votes.failed++;
}

static int broadcast(struct hf__driver *driver, enum hf__lane lane, struct hf__request *request,
                     struct hf__ballot *ballot)
{
    bool repeated =
        ballot->kind == request->ticket.kind && request->ticket.kind == HF__REQUEST_RELEASE;
    uint32_t everybody = driver->stores == 32 ? UINT32_MAX : (1u << driver->stores) - 1;
    uint32_t audience = repeated && ballot->stragglers ? ballot->stragglers : everybody;
    uint32_t missing = audience == everybody ? 0 : ballot->missing;
    bool renews = request->ticket.kind == HF__REQUEST_RENEW;
    uint32_t rejoining = renews && ballot->granted ? ballot->absent : 0;
    bool claims = request->ticket.kind == HF__REQUEST_CLAIM;
    uint32_t locked = claims && request->fence > 0 ? ballot->locked | (uint32_t)ballot->asked : 0;
    uint32_t accepted = 0;

    if (claims && request->fence == 0)
        request->fence = propose(driver, request->ticket.sent_ns);

    *ballot = (struct hf__ballot){
        .votes = { .stores = (uint32_t)driver->stores },
        .kind = request->ticket.kind,
        .round = request->ticket.round,
        .fence = request->fence,
        .stragglers = request->ticket.kind == HF__REQUEST_RELEASE ? audience : 0,
        .missing = missing,
        .absent = rejoining,
        .rejoining = rejoining,
        .locked = locked,
    };
    /* Those who confirmed an earlier try of this RELEASE need not be asked again. */
    ballot->votes.gone = (uint32_t)__builtin_popcount(everybody & ~audience);
    for (size_t i = 0; i < driver->stores; i++) {
        if (!(audience & (1u << i)))
            continue;
        if (pass_or_rejoin(driver, lane, i, request, rejoining) == HF_OK) {
            ballot->asked |= 1ull << i;
            accepted++;
        } else {
            add_failure(ballot, 1u << i);
        }
    }
    if (accepted == 0)
        return hf__quorum_perhaps(&ballot->votes) ? HF_EUNKNOWN : HF_EUNREACHABLE;
    return HF_OK;
}

int hf__driver_submit(struct hf__driver *driver, enum hf__lane lane, struct hf__request *request,
                      struct hf__ballot *ballot)
{
    assert(request->ticket.kind != HF__REQUEST_NONE);

    if (driver->stores == 1)
        return pass(driver, lane, 0, request);
    return broadcast(driver, lane, request, ballot);
}

bool hf__driver_perhaps(const struct hf__driver *driver, const struct hf__ballot *ballot)
{
    return driver->stores == 1 || hf__quorum_perhaps(&ballot->votes);
}

int hf__driver_submit_to(struct hf__driver *driver, size_t store, const struct hf__request *request)
{
    const struct hf__conn *conn = driver->links[HF__LANE_CALL][store].conn;

    if (driver->lanes > 0 && conn->state == HF__CONN_CONNECTING)
        return HF_PENDING;
    return pass(driver, HF__LANE_CALL, store, request);
}

int hf__driver_prompt(struct hf__driver *driver, const struct hf__request *request)
{
    struct hf__conn *conn = driver->links[HF__LANE_CALL][0].conn;

    assert(request->prompt && driver->recipe->at_hand && driver->stores == 1);

    return conn->state == HF__CONN_UP ? driver->engine->submit(conn, request) : 0;
}

void hf__driver_set_pace(struct hf__driver *driver, enum hf__lane lane, enum hf__pace pace)
{
    for (size_t i = 0; lane < driver->lanes && i < driver->stores; i++)
        driver->links[lane][i].conn->pace = pace;
}

bool hf__driver_take_more(struct hf__driver *driver)
{
    bool more = false;

    for (size_t lane = 0; lane < driver->lanes; lane++) {
        for (size_t i = 0; i < driver->stores; i++) {
            more = more || driver->links[lane][i].conn->polls_more;
            driver->links[lane][i].conn->polls_more = false;
        }
    }
    return more;
}

bool hf__driver_holds_back(const struct hf__driver *driver, enum hf__lane lane)
{
    for (size_t i = 0; lane < driver->lanes && i < driver->stores; i++) {
        if (driver->links[lane][i].conn->holds_back)
            return true;
    }
    return false;
}

bool hf__driver_shares_cpu(const struct hf__driver *driver, enum hf__lane lane)
{
    uint32_t near = 0;

    for (size_t i = 0; lane < driver->lanes && driver->stores > 1 && i < driver->stores; i++)
        near += driver->links[lane][i].conn->is_near;
    return near > 1;
}

int hf__driver_listen(struct hf__driver *driver)
{
    struct hf__conn *conn = driver->links[HF__LANE_CALL][0].conn;

    if (driver->lanes == 0 || driver->stores != 1 || conn->state != HF__CONN_UP ||
        !driver->engine->listen)
        return -1;
    return driver->engine->listen(conn);
}

void hf__driver_heard(struct hf__driver *driver, const void *bytes, size_t count)
{
    driver->engine->heard(driver->links[HF__LANE_CALL][0].conn, bytes, count);
}

static int advance_link(struct hf__driver *driver, struct hf__link *link, uint64_t now_ns,
                        struct hf__reply *out_reply)
{
    int got;

    if (link->conn->state == HF__CONN_DOWN)
        return 0;

    got = driver->engine->advance(link->conn, now_ns, out_reply);
    if (got > 0) {
        if (out_reply->kind == HF__REPLY_FAILED || out_reply->kind == HF__REPLY_UNKNOWN)
            hf__error_set(driver->error, out_reply->status, "%s: %s", driver->engine->name,
                          link->conn->error);
        return got;
    }
    if (got < 0) {
        assert(link->conn->state == HF__CONN_DOWN);
        link->failure = got;
        driver->status = got;
        /* What another connection was refused for is the reason, though this one found none. */
        if (got != HF_EUNREACHABLE || hf__driver_refusal(driver) == HF_OK)
            hf__error_set(driver->error, got, "%s: %s", driver->engine->name, link->conn->error);
        link->reopen_at_ns = hf__retry_after(now_ns, link->tries++, REOPEN_FIRST_NS, REOPEN_MOST_NS,
                                             driver->random_state);
        return 0;
    }
    if (link->conn->state == HF__CONN_UP) {
        if (!link->is_up)
            link->up_since_ns = now_ns;
        link->is_up = true;
        if (link->tries > 0 && link->was_up)
            driver->reconnected++;
        link->tries = 0;
        link->failure = HF_OK;
        link->was_up = true;
        driver->status = HF_OK;
    }
    return 0;
}

int hf__driver_advance(struct hf__driver *driver, uint64_t now_ns, struct hf__reply *out_reply,
                       size_t *out_store)
{
    for (size_t lane = 0; lane < driver->lanes; lane++) {
        for (size_t i = 0; i < driver->stores; i++) {
            struct hf__link *link = &driver->links[lane][i];

            if (link->reopen_at_ns <= now_ns)
                start(driver, lane, i, now_ns);
            if (advance_link(driver, link, now_ns, out_reply) > 0) {
                *out_store = i;
                return 1;
            }
        }
    }
    return 0;
}

static void add_vote(struct hf__ballot *ballot, uint32_t bit, const struct hf__reply *reply)
{
    struct hf__votes *votes = &ballot->votes;

    if (reply->fence > votes->highest)
        votes->highest = reply->fence;
    if (reply->ticket.kind !=
        ballot->kind) { /* it rejoins: what it has from now on proves nothing */
        votes->failed++;
        return;
    }
    switch (reply->kind) {
    case HF__REPLY_GRANTED:
        if (ballot->kind == HF__REQUEST_CLAIM && reply->low)
            votes->low++;
        else if (ballot->kind == HF__REQUEST_CLAIM && reply->fence != ballot->fence)
            votes->unknown++; /* what it accepted is not what we proposed */
        else
            votes->accepted++;
        break;
    case HF__REPLY_QUEUED:
    case HF__REPLY_REFUSED:
        votes->refused++;
        break;
    case HF__REPLY_GONE:
    case HF__REPLY_DONE:
        votes->gone++;
        break;
    case HF__REPLY_UNKNOWN:
        votes->unknown++;
        break;
    case HF__REPLY_CHANGED:
    case HF__REPLY_CROWDED:
    case HF__REPLY_ENTRY:
    case HF__REPLY_FAILED:
        add_failure(ballot, bit);
        break;
    }
}

static void note_locked(struct hf__ballot *ballot, uint32_t bit, enum hf__reply_kind reply)
{
    if (reply == HF__REPLY_GRANTED || reply == HF__REPLY_UNKNOWN)
        ballot->locked |= bit;
    if (reply == HF__REPLY_REFUSED || reply == HF__REPLY_QUEUED || reply == HF__REPLY_GONE)
        ballot->locked &= ~bit;
}

bool hf__driver_count(struct hf__driver *driver, struct hf__ballot *ballot, size_t store,
                      struct hf__reply *reply)
{
    uint64_t bit = 1ull << store;

    if (driver->stores == 1 || reply->ticket.kind == HF__REQUEST_NONE)
        return true;
    if (reply->ticket.round != ballot->round || !(ballot->asked & bit))
        return false;

    ballot->asked &= ~bit;
    if (reply->kind == HF__REPLY_GONE || reply->kind == HF__REPLY_REFUSED)
        ballot->stragglers &= ~(uint32_t)bit;
    if (reply->kind == HF__REPLY_GONE && !reply->released)
        ballot->missing++;
    if (reply->kind == HF__REPLY_GONE)
        ballot->absent |= (uint32_t)bit;
    if (reply->kind == HF__REPLY_GRANTED)
        ballot->absent &= ~(uint32_t)bit;
    add_vote(ballot, (uint32_t)bit, reply);
    if (ballot->kind == HF__REQUEST_CLAIM)
        note_locked(ballot, (uint32_t)bit, reply->kind);
    if (ballot->decided) { /* the last store that had to be told has answered too */
        bool all_out = ballot->kind == HF__REQUEST_RELEASE && ballot->stragglers == 0;

        reply->kind = HF__REPLY_GONE;
        return all_out;
    }

    reply->fence = ballot->fence;
    switch (hf__quorum_verdict(ballot->kind, &ballot->votes)) {
    case HF__VERDICT_OPEN:
        return false;
    case HF__VERDICT_GRANTED:
        ballot->granted = true;
        reply->kind = HF__REPLY_GRANTED;
        break;
    case HF__VERDICT_PROPOSE:
        propose_again(driver, ballot, reply);
        break;
    case HF__VERDICT_REFUSED:
        reply->kind = HF__REPLY_REFUSED;
        break;
    case HF__VERDICT_GONE: /* it was there, unless so many had nothing that no majority can have */
        reply->kind = HF__REPLY_GONE;
        reply->released =
            ballot->missing + hf__quorum_majority((uint32_t)driver->stores) <= driver->stores;
        break;
    case HF__VERDICT_FAILED:
        reply->kind = HF__REPLY_FAILED;
        if (reply->status >= 0 || reply->status == HF_EUNKNOWN) /* to one store; not to all */
            reply->status = HF_EUNREACHABLE;
        break;
    case HF__VERDICT_UNKNOWN:
        reply->kind = HF__REPLY_UNKNOWN;
        reply->status = HF_EUNKNOWN;
        break;
    }
    reply->ticket.kind = ballot->kind;
    ballot->decided = true;
    return true;
}

uint64_t hf__driver_deadline(const struct hf__driver *driver)
{
    uint64_t deadline_ns = driver->stores > 1 ? driver->muster_at_ns : HF__NEVER;

    for (size_t lane = 0; lane < driver->lanes; lane++) {
        for (size_t i = 0; i < driver->stores; i++) {
            if (driver->links[lane][i].reopen_at_ns < deadline_ns)
                deadline_ns = driver->links[lane][i].reopen_at_ns;
        }
    }
    return deadline_ns;
}

void hf__driver_pollset(struct hf__driver *driver, enum hf__lane lane, struct hf__pollset *set)
{
    if (lane >= driver->lanes)
        return;

    for (size_t i = 0; i < driver->stores; i++) {
        if (driver->links[lane][i].conn->state != HF__CONN_DOWN)
            driver->engine->pollset(driver->links[lane][i].conn, set);
    }
}

enum hf__conn_state hf__driver_state(const struct hf__driver *driver)
{
    uint32_t up = 0;
    uint32_t down = 0;

    for (size_t i = 0; i < driver->stores; i++) {
        bool all_up = true;
        bool all_down = true;

        for (size_t lane = 0; lane < driver->lanes; lane++) {
            all_up = all_up && driver->links[lane][i].conn->state == HF__CONN_UP;
            all_down = all_down && driver->links[lane][i].conn->state == HF__CONN_DOWN;
        }
        up += all_up;
        down += all_down;
    }
    if (up >= hf__quorum_majority((uint32_t)driver->stores))
        return HF__CONN_UP;
    return down == driver->stores ? HF__CONN_DOWN : HF__CONN_CONNECTING;
}

bool hf__driver_settled(const struct hf__driver *driver)
{
    for (size_t lane = 0; lane < driver->lanes; lane++) {
        for (size_t i = 0; i < driver->stores; i++) {
            if (driver->links[lane][i].conn->state == HF__CONN_CONNECTING)
                return false;
        }
    }
    return true;
}

int hf__driver_refusal(const struct hf__driver *driver)
{
    uint32_t refused = 0;
    int status = HF_OK;

    for (size_t i = 0; i < driver->stores; i++) {
        bool for_good = false;

        for (size_t lane = 0; lane < driver->lanes; lane++) {
            int failure = driver->links[lane][i].failure;

            if (failure == HF_OK || failure == HF_EUNREACHABLE)
                continue;
            for_good = true;
            status = failure;
        }
        refused += for_good;
    }
    return refused + hf__quorum_majority((uint32_t)driver->stores) > driver->stores ? status
                                                                                    : HF_OK;
}

/* What all stores that are up promise. */
uint32_t hf__driver_promises(const struct hf__driver *driver)
{
    uint32_t promises = driver->recipe->promises;

    for (size_t i = 0; i < driver->stores; i++) {
        if (driver->links[HF__LANE_CALL][i].conn->state == HF__CONN_UP)
            promises &= driver->links[HF__LANE_CALL][i].conn->promises;
    }
    return promises;
}

const char *hf__driver_withheld(const struct hf__driver *driver)
{
    for (size_t i = 0; i < driver->stores; i++) {
        const struct hf__conn *conn = driver->links[HF__LANE_CALL][i].conn;

        if (conn->state == HF__CONN_UP && *conn->withheld)
            return conn->withheld;
    }
    return "";
}

const char *hf__driver_error(const struct hf__driver *driver)
{
    return driver->error;
}
