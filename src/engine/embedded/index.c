/* index.c: which lock has this name?
 *
 * A hash table of chains. Finding a name takes no guard: the walk reads words that carry their
 * checks, and what it finds is proved afterwards, because the lock's word was read before its name
 * was compared and a lock that gets another name gets a higher fence too. Not finding it proves
 * nothing; then the walk is repeated under the table's guard, where every name on the way is hashed
 * again, so that a damaged one is not taken for another.
 *
 * A new name gets a lock that was never used, or one from the list of those given back. When there
 * are none left, names that nobody holds or waits for are collected: the word is marked RETIRED by
 * the same compare-and-swap that an owner would need, so nobody can be in between; then the lock
 * leaves its chain. Its fence lives on in the table's floor, below which no new lock begins.
 *
 * What can go wrong: all names are in use: HF_ELIMIT. A chain is damaged: HF_EINTEGRITY. Somebody
 * died between RETIRED and leaving the chain: who finds the name next takes the mark back. */
#include <string.h>

#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define LENGTH_BITS    11
#define MAKE_TRIES_MAX 64u
#define COLLECT_BATCH  256u
#define COLLECT_ENOUGH 4096u

/* --- names as words --- */

/* The i-th eight bytes of the name, zeros behind its end. */
static inline uint64_t chunk(const char *name, size_t name_bytes, size_t i)
{
    const char *at = name + 8 * i;
    size_t left = name_bytes - 8 * i;
    uint64_t word = 0;
    uint32_t four;
    uint16_t two;
    size_t done = 0;

    if (left >= 8) {
        memcpy(&word, at, 8);
        return word;
    }
    if (left & 4) {
        memcpy(&four, at, 4);
        word = four;
        done = 4;
    }
    if (left & 2) {
        memcpy(&two, at + done, 2);
        word |= (uint64_t)two << (8 * done);
        done += 2;
    }
    if (left & 1)
        word |= (uint64_t)(uint8_t)at[done] << (8 * done);
    return word;
}

static inline size_t chunks(size_t name_bytes)
{
    return (name_bytes + 7) / 8;
}

static inline uint64_t hash_next(const struct hf__table *table, uint64_t hash, uint64_t word)
{
    return hf__seal_mix(&table->seal, hash ^ word, hash + HF__SEAL_WORD);
}

uint64_t hf__index_hash(const struct hf__table *table, const char *name, size_t name_bytes)
{
    uint64_t hash = HF__SEAL_BLOCK + name_bytes;

    for (size_t i = 0; i < chunks(name_bytes); i++)
        hash = hash_next(table, hash, chunk(name, name_bytes, i));
    return hash;
}

static inline uint64_t label_of(uint64_t hash, size_t name_bytes)
{
    return hash << LENGTH_BITS | name_bytes;
}

static inline size_t label_bytes(uint64_t label)
{
    return label & ((1u << LENGTH_BITS) - 1);
}

static size_t name_room(uint32_t lock)
{
    return lock < HF__SHORT_NAMES_MAX ? HF__SHORT_NAME_BYTES : HF__LONG_NAME_BYTES;
}

static bool same_words(const struct hf__embedded *conn, uint32_t lock, const char *name,
                       size_t name_bytes)
{
    const uint64_t *words = hf__table_name(&conn->table, lock);

    for (size_t i = 0; i < chunks(name_bytes); i++) {
        if (__atomic_load_n(&words[i], __ATOMIC_RELAXED) != chunk(name, name_bytes, i))
            return false;
    }
    return true;
}

bool hf__index_is(const struct hf__embedded *conn, uint32_t lock, const char *name,
                  size_t name_bytes)
{
    uint64_t label = hf__table_load(&hf__table_lock(&conn->table, lock)->label);

    return label_bytes(label) == name_bytes && name_bytes <= name_room(lock) &&
           same_words(conn, lock, name, name_bytes);
}

