/* holdfast.h: named locks, on one machine or on many.
 *
 * The calling sequence:
 *
 *     hf_client *client = NULL;
 *     hf_grant *grant = NULL;
 *
 *     if (hf_open(NULL, NULL, &client) < 0) ...                    hf_client_error(NULL) says why
 *     if (hf_acquire(client, "orders/42", NULL, &grant) < 0) ...   waits until it is ours
 *     write_to_database(order, hf_grant_fence(grant));             which refuses older fences
 *     if (hf_release(grant) == HF_ELOST) ...                       somebody else may have been in
 *     hf_close(client);
 *
 * Link with -lholdfast; `pkg-config --cflags --libs libholdfast` tells where it is. Installed so
 * that both <holdfast.h> and <holdfast/holdfast.h> work.
 *
 * Rules:
 *
 * - Any function may be called from any thread, unless it says otherwise. None may be called from
 *   a signal handler.
 * - A handle (client, claim, grant) is ended by exactly one call: hf_close(), hf_claim_free(),
 *   hf_release() or hf_release_start(). It must not be used after that call, nor by another thread
 *   during it; hf_close() alone may be called while others block in the client.
 * - out_ parameters are untouched on failure. NULL handles are HF_EINVAL, false or 0;
 *   hf_release(NULL) (which answers HF_OK) and hf_close(NULL) do nothing.
 * - Texts that are passed in are copied. Texts that come out say how long they live.
 * - A call that fails leaves its reason in hf_client_error(), for its thread.
 *
 * Caveats:
 *
 * - A lock cannot stop a holder that was itself stopped between its look at the lock and its
 *   write. Hand the fence to what the lock guards, and let that refuse older ones; examples/ shows
 *   how.
 * - Look at hf_grant_valid() before every step of the work: it is cheap, and it stops saying yes
 *   before anyone else is let in.
 * - After fork() the child's copies of the handles answer HF_EFORKED and leave the parent's locks
 *   alone; the child opens a client of its own. A lock does not survive exec().
 * - HF_EUNKNOWN is not a failure: perhaps it happened. Treating it as "not taken" or "not
 *   released" is the classic mistake.
 * - The embedded engine excludes the processes that use the same directory, and root's default
 *   directory is not that of other users.
 *
 * holdfast(7) has the promises in full. This interface may grow (more functions, more options at
 * the end of a struct); what is here keeps its name and its meaning. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

#define HF_API       __attribute__((visibility("default")))
#define HF_NODISCARD __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_client hf_client; /* one connection to the place where the locks live */
typedef struct hf_claim hf_claim;   /* one attempt, until it is freed */
typedef struct hf_grant hf_grant;   /* one lock that is held; whoever has the handle owns it */

/* Answers. HF_OK is the only zero; every failure is negative, and they are sorted by what the
 * caller must do. */
enum hf_status {
    HF_PENDING = 1, /* hf_claim_wait() only: not yet, the claim goes on */
    HF_OK = 0,

    /* Try later. */
    HF_EBUSY = -1,        /* held by others, and no waiting was asked for */
    HF_ETIMEDOUT = -2,    /* still held by others when the wait ended */
    HF_ECANCELLED = -3,   /* hf_claim_cancel() or hf_close() ended the wait */
    HF_EUNREACHABLE = -4, /* the store did not answer; certainly nothing was taken */

    /* Find out first. */
    HF_EUNKNOWN = -5, /* no answer came: perhaps it happened; it is being undone */

    /* Stop working now. */
    HF_ELOST = -6, /* it was ours and is not any more: another may hold it */

    /* Mend the call. */
    HF_EINVAL = -7,        /* nonsense in an argument or option */
    HF_ENAME = -8,         /* not a lock name: empty, or too long */
    HF_EURL = -9,          /* not a URL, or no such engine, recipe or option */
    HF_EUNSUPPORTED = -10, /* this recipe cannot do that */
    HF_EPROMISE = -11,     /* the caller requires a promise that the store cannot keep */
    HF_EDEADLOCK = -12,    /* waiting would be for oneself (shared, then exclusive) */
    HF_EFORKED = -13,      /* this process is a fork of the one that owns the client */

