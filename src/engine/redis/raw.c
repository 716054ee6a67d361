/* raw.c: what do the recipes have in common that share their keys with other programs?
 *
 * How a lock's key is written (prefix and name, as they are), which key of our own stands beside
 * it, and what the answers of their scripts and the messages mean.
 *
 * What can go wrong: a name that would be one of our own keys is refused; a holder that is no
 * Holdfast has no number and no name, and cannot be broken. */
#include "engine/redis/raw.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"

#define SIDE_PREFIX  HF__RAW_SIDE_PREFIX "{"
#define DIGEST_BYTES 32
#define NUMBER_MAX   (1ll << 53)

const char *const hf__raw_endings[] = { "", NULL };

/* What other recipes and this one write beside the locks. */
static const char *const own_keys[] = { SIDE_PREFIX, "hf:{", "hf:@" };

int hf__raw_check(struct hf__redis *conn, const struct hf__request *request)
{
    char key[HF__REDIS_KEY_BYTES];
    size_t bytes = hf__raw_key(conn, request, key);

    if (request->ticket.kind == HF__REQUEST_DOWNGRADE || request->mode != HF_EXCLUSIVE)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED, "%s has no shared mode",
                             conn->base.recipe->name);
    for (size_t i = 0; i < sizeof(own_keys) / sizeof(*own_keys); i++) {
        size_t own_bytes = strlen(own_keys[i]);

        if (bytes >= own_bytes && memcmp(key, own_keys[i], own_bytes) == 0)
            return hf__error_set(conn->base.error, HF_ENAME,
                                 "keys that begin with %s are not for locks of this recipe",
                                 own_keys[i]);
    }
    return HF_OK;
}

size_t hf__raw_key(const struct hf__redis *conn, const struct hf__request *request,
                   char out_key[HF__REDIS_KEY_BYTES])
{
    bool hashed;

    return hf__words_key(conn, request->name, request->name_bytes, out_key, &hashed);
}

size_t hf__raw_side(const char *key, size_t key_bytes, char out_side[HF__RAW_SIDE_BYTES])
{
    char encoded[HF__NAME_ENCODED_BYTES];
    uint8_t digest[DIGEST_BYTES];
    bool hashed;
    size_t bytes;

    if (key_bytes <= HF_NAME_BYTES_MAX) {
        hf__name_encode(key, key_bytes, encoded, &hashed);
    } else { /* with a prefix it may be longer than any name */
        hf__sha256(key, key_bytes, digest);
        memcpy(encoded, "~s", 2);
        for (size_t i = 0; i < DIGEST_BYTES; i++)
            (void)snprintf(encoded + 2 + 2 * i, 3, "%02x", digest[i]);
    }
    bytes = strlen(encoded);
    assert(sizeof(SIDE_PREFIX) + bytes + 1 <= HF__RAW_SIDE_BYTES);
    memcpy(out_side, SIDE_PREFIX, sizeof(SIDE_PREFIX) - 1);
    memcpy(out_side + sizeof(SIDE_PREFIX) - 1, encoded, bytes);
    memcpy(out_side + sizeof(SIDE_PREFIX) - 1 + bytes, "}", 2);
    return sizeof(SIDE_PREFIX) + bytes;
}

size_t hf__raw_key_of_side(const char *side, size_t side_bytes, char out_key[HF_NAME_BYTES_MAX + 1])
{
    size_t prefix_bytes = strlen(SIDE_PREFIX);

    if (side_bytes < prefix_bytes + 2)
        return 0;
    return hf__name_decode(side + prefix_bytes, side_bytes - prefix_bytes - 1, out_key);
}

const char *hf__raw_ear(const struct hf__redis *conn, const struct hf__request *request)
{
    if (!request->queueing)
        return "";
    /* Whoever blocks is woken through the connection that it polls itself. */
    return request->blocking && conn->listens_to_calls ? ":c" : ":k";
}

/* --- asking --- */

