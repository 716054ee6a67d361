/* raw_postgres.c: what is PostgreSQL measured against?
 *
 * libpq, blocking, one connection for every contender, the least statements that could work, both
 * prepared: INSERT of a row with a unique name takes the lock, DELETE of the own row gives it back.
 * Who is refused asks again after a millisecond. It has no line, no fence and no lease. The rows
 * lie in the table hf_bench_raw, which is made at the beginning and removed at the end.
 *
 * The hand-over is the same: the one who receives asks every millisecond until it has it. Beside it
 * stands that of pg_advisory_lock, where the server wakes who waits; that has no line of ours, no
 * fence and no lease, and nothing of it reaches the disk.
 *
 * What can go wrong: a connection that is refused, a statement that fails: errno says about what,
 * and the run ends. Options of the URL are ours, so that libpq does not see them: no TLS. */
#include <errno.h>
#include <libpq-fe.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "side.h"

#define POLL_NS 1000000u
#define INSERT  "INSERT INTO hf_bench_raw (name, owner) VALUES ($1, $2) ON CONFLICT DO NOTHING"
#define DELETE  "DELETE FROM hf_bench_raw WHERE name = $1 AND owner = $2"
#define LOCK    "SELECT pg_advisory_lock(hashtextextended($1, 0))"
#define UNLOCK  "SELECT pg_advisory_unlock(hashtextextended($1, 0))"

struct raw_postgres {
    PGconn *conn;
    char owner[32];
};

static int fail(int error)
{
    errno = error;
    return HF_ESYSTEM;
}

/* --- connecting --- */

static PGconn *connect_to(const char *url)
{
    char plain[1024];
    PGconn *conn;

    if (snprintf(plain, sizeof(plain), "%s", url) >= (int)sizeof(plain))
        return NULL;
    plain[strcspn(plain, "?")] = '\0';
    conn = PQconnectdb(plain);
    if (PQstatus(conn) == CONNECTION_OK)
        return conn;
    PQfinish(conn);
    return NULL;
}

static bool does(PGresult *result, ExecStatusType wanted)
{
    bool done = PQresultStatus(result) == wanted;

    PQclear(result);
    return done;
}

/* One at a time: two that make the same table at once get in each other's way. */
static bool prepare(PGconn *conn)
{
    return does(PQexec(conn, "SET client_min_messages = error; SELECT pg_advisory_lock(7);"
                             "CREATE TABLE IF NOT EXISTS hf_bench_raw"
                             " (name text PRIMARY KEY, owner text);"
                             "SELECT pg_advisory_unlock(7)"),
                PGRES_TUPLES_OK) &&
           does(PQprepare(conn, "lock", LOCK, 0, NULL), PGRES_COMMAND_OK) &&
           does(PQprepare(conn, "unlock", UNLOCK, 0, NULL), PGRES_COMMAND_OK) &&
           does(PQprepare(conn, "take", INSERT, 0, NULL), PGRES_COMMAND_OK) &&
           does(PQprepare(conn, "give", DELETE, 0, NULL), PGRES_COMMAND_OK);
}

static struct raw_postgres *raw_of(struct bench_seat *seat)
{
    struct raw_postgres *raw = seat->raw;

    if (raw)
        return raw;
    raw = calloc(1, sizeof(*raw));
    if (!raw)
        return NULL;
    seat->raw = raw;
    snprintf(raw->owner, sizeof(raw->owner), "%p-%u", (void *)raw, seat->number);
    raw->conn = connect_to(seat->url);
    if (!raw->conn || !prepare(raw->conn)) {
        errno = ECONNREFUSED;
        return NULL;
    }
    return raw;
}

/* --- one cycle --- */

/* How many rows it touched; < 0: it failed. */
static int execute(struct raw_postgres *raw, const char *statement, const char *name)
{
    const char *values[] = { name, raw->owner };
    PGresult *result = PQexecPrepared(raw->conn, statement, 2, values, NULL, NULL, 0);
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    int count = done && strcmp(PQcmdTuples(result), "1") == 0;

    PQclear(result);
    return done ? count : fail(EPROTO);
}

