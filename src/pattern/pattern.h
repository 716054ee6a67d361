/* pattern.h: given what we were doing and what the store answered, what comes next?
 *
 * Pure: no clock, no I/O, no allocation, no state. Every (phase, reply) pair has a decided move. */
#ifndef HF_PATTERN_PATTERN_H
#define HF_PATTERN_PATTERN_H

#include "engine/engine.h"

/* What a turn is doing when an answer comes. */
enum hf__phase {
    HF__PHASE_ASKING,  /* CLAIM is under way                                      */
    HF__PHASE_WAITING, /* the store said: another holds it                        */
    HF__PHASE_HOLDING, /* ours, as far as we know                                 */
    HF__PHASE_LEAVING, /* RELEASE is under way, for a holder or for an undone ask */
};
#define HF__PHASES 4

enum hf__move {
    HF__MOVE_NONE,    /* nothing: the answer is about something that has passed          */
    HF__MOVE_HOLD,    /* it is ours                                                      */
    HF__MOVE_WAIT,    /* we stand in line                                                */
    HF__MOVE_ASK,     /* ask again at once, as the same claim                            */
    HF__MOVE_INSPECT, /* find out where we stand                                         */
    HF__MOVE_RETRY,   /* ask again a little later, as the same claim                     */
    HF__MOVE_REPOSE,  /* refused: undo it everywhere, and try later as another claim      */
    HF__MOVE_BUSY,    /* refused and in no line: a try has its answer, a wait asks again  */
    HF__MOVE_KEEP,    /* renewed: valid for longer                                       */
    HF__MOVE_VERIFY,  /* ask at once whether it is still ours                            */
    HF__MOVE_CROWD,   /* others wait from now on                                         */
    HF__MOVE_DOUBT,   /* not renewed, perhaps: try again while it is valid               */
    HF__MOVE_LOSE,    /* it is ours no longer                                            */
    HF__MOVE_LEFT,    /* we are out                                                      */
    HF__MOVE_AGAIN,   /* not out yet: leave again                                        */
};

enum hf__move hf__pattern_move(enum hf__pattern_kind pattern, enum hf__phase phase,
                               enum hf__reply_kind reply);

const char *hf__pattern_move_name(enum hf__move move);

/* The votes of N independent stores on one question. */
struct hf__votes {
    uint32_t stores;
    uint32_t accepted; /* GRANTED with the fence that was proposed                  */
    uint32_t low;      /* GRANTED, but its counter is not below the proposal        */
    uint32_t refused;  /* REFUSED or QUEUED                                         */
    uint32_t gone;
    uint32_t failed;
    uint32_t unknown;
    uint64_t highest; /* greatest counter that any store told                       */
};

enum hf__verdict {
    HF__VERDICT_OPEN,    /* not decided yet                                         */
    HF__VERDICT_GRANTED, /* a majority accepted                                     */
    HF__VERDICT_PROPOSE, /* a majority locked, too few accepted: propose highest + 1 */
    HF__VERDICT_REFUSED, /* a majority can no longer be had                         */
    HF__VERDICT_GONE,    /* a majority says that it is not there                    */
    HF__VERDICT_FAILED,  /* too few answered, and none perhaps did it               */
    HF__VERDICT_UNKNOWN, /* too few answered, and some perhaps did it               */
};

uint32_t hf__quorum_majority(uint32_t stores);
/* May a majority have what was claimed, as far as the votes tell? */
bool hf__quorum_perhaps(const struct hf__votes *votes);
enum hf__verdict hf__quorum_verdict(enum hf__request_kind kind, const struct hf__votes *votes);

#endif
