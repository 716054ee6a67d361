/* for_update.c: a row that is locked by SELECT ... FOR UPDATE in a transaction that stays open: the
 * lock of many other programs.
 *
 * The happy path, and what can go wrong: anchor.c. The fence is committed by another session before
 * the grant is told, for what the transaction writes would be undone with it. */
#include "engine/mysql/mysql.h"

#define KIND "'hf_for_update'"

static const char *const texts[HF__SQLS] = {
    [HF__SQL_RELEASE] = "CALL hf_session_forget_1(" KIND ", ?, ?, ?)",
    [HF__SQL_BREAK] = "CALL hf_session_break_1(" KIND ", ?, ?)",
    [HF__SQL_TOGETHER] = "CALL hf_session_together_1(" KIND ", ?, ?)",
    [HF__SQL_TRY] = "CALL hf_for_update_lock_1(?, ?, ?)",
    [HF__SQL_WAIT] = "CALL hf_for_update_lock_1(?, ?, ?)",
    [HF__SQL_ENTER] = "CALL hf_session_enter_1(" KIND ", ?, ?, ?, ?, ?, ?, ?, ?)",
    [HF__SQL_LEAVE] = "CALL hf_for_update_leave_1(?, ?, ?)",
    [HF__SQL_LEASE] = "UPDATE hf_session SET lease_us = ?"
                      " WHERE kind = " KIND " AND name = ? AND token = ?",
    [HF__SQL_LIST] = HF__MYSQL_LIST_SESSIONS(KIND),
    [HF__SQL_LISTEN] = "CALL hf_session_listen_1(" KIND ", ?, ?, ?)",
    [HF__SQL_LOOK] = "SELECT concat(token, 'b'), cast(tag AS char), cast(fence AS char), '0'"
                     " FROM hf_session WHERE news = ? AND kind = " KIND,
};

const struct hf__mysql_recipe hf__mysql_for_update = {
    .recipe = {
        .name = "for-update",
        .url_forms = "mysql://user[:password]@host[:port][,host...]/database?recipe=for-update"
                     "[&table=NAME]",
        .summary = "A row locked by SELECT ... FOR UPDATE in a transaction that stays open: "
                   "excludes, and is excluded by, other programs that lock the same row.",
        .caveat = "A lock ends with its transaction, so also with the server; other programs get "
                  "in at once then, though the lost holder may not know yet, and ours when its "
                  "lease must have ended, after a holder that stands still up to two leases. The "
                  "order of those who wait is the server's. Every lock, held or waited for, has a "
                  "connection of its own: at most 64 of a client, of which 16 may wait; who is "
                  "beyond them asks again. Transactions that stay open keep back the purge of "
                  "InnoDB.",
        .schema = hf__sql_for_update_schema,
        .pattern = HF__PATTERN_QUEUE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_WAKEUP | HF_PROMISE_CRASH,
        .is_legacy = true,
        .hands_on = true,
        .leases = true,
        .in_session = true,
    },
    .texts = texts,
    .rights = "CALL hf_for_update_rights_1()",
    .table = "hf_for_update",
    .moors = true,
    .keeps_open = true,
};
