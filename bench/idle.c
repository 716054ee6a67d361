/* idle.c: what do 200 who wait for one lock cost while nothing happens?
 *
 * Four processes: the holder; one with 200 threads blocked in hf_acquire; one with 200 threads
 * blocked in the raw client; one with 200 claims that nobody blocks on. When all stand in line they
 * are left alone for a while, then watched for as long as was asked: the CPU time that each process
 * uses, and the connections that the library has opened. They are idle, so they may be idle at the
 * same time.
 *
 * At the end the holder lets go, and everybody must get the lock once, in turn: the tally counts
 * them. Who does not get it is waited for until the parent gives up, and that is a failure. */
#include "idle.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "say.h"
#include "usage.h"

#define NS_PER_S    1e9
#define STACK_BYTES (256u * 1024)
#define LOOK_NS     5000000u
#define ASLEEP_NS   100000000u /* from its last step until a thread surely sleeps */

enum { HOLDER, BLOCKED, CLAIMS, RAW }; /* the last one only where there is a raw client */
enum { SIDE_OURS, SIDE_RAW };

/* The lock of the blocked, and that of the claims: different ones, so that they do not mix. */
enum { LOCK_BLOCKED, LOCK_CLAIMS };
enum { TALLY_OURS = SIDE_OURS, TALLY_RAW = SIDE_RAW, TALLY_CLAIMS };

struct waiter {
    const struct bench_job *job;
    uint32_t side;
    _Atomic uint32_t *ready;
    struct bench_seat seat;
    pthread_t thread;
};

static int take(struct bench_seat *seat)
{
    int status = seat->side->acquire(seat);

    if (status != HF_OK)
        bench_side_fail(seat, "acquire", status);
    return status;
}

static int give(struct bench_seat *seat)
{
    int status = seat->side->release(seat);

    if (status != HF_OK)
        bench_side_fail(seat, "release", status);
    return status;
}

static void hold(const struct bench_job *job, hf_client *client)
{
    struct bench_seat seats[3];
    uint32_t count = 0;

    bench_job_seat(job, SIDE_OURS, LOCK_BLOCKED, client, &seats[count++]);
    bench_job_seat(job, SIDE_OURS, LOCK_CLAIMS, client, &seats[count++]);
    if (job->side_count > 1)
        bench_job_seat(job, SIDE_RAW, 0, client, &seats[count++]);
    for (uint32_t i = 0; i < count; i++) {
        if (take(&seats[i]) != HF_OK)
            return;
    }
    bench_floor_arrive(job->floor);
    bench_floor_wait(job->floor, BENCH_STAGE_REST);
    bench_floor_arrive(job->floor);
    bench_usage_watch(job, HOLDER);
    bench_floor_wait(job->floor, BENCH_STAGE_REST);
    for (uint32_t i = 0; i < count; i++) {
        if (give(&seats[i]) != HF_OK)
            return;
    }
}

static void *wait_in_line(void *argument)
{
    struct waiter *me = argument;
    struct bench_tally *tally = &me->job->floor->tallies[me->side];

    atomic_fetch_add(me->ready, 1);
    if (take(&me->seat) != HF_OK)
        return NULL;
    tally->count = tally->count + 1;
    give(&me->seat);
    return NULL;
}

/* Until all threads sleep in their acquire, as far as that can be known. */
static void see_asleep(const struct waiter *waiters, const _Atomic uint32_t *ready)
{
    struct hf_client_stats stats = { .struct_size = sizeof(stats) };
    bool ours = waiters[0].side == SIDE_OURS;

    do {
        bench_clock_sleep(LOOK_NS);
        if (ours)
            hf_client_stats(waiters[0].seat.client, &stats);
    } while (atomic_load(ready) < BENCH_WAITERS || (ours && stats.waiting < BENCH_WAITERS));
    bench_clock_sleep(ASLEEP_NS);
}

static int start_waiters(const struct bench_job *job, uint32_t side, hf_client *client,
                         struct waiter *waiters)
{
    static const uint32_t first_file = 1; /* 0 is the holder's */
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);

    if (!failed)
        failed = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (uint32_t i = 0; i < BENCH_WAITERS && !failed; i++) {
        struct waiter *waiter = &waiters[i];

        waiter->job = job;
        waiter->side = side;
        bench_job_seat(job, side, side == SIDE_OURS ? LOCK_BLOCKED : first_file + i, client,
                       &waiter->seat);
        failed = pthread_create(&waiter->thread, &attributes, wait_in_line, waiter);
    }
    if (failed)
        bench_floor_fail(job->floor, BENCH_EXIT_SYSTEM, "cannot start %d threads: %s",
                         BENCH_WAITERS, strerror(failed));
    pthread_attr_destroy(&attributes);
    return failed;
}

