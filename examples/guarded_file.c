/* guarded_file.c: how does the guarded side keep out a holder that does not know that it is late?
 *
 *     guarded_file FILE
 *
 * No lock can do this alone: between a holder's look at its lock and its write, it may be stopped
 * for a minute. So the file remembers the greatest fence that ever wrote to it, and refuses a
 * smaller one. guarded_append() is the part to take over into a program of your own:
 *
 *     fence <  greatest seen   refused: somebody came after this writer
 *     fence == greatest seen   accepted: the same turn writes again
 *     fence >  greatest seen   accepted, and is the greatest from now on; an exclusive holder's
 *                              only: readers share a turn, and must not shut each other out
 *
 * Check, mark and write happen under flock(2), which makes them one step; it is held for
 * microseconds by whoever guards the file, and has nothing to do with who holds the lock. The mark
 * is durable before the text is written: a crash between the two refuses too much, never too
 * little.
 *
 * The program plays both sides: a first holder is overtaken while it sleeps, and writes all the
 * same. Exit status: 0 if exactly that write was refused. */
#include <errno.h>
#include <fcntl.h>
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define MARK_FORMAT "fence %020" PRIu64 "\n"
#define MARK_BYTES  27
#define LEASE_MS    200

/* The greatest fence that wrote so far; 0 for a new file. */
static bool read_mark(int fd, uint64_t *out_fence)
{
    char mark[MARK_BYTES + 1] = "";
    ssize_t bytes = pread(fd, mark, MARK_BYTES, 0);
    char *end = NULL;

    if (bytes == 0) {
        *out_fence = 0;
        return true;
    }
    if (bytes != MARK_BYTES || strncmp(mark, "fence ", 6) != 0) {
        errno = EBADMSG;
        return false;
    }
    *out_fence = strtoull(mark + 6, &end, 10);
    return *end == '\n';
}

static bool write_mark(int fd, uint64_t fence)
{
    char mark[MARK_BYTES + 1];

    snprintf(mark, sizeof(mark), MARK_FORMAT, fence);
    return pwrite(fd, mark, MARK_BYTES, 0) == MARK_BYTES && fdatasync(fd) == 0;
}

static bool append(int fd, const char *text)
{
    size_t bytes = strlen(text);

    return lseek(fd, 0, SEEK_END) >= MARK_BYTES && write(fd, text, bytes) == (ssize_t)bytes &&
           fdatasync(fd) == 0;
}

/* 1: written. 0: refused, the fence is old. -1: errno says why. */
static int guarded_append(int fd, uint64_t fence, int mode, const char *text)
{
    uint64_t greatest = 0;
    int result = -1;

    if (flock(fd, LOCK_EX) < 0)
        return -1;

    if (read_mark(fd, &greatest)) {
        bool raises = mode == HF_EXCLUSIVE && fence > greatest;

        if (fence < greatest)
            result = 0;
        else if (write_mark(fd, raises ? fence : greatest) && append(fd, text))
            result = 1;
    }

    flock(fd, LOCK_UN);
    return result;
}

static int write_as(const char *who, int fd, const hf_grant *grant, const char *text)
{
    int result = guarded_append(fd, hf_grant_fence(grant), hf_grant_mode(grant), text);
    const char *answers[] = { "failed", "refused", "accepted" };

    printf("%s writes with fence %" PRIu64 ": %s\n", who, hf_grant_fence(grant),
           answers[result + 1]);
    return result;
}

static void pause_longer_than_the_lease(const hf_grant *grant)
{
    struct timespec moment = { 0, 10000000 };

    while (hf_grant_valid(grant))
        nanosleep(&moment, NULL);
}

/* Returns whether the writes of the two went as they must. */
static bool play(hf_client *first, hf_client *second, int fd)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_grant *early = NULL;
    hf_grant *late = NULL;
    bool right;

    options.lease_ms = LEASE_MS;
    options.fixed_lease = true;
    if (hf_acquire(first, "guarded-file", &options, &early) < 0)
        return false;
    right = write_as("first", fd, early, "first, in time\n") == 1;

    pause_longer_than_the_lease(early);
    if (hf_acquire(second, "guarded-file", NULL, &late) < 0) {
        hf_release_start(early);
        return false;
    }
    right = write_as("second", fd, late, "second\n") == 1 && right;
    right = write_as("first", fd, early, "first, too late\n") == 0 && right;
    right = write_as("second", fd, late, "second again\n") == 1 && right;

    right = hf_release(early) == HF_ELOST && right;
    right = hf_release(late) == HF_OK && right;
    return right;
}

int main(int argc, char **argv)
{
    hf_client *first = NULL;
    hf_client *second = NULL;
    bool right = false;
    int fd;

    if (argc != 2) {
        fprintf(stderr, "usage: guarded_file FILE\n");
        return 64;
    }
    fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(argv[1]);
        return 1;
    }
    if (hf_open(NULL, NULL, &first) == HF_OK && hf_open(NULL, NULL, &second) == HF_OK)
        right = play(first, second, fd);
    if (!right)
        fprintf(stderr, "guarded_file: %s\n", hf_client_error(second));

    hf_close(second);
    hf_close(first);
    close(fd);
    return right ? 0 : 1;
}
