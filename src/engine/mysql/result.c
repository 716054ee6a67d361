/* result.c: what does the server answer?
 *
 * A command is answered by OK, by an error, or by a result: the number of its columns, what they
 * are, a mark, its rows, a mark. Behind the result of a procedure comes another answer, and the
 * last one says that it is. A prepared statement is answered by its number, and by what its
 * parameters and columns are.
 *
 * What can go wrong: a packet that is none of these: HF_EPROTOCOL, and the cable is DOWN.
 * https://mariadb.com/kb/en/4-server-response-packets/ */
#include <string.h>

#include "base/text.h"
#include "engine/mysql/mysql.h"

#define BYTE_OK          0x00
#define BYTE_FILE        0xfb
#define BYTE_END         0xfe
#define END_BYTES_MAX    9 /* a row that begins with this byte is longer */
#define STATE_OPEN       0x0001
#define STATE_MORE       0x0008
#define COLUMNS_MAX      32
#define DEFINITIONS_MAX  64
#define NULL_BITS_OFFSET 2

static void fail(struct hf__cable *cable)
{
    hf__cable_fail(cable, HF_EPROTOCOL, "the server answered what it never should");
}

static void hear_state(struct hf__reading *scan, struct hf__result *out_result)
{
    uint64_t state = hf__packet_number(scan, 2);

    out_result->kind = HF__RESULT_OK;
    out_result->in_transaction = (state & STATE_OPEN) != 0;
    out_result->is_last = (state & STATE_MORE) == 0;
}

static void hear_error(struct hf__reading *scan, struct hf__result *out_result)
{
    const char *said;
    size_t bytes;

    out_result->kind = HF__RESULT_ERROR;
    out_result->is_last = true;
    out_result->code = (uint32_t)hf__packet_number(scan, 2);
    if (scan->at < scan->end && *scan->at == '#')
        (void)hf__packet_bytes(scan, 6); /* the SQLSTATE */
    said = hf__packet_text(scan, &bytes);
    bytes = bytes < sizeof(out_result->text) ? bytes : sizeof(out_result->text) - 1;
    (void)hf__text_escape(said, bytes, out_result->text, sizeof(out_result->text));
}

static void hear_ok(struct hf__reading *scan, struct hf__result *out_result)
{
    out_result->changed = hf__packet_count(scan);
    out_result->number = hf__packet_count(scan);
    hear_state(scan, out_result);
}

/* The answer to COM_STMT_PREPARE. */
static void hear_prepared(struct hf__cable *cable, struct hf__reading *scan,
                          struct hf__result *out_result)
{
    uint32_t id = (uint32_t)hf__packet_number(scan, 4);
    uint32_t columns = (uint32_t)hf__packet_number(scan, 2);
    uint32_t parameters = (uint32_t)hf__packet_number(scan, 2);

    cable->prepared = id;
    cable->columns = columns;
    cable->definitions_left = columns + parameters + (columns > 0) + (parameters > 0);
    if (cable->definitions_left > DEFINITIONS_MAX)
        scan->failed = true;
    if (cable->definitions_left == 0 && !scan->failed) {
        out_result->kind = HF__RESULT_PREPARED;
        out_result->is_last = true;
        out_result->code = id;
    }
}

static void hear_row(struct hf__cable *cable, struct hf__reading *scan, bool is_binary,
                     struct hf__result *out_result)
{
    out_result->kind = HF__RESULT_ROW;
    out_result->columns = cable->columns;
    if (is_binary) { /* a zero, and which are NULL: none of ours are */
        (void)hf__packet_bytes(scan, 1 + (cable->columns + 7 + NULL_BITS_OFFSET) / 8);
    }
    out_result->row = *scan;
}

/* Where an answer begins. */
static void hear_first(struct hf__cable *cable, struct hf__reading *scan, bool prepares,
                       struct hf__result *out_result)
{
    uint8_t first = *scan->at;
    uint64_t columns;

    if (first == BYTE_OK) {
        (void)hf__packet_bytes(scan, 1);
        if (prepares)
            hear_prepared(cable, scan, out_result);
        else
            hear_ok(scan, out_result);
        return;
    }
    columns = hf__packet_count(scan);
    if (prepares || first == BYTE_FILE || columns == 0 || columns > COLUMNS_MAX) {
        scan->failed = true;
        return;
    }
    cable->columns = (uint32_t)columns;
    cable->definitions_left = cable->columns + 1;
    cable->in_rows = true;
}

/* A mark stands behind the parameters, and behind the columns. */
static bool is_mark_due(const struct hf__cable *cable, bool prepares)
{
    uint32_t left = cable->definitions_left;

    return left == 1 || (prepares && cable->columns > 0 && left == cable->columns + 2);
}

static void hear_definition(struct hf__cable *cable, bool prepares, struct hf__result *out_result)
{
    if (--cable->definitions_left > 0 || !prepares)
        return;
    out_result->kind = HF__RESULT_PREPARED;
    out_result->is_last = true;
    out_result->code = cable->prepared;
}

static void hear(struct hf__cable *cable, struct hf__reading *scan, enum hf__result_form form,
                 struct hf__result *out_result)
{
    bool prepares = form == HF__RESULT_OF_PREPARING;
    bool ends = *scan->at == BYTE_END && scan->end - scan->at < END_BYTES_MAX;

    if (*scan->at == HF__MYSQL_BYTE_ERROR) {
        (void)hf__packet_bytes(scan, 1);
        cable->in_rows = false;
        cable->definitions_left = 0;
        hear_error(scan, out_result);
    } else if (cable->definitions_left > 0 && ends != is_mark_due(cable, prepares)) {
        scan->failed = true;
    } else if (cable->definitions_left > 0) {
        hear_definition(cable, prepares, out_result);
    } else if (cable->in_rows && ends) {
        (void)hf__packet_bytes(scan, 3);
        cable->in_rows = false;
        out_result->columns = cable->columns;
        hear_state(scan, out_result);
    } else if (cable->in_rows) {
        hear_row(cable, scan, form == HF__RESULT_OF_EXECUTING, out_result);
    } else {
        hear_first(cable, scan, prepares, out_result);
    }
}

void hf__result_next(struct hf__cable *cable, enum hf__result_form form,
                     struct hf__result *out_result)
{
    *out_result = (struct hf__result){ .kind = HF__RESULT_NONE };
    while (cable->phase == HF__CABLE_UP && out_result->kind == HF__RESULT_NONE) {
        struct hf__reading scan = { 0 };
        size_t bytes = 0;

        if (cable->has_heard)
            hf__cable_drop(cable);
        cable->has_heard = false;
        scan.at = hf__cable_packet(cable, &bytes);
        if (!scan.at || !hf__cable_is_in_order(cable, scan.at, bytes))
            return;
        cable->has_heard = true;
        scan.end = scan.at + bytes;
        if (bytes > 0)
            hear(cable, &scan, form, out_result);
        if (out_result->is_last)
            cable->sequence = HF__MYSQL_ANSWER;
        if (bytes == 0 || scan.failed) {
            fail(cable);
            out_result->kind = HF__RESULT_NONE;
        }
    }
}
