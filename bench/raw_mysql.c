/* raw_mysql.c: what is MySQL measured against?
 *
 * MariaDB's Connector/C, blocking, one connection for every contender, the least statements that
 * could work, both prepared: INSERT of a row with a unique name takes the lock, DELETE of the own
 * row gives it back, each a transaction of its own. Who is refused asks again after a millisecond.
 * It has no line, no fence and no lease. The rows lie in the table hf_bench_raw, which is dropped
 * at the end.
 *
 * The hand-over is the same: the one who receives asks every millisecond until it has it. It is
 * printed beside that of GET_LOCK, which the server wakes.
 *
 * What can go wrong: a connection that is refused, a statement that fails: errno says about what,
 * and the run ends. Options of the URL are ours, but for socket: no TLS. */
#include <errno.h>
#include <math.h>
#include <mysql.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "side.h"

#define POLL_NS   1000000u
#define DUPLICATE 1062u
#define DEADLOCK  1213u /* InnoDB's answer to many who insert and delete the same key */
#define PORT      3306u
#define INSERT    "INSERT INTO hf_bench_raw (name, owner) VALUES (?, ?)"
#define DELETE    "DELETE FROM hf_bench_raw WHERE name = ? AND owner = ?"
#define LOCK      "DO get_lock(?, 60)"
#define UNLOCK    "DO release_lock(?)"

struct raw_mysql {
    MYSQL *conn;
    MYSQL_STMT *take;
    MYSQL_STMT *give;
    MYSQL_STMT *lock;
    MYSQL_STMT *unlock;
    char owner[32];
};

static int fail(int error)
{
    errno = error;
    return HF_ESYSTEM;
}

/* --- the URL --- */

struct target {
    char user[128];
    char password[128];
    char host[256];
    char database[128];
    char socket[256];
    unsigned port;
};

static int digit_of(char digit)
{
    const char *at = strchr("0123456789abcdef", digit | 0x20);

    return digit && at ? (int)(at - "0123456789abcdef") : -1;
}

/* Percent-decoded; cut where it is too long. */
static void decode(const char *from, size_t count, char *out_text, size_t bytes)
{
    size_t used = 0;

    for (size_t i = 0; i < count && used + 1 < bytes; i++) {
        bool is_coded = from[i] == '%' && i + 2 < count && digit_of(from[i + 1]) >= 0 &&
                        digit_of(from[i + 2]) >= 0;

        out_text[used++] =
            is_coded ? (char)(16 * digit_of(from[i + 1]) + digit_of(from[i + 2])) : from[i];
        i += is_coded ? 2 : 0;
    }
    out_text[used] = '\0';
}

/* scheme://user[:password]@host[:port]/database[?...socket=PATH...] */
static bool read_url(const char *url, struct target *out_target)
{
    const char *at = strstr(url, "://");
    const char *sign = at ? strchr(at, '@') : NULL;
    const char *slash = sign ? strchr(sign, '/') : NULL;
    const char *options = url + strcspn(url, "?");
    const char *path = strstr(options, "socket=");
    size_t name;
    size_t host;

    *out_target = (struct target){ .port = PORT };
    if (!slash)
        return false;
    at += 3;
    name = strcspn(at, ":@");
    decode(at, name, out_target->user, sizeof(out_target->user));
    if (at[name] == ':')
        decode(at + name + 1, (size_t)(sign - at) - name - 1, out_target->password,
               sizeof(out_target->password));
    host = strcspn(sign + 1, ":/,");
    decode(sign + 1, host, out_target->host, sizeof(out_target->host));
    if (sign[1 + host] == ':')
        out_target->port = (unsigned)strtoul(sign + 2 + host, NULL, 10);
    decode(slash + 1, strcspn(slash + 1, "?"), out_target->database, sizeof(out_target->database));
    if (path)
        decode(path + 7, strcspn(path + 7, "&"), out_target->socket, sizeof(out_target->socket));
    return true;
}

/* --- connecting --- */

static MYSQL *connect_to(const char *url)
{
    unsigned infile = 0;
    struct target target;
    MYSQL *conn;

    if (!read_url(url, &target))
        return NULL;
    conn = mysql_init(NULL);
    if (!conn)
        return NULL;
    mysql_options(conn, MYSQL_OPT_LOCAL_INFILE, &infile);
    if (mysql_real_connect(conn, *target.socket ? NULL : target.host, target.user, target.password,
                           target.database, target.port, *target.socket ? target.socket : NULL, 0))
        return conn;
    mysql_close(conn);
    return NULL;
}

static MYSQL_STMT *prepare_one(MYSQL *conn, const char *text)
{
    MYSQL_STMT *statement = mysql_stmt_init(conn);

    if (statement && mysql_stmt_prepare(statement, text, strlen(text)) != 0) {
        mysql_stmt_close(statement);
        return NULL;
    }
    return statement;
}

static bool prepare(struct raw_mysql *raw)
{
    if (mysql_query(raw->conn, "CREATE TABLE IF NOT EXISTS hf_bench_raw (name varchar(200)"
                               " PRIMARY KEY, owner varchar(64)) ENGINE = InnoDB") != 0)
        return false;
    raw->take = prepare_one(raw->conn, INSERT);
    raw->give = prepare_one(raw->conn, DELETE);
    raw->lock = prepare_one(raw->conn, LOCK);
    raw->unlock = prepare_one(raw->conn, UNLOCK);
    return raw->take && raw->give && raw->lock && raw->unlock;
}

