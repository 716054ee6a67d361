/* fair.c: locks with a line, one script for each operation (lua/fair*.lua).
 *
 * The happy path: CLAIM finds the lock free and has it. Otherwise it stands in line; the release of
 * the one ahead makes it the owner, and a message says so. What holds is renewed, what waits is
 * refreshed, all of a client together.
 *
 * What can go wrong: a message that is lost: the refresh finds out. A holder that died: the first
 * in line looks again when its lease must have ended. A claim that comes after we gave it up: the
 * server refuses it by its own clock. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/redis.h"
#include "scripts_fair.h"

enum script { CLAIM, REFRESH, RENEW, RELEASE, LOWER, BREAK, LIST };

static const char *const scripts[] = {
    [CLAIM] = fair_claim, [REFRESH] = fair_refresh, [RENEW] = fair_renew, [RELEASE] = fair_release,
    [LOWER] = fair_lower, [BREAK] = fair_break,     [LIST] = fair_list,   NULL,
};

static const char *const endings[] = { "", ":s", ":q", NULL };

/* --- asking --- */

static void add_bell(struct hf__redis *conn)
{
    char bell[24];
    size_t bytes = strlen(conn->client);

    memcpy(bell, conn->client, bytes);
    memcpy(bell + bytes, ":k", 2);
    hf__wire_out_word(&conn->out, bell, bytes + 2);
}

static void ask_claim(struct hf__redis *conn, const struct hf__request *request, const char *token)
{
    char who[HF__REDIS_WHO_BYTES];
    char until[HF__WIRE_DIGITS_MAX + 2];
    char way[2] = { request->mode == HF_SHARED ? 's' : 'x', request->queueing ? '1' : '0' };
    size_t who_bytes = hf__words_who(conn, request->ticket.claim_id, request->purpose, who);
    size_t until_bytes = hf__wire_digits(hf__words_latest_us(conn, request), until);
    /* Whoever blocks is woken through the connection that it polls itself. */
    bool calls = request->blocking && conn->listens_to_calls;

    memcpy(until + until_bytes, calls ? ":c" : ":k", 2);
    hf__wire_out_word(&conn->out, token, 2 * HF__TOKEN_BYTES);
    hf__wire_out_word(&conn->out, way, sizeof(way));
    hf__wire_out_number(&conn->out, request->lease_ns / HF__NS_PER_MS);
    hf__wire_out_number(&conn->out, request->grace_ns / HF__NS_PER_MS);
    hf__wire_out_word(&conn->out, until, until_bytes + 2);
    hf__wire_out_word(&conn->out, who, who_bytes);
}

static int ask(struct hf__redis *conn, const struct hf__request *request)
{
    static const struct {
        enum script script;
        size_t words;
    } forms[] = {
        [HF__REQUEST_CLAIM] = { CLAIM, 8 },
        [HF__REQUEST_RELEASE] = { RELEASE, 3 },
        [HF__REQUEST_DOWNGRADE] = { LOWER, 4 },
        [HF__REQUEST_BREAK] = { BREAK, 3 },
    };
    enum hf__request_kind kind = request->ticket.kind;
    char key[HF__REDIS_KEY_BYTES];
    char token[2 * HF__TOKEN_BYTES + 2 + HF__WIRE_DIGITS_MAX] = "";
    size_t token_bytes = 2 * HF__TOKEN_BYTES;
    bool hashed;
    size_t key_bytes = hf__words_key(conn, request->name, request->name_bytes, key, &hashed);

    assert(kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_RELEASE ||
           kind == HF__REQUEST_DOWNGRADE || kind == HF__REQUEST_BREAK);

    if (request->token)
        hf__words_token(request->token, token);
    hf__words_begin(conn, forms[kind].script, 1, forms[kind].words);
    hf__wire_out_word(&conn->out, key, key_bytes);
    hf__words_channels(conn);
    hf__wire_out_word(&conn->out, request->name, hashed ? request->name_bytes : 0);
    if (kind == HF__REQUEST_CLAIM) {
        ask_claim(conn, request, token);
        return HF_OK;
    }
    if (kind == HF__REQUEST_BREAK) {
        hf__wire_out_number(&conn->out, request->fence / 256);
        return HF_OK;
    }
    if (kind == HF__REQUEST_RELEASE) {
        token[token_bytes++] = ' ';
        token_bytes += hf__wire_digits(request->fence / 256, token + token_bytes);
    }
    hf__wire_out_word(&conn->out, token, token_bytes);
    if (kind == HF__REQUEST_DOWNGRADE)
        add_bell(conn);
    return HF_OK;
}

