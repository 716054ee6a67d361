/* rpc_call.c: how does a call begin, wait for its turn, go out, and end?
 *
 * It waits in rpc->waiting until the server allows one more stream; then nghttp2 has its headers,
 * and fetches its messages as the windows allow. Whatever ends it (an answer, an error of the
 * server, a reset, its deadline, the end of the connection) comes through hf__rpc_call_end: the
 * stream forgets the call, and the call becomes its own last event. From then on nghttp2 may still
 * say much about that stream: nobody listens.
 *
 * The fate of a request without an answer: it was never processed if its last byte did not leave
 * us, for without that byte the server has no message to act upon.
 *
 * What can go wrong: the numbers of streams are used up (after a thousand million calls): the
 * connection is left as after a GOAWAY. No memory: start says so, and nothing has begun; later on
 * it ends the connection.
 *
 * Pure: no clock, no I/O; memory by the env. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/rpc_inside.h"
#include "holdfast/holdfast.h"

/* --- memory --- */

static struct hf__rpc_call *take_call(struct hf__rpc *rpc)
{
    struct hf__rpc_call *call;

    if (hf__list_empty(&rpc->free_calls)) {
        call = hf__memory_new(&rpc->ours, sizeof(*call));
        if (!call)
            return NULL;
    } else {
        call = HF__LIST_ENTRY(rpc->free_calls.next, struct hf__rpc_call, place);
        hf__list_remove(&call->place);
    }
    *call = (struct hf__rpc_call){ .grpc_status = -1 };
    hf__list_init(&call->place);
    hf__list_init(&call->note.place);
    hf__list_init(&call->outgoing);
    hf__heap_node_init(&call->deadline);
    return call;
}

static void free_outgoing(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    HF__LIST_FOR(place, &call->outgoing)
    {
        hf__list_remove(place);
        hf__memory_free(&rpc->ours, HF__LIST_ENTRY(place, struct hf__rpc_outgoing, place));
    }
}

void hf__rpc_call_free(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    assert(call->state != HF__RPC_STATE_FREE);

    free_outgoing(rpc, call);
    hf__memory_free(&rpc->theirs, call->message);
    call->message = NULL;
    hf__heap_remove(&rpc->deadlines, &call->deadline);
    hf__list_remove(&call->note.place);
    hf__list_remove(&call->place);
    call->state = HF__RPC_STATE_FREE;
    hf__list_append(&rpc->free_calls, &call->place);
}

void hf__rpc_call_done(struct hf__rpc *rpc)
{
    struct hf__list *lists[] = { &rpc->waiting, &rpc->open };

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        HF__LIST_FOR(place, lists[i])
        {
            hf__rpc_call_free(rpc, HF__LIST_ENTRY(place, struct hf__rpc_call, place));
        }
    }
    HF__LIST_FOR(place, &rpc->free_calls)
    {
        hf__list_remove(place);
        hf__memory_free(&rpc->ours, HF__LIST_ENTRY(place, struct hf__rpc_call, place));
    }
}

/* --- the end --- */

enum hf__rpc_fate hf__rpc_call_fate(const struct hf__rpc *rpc, const struct hf__rpc_call *call,
                                    bool is_over)
{
    if (call->state == HF__RPC_STATE_WAITING)
        return HF__RPC_FATE_NEVER;
    if (call->is_stream)
        return HF__RPC_FATE_PERHAPS;
    if (!call->is_sealed)
        return HF__RPC_FATE_NEVER;
    return is_over && call->sealed_at > rpc->taken ? HF__RPC_FATE_NEVER : HF__RPC_FATE_PERHAPS;
}

/* nghttp2 forgets the call, and asks for nothing of its messages any more. */
static void detach(struct hf__rpc *rpc, struct hf__rpc_call *call, int32_t reset)
{
    if (rpc->sealing == call)
        rpc->sealing = NULL;
    if (call->state != HF__RPC_STATE_OPEN || rpc->status < 0)
        return;
    (void)nghttp2_session_set_stream_user_data(rpc->session, call->stream_id, NULL);
    rpc->is_stirred = true;
    if (reset >= 0 && nghttp2_submit_rst_stream(rpc->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                                (uint32_t)reset) != 0)
        (void)hf__rpc_condemn(rpc, HF_ENOMEM, "out of memory");
}

