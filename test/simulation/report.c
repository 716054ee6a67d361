/* report.c: how is it told what happened? */
#include <stdarg.h>

#include "simulation.h"

static const char *const faults[] = {
    [FAULT_LOSS] = "loss",
    [FAULT_NEWS_LOSS] = "loss of news",
    [FAULT_DELAY] = "delay",
    [FAULT_DUPLICATE] = "duplication",
    [FAULT_CUT_BEFORE] = "connection cut before execution",
    [FAULT_CUT_AFTER] = "connection cut after execution",
    [FAULT_CUT_LATE] = "connection cut, delivered late",
    [FAULT_PARTITION] = "partition",
    [FAULT_STORE_CRASH] = "store crash, memory kept",
    [FAULT_STORE_AMNESIA] = "store crash, memory lost",
    [FAULT_STORE_FAILS] = "store refuses to serve",
    [FAULT_CLIENT_CRASH] = "client crash",
    [FAULT_CLIENT_CLOSE] = "client closed in the middle",
    [FAULT_PAUSE] = "client pause",
    [FAULT_PAUSE_IN_STEP] = "client pause after reading the clock",
    [FAULT_DRIFT] = "clock drift",
    [FAULT_REFUSED_SUBMIT] = "refused submit",
    [FAULT_ALLOCATION] = "allocation failure",
};

static const char *const points[] = {
    [POINT_AMBIGUOUS_GRANTED] = "an acquire without an answer had been granted",
    [POINT_AMBIGUOUS_NOT_GRANTED] = "an acquire without an answer had not been granted",
    [POINT_RELEASE_RETRY_NOT_THERE] = "the second try of a release found nothing",
    [POINT_DEAD_HEAD_PURGED] = "a dead head was purged",
    [POINT_REQUEUED] = "a waiter lost its place and queued again",
    [POINT_APPOINTED] = "appointed by a release",
    [POINT_APPOINTED_CONFIRMED] = "appointed, and confirmed by a renewal",
    [POINT_LATE_GRANT_CONFIRMED] = "a grant heard late, and confirmed by a renewal",
    [POINT_LATE_GRANT_GONE] = "a grant heard late, and gone by then",
    [POINT_LATE_ANSWER_DROPPED] = "a late answer was dropped",
    [POINT_LATE_REQUEST_REFUSED] = "a late request was refused by the store",
    [POINT_HANDED_ON] = "handed on within a client",
    [POINT_HANDED_ON_32] = "handed on 32 times in a turn",
    [POINT_HAND_ON_CROWDED] = "not handed on, because others waited",
    [POINT_QUORUM_PHASE_2] = "a quorum needed a second proposal",
    [POINT_QUORUM_SPLIT] = "a quorum was split",
    [POINT_QUORUM_STRAGGLER] = "one store of a quorum was told later",
    [POINT_QUORUM_ADMITTED] = "a store that had forgotten was admitted again",
    [POINT_QUORUM_FOUNDED] = "a store was counted for the first time",
    [POINT_QUORUM_HALF_FOUNDED] = "of a new quorum some stores were counted, and others not yet",
    [POINT_QUORUM_REJOINED] = "a store took a lock again",
    [POINT_LOST_EXPIRED] = "lost: expired",
    [POINT_LOST_MAX_HOLD] = "lost: max hold",
    [POINT_LOST_GONE] = "lost: gone from the store",
    [POINT_LOST_BROKEN] = "lost: broken",
    [POINT_LOST_SESSION] = "lost: session ended",
    [POINT_LOST_CLOSED] = "lost: client closed",
    [POINT_LOST_AT_RELEASE] = "lost: shown at release",
    [POINT_INTEGRITY] = "a fence that went back was refused",
    [POINT_AT_RISK] = "at risk",
    [POINT_SAFE_AGAIN] = "safe again",
    [POINT_GRACE_KEPT] = "broken, and left within the grace",
    [POINT_GRACE_OVER] = "broken, and the grace ran out",
    [POINT_NESTED] = "nested",
    [POINT_NESTED_UNDER_LOST] = "nested under a lost grant",
    [POINT_DEADLOCK] = "exclusive under shared refused",
    [POINT_DOWNGRADED] = "downgraded",
    [POINT_EXTENDED] = "extended",
    [POINT_SHORTENED] = "extended to an earlier end",
    [POINT_SHORTENED_UNKNOWN] = "extended to an earlier end without an answer",
    [POINT_CANCELLED] = "cancelled",
    [POINT_CANCELLED_TOO_LATE] = "cancelled after the answer",
    [POINT_BUSY] = "busy",
    [POINT_TIMED_OUT] = "timed out",
    [POINT_UNREACHABLE] = "unreachable",
    [POINT_UNKNOWN] = "unknown",
    [POINT_RELEASE_UNKNOWN] = "release without an answer",
    [POINT_NO_MEMORY] = "out of memory",
    [POINT_SHARED_TOGETHER] = "several shared holders",
    [POINT_BROKEN] = "broken by somebody else",
    [POINT_BREAK_TOO_LATE] = "break: that turn was over",
    [POINT_LISTED] = "listed",
    [POINT_RECONNECTED] = "connected again",
    [POINT_EVENT_REPLACED] = "an event replaced an earlier one",
    [POINT_EVENT_RELEASED] = "a release announced by an event",
    [POINT_ABANDONED] = "a grant that nobody fetched was given back",
    [POINT_TAKEN_BRIEFLY] = "taken within the call",
    [POINT_GIVEN_BRIEFLY] = "given back within the call",
    [POINT_FETCHED] = "answered without a step",
};

