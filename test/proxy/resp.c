/* resp.c: which bytes of a stream belong to a message that nobody asked for?
 *
 * The values are counted, as they come, a byte at a time: a container of n adds n to what the frame
 * lacks, every value takes one off. A frame that begins with '>' is kept back until it is whole;
 * then it passes, unless its first element is `message`.
 *
 * What can go wrong: the stream is not RESP. From the first byte that shows it, all passes. */
#include "resp.h"

#include <stdlib.h>
#include <string.h>

static bool is_container(char type)
{
    return type == '*' || type == '%' || type == '~' || type == '>' || type == '|';
}

static bool has_body(char type)
{
    return type == '$' || type == '=' || type == '!';
}

static void end_value(struct resp *resp)
{
    resp->lacking--;
    resp->place = RESP_TYPE;
    resp->in_frame = resp->lacking > 0;
}

static void end_line(struct resp *resp)
{
    long long number;

    resp->line[resp->line_bytes] = '\0';
    number = strtoll(resp->line, NULL, 10);
    if (has_body(resp->type) && number >= 0) {
        resp->body_left = (uint64_t)number + 2;
        resp->place = RESP_BODY;
        return;
    }
    if (is_container(resp->type) && number > 0)
        resp->lacking += (uint64_t)number * (resp->type == '%' || resp->type == '|' ? 2 : 1);
    if (resp->type == '|') /* stands before the value that it is about */
        resp->lacking++;
    end_value(resp);
}

static void begin_value(struct resp *resp, char type)
{
    if (!strchr("+-:$*%~>|_,#(=!", type) || type == '\0') {
        resp->place = RESP_LOST;
        return;
    }
    if (!resp->in_frame) {
        resp->in_push = type == '>';
        resp->lacking = 1;
        resp->in_frame = true;
    }
    resp->type = type;
    resp->line_bytes = 0;
    resp->place = RESP_LINE;
}

/* After it, in_frame says whether the frame goes on. */
static void step(struct resp *resp, uint8_t byte)
{
    switch (resp->place) {
    case RESP_TYPE:
        begin_value(resp, (char)byte);
        break;
    case RESP_LINE:
        if (byte == '\n')
            end_line(resp);
        else if (resp->line_bytes < sizeof(resp->line) - 1)
            resp->line[resp->line_bytes++] = (char)byte;
        break;
    case RESP_BODY:
        if (--resp->body_left == 0)
            end_value(resp);
        break;
    case RESP_LOST:
        break;
    }
}

static bool is_message(const struct resp *resp)
{
    static const char kind[] = "$7\r\nmessage\r\n";
    const uint8_t *line_end = memchr(resp->frame, '\n', resp->held);
    size_t left = line_end ? resp->held - (size_t)(line_end + 1 - resp->frame) : 0;

    return left >= sizeof(kind) - 1 && memcmp(line_end + 1, kind, sizeof(kind) - 1) == 0;
}

static size_t let_go(struct resp *resp, uint8_t *out)
{
    size_t count = resp->held;

    memcpy(out, resp->frame, count);
    resp->held = 0;
    return count;
}

size_t resp_filter(struct resp *resp, const uint8_t *bytes, size_t count, bool deaf, uint8_t *out,
                   uint64_t *dropped)
{
    size_t written = 0;

    for (size_t i = 0; i < count; i++) {
        step(resp, bytes[i]);
        if (!resp->in_push || resp->place == RESP_LOST) {
            written += let_go(resp, out + written);
            out[written++] = bytes[i];
            continue;
        }
        resp->frame[resp->held++] = bytes[i];
        if (!resp->in_frame && deaf && is_message(resp)) {
            resp->held = 0;
            (*dropped)++;
        }
        if (!resp->in_frame || resp->held == RESP_FRAME_BYTES)
            written += let_go(resp, out + written);
        if (!resp->in_frame)
            resp->in_push = false;
    }
    return written;
}
