/* fault_quorum.c: what is left of a lock on five servers when two of them are gone, and when three?
 *
 * With two gone everything goes on: what is held is renewed, lease after lease, and given back, and
 * whoever comes now gets it next. With three gone nothing is granted, and whoever holds learns that
 * it does so no longer while three servers still keep everybody else out. When they are back, there
 * is nothing left of those who asked in vain, though their leases would last for an hour, and the
 * service goes on.
 *
 * Gone is killed, or stopped: a stopped server answers nothing, and obeys later what it was sent.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "faults.h"
#include "torment.h"

#define LEASE_MS     2000
#define HELD_MS      4500 /* more than two leases */
#define HOUR_MS      3600000
#define IMPATIENT_MS 1000
#define PATIENT_MS   5000 /* for a majority that can be asked */
#define RECORDS_MAX  100000
#define MAJORITY     (QUORUM_SERVERS / 2 + 1)
#define ROUNDS_LONG  6
#define ORDER_BYTES  (HF_NAME_BYTES_MAX + 64)

/* numbers[] of the stage */
#define HOLDS    0
#define GO       1
#define READY    2
#define SERVED   3
#define GAVE_UP  4
#define LOST     5
#define VALID_MS 6 /* of the wall clock: when it was last seen valid */
#define LET_GO   7

struct fate {
    const char *begin; /* orders */
    const char *end;
};
static const struct fate dead = { "kill", "start" };
static const struct fate silent = { "freeze", "thaw" };

static struct hf_acquire_options leasing(int64_t lease_ms, int64_t wait_ms)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = lease_ms;
    options.wait_ms = wait_ms;
    return options;
}

static _Atomic uint64_t *number(struct scene *scene, int which)
{
    return &scene->stage->numbers[which];
}

static void order_servers(struct scene *scene, const int servers[], int count, const char *what)
{
    char order[64];

    for (int i = 0; i < count; i++) {
        snprintf(order, sizeof order, "server %d %s", servers[i], what);
        scene_order(scene, order);
    }
}

static uint64_t wall_ms(void)
{
    struct timespec now = { 0 };

    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / NS_PER_MS;
}

static bool nothing_left(struct scene *scene)
{
    return scene_order(scene, "keys").text[0] == '0';
}

static void order_about_lock(const struct scene *scene, const char *what, uint32_t lock,
                             char out_order[ORDER_BYTES])
{
    struct name name = scene_name(scene, lock);

    snprintf(out_order, ORDER_BYTES, "%s hf:{%s}:l", what, name.text);
}

/* A client takes it on those that it has reached; the others join with the next renewal. */
static bool all_have_joined(struct scene *scene)
{
    char order[ORDER_BYTES];

    order_about_lock(scene, "holders", 1, order);
    return strtol(scene_order(scene, order).text, NULL, 10) == QUORUM_SERVERS;
}

/* --- two of five --- */

static void hold_until_told(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(LEASE_MS, HF_FOREVER);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);

    (void)part;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    atomic_store(number(scene, HOLDS), 1);
    while (!atomic_load(number(scene, GO)))
        CHECK(scene_hold_until(scene, &turn, history_now_ns() + 20 * NS_PER_MS));
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_close(client);
}

/* Comes when the two are gone already. */
static void follow(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(LEASE_MS, HF_FOREVER);
    hf_client *client = world_open(&scene->world);
    struct turn turn;

    (void)part;
    options.wait_ms = 0;
    turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    CHECK_STATUS(HF_EBUSY, scene_take(scene, client, &turn, &options));
    options.wait_ms = HF_FOREVER;
    turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    atomic_store(number(scene, READY), 1);
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    atomic_store(number(scene, SERVED), 1);
    CHECK(scene_hold_until(scene, &turn, history_now_ns() + 11 * LEASE_MS / 10 * NS_PER_MS));
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_close(client);
}

