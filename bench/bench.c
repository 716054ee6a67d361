/* bench.c: how fast is this store, beside the least that could do the same?
 *
 * Each workload is run in each placement that says something about it, `free` last. A job's workers
 * are fresh processes, bound to their CPUs before they open anything; this process opens no client,
 * so that it may fork at any time.
 *
 * What can go wrong: a lock that fails to exclude is status 1; everything else has the statuses of
 * the command. On a signal the workers are killed, and then we die of it. */
#include "bench.h"

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crew.h"
#include "idle.h"
#include "job.h"
#include "keep.h"
#include "options.h"
#include "report.h"
#include "say.h"
#include "slices.h"

#define ROWS_MAX (BENCH_WORKLOADS * BENCH_PLACEMENTS)

/* clang-format off */
static const struct {
    uint32_t processes, threads, locks;
    bool contended;
    bool placed; /* `same` and `split` say something about it */
} shapes[BENCH_WORKLOADS] = {
    [BENCH_W1] = { 1,  1,  1, false, false }, /* nobody to be apart from */
    [BENCH_W2] = { 1, 16, 16, false, true },
    [BENCH_W2B] = { 1, 1, 16, false, false }, /* likewise */
    [BENCH_W3] = { 1,  8,  1, true,  true },
    [BENCH_W4] = { 4,  1,  1, true,  true },
    [BENCH_W5] = { 2,  1,  1, false, true },
    [BENCH_W6] = { 3,  1,  2, false, false }, /* they sleep */
    [BENCH_W7] = { 1,  1,  1, false, false },
};
/* clang-format on */

struct session {
    struct bench_options options;
    struct bench_store store;
    sigset_t watched;
    sigset_t before;
    struct bench_row rows[ROWS_MAX];
    size_t row_count;
};

