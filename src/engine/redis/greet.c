/* greet.c: who are we, who is the server, and what does it promise?
 *
 * One burst of commands opens a connection: HELLO (protocol 3, so that messages come on the same
 * connection as answers), SELECT, INFO, CONFIG GET, a trial of EVAL, the scripts, SUBSCRIBE, TIME.
 * When all are answered, the connection is up; requests made meanwhile wait behind them.
 *
 * What can go wrong: a server that is too old, a wrong password, a replica: the connection ends,
 * with the reason. A server that may not be asked for its configuration is trusted with nothing
 * that hangs on it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/raw.h"

enum step {
    STEP_HELLO,
    STEP_SELECT,
    STEP_INFO,
    STEP_CONFIG,
    STEP_EVAL,
    STEP_TIME,
    STEP_SUBSCRIBE,
    STEP_NODE
};

#define TIME_NS_MAX (5 * HF__NS_PER_S)
#define SECONDS_MAX (1ll << 33) /* since 1970; fences are microseconds, and end at 2^53 */
#define SURVIVING   ((uint32_t)HF_PROMISE_DURABLE | (uint32_t)HF_PROMISE_FAILOVER)
#define FORGETFUL   (SURVIVING | (uint32_t)HF_PROMISE_FENCE)

static struct hf__asked *begin(struct hf__redis *conn, enum step step, size_t words)
{
    struct hf__asked *asked = hf__asked_begin(conn, HF__ASKED_GREETING, 0);

    if (!asked)
        return NULL;
    asked->step = step;
    conn->greetings_left++;
    hf__wire_out_begin(&conn->out, words);
    return asked;
}

static int send_words(struct hf__redis *conn, enum step step, const char *const *words,
                      size_t count)
{
    struct hf__asked *asked = begin(conn, step, count);

    if (!asked)
        return HF_ENOMEM;
    for (size_t i = 0; i < count; i++)
        hf__wire_out_text(&conn->out, words[i]);
    return hf__asked_end(conn, asked, conn->greet_by_ns);
}

static int send_hello(struct hf__redis *conn)
{
    const char *user = *conn->url->user ? conn->url->user : "default";
    const char *plain[] = { "HELLO", "3", "SETNAME", "holdfast" };
    const char *known[] = { "HELLO", "3", "AUTH", user, conn->password, "SETNAME", "holdfast" };

    if (!*conn->password && !*conn->url->user)
        return send_words(conn, STEP_HELLO, plain, 4);
    return send_words(conn, STEP_HELLO, known, 7);
}

static int send_subscribe(struct hf__redis *conn)
{
    char channels[2][HF__REDIS_PREFIX_BYTES + 32];
    const char *words[] = { "SUBSCRIBE", channels[0], channels[1] };
    /* Where keys are other programs' too, clients of different prefixes meet. */
    const char *prefix = conn->recipe->raw_names ? HF__RAW_CHANNELS : conn->prefix;
    size_t count = 0;

    for (int keeper = 0; keeper < 2; keeper++) {
        if (!(keeper ? conn->listens_to_keeper : conn->listens_to_calls))
            continue;
        (void)snprintf(channels[count++], sizeof(channels[0]), "%s@%s:%c", prefix, conn->client,
                       keeper ? 'k' : 'c');
    }
    conn->channels_left = (uint32_t)count;
    if (count == 0)
        return HF_OK;
    return send_words(conn, STEP_SUBSCRIBE, words, count + 1);
}

static int send_node(struct hf__redis *conn)
{
    char key[HF__REDIS_NODE_BYTES];
    const char *words[] = { "GET", key };

    hf__words_node(conn, key);
    return send_words(conn, STEP_NODE, words, 2);
}

static void arrive(struct hf__redis *conn);

void hf__greet_listens(struct hf__redis *conn)
{
    struct hf__asked *asked = HF__LIST_ENTRY(conn->asked.next, struct hf__asked, place);

    if (conn->channels_left == 0 || --conn->channels_left > 0 || hf__list_empty(&conn->asked) ||
        asked->kind != HF__ASKED_GREETING || asked->step != STEP_SUBSCRIBE)
        return;
    hf__asked_free(conn, asked);
    arrive(conn);
}

