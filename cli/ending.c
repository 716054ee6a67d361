/* ending.c: until when may the command run, and how is it ended?
 *
 * RUNNING: nothing is wrong. ENDING: SIGTERM went to the whole group, and the grace runs.
 * KILLING: SIGKILL, until nobody is left. A command that ended by itself brings those whom it
 * left behind to ENDING: its end is the end of the turn, and nobody stays who believes to hold
 * the lock. A broken lock brings all to ENDING, and the store lets the next one in when we
 * release. A lease that is not renewed (or a maximal hold that runs out) brings them there a
 * grace before validity ends, and to KILLING early enough to be dead by then. A lock that is gone
 * without warning brings all to KILLING at once, because another may be in already.
 *
 * What can go wrong: the grant is no longer valid, but the event that says why is not there yet:
 * it gets a moment, unless validity has simply run out. The group cannot be killed: it is tried
 * until the end of time, and the lock is kept. */
#include <assert.h>
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "say.h"
#include "watch.h"

#define MARGIN_MS_MIN 20 /* so long before the end of validity SIGKILL is sent, at least */
#define MARGIN_MS_MAX 250
#define CAUSE_NS      (50 * NS_PER_MS) /* the event that tells the cause comes a little later */
#define TICK_NS_FIRST (1 * NS_PER_MS)
#define TICK_NS_MAX   (100 * NS_PER_MS)

static const char broken[] = "broken"; /* as the library calls it */

/* Between SIGKILL and the end of validity. */
static uint64_t margin_ns(const struct watch *watch)
{
    int64_t margin_ms = watch->run->options.grace_ms / 4;

    if (margin_ms < MARGIN_MS_MIN)
        margin_ms = MARGIN_MS_MIN;
    if (margin_ms > MARGIN_MS_MAX)
        margin_ms = MARGIN_MS_MAX;
    return (uint64_t)margin_ms * NS_PER_MS;
}

/* Between SIGTERM and the end of validity. */
static uint64_t notice_ns(const struct watch *watch)
{
    uint64_t grace_ns = (uint64_t)watch->run->options.grace_ms * NS_PER_MS;

    return grace_ns > margin_ns(watch) ? grace_ns : margin_ns(watch);
}

static uint64_t earlier(uint64_t left_ns, uint64_t right_ns)
{
    return left_ns < right_ns ? left_ns : right_ns;
}

/* A stopped process acts on SIGTERM only when it goes on. */
static void begin(struct watch *watch, uint64_t kill_at_ns)
{
    if (watch->phase == WATCH_RUNNING) {
        watch->phase = WATCH_ENDING;
        watch->kill_at_ns = kill_at_ns;
        watch->tick_ns = TICK_NS_FIRST;
        if (!watch->all_gone) {
            group_signal(&watch->group, SIGTERM);
            group_signal(&watch->group, SIGCONT);
        }
    }
    watch->kill_at_ns = earlier(watch->kill_at_ns, kill_at_ns);
}

static void lose(struct watch *watch, uint64_t kill_at_ns, const char *cause)
{
    struct run *run = watch->run;
    struct status_detail detail = STATUS_DETAIL_NONE;

    if (watch->lost)
        return;
    watch->lost = true;
    begin(watch, kill_at_ns);
    ending_step(watch, clock_now_ns());

    detail.cause = cause;
    detail.remaining_ms = hf_grant_remaining_ms(run->grant);
    status_tell(&run->status, "lost", detail);
    say_now("lost '%s' (fence %llu): %s; stopping the command", run->options.name,
            (unsigned long long)run->status.fence, cause);
}

void ending_lost(struct watch *watch, uint64_t now_ns, const char *cause)
{
    bool has_grace = strcmp(cause, broken) == 0 && !watch->was_stopped;
    uint64_t grace_ns = (uint64_t)watch->run->options.grace_ms * NS_PER_MS;

    lose(watch, has_grace ? now_ns + grace_ns : now_ns, cause);
}

void ending_look_at_lock(struct watch *watch, uint64_t now_ns)
{
    int64_t remaining_ms = hf_grant_remaining_ms(watch->run->grant);
    bool is_limited = watch->run->options.max_hold_ms > 0;

    if (watch->lost)
        return;
    if (remaining_ms <= 0) {
        if (!watch->doubt_ns)
            watch->doubt_ns = now_ns;
        if (now_ns >= watch->valid_until_ns || now_ns >= watch->doubt_ns + CAUSE_NS)
            lose(watch, now_ns, "it is not valid any more");
        return;
    }
    watch->doubt_ns = 0;
    watch->valid_until_ns = now_ns + (uint64_t)remaining_ms * NS_PER_MS;
    if (watch->valid_until_ns - now_ns > notice_ns(watch))
        return;
    lose(watch, watch->valid_until_ns - margin_ns(watch),
         is_limited ? "it was held as long as allowed" : "it could not be renewed in time");
}

void ending_step(struct watch *watch, uint64_t now_ns)
{
    uint64_t grace_ns = (uint64_t)watch->run->options.grace_ms * NS_PER_MS;

    if (watch->has_ended && !watch->all_gone)
        watch->all_gone = group_is_gone(&watch->group);
    if (watch->all_gone)
        return;
    if (watch->has_ended && watch->phase == WATCH_RUNNING)
        begin(watch, now_ns + grace_ns);
    if (watch->phase == WATCH_ENDING && now_ns >= watch->kill_at_ns)
        watch->phase = WATCH_KILLING;
    if (watch->phase == WATCH_KILLING)
        group_signal(&watch->group, SIGKILL);
    if (watch->has_ended || watch->phase == WATCH_KILLING)
        watch->tick_ns = earlier(watch->tick_ns * 2, TICK_NS_MAX);
}

uint64_t ending_due_ns(const struct watch *watch, uint64_t now_ns)
{
    uint64_t due_ns = UINT64_MAX;

    if (!watch->lost && watch->valid_until_ns > notice_ns(watch))
        due_ns = watch->valid_until_ns - notice_ns(watch);
    if (watch->doubt_ns && !watch->lost)
        due_ns = earlier(watch->doubt_ns + CAUSE_NS, watch->valid_until_ns);
    if (watch->phase == WATCH_ENDING)
        due_ns = earlier(due_ns, watch->kill_at_ns);
    if (watch->has_ended || watch->phase == WATCH_KILLING)
        due_ns = earlier(due_ns, now_ns + watch->tick_ns);
    return due_ns;
}

/* Where turns live as long as their processes, only a maximal hold ends one while holdfast is
 * stopped; elsewhere the lease does. */
uint64_t ending_guard_ns(const struct watch *watch)
{
    bool ends = watch->run->guard.stand_by != HF_OK || watch->run->options.max_hold_ms > 0;

    assert(watch->valid_until_ns > 0);
    return ends ? watch->valid_until_ns - margin_ns(watch) : GUARD_NEVER_NS;
}
