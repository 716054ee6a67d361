/* chacha.c: is the keystream the RFC's? */
#include "base/chacha.h"

#include <string.h>

#include "check.h"

/* RFC 8439, section 2.3.2: key 00 01 .. 1f, nonce 000000090000004a00000000, block 1. */
static const uint8_t expected[HF__CHACHA_BLOCK_BYTES] = {
    0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4,
    0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e,
    0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2,
    0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e,
};

static const uint32_t nonce[3] = { 0x09000000, 0x4a000000, 0 };

static void make_key(uint32_t out_key[8])
{
    for (uint32_t i = 0; i < 8; i++)
        out_key[i] = (4 * i) | (4 * i + 1) << 8 | (4 * i + 2) << 16 | (4 * i + 3) << 24;
}

TEST(chacha, a_block_is_that_of_the_rfc)
{
    uint32_t key[8];
    uint8_t bytes[HF__CHACHA_LANES * HF__CHACHA_BLOCK_BYTES];

    make_key(key);
    hf__chacha_eight(key, nonce, 1, 20, bytes);
    CHECK(memcmp(bytes, expected, sizeof(expected)) == 0);
}

/* Wherever a block stands among the eight, it is the same. */
TEST(chacha, every_lane_counts_its_own_block)
{
    uint32_t key[8];
    uint8_t first[HF__CHACHA_LANES * HF__CHACHA_BLOCK_BYTES];
    uint8_t shifted[HF__CHACHA_LANES * HF__CHACHA_BLOCK_BYTES];

    make_key(key);
    hf__chacha_eight(key, nonce, 100, 8, first);
    for (uint32_t lane = 1; lane < HF__CHACHA_LANES; lane++) {
        hf__chacha_eight(key, nonce, 100 + lane, 8, shifted);
        CHECK(memcmp(first + lane * HF__CHACHA_BLOCK_BYTES, shifted, HF__CHACHA_BLOCK_BYTES) == 0);
    }
}
