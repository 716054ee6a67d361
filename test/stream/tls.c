/* tls.c: is the right server trusted, and every other one refused with the reason? */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "client.h"
#include "dice.h"
#include "server.h"

static const enum server_tls kinds[] = { SERVER_TLS_1_2, SERVER_TLS };

/* "rediss://HOST:PORT?ca=AUTHORITY" and what else there is. */
static void open_to(struct client *client, const struct server *server, const char *host,
                    const char *authority, const char *more)
{
    char path[CERTIFICATES_PATH_BYTES];

    certificates_path(authority, "pem", path);
    client_open(client, "rediss://%s:%u?ca=%s%s", host, (unsigned)server->port, path, more);
    if (client->status < 0)
        fail_msg("%s", client->error);
}

/* A server with this certificate, asked for by this name, must be refused in these words. */
static void check_refused(const char *certificate, const char *host, const char *authority,
                          const char *words)
{
    for (size_t i = 0; i < 2; i++) {
        struct server_manner manner = { .tls = kinds[i], .certificate = certificate };
        struct server server;
        struct client client = { .now_ns = 0 };

        server_start(&server, &manner, server_echo, NULL);
        open_to(&client, &server, host, authority, "");
        CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
        CHECK(client_is_down(&client, HF_EDENIED, words));
        client_close(&client);
        server_stop(&server);
        CHECK_EQUAL(server.got_bytes, 0);
    }
}

static void own_certificate(const char *certificate, const char *key, char out_options[2048])
{
    char certificate_path[CERTIFICATES_PATH_BYTES];
    char key_path[CERTIFICATES_PATH_BYTES];

    certificates_path(certificate, "pem", certificate_path);
    certificates_path(key, "key", key_path);
    (void)snprintf(out_options, 2048, "&cert=%s&cert_key=%s", certificate_path, key_path);
}

TEST(tls, a_good_server_is_trusted_by_its_name)
{
    for (size_t i = 0; i < 2; i++) {
        struct server_manner manner = { .tls = kinds[i], .certificate = "named" };
        struct server server;
        struct client client = { .now_ns = 0 };
        char answer[6] = "";

        server_start(&server, &manner, server_echo, NULL);
        open_to(&client, &server, "good.test", "authority", "&tls=verify");
        CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
        CHECK(client_write(&client, "hello", 5));
        CHECK_EQUAL(client_read(&client, answer, 5, 5), 5);
        CHECK_TEXT(answer, "hello");
        client_close(&client);
        server_stop(&server);
        CHECK_TEXT(server.asked_host, "good.test");
        CHECK_EQUAL(server.agreed, 1);
        CHECK_EQUAL(server.goodbyes, 1);
    }
}

TEST(tls, a_good_server_is_trusted_by_its_address)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "good" };
    struct server server;
    struct client client = { .now_ns = 0 };
    char answer[3] = "";

    server_start(&server, &manner, server_echo, NULL);
    open_to(&client, &server, "127.0.0.1", "authority", "");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    CHECK(client_write(&client, "ab", 2));
    CHECK_EQUAL(client_read(&client, answer, 2, 2), 2);
    client_close(&client);
    server_stop(&server);
    CHECK_TEXT(server.asked_host, ""); /* an address is no name to ask for */
}

TEST(tls, a_unix_socket_can_have_it_too)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "good" };
    struct server server;
    struct client client = { .now_ns = 0 };
    char path[CERTIFICATES_PATH_BYTES];
    char option[CERTIFICATES_PATH_BYTES + 16];

    certificates_place("s", path);
    (void)snprintf(option, sizeof(option), "&socket=%s", path);
    server_start(&server, &manner, server_echo, path);
    server.port = 1; /* which nobody looks at */
    open_to(&client, &server, "good.test", "authority", option);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    client_close(&client);
    server_stop(&server);
    CHECK_EQUAL(unlink(path), 0);
}

TEST(tls, an_unknown_authority_is_refused)
{
    check_refused("strange", "good.test", "authority", "is by nobody that is trusted (ca)");
    check_refused("good", "good.test", "stranger", "is by nobody that is trusted (ca)");
}

