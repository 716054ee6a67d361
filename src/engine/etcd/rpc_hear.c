/* rpc_hear.c: what do the frames of the server mean to the calls?
 *
 * Happy path of a call: HEADERS with :status 200 and a content type of gRPC; DATA, in which five
 * bytes announce a message and the message follows, cut anywhere; HEADERS that end the stream, with
 * grpc-status 0. A server that only refuses sends one HEADERS with all of it. Streams have any
 * number of messages.
 *
 * What can go wrong, for one call: another HTTP status, no gRPC, a message that is compressed, too
 * long, cut off, lacking or one too many, no grpc-status, a reset. The call is ended with what it
 * was, and the stream is reset; the connection goes on. For all: headers beyond the limit,
 * more memory than the server may have us keep, and whatever nghttp2 finds: it writes the reason
 * into the GOAWAY that it would send.
 *
 * Pure: no clock, no I/O; memory by the env. */
#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "engine/etcd/rpc_inside.h"
#include "holdfast/holdfast.h"

#define HEADER_EXTRA_BYTES 32 /* as HTTP/2 counts them (RFC 9113, 6.5.2) */
#define MESSAGE_ROOM_FIRST (4096 - sizeof(struct hf__rpc_message) - sizeof(max_align_t))

static struct hf__rpc_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return stream_id > 0 ? nghttp2_session_get_stream_user_data(session, stream_id) : NULL;
}

/* --- headers --- */

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct hf__rpc *rpc = context;

    (void)session;
    (void)frame;
    rpc->header_bytes = 0;
    return 0;
}

static bool is_named(const uint8_t *name, size_t name_count, const char *wanted)
{
    return name_count == strlen(wanted) && memcmp(name, wanted, name_count) == 0;
}

static void note_type(struct hf__rpc_call *call, struct hf__rpc_bytes value)
{
    char shown[HF__ERROR_BYTES / 2];

    call->has_type = true;
    if (hf__rpc_text_is_grpc(value.at, value.count) || call->has_response)
        return;
    call->has_bad_type = true;
    (void)hf__text_escape((const char *)value.at, value.count, shown, sizeof(shown));
    (void)hf__error_set(call->text, HF_EPROTOCOL, "the answer is '%s', not gRPC", shown);
}

static void note_header(struct hf__rpc_call *call, const uint8_t *name, size_t name_count,
                        struct hf__rpc_bytes value)
{
    const char *text = (const char *)value.at;
    uint64_t number = 0;

    if (is_named(name, name_count, ":status")) {
        if (hf__text_to_u64(text, value.count, &number) && number < 1000)
            call->http_status = (int)number;
    } else if (is_named(name, name_count, "content-type")) {
        note_type(call, value);
    } else if (is_named(name, name_count, "grpc-status")) {
        if (hf__text_to_u64(text, value.count, &number) && number <= INT_MAX)
            call->grpc_status = (int)number;
    } else if (is_named(name, name_count, "grpc-message") && !call->has_bad_type) {
        hf__rpc_text_message(value.at, value.count, call->text);
    }
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2's signature */
static int hear_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                       size_t name_count, const uint8_t *value, size_t value_count, uint8_t flags,
                       void *context)
{
    struct hf__rpc_call *call = call_of(session, frame->hd.stream_id);
    struct hf__rpc *rpc = context;

    (void)flags;
    rpc->header_bytes += name_count + value_count + HEADER_EXTRA_BYTES;
    if (rpc->header_bytes > HF__RPC_HEADERS_BYTES_MAX)
        return hf__rpc_condemn(rpc, HF_EPROTOCOL, "the server sent more than %u bytes of headers",
                               HF__RPC_HEADERS_BYTES_MAX);
    if (call)
        note_header(call, name, name_count, (struct hf__rpc_bytes){ value, value_count });
    return 0;
}

/* One that HTTP forbids: it counts, but is not looked at.
 * NOLINTNEXTLINE(readability-function-size): nghttp2's signature */
