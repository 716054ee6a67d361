/* failing_env.c: a world in which memory runs out on demand, and chance repeats itself.
 *
 * Memory is calloc's, so that the sanitizers see it, and counted. */
#include "failing_env.h"

#include <assert.h>
#include <stdlib.h>

static void *allocate(void *context, size_t bytes)
{
    struct failing_env *world = context;
    size_t nth = atomic_fetch_add(&world->allocations, 1) + 1;
    bool is_late = world->fail_later && nth > world->fail_nth;
    void *memory;

    assert(bytes > 0);

    if (world->fail_nth > 0 && (nth == world->fail_nth || is_late)) {
        atomic_fetch_add(&world->refused, 1);
        return NULL;
    }
    memory = calloc(1, bytes);
    if (!memory)
        abort();
    atomic_fetch_add(&world->live, 1);
    return memory;
}

static void release(void *context, void *memory)
{
    struct failing_env *world = context;

    if (!memory)
        return;
    assert(atomic_load(&world->live) > 0);
    atomic_fetch_sub(&world->live, 1);
    free(memory);
}

static void roll(void *context, void *out_bytes, size_t bytes)
{
    struct failing_env *world = context;

    dice_fill(&world->dice, out_bytes, bytes);
}

static void count_line(void *context, const char *line)
{
    struct failing_env *world = context;

    assert(line);
    atomic_fetch_add(&world->traced, 1);
}

void failing_env_init(struct failing_env *world, size_t fail_nth)
{
    *world = (struct failing_env){
        .fail_nth = fail_nth,
        .dice = { .state = 1 },
        .env = {
            .allocate = allocate,
            .release = release,
            .random = roll,
            .trace = count_line,
            .memory_context = world,
            .random_context = world,
            .trace_context = world,
        },
    };
}
