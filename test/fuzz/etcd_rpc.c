/* etcd_rpc.c (fuzz): whatever a server of gRPC sends, however it is cut, every call that was begun
 * has one last event, memory stays within its limit and is all given back, and what ends the
 * connection has a name. Every message that comes of it, and the bytes themselves, can be read as
 * any message of etcd, or are refused. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/message.h"
#include "engine/etcd/rpc.h"
#include "holdfast/holdfast.h"
#include "target.h"

#define CALLS             3
#define MESSAGE_BYTES_MAX 1000
#define MEMORY_BYTES_MAX  (1u << 20)
#define PING_TAG          0x3736353433323130u /* "01234567" */

static void read_as_each(const struct hf__env *env, struct hf__rpc_bytes bytes)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &hf__etcd__range_response__descriptor,
        &hf__etcd__put_response__descriptor,
        &hf__etcd__delete_range_response__descriptor,
        &hf__etcd__txn_response__descriptor,
        &hf__etcd__lease_grant_response__descriptor,
        &hf__etcd__lease_keep_alive_response__descriptor,
        &hf__etcd__lease_time_to_live_response__descriptor,
        &hf__etcd__watch_response__descriptor,
        &hf__etcd__authenticate_response__descriptor,
        &hf__etcd__status_response__descriptor,
        &hf__etcd__member_list_response__descriptor,
    };
    struct hf__memory memory;

    hf__memory_init(&memory, env, MEMORY_BYTES_MAX);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        char error[HF__ERROR_BYTES] = "";
        ProtobufCMessage *message = NULL;
        int status = hf__message_unpack(&memory, types[i], bytes, &message, error);

        assert(status == HF_OK || (status == HF_EPROTOCOL && *error));
        assert((status == HF_OK) == (message != NULL));
        hf__message_free(&memory, message);
        assert(memory.bytes == 0);
    }
    hf__memory_done(&memory);
}

static void begin_calls(struct hf__rpc *rpc)
{
    struct hf__rpc_request request = { .path = "/x",
                                       .message = { (const uint8_t *)"message", 7 },
                                       .deadline_ns = HF__NEVER };
    struct hf__rpc_call *stream = NULL;
    const void *bytes;

    for (request.tag = 0; request.tag < CALLS; request.tag++)
        assert(hf__rpc_start(rpc, &request, NULL) == HF_OK);
    assert(hf__rpc_open(rpc, &request, &stream) == HF_OK);
    assert(hf__rpc_send(rpc, stream, request.message) == HF_OK);
    assert(hf__rpc_ping(rpc, PING_TAG));
    hf__rpc_sent(rpc, hf__rpc_output(rpc, &bytes));
}

/* ends: how many last events each has had. */
static void drain(const struct hf__env *env, struct hf__rpc *rpc, int ends[CALLS + 1])
{
    struct hf__rpc_event event;

    while (hf__rpc_next(rpc, &event)) {
        bool is_call = event.kind == HF__RPC_ANSWER || event.kind == HF__RPC_FAILED;

        assert(event.text && strlen(event.text) < HF__ERROR_BYTES);
        assert(event.message.count <= MESSAGE_BYTES_MAX);
        if (is_call || event.kind == HF__RPC_ENDED) {
            assert(event.tag <= CALLS && ends[event.tag]++ == 0);
            assert(is_call == (event.tag < CALLS));
            assert(event.kind != HF__RPC_ANSWER || event.code == HF__RPC_CODE_OK);
            assert(event.kind != HF__RPC_FAILED || event.code != HF__RPC_CODE_OK);
        }
        assert(event.kind != HF__RPC_MESSAGE || (event.tag == CALLS && ends[CALLS] == 0));
        assert(event.kind != HF__RPC_PONG || event.tag == PING_TAG);
        if (event.kind == HF__RPC_ANSWER || event.kind == HF__RPC_MESSAGE)
            read_as_each(env, event.message);
    }
}

static void serve(const struct hf__env *env, const uint8_t *bytes, size_t count, size_t piece)
{
    struct hf__rpc_options options = { .env = env,
                                       .authority = "a",
                                       .message_bytes_max = MESSAGE_BYTES_MAX,
                                       .memory_bytes_max = MEMORY_BYTES_MAX };
    char error[HF__ERROR_BYTES] = "";
    int ends[CALLS + 1] = { 0 };
    struct hf__rpc *rpc = NULL;
    const void *output;
    int status = HF_OK;

    assert(hf__rpc_new(&options, &rpc) == HF_OK);
    begin_calls(rpc);
    for (size_t at = 0; at < count && status == HF_OK; at += piece) {
        size_t next = count - at < piece ? count - at : piece;

        status = hf__rpc_feed(rpc, bytes + at, next, at);
        hf__rpc_sent(rpc, hf__rpc_output(rpc, &output));
        drain(env, rpc, ends);
    }
    assert(status == HF_OK || status == HF_EPROTOCOL);
    assert(hf__rpc_error(rpc, error) == status && (status == HF_OK) == !*error);
    hf__rpc_fail(rpc, HF_EUNREACHABLE, "over");
    drain(env, rpc, ends);
    for (size_t i = 0; i <= CALLS; i++)
        assert(ends[i] == 1);
    assert(hf__rpc_calls(rpc) == 0);
    hf__rpc_free(rpc);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct hf__env env;

    assert(hf__env_init(&env) == HF_OK);
    read_as_each(&env, (struct hf__rpc_bytes){ bytes, count });
    serve(&env, bytes, count, count > 0 ? count : 1);
    serve(&env, bytes, count, 1);
    hf__env_done(&env);
    return 0;
}
