/* peer.h: a client of gRPC and, in the same process, the server that it talks to.
 *
 * The server is nghttp2's, and does what the test says; or it is nobody, and the test writes the
 * frames by hand. Bytes pass in pieces of any size. */
#ifndef TEST_ETCD_RPC_PEER_H
#define TEST_ETCD_RPC_PEER_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/etcd/rpc_inside.h"
#include "failing_env.h"

#define PEER_STREAMS_MAX 2100
#define PEER_TEXT_BYTES  64
#define PEER_NOW_NS      1000000000ull

/* What the server heard of one stream. */
struct peer_stream {
    int32_t id;
    char path[PEER_TEXT_BYTES];
    char authority[PEER_TEXT_BYTES];
    char scheme[PEER_TEXT_BYTES];
    char token[PEER_TEXT_BYTES];
    char timeout[PEER_TEXT_BYTES];
    char type[PEER_TEXT_BYTES];
    char te[PEER_TEXT_BYTES];
    struct hf__buffer body;
    bool is_ended;
    bool is_closed;
    uint32_t closed_by;
    /* what it answers */
    const uint8_t *answer;
    size_t answer_bytes;
    size_t answer_gone;
    int grpc_status; /* -1: no trailers, the stream stays open */
    const char *grpc_message;
};

struct peer {
    struct failing_env world; /* the client's */
    struct hf__env env;       /* the server's */
    struct hf__rpc *rpc;
    nghttp2_session *server; /* NULL: bytes by hand */
    struct peer_stream streams[PEER_STREAMS_MAX];
    size_t stream_count;
    size_t piece; /* bytes that are fed at a time; 0: all */
    uint64_t now_ns;
    size_t pings;
    int status;    /* of the last feed */
    size_t writes; /* times that there was something to write */
    size_t feeds;  /* ... to read */
};

/* options may be NULL; of it env and authority are set here. */
struct peer *peer_new(const struct hf__rpc_options *options);
/* CHECKs that nothing is left. */
void peer_free(struct peer *peer);
/* Gives it a server, which sends these settings. */
void peer_serve(struct peer *peer, const nghttp2_settings_entry *settings, size_t count);
/* Until both have nothing to say. */
void peer_exchange(struct peer *peer);
/* One way: from the client to the server. */
void peer_take(struct peer *peer);
/* One way: from the server to the client. */
void peer_give(struct peer *peer);
void peer_feed(struct peer *peer, const void *bytes, size_t count);

/* CHECKs that it is begun. A deadline of 0: none. */
struct hf__rpc_call *peer_start(struct peer *peer, uint64_t tag, const char *message,
                                uint64_t deadline_ns);
struct hf__rpc_call *peer_open(struct peer *peer, uint64_t tag);

/* The whole answer: headers, the bytes as they are, trailers. */
void peer_answer(struct peer *peer, size_t stream, const void *bytes, size_t count,
                 int grpc_status);
/* Of many of the same. */
void peer_say(struct peer *peer, size_t stream, const char *message);

/* CHECKs that there is one, of this kind and tag. */
struct hf__rpc_event peer_next(struct peer *peer, enum hf__rpc_kind kind, uint64_t tag);
void peer_next_answer(struct peer *peer, uint64_t tag, const char *message);
void peer_next_failed(struct peer *peer, uint64_t tag, enum hf__rpc_fate fate, const char *text);
void peer_no_next(struct peer *peer);

/* --- frames by hand --- */

struct frames {
    uint8_t bytes[1 << 16];
    size_t count;
};

void frames_put(struct frames *frames, const void *bytes, size_t count);
void frames_head(struct frames *frames, size_t count, uint8_t type, uint8_t flags, uint32_t id);
void frames_settings(struct frames *frames);
/* "name: value\n" for each header. */
void frames_headers(struct frames *frames, uint8_t flags, uint32_t id, const char *headers);
void frames_data(struct frames *frames, uint8_t flags, uint32_t id, const void *bytes,
                 size_t count);
/* A message with its prefix, as one DATA. */
void frames_message(struct frames *frames, uint8_t flags, uint32_t id, const char *message);

#define GOOD_HEADERS  ":status: 200\ncontent-type: application/grpc\n"
#define GOOD_TRAILERS "grpc-status: 0\n"

#endif
