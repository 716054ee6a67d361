/* run.h: one run of a command under a lock: what it is made of. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

#include "arguments.h"
#include "guard.h"
#include "signals.h"
#include "status.h"
#include "terminal.h"

#define RUN_LEASE_MS_DEFAULT 30000 /* the library's */

/* The command line, understood and checked. */
struct run_options {
    struct arguments_common common;
    const char *name;
    char **command;
    int mode;            /* enum hf_mode                                             */
    int64_t wait_ms;     /* HF_FOREVER                                               */
    int64_t lease_ms;    /* 0: the library's                                         */
    int64_t max_hold_ms; /* 0: none                                                  */
    int64_t grace_ms;    /* between SIGTERM and SIGKILL                              */
    const char *purpose;
    int status_fd;    /* -1: none                                                     */
    int not_acquired; /* exit status when the lock was not to be had                  */
};

struct run {
    struct run_options options;
    hf_client *client;
    hf_grant *grant;
    struct signals signals;
    struct terminal terminal;
    struct guard guard;
    struct status status;
    int inherited_fd_max;
    int die_of; /* 0, or the signal that is to end us too */
};

/* false: there is nothing to run; the exit status is there, and the reason was told. */
bool run_options_parse(struct run_options *options, int argc, char **argv, int *out_exit_status);

/* true: run->grant is there. Else there is an exit status (0 is one too: -E 0), and nothing is left
 * in the queue. */
bool run_wait(struct run *run, int *out_exit_status);

/* Runs the command until nobody of its group is left, and gives the lock back: the exit status. */
int run_command(struct run *run);

#endif
