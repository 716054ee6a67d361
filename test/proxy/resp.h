/* resp.h: as much of the Redis protocol as it takes to leave messages out. */
#ifndef PROXY_RESP_H
#define PROXY_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESP_FRAME_BYTES 4096 /* a longer push frame passes */

enum resp_place { RESP_TYPE, RESP_LINE, RESP_BODY, RESP_LOST };

/* Where a stream of values stands; zeroed at its beginning. */
struct resp {
    enum resp_place place;
    uint64_t lacking; /* values until the frame is whole */
    uint64_t body_left;
    char type;
    char line[24];
    size_t line_bytes;
    bool in_push;
    bool in_frame;
    size_t held; /* of a push frame that is not whole yet */
    uint8_t frame[RESP_FRAME_BYTES];
};

/* Copies what the client is to see; the room is `count` + RESP_FRAME_BYTES. With `deaf`, push
 * frames that carry a message are left out, and counted. What is no RESP passes untouched. */
size_t resp_filter(struct resp *resp, const uint8_t *bytes, size_t count, bool deaf, uint8_t *out,
                   uint64_t *dropped);

#endif
