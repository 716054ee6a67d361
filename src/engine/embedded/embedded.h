/* embedded.h: what one connection of the embedded engine knows, and what its files ask of each
 * other.
 *
 * The design is told in docs/embedded.md. Nothing here is shared between threads: all calls on one
 * connection are made under the client's mutex. What is shared, between threads and processes, is
 * the table (layout.h), and nothing in it is believed unchecked. */
#ifndef HF_EMBEDDED_EMBEDDED_H
#define HF_EMBEDDED_EMBEDDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/embedded/cells.h"
#include "engine/embedded/word.h"
#include "engine/engine.h"

#define HF__SHORTCUTS     4096u
#define HF__PEERS_MAX     256u
#define HF__RINGS_MAX     32u
#define HF__SPARE_NODES   64u
#define HF__SWEEPS_MAX    64u
#define HF__BROKEN_NS_MIN 1000000000ull /* how long a broken holder may stay if it does not react */
#define HF__NET_NS        1000000000ull /* how often the safety net looks ...                     */
#define HF__NET_AGAIN_NS  250000000ull  /* ... and how long after a suspicion it looks again      */
#define HF__POLL_NS       100000000ull  /* how often a peer without a pidfd is looked at          */
#define HF__LINE_STALE    1 /* the lock's place has another name by now: look it up again */

struct hf__embedded;

/* Another session, as far as we had to do with it. */
struct hf__peer {
    uint32_t owner; /* HF__OWNER_NONE: unused */
    int bell_fd;    /* -1: not yet rung       */
    int death_fd;   /* what tells of its death: a pidfd, or its sign of life; -1: none */
    int64_t pid;
    uint32_t needed; /* stakes that watch it */
    bool polled;     /* no pidfd: look at it every HF__POLL_NS too   */
    bool suspected;  /* by the safety net: dead, and no word of it   */
    uint64_t used;   /* when last, in calls                          */
};

/* One claim of this connection. */
struct hf__stake {
    struct hf__list place; /* in conn->fast, ->waiting, ->holding or ->leaving */
    uint8_t token[HF__TOKEN_BYTES];
    struct hf__ticket ticket; /* of the last request about it */
    struct hf__word word;     /* fast: exactly what stands in the lock's cell */
    uint32_t lock;
    uint32_t node; /* 0: fast */
    uint64_t fence;
    uint64_t lease_ns;
    uint64_t ends_ns; /* when somebody must look: the own end, or that of the one ahead; 0: never */
    uint64_t seen_state;
    uint32_t seen_notice;
    uint32_t ahead;         /* the session ahead, as last seen in the line        */
    uint32_t watched;       /* the session that we watch; HF__OWNER_NONE: nobody  */
    struct hf__peer *watch; /* ... as a peer, if it is of another process         */
    const char *cause;      /* told to be gone, and why; NULL: not yet            */
    bool waiting;
    bool blocking;
    bool shared;
    bool ends;
    bool suspected; /* by the safety net: granted, and no word of it */
};

struct hf__stakes {
    struct hf__stake **slots; /* open addressing by token */
    size_t room;              /* a power of two, or 0     */
    size_t count;
    struct hf__list idle;
    struct hf__stake_block *blocks;
};

/* Somebody to tell, once the guard is free. */
struct hf__ring {
    uint32_t node;
    uint32_t owner;
    bool granted;
    bool blocking;
    bool holding;
    bool bell_only; /* a session, not a node */
};

struct hf__outbox_item {
    struct hf__reply reply;
    struct hf__holder holder;
};

struct hf__outbox {
    struct hf__outbox_item *items;
    size_t room; /* a power of two, or 0 */
    size_t first;
    size_t count;
};

/* A BREAK that waits for the holder to leave. */
struct hf__breaking {
    struct hf__breaking *next;
    struct hf__ticket ticket;
    uint32_t lock;
    uint32_t node;
    uint64_t fence;
    uint64_t until_ns;    /* when the holder is put out   */
    uint64_t deadline_ns; /* when the request is given up */
};

