/* arguments.c: what does this command line ask for?
 *
 * getopt_long does the cutting, in the mode that stops at each word, so that the words of a command
 * to run are never taken for ours and so that "--" is seen where it stands. Options that all verbs
 * share are taken here; each verb sees only its own.
 *
 * What is not understood is told with the word as it was typed, and ends with status 64. */
#include "arguments.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exit.h"
#include "parse.h"
#include "say.h"
#include "verbs.h"

#define REASON_BYTES 4096

int arguments_wrong(const struct arguments *arguments, const char *format, ...)
{
    char reason[REASON_BYTES];
    va_list values;

    va_start(values, format);
    vsnprintf(reason, sizeof(reason), format, values);
    va_end(values);
    say("%s: %s; see 'holdfast help %s'", arguments->verb, reason, arguments->verb);
    return EXIT_USAGE;
}

static int finish(struct arguments *arguments, int exit_status)
{
    arguments->exit_status = exit_status;
    return ARGUMENTS_DONE;
}

static int take_require(struct arguments *arguments)
{
    char word[64];
    uint32_t promises;

    if (!parse_promises(optarg, &promises, word, sizeof(word)))
        return finish(arguments, arguments_wrong(arguments,
                                                 "option '--require': no promise is called '%s' "
                                                 "(there are: " PARSE_PROMISES ")",
                                                 word));
    arguments->common.require |= promises;
    return 0;
}

/* 0: it was a common option and is done with. */
static int take_common(struct arguments *arguments, int option, const char *typed)
{
    switch ((enum arguments_common_option)option) {
    case ARGUMENTS_HELP:
        return finish(arguments, verbs_help(arguments->verb));
    case ARGUMENTS_URL:
        arguments->common.url = optarg;
        return 0;
    case ARGUMENTS_QUIET:
        arguments->common.quiet = true;
        return 0;
    case ARGUMENTS_VERBOSE:
        arguments->common.verbose++;
        return 0;
    case ARGUMENTS_REQUIRE:
        return take_require(arguments);
    case ARGUMENTS_NO_VALUE:
        return finish(arguments, arguments_wrong(arguments, "option '%s' needs a value", typed));
    case ARGUMENTS_NO_OPTION:
        return finish(arguments, arguments_wrong(arguments, "there is no option '%s'", typed));
    }
    return option;
}

/* What the person typed, for a message about it: of short ones in a bunch only the letter. */
static const char *typed_as(const struct arguments *arguments, int before, char letter[3])
{
    const char *word = arguments->argv[before < arguments->argc ? before : arguments->argc - 1];

    if (strncmp(word, "--", 2) == 0 || !optopt)
        return word;
    letter[0] = '-';
    letter[1] = (char)optopt;
    letter[2] = '\0';
    return letter;
}

int arguments_next(struct arguments *arguments)
{
    char letter[3];
    int option = 0;

    while (option == 0 && !arguments->dashes) {
        int before = optind;

        opterr = 0;
        optopt = 0;
        option = getopt_long(arguments->argc, arguments->argv, arguments->shorts, arguments->longs,
                             NULL);
        if (option != -1) {
            option = take_common(arguments, option, typed_as(arguments, before, letter));
            continue;
        }
        arguments->dashes = optind == before + 1 && strcmp(arguments->argv[before], "--") == 0;
        break;
    }
    if (option != 0 && option != -1)
        return option;
    if (optind >= arguments->argc)
        return ARGUMENTS_END;

    arguments->word = arguments->argv[optind++];
    return ARGUMENTS_WORD;
}

int arguments_one_word(struct arguments *arguments, const char **out_word)
{
    if (*out_word)
        return arguments_wrong(arguments, "'%s' is too much, after '%s'", arguments->word,
                               *out_word);
    *out_word = arguments->word;
    return 0;
}

int arguments_name(const char *name)
{
    size_t bytes = strlen(name);

    if (bytes == 0) {
        say("the name is empty; a lock's name has 1 to %d bytes", HF_NAME_BYTES_MAX);
        return EXIT_NAME;
    }
    if (bytes > HF_NAME_BYTES_MAX) {
        say("the name '%.40s...' has %zu bytes; at most %d are allowed", name, bytes,
            HF_NAME_BYTES_MAX);
        return EXIT_NAME;
    }
    return 0;
}

/* -vv: the library's own account of what it does. Comes from any of its threads. */
static void trace(void *context, const char *line)
{
    (void)context;
    say_now("trace: %s", line);
}

int arguments_open(const struct arguments_common *common, struct hf_open_options *options,
                   hf_client **out_client)
{
    char shown[1024];
    int status;

    assert(options->struct_size);

    options->require = common->require;
    if (common->verbose > 1)
        options->trace = trace;
    status = hf_open(common->url, options, out_client);
    if (status < 0)
        return exit_failed(NULL, status);

    if (common->verbose && common->url && hf_url_redact(common->url, shown, sizeof(shown)) > 0)
        say("opened %s", shown);
    return 0;
}
