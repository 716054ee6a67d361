/* say.c: how does a message reach a person, unharmed and harmless?
 *
 * The line is put together in memory, made visible (names and purposes are other people's bytes,
 * and a terminal obeys some of them) and written with one write(2), so that lines of several
 * processes do not mix. A message that cannot be written is lost: there is nobody left to tell. */
#include "say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

#define LINE_BYTES 8192

static void tell(bool waiting, const char *format, va_list arguments)
{
    static const char prefix[] = "holdfast: ";
    struct pollfd stderr_poll = { .fd = STDERR_FILENO, .events = POLLOUT };
    char message[LINE_BYTES];
    char line[sizeof(prefix) + LINE_BYTES * TEXT_GROWTH + 1];
    size_t bytes = sizeof(prefix) - 1;

    if (vsnprintf(message, sizeof(message), format, arguments) < 0)
        return;

    memcpy(line, prefix, bytes);
    bytes += text_visible(message, TEXT_MESSAGE, line + bytes, sizeof(line) - bytes - 1);
    line[bytes++] = '\n';

    if (!waiting && poll(&stderr_poll, 1, 0) != 1)
        return;
    if (write(STDERR_FILENO, line, bytes) < 0)
        return;
}

void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tell(true, format, arguments);
    va_end(arguments);
}

void say_now(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tell(false, format, arguments);
    va_end(arguments);
}
