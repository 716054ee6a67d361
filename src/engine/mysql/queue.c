/* queue.c: locks with a line, a procedure of the server for each operation (queue.sql): what do
 * its answers mean?
 *
 * The happy path: CLAIM finds the lock free and has it. Otherwise it stands in line; the release of
 * the one ahead makes it the owner, and wakes the connection that listens (bell.c). What holds is
 * renewed, what waits is refreshed, all of a client together.
 *
 * What can go wrong: nobody wakes us: the refresh finds out. A holder that died: the first in line
 * looks again when its lease must have ended. A claim that comes after we gave it up: the server
 * refuses it by its own clock. An answer that is none: UNKNOWN, and the connection ends. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/name.h"
#include "base/text.h"
#include "engine/mysql/mysql.h"
#include "engine/verdict.h"

#define NEWS_COLUMNS  4
#define LOOK_MS_MIN   50u /* where nobody can wake us */
#define LOOK_MS_RANGE 50u

static const char *const texts[HF__SQLS] = {
    [HF__SQL_TAKE] = "UPDATE hf_lock SET fence = last_insert_id(fence + 256), broken = false,"
                     " ends_us = " HF__MYSQL_CLOCK
                     " + ?, lease_us = ?, grace_us = ?, since_us = " HF__MYSQL_CLOCK ", bell = ?,"
                     " tag = ?, news = NULL, knows = true, account = ?, who = ?, token = ?"
                     " WHERE name = ? AND places = 0 AND NOT lagging"
                     " AND fence < 4611686018410610688"
                     " AND " HF__MYSQL_CLOCK " BETWEEN ends_us AND ?",
    [HF__SQL_GIVE] = "UPDATE hf_lock SET ends_us = 0, news = NULL"
                     " WHERE name = ? AND token = ? AND places = 0 AND NOT lagging"
                     " AND NOT broken"
                     " AND ? IN (0, fence) AND ends_us > " HF__MYSQL_CLOCK,
    [HF__SQL_HAND] =
        "UPDATE hf_lock SET fence = fence + 256, places = places - 1, front = heir_ticket,"
        " token = heir, lagging = true,"
        " ends_us = least(heir_ends_us, " HF__MYSQL_CLOCK " + heir_lease_us),"
        " lease_us = heir_lease_us, grace_us = heir_grace_us, since_us = " HF__MYSQL_CLOCK ","
        " bell = heir_bell, tag = heir_tag, news = heir_bell, account = heir_account,"
        " who = heir_who,"
        " knows = last_insert_id(coalesce(is_used_lock(concat('hf_', heir_bell)), 0)) < 0"
        " WHERE name = ? AND token = ? AND ? IN (0, fence) AND NOT broken AND NOT lagging"
        " AND least(ends_us, heir_ends_us) > " HF__MYSQL_CLOCK,
    [HF__SQL_RING] = "KILL QUERY if(row_count() > 0, last_insert_id(), 0)",
    [HF__SQL_CLAIM] = "CALL hf_claim_1(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [HF__SQL_RELEASE] = "CALL hf_release_1(?, ?, ?)",
    [HF__SQL_LOWER] = "CALL hf_lower_1(?, ?)",
    [HF__SQL_BREAK] = "CALL hf_break_1(?, ?)",
    [HF__SQL_TOGETHER] = "CALL hf_together_1(?, ?)",
    [HF__SQL_LIST] = "SELECT name, cast(place AS char), cast(shared AS char), cast(fence AS char),"
                     " cast(left_us AS char), cast(age_us AS char), who FROM ("
                     "SELECT l.name AS name, 0 AS place, 0 AS shared, l.fence AS fence,"
                     " l.ends_us - now.us AS left_us, now.us - l.since_us AS age_us, l.who AS who"
                     " FROM hf_lock AS l JOIN (SELECT " HF__MYSQL_CLOCK " AS us) AS now"
                     " WHERE l.name BETWEEN ? AND ? AND l.ends_us > now.us"
                     " UNION ALL "
                     "SELECT p.name, if(p.fence > 0, 0, row_number() OVER"
                     " (PARTITION BY p.name, p.fence > 0 ORDER BY p.ticket)), p.shared, p.fence,"
                     " p.ends_us - now.us, now.us - p.since_us, p.who"
                     " FROM hf_place AS p JOIN hf_lock AS l ON l.name = p.name"
                     " JOIN (SELECT " HF__MYSQL_CLOCK " AS us) AS now"
                     " WHERE p.name BETWEEN ? AND ? AND p.ends_us > now.us"
                     " AND (p.fence > 0 OR p.ticket > l.front)"
                     ") AS each_one ORDER BY name, place, fence",
    [HF__SQL_LISTEN] = "CALL hf_listen_1(?, ?, ?)",
    [HF__SQL_LOOK] = "SELECT concat(token, if(broken, 'b', if(knows, 'c', 'g'))),"
                     " cast(tag AS char), cast(fence AS char), cast(places > 0 AS char)"
                     " FROM hf_lock WHERE news = ? AND ends_us > 0",
};

