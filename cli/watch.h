/* watch.h: a command that runs under the lock, and how it comes to an end. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "child.h"
#include "group.h"
#include "run.h"

enum watch_phase {
    WATCH_RUNNING, /* nothing is wrong                                             */
    WATCH_ENDING,  /* SIGTERM was sent to the whole group; the grace runs          */
    WATCH_KILLING, /* SIGKILL is sent, again and again until nobody is left        */
};

struct watch {
    struct run *run;
    struct child child;
    struct group group;
    enum watch_phase phase;
    bool has_ended;    /* the command itself; others of its group may live            */
    bool all_gone;     /* ... or not                                                  */
    int ended_by;      /* the signal that ended it, or 0                              */
    int exit_code;     /* with which it ended otherwise                               */
    int exec_errno;    /* why it could not be executed, or 0                          */
    bool lost;         /* the lock, or the certainty of it: the command was stopped   */
    bool was_stopped;  /* and is to see first whether the lock is still there         */
    int typed;         /* the last signal that the keyboard sent to our group, or 0   */
    bool had_terminal; /* when it ended                                             */

    uint64_t valid_until_ns; /* as last seen                                        */
    uint64_t doubt_ns;       /* not valid since, and no event has told why; 0: none */
    uint64_t kill_at_ns;     /* ENDING: when KILLING begins                         */
    uint64_t tick_ns;        /* between looks at a group that nobody tells us about */
    uint64_t guard_told_ns;  /* by when the guard is to end the command             */
    uint64_t guard_retry_ns; /* 0, or when another guard is to be tried             */
};

/* Returns when the command and all of its group are gone. */
void watch_until_gone(struct watch *watch);

/* ending.c */

/* Looks at the lock: is it still ours, and for long enough? */
void ending_look_at_lock(struct watch *watch, uint64_t now_ns);

/* The lock is gone. One that was broken leaves a grace, unless we were stopped and do not know how
 * much of it has passed; others leave none. */
void ending_lost(struct watch *watch, uint64_t now_ns, const char *cause);

/* Does what is due: SIGTERM for those whom the command left behind, SIGKILL for all when it is
 * time. */
void ending_step(struct watch *watch, uint64_t now_ns);

/* When the next step is due at the latest. */
uint64_t ending_due_ns(const struct watch *watch, uint64_t now_ns);

/* By when the guard is to end the command without being told. */
uint64_t ending_guard_ns(const struct watch *watch);

#endif
