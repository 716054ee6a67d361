/* answers.c: replies that wait to be fetched.
 *
 * A ring that grows. Room is reserved before anything is done that must be answered, so that running
 * out of memory is a refusal and never a lost answer. */
#include <string.h>

#include "engine/embedded/embedded.h"

#define FIRST_ROOM 16u

int hf__answers_reserve(struct hf__embedded *conn, size_t count)
{
    struct hf__answers *answers = &conn->answers;
    size_t room = answers->room ? answers->room : FIRST_ROOM;
    struct hf__answer *items;

    if (answers->count + count <= answers->room)
        return HF_OK;
    while (room < answers->count + count)
        room *= 2;
    items = hf__env_new(conn->base.env, room * sizeof(*items));
    if (!items)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");

    for (size_t i = 0; i < answers->count; i++)
        items[i] = answers->items[(answers->first + i) & (answers->room - 1)];
    hf__env_free(conn->base.env, answers->items);
    answers->items = items;
    answers->room = room;
    answers->first = 0;
    return HF_OK;
}

struct hf__answer *hf__answers_add(struct hf__embedded *conn, const struct hf__ticket *ticket,
                                   enum hf__reply_kind kind)
{
    struct hf__answers *answers = &conn->answers;
    struct hf__answer *answer;

    assert(answers->count < answers->room);

    answer = &answers->items[(answers->first + answers->count++) & (answers->room - 1)];
    memset(&answer->reply, 0, sizeof(answer->reply));
    answer->reply.kind = kind;
    answer->reply.ticket = *ticket;
    return answer;
}

bool hf__answers_fetch(struct hf__embedded *conn, struct hf__reply *out_reply)
{
    struct hf__answers *answers = &conn->answers;
    struct hf__answer *answer;

    if (answers->count == 0)
        return false;
    answer = &answers->items[answers->first];
    answers->first = (answers->first + 1) & (answers->room - 1);
    answers->count--;
    *out_reply = answer->reply;
    if (answer->reply.holder) {
        conn->holder = answer->holder; /* the ring may grow before the caller has read it */
        out_reply->holder = &conn->holder;
    }
    return true;
}

void hf__answers_done(struct hf__embedded *conn)
{
    hf__env_free(conn->base.env, conn->answers.items);
    memset(&conn->answers, 0, sizeof(conn->answers));
}
