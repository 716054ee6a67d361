/* jute.c: which packets does a stream of ZooKeeper's consist of, and which did nobody ask for?
 *
 * A packet is a length and so many bytes. Its first four are a number: the answer's is that of its
 * request, an event's is -1, a ping's -2; the first packet of either side has none. The next four
 * of a request say what it asks for. This head is kept back until it is whole; then it is decided
 * whether the packet passes.
 *
 * What can go wrong: the stream is not ZooKeeper's; then lengths are nonsense, and all passes that
 * does not look like an event. A packet of less than eight bytes passes, too. */
#include "jute.h"

#include <string.h>

#define XID_EVENT    0xFFFFFFFFu
#define XID_PING     0xFFFFFFFEu
#define OPCODE_SYNC  9
#define NUMBER_BYTES 4
#define INSIDE_BYTES (JUTE_HEAD_BYTES - NUMBER_BYTES) /* of the head, behind the length */

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Takes one byte. True: the head is whole, and the packet was not seen before. */
static bool step(struct jute *jute, uint8_t byte)
{
    uint32_t length;

    if (jute->left > 0) {
        jute->left--;
        return false;
    }
    jute->head[jute->head_bytes++] = byte;
    if (jute->head_bytes < NUMBER_BYTES)
        return false;
    length = number_at(jute->head);
    if (length >= INSIDE_BYTES && jute->head_bytes < JUTE_HEAD_BYTES)
        return false;
    jute->left = length >= INSIDE_BYTES ? length - INSIDE_BYTES : length;
    return true;
}

/* 0: the packet has no number. */
static uint32_t xid_of(struct jute *jute)
{
    bool greeting = !jute->greeted;

    jute->greeted = true;
    return greeting || jute->head_bytes < JUTE_HEAD_BYTES ? 0
                                                          : number_at(jute->head + NUMBER_BYTES);
}

void jute_count(struct jute *jute, const uint8_t *bytes, size_t count, struct jute_counts *counts)
{
    for (size_t i = 0; i < count; i++) {
        bool greeting = !jute->greeted;
        uint32_t xid;

        if (!step(jute, bytes[i]))
            continue;
        xid = xid_of(jute);
        if (xid == XID_PING)
            counts->pings++;
        else if (xid != 0 && number_at(jute->head + 2 * NUMBER_BYTES) == OPCODE_SYNC)
            counts->syncs++;
        else if (!greeting)
            counts->packets++;
        jute->head_bytes = 0;
    }
}

size_t jute_filter(struct jute *jute, const uint8_t *bytes, size_t count, bool deaf, uint8_t *out,
                   struct jute_counts *counts)
{
    size_t written = 0;

    for (size_t i = 0; i < count; i++) {
        bool inside = jute->left > 0;

        if (step(jute, bytes[i])) {
            bool event = xid_of(jute) == XID_EVENT;

            counts->events += event;
            jute->dropping = event && deaf;
            counts->dropped += jute->dropping;
            if (!jute->dropping)
                memcpy(out + written, jute->head, jute->head_bytes);
            written += jute->dropping ? 0 : jute->head_bytes;
            jute->head_bytes = 0;
        } else if (inside && !jute->dropping) {
            out[written++] = bytes[i];
        }
    }
    return written;
}
