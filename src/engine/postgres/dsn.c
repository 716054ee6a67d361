/* dsn.c: what does the URL ask of PostgreSQL, and how is libpq told?
 *
 * The options are checked and read before anything is tried. libpq is given a connection string in
 * which every parameter that it knows has a value, an empty one if need be: so that neither the
 * environment (PGHOST, PGOPTIONS ...) nor a file in somebody's home (.pgpass, .postgresql) says
 * anything that the URL does not. Where an empty value would send it to look at home, it gets a
 * path at which nothing can be.
 *
 * What can go wrong: an option that is none of ours, a file that cannot be read: HF_EURL. A service
 * that is named in the environment and does not exist: libpq says so when it connects. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/postgres/postgres.h"

#define DSN_BYTES   8192
#define NOWHERE     "/dev/null/none"
#define SOCKET_NAME "/.s.PGSQL."

/* --- reading the URL --- */

static int check_options(struct hf__postgres *conn)
{
    static const char *const known[] = { "recipe", "prefix",   "password_file", "ca",      "cert",
                                         "tls",    "cert_key", "socket",        "lock_key" };

    return hf__url_check_options(conn->url, known, sizeof(known) / sizeof(*known),
                                 conn->base.error);
}

/* A whole number of 64 bits, perhaps negative, as pg_advisory_lock() takes it. */
static int read_lock_key(struct hf__postgres *conn)
{
    const char *text = hf__url_option(conn->url, "lock_key");
    bool is_negative = text && *text == '-';
    uint64_t number = 0;

    if (!text)
        return HF_OK;
    if (!hf__postgres_is_advisory(conn))
        return hf__error_set(conn->base.error, HF_EURL, "lock_key is for recipe=advisory");
    text += is_negative;
    if (!hf__text_to_u64(text, strlen(text), &number) ||
        number > (uint64_t)INT64_MAX + (is_negative ? 1 : 0))
        return hf__error_set(conn->base.error, HF_EURL, "lock_key is a whole number of 64 bits");
    conn->has_key = true;
    conn->lock_key = is_negative ? (int64_t)(0 - number) : (int64_t)number;
    return HF_OK;
}

int hf__dsn_read(struct hf__postgres *conn, const struct hf__conn_options *options)
{
    int status;

    conn->url = options->url;
    status = check_options(conn);
    if (status == HF_OK)
        status = hf__database_read_prefix(conn->url, conn->prefix, sizeof(conn->prefix),
                                          conn->base.error);
    if (status == HF_OK)
        status = read_lock_key(conn);
    if (status == HF_OK)
        status = hf__database_check_tls(conn->url, conn->base.error);
    if (status == HF_OK)
        status = hf__database_check_place(conn->url, conn->base.error);
    if (status == HF_OK)
        status = hf__secret_of(conn->url, conn->password, conn->base.error);
    (void)hf__text_copy(conn->purpose, sizeof(conn->purpose), options->purpose);
    conn->client_id = options->client_id;
    (void)snprintf(conn->client, sizeof(conn->client), "%016llx",
                   (unsigned long long)options->client_id);
    hf__bearer_whence(conn->whence);
    conn->listens = options->carries_keeping;
    return status;
}

uint16_t hf__dsn_port(const struct hf__postgres *conn)
{
    uint16_t port = conn->url->servers[conn->dial.server].port;

    return port ? port : HF__POSTGRES_PORT;
}

/* --- telling libpq --- */

struct setting {
    const char *keyword;
    const char *value;
};

/* keyword='value' */
static void put(struct hf__buffer *out, const char *keyword, const char *value, int *status)
{
    char text[2];

    if (*status == HF_OK)
        *status = hf__buffer_append(out, keyword, strlen(keyword));
    if (*status == HF_OK)
        *status = hf__buffer_append(out, "='", 2);
    for (; *status == HF_OK && *value; value++) {
        bool is_special = *value == '\'' || *value == '\\';

        text[0] = '\\';
        text[is_special] = *value;
        *status = hf__buffer_append(out, text, is_special ? 2 : 1);
    }
    if (*status == HF_OK)
        *status = hf__buffer_append(out, "' ", 2);
}

