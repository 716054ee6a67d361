/* stream.c: how do bytes get to a server, and back?
 *
 * The name is resolved, its addresses are tried in order (each for its share of the time that is
 * left), TLS is agreed upon where it is wanted, and the stream is UP: bytes pass until one side
 * ends it. `step` makes one move of that, and is called until there is nothing to do but wait.
 *
 * What can go wrong: an address that does not answer, refuses, resets or does not get through the
 * TLS handshake in its time makes way for the next, and the last one's failure is the stream's. A
 * certificate that is not to be trusted is final: another address of the same name must not hide
 * it. A connection that breaks while we write may still hold what the server said last: the first
 * such write waits, so that it is read. A full queue of a Unix socket cannot be waited for, so it
 * is asked again. Connecting to a port of this machine where nobody listens may, by chance, connect
 * the socket to itself: that is a refusal too.
 *
 * Nothing blocks, no descriptor survives exec(), nothing here raises SIGPIPE. */
#include "base/stream.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/resolve.h"
#include "base/text.h"
#include "base/tls.h"

#define SHARE_NS_MIN (250 * HF__NS_PER_MS) /* of one address, if so much is left at all */
#define AGAIN_NS     (20 * HF__NS_PER_MS)  /* until a Unix socket's full queue is asked again */
#define PEER_BYTES   272                   /* a host's name, a colon and a port */
#define LISTEN_US    10000                 /* a thread that reads cannot be woken otherwise */

/* A server that vanished is noticed on an idle connection after 15 + 3 x 5 seconds, and on one
 * that waits for its bytes to be confirmed after 30. */
#define KEEPALIVE_IDLE_S     15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES     3
#define UNCONFIRMED_MS_MAX   30000

enum phase {
    PHASE_RESOLVING,
    PHASE_NEXT,       /* an address is to be tried, if there is one left */
    PHASE_CONNECTING, /* by TCP, or to the Unix socket */
    PHASE_SHAKING,    /* the TLS handshake */
    PHASE_UP,
    PHASE_DOWN,
};

struct hf__stream {
    const struct hf__env *env;
    enum phase phase;
    struct hf__url_server server; /* with its port */
    bool is_local;                /* a Unix socket */
    bool write_has_failed;
    bool is_bare;    /* TLS is wanted, but not yet */
    bool was_bare;   /* the peer has said something already: another address would start anew */
    bool is_patient; /* its descriptor blocks, for LISTEN_US; read and write do not */
    struct hf__resolve *resolve;
    struct hf__addresses addresses;
    size_t tried;
    int fd;              /* -1: none */
    struct hf__tls *tls; /* NULL: none is wanted */
    uint64_t deadline_ns;
    uint64_t share_until_ns; /* of this address */
    uint64_t again_ns;       /* a Unix socket's queue was full; 0: it was not */
    int status;
    char error[HF__ERROR_BYTES];
    char peer[PEER_BYTES];
};

/* --- Failing --- */

static void hang_up(struct hf__stream *stream)
{
    if (stream->fd >= 0)
        (void)close(stream->fd);
    stream->fd = -1;
}

static int go_down(struct hf__stream *stream, int status, const char *text)
{
    assert(status < 0);

    stream->phase = PHASE_DOWN;
    stream->status = hf__error_set(stream->error, status, "%s", text);
    hf__trace(stream->env, "stream: down: %s", stream->error);
    return -1;
}

static int break_off(struct hf__stream *stream, int status, const char *text)
{
    char whole[HF__ERROR_BYTES];

    (void)hf__error_set(whole, status, "%s: %s", stream->peer, text);
    return go_down(stream, status, whole);
}

/* This address is done with; whether that is the end depends on why, and on how many are left. */
static void give_up_address(struct hf__stream *stream, int status, const char *text)
{
    assert(stream->tried > 0);

    hang_up(stream);
    if (status != HF_EUNREACHABLE || stream->was_bare) {
        (void)break_off(stream, status, text);
        return;
    }
    stream->phase = PHASE_NEXT;
    stream->status = status;
    (void)hf__error_set(stream->error, status, "%s: %s", stream->peer, text);
    hf__trace(stream->env, "stream: %s", stream->error);
}

