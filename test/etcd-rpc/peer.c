/* peer.c: a client of gRPC and, in the same process, the server that it talks to. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "holdfast/holdfast.h"

#define BODY_BYTES_MAX (8u << 20)

/* --- the server --- */

static struct peer_stream *stream_of(struct peer *peer, int32_t id)
{
    for (size_t i = 0; i < peer->stream_count; i++) {
        if (peer->streams[i].id == id)
            return &peer->streams[i];
    }
    return NULL;
}

static int hear_begin(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct peer *peer = context;
    struct peer_stream *stream = &peer->streams[peer->stream_count++];

    (void)session;
    CHECK(peer->stream_count <= PEER_STREAMS_MAX);
    stream->id = frame->hd.stream_id;
    stream->grpc_status = -1;
    hf__buffer_init(&stream->body, &peer->env, BODY_BYTES_MAX);
    return 0;
}

static int hear_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                       size_t name_count, const uint8_t *value, size_t value_count, uint8_t flags,
                       void *context)
{
    struct peer_stream *stream = stream_of(context, frame->hd.stream_id);
    const struct {
        const char *name;
        char *place;
    } places[] = {
        { ":path", stream->path },
        { ":authority", stream->authority },
        { ":scheme", stream->scheme },
        { "token", stream->token },
        { "grpc-timeout", stream->timeout },
        { "content-type", stream->type },
        { "te", stream->te },
    };

    (void)session;
    (void)flags;
    CHECK(value_count < PEER_TEXT_BYTES);
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        if (name_count == strlen(places[i].name) && !memcmp(name, places[i].name, name_count))
            memcpy(places[i].place, value, value_count);
    }
    return 0;
}

static int hear_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct peer *peer = context;
    struct peer_stream *stream = stream_of(peer, frame->hd.stream_id);

    (void)session;
    if (frame->hd.type == NGHTTP2_PING)
        peer->pings++;
    if (stream && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
        (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
        stream->is_ended = true;
    return 0;
}

static int hear_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                     size_t count, void *context)
{
    struct peer_stream *stream = stream_of(context, id);

    (void)session;
    (void)flags;
    CHECK_EQUAL(hf__buffer_append(&stream->body, bytes, count), HF_OK);
    return 0;
}

static int hear_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *context)
{
    struct peer_stream *stream = stream_of(context, id);

    (void)session;
    if (stream) {
        stream->is_closed = true;
        stream->closed_by = error_code;
    }
    return 0;
}

void peer_serve(struct peer *peer, const nghttp2_settings_entry *settings, size_t count)
{
    nghttp2_session_callbacks *callbacks;

    CHECK_EQUAL(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, hear_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, hear_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, hear_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, hear_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, hear_close);
    CHECK_EQUAL(nghttp2_session_server_new(&peer->server, callbacks, peer), 0);
    nghttp2_session_callbacks_del(callbacks);
    CHECK_EQUAL(nghttp2_submit_settings(peer->server, NGHTTP2_FLAG_NONE, settings, count), 0);
}

/* --- both --- */

struct peer *peer_new(const struct hf__rpc_options *options)
{
    struct hf__rpc_options whole = options ? *options : (struct hf__rpc_options){ 0 };
    struct peer *peer = calloc(1, sizeof(*peer));

    CHECK(peer != NULL);
    failing_env_init(&peer->world, 0);
    CHECK_EQUAL(hf__env_init(&peer->env), HF_OK);
    peer->now_ns = PEER_NOW_NS;
    whole.env = &peer->world.env;
    whole.authority = "etcd.test:2379";
    CHECK_EQUAL(hf__rpc_new(&whole, &peer->rpc), HF_OK);
    return peer;
}

void peer_free(struct peer *peer)
{
    hf__rpc_free(peer->rpc);
    CHECK_EQUAL(peer->world.live, 0);
    for (size_t i = 0; i < peer->stream_count; i++)
        hf__buffer_done(&peer->streams[i].body);
    nghttp2_session_del(peer->server);
    hf__env_done(&peer->env);
    free(peer);
}

void peer_take(struct peer *peer)
{
    const void *bytes;
    size_t count;

    while ((count = hf__rpc_output(peer->rpc, &bytes)) > 0) {
        peer->writes++;
        if (peer->server) {
            ssize_t taken = nghttp2_session_mem_recv(peer->server, bytes, count);

            CHECK_EQUAL(taken, count);
        }
        hf__rpc_sent(peer->rpc, count);
    }
}