void hf__raw_begin(struct hf__redis *conn, uint32_t script, const char *key, size_t key_bytes,
                   size_t words)
{
    char side[HF__RAW_SIDE_BYTES];
    size_t side_bytes = hf__raw_side(key, key_bytes, side);

    hf__words_begin(conn, script, 2, words);
    hf__wire_out_word(&conn->out, key, key_bytes);
    hf__wire_out_word(&conn->out, side, side_bytes);
}

size_t hf__raw_leaver(const struct hf__redis *conn, uint64_t claim_id,
                      char out_leaver[HF__RAW_LEAVER_BYTES])
{
    size_t bytes = strlen(conn->client);

    memcpy(out_leaver, conn->client, bytes);
    out_leaver[bytes++] = ' ';
    return bytes + hf__words_tag(claim_id, out_leaver + bytes);
}

void hf__raw_ask_break(struct hf__redis *conn, uint32_t script, const struct hf__request *request)
{
    char key[HF__REDIS_KEY_BYTES];
    size_t key_bytes = hf__raw_key(conn, request, key);

    hf__raw_begin(conn, script, key, key_bytes, 1);
    hf__wire_out_number(&conn->out, request->fence % 256 == 0 ? request->fence / 256 : 0);
}

void hf__raw_begin_many(struct hf__redis *conn, size_t words_each)
{
    uint32_t count = conn->gathered_count;
    char side[HF__RAW_SIDE_BYTES];

    assert(conn->gathered_kind == HF__REQUEST_RENEW); /* nobody stands in line here */

    hf__words_begin(conn, HF__RAW_RENEW, 2 * (size_t)count, words_each * count);
    for (uint32_t i = 0; i < count; i++) {
        const struct hf__gathered *one = &conn->gathered[i];
        size_t side_bytes = hf__raw_side(one->key, one->key_bytes, side);

        hf__wire_out_word(&conn->out, one->key, one->key_bytes);
        hf__wire_out_word(&conn->out, side, side_bytes);
    }
}

void hf__raw_ask_many(struct hf__redis *conn)
{
    hf__raw_begin_many(conn, 3);
    for (uint32_t i = 0; i < conn->gathered_count; i++) {
        hf__wire_out_word(&conn->out, conn->gathered[i].token, 2 * HF__TOKEN_BYTES);
        hf__wire_out_number(&conn->out, conn->gathered[i].lease_ms);
        hf__wire_out_text(&conn->out, conn->gathered[i].shorten ? "1" : "0");
    }
}

/* --- hearing --- */

bool hf__raw_is_flag(const struct hf__value *value)
{
    return value->kind == HF__VALUE_NUMBER && (value->number == 0 || value->number == 1);
}

/* A recipe without fences has no numbers either. Of a lock that is renewed the number may have been
 * forgotten. */
static bool hear_granted(const struct hf__redis *conn, const struct hf__value *number,
                         const struct hf__value *others, struct hf__reply *out_reply)
{
    bool numbered = (conn->base.recipe->promises & HF_PROMISE_FENCE) != 0;
    int64_t n;
    int64_t waiting = 0;

    if (!hf__wire_number(number, &n) || n < 0 || n >= NUMBER_MAX || (n > 0 && !numbered) ||
        (n == 0 && numbered && out_reply->ticket.kind == HF__REQUEST_CLAIM))
        return false;
    (void)hf__wire_number(others, &waiting);
    out_reply->kind = HF__REPLY_GRANTED;
    out_reply->fence = (uint64_t)n * 256;
    out_reply->others_wait = waiting > 0;
    return true;
}

/* "refused", its number, and who it is: "" if it is none of ours. */
static bool hear_refused(struct hf__redis *conn, const struct hf__value *value,
                         struct hf__reply *out_reply)
{
    const struct hf__value *who = hf__wire_at(value, 2);
    int64_t n;

