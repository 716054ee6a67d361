/* rpc.c: how do calls become bytes on one connection, and bytes the events of calls?
 *
 * nghttp2 knows the frames of HTTP/2; it is given the server's bytes by feed(), and asked for ours
 * whenever somebody wants to write, so that all calls started meanwhile leave together. What it
 * tells us is heard in rpc_hear.c; what happened waits in rpc->told until it is fetched: nobody is
 * called back.
 *
 * What can go wrong: the server breaks the rules, floods us, or has us keep more than the limit
 * (HF_EPROTOCOL); memory runs out (HF_ENOMEM); the stream goes down (hf__rpc_fail). Each is an end:
 * every call fails, with what is known of it, and nghttp2 is not asked any more. A server that
 * neither breaks a rule nor answers is the deadlines' business.
 *
 * Pure: no clock, no I/O; memory by the env (but for nghttp2's tables of callbacks and options,
 * which live only while a connection is made). */
#include "engine/etcd/rpc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/etcd/rpc_inside.h"
#include "holdfast/holdfast.h"

#define OUTPUT_BYTES_HIGH (256u << 10) /* with so many waiting nghttp2 is not asked for more */
#define OUTPUT_BYTES_MAX  (2u << 20)
#define ANSWER_SOON_NS    (100 * HF__NS_PER_MS) /* to a ping, if somebody is here */
#define ANSWER_LATE_NS    (4 * HF__NS_PER_S)    /* for this somebody comes; servers wait for 20 s */

/* --- beginning and end --- */

static void *allocate(size_t bytes, void *memory)
{
    return hf__memory_new(memory, bytes);
}

static void *allocate_array(size_t count, size_t bytes, void *memory)
{
    return bytes > 0 && count > SIZE_MAX / bytes ? NULL : hf__memory_new(memory, count * bytes);
}

static void *resize(void *block, size_t bytes, void *memory)
{
    return hf__memory_resize(memory, block, bytes > 0 ? bytes : 1);
}

static void release(void *block, void *memory)
{
    hf__memory_free(memory, block);
}

static int open_session(struct hf__rpc *rpc)
{
    static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HF__RPC_WINDOW_BYTES },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HF__RPC_HEADERS_BYTES_MAX },
    };
    nghttp2_mem memory = { &rpc->theirs, allocate, release, allocate_array, resize };
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    int code;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return HF_ENOMEM;
    hf__rpc_hear_set(callbacks);
    code = nghttp2_option_new(&options);
    if (code == 0) {
        nghttp2_option_set_no_auto_ping_ack(options, 1);
        code = nghttp2_session_client_new3(&rpc->session, callbacks, rpc, options, &memory);
        nghttp2_option_del(options);
    }
    nghttp2_session_callbacks_del(callbacks);
    if (code == 0)
        code = nghttp2_submit_settings(rpc->session, NGHTTP2_FLAG_NONE, settings,
                                       sizeof(settings) / sizeof(*settings));
    if (code == 0)
        code = nghttp2_session_set_local_window_size(rpc->session, NGHTTP2_FLAG_NONE, 0,
                                                     HF__RPC_WINDOW_BYTES);
    return code == 0 ? HF_OK : HF_ENOMEM;
}

static size_t or_usual(size_t limit, size_t usual)
{
    return limit > 0 ? limit : usual;
}

int hf__rpc_new(const struct hf__rpc_options *options, struct hf__rpc **out_rpc)
{
    struct hf__rpc *rpc = hf__env_new(options->env, sizeof(*rpc));

    assert(options->authority && out_rpc);

    if (!rpc)
        return HF_ENOMEM;
    rpc->env = options->env;
    rpc->tls = options->tls;
    rpc->message_bytes_max = or_usual(options->message_bytes_max, HF__RPC_MESSAGE_BYTES_MAX);
    rpc->calls_max = or_usual(options->calls_max, HF__RPC_CALLS_MAX);
    hf__memory_init(&rpc->theirs, rpc->env,
                    or_usual(options->memory_bytes_max, HF__RPC_MEMORY_BYTES_MAX));
    hf__memory_init(&rpc->ours, rpc->env, HF__RPC_OUT_BYTES_MAX);
    hf__buffer_init(&rpc->output, rpc->env, OUTPUT_BYTES_MAX);
    hf__heap_init(&rpc->deadlines, rpc->env);
    hf__list_init(&rpc->waiting);
    hf__list_init(&rpc->open);
    hf__list_init(&rpc->free_calls);
    hf__list_init(&rpc->told);
    hf__list_init(&rpc->up.place);
    hf__list_init(&rpc->pong.place);
    hf__list_init(&rpc->goaway.place);
    rpc->is_stirred = true; /* the greeting */
    rpc->authority = hf__env_copy_text(rpc->env, options->authority);
    if (!rpc->authority || open_session(rpc) < 0) {
        hf__rpc_free(rpc);
        return HF_ENOMEM;
    }
    *out_rpc = rpc;
    return HF_OK;
}

