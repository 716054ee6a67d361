/* tls_none.c: what does a build without OpenSSL answer to who asks for TLS?
 *
 * That it has none. So no other of the functions can ever be called, and each says so. Going on
 * without TLS is never the answer. */
#include "base/tls.h"

#include <stdlib.h>

#include "holdfast/holdfast.h"

int hf__tls_new(const struct hf__env *env, const struct hf__tls_options *options,
                struct hf__tls **out_tls, char error[HF__ERROR_BYTES])
{
    (void)env;
    (void)options;
    (void)out_tls;
    return hf__error_set(error, HF_EUNSUPPORTED, "this Holdfast was built without OpenSSL: no TLS");
}

void hf__tls_free(struct hf__tls *tls)
{
    if (tls)
        abort();
}

int hf__tls_start(struct hf__tls *tls, int fd, char error[HF__ERROR_BYTES])
{
    (void)tls;
    (void)fd;
    (void)error;
    abort();
}

int hf__tls_shake(struct hf__tls *tls, char error[HF__ERROR_BYTES])
{
    (void)tls;
    (void)error;
    abort();
}

ssize_t hf__tls_read(struct hf__tls *tls, void *buffer, size_t buffer_bytes,
                     char error[HF__ERROR_BYTES])
{
    (void)tls;
    (void)buffer;
    (void)buffer_bytes;
    (void)error;
    abort();
}

ssize_t hf__tls_write(struct hf__tls *tls, const void *bytes, size_t count,
                      char error[HF__ERROR_BYTES])
{
    (void)tls;
    (void)bytes;
    (void)count;
    (void)error;
    abort();
}

short hf__tls_events(const struct hf__tls *tls, bool wants_write)
{
    (void)tls;
    (void)wants_write;
    abort();
}

bool hf__tls_has_bytes(const struct hf__tls *tls)
{
    (void)tls;
    abort();
}
