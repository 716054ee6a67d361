/* hope.c: may a claim take it that nobody is there?
 *
 * Most locks are free when they are asked for. So the first question of a claim is whether its line
 * is empty: if it is, the key is made, and is the first without the line being read; the server
 * works less for that than for a look at the line. It holds nothing against anybody: whoever comes
 * later has a later revision.
 *
 * What can go wrong: somebody is there, which costs one question more, and one more to all who
 * travel with it (convoy.c). So of a lock where somebody was found the line is read at once for the
 * next few times. */
#include "engine/etcd/etcd.h"

#define DOUBTS 8 /* so many turns are taken with a look after one that was hoped for in vain */

static uint8_t *doubts_of(struct hf__etcd *conn, const struct hf__stand *stand)
{
    return &conn->doubts[stand->line->hash % HF__DOUBTS];
}

bool hf__hope_may(struct hf__etcd *conn, const struct hf__stand *stand)
{
    return stand->mode == HF_EXCLUSIVE && stand->tries == 0 && *doubts_of(conn, stand) == 0;
}

void hf__hope_disappoint(struct hf__etcd *conn, const struct hf__stand *stand)
{
    *doubts_of(conn, stand) = DOUBTS;
}

void hf__hope_revive(struct hf__etcd *conn, const struct hf__stand *stand)
{
    uint8_t *doubts = doubts_of(conn, stand);

    if (*doubts > 0)
        (*doubts)--;
}
