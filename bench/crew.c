/* crew.c: how are worker processes started, watched, and certainly ended?
 *
 * The parent holds back the signals that would end it and that of a child's end, and takes them
 * only here, with sigtimedwait, whenever it waits for anything: so there is no handler and no
 * race. The workers have the mask that we were started with.
 *
 * What can go wrong: a worker fails: its reason is on the floor, and is told. It dies: told with
 * the signal. It hangs: after a generous limit that is a failure too. We are interrupted: the
 * caller kills the crew and dies of that signal. We are killed: the kernel kills the workers with
 * us. */
#include "crew.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "say.h"

#define NS_PER_S    1000000000u
#define LOOK_NS     1000000u /* how often the parent looks for arrivals, outside of measurements */
#define PATIENCE_NS (120ull * NS_PER_S)

static void begin_work(const struct bench_crew *crew, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(BENCH_EXIT_INTERNAL);
    sigprocmask(SIG_SETMASK, crew->before, NULL);
}

int bench_crew_start(struct bench_crew *crew,
                     void (*work)(const struct bench_job *job, uint32_t process))
{
    pid_t parent = getpid();

    assert(crew->job->processes <= BENCH_PROCESSES_MAX);

    fflush(stdout); /* or every worker would print it again */
    for (uint32_t i = 0; i < crew->job->processes; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            begin_work(crew, parent);
            work(crew->job, i);
            _exit(atomic_load(&crew->job->floor->failed) ? BENCH_EXIT_INTERNAL : BENCH_EXIT_FINE);
        }
        if (pid < 0) {
            bench_say("cannot start process %u of %u: %s", i + 1, crew->job->processes,
                      strerror(errno));
            return BENCH_EXIT_SYSTEM;
        }
        crew->pids[crew->count++] = pid;
    }
    return 0;
}

static int tell_failure(const struct bench_crew *crew)
{
    const struct bench_failure *failure = &crew->job->floor->failure;

    bench_say("%s: %s", bench_workload_name(crew->job->workload), failure->reason);
    return failure->exit_status;
}

static int judge_end(const struct bench_crew *crew, pid_t pid, int how)
{
    if (atomic_load(&crew->job->floor->failed))
        return tell_failure(crew);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return 0;
    if (WIFSIGNALED(how))
        bench_say("%s: process %ld died of signal %d (%s)",
                  bench_workload_name(crew->job->workload), (long)pid, WTERMSIG(how),
                  strsignal(WTERMSIG(how)));
    else
        bench_say("%s: process %ld ended with status %d", bench_workload_name(crew->job->workload),
                  (long)pid, WEXITSTATUS(how));
    return BENCH_EXIT_INTERNAL;
}

/* Reaps those that have ended; the first bad end counts. */
static int reap(struct bench_crew *crew)
{
    int answer = 0;

    for (uint32_t i = 0; i < crew->count; i++) {
        int how;

        if (crew->pids[i] == 0 || waitpid(crew->pids[i], &how, WNOHANG) <= 0)
            continue;
        if (answer == 0)
            answer = judge_end(crew, crew->pids[i], how);
        crew->pids[i] = 0;
    }
    return answer;
}

int bench_crew_sleep(struct bench_crew *crew, uint64_t wait_ns)
{
    uint64_t until_ns = bench_clock_now_ns() + wait_ns;
    uint64_t now_ns;

    while ((now_ns = bench_clock_now_ns()) < until_ns) {
        uint64_t left_ns = until_ns - now_ns;
        struct timespec left = { .tv_sec = (time_t)(left_ns / NS_PER_S),
                                 .tv_nsec = (long)(left_ns % NS_PER_S) };
        int signal_number = sigtimedwait(crew->watched, NULL, &left);
        int answer = signal_number == SIGCHLD ? reap(crew) : 0;

        if (signal_number > 0 && signal_number != SIGCHLD)
            return -signal_number;
        if (answer != 0)
            return answer;
    }
    return atomic_load(&crew->job->floor->failed) ? tell_failure(crew) : 0;
}

int bench_crew_gather(struct bench_crew *crew, uint32_t arrivals)
{
    struct bench_floor *floor = crew->job->floor;
    uint64_t until_ns = bench_clock_now_ns() + PATIENCE_NS;

    while (atomic_load(&floor->arrived) < arrivals) {
        int answer = bench_crew_sleep(crew, LOOK_NS);

        if (answer != 0)
            return answer;
        if (bench_clock_now_ns() < until_ns)
            continue;
        bench_say("%s: %u of %u did not come back within %llu s: somebody waits for a lock that "
                  "nobody gives away",
                  bench_workload_name(crew->job->workload), arrivals - atomic_load(&floor->arrived),
                  arrivals, PATIENCE_NS / NS_PER_S);
        return BENCH_EXIT_INTERNAL;
    }
    assert(atomic_load(&floor->arrived) == arrivals);
    atomic_store(&floor->arrived, 0);
    return 0;
}

static uint32_t count_left(const struct bench_crew *crew)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < crew->count; i++)
        left += crew->pids[i] != 0;
    return left;
}

int bench_crew_finish(struct bench_crew *crew)
{
    uint64_t until_ns = bench_clock_now_ns() + PATIENCE_NS;

    bench_floor_set_stage(crew->job->floor, BENCH_STAGE_END);
    while (count_left(crew) > 0) {
        int answer = bench_crew_sleep(crew, LOOK_NS);

        if (answer != 0)
            return answer;
        if (bench_clock_now_ns() < until_ns)
            continue;
        bench_say("%s: %u processes did not end within %llu s",
                  bench_workload_name(crew->job->workload), count_left(crew),
                  PATIENCE_NS / NS_PER_S);
        return BENCH_EXIT_INTERNAL;
    }
    return 0;
}

void bench_crew_dismiss(struct bench_crew *crew)
{
    for (uint32_t i = 0; i < crew->count; i++) {
        if (crew->pids[i] != 0)
            kill(crew->pids[i], SIGKILL);
    }
    for (uint32_t i = 0; i < crew->count; i++) {
        while (crew->pids[i] != 0 && waitpid(crew->pids[i], NULL, 0) < 0 && errno == EINTR)
            continue;
        crew->pids[i] = 0;
    }
}
