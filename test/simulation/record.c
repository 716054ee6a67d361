/* record.c: what is known, by somebody who sees everything, about each claim?
 *
 * An attempt is a user's claim; a record is a claim id as the stores know it. An attempt may have
 * several records (it was undone and tried anew), and a record may carry several attempts (the turn
 * was handed on): it then names the first. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "simulation.h"

static void *grow(void *old, size_t *room, size_t bytes)
{
    void *memory;

    *room = *room ? *room * 2 : 256;
    memory = realloc(old, *room * bytes);
    if (!memory)
        abort();
    return memory;
}

size_t record_attempt(struct world *world, const struct attempt *attempt)
{
    if (world->attempt_count == world->attempt_room)
        world->attempts = grow(world->attempts, &world->attempt_room, sizeof(*attempt));
    world->attempts[world->attempt_count] = *attempt;
    return world->attempt_count++;
}

static uint64_t *head_of(struct world *world, const uint8_t *token)
{
    uint64_t hash;

    if (!world->record_heads) {
        world->record_heads = calloc(RECORD_HEADS, sizeof(uint64_t));
        if (!world->record_heads)
            abort();
    }
    memcpy(&hash, token, sizeof(hash));
    return &world->record_heads[hash & (RECORD_HEADS - 1)];
}

struct record *record_find(struct world *world, const uint8_t *token)
{
    uint64_t place = *head_of(world, token);

    while (place > 0 && memcmp(world->records[place - 1].token, token, HF__TOKEN_BYTES) != 0)
        place = world->records[place - 1].chain;
    return place > 0 ? &world->records[place - 1] : NULL;
}

struct record *record_get(struct world *world, const uint8_t *token)
{
    struct record *record = record_find(world, token);
    uint64_t *head = head_of(world, token);

    if (record)
        return record;
    if (world->record_count == world->record_room)
        world->records = grow(world->records, &world->record_room, sizeof(*record));
    record = &world->records[world->record_count++];
    *record = (struct record){ .chain = *head, .attempt = SIZE_MAX, .crowded_number = UINT64_MAX };
    memcpy(record->token, token, HF__TOKEN_BYTES);
    *head = world->record_count;
    return record;
}
