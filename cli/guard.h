/* guard.h: a process that ends the command's group when holdfast itself was killed. */
#ifndef CLI_GUARD_H
#define CLI_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <holdfast/holdfast.h>

#define GUARD_NEVER_NS UINT64_MAX
#define GUARD_OWN_FDS  3

struct guard {
    hf_client *client;
    int own_fds[GUARD_OWN_FDS]; /* our own: none of the guard's business; -1: none */
    int inherited_fd_max;       /* those up to here that are not close-on-exec are the command's */

    pid_t pid;    /* 0: none runs                                                      */
    int control;  /* we speak, it listens; its end of file is our death               */
    int stand_by; /* HF_OK: turns live as long as it does; HF_EUNSUPPORTED: it only kills */
};

/* Forks. The guard knows from its first instant whom to end, if there is anybody yet (group 0:
 * nobody). Answers 0, an errno, or a negative HF_E* that the guard met. */
int guard_start(struct guard *guard, pid_t group, uint64_t kill_at_ns);

/* Tells it whom to end, and when even though we live (we may have been stopped). */
void guard_tell(const struct guard *guard, pid_t group, uint64_t kill_at_ns);

/* It was waited for already. */
void guard_died(struct guard *guard);

/* It ends at once, and is waited for. Harmless when none runs. */
void guard_finish(struct guard *guard);

#endif