void peer_feed(struct peer *peer, const void *bytes, size_t count)
{
    size_t piece = peer->piece ? peer->piece : count;

    for (size_t at = 0; at < count; at += piece) {
        size_t part = count - at < piece ? count - at : piece;
        uint8_t *copy = malloc(part); /* a sanitizer watches its end */

        CHECK(copy != NULL);
        memcpy(copy, (const uint8_t *)bytes + at, part);
        peer->feeds++;
        peer->status = hf__rpc_feed(peer->rpc, copy, part, peer->now_ns);
        free(copy);
    }
}

void peer_give(struct peer *peer)
{
    const uint8_t *bytes;
    ssize_t count;

    while (peer->server && (count = nghttp2_session_mem_send(peer->server, &bytes)) > 0)
        peer_feed(peer, bytes, (size_t)count);
}

void peer_exchange(struct peer *peer)
{
    size_t moved;

    do {
        moved = peer->writes + peer->feeds;
        peer_take(peer);
        peer_give(peer);
    } while (peer->writes + peer->feeds > moved);
}

struct hf__rpc_call *peer_start(struct peer *peer, uint64_t tag, const char *message,
                                uint64_t deadline_ns)
{
    struct hf__rpc_request request = {
        .path = "/etcdserverpb.KV/Txn",
        .message = { (const uint8_t *)message, strlen(message) },
        .now_ns = peer->now_ns,
        .deadline_ns = deadline_ns ? deadline_ns : HF__NEVER,
        .tag = tag,
    };
    struct hf__rpc_call *call = NULL;

    CHECK_EQUAL(hf__rpc_start(peer->rpc, &request, &call), HF_OK);
    CHECK(call != NULL);
    return call;
}

struct hf__rpc_call *peer_open(struct peer *peer, uint64_t tag)
{
    struct hf__rpc_request request = {
        .path = "/etcdserverpb.Watch/Watch",
        .now_ns = peer->now_ns,
        .deadline_ns = HF__NEVER,
        .tag = tag,
    };
    struct hf__rpc_call *call = NULL;

    CHECK_EQUAL(hf__rpc_open(peer->rpc, &request, &call), HF_OK);
    return call;
}

/* --- answers --- */

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
                         .value = (uint8_t *)(uintptr_t)value,
                         .namelen = strlen(name),
                         .valuelen = strlen(value) };
}

static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t room,
                           uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct peer_stream *stream = source->ptr;
    size_t left = stream->answer_bytes - stream->answer_gone;
    size_t part = left < room ? left : room;
    char status[PEER_TEXT_BYTES];
    nghttp2_nv trailers[2];

    (void)context;
    if (part > 0)
        memcpy(buffer, stream->answer + stream->answer_gone, part);
    stream->answer_gone += part;
    if (stream->answer_gone < stream->answer_bytes)
        return (ssize_t)part;
    if (stream->grpc_status < 0)
        return part > 0 ? (ssize_t)part : NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    (void)snprintf(status, sizeof(status), "%d", stream->grpc_status);
    trailers[0] = header("grpc-status", status);
    trailers[1] = header("grpc-message", stream->grpc_message ? stream->grpc_message : "");
    CHECK_EQUAL(nghttp2_submit_trailer(session, id, trailers, 2), 0);
    return (ssize_t)part;
}

void peer_answer(struct peer *peer, size_t stream, const void *bytes, size_t count, int grpc_status)
{
    struct peer_stream *answering = &peer->streams[stream];
    nghttp2_nv headers[] = { header(":status", "200"), header("content-type", "application/grpc") };
    nghttp2_data_provider provider = { .source.ptr = answering, .read_callback = read_answer };

    CHECK(stream < peer->stream_count);
    answering->answer = bytes;
    answering->answer_bytes = count;
    answering->answer_gone = 0;
    answering->grpc_status = grpc_status;
    CHECK_EQUAL(nghttp2_submit_response(peer->server, answering->id, headers, 2, &provider), 0);
}

