/* named.c: GET_LOCK with the plain name: the lock of many other programs.
 *
 * The happy path, and what can go wrong: anchor.c. What the server knows by this name is the
 * server's, not the database's: whoever uses the same name in another database is excluded too. */
#include "engine/mysql/mysql.h"

#define KIND "'hf_named'"

static const char *const texts[HF__SQLS] = {
    [HF__SQL_RELEASE] = "CALL hf_session_forget_1(" KIND ", ?, ?, ?)",
    [HF__SQL_BREAK] = "CALL hf_session_break_1(" KIND ", ?, ?)",
    [HF__SQL_TOGETHER] = "CALL hf_session_together_1(" KIND ", ?, ?)",
    [HF__SQL_TRY] = "CALL hf_named_try_1(?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [HF__SQL_WAIT] = "SELECT if(get_lock(?, ?) = 1, 'locked', 'refused 1 0 0 0 0 0 ')",
    [HF__SQL_ENTER] = "CALL hf_session_enter_1(" KIND ", ?, ?, ?, ?, ?, ?, ?, ?)",
    [HF__SQL_LEAVE] = "CALL hf_named_leave_1(?, ?, ?)",
    [HF__SQL_LEASE] = "UPDATE hf_session SET lease_us = ?"
                      " WHERE kind = " KIND " AND name = ? AND token = ?",
    [HF__SQL_LIST] = HF__MYSQL_LIST_SESSIONS(KIND),
    [HF__SQL_LISTEN] = "CALL hf_session_listen_1(" KIND ", ?, ?, ?)",
    [HF__SQL_LOOK] = "SELECT concat(token, 'b'), cast(tag AS char), cast(fence AS char), '0'"
                     " FROM hf_session WHERE news = ? AND kind = " KIND,
};

const struct hf__mysql_recipe hf__mysql_named = {
    .recipe = {
        .name = "named",
        .url_forms = "mysql://user[:password]@host[:port][,host...]/database?recipe=named",
        .summary = "GET_LOCK with the plain name, held and waited for by sessions: excludes, and "
                   "is excluded by, other programs that use the same name.",
        .caveat = "A lock ends with its session, so also with the server; other programs get in "
                  "at once then, though the lost holder may not know yet, and ours when its lease "
                  "must have ended, after a holder that stands still up to two leases. The order "
                  "of those who wait is the server's. Woken for up to 16 contended names of a "
                  "client, each on a connection of its own; beyond them by asking again.",
        .schema = hf__sql_named_schema,
        .pattern = HF__PATTERN_QUEUE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_WAKEUP | HF_PROMISE_CRASH,
        .is_legacy = true,
        .hands_on = true,
        .leases = true,
        .in_session = true,
    },
    .texts = texts,
    .rights = "CALL hf_named_rights_1()",
    .moors = true,
};
