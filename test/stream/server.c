/* server.c: a server on a thread of its own, which does with each connection what it was told.
 *
 * TLS goes through memory: what OpenSSL wants sent passes server_send(), where it can be cut off or
 * sent byte by byte, as a network might. The thread blocks SIGPIPE for itself: if one comes to the
 * test, it was the client's doing, and ends the test. */
#include "server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server_tls.h"

#define LIMIT_S 60 /* an end to a hang, not a measure */

int server_listen(const char *host, uint16_t port, int backlog, uint16_t *out_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    int failed;

    assert(listener >= 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    failed = inet_pton(AF_INET, host, &address.sin_addr) != 1;
    failed |= bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0;
    failed |= listen(listener, backlog) != 0;
    failed |= getsockname(listener, (struct sockaddr *)&address, &bytes) != 0;
    assert(!failed);
    (void)failed;
    *out_port = ntohs(address.sin_port);
    return listener;
}

static int listen_locally(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed;

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    failed = bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0;
    failed |= listen(listener, 16) != 0;
    assert(!failed);
    (void)failed;
    return listener;
}

bool server_send(struct server *server, const void *bytes, size_t count)
{
    const uint8_t *next = bytes;
    size_t cut = server->manner.cut_bytes;

    while (count > 0) {
        size_t part = server->manner.sends_bytewise ? 1 : count;
        ssize_t sent;

        if (cut > 0 && server->sent_bytes >= cut)
            return false;
        if (cut > 0 && part > cut - server->sent_bytes)
            part = cut - server->sent_bytes;
        sent = send(server->fd, next, part, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        server->sent_bytes += (size_t)sent;
        next += sent;
        count -= (size_t)sent;
    }
    return true;
}

ssize_t server_read(struct server *server, void *buffer, size_t buffer_bytes)
{
    ssize_t got;

    if (server->end)
        return server_tls_read(server, buffer, buffer_bytes);
    do
        got = recv(server->fd, buffer, buffer_bytes, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

bool server_write(struct server *server, const void *bytes, size_t count)
{
    if (server->end)
        return server_tls_write(server, bytes, count);
    return server_send(server, bytes, count);
}

void server_echo(struct server *server)
{
    static __thread uint8_t buffer[65536];
    ssize_t got = server_read(server, buffer, sizeof(buffer));
    unsigned rounds = 0;

    while (got > 0) {
        atomic_fetch_add(&server->got_bytes, (unsigned long long)got);
        if (server->manner.asks_anew && rounds++ % 8 == 0)
            server_tls_ask_anew(server);
        if (!server_write(server, buffer, (size_t)got))
            return;
        got = server_read(server, buffer, sizeof(buffer));
    }
    if (got == 0)
        atomic_fetch_add(&server->goodbyes, 1);
}

void server_hang_up(struct server *server)
{
    (void)server;
}

static void serve_one(struct server *server)
{
    struct timeval limit = { .tv_sec = LIMIT_S };
    int yes = 1;

    (void)setsockopt(server->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(server->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    (void)setsockopt(server->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    server->sent_bytes = 0;
    if (server->manner.tls == SERVER_PLAIN || server_tls_begin(server)) {
        if (server->manner.waits)
            (void)sem_wait(&server->gate);
        server->serve(server);
    }
    server_tls_end(server);
    (void)close(server->fd);
    atomic_fetch_add(&server->served, 1);
}

static void *run(void *argument)
{
    struct server *server = argument;
    sigset_t pipes;

    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipes, NULL);
    server->fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    while (server->fd >= 0) {
        serve_one(server);
        server->fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    }
    return NULL;
}

void server_start(struct server *server, const struct server_manner *manner,
                  void (*serve)(struct server *server), const char *path)
{
    int failed;

    memset(server, 0, sizeof(*server));
    server->manner = *manner;
    server->serve = serve;
    failed = sem_init(&server->gate, 0, 0);
    server->listener =
        path ? listen_locally(path) : server_listen(SERVER_HOST, 0, 64, &server->port);
    failed |= pthread_create(&server->thread, NULL, run, server);
    assert(!failed);
    (void)failed;
}

void server_let_go(struct server *server)
{
    (void)sem_post(&server->gate);
}

void server_stop(struct server *server)
{
    (void)shutdown(server->listener, SHUT_RDWR); /* which wakes accept() */
    (void)pthread_join(server->thread, NULL);
    (void)close(server->listener);
    (void)sem_destroy(&server->gate);
}
