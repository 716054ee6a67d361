/* name.h: is this a lock name, and how is it written in a store? */
#ifndef HF_BASE_NAME_H
#define HF_BASE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF__NAME_ENCODED_BYTES 512

/* HF_OK with the length, or HF_ENAME: empty, or longer than HF_NAME_BYTES_MAX. Looks at no byte
 * beyond the limit + 1. */
int hf__name_check(const char *name, size_t *out_bytes);

/* Injective: plain names ([A-Za-z0-9_.-]{1,128}, not "." or "..") as they are, others up to 200
 * bytes as ~x + hex, longer ones as ~s + SHA-256 in hex (out_hashed: the store must keep the full
 * name beside it and compare). Returns the length written, without the NUL. */
size_t hf__name_encode(const char *name, size_t name_bytes, char out_text[HF__NAME_ENCODED_BYTES],
                       bool *out_hashed);

/* The name behind a plain or ~x form; 0 for what hf__name_encode never writes, and for ~s. */
size_t hf__name_decode(const char *text, size_t text_bytes, char out_name[1025]);

/* 64-bit hash for tables in memory, seeded (not for stores). */
uint64_t hf__name_hash(const char *name, size_t name_bytes, uint64_t seed);

/* `*` and `?` match any byte, `/` too; backslash makes the next byte literal (a last lone backslash
 * is itself). Linear in name x stars, no recursion. NULL matches all. */
bool hf__name_matches(const char *glob, const char *name, size_t name_bytes);

#endif
