/* name.c: is this a lock name, and how is it written in a store?
 *
 * Names are anybody's bytes; stores have their own ideas about slashes, case, blanks, controls and
 * length. So a name is written as it is only where no store can misread it; else in hex; else, when
 * that would be too long, as its SHA-256. The first byte tells which: a plain form never begins with
 * a tilde, so no two names share a form (up to collisions of SHA-256, against which the store keeps
 * the full name and compares).
 *
 * What comes back from a store may be anybody's: only what hf__name_encode writes is decoded.
 *
 * Pure: no clock, no I/O, no allocation. */
#include "base/name.h"

#include <assert.h>
#include <string.h>

#include "base/sha256.h"
#include "holdfast/holdfast.h"

#define PLAIN_BYTES_MAX  128
#define HEX_BYTES_MAX    200 /* of the name; twice as many of text */
#define MARK_BYTES       2   /* "~x" and "~s" */
#define DIGEST_BYTES     32
#define NAME_BUFFER_SIZE (HF_NAME_BYTES_MAX + 1)

static_assert(MARK_BYTES + 2 * HEX_BYTES_MAX < HF__NAME_ENCODED_BYTES, "hex forms must fit");
static_assert(NAME_BUFFER_SIZE == 1025, "as name.h says");

__extension__ typedef unsigned __int128 uint128;

static bool is_plain_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-';
}

static bool is_plain(const char *name, size_t name_bytes)
{
    bool is_dots = (name_bytes == 1 && name[0] == '.') ||
                   (name_bytes == 2 && name[0] == '.' && name[1] == '.');

    if (name_bytes == 0 || name_bytes > PLAIN_BYTES_MAX || is_dots)
        return false;
    for (size_t i = 0; i < name_bytes; i++) {
        if (!is_plain_byte(name[i]))
            return false;
    }
    return true;
}

static size_t write_marked_hex(char mark, const void *bytes, size_t count, char *out_text)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *next = bytes;
    char *text = out_text;

    *text++ = '~';
    *text++ = mark;
    for (size_t i = 0; i < count; i++) {
        *text++ = digits[next[i] >> 4];
        *text++ = digits[next[i] & 15];
    }
    *text = '\0';
    return MARK_BYTES + 2 * count;
}

/* -1: not a digit that we write. */
static int read_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return -1;
}

/* The length of the name behind the digits; 0: some are not hex, or a byte is NUL. */
static size_t read_hex(const char *digits, size_t count, char out_name[HEX_BYTES_MAX])
{
    if (count % 2 != 0 || count / 2 > HEX_BYTES_MAX)
        return 0;

    for (size_t i = 0; i < count / 2; i++) {
        int high = read_hex_digit(digits[2 * i]);
        int low = read_hex_digit(digits[2 * i + 1]);

        if (high < 0 || low < 0 || high + low == 0)
            return 0;
        out_name[i] = (char)(high * 16 + low);
    }
    return count / 2;
}

int hf__name_check(const char *name, size_t *out_bytes)
{
    size_t bytes;

    assert(name && out_bytes);

    bytes = strnlen(name, HF_NAME_BYTES_MAX + 1);
    if (bytes == 0 || bytes > HF_NAME_BYTES_MAX)
        return HF_ENAME;

    *out_bytes = bytes;
    return HF_OK;
}

size_t hf__name_encode(const char *name, size_t name_bytes, char out_text[HF__NAME_ENCODED_BYTES],
                       bool *out_hashed)
{
    uint8_t digest[DIGEST_BYTES];

    assert(name_bytes > 0 && name_bytes <= HF_NAME_BYTES_MAX);
    assert(!memchr(name, '\0', name_bytes));

    *out_hashed = name_bytes > HEX_BYTES_MAX;
    if (is_plain(name, name_bytes)) {
        memcpy(out_text, name, name_bytes);
        out_text[name_bytes] = '\0';
        return name_bytes;
    }
    if (name_bytes <= HEX_BYTES_MAX)
        return write_marked_hex('x', name, name_bytes, out_text);

    hf__sha256(name, name_bytes, digest);
    return write_marked_hex('s', digest, sizeof(digest), out_text);
}

size_t hf__name_decode(const char *text, size_t text_bytes, char out_name[NAME_BUFFER_SIZE])
{
    char hidden[HEX_BYTES_MAX];
    const char *name = text;
    size_t name_bytes = text_bytes;

    assert(text && out_name);

    if (text_bytes > MARK_BYTES && text[0] == '~' && text[1] == 'x') {
        name_bytes = read_hex(text + MARK_BYTES, text_bytes - MARK_BYTES, hidden);
        name = hidden;
        if (name_bytes == 0 || is_plain(name, name_bytes))
            return 0;
    } else if (!is_plain(text, text_bytes)) {
        return 0;
    }

    memcpy(out_name, name, name_bytes);
    out_name[name_bytes] = '\0';
    return name_bytes;
}

/* Both halves of the product, so that every bit of x and y reaches every bit of the result. */
static uint64_t fold(uint64_t x, uint64_t y)
{
    uint128 product = (uint128)x * y;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes at a time; the last word has the rest, and the length in its highest byte, so that no
 * two names are the same words. The multipliers are odd, with about as many ones as zeros: the
 * golden ratio and the square root of 2, as fractions of 2^64. */
uint64_t hf__name_hash(const char *name, size_t name_bytes, uint64_t seed)
{
    const uint64_t golden = 0x9e3779b97f4a7c15;
    const uint64_t root = 0x6a09e667f3bcc909;
    uint64_t last = (uint64_t)name_bytes << 56;
    uint64_t hash = fold(seed ^ root, golden);
    uint64_t word;

    assert(name || name_bytes == 0);

    for (; name_bytes >= sizeof(word); name_bytes -= sizeof(word), name += sizeof(word)) {
        memcpy(&word, name, sizeof(word));
        hash = fold(hash ^ word, golden) + root;
    }
    for (size_t i = 0; i < name_bytes; i++)
        last |= (uint64_t)(uint8_t)name[i] << (8 * i);

    return fold(fold(hash ^ last, root) ^ seed, golden);
}

/* One element of the glob: what it asks for and how many bytes it takes. */
struct element {
    bool is_star;
    bool is_any;
    char byte;
    size_t taken;
};

static struct element read_element(const char *glob)
{
    if (glob[0] == '\\' && glob[1] != '\0')
        return (struct element){ .byte = glob[1], .taken = 2 };

    return (struct element){
        .is_star = glob[0] == '*',
        .is_any = glob[0] == '?',
        .byte = glob[0],
        .taken = 1,
    };
}

/* A star first takes nothing; when the rest does not fit, the last star takes one byte more. Earlier
 * stars need no second try: what follows them has been found as early as it can be. */
bool hf__name_matches(const char *glob, const char *name, size_t name_bytes)
{
    const char *after_star = NULL;
    size_t star_from = 0;
    size_t at = 0;

    if (!glob)
        return true;
    assert(name || name_bytes == 0);

    while (*glob || at < name_bytes) {
        struct element element = read_element(glob);

        if (*glob && element.is_star) {
            after_star = ++glob;
            star_from = at;
        } else if (*glob && at < name_bytes && (element.is_any || element.byte == name[at])) {
            glob += element.taken;
            at++;
        } else if (after_star && star_from < name_bytes) {
            glob = after_star;
            at = ++star_from;
        } else {
            return false;
        }
    }
    return true;
}
