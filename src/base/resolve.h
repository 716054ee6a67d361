/* resolve.h: the addresses of a name, without waiting for them. */
#ifndef HF_BASE_RESOLVE_H
#define HF_BASE_RESOLVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/env.h"
#include "base/error.h"

#define HF__ADDRESSES_MAX 16

struct hf__address {
    struct sockaddr_storage socket;
    socklen_t bytes;
};

struct hf__resolve; /* a question under way */

/* A numeric address is answered at once: HF_OK, and *out_resolve is NULL with *out_count set.
 * Otherwise a thread of its own asks the resolver (getaddrinfo knows no time limit) and
 * *out_resolve is the question. HF_EURL: no such form of address; HF_ENOMEM, HF_ESYSTEM. */
int hf__resolve_start(const struct hf__env *env, const char *host, uint16_t port,
                      struct hf__address out_addresses[HF__ADDRESSES_MAX], size_t *out_count,
                      struct hf__resolve **out_resolve, char error[HF__ERROR_BYTES]);

/* Readable when the answer is there. */
int hf__resolve_fd(const struct hf__resolve *resolve);

/* 1: answered, and the question is freed; 0: not yet; < 0: HF_EUNREACHABLE with why, and the
 * question is freed. */
int hf__resolve_finish(struct hf__resolve *resolve,
                       struct hf__address out_addresses[HF__ADDRESSES_MAX], size_t *out_count,
                       char error[HF__ERROR_BYTES]);

/* No longer interested; the thread ends by itself. Accepts NULL. */
void hf__resolve_drop(struct hf__resolve *resolve);

#endif
