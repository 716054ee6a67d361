/* deaths.c: processes that die at each step of the slow path, on purpose.
 *
 * As in kills.c, but every worker knows beforehand at which of the engine's named points it will
 * die, and at which visit. Points that have seen the fewest deaths come first, until there were
 * enough at each. The work touches everything that changes the table: locks, shared and exclusive,
 * new names, short and long (the table of this build is so small that names are collected all the
 * time), leases, downgrades, breaks, lists. A rescue is a failure, and says why it was needed.
 *
 * $EMBEDDED_DEATHS: so many deaths, instead of 1200. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "dice.h"
#include "hooks.h"
#include "judge.h"
#include "player.h"

#define WORKERS      6
#define LOCKS        3
#define DEATHS_EACH  5
#define DEATHS_TOTAL 1200
#define LIVES_MAX    60000
#define LIFE_NS      (200 * HF__NS_PER_MS)

static const char *const names[LOCKS] = { "deaths/one", "deaths/two", "deaths/three" };

struct work {
    struct judge *judge;
    uint32_t life;
    const char *point;
    uint32_t nth;
};

/* Passed only when something is made that is made once: beginnings.c dies there. */
static const char *const elsewhere[] = {
    "epoch begun",   "epoch written", "epoch renamed", "table filled",
    "table renamed", "standing by",   "room prepared", NULL,
};

/* --- what a worker does --- */

static int take_and_release(struct player *player, struct work *work, struct dice *dice)
{
    uint32_t lock = (uint32_t)dice_below(dice, LOCKS);
    struct wish wish = { .shared = dice_below(dice, 3) == 0, .once = dice_below(dice, 16) == 0 };
    int64_t wait_ms = dice_below(dice, 16) == 0 ? 1 : WORLD_PATIENCE_MS;
    struct stub stub;
    int status = player_acquire_within(player, names[lock], &wish, wait_ms, &stub);

    if (status == HF_EBUSY || (status == HF_ETIMEDOUT && wait_ms == 1))
        return HF_OK;
    if (status == HF_ETIMEDOUT)
        atomic_fetch_add(&work->judge->timeouts, 1);
    if (status < 0)
        return status;
    judge_enter(work->judge, work->life, lock, wish.shared, stub.fence);
    if (dice_below(dice, 4) == 0)
        usleep((useconds_t)dice_below(dice, 100));
    judge_leave(work->judge, work->life, lock, wish.shared);
    if (!wish.shared && dice_below(dice, 8) == 0) {
        pthread_mutex_lock(&player->mutex);
        (void)mate_tell(&player->mate, HF__REQUEST_DOWNGRADE, &stub);
        pthread_mutex_unlock(&player->mutex);
    }
    return player_release(player, &stub);
}

static int take_new_name(struct player *player, struct dice *dice)
{
    char name[200];
    struct stub stub;
    bool is_long = dice_below(dice, 2) == 0;
    int status;

    (void)snprintf(name, sizeof(name), "deaths/new/%0*llu", is_long ? 120 : 4,
                   (unsigned long long)dice_below(dice, is_long ? 300 : 2000));
    status = player_acquire(player, name, NULL, &stub);
    return status < 0 ? status : player_release(player, &stub);
}

/* A lock whose holders must expect to be broken, or to expire. */
static int take_or_break(struct player *player, struct dice *dice)
{
    struct mate *mate = &player->mate;
    struct wish wish = {
        .once = true,
        .ends = dice_below(dice, 2) == 0,
        .lease_ns = 2 * HF__NS_PER_MS,
        .grace_ns = dice_below(dice, 4) == 0 ? HF__NS_PER_MS : 0,
    };
    struct world_reply reply;
    struct stub stub;

    pthread_mutex_lock(&player->mutex);
    reply = mate_claim(mate, "deaths/broken", &wish, &stub);
    if (reply.kind == HF__REPLY_REFUSED && reply.has_holder) {
        struct hf__request request = {
            .ticket = { .kind = HF__REQUEST_BREAK, .claim_id = mate->next_id++ },
            .name = "deaths/broken",
            .name_bytes = strlen("deaths/broken"),
            .fence = reply.holder.fence,
        };

        reply = mate_ask(mate, &request);
    } else if (reply.kind == HF__REPLY_GRANTED) {
        mate_sleep(mate, 1);
        reply = mate_release(mate, &stub);
    }
    mate->news_count = 0;
    pthread_mutex_unlock(&player->mutex);
    return (int)reply.kind == -1 ? reply.status : HF_OK;
}

