/* peer.c: another process with a client of its own, which does what it is told.
 *
 * The case writes a call, the peer does it and writes an answer; each is one packet. When the case
 * closes the socket, or dies, the peer closes its client and exits, so none outlives its case. A
 * peer that ends by itself, or with a complaint (of a sanitizer, say), fails the case. */

#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct held {
    hf_client *client;
    hf_grant *grants[PEER_SLOTS];
    hf_claim *claims[PEER_SLOTS];
};

struct peer peer_start(const struct world *world)
{
    int sockets[2];
    char lease_text[32];
    char socket_text[32];
    pid_t pid;

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    snprintf(lease_text, sizeof lease_text, "%lld", (long long)world->lease_ms);
    snprintf(socket_text, sizeof socket_text, "%d", sockets[1]);

    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fcntl(sockets[1], F_SETFD, 0);
        execl(world->program, world->program, "--url", world->url, "--lease", lease_text, "--peer",
              socket_text, (char *)NULL);
        _exit(127);
    }
    close(sockets[1]);
    return (struct peer){ .pid = pid, .socket = sockets[0] };
}

static int reap(struct peer *peer)
{
    int how = 0;

    close(peer->socket);
    CHECK(waitpid(peer->pid, &how, 0) == peer->pid);
    peer->socket = -1;
    peer->pid = -1;
    return how;
}

void peer_end(struct peer *peer)
{
    int how = reap(peer);

    CHECK(WIFEXITED(how));
    CHECK_NUMBER(0, WEXITSTATUS(how));
}

void peer_kill(struct peer *peer)
{
    int how;

    peer_signal(peer, SIGKILL);
    how = reap(peer);
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

void peer_signal(const struct peer *peer, int signal_number)
{
    CHECK(peer->pid > 0);
    CHECK(kill(peer->pid, signal_number) == 0);
}

void peer_stop(const struct peer *peer)
{
    int how = 0;

    peer_signal(peer, SIGSTOP);
    CHECK(waitpid(peer->pid, &how, WUNTRACED) == peer->pid);
    CHECK(WIFSTOPPED(how));
}

void peer_ask(const struct peer *peer, const struct peer_call *call)
{
    CHECK(send(peer->socket, call, sizeof *call, MSG_NOSIGNAL) == sizeof *call);
}

bool peer_answered(const struct peer *peer)
{
    return world_fd_readable(peer->socket);
}

struct peer_answer peer_hear(const struct peer *peer)
{
    struct peer_answer answer;
    struct pollfd descriptor = { .fd = peer->socket, .events = POLLIN };

    CHECK_NUMBER(1, poll(&descriptor, 1, LIMIT_MS));
    CHECK(recv(peer->socket, &answer, sizeof answer, 0) == sizeof answer);
    return answer;
}

struct peer_answer peer_do(const struct peer *peer, enum peer_verb verb, int slot, int64_t number)
{
    struct peer_call call = { .verb = verb, .slot = slot, .number = number };

    peer_ask(peer, &call);
    return peer_hear(peer);
}

static void ask_with_options(const struct peer *peer, enum peer_verb verb, int slot,
                             const char *name, const struct hf_acquire_options *options)
{
    struct peer_call call = { .verb = verb, .slot = slot };

    CHECK(strlen(name) < sizeof call.name);
    snprintf(call.name, sizeof call.name, "%s", name);
    hf_acquire_options_init(&call.options);
    if (options) {
        call.options = *options;
        snprintf(call.purpose, sizeof call.purpose, "%s", options->purpose ? options->purpose : "");
        snprintf(call.owner_name, sizeof call.owner_name, "%s",
                 options->owner_name ? options->owner_name : "");
    }
    peer_ask(peer, &call);
}

void peer_ask_acquire(const struct peer *peer, int slot, const char *name,
                      const struct hf_acquire_options *options)
{
    ask_with_options(peer, PEER_ACQUIRE, slot, name, options);
}

uint64_t peer_acquire(const struct peer *peer, int slot, const char *name,
                      const struct hf_acquire_options *options)
{
    struct peer_answer answer;

    peer_ask_acquire(peer, slot, name, options);
    answer = peer_hear(peer);
    CHECK_STATUS(HF_OK, answer.status);
    return answer.fence;
}

int peer_try(const struct peer *peer, int slot, const char *name, int mode)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = 0;
    options.mode = mode;
    peer_ask_acquire(peer, slot, name, &options);
    return peer_hear(peer).status;
}

