/* http2.h: as much of gRPC over HTTP/2 as it takes to count calls, and to leave events of etcd out.
 */
#ifndef PROXY_HTTP2_H
#define PROXY_HTTP2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP2_HEAD_BYTES 160 /* of a frame, where it is decided what it is */

/* Where a stream of frames stands; zeroed at its beginning. */
struct http2 {
    size_t preface_bytes; /* that were skipped: only clients send one */
    size_t head_bytes;
    uint8_t head[HTTP2_HEAD_BYTES];
    uint32_t left; /* of the frame */
    bool dropping;
};

struct http2_counts {
    uint64_t calls;    /* to the server: each begins with headers */
    uint64_t messages; /* to the server: one for each call, and whatever a stream is told later */
    uint64_t events;   /* to the client: what it watches has changed */
    uint64_t dropped;
};

/* Counts what the client sends. */
void http2_count(struct http2 *http2, const uint8_t *bytes, size_t count,
                 struct http2_counts *counts);
/* Copies what the client is to see; the room is `count` + HTTP2_HEAD_BYTES. With `deaf`, events are
 * left out, and counted so. */
size_t http2_filter(struct http2 *http2, const uint8_t *bytes, size_t count, bool deaf,
                    uint8_t *out, struct http2_counts *counts);

#endif