static uint64_t look_ms(struct hf__mysql *conn)
{
    uint8_t random;

    hf__env_random(conn->base.env, &random, sizeof(random));
    return LOOK_MS_MIN + random % LOOK_MS_RANGE;
}

/* "kind ahead waiting left_ms last_fence fence strangers WHO" */
static bool hear_busy(struct hf__mysql *conn, const char *answer, struct hf__reply *out_reply)
{
    bool queued = *answer == 'q';
    bool deaf = conn->listens && conn->bell.phase != HF__BELL_LISTENING;
    unsigned long long ahead;
    unsigned long long rank;
    unsigned long long left_ms;
    unsigned long long last;
    unsigned long long fence;
    unsigned strangers;

    if (sscanf(answer, "%*s %llu %llu %llu %llu %llu %u ", &ahead, &rank, &left_ms, &last, &fence,
               &strangers) != 6 ||
        ahead >= UINT32_MAX || last >= HF__VERDICT_FENCE_MAX || fence >= HF__VERDICT_FENCE_MAX)
        return false;
    out_reply->kind = queued ? HF__REPLY_QUEUED : HF__REPLY_REFUSED;
    out_reply->ahead = (uint32_t)ahead;
    out_reply->fence = last;
    out_reply->holder = hf__verdict_holder(answer, "0123456789ABCDEF", fence, &conn->bearer);
    if (queued && (strangers || deaf)) {
        uint64_t soon_ms = look_ms(conn);

        hf__vigil_set(&conn->vigils, out_reply->ticket.claim_id, conn->now_ns,
                      left_ms < soon_ms ? left_ms : soon_ms);
    } else if (queued && rank == 0) {
        hf__vigil_set(&conn->vigils, out_reply->ticket.claim_id, conn->now_ns, left_ms);
    }
    return true;
}

/* "gone", "gone broken", "gone expired", and of a release "gone WAS_OURS OTHERS" */
static bool hear_gone(const char *more, struct hf__reply *out_reply)
{
    out_reply->kind = HF__REPLY_GONE;
    if (strcmp(more, " broken") == 0)
        out_reply->cause = "broken";
    else if (strcmp(more, " expired") == 0)
        out_reply->cause = "expired";
    else if (strncmp(more, " 1", 2) == 0)
        out_reply->released = true;
    else
        return strncmp(more, " 0", 2) == 0 || !*more;
    return true;
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* FAILED, for a reason of its own. */
static bool hear_refusal(struct hf__mysql *conn, const char *answer, struct hf__reply *out_reply)
{
    if (strcmp(answer, "stale") == 0) {
        conn->clock_doubted = true;
        out_reply->status = hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                          "the request came too late by the server's clock");
    } else if (strcmp(answer, "full") == 0) {
        out_reply->status =
            hf__error_set(conn->base.error, HF_ELIMIT, "65536 claims stand at this lock already");
    } else if (strcmp(answer, "spent") == 0) {
        out_reply->status =
            hf__error_set(conn->base.error, HF_ELIMIT, "the fence has reached 2^62");
    } else if (strcmp(answer, "mixed") == 0) {
        out_reply->status = hf__error_set(conn->base.error, HF_EINTEGRITY,
                                          "the table takes this name and another one for the same "
                                          "(its collation)");
    } else {
        return false;
    }
    return true;
}

void hf__mysql_queue_hear(struct hf__mysql *conn, const struct hf__ticket *ticket,
                          const char *answer, struct hf__reply *out_reply)
{
    bool understood = false;

    hf__mysql_reply(ticket, HF__REPLY_FAILED, out_reply);
    if (begins(answer, "granted "))
        understood = hf__verdict_granted(answer, out_reply);
    else if (begins(answer, "queued ") || begins(answer, "refused "))
        understood = hear_busy(conn, answer, out_reply);
    else if (begins(answer, "gone"))
        understood = hear_gone(answer + strlen("gone"), out_reply);
    else if (strcmp(answer, "done") == 0)
        out_reply->kind = HF__REPLY_DONE, understood = true;
    else
        understood = hear_refusal(conn, answer, out_reply);
    if (understood && hf__verdict_answers(ticket->kind, out_reply->kind))
        return;
    hf__mysql_reply(ticket, HF__REPLY_UNKNOWN, out_reply);
    hf__mysql_end_by_nonsense(conn);
    out_reply->status = HF_EPROTOCOL;
}

/* --- rows --- */

static bool read_number(struct hf__result *result, uint64_t *out_number)
{
    size_t bytes;
    const uint8_t *text = hf__packet_string(&result->row, &bytes);

    return text && hf__text_to_u64((const char *)text, bytes, out_number);
}

