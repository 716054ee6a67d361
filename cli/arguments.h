/* arguments.h: the command line of one verb, word by word. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

/* What every verb that looks at a store understands. */
struct arguments_common {
    const char *url; /* NULL: $HOLDFAST_URL, else the embedded engine */
    uint32_t require;
    bool quiet;
    int verbose;
};

#define ARGUMENTS_COMMON_SHORT "+:hu:qv"
/* clang-format off */
#define ARGUMENTS_COMMON_LONG                                   \
    { "help", no_argument, NULL, ARGUMENTS_HELP },              \
    { "url", required_argument, NULL, ARGUMENTS_URL },          \
    { "quiet", no_argument, NULL, ARGUMENTS_QUIET },            \
    { "verbose", no_argument, NULL, ARGUMENTS_VERBOSE },        \
    { "require", required_argument, NULL, ARGUMENTS_REQUIRE }
/* clang-format on */

/* What getopt_long(3) answers that is not a verb's own affair. */
enum arguments_common_option {
    ARGUMENTS_HELP = 'h',
    ARGUMENTS_URL = 'u',
    ARGUMENTS_QUIET = 'q',
    ARGUMENTS_VERBOSE = 'v',
    ARGUMENTS_REQUIRE = 1000,
    ARGUMENTS_NO_VALUE = ':',
    ARGUMENTS_NO_OPTION = '?',
};

enum {
    ARGUMENTS_END = -1,  /* no more words                                    */
    ARGUMENTS_DONE = -2, /* told already (or helped): end with `exit_status` */
    ARGUMENTS_WORD = -3, /* a word that is no option, in `word`              */
    ARGUMENTS_OWN = 1001 /* long options of the verbs count from here        */
};

struct arguments {
    const char *verb;
    int argc;
    char **argv;
    const char *shorts; /* begins with ARGUMENTS_COMMON_SHORT */
    const struct option *longs;
    struct arguments_common common;
    int exit_status;
    const char *word;
    bool dashes; /* `--` was seen: whatever follows is a word */
};

/* The next option of the verb's own (its character; the value is in optarg), or one of the above.
 * The common ones are taken care of here. */
int arguments_next(struct arguments *arguments);

/* Gives `arguments->verb` the status 64, with the reason and where to read on. */
__attribute__((format(printf, 2, 3))) int arguments_wrong(const struct arguments *arguments,
                                                          const char *format, ...);

/* "" or a word that is too much. Verbs that take at most one word beside options use it. */
int arguments_one_word(struct arguments *arguments, const char **out_word);

/* 0, or the exit status after telling that this is no name. */
int arguments_name(const char *name);

/* 0, or the exit status after telling why. The client is the caller's to close. */
int arguments_open(const struct arguments_common *common, struct hf_open_options *options,
                   hf_client **out_client);

#endif
