/* traffic.c: how do bytes go out and come in?
 *
 * What is written down is sent as soon as the stream takes it, or held back if somebody is sure to
 * send it a little later with more (engine.h: enum hf__pace). What came is left in conn->in.
 *
 * What can go wrong: the stream ends: the connection is ending from then on, with the reason. A
 * server that sends without end: after so many reads others get their turn. */
#include <sched.h>

#include "engine/redis/redis.h"

#define READ_BYTES     16384u
#define READS_PER_LOOK 64u /* for the peer's CPU: servers seldom move */
#define HELD_BACK_MAX  16384u

void hf__traffic_end(struct hf__redis *conn, int status)
{
    conn->ending = true;
    conn->end_status = status;
}

void hf__traffic_end_with_stream(struct hf__redis *conn)
{
    int status = hf__stream_error(conn->stream, conn->base.error);

    /* Redis hangs up without a word on whoever does not speak TLS where it does. */
    if (conn->stream_state == HF__STREAM_UP && !conn->has_heard && !hf__terms_tls(conn->url) &&
        status == HF_EUNREACHABLE)
        hf__error_set(conn->base.error, status,
                      "%s before it said a word; perhaps it wants TLS (%ss://)", conn->base.error,
                      conn->url->scheme);
    hf__traffic_end(conn, status);
}

bool hf__traffic_awaits_answer(const struct hf__redis *conn)
{
    const struct hf__asked *oldest = HF__LIST_ENTRY(conn->asked.next, struct hf__asked, place);

    return !hf__list_empty(&conn->asked) && oldest->from < conn->sent_bytes && !oldest->abandoned;
}

/* Where the server has the CPU that we run on, it gets to work only when we all wait: one burst
 * then costs less than many small ones. Where it has another one, it had better begin at once. */
static bool holds_back(const struct hf__redis *conn)
{
    size_t count = hf__buffer_count(&conn->out.buffer);

    if (conn->base.pace == HF__PACE_AT_ONCE || count >= HELD_BACK_MAX || !conn->greeted)
        return false;
    if (conn->base.pace == HF__PACE_WITH_ANSWERS && !hf__traffic_awaits_answer(conn))
        return false;
    return conn->base.is_near;
}

void hf__traffic_send(struct hf__redis *conn)
{
    size_t count;

    conn->base.holds_back = false;
    if (hf__buffer_count(&conn->out.buffer) == 0)
        return;
    conn->base.is_near = conn->peer_cpu == sched_getcpu();
    conn->base.holds_back = holds_back(conn);
    if (conn->base.holds_back)
        return;
    while ((count = hf__buffer_count(&conn->out.buffer)) > 0) {
        ssize_t sent = hf__stream_write(conn->stream, hf__buffer_front(&conn->out.buffer), count);

        if (sent < 0)
            hf__traffic_end_with_stream(conn);
        if (sent == 0)
            conn->may_read = true; /* a server that hung up may have said why */
        if (sent <= 0)
            return;
        conn->sent_bytes += (uint64_t)sent;
        hf__buffer_consume(&conn->out.buffer, (size_t)sent);
    }
}

static void note_read(struct hf__redis *conn)
{
    if (conn->reads++ % READS_PER_LOOK == 0)
        conn->peer_cpu = hf__stream_peer_cpu(conn->stream);
    conn->has_heard = true;
}

/* Nothing: read() will tell whether that is all. */
void hf__traffic_heard(struct hf__redis *conn, const void *bytes, size_t count)
{
    conn->may_read = true;
    conn->reads_left = HF__REDIS_READS_MAX;
    if (count == 0 || conn->ending)
        return;
    if (hf__buffer_append(&conn->in.buffer, bytes, count) < 0) {
        hf__traffic_end(conn, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return;
    }
    note_read(conn);
    conn->may_read = count == HF__LISTEN_BYTES;
}

/* 1: something came. */
int hf__traffic_receive(struct hf__redis *conn)
{
    void *space;
    ssize_t got;

    if (!conn->may_read || conn->reads_left == 0 || conn->base.is_heard)
        return 0;
    conn->reads_left--;
    if (hf__buffer_reserve(&conn->in.buffer, READ_BYTES, &space) < 0) {
        hf__traffic_end(conn, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return 0;
    }
    got = hf__stream_read(conn->stream, space, READ_BYTES);
    if (got < 0)
        hf__traffic_end_with_stream(conn);
    if (got <= 0) {
        conn->may_read = false;
        return 0;
    }
    hf__buffer_commit(&conn->in.buffer, (size_t)got);
    note_read(conn);
    /* Less than there was room for: that was all. */
    conn->may_read = (size_t)got == READ_BYTES;
    return 1;
}
