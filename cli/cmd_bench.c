/* cmd_bench.c: how fast is this store?
 *
 * The benchmarks are a part of their own, with raw clients that the library does not need; they
 * have their own options and their own page. */
#include "bench/bench.h"
#include "verbs.h"

int cmd_bench(int argc, char **argv)
{
    return bench_main(argc, argv);
}