static void wipe_token(struct hf__rpc *rpc)
{
    if (rpc->token)
        explicit_bzero(rpc->token, strlen(rpc->token));
    hf__env_free(rpc->env, rpc->token);
    rpc->token = NULL;
}

/* What was handed out, or never fetched. */
static void free_note(struct hf__rpc *rpc, struct hf__rpc_note *note)
{
    switch (note->kind) {
    case HF__RPC_UP:
    case HF__RPC_PONG:
    case HF__RPC_GOAWAY:
        return;
    case HF__RPC_MESSAGE:
        hf__memory_free(&rpc->theirs, HF__LIST_ENTRY(note, struct hf__rpc_message, note));
        return;
    case HF__RPC_ANSWER:
    case HF__RPC_FAILED:
    case HF__RPC_ENDED:
        hf__rpc_call_free(rpc, HF__LIST_ENTRY(note, struct hf__rpc_call, note));
        return;
    }
}

static void free_handed(struct hf__rpc *rpc)
{
    if (rpc->handed)
        free_note(rpc, rpc->handed);
    rpc->handed = NULL;
}

void hf__rpc_free(struct hf__rpc *rpc)
{
    if (!rpc)
        return;
    free_handed(rpc);
    HF__LIST_FOR(place, &rpc->told)
    {
        hf__list_remove(place);
        free_note(rpc, HF__LIST_ENTRY(place, struct hf__rpc_note, place));
    }
    nghttp2_session_del(rpc->session);
    hf__rpc_call_done(rpc);
    hf__heap_done(&rpc->deadlines);
    hf__buffer_done(&rpc->output);
    hf__memory_done(&rpc->ours);
    hf__memory_done(&rpc->theirs);
    wipe_token(rpc);
    hf__env_free(rpc->env, rpc->authority);
    hf__env_free(rpc->env, rpc);
}

int hf__rpc_set_token(struct hf__rpc *rpc, const char *token)
{
    size_t count = token ? strlen(token) : 0;
    char *copy = NULL;

    if (count > HF__RPC_TOKEN_BYTES_MAX)
        return HF_EPROTOCOL;
    for (size_t i = 0; i < count; i++) {
        if (token[i] <= ' ' || token[i] > '~')
            return HF_EPROTOCOL;
    }
    if (token) {
        copy = hf__env_copy_text(rpc->env, token);
        if (!copy)
            return HF_ENOMEM;
    }
    wipe_token(rpc);
    rpc->token = copy;
    return HF_OK;
}

/* --- the end of the connection --- */

