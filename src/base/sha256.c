/* sha256.c: the SHA-256 of FIPS 180-4, for names that are too long for a store.
 *
 * The message is taken in blocks of 64 bytes; the last one or two are padded with a one bit, zeros
 * and the length in bits. Sections, functions and constants are named as in the standard. It runs
 * once per name of more than 200 bytes, so it is written to be read, not to be fast.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "base/sha256.h"

#include <assert.h>
#include <string.h>

#define BLOCK_BYTES  64
#define LENGTH_BYTES 8
#define ROUNDS       64

/* Section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64
 * primes. */
/* clang-format off */
static const uint32_t K[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* Section 5.3.3: the same of the square roots of the first eight primes. */
static const uint32_t H0[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
/* clang-format on */

static uint32_t rotate_right(uint32_t x, unsigned bits)
{
    return x >> bits | x << (32 - bits);
}

static uint32_t load_big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store_big_endian(uint8_t *out_bytes, uint32_t x)
{
    out_bytes[0] = (uint8_t)(x >> 24);
    out_bytes[1] = (uint8_t)(x >> 16);
    out_bytes[2] = (uint8_t)(x >> 8);
    out_bytes[3] = (uint8_t)x;
}

/* Section 6.2.2, step 1. */
static void make_schedule(const uint8_t block[BLOCK_BYTES], uint32_t out_w[ROUNDS])
{
    for (size_t t = 0; t < 16; t++)
        out_w[t] = load_big_endian(block + 4 * t);

    for (size_t t = 16; t < ROUNDS; t++) {
        uint32_t x = out_w[t - 15];
        uint32_t y = out_w[t - 2];
        uint32_t sigma0 = rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3;
        uint32_t sigma1 = rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10;

        out_w[t] = sigma1 + out_w[t - 7] + sigma0 + out_w[t - 16];
    }
}

/* Section 6.2.2, steps 2 to 4; s[0] to s[7] are the standard's a to h. */
static void digest_block(uint32_t hash[8], const uint8_t block[BLOCK_BYTES])
{
    uint32_t w[ROUNDS];
    uint32_t s[8];

    make_schedule(block, w);
    memcpy(s, hash, sizeof(s));

    for (size_t t = 0; t < ROUNDS; t++) {
        uint32_t sum1 = rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + sum1 + choice + K[t] + w[t];
        uint32_t sum0 = rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);

        memmove(s + 1, s, 7 * sizeof(*s));
        s[4] += t1;
        s[0] = t1 + sum0 + majority;
    }

    for (size_t i = 0; i < 8; i++)
        hash[i] += s[i];
}

void hf__sha256(const void *bytes, size_t count, uint8_t out_digest[32])
{
    const uint8_t *next = bytes;
    uint8_t last[2 * BLOCK_BYTES] = { 0 };
    size_t left = count % BLOCK_BYTES;
    size_t last_bytes = left + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    uint32_t hash[8];

    assert(bytes || count == 0);
    assert(count <= UINT64_MAX / 8);

    memcpy(hash, H0, sizeof(hash));
    for (size_t i = 0; i < count / BLOCK_BYTES; i++, next += BLOCK_BYTES)
        digest_block(hash, next);

    if (left > 0)
        memcpy(last, next, left);
    last[left] = 0x80;
    store_big_endian(last + last_bytes - 8, (uint32_t)((uint64_t)count * 8 >> 32));
    store_big_endian(last + last_bytes - 4, (uint32_t)(count * 8));
    for (size_t at = 0; at < last_bytes; at += BLOCK_BYTES)
        digest_block(hash, last + at);

    for (size_t i = 0; i < 8; i++)
        store_big_endian(out_digest + 4 * i, hash[i]);
}
