/* fault_stop.c: is a stopped process (SIGSTOP, swap, a debugger) ever valid beside another?
 *
 * A holder with a fixed lease is passed by when the lease ends, and knows it before it does
 * anything else; a holder without one keeps the lock where turns live with their process. In the
 * storm everybody is stopped and continued at random, some for longer than their leases. */

#include "faults.h"

#include <stdio.h>
#include <unistd.h>

#define LEASE_MS    300
#define PARTS       8
#define LOCKS       2
#define RECORDS_MAX 4000000
#define STORM_MS    6000
#define STORM_LONG  120000
#define LOSSES_MIN  10 /* so many must be caught by a stop, or the storm goes on */

/* numbers[] of the stage; in the storm: given back, and lost */
#define BACK  0
#define LOST  1
#define HOLDS 0
#define FIRST 1 /* what the holder saw first after it went on: 1 + valid */
#define NEXT  2

static void hold_and_look(struct scene *scene, bool fixed)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    bool seen[2] = { true, true };
    int status;

    options.lease_ms = LEASE_MS;
    options.fixed_lease = fixed;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    atomic_store(&scene->stage->numbers[HOLDS], 1);
    while (!atomic_load(&scene->stage->over)) {
        uint64_t look_ns = history_now_ns();

        seen[0] = hf_grant_valid(turn.grant);
        if (seen[0])
            scene_note(scene, &turn, HISTORY_VALID, look_ns);
        CHECK(seen[1] || !seen[0]); /* what was lost stays lost */
        seen[1] = seen[0];
        world_sleep_ms(1);
    }
    atomic_store(&scene->stage->numbers[FIRST], 1 + (uint64_t)seen[0]);
    status = scene_give_back(scene, &turn);
    CHECK_STATUS(seen[0] ? HF_OK : HF_ELOST, status);
    hf_close(client);
}

static void hold_a_fixed_lease(struct scene *scene, int part)
{
    (void)part;
    hold_and_look(scene, true);
}

static void hold_without_a_lease(struct scene *scene, int part)
{
    (void)part;
    hold_and_look(scene, false);
}

static void take_next(struct scene *scene, int part)
{
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);

    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, NULL));
    atomic_store(&scene->stage->numbers[NEXT], 1);
    WAIT_UNTIL(atomic_load(&scene->stage->over));
    world_sleep_ms(50); /* while the other one looks */
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    scene_tell_rescued(scene, part, client);
    hf_close(client);
}

FAULT_ROLE(a_stopped_holder_with_a_fixed_lease_is_passed_by)
{
    struct stage *stage;

    scene_begin(scene, RECORDS_MAX);
    stage = scene->stage;
    scene_enter(scene, 0, hold_a_fixed_lease);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    scene_stop(scene, 0);
    scene_enter(scene, 1, take_next);
    WAIT_UNTIL(atomic_load(&stage->numbers[NEXT]) == 1);
    scene_continue(scene, 0);
    world_sleep_ms(50);
    atomic_store(&stage->over, true);
    scene_leave(scene, 0);
    scene_leave(scene, 1);
    CHECK_NUMBER(1, atomic_load(&stage->numbers[FIRST]));
    scene_judge(scene, HISTORY_ANY_ORDER);
    scene_end(scene);
}

FAULT_ROLE(a_stopped_holder_without_a_lease_keeps_the_lock)
{
    struct stage *stage;

    scene_begin(scene, RECORDS_MAX);
    stage = scene->stage;
    scene_enter(scene, 0, hold_without_a_lease);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    scene_stop(scene, 0);
    scene_enter(scene, 1, take_next);
    world_sleep_ms(3 * LEASE_MS);
    CHECK_NUMBER(0, atomic_load(&stage->numbers[NEXT]));
    scene_continue(scene, 0);
    world_sleep_ms(50);
    CHECK_NUMBER(0, atomic_load(&stage->numbers[NEXT]));
    atomic_store(&stage->over, true);
    scene_leave(scene, 0);
    scene_leave(scene, 1);
    CHECK_NUMBER(2, atomic_load(&stage->numbers[FIRST]));
    CHECK_NUMBER(1, atomic_load(&stage->numbers[NEXT]));
    scene_judge(scene, HISTORY_ANY_ORDER);
    scene_end(scene);
}

/* --- the storm --- */

static void live_with_stops(struct scene *scene, int part)
{
    struct dice dice = { .state = (uint64_t)getpid() * 1000003u };
    hf_client *client = world_open(&scene->world);

    while (!atomic_load(&scene->stage->over)) {
        struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
        struct turn turn;
        bool valid;
        int status;

        options.mode = dice_below(&dice, 3) ? HF_EXCLUSIVE : HF_SHARED;
        options.fixed_lease = true;
        options.lease_ms = 100 + (int64_t)dice_below(&dice, 50);
        turn = scene_ask(scene, 1 + (uint32_t)dice_below(&dice, LOCKS), options.mode);
        CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
        valid =
            scene_hold_until(scene, &turn, history_now_ns() + dice_below(&dice, 20) * NS_PER_MS);
        status = scene_give_back(scene, &turn);
        atomic_store(&scene->stage->holding[part], false);
        CHECK(status == HF_OK || status == HF_ELOST);
        CHECK(valid || status == HF_ELOST);
        atomic_fetch_add(&scene->stage->numbers[status == HF_ELOST ? LOST : BACK], 1);
        atomic_fetch_add(&scene->stage->acts[part], 1);
    }
    hf_close(client);
}

/* Mostly somebody who holds, and now and then whoever it hits. */
static int choose_victim(const struct scene *scene, struct dice *dice)
{
    int victim = (int)dice_below(dice, PARTS);

    for (int i = 0; i < PARTS && dice_below(dice, 8); i++) {
        if (atomic_load(&scene->stage->holding[victim]))
            return victim;
        victim = (victim + 1) % PARTS;
    }
    return victim;
}

FAULT_ROLE(stops_at_any_moment_break_no_promise)
{
    struct dice dice = { .state = (uint64_t)getpid() };
    uint64_t end_ns =
        world_now_ns() + (scene->is_long ? STORM_LONG : STORM_MS) * (uint64_t)NS_PER_MS;

    printf("    seed %llu\n", (unsigned long long)dice.state);
    scene_begin(scene, scene->is_long ? 4 * RECORDS_MAX : RECORDS_MAX);
    for (int part = 0; part < PARTS; part++)
        scene_enter(scene, part, live_with_stops);
    while (world_now_ns() < end_ns || atomic_load(&scene->stage->numbers[LOST]) < LOSSES_MIN) {
        int part;

        world_sleep_ms((int64_t)dice_below(&dice, 10));
        part = choose_victim(scene, &dice);
        scene_stop(scene, part);
        world_sleep_ms((int64_t)dice_below(&dice, dice_below(&dice, 2) ? 5 : 300));
        scene_continue(scene, part);
    }
    atomic_store(&scene->stage->over, true);
    for (int part = 0; part < PARTS; part++)
        scene_leave(scene, part);
    printf("    %llu given back, %llu lost\n",
           (unsigned long long)atomic_load(&scene->stage->numbers[BACK]),
           (unsigned long long)atomic_load(&scene->stage->numbers[LOST]));
    CHECK(atomic_load(&scene->stage->numbers[BACK]) > 0);
    scene_judge(scene, HISTORY_ANY_ORDER);
    scene_end(scene);
}
