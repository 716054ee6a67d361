/* bytes.c: do bytes pass whole and in order, with TLS and without, and does the end come as one? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "client.h"
#include "server.h"
#include "server_tls.h"

#define BIG_BYTES (16u << 20)

static const enum server_tls kinds[] = { SERVER_PLAIN, SERVER_TLS_1_2, SERVER_TLS };
#define KINDS (sizeof(kinds) / sizeof(*kinds))

static void connect_to(struct client *client, const struct server *server)
{
    char authority[CERTIFICATES_PATH_BYTES];
    char url[CERTIFICATES_PATH_BYTES + 64];

    certificates_path("authority", "pem", authority);
    if (server->manner.tls == SERVER_PLAIN)
        (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", (unsigned)server->port);
    else
        (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%u?ca=%s", (unsigned)server->port,
                       authority);
    client_connect(client, url);
}

static uint8_t *make_pattern(size_t count)
{
    uint8_t *pattern = malloc(count);

    CHECK(pattern != NULL);
    for (size_t i = 0; i < count; i++)
        pattern[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
    return pattern;
}

TEST(bytes, sent_one_by_one_arrive)
{
    static const char text[] = "one byte at a time, from the first of the handshake to the last";

    for (size_t i = 0; i < KINDS; i++) {
        struct server_manner manner = { .tls = kinds[i],
                                        .certificate = "good",
                                        .sends_bytewise = true };
        struct server server;
        struct client client = { .now_ns = 0 };
        char answer[sizeof(text)] = "";

        server_start(&server, &manner, server_echo, NULL);
        connect_to(&client, &server);
        for (size_t at = 0; at < sizeof(text); at++)
            CHECK(client_write(&client, text + at, 1));
        CHECK_EQUAL(client_read(&client, answer, sizeof(answer), 1), sizeof(answer));
        CHECK_TEXT(answer, text);
        client_close(&client);
        server_stop(&server);
    }
}

/* The record comes at once; who reads a part of it must not be sent to wait for the socket. */
TEST(bytes, that_tls_has_in_hand_are_not_waited_for)
{
    uint8_t *pattern = make_pattern(10000);

    for (size_t i = 1; i < KINDS; i++) {
        struct server_manner manner = { .tls = kinds[i], .certificate = "good" };
        struct server server;
        struct client client = { .now_ns = 0 };
        struct hf__pollset set;
        uint8_t answer[10000] = { 0 };

        server_start(&server, &manner, server_echo, NULL);
        connect_to(&client, &server);
        CHECK(client_write(&client, pattern, sizeof(answer)));
        CHECK_EQUAL(client_read(&client, answer, 1, 1), 1);
        hf__pollset_init(&set);
        CHECK(hf__stream_pollset(client.stream, false, &set));
        CHECK(set.deadline_ns == 0);
        CHECK_EQUAL(client_read(&client, answer + 1, sizeof(answer) - 1, 7), sizeof(answer) - 1);
        CHECK_EQUAL(memcmp(answer, pattern, sizeof(answer)), 0);
        CHECK_EQUAL(hf__stream_read(client.stream, answer, 1), 0);
        hf__pollset_init(&set);
        CHECK(hf__stream_pollset(client.stream, false, &set));
        CHECK(set.deadline_ns == HF__NEVER);
        CHECK_EQUAL(set.fds[0].events, POLLIN);
        client_close(&client);
        server_stop(&server);
    }
    free(pattern);
}

/* Writes and reads as an engine would, both as far as they go, then waits for either. */
static size_t pump(struct client *client, const uint8_t *pattern, uint8_t *answer)
{
    size_t sent = 0, got = 0, stuck = 0;

    while (got < BIG_BYTES) {
        size_t part = BIG_BYTES - sent;
        ssize_t more = part ? hf__stream_write(client->stream, pattern + sent, part) : 0;
        ssize_t came = 1;

        CHECK(more >= 0);
        sent += (size_t)more;
        stuck += part > 0 && more == 0;
        while (came > 0 && got < BIG_BYTES) {
            came = hf__stream_read(client->stream, answer + got, BIG_BYTES - got);
            if (came < 0) {
                client_note_error(client);
                fail_msg("after %zu bytes: %s", got, client->error);
            }
            got += (size_t)came;
        }
        if (more == 0 && got < BIG_BYTES)
            client_wait(client, sent < BIG_BYTES);
    }
    return stuck;
}

