/* name.c (fuzz): names and forms are one to one, and every glob comes to an end.
 *
 * The first byte says what the others are: a name, a form, or a glob and a name (NUL between). */
#include "base/name.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/holdfast.h"
#include "target.h"

#define GLOB_BYTES_MAX 2048

static void try_name(const char *name)
{
    char back[HF_NAME_BYTES_MAX + 1];
    char form[HF__NAME_ENCODED_BYTES];
    size_t bytes = 0;
    size_t length;
    bool hashed;

    if (hf__name_check(name, &bytes) != HF_OK)
        return;
    length = hf__name_encode(name, bytes, form, &hashed);
    assert(length < sizeof(form) && strlen(form) == length);
    if (hashed) {
        assert(hf__name_decode(form, length, back) == 0);
        assert(length == 66 && bytes > 200);
        return;
    }
    assert(hf__name_decode(form, length, back) == bytes);
    assert(strcmp(back, name) == 0);
    assert(hf__name_hash(back, bytes, 1) == hf__name_hash(name, bytes, 1));
}

static void try_form(const char *form, size_t count)
{
    char name[HF_NAME_BYTES_MAX + 1];
    char again[HF__NAME_ENCODED_BYTES];
    size_t bytes = hf__name_decode(form, count, name);
    bool hashed;

    if (bytes == 0)
        return;
    assert(strlen(name) == bytes && bytes <= 200);
    assert(hf__name_encode(name, bytes, again, &hashed) == count);
    assert(memcmp(again, form, count) == 0 && !hashed);
}

/* Whatever the glob is: the name with every byte escaped matches, and more than it does not. */
static void try_glob(const char *glob, const char *name, size_t name_bytes)
{
    char escaped[GLOB_BYTES_MAX + 2];
    size_t length = 0;

    (void)hf__name_matches(glob, name, name_bytes);
    assert(hf__name_matches("*", name, name_bytes));
    assert(hf__name_matches(NULL, name, name_bytes));
    if (name_bytes > GLOB_BYTES_MAX / 2 || memchr(name, '\0', name_bytes))
        return;
    for (size_t i = 0; i < name_bytes; i++) {
        escaped[length++] = '\\';
        escaped[length++] = name[i];
    }
    escaped[length] = '\0';
    assert(hf__name_matches(escaped, name, name_bytes));
    escaped[length] = '?';
    escaped[length + 1] = '\0';
    assert(!hf__name_matches(escaped, name, name_bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const char *rest;
    char *text;

    if (count == 0)
        return 0;
    text = malloc(count); /* all but the first, and a NUL */
    assert(text);
    memcpy(text, bytes + 1, count - 1);
    text[count - 1] = '\0';
    rest = memchr(text, '\0', count - 1);

    if (bytes[0] == 'n')
        try_name(text);
    if (bytes[0] == 'f')
        try_form(text, count - 1);
    if (bytes[0] == 'g' && rest)
        try_glob(text, rest + 1, count - 2 - (size_t)(rest - text));
    free(text);
    return 0;
}
