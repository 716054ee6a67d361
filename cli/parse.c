/* parse.c: what did the person mean by this word?
 *
 * Everything is strict: a word that is not entirely understood is refused, because a lease of "5"
 * minutes that became seconds is worse than an error. What is too large is refused too, never
 * cut. */
#include "parse.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <holdfast/holdfast.h>

#define DURATION_MS_MAX     (1000ull * 366 * 24 * 60 * 60 * 1000)
#define FRACTION_DIGITS_MAX 9

static const char *const promise_names[PARSE_PROMISE_COUNT] = {
    "fence", "fair", "wakeup", "shared", "durable", "failover", "crash",
};

/* Reads digits, at least one and at most digits_max, and moves on behind them. */
static bool take_digits(const char **text, size_t digits_max, uint64_t *out_number, size_t *digits)
{
    uint64_t number = 0;
    size_t count = 0;

    for (; **text >= '0' && **text <= '9'; (*text)++) {
        uint64_t digit = (uint64_t)(**text - '0');

        if (++count > digits_max || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out_number = number;
    *digits = count;
    return count > 0;
}

bool parse_number(const char *text, uint64_t *out_number)
{
    uint64_t number;
    size_t digits;

    if (!take_digits(&text, 20, &number, &digits) || *text)
        return false;

    *out_number = number;
    return true;
}

static uint64_t unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {
        { "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 3600 * 1000 }
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ms;
    }
    return 0;
}

bool parse_duration(const char *text, int64_t *out_ms)
{
    uint64_t whole;
    uint64_t fraction = 0;
    uint64_t scale = 1;
    uint64_t unit;
    size_t digits = 0;

    if (!take_digits(&text, 18, &whole, &digits))
        return false;
    digits = 0;
    if (*text == '.') {
        text++;
        if (!take_digits(&text, FRACTION_DIGITS_MAX, &fraction, &digits))
            return false;
    }
    unit = unit_ms(text);
    if (!unit || whole > DURATION_MS_MAX / unit)
        return false;

    for (; digits; digits--)
        scale *= 10;
    *out_ms = (int64_t)(whole * unit + (fraction * unit + scale - 1) / scale);
    return true;
}

bool parse_promises(const char *text, uint32_t *out_promises, char *out_word, size_t word_bytes)
{
    uint32_t promises = 0;

    assert(word_bytes > 0);

    for (;;) {
        size_t length = strcspn(text, ",");
        size_t bit = 0;

        while (bit < PARSE_PROMISE_COUNT && (strlen(promise_names[bit]) != length ||
                                             strncmp(text, promise_names[bit], length) != 0))
            bit++;
        if (bit == PARSE_PROMISE_COUNT) {
            snprintf(out_word, word_bytes, "%.*s", (int)length, text);
            return false;
        }
        promises |= 1u << bit;
        text += length;
        if (!*text)
            break;
        text++;
    }
    *out_promises = promises;
    return true;
}

const char *parse_promise_name(size_t bit)
{
    static_assert(HF_PROMISE_CRASH == 1 << (PARSE_PROMISE_COUNT - 1), "a name for every promise");

    assert(bit < PARSE_PROMISE_COUNT);
    return promise_names[bit];
}
