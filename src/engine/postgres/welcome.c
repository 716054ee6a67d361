/* welcome.c: who is the server, may we use it, and what does it promise?
 *
 * One burst of statements opens a connection: facts about the server (and settings of this session
 * that the recipe needs), LISTEN for messages, the statements to be prepared, our rights. When all
 * are answered, the connection is up. Where tables or functions are missing they are made, and what
 * failed is tried once more.
 *
 * What can go wrong: a replica, a server that is read-only or too old: the connection ends with the
 * reason (another server of the URL may do). A pooler: the process that answers is not the one that
 * greeted us; messages and prepared statements would get lost behind it: refused. No right to make
 * the tables: HF_EDENIED, and where the SQL is to be had. A server that does not wait for its disk
 * is trusted with nothing that hangs on it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/postgres/postgres.h"

#define CREATE_NS            (5 * HF__NS_PER_S)
#define TIME_NS_MAX          (5 * HF__NS_PER_S)
#define VERSION_MIN          120000
#define VERSION_MIN_ADVISORY 140000 /* which ends sessions that are silent */
#define FORGETFUL            ((uint32_t)HF_PROMISE_DURABLE | (uint32_t)HF_PROMISE_FENCE)

#define CLOCK "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

enum fact {
    FACT_VERSION,
    FACT_RECOVERY,
    FACT_READ_ONLY,
    FACT_PROCESS,
    FACT_FSYNC,
    FACT_FULL_PAGES,
    FACT_STARTED,
    FACT_CLOCK,
};

/* Locks are read behind a row that was locked first: each statement must see what is there then,
 * and not what was there when the transaction began. And always by the index: in a table of few
 * rows that change often, most are dead. */
static const char facts[] =
    "SELECT current_setting('server_version_num'), pg_is_in_recovery(),"
    " current_setting('default_transaction_read_only') = 'on', pg_backend_pid(),"
    " current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',"
    " (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, " CLOCK ","
    " set_config('default_transaction_isolation', 'read committed', false),"
    " CASE WHEN current_setting('synchronous_commit') = 'off'"
    " THEN set_config('synchronous_commit', 'on', false) END,"
    " CASE WHEN current_setting('server_version_num')::integer >= 140000"
    " THEN set_config('idle_session_timeout', '0', false) END,"
    " set_config('jit', 'off', false), set_config('enable_seqscan', 'off', false),"
    " set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)";

static const char rights[] =
    "SELECT bool_and(has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')"
    " AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')),"
    " bool_and(relpersistence = 'p') FROM pg_class"
    " WHERE oid IN (";

/* Of the server while we stand in line: is whoever waits still there? Not every system can tell. */
static const char watch[] = "SELECT set_config('client_connection_check_interval', '500', false)";

/* --- asking --- */

static struct hf__errand *begin(struct hf__postgres *conn, enum hf__welcome_step step)
{
    struct hf__errand *errand = hf__errand_new(conn, HF__ERRAND_WELCOME, 0);

    if (!errand)
        return NULL;
    errand->step = step;
    errand->deadline_ns = conn->dial.by_ns;
    conn->welcomes_left++;
    return errand;
}

/* The text is taken over. */
static int ask(struct hf__postgres *conn, enum hf__welcome_step step, char *text)
{
    struct hf__errand *errand = text ? begin(conn, step) : NULL;
    int status = HF_ENOMEM;

    if (errand)
        status = hf__errand_send(conn, errand,
                                 PQsendQueryParams(conn->pg, text, 0, NULL, NULL, NULL, NULL, 0));
    else
        (void)hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    hf__env_free(conn->base.env, text);
    return status;
}

static int ask_prefixed(struct hf__postgres *conn, enum hf__welcome_step step, const char *text)
{
    return ask(conn, step, hf__statement_prefixed(conn, text));
}

static int prepare(struct hf__postgres *conn, uint32_t index)
{
    char *text = hf__statement_prefixed(conn, hf__statement_text((enum hf__statement)index));
    struct hf__errand *errand = text ? begin(conn, HF__WELCOME_PREPARE) : NULL;
    int status = HF_ENOMEM;

    if (errand) {
        errand->index = index;
        status = hf__errand_send(
            conn, errand,
            PQsendPrepare(conn->pg, hf__statement_name((enum hf__statement)index), text, 0, NULL));
    } else {
        (void)hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    }
    hf__env_free(conn->base.env, text);
    return status;
}

static int ask_for_rights(struct hf__postgres *conn)
{
    char text[sizeof(rights) + 64];
    bool advises = hf__postgres_is_advisory(conn);

    (void)snprintf(text, sizeof(text), "%s'%s'::regclass, '%s'::regclass)", rights,
                   advises ? "hf_fence" : "hf_lock", advises ? "hf_session" : "hf_place");
    return ask_prefixed(conn, HF__WELCOME_RIGHTS, text);
}

static int prepare_all(struct hf__postgres *conn)
{
    int status = HF_OK;

    for (uint32_t i = 0; status == HF_OK && i < HF__STATEMENTS; i++) {
        if (hf__statement_is_for(conn, (enum hf__statement)i) && !(conn->prepared & (1u << i)))
            status = prepare(conn, i);
    }
    return status == HF_OK ? ask_for_rights(conn) : status;
}