    /* Give up. */
    HF_EDENIED = -14,    /* the store refused the credentials or the rights */
    HF_EPROTOCOL = -15,  /* the store answered what it never should */
    HF_EINTEGRITY = -16, /* a fence not above one already seen: the store went back */
    HF_ELIMIT = -17,     /* a named limit was reached; the text says which */
    HF_ENOMEM = -18,
    HF_ESYSTEM = -19 /* the operating system refused; the text says what */
};

enum hf_mode { HF_EXCLUSIVE = 0, HF_SHARED = 1 };
enum hf_owner { HF_OWNER_NONE = 0, HF_OWNER_THREAD = 1, HF_OWNER_NAMED = 2 };

/* What a recipe on this store, as it is configured, promises. hf_open() can be told to require
 * some of them. */
enum hf_promise {
    HF_PROMISE_FENCE = 1 << 0,   /* fences rise with every grant, whatever clocks and networks do */
    HF_PROMISE_FAIR = 1 << 1,    /* in order of arrival; one client's claims pass at most 32 */
    HF_PROMISE_WAKEUP = 1 << 2,  /* waiters are woken, not left to ask again */
    HF_PROMISE_SHARED = 1 << 3,  /* shared mode exists */
    HF_PROMISE_DURABLE = 1 << 4, /* a grant and its fence survive a restart of the store */
    HF_PROMISE_FAILOVER = 1 << 5, /* ... and the loss of one of its servers */
    HF_PROMISE_CRASH = 1 << 6     /* a dead holder is noticed without anybody's help */
};

#define HF_FOREVER        (-1)
#define HF_NAME_BYTES_MAX 1024
#define HF_LEASE_MS_MIN   100
#define HF_LEASE_MS_MAX   86400000
#define HF_SERVERS_MAX    32

/* --- Options ---
 *
 * They begin with an _init call (or the INIT macro in C), so that new libraries understand old
 * programs. NULL options are the defaults. In them 0 means "the default"; wait_ms alone has a
 * meaningful zero: try once. */

struct hf_open_options {
    size_t struct_size;
    uint32_t require;    /* HF_PROMISE_*: HF_EPROMISE rather than less */
    bool caller_driven;  /* start no thread: the caller uses hf_client_step() */
    int64_t connect_ms;  /* 5000: how long a store is tried before HF_EUNREACHABLE */
    int64_t lease_ms;    /* 30000: the lease of grants that name none */
    const char *purpose; /* for people who ask who holds; the program's name */
    void (*trace)(void *context, const char *line); /* every state change; must not call back */
    void *trace_context;
};
#define HF_OPEN_OPTIONS_INIT                                                                       \
    {                                                                                              \
        .struct_size = sizeof(struct hf_open_options)                                              \
    }
HF_API void hf_open_options_init(struct hf_open_options *options);

struct hf_acquire_options {
    size_t struct_size;
    int mode;               /* enum hf_mode: exclusive */
    int owner;              /* enum hf_owner: none, not re-entrant */
    const char *owner_name; /* with HF_OWNER_NAMED */
    int64_t wait_ms;        /* HF_FOREVER; 0 tries once */
    int64_t lease_ms;       /* the client's */
    int64_t max_hold_ms;    /* none; at its end renewal stops and the grant is lost */
    bool fixed_lease;       /* do not renew: the grant ends with its lease */
    const char *purpose;    /* the client's */
    void *user;             /* echoed in events */
    int64_t grace_ms;       /* none; after a break, time to hf_release() before the next is in */
};
#define HF_ACQUIRE_OPTIONS_INIT                                                                    \
    {                                                                                              \
        .struct_size = sizeof(struct hf_acquire_options), .wait_ms = HF_FOREVER                    \
    }