void peer_claim(const struct peer *peer, int slot, const char *name,
                const struct hf_acquire_options *options)
{
    ask_with_options(peer, PEER_CLAIM, slot, name, options);
    CHECK_STATUS(HF_OK, peer_hear(peer).status);
}

int peer_release(const struct peer *peer, int slot)
{
    return peer_do(peer, PEER_RELEASE, slot, 0).status;
}

/* From here on: inside the peer. */

static void answer_event(struct held *held, int64_t wait_ms, struct peer_answer *answer)
{
    struct hf_event event = { .struct_size = sizeof event };
    struct pollfd descriptor = { .fd = hf_client_event_fd(held->client), .events = POLLIN };

    poll(&descriptor, 1, (int)wait_ms);
    if (hf_client_next_event(held->client, &event) != 1)
        return;

    answer->number = event.kind;
    answer->status = event.status;
    snprintf(answer->text, sizeof answer->text, "%s", event.cause ? event.cause : "");
}

/* A child that lives until its case does no longer; it may stand by for the client. */
static void answer_fork(struct held *held, bool stands_by, struct peer_answer *answer)
{
    int pipe_ends[2];
    int status = HF_OK;
    pid_t pid;

    CHECK(pipe2(pipe_ends, O_CLOEXEC) == 0);
    pid = world_fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, "hf-test-child");
        status = stands_by ? hf_client_stand_by(held->client) : HF_OK;
        CHECK(write(pipe_ends[1], &status, sizeof status) == sizeof status);
        pause(); /* the case ends it, by its process id */
        _exit(0);
    }
    CHECK(read(pipe_ends[0], &status, sizeof status) == sizeof status);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    answer->number = pid;
    answer->status = status;
}

static void answer_acquire(struct held *held, struct peer_call *call, struct peer_answer *answer)
{
    call->options.purpose = call->purpose[0] ? call->purpose : NULL;
    call->options.owner_name = call->owner_name[0] ? call->owner_name : NULL;

    if (call->verb == PEER_CLAIM)
        answer->status =
            hf_claim_start(held->client, call->name, &call->options, &held->claims[call->slot]);
    else
        answer->status =
            hf_acquire(held->client, call->name, &call->options, &held->grants[call->slot]);
    if (answer->status < 0)
        snprintf(answer->text, sizeof answer->text, "%s", hf_client_error(held->client));
}

static void answer_call(struct held *held, struct peer_call *call, struct peer_answer *answer)
{
    hf_grant **grant = &held->grants[call->slot];
    hf_claim **claim = &held->claims[call->slot];

    switch (call->verb) {
    case PEER_ACQUIRE:
    case PEER_CLAIM:
        answer_acquire(held, call, answer);
        break;
    case PEER_RELEASE:
        answer->status = hf_release(*grant);
        *grant = NULL;
        break;
    case PEER_VALID:
        answer->number = hf_grant_valid(*grant);
        break;
    case PEER_FETCH:
        answer->status = hf_claim_wait(*claim, call->number, grant);
        break;
    case PEER_FREE_CLAIM:
        hf_claim_free(*claim);
        *claim = NULL;
        break;
    case PEER_EVENT:
        answer_event(held, call->number, answer);
        break;
    case PEER_FORK:
    case PEER_STAND_BY:
        answer_fork(held, call->verb == PEER_STAND_BY, answer);
        break;
    }
    if (*grant)
        answer->fence = hf_grant_fence(*grant);
}

static void let_go(struct held *held)
{
    for (int i = 0; i < PEER_SLOTS; i++) {
        if (held->grants[i] && hf_release(held->grants[i]) < 0)
            fprintf(stderr, "a peer's grant was lost at its end\n");
        hf_claim_free(held->claims[i]);
    }
    hf_close(held->client);
}

int peer_main(const char *url, int64_t lease_ms, int socket)
{
    struct world world = { .url = url, .lease_ms = lease_ms };
    struct held held = { .client = world_open(&world) };
    struct peer_call call;

    while (recv(socket, &call, sizeof call, 0) == sizeof call) {
        struct peer_answer answer = { 0 };

        CHECK(call.slot >= 0 && call.slot < PEER_SLOTS);
        answer.before_ns = world_now_ns();
        answer_call(&held, &call, &answer);
        answer.after_ns = world_now_ns();
        CHECK(send(socket, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer);
    }
    let_go(&held);
    return 0;
}
