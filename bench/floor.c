/* floor.c: how do the parent and its workers agree on what to do next?
 *
 * One anonymous shared mapping, so that nothing is left behind by whatever ends the processes. The
 * parent sets the stage and wakes everybody; a worker that has done its part arrives, and waits for
 * another stage. What fails in a worker is written here before the worker ends. */
#include "floor.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "futex.h"

#define STAGES 4u

struct bench_floor *bench_floor_new(void)
{
    struct bench_floor *floor = mmap(NULL, sizeof(*floor), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (floor == MAP_FAILED)
        return NULL;
    atomic_flag_clear(&floor->failing);
    for (uint32_t i = 1; i < BENCH_CONTENDERS_MAX; i++)
        atomic_store(&floor->chain.turns[i].word, i - BENCH_CONTENDERS_MAX); /* not yet */
    return floor;
}

void bench_floor_free(struct bench_floor *floor)
{
    if (floor)
        munmap(floor, sizeof(*floor));
}

void bench_floor_set_stage(struct bench_floor *floor, enum bench_stage stage)
{
    uint32_t slice = atomic_load(&floor->word) / STAGES;

    if (stage == BENCH_STAGE_WARM || stage == BENCH_STAGE_END)
        slice++;
    atomic_store(&floor->word, slice * STAGES + (uint32_t)stage);
    bench_futex_wake(&floor->word, BENCH_FUTEX_ALL);
}

enum bench_stage bench_floor_next(struct bench_floor *floor, uint32_t *slice)
{
    uint32_t found;

    while ((found = atomic_load(&floor->word)) / STAGES == *slice)
        bench_futex_wait(&floor->word, found);
    *slice = found / STAGES;
    return (enum bench_stage)(found % STAGES);
}

void bench_floor_wait(struct bench_floor *floor, enum bench_stage stage)
{
    uint32_t found;

    while ((found = atomic_load(&floor->word)) % STAGES == (uint32_t)stage)
        bench_futex_wait(&floor->word, found);
}

void bench_floor_arrive(struct bench_floor *floor)
{
    atomic_fetch_add(&floor->arrived, 1);
}

void bench_floor_fail(struct bench_floor *floor, int exit_status, const char *format, ...)
{
    va_list values;

    assert(exit_status > 0);

    if (atomic_flag_test_and_set(&floor->failing))
        return;
    va_start(values, format);
    vsnprintf(floor->failure.reason, sizeof(floor->failure.reason), format, values);
    va_end(values);
    floor->failure.exit_status = exit_status;
    atomic_store(&floor->failed, 1);
}