/* The same was told before. */
static bool note_seen(struct hf__bell *bell, const uint8_t key[HF__MYSQL_NEWS_BYTES])
{
    uint32_t count = bell->seen_count < HF__MYSQL_NEWS_MAX ? bell->seen_count : HF__MYSQL_NEWS_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (memcmp(bell->seen[i], key, HF__MYSQL_NEWS_BYTES) == 0)
            return true;
    }
    memcpy(bell->seen[bell->seen_count++ % HF__MYSQL_NEWS_MAX], key, HF__MYSQL_NEWS_BYTES);
    return false;
}

/* The claim's token and what became of it, its tag, its fence, and whether others wait. */
bool hf__mysql_queue_news(struct hf__mysql *conn, struct hf__result *result,
                          struct hf__reply *out_reply)
{
    struct hf__ticket ticket = { .kind = HF__REQUEST_NONE };
    size_t bytes;
    const uint8_t *key = hf__packet_string(&result->row, &bytes);
    uint64_t fence;
    uint64_t waiting;

    if (result->columns != NEWS_COLUMNS || !key || bytes != HF__MYSQL_NEWS_BYTES ||
        !read_number(result, &ticket.claim_id) || !read_number(result, &fence) ||
        !read_number(result, &waiting) || !hf__verdict_is_fence(fence))
        return false;
    if (note_seen(&conn->bell, key))
        return false;
    hf__mysql_reply(&ticket, HF__REPLY_CROWDED, out_reply);
    if (key[HF__TOKEN_BYTES] == 'g') {
        out_reply->kind = HF__REPLY_GRANTED;
        out_reply->fence = fence;
        out_reply->appointed = true;
        out_reply->others_wait = waiting > 0;
    } else if (key[HF__TOKEN_BYTES] == 'b') {
        out_reply->kind = HF__REPLY_GONE;
        out_reply->cause = "broken";
    }
    return true;
}

/* -1: not known. */
static int64_t read_ms(struct hf__result *result)
{
    uint64_t us;

    return read_number(result, &us) && us <= INT64_MAX ? (int64_t)(us / 1000) : -1;
}

bool hf__mysql_queue_entry(struct hf__mysql *conn, struct hf__result *result)
{
    const struct hf__holder *holder = &conn->bearer.holder;
    size_t bytes;
    const uint8_t *name = hf__packet_string(&result->row, &bytes);
    const uint8_t *who;
    uint64_t rank = 0;
    uint64_t shared = 0;
    uint64_t fence = 0;

    if (!name || bytes == 0 || bytes > HF_NAME_BYTES_MAX)
        return false;
    memcpy(conn->entry_name, name, bytes);
    conn->entry_name[bytes] = '\0';
    if (strlen(conn->entry_name) != bytes ||
        (!conn->list_all && !hf__name_matches(conn->list_glob, conn->entry_name, bytes)))
        return false;
    if (!read_number(result, &rank) || !read_number(result, &shared) ||
        !read_number(result, &fence))
        return false;
    conn->entry = (struct hf_holding){
        .struct_size = sizeof(conn->entry),
        .name = conn->entry_name,
        .mode = shared ? HF_SHARED : HF_EXCLUSIVE,
        .waiting = rank > 0,
        .position = rank <= UINT32_MAX ? (uint32_t)rank : 0,
        .fence = fence,
        .host = holder->host,
        .purpose = holder->purpose,
    };
    conn->entry.remaining_ms = read_ms(result);
    conn->entry.age_ms = read_ms(result);
    who = hf__packet_string(&result->row, &bytes);
    hf__bearer_read(who ? (const char *)who : "", who ? bytes : 0, &conn->bearer);
    conn->entry.pid = holder->pid;
    return !result->row.failed;
}

const struct hf__mysql_recipe hf__mysql_queue = {
    .recipe = {
        .name = "queue",
        .url_forms = "mysql://user[:password]@host[:port][,host...]/database mariadb://...",
        .summary = "A line of its own for every lock, in tables; whoever leaves hands it to the "
                   "next.",
        .caveat = "The server must wait for its disk (innodb_flush_log_at_trx_commit = 1, and "
                  "sync_binlog = 1 with a binary log), or the promises that hang on it are "
                  "withheld. A replica that takes its primary's place knows what it had heard of. "
                  "Clients of one account wake each other; those of several look every 50 to 100 "
                  "ms. Galera is refused.",
        .schema = hf__sql_queue_schema,
        .pattern = HF__PATTERN_QUEUE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                    HF_PROMISE_DURABLE | HF_PROMISE_CRASH,
        .is_default = true,
        .hands_on = true,
        .leases = true,
        .kept_news = true,
    },
    .texts = texts,
    .rights = "CALL hf_rights_1()",
};
