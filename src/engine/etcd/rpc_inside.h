/* rpc_inside.h: what the files of rpc share; nobody else includes it, but their tests.
 *
 *     rpc.c         the connection: bytes in and out, its beginning and its end, events
 *     rpc_call.c    calls: how they begin, wait, are sent, and end
 *     rpc_hear.c    what the frames of a server mean to them
 *     rpc_text.c    the words of gRPC: codes, times, percent signs */
#ifndef HF_ENGINE_ETCD_RPC_INSIDE_H
#define HF_ENGINE_ETCD_RPC_INSIDE_H

#include <nghttp2/nghttp2.h>

#include "base/buffer.h"
#include "base/heap.h"
#include "base/list.h"
#include "engine/etcd/memory.h"
#include "engine/etcd/rpc.h"

#define HF__RPC_PREFIX_BYTES  5  /* before a message: compressed or not, and its length */
#define HF__RPC_TIMEOUT_BYTES 12 /* eight digits, a unit */

/* Something that happened; in rpc->told until it is fetched. */
struct hf__rpc_note {
    struct hf__list place;
    enum hf__rpc_kind kind;
};

/* A message from the server, whole or not yet. */
struct hf__rpc_message {
    struct hf__rpc_note note; /* of a stream: MESSAGE */
    struct hf__rpc_call *call;
    size_t count; /* bytes, as announced */
    size_t got;
    size_t room; /* of data: grows as bytes come, not as they are announced */
    uint8_t data[];
};

/* A message to the server, with its prefix. */
struct hf__rpc_outgoing {
    struct hf__list place;
    size_t count;
    size_t gone; /* handed to nghttp2 */
    uint8_t data[];
};

enum hf__rpc_state {
    HF__RPC_STATE_FREE,
    HF__RPC_STATE_WAITING, /* for its turn */
    HF__RPC_STATE_OPEN,    /* it has a number; nghttp2 knows it */
    HF__RPC_STATE_TOLD,    /* its last event is in rpc->told */
    HF__RPC_STATE_HANDED,  /* ... has been fetched */
};

struct hf__rpc_call {
    struct hf__list place; /* in waiting, open or free */
    struct hf__rpc_note note;
    struct hf__heap_node deadline;
    enum hf__rpc_state state;
    bool is_stream;
    uint64_t tag;
    const char *path;
    int32_t stream_id;

    /* out */
    struct hf__list outgoing;
    bool is_finished;   /* nothing will be added to outgoing */
    bool is_deferred;   /* nghttp2 waits to be told that there is more */
    bool is_sealed;     /* all of it was handed to nghttp2 ... */
    uint64_t sealed_at; /* ... and this was then the length of all output; UINT64_MAX: not yet in */

    /* in */
    int http_status; /* 0: none yet */
    bool has_response;
    bool has_type;
    bool has_bad_type; /* of content: the text tells */
    bool was_reset;    /* by the server, not by nghttp2 */
    int broken_by;     /* nghttp2's reason to refuse a frame; 0: none */
    int grpc_status;   /* -1: none yet */
    uint8_t prefix[HF__RPC_PREFIX_BYTES];
    size_t prefix_count;
    struct hf__rpc_message *message;
    bool has_answer; /* message is whole, and it is a call's */

    /* the last event */
    int code;
    int status;
    enum hf__rpc_fate fate;
    char text[HF__ERROR_BYTES];
};

struct hf__rpc {
    const struct hf__env *env;
    struct hf__memory theirs; /* nghttp2's, and messages that come */
    struct hf__memory ours;   /* calls, and messages that go */
    nghttp2_session *session;
    bool is_stirred; /* it may have something to write since it was last asked */
    char *authority;
    char *token; /* NULL: none */
    bool tls;
    size_t message_bytes_max;
    size_t calls_max;
    uint64_t now_ns;

    struct hf__buffer output;
    uint64_t written; /* all that was ever put there */
    uint64_t taken;   /* ... and went to the stream */
    struct hf__rpc_call *sealing;

