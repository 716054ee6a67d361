/* engine.h: what the core may ask of a store, and what the store may answer.
 *
 * An engine turns requests into bytes and bytes into replies. It decides nothing about locks:
 * which question comes next is the pattern's business, and what the answer means to the caller
 * is the core's.
 *
 * Calls go down, values come up. An engine calls nothing above it, never blocks, never sleeps,
 * never reads a clock and never starts a thread; the only time it sees is the `now_ns` that it is
 * handed. All calls on the connections of one client are made under one mutex, which is not the
 * engine's. */
#ifndef HF_ENGINE_ENGINE_H
#define HF_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "base/pollset.h"
#include "base/url.h"
#include "base/wake.h"
#include "holdfast/holdfast.h"

#define HF__TOKEN_BYTES   16
#define HF__PURPOSE_BYTES 128 /* with the NUL; longer ones are cut */
#define HF__HOST_BYTES    72
#define HF__AHEAD_UNKNOWN UINT32_MAX

/* How locks are built from the requests below; the code is in pattern/. */
enum hf__pattern_kind {
    HF__PATTERN_LEASE,      /* a record with an owner and an end; who is refused asks again */
    HF__PATTERN_QUEUE,      /* whoever asks gets a place; the one at the front holds */
    HF__PATTERN_CONNECTION, /* the store answers a CLAIM when it is granted; dies with the conn */
    HF__PATTERN_QUORUM,     /* a majority of independent stores */
};

/* One way to make a lock on an engine, by the name that users choose. */
struct hf__recipe {
    const char *name;
    const char *url_forms; /* "redis://host:port/db rediss://..." */
    const char *summary;   /* one sentence */
    const char *caveat;    /* "" or what it does not promise */
    const char *schema;    /* the SQL that it needs, or "" */
    enum hf__pattern_kind pattern;
    uint32_t promises; /* HF_PROMISE_*, at best; conn->promises are the live ones */
    bool is_default;
    bool is_legacy;
    bool hands_on; /* claims of one client queue locally and hand the turn on */
    bool leases;   /* a turn that is not renewed ends: by the store, or in a session by us */
    /* Turns live in the client's session, which is kept alive as a whole: there is one connection
     * for all; a fixed lease is ended by us; and a departure is repeated until it is confirmed. */
    bool in_session;
    bool ends_fixed;     /* in a session all the same: the store ends a fixed lease by itself */
    bool keeper_listens; /* blocked callers wait on a wake word; the keeper alone polls */
    bool kept_news;      /* what wakes a blocked caller comes on the keeper's lane */
    bool local_tokens;   /* tokens stay in the process: they need not be hard to guess */
    bool at_hand;        /* the store is memory of ours: it understands `prompt` below */
};

enum hf__request_kind {
    HF__REQUEST_NONE,      /* no request: the ticket of news that nobody asked for */
    HF__REQUEST_CLAIM,     /* enter the contest for `name` as `token`; repeated: where is it? */
    HF__REQUEST_INSPECT,   /* where does `token` stand? (waiting: also keeps its place alive) */
    HF__REQUEST_RENEW,     /* move the end of the lease out; `shorten` allows in */
    HF__REQUEST_RELEASE,   /* leave, holding or waiting; harmless when repeated */
    HF__REQUEST_DOWNGRADE, /* exclusive becomes shared, in one step */
    HF__REQUEST_BREAK,     /* take the lock away from the turn with this fence, and no other */
    HF__REQUEST_LIST,      /* holders and waiters of the names that match `glob` */
    HF__REQUEST_SURVEY, /* one of a quorum: which greatest fence and longest lease did it grant? */
    HF__REQUEST_ADMIT,  /* one of a quorum: count again, and accept only fences above `fence` */
    HF__REQUEST_FOUND,  /* one of a quorum: note that it was never counted, unless it was */
};

/* It is about one of a quorum, and not about a lock. */
static inline bool hf__request_musters(enum hf__request_kind kind)
{
    return kind == HF__REQUEST_SURVEY || kind == HF__REQUEST_ADMIT || kind == HF__REQUEST_FOUND;
}

/* Who asked what, and when. The engine copies it into the reply untouched, so that a late answer is
 * never taken for the answer to another question. */
struct hf__ticket {
    enum hf__request_kind kind;
    uint32_t round;    /* how many questions this claim has asked */
    uint64_t claim_id; /* the core's number for the turn, LIST or BREAK */
    uint64_t sent_ns;  /* validity counts from the send */
};

