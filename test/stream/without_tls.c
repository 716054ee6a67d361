/* without_tls.c: does a build without OpenSSL refuse TLS, and do without it otherwise?
 *
 * Linked with tls_none.c in the place of tls.c, so that every build can show it. */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stream.h"
#include "check.h"
#include "failing_env.h"

#define HANG_MS 60000

static int open_stream(struct failing_env *world, struct hf__url *url, bool tls,
                       struct hf__stream **out_stream, char error[HF__ERROR_BYTES])
{
    struct hf__stream_options options = { .url = url, .tls = tls, .deadline_ns = HF__NEVER };

    failing_env_init(world, 0);
    options.env = &world->env;
    return hf__stream_open(&options, out_stream, error);
}

TEST(without_tls, it_is_refused_and_not_left_out)
{
    struct failing_env world;
    struct hf__stream *stream = NULL;
    struct hf__url url;
    char error[HF__ERROR_BYTES] = "";

    CHECK_EQUAL(hf__url_parse("rediss://127.0.0.1:1", &url, error), HF_OK);
    CHECK_EQUAL(open_stream(&world, &url, true, &stream, error), HF_EUNSUPPORTED);
    CHECK_TEXT(error, "this Holdfast was built without OpenSSL: no TLS");
    CHECK(stream == NULL);
    CHECK_EQUAL(world.live, 0);
}

TEST(without_tls, plain_streams_work)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct failing_env world;
    struct hf__stream *stream = NULL;
    struct hf__pollset set;
    struct hf__url url;
    char error[HF__ERROR_BYTES] = "";
    char text[64];

    CHECK_EQUAL(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQUAL(listen(listener, 1), 0);
    CHECK_EQUAL(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    (void)snprintf(text, sizeof(text), "redis://127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    CHECK_EQUAL(hf__url_parse(text, &url, error), HF_OK);
    CHECK_EQUAL(open_stream(&world, &url, false, &stream, error), HF_OK);
    while (hf__stream_advance(stream, hf__clock_now_ns()) == HF__STREAM_CONNECTING) {
        hf__pollset_init(&set);
        CHECK(hf__stream_pollset(stream, false, &set));
        CHECK_EQUAL(poll(set.fds, set.count, HANG_MS), 1);
    }
    CHECK_EQUAL(hf__stream_advance(stream, hf__clock_now_ns()), HF__STREAM_UP);
    CHECK_EQUAL(hf__stream_write(stream, "x", 1), 1);
    hf__stream_close(stream);
    CHECK_EQUAL(world.live, 0);
    (void)close(listener);
}