/* Nobody has put our authority into this machine's store. */
TEST(tls, without_ca_the_system_decides)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "good" };
    struct server server;
    struct client client = { .now_ns = 0 };

    server_start(&server, &manner, server_echo, NULL);
    client_open(&client, "rediss://good.test:%u", (unsigned)server.port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK(client_is_down(&client, HF_EDENIED, "is by nobody that is trusted (ca)"));
    client_close(&client);
    server_stop(&server);
}

TEST(tls, another_name_is_refused)
{
    check_refused("good", "wrong.test", "authority", "certificate is not for 'wrong.test'");
    check_refused("named", "127.0.0.1", "authority", "certificate is not for '127.0.0.1'");
}

TEST(tls, a_certificate_out_of_its_time_is_refused)
{
    check_refused("expired", "good.test", "authority", "certificate has expired");
    check_refused("early", "good.test", "authority", "certificate is not valid yet");
}

TEST(tls, a_certificate_signed_by_itself_is_refused_unless_it_is_the_trusted_one)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "alone" };
    struct server server;
    struct client client = { .now_ns = 0 };

    check_refused("alone", "good.test", "authority", "certificate is self-signed");

    server_start(&server, &manner, server_echo, NULL);
    open_to(&client, &server, "good.test", "alone", "");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    client_close(&client);
    server_stop(&server);
}

/* Another address of the same name must not hide a certificate that is not to be trusted. */
TEST(tls, a_refused_certificate_is_final)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "expired" };
    struct server server;
    struct client client = { .now_ns = 0 };

    server_start(&server, &manner, server_echo, NULL);
    open_to(&client, &server, "many.test", "authority", "");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK_EQUAL(client.status, HF_EDENIED);
    client_close(&client);
    server_stop(&server);
    CHECK_EQUAL(server.served, 1);
}

TEST(tls, a_client_without_the_certificate_that_is_wanted_is_told)
{
    for (size_t i = 0; i < 2; i++) {
        struct server_manner manner = { .tls = kinds[i],
                                        .certificate = "good",
                                        .wants_certificate = true };
        struct server server;
        struct client client = { .now_ns = 0 };

        server_start(&server, &manner, server_echo, NULL);
        open_to(&client, &server, "good.test", "authority", "");
        if (client_settle(&client) == HF__STREAM_UP) /* TLS 1.3 learns of it afterwards */
            CHECK_EQUAL(client_drain(&client), 0);
        CHECK(client_is_down(&client, HF_EDENIED, "the server refused us"));
        CHECK(client_is_down(&client, HF_EDENIED, "cert, cert_key"));
        client_close(&client);
        server_stop(&server);
        CHECK_EQUAL(server.agreed, 0);
    }
}

TEST(tls, a_client_with_a_good_certificate_is_let_in_and_with_another_is_not)
{
    static const char *const own[] = { "client", "strange" };

    for (size_t i = 0; i < 4; i++) {
        bool is_good = i / 2 == 0;
        struct server_manner manner = { .tls = kinds[i % 2],
                                        .certificate = "good",
                                        .wants_certificate = true };
        struct server server;
        struct client client = { .now_ns = 0 };
        char options[2048];
        char answer[3] = "";

        own_certificate(own[i / 2], own[i / 2], options);
        server_start(&server, &manner, server_echo, NULL);
        open_to(&client, &server, "good.test", "authority", options);
        if (is_good) {
            CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
            CHECK(client_write(&client, "ab", 2));
            CHECK_EQUAL(client_read(&client, answer, 2, 2), 2);
        } else {
            if (client_settle(&client) == HF__STREAM_UP)
                CHECK_EQUAL(client_drain(&client), 0);
            CHECK(client_is_down(&client, HF_EDENIED, "the server refused us"));
            CHECK(!strstr(client.error, "cert_key"));
        }
        client_close(&client);
        server_stop(&server);
        CHECK_EQUAL(server.agreed, is_good ? 1 : 0);
    }
}

