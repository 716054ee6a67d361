/* mysql_packet.c (fuzz): whatever the bytes of a packet are, they are read to their end and never
 * beyond, and what is written is read back.
 *
 * The first byte says how many are read by the ways that follow: one byte each, which says which
 * way it is. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mysql/mysql.h"
#include "target.h"

#define WAYS_MAX 32

static void check(const struct hf__reading *scan, const uint8_t *was)
{
    assert(scan->at >= was && scan->at <= scan->end);
}

/* One way to read; the number says how many bytes, where that is to be said. */
static void read_on(struct hf__reading *scan, uint8_t way)
{
    const uint8_t *was = scan->at;
    bool failed = scan->failed;
    size_t bytes = (size_t)way >> 3;
    const void *found;

    switch (way & 7u) {
    case 0:
        (void)hf__packet_number(scan, bytes % 9);
        break;
    case 1:
        (void)hf__packet_count(scan);
        break;
    case 2:
        found = hf__packet_bytes(scan, bytes);
        assert(!found == scan->failed);
        break;
    case 3:
        found = hf__packet_text(scan, &bytes);
        assert((const uint8_t *)found + bytes <= scan->end);
        break;
    default:
        found = hf__packet_string(scan, &bytes);
        assert(!found || (const uint8_t *)found + bytes == scan->at);
        assert(found || bytes == 0);
        break;
    }
    assert(!failed || (scan->failed && scan->at == was));
    check(scan, was);
}

/* What is written is a packet of its own, and holds what was put there. */
static void write_back(const uint8_t *bytes, size_t count)
{
    struct hf__env env;
    struct hf__buffer buffer;
    struct hf__letter letter;
    struct hf__reading scan = { 0 };
    const uint8_t *found;
    size_t found_bytes;

    assert(hf__env_init(&env) == HF_OK);
    hf__buffer_init(&buffer, &env, 1 << 20);
    hf__packet_begin(&letter, &buffer, (uint8_t)count);
    hf__packet_put_number(&letter, count, 8);
    hf__packet_put(&letter, bytes, count);
    hf__packet_put_string(&letter, bytes, count);
    assert(hf__packet_end(&letter) == HF_OK);
    scan.at = hf__buffer_front(&buffer);
    scan.end = scan.at + hf__buffer_count(&buffer);
    assert(hf__packet_number(&scan, 3) == hf__buffer_count(&buffer) - 4);
    assert(hf__packet_number(&scan, 1) == (uint8_t)count);
    assert(hf__packet_number(&scan, 8) == count);
    assert(hf__packet_bytes(&scan, count));
    found = hf__packet_string(&scan, &found_bytes);
    assert(!scan.failed && scan.at == scan.end && found_bytes == count);
    assert(count == 0 || memcmp(found, bytes, count) == 0);
    hf__buffer_done(&buffer);
    hf__env_done(&env);
}

/* A buffer that has no room keeps what it had, and says so. */
static void write_too_much(const uint8_t *bytes, size_t count)
{
    struct hf__env env;
    struct hf__buffer buffer;
    struct hf__letter letter;

    assert(hf__env_init(&env) == HF_OK);
    hf__buffer_init(&buffer, &env, 16);
    hf__packet_begin(&letter, &buffer, 0);
    hf__packet_put_string(&letter, bytes, count);
    hf__packet_put_number(&letter, count, 8);
    hf__packet_put_number(&letter, count, 8);
    assert(hf__packet_end(&letter) < 0);
    hf__buffer_done(&buffer);
    hf__env_done(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    size_t ways = count > 0 ? bytes[0] % WAYS_MAX : 0;
    struct hf__reading scan = { 0 };

    ways = ways < count ? ways : count;
    scan.at = bytes + (count > 0) + (ways < count ? ways : count - (count > 0));
    scan.end = bytes + count;
    for (size_t i = 0; i + 1 < count && i < ways; i++)
        read_on(&scan, bytes[i + 1]);
    write_back(bytes, count);
    write_too_much(bytes, count);
    return 0;
}