/* A LIST under way. */
struct hf__listing;

struct hf__shortcut {
    uint64_t hash;
    uint32_t lock; /* counts from 1; 0: none */
};

struct hf__embedded {
    struct hf__conn base;
    struct hf__table table;
    bool opened; /* there is something to close */
    int failure; /* < 0: going down for this, when all is answered */

    /* who we are */
    uint32_t owner;
    struct hf__session_cell *session;
    uint64_t session_word; /* as it stood when we last saw that we are open */
    uint64_t identity;
    int64_t pid;
    uint64_t pid_namespace;
    int bell_fd;
    int life_fd;
    uint64_t life_inode;
    int epoll_fd;
    char purpose[HF__PURPOSE_BYTES];
    char host[HF__HOST_BYTES];

    /* what we asked for */
    struct hf__stakes stakes;
    struct hf__list fast;    /* held without a node      */
    struct hf__list waiting; /* in line                  */
    struct hf__list holding; /* held with a node         */
    struct hf__list leaving; /* told; leaves as soon as the caller has heard it */
    struct hf__outbox outbox;
    struct hf__holder holder; /* of the answer given last */
    struct hf__breaking *breakings;
    struct hf__listing *listings;
    struct hf__shortcut shortcuts[HF__SHORTCUTS];

    /* nodes of ours that are in no line */
    uint32_t spare_nodes[HF__SPARE_NODES];
    uint32_t spare_count;
    uint32_t node_hint;
    uint32_t collect_hint[2];

    /* the change under way */
    uint32_t guard; /* HF__GUARDS: none */
    uint32_t change_count;
    struct hf__change changes[HF__CHANGES_MAX];
    struct hf__ring rings[HF__RINGS_MAX];
    uint32_t ring_count;

    /* who we know */
    struct hf__peer peers[HF__PEERS_MAX];
    uint16_t peer_of[HF__SESSIONS_MAX + 1]; /* index + 1 */
    uint32_t peers_most;
    uint32_t polled_count;
    uint64_t calls;

    /* what is due */
    uint64_t now_ns;
    uint64_t due_ns;
    uint64_t told_ns;   /* until when whoever polls thinks that he may sleep; 0: nobody polls */
    uint64_t polled_ns; /* ... and what he was told when he went to sleep */
    uint64_t net_ns;    /* when the safety net looks next; HF__NEVER: nothing to look at */
    uint64_t poll_ns;   /* when peers without a pidfd are looked at next                 */
    uint64_t news_seen;
    uint64_t holding_news_seen;
    uint64_t fast_news_seen;
    bool slept; /* pollset() was called since we last looked at the epoll descriptor */
    uint32_t sweeps[HF__SWEEPS_MAX];
    uint32_t sweep_count;
    uint32_t sweep_phase;
    uint32_t sweep_index;
};

static inline void hf__embedded_due(struct hf__embedded *conn, uint64_t at_ns)
{
    if (at_ns < conn->due_ns)
        conn->due_ns = at_ns;
}

/* --- directory.c: is this a directory where locks may live? --- */

int hf__directory_open(struct hf__embedded *conn, const struct hf__url *url);
/* Opens what must be ours; flags as of open(2), without O_NOFOLLOW and the like, which are
 * added. */
int hf__directory_file(struct hf__embedded *conn, const char *name, int flags, unsigned kind);
unsigned hf__directory_mode(const struct hf__embedded *conn);
int hf__directory_lock(struct hf__embedded *conn, int *out_fd); /* init.lock, for a short time */
void hf__directory_unlock(int fd);

/* --- epoch.c: which epoch may fences begin with? --- */

/* The stored one, 0 if there is none. HF_EINTEGRITY if it is damaged. */
int hf__epoch_read(struct hf__embedded *conn, uint64_t *out_epoch);
/* Durable when it returns. Under init.lock. */
int hf__epoch_write(struct hf__embedded *conn, uint64_t epoch);
uint64_t hf__epoch_after(uint64_t epoch);

/* --- table.c: is there a table, and is it of this boot? --- */