TEST(tls, the_protocol_must_be_agreed_upon)
{
    static const struct {
        const char *offered;
        const char *wanted;
        bool works;
    } cases[] = {
        { "h2", "h2", true },
        { "http/1.1", "h2", false },
        { NULL, "h2", false },
        { "h2", NULL, true },
    };

    for (size_t i = 0; i < 4; i++) {
        struct server_manner manner = { .tls = SERVER_TLS,
                                        .certificate = "good",
                                        .protocol = cases[i].offered };
        struct server server;
        struct client client = { .protocol = cases[i].wanted };

        server_start(&server, &manner, server_echo, NULL);
        open_to(&client, &server, "good.test", "authority", "");
        CHECK_EQUAL(client_settle(&client), cases[i].works ? HF__STREAM_UP : HF__STREAM_DOWN);
        if (!cases[i].works)
            CHECK(client_is_down(&client, HF_EPROTOCOL, "the server does not offer h2"));
        client_close(&client);
        server_stop(&server);
    }
}

/* --- The URL's options --- */

static void check_url(const char *scheme, const char *options, int status, const char *words)
{
    struct client client = { .now_ns = 0 };

    client_open(&client, "%s://127.0.0.1:1?%s", scheme, options);
    CHECK(client_is_down(&client, status, words));
    client_close(&client);
}

TEST(tls, options_that_contradict_each_other_are_refused)
{
    check_url("rediss", "tls=off", HF_EURL, "tls=off contradicts rediss://");
    check_url("redis", "tls=verify", HF_EURL, "tls=verify, but redis:// has no TLS");
    check_url("redis", "ca=/x", HF_EURL, "ca is for TLS, which redis:// does not have");
    check_url("redis", "cert=/x&cert_key=/y", HF_EURL, "cert is for TLS");
    check_url("rediss", "cert=/x", HF_EURL, "cert and cert_key go together");
    check_url("rediss", "cert_key=/x", HF_EURL, "cert and cert_key go together");
}

TEST(tls, files_that_cannot_be_read_are_named)
{
    struct client client = { .now_ns = 0 };
    char options[2048];
    char path[CERTIFICATES_PATH_BYTES];
    FILE *file;

    check_url("rediss", "ca=/no/such/file", HF_EURL, "ca: '/no/such/file': No such file");
    check_url("rediss", "cert=/no/such&cert_key=/x", HF_EURL, "cert: '/no/such': No such file");

    certificates_place("garbage", path);
    file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs("this is no certificate\n", file) >= 0);
    CHECK_EQUAL(fclose(file), 0);
    client_open(&client, "rediss://127.0.0.1:1?ca=%s", path);
    CHECK(client_is_down(&client, HF_EURL, "/garbage': "));
    client_close(&client);
    CHECK_EQUAL(unlink(path), 0);

    own_certificate("client", "no-such", options);
    check_url("rediss", options + 1, HF_EURL, "/no-such.key': No such file");
    own_certificate("client", "good", options);
    check_url("rediss", options + 1, HF_EURL, "/good.key': key values mismatch");
    own_certificate("sealed", "sealed", options); /* and nobody is asked on the terminal */
    check_url("rediss", options + 1, HF_EURL, "/sealed.key': it is encrypted");
}

/* --- Servers that are no TLS servers --- */

/* Sends the material, as soon as something came. */
static void serve_material(struct server *server)
{
    char byte;

    (void)recv(server->fd, &byte, 1, 0);
    (void)server_send(server, server->material, server->material_bytes);
    while (recv(server->fd, &byte, 1, 0) > 0)
        continue;
}

static void check_material(const void *material, size_t bytes, int status, const char *words)
{
    static const struct server_manner plain = { .tls = SERVER_PLAIN };
    struct server server;
    struct client client = { .now_ns = 0 };

    server_start(&server, &plain, serve_material, NULL);
    server.material = material;
    server.material_bytes = bytes;
    open_to(&client, &server, "good.test", "authority", "");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK(client_is_down(&client, status, words));
    client_close(&client);
    server_stop(&server);
}

