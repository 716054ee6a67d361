/* conformance.c: does this recipe keep the contract of holdfast.h?
 *
 * The list is in list.h; each case is executed as a process of its own (this program, again), so
 * that a crash, a hang or a leak is the failure of that case alone. Several run at a time, each
 * with names of its own in the same store, or without --url in a store of its own. A line is
 * printed for each: passed, refused with the documented code, or FAILED with all that the case
 * said.
 *
 * A case that does not end within the limit is killed with everything it started, by its process
 * group. The exit status of a case: 0 passed, REFUSED_BASE + n refused with HF_E... = -n. */

#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"
#include "world.h"

#define JOBS_MAX     64
#define LIMIT_S      120 /* for one case; none takes more than a few seconds */
#define REFUSED_BASE 100
#define REFUSED_MAX  119
#define LOOK_NS      100000000

#define ENTRY(sentence) { #sentence, case_##sentence },
static const struct {
    const char *name;
    void (*run)(struct world *world);
} cases[] = { CASES(ENTRY) };

#define CASE_COUNT (sizeof cases / sizeof cases[0])

struct settings {
    const char *program;
    const char *url;
    const char *directory; /* each case has one of its own in here, instead of the URL */
    const char *glob;
    const char *run;    /* inside a case: its name ... */
    const char *prefix; /* ... and the prefix of its lock names */
    int64_t lease_ms;
    bool is_distant; /* everything on the way there comes later */
    size_t jobs;
    uint64_t limit_s; /* for one case */
    int peer_socket;  /* inside a peer, else -1 */
    bool list;
};

struct job {
    pid_t pid; /* 0: free */
    size_t index;
    int output; /* what it prints */
    uint64_t started_ns;
    uint64_t limit_s;
    bool over_limit;
};

struct tally {
    size_t passed;
    size_t refused;
    size_t failed;
};

static int run_case(const struct settings *settings)
{
    struct world world = { .program = settings->program,
                           .url = settings->url,
                           .prefix = settings->prefix,
                           .lease_ms = settings->lease_ms,
                           .is_distant = settings->is_distant };

    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (strcmp(cases[i].name, settings->run) != 0)
            continue;

        world_begin(&world);
        cases[i].run(&world);
        world_end(&world);
        return world.refused ? REFUSED_BASE - world.refused : 0;
    }
    fprintf(stderr, "no case is called '%s'\n", settings->run);
    return 2;
}

static void execute_case(const struct settings *settings, size_t index)
{
    const char *url = settings->url;
    char own_url[700];
    char lease_text[32];
    char prefix[64];
    sigset_t none;

    if (!url) {
        snprintf(own_url, sizeof own_url, "file:%s/%zu", settings->directory, index);
        CHECK(mkdir(own_url + strlen("file:"), 0700) == 0);
        url = own_url;
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(lease_text, sizeof lease_text, "%lld", (long long)settings->lease_ms);
    snprintf(prefix, sizeof prefix, "t%llx-%zu-", (unsigned long long)world_now_ns(), index);
    execl(settings->program, settings->program, "--url", url, "--lease", lease_text, "--run",
          cases[index].name, "--prefix", prefix, settings->is_distant ? "--distant" : (char *)NULL,
          (char *)NULL);
    _exit(127);
}

static void start_job(struct job *job, const struct settings *settings, size_t index)
{
    *job =
        (struct job){ .index = index, .started_ns = world_now_ns(), .limit_s = settings->limit_s };
    job->output = memfd_create("output", MFD_CLOEXEC);
    CHECK(job->output >= 0);
    fflush(stdout);

    job->pid = fork();
    CHECK(job->pid >= 0);
    if (job->pid == 0) {
        setpgid(0, 0);
        dup2(job->output, STDOUT_FILENO);
        dup2(job->output, STDERR_FILENO);
        execute_case(settings, index);
    }
    setpgid(job->pid, job->pid); /* whoever comes first */
}

static void print_output(const struct job *job)
{
    char line[4096];
    FILE *file = fdopen(dup(job->output), "r");

    CHECK(file);
    rewind(file);
    while (fgets(line, sizeof line, file))
        printf("    %s", line);
    fclose(file);
}

static void print_failure(const struct job *job, int how)
{
    if (job->over_limit)
        printf("    did not end within %llu s\n", (unsigned long long)job->limit_s);
    else if (WIFSIGNALED(how))
        printf("    ended by signal %d (%s)\n", WTERMSIG(how), strsignal(WTERMSIG(how)));
    else
        printf("    exit status %d\n", WEXITSTATUS(how));
    print_output(job);
}

static void end_job(struct job *job, struct tally *tally, const struct hf_recipe_info *recipe)
{
    long long took_ms = (long long)((world_now_ns() - job->started_ns) / NS_PER_MS);
    char verdict[64] = "FAILED";
    int how = 0;

    kill(-job->pid, SIGKILL); /* whatever it left; before its number can be anybody else's */
    CHECK(waitpid(job->pid, &how, 0) == job->pid);

    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) {
        snprintf(verdict, sizeof verdict, "passed");
        tally->passed++;
    } else if (WIFEXITED(how) && WEXITSTATUS(how) > REFUSED_BASE &&
               WEXITSTATUS(how) <= REFUSED_MAX) {
        snprintf(verdict, sizeof verdict, "refused(%s)",
                 world_status_name(REFUSED_BASE - WEXITSTATUS(how)));
        tally->refused++;
    } else {
        tally->failed++;
    }
    printf("%s/%s  %-24s %6lld ms  %s\n", recipe->engine, recipe->recipe, verdict, took_ms,
           cases[job->index].name);
    if (strcmp(verdict, "FAILED") == 0)
        print_failure(job, how);
    close(job->output);
    job->pid = 0;
}

