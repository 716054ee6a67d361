/* wire.h: the bytes of the Redis protocol: commands out, values in. */
#ifndef HF_ENGINE_REDIS_WIRE_H
#define HF_ENGINE_REDIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"

/* Of one message from the server. A client has two connections, each a buffer that doubles: what a
 * hostile server can make it take stays below 8 MiB. */
#define HF__WIRE_BYTES_MAX  (1u << 20)
#define HF__WIRE_VALUES_MAX 16384u
#define HF__WIRE_DIGITS_MAX 20 /* of 64 bits */

/* --- out --- */

/* Commands that are to be sent. Once memory has run out in the middle of one, nothing more can. */
struct hf__outgoing {
    struct hf__buffer buffer;
    int status;
};

void hf__wire_out_init(struct hf__outgoing *out, const struct hf__env *env);
void hf__wire_out_done(struct hf__outgoing *out);
/* A command is the number of its words, then the words. */
void hf__wire_out_begin(struct hf__outgoing *out, size_t words);
void hf__wire_out_word(struct hf__outgoing *out, const char *bytes, size_t count);
void hf__wire_out_text(struct hf__outgoing *out, const char *text);
/* Words that are written as the protocol wants them. */
void hf__wire_out_bytes(struct hf__outgoing *out, const char *bytes, size_t count);
void hf__wire_out_number(struct hf__outgoing *out, uint64_t number);
/* Not terminated; how many there are. */
size_t hf__wire_digits(uint64_t number, char out_digits[HF__WIRE_DIGITS_MAX]);

/* --- in --- */

enum hf__value_kind {
    HF__VALUE_NIL,
    HF__VALUE_STATUS,
    HF__VALUE_ERROR,
    HF__VALUE_NUMBER,
    HF__VALUE_TEXT,
    HF__VALUE_ARRAY, /* also a map (twice its count), a set */
    HF__VALUE_PUSH,  /* nobody asked for it */
    HF__VALUE_OTHER, /* a double, a boolean ...: nothing that we ask for */
};

/* The values of one message stand in a row, each container before what is in it. */
struct hf__value {
    enum hf__value_kind kind;
    int64_t number;
    const char *text; /* not terminated */
    size_t bytes;
    uint32_t count; /* of a container */
    uint32_t span;  /* how many values of the row belong to this one, itself among them */
};

struct hf__incoming {
    struct hf__buffer buffer;
    /* How far the message at the front has been looked at, and how many values it still lacks. */
    size_t looked;
    uint64_t lacking;
    uint32_t seen;
    size_t taken;           /* the message that was handed out last: it goes with the next call */
    struct hf__value plain; /* a message of one value */
    struct hf__value *values;
    size_t value_room;
};

void hf__wire_in_init(struct hf__incoming *in, const struct hf__env *env);
void hf__wire_in_done(struct hf__incoming *in);
/* 1: a whole message, whose values live until the next call; 0: not yet; < 0: HF_EPROTOCOL or
 * HF_ENOMEM, with why. */
int hf__wire_in_next(struct hf__incoming *in, const struct hf__value **out_value,
                     char error[HF__ERROR_BYTES]);

/* The element of a container, or NULL. */
const struct hf__value *hf__wire_at(const struct hf__value *container, uint32_t index);
bool hf__wire_is(const struct hf__value *value, const char *text);
/* Begins with this word: as the errors of a server do. */
bool hf__wire_begins(const struct hf__value *value, const char *word);
/* A number, or a text that is one. */
bool hf__wire_number(const struct hf__value *value, int64_t *out_number);

#endif
