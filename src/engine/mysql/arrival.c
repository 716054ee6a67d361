/* arrival.c: who is the server, may we use it, and what does it promise?
 *
 * One burst of statements opens a connection: settings of this session that the recipe needs, facts
 * about the server, the statements to be prepared, our rights. When all are answered, the
 * connection is up. Where tables or procedures are missing they are made, and what failed is tried
 * once more.
 *
 * What can go wrong: a replica, a server that is read-only, too old, or a node of Galera: the
 * connection ends with the reason (another server of the URL may do). Something in between that
 * hands connections round: the connection that answers is not the one that greeted us; what a
 * session is set to, and its prepared statements, would get lost behind it: refused. No right to
 * make the tables: HF_EDENIED, and where the SQL is to be had. A server that does not wait for its
 * disk is trusted with nothing that hangs on it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/mysql/mysql.h"

#define CREATE_NS     (10 * HF__NS_PER_S)
#define TIME_NS_MAX   (5 * HF__NS_PER_S)
#define FORGETFUL     ((uint32_t)HF_PROMISE_DURABLE | (uint32_t)HF_PROMISE_FENCE)
#define BOUNDARY      "\n//\n"
#define BOUNDARY_LINE "DELIMITER //\n"
#define FACTS         4
#define VARIABLES     2 /* a name and a value */
#define VALUE_BYTES   128

#define CLOCK "cast(" HF__MYSQL_CLOCK " AS char)"

/* Locks are read behind a row that was locked first: each statement must see what is there then.
 * The clock is UTC's. A row that somebody else keeps locked is not waited for without end. */
static const char *const settings[] = {
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = 10,"
    " wait_timeout = 86400, sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"
    " /*M!100101 , max_statement_time = 0 */",
};

static const char facts[] =
    "SELECT cast(connection_id() AS char), version(), " CLOCK ", cast(sysdate(6) > now(6) AS char)";

static const char variables[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'wsrep_on',"
    " 'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'sync_binlog', 'log_bin',"
    " 'version_comment')";

/* --- asking --- */

static int ask(struct hf__mysql *conn, enum hf__arrival_step step, const char *text)
{
    struct hf__parcel *parcel = hf__parcel_new(conn, HF__PARCEL_ARRIVAL, 0);

    if (!parcel)
        return HF_ENOMEM;
    parcel->step = step;
    parcel->deadline_ns = conn->by_ns;
    conn->arrivals_left++;
    return hf__parcel_send(conn, parcel, hf__sql_query(conn, &conn->cable, text));
}

static int prepare(struct hf__mysql *conn, uint32_t index)
{
    struct hf__parcel *parcel = hf__parcel_new(conn, HF__PARCEL_ARRIVAL, 0);

    if (!parcel)
        return HF_ENOMEM;
    parcel->step = HF__ARRIVAL_PREPARE;
    parcel->index = index;
    parcel->deadline_ns = conn->by_ns;
    conn->arrivals_left++;
    return hf__parcel_send(conn, parcel, hf__sql_prepare(conn, &conn->cable, (enum hf__sql)index));
}

static int prepare_all(struct hf__mysql *conn)
{
    int status = HF_OK;

    for (uint32_t i = 0; status == HF_OK && i < HF__SQL_LISTEN; i++)
        status = hf__sql_recipe(conn)->texts[i] ? prepare(conn, i) : HF_OK;
    return status == HF_OK ? ask(conn, HF__ARRIVAL_RIGHTS, hf__sql_recipe(conn)->rights) : status;
}

/* What the bell waits for, and never gets. */
static int ask_to_post(struct hf__mysql *conn)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "DO get_lock('hf_%s!', 0)", conn->client);
    return ask(conn, HF__ARRIVAL_SET, text);
}