int hf__table_open(struct hf__embedded *conn); /* under init.lock */
void hf__table_close(struct hf__embedded *conn);
int hf__table_damaged(struct hf__embedded *conn, const char *what);
/* Makes sure that `count` of them may be touched: HF_OK, or HF_ELIMIT, HF_ESYSTEM,
 * HF_EINTEGRITY. */
int hf__table_grow(struct hf__embedded *conn, enum hf__region region, uint32_t count);
int hf__table_grow_sessions(struct hf__embedded *conn, uint32_t count); /* under init.lock */
/* The same without growing: is it within what exists? */
bool hf__table_reaches(struct hf__embedded *conn, enum hf__region region, uint32_t count);
int hf__table_new_epoch(struct hf__embedded *conn, uint64_t *out_epoch);
int hf__table_locks_used(struct hf__embedded *conn, enum hf__region region, uint32_t *out_used);

/* --- guard.c: who may change this, and what if he dies while he does? --- */

int hf__guard_take(struct hf__embedded *conn, uint32_t guard);
void hf__guard_commit(struct hf__embedded *conn);
/* Drops what was not committed, and lets others in. */
int hf__guard_give(struct hf__embedded *conn);
uint64_t hf__guard_get(const struct hf__embedded *conn, const uint64_t *word);
void hf__guard_put(struct hf__embedded *conn, uint64_t *word, uint64_t value);
/* So many more changes fit into the journal; false: commit first. */
bool hf__guard_has_room(const struct hf__embedded *conn, uint32_t changes);

/* --- index.c: which lock has this name? --- */

uint64_t hf__index_hash(const struct hf__table *table, const char *name, size_t name_bytes);
/* Finds it, or makes it; HF__LINE_STALE: there is none, and none was to be made. */
int hf__index_find(struct hf__embedded *conn, const struct hf__request *request, bool make,
                   uint32_t *out_lock);
bool hf__index_is(const struct hf__embedded *conn, uint32_t lock, const char *name,
                  size_t name_bytes);
/* Copies the name, terminated; 0: there is none, or it is damaged. */
size_t hf__index_name(const struct hf__embedded *conn, uint32_t lock, char out_name[1025]);

/* --- identity.c: which process is this? --- */

/* The same for all connections of one process; another after fork and after exec. Never 0. */
uint64_t hf__identity_make(void);
uint64_t hf__identity_pid_namespace(void); /* 0: unknown */

/* --- session.c: who is alive? --- */

int hf__session_open(struct hf__embedded *conn, const char *purpose); /* under init.lock */
void hf__session_leave(struct hf__embedded *conn); /* nothing of ours may be left in the table */
void hf__session_close(struct hf__embedded *conn);
/* Nobody can have made anything in our name. */
bool hf__session_tidy(const struct hf__embedded *conn);
/* Of a dead session that has been swept: its files go, and its slot may be used again. */
void hf__session_free(struct hf__embedded *conn, uint32_t owner);
/* HF_OK: open; HF_ELOST: others have declared us dead. */
int hf__session_self(struct hf__embedded *conn);
/* 1: dead, for good; 0: alive; < 0: cannot be told. *out_pid: whose lock proves it, 0: unknown. */
int hf__session_dead(struct hf__embedded *conn, uint32_t owner, int64_t *out_pid);
/* The same by what the table says alone, without a system call. */
int hf__session_gone(struct hf__embedded *conn, uint32_t owner);
/* Not even to be swept any more. */
bool hf__session_vanished(struct hf__embedded *conn, uint32_t owner);
/* Who has this slot; false: nobody, or it is damaged. */
bool hf__session_owner(struct hf__embedded *conn, uint32_t slot, uint32_t *out_owner);
bool hf__session_is_ours(const struct hf__embedded *conn, uint32_t owner);
struct hf__session_cell *hf__session_cell(const struct hf__embedded *conn, uint32_t owner);
int hf__session_name(const struct hf__embedded *conn, uint32_t owner, const char *suffix,
                     char out_name[64]);
