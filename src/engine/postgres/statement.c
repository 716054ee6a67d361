/* statement.c: which SQL is it, and what is in its parameters?
 *
 * Every operation is one call of a function (schema.sql), prepared once. Parameters travel in
 * PostgreSQL's binary form: bytes as they are, numbers with the highest byte first, arrays with a
 * head of five numbers and the length before each element. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/clock.h"
#include "engine/postgres/postgres.h"

#define PARAMETERS_MAX 11
#define OID_BOOL       16
#define OID_BYTEA      17
#define OID_INT8       20
#define OID_UUID       2950

static const struct {
    const char *name;
    const char *text;
} statements[] = {
    [HF__STATEMENT_CLAIM] = { "claim",
                              "SELECT hf_claim_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)" },
    [HF__STATEMENT_RELEASE] = { "release", "SELECT hf_release_1($1, $2, $3, $4)" },
    [HF__STATEMENT_LOWER] = { "lower", "SELECT hf_lower_1($1, $2)" },
    [HF__STATEMENT_BREAK] = { "break", "SELECT hf_break_1($1, $2)" },
    [HF__STATEMENT_RENEW] = { "renew", "SELECT unnest(hf_renew_1($1, $2, $3, $4))" },
    [HF__STATEMENT_REFRESH] = { "refresh", "SELECT unnest(hf_refresh_1($1, $2, $3))" },
    [HF__STATEMENT_LIST] = { "list", "SELECT * FROM hf_list_1($1, $2)" },
    [HF__STATEMENT_ADVISORY_TRY] = { "try", "SELECT hf_advisory_try_1($1, $2, $3, $4, $5, $6, $7, "
                                            "$8, $9, $10, $11)" },
    [HF__STATEMENT_ADVISORY_WAIT] = { "wait", "SELECT hf_advisory_wait_1($1, $2, $3)" },
    [HF__STATEMENT_ADVISORY_LOOK] = { "look", "SELECT hf_advisory_look_1($1, $2, $3, $4, $5, $6, "
                                              "$7, $8, $9)" },
    [HF__STATEMENT_ADVISORY_ENTER] = { "enter", "SELECT hf_advisory_enter_1($1, $2, $3, $4, $5, "
                                                "$6, $7, $8, $9, $10)" },
    [HF__STATEMENT_ADVISORY_LEAVE] = { "leave", "SELECT hf_advisory_leave_1($1, $2, $3, $4, $5)" },
    [HF__STATEMENT_ADVISORY_QUIT] = { "quit", "SELECT hf_advisory_quit_1($1, $2, $3)" },
    [HF__STATEMENT_ADVISORY_LOWER] = { "lower", "SELECT hf_advisory_lower_1($1, $2, $3)" },
    [HF__STATEMENT_ADVISORY_FORGET] = { "forget", "SELECT hf_advisory_forget_1($1, $2)" },
    [HF__STATEMENT_ADVISORY_BREAK] = { "break", "SELECT hf_advisory_break_1($1, $2)" },
    [HF__STATEMENT_ADVISORY_RENEW] = { "renew",
                                       "SELECT unnest(hf_advisory_renew_1($1, $2, $3, $4))" },
    [HF__STATEMENT_ADVISORY_LIST] = { "list", "SELECT * FROM hf_advisory_list_1($1, $2)" },
    [HF__STATEMENT_ADVISORY_IDLE] = { "idle",
                                      "SELECT set_config('idle_session_timeout', $1, false)" },
};

static_assert(sizeof(statements) / sizeof(*statements) == HF__STATEMENTS, "each has its text");

bool hf__statement_is_for(const struct hf__postgres *conn, enum hf__statement statement)
{
    return hf__postgres_is_advisory(conn) == (statement >= HF__STATEMENTS_OF_QUEUE);
}

const char *hf__statement_text(enum hf__statement statement)
{
    return statements[statement].text;
}

const char *hf__statement_name(enum hf__statement statement)
{
    return statements[statement].name;
}

char *hf__statement_prefixed(const struct hf__postgres *conn, const char *text)
{
    size_t ours = strlen(HF__DATABASE_PREFIX);
    size_t theirs = strlen(conn->prefix);
    size_t bytes = strlen(text) + 1;
    char *copy;
    char *to;

    for (const char *at = strstr(text, HF__DATABASE_PREFIX); at;
         at = strstr(at + ours, HF__DATABASE_PREFIX))
        bytes += theirs;
    copy = to = hf__env_new(conn->base.env, bytes);
    if (!copy)
        return NULL;
    for (const char *at = strstr(text, HF__DATABASE_PREFIX); at;
         at = strstr(text, HF__DATABASE_PREFIX)) {
        memcpy(to, text, (size_t)(at - text));
        to += at - text;
        memcpy(to, conn->prefix, theirs);
        to += theirs;
        text = at + ours;
    }
    memcpy(to, text, strlen(text) + 1);
    return copy;
}

/* --- parameters --- */

