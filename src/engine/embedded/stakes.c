/* stakes.c: our own claims, by token.
 *
 * A hash table with open addressing: tokens are random, so their first bytes are the hash. Stakes
 * come from blocks and never move, because lists and replies point at them. */
#include <string.h>

#include "engine/embedded/embedded.h"

#define FIRST_ROOM   64u
#define BLOCK_STAKES 64u

struct hf__stake_block {
    struct hf__stake_block *next;
    struct hf__stake stakes[BLOCK_STAKES];
};

static size_t home_of(const struct hf__stakes *stakes, const uint8_t *token)
{
    uint64_t key;

    memcpy(&key, token, sizeof(key));
    return (size_t)key & (stakes->room - 1);
}

static bool same(const uint8_t *a, const uint8_t *b)
{
    uint64_t words[4];

    memcpy(words, a, 16);
    memcpy(words + 2, b, 16);
    return words[0] == words[2] && words[1] == words[3];
}

struct hf__stake *hf__stakes_find(const struct hf__stakes *stakes, const uint8_t *token)
{
    if (stakes->room == 0)
        return NULL;
    for (size_t i = home_of(stakes, token); stakes->slots[i]; i = (i + 1) & (stakes->room - 1)) {
        if (same(stakes->slots[i]->token, token))
            return stakes->slots[i];
    }
    return NULL;
}

static void place(struct hf__stakes *stakes, struct hf__stake *stake)
{
    size_t i = home_of(stakes, stake->token);

    while (stakes->slots[i])
        i = (i + 1) & (stakes->room - 1);
    stakes->slots[i] = stake;
}

static bool grow(struct hf__embedded *conn)
{
    struct hf__stakes *stakes = &conn->stakes;
    struct hf__stakes wider = *stakes;

    wider.room = stakes->room ? stakes->room * 2 : FIRST_ROOM;
    wider.slots = hf__env_new(conn->base.env, wider.room * sizeof(struct hf__stake *));
    if (!wider.slots)
        return false;
    for (size_t i = 0; i < stakes->room; i++) {
        if (stakes->slots[i])
            place(&wider, stakes->slots[i]);
    }
    hf__env_free(conn->base.env, stakes->slots);
    stakes->slots = wider.slots;
    stakes->room = wider.room;
    return true;
}

static bool add_block(struct hf__embedded *conn)
{
    struct hf__stake_block *block = hf__env_new(conn->base.env, sizeof(*block));

    if (!block)
        return false;
    block->next = conn->stakes.blocks;
    conn->stakes.blocks = block;
    for (size_t i = 0; i < BLOCK_STAKES; i++) {
        hf__list_init(&block->stakes[i].place);
        hf__list_append(&conn->stakes.idle, &block->stakes[i].place);
    }
    return true;
}

/* Field by field: as a block it would cost as much as the rest of an uncontended claim. */
static void clear(struct hf__stake *stake)
{
    stake->word.low = 0;
    stake->word.high = 0;
    stake->lock = 0;
    stake->node = 0;
    stake->fence = 0;
    stake->lease_ns = 0;
    stake->ends_ns = 0;
    stake->seen_state = 0;
    stake->seen_notice = 0;
    stake->ahead = HF__OWNER_NONE;
    stake->watched = HF__OWNER_NONE;
    stake->watch = NULL;
    stake->cause = NULL;
    stake->waiting = false;
    stake->blocking = false;
    stake->shared = false;
    stake->ends = false;
    stake->suspected = false;
}

/* In no list yet, everything but the token zero; NULL when memory is out. */
struct hf__stake *hf__stakes_add(struct hf__embedded *conn, const uint8_t *token)
{
    struct hf__stakes *stakes = &conn->stakes;
    struct hf__stake *stake;

    if (stakes->count >= stakes->room / 2 && !grow(conn))
        return NULL;
    if (hf__list_empty(&stakes->idle) && !add_block(conn))
        return NULL;

    stake = HF__LIST_ENTRY(stakes->idle.next, struct hf__stake, place);
    hf__list_remove(&stake->place);
    clear(stake);
    memcpy(stake->token, token, HF__TOKEN_BYTES);
    place(stakes, stake);
    stakes->count++;
    return stake;
}

void hf__stakes_remove(struct hf__embedded *conn, struct hf__stake *stake)
{
    struct hf__stakes *stakes = &conn->stakes;
    size_t mask = stakes->room - 1;
    size_t hole = home_of(stakes, stake->token);

    assert(!stake->watch);

    while (stakes->slots[hole] != stake)
        hole = (hole + 1) & mask;
    /* Those behind it move up, unless they would come before their home. */
    for (size_t i = (hole + 1) & mask; stakes->slots[i]; i = (i + 1) & mask) {
        size_t home = home_of(stakes, stakes->slots[i]->token);

        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        stakes->slots[hole] = stakes->slots[i];
        hole = i;
    }
    stakes->slots[hole] = NULL;
    stakes->count--;
    hf__list_remove(&stake->place);
    hf__list_prepend(&stakes->idle, &stake->place);
}

void hf__stakes_done(struct hf__embedded *conn)
{
    struct hf__stake_block *block = conn->stakes.blocks;

    while (block) {
        struct hf__stake_block *next = block->next;

        hf__env_free(conn->base.env, block);
        block = next;
    }
    hf__env_free(conn->base.env, conn->stakes.slots);
    memset(&conn->stakes, 0, sizeof(conn->stakes));
}
