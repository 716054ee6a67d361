/* quorum.c: one server of several that know nothing of each other; together they are redlock.
 *
 * The core asks all of them and counts (core/driver.c, pattern/quorum.c); here is what one is asked
 * and what it answers. A claim brings a number: the server takes the lock for it if it is free, and
 * accepts the number if it is greater than all before. Both on a majority: the number is the fence.
 *
 * What can go wrong: a number that is too low: the answer is the counter, and the core proposes a
 * greater one to the same locks. A message that the turn was broken, from one server alone, proves
 * nothing: the core asks the majority. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/redis.h"
#include "scripts_quorum.h"

#define DIGITS      "0123456789abcdef"
#define TURN_DIGITS 16

enum script { CLAIM, RENEW, RELEASE, BREAK, LIST, SURVEY, ADMIT, FOUND };

static const char *const scripts[] = {
    [CLAIM] = quorum_claim, [RENEW] = quorum_renew, [RELEASE] = quorum_release,
    [BREAK] = quorum_break, [LIST] = quorum_list,   [SURVEY] = quorum_survey,
    [ADMIT] = quorum_admit, [FOUND] = quorum_found, NULL,
};

static const char *const endings[] = { ":l", NULL };

static int ask_node(struct hf__redis *conn, const struct hf__request *request)
{
    bool surveys = request->ticket.kind == HF__REQUEST_SURVEY;
    bool admits = request->ticket.kind == HF__REQUEST_ADMIT;
    char node[HF__REDIS_NODE_BYTES];

    /* The key that it is about: an account may be held to the keys that it names. */
    hf__words_node(conn, node);
    hf__words_begin(conn,
                    surveys  ? SURVEY
                    : admits ? ADMIT
                             : FOUND,
                    1,
                    surveys  ? 2
                    : admits ? 5
                             : 4);
    hf__wire_out_text(&conn->out, node);
    hf__words_channels(conn);
    hf__wire_out_text(&conn->out, "");
    if (surveys)
        return HF_OK;
    if (admits)
        hf__wire_out_number(&conn->out, request->fence / 256);
    hf__wire_out_text(&conn->out, *conn->server.run_id ? conn->server.run_id : "0");
    hf__wire_out_number(&conn->out, hf__words_latest_us(conn, request));
    return HF_OK;
}

static int ask(struct hf__redis *conn, const struct hf__request *request)
{
    enum hf__request_kind kind = request->ticket.kind;
    char key[HF__REDIS_KEY_BYTES];
    char token[2 * HF__TOKEN_BYTES + 1] = "";
    char who[HF__REDIS_WHO_BYTES];
    bool hashed;
    size_t key_bytes;

    if (hf__request_musters(kind))
        return ask_node(conn, request);
    key_bytes = hf__words_key(conn, request->name, request->name_bytes, key, &hashed);
    if (kind == HF__REQUEST_DOWNGRADE || request->mode == HF_SHARED)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED, "redlock has no shared mode");
    assert(kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_RELEASE || kind == HF__REQUEST_BREAK);

    if (request->token)
        hf__words_token(request->token, token);
    hf__words_begin(conn,
                    kind == HF__REQUEST_CLAIM     ? CLAIM
                    : kind == HF__REQUEST_RELEASE ? RELEASE
                                                  : BREAK,
                    1,
                    kind == HF__REQUEST_CLAIM     ? 9
                    : kind == HF__REQUEST_RELEASE ? 4
                                                  : 3);
    hf__wire_out_word(&conn->out, key, key_bytes);
    hf__words_channels(conn);
    hf__wire_out_word(&conn->out, request->name, hashed ? request->name_bytes : 0);
    if (kind == HF__REQUEST_BREAK) {
        hf__wire_out_number(&conn->out, request->fence / 256);
        return HF_OK;
    }
    hf__wire_out_word(&conn->out, token, 2 * HF__TOKEN_BYTES);
    hf__wire_out_number(&conn->out, request->fence / 256);
    if (kind == HF__REQUEST_RELEASE)
        return HF_OK;
    hf__wire_out_number(&conn->out, request->lease_ns / HF__NS_PER_MS);
    hf__wire_out_number(&conn->out, hf__words_latest_us(conn, request));
    hf__wire_out_number(&conn->out, request->grace_ns / HF__NS_PER_MS);
    hf__wire_out_word(&conn->out, who,
                      hf__words_who(conn, request->ticket.claim_id, request->purpose, who));
    hf__wire_out_text(&conn->out, request->rejoins ? "1" : "0");
    return HF_OK;
}