void peer_say(struct peer *peer, size_t stream, const char *message)
{
    static uint8_t bytes[4][256];
    static size_t next;
    uint8_t *place = bytes[next++ % 4];
    size_t count = strlen(message);

    CHECK(count <= 250);
    memset(place, 0, 5);
    place[4] = (uint8_t)count;
    memcpy(place + 5, message, count);
    peer_answer(peer, stream, place, count + 5, HF__RPC_CODE_OK);
}

struct hf__rpc_event peer_next(struct peer *peer, enum hf__rpc_kind kind, uint64_t tag)
{
    struct hf__rpc_event event;

    if (!hf__rpc_next(peer->rpc, &event))
        fail_msg("there is no event; event %d of %d was wanted", (int)kind, (int)tag);
    if (event.kind != kind)
        fail_msg("event %d (%s) is not %d", (int)event.kind, event.text, (int)kind);
    CHECK(event.tag == tag);
    CHECK(event.text != NULL);
    return event;
}

void peer_next_answer(struct peer *peer, uint64_t tag, const char *message)
{
    struct hf__rpc_event event = peer_next(peer, HF__RPC_ANSWER, tag);

    CHECK_EQUAL(event.code, HF__RPC_CODE_OK);
    CHECK_EQUAL(event.message.count, strlen(message));
    CHECK(memcmp(event.message.at, message, strlen(message)) == 0);
}

void peer_next_failed(struct peer *peer, uint64_t tag, enum hf__rpc_fate fate, const char *text)
{
    struct hf__rpc_event event = peer_next(peer, HF__RPC_FAILED, tag);

    if (!strstr(event.text, text))
        fail_msg("'%s' does not say '%s'", event.text, text);
    CHECK_EQUAL(event.fate, fate);
    CHECK(event.code != HF__RPC_CODE_OK && event.message.count == 0);
}

void peer_no_next(struct peer *peer)
{
    struct hf__rpc_event event;

    if (hf__rpc_next(peer->rpc, &event))
        fail_msg("event %d (%s) was not wanted", (int)event.kind, event.text);
}

/* --- frames by hand --- */

void frames_put(struct frames *frames, const void *bytes, size_t count)
{
    CHECK(count <= sizeof(frames->bytes) - frames->count);
    if (count > 0)
        memcpy(frames->bytes + frames->count, bytes, count);
    frames->count += count;
}

void frames_head(struct frames *frames, size_t count, uint8_t type, uint8_t flags, uint32_t id)
{
    uint8_t head[9] = {
        (uint8_t)(count >> 16), (uint8_t)(count >> 8), (uint8_t)count,     type,       flags,
        (uint8_t)(id >> 24),    (uint8_t)(id >> 16),   (uint8_t)(id >> 8), (uint8_t)id
    };

    frames_put(frames, head, sizeof(head));
}

void frames_settings(struct frames *frames)
{
    frames_head(frames, 0, NGHTTP2_SETTINGS, 0, 0);
}

void frames_headers(struct frames *frames, uint8_t flags, uint32_t id, const char *headers)
{
    uint8_t block[4096];
    size_t count = 0;

    while (*headers) {
        const char *colon = strchr(headers + 1, ':');
        const char *end = strchr(headers, '\n');
        size_t name_count = (size_t)(colon - headers);
        size_t value_count = (size_t)(end - colon - 2);

        CHECK(name_count < 127 && value_count < 127);
        block[count++] = 0; /* a literal, not to be indexed */
        block[count++] = (uint8_t)name_count;
        memcpy(block + count, headers, name_count);
        count += name_count;
        block[count++] = (uint8_t)value_count;
        memcpy(block + count, colon + 2, value_count);
        count += value_count;
        headers = end + 1;
    }
    frames_head(frames, count, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, id);
    frames_put(frames, block, count);
}

void frames_data(struct frames *frames, uint8_t flags, uint32_t id, const void *bytes, size_t count)
{
    frames_head(frames, count, NGHTTP2_DATA, flags, id);
    frames_put(frames, bytes, count);
}

void frames_message(struct frames *frames, uint8_t flags, uint32_t id, const char *message)
{
    size_t count = strlen(message);
    uint8_t prefix[5] = { 0, 0, 0, (uint8_t)(count >> 8), (uint8_t)count };

    frames_head(frames, count + 5, NGHTTP2_DATA, flags, id);
    frames_put(frames, prefix, 5);
    frames_put(frames, message, count);
}
