/* side.h: ours and the raw clients, seen alike: something that can be acquired and released. */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include <stdint.h>

#include <holdfast/holdfast.h>

#include "floor.h"
#include "workload.h"

#define BENCH_NAME_BYTES 64
#define BENCH_BATCH      16

struct bench_seat;

struct bench_side {
    const char *name;
    /* HF_OK, or why not: with hf_client_error() for ours, with errno for the raw ones. */
    int (*acquire)(struct bench_seat *seat);
    int (*release)(struct bench_seat *seat);
    int (*finish)(struct bench_seat *seat); /* at the end of a slice; NULL: nothing to do */
    /* NULL, or instead of these: works for a whole slice until the parent ends it, and fills the
     * record; where that is 0 of a contender, another one did its part too. */
    int (*run)(struct bench_seat *seat, struct bench_contender *record);
};

/* W2b: all the locks of one seat. */
struct bench_batch {
    char names[BENCH_BATCH][BENCH_NAME_BYTES];
    hf_claim *claims[BENCH_BATCH]; /* ours: until they are granted        */
    hf_grant *grants[BENCH_BATCH]; /* ours: while it holds                */
    int fds[BENCH_BATCH];          /* flock: a description for each       */
};

/* One contender's place at one lock on one side. */
struct bench_seat {
    const struct bench_side *side;
    struct bench_floor *floor;
    uint32_t number;             /* of the contender                      */
    char name[BENCH_NAME_BYTES]; /* ours: of the lock                     */
    hf_client *client;           /* ours                                  */
    hf_grant *grant;             /* ours: while it holds                  */
    const char *url;             /* raw clients: where the store is       */
    void *raw;                   /* raw clients: what they keep           */
    int fd;                      /* flock: a description of its own       */
    struct bench_batch batch;    /* W2b                                   */
    uint32_t ticket;             /* chain */
    bool in_line;                /* chain: the ticket is still good */
};

extern const struct bench_side bench_side_ours;
extern const struct bench_side bench_side_batch; /* ours, for W2b */
extern const struct bench_side bench_side_flock;
extern const struct bench_side bench_side_chain;
extern const struct bench_side bench_side_token;

/* What an engine is measured against. */
struct bench_raw {
    const char *engine;
    const struct bench_side *cycle;            /* W1, W2, W3 */
    const struct bench_side *together;         /* W2, if it is not `cycle`; may be NULL */
    const struct bench_side *batch;            /* W2b        */
    const struct bench_side *contended;        /* W4         */
    const struct bench_side *beside;           /* W4: printed too; may be NULL */
    const struct bench_side *handover;         /* W5         */
    const struct bench_side *handover_beside;  /* W5: printed too; may be NULL */
    const struct bench_side *idle;             /* W6         */
    double (*count_requests)(const char *url); /* at the store, ever; NULL: nobody counts */
    double counting; /* requests of whoever counts, and its leaving, between its two looks */
    uint64_t counted_after_ns;                /* so late at the most what was asked is counted */
    double (*count_scripts)(const char *url); /* the same, of scripts alone            */
    void (*tidy)(const char *url);            /* when all have left; NULL: nothing to do */
    const char *sentences[BENCH_WORKLOADS];   /* what raw is; NULL: none               */
};

extern const struct bench_raw bench_raw_etcd;
extern const struct bench_raw bench_raw_redis;
extern const struct bench_raw bench_raw_redlock;
extern const struct bench_raw bench_raw_zookeeper;
extern const struct bench_raw bench_raw_postgres;
extern const struct bench_raw bench_raw_mysql;

/* NULL: this build has no raw client for that engine. */
const struct bench_raw *bench_raw_find(const char *engine);

/* Leaves the reason of a failed acquire or release on the floor. */
void bench_side_fail(const struct bench_seat *seat, const char *verb, int status);

#endif
