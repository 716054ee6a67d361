/* pattern.c: given what we were doing and what the store answered, what comes next?
 *
 * One table per pattern, a row per reply, a column per phase. The happy path runs along the first
 * rows: GRANTED while asking is HOLD, QUEUED is WAIT, GONE while leaving is LEFT. What can go
 * wrong stands to the right: FAILED (certainly not applied) and UNKNOWN (perhaps applied) both ask
 * again as the same claim, which every store treats as the same question; the difference is what
 * the caller is told if there is no time left, and that is the core's business.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "pattern/pattern.h"

#include <assert.h>

#define M(move) HF__MOVE_##move

/* clang-format off */

/*                            asking      waiting     holding     leaving */

/* A record with an owner and an end. Nobody stands in line: who is refused asks again, later or
 * when told that something has changed. */
static const enum hf__move lease[HF__REPLY_KINDS][HF__PHASES] = {
    [HF__REPLY_GRANTED]    = { M(HOLD),     M(HOLD),     M(KEEP),     M(AGAIN) },
    [HF__REPLY_QUEUED]     = { M(BUSY),     M(BUSY),     M(LOSE),     M(AGAIN) },
    [HF__REPLY_REFUSED]    = { M(BUSY),     M(BUSY),     M(LOSE),     M(LEFT) },
    [HF__REPLY_CHANGED]    = { M(NONE),     M(ASK),      M(VERIFY),   M(NONE) },
    [HF__REPLY_CROWDED]    = { M(NONE),     M(NONE),     M(CROWD),    M(NONE) },
    [HF__REPLY_GONE]       = { M(RETRY),    M(ASK),      M(LOSE),     M(LEFT) },
    [HF__REPLY_DONE]       = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_ENTRY]      = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_FAILED]     = { M(RETRY),    M(RETRY),    M(DOUBT),    M(AGAIN) },
    [HF__REPLY_UNKNOWN]    = { M(RETRY),    M(RETRY),    M(DOUBT),    M(AGAIN) },
};

/* Whoever asks gets a place. A place that is gone (stopped for too long) is asked for anew, at the
 * tail. News of a change is a hint: look where we stand. */
static const enum hf__move queue[HF__REPLY_KINDS][HF__PHASES] = {
    [HF__REPLY_GRANTED]    = { M(HOLD),     M(HOLD),     M(KEEP),     M(AGAIN) },
    [HF__REPLY_QUEUED]     = { M(WAIT),     M(WAIT),     M(LOSE),     M(AGAIN) },
    [HF__REPLY_REFUSED]    = { M(BUSY),     M(BUSY),     M(LOSE),     M(LEFT) },
    [HF__REPLY_CHANGED]    = { M(NONE),     M(INSPECT),  M(VERIFY),   M(NONE) },
    [HF__REPLY_CROWDED]    = { M(NONE),     M(NONE),     M(CROWD),    M(NONE) },
    [HF__REPLY_GONE]       = { M(RETRY),    M(ASK),      M(LOSE),     M(LEFT) },
    [HF__REPLY_DONE]       = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_ENTRY]      = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_FAILED]     = { M(RETRY),    M(RETRY),    M(DOUBT),    M(AGAIN) },
    [HF__REPLY_UNKNOWN]    = { M(RETRY),    M(RETRY),    M(DOUBT),    M(AGAIN) },
};

/* The claim lives on its connection: when that is gone, so is the claim, held or waiting. */
static const enum hf__move connection[HF__REPLY_KINDS][HF__PHASES] = {
    [HF__REPLY_GRANTED]    = { M(HOLD),     M(HOLD),     M(KEEP),     M(AGAIN) },
    [HF__REPLY_QUEUED]     = { M(WAIT),     M(WAIT),     M(LOSE),     M(AGAIN) },
    [HF__REPLY_REFUSED]    = { M(BUSY),     M(BUSY),     M(LOSE),     M(LEFT) },
    [HF__REPLY_CHANGED]    = { M(NONE),     M(INSPECT),  M(VERIFY),   M(NONE) },
    [HF__REPLY_CROWDED]    = { M(NONE),     M(NONE),     M(CROWD),    M(NONE) },
    [HF__REPLY_GONE]       = { M(RETRY),    M(ASK),      M(LOSE),     M(LEFT) },
    [HF__REPLY_DONE]       = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_ENTRY]      = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_FAILED]     = { M(RETRY),    M(ASK),      M(DOUBT),    M(AGAIN) },
    [HF__REPLY_UNKNOWN]    = { M(RETRY),    M(ASK),      M(DOUBT),    M(AGAIN) },
};

/* The replies here are verdicts over many stores. A claim without a majority must not stay
 * anywhere, or two such claims would keep each other out for ever: it is undone, and another tries
 * later. */
static const enum hf__move quorum[HF__REPLY_KINDS][HF__PHASES] = {
    [HF__REPLY_GRANTED]    = { M(HOLD),     M(NONE),     M(KEEP),     M(AGAIN) },
    [HF__REPLY_QUEUED]     = { M(REPOSE),   M(NONE),     M(LOSE),     M(AGAIN) },
    [HF__REPLY_REFUSED]    = { M(REPOSE),   M(NONE),     M(LOSE),     M(LEFT) },
    [HF__REPLY_CHANGED]    = { M(ASK),      M(ASK),      M(VERIFY),   M(NONE) },
    [HF__REPLY_CROWDED]    = { M(NONE),     M(NONE),     M(CROWD),    M(NONE) },
    [HF__REPLY_GONE]       = { M(REPOSE),   M(NONE),     M(LOSE),     M(LEFT) },
    [HF__REPLY_DONE]       = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_ENTRY]      = { M(NONE),     M(NONE),     M(NONE),     M(NONE) },
    [HF__REPLY_FAILED]     = { M(REPOSE),   M(NONE),     M(DOUBT),    M(AGAIN) },
    [HF__REPLY_UNKNOWN]    = { M(REPOSE),   M(NONE),     M(DOUBT),    M(AGAIN) },
};

static const char *const names[] = {
    [HF__MOVE_NONE] = "none",     [HF__MOVE_HOLD] = "hold",       [HF__MOVE_WAIT] = "wait",
    [HF__MOVE_ASK] = "ask",       [HF__MOVE_INSPECT] = "inspect", [HF__MOVE_RETRY] = "retry",
    [HF__MOVE_REPOSE] = "repose", [HF__MOVE_BUSY] = "busy",       [HF__MOVE_KEEP] = "keep",
    [HF__MOVE_VERIFY] = "verify", [HF__MOVE_CROWD] = "crowd",     [HF__MOVE_DOUBT] = "doubt",
    [HF__MOVE_LOSE] = "lose",     [HF__MOVE_LEFT] = "left",       [HF__MOVE_AGAIN] = "again",
};
/* clang-format on */

#undef M

enum hf__move hf__pattern_move(enum hf__pattern_kind pattern, enum hf__phase phase,
                               enum hf__reply_kind reply)
{
    assert((unsigned)phase < HF__PHASES);
    assert((unsigned)reply < HF__REPLY_KINDS);

    switch (pattern) {
    case HF__PATTERN_LEASE:
        return lease[reply][phase];
    case HF__PATTERN_QUEUE:
        return queue[reply][phase];
    case HF__PATTERN_CONNECTION:
        return connection[reply][phase];
    case HF__PATTERN_QUORUM:
        return quorum[reply][phase];
    }
    assert(!"a pattern that does not exist");
    return HF__MOVE_NONE;
}

const char *hf__pattern_move_name(enum hf__move move)
{
    assert((unsigned)move < sizeof(names) / sizeof(*names));

    return names[move];
}
