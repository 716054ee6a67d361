/* words.c: how are names, tokens, people and errors written in Redis?
 *
 * A lock of ours is prefix{name}, so that all its keys would lie in one slot of a cluster; recipes
 * that share their keys with other programs write prefix and name as they are. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/redis.h"

size_t hf__words_key(const struct hf__redis *conn, const char *name, size_t name_bytes,
                     char out_key[HF__REDIS_KEY_BYTES], bool *out_hashed)
{
    char encoded[HF__NAME_ENCODED_BYTES];
    size_t prefix_bytes = strlen(conn->prefix);
    size_t bytes;

    *out_hashed = false;
    memcpy(out_key, conn->prefix, prefix_bytes);
    if (conn->recipe->raw_names) {
        memcpy(out_key + prefix_bytes, name, name_bytes);
        return prefix_bytes + name_bytes;
    }
    bytes = hf__name_encode(name, name_bytes, encoded, out_hashed);
    out_key[prefix_bytes] = '{';
    memcpy(out_key + prefix_bytes + 1, encoded, bytes);
    out_key[prefix_bytes + 1 + bytes] = '}';
    return prefix_bytes + bytes + 2;
}

void hf__words_token(const uint8_t token[HF__TOKEN_BYTES], char out_text[2 * HF__TOKEN_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < HF__TOKEN_BYTES; i++) {
        out_text[2 * i] = digits[token[i] >> 4];
        out_text[2 * i + 1] = digits[token[i] & 15];
    }
    out_text[2 * HF__TOKEN_BYTES] = '\0';
}

static char *put(char *to, const char *text, size_t bytes)
{
    memcpy(to, text, bytes);
    return to + bytes;
}

size_t hf__words_tag(uint64_t claim_id, char out_tag[HF__REDIS_TAG_BYTES])
{
    size_t bytes = 1;

    for (uint64_t rest = claim_id >> 4; rest > 0; rest >>= 4)
        bytes++;
    out_tag[bytes] = '\0';
    for (size_t i = bytes; i > 0; i--, claim_id >>= 4)
        out_tag[i - 1] = "0123456789abcdef"[claim_id & 15];
    return bytes;
}

void hf__words_node(const struct hf__redis *conn, char out_key[HF__REDIS_NODE_BYTES])
{
    (void)snprintf(out_key, HF__REDIS_NODE_BYTES, "%s@node", conn->prefix);
}

size_t hf__words_who(const struct hf__redis *conn, uint64_t claim_id, const char *purpose,
                     char out_who[HF__REDIS_WHO_BYTES])
{
    char *at = out_who;

    at = put(at, conn->client, strlen(conn->client));
    *at++ = ' ';
    at += hf__words_tag(claim_id, at);
    *at++ = ' ';
    at = put(at, conn->whence, strlen(conn->whence));
    *at++ = ' ';
    if (!purpose || !*purpose)
        purpose = conn->purpose;
    at = put(at, purpose, strnlen(purpose, HF__PURPOSE_BYTES - 1));
    *at = '\0';
    assert(at < out_who + HF__REDIS_WHO_BYTES);
    return (size_t)(at - out_who);
}

/* The next word, up to a blank or the end. */
static size_t take_word(const char **text, size_t *bytes, char *out_word, size_t word_bytes)
{
    size_t count = 0;

    while (count < *bytes && (*text)[count] != ' ')
        count++;
    if (count >= word_bytes)
        return 0;
    memcpy(out_word, *text, count);
    out_word[count] = '\0';
    *text += count + (count < *bytes);
    *bytes -= count + (count < *bytes);
    return count;
}

bool hf__words_read_who(const char *text, size_t bytes, struct hf__holder *out_holder)
{
    char word[32];
    uint64_t pid;
    size_t purpose_bytes;

    memset(out_holder, 0, sizeof(*out_holder));
    for (int skipped = 0; skipped < 2; skipped++) { /* client and tag */
        if (take_word(&text, &bytes, word, sizeof(word)) == 0)
            return false;
    }
    if (take_word(&text, &bytes, word, sizeof(word)) == 0 ||
        !hf__text_to_u64(word, strlen(word), &pid) || pid > INT32_MAX)
        return false;
    out_holder->pid = (int64_t)pid;
    if (take_word(&text, &bytes, out_holder->host, sizeof(out_holder->host)) == 0)
        return false;
    purpose_bytes = bytes < HF__PURPOSE_BYTES - 1 ? bytes : HF__PURPOSE_BYTES - 1;
    memcpy(out_holder->purpose, text, purpose_bytes);
    return memchr(out_holder->purpose, '\0', purpose_bytes) == NULL;
}

const struct hf__holder *hf__words_holder(struct hf__redis *conn, const struct hf__value *value,
                                          int words)
{
    const char *text = value->text;
    size_t bytes = value->bytes;
    uint64_t n = 0;

    for (int field = 0; field < words; field++) {
        const char *blank = memchr(text, ' ', bytes);

        if (!blank)
            return NULL;
        if (field == 1 && !hf__text_to_u64(text, (size_t)(blank - text), &n))
            return NULL;
        bytes -= (size_t)(blank - text) + 1;
        text = blank + 1;
    }
    if (!hf__words_read_who(text, bytes, &conn->holder))
        return NULL;
    conn->holder.fence = n * 256;
    return &conn->holder;
}

/* --- commands --- */