static void ask_many(struct hf__redis *conn)
{
    bool renews = conn->gathered_kind == HF__REQUEST_RENEW;
    uint32_t count = conn->gathered_count;

    hf__words_begin(conn, renews ? RENEW : REFRESH, count, 2 + (size_t)count * (renews ? 3 : 2));
    for (uint32_t i = 0; i < count; i++)
        hf__wire_out_word(&conn->out, conn->gathered[i].key, conn->gathered[i].key_bytes);
    hf__words_channels(conn);
    hf__wire_out_word(&conn->out, "", 0);
    for (uint32_t i = 0; i < count; i++) {
        hf__wire_out_word(&conn->out, conn->gathered[i].token, 2 * HF__TOKEN_BYTES);
        hf__wire_out_number(&conn->out, conn->gathered[i].lease_ms);
        if (renews)
            hf__wire_out_text(&conn->out, conn->gathered[i].shorten ? "1" : "0");
    }
}

/* --- hearing --- */

static bool hear_granted(const struct hf__value *value, struct hf__reply *out_reply)
{
    int64_t n;
    int64_t waiting;

    if (!hf__wire_number(hf__wire_at(value, 1), &n) ||
        !hf__wire_number(hf__wire_at(value, 2), &waiting) || n <= 0 || n >= 1ll << 53)
        return false;
    out_reply->kind = HF__REPLY_GRANTED;
    out_reply->fence = (uint64_t)n * 256;
    out_reply->others_wait = waiting > 0;
    return true;
}

static bool hear_busy(struct hf__redis *conn, const struct hf__value *value, bool queued,
                      struct hf__reply *out_reply)
{
    const struct hf__value *held = hf__wire_at(value, 5);
    int64_t ahead;
    int64_t rank;
    int64_t left_ms;
    int64_t last;

    if (!hf__wire_number(hf__wire_at(value, 1), &ahead) ||
        !hf__wire_number(hf__wire_at(value, 2), &rank) ||
        !hf__wire_number(hf__wire_at(value, 3), &left_ms) ||
        !hf__wire_number(hf__wire_at(value, 4), &last) || !held || ahead < 0 ||
        ahead > UINT32_MAX - 1 || last < 0 || last >= 1ll << 53)
        return false;
    out_reply->kind = queued ? HF__REPLY_QUEUED : HF__REPLY_REFUSED;
    out_reply->ahead = (uint32_t)ahead;
    out_reply->fence = (uint64_t)last * 256;
    out_reply->holder = hf__words_holder(conn, held, 5);
    if (queued && rank == 0 && left_ms >= 0)
        hf__lookout_set(conn, out_reply->ticket.claim_id, (uint64_t)left_ms);
    return true;
}

static bool hear_gone(const struct hf__value *value, struct hf__reply *out_reply)
{
    const struct hf__value *more = hf__wire_at(value, 1);
    int64_t had = 0;

    out_reply->kind = HF__REPLY_GONE;
    if (hf__wire_is(more, "broken"))
        out_reply->cause = "broken";
    else if (hf__wire_is(more, "expired"))
        out_reply->cause = "expired";
    else if (more && hf__wire_number(more, &had))
        out_reply->released = had > 0;
    return true;
}

static void fail(struct hf__redis *conn, int status, const char *text, struct hf__reply *out_reply)
{
    out_reply->kind = HF__REPLY_FAILED;
    out_reply->status = hf__error_set(conn->base.error, status, "%s", text);
}

