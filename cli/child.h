/* child.h: the command as a child process, from fork to exec. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <sys/types.h>

#include "program.h"
#include "signals.h"

struct child {
    pid_t pid;  /* and its process group                                            */
    int go;     /* closed, or one byte: nothing is executed before                  */
    int answer; /* end of file: it was executed; or the errno why not; -1: was read */
};

/* Forks: the child has its own group and waits. Answers 0 or an errno. */
int child_fork(struct child *child, const struct program *program, const struct signals *signals);

/* Now it may. */
void child_go(struct child *child);

/* When `answer` is readable: 0: it was executed; else the errno why not. */
int child_answer(struct child *child);

#endif