static void end_of_addresses(struct hf__stream *stream)
{
    char whole[HF__ERROR_BYTES];

    if (stream->tried > 1)
        (void)hf__error_set(whole, stream->status, "%s (the last of %zu addresses of %s)",
                            stream->error, stream->tried, stream->server.host);
    else
        (void)hf__text_copy(whole, sizeof(whole), stream->error);
    (void)go_down(stream, stream->status, whole);
}

/* --- Connecting --- */

static void name_peer(struct hf__stream *stream, const struct hf__address *address)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    const struct sockaddr *socket = (const struct sockaddr *)&address->socket;
    bool is_six = socket->sa_family == AF_INET6;

    if (stream->is_local)
        return; /* its path is there already */
    if (getnameinfo(socket, address->bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    (void)snprintf(stream->peer, sizeof(stream->peer), "%s%.255s%s:%.7s", is_six ? "[" : "", host,
                   is_six ? "]" : "", port);
}

/* What fails here makes the connection slower, not wrong. */
static void tune(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } settings[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S },
        { IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES },
        { IPPROTO_TCP, TCP_USER_TIMEOUT, UNCONFIRMED_MS_MAX },
    };

    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        (void)setsockopt(fd, settings[i].level, settings[i].name, &settings[i].value,
                         sizeof(settings[i].value));
}

/* What is left is shared by the addresses that are left, this one included. */
static uint64_t share_until(const struct hf__stream *stream, uint64_t now_ns)
{
    uint64_t left_ns = stream->deadline_ns > now_ns ? stream->deadline_ns - now_ns : 0;
    uint64_t share_ns = left_ns / (stream->addresses.count - stream->tried);

    if (share_ns < SHARE_NS_MIN)
        share_ns = SHARE_NS_MIN;
    return share_ns < left_ns ? now_ns + share_ns : stream->deadline_ns;
}

static int status_of(const struct hf__stream *stream, int number)
{
    bool is_shut = number == EACCES || number == EPERM;

    return stream->is_local && is_shut ? HF_EDENIED : HF_EUNREACHABLE;
}

/* Asks the kernel for the connection, for the first time or (a Unix socket) again. */
static void dial(struct hf__stream *stream, uint64_t now_ns)
{
    const struct hf__address *address = &stream->addresses.list[stream->tried - 1];
    int failed = connect(stream->fd, (const struct sockaddr *)&address->socket, address->bytes);

    stream->again_ns = 0;
    if (failed == 0 || errno == EINPROGRESS || errno == EINTR)
        return;
    if (errno == EAGAIN && stream->is_local)
        stream->again_ns = now_ns + AGAIN_NS;
    else
        give_up_address(stream, status_of(stream, errno), strerror(errno));
}

static void try_next(struct hf__stream *stream, uint64_t now_ns)
{
    const struct hf__address *address = &stream->addresses.list[stream->tried];
    int number;

    assert(stream->fd < 0);
    assert(stream->tried < stream->addresses.count);

    name_peer(stream, address);
    stream->share_until_ns = share_until(stream, now_ns);
    stream->tried++;
    stream->fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (stream->fd < 0) {
        number = errno;
        give_up_address(stream, number == EAFNOSUPPORT ? HF_EUNREACHABLE : HF_ESYSTEM,
                        strerror(number));
        return;
    }
    if (!stream->is_local)
        tune(stream->fd);
    stream->phase = PHASE_CONNECTING;
    dial(stream, now_ns);
}

/* 0, or an errno; EINPROGRESS: not yet. */
static int ask_socket(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLOUT };
    int number = 0;
    socklen_t bytes = sizeof(number);

    if (poll(&ready, 1, 0) <= 0)
        return EINPROGRESS;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &bytes) < 0)
        return errno;
    return number;
}