int hf__rpc_condemn(struct hf__rpc *rpc, int status, const char *format, ...)
{
    va_list arguments;

    assert(status < 0);

    if (rpc->status == HF_OK) {
        rpc->status = status;
        va_start(arguments, format);
        (void)vsnprintf(rpc->error, sizeof(rpc->error), format, arguments);
        va_end(arguments);
    }
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

int hf__rpc_condemn_by(struct hf__rpc *rpc, int code)
{
    if (rpc->theirs.is_exhausted)
        return hf__rpc_condemn(rpc, HF_EPROTOCOL, "the server had us keep more than %zu bytes",
                               rpc->theirs.bytes_max);
    if (code == NGHTTP2_ERR_NOMEM || rpc->theirs.is_starved)
        return hf__rpc_condemn(rpc, HF_ENOMEM, "out of memory");
    return hf__rpc_condemn(rpc, HF_EPROTOCOL, "the server broke the rules of HTTP/2: %s",
                           nghttp2_strerror(code));
}

/* Every call has its last event once it is over. */
static void settle(struct hf__rpc *rpc)
{
    struct hf__rpc_end end;

    if (rpc->status == HF_OK || rpc->is_settled)
        return;
    end = (struct hf__rpc_end){ HF__RPC_CODE_UNAVAILABLE, rpc->status, HF__RPC_FATE_PERHAPS, -1 };
    rpc->is_settled = true;
    HF__LIST_FOR(place, &rpc->open)
    {
        struct hf__rpc_call *call = HF__LIST_ENTRY(place, struct hf__rpc_call, place);

        end.fate = hf__rpc_call_fate(rpc, call, true);
        (void)hf__error_set(call->text, rpc->status, "%s", rpc->error);
        hf__rpc_call_end(rpc, call, &end);
    }
    hf__rpc_call_end_waiting(rpc, rpc->status, rpc->error);
}

void hf__rpc_fail(struct hf__rpc *rpc, int status, const char *text)
{
    (void)hf__rpc_condemn(rpc, status, "%s", text);
    settle(rpc);
}

int hf__rpc_error(const struct hf__rpc *rpc, char error[HF__ERROR_BYTES])
{
    return rpc->status == HF_OK ? HF_OK : hf__error_set(error, rpc->status, "%s", rpc->error);
}

void hf__rpc_leave(struct hf__rpc *rpc, const char *format, ...)
{
    va_list arguments;

    if (rpc->is_leaving)
        return;
    rpc->is_leaving = true;
    va_start(arguments, format);
    (void)vsnprintf(rpc->leaving_text, sizeof(rpc->leaving_text), format, arguments);
    va_end(arguments);
    hf__rpc_tell(rpc, &rpc->goaway, HF__RPC_GOAWAY);
    hf__rpc_call_end_waiting(rpc, HF_EUNREACHABLE, rpc->leaving_text);
}

bool hf__rpc_is_leaving(const struct hf__rpc *rpc)
{
    return rpc->is_leaving;
}

size_t hf__rpc_calls(const struct hf__rpc *rpc)
{
    return rpc->call_count;
}

/* --- bytes --- */

static bool has_to_pump(const struct hf__rpc *rpc)
{
    return rpc->is_stirred || !hf__list_empty(&rpc->waiting);
}

static void pump(struct hf__rpc *rpc)
{
    ssize_t count = 1;

    if (!has_to_pump(rpc))
        return;
    if (rpc->status == HF_OK)
        hf__rpc_call_admit(rpc);
    while (rpc->status == HF_OK && count > 0 &&
           hf__buffer_count(&rpc->output) < OUTPUT_BYTES_HIGH) {
        const uint8_t *bytes;

        count = nghttp2_session_mem_send(rpc->session, &bytes);
        if (count < 0) {
            (void)hf__rpc_condemn_by(rpc, (int)count);
        } else if (hf__buffer_append(&rpc->output, bytes, (size_t)count) < 0) {
            (void)hf__rpc_condemn(rpc, HF_ENOMEM, "out of memory");
        } else {
            rpc->written += (size_t)count;
            if (rpc->sealing)
                rpc->sealing->sealed_at = rpc->written;
            rpc->sealing = NULL;
        }
    }
    rpc->is_stirred = count > 0;
}

/* What many find at the other end who took the wrong port or scheme. */
static void check_greeting(struct hf__rpc *rpc, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count && rpc->first_count < sizeof(rpc->first); i++)
        rpc->first[rpc->first_count++] = bytes[i];
    if (rpc->first_count >= 2 && rpc->first[0] == 0x15 && rpc->first[1] == 0x03)
        (void)hf__rpc_condemn(rpc, HF_EPROTOCOL, "the server wants TLS");
    if (rpc->first_count == sizeof(rpc->first) && memcmp(rpc->first, "HTTP/", 5) == 0)
        (void)hf__rpc_condemn(rpc, HF_EPROTOCOL, "the server speaks HTTP/1, not HTTP/2");
}

int hf__rpc_feed(struct hf__rpc *rpc, const void *bytes, size_t count, uint64_t now_ns)
{
    ssize_t taken;

    assert(rpc && (bytes || count == 0));

    rpc->now_ns = now_ns > rpc->now_ns ? now_ns : rpc->now_ns;
    if (rpc->status == HF_OK && rpc->first_count < sizeof(rpc->first))
        check_greeting(rpc, bytes, count);
    if (rpc->status == HF_OK && count > 0) {
        rpc->theirs.is_exhausted = false;
        rpc->theirs.is_starved = false;
        rpc->is_stirred = true;
        taken = nghttp2_session_mem_recv(rpc->session, bytes, count);
        if (taken < 0)
            (void)hf__rpc_condemn_by(rpc, (int)taken);
    }
    pump(rpc);
    settle(rpc);
    return rpc->status;
}

size_t hf__rpc_output(struct hf__rpc *rpc, const void **out_bytes)
{
    assert(rpc && out_bytes);

    if (rpc->output.back == 0 && !has_to_pump(rpc) && rpc->status == HF_OK)
        return 0; /* as most often: everybody who passes by asks */
    pump(rpc);
    settle(rpc);
    if (rpc->status < 0)
        return 0;
    *out_bytes = hf__buffer_front(&rpc->output);
    return hf__buffer_count(&rpc->output);
}