HF_API void hf_acquire_options_init(struct hf_acquire_options *options);

/* --- Opening and closing --- */

/* Connects. A NULL or empty URL means $HOLDFAST_URL, and without it the embedded engine in its
 * default directory. With caller_driven it returns at once: an unreachable store and unkept
 * promises are then the answer of the first claim. The client is the caller's, to be ended by
 * hf_close().
 *
 * HF_OK, HF_EINVAL, HF_EURL, HF_EUNSUPPORTED, HF_EPROMISE, HF_EUNREACHABLE, HF_EDENIED,
 * HF_EPROTOCOL, HF_EINTEGRITY, HF_ELIMIT, HF_ENOMEM, HF_ESYSTEM. */
HF_API int hf_open(const char *url, const struct hf_open_options *options,
                   hf_client **out_client) HF_NODISCARD;

/* Releases what is held, undoes what is under way, wakes every blocked call (HF_ECANCELLED) and
 * returns when they have left, after at most connect_ms. Grants and claims stay memory: not valid,
 * and still to be ended by hf_release() (HF_ELOST) and hf_claim_free(). */
HF_API void hf_close(hf_client *client);

/* --- Taking and giving back --- */

/* Waits for its turn, as long as the options allow. A name is 1 to HF_NAME_BYTES_MAX bytes, any
 * but NUL. The grant is the caller's, to be ended by hf_release() or hf_release_start().
 *
 * HF_OK, HF_EBUSY (with wait_ms 0) and HF_ETIMEDOUT (hf_client_error() names the holder),
 * HF_ECANCELLED (hf_close), HF_EUNREACHABLE, HF_EUNKNOWN, HF_EINVAL, HF_ENAME, HF_EUNSUPPORTED,
 * HF_EPROMISE, HF_EDEADLOCK, HF_ELOST, HF_EFORKED, HF_EDENIED, HF_EPROTOCOL, HF_EINTEGRITY,
 * HF_ELIMIT, HF_ENOMEM, HF_ESYSTEM. HF_EUNREACHABLE: the store was not reached within connect_ms,
 * or within wait_ms if that is shorter and not 0; once the claim stands in the queue, an outage
 * ends the wait only at wait_ms.
 *
 * Same name, same owner, same client: nested. A nested grant is a handle of its own with the same
 * fence and the outer one's lease (its other options are ignored); shared under exclusive is
 * granted, exclusive under shared is HF_EDEADLOCK; under a lost grant it is HF_ELOST. */
HF_API int hf_acquire(hf_client *client, const char *name, const struct hf_acquire_options *options,
                      hf_grant **out_grant) HF_NODISCARD;

/* Ends the handle whatever it answers: HF_OK, it was ours until now; HF_ELOST, it was not;
 * HF_EUNKNOWN, the store did not confirm in time (it is retried in the background); HF_EFORKED.
 * The lock goes with the last handle of a nest. */
HF_API int hf_release(hf_grant *grant) HF_NODISCARD;

/* The same without waiting; the answer comes as HF_EVENT_RELEASED. */
HF_API void hf_release_start(hf_grant *grant);

/* --- Looking at a grant, and changing it --- */

/* Local and cheap: they read the clock themselves, never a flag, and never do I/O. */
HF_API bool hf_grant_valid(const hf_grant *grant);
HF_API int64_t hf_grant_remaining_ms(const hf_grant *grant); /* 0: not valid */
HF_API uint64_t hf_grant_fence(const hf_grant *grant); /* rises with every grant of this name */
HF_API int hf_grant_mode(const hf_grant *grant);
HF_API const char *hf_grant_name(const hf_grant *grant); /* lives as long as the handle */