/* Ended by itself, or told to end because its time is over. */
static bool is_over(struct job *job)
{
    siginfo_t info = { 0 };

    if (world_now_ns() - job->started_ns > job->limit_s * 1000 * NS_PER_MS && !job->over_limit) {
        job->over_limit = true;
        kill(-job->pid, SIGKILL);
    }
    return waitid(P_PID, (id_t)job->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == job->pid;
}

static size_t next_wanted(const struct settings *settings, size_t index)
{
    while (index < CASE_COUNT && fnmatch(settings->glob, cases[index].name, 0) != 0)
        index++;
    return index;
}

static struct tally run_all(const struct settings *settings)
{
    struct hf_recipe_info recipe = world_recipe(settings->url ? settings->url : "file:");
    struct timespec look = { .tv_nsec = LOOK_NS };
    struct job jobs[JOBS_MAX] = { 0 };
    struct tally tally = { 0 };
    size_t next = next_wanted(settings, 0);
    size_t running = 0;
    sigset_t children;

    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);

    while (running > 0 || next < CASE_COUNT) {
        for (size_t i = 0; i < settings->jobs; i++) {
            if (jobs[i].pid && is_over(&jobs[i])) {
                end_job(&jobs[i], &tally, &recipe);
                running--;
            }
            if (!jobs[i].pid && next < CASE_COUNT) {
                start_job(&jobs[i], settings, next);
                next = next_wanted(settings, next + 1);
                running++;
            }
        }
        sigtimedwait(&children, NULL, &look);
    }
    return tally;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

/* Without a URL: the embedded engine, and a new directory for each case, where nobody else makes
 * a noise that might wake what should have been woken by itself. */
static struct tally run_in_new_directory(struct settings *settings)
{
    const char *parent = getenv("TMPDIR");
    char directory[512];
    struct tally tally;

    snprintf(directory, sizeof directory, "%s/conformance-XXXXXX", parent ? parent : "/tmp");
    CHECK(mkdtemp(directory));
    settings->directory = directory;
    tally = run_all(settings);
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return tally;
}

static int list_cases(const struct settings *settings)
{
    for (size_t i = next_wanted(settings, 0); i < CASE_COUNT; i = next_wanted(settings, i + 1))
        printf("%s\n", cases[i].name);
    return 0;
}

static bool parse(int count, char **arguments, struct settings *settings)
{
    static const struct option long_options[] = {
        { "url", required_argument, NULL, 'u' },
        { "case", required_argument, NULL, 'c' },
        { "jobs", required_argument, NULL, 'j' },
        { "lease", required_argument, NULL, 'l' },
        { "run", required_argument, NULL, 'r' },
        { "prefix", required_argument, NULL, 'p' },
        { "peer", required_argument, NULL, 's' },
        { "list", no_argument, NULL, 'L' },
        { "limit", required_argument, NULL, 't' },
        { "distant", no_argument, NULL, 'd' },
        { NULL, 0, NULL, 0 },
    };
    int letter;

    while ((letter = getopt_long(count, arguments, "", long_options, NULL)) != -1) {
        if (letter == 'u')
            settings->url = optarg;
        else if (letter == 'c')
            settings->glob = optarg;
        else if (letter == 'j')
            settings->jobs = strtoul(optarg, NULL, 10);
        else if (letter == 'l')
            settings->lease_ms = strtol(optarg, NULL, 10);
        else if (letter == 't')
            settings->limit_s = strtoul(optarg, NULL, 10);
        else if (letter == 'r')
            settings->run = optarg;
        else if (letter == 'p')
            settings->prefix = optarg;
        else if (letter == 's')
            settings->peer_socket = (int)strtol(optarg, NULL, 10);
        else if (letter == 'L')
            settings->list = true;
        else if (letter == 'd')
            settings->is_distant = true;
        else
            return false;
    }
    return optind == count && settings->jobs > 0 && settings->jobs <= JOBS_MAX;
}

int main(int count, char **arguments)
{
    char program[4096] = "";
    struct settings settings = { .program = program,
                                 .glob = "*",
                                 .prefix = "t-",
                                 .lease_ms = 1000,
                                 .jobs = 8,
                                 .limit_s = LIMIT_S,
                                 .peer_socket = -1 };
    struct tally tally;

    if (!parse(count, arguments, &settings)) {
        fprintf(stderr,
                "usage: %s [--url URL] [--case GLOB] [--jobs N] [--lease MS] [--limit SECONDS] "
                "[--distant] [--list]\n",
                arguments[0]);
        return 2;
    }
    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    unsetenv("HOLDFAST_URL");
    if (settings.peer_socket >= 0)
        return peer_main(settings.url, settings.lease_ms, settings.peer_socket);
    if (settings.list)
        return list_cases(&settings);
    if (settings.run)
        return run_case(&settings);

    tally = settings.url ? run_all(&settings) : run_in_new_directory(&settings);
    printf("%zu cases: %zu passed, %zu refused as documented, %zu failed\n",
           tally.passed + tally.refused + tally.failed, tally.passed, tally.refused, tally.failed);
    printf("%zu passed, %zu failed\n", tally.passed + tally.refused, tally.failed);
    return tally.failed == 0 && tally.passed > 0 ? 0 : 1;
}
