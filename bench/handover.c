/* handover.c: how long does it take until a waiting process has what another one gives away?
 *
 * Two processes take turns. The one that holds the lock waits until the other has said that it is
 * going to acquire, and then a random while longer, so that the other is certainly asleep, also
 * where a claim reaches a disk, and at any moment between two questions of one that asks every
 * millisecond; it writes the time down and releases. The other writes the time down when its
 * acquire returns; the difference is the sample. It holds the lock now, says so, and the roles are
 * changed.
 *
 * The round's number keeps them in step, so that a lock that is not fair cannot fall back to the
 * one who gives it away; whoever holds the lock when the parent ends the slice says so, releases,
 * and both leave. The lock itself orders the plain fields of the baton.
 *
 * What can go wrong: acquire or release fails: told on the floor, and the parent ends us. */
#include "handover.h"

#include <assert.h>

#include "clock.h"
#include "futex.h"
#include "say.h"

#define SETTLE_NS_MIN 2000000u
#define SETTLE_NS_MAX 3000000u
#define LOOK_NS       50000u

struct hand {
    const struct bench_job *job;
    uint32_t number;
    uint64_t cost_ns;
    uint64_t random;
    struct bench_seat seats[BENCH_SIDES_MAX];
};

/* Marsaglia's xorshift: good enough to be out of step with the scheduler's tick. */
static uint64_t draw_settle_ns(struct hand *me)
{
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return SETTLE_NS_MIN + me->random % (SETTLE_NS_MAX - SETTLE_NS_MIN);
}

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

static void keep_sample(const struct hand *me, uint64_t taken_ns)
{
    struct bench_contender *record = &me->job->floor->contenders[me->number];

    if (record->sample_count == BENCH_SAMPLES_MAX)
        return;
    taken_ns = bench_clock_net_ns(taken_ns, me->cost_ns);
    record->samples_ns[record->sample_count++] =
        taken_ns < UINT32_MAX ? (uint32_t)taken_ns : UINT32_MAX;
}

static void see_taken(struct bench_baton *baton, uint32_t round)
{
    uint32_t found;

    while ((found = atomic_load(&baton->taken)) != round)
        bench_futex_wait(&baton->taken, found);
}

static void tell_taken(struct bench_baton *baton, uint32_t round)
{
    atomic_store(&baton->taken, round);
    bench_futex_wake(&baton->taken, 1);
}

/* Holding: gives the lock to the other one, who waits for it in this round. 1: that was the last.
 */
static int give_away(struct hand *me, struct bench_seat *seat, uint32_t round)
{
    struct bench_floor *floor = me->job->floor;
    struct bench_baton *baton = &floor->baton;
    bool last;

    while (atomic_load(&baton->asked) != round)
        bench_clock_sleep(LOOK_NS);
    bench_clock_sleep(draw_settle_ns(me));
    last = bench_floor_stage(floor) == BENCH_STAGE_REST;
    baton->last = last;
    baton->released_ns = bench_clock_now_ns();
    if (give(seat) != HF_OK)
        return -1;
    see_taken(baton, round);
    return last;
}

/* Waits for the lock, and holds it then, unless that was the last round: 1. */
static int receive(struct hand *me, struct bench_seat *seat, uint32_t round)
{
    struct bench_floor *floor = me->job->floor;
    struct bench_baton *baton = &floor->baton;
    uint64_t now_ns;
    bool last;

    atomic_store(&baton->asked, round);
    if (take(seat) != HF_OK)
        return -1;
    now_ns = bench_clock_now_ns();
    if (bench_floor_stage(floor) == BENCH_STAGE_MEASURE)
        keep_sample(me, now_ns - baton->released_ns);
    last = baton->last;
    tell_taken(baton, round);
    if (!last)
        return 0;
    return give(seat) == HF_OK ? 1 : -1;
}

static int run_slice(struct hand *me)
{
    struct bench_floor *floor = me->job->floor;
    struct bench_seat *seat = &me->seats[floor->side];
    bool holding = me->number == 0;
    uint32_t round = 1;
    int answer = 0;

    assert(seat->side);

    floor->contenders[me->number].sample_count = 0;
    if (holding && take(seat) != HF_OK)
        return -1;
    if (holding)
        tell_taken(&floor->baton, round);
    else
        see_taken(&floor->baton, round);

    while (answer == 0) {
        round++;
        answer = holding ? give_away(me, seat, round) : receive(me, seat, round);
        holding = !holding;
    }
    return answer;
}

void bench_handover_reset(struct bench_floor *floor)
{
    atomic_store(&floor->baton.asked, 0);
    atomic_store(&floor->baton.taken, 0);
    atomic_store(&floor->token.word, 0);
}

void bench_handover_work(const struct bench_job *job, uint32_t process)
{
    struct bench_floor *floor = job->floor;
    struct hand me = { .job = job, .number = process, .random = job->store->run | 1 };
    hf_client *client;
    uint32_t slice = 0;

    bench_job_pin(job, process);
    client = bench_job_open(job);
    if (!client)
        return;
    me.random += process;
    me.cost_ns = bench_clock_cost_ns();
    for (uint32_t side = 0; side < job->side_count; side++)
        bench_job_seat(job, side, process, client, &me.seats[side]);

    bench_floor_arrive(floor);
    while (bench_floor_next(floor, &slice) != BENCH_STAGE_END) {
        if (run_slice(&me) < 0)
            return;
        bench_floor_arrive(floor);
    }
    bench_job_close(job, client);
}