TEST(bytes, many_pass_both_ways_with_a_peer_that_dawdles)
{
    uint8_t *pattern = make_pattern(BIG_BYTES);
    uint8_t *answer = calloc(1, BIG_BYTES);

    CHECK(answer != NULL);
    for (size_t i = 0; i < KINDS; i++) {
        struct server_manner manner = { .tls = kinds[i],
                                        .certificate = "good",
                                        .waits = true,
                                        .asks_anew = kinds[i] == SERVER_TLS };
        struct server server;
        struct client client = { .now_ns = 0 };
        size_t sent = 0;
        ssize_t more = 1;

        server_start(&server, &manner, server_echo, NULL);
        connect_to(&client, &server);
        memset(answer, 0, BIG_BYTES);
        while (more > 0) { /* until nothing more goes in, for nobody reads */
            more = hf__stream_write(client.stream, pattern + sent, BIG_BYTES - sent);
            CHECK(more >= 0);
            sent += (size_t)more;
        }
        CHECK(sent > 0 && sent < BIG_BYTES);
        CHECK_EQUAL(hf__stream_read(client.stream, answer, 1), 0);
        server_let_go(&server);

        CHECK(client_write(&client, pattern + sent, 1 + 65536)); /* the moved buffer goes on */
        CHECK(client_read(&client, answer, sent, sent) == sent);
        CHECK_EQUAL(memcmp(answer, pattern, sent), 0);
        CHECK_EQUAL(client_read(&client, answer + sent, 65537, 4096), 65537);
        CHECK_EQUAL(memcmp(answer + sent, pattern + sent, 65537), 0);
        client_close(&client);
        server_stop(&server);
    }
    free(answer);
    free(pattern);
}

TEST(bytes, full_duplex_loses_nothing)
{
    uint8_t *pattern = make_pattern(BIG_BYTES);
    uint8_t *answer = calloc(1, BIG_BYTES);
    size_t stuck = 0;

    CHECK(answer != NULL);
    for (size_t i = 0; i < KINDS; i++) {
        struct server_manner manner = { .tls = kinds[i],
                                        .certificate = "good",
                                        .asks_anew = kinds[i] == SERVER_TLS };
        struct server server;
        struct client client = { .now_ns = 0 };

        server_start(&server, &manner, server_echo, NULL);
        connect_to(&client, &server);
        memset(answer, 0, BIG_BYTES);
        stuck += pump(&client, pattern, answer);
        CHECK_EQUAL(memcmp(answer, pattern, BIG_BYTES), 0);
        CHECK_EQUAL(server.got_bytes, BIG_BYTES);
        client_close(&client);
        server_stop(&server);
        CHECK_EQUAL(server.goodbyes, 1);
    }
    print_message("  %zu writes had to wait\n", stuck);
    free(answer);
    free(pattern);
}

#define NEW_KEYS_MAX 500000

/* Asks for new keys with every byte until it is let go, and only then reads. */
static void serve_new_keys(struct server *server)
{
    size_t count = 0;

    while (sem_trywait(&server->gate) < 0 && count++ < NEW_KEYS_MAX) {
        server_tls_ask_anew(server);
        if (!server_write(server, "k", 1))
            return;
    }
    if (server_write(server, ".", 1))
        server_echo(server);
}

/* Each answer must be written, and nobody reads them: what waits must not grow without end, and
 * when the server reads at last, nothing is lost. */
TEST(bytes, a_server_that_wants_new_keys_without_end_cannot_make_us_grow)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "good", .waits = true };
    uint8_t *pattern = make_pattern(BIG_BYTES);
    struct server server;
    struct client client = { .now_ns = 0 };
    struct hf__pollset set;
    size_t sent = 0;
    ssize_t more = 1;
    bool was_held_back = false;
    char key = 'k';

    server_start(&server, &manner, serve_new_keys, NULL);
    connect_to(&client, &server);
    while (more > 0) {
        more = hf__stream_write(client.stream, pattern, BIG_BYTES);
        CHECK(more >= 0);
        sent += (size_t)more;
    }
    server_let_go(&server);
    while (key != '.') {
        more = hf__stream_read(client.stream, &key, 1);
        CHECK(more >= 0);
        hf__pollset_init(&set);
        CHECK(hf__stream_pollset(client.stream, false, &set));
        if (!was_held_back && set.fds[0].events == POLLOUT) {
            was_held_back = true;
            server_let_go(&server);
        }
        if (more == 0)
            client_wait(&client, false);
    }
    CHECK(was_held_back);
    while (sent > 0) {
        more = hf__stream_read(client.stream, pattern, BIG_BYTES);
        CHECK(more >= 0 && (size_t)more <= sent);
        sent -= (size_t)more;
        if (more == 0)
            client_wait(&client, false);
    }
    client_close(&client);
    server_stop(&server);
    free(pattern);
}