static struct bench_figures no_figures(void)
{
    return (struct bench_figures){ NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
}

static void choose_sides(struct bench_job *job)
{
    const struct bench_raw *raw = job->store->raw;
    const struct bench_side *second = NULL;
    const struct bench_side *third = NULL;

    if (raw) {
        switch (job->workload) {
        case BENCH_W1:
        case BENCH_W3:
            second = raw->cycle;
            break;
        case BENCH_W2:
            second = raw->together ? raw->together : raw->cycle;
            break;
        case BENCH_W2B:
            second = raw->batch;
            break;
        case BENCH_W4:
            second = raw->contended;
            third = raw->beside;
            break;
        case BENCH_W5:
            second = raw->handover;
            third = raw->handover_beside;
            break;
        case BENCH_W6:
            second = raw->idle;
            break;
        case BENCH_W7:
            break;
        }
    }
    job->sides[job->side_count++] =
        job->workload == BENCH_W2B ? &bench_side_batch : &bench_side_ours;
    if (second)
        job->sides[job->side_count++] = second;
    if (third)
        job->sides[job->side_count++] = third;
}

/* A description for every contender: of a file for each lock, or all of one. */
static int open_files(struct bench_job *job)
{
    if (job->workload == BENCH_W7)
        return 0;
    if (job->workload == BENCH_W6)
        return bench_job_open_files(job, 1, 1 + BENCH_WAITERS);
    if (job->locks > 1)
        return bench_job_open_files(job, job->locks, 1);
    return bench_job_open_files(job, 1, job->processes * job->threads);
}

static void plan(const struct session *session, struct bench_row *row, struct bench_job *job)
{
    job->options = &session->options;
    job->store = &session->store;
    job->workload = row->workload;
    job->placement = row->placement;
    job->processes = shapes[row->workload].processes;
    job->threads = shapes[row->workload].threads;
    job->locks = shapes[row->workload].locks;
    job->batch = row->workload == BENCH_W2B ? BENCH_BATCH : 1;
    job->contended = shapes[row->workload].contended;
    choose_sides(job);
    if (job->workload == BENCH_W6 && job->side_count > 1)
        job->processes++; /* the raw waiters */
    if (job->side_count > 2)
        row->beside_name = job->sides[2]->name;
    bench_job_find_cpus(job);
}

static int run_job(struct bench_crew *crew, struct bench_row *row)
{
    if (row->workload == BENCH_W6)
        return bench_idle_run(crew, row);
    if (row->workload == BENCH_W7)
        return bench_keep_run(crew, row);
    return bench_slices_run(crew, row);
}

/* As the functions of crew.h answer. */
static int run_row(const struct session *session, struct bench_row *row)
{
    struct bench_job job = { 0 };
    struct bench_crew crew = { .job = &job,
                               .watched = &session->watched,
                               .before = &session->before };
    bool pinned = row->placement != BENCH_PLACEMENT_FREE;
    int answer;

    plan(session, row, &job);
    if (pinned && (!shapes[row->workload].placed || job.cpu_count < 2))
        return 0;
    row->meaningful = true;
    job.floor = bench_floor_new();
    if (!job.floor) {
        bench_say("out of shared memory");
        return BENCH_EXIT_SYSTEM;
    }
    answer = open_files(&job);
    if (answer == 0)
        answer = run_job(&crew, row);
    bench_crew_dismiss(&crew);
    bench_job_close_files(&job);
    bench_floor_free(job.floor);
    return answer;
}

static void tell_progress(const struct session *session, const struct bench_row *row)
{
    if (!session->options.quiet && session->options.json && isatty(STDERR_FILENO))
        bench_say("%s, %s", bench_workload_name(row->workload),
                  bench_report_placement_name(row->placement));
}

static int run_workload(struct session *session, enum bench_workload workload)
{
    struct bench_row *first = &session->rows[session->row_count];

    for (int placement = 0; placement < BENCH_PLACEMENTS; placement++) {
        struct bench_row *row = &session->rows[session->row_count++];
        int answer;

        *row = (struct bench_row){
            .workload = workload,
            .placement = (enum bench_placement)placement,
            .ours = no_figures(),
            .raw = no_figures(),
            .beside = no_figures(),
            .ratio = NAN,
            .beside_ratio = NAN,
        };
        tell_progress(session, row);
        answer = run_row(session, row);
        if (answer != 0)
            return answer;
    }
    if (!session->options.json)
        bench_report_workload(&session->store, first, BENCH_PLACEMENTS);
    return 0;
}

static int run_all(struct session *session)
{
    int answer = 0;

    if (!session->options.json)
        bench_report_open(&session->options, &session->store);
    for (int workload = 0; workload < BENCH_WORKLOADS && answer == 0; workload++) {
        if (session->options.workloads & (1u << workload))
            answer = run_workload(session, (enum bench_workload)workload);
    }
    if (answer == 0 && session->options.json)
        bench_report_json(&session->store, session->rows, session->row_count);
    return answer;
}

/* What the raw clients leave in the store is of no use to anybody. */
static void tidy(const struct session *session)
{
    const struct bench_raw *raw = session->store.raw;
    const char *url = session->options.url;

    if (!url || !*url)
        url = getenv("HOLDFAST_URL");
    if (raw && raw->tidy && url)
        raw->tidy(url);
}

/* Holds back what would end us, until we have nobody left to take along. */
static void watch_signals(struct session *session)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };

    sigaction(SIGCHLD, &plain, NULL); /* ignored, it would reap behind our back */
    sigemptyset(&session->watched);
    sigaddset(&session->watched, SIGCHLD);
    sigaddset(&session->watched, SIGINT);
    sigaddset(&session->watched, SIGTERM);
    sigaddset(&session->watched, SIGHUP);
    sigaddset(&session->watched, SIGQUIT);
    sigprocmask(SIG_BLOCK, &session->watched, &session->before);
}

static int die_of(const struct session *session, int signal_number)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };
    sigset_t open;

    fflush(stdout);
    sigaction(signal_number, &plain, NULL);
    raise(signal_number);
    open = session->before;
    sigdelset(&open, signal_number);
    sigprocmask(SIG_SETMASK, &open, NULL);
    return 128 + signal_number;
}

int bench_main(int argc, char **argv)
{
    struct session session = { 0 };
    int answer;

    assert(argc > 0);

    if (bench_options_parse(argc, argv, &session.options, &answer) < 0)
        return answer;
    bench_store_find(session.options.url, &session.store);
    watch_signals(&session);
    answer = run_all(&session);
    tidy(&session);
    if (answer < 0)
        return die_of(&session, -answer);
    sigprocmask(SIG_SETMASK, &session.before, NULL);
    return answer;
}