/* TCP lets a socket meet itself, if it was given the very port that it asks for. */
static bool met_itself(int fd)
{
    struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
    struct sockaddr_storage other = { .ss_family = AF_UNSPEC };
    socklen_t own_bytes = sizeof(own);
    socklen_t other_bytes = sizeof(other);

    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) < 0 ||
        getpeername(fd, (struct sockaddr *)&other, &other_bytes) < 0)
        return false;
    return own_bytes == other_bytes && memcmp(&own, &other, own_bytes) == 0;
}

/* So that a thread can wait for bytes by reading them: poll() before it costs a tenth of a round
 * trip within the machine. */
static bool become_patient(int fd)
{
    struct timeval wait = { .tv_usec = LISTEN_US };
    int blocks = 0;

    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0 &&
           ioctl(fd, FIONBIO, &blocks) == 0;
}

static void come_up(struct hf__stream *stream)
{
    stream->phase = PHASE_UP;
    stream->is_patient = !stream->tls && become_patient(stream->fd);
    hf__trace(stream->env, "stream: %s: up", stream->peer);
}

static void shake(struct hf__stream *stream)
{
    char error[HF__ERROR_BYTES];
    int failed;

    stream->phase = PHASE_SHAKING;
    failed = hf__tls_start(stream->tls, stream->fd, error);
    if (failed < 0)
        give_up_address(stream, failed, error);
}

void hf__stream_secure(struct hf__stream *stream)
{
    assert(stream && stream->phase == PHASE_UP);
    assert(stream->tls && stream->is_bare);

    stream->is_bare = false;
    stream->was_bare = true;
    shake(stream);
}

/* As step. */
static bool go_on_connecting(struct hf__stream *stream, uint64_t now_ns)
{
    int failed;

    if (stream->again_ns > now_ns)
        return false;
    if (stream->again_ns > 0) {
        dial(stream, now_ns);
        return stream->again_ns == 0;
    }
    failed = ask_socket(stream->fd);
    if (failed == EINPROGRESS)
        return false;
    if (!failed && !stream->is_local && met_itself(stream->fd))
        failed = ECONNREFUSED;
    if (failed) {
        give_up_address(stream, status_of(stream, failed), strerror(failed));
        return true;
    }

    if (!stream->tls || stream->is_bare)
        come_up(stream);
    else
        shake(stream);
    return true;
}

/* As step. */
static bool go_on_shaking(struct hf__stream *stream)
{
    char error[HF__ERROR_BYTES];
    int status = hf__tls_shake(stream->tls, error);

    if (status == 0)
        return false;
    if (status < 0)
        give_up_address(stream, status, error);
    else
        come_up(stream);
    return true;
}

/* As step. */
static bool go_on_resolving(struct hf__stream *stream)
{
    char error[HF__ERROR_BYTES];
    int status = hf__resolve_finish(stream->resolve, &stream->addresses, error);

    if (status == 0)
        return false;
    stream->resolve = NULL;
    if (status < 0)
        (void)go_down(stream, status, error);
    else
        stream->phase = PHASE_NEXT;
    return true;
}

/* As step: is the time over that this phase had? */
static bool expire(struct hf__stream *stream, uint64_t now_ns)
{
    switch (stream->phase) {
    case PHASE_RESOLVING:
        if (now_ns < stream->deadline_ns)
            return false;
        (void)break_off(stream, HF_EUNREACHABLE, "no address was found for it in time");
        return true;
    case PHASE_CONNECTING:
        if (now_ns < stream->share_until_ns)
            return false;
        give_up_address(stream, HF_EUNREACHABLE, "no connection in time");
        return true;
    case PHASE_SHAKING:
        if (now_ns < stream->share_until_ns)
            return false;
        give_up_address(stream, HF_EUNREACHABLE,
                        "no TLS handshake in time (perhaps the server does not speak TLS)");
        return true;
    case PHASE_NEXT:
    case PHASE_UP:
    case PHASE_DOWN:
        return false;
    }
    return false;
}

