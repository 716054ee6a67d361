/* sql.c: which SQL is it, and what is in its parameters?
 *
 * What takes a lock that is free, and what gives back one that nobody waits for, is one UPDATE
 * each. Where it changes nothing, a procedure is called that knows what to do (queue.sql); its
 * call is written at the same time, and kept. Where that came to pass with the same name before,
 * the procedure is called at once. Everything is prepared, so that no value is ever a part of the
 * text. https://mariadb.com/kb/en/com_stmt_execute/ */
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/mysql/mysql.h"

#define PARAMETERS_MAX  12
#define WAIT_S          60 /* for a lock; then it is waited for again */
#define COMMAND_QUERY   0x03
#define COMMAND_PREPARE 0x16
#define COMMAND_EXECUTE 0x17
#define TYPE_NUMBER     0x8008u /* LONGLONG, unsigned */
#define TYPE_BYTES      0x00fcu /* BLOB */

const struct hf__mysql_recipe *hf__sql_recipe(const struct hf__mysql *conn)
{
    return (const struct hf__mysql_recipe *)conn->base.recipe;
}

/* What stands for the text here, or NULL; *out_bytes: how long what it stands for is. */
static const char *find_other(const struct hf__mysql *conn, const char *at, const char *end,
                              size_t *out_bytes)
{
    const char *table = hf__sql_recipe(conn)->table;

    if (table && *conn->table && at + strlen(table) <= end &&
        memcmp(at, table, strlen(table)) == 0) {
        *out_bytes = strlen(table);
        return conn->table;
    }
    *out_bytes = strlen(HF__DATABASE_PREFIX);
    if (at + *out_bytes <= end && memcmp(at, HF__DATABASE_PREFIX, *out_bytes) == 0)
        return conn->prefix;
    return NULL;
}

char *hf__sql_prefixed(const struct hf__mysql *conn, const char *text, size_t bytes)
{
    size_t room = bytes + 1;
    const char *end = text + bytes;
    const char *other;
    size_t ours;
    char *copy;
    char *to;

    for (const char *at = text; at < end; at++) {
        other = find_other(conn, at, end, &ours);
        room += other ? strlen(other) : 0;
    }
    copy = to = hf__env_new(conn->base.env, room);
    while (copy && text < end) {
        other = find_other(conn, text, end, &ours);
        if (other) {
            memcpy(to, other, strlen(other));
            to += strlen(other);
            text += ours;
        } else {
            *to++ = *text++;
        }
    }
    return copy;
}

/* --- commands --- */

static int send_text(struct hf__mysql *conn, struct hf__cable *cable, uint8_t command,
                     const char *text)
{
    char *whole = hf__sql_prefixed(conn, text, strlen(text));
    struct hf__letter letter;

    if (!whole)
        return HF_ENOMEM;
    hf__packet_begin(&letter, &cable->output, 0);
    hf__packet_put_number(&letter, command, 1);
    hf__packet_put(&letter, whole, strlen(whole));
    hf__env_free(conn->base.env, whole);
    return hf__packet_end(&letter);
}

int hf__sql_query(struct hf__mysql *conn, struct hf__cable *cable, const char *text)
{
    return send_text(conn, cable, COMMAND_QUERY, text);
}

int hf__sql_prepare(struct hf__mysql *conn, struct hf__cable *cable, enum hf__sql sql)
{
    return send_text(conn, cable, COMMAND_PREPARE, hf__sql_recipe(conn)->texts[sql]);
}

struct parameters {
    uint32_t count;
    struct {
        bool is_number;
        uint64_t number;
        const void *bytes;
        size_t count;
    } list[PARAMETERS_MAX];
};

static void add_bytes(struct parameters *parameters, const void *bytes, size_t count)
{
    assert(parameters->count < PARAMETERS_MAX);

    parameters->list[parameters->count].bytes = bytes;
    parameters->list[parameters->count++].count = count;
}

static void add_number(struct parameters *parameters, uint64_t number)
{
    assert(parameters->count < PARAMETERS_MAX);

    parameters->list[parameters->count].is_number = true;
    parameters->list[parameters->count++].number = number;
}

