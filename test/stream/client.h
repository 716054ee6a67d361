/* client.h: a stream, and the world around it, as an engine would use them. */
#ifndef TEST_STREAM_CLIENT_H
#define TEST_STREAM_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/stream.h"
#include "base/url.h"
#include "failing_env.h"

struct client {
    struct failing_env world;
    struct hf__url url;
    struct hf__stream *stream; /* NULL: it could not be opened */
    int status;                /* of open, or of the stream once it is down */
    char error[HF__ERROR_BYTES];
    const char *protocol; /* for TLS; NULL: none */
    uint64_t now_ns;      /* 0: the real clock */
    uint64_t deadline_ns; /* 0: a long time from now */
};

/* Opens what the URL says; TLS if its scheme ends in s, as rediss. Set protocol and the times
 * before; the rest is set here. */
void client_open(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Waits and advances, by the real clock, until it is up or down. */
enum hf__stream_state client_settle(struct client *client);
/* Both, and CHECKs that it is up. */
void client_connect(struct client *client, const char *url);
/* Waits as an engine would; fails the test if nothing happens for a minute. */
void client_wait(struct client *client, bool wants_write);

/* So many bytes, at most `at_once` by one read; fewer if it went down. */
size_t client_read(struct client *client, void *buffer, size_t count, size_t at_once);
/* false: it went down. */
bool client_write(struct client *client, const void *bytes, size_t count);
/* Reads until it is down, and returns how many bytes came before. */
size_t client_drain(struct client *client);
/* What the stream says, now that it is down. */
void client_note_error(struct client *client);

/* Is it down with this status, and this in its text? Shows both otherwise. */
bool client_is_down(struct client *client, int status, const char *text);

/* CHECKs that nothing is left. */
void client_close(struct client *client);

size_t client_open_fds(void);

#endif
