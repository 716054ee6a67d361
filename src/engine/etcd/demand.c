/* demand.c: what does the URL ask of etcd, and can it be had?
 *
 * The options are checked and read into the connection before the first byte is sent.
 *
 * What can go wrong: an option that is not one of etcd, a prefix that is too long: HF_EURL, with
 * the word that is wrong. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/etcd/etcd.h"

#define DEFAULT_PREFIX "holdfast/"
#define PREFIX_ROOM    (HF__LOCK_KEY_BYTES - HF_NAME_BYTES_MAX - 2)

static int check_options(struct hf__etcd *conn, const struct hf__url *url)
{
    static const char *const known[] = { "recipe", "prefix", "layout", "password_file",
                                         "ca",     "cert",   "tls",    "cert_key" };

    return hf__url_check_options(url, known, sizeof(known) / sizeof(*known), conn->base.error);
}

/* The path, without the slash that begins it, and the prefix behind it. */
static int read_prefix(struct hf__etcd *conn, const struct hf__url *url)
{
    const char *layout = hf__url_option(url, "layout");
    const char *prefix = hf__url_option(url, "prefix");
    const char *path = url->path + strspn(url->path, "/");
    int written;

    conn->is_raw = layout != NULL;
    if (layout && strcmp(layout, "etcd") != 0)
        return hf__error_set(conn->base.error, HF_EURL, "layout='%s' is not etcd", layout);
    if (!prefix)
        prefix = conn->is_raw ? "" : DEFAULT_PREFIX;
    written = snprintf(conn->prefix, sizeof(conn->prefix), "%s%s%s", path,
                       *path && path[strlen(path) - 1] != '/' ? "/" : "", prefix);
    if (written < 0 || (size_t)written >= PREFIX_ROOM)
        return hf__error_set(conn->base.error, HF_EURL, "path and prefix= are too long");
    if (written > 0 && (unsigned char)conn->prefix[written - 1] == UCHAR_MAX)
        return hf__error_set(conn->base.error, HF_EURL, "prefix= must not end with the byte FF");
    conn->prefix_bytes = (size_t)written;
    return HF_OK;
}

static int read_secret(struct hf__etcd *conn, const struct hf__url *url)
{
    const char *file = hf__url_option(url, "password_file");

    conn->user[0] = conn->password[0] = '\0';
    if (!*url->user && (file || *url->password))
        return hf__error_set(conn->base.error, HF_EURL,
                             "a password without a user: etcd://user@host");
    if (file && *url->password)
        return hf__error_set(conn->base.error, HF_EURL,
                             "a password and password_file: which one is it?");
    if (!hf__text_copy(conn->user, sizeof(conn->user), url->user) ||
        !hf__text_copy(conn->password, sizeof(conn->password), url->password))
        return hf__error_set(conn->base.error, HF_EURL, "user or password are too long");
    if (file)
        return hf__secret_read(file, conn->password, sizeof(conn->password) - 1, conn->base.error);
    return HF_OK;
}

bool hf__demand_tls(const struct hf__url *url)
{
    return strcmp(url->scheme, "etcds") == 0;
}

int hf__demand_read(struct hf__etcd *conn, const struct hf__conn_options *options)
{
    int status = check_options(conn, options->url);

    if (status == HF_OK)
        status = read_prefix(conn, options->url);
    if (status == HF_OK)
        status = read_secret(conn, options->url);
    if (status < 0)
        return status;
    conn->client_id = options->client_id;
    hf__text_copy(conn->purpose, sizeof(conn->purpose), options->purpose);
    hf__bearer_whence(conn->whence);
    return HF_OK;
}
