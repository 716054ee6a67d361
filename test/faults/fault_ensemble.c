/* fault_ensemble.c: what does a lock on three servers that are one notice of what happens to them?
 *
 * As long as two are there, everything goes on: whoever holds keeps holding, whoever waits keeps
 * its place, though the server that it talked to is gone. Without two nothing is granted, and
 * whoever holds learns that it does so no longer, by its own clock, before anybody else can come
 * in; when two are back, service resumes.
 *
 * Gone is killed, or stopped: a stopped server answers nothing, and goes on with what it believed.
 */

#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storm.h"

#define WAITERS    5
#define ROUNDS     3
#define SPAN_MS    500
#define PATIENT_MS 15000
#define ALONE_MS   1500 /* beyond the session: long enough that somebody could come in by mistake */

static int leader(struct scene *scene)
{
    return (int)strtol(scene_order(scene, "leader").text, NULL, 10);
}

static void order_server(struct scene *scene, int which, const char *what)
{
    char order[64];

    snprintf(order, sizeof order, "server %d %s", which, what);
    scene_order(scene, order);
}

static int next_of(int server)
{
    return (server + 1) % ENSEMBLE_SERVERS;
}

/* Nobody lost anything: whoever held holds, and all are served in the order of the line. */
static void end_unharmed(struct scene *scene)
{
    struct stage *stage = scene->stage;

    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
    CHECK_NUMBER(0, atomic_load(&stage->numbers[LOST]));
    atomic_store(&stage->numbers[GO], 1);
    line_leave(scene, 0, WAITERS);
    CHECK_NUMBER(2, atomic_load(&stage->numbers[FIRST]));
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_QUEUE_ORDER).grants);
    scene_end(scene);
}

/* The holder knows that it lost; nobody came in meanwhile. When two servers are back, all are
 * served; in which order depends on whose session outlived the trouble. */
static void end_with_a_loss(struct scene *scene, uint64_t back_ns)
{
    struct stage *stage = scene->stage;

    WAIT_UNTIL(atomic_load(&stage->numbers[SERVED]) > 0);
    printf("    service resumed %llu ms after the majority was called back\n",
           (unsigned long long)((world_now_ns() - back_ns) / NS_PER_MS));
    atomic_store(&stage->numbers[GO], 1);
    line_leave(scene, 0, WAITERS);
    CHECK_NUMBER(1, atomic_load(&stage->numbers[FIRST]));
    CHECK_NUMBER(1 + WAITERS, scene_judge_store(scene, HISTORY_ANY_ORDER).grants);
    scene_end(scene);
}

/* --- with a majority --- */

FAULT_ROLE(a_killed_holder_is_followed_on_an_ensemble)
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

FAULT_ROLE(a_leader_that_is_killed_costs_nobody_the_lock)
{
    int first;

    line_begin(scene, LONG_MS);
    line_up(scene, WAITERS);
    first = leader(scene);
    order_server(scene, first, "kill");
    CHECK(leader(scene) != first);
    world_sleep_ms(LONG_MS + ALONE_MS); /* what was not renewed since then is over */
    order_server(scene, first, "start");
    world_sleep_ms(SPAN_MS);
    end_unharmed(scene);
}

/* Two others elect another; it comes back as one that follows. Whoever talks to it waits for two
 * thirds of its session before it goes elsewhere: the last third must do for that. */
FAULT_ROLE(a_leader_that_stands_still_costs_nobody_the_lock)
{
    int first;

    line_begin(scene, PATIENT_MS);
    line_up(scene, WAITERS);
    first = leader(scene);
    order_server(scene, first, "freeze");
    CHECK(leader(scene) != first);
    world_sleep_ms(PATIENT_MS + ALONE_MS);
    order_server(scene, first, "thaw");
    world_sleep_ms(SPAN_MS);
    end_unharmed(scene);
}

FAULT_ROLE(a_follower_that_is_killed_costs_nobody_the_lock)
{
    int follower;

    line_begin(scene, LONG_MS);
    line_up(scene, WAITERS);
    follower = next_of(leader(scene));
    order_server(scene, follower, "kill");
    world_sleep_ms(LONG_MS + ALONE_MS);
    order_server(scene, follower, "start");
    world_sleep_ms(SPAN_MS);
    end_unharmed(scene);
}

