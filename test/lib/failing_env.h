/* failing_env.h: a world in which memory runs out on demand, and chance repeats itself.
 *
 * To fail every allocation of a piece of work in turn:
 *
 *     size_t refused = 1;
 *
 *     for (size_t nth = 1; refused > 0; nth++) {
 *         struct failing_env world;
 *
 *         failing_env_init(&world, nth);
 *         status = work(&world.env);
 *         refused = world.refused;
 *         CHECK_EQUAL(status, refused > 0 ? HF_ENOMEM : HF_OK);
 *         CHECK_EQUAL(world.live, 0);
 *     }
 *
 * Counts may be read at any time; allocation and release may come from any thread. */
#ifndef TEST_FAILING_ENV_H
#define TEST_FAILING_ENV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/env.h"
#include "dice.h"

struct failing_env {
    struct hf__env env;
    size_t fail_nth; /* this allocation is refused, counted from 1; 0: none                     */
    bool fail_later; /* ... and all that come after it                                          */
    _Atomic size_t allocations; /* asked for, refused ones included                             */
    _Atomic size_t refused;
    _Atomic size_t live;   /* given, and not released: at the end, leaks                        */
    _Atomic size_t traced; /* lines of trace; they go nowhere                                   */
    struct dice dice;      /* what hf__env_random gives; seed it anew for another world         */
};

/* Owns nothing: there is no _done. Must not be moved afterwards. */
void failing_env_init(struct failing_env *world, size_t fail_nth);

#endif