static_assert(sizeof(faults) / sizeof(*faults) == FAULTS, "every fault has a name");
static_assert(sizeof(points) / sizeof(*points) == POINTS, "every point has a name");

const char *report_fault(enum fault fault)
{
    return faults[fault];
}

const char *report_point(enum point point)
{
    return points[point];
}

const char *report_kind(enum kind kind)
{
    static const char *const names[] = {
        [KIND_KERNEL] = "kernel",         [KIND_QUEUE] = "queue",     [KIND_LEASE] = "lease",
        [KIND_CONNECTION] = "connection", [KIND_QUORUM3] = "quorum3", [KIND_QUORUM5] = "quorum5",
    };

    return names[kind];
}

const char *report_request(enum hf__request_kind kind)
{
    static const char *const names[] = {
        [HF__REQUEST_NONE] = "news",       [HF__REQUEST_CLAIM] = "CLAIM",
        [HF__REQUEST_INSPECT] = "INSPECT", [HF__REQUEST_RENEW] = "RENEW",
        [HF__REQUEST_RELEASE] = "RELEASE", [HF__REQUEST_DOWNGRADE] = "DOWNGRADE",
        [HF__REQUEST_BREAK] = "BREAK",     [HF__REQUEST_LIST] = "LIST",
        [HF__REQUEST_SURVEY] = "SURVEY",   [HF__REQUEST_ADMIT] = "ADMIT",
        [HF__REQUEST_FOUND] = "FOUND",
    };

    return names[kind];
}

const char *report_reply(enum hf__reply_kind kind)
{
    static const char *const names[] = {
        [HF__REPLY_GRANTED] = "GRANTED", [HF__REPLY_QUEUED] = "QUEUED",
        [HF__REPLY_REFUSED] = "REFUSED", [HF__REPLY_CHANGED] = "CHANGED",
        [HF__REPLY_CROWDED] = "CROWDED", [HF__REPLY_GONE] = "GONE",
        [HF__REPLY_DONE] = "DONE",       [HF__REPLY_ENTRY] = "ENTRY",
        [HF__REPLY_FAILED] = "FAILED",   [HF__REPLY_UNKNOWN] = "UNKNOWN",
    };

    return names[kind];
}

/* A line begins with the name that it is about (* for all), so that a story can be picked out. */
void report_line(struct world *world, int name, const char *format, ...)
{
    va_list arguments;

    if (name < 0)
        (void)fprintf(world->trace, "*  ");
    else
        (void)fprintf(world->trace, "n%d ", name);
    (void)fprintf(world->trace, "%10.4f ms  ", (double)world->now_ns / (double)MS);
    va_start(arguments, format);
    (void)vfprintf(world->trace, format, arguments);
    va_end(arguments);
    (void)fputc('\n', world->trace);
}
