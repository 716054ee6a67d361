/* wire.c: how do commands become bytes, and bytes values?
 *
 * A command is an array of strings. A message from the server is one value, perhaps with others in
 * it: RESP2 and RESP3. It is first only counted, a line at a time and never twice, until it is
 * whole: each value that ends takes one off what is lacking, a container of n adds n. Then it is
 * written down as a row of values, without recursion: however deep it is, it has no more values
 * than the limit.
 *
 * What can go wrong: a server that sends nonsense, endless lines, or counts beyond the limits: an
 * error, before memory is taken for what it announced. */
#include "engine/redis/wire.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/holdfast.h"

#define LINE_MAX 65536u /* an error text; everything longer has a length before it */
#define OUT_MAX  (64u << 20)

#define COUNT_BYTES_MAX 32

/* --- out --- */

void hf__wire_out_init(struct hf__outgoing *out, const struct hf__env *env)
{
    hf__buffer_init(&out->buffer, env, OUT_MAX);
    out->status = HF_OK;
}

void hf__wire_out_done(struct hf__outgoing *out)
{
    hf__buffer_done(&out->buffer);
}

size_t hf__wire_digits(uint64_t number, char out_digits[HF__WIRE_DIGITS_MAX])
{
    size_t digits = 1;

    for (uint64_t rest = number; rest >= 10; rest /= 10)
        digits++;
    for (size_t at = digits; at-- > 0; number /= 10)
        out_digits[at] = (char)('0' + number % 10);
    return digits;
}

/* `*12\r\n` or `$12\r\n`; how many bytes it is. */
static size_t put_count(char *to, char kind, size_t count)
{
    size_t digits = hf__wire_digits(count, to + 1);

    to[0] = kind;
    memcpy(to + 1 + digits, "\r\n", 2);
    return digits + 3;
}

void hf__wire_out_begin(struct hf__outgoing *out, size_t words)
{
    void *space;

    if (out->status == HF_OK)
        out->status = hf__buffer_reserve(&out->buffer, COUNT_BYTES_MAX, &space);
    if (out->status == HF_OK)
        hf__buffer_commit(&out->buffer, put_count(space, '*', words));
}

void hf__wire_out_word(struct hf__outgoing *out, const char *bytes, size_t count)
{
    void *space;
    size_t at;

    if (out->status == HF_OK)
        out->status = hf__buffer_reserve(&out->buffer, COUNT_BYTES_MAX + count + 2, &space);
    if (out->status != HF_OK)
        return;
    at = put_count(space, '$', count);
    if (count > 0)
        memcpy((char *)space + at, bytes, count);
    memcpy((char *)space + at + count, "\r\n", 2);
    hf__buffer_commit(&out->buffer, at + count + 2);
}

void hf__wire_out_text(struct hf__outgoing *out, const char *text)
{
    hf__wire_out_word(out, text, strlen(text));
}

void hf__wire_out_bytes(struct hf__outgoing *out, const char *bytes, size_t count)
{
    if (out->status == HF_OK)
        out->status = hf__buffer_append(&out->buffer, bytes, count);
}

void hf__wire_out_number(struct hf__outgoing *out, uint64_t number)
{
    char text[HF__WIRE_DIGITS_MAX];

    hf__wire_out_word(out, text, hf__wire_digits(number, text));
}

/* --- in --- */

void hf__wire_in_init(struct hf__incoming *in, const struct hf__env *env)
{
    *in = (struct hf__incoming){ 0 };
    hf__buffer_init(&in->buffer, env, HF__WIRE_BYTES_MAX + LINE_MAX);
}

void hf__wire_in_done(struct hf__incoming *in)
{
    hf__env_free(in->buffer.env, in->values);
    in->values = NULL;
    hf__buffer_done(&in->buffer);
}

/* What stands in the line at `at`: its first byte says what. */
struct line {
    char type;
    const char *text;
    size_t bytes;
    int64_t number;
    size_t next; /* where the next value begins, when this one is whole */
};

static bool to_number(const char *text, size_t bytes, int64_t *out_number)
{
    bool negative = bytes > 0 && *text == '-';
    int64_t number = 0;

    if (negative) {
        text++;
        bytes--;
    }
    if (bytes == 0)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        int digit = text[i] - '0';

        /* Counted downwards, because there is one more number below zero than above. */
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, digit, &number))
            return false;
    }
    if (!negative && number == INT64_MIN)
        return false;
    *out_number = negative ? number : -number;
    return true;
}

