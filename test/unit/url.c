/* url.c: is every URL understood as it was meant, or refused with its reason? */
#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dice.h"

static struct hf__url parse(const char *text)
{
    char error[HF__ERROR_BYTES] = "";
    struct hf__url url;
    int status;

    memset(&url, 0x55, sizeof(url));
    status = hf__url_parse(text, &url, error);
    if (status != HF_OK)
        print_message("%s: %s\n", text, error);
    CHECK_EQUAL(status, HF_OK);
    return url;
}

/* Refused, with a text, and nothing written. */
static void check_refused(const char *text, const char *wanted_error)
{
    static struct hf__url url, untouched;
    char error[HF__ERROR_BYTES] = "";
    int status;

    memset(&url, 0x55, sizeof(url));
    memset(&untouched, 0x55, sizeof(untouched));
    status = hf__url_parse(text, &url, error);
    if (status == HF_OK)
        print_message("taken: %s\n", text);
    CHECK_EQUAL(status, HF_EURL);
    CHECK_EQUAL(memcmp(&url, &untouched, sizeof(url)), 0);
    if (!strstr(error, wanted_error))
        print_message("%s\n  says:     %s\n  not with: %s\n", text, error, wanted_error);
    CHECK(error[0] && strstr(error, wanted_error));
}

TEST(url, a_full_one_is_taken_apart)
{
    struct hf__url url = parse("redis://ann:s3cret@h1.example:6379,[2001:db8::1]:6380,h3/7"
                               "?recipe=set&prefix=app%3A&tls=verify");

    CHECK_TEXT(url.scheme, "redis");
    CHECK_TEXT(url.user, "ann");
    CHECK_TEXT(url.password, "s3cret");
    CHECK_EQUAL(url.server_count, 3);
    CHECK_TEXT(url.servers[0].host, "h1.example");
    CHECK_EQUAL(url.servers[0].port, 6379);
    CHECK_TEXT(url.servers[1].host, "2001:db8::1");
    CHECK_EQUAL(url.servers[1].port, 6380);
    CHECK_TEXT(url.servers[2].host, "h3");
    CHECK_EQUAL(url.servers[2].port, 0);
    CHECK_TEXT(url.path, "/7");
    CHECK_EQUAL(url.option_count, 3);
    CHECK_TEXT(hf__url_option(&url, "recipe"), "set");
    CHECK_TEXT(hf__url_option(&url, "prefix"), "app:");
    CHECK_TEXT(hf__url_option(&url, "tls"), "verify");
    CHECK(!hf__url_option(&url, "ca"));
}

TEST(url, what_is_not_given_is_empty)
{
    struct hf__url url = parse("etcd://h");

    CHECK_TEXT(url.user, "");
    CHECK_TEXT(url.password, "");
    CHECK_TEXT(url.path, "");
    CHECK_EQUAL(url.server_count, 1);
    CHECK_EQUAL(url.servers[0].port, 0);
    CHECK_EQUAL(url.option_count, 0);
    CHECK_TEXT(parse("redis://:pw@h").user, "");
    CHECK_TEXT(parse("redis://:pw@h").password, "pw");
    CHECK_TEXT(parse("redis://ann@h").password, "");
    CHECK_TEXT(parse("redis://h/").path, "/");
    CHECK_TEXT(
        hf__url_option(&(struct hf__url){ .options = { { "prefix", "" } }, .option_count = 1 },
                       "prefix"),
        "");
}

TEST(url, a_directory_is_kept_as_it_was_given)
{
    CHECK_TEXT(parse("file:/var/lib/holdfast").path, "/var/lib/holdfast");
    CHECK_TEXT(parse("file:///var/lib/holdfast").path, "/var/lib/holdfast");
    CHECK_TEXT(parse("file:locks").path, "locks");
    CHECK_TEXT(parse("file:./locks/../x").path, "./locks/../x");
    CHECK_TEXT(parse("file:../locks").path, "../locks");
    CHECK_TEXT(parse("file:a b@c:d,e#f").path, "a b@c:d,e#f");
    CHECK_TEXT(parse("file:/a%20b%3Fc%25").path, "/a b?c%");
    CHECK_TEXT(parse("file:").path, "");
    CHECK_TEXT(parse("file:////x").path, "//x");
    CHECK_TEXT(parse("file:?recipe=queue").path, "");
    CHECK_TEXT(hf__url_option(&(struct hf__url[]){ parse("file:/x?recipe=queue") }[0], "recipe"),
               "queue");
    CHECK_EQUAL(parse("file:/x").server_count, 0);
}