/* The hash of the name that stands there; false: it does not fit its label, so it is damaged. */
static bool hash_stored(const struct hf__embedded *conn, uint32_t lock, uint64_t *out_hash)
{
    const uint64_t *words = hf__table_name(&conn->table, lock);
    uint64_t label = hf__table_load(&hf__table_lock(&conn->table, lock)->label);
    size_t bytes = label_bytes(label);
    uint64_t hash = HF__SEAL_BLOCK + bytes;

    if (bytes == 0 || bytes > name_room(lock))
        return false;
    for (size_t i = 0; i < chunks(bytes); i++)
        hash = hash_next(&conn->table, hash, __atomic_load_n(&words[i], __ATOMIC_RELAXED));
    *out_hash = hash;
    return label == label_of(hash, bytes);
}

size_t hf__index_name(const struct hf__embedded *conn, uint32_t lock, char out_name[1025])
{
    const uint64_t *words = hf__table_name(&conn->table, lock);
    size_t bytes = label_bytes(hf__table_load(&hf__table_lock(&conn->table, lock)->label));
    uint64_t hash;

    if (!hash_stored(conn, lock, &hash) || bytes > HF__LONG_NAME_BYTES)
        return 0;
    for (size_t i = 0; i < chunks(bytes); i++) {
        uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

        memcpy(out_name + 8 * i, &word, 8);
    }
    out_name[bytes] = '\0';
    return hf__index_is(conn, lock, out_name, bytes) ? bytes : 0;
}

/* --- chains --- */

struct search {
    struct hf__embedded *conn;
    const char *name;
    size_t name_bytes;
    uint64_t hash;
    enum hf__region region;
};

enum finding { FOUND, MISSING, DAMAGED };

static bool exists(struct hf__embedded *conn, uint32_t lock)
{
    if (lock < HF__SHORT_NAMES_MAX)
        return hf__table_reaches(conn, HF__REGION_SHORT, lock + 1);
    return lock < HF__LOCKS_MAX &&
           hf__table_reaches(conn, HF__REGION_LONG, lock - HF__SHORT_NAMES_MAX + 1);
}

/* Follows one link; counted from 1, 0 is the end. */
static bool follow(struct hf__embedded *conn, const uint64_t *link, bool guarded, uint32_t *out_at)
{
    uint64_t word = guarded ? hf__guard_get(conn, link) : hf__table_load(link);

    return hf__table_unsealed(&conn->table, link, word, out_at) &&
           (*out_at == 0 || exists(conn, *out_at - 1));
}

/* `guarded`: the answer is the truth. Otherwise MISSING and DAMAGED only mean: look more
 * closely. */
static enum finding walk(const struct search *search, bool guarded, uint32_t *out_lock)
{
    struct hf__embedded *conn = search->conn;
    const uint64_t *link = hf__table_bucket(&conn->table, search->hash % HF__BUCKETS);
    uint32_t at;

    for (uint32_t steps = 0; steps <= HF__LOCKS_MAX; steps++) {
        uint64_t other;

        if (!follow(conn, link, guarded, &at))
            return DAMAGED;
        if (at == 0)
            return MISSING;
        if (hf__index_is(conn, at - 1, search->name, search->name_bytes)) {
            *out_lock = at - 1;
            return FOUND;
        }
        if (guarded && (!hash_stored(conn, at - 1, &other) ||
                        other % HF__BUCKETS != search->hash % HF__BUCKETS))
            return DAMAGED;
        link = &hf__table_lock(&conn->table, at - 1)->next;
    }
    return DAMAGED;
}

/* --- making and collecting; all under the table's guard --- */

static int read_floor(struct hf__embedded *conn, uint64_t *out_floor)
{
    struct hf__header_cell *header = hf__table_header(&conn->table);
    uint64_t floor = hf__guard_get(conn, &header->floor);

    if (hf__guard_get(conn, &header->floor_check) != hf__table_floor_check(&conn->table, floor))
        return hf__table_damaged(conn, "its header");
    *out_floor = floor;
    return HF_OK;
}