static void hear(struct hf__redis *conn, const struct hf__ticket *ticket,
                 const struct hf__value *value, struct hf__reply *out_reply)
{
    const struct hf__value *word = value->kind == HF__VALUE_ARRAY ? hf__wire_at(value, 0) : NULL;
    bool understood = word != NULL;

    hf__redis_reply(ticket, HF__REPLY_FAILED, out_reply);
    if (value->kind != HF__VALUE_ARRAY)
        understood = hf__words_hear_plain(value, out_reply);
    else if (hf__wire_is(word, "granted"))
        understood = hear_granted(value, out_reply);
    else if (hf__wire_is(word, "queued"))
        understood = hear_busy(conn, value, true, out_reply);
    else if (hf__wire_is(word, "refused"))
        understood = hear_busy(conn, value, false, out_reply);
    else if (hf__wire_is(word, "gone"))
        understood = hear_gone(value, out_reply);
    else if (hf__wire_is(word, "done"))
        out_reply->kind = HF__REPLY_DONE;
    else if (hf__wire_is(word, "stale")) {
        conn->clock_doubted = true;
        fail(conn, HF_EUNREACHABLE, "the request came too late by the server's clock", out_reply);
    } else if (hf__wire_is(word, "full"))
        fail(conn, HF_ELIMIT, "65536 claims wait for this lock already", out_reply);
    else if (hf__wire_is(word, "collision"))
        fail(conn, HF_EINTEGRITY, "another name has the same hash", out_reply);
    else
        understood = false;
    if (!understood)
        hf__redis_protocol_error(conn, value, out_reply);
}

/* "granted tag n waiting", "crowded tag", "broken tag" */
static bool news(struct hf__redis *conn, const struct hf__value *message,
                 struct hf__reply *out_reply)
{
    struct hf__ticket ticket = { .kind = HF__REQUEST_NONE };
    char text[96];
    unsigned long long tag = 0;
    unsigned long long n = 0;
    unsigned waiting = 0;

    (void)conn;
    if (message->bytes >= sizeof(text))
        return false;
    memcpy(text, message->text, message->bytes);
    text[message->bytes] = '\0';
    if (sscanf(text, "granted %llx %llu %u", &tag, &n, &waiting) == 3 && n > 0 && n < 1ull << 53) {
        ticket.claim_id = tag;
        hf__redis_reply(&ticket, HF__REPLY_GRANTED, out_reply);
        out_reply->fence = n * 256;
        out_reply->appointed = true;
        out_reply->others_wait = waiting > 0;
        return true;
    }
    if (sscanf(text, "crowded %llx", &tag) == 1) {
        ticket.claim_id = tag;
        hf__redis_reply(&ticket, HF__REPLY_CROWDED, out_reply);
        return true;
    }
    if (sscanf(text, "broken %llx", &tag) == 1) {
        ticket.claim_id = tag;
        hf__redis_reply(&ticket, HF__REPLY_GONE, out_reply);
        out_reply->cause = "broken";
        return true;
    }
    return false;
}

const struct hf__redis_recipe hf__redis_fair = {
    .recipe = {
        .name = "fair",
        .url_forms = "redis://[user[:password]@]host[:port][/database] rediss://...",
        .summary = "A line of its own for every lock; whoever leaves hands it to the next.",
        .caveat = "Redis must keep what it is told (appendonly yes, appendfsync always), or the "
                  "promises that hang on it are withheld. One server: a replica that takes its "
                  "place does not know what it had not heard of yet.",
        .schema = "",
        .pattern = HF__PATTERN_QUEUE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                    HF_PROMISE_DURABLE | HF_PROMISE_CRASH,
        .is_default = true,
        .hands_on = true,
        .leases = true,
    },
    .default_prefix = "hf:",
    .scripts = scripts,
    .by_name = 1u << CLAIM | 1u << RELEASE,
    .list_script = LIST,
    .endings = endings,
    .ask = ask,
    .ask_many = ask_many,
    .hear = hear,
    .news = news,
};
