/* calls.c: calls and streams that go as they should, with a server that keeps the rules. */
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "holdfast/holdfast.h"
#include "peer.h"

static struct peer *served(void)
{
    struct peer *peer = peer_new(NULL);

    peer_serve(peer, NULL, 0);
    return peer;
}

/* The message that a stream of the server has heard, without its prefix. */
static void check_heard(struct peer *peer, size_t stream, const char *message)
{
    const uint8_t *bytes = hf__buffer_front(&peer->streams[stream].body);
    size_t count = strlen(message);

    CHECK(stream < peer->stream_count);
    CHECK_EQUAL(hf__buffer_count(&peer->streams[stream].body), count + 5);
    CHECK(memcmp(bytes, "\0\0\0", 3) == 0 && bytes[3] == count >> 8 && bytes[4] == (count & 255));
    CHECK(memcmp(bytes + 5, message, count) == 0);
}

TEST(calls, a_call_is_answered_however_its_bytes_are_cut)
{
    static const size_t pieces[] = { 0, 1, 2, 3, 7, 9, 100 };

    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        struct peer *peer = served();

        peer->piece = pieces[i];
        (void)peer_start(peer, 42, "question", 0);
        CHECK_EQUAL(hf__rpc_calls(peer->rpc), 1);
        peer_exchange(peer);
        (void)peer_next(peer, HF__RPC_UP, 0);
        peer_no_next(peer);
        check_heard(peer, 0, "question");
        CHECK(peer->streams[0].is_ended);
        peer_say(peer, 0, "answer");
        peer_exchange(peer);
        peer_next_answer(peer, 42, "answer");
        peer_no_next(peer);
        CHECK_EQUAL(hf__rpc_calls(peer->rpc), 0);
        CHECK_EQUAL(peer->rpc->stream_count, 0);
        peer_free(peer);
    }
}

TEST(calls, the_headers_are_those_of_grpc)
{
    struct hf__rpc_options options = { .tls = true };
    struct peer *peer = peer_new(&options);
    const struct peer_stream *stream = &peer->streams[0];

    peer_serve(peer, NULL, 0);
    CHECK_EQUAL(hf__rpc_set_token(peer->rpc, "abc.123"), HF_OK);
    (void)peer_start(peer, 1, "", peer->now_ns + 5 * HF__NS_PER_S);
    CHECK_EQUAL(hf__rpc_set_token(peer->rpc, NULL), HF_OK);
    CHECK_EQUAL(hf__rpc_set_token(peer->rpc, "abc.123"), HF_OK);
    peer_exchange(peer);
    CHECK_TEXT(stream->path, "/etcdserverpb.KV/Txn");
    CHECK_TEXT(stream->authority, "etcd.test:2379");
    CHECK_TEXT(stream->scheme, "https");
    CHECK_TEXT(stream->te, "trailers");
    CHECK_TEXT(stream->type, "application/grpc");
    CHECK_TEXT(stream->token, "abc.123");
    CHECK_TEXT(stream->timeout, "5S");
    check_heard(peer, 0, "");
    CHECK_EQUAL(hf__rpc_set_token(peer->rpc, NULL), HF_OK);
    (void)peer_start(peer, 2, "", 0);
    peer_exchange(peer);
    CHECK_TEXT(peer->streams[1].token, "");
    CHECK_TEXT(peer->streams[1].timeout, "");
    peer_free(peer);
}

TEST(calls, a_token_that_no_header_can_carry_is_refused)
{
    static const char *const bad[] = { "a b", "a\nb", "a\rb", "\x7f", "\xc3\xa9" };
    char big[HF__RPC_TOKEN_BYTES_MAX + 2] = "";
    struct peer *peer = served();

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_EQUAL(hf__rpc_set_token(peer->rpc, bad[i]), HF_EPROTOCOL);
    memset(big, 'x', sizeof(big) - 1);
    CHECK_EQUAL(hf__rpc_set_token(peer->rpc, big), HF_EPROTOCOL);
    peer_free(peer);
}

TEST(calls, many_leave_in_one_write_and_are_answered_in_any_order)
{
    struct peer *peer = served();

    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    peer->writes = 0;
    for (uint64_t i = 0; i < 50; i++)
        (void)peer_start(peer, i, "question", 0);
    peer_take(peer);
    CHECK_EQUAL(peer->writes, 1);
    CHECK_EQUAL(peer->stream_count, 50);
    for (size_t i = 50; i-- > 0;) {
        check_heard(peer, i, "question");
        peer_say(peer, i, "answer");
        peer_exchange(peer);
        peer_next_answer(peer, i, "answer");
    }
    peer_no_next(peer);
    peer_free(peer);
}