static bool retire(const struct hf__embedded *conn, uint32_t lock, struct hf__word seen)
{
    struct hf__word wanted;

    wanted.low = seen.low | HF__WORD_RETIRED;
    wanted.high = hf__seal_high(&conn->table.seal, lock, wanted.low, HF__OWNER_NONE);
    return hf__word_exchange(&hf__table_lock(&conn->table, lock)->low, seen, wanted);
}

/* Of somebody who died while collecting it. */
static void unretire(const struct hf__embedded *conn, uint32_t lock)
{
    struct hf__word seen;
    struct hf__word wanted;

    if (!hf__line_peek(conn, lock, &seen) || !(seen.low & HF__WORD_RETIRED))
        return;
    wanted.low = seen.low & ~HF__WORD_RETIRED;
    wanted.high = hf__seal_high(&conn->table.seal, lock, wanted.low, HF__OWNER_NONE);
    (void)hf__word_exchange(&hf__table_lock(&conn->table, lock)->low, seen, wanted);
}

/* A lock that nobody can find, and how the table will say that it is taken. HF_ELIMIT: none left in
 * the present room. */
static int pick(const struct search *search, uint32_t *out_lock)
{
    struct hf__embedded *conn = search->conn;
    struct hf__header_cell *header = hf__table_header(&conn->table);
    uint64_t *free_locks = &header->free_locks[search->region];
    uint64_t *used_word = &header->used[search->region];
    uint32_t base = search->region == HF__REGION_LONG ? HF__SHORT_NAMES_MAX : 0;
    uint32_t at;
    uint32_t used;
    uint32_t next;

    if (!follow(conn, free_locks, true, &at) ||
        !hf__table_unsealed(&conn->table, used_word, hf__guard_get(conn, used_word), &used))
        return hf__table_damaged(conn, "its header");
    if (at != 0) {
        if ((at - 1 >= HF__SHORT_NAMES_MAX) != (search->region == HF__REGION_LONG) ||
            !follow(conn, &hf__table_lock(&conn->table, at - 1)->next, true, &next))
            return hf__table_damaged(conn, "the list of free locks");
        hf__guard_put(conn, free_locks, hf__table_sealed(&conn->table, free_locks, next));
        *out_lock = at - 1;
        return HF_OK;
    }
    if (!hf__table_reaches(conn, search->region, used + 1))
        return HF_ELIMIT;
    hf__guard_put(conn, used_word, hf__table_sealed(&conn->table, used_word, used + 1));
    *out_lock = base + used;
    return HF_OK;
}

/* Nobody can find it yet, so these words need no journal; and the lock's word must not be in one,
 * because as soon as it can be found, others change it without the guard. It stays RETIRED until it
 * stands in its chain: somebody may remember it by this very name, from an earlier life. */
static void write_cell(const struct search *search, uint32_t lock, uint64_t fence)
{
    const struct hf__table *table = &search->conn->table;
    struct hf__lock_cell *cell = hf__table_lock(table, lock);
    uint64_t *words = hf__table_name(table, lock);
    uint64_t low = fence << HF__WORD_SHIFT | HF__WORD_RETIRED;

    struct hf__word wanted = { low, hf__seal_high(&table->seal, lock, low, HF__OWNER_NONE) };

    /* At once: whoever still comes here by an old number must not find half a word. */
    while (!hf__word_exchange(&cell->low, hf__word_peek(&cell->low), wanted))
        HF__WORD_PAUSE();
    hf__table_store(&cell->line,
                    hf__seal_pair(&table->seal, hf__table_place(table, &cell->line), 0, 0));
    hf__table_store(&cell->since_ns, 0);
    for (size_t i = 0; i < chunks(search->name_bytes); i++)
        __atomic_store_n(&words[i], chunk(search->name, search->name_bytes, i), __ATOMIC_RELAXED);
    hf__table_store(&cell->label, label_of(search->hash, search->name_bytes));
}