static void ask_many(struct hf__redis *conn)
{
    uint32_t count = conn->gathered_count;

    hf__words_begin(conn, RENEW, count, 2 + 3 * (size_t)count);
    for (uint32_t i = 0; i < count; i++)
        hf__wire_out_word(&conn->out, conn->gathered[i].key, conn->gathered[i].key_bytes);
    hf__words_channels(conn);
    hf__wire_out_word(&conn->out, "", 0);
    for (uint32_t i = 0; i < count; i++) {
        hf__wire_out_word(&conn->out, conn->gathered[i].token, 2 * HF__TOKEN_BYTES);
        hf__wire_out_number(&conn->out, conn->gathered[i].lease_ms);
        hf__wire_out_text(&conn->out, conn->gathered[i].shorten ? "1" : "0");
    }
}

static bool hear_counter(const struct hf__value *value, struct hf__reply *out_reply)
{
    int64_t counter;

    if (!hf__wire_number(hf__wire_at(value, 1), &counter) || counter < 0 || counter >= 1ll << 53)
        return false;
    out_reply->fence = (uint64_t)counter * 256;
    return true;
}

static bool hear_refused(struct hf__redis *conn, const struct hf__value *value,
                         struct hf__reply *out_reply)
{
    const struct hf__value *held = hf__wire_at(value, 3);

    out_reply->kind = HF__REPLY_REFUSED;
    if (!held || held->kind != HF__VALUE_TEXT || !hear_counter(value, out_reply))
        return false;
    out_reply->holder = hf__words_holder(conn, held, 5);
    return true;
}

static bool hear_gone(const struct hf__value *value, struct hf__reply *out_reply)
{
    int64_t had = 0;

    out_reply->kind = HF__REPLY_GONE;
    if (out_reply->ticket.kind == HF__REQUEST_BREAK) {
        out_reply->low = !hf__wire_number(hf__wire_at(value, 1), &had) || had == 0;
        return true;
    }
    if (hf__wire_is(hf__wire_at(value, 1), "broken"))
        out_reply->cause = "broken";
    else if (hf__wire_number(hf__wire_at(value, 1), &had))
        out_reply->released = had > 0;
    return true;
}

/* Whose lock is there in the place of what was to be broken? Its token's first digits tell. */
static bool hear_unsure(const struct hf__value *value, struct hf__reply *out_reply)
{
    const struct hf__value *token = hf__wire_at(value, 2);
    uint64_t turn = 0;

    if (out_reply->ticket.kind != HF__REQUEST_BREAK || !hear_gone(value, out_reply) || !token ||
        token->kind != HF__VALUE_TEXT || token->bytes < TURN_DIGITS)
        return false;
    for (size_t i = 0; i < TURN_DIGITS; i++) {
        const char *digit = memchr(DIGITS, token->text[i], sizeof(DIGITS) - 1);

        if (!digit)
            return false;
        turn = turn << 4 | (uint64_t)(digit - DIGITS);
    }
    out_reply->kind = HF__REPLY_REFUSED;
    out_reply->fence = turn;
    return true;
}

static bool hear_done(struct hf__redis *conn, const struct hf__value *value,
                      struct hf__reply *out_reply)
{
    int64_t longest_ms;

    out_reply->kind = HF__REPLY_DONE;
    if (out_reply->ticket.kind != HF__REQUEST_SURVEY)
        return true;
    if (!hear_counter(value, out_reply) || !hf__wire_number(hf__wire_at(value, 2), &longest_ms) ||
        longest_ms < 0 || longest_ms > HF_LEASE_MS_MAX)
        return false;
    out_reply->lease_ns = (uint64_t)longest_ms * HF__NS_PER_MS;
    /* Another client may have admitted it since we looked. */
    if (hf__wire_is(hf__wire_at(value, 3), conn->server.run_id))
        conn->base.doubted = false;
    return true;
}

/* It was never counted; or it has forgotten, under our eyes, that it was one of a quorum. A note
 * that it never was is good for that run, or on a server whose log never lacks its end. */
