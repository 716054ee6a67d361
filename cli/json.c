/* json.c: how does a program read what we know?
 *
 * A streaming writer: it keeps only whether a comma is due. Text from outside is escaped so that
 * the result is valid JSON (RFC 8259) in ASCII-safe control characters and valid UTF-8, also when
 * the bytes are not. Failures of the stream stay in it, for whoever owns it to look at. */
#include "json.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "text.h"

static void escape(FILE *out, const char *bytes)
{
    size_t left = strlen(bytes);

    while (left) {
        uint32_t point = 0;
        size_t length = text_decode(bytes, left, &point);

        if (!length)
            fprintf(out, "\\\\x%02x", (unsigned)(unsigned char)*bytes);
        else if (point == '"' || point == '\\')
            fprintf(out, "\\%c", (int)point);
        else if (point < 0x20 || (point >= 0x7F && point < 0xA0))
            fprintf(out, "\\u%04x", (unsigned)point);
        else
            fwrite(bytes, 1, length, out);
        bytes += length ? length : 1;
        left -= length ? length : 1;
    }
}

static void begin(struct json *json, const char *key)
{
    bool on_new_line = json->rows && json->depth == 1;

    if (json->comma)
        fputc(',', json->out);
    if (on_new_line)
        fputc('\n', json->out);
    if (key)
        fprintf(json->out, "\"%s\":", key);
    json->comma = true;
}

void json_open(struct json *json, const char *key, char bracket)
{
    assert(bracket == '{' || bracket == '[');

    begin(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->comma = false;
}

void json_close(struct json *json, char bracket)
{
    assert(bracket == '}' || bracket == ']');
    assert(json->depth > 0);

    json->depth--;
    if (json->rows && json->depth == 0)
        fputc('\n', json->out);
    fputc(bracket, json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
    json->comma = true;
}

void json_string(struct json *json, const char *key, const char *bytes)
{
    begin(json, key);
    fputc('"', json->out);
    escape(json->out, bytes);
    fputc('"', json->out);
}

void json_hex(struct json *json, const char *key, const char *bytes)
{
    begin(json, key);
    fputc('"', json->out);
    for (; *bytes; bytes++)
        fprintf(json->out, "%02x", (unsigned)(unsigned char)*bytes);
    fputc('"', json->out);
}

void json_bool(struct json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
    begin(json, key);
    fputs("null", json->out);
}

void json_number(struct json *json, const char *key, int64_t value)
{
    begin(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_known(struct json *json, const char *key, int64_t value)
{
    if (value < 0)
        json_null(json, key);
    else
        json_number(json, key, value);
}

void json_fence(struct json *json, const char *key, uint64_t fence)
{
    if (!fence) {
        json_null(json, key);
        return;
    }
    begin(json, key);
    fprintf(json->out, "\"%" PRIu64 "\"", fence);
}
