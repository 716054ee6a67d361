/* secret.h: a password that lies in a file. */
#ifndef HF_BASE_SECRET_H
#define HF_BASE_SECRET_H

#include <stddef.h>

#include "base/error.h"
#include "base/url.h"

#define HF__SECRET_BYTES_MAX 255

/* The one line of the file, without its end. HF_EURL, with what is wrong about the file: it is
 * missing, unreadable, no regular file, open to everybody, empty, too long, or more than a line. */
int hf__secret_read(const char *path, char *out_secret, size_t secret_bytes_max,
                    char error[HF__ERROR_BYTES]);

/* The password in the URL, or the one in its password_file; "" if there is none. Read anew for
 * every connection, so that it may be changed under a client that lives. */
int hf__secret_of(const struct hf__url *url, char out_secret[HF__SECRET_BYTES_MAX + 1],
                  char error[HF__ERROR_BYTES]);

#endif
