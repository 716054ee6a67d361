/* trouble.c: what a server may do wrong to one call, and what becomes of the call.
 *
 * The frames are written by hand. Each is fed whole and byte by byte, and must come to the same. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "holdfast/holdfast.h"
#include "peer.h"

#define END NGHTTP2_FLAG_END_STREAM

struct sample {
    const char *headers;
    const char *data; /* NULL: none */
    size_t data_bytes;
    const char *trailers; /* NULL: none */
    bool is_ended;        /* by the last of them */
    const char *text;     /* part of what is told */
    int code;
    int status;
    enum hf__rpc_fate fate;
};

static void put_sample(struct frames *frames, const struct sample *sample)
{
    bool has_more = sample->data || sample->trailers;

    frames->count = 0;
    frames_settings(frames);
    frames_headers(frames, !has_more && sample->is_ended ? END : 0, 1, sample->headers);
    if (sample->data)
        frames_data(frames, !sample->trailers && sample->is_ended ? END : 0, 1, sample->data,
                    sample->data_bytes);
    if (sample->trailers)
        frames_headers(frames, END, 1, sample->trailers);
}

static void check_sample(const struct sample *sample, size_t piece)
{
    struct hf__rpc_options options = { .message_bytes_max = 1000 };
    struct peer *peer = peer_new(&options);
    struct hf__rpc_event event;
    struct frames frames;

    peer->piece = piece;
    (void)peer_start(peer, 5, "question", 0);
    (void)peer_start(peer, 6, "question", 0);
    peer_take(peer);
    put_sample(&frames, sample);
    peer_feed(peer, frames.bytes, frames.count);
    CHECK_EQUAL(peer->status, HF_OK);
    (void)peer_next(peer, HF__RPC_UP, 0);
    event = peer_next(peer, HF__RPC_FAILED, 5);
    if (!strstr(event.text, sample->text))
        fail_msg("'%s' does not say '%s'", event.text, sample->text);
    CHECK_EQUAL(event.code, sample->code);
    CHECK_EQUAL(event.status, sample->status);
    CHECK_EQUAL(event.fate, sample->fate);
    peer_no_next(peer);

    /* The other goes on. */
    frames.count = 0;
    frames_headers(&frames, 0, 3, GOOD_HEADERS);
    frames_message(&frames, 0, 3, "answer");
    frames_headers(&frames, END, 3, GOOD_TRAILERS);
    peer_feed(peer, frames.bytes, frames.count);
    peer_next_answer(peer, 6, "answer");
    peer_free(peer);
}

#define ANSWERED .status = HF_OK, .fate = HF__RPC_FATE_ANSWERED
#define WRONG    .status = HF_EPROTOCOL, .fate = HF__RPC_FATE_PERHAPS

