/* text.c: how are other people's bytes shown without harm?
 *
 * A name or a purpose may hold anything but NUL: escape sequences that rewrite the screen, letters
 * that write from right to left, marks that make two names look alike. What is printable and takes
 * at least one column is shown as it is, everything else as an escape. Where the terminal does not
 * speak UTF-8, nothing outside ASCII is printable.
 *
 * Nothing can go wrong: every sequence of bytes has a visible form, four bytes at most for each. */
#include "text.h"

#include <assert.h>
#include <langinfo.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "memory.h"

#define SEQUENCE_BYTES_MAX 16

static bool speaks_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

size_t text_decode(const char *bytes, size_t count, uint32_t *out_point)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = count ? (unsigned char)bytes[0] : 0;
    size_t length = first < 0x80   ? 1
                    : first < 0xC2 ? 0
                    : first < 0xE0 ? 2
                    : first < 0xF0 ? 3
                    : first < 0xF5 ? 4
                                   : 0;
    uint32_t point = length == 1 ? first : first & (0x7Fu >> length);

    if (!count || !length || length > count)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)bytes[i] & 0xC0) != 0x80)
            return 0;
        point = point << 6 | ((unsigned char)bytes[i] & 0x3F);
    }
    if (point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return 0;

    *out_point = point;
    return length;
}

static bool is_shown(uint32_t point, bool utf8)
{
    if (point < 0x80)
        return point >= 0x20 && point != 0x7F;
    return utf8 && wcwidth((wchar_t)point) > 0;
}

/* Writes the visible form of what stands at the front into out_text, and returns how many bytes of
 * the source it stands for. */
static size_t show_one(const char *text, size_t count, enum text_style style,
                       char out_text[SEQUENCE_BYTES_MAX])
{
    uint32_t point = 0;
    bool utf8 = speaks_utf8();
    size_t length = text_decode(text, count, &point);

    if (length && is_shown(point, utf8)) {
        bool doubled = style == TEXT_NAME && point == '\\';

        snprintf(out_text, SEQUENCE_BYTES_MAX, "%s%.*s", doubled ? "\\" : "", (int)length, text);
        return length;
    }
    if (length == 1 && (point == '\n' || point == '\t' || point == '\r')) {
        snprintf(out_text, SEQUENCE_BYTES_MAX, "\\%c",
                 point == '\n'   ? 'n'
                 : point == '\t' ? 't'
                                 : 'r');
        return 1;
    }
    if (length > 1 && utf8) {
        snprintf(out_text, SEQUENCE_BYTES_MAX, "\\u{%x}", (unsigned)point);
        return length;
    }
    snprintf(out_text, SEQUENCE_BYTES_MAX, "\\x%02x", (unsigned)(unsigned char)text[0]);
    return 1;
}

size_t text_visible(const char *text, enum text_style style, char *out_text, size_t out_bytes_max)
{
    size_t left = strlen(text);
    size_t used = 0;

    assert(out_bytes_max > 0);

    while (left) {
        char sequence[SEQUENCE_BYTES_MAX];
        size_t taken = show_one(text, left, style, sequence);
        size_t bytes = strlen(sequence);

        assert(taken && taken <= left && bytes <= taken * TEXT_GROWTH);
        if (used + bytes >= out_bytes_max)
            break;
        memcpy(out_text + used, sequence, bytes);
        used += bytes;
        text += taken;
        left -= taken;
    }
    out_text[used] = '\0';
    return used;
}

char *text_visible_new(const char *text)
{
    size_t bytes = strlen(text) * TEXT_GROWTH + 1;
    char *visible = memory_get(bytes, 1);

    text_visible(text, TEXT_NAME, visible, bytes);
    return visible;
}

/* What was made visible has a column or two for every character. */
static size_t columns_of(const char *visible, size_t count, size_t *out_bytes)
{
    uint32_t point = 0;
    size_t length = text_decode(visible, count, &point);
    int columns;

    *out_bytes = length ? length : 1;
    if (length <= 1)
        return 1;
    columns = wcwidth((wchar_t)point);
    return columns > 0 ? (size_t)columns : 1;
}

size_t text_columns(const char *visible)
{
    size_t left = strlen(visible);
    size_t columns = 0;

    while (left) {
        size_t bytes;

        columns += columns_of(visible, left, &bytes);
        visible += bytes;
        left -= bytes;
    }
    return columns;
}

size_t text_fit(const char *visible, size_t columns_max)
{
    size_t left = strlen(visible);
    size_t columns = 0;
    size_t fit = 0;

    while (left) {
        size_t bytes;

        columns += columns_of(visible + fit, left, &bytes);
        if (columns > columns_max)
            break;
        fit += bytes;
        left -= bytes;
    }
    return fit;
}

const char *text_age(int64_t age_ms, char out_text[TEXT_AGE_BYTES])
{
    long long seconds = (long long)age_ms / 1000;

    if (age_ms < 0)
        snprintf(out_text, TEXT_AGE_BYTES, "-");
    else if (age_ms < 10 * 1000)
        snprintf(out_text, TEXT_AGE_BYTES, "%lld.%llds", seconds, (long long)age_ms % 1000 / 100);
    else if (seconds < 60)
        snprintf(out_text, TEXT_AGE_BYTES, "%llds", seconds);
    else if (seconds < 60 * 60)
        snprintf(out_text, TEXT_AGE_BYTES, "%lldm%02llds", seconds / 60, seconds % 60);
    else if (seconds < 24 * 60 * 60)
        snprintf(out_text, TEXT_AGE_BYTES, "%lldh%02lldm", seconds / 3600, seconds / 60 % 60);
    else
        snprintf(out_text, TEXT_AGE_BYTES, "%lldd%02lldh", seconds / 86400, seconds / 3600 % 24);
    return out_text;
}
