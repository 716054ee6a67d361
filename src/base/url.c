/* url.c: which engine, where, and with which options?
 *
 * The text is cut at its delimiters first and each part is percent-decoded once, after that; so an
 * encoded delimiter is an ordinary byte. All is parsed into a copy that is handed out only whole.
 *
 * What can go wrong is mostly a password with a delimiter in it. Then its pieces turn up as port,
 * path or option: so no error text repeats what it was given, except the name of an unknown option,
 * and an @ that comes after the servers is refused before the options are looked at. Control bytes,
 * and blanks in host, user and path, are refused because protocols of lines would carry them on.
 *
 * Redacting works on any text: what does not parse is taken for a password up to its last @.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "base/url.h"

#include <arpa/inet.h>
#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

#define PORT_DIGITS_MAX 5
#define PORT_MAX        65535
#define HIDDEN          "***"
#define DIGITS          "0123456789"
#define LETTERS         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define HOST_BYTES      LETTERS DIGITS "._-"

/* A piece of the text, not yet decoded, and what to call it in an error. */
struct part {
    const char *what;
    const char *start;
    size_t length;
};

static const char *const known_options[] = {
    "recipe", "prefix", "layout", "password_file", "ca",           "cert", "cert_key",
    "tls",    "socket", "table",  "lock_key",      "restart_wait", "tick",
};

static_assert(sizeof(known_options) / sizeof(*known_options) <= HF__URL_OPTIONS_MAX,
              "each may be given once, so all must fit");

static bool is_known_option(const char *key, size_t length)
{
    for (size_t i = 0; i < sizeof(known_options) / sizeof(*known_options); i++) {
        if (strlen(known_options[i]) == length && memcmp(known_options[i], key, length) == 0)
            return true;
    }
    return false;
}

static bool is_control(char byte)
{
    return (unsigned char)byte < ' ' || byte == 0x7f;
}

/* -1: not a hex digit. */
static int read_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

static int decode(const struct part *part, char *out_text, size_t out_bytes_max, char *error)
{
    size_t written = 0;

    for (size_t i = 0; i < part->length; i++) {
        char byte = part->start[i];

        if (byte == '%') {
            int high = i + 2 < part->length ? read_hex_digit(part->start[i + 1]) : -1;
            int low = i + 2 < part->length ? read_hex_digit(part->start[i + 2]) : -1;

            if (high < 0 || low < 0)
                return hf__error_set(error, HF_EURL, "%s: two hex digits must follow a '%%'",
                                     part->what);
            byte = (char)(high * 16 + low);
            i += 2;
        }
        if (is_control(byte))
            return hf__error_set(error, HF_EURL, "%s: holds a control byte", part->what);
        if (written + 1 == out_bytes_max)
            return hf__error_set(error, HF_EURL, "%s: longer than %zu bytes", part->what,
                                 out_bytes_max - 1);
        out_text[written++] = byte;
    }
    out_text[written] = '\0';
    return HF_OK;
}

static int decode_without_blanks(const struct part *part, char *out_text, size_t out_bytes_max,
                                 char *error)
{
    int status = decode(part, out_text, out_bytes_max, error);

    if (status < 0)
        return status;
    if (strchr(out_text, ' '))
        return hf__error_set(error, HF_EURL, "%s: holds a blank", part->what);
    return HF_OK;
}

/* Reads the scheme in lower case and returns what follows the colon; NULL: there is no scheme. */
static const char *read_scheme(const char *text, struct hf__url *url)
{
    size_t length = strspn(text, LETTERS DIGITS "+.-");

    if (length == 0 || length >= sizeof(url->scheme) || text[length] != ':')
        return NULL;
    if (!strchr(LETTERS, text[0]))
        return NULL;

    for (size_t i = 0; i < length; i++) {
        bool is_upper = text[i] >= 'A' && text[i] <= 'Z';

        url->scheme[i] = (char)(is_upper ? text[i] - 'A' + 'a' : text[i]);
    }
    url->scheme[length] = '\0';
    return text + length + 1;
}

static int read_user(const struct part *part, struct hf__url *url, char *error)
{
    const char *colon = memchr(part->start, ':', part->length);
    size_t user_bytes = colon ? (size_t)(colon - part->start) : part->length;
    struct part user = { "user", part->start, user_bytes };
    struct part password = { "password", part->start + user_bytes, part->length - user_bytes };
    int status;

    if (colon) {
        password.start++;
        password.length--;
    }
    status = decode_without_blanks(&user, url->user, sizeof(url->user), error);
    if (status < 0)
        return status;
    return decode(&password, url->password, sizeof(url->password), error);
}

