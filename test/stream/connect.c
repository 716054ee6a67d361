/* connect.c: does a stream find its server, or say why not? */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/resolve.h"
#include "check.h"
#include "client.h"
#include "names.h"
#include "server.h"

#define START_NS (1000 * HF__NS_PER_S)

static const struct server_manner plain = { .tls = SERVER_PLAIN };

/* A port of 127.0.0.1 where nobody listens: it was ours a moment ago. */
static uint16_t find_dead_port(void)
{
    uint16_t port = 0;

    (void)close(server_listen(SERVER_HOST, 0, 1, &port));
    return port;
}

/* A place whose queue is full: it answers nobody any more. */
struct deaf {
    int listener;
    int callers[8];
    uint16_t port;
};

static void deaf_start(struct deaf *deaf, const char *host, uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t bytes = sizeof(address);

    deaf->listener = server_listen(host, port, 0, &deaf->port);
    CHECK_EQUAL(getsockname(deaf->listener, (struct sockaddr *)&address, &bytes), 0);
    for (size_t i = 0; i < 8; i++) {
        deaf->callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(deaf->callers[i], (struct sockaddr *)&address, sizeof(address));
    }
}

static void deaf_stop(struct deaf *deaf)
{
    for (size_t i = 0; i < 8; i++)
        (void)close(deaf->callers[i]);
    (void)close(deaf->listener);
}

static struct hf__pollset look(const struct client *client, bool wants_write)
{
    struct hf__pollset set;

    hf__pollset_init(&set);
    CHECK(hf__stream_pollset(client->stream, wants_write, &set));
    return set;
}

static int read_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t bytes = sizeof(value);

    CHECK_EQUAL(getsockopt(fd, level, name, &value, &bytes), 0);
    return value;
}

/* How many descriptors there are once the resolvers of earlier tests have ended. */
static size_t count_fds(void)
{
    uint64_t limit_ns = hf__clock_now_ns() + 60 * HF__NS_PER_S;
    struct stat tasks;

    /* A folder's links are its subfolders, and two more. */
    while (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3 &&
           hf__clock_now_ns() < limit_ns)
        usleep(1000);
    return client_open_fds();
}

