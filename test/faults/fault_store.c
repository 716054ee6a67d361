/* fault_store.c: does a lock on a server keep its promises when the server, the network and the
 * clients fail?
 *
 * Everybody goes through a proxy; the director orders what happens to the server and the network
 * (scene_order). The judge is the log, as everywhere; and in the end the store must be as it was
 * before, but for the fences. */

#include "faults.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "storm.h"

#define WAITERS     5
#define DEAF        50
#define PROCESSES   10
#define CLAIMS      100
#define VICTIM      4
#define CUTS        40
#define CUT_BYTES   600 /* more than a release has */
#define STORM_BYTES 6000
#define HOUR_MS     3600000

/* --- clients that die and stop --- */

FAULT_ROLE(a_killed_holder_is_followed_when_its_lease_ends)
{
    struct history_report report;

    line_begin(scene, scene->world.lease_ms);
    line_up(scene, WAITERS);
    scene_kill(scene, 0);
    line_leave(scene, 1, WAITERS);
    report = scene_judge_store(scene, HISTORY_QUEUE_ORDER);
    CHECK_NUMBER(1 + WAITERS, report.grants);
    CHECK_NUMBER(1, report.killed_holders);
    scene_end(scene);
}

FAULT_ROLE(a_holder_stopped_beyond_its_lease_is_passed_by_and_knows_it)
{
    struct stage *stage = line_begin(scene, scene->world.lease_ms);

    line_up(scene, WAITERS);
    scene_stop(scene, 0);
    WAIT_UNTIL(atomic_load(&stage->numbers[SERVED]) > 0);
    scene_continue(scene, 0);
    line_leave(scene, 1, WAITERS);
    atomic_store(&stage->numbers[GO], 1);
    scene_leave(scene, 0);
    CHECK_NUMBER(1, atomic_load(&stage->numbers[FIRST]));
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_QUEUE_ORDER).grants);
    scene_end(scene);
}

/* --- the server --- */

FAULT_ROLE(a_server_that_comes_back_still_knows_who_holds_and_who_waits)
{
    struct stage *stage = line_begin(scene, LONG_MS);

    line_up(scene, WAITERS);
    for (int i = 0; i < 3; i++) {
        scene_order(scene, "server kill");
        world_sleep_ms(100);
        scene_order(scene, "server start");
        world_sleep_ms(400);
    }
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
    atomic_store(&stage->numbers[GO], 1);
    line_leave(scene, 0, WAITERS);
    CHECK_NUMBER(2, atomic_load(&stage->numbers[FIRST])); /* it never lost it */
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_QUEUE_ORDER).grants);
    scene_end(scene);
}

FAULT_ROLE(a_holder_that_dies_while_the_server_is_away_is_followed)
{
    line_begin(scene, 3 * scene->world.lease_ms);
    line_up(scene, WAITERS);
    scene_order(scene, "server kill");
    scene_kill(scene, 0);
    world_sleep_ms(300);
    scene_order(scene, "server start");
    line_leave(scene, 1, WAITERS);
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_QUEUE_ORDER).grants);
    scene_end(scene);
}

/* --- the network --- */

static void release_when_told(struct scene *scene, int part)
{
    struct hf_acquire_options options = line_leasing(scene);
    hf_client *client = world_open(&scene->world);

    for (uint64_t round = 1; round <= CUTS; round++) {
        struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
        int status;

        CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
        atomic_store(&scene->stage->numbers[HOLDS], round);
        WAIT_UNTIL(atomic_load(&scene->stage->numbers[GO]) == round);
        status = scene_give_back(scene, &turn);
        CHECK(status == HF_OK || status == HF_EUNKNOWN); /* nobody took it away */
        atomic_fetch_add(&scene->stage->acts[part], 1);
    }
    hf_close(client);
}