int hf__greet_load(struct hf__redis *conn, uint32_t script, uint64_t deadline_ns)
{
    struct hf__asked *asked = hf__asked_begin(conn, HF__ASKED_LOAD, 0);

    if (!asked)
        return HF_ENOMEM;
    asked->step = script;
    hf__wire_out_begin(&conn->out, 3);
    hf__wire_out_text(&conn->out, "SCRIPT");
    hf__wire_out_text(&conn->out, "LOAD");
    hf__wire_out_text(&conn->out, conn->scripts[script].text);
    return hf__asked_end(conn, asked, deadline_ns);
}

int hf__greet_ask_time(struct hf__redis *conn, uint64_t now_ns)
{
    const char *time[] = { "TIME" };

    conn->clock_doubted = false;
    conn->server.time_asked_ns = now_ns;
    conn->greet_by_ns = now_ns + TIME_NS_MAX;
    return send_words(conn, STEP_TIME, time, 1);
}

int hf__greet_send(struct hf__redis *conn, uint64_t now_ns)
{
    const char *database = *conn->url->path ? conn->url->path + 1 : "0";
    const char *select[] = { "SELECT", *database ? database : "0" };
    const char *info[] = { "INFO" };
    const char *config[] = { "CONFIG", "GET", "appendfsync" };
    const char *eval[] = { "EVAL", "return 1", "0" }; /* who may not renew must not begin */
    int status = send_hello(conn);

    if (status == HF_OK)
        status = send_words(conn, STEP_SELECT, select, 2);
    if (status == HF_OK)
        status = send_words(conn, STEP_INFO, info, 1);
    if (status == HF_OK)
        status = send_words(conn, STEP_CONFIG, config, 3);
    if (status == HF_OK)
        status = send_words(conn, STEP_EVAL, eval, 3);
    for (uint32_t i = 0; status == HF_OK && conn->recipe->scripts[i]; i++) {
        assert(i < HF__REDIS_SCRIPTS_MAX);
        conn->scripts[i].text = conn->recipe->scripts[i];
        conn->greetings_left++;
        status = hf__greet_load(conn, i, conn->greet_by_ns);
    }
    if (status == HF_OK && conn->recipe->has_node)
        status = send_node(conn);
    if (status == HF_OK)
        status = send_subscribe(conn);
    if (status == HF_OK)
        status = hf__greet_ask_time(conn, now_ns);
    return status;
}

/* --- answers --- */

/* The value behind `key:` in the text of INFO. */
static bool info_text(const struct hf__value *info, const char *key, char *out_text, size_t room)
{
    size_t key_bytes = strlen(key);
    const char *at = info->text;
    const char *end = info->text + info->bytes;

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((line_end ? line_end : end) - at);

        if (bytes > 0 && at[bytes - 1] == '\r')
            bytes--;
        if (bytes > key_bytes && memcmp(at, key, key_bytes) == 0 && at[key_bytes] == ':') {
            size_t count = bytes - key_bytes - 1;

            if (count >= room)
                count = room - 1;
            memcpy(out_text, at + key_bytes + 1, count);
            out_text[count] = '\0';
            return true;
        }
        if (!line_end)
            return false;
        at = line_end + 1;
    }
    return false;
}

/* The scripts use SET with GET, which came with 6.2. */
static bool is_too_old(const char *version)
{
    unsigned major = 0;
    unsigned minor = 0;

    return sscanf(version, "%u.%u", &major, &minor) == 2 &&
           (major < 6 || (major == 6 && minor < 2));
}

static int hear_info(struct hf__redis *conn, const struct hf__value *info, uint64_t now_ns)
{
    struct hf__redis_server *server = &conn->server;
    char text[64] = "";

    if (info->kind != HF__VALUE_TEXT ||
        !info_text(info, "redis_version", server->version, sizeof(server->version)))
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server does not answer INFO");
    if (is_too_old(server->version))
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "the server is Redis %s; 6.2 is the least", server->version);
    info_text(info, "run_id", server->run_id, sizeof(server->run_id));
    if (info_text(info, "role", text, sizeof(text)) && strcmp(text, "master") != 0)
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s is a replica: locks are taken on its master",
                             hf__stream_peer(conn->stream));
    if (info_text(info, "cluster_enabled", text, sizeof(text)) && strcmp(text, "1") == 0)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "%s belongs to a Redis Cluster, which is not supported",
                             hf__stream_peer(conn->stream));
    server->append_only =
        info_text(info, "aof_enabled", text, sizeof(text)) && strcmp(text, "1") == 0;
    server->evicts =
        !info_text(info, "maxmemory_policy", text, sizeof(text)) || strcmp(text, "noeviction") != 0;
    if (!info_text(info, "maxmemory", text, sizeof(text)) || strcmp(text, "0") == 0)
        server->evicts = false; /* without a limit nothing is ever evicted */
    if (!info_text(info, "uptime_in_seconds", text, sizeof(text)) ||
        !hf__text_to_u64(text, strlen(text), &server->uptime_s))
        server->uptime_s = 0;
    if (conn->restart_wait_ns > server->uptime_s * HF__NS_PER_S)
        conn->open_from_ns = now_ns + conn->restart_wait_ns - server->uptime_s * HF__NS_PER_S;
    return HF_OK;
}

