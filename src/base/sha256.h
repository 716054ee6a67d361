/* sha256.h: FIPS 180-4, for names that are too long for a store. */
#ifndef HF_BASE_SHA256_H
#define HF_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

void hf__sha256(const void *bytes, size_t count, uint8_t out_digest[32]);

#endif