static const struct sample troubles[] = {
    /* refused by the server: with trailers only, and with all of it */
    { GOOD_HEADERS "grpc-status: 5\ngrpc-message: lease%20not found%0a\n", .is_ended = true,
      .text = "lease not found\\x0a", .code = 5, ANSWERED },
    { GOOD_HEADERS, .trailers = "grpc-status: 16\ngrpc-message: 100%\n", .is_ended = true,
      .text = "100%", .code = 16, ANSWERED },
    { GOOD_HEADERS, "\0\0\0\0\1x", 6, "grpc-status: 2\ngrpc-message: %zz%4\n", true, "%zz%4",
      .code = 2, ANSWERED },
    { GOOD_HEADERS "grpc-status: 12345\n", .is_ended = true, .text = "", .code = 12345, ANSWERED },
    /* not gRPC */
    { ":status: 404\ncontent-type: text/plain\n", "not found", 9, NULL, true, "HTTP status 404",
      HF__RPC_CODE_UNIMPLEMENTED, WRONG },
    { ":status: 503\n", .is_ended = true, .text = "HTTP status 503",
      .code = HF__RPC_CODE_UNAVAILABLE, WRONG },
    { ":status: 401\n", .is_ended = true, .text = "HTTP status 401",
      .code = HF__RPC_CODE_UNAUTHENTICATED, WRONG },
    { ":status: 403\n", .is_ended = true, .text = "HTTP status 403",
      .code = HF__RPC_CODE_PERMISSION_DENIED, WRONG },
    { ":status: 400\n", .is_ended = true, .text = "HTTP status 400", .code = HF__RPC_CODE_INTERNAL,
      WRONG },
    { ":status: 307\n", .is_ended = true, .text = "HTTP status 307", .code = HF__RPC_CODE_UNKNOWN,
      WRONG },
    { ":status: 200\ncontent-type: text/html\n", "<html>", 6, NULL, true, "'text/html', not gRPC",
      HF__RPC_CODE_UNKNOWN, WRONG },
    { ":status: 200\ncontent-type: application/grpcx\ngrpc-status: 0\ngrpc-message: fine\n",
      .is_ended = true, .text = "not gRPC", .code = HF__RPC_CODE_UNKNOWN, WRONG },
    { ":status: 200\ngrpc-status: 0\n", .is_ended = true, .text = "no type",
      .code = HF__RPC_CODE_UNKNOWN, WRONG },
    /* not a whole answer */
    { GOOD_HEADERS, .is_ended = true, .text = "without its status", .code = HF__RPC_CODE_UNKNOWN,
      WRONG },
    { GOOD_HEADERS, "\0\0\0\0\1x", 6, NULL, true, "without its status", HF__RPC_CODE_UNKNOWN,
      WRONG },
    { GOOD_HEADERS, "\0\0\0\0\1x", 6, "grpc-status: -1\n", true, "without its status",
      HF__RPC_CODE_UNKNOWN, WRONG },
    { GOOD_HEADERS, "\0\0\0\0\1x", 6, "grpc-status: 4294967296\n", true, "without its status",
      HF__RPC_CODE_UNKNOWN, WRONG },
    { GOOD_HEADERS "grpc-status: 0\n", .is_ended = true, .text = "no answer",
      .code = HF__RPC_CODE_INTERNAL, WRONG },
    { GOOD_HEADERS, "\0\0\0\0", 4, GOOD_TRAILERS, true, "ended in a message", HF__RPC_CODE_INTERNAL,
      WRONG },
    { GOOD_HEADERS, "\0\0\0\0\2x", 6, GOOD_TRAILERS, true, "ended in a message",
      HF__RPC_CODE_INTERNAL, WRONG },
    { GOOD_HEADERS, "\0\0\0\0\1x\0", 7, GOOD_TRAILERS, true, "ended in a message",
      HF__RPC_CODE_INTERNAL, WRONG },
    /* not an answer that is taken */
    { GOOD_HEADERS, "\1\0\0\0\1x", 6, GOOD_TRAILERS, true, "compressed", HF__RPC_CODE_INTERNAL,
      WRONG },
    { GOOD_HEADERS, "H\0\0\0\1x", 6, GOOD_TRAILERS, true, "not a message of gRPC",
      HF__RPC_CODE_INTERNAL, WRONG },
    { GOOD_HEADERS, "\0\0\0\3\351x", 6, GOOD_TRAILERS, true, "1001 bytes, at most 1000",
      HF__RPC_CODE_RESOURCE_EXHAUSTED, WRONG },
    { GOOD_HEADERS, "\0\377\377\377\377x", 6, GOOD_TRAILERS, true, "4294967295 bytes",
      HF__RPC_CODE_RESOURCE_EXHAUSTED, WRONG },
    { GOOD_HEADERS, "\0\0\0\0\1x\0\0\0\0\1y", 12, GOOD_TRAILERS, true, "two answers",
      HF__RPC_CODE_INTERNAL, WRONG },
    { GOOD_HEADERS, "\0\0\0\0\0\0\0\0\0\0", 10, GOOD_TRAILERS, true, "two answers",
      HF__RPC_CODE_INTERNAL, WRONG },
    /* not HTTP/2, for this stream */
    { "content-type: application/grpc\n", .is_ended = false, .text = "not HTTP/2",
      .code = HF__RPC_CODE_INTERNAL, WRONG },
    { ":status: 200\nContent-Type: application/grpc\n", .is_ended = false, .text = "not HTTP/2",
      .code = HF__RPC_CODE_INTERNAL, WRONG },
    { ":status: 200\ncontent-type: application/grpc\ncontent-length: 3\n", "\0\0\0\0\1x", 6,
      GOOD_TRAILERS, true, "not HTTP/2", HF__RPC_CODE_INTERNAL, WRONG },
};

TEST(trouble, of_one_call_is_told_to_it_alone)
{
    for (size_t i = 0; i < sizeof(troubles) / sizeof(*troubles); i++) {
        (void)fprintf(stderr, "sample %zu: %s\n", i, troubles[i].text);
        check_sample(&troubles[i], 0);
        check_sample(&troubles[i], 1);
    }
}

