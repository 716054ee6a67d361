/* exit.c: which status does the command end with, and what does it say about a failure?
 *
 * Every answer of the library has one exit status, in one table; the switch has no default, so
 * that a new answer is a compiler's warning here. The library's text says what was wrong, with
 * the value; a hint says what can be done. A status that is no answer at all is an internal
 * error. */
#include "exit.h"

#include <assert.h>
#include <string.h>

#include "say.h"

struct meaning {
    int exit_status;
    const char *hint; /* "" where the text says it all; left out where it sends people there */
};

static struct meaning mean(enum hf_status status)
{
    switch (status) {
    case HF_OK:
        return (struct meaning){ EXIT_FINE, "" };
    case HF_EBUSY:
    case HF_ETIMEDOUT:
    case HF_ELIMIT:
        return (struct meaning){ EXIT_BUSY, "" };
    case HF_EUNREACHABLE:
        return (struct meaning){ EXIT_UNREACHABLE, "check the URL, and that the store is running" };
    case HF_EUNKNOWN:
        return (struct meaning){ EXIT_UNREACHABLE, "it is not known whether it happened" };
    case HF_ELOST:
        return (struct meaning){ EXIT_LOST, "" };
    case HF_EINVAL:
        return (struct meaning){ EXIT_USAGE, "" };
    case HF_ENAME:
        return (struct meaning){ EXIT_NAME, "" };
    case HF_EURL:
        return (struct meaning){ EXIT_CONFIG, "'holdfast engines' lists the forms of URLs, 'man 7 "
                                              "holdfast' their options" };
    case HF_EUNSUPPORTED:
    case HF_EPROMISE:
        return (struct meaning){ EXIT_CONFIG, "'holdfast engines' lists what each recipe can do" };
    case HF_EDENIED:
        return (struct meaning){ EXIT_DENIED, "'man 7 holdfast' tells which rights it takes" };
    case HF_EPROTOCOL:
    case HF_EINTEGRITY:
        return (struct meaning){ EXIT_PROTOCOL, "" };
    case HF_ENOMEM:
    case HF_ESYSTEM:
        return (struct meaning){ EXIT_SYSTEM, "" };
    case HF_PENDING:
    case HF_ECANCELLED:
    case HF_EDEADLOCK:
    case HF_EFORKED:
        return (struct meaning){ EXIT_INTERNAL, "" };
    }
    return (struct meaning){ EXIT_INTERNAL, "" };
}

int exit_of(int status)
{
    return mean((enum hf_status)status).exit_status;
}

int exit_failed(const hf_client *client, int status)
{
    const char *text = hf_client_error(client);
    struct meaning meaning = mean((enum hf_status)status);

    assert(status != HF_OK);

    if (!text || !*text)
        text = hf_strstatus(status);
    if (*meaning.hint && !strstr(text, "holdfast engines"))
        say("%s (%s)", text, meaning.hint);
    else
        say("%s", text);
    return meaning.exit_status;
}