static int execute(struct hf__buffer *to, uint32_t statement, const struct parameters *parameters)
{
    static const uint8_t no_nulls[(PARAMETERS_MAX + 7) / 8] = { 0 };
    struct hf__letter letter;

    hf__packet_begin(&letter, to, 0);
    hf__packet_put_number(&letter, COMMAND_EXECUTE, 1);
    hf__packet_put_number(&letter, statement, 4);
    hf__packet_put_number(&letter, 0, 1); /* no cursor */
    hf__packet_put_number(&letter, 1, 4); /* once */
    hf__packet_put(&letter, no_nulls, (parameters->count + 7) / 8);
    hf__packet_put_number(&letter, 1, 1); /* the types follow */
    for (uint32_t i = 0; i < parameters->count; i++)
        hf__packet_put_number(&letter, parameters->list[i].is_number ? TYPE_NUMBER : TYPE_BYTES, 2);
    for (uint32_t i = 0; i < parameters->count; i++) {
        if (parameters->list[i].is_number)
            hf__packet_put_number(&letter, parameters->list[i].number, 8);
        else
            hf__packet_put_string(&letter, parameters->list[i].bytes, parameters->list[i].count);
    }
    return hf__packet_end(&letter);
}

/* --- one request --- */

/* The latest time by the server's clock at which a request may still be executed. */
static uint64_t latest_us(const struct hf__mysql *conn, const struct hf__request *request)
{
    return (uint64_t)(conn->about.clock_offset_us +
                      (int64_t)(request->deadline_ns / HF__NS_PER_US));
}

static int put_claim(struct hf__mysql *conn, const struct hf__request *request, const char *who,
                     struct hf__buffer *to)
{
    struct parameters parameters = { .count = 0 };

    add_bytes(&parameters, request->name, request->name_bytes);
    add_bytes(&parameters, request->token, HF__TOKEN_BYTES);
    add_number(&parameters, request->mode == HF_SHARED);
    add_number(&parameters, request->queueing);
    add_number(&parameters, request->lease_ns / HF__NS_PER_US);
    add_number(&parameters, request->grace_ns / HF__NS_PER_US);
    add_number(&parameters, latest_us(conn, request));
    add_bytes(&parameters, conn->client, strlen(conn->client));
    add_number(&parameters, request->ticket.claim_id);
    add_bytes(&parameters, who, strlen(who));
    return execute(to, conn->statements[HF__SQL_CLAIM], &parameters);
}

static int put_take(struct hf__mysql *conn, const struct hf__request *request, const char *who)
{
    uint64_t lease_us = request->lease_ns / HF__NS_PER_US;
    struct parameters parameters = { .count = 0 };

    add_number(&parameters, lease_us);
    add_number(&parameters, lease_us);
    add_number(&parameters, request->grace_ns / HF__NS_PER_US);
    add_bytes(&parameters, conn->client, strlen(conn->client));
    add_number(&parameters, request->ticket.claim_id);
    add_bytes(&parameters, conn->url->user, strlen(conn->url->user));
    add_bytes(&parameters, who, strlen(who));
    add_bytes(&parameters, request->token, HF__TOKEN_BYTES);
    add_bytes(&parameters, request->name, request->name_bytes);
    add_number(&parameters, latest_us(conn, request));
    return execute(&conn->cable.output, conn->statements[HF__SQL_TAKE], &parameters);
}

/* By name, and by what else the statement takes: of GIVE, RELEASE, LOWER and BREAK. */
static int put_named(struct hf__mysql *conn, const struct hf__request *request, enum hf__sql sql,
                     struct hf__buffer *to)
{
    struct parameters parameters = { .count = 0 };

    add_bytes(&parameters, request->name, request->name_bytes);
    if (sql != HF__SQL_BREAK)
        add_bytes(&parameters, request->token, HF__TOKEN_BYTES);
    if (sql != HF__SQL_LOWER) /* all of one turn have the same but for these bits */
        add_number(&parameters, request->fence & ~255ull);
    return execute(to, conn->statements[sql], &parameters);
}

/* What was written beside is kept for later. */
static int keep(struct hf__mysql *conn, struct hf__parcel *parcel)
{
    size_t bytes = hf__buffer_count(&conn->spare);

    parcel->fallback = hf__env_new(conn->base.env, bytes);
    if (!parcel->fallback)
        return HF_ENOMEM;
    memcpy(parcel->fallback, hf__buffer_front(&conn->spare), bytes);
    parcel->fallback_bytes = bytes;
    parcel->is_brief = true;
    return HF_OK;
}

static uint32_t slot_of(const struct hf__request *request)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < request->name_bytes; i++)
        hash = (hash ^ (uint8_t)request->name[i]) * 16777619u;
    return (hash ^ hash >> 16) % HF__MYSQL_SLOTS;
}

static int send_claim(struct hf__mysql *conn, const struct hf__request *request,
                      struct hf__parcel *parcel, bool briefly)
{
    char who[HF__BEARER_BYTES];
    int status;