/* Of every second one the answer is lost, of the others the request, at any byte. */
FAULT_ROLE(a_connection_cut_in_the_middle_of_a_release_frees_the_lock)
{
    struct dice dice = { .state = (uint64_t)getpid() };
    struct stage *stage = line_begin(scene, LONG_MS);
    struct name name = scene_name(scene, 1);
    char order[HF_NAME_BYTES_MAX + 32];

    printf("    seed %llu\n", (unsigned long long)dice.state);
    scene_enter(scene, 0, release_when_told);
    for (uint64_t round = 1; round <= CUTS; round++) {
        WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == round);
        scene_order(scene, "proxy pass");
        if (round % 2)
            snprintf(order, sizeof order, "proxy on lose %s", name.text);
        else
            snprintf(order, sizeof order, "proxy cut up %llu",
                     (unsigned long long)dice_below(&dice, CUT_BYTES));
        scene_order(scene, order);
        atomic_store(&stage->numbers[GO], round);
    }
    scene_leave(scene, 0);
    CHECK_NUMBER(CUTS, scene_judge_store(scene, HISTORY_ANY_ORDER).grants);
    CHECK(scene_stat(scene, "cuts") >= CUTS / 2);
    scene_end(scene);
}

static void ask_in_vain(struct scene *scene, int part)
{
    struct hf_acquire_options options = line_leasing(scene);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    int status;

    (void)part;
    atomic_store(&scene->stage->numbers[HOLDS], 1);
    WAIT_UNTIL(atomic_load(&scene->stage->numbers[GO]) == 1);
    options.wait_ms = 500;
    status = scene_take(scene, client, &turn, &options);
    CHECK(status == HF_EUNREACHABLE || status == HF_EUNKNOWN);
    atomic_store(&scene->stage->numbers[GAVE_UP], 1);
    hf_close(client);
}

static void take_at_once(struct scene *scene, int part)
{
    struct hf_acquire_options options = line_leasing(scene);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);

    (void)part;
    options.wait_ms = 0;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_close(client);
}

/* The request stays on its way until whoever sent it has left, and longer than it may take. */
FAULT_ROLE(a_request_delivered_after_we_gave_up_takes_nothing)
{
    struct stage *stage = line_begin(scene, LONG_MS);

    scene_enter(scene, 0, ask_in_vain);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    scene_order(scene, "proxy hold");
    atomic_store(&stage->numbers[GO], 1);
    WAIT_UNTIL(atomic_load(&stage->numbers[GAVE_UP]) == 1);
    scene_leave(scene, 0);
    world_sleep_ms(2000);
    scene_order(scene, "proxy pass");
    world_sleep_ms(500);
    scene_enter(scene, 1, take_at_once);
    scene_leave(scene, 1);
    CHECK_NUMBER(1, scene_judge_store(scene, HISTORY_ANY_ORDER).grants);
    scene_end(scene);
}

static void ask_in_vain_and_stay(struct scene *scene, int part)
{
    struct hf_acquire_options options = line_leasing(scene);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    int status;

    (void)part;
    atomic_store(&scene->stage->numbers[HOLDS], 1);
    WAIT_UNTIL(atomic_load(&scene->stage->numbers[GO]) == 1);
    options.wait_ms = 300;
    status = scene_take(scene, client, &turn, &options);
    CHECK(status == HF_EUNREACHABLE || status == HF_EUNKNOWN);
    atomic_store(&scene->stage->numbers[GAVE_UP], 1);
    WAIT_UNTIL(atomic_load(&scene->stage->over));
    hf_close(client);
}

/* Perhaps early enough to be obeyed: then whoever asked must take it back, long before its lease
 * would end. */
FAULT_ROLE(a_request_that_we_gave_up_is_undone_when_it_arrives)
{
    struct stage *stage = line_begin(scene, HOUR_MS);

    scene_enter(scene, 0, ask_in_vain_and_stay);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    scene_order(scene, "proxy hold");
    atomic_store(&stage->numbers[GO], 1);
    WAIT_UNTIL(atomic_load(&stage->numbers[GAVE_UP]) == 1);
    scene_order(scene, "proxy pass");
    world_sleep_ms(100);
    WAIT_UNTIL(strcmp(scene_order(scene, "keys").text, "0") == 0);
    scene_enter(scene, 1, take_at_once);
    scene_leave(scene, 1);
    atomic_store(&stage->over, true);
    scene_leave(scene, 0);
    CHECK_NUMBER(1, scene_judge_store(scene, HISTORY_ANY_ORDER).grants);
    scene_end(scene);
}

