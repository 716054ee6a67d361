/* wire_etcd.c: how does the raw client speak to etcd?
 *
 * With the engine's own wire, and nothing else of the library: gRPC and HTTP/2 by rpc.h, messages
 * by message.h, the socket by stream.h. It blocks: bytes are written when somebody waits for an
 * answer, and the thread sleeps in the kernel until there is one. Nothing has a deadline. The key
 * is put under a lease, which is not kept alive: there is a new one long before it ends.
 *
 * What can go wrong: whatever does ends the run, with errno saying about what. */
#include "wire_etcd.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/secret.h"
#include "base/stream.h"
#include "engine/etcd/message.h"
#include "engine/etcd/rpc.h"

#define PORT           2379
#define CONNECT_NS     (10 * HF__NS_PER_S)
#define LEASE_S        60
#define LEASE_OLD_NS   (20 * HF__NS_PER_S)
#define PAGE_BYTES_MAX (16u << 20)
#define READ_BYTES     HF__LISTEN_BYTES

enum question { QUESTION_PUT, QUESTION_DELETE, QUESTION_LEASE, QUESTION_LOGIN };

struct bench_wire {
    struct hf__env env;
    struct hf__url url;
    struct hf__stream *stream;
    int listener; /* -1: none, it is TLS */
    struct hf__rpc *rpc;
    struct hf__buffer packed;
    struct hf__memory memory;
    int64_t lease;
    uint64_t lease_ns; /* when it was asked for */
};

static int fail(int error)
{
    errno = error;
    return HF_ESYSTEM;
}

static int fail_as(int status)
{
    switch (status) {
    case HF_ENOMEM:
        return fail(ENOMEM);
    case HF_EDENIED:
        return fail(EACCES);
    case HF_EURL:
        return fail(EINVAL);
    case HF_EUNREACHABLE:
        return fail(ECONNREFUSED);
    case HF_EUNSUPPORTED:
        return fail(EPROTONOSUPPORT);
    default:
        return fail(EPROTO);
    }
}

/* --- bytes --- */

static void wait_for(const struct hf__stream *stream, bool wants_write)
{
    struct hf__pollset set;
    int wait_ms;

    hf__pollset_init(&set);
    hf__stream_pollset(stream, wants_write, &set);
    wait_ms = (int)hf__clock_wait_ms(hf__clock_now_ns(), set.deadline_ns);
    (void)poll(set.fds, (nfds_t)set.count, wait_ms);
}

static int fail_down(const struct hf__stream *stream)
{
    char error[HF__ERROR_BYTES];

    return fail_as(hf__stream_error(stream, error));
}

static int connect_to(const struct hf__env *env, const struct hf__url *url, size_t server,
                      const char *protocol, struct hf__stream **out_stream)
{
    uint64_t now_ns = hf__clock_now_ns();
    struct hf__stream_options options = { .env = env,
                                          .url = url,
                                          .server = server,
                                          .port = PORT,
                                          .tls = strcmp(url->scheme, "etcds") == 0,
                                          .protocol = protocol,
                                          .now_ns = now_ns,
                                          .deadline_ns = now_ns + CONNECT_NS };
    char error[HF__ERROR_BYTES];
    struct hf__stream *stream = NULL;
    int status = hf__stream_open(&options, &stream, error);

    if (status < 0)
        return fail_as(status);
    *out_stream = stream;
    while (hf__stream_advance(stream, hf__clock_now_ns()) == HF__STREAM_CONNECTING)
        wait_for(stream, false);
    return hf__stream_advance(stream, hf__clock_now_ns()) == HF__STREAM_UP ? HF_OK
                                                                           : fail_down(stream);
}

static int write_all(struct hf__stream *stream, const char *bytes, size_t count)
{
    size_t sent = 0;

    while (sent < count) {
        ssize_t more = hf__stream_write(stream, bytes + sent, count - sent);

        if (more < 0)
            return fail_down(stream);
        if (more == 0)
            wait_for(stream, true);
        sent += (size_t)more;
    }
    return HF_OK;
}