static void hear_unmarked(struct hf__redis *conn, const struct hf__value *value,
                          struct hf__reply *out_reply)
{
    const struct hf__redis_server *server = &conn->server;
    const struct hf__value *founding = hf__wire_at(value, 1);
    bool is_noted = founding && founding->kind == HF__VALUE_TEXT && founding->bytes > 0;

    if (!conn->base.doubted)
        conn->base.doubted_since_ns = conn->now_ns;
    conn->base.doubted = true;
    if (out_reply->ticket.kind == HF__REQUEST_SURVEY) {
        out_reply->kind = HF__REPLY_GONE;
        out_reply->is_founding =
            is_noted && (server->append_always || hf__wire_is(founding, server->run_id));
        return;
    }
    out_reply->kind = HF__REPLY_FAILED;
    out_reply->status = hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                      "the server has forgotten its locks, and is not counted yet");
}

static void hear(struct hf__redis *conn, const struct hf__ticket *ticket,
                 const struct hf__value *value, struct hf__reply *out_reply)
{
    const struct hf__value *word = value->kind == HF__VALUE_ARRAY ? hf__wire_at(value, 0) : NULL;
    bool understood = word != NULL;

    hf__redis_reply(ticket, HF__REPLY_GRANTED, out_reply);
    if (value->kind != HF__VALUE_ARRAY)
        understood = hf__words_hear_plain(value, out_reply);
    else if (hf__wire_is(word, "granted"))
        understood = hear_counter(value, out_reply);
    else if (hf__wire_is(word, "low")) {
        understood = hear_counter(value, out_reply);
        out_reply->low = true;
    } else if (hf__wire_is(word, "refused"))
        understood = hear_refused(conn, value, out_reply);
    else if (hf__wire_is(word, "gone"))
        understood = hear_gone(value, out_reply);
    else if (hf__wire_is(word, "unsure"))
        understood = hear_unsure(value, out_reply);
    else if (hf__wire_is(word, "done"))
        understood = hear_done(conn, value, out_reply);
    else if (hf__wire_is(word, "unmarked"))
        hear_unmarked(conn, value, out_reply);
    else if (hf__wire_is(word, "stale")) {
        conn->clock_doubted = true;
        out_reply->kind = HF__REPLY_FAILED;
        out_reply->status = hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                          "the request came too late by the server's clock");
    } else if (hf__wire_is(word, "collision")) {
        out_reply->kind = HF__REPLY_FAILED;
        out_reply->status =
            hf__error_set(conn->base.error, HF_EINTEGRITY, "another name has the same hash");
    } else
        understood = false;
    if (!understood)
        hf__redis_protocol_error(conn, value, out_reply);
}

/* "broken tag" */
static bool news(struct hf__redis *conn, const struct hf__value *message,
                 struct hf__reply *out_reply)
{
    struct hf__ticket ticket = { .kind = HF__REQUEST_NONE };
    char text[64];
    unsigned long long tag;

    (void)conn;
    if (message->bytes >= sizeof(text))
        return false;
    memcpy(text, message->text, message->bytes);
    text[message->bytes] = '\0';
    if (sscanf(text, "broken %llx", &tag) != 1)
        return false;
    ticket.claim_id = tag;
    hf__redis_reply(&ticket, HF__REPLY_CHANGED, out_reply);
    return true;
}

const struct hf__redis_recipe hf__redis_quorum = {
    .recipe = {
        .name = "quorum",
        .url_forms = "redlock://[user[:password]@]host[:port],host[:port],host[:port],..."
                     "[/database] redlocks://...",
        .summary = "A majority of independent Redis servers, with fences that they agree on.",
        .caveat = "Every server must keep what it is told (appendonly yes, appendfsync always), or "
                  "the promises that hang on it are withheld; and they must be servers of their "
                  "own, not replicas of one another. No line: who waits asks again, and of several "
                  "who try once at the same moment none may win.",
        .schema = "",
        .pattern = HF__PATTERN_QUORUM,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_DURABLE | HF_PROMISE_FAILOVER | HF_PROMISE_CRASH,
        .is_default = true,
        .hands_on = true,
        .leases = true,
    },
    .default_prefix = "hf:",
    .has_node = true,
    .scripts = scripts,
    .by_name = 1u << CLAIM | 1u << RELEASE,
    .list_script = LIST,
    .endings = endings,
    .ask = ask,
    .ask_many = ask_many,
    .hear = hear,
    .news = news,
};
