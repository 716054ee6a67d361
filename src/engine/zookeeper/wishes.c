/* wishes.c: what does the URL ask of ZooKeeper, and can it be had?
 *
 * The options are checked and read into the connection before the first byte is sent.
 *
 * What can go wrong: an option that is not one of ZooKeeper, a path that is none: HF_EURL, with the
 * word that is wrong. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/zookeeper/zookeeper.h"

#define DEFAULT_PREFIX "/holdfast/"
#define TICK_NS        (2 * HF__NS_PER_S)

static int check_options(struct hf__zookeeper *conn, const struct hf__url *url)
{
    static const char *const known[] = { "recipe", "prefix", "layout",   "password_file", "ca",
                                         "cert",   "tls",    "cert_key", "tick" };

    return hf__url_check_options(url, known, sizeof(known) / sizeof(*known), conn->base.error);
}

static int read_layout(struct hf__zookeeper *conn, const char *layout)
{
    static const char *const names[] = {
        [HF__LAYOUT_OWN] = "",
        [HF__LAYOUT_CURATOR] = "curator",
        [HF__LAYOUT_CURATOR_RW] = "curator-rw",
        [HF__LAYOUT_KAZOO] = "kazoo",
    };

    conn->layout = HF__LAYOUT_OWN;
    if (!layout)
        return HF_OK;
    if (conn->recipe->single)
        return hf__error_set(conn->base.error, HF_EURL, "layout= is of the recipe sequence");
    for (size_t i = 1; i < sizeof(names) / sizeof(*names); i++) {
        if (strcmp(layout, names[i]) != 0)
            continue;
        conn->layout = (enum hf__layout_kind)i;
        return HF_OK;
    }
    return hf__error_set(conn->base.error, HF_EURL,
                         "layout='%s' is none of curator, curator-rw, kazoo", layout);
}

/* The chroot, and the prefix behind it. */
static int read_root(struct hf__zookeeper *conn, const struct hf__url *url)
{
    const char *prefix = hf__url_option(url, "prefix");
    size_t bytes = strlen(url->path);
    int written;

    if (!prefix)
        prefix = conn->layout == HF__LAYOUT_OWN ? DEFAULT_PREFIX : "";
    while (bytes > 0 && url->path[bytes - 1] == '/')
        bytes--;
    conn->chroot_bytes = bytes;
    written = snprintf(conn->root, sizeof(conn->root) - 1100, "%.*s%s%s", (int)bytes, url->path,
                       *prefix && *prefix != '/' ? "/" : "", prefix);
    if (written < 0 || (size_t)written >= sizeof(conn->root) - 1100)
        return hf__error_set(conn->base.error, HF_EURL, "path and prefix= are too long");
    if (strstr(conn->root, "//"))
        return hf__error_set(conn->base.error, HF_EURL, "'%s' is no path: it has an empty part",
                             conn->root);
    conn->root_bytes = (size_t)written;
    if (written > 0 && conn->root[written - 1] != '/')
        memcpy(conn->root + conn->root_bytes++, "/", 2);
    return HF_OK;
}

static int read_secret(struct hf__zookeeper *conn, const struct hf__url *url)
{
    const char *file = hf__url_option(url, "password_file");
    char password[HF__SECRET_BYTES_MAX + 1] = "";
    int status = HF_OK;

    conn->secret[0] = '\0';
    if (!*url->user) {
        if (file || *url->password)
            return hf__error_set(conn->base.error, HF_EURL,
                                 "a password without a user: zookeeper://user@host");
        return HF_OK;
    }
    if (file && *url->password)
        return hf__error_set(conn->base.error, HF_EURL,
                             "a password and password_file: which one is it?");
    if (file)
        status = hf__secret_read(file, password, sizeof(password) - 1, conn->base.error);
    else
        (void)hf__text_copy(password, sizeof(password), url->password);
    if (status == HF_OK)
        (void)snprintf(conn->secret, sizeof(conn->secret), "%s:%s", url->user, password);
    explicit_bzero(password, sizeof(password));
    return status;
}

bool hf__wishes_tls(const struct hf__url *url)
{
    return strcmp(url->scheme, "zookeepers") == 0;
}

int hf__wishes_read(struct hf__zookeeper *conn, const struct hf__conn_options *options)
{
    const char *tick = hf__url_option(options->url, "tick");
    int64_t tick_ms = 0;
    int status = check_options(conn, options->url);

    if (status == HF_OK)
        status = read_layout(conn, hf__url_option(options->url, "layout"));
    if (status == HF_OK)
        status = read_root(conn, options->url);
    if (status == HF_OK)
        status = read_secret(conn, options->url);
    if (status < 0)
        return status;
    if (tick && (!hf__text_to_duration_ms(tick, &tick_ms) || tick_ms < 1))
        return hf__error_set(conn->base.error, HF_EURL, "tick='%s' is no duration", tick);
    conn->tick_ns = tick ? (uint64_t)tick_ms * HF__NS_PER_MS : TICK_NS;
    conn->lease_ns = options->lease_ns;
    hf__text_copy(conn->purpose, sizeof(conn->purpose), options->purpose);
    hf__bearer_whence(conn->whence);
    return HF_OK;
}
