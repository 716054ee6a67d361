/* resolve.h: the addresses of a name, without waiting for them. */
#ifndef HF_BASE_RESOLVE_H
#define HF_BASE_RESOLVE_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/env.h"
#include "base/error.h"
#include "base/url.h"

#define HF__ADDRESSES_MAX 16 /* of one name; more are left out */

struct hf__address {
    struct sockaddr_storage socket;
    socklen_t bytes;
};

struct hf__addresses {
    struct hf__address list[HF__ADDRESSES_MAX]; /* in the order in which to try them */
    size_t count;
};

struct hf__resolve; /* a question under way */

/* A numeric address is answered at once: HF_OK, *out_resolve is NULL and *out_addresses has it.
 * Otherwise a thread of its own asks the resolver (getaddrinfo knows no time limit) and
 * *out_resolve is the question. HF_EURL: no such form of address; HF_ENOMEM, HF_ESYSTEM. The port
 * of the server must be there. */
int hf__resolve_start(const struct hf__env *env, const struct hf__url_server *server,
                      struct hf__addresses *out_addresses, struct hf__resolve **out_resolve,
                      char error[HF__ERROR_BYTES]);

/* Readable when the answer is there. */
int hf__resolve_fd(const struct hf__resolve *resolve);

/* 1: answered, with one address at least, and the question is freed; 0: not yet; < 0:
 * HF_EUNREACHABLE with why, and the question is freed. */
int hf__resolve_finish(struct hf__resolve *resolve, struct hf__addresses *out_addresses,
                       char error[HF__ERROR_BYTES]);

/* No longer interested; the thread ends by itself. Accepts NULL. */
void hf__resolve_drop(struct hf__resolve *resolve);

#endif
