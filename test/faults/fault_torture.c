/* fault_torture.c: do fences rise and holders exclude each other, whatever five servers suffer?
 *
 * Processes with threads contend for a few names through the library while everything that can
 * happen happens (torment.h). Their wall clocks are hours apart: fences are proposed from them, and
 * must rise all the same. The judge is the log of all grants, as everywhere.
 *
 * The same is done to a client with the fences that everybody thinks of first (naive.h), and the
 * same judge must refuse them: a harness that cannot tell them from ours proves nothing. The very
 * same grants, numbered in the order in which they were given, must pass: it is the fences alone
 * that are wrong. */

#include <stdio.h>
#include <time.h>

#include "clock.h"
#include "faults.h"
#include "naive.h"
#include "task.h"
#include "torment.h"

#define THREADS       3
#define LEASE_MS      2000
#define TORTURE_MS    7000
#define TORTURE_LONG  60000
#define NAIVE_MS      2500
#define NAIVE_LONG    20000
#define RECORDS_MAX   4000000
#define THROUGH_LEAST 100 /* grants while a server has trouble */
#define NAIVE_LEAST   30
#define NAIVE_ROUNDS  5
#define RAISED_LEAST  20
#define FENCE_STEP    256 /* fences are microseconds, and so many within each */

/* numbers[] of the stage, beyond torment.h */
#define LOSSES 10 /* releases not answered with HF_OK */
#define LIVES  11 /* processes that came, each with the next clock */
#define RAISED 12 /* grants whose fence is beyond the clock of their process */

/* More than an hour ahead a proposal is refused by every server. */
static const int64_t clocks_ahead_s[] = { 0, -86400, -3, 3, 900, 10800 };

#define CLOCKS (sizeof clocks_ahead_s / sizeof clocks_ahead_s[0])

struct sufferer {
    struct task task;
    struct scene *scene;
    int part;
    struct dice dice;
};

static void count_grant(struct scene *scene, int part, uint32_t lock)
{
    struct stage *stage = scene->stage;

    if (atomic_load(&stage->numbers[TORMENT_UNWELL]) > 0)
        atomic_fetch_add(&stage->numbers[TORMENT_THROUGH], 1);
    atomic_fetch_add(&stage->numbers[TORMENT_GRANTS + lock], 1);
    atomic_fetch_add(&stage->acts[part], 1);
}

static void count_raised(struct scene *scene, const struct turn *turn)
{
    struct timespec now = { 0 };

    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    if (turn->record.fence / FENCE_STEP / 1000000 > (uint64_t)now.tv_sec + 1)
        atomic_fetch_add(&scene->stage->numbers[RAISED], 1);
}

/* Mostly shortly; sometimes so long that it must be renewed. */
static void hold(struct sufferer *sufferer, struct turn *turn)
{
    uint64_t span_ms = dice_below(&sufferer->dice, 100) == 0
                           ? dice_below(&sufferer->dice, 3 * LEASE_MS / 2)
                           : dice_below(&sufferer->dice, 15);
    int status;

    scene_hold_until(sufferer->scene, turn, history_now_ns() + span_ms * NS_PER_MS);
    status = scene_give_back(sufferer->scene, turn);
    CHECK(status == HF_OK || status == HF_ELOST || status == HF_EUNKNOWN);
    atomic_fetch_add(&sufferer->scene->stage->numbers[LOSSES], status != HF_OK);
}

static void suffer(struct task *task)
{
    struct sufferer *sufferer = (struct sufferer *)task->context;
    struct scene *scene = sufferer->scene;

    while (!atomic_load(&scene->stage->over)) {
        struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
        uint32_t lock = 1 + (uint32_t)dice_below(&sufferer->dice, TORMENT_LOCKS);
        struct turn turn = scene_ask(scene, lock, HF_EXCLUSIVE);
        int status;

        options.lease_ms = LEASE_MS;
        options.wait_ms =
            dice_below(&sufferer->dice, 8) ? 50 + (int64_t)dice_below(&sufferer->dice, 1000) : 0;
        status = scene_take(scene, task->client, &turn, &options);
        if (status == HF_OK) {
            count_grant(scene, sufferer->part, lock);
            count_raised(scene, &turn);
            hold(sufferer, &turn);
            continue;
        }
        if (status != HF_EBUSY && status != HF_EUNREACHABLE && status != HF_EUNKNOWN)
            CHECK_STATUS(HF_ETIMEDOUT, status);
        atomic_fetch_add(&scene->stage->numbers[TORMENT_FAILURES + lock], 1);
        world_sleep_ms(5);
    }
}

static void suffer_in_threads(struct scene *scene, int part)
{
    uint64_t life = atomic_fetch_add(&scene->stage->numbers[LIVES], 1);
    struct sufferer sufferers[THREADS];
    struct hf_open_options opening;
    hf_client *client = NULL;

    clock_set_ahead(clocks_ahead_s[life % CLOCKS]);
    /* Whoever comes while three of five have trouble is told so, and comes again. */
    hf_open_options_init(&opening);
    opening.lease_ms = scene->world.lease_ms;
    WAIT_UNTIL(hf_open(scene->world.url, &opening, &client) == HF_OK);
    for (int i = 0; i < THREADS; i++) {
        sufferers[i] =
            (struct sufferer){ .scene = scene,
                               .part = part,
                               .dice = { .state = world_now_ns() * THREADS + (uint64_t)i },
                               .task = { .client = client, .run = suffer } };
        sufferers[i].task.context = &sufferers[i];
        task_start(&sufferers[i].task);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(sufferers[i].task.thread, NULL) == 0);
    hf_close(client);
}

