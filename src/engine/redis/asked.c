/* asked.c: what is under way on this connection?
 *
 * Redis answers in the order of asking, so a list is enough. What is not answered by its deadline
 * is UNKNOWN to whoever asked, and stays in the list as somebody whom nobody waits for. If not even
 * its first byte was sent, the connection is of no use: it ends, and the answer is FAILED. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "engine/redis/redis.h"

struct hf__asked *hf__asked_begin(struct hf__redis *conn, enum hf__asked_kind kind,
                                  uint32_t tickets)
{
    struct hf__asked *asked;

    if (tickets <= 1 && !hf__list_empty(&conn->free_asked)) {
        asked = HF__LIST_ENTRY(conn->free_asked.next, struct hf__asked, place);
        hf__list_remove(&asked->place);
    } else {
        asked = hf__env_new(conn->base.env,
                            sizeof(*asked) + (tickets ? tickets : 1) * sizeof(asked->tickets[0]));
        if (!asked) {
            hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
            return NULL;
        }
        hf__list_init(&asked->place);
    }
    asked->kind = kind;
    asked->step = 0;
    asked->course = NULL;
    asked->abandoned = false;
    asked->count = tickets;
    asked->answered = 0;
    asked->from = conn->sent_bytes + hf__buffer_count(&conn->out.buffer);
    return asked;
}

int hf__asked_end(struct hf__redis *conn, struct hf__asked *asked, uint64_t deadline_ns)
{
    if (conn->out.status < 0) { /* half a command is in the buffer: this connection is at its end */
        int status = hf__error_set(conn->base.error, conn->out.status, "out of memory");

        conn->ending = true;
        conn->end_status = status;
        hf__asked_free(conn, asked);
        return status;
    }
    asked->until = conn->sent_bytes + hf__buffer_count(&conn->out.buffer);
    asked->deadline_ns = deadline_ns;
    if (deadline_ns < conn->first_deadline_ns)
        conn->first_deadline_ns = deadline_ns;
    hf__list_append(&conn->asked, &asked->place);
    return HF_OK;
}

void hf__asked_free(struct hf__redis *conn, struct hf__asked *asked)
{
    hf__list_remove(&asked->place);
    if (asked->count <= 1)
        hf__list_append(&conn->free_asked, &asked->place);
    else
        hf__env_free(conn->base.env, asked);
}

static void free_all(struct hf__redis *conn, struct hf__list *list)
{
    HF__LIST_FOR(place, list)
    {
        hf__list_remove(place);
        hf__env_free(conn->base.env, HF__LIST_ENTRY(place, struct hf__asked, place));
    }
}

void hf__asked_done(struct hf__redis *conn)
{
    if (conn->current)
        hf__env_free(conn->base.env, conn->current);
    conn->current = NULL;
    free_all(conn, &conn->asked);
    free_all(conn, &conn->free_asked);
}

static bool has_requests(const struct hf__asked *asked)
{
    return asked->kind != HF__ASKED_GREETING && asked->kind != HF__ASKED_LOAD &&
           asked->kind != HF__ASKED_STEP;
}

static void answer(struct hf__redis *conn, struct hf__asked *asked, int status,
                   struct hf__reply *out_reply)
{
    bool lists = asked->kind == HF__ASKED_SCAN || asked->kind == HF__ASKED_PAGE;
    bool sent = asked->from < conn->sent_bytes && !lists; /* a listing changes nothing */

    if (lists)
        hf__scan_done(conn);
    hf__redis_reply(&asked->tickets[asked->answered++], sent ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED,
                    out_reply);
    out_reply->status = status;
}

int hf__asked_expire(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    uint64_t first_ns = HF__NEVER;

    if (now_ns < conn->first_deadline_ns)
        return 0;
    HF__LIST_FOR(place, &conn->asked)
    {
        struct hf__asked *asked = HF__LIST_ENTRY(place, struct hf__asked, place);

        if (asked->abandoned)
            continue;
        if (now_ns < asked->deadline_ns) {
            first_ns = asked->deadline_ns < first_ns ? asked->deadline_ns : first_ns;
            continue;
        }
        hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: no answer in time",
                      hf__stream_peer(conn->stream));
        if (asked->from >= conn->sent_bytes || !has_requests(asked)) {
            conn->ending = true;
            conn->end_status = HF_EUNREACHABLE;
            return 0;
        }
        if (asked->answered < asked->count) {
            answer(conn, asked, HF_EUNREACHABLE, out_reply);
            return 1;
        }
        asked->abandoned = true;
    }
    conn->first_deadline_ns = first_ns;
    return 0;
}

int hf__asked_end_next(struct hf__redis *conn, struct hf__reply *out_reply)
{
    HF__LIST_FOR(place, &conn->asked)
    {
        struct hf__asked *asked = HF__LIST_ENTRY(place, struct hf__asked, place);

        if (has_requests(asked) && !asked->abandoned && asked->answered < asked->count) {
            answer(conn, asked, conn->end_status, out_reply);
            return 1;
        }
        hf__asked_free(conn, asked);
    }
    return 0;
}
