/* text.c (fuzz): what is shown is harmless and complete, and what is a number is that number. */
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

static void try_escape(const char *bytes, size_t count)
{
    int wanted = hf__text_escape(bytes, count, NULL, 0);
    size_t room = (size_t)wanted + 1;
    char *whole = malloc(room);
    char *half = malloc(room / 2 + 1);

    assert(whole && half);
    assert((size_t)wanted >= count && (size_t)wanted <= 4 * count);
    assert(hf__text_escape(bytes, count, whole, room) == wanted);
    assert(strlen(whole) == (size_t)wanted);
    for (const char *byte = whole; *byte; byte++)
        assert((unsigned char)*byte >= ' ' && *byte != 0x7f);
    assert(hf__text_escape(bytes, count, half, room / 2 + 1) == wanted);
    assert(strncmp(half, whole, strlen(half)) == 0);
    assert(hf__text_copy(half, room / 2 + 1, whole) == (strlen(whole) <= room / 2));
    free(whole);
    free(half);
}

static void try_number(const char *text, size_t count)
{
    uint64_t number = 4711;
    char again[32];

    if (!hf__text_to_u64(text, count, &number)) {
        assert(number == 4711);
        return;
    }
    while (count > 1 && *text == '0') {
        text++;
        count--;
    }
    (void)snprintf(again, sizeof(again), "%llu", (unsigned long long)number);
    assert(strlen(again) == count && memcmp(again, text, count) == 0);
}

/* A number of whole milliseconds means the same in its own unit. */
static void try_duration(const char *text)
{
    int64_t ms = -1;
    int64_t again = -1;
    char in_ms[32];

    if (!hf__text_to_duration_ms(text, &ms)) {
        assert(ms == -1);
        return;
    }
    assert(ms >= 0);
    (void)snprintf(in_ms, sizeof(in_ms), "%lldms", (long long)ms);
    assert(hf__text_to_duration_ms(in_ms, &again) && again == ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *text = malloc(count + 1);

    assert(text);
    if (count > 0)
        memcpy(text, bytes, count);
    text[count] = '\0';
    try_escape(text, count);
    try_number(text, count);
    try_duration(text);
    free(text);
    return 0;
}