static void hear_config(struct hf__redis *conn, const struct hf__value *value)
{
    conn->server.tells_config = true;
    conn->server.append_always = value->count >= 2 && hf__wire_is(hf__wire_at(value, 1), "always");
}

static int hear_time(struct hf__redis *conn, const struct hf__value *value)
{
    int64_t seconds;
    int64_t micros;

    if (value->kind != HF__VALUE_ARRAY || !hf__wire_number(hf__wire_at(value, 0), &seconds) ||
        !hf__wire_number(hf__wire_at(value, 1), &micros) || seconds <= 0 || seconds > SECONDS_MAX ||
        micros < 0 || micros >= 1000000)
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server does not tell the time");
    conn->server.clock_offset_us =
        seconds * 1000000 + micros - (int64_t)(conn->server.time_asked_ns / HF__NS_PER_US);
    return HF_OK;
}

/* Was it ever one of a quorum, and is it sure to remember? INFO and CONFIG were answered before. */
static void hear_node(struct hf__redis *conn, const struct hf__value *value, uint64_t now_ns)
{
    const struct hf__redis_server *server = &conn->server;
    size_t run_bytes = strlen(server->run_id);
    bool same_run = value->kind == HF__VALUE_TEXT && value->bytes > run_bytes && run_bytes > 0 &&
                    memcmp(value->text + value->bytes - run_bytes, server->run_id, run_bytes) == 0;
    /* "founding run" is one that was never counted. */
    bool is_new = value->kind != HF__VALUE_TEXT || value->bytes == 0 || *value->text == 'f';
    uint64_t age_ns;

    conn->base.doubted = is_new || (!same_run && !server->append_always);
    /* A server that was wiped while it ran does not tell when; and one that was started tells it in
     * seconds, of which the last has only begun. */
    age_ns = is_new || server->uptime_s == 0 ? 0 : (server->uptime_s - 1) * HF__NS_PER_S;
    conn->base.doubted_since_ns = now_ns > age_ns ? now_ns - age_ns : 0;
}

/* Why not all of it can be promised. */
static void judge(struct hf__redis *conn)
{
    const struct hf__redis_server *server = &conn->server;
    char *reason = conn->base.withheld;
    size_t room = sizeof(conn->base.withheld);

    conn->base.promises = conn->base.recipe->promises;
    *reason = '\0';
    if (server->evicts) {
        conn->base.promises &= ~FORGETFUL;
        hf__text_copy(reason, room, "the server may evict locks (maxmemory-policy)");
    } else if (!server->append_only) {
        conn->base.promises &= ~FORGETFUL;
        hf__text_copy(reason, room, "the server keeps no log (appendonly no)");
    } else if (!server->tells_config) {
        conn->base.promises &= ~FORGETFUL;
        hf__text_copy(reason, room, "the server does not tell how it keeps its log (CONFIG GET)");
    } else if (!server->append_always) {
        conn->base.promises &= ~FORGETFUL;
        hf__text_copy(reason, room, "the server's log may lack the last second (appendfsync)");
    }
    /* Whatever it forgets, nothing is granted until it must have ended. */
    if (conn->restart_wait_ns > 0 && !server->evicts)
        conn->base.promises |= conn->base.recipe->promises & SURVIVING;
}

/* One of the steps is done; after the last, the connection is up. */
static void arrive(struct hf__redis *conn)
{
    if (conn->greeted)
        return;
    assert(conn->greetings_left > 0);
    if (--conn->greetings_left == 0) {
        judge(conn);
        conn->greeted = true;
    }
}

