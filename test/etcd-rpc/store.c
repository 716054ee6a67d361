/* store.c: a real etcd of one member, in a directory of its own, and a line to it. */
#include "store.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stream/certificates.h"
#include "base/clock.h"
#include "check.h"
#include "holdfast/holdfast.h"

#define COMMAND_BYTES 8192
#define HANG_NS       (60 * HF__NS_PER_S) /* an end to waiting, not a measure */
#define READ_BYTES    65536
#define PORT_FIRST    20000
#define PORTS         12000
#define PORT_TRIES    200

/* --- the server --- */

/* Below those that outgoing connections are given: else one of them may have it first. */
static uint16_t free_port(uint16_t taken)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    uint16_t port = 0;

    for (int i = 0; i < PORT_TRIES && port == 0; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint16_t chance;

        CHECK(fd >= 0);
        CHECK_EQUAL(getrandom(&chance, sizeof(chance), 0), sizeof(chance));
        chance = (uint16_t)(PORT_FIRST + chance % PORTS);
        address.sin_port = htons(chance);
        if (chance != taken && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            port = chance;
        (void)close(fd);
    }
    CHECK(port != 0);
    return port;
}

static const char *scheme_of(const struct store *store)
{
    return store->tls == STORE_PLAIN ? "http" : "https";
}

static _Noreturn void become_etcd(const struct store *store)
{
    char words[12][512];
    char *arguments[16];
    size_t count = 0;

    (void)snprintf(words[count++], 512, "etcd");
    (void)snprintf(words[count++], 512, "--data-dir=%s/data", store->directory);
    (void)snprintf(words[count++], 512, "--log-outputs=%s/log", store->directory);
    (void)snprintf(words[count++], 512, "--listen-client-urls=%s://127.0.0.1:%u", scheme_of(store),
                   store->port);
    (void)snprintf(words[count++], 512, "--advertise-client-urls=%s://127.0.0.1:%u",
                   scheme_of(store), store->port);
    (void)snprintf(words[count++], 512, "--listen-peer-urls=http://127.0.0.1:%u", store->peer_port);
    (void)snprintf(words[count++], 512, "--initial-advertise-peer-urls=http://127.0.0.1:%u",
                   store->peer_port);
    (void)snprintf(words[count++], 512, "--initial-cluster=default=http://127.0.0.1:%u",
                   store->peer_port);
    for (size_t i = 0; i < count; i++)
        arguments[i] = words[i];
    arguments[count] = (char[]){ "--logger=zap" };
    arguments[count + 1] = NULL;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(words[count], 512, "%s/output", store->directory);
    (void)(freopen(words[count], "w", stdout) && freopen(words[count], "w", stderr));
    (void)execvp("etcd", arguments);
    _exit(127);
}

void store_start(struct store *store, enum store_tls tls)
{
    const char *base = getenv("TMPDIR");
    char path[CERTIFICATES_PATH_BYTES];

    *store = (struct store){ .tls = tls, .port = free_port(0) };
    store->peer_port = free_port(store->port);
    (void)snprintf(store->directory, sizeof(store->directory), "%s/etcd-rpc-XXXXXX",
                   base ? base : "/tmp");
    CHECK(mkdtemp(store->directory) != NULL);
    if (tls != STORE_PLAIN) {
        certificates_path("good", "pem", path);
        (void)setenv("ETCD_CERT_FILE", path, 1);
        certificates_path("good", "key", path);
        (void)setenv("ETCD_KEY_FILE", path, 1);
    }
    if (tls == STORE_TLS_CLIENT) {
        certificates_path("authority", "pem", path);
        (void)setenv("ETCD_TRUSTED_CA_FILE", path, 1);
        (void)setenv("ETCD_CLIENT_CERT_AUTH", "true", 1);
    }
    store->process = fork();
    CHECK(store->process >= 0);
    if (store->process == 0)
        become_etcd(store);
    (void)unsetenv("ETCD_CERT_FILE");
    (void)unsetenv("ETCD_KEY_FILE");
    (void)unsetenv("ETCD_TRUSTED_CA_FILE");
    (void)unsetenv("ETCD_CLIENT_CERT_AUTH");
}

