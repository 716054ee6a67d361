/* cmd_version.c: which Holdfast is this, and what is built in?
 *
 * The version of the library that is really loaded; one line for each engine with its recipes. */
#include <stdio.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "exit.h"
#include "say.h"
#include "verbs.h"

const char cmd_version_page[] = "Usage: holdfast version\n"
                                "\n"
                                "Prints the version and the engines that are built in.\n";

static void print_engines(void)
{
    struct hf_recipe_info info = { .struct_size = sizeof(info) };
    const char *engine = "";

    for (size_t i = 0; hf_recipe_info(i, &info) == 1; i++) {
        if (strcmp(engine, info.engine) != 0)
            printf("%s  %-10s %s", *engine ? "\n" : "", info.engine, info.recipe);
        else
            printf(", %s", info.recipe);
        engine = info.engine;
    }
    if (*engine)
        putchar('\n');
}

int cmd_version(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0))
        return verbs_help("version");
    if (argc > 1) {
        say("version: '%s' is too much; it takes no arguments", argv[1]);
        return EXIT_USAGE;
    }
    printf("holdfast %s\n", hf_version());
    print_engines();
    return EXIT_FINE;
}