struct parameters {
    int count;
    const char *values[PARAMETERS_MAX];
    int lengths[PARAMETERS_MAX];
    int formats[PARAMETERS_MAX];
    uint64_t numbers[PARAMETERS_MAX]; /* what the values of numbers point at */
};

static void add_bytes(struct parameters *parameters, const void *bytes, size_t count)
{
    assert(parameters->count < PARAMETERS_MAX);

    parameters->values[parameters->count] = bytes;
    parameters->lengths[parameters->count] = (int)count;
    parameters->formats[parameters->count++] = 1;
}

static void add_number(struct parameters *parameters, uint64_t number)
{
    uint64_t *place = &parameters->numbers[parameters->count];

    *place = htobe64(number);
    add_bytes(parameters, place, sizeof(*place));
}

static void add_small(struct parameters *parameters, int32_t number)
{
    uint32_t turned = htobe32((uint32_t)number);
    uint64_t *place = &parameters->numbers[parameters->count];

    memcpy(place, &turned, sizeof(turned));
    add_bytes(parameters, place, sizeof(turned));
}

static void add_truth(struct parameters *parameters, bool truth)
{
    add_bytes(parameters, truth ? "\1" : "\0", 1);
}

static int send_prepared(struct hf__postgres *conn, enum hf__statement statement,
                         const struct parameters *parameters)
{
    return PQsendQueryPrepared(conn->pg, statements[statement].name, parameters->count,
                               parameters->values, parameters->lengths, parameters->formats, 1);
}

/* The latest time by the server's clock at which a request may still be executed. */
static uint64_t latest_us(const struct hf__postgres *conn, uint64_t deadline_ns)
{
    return (uint64_t)(conn->server.clock_offset_us + (int64_t)(deadline_ns / HF__NS_PER_US));
}

/* By which messages call a claim. */
static size_t write_tag(uint64_t claim_id, char out_tag[16])
{
    size_t bytes = 0;

    for (int shift = 60; shift >= 0; shift -= 4)
        out_tag[bytes++] = "0123456789abcdef"[claim_id >> shift & 15];
    return bytes;
}

static int send_claim(struct hf__postgres *conn, const struct hf__request *request,
                      const struct parameters *first)
{
    struct parameters parameters = *first;
    char who[HF__BEARER_BYTES];
    char tag[16];
    size_t tag_bytes = write_tag(request->ticket.claim_id, tag);

    hf__bearer_write(request, conn->whence, conn->purpose, who);
    add_truth(&parameters, request->mode == HF_SHARED);
    add_truth(&parameters, request->queueing);
    add_number(&parameters, request->lease_ns / HF__NS_PER_US);
    add_number(&parameters, request->grace_ns / HF__NS_PER_US);
    add_number(&parameters, latest_us(conn, request->deadline_ns));
    add_bytes(&parameters, conn->client, strlen(conn->client));
    add_bytes(&parameters, tag, tag_bytes);
    add_bytes(&parameters, who, strlen(who));
    return send_prepared(conn, HF__STATEMENT_CLAIM, &parameters);
}

