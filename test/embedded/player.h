/* player.h: a client in little: callers that block on a wake word, and a keeper that polls for
 * them. */
#ifndef TEST_EMBEDDED_PLAYER_H
#define TEST_EMBEDDED_PLAYER_H

#include <pthread.h>

#include "world.h"

struct player {
    struct mate mate;
    pthread_mutex_t mutex;
    pthread_t keeper;
    bool has_keeper;
    bool stops;
    struct hf__wake *wake; /* of the claim that a caller blocks on */
};

/* With a keeper, or as a program with a loop of its own. */
int player_open(struct player *player, struct world *world, bool with_keeper);
void player_close(struct player *player);

/* Blocks until it is ours. 0 or HF_E*; what is granted stands in the stub. */
int player_acquire(struct player *player, const char *name, const struct wish *wish,
                   struct stub *out_stub);
int player_release(struct player *player, const struct stub *stub);
/* Waits for so long at most, then leaves the line: HF_ETIMEDOUT. */
int player_acquire_within(struct player *player, const char *name, const struct wish *wish,
                          int64_t wait_ms, struct stub *out_stub);

#endif
