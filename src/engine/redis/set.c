/* set.c: SET NX PX of a random value, and compare-and-delete: the lock of many other programs.
 *
 * The happy path: CLAIM is one script, which sets the key if it is free and notes beside it the
 * number and who holds it; RELEASE deletes the key if its value is still ours, and wakes one of
 * those who wait. Who is refused asks again, later and later, or when it is woken.
 *
 * What can go wrong: the other program: its value is none of ours, so it holds the lock, and its
 * release wakes nobody; asking again finds out. A claim that comes after we gave it up: the server
 * refuses it by its own clock. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/redis/raw.h"
#include "scripts_set.h"

enum { BREAK = HF__RAW_MORE };

static const char *const scripts[] = {
    [HF__RAW_CLAIM] = set_claim, [HF__RAW_RENEW] = set_renew, [HF__RAW_RELEASE] = set_release,
    [HF__RAW_LIST] = set_list,   [BREAK] = set_break,         NULL,
};

static void ask_claim(struct hf__redis *conn, const struct hf__request *request)
{
    char key[HF__REDIS_KEY_BYTES];
    char token[2 * HF__TOKEN_BYTES + 1];
    char until[HF__WIRE_DIGITS_MAX + HF__RAW_EAR_BYTES];
    char holder[HF__WIRE_DIGITS_MAX + 1 + HF__REDIS_WHO_BYTES];
    const char *ear = hf__raw_ear(conn, request);
    size_t key_bytes = hf__raw_key(conn, request, key);
    size_t until_bytes = hf__wire_digits(hf__words_latest_us(conn, request), until);
    size_t bytes = hf__wire_digits(request->grace_ns / HF__NS_PER_MS, holder);

    memcpy(until + until_bytes, ear, strlen(ear));
    holder[bytes++] = ' ';
    bytes += hf__words_who(conn, request->ticket.claim_id, request->purpose, holder + bytes);
    hf__words_token(request->token, token);
    hf__raw_begin(conn, HF__RAW_CLAIM, key, key_bytes, 4);
    hf__wire_out_word(&conn->out, token, 2 * HF__TOKEN_BYTES);
    hf__wire_out_number(&conn->out, request->lease_ns / HF__NS_PER_MS);
    hf__wire_out_word(&conn->out, until, until_bytes + strlen(ear));
    hf__wire_out_word(&conn->out, holder, bytes);
}

static void ask_release(struct hf__redis *conn, const struct hf__request *request)
{
    char key[HF__REDIS_KEY_BYTES];
    char value[2 * HF__TOKEN_BYTES + 1 + HF__WIRE_DIGITS_MAX];
    char leaver[HF__RAW_LEAVER_BYTES];
    size_t value_bytes = 2 * HF__TOKEN_BYTES;
    size_t key_bytes = hf__raw_key(conn, request, key);
    size_t leaver_bytes = hf__raw_leaver(conn, request->ticket.claim_id, leaver);

    hf__words_token(request->token, value);
    if (request->fence > 0) {
        value[value_bytes++] = '-';
        value_bytes += hf__wire_digits(request->fence / 256, value + value_bytes);
    }
    hf__raw_begin(conn, HF__RAW_RELEASE, key, key_bytes, 2);
    hf__wire_out_word(&conn->out, value, value_bytes);
    hf__wire_out_word(&conn->out, leaver, leaver_bytes);
}

static int ask(struct hf__redis *conn, const struct hf__request *request)
{
    int status = hf__raw_check(conn, request);

    if (status < 0)
        return status;
    if (request->ticket.kind == HF__REQUEST_CLAIM)
        ask_claim(conn, request);
    else if (request->ticket.kind == HF__REQUEST_RELEASE)
        ask_release(conn, request);
    else
        hf__raw_ask_break(conn, BREAK, request);
    return HF_OK;
}

const struct hf__redis_recipe hf__redis_set = {
    .recipe = {
        .name = "set",
        .url_forms = "redis://[user[:password]@]host[:port][/database]?recipe=set rediss://...",
        .summary = "SET NX PX of a random value under prefix and name as they are: excludes, and "
                   "is excluded by, other programs that do so.",
        .caveat = "Not in order of arrival; what another program holds is noticed by asking "
                  "again, and only the other program can end it. Redis must keep what it is told "
                  "(appendonly yes, appendfsync always), or the promises that hang on it are "
                  "withheld. One server: a replica that takes its place does not know what it had "
                  "not heard of yet.",
        .schema = "",
        .pattern = HF__PATTERN_LEASE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_DURABLE | HF_PROMISE_CRASH,
        .hands_on = true,
        .leases = true,
    },
    .default_prefix = "",
    .raw_names = true,
    .scripts = scripts,
    .by_name = 1u << HF__RAW_CLAIM | 1u << HF__RAW_RELEASE,
    .list_script = HF__RAW_LIST,
    .endings = hf__raw_endings,
    .ask = ask,
    .ask_many = hf__raw_ask_many,
    .hear = hf__raw_hear,
    .news = hf__raw_news,
};