TEST(connect, an_address_is_reached_and_bytes_pass)
{
    struct server server;
    struct client client = { .now_ns = 0 };
    char answer[6] = "";
    char peer[64];

    server_start(&server, &plain, server_echo, NULL);
    client_open(&client, "redis://127.0.0.1:%u", (unsigned)server.port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    (void)snprintf(peer, sizeof(peer), "127.0.0.1:%u", (unsigned)server.port);
    CHECK_TEXT(hf__stream_peer(client.stream), peer);
    CHECK(client_write(&client, "hello", 5));
    CHECK_EQUAL(client_read(&client, answer, 5, 5), 5);
    CHECK_TEXT(answer, "hello");
    client_close(&client);
    server_stop(&server);
}

TEST(connect, the_socket_is_as_it_should_be)
{
    struct server server;
    struct client client = { .now_ns = 0 };
    struct hf__pollset set;
    char bytes[8];
    int fd;

    server_start(&server, &plain, server_echo, NULL);
    client_open(&client, "redis://127.0.0.1:%u", (unsigned)server.port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    set = look(&client, false);
    CHECK_EQUAL(set.count, 1);
    CHECK_EQUAL(set.fds[0].events, POLLIN);
    CHECK(set.deadline_ns == HF__NEVER);
    fd = set.fds[0].fd;
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK_EQUAL(hf__stream_listener(client.stream), fd);
    CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
    CHECK_EQUAL(hf__stream_read(client.stream, bytes, sizeof(bytes)), 0); /* all the same */
    CHECK_EQUAL(read_option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    CHECK_EQUAL(read_option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    CHECK_EQUAL(read_option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 15);
    set = look(&client, true);
    CHECK_EQUAL(set.fds[0].events, POLLIN | POLLOUT);
    client_close(&client);
    server_stop(&server);
}

TEST(connect, a_full_pollset_is_told)
{
    struct server server;
    struct client client = { .now_ns = 0 };
    struct hf__pollset set;

    server_start(&server, &plain, server_echo, NULL);
    client_open(&client, "redis://127.0.0.1:%u", (unsigned)server.port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    hf__pollset_init(&set);
    set.count = HF__POLLSET_MAX;
    CHECK(!hf__stream_pollset(client.stream, false, &set));
    client_close(&client);
    server_stop(&server);
}

TEST(connect, a_refusal_is_told_with_the_address)
{
    struct client client = { .now_ns = 0 };
    uint16_t port = find_dead_port();
    char wanted[64];

    client_open(&client, "redis://127.0.0.1:%u", (unsigned)port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    (void)snprintf(wanted, sizeof(wanted), "127.0.0.1:%u: Connection refused", (unsigned)port);
    CHECK_EQUAL(client.status, HF_EUNREACHABLE);
    CHECK_TEXT(client.error, wanted);
    CHECK(look(&client, false).deadline_ns == 0);
    client_close(&client);
}

TEST(connect, an_address_of_six_is_shown_in_brackets)
{
    struct client client = { .now_ns = 0 };

    client_open(&client, "redis://[::1]:%u", (unsigned)find_dead_port());
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK(client_is_down(&client, HF_EUNREACHABLE, "[::1]:"));
    client_close(&client);
}

TEST(connect, the_usual_port_is_taken_where_none_is_given)
{
    struct deaf deaf;
    struct client client = { .now_ns = START_NS, .deadline_ns = START_NS + 1 };

    deaf_start(&deaf, "127.0.0.3", 0);
    client_open(&client, "redis://127.0.0.3");
    CHECK_TEXT(hf__stream_peer(client.stream), "127.0.0.3:6379");
    client_close(&client);
    deaf_stop(&deaf);
}

TEST(connect, the_second_address_is_used_when_the_first_refuses)
{
    struct server server;
    struct client client = { .now_ns = 0 };
    char peer[64];

    server_start(&server, &plain, server_echo, NULL);
    client_open(&client, "redis://two.test:%u", (unsigned)server.port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    (void)snprintf(peer, sizeof(peer), "127.0.0.1:%u", (unsigned)server.port);
    CHECK_TEXT(hf__stream_peer(client.stream), peer);
    client_close(&client);
    server_stop(&server);
}

TEST(connect, the_last_of_several_failures_is_told)
{
    struct client client = { .now_ns = 0 };
    uint16_t port = find_dead_port();
    char wanted[128];

    client_open(&client, "redis://two.test:%u", (unsigned)port);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    (void)snprintf(wanted, sizeof(wanted),
                   "127.0.0.1:%u: Connection refused (the last of 2 addresses of two.test)",
                   (unsigned)port);
    CHECK_TEXT(client.error, wanted);
    client_close(&client);
}

/* Time is handed in, so a time-out takes none. */
TEST(connect, who_does_not_answer_is_given_up_at_the_deadline)
{
    struct deaf deaf;
    struct client client = { .now_ns = START_NS, .deadline_ns = START_NS + 5 * HF__NS_PER_S };

    deaf_start(&deaf, SERVER_HOST, 0);
    client_open(&client, "redis://127.0.0.1:%u", (unsigned)deaf.port);
    CHECK_EQUAL(hf__stream_advance(client.stream, START_NS + HF__NS_PER_S), HF__STREAM_CONNECTING);
    CHECK(look(&client, false).deadline_ns == client.deadline_ns);
    CHECK_EQUAL(look(&client, false).fds[0].events, POLLOUT);
    CHECK_EQUAL(hf__stream_advance(client.stream, client.deadline_ns - 1), HF__STREAM_CONNECTING);
    CHECK_EQUAL(hf__stream_advance(client.stream, client.deadline_ns), HF__STREAM_DOWN);
    client_note_error(&client);
    CHECK(client_is_down(&client, HF_EUNREACHABLE, ": no connection in time"));
    client_close(&client);
    deaf_stop(&deaf);
}

/* two.test is 127.0.0.2, where nobody answers, then 127.0.0.1, where somebody does. */
TEST(connect, each_address_gets_its_share_of_the_time)
{
    struct server server;
    struct deaf deaf;
    struct client client = { .now_ns = START_NS, .deadline_ns = START_NS + 10 * HF__NS_PER_S };

    server_start(&server, &plain, server_echo, NULL);
    deaf_start(&deaf, "127.0.0.2", server.port);
    client_open(&client, "redis://two.test:%u", (unsigned)server.port);
    while (look(&client, false).fds[0].events == POLLIN) { /* the resolver's */
        client_wait(&client, false);
        (void)hf__stream_advance(client.stream, START_NS);
    }
    CHECK(look(&client, false).deadline_ns == START_NS + 5 * HF__NS_PER_S);
    CHECK(strncmp(hf__stream_peer(client.stream), "127.0.0.2:", 10) == 0);
    (void)hf__stream_advance(client.stream, START_NS + 5 * HF__NS_PER_S);
    CHECK(strncmp(hf__stream_peer(client.stream), "127.0.0.1:", 10) == 0);
    while (hf__stream_advance(client.stream, START_NS + 6 * HF__NS_PER_S) != HF__STREAM_UP)
        client_wait(&client, false);
    client_close(&client);
    deaf_stop(&deaf);
    server_stop(&server);
}

TEST(connect, a_share_is_a_quarter_of_a_second_at_least)
{
    uint16_t port = 0;
    struct deaf one, two;
    struct client client = { .now_ns = START_NS, .deadline_ns = START_NS + 300 * HF__NS_PER_MS };

    deaf_start(&one, "127.0.0.2", 0);
    port = one.port;
    deaf_start(&two, "127.0.0.1", port);
    client_open(&client, "redis://two.test:%u", (unsigned)port);
    while (look(&client, false).fds[0].events == POLLIN) {
        client_wait(&client, false);
        (void)hf__stream_advance(client.stream, START_NS);
    }
    CHECK(look(&client, false).deadline_ns == START_NS + 250 * HF__NS_PER_MS);
    (void)hf__stream_advance(client.stream, START_NS + 250 * HF__NS_PER_MS);
    CHECK(look(&client, false).deadline_ns == client.deadline_ns);
    CHECK_EQUAL(hf__stream_advance(client.stream, client.deadline_ns), HF__STREAM_DOWN);
    client_close(&client);
    deaf_stop(&one);
    deaf_stop(&two);
}

TEST(connect, a_name_that_is_not_is_told)
{
    struct client client = { .now_ns = 0 };

    client_open(&client, "redis://nowhere.invalid:1");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK(client_is_down(&client, HF_EUNREACHABLE, "nowhere.invalid: "));
    client_close(&client);
}

TEST(connect, a_resolver_that_breaks_says_what_the_system_says)
{
    struct client client = { .now_ns = 0 };

    client_open(&client, "redis://broken.test:1");
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK_TEXT(client.error, "broken.test: Input/output error");
    client_close(&client);
}

/* The thread goes on after the stream, and must touch nothing of it; the record is its own, and its
 * descriptor goes with the record. */
TEST(connect, a_stream_may_be_closed_while_its_name_is_asked_for)
{
    struct client client = { .now_ns = 0 };
    size_t fds = count_fds();
    unsigned asked = names_asked();
    uint64_t limit_ns = hf__clock_now_ns() + 60 * HF__NS_PER_S;

    client_open(&client, "redis://slow.test:1");
    CHECK_EQUAL(hf__stream_advance(client.stream, hf__clock_now_ns()), HF__STREAM_CONNECTING);
    CHECK_TEXT(hf__stream_peer(client.stream), "slow.test:1");
    CHECK(fcntl(look(&client, false).fds[0].fd, F_GETFD) & FD_CLOEXEC);
    while (names_asked() == asked && hf__clock_now_ns() < limit_ns)
        usleep(1000);
    client_close(&client);
    CHECK_EQUAL(client_open_fds(), fds + 1);
    names_let_go();
    while (client_open_fds() != fds && hf__clock_now_ns() < limit_ns)
        usleep(1000);
    CHECK_EQUAL(client_open_fds(), fds);
    CHECK(names_asked_quietly());
}

TEST(connect, a_name_that_takes_too_long_is_given_up_at_the_deadline)
{
    struct client client = { .now_ns = START_NS, .deadline_ns = START_NS + HF__NS_PER_S };
    size_t fds = count_fds();
    uint64_t limit_ns = hf__clock_now_ns() + 60 * HF__NS_PER_S;

    client_open(&client, "redis://slow.test:1");
    CHECK(look(&client, false).deadline_ns == client.deadline_ns);
    CHECK_EQUAL(hf__stream_advance(client.stream, client.deadline_ns), HF__STREAM_DOWN);
    client_note_error(&client);
    CHECK_TEXT(client.error, "slow.test:1: no address was found for it in time");
    client_close(&client);
    names_let_go();
    while (client_open_fds() != fds && hf__clock_now_ns() < limit_ns)
        usleep(1000);
    CHECK_EQUAL(client_open_fds(), fds);
}

TEST(resolve, numbers_are_answered_at_once_and_other_colons_refused)
{
    static const char *const numbers[] = { "127.0.0.1", "::1", "2001:db8::7", "fe80::1%lo" };
    struct failing_env world;
    struct hf__addresses addresses = { .count = 0 };
    struct hf__resolve *resolve = NULL;
    char error[HF__ERROR_BYTES] = "";
    unsigned asked = names_asked();

    failing_env_init(&world, 0);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        struct hf__url_server server = { .port = 80 };

        (void)snprintf(server.host, sizeof(server.host), "%s", numbers[i]);
        CHECK_EQUAL(hf__resolve_start(&world.env, &server, &addresses, &resolve, error), HF_OK);
        CHECK(resolve == NULL);
        CHECK_EQUAL(addresses.count, 1);
    }
    CHECK_EQUAL(hf__resolve_start(&world.env, &(struct hf__url_server){ "::1::2", 80 }, &addresses,
                                  &resolve, error),
                HF_EURL);
    CHECK_TEXT(error, "'::1::2' is not an address");
    CHECK_EQUAL(names_asked(), asked);
    CHECK_EQUAL(world.allocations, 0);
}

TEST(resolve, no_more_addresses_are_kept_than_fit)
{
    struct failing_env world;
    struct hf__addresses addresses = { .count = 0 };
    struct hf__resolve *resolve = NULL;
    char error[HF__ERROR_BYTES] = "";
    int answered = 0;

    failing_env_init(&world, 0);
    CHECK_EQUAL(hf__resolve_start(&world.env, &(struct hf__url_server){ "many.test", 80 },
                                  &addresses, &resolve, error),
                HF_OK);
    CHECK(resolve != NULL);
    while (answered == 0) {
        struct pollfd ready = { .fd = hf__resolve_fd(resolve), .events = POLLIN };

        CHECK_EQUAL(poll(&ready, 1, 60000), 1);
        answered = hf__resolve_finish(resolve, &addresses, error);
    }
    CHECK_EQUAL(answered, 1);
    CHECK_EQUAL(addresses.count, HF__ADDRESSES_MAX);
    CHECK_EQUAL(world.live, 0);
    hf__resolve_drop(NULL);
}

TEST(connect, without_descriptors_it_says_so)
{
    static const char *const urls[] = { "redis://127.0.0.1:1", "redis://good.test:1" };
    struct client client = { .now_ns = 0 };
    struct rlimit usual, none;

    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = usual;
    none.rlim_cur = 0;
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
        client_open(&client, "%s", urls[i]);
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &usual), 0);
        CHECK(client_is_down(&client, HF_ESYSTEM, "Too many open files"));
        client_close(&client);
    }
}

/* An address that comes later has no open() to fail: the stream itself goes down. */
TEST(connect, descriptors_that_run_out_later_are_told_too)
{
    struct client client = { .now_ns = 0 };
    enum hf__stream_state reached = HF__STREAM_CONNECTING;
    struct rlimit usual, none;

    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = usual;
    none.rlim_cur = 0;
    client_open(&client, "redis://slow.test:1");
    names_let_go();
    while (reached == HF__STREAM_CONNECTING) {
        client_wait(&client, false);
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
        reached = hf__stream_advance(client.stream, hf__clock_now_ns());
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &usual), 0);
    }
    client_note_error(&client);
    CHECK(client_is_down(&client, HF_ESYSTEM, "Too many open files"));
    client_close(&client);
}

TEST(connect, every_allocation_may_fail)
{
    static const char *const urls[] = { "redis://127.0.0.1:1", "redis://good.test:1",
                                        "rediss://127.0.0.1:1" };

    for (size_t i = 0; i < 3; i++) {
        size_t refused = 1;

        for (size_t nth = 1; refused > 0; nth++) {
            struct hf__stream *stream = NULL;
            char error[HF__ERROR_BYTES] = "";
            struct failing_env world;
            struct hf__url url;
            int status;

            CHECK_EQUAL(hf__url_parse(urls[i], &url, error), HF_OK);
            failing_env_init(&world, nth);
            status = hf__stream_open(
                &(struct hf__stream_options){
                    .env = &world.env, .url = &url, .tls = i == 2, .deadline_ns = HF__NEVER },
                &stream, error);
            hf__stream_close(stream);
            refused = world.refused;
            CHECK_EQUAL(status, refused > 0 ? HF_ENOMEM : HF_OK);
            CHECK_EQUAL(world.live, 0);
        }
    }
}

/* --- Unix sockets --- */

TEST(local, a_socket_is_reached_by_its_path)
{
    struct server server;
    struct client client = { .now_ns = 0 };
    char path[CERTIFICATES_PATH_BYTES];
    char answer[3] = "";

    certificates_place("s", path);
    server_start(&server, &plain, server_echo, path);
    client_open(&client, "redis://localhost?socket=%s", path);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_UP);
    CHECK_TEXT(hf__stream_peer(client.stream), path);
    CHECK(client_write(&client, "ab", 2));
    CHECK_EQUAL(client_read(&client, answer, 2, 2), 2);
    CHECK_TEXT(answer, "ab");
    client_close(&client);
    server_stop(&server);
    CHECK_EQUAL(unlink(path), 0);
}