static int ask_to_listen(struct hf__postgres *conn)
{
    char text[64];

    if (!conn->listens)
        return HF_OK;
    (void)snprintf(text, sizeof(text), "LISTEN " HF__DATABASE_PREFIX "%s", conn->client);
    return ask_prefixed(conn, HF__WELCOME_LISTEN, text);
}

int hf__welcome_send(struct hf__postgres *conn)
{
    int status;

    conn->server = (struct hf__postgres_server){ .time_asked_ns = conn->now_ns };
    conn->prepared = 0;
    conn->is_missing = false;
    conn->has_created = false;
    conn->create_status = HF_OK;
    conn->welcomes_left = 0;
    status = ask_prefixed(conn, HF__WELCOME_FACTS, facts);
    if (status == HF_OK)
        status = ask_to_listen(conn);
    if (status == HF_OK && hf__postgres_is_advisory(conn))
        status = ask_prefixed(conn, HF__WELCOME_WATCH, watch);
    return status == HF_OK ? prepare_all(conn) : status;
}

int hf__welcome_ask_time(struct hf__postgres *conn)
{
    conn->clock_doubted = false;
    if (conn->server.is_asked_time)
        return HF_OK;
    conn->server.is_asked_time = true;
    conn->server.time_asked_ns = conn->now_ns;
    conn->dial.by_ns = HF__NEVER; /* it stands behind all that was asked before, however long */
    return ask_prefixed(conn, HF__WELCOME_TIME, "SELECT " CLOCK);
}

/* All in one transaction, and one client at a time: CREATE TABLE IF NOT EXISTS alone fails where
 * two come at once. */
static int ask_to_create(struct hf__postgres *conn)
{
    static const char before[] =
        "DO $holdfast$ BEGIN PERFORM pg_advisory_xact_lock(5215575683468094575);\n";
    static const char after[] = "END $holdfast$";
    const char *schema = conn->base.recipe->schema;
    size_t bytes = sizeof(before) + strlen(schema) + sizeof(after);
    char *text = hf__env_new(conn->base.env, bytes);
    int status;

    if (!text)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    (void)snprintf(text, bytes, "%s%s%s", before, schema, after);
    conn->has_created = true;
    conn->is_missing = false;
    conn->dial.by_ns = conn->now_ns + CREATE_NS;
    status = ask_prefixed(conn, HF__WELCOME_CREATE, text);
    hf__env_free(conn->base.env, text);
    return status == HF_OK ? prepare_all(conn) : status;
}

/* --- hearing --- */

static bool is_true(const PGresult *result, int column)
{
    return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

static int hear_clock(struct hf__postgres *conn, const char *text)
{
    uint64_t us;

    if (!hf__text_to_u64(text, strlen(text), &us) || us > INT64_MAX / 2)
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "%s: the server does not tell the time", conn->peer);
    conn->server.clock_offset_us = (int64_t)us - (int64_t)(conn->server.time_asked_ns / 1000);
    return HF_OK;
}

/* An answer that took long says too little about now. If the clock is wrong, somebody will be told
 * so once more. */
static int hear_time(struct hf__postgres *conn, const PGresult *result)
{
    conn->server.is_asked_time = false;
    if (conn->now_ns - conn->server.time_asked_ns > TIME_NS_MAX)
        return HF_OK;
    return hear_clock(conn, PQgetvalue(result, 0, 0));
}

static int hear_facts(struct hf__postgres *conn, const PGresult *result)
{
    char process[16];
    uint64_t version;
    bool advises = hf__postgres_is_advisory(conn);
    const char *text = PQgetvalue(result, 0, FACT_VERSION);
    const char *started = PQgetvalue(result, 0, FACT_STARTED);

    if (!hf__text_to_u64(text, strlen(text), &version) || version > INT32_MAX)
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "%s: no PostgreSQL", conn->peer);
    if (version < (advises ? VERSION_MIN_ADVISORY : VERSION_MIN))
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "%s is PostgreSQL %d; %d is the least", conn->peer,
                             (int)(version / 10000), advises ? 14 : 12);
    if (is_true(result, FACT_RECOVERY))
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s is a replica: locks are taken on its primary", conn->peer);
    if (is_true(result, FACT_READ_ONLY))
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s is read-only (default_transaction_read_only)", conn->peer);
    (void)snprintf(process, sizeof(process), "%d", PQbackendPID(conn->pg));
    if (strcmp(process, PQgetvalue(result, 0, FACT_PROCESS)) != 0)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "%s is a pooler: locks need a connection to the server itself",
                             conn->peer);
    if (!hf__text_to_u64(started, strlen(started), &conn->server.started_us))
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "%s: no PostgreSQL", conn->peer);
    if (conn->main && conn->server.started_us != conn->main->server.started_us)
        return hf__error_set(conn->base.error, HF_EUNREACHABLE,
                             "%s is not the server that has the locks", conn->peer);
    conn->server.version = (int)version;
    conn->server.forgets = !is_true(result, FACT_FSYNC) || !is_true(result, FACT_FULL_PAGES);
    return hear_clock(conn, PQgetvalue(result, 0, FACT_CLOCK));
}

