/* mysql_queue.c (fuzz): whatever a procedure of the server answers, a row of news says or a list
 * holds, it is understood or refused, and what comes out is what the core may be told.
 *
 * The first byte says which of them the others are: 0 the answer to a question of the kind in the
 * second byte, 1 news, 2 a row of a list; the second byte of these two is the number of columns,
 * and the others are the row as a server sends it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mysql/mysql.h"
#include "target.h"

static void check_fence(const struct hf__reply *reply)
{
    assert(reply->fence > 0 && reply->fence % 256 == 0 && reply->fence < 1ull << 62);
}

static void check_holder(const struct hf__holder *holder)
{
    assert(memchr(holder->host, '\0', sizeof(holder->host)));
    assert(memchr(holder->purpose, '\0', sizeof(holder->purpose)));
}

static void hear(struct hf__mysql *conn, uint8_t kind, const char *text)
{
    struct hf__ticket ticket = { .kind = kind % HF__REQUEST_SURVEY, .claim_id = 7 };
    struct hf__reply reply;

    conn->listens = kind >= 0x80;
    hf__mysql_queue_hear(conn, &ticket, text, &reply);
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

/* What was told once is not told again. */
static void hear_news(struct hf__mysql *conn, const struct hf__result *row)
{
    struct hf__result result = *row;
    struct hf__reply reply;

    if (!hf__mysql_queue_news(conn, &result, &reply))
        return;
    assert(reply.ticket.kind == HF__REQUEST_NONE);
    assert(reply.kind == HF__REPLY_GRANTED || reply.kind == HF__REPLY_CROWDED ||
           reply.kind == HF__REPLY_GONE);
    if (reply.kind == HF__REPLY_GRANTED)
        check_fence(&reply);
    result = *row;
    assert(!hf__mysql_queue_news(conn, &result, &reply));
}

static void hear_entry(struct hf__mysql *conn, struct hf__result *result, bool all)
{
    size_t length;

    conn->list_all = all;
    memcpy(conn->list_glob, "a*", sizeof("a*"));
    if (!hf__mysql_queue_entry(conn, result))
        return;
    length = strlen(conn->entry.name);
    assert(length > 0 && length <= HF_NAME_BYTES_MAX);
    assert(all || conn->entry.name[0] == 'a');
    assert(conn->entry.waiting || conn->entry.position == 0);
    assert(conn->entry.remaining_ms >= -1 && conn->entry.age_ms >= -1);
    check_holder(&conn->bearer.holder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct hf__mysql *conn = calloc(1, sizeof(*conn));
    char *text = calloc(1, count + 1);
    struct hf__result result = { .kind = HF__RESULT_ROW };
    struct hf__env env;

    assert(conn && text && hf__env_init(&env) == HF_OK);
    conn->base.env = &env;
    conn->base.recipe = &hf__mysql_queue.recipe;
    hf__vigil_init(&conn->vigils, conn->base.env);
    if (count > 2) {
        memcpy(text, bytes + 2, count - 2);
        result.columns = bytes[1];
        result.row = (struct hf__reading){ .at = bytes + 2, .end = bytes + count };
    }
    if (count > 2 && bytes[0] % 3 == 0)
        hear(conn, bytes[1], text);
    else if (count > 2 && bytes[0] % 3 == 1)
        hear_news(conn, &result);
    else if (count > 2)
        hear_entry(conn, &result, count % 2 == 0);
    hf__vigil_done(&conn->vigils);
    hf__env_done(&env);
    free(text);
    free(conn);
    return 0;
}
