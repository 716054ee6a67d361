/* messages.c: messages to bytes and back, and the memory that they may take. */
#include <string.h>

#include "check.h"
#include "engine/etcd/memory.h"
#include "engine/etcd/message.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"

struct desk {
    struct failing_env world;
    struct hf__memory memory;
    struct hf__buffer packed;
    char error[HF__ERROR_BYTES];
};

static void desk_init(struct desk *desk, size_t bytes_max)
{
    failing_env_init(&desk->world, 0);
    hf__memory_init(&desk->memory, &desk->world.env, bytes_max);
    hf__buffer_init(&desk->packed, &desk->world.env, 8u << 20);
    desk->error[0] = '\0';
}

static void desk_done(struct desk *desk)
{
    CHECK_EQUAL(desk->memory.bytes, 0);
    hf__memory_done(&desk->memory);
    hf__buffer_done(&desk->packed);
    CHECK_EQUAL(desk->world.live, 0);
}

static int unpack(struct desk *desk, const ProtobufCMessageDescriptor *type,
                  ProtobufCMessage **out_message)
{
    struct hf__rpc_bytes bytes = { hf__buffer_front(&desk->packed),
                                   hf__buffer_count(&desk->packed) };

    return hf__message_unpack(&desk->memory, type, bytes, out_message, desk->error);
}

static ProtobufCBinaryData text(const char *bytes)
{
    return (ProtobufCBinaryData){ strlen(bytes), (uint8_t *)(uintptr_t)bytes };
}

/* The bytes are those that etcd's own client writes for the same transaction: by the numbers of
 * the fields, in order. */
TEST(messages, a_transaction_is_written_as_etcd_reads_it)
{
    static const uint8_t wanted[] = "\x0a\x09\x10\x01\x1a\x03"
                                    "a/b\x28\x00"
                                    "\x12\x0d\x12\x0b\x0a\x03"
                                    "a/b\x12\x02me\x18\x07"
                                    "\x1a\x0e\x0a\x0c\x0a\x02"
                                    "a/\x12\x02"
                                    "a0\x18\x01\x30\x02";
    Hf__Etcd__TxnRequest txn = HF__ETCD__TXN_REQUEST__INIT;
    Hf__Etcd__Compare compare = HF__ETCD__COMPARE__INIT;
    Hf__Etcd__RequestOp put = HF__ETCD__REQUEST_OP__INIT;
    Hf__Etcd__RequestOp get = HF__ETCD__REQUEST_OP__INIT;
    Hf__Etcd__PutRequest put_request = HF__ETCD__PUT_REQUEST__INIT;
    Hf__Etcd__RangeRequest range = HF__ETCD__RANGE_REQUEST__INIT;
    struct desk desk;

    desk_init(&desk, 1 << 20);
    compare.target = HF__ETCD__COMPARE__COMPARE_TARGET__CREATE;
    compare.key = text("a/b");
    compare.target_union_case = HF__ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    put_request.key = text("a/b");
    put_request.value = text("me");
    put_request.lease = 7;
    put.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    put.request_put = &put_request;
    range.key = text("a/");
    range.range_end = text("a0");
    range.limit = 1;
    range.sort_target = HF__ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    get.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    get.request_range = &range;
    txn.compare = (Hf__Etcd__Compare *[]){ &compare };
    txn.success = (Hf__Etcd__RequestOp *[]){ &put };
    txn.failure = (Hf__Etcd__RequestOp *[]){ &get };
    txn.n_compare = txn.n_success = txn.n_failure = 1;
    CHECK_EQUAL(hf__message_pack(&txn.base, &desk.packed), HF_OK);
    CHECK_EQUAL(hf__buffer_count(&desk.packed), sizeof(wanted) - 1);
    CHECK(memcmp(hf__buffer_front(&desk.packed), wanted, sizeof(wanted) - 1) == 0);
    desk_done(&desk);
}

TEST(messages, what_is_empty_is_no_bytes_and_back)
{
    Hf__Etcd__StatusRequest request = HF__ETCD__STATUS_REQUEST__INIT;
    ProtobufCMessage *message = NULL;
    struct desk desk;

    desk_init(&desk, 1 << 20);
    CHECK_EQUAL(hf__message_pack(&request.base, &desk.packed), HF_OK);
    CHECK_EQUAL(hf__buffer_count(&desk.packed), 0);
    CHECK_EQUAL(unpack(&desk, &hf__etcd__lease_keep_alive_response__descriptor, &message), HF_OK);
    CHECK(((Hf__Etcd__LeaseKeepAliveResponse *)message)->ttl == 0); /* a lease that is gone */
    CHECK(!((Hf__Etcd__LeaseKeepAliveResponse *)message)->header);
    hf__message_free(&desk.memory, message);
    hf__message_free(&desk.memory, NULL);
    desk_done(&desk);
}

