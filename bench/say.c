/* say.c: how does a failure reach a person, and with which exit status?
 *
 * One line on standard error, in one write. Every answer of the library has one exit status and
 * perhaps a hint; the switch has no default, so that a new answer is a compiler's warning here. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#define LINE_BYTES 2048

struct meaning {
    int exit_status;
    const char *hint;
};

void bench_say(const char *format, ...)
{
    static const char prefix[] = "holdfast: bench: ";
    char message[LINE_BYTES];
    char line[sizeof(prefix) + LINE_BYTES];
    va_list values;
    int bytes;

    va_start(values, format);
    vsnprintf(message, sizeof(message), format, values);
    va_end(values);
    bytes = snprintf(line, sizeof(line), "%s%s\n", prefix, message);
    if (write(STDERR_FILENO, line, (size_t)bytes) < 0)
        return; /* nobody is left to tell */
}

static struct meaning mean(enum hf_status status)
{
    switch (status) {
    case HF_OK:
        return (struct meaning){ BENCH_EXIT_FINE, "" };
    case HF_EBUSY:
    case HF_ETIMEDOUT:
    case HF_ELIMIT:
        return (struct meaning){ BENCH_EXIT_BUSY, "" };
    case HF_EUNREACHABLE:
    case HF_EUNKNOWN:
        return (struct meaning){ BENCH_EXIT_UNREACHABLE,
                                 "check the URL, and that the store is running" };
    case HF_ELOST:
        return (struct meaning){ BENCH_EXIT_LOST, "did somebody break the lock?" };
    case HF_EINVAL:
        return (struct meaning){ BENCH_EXIT_USAGE, "" };
    case HF_ENAME:
        return (struct meaning){ BENCH_EXIT_NAME, "" };
    case HF_EURL:
        return (struct meaning){ BENCH_EXIT_CONFIG,
                                 "'holdfast engines' lists the URLs of this build" };
    case HF_EUNSUPPORTED:
    case HF_EPROMISE:
        return (struct meaning){ BENCH_EXIT_CONFIG,
                                 "'holdfast engines' lists what each recipe can do" };
    case HF_EDENIED:
        return (struct meaning){ BENCH_EXIT_DENIED,
                                 "check the owner and mode of the directory, or the user and "
                                 "password" };
    case HF_EPROTOCOL:
    case HF_EINTEGRITY:
        return (struct meaning){ BENCH_EXIT_PROTOCOL, "" };
    case HF_ENOMEM:
    case HF_ESYSTEM:
        return (struct meaning){ BENCH_EXIT_SYSTEM, "" };
    case HF_PENDING:
    case HF_ECANCELLED:
    case HF_EDEADLOCK:
    case HF_EFORKED:
        return (struct meaning){ BENCH_EXIT_INTERNAL, "" };
    }
    return (struct meaning){ BENCH_EXIT_INTERNAL, "" };
}

int bench_say_exit_of(int status)
{
    return mean((enum hf_status)status).exit_status;
}

const char *bench_say_hint(int status)
{
    return mean((enum hf_status)status).hint;
}