/* Its sign of life, to hear it hang up; < 0: it cannot be had, as that of a session of our own
 * process, whose proof of life would be gone when it is closed. */
int hf__session_open_life(struct hf__embedded *conn, uint32_t owner);
int hf__session_stand_by(const struct hf__embedded *conn, char error[HF__ERROR_BYTES]);
/* Is this the name of a session's file, and of which session? */
bool hf__session_parse(const char *name, uint32_t *out_owner);
/* Whose sign of life this file is, whatever the table says; 0: nobody's. */
int64_t hf__session_file_lives(struct hf__embedded *conn, const char *name);
int64_t hf__session_pid(const struct hf__embedded *conn, uint32_t owner); /* 0: unknown */
void hf__session_describe(const struct hf__embedded *conn, uint32_t owner,
                          struct hf__holder *out_holder);

/* --- sweep.c: what did the dead leave behind? --- */

void hf__sweep_add(struct hf__embedded *conn, uint32_t owner);
/* A piece of the work, or all of it. */
void hf__sweep_run(struct hf__embedded *conn, bool all);
void hf__sweep_self(struct hf__embedded *conn); /* what others made in our name */
/* At open, under init.lock: files without a session. */
void hf__sweep_files(struct hf__embedded *conn);
/* Everybody who died without being noticed. */
void hf__sweep_look(struct hf__embedded *conn);

/* --- peer.c: how is another process watched and woken? --- */

struct hf__peer *hf__peer_find(struct hf__embedded *conn, uint32_t owner);
/* 1: it is dead; 0: it is watched (*out_peer, NULL: needs no watching); < 0: failed. */
int hf__peer_watch(struct hf__embedded *conn, uint32_t owner, struct hf__peer **out_peer);
/* Looks again: 1 dead, 0 alive. */
int hf__peer_check(struct hf__embedded *conn, struct hf__peer *peer);
/* Its pidfd is of no use: look at it from time to time. */
void hf__peer_poll(struct hf__embedded *conn, struct hf__peer *peer);
void hf__peer_ring(struct hf__embedded *conn, uint32_t owner);
void hf__peer_forget(struct hf__embedded *conn, struct hf__peer *peer);
void hf__peer_close_all(struct hf__embedded *conn);

/* --- node.c: the places in the lines --- */

struct hf__node {
    uint32_t index;
    uint32_t owner;
    uint32_t lock;
    uint32_t next;
    uint32_t previous;
    enum hf__node_state state;
    bool shared;
    bool blocking;
    bool broken;
    bool expired;
    uint64_t fence;
    uint64_t ends_ns;
    uint64_t lease_ns;
    uint64_t grace_ns;
};

int hf__node_take(struct hf__embedded *conn, uint32_t owner, uint32_t *out_node);
void hf__node_give(struct hf__embedded *conn, uint32_t node); /* back to our spare ones */
void hf__node_free(struct hf__embedded *conn, uint32_t node, uint32_t owner);
void hf__node_free_spare(struct hf__embedded *conn);
/* Under the guard of its lock. HF_EINTEGRITY if it is not what it should be. */
int hf__node_read(struct hf__embedded *conn, uint32_t index, struct hf__node *out_node);
void hf__node_write(struct hf__embedded *conn, const struct hf__node *node);
void hf__node_link(struct hf__embedded *conn, const struct hf__node *node);
/* Without a guard: false if it was being changed. */
bool hf__node_peek(const struct hf__embedded *conn, uint32_t index, struct hf__node *out_node);
uint32_t hf__node_owner(const struct hf__embedded *conn, uint32_t index);

/* --- line.c: who holds, and who is next? --- */

struct hf__line {
    struct hf__embedded *conn;
    struct hf__lock_cell *cell;
    uint32_t lock;
    uint32_t owner; /* fast owner, who comes first of all; HF__OWNER_NONE */
    uint64_t fence; /* of the last grant                                  */
    uint32_t first;
    uint32_t last;
};