/* Makes one move; false: there is none to make now. */
static bool step(struct hf__stream *stream, uint64_t now_ns)
{
    bool has_moved = false;

    switch (stream->phase) {
    case PHASE_RESOLVING:
        has_moved = go_on_resolving(stream);
        break;
    case PHASE_NEXT:
        has_moved = true;
        if (stream->tried == stream->addresses.count ||
            (stream->tried > 0 && now_ns >= stream->deadline_ns))
            end_of_addresses(stream);
        else
            try_next(stream, now_ns);
        break;
    case PHASE_CONNECTING:
        has_moved = go_on_connecting(stream, now_ns);
        break;
    case PHASE_SHAKING:
        has_moved = go_on_shaking(stream);
        break;
    case PHASE_UP:
    case PHASE_DOWN:
        return false;
    }
    return has_moved || expire(stream, now_ns);
}

enum hf__stream_state hf__stream_advance(struct hf__stream *stream, uint64_t now_ns)
{
    assert(stream);

    while (step(stream, now_ns))
        continue;
    if (stream->phase == PHASE_UP)
        return HF__STREAM_UP;
    return stream->phase == PHASE_DOWN ? HF__STREAM_DOWN : HF__STREAM_CONNECTING;
}

/* --- Opening and closing --- */

static int check_options(const struct hf__stream_options *options, char *error)
{
    static const char *const wanting[] = { "ca", "cert", "cert_key" };
    const struct hf__url *url = options->url;
    const char *choice = hf__url_option(url, "tls");

    if (options->tls && choice && strcmp(choice, "off") == 0)
        return hf__error_set(error, HF_EURL, "tls=off contradicts %s://", url->scheme);
    if (!hf__url_option(url, "cert") != !hf__url_option(url, "cert_key"))
        return hf__error_set(error, HF_EURL, "cert and cert_key go together");
    if (options->tls)
        return HF_OK;

    if (choice && strcmp(choice, "verify") == 0)
        return hf__error_set(error, HF_EURL, "tls=verify, but %s:// has no TLS", url->scheme);
    for (size_t i = 0; i < sizeof(wanting) / sizeof(*wanting); i++) {
        if (hf__url_option(url, wanting[i]))
            return hf__error_set(error, HF_EURL, "%s is for TLS, which %s:// does not have",
                                 wanting[i], url->scheme);
    }
    return HF_OK;
}

/* Finds the addresses, or asks for them. */
static int find_addresses(struct hf__stream *stream, const struct hf__url *url, char *error)
{
    const char *path = hf__url_option(url, "socket");
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    int status;

    if (!path) {
        (void)snprintf(stream->peer, sizeof(stream->peer), "%s:%u", stream->server.host,
                       (unsigned)stream->server.port);
        status = hf__resolve_start(stream->env, &stream->server, &stream->addresses,
                                   &stream->resolve, error);
        stream->phase = stream->resolve ? PHASE_RESOLVING : PHASE_NEXT;
        return status;
    }
    if (path[0] != '/' || !hf__text_copy(local.sun_path, sizeof(local.sun_path), path))
        return hf__error_set(error, HF_EURL,
                             "socket: not an absolute path of at most %zu bytes: '%s'",
                             sizeof(local.sun_path) - 1, path);
    (void)hf__text_copy(stream->peer, sizeof(stream->peer), path);
    memcpy(&stream->addresses.list[0].socket, &local, sizeof(local));
    stream->addresses.list[0].bytes = sizeof(local);
    stream->addresses.count = 1;
    stream->is_local = true;
    stream->phase = PHASE_NEXT;
    return HF_OK;
}