void hf__rpc_call_end(struct hf__rpc *rpc, struct hf__rpc_call *call, const struct hf__rpc_end *end)
{
    bool is_answer = !call->is_stream && end->code == HF__RPC_CODE_OK;

    assert(call->state == HF__RPC_STATE_WAITING || call->state == HF__RPC_STATE_OPEN);
    assert(!is_answer || call->has_answer);

    detach(rpc, call, end->reset);
    call->code = end->code;
    call->status = end->status;
    call->fate = end->fate;
    call->state = HF__RPC_STATE_TOLD;
    rpc->call_count--;
    hf__list_remove(&call->place);
    hf__heap_remove(&rpc->deadlines, &call->deadline);
    free_outgoing(rpc, call);
    if (!is_answer) {
        hf__memory_free(&rpc->theirs, call->message);
        call->message = NULL;
    }
    hf__rpc_tell(rpc, &call->note,
                 is_answer         ? HF__RPC_ANSWER
                 : call->is_stream ? HF__RPC_ENDED
                                   : HF__RPC_FAILED);
}

void hf__rpc_call_refuse(struct hf__rpc *rpc, struct hf__rpc_call *call, int code,
                         const char *format, ...)
{
    struct hf__rpc_end end = { code, HF_EPROTOCOL, HF__RPC_FATE_PERHAPS, NGHTTP2_CANCEL };
    char text[HF__ERROR_BYTES]; /* the call's own may be an argument */
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    memcpy(call->text, text, sizeof(text));
    hf__rpc_call_end(rpc, call, &end);
}

void hf__rpc_call_end_waiting(struct hf__rpc *rpc, int status, const char *text)
{
    struct hf__rpc_end end = { HF__RPC_CODE_UNAVAILABLE, status, HF__RPC_FATE_NEVER, -1 };

    HF__LIST_FOR(place, &rpc->waiting)
    {
        struct hf__rpc_call *call = HF__LIST_ENTRY(place, struct hf__rpc_call, place);

        (void)hf__error_set(call->text, status, "%s", text);
        hf__rpc_call_end(rpc, call, &end);
    }
}

static void drop_messages(struct hf__rpc *rpc, const struct hf__rpc_call *call)
{
    HF__LIST_FOR(place, &rpc->told)
    {
        struct hf__rpc_note *note = HF__LIST_ENTRY(place, struct hf__rpc_note, place);
        struct hf__rpc_message *message = HF__LIST_ENTRY(note, struct hf__rpc_message, note);

        if (note->kind != HF__RPC_MESSAGE || message->call != call)
            continue;
        hf__list_remove(place);
        hf__memory_free(&rpc->theirs, message);
    }
}

enum hf__rpc_fate hf__rpc_cancel(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    enum hf__rpc_fate fate = call->fate;

    assert(rpc && call->state != HF__RPC_STATE_FREE);

    if (call->state == HF__RPC_STATE_HANDED)
        return fate;
    if (call->state != HF__RPC_STATE_TOLD) {
        fate = hf__rpc_call_fate(rpc, call, false);
        detach(rpc, call, NGHTTP2_CANCEL);
        rpc->call_count--;
    }
    drop_messages(rpc, call);
    if (rpc->handed && rpc->handed->kind == HF__RPC_MESSAGE) {
        struct hf__rpc_message *message = HF__LIST_ENTRY(rpc->handed, struct hf__rpc_message, note);

        message->call = message->call == call ? NULL : message->call;
    }
    hf__rpc_call_free(rpc, call);
    return fate;
}

/* --- out --- */

/* HF_OK, HF_ELIMIT, HF_ENOMEM. */
static int add_message(struct hf__rpc *rpc, struct hf__rpc_call *call, struct hf__rpc_bytes message)
{
    struct hf__rpc_outgoing *outgoing;

    assert(message.at || message.count == 0);

    if (message.count > rpc->message_bytes_max)
        return HF_ELIMIT;
    rpc->ours.is_exhausted = false;
    outgoing = hf__memory_new(&rpc->ours, sizeof(*outgoing) + HF__RPC_PREFIX_BYTES + message.count);
    if (!outgoing)
        return rpc->ours.is_exhausted ? HF_ELIMIT : HF_ENOMEM;
    hf__list_init(&outgoing->place);
    outgoing->count = HF__RPC_PREFIX_BYTES + message.count;
    outgoing->gone = 0;
    for (size_t i = 1; i < HF__RPC_PREFIX_BYTES; i++)
        outgoing->data[i] = (uint8_t)(message.count >> (8 * (HF__RPC_PREFIX_BYTES - 1 - i)));
    if (message.count > 0)
        memcpy(outgoing->data + HF__RPC_PREFIX_BYTES, message.at, message.count);
    hf__list_append(&call->outgoing, &outgoing->place);
    return HF_OK;
}