static int insert(const struct search *search, uint32_t *out_lock)
{
    struct hf__embedded *conn = search->conn;
    uint64_t *bucket = hf__table_bucket(&conn->table, search->hash % HF__BUCKETS);
    uint64_t *next;
    uint64_t floor = 0;
    uint32_t head;
    int status = read_floor(conn, &floor);

    if (status < 0)
        return status;
    if (!follow(conn, bucket, true, &head))
        return hf__table_damaged(conn, "the index of names");
    status = pick(search, out_lock);
    if (status < 0)
        return status;

    write_cell(search, *out_lock, floor + 1);
    hf__death_point("name written");
    next = &hf__table_lock(&conn->table, *out_lock)->next;
    hf__guard_put(conn, next, hf__table_sealed(&conn->table, next, head));
    hf__guard_put(conn, bucket, hf__table_sealed(&conn->table, bucket, *out_lock + 1));
    hf__guard_commit(conn);
    hf__death_point("name made");
    unretire(conn, *out_lock);
    return HF_OK;
}

/* The link that leads to this lock. */
static int find_link(struct hf__embedded *conn, uint32_t lock, uint64_t **out_link)
{
    uint64_t hash;
    uint64_t *link;
    uint32_t at;

    if (!hash_stored(conn, lock, &hash))
        return hf__table_damaged(conn, "a name");
    link = hf__table_bucket(&conn->table, hash % HF__BUCKETS);
    for (uint32_t steps = 0; steps <= HF__LOCKS_MAX; steps++) {
        if (!follow(conn, link, true, &at))
            return hf__table_damaged(conn, "the index of names");
        if (at == lock + 1) {
            *out_link = link;
            return HF_OK;
        }
        if (at == 0)
            return HF__LINE_STALE; /* in no chain: it is in the list of free locks */
        link = &hf__table_lock(&conn->table, at - 1)->next;
    }
    return hf__table_damaged(conn, "the index of names");
}

/* 1: it was collected; 0: it is in use. */
static int collect_one(struct hf__embedded *conn, uint32_t lock)
{
    struct hf__header_cell *header = hf__table_header(&conn->table);
    uint64_t *free_locks = &header->free_locks[lock < HF__SHORT_NAMES_MAX ? 0 : 1];
    uint64_t *next = &hf__table_lock(&conn->table, lock)->next;
    struct hf__word word;
    uint64_t *link = NULL;
    uint64_t floor = 0;
    uint32_t behind;
    uint32_t free_head;
    int status;

    if (!hf__line_peek(conn, lock, &word) || (word.low & HF__WORD_INFLATED) ||
        (uint32_t)word.high != HF__OWNER_NONE)
        return 0;
    status = find_link(conn, lock, &link);
    if (status != HF_OK)
        return status < 0 ? status : 0;
    status = read_floor(conn, &floor);
    if (status < 0)
        return status;
    if (!follow(conn, next, true, &behind) || !follow(conn, free_locks, true, &free_head))
        return hf__table_damaged(conn, "the index of names");
    if (!(word.low & HF__WORD_RETIRED) && !retire(conn, lock, word))
        return 0;

    hf__death_point("name retired");
    if (word.low >> HF__WORD_SHIFT > floor)
        floor = word.low >> HF__WORD_SHIFT;
    hf__guard_put(conn, &header->floor, floor);
    hf__guard_put(conn, &header->floor_check, hf__table_floor_check(&conn->table, floor));
    hf__guard_put(conn, link, hf__table_sealed(&conn->table, link, behind));
    hf__guard_put(conn, next, hf__table_sealed(&conn->table, next, free_head));
    hf__guard_put(conn, free_locks, hf__table_sealed(&conn->table, free_locks, lock + 1));
    if (!hf__guard_has_room(conn, 8))
        hf__guard_commit(conn);
    return 1;
}

/* A part of the region, from where the last one stopped; how many were collected. */
static int collect_batch(struct hf__embedded *conn, enum hf__region region, uint32_t used)
{
    uint32_t base = region == HF__REGION_LONG ? HF__SHORT_NAMES_MAX : 0;
    int collected = 0;
    int given;
    int status = hf__guard_take(conn, HF__TABLE_GUARD);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < COLLECT_BATCH && i < used && status >= 0; i++) {
        uint32_t at = conn->collect_hint[region]++ % used;

        status = collect_one(conn, base + at);
        collected += status > 0;
    }
    if (status >= 0)
        hf__guard_commit(conn);
    given = hf__guard_give(conn);
    if (status >= 0)
        status = given;
    return status < 0 ? status : collected;
}