/* Once the first calls are over, another takes no memory that was not there before. */
TEST(calls, a_call_costs_no_allocation_in_the_long_run)
{
    struct peer *peer = served();
    size_t allocations = 0;

    for (uint64_t i = 0; i < 200; i++) {
        if (i == 100)
            allocations = peer->world.allocations;
        (void)peer_start(peer, i, "question", peer->now_ns + HF__NS_PER_S);
        peer_exchange(peer);
        if (i == 0)
            (void)peer_next(peer, HF__RPC_UP, 0);
        peer_say(peer, i, "answer");
        peer_exchange(peer);
        peer_next_answer(peer, i, "answer");
    }
#ifdef __SANITIZE_ADDRESS__
    CHECK(peer->world.allocations > allocations); /* there it keeps nothing, and says so */
#else
    CHECK_EQUAL(peer->world.allocations, allocations);
#endif
    peer_free(peer);
}

/* The server says 2; five are started; they come in order, two at a time. */
TEST(calls, who_is_one_too_many_waits_in_order)
{
    const nghttp2_settings_entry two = { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2 };
    struct peer *peer = peer_new(NULL);

    peer_serve(peer, &two, 1);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    for (uint64_t i = 0; i < 5; i++)
        (void)peer_start(peer, i, (const char *[]){ "a", "b", "c", "d", "e" }[i], 0);
    peer_exchange(peer);
    CHECK_EQUAL(peer->stream_count, 2);
    CHECK_EQUAL(hf__rpc_calls(peer->rpc), 5);
    for (size_t i = 0; i < 5; i++) {
        check_heard(peer, i, (const char *[]){ "a", "b", "c", "d", "e" }[i]);
        peer_say(peer, i, "x");
        peer_exchange(peer);
        peer_next_answer(peer, i, "x");
        CHECK_EQUAL(peer->stream_count, i + 3 < 5 ? i + 3 : 5);
    }
    peer_free(peer);
}

TEST(calls, more_than_calls_max_are_refused)
{
    struct hf__rpc_options options = { .calls_max = 3, .message_bytes_max = 4 };
    struct hf__rpc_request request = { .path = "/x", .deadline_ns = HF__NEVER };
    struct peer *peer = peer_new(&options);

    peer_serve(peer, NULL, 0);
    request.message = (struct hf__rpc_bytes){ (const uint8_t *)"12345", 5 };
    CHECK_EQUAL(hf__rpc_start(peer->rpc, &request, NULL), HF_ELIMIT);
    request.message.count = 4;
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(hf__rpc_start(peer->rpc, &request, NULL), HF_OK);
    CHECK_EQUAL(hf__rpc_start(peer->rpc, &request, NULL), HF_ELIMIT);
    peer_exchange(peer);
    CHECK_EQUAL(peer->stream_count, 3);
    peer_free(peer);
}

TEST(calls, a_stream_carries_messages_both_ways_until_it_ends)
{
    static const uint8_t said[] = "\0\0\0\0\3one\0\0\0\0\0\0\0\0\0\5three\0\0\0";
    struct peer *peer = served();
    struct hf__rpc_call *call = peer_open(peer, 7);
    struct hf__rpc_event event;

    CHECK_EQUAL(hf__rpc_send(peer->rpc, call, (struct hf__rpc_bytes){ (const uint8_t *)"a", 1 }),
                HF_OK);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    check_heard(peer, 0, "a");
    CHECK(!peer->streams[0].is_ended);
    hf__buffer_consume(&peer->streams[0].body, 6);
    CHECK_EQUAL(hf__rpc_send(peer->rpc, call, (struct hf__rpc_bytes){ (const uint8_t *)"bc", 2 }),
                HF_OK);
    peer_exchange(peer);
    check_heard(peer, 0, "bc");

    /* three messages and a half; then the rest of it */
    peer_answer(peer, 0, said, 26, -1);
    peer_exchange(peer);
    event = peer_next(peer, HF__RPC_MESSAGE, 7);
    CHECK(event.call == call && event.message.count == 3);
    CHECK(memcmp(event.message.at, "one", 3) == 0);
    event = peer_next(peer, HF__RPC_MESSAGE, 7);
    CHECK_EQUAL(event.message.count, 0);
    event = peer_next(peer, HF__RPC_MESSAGE, 7);
    CHECK(event.message.count == 5 && memcmp(event.message.at, "three", 5) == 0);
    peer_no_next(peer);

    peer->streams[0].answer = (const uint8_t *)"\0\1x";
    peer->streams[0].answer_bytes = 3;
    peer->streams[0].answer_gone = 0;
    peer->streams[0].grpc_status = HF__RPC_CODE_OK;
    CHECK_EQUAL(nghttp2_session_resume_data(peer->server, peer->streams[0].id), 0);
    peer_exchange(peer);
    event = peer_next(peer, HF__RPC_MESSAGE, 7);
    CHECK(event.message.count == 1 && *event.message.at == 'x');
    event = peer_next(peer, HF__RPC_ENDED, 7);
    CHECK(event.call == call && event.code == HF__RPC_CODE_OK && event.status == HF_OK);
    CHECK_EQUAL(hf__rpc_send(peer->rpc, call, (struct hf__rpc_bytes){ NULL, 0 }), HF_EUNREACHABLE);
    CHECK_EQUAL(hf__rpc_cancel(peer->rpc, call), HF__RPC_FATE_ANSWERED);
    peer_no_next(peer);
    CHECK(peer->streams[0].is_closed);
    CHECK_EQUAL(peer->rpc->stream_count, 0);
    peer_free(peer);
}