TEST(local, what_cannot_be_a_socket_is_told)
{
    struct client client = { .now_ns = 0 };
    char path[CERTIFICATES_PATH_BYTES];
    char wanted[CERTIFICATES_PATH_BYTES + 64];
    int fd;

    certificates_place("nothing", path);
    client_open(&client, "redis://localhost?socket=%s", path);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    (void)snprintf(wanted, sizeof(wanted), "%s: No such file or directory", path);
    CHECK_TEXT(client.error, wanted);
    CHECK_EQUAL(client.status, HF_EUNREACHABLE);
    client_close(&client);

    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    client_open(&client, "redis://localhost?socket=%s", path);
    CHECK_EQUAL(client_settle(&client), HF__STREAM_DOWN);
    CHECK(client_is_down(&client, HF_EUNREACHABLE, ": Connection refused"));
    client_close(&client);
    (void)close(fd);
    CHECK_EQUAL(unlink(path), 0);

    client_open(&client, "redis://localhost?socket=relative");
    CHECK(client_is_down(&client, HF_EURL, "of at most 107 bytes: 'relative'"));
    client_close(&client);
    client_open(&client, "redis://localhost?socket=/%0200d", 1);
    CHECK(client_is_down(&client, HF_EURL, "of at most 107 bytes"));
    client_close(&client);
}

