/* fault_store.c: does a lock on a server keep its promises when the server, the network and the
 * clients fail?
 *
 * Everybody goes through a proxy; the director orders what happens to the server and the network
 * (scene_order). The judge is the log, as everywhere; and in the end the store must be as it was
 * before, but for the fences. */

#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITERS     5
#define DEAF        50
#define PROCESSES   10
#define CLAIMS      100
#define VICTIM      4
#define CUTS        40
#define CUT_BYTES   600 /* more than a release has */
#define STORM_PARTS 6
#define STORM_MS    6000
#define STORM_LONG  60000
#define STORM_BYTES 6000
#define LONG_MS     8000 /* a lease that outlasts what is done to the server */
#define HOUR_MS     3600000
#define RECORDS_MAX 1000000

/* numbers[] of the stage */
#define HOLDS   0
#define IN_LINE 1
#define SERVED  2
#define GO      3
#define FIRST   4 /* what the holder saw first after it went on: 1 + valid */
#define GAVE_UP 5
#define LEASE   6
#define LOSSES  7
/* The lease of who waits in line is what keeps its place: long, so that a slow machine costs nobody
 * the place that the judge wants it to have. */
#define PATIENCE 8

static struct hf_acquire_options leasing(const struct scene *scene)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = (int64_t)atomic_load(&scene->stage->numbers[LEASE]);
    return options;
}

static struct stage *begin(struct scene *scene, int64_t lease_ms)
{
    scene_begin(scene, RECORDS_MAX);
    atomic_store(&scene->stage->numbers[LEASE], (uint64_t)lease_ms);
    atomic_store(&scene->stage->numbers[PATIENCE], LONG_MS);
    return scene->stage;
}

/* --- roles --- */

/* Looks all the time; writes down what it saw first after it was told to go. */
static void hold_and_look(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(scene);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    bool valid = true;

    (void)part;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    atomic_store(&scene->stage->numbers[HOLDS], 1);
    while (!atomic_load(&scene->stage->numbers[GO])) {
        uint64_t look_ns = history_now_ns();
        bool still = hf_grant_valid(turn.grant);

        if (still)
            scene_valid(scene, &turn, look_ns);
        CHECK(valid || !still); /* what was lost stays lost */
        valid = still;
        world_sleep_ms(1);
    }
    atomic_store(&scene->stage->numbers[FIRST], 1 + (uint64_t)valid);
    CHECK_STATUS(valid ? HF_OK : HF_ELOST, scene_give_back(scene, &turn));
    hf_close(client);
}

static void wait_in_line(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(scene);
    struct name name = scene_name(scene, 1);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    hf_claim *claim;
    hf_grant *grant = NULL;

    (void)part;
    options.lease_ms = (int64_t)atomic_load(&scene->stage->numbers[PATIENCE]);
    claim = world_claim(client, name.text, &options);
    WAIT_UNTIL(hf_claim_position(claim) > 0);
    scene_note(scene, &turn, HISTORY_QUEUED, history_now_ns());
    atomic_fetch_add(&scene->stage->numbers[IN_LINE], 1);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, HF_FOREVER, &grant));
    scene_granted(scene, &turn, grant);
    atomic_fetch_add(&scene->stage->numbers[SERVED], 1);
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_claim_free(claim);
    hf_close(client);
}

/* A holder, and so many behind it, in the order of their parts. */
static void line_up(struct scene *scene, int waiters)
{
    struct stage *stage = scene->stage;

    scene_enter(scene, 0, hold_and_look);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    for (int part = 1; part <= waiters; part++) {
        scene_enter(scene, part, wait_in_line);
        WAIT_UNTIL(atomic_load(&stage->numbers[IN_LINE]) == (uint64_t)part);
    }
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
}

static void leave(struct scene *scene, int first, int last)
{
    for (int part = first; part <= last; part++)
        scene_leave(scene, part);
}

/* --- clients that die and stop --- */

