/* version.c: a row with a status and a version, compared by version: the lock of many other
 * programs.
 *
 * The happy path: CLAIM reads the row, and takes it by an UPDATE that changes it only if its
 * version is still the same; the fence, who got it and at which version stand beside it in
 * hf_fence. RELEASE gives it back, if it has the version that we gave it. Who is refused asks
 * again, later and later; who is broken is told. The answers are those of the recipe queue, and are
 * read there.
 *
 * What can go wrong: nothing ends the lock of who died: it stays until somebody breaks it. Another
 * program that changes a row that is ours: the next renewal, which only looks, hears of that. So a
 * lease is how long we believe without having looked; it ends nothing at the server, and what we
 * believe no longer we give back ourselves. A claim that comes after we gave it up: the server
 * refuses it by its own clock. */
#include "engine/mysql/mysql.h"

static const char *const texts[HF__SQLS] = {
    [HF__SQL_CLAIM] = "CALL hf_version_claim_1(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [HF__SQL_RELEASE] = "CALL hf_version_release_1(?, ?, ?)",
    [HF__SQL_BREAK] = "CALL hf_version_break_1(?, ?)",
    [HF__SQL_TOGETHER] = "CALL hf_version_together_1(?, ?)",
    [HF__SQL_LISTEN] = "CALL hf_version_listen_1(?, ?, ?)",
    [HF__SQL_LOOK] = "SELECT concat(unhex(ousted), 'b'), cast(tag AS char), cast(fence AS char),"
                     " '0' FROM hf_fence WHERE news = ? AND kind = 'hf_version'",
    [HF__SQL_LIST] = "SELECT f.name, '0', '0', cast(f.fence AS char), '',"
                     " cast(" HF__MYSQL_CLOCK " - f.since_us AS char), f.who"
                     " FROM hf_fence AS f JOIN hf_version AS v"
                     " ON v.name = f.name AND v.version = f.version"
                     " WHERE f.kind = 'hf_version' AND f.name BETWEEN ? AND ?"
                     " AND f.name BETWEEN ? AND ? AND v.status <> 0 AND f.owner <> ''"
                     " ORDER BY f.name",
};

const struct hf__mysql_recipe hf__mysql_version = {
    .recipe = {
        .name = "version",
        .url_forms = "mysql://user[:password]@host[:port][,host...]/database?recipe=version"
                     "[&table=NAME]",
        .summary = "A row with a status and a version, taken by comparing the version: excludes, "
                   "and is excluded by, other programs that keep such rows.",
        .caveat = "Nothing ends the lock of a holder that died: it stays until somebody takes it "
                  "away. Not in order of arrival, and who waits asks again and again. The server "
                  "must wait for its disk, or the promises that hang on it are withheld.",
        .schema = hf__sql_version_schema,
        .pattern = HF__PATTERN_LEASE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_DURABLE,
        .is_legacy = true,
        .leases = true,
        .in_session = true,
    },
    .texts = texts,
    .rights = "CALL hf_version_rights_1()",
    .table = "hf_version",
};
