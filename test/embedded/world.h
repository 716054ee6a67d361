/* world.h: a directory with a table, and connections that are driven through the seam. */
#ifndef TEST_EMBEDDED_WORLD_H
#define TEST_EMBEDDED_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/env.h"
#include "base/url.h"
#include "engine/embedded/embedded.h"
#include "engine/engine.h"

#define WORLD_PATIENCE_MS 60000 /* how long anything may take before the test gives it up */
#define WORLD_NEWS_MAX    4096

struct world {
    char directory[128];
    struct hf__env env;
    struct hf__url url;
};

/* What a reply said, copied, because what it points at lives only until the next one. */
struct world_reply {
    enum hf__reply_kind kind;
    struct hf__ticket ticket;
    uint64_t fence;
    uint32_t ahead;
    bool released;
    bool others_wait;
    bool has_holder;
    int status;
    char cause[32];
    struct hf__wake *wake;
    struct hf__holder holder;
};

struct world_entry;

/* A connection, with what it has heard and not yet been asked for. */
struct mate {
    struct world *world;
    struct hf__conn *conn;
    uint64_t next_id;
    uint32_t round;
    struct world_reply *news;
    size_t news_count;
    struct world_entry *entries; /* where the LIST under way puts them */
    size_t entry_most;
    size_t entry_count;
    int dead; /* advance() ended with this */
};

/* How a claim is to be made; zeroed it is exclusive, waits, and nobody blocks on it. */
struct wish {
    bool shared;
    bool once;
    bool blocking;
    bool ends;
    uint64_t lease_ns;
    uint64_t grace_ns;
    const char *purpose;
};

struct stub {
    uint64_t id;
    uint8_t token[HF__TOKEN_BYTES];
    const char *name;
    uint64_t fence;
    bool shared;
};

void world_make(struct world *world);
void world_make_at(struct world *world, const char *directory);
/* Removes the directory and everything in it. */
void world_end(struct world *world);
/* The files in it whose names begin so. */
size_t world_files(const struct world *world, const char *prefix);

/* Removes the files whose names begin so. */
void world_remove(const struct world *world, const char *prefix);

/* open() alone: its status; the text is in mate->conn->error. */
int mate_open(struct mate *mate, struct world *world, const char *purpose);
void mate_close(struct mate *mate);

/* Sends it and returns the reply to it (LIST: the DONE). kind -1: submit() refused, status says
 * why. */
struct world_reply mate_ask(struct mate *mate, struct hf__request *request);
struct world_reply mate_claim(struct mate *mate, const char *name, const struct wish *wish,
                              struct stub *out_stub);
struct world_reply mate_tell(struct mate *mate, enum hf__request_kind kind,
                             const struct stub *stub);
struct world_reply mate_release(struct mate *mate, const struct stub *stub);

/* Waits until there is news of that kind about this claim, and takes it. False: it did not come. */
bool mate_hears(struct mate *mate, const struct stub *stub, enum hf__reply_kind kind,
                struct world_reply *out_reply);
/* The same, but only for so long; 0 looks once. */
bool mate_hears_within(struct mate *mate, const struct stub *stub, enum hf__reply_kind kind,
                       struct world_reply *out_reply, int64_t wait_ms);
/* BREAK and LIST. */
struct world_reply mate_break(struct mate *mate, const char *name, uint64_t fence);
struct world_entry {
    char name[1025];
    size_t name_bytes;
    int mode;
    bool waiting;
    uint32_t position;
    uint64_t fence;
    int64_t remaining_ms;
    int64_t age_ms;
    int64_t pid;
    char host[HF__HOST_BYTES];
    char purpose[HF__PURPOSE_BYTES];
};
/* How many there are; fills up to `most`. < 0: it failed. */
int mate_list(struct mate *mate, const char *glob, struct world_entry *out_entries, size_t most);
/* Fetches what there is, without waiting. */
void mate_drain(struct mate *mate);
/* Sleeps as a keeper would, for at most so long, and fetches what there is. */
void mate_sleep(struct mate *mate, int64_t wait_ms);

struct hf__embedded *mate_inside(const struct mate *mate);

/* What is left in the table: locks held, lines not empty, nodes and sessions in use, guards
 * taken. */
struct remains {
    uint32_t owned;
    uint32_t inflated;
    uint32_t nodes;
    uint32_t sessions;
    uint32_t guards;
    uint32_t journals;
};
struct remains mate_remains(const struct mate *mate);

/* Forks; the child returns from `run` into _exit. */
pid_t world_fork(struct world *world, int (*run)(struct world *world, void *context),
                 void *context);
/* Steps that processes wait for: false if it did not come. */
void world_step(_Atomic uint32_t *step, uint32_t value);
bool world_wait_step(_Atomic uint32_t *step, uint32_t value);
/* Memory that children share. */
void *world_share(size_t bytes);
void world_unshare(void *memory, size_t bytes);

#endif
