/* scene.h: where a fault case plays: processes that come and go, and one log of what they did.
 *
 * The director (the process of the case) opens no client while actors live, so that it may fork
 * at any moment; actors are forked from it, and write into the history that they inherit. */
#ifndef FAULTS_SCENE_H
#define FAULTS_SCENE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dice.h"
#include "history.h"
#include "world.h"

#define ACTORS_MAX 64
#define SERVED_MAX 1024

/* In shared memory. */
struct stage {
    atomic_bool over;                      /* actors go home                               */
    _Atomic uint64_t rescued[ACTORS_MAX];  /* of the actor that plays this part now        */
    _Atomic uint64_t rescued_before;       /* of those who left                            */
    _Atomic uint64_t acts[ACTORS_MAX];     /* how much each part has done                  */
    atomic_bool holding[ACTORS_MAX];       /* between a grant and its release */
    _Atomic uint64_t numbers[16];          /* whatever a case counts                       */
    _Atomic uint64_t served[SERVED_MAX];   /* who, in order                                */
    _Alignas(64) _Atomic uint64_t pair[2]; /* what the locks protect, read and written as  */
    _Alignas(64) _Atomic uint64_t counter; /* two steps: atomic only to keep tools quiet   */
};

struct scene {
    struct world world;
    bool is_long; /* the long version of the case */
    int orders;   /* somebody who looks after the server and the network; -1: nobody */
    struct history *history;
    struct stage *stage;
    void *own; /* of the case; actors inherit it */
    struct actor {
        pid_t pid;
        int part;
    } actors[ACTORS_MAX];
};

void scene_begin(struct scene *scene, size_t records_max);
void scene_end(struct scene *scene);

/* Forks an actor for this part; it exits 0 when the role returns. */
void scene_enter(struct scene *scene, int part, void (*role)(struct scene *scene, int part));
void scene_kill(struct scene *scene, int part); /* writes it down, SIGKILL, and reaps */
void scene_stop(struct scene *scene, int part); /* SIGSTOP, and waits until it stands */
void scene_continue(struct scene *scene, int part);
void scene_leave(struct scene *scene, int part); /* it must exit with 0 by itself */

/* An order to whoever looks after the server and the network, and what stands behind its `ok`. */
struct answer {
    char text[256];
};
struct answer scene_order(struct scene *scene, const char *order);
uint64_t scene_stat(struct scene *scene, const char *name); /* of the proxy */

/* For actors: every step of an attempt is written down. */
struct turn {
    struct history_record record; /* kind and time change, the rest stays */
    hf_grant *grant;
    bool ends; /* by itself, if its process stands still: a fixed lease, or a server's */
};
struct turn scene_ask(struct scene *scene, uint32_t lock, int mode);
void scene_granted(struct scene *scene, struct turn *turn, hf_grant *grant);
void scene_note(struct scene *scene, struct turn *turn, enum history_kind kind, uint64_t at_ns);
/* It was valid, and that was asked after this time. */
void scene_valid(struct scene *scene, struct turn *turn, uint64_t look_ns);
/* Acquires, by name_of(lock). On another answer than HF_OK the attempt is over. */
int scene_take(struct scene *scene, hf_client *client, struct turn *turn,
               const struct hf_acquire_options *options);
int scene_give_back(struct scene *scene, struct turn *turn);
/* Looks until it is not valid any more or until the time has come; true: still valid. */
bool scene_hold_until(struct scene *scene, struct turn *turn, uint64_t until_ns);
void scene_tell_rescued(struct scene *scene, int part, hf_client *client);

struct name scene_name(const struct scene *scene, uint32_t lock);

/* Does the recipe promise the order of arrival? Where it does not, no order is judged. */
bool scene_is_fair(const struct scene *scene);

/* For the director, when all have left: nobody broke a promise, nobody was rescued by a timer,
 * nothing is left. */
struct history_report scene_judge(struct scene *scene, enum history_order order);
/* The same on servers, where what the dead left ends by itself; then only fences are there. */
struct history_report scene_judge_store(struct scene *scene, enum history_order order);
size_t scene_count_listed(struct scene *scene);

#endif
