/* layout.h: where does what lie in the table?
 *
 * The table is one sparse file, mapped whole by every process. Each region has its place from the
 * beginning; how much of it may be touched (its room) grows, and blocks of the file system are
 * reserved before the room is raised. All words are 64 bits, in the machine's own byte order: a
 * table never outlives a boot. Numbers of nodes, sessions and locks inside words count from 1; 0 is
 * none.
 *
 * Which words change how:
 *   guarded   only under the guard of the lock (or of the table), through its journal
 *   swapped   by compare-and-swap, without a guard, never through a journal
 *   hint      plain; garbage in it costs time, never truth */
#ifndef HF_EMBEDDED_LAYOUT_H
#define HF_EMBEDDED_LAYOUT_H

#include <assert.h>
#include <stdint.h>

#include "base/wake.h"
#include "engine/engine.h"

#define HF__TABLE_MAGIC   0x54534146444c4f48ull /* "HOLDFAST" */
#define HF__TABLE_VERSION 1u

#ifndef HF__EMBEDDED_HOOKS
#define HF__SHORT_NAMES_MAX  262144u
#define HF__SHORT_NAMES_STEP 4096u
#define HF__LONG_NAMES_MAX   32768u
#define HF__LONG_NAMES_STEP  64u
#define HF__NODES_MAX        262144u
#define HF__NODES_STEP       1024u
#define HF__SESSIONS_MAX     4096u
#define HF__SESSIONS_STEP    64u
#else /* so small that a test fills and grows it in no time */
#define HF__SHORT_NAMES_MAX  512u
#define HF__SHORT_NAMES_STEP 64u
#define HF__LONG_NAMES_MAX   64u
#define HF__LONG_NAMES_STEP  16u
#define HF__NODES_MAX        2048u
#define HF__NODES_STEP       16u
#define HF__SESSIONS_MAX     128u
#define HF__SESSIONS_STEP    16u
#endif
#define HF__LOCKS_MAX        (HF__SHORT_NAMES_MAX + HF__LONG_NAMES_MAX)
#define HF__BUCKETS          131072u
#define HF__LOCK_GUARDS      64u
#define HF__TABLE_GUARD      HF__LOCK_GUARDS /* the one for index, names and rooms */
#define HF__GUARDS           (HF__LOCK_GUARDS + 1u)
#define HF__CHANGES_MAX      60u
#define HF__SHORT_NAME_BYTES 96u
#define HF__LONG_NAME_BYTES  1024u

#define HF__EPOCH_BITS   22
#define HF__COUNTER_BITS 40
#define HF__COUNTER_MAX  ((1ull << HF__COUNTER_BITS) - 1)
/* From here on a claim takes a new epoch; until the end there is room for every waiter there is. */
#define HF__COUNTER_LATE (HF__COUNTER_MAX - (1ull << 20))

/* The regions whose room grows. */
enum hf__region {
    HF__REGION_SHORT,    /* locks with names of up to 96 bytes */
    HF__REGION_LONG,     /* locks with longer ones             */
    HF__REGION_NODES,    /* places in the lines                */
    HF__REGION_SESSIONS, /* one for each client                */
};
#define HF__REGIONS 4

struct hf__header_cell {
    /* Written once, before anybody else sees the file. */
    uint64_t magic;
    uint64_t version;
    uint64_t shape; /* hash of every size above */
    uint64_t boot[2];
    uint64_t salt[2];
    uint64_t first_epoch;
    uint64_t check;
    uint64_t unused[7];

    /* Guarded by the table's guard. */
    uint64_t rooms[HF__REGIONS]; /* sealed: how many may be touched                        */
    uint64_t used[2];            /* sealed: locks ever given out, short and long           */
    uint64_t free_locks[2];      /* sealed: first of the locks given back, chained by next */
    uint64_t floor;              /* no fence of a name that was collected is above it      */
    uint64_t floor_check;
    uint64_t epoch; /* sealed: of the newest fences */
    uint64_t more_unused[485];
};

struct hf__change {
    uint64_t offset;
    uint64_t value;
};

struct hf__guard_cell {
    uint64_t word;    /* swapped; sealed: who is inside; its lower half is the futex */
    uint64_t journal; /* 0: nothing to do; else count << 56 | hash of the changes    */
    uint64_t unused[6];
    struct hf__change changes[HF__CHANGES_MAX];
};

struct hf__lock_cell {
    uint64_t low;      /* fence << 2 | flags; swapped with the next word, guarded while inflated */
    uint64_t high;     /* check << 32 | owner                                                   */
    uint64_t next;     /* sealed: the next lock of the bucket; table's guard                    */
    uint64_t line;     /* paired: first and last node; guarded                                  */
    uint64_t label;    /* name's hash << 11 | its length; written before the lock can be found  */
    uint64_t since_ns; /* hint: when the fast owner took it                                     */
    uint64_t unused[2];
};

