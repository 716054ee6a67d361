/* program.h: what is to be executed, worked out before the fork. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#define PROGRAM_OWN_VARIABLES 3

/* Owned, but for argv and the strings of the environment behind our own variables. */
struct program {
    char **argv;
    char **environment;
    char **paths; /* where it may be, in the order of $PATH                */
    size_t path_count;
    char **script; /* the shell, room for a path, and the arguments         */
};

/* What a command is told of its lock. */
struct program_lock {
    const char *name;
    uint64_t fence;
    const char *url; /* redacted */
};

void program_prepare(struct program *program, char **argv, const struct program_lock *lock);
void program_done(struct program *program);

/* In the child. Returns only when it failed: an errno. Safe after fork. */
int program_execute(const struct program *program);

#endif
