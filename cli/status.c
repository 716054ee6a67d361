/* status.c: how does a program learn what happens to the lock?
 *
 * One line of JSON for each event, written whole. The reader may be slow or gone, and holdfast
 * has a command to look after: what cannot be written without waiting is left out, and a reader
 * that is gone is not written to again. So that a line always fits, a name that is too long in
 * JSON is only given in hex. */
#include "status.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "json.h"

static void detail_json(struct json *json, const struct status_detail *detail)
{
    if (detail->remaining_ms >= 0)
        json_number(json, "remaining_ms", detail->remaining_ms);
    if (detail->position >= 0)
        json_number(json, "position", detail->position);
    if (detail->waited_ms >= 0)
        json_number(json, "waited_ms", detail->waited_ms);
    if (detail->cause)
        json_string(json, "cause", detail->cause);
    if (detail->exit_status >= 0)
        json_number(json, "exit_status", detail->exit_status);
}

/* The line, to be freed, and its bytes. */
static char *compose(const struct status *status, const char *event,
                     const struct status_detail *detail, bool with_name, size_t *out_bytes)
{
    char *line = NULL;
    struct json json = { .out = open_memstream(&line, out_bytes) };

    if (!json.out)
        return NULL;
    json_open(&json, NULL, '{');
    json_string(&json, "event", event);
    if (with_name)
        json_string(&json, "name", status->name);
    json_hex(&json, "name_hex", status->name);
    json_fence(&json, "fence", status->fence);
    detail_json(&json, detail);
    json_close(&json, '}');
    if (fclose(json.out) == 0)
        return line;
    free(line);
    return NULL;
}

void status_tell(struct status *status, const char *event, struct status_detail detail)
{
    struct pollfd reader = { .fd = status->fd, .events = POLLOUT };
    size_t bytes = 0;
    char *line;

    if (status->fd < 0)
        return;

    line = compose(status, event, &detail, true, &bytes);
    if (line && bytes > PIPE_BUF) {
        free(line);
        line = compose(status, event, &detail, false, &bytes);
    }
    if (line && poll(&reader, 1, 0) == 1 && write(status->fd, line, bytes) < 0 && errno == EPIPE)
        status->fd = -1;
    free(line);
}
