/* failure.c: what does an error of the server mean to a lock?
 *
 * Every error has a number. One that the statement met undoes it, and the procedures undo what they
 * had begun: it is certainly not applied. A statement that was killed may have been killed behind
 * its commit: that is UNKNOWN, and the connection ends, for it may stand in the middle of a
 * transaction. So does one that the server ends. */
#include <stdio.h>

#include "engine/mysql/mysql.h"

static const struct {
    uint32_t code;
    int status;
    bool ends;    /* the connection is of no use any more */
    bool perhaps; /* it may have been applied */
    const char *text;
} errors[] = {
    { 1040, HF_ELIMIT, true, false, "the server has too many connections" },
    { 1203, HF_ELIMIT, true, false, "the account has too many connections" },
    { 1226, HF_ELIMIT, true, false, "the account has used what it may" },
    { 1044, HF_EDENIED, true, false, "the account may not use this database" },
    { 1045, HF_EDENIED, true, false, "the user or the password is wrong, or not let in" },
    { 1698, HF_EDENIED, true, false, "the user or the password is wrong, or not let in" },
    { 1820, HF_EDENIED, true, false, "the password has expired" },
    { 1862, HF_EDENIED, true, false, "the password has expired" },
    { 4151, HF_EDENIED, true, false, "the account is locked" },
    { 3118, HF_EDENIED, true, false, "the account is locked" },
    { 1129, HF_EDENIED, true, false, "the server does not talk to this host" },
    { 1130, HF_EDENIED, true, false, "the server does not talk to this host" },
    { 3159, HF_EDENIED, true, false, "the server wants TLS: tls=verify" },
    { 1142, HF_EDENIED, false, false, "the account lacks a right" },
    { 1143, HF_EDENIED, false, false, "the account lacks a right" },
    { 1227, HF_EDENIED, false, false, "the account lacks a right" },
    { 1370, HF_EDENIED, false, false, "the account lacks a right" },
    { 1049, HF_EURL, true, false, "there is no such database" },
    { HF__MYSQL_NO_TABLE, HF_EUNREACHABLE, true, false, "a table of ours is gone" },
    { HF__MYSQL_NO_ROUTINE, HF_EUNREACHABLE, true, false, "a procedure of ours is gone" },
    { 1243, HF_EUNSUPPORTED, true, false,
      "the server forgot a prepared statement: something that hands connections round is in "
      "between" },
    { 1290, HF_EDENIED, true, false, "the server is read-only" },
    { 1792, HF_EDENIED, true, false, "the server is read-only" },
    { 1836, HF_EDENIED, true, false, "the server is read-only" },
    { 1665, HF_EUNSUPPORTED, true, false, "the binary log must be ROW or MIXED (binlog_format)" },
    { 1047, HF_EUNREACHABLE, true, false, "the node is not a part of its cluster now" },
    { 1053, HF_EUNREACHABLE, true, true, "the server is shutting down" },
    { 1205, HF_EUNREACHABLE, false, false, "a row was locked for too long" },
    { 1213, HF_EUNREACHABLE, false, false, "the statement met others, and was undone" },
    { 1020, HF_EUNREACHABLE, false, false, "the statement met others, and was undone" },
    { 1180, HF_EUNREACHABLE, true, true, "the commit failed" },
    { 1021, HF_EUNREACHABLE, false, false, "the server lacks disk or memory" },
    { 1037, HF_EUNREACHABLE, false, false, "the server lacks disk or memory" },
    { 1041, HF_EUNREACHABLE, false, false, "the server lacks disk or memory" },
    { 1114, HF_EUNREACHABLE, false, false, "the server lacks disk or memory" },
    { 1300, HF_ENAME, false, false, "the table has texts for names, and this is none" },
    { 1366, HF_ENAME, false, false, "the table has texts for names, and this is none" },
    { 1406, HF_ENAME, false, false, "the name is too long for the table" },
    { 1054, HF_EPROTOCOL, true, false, "the table lacks a column that the recipe needs" },
    { 1364, HF_EPROTOCOL, true, false, "the table has a column without a default" },
    { HF__MYSQL_INTERRUPTED, HF_EUNREACHABLE, true, true, "the statement was killed" },
    { 1969, HF_EUNREACHABLE, true, true, "the statement was killed (max_statement_time)" },
    { 3024, HF_EUNREACHABLE, true, true, "the statement was killed (max_execution_time)" },
    { 1927, HF_EUNREACHABLE, true, true, "the server ended the connection" },
    { 4031, HF_EUNREACHABLE, true, true, "the server ended the connection" },
};

int hf__failure_greeting(uint32_t code, const char **out_text)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].code != code)
            continue;
        *out_text = errors[i].text;
        return errors[i].status;
    }
    return HF_EUNREACHABLE;
}

/* What it means now: who is in has a good URL, and who is not has named nothing yet. */
static int fit(const struct hf__mysql *conn, const struct hf__result *result, int status)
{
    /* Where there are several, another may be the one that writes now. */
    if ((result->code == 1290 || result->code == 1836) && conn->url->server_count > 1)
        return HF_EUNREACHABLE;
    if (status == HF_EURL && conn->greeted)
        return HF_EUNREACHABLE;
    return status == HF_ENAME && !conn->greeted ? HF_EPROTOCOL : status;
}

int hf__failure_of(enum hf__request_kind kind, int status)
{
    bool names =
        kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_INSPECT || kind == HF__REQUEST_BREAK;

    return status == HF_ENAME && !names ? HF_EPROTOCOL : status;
}

int hf__failure_judge(struct hf__mysql *conn, const struct hf__result *result,
                      enum hf__reply_kind *out_kind)
{
    const char *peer = hf__cable_peer(&conn->cable);
    int status;

    *out_kind = HF__REPLY_FAILED;
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].code != result->code)
            continue;
        status = fit(conn, result, errors[i].status);
        (void)hf__error_set(conn->base.error, status, "%s: %s (%s)", peer, errors[i].text,
                            result->text);
        if (errors[i].perhaps)
            *out_kind = HF__REPLY_UNKNOWN;
        if (errors[i].ends)
            hf__mysql_end(conn, status);
        return status;
    }
    status = hf__error_set(conn->base.error, HF_EPROTOCOL, "%s: the server answered %u: %s", peer,
                           result->code, result->text);
    hf__mysql_end(conn, status);
    *out_kind = HF__REPLY_UNKNOWN;
    return status;
}
