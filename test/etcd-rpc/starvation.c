/* starvation.c: what happens when memory runs out, wherever it does? Each allocation of a course is
 * refused in turn, alone and with all that follow: every step answers HF_ENOMEM or what it answers
 * with plenty, every call that was begun has its last event, and nothing is left. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "engine/etcd/message.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"
#include "peer.h"

#define END NGHTTP2_FLAG_END_STREAM

static bool worked(int status)
{
    CHECK(status == HF_OK || status == HF_ENOMEM);
    return status == HF_OK;
}

static size_t begin_calls(struct hf__rpc *rpc, struct hf__rpc_call **out_stream)
{
    static const uint8_t message[3000];
    struct hf__rpc_request request = {
        .path = "/x", .message = { message, sizeof(message) }, .deadline_ns = 100, .tag = 1
    };
    struct hf__rpc_bytes small = { (const uint8_t *)"small", 5 };
    size_t begun = 0;

    (void)worked(hf__rpc_set_token(rpc, "secret"));
    for (int i = 0; i < 3; i++)
        begun += worked(hf__rpc_start(rpc, &request, NULL));
    if (worked(hf__rpc_open(rpc, &request, out_stream))) {
        begun++;
        (void)worked(hf__rpc_send(rpc, *out_stream, small));
    }
    (void)hf__rpc_ping(rpc, 1);
    return begun;
}

static void put_answers(struct frames *frames)
{
    static const uint8_t prefix[] = { 0, 0, 0, 0x30, 0 };
    static const uint8_t body[0x3000];

    frames_settings(frames);
    frames_headers(frames, 0, 1, GOOD_HEADERS);
    frames_data(frames, 0, 1, prefix, sizeof(prefix));
    frames_data(frames, 0, 1, body, sizeof(body));
    frames_headers(frames, END, 1, GOOD_TRAILERS);
    frames_headers(frames, 0, 7, GOOD_HEADERS);
    frames_message(frames, 0, 7, "hello");
    frames_headers(frames, 0, 3, ":status: 404\n");
}

static size_t count_ends(struct hf__rpc *rpc)
{
    struct hf__rpc_event event;
    size_t ends = 0;

    while (hf__rpc_next(rpc, &event))
        ends += event.kind == HF__RPC_ANSWER || event.kind == HF__RPC_FAILED ||
                event.kind == HF__RPC_ENDED;
    return ends;
}

/* How many allocations were refused. */
static size_t run_course(size_t nth, bool fail_later)
{
    static struct frames frames;
    struct hf__rpc_options options = { .authority = "a" };
    struct hf__rpc_call *stream = NULL;
    struct hf__rpc *rpc = NULL;
    struct failing_env world;
    const void *bytes;
    size_t begun;
    size_t ends;
    int status;

    failing_env_init(&world, nth);
    world.fail_later = fail_later;
    options.env = &world.env;
    if (worked(hf__rpc_new(&options, &rpc))) {
        begun = begin_calls(rpc, &stream);
        hf__rpc_sent(rpc, hf__rpc_output(rpc, &bytes));
        frames.count = 0;
        put_answers(&frames);
        status = hf__rpc_feed(rpc, frames.bytes, frames.count, 1);
        if (begun == 4) /* otherwise the answers are to calls that there are not */
            (void)worked(status);
        ends = count_ends(rpc);
        hf__rpc_tick(rpc, 100);
        hf__rpc_sent(rpc, hf__rpc_output(rpc, &bytes));
        hf__rpc_fail(rpc, HF_EUNREACHABLE, "over");
        ends += count_ends(rpc);
        CHECK_EQUAL(ends, begun);
        CHECK_EQUAL(hf__rpc_calls(rpc), 0);
    }
    hf__rpc_free(rpc);
    CHECK_EQUAL(world.live, 0);
    return world.refused;
}

TEST(starvation, of_a_connection_harms_nobody)
{
    for (int fail_later = 0; fail_later < 2; fail_later++) {
        size_t nth = 1;

        while (run_course(nth, fail_later) > 0)
            nth++;
        CHECK(nth > 20);
    }
}

static Hf__Etcd__RangeResponse *make_response(void)
{
    Hf__Etcd__RangeResponse *response = calloc(1, sizeof(*response));

    CHECK(response != NULL);
    hf__etcd__range_response__init(response);
    response->n_kvs = 40;
    response->kvs = calloc(response->n_kvs, sizeof(*response->kvs));
    for (size_t i = 0; i < response->n_kvs; i++) {
        response->kvs[i] = calloc(1, sizeof(**response->kvs));
        hf__etcd__key_value__init(response->kvs[i]);
        response->kvs[i]->key = (ProtobufCBinaryData){ 3, (uint8_t *)(uintptr_t) "key" };
        response->kvs[i]->create_revision = (int64_t)i;
    }
    return response;
}

static void pack_response(struct hf__buffer *packed)
{
    Hf__Etcd__RangeResponse *response = make_response();

    CHECK_EQUAL(hf__message_pack(&response->base, packed), HF_OK);
    for (size_t i = 0; i < response->n_kvs; i++)
        free(response->kvs[i]);
    free(response->kvs);
    free(response);
}

TEST(starvation, of_a_message_leaves_nothing)
{
    size_t refused = 1;
    struct hf__buffer packed;
    struct hf__env env;

    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    hf__buffer_init(&packed, &env, 1 << 20);
    pack_response(&packed);
    for (size_t nth = 1; refused > 0; nth++) {
        struct hf__rpc_bytes bytes = { hf__buffer_front(&packed), hf__buffer_count(&packed) };
        char error[HF__ERROR_BYTES] = "";
        ProtobufCMessage *message = NULL;
        struct failing_env world;
        struct hf__memory memory;
        int status;

        failing_env_init(&world, nth);
        hf__memory_init(&memory, &world.env, HF__MESSAGE_MEMORY_MAX);
        status = hf__message_unpack(&memory, &hf__etcd__range_response__descriptor, bytes, &message,
                                    error);
        refused = world.refused;
        CHECK_EQUAL(status, refused > 0 ? HF_ENOMEM : HF_OK);
        CHECK((status == HF_OK) == (message != NULL) && (status == HF_OK) == !*error);
        hf__message_free(&memory, message);
        CHECK_EQUAL(memory.bytes, 0);
        hf__memory_done(&memory);
        CHECK_EQUAL(world.live, 0);
    }
    hf__buffer_done(&packed);
    hf__env_done(&env);
}
