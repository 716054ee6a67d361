/* crew.h: the worker processes of one job. */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "job.h"

#define BENCH_PROCESSES_MAX 8

struct bench_crew {
    struct bench_job *job;
    const sigset_t *watched;         /* blocked here: SIGCHLD and what would end us */
    const sigset_t *before;          /* what the workers get back                   */
    pid_t pids[BENCH_PROCESSES_MAX]; /* 0: reaped */
    uint32_t count;
};

/* All of these answer 0, the exit status after telling why (> 0), or minus the signal that asks
 * us to end. Whatever they answer, bench_crew_dismiss() comes last. */

/* `work` is what a worker does, in its own process, which ends when it returns. */
int bench_crew_start(struct bench_crew *crew,
                     void (*work)(const struct bench_job *job, uint32_t process));
/* Until so many have arrived, or for so long. */
int bench_crew_gather(struct bench_crew *crew, uint32_t arrivals);
int bench_crew_sleep(struct bench_crew *crew, uint64_t wait_ns);
/* Until all have ended by themselves. */
int bench_crew_finish(struct bench_crew *crew);

/* Kills those that are left, and reaps them. */
void bench_crew_dismiss(struct bench_crew *crew);

#endif