/* It comes back with what came, with nothing after a while, and at once when it is hushed. */
TEST(bytes, a_thread_may_wait_for_them_by_reading)
{
    struct server_manner manner = { .tls = SERVER_PLAIN };
    struct server server;
    struct client client = { .now_ns = 0 };
    char bytes[HF__LISTEN_BYTES] = "";
    size_t count = 0;

    server_start(&server, &manner, server_echo, NULL);
    connect_to(&client, &server);
    CHECK_EQUAL(hf__stream_listen(hf__stream_listener(client.stream), bytes), 0);
    CHECK(client_write(&client, "hello", 5));
    for (int round = 0; count == 0 && round < 1000; round++)
        count = hf__stream_listen(hf__stream_listener(client.stream), bytes);
    CHECK_EQUAL(count, 5);
    CHECK_TEXT(bytes, "hello");
    hf__stream_hush(client.stream);
    CHECK_EQUAL(hf__stream_listen(hf__stream_listener(client.stream), bytes), 0);
    CHECK_EQUAL(client_drain(&client), 0);
    CHECK(client_is_down(&client, HF_EUNREACHABLE, ": closed by the server"));
    client_close(&client);
    server_stop(&server);
}

TEST(bytes, with_tls_nobody_waits_by_reading)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "good" };
    struct server server;
    struct client client = { .now_ns = 0 };

    server_start(&server, &manner, server_echo, NULL);
    connect_to(&client, &server);
    CHECK_EQUAL(hf__stream_listener(client.stream), -1);
    client_close(&client);
    server_stop(&server);
}

TEST(bytes, an_end_by_the_server_is_told)
{
    for (size_t i = 0; i < KINDS; i++) {
        struct server_manner manner = { .tls = kinds[i], .certificate = "good" };
        struct server server;
        struct client client = { .now_ns = 0 };

        server_start(&server, &manner, server_hang_up, NULL);
        connect_to(&client, &server);
        CHECK_EQUAL(client_drain(&client), 0);
        CHECK(client_is_down(&client, HF_EUNREACHABLE, ": closed by the server"));
        client_close(&client);
        server_stop(&server);
    }
}

/* Waits for the client, says why, and hangs up on what else the client has to say: by a reset. */
static void serve_farewell(struct server *server)
{
    char byte;

    (void)server_read(server, &byte, 1);
    (void)server_write(server, "-ERR too many\r\n", 15);
}

/* No SIGPIPE (it would end this program), and what the server said is read, though it came with a
 * reset and we find out by writing. */
TEST(bytes, what_a_server_said_before_it_hung_up_is_read)
{
    for (size_t i = 0; i < KINDS; i++) {
        struct server_manner manner = { .tls = kinds[i], .certificate = "good" };
        struct server server;
        struct client client = { .now_ns = 0 };
        char answer[16] = "";
        ssize_t sent = 1;

        server_start(&server, &manner, serve_farewell, NULL);
        connect_to(&client, &server);
        CHECK(client_write(&client, "hello", 5));
        while (atomic_load(&server.served) == 0)
            usleep(1000);
        for (int round = 0; sent > 0 && round < 1000; round++)
            sent = hf__stream_write(client.stream, "more", 4);
        CHECK_EQUAL(sent, 0);
        CHECK_EQUAL(client_read(&client, answer, 15, 15), 15);
        CHECK_TEXT(answer, "-ERR too many\r\n");
        CHECK_EQUAL(client_drain(&client), 0);
        CHECK_EQUAL(client.status, HF_EUNREACHABLE);
        client_close(&client);
        server_stop(&server);
    }
}

TEST(bytes, writing_on_and_on_to_nobody_ends)
{
    for (size_t i = 0; i < KINDS; i++) {
        struct server_manner manner = { .tls = kinds[i], .certificate = "good" };
        struct server server;
        struct client client = { .now_ns = 0 };
        ssize_t sent = 0;

        server_start(&server, &manner, serve_farewell, NULL);
        connect_to(&client, &server);
        for (int round = 0; sent >= 0 && round < 20000; round++) {
            sent = hf__stream_write(client.stream, "more", 4);
            if (round > 100)
                usleep(100);
        }
        CHECK_EQUAL(sent, -1);
        client_note_error(&client);
        CHECK_EQUAL(client.status, HF_EUNREACHABLE);
        client_close(&client);
        server_stop(&server);
    }
}

/* The ClientHello, and what the server makes of it, are nothing that a plain client understands;
 * but they are only bytes to it, and an end. */
TEST(bytes, a_plain_client_at_a_tls_server_is_only_hung_up_on)
{
    struct server_manner manner = { .tls = SERVER_TLS, .certificate = "good" };
    struct server server;
    struct client client = { .now_ns = 0 };

    server_start(&server, &manner, server_echo, NULL);
    client_open(&client, "redis://127.0.0.1:%u", (unsigned)server.port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    CHECK(client_write(&client, "*1\r\n$4\r\nPING\r\n", 14));
    CHECK(client_drain(&client) < 100);
    CHECK_EQUAL(client.status, HF_EUNREACHABLE);
    client_close(&client);
    server_stop(&server);
    CHECK_EQUAL(server.agreed, 0);
}
