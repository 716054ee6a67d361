/* guard.c: who may change this, and what if he dies while he does?
 *
 * A guard is a word that names the session inside. Taking and giving a free one is one
 * compare-and-swap each. Whoever finds it taken spins a little, then sleeps for a millisecond at a
 * time, and each time looks whether the session inside still lives.
 *
 * All changes under a guard are collected here first (put), and read back from here (get). Commit
 * copies them into the guard's journal, makes them valid with one store, applies them and takes the
 * journal back with another. So a death
 *   before the store  leaves nothing behind: the changes never happened;
 *   after it          leaves a journal that whoever takes the guard over applies again. Applying it
 *                     twice, or half and then whole, gives the same words.
 * Nothing that a journal writes may be written without its guard, or replaying would undo newer
 * work.
 *
 * What can go wrong: the session inside is stopped (SIGSTOP): after two seconds HF_EUNREACHABLE,
 * and the caller comes again. The guard's word or the journal is garbage: HF_EINTEGRITY, nothing is
 * applied. Robust mutexes of the C library would do the first half of this, but they keep pointers
 * in the shared memory, and whoever may write the table could forge them. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define SPINS      400u
#define NAP_NS     1000000l
#define NAPS_MAX   2000u
#define COUNT_BITS 56

static_assert(HF__CHANGES_MAX < 1u << (64 - COUNT_BITS), "the count must fit beside the hash");

/* --- the journal --- */

static uint64_t hash_changes(const struct hf__embedded *conn, uint32_t guard,
                             const struct hf__change *changes, uint32_t count)
{
    uint64_t hash = HF__SEAL_BLOCK + guard;

    for (uint32_t i = 0; i < count; i++)
        hash = hf__seal_mix(&conn->table.seal, hash ^ changes[i].offset, changes[i].value + i);

    return (uint64_t)count << COUNT_BITS | (hash & ((1ull << COUNT_BITS) - 1));
}

static bool may_be_changed(uint64_t offset)
{
    if (offset % 8 != 0 || offset >= HF__SHORT_NAMES_OFFSET)
        return false;
    if (offset < HF__PAGE_BYTES)
        return offset >= offsetof(struct hf__header_cell, rooms);
    return offset >= HF__BUCKETS_OFFSET &&
           (offset < HF__SESSIONS_OFFSET || offset >= HF__NODES_OFFSET);
}

static void apply(struct hf__embedded *conn, const struct hf__change *changes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        hf__table_store((uint64_t *)(void *)(conn->table.map + changes[i].offset),
                        changes[i].value);
        hf__death_point(i == 0 ? "first change applied" : "change applied");
    }
}

/* Finishes what the one before us had committed. */
static int replay(struct hf__embedded *conn, uint32_t guard)
{
    struct hf__guard_cell *cell = hf__table_guard(&conn->table, guard);
    struct hf__change changes[HF__CHANGES_MAX];
    uint64_t journal = hf__table_load(&cell->journal);
    uint32_t count = (uint32_t)(journal >> COUNT_BITS);

    if (journal == 0)
        return HF_OK;
    if (count == 0 || count > HF__CHANGES_MAX)
        return hf__table_damaged(conn, "a journal");

    for (uint32_t i = 0; i < count; i++) {
        changes[i].offset = hf__table_load(&cell->changes[i].offset);
        changes[i].value = hf__table_load(&cell->changes[i].value);
        if (!may_be_changed(changes[i].offset))
            return hf__table_damaged(conn, "a journal");
    }
    if (journal != hash_changes(conn, guard, changes, count))
        return hf__table_damaged(conn, "a journal");

    hf__death_point("replay begun");
    apply(conn, changes, count);
    hf__table_store(&cell->journal, 0);
    hf__death_point("replay done");
    return HF_OK;
}

uint64_t hf__guard_get(const struct hf__embedded *conn, const uint64_t *word)
{
    uint64_t offset = hf__table_place(&conn->table, word);

    assert(conn->guard < HF__GUARDS);

    for (uint32_t i = conn->change_count; i > 0; i--) {
        if (conn->changes[i - 1].offset == offset)
            return conn->changes[i - 1].value;
    }
    return hf__table_load(word);
}

void hf__guard_put(struct hf__embedded *conn, uint64_t *word, uint64_t value)
{
    uint64_t offset = hf__table_place(&conn->table, word);

    assert(conn->guard < HF__GUARDS && may_be_changed(offset));

    for (uint32_t i = 0; i < conn->change_count; i++) {
        if (conn->changes[i].offset == offset) {
            conn->changes[i].value = value;
            return;
        }
    }
    if (hf__table_load(word) == value)
        return;
    assert(conn->change_count < HF__CHANGES_MAX);
    conn->changes[conn->change_count++] = (struct hf__change){ offset, value };
}

bool hf__guard_has_room(const struct hf__embedded *conn, uint32_t changes)
{
    return conn->change_count + changes <= HF__CHANGES_MAX;
}

void hf__guard_commit(struct hf__embedded *conn)
{
    struct hf__guard_cell *cell = hf__table_guard(&conn->table, conn->guard);
    uint32_t count = conn->change_count;

    assert(conn->guard < HF__GUARDS);

    if (count == 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        hf__table_store(&cell->changes[i].offset, conn->changes[i].offset);
        hf__table_store(&cell->changes[i].value, conn->changes[i].value);
        if (i == 0)
            hf__death_point("journal begun");
    }
    hf__death_point("journal written");
    hf__table_store(&cell->journal, hash_changes(conn, conn->guard, conn->changes, count));
    hf__death_point("journal committed");
    apply(conn, conn->changes, count);
    hf__death_point("all changes applied");
    hf__table_store(&cell->journal, 0);
    hf__death_point("journal cleared");
    conn->change_count = 0;
}

