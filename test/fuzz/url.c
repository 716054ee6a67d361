/* url.c (fuzz): a text is a URL or is refused, and is shown without its password. */
#include "base/url.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

static const char *const options[] = {
    "recipe", "prefix", "layout", "password_file", "ca",           "cert", "cert_key",
    "tls",    "socket", "table",  "lock_key",      "restart_wait", "tick",
};

static void check_text(const char *text, size_t room)
{
    size_t length = strnlen(text, room);

    assert(length < room);
    for (size_t i = 0; i < length; i++)
        assert((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void check_url(const struct hf__url *url)
{
    size_t given = 0;

    check_text(url->scheme, sizeof(url->scheme));
    check_text(url->user, sizeof(url->user));
    check_text(url->password, sizeof(url->password));
    check_text(url->path, sizeof(url->path));
    assert(url->scheme[0] != '\0' && !strchr(url->user, ' '));
    assert((url->server_count == 0) == (strcmp(url->scheme, "file") == 0));
    assert(url->server_count <= HF_SERVERS_MAX);
    for (size_t i = 0; i < url->server_count; i++) {
        check_text(url->servers[i].host, sizeof(url->servers[i].host));
        assert(url->servers[i].host[0] != '\0');
        assert(!strpbrk(url->servers[i].host, " /,@[]"));
    }
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
        const char *value = hf__url_option(url, options[i]);

        if (value)
            check_text(value, sizeof(url->options[0].value));
        given += value != NULL;
    }
    assert(given == url->option_count);
}

/* Shown twice: once whole, once cut. */
static void check_shown(const char *text, bool has_password)
{
    int length = hf__url_redacted(text, NULL, 0);
    size_t room = (size_t)length + 1;
    char *whole = malloc(room);
    char *cut = malloc(room / 2 + 1);

    assert(length >= 0 && whole && cut);
    assert(hf__url_redacted(text, whole, room) == length);
    assert(strlen(whole) == (size_t)length);
    check_text(whole, room);
    assert(!has_password || strstr(whole, ":***@"));
    assert(hf__url_redacted(text, cut, room / 2 + 1) == length);
    assert(strncmp(cut, whole, strlen(cut)) == 0);
    free(whole);
    free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char error[HF__ERROR_BYTES] = "";
    char *text = malloc(count + 1);
    struct hf__url url;
    int status;

    assert(text);
    memcpy(text, bytes, count);
    text[count] = '\0';

    status = hf__url_parse(text, &url, error);
    assert(status == HF_OK || (status == HF_EURL && error[0] != '\0'));
    check_text(error, sizeof(error));
    if (status == HF_OK)
        check_url(&url);
    check_shown(text, status == HF_OK && url.password[0] != '\0');
    if (status == HF_OK)
        hf__url_wipe(&url);
    free(text);
    return 0;
}
