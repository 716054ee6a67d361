/* threads.c: threads of one process, each with a connection of its own, on the same locks. What one
 * of them writes under a lock the next one must see: for the thread sanitizer, which does not look
 * into other processes. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "dice.h"
#include "player.h"

#define THREADS 4
#define TURNS   2000

struct pair { /* plain memory, guarded by nothing but the lock */
    uint64_t first;
    uint64_t second;
};

struct band {
    struct world *world;
    struct pair pair;
    uint64_t highest;
    _Atomic uint32_t failures;
};

struct singer {
    struct band *band;
    uint32_t number;
    struct world world; /* with random numbers of its own */
};

static void *sing(void *argument)
{
    struct singer *singer = argument;
    struct band *band = singer->band;
    struct dice dice = { singer->number + 1 };
    struct player player;

    if (player_open(&player, &singer->world, singer->number % 2 == 0) < 0) {
        atomic_fetch_add(&band->failures, 1);
        return NULL;
    }
    for (int i = 0; i < TURNS; i++) {
        struct wish wish = { .shared = dice_below(&dice, 4) == 0,
                             .purpose = dice_below(&dice, 4) == 0 ? "other" : NULL };
        struct stub stub;

        if (player_acquire(&player, "threads/one", &wish, &stub) < 0) {
            atomic_fetch_add(&band->failures, 1);
            break;
        }
        if (band->pair.first != band->pair.second || stub.fence <= band->highest)
            atomic_fetch_add(&band->failures, 1);
        if (!wish.shared) {
            band->pair.first++;
            band->pair.second++;
            band->highest = stub.fence;
        }
        if (player_release(&player, &stub) < 0)
            atomic_fetch_add(&band->failures, 1);
    }
    if (player.mate.conn->rescued != 0)
        atomic_fetch_add(&band->failures, 1);
    player_close(&player);
    return NULL;
}

TEST(threads, see_what_was_written_under_the_lock)
{
    struct world world;
    struct band band = { .world = &world };
    struct singer singers[THREADS];
    pthread_t threads[THREADS];
    struct mate maker;

    /* The table is made before they start: they would be kept apart by flock(2), of which the
     * sanitizer knows nothing. */
    world_make(&world);
    CHECK_EQUAL(mate_open(&maker, &world, "maker"), HF_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        singers[i] = (struct singer){ .band = &band, .number = i };
        world_make_at(&singers[i].world, world.directory);
        CHECK_EQUAL(pthread_create(&threads[i], NULL, sing, &singers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        hf__env_done(&singers[i].world.env);
    }
    mate_close(&maker);
    CHECK_EQUAL(band.failures, 0);
    CHECK(band.pair.first > 0 && band.pair.first == band.pair.second);
    CHECK_EQUAL(world_files(&world, "s."), 0);
    world_end(&world);
}
