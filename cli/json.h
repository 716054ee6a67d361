/* json.h: JSON for programs, written as it comes. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A writer. `rows` puts the elements of the outermost array on lines of their own. */
struct json {
    FILE *out;
    bool rows;
    bool comma; /* something stands before, in what is open */
    unsigned depth;
};

/* Keys are NULL inside arrays and at the top. They are ours and need no escapes. */
void json_open(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                 /* '}' or ']' */

/* Valid JSON whatever the bytes: what is not UTF-8 becomes the four characters \xNN, which is for
 * people; programs take the exact bytes from json_hex(). */
void json_string(struct json *json, const char *key, const char *bytes);
void json_hex(struct json *json, const char *key, const char *bytes);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
void json_number(struct json *json, const char *key, int64_t value);

/* null for what is negative, which means unknown. */
void json_known(struct json *json, const char *key, int64_t value);

/* A string, because many readers of JSON have no exact 64-bit numbers; null for 0. */
void json_fence(struct json *json, const char *key, uint64_t fence);

#endif