/* All pointers are borrowed until submit() returns. */
struct hf__request {
    struct hf__ticket ticket;
    const char *name;
    size_t name_bytes;
    const uint8_t *token; /* HF__TOKEN_BYTES random bytes, never used again */
    int mode;             /* enum hf_mode */
    bool queueing;        /* false: try once, and stand in no line */
    bool blocking;        /* a thread will sleep on the reply's wake word */
    /* The lease is the whole turn (fixed lease, maximal hold): the store ends it though its owner
     * lives. */
    bool ends;
    bool rejoins; /* of a CLAIM: a majority has it, with this fence; this store takes it again */
    bool shorten; /* RENEW: also when this moves the end in */
    bool crowded; /* RELEASE: others were seen to wait; they may have left since */
    uint64_t lease_ns;
    uint64_t grace_ns;   /* how long a broken holder may take to leave before the next is let in */
    uint64_t fence;      /* BREAK: of the turn; RELEASE, RENEW, DOWNGRADE: of the own grant, or 0 */
    const char *purpose; /* CLAIM */
    const char *glob;    /* LIST */
    uint64_t deadline_ns; /* unanswered by then: the reply is UNKNOWN (or FAILED if never sent) */
    /* CLAIM, RELEASE of a recipe that is at hand; NULL: the usual way. submit() answers 1 if it is
     * done, with the fence of a CLAIM here; otherwise it changes nothing, answers <= 0, and no
     * reply will come. */
    uint64_t *prompt;
};

enum hf__reply_kind {
    HF__REPLY_GRANTED, /* `token` holds the lock (CLAIM, INSPECT, RENEW, DOWNGRADE; or news) */
    HF__REPLY_QUEUED,  /* `token` stands in line                                                  */
    HF__REPLY_REFUSED, /* another holds it, and `token` is not in line; BREAK: something is held *
                        * that may be that turn's; `fence` is the same for all of one turn        */
    HF__REPLY_CHANGED, /* news: it is worth to inspect again                                      */
    HF__REPLY_CROWDED, /* news for a holder: others wait now                                      */
    HF__REPLY_GONE,   /* `token` is not there: never was, left, expired, or was broken; the answer *
                        * to a RELEASE that found it or not is in `released`. SURVEY: it knows    *
                        * nothing; `is_founding`: it is sure that it was never counted            */
    HF__REPLY_DONE,   /* BREAK: it was taken away; LIST: that was all; SURVEY: `fence` and       *
                        * `lease_ns`; ADMIT, FOUND                                                */
    HF__REPLY_ENTRY,  /* LIST: one holder or waiter; more follow                                 */
    HF__REPLY_FAILED, /* certainly not applied                                                   */
    HF__REPLY_UNKNOWN, /* perhaps applied: no answer came                                         */
};
#define HF__REPLY_KINDS 10

/* Who stands in the way: for the text of HF_EBUSY and HF_ETIMEDOUT. */
struct hf__holder {
    int64_t pid;
    uint64_t fence;
    char host[HF__HOST_BYTES];
    char purpose[HF__PURPOSE_BYTES];
};

/* What a reply points at lives until the next advance() on this connection. */
struct hf__reply {
    enum hf__reply_kind kind;
    struct hf__ticket ticket; /* of the request that this answers                                 */
    /* GRANTED: n x 256, or the whole number where nothing is handed on. QUEUED: the greatest given
     * out so far, so that news of an older grant is known to have been overtaken by this answer (0:
     * news and answers never overtake each other here). */
    uint64_t fence;
    uint32_t ahead;    /* QUEUED, REFUSED: how many, or HF__AHEAD_UNKNOWN                  */
    bool low;          /* GRANTED to a CLAIM of a quorum: locked, but the proposed fence is not *
                                * above this store's counter, which is in `fence`                 */
    bool others_wait;  /* GRANTED: somebody stands in line behind                          */
    bool is_founding;  /* GONE after SURVEY                                                 */
    bool released;     /* GONE after RELEASE: it was there until now, and with a `fence` in   *
                                * the request, it was held with that one                          */
    bool appointed;    /* GRANTED as news: made owner by somebody else's release; validity *
                                * counts from `ticket.sent_ns` (the last answered refresh) and     *
                                * lasts `lease_ns`                                                */
    uint64_t lease_ns; /* GRANTED: as the store gave it; 0: as asked                       */
    int status;        /* FAILED and UNKNOWN: HF_E*; the text is in conn->error            */
    const char *cause; /* GONE while held: static text, "broken" "expired" ...             */
    struct hf__wake *wake; /* QUEUED: rings when advance() would find news; NULL: none         */
    const struct hf__holder *holder; /* QUEUED, REFUSED; NULL: unknown                           */
    const struct hf_holding *entry;  /* ENTRY                                                     */
};