/* What libpq calls "system" only from version 16 on. */
static const char *find_authorities(void)
{
    static const char *const paths[] = { "/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem" };

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        if (access(paths[i], R_OK) == 0)
            return paths[i];
    }
    return NOWHERE;
}

/* Where the Unix socket is: libpq wants its folder and its number. */
static void split_socket(const char *path, char *out_folder, size_t folder_bytes, char out_port[8])
{
    const char *name = strstr(path, SOCKET_NAME);
    size_t digits = name ? strlen(name + strlen(SOCKET_NAME)) : 0;

    (void)hf__text_copy(out_folder, folder_bytes, path);
    if (digits == 0 || digits >= 8)
        return;
    (void)hf__text_copy(out_port, 8, name + strlen(SOCKET_NAME));
    if ((size_t)(name - path) < folder_bytes)
        out_folder[name - path] = '\0';
}

static const char *value_of(const struct setting *settings, const char *keyword)
{
    for (; settings->keyword; settings++) {
        if (strcmp(settings->keyword, keyword) == 0)
            return settings->value;
    }
    return NULL;
}

static int put_all(const struct setting *settings, struct hf__buffer *out)
{
    PQconninfoOption *known = PQconndefaults();
    int status = known ? HF_OK : HF_ENOMEM;

    for (const PQconninfoOption *at = known; status == HF_OK && at->keyword; at++) {
        const char *value = value_of(settings, at->keyword);

        if (strncmp(at->keyword, "service", strlen("service")) == 0)
            continue;
        if (!value)
            value = at->compiled ? at->compiled : "";
        put(out, at->keyword, value, &status);
    }
    PQconninfoFree(known);
    return status == HF_OK ? hf__buffer_append(out, "", 1) : status;
}

char *hf__dsn_write(const struct hf__postgres *conn, const char *address)
{
    const struct hf__url *url = conn->url;
    const char *path = hf__url_option(url, "socket");
    const char *ca = hf__url_option(url, "ca");
    const char *cert = hf__url_option(url, "cert");
    const char *key = hf__url_option(url, "cert_key");
    char folder[sizeof(url->options[0].value)];
    char port[8];
    struct hf__buffer out;
    char *dsn = NULL;

    (void)snprintf(port, sizeof(port), "%u", (unsigned)hf__dsn_port(conn));
    (void)hf__text_copy(folder, sizeof(folder), url->servers[conn->dial.server].host);
    if (path)
        split_socket(path, folder, sizeof(folder), port);
    hf__buffer_init(&out, conn->base.env, DSN_BYTES);
    if (put_all(
            (const struct setting[]){
                { "host", folder },
                { "hostaddr", address },
                { "port", port },
                { "dbname", *url->path && url->path[1] ? url->path + 1 : url->user },
                { "user", url->user },
                { "password", conn->password },
                { "passfile", NOWHERE },
                { "sslmode", hf__database_wants_tls(url) ? "verify-full" : "disable" },
                { "sslrootcert", ca ? ca : find_authorities() },
                { "sslcert", cert ? cert : NOWHERE },
                { "sslkey", key ? key : NOWHERE },
                { "sslcrl", NOWHERE },
                { "gssencmode", "disable" },
                { "channel_binding", "prefer" },
                { "target_session_attrs", "any" },
                { "application_name", "holdfast" },
                { "client_encoding", "UTF8" },
                { "keepalives", "1" },
                { "keepalives_idle", "15" },
                { "keepalives_interval", "5" },
                { "keepalives_count", "3" },
                { "tcp_user_timeout", "30000" },
                { NULL, NULL },
            },
            &out) == HF_OK)
        dsn = hf__env_copy_text(conn->base.env, hf__buffer_front(&out));
    hf__buffer_done(&out);
    return dsn;
}

void hf__dsn_free(const struct hf__postgres *conn, char *dsn)
{
    if (dsn)
        explicit_bzero(dsn, strlen(dsn));
    hf__env_free(conn->base.env, dsn);
}