static void go_on_without_two(struct scene *scene, struct dice *dice, const struct fate *fate)
{
    int gone[2];
    struct history_report report;

    torment_draw(dice, 2, gone);
    printf("    without %d and %d\n", gone[0], gone[1]);
    scene_begin(scene, RECORDS_MAX);
    scene_enter(scene, 0, hold_until_told);
    WAIT_UNTIL(atomic_load(number(scene, HOLDS)) == 1);
    WAIT_UNTIL(all_have_joined(scene));
    order_servers(scene, gone, 2, fate->begin);
    scene_enter(scene, 1, follow);
    WAIT_UNTIL(atomic_load(number(scene, READY)) == 1);
    world_sleep_ms(HELD_MS);
    CHECK_NUMBER(0, atomic_load(number(scene, SERVED)));
    atomic_store(number(scene, GO), 1);
    scene_leave(scene, 0);
    scene_leave(scene, 1);
    order_servers(scene, gone, 2, fate->end);
    report = scene_judge_store(scene, HISTORY_ANY_ORDER);
    CHECK_NUMBER(2, report.grants);
    scene_end(scene);
}

FAULT_ROLE(with_two_of_five_dead_it_goes_on)
{
    struct dice dice = torment_dice();

    for (int i = 0; i < (scene->is_long ? ROUNDS_LONG : 1); i++)
        go_on_without_two(scene, &dice, &dead);
}

FAULT_ROLE(with_two_of_five_silent_it_goes_on)
{
    struct dice dice = torment_dice();

    for (int i = 0; i < (scene->is_long ? ROUNDS_LONG : 1); i++)
        go_on_without_two(scene, &dice, &silent);
}

/* --- three of five --- */

/* Looks until it has lost it; whatever it does to the store after that comes when it is told. */
static void hold_until_lost(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(LEASE_MS, HF_FOREVER);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    struct hf_event event;
    uint64_t look_ms;

    (void)part;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    atomic_store(number(scene, HOLDS), 1);
    look_ms = wall_ms();
    while (scene_hold_until(scene, &turn, history_now_ns() + 1 * NS_PER_MS)) {
        atomic_store(number(scene, VALID_MS), look_ms);
        look_ms = wall_ms();
    }
    event = world_event(client, HF_EVENT_LOST);
    CHECK(event.grant == turn.grant);
    atomic_store(number(scene, LOST), 1);
    WAIT_UNTIL(atomic_load(number(scene, LET_GO)) == 1);
    CHECK_STATUS(HF_ELOST, scene_give_back(scene, &turn));
    hf_close(client);
}

/* false: nobody knows what became of it. */
static bool is_refused(struct scene *scene, hf_client *client, uint32_t lock, int64_t wait_ms)
{
    struct hf_acquire_options options = leasing(HOUR_MS, wait_ms);
    struct turn turn = scene_ask(scene, lock, HF_EXCLUSIVE);
    int status = scene_take(scene, client, &turn, &options);

    printf("    lock %u, waiting %lld ms: %s\n", lock, (long long)wait_ms,
           world_status_name(status));
    fflush(stdout);
    if (status != HF_ETIMEDOUT && status != HF_EUNKNOWN)
        CHECK_STATUS(HF_EUNREACHABLE, status);
    return status != HF_EUNKNOWN;
}

static void ask_in_vain(struct scene *scene, int part)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    bool is_silent = scene->own == &silent; /* then it is not known what they do with it */
    hf_client *client = NULL;

    (void)part;
    options.connect_ms = PATIENT_MS;
    WAIT_UNTIL(hf_open(scene->world.url, &options, &client) == HF_OK);
    atomic_store(number(scene, READY), 1);
    WAIT_UNTIL(atomic_load(number(scene, GO)) == 1);
    (void)is_refused(scene, client, 2, 0); /* in the moment of their death it may be heard */
    CHECK(is_refused(scene, client, 2, IMPATIENT_MS) || is_silent);
    CHECK(is_refused(scene, client, 1, IMPATIENT_MS) || is_silent);
    atomic_store(number(scene, GAVE_UP), 1);
    WAIT_UNTIL(atomic_load(&scene->stage->over));
    hf_close(client);
}

static void come_in_vain(struct scene *scene, int part)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_client *client = NULL;

    (void)part;
    options.connect_ms = IMPATIENT_MS;
    CHECK_STATUS(HF_EUNREACHABLE, hf_open(scene->world.url, &options, &client));
}

