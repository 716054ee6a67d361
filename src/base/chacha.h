/* chacha.h: ChaCha (RFC 8439, section 2.3), for random numbers that cost no system call each. */
#ifndef HF_BASE_CHACHA_H
#define HF_BASE_CHACHA_H

#include <stdint.h>

#define HF__CHACHA_LANES       8
#define HF__CHACHA_BLOCK_BYTES 64

/* The keystream of eight blocks, beginning with block `counter`. `rounds` is even: 20 in the
 * RFC, 8 are enough for numbers that must only be hard to guess. */
void hf__chacha_eight(const uint32_t key[8], const uint32_t nonce[3], uint32_t counter,
                      uint32_t rounds,
                      uint8_t out_bytes[HF__CHACHA_LANES * HF__CHACHA_BLOCK_BYTES]);

#endif