int hf__statement_send(struct hf__postgres *conn, const struct hf__request *request)
{
    enum hf__request_kind kind = request->ticket.kind;
    struct parameters parameters = { .count = 0 };
    uint64_t fence = request->fence & ~255ull; /* all of one turn have the same but for these */
    bool advises = hf__postgres_is_advisory(conn);

    assert(kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_RELEASE ||
           kind == HF__REQUEST_DOWNGRADE || kind == HF__REQUEST_BREAK);
    assert(request->token || kind == HF__REQUEST_BREAK);

    add_bytes(&parameters, request->name, request->name_bytes);
    if (kind == HF__REQUEST_BREAK) {
        add_number(&parameters, fence);
        return send_prepared(conn, advises ? HF__STATEMENT_ADVISORY_BREAK : HF__STATEMENT_BREAK,
                             &parameters);
    }
    add_bytes(&parameters, request->token, HF__TOKEN_BYTES);
    if (advises) /* what became of it is not known any more */
        return send_prepared(conn, HF__STATEMENT_ADVISORY_FORGET, &parameters);
    if (kind == HF__REQUEST_CLAIM)
        return send_claim(conn, request, &parameters);
    if (kind == HF__REQUEST_DOWNGRADE)
        return send_prepared(conn, HF__STATEMENT_LOWER, &parameters);
    add_number(&parameters, fence);
    add_truth(&parameters, request->crowded);
    return send_prepared(conn, HF__STATEMENT_RELEASE, &parameters);
}

/* --- arrays --- */

static int put_word(struct hf__buffer *array, uint32_t word)
{
    uint32_t turned = htobe32(word);

    return hf__buffer_append(array, &turned, sizeof(turned));
}

static int begin_array(struct hf__buffer *array, uint32_t oid, uint32_t count)
{
    const uint32_t head[] = { 1, 0, oid, count, 1 }; /* dimensions, no NULLs, ..., first index */
    int status = HF_OK;

    hf__buffer_consume(array, hf__buffer_count(array));
    for (size_t i = 0; status == HF_OK && i < sizeof(head) / sizeof(*head); i++)
        status = put_word(array, head[i]);
    return status;
}

static int put_element(struct hf__buffer *array, const void *bytes, size_t count)
{
    int status = put_word(array, (uint32_t)count);

    return status == HF_OK ? hf__buffer_append(array, bytes, count) : status;
}

/* Of each that is collected: name, token, lease, and whether it may be shortened. */
static int put_collected(struct hf__postgres *conn)
{
    static const uint32_t oids[HF__POSTGRES_ARRAYS] = { OID_BYTEA, OID_UUID, OID_INT8, OID_BOOL };
    int status = HF_OK;

    for (size_t i = 0; status == HF_OK && i < HF__POSTGRES_ARRAYS; i++)
        status = begin_array(&conn->arrays[i], oids[i], conn->collected_count);
    for (uint32_t i = 0; status == HF_OK && i < conn->collected_count; i++) {
        const struct hf__collected *one = &conn->collected[i];
        uint64_t lease_us = htobe64(one->lease_us);

        status = put_element(&conn->arrays[0], one->name, one->name_bytes);
        if (status == HF_OK)
            status = put_element(&conn->arrays[1], one->token, HF__TOKEN_BYTES);
        if (status == HF_OK)
            status = put_element(&conn->arrays[2], &lease_us, sizeof(lease_us));
        if (status == HF_OK)
            status = put_element(&conn->arrays[3], one->shorten ? "\1" : "\0", 1);
    }
    return status;
}

int hf__statement_send_collected(struct hf__postgres *conn)
{
    bool advises = hf__postgres_is_advisory(conn);
    bool renews = conn->collected_kind == HF__REQUEST_RENEW && !advises;
    struct parameters parameters = { .count = 0 };
    char idle[24];

    if (put_collected(conn) < 0)
        return 0;
    for (size_t i = 0; i < (renews ? 4 : 3); i++)
        add_bytes(&parameters, hf__buffer_front(&conn->arrays[i]),
                  hf__buffer_count(&conn->arrays[i]));
    if (advises) {
        hf__berth_idle_text(conn->idle_ns, idle);
        add_bytes(&parameters, idle, strlen(idle));
        return send_prepared(conn, HF__STATEMENT_ADVISORY_RENEW, &parameters);
    }
    return send_prepared(conn, renews ? HF__STATEMENT_RENEW : HF__STATEMENT_REFRESH, &parameters);
}

