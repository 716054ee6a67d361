/* world.h: what does a case find, and how does it tell what it saw?
 *
 * A case is a sentence about the contract. It runs in a process of its own, finds one client open
 * in `world->client`, builds its lock names with world_name, and either returns (it passed), or
 * has called one of the world_can_... functions that answered false (the recipe refused with the
 * documented code), or ended in a failed CHECK. What it leaves in the store is found afterwards. */
#ifndef CONFORMANCE_WORLD_H
#define CONFORMANCE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "holdfast/holdfast.h"
#include "list.h"

#define LIMIT_MS      30000 /* how long a case waits for what must come; far beyond what it takes */
#define A_WHILE_MS    150   /* how long it waits for what must not come; too short only misses */
#define PURPOSE       "held-for-a-test"
#define NS_PER_MS     1000000ull
#define UNTOUCHED(to) ((to *)(uintptr_t)64) /* out_ parameters stay as they were on failure */

struct world {
    const char *program; /* this executable, for peers */
    const char *url;
    const char *prefix; /* of every name that this case uses */
    int64_t lease_ms;   /* a short one that this store accepts */
    bool is_distant;    /* what is sent there, and comes from there, is some ms under way */
    uint32_t promises;  /* of the live store */
    struct hf_recipe_info recipe;
    hf_client *client;
    int refused; /* HF_E...: the recipe cannot do what this case is about, and said so */
};

struct name {
    char text[HF_NAME_BYTES_MAX + 1];
};

struct glob {
    char text[2 * HF_NAME_BYTES_MAX + 1];
};

#define CASE(sentence) void case_##sentence(struct world *world)

/* Every case that is defined is in the list: this is the only prototype that it has. */
#define DECLARE(sentence) CASE(sentence);
CASES(DECLARE)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            world_fail(__FILE__, __LINE__, #condition);                                            \
    } while (0)
#define CHECK_STATUS(expected, call) world_check_status(__FILE__, __LINE__, #call, expected, call)
#define CHECK_NUMBER(expected, actual)                                                             \
    world_check_number(__FILE__, __LINE__, #actual, (int64_t)(expected), (int64_t)(actual))
#define CHECK_TEXT(expected, actual) world_check_text(__FILE__, __LINE__, #actual, expected, actual)
#define WAIT_UNTIL(condition)                                                                      \
    for (uint64_t wait_until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS; !(condition);)            \
    world_wait_a_little(wait_until_ns, __FILE__, __LINE__, #condition)

_Noreturn void world_fail(const char *file, int line, const char *what);
void world_check_status(const char *file, int line, const char *call, int expected, int actual);
void world_check_number(const char *file, int line, const char *what, int64_t expected,
                        int64_t actual);
void world_check_text(const char *file, int line, const char *what, const char *expected,
                      const char *actual);
void world_wait_a_little(uint64_t until_ns, const char *file, int line, const char *what);

/* Turns live in a session of the client's: no more is left of one than of that. */
bool world_has_sessions(const struct world *world);
/* Every turn is agreed upon and written to disk before it is granted: turns are dear. Of etcd that
 * is all: it has no sessions, but leases, of the length that each turn asks for. */
bool world_agrees_first(const struct world *world);
/* So much is left of a lease that should have more than `ms`. */
int64_t world_left_ms(const struct world *world, int64_t ms);

/* For a wait in vain: whoever is asked has answered by then, however busy it is. */
int64_t world_brief_ms(const struct world *world);

uint64_t world_now_ns(void); /* CLOCK_BOOTTIME */
void world_sleep_ms(int64_t ms);
const char *world_status_name(int status); /* "HF_EBUSY" */
int world_thread_count(void);              /* of this process */
/* With gcc 12's address sanitizer while the other threads sleep: its allocator's locks, unlike
 * malloc's, stay locked in the child if another thread was allocating. */
pid_t world_fork(void);

/* The world of one case; begin opens the client, end closes it and waits until the store has
 * nothing left of this case. */
void world_begin(struct world *world);
void world_end(struct world *world);

struct hf_recipe_info world_recipe(const char *url); /* of the recipe behind this URL */
struct name world_name(const struct world *world, const char *suffix);
struct name world_glob(const struct world *world); /* everything that this case may leave */
hf_client *world_open(const struct world *world);
hf_client *world_open_for(const struct world *world, int64_t lease_ms);
hf_client *world_open_driven(const struct world *world); /* caller_driven */

/* Options: the short lease, and a wait of 0, of so long, or for ever. */
struct hf_acquire_options world_trying(const struct world *world);
struct hf_acquire_options world_waiting(const struct world *world, int64_t wait_ms);
struct hf_acquire_options world_shared(const struct world *world, int64_t wait_ms);
struct hf_acquire_options world_fixed(const struct world *world, int64_t lease_ms);

/* Take it or fail the case. */
hf_grant *world_take(hf_client *client, const char *name, const struct hf_acquire_options *options);
hf_claim *world_claim(hf_client *client, const char *name,
                      const struct hf_acquire_options *options);
hf_grant *world_fetch(hf_claim *claim);                       /* waits for the grant of a claim */
void world_give_back(hf_grant *grant);                        /* HF_OK expected */
int world_try(hf_client *client, const char *name, int mode); /* and lets go again at once */

/* The next event, waiting for it by the descriptor; the kind must be this one. */
struct hf_event world_event(hf_client *client, int kind);
bool world_tells_break(const char *cause); /* at once, or by what is missing at a renewal */
bool world_fd_readable(int fd);
struct hf_client_stats world_stats(hf_client *client);

/* What the list says of one name. */
struct listed {
    size_t holders;
    size_t waiters;
};
struct listed world_listed(const struct world *world, const char *name);
/* Until so many stand in line; on a recipe that shows no waiters, a while. */
void world_wait_for_waiters(const struct world *world, const char *name, size_t count);

/* False: the recipe does without, the documented refusal was seen, and the case is over. */
bool world_can_share(struct world *world);
bool world_can_downgrade(struct world *world);
bool world_can_break(struct world *world);
bool world_has_fences(struct world *world);
bool world_is_fair(struct world *world);
/* A holder that died, or stands still, does not keep others out for ever. */
bool world_frees_the_dead(struct world *world);

/* A recipe that refuses what no promise names must say so in its caveat. */
bool world_caveat_names(const struct world *world, const char *word);

#endif
