/* quorum.c: what do N independent stores say together?
 *
 * A claim is granted when a majority has both locked and accepted the proposed fence: two
 * majorities share a store, and a store accepts only rising fences, so fences are unique and rise
 * (models/ has the proof). Enough locks but too few acceptances: the fence was too low; propose one
 * above the greatest counter told, to the same locks. A verdict is given as early as it is certain:
 * at the majority, or when a majority can no longer come about.
 *
 * UNKNOWN counts as "perhaps": it never helps a majority, and it keeps FAILED from being said; of a
 * claim only if those that perhaps have it are a majority, since a minority has taken nothing.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "pattern/pattern.h"

#include <assert.h>

uint32_t hf__quorum_majority(uint32_t stores)
{
    assert(stores >= 1 && stores <= HF_SERVERS_MAX);

    return stores / 2 + 1;
}

static uint32_t answered(const struct hf__votes *votes)
{
    return votes->accepted + votes->low + votes->refused + votes->gone + votes->failed +
           votes->unknown;
}

static enum hf__verdict silence(const struct hf__votes *votes)
{
    return votes->unknown > 0 ? HF__VERDICT_UNKNOWN : HF__VERDICT_FAILED;
}

bool hf__quorum_perhaps(const struct hf__votes *votes)
{
    uint32_t without = votes->refused + votes->gone + votes->failed;

    assert(answered(votes) <= votes->stores);

    return votes->stores - without >= hf__quorum_majority(votes->stores);
}

/* RELEASE: a store that refuses or has never heard of it is as good as one that let go. */
static enum hf__verdict judge_release(const struct hf__votes *votes, uint32_t majority,
                                      uint32_t open)
{
    uint32_t out = votes->gone + votes->refused;

    if (out >= majority)
        return HF__VERDICT_GONE;
    if (out + open < majority) /* who has not answered yet may still do it */
        return open > 0 ? HF__VERDICT_UNKNOWN : silence(votes);
    return HF__VERDICT_OPEN;
}

static enum hf__verdict judge_claim(const struct hf__votes *votes, uint32_t majority, uint32_t open)
{
    uint32_t locked = votes->accepted + votes->low;

    if (votes->accepted >= majority)
        return HF__VERDICT_GRANTED;
    if (votes->accepted + open >= majority)
        return HF__VERDICT_OPEN;
    if (locked >= majority)
        return HF__VERDICT_PROPOSE;
    if (locked + open >= majority)
        return HF__VERDICT_OPEN;
    if (votes->refused > 0)
        return HF__VERDICT_REFUSED;
    if (votes->gone >= majority)
        return HF__VERDICT_GONE;
    return hf__quorum_perhaps(votes) ? HF__VERDICT_UNKNOWN : HF__VERDICT_FAILED;
}

/* RENEW, INSPECT, DOWNGRADE: still ours if a majority says so; lost if a majority denies it. */
static enum hf__verdict judge_hold(const struct hf__votes *votes, uint32_t majority, uint32_t open)
{
    uint32_t ours = votes->accepted + votes->low;

    if (ours >= majority)
        return HF__VERDICT_GRANTED;
    if (votes->gone + votes->refused >= majority)
        return HF__VERDICT_GONE;
    return open > 0 ? HF__VERDICT_OPEN : silence(votes);
}

enum hf__verdict hf__quorum_verdict(enum hf__request_kind kind, const struct hf__votes *votes)
{
    uint32_t majority = hf__quorum_majority(votes->stores);
    uint32_t open = votes->stores - answered(votes);

    assert(answered(votes) <= votes->stores);

    if (kind == HF__REQUEST_RELEASE || kind == HF__REQUEST_BREAK)
        return judge_release(votes, majority, open);
    if (kind == HF__REQUEST_CLAIM)
        return judge_claim(votes, majority, open);
    return judge_hold(votes, majority, open);
}
