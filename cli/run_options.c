/* run_options.c: what does `holdfast run ...` ask for?
 *
 * flock(1)'s letters where flock has them. "--" stands between the lock's name and the command, so
 * that the command's options are never taken for ours. Whatever cannot be meant is refused here,
 * with the option's name and the value, before any lock is touched. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "exit.h"
#include "parse.h"
#include "run.h"
#include "say.h"
#include "verbs.h"

#define GRACE_MS_DEFAULT 5000
#define LEASE_PER_GRACE  3 /* the grace is at most a third of the lease */

enum option_kind {
    OPTION_NONBLOCK = 'n',
    OPTION_WAIT = 'w',
    OPTION_SHARED = 's',
    OPTION_EXCLUSIVE = 'x',
    OPTION_NOT_ACQUIRED = 'E',
    OPTION_LEASE = ARGUMENTS_OWN,
    OPTION_MAX_HOLD,
    OPTION_GRACE,
    OPTION_PURPOSE,
    OPTION_STATUS_FD,
};

const char cmd_run_page[] =
    "Usage: holdfast run [OPTION]... NAME -- COMMAND [ARGUMENT]...\n"
    "\n"
    "Takes the lock NAME, runs the command, and gives the lock back when the command and all\n"
    "of its process group have ended.\n"
    "\n"
    "  -n, --nonblock     do not wait\n"
    "  -w, --wait DUR     wait at most so long\n"
    "  -s, --shared       a shared lock\n"
    "  -x, --exclusive    an exclusive lock (this is the default)\n"
    "  -E, --conflict-exit-code N\n"
    "                     the status when the lock was not acquired (75)\n"
    "  --lease DUR        how long the store keeps the lock without hearing from us (30s)\n"
    "  --max-hold DUR     stop the command after so long at the latest\n"
    "  --grace DUR        between SIGTERM and SIGKILL; at most a third of the lease (5s)\n"
    "  --purpose TEXT     shown to people who ask who holds it (the command's name)\n"
    "  --status-fd N      write lines of JSON there: waiting, acquired, at-risk, safe, lost,\n"
    "                     released\n"
    "  -u, --url URL      where the locks live\n"
    "  --require LIST     refuse a store that does not promise these, as in fence,fair\n"
    "  -q, --quiet        say only what went wrong\n"
    "  -v, --verbose      say more\n"
    "\n"
    "Durations: 250ms, 30s, 5m, 2h; a bare number is seconds.\n"
    "The command gets HOLDFAST_NAME, HOLDFAST_FENCE and HOLDFAST_URL.\n"
    "\n"
    "Status: the command's, or 128+n when signal n ended it; 75 not acquired; 79 the lock was\n"
    "lost and the command stopped; 69 the store cannot be reached; 126 and 127 the command\n"
    "cannot be executed or was not found; others as in sysexits(3).\n";

static int take_duration(const struct arguments *arguments, const char *option, int64_t *out_ms)
{
    if (parse_duration(optarg, out_ms))
        return 0;
    return arguments_wrong(arguments,
                           "option '%s': '%s' is not a duration (" PARSE_DURATION_FORMS ")", option,
                           optarg);
}

static int take_number(const struct arguments *arguments, const char *option, uint64_t number_max,
                       int *out_number)
{
    uint64_t number;

    if (!parse_number(optarg, &number) || number > number_max)
        return arguments_wrong(arguments, "option '%s': '%s' is not a number from 0 to %llu",
                               option, optarg, (unsigned long long)number_max);
    *out_number = (int)number;
    return 0;
}

/* 0, or the exit status after telling what is wrong with it. */
static int take_option(struct run_options *options, const struct arguments *arguments,
                       enum option_kind option)
{
    switch (option) {
    case OPTION_NONBLOCK:
        options->wait_ms = 0;
        return 0;
    case OPTION_WAIT:
        return take_duration(arguments, "-w", &options->wait_ms);
    case OPTION_SHARED:
        options->mode = HF_SHARED;
        return 0;
    case OPTION_EXCLUSIVE:
        options->mode = HF_EXCLUSIVE;
        return 0;
    case OPTION_NOT_ACQUIRED:
        return take_number(arguments, "-E", 255, &options->not_acquired);
    case OPTION_LEASE:
        return take_duration(arguments, "--lease", &options->lease_ms);
    case OPTION_MAX_HOLD:
        return take_duration(arguments, "--max-hold", &options->max_hold_ms);
    case OPTION_GRACE:
        return take_duration(arguments, "--grace", &options->grace_ms);
    case OPTION_PURPOSE:
        options->purpose = optarg;
        return 0;
    case OPTION_STATUS_FD:
        return take_number(arguments, "--status-fd", 1 << 20, &options->status_fd);
    }
    assert(option == OPTION_STATUS_FD); /* the table of options has one that is not here */
    return EXIT_INTERNAL;
}

