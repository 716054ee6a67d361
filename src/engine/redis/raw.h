/* raw.h: what the recipes have in common that share their keys with other programs: set, setnx and
 * getset. What they know of a lock beyond its key is in a key of our own (lua/set.lua). */
#ifndef HF_ENGINE_REDIS_RAW_H
#define HF_ENGINE_REDIS_RAW_H

#include "engine/redis/redis.h"

#define HF__RAW_SIDE_PREFIX  "hf:key:"
#define HF__RAW_CHANNELS     "hf:"
#define HF__RAW_SIDE_BYTES   (HF__NAME_ENCODED_BYTES + 16)
#define HF__RAW_EAR_BYTES    2
#define HF__RAW_LEAVER_BYTES (17 + HF__REDIS_TAG_BYTES)

/* The first scripts of each of them; others follow. */
enum hf__raw_script {
    HF__RAW_CLAIM,
    HF__RAW_RENEW,
    HF__RAW_RELEASE,
    HF__RAW_LIST,
    HF__RAW_MORE,
};

/* How the key of our own ends by which a lock is found. */
extern const char *const hf__raw_endings[];

/* 0, or < 0 with conn->base.error: no such mode, or no such name. */
int hf__raw_check(struct hf__redis *conn, const struct hf__request *request);
size_t hf__raw_key(const struct hf__redis *conn, const struct hf__request *request,
                   char out_key[HF__REDIS_KEY_BYTES]);
/* The key of our own beside this one. */
size_t hf__raw_side(const char *key, size_t key_bytes, char out_side[HF__RAW_SIDE_BYTES]);
/* The key behind that of our own; 0: it has only a hash, or is not one of ours. */
size_t hf__raw_key_of_side(const char *side, size_t side_bytes,
                           char out_key[HF_NAME_BYTES_MAX + 1]);
/* By which a claim is woken: the end of a channel's name; "": it does not wait. */
const char *hf__raw_ear(const struct hf__redis *conn, const struct hf__request *request);

/* Calls one of the recipe's scripts, for this key and that of our own; the caller adds `words`
 * more. */
void hf__raw_begin(struct hf__redis *conn, uint32_t script, const char *key, size_t key_bytes,
                   size_t words);
/* "client tag": who leaves. */
size_t hf__raw_leaver(const struct hf__redis *conn, uint64_t claim_id,
                      char out_leaver[HF__RAW_LEAVER_BYTES]);
void hf__raw_ask_break(struct hf__redis *conn, uint32_t script, const struct hf__request *request);
/* Begins one renewal of all that is gathered, with so many words for each; the keys are in. */
void hf__raw_begin_many(struct hf__redis *conn, size_t words_each);
void hf__raw_ask_many(struct hf__redis *conn);
/* 0 or 1: whether a command did something. */
bool hf__raw_is_flag(const struct hf__value *value);
void hf__raw_hear(struct hf__redis *conn, const struct hf__ticket *ticket,
                  const struct hf__value *value, struct hf__reply *out_reply);
bool hf__raw_news(struct hf__redis *conn, const struct hf__value *message,
                  struct hf__reply *out_reply);

/* --- course.c: a request that takes several commands --- */

struct hf__course {
    struct hf__list place; /* in conn->courses: in the order of asking */
    struct hf__ticket ticket;
    uint64_t deadline_ns;
    uint64_t from; /* its first byte; HF__NEVER: nothing of it was written yet */
    bool won;      /* CLAIM: SETNX took it */
    bool takes;    /* getset: GETSET is under way, and its answer says whose it was */
    bool forsaken; /* whoever asked was told that no answer came */
    bool released;
    const char *ear;
    uint64_t number; /* RELEASE: of the turn, or 0 */
    uint64_t lease_ms;
    uint64_t grace_ms;
    uint64_t latest_us;
    char token[2 * HF__TOKEN_BYTES + 1];
    char who[HF__REDIS_WHO_BYTES];
    char value[24]; /* getset: what we write, and what we found */
    char found[24];
    size_t key_bytes;
    char key[HF__REDIS_KEY_BYTES];
};

/* NULL: out of memory. */
struct hf__course *hf__course_new(struct hf__redis *conn, const struct hf__request *request);
/* A RELEASE must not overtake the CLAIM that it undoes: true while that has commands under way. */
bool hf__course_waits(const struct hf__redis *conn, const struct hf__course *course);
/* One command of it: what is appended to conn->out until hf__asked_end belongs to it. NULL: out of
 * memory. */
struct hf__asked *hf__course_ask(struct hf__redis *conn, struct hf__course *course, uint32_t step);
/* The whole command, of words without NUL; < 0: out of memory. */
int hf__course_send(struct hf__redis *conn, struct hf__course *course, uint32_t step,
                    const char *const *words);
/* The same for a script of the recipe, with the key and our own. */
int hf__course_run(struct hf__redis *conn, struct hf__course *course, uint32_t step,
                   uint32_t script, const char *const *words);
/* It is answered: answers to what it still asked find nobody. */
void hf__course_end(struct hf__redis *conn, struct hf__course *course);
/* Whoever asked is told that no answer came in time. As expire. */
int hf__course_give_up(struct hf__redis *conn, struct hf__course *course,
                       struct hf__reply *out_reply);
/* The next that must be told that no answer came in time, or while the connection ends, ever. 1:
 * *out_reply is for it. */
int hf__course_expire(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply);
int hf__course_end_next(struct hf__redis *conn, struct hf__reply *out_reply);
uint64_t hf__course_first(const struct hf__redis *conn);
void hf__course_done(struct hf__redis *conn);
/* Of an error, or of nonsense: perhaps something was done before. */
int hf__course_fail(struct hf__redis *conn, struct hf__course *course,
                    const struct hf__value *value, struct hf__reply *out_reply);
/* The server answered a command of it with an error. `takes_nothing`: such an error is certain not
 * to have taken the lock. */
int hf__course_refused(struct hf__redis *conn, struct hf__course *course, bool takes_nothing,
                       const struct hf__value *error, struct hf__reply *out_reply);

#endif
