/* muster.c: which stores of a quorum may be counted?
 *
 * Fences rise because two majorities share a store, and a store never accepts a fence below one
 * that it has accepted. A store that was wiped, or lost the end of its log, has forgotten: its word
 * is not counted (the engine says so: conn->doubted). It is counted again when the longest lease
 * that a majority of the others knows has passed, and every turn that it may have forgotten has
 * ended; and after that it was told the greatest fence that such a majority knows.
 *
 * If all stores are there and all are new, they have nothing to forget. They are made a quorum in
 * two steps, so that one which was left halfway can be told from one whose stores have forgotten:
 * first each notes that it was never counted, and when all have, they are counted.
 *
 * What can go wrong: too few others are there: then it waits. Two clients do it at once: a store
 * only ever raises what it was told before, and who sees it admitted by another trusts it too. */
#include "base/clock.h"
#include "core/core.h"

#define ROUND_NS    (100 * HF__NS_PER_MS) /* between two looks, if all is answered by then */
#define PATIENCE_NS (500 * HF__NS_PER_MS) /* otherwise */

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
        .deadline_ns = now_ns + PATIENCE_NS,
    };
    struct hf__conn *conn = link_of(driver, store)->conn;

    /* Refused, or not there: the next round asks again. */
    if (conn->state == HF__CONN_UP && driver->engine->submit(conn, &request) == HF_OK)
        driver->muster_open++;
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

    driver->muster_at_ns = now_ns + PATIENCE_NS;
    driver->muster_round++;
    driver->muster_open = 0;
    for (size_t i = 0; i < driver->stores; i++) {
        link_of(driver, i)->surveyed = false;
        link_of(driver, i)->is_blank = false;
        link_of(driver, i)->is_founding = false;
        ask(driver, i, HF__REQUEST_SURVEY, 0, now_ns);
    }
}

/* All of them said in this round that they know nothing, or that there was nothing to know. */
static void found(struct hf__driver *driver, uint64_t asked_ns)
{
    for (size_t i = 0; i < driver->stores; i++) {
        if (!link_of(driver, i)->is_blank && !link_of(driver, i)->is_founding)
            return;
    }
    for (size_t i = 0; i < driver->stores; i++) {
        if (link_of(driver, i)->is_blank)
            ask(driver, i, HF__REQUEST_FOUND, 0, asked_ns);
    }
}

/* None of them has forgotten anything: those that were never counted are, from now on. */
static void admit_founders(struct hf__driver *driver, uint64_t asked_ns)
{
    for (size_t i = 0; i < driver->stores; i++) {
        if (!link_of(driver, i)->surveyed)
            return;
    }
    for (size_t i = 0; i < driver->stores; i++) {
        if (link_of(driver, i)->is_founding)
            ask(driver, i, HF__REQUEST_ADMIT, 0, asked_ns);
    }
}

/* What a majority of all stores, none of them in doubt, has told in this round. If none of them was
 * ever counted, it is a new quorum, and all must be there. */
static bool sum_up(struct hf__driver *driver, uint64_t *out_fence, uint64_t *out_lease_ns)
{
    uint32_t told = 0;
    uint32_t counted = 0;

    *out_fence = 0;
    *out_lease_ns = 0;
    for (size_t i = 0; i < driver->stores; i++) {
        const struct hf__link *link = link_of(driver, i);

        if (!link->surveyed)
            continue;
        told++;
        counted += !link->is_founding;
        if (link->highest_fence > *out_fence)
            *out_fence = link->highest_fence;
        if (link->longest_lease_ns > *out_lease_ns)
            *out_lease_ns = link->longest_lease_ns;
    }
    return counted > 0 && told >= hf__quorum_majority((uint32_t)driver->stores);
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
    admit_founders(driver, asked_ns);
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

/* It has noted, now or before, that it was never counted: what it tells is that it knows nothing,
 * and that is true. */
static void hear_founder(struct hf__driver *driver, size_t store, const struct hf__reply *reply)
{
    link_of(driver, store)->is_blank = false;
    link_of(driver, store)->is_founding = true;
    hear_survey(driver, store, reply);
}

static void hear_blank(struct hf__driver *driver, size_t store, const struct hf__reply *reply)
{
    if (reply->is_founding)
        hear_founder(driver, store, reply);
    else
        link_of(driver, store)->is_blank = true;
    found(driver, reply->ticket.sent_ns);
}

static void hear_in_time(struct hf__driver *driver, size_t store, const struct hf__reply *reply)
{
    bool surveyed = reply->ticket.kind == HF__REQUEST_SURVEY;

    if (surveyed && reply->kind == HF__REPLY_GONE)
        hear_blank(driver, store, reply);
    if (surveyed && reply->kind == HF__REPLY_DONE && !link_of(driver, store)->conn->doubted)
        hear_survey(driver, store, reply);
    if (reply->ticket.kind == HF__REQUEST_FOUND && reply->kind == HF__REPLY_DONE)
        hear_founder(driver, store, reply);
    if (--driver->muster_open == 0 && driver->muster_at_ns > reply->ticket.sent_ns + ROUND_NS)
        driver->muster_at_ns = reply->ticket.sent_ns + ROUND_NS;
}

void hf__muster_hear(struct hf__driver *driver, size_t store, const struct hf__reply *reply)
{
    bool counts = reply->kind == HF__REPLY_DONE &&
                  (reply->ticket.kind == HF__REQUEST_ADMIT ||
                   (reply->ticket.kind == HF__REQUEST_SURVEY &&
                    !link_of(driver, store)->conn->doubted)); /* what it knows is enough */

    if (counts)
        trust(driver, store, reply->ticket.sent_ns);
    if (reply->ticket.round == driver->muster_round)
        hear_in_time(driver, store, reply);
}
