/* storm.c: does everybody who takes locks and gives them back get on when the trouble is over?
 *
 * Six processes share two locks, to read and to write, wait for a while at most, and take whatever
 * answer comes. The log tells whether a promise was broken. */

#include "storm.h"

#include <stdio.h>
#include <unistd.h>

void storm_live(struct scene *scene, int part)
{
    struct dice dice = { .state = (uint64_t)getpid() * 1000003u };
    hf_client *client = world_open(&scene->world);
    bool shares = world_recipe(scene->world.url).promises & HF_PROMISE_SHARED;

    while (!atomic_load(&scene->stage->over)) {
        struct hf_acquire_options options = line_leasing(scene);
        struct turn turn;
        int status;

        options.mode = dice_below(&dice, 3) || !shares ? HF_EXCLUSIVE : HF_SHARED;
        options.wait_ms = 100 + (int64_t)dice_below(&dice, 2000);
        turn = scene_ask(scene, 1 + (uint32_t)dice_below(&dice, 2), options.mode);
        status = scene_take(scene, client, &turn, &options);
        if (status == HF_OK) {
            scene_hold_until(scene, &turn, history_now_ns() + dice_below(&dice, 20) * NS_PER_MS);
            status = scene_give_back(scene, &turn);
            if (status != HF_ELOST && status != HF_EUNKNOWN)
                CHECK_STATUS(HF_OK, status);
            atomic_fetch_add(&scene->stage->acts[part], 1);
        } else if (status != HF_EUNREACHABLE && status != HF_EUNKNOWN) {
            CHECK_STATUS(HF_ETIMEDOUT, status);
        }
        atomic_fetch_add(&scene->stage->numbers[LOSSES], status != HF_OK);
    }
    hf_close(client);
}

void storm_begin(struct scene *scene)
{
    for (int part = 0; part < STORM_PARTS; part++)
        scene_enter(scene, part, storm_live);
    for (int part = 0; part < STORM_PARTS; part++)
        WAIT_UNTIL(atomic_load(&scene->stage->acts[part]) > 0);
}

void storm_end(struct scene *scene)
{
    struct stage *stage = scene->stage;

    for (int part = 0; part < STORM_PARTS; part++) {
        uint64_t before = atomic_load(&stage->acts[part]);

        WAIT_UNTIL(atomic_load(&stage->acts[part]) > before + 3);
    }
    atomic_store(&stage->over, true);
    line_leave(scene, 0, STORM_PARTS - 1);
    printf("    %llu cuts, %llu not answered with HF_OK\n",
           (unsigned long long)scene_stat(scene, "cuts"),
           (unsigned long long)atomic_load(&stage->numbers[LOSSES]));
    scene_judge_store(scene, HISTORY_ANY_ORDER);
    scene_end(scene);
}
