/* hooks.c: where a process of a test dies, and what it believes of the machine. */
#include "hooks.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* One mapping for each file, however many connections of this process use it. */
static struct {
    pthread_mutex_t mutex;
    struct {
        void *memory;
        ino_t inode;
        uint32_t users;
    } maps[16];
} maps = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void *map_once(int fd, size_t bytes, ino_t inode)
{
    uint32_t unused = 16;

    for (uint32_t i = 0; i < 16; i++) {
        if (maps.maps[i].users == 0) {
            unused = i;
        } else if (maps.maps[i].inode == inode) {
            maps.maps[i].users++;
            return maps.maps[i].memory;
        }
    }
    if (unused == 16)
        return MAP_FAILED;
    maps.maps[unused].memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    maps.maps[unused].inode = inode;
    maps.maps[unused].users = maps.maps[unused].memory != MAP_FAILED;
    return maps.maps[unused].memory;
}

void *hf__death_map(int fd, size_t bytes)
{
    struct stat about;
    void *memory;

    if (fstat(fd, &about))
        return MAP_FAILED;
    pthread_mutex_lock(&maps.mutex);
    memory = map_once(fd, bytes, about.st_ino);
    pthread_mutex_unlock(&maps.mutex);
    return memory;
}

void hf__death_unmap(void *memory, size_t bytes)
{
    pthread_mutex_lock(&maps.mutex);
    for (uint32_t i = 0; i < 16; i++) {
        if (maps.maps[i].users > 0 && maps.maps[i].memory == memory && --maps.maps[i].users == 0)
            (void)munmap(memory, bytes);
    }
    pthread_mutex_unlock(&maps.mutex);
}

const char *hf__death_boot_id(void)
{
    return boot_id;
}

bool hf__death_without_pidfd(void)
{
    return without_pidfd;
}