int hf__arrival_send(struct hf__mysql *conn)
{
    int status = HF_OK;

    conn->about = (struct hf__mysql_server){ .time_asked_ns = conn->now_ns };
    conn->is_missing = false;
    conn->has_created = false;
    conn->create_status = HF_OK;
    conn->arrivals_left = 0;
    memset(conn->is_crowded, 0, sizeof(conn->is_crowded));
    for (size_t i = 0; status == HF_OK && i < sizeof(settings) / sizeof(*settings); i++)
        status = ask(conn, HF__ARRIVAL_SET, settings[i]);
    if (status == HF_OK && conn->listens)
        status = ask_to_post(conn);
    if (status == HF_OK)
        status = ask(conn, HF__ARRIVAL_FACTS, facts);
    if (status == HF_OK)
        status = ask(conn, HF__ARRIVAL_VARIABLES, variables);
    return status == HF_OK ? prepare_all(conn) : status;
}

int hf__arrival_ask_time(struct hf__mysql *conn)
{
    conn->clock_doubted = false;
    if (!conn->about.is_told)
        return HF_OK; /* the question is under way */
    conn->about.is_told = false;
    conn->about.time_asked_ns = conn->now_ns;
    conn->by_ns = HF__NEVER; /* it stands behind all that was asked before, however long */
    return ask(conn, HF__ARRIVAL_TIME, "SELECT " CLOCK);
}

/* It would notice after some seconds that nobody is there for whom it sleeps. */
int hf__arrival_ask_to_part(struct hf__mysql *conn)
{
    char text[48];

    conn->by_ns = conn->now_ns + CREATE_NS;
    (void)snprintf(text, sizeof(text), "KILL CONNECTION %llu",
                   (unsigned long long)conn->bell.cable.number);
    return ask(conn, HF__ARRIVAL_PART, text);
}

static int ask_to_create_one(struct hf__mysql *conn, const char *text, size_t bytes)
{
    char *statement = hf__env_new(conn->base.env, bytes + 1);
    int status = HF_ENOMEM;

    if (statement) {
        memcpy(statement, text, bytes);
        status = ask(conn, HF__ARRIVAL_CREATE, statement);
    }
    hf__env_free(conn->base.env, statement);
    return status;
}

/* One client at a time. */
static int ask_to_create(struct hf__mysql *conn)
{
    const char *at = strstr(conn->base.recipe->schema, BOUNDARY_LINE) + strlen(BOUNDARY_LINE);
    const char *end = strstr(at, BOUNDARY);
    int status;

    conn->has_created = true;
    conn->is_missing = false;
    conn->by_ns = conn->now_ns + CREATE_NS;
    status = ask(conn, HF__ARRIVAL_CREATE, "DO get_lock('hf_schema', 8)");
    while (status == HF_OK && end) {
        status = ask_to_create_one(conn, at, (size_t)(end - at));
        at = end + strlen(BOUNDARY);
        end = strstr(at, BOUNDARY);
    }
    if (status == HF_OK)
        status = ask(conn, HF__ARRIVAL_CREATE, "DO release_lock('hf_schema')");
    return status == HF_OK ? prepare_all(conn) : status;
}

/* --- hearing --- */

/* Cut where it is too long; "" for NULL. */
static void read_text(struct hf__result *result, char out_text[VALUE_BYTES])
{
    size_t bytes;
    const uint8_t *text = hf__packet_string(&result->row, &bytes);

    bytes = bytes < VALUE_BYTES ? bytes : VALUE_BYTES - 1;
    if (text)
        memcpy(out_text, text, bytes);
    out_text[text ? bytes : 0] = '\0';
}

static int hear_clock(struct hf__mysql *conn, const char *text)
{
    uint64_t us;

    if (!hf__text_to_u64(text, strlen(text), &us) || us > INT64_MAX / 2)
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "%s: the server does not tell the time", hf__cable_peer(&conn->cable));
    conn->about.clock_offset_us = (int64_t)us - (int64_t)(conn->about.time_asked_ns / 1000);
    conn->about.is_told = true;
    return HF_OK;
}

/* An answer that took long says too little about now. If the clock is wrong, somebody will be told
 * so once more. */
static int hear_time(struct hf__mysql *conn, struct hf__result *result)
{
    char text[VALUE_BYTES];

    conn->about.is_told = true;
    if (conn->now_ns - conn->about.time_asked_ns > TIME_NS_MAX)
        return HF_OK;
    read_text(result, text);
    return hear_clock(conn, text);
}

