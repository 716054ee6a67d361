/* anchor.h: locks that are a session's (named) or a transaction's (for-update): the parts that keep
 * them. */
#ifndef HF_ENGINE_MYSQL_ANCHOR_H
#define HF_ENGINE_MYSQL_ANCHOR_H

#include "base/list.h"
#include "engine/bearer.h"
#include "engine/engine.h"
#include "engine/roll.h"

#define HF__MYSQL_ROPES     64  /* sessions of one client, beside the first ... */
#define HF__MYSQL_BLOCKED   16  /* ... of which so many may stand in line */
#define HF__MYSQL_KEY_BYTES 192 /* of a name of the server's */

struct hf__mysql;
struct hf__parcel;
struct hf__result;

/* Where a claim stands. Its session is the one that has the lock, or waits for it. */
enum hf__anchor_state {
    HF__ANCHOR_OUT,        /* nothing of it is at the server */
    HF__ANCHOR_CALLING,    /* for a session of its own */
    HF__ANCHOR_TRYING,     /* takes it if it is free */
    HF__ANCHOR_BLOCKED,    /* its session stands in line */
    HF__ANCHOR_LOCKED,     /* has the lock, but no fence: somebody's lease may not have ended yet */
    HF__ANCHOR_ENTERING,   /* asks for the fence */
    HF__ANCHOR_CONFIRMING, /* has it: is the transaction still open? */
    HF__ANCHOR_HELD,
    HF__ANCHOR_LEAVING,
};

struct hf__anchor {
    struct hf__entry entry;
    struct hf__list parted; /* in mooring->parted: it is OUT */
    struct hf__list timed;  /* in mooring->timed: something is to be done at at_ns */
    enum hf__anchor_state state;
    struct hf__mysql *session;
    uint32_t under_way; /* steps */
    uint32_t begun;     /* how often: steps of an earlier time mean nothing */
    bool queueing;
    bool waits;        /* CALLING: to stand in line, for it was refused already */
    bool tells_broken; /* LEAVING: the core does not know why */
    bool was_broken;
    uint64_t at_ns;
    uint64_t lease_ns;
    uint64_t grace_ns;
    uint64_t fence;         /* CONFIRMING */
    uint64_t next_lease_ns; /* while it is written down */
    uint8_t token[HF__TOKEN_BYTES];
    char who[HF__BEARER_BYTES];
    char key[HF__MYSQL_KEY_BYTES];
    size_t key_bytes;
    size_t name_bytes;
    char name[];
};

/* What a connection has of this. */
struct hf__mooring {
    struct hf__roll roll;
    struct hf__list parted;
    struct hf__list timed;
    struct hf__mysql *main; /* of a rope; NULL: this is it */
    struct hf__mysql *ropes[HF__MYSQL_ROPES];
    struct hf__anchor *anchor; /* of a rope: whose it is */
    uint64_t free_since_ns;    /* of a rope that nobody uses */
    uint64_t ropes_from_ns;    /* no other is opened before: the server had no room for one */
    uint64_t idle_ns;          /* the shortest lease: so long the session may be silent; 0: any */
    uint32_t idle_count;       /* how many have that one */
    uint64_t idle_told_ns;     /* the limit that the server knows */
    uint64_t client_id;
};

/* --- anchor.c: where does a claim stand, and what comes next? --- */

void hf__anchor_init(struct hf__mysql *conn, uint64_t client_id);
void hf__anchor_done(struct hf__mysql *conn);
/* 1: it is not for us. */
int hf__anchor_submit(struct hf__mysql *conn, const struct hf__request *request);
int hf__anchor_advance(struct hf__mysql *conn, struct hf__reply *out_reply);
void hf__anchor_pollset(struct hf__mysql *conn, struct hf__pollset *set);
/* Whatever was asked, as far as it can be answered where the claim stands now. */
void hf__anchor_serve(struct hf__mysql *conn, struct hf__anchor *anchor);
/* A session has ended, with all that it had. */
void hf__anchor_bereft(struct hf__mysql *session);

/* --- mooring.c: which step does it take, and for how long may its session be silent? --- */

static inline struct hf__anchor *hf__anchor_of(struct hf__entry *entry)
{
    return (struct hf__anchor *)entry;
}

struct hf__mysql *hf__mooring_main(struct hf__mysql *session);
void hf__mooring_join(struct hf__mysql *session, struct hf__anchor *anchor);
void hf__mooring_part(struct hf__mysql *conn, struct hf__anchor *anchor);
void hf__mooring_set_timer(struct hf__mysql *conn, struct hf__anchor *anchor, uint64_t at_ns);
void hf__mooring_step(struct hf__mysql *session, int sql, struct hf__anchor *anchor);
/* The server is told how long the session may be silent, if that is new. */
void hf__mooring_tend(struct hf__mysql *session);
void hf__mooring_go_out(struct hf__mysql *conn, struct hf__anchor *anchor);
void hf__mooring_answer(struct hf__mysql *conn, struct hf__anchor *anchor,
                        const struct hf__reply *reply);
void hf__mooring_answer_plainly(struct hf__mysql *conn, struct hf__anchor *anchor,
                                enum hf__reply_kind kind);
void hf__mooring_fail(struct hf__mysql *conn, struct hf__anchor *anchor, int status);
void hf__mooring_enter(struct hf__anchor *anchor);
void hf__mooring_leave(struct hf__mysql *conn, struct hf__anchor *anchor);
/* It stands in line, and shall no longer. */
void hf__mooring_quit(struct hf__mysql *conn, struct hf__anchor *anchor);

/* --- outcome.c: what does an answer mean to a claim? --- */

/* A step is answered; `text`: by this, or NULL. */
void hf__outcome_hear(struct hf__mysql *session, const struct hf__parcel *parcel,
                      const struct hf__result *result, const char *text);
/* It has the lock: whoever asks goes on, and who does not is told that it is worth to ask. */
void hf__outcome_locked(struct hf__mysql *conn, struct hf__anchor *anchor);
/* The answer to a renewal, which the core hears too. */
void hf__outcome_renewal(struct hf__mysql *session, const struct hf__reply *reply);
/* News of a break; false: the core hears of it later. */
bool hf__outcome_news(struct hf__mysql *conn, const struct hf__reply *reply);

/* --- rope.c: which other sessions of a client are there? --- */

/* NULL: none is to be had. */
struct hf__mysql *hf__rope_take(struct hf__mysql *conn, struct hf__anchor *anchor);
void hf__rope_give_back(struct hf__mysql *rope);
void hf__rope_cut(struct hf__mysql *rope);
/* It is up, or was: its claim takes the next step. */
void hf__rope_ready(struct hf__mysql *rope);
/* The first session has ended: so do they, when all is answered. */
void hf__rope_end(struct hf__mysql *conn);
int hf__rope_advance(struct hf__mysql *conn, struct hf__reply *out_reply);
void hf__rope_pollset(struct hf__mysql *conn, struct hf__pollset *set);
uint32_t hf__rope_blocked(const struct hf__mysql *conn);
void hf__rope_done(struct hf__mysql *conn);

#endif