/* Also settles the grace, whose default depends on the others. */
static int check_times(struct run_options *options, const struct arguments *arguments)
{
    int64_t lease_ms = options->lease_ms < 0 ? RUN_LEASE_MS_DEFAULT : options->lease_ms;
    int64_t grace_ms = GRACE_MS_DEFAULT;

    if (lease_ms < HF_LEASE_MS_MIN || lease_ms > HF_LEASE_MS_MAX)
        return arguments_wrong(arguments, "option '--lease': %lld ms is not between %d ms and 24h",
                               (long long)lease_ms, HF_LEASE_MS_MIN);
    if (options->max_hold_ms == 0)
        return arguments_wrong(arguments, "option '--max-hold': nothing can be done in no time");
    if (options->grace_ms > lease_ms / LEASE_PER_GRACE)
        return arguments_wrong(arguments,
                               "option '--grace': %lld ms is more than a third of the lease "
                               "(%lld ms)",
                               (long long)options->grace_ms, (long long)lease_ms);
    if (options->max_hold_ms > 0 && options->grace_ms >= options->max_hold_ms)
        return arguments_wrong(arguments,
                               "option '--grace': %lld ms is not less than '--max-hold' "
                               "(%lld ms)",
                               (long long)options->grace_ms, (long long)options->max_hold_ms);

    if (grace_ms > lease_ms / LEASE_PER_GRACE)
        grace_ms = lease_ms / LEASE_PER_GRACE;
    if (options->max_hold_ms > 0 && grace_ms > options->max_hold_ms / LEASE_PER_GRACE)
        grace_ms = options->max_hold_ms / LEASE_PER_GRACE;
    if (options->grace_ms < 0)
        options->grace_ms = grace_ms;
    if (options->lease_ms < 0)
        options->lease_ms = 0;
    if (options->max_hold_ms < 0)
        options->max_hold_ms = 0;
    return 0;
}

static int check(struct run_options *options, const struct arguments *arguments)
{
    const char *slash;

    if (!options->name)
        return arguments_wrong(arguments, "which lock? Its NAME is missing");
    if (arguments_name(options->name))
        return EXIT_NAME;
    if (!options->command || !options->command[0])
        return arguments_wrong(arguments, "no command to run; write: holdfast run NAME -- COMMAND");
    if (options->status_fd >= 0 && fcntl(options->status_fd, F_GETFD) < 0)
        return arguments_wrong(arguments, "option '--status-fd': descriptor %d is not open",
                               options->status_fd);
    slash = strrchr(options->command[0], '/');
    if (!options->purpose)
        options->purpose = slash && slash[1] ? slash + 1 : options->command[0];
    return check_times(options, arguments);
}

/* NAME and, behind "--", the command. A name may follow a "--" of its own. */
static int take_word(struct run_options *options, struct arguments *arguments, bool *out_complete)
{
    if (!options->name) {
        options->name = arguments->word;
        if (!arguments->dashes)
            return 0;
        if (optind >= arguments->argc)
            return 0;
        arguments->word = arguments->argv[optind++]; /* "run -- -name -- command" */
        arguments->dashes = strcmp(arguments->word, "--") == 0;
        if (arguments->dashes)
            return 0;
    }
    if (!arguments->dashes)
        return arguments_wrong(arguments, "'%s': write -- between the name and the command",
                               arguments->word);
    options->command = &arguments->argv[optind - 1];
    *out_complete = true;
    return 0;
}

bool run_options_parse(struct run_options *options, int argc, char **argv, int *out_exit_status)
{
    static const struct option longs[] = {
        ARGUMENTS_COMMON_LONG,
        { "nonblock", no_argument, NULL, OPTION_NONBLOCK },
        { "wait", required_argument, NULL, OPTION_WAIT },
        { "shared", no_argument, NULL, OPTION_SHARED },
        { "exclusive", no_argument, NULL, OPTION_EXCLUSIVE },
        { "conflict-exit-code", required_argument, NULL, OPTION_NOT_ACQUIRED },
        { "lease", required_argument, NULL, OPTION_LEASE },
        { "max-hold", required_argument, NULL, OPTION_MAX_HOLD },
        { "grace", required_argument, NULL, OPTION_GRACE },
        { "purpose", required_argument, NULL, OPTION_PURPOSE },
        { "status-fd", required_argument, NULL, OPTION_STATUS_FD },
        { NULL, 0, NULL, 0 },
    };
    struct arguments arguments = { .verb = "run",
                                   .argc = argc,
                                   .argv = argv,
                                   .shorts = ARGUMENTS_COMMON_SHORT "nw:sxE:",
                                   .longs = longs };
    bool complete = false;

    *out_exit_status = 0;
    *options = (struct run_options){ .wait_ms = HF_FOREVER,
                                     .lease_ms = -1,
                                     .max_hold_ms = -1,
                                     .grace_ms = -1,
                                     .status_fd = -1,
                                     .not_acquired = EXIT_BUSY };
    while (!complete && !*out_exit_status) {
        int option = arguments_next(&arguments);

        if (option == ARGUMENTS_END)
            break;
        if (option == ARGUMENTS_DONE) {
            *out_exit_status = arguments.exit_status;
            return false;
        }
        *out_exit_status = option == ARGUMENTS_WORD
                               ? take_word(options, &arguments, &complete)
                               : take_option(options, &arguments, (enum option_kind)option);
    }
    options->common = arguments.common;
    if (!*out_exit_status)
        *out_exit_status = check(options, &arguments);
    return *out_exit_status == 0;
}
