/* judge.c: memory that all processes of a test share, and in which each says what it holds.
 *
 * A life that is killed cannot take back what it said, so its killer marks it as doomed before the
 * signal, and nobody counts what the doomed have said. That forgives a violation only if the other
 * party is being killed in the same microseconds. */
#include "judge.h"

#include <stdlib.h>

#include "world.h"

struct judge *judge_new(void)
{
    struct judge *judge = world_share(sizeof(*judge));

    atomic_store(&judge->next_life, 1);
    return judge;
}

void judge_free(struct judge *judge)
{
    world_unshare(judge, sizeof(*judge));
}

static bool counts(struct judge *judge, uint64_t life)
{
    return life != 0 && !atomic_load(&judge->doomed[life]);
}

static void violate(struct judge *judge)
{
    atomic_fetch_add(&judge->violations, 1);
}

static bool has_readers(struct judge *judge, uint32_t lock)
{
    uint32_t lives = atomic_load(&judge->next_life);

    for (uint32_t i = 1; i < lives; i++) {
        if (atomic_load(&judge->reading[i]) == lock + 1 && counts(judge, i))
            return true;
    }
    return false;
}

void judge_enter(struct judge *judge, uint32_t life, uint32_t lock, bool shared, uint64_t fence)
{
    struct judge_lock *seen = &judge->locks[lock];
    uint64_t at = atomic_fetch_add(&seen->fence_count, 1);

    atomic_fetch_add(&judge->grants, 1);
    if (at < JUDGE_FENCES)
        atomic_store(&seen->fences[at], fence);
    if (shared) {
        atomic_store(&judge->reading[life], lock + 1);
        if (counts(judge, atomic_load(&seen->writer)) && counts(judge, life))
            violate(judge);
        if (fence <= atomic_load(&seen->highest) && counts(judge, life))
            violate(judge);
        return;
    }
    if (counts(judge, atomic_exchange(&seen->writer, life)) && counts(judge, life))
        violate(judge);
    if (has_readers(judge, lock) && counts(judge, life))
        violate(judge);
    if (fence <= atomic_exchange(&seen->highest, fence) && counts(judge, life))
        violate(judge);
}

void judge_leave(struct judge *judge, uint32_t life, uint32_t lock, bool shared)
{
    uint64_t mine = life;

    if (shared) {
        atomic_store(&judge->reading[life], 0);
        return;
    }
    if (!atomic_compare_exchange_strong(&judge->locks[lock].writer, &mine, 0) &&
        counts(judge, life))
        violate(judge);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

uint64_t judge_duplicates(struct judge *judge)
{
    uint64_t duplicates = 0;

    for (uint32_t i = 0; i < JUDGE_LOCKS; i++) {
        struct judge_lock *lock = &judge->locks[i];
        uint64_t count = lock->fence_count < JUDGE_FENCES ? lock->fence_count : JUDGE_FENCES;
        uint64_t *fences = calloc(count + 1, sizeof(*fences));

        for (uint64_t j = 0; j < count; j++)
            fences[j] = lock->fences[j];
        qsort(fences, count, sizeof(*fences), compare);
        for (uint64_t j = 1; j < count; j++)
            duplicates += fences[j] == fences[j - 1] && fences[j] != 0;
        free(fences);
    }
    return duplicates;
}
