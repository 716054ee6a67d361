/* client.h: a client as the public functions see it: the core, the only mutex, and who waits. */
#ifndef HF_API_CLIENT_H
#define HF_API_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct hf_client {
    pthread_mutex_t mutex;   /* guards everything below, and every engine call */
    pthread_cond_t answered; /* an extend or downgrade has its answer */
    struct hf_client *self;  /* for functions that are handed a const client */
    struct hf__env env;
    struct hf__core core;
    uint8_t *alive;      /* a page that the kernel wipes in a fork: 1 in the owner's process only */
    uint64_t references; /* hf_open's, and one for each claim and grant that the user has */
    uint32_t callers;    /* threads that wait inside */
    struct hf__list followers; /* those of them that wait to be rung, oldest first */
    bool closed;
    bool caller_driven;
    bool led;                         /* a caller polls the call lane */
    bool gathering;                   /* a caller is about to, and lets others write down first */
    struct hf__answer *leader_answer; /* what the leader waits for */
    uint64_t leader_until_ns;         /* it wakes by then, or the keeper wakes it */
    bool leader_is_timed;             /* by itself */
    bool leader_hears; /* it stands in line, and polls the keeper's lane too: its news come there */
    int leader_fd;
    int event_fd;
    bool event_raised;
    int keeper_fd;
    bool kicks_keeper;        /* when the mutex is unlocked */
    _Atomic uint32_t kickers; /* those who have unlocked it, and are about to */
    bool has_keeper;
    bool keeper_stops;
    uint64_t keeper_until_ns; /* it sleeps at most until then */
    pthread_t keeper;
    uint32_t spin_pauses;
    uint64_t called_ns;       /* when the last caller left */
    uint64_t tended_until_ns; /* until then the keeper polls the call lane, whoever else does */
    bool keeper_tends_calls;
    bool keeper_helps;  /* it hears its lane as well, though the leader does */
    uint64_t seen_ns;   /* what the clock said last ... */
    uint64_t seen_tick; /* ... and not before this tick */
};

/* What a thread waits for. */
struct hf__awaited {
    struct hf__answer *answer;
    struct hf__wake *const *bell; /* where it will be rung; may change while it waits */
    const uint32_t *ahead;        /* how many come before, as last heard; NULL: none */
};

/* A thread that waits, in client->followers. */
struct hf__follower {
    struct hf__list place;
    struct hf__wake *bell;
};

/* --- loop.c: who waits for what --- */

int hf__loop_start_keeper(struct hf_client *client);
void hf__loop_stop_keeper(struct hf_client *client);
/* With the mutex: the clock. */
uint64_t hf__loop_now(struct hf_client *client);
/* The same, perhaps a tick of the kernel's late: for what is shown to people, not for deadlines. */
uint64_t hf__loop_lately(struct hf_client *client);
/* With the mutex, after a request at hf__loop_now: returns, with it, when the answer is there.
 * `bell` is where it will be rung. */
void hf__loop_wait(struct hf_client *client, const struct hf__awaited *awaited);
/* With the mutex: waits until `deadline_ns` for the answer; false: not yet. */
bool hf__loop_wait_until(struct hf_client *client, const struct hf__awaited *awaited,
                         uint64_t deadline_ns);
/* With the mutex: a step, and whatever it makes others do. */
void hf__loop_step(struct hf_client *client);
void hf__loop_step_polled(struct hf_client *client); /* the caller has waited by itself */
void hf__loop_step_soon(struct hf_client *client); /* what was asked may travel with what follows */
/* With the mutex: what to poll, and until when. */
void hf__loop_pollset(struct hf_client *client, struct hf__pollset *set);
/* With the mutex: one round of polling by the thread that closes or opens the client. */
void hf__loop_linger(struct hf_client *client, uint64_t deadline_ns);

/* --- entry.c: into the client and out again --- */

/* HF_OK with the mutex held; HF_EINVAL, HF_EFORKED. */
int hf__entry_lock(struct hf_client *client);
/* And calls whoever was answered meanwhile, and the keeper if it has something to do. */
void hf__entry_unlock(struct hf_client *client);
void hf__entry_ring(struct hf_client *client); /* without unlocking it */
void hf__entry_kick(int fd);                   /* one that counts events */
/* With the mutex, which it unlocks: one user of the memory less. */
void hf__entry_drop(struct hf_client *client);
bool hf__entry_forked(const struct hf_client *client);
void hf__entry_free(struct hf_client *client);

/* --- report.c: the text of this thread's last failure --- */

int hf__report(const struct hf_client *client, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int hf__report_named(const struct hf_client *client, int status, const char *verb, const char *name,
                     const char *reason);
const char *hf__report_text(const struct hf_client *client);
/* A number that no other thread of this process has had. */
uint64_t hf__report_thread_serial(void);

/* --- options.c: what the caller asked for --- */

int hf__options_open(const struct hf_open_options *given, struct hf_open_options *out_options);
int hf__options_terms(const struct hf_client *client, const struct hf_acquire_options *given,
                      struct hf__terms *out_terms);

#endif
