/* flow.c: messages as long as may be, both ways, through windows that open and close. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "dice.h"
#include "holdfast/holdfast.h"
#include "peer.h"

/* Prefix and message; freed by the caller. */
static uint8_t *make_message(size_t count)
{
    uint8_t *bytes = malloc(count + 5);
    struct dice dice = { count };

    CHECK(bytes != NULL);
    bytes[0] = 0;
    for (size_t i = 1; i < 5; i++)
        bytes[i] = (uint8_t)(count >> (8 * (4 - i)));
    dice_fill(&dice, bytes + 5, count);
    return bytes;
}

static int start_bytes(struct peer *peer, uint64_t tag, const uint8_t *bytes, size_t count,
                       struct hf__rpc_call **out_call)
{
    struct hf__rpc_request request = { .path = "/x",
                                       .message = { bytes, count },
                                       .now_ns = peer->now_ns,
                                       .deadline_ns = peer->now_ns + 10,
                                       .tag = tag };

    return hf__rpc_start(peer->rpc, &request, out_call);
}

TEST(flow, the_longest_message_goes_both_ways)
{
    size_t count = HF__RPC_MESSAGE_BYTES_MAX;
    uint8_t *message = make_message(count);
    struct peer *peer = peer_new(NULL);
    struct hf__rpc_event event;

    peer_serve(peer, NULL, 0);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    CHECK_EQUAL(start_bytes(peer, 1, message + 5, count + 1, NULL), HF_ELIMIT);
    CHECK_EQUAL(start_bytes(peer, 1, message + 5, count, NULL), HF_OK);
    peer_exchange(peer);
    CHECK(peer->streams[0].is_ended);
    CHECK_EQUAL(hf__buffer_count(&peer->streams[0].body), count + 5);
    CHECK(memcmp(hf__buffer_front(&peer->streams[0].body), message, count + 5) == 0);
    peer_answer(peer, 0, message, count + 5, HF__RPC_CODE_OK);
    peer_exchange(peer);
    event = peer_next(peer, HF__RPC_ANSWER, 1);
    CHECK_EQUAL(event.message.count, count);
    CHECK(memcmp(event.message.at, message + 5, count) == 0);
    peer_no_next(peer);
    peer_free(peer);
    free(message);
}

/* More than any window holds: it must be opened again and again. */
TEST(flow, a_stream_carries_more_than_its_window)
{
    size_t count = 1u << 20;
    uint8_t *message = make_message(count);
    struct peer *peer = peer_new(NULL);
    struct hf__rpc_event event;

    peer_serve(peer, NULL, 0);
    (void)peer_open(peer, 1);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    peer_answer(peer, 0, message, count + 5, -1);
    for (int i = 0; i < 40; i++) {
        peer_exchange(peer);
        event = peer_next(peer, HF__RPC_MESSAGE, 1);
        CHECK(event.message.count == count && !memcmp(event.message.at, message + 5, count));
        peer_no_next(peer);
        peer->streams[0].answer_gone = 0;
        CHECK_EQUAL(nghttp2_session_resume_data(peer->server, peer->streams[0].id), 0);
    }
    peer_free(peer);
    free(message);
}

/* The server's window holds a part of it: the deadline comes before the rest can leave. The server
 * has no whole message then, and never will. */
TEST(flow, what_waits_for_a_window_at_its_deadline_was_never_processed)
{
    const nghttp2_settings_entry small = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1000 };
    struct peer *peer = peer_new(NULL);
    uint8_t *message = make_message(5000);

    peer_serve(peer, &small, 1);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    CHECK_EQUAL(start_bytes(peer, 1, message + 5, 900, NULL), HF_OK);
    CHECK_EQUAL(start_bytes(peer, 2, message + 5, 5000, NULL), HF_OK);
    nghttp2_session_set_local_window_size(peer->server, NGHTTP2_FLAG_NONE, 0, 65535);
    peer_take(peer); /* and it is not told that there is room again */
    CHECK(peer->streams[0].is_ended && !peer->streams[1].is_ended);
    hf__rpc_tick(peer->rpc, peer->now_ns + 10);
    peer_next_failed(peer, 1, HF__RPC_FATE_PERHAPS, "in time");
    peer_next_failed(peer, 2, HF__RPC_FATE_NEVER, "in time");
    peer_exchange(peer);
    CHECK(!peer->streams[1].is_ended && peer->streams[1].is_closed);
    CHECK(hf__buffer_count(&peer->streams[1].body) < 5005);
    CHECK_EQUAL(peer->rpc->stream_count, 0);
    peer_free(peer);
    free(message);
}

/* An answer that comes before the question was all sent: it is taken, and the rest is not sent. */
TEST(flow, an_early_answer_is_taken)
{
    const nghttp2_settings_entry small = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1000 };
    struct peer *peer = peer_new(NULL);
    uint8_t *message = make_message(5000);

    peer_serve(peer, &small, 1);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    CHECK_EQUAL(start_bytes(peer, 2, message + 5, 5000, NULL), HF_OK);
    peer_take(peer);
    peer_answer(peer, 0, "", 0, HF__RPC_CODE_UNAVAILABLE);
    peer->streams[0].grpc_message = "etcdserver: no leader";
    peer_give(peer);
    peer_next_failed(peer, 2, HF__RPC_FATE_ANSWERED, "no leader");
    peer_exchange(peer);
    CHECK_EQUAL(peer->rpc->stream_count, 0);
    peer_free(peer);
    free(message);
}

/* Nobody reads what we write: it waits within a limit, and what is written then is all of it. */
TEST(flow, output_that_is_not_taken_does_not_grow_without_end)
{
    const nghttp2_settings_entry wide = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 30 };
    struct peer *peer = peer_new(NULL);
    uint8_t *message = make_message(400000);
    const void *bytes;

    peer_serve(peer, &wide, 1);
    CHECK_EQUAL(nghttp2_session_set_local_window_size(peer->server, 0, 0, 1 << 30), 0);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    for (uint64_t i = 0; i < 50; i++)
        CHECK_EQUAL(start_bytes(peer, i, message + 5, 400000, NULL), HF_OK);
    CHECK(hf__rpc_output(peer->rpc, &bytes) < 300000);
    CHECK(hf__rpc_output(peer->rpc, &bytes) > 250000);
    peer_exchange(peer);
    for (size_t i = 0; i < 50; i++) {
        CHECK(peer->streams[i].is_ended);
        CHECK_EQUAL(hf__buffer_count(&peer->streams[i].body), 400005);
    }
    peer_free(peer);
    free(message);
}

/* More than 1000 under way are not tried, whatever the server allows; the others follow. */
TEST(flow, two_thousand_calls_are_all_answered)
{
    struct peer *peer = peer_new(NULL);
    size_t answered = 0;

    peer_serve(peer, NULL, 0);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    for (uint64_t i = 0; i < 2000; i++)
        (void)peer_start(peer, i, "question", 0);
    peer_exchange(peer);
    CHECK_EQUAL(peer->stream_count, HF__RPC_STREAMS_MAX);
    while (answered < 2000) {
        peer_say(peer, answered, "answer");
        peer_exchange(peer);
        peer_next_answer(peer, answered++, "answer");
    }
    peer_free(peer);
}
