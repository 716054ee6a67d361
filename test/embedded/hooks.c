/* hooks.c: where a process of a test dies, and what it believes of the machine. */
#include "hooks.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "engine/embedded/death.h"
#include "world.h"

static struct hooks *shared;
static const char *armed_point;
static _Atomic uint32_t armed_left;
static _Atomic uint32_t *armed_doomed;
static const char *boot_id;
static bool without_pidfd;

struct hooks *hooks_share(void)
{
    shared = world_share(sizeof(*shared));
    return shared;
}

void hooks_unshare(struct hooks *hooks)
{
    world_unshare(hooks, sizeof(*hooks));
    shared = NULL;
}

void hooks_arm(const char *point, uint32_t nth, _Atomic uint32_t *doomed)
{
    armed_doomed = doomed;
    atomic_store(&armed_left, nth);
    armed_point = point;
}

void hooks_set_boot_id(const char *text)
{
    boot_id = text;
}

void hooks_set_without_pidfd(bool without)
{
    without_pidfd = without;
}

static struct hooks_point *find(const char *name)
{
    for (uint32_t i = 0; i < HOOKS_POINTS_MAX; i++) {
        const char *none = NULL;
        struct hooks_point *point = &shared->points[i];

        if (atomic_load(&point->name) == name)
            return point;
        if (atomic_load(&point->name) == NULL &&
            atomic_compare_exchange_strong(&point->name, &none, name))
            return point;
        if (atomic_load(&point->name) && strcmp(atomic_load(&point->name), name) == 0)
            return point;
    }
    return NULL;
}

void hf__death_point(const char *name)
{
    struct hooks_point *point;

    if (!shared)
        return;
    point = find(name);
    if (!point)
        return;
    atomic_fetch_add_explicit(&point->hits, 1, memory_order_relaxed);
    if (!armed_point || strcmp(armed_point, name) != 0)
        return;
    if (atomic_fetch_sub(&armed_left, 1) != 1)
        return;
    atomic_fetch_add(&point->deaths, 1);
    if (armed_doomed)
        atomic_store(armed_doomed, 1);
    kill(getpid(), SIGKILL);
    while (true) /* for the other threads, until the signal has arrived */
        pause();
}

const char *hf__death_boot_id(void)
{
    return boot_id;
}

bool hf__death_without_pidfd(void)
{
    return without_pidfd;
}