FAULT_ROLE(a_killed_holder_is_followed_when_its_lease_ends)
{
    struct history_report report;

    begin(scene, scene->world.lease_ms);
    line_up(scene, WAITERS);
    scene_kill(scene, 0);
    leave(scene, 1, WAITERS);
    report = scene_judge_store(scene, HISTORY_QUEUE_ORDER);
    CHECK_NUMBER(1 + WAITERS, report.grants);
    CHECK_NUMBER(1, report.killed_holders);
    scene_end(scene);
}

FAULT_ROLE(a_holder_stopped_beyond_its_lease_is_passed_by_and_knows_it)
{
    struct stage *stage = begin(scene, scene->world.lease_ms);

    line_up(scene, WAITERS);
    scene_stop(scene, 0);
    WAIT_UNTIL(atomic_load(&stage->numbers[SERVED]) > 0);
    scene_continue(scene, 0);
    leave(scene, 1, WAITERS);
    atomic_store(&stage->numbers[GO], 1);
    scene_leave(scene, 0);
    CHECK_NUMBER(1, atomic_load(&stage->numbers[FIRST]));
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_QUEUE_ORDER).grants);
    scene_end(scene);
}

/* --- the server --- */

FAULT_ROLE(a_server_that_comes_back_still_knows_who_holds_and_who_waits)
{
    struct stage *stage = begin(scene, LONG_MS);

    line_up(scene, WAITERS);
    for (int i = 0; i < 3; i++) {
        scene_order(scene, "server kill");
        world_sleep_ms(100);
        scene_order(scene, "server start");
        world_sleep_ms(400);
    }
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
    atomic_store(&stage->numbers[GO], 1);
    leave(scene, 0, WAITERS);
    CHECK_NUMBER(2, atomic_load(&stage->numbers[FIRST])); /* it never lost it */
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_QUEUE_ORDER).grants);
    scene_end(scene);
}

FAULT_ROLE(a_holder_that_dies_while_the_server_is_away_is_followed)
{
    begin(scene, 3 * scene->world.lease_ms);
    line_up(scene, WAITERS);
    scene_order(scene, "server kill");
    scene_kill(scene, 0);
    world_sleep_ms(300);
    scene_order(scene, "server start");
    leave(scene, 1, WAITERS);
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_QUEUE_ORDER).grants);
    scene_end(scene);
}

/* --- the network --- */

static void release_when_told(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(scene);
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
    struct stage *stage = begin(scene, LONG_MS);
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
    struct hf_acquire_options options = leasing(scene);
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
    struct hf_acquire_options options = leasing(scene);
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
    struct stage *stage = begin(scene, LONG_MS);

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
    struct hf_acquire_options options = leasing(scene);
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
    struct stage *stage = begin(scene, HOUR_MS);

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
    struct stage *stage = begin(scene, scene->world.lease_ms);

    /* Each may have to wait for its next look, at a third of its lease. */
    if (!scene->is_long)
        atomic_store(&stage->numbers[PATIENCE], (uint64_t)scene->world.lease_ms);
    scene_order(scene, "proxy deaf");
    line_up(scene, DEAF);
    atomic_store(&stage->numbers[GO], 1);
    leave(scene, 0, DEAF);
    printf("    %llu messages lost\n", (unsigned long long)scene_stat(scene, "dropped"));
    CHECK(scene_stat(scene, "dropped") >= DEAF);
    CHECK_NUMBER(
        1 + DEAF,
        scene_judge_store(scene, scene->is_long ? HISTORY_QUEUE_ORDER : HISTORY_ANY_ORDER).grants);
    scene_end(scene);
}

static void live_with_trouble(struct scene *scene, int part)
{
    struct dice dice = { .state = (uint64_t)getpid() * 1000003u };
    hf_client *client = world_open(&scene->world);

    while (!atomic_load(&scene->stage->over)) {
        struct hf_acquire_options options = leasing(scene);
        struct turn turn;
        int status;

        options.mode = dice_below(&dice, 3) ? HF_EXCLUSIVE : HF_SHARED;
        options.wait_ms = 100 + (int64_t)dice_below(&dice, 2000);
        turn = scene_ask(scene, 1 + (uint32_t)dice_below(&dice, 2), options.mode);
        status = scene_take(scene, client, &turn, &options);
        if (status == HF_OK) {
            scene_hold_until(scene, &turn, history_now_ns() + dice_below(&dice, 20) * NS_PER_MS);
            status = scene_give_back(scene, &turn);
            CHECK(status == HF_OK || status == HF_ELOST || status == HF_EUNKNOWN);
            atomic_fetch_add(&scene->stage->acts[part], 1);
        } else {
            CHECK(status == HF_ETIMEDOUT || status == HF_EUNREACHABLE || status == HF_EUNKNOWN);
        }
        atomic_fetch_add(&scene->stage->numbers[LOSSES], status != HF_OK);
    }
    hf_close(client);
}