static size_t give(struct hf__rpc *rpc, struct hf__rpc_call *call, uint8_t *buffer, size_t room)
{
    size_t count = 0;

    while (count < room && !hf__list_empty(&call->outgoing)) {
        struct hf__rpc_outgoing *outgoing =
            HF__LIST_ENTRY(call->outgoing.next, struct hf__rpc_outgoing, place);
        size_t left = outgoing->count - outgoing->gone;
        size_t part = left < room - count ? left : room - count;

        memcpy(buffer + count, outgoing->data + outgoing->gone, part);
        outgoing->gone += part;
        count += part;
        if (outgoing->gone < outgoing->count)
            break;
        hf__list_remove(&outgoing->place);
        hf__memory_free(&rpc->ours, outgoing);
    }
    return count;
}

/* nghttp2 asks for what is to go into the next DATA frame of a stream.
 * NOLINTNEXTLINE(readability-function-size): its signature */
ssize_t hf__rpc_call_read(nghttp2_session *session, int32_t stream_id, uint8_t *buffer, size_t room,
                          uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct hf__rpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    struct hf__rpc *rpc = context;
    size_t count;

    (void)source;
    if (!call)
        return NGHTTP2_ERR_DEFERRED; /* a RST_STREAM is on its way */
    count = give(rpc, call, buffer, room);
    if (hf__list_empty(&call->outgoing) && call->is_finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        call->is_sealed = true;
        call->sealed_at = UINT64_MAX;
        rpc->sealing = call;
        return (ssize_t)count;
    }
    call->is_deferred = count == 0;
    return count > 0 ? (ssize_t)count : NGHTTP2_ERR_DEFERRED;
}

/* The name, the value, and whether it is worth a place in the server's table. */
static nghttp2_nv header(const char *name, const char *value, uint8_t flags)
{
    union {
        const char *text;
        uint8_t *bytes; /* nghttp2 does not write there */
    } name_of = { name }, value_of = { value };

    return (nghttp2_nv){ .name = name_of.bytes,
                         .value = value_of.bytes,
                         .namelen = strlen(name),
                         .valuelen = strlen(value),
                         .flags = flags };
}

/* Most are the same again and again, and become a byte each (but the path, which nghttp2 spells
 * out). So does the time, if it is told in seconds; else it would only drive the others out of the
 * table. The token is copied: it may be changed before this is written. */
static int submit(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    const uint8_t kept = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    nghttp2_data_provider provider = { .read_callback = hf__rpc_call_read };
    char timeout[HF__RPC_TIMEOUT_BYTES];
    uint64_t deadline_ns = call->deadline.at_ns;
    nghttp2_nv headers[9] = {
        header(":method", "POST", kept),
        header(":scheme", rpc->tls ? "https" : "http", kept),
        header(":path", call->path, kept),
        header(":authority", rpc->authority, kept),
        header("te", "trailers", kept),
        header("content-type", "application/grpc", kept),
        header("user-agent", "holdfast", kept),
    };
    size_t count = 7;

    if (rpc->token)
        headers[count++] = header("token", rpc->token, NGHTTP2_NV_FLAG_NO_COPY_NAME);
    if (call->deadline.place != HF__HEAP_OUTSIDE) {
        uint64_t left_ns = deadline_ns > rpc->now_ns ? deadline_ns - rpc->now_ns : 0;

        hf__rpc_text_timeout(left_ns, timeout);
        headers[count] = header("grpc-timeout", timeout, NGHTTP2_NV_FLAG_NO_COPY_NAME);
        if (left_ns < HF__NS_PER_S)
            headers[count].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
        count++;
    }
    return nghttp2_submit_request(rpc->session, NULL, headers, count, &provider, call);
}

void hf__rpc_call_admit(struct hf__rpc *rpc)
{
    size_t allowed =
        nghttp2_session_get_remote_settings(rpc->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    if (allowed > HF__RPC_STREAMS_MAX)
        allowed = HF__RPC_STREAMS_MAX;
    while (!hf__list_empty(&rpc->waiting) && rpc->stream_count < allowed) {
        struct hf__rpc_call *call = HF__LIST_ENTRY(rpc->waiting.next, struct hf__rpc_call, place);
        int id = submit(rpc, call);

        if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) {
            hf__rpc_leave(rpc, "this connection has had as many calls as there are numbers");
            return;
        }
        if (id < 0) {
            (void)hf__rpc_condemn_by(rpc, id);
            return;
        }
        call->stream_id = id;
        call->state = HF__RPC_STATE_OPEN;
        rpc->stream_count++;
        hf__list_remove(&call->place);
        hf__list_append(&rpc->open, &call->place);
    }
}