/* Takes the guard and sees to it that the truth is in the line. HF__LINE_STALE: no such lock. */
int hf__line_enter(struct hf__embedded *conn, uint32_t lock, struct hf__line *out_line);
/* Commits, lets others in, tells who must be told. */
int hf__line_leave(struct hf__line *line);
/* Leaves without a change; returns the status. */
int hf__line_fail(struct hf__line *line, int status);
int hf__line_append(struct hf__line *line, struct hf__node *node);
int hf__line_remove(struct hf__line *line, struct hf__node *node, enum hf__node_state state);
/* The fast owner gets a node, at the head of the line. */
int hf__line_seat(struct hf__line *line, struct hf__node *node);
void hf__line_unown(struct hf__line *line); /* the fast owner goes */
/* Puts out those whose time is over, and lets in whoever is next. */
int hf__line_settle(struct hf__line *line, uint64_t now_ns);
int hf__line_reap(struct hf__line *line, uint32_t owner);
void hf__line_raise(struct hf__line *line, uint64_t fence); /* nobody may hold it without a node */
uint32_t hf__line_ahead(struct hf__line *line, uint32_t until);
void hf__line_forget_ring(struct hf__line *line, uint32_t node);
void hf__line_ring_behind(struct hf__line *line, const struct hf__node *node);
/* Makes sure that holders watch each other, and rings those who do not know of their grant. */
int hf__line_alert(struct hf__line *line, bool unseen);
void hf__line_ring(struct hf__line *line, const struct hf__node *node, bool granted);
/* For whoever broke a turn and waits for its end. */
void hf__line_ring_session(struct hf__line *line, uint32_t owner);
bool hf__line_crowded(struct hf__line *line); /* somebody waits */
/* The nodes in order: 1: there is one; 0: that was the last; < 0: damaged. */
int hf__line_first(struct hf__line *line, struct hf__node *out_node);
int hf__line_next(struct hf__line *line, struct hf__node *node);
/* A node of this lock, wherever it is. */
int hf__line_member(struct hf__line *line, uint32_t index, struct hf__node *out_node);
void hf__line_tell(struct hf__embedded *conn); /* all rings, now */
/* The word without a guard; false: it is changing, or damaged. */
bool hf__line_peek(const struct hf__embedded *conn, uint32_t lock, struct hf__word *out_word);

/* --- stakes.c: our own claims, by token --- */

struct hf__stake *hf__stakes_find(const struct hf__stakes *stakes, const uint8_t *token);
struct hf__stake *hf__stakes_add(struct hf__embedded *conn, const uint8_t *token);
void hf__stakes_remove(struct hf__embedded *conn, struct hf__stake *stake);
void hf__stakes_done(struct hf__embedded *conn);

/* --- outbox.c: replies that wait to be fetched --- */

int hf__outbox_reserve(struct hf__embedded *conn, size_t count);
struct hf__outbox_item *hf__outbox_add(struct hf__embedded *conn, const struct hf__ticket *ticket,
                                       enum hf__reply_kind kind);
bool hf__outbox_fetch(struct hf__embedded *conn, struct hf__reply *out_reply);
void hf__outbox_done(struct hf__embedded *conn);

/* --- ask.c: how does a claim enter the contest? --- */

int hf__ask_claim(struct hf__embedded *conn, const struct hf__request *request);
/* 1: granted, with the fence in request->prompt; otherwise nothing has happened. */
int hf__ask_at_once(struct hf__embedded *conn, const struct hf__request *request);
void hf__ask_write_purpose(struct hf__embedded *conn, uint32_t node, const char *purpose);
struct hf__word hf__ask_word(const struct hf__embedded *conn, uint32_t lock, uint64_t fence,
                             uint32_t owner);

/* --- keep.c: where does a claim stand, and how does it leave? --- */