static struct raw_mysql *raw_of(struct bench_seat *seat)
{
    struct raw_mysql *raw = seat->raw;

    if (raw)
        return raw;
    raw = calloc(1, sizeof(*raw));
    if (!raw)
        return NULL;
    seat->raw = raw;
    snprintf(raw->owner, sizeof(raw->owner), "%p-%u", (void *)raw, seat->number);
    raw->conn = connect_to(seat->url);
    if (!raw->conn || !prepare(raw)) {
        errno = ECONNREFUSED;
        return NULL;
    }
    return raw;
}

/* --- one cycle --- */

/* How many rows it touched; < 0: it failed. */
static int execute(struct raw_mysql *raw, MYSQL_STMT *statement, const char *name)
{
    char text[256];
    unsigned long lengths[] = { (unsigned long)snprintf(text, sizeof(text), "%s", name),
                                strlen(raw->owner) };
    MYSQL_BIND values[2] = {
        { .buffer_type = MYSQL_TYPE_STRING, .buffer = text, .length = &lengths[0] },
        { .buffer_type = MYSQL_TYPE_STRING, .buffer = raw->owner, .length = &lengths[1] },
    };

    if (mysql_stmt_bind_param(statement, values) != 0)
        return fail(EPROTO);
    if (mysql_stmt_execute(statement) == 0)
        return (int)mysql_stmt_affected_rows(statement);
    if (mysql_stmt_errno(statement) == DUPLICATE || mysql_stmt_errno(statement) == DEADLOCK)
        return 0;
    return fail(EPROTO);
}

static int acquire(struct bench_seat *seat)
{
    struct raw_mysql *raw = raw_of(seat);
    int taken;

    if (!raw)
        return HF_ESYSTEM;
    while ((taken = execute(raw, raw->take, seat->name)) == 0)
        bench_clock_sleep(POLL_NS);
    return taken < 0 ? taken : HF_OK;
}

static int release(struct bench_seat *seat)
{
    struct raw_mysql *raw = raw_of(seat);
    int given;

    do
        given = execute(raw, raw->give, seat->name);
    while (given == 0 && mysql_stmt_errno(raw->give) == DEADLOCK);
    return given == 1 ? HF_OK : fail(EPROTO);
}

/* --- the server's own lock --- */

static int lock(struct bench_seat *seat)
{
    struct raw_mysql *raw = raw_of(seat);

    return raw && execute(raw, raw->lock, seat->name) == 0 ? HF_OK : fail(EPROTO);
}

static int unlock(struct bench_seat *seat)
{
    struct raw_mysql *raw = raw_of(seat);

    return raw && execute(raw, raw->unlock, seat->name) == 0 ? HF_OK : fail(EPROTO);
}

/* --- many of them, one after the other --- */

static int acquire_all(struct bench_seat *seat)
{
    struct raw_mysql *raw = raw_of(seat);

    for (uint32_t i = 0; raw && i < BENCH_BATCH; i++) {
        if (execute(raw, raw->take, seat->batch.names[i]) != 1) /* they were nobody's */
            return fail(EBUSY);
    }
    return raw ? HF_OK : HF_ESYSTEM;
}

static int release_all(struct bench_seat *seat)
{
    struct raw_mysql *raw = raw_of(seat);

    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (execute(raw, raw->give, seat->batch.names[i]) != 1)
            return fail(EBUSY);
    }
    return HF_OK;
}

/* --- what the server has been asked --- */

/* Statements of clients, and not those within procedures. */
static double count_requests(const char *url)
{
    MYSQL *conn = connect_to(url);
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    double sum = NAN;

    if (conn && mysql_query(conn, "SHOW GLOBAL STATUS LIKE 'Questions'") == 0)
        result = mysql_store_result(conn);
    if (result)
        row = mysql_fetch_row(result);
    if (row && row[1])
        sum = strtod(row[1], NULL);
    mysql_free_result(result);
    if (conn)
        mysql_close(conn);
    return sum;
}

static void tidy(const char *url)
{
    MYSQL *conn = connect_to(url);

    if (conn) {
        (void)mysql_query(conn, "DROP TABLE IF EXISTS hf_bench_raw");
        mysql_close(conn);
    }
}

static const struct bench_side cycle = { "Connector/C", acquire, release, NULL, NULL };
static const struct bench_side batch = { "Connector/C", acquire_all, release_all, NULL, NULL };
static const struct bench_side own = { "GET_LOCK", lock, unlock, NULL, NULL };

const struct bench_raw bench_raw_mysql = {
    .engine = "mysql",
    .cycle = &cycle,
    .batch = &batch,
    .contended = &cycle,
    .handover = &cycle,
    .handover_beside = &own,
    .count_requests = count_requests,
    .counting = 1,
    .tidy = tidy,
    .sentences = {
        [BENCH_W1] = "Connector/C, blocking: INSERT of a unique row, then DELETE, both prepared",
        [BENCH_W2] = "the same, 16 threads with a connection each",
        [BENCH_W2B] = "the same, one thread with one connection: 16 times INSERT, 16 times DELETE",
        [BENCH_W3] = "the same, 8 threads with a connection each, asking again after 1 ms",
        [BENCH_W4] = "the same, 4 processes, asking again after 1 ms",
        [BENCH_W5] = "DELETE in one process, INSERT in the other, asking again after 1 ms",
    },
};