static int read_port(const struct part *part, uint16_t *out_port, char *error)
{
    uint64_t port = 0;

    if (part->length > PORT_DIGITS_MAX || !hf__text_to_u64(part->start, part->length, &port) ||
        port == 0 || port > PORT_MAX)
        return hf__error_set(error, HF_EURL,
                             "a port is 1 to %d (an IPv6 address stands in brackets)", PORT_MAX);

    *out_port = (uint16_t)port;
    return HF_OK;
}

/* An address, perhaps with the zone that link-local ones need: fe80::1%eth0. */
static bool is_ipv6(const char *host)
{
    size_t length = strcspn(host, "%");
    const char *zone = host + length;
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;

    if (length >= sizeof(address))
        return false;
    memcpy(address, host, length);
    address[length] = '\0';
    if (inet_pton(AF_INET6, address, &parsed) != 1)
        return false;
    return *zone == '\0' || (zone[1] != '\0' && zone[1 + strspn(zone + 1, HOST_BYTES)] == '\0');
}

static int read_host(const struct part *part, bool in_brackets, struct hf__url_server *server,
                     char *error)
{
    int status;

    if (part->length == 0)
        return hf__error_set(error, HF_EURL, "a host is empty");

    status = decode(part, server->host, sizeof(server->host), error);
    if (status < 0)
        return status;
    if (in_brackets && !is_ipv6(server->host))
        return hf__error_set(error, HF_EURL, "in brackets stands no IPv6 address");
    if (!in_brackets && server->host[strspn(server->host, HOST_BYTES)] != '\0')
        return hf__error_set(error, HF_EURL,
                             "a host consists of letters, digits, '.', '-' and '_'");
    return HF_OK;
}

/* host, host:port, [address] or [address]:port */
static int read_server(const struct part *part, struct hf__url_server *server, char *error)
{
    bool in_brackets = part->length > 0 && part->start[0] == '[';
    const char *from = in_brackets ? part->start + 1 : part->start;
    const char *end = part->start + part->length;
    const char *to = memchr(from, in_brackets ? ']' : ':', (size_t)(end - from));
    const char *after;
    int status;

    if (in_brackets && !to)
        return hf__error_set(error, HF_EURL, "a bracket is not closed");
    if (!to)
        to = end;

    status =
        read_host(&(struct part){ "host", from, (size_t)(to - from) }, in_brackets, server, error);
    if (status < 0)
        return status;

    after = in_brackets ? to + 1 : to;
    if (after == end)
        return HF_OK;
    if (*after != ':')
        return hf__error_set(error, HF_EURL, "after a bracket only a port may follow");
    return read_port(&(struct part){ "port", after + 1, (size_t)(end - after - 1) }, &server->port,
                     error);
}

static int read_servers(const struct part *part, struct hf__url *url, char *error)
{
    const char *end = part->start + part->length;
    const char *next = part->start;
    bool more = true;

    while (more) {
        const char *comma = memchr(next, ',', (size_t)(end - next));
        const char *to = comma ? comma : end;
        struct part server = { "server", next, (size_t)(to - next) };
        int status;

        if (url->server_count == HF_SERVERS_MAX)
            return hf__error_set(error, HF_EURL, "more than %d servers", HF_SERVERS_MAX);
        status = read_server(&server, &url->servers[url->server_count], error);
        if (status < 0)
            return status;
        url->server_count++;
        more = comma;
        next = to + (more ? 1 : 0);
    }
    return HF_OK;
}

