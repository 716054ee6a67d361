/* cmd_bench.c: how fast is this store?
 *
 * The benchmarks are a part of their own (bench/), with raw clients that the library does not need;
 * a build may leave them out, and then this verb says so. */
#include <string.h>

#include "exit.h"
#include "say.h"
#include "verbs.h"

const char cmd_bench_page[] =
    "Usage: holdfast bench [OPTION]...\n"
    "\n"
    "Measures this store beside its raw client, both in the same run.\n"
    "\n"
    "  --workload LIST    W1 to W6, as in W1,W5 (else all of them)\n"
    "  --seconds N        how long each of them runs\n"
    "  --json             an array of objects: engine, recipe, workload, placement, ours, raw,\n"
    "                     ratio\n"
    "  -u, --url URL      where the locks live\n"
    "\n"
    "  W1  one thread, one lock          W4  4 processes on one lock\n"
    "  W2  16 threads, 16 locks          W5  hand-over from one process to another\n"
    "  W3  8 threads on one lock         W6  200 that wait, for 10 seconds\n";

#ifdef HOLDFAST_WITH_BENCH

int bench_main(int argc, char **argv);

int cmd_bench(int argc, char **argv)
{
    return bench_main(argc, argv);
}

#else

int cmd_bench(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0))
        return verbs_help("bench");
    say("bench: the benchmarks are not built in; build with the folder bench/ to have them");
    return EXIT_CONFIG;
}

#endif
