/* naive.c: RedLock with the fences that everybody thinks of first, to show that they are none.
 *
 * The servers are asked one after the other, each for SET NX PX and its next count. With a majority
 * before the lease is over, the lock is held and the fence is the greatest count that was told.
 * Otherwise, and at the end, it is deleted everywhere, where it is still ours.
 *
 * What can go wrong: a server that does not answer in time has perhaps done it, and its connection
 * is of no use any more: it is closed, and the next request opens another. What such a server
 * keeps ends with its lease. And the fences: a server that others did not hear counts ahead, and
 * when it is away, the greatest count is a lower one. That is what this client is there for. */

#include "naive.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "faults.h"

#define ANSWER_US 150000

static const char claim_script[] =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then"
    " return redis.call('INCR', KEYS[2]) end return 0";
static const char undo_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

struct naive {
    int ports[QUORUM_SERVERS];
    redisContext *connections[QUORUM_SERVERS];
    uint64_t attempts;
};

struct naive *naive_open(const char *url)
{
    struct naive *naive = (struct naive *)calloc(1, sizeof *naive);
    const char *at = url;

    CHECK(naive);
    for (int i = 0; i < QUORUM_SERVERS; i++) {
        at = strstr(at, "127.0.0.1:");
        CHECK(at);
        at += strlen("127.0.0.1:");
        naive->ports[i] = (int)strtol(at, NULL, 10);
    }
    return naive;
}

static void hang_up(struct naive *naive, int server)
{
    if (naive->connections[server])
        redisFree(naive->connections[server]);
    naive->connections[server] = NULL;
}

void naive_close(struct naive *naive)
{
    for (int i = 0; i < QUORUM_SERVERS; i++)
        hang_up(naive, i);
    free(naive);
}

static redisContext *connection_to(struct naive *naive, int server)
{
    struct timeval limit = { .tv_usec = ANSWER_US };
    redisContext *connection = naive->connections[server];

    if (connection)
        return connection;
    connection = redisConnectWithTimeout("127.0.0.1", naive->ports[server], limit);
    CHECK(connection);
    naive->connections[server] = connection;
    if (connection->err == 0 && redisSetTimeout(connection, limit) == REDIS_OK)
        return connection;
    hang_up(naive, server);
    return NULL;
}

/* The answer, a number; -1: none. */
static long long run(struct naive *naive, int server, const char *const words[], int count)
{
    redisContext *connection = connection_to(naive, server);
    const char *copy[8];
    redisReply *reply;
    long long number = -1;

    CHECK(count <= 8);
    if (!connection)
        return -1;
    memcpy(copy, words, (size_t)count * sizeof *copy);
    reply = (redisReply *)redisCommandArgv(connection, count, copy, NULL);
    if (!reply) {
        hang_up(naive, server);
        return -1;
    }
    if (reply->type == REDIS_REPLY_INTEGER)
        number = reply->integer;
    freeReplyObject(reply);
    return number;
}

bool naive_take(struct naive *naive, const char *name, uint64_t lease_ms,
                struct naive_grant *out_grant)
{
    uint64_t sent_ns = history_now_ns();
    struct naive_grant grant = { .until_ns = sent_ns + (lease_ms - lease_ms / 100 - 2) *
                                                           (uint64_t)NS_PER_MS };
    char lock[HF_NAME_BYTES_MAX + 16];
    char counter[HF_NAME_BYTES_MAX + 16];
    char lease[24];
    int granted = 0;

    snprintf(grant.token, sizeof grant.token, "%d-%" PRIu64, (int)getpid(), ++naive->attempts);
    snprintf(lock, sizeof lock, "naive:%s:l", name);
    snprintf(counter, sizeof counter, "naive:%s:t", name);
    snprintf(lease, sizeof lease, "%" PRIu64, lease_ms);
    for (int i = 0; i < QUORUM_SERVERS; i++) {
        const char *words[] = { "EVAL", claim_script, "2", lock, counter, grant.token, lease };
        long long count = run(naive, i, words, sizeof words / sizeof words[0]);

        granted += count > 0;
        if (count > 0 && (uint64_t)count > grant.fence)
            grant.fence = (uint64_t)count;
    }
    if (granted > QUORUM_SERVERS / 2 && history_now_ns() < grant.until_ns) {
        *out_grant = grant;
        return true;
    }
    naive_give_back(naive, name, &grant);
    return false;
}

void naive_give_back(struct naive *naive, const char *name, const struct naive_grant *grant)
{
    char lock[HF_NAME_BYTES_MAX + 16];

    snprintf(lock, sizeof lock, "naive:%s:l", name);
    for (int i = 0; i < QUORUM_SERVERS; i++) {
        const char *words[] = { "EVAL", undo_script, "1", lock, grant->token };

        (void)run(naive, i, words, sizeof words / sizeof words[0]);
    }
}
