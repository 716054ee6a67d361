/* outbox.c: replies that wait to be fetched.
 *
 * A ring that grows. Room is reserved before anything is done that must be answered, so that
 * running out of memory is a refusal and never a lost answer. */
#include <string.h>

#include "engine/embedded/embedded.h"

#define FIRST_ROOM 16u

int hf__outbox_reserve(struct hf__embedded *conn, size_t count)
{
    struct hf__outbox *outbox = &conn->outbox;
    size_t room = outbox->room ? outbox->room : FIRST_ROOM;
    struct hf__outbox_item *items;

    if (outbox->count + count <= outbox->room)
        return HF_OK;
    while (room < outbox->count + count)
        room *= 2;
    items = hf__env_new(conn->base.env, room * sizeof(*items));
    if (!items)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");

    for (size_t i = 0; i < outbox->count; i++)
        items[i] = outbox->items[(outbox->first + i) & (outbox->room - 1)];
    hf__env_free(conn->base.env, outbox->items);
    outbox->items = items;
    outbox->room = room;
    outbox->first = 0;
    return HF_OK;
}

/* Field by field here and when it is fetched: clearing and copying it as a block costs more than
 * the whole uncontended claim (small stores do not forward to wide loads). */
static void write_reply(struct hf__reply *reply, enum hf__reply_kind kind,
                        const struct hf__ticket *ticket)
{
    reply->kind = kind;
    reply->ticket.kind = ticket->kind;
    reply->ticket.round = ticket->round;
    reply->ticket.claim_id = ticket->claim_id;
    reply->ticket.sent_ns = ticket->sent_ns;
    reply->fence = 0;
    reply->ahead = 0;
    reply->others_wait = false;
    reply->released = false;
    reply->appointed = false;
    reply->lease_ns = 0;
    reply->status = 0;
    reply->cause = NULL;
    reply->wake = NULL;
    reply->holder = NULL;
    reply->entry = NULL;
}

struct hf__outbox_item *hf__outbox_add(struct hf__embedded *conn, const struct hf__ticket *ticket,
                                       enum hf__reply_kind kind)
{
    struct hf__outbox *outbox = &conn->outbox;
    struct hf__outbox_item *answer;

    assert(outbox->count < outbox->room);

    answer = &outbox->items[(outbox->first + outbox->count++) & (outbox->room - 1)];
    write_reply(&answer->reply, kind, ticket);
    return answer;
}

bool hf__outbox_fetch(struct hf__embedded *conn, struct hf__reply *out_reply)
{
    struct hf__outbox *outbox = &conn->outbox;
    const struct hf__outbox_item *answer;

    if (outbox->count == 0)
        return false;
    answer = &outbox->items[outbox->first];
    outbox->count--;
    outbox->first = outbox->count == 0 ? 0 : (outbox->first + 1) & (outbox->room - 1);
    write_reply(out_reply, answer->reply.kind, &answer->reply.ticket);
    out_reply->fence = answer->reply.fence;
    out_reply->ahead = answer->reply.ahead;
    out_reply->others_wait = answer->reply.others_wait;
    out_reply->released = answer->reply.released;
    out_reply->lease_ns = answer->reply.lease_ns;
    out_reply->status = answer->reply.status;
    out_reply->cause = answer->reply.cause;
    out_reply->wake = answer->reply.wake;
    if (answer->reply.holder) {
        conn->holder = answer->holder; /* the ring may grow before the caller has read it */
        out_reply->holder = &conn->holder;
    }
    return true;
}

void hf__outbox_done(struct hf__embedded *conn)
{
    hf__env_free(conn->base.env, conn->outbox.items);
    memset(&conn->outbox, 0, sizeof(conn->outbox));
}
