/* options.c: what does this command line ask for?
 *
 * getopt_long cuts it; what is not understood is told with the word as it was typed, and ends with
 * status 64. Numbers are read whole or not at all. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <holdfast/holdfast.h>

#include "bench.h"
#include "keep.h"
#include "say.h"

#define NS_PER_S      1e9
#define SECONDS_MIN   0.05
#define SECONDS_MAX   3600.0
#define SECONDS_ROW   5.0
#define SECONDS_IDLE  10.0
#define SECONDS_KEEP  90.0
#define SLICES        9
#define SLICES_MAX    99
#define WORKLOADS_ALL ((1u << BENCH_W7) - 1) /* W7 takes long: only when asked for */
#define LEASE_NS_MIN  (HF_LEASE_MS_MIN * 1000000ull)

const char bench_page[] =
    "Usage: holdfast bench [OPTION]...\n"
    "\n"
    "Measures this store beside its raw client. Both take turns in short slices of the same\n"
    "run; the ratio is the median of the slices' ratios, and it is the result: absolute times\n"
    "mean little on a machine that does other things too.\n"
    "\n"
    "  --workload LIST    some of these, as in W1,W5 (else W1 to W6)\n"
    "  --seconds N        how long a workload runs in each placement (5; W6: 10; W7: 90, three\n"
    "                     leases)\n"
    "  --slices N         how often ours and raw take turns meanwhile (9)\n"
    "  --json             an array of objects: engine, recipe, workload, placement, ours, raw,\n"
    "                     ratio\n"
    "  -u, --url URL      where the locks live (else $HOLDFAST_URL, else the embedded engine)\n"
    "  --require LIST     refuse a store that does not promise these, as in fence,fair\n"
    "  -q, --quiet        say only what went wrong\n"
    "\n"
    "  W1   one thread, one lock         W4  4 processes on one lock\n"
    "  W2   16 threads, 16 locks         W5  from release in one process to acquire in another\n"
    "  W2b  one thread, 16 locks at once W6  200 that wait: requests, CPU, connections\n"
    "  W3   8 threads on one lock        W7  10 000 that are held for three leases: lost, CPU\n"
    "\n"
    "Placements: same = all on one CPU, split = neighbours on different CPUs, free = as the\n"
    "scheduler likes. Times are those of a whole cycle in W1 and W2, of 16 of them in W2b, of\n"
    "the acquire alone in W3 and W4. Exit status 1: an increment under the lock was lost.\n";

enum own { OWN_JSON = 256, OWN_WORKLOAD, OWN_SECONDS, OWN_SLICES, OWN_REQUIRE };

static const struct option longs[] = {
    { "help", no_argument, NULL, 'h' },
    { "json", no_argument, NULL, OWN_JSON },
    { "workload", required_argument, NULL, OWN_WORKLOAD },
    { "seconds", required_argument, NULL, OWN_SECONDS },
    { "slices", required_argument, NULL, OWN_SLICES },
    { "url", required_argument, NULL, 'u' },
    { "require", required_argument, NULL, OWN_REQUIRE },
    { "quiet", no_argument, NULL, 'q' },
    { "verbose", no_argument, NULL, 'v' },
    { NULL, 0, NULL, 0 },
};

static const struct {
    const char *name;
    uint32_t promise;
} promises[] = {
    { "fence", HF_PROMISE_FENCE },     { "fair", HF_PROMISE_FAIR },
    { "wakeup", HF_PROMISE_WAKEUP },   { "shared", HF_PROMISE_SHARED },
    { "durable", HF_PROMISE_DURABLE }, { "failover", HF_PROMISE_FAILOVER },
    { "crash", HF_PROMISE_CRASH },
};

#define PROMISE_COUNT (sizeof(promises) / sizeof(promises[0]))

/* The next word of a list, and how long it is; NULL behind the last. */
static const char *next_word(const char **list, size_t *out_bytes)
{
    const char *word = *list;
    size_t bytes;

    if (!word)
        return NULL;
    bytes = strcspn(word, ",");
    *list = word[bytes] == ',' ? word + bytes + 1 : NULL;
    *out_bytes = bytes;
    return word;
}

static bool is_name(const char *word, size_t bytes, enum bench_workload workload)
{
    const char *name = bench_workload_name(workload);

    return strlen(name) == bytes && strncasecmp(name, word, bytes) == 0;
}

static int take_workloads(const char *text, uint32_t *out_workloads)
{
    const char *list = text;
    const char *word;
    size_t bytes;
    uint32_t found = 0;

    while ((word = next_word(&list, &bytes))) {
        int workload = 0;

        while (workload < BENCH_WORKLOADS && !is_name(word, bytes, (enum bench_workload)workload))
            workload++;
        if (workload == BENCH_WORKLOADS) {
            bench_say("option '--workload': there is no workload '%.*s'; they are W1 to W7 and "
                      "W2b, as in W1,W5",
                      (int)bytes, word);
            return -1;
        }
        found |= 1u << workload;
    }
    *out_workloads = found;
    return 0;
}

