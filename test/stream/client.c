/* client.c: a stream, and the world around it, as an engine would use them. */
#include "client.h"

#include <dirent.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"

#define HANG_MS    60000 /* an end to waiting, not a measure */
#define URL_BYTES  4096
#define LONG_NS    (120 * HF__NS_PER_S)
#define CHUNK      65536
#define PORT_USUAL 6379

void client_open(struct client *client, const char *format, ...)
{
    struct hf__stream_options options = { .port = PORT_USUAL, .protocol = client->protocol };
    char text[URL_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    CHECK_EQUAL(hf__url_parse(text, &client->url, client->error), HF_OK);

    failing_env_init(&client->world, 0);
    options.env = &client->world.env;
    options.url = &client->url;
    options.tls = client->url.scheme[strlen(client->url.scheme) - 1] == 's' &&
                  strcmp(client->url.scheme, "redis") != 0;
    options.now_ns = client->now_ns ? client->now_ns : hf__clock_now_ns();
    options.deadline_ns = client->deadline_ns ? client->deadline_ns : options.now_ns + LONG_NS;
    client->stream = NULL;
    client->error[0] = '\0';
    client->status = hf__stream_open(&options, &client->stream, client->error);
    CHECK((client->status == HF_OK) == (client->stream != NULL));
    CHECK((client->status == HF_OK) == (client->error[0] == '\0'));
}

void client_wait(struct client *client, bool wants_write)
{
    struct hf__pollset set;
    int64_t wait_ms;
    int ready;

    hf__pollset_init(&set);
    CHECK(hf__stream_pollset(client->stream, wants_write, &set));
    CHECK(set.count > 0 || set.deadline_ns != HF__NEVER);
    wait_ms = hf__clock_wait_ms(hf__clock_now_ns(), set.deadline_ns);
    ready = poll(set.fds, set.count, wait_ms < 0 || wait_ms > HANG_MS ? HANG_MS : (int)wait_ms);
    CHECK(ready >= 0);
    if (ready == 0 && (wait_ms < 0 || wait_ms > HANG_MS))
        fail_msg("%s: nothing happens", hf__stream_peer(client->stream));
}

void client_note_error(struct client *client)
{
    client->error[0] = '\0';
    client->status = hf__stream_error(client->stream, client->error);
    CHECK(client->status < 0 && client->error[0]);
}

enum hf__stream_state client_settle(struct client *client)
{
    enum hf__stream_state state = hf__stream_advance(client->stream, hf__clock_now_ns());

    while (state == HF__STREAM_CONNECTING) {
        client_wait(client, false);
        state = hf__stream_advance(client->stream, hf__clock_now_ns());
    }
    if (state == HF__STREAM_DOWN)
        client_note_error(client);
    return state;
}

void client_connect(struct client *client, const char *url)
{
    client_open(client, "%s", url);
    if (client->status < 0)
        fail_msg("%s: %s", url, client->error);
    if (client_settle(client) != HF__STREAM_UP)
        fail_msg("%s: %s", url, client->error);
}

size_t client_read(struct client *client, void *buffer, size_t count, size_t at_once)
{
    uint8_t *next = buffer;
    size_t done = 0;

    while (done < count) {
        size_t part = count - done < at_once ? count - done : at_once;
        ssize_t got = hf__stream_read(client->stream, next + done, part);

        CHECK(got <= (ssize_t)part);
        if (got < 0) {
            client_note_error(client);
            return done;
        }
        done += (size_t)got;
        if (got == 0)
            client_wait(client, false);
    }
    return done;
}

bool client_write(struct client *client, const void *bytes, size_t count)
{
    const uint8_t *next = bytes;

    while (count > 0) {
        ssize_t sent = hf__stream_write(client->stream, next, count);

        CHECK(sent <= (ssize_t)count);
        if (sent < 0) {
            client_note_error(client);
            return false;
        }
        next += sent;
        count -= (size_t)sent;
        if (sent == 0)
            client_wait(client, true);
    }
    return true;
}

size_t client_drain(struct client *client)
{
    static uint8_t buffer[CHUNK];
    size_t done = 0;
    ssize_t got = hf__stream_read(client->stream, buffer, sizeof(buffer));

    while (got >= 0) {
        done += (size_t)got;
        if (got == 0)
            client_wait(client, false);
        got = hf__stream_read(client->stream, buffer, sizeof(buffer));
    }
    client_note_error(client);
    return done;
}

bool client_is_down(struct client *client, int status, const char *text)
{
    bool as_wanted = client->status == status && strstr(client->error, text);

    if (client->stream && hf__stream_advance(client->stream, 0) != HF__STREAM_DOWN)
        as_wanted = false;
    if (!as_wanted)
        print_message("  found:  %s, %s\n  wanted: %s, %s\n", hf__error_name(client->status),
                      client->error, hf__error_name(status), text);
    return as_wanted;
}

void client_close(struct client *client)
{
    hf__stream_close(client->stream);
    client->stream = NULL;
    CHECK_EQUAL(client->world.live, 0);
}

size_t client_open_fds(void)
{
    DIR *entries = opendir("/proc/self/fd");
    size_t count = 0;

    CHECK(entries != NULL);
    while (readdir(entries))
        count++;
    (void)closedir(entries);
    return count;
}