TEST(trouble, what_looks_odd_but_is_right_is_taken)
{
    struct peer *peer = peer_new(NULL);
    struct frames frames = { .count = 0 };

    (void)peer_start(peer, 5, "question", 0);
    peer_take(peer);
    frames_settings(&frames);
    frames_head(&frames, 11, NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1);
    frames_put(&frames, "\0\0\0\2\0\3x-y\1z", 11); /* before it heard that it may not */
    frames_headers(&frames, 0, 1, ":status: 100\n");
    frames_headers(&frames, 0, 1, ":status: 103\nlink: x\n");
    frames_headers(&frames, 0, 1,
                   ":status: 200\ncontent-type: application/grpc+proto\nx-other: y\n");
    frames_data(&frames, 0, 1, "", 0);
    frames_data(&frames, 0, 1, "\0\0", 2);
    frames_data(&frames, 0, 1, "", 0);
    frames_data(&frames, 0, 1, "\0\0\2o", 4);
    frames_data(&frames, 0, 1, "k", 1);
    frames_head(&frames, 3, 0x77, 0, 1); /* a frame of a kind that nobody knows */
    frames_put(&frames, "xyz", 3);
    frames_headers(&frames, END, 1, "x-more: z\ngrpc-status: 0\n");
    peer_feed(peer, frames.bytes, frames.count);
    CHECK_EQUAL(peer->status, HF_OK);
    (void)peer_next(peer, HF__RPC_UP, 0);
    peer_next_answer(peer, 5, "ok");
    peer_free(peer);
}

TEST(trouble, trailers_that_are_not_the_last_word_fail_the_call)
{
    static const char *const blocks[] = { GOOD_TRAILERS, GOOD_HEADERS };

    for (size_t i = 0; i < 2; i++) {
        struct peer *peer = peer_new(NULL);
        struct frames frames = { .count = 0 };

        (void)peer_start(peer, 5, "question", 0);
        (void)peer_start(peer, 6, "question", 0);
        peer_take(peer);
        frames_settings(&frames);
        frames_headers(&frames, 0, 1, GOOD_HEADERS);
        frames_message(&frames, 0, 1, "answer");
        frames_headers(&frames, 0, 1, blocks[i]); /* and it goes on */
        peer_feed(peer, frames.bytes, frames.count);
        CHECK_EQUAL(peer->status, HF_OK);
        (void)peer_next(peer, HF__RPC_UP, 0);
        peer_next_failed(peer, 5, HF__RPC_FATE_PERHAPS, "not HTTP/2");
        peer_no_next(peer);
        CHECK_EQUAL(hf__rpc_calls(peer->rpc), 1);
        peer_free(peer);
    }
}

/* The call has its answer; what the server then says of it is its own affair, or its end. */
TEST(trouble, what_comes_after_the_answer_does_not_change_it)
{
    struct peer *peer = peer_new(NULL);
    struct frames frames = { .count = 0 };

    (void)peer_start(peer, 5, "question", 0);
    (void)peer_start(peer, 6, "question", 0);
    peer_take(peer);
    frames_settings(&frames);
    frames_headers(&frames, 0, 1, GOOD_HEADERS);
    frames_message(&frames, 0, 1, "answer");
    frames_headers(&frames, END, 1, GOOD_TRAILERS);
    frames_message(&frames, 0, 1, "another");
    frames_headers(&frames, END, 1, "grpc-status: 5\n");
    peer_feed(peer, frames.bytes, frames.count);
    (void)peer_next(peer, HF__RPC_UP, 0);
    peer_next_answer(peer, 5, "answer");
    if (peer->status != HF_OK)
        peer_next_failed(peer, 6, HF__RPC_FATE_PERHAPS, "HTTP/2");
    peer_no_next(peer);
    peer_free(peer);
}

static void put_reset(struct frames *frames, uint32_t id, uint8_t code)
{
    frames_head(frames, 4, NGHTTP2_RST_STREAM, 0, id);
    frames_put(frames, (uint8_t[]){ 0, 0, 0, code }, 4);
}