/* Through the outage, and until it has it. */
static void wait_patiently(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(LEASE_MS, HF_FOREVER);
    hf_client *client;
    struct turn turn;
    int status;

    (void)part;
    WAIT_UNTIL(hf_open(scene->world.url, NULL, &client) == HF_OK);
    do {
        turn = scene_ask(scene, 1, HF_EXCLUSIVE);
        status = scene_take(scene, client, &turn, &options);
    } while (status == HF_EUNREACHABLE || status == HF_EUNKNOWN);
    CHECK_STATUS(HF_OK, status);
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    atomic_store(number(scene, SERVED), 1);
    hf_close(client);
}

static void take_soon(struct scene *scene, int part)
{
    struct hf_acquire_options options = leasing(LEASE_MS, LIMIT_MS);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 2, HF_EXCLUSIVE);

    (void)part;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_close(client);
}

/* A majority had leased it for longer than the holder believed in it. */
static void check_lapses(struct scene *scene)
{
    uint64_t valid_ms = atomic_load(number(scene, VALID_MS));
    char order[ORDER_BYTES];
    char what[32];
    int later = 0;

    CHECK(valid_ms > 0);
    for (int server = 0; server < QUORUM_SERVERS; server++) {
        uint64_t lapse_ms;

        snprintf(what, sizeof what, "lapse %d", server);
        order_about_lock(scene, what, 1, order);
        lapse_ms = strtoull(scene_order(scene, order).text, NULL, 10);
        printf("    server %d: %lld ms after the end of belief\n", server,
               (long long)(lapse_ms - valid_ms));
        later += lapse_ms > valid_ms;
    }
    fflush(stdout);
    CHECK(later >= MAJORITY);
}

static void stand_still_without_three(struct scene *scene, const struct fate *fate)
{
    struct dice dice = torment_dice();
    int gone[3];

    torment_draw(&dice, 3, gone);
    printf("    without %d, %d and %d\n", gone[0], gone[1], gone[2]);
    scene_begin(scene, RECORDS_MAX);
    scene->own = (void *)(uintptr_t)fate;
    scene_enter(scene, 0, hold_until_lost);
    WAIT_UNTIL(atomic_load(number(scene, HOLDS)) == 1);
    scene_enter(scene, 1, ask_in_vain);
    WAIT_UNTIL(atomic_load(number(scene, READY)) == 1);
    world_sleep_ms(LEASE_MS); /* it lives by renewals */
    CHECK_NUMBER(0, atomic_load(number(scene, LOST)));
    order_servers(scene, gone, 3, fate->begin);
    atomic_store(number(scene, GO), 1);
    scene_enter(scene, 2, come_in_vain);
    WAIT_UNTIL(atomic_load(number(scene, LOST)) == 1);
    if (fate == &dead)
        check_lapses(scene);
    atomic_store(number(scene, LET_GO), 1);
    scene_leave(scene, 2);
    scene_leave(scene, 0);
    WAIT_UNTIL(atomic_load(number(scene, GAVE_UP)) == 1);
    WAIT_UNTIL(nothing_left(scene)); /* where it can be undone, it is */
    scene_enter(scene, 3, wait_patiently);
    world_sleep_ms(500);
    CHECK_NUMBER(0, atomic_load(number(scene, SERVED)));
    order_servers(scene, gone, 3, fate->end);
    scene_leave(scene, 3);
    WAIT_UNTIL(nothing_left(scene));
    scene_enter(scene, 4, take_soon);
    scene_leave(scene, 4);
    atomic_store(&scene->stage->over, true);
    scene_leave(scene, 1);
    CHECK_NUMBER(3, scene_judge_store(scene, HISTORY_ANY_ORDER).grants);
    scene_end(scene);
}

FAULT_ROLE(with_three_of_five_dead_nothing_is_granted_and_nothing_left)
{
    stand_still_without_three(scene, &dead);
}

FAULT_ROLE(with_three_of_five_silent_nothing_is_granted_and_nothing_left)
{
    stand_still_without_three(scene, &silent);
}