void store_check(struct store *store)
{
    char path[sizeof(store->directory) + 16];
    FILE *output;
    size_t count = 0;

    if (waitpid(store->process, NULL, WNOHANG) == 0)
        return;
    store->process = 0;
    (void)snprintf(path, sizeof(path), "%s/log", store->directory);
    output = fopen(path, "r");
    if (output && fseek(output, 1 - (long)sizeof(store->text), SEEK_END) < 0)
        rewind(output); /* it is shorter */
    if (output) {
        count = fread(store->text, 1, sizeof(store->text) - 1, output);
        (void)fclose(output);
    }
    store->text[count] = '\0';
    fail_msg("etcd has ended; the end of its log: %s", store->text);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

void store_stop(struct store *store)
{
    if (store->process > 0) {
        CHECK_EQUAL(kill(store->process, SIGKILL), 0);
        CHECK_EQUAL(waitpid(store->process, NULL, 0), store->process);
    }
    store->process = 0;
    CHECK_EQUAL(nftw(store->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void put_tls_options(const struct store *store, char *out_text, size_t bytes)
{
    char ca[CERTIFICATES_PATH_BYTES];
    char cert[CERTIFICATES_PATH_BYTES];
    char key[CERTIFICATES_PATH_BYTES];

    *out_text = '\0';
    if (store->tls == STORE_PLAIN)
        return;
    certificates_path("authority", "pem", ca);
    certificates_path("client", "pem", cert);
    certificates_path("client", "key", key);
    (void)snprintf(out_text, bytes, "--cacert=%s --cert=%s --key=%s", ca, cert, key);
}

const char *store_ask(struct store *store, const char *format, ...)
{
    char command[COMMAND_BYTES];
    char options[COMMAND_BYTES / 2];
    char words[1024];
    va_list arguments;
    size_t count;
    FILE *output;

    va_start(arguments, format);
    (void)vsnprintf(words, sizeof(words), format, arguments);
    va_end(arguments);
    put_tls_options(store, options, sizeof(options));
    (void)snprintf(command, sizeof(command),
                   "ETCDCTL_API=3 etcdctl --endpoints=%s://127.0.0.1:%u %s %s%s %s 2>&1",
                   scheme_of(store), store->port, options, store->user ? "--user=" : "",
                   store->user ? store->user : "", words);
    output = popen(command, "r");
    CHECK(output != NULL);
    count = fread(store->text, 1, sizeof(store->text) - 1, output);
    store->text[count] = '\0';
    if (pclose(output) != 0)
        fail_msg("%s: %s", command, store->text);
    return store->text;
}

/* --- the line --- */

static bool try_open(struct line *line, const struct store *store)
{
    char ca[CERTIFICATES_PATH_BYTES] = "";
    char cert[CERTIFICATES_PATH_BYTES] = "";
    char key[CERTIFICATES_PATH_BYTES] = "";

    line->client = (struct client){ .protocol = store->tls == STORE_PLAIN ? NULL : "h2" };
    if (store->tls == STORE_PLAIN) {
        client_open(&line->client, "etcd://127.0.0.1:%u", store->port);
    } else {
        certificates_path("authority", "pem", ca);
        certificates_path("client", "pem", cert);
        certificates_path("client", "key", key);
        client_open(&line->client, "etcds://127.0.0.1:%u?ca=%s%s%s%s%s", store->port, ca,
                    store->tls == STORE_TLS_CLIENT ? "&cert=" : "",
                    store->tls == STORE_TLS_CLIENT ? cert : "",
                    store->tls == STORE_TLS_CLIENT ? "&cert_key=" : "",
                    store->tls == STORE_TLS_CLIENT ? key : "");
    }
    if (line->client.status < 0)
        fail_msg("%s", line->client.error);
    if (client_settle(&line->client) == HF__STREAM_UP)
        return true;
    client_close(&line->client);
    return false;
}

void line_open(struct line *line, struct store *store)
{
    uint64_t until_ns = hf__clock_now_ns() + HANG_NS;
    struct hf__rpc_options options = { .authority = "127.0.0.1", .tls = store->tls };
    bool is_open = false;

    while (!is_open) {
        is_open = try_open(line, store);
        store_check(store);
        if (hf__clock_now_ns() > until_ns)
            fail_msg("etcd does not come up: %s", line->client.error);
        if (!is_open)
            (void)usleep(20000);
    }
    options.env = &line->client.world.env;
    CHECK_EQUAL(hf__rpc_new(&options, &line->rpc), HF_OK);
    hf__memory_init(&line->memory, &line->client.world.env, HF__MESSAGE_MEMORY_MAX);
    line->held = NULL;
}

void line_close(struct line *line)
{
    hf__message_free(&line->memory, line->held);
    line->held = NULL;
    hf__memory_done(&line->memory);
    hf__rpc_free(line->rpc);
    line->rpc = NULL;
    client_close(&line->client);
}

/* One look at the stream, either way. */
static void step(struct line *line)
{
    static uint8_t input[READ_BYTES];
    const void *bytes;
    size_t count = hf__rpc_output(line->rpc, &bytes);
    ssize_t moved = count > 0 ? hf__stream_write(line->client.stream, bytes, count) : 0;

    if (moved > 0)
        hf__rpc_sent(line->rpc, (size_t)moved);
    moved = moved < 0 ? moved : hf__stream_read(line->client.stream, input, sizeof(input));
    if (moved < 0) {
        client_note_error(&line->client);
        hf__rpc_fail(line->rpc, line->client.status, line->client.error);
        return;
    }
    if (moved == 0) {
        uint64_t deadline_ns = hf__rpc_deadline_ns(line->rpc);

        if (deadline_ns == HF__NEVER)
            client_wait(&line->client, hf__rpc_output(line->rpc, &bytes) > 0);
        else
            (void)usleep(1000);
    }
    if (hf__rpc_feed(line->rpc, input, (size_t)moved, hf__clock_now_ns()) < 0)
        (void)hf__rpc_error(line->rpc, line->error);
    hf__rpc_tick(line->rpc, hf__clock_now_ns());
}

struct hf__rpc_event line_next(struct line *line)
{
    uint64_t until_ns = hf__clock_now_ns() + HANG_NS;
    struct hf__rpc_event event;

    while (hf__clock_now_ns() < until_ns) {
        if (!hf__rpc_next(line->rpc, &event)) {
            step(line);
            continue;
        }
        if (event.kind == HF__RPC_UP)
            continue;
        line->code = event.code;
        line->fate = event.fate;
        (void)snprintf(line->error, sizeof(line->error), "%s", event.text);
        return event;
    }
    fail_msg("nothing happens");
    return event;
}

static void *unpack(struct line *line, const struct hf__rpc_event *event,
                    const ProtobufCMessageDescriptor *type)
{
    hf__message_free(&line->memory, line->held);
    line->held = NULL;
    if (hf__message_unpack(&line->memory, type, event->message, &line->held, line->error) < 0)
        fail_msg("%s", line->error);
    return line->held;
}

static struct hf__rpc_bytes packed_of(const struct hf__buffer *packed)
{
    return (struct hf__rpc_bytes){ hf__buffer_front(packed), hf__buffer_count(packed) };
}

void line_start(struct line *line, const char *path, const ProtobufCMessage *message,
                uint64_t deadline_ns)
{
    struct hf__rpc_request request = { .path = path,
                                       .now_ns = hf__clock_now_ns(),
                                       .deadline_ns = deadline_ns };
    struct hf__buffer packed;

    hf__buffer_init(&packed, &line->client.world.env, 8u << 20);
    CHECK_EQUAL(hf__message_pack(message, &packed), HF_OK);
    request.message = packed_of(&packed);
    CHECK_EQUAL(hf__rpc_start(line->rpc, &request, NULL), HF_OK);
    hf__buffer_done(&packed);
}

void *line_call(struct line *line, const char *path, const ProtobufCMessage *message,
                const ProtobufCMessageDescriptor *type)
{
    struct hf__rpc_event event;

    line_start(line, path, message, hf__clock_now_ns() + HANG_NS);
    event = line_next(line);
    CHECK(event.kind == HF__RPC_ANSWER || event.kind == HF__RPC_FAILED);
    return event.kind == HF__RPC_ANSWER ? unpack(line, &event, type) : NULL;
}

struct hf__rpc_call *line_stream(struct line *line, const char *path)
{
    struct hf__rpc_request request = { .path = path, .deadline_ns = HF__NEVER };
    struct hf__rpc_call *call = NULL;

    CHECK_EQUAL(hf__rpc_open(line->rpc, &request, &call), HF_OK);
    return call;
}

void line_send(struct line *line, struct hf__rpc_call *call, const ProtobufCMessage *message)
{
    struct hf__buffer packed;

    hf__buffer_init(&packed, &line->client.world.env, 1u << 20);
    CHECK_EQUAL(hf__message_pack(message, &packed), HF_OK);
    CHECK_EQUAL(hf__rpc_send(line->rpc, call, packed_of(&packed)), HF_OK);
    hf__buffer_done(&packed);
}

void *line_hear(struct line *line, const ProtobufCMessageDescriptor *type)
{
    struct hf__rpc_event event = line_next(line);

    if (event.kind != HF__RPC_MESSAGE)
        fail_msg("event %d (%s) is no message", (int)event.kind, event.text);
    return unpack(line, &event, type);
}