FAULT_ROLE(waiters_get_there_though_every_message_is_lost)
{
    struct stage *stage = line_begin(scene, scene->world.lease_ms);

    /* Each may have to wait for its next look, at a third of its lease. */
    if (!scene->is_long)
        atomic_store(&stage->numbers[PATIENCE], (uint64_t)scene->world.lease_ms);
    scene_order(scene, "proxy deaf");
    line_up(scene, DEAF);
    atomic_store(&stage->numbers[GO], 1);
    line_leave(scene, 0, DEAF);
    printf("    %llu messages lost\n", (unsigned long long)scene_stat(scene, "dropped"));
    CHECK(scene_stat(scene, "dropped") >= DEAF);
    CHECK_NUMBER(
        1 + DEAF,
        scene_judge_store(scene, scene->is_long ? HISTORY_QUEUE_ORDER : HISTORY_ANY_ORDER).grants);
    scene_end(scene);
}

FAULT_ROLE(cuts_at_any_byte_break_no_promise)
{
    char order[64];

    line_begin(scene, scene->world.lease_ms);
    storm_begin(scene);
    snprintf(order, sizeof order, "proxy cut random %d", STORM_BYTES);
    scene_order(scene, order);
    scene_order(scene, "proxy cut");
    world_sleep_ms(scene->is_long ? STORM_LONG : STORM_MS);
    scene_order(scene, "proxy pass");
    CHECK(scene_stat(scene, "cuts") > STORM_PARTS);
    storm_end(scene);
}

/* Restarts, pauses of the server, holders stopped and killed, lost answers: one after the other. */
static void make_trouble(struct scene *scene, struct dice *dice)
{
    int part = (int)dice_below(dice, STORM_PARTS);
    int64_t span_ms = (int64_t)dice_below(dice, 300);

    switch (dice_below(dice, 5)) {
    case 0:
        scene_order(scene, "server kill");
        world_sleep_ms(span_ms);
        scene_order(scene, "server start");
        return;
    case 1:
        scene_order(scene, "server freeze");
        world_sleep_ms(5 * span_ms);
        scene_order(scene, "server thaw");
        return;
    case 2:
        scene_stop(scene, part);
        world_sleep_ms(5 * span_ms);
        scene_continue(scene, part);
        return;
    case 3:
        scene_kill(scene, part);
        scene_enter(scene, part, storm_live);
        return;
    default:
        scene_order(scene, "proxy lose");
        world_sleep_ms(span_ms);
        scene_order(scene, "proxy pass");
    }
}

FAULT_ROLE(trouble_of_every_kind_breaks_no_promise)
{
    struct dice dice = { .state = (uint64_t)getpid() };
    uint64_t end_ns =
        world_now_ns() + (scene->is_long ? STORM_LONG : STORM_MS) * (uint64_t)NS_PER_MS;

    printf("    seed %llu\n", (unsigned long long)dice.state);
    line_begin(scene, scene->world.lease_ms);
    storm_begin(scene);
    while (world_now_ns() < end_ns) {
        make_trouble(scene, &dice);
        world_sleep_ms((int64_t)dice_below(&dice, 200));
    }
    storm_end(scene);
}

/* By somebody who looks after the server: KILL, pg_terminate_backend(). */
FAULT_ROLE(sessions_that_are_ended_break_no_promise)
{
    struct dice dice = { .state = (uint64_t)getpid() };
    uint64_t end_ns =
        world_now_ns() + (scene->is_long ? STORM_LONG : STORM_MS) * (uint64_t)NS_PER_MS;

    printf("    seed %llu\n", (unsigned long long)dice.state);
    line_begin(scene, scene->world.lease_ms);
    storm_begin(scene);
    while (world_now_ns() < end_ns) {
        scene_order(scene, "sessions");
        world_sleep_ms((int64_t)dice_below(&dice, 500));
    }
    storm_end(scene);
}