TEST(trouble, a_reset_tells_whether_the_call_was_heard)
{
    static const struct {
        uint8_t code;
        int grpc_code;
        enum hf__rpc_fate fate;
        const char *text;
    } samples[] = {
        { NGHTTP2_REFUSED_STREAM, HF__RPC_CODE_UNAVAILABLE, HF__RPC_FATE_NEVER, "REFUSED_STREAM" },
        { NGHTTP2_CANCEL, HF__RPC_CODE_CANCELLED, HF__RPC_FATE_PERHAPS, "CANCEL" },
        { NGHTTP2_ENHANCE_YOUR_CALM, HF__RPC_CODE_RESOURCE_EXHAUSTED, HF__RPC_FATE_PERHAPS,
          "ENHANCE_YOUR_CALM" },
        { NGHTTP2_INADEQUATE_SECURITY, HF__RPC_CODE_PERMISSION_DENIED, HF__RPC_FATE_PERHAPS,
          "INADEQUATE_SECURITY" },
        { NGHTTP2_NO_ERROR, HF__RPC_CODE_INTERNAL, HF__RPC_FATE_PERHAPS, "NO_ERROR" },
        { NGHTTP2_PROTOCOL_ERROR, HF__RPC_CODE_INTERNAL, HF__RPC_FATE_PERHAPS, "PROTOCOL_ERROR" },
    };

    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        struct peer *peer = peer_new(NULL);
        struct frames frames = { .count = 0 };
        struct hf__rpc_event event;

        (void)peer_start(peer, 5, "question", 0);
        peer_take(peer);
        frames_settings(&frames);
        put_reset(&frames, 1, samples[i].code);
        peer_feed(peer, frames.bytes, frames.count);
        CHECK_EQUAL(peer->status, HF_OK);
        (void)peer_next(peer, HF__RPC_UP, 0);
        event = peer_next(peer, HF__RPC_FAILED, 5);
        CHECK_EQUAL(event.code, samples[i].grpc_code);
        CHECK_EQUAL(event.fate, samples[i].fate);
        CHECK_EQUAL(event.status, HF_EUNREACHABLE);
        CHECK(strstr(event.text, samples[i].text));
        peer_free(peer);
    }
}

/* It says that it did nothing, but it had begun to answer. */
TEST(trouble, a_refusal_after_the_first_word_is_not_believed)
{
    struct peer *peer = peer_new(NULL);
    struct frames frames = { .count = 0 };

    (void)peer_start(peer, 5, "question", 0);
    peer_take(peer);
    frames_settings(&frames);
    frames_headers(&frames, 0, 1, GOOD_HEADERS);
    put_reset(&frames, 1, NGHTTP2_REFUSED_STREAM);
    peer_feed(peer, frames.bytes, frames.count);
    (void)peer_next(peer, HF__RPC_UP, 0);
    peer_next_failed(peer, 5, HF__RPC_FATE_PERHAPS, "REFUSED_STREAM");
    peer_free(peer);
}

static void put_goaway(struct frames *frames, uint32_t last_id, uint8_t code, const char *text)
{
    uint8_t words[8] = { 0, 0, (uint8_t)(last_id >> 8), (uint8_t)last_id, 0, 0, 0, code };

    frames_head(frames, sizeof(words) + strlen(text), NGHTTP2_GOAWAY, 0, 0);
    frames_put(frames, words, sizeof(words));
    frames_put(frames, text, strlen(text));
}

TEST(trouble, after_goaway_who_was_heard_goes_on_and_the_others_were_never_processed)
{
    struct hf__rpc_request request = { .path = "/x", .deadline_ns = UINT64_MAX };
    struct peer *peer = peer_new(NULL);
    struct frames frames = { .count = 0 };
    struct hf__rpc_event event;

    frames_head(&frames, 6, NGHTTP2_SETTINGS, 0, 0);
    frames_put(&frames, "\0\3\0\0\0\3", 6); /* three at a time */
    peer_feed(peer, frames.bytes, frames.count);
    (void)peer_next(peer, HF__RPC_UP, 0);
    for (uint64_t i = 1; i <= 5; i++)
        (void)peer_start(peer, i, "question", 0);
    peer_take(peer);
    frames.count = 0;
    put_goaway(&frames, 3, NGHTTP2_ENHANCE_YOUR_CALM, "too_many_pings\n");
    put_goaway(&frames, 3, NGHTTP2_NO_ERROR, "");
    peer_feed(peer, frames.bytes, frames.count);
    CHECK_EQUAL(peer->status, HF_OK);
    event = peer_next(peer, HF__RPC_GOAWAY, 0);
    CHECK(strstr(event.text, "ENHANCE_YOUR_CALM: too_many_pings\\x0a"));
    CHECK(hf__rpc_is_leaving(peer->rpc));
    peer_next_failed(peer, 4, HF__RPC_FATE_NEVER, "GOAWAY");
    peer_next_failed(peer, 5, HF__RPC_FATE_NEVER, "GOAWAY");
    peer_next_failed(peer, 3, HF__RPC_FATE_NEVER, "GOAWAY");
    peer_no_next(peer);
    CHECK_EQUAL(hf__rpc_start(peer->rpc, &request, NULL), HF_EUNREACHABLE);
    CHECK_EQUAL(hf__rpc_open(peer->rpc, &request, NULL), HF_EUNREACHABLE);

    frames.count = 0;
    for (uint32_t id = 1; id <= 3; id += 2) {
        frames_headers(&frames, 0, id, GOOD_HEADERS);
        frames_message(&frames, 0, id, "answer");
        frames_headers(&frames, END, id, GOOD_TRAILERS);
    }
    peer_feed(peer, frames.bytes, frames.count);
    CHECK_EQUAL(peer->status, HF_OK);
    peer_next_answer(peer, 1, "answer");
    peer_next_answer(peer, 2, "answer");
    CHECK_EQUAL(hf__rpc_calls(peer->rpc), 0);
    peer_free(peer);
}

