/* text.h: other people's bytes, made fit for a terminal; and times for people. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_GROWTH    4 /* a byte becomes at most so many */
#define TEXT_AGE_BYTES 32

enum text_style {
    TEXT_NAME,    /* backslashes are doubled: two names never look the same */
    TEXT_MESSAGE, /* a sentence: backslashes are left alone                 */
};

/* Control bytes, what is not UTF-8, and characters that a terminal does not show become \xNN, \n or
 * \u{NNNN}. Writes what fits, always terminated, and returns its bytes. */
size_t text_visible(const char *text, enum text_style style, char *out_text, size_t out_bytes_max);

/* A copy in the style of names, to be freed. */
char *text_visible_new(const char *text);

/* Columns on a terminal of text that was made visible. */
size_t text_columns(const char *visible);

/* How many bytes of visible text fit into so many columns. */
size_t text_fit(const char *visible, size_t columns_max);

/* The bytes of the character of UTF-8 that stands at the front, 1 to 4; 0: there is none. */
size_t text_decode(const char *bytes, size_t count, uint32_t *out_point);

/* "0.4s" "12s" "3m12s" "2h05m" "3d04h"; "-" for what is unknown (negative). */
const char *text_age(int64_t age_ms, char out_text[TEXT_AGE_BYTES]);

#endif