static int list_all(struct player *player)
{
    struct hf__request request = {
        .ticket = { .kind = HF__REQUEST_LIST, .claim_id = player->mate.next_id++ },
    };
    struct world_reply reply;

    pthread_mutex_lock(&player->mutex);
    reply = mate_ask(&player->mate, &request);
    pthread_mutex_unlock(&player->mutex);
    return (int)reply.kind == -1 || reply.kind == HF__REPLY_FAILED ? reply.status : HF_OK;
}

static int work_once(struct player *player, struct work *work, struct dice *dice)
{
    uint64_t what = dice_below(dice, 20);

    if (what < 3)
        return take_new_name(player, dice);
    if (what < 5)
        return take_or_break(player, dice);
    if (what < 6)
        return list_all(player);
    return take_and_release(player, work, dice);
}

/* Called by the trace of the engine. */
static void show_rescue(void *context, const char *line)
{
    (void)context;
    if (strstr(line, "rescued"))
        fprintf(stderr, "%s\n", line);
}

static int work(struct world *world, void *context)
{
    struct work *mine = context;
    struct judge *judge = mine->judge;
    struct dice dice = { mine->life * 771u };
    struct player player;
    uint64_t rescued = 0;
    uint64_t end_ns = hf__clock_now_ns() + LIFE_NS;
    int status;

    hooks_arm(mine->point, mine->nth, &judge->doomed[mine->life]);
    world->env.trace = show_rescue;
    status = player_open(&player, world, mine->life % 2 == 0);
    while (status == HF_OK && !atomic_load(&judge->stop) && hf__clock_now_ns() < end_ns) {
        status = work_once(&player, mine, &dice);
        if (player.mate.conn->rescued != rescued) {
            atomic_fetch_add(&judge->rescued, player.mate.conn->rescued - rescued);
            rescued = player.mate.conn->rescued;
        }
    }
    if (status < 0) {
        fprintf(stderr, "life %u: %d %s\n", mine->life, status, player.mate.conn->error);
        atomic_fetch_add(&judge->failures, 1);
        return 1;
    }
    player_close(&player);
    return 0;
}

/* --- who dies where --- */

static bool is_elsewhere(const char *name)
{
    for (size_t i = 0; elsewhere[i]; i++) {
        if (strcmp(elsewhere[i], name) == 0)
            return true;
    }
    return false;
}

/* The point with the fewest deaths; NULL: none is known yet, or all have had enough. */
static const char *choose(struct hooks *hooks, uint64_t *out_deaths)
{
    struct hooks_point *best = NULL;

    *out_deaths = 0;
    for (uint32_t i = 0; i < HOOKS_POINTS_MAX; i++) {
        struct hooks_point *point = &hooks->points[i];

        if (!point->name || is_elsewhere(point->name))
            continue;
        *out_deaths += point->deaths;
        if (!best || point->deaths < best->deaths)
            best = point;
    }
    return best ? best->name : NULL;
}

static const char *choose_any(struct hooks *hooks, struct dice *dice)
{
    for (uint32_t i = 0; i < 1000; i++) {
        struct hooks_point *point = &hooks->points[dice_below(dice, HOOKS_POINTS_MAX)];

        if (point->name && !is_elsewhere(point->name))
            return point->name;
    }
    return NULL;
}