static int read_option(const struct part *part, struct hf__url *url, char *error)
{
    const char *equals = memchr(part->start, '=', part->length);
    size_t key_bytes = equals ? (size_t)(equals - part->start) : part->length;
    struct hf__url_option *option = &url->options[url->option_count];
    struct part key = { "name of an option", part->start, key_bytes };
    char shown[4 * sizeof(option->key)];
    int status;

    if (!equals)
        return hf__error_set(error, HF_EURL, "an option has no '='");

    status = decode(&key, option->key, sizeof(option->key), error);
    if (status < 0)
        return status;

    (void)hf__text_escape(option->key, strlen(option->key), shown, sizeof(shown));
    if (!is_known_option(option->key, strlen(option->key)))
        return hf__error_set(error, HF_EURL, "no such option: '%s'", shown);
    if (hf__url_option(url, option->key))
        return hf__error_set(error, HF_EURL, "option given twice: '%s'", shown);

    status =
        decode(&(struct part){ "value of an option", equals + 1, part->length - key_bytes - 1 },
               option->value, sizeof(option->value), error);
    if (status < 0)
        return status;
    if (strcmp(option->key, "tls") == 0 && strcmp(option->value, "off") != 0 &&
        strcmp(option->value, "verify") != 0)
        return hf__error_set(error, HF_EURL, "tls is 'off' or 'verify'");

    url->option_count++;
    return HF_OK;
}

/* `text` is what follows the path: nothing, or a question mark and the options. */
static int read_options(const char *text, struct hf__url *url, char *error)
{
    while (*text) {
        size_t length = strcspn(text + 1, "&");
        int status;

        assert(*text == '?' || *text == '&');
        status = read_option(&(struct part){ "option", text + 1, length }, url, error);
        if (status < 0)
            return status;
        text += 1 + length;
    }
    return HF_OK;
}

/* `text` follows "file:". A name of a host is refused: locks of this machine only. */
static int parse_directory(const char *text, struct hf__url *url, char *error)
{
    const char *start = strncmp(text, "//", 2) == 0 ? text + 2 : text;
    size_t length = strcspn(start, "?");
    int status;

    if (start != text && *start != '/' && *start != '?' && *start != '\0')
        return hf__error_set(error, HF_EURL, "file: names no host: write file:DIR or file:///DIR");

    status =
        decode(&(struct part){ "directory", start, length }, url->path, sizeof(url->path), error);
    if (status < 0)
        return status;
    return read_options(start + length, url, error);
}

/* `text` follows "scheme://". */
static int parse_network(const char *text, struct hf__url *url, char *error)
{
    size_t authority_bytes = strcspn(text, "/?");
    const char *path = text + authority_bytes;
    size_t path_bytes = strcspn(path, "?");
    const char *at = memchr(text, '@', authority_bytes);
    struct part servers = { "servers", text, authority_bytes };
    int status;

    if (strchr(at ? at + 1 : text, '@'))
        return hf__error_set(error, HF_EURL,
                             "an '@' that does not end the password must be written %%40, "
                             "and in a password '/' and '?' as %%2F and %%3F");
    if (at) {
        struct part user = { "user", text, (size_t)(at - text) };

        status = read_user(&user, url, error);
        if (status < 0)
            return status;
        servers.start = at + 1;
        servers.length -= user.length + 1;
    }

    status = read_servers(&servers, url, error);
    if (status < 0)
        return status;
    status = decode_without_blanks(&(struct part){ "path", path, path_bytes }, url->path,
                                   sizeof(url->path), error);
    if (status < 0)
        return status;
    return read_options(path + path_bytes, url, error);
}

static int parse(const char *text, struct hf__url *url, char *error)
{
    const char *rest;

    if (strnlen(text, HF__URL_BYTES_MAX + 1) > HF__URL_BYTES_MAX)
        return hf__error_set(error, HF_EURL, "longer than %d bytes", HF__URL_BYTES_MAX);

    rest = read_scheme(text, url);
    if (rest && strcmp(url->scheme, "file") == 0)
        return parse_directory(rest, url, error);
    if (rest && strncmp(rest, "//", 2) == 0)
        return parse_network(rest + 2, url, error);
    return hf__error_set(error, HF_EURL, "not scheme://host:port, and not file:DIR");
}

int hf__url_parse(const char *text, struct hf__url *out_url, char error[HF__ERROR_BYTES])
{
    struct hf__url url = { 0 };
    int status;

    assert(text && out_url && error);

    status = parse(text, &url, error);
    if (status == HF_OK)
        *out_url = url;
    hf__url_wipe(&url);
    return status;
}

const char *hf__url_option(const struct hf__url *url, const char *key)
{
    assert(url && key);
    assert(is_known_option(key, strlen(key)));

    for (size_t i = 0; i < url->option_count; i++) {
        if (strcmp(url->options[i].key, key) == 0)
            return url->options[i].value;
    }
    return NULL;
}

