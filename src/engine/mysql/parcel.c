/* parcel.c: what is under way on this connection?
 *
 * The server answers in the order of asking, so a list is enough. What is not answered by its
 * deadline is UNKNOWN to whoever asked, and stays in the list as somebody whom nobody waits for.
 * What was written for the server counts as sent; a listing changes nothing, and so it is FAILED in
 * any case. */
#include <assert.h>

#include "base/clock.h"
#include "engine/mysql/mysql.h"

struct hf__parcel *hf__parcel_new(struct hf__mysql *conn, enum hf__parcel_kind kind,
                                  uint32_t tickets)
{
    struct hf__parcel *parcel;

    parcel = hf__env_new(conn->base.env, sizeof(*parcel) + tickets * sizeof(parcel->tickets[0]));
    if (!parcel) {
        (void)hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        return NULL;
    }
    hf__list_init(&parcel->place);
    parcel->kind = kind;
    parcel->count = tickets;
    return parcel;
}

int hf__parcel_send(struct hf__mysql *conn, struct hf__parcel *parcel, int written)
{
    if (written < 0) {
        hf__parcel_free(conn, parcel);
        if (!conn->ending)
            hf__mysql_end(conn,
                          hf__error_set(conn->base.error, written, "%s: too much waits to be sent",
                                        hf__cable_peer(&conn->cable)));
        return conn->end_status;
    }
    if (parcel->deadline_ns < conn->first_deadline_ns)
        conn->first_deadline_ns = parcel->deadline_ns;
    hf__list_append(&conn->parcels, &parcel->place);
    return HF_OK;
}

void hf__parcel_free(struct hf__mysql *conn, struct hf__parcel *parcel)
{
    hf__list_remove(&parcel->place);
    if (parcel->anchor)
        parcel->anchor->under_way--;
    hf__env_free(conn->base.env, parcel->fallback);
    hf__env_free(conn->base.env, parcel);
}

void hf__parcel_done(struct hf__mysql *conn)
{
    HF__LIST_FOR(place, &conn->parcels)
    {
        hf__parcel_free(conn, HF__LIST_ENTRY(place, struct hf__parcel, place));
    }
}

struct hf__parcel *hf__parcel_oldest(const struct hf__mysql *conn)
{
    if (hf__list_empty(&conn->parcels))
        return NULL;
    return HF__LIST_ENTRY(conn->parcels.next, struct hf__parcel, place);
}

bool hf__parcel_has(const struct hf__mysql *conn, enum hf__parcel_kind kind)
{
    HF__LIST_FOR(place, &conn->parcels)
    {
        if (HF__LIST_ENTRY(place, struct hf__parcel, place)->kind == kind)
            return true;
    }
    return false;
}

static bool is_open(const struct hf__parcel *parcel)
{
    return !parcel->abandoned && parcel->answered < parcel->count;
}

static void answer(struct hf__parcel *parcel, int status, struct hf__reply *out_reply)
{
    bool lists = parcel->kind == HF__PARCEL_LIST;

    hf__mysql_reply(&parcel->tickets[parcel->answered++],
                    lists ? HF__REPLY_FAILED : HF__REPLY_UNKNOWN, out_reply);
    out_reply->status = status;
}

int hf__parcel_expire(struct hf__mysql *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    uint64_t first_ns = HF__NEVER;

    if (now_ns < conn->first_deadline_ns)
        return 0;
    HF__LIST_FOR(place, &conn->parcels)
    {
        struct hf__parcel *parcel = HF__LIST_ENTRY(place, struct hf__parcel, place);

        if (parcel->abandoned)
            continue;
        if (now_ns < parcel->deadline_ns) {
            first_ns = parcel->deadline_ns < first_ns ? parcel->deadline_ns : first_ns;
            continue;
        }
        (void)hf__error_set(conn->base.error, HF_EUNREACHABLE, "%s: no answer in time",
                            hf__cable_peer(&conn->cable));
        if (parcel->kind == HF__PARCEL_ARRIVAL) {
            hf__mysql_end(conn, HF_EUNREACHABLE);
            return 0;
        }
        if (is_open(parcel)) {
            answer(parcel, HF_EUNREACHABLE, out_reply);
            return 1;
        }
        parcel->abandoned = true;
    }
    conn->first_deadline_ns = first_ns;
    return 0;
}

int hf__parcel_end_next(struct hf__mysql *conn, struct hf__reply *out_reply)
{
    assert(conn->ending);

    HF__LIST_FOR(place, &conn->parcels)
    {
        struct hf__parcel *parcel = HF__LIST_ENTRY(place, struct hf__parcel, place);

        if (is_open(parcel)) {
            answer(parcel, conn->end_status, out_reply);
            return 1;
        }
        hf__parcel_free(conn, parcel);
    }
    return 0;
}
