/* sqlstate.c: what does an error of PostgreSQL mean to a lock?
 *
 * Every error has a code of five letters (Appendix A of its manual). An ERROR undoes the whole
 * statement: it is certainly not applied. A FATAL one ends the connection, perhaps after the commit
 * and before its answer: that is UNKNOWN, unless it came before anything was asked.
 *
 * What can go wrong with a connection that is not there yet is told by libpq as a text alone, in
 * which the code stands because we asked for it. */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "engine/postgres/postgres.h"

#define CODE_BYTES 5

static const struct {
    const char *code; /* or how it begins */
    int status;
    bool ends; /* the connection is of no use any more */
    const char *text;
} errors[] = {
    { "HF001", HF_ELIMIT, false, "65536 claims stand at this lock already" },
    { "HF002", HF_ELIMIT, false, "the fence has reached 2^62" },
    { "HF003", HF_EINTEGRITY, false, "two names have one key, or one name has two" },
    { "28", HF_EDENIED, true, "the user or the password is wrong, or not let in" },
    { "3D000", HF_EURL, true, "there is no such database" },
    { "42501", HF_EDENIED, false, "the account lacks a right" },
    { "42P01", HF_EUNREACHABLE, true, "a table of ours is gone" },
    { "42883", HF_EUNREACHABLE, true, "a function of ours is gone" },
    { "26000", HF_EUNSUPPORTED, true,
      "the server forgot a prepared statement: a pooler that hands connections round is in "
      "between" },
    { "0A000", HF_EUNREACHABLE, true, "the tables have changed" },
    { "53300", HF_ELIMIT, true, "the server has too many connections" },
    { "53", HF_EUNREACHABLE, false, "the server lacks disk or memory" },
    { "57P03", HF_EUNREACHABLE, true, "the server is starting up or shutting down" },
    { "57P", HF_EUNREACHABLE, true, "the server ended the connection" },
    { "57014", HF_EUNREACHABLE, false, "the statement was cancelled" },
    { "58", HF_EUNREACHABLE, false, "the server has trouble with its disk" },
    { "40", HF_EUNREACHABLE, false, "the statement met others, and was undone" },
    { "55P03", HF_EUNREACHABLE, false, "a row was locked for too long" },
    { "25006", HF_EDENIED, true, "the server is read-only" },
    { "25P03", HF_EUNREACHABLE, true, "the server ended the connection" },
    { "08", HF_EUNREACHABLE, true, "the connection failed" },
};

/* One line of what was said, fit to be shown. */
static void shorten(const char *said, char out_text[HF__ERROR_BYTES / 2])
{
    size_t bytes = strcspn(said, "\n");

    if (bytes >= HF__ERROR_BYTES / 2)
        bytes = HF__ERROR_BYTES / 2 - 1;
    (void)hf__text_escape(said, bytes, out_text, HF__ERROR_BYTES / 2);
}

/* HF_OK: not one that we know. */
static int look_up(struct hf__postgres *conn, const char *code, const char *said, bool *out_ends)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        int status = errors[i].status;

        if (strncmp(code, errors[i].code, strlen(errors[i].code)) != 0)
            continue;
        /* Where there are several, another may be the one that writes now. */
        if (strcmp(errors[i].code, "25006") == 0 && conn->url->server_count > 1)
            status = HF_EUNREACHABLE;
        *out_ends = errors[i].ends;
        return hf__error_set(conn->base.error, status, "%s: %s (%s)", conn->peer, errors[i].text,
                             said);
    }
    return HF_OK;
}

bool hf__sqlstate_is_missing(const PGresult *result)
{
    static const char *const codes[] = { "42P01", "42883", "42704", "3F000" };
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    for (size_t i = 0; code && i < sizeof(codes) / sizeof(*codes); i++) {
        if (strcmp(code, codes[i]) == 0)
            return true;
    }
    return false;
}

bool hf__sqlstate_is(const PGresult *result, const char *wanted)
{
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    return code && strcmp(code, wanted) == 0;
}

bool hf__sqlstate_is_refusal(const PGresult *result)
{
    return hf__sqlstate_is(result, "22023");
}

int hf__sqlstate_judge(struct hf__postgres *conn, const PGresult *result,
                       enum hf__reply_kind *out_kind)
{
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    bool lives = severity && strcmp(severity, "ERROR") == 0;
    bool ends = !lives;
    char said[HF__ERROR_BYTES / 2];
    int status = HF_OK;

    shorten(primary ? primary : PQresultErrorMessage(result), said);
    *out_kind = lives && code && strncmp(code, "40003", CODE_BYTES) != 0 ? HF__REPLY_FAILED
                                                                         : HF__REPLY_UNKNOWN;
    if (code)
        status = look_up(conn, code, said, &ends);
    if (status == HF_EURL) /* too late for that */
        status = HF_EPROTOCOL;
    if (status == HF_OK && !code) /* libpq's own words: the connection is gone */
        status = hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: %s", conn->peer, said);
    if (status == HF_OK)
        status = hf__error_set(conn->base.error, HF_EPROTOCOL, "%s: the server answered %.5s: %s",
                               conn->peer, code, said);
    if (ends || !lives)
        hf__postgres_end(conn, status);
    return status;
}

/* "FATAL:  28P01: password ...": two blanks, the code, a colon. */
static const char *find_code(const char *text)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *at = strstr(text, "  ");

    while (at) {
        if (strspn(at + 2, letters) == CODE_BYTES && at[2 + CODE_BYTES] == ':')
            return at + 2;
        at = strstr(at + 1, "  ");
    }
    return NULL;
}

int hf__sqlstate_judge_connect(struct hf__postgres *conn)
{
    const char *text = PQerrorMessage(conn->pg);
    const char *code = find_code(text);
    const char *words = strstr(text, "failed: ");
    char said[HF__ERROR_BYTES / 2];
    bool ends;
    int status = HF_OK;

    assert(conn->pg);
    words = words ? words + strlen("failed: ") : text;
    shorten(code ? code + CODE_BYTES + 2 : words, said);
    if (code && strncmp(code, "28", 2) == 0 && strstr(said, "no encryption"))
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s: not let in, at least not without tls=verify (%s)", conn->peer,
                             said);
    if (code)
        status = look_up(conn, code, said, &ends);
    if (status < 0)
        return status;
    if (PQconnectionNeedsPassword(conn->pg))
        return hf__error_set(conn->base.error, HF_EDENIED, "%s: the server wants a password",
                             conn->peer);
    if (strstr(text, "certificate verify failed"))
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s: the server's certificate is not to be trusted (ca): %s",
                             conn->peer, said);
    if (strstr(text, "certificate") || strstr(text, "alert"))
        return hf__error_set(conn->base.error, HF_EDENIED, "%s: %s", conn->peer, said);
    if (strstr(text, "does not support SSL"))
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "%s: the server does not speak TLS",
                             conn->peer);
    if (strstr(text, "expected authentication request"))
        return hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: no PostgreSQL (%s)",
                             conn->peer, said);
    if (strstr(text, "ermission denied"))
        return hf__error_set(conn->base.error, HF_EDENIED, "%s: %s", conn->peer, said);
    return hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: %s", conn->peer, said);
}
