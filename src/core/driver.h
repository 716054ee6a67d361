/* driver.h: the connections of one client, seen as one store. */
#ifndef HF_CORE_DRIVER_H
#define HF_CORE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "pattern/pattern.h"

/* Calls and the keeper's work travel apart, so that a starved caller cannot stop a renewal. Where
 * the keeper alone listens, or the caller steps the client, there is only the first. */
enum hf__lane { HF__LANE_CALL, HF__LANE_KEEP };
#define HF__LANES 2

struct hf__link {
    struct hf__conn *conn;
    uint64_t reopen_at_ns; /* HF__NEVER while it is open */
    uint32_t tries;
    int failure; /* why it is down, or was the last time; HF_OK once it is up */
    bool was_up;
    bool is_up;
    uint64_t up_since_ns; /* meaningful while it is up */
    /* What it told in this round of the muster. */
    bool is_blank;    /* it knows nothing */
    bool is_founding; /* it was never counted */
    bool surveyed;
    uint64_t highest_fence;
    uint64_t longest_lease_ns;
};

struct hf__driver {
    const struct hf__env *env;
    const struct hf__engine *engine;
    const struct hf__recipe *recipe;
    struct hf__url *url; /* owned; holds the credentials for reconnecting */
    const char *purpose;
    uint64_t lease_ns;
    uint64_t *random_state;
    struct hf__link links[HF__LANES][HF_SERVERS_MAX];
    size_t lanes;
    size_t stores;               /* 1, or all servers of a quorum */
    uint64_t proposal_offset_us; /* wall clock - our clock */
    uint64_t highest_proposal;
    bool caller_driven;
    uint64_t client_id;
    uint64_t reconnected;
    char error[HF__ERROR_BYTES];
    int status;            /* HF_OK, or why the last connection failed */
    uint64_t muster_at_ns; /* a quorum with stores in doubt: when to go on with them */
    uint32_t muster_round;
    uint32_t muster_open; /* questions of this round that are not answered */
};

/* What the stores of a quorum said to the question under way, and which must still be told. */
struct hf__ballot {
    struct hf__votes votes;
    enum hf__request_kind kind;
    uint32_t round;
    uint64_t fence;      /* proposed */
    uint32_t stragglers; /* RELEASE: stores that have not confirmed, by bit */
    uint32_t missing;    /* RELEASE: stores that did not have it, over all tries */
    uint32_t absent;     /* RENEW: stores that do not have it, though a majority has */
    uint32_t rejoining;  /* RENEW: stores that were asked to take it again */
    uint32_t locked;     /* CLAIM: stores that have it, or perhaps, of this and earlier proposals */
    uint64_t asked;      /* one bit a store: a vote is still to come */
    bool decided;
    bool granted;
};

int hf__driver_open(struct hf__driver *driver, uint64_t now_ns);
/* Nothing is asked any more. true: a store has not heard our goodbye yet: advance, ask again. */
bool hf__driver_parting(struct hf__driver *driver);
void hf__driver_close(struct hf__driver *driver);

/* To the one store, or to all; `ballot` is the turn's. HF_OK: it will be answered. HF_EUNKNOWN:
 * nobody could be asked, but a majority may have it since an earlier proposal. */
int hf__driver_submit(struct hf__driver *driver, enum hf__lane lane, struct hf__request *request,
                      struct hf__ballot *ballot);

/* A claim is under way: may it be taken already? Of a quorum, so many may have failed that it is
 * not, whatever the others say. */
bool hf__driver_perhaps(const struct hf__driver *driver, const struct hf__ballot *ballot);

/* An operation, to one of the stores, which will answer for itself. HF_PENDING: it is not known yet
 * whether that store is there. */
int hf__driver_submit_to(struct hf__driver *driver, size_t store,
                         const struct hf__request *request);

/* A request with `prompt`: 1: answered there; otherwise nothing has happened. */
int hf__driver_prompt(struct hf__driver *driver, const struct hf__request *request);

/* How soon what is asked on this lane must be sent. */
void hf__driver_set_pace(struct hf__driver *driver, enum hf__lane lane, enum hf__pace pace);
bool hf__driver_holds_back(const struct hf__driver *driver, enum hf__lane lane);
/* There is more to poll than whoever sleeps was told of; said once. */
bool hf__driver_take_more(struct hf__driver *driver);
/* Several stores have our CPU: they get to work when we do not, one after the other. */
bool hf__driver_shares_cpu(const struct hf__driver *driver, enum hf__lane lane);

/* Where the calls have one connection alone, its answers can be waited for by reading them: a
 * descriptor for hf__stream_listen(), or -1: they cannot; heard() takes what came. */
int hf__driver_listen(struct hf__driver *driver);
void hf__driver_heard(struct hf__driver *driver, const void *bytes, size_t count);

/* The next reply of any connection; of a quorum, each store's vote (the core hands it to
 * hf__driver_count). 0: none left. */
int hf__driver_advance(struct hf__driver *driver, uint64_t now_ns, struct hf__reply *out_reply,
                       size_t *out_store);

/* Counts one vote. True: the ballot is decided by it, and *reply is the verdict. */
bool hf__driver_count(struct hf__driver *driver, struct hf__ballot *ballot, size_t store,
                      struct hf__reply *reply);

/* --- muster.c --- */

/* Which stores of a quorum may be counted? */
void hf__muster_step(struct hf__driver *driver, uint64_t now_ns);
void hf__muster_hear(struct hf__driver *driver, size_t store, const struct hf__reply *reply);

uint64_t hf__driver_deadline(const struct hf__driver *driver);
void hf__driver_pollset(struct hf__driver *driver, enum hf__lane lane, struct hf__pollset *set);
/* HF__CONN_UP when any request can be answered (by a majority of a quorum, on each lane); DOWN:
 * none is connecting. */
enum hf__conn_state hf__driver_state(const struct hf__driver *driver);
bool hf__driver_settled(const struct hf__driver *driver); /* nobody is being connected to */
/* < 0: so many stores said no for good (a wrong password, no such database) that trying again would
 * not help. */
int hf__driver_refusal(const struct hf__driver *driver);
uint32_t hf__driver_promises(const struct hf__driver *driver);
/* Why these are not all of the recipe's; "": they are, or it never has more. */
const char *hf__driver_withheld(const struct hf__driver *driver);
const char *hf__driver_error(const struct hf__driver *driver);

#endif
