/* own_poll_loop.c: how does a program with an event loop of its own use locks, without threads?
 *
 *     own_poll_loop NAME
 *
 * caller_driven starts no thread: the loop asks the client what to poll and for how long, polls it
 * beside its own descriptors (here: the standard input), and steps the client. Every line that is
 * read is answered at once, also while the program waits for the lock. The end of the input gives
 * the lock back, or the place in the queue.
 *
 * A claim is the attempt without blocking: hf_claim_wait() with 0 only looks. */
#include <errno.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FDS_MAX 64

struct program {
    const char *name;
    hf_client *client;
    hf_claim *claim;
    hf_grant *grant; /* NULL: still waiting */
};

static int fail(const struct program *program, const char *what)
{
    fprintf(stderr, "own_poll_loop: %s: %s\n", what, hf_client_error(program->client));
    return 1;
}

/* Polls the input and the client, as long as the client allows, then steps the client. Returns
 * whether there is input, or < 0. */
static int poll_and_step(hf_client *client)
{
    struct pollfd fds[1 + FDS_MAX] = { { .fd = STDIN_FILENO, .events = POLLIN } };
    int64_t timeout_ms = hf_client_timeout_ms(client);
    int count = hf_client_pollfds(client, fds + 1, FDS_MAX);
    int status;

    if (count < 0 || count > FDS_MAX)
        return -1;
    if (poll(fds, 1 + (nfds_t)count, (int)timeout_ms) < 0 && errno != EINTR)
        return -1;

    status = hf_client_step(client);
    return status < 0 ? status : (fds[0].revents & (POLLIN | POLLHUP)) != 0;
}

/* Tells of the grant when it is there. */
static int look(struct program *program)
{
    int status;

    if (program->grant)
        return HF_OK;

    status = hf_claim_wait(program->claim, 0, &program->grant);
    if (status == HF_OK)
        printf("granted %s fence %" PRIu64 "\n", program->name, hf_grant_fence(program->grant));
    return status;
}

/* Returns whether there was a line. */
static bool answer_a_line(const struct program *program)
{
    char line[256];

    if (!fgets(line, sizeof(line), stdin))
        return false;

    line[strcspn(line, "\n")] = '\0';
    printf("%s while %s\n", line, program->grant ? "holding" : "waiting");
    return true;
}

static int run(struct program *program)
{
    bool open = true;

    while (open) {
        int input = poll_and_step(program->client);

        if (input < 0 || look(program) < 0)
            return fail(program, program->name);
        if (input)
            open = answer_a_line(program);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct program program = { .name = argc > 1 ? argv[1] : "example" };
    int status;

    options.caller_driven = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0); /* what stdio has read ahead, poll() does not see */
    if (hf_open(NULL, &options, &program.client) < 0)
        return fail(&program, "open");
    if (hf_claim_start(program.client, program.name, NULL, &program.claim) < 0)
        return fail(&program, program.name);

    status = run(&program);

    if (program.grant && hf_release(program.grant) < 0)
        status = fail(&program, "release");
    hf_claim_free(program.claim); /* takes us out of the queue if we still wait */
    hf_close(program.client);
    printf("closed\n");
    return status;
}
