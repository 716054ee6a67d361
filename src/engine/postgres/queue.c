/* queue.c: locks with a line, one function of the server for each operation (schema.sql): what do
 * its answers mean?
 *
 * The happy path: CLAIM finds the lock free and has it. Otherwise it stands in line; the release of
 * the one ahead makes it the owner, and a message says so. What holds is renewed, what waits is
 * refreshed, all of a client together.
 *
 * What can go wrong: a message that is lost: the refresh finds out. A holder that died: the first
 * in line looks again when its lease must have ended. A claim that comes after we gave it up: the
 * server refuses it by its own clock. An answer that is none: UNKNOWN, and the connection ends. */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/name.h"
#include "base/text.h"
#include "engine/postgres/postgres.h"
#include "engine/verdict.h"

#define LIST_COLUMNS 7

/* "kind ahead waiting left_ms last_fence fence WHO" */
static bool hear_busy(struct hf__postgres *conn, const char *answer, struct hf__reply *out_reply)
{
    bool queued = *answer == 'q';
    unsigned long long ahead;
    unsigned long long rank;
    unsigned long long left_ms;
    unsigned long long last;
    unsigned long long fence;

    if (sscanf(answer, "%*s %llu %llu %llu %llu %llu ", &ahead, &rank, &left_ms, &last, &fence) !=
            5 ||
        ahead >= UINT32_MAX || last >= HF__VERDICT_FENCE_MAX || fence >= HF__VERDICT_FENCE_MAX)
        return false;
    out_reply->kind = queued ? HF__REPLY_QUEUED : HF__REPLY_REFUSED;
    out_reply->ahead = (uint32_t)ahead;
    out_reply->fence = last;
    out_reply->holder = hf__verdict_holder(answer, "0123456789abcdef", fence, &conn->bearer);
    if (queued && rank == 0)
        hf__vigil_set(&conn->vigils, out_reply->ticket.claim_id, conn->now_ns, left_ms);
    return true;
}

static bool hear_gone(const char *more, struct hf__reply *out_reply)
{
    out_reply->kind = HF__REPLY_GONE;
    if (strcmp(more, " broken") == 0)
        out_reply->cause = "broken";
    else if (strcmp(more, " expired") == 0)
        out_reply->cause = "expired";
    else if (strcmp(more, " 1") == 0)
        out_reply->released = true;
    else
        return strcmp(more, " 0") == 0 || !*more;
    return true;
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

void hf__queue_hear(struct hf__postgres *conn, const struct hf__ticket *ticket, const char *answer,
                    struct hf__reply *out_reply)
{
    bool understood = false;

    hf__postgres_reply(ticket, HF__REPLY_FAILED, out_reply);
    if (begins(answer, "granted "))
        understood = hf__verdict_granted(answer, out_reply);
    else if (begins(answer, "queued ") || begins(answer, "refused "))
        understood = hear_busy(conn, answer, out_reply);
    else if (begins(answer, "gone"))
        understood = hear_gone(answer + strlen("gone"), out_reply);
    else if (strcmp(answer, "done") == 0)
        out_reply->kind = HF__REPLY_DONE, understood = true;
    else if (strcmp(answer, "stale") == 0) {
        conn->clock_doubted = true;
        understood = true;
        out_reply->status = hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                          "the request came too late by the server's clock");
    }
    if (understood && hf__verdict_answers(ticket->kind, out_reply->kind))
        return;
    hf__postgres_reply(ticket, HF__REPLY_UNKNOWN, out_reply);
    out_reply->status = hf__error_set(conn->base.error, HF_EPROTOCOL,
                                      "%s: the server answered what it never should", conn->peer);
    hf__postgres_end(conn, HF_EPROTOCOL);
}

/* "granted tag fence waiting", "crowded tag", "broken tag" */
bool hf__queue_news(const char *message, struct hf__reply *out_reply)
{
    struct hf__ticket ticket = { .kind = HF__REQUEST_NONE };
    unsigned long long tag = 0;
    unsigned long long fence = 0;
    unsigned waiting = 0;

    if (sscanf(message, "granted %16llx %20llu %1u", &tag, &fence, &waiting) == 3 &&
        hf__verdict_is_fence(fence)) {
        ticket.claim_id = tag;
        hf__postgres_reply(&ticket, HF__REPLY_GRANTED, out_reply);
        out_reply->fence = fence;
        out_reply->appointed = true;
        out_reply->others_wait = waiting > 0;
        return true;
    }
    if (sscanf(message, "crowded %16llx", &tag) == 1) {
        ticket.claim_id = tag;
        hf__postgres_reply(&ticket, HF__REPLY_CROWDED, out_reply);
        return true;
    }
    if (sscanf(message, "broken %16llx", &tag) == 1) {
        ticket.claim_id = tag;
        hf__postgres_reply(&ticket, HF__REPLY_GONE, out_reply);
        out_reply->cause = "broken";
        return true;
    }
    return false;
}

/* --- the list --- */

static int64_t number_at(const PGresult *result, int row, int column)
{
    uint64_t number = 0;

    if (PQgetlength(result, row, column) == (int)sizeof(number))
        memcpy(&number, PQgetvalue(result, row, column), sizeof(number));
    return (int64_t)be64toh(number);
}

bool hf__queue_entry(struct hf__postgres *conn, const PGresult *result, int row)
{
    const struct hf__holder *holder = &conn->bearer.holder;
    size_t bytes;
    int64_t rank;

    if (PQnfields(result) != LIST_COLUMNS)
        return false;
    bytes = (size_t)PQgetlength(result, row, 0);
    if (bytes == 0 || bytes > HF_NAME_BYTES_MAX)
        return false;
    memcpy(conn->entry_name, PQgetvalue(result, row, 0), bytes);
    conn->entry_name[bytes] = '\0';
    if (strlen(conn->entry_name) != bytes ||
        (!conn->list_all && !hf__name_matches(conn->list_glob, conn->entry_name, bytes)))
        return false;
    hf__bearer_read(PQgetvalue(result, row, 6), (size_t)PQgetlength(result, row, 6), &conn->bearer);
    rank = number_at(result, row, 1);
    conn->entry = (struct hf_holding){
        .struct_size = sizeof(conn->entry),
        .name = conn->entry_name,
        .mode = PQgetlength(result, row, 2) == 1 && *PQgetvalue(result, row, 2) ? HF_SHARED
                                                                                : HF_EXCLUSIVE,
        .waiting = rank > 0,
        .position = rank > 0 && rank <= UINT32_MAX ? (uint32_t)rank : 0,
        .fence = (uint64_t)number_at(result, row, 3),
        .remaining_ms = number_at(result, row, 4) / 1000,
        .age_ms = number_at(result, row, 5) / 1000,
        .host = holder->host,
        .pid = holder->pid,
        .purpose = holder->purpose,
    };
    return true;
}

const struct hf__recipe hf__postgres_queue = {
    .name = "queue",
    .url_forms = "postgres://user[:password]@host[:port][,host...]/database postgresql://...",
    .summary = "A line of its own for every lock, in tables; whoever leaves hands it to the next.",
    .caveat = "PostgreSQL must wait for its disk (fsync on), or the promises that hang on it are "
              "withheld. A replica that takes the primary's place knows what it had heard of: only "
              "synchronous replication makes that all.",
    .schema = hf__statement_schema,
    .pattern = HF__PATTERN_QUEUE,
    .promises = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                HF_PROMISE_DURABLE | HF_PROMISE_CRASH,
    .is_default = true,
    .hands_on = true,
    .leases = true,
    .kept_news = true,
};
