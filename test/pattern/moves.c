/* moves.c: does every answer lead to the move that was decided for it?
 *
 * The decisions are written down here once more, by what a user would expect of the pattern and not
 * by looking at the table: a line per pattern and phase, an entry per reply. Then come the laws
 * that hold across all patterns, so that a mistake made in both places is still found. */
#include <string.h>

#include "check.h"
#include "pattern/pattern.h"

#define PATTERNS 4

struct decision {
    enum hf__pattern_kind pattern;
    enum hf__phase phase;
    /* In the order of enum hf__reply_kind. */
    const char *granted, *queued, *refused, *changed, *crowded, *gone, *done, *entry, *failed,
        *unknown;
};

#define LEASE      HF__PATTERN_LEASE
#define QUEUE      HF__PATTERN_QUEUE
#define CONNECTION HF__PATTERN_CONNECTION
#define QUORUM     HF__PATTERN_QUORUM
#define ASKING     HF__PHASE_ASKING
#define WAITING    HF__PHASE_WAITING
#define HOLDING    HF__PHASE_HOLDING
#define LEAVING    HF__PHASE_LEAVING

/* clang-format off */
static const struct decision decisions[] = {
    /* pattern    phase     GRANTED  QUEUED    REFUSED   CHANGED    CROWDED  GONE      DONE    ENTRY   FAILED    UNKNOWN */
    { LEASE,      ASKING,  "hold",  "busy",   "busy",   "none",    "none",  "retry",  "none", "none", "retry",  "retry"  },
    { LEASE,      WAITING, "hold",  "busy",   "busy",   "ask",     "none",  "ask",    "none", "none", "retry",  "retry"  },
    { LEASE,      HOLDING, "keep",  "lose",   "lose",   "verify",  "crowd", "lose",   "none", "none", "doubt",  "doubt"  },
    { LEASE,      LEAVING, "again", "again",  "left",   "none",    "none",  "left",   "none", "none", "again",  "again"  },

    { QUEUE,      ASKING,  "hold",  "wait",   "busy",   "none",    "none",  "retry",  "none", "none", "retry",  "retry"  },
    { QUEUE,      WAITING, "hold",  "wait",   "busy",   "inspect", "none",  "ask",    "none", "none", "retry",  "retry"  },
    { QUEUE,      HOLDING, "keep",  "lose",   "lose",   "verify",  "crowd", "lose",   "none", "none", "doubt",  "doubt"  },
    { QUEUE,      LEAVING, "again", "again",  "left",   "none",    "none",  "left",   "none", "none", "again",  "again"  },

    { CONNECTION, ASKING,  "hold",  "wait",   "busy",   "none",    "none",  "retry",  "none", "none", "retry",  "retry"  },
    { CONNECTION, WAITING, "hold",  "wait",   "busy",   "inspect", "none",  "ask",    "none", "none", "ask",    "ask"    },
    { CONNECTION, HOLDING, "keep",  "lose",   "lose",   "verify",  "crowd", "lose",   "none", "none", "doubt",  "doubt"  },
    { CONNECTION, LEAVING, "again", "again",  "left",   "none",    "none",  "left",   "none", "none", "again",  "again"  },

    { QUORUM,     ASKING,  "hold",  "repose", "repose", "ask",     "none",  "repose", "none", "none", "repose", "repose" },
    { QUORUM,     WAITING, "none",  "none",   "none",   "ask",     "none",  "none",   "none", "none", "none",   "none"   },
    { QUORUM,     HOLDING, "keep",  "lose",   "lose",   "verify",  "crowd", "lose",   "none", "none", "doubt",  "doubt"  },
    { QUORUM,     LEAVING, "again", "again",  "left",   "none",    "none",  "left",   "none", "none", "again",  "again"  },
};
/* clang-format on */

#define DECISIONS (sizeof(decisions) / sizeof(*decisions))

static void check_line(const struct decision *line)
{
    const char *const wanted[] = { line->granted, line->queued, line->refused, line->changed,
                                   line->crowded, line->gone,   line->done,    line->entry,
                                   line->failed,  line->unknown };

    _Static_assert(sizeof(wanted) / sizeof(*wanted) == HF__REPLY_KINDS, "one for every reply");
    for (int reply = 0; reply < HF__REPLY_KINDS; reply++) {
        enum hf__move move =
            hf__pattern_move(line->pattern, line->phase, (enum hf__reply_kind)reply);

        if (strcmp(hf__pattern_move_name(move), wanted[reply]) != 0)
            fail_msg("pattern %d, phase %d, reply %d: %s, not %s", (int)line->pattern,
                     (int)line->phase, reply, hf__pattern_move_name(move), wanted[reply]);
    }
}

TEST(moves, every_pair_has_the_move_that_was_decided)
{
    bool seen[PATTERNS][HF__PHASES] = { 0 };

    for (size_t i = 0; i < DECISIONS; i++) {
        CHECK(!seen[decisions[i].pattern][decisions[i].phase]);
        seen[decisions[i].pattern][decisions[i].phase] = true;
        check_line(&decisions[i]);
    }
    CHECK_EQUAL(DECISIONS, PATTERNS * HF__PHASES);
}

static enum hf__move move_of(int pattern, int phase, int reply)
{
    return hf__pattern_move((enum hf__pattern_kind)pattern, (enum hf__phase)phase,
                            (enum hf__reply_kind)reply);
}

