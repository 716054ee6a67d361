/* hostile.c: what a server may do wrong to the whole connection: each is the end of it, with a
 * clear word, and with every call told what is known of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dice.h"
#include "holdfast/holdfast.h"
#include "peer.h"

#define END NGHTTP2_FLAG_END_STREAM

static struct peer *asking(void)
{
    struct peer *peer = peer_new(NULL);

    (void)peer_start(peer, 5, "question", 0);
    peer_take(peer);
    return peer;
}

/* The connection is over, and says so; whoever asked is told. */
static void check_over(struct peer *peer, const char *text)
{
    struct hf__rpc_request request = { .path = "/x", .deadline_ns = UINT64_MAX };
    char error[HF__ERROR_BYTES] = "";
    struct hf__rpc_event event;
    bool is_told = false;
    const void *bytes;

    CHECK_EQUAL(peer->status, HF_EPROTOCOL);
    CHECK_EQUAL(hf__rpc_error(peer->rpc, error), HF_EPROTOCOL);
    if (!strstr(error, text))
        fail_msg("'%s' does not say '%s'", error, text);
    while (hf__rpc_next(peer->rpc, &event)) {
        is_told = is_told || event.kind == HF__RPC_FAILED;
        CHECK(event.kind != HF__RPC_FAILED || event.status == HF_EPROTOCOL);
    }
    CHECK(is_told);
    CHECK_EQUAL(hf__rpc_calls(peer->rpc), 0);
    CHECK_EQUAL(hf__rpc_output(peer->rpc, &bytes), 0);
    CHECK_EQUAL(hf__rpc_start(peer->rpc, &request, NULL), HF_EUNREACHABLE);
}

static void check_piece(const struct frames *frames, size_t piece, const char *text)
{
    struct peer *peer = asking();

    peer->piece = piece;
    peer_feed(peer, frames->bytes, frames->count);
    check_over(peer, text);
    peer_free(peer);
}

static void check_bytes(const void *bytes, size_t count, const char *text)
{
    for (size_t piece = 0; piece <= 1; piece++) {
        struct peer *peer = asking();

        peer->piece = piece;
        peer_feed(peer, bytes, count);
        check_over(peer, text);
        peer_free(peer);
    }
}

static void check_frames(const struct frames *frames, const char *text)
{
    check_bytes(frames->bytes, frames->count, text);
}

TEST(hostile, another_protocol_is_named)
{
    check_bytes("HTTP/1.1 400 Bad Request\r\n\r\n", 28, "speaks HTTP/1");
    check_bytes("\x15\x03\x01\0\2\2\x16", 7, "wants TLS");
    check_bytes("-ERR unknown command\r\n", 22, "broke the rules of HTTP/2");
    check_bytes("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, "broke the rules of HTTP/2");
}

TEST(hostile, frames_that_cannot_be_end_it)
{
    struct frames frames = { .count = 0 };

    frames_settings(&frames);
    frames_head(&frames, 70000, NGHTTP2_DATA, 0, 1); /* longer than we allow */
    check_frames(&frames, "FRAME_SIZE_ERROR");

    frames.count = 0;
    frames_settings(&frames);
    frames_message(&frames, 0, 1, "answer"); /* before its headers */
    check_frames(&frames, "DATA: stream not opened");

    frames.count = 0;
    frames_message(&frames, 0, 1, "answer"); /* before the settings */
    check_frames(&frames, "SETTINGS expected");

    frames.count = 0;
    frames_settings(&frames);
    frames_headers(&frames, 0, 2, GOOD_HEADERS); /* a stream of its own */
    check_frames(&frames, "PROTOCOL_ERROR");

    frames.count = 0;
    frames_settings(&frames);
    frames_headers(&frames, 0, 77, GOOD_HEADERS); /* one that we did not open */
    check_frames(&frames, "PROTOCOL_ERROR");

    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 4, NGHTTP2_WINDOW_UPDATE, 0, 0);
    frames_put(&frames, "\0\0\0\0", 4);
    check_frames(&frames, "PROTOCOL_ERROR");

    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 4, NGHTTP2_WINDOW_UPDATE, 0, 0);
    frames_put(&frames, "\177\377\377\377", 4);
    check_frames(&frames, "FLOW_CONTROL_ERROR");

    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 3, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1);
    frames_put(&frames, "\377\377\377", 3); /* no such entry in the table */
    check_frames(&frames, "COMPRESSION_ERROR");

    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 1, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1);
    frames_put(&frames, "", 1);
    check_frames(&frames, "PROTOCOL_ERROR");

    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 0, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0); /* it knows that it may not */
    frames_head(&frames, 11, NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1);
    frames_put(&frames, "\0\0\0\2\0\3x-y\1z", 11);
    check_frames(&frames, "PROTOCOL_ERROR");
}