/* --- the beginning --- */

static int begin(struct hf__rpc *rpc, const struct hf__rpc_request *request, bool is_stream,
                 struct hf__rpc_call **out_call)
{
    struct hf__rpc_call *call;
    int status = HF_OK;

    assert(rpc && request && request->path && request->path[0] == '/');

    if (rpc->status < 0 || rpc->is_leaving)
        return HF_EUNREACHABLE;
    if (rpc->call_count >= rpc->calls_max)
        return HF_ELIMIT;
    if (hf__heap_reserve(&rpc->deadlines, rpc->call_count + 1) < 0)
        return HF_ENOMEM;
    call = take_call(rpc);
    if (!call)
        return HF_ENOMEM;
    call->state = HF__RPC_STATE_WAITING;
    call->is_stream = is_stream;
    call->is_finished = !is_stream;
    call->tag = request->tag;
    call->path = request->path;
    if (!is_stream)
        status = add_message(rpc, call, request->message);
    if (status < 0) {
        hf__rpc_call_free(rpc, call);
        return status;
    }
    rpc->now_ns = request->now_ns > rpc->now_ns ? request->now_ns : rpc->now_ns;
    rpc->call_count++;
    hf__heap_set(&rpc->deadlines, &call->deadline, request->deadline_ns);
    hf__list_append(&rpc->waiting, &call->place);
    if (out_call)
        *out_call = call;
    return HF_OK;
}

int hf__rpc_start(struct hf__rpc *rpc, const struct hf__rpc_request *request,
                  struct hf__rpc_call **out_call)
{
    return begin(rpc, request, false, out_call);
}

int hf__rpc_open(struct hf__rpc *rpc, const struct hf__rpc_request *request,
                 struct hf__rpc_call **out_call)
{
    return begin(rpc, request, true, out_call);
}

static void resume(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    if (!call->is_deferred)
        return;
    call->is_deferred = false;
    rpc->is_stirred = true;
    if (nghttp2_session_resume_data(rpc->session, call->stream_id) == NGHTTP2_ERR_NOMEM)
        (void)hf__rpc_condemn(rpc, HF_ENOMEM, "out of memory");
}

int hf__rpc_send(struct hf__rpc *rpc, struct hf__rpc_call *call, struct hf__rpc_bytes message)
{
    int status;

    assert(rpc && call->state != HF__RPC_STATE_FREE);
    assert(call->is_stream && !call->is_finished);

    if (rpc->status < 0)
        return HF_EUNREACHABLE;
    if (call->state != HF__RPC_STATE_WAITING && call->state != HF__RPC_STATE_OPEN)
        return HF_EUNREACHABLE;
    status = add_message(rpc, call, message);
    if (status == HF_OK)
        resume(rpc, call);
    return status;
}

void hf__rpc_finish(struct hf__rpc *rpc, struct hf__rpc_call *call)
{
    assert(rpc && call->state != HF__RPC_STATE_FREE);
    assert(call->is_stream);

    call->is_finished = true;
    if (rpc->status == HF_OK && call->state == HF__RPC_STATE_OPEN)
        resume(rpc, call);
}

/* --- time --- */

void hf__rpc_tick(struct hf__rpc *rpc, uint64_t now_ns)
{
    struct hf__heap_node *first;

    rpc->now_ns = now_ns > rpc->now_ns ? now_ns : rpc->now_ns;
    while ((first = hf__heap_first(&rpc->deadlines)) != NULL && first->at_ns <= rpc->now_ns) {
        struct hf__rpc_call *call = HF__LIST_ENTRY(first, struct hf__rpc_call, deadline);
        struct hf__rpc_end end = { HF__RPC_CODE_DEADLINE_EXCEEDED, HF_EUNREACHABLE,
                                   hf__rpc_call_fate(rpc, call, false), NGHTTP2_CANCEL };

        (void)hf__error_set(call->text, end.status, "no answer in time");
        hf__rpc_call_end(rpc, call, &end);
    }
    hf__rpc_answer_late_ping(rpc);
}

uint64_t hf__rpc_deadline_ns(const struct hf__rpc *rpc)
{
    const struct hf__heap_node *first = hf__heap_first(&rpc->deadlines);
    uint64_t answer_by_ns = hf__rpc_answer_by_ns(rpc);

    return first && first->at_ns < answer_by_ns ? first->at_ns : answer_by_ns;
}
