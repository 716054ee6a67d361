/* redis_wire.c (fuzz): bytes of a Redis server are values or are refused, however they are cut, and
 * what is written can be read. */
#include "engine/redis/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/holdfast.h"
#include "target.h"

#define PIECE_BYTES 4096

/* All that came of an input; equal for equal inputs. */
struct outcome {
    int status; /* of the last call */
    uint64_t messages;
    uint64_t hash;
};

static void mix(struct outcome *outcome, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < count; i++)
        outcome->hash = (outcome->hash ^ at[i]) * 1099511628211u;
}

static void check_value(const struct hf__incoming *in, const struct hf__value *value)
{
    const char *front = hf__buffer_front(&in->buffer);
    const char *end = front + hf__buffer_count(&in->buffer);
    int64_t number = 0;

    assert(value->kind <= HF__VALUE_OTHER);
    assert(value->text >= front && value->text + value->bytes <= end);
    assert(value->count < value->span || value->count == 0);
    assert(!hf__wire_at(value, value->count));
    assert(!hf__wire_is(value, "granted") || value->bytes == 7);
    assert(!hf__wire_begins(value, "ERR") || memcmp(value->text, "ERR", 3) == 0);
    if (hf__wire_number(value, &number) && value->kind == HF__VALUE_NUMBER)
        assert(number == value->number);
}

/* The row is one tree: every container's elements follow each other and fill it. */
static void check_message(const struct hf__incoming *in, const struct hf__value *row,
                          struct outcome *outcome)
{
    for (uint32_t i = 0; i < row->span; i++) {
        uint32_t span = 1;

        check_value(in, &row[i]);
        for (uint32_t k = 0; k < row[i].count; k++) {
            assert(hf__wire_at(&row[i], k) == &row[i + span]);
            span += row[i + span].span;
            if (row[i].count > 64) /* the walk from the first is long: once is enough */
                break;
        }
        assert(row[i].count > 64 || span == row[i].span);
        assert(row[i].span <= row->span - i);
        mix(outcome, &row[i].kind, sizeof(row[i].kind));
        mix(outcome, &row[i].count, sizeof(row[i].count));
        mix(outcome, row[i].text, row[i].bytes);
    }
    outcome->messages++;
}

/* A command of the same words, written and read again. */
static void check_echo(const struct hf__env *env, const struct hf__value *row)
{
    char error[HF__ERROR_BYTES] = "";
    const struct hf__value *echo = NULL;
    struct hf__outgoing out;
    struct hf__incoming in;
    int64_t number;

    hf__wire_out_init(&out, env);
    hf__wire_in_init(&in, env);
    hf__wire_out_begin(&out, 3);
    hf__wire_out_word(&out, row->text, row->bytes);
    hf__wire_out_number(&out, row->span);
    hf__wire_out_text(&out, "end");
    assert(out.status == HF_OK);
    if (hf__buffer_append(&in.buffer, hf__buffer_front(&out.buffer),
                          hf__buffer_count(&out.buffer)) == HF_OK &&
        hf__wire_in_next(&in, &echo, error) == 1) {
        assert(echo->kind == HF__VALUE_ARRAY && echo->count == 3 && echo->span == 4);
        assert(hf__wire_at(echo, 0)->bytes == row->bytes);
        assert(memcmp(hf__wire_at(echo, 0)->text, row->text, row->bytes) == 0);
        assert(hf__wire_number(hf__wire_at(echo, 1), &number) && number == row->span);
        assert(hf__wire_is(hf__wire_at(echo, 2), "end"));
    }
    hf__wire_in_done(&in);
    hf__wire_out_done(&out);
}

static struct outcome read_all(const struct hf__env *env, const uint8_t *bytes, size_t count,
                               size_t piece)
{
    struct outcome outcome = { 0 };
    char error[HF__ERROR_BYTES] = "";
    const struct hf__value *row = NULL;
    struct hf__incoming in;

    hf__wire_in_init(&in, env);
    for (size_t at = 0; at < count && outcome.status >= 0; at += piece) {
        size_t next = count - at < piece ? count - at : piece;

        assert(hf__buffer_append(&in.buffer, bytes + at, next) == HF_OK);
        while ((outcome.status = hf__wire_in_next(&in, &row, error)) == 1) {
            check_message(&in, row, &outcome);
            if (piece > 1)
                check_echo(env, row);
        }
    }
    assert(outcome.status == 0 || (outcome.status == HF_EPROTOCOL && *error));
    hf__wire_in_done(&in);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct hf__env env;
    struct outcome whole;
    struct outcome cut;

    assert(hf__env_init(&env) == HF_OK);
    whole = read_all(&env, bytes, count, PIECE_BYTES);
    cut = read_all(&env, bytes, count, 1);
    assert(whole.status == cut.status);
    assert(whole.messages == cut.messages && whole.hash == cut.hash);
    hf__env_done(&env);
    return 0;
}