static int check_version(struct hf__mysql *conn, const char *text)
{
    bool maria = strstr(text, "MariaDB") != NULL;
    unsigned major = 0;
    unsigned minor = 0;

    if (sscanf(text, "%3u.%3u", &major, &minor) != 2)
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "%s: no MySQL or MariaDB",
                             hf__cable_peer(&conn->cable));
    conn->about.is_mariadb = maria;
    if (maria ? major > 10 || (major == 10 && minor >= 6) : major >= 8)
        return HF_OK;
    return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                         "%s is %s %u.%u; MariaDB 10.6 or MySQL 8.0 is the least",
                         hf__cable_peer(&conn->cable), maria ? "MariaDB" : "MySQL", major, minor);
}

static int refuse_go_between(struct hf__mysql *conn)
{
    return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                         "%s is not the server but something that hands connections round: connect "
                         "to the server itself",
                         hf__cable_peer(&conn->cable));
}

static int hear_facts(struct hf__mysql *conn, struct hf__result *result)
{
    char text[VALUE_BYTES];
    uint64_t number;
    int status;

    if (result->columns != FACTS) {
        hf__mysql_end_by_nonsense(conn);
        return HF_EPROTOCOL;
    }
    read_text(result, text);
    if (!hf__text_to_u64(text, strlen(text), &number) ||
        (uint32_t)number != (uint32_t)conn->cable.number)
        return refuse_go_between(conn);
    read_text(result, text);
    status = check_version(conn, text);
    if (status < 0)
        return status;
    read_text(result, text);
    status = hear_clock(conn, text);
    if (status < 0)
        return status;
    read_text(result, text);
    if (strcmp(text, "1") != 0)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "%s: SYSDATE() must be the time of day (sysdate-is-now is set)",
                             hf__cable_peer(&conn->cable));
    return HF_OK;
}

static int hear_variable(struct hf__mysql *conn, struct hf__result *result)
{
    const char *peer = hf__cable_peer(&conn->cable);
    char name[VALUE_BYTES];
    char value[VALUE_BYTES];
    bool off;

    if (result->columns != VARIABLES) {
        hf__mysql_end_by_nonsense(conn);
        return HF_EPROTOCOL;
    }
    read_text(result, name);
    read_text(result, value);
    off = strcmp(value, "OFF") == 0 || strcmp(value, "0") == 0;
    if (strstr(name, "read_only") && !off)
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s is a replica, or read-only (%s): locks are taken on the primary",
                             peer, name);
    if (strcmp(name, "wsrep_on") == 0 && !off)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "%s is a node of a Galera cluster: another node may undo at commit "
                             "what this one has answered, and knows nothing of whom to wake",
                             peer);
    if (strcmp(name, "version_comment") == 0 &&
        (strcasestr(value, "proxysql") || strcasestr(value, "maxscale")))
        return refuse_go_between(conn);
    if (strcmp(name, "innodb_flush_log_at_trx_commit") == 0)
        conn->about.flushes = strcmp(value, "1") == 0;
    if (strcmp(name, "innodb_flush_method") == 0)
        conn->about.forgets = strcasestr(value, "nosync") != NULL;
    if (strcmp(name, "log_bin") == 0)
        conn->about.has_log = !off;
    if (strcmp(name, "sync_binlog") == 0)
        conn->about.syncs_log = strcmp(value, "1") == 0;
    return HF_OK;
}

static int refuse(struct hf__mysql *conn, const struct hf__parcel *parcel,
                  const struct hf__result *result)
{
    enum hf__reply_kind kind;
    bool missing = result->code == HF__MYSQL_NO_TABLE || result->code == HF__MYSQL_NO_ROUTINE;
    int status;

    if (parcel->step == HF__ARRIVAL_PART)
        return HF_OK; /* it has gone by itself */
    if (missing && (parcel->step == HF__ARRIVAL_PREPARE || parcel->step == HF__ARRIVAL_RIGHTS)) {
        conn->is_missing = true;
        return HF_OK;
    }
    status = hf__failure_judge(conn, result, &kind);
    if (parcel->step != HF__ARRIVAL_CREATE)
        return status;
    conn->ending = false; /* perhaps somebody else has made them meanwhile */
    if (conn->create_status == HF_OK)
        (void)hf__text_copy(conn->create_error, sizeof(conn->create_error), conn->base.error);
    conn->create_status = status;
    return HF_OK;
}

