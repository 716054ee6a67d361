/* database.h: what the URL of a database asks for, whichever it is. */
#ifndef HF_ENGINE_DATABASE_H
#define HF_ENGINE_DATABASE_H

#include "base/url.h"

#define HF__DATABASE_PREFIX "hf_"

/* All of these: HF_EURL, with what is wrong in `error`. */
int hf__database_read_prefix(const struct hf__url *url, char *out_prefix, size_t prefix_bytes,
                             char error[HF__ERROR_BYTES]);
int hf__database_check_tls(const struct hf__url *url, char error[HF__ERROR_BYTES]);
/* Who we are, which database, and at which socket. */
int hf__database_check_place(const struct hf__url *url, char error[HF__ERROR_BYTES]);

bool hf__database_wants_tls(const struct hf__url *url);

#endif