int hf__url_check_options(const struct hf__url *url, const char *const *known, size_t known_count,
                          char error[HF__ERROR_BYTES])
{
    for (size_t i = 0; i < url->option_count; i++) {
        bool found = false;

        for (size_t k = 0; k < known_count; k++)
            found = found || strcmp(url->options[i].key, known[k]) == 0;
        if (!found)
            return hf__error_set(error, HF_EURL, "there is no option '%s' here",
                                 url->options[i].key);
    }
    return HF_OK;
}

void hf__url_wipe(struct hf__url *url)
{
    assert(url);

    explicit_bzero(url->password, sizeof(url->password));
}

/* Counts what was wanted and writes what fits, as snprintf does. */
struct writer {
    char *buffer;
    size_t room;
    size_t length;
};

/* The text may be anybody's: what a terminal would obey is not shown. */
static void show(struct writer *writer, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++, writer->length++) {
        if (writer->length + 1 < writer->room)
            writer->buffer[writer->length] = is_control(text[i]) ? '?' : text[i];
    }
}

static void hide(struct writer *writer)
{
    show(writer, HIDDEN, strlen(HIDDEN));
}

/* The options that we know hold no secret (they name files). What stands behind any other one may
 * be a password, and so may all that follows it. */
static void show_options(struct writer *writer, const char *text)
{
    while (*text) {
        size_t key_bytes = strcspn(text + 1, "=&");
        bool has_value = text[1 + key_bytes] == '=';
        size_t option_bytes = 1 + strcspn(text + 1, "&");

        if (!has_value || !is_known_option(text + 1, key_bytes)) {
            show(writer, text, has_value ? 1 + key_bytes + 1 : 1);
            hide(writer);
            return;
        }
        show(writer, text, option_bytes);
        text += option_bytes;
    }
}

static void show_to_the_end(struct writer *writer, const char *text)
{
    size_t length = strcspn(text, "?");

    show(writer, text, length);
    show_options(writer, text + length);
}

static void show_parsed(struct writer *writer, const char *text, const struct hf__url *url)
{
    size_t scheme_bytes = strlen(url->scheme) + strlen("://");
    const char *at = url->server_count > 0 ? strchr(text, '@') : NULL;
    const char *colon =
        at ? memchr(text + scheme_bytes, ':', (size_t)(at - text) - scheme_bytes) : NULL;

    if (colon) {
        show(writer, text, (size_t)(colon + 1 - text));
        hide(writer);
        text = at;
    }
    show_to_the_end(writer, text);
}

static bool begins_port(const char *text)
{
    size_t digits = strspn(text, DIGITS);

    return digits > 0 && digits <= PORT_DIGITS_MAX && strchr(",/?", text[digits]);
}

/* Whoever forgot the @ and the host wrote the password where a port belongs: the first colon among
 * the servers that no port follows, or NULL. */
static const char *find_odd_port(const char *text)
{
    const char *start = strstr(text, "://");
    const char *next = start ? start + strlen("://") : "";

    while (!strchr("/?", *next)) {
        if (*next == ':' && !begins_port(next + 1))
            return next;
        next += *next == '[' ? strcspn(next, "]/?") : 1;
    }
    return NULL;
}

static void show_unparsed(struct writer *writer, const char *text)
{
    const char *at = strrchr(text, '@');
    const char *colon = at ? NULL : find_odd_port(text);
    const char *mark = at ? memchr(text, '?', (size_t)(at - text)) : NULL;

    if (colon) {
        show(writer, text, (size_t)(colon + 1 - text));
        hide(writer);
        return;
    }
    if (at)
        hide(writer);
    if (mark && memchr(mark, '=', (size_t)(at - mark)))
        return; /* the @ may stand in a password that is an option: it goes on behind it */
    show_to_the_end(writer, at ? at : text);
}

int hf__url_redacted(const char *text, char *buffer, size_t buffer_bytes)
{
    struct writer writer = { .buffer = buffer, .room = buffer_bytes };
    char error[HF__ERROR_BYTES];
    struct hf__url url = { 0 };

    assert(text);
    assert(buffer || buffer_bytes == 0);

    if (parse(text, &url, error) == HF_OK)
        show_parsed(&writer, text, &url);
    else
        show_unparsed(&writer, text);
    hf__url_wipe(&url);

    assert(writer.length <= INT_MAX);
    if (buffer_bytes > 0)
        buffer[writer.length < buffer_bytes ? writer.length : buffer_bytes - 1] = '\0';
    return (int)writer.length;
}