    hf__bearer_write(request, conn->whence, conn->purpose, who);
    status = put_claim(conn, request, who, briefly ? &conn->spare : &conn->cable.output);
    if (status < 0 || !briefly)
        return status;
    status = keep(conn, parcel);
    return status < 0 ? status : put_take(conn, request, who);
}

static int send_release(struct hf__mysql *conn, const struct hf__request *request,
                        struct hf__parcel *parcel, enum hf__sql brief)
{
    bool briefly = hf__sql_recipe(conn)->texts[brief];
    int status =
        put_named(conn, request, HF__SQL_RELEASE, briefly ? &conn->spare : &conn->cable.output);

    if (status < 0 || !briefly)
        return status;
    status = keep(conn, parcel);
    parcel->hands_on = brief == HF__SQL_HAND;
    return status < 0 ? status : put_named(conn, request, brief, &conn->cable.output);
}

int hf__sql_send_ring(struct hf__mysql *conn)
{
    struct parameters none = { .count = 0 };

    return execute(&conn->cable.output, conn->statements[HF__SQL_RING], &none);
}

/* What a claim in its brief form becomes may be sent only when that is answered. A release must not
 * be there before it: it would find nothing, and what came then would be nobody's. */
static bool is_claimed_briefly(const struct hf__mysql *conn, uint64_t claim_id)
{
    HF__LIST_FOR(place, &conn->parcels)
    {
        const struct hf__parcel *parcel = HF__LIST_ENTRY(place, struct hf__parcel, place);

        if (parcel->is_brief && parcel->tickets[0].claim_id == claim_id)
            return true;
    }
    return false;
}

int hf__sql_send(struct hf__mysql *conn, const struct hf__request *request,
                 struct hf__parcel *parcel)
{
    enum hf__request_kind kind = request->ticket.kind;
    bool gives = kind == HF__REQUEST_RELEASE;
    bool briefly;

    assert(kind == HF__REQUEST_CLAIM || kind == HF__REQUEST_RELEASE ||
           kind == HF__REQUEST_DOWNGRADE || kind == HF__REQUEST_BREAK);
    assert(request->token || kind == HF__REQUEST_BREAK);

    parcel->slot = slot_of(request);
    briefly = hf__sql_recipe(conn)->texts[HF__SQL_TAKE] &&
              (!(conn->is_crowded[gives][parcel->slot] || (gives && request->crowded)) ||
               (gives && is_claimed_briefly(conn, request->ticket.claim_id)));
    hf__buffer_consume(&conn->spare, hf__buffer_count(&conn->spare));
    if (kind == HF__REQUEST_CLAIM)
        return send_claim(conn, request, parcel, briefly && request->mode != HF_SHARED);
    if (gives)
        return send_release(conn, request, parcel, briefly ? HF__SQL_GIVE : HF__SQL_HAND);
    return put_named(conn, request, kind == HF__REQUEST_BREAK ? HF__SQL_BREAK : HF__SQL_LOWER,
                     &conn->cable.output);
}

/* --- many --- */

static int compare(const void *left, const void *right)
{
    const struct hf__gathered *one = left;
    const struct hf__gathered *other = right;
    size_t bytes = one->name_bytes < other->name_bytes ? one->name_bytes : other->name_bytes;
    int order = memcmp(one->name, other->name, bytes);

    if (order == 0)
        order = (one->name_bytes > other->name_bytes) - (one->name_bytes < other->name_bytes);
    return order;
}

static int put_item(struct hf__buffer *to, const struct hf__gathered *one)
{
    uint16_t name_bytes = htobe16((uint16_t)one->name_bytes);
    uint64_t lease_us = htobe64(one->lease_us);
    int status = hf__buffer_append(to, &name_bytes, sizeof(name_bytes));

    if (status == HF_OK)
        status = hf__buffer_append(to, one->name, one->name_bytes);
    if (status == HF_OK)
        status = hf__buffer_append(to, one->token, HF__TOKEN_BYTES);
    if (status == HF_OK)
        status = hf__buffer_append(to, &lease_us, sizeof(lease_us));
    return status == HF_OK ? hf__buffer_append(to, one->shorten ? "1" : "0", 1) : status;
}

/* In the order of their names, so that two who lock the same rows wait, and do not block each
 * other. The caller takes the tickets from what is gathered when this has come back. */
