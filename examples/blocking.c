/* blocking.c: how does a program take a lock, work, and notice that it lost it?
 *
 *     blocking NAME [SECONDS]
 *
 * The shortest honest program: open, acquire (waits for its turn), work in steps and look before
 * each step whether the lock is still ours, release. Where the locks live is not its business: the
 * URL comes from $HOLDFAST_URL, and without it the locks are this machine's.
 *
 * Exit status: 0 done; 1 the lock was not to be had; 2 it was lost on the way, and what was done
 * under it must be regarded as done by two. */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STEPS 10

static void work(double seconds)
{
    struct timespec pause = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

    nanosleep(&pause, NULL);
}

/* Returns false as soon as the lock is not ours any more. */
static bool work_under(const hf_grant *grant, double seconds)
{
    for (int step = 0; step < STEPS; step++) {
        if (!hf_grant_valid(grant))
            return false;
        work(seconds / STEPS);
    }
    return hf_grant_valid(grant);
}

int main(int argc, char **argv)
{
    hf_client *client = NULL;
    hf_grant *grant = NULL;
    bool done;
    int status;

    if (argc < 2) {
        fprintf(stderr, "usage: blocking NAME [SECONDS]\n");
        return 64;
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
    status = hf_open(NULL, NULL, &client);
    if (status < 0) {
        fprintf(stderr, "blocking: %s\n", hf_client_error(NULL));
        return 1;
    }

    status = hf_acquire(client, argv[1], NULL, &grant);
    if (status < 0) {
        fprintf(stderr, "blocking: %s\n", hf_client_error(client));
        hf_close(client);
        return 1;
    }

    printf("in %s fence %" PRIu64 "\n", argv[1], hf_grant_fence(grant));
    done = work_under(grant, argc > 2 ? strtod(argv[2], NULL) : 0.0);
    printf("out %s %s\n", argv[1], done ? "done" : "lost");

    status = hf_release(grant); /* HF_ELOST: somebody else may have been in */
    hf_close(client);
    return done && status == HF_OK ? 0 : 2;
}
