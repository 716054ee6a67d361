/* player.c: takes a lock again and again beside other programs, and counts.
 *
 * player URL NAME DIRECTORY SECONDS [READERS]
 *
 * Whoever holds the lock makes the file DIRECTORY/inside, adds one to the number in
 * DIRECTORY/count, and removes the file again; if it is there already, two are inside. Prints how
 * often it was in, and so often did it add one.
 *
 * With READERS, so many of a hundred turns are shared: who reads looks that the file is not there
 * and that the number stays as it is. It makes DIRECTORY/ready.PID when it is connected, begins
 * when DIRECTORY/go is there, and writes down what happens in DIRECTORY/turns, at the end of that
 * file and in one piece: "enter" when the lock is there and "leave" before it is given back, then
 * w or r, the fence, and who it is. */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "holdfast/holdfast.h"

#define LEASE_MS   2000
#define NS_IN      300000   /* so long inside */
#define NS_OUT     10000000 /* at most so long outside */
#define PATH_BYTES 4096

struct player {
    hf_client *client;
    const char *name;
    const char *directory;
    bool takes_notes;
    long readers; /* of a hundred turns */
    uint64_t fence;
    unsigned long times;
};

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "player: %s: %s\n", what, why);
    exit(1);
}

static void rest(long ns)
{
    struct timespec pause = { .tv_nsec = ns };

    nanosleep(&pause, NULL);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void name_file(const struct player *player, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", player->directory, name);
}

static long read_count(const struct player *player)
{
    char path[PATH_BYTES];
    long number = 0;
    FILE *file;

    name_file(player, "count", path);
    file = fopen(path, "r");
    if (!file || fscanf(file, "%ld", &number) != 1)
        fail(path, "no number");
    fclose(file);
    return number;
}

static void write_count(const struct player *player, long number)
{
    char path[PATH_BYTES];
    FILE *file;

    name_file(player, "count", path);
    file = fopen(path, "w");
    if (!file || fprintf(file, "%ld\n", number) < 0 || fclose(file) != 0)
        fail(path, strerror(errno));
}

static void add_one(const struct player *player)
{
    char inside[PATH_BYTES];
    long number;
    int marker;

    name_file(player, "inside", inside);
    marker = open(inside, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (marker < 0)
        fail("somebody is inside", strerror(errno));
    close(marker);
    number = read_count(player);
    rest(NS_IN);
    write_count(player, number + 1);
    if (unlink(inside) < 0)
        fail(inside, strerror(errno));
}

static void look(const struct player *player)
{
    char inside[PATH_BYTES];
    long number = read_count(player);

    name_file(player, "inside", inside);
    rest(NS_IN);
    if (access(inside, F_OK) == 0)
        fail("reading", "a writer is inside");
    if (read_count(player) != number)
        fail("reading", "somebody wrote");
}

static void take_note(const struct player *player, const char *what, char mode)
{
    char path[PATH_BYTES];
    char line[128];
    int bytes = snprintf(line, sizeof(line), "%s %c %llu ours-%d\n", what, mode,
                         (unsigned long long)player->fence, (int)getpid());
    int file;

    if (!player->takes_notes)
        return;
    name_file(player, "turns", path);
    file = open(path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)bytes) != bytes)
        fail(path, strerror(errno));
    close(file);
}

static void take_turn(struct player *player)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    bool reads = random() % 100 < player->readers;
    hf_grant *grant = NULL;

    options.lease_ms = LEASE_MS;
    options.mode = reads ? HF_SHARED : HF_EXCLUSIVE;
    if (hf_acquire(player->client, player->name, &options, &grant) < 0)
        fail("acquire", hf_client_error(player->client));
    if (hf_grant_fence(grant) <= player->fence)
        fail("acquire", "the fence did not rise");
    player->fence = hf_grant_fence(grant);
    take_note(player, "enter", reads ? 'r' : 'w');
    if (reads)
        look(player);
    else
        add_one(player);
    take_note(player, "leave", reads ? 'r' : 'w');
    if (hf_release(grant) < 0)
        fail("release", hf_client_error(player->client));
    player->times += !reads;
}

static void wait_for_all(const struct player *player)
{
    char path[PATH_BYTES];
    char name[32];
    int file;

    if (!player->takes_notes)
        return;
    snprintf(name, sizeof(name), "ready.%d", (int)getpid());
    name_file(player, name, path);
    file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        fail(path, strerror(errno));
    close(file);
    name_file(player, "go", path);
    while (access(path, F_OK) < 0)
        rest(NS_IN);
}

int main(int count, char **arguments)
{
    struct player player = { 0 };
    double end;

    if (count != 5 && count != 6)
        fail("usage", "player URL NAME DIRECTORY SECONDS [READERS]");
    player.name = arguments[2];
    player.directory = arguments[3];
    player.takes_notes = count == 6;
    player.readers = count == 6 ? strtol(arguments[5], NULL, 10) : 0;
    if (hf_open(arguments[1], NULL, &player.client) < 0)
        fail("open", hf_client_error(NULL));
    srandom((unsigned)getpid());
    wait_for_all(&player);

    end = seconds() + strtod(arguments[4], NULL);
    while (seconds() < end) {
        take_turn(&player);
        rest(random() % NS_OUT);
    }
    hf_close(player.client);
    printf("%lu\n", player.times);
    return 0;
}
