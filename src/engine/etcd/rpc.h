/* rpc.h: gRPC over HTTP/2, as a client: calls go in, bytes come out; bytes go in, events come out.
 *
 *     hf__rpc_new(&options, &rpc);
 *     hf__rpc_start(rpc, &request, NULL);                      any number of calls
 *     count = hf__rpc_output(rpc, &bytes);                     all that is to be written, in one go
 *     hf__rpc_sent(rpc, hf__stream_write(stream, bytes, count));
 *     ...
 *     hf__rpc_feed(rpc, bytes, hf__stream_read(stream, bytes, sizeof(bytes)), now_ns);
 *     hf__rpc_tick(rpc, now_ns);                               by hf__rpc_deadline_ns()
 *     while (hf__rpc_next(rpc, &event)) ...
 *
 * Nothing blocks, nothing is called back, and the only time is the one that is handed in. One
 * connection, one rpc: when it is over (the stream went down: hf__rpc_fail; the server broke the
 * rules: HF_EPROTOCOL from feed), every call has had its last event, and only next, error and free
 * are left to do.
 *
 * Whoever asks for a PING should know that etcd takes one in 5 s, and only while a call or stream
 * is open; who sends more is sent away ("too_many_pings"). */
#ifndef HF_ENGINE_ETCD_RPC_H
#define HF_ENGINE_ETCD_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"

/* Of one message, either way. The longest that an honest server sends unasked is an event: what was
 * written to a key, and what was there before, of 1.5 MiB each with its defaults. */
#define HF__RPC_MESSAGE_BYTES_MAX (3136u << 10)
#define HF__RPC_MEMORY_BYTES_MAX  (3840u << 10) /* what a server can have us keep */
#define HF__RPC_OUT_BYTES_MAX     (64u << 20)   /* messages that wait to be sent */
#define HF__RPC_CALLS_MAX         65536u        /* under way, or waiting for their turn */
#define HF__RPC_STREAMS_MAX       64u           /* under way, if the server allows so many */
#define HF__RPC_HEADERS_BYTES_MAX (32u << 10)   /* of one answer: names, values, and 32 for each */
#define HF__RPC_TOKEN_BYTES_MAX   8192u
#define HF__RPC_WINDOW_BYTES      (16 << 20)

struct hf__rpc;      /* made by new, freed by free */
struct hf__rpc_call; /* good until next() has handed out its ANSWER, FAILED or ENDED, and is called
                      * again; or until it is cancelled */

struct hf__rpc_options {
    const struct hf__env *env;
    const char *authority;    /* "10.0.0.1:2379" */
    bool tls;                 /* what the scheme says: https */
    size_t message_bytes_max; /* 0: HF__RPC_MESSAGE_BYTES_MAX */
    size_t memory_bytes_max;  /* 0: HF__RPC_MEMORY_BYTES_MAX; beyond it the server is at fault */
    size_t calls_max;         /* 0: HF__RPC_CALLS_MAX */
};

struct hf__rpc_bytes {
    const uint8_t *at; /* may be NULL if count is 0 */
    size_t count;
};

struct hf__rpc_request {
    const char *path;             /* "/etcdserverpb.KV/Txn"; static text */
    struct hf__rpc_bytes message; /* copied */
    uint64_t now_ns;
    uint64_t deadline_ns; /* HF__NEVER: none. The server is told (grpc-timeout) */
    uint64_t tag;         /* comes back in the events */
};

/* Codes of gRPC that matter here; any other may come. */
enum hf__rpc_code {
    HF__RPC_CODE_OK = 0,
    HF__RPC_CODE_CANCELLED = 1,
    HF__RPC_CODE_UNKNOWN = 2,
    HF__RPC_CODE_INVALID_ARGUMENT = 3, /* etcd: the user or the password is wrong */
    HF__RPC_CODE_DEADLINE_EXCEEDED = 4,
    HF__RPC_CODE_NOT_FOUND = 5, /* etcd: no such lease */
    HF__RPC_CODE_PERMISSION_DENIED = 7,
    HF__RPC_CODE_RESOURCE_EXHAUSTED = 8,
    HF__RPC_CODE_FAILED_PRECONDITION = 9, /* etcd: there is such a lease already */
    HF__RPC_CODE_OUT_OF_RANGE = 11,       /* etcd: the revision was compacted */
    HF__RPC_CODE_UNIMPLEMENTED = 12,
    HF__RPC_CODE_INTERNAL = 13,
    HF__RPC_CODE_UNAVAILABLE = 14,
    HF__RPC_CODE_UNAUTHENTICATED = 16, /* etcd: the token has expired */
};

/* What became of a request that has no answer. */
enum hf__rpc_fate {
    HF__RPC_FATE_NEVER,    /* certainly not processed: it did not leave, or was refused unread */
    HF__RPC_FATE_PERHAPS,  /* nobody knows */
    HF__RPC_FATE_ANSWERED, /* the server says that it failed: what that means, the code tells */
};