TEST(messages, what_is_no_message_is_refused)
{
    static const char *const bad[] = { "\n\5ab",       "\x0a",     "\xff\xff\xff\xff\xff\xff",
                                       "\x12\x01\x0a", "\x0b\x0c", "\x0f" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ProtobufCMessage *message = NULL;
        struct desk desk;

        desk_init(&desk, 1 << 20);
        CHECK_EQUAL(hf__buffer_append(&desk.packed, bad[i], strlen(bad[i])), HF_OK);
        CHECK_EQUAL(unpack(&desk, &hf__etcd__range_response__descriptor, &message), HF_EPROTOCOL);
        CHECK_TEXT(desk.error, "the server sent what is no RangeResponse");
        CHECK(!message);
        desk_done(&desk);
    }
}

/* Two bytes become a hundred: a message within its limit would take 150 MB. */
TEST(messages, a_message_that_swells_is_refused)
{
    ProtobufCMessage *message = NULL;
    struct desk desk;

    desk_init(&desk, HF__MESSAGE_MEMORY_MAX);
    for (size_t i = 0; i < 1500000; i++)
        CHECK_EQUAL(hf__buffer_append(&desk.packed, "\x12\x00", 2), HF_OK);
    CHECK_EQUAL(unpack(&desk, &hf__etcd__range_response__descriptor, &message), HF_EPROTOCOL);
    CHECK(strstr(desk.error, "a RangeResponse that takes more than 3407872 bytes"));
    CHECK_EQUAL(desk.memory.bytes, 0);
    desk_done(&desk);
}

/* A transaction in a transaction, a thousand deep: not looked into. */
TEST(messages, what_lies_too_deep_is_not_looked_into)
{
    ProtobufCMessage *message = NULL;
    uint8_t bytes[6000];
    size_t at = sizeof(bytes);
    struct desk desk;

    while (at > 10) {
        size_t inside = sizeof(bytes) - at;

        at -= 3; /* responses (3), or response_txn (4) */
        bytes[at] = inside / 3 % 2 ? 0x1a : 0x22;
        bytes[at + 1] = (uint8_t)(inside % 128 | 128);
        bytes[at + 2] = (uint8_t)(inside / 128);
    }
    desk_init(&desk, 1 << 20);
    CHECK_EQUAL(hf__buffer_append(&desk.packed, bytes + at, sizeof(bytes) - at), HF_OK);
    CHECK_EQUAL(unpack(&desk, &hf__etcd__txn_response__descriptor, &message), HF_OK);
    hf__message_free(&desk.memory, message);
    desk_done(&desk);
}

/* --- memory --- */

TEST(memory, is_counted_and_ends)
{
    struct desk desk;
    void *first;
    void *second;

    desk_init(&desk, 1000);
    CHECK(!hf__memory_new(&desk.memory, SIZE_MAX));
    CHECK(!hf__memory_new(&desk.memory, 1000));
    CHECK(desk.memory.is_exhausted);
    desk.memory.is_exhausted = false;
    first = hf__memory_new(&desk.memory, 400);
    CHECK(first && desk.memory.bytes == 512);
    CHECK(!hf__memory_resize(&desk.memory, first, 600));
    CHECK(desk.memory.is_exhausted);
    second = hf__memory_new(&desk.memory, 100);
    CHECK(second && desk.memory.bytes == 640);
    hf__memory_free(&desk.memory, first);
    hf__memory_free(&desk.memory, second);
    hf__memory_free(&desk.memory, NULL);
    desk_done(&desk);
}

TEST(memory, is_always_zero_and_keeps_what_it_held_when_it_grows)
{
    struct desk desk;

    desk_init(&desk, 1 << 20);
    for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
        uint8_t *block = hf__memory_new(&desk.memory, bytes);

        CHECK(block != NULL);
        for (size_t i = 0; i < bytes; i++)
            CHECK(block[i] == 0);
        memset(block, 'x', bytes);
        block = hf__memory_resize(&desk.memory, block, bytes * 2);
        CHECK(block && block[0] == 'x' && block[bytes - 1] == 'x');
        memset(block, 'y', bytes * 2);
        hf__memory_free(&desk.memory, block);
    }
    desk_done(&desk);
}
