/* main.c: simulation [--seeds A-B] [--recipe R] [--jobs N] [--trace] [--stop]
 *
 * Runs the seeds, divided among processes, and says what was seen. A worker that dies (an assert of
 * the core's) has failed the seed that it was running; another goes on with the next. A seed that
 * failed is run again with its trace, and the last events of the name in question are printed.
 *
 * Every fiftieth seed is run twice, and must leave the same trace hash. In a run of at least 2 000
 * seeds of all recipes every point and every fault must have been seen. Ends with `N passed, N failed`:
 * seeds, and those last checks. */
#include <assert.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simulation.h"

#define JOBS_MAX    16
#define STORIES_MAX 3
#define STORY_LINES 80
#define TWICE_EVERY 50
#define SEEDS_FULL  2000 /* from so many seeds on, everything must have been seen */

struct choice {
    uint64_t first;
    uint64_t last;
    int kind; /* -1: all */
    unsigned jobs;
    bool trace;
    bool stop;
};

/* What a worker writes, in memory that outlives it. */
struct board {
    struct tally tally;
    uint64_t next; /* the seed that it runs, or will run */
    uint64_t failed;
    uint64_t failures[STORIES_MAX];
    uint64_t twice;
    uint64_t unlike; /* of those, how many differed */
    bool done;
};

/* --- one seed with its trace --- */

static bool belongs(const char *line, int name)
{
    return line[0] == '*' || name < 0 || (line[0] == 'n' && line[1] - '0' == name);
}

static void print_tail(FILE *file, int name)
{
    static char lines[STORY_LINES][256];
    char line[256];
    size_t count = 0;

    rewind(file);
    while (fgets(line, sizeof(line), file)) {
        if (belongs(line, name))
            memcpy(lines[count++ % STORY_LINES], line, sizeof(line));
    }
    for (size_t i = count > STORY_LINES ? count - STORY_LINES : 0; i < count; i++)
        (void)fputs(lines[i % STORY_LINES], stdout);
}

