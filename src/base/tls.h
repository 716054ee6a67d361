/* tls.h: the client's side of TLS on a socket that does not block. For stream.c, which is what
 * engines use. A build without OpenSSL has tls_none.c behind it. */
#ifndef HF_BASE_TLS_H
#define HF_BASE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/env.h"
#include "base/error.h"

/* Texts are borrowed until free. */
struct hf__tls_options {
    const char *host; /* the name or address that the server's certificate must be for */
    const char *ca;   /* a file; NULL: the system's */
    const char *cert; /* files; NULL: none; both or neither */
    const char *cert_key;
    const char *protocol; /* NULL: any */
};

struct hf__tls;

/* Reads the files. HF_EURL (which, and why), HF_ENOMEM, HF_EUNSUPPORTED: there is no TLS here. */
int hf__tls_new(const struct hf__env *env, const struct hf__tls_options *options,
                struct hf__tls **out_tls, char error[HF__ERROR_BYTES]);
/* Accepts NULL. Takes leave of the server if there is one; before the socket is closed. */
void hf__tls_free(struct hf__tls *tls);

/* Begins on a connected socket, which stays the caller's; what was before is forgotten. */
int hf__tls_start(struct hf__tls *tls, int fd, char error[HF__ERROR_BYTES]);
/* 1: agreed upon; 0: not now; < 0: HF_EUNREACHABLE, HF_EDENIED, HF_EPROTOCOL, HF_ENOMEM. */
int hf__tls_shake(struct hf__tls *tls, char error[HF__ERROR_BYTES]);

/* Bytes moved; 0: not now; < 0: as above, and that was all. As hf__stream_read and _write. */
ssize_t hf__tls_read(struct hf__tls *tls, void *buffer, size_t buffer_bytes,
                     char error[HF__ERROR_BYTES]);
ssize_t hf__tls_write(struct hf__tls *tls, const void *bytes, size_t count,
                      char error[HF__ERROR_BYTES]);

/* POLLIN, POLLOUT: what must happen to the socket before going on makes sense. */
short hf__tls_events(const struct hf__tls *tls, bool wants_write);
/* read() has something to give that the socket does not know of. */
bool hf__tls_has_bytes(const struct hf__tls *tls);

#endif
