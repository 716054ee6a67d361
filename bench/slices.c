/* slices.c: what is the ratio of ours to raw, on a machine that changes its mood?
 *
 * The same workers do both. A slice is: warm up, measure, rest; then the other side, in an order
 * that is turned round from slice to slice. Each pair of slices gives one ratio, and the median
 * of them is the result, so that a mood which lasts longer than a pair of slices touches both
 * alike.
 *
 * Between two slices the workers have all arrived: nobody holds the lock, and the tally must be
 * the sum of what each of them has counted. If it is not, the lock has failed: status 1. */
#include "slices.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "clock.h"
#include "handover.h"
#include "rate.h"
#include "samples.h"
#include "say.h"

#define SLICES_MAX    99
#define NS_PER_S      1e9
#define WARM_DIVISOR  6u        /* of a slice ...    */
#define WARM_NS_MAX   30000000u /* ... but no longer */
#define SLICE_NS_MIN  1000000u
#define QUANTILE_HIGH 0.99

/* What one side has reached, slice by slice. */
struct course {
    double rates[SLICES_MAX];
    double medians_us[SLICES_MAX];
    uint64_t cycles[BENCH_CONTENDERS_MAX]; /* of each contender, over all slices */
    struct bench_samples samples;
    uint64_t tally;
};

static uint32_t contenders_of(const struct bench_job *job)
{
    return job->processes * job->threads;
}

/* 0, or status 1 after telling. */
static int check_tally(const struct bench_job *job, uint32_t side, struct course *course)
{
    uint64_t guarded = job->floor->tallies[side].count;
    uint32_t overlaps = atomic_load(&job->floor->overlaps);

    for (uint32_t i = 0; i < contenders_of(job); i++)
        course->tally += job->floor->contenders[i].cycles_ever;
    if (!job->contended || (guarded == course->tally && overlaps == 0))
        return 0;
    bench_say("%s: %s does not exclude: %lld of %llu increments under the lock were lost, and %u "
              "times two were inside at once",
              bench_workload_name(job->workload), job->sides[side]->name,
              (long long)(course->tally - guarded), (unsigned long long)course->tally, overlaps);
    return BENCH_EXIT_VIOLATION;
}

static void note_rates(const struct bench_job *job, double seconds, uint32_t slice,
                       struct course *course)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < contenders_of(job); i++) {
        uint64_t cycles = job->floor->contenders[i].cycles * job->batch;

        course->cycles[i] += cycles;
        sum += cycles;
    }
    course->rates[slice] = (double)sum / seconds;
}

static void note_samples(const struct bench_job *job, uint32_t slice, struct course *course)
{
    size_t before = course->samples.count;

    for (uint32_t i = 0; i < contenders_of(job); i++) {
        const struct bench_contender *record = &job->floor->contenders[i];

        bench_samples_add(&course->samples, record->samples_ns, record->sample_count);
    }
    course->medians_us[slice] = bench_samples_quantile_us(&course->samples, before, 0.5);
}

/* One side, once. */
static int run_slice(struct bench_crew *crew, uint32_t side, uint32_t slice, struct course *course)
{
    struct bench_job *job = crew->job;
    uint64_t slice_ns = job->options->row_ns / job->options->slices / job->side_count;
    uint64_t warm_ns =
        slice_ns / WARM_DIVISOR < WARM_NS_MAX ? slice_ns / WARM_DIVISOR : WARM_NS_MAX;
    uint64_t measure_ns = slice_ns > warm_ns + SLICE_NS_MIN ? slice_ns - warm_ns : SLICE_NS_MIN;
    uint64_t begun_ns;
    uint64_t ended_ns;
    int answer;

    job->floor->side = side;
    bench_handover_reset(job->floor);
    bench_floor_set_stage(job->floor, BENCH_STAGE_WARM);
    answer = bench_crew_sleep(crew, warm_ns);
    if (answer != 0)
        return answer;

    begun_ns = bench_clock_now_ns();
    bench_floor_set_stage(job->floor, BENCH_STAGE_MEASURE);
    answer = bench_crew_sleep(crew, measure_ns);
    if (answer != 0)
        return answer;

    ended_ns = bench_clock_now_ns();
    bench_floor_set_stage(job->floor, BENCH_STAGE_REST);
    answer = bench_crew_gather(crew, contenders_of(job));
    if (answer != 0)
        return answer;

    note_rates(job, (double)(ended_ns - begun_ns) / NS_PER_S, slice, course);
    note_samples(job, slice, course);
    return check_tally(job, side, course);
}