/* Whichever they talk to, it is gone at some time. */
FAULT_ROLE(servers_that_are_killed_in_turn_cost_nobody_the_lock)
{
    line_begin(scene, LONG_MS);
    line_up(scene, WAITERS);
    for (int round = 0; round < ROUNDS; round++) {
        for (int server = 0; server < ENSEMBLE_SERVERS; server++) {
            order_server(scene, server, "kill");
            (void)leader(scene);
            world_sleep_ms(SPAN_MS);
            order_server(scene, server, "start");
            scene_order(scene, "whole");
        }
    }
    end_unharmed(scene);
}

/* --- without --- */

static void lose_majority(struct scene *scene, const char *begin, const char *end)
{
    struct stage *stage = line_begin(scene, scene->world.lease_ms);
    uint64_t back_ns;
    int first;

    line_up(scene, WAITERS);
    first = leader(scene);
    order_server(scene, first, begin);
    order_server(scene, next_of(first), begin);
    WAIT_UNTIL(atomic_load(&stage->numbers[LOST]) == 1);
    world_sleep_ms(scene->world.lease_ms + ALONE_MS);
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
    back_ns = world_now_ns();
    order_server(scene, first, end);
    order_server(scene, next_of(first), end);
    end_with_a_loss(scene, back_ns);
}

FAULT_ROLE(without_a_majority_nobody_holds_and_then_service_resumes)
{
    lose_majority(scene, "kill", "start");
}

FAULT_ROLE(with_a_majority_that_stands_still_nobody_holds)
{
    lose_majority(scene, "freeze", "thaw");
}

/* The servers are well: they end the sessions, and nobody hears of it. */
FAULT_ROLE(who_is_cut_off_from_all_servers_knows_before_the_next_comes)
{
    struct stage *stage = line_begin(scene, scene->world.lease_ms);
    uint64_t back_ns;

    line_up(scene, WAITERS);
    scene_order(scene, "proxy stop");
    WAIT_UNTIL(atomic_load(&stage->numbers[LOST]) == 1);
    WAIT_UNTIL(strcmp(scene_order(scene, "keys").text, "0") == 0);
    back_ns = world_now_ns();
    scene_order(scene, "proxy go");
    end_with_a_loss(scene, back_ns);
}

/* --- all together --- */

static void make_trouble(struct scene *scene, struct dice *dice)
{
    int part = (int)dice_below(dice, STORM_PARTS);
    int server = (int)dice_below(dice, ENSEMBLE_SERVERS);
    int64_t span_ms = (int64_t)dice_below(dice, 400);

    switch (dice_below(dice, 6)) {
    case 0:
        order_server(scene, server, "kill");
        world_sleep_ms(span_ms);
        order_server(scene, server, "start");
        return;
    case 1: /* long enough for another leader, if it was that */
        order_server(scene, server, "freeze");
        world_sleep_ms(8 * span_ms);
        order_server(scene, server, "thaw");
        return;
    case 2:
        scene_stop(scene, part);
        world_sleep_ms(15 * span_ms);
        scene_continue(scene, part);
        return;
    case 3:
        scene_kill(scene, part);
        scene_enter(scene, part, storm_live);
        return;
    case 4:
        scene_order(scene, "proxy lose");
        world_sleep_ms(span_ms);
        scene_order(scene, "proxy pass");
        return;
    default:
        order_server(scene, server, "kill");
        order_server(scene, next_of(server), "kill");
        world_sleep_ms(span_ms);
        order_server(scene, server, "start");
        order_server(scene, next_of(server), "start");
    }
}

FAULT_ROLE(trouble_with_servers_of_an_ensemble_breaks_no_promise)
{
    struct dice dice = { .state = (uint64_t)getpid() };
    uint64_t end_ns;

    printf("    seed %llu\n", (unsigned long long)dice.state);
    line_begin(scene, scene->world.lease_ms);
    storm_begin(scene);
    end_ns = world_now_ns() + (scene->is_long ? STORM_LONG : 2 * STORM_MS) * (uint64_t)NS_PER_MS;
    while (world_now_ns() < end_ns) {
        make_trouble(scene, &dice);
        world_sleep_ms((int64_t)dice_below(&dice, 200));
    }
    scene_order(scene, "whole");
    storm_end(scene);
}