static bool has_body(char type)
{
    return type == '$' || type == '=' || type == '!';
}

static bool is_container(char type)
{
    return type == '*' || type == '%' || type == '~' || type == '>' || type == '|';
}

/* 1: the line, and its body if it has one, are there; 0: not yet; < 0: nonsense. */
static int read_line(const struct hf__incoming *in, size_t at, struct line *out_line,
                     char error[HF__ERROR_BYTES])
{
    const char *line = (const char *)hf__buffer_front(&in->buffer) + at;
    size_t there = hf__buffer_count(&in->buffer) - at;
    const char *end = there > 1 ? memchr(line, '\n', there) : NULL;
    size_t body = 0;

    if (!end && there > LINE_MAX)
        return hf__error_set(error, HF_EPROTOCOL, "the server sent a line without an end");
    if (!end)
        return 0;
    if (end < line + 2 || end[-1] != '\r')
        return hf__error_set(error, HF_EPROTOCOL, "the server does not speak the Redis protocol");

    *out_line = (struct line){ .type = *line, .text = line + 1, .bytes = (size_t)(end - line) - 2 };
    out_line->next = at + (size_t)(end - line) + 1;
    if (has_body(*line) || is_container(*line) || *line == ':') {
        bool counts = *line != ':';

        if (!to_number(out_line->text, out_line->bytes, &out_line->number) ||
            (counts && out_line->number < -1))
            return hf__error_set(error, HF_EPROTOCOL, "the server sent a number that is none");
    }
    if (!has_body(*line) || out_line->number < 0)
        return 1;
    if ((uint64_t)out_line->number > HF__WIRE_BYTES_MAX)
        return hf__error_set(error, HF_EPROTOCOL, "the server announced %lld bytes in one answer",
                             (long long)out_line->number);
    body = (size_t)out_line->number;
    out_line->text = end + 1;
    out_line->bytes = body;
    out_line->next += body + 2;
    if (there < out_line->next - at)
        return 0;
    if (memcmp(end + 1 + body, "\r\n", 2) != 0)
        return hf__error_set(error, HF_EPROTOCOL, "the server sent a text without an end");
    return 1;
}

static uint64_t elements_of(const struct line *line)
{
    if (!is_container(line->type) || line->number < 0)
        return 0;
    return (uint64_t)line->number * (line->type == '%' || line->type == '|' ? 2 : 1);
}

/* Goes on counting. 1: the message is whole. */
static int look(struct hf__incoming *in, char error[HF__ERROR_BYTES])
{
    if (in->looked == 0 && in->seen == 0)
        in->lacking = 1;
    while (in->lacking > 0) {
        struct line line = { 0 };
        int got = read_line(in, in->looked, &line, error);

        if (got == 0 && hf__buffer_count(&in->buffer) > HF__WIRE_BYTES_MAX)
            return hf__error_set(error, HF_EPROTOCOL, "the server sent an answer of over %u bytes",
                                 HF__WIRE_BYTES_MAX);
        if (got <= 0)
            return got;
        if (line.type == '\0' || !strchr("+-:$*%~>|_,#(=!", line.type))
            return hf__error_set(error, HF_EPROTOCOL,
                                 "the server does not speak the Redis protocol");
        if (is_container(line.type) && line.number > (int64_t)HF__WIRE_VALUES_MAX)
            return hf__error_set(error, HF_EPROTOCOL, "the server announced %lld values",
                                 (long long)line.number);
        in->lacking += elements_of(&line);
        /* An attribute stands before the value that it is about. */
        if (line.type != '|')
            in->lacking--;
        in->seen++;
        if (in->lacking > HF__WIRE_VALUES_MAX || in->seen > HF__WIRE_VALUES_MAX)
            return hf__error_set(error, HF_EPROTOCOL, "the server sent an answer of over %u values",
                                 HF__WIRE_VALUES_MAX);
        in->looked = line.next;
    }
    return 1;
}

static enum hf__value_kind kind_of(const struct line *line)
{
    switch (line->type) {
    case '+':
        return HF__VALUE_STATUS;
    case '-':
    case '!':
        return HF__VALUE_ERROR;
    case ':':
        return HF__VALUE_NUMBER;
    case '$':
    case '=':
        return line->number < 0 ? HF__VALUE_NIL : HF__VALUE_TEXT;
    case '*':
    case '%':
    case '~':
        return line->number < 0 ? HF__VALUE_NIL : HF__VALUE_ARRAY;
    case '>':
        return HF__VALUE_PUSH;
    case '_':
        return HF__VALUE_NIL;
    default:
        return HF__VALUE_OTHER;
    }
}