TEST(url, a_directory_on_another_host_is_refused)
{
    check_refused("file://host/dir", "names no host");
    check_refused("file://localhost/dir", "names no host");
    check_refused("file://dir", "names no host");
    check_refused("file://u:p@h/dir", "names no host");
}

TEST(url, schemes_are_read_in_lower_case)
{
    CHECK_TEXT(parse("REDIS://h").scheme, "redis");
    CHECK_TEXT(parse("FiLe:x").scheme, "file");
    CHECK_TEXT(parse("a+b-c.d9://h").scheme, "a+b-c.d9");
    CHECK_TEXT(parse("abcdefghijklmno://h").scheme, "abcdefghijklmno");
    check_refused("abcdefghijklmnop://h", "not scheme://");
    check_refused("9p://h", "not scheme://");
    check_refused("://h", "not scheme://");
    check_refused("//h", "not scheme://");
    check_refused("", "not scheme://");
    check_refused("redis", "not scheme://");
    check_refused("redis:h", "not scheme://");
    check_refused("redis:/h", "not scheme://");
    check_refused("host:6379", "not scheme://");
    check_refused("/var/lib/holdfast", "not scheme://");
    check_refused(" redis://h", "not scheme://");
    check_refused("re_dis://h", "not scheme://");
}

TEST(url, hosts_and_ports_are_strict)
{
    CHECK_TEXT(parse("x://a-b_c.D9").servers[0].host, "a-b_c.D9");
    CHECK_TEXT(parse("x://%61").servers[0].host, "a");
    CHECK_EQUAL(parse("x://h:1").servers[0].port, 1);
    CHECK_EQUAL(parse("x://h:65535").servers[0].port, 65535);
    check_refused("x://h:0", "a port is 1 to 65535");
    check_refused("x://h:65536", "a port is 1 to 65535");
    check_refused("x://h:000080", "a port is 1 to 65535");
    check_refused("x://h:", "a port is 1 to 65535");
    check_refused("x://h:+1", "a port is 1 to 65535");
    check_refused("x://h:1x", "a port is 1 to 65535");
    check_refused("x://fe80::1", "a port is 1 to 65535");
    check_refused("x://", "a host is empty");
    check_refused("x:///path", "a host is empty");
    check_refused("x://?tls=off", "a host is empty");
    check_refused("x://:80", "a host is empty");
    check_refused("x://u@", "a host is empty");
    check_refused("x://a,", "a host is empty");
    check_refused("x://,a", "a host is empty");
    check_refused("x://a,,b", "a host is empty");
    check_refused("x://h%2C", "a host consists of");
    check_refused("x://h%2F", "a host consists of");
    check_refused("x://a b", "a host consists of");
    check_refused("x://h#f", "a host consists of");
    check_refused("x://h\xc3\xa9", "a host consists of");
}

TEST(url, an_ipv6_address_stands_in_brackets)
{
    CHECK_TEXT(parse("x://[::1]").servers[0].host, "::1");
    CHECK_TEXT(parse("x://[::ffff:10.0.0.1]:9").servers[0].host, "::ffff:10.0.0.1");
    CHECK_EQUAL(parse("x://[::ffff:10.0.0.1]:9").servers[0].port, 9);
    CHECK_TEXT(parse("x://[fe80::1%25eth0]:9").servers[0].host, "fe80::1%eth0");
    check_refused("x://[::1", "a bracket is not closed");
    check_refused("x://[]", "a host is empty");
    check_refused("x://[10.0.0.1]", "no IPv6 address");
    check_refused("x://[h]", "no IPv6 address");
    check_refused("x://[::1%25]", "no IPv6 address");
    check_refused("x://[::1%25a%20b]", "no IPv6 address");
    check_refused("x://[1:2:3:4:5:6:7:8:9]", "no IPv6 address");
    check_refused("x://[::00000000000000000000000000000000000000000000001]", "no IPv6 address");
    check_refused("x://[fe80::1%eth0]", "two hex digits");
    check_refused("x://[::1]x", "only a port may follow");
    check_refused("x://[::1]6379", "only a port may follow");
    check_refused("x://[::1]:", "a port is 1 to 65535");
}

