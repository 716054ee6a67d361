/* message.c: how do messages become bytes, and bytes messages?
 *
 * protobuf-c does it, by tables that were made from proto/etcd.proto; memory comes from an
 * hf__memory, so that what a server sent can be unpacked only up to a limit. No message holds one
 * of its own kind, so that its depth has a limit too.
 *
 * What can go wrong: bytes that are no such message; more than the memory may hold: both are the
 * server's doing. No memory. In all cases nothing stays.
 *
 * Pure: no clock, no I/O. */
#include "engine/etcd/message.h"

#include <assert.h>

#include "holdfast/holdfast.h"

int hf__message_pack(const ProtobufCMessage *message, struct hf__buffer *out)
{
    size_t count = protobuf_c_message_get_packed_size(message);
    void *space = NULL;
    int status;

    if (count == 0)
        return HF_OK;
    status = hf__buffer_reserve(out, count, &space);
    if (status < 0)
        return status;
    hf__buffer_commit(out, protobuf_c_message_pack(message, space));
    return HF_OK;
}

static void *allocate(void *memory, size_t bytes)
{
    return hf__memory_new(memory, bytes);
}

static void release(void *memory, void *block)
{
    hf__memory_free(memory, block);
}

int hf__message_unpack(struct hf__memory *memory, const ProtobufCMessageDescriptor *type,
                       struct hf__rpc_bytes packed, ProtobufCMessage **out_message,
                       char error[HF__ERROR_BYTES])
{
    ProtobufCAllocator allocator = { allocate, release, memory };
    ProtobufCMessage *message;

    assert(type && out_message);
    assert(packed.at || packed.count == 0);

    memory->is_exhausted = false;
    memory->is_starved = false;
    message = protobuf_c_message_unpack(type, &allocator, packed.count, packed.at);
    if (message) {
        *out_message = message;
        return HF_OK;
    }
    if (memory->is_exhausted)
        return hf__error_set(error, HF_EPROTOCOL,
                             "the server sent a %s that takes more than %zu bytes",
                             type->short_name, memory->bytes_max);
    if (memory->is_starved)
        return hf__error_set(error, HF_ENOMEM, "out of memory");
    return hf__error_set(error, HF_EPROTOCOL, "the server sent what is no %s", type->short_name);
}

void hf__message_free(struct hf__memory *memory, ProtobufCMessage *message)
{
    ProtobufCAllocator allocator = { allocate, release, memory };

    if (message)
        protobuf_c_message_free_unpacked(message, &allocator);
}
