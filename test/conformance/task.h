/* task.h: a thread of this process that sits in a blocking call. */
#ifndef CONFORMANCE_TASK_H
#define CONFORMANCE_TASK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "world.h"

struct task {
    pthread_t thread;
    hf_client *client;
    const char *name;                         /* hf_acquire on this name ... */
    const struct hf_acquire_options *options; /* (NULL: the defaults)        */
    hf_claim *claim;                          /* ... or hf_claim_wait on this claim, for ever */
    void (*run)(struct task *task);           /* ... or whatever else */
    void *context;
    atomic_bool done;
    int status;
    hf_grant *grant;
};

void task_start(struct task *task);
bool task_done(struct task *task);
int task_join(struct task *task); /* its status; waits no longer than the limit */

#endif
