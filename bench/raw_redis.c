/* raw_redis.c: what are Redis and redlock measured against?
 *
 * hiredis, blocking, one connection for every contender and server, the least commands that could
 * work: SET key value NX PX takes the lock, a script that compares and deletes gives it back. Who
 * is refused asks again after a millisecond. redlock: the same commands to all servers at once,
 * then all answers; it has no fence, no validity and no undoing.
 *
 * The hand-over: one raw acquire and one raw release, by the one who receives, when the other has
 * passed it the turn by a futex: that is what W5 is compared with. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "futex.h"
#include "side.h"

#define POLL_NS     1000000u
#define LEASE_MS    "30000"
#define PORT        6379
#define SERVERS_MAX 32

struct raw_redis {
    redisContext *servers[SERVERS_MAX];
    size_t count;
    char value[32];
    char sha[41];
};

static const char compare_and_delete[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

static int fail(int error)
{
    errno = error;
    return HF_ESYSTEM;
}

/* --- connecting --- */

static int load_script(struct raw_redis *raw, redisContext *server)
{
    redisReply *reply = redisCommand(server, "SCRIPT LOAD %s", compare_and_delete);
    bool loaded = reply && reply->type == REDIS_REPLY_STRING && reply->len == 40;

    if (loaded)
        memcpy(raw->sha, reply->str, 40);
    if (reply)
        freeReplyObject(reply);
    return loaded ? HF_OK : fail(EPROTO);
}

static int log_in(redisContext *server, const char *user, const char *password)
{
    redisReply *reply;
    bool done;

    if (!*password)
        return HF_OK;
    reply = *user ? redisCommand(server, "AUTH %s %s", user, password)
                  : redisCommand(server, "AUTH %s", password);
    done = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply)
        freeReplyObject(reply);
    return done ? HF_OK : fail(EACCES);
}

/* scheme://[user[:password]@]host[:port][,host[:port]...] */
static int connect_all(struct raw_redis *raw, const char *url)
{
    char rest[1024];
    char *hosts = rest;
    char *at;
    char *password = NULL;

    url = strstr(url, "://");
    if (!url || strlen(url) - 3 >= sizeof(rest))
        return fail(EINVAL);
    snprintf(rest, sizeof(rest), "%s", url + 3);
    rest[strcspn(rest, "/?")] = '\0';
    at = strrchr(rest, '@');
    if (at) {
        *at = '\0';
        hosts = at + 1;
        password = strchr(rest, ':');
        if (password)
            *password++ = '\0';
    }
    for (char *host = hosts; host && *host && raw->count < SERVERS_MAX;) {
        char *next = strchr(host, ',');
        char *colon;
        redisContext *server;

        if (next)
            *next++ = '\0';
        colon = strrchr(host, ':');
        if (colon)
            *colon = '\0';
        server = redisConnect(host, colon ? (int)strtol(colon + 1, NULL, 10) : PORT);
        if (!server || server->err)
            return fail(ECONNREFUSED);
        raw->servers[raw->count++] = server;
        if (log_in(server, at ? rest : "", password ? password : "") < 0 ||
            load_script(raw, server) < 0)
            return HF_ESYSTEM;
        host = next;
    }
    return raw->count > 0 ? HF_OK : fail(EINVAL);
}

static struct raw_redis *raw_of(struct bench_seat *seat)
{
    struct raw_redis *raw = seat->raw;

    if (raw)
        return raw;
    raw = calloc(1, sizeof(*raw));
    if (!raw)
        return NULL;
    seat->raw = raw;
    snprintf(raw->value, sizeof(raw->value), "%p-%u", (void *)raw, seat->number);
    if (connect_all(raw, seat->url) < 0)
        return NULL;
    return raw;
}

/* --- one cycle --- */

/* How many servers answered as wanted; < 0: one failed. */
static int count_answers(struct raw_redis *raw, int type)
{
    int count = 0;

    for (size_t i = 0; i < raw->count; i++) {
        redisReply *reply = NULL;

        if (redisGetReply(raw->servers[i], (void **)&reply) != REDIS_OK)
            return fail(EPIPE);
        count += reply->type == type;
        freeReplyObject(reply);
    }
    return count;
}

static int try_once(struct raw_redis *raw, const char *key)
{
    int taken;
    int written;

    for (size_t i = 0; i < raw->count; i++) {
        redisAppendCommand(raw->servers[i], "SET %s %s NX PX " LEASE_MS, key, raw->value);
        while (redisBufferWrite(raw->servers[i], &written) == REDIS_OK && !written)
            continue;
    }
    taken = count_answers(raw, REDIS_REPLY_STATUS);
    if (taken < 0)
        return taken;
    return taken > (int)raw->count / 2;
}

static int give_back(struct raw_redis *raw, const char *key)
{
    int written;

    for (size_t i = 0; i < raw->count; i++) {
        redisAppendCommand(raw->servers[i], "EVALSHA %s 1 %s %s", raw->sha, key, raw->value);
        while (redisBufferWrite(raw->servers[i], &written) == REDIS_OK && !written)
            continue;
    }
    return count_answers(raw, REDIS_REPLY_INTEGER) < 0 ? HF_ESYSTEM : HF_OK;
}