static int acquire(struct bench_seat *seat)
{
    struct raw_postgres *raw = raw_of(seat);
    int taken;

    if (!raw)
        return HF_ESYSTEM;
    while ((taken = execute(raw, "take", seat->name)) == 0)
        bench_clock_sleep(POLL_NS);
    return taken < 0 ? taken : HF_OK;
}

static int release(struct bench_seat *seat)
{
    return execute(raw_of(seat), "give", seat->name) == 1 ? HF_OK : fail(EPROTO);
}

/* --- the server's own lock --- */

static int select_one(struct bench_seat *seat, const char *statement)
{
    struct raw_postgres *raw = raw_of(seat);
    const char *values[] = { seat->name };

    if (!raw)
        return HF_ESYSTEM;
    return does(PQexecPrepared(raw->conn, statement, 1, values, NULL, NULL, 0), PGRES_TUPLES_OK)
               ? HF_OK
               : fail(EPROTO);
}

static int lock(struct bench_seat *seat)
{
    return select_one(seat, "lock");
}

static int unlock(struct bench_seat *seat)
{
    return select_one(seat, "unlock");
}

/* --- many of them, one after the other --- */

static int execute_all(struct bench_seat *seat, const char *statement)
{
    struct raw_postgres *raw = raw_of(seat);

    if (!raw)
        return HF_ESYSTEM;
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        if (execute(raw, statement, seat->batch.names[i]) != 1) /* they were nobody's */
            return fail(EBUSY);
    }
    return HF_OK;
}

static int acquire_all(struct bench_seat *seat)
{
    return execute_all(seat, "take");
}

static int release_all(struct bench_seat *seat)
{
    return execute_all(seat, "give");
}

/* --- what the server has been asked --- */

/* Every request is a transaction, and the server counts them for each database. A connection tells
 * its own at most once a second, and those of the last seconds when it was idle for a while. */
static double count_requests(const char *url)
{
    PGconn *conn = connect_to(url);
    PGresult *result = NULL;
    double sum = NAN;

    if (conn)
        result = PQexec(conn, "SELECT xact_commit + xact_rollback FROM pg_stat_database"
                              " WHERE datname = current_database()");
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        sum = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    PQfinish(conn);
    return sum;
}

static void tidy(const char *url)
{
    PGconn *conn = connect_to(url);

    if (conn)
        PQclear(PQexec(conn, "SET client_min_messages = error;"
                             "DROP TABLE IF EXISTS hf_bench_raw"));
    PQfinish(conn);
}

static const struct bench_side cycle = { "libpq", acquire, release, NULL, NULL };
static const struct bench_side batch = { "libpq", acquire_all, release_all, NULL, NULL };
static const struct bench_side advisory = { "advisory", lock, unlock, NULL, NULL };

const struct bench_raw bench_raw_postgres = {
    .engine = "postgres",
    .cycle = &cycle,
    .batch = &batch,
    .contended = &cycle,
    .handover = &cycle,
    .handover_beside = &advisory,
    .count_requests = count_requests,
    .counting = 1,
    .counted_after_ns = 11000000000u, /* a connection that rests tells within 10 s */
    .tidy = tidy,
    .sentences = {
        [BENCH_W1] = "libpq, blocking: INSERT of a unique row, then DELETE, both prepared",
        [BENCH_W2] = "the same, 16 threads with a connection each",
        [BENCH_W2B] = "the same, one thread with one connection: 16 times INSERT, 16 times DELETE",
        [BENCH_W3] = "the same, 8 threads with a connection each, asking again after 1 ms",
        [BENCH_W4] = "the same, 4 processes, asking again after 1 ms",
        [BENCH_W5] = "DELETE in one process, INSERT in the other, asking again after 1 ms",
    },
};