void hf__rpc_sent(struct hf__rpc *rpc, size_t count)
{
    hf__buffer_consume(&rpc->output, count);
    rpc->taken += count;
    assert(rpc->taken <= rpc->written);
}

/* --- pings --- */

bool hf__rpc_ping(struct hf__rpc *rpc, uint64_t tag)
{
    uint8_t bytes[sizeof(tag)];

    if (rpc->status < 0 || rpc->is_pinging)
        return false;
    memcpy(bytes, &tag, sizeof(tag));
    rpc->is_stirred = true;
    if (nghttp2_submit_ping(rpc->session, NGHTTP2_FLAG_NONE, bytes) != 0) {
        (void)hf__rpc_condemn(rpc, HF_ENOMEM, "out of memory");
        return false;
    }
    rpc->is_pinging = true;
    rpc->ping_tag = tag;
    return true;
}

static int answer_ping(struct hf__rpc *rpc)
{
    int code = 0;

    rpc->is_stirred = rpc->is_stirred || rpc->is_pinged;
    if (rpc->is_pinged)
        code = nghttp2_submit_ping(rpc->session, NGHTTP2_FLAG_ACK, rpc->pinged_by);
    rpc->is_pinged = false;
    return code == 0 ? 0 : hf__rpc_condemn_by(rpc, code);
}

/* A server of gRPC pings with the first data that comes after the answer to its last ping, to
 * measure the way. Answered at once, that would be one with every call: a write for it, a read for
 * us, and an answer. Answered late, there are ten in a second at the most. */
int hf__rpc_take_ping(struct hf__rpc *rpc, const uint8_t data[8])
{
    int code = answer_ping(rpc); /* who is in a hurry has the answer to the one before */

    memcpy(rpc->pinged_by, data, sizeof(rpc->pinged_by));
    rpc->pinged_ns = rpc->now_ns;
    rpc->is_pinged = true;
    return code;
}

void hf__rpc_answer_late_ping(struct hf__rpc *rpc)
{
    if (rpc->is_pinged && rpc->status == HF_OK && rpc->now_ns >= rpc->pinged_ns + ANSWER_SOON_NS)
        (void)answer_ping(rpc);
}

uint64_t hf__rpc_answer_by_ns(const struct hf__rpc *rpc)
{
    return rpc->is_pinged && rpc->status == HF_OK ? rpc->pinged_ns + ANSWER_LATE_NS : HF__NEVER;
}

/* --- events --- */

void hf__rpc_tell(struct hf__rpc *rpc, struct hf__rpc_note *note, enum hf__rpc_kind kind)
{
    note->kind = kind;
    hf__list_append(&rpc->told, &note->place);
}

static void hand_message(struct hf__rpc_message *message, struct hf__rpc_event *out_event)
{
    out_event->tag = message->call->tag;
    out_event->call = message->call;
    out_event->message = (struct hf__rpc_bytes){ message->data, message->count };
}

static void hand_end(struct hf__rpc_call *call, struct hf__rpc_event *out_event)
{
    call->state = HF__RPC_STATE_HANDED;
    out_event->tag = call->tag;
    out_event->call = call;
    out_event->code = call->code;
    out_event->status = call->status;
    out_event->fate = call->fate;
    out_event->text = call->text;
    if (call->message)
        out_event->message = (struct hf__rpc_bytes){ call->message->data, call->message->count };
}

bool hf__rpc_has_next(const struct hf__rpc *rpc)
{
    return !hf__list_empty(&rpc->told);
}

bool hf__rpc_next(struct hf__rpc *rpc, struct hf__rpc_event *out_event)
{
    struct hf__rpc_note *note;

    assert(rpc && out_event);

    free_handed(rpc);
    settle(rpc);
    if (hf__list_empty(&rpc->told))
        return false;
    note = HF__LIST_ENTRY(rpc->told.next, struct hf__rpc_note, place);
    hf__list_remove(&note->place);
    rpc->handed = note;
    *out_event = (struct hf__rpc_event){ .kind = note->kind, .text = "" };
    switch (note->kind) {
    case HF__RPC_UP:
        break;
    case HF__RPC_PONG:
        out_event->tag = rpc->ping_tag;
        rpc->is_pinging = false;
        break;
    case HF__RPC_GOAWAY:
        out_event->text = rpc->leaving_text;
        break;
    case HF__RPC_MESSAGE:
        hand_message(HF__LIST_ENTRY(note, struct hf__rpc_message, note), out_event);
        break;
    case HF__RPC_ANSWER:
    case HF__RPC_FAILED:
    case HF__RPC_ENDED:
        hand_end(HF__LIST_ENTRY(note, struct hf__rpc_call, note), out_event);
        break;
    }
    return true;
}