static int send_requests(struct bench_wire *wire)
{
    const void *bytes;
    size_t count;

    while ((count = hf__rpc_output(wire->rpc, &bytes)) > 0) {
        if (write_all(wire->stream, bytes, count) < 0)
            return HF_ESYSTEM;
        hf__rpc_sent(wire->rpc, count);
    }
    return HF_OK;
}

/* Sleeps until something comes. */
static int receive(struct bench_wire *wire)
{
    char bytes[READ_BYTES];
    ssize_t got = 0;

    hf__rpc_tick(wire->rpc, hf__clock_now_ns());
    if (wire->listener >= 0)
        got = (ssize_t)hf__stream_listen(wire->listener, bytes);
    else
        wait_for(wire->stream, false);
    if (got == 0)
        got = hf__stream_read(wire->stream, bytes, sizeof(bytes));
    if (got < 0)
        return fail_down(wire->stream);
    if (got > 0 && hf__rpc_feed(wire->rpc, bytes, (size_t)got, hf__clock_now_ns()) < 0)
        return fail(EPROTO);
    return HF_OK;
}

/* --- questions --- */

static const char *path_of(enum question question)
{
    switch (question) {
    case QUESTION_PUT:
        return "/etcdserverpb.KV/Txn";
    case QUESTION_DELETE:
        return "/etcdserverpb.KV/DeleteRange";
    case QUESTION_LEASE:
        return "/etcdserverpb.Lease/LeaseGrant";
    case QUESTION_LOGIN:
        return "/etcdserverpb.Auth/Authenticate";
    }
    return "";
}

static int ask(struct bench_wire *wire, enum question question, const ProtobufCMessage *message,
               uint32_t tag)
{
    struct hf__rpc_request request = { .path = path_of(question),
                                       .now_ns = hf__clock_now_ns(),
                                       .deadline_ns = HF__NEVER,
                                       .tag = (uint64_t)question << 32 | tag };
    int status;

    hf__buffer_consume(&wire->packed, hf__buffer_count(&wire->packed));
    status = hf__message_pack(message, &wire->packed);
    if (status < 0)
        return fail_as(status);
    request.message.at = hf__buffer_front(&wire->packed);
    request.message.count = hf__buffer_count(&wire->packed);
    status = hf__rpc_start(wire->rpc, &request, NULL);
    return status < 0 ? fail_as(status) : HF_OK;
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)(uintptr_t)text };
}

int bench_wire_put(struct bench_wire *wire, const char *key, uint32_t tag)
{
    Hf__Etcd__Compare absent = HF__ETCD__COMPARE__INIT;
    Hf__Etcd__PutRequest put = HF__ETCD__PUT_REQUEST__INIT;
    Hf__Etcd__RequestOp operation = HF__ETCD__REQUEST_OP__INIT;
    Hf__Etcd__TxnRequest request = HF__ETCD__TXN_REQUEST__INIT;
    Hf__Etcd__Compare *compares[] = { &absent };
    Hf__Etcd__RequestOp *operations[] = { &operation };

    absent.result = HF__ETCD__COMPARE__COMPARE_RESULT__EQUAL;
    absent.target = HF__ETCD__COMPARE__COMPARE_TARGET__CREATE;
    absent.target_union_case = HF__ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    absent.key = bytes_of(key);
    put.key = bytes_of(key);
    put.lease = wire->lease;
    operation.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    operation.request_put = &put;
    request.n_compare = 1;
    request.compare = compares;
    request.n_success = 1;
    request.success = operations;
    return ask(wire, QUESTION_PUT, &request.base, tag);
}

int bench_wire_delete(struct bench_wire *wire, const char *key, uint32_t tag)
{
    Hf__Etcd__DeleteRangeRequest request = HF__ETCD__DELETE_RANGE_REQUEST__INIT;

    request.key = bytes_of(key);
    return ask(wire, QUESTION_DELETE, &request.base, tag);
}

/* --- answers --- */

