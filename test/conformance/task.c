/* task.c: a thread of this process that sits in a blocking call.
 *
 * The case fills in what to do, starts it, does its own part, and joins. A thread that does not
 * come back within the limit fails the case. */

#include "task.h"

static void *run(void *context)
{
    struct task *task = (struct task *)context;

    if (task->run)
        task->run(task);
    else if (task->claim)
        task->status = hf_claim_wait(task->claim, HF_FOREVER, &task->grant);
    else
        task->status = hf_acquire(task->client, task->name, task->options, &task->grant);
    atomic_store(&task->done, true);
    return NULL;
}

void task_start(struct task *task)
{
    atomic_store(&task->done, false);
    CHECK(pthread_create(&task->thread, NULL, run, task) == 0);
}

bool task_done(struct task *task)
{
    return atomic_load(&task->done);
}

int task_join(struct task *task)
{
    WAIT_UNTIL(task_done(task));
    CHECK(pthread_join(task->thread, NULL) == 0);
    return task->status;
}
