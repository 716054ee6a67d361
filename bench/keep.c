/* keep.c: what does it cost to keep 10 000 locks, and are they all kept?
 *
 * One process with one client takes them all, with a lease of a third of the time for which it is
 * then watched. Every one of them has to be renewed several times meanwhile. At the end each must
 * still be valid, and its release must say that it was ours until then: those that are not are
 * counted as lost, which is a figure and no failure, for a machine that stops for longer than a
 * lease loses them by right.
 *
 * What can go wrong: a lock cannot be taken or given back for another reason: told on the floor.
 * They cannot all be taken before the parent gives up: told by it. */
#include "keep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "say.h"
#include "usage.h"

#define NS_PER_S  1e9
#define NS_PER_MS 1000000u

static int take_all(const struct bench_job *job, struct bench_seat *seat, hf_grant **grants)
{
    struct hf_acquire_options options;

    hf_acquire_options_init(&options);
    options.lease_ms = (int64_t)(job->options->keep_ns / BENCH_LEASES / NS_PER_MS);
    for (uint32_t i = 0; i < BENCH_KEPT; i++) {
        char name[BENCH_NAME_BYTES + 16];
        int status;

        snprintf(name, sizeof(name), "%s/%u", seat->name, i);
        status = hf_acquire(seat->client, name, &options, &grants[i]);
        if (status != HF_OK) {
            bench_side_fail(seat, "acquire", status);
            return status;
        }
    }
    return HF_OK;
}

/* How many were not ours any more; < 0: the reason is on the floor. */
static int give_all(struct bench_seat *seat, hf_grant **grants)
{
    int lost = 0;

    for (uint32_t i = 0; i < BENCH_KEPT; i++) {
        bool valid = hf_grant_valid(grants[i]);
        int status = hf_release(grants[i]);

        if (status != HF_OK && status != HF_ELOST) {
            bench_side_fail(seat, "release", status);
            return status;
        }
        lost += !valid || status == HF_ELOST;
    }
    return lost;
}

static void keep(const struct bench_job *job, hf_client *client, hf_grant **grants)
{
    struct bench_usage *usage = &job->floor->usages[0];
    struct hf_client_stats stats = { .struct_size = sizeof(stats) };
    struct bench_seat seat;
    int lost;

    bench_job_seat(job, 0, 0, client, &seat);
    bench_floor_arrive(job->floor);
    bench_floor_wait(job->floor, BENCH_STAGE_REST);
    if (take_all(job, &seat, grants) != HF_OK)
        return;
    bench_floor_arrive(job->floor);
    bench_usage_watch(job, 0);
    hf_client_stats(client, &stats);
    lost = give_all(&seat, grants);
    usage->lost = lost;
    usage->margin_ms = stats.renewed > 0 ? (double)stats.lowest_margin_ms : NAN;
    if (lost >= 0)
        bench_job_close(job, client);
}

static void work(const struct bench_job *job, uint32_t process)
{
    double sockets = bench_usage_sockets();
    hf_grant **grants = calloc(BENCH_KEPT, sizeof(hf_grant *));
    hf_client *client = grants ? bench_job_open(job) : NULL;

    if (!grants)
        bench_floor_fail(job->floor, BENCH_EXIT_SYSTEM, "out of memory");
    if (client) {
        job->floor->usages[process].connections = bench_usage_sockets() - sockets;
        keep(job, client, grants);
    }
    free(grants);
}

int bench_keep_run(struct bench_crew *crew, struct bench_row *row)
{
    const struct bench_job *job = crew->job;
    const struct bench_usage *usage = &job->floor->usages[0];
    const struct bench_raw *raw = job->store->raw;
    double scripts = NAN;
    int answer = bench_crew_start(crew, work);

    if (answer == 0)
        answer =
            bench_usage_run(crew, job->options->keep_ns, raw ? raw->count_scripts : NULL, &scripts);
    if (answer != 0)
        return answer;

    bench_usage_conclude(job, 0, &row->ours);
    row->ours.requests_per_s = scripts * NS_PER_S / (double)job->options->keep_ns;
    row->ours.lost = usage->lost;
    row->ours.margin_ms = usage->margin_ms;
    row->rescued = atomic_load(&job->floor->rescued);
    return 0;
}