TEST(url, options_are_known_and_come_once)
{
    const char *known[] = {
        "recipe",   "prefix", "layout", "password_file", "ca",           "cert",
        "cert_key", "socket", "table",  "lock_key",      "restart_wait", "tick"
    };
    char text[1024] = "x://h?tls=off";

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        char once[64], twice[64];
        struct hf__url url;

        (void)snprintf(once, sizeof(once), "x://h?%s=v%%31", known[i]);
        (void)snprintf(twice, sizeof(twice), "x://h?%s=1&tls=off&%s=", known[i], known[i]);
        url = parse(once);
        CHECK_TEXT(hf__url_option(&url, known[i]), "v1");
        check_refused(twice, "option given twice: '");
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "&%s=a", known[i]);
    }
    CHECK_EQUAL(parse(text).option_count, 13);
    check_refused("x://h?recipie=set", "no such option: 'recipie'");
    check_refused("x://h?password=set", "no such option: 'password'");
    check_refused("x://h?Recipe=set", "no such option: 'Recipe'");
    check_refused("x://h?=set", "no such option: ''");
    check_refused("x://h?re%1bcipe=set", "name of an option: holds a control byte");
    check_refused("x://h?re%ff=set", "no such option: 're\\xff'");
    check_refused("x://h?abcdefghijklmnopqrstuvwxyz=1", "longer than 23");
    check_refused("x://h?recipe", "no '='");
    check_refused("x://h?", "no '='");
    check_refused("x://h?tls=off&", "no '='");
    check_refused("x://h?tls=off&&ca=x", "no '='");
    check_refused("x://h?tls=on", "tls is 'off' or 'verify'");
    check_refused("x://h?tls=", "tls is 'off' or 'verify'");
    check_refused("file:x?nonsense=1", "no such option: 'nonsense'");
    CHECK_TEXT(parse("x://h?ca=a=b?c").options[0].value, "a=b?c");
}

TEST(url, asking_for_an_option_that_does_not_exist_is_a_mistake)
{
    struct hf__url url = parse("x://h");

    CHECK_ABORTS(hf__url_option(&url, "recipie"));
}

TEST(url, what_is_encoded_is_decoded_once)
{
    CHECK_TEXT(parse("x://u%40v%3Aw:p%40%2F%3F%3a%20@h").user, "u@v:w");
    CHECK_TEXT(parse("x://u%40v%3Aw:p%40%2F%3F%3a%20@h").password, "p@/?: ");
    CHECK_TEXT(parse("x://u:a:b@h").password, "a:b");
    CHECK_TEXT(parse("x://h/%2541").path, "/%41");
    CHECK_TEXT(parse("x://h?ca=%2526").options[0].value, "%26");
    CHECK_TEXT(parse("x://h/a%3Fb%23").path, "/a?b#");
    check_refused("x://h/%", "path: two hex digits must follow a '%'");
    check_refused("x://h/%4", "path: two hex digits must follow a '%'");
    check_refused("x://h/%4?ca=1", "path: two hex digits must follow a '%'");
    check_refused("x://h/%4g", "path: two hex digits must follow a '%'");
    check_refused("x://u:%zz@h", "password: two hex digits must follow a '%'");
}

static const struct {
    const char *before;
    const char *after;
    const char *raw;     /* which printing bytes are refused raw ... */
    const char *encoded; /* ... and which encoded                    */
    bool is_host;
} places[] = {
    /* The rest of the delimiters end their part, and what follows is refused or is another part. */
    { "x://", ".z@h", "%@/? ", " ", false },  { "x://u:p", ".z@h", "%@/?", "", false },
    { "x://h", ".z", "", "", true },          { "x://h/p", ".z", "%@? ", " ", false },
    { "x://h?ca=v", ".z", "%@&", "", false }, { "file:d", ".z", "%?", "", false },
};

static bool is_host_byte(int byte)
{
    return byte > 0 && byte < 0x80 &&
           strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", byte);
}

static int try(const char *text)
{
    char error[HF__ERROR_BYTES];
    struct hf__url url;

    return hf__url_parse(text, &url, error);
}

