/* verbs.c: which verbs are there, and how does a person learn about them?
 *
 * One row for each verb. A verb's page stands in the verb's own file. A word that is no verb gets
 * status 64 and the list. */
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "exit.h"
#include "say.h"

/* clang-format off */
static const struct verb verbs[] = {
    { "run",     "take the lock, run a command, give it back",      cmd_run_page,     cmd_run },
    { "ls",      "who holds, who waits",                            cmd_ls_page,      cmd_ls },
    { "show",    "one lock: its holders and its queue in order",    cmd_show_page,    cmd_show },
    { "break",   "take a lock away from one turn and from no other", cmd_break_page,  cmd_break },
    { "engines", "what this build can do, and what it promises",    cmd_engines_page, cmd_engines },
    { "bench",   "measure this store",                              NULL,             cmd_bench },
    { "version", "the version, and what is built in",               cmd_version_page, cmd_version },
    { "help",    "this overview, or the page of a verb",            cmd_help_page,    cmd_help },
};
/* clang-format on */

#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

const char cmd_help_page[] =
    "Usage: holdfast help [VERB]\n"
    "\n"
    "Prints the overview, or the page of one verb. 'holdfast VERB --help' is the same.\n";

const struct verb *verbs_at(size_t index)
{
    return index < VERB_COUNT ? &verbs[index] : NULL;
}

const struct verb *verbs_find(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    return NULL;
}

static int print_overview(void)
{
    printf("Named locks for programs: holdfast %s\n\n"
           "Usage: holdfast VERB [OPTION]... [ARGUMENT]...\n\n",
           hf_version());
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("  %-8s  %s\n", verbs[i].name, verbs[i].summary);
    printf("\n"
           "Options of every verb that looks at locks:\n"
           "  -u, --url URL      where the locks live (else $HOLDFAST_URL, else the embedded\n"
           "                     engine in its default directory)\n"
           "  --require LIST     refuse a store that does not promise these, as in fence,fair\n"
           "  -q, --quiet        say only what went wrong\n"
           "  -v, --verbose      say more; twice: everything that the library does\n"
           "\n"
           "'holdfast help VERB' has the rest; so has holdfast(1).\n");
    return EXIT_FINE;
}

/* It has a page of its own, behind its --help. */
static int ask_verb(const struct verb *verb)
{
    char name[] = "holdfast";
    char option[] = "--help";
    char *argv[] = { name, option, NULL };

    return verb->run(2, argv);
}

int verbs_help(const char *name)
{
    const struct verb *verb;

    if (!name)
        return print_overview();

    verb = verbs_find(name);
    if (!verb) {
        say("there is no verb '%s'; 'holdfast help' lists them", name);
        return EXIT_USAGE;
    }
    if (!verb->page)
        return ask_verb(verb);
    fputs(verb->page, stdout);
    return EXIT_FINE;
}

int cmd_help(int argc, char **argv)
{
    if (argc > 2) {
        say("help: '%s' is too much; one verb at a time", argv[2]);
        return EXIT_USAGE;
    }
    return verbs_help(
        argc == 2 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0 ? argv[1] : NULL);
}
