/* database.c: what does the URL of a database ask for?
 *
 * MySQL and PostgreSQL are asked for in the same words: a user, a database, a prefix of our tables,
 * TLS or a socket. It is read before anything is tried.
 *
 * What can go wrong: a prefix that is no identifier, options that contradict each other, a file
 * that cannot be read: HF_EURL. */
#include "engine/database.h"

#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "holdfast/holdfast.h"

/* It becomes a part of identifiers, which are not quoted. */
int hf__database_read_prefix(const struct hf__url *url, char *out_prefix, size_t prefix_bytes,
                             char error[HF__ERROR_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    const char *prefix = hf__url_option(url, "prefix");

    if (!prefix)
        prefix = HF__DATABASE_PREFIX;
    if (!*prefix || strchr("0123456789", *prefix) || strspn(prefix, letters) != strlen(prefix) ||
        !hf__text_copy(out_prefix, prefix_bytes, prefix))
        return hf__error_set(error, HF_EURL,
                             "prefix= is 1 to %zu of a-z, 0-9 and _, no digit first",
                             prefix_bytes - 1);
    return HF_OK;
}

bool hf__database_wants_tls(const struct hf__url *url)
{
    const char *choice = hf__url_option(url, "tls");

    return choice && strcmp(choice, "verify") == 0;
}

int hf__database_check_tls(const struct hf__url *url, char error[HF__ERROR_BYTES])
{
    static const char *const files[] = { "ca", "cert", "cert_key" };
    bool wanted = hf__database_wants_tls(url);

    if (!hf__url_option(url, "cert") != !hf__url_option(url, "cert_key"))
        return hf__error_set(error, HF_EURL, "cert and cert_key go together");
    if (wanted && hf__url_option(url, "socket"))
        return hf__error_set(error, HF_EURL, "there is no TLS on a Unix socket");
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        const char *path = hf__url_option(url, files[i]);

        if (path && !wanted)
            return hf__error_set(error, HF_EURL, "%s is for TLS: tls=verify", files[i]);
        if (path && access(path, R_OK) < 0)
            return hf__error_set(error, HF_EURL, "%s: '%s' cannot be read", files[i], path);
    }
    return HF_OK;
}

int hf__database_check_place(const struct hf__url *url, char error[HF__ERROR_BYTES])
{
    const char *path = hf__url_option(url, "socket");

    if (!*url->user)
        return hf__error_set(error, HF_EURL, "the URL names no user");
    if (*url->path && strchr(url->path + 1, '/'))
        return hf__error_set(error, HF_EURL, "the path is the name of one database");
    if (path && *path != '/')
        return hf__error_set(error, HF_EURL, "socket: not an absolute path: '%s'", path);
    if (path && url->server_count > 1)
        return hf__error_set(error, HF_EURL, "several servers have no common socket");
    return HF_OK;
}
