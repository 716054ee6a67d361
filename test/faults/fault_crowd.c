/* fault_crowd.c: does the lock hold out where there is much of everything: waiters, names, grants?
 *
 * The waiters take their places one after the other, each process in its turn, so that the one
 * right order is known. */

#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PROCESSES   10
#define CLAIMS      100
#define VICTIM      4
#define RECORDS_MAX 1000000
#define NAMES       100000
#define HELD        10000
#define NAMERS      2
#define WAITERS_MAX 65536 /* of one client, and of one lock */

/* numbers[] of the stage */
#define IN_LINE 0
#define SERVED  1
#define HOLDS   2
#define GO      3

struct place {
    struct turn turn;
    hf_claim *claim;
};

/* Place number k of this process is place k * PROCESSES + part of all. */
static void stand_in_line(struct scene *scene, int part, hf_client *client,
                          struct place places[CLAIMS])
{
    struct name name = scene_name(scene, 1);

    for (uint64_t k = 0; k < CLAIMS; k++) {
        struct place *place = &places[k];

        WAIT_UNTIL(atomic_load(&scene->stage->numbers[IN_LINE]) == k * PROCESSES + (uint64_t)part);
        place->turn = scene_ask(scene, 1, HF_EXCLUSIVE);
        place->claim = world_claim(client, name.text, NULL);
        WAIT_UNTIL(hf_claim_position(place->claim) > 0);
        scene_note(scene, &place->turn, HISTORY_QUEUED, history_now_ns());
        atomic_fetch_add(&scene->stage->numbers[IN_LINE], 1);
    }
}

static void be_served(struct scene *scene, int part)
{
    hf_client *client = world_open(&scene->world);
    struct place places[CLAIMS];

    stand_in_line(scene, part, client, places);
    for (int k = 0; k < CLAIMS; k++) {
        hf_grant *grant = NULL;

        CHECK_STATUS(HF_OK, hf_claim_wait(places[k].claim, HF_FOREVER, &grant));
        scene_granted(scene, &places[k].turn, grant);
        atomic_fetch_add(&scene->stage->numbers[SERVED], 1);
        CHECK_STATUS(HF_OK, scene_give_back(scene, &places[k].turn));
    }
    for (int k = 0; k < CLAIMS; k++)
        hf_claim_free(places[k].claim);
    scene_tell_rescued(scene, part, client);
    hf_close(client);
}

static void hold_until_told(struct scene *scene, int part)
{
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);

    (void)part;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, NULL));
    atomic_store(&scene->stage->numbers[HOLDS], 1);
    while (!atomic_load(&scene->stage->numbers[GO]))
        world_sleep_ms(1);
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_close(client);
}

FAULT_ROLE(a_thousand_waiters_are_served_in_order)
{
    struct history_report report;
    struct stage *stage;

    scene_begin(scene, RECORDS_MAX);
    stage = scene->stage;
    scene_enter(scene, PROCESSES, hold_until_told);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    for (int part = 0; part < PROCESSES; part++)
        scene_enter(scene, part, be_served);
    while (atomic_load(&stage->numbers[IN_LINE]) < PROCESSES * CLAIMS) {
        uint64_t before = atomic_load(&stage->numbers[IN_LINE]);

        WAIT_UNTIL(atomic_load(&stage->numbers[IN_LINE]) > before);
    }
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
    scene_kill(scene, VICTIM);
    atomic_store(&stage->numbers[GO], 1);
    scene_leave(scene, PROCESSES);
    for (int part = 0; part < PROCESSES; part++) {
        if (part != VICTIM)
            scene_leave(scene, part);
    }
    report = scene_judge(scene, HISTORY_QUEUE_ORDER);
    CHECK_NUMBER(1 + (PROCESSES - 1) * CLAIMS, report.grants);
    scene_end(scene);
}

/* The limit is the client's, or an earlier one of the store, told as the claim's answer. */
static size_t claim_until_refused(hf_client *client, const char *name, hf_claim **claims)
{
    hf_grant *grant = NULL;

    for (size_t i = 0; i <= WAITERS_MAX; i++) {
        int status = hf_claim_start(client, name, NULL, &claims[i]);

        if (status == HF_OK)
            status = hf_claim_wait(claims[i], 0, &grant);
        if (status == HF_PENDING)
            continue;
        CHECK_STATUS(HF_ELIMIT, status);
        CHECK(hf_client_error(client)[0] != '\0');
        printf("    %zu waiters, then: %s\n", i, hf_client_error(client));
        return i;
    }
    world_fail(__FILE__, __LINE__, "there is a limit");
}

