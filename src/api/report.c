/* report.c: what was this thread's last failure?
 *
 * The one mutable thing that belongs to no object: a text per thread, for hf_client_error(), and
 * a serial number per thread, for owners that are threads. A client's text is given only to
 * whoever asks about that client; hf_open's failures, which have no client, are kept apart. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/client.h"
#include "base/text.h"

#define NAME_SHOWN_BYTES 96

static _Thread_local struct {
    const struct hf_client *client;
    char text[HF__ERROR_BYTES];
    char open_text[HF__ERROR_BYTES];
    uint64_t serial;
} thread;

int hf__report(const struct hf_client *client, int status, const char *format, ...)
{
    char *text = client ? thread.text : thread.open_text;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, HF__ERROR_BYTES, format, arguments);
    va_end(arguments);
    if (client)
        thread.client = client;
    return status;
}

int hf__report_named(const struct hf_client *client, int status, const char *verb, const char *name,
                     const char *reason)
{
    char shown[NAME_SHOWN_BYTES];
    size_t bytes = strnlen(name, HF_NAME_BYTES_MAX + 1);
    int whole = hf__text_escape(name, bytes, shown, sizeof(shown));

    return hf__report(client, status, "%s '%s%s': %s", verb, shown,
                      whole >= NAME_SHOWN_BYTES ? "..." : "", reason);
}

const char *hf__report_text(const struct hf_client *client)
{
    if (!client)
        return thread.open_text;
    return thread.client == client ? thread.text : "";
}

/* Random, because a counter would be shared by all clients: two threads draw the same 64 bits about
 * never. Not the thread's id, which the kernel gives out again. */
uint64_t hf__report_thread_serial(void)
{
    while (thread.serial == 0) {
        if (getrandom(&thread.serial, sizeof(thread.serial), 0) != sizeof(thread.serial))
            thread.serial = 0;
    }
    return thread.serial;
}
