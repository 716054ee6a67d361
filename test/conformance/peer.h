/* peer.h: another process with a client of its own, which does what it is told.
 *
 * A peer is this program, executed again. It takes one call at a time from a socket and answers it;
 * a call that blocks in the library blocks the peer, and its answer is read later. So a case can
 * stop, continue and kill it, and ask what it saw. It has PEER_SLOTS slots for grants and as many
 * for claims; a call names the slot. */
#ifndef CONFORMANCE_PEER_H
#define CONFORMANCE_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "world.h"

#define PEER_SLOTS 16

enum peer_verb {
    PEER_ACQUIRE,    /* name, options -> status, fence, error                */
    PEER_RELEASE,    /* slot -> status                                       */
    PEER_VALID,      /* slot -> number: 0 or 1                               */
    PEER_CLAIM,      /* name, options -> status                              */
    PEER_FETCH,      /* slot, number (ms) -> status, fence                   */
    PEER_FREE_CLAIM, /* slot                                                 */
    PEER_EVENT,      /* number (ms to wait) -> number: kind or 0, status     */
    PEER_FORK,       /* -> number: pid of a child that only lives            */
    PEER_STAND_BY,   /* -> number: pid of a child that stands by, and status */
};

struct peer_call {
    enum peer_verb verb;
    int slot;
    int64_t number;
    struct hf_acquire_options options;
    char name[HF_NAME_BYTES_MAX + 1];
    char purpose[64];
    char owner_name[64];
};

struct peer_answer {
    int status;
    uint64_t fence;
    int64_t number;
    uint64_t before_ns; /* CLOCK_BOOTTIME right before and right after the call */
    uint64_t after_ns;
    char text[256]; /* of hf_client_error, or the cause of an event */
};

struct peer {
    pid_t pid;
    int socket;
};

struct peer peer_start(const struct world *world);
void peer_end(struct peer *peer);  /* it closes its client and must exit without complaint */
void peer_kill(struct peer *peer); /* SIGKILL, and waits for its end */
void peer_signal(const struct peer *peer, int signal_number);
void peer_stop(const struct peer *peer); /* SIGSTOP, and waits until it stands */

void peer_ask(const struct peer *peer, const struct peer_call *call);
bool peer_answered(const struct peer *peer);
struct peer_answer peer_hear(const struct peer *peer); /* waits for the answer of the last call */
struct peer_answer peer_do(const struct peer *peer, enum peer_verb verb, int slot, int64_t number);

void peer_ask_acquire(const struct peer *peer, int slot, const char *name,
                      const struct hf_acquire_options *options);
/* Returns the fence, or fails the case. */
uint64_t peer_acquire(const struct peer *peer, int slot, const char *name,
                      const struct hf_acquire_options *options);
int peer_try(const struct peer *peer, int slot, const char *name, int mode); /* keeps it */
void peer_claim(const struct peer *peer, int slot, const char *name,
                const struct hf_acquire_options *options);
int peer_release(const struct peer *peer, int slot);

int peer_main(const char *url, int64_t lease_ms, int socket); /* the life of a peer */

#endif