    if (!hf__wire_number(hf__wire_at(value, 1), &n) || n < 0 || n >= NUMBER_MAX || !who ||
        who->kind != HF__VALUE_TEXT)
        return false;
    out_reply->kind = HF__REPLY_REFUSED;
    if (!hf__words_read_who(who->text, who->bytes, &conn->holder)) {
        memset(&conn->holder, 0, sizeof(conn->holder));
        hf__text_copy(conn->holder.purpose, sizeof(conn->holder.purpose), "another program");
    }
    conn->holder.fence = (uint64_t)n * 256;
    out_reply->holder = &conn->holder;
    return true;
}

static bool hear_gone(const struct hf__value *value, struct hf__reply *out_reply)
{
    out_reply->kind = HF__REPLY_GONE;
    if (hf__wire_is(hf__wire_at(value, 1), "broken"))
        out_reply->cause = "broken";
    return true;
}

static bool hear_failure(struct hf__redis *conn, const struct hf__value *word,
                         struct hf__reply *out_reply)
{
    static const struct {
        const char *word;
        int status;
        const char *text;
    } failures[] = {
        { "stale", HF_EUNREACHABLE, "the request came too late by the server's clock" },
        { "collision", HF_EINTEGRITY, "another key has the same hash" },
        { "foreign", HF_EUNSUPPORTED,
          "held by another program, or by a recipe without fences: only its holder can end it" },
    };

    for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
        if (!hf__wire_is(word, failures[i].word))
            continue;
        conn->clock_doubted = conn->clock_doubted || i == 0;
        out_reply->kind = HF__REPLY_FAILED;
        out_reply->status =
            hf__error_set(conn->base.error, failures[i].status, "%s", failures[i].text);
        return true;
    }
    return false;
}

void hf__raw_hear(struct hf__redis *conn, const struct hf__ticket *ticket,
                  const struct hf__value *value, struct hf__reply *out_reply)
{
    const struct hf__value *word = value->kind == HF__VALUE_ARRAY ? hf__wire_at(value, 0) : NULL;
    bool understood = word != NULL;

    hf__redis_reply(ticket, HF__REPLY_FAILED, out_reply);
    if (value->kind != HF__VALUE_ARRAY)
        understood = hf__words_hear_plain(value, out_reply) &&
                     (out_reply->kind != HF__REPLY_GRANTED ||
                      (conn->base.recipe->promises & HF_PROMISE_FENCE));
    else if (hf__wire_is(word, "granted"))
        understood = hear_granted(conn, hf__wire_at(value, 1), hf__wire_at(value, 2), out_reply);
    else if (hf__wire_is(word, "refused"))
        understood = hear_refused(conn, value, out_reply);
    else if (hf__wire_is(word, "gone"))
        understood = hear_gone(value, out_reply);
    else if (hf__wire_is(word, "done"))
        out_reply->kind = HF__REPLY_DONE;
    else
        understood = word && hear_failure(conn, word, out_reply);
    if (!understood)
        hf__redis_protocol_error(conn, value, out_reply);
}

/* "changed tag", "crowded tag", "broken tag" */
bool hf__raw_news(struct hf__redis *conn, const struct hf__value *message,
                  struct hf__reply *out_reply)
{
    static const struct {
        const char *format;
        enum hf__reply_kind kind;
    } kinds[] = {
        { "changed %llx", HF__REPLY_CHANGED },
        { "crowded %llx", HF__REPLY_CROWDED },
        { "broken %llx", HF__REPLY_GONE },
    };
    struct hf__ticket ticket = { .kind = HF__REQUEST_NONE };
    char text[64];
    unsigned long long tag = 0;

    (void)conn;
    if (message->bytes >= sizeof(text))
        return false;
    memcpy(text, message->text, message->bytes);
    text[message->bytes] = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (sscanf(text, kinds[i].format, &tag) != 1)
            continue;
        ticket.claim_id = tag;
        hf__redis_reply(&ticket, kinds[i].kind, out_reply);
        if (kinds[i].kind == HF__REPLY_GONE)
            out_reply->cause = "broken";
        return true;
    }
    return false;
}
