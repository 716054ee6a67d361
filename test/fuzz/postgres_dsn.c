/* postgres_dsn.c (fuzz): whatever a URL says, libpq is told that and nothing else. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/postgres/postgres.h"
#include "target.h"

#define URL_BYTES 5000

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword; options++) {
        if (strcmp(options->keyword, keyword) == 0)
            return options->val ? options->val : "";
    }
    return NULL;
}

/* What libpq reads is what stands in the URL; and everything has a value. */
static void check_written(const struct hf__postgres *conn, const char *dsn)
{
    const struct hf__url *url = conn->url;
    const char *database = *url->path && url->path[1] ? url->path + 1 : url->user;
    char *error = NULL;
    PQconninfoOption *options = PQconninfoParse(dsn, &error);

    assert(options && !error);
    assert(strcmp(value_of(options, "user"), url->user) == 0);
    assert(strcmp(value_of(options, "password"), conn->password) == 0);
    assert(strcmp(value_of(options, "dbname"), database) == 0);
    assert(strcmp(value_of(options, "hostaddr"), "192.0.2.7") == 0);
    assert(strcmp(value_of(options, "sslmode"), "verify-full") == 0 ||
           strcmp(value_of(options, "sslmode"), "disable") == 0);
    for (const PQconninfoOption *at = options; at->keyword; at++)
        assert(at->val || strncmp(at->keyword, "service", strlen("service")) == 0);
    PQconninfoFree(options);
}

static void read_url(const struct hf__env *env, const struct hf__url *url)
{
    struct hf__postgres *conn = calloc(1, sizeof(*conn));
    struct hf__conn_options options = { .url = url, .purpose = "fuzz", .client_id = 1 };
    const char *recipe = hf__url_option(url, "recipe");
    char *dsn = NULL;
    int status;

    assert(conn);
    conn->base.env = env;
    conn->base.recipe =
        recipe && strcmp(recipe, "advisory") == 0 ? &hf__postgres_advisory : &hf__postgres_queue;
    status = hf__dsn_read(conn, &options);
    assert(status == HF_OK || status == HF_EURL);
    assert(status == HF_OK || *conn->base.error);
    if (status == HF_OK)
        dsn = hf__dsn_write(conn, "192.0.2.7");
    if (dsn)
        check_written(conn, dsn);
    hf__dsn_free(conn, dsn);
    free(conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct hf__url *url = calloc(1, sizeof(*url));
    char text[URL_BYTES] = "";
    char error[HF__ERROR_BYTES] = "";
    struct hf__env env;

    assert(url && hf__env_init(&env) == HF_OK);
    memcpy(text, bytes, count < sizeof(text) - 1 ? count : sizeof(text) - 1);
    /* A file is none of ours here. */
    if (hf__url_parse(text, url, error) == HF_OK && strcmp(url->scheme, "postgres") == 0 &&
        !hf__url_option(url, "password_file"))
        read_url(&env, url);
    hf__env_done(&env);
    free(url);
    return 0;
}