TEST(url, every_byte_in_every_place_is_taken_or_refused_as_decided)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        for (int byte = 1; byte < 256; byte++) {
            bool is_control = byte < ' ' || byte == 0x7f;
            bool raw = !is_control && !strchr(places[i].raw, byte);
            bool encoded = !is_control && !strchr(places[i].encoded, byte);
            char text[64];

            if (places[i]
                    .is_host) { /* a comma, slash or @ makes another part of it, which is fine */
                raw = is_host_byte(byte) || strchr(",/@", byte);
                encoded = is_host_byte(byte);
            }
            (void)snprintf(text, sizeof(text), "%s%c%s", places[i].before, byte, places[i].after);
            if ((try(text) == HF_OK) != raw)
                print_message("raw byte %02x: %s\n", (unsigned)byte, text);
            CHECK((try(text) == HF_OK) == raw);
            (void)snprintf(text, sizeof(text), "%s%%%02X%s", places[i].before, (unsigned)byte,
                           places[i].after);
            if ((try(text) == HF_OK) != encoded)
                print_message("encoded: %s\n", text);
            CHECK((try(text) == HF_OK) == encoded);
        }
        char nul[64];

        (void)snprintf(nul, sizeof(nul), "%s%%00%s", places[i].before, places[i].after);
        check_refused(nul, "holds a control byte");
    }
}

static void check_room(const char *before, size_t room, const char *after)
{
    char text[2000];
    int length;

    for (size_t count = room - 1; count <= room; count++) {
        length = snprintf(text, sizeof(text), "%s", before);
        memset(text + length, 'a', count);
        (void)snprintf(text + length + count, sizeof(text) - (size_t)length - count, "%s", after);
        if (count < room)
            CHECK_EQUAL(try(text), HF_OK);
        else
            check_refused(text, "longer than");
    }
}

TEST(url, every_part_has_its_room)
{
    check_room("x://", 256, "@h");
    check_room("x://u:", 256, "@h");
    check_room("x://", 256, "");
    check_room("x://h/", 1023, "");
    check_room("file:", 1024, "");
    check_room("x://h?ca=", 1024, "");
}

TEST(url, four_kilobytes_are_taken_and_no_more)
{
    char text[HF__URL_BYTES_MAX + 2];
    size_t length = (size_t)snprintf(text, sizeof(text),
                                     "x://h?ca=%1000s&cert=%1000s&socket="
                                     "%1000s&prefix=%1000s&table=",
                                     "", "", "", "");

    memset(text + length, 'a', sizeof(text) - length);
    text[HF__URL_BYTES_MAX] = '\0';
    CHECK_EQUAL(try(text), HF_OK);
    text[HF__URL_BYTES_MAX] = 'a';
    text[HF__URL_BYTES_MAX + 1] = '\0';
    check_refused(text, "longer than 4096 bytes");
}

TEST(url, thirty_two_servers_are_taken_and_no_more)
{
    char text[HF_SERVERS_MAX * 8 + 64] = "x://h0:1";
    struct hf__url url;

    for (int i = 1; i < HF_SERVERS_MAX; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",h%d:%d", i, i + 1);
    url = parse(text);
    CHECK_EQUAL(url.server_count, HF_SERVERS_MAX);
    CHECK_TEXT(url.servers[31].host, "h31");
    CHECK_EQUAL(url.servers[31].port, 32);
    (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",h");
    check_refused(text, "more than 32 servers");
}

TEST(url, every_beginning_of_a_url_is_taken_or_refused_whole)
{
    const char *whole = "redis://ann:s3%40t@h1:6379,[fe80::1%25e]:80/a%20?recipe=set&tls=verify";
    size_t taken = 0;

    for (size_t length = 0; length <= strlen(whole); length++) {
        char *text = strndup(whole, length); /* the sanitizer watches its end */
        char error[HF__ERROR_BYTES] = "";
        struct hf__url url;
        int status;

        CHECK(text);
        status = hf__url_parse(text, &url, error);
        CHECK(status == HF_OK || (status == HF_EURL && error[0]));
        taken += status == HF_OK;
        free(text);
    }
    CHECK(taken > 0 && taken < strlen(whole));
}

TEST(url, wiping_leaves_no_password)
{
    struct hf__url url = parse("redis://ann:s3cret@h");

    hf__url_wipe(&url);
    for (size_t i = 0; i < sizeof(url.password); i++)
        CHECK(url.password[i] == '\0');
    CHECK_TEXT(url.user, "ann");
    CHECK_TEXT(url.servers[0].host, "h");
}