static bool is_rare(struct hooks *hooks, const char *name)
{
    for (uint32_t i = 0; i < HOOKS_POINTS_MAX; i++) {
        if (hooks->points[i].name == name)
            return hooks->points[i].hits < 100 * atomic_load(&hooks->points[i].deaths) + 1000;
    }
    return false;
}

struct arena {
    struct world *world;
    struct judge *judge;
    struct hooks *hooks;
    struct dice dice;
};

static pid_t start(struct arena *arena, struct work *out_work, const char *point)
{
    struct judge *judge = arena->judge;
    struct hooks *hooks = arena->hooks;
    struct dice *dice = &arena->dice;
    struct world *world = arena->world;

    out_work->judge = judge;
    out_work->life = atomic_fetch_add(&judge->next_life, 1);
    out_work->point = point;
    out_work->nth = 1;
    if (!is_rare(hooks, point))
        out_work->nth += (uint32_t)dice_below(dice, 1u << dice_below(dice, 7));
    return world_fork(world, work, out_work);
}

static uint64_t deaths_wanted(void)
{
    const char *asked = getenv("EMBEDDED_DEATHS");

    return asked ? strtoull(asked, NULL, 10) : DEATHS_TOTAL;
}

static bool had_enough(struct hooks *hooks, uint64_t deaths)
{
    for (uint32_t i = 0; i < HOOKS_POINTS_MAX; i++) {
        struct hooks_point *point = &hooks->points[i];

        if (point->name && !is_elsewhere(point->name) && point->deaths < DEATHS_EACH)
            return false;
    }
    return deaths >= deaths_wanted();
}

static uint64_t let_die(struct arena *arena)
{
    struct work works[WORKERS];
    pid_t children[WORKERS];
    uint64_t deaths = 0;

    for (uint32_t i = 0; i < WORKERS; i++)
        children[i] = start(arena, &works[i], NULL);
    while (atomic_load(&arena->judge->next_life) < LIVES_MAX && !had_enough(arena->hooks, deaths)) {
        pid_t ended = waitpid(-1, NULL, 0);
        const char *rarest = choose(arena->hooks, &deaths);

        for (uint32_t i = 0; i < WORKERS; i++) {
            /* One of them lives on, so that somebody is there to notice; and the rare points are
             * only reached if others die meanwhile. */
            const char *point = i == 0  ? NULL
                                : i < 3 ? rarest
                                        : choose_any(arena->hooks, &arena->dice);

            if (children[i] == ended)
                children[i] = start(arena, &works[i], point);
        }
    }
    atomic_store(&arena->judge->stop, 1);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    return deaths;
}

static uint32_t print_points(struct hooks *hooks)
{
    uint32_t never = 0;

    printf("  %-36s %10s %8s\n", "point", "visits", "deaths");
    for (uint32_t i = 0; i < HOOKS_POINTS_MAX; i++) {
        struct hooks_point *point = &hooks->points[i];

        if (!point->name || is_elsewhere(point->name))
            continue;
        printf("  %-36s %10u %8u\n", point->name, point->hits, point->deaths);
        never += point->deaths == 0;
    }
    return never;
}

