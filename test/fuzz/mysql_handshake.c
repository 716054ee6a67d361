/* mysql_handshake.c (fuzz): whatever a server greets with and asks for then, the password is told
 * to nobody, and the line is up, given up, or waits for more.
 *
 * The first byte says where it goes: 1 to a socket of this machine, where the password may be told,
 * 2 to a place where TLS is wanted. The others are packets, each with its head. */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/mysql/mysql.h"
#include "target.h"

#define GREETING 10
#define PASSWORD "correct horse battery staple"

static void check_text(const char *text, size_t room)
{
    size_t bytes = strnlen(text, room);

    assert(bytes < room);
    for (size_t i = 0; i < bytes; i++)
        assert((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void check(const struct hf__cable *cable, bool is_local)
{
    check_text(cable->version, sizeof(cable->version));
    check_text(cable->error, sizeof(cable->error));
    assert(cable->phase != HF__CABLE_DOWN || cable->status < 0);
    assert(is_local || !memmem(hf__buffer_front(&cable->output), hf__buffer_count(&cable->output),
                               PASSWORD, strlen(PASSWORD)));
}

/* As cable.c does it, for one packet. */
static bool hear(struct hf__cable *cable)
{
    size_t bytes;
    const uint8_t *packet = hf__cable_packet(cable, &bytes);

    if (!packet || !hf__cable_is_in_order(cable, packet, bytes))
        return false;
    hf__handshake_hear(cable, packet, bytes);
    if (cable->phase == HF__CABLE_DOWN)
        return false;
    hf__cable_drop(cable);
    return cable->phase == HF__CABLE_GREETED || cable->phase == HF__CABLE_SIGNING;
}

/* Somewhere to say that TLS is wanted; nobody there answers. Its descriptor. */
static int listen_somewhere(char out_url[64])
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    assert(listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr *)&address, &bytes) == 0);
    (void)snprintf(out_url, 64, "mysql://owner@127.0.0.1:%d/locks?tls=verify",
                   ntohs(address.sin_port));
    return fd;
}

/* False: this build has no TLS. */
static bool connect_to(struct hf__cable *cable)
{
    char error[HF__ERROR_BYTES];
    struct hf__stream_options options = { .env = cable->env,
                                          .url = cable->url,
                                          .tls = true,
                                          .tls_later = true,
                                          .deadline_ns = UINT64_MAX };

    if (hf__stream_open(&options, &cable->stream, error) < 0)
        return false;
    while (hf__stream_advance(cable->stream, 0) == HF__STREAM_CONNECTING)
        (void)poll(NULL, 0, 1);
    return true;
}

static void play(struct hf__cable *cable, bool is_local, const uint8_t *bytes, size_t count)
{
    hf__buffer_init(&cable->input, cable->env, 1 << 20);
    hf__buffer_init(&cable->output, cable->env, 1 << 16);
    assert(count == 0 || hf__buffer_append(&cable->input, bytes, count) == HF_OK);
    while (hear(cable))
        check(cable, is_local);
    check(cable, is_local);
    hf__buffer_done(&cable->input);
    hf__buffer_done(&cable->output);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    bool is_local = count > 0 && bytes[0] == 1;
    bool is_secure = count > 5 && bytes[0] == 2 && bytes[5] == GREETING; /* for it takes long */
    char where[64] = "mysql://owner@localhost/locks";
    char error[HF__ERROR_BYTES];
    struct hf__env env;
    struct hf__url url;
    struct hf__cable cable = { .phase = HF__CABLE_GREETED, .password = PASSWORD, .env = &env };
    int listener = is_secure ? listen_somewhere(where) : -1;

    if (is_local)
        (void)snprintf(where, sizeof(where), "mysql://owner@localhost/locks?socket=/nowhere");
    assert(hf__env_init(&env) == HF_OK && hf__url_parse(where, &url, error) == HF_OK);
    cable.url = &url;
    if (count > 0 && (!is_secure || connect_to(&cable)))
        play(&cable, is_local, bytes + 1, count - 1);
    hf__stream_close(cable.stream);
    if (listener >= 0)
        (void)close(listener);
    hf__env_done(&env);
    return 0;
}
