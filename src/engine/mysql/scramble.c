/* scramble.c: how is a password shown without being told?
 *
 * The server sends a challenge of 20 bytes. mysql_native_password answers with
 * SHA1(password) XOR SHA1(challenge + SHA1(SHA1(password))), caching_sha2_password with
 * SHA256(password) XOR SHA256(SHA256(SHA256(password)) + challenge).
 *
 * What can go wrong: another method: it is not known here, and the handshake says so.
 *
 * Pure: no clock, no I/O, no allocation. */
#include <assert.h>
#include <string.h>

#include "base/sha256.h"
#include "engine/mysql/mysql.h"

#define SHA1_BYTES   20
#define SHA256_BYTES 32
#define BLOCK_BYTES  64

static const char *const names[] = {
    [HF__SCRAMBLE_NATIVE] = "mysql_native_password",
    [HF__SCRAMBLE_SHA2] = "caching_sha2_password",
    [HF__SCRAMBLE_NONE] = "",
};

const char *hf__scramble_name(enum hf__scramble scramble)
{
    return names[scramble];
}

enum hf__scramble hf__scramble_find(const char *plugin, size_t bytes)
{
    for (unsigned i = HF__SCRAMBLE_NATIVE; i < HF__SCRAMBLE_NONE; i++) {
        if (strlen(names[i]) == bytes && memcmp(names[i], plugin, bytes) == 0)
            return (enum hf__scramble)i;
    }
    return HF__SCRAMBLE_NONE;
}

/* --- SHA-1, FIPS 180-4 --- */

static uint32_t turn(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static void mix(uint32_t state[5], const uint8_t block[BLOCK_BYTES])
{
    static const uint32_t constants[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
    uint32_t words[80];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

    for (size_t i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        words[i] = turn(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    for (size_t i = 0; i < 80; i++) {
        uint32_t choice = b ^ c ^ d;
        uint32_t next;

        if (i < 20)
            choice = (b & c) | (~b & d);
        else if (i >= 40 && i < 60)
            choice = (b & c) | (b & d) | (c & d);
        next = turn(a, 5) + choice + e + constants[i / 20] + words[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

static void sha1(const void *bytes, size_t count, uint8_t out_digest[SHA1_BYTES])
{
    uint32_t state[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
    uint8_t last[2 * BLOCK_BYTES] = { 0 };
    const uint8_t *at = bytes;
    size_t rest = count % BLOCK_BYTES;
    size_t last_bytes = rest < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES;

    for (size_t done = 0; done + BLOCK_BYTES <= count; done += BLOCK_BYTES)
        mix(state, at + done);
    memcpy(last, at + count - rest, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; i++)
        last[last_bytes - 1 - i] = (uint8_t)((uint64_t)count * 8 >> 8 * i);
    for (size_t done = 0; done < last_bytes; done += BLOCK_BYTES)
        mix(state, last + done);
    for (size_t i = 0; i < SHA1_BYTES; i++)
        out_digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    explicit_bzero(last, sizeof(last));
}

/* --- the proofs --- */

static void prove_native(const char *password, const uint8_t challenge[HF__MYSQL_SCRAMBLE],
                         uint8_t out_proof[HF__MYSQL_PROOF_MAX])
{
    uint8_t once[SHA1_BYTES];
    uint8_t both[HF__MYSQL_SCRAMBLE + SHA1_BYTES];

    sha1(password, strlen(password), once);
    memcpy(both, challenge, HF__MYSQL_SCRAMBLE);
    sha1(once, sizeof(once), both + HF__MYSQL_SCRAMBLE);
    sha1(both, sizeof(both), out_proof);
    for (size_t i = 0; i < SHA1_BYTES; i++)
        out_proof[i] ^= once[i];
    explicit_bzero(once, sizeof(once));
}

static void prove_sha2(const char *password, const uint8_t challenge[HF__MYSQL_SCRAMBLE],
                       uint8_t out_proof[HF__MYSQL_PROOF_MAX])
{
    uint8_t once[SHA256_BYTES];
    uint8_t both[SHA256_BYTES + HF__MYSQL_SCRAMBLE];

    hf__sha256(password, strlen(password), once);
    hf__sha256(once, sizeof(once), both);
    memcpy(both + SHA256_BYTES, challenge, HF__MYSQL_SCRAMBLE);
    hf__sha256(both, sizeof(both), out_proof);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        out_proof[i] ^= once[i];
    explicit_bzero(once, sizeof(once));
}

size_t hf__scramble_prove(enum hf__scramble scramble, const char *password,
                          const uint8_t challenge[HF__MYSQL_SCRAMBLE],
                          uint8_t out_proof[HF__MYSQL_PROOF_MAX])
{
    assert(scramble != HF__SCRAMBLE_NONE);

    if (!*password)
        return 0;
    if (scramble == HF__SCRAMBLE_NATIVE) {
        prove_native(password, challenge, out_proof);
        return SHA1_BYTES;
    }
    prove_sha2(password, challenge, out_proof);
    return SHA256_BYTES;
}
