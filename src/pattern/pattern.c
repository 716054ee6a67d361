/* pattern.c: given what we were doing and what the store answered, what comes next?
 *
 * One table per pattern, a row per phase, a column per reply. The happy path runs down the first
 * columns: GRANTED while asking is HOLD, QUEUED is WAIT, GONE while leaving is LEFT. What can go
 * wrong stands to the right: FAILED (certainly not applied) and UNKNOWN (perhaps applied) both
 * ask again as the same claim, which every store treats as the same question; the difference is
 * what the caller is told if there is no time left, and that is the core's business.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "pattern/pattern.h"

#include <assert.h>

#define M(move) HF__MOVE_##move

/* clang-format off */

/*                 GRANTED    QUEUED      REFUSED     CHANGED     CROWDED    GONE       DONE      ENTRY     FAILED     UNKNOWN */

/* A record with an owner and an end. Nobody stands in line: who is refused asks again, later or
 * when told that something has changed. */
static const enum hf__move lease[HF__PHASES][HF__REPLY_KINDS] = {
    [HF__PHASE_ASKING]  = { M(HOLD),  M(BUSY),    M(BUSY),    M(NONE),    M(NONE),   M(RETRY),  M(NONE),  M(NONE),  M(RETRY),  M(RETRY) },
    [HF__PHASE_WAITING] = { M(HOLD),  M(BUSY),    M(BUSY),    M(ASK),     M(NONE),   M(ASK),    M(NONE),  M(NONE),  M(RETRY),  M(RETRY) },
    [HF__PHASE_HOLDING] = { M(KEEP),  M(LOSE),    M(LOSE),    M(VERIFY),  M(CROWD),  M(LOSE),   M(NONE),  M(NONE),  M(DOUBT),  M(DOUBT) },
    [HF__PHASE_LEAVING] = { M(AGAIN), M(AGAIN),   M(LEFT),    M(NONE),    M(NONE),   M(LEFT),   M(NONE),  M(NONE),  M(AGAIN),  M(AGAIN) },
};

/* Whoever asks gets a place. A place that is gone (stopped for too long) is asked for anew, at the
 * tail. News of a change is a hint: look where we stand. */
static const enum hf__move queue[HF__PHASES][HF__REPLY_KINDS] = {
    [HF__PHASE_ASKING]  = { M(HOLD),  M(WAIT),    M(BUSY),    M(NONE),    M(NONE),   M(RETRY),  M(NONE),  M(NONE),  M(RETRY),  M(RETRY) },
    [HF__PHASE_WAITING] = { M(HOLD),  M(WAIT),    M(BUSY),    M(INSPECT), M(NONE),   M(ASK),    M(NONE),  M(NONE),  M(RETRY),  M(RETRY) },
    [HF__PHASE_HOLDING] = { M(KEEP),  M(LOSE),    M(LOSE),    M(VERIFY),  M(CROWD),  M(LOSE),   M(NONE),  M(NONE),  M(DOUBT),  M(DOUBT) },
    [HF__PHASE_LEAVING] = { M(AGAIN), M(AGAIN),   M(LEFT),    M(NONE),    M(NONE),   M(LEFT),   M(NONE),  M(NONE),  M(AGAIN),  M(AGAIN) },
};

/* The claim lives on its connection: when that is gone, so is the claim, held or waiting. */
static const enum hf__move connection[HF__PHASES][HF__REPLY_KINDS] = {
    [HF__PHASE_ASKING]  = { M(HOLD),  M(WAIT),    M(BUSY),    M(NONE),    M(NONE),   M(RETRY),  M(NONE),  M(NONE),  M(RETRY),  M(RETRY) },
    [HF__PHASE_WAITING] = { M(HOLD),  M(WAIT),    M(BUSY),    M(INSPECT), M(NONE),   M(ASK),    M(NONE),  M(NONE),  M(ASK),    M(ASK) },
    [HF__PHASE_HOLDING] = { M(KEEP),  M(LOSE),    M(LOSE),    M(VERIFY),  M(CROWD),  M(LOSE),   M(NONE),  M(NONE),  M(DOUBT),  M(DOUBT) },
    [HF__PHASE_LEAVING] = { M(AGAIN), M(AGAIN),   M(LEFT),    M(NONE),    M(NONE),   M(LEFT),   M(NONE),  M(NONE),  M(AGAIN),  M(AGAIN) },
};

/* The replies here are verdicts over many stores. A claim without a majority must not stay
 * anywhere, or two such claims would keep each other out for ever: it is undone, and another
 * tries later. */
static const enum hf__move quorum[HF__PHASES][HF__REPLY_KINDS] = {
    [HF__PHASE_ASKING]  = { M(HOLD),  M(REPOSE),  M(REPOSE),  M(ASK),     M(NONE),   M(REPOSE), M(NONE),  M(NONE),  M(REPOSE), M(REPOSE) },
    [HF__PHASE_WAITING] = { M(NONE),  M(NONE),    M(NONE),    M(ASK),     M(NONE),   M(NONE),   M(NONE),  M(NONE),  M(NONE),   M(NONE) },
    [HF__PHASE_HOLDING] = { M(KEEP),  M(LOSE),    M(LOSE),    M(VERIFY),  M(CROWD),  M(LOSE),   M(NONE),  M(NONE),  M(DOUBT),  M(DOUBT) },
    [HF__PHASE_LEAVING] = { M(AGAIN), M(AGAIN),   M(LEFT),    M(NONE),    M(NONE),   M(LEFT),   M(NONE),  M(NONE),  M(AGAIN),  M(AGAIN) },
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
        return lease[phase][reply];
    case HF__PATTERN_QUEUE:
        return queue[phase][reply];
    case HF__PATTERN_CONNECTION:
        return connection[phase][reply];
    case HF__PATTERN_QUORUM:
        return quorum[phase][reply];
    }
    assert(!"a pattern that does not exist");
    return HF__MOVE_NONE;
}

const char *hf__pattern_move_name(enum hf__move move)
{
    assert((unsigned)move < sizeof(names) / sizeof(*names));

    return names[move];
}
