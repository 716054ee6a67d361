/* hope.c: may a claim take it that nobody is there?
 *
 * Most locks are free when they are asked for. So the first question of a claim is whether its line
 * is empty: if it is, the key is made, and is the first without the line being read; the server
 * works less for that than for a look at the line. It holds nothing against anybody: whoever comes
 * later has a later revision.
 *
 * What can go wrong: somebody is there, which costs one question more. So of a lock that was found
 * like this the line is read at once for the next few times. */
#include <string.h>

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

void hf__hope_claim(struct hf__etcd *conn, struct hf__stand *stand)
{
    const struct hf__rank *line = stand->line;
    char key[HF__OWN_KEY_BYTES];
    char end[HF__LOCK_KEY_BYTES];
    char guard[HF__LOCK_KEY_BYTES];
    char value[HF__VALUE_BYTES];
    ProtobufCBinaryData own = hf__etcd_bytes(key, hf__stand_key(stand, key));
    struct hf__quest *quest;
    struct hf__txn txn;

    memcpy(end, line->key, line->key_bytes);
    end[line->key_bytes - 1]++; /* behind "/" */
    hf__txn_init(&txn);
    hf__txn_if_none(&txn, hf__etcd_bytes(line->key, line->key_bytes),
                    hf__etcd_bytes(end, line->key_bytes));
    hf__txn_if_version(&txn, hf__etcd_bytes(guard, hf__lease_guard_key(conn, stand->lease, guard)),
                       stand->lease->guard);
    hf__txn_put(&txn, own, hf__etcd_bytes(value, hf__revision_value(stand, value)),
                stand->lease->id);
    hf__stand_count_claim(stand);
    quest = hf__revision_ask(conn, stand, HF__QUERY_CLAIM, stand->lease, &txn);
    if (quest)
        quest->hopes = true;
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
