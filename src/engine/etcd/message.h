/* message.h: messages of etcd to bytes and back. The messages themselves are in etcd.pb-c.h.
 *
 *     Hf__Etcd__RangeRequest range = HF__ETCD__RANGE_REQUEST__INIT;
 *     hf__message_pack(&range.base, &packed);                                   into a buffer
 *     ...
 *     status = hf__message_unpack(&memory, &hf__etcd__range_response__descriptor, event.message,
 *                                 &message, error);
 *     response = (Hf__Etcd__RangeResponse *)message;
 *     hf__message_free(&memory, message);
 *
 * A message with texts in it (AuthenticateRequest) is begun by its function, as
 * hf__etcd__authenticate_request__init(): the macro casts a const away, and clang warns. */
#ifndef HF_ENGINE_ETCD_MESSAGE_H
#define HF_ENGINE_ETCD_MESSAGE_H

#include <etcd.pb-c.h>

#include "base/buffer.h"
#include "base/error.h"
#include "engine/etcd/memory.h"
#include "engine/etcd/rpc.h"

/* A good size for the memory that messages are unpacked into: a message of 3 MiB holds its keys and
 * values once more; one that says nothing in many words would become sixty times as large. */
#define HF__MESSAGE_MEMORY_MAX (3328u << 10)

/* Behind what the buffer holds already. All or nothing: HF_ELIMIT, HF_ENOMEM. */
int hf__message_pack(const ProtobufCMessage *message, struct hf__buffer *out);

/* HF_EPROTOCOL: no such message, or one that takes more than the memory may; HF_ENOMEM. A text in
 * it ends at its first NUL, whatever came behind. Enums may have any value. */
int hf__message_unpack(struct hf__memory *memory, const ProtobufCMessageDescriptor *type,
                       struct hf__rpc_bytes packed, ProtobufCMessage **out_message,
                       char error[HF__ERROR_BYTES]);
/* Accepts NULL. */
void hf__message_free(struct hf__memory *memory, ProtobufCMessage *message);

#endif