static int set_up(struct hf__stream *stream, const struct hf__stream_options *options, char *error)
{
    const struct hf__url *url = options->url;
    struct hf__tls_options tls = {
        .host = url->servers[options->server].host,
        .ca = hf__url_option(url, "ca"),
        .cert = hf__url_option(url, "cert"),
        .cert_key = hf__url_option(url, "cert_key"),
        .protocol = options->protocol,
    };
    int status = HF_OK;

    if (options->tls)
        status = hf__tls_new(stream->env, &tls, &stream->tls, error);
    if (status < 0)
        return status;
    status = find_addresses(stream, url, error);
    if (status < 0)
        return status;
    (void)hf__stream_advance(stream, options->now_ns);
    if (stream->phase == PHASE_DOWN && stream->status == HF_ESYSTEM)
        return hf__error_set(error, HF_ESYSTEM, "%s", stream->error);
    return HF_OK;
}

int hf__stream_open(const struct hf__stream_options *options, struct hf__stream **out_stream,
                    char error[HF__ERROR_BYTES])
{
    struct hf__stream *stream;
    int status;

    assert(options && options->env && options->url && out_stream && error);
    assert(options->server < options->url->server_count);

    status = check_options(options, error);
    if (status < 0)
        return status;
    stream = hf__env_new(options->env, sizeof(*stream));
    if (!stream)
        return hf__error_set(error, HF_ENOMEM, "out of memory");
    stream->env = options->env;
    stream->fd = -1;
    stream->deadline_ns = options->deadline_ns;
    stream->is_bare = options->tls && options->tls_later;
    stream->server = options->url->servers[options->server];
    if (stream->server.port == 0)
        stream->server.port = options->port;

    status = set_up(stream, options, error);
    if (status < 0) {
        hf__stream_close(stream);
        return status;
    }
    *out_stream = stream;
    return HF_OK;
}

void hf__stream_close(struct hf__stream *stream)
{
    if (!stream)
        return;
    hf__resolve_drop(stream->resolve);
    hf__tls_free(stream->tls);
    hang_up(stream);
    hf__env_free(stream->env, stream);
}

/* --- Bytes --- */

static ssize_t read_plain(struct hf__stream *stream, void *buffer, size_t buffer_bytes)
{
    ssize_t got = recv(stream->fd, buffer, buffer_bytes, MSG_DONTWAIT);

    if (got > 0)
        return got;
    if (got == 0)
        return break_off(stream, HF_EUNREACHABLE, "closed by the server");
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    return break_off(stream, HF_EUNREACHABLE, strerror(errno));
}