    struct hf__list waiting;
    struct hf__list open;
    struct hf__list free_calls;
    struct hf__list told;
    struct hf__heap deadlines;
    size_t call_count;   /* WAITING and OPEN */
    size_t stream_count; /* that nghttp2 has not closed */
    struct hf__rpc_note *handed;

    size_t header_bytes; /* of the block that is being read */
    size_t first_count;
    uint8_t first[5]; /* bytes of the server: what does it speak? */
    struct hf__rpc_note up;
    struct hf__rpc_note pong;
    struct hf__rpc_note goaway;
    bool is_up;
    bool is_pinging;
    uint64_t ping_tag;
    bool is_pinged; /* by the server, and it was not answered yet */
    uint8_t pinged_by[8];
    uint64_t pinged_ns;
    bool is_leaving;
    char leaving_text[HF__ERROR_BYTES];

    int status; /* < 0: it is over */
    bool is_settled;
    char error[HF__ERROR_BYTES];
};

/* --- rpc.c --- */

/* The connection is over; settled by whoever called nghttp2. The first reason stays. */
int hf__rpc_condemn(struct hf__rpc *rpc, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, by an error of nghttp2's. */
int hf__rpc_condemn_by(struct hf__rpc *rpc, int code);
void hf__rpc_tell(struct hf__rpc *rpc, struct hf__rpc_note *note, enum hf__rpc_kind kind);
/* The server's ping will be answered: by tick(), or when the next one comes. */
int hf__rpc_take_ping(struct hf__rpc *rpc, const uint8_t data[8]);
void hf__rpc_answer_late_ping(struct hf__rpc *rpc);
/* HF__NEVER: there is none to be answered. */
uint64_t hf__rpc_answer_by_ns(const struct hf__rpc *rpc);
/* No new calls; those that wait fail. */
void hf__rpc_leave(struct hf__rpc *rpc, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- rpc_call.c --- */

struct hf__rpc_end {
    int code;
    int status;
    enum hf__rpc_fate fate;
    int32_t reset; /* the code of the RST_STREAM to send; -1: none */
};

/* The last event of a call; its text must have been written. */
void hf__rpc_call_end(struct hf__rpc *rpc, struct hf__rpc_call *call,
                      const struct hf__rpc_end *end);
/* The server broke the rules for this call. */
void hf__rpc_call_refuse(struct hf__rpc *rpc, struct hf__rpc_call *call, int code,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* What is known if it ends now; is_over: what is still in the output will not be sent. */
enum hf__rpc_fate hf__rpc_call_fate(const struct hf__rpc *rpc, const struct hf__rpc_call *call,
                                    bool is_over);
void hf__rpc_call_free(struct hf__rpc *rpc, struct hf__rpc_call *call);
void hf__rpc_call_end_waiting(struct hf__rpc *rpc, int status, const char *text);
/* Hands as many of those who wait to nghttp2 as the server allows. */
void hf__rpc_call_admit(struct hf__rpc *rpc);
void hf__rpc_call_done(struct hf__rpc *rpc);
ssize_t hf__rpc_call_read(nghttp2_session *session, int32_t stream_id, uint8_t *buffer, size_t room,
                          uint32_t *flags, nghttp2_data_source *source, void *context);

/* --- rpc_hear.c --- */

void hf__rpc_hear_set(nghttp2_session_callbacks *callbacks);

/* --- rpc_text.c --- */

/* Eight digits at most. From a second on whole ones, rounded up, so that most calls have the same;
 * below that, and from three years on, rounded down, but never to 0. */
void hf__rpc_text_timeout(uint64_t left_ns, char out_text[HF__RPC_TIMEOUT_BYTES]);
/* Percent-decoded, and made fit for a terminal; what does not fit is cut. */
void hf__rpc_text_message(const uint8_t *bytes, size_t count, char out_text[HF__ERROR_BYTES]);
int hf__rpc_text_code_of_http(int http_status);
int hf__rpc_text_code_of_reset(uint32_t error_code);
bool hf__rpc_text_is_grpc(const uint8_t *type, size_t count);

#endif
