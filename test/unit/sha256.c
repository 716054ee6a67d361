/* sha256.c: is it SHA-256, at every length of the last block? */
#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define DIGEST_BYTES 32

static void digest_to_hex(const void *bytes, size_t count, char out_hex[2 * DIGEST_BYTES + 1])
{
    uint8_t digest[DIGEST_BYTES];

    hf__sha256(bytes, count, digest);
    for (size_t i = 0; i < DIGEST_BYTES; i++)
        (void)snprintf(out_hex + 2 * i, 3, "%02x", digest[i]);
}

static void fill_pattern(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(i * 7 + 3);
}

/* The examples that NIST publishes with FIPS 180-4. */
TEST(sha256, gives_the_digests_of_the_standard)
{
    static const struct {
        const char *message;
        const char *digest;
    } examples[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
          "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
    };
    char hex[2 * DIGEST_BYTES + 1];

    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
        digest_to_hex(examples[i].message, strlen(examples[i].message), hex);
        CHECK_TEXT(hex, examples[i].digest);
    }
}

TEST(sha256, gives_the_digest_of_a_million_letters)
{
    static char message[1000000];
    char hex[2 * DIGEST_BYTES + 1];

    memset(message, 'a', sizeof(message));
    digest_to_hex(message, sizeof(message), hex);
    CHECK_TEXT(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The digest of the digests of the first 0, 1, ... 300 bytes of the pattern: one wrong byte at any
 * length shows. Computed with Python's hashlib, as are the next ones. */
TEST(sha256, is_right_at_every_length_up_to_300)
{
    static uint8_t digests[301][DIGEST_BYTES];
    char hex[2 * DIGEST_BYTES + 1];
    uint8_t pattern[300];

    fill_pattern(pattern, sizeof(pattern));
    for (size_t count = 0; count <= 300; count++)
        hf__sha256(pattern, count, digests[count]);
    digest_to_hex(digests, sizeof(digests), hex);
    CHECK_TEXT(hex, "7d917fbd2cf49ddff9ad0a8706bba32d204e92e71d2e369c5a03d6af29278c9f");
}

TEST(sha256, is_right_where_the_padding_needs_another_block)
{
    static const struct {
        size_t count;
        const char *digest;
    } examples[] = {
        { 55, "e7313d333c272e639f790978283f9eb392e843d0f29b7016828bb1daa4aac70b" },
        { 56, "4324d65f3c103567f5589c710bc08f8523f929a9272e3af36fc968e52abc6c27" },
        { 63, "81c80242132f230c3bd41b3e63bbcff16107339549214a99614ff26664625055" },
        { 64, "39e3d7b6b5d075d37d053ad89b24b41bef4f3c29760c84447cab3f3be1882241" },
        { 65, "aacca6ff74fdbb296d165a45cecfa04e5127bc008770fbbdd48006f2d2fae95e" },
        { 119, "9ce7368e4daf32341631b492e80359dc9f594b48453cd0dd5bf0b19279cc177e" },
        { 120, "7836b787757e95e58b3ca5aec90b1b004e8deba1e50e9675af9cabf1a13a04b5" },
        { 1024, "e9183d9a79aad8a047b8e67981210d50b01fc75b1edba5bc32ba3d3ec4d5056d" },
    };
    char hex[2 * DIGEST_BYTES + 1];
    uint8_t pattern[1024];

    fill_pattern(pattern, sizeof(pattern));
    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
        digest_to_hex(pattern, examples[i].count, hex);
        CHECK_TEXT(hex, examples[i].digest);
    }
}

TEST(sha256, reads_from_any_address_and_no_byte_too_many)
{
    char wanted[2 * DIGEST_BYTES + 1];
    char hex[2 * DIGEST_BYTES + 1];
    uint8_t pattern[100];

    fill_pattern(pattern, sizeof(pattern));
    digest_to_hex(pattern, sizeof(pattern), wanted);
    for (size_t shift = 0; shift < 16; shift++) {
        uint8_t *exact = malloc(shift + sizeof(pattern)); /* the sanitizer watches its end */

        CHECK(exact);
        memcpy(exact + shift, pattern, sizeof(pattern));
        digest_to_hex(exact + shift, sizeof(pattern), hex);
        CHECK_TEXT(hex, wanted);
        free(exact);
    }
}
