/* kills.c: processes that are killed at random moments, and others that must not notice more than
 * that it is their turn.
 *
 * Six workers contend for three locks, exclusively and shared, blocking on a wake word or polling,
 * and some give up waiting. Every millisecond or so one of them is killed with -9 and a new one
 * takes its place. Afterwards nothing may be left in the table, no law may have been broken, and no
 * hand-over may have needed the safety net. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "dice.h"
#include "judge.h"
#include "player.h"

#define WORKERS 6
#define LOCKS   3

static const char *const names[LOCKS] = { "kills/one", "kills/two", "kills/three" };

struct work {
    struct judge *judge;
    uint32_t life;
};

static int work_once(struct player *player, struct work *work, struct dice *dice)
{
    struct judge *judge = work->judge;
    uint32_t lock = (uint32_t)dice_below(dice, LOCKS);
    struct wish wish = { .shared = dice_below(dice, 3) == 0, .once = dice_below(dice, 16) == 0 };
    int64_t wait_ms = dice_below(dice, 16) == 0 ? 1 : WORLD_PATIENCE_MS;
    struct stub stub;
    int status = player_acquire_within(player, names[lock], &wish, wait_ms, &stub);

    if (status == HF_EBUSY || (status == HF_ETIMEDOUT && wait_ms == 1))
        return HF_OK;
    if (status == HF_ETIMEDOUT)
        atomic_fetch_add(&judge->timeouts, 1);
    if (status < 0)
        return status;
    judge_enter(judge, work->life, lock, wish.shared, stub.fence);
    if (dice_below(dice, 4) == 0)
        usleep((useconds_t)dice_below(dice, 200));
    judge_leave(judge, work->life, lock, wish.shared);
    return player_release(player, &stub);
}

static int work(struct world *world, void *context)
{
    struct work *mine = context;
    struct dice dice = { mine->life * 77u };
    struct player player;
    uint64_t rescued = 0;
    int status = player_open(&player, world, mine->life % 2 == 0);

    while (status == HF_OK && !atomic_load(&mine->judge->stop)) {
        status = work_once(&player, mine, &dice);
        if (player.mate.conn->rescued != rescued) {
            atomic_fetch_add(&mine->judge->rescued, player.mate.conn->rescued - rescued);
            rescued = player.mate.conn->rescued;
        }
    }
    if (status < 0) {
        fprintf(stderr, "life %u: %d %s\n", mine->life, status, player.mate.conn->error);
        atomic_fetch_add(&mine->judge->failures, 1);
        return 1;
    }
    player_close(&player);
    return 0;
}

static pid_t start(struct world *world, struct judge *judge, struct work *out_work)
{
    out_work->judge = judge;
    out_work->life = atomic_fetch_add(&judge->next_life, 1);
    return world_fork(world, work, out_work);
}

static void kill_many(struct world *world, struct judge *judge, uint32_t kills, uint64_t seed)
{
    struct dice dice = { seed };
    struct work works[WORKERS];
    pid_t children[WORKERS];

    for (uint32_t i = 0; i < WORKERS; i++)
        children[i] = start(world, judge, &works[i]);
    for (uint32_t i = 0; i < kills; i++) {
        uint32_t victim = (uint32_t)dice_below(&dice, WORKERS);

        usleep((useconds_t)dice_below(&dice, 4000));
        atomic_store(&judge->doomed[works[victim].life], 1);
        kill(children[victim], SIGKILL);
        waitpid(children[victim], NULL, 0);
        children[victim] = start(world, judge, &works[victim]);
    }
    atomic_store(&judge->stop, 1);
    for (uint32_t i = 0; i < WORKERS; i++)
        waitpid(children[i], NULL, 0);
}

TEST(kills, a_thousand_deaths_leave_no_trace)
{
    const char *asked = getenv("EMBEDDED_KILLS");
    uint32_t kills = asked ? (uint32_t)strtoul(asked, NULL, 10) : 1000;
    struct judge *judge = judge_new();
    struct world world;
    struct mate mate;
    struct remains remains;

    world_make(&world);
    kill_many(&world, judge, kills, 1);
    printf("kills: %u, grants: %llu, rescued: %llu, violations: %llu, failures: %llu\n", kills,
           (unsigned long long)judge->grants, (unsigned long long)judge->rescued,
           (unsigned long long)judge->violations, (unsigned long long)judge->failures);
    CHECK_EQUAL(mate_open(&mate, &world, "judge"), HF_OK);
    remains = mate_remains(&mate);
    CHECK_EQUAL(remains.owned, 0);
    CHECK_EQUAL(remains.inflated, 0);
    CHECK_EQUAL(remains.nodes, 0);
    CHECK_EQUAL(remains.sessions, 1);
    CHECK_EQUAL(remains.guards, 0);
    CHECK_EQUAL(remains.journals, 0);
    CHECK_EQUAL(world_files(&world, "s."), 2);
    mate_close(&mate);
    CHECK_EQUAL(world_files(&world, "s."), 0);
    CHECK_EQUAL(judge->violations, 0);
    CHECK_EQUAL(judge->failures, 0);
    CHECK_EQUAL(judge->timeouts, 0);
    CHECK_EQUAL(judge_duplicates(judge), 0);
    CHECK_EQUAL(judge->rescued, 0);
    CHECK(judge->grants > kills);
    judge_free(judge);
    world_end(&world);
}
