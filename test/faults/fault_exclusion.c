/* fault_exclusion.c: does nobody but the holder ever touch what the lock protects?
 *
 * Many processes with many threads each read a number, perhaps stumble, and write it back plus
 * one. Nothing but the lock keeps them apart, so a lost increment is an exclusion that failed; and
 * the log of all grants must agree. Readers and writers do the same with a pair of numbers that is
 * never equal while it is written. */

#include "faults.h"

#include <sched.h>
#include <stdio.h>

#include "task.h"

#define PROCESSES        8
#define THREADS          4
#define INCREMENTS       200000
#define INCREMENTS_LONG  4000000
#define PAIRS            40000
#define PAIRS_LONG       1000000
#define RECORDS_PER_TURN 3
#define LOCK             1

struct worker {
    struct task task;
    struct scene *scene;
    uint64_t rounds;
    struct dice dice;
};

static uint64_t rounds_each(const struct scene *scene, uint64_t usual, uint64_t longer)
{
    return (scene->is_long ? longer : usual) / (PROCESSES * THREADS);
}

static void work(struct scene *scene, int part, uint64_t rounds, void (*run)(struct task *task))
{
    hf_client *client = world_open(&scene->world);
    struct worker workers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){ .scene = scene,
                             .rounds = rounds,
                             .dice = { .state = (uint64_t)(part * THREADS + i) },
                             .task = { .client = client, .run = run, .context = &workers[i] } };
        task_start(&workers[i].task);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(workers[i].task.thread, NULL) == 0);
    scene_tell_rescued(scene, part, client);
    hf_close(client);
}

static void count_up(struct task *task)
{
    struct worker *worker = (struct worker *)task->context;
    struct stage *stage = worker->scene->stage;

    for (uint64_t i = 0; i < worker->rounds; i++) {
        struct turn turn = scene_ask(worker->scene, LOCK, HF_EXCLUSIVE);
        uint64_t count;

        CHECK_STATUS(HF_OK, scene_take(worker->scene, task->client, &turn, NULL));
        count = atomic_load_explicit(&stage->counter, memory_order_relaxed);
        if (dice_below(&worker->dice, 64) == 0)
            sched_yield(); /* stumble, while the others wait */
        atomic_store_explicit(&stage->counter, count + 1, memory_order_relaxed);
        CHECK_STATUS(HF_OK, scene_give_back(worker->scene, &turn));
    }
}

static void count_up_in_threads(struct scene *scene, int part)
{
    work(scene, part, rounds_each(scene, INCREMENTS, INCREMENTS_LONG), count_up);
}

static void play_all(struct scene *scene, void (*role)(struct scene *scene, int part))
{
    for (int part = 0; part < PROCESSES; part++)
        scene_enter(scene, part, role);
    for (int part = 0; part < PROCESSES; part++)
        scene_leave(scene, part);
}

FAULT_ROLE(no_increment_is_lost)
{
    uint64_t total = rounds_each(scene, INCREMENTS, INCREMENTS_LONG) * PROCESSES * THREADS;
    struct history_report report;

    scene_begin(scene, (size_t)total * RECORDS_PER_TURN);
    play_all(scene, count_up_in_threads);
    CHECK_NUMBER(total, atomic_load(&scene->stage->counter));
    report = scene_judge(scene, HISTORY_ANY_ORDER);
    CHECK_NUMBER(total, report.grants);
    scene_end(scene);
}

/* Writers make the two different for a moment; readers must never see that moment. */
static void write_pair(struct stage *stage, struct dice *dice)
{
    uint64_t first = atomic_load_explicit(&stage->pair[0], memory_order_relaxed);

    CHECK_NUMBER(first, atomic_load_explicit(&stage->pair[1], memory_order_relaxed));
    atomic_store_explicit(&stage->pair[0], first + 1, memory_order_relaxed);
    if (dice_below(dice, 8) == 0)
        sched_yield();
    atomic_store_explicit(&stage->pair[1], first + 1, memory_order_relaxed);
}

static void read_pair(struct stage *stage, struct dice *dice)
{
    uint64_t first = atomic_load_explicit(&stage->pair[0], memory_order_relaxed);

    if (dice_below(dice, 8) == 0)
        sched_yield();
    CHECK_NUMBER(first, atomic_load_explicit(&stage->pair[1], memory_order_relaxed));
}

static void read_and_write(struct task *task)
{
    struct worker *worker = (struct worker *)task->context;
    struct stage *stage = worker->scene->stage;

    for (uint64_t i = 0; i < worker->rounds; i++) {
        struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
        struct turn turn;

        options.mode = dice_below(&worker->dice, 4) ? HF_SHARED : HF_EXCLUSIVE;
        turn = scene_ask(worker->scene, LOCK, options.mode);
        CHECK_STATUS(HF_OK, scene_take(worker->scene, task->client, &turn, &options));
        atomic_fetch_add(&stage->numbers[options.mode], 1);
        if (options.mode == HF_EXCLUSIVE)
            write_pair(stage, &worker->dice);
        else
            read_pair(stage, &worker->dice);
        CHECK_STATUS(HF_OK, scene_give_back(worker->scene, &turn));
    }
}

static void read_and_write_in_threads(struct scene *scene, int part)
{
    work(scene, part, rounds_each(scene, PAIRS, PAIRS_LONG), read_and_write);
}

FAULT_ROLE(readers_never_see_a_half_written_pair)
{
    uint64_t total = rounds_each(scene, PAIRS, PAIRS_LONG) * PROCESSES * THREADS;
    struct history_report report;

    scene_begin(scene, (size_t)total * RECORDS_PER_TURN);
    play_all(scene, read_and_write_in_threads);
    CHECK_NUMBER(atomic_load(&scene->stage->numbers[HF_EXCLUSIVE]),
                 atomic_load(&scene->stage->pair[0]));
    CHECK_NUMBER(atomic_load(&scene->stage->pair[0]), atomic_load(&scene->stage->pair[1]));
    CHECK(atomic_load(&scene->stage->numbers[HF_SHARED]) > 0);
    report = scene_judge(scene, HISTORY_ANY_ORDER);
    CHECK_NUMBER(total, report.grants);
    scene_end(scene);
}
