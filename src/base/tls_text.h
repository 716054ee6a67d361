/* tls_text.h: why a TLS connection failed, in words and as a status. For tls.c. */
#ifndef HF_BASE_TLS_TEXT_H
#define HF_BASE_TLS_TEXT_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What the socket itself had to say. */
struct hf__tls_wire {
    int failure; /* the errno that ended it; 0: none */
    bool has_ended;
    uint8_t opening[2]; /* the first bytes that came */
    size_t opening_bytes;
};

struct hf__tls_failure {
    const SSL *ssl;
    int code; /* of SSL_get_error() */
    const struct hf__tls_wire *wire;
    const char *host;
    bool is_agreed; /* the handshake was over */
    bool has_own_certificate;
};

void hf__tls_text_hear(struct hf__tls_wire *wire, const void *bytes, size_t count);

/* Why OpenSSL could not do what it was just asked to: the first in the thread's queue of errors.
 * Returns `reason`. */
const char *hf__tls_text_reason(char reason[HF__ERROR_BYTES]);

/* Right after the call that failed. HF_EUNREACHABLE, HF_EDENIED, HF_EPROTOCOL, HF_ENOMEM. */
int hf__tls_text_explain(const struct hf__tls_failure *failure, char error[HF__ERROR_BYTES]);

#endif
