/* parse.h: numbers, durations and lists as people write them. */
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARSE_DURATION_FORMS "250ms, 30s, 5m or 2h; a bare number is seconds"
#define PARSE_PROMISES       "fence fair wakeup shared durable failover crash"
#define PARSE_PROMISE_COUNT  7

/* Strict decimal: digits only, no sign, no blanks, no overflow. */
bool parse_number(const char *text, uint64_t *out_number);

/* 250ms 30s 5m 2h, fractions as in 1.5s, a bare number is seconds; what is more than nothing is at
 * least one millisecond. At most a thousand years. */
bool parse_duration(const char *text, int64_t *out_ms);

/* "fence,fair": HF_PROMISE_*, or false with the word that is none of them. */
bool parse_promises(const char *text, uint32_t *out_promises, char *out_word, size_t word_bytes);

/* The name of the promise with this bit (0 ... PARSE_PROMISE_COUNT - 1). */
const char *parse_promise_name(size_t bit);

#endif