TEST(hostile, headers_without_end_are_ended)
{
    struct frames frames = { .count = 0 };
    char big[120];

    memset(big, 'x', sizeof(big));
    frames_settings(&frames);
    frames_head(&frames, 16000, NGHTTP2_HEADERS, 0, 1);
    for (size_t i = 0; i < 125; i++) { /* 128 bytes each */
        frames_put(&frames, "\0\5x-big\170", 8);
        frames_put(&frames, big, sizeof(big));
    }
    frames_head(&frames, 16000, NGHTTP2_CONTINUATION, 0, 1);
    for (size_t i = 0; i < 125; i++) {
        frames_put(&frames, "\0\5x-big\170", 8);
        frames_put(&frames, big, sizeof(big));
    }
    check_piece(&frames, 0, "bytes of headers");
    check_piece(&frames, 1, "CONTINUATION"); /* nghttp2 counts how often it looked for one */

    /* One byte a header, from the table: small to send, large to read. */
    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 8000, NGHTTP2_HEADERS, 0, 1);
    frames_put(&frames, "\210", 1); /* :status: 200 */
    for (size_t i = 0; i < 7999; i++)
        frames_put(&frames, "\220", 1); /* accept-encoding: gzip, deflate */
    check_frames(&frames, "bytes of headers");

    /* Such as HTTP forbids, and as nobody looks at. */
    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 9001, NGHTTP2_HEADERS, 0, 1);
    frames_put(&frames, "\210", 1);
    for (size_t i = 0; i < 1000; i++)
        frames_put(&frames, "\0\3x-y\3a\nb", 9);
    check_frames(&frames, "bytes of headers");

    frames.count = 0;
    frames_settings(&frames);
    frames_head(&frames, 0, NGHTTP2_HEADERS, 0, 1);
    for (size_t i = 0; i < 5000; i++)
        frames_head(&frames, 0, NGHTTP2_CONTINUATION, 0, 1);
    check_frames(&frames, "CONTINUATION");
}

/* Answers that nobody fetches pile up to a limit. */
TEST(hostile, pings_without_end_are_ended)
{
    struct peer *peer = asking();
    struct frames frames = { .count = 0 };

    frames_settings(&frames);
    for (size_t i = 0; i < 3000; i++) {
        frames_head(&frames, 8, NGHTTP2_PING, 0, 0);
        frames_put(&frames, "01234567", 8);
    }
    for (size_t i = 0; i < 200 && peer->status == HF_OK; i++) {
        peer_feed(peer, frames.bytes, frames.count);
        CHECK(peer->rpc->output.memory_bytes <= 4u << 20);
        CHECK(peer->rpc->theirs.bytes < 4u << 20);
    }
    check_over(peer, "Flooding");
    peer_free(peer);
}

