/* rate.c: how often can a lock be taken and given back?
 *
 * A worker opens one client and starts its threads, which share it. In every slice each of them
 * cycles on the side that is at work until the parent ends the stage, and then leaves its counts
 * on the floor. A cycle is an acquire and a release; where they contend, a tally is kept in
 * between that only the lock guards: an increment that goes missing, or somebody else inside, is
 * a failure of the lock.
 *
 * Reading the clock costs about as much as the fastest cycle, so only every Nth cycle is timed. N
 * doubles whenever the room for samples is used up, which happens while it warms up; from then on
 * what timing costs is the same small part of every slice.
 *
 * What can go wrong: acquire or release fails: the reason is left on the floor, and the process
 * ends; the others may then wait for a lock for ever, and are killed by the parent. */
#include "rate.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "clock.h"
#include "say.h"

/* Which cycles are timed, and where the times are kept. */
struct meter {
    uint32_t stride;
    uint32_t until; /* so many cycles until the next one is timed */
    uint32_t count;
    uint32_t *samples_ns;
    uint64_t cost_ns;
};

struct contender {
    const struct bench_job *job;
    hf_client *client;
    uint32_t number;
    struct meter meter;
    struct bench_seat seats[BENCH_SIDES_MAX];
    pthread_t thread;
};

static void thin_out(struct meter *meter)
{
    meter->count /= 2;
    for (uint32_t i = 0; i < meter->count; i++)
        meter->samples_ns[i] = meter->samples_ns[2 * i + 1];
    meter->stride *= 2;
}

static void keep_sample(struct meter *meter, uint64_t taken_ns)
{
    uint64_t net_ns = bench_clock_net_ns(taken_ns, meter->cost_ns);

    if (meter->count == BENCH_SAMPLES_MAX)
        thin_out(meter);
    meter->samples_ns[meter->count++] = net_ns < UINT32_MAX ? (uint32_t)net_ns : UINT32_MAX;
    meter->until = meter->stride;
}

/* Not atomic, and in two steps that the compiler cannot make one: without the lock it goes wrong.
 */
static void tally(const struct bench_job *job, uint32_t side, uint32_t number)
{
    struct bench_tally *guarded = &job->floor->tallies[side];
    uint64_t count = guarded->count;

    if (guarded->inside != 0)
        atomic_fetch_add(&job->floor->overlaps, 1);
    guarded->inside = number + 1;
    __asm__ __volatile__("" : "+r"(count)::"memory");
    guarded->count = count + 1;
    if (guarded->inside != number + 1)
        atomic_fetch_add(&job->floor->overlaps, 1);
    guarded->inside = 0;
}

static int cycle(struct contender *me, struct bench_seat *seat, uint32_t side)
{
    const struct bench_job *job = me->job;
    bool timed = --me->meter.until == 0;
    uint64_t begun_ns = timed ? bench_clock_now_ns() : 0;
    uint64_t ended_ns = 0;
    int status = seat->side->acquire(seat);

    if (status != HF_OK) {
        bench_side_fail(seat, "acquire", status);
        return status;
    }
    if (job->contended) {
        if (timed)
            ended_ns = bench_clock_now_ns();
        tally(job, side, me->number);
    }
    status = seat->side->release(seat);
    if (status != HF_OK) {
        bench_side_fail(seat, "release", status);
        return status;
    }
    if (timed)
        keep_sample(&me->meter, (ended_ns ? ended_ns : bench_clock_now_ns()) - begun_ns);
    return HF_OK;
}

static int run_by_itself(struct bench_seat *seat, struct bench_contender *record)
{
    int status = seat->side->run(seat, record);

    if (status == HF_OK)
        return 0;
    bench_side_fail(seat, "cycle", status);
    return -1;
}

static int run_slice(struct contender *me)
{
    struct bench_floor *floor = me->job->floor;
    struct bench_contender *record = &floor->contenders[me->number];
    uint32_t side = floor->side;
    uint64_t warm_cycles = 0;
    uint64_t cycles = 0;
    bool measuring = false;
    enum bench_stage stage;

    if (me->seats[side].side->run)
        return run_by_itself(&me->seats[side], record);
    me->meter.count = 0;
    me->meter.stride = 1;
    me->meter.until = 1;
    while ((stage = bench_floor_stage(floor)) != BENCH_STAGE_REST) {
        if (stage == BENCH_STAGE_MEASURE && !measuring) {
            measuring = true;
            me->meter.count = 0;
            warm_cycles = cycles;
        }
        if (cycle(me, &me->seats[side], side) != HF_OK)
            return -1;
        cycles++;
    }
    if (me->seats[side].side->finish)
        me->seats[side].side->finish(&me->seats[side]);
    record->cycles = measuring ? cycles - warm_cycles : 0;
    record->cycles_ever = cycles;
    record->sample_count = measuring ? me->meter.count : 0;
    return 0;
}

static void *contend(void *argument)
{
    struct contender *me = argument;
    struct bench_floor *floor = me->job->floor;
    uint32_t slice = 0;

    bench_job_pin(me->job, me->number);
    me->meter.cost_ns = bench_clock_cost_ns();
    me->meter.samples_ns = floor->contenders[me->number].samples_ns;
    for (uint32_t side = 0; side < me->job->side_count; side++)
        bench_job_seat(me->job, side, me->number, me->client, &me->seats[side]);

    bench_floor_arrive(floor);
    while (bench_floor_next(floor, &slice) != BENCH_STAGE_END) {
        if (run_slice(me) < 0)
            return NULL; /* the reason is on the floor */
        bench_floor_arrive(floor);
    }
    return NULL;
}

static void contend_in_threads(const struct bench_job *job, uint32_t process, hf_client *client)
{
    struct contender contenders[BENCH_CONTENDERS_MAX] = { 0 };
    uint32_t started = 0;

    assert(job->processes * job->threads <= BENCH_CONTENDERS_MAX);

    for (uint32_t i = 0; i < job->threads; i++) {
        struct contender *contender = &contenders[i];
        int failed;

        contender->job = job;
        contender->client = client;
        contender->number = process * job->threads + i;
        failed = pthread_create(&contender->thread, NULL, contend, contender);
        if (failed) {
            bench_floor_fail(job->floor, BENCH_EXIT_SYSTEM, "cannot start thread %u of %u: %s",
                             i + 1, job->threads, strerror(failed));
            break;
        }
        started++;
    }
    /* On a failure the parent kills us while we are here. */
    for (uint32_t i = 0; i < started; i++)
        pthread_join(contenders[i].thread, NULL);
}

void bench_rate_work(const struct bench_job *job, uint32_t process)
{
    hf_client *client;

    /* Before the library starts its thread, which then stays on that CPU too. */
    if (job->placement == BENCH_PLACEMENT_SAME || job->threads == 1)
        bench_job_pin(job, process);
    client = bench_job_open(job);
    if (!client)
        return;
    contend_in_threads(job, process, client);
    bench_job_close(job, client);
}
