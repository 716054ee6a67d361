/* terms.c: what does the URL ask of Redis, and can it be had?
 *
 * The options are checked and read into the connection before the first byte is sent.
 *
 * What can go wrong: an option that is not one of Redis, a number of servers that makes no sense:
 * HF_EURL, with the word that is wrong. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/redis.h"

#define RESTART_WAIT "restart_wait"

/* One that is counted twice is a majority of less than it seems. */
static bool names_one_twice(const struct hf__url *url)
{
    for (size_t i = 0; i < url->server_count; i++) {
        for (size_t k = 0; k < i; k++) {
            unsigned one = url->servers[i].port ? url->servers[i].port : HF__REDIS_PORT;
            unsigned other = url->servers[k].port ? url->servers[k].port : HF__REDIS_PORT;

            if (one == other && strcasecmp(url->servers[i].host, url->servers[k].host) == 0)
                return true;
        }
    }
    return false;
}

static int check_servers(struct hf__redis *conn, const struct hf__url *url)
{
    if (conn->base.recipe->pattern == HF__PATTERN_QUORUM) {
        if (url->server_count < 3 || url->server_count % 2 == 0)
            return hf__error_set(conn->base.error, HF_EURL,
                                 "it takes an odd number of servers, 3 or more, not %zu",
                                 url->server_count);
        if (names_one_twice(url))
            return hf__error_set(conn->base.error, HF_EURL,
                                 "one server is written twice: each counts once");
        if (hf__url_option(url, "socket"))
            return hf__error_set(conn->base.error, HF_EURL, "its servers have no common socket");
        return HF_OK;
    }
    if (url->server_count != 1)
        return hf__error_set(conn->base.error, HF_EURL,
                             "it takes one server (several independent ones: redlock://)");
    return HF_OK;
}

static int check_options(struct hf__redis *conn, const struct hf__url *url)
{
    static const char *const known[] = { "recipe", "prefix",   "password_file", "ca",        "cert",
                                         "tls",    "cert_key", "socket",        RESTART_WAIT };
    int status =
        hf__url_check_options(url, known, sizeof(known) / sizeof(*known), conn->base.error);

    return status < 0 ? status : check_servers(conn, url);
}

static int read_options(struct hf__redis *conn, const struct hf__conn_options *options)
{
    const char *prefix = hf__url_option(options->url, "prefix");
    const char *wait = hf__url_option(options->url, RESTART_WAIT);
    int64_t wait_ms = 0;
    char host[HF__HOST_BYTES] = "";

    if (!hf__text_copy(conn->prefix, sizeof(conn->prefix),
                       prefix ? prefix : conn->recipe->default_prefix))
        return hf__error_set(conn->base.error, HF_EURL, "prefix= has at most %zu bytes",
                             sizeof(conn->prefix) - 1);
    if (wait && !hf__text_to_duration_ms(wait, &wait_ms))
        return hf__error_set(conn->base.error, HF_EURL, "restart_wait='%s' is no duration", wait);
    conn->restart_wait_ns = (uint64_t)wait_ms * HF__NS_PER_MS;
    hf__text_copy(conn->purpose, sizeof(conn->purpose), options->purpose);
    (void)snprintf(conn->client, sizeof(conn->client), "%016llx",
                   (unsigned long long)options->client_id);
    conn->wall_offset_us = options->wall_offset_us;
    conn->listens_to_calls = options->carries_calls;
    conn->listens_to_keeper = options->carries_keeping;
    if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
        hf__text_copy(host, sizeof(host), "unknown");
    for (char *at = host; *at; at++) {
        if (*at <= ' ' || *at > '~')
            *at = '_';
    }
    (void)snprintf(conn->whence, sizeof(conn->whence), "%ld %s", (long)getpid(), host);
    return HF_OK;
}

bool hf__terms_tls(const struct hf__url *url)
{
    return strcmp(url->scheme, "rediss") == 0 || strcmp(url->scheme, "redlocks") == 0;
}

int hf__terms_read(struct hf__redis *conn, const struct hf__conn_options *options)
{
    int status = check_options(conn, options->url);

    return status == HF_OK ? read_options(conn, options) : status;
}
