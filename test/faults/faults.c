/* faults.c: does the lock keep its promises when processes die, stop and crowd?
 *
 *     faults [--url URL] [--lease MS] [--case GLOB] [--long] [--list] [--orders FD [--servers N]]
 *
 * Each case is played in a process of its own, one after the other, in a new directory unless a
 * URL is given. It is judged by the log of what its processes did, not by how long they took.
 * --long plays the same cases for longer. --orders: the cases on a server instead, or on so many
 * together, whose director sends orders to that descriptor. --lease: a short one that they keep. */

#include "faults.h"

#include <fnmatch.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAULT_ENTRY(sentence)    { #sentence, fault_##sentence, 0 },
#define STORE_ENTRY(sentence)    { #sentence, fault_##sentence, 1 },
#define QUORUM_ENTRY(sentence)   { #sentence, fault_##sentence, QUORUM_SERVERS },
#define ENSEMBLE_ENTRY(sentence) { #sentence, fault_##sentence, ENSEMBLE_SERVERS },

static const struct {
    const char *name;
    void (*play)(struct scene *scene);
    int servers; /* that it needs, and somebody who looks after them */
} faults[] = { FAULTS(FAULT_ENTRY) STORE_FAULTS(STORE_ENTRY) QUORUM_FAULTS(QUORUM_ENTRY)
                   ENSEMBLE_FAULTS(ENSEMBLE_ENTRY) };

#define FAULT_COUNT (sizeof faults / sizeof faults[0])

struct settings {
    const char *url;
    const char *glob;
    int64_t lease_ms;
    int orders;  /* -1: nobody takes them */
    int servers; /* that orders are taken for */
    bool is_long;
    bool list;
};

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void play(const struct settings *settings, size_t index, const char *directory)
{
    char url[600];
    char prefix[64];
    struct scene scene = { .is_long = settings->is_long, .orders = settings->orders };

    snprintf(url, sizeof url, "file:%s", directory);
    snprintf(prefix, sizeof prefix, "f%llx-%zu-", (unsigned long long)world_now_ns(), index);
    scene.world.url = settings->url ? settings->url : url;
    scene.world.prefix = prefix;
    scene.world.lease_ms = settings->lease_ms;
    faults[index].play(&scene);
}

static bool run(const struct settings *settings, size_t index)
{
    const char *parent = getenv("TMPDIR");
    uint64_t started_ns = world_now_ns();
    char directory[512];
    bool passed;
    pid_t pid;
    int how = 0;

    snprintf(directory, sizeof directory, "%s/faults-XXXXXX", parent ? parent : "/tmp");
    CHECK(mkdtemp(directory));
    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        play(settings, index, directory);
        exit(0); /* so that a sanitizer has its say */
    }
    setpgid(pid, pid);
    CHECK(waitpid(pid, &how, 0) == pid);
    passed = WIFEXITED(how) && WEXITSTATUS(how) == 0;
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    printf("%s %7llu ms  %s\n", passed ? "passed" : "FAILED",
           (unsigned long long)((world_now_ns() - started_ns) / NS_PER_MS), faults[index].name);
    if (!passed && WIFSIGNALED(how))
        printf("    ended by signal %d\n", WTERMSIG(how));
    fflush(stdout);
    return passed;
}

static bool parse(int count, char **arguments, struct settings *settings)
{
    static const struct option long_options[] = {
        { "url", required_argument, NULL, 'u' },     { "case", required_argument, NULL, 'c' },
        { "lease", required_argument, NULL, 'm' },   { "long", no_argument, NULL, 'l' },
        { "list", no_argument, NULL, 'L' },          { "orders", required_argument, NULL, 'o' },
        { "servers", required_argument, NULL, 's' }, { NULL, 0, NULL, 0 },
    };
    int letter;

    while ((letter = getopt_long(count, arguments, "", long_options, NULL)) != -1) {
        if (letter == 'u')
            settings->url = optarg;
        else if (letter == 'c')
            settings->glob = optarg;
        else if (letter == 'm')
            settings->lease_ms = strtol(optarg, NULL, 10);
        else if (letter == 'l')
            settings->is_long = true;
        else if (letter == 'L')
            settings->list = true;
        else if (letter == 'o')
            settings->orders = (int)strtol(optarg, NULL, 10);
        else if (letter == 's')
            settings->servers = (int)strtol(optarg, NULL, 10);
        else
            return false;
    }
    if (settings->orders >= 0 && settings->servers == 0)
        settings->servers = 1;
    return optind == count;
}

int main(int count, char **arguments)
{
    struct settings settings = { .glob = "*", .lease_ms = 1000, .orders = -1 };
    size_t passed = 0;
    size_t failed = 0;

    if (!parse(count, arguments, &settings)) {
        fprintf(stderr,
                "usage: %s [--url URL] [--lease MS] [--case GLOB] [--long] [--list] [--orders FD"
                " [--servers N]]\n",
                arguments[0]);
        return 2;
    }
    unsetenv("HOLDFAST_URL");
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        if (fnmatch(settings.glob, faults[i].name, 0) != 0 || faults[i].servers != settings.servers)
            continue;
        if (settings.list)
            printf("%s\n", faults[i].name);
        else if (run(&settings, i))
            passed++;
        else
            failed++;
    }
    if (settings.list)
        return 0;
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