static int hear_bad_header(nghttp2_session *session, const nghttp2_frame *frame,
                           const uint8_t *name, size_t name_count, const uint8_t *value,
                           size_t value_count, uint8_t flags, void *context)
{
    struct hf__rpc *rpc = context;

    (void)session;
    (void)frame;
    (void)name;
    (void)value;
    (void)flags;
    rpc->header_bytes += name_count + value_count + HEADER_EXTRA_BYTES;
    if (rpc->header_bytes > HF__RPC_HEADERS_BYTES_MAX)
        return hf__rpc_condemn(rpc, HF_EPROTOCOL, "the server sent more than %u bytes of headers",
                               HF__RPC_HEADERS_BYTES_MAX);
    return 0;
}

/* --- the end of a call --- */

/* All that the server will say has been said, and its code is known. */
static void conclude(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    struct hf__rpc_end end = { .code = call->grpc_status,
                               .status = HF_OK,
                               .fate = HF__RPC_FATE_ANSWERED,
                               .reset = call->is_sealed ? -1 : NGHTTP2_NO_ERROR };
    bool is_cut = call->prefix_count > 0 || (call->message && !call->has_answer);

    if (call->grpc_status < 0)
        hf__rpc_call_refuse(rpc, call, HF__RPC_CODE_UNKNOWN, "the answer ended without its status");
    else if (call->grpc_status == HF__RPC_CODE_OK && is_cut)
        hf__rpc_call_refuse(rpc, call, HF__RPC_CODE_INTERNAL, "the answer ended in a message");
    else if (call->grpc_status == HF__RPC_CODE_OK && !call->is_stream && !call->has_answer)
        hf__rpc_call_refuse(rpc, call, HF__RPC_CODE_INTERNAL, "success, but no answer");
    else
        hf__rpc_call_end(rpc, call, &end);
}

static void end_headers(struct hf__rpc *rpc, struct hf__rpc_call *call, bool is_last)
{
    if (!call->has_response && call->http_status < 200 && !is_last) {
        call->http_status = 0; /* "100 continue" and its like */
        return;
    }
    if (!call->has_response) {
        call->has_response = true;
        if (call->http_status != 200) {
            hf__rpc_call_refuse(rpc, call, hf__rpc_text_code_of_http(call->http_status),
                                "HTTP status %d", call->http_status);
            return;
        }
        if (call->has_bad_type || !call->has_type) {
            hf__rpc_call_refuse(rpc, call, HF__RPC_CODE_UNKNOWN, "%s",
                                call->has_bad_type ? call->text
                                                   : "the answer has no type: not gRPC");
            return;
        }
    }
    if (is_last)
        conclude(rpc, call);
}

/* nghttp2 is done with it; if we are not, then it did not end as it should. */
static int close_stream(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                        void *context)
{
    struct hf__rpc_call *call = call_of(session, stream_id);
    bool is_refused = error_code == NGHTTP2_REFUSED_STREAM;
    struct hf__rpc *rpc = context;
    struct hf__rpc_end end = { hf__rpc_text_code_of_reset(error_code), HF_EUNREACHABLE,
                               HF__RPC_FATE_PERHAPS, -1 };

    if (stream_id % 2 == 1 && rpc->stream_count > 0) /* not one of the server's own */
        rpc->stream_count--;
    if (!call)
        return 0;
    if (!is_refused && !call->was_reset) { /* it was nghttp2 */
        end.status = HF_EPROTOCOL;
        (void)hf__error_set(call->text, end.status, "the answer is not HTTP/2: %s",
                            call->broken_by ? nghttp2_strerror(call->broken_by)
                                            : nghttp2_http2_strerror(error_code));
        hf__rpc_call_end(rpc, call, &end);
        return 0;
    }
    if (is_refused && !call->has_response) /* before anything was done (RFC 9113, 8.7) */
        end.fate = HF__RPC_FATE_NEVER;
    if (is_refused && !call->was_reset && rpc->is_leaving)
        (void)hf__error_set(call->text, end.status, "%s", rpc->leaving_text);
    else
        (void)hf__error_set(call->text, end.status, "the server reset the call: %s",
                            nghttp2_http2_strerror(error_code));
    hf__rpc_call_end(rpc, call, &end);
    return 0;
}

