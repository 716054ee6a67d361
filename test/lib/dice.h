/* dice.h: numbers that look random and are the same in every run of a seed (for tests only). */
#ifndef TEST_DICE_H
#define TEST_DICE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct dice {
    uint64_t state; /* the seed: any number */
};

/* A Weyl sequence, and the finaliser of Stafford's "mix13" upon it (as in SplitMix64). */
static inline uint64_t dice_roll(struct dice *dice)
{
    uint64_t x = dice->state += 0x9e3779b97f4a7c15;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* 0 to limit - 1. */
static inline uint64_t dice_below(struct dice *dice, uint64_t limit)
{
    assert(limit > 0);
    return dice_roll(dice) % limit;
}

static inline void dice_fill(struct dice *dice, void *out_bytes, size_t count)
{
    uint8_t *bytes = out_bytes;

    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)dice_roll(dice);
}

#endif
