/* torment.h: what happens to five servers, the network before them and their clients.
 *
 * First the same for everybody, step by step: three servers die and come back, then the two others.
 * Then at random, from a seed that is printed (and taken from $HOLDFAST_SEED): servers are killed
 * and started again, stopped and continued; answers are lost, requests held, everything delayed,
 * links cut; clients stopped beyond their leases, and killed. Most of the time a majority is
 * spared. */
#ifndef FAULTS_TORMENT_H
#define FAULTS_TORMENT_H

#include "faults.h"

#define TORMENT_LOCKS    3
#define TORMENT_PARTS    4
#define TORMENT_TROUBLES 6

/* numbers[] of the stage: what the actors count for every lock, and what they may look at */
#define TORMENT_GRANTS   0 /* + lock, from 1 */
#define TORMENT_FAILURES 4 /* + lock, from 1 */
#define TORMENT_UNWELL   8 /* so many servers have trouble now */
#define TORMENT_THROUGH  9 /* grants while some server had trouble */

struct torment {
    struct scene *scene;
    void (*role)(struct scene *scene, int part); /* of TORMENT_PARTS actors */
    uint64_t failures;                           /* of every lock, while three are dead */
    uint64_t span_ms;                            /* how long it lasts, after the first part, ... */
    uint64_t through_least;                      /* ... and until there were so many grants */
    bool spares_clients;
    struct dice dice;
    struct node {
        int trouble; /* -1: none */
        uint64_t until_ns;
    } nodes[QUORUM_SERVERS];
    uint64_t stopped_until_ns[TORMENT_PARTS]; /* 0: it runs */
    uint64_t counts[TORMENT_TROUBLES];
    uint64_t stops;
    uint64_t kills;
};

/* The actors enter, suffer every trouble at least once, get on when all is well, and leave. */
void torment_run(struct torment *torment);

/* So many servers, drawn from the dice. */
void torment_draw(struct dice *dice, int count, int out_servers[]);
struct dice torment_dice(void); /* prints the seed */

#endif
