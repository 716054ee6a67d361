/* cmd_no_bench.c: what does `holdfast bench` say where the benchmarks are not built in?
 *
 * That, and how to have them: a build without the folder bench/ takes this file for cmd_bench.c. */
#include <stdio.h>
#include <string.h>

#include "exit.h"
#include "say.h"
#include "verbs.h"

static const char page[] =
    "Usage: holdfast bench [OPTION]...\n"
    "\n"
    "Measures this store, with the workloads W1 to W6, beside its raw client. "
    "The\nbenchmarks are not built in: build with the folder bench/ to have "
    "them.\n";

int cmd_bench(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        fputs(page, stdout);
        return EXIT_FINE;
    }
    say("bench: the benchmarks are not built in; build with the folder bench/ to have them");
    return EXIT_CONFIG;
}