/* --- many --- */

struct place {
    struct turn turn;
    hf_claim *claim;
};

static void be_served(struct scene *scene, int part)
{
    struct hf_acquire_options options = line_leasing(scene);
    struct name name = scene_name(scene, 1);
    hf_client *client = world_open(&scene->world);
    struct place places[CLAIMS];

    WAIT_UNTIL(atomic_load(&scene->stage->numbers[IN_LINE]) == (uint64_t)part * CLAIMS);
    for (uint64_t k = 0; k < CLAIMS; k++) {
        places[k].turn = scene_ask(scene, 1, HF_EXCLUSIVE);
        places[k].claim = world_claim(client, name.text, &options);
        if (k == 0)
            WAIT_UNTIL(hf_claim_position(places[k].claim) > 0);
        atomic_fetch_add(&scene->stage->numbers[IN_LINE], 1);
    }
    for (int k = 0; k < CLAIMS; k++) {
        hf_grant *grant = NULL;
        uint64_t place;

        CHECK_STATUS(HF_OK, hf_claim_wait(places[k].claim, HF_FOREVER, &grant));
        scene_granted(scene, &places[k].turn, grant);
        place = atomic_fetch_add(&scene->stage->numbers[SERVED], 1);
        atomic_store(&scene->stage->served[place],
                     hf_grant_fence(grant) / 256 * ACTORS_MAX + (uint64_t)part);
        CHECK_STATUS(HF_OK, scene_give_back(scene, &places[k].turn));
        hf_claim_free(places[k].claim);
    }
    hf_close(client);
}

/* At the store a process stands in line once, with all its claims behind it, and again at the tail
 * when its turn is over. It does that by itself, and one that was not let on a CPU meanwhile may
 * come behind the next one, but hardly behind a whole round: before anybody's third turn, each that
 * still waits has had one since the first. */
static void check_turns(const struct stage *stage, size_t count)
{
    size_t turns = 0;
    uint64_t before = 0;
    size_t last_turn[PROCESSES] = { 0 }; /* when it last had one, counted from 1 */
    size_t turn_before[PROCESSES] = { 0 };
    size_t served[PROCESSES] = { 0 };

    for (size_t i = 0; i < count; i++) {
        uint64_t entry = atomic_load(&stage->served[i]);
        size_t part = entry % ACTORS_MAX;

        if (i == 0 || entry != before)
            turns++;
        for (size_t other = 0; entry != before && other < PROCESSES; other++) {
            bool waits = other != part && other != VICTIM && served[other] < CLAIMS;

            if (waits && last_turn[other] < turn_before[part]) {
                fprintf(stderr, "turn %zu: process %zu again, before process %zu\n", turns, part,
                        other);
                CHECK(!"served in order");
            }
        }
        if (entry != before)
            turn_before[part] = last_turn[part];
        before = entry;
        last_turn[part] = turns;
        served[part]++;
    }
    printf("    %zu turns\n", turns);
}

FAULT_ROLE(a_thousand_waiters_of_ten_processes_are_served_in_order)
{
    struct stage *stage = line_begin(scene, LONG_MS);
    size_t served = (PROCESSES - 1) * CLAIMS;

    scene_enter(scene, PROCESSES, line_hold_and_look);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    for (int part = 0; part < PROCESSES; part++)
        scene_enter(scene, part, be_served);
    for (uint64_t part = 1; part <= PROCESSES; part++)
        WAIT_UNTIL(atomic_load(&stage->numbers[IN_LINE]) >= part * CLAIMS);
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
    scene_kill(scene, VICTIM);
    atomic_store(&stage->numbers[GO], 1);
    scene_leave(scene, PROCESSES);
    for (int part = 0; part < PROCESSES; part++) {
        if (part != VICTIM)
            scene_leave(scene, part);
    }
    CHECK_NUMBER(served, atomic_load(&stage->numbers[SERVED]));
    check_turns(stage, served);
    CHECK_NUMBER(1 + served, scene_judge_store(scene, HISTORY_ANY_ORDER).grants);
    scene_end(scene);
}