/* In a child, for it must not be root; and without CHECK, for it is a child. */
static int ask_as_nobody(const char *path)
{
    struct hf__stream *stream = NULL;
    char error[HF__ERROR_BYTES] = "";
    struct failing_env world;
    struct hf__url url;
    char text[CERTIFICATES_PATH_BYTES + 64];

    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
        return 2;
    (void)snprintf(text, sizeof(text), "redis://localhost?socket=%s", path);
    failing_env_init(&world, 0);
    if (hf__url_parse(text, &url, error) < 0 ||
        hf__stream_open(&(struct hf__stream_options){ .env = &world.env,
                                                      .url = &url,
                                                      .deadline_ns = HF__NEVER },
                        &stream, error) < 0)
        return 3;
    if (hf__stream_advance(stream, 0) != HF__STREAM_DOWN)
        return 4;
    if (hf__stream_error(stream, error) != HF_EDENIED)
        return 5;
    hf__stream_close(stream);
    return strstr(error, ": Permission denied") ? 0 : 6;
}

TEST(local, a_socket_that_is_forbidden_is_denied)
{
    struct server server;
    char path[CERTIFICATES_PATH_BYTES];
    pid_t child;

    certificates_place("s", path);
    server_start(&server, &plain, server_echo, path);
    CHECK_EQUAL(chmod(path, 0), 0);
    child = check_fork_quietly();
    if (child == 0)
        check_exit(ask_as_nobody(path));
    CHECK_EQUAL(check_reap(child), 0);
    server_stop(&server);
    CHECK_EQUAL(unlink(path), 0);
}

