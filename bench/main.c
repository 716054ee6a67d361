/* main.c: `holdfast bench` as a program of its own, where the command is not built. */
#include "bench.h"

int main(int argc, char **argv)
{
    return bench_main(argc, argv);
}