FAULT_ROLE(torture_of_five_servers_breaks_no_promise)
{
    struct torment torment = { .scene = scene,
                               .role = suffer_in_threads,
                               .failures = 2,
                               .span_ms = scene->is_long ? TORTURE_LONG : TORTURE_MS,
                               .through_least = THROUGH_LEAST,
                               .dice = torment_dice() };
    struct history_report report;

    scene_begin(scene, RECORDS_MAX);
    torment_run(&torment);
    report = scene_judge_store(scene, HISTORY_ANY_ORDER);
    printf("    %llu grants while a server had trouble, %llu with a fence beyond the own clock, "
           "%llu releases not answered with HF_OK\n",
           (unsigned long long)atomic_load(&scene->stage->numbers[TORMENT_THROUGH]),
           (unsigned long long)atomic_load(&scene->stage->numbers[RAISED]),
           (unsigned long long)atomic_load(&scene->stage->numbers[LOSSES]));
    CHECK(report.grants >= THROUGH_LEAST);
    CHECK(atomic_load(&scene->stage->numbers[RAISED]) >= RAISED_LEAST);
    scene_end(scene);
}

/* --- the fences that everybody thinks of first --- */

/* One grant in both logs: with its fence, and with its place among all grants. */
static void use_naive_grant(struct scene *scene, int part, struct turn *turn,
                            const struct naive_grant *grant)
{
    struct history *in_order = (struct history *)scene->own;
    uint64_t place = atomic_fetch_add(&scene->stage->counter, 1) + 1;
    uint64_t now_ns = history_now_ns();
    struct turn same = *turn;

    if (now_ns >= grant->until_ns)
        return; /* its place may be wrong: nobody kept the others out */
    turn->record.fence = grant->fence;
    turn->record.until_ns = grant->until_ns;
    scene_note(scene, turn, HISTORY_GRANTED, now_ns);

    same.record.attempt = history_attempt(in_order);
    history_add(in_order, &same.record); /* as it was asked */
    same.record.fence = place;
    same.record.until_ns = grant->until_ns;
    same.record.kind = HISTORY_GRANTED;
    same.record.at_ns = now_ns;
    history_add(in_order, &same.record);

    count_grant(scene, part, turn->record.lock);
    world_sleep_ms(2);
    now_ns = history_now_ns();
    if (now_ns >= grant->until_ns)
        return;
    scene_note(scene, turn, HISTORY_END, now_ns);
    same.record.kind = HISTORY_END;
    same.record.at_ns = now_ns;
    history_add(in_order, &same.record);
}

static void suffer_naively(struct scene *scene, int part)
{
    struct naive *naive = naive_open(scene->world.url);
    struct dice dice = { .state = world_now_ns() };

    while (!atomic_load(&scene->stage->over)) {
        uint32_t lock = 1 + (uint32_t)dice_below(&dice, TORMENT_LOCKS);
        struct name name = scene_name(scene, lock);
        struct turn turn = scene_ask(scene, lock, HF_EXCLUSIVE);
        struct naive_grant grant;

        if (naive_take(naive, name.text, LEASE_MS, &grant)) {
            use_naive_grant(scene, part, &turn, &grant);
            naive_give_back(naive, name.text, &grant);
        } else {
            atomic_fetch_add(&scene->stage->numbers[TORMENT_FAILURES + lock], 1);
        }
        world_sleep_ms(1 + (int64_t)dice_below(&dice, 20));
    }
    naive_close(naive);
}

FAULT_ROLE(the_greatest_of_five_counters_is_no_fence)
{
    struct torment torment = { .scene = scene,
                               .role = suffer_naively,
                               .failures = 20,
                               .span_ms = scene->is_long ? NAIVE_LONG : NAIVE_MS,
                               .through_least = NAIVE_LEAST,
                               .spares_clients = true,
                               .dice = torment_dice() };
    struct history *in_order = history_new(RECORDS_MAX);
    struct history_report report;
    int rounds = 0;

    scene_begin(scene, RECORDS_MAX);
    scene->own = in_order;
    do { /* how far servers come to count ahead of others is chance */
        atomic_store(&scene->stage->over, false);
        torment_run(&torment);
        report = history_check(scene->history, HISTORY_ANY_ORDER);
    } while (report.kept && ++rounds < NAIVE_ROUNDS);
    report = history_check(in_order, HISTORY_ANY_ORDER);
    if (!report.kept)
        fprintf(stderr, "%s\n", report.text);
    CHECK(report.kept); /* its holders exclude each other ... */
    CHECK(report.grants >= NAIVE_LEAST);
    report = history_check(scene->history, HISTORY_ANY_ORDER);
    printf("    %zu grants, and as it must be: %s\n", report.grants, report.text);
    CHECK(!report.kept); /* ... but their fences do not rise */
    history_free(in_order);
    scene_end(scene);
}
