/* postgres_queue.c (fuzz): whatever a function of the server answers, a message says or a list
 * holds, it is understood or refused, and what comes out is what the core may be told.
 *
 * The first byte says which of them the others are: 0 the answer to a question of the kind in the
 * second byte, 1 a message, 2 a row of a list, its fields each with two bytes of length before (all
 * ones: NULL). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/postgres/postgres.h"
#include "target.h"

#define COLUMNS_MAX 16

static void check_fence(const struct hf__reply *reply)
{
    assert(reply->fence > 0 && reply->fence % 256 == 0 && reply->fence < 1ull << 62);
}

static void check_holder(const struct hf__holder *holder)
{
    assert(memchr(holder->host, '\0', sizeof(holder->host)));
    assert(memchr(holder->purpose, '\0', sizeof(holder->purpose)));
}

static void hear(struct hf__postgres *conn, uint8_t kind, const char *text)
{
    struct hf__ticket ticket = { .kind = kind % HF__REQUEST_SURVEY, .claim_id = 7 };
    struct hf__reply reply;

    hf__queue_hear(conn, &ticket, text, &reply);
    assert(reply.ticket.kind == ticket.kind && reply.ticket.claim_id == 7);
    assert((reply.kind == HF__REPLY_UNKNOWN) == conn->ending);
    assert(reply.kind != HF__REPLY_UNKNOWN || reply.status == HF_EPROTOCOL);
    assert(reply.kind != HF__REPLY_FAILED || reply.status < 0);
    if (reply.kind == HF__REPLY_GRANTED)
        check_fence(&reply);
    if (reply.holder)
        check_holder(reply.holder);
    if (ticket.kind == HF__REQUEST_RELEASE)
        assert(reply.kind != HF__REPLY_GRANTED && reply.kind != HF__REPLY_QUEUED);
}

static void hear_message(const char *text)
{
    struct hf__reply reply;

    if (!hf__queue_news(text, &reply))
        return;
    assert(reply.ticket.kind == HF__REQUEST_NONE);
    assert(reply.kind == HF__REPLY_GRANTED || reply.kind == HF__REPLY_CROWDED ||
           reply.kind == HF__REPLY_GONE);
    if (reply.kind == HF__REPLY_GRANTED)
        check_fence(&reply);
}

/* One row, of as many columns as there are bytes for. */
static PGresult *make_row(const uint8_t *bytes, size_t count)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc columns[COLUMNS_MAX] = { 0 };
    const uint8_t *starts[COLUMNS_MAX];
    int lengths[COLUMNS_MAX];
    int n = 0;
    char name[] = "c";

    for (size_t at = 0; n < COLUMNS_MAX && at + 2 <= count; n++) {
        size_t length = (size_t)bytes[at] << 8 | bytes[at + 1];

        at += 2;
        columns[n].name = name;
        starts[n] = bytes + at;
        lengths[n] = length == 0xffff ? -1 : (int)(length < count - at ? length : count - at);
        at += lengths[n] > 0 ? (size_t)lengths[n] : 0;
    }
    assert(result && PQsetResultAttrs(result, n, columns));
    for (int i = 0; i < n; i++) {
        char *copy = malloc(lengths[i] > 0 ? (size_t)lengths[i] : 1);

        assert(copy);
        if (lengths[i] > 0)
            memcpy(copy, starts[i], (size_t)lengths[i]);
        assert(PQsetvalue(result, 0, i, lengths[i] < 0 ? NULL : copy, lengths[i]));
        free(copy);
    }
    return result;
}

static void hear_row(struct hf__postgres *conn, const uint8_t *bytes, size_t count)
{
    PGresult *result = make_row(bytes, count);

    conn->list_all = count % 2 == 0;
    memcpy(conn->list_glob, "a*", sizeof("a*"));
    if (PQntuples(result) == 1 && hf__queue_entry(conn, result, 0)) {
        size_t length = strlen(conn->entry.name);

        assert(length > 0 && length <= HF_NAME_BYTES_MAX);
        assert(length == (size_t)PQgetlength(result, 0, 0));
        assert(conn->list_all || conn->entry.name[0] == 'a');
        assert(conn->entry.waiting || conn->entry.position == 0);
        check_holder(&conn->bearer.holder);
    }
    PQclear(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct hf__postgres *conn = calloc(1, sizeof(*conn));
    char *text = calloc(1, count + 1);
    struct hf__env env;

    assert(conn && text && hf__env_init(&env) == HF_OK);
    conn->base.env = &env;
    conn->base.recipe = &hf__postgres_queue;
    hf__vigil_init(&conn->vigils, conn->base.env);
    if (count > 1)
        memcpy(text, bytes + 1, count - 1);
    if (count > 2 && bytes[0] % 3 == 0)
        hear(conn, bytes[1], text + 1);
    else if (count > 1 && bytes[0] % 3 == 1)
        hear_message(text);
    else if (count > 1 && bytes[0] % 3 == 2)
        hear_row(conn, bytes + 1, count - 1);
    hf__vigil_done(&conn->vigils);
    hf__env_done(&env);
    free(text);
    free(conn);
    return 0;
}