static int run_slices(struct bench_crew *crew, struct course *courses)
{
    const struct bench_job *job = crew->job;
    int answer = bench_crew_gather(crew, contenders_of(job));

    for (uint32_t slice = 0; slice < job->options->slices && answer == 0; slice++) {
        for (uint32_t i = 0; i < job->side_count && answer == 0; i++) {
            uint32_t side = slice % 2 == 0 ? i : job->side_count - 1 - i;

            answer = run_slice(crew, side, slice, &courses[side]);
        }
    }
    return answer != 0 ? answer : bench_crew_finish(crew);
}

/* Of ours to another side. Rates and, for a hand-over, times. */
static double compare(const struct bench_job *job, const struct course *ours,
                      const struct course *other)
{
    double ratios[SLICES_MAX];
    bool times = job->workload == BENCH_W5;

    for (uint32_t i = 0; i < job->options->slices; i++)
        ratios[i] =
            times ? ours->medians_us[i] / other->medians_us[i] : ours->rates[i] / other->rates[i];
    return bench_samples_median(ratios, job->options->slices);
}

/* Over the whole run: in one slice it is the scheduler's time slices that are counted. */
static void note_shares(const struct bench_job *job, const struct course *course,
                        struct bench_figures *figures)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < contenders_of(job); i++) {
        uint64_t cycles = course->cycles[i];

        least = cycles < least ? cycles : least;
        most = cycles > most ? cycles : most;
        sum += cycles;
    }
    if (sum == 0)
        return;
    figures->share_min = (double)least / (double)sum;
    figures->share_max = (double)most / (double)sum;
}

static void conclude(const struct bench_job *job, struct course *course,
                     struct bench_figures *figures)
{
    uint32_t slices = job->options->slices;

    if (job->workload != BENCH_W5)
        figures->cycles_per_s = bench_samples_median(course->rates, slices);
    figures->p50_us = bench_samples_quantile_us(&course->samples, 0, 0.5);
    figures->p99_us = bench_samples_quantile_us(&course->samples, 0, QUANTILE_HIGH);
    if (!job->contended)
        return;
    note_shares(job, course, figures);
}

static void fill_row(const struct bench_job *job, struct course *courses, struct bench_row *row)
{
    struct bench_figures *figures[BENCH_SIDES_MAX] = { &row->ours, &row->raw, &row->beside };

    /* The ratios first: a median sorts. */
    if (job->side_count > 1)
        row->ratio = compare(job, &courses[0], &courses[1]);
    if (job->side_count > 2)
        row->beside_ratio = compare(job, &courses[0], &courses[2]);
    for (uint32_t side = 0; side < job->side_count; side++)
        conclude(job, &courses[side], figures[side]);
    row->rescued = atomic_load(&job->floor->rescued);
}

int bench_slices_run(struct bench_crew *crew, struct bench_row *row)
{
    const struct bench_job *job = crew->job;
    struct course courses[BENCH_SIDES_MAX];
    size_t room = (size_t)job->options->slices * contenders_of(job) * BENCH_SAMPLES_MAX;
    int answer = 0;

    assert(job->options->slices <= SLICES_MAX);
    assert(contenders_of(job) <= BENCH_CONTENDERS_MAX);

    memset(courses, 0, sizeof(courses));
    for (uint32_t side = 0; side < job->side_count && answer == 0; side++) {
        if (bench_samples_init(&courses[side].samples, room) < 0) {
            bench_say("out of memory for %zu samples; ask for fewer '--slices'", room);
            answer = BENCH_EXIT_SYSTEM;
        }
    }
    if (answer == 0)
        answer = bench_crew_start(crew, job->workload == BENCH_W5 ? bench_handover_work
                                                                  : bench_rate_work);
    if (answer == 0)
        answer = run_slices(crew, courses);
    if (answer == 0)
        fill_row(job, courses, row);
    for (uint32_t side = 0; side < job->side_count; side++)
        bench_samples_done(&courses[side].samples);
    return answer;
}
