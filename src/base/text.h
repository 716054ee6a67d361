/* text.h: bytes that people read, and numbers that people write. */
#ifndef HF_BASE_TEXT_H
#define HF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies what fits, always terminated; returns false if it was cut. out_bytes_max > 0. */
bool hf__text_copy(char *out_text, size_t out_bytes_max, const char *text);

/* Control bytes, backslash and bytes that are not valid UTF-8 as \xNN, the rest as it is: safe on a
 * terminal and in a log. As snprintf. */
int hf__text_escape(const char *bytes, size_t count, char *out_text, size_t out_bytes_max);

/* Decimal, not terminated; returns how many bytes. For what every claim says, where printf() is
 * felt. */
#define HF__TEXT_U64_BYTES 20
size_t hf__text_from_u64(uint64_t number, char out_text[HF__TEXT_U64_BYTES]);

/* Strict decimal: digits only, no sign, no blanks, no overflow. */
bool hf__text_to_u64(const char *text, size_t count, uint64_t *out_number);

/* "250ms" "30s" "5m" "2h"; a bare number is seconds; fractions as in "1.5s". No sign, no blanks. */
bool hf__text_to_duration_ms(const char *text, int64_t *out_ms);

#endif