int hf__keep_inspect(struct hf__embedded *conn, const struct hf__request *request);
int hf__keep_release(struct hf__embedded *conn, const struct hf__request *request);
/* 1: released; 0: nothing has happened. */
int hf__keep_give_at_once(struct hf__embedded *conn, const struct hf__request *request);
int hf__keep_renew(struct hf__embedded *conn, const struct hf__request *request);
int hf__keep_downgrade(struct hf__embedded *conn, const struct hf__request *request);
/* Takes it out of the line, and forgets it. 1: it was there until now; 0: it was not. */
int hf__keep_leave(struct hf__embedded *conn, struct hf__stake *stake, const char **out_cause);
/* The same, if it is held without a node and nobody has come meanwhile. */
bool hf__keep_release_fast(struct hf__embedded *conn, struct hf__stake *stake);
void hf__keep_drop(struct hf__embedded *conn, struct hf__stake *stake);
const char *hf__keep_cause(const struct hf__node *node);
/* The node that somebody made for our fast turn, to break it: 1; 0: none. */
int hf__keep_adopted(struct hf__line *line, const struct hf__stake *stake,
                     struct hf__node *out_node);
void hf__keep_answer_granted(struct hf__embedded *conn, const struct hf__stake *stake,
                             const struct hf__ticket *ticket, bool others_wait);
void hf__keep_answer_gone(struct hf__embedded *conn, const struct hf__ticket *ticket, bool released,
                          const char *cause);
void hf__keep_answer_queued(struct hf__line *line, const struct hf__stake *stake,
                            const struct hf__ticket *ticket);
/* Under the guard: who holds it, and how many are before `until` (0: in all). */
void hf__keep_describe(struct hf__line *line, uint32_t until, struct hf__outbox_item *answer);

/* --- watch.c: what happened to our claims? --- */

/* It holds now: so many words about it change. */
void hf__watch_hold(struct hf__embedded *conn, struct hf__stake *stake,
                    const struct hf__node *node);
/* Under the guard: notes who is ahead. */
int hf__watch_ahead(struct hf__line *line, struct hf__stake *stake, const struct hf__node *node);
/* Without it: watches him. 1: he is dead. */
int hf__watch_start(struct hf__embedded *conn, struct hf__stake *stake);
void hf__watch_stop(struct hf__embedded *conn, struct hf__stake *stake);
/* Lets the line settle, and sees to it that somebody living is watched. `death`: somebody died. */
int hf__watch_look(struct hf__embedded *conn, struct hf__stake *stake, bool death);
/* It could not be looked at: once more, soon. */
void hf__watch_again(struct hf__embedded *conn, struct hf__stake *stake);
/* Takes the dead one out of the line, and everybody who does not know of his grant is rung. */
int hf__watch_mend(struct hf__embedded *conn, uint32_t lock, uint32_t dead);
/* 1: it stands, holding or waiting; 0: it is gone or broken (and forgotten, if nothing is left). */
int hf__watch_refresh(struct hf__embedded *conn, struct hf__stake *stake, const char **out_cause);
/* Its lock is HF__LINE_STALE: how did it end? HF_EINTEGRITY if it did not. */
int hf__watch_ended(struct hf__embedded *conn, const struct hf__stake *stake,
                    struct hf__node *out_node);
bool hf__watch_crowded(const struct hf__embedded *conn, const struct hf__stake *stake);

/* --- news.c: what has happened since we last looked? --- */

/* Refreshes it, and tells what the caller does not know yet. */
int hf__news_check(struct hf__embedded *conn, struct hf__stake *stake);
int hf__news_fetch(struct hf__embedded *conn);
/* Those that were told to be gone leave now. */
int hf__news_leave(struct hf__embedded *conn);
int hf__news_events(struct hf__embedded *conn);
int hf__news_timers(struct hf__embedded *conn);

/* --- net.c: has a ring been lost? --- */

int hf__net_look(struct hf__embedded *conn);

/* --- breaking.c --- */

int hf__breaking_ask(struct hf__embedded *conn, const struct hf__request *request);
int hf__breaking_check(struct hf__embedded *conn);
void hf__breaking_done(struct hf__embedded *conn);

/* --- listing.c --- */

int hf__listing_ask(struct hf__embedded *conn, const struct hf__request *request);
int hf__listing_next(struct hf__embedded *conn, struct hf__reply *out_reply);
void hf__listing_done(struct hf__embedded *conn);

#endif