int hf__sql_send_gathered(struct hf__mysql *conn)
{
    struct parameters parameters = { .count = 0 };
    int status = HF_OK;

    qsort(conn->gathered, conn->gathered_count, sizeof(*conn->gathered), compare);
    hf__buffer_consume(&conn->spare, hf__buffer_count(&conn->spare));
    for (uint32_t i = 0; status == HF_OK && i < conn->gathered_count; i++)
        status = put_item(&conn->spare, &conn->gathered[i]);
    if (status < 0)
        return status;
    add_number(&parameters, conn->gathered_kind == HF__REQUEST_RENEW);
    add_bytes(&parameters, hf__buffer_front(&conn->spare), hf__buffer_count(&conn->spare));
    return execute(&conn->cable.output, conn->statements[HF__SQL_TOGETHER], &parameters);
}

/* Names between what the glob begins with and the last that begins so. */
int hf__sql_send_list(struct hf__mysql *conn, const char *glob)
{
    struct parameters parameters = { .count = 0 };
    char low[HF_NAME_BYTES_MAX] = "";
    char high[HF_NAME_BYTES_MAX];
    size_t bytes = 0;

    for (; glob && *glob && *glob != '*' && *glob != '?' && bytes < sizeof(low); glob++) {
        if (*glob == '\\' && glob[1])
            glob++;
        low[bytes++] = *glob;
    }
    memcpy(high, low, bytes);
    memset(high + bytes, 0xff, sizeof(high) - bytes);
    for (int i = 0; i < 2; i++) {
        add_bytes(&parameters, low, bytes);
        add_bytes(&parameters, high, sizeof(high));
    }
    return execute(&conn->cable.output, conn->statements[HF__SQL_LIST], &parameters);
}

static void add_session(struct parameters *parameters, const struct hf__mysql *session,
                        const struct hf__anchor *anchor)
{
    add_number(parameters, anchor->session->cable.number);
    add_number(parameters, anchor->lease_ns / HF__NS_PER_US);
    add_bytes(parameters, session->client, strlen(session->client));
    add_number(parameters, anchor->entry.claim_id);
    add_bytes(parameters, anchor->who, strlen(anchor->who));
}

/* The latest time counts for a try alone: who waits has asked in time. */
static uint64_t latest_of(const struct hf__mysql *session, const struct hf__anchor *anchor)
{
    return (uint64_t)(session->about.clock_offset_us +
                      (int64_t)(anchor->entry.deadline_ns / HF__NS_PER_US));
}

int hf__sql_send_step(struct hf__mysql *session, enum hf__sql sql, const struct hf__anchor *anchor)
{
    struct parameters parameters = { .count = 0 };
    bool keeps_open = hf__sql_recipe(session)->keeps_open;
    bool waits = sql == HF__SQL_WAIT;

    if (sql == HF__SQL_LEASE)
        add_number(&parameters, anchor->next_lease_ns / HF__NS_PER_US);
    if (!waits || keeps_open)
        add_bytes(&parameters, anchor->name, anchor->name_bytes);
    if ((sql == HF__SQL_TRY || waits) && keeps_open) {
        add_number(&parameters, waits ? WAIT_S : 0);
        add_number(&parameters, waits ? INT64_MAX : latest_of(session, anchor));
        return execute(&session->cable.output, session->statements[sql], &parameters);
    }
    if (sql != HF__SQL_LEASE)
        add_bytes(&parameters, anchor->key, anchor->key_bytes);
    if (waits)
        add_number(&parameters, WAIT_S);
    else
        add_bytes(&parameters, anchor->token, HF__TOKEN_BYTES);
    if (sql == HF__SQL_TRY || sql == HF__SQL_ENTER)
        add_session(&parameters, session, anchor);
    if (sql == HF__SQL_TRY)
        add_number(&parameters, latest_of(session, anchor));
    return execute(&session->cable.output, session->statements[sql], &parameters);
}

int hf__sql_send_listen(struct hf__mysql *conn, uint32_t wait_s)
{
    struct hf__bell *bell = &conn->bell;
    uint32_t count = bell->seen_count < HF__MYSQL_NEWS_MAX ? bell->seen_count : HF__MYSQL_NEWS_MAX;
    struct parameters parameters = { .count = 0 };
    int status;

    add_bytes(&parameters, conn->client, strlen(conn->client));
    add_bytes(&parameters, bell->seen, count * sizeof(bell->seen[0]));
    add_number(&parameters, wait_s);
    status = execute(&bell->cable.output, bell->statements[0], &parameters);
    parameters.count = 1;
    return status < 0 ? status : execute(&bell->cable.output, bell->statements[1], &parameters);
}