static int collect(struct hf__embedded *conn, enum hf__region region)
{
    const uint64_t *free_locks = &hf__table_header(&conn->table)->free_locks[region];
    uint32_t free_head;
    uint32_t collected = 0;
    uint32_t used;
    int status = hf__table_locks_used(conn, region, &used);

    for (uint32_t seen = 0; status >= 0 && seen < used && collected < COLLECT_ENOUGH;
         seen += COLLECT_BATCH) {
        status = collect_batch(conn, region, used);
        collected += status > 0 ? (uint32_t)status : 0;
    }
    if (status < 0)
        return status;
    if (collected == 0 &&
        hf__table_unsealed(&conn->table, free_locks, hf__table_load(free_locks), &free_head))
        collected = free_head; /* somebody else has collected meanwhile */
    return collected > 0 ? HF_OK : HF_ELIMIT;
}

/* --- finding --- */

/* HF_ELIMIT: there is no room now. */
static int find_guarded(const struct search *search, bool make, uint32_t *out_lock)
{
    struct hf__embedded *conn = search->conn;
    int status = hf__guard_take(conn, HF__TABLE_GUARD);
    int given;

    if (status < 0)
        return status;
    switch (walk(search, true, out_lock)) {
    case FOUND:
        unretire(conn, *out_lock);
        status = HF_OK;
        break;
    case MISSING:
        status = make ? insert(search, out_lock) : HF__LINE_STALE;
        break;
    case DAMAGED:
        status = hf__table_damaged(conn, "the index of names");
        break;
    }
    given = hf__guard_give(conn);
    return status < 0 || given == HF_OK ? status : given;
}

static int make_room(const struct search *search)
{
    struct hf__embedded *conn = search->conn;
    uint32_t used;
    int limit;
    int status = hf__table_locks_used(conn, search->region, &used);

    if (status < 0)
        return status;
    limit = hf__table_grow(conn, search->region, used + 1);
    if (limit != HF_ELIMIT)
        return limit;
    status = collect(conn, search->region);
    if (status == HF_ELIMIT) {
        hf__sweep_look(conn); /* perhaps the dead hold them */
        status = collect(conn, search->region);
    }
    if (status == HF_ELIMIT) /* the text is still that of growing */
        return hf__table_grow(conn, search->region, used + 1);
    return status;
}

int hf__index_find(struct hf__embedded *conn, const struct hf__request *request, bool make,
                   uint32_t *out_lock)
{
    struct search search = {
        .conn = conn,
        .name = request->name,
        .name_bytes = request->name_bytes,
        .hash = hf__index_hash(&conn->table, request->name, request->name_bytes),
        .region = request->name_bytes <= HF__SHORT_NAME_BYTES ? HF__REGION_SHORT : HF__REGION_LONG,
    };
    struct hf__shortcut *shortcut = &conn->shortcuts[search.hash % HF__SHORTCUTS];
    struct hf__word word;
    int status = HF_ELIMIT;

    assert(request->name_bytes > 0 && request->name_bytes <= HF__LONG_NAME_BYTES);

    if (walk(&search, false, out_lock) == FOUND && hf__line_peek(conn, *out_lock, &word) &&
        !(word.low & HF__WORD_RETIRED))
        status = HF_OK;
    for (uint32_t tries = 0; status == HF_ELIMIT && tries < MAKE_TRIES_MAX; tries++) {
        int made;

        status = find_guarded(&search, make, out_lock);
        if (status != HF_ELIMIT)
            break;
        made = make_room(&search);
        if (made < 0)
            return made;
    }
    if (status == HF_OK)
        *shortcut = (struct hf__shortcut){ search.hash, *out_lock + 1 };
    return status;
}