TEST(tls, a_server_without_it_is_told)
{
    static const char redis[] = "-ERR Protocol error: unauthenticated multibulk length\r\n";
    static const char web[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

    check_material(redis, strlen(redis), HF_EPROTOCOL, "the server does not speak TLS");
    check_material(web, strlen(web), HF_EPROTOCOL, "the server does not speak TLS");
    check_material("\x16\x04\x00\x00\x05", 5, HF_EPROTOCOL, "the server does not speak TLS");
    check_material("\x16\x03\x03\x00\x04GARB", 9, HF_EPROTOCOL, "TLS: ");
}

TEST(tls, a_server_without_it_that_says_little_is_told_too)
{
    static const struct server_manner plain = { .tls = SERVER_PLAIN, .cut_bytes = 2 };
    struct server server;
    struct client client = { .now_ns = 0 };

    server_start(&server, &plain, server_echo, NULL); /* sends back what came, but two bytes only */
    open_to(&client, &server, "good.test", "authority", "");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK_EQUAL(client.status, HF_EUNREACHABLE);
    client_close(&client);
    server_stop(&server);
}

TEST(tls, a_server_that_says_nothing_is_given_up_at_the_deadline)
{
    static const struct server_manner plain = { .tls = SERVER_PLAIN };
    uint64_t now_ns = hf__clock_now_ns();
    struct server server;
    struct client client = { .deadline_ns = now_ns + 100 * HF__NS_PER_MS };

    server_start(&server, &plain, serve_material, NULL); /* an empty one */
    open_to(&client, &server, "127.0.0.1", "authority", "");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK(client_is_down(&client, HF_EUNREACHABLE, "in time (perhaps the server does not speak"));
    client_close(&client);
    server_stop(&server);
}

TEST(tls, garbage_in_the_handshake_is_never_trusted)
{
    static const struct server_manner plain = { .tls = SERVER_PLAIN };
    struct dice dice = { .state = 7 };
    uint8_t material[2048];
    struct server server;

    server_start(&server, &plain, serve_material, NULL);
    for (unsigned round = 0; round < 300; round++) {
        struct client client = { .now_ns = 0 };

        dice_fill(&dice, material, sizeof(material));
        if (round % 3 != 0)
            memcpy(material, "\x16\x03\x03\x01\x40", 5); /* a record of 320 bytes */
        if (round % 3 == 2)
            memcpy(material + 5, "\x02\x00\x01\x3c\x03\x03", 6); /* a ServerHello */
        server.material = material;
        server.material_bytes = sizeof(material);
        open_to(&client, &server, "good.test", "authority", "");
        CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
        CHECK_EQUAL(client.status, HF_EPROTOCOL);
        client_close(&client);
        while (atomic_load(&server.served) <= round) /* it is done with the material */
            usleep(100);
    }
    server_stop(&server);
}

/* The server hangs up after its first, 41st, 81st ... byte: whatever stage that is, it is told, and
 * the client is never up before the server has said everything. */
TEST(tls, a_server_may_hang_up_at_any_stage)
{
    unsigned downs = 0, ups = 0;

    for (size_t i = 0; i < 2; i++) {
        for (size_t cut = 1; cut < 2000; cut += 40) {
            struct server_manner manner = { .tls = kinds[i],
                                            .certificate = "good",
                                            .cut_bytes = cut };
            struct server server;
            struct client client = { .now_ns = 0 };

            server_start(&server, &manner, server_hang_up, NULL);
            open_to(&client, &server, "good.test", "authority", "");
            if (client_settle(&client) == HF__STREAM_UP) {
                ups++;
                CHECK_EQUAL(client_drain(&client), 0);
                CHECK(!strstr(client.error, "handshake"));
            } else {
                downs++;
                CHECK(strstr(client.error, " during the TLS handshake"));
            }
            CHECK_EQUAL(client.status, HF_EUNREACHABLE);
            client_close(&client);
            server_stop(&server);
        }
    }
    print_message("  hung up on %u times during the handshake, %u times after\n", downs, ups);
    CHECK(downs > 10 && ups > 10);
}

TEST(tls, closing_in_the_middle_of_a_handshake_leaves_nothing)
{
    static const struct server_manner plain = { .tls = SERVER_PLAIN };
    struct server server;
    struct client client = { .now_ns = 0 };

    server_start(&server, &plain, serve_material, NULL);
    open_to(&client, &server, "127.0.0.1", "authority", "");
    CHECK_EQUAL(hf__stream_advance(client.stream, hf__clock_now_ns()), HF__STREAM_CONNECTING);
    client_close(&client);
    server_stop(&server);
}
