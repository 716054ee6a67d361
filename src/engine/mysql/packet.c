/* packet.c: what do the bytes of the protocol say, and how are ours written?
 *
 * A packet has a head of four bytes (its length, and its number within one exchange); numbers have
 * their lowest byte first; strings have their length before them, in as few bytes as it takes.
 *
 * What can go wrong: a packet that ends too early: whoever reads gets nothing, and `failed` is set
 * for the one look at the end.
 *
 * Pure, but for the buffer's memory. */
#include <assert.h>
#include <string.h>

#include "engine/mysql/mysql.h"

#define HEAD_BYTES 4
#define SQL_NULL   0xfbu

const uint8_t *hf__packet_bytes(struct hf__reading *scan, size_t bytes)
{
    const uint8_t *at = scan->at;

    if (scan->failed || bytes > (size_t)(scan->end - scan->at)) {
        scan->failed = true;
        return NULL;
    }
    scan->at += bytes;
    return at;
}

uint64_t hf__packet_number(struct hf__reading *scan, size_t bytes)
{
    const uint8_t *at = hf__packet_bytes(scan, bytes);
    uint64_t number = 0;

    assert(bytes <= sizeof(number));
    for (size_t i = 0; at && i < bytes; i++)
        number |= (uint64_t)at[i] << 8 * i;
    return number;
}

uint64_t hf__packet_count(struct hf__reading *scan)
{
    uint64_t first = hf__packet_number(scan, 1);

    if (first < SQL_NULL)
        return first;
    if (first == 0xfc)
        return hf__packet_number(scan, 2);
    if (first == 0xfd)
        return hf__packet_number(scan, 3);
    if (first == 0xfe)
        return hf__packet_number(scan, 8);
    scan->failed = true;
    return 0;
}

const char *hf__packet_text(struct hf__reading *scan, size_t *out_bytes)
{
    const uint8_t *at = scan->at;
    size_t left = (size_t)(scan->end - scan->at);
    const uint8_t *nul = scan->failed || left == 0 ? NULL : memchr(at, 0, left);
    size_t bytes = nul ? (size_t)(nul - at) : left;

    *out_bytes = scan->failed ? 0 : bytes;
    (void)hf__packet_bytes(scan, nul ? bytes + 1 : bytes);
    return (const char *)at;
}

const uint8_t *hf__packet_string(struct hf__reading *scan, size_t *out_bytes)
{
    const uint8_t *at;
    uint64_t bytes;

    *out_bytes = 0;
    if (!scan->failed && scan->at < scan->end && *scan->at == SQL_NULL) {
        scan->at++;
        return NULL;
    }
    bytes = hf__packet_count(scan);
    if (bytes > HF__MYSQL_PACKET_MAX)
        scan->failed = true;
    at = hf__packet_bytes(scan, (size_t)bytes);
    *out_bytes = at ? (size_t)bytes : 0;
    return at;
}

/* --- writing --- */

void hf__packet_begin(struct hf__letter *letter, struct hf__buffer *to, uint8_t sequence)
{
    static const uint8_t head[HEAD_BYTES] = { 0 };

    *letter = (struct hf__letter){ .to = to, .began = hf__buffer_count(to), .sequence = sequence };
    letter->status = hf__buffer_append(to, head, sizeof(head));
}

void hf__packet_put(struct hf__letter *letter, const void *bytes, size_t count)
{
    if (letter->status == HF_OK && count > 0)
        letter->status = hf__buffer_append(letter->to, bytes, count);
}

void hf__packet_put_number(struct hf__letter *letter, uint64_t number, size_t bytes)
{
    uint8_t turned[sizeof(number)];

    assert(bytes <= sizeof(turned));
    for (size_t i = 0; i < bytes; i++)
        turned[i] = (uint8_t)(number >> 8 * i);
    hf__packet_put(letter, turned, bytes);
}

void hf__packet_put_string(struct hf__letter *letter, const void *bytes, size_t count)
{
    if (count < SQL_NULL) {
        hf__packet_put_number(letter, count, 1);
    } else if (count <= UINT16_MAX) {
        hf__packet_put_number(letter, 0xfc, 1);
        hf__packet_put_number(letter, count, 2);
    } else {
        hf__packet_put_number(letter, 0xfd, 1);
        hf__packet_put_number(letter, count, 3);
    }
    hf__packet_put(letter, bytes, count);
}

/* Where it failed half of it is in the buffer: that connection is at its end. */
int hf__packet_end(struct hf__letter *letter)
{
    size_t bytes = hf__buffer_count(letter->to) - letter->began - HEAD_BYTES;
    uint8_t *head;

    if (letter->status < 0)
        return letter->status;
    assert(bytes < 0xffffff);
    head = letter->to->memory + letter->to->front + letter->began;
    for (size_t i = 0; i < 3; i++)
        head[i] = (uint8_t)(bytes >> 8 * i);
    head[3] = letter->sequence;
    return HF_OK;
}