/* Valid for so long from now: sets, does not add, and so may shorten.
 *
 * HF_OK, HF_ELOST, HF_EUNKNOWN, HF_EUNREACHABLE, HF_EINVAL, HF_EUNSUPPORTED, HF_EFORKED,
 * HF_EDENIED, HF_EPROTOCOL, HF_EINTEGRITY, HF_ELIMIT. */
HF_API int hf_grant_extend(hf_grant *grant, int64_t lease_ms) HF_NODISCARD;

/* Exclusive becomes shared in one step: no writer gets in between; the fence stays. Answers as
 * hf_grant_extend(). */
HF_API int hf_grant_downgrade(hf_grant *grant) HF_NODISCARD;

/* --- Claims: the same without blocking --- */

/* Asks, and returns. The claim is the caller's, to be ended by hf_claim_free().
 *
 * HF_OK, HF_EINVAL, HF_ENAME, HF_EFORKED, HF_ELIMIT, HF_ENOMEM; everything else is the claim's
 * answer. */
HF_API int hf_claim_start(hf_client *client, const char *name,
                          const struct hf_acquire_options *options,
                          hf_claim **out_claim) HF_NODISCARD;

/* HF_PENDING, or an answer of hf_acquire(). The first that is not HF_PENDING is final and is given
 * again if asked again, except that a grant is handed out once. wait_ms: HF_FOREVER, or 0 to look
 * only. */
HF_API int hf_claim_wait(hf_claim *claim, int64_t wait_ms, hf_grant **out_grant) HF_NODISCARD;

/* How many are ahead, as last heard; -1: unknown. No I/O. */
HF_API int hf_claim_position(const hf_claim *claim);

/* Ends the attempt, and leaves nothing behind in the store. Idempotent. If the grant came first,
 * hf_claim_wait() still hands it out. */
HF_API void hf_claim_cancel(hf_claim *claim);

/* Once nobody uses the claim. Cancels what is still under way, and releases a grant that was never
 * fetched. NULL does nothing. */
HF_API void hf_claim_free(hf_claim *claim);

/* --- Events: what the user has to know, in order ---
 *
 * Blocking acquires emit no GRANTED. At most one event per handle is pending: a later one replaces
 * it, and LOST is never replaced or dropped, so the queue is bounded. */

enum hf_event_kind {
    HF_EVENT_GRANTED = 1, /* a claim became a grant (or its final answer is there) */
    HF_EVENT_AT_RISK = 2, /* renewal is failing; `remaining_ms` is left */
    HF_EVENT_SAFE = 3,    /* renewed again */
    HF_EVENT_LOST = 4, /* `cause`: expired, broken, session ended, gone from the store, max hold */
    HF_EVENT_RELEASED = 5 /* after hf_release_start(): its answer; `grant` is only a number */
};
struct hf_event {
    size_t struct_size; /* set by the caller */
    int kind;           /* enum hf_event_kind */
    int status;
    const hf_grant *grant; /* or NULL; events of an ended handle are dropped, RELEASED excepted */
    const hf_claim *claim; /* or NULL */
    void *user;            /* of the acquire's options */
    int64_t remaining_ms;
    const char *cause; /* static text */
};

/* Readable while there is an event; the client's own, not to be closed. HF_EINVAL, HF_EFORKED. */
HF_API int hf_client_event_fd(hf_client *client);
/* 1: there was one; 0: none. */
HF_API int hf_client_next_event(hf_client *client, struct hf_event *out_event);

/* --- For programs with a loop of their own (caller_driven) ---
 *
 * Poll these, for at most this long, then step; as long as the client lives, also while a lock is
 * held, for renewal is part of a step. */

struct pollfd;
/* How many there are; fills up to fds_max. */
HF_API int hf_client_pollfds(hf_client *client, struct pollfd *fds, size_t fds_max);
HF_API int64_t hf_client_timeout_ms(hf_client *client); /* -1: none */
HF_API int hf_client_step(hf_client *client); /* 0, or what is wrong with the client as a whole */

