/* run_command.c: how does the command start under the lock, and what comes after its end?
 *
 * The guard first, then the fork, then the guard is told, then the terminal, then go. When the
 * command and all of its group are gone (watch.c), the terminal is taken back, the lock is given
 * back, and the guard is dismissed, in this order: there is no instant at which something runs
 * that nobody would end, and none at which the lock is free and something still runs.
 *
 * What can go wrong: a process cannot be started: the lock is given back, status 71. The command
 * cannot be executed: 126 or 127. A release is not confirmed: a warning, since the store ends the
 * turn by itself; it says that the lock was lost: status 79. ^C ended the command while it had
 * the terminal: its own group alone was told, so we pass it on to ours, and die of it like the
 * command; a script that called us stops as it would have without us. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "exit.h"
#include "run.h"
#include "say.h"
#include "watch.h"

/* For the command's eyes: where the lock lives, without secrets. To be freed. */
static char *redacted_url(const struct run *run)
{
    const char *url = run->options.common.url;
    char *text = NULL;
    int bytes;

    if (!url || !*url)
        url = getenv("HOLDFAST_URL");
    if (!url || !*url)
        url = "file:"; /* the embedded engine in its default directory */
    bytes = hf_url_redact(url, NULL, 0);
    if (bytes < 0)
        return NULL;
    text = calloc((size_t)bytes + 1, 1);
    if (text)
        hf_url_redact(url, text, (size_t)bytes + 1);
    return text;
}

static int fork_command(struct watch *watch)
{
    struct run *run = watch->run;
    char *url = redacted_url(run);
    struct program_lock lock = { .name = run->options.name,
                                 .fence = run->status.fence,
                                 .url = url ? url : "" };
    struct program program;
    int failure;

    program_prepare(&program, run->options.command, &lock);
    failure = child_fork(&watch->child, &program, &run->signals);
    program_done(&program);
    free(url);
    if (failure)
        say("cannot start a process: %s", strerror(failure));
    return failure;
}

static int start_guard(struct run *run)
{
    int failure = guard_start(&run->guard, 0, GUARD_NEVER_NS);

    if (failure == 0)
        return 0;
    if (failure > 0) {
        say("cannot start the guard: %s", strerror(failure));
        return EXIT_SYSTEM;
    }
    say("the guard cannot stand by: %s", hf_strstatus(failure));
    return exit_of(failure);
}

/* 0, or the exit status: then nothing runs. */
static int start(struct watch *watch)
{
    struct run *run = watch->run;
    int64_t remaining_ms = hf_grant_remaining_ms(run->grant);
    int exit_status;

    if (remaining_ms <= 0)
        return EXIT_LOST; /* the release will tell */

    watch->valid_until_ns = clock_now_ns() + (uint64_t)remaining_ms * NS_PER_MS;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    run->guard =
        (struct guard){ .client = run->client,
                        .own_fds = { run->signals.fd, run->terminal.fd, run->options.status_fd },
                        .inherited_fd_max = run->inherited_fd_max };
    exit_status = start_guard(run);
    if (exit_status)
        return exit_status;
    if (fork_command(watch) != 0)
        return EXIT_SYSTEM;

    watch->group = (struct group){ .id = watch->child.pid };
    watch->guard_told_ns = ending_guard_ns(watch);
    guard_tell(&run->guard, watch->group.id, watch->guard_told_ns);
    if (run->terminal.eager)
        terminal_hand_over(&run->terminal, watch->group.id);
    child_go(&watch->child);
    return 0;
}

static int exit_status_of(const struct watch *watch)
{
    const char *command = watch->run->options.command[0];

    if (watch->lost)
        return EXIT_LOST;
    if (watch->exec_errno == ENOENT) {
        say("'%s': command not found", command);
        return EXIT_NOT_FOUND;
    }
    if (watch->exec_errno) {
        say("'%s' cannot be executed: %s", command, strerror(watch->exec_errno));
        return EXIT_CANNOT_EXECUTE;
    }
    return watch->ended_by ? EXIT_SIGNAL_BASE + watch->ended_by : watch->exit_code;
}

/* The keyboard's signal reached the command's group, or ours and through us the command's. */
static void share_signal(const struct watch *watch)
{
    int number = watch->ended_by;

    if (watch->lost || (number != SIGINT && number != SIGQUIT))
        return;
    if (!watch->had_terminal && watch->typed != number)
        return;
    if (watch->had_terminal)
        kill(0, number); /* waits for us too, until we are ready to die of it */
    watch->run->die_of = number;
}

/* Gives the lock back, and has the last word on the exit status. */
static int give_back(struct run *run, int exit_status, bool lost)
{
    struct status_detail detail = STATUS_DETAIL_NONE;
    int status = hf_release(run->grant);

    run->grant = NULL;
    if (status == HF_ELOST && !lost) {
        detail.cause = "found at release";
        status_tell(&run->status, "lost", detail);
        say("lost '%s' (fence %llu): it was not ours any more when it was given back",
            run->options.name, (unsigned long long)run->status.fence);
        return EXIT_LOST;
    }
    if (status == HF_ELOST)
        return EXIT_LOST;
    if (status < 0)
        say("giving '%s' back was not confirmed: %s", run->options.name, hf_strstatus(status));
    detail.exit_status = exit_status;
    if (!lost)
        status_tell(&run->status, "released", detail);
    if (run->options.common.verbose)
        say("released '%s'", run->options.name);
    return exit_status;
}

int run_command(struct run *run)
{
    struct watch watch = { .run = run };
    int exit_status = start(&watch);

    if (exit_status == 0) {
        watch_until_gone(&watch);
        terminal_take_back(&run->terminal, watch.ended_by != 0);
        exit_status = exit_status_of(&watch);
    }
    exit_status = give_back(run, exit_status, watch.lost);
    guard_finish(&run->guard);
    if (exit_status != EXIT_LOST)
        share_signal(&watch);
    return exit_status;
}