static int fail_refused(const struct hf__rpc_event *event)
{
    static const struct {
        int code;
        int error;
    } codes[] = {
        { HF__RPC_CODE_NOT_FOUND, ESTALE }, /* the lease has ended */
        { HF__RPC_CODE_PERMISSION_DENIED, EACCES }, { HF__RPC_CODE_UNAUTHENTICATED, EACCES },
        { HF__RPC_CODE_INVALID_ARGUMENT, EACCES },  { HF__RPC_CODE_UNAVAILABLE, EAGAIN },
    };

    if (event->status < 0)
        return fail_as(event->status);
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (codes[i].code == event->code)
            return fail(codes[i].error);
    }
    return fail(EPROTO);
}

static const ProtobufCMessageDescriptor *answer_to(enum question question)
{
    switch (question) {
    case QUESTION_PUT:
        return &hf__etcd__txn_response__descriptor;
    case QUESTION_DELETE:
        return &hf__etcd__delete_range_response__descriptor;
    case QUESTION_LEASE:
        return &hf__etcd__lease_grant_response__descriptor;
    case QUESTION_LOGIN:
        return &hf__etcd__authenticate_response__descriptor;
    }
    return NULL;
}

/* 1: done; 0: not done; < 0: it cannot be used. */
static int take(struct bench_wire *wire, enum question question, const ProtobufCMessage *message)
{
    const void *found = message;

    switch (question) {
    case QUESTION_PUT:
        return ((const Hf__Etcd__TxnResponse *)found)->succeeded;
    case QUESTION_DELETE:
        return ((const Hf__Etcd__DeleteRangeResponse *)found)->deleted == 1;
    case QUESTION_LEASE:
        wire->lease = ((const Hf__Etcd__LeaseGrantResponse *)found)->id;
        return wire->lease != 0;
    case QUESTION_LOGIN:
        return hf__rpc_set_token(wire->rpc,
                                 ((const Hf__Etcd__AuthenticateResponse *)found)->token) == HF_OK;
    }
    return 0;
}

static int hear(struct bench_wire *wire, const struct hf__rpc_event *event,
                struct bench_answer *out_answer)
{
    enum question question = (enum question)(event->tag >> 32);
    ProtobufCMessage *message = NULL;
    char error[HF__ERROR_BYTES];

    if (event->kind == HF__RPC_FAILED)
        return fail_refused(event);
    if (hf__message_unpack(&wire->memory, answer_to(question), event->message, &message, error) < 0)
        return fail(EPROTO);
    out_answer->tag = (uint32_t)event->tag;
    out_answer->is_done = take(wire, question, message);
    hf__message_free(&wire->memory, message);
    return HF_OK;
}

int bench_wire_next(struct bench_wire *wire, struct bench_answer *out_answer)
{
    struct hf__rpc_event event;
    int status = HF_OK;

    while (status == HF_OK) {
        while (hf__rpc_next(wire->rpc, &event)) {
            if (event.kind == HF__RPC_ANSWER || event.kind == HF__RPC_FAILED)
                return hear(wire, &event, out_answer);
        }
        status = send_requests(wire);
        if (status == HF_OK)
            status = receive(wire);
    }
    return status;
}

static int ask_alone(struct bench_wire *wire, enum question question,
                     const ProtobufCMessage *message)
{
    struct bench_answer answer = { 0 };

    if (ask(wire, question, message, 0) < 0 || bench_wire_next(wire, &answer) < 0)
        return HF_ESYSTEM;
    return answer.is_done ? HF_OK : fail(EPROTO);
}

/* --- the lease --- */

bool bench_wire_is_old(const struct bench_wire *wire)
{
    return hf__clock_now_ns() - wire->lease_ns > LEASE_OLD_NS;
}

int bench_wire_renew(struct bench_wire *wire)
{
    Hf__Etcd__LeaseGrantRequest request = HF__ETCD__LEASE_GRANT_REQUEST__INIT;

    request.ttl = LEASE_S;
    wire->lease_ns = hf__clock_now_ns();
    return ask_alone(wire, QUESTION_LEASE, &request.base);
}