static int refuse(struct hf__redis *conn, const struct hf__asked *asked,
                  const struct hf__value *value)
{
    static const char *const commands[] = {
        [STEP_HELLO] = "HELLO", [STEP_SELECT] = "SELECT",       [STEP_INFO] = "INFO",
        [STEP_TIME] = "TIME",   [STEP_SUBSCRIBE] = "SUBSCRIBE", [STEP_CONFIG] = "CONFIG GET",
        [STEP_NODE] = "GET",    [STEP_EVAL] = "EVAL",
    };
    bool greets = asked->kind == HF__ASKED_GREETING;
    bool unknown = hf__wire_begins(value, "ERR") && !hf__wire_begins(value, "ERR max number");
    struct hf__reply reply = { .kind = HF__REPLY_FAILED };

    if (greets && asked->step == STEP_CONFIG && (unknown || hf__wire_begins(value, "NOPERM")))
        return HF_OK;
    if (greets && asked->step == STEP_HELLO && unknown)
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "the server is older than Redis 6.2, or no Redis at all");
    if (greets && asked->step == STEP_SELECT && unknown)
        return hf__error_set(conn->base.error, HF_EURL, "the server has no database '%s'",
                             *conn->url->path ? conn->url->path + 1 : "0");
    hf__words_error(conn, value, &reply);
    return hf__error_set(conn->base.error, reply.status, "%s: %s",
                         greets ? commands[asked->step] : "SCRIPT LOAD", conn->base.error);
}

static int hear_hello(struct hf__redis *conn, const struct hf__value *value)
{
    for (uint32_t i = 0; value->kind == HF__VALUE_ARRAY && i + 1 < value->count; i += 2) {
        int64_t version;

        if (hf__wire_is(hf__wire_at(value, i), "proto") &&
            hf__wire_number(hf__wire_at(value, i + 1), &version) && version == 3)
            return HF_OK;
    }
    return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server does not answer HELLO");
}

static int hear_load(struct hf__redis *conn, uint32_t index, const struct hf__value *value)
{
    bool is_hex = value->kind == HF__VALUE_TEXT && value->bytes == HF__SHA1_HEX_BYTES;

    for (size_t i = 0; is_hex && i < value->bytes; i++)
        is_hex = (value->text[i] >= '0' && value->text[i] <= '9') ||
                 (value->text[i] >= 'a' && value->text[i] <= 'f');
    if (!is_hex)
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server takes no scripts");
    (void)snprintf(conn->scripts[index].call, sizeof(conn->scripts[index].call),
                   "$7\r\nEVALSHA\r\n$%d\r\n%.*s\r\n", HF__SHA1_HEX_BYTES, HF__SHA1_HEX_BYTES,
                   value->text);
    return HF_OK;
}

static int hear_step(struct hf__redis *conn, enum step step, const struct hf__value *value,
                     uint64_t now_ns)
{
    switch (step) {
    case STEP_HELLO:
        return hear_hello(conn, value);
    case STEP_SELECT:
        if (value->kind == HF__VALUE_STATUS && hf__wire_is(value, "OK"))
            return HF_OK;
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server does not answer SELECT");
    case STEP_INFO:
        return hear_info(conn, value, now_ns);
    case STEP_CONFIG:
        hear_config(conn, value);
        return HF_OK;
    case STEP_EVAL:
        if (value->kind == HF__VALUE_NUMBER && value->number == 1)
            return HF_OK;
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server does not answer EVAL");
    case STEP_TIME:
        return hear_time(conn, value);
    case STEP_SUBSCRIBE: /* confirmed by messages, never by an answer */
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server sends no messages");
    case STEP_NODE:
        if (value->kind != HF__VALUE_TEXT && value->kind != HF__VALUE_NIL)
            return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server does not answer GET");
        hear_node(conn, value, now_ns);
        return HF_OK;
    }
    return HF_EPROTOCOL;
}

int hf__greet_hear(struct hf__redis *conn, const struct hf__asked *asked,
                   const struct hf__value *value, uint64_t now_ns)
{
    int status;

    if (value->kind == HF__VALUE_ERROR)
        status = refuse(conn, asked, value);
    else if (asked->kind == HF__ASKED_LOAD)
        status = hear_load(conn, asked->step, value);
    else
        status = hear_step(conn, (enum step)asked->step, value, now_ns);
    if (status < 0)
        return status;

    arrive(conn);
    return HF_OK;
}