static _Noreturn void run_traced(const struct choice *choice, uint64_t seed, FILE *trace, int *name)
{
    struct tally tally = { 0 };
    struct world *world = world_new(&tally, trace);
    bool passed;

    *name = -1;
    passed = world_run(world, seed, choice->kind);
    *name = world->violated_name;
    if (!passed)
        (void)printf("seed %llu (%s): at %.3f ms: %s\n", (unsigned long long)seed,
                     report_kind(world->plan.kind), (double)world->now_ns / (double)MS,
                     world->violation);
    (void)fflush(NULL);
    _exit(passed ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void tell_story(const struct choice *choice, uint64_t seed)
{
    FILE *trace = tmpfile();
    int *name =
        mmap(NULL, sizeof(*name), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t child;

    if (!trace || name == MAP_FAILED)
        abort();
    (void)setvbuf(trace, NULL, _IOLBF, 0);
    (void)fflush(NULL);
    child = fork();
    if (child == 0)
        run_traced(choice, seed, trace, name);
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    if (WIFSIGNALED(status))
        (void)printf("seed %llu: ended by signal %d\n", (unsigned long long)seed, WTERMSIG(status));
    print_tail(trace, *name);
    (void)fclose(trace);
    (void)munmap(name, sizeof(*name));
    (void)printf("again: simulation --seeds %llu-%llu%s%s --trace\n", (unsigned long long)seed,
                 (unsigned long long)seed, choice->kind >= 0 ? " --recipe " : "",
                 choice->kind >= 0 ? report_kind((enum kind)choice->kind) : "");
}

/* --- workers --- */

static void fail(struct board *board, uint64_t seed)
{
    if (board->failed < STORIES_MAX)
        board->failures[board->failed] = seed;
    board->failed++;
}

static void run_seed(struct world *world, struct board *board, const struct choice *choice)
{
    uint64_t seed = board->next;
    bool passed = world_run(world, seed, choice->kind);

    if (!passed)
        fail(board, seed);
    if (passed && seed % TWICE_EVERY == 0) {
        uint64_t hash = world->hash;
        struct tally before = board->tally;

        (void)world_run(world, seed, choice->kind);
        board->tally = before;
        board->twice++;
        board->unlike += world->hash != hash;
    }
}

static _Noreturn void work(struct board *board, const struct choice *choice)
{
    struct world *world = world_new(&board->tally, NULL);
    struct rlimit none = { 0, 0 };

    (void)setrlimit(RLIMIT_CORE, &none);
    while (board->next <= choice->last && !(choice->stop && board->failed > 0)) {
        run_seed(world, board, choice);
        board->next += choice->jobs;
    }
    world_free(world);
    board->done = true;
    _exit(EXIT_SUCCESS);
}

static pid_t start(struct board *board, const struct choice *choice)
{
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    if (child == 0)
        work(board, choice);
    if (child < 0)
        abort();
    return child;
}

static void run_all(struct board *boards, const struct choice *choice)
{
    pid_t workers[JOBS_MAX];
    unsigned running = choice->jobs;

    for (unsigned i = 0; i < choice->jobs; i++) {
        boards[i].next = choice->first + i;
        workers[i] = start(&boards[i], choice);
    }
    while (running > 0) {
        pid_t ended = wait(NULL);

        for (unsigned i = 0; i < choice->jobs; i++) {
            if (workers[i] != ended)
                continue;
            if (!boards[i].done) {
                fail(&boards[i], boards[i].next);
                boards[i].next += choice->jobs;
                workers[i] = start(&boards[i], choice);
            } else {
                running--;
            }
        }
    }
}

/* --- the summary --- */

static void add(struct board *sum, const struct board *board)
{
    const uint64_t *from = (const uint64_t *)&board->tally;
    uint64_t *to = (uint64_t *)&sum->tally;

    for (size_t i = 0; i < sizeof(sum->tally) / sizeof(*to); i++)
        to[i] += from[i];
    sum->failed += board->failed;
    sum->twice += board->twice;
    sum->unlike += board->unlike;
}

static unsigned print_counts(const struct tally *tally)
{
    unsigned unseen = 0;

    (void)printf("seeds:");
    for (int i = 0; i < KINDS; i++)
        (void)printf(" %s %llu", report_kind((enum kind)i), (unsigned long long)tally->kinds[i]);
    (void)printf("\ngrants: %llu, requests: %llu, events: %llu\nfaults:\n",
                 (unsigned long long)tally->grants, (unsigned long long)tally->requests,
                 (unsigned long long)tally->events);
    for (int i = 0; i < FAULTS; i++) {
        (void)printf("  %10llu  %s\n", (unsigned long long)tally->faults[i],
                     report_fault((enum fault)i));
        unseen += tally->faults[i] == 0;
    }
    (void)printf("sometimes:\n");
    for (int i = 0; i < POINTS; i++) {
        (void)printf("  %10llu  %s\n", (unsigned long long)tally->points[i],
                     report_point((enum point)i));
        unseen += tally->points[i] == 0;
    }
    return unseen;
}

static int summarise(const struct board *boards, const struct choice *choice)
{
    static struct board sum;
    uint64_t seeds = choice->last - choice->first + 1;
    bool full = seeds >= SEEDS_FULL && choice->kind < 0 && !choice->stop;
    uint64_t failed;
    unsigned unseen;

    for (unsigned i = 0; i < choice->jobs; i++)
        add(&sum, &boards[i]);
    unseen = print_counts(&sum.tally);
    (void)printf("run twice: %llu, with another trace: %llu\n", (unsigned long long)sum.twice,
                 (unsigned long long)sum.unlike);
    if (full && unseen > 0)
        (void)printf("FAILED: %u faults or points were never seen\n", unseen);
    for (unsigned i = 0, told = 0; i < choice->jobs; i++) {
        for (unsigned j = 0; j < boards[i].failed && j < STORIES_MAX && told < STORIES_MAX; j++) {
            tell_story(choice, boards[i].failures[j]);
            told++;
        }
    }
    failed = sum.failed + sum.unlike + (full ? unseen : 0);
    (void)printf(
        "%llu passed, %llu failed\n",
        (unsigned long long)(sum.tally.seeds > sum.failed ? sum.tally.seeds - sum.failed : 0),
        (unsigned long long)failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* --- arguments --- */

static _Noreturn void usage(void)
{
    (void)fprintf(stderr, "usage: simulation [--seeds A-B] [--recipe kernel|queue|lease|connection|"
                          "quorum3|quorum5] [--jobs N] [--trace] [--stop]\n");
    exit(EXIT_FAILURE);
}

static uint64_t number(const char *text, char **out_end)
{
    uint64_t value = strtoull(text, out_end, 10);

    if (*out_end == text)
        usage();
    return value;
}

static void parse_seeds(const char *text, struct choice *choice)
{
    char *end;

    choice->first = number(text, &end);
    choice->last = choice->first;
    if (*end == '-')
        choice->last = number(end + 1, &end);
    if (*end || choice->last < choice->first)
        usage();
}

static int parse_kind(const char *text)
{
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(text, report_kind((enum kind)i)) == 0)
            return i;
    }
    usage();
}

static void parse(int argument_count, char **arguments, struct choice *choice)
{
    static const struct option options[] = {
        { "seeds", required_argument, NULL, 's' }, { "recipe", required_argument, NULL, 'r' },
        { "jobs", required_argument, NULL, 'j' },  { "trace", no_argument, NULL, 't' },
        { "stop", no_argument, NULL, 'x' },        { NULL, 0, NULL, 0 },
    };
    char *end;
    int option;

    while ((option = getopt_long(argument_count, arguments, "", options, NULL)) != -1) {
        if (option == 's')
            parse_seeds(optarg, choice);
        else if (option == 'r')
            choice->kind = parse_kind(optarg);
        else if (option == 'j')
            choice->jobs = (unsigned)number(optarg, &end);
        else if (option == 't')
            choice->trace = true;
        else if (option == 'x')
            choice->stop = true;
        else
            usage();
    }
    if (choice->jobs < 1 || choice->jobs > JOBS_MAX || optind < argument_count)
        usage();
}

int main(int argument_count, char **arguments)
{
    struct choice choice = { .first = 1, .last = 20000, .kind = -1, .jobs = 2 };
    struct board *boards;

    parse(argument_count, arguments, &choice);
    boards = mmap(NULL, sizeof(*boards) * JOBS_MAX, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (boards == MAP_FAILED)
        abort();
    if (choice.trace) { /* the whole of one story, as it happens */
        int name;
        run_traced(&choice, choice.first, stdout, &name);
    }
    if (choice.last - choice.first + 1 < choice.jobs)
        choice.jobs = (unsigned)(choice.last - choice.first + 1);
    run_all(boards, &choice);
    return summarise(boards, &choice);
}
