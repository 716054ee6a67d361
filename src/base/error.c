/* error.c: how is a failure told?
 *
 * Where a failure is seen, its text is written into the object that failed and its status is
 * returned; each layer that it climbs through puts its own words in front. Names and texts of the
 * statuses come from status.def, the one list of them.
 *
 * A text that does not fit is cut. A text may be built from the buffer that it replaces, so it is
 * put together beside it first. A status that nobody listed gets a name that says so. */
#include "base/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/holdfast.h"

static const struct {
    int status;
    const char *name;
    const char *text;
} statuses[] = {
#define STATUS(status, text) { status, #status, text },
#include "base/status.def"
#undef STATUS
};

int hf__error_set(char error[HF__ERROR_BYTES], int status, const char *format, ...)
{
    char text[HF__ERROR_BYTES];
    va_list arguments;

    assert(error && format);
    assert(status < 0);

    va_start(arguments, format);
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);

    memcpy(error, text, strlen(text) + 1);
    return status;
}

const char *hf__error_name(int status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        if (statuses[i].status == status)
            return statuses[i].name;
    }
    return "HF_?";
}

const char *hf__error_text(int status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        if (statuses[i].status == status)
            return statuses[i].text;
    }
    return "unknown status";
}