void hf__words_begin(struct hf__redis *conn, uint32_t script, size_t keys, size_t words)
{
    hf__wire_out_begin(&conn->out, 3 + keys + words);
    if (conn->recipe->by_name & (1u << script)) {
        hf__wire_out_bytes(&conn->out, conn->scripts[script].call,
                           sizeof(conn->scripts[script].call) - 1);
    } else {
        hf__wire_out_text(&conn->out, "EVAL");
        hf__wire_out_text(&conn->out, conn->scripts[script].text);
    }
    hf__wire_out_number(&conn->out, keys);
}

void hf__words_channels(struct hf__redis *conn)
{
    char channels[HF__REDIS_PREFIX_BYTES + 2];
    size_t bytes = strlen(conn->prefix);

    memcpy(channels, conn->prefix, bytes);
    channels[bytes] = '@';
    hf__wire_out_word(&conn->out, channels, bytes + 1);
}

uint64_t hf__words_latest_us(const struct hf__redis *conn, const struct hf__request *request)
{
    return (uint64_t)(conn->server.clock_offset_us +
                      (int64_t)(request->deadline_ns / HF__NS_PER_US));
}

/* --- errors --- */

/* Each begins with a word that says what it is. None of these was executed. */
static const struct {
    const char *word;
    int status;
    const char *text;
} errors[] = {
    { "NOSCRIPT", HF_EUNREACHABLE, "the server forgot our scripts; they are loaded again" },
    { "LOADING", HF_EUNREACHABLE, "the server is still loading its data" },
    { "BUSY", HF_EUNREACHABLE, "the server is busy with another program's script" },
    { "MASTERDOWN", HF_EUNREACHABLE, "the server has lost its master" },
    { "READONLY", HF_EDENIED, "the server is a replica, which takes no locks" },
    { "MISCONF", HF_EUNREACHABLE, "the server cannot write its data to disk, and refuses changes" },
    { "OOM", HF_ELIMIT, "the server's memory is full (maxmemory)" },
    { "NOPERM", HF_EDENIED, "the user lacks a right" },
    { "NOAUTH", HF_EDENIED, "the server wants a password" },
    { "WRONGPASS", HF_EDENIED, "the user or the password is wrong" },
    { "DENIED", HF_EDENIED, "the server is in protected mode: it lets in its own machine alone" },
    { "ERR max number of clients", HF_EUNREACHABLE, "the server has too many clients" },
    { "WRONGTYPE", HF_EPROTOCOL, "a key of this lock belongs to another program" },
    { "CROSSSLOT", HF_EUNSUPPORTED, "the server is a cluster, which is not supported" },
    { "MOVED", HF_EUNSUPPORTED, "the server is a cluster, which is not supported" },
    { "CLUSTERDOWN", HF_EUNSUPPORTED, "the server is a cluster, which is not supported" },
    { "NOREPLICAS", HF_EUNREACHABLE, "the server has too few replicas, and refuses changes" },
};

static bool holds(const struct hf__value *error, const char *text)
{
    return memmem(error->text, error->bytes, text, strlen(text)) != NULL;
}

/* A script that fails halfway says "... script: ..., on @user_script:1", and what it did before
 * that stays done; what it called has its own word in front all the same. A server that takes no
 * changes at all refuses the first one: then there is nothing before it. */
static enum hf__reply_kind kind_of(const struct hf__value *error, const struct hf__ticket *ticket)
{
    static const char *const refusals[] = { "READONLY", "MISCONF", "OOM", "NOREPLICAS" };

    /* Where something else lies than a lock, ours is not. */
    if (hf__wire_begins(error, "WRONGTYPE") && ticket->kind == HF__REQUEST_RELEASE)
        return HF__REPLY_GONE;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        if (hf__wire_begins(error, refusals[i]))
            return HF__REPLY_FAILED;
    }
    return holds(error, "user_script") ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED;
}

void hf__words_error(struct hf__redis *conn, const struct hf__value *error,
                     struct hf__reply *out_reply)
{
    char said[HF__ERROR_BYTES / 2];

    hf__text_escape(error->text, error->bytes < sizeof(said) ? error->bytes : sizeof(said), said,
                    sizeof(said));
    out_reply->kind = kind_of(error, &out_reply->ticket);
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (!hf__wire_begins(error, errors[i].word))
            continue;
        out_reply->status = errors[i].status;
        hf__error_set(conn->base.error, errors[i].status, "%s (%s)", errors[i].text, said);
        return;
    }
    /* Redis up to 7.0, and after it: neither begins with NOPERM. */
    if (holds(error, "The user executing the script") || holds(error, "ACL failure in script")) {
        out_reply->status = HF_EDENIED;
        hf__error_set(conn->base.error, HF_EDENIED,
                      "the user lacks a right that our scripts need; ACL LOG on the server tells "
                      "which (%s)",
                      said);
        return;
    }
    out_reply->status = HF_EPROTOCOL;
    hf__error_set(conn->base.error, HF_EPROTOCOL, "the server answered: %s", said);
}

bool hf__words_hear_plain(const struct hf__value *value, struct hf__reply *out_reply)
{
    int64_t number;

    if (!hf__wire_number(value, &number) || number < 0 || number >= 1ll << 53)
        return false;
    if (out_reply->ticket.kind == HF__REQUEST_CLAIM) {
        out_reply->kind = HF__REPLY_GRANTED;
        out_reply->fence = (uint64_t)number * 256;
        return value->kind == HF__VALUE_TEXT && number > 0;
    }
    out_reply->kind = HF__REPLY_GONE;
    out_reply->released = number == 1;
    return out_reply->ticket.kind == HF__REQUEST_RELEASE && value->kind == HF__VALUE_NUMBER &&
           number <= 1;
}
