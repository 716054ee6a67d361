/* row.c: a row with a unique name, an owner and an end: the lock of many other programs.
 *
 * The happy path: CLAIM inserts the row, or takes over one whose end has come, and notes the fence
 * beside it; RELEASE deletes the row if it is still ours. Who is refused asks again, later and
 * later; who is broken is told. The answers are those of the recipe queue, and are read there.
 *
 * What can go wrong: another program that is faster: the row is its own, so it holds the lock. One
 * that does not end: only it can delete its row. A claim that comes after we gave it up: the server
 * refuses it by its own clock. */
#include "engine/mysql/mysql.h"

static const char *const texts[HF__SQLS] = {
    [HF__SQL_CLAIM] = "CALL hf_row_claim_1(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [HF__SQL_RELEASE] = "CALL hf_row_release_1(?, ?, ?)",
    [HF__SQL_BREAK] = "CALL hf_row_break_1(?, ?)",
    [HF__SQL_TOGETHER] = "CALL hf_row_together_1(?, ?)",
    [HF__SQL_LISTEN] = "CALL hf_row_listen_1(?, ?, ?)",
    [HF__SQL_LOOK] = "SELECT concat(unhex(ousted), 'b'), cast(tag AS char), cast(fence AS char),"
                     " '0' FROM hf_fence WHERE news = ?",
    [HF__SQL_LIST] =
        "SELECT r.name, '0', '0', cast(if(f.owner = r.owner, f.fence, 0) AS char),"
        " cast(r.expires_us - now.us AS char),"
        " if(f.owner = r.owner, cast(now.us - f.since_us AS char), ''),"
        " if(f.owner = r.owner, f.who, '')"
        " FROM hf_row AS r JOIN (SELECT " HF__MYSQL_CLOCK " AS us) AS now"
        " LEFT JOIN hf_fence AS f ON f.kind = 'hf_row' AND f.name = r.name"
        " WHERE cast(r.name AS binary) BETWEEN ? AND ?" /* theirs may be texts; bounds are none */
        " AND cast(r.name AS binary) BETWEEN ? AND ? AND r.expires_us > now.us"
        " ORDER BY r.name",
};

const struct hf__mysql_recipe hf__mysql_row = {
    .recipe = {
        .name = "row",
        .url_forms = "mysql://user[:password]@host[:port][,host...]/database?recipe=row"
                     "[&table=NAME]",
        .summary = "A row with a unique name, an owner and an end: excludes, and is excluded by, "
                   "other programs that keep such rows.",
        .caveat = "Not in order of arrival, and who waits asks again and again. What another "
                  "program holds, only that one can end, or its end. The server must wait for its "
                  "disk, or the promises that hang on it are withheld.",
        .schema = hf__sql_row_schema,
        .pattern = HF__PATTERN_LEASE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_DURABLE | HF_PROMISE_CRASH,
        .is_legacy = true,
        .leases = true,
    },
    .texts = texts,
    .rights = "CALL hf_row_rights_1()",
    .table = "hf_row",
};