/* --- opening --- */

static int log_in(struct bench_wire *wire)
{
    Hf__Etcd__AuthenticateRequest request;
    const char *file = hf__url_option(&wire->url, "password_file");
    char error[HF__ERROR_BYTES];

    if (!*wire->url.user)
        return HF_OK;
    if (file && hf__secret_read(file, wire->url.password, HF__SECRET_BYTES_MAX, error) < 0)
        return fail(EACCES);
    hf__etcd__authenticate_request__init(&request);
    request.name = wire->url.user;
    request.password = wire->url.password;
    return ask_alone(wire, QUESTION_LOGIN, &request.base);
}

static int prepare(struct bench_wire *wire)
{
    struct hf__rpc_options options = { .env = &wire->env, .authority = "etcd" };
    int status = connect_to(&wire->env, &wire->url, 0, "h2", &wire->stream);

    if (status < 0)
        return status;
    options.tls = strcmp(wire->url.scheme, "etcds") == 0;
    wire->listener = hf__stream_listener(wire->stream);
    hf__buffer_init(&wire->packed, &wire->env, HF__RPC_MESSAGE_BYTES_MAX);
    hf__memory_init(&wire->memory, &wire->env, HF__MESSAGE_MEMORY_MAX);
    status = hf__rpc_new(&options, &wire->rpc);
    if (status < 0)
        return fail_as(status);
    status = log_in(wire);
    return status < 0 ? status : bench_wire_renew(wire);
}

/* What a failure leaves behind ends with the process. */
int bench_wire_open(const char *url, struct bench_wire **out_wire)
{
    struct bench_wire *wire = calloc(1, sizeof(*wire));
    char error[HF__ERROR_BYTES];

    if (!wire)
        return fail(ENOMEM);
    *out_wire = wire;
    if (hf__env_init(&wire->env) < 0)
        return fail(ENOMEM);
    if (hf__url_parse(url, &wire->url, error) < 0)
        return fail(EINVAL);
    return prepare(wire);
}

/* --- what the servers have been asked --- */

static int read_page(const struct hf__env *env, const struct hf__url *url, size_t server,
                     struct hf__buffer *page)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct hf__stream *stream = NULL;
    int status = connect_to(env, url, server, NULL, &stream);
    ssize_t got = 0;

    if (status == HF_OK)
        status = write_all(stream, request, sizeof(request) - 1);
    while (status == HF_OK && got >= 0) {
        void *space;

        wait_for(stream, false);
        status = hf__buffer_reserve(page, READ_BYTES, &space);
        if (status == HF_OK)
            got = hf__stream_read(stream, space, READ_BYTES); /* < 0: that was all */
        if (status == HF_OK && got > 0)
            hf__buffer_commit(page, (size_t)got);
    }
    hf__stream_close(stream);
    return status < 0 ? status : hf__buffer_append(page, "", 1);
}

/* Of each method there is a line: name{labels} value. */
static double sum_page(const char *page)
{
    static const char field[] = "\ngrpc_server_msg_received_total{";
    const char *found = page;
    double sum = NAN;

    while ((found = strstr(found, field))) {
        found += strcspn(found + 1, " \n") + 1;
        sum = (isnan(sum) ? 0 : sum) + strtod(found, NULL);
    }
    return sum;
}

double bench_wire_count(const char *url)
{
    struct hf__url parsed;
    struct hf__env env;
    struct hf__buffer page;
    char error[HF__ERROR_BYTES];
    double sum = 0;

    if (hf__url_parse(url, &parsed, error) < 0 || hf__env_init(&env) < 0)
        return NAN;
    hf__buffer_init(&page, &env, PAGE_BYTES_MAX);
    for (size_t server = 0; server < parsed.server_count; server++) {
        int status = read_page(&env, &parsed, server, &page);

        sum += status == HF_OK ? sum_page(hf__buffer_front(&page)) : NAN;
        hf__buffer_done(&page);
    }
    hf__env_done(&env);
    hf__url_wipe(&parsed);
    return sum;
}