/* --- the guard --- */

/* The lower half of the word, which is what the kernel compares. */
static uint32_t *futex_of(uint64_t *word)
{
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the owner is the first half");
    return (uint32_t *)(void *)word;
}

static void nap(uint64_t *word, uint32_t seen)
{
    struct timespec timeout = { .tv_sec = 0, .tv_nsec = NAP_NS };

    /* Woken, timed out, interrupted, changed: all the same, we look again. */
    (void)syscall(SYS_futex, futex_of(word), FUTEX_WAIT, seen, &timeout, NULL, 0);
}

static void wake_one(uint64_t *word)
{
    (void)syscall(SYS_futex, futex_of(word), FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* True: it is ours. `crowded`: others may sleep on it, so whoever gives it must wake one. */
static bool try_take(struct hf__embedded *conn, struct hf__guard_cell *cell, uint32_t value)
{
    return hf__table_swap(&cell->word, hf__table_sealed(&conn->table, &cell->word, HF__OWNER_NONE),
                          hf__table_sealed(&conn->table, &cell->word, value));
}

static int inherit(struct hf__embedded *conn, uint32_t guard, uint64_t seen)
{
    struct hf__guard_cell *cell = hf__table_guard(&conn->table, guard);
    uint64_t mine = hf__table_sealed(&conn->table, &cell->word, conn->owner | HF__GUARD_CROWDED);
    int status;

    if (!hf__table_swap(&cell->word, seen, mine))
        return 0; /* somebody else was faster */

    hf__death_point("guard inherited");
    conn->guard = guard;
    conn->change_count = 0;
    status = replay(conn, guard);
    if (status < 0) {
        /* What was half done stays closed: everybody who comes here hears of the damage. */
        conn->guard = HF__GUARDS;
        (void)hf__table_swap(&cell->word, mine, seen);
        return status;
    }
    return 1;
}

/* 1: it is ours now; 0: look again; < 0: it cannot be had. */
static int wait_a_little(struct hf__embedded *conn, uint32_t guard)
{
    struct hf__guard_cell *cell = hf__table_guard(&conn->table, guard);
    uint64_t seen = hf__table_load(&cell->word);
    uint32_t value;
    uint32_t owner;
    uint64_t crowded;
    int dead;

    if (!hf__table_unsealed(&conn->table, &cell->word, seen, &value))
        return hf__table_damaged(conn, "a guard");
    owner = value & ~HF__GUARD_CROWDED;
    if (owner == HF__OWNER_NONE)
        return try_take(conn, cell, conn->owner | HF__GUARD_CROWDED);
    if (owner == conn->owner)
        return hf__table_damaged(conn, "a guard (taken in our name)");

    crowded = hf__table_sealed(&conn->table, &cell->word, value | HF__GUARD_CROWDED);
    if (seen != crowded && !hf__table_swap(&cell->word, seen, crowded))
        return 0;
    nap(&cell->word, (uint32_t)crowded);
    if (hf__table_load(&cell->word) != crowded)
        return 0;

    dead = hf__session_dead(conn, owner, NULL);
    if (dead <= 0)
        return dead;
    return inherit(conn, guard, crowded);
}

static int take_slowly(struct hf__embedded *conn, uint32_t guard)
{
    struct hf__guard_cell *cell = hf__table_guard(&conn->table, guard);
    int got = 0;

    for (uint32_t i = 0; i < SPINS; i++) {
        HF__WORD_PAUSE();
        if ((uint32_t)hf__table_load(&cell->word) == HF__OWNER_NONE &&
            try_take(conn, cell, conn->owner))
            return HF_OK;
    }
    for (uint32_t i = 0; i < NAPS_MAX && got == 0; i++)
        got = wait_a_little(conn, guard);

    if (got == 0)
        return hf__error_set(
            conn->base.error, HF_EUNREACHABLE,
            "%s/table: process %lld is inside guard %u and does not go on (stopped?)",
            conn->table.path,
            (long long)hf__session_pid(conn,
                                       (uint32_t)hf__table_load(&cell->word) & ~HF__GUARD_CROWDED),
            guard);
    return got < 0 ? got : HF_OK;
}

int hf__guard_take(struct hf__embedded *conn, uint32_t guard)
{
    struct hf__guard_cell *cell = hf__table_guard(&conn->table, guard);

    assert(guard < HF__GUARDS);
    assert(conn->guard == HF__GUARDS); /* one at a time: so there is no order to keep */

    if (!try_take(conn, cell, conn->owner)) {
        int status = take_slowly(conn, guard);

        if (status < 0)
            return status;
    }
    conn->guard = guard;
    conn->change_count = 0;
    hf__death_point("guard taken");
    return HF_OK;
}

int hf__guard_give(struct hf__embedded *conn)
{
    struct hf__guard_cell *cell = hf__table_guard(&conn->table, conn->guard);
    uint64_t free = hf__table_sealed(&conn->table, &cell->word, HF__OWNER_NONE);
    uint64_t crowded = hf__table_sealed(&conn->table, &cell->word, conn->owner | HF__GUARD_CROWDED);

    assert(conn->guard < HF__GUARDS);

    conn->guard = HF__GUARDS;
    conn->change_count = 0;
    if (hf__table_swap(&cell->word, hf__table_sealed(&conn->table, &cell->word, conn->owner), free))
        return HF_OK;
    if (!hf__table_swap(&cell->word, crowded, free))
        return hf__table_damaged(conn, "a guard (taken away from us)");

    hf__death_point("guard given, sleeper not woken");
    wake_one(&cell->word);
    return HF_OK;
}