TEST(deaths, at_each_step_leave_a_valid_table)
{
    struct hooks *hooks = hooks_share();
    struct judge *judge = judge_new();
    struct world world;
    struct mate mate;
    struct remains remains;
    uint64_t deaths;

    world_make(&world);
    deaths = let_die(&(struct arena){ &world, judge, hooks, { 5 } });
    CHECK_EQUAL(print_points(hooks), 0);
    printf("deaths: %llu, grants: %llu, rescued: %llu, violations: %llu, failures: %llu\n",
           (unsigned long long)deaths, (unsigned long long)judge->grants,
           (unsigned long long)judge->rescued, (unsigned long long)judge->violations,
           (unsigned long long)judge->failures);
    CHECK(deaths >= deaths_wanted());
    CHECK_EQUAL(mate_open(&mate, &world, "judge"), HF_OK);
    remains = mate_remains(&mate);
    printf("left: owned %u, inflated %u, nodes %u, sessions %u, guards %u, journals %u\n",
           remains.owned, remains.inflated, remains.nodes, remains.sessions, remains.guards,
           remains.journals);
    CHECK_EQUAL(remains.owned, 0);
    CHECK_EQUAL(remains.inflated, 0);
    CHECK_EQUAL(remains.nodes, 0);
    CHECK_EQUAL(remains.sessions, 1);
    CHECK_EQUAL(remains.guards, 0);
    CHECK_EQUAL(remains.journals, 0);
    CHECK_EQUAL(world_files(&world, "s."), 2);
    mate_close(&mate);
    CHECK_EQUAL(judge->violations, 0);
    CHECK_EQUAL(judge->failures, 0);
    CHECK_EQUAL(judge->timeouts, 0);
    CHECK_EQUAL(judge_duplicates(judge), 0);
    CHECK_EQUAL(judge->rescued, 0);
    hooks_unshare(hooks);
    judge_free(judge);
    world_end(&world);
}

/* --- one case by itself --- */

struct giver {
    _Atomic uint32_t step;
};

static int hold_and_die_untold(struct world *world, void *context)
{
    struct giver *giver = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "giver") < 0 ||
        mate_claim(&mate, names[0], NULL, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    world_step(&giver->step, 1);
    if (!world_wait_step(&giver->step, 2))
        return 2;
    hooks_arm("guard given, nobody told", 1, NULL);
    (void)mate_release(&mate, &stub);
    return 3;
}

/* Two readers are let in, and whoever did it dies before he can tell them. The first one, whom the
 * second one watches, gives up waiting before it has heard anything: it must hand the news on. Also
 * if the second one's place was in another line before, where it has heard of the same fence. */
TEST(deaths, a_reader_who_leaves_unaware_tells_the_next)
{
    static const struct wish wishes[] = { { .shared = true },
                                          { .shared = true, .blocking = true } };
    struct hooks *hooks = hooks_share();
    struct giver *giver = world_share(sizeof(*giver));

    for (uint32_t i = 0; i < 4; i++) {
        struct world world;
        struct mate first;
        struct mate second;
        struct stub stubs[2];
        struct world_reply reply;
        uint64_t fence = 0;
        pid_t child;
        int status;

        world_make(&world);
        atomic_store(&giver->step, 0);
        CHECK_EQUAL(mate_open(&first, &world, "first"), HF_OK);
        CHECK_EQUAL(mate_open(&second, &world, "second"), HF_OK);
        for (uint32_t turn = 0; i >= 2 && turn < 3; turn++) {
            CHECK_EQUAL(mate_claim(&second, names[1], &wishes[0], &stubs[1]).kind,
                        HF__REPLY_GRANTED);
            fence = stubs[1].fence;
            CHECK(mate_release(&second, &stubs[1]).released);
        }
        child = world_fork(&world, hold_and_die_untold, giver);
        CHECK(world_wait_step(&giver->step, 1));
        CHECK_EQUAL(mate_claim(&first, names[0], &wishes[0], &stubs[0]).kind, HF__REPLY_QUEUED);
        CHECK_EQUAL(mate_claim(&second, names[0], &wishes[i % 2], &stubs[1]).kind,
                    HF__REPLY_QUEUED);
        world_step(&giver->step, 2);
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(mate_release(&first, &stubs[0]).released);
        CHECK(mate_hears(&second, &stubs[1], HF__REPLY_GRANTED, &reply));
        CHECK(i < 2 || reply.fence == fence);
        CHECK_EQUAL(second.conn->rescued, 0);
        mate_close(&second);
        mate_close(&first);
        world_end(&world);
    }
    world_unshare(giver, sizeof(*giver));
    hooks_unshare(hooks);
}
