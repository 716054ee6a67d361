/* muster.c: which stores of a quorum may be counted?
 *
 * Fences rise because two majorities share a store, and a store never accepts a fence below one
 * that it has accepted. A store that was wiped, or lost the end of its log, has forgotten: its word
 * is not counted (the engine says so: conn->doubted). It is counted again when the longest lease
 * that a majority of the others knows has passed, and every turn that it may have forgotten has
 * ended; and after that it was told the greatest fence that such a majority knows. If all stores
 * are there and all are new, they have nothing to forget.
 *
 * What can go wrong: too few others are there: then it waits. Two clients do it at once: a store
 * only ever raises what it was told before, and who sees it admitted by another trusts it too. */
#include "base/clock.h"
#include "core/core.h"

#define ROUND_NS (100 * HF__NS_PER_MS) /* between two looks */

static struct hf__link *link_of(struct hf__driver *driver, size_t store)
{
    return &driver->links[driver->lanes > 1 ? HF__LANE_KEEP : HF__LANE_CALL][store];
}

static bool is_doubted(const struct hf__driver *driver, size_t store)
{
    for (size_t lane = 0; lane < driver->lanes; lane++) {
        const struct hf__conn *conn = driver->links[lane][store].conn;

        if (conn->state == HF__CONN_UP && conn->doubted)
            return true;
    }
    return false;
}

static void ask(struct hf__driver *driver, size_t store, enum hf__request_kind kind, uint64_t fence,
                uint64_t now_ns)
{
    struct hf__request request = {
        .ticket = { .kind = kind, .round = driver->muster_round, .sent_ns = now_ns },
        .fence = fence,
        .deadline_ns = now_ns + ROUND_NS,
    };
    struct hf__conn *conn = link_of(driver, store)->conn;

    if (conn->state == HF__CONN_UP)
        (void)driver->engine->submit(conn, &request); /* refused: the next round asks again */
}

void hf__muster_step(struct hf__driver *driver, uint64_t now_ns)
{
    bool doubts = false;

    for (size_t i = 0; driver->stores > 1 && i < driver->stores; i++)
        doubts = doubts || is_doubted(driver, i);
    if (!doubts)
        driver->muster_at_ns = HF__NEVER;
    if (!doubts || (driver->muster_at_ns != HF__NEVER && now_ns < driver->muster_at_ns))
        return;

    driver->muster_at_ns = now_ns + ROUND_NS;
    driver->muster_round++;
    for (size_t i = 0; i < driver->stores; i++) {
        link_of(driver, i)->surveyed = false;
        link_of(driver, i)->is_blank = false;
        ask(driver, i, HF__REQUEST_SURVEY, 0, now_ns);
    }
}

/* All of them said in this round that they were never counted: there is nothing to forget. */
static void begin_anew(struct hf__driver *driver, uint64_t asked_ns)
{
    for (size_t i = 0; i < driver->stores; i++) {
        if (!link_of(driver, i)->is_blank)
            return;
    }
    for (size_t i = 0; i < driver->stores; i++)
        ask(driver, i, HF__REQUEST_ADMIT, 0, asked_ns);
}

/* What a majority of all stores, none of them in doubt, has told in this round. */
static bool sum_up(struct hf__driver *driver, uint64_t *out_fence, uint64_t *out_lease_ns)
{
    uint32_t told = 0;

    *out_fence = 0;
    *out_lease_ns = 0;
    for (size_t i = 0; i < driver->stores; i++) {
        const struct hf__link *link = link_of(driver, i);

        if (!link->surveyed)
            continue;
        told++;
        if (link->highest_fence > *out_fence)
            *out_fence = link->highest_fence;
        if (link->longest_lease_ns > *out_lease_ns)
            *out_lease_ns = link->longest_lease_ns;
    }
    return told >= hf__quorum_majority((uint32_t)driver->stores);
}

/* What was asked before a connection was up says nothing about the server behind it now. */
static void trust(struct hf__driver *driver, size_t store, uint64_t asked_ns)
{
    for (size_t lane = 0; lane < driver->lanes; lane++) {
        struct hf__link *link = &driver->links[lane][store];

        if (link->conn->state == HF__CONN_UP && link->up_since_ns <= asked_ns)
            link->conn->doubted = false;
    }
}

static void hear_survey(struct hf__driver *driver, size_t store, const struct hf__reply *reply)
{
    uint64_t asked_ns = reply->ticket.sent_ns; /* the same for all of this round */
    uint64_t fence;
    uint64_t lease_ns;

    link_of(driver, store)->surveyed = true;
    link_of(driver, store)->highest_fence = reply->fence;
    link_of(driver, store)->longest_lease_ns = reply->lease_ns;
    if (!sum_up(driver, &fence, &lease_ns))
        return;
    /* A claim that it had accepted, and the others had not heard of yet, is heard or given up. */
    if (lease_ns < HF__ASK_NS_MAX)
        lease_ns = HF__ASK_NS_MAX;
    lease_ns += lease_ns / 50; /* clocks differ in speed */
    for (size_t i = 0; i < driver->stores; i++) {
        const struct hf__conn *conn = link_of(driver, i)->conn;

        if (is_doubted(driver, i) && asked_ns >= conn->doubted_since_ns + lease_ns)
            ask(driver, i, HF__REQUEST_ADMIT, fence, asked_ns);
    }
}

void hf__muster_hear(struct hf__driver *driver, size_t store, const struct hf__reply *reply)
{
    struct hf__link *link = link_of(driver, store);
    bool is_late = reply->ticket.round != driver->muster_round;

    if (reply->ticket.kind == HF__REQUEST_ADMIT) {
        if (reply->kind == HF__REPLY_DONE)
            trust(driver, store, reply->ticket.sent_ns);
        return;
    }
    if (reply->kind == HF__REPLY_GONE && !is_late) {
        link->is_blank = true;
        begin_anew(driver, reply->ticket.sent_ns);
    }
    if (reply->kind != HF__REPLY_DONE || link->conn->doubted)
        return; /* what it knows is not enough */
    trust(driver, store, reply->ticket.sent_ns);
    if (!is_late)
        hear_survey(driver, store, reply);
}