TEST(hostile, an_answer_to_no_ping_is_not_heard)
{
    struct peer *peer = asking();
    struct frames frames = { .count = 0 };
    uint64_t tag = 7;

    frames_settings(&frames);
    frames_head(&frames, 8, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0);
    frames_put(&frames, &tag, 8);
    peer_feed(peer, frames.bytes, frames.count);
    (void)peer_next(peer, HF__RPC_UP, 0);
    CHECK(hf__rpc_ping(peer->rpc, 8));
    peer_feed(peer, frames.bytes + 9, frames.count - 9);
    peer_no_next(peer);
    memcpy(frames.bytes + 18, &(uint64_t){ 8 }, 8);
    peer_feed(peer, frames.bytes + 9, frames.count - 9);
    peer_feed(peer, frames.bytes + 9, frames.count - 9);
    (void)peer_next(peer, HF__RPC_PONG, 8);
    peer_feed(peer, frames.bytes + 9, frames.count - 9);
    peer_no_next(peer);
    peer_free(peer);
}

/* Half a message on each of many streams: as much as the limit, and no more. */
TEST(hostile, what_it_has_us_keep_has_a_limit)
{
    struct hf__rpc_options options = { .memory_bytes_max = 1u << 20 };
    struct peer *peer = peer_new(&options);
    struct frames frames = { .count = 0 };
    static const uint8_t prefix[] = { 0, 0, 0x0f, 0xff, 0xff };
    static const uint8_t piece[16000];

    for (uint64_t i = 0; i < 90; i++)
        (void)peer_start(peer, i, "question", 0);
    peer_take(peer);
    frames_settings(&frames);
    peer_feed(peer, frames.bytes, frames.count);
    for (uint32_t id = 1; id < 180 && peer->status == HF_OK; id += 2) {
        frames.count = 0;
        frames_headers(&frames, 0, id, GOOD_HEADERS);
        frames_data(&frames, 0, id, prefix, sizeof(prefix));
        frames_data(&frames, 0, id, piece, sizeof(piece));
        peer_feed(peer, frames.bytes, frames.count);
        CHECK(peer->rpc->theirs.bytes <= 1u << 20);
    }
    check_over(peer, "keep more than 1048576 bytes");
    peer_free(peer);
}

/* 2 MB are announced; nothing is taken for what has not come. */
TEST(hostile, takes_no_memory_for_what_was_only_announced)
{
    struct peer *peer = asking();
    struct frames frames = { .count = 0 };
    static const uint8_t prefix[] = { 0, 0, 0x1f, 0xff, 0xff, 'x' };

    frames_settings(&frames);
    frames_headers(&frames, 0, 1, GOOD_HEADERS);
    frames_data(&frames, 0, 1, prefix, sizeof(prefix));
    peer_feed(peer, frames.bytes, frames.count);
    CHECK_EQUAL(peer->status, HF_OK);
    CHECK(peer->rpc->theirs.bytes < 128u << 10);
    peer_free(peer);
}

/* Bytes of a good course with some of them changed: never an assert, and the same end however they
 * are cut. */
TEST(hostile, good_bytes_that_were_changed_do_no_harm)
{
    struct dice dice = { 1 };
    struct frames good = { .count = 0 };
    size_t over = 0;

    frames_settings(&good);
    frames_headers(&good, 0, 1, GOOD_HEADERS);
    frames_message(&good, 0, 1, "answer");
    frames_headers(&good, END, 1, GOOD_TRAILERS);
    frames_head(&good, 8, NGHTTP2_PING, 0, 0);
    frames_put(&good, "01234567", 8);
    frames_head(&good, 8, NGHTTP2_GOAWAY, 0, 0);
    frames_put(&good, "\0\0\0\1\0\0\0\0", 8);
    for (int round = 0; round < 3000; round++) {
        struct frames bad = good;
        int status[2];

        for (uint64_t i = 1 + dice_below(&dice, 3); i > 0; i--)
            bad.bytes[dice_below(&dice, bad.count)] = (uint8_t)dice_roll(&dice);
        for (size_t piece = 0; piece <= 1; piece++) {
            struct peer *peer = asking();

            peer->piece = piece;
            peer_feed(peer, bad.bytes, bad.count);
            status[piece] = peer->status;
            peer_free(peer);
        }
        CHECK_EQUAL(status[0], status[1]);
        over += status[0] == HF_EPROTOCOL;
    }
    CHECK(over > 300);
}
