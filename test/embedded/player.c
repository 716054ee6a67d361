/* player.c: a client in little: callers that block on a wake word, and a keeper that polls for
 * them.
 *
 * One caller at a time. Replies are fetched by whoever comes first, under the mutex; a keeper that
 * has fetched something rings the word that the caller sleeps on. */
#include "player.h"

#include <assert.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

extern const struct hf__engine hf__embedded_engine;

static void *keep(void *argument)
{
    struct player *player = argument;

    pthread_mutex_lock(&player->mutex);
    while (!player->stops && player->mate.dead == 0) {
        struct hf__pollset set;
        size_t before = player->mate.news_count;
        int64_t ms;

        mate_drain(&player->mate);
        if (player->wake && (player->mate.news_count > before || player->mate.dead != 0))
            hf__wake_ring(player->wake);
        if (player->mate.dead != 0)
            break;
        hf__pollset_init(&set);
        hf__embedded_engine.pollset(player->mate.conn, &set);
        ms = hf__clock_wait_ms(hf__clock_now_ns(), set.deadline_ns);
        if (ms < 0 || ms > 200)
            ms = 200; /* to see that it must stop */
        pthread_mutex_unlock(&player->mutex);
        (void)poll(set.fds, set.count, (int)ms);
        pthread_mutex_lock(&player->mutex);
    }
    pthread_mutex_unlock(&player->mutex);
    return NULL;
}

int player_open(struct player *player, struct world *world, bool with_keeper)
{
    int status;

    memset(player, 0, sizeof(*player));
    pthread_mutex_init(&player->mutex, NULL);
    status = mate_open(&player->mate, world, "player");
    if (status < 0)
        return status;
    player->has_keeper = with_keeper;
    if (with_keeper) {
        int failed = pthread_create(&player->keeper, NULL, keep, player);

        assert(!failed);
    }
    return HF_OK;
}

void player_close(struct player *player)
{
    if (player->has_keeper) {
        pthread_mutex_lock(&player->mutex);
        player->stops = true;
        pthread_mutex_unlock(&player->mutex);
        pthread_join(player->keeper, NULL);
    }
    mate_close(&player->mate);
    pthread_mutex_destroy(&player->mutex);
}

/* With the mutex. */
static int wait_blocked(struct player *player, struct stub *stub, struct hf__wake *wake,
                        uint64_t end_ns)
{
    struct world_reply reply;
    struct mate *mate = &player->mate;

    player->wake = wake;
    while (true) {
        uint32_t seen = hf__wake_look(wake);
        bool spun;

        if (mate_hears_within(mate, stub, HF__REPLY_GRANTED, &reply, 0)) {
            stub->fence = reply.fence;
            player->wake = NULL;
            return HF_OK;
        }
        if (mate->dead != 0 || hf__clock_now_ns() >= end_ns) {
            player->wake = NULL;
            return mate->dead ? mate->dead : HF_ETIMEDOUT;
        }
        pthread_mutex_unlock(&player->mutex);
        (void)hf__wake_wait(wake, seen, end_ns, 200, &spun);
        pthread_mutex_lock(&player->mutex);
    }
}

int player_acquire_within(struct player *player, const char *name, const struct wish *wish,
                          int64_t wait_ms, struct stub *out_stub)
{
    struct wish mine = { 0 };
    struct world_reply reply;
    uint64_t end_ns = hf__clock_after_ms(hf__clock_now_ns(), wait_ms);
    int status = HF_OK;

    if (wish)
        mine = *wish;
    mine.blocking = player->has_keeper;
    pthread_mutex_lock(&player->mutex);
    reply = mate_claim(&player->mate, name, &mine, out_stub);
    if ((int)reply.kind == -1) {
        status = reply.status;
    } else if (reply.kind == HF__REPLY_REFUSED) {
        status = HF_EBUSY;
    } else if (reply.kind == HF__REPLY_QUEUED) {
        if (player->has_keeper)
            status = wait_blocked(player, out_stub, reply.wake, end_ns);
        else if (mate_hears_within(&player->mate, out_stub, HF__REPLY_GRANTED, &reply, wait_ms))
            out_stub->fence = reply.fence;
        else
            status = player->mate.dead ? player->mate.dead : HF_ETIMEDOUT;
        if (status == HF_ETIMEDOUT)
            (void)mate_release(&player->mate, out_stub);
    }
    pthread_mutex_unlock(&player->mutex);
    return status;
}

int player_acquire(struct player *player, const char *name, const struct wish *wish,
                   struct stub *out_stub)
{
    return player_acquire_within(player, name, wish, WORLD_PATIENCE_MS, out_stub);
}

int player_release(struct player *player, const struct stub *stub)
{
    struct world_reply reply;

    pthread_mutex_lock(&player->mutex);
    reply = mate_release(&player->mate, stub);
    pthread_mutex_unlock(&player->mutex);
    if ((int)reply.kind == -1)
        return reply.status;
    return reply.released ? HF_OK : HF_ELOST;
}