/* --- For people who look after locks --- */

struct hf_holding {
    size_t struct_size;
    const char *name;
    int mode;
    bool waiting;         /* in the queue, not holding */
    uint32_t position;    /* 0: holds; 1: next ... */
    uint64_t fence;       /* of a holder; 0: unknown */
    int64_t remaining_ms; /* of its lease; -1: unknown */
    int64_t age_ms;       /* since it was taken; -1: unknown */
    const char *host;     /* "" where another program's layout has no room for it */
    int64_t pid;          /* 0: unknown */
    const char *purpose;
};

/* Visits holders and waiters of every lock whose name matches the glob (NULL: all; `*` and `?`
 * match any byte, `/` too; backslash escapes), name by name, in queue order. Records live only
 * during the visit; no internal lock is held. A non-zero answer of visit() ends the listing and is
 * returned. */
HF_API int hf_client_list(hf_client *client, const char *glob,
                          int (*visit)(const struct hf_holding *holding, void *context),
                          void *context);

/* Takes the lock away from the turn that this fence belongs to and from no other (HF_ELOST: that
 * turn is over already); its holder is told. A turn is what the store granted: on network engines,
 * fences that differ only in their lowest 8 bits were handed on within one process.
 *
 * HF_OK, HF_ELOST, HF_EINVAL, HF_ENAME, HF_EUNSUPPORTED, HF_EUNREACHABLE, HF_EUNKNOWN, HF_EDENIED,
 * HF_EPROTOCOL, HF_EINTEGRITY, HF_ELIMIT, HF_EFORKED. */
HF_API int hf_client_break(hf_client *client, const char *name, uint64_t fence) HF_NODISCARD;

/* For a process forked from the client's: until it ends, the client counts as alive, so that its
 * turns outlast the death of the process that took them. A supervisor uses it to clean up before
 * the next holder comes in. HF_EUNSUPPORTED where turns do not end with their process (leases). */
HF_API int hf_client_stand_by(hf_client *client) HF_NODISCARD;

struct hf_client_stats { /* since hf_open() */
    size_t struct_size;
    uint64_t acquired, busy, timed_out, released, lost, unknown, renewed, renew_failed, reconnected,
        handed_on;             /* handed_on: within the process */
    uint64_t held, waiting;    /* now */
    uint64_t lowest_margin_ms; /* least validity left when a renewal came through */
    uint64_t rescued; /* hand-overs that a safety-net timer found, not a wake-up: 0 in health */
};
HF_API int hf_client_stats(hf_client *client, struct hf_client_stats *out_stats);

/* --- What this build can do: one record per recipe --- */

struct hf_recipe_info {
    size_t struct_size;
    const char *engine, *recipe,
        *url_forms;      /* "redis", "fair", "redis://host:port/db rediss://..." */
    const char *summary; /* one sentence */
    const char *caveat;  /* "" or what it does not promise */
    uint32_t promises;   /* at best; a client's are read from the live store */
    bool is_default, is_legacy;
};

/* index 0, 1, ... 1: there is one; 0: none. */
HF_API int hf_recipe_info(size_t index, struct hf_recipe_info *out_info);
/* The SQL that it needs; "" if none; NULL if there is no such recipe. */
HF_API const char *hf_recipe_schema(const char *engine, const char *recipe);
HF_API uint32_t hf_client_promises(const hf_client *client); /* HF_PROMISE_* of this store */

/* --- Texts --- */

/* Of this thread's last failure (NULL: of hf_open), until its next hf_ call; never a password. */
HF_API const char *hf_client_error(const hf_client *client);
HF_API const char *hf_strstatus(int status);
HF_API int hf_url_redact(const char *url, char *buffer, size_t buffer_bytes); /* as snprintf */
HF_API const char *hf_version(void);

#ifdef __cplusplus
}
#endif
#endif