#define FOR_ALL(pattern, phase, reply)                                                             \
    for (int pattern = 0; pattern < PATTERNS; pattern++)                                           \
        for (int phase = 0; phase < HF__PHASES; phase++)                                           \
            for (int reply = 0; reply < HF__REPLY_KINDS; reply++)

/* The classic mistake: what perhaps happened is taken for what did. */
TEST(moves, only_a_grant_to_one_who_wants_it_is_held)
{
    FOR_ALL(pattern, phase, reply)
    {
        bool wants = phase == HF__PHASE_ASKING || phase == HF__PHASE_WAITING;

        if (move_of(pattern, phase, reply) == HF__MOVE_HOLD)
            CHECK(wants && reply == HF__REPLY_GRANTED);
    }
}

TEST(moves, a_leaver_is_out_only_when_the_store_has_nothing_of_it)
{
    FOR_ALL(pattern, phase, reply)
    {
        bool nothing = reply == HF__REPLY_GONE || reply == HF__REPLY_REFUSED;

        CHECK((move_of(pattern, phase, reply) == HF__MOVE_LEFT) ==
              (phase == HF__PHASE_LEAVING && nothing));
    }
}

TEST(moves, whoever_was_not_heard_leaves_again)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        CHECK_EQUAL(move_of(pattern, LEAVING, HF__REPLY_FAILED), HF__MOVE_AGAIN);
        CHECK_EQUAL(move_of(pattern, LEAVING, HF__REPLY_UNKNOWN), HF__MOVE_AGAIN);
    }
}

TEST(moves, a_holder_loses_by_a_denial_and_never_by_silence)
{
    FOR_ALL(pattern, phase, reply)
    {
        bool denied =
            reply == HF__REPLY_GONE || reply == HF__REPLY_REFUSED || reply == HF__REPLY_QUEUED;

        CHECK((move_of(pattern, phase, reply) == HF__MOVE_LOSE) ==
              (phase == HF__PHASE_HOLDING && denied));
    }
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        CHECK_EQUAL(move_of(pattern, HOLDING, HF__REPLY_FAILED), HF__MOVE_DOUBT);
        CHECK_EQUAL(move_of(pattern, HOLDING, HF__REPLY_UNKNOWN), HF__MOVE_DOUBT);
    }
}

/* What differs between the two is what the caller is told, and that is the core's business. */
TEST(moves, failed_and_unknown_ask_again_alike)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        for (int phase = 0; phase < HF__PHASES; phase++)
            CHECK_EQUAL(move_of(pattern, phase, HF__REPLY_FAILED),
                        move_of(pattern, phase, HF__REPLY_UNKNOWN));
    }
}

TEST(moves, what_is_not_about_a_claim_moves_none)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        for (int phase = 0; phase < HF__PHASES; phase++) {
            CHECK_EQUAL(move_of(pattern, phase, HF__REPLY_DONE), HF__MOVE_NONE);
            CHECK_EQUAL(move_of(pattern, phase, HF__REPLY_ENTRY), HF__MOVE_NONE);
        }
    }
}

TEST(moves, news_never_stops_a_leaver)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        CHECK_EQUAL(move_of(pattern, LEAVING, HF__REPLY_CHANGED), HF__MOVE_NONE);
        CHECK_EQUAL(move_of(pattern, LEAVING, HF__REPLY_CROWDED), HF__MOVE_NONE);
    }
}

/* Two claims that each keep a minority would keep each other out for ever. */
TEST(moves, a_quorum_without_a_majority_is_undone)
{
    for (int reply = 0; reply < HF__REPLY_KINDS; reply++) {
        bool without = reply == HF__REPLY_QUEUED || reply == HF__REPLY_REFUSED ||
                       reply == HF__REPLY_GONE || reply == HF__REPLY_FAILED ||
                       reply == HF__REPLY_UNKNOWN;

        CHECK((move_of(QUORUM, ASKING, reply) == HF__MOVE_REPOSE) == without);
    }
    FOR_ALL(pattern, phase, reply)
    {
        if (move_of(pattern, phase, reply) == HF__MOVE_REPOSE)
            CHECK(pattern == QUORUM && phase == ASKING);
    }
}

TEST(moves, only_a_queue_stands_in_line)
{
    FOR_ALL(pattern, phase, reply)
    {
        if (move_of(pattern, phase, reply) == HF__MOVE_WAIT)
            CHECK(pattern == QUEUE || pattern == CONNECTION);
    }
}

TEST(moves, every_move_has_a_name_of_its_own)
{
    for (int i = HF__MOVE_NONE; i <= HF__MOVE_AGAIN; i++) {
        for (int j = HF__MOVE_NONE; j < i; j++)
            CHECK(strcmp(hf__pattern_move_name((enum hf__move)i),
                         hf__pattern_move_name((enum hf__move)j)) != 0);
    }
}

TEST(moves, what_does_not_exist_is_refused)
{
    CHECK_ABORTS(move_of(PATTERNS, 0, 0));
    CHECK_ABORTS(move_of(0, HF__PHASES, 0));
    CHECK_ABORTS(move_of(0, 0, HF__REPLY_KINDS));
    CHECK_ABORTS(hf__pattern_move_name((enum hf__move)(HF__MOVE_AGAIN + 1)));
}
