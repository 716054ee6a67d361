/* line.c: who holds, and who waits behind?
 *
 * Most cases on servers begin alike: one holds, the others stand in line behind it in a known
 * order, and then something happens. Everybody is a process with a client of its own, and writes
 * down what it asked, was given and gave back; the judge wants the order of the line. */

#include "line.h"

struct hf_acquire_options line_leasing(const struct scene *scene)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = (int64_t)atomic_load(&scene->stage->numbers[LEASE]);
    return options;
}

struct stage *line_begin(struct scene *scene, int64_t lease_ms)
{
    scene_begin(scene, RECORDS_MAX);
    scene->world.lease_ms = lease_ms; /* of the clients: where a session is the lease, it counts */
    atomic_store(&scene->stage->numbers[LEASE], (uint64_t)lease_ms);
    atomic_store(&scene->stage->numbers[PATIENCE],
                 (uint64_t)(lease_ms > LONG_MS ? lease_ms : LONG_MS));
    return scene->stage;
}

/* Writes down what it saw first after it was told to go: before, it may have been stopped all the
 * time. */
void line_hold_and_look(struct scene *scene, int part)
{
    struct hf_acquire_options options = line_leasing(scene);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    bool valid = true;
    bool goes = false;

    (void)part;
    CHECK_STATUS(HF_OK, scene_take(scene, client, &turn, &options));
    atomic_store(&scene->stage->numbers[HOLDS], 1);
    while (!goes) {
        uint64_t look_ns = history_now_ns();
        bool still;

        goes = atomic_load(&scene->stage->numbers[GO]);
        still = hf_grant_valid(turn.grant);
        if (still)
            scene_valid(scene, &turn, look_ns);
        CHECK(valid || !still); /* what was lost stays lost */
        valid = still;
        atomic_store(&scene->stage->numbers[LOST], !valid);
        if (!goes)
            world_sleep_ms(1);
    }
    atomic_store(&scene->stage->numbers[FIRST], 1 + (uint64_t)valid);
    CHECK_STATUS(valid ? HF_OK : HF_ELOST, scene_give_back(scene, &turn));
    hf_close(client);
}

/* Where no order is promised, nobody knows its place. */
static void wait_for_place(const struct scene *scene, const hf_claim *claim)
{
    if (scene_is_fair(scene))
        WAIT_UNTIL(hf_claim_position(claim) > 0);
    else
        world_sleep_ms(A_WHILE_MS);
}

void line_wait(struct scene *scene, int part)
{
    struct hf_acquire_options options = line_leasing(scene);
    struct name name = scene_name(scene, 1);
    hf_client *client = world_open(&scene->world);
    struct turn turn = scene_ask(scene, 1, HF_EXCLUSIVE);
    hf_claim *claim;
    hf_grant *grant = NULL;

    (void)part;
    options.lease_ms = (int64_t)atomic_load(&scene->stage->numbers[PATIENCE]);
    claim = world_claim(client, name.text, &options);
    wait_for_place(scene, claim);
    scene_note(scene, &turn, HISTORY_QUEUED, history_now_ns());
    atomic_fetch_add(&scene->stage->numbers[IN_LINE], 1);
    CHECK_STATUS(HF_OK, hf_claim_wait(claim, HF_FOREVER, &grant));
    scene_granted(scene, &turn, grant);
    atomic_fetch_add(&scene->stage->numbers[SERVED], 1);
    CHECK_STATUS(HF_OK, scene_give_back(scene, &turn));
    hf_claim_free(claim);
    hf_close(client);
}

void line_up(struct scene *scene, int waiters)
{
    struct stage *stage = scene->stage;

    scene_enter(scene, 0, line_hold_and_look);
    WAIT_UNTIL(atomic_load(&stage->numbers[HOLDS]) == 1);
    for (int part = 1; part <= waiters; part++) {
        scene_enter(scene, part, line_wait);
        WAIT_UNTIL(atomic_load(&stage->numbers[IN_LINE]) == (uint64_t)part);
    }
    CHECK_NUMBER(0, atomic_load(&stage->numbers[SERVED]));
}

void line_leave(struct scene *scene, int first, int last)
{
    for (int part = first; part <= last; part++)
        scene_leave(scene, part);
}
