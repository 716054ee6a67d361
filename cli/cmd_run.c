/* cmd_run.c: how does a command run under a lock, from the command line to the exit status?
 *
 * Understand the options; open the client; wait for the lock (run_wait.c); run the command, watch
 * it, give the lock back (run_command.c); end with the command's status. Signals are ours from
 * the moment when there is something to leave behind, and not earlier: until then a signal simply
 * ends us.
 *
 * Three processes take part: this one, which holds the lock and is the command's parent; the
 * command in a process group of its own; and the guard (guard.c), which outlives us if we are
 * killed. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exit.h"
#include "parse.h"
#include "run.h"
#include "say.h"
#include "verbs.h"

#define FD_MAX_UNKNOWN 1023

/* The highest descriptor that we were started with. */
static int find_inherited_fd_max(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int highest = STDERR_FILENO;

    if (!folder)
        return FD_MAX_UNKNOWN;
    while ((entry = readdir(folder)) != NULL) {
        uint64_t fd;

        if (parse_number(entry->d_name, &fd) && fd > (uint64_t)highest)
            highest = (int)fd;
    }
    closedir(folder);
    return highest;
}

/* The status is about the command, not for it. The standard three stay the command's. */
static void prepare_status(struct run *run)
{
    run->status = (struct status){ .fd = run->options.status_fd, .name = run->options.name };
    if (run->status.fd > STDERR_FILENO)
        fcntl(run->status.fd, F_SETFD, FD_CLOEXEC);
}

static int open_client(struct run *run)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;

    options.purpose = run->options.purpose;
    options.lease_ms = run->options.lease_ms;
    return arguments_open(&run->options.common, &options, &run->client);
}

static int run_all(struct run *run)
{
    int exit_status = open_client(run);
    int failure;

    if (exit_status)
        return exit_status == EXIT_BUSY ? run->options.not_acquired : exit_status;

    failure = signals_take(&run->signals);
    if (failure) {
        say("cannot take charge of signals: %s", strerror(failure));
        return EXIT_SYSTEM;
    }
    if (!run_wait(run, &exit_status))
        return exit_status;

    terminal_open(&run->terminal);
    return run_command(run);
}

int cmd_run(int argc, char **argv)
{
    struct run run = { .terminal = { .fd = -1 } };
    int exit_status;

    if (!run_options_parse(&run.options, argc, argv, &exit_status))
        return exit_status;

    run.inherited_fd_max = find_inherited_fd_max();
    prepare_status(&run);
    exit_status = run_all(&run);
    hf_close(run.client);
    if (run.die_of)
        signals_die(run.die_of);
    return exit_status;
}