/* What hangs on the answer cannot be done without it. */
static int check_told(struct hf__mysql *conn, const struct hf__parcel *parcel)
{
    bool asks = parcel->step == HF__ARRIVAL_FACTS || parcel->step == HF__ARRIVAL_TIME;

    if (!asks || conn->about.is_told)
        return HF_OK;
    hf__mysql_end_by_nonsense(conn);
    return HF_EPROTOCOL;
}

int hf__arrival_hear(struct hf__mysql *conn, const struct hf__parcel *parcel,
                     struct hf__result *result)
{
    if (result->kind == HF__RESULT_ERROR)
        return refuse(conn, parcel, result);
    if (result->kind == HF__RESULT_PREPARED) {
        conn->statements[parcel->index] = result->code;
        return HF_OK;
    }
    if (result->kind != HF__RESULT_ROW)
        return result->is_last ? check_told(conn, parcel) : HF_OK;
    switch (parcel->step) {
    case HF__ARRIVAL_FACTS:
        return hear_facts(conn, result);
    case HF__ARRIVAL_VARIABLES:
        return hear_variable(conn, result);
    case HF__ARRIVAL_TIME:
        return hear_time(conn, result);
    case HF__ARRIVAL_SET:
    case HF__ARRIVAL_PREPARE:
    case HF__ARRIVAL_RIGHTS:
    case HF__ARRIVAL_CREATE:
    case HF__ARRIVAL_PART:
        break; /* none of these has rows */
    }
    hf__mysql_end_by_nonsense(conn);
    return HF_EPROTOCOL;
}

/* --- arriving --- */

/* Why not all of it can be promised. */
static void judge(struct hf__mysql *conn)
{
    const struct hf__mysql_server *about = &conn->about;
    struct hf__conn *base = &conn->base;
    const char *why = "";

    base->promises = base->recipe->promises;
    if (!about->flushes || about->forgets)
        why = "the server does not wait for its disk (innodb_flush_log_at_trx_commit)";
    else if (about->has_log && !about->syncs_log)
        why = "the binary log may lack what was confirmed (sync_binlog is not 1)";
    if (*why)
        base->promises &= ~FORGETFUL;
    (void)hf__text_copy(base->withheld, sizeof(base->withheld), why);
}

static int tell_missing(struct hf__mysql *conn)
{
    const char *table = hf__sql_recipe(conn)->table;
    bool is_theirs = table && *conn->table;
    bool is_ours = !is_theirs && strcmp(conn->prefix, HF__DATABASE_PREFIX) == 0;
    char instead[128] = "";

    if (conn->create_status == HF_OK)
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "%s: the tables of ours are not found after they were made",
                             hf__cable_peer(&conn->cable));
    if (!is_ours)
        (void)snprintf(instead, sizeof(instead), " with %s for %s",
                       is_theirs ? conn->table : conn->prefix,
                       is_theirs ? table : HF__DATABASE_PREFIX);
    return hf__error_set(conn->base.error, conn->create_status,
                         "tables or procedures are missing; run what `holdfast engines --schema "
                         "mysql` prints%s, for they could not be made: %s",
                         instead, conn->create_error);
}

int hf__arrival_finish(struct hf__mysql *conn)
{
    assert(conn->arrivals_left > 0);

    if (--conn->arrivals_left > 0 || conn->greeted || conn->ending)
        return HF_OK;
    if (conn->is_missing)
        return conn->has_created ? tell_missing(conn) : ask_to_create(conn);
    judge(conn);
    conn->greeted = true;
    return HF_OK;
}
