/* fault_kill.c: does a lock survive the death of whoever holds it or waits for it, at any moment?
 *
 * Deaths are SIGKILL. The judge is the log: nobody gets in while the dead one certainly lived, the
 * queue is served in order, no hand-over had to be found by a timer, and nothing is left. */

#include "faults.h"

#include <stdio.h>
#include <unistd.h>

#define WAITERS      10
#define ROUNDS       20
#define ROUNDS_LONG  500
#define KILLS        1000
#define KILLS_LONG   20000
#define PARTS        8
#define LOCKS        3
#define RECORDS_MAX  4000000
#define PAUSE_US_MAX 12000

/* numbers[] of the stage */
#define HOLDS   0
#define IN_LINE 1
#define SERVED  2

static void hold_for_ever(struct scene *scene, int part)
{
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);

    (void)part;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, NULL));
    atomic_fetch_add(&scene->stage->numbers[HOLDS], 1);
    world_sleep_ms(1000 * 1000);
}

/* Takes its place as a claim, so that it can say when it stands there. */
static void wait_in_line(struct scene *scene, int part)
{
    struct name name = scene_name(scene, 1);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    hf_claim *claim = world_claim(client, name.text, NULL);
    hf_grant *grant = NULL;

    WAIT_UNTIL(hf_claim_position(claim) > 0);
    scene_note(scene, &turn, HISTORY_QUEUED, history_now_ns());
    atomic_fetch_add(&scene->stage->numbers[IN_LINE], 1);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, HF_FOREVER, &grant));
    scene_granted(scene, &turn, grant);
    atomic_fetch_add(&scene->stage->numbers[SERVED], 1);
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_claim_free(claim);
    scene_tell_rescued(scene, part, client);
    hf_close(client);
}

static void play_death_of_holder(struct scene *scene)
{
    struct stage *stage = scene->stage;

    for (int i = 0; i < 3; i++)
        atomic_store(&stage->numbers[i], 0);
    scene_enter(scene, 0, hold_for_ever);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    for (int part = 1; part <= WAITERS; part++) {
        scene_enter(scene, part, wait_in_line);
        WAIT_UNTIL(atomic_load(&stage->numbers[IN_LINE]) == (uint64_t)part);
    }
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
    scene_kill(scene, 0);
    for (int part = 1; part <= WAITERS; part++)
        scene_leave(scene, part);
    CHECK_NUMBER(WAITERS, atomic_load(&stage->numbers[SERVED]));
}

FAULT_ROLE(a_killed_holder_is_followed_by_the_next)
{
    int rounds = scene->is_long ? ROUNDS_LONG : ROUNDS;
    struct history_report report;

    scene_begin(scene, RECORDS_MAX);
    for (int i = 0; i < rounds; i++)
        play_death_of_holder(scene);
    report = scene_judge(scene, HISTORY_QUEUE_ORDER);
    CHECK_NUMBER(rounds * (WAITERS + 1), report.grants);
    CHECK_NUMBER(rounds, report.killed_holders);
    scene_end(scene);
}

/* --- kills at random moments --- */

static void pause_us(uint64_t us)
{
    if (us > 0)
        usleep((useconds_t)us);
}

/* A claim that may be left again, or fetched at once or later. */
static void claim_once(struct scene *scene, hf_client *client, struct dice *dice)
{
    uint32_t lock = 1 + (uint32_t)dice_below(dice, LOCKS);
    struct name name = scene_name(scene, lock);
    struct turn turn = scene_ask(scene, lock, HF_EXCLUSIVE);
    hf_claim *claim = world_claim(client, name.text, NULL);
    hf_grant *grant = NULL;
    int status;

    pause_us(dice_below(dice, 300));
    if (dice_below(dice, 2))
        hf_claim_cancel(claim);
    status = hf_claim_wait(claim, HF_FOREVER, &grant);
    CHECK(status == HF_OK || status == HF_ECANCELLED);
    if (grant) {
        scene_granted(scene, &turn, grant);
        CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    }
    hf_claim_free(claim);
}

static void acquire_once(struct scene *scene, hf_client *client, struct dice *dice)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    uint32_t lock = 1 + (uint32_t)dice_below(dice, LOCKS);
    struct turn turn;
    int status;

    options.mode = dice_below(dice, 3) ? HF_EXCLUSIVE : HF_SHARED;
    options.fixed_lease = dice_below(dice, 8) == 0;
    options.lease_ms = 30000;
    options.wait_ms = dice_below(dice, 4) ? HF_FOREVER : (int64_t)dice_below(dice, 3);
    turn = scene_ask(scene, lock, options.mode);
    status = scene_take(scene, client, &turn, &options);
    CHECK(status == HF_OK || status == HF_EBUSY || status == HF_ETIMEDOUT);
    if (status != HF_OK)
        return;
    pause_us(dice_below(dice, 2) ? 0 : dice_below(dice, 1500));
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
}

static void live_dangerously(struct scene *scene, int part)
{
    struct dice dice = { .state = (uint64_t)getpid() * 1000003u };
    hf_client *client = world_open(&scene->world);

    while (!atomic_load(&scene->stage->over)) {
        if (dice_below(&dice, 4))
            acquire_once(scene, client, &dice);
        else
            claim_once(scene, client, &dice);
        atomic_fetch_add(&scene->stage->acts[part], 1);
        scene_tell_rescued(scene, part, client);
    }
    hf_close(client);
}

FAULT_ROLE(a_thousand_kills_leave_nothing_behind)
{
    struct dice dice = { .state = (uint64_t)getpid() };
    int kills = scene->is_long ? KILLS_LONG : KILLS;
    struct history_report report;
    uint64_t acts = 0;

    printf("    seed %llu\n", (unsigned long long)dice.state);
    scene_begin(scene, scene->is_long ? 20 * RECORDS_MAX : RECORDS_MAX);
    for (int part = 0; part < PARTS; part++)
        scene_enter(scene, part, live_dangerously);
    for (int i = 0; i < kills; i++) {
        int part = (int)dice_below(&dice, PARTS);

        pause_us(dice_below(&dice, PAUSE_US_MAX));
        scene_kill(scene, part);
        scene_enter(scene, part, live_dangerously);
    }
    for (int part = 0; part < PARTS; part++) { /* each of them gets on without the dead */
        uint64_t before = atomic_load(&scene->stage->acts[part]);

        WAIT_UNTIL(atomic_load(&scene->stage->acts[part]) > before + 3);
    }
    atomic_store(&scene->stage->over, true);
    for (int part = 0; part < PARTS; part++) {
        scene_leave(scene, part);
        acts += atomic_load(&scene->stage->acts[part]);
    }
    printf("    %llu acts\n", (unsigned long long)acts);
    report = scene_judge(scene, HISTORY_ANY_ORDER);
    CHECK_NUMBER(kills, report.kills);
    CHECK(report.killed_holders > 0);
    scene_end(scene);
}