/* Names between what the glob begins with and the last that begins so. */
int hf__statement_send_list(struct hf__postgres *conn, const char *glob)
{
    struct parameters parameters = { .count = 0 };
    char low[HF_NAME_BYTES_MAX] = "";
    char high[HF_NAME_BYTES_MAX + 1];
    size_t bytes = 0;

    for (; glob && *glob && *glob != '*' && *glob != '?' && bytes < sizeof(low); glob++) {
        if (*glob == '\\' && glob[1])
            glob++;
        low[bytes++] = *glob;
    }
    memcpy(high, low, bytes);
    memset(high + bytes, 0xff, sizeof(high) - bytes);
    add_bytes(&parameters, low, bytes);
    add_bytes(&parameters, high, sizeof(high));
    return send_prepared(
        conn, hf__postgres_is_advisory(conn) ? HF__STATEMENT_ADVISORY_LIST : HF__STATEMENT_LIST,
        &parameters);
}

/* --- the steps of the recipe advisory --- */

enum part {
    PART_NAME = 1 << 0,
    PART_KEY = 1 << 1,
    PART_TOKEN = 1 << 2,
    PART_SHARED = 1 << 3,
    PART_LEASE = 1 << 4,
    PART_SESSION = 1 << 5,
    PART_IDLE = 1 << 6,
    PART_CONTENDED = 1 << 7,
    PART_WHO = 1 << 8, /* bell, tag and who */
    PART_LATEST = 1 << 9,
};

#define PART_LOCK   (PART_NAME | PART_KEY | PART_TOKEN)
#define PART_ENTERS (PART_LOCK | PART_SHARED | PART_LEASE | PART_IDLE | PART_CONTENDED | PART_WHO)

/* In the order in which the functions take them. */
static unsigned parts_of(enum hf__statement statement)
{
    static const unsigned parts[HF__STATEMENTS] = {
        [HF__STATEMENT_ADVISORY_TRY] = PART_ENTERS | PART_LATEST,
        [HF__STATEMENT_ADVISORY_ENTER] = PART_ENTERS,
        [HF__STATEMENT_ADVISORY_WAIT] = PART_KEY | PART_SHARED | PART_IDLE,
        [HF__STATEMENT_ADVISORY_LOOK] =
            PART_LOCK | PART_SHARED | PART_LEASE | PART_SESSION | PART_WHO,
        [HF__STATEMENT_ADVISORY_LEAVE] = PART_LOCK | PART_SHARED | PART_IDLE,
        [HF__STATEMENT_ADVISORY_QUIT] = PART_NAME | PART_TOKEN | PART_SESSION,
        [HF__STATEMENT_ADVISORY_LOWER] = PART_LOCK,
        [HF__STATEMENT_ADVISORY_FORGET] = PART_NAME | PART_TOKEN,
        [HF__STATEMENT_ADVISORY_IDLE] = PART_IDLE,
    };

    assert(parts[statement] != 0);
    return parts[statement];
}

int hf__statement_send_step(struct hf__postgres *session, enum hf__statement statement,
                            const struct hf__berth *berth)
{
    unsigned parts = parts_of(statement);
    struct parameters parameters = { .count = 0 };
    char idle[24];
    char tag[16];

    assert(berth || parts == PART_IDLE);

    hf__berth_idle_text(session->idle_ns, idle);
    if (parts & PART_NAME)
        add_bytes(&parameters, berth->name, berth->name_bytes);
    if (parts & PART_KEY)
        add_number(&parameters, (uint64_t)berth->key);
    if (parts & PART_TOKEN)
        add_bytes(&parameters, berth->token, HF__TOKEN_BYTES);
    if (parts & PART_SHARED)
        add_truth(&parameters, berth->shared);
    if (parts & PART_LEASE)
        add_number(&parameters, berth->lease_ns / HF__NS_PER_US);
    if (parts & PART_SESSION)
        add_small(&parameters, PQbackendPID(berth->session->pg));
    if (parts & PART_IDLE)
        add_bytes(&parameters, idle, strlen(idle));
    if (parts & PART_CONTENDED)
        add_truth(&parameters, session->main || berth->beside);
    if (parts & PART_WHO) {
        add_bytes(&parameters, session->client, strlen(session->client));
        add_bytes(&parameters, tag, write_tag(berth->entry.claim_id, tag));
        add_bytes(&parameters, berth->who, strlen(berth->who));
    }
    if (parts & PART_LATEST)
        add_number(&parameters, latest_us(session, berth->entry.deadline_ns));
    return send_prepared(session, statement, &parameters);
}
