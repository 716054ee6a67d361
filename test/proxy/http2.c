/* http2.c: which frames does a stream of HTTP/2 consist of, and which of them tell of events?
 *
 * A frame is a length of three bytes, a type, flags, the number of a stream, and so many bytes.
 * Those of type DATA carry messages of gRPC: a byte, a length of four, and fields. An answer of
 * etcd to a watch has its events in field 11, which no other answer has, behind a few short ones.
 * The head of a frame is kept back until it is known what it is; then it is decided whether the
 * frame passes.
 *
 * What can go wrong: the stream is not HTTP/2; then lengths are nonsense, and all passes that does
 * not look like an event. A message that does not fit into its frame passes, too: the rest of it
 * would be nonsense. What was left out is missing from the window of the stream; a test ends before
 * that matters. */
#include "http2.h"

#include <string.h>

#define PREFACE_BYTES 24
#define FRAME_BYTES   9
#define PREFIX_BYTES  5 /* of a message */
#define TYPE_DATA     0
#define TYPE_HEADERS  1
#define FIELD_HEADER  1 /* of every answer */
#define FIELD_EVENTS  11
#define WIRE_NUMBER   0
#define WIRE_BYTES    2

static uint32_t length_of(const struct http2 *http2)
{
    return (uint32_t)http2->head[0] << 16 | (uint32_t)http2->head[1] << 8 | http2->head[2];
}

/* How much of a frame is kept back. */
static size_t wanted_bytes(const struct http2 *http2)
{
    size_t whole;

    if (http2->head_bytes < FRAME_BYTES)
        return FRAME_BYTES;
    if (http2->head[3] != TYPE_DATA)
        return FRAME_BYTES;
    whole = FRAME_BYTES + length_of(http2);
    return whole < HTTP2_HEAD_BYTES ? whole : HTTP2_HEAD_BYTES;
}

/* Takes one byte. True: the head is whole, and the frame was not seen before. */
static bool step(struct http2 *http2, uint8_t byte)
{
    if (http2->left > 0) {
        http2->left--;
        return false;
    }
    http2->head[http2->head_bytes++] = byte;
    if (http2->head_bytes < wanted_bytes(http2))
        return false;
    http2->left = length_of(http2) - (uint32_t)(http2->head_bytes - FRAME_BYTES);
    return true;
}

void http2_count(struct http2 *http2, const uint8_t *bytes, size_t count,
                 struct http2_counts *counts)
{
    for (size_t i = 0; i < count; i++) {
        if (http2->preface_bytes < PREFACE_BYTES) {
            http2->preface_bytes++;
            continue;
        }
        if (!step(http2, bytes[i]))
            continue;
        counts->calls += http2->head[3] == TYPE_HEADERS;
        counts->messages += http2->head[3] == TYPE_DATA && length_of(http2) > 0;
        http2->head_bytes = 0;
    }
}

/* Reads a number at *at, and goes behind it. False: it ends elsewhere. */
static bool read_number(const struct http2 *http2, size_t *at, uint64_t *out_number)
{
    uint64_t number = 0;

    for (unsigned shift = 0; *at < http2->head_bytes && shift < 64; shift += 7) {
        uint8_t byte = http2->head[(*at)++];

        number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out_number = number;
            return true;
        }
    }
    return false;
}

static bool is_event(const struct http2 *http2)
{
    size_t at = FRAME_BYTES + PREFIX_BYTES;
    const uint8_t *size = http2->head + FRAME_BYTES + 1;
    uint64_t tag;
    uint64_t number;

    if (http2->head[3] != TYPE_DATA || http2->head_bytes <= at ||
        ((uint32_t)size[0] << 24 | (uint32_t)size[1] << 16 | (uint32_t)size[2] << 8 | size[3]) +
                PREFIX_BYTES !=
            length_of(http2))
        return false;
    while (read_number(http2, &at, &tag)) {
        if (tag == (FIELD_EVENTS << 3 | WIRE_BYTES))
            return true;
        if (!read_number(http2, &at, &number))
            return false;
        if (tag == (FIELD_HEADER << 3 | WIRE_BYTES) && number < HTTP2_HEAD_BYTES)
            at += (size_t)number;
        else if ((tag & 7) != WIRE_NUMBER)
            return false;
    }
    return false;
}

size_t http2_filter(struct http2 *http2, const uint8_t *bytes, size_t count, bool deaf,
                    uint8_t *out, struct http2_counts *counts)
{
    size_t written = 0;

    for (size_t i = 0; i < count; i++) {
        bool inside = http2->left > 0;

        if (step(http2, bytes[i])) {
            bool event = is_event(http2);

            counts->events += event;
            http2->dropping = event && deaf;
            counts->dropped += http2->dropping;
            if (!http2->dropping)
                memcpy(out + written, http2->head, http2->head_bytes);
            written += http2->dropping ? 0 : http2->head_bytes;
            http2->head_bytes = 0;
        } else if (inside && !http2->dropping) {
            out[written++] = bytes[i];
        }
    }
    return written;
}