/* Started, but not yet written when GOAWAY comes. */
TEST(trouble, who_was_not_written_when_goaway_came_was_never_processed)
{
    struct peer *peer = peer_new(NULL);
    struct frames frames = { .count = 0 };

    (void)peer_start(peer, 1, "question", 0);
    frames_settings(&frames);
    put_goaway(&frames, 0, NGHTTP2_NO_ERROR, "");
    peer_feed(peer, frames.bytes, frames.count);
    (void)peer_next(peer, HF__RPC_UP, 0);
    (void)peer_next(peer, HF__RPC_GOAWAY, 0);
    peer_next_failed(peer, 1, HF__RPC_FATE_NEVER, "GOAWAY");
    peer_free(peer);
}

TEST(trouble, when_the_numbers_are_used_up_the_connection_is_left)
{
    struct hf__rpc_request request = { .path = "/x", .deadline_ns = UINT64_MAX };
    struct peer *peer = peer_new(NULL);

    CHECK_EQUAL(nghttp2_session_set_next_stream_id(peer->rpc->session, INT32_MAX), 0);
    (void)peer_start(peer, 1, "the last", 0);
    (void)peer_start(peer, 2, "one too many", 0);
    peer_take(peer);
    (void)peer_next(peer, HF__RPC_GOAWAY, 0);
    peer_next_failed(peer, 2, HF__RPC_FATE_NEVER, "numbers");
    peer_no_next(peer);
    CHECK_EQUAL(hf__rpc_calls(peer->rpc), 1);
    CHECK_EQUAL(hf__rpc_start(peer->rpc, &request, NULL), HF_EUNREACHABLE);
    peer_free(peer);
}

/* The last byte decides: what has not left us whole was never processed. */
TEST(trouble, when_the_stream_goes_down_what_did_not_leave_was_never_processed)
{
    struct peer *peer = peer_new(NULL);
    char error[HF__ERROR_BYTES] = "";
    const void *bytes;
    size_t first;

    peer_take(peer);
    (void)peer_start(peer, 1, "sent", 0);
    first = hf__rpc_output(peer->rpc, &bytes);
    (void)peer_start(peer, 2, "all but the last byte", 0);
    CHECK(hf__rpc_output(peer->rpc, &bytes) > first);
    hf__rpc_sent(peer->rpc, hf__rpc_output(peer->rpc, &bytes) - 1);
    (void)peer_start(peer, 3, "not written", 0);
    (void)peer_open(peer, 4);
    CHECK_EQUAL(hf__rpc_error(peer->rpc, error), HF_OK);
    hf__rpc_fail(peer->rpc, HF_EUNREACHABLE, "10.0.0.1:2379: closed by the server");
    hf__rpc_fail(peer->rpc, HF_EPROTOCOL, "another reason");
    CHECK_EQUAL(hf__rpc_error(peer->rpc, error), HF_EUNREACHABLE);
    CHECK_TEXT(error, "10.0.0.1:2379: closed by the server");
    peer_next_failed(peer, 1, HF__RPC_FATE_PERHAPS, "closed by the server");
    peer_next_failed(peer, 2, HF__RPC_FATE_NEVER, "closed by the server");
    peer_next_failed(peer, 3, HF__RPC_FATE_NEVER, "closed by the server");
    CHECK_EQUAL(peer_next(peer, HF__RPC_ENDED, 4).fate, HF__RPC_FATE_NEVER);
    peer_no_next(peer);
    CHECK_EQUAL(hf__rpc_output(peer->rpc, &bytes), 0);
    CHECK_EQUAL(hf__rpc_feed(peer->rpc, "x", 1, peer->now_ns), HF_EUNREACHABLE);
    CHECK(!hf__rpc_ping(peer->rpc, 1));
    peer_free(peer);
}