static int acquire(struct bench_seat *seat)
{
    struct raw_redis *raw = raw_of(seat);
    int taken;

    if (!raw)
        return HF_ESYSTEM;
    while ((taken = try_once(raw, seat->name)) == 0) {
        if (raw->count > 1 && give_back(raw, seat->name) < 0) /* what it had of a minority */
            return HF_ESYSTEM;
        bench_clock_sleep(POLL_NS);
    }
    return taken < 0 ? taken : HF_OK;
}

static int release(struct bench_seat *seat)
{
    return give_back(raw_of(seat), seat->name);
}

/* --- many of them, one after the other --- */

static int acquire_all(struct bench_seat *seat)
{
    struct raw_redis *raw = raw_of(seat);

    if (!raw)
        return HF_ESYSTEM;
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        int taken = try_once(raw, seat->batch.names[i]);

        if (taken <= 0)
            return taken < 0 ? taken : fail(EBUSY); /* it was nobody's */
    }
    return HF_OK;
}

static int release_all(struct bench_seat *seat)
{
    struct raw_redis *raw = raw_of(seat);

    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (give_back(raw, seat->batch.names[i]) < 0)
            return HF_ESYSTEM;
    }
    return HF_OK;
}

/* --- a hand-over --- */

static int acquire_turn(struct bench_seat *seat)
{
    struct raw_redis *raw = raw_of(seat);
    _Atomic uint32_t *word = &seat->floor->token.word;
    uint32_t found;

    if (!raw)
        return HF_ESYSTEM;
    while ((found = atomic_load(word)) != seat->number)
        bench_futex_wait(word, found);
    seat->floor->baton.released_ns = bench_clock_now_ns();
    if (try_once(raw, seat->name) < 0 || give_back(raw, seat->name) < 0)
        return HF_ESYSTEM;
    return HF_OK;
}

static int release_turn(struct bench_seat *seat)
{
    _Atomic uint32_t *word = &seat->floor->token.word;

    atomic_store(word, 1 - seat->number);
    bench_futex_wake(word, 1);
    return HF_OK;
}

/* --- what the server has been asked --- */

/* The number behind `field` in the server's own words; 0: it says nothing of it. */
static double read_number(const char *text, const char *field)
{
    const char *found = strstr(text, field);

    return found ? strtod(found + strlen(field), NULL) : 0;
}

/* The sum of the fields in one section of INFO, at the first server. */
static double ask_server(const char *url, const char *section, const char *const *fields,
                         size_t count)
{
    struct raw_redis raw = { 0 };
    double sum = NAN;
    redisReply *reply;

    if (connect_all(&raw, url) == HF_OK) {
        reply = redisCommand(raw.servers[0], "INFO %s", section);
        if (reply && reply->type == REDIS_REPLY_STRING) {
            sum = 0;
            for (size_t i = 0; i < count; i++)
                sum += read_number(reply->str, fields[i]);
        }
        if (reply)
            freeReplyObject(reply);
    }
    for (size_t i = 0; i < raw.count; i++)
        redisFree(raw.servers[i]);
    return sum;
}

/* How often it read something. Its count of commands would have those inside of scripts too; a read
 * is one request while there are few, and several if one is longer than the server's buffer. */
static double count_requests(const char *url)
{
    static const char *const fields[] = { "total_reads_processed:" };

    return ask_server(url, "stats", fields, 1);
}

/* No script can run another: so many were asked for. */
static double count_scripts(const char *url)
{
    static const char *const fields[] = { "cmdstat_evalsha:calls=", "cmdstat_eval:calls=" };

    return ask_server(url, "commandstats", fields, 2);
}

static const struct bench_side cycle = { "hiredis", acquire, release, NULL, NULL };
static const struct bench_side batch = { "hiredis", acquire_all, release_all, NULL, NULL };
static const struct bench_side handover = { "hiredis cycle", acquire_turn, release_turn, NULL,
                                            NULL };

#define SENTENCES(servers)                                                                         \
    {                                                                                              \
        [BENCH_W1] =                                                                               \
            "hiredis, blocking" servers ": SET NX PX, then a script that compares and deletes",    \
        [BENCH_W2] = "the same, 16 threads with a connection each",                                \
        [BENCH_W2B] =                                                                              \
            "the same, one thread with one connection: 16 times SET, 16 times the script",         \
        [BENCH_W3] = "the same, 8 threads with a connection each, asking again after 1 ms",        \
        [BENCH_W4] = "the same, 4 processes, asking again after 1 ms",                             \
        [BENCH_W5] = "one acquire and one release of it",                                          \
    }

const struct bench_raw bench_raw_redis = {
    .engine = "redis",
    .cycle = &cycle,
    .batch = &batch,
    .contended = &cycle,
    .handover = &handover,
    .count_requests = count_requests,
    .counting = 3,
    .count_scripts = count_scripts,
    .sentences = SENTENCES(""),
};

const struct bench_raw bench_raw_redlock = {
    .engine = "redlock",
    .cycle = &cycle,
    .batch = &batch,
    .contended = &cycle,
    .handover = &handover,
    .count_requests = count_requests,
    .counting = 3,
    .count_scripts = count_scripts,
    .sentences = SENTENCES(", all servers at once"),
};