static int hear_rights(struct hf__postgres *conn, const PGresult *result)
{
    bool advises = hf__postgres_is_advisory(conn);

    if (!is_true(result, 0))
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "'%s' needs SELECT, INSERT, UPDATE, DELETE on %s%s and %s%s",
                             conn->url->user, conn->prefix, advises ? "fence" : "lock",
                             conn->prefix, advises ? "session" : "place");
    conn->server.unlogged = !is_true(result, 1);
    return HF_OK;
}

static int refuse(struct hf__postgres *conn, const struct hf__errand *errand,
                  const PGresult *result)
{
    enum hf__reply_kind kind;
    bool missing = hf__sqlstate_is_missing(result);
    int status;

    if (missing && (errand->step == HF__WELCOME_PREPARE || errand->step == HF__WELCOME_RIGHTS)) {
        conn->is_missing = true;
        return HF_OK;
    }
    if (errand->step == HF__WELCOME_WATCH && hf__sqlstate_is_refusal(result))
        return HF_OK;
    status = hf__sqlstate_judge(conn, result, &kind);
    if (errand->step != HF__WELCOME_CREATE || conn->ending)
        return status;
    conn->create_status = status; /* perhaps somebody else has made them meanwhile */
    (void)hf__text_copy(conn->create_error, sizeof(conn->create_error), conn->base.error);
    return HF_OK;
}

int hf__welcome_hear(struct hf__postgres *conn, const struct hf__errand *errand,
                     const PGresult *result)
{
    static const int columns[] = {
        [HF__WELCOME_FACTS] = FACT_CLOCK + 8,
        [HF__WELCOME_RIGHTS] = 2,
        [HF__WELCOME_TIME] = 1,
        [HF__WELCOME_WATCH] = 1,
        [HF__WELCOME_LISTEN] = 0,
        [HF__WELCOME_CREATE] = 0,
        [HF__WELCOME_PREPARE] = 0,
    };
    ExecStatusType got = PQresultStatus(result);
    bool has_row = columns[errand->step] > 0;

    if (got == PGRES_FATAL_ERROR)
        return refuse(conn, errand, result);
    if (got != (has_row ? PGRES_TUPLES_OK : PGRES_COMMAND_OK) ||
        (has_row && (PQntuples(result) != 1 || PQnfields(result) != columns[errand->step])))
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "%s: the server answered what it never should", conn->peer);
    switch (errand->step) {
    case HF__WELCOME_FACTS:
        return hear_facts(conn, result);
    case HF__WELCOME_RIGHTS:
        return hear_rights(conn, result);
    case HF__WELCOME_TIME:
        return hear_time(conn, result);
    case HF__WELCOME_PREPARE:
        conn->prepared |= 1u << errand->index;
        return HF_OK;
    case HF__WELCOME_LISTEN:
    case HF__WELCOME_CREATE:
    case HF__WELCOME_WATCH:
        return HF_OK;
    }
    return HF_EPROTOCOL;
}

/* --- arriving --- */

/* Why not all of it can be promised. */
static void judge(struct hf__postgres *conn)
{
    struct hf__conn *base = &conn->base;

    base->promises = base->recipe->promises;
    *base->withheld = '\0';
    if (conn->server.forgets || conn->server.unlogged)
        base->promises &= ~FORGETFUL;
    if (conn->server.unlogged)
        (void)hf__text_copy(base->withheld, sizeof(base->withheld),
                            "the tables are emptied by a crash (UNLOGGED)");
    else if (conn->server.forgets)
        (void)hf__text_copy(base->withheld, sizeof(base->withheld),
                            "the server does not wait for its disk (fsync, full_page_writes)");
}

static int tell_missing(struct hf__postgres *conn)
{
    bool is_ours = strcmp(conn->prefix, HF__DATABASE_PREFIX) == 0;
    char instead[64] = "";

    if (conn->create_status == HF_OK)
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "%s: the tables of ours are not found after they were made",
                             conn->peer);
    if (!is_ours)
        (void)snprintf(instead, sizeof(instead), " with %s for %s", conn->prefix,
                       HF__DATABASE_PREFIX);
    return hf__error_set(conn->base.error, conn->create_status,
                         "tables or functions are missing; run what `holdfast engines --schema "
                         "postgres` prints%s, for they could not be made: %s",
                         instead, conn->create_error);
}

int hf__welcome_arrive(struct hf__postgres *conn)
{
    int status;

    assert(conn->welcomes_left > 0);

    if (--conn->welcomes_left > 0 || conn->greeted || conn->ending)
        return HF_OK;
    if (conn->is_missing) {
        status = conn->has_created ? tell_missing(conn) : ask_to_create(conn);
        hf__errand_flush(conn);
        return status;
    }
    judge(conn);
    conn->greeted = true;
    return HF_OK;
}
