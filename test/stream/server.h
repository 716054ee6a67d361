/* server.h: a server on a thread of its own, which does with each connection what it was told. */
#ifndef TEST_STREAM_SERVER_H
#define TEST_STREAM_SERVER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "certificates.h"

#define SERVER_HOST "127.0.0.1"

enum server_tls { SERVER_PLAIN, SERVER_TLS, SERVER_TLS_1_2 };

/* How it behaves. What is zero is ordinary. */
struct server_manner {
    enum server_tls tls;
    const char *certificate; /* of certificates.h: "good" */
    const char *protocol;    /* that it offers by ALPN */
    bool wants_certificate;  /* of the client, by the good authority */
    bool sends_bytewise;
    bool waits;       /* for server_let_go(), once the connection is there */
    bool asks_anew;   /* for new keys, time and again */
    size_t cut_bytes; /* hangs up after it has sent so many; 0: does not */
};

struct server;

/* What to do with a connection once it stands (and TLS is agreed upon): the two below, or of the
 * test's own. Returns when it may be closed. Not in the thread of the test: no CHECK. */
void server_echo(struct server *server);
void server_hang_up(struct server *server);

struct server {
    struct server_manner manner;
    void (*serve)(struct server *server);
    const void *material; /* for serve */
    size_t material_bytes;
    int listener;
    uint16_t port;
    pthread_t thread;
    sem_t gate;
    int fd; /* of the connection being served */
    struct server_tls_end *end;
    size_t sent_bytes;
    atomic_uint served;
    atomic_uint agreed;      /* TLS handshakes that succeeded, as the server sees it */
    char asked_host[256];    /* by SNI, of the last one */
    atomic_uint goodbyes;    /* connections that TLS took leave of */
    atomic_ullong got_bytes; /* in all */
};

/* `path`: of a Unix socket; NULL: 127.0.0.1, any port. */
void server_start(struct server *server, const struct server_manner *manner,
                  void (*serve)(struct server *server), const char *path);
void server_let_go(struct server *server);
/* Ends the thread, when it is through with the connection that it has. */
void server_stop(struct server *server);

/* For serve. Bytes; 0: the client ended it; -1: broken. */
ssize_t server_read(struct server *server, void *buffer, size_t buffer_bytes);
bool server_write(struct server *server, const void *bytes, size_t count);
/* On the socket itself, with the manners. */
bool server_send(struct server *server, const void *bytes, size_t count);

/* A socket that listens on this address and port (0: any; returns which). */
int server_listen(const char *host, uint16_t port, int backlog, uint16_t *out_port);

#endif
