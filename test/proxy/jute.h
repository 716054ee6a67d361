/* jute.h: as much of the ZooKeeper protocol as it takes to count packets, and to leave events out.
 */
#ifndef PROXY_JUTE_H
#define PROXY_JUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JUTE_HEAD_BYTES 12 /* the length, the number (xid), and what a request asks for */

/* Where a stream of packets stands; zeroed at its beginning. */
struct jute {
    bool greeted; /* the first packet has no number, whatever it begins with */
    size_t head_bytes;
    uint8_t head[JUTE_HEAD_BYTES];
    uint32_t left; /* of the packet */
    bool dropping;
};

struct jute_counts {
    uint64_t events;  /* to the client: what it watches has changed */
    uint64_t pings;   /* to the server */
    uint64_t syncs;   /* to the server */
    uint64_t packets; /* to the server: all but pings, syncs and greetings */
    uint64_t dropped;
};

/* Counts what the client sends. */
void jute_count(struct jute *jute, const uint8_t *bytes, size_t count, struct jute_counts *counts);
/* Copies what the client is to see; the room is `count` + JUTE_HEAD_BYTES. With `deaf`, events are
 * left out, and counted so. */
size_t jute_filter(struct jute *jute, const uint8_t *bytes, size_t count, bool deaf, uint8_t *out,
                   struct jute_counts *counts);

#endif