TEST(calls, a_stream_that_is_finished_tells_the_server)
{
    struct peer *peer = served();
    struct hf__rpc_call *call = peer_open(peer, 7);

    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    CHECK(!peer->streams[0].is_ended);
    hf__rpc_finish(peer->rpc, call);
    peer_exchange(peer);
    CHECK(peer->streams[0].is_ended);
    peer_answer(peer, 0, "", 0, HF__RPC_CODE_OK);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_ENDED, 7);
    CHECK_EQUAL(peer->rpc->stream_count, 0);
    peer_free(peer);
}

TEST(calls, who_is_cancelled_is_reset_and_not_heard_of_again)
{
    struct peer *peer = served();
    struct hf__rpc_call *never = peer_start(peer, 1, "never sent", 0);
    struct hf__rpc_call *sent;
    struct hf__rpc_call *stream;
    struct hf__rpc_call *answered;

    CHECK_EQUAL(hf__rpc_cancel(peer->rpc, never), HF__RPC_FATE_NEVER);
    sent = peer_start(peer, 2, "sent", 0);
    answered = peer_start(peer, 3, "answered", 0);
    stream = peer_open(peer, 4);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    CHECK_EQUAL(peer->stream_count, 3);
    peer_say(peer, 1, "answer");
    peer_answer(peer, 2, "\0\0\0\0\1x\0\0\0\0\1y", 12, -1);
    peer_exchange(peer);
    CHECK_EQUAL(hf__rpc_cancel(peer->rpc, sent), HF__RPC_FATE_PERHAPS);
    CHECK_EQUAL(hf__rpc_cancel(peer->rpc, answered), HF__RPC_FATE_ANSWERED);
    (void)peer_next(peer, HF__RPC_MESSAGE, 4);
    CHECK_EQUAL(hf__rpc_cancel(peer->rpc, stream), HF__RPC_FATE_PERHAPS);
    peer_no_next(peer);
    peer_exchange(peer);
    peer_no_next(peer);
    CHECK(peer->streams[0].is_closed && peer->streams[0].closed_by == NGHTTP2_CANCEL);
    CHECK(peer->streams[2].is_closed && peer->streams[2].closed_by == NGHTTP2_CANCEL);
    CHECK_EQUAL(hf__rpc_calls(peer->rpc), 0);
    CHECK_EQUAL(peer->rpc->stream_count, 0);
    peer_free(peer);
}

TEST(calls, a_ping_is_answered_and_answers)
{
    struct peer *peer = served();

    CHECK(hf__rpc_ping(peer->rpc, 99));
    CHECK(!hf__rpc_ping(peer->rpc, 100));
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    (void)peer_next(peer, HF__RPC_PONG, 99);
    CHECK_EQUAL(peer->pings, 1);
    CHECK_EQUAL(nghttp2_submit_ping(peer->server, NGHTTP2_FLAG_NONE, NULL), 0);
    peer_exchange(peer);
    hf__rpc_tick(peer->rpc, hf__rpc_deadline_ns(peer->rpc));
    peer_exchange(peer);
    CHECK_EQUAL(peer->pings, 2); /* the answer to its own */
    peer_no_next(peer);
    CHECK(hf__rpc_ping(peer->rpc, 100));
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_PONG, 100);
    peer_free(peer);
}