struct hf__node_cell {
    uint64_t owner; /* swapped; sealed: the session that may use this node */
    uint64_t link;  /* guarded from here; paired: next and previous        */
    uint64_t state; /* check << 32 | lock, state and flags; the check covers the words below */
    uint64_t fence;
    uint64_t ends_ns;  /* 0: only with its owner                         */
    uint64_t lease_ns; /* 0: none; how long the turn lasts once granted  */
    uint64_t grace_ns;
    uint64_t since_ns;    /* hint: asked, or granted, when               */
    struct hf__wake wake; /* hint; never set back, whoever has the node  */
    uint32_t notice;      /* hint: raised when its owner should look     */
    uint64_t seen_fence;  /* hint: the owner knows of this grant         */
    uint64_t watching;    /* hint: the session that its owner watches    */
    uint64_t breaker;     /* hint: the session to tell when it has left  */
    uint64_t unused[4];
    char purpose[HF__PURPOSE_BYTES]; /* hint */
};

struct hf__session_cell {
    uint64_t state; /* swapped; sealed: generation << 16 | turn << 4 | state */
    uint64_t identity;
    uint64_t pid;
    uint64_t uid;
    uint64_t pid_namespace;
    uint64_t check;    /* of the words above but the first, and the generation */
    uint64_t stand_by; /* hint: identity of a process that stands by           */
    uint64_t sweeper;  /* hint: the session that cleans up after this one      */

    uint64_t news;         /* hints: raised when advance() would find something ...        */
    uint64_t holding_news; /* ... about what is held                                      */
    uint64_t fast_news;    /* ... about what is held without a node                       */
    uint64_t polling;      /* 1: it sleeps on its bell                                    */
    uint64_t unused[4];
    char purpose[HF__PURPOSE_BYTES]; /* hint */
};

static_assert(sizeof(struct hf__header_cell) == 4096, "a page");
static_assert(sizeof(struct hf__guard_cell) == 1024, "a round number");
static_assert(sizeof(struct hf__lock_cell) == 64, "a cache line");
static_assert(sizeof(struct hf__node_cell) == 256, "four cache lines");
static_assert(sizeof(struct hf__session_cell) == 256, "four cache lines");

#define HF__PAGE_BYTES    4096ull
#define HF__PAGES(bytes)  (((bytes) + HF__PAGE_BYTES - 1) / HF__PAGE_BYTES * HF__PAGE_BYTES)
#define HF__GUARDS_OFFSET HF__PAGE_BYTES
#define HF__BUCKETS_OFFSET                                                                         \
    (HF__GUARDS_OFFSET + HF__PAGES(HF__GUARDS * sizeof(struct hf__guard_cell)))
#define HF__SESSIONS_OFFSET (HF__BUCKETS_OFFSET + HF__PAGES(HF__BUCKETS * 8ull))
#define HF__NODES_OFFSET                                                                           \
    (HF__SESSIONS_OFFSET + HF__PAGES(HF__SESSIONS_MAX * sizeof(struct hf__session_cell)))
#define HF__LOCKS_OFFSET                                                                           \
    (HF__NODES_OFFSET + HF__PAGES(HF__NODES_MAX * sizeof(struct hf__node_cell)))
#define HF__SHORT_NAMES_OFFSET                                                                     \
    (HF__LOCKS_OFFSET + HF__PAGES(HF__LOCKS_MAX * sizeof(struct hf__lock_cell)))
#define HF__LONG_NAMES_OFFSET                                                                      \
    (HF__SHORT_NAMES_OFFSET + HF__PAGES(HF__SHORT_NAMES_MAX * (uint64_t)HF__SHORT_NAME_BYTES))
#define HF__TABLE_BYTES                                                                            \
    (HF__LONG_NAMES_OFFSET + HF__PAGES(HF__LONG_NAMES_MAX * (uint64_t)HF__LONG_NAME_BYTES))

/* A session, wherever it is named: slot (1 to 4096) in the low half, generation in the high one. */
#define HF__OWNER_NONE              0u
#define HF__OWNER(slot, generation) ((uint32_t)(slot) | (uint32_t)(generation) << 16)
#define HF__OWNER_SLOT(owner)       ((owner)&0xffffu)
#define HF__OWNER_GENERATION(owner) ((owner) >> 16)

/* The guard's word uses the free bit 15 of the slot. */
#define HF__GUARD_CROWDED 0x8000u

/* Flags of a lock's word. */
#define HF__WORD_INFLATED 1ull /* the truth is in the line, under the guard       */
#define HF__WORD_RETIRED  2ull /* no name: being collected, or never given out    */
#define HF__WORD_FLAGS    3ull
#define HF__WORD_SHIFT    2

enum hf__session_state {
    HF__SESSION_FREE,
    HF__SESSION_OPEN,
    HF__SESSION_DOOMED, /* found without a sign of life; looked at once more before it is DEAD */
    HF__SESSION_DEAD,   /* for good; to be swept                                               */
};

enum hf__node_state {
    HF__NODE_IDLE,
    HF__NODE_WAITING,
    HF__NODE_HOLDING,
    HF__NODE_ENDED, /* put out of the line by somebody else */
};

#endif
