/* whither.c: what does the URL ask of a MySQL server?
 *
 * The options are checked and read before anything is tried.
 *
 * What can go wrong: an option that is none of ours, options that contradict each other, a file
 * that cannot be read: HF_EURL. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/mysql/mysql.h"

static int check_options(struct hf__mysql *conn)
{
    static const char *const known[] = { "recipe",   "prefix", "password_file", "ca",   "tls",
                                         "cert_key", "socket", "cert",          "table" };

    return hf__url_check_options(conn->url, known, sizeof(known) / sizeof(*known),
                                 conn->base.error);
}

static int read_table(struct hf__mysql *conn)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *table = hf__url_option(conn->url, "table");

    if (table && !hf__sql_recipe(conn)->table)
        return hf__error_set(conn->base.error, HF_EURL,
                             "table is for recipe=row, for-update and version");
    if (table && (!*table || strspn(table, letters) != strlen(table) ||
                  !hf__text_copy(conn->table, sizeof(conn->table), table)))
        return hf__error_set(conn->base.error, HF_EURL, "table= is 1 to %zu of A-Z, a-z, 0-9 and _",
                             sizeof(conn->table) - 1);
    return HF_OK;
}

int hf__whither_read(struct hf__mysql *conn, const struct hf__conn_options *options)
{
    int status;

    conn->url = options->url;
    status = check_options(conn);
    if (status == HF_OK)
        status = hf__database_read_prefix(conn->url, conn->prefix, sizeof(conn->prefix),
                                          conn->base.error);
    if (status == HF_OK)
        status = read_table(conn);
    if (status == HF_OK)
        status = hf__database_check_tls(conn->url, conn->base.error);
    if (status == HF_OK)
        status = hf__database_check_place(conn->url, conn->base.error);
    if (status == HF_OK)
        status = hf__secret_of(conn->url, conn->password, conn->base.error);
    (void)hf__text_copy(conn->purpose, sizeof(conn->purpose), options->purpose);
    (void)snprintf(conn->client, sizeof(conn->client), "%016llx",
                   (unsigned long long)options->client_id);
    hf__bearer_whence(conn->whence);
    conn->listens = options->carries_keeping && hf__sql_recipe(conn)->texts[HF__SQL_LISTEN];
    return status;
}
