/* cmd_break.c: how is a lock taken away from one turn, and from no other?
 *
 * Whoever breaks must name the fence of the turn that is meant: between looking and breaking the
 * lock may have passed on, and the next holder has done nothing wrong. Status 1: that turn is over
 * already. The holder is told; if it is `holdfast run`, it stops its command first. */
#include <inttypes.h>
#include <stdio.h>

#include <holdfast/holdfast.h>

#include "arguments.h"
#include "exit.h"
#include "parse.h"
#include "say.h"
#include "verbs.h"

enum { FENCE = ARGUMENTS_OWN };

const char cmd_break_page[] =
    "Usage: holdfast break [OPTION]... NAME --fence N\n"
    "\n"
    "Takes the lock away from the turn with this fence and from no other. Status 1: that turn\n"
    "is over already, and nothing was done. 'holdfast show NAME' tells the fence.\n"
    "\n"
    "  --fence N          the turn that is meant\n"
    "  -u, --url URL      where the locks live\n"
    "  --require LIST     refuse a store that does not promise these\n"
    "  -q, --quiet        say only what went wrong\n"
    "  -v, --verbose      say more\n"
    "\n"
    "The holder is told. If it is 'holdfast run', it stops its command, and the next one is let\n"
    "in when that is done; a holder that does nothing is passed over after its grace.\n";

static int take_away(const struct arguments_common *common, const char *name, uint64_t fence)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_client *client = NULL;
    int exit_status = arguments_open(common, &options, &client);
    int status;

    if (exit_status)
        return exit_status;

    status = hf_client_break(client, name, fence);
    if (status == HF_ELOST) {
        exit_status = EXIT_NOBODY;
        if (!common->quiet)
            say("the turn with fence %" PRIu64 " on '%s' is over; nothing was done", fence, name);
    } else if (status < 0) {
        exit_status = exit_failed(client, status);
    } else if (!common->quiet) {
        say("took '%s' away from the turn with fence %" PRIu64, name, fence);
    }
    hf_close(client);
    return exit_status;
}

static int check(const struct arguments *arguments, const char *name, const char *fence_text,
                 uint64_t *out_fence)
{
    if (!name)
        return arguments_wrong(arguments, "which lock? Its NAME is missing");
    if (arguments_name(name))
        return EXIT_NAME;
    if (!fence_text)
        return arguments_wrong(arguments,
                               "option '--fence' is missing: 'holdfast show' tells the fence of "
                               "the turn to end");
    if (!parse_number(fence_text, out_fence) || *out_fence == 0)
        return arguments_wrong(arguments, "option '--fence': '%s' is not a fence", fence_text);
    return 0;
}

int cmd_break(int argc, char **argv)
{
    static const struct option longs[] = { ARGUMENTS_COMMON_LONG,
                                           { "fence", required_argument, NULL, FENCE },
                                           { NULL, 0, NULL, 0 } };
    struct arguments arguments = { .verb = "break",
                                   .argc = argc,
                                   .argv = argv,
                                   .shorts = ARGUMENTS_COMMON_SHORT,
                                   .longs = longs };
    const char *name = NULL;
    const char *fence_text = NULL;
    uint64_t fence = 0;
    int exit_status;
    int option;

    while ((option = arguments_next(&arguments)) != ARGUMENTS_END) {
        if (option == ARGUMENTS_DONE)
            return arguments.exit_status;
        if (option == FENCE)
            fence_text = optarg;
        else if (arguments_one_word(&arguments, &name))
            return EXIT_USAGE;
    }
    exit_status = check(&arguments, name, fence_text, &fence);
    return exit_status ? exit_status : take_away(&arguments.common, name, fence);
}