static int take_require(const char *text, uint32_t *out_require)
{
    const char *list = text;
    const char *word;
    size_t bytes;
    uint32_t found = 0;

    while ((word = next_word(&list, &bytes))) {
        size_t i = 0;

        while (i < PROMISE_COUNT &&
               (strncmp(promises[i].name, word, bytes) != 0 || promises[i].name[bytes] != '\0'))
            i++;
        if (i == PROMISE_COUNT) {
            bench_say("option '--require': no promise is called '%.*s'; there are: fence fair "
                      "wakeup shared durable failover crash",
                      (int)bytes, word);
            return -1;
        }
        found |= promises[i].promise;
    }
    *out_require |= found;
    return 0;
}

static int take_number(const char *option, double least, double most, double *out_number)
{
    char *end = NULL;
    double number;

    errno = 0;
    number = strtod(optarg, &end);
    if (errno != 0 || end == optarg || *end != '\0' || !(number >= least && number <= most)) {
        bench_say("option '%s': '%s' is not a number from %g to %g", option, optarg, least, most);
        return -1;
    }
    *out_number = number;
    return 0;
}

static int take_seconds(struct bench_options *options)
{
    double seconds;

    if (take_number("--seconds", SECONDS_MIN, SECONDS_MAX, &seconds) < 0)
        return -1;
    options->row_ns = (uint64_t)(seconds * NS_PER_S);
    options->idle_ns = options->row_ns;
    options->keep_ns = options->row_ns;
    return 0;
}

static int take_slices(struct bench_options *options)
{
    double slices;

    if (take_number("--slices", 1, SLICES_MAX, &slices) < 0)
        return -1;
    options->slices = (uint32_t)slices;
    if (slices == options->slices)
        return 0;
    bench_say("option '--slices': '%s' is not a whole number", optarg);
    return -1;
}

static int complain(const char *typed, int option)
{
    bool is_long = strncmp(typed, "--", 2) == 0;
    const char letter[] = { '-', (char)optopt, '\0' };

    bench_say(option == ':' ? "option '%s' needs a value; see 'holdfast help bench'"
                            : "there is no option '%s'; see 'holdfast help bench'",
              is_long || !optopt ? typed : letter);
    return -1;
}

static int take_own(struct bench_options *options, enum own option)
{
    switch (option) {
    case OWN_JSON:
        options->json = true;
        return 0;
    case OWN_WORKLOAD:
        return take_workloads(optarg, &options->workloads);
    case OWN_SECONDS:
        return take_seconds(options);
    case OWN_SLICES:
        return take_slices(options);
    case OWN_REQUIRE:
        return take_require(optarg, &options->require);
    }
    return -1;
}

static int take(struct bench_options *options, int option, const char *typed)
{
    switch (option) {
    case 'u':
        options->url = optarg;
        return 0;
    case 'q':
        options->quiet = true;
        return 0;
    case 'v': /* it says everything there is already */
        return 0;
    case '?':
    case ':':
        return complain(typed, option);
    default:
        return take_own(options, (enum own)option);
    }
}

int bench_options_parse(int argc, char **argv, struct bench_options *out_options,
                        int *out_exit_status)
{
    struct bench_options options = {
        .workloads = WORKLOADS_ALL,
        .row_ns = (uint64_t)(SECONDS_ROW * NS_PER_S),
        .idle_ns = (uint64_t)(SECONDS_IDLE * NS_PER_S),
        .keep_ns = (uint64_t)(SECONDS_KEEP * NS_PER_S),
        .slices = SLICES,
    };
    int option;
    int before = 1;

    *out_exit_status = BENCH_EXIT_USAGE;
    opterr = 0;
    optind = 0; /* the GNU way to begin anew */
    while ((option = getopt_long(argc, argv, "+:hu:qv", longs, NULL)) != -1) {
        if (option == 'h') {
            fputs(bench_page, stdout);
            *out_exit_status = BENCH_EXIT_FINE;
            return -1;
        }
        if (take(&options, option, argv[before < argc ? before : argc - 1]) < 0)
            return -1;
        before = optind;
    }
    if (optind < argc) {
        bench_say("'%s' is too much; see 'holdfast help bench'", argv[optind]);
        return -1;
    }
    if ((options.workloads & (1u << BENCH_W7)) && options.keep_ns < BENCH_LEASES * LEASE_NS_MIN) {
        bench_say("W7 holds locks for %d leases: '--seconds' must be at least %g", BENCH_LEASES,
                  BENCH_LEASES * LEASE_NS_MIN / NS_PER_S);
        return -1;
    }
    *out_options = options;
    *out_exit_status = BENCH_EXIT_FINE;
    return 0;
}
