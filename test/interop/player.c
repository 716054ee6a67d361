/* player.c: takes a lock of the recipe `set` again and again beside other programs, and counts.
 *
 * player URL NAME DIRECTORY SECONDS
 *
 * Whoever holds the lock makes the file DIRECTORY/inside, adds one to the number in
 * DIRECTORY/count, and removes the file again; if it is there already, two are inside. Prints how
 * often it was in. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "holdfast/holdfast.h"

#define LEASE_MS 2000
#define NS_IN    300000   /* so long inside */
#define NS_OUT   10000000 /* at most so long outside */

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

static void add_one(const char *directory)
{
    char inside[4096];
    char count[4096];
    long number = 0;
    int marker;
    FILE *file;

    snprintf(inside, sizeof inside, "%s/inside", directory);
    snprintf(count, sizeof count, "%s/count", directory);
    marker = open(inside, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (marker < 0)
        fail("somebody is inside", strerror(errno));
    close(marker);

    file = fopen(count, "r");
    if (!file || fscanf(file, "%ld", &number) != 1)
        fail(count, "no number");
    fclose(file);
    rest(NS_IN);
    file = fopen(count, "w");
    if (!file || fprintf(file, "%ld\n", number + 1) < 0 || fclose(file) != 0)
        fail(count, strerror(errno));
    if (unlink(inside) < 0)
        fail(inside, strerror(errno));
}

int main(int count, char **arguments)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *client = NULL;
    unsigned long times = 0;
    uint64_t fence = 0;
    double end;

    if (count != 5)
        fail("usage", "player URL NAME DIRECTORY SECONDS");
    end = seconds() + strtod(arguments[4], NULL);
    if (hf_open(arguments[1], NULL, &client) < 0)
        fail("open", hf_client_error(NULL));
    options.lease_ms = LEASE_MS;
    srandom((unsigned)getpid());

    while (seconds() < end) {
        hf_grant *grant = NULL;

        if (hf_acquire(client, arguments[2], &options, &grant) < 0)
            fail("acquire", hf_client_error(client));
        if (hf_grant_fence(grant) <= fence)
            fail("acquire", "the fence did not rise");
        fence = hf_grant_fence(grant);
        add_one(arguments[3]);
        if (hf_release(grant) < 0)
            fail("release", hf_client_error(client));
        times++;
        rest(random() % NS_OUT);
    }
    hf_close(client);
    printf("%lu\n", times);
    return 0;
}
