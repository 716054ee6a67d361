/* errand.c: what is under way on this connection?
 *
 * PostgreSQL answers in the order of asking, so a list is enough. What is not answered by its
 * deadline is UNKNOWN to whoever asked, and stays in the list as somebody whom nobody waits for.
 * Each statement is a transaction of its own, so that nothing else is undone when it fails; the
 * mark that ends it also sends it off, and is set when the next one comes or advance() does.
 * What was given to libpq counts as sent, for libpq does not tell how far it came with it; a
 * listing changes nothing, and so it is FAILED in any case. */
#include <assert.h>

#include "base/clock.h"
#include "engine/postgres/postgres.h"

struct hf__errand *hf__errand_new(struct hf__postgres *conn, enum hf__errand_kind kind,
                                  uint32_t tickets)
{
    struct hf__errand *errand;

    hf__errand_flush(conn);
    errand = hf__env_new(conn->base.env, sizeof(*errand) + tickets * sizeof(errand->tickets[0]));
    if (!errand) {
        (void)hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        return NULL;
    }
    hf__list_init(&errand->place);
    errand->kind = kind;
    errand->count = tickets;
    return errand;
}

int hf__errand_send(struct hf__postgres *conn, struct hf__errand *errand, int accepted)
{
    if (accepted != 1) {
        hf__errand_free(conn, errand);
        if (!conn->ending)
            hf__postgres_end(conn, hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                                 "%s: nothing can be sent", conn->peer));
        return conn->end_status;
    }
    conn->has_open_end = true;
    if (errand->deadline_ns < conn->first_deadline_ns)
        conn->first_deadline_ns = errand->deadline_ns;
    hf__list_append(&conn->errands, &errand->place);
    return HF_OK;
}

void hf__errand_flush(struct hf__postgres *conn)
{
    int flushed = 0;

    if (!conn->has_open_end || conn->ending)
        return;
    conn->has_open_end = false;
    if (PQpipelineSync(conn->pg) == 1)
        flushed = PQflush(conn->pg);
    else
        hf__postgres_end(conn, hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                             "%s: nothing can be sent", conn->peer));
    conn->wants_write = flushed > 0;
    if (flushed < 0)
        conn->may_read = true; /* a server that hung up may have said why */
}

void hf__errand_free(struct hf__postgres *conn, struct hf__errand *errand)
{
    hf__list_remove(&errand->place);
    if (errand->berth)
        errand->berth->under_way--;
    hf__env_free(conn->base.env, errand);
}

void hf__errand_done(struct hf__postgres *conn)
{
    HF__LIST_FOR(place, &conn->errands)
    {
        hf__errand_free(conn, HF__LIST_ENTRY(place, struct hf__errand, place));
    }
}

static bool is_open(const struct hf__errand *errand)
{
    return !errand->abandoned && errand->answered < errand->count;
}

static void answer(struct hf__errand *errand, int status, struct hf__reply *out_reply)
{
    bool lists = errand->kind == HF__ERRAND_LIST;

    hf__postgres_reply(&errand->tickets[errand->answered++],
                       lists ? HF__REPLY_FAILED : HF__REPLY_UNKNOWN, out_reply);
    out_reply->status = status;
}

int hf__errand_expire(struct hf__postgres *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    uint64_t first_ns = HF__NEVER;

    if (now_ns < conn->first_deadline_ns)
        return 0;
    HF__LIST_FOR(place, &conn->errands)
    {
        struct hf__errand *errand = HF__LIST_ENTRY(place, struct hf__errand, place);

        if (errand->abandoned)
            continue;
        if (now_ns < errand->deadline_ns) {
            first_ns = errand->deadline_ns < first_ns ? errand->deadline_ns : first_ns;
            continue;
        }
        (void)hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: no answer in time", conn->peer);
        if (errand->kind == HF__ERRAND_WELCOME) {
            hf__postgres_end(conn, HF_EUNREACHABLE);
            return 0;
        }
        if (is_open(errand)) {
            answer(errand, HF_EUNREACHABLE, out_reply);
            return 1;
        }
        errand->abandoned = true;
    }
    conn->first_deadline_ns = first_ns;
    return 0;
}

int hf__errand_end_next(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    assert(conn->ending);

    HF__LIST_FOR(place, &conn->errands)
    {
        struct hf__errand *errand = HF__LIST_ENTRY(place, struct hf__errand, place);

        if (is_open(errand)) {
            answer(errand, conn->end_status, out_reply);
            return 1;
        }
        hf__errand_free(conn, errand);
    }
    return 0;
}