static void reach_the_limit(struct scene *scene, int part)
{
    struct name name = scene_name(scene, 1);
    struct name other_name = scene_name(scene, 2);
    hf_client *holder = world_open(&scene->world);
    hf_client *client = world_open(&scene->world);
    hf_grant *held = world_take(holder, name.text, NULL);
    hf_claim **claims = (hf_claim **)calloc(WAITERS_MAX + 1, sizeof *claims);
    hf_grant *grant = NULL;
    size_t count;

    (void)part;
    CHECK(claims);
    count = claim_until_refused(client, name.text, claims);
    CHECK(count >= PROCESSES * CLAIMS);
    CHECK_NUMBER(count, world_stats(client).waiting);

    /* Those who wait go on waiting, and are served. */
    CHECK_STATUS(HF_PENDING, hf_claim_wait(claims[0], 0, &grant));
    CHECK_STATUS(HF_PENDING, hf_claim_wait(claims[count - 1], 0, &grant));
    world_give_back(held);
    world_give_back(world_fetch(claims[0]));
    for (size_t i = WAITERS_MAX + 1; i > 0; i--)
        hf_claim_free(claims[i - 1]);
    CHECK_STATUS(HF_OK, world_try(client, other_name.text, HF_EXCLUSIVE));
    WAIT_UNTIL(world_try(client, name.text, HF_EXCLUSIVE) == HF_OK);
    free(claims);
    hf_close(client);
    hf_close(holder);
}

FAULT_ROLE(waiters_beyond_the_limit_are_refused)
{
    scene_begin(scene, 1);
    scene_enter(scene, 0, reach_the_limit);
    scene_leave(scene, 0);
    CHECK_NUMBER(0, scene_count_listed(scene));
    scene_end(scene);
}

/* --- names --- */

static struct name number_name(const struct scene *scene, uint64_t number)
{
    char suffix[64];

    snprintf(suffix, sizeof suffix, "tenant/%llu/order/%llu", (unsigned long long)number % 97,
             (unsigned long long)number);
    return world_name(&scene->world, suffix);
}

/* All names, twice, in an order of its own; the fence of each must rise. */
static void use_all_names(struct scene *scene, int part)
{
    hf_client *client = world_open(&scene->world);
    uint64_t *fences = (uint64_t *)calloc(NAMES, sizeof *fences);
    uint64_t step = part ? 7919 : 1; /* a prime that does not divide NAMES */

    CHECK(fences);
    for (uint64_t i = 0; i < 2 * NAMES; i++) {
        uint64_t number = i * step % NAMES;
        struct name name = number_name(scene, number);
        hf_grant *grant = world_take(client, name.text, NULL);

        CHECK(hf_grant_fence(grant) > fences[number]);
        fences[number] = hf_grant_fence(grant);
        world_give_back(grant);
        atomic_fetch_add(&scene->stage->acts[part], 1);
    }
    free(fences);
    scene_tell_rescued(scene, part, client);
    hf_close(client);
}

FAULT_ROLE(a_hundred_thousand_names_live_in_one_place)
{
    scene_begin(scene, 1);
    for (int part = 0; part < NAMERS; part++)
        scene_enter(scene, part, use_all_names);
    for (int part = 0; part < NAMERS; part++)
        scene_leave(scene, part);
    for (int part = 0; part < NAMERS; part++)
        CHECK_NUMBER(2 * NAMES, atomic_load(&scene->stage->acts[part]));
    CHECK_NUMBER(0, atomic_load(&scene->stage->rescued_before));
    CHECK_NUMBER(0, scene_count_listed(scene));
    scene_end(scene);
}

static void hold_ten_thousand(struct scene *scene, int part)
{
    hf_client *client = world_open(&scene->world);
    hf_client *other = world_open(&scene->world);
    hf_grant **grants = (hf_grant **)calloc(HELD, sizeof *grants);

    (void)part;
    CHECK(grants);
    for (uint64_t i = 0; i < HELD; i++) {
        struct name name = number_name(scene, i);

        grants[i] = world_take(client, name.text, NULL);
    }
    CHECK_NUMBER(HELD, world_stats(client).held);
    CHECK_NUMBER(HELD, scene_count_listed(scene));
    for (uint64_t i = 0; i < HELD; i += 17) {
        struct name name = number_name(scene, i);

        CHECK(hf_grant_valid(grants[i]));
        CHECK_STATUS(HF_EBUSY, world_try(other, name.text, HF_EXCLUSIVE));
    }
    for (uint64_t i = 0; i < HELD / 2; i++)
        world_give_back(grants[i]);
    CHECK_NUMBER(HELD - HELD / 2, scene_count_listed(scene));
    hf_close(client); /* gives back the rest */
    for (uint64_t i = HELD / 2; i < HELD; i++)
        CHECK_STATUS(HF_ELOST, hf_release(grants[i]));
    CHECK_NUMBER(0, scene_count_listed(scene));
    hf_close(other);
    free(grants);
}

/* As it was meant to be, and by the death of the process. */
static void hold_and_die(struct scene *scene, int part)
{
    hf_client *client = world_open(&scene->world);

    (void)part;
    for (uint64_t i = 0; i < HELD; i++) {
        struct name name = number_name(scene, i);

        CHECK(world_take(client, name.text, NULL));
    }
    atomic_store(&scene->stage->numbers[HOLDS], 1);
    world_sleep_ms(1000 * 1000);
}

FAULT_ROLE(one_client_holds_ten_thousand)
{
    scene_begin(scene, 1000);
    scene_enter(scene, 0, hold_ten_thousand);
    scene_leave(scene, 0);
    scene_enter(scene, 0, hold_and_die);
    WAIT_UNTIL(atomic_load(&scene->stage->numbers[HOLDS]) == 1);
    scene_kill(scene, 0);
    WAIT_UNTIL(scene_count_listed(scene) == 0);
    scene_enter(scene, 0, hold_ten_thousand);
    scene_leave(scene, 0);
    scene_end(scene);
}