enum hf__rpc_kind {
    HF__RPC_UP,      /* the server greets: it does speak HTTP/2 */
    HF__RPC_ANSWER,  /* of a call: message */
    HF__RPC_FAILED,  /* of a call: code, text, status, fate */
    HF__RPC_MESSAGE, /* of a stream: message */
    HF__RPC_ENDED,   /* of a stream: as FAILED; the code may be OK */
    HF__RPC_PONG,    /* tag: that of the ping */
    HF__RPC_GOAWAY,  /* the server takes no new calls here: text. Comes once; those under way go on,
                      * those that were not heard FAILED (never) */
};

struct hf__rpc_event {
    enum hf__rpc_kind kind;
    uint64_t tag;
    struct hf__rpc_call *call;    /* of MESSAGE and ENDED */
    struct hf__rpc_bytes message; /* good until the next call of next() */
    int code;                     /* enum hf__rpc_code, or what the server sent */
    int status;                   /* HF_OK: the server's own answer; HF_EPROTOCOL: what it never
                                   * should; HF_EUNREACHABLE: refused, late, connection lost */
    enum hf__rpc_fate fate;
    const char *text; /* never NULL; fit for a terminal; as long as message */
};

/* HF_OK, HF_ENOMEM. */
int hf__rpc_new(const struct hf__rpc_options *options, struct hf__rpc **out_rpc);
/* Accepts NULL. What was not fetched is lost. */
void hf__rpc_free(struct hf__rpc *rpc);

/* Sent with every call from the next on; NULL: none. HF_EPROTOCOL: too long, or no header could
 * carry it (it came from a server); HF_ENOMEM. */
int hf__rpc_set_token(struct hf__rpc *rpc, const char *token);

/* --- bytes --- */

/* HF_OK, or the connection is over: HF_EPROTOCOL, HF_ENOMEM; hf__rpc_error has the text. */
int hf__rpc_feed(struct hf__rpc *rpc, const void *bytes, size_t count, uint64_t now_ns);
/* How many bytes wait to be written at *out_bytes, which is good until the next call of anything.
 * After sent() there may be more. 0 when the connection is over, and then too: look at error(). */
size_t hf__rpc_output(struct hf__rpc *rpc, const void **out_bytes);
/* So many of them were given to the stream: what it holds may reach the server. */
void hf__rpc_sent(struct hf__rpc *rpc, size_t count);
/* The stream went down, or shall: ends every call. The first reason stays. */
void hf__rpc_fail(struct hf__rpc *rpc, int status, const char *text);
/* HF_OK while it goes on; otherwise why it is over. */
int hf__rpc_error(const struct hf__rpc *rpc, char error[HF__ERROR_BYTES]);

/* --- calls --- */

/* One message there, one back: ANSWER or FAILED will follow. Waits, in order, while the server
 * allows no more streams. HF_OK; and what was certainly not sent: HF_EUNREACHABLE (it is over, or
 * the server said GOAWAY), HF_ELIMIT (calls_max, HF__RPC_OUT_BYTES_MAX, or a message that is too
 * long), HF_ENOMEM. out_call may be NULL. */
int hf__rpc_start(struct hf__rpc *rpc, const struct hf__rpc_request *request,
                  struct hf__rpc_call **out_call);
/* Any number of messages both ways: MESSAGEs and at last ENDED will follow. The request's message
 * is not sent; its deadline is that of the whole stream. As start. */
int hf__rpc_open(struct hf__rpc *rpc, const struct hf__rpc_request *request,
                 struct hf__rpc_call **out_call);
/* On a stream. HF_EUNREACHABLE: it has ended, and next() will say so. HF_ELIMIT, HF_ENOMEM. */
int hf__rpc_send(struct hf__rpc *rpc, struct hf__rpc_call *call, struct hf__rpc_bytes message);
/* On a stream: no more will be sent; the server may then end it. */
void hf__rpc_finish(struct hf__rpc *rpc, struct hf__rpc_call *call);
/* Ends it, and no event of it will follow. Tells what is known. */
enum hf__rpc_fate hf__rpc_cancel(struct hf__rpc *rpc, struct hf__rpc_call *call);

/* A PONG will follow. false: one is under way already, or it is over. */
bool hf__rpc_ping(struct hf__rpc *rpc, uint64_t tag);

/* Calls and streams that have not had their last event. */
size_t hf__rpc_calls(const struct hf__rpc *rpc);
/* After GOAWAY, or when the numbers of streams are used up: open another connection. */
bool hf__rpc_is_leaving(const struct hf__rpc *rpc);

/* --- time --- */

/* Calls whose deadline has come are reset and FAILED. The server's pings are answered. */
void hf__rpc_tick(struct hf__rpc *rpc, uint64_t now_ns);
uint64_t hf__rpc_deadline_ns(const struct hf__rpc *rpc); /* HF__NEVER: none */

/* --- events --- */

/* false: none. In the order in which they happened. */
bool hf__rpc_next(struct hf__rpc *rpc, struct hf__rpc_event *out_event);
bool hf__rpc_has_next(const struct hf__rpc *rpc);

#endif
