/* url.h: which engine, where, and with which options? */
#ifndef HF_BASE_URL_H
#define HF_BASE_URL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "holdfast/holdfast.h"

#define HF__URL_BYTES_MAX   4096
#define HF__URL_OPTIONS_MAX 16

struct hf__url_server {
    char host[256]; /* without the brackets of an IPv6 address */
    uint16_t port;  /* 0: none was given */
};

struct hf__url_option {
    char key[24];
    char value[1024];
};

/* Everything percent-decoded, once. */
struct hf__url {
    char scheme[16];
    char user[256];
    char password[256];
    struct hf__url_server servers[HF_SERVERS_MAX];
    size_t server_count;
    char path[1024]; /* with its leading slash; "" if none; of file: the directory as given */
    struct hf__url_option options[HF__URL_OPTIONS_MAX];
    size_t option_count;
};

/* Strict: at most 4 KiB; `scheme://[user[:password]@]host[:port][,host...][/path][?key=value&...]`,
 * or `file:DIR[?...]` (also file:///DIR). NUL, CR, LF and other control bytes are refused also when
 * percent-encoded; ports are 1 to 65535; an option that design section 5 does not list, one that is
 * repeated, an empty host, more than HF_SERVERS_MAX servers: each is HF_EURL with its own text. The
 * text never holds a password. Only the grammar is judged here: which schemes exist is the
 * registry's business. */
int hf__url_parse(const char *text, struct hf__url *out_url, char error[HF__ERROR_BYTES]);

/* NULL where the option was not given. */
const char *hf__url_option(const struct hf__url *url, const char *key);
/* HF_EURL: one was given that is not among those that the engine knows. */
int hf__url_check_options(const struct hf__url *url, const char *const *known, size_t known_count,
                          char error[HF__ERROR_BYTES]);

/* The URL with its password (also one in password-like options) replaced by ***; works on any text,
 * also one that does not parse, and then hides everything up to the last @. As snprintf. */
int hf__url_redacted(const char *text, char *buffer, size_t buffer_bytes);

/* Overwrites the secrets. */
void hf__url_wipe(struct hf__url *url);

#endif