static void wait_in_threads(const struct bench_job *job, uint32_t process, hf_client *client)
{
    uint32_t side = process == RAW ? SIDE_RAW : SIDE_OURS;
    struct waiter *waiters = calloc(BENCH_WAITERS, sizeof(*waiters));
    _Atomic uint32_t ready = 0;

    if (!waiters) {
        bench_floor_fail(job->floor, BENCH_EXIT_SYSTEM, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < BENCH_WAITERS; i++)
        waiters[i].ready = &ready;
    bench_floor_arrive(job->floor);
    bench_floor_wait(job->floor, BENCH_STAGE_REST);
    if (start_waiters(job, side, client, waiters) == 0) {
        see_asleep(waiters, &ready);
        bench_floor_arrive(job->floor);
        bench_usage_watch(job, process);
        for (uint32_t i = 0; i < BENCH_WAITERS; i++)
            pthread_join(waiters[i].thread, NULL);
    }
    free(waiters);
}

static int pick_up(struct bench_seat *seat, hf_claim *claim, struct bench_tally *tally)
{
    int status = hf_claim_wait(claim, HF_FOREVER, &seat->grant);

    if (status != HF_OK) {
        bench_side_fail(seat, "claim", status);
        return status;
    }
    tally->count = tally->count + 1;
    hf_claim_free(claim);
    return give(seat);
}

static void wait_as_claims(const struct bench_job *job, hf_client *client)
{
    struct bench_seat seat;
    hf_claim *claims[BENCH_WAITERS];

    bench_job_seat(job, SIDE_OURS, LOCK_CLAIMS, client, &seat);
    bench_floor_arrive(job->floor);
    bench_floor_wait(job->floor, BENCH_STAGE_REST);
    for (uint32_t i = 0; i < BENCH_WAITERS; i++) {
        int status = hf_claim_start(client, seat.name, NULL, &claims[i]);

        if (status != HF_OK) {
            bench_side_fail(&seat, "claim", status);
            return;
        }
    }
    bench_floor_arrive(job->floor);
    bench_usage_watch(job, CLAIMS);
    for (uint32_t i = 0; i < BENCH_WAITERS; i++) {
        if (pick_up(&seat, claims[i], &job->floor->tallies[TALLY_CLAIMS]) != HF_OK)
            return;
    }
}

static void work(const struct bench_job *job, uint32_t process)
{
    double sockets = bench_usage_sockets();
    hf_client *client = process == RAW ? NULL : bench_job_open(job);

    if (process != RAW && !client)
        return;
    job->floor->usages[process].connections = bench_usage_sockets() - sockets;
    if (process == HOLDER)
        hold(job, client);
    else if (process == CLAIMS)
        wait_as_claims(job, client);
    else
        wait_in_threads(job, process, client);
    if (client && !atomic_load(&job->floor->failed))
        bench_job_close(job, client);
}

static int check_tally(const struct bench_job *job, uint32_t tally, const char *whose)
{
    uint64_t count = job->floor->tallies[tally].count;

    if (count == BENCH_WAITERS)
        return 0;
    bench_say("W6: of %d waiters (%s) %llu were counted under the lock: it does not exclude",
              BENCH_WAITERS, whose, (unsigned long long)count);
    return BENCH_EXIT_VIOLATION;
}

static int check_tallies(const struct bench_job *job)
{
    int answer = check_tally(job, TALLY_OURS, "blocked");

    if (answer == 0)
        answer = check_tally(job, TALLY_CLAIMS, "claims");
    if (answer == 0 && job->side_count > 1)
        answer = check_tally(job, TALLY_RAW, "raw");
    return answer;
}

int bench_idle_run(struct bench_crew *crew, struct bench_row *row)
{
    const struct bench_job *job = crew->job;
    const struct bench_raw *raw = job->store->raw;
    double requests = NAN;
    int answer = bench_crew_start(crew, work);

    if (answer == 0)
        answer = bench_usage_run(crew, job->options->idle_ns, raw ? raw->count_requests : NULL,
                                 &requests);
    if (answer == 0)
        answer = check_tallies(job);
    if (answer != 0)
        return answer;

    bench_usage_conclude(job, BLOCKED, &row->ours);
    /* Of the holder and of all waiters, blocked or not, without those of the counting itself. */
    if (raw)
        row->ours.requests_per_s =
            (requests - raw->counting) * NS_PER_S / (double)job->options->idle_ns;
    bench_usage_conclude(job, CLAIMS, &row->beside);
    row->beside_name = "claims";
    if (job->side_count > 1)
        bench_usage_conclude(job, RAW, &row->raw);
    row->rescued = atomic_load(&job->floor->rescued);
    return 0;
}
