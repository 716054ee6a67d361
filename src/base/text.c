/* text.c: how are bytes shown to people, and what do their numbers mean?
 *
 * Text that came from elsewhere (a lock's name, a purpose, a host) is shown with everything escaped
 * that a terminal would obey or that would forge a line in a log. Numbers are read strictly: what
 * is not wholly understood is refused, never guessed.
 *
 * What does not fit is cut between characters, never inside one, and never inside an escape.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "base/text.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#define ESCAPE_BYTES         4          /* \xNN */
#define FRACTION_DIGITS_KEPT 9          /* the others only round up */
#define FRACTION_SCALE       1000000000 /* 10 to that power */

bool hf__text_copy(char *out_text, size_t out_bytes_max, const char *text)
{
    size_t length;

    assert(out_text && text);
    assert(out_bytes_max > 0);

    length = strnlen(text, out_bytes_max);
    if (length == out_bytes_max) {
        memcpy(out_text, text, out_bytes_max - 1);
        out_text[out_bytes_max - 1] = '\0';
        return false;
    }
    memcpy(out_text, text, length + 1);
    return true;
}

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* How many bytes of UTF-8 begin here (RFC 3629: no overlong forms, no surrogates, nothing beyond
 * U+10FFFF), or 0: not UTF-8. */
static size_t measure_utf8(const unsigned char *bytes, size_t count)
{
    unsigned char first = bytes[0];
    unsigned char second_min = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char second_max = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4 || length > count)
        return 0;
    if (bytes[1] < second_min || bytes[1] > second_max)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (!is_continuation(bytes[i]))
            return 0;
    }
    return length;
}

/* How many bytes from here on may be shown as they are; 0: the first one must be escaped. U+0080 to
 * U+009F are control characters too: some terminals take U+009B for ESC [. */
static size_t measure_harmless(const unsigned char *bytes, size_t count)
{
    bool is_control = bytes[0] < ' ' || bytes[0] == 0x7f;
    bool is_late_control = bytes[0] == 0xc2 && count > 1 && bytes[1] < 0xa0;

    if (is_control || is_late_control || bytes[0] == '\\')
        return 0;
    return measure_utf8(bytes, count);
}

int hf__text_escape(const char *bytes, size_t count, char *out_text, size_t out_bytes_max)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *next = (const unsigned char *)bytes;
    size_t written = 0;
    size_t wanted = 0;

    assert(bytes || count == 0);
    assert(count <= INT_MAX / ESCAPE_BYTES);

    while (count > 0) {
        size_t harmless = measure_harmless(next, count);
        size_t taken = harmless > 0 ? harmless : 1;
        size_t shown = harmless > 0 ? harmless : ESCAPE_BYTES;
        char escape[ESCAPE_BYTES] = { '\\', 'x', digits[*next >> 4], digits[*next & 15] };

        if (written == wanted && written + shown < out_bytes_max) {
            memcpy(out_text + written, harmless > 0 ? (const char *)next : escape, shown);
            written += shown;
        }
        wanted += shown;
        next += taken;
        count -= taken;
    }
    if (out_bytes_max > 0)
        out_text[written] = '\0';
    return (int)wanted;
}

size_t hf__text_from_u64(uint64_t number, char out_text[HF__TEXT_U64_BYTES])
{
    char digits[HF__TEXT_U64_BYTES];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(out_text, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}

bool hf__text_to_u64(const char *text, size_t count, uint64_t *out_number)
{
    uint64_t number = 0;

    assert(text && out_number);

    if (count == 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';

        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out_number = number;
    return true;
}

/* 0: no such unit. */
static uint64_t find_unit_ms(const char *unit)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = { { "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };

    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strcmp(units[i].unit, unit) == 0)
            return units[i].ms;
    }
    return 0;
}

/* The digits as billionths, rounded up. */
static uint64_t measure_fraction(const char *digits, size_t count)
{
    uint64_t fraction = 0;

    for (size_t i = 0; i < FRACTION_DIGITS_KEPT; i++)
        fraction = fraction * 10 + (i < count ? (uint64_t)(digits[i] - '0') : 0);
    for (size_t i = FRACTION_DIGITS_KEPT; i < count; i++) {
        if (digits[i] != '0')
            return fraction + 1;
    }
    return fraction;
}

/* Rounds up to the next millisecond, so that a short time does not become none at all: 0 often
 * means "do not wait" or "the default". */
bool hf__text_to_duration_ms(const char *text, int64_t *out_ms)
{
    const char *digits = "0123456789";
    size_t whole_digits;
    const char *unit;
    uint64_t fraction_ms = 0;
    uint64_t fraction = 0;
    uint64_t whole;
    uint64_t unit_ms;

    assert(text && out_ms);

    whole_digits = strspn(text, digits);
    if (!hf__text_to_u64(text, whole_digits, &whole))
        return false;

    unit = text + whole_digits;
    if (*unit == '.') {
        size_t fraction_digits = strspn(unit + 1, digits);

        if (fraction_digits == 0)
            return false;
        fraction = measure_fraction(unit + 1, fraction_digits);
        unit += 1 + fraction_digits;
    }

    unit_ms = find_unit_ms(unit);
    if (unit_ms == 0)
        return false;

    fraction_ms = (fraction * unit_ms + FRACTION_SCALE - 1) / FRACTION_SCALE;
    if (whole > ((uint64_t)INT64_MAX - fraction_ms) / unit_ms)
        return false;
    *out_ms = (int64_t)(whole * unit_ms + fraction_ms);
    return true;
}
