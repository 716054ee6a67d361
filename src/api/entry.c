/* entry.c: how does a call get into a client, and when does the client's memory end?
 *
 * In: not NULL, not a fork's copy, then the mutex. A fork is known by a page that the kernel wipes
 * in the child (MADV_WIPEONFORK), so that no system call is needed to find out; the child touches
 * nothing else, because another thread may have held the mutex when it was made.
 *
 * Out: the client's memory ends with hf_close and the last claim or grant, whichever is later. */
#include <assert.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/client.h"

bool hf__entry_forked(const struct hf_client *client)
{
    return *(const volatile uint8_t *)client->alive != 1;
}

int hf__entry_lock(struct hf_client *client)
{
    if (!client)
        return hf__report(NULL, HF_EINVAL, "NULL is not a client");
    if (hf__entry_forked(client))
        return hf__report(client, HF_EFORKED, "%s", hf__error_text(HF_EFORKED));
    pthread_mutex_lock(&client->mutex);
    return HF_OK;
}

void hf__entry_kick(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one)); /* full: it is awake anyway */

    (void)written;
}

/* The client's memory does not end before the keeper was kicked: see hf__entry_free. */
void hf__entry_unlock(struct hf_client *client)
{
    struct hf__rings rings;
    bool kicks = client->kicks_keeper;

    rings.count = client->core.rings.count;
    memcpy(rings.wakes, client->core.rings.wakes, rings.count * sizeof(*rings.wakes));
    client->core.rings.count = 0;
    client->kicks_keeper = false;
    if (kicks)
        atomic_fetch_add_explicit(&client->kickers, 1, memory_order_relaxed);
    pthread_mutex_unlock(&client->mutex);
    for (uint32_t i = 0; i < rings.count; i++)
        hf__wake_call(rings.wakes[i]);
    if (!kicks)
        return;
    hf__entry_kick(client->keeper_fd);
    atomic_fetch_sub_explicit(&client->kickers, 1, memory_order_release);
}

void hf__entry_ring(struct hf_client *client)
{
    struct hf__rings *rings = &client->core.rings;

    while (rings->count > 0)
        hf__wake_call(rings->wakes[--rings->count]);
    if (client->kicks_keeper)
        hf__entry_kick(client->keeper_fd);
    client->kicks_keeper = false;
}

static void free_grants(struct hf__core *core)
{
    struct hf_event event;
    struct hf_grant *ended;

    while (hf__events_take(core, &event, &ended)) {
        if (ended)
            hf__hold_free_grant(ended);
    }
}

void hf__entry_free(struct hf_client *client)
{
    struct hf__env env;

    if (!client)
        return;
    assert(!client->has_keeper);

    while (atomic_load_explicit(&client->kickers, memory_order_acquire) > 0)
        sched_yield();
    if (client->core.env) {
        free_grants(&client->core);
        hf__core_done(&client->core);
    }
    if (client->event_fd >= 0)
        close(client->event_fd);
    if (client->leader_fd >= 0)
        close(client->leader_fd);
    if (client->keeper_fd >= 0)
        close(client->keeper_fd);
    if (client->alive)
        munmap(client->alive, 1);
    pthread_cond_destroy(&client->answered);
    pthread_mutex_destroy(&client->mutex);
    env = client->env;
    hf__env_free(&env, client);
    hf__env_done(&env);
}

void hf__entry_drop(struct hf_client *client)
{
    bool last = --client->references == 0;

    hf__entry_unlock(client);
    if (last)
        hf__entry_free(client);
}
