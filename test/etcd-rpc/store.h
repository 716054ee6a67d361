/* store.h: a real etcd of one member, in a directory of its own, and a line to it. */
#ifndef TEST_ETCD_RPC_STORE_H
#define TEST_ETCD_RPC_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../stream/client.h"
#include "engine/etcd/message.h"
#include "engine/etcd/rpc.h"

#define STORE_TEXT_BYTES 4096

enum store_tls {
    STORE_PLAIN,
    STORE_TLS,
    STORE_TLS_CLIENT, /* and it wants a certificate */
};

struct store {
    char directory[256];
    uint16_t port;
    uint16_t peer_port;
    enum store_tls tls;
    pid_t process;
    const char *user; /* "name:password" for etcdctl; NULL: none */
    char text[STORE_TEXT_BYTES];
};

/* Started; whoever connects may have to wait. */
void store_start(struct store *store, enum store_tls tls);
/* Fails the test if it has ended by itself: whoever waits for it would wait for ever. */
void store_check(struct store *store);
/* Kills it, and removes the directory. */
void store_stop(struct store *store);
/* What `etcdctl` printed, which lives until the next call; CHECKs that it worked. */
const char *store_ask(struct store *store, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct line {
    struct client client;
    struct hf__rpc *rpc;
    struct hf__memory memory; /* of what is unpacked */
    ProtobufCMessage *held;
    char error[HF__ERROR_BYTES]; /* of the last call that failed */
    int code;
    enum hf__rpc_fate fate;
};

/* Tries until the server greets. */
void line_open(struct line *line, struct store *store);
void line_close(struct line *line);
/* Waits for the next event, which is not UP. */
struct hf__rpc_event line_next(struct line *line);
/* A call, and its answer, which lives until the next; NULL: it failed. */
void *line_call(struct line *line, const char *path, const ProtobufCMessage *message,
                const ProtobufCMessageDescriptor *type);
void line_start(struct line *line, const char *path, const ProtobufCMessage *message,
                uint64_t deadline_ns);
struct hf__rpc_call *line_stream(struct line *line, const char *path);
void line_send(struct line *line, struct hf__rpc_call *call, const ProtobufCMessage *message);
/* The next event must be a message of this type; lives until the next. */
void *line_hear(struct line *line, const ProtobufCMessageDescriptor *type);

#endif