static ssize_t write_plain(struct hf__stream *stream, const void *bytes, size_t count)
{
    ssize_t sent = send(stream->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    bool is_over;

    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    is_over = errno == EPIPE || errno == ECONNRESET;
    if (is_over && !stream->write_has_failed) {
        stream->write_has_failed = true;
        return 0;
    }
    return break_off(stream, HF_EUNREACHABLE, strerror(errno));
}

int hf__stream_listener(const struct hf__stream *stream)
{
    assert(stream && stream->phase == PHASE_UP);

    return stream->is_patient ? stream->fd : -1;
}

size_t hf__stream_listen(int fd, char out_bytes[HF__LISTEN_BYTES])
{
    ssize_t got = recv(fd, out_bytes, HF__LISTEN_BYTES, 0);

    return got > 0 ? (size_t)got : 0;
}

void hf__stream_hush(const struct hf__stream *stream)
{
    (void)shutdown(stream->fd, SHUT_RDWR);
}

void hf__stream_wait_for(const struct hf__stream *stream, int bytes)
{
    assert(stream);

    if (stream->phase == PHASE_UP && stream->is_patient) /* and so without TLS */
        (void)setsockopt(stream->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

ssize_t hf__stream_read(struct hf__stream *stream, void *buffer, size_t buffer_bytes)
{
    char error[HF__ERROR_BYTES];
    ssize_t got;

    assert(stream && stream->phase == PHASE_UP);
    assert(buffer && buffer_bytes > 0);

    if (!stream->tls || stream->is_bare)
        return read_plain(stream, buffer, buffer_bytes);
    got = hf__tls_read(stream->tls, buffer, buffer_bytes, error);
    return got < 0 ? break_off(stream, (int)got, error) : got;
}

ssize_t hf__stream_write(struct hf__stream *stream, const void *bytes, size_t count)
{
    char error[HF__ERROR_BYTES];
    ssize_t sent;

    assert(stream && stream->phase == PHASE_UP);
    assert(bytes && count > 0);

    if (!stream->tls || stream->is_bare)
        return write_plain(stream, bytes, count);
    sent = hf__tls_write(stream->tls, bytes, count, error);
    return sent < 0 ? break_off(stream, (int)sent, error) : sent;
}

static bool wait_while_up(const struct hf__stream *stream, bool wants_write,
                          struct hf__pollset *set)
{
    if (!stream->tls || stream->is_bare)
        return hf__pollset_add(set, stream->fd, wants_write ? POLLIN | POLLOUT : POLLIN);
    if (hf__tls_has_bytes(stream->tls))
        hf__pollset_until(set, 0);
    return hf__pollset_add(set, stream->fd, hf__tls_events(stream->tls, wants_write));
}

bool hf__stream_pollset(const struct hf__stream *stream, bool wants_write, struct hf__pollset *set)
{
    assert(stream && set);

    switch (stream->phase) {
    case PHASE_RESOLVING:
        hf__pollset_until(set, stream->deadline_ns);
        return hf__pollset_add(set, hf__resolve_fd(stream->resolve), POLLIN);
    case PHASE_CONNECTING:
        hf__pollset_until(set, stream->share_until_ns);
        if (stream->again_ns == 0)
            return hf__pollset_add(set, stream->fd, POLLOUT);
        hf__pollset_until(set, stream->again_ns);
        return true;
    case PHASE_SHAKING:
        hf__pollset_until(set, stream->share_until_ns);
        return hf__pollset_add(set, stream->fd, hf__tls_events(stream->tls, false));
    case PHASE_UP:
        return wait_while_up(stream, wants_write, set);
    case PHASE_NEXT:
    case PHASE_DOWN:
        hf__pollset_until(set, 0); /* there is something to do already */
        return true;
    }
    return true;
}

int hf__stream_error(const struct hf__stream *stream, char error[HF__ERROR_BYTES])
{
    assert(stream && error);
    assert(stream->phase == PHASE_DOWN && stream->status < 0);

    (void)hf__text_copy(error, HF__ERROR_BYTES, stream->error);
    return stream->status;
}

/* What talks to its own address stays within the machine. */
static bool stays_within(int fd)
{
    struct sockaddr_storage here = { 0 };
    struct sockaddr_storage there = { 0 };
    socklen_t here_bytes = sizeof(here);
    socklen_t there_bytes = sizeof(there);

    if (getsockname(fd, (struct sockaddr *)&here, &here_bytes) < 0 ||
        getpeername(fd, (struct sockaddr *)&there, &there_bytes) < 0 ||
        here.ss_family != there.ss_family)
        return false;
    if (here.ss_family == AF_INET)
        return ((struct sockaddr_in *)&here)->sin_addr.s_addr ==
               ((struct sockaddr_in *)&there)->sin_addr.s_addr;
    return here.ss_family == AF_INET6 &&
           memcmp(&((struct sockaddr_in6 *)&here)->sin6_addr,
                  &((struct sockaddr_in6 *)&there)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* Bytes that stay within the machine come in where they were sent; those of others, where the
 * network's interrupts happen to go. */
int hf__stream_peer_cpu(const struct hf__stream *stream)
{
    int cpu = -1;
    socklen_t bytes = sizeof(cpu);

    if (!stays_within(stream->fd))
        return -1;
    return getsockopt(stream->fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &bytes) == 0 ? cpu : -1;
}

const char *hf__stream_peer(const struct hf__stream *stream)
{
    assert(stream);

    return stream->peer;
}