enum hf__conn_state {
    HF__CONN_CONNECTING, /* requests are taken, and wait */
    HF__CONN_UP,
    HF__CONN_DOWN, /* every request has been answered; open() starts anew */
};

/* Many small writes cost more than one great one, if somebody is sure to write it. */
enum hf__pace {
    HF__PACE_AT_ONCE,
    HF__PACE_WITH_ANSWERS, /* whoever hears an answer that is under way sends what is there then */
    HF__PACE_LATER,        /* whoever wants it so comes back at once */
};

/* An open connection. An engine's own struct starts with this one. */
struct hf__conn {
    const struct hf__engine *engine;
    const struct hf__recipe *recipe;
    const struct hf__env *env;
    enum hf__conn_state state;
    uint32_t promises;  /* of the live store; meaningful once UP */
    uint64_t rescued;   /* hand-overs that a safety-net timer had to find */
    enum hf__pace pace; /* of what advance() would send */
    bool holds_back;    /* the engine: something is written down that was not sent */
    bool is_near;       /* the engine: the store has the CPU that the last request was sent from */
    bool is_heard;      /* between listen() and heard() */
    bool polls_more;    /* the engine: there is more to poll than whoever sleeps was told of */
    /* One of a quorum that may have forgotten, at that time, what it had granted: its word is not
     * counted until it was admitted again. */
    bool doubted;
    uint64_t doubted_since_ns;
    char withheld[128];          /* why not all of the recipe's promises are kept; "": all are */
    char error[HF__ERROR_BYTES]; /* why the last failure, without the engine's name */
};

/* What a client asked for that every connection of it must know. */
struct hf__conn_options {
    const struct hf__url *url;
    size_t server;       /* index into url->servers; 0 for engines that use them all */
    const char *purpose; /* the client's default */
    uint64_t lease_ns;   /* the client's default */
    uint64_t now_ns;
    bool caller_driven;     /* nobody but the caller's steps will call advance() */
    uint64_t client_id;     /* random; all connections of a client have the same */
    int64_t wall_offset_us; /* wall clock - our clock, for recipes that must write the former */
    /* Blocked callers poll the one; the other is polled as long as the client lives. Where there is
     * one connection alone, it is both. */
    bool carries_calls;
    bool carries_keeping;
};

struct hf__engine {
    const char *name;                        /* "redis": in traces, tests, `holdfast engines` */
    const char *const *url_schemes;          /* { "redis", "rediss", NULL } */
    const struct hf__recipe *const *recipes; /* the default first; NULL ends */
    size_t conn_size;                        /* the core allocates it, zeroed */

    /* Start to connect; returns before the connection is up (which may be at once). < 0 is final:
     * the URL or the machine forbids it. May be called again on a conn that is DOWN. */
    int (*open)(struct hf__conn *conn, const struct hf__conn_options *options);

    /* The client asks nothing more: say goodbye, where the store would wait for our end. Called
     * again and again, with advance() in between, while it says true and not for long. NULL:
     * nothing to say. */
    bool (*parting)(struct hf__conn *conn);

    /* Let go of everything, also after an open() that failed halfway. Accepts a conn never
     * opened. */
    void (*close)(struct hf__conn *conn);

    /* Take one request. An accepted request (HF_OK) is answered exactly once (LIST: any number of
     * ENTRY, then DONE), perhaps much later, perhaps at the next advance(); one refused here (< 0)
     * is not answered at all. Requests submitted between two calls of advance() may travel
     * together. */
    int (*submit)(struct hf__conn *conn, const struct hf__request *request);

    /* Say what to wait for. Called right before the wait, after advance() had nothing left. */
    void (*pollset)(struct hf__conn *conn, struct hf__pollset *set);

    /* Do what I/O can be done now. Returns 1 with a reply, 0 when there is none left, < 0 when the
     * connection has died and all its requests are answered (its state is DOWN). Must be called
     * until it returns 0. */
    int (*advance)(struct hf__conn *conn, uint64_t now_ns, struct hf__reply *out_reply);

    /* For one thread, which waits for answers by reading them, without the mutex: a descriptor for
     * hf__stream_listen(), or -1: not now, or no answer is under way. Until heard() was told what
     * came, advance() neither reads nor closes. NULL: never. */
    int (*listen)(struct hf__conn *conn);
    void (*heard)(struct hf__conn *conn, const void *bytes, size_t count);

    /* In a fork of the client's process: keep the turns of the client from ending with the process
     * that took them, for as long as this process lives. NULL: unsupported. Called on a conn of the
     * parent's; touches nothing of it. */
    int (*stand_by)(const struct hf__conn *conn, char error[HF__ERROR_BYTES]);
};

#endif