/* --- messages --- */

/* The prefix is whole: is this a message that we take? 1: yes; 0: no, and the call is over; < 0:
 * the connection is. */
static int begin_message(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    size_t count = (size_t)call->prefix[1] << 24 | (size_t)call->prefix[2] << 16 |
                   (size_t)call->prefix[3] << 8 | (size_t)call->prefix[4];
    size_t room = count < MESSAGE_ROOM_FIRST ? count : MESSAGE_ROOM_FIRST;
    struct hf__rpc_message *message;

    if (call->prefix[0] != 0) {
        hf__rpc_call_refuse(rpc, call, HF__RPC_CODE_INTERNAL,
                            call->prefix[0] == 1 ? "the answer is compressed, unasked"
                                                 : "the answer is not a message of gRPC");
        return 0;
    }
    if (count > rpc->message_bytes_max) {
        hf__rpc_call_refuse(rpc, call, HF__RPC_CODE_RESOURCE_EXHAUSTED,
                            "the answer has %zu bytes, at most %zu are taken", count,
                            rpc->message_bytes_max);
        return 0;
    }
    if (call->has_answer) {
        hf__rpc_call_refuse(rpc, call, HF__RPC_CODE_INTERNAL, "two answers to one call");
        return 0;
    }
    message = hf__memory_new(&rpc->theirs, sizeof(*message) + room);
    if (!message)
        return hf__rpc_condemn_by(rpc, NGHTTP2_ERR_NOMEM);
    hf__list_init(&message->note.place);
    message->call = call;
    message->count = count;
    message->room = room;
    call->message = message;
    return 1;
}

/* So that the next `count` bytes fit. */
static int make_room(struct hf__rpc *rpc, struct hf__rpc_call *call, size_t count)
{
    struct hf__rpc_message *message = call->message;
    size_t room = message->room;

    if (count <= message->room - message->got)
        return 0;
    while (room - message->got < count)
        room *= 2;
    if (room > message->count / 4) /* rather than once more, with two of them for a while */
        room = message->count;
    message = hf__memory_resize(&rpc->theirs, message, sizeof(*message) + room);
    if (!message)
        return hf__rpc_condemn_by(rpc, NGHTTP2_ERR_NOMEM);
    hf__list_init(&message->note.place); /* it was in no list */
    message->room = room;
    call->message = message;
    return 0;
}

static void end_message(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    call->prefix_count = 0;
    if (!call->is_stream) {
        call->has_answer = true;
        return;
    }
    hf__rpc_tell(rpc, &call->message->note, HF__RPC_MESSAGE);
    call->message = NULL;
}

