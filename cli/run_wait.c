/* run_wait.c: how is the lock waited for, so that a signal ends the wait and leaves no trace?
 *
 * The claim is started, and then one loop watches its events, the signals and the clock. A grant
 * ends it well. A signal that would end any program cancels the claim, waits until the store has
 * let go of it, and then ends holdfast: who is next in the queue never waits for a waiter that
 * has left.
 *
 * What can go wrong: the grant came while the signal did: it is given back at once. ^Z: holdfast
 * stops and keeps its place; the line on the terminal is wiped off first and drawn again. The
 * lock is not to be had in time: the text names the holder. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "exit.h"
#include "run.h"
#include "say.h"
#include "waitline.h"

#define GRACE_SLACK_MS 5000 /* a holder that was broken is passed over so long after its grace */
#define CANCEL_MS      10000
#define QUIET_NS       (100 * NS_PER_MS) /* an answer that comes so soon is no waiting */
#define LOOK_NS        (1000 * NS_PER_MS)

struct waiting {
    struct run *run;
    hf_claim *claim;
    struct waitline waitline;
    bool shows; /* to a person on a terminal */
    uint64_t since_ns;
    int told_position; /* -2: nothing was told yet */
};

static int start(struct waiting *waiting)
{
    const struct run_options *options = &waiting->run->options;
    struct hf_acquire_options acquire = HF_ACQUIRE_OPTIONS_INIT;

    acquire.mode = options->mode;
    acquire.wait_ms = options->wait_ms;
    acquire.lease_ms = options->lease_ms;
    acquire.max_hold_ms = options->max_hold_ms;
    acquire.purpose = options->purpose;
    acquire.grace_ms = options->grace_ms + GRACE_SLACK_MS;
    return hf_claim_start(waiting->run->client, options->name, &acquire, &waiting->claim);
}

/* Cancels and waits until it is over; a grant that came first goes back. */
static void leave_queue(struct waiting *waiting)
{
    hf_grant *grant = NULL;

    hf_claim_cancel(waiting->claim);
    if (hf_claim_wait(waiting->claim, CANCEL_MS, &grant) == HF_OK && hf_release(grant) != HF_OK)
        say_now("giving '%s' back was not confirmed", waiting->run->options.name);
}

static void take_signals(struct waiting *waiting)
{
    struct signals_one one;

    while (waiting->run->die_of == 0 && signals_next(&waiting->run->signals, &one)) {
        if (one.kind == SIGNALS_FATAL)
            waiting->run->die_of = one.number;
        if (one.kind != SIGNALS_STOP)
            continue;
        waitline_clear(&waiting->waitline);
        signals_stop(one.number);
        waiting->waitline.next_ns = clock_now_ns();
    }
}

static void drop_events(hf_client *client)
{
    struct hf_event event = { .struct_size = sizeof(event) };

    while (hf_client_next_event(client, &event) == 1)
        event.struct_size = sizeof(event);
}

/* For programs as soon as the place is known, and again when it changes; for people once a
 * second. */
static void tell(struct waiting *waiting, uint64_t now_ns)
{
    struct run *run = waiting->run;
    int ahead = hf_claim_position(waiting->claim);
    bool is_news =
        ahead != waiting->told_position && (ahead >= 0 || now_ns >= waiting->since_ns + QUIET_NS);

    if (is_news) {
        struct status_detail detail = STATUS_DETAIL_NONE;

        detail.position = ahead;
        status_tell(&run->status, "waiting", detail);
        waiting->told_position = ahead;
    }
    if (now_ns < waiting->waitline.next_ns)
        return;
    if (waiting->shows)
        waitline_draw(&waiting->waitline, run->client, run->options.name, ahead);
    else if (run->options.common.verbose)
        waitline_say(&waiting->waitline, run->client, run->options.name, ahead);
    else
        waiting->waitline.next_ns = UINT64_MAX;
}

static int watch_claim(struct waiting *waiting)
{
    struct run *run = waiting->run;
    struct pollfd fds[] = { { .fd = run->signals.fd, .events = POLLIN },
                            { .fd = hf_client_event_fd(run->client), .events = POLLIN } };

    for (;;) {
        uint64_t now_ns = clock_now_ns();
        uint64_t look_ns = now_ns + LOOK_NS;
        int status = hf_claim_wait(waiting->claim, 0, &run->grant);

        if (status != HF_PENDING)
            return status;
        tell(waiting, now_ns);
        if (waiting->told_position == -2)
            look_ns = waiting->since_ns + QUIET_NS;
        if (look_ns > waiting->waitline.next_ns)
            look_ns = waiting->waitline.next_ns;
        poll(fds, 2, clock_poll_ms(now_ns, look_ns));
        take_signals(waiting);
        if (run->die_of) {
            leave_queue(waiting);
            return HF_ECANCELLED;
        }
        drop_events(run->client);
    }
}

/* What the loop did not see: a signal that came with the grant. The command was not started. */
static int settle(struct waiting *waiting, int status)
{
    struct run *run = waiting->run;

    if (status == HF_OK)
        take_signals(waiting);
    if (status == HF_OK && run->die_of) {
        if (hf_release(run->grant) != HF_OK)
            say_now("giving '%s' back was not confirmed", run->options.name);
        run->grant = NULL;
        status = HF_ECANCELLED;
    }
    return status;
}

/* A store may lease for less than was asked (a session of ZooKeeper): then the grace must be
 * shorter too, or the command would be ended as soon as it began. */
static void shorten_grace(struct run *run, int64_t remaining_ms)
{
    if (run->options.max_hold_ms > 0 || run->options.grace_ms <= remaining_ms / 2)
        return;
    run->options.grace_ms = remaining_ms / 3;
    say_now("the store leases '%s' for %lld ms at a time: the grace is %lld ms", run->options.name,
            (long long)remaining_ms, (long long)run->options.grace_ms);
}

/* The exit status of a lock that was not acquired, after telling why. */
static int explain(struct run *run, int status)
{
    if (run->die_of)
        return EXIT_SIGNAL_BASE + run->die_of;
    if (exit_of(status) != EXIT_BUSY)
        return exit_failed(run->client, status);
    if (!run->options.common.quiet)
        exit_failed(run->client, status);
    return run->options.not_acquired;
}

bool run_wait(struct run *run, int *out_exit_status)
{
    struct waiting waiting = { .run = run, .since_ns = clock_now_ns(), .told_position = -2 };
    struct status_detail detail = STATUS_DETAIL_NONE;
    int status = start(&waiting);

    assert(!run->grant);

    waiting.shows = !run->options.common.quiet && waitline_is_possible();
    waitline_begin(&waiting.waitline, waiting.since_ns);
    if (status == HF_OK)
        status = watch_claim(&waiting);
    waitline_clear(&waiting.waitline);
    status = settle(&waiting, status);
    if (status != HF_OK)
        *out_exit_status = explain(run, status);
    if (waiting.claim)
        hf_claim_free(waiting.claim);
    if (status != HF_OK)
        return false;

    run->status.fence = hf_grant_fence(run->grant);
    detail.remaining_ms = hf_grant_remaining_ms(run->grant);
    shorten_grace(run, detail.remaining_ms);
    detail.waited_ms = (int64_t)((clock_now_ns() - waiting.since_ns) / NS_PER_MS);
    status_tell(&run->status, "acquired", detail);
    if (run->options.common.verbose)
        say_now("acquired '%s' with fence %llu", run->options.name,
                (unsigned long long)run->status.fence);
    return true;
}
