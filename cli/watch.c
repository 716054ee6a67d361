/* watch.c: what is done about the things that happen while the command runs?
 *
 * One loop over four sources: signals, the library's events, exec's answer, the clock. Signals go
 * to the command's group as they come. SIGCHLD tells of the command, of the guard, and of orphans
 * of the command that became our children, so that they can be waited for and their group can
 * vanish.
 *
 * The command stops (^Z): we take the terminal back and stop in the same way, so that the shell
 * sees a stopped job. Continued, we ask the store before anything else: if the lock is gone, nobody
 * of the command does another step. Without a terminal we do not stop, since nobody would
 * continue us.
 *
 * What can go wrong: the guard is killed: another is started, and started again until it works.
 * The command stops because it wants the keyboard, and we have it: it gets it (see terminal.c). */
#include "watch.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "clock.h"
#include "say.h"

#define GUARD_RETRY_NS (100 * NS_PER_MS)
#define GUARD_NEWS_NS  (10 * NS_PER_MS) /* a smaller change is not worth an order          */
#define GUARD_CHECKS   3                /* so many looks at the lease in what is left of it */

static bool wants_keyboard(int stop_signal)
{
    return stop_signal == SIGTTIN || stop_signal == SIGTTOU;
}

static void take_events(struct watch *watch)
{
    struct run *run = watch->run;
    struct hf_event event = { .struct_size = sizeof(event) };

    while (hf_client_next_event(run->client, &event) == 1) {
        struct status_detail detail = STATUS_DETAIL_NONE;

        detail.remaining_ms = event.remaining_ms;
        if (event.kind == HF_EVENT_LOST)
            ending_lost(watch, clock_now_ns(), event.cause ? event.cause : "gone");
        if (event.kind == HF_EVENT_AT_RISK) {
            status_tell(&run->status, "at-risk", detail);
            if (!run->options.common.quiet)
                say_now("'%s' is at risk: renewal fails; %lld ms are left", run->options.name,
                        (long long)event.remaining_ms);
        }
        if (event.kind == HF_EVENT_SAFE)
            status_tell(&run->status, "safe", detail);
        event = (struct hf_event){ .struct_size = sizeof(event) };
    }
}

/* We were stopped, and so was the keeper of the lock: what the library knows may be old. So the
 * store is asked, and nobody of the command goes on before it has answered. */
static void look_after_stop(struct watch *watch)
{
    struct run *run = watch->run;
    int64_t lease_ms = run->options.lease_ms ? run->options.lease_ms : RUN_LEASE_MS_DEFAULT;

    watch->was_stopped = true;
    if (hf_grant_extend(run->grant, lease_ms) == HF_ELOST) {
        take_events(watch);
        ending_lost(watch, clock_now_ns(), "it was gone when we were continued");
    }
    ending_look_at_lock(watch, clock_now_ns());
    watch->was_stopped = false;
}

/* We were continued, or never stopped. */
static void go_on(struct watch *watch)
{
    struct run *run = watch->run;

    terminal_look_again(&run->terminal, watch->group.id);
    look_after_stop(watch);
    if (watch->phase != WATCH_RUNNING || watch->doubt_ns || watch->has_ended)
        return;
    if (run->terminal.eager)
        terminal_hand_over(&run->terminal, watch->group.id);
    group_signal(&watch->group, SIGCONT);
}

static void take_stop(struct watch *watch, int stop_signal)
{
    struct terminal *terminal = &watch->run->terminal;

    if (watch->phase != WATCH_RUNNING) {
        if (!wants_keyboard(stop_signal))
            group_signal(&watch->group, SIGCONT);
        return;
    }
    if (terminal->fd < 0)
        return;
    if (wants_keyboard(stop_signal) && terminal_is_ours(terminal)) {
        terminal_hand_over(terminal, watch->group.id);
        group_signal(&watch->group, SIGCONT);
        return;
    }
    terminal_look_again(terminal, watch->group.id);
    if (wants_keyboard(stop_signal) && terminal->handed) {
        group_signal(&watch->group, SIGCONT); /* it has got it in the meantime */
        return;
    }
    terminal_take_back(terminal, false);
    signals_stop(stop_signal);
    go_on(watch);
}

