/* seal.h: is this word what one of us wrote, or is it garbage?
 *
 * Every word that a decision rests on carries a check: a hash of its value, of the place where it
 * stands and of the table's salt. So a byte that was overwritten, a block of zeros and a word
 * copied from elsewhere are all told from the real thing, but for one chance in 2^32 (2^26 for
 * links, whose two ends must also agree). Against somebody who can read the salt it is no
 * protection: who may write the table may also take the locks.
 *
 * The hash is one 64 x 64 -> 128 bit multiplication, folded: about a nanosecond. Pure. */
#ifndef HF_EMBEDDED_SEAL_H
#define HF_EMBEDDED_SEAL_H

#include <stdbool.h>
#include <stdint.h>

struct hf__seal {
    uint64_t salt[2];
};

__extension__ typedef unsigned __int128 hf__u128;

#define HF__SEAL_WORD  0x9e3779b97f4a7c15ull /* one constant for each kind of word, so that   */
#define HF__SEAL_LOCK  0xc2b2ae3d27d4eb4full /* a check of one kind never fits another        */
#define HF__SEAL_NODE  0x165667b19e3779f9ull
#define HF__SEAL_PAIR  0x27d4eb2f165667c5ull
#define HF__SEAL_BLOCK 0xd6e8feb86659fd93ull

static inline uint64_t hf__seal_mix(const struct hf__seal *seal, uint64_t a, uint64_t b)
{
    hf__u128 product = (hf__u128)(a ^ seal->salt[0]) * (b ^ seal->salt[1]);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* --- 32 bits of value, 32 of check --- */

static inline uint64_t hf__seal_close(const struct hf__seal *seal, uint64_t place, uint32_t value)
{
    return hf__seal_mix(seal, value ^ HF__SEAL_WORD, place) << 32 | value;
}

static inline bool hf__seal_open(const struct hf__seal *seal, uint64_t place, uint64_t word,
                                 uint32_t *out_value)
{
    if (word != hf__seal_close(seal, place, (uint32_t)word))
        return false;
    *out_value = (uint32_t)word;
    return true;
}

/* --- two numbers of 19 bits, 26 of check --- */

#define HF__PAIR_BITS 19
#define HF__PAIR_MASK ((1ull << HF__PAIR_BITS) - 1)

static inline uint64_t hf__seal_pair(const struct hf__seal *seal, uint64_t place, uint32_t first,
                                     uint32_t second)
{
    uint64_t value = (uint64_t)first | (uint64_t)second << HF__PAIR_BITS;

    return hf__seal_mix(seal, value ^ HF__SEAL_PAIR, place) << (2 * HF__PAIR_BITS) | value;
}

static inline bool hf__seal_unpair(const struct hf__seal *seal, uint64_t place, uint64_t word,
                                   uint32_t *out_first, uint32_t *out_second)
{
    uint32_t first = (uint32_t)(word & HF__PAIR_MASK);
    uint32_t second = (uint32_t)(word >> HF__PAIR_BITS & HF__PAIR_MASK);

    if (word != hf__seal_pair(seal, place, first, second))
        return false;
    *out_first = first;
    *out_second = second;
    return true;
}

/* --- the lock's word --- */

static inline uint64_t hf__seal_high(const struct hf__seal *seal, uint32_t lock, uint64_t low,
                                     uint32_t owner)
{
    uint64_t rest = (uint64_t)owner << 32 | lock;

    return hf__seal_mix(seal, low ^ HF__SEAL_LOCK, rest) << 32 | owner;
}

#endif