/* The kernel does not tell when a Unix socket's queue has room again: it must be asked. */
TEST(local, a_full_queue_is_asked_again)
{
    struct client client = { .now_ns = START_NS, .deadline_ns = START_NS + HF__NS_PER_S };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char path[CERTIFICATES_PATH_BYTES];
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    certificates_place("full", path);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
    CHECK_EQUAL(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQUAL(listen(listener, 0), 0);
    CHECK_EQUAL(connect(first, (struct sockaddr *)&address, sizeof(address)), 0);

    client_open(&client, "redis://localhost?socket=%s", path);
    CHECK_EQUAL(hf__stream_advance(client.stream, START_NS + 1), HF__STREAM_CONNECTING);
    CHECK_EQUAL(look(&client, false).count, 0);
    CHECK(look(&client, false).deadline_ns == START_NS + 20 * HF__NS_PER_MS);
    CHECK_EQUAL(hf__stream_advance(client.stream, START_NS + 30 * HF__NS_PER_MS),
                HF__STREAM_CONNECTING);
    CHECK(look(&client, false).deadline_ns == START_NS + 50 * HF__NS_PER_MS);

    (void)close(accept(listener, NULL, NULL));
    CHECK_EQUAL(hf__stream_advance(client.stream, START_NS + 50 * HF__NS_PER_MS), HF__STREAM_UP);
    client_close(&client);
    (void)close(first);
    (void)close(listener);
    CHECK_EQUAL(unlink(path), 0);
}