static void take_end(struct watch *watch, const siginfo_t *info)
{
    watch->has_ended = true;
    watch->group.leader_reaped = true;
    watch->tick_ns = NS_PER_MS;
    watch->had_terminal = watch->run->terminal.handed;
    if (info->si_code == CLD_EXITED)
        watch->exit_code = info->si_status;
    else
        watch->ended_by = info->si_status;
}

static void start_guard(struct watch *watch)
{
    uint64_t guard_ns = ending_guard_ns(watch);

    if (guard_start(&watch->run->guard, watch->group.id, guard_ns) != 0) {
        if (!watch->guard_retry_ns)
            say_now("the guard was killed, and another cannot be started yet");
        watch->guard_retry_ns = clock_now_ns() + GUARD_RETRY_NS;
        return;
    }
    watch->guard_retry_ns = 0;
    watch->guard_told_ns = guard_ns;
}

static void take_children(struct watch *watch)
{
    for (;;) {
        siginfo_t info = { 0 };
        bool stopped;

        if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG) != 0 || info.si_pid == 0)
            return;
        stopped = info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED;
        if (info.si_pid == watch->child.pid && stopped) {
            take_stop(watch, info.si_status);
        } else if (info.si_pid == watch->child.pid) {
            take_end(watch, &info);
        } else if (info.si_pid == watch->run->guard.pid && !stopped) {
            guard_died(&watch->run->guard);
            start_guard(watch);
        }
    }
}

static void take_signals(struct watch *watch)
{
    struct signals_one one;

    while (signals_next(&watch->run->signals, &one)) {
        switch (one.kind) {
        case SIGNALS_CHILD:
            take_children(watch);
            break;
        case SIGNALS_CONTINUE:
            go_on(watch);
            break;
        case SIGNALS_FATAL:
        case SIGNALS_STOP:
        case SIGNALS_QUIET:
            if (one.from_keyboard)
                watch->typed = one.number;
            if (!watch->all_gone)
                group_signal(&watch->group, one.number);
            break;
        case SIGNALS_OWN:
            break;
        }
    }
}

/* The guard follows the lease, so that it can end the command in time if we are stopped. */
static void inform_guard(struct watch *watch)
{
    uint64_t guard_ns = ending_guard_ns(watch);
    uint64_t change_ns = guard_ns > watch->guard_told_ns ? guard_ns - watch->guard_told_ns
                                                         : watch->guard_told_ns - guard_ns;

    if (watch->run->guard.pid == 0 || change_ns < GUARD_NEWS_NS)
        return;
    guard_tell(&watch->run->guard, watch->group.id, guard_ns);
    watch->guard_told_ns = guard_ns;
}

static int patience_ms(const struct watch *watch, uint64_t now_ns)
{
    uint64_t due_ns = ending_due_ns(watch, now_ns);
    bool leased = watch->run->guard.stand_by != HF_OK;

    if (leased && watch->valid_until_ns > now_ns) {
        uint64_t next_ns = now_ns + (watch->valid_until_ns - now_ns) / GUARD_CHECKS;

        due_ns = next_ns < due_ns ? next_ns : due_ns;
    }
    if (watch->guard_retry_ns && watch->guard_retry_ns < due_ns)
        due_ns = watch->guard_retry_ns;
    return due_ns == UINT64_MAX ? -1 : clock_poll_ms(now_ns, due_ns);
}

void watch_until_gone(struct watch *watch)
{
    struct run *run = watch->run;

    while (!watch->all_gone) {
        struct pollfd fds[] = { { .fd = run->signals.fd, .events = POLLIN },
                                { .fd = hf_client_event_fd(run->client), .events = POLLIN },
                                { .fd = watch->child.answer, .events = POLLIN } };
        uint64_t now_ns = clock_now_ns();

        poll(fds, 3, patience_ms(watch, now_ns));
        take_signals(watch);
        if (watch->child.answer >= 0 && fds[2].revents)
            watch->exec_errno = child_answer(&watch->child);
        take_events(watch);

        now_ns = clock_now_ns();
        ending_look_at_lock(watch, now_ns);
        inform_guard(watch);
        if (watch->guard_retry_ns && now_ns >= watch->guard_retry_ns)
            start_guard(watch);
        ending_step(watch, now_ns);
    }
}
