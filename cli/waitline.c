/* waitline.c: what does a person see while waiting?
 *
 * One line on the terminal, rewritten in place every second: who holds the lock, since when, and
 * how many are ahead. It appears only after a moment, so that a short wait does not flicker, and
 * goes when the waiting ends. From the background nothing is drawn: the terminal is somebody
 * else's.
 *
 * What can go wrong: the store does not answer the question who holds; then only the waiting is
 * told, and the question rests for a while, because it keeps us from hearing ^C. The terminal
 * takes nothing (^S): the line is left out. */
#include "waitline.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"
#include "listing.h"
#include "say.h"
#include "text.h"

#define FIRST_NS       (300 * NS_PER_MS)
#define EVERY_NS       (1000 * NS_PER_MS)
#define AFTER_FAIL_NS  (30000 * NS_PER_MS)
#define LINE_BYTES     4096
#define NAME_BYTES_MAX 40 /* the line must fit, and what comes behind matters more */
#define WIPE           "\r\033[K"

struct holder {
    size_t count;
    int64_t age_ms;
    char who[LISTING_WHO_BYTES];
    char purpose[256];
};

static int meet(const struct hf_holding *holding, void *context)
{
    struct holder *holder = context;

    if (holding->waiting)
        return 1; /* the holders come first */
    if (holder->count++ == 0) {
        holder->age_ms = holding->age_ms;
        listing_who(holding, holder->who);
        snprintf(holder->purpose, sizeof(holder->purpose), "%s", holding->purpose);
    }
    return 0;
}

/* false: the store did not tell. */
static bool compose(hf_client *client, const char *name, int ahead, char out_line[LINE_BYTES])
{
    struct holder holder = { .age_ms = -1 };
    char *glob = listing_glob_of(name);
    int status = hf_client_list(client, glob, meet, &holder);
    char age[TEXT_AGE_BYTES];
    char others[48] = "";
    char place[48] = "";
    size_t name_bytes = strlen(name) > NAME_BYTES_MAX ? NAME_BYTES_MAX : strlen(name);

    free(glob);
    if (holder.count > 1)
        snprintf(others, sizeof(others), " and %zu more", holder.count - 1);
    if (ahead > 1)
        snprintf(place, sizeof(place), ", %d ahead of you", ahead);
    else if (ahead >= 0)
        snprintf(place, sizeof(place), ", you are next");
    snprintf(out_line, LINE_BYTES, "waiting for '%.*s%s'%s", (int)name_bytes, name,
             name[name_bytes] ? "..." : "", place);
    if (status >= 0 && holder.count > 0)
        snprintf(out_line + strlen(out_line), LINE_BYTES - strlen(out_line),
                 "; held for %s by %s%s%s%s%s", text_age(holder.age_ms, age), holder.who, others,
                 *holder.purpose ? " (" : "", holder.purpose, *holder.purpose ? ")" : "");
    return status >= 0;
}

bool waitline_is_possible(void)
{
    const char *kind = getenv("TERM");

    return isatty(STDERR_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

void waitline_begin(struct waitline *waitline, uint64_t now_ns)
{
    *waitline = (struct waitline){ .next_ns = now_ns + FIRST_NS };
}

static size_t terminal_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 79;
    return size.ws_col - 1u; /* the last column would wrap */
}

void waitline_draw(struct waitline *waitline, hf_client *client, const char *name, int ahead)
{
    struct pollfd terminal = { .fd = STDERR_FILENO, .events = POLLOUT };
    char line[LINE_BYTES];
    char visible[LINE_BYTES * TEXT_GROWTH + sizeof("holdfast: ")] = "holdfast: ";
    char drawn[LINE_BYTES + sizeof(WIPE)];
    bool answered;
    int bytes;

    if (tcgetpgrp(STDERR_FILENO) != getpgrp()) {
        waitline->drawn = false;
        waitline->next_ns = clock_now_ns() + EVERY_NS;
        return;
    }
    answered = compose(client, name, ahead, line);
    waitline->next_ns = clock_now_ns() + (answered ? EVERY_NS : AFTER_FAIL_NS);
    text_visible(line, TEXT_MESSAGE, visible + strlen(visible), sizeof(visible) - strlen(visible));
    bytes = snprintf(drawn, sizeof(drawn), "\r%.*s\033[K",
                     (int)text_fit(visible, terminal_columns()), visible);
    if (bytes <= 0 || poll(&terminal, 1, 0) != 1)
        return;
    waitline->drawn = write(STDERR_FILENO, drawn, (size_t)bytes) > 0;
}

void waitline_say(struct waitline *waitline, hf_client *client, const char *name, int ahead)
{
    char line[LINE_BYTES];

    waitline->next_ns = UINT64_MAX;
    if (waitline->told)
        return;
    compose(client, name, ahead, line);
    say_now("%s", line);
    waitline->told = true;
}

void waitline_clear(struct waitline *waitline)
{
    if (!waitline->drawn)
        return;
    waitline->drawn = false;
    if (write(STDERR_FILENO, WIPE, sizeof(WIPE) - 1) < 0)
        return;
}