/* The spans, from the back: what is in a container stands behind it. */
static void measure(struct hf__value *values, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        uint32_t span = 1;

        for (uint32_t k = 0; k < values[i].count && i + span < count; k++)
            span += values[i + span].span;
        values[i].span = span;
    }
}

static int make_room(struct hf__incoming *in, char error[HF__ERROR_BYTES])
{
    size_t room = in->value_room ? in->value_room : 64;

    if (in->value_room >= in->seen)
        return HF_OK;
    while (room < in->seen)
        room *= 2;
    hf__env_free(in->buffer.env, in->values);
    in->value_room = 0;
    in->values = hf__env_new(in->buffer.env, room * sizeof(*in->values));
    if (!in->values)
        return hf__error_set(error, HF_ENOMEM, "out of memory");
    in->value_room = room;
    return HF_OK;
}

static struct hf__value value_of(const struct line *line)
{
    return (struct hf__value){
        .kind = kind_of(line),
        .number = line->number,
        .text = line->text,
        .bytes = line->bytes,
        .count = (uint32_t)elements_of(line),
        .span = 1,
    };
}

/* Attributes, which nobody asks for, are left out with all that is in them. */
static int write_down(struct hf__incoming *in, char error[HF__ERROR_BYTES])
{
    size_t at = 0;
    uint32_t count = 0;
    uint64_t skipping = 0;
    int status = make_room(in, error);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < in->seen; i++) {
        struct line line = { 0 };
        int got = read_line(in, at, &line, error);

        assert(got == 1);
        (void)got;
        at = line.next;
        if (skipping > 0 || line.type == '|') {
            skipping += elements_of(&line);
            skipping -= line.type != '|';
            continue;
        }
        in->values[count++] = value_of(&line);
    }
    assert(count > 0);
    measure(in->values, count);
    assert(in->values[0].span == count);
    return HF_OK;
}

/* Most answers are one short text or number; 0: this is not one of them, or not all of it is there.
 */
static int take_plain(struct hf__incoming *in, char error[HF__ERROR_BYTES])
{
    const char *first = hf__buffer_front(&in->buffer);
    struct line line;
    int got;

    if (in->looked > 0 || in->seen > 0 || (*first != '$' && *first != ':'))
        return 0;
    got = read_line(in, 0, &line, error);
    if (got <= 0)
        return got;
    in->plain = value_of(&line);
    in->taken = line.next;
    return 1;
}

int hf__wire_in_next(struct hf__incoming *in, const struct hf__value **out_value,
                     char error[HF__ERROR_BYTES])
{
    int got;

    hf__buffer_consume(&in->buffer, in->taken);
    in->taken = 0;
    if (hf__buffer_count(&in->buffer) == 0)
        return 0;
    got = take_plain(in, error);
    if (got != 0) {
        *out_value = &in->plain;
        return got;
    }
    got = look(in, error);
    if (got <= 0)
        return got;
    got = write_down(in, error);
    if (got < 0)
        return got;
    in->taken = in->looked;
    in->looked = 0;
    in->seen = 0;
    *out_value = in->values;
    return 1;
}

const struct hf__value *hf__wire_at(const struct hf__value *container, uint32_t index)
{
    const struct hf__value *value = container + 1;

    if (index >= container->count)
        return NULL;
    while (index-- > 0)
        value += value->span;
    return value;
}

bool hf__wire_is(const struct hf__value *value, const char *text)
{
    return value && (value->kind == HF__VALUE_TEXT || value->kind == HF__VALUE_STATUS) &&
           value->bytes == strlen(text) && memcmp(value->text, text, value->bytes) == 0;
}

bool hf__wire_begins(const struct hf__value *value, const char *word)
{
    size_t bytes = strlen(word);

    return value->bytes >= bytes && memcmp(value->text, word, bytes) == 0 &&
           (value->bytes == bytes || value->text[bytes] == ' ');
}

bool hf__wire_number(const struct hf__value *value, int64_t *out_number)
{
    if (!value)
        return false;
    if (value->kind == HF__VALUE_NUMBER) {
        *out_number = value->number;
        return true;
    }
    return value->kind == HF__VALUE_TEXT && to_number(value->text, value->bytes, out_number);
}