/* A server that pings with each call would otherwise do so for ever. */
TEST(calls, an_answer_to_a_ping_waits_a_little)
{
    struct peer *peer = served();
    const void *bytes;
    uint64_t by_ns;

    peer_exchange(peer);
    CHECK_EQUAL(hf__rpc_deadline_ns(peer->rpc), HF__NEVER);
    CHECK_EQUAL(nghttp2_submit_ping(peer->server, NGHTTP2_FLAG_NONE, NULL), 0);
    peer_give(peer);
    by_ns = hf__rpc_deadline_ns(peer->rpc);
    CHECK(by_ns > peer->now_ns && by_ns <= peer->now_ns + 5 * HF__NS_PER_S);
    hf__rpc_tick(peer->rpc, peer->now_ns + 99 * HF__NS_PER_MS);
    CHECK_EQUAL(hf__rpc_output(peer->rpc, &bytes), 0);
    hf__rpc_tick(peer->rpc, peer->now_ns + 100 * HF__NS_PER_MS);
    CHECK_EQUAL(hf__rpc_deadline_ns(peer->rpc), HF__NEVER);
    CHECK_EQUAL(hf__rpc_output(peer->rpc, &bytes), 17);
    peer_take(peer);
    CHECK_EQUAL(peer->pings, 1);
    hf__rpc_tick(peer->rpc, peer->now_ns + HF__NS_PER_S);
    CHECK_EQUAL(hf__rpc_output(peer->rpc, &bytes), 0); /* once is enough */
    peer_free(peer);
}

/* It cannot have us keep more than one. */
TEST(calls, every_ping_is_answered_however_many_come)
{
    struct peer *peer = served();

    peer_exchange(peer);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(nghttp2_submit_ping(peer->server, NGHTTP2_FLAG_NONE, NULL), 0);
        peer_exchange(peer);
        CHECK_EQUAL(peer->pings, i);
    }
    hf__rpc_tick(peer->rpc, hf__rpc_deadline_ns(peer->rpc));
    peer_exchange(peer);
    CHECK_EQUAL(peer->pings, 3);
    peer_free(peer);
}

TEST(calls, at_its_deadline_a_call_is_reset)
{
    const nghttp2_settings_entry two = { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2 };
    struct peer *peer = peer_new(NULL);
    uint64_t begin_ns = peer->now_ns;

    peer_serve(peer, &two, 1);
    peer_exchange(peer);
    (void)peer_next(peer, HF__RPC_UP, 0);
    CHECK(hf__rpc_deadline_ns(peer->rpc) == HF__NEVER);
    (void)peer_start(peer, 1, "late", begin_ns + 20);
    (void)peer_start(peer, 2, "patient", 0);
    (void)peer_start(peer, 3, "waits", begin_ns + 10);
    peer_exchange(peer);
    CHECK(hf__rpc_deadline_ns(peer->rpc) == begin_ns + 10);
    hf__rpc_tick(peer->rpc, begin_ns + 9);
    peer_no_next(peer);
    hf__rpc_tick(peer->rpc, begin_ns + 20);
    peer_next_failed(peer, 3, HF__RPC_FATE_NEVER, "in time");
    peer_next_failed(peer, 1, HF__RPC_FATE_PERHAPS, "in time");
    CHECK(hf__rpc_deadline_ns(peer->rpc) == HF__NEVER);
    peer_exchange(peer);
    CHECK_EQUAL(peer->stream_count, 2);
    CHECK(peer->streams[0].is_closed && peer->streams[0].closed_by == NGHTTP2_CANCEL);
    peer_say(peer, 1, "answer");
    peer_exchange(peer);
    peer_next_answer(peer, 2, "answer");
    peer_free(peer);
}

TEST(calls, a_time_is_written_in_eight_digits)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } samples[] = {
        { 0, "1n" },
        { 1, "1n" },
        { 99999999, "99999999n" },
        { 100000000, "100000u" },
        { 999999999, "999999u" },
        { 1000000000, "1S" },
        { 1000000001, "2S" },
        { 9999000000, "10S" },
        { 10000000000, "10S" },
        { 99999999000000000, "99999999S" },
        { 99999999000000001, "1666666M" },
        { 100000000000000000, "1666666M" },
        { UINT64_MAX, "5124095H" },
    };
    char text[HF__RPC_TIMEOUT_BYTES];

    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        hf__rpc_text_timeout(samples[i].ns, text);
        CHECK_TEXT(text, samples[i].text);
    }
}