static void begin_storm(struct scene *scene)
{
    for (int part = 0; part < STORM_PARTS; part++)
        scene_enter(scene, part, live_with_trouble);
    for (int part = 0; part < STORM_PARTS; part++)
        WAIT_UNTIL(atomic_load(&scene->stage->acts[part]) > 0);
}

/* The weather is good again: each of them gets on. */
static void end_storm(struct scene *scene)
{
    struct stage *stage = scene->stage;

    for (int part = 0; part < STORM_PARTS; part++) {
        uint64_t before = atomic_load(&stage->acts[part]);

        WAIT_UNTIL(atomic_load(&stage->acts[part]) > before + 3);
    }
    atomic_store(&stage->over, true);
    leave(scene, 0, STORM_PARTS - 1);
    printf("    %llu cuts, %llu not answered with HF_OK\n",
           (unsigned long long)scene_stat(scene, "cuts"),
           (unsigned long long)atomic_load(&stage->numbers[LOSSES]));
    scene_judge_store(scene, HISTORY_ANY_ORDER);
    scene_end(scene);
}

FAULT_ROLE(cuts_at_any_byte_break_no_promise)
{
    char order[64];

    begin(scene, scene->world.lease_ms);
    begin_storm(scene);
    snprintf(order, sizeof order, "proxy cut random %d", STORM_BYTES);
    scene_order(scene, order);
    scene_order(scene, "proxy cut");
    world_sleep_ms(scene->is_long ? STORM_LONG : STORM_MS);
    scene_order(scene, "proxy pass");
    CHECK(scene_stat(scene, "cuts") > STORM_PARTS);
    end_storm(scene);
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
        scene_enter(scene, part, live_with_trouble);
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
    begin(scene, scene->world.lease_ms);
    begin_storm(scene);
    while (world_now_ns() < end_ns) {
        make_trouble(scene, &dice);
        world_sleep_ms((int64_t)dice_below(&dice, 200));
    }
    end_storm(scene);
}

/* --- many --- */

struct place {
    struct turn turn;
    hf_claim *claim;
};

static void be_served(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(scene);
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
 * when its turn is over: between two turns of one process, each that still waits has one. */
static void check_turns(const struct stage *stage, size_t count)
{
    size_t turns = 0;
    uint64_t before = 0;
    size_t last_turn[PROCESSES] = { 0 }; /* when it last had one, counted from 1 */
    size_t served[PROCESSES] = { 0 };

    for (size_t i = 0; i < count; i++) {
        uint64_t entry = atomic_load(&stage->served[i]);
        size_t part = entry % ACTORS_MAX;

        if (i == 0 || entry != before)
            turns++;
        for (size_t other = 0; entry != before && other < PROCESSES; other++) {
            bool waits = other != part && other != VICTIM && served[other] < CLAIMS;

            if (waits && last_turn[part] > 0 && last_turn[other] < last_turn[part]) {
                fprintf(stderr, "turn %zu: process %zu again, before process %zu\n", turns, part,
                        other);
                CHECK(!"served in order");
            }
        }
        before = entry;
        last_turn[part] = turns;
        served[part]++;
    }
    printf("    %zu turns\n", turns);
}

FAULT_ROLE(a_thousand_waiters_of_ten_processes_are_served_in_order)
{
    struct stage *stage = begin(scene, LONG_MS);
    size_t served = (PROCESSES - 1) * CLAIMS;

    scene_enter(scene, PROCESSES, hold_and_look);
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
