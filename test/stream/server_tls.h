/* server_tls.h: the server's end of TLS, for server.c. */
#ifndef TEST_STREAM_SERVER_TLS_H
#define TEST_STREAM_SERVER_TLS_H

#include "server.h"

/* Goes through the handshake. */
bool server_tls_begin(struct server *server);
void server_tls_end(struct server *server); /* also where none was begun */
ssize_t server_tls_read(struct server *server, void *buffer, size_t buffer_bytes);
bool server_tls_write(struct server *server, const void *bytes, size_t count);
/* Changes its own keys, and wants the client to do so too (TLS 1.3). */
void server_tls_ask_anew(struct server *server);

#endif