/* Takes some of the bytes; how many, or the code that ends the connection. */
static ssize_t take_bytes(struct hf__rpc *rpc, struct hf__rpc_call *call, const uint8_t *bytes,
                          size_t count)
{
    struct hf__rpc_message *message;
    size_t part;
    int begun;

    if (call->prefix_count < HF__RPC_PREFIX_BYTES) {
        call->prefix[call->prefix_count++] = *bytes;
        if (call->prefix_count < HF__RPC_PREFIX_BYTES)
            return 1;
        begun = begin_message(rpc, call);
        if (begun < 0)
            return begun;
        assert(begun == 0 || call->message);
        if (begun > 0 && call->message->count == 0)
            end_message(rpc, call);
        return 1;
    }
    assert(call->message); /* a whole prefix has one */
    part = call->message->count - call->message->got;
    part = part < count ? part : count;
    if (make_room(rpc, call, part) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    message = call->message;
    memcpy(message->data + message->got, bytes, part);
    message->got += part;
    if (message->got == message->count)
        end_message(rpc, call);
    return (ssize_t)part;
}

/* NOLINTNEXTLINE(readability-function-size): nghttp2's signature */
static int hear_data(nghttp2_session *session, uint8_t flags, int32_t stream_id,
                     const uint8_t *bytes, size_t count, void *context)
{
    struct hf__rpc_call *call = call_of(session, stream_id);
    struct hf__rpc *rpc = context;
    size_t at = 0;

    (void)flags;
    while (call && at < count && call->state == HF__RPC_STATE_OPEN) {
        ssize_t taken = take_bytes(rpc, call, bytes + at, count - at);

        if (taken < 0)
            return (int)taken;
        at += (size_t)taken;
    }
    return 0;
}

/* --- frames --- */

static void hear_goaway(struct hf__rpc *rpc, const nghttp2_goaway *goaway)
{
    char shown[HF__ERROR_BYTES / 2];

    (void)hf__text_escape(goaway->opaque_data ? (const char *)goaway->opaque_data : "",
                          goaway->opaque_data_len, shown, sizeof(shown));
    hf__rpc_leave(rpc, "the server sent GOAWAY: %s%s%s", nghttp2_http2_strerror(goaway->error_code),
                  *shown ? ": " : "", shown);
}

static int hear_ping(struct hf__rpc *rpc, const nghttp2_ping *ping)
{
    bool is_ours = memcmp(ping->opaque_data, &rpc->ping_tag, sizeof(rpc->ping_tag)) == 0;

    if ((ping->hd.flags & NGHTTP2_FLAG_ACK) == 0)
        return hf__rpc_take_ping(rpc, ping->opaque_data);
    if (rpc->is_pinging && is_ours &&
        hf__list_empty(&rpc->pong.place)) /* a server may well answer twice */
        hf__rpc_tell(rpc, &rpc->pong, HF__RPC_PONG);
    return 0;
}

static int hear_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct hf__rpc_call *call = call_of(session, frame->hd.stream_id);
    bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    struct hf__rpc *rpc = context;

    if (frame->hd.type == NGHTTP2_HEADERS && call)
        end_headers(rpc, call, is_last);
    else if (frame->hd.type == NGHTTP2_DATA && call && is_last)
        conclude(rpc, call);
    else if (frame->hd.type == NGHTTP2_RST_STREAM && call)
        call->was_reset = true;
    else if (frame->hd.type == NGHTTP2_GOAWAY)
        hear_goaway(rpc, &frame->goaway);
    else if (frame->hd.type == NGHTTP2_PING)
        return hear_ping(rpc, &frame->ping);
    if (frame->hd.type == NGHTTP2_SETTINGS && !rpc->is_up) {
        rpc->is_up = true;
        hf__rpc_tell(rpc, &rpc->up, HF__RPC_UP);
    }
    return 0;
}

static int hear_bad_frame(nghttp2_session *session, const nghttp2_frame *frame, int code,
                          void *context)
{
    struct hf__rpc_call *call = call_of(session, frame->hd.stream_id);

    (void)context;
    if (call)
        call->broken_by = code;
    return 0;
}

/* If nghttp2 is about to hang up, why is in the frame that says so. */
static int note_sent(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    const nghttp2_goaway *goaway = &frame->goaway;
    struct hf__rpc *rpc = context;
    char shown[HF__ERROR_BYTES / 2];

    (void)session;
    if (frame->hd.type != NGHTTP2_GOAWAY || goaway->error_code == NGHTTP2_NO_ERROR)
        return 0;
    if (rpc->theirs.is_exhausted || rpc->theirs.is_starved) /* INTERNAL_ERROR, says nghttp2 */
        return hf__rpc_condemn_by(rpc, NGHTTP2_ERR_NOMEM);
    (void)hf__text_escape(goaway->opaque_data ? (const char *)goaway->opaque_data : "",
                          goaway->opaque_data_len, shown, sizeof(shown));
    return hf__rpc_condemn(rpc, HF_EPROTOCOL, "the server broke the rules of HTTP/2: %s%s%s",
                           nghttp2_http2_strerror(goaway->error_code), *shown ? ": " : "", shown);
}

void hf__rpc_hear_set(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, hear_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, hear_bad_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, hear_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, hear_bad_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, hear_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, close_stream);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, note_sent);
}
