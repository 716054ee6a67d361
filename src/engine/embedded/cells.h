/* cells.h: the table as one process has it mapped, and how its words are read and written. */
#ifndef HF_EMBEDDED_CELLS_H
#define HF_EMBEDDED_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/embedded/layout.h"
#include "engine/embedded/seal.h"

#define HF__PATH_BYTES 1100

struct hf__table {
    uint8_t *map;
    struct hf__seal seal;
    int directory_fd;
    int fd;
    bool is_shared;              /* a directory for a group */
    bool is_volatile;            /* gone after a reboot     */
    uint32_t rooms[HF__REGIONS]; /* at least so many may be touched */
    uint64_t group;
    char path[HF__PATH_BYTES]; /* of the directory */
};

static inline struct hf__header_cell *hf__table_header(const struct hf__table *table)
{
    return (struct hf__header_cell *)(void *)table->map;
}

static inline struct hf__guard_cell *hf__table_guard(const struct hf__table *table, uint32_t guard)
{
    return (struct hf__guard_cell *)(void *)(table->map + HF__GUARDS_OFFSET) + guard;
}

static inline uint64_t *hf__table_bucket(const struct hf__table *table, uint32_t bucket)
{
    return (uint64_t *)(void *)(table->map + HF__BUCKETS_OFFSET) + bucket;
}

/* slot and node count from 1, lock from 0. */
static inline struct hf__session_cell *hf__table_session(const struct hf__table *table,
                                                         uint32_t slot)
{
    return (struct hf__session_cell *)(void *)(table->map + HF__SESSIONS_OFFSET) + (slot - 1);
}

static inline struct hf__node_cell *hf__table_node(const struct hf__table *table, uint32_t node)
{
    return (struct hf__node_cell *)(void *)(table->map + HF__NODES_OFFSET) + (node - 1);
}

static inline struct hf__lock_cell *hf__table_lock(const struct hf__table *table, uint32_t lock)
{
    return (struct hf__lock_cell *)(void *)(table->map + HF__LOCKS_OFFSET) + lock;
}

static inline uint64_t *hf__table_name(const struct hf__table *table, uint32_t lock)
{
    if (lock < HF__SHORT_NAMES_MAX)
        return (uint64_t *)(void *)(table->map + HF__SHORT_NAMES_OFFSET +
                                    (uint64_t)lock * HF__SHORT_NAME_BYTES);
    return (uint64_t *)(void *)(table->map + HF__LONG_NAMES_OFFSET +
                                (uint64_t)(lock - HF__SHORT_NAMES_MAX) * HF__LONG_NAME_BYTES);
}

static inline uint64_t hf__table_place(const struct hf__table *table, const uint64_t *word)
{
    return (uint64_t)((const uint8_t *)word - table->map);
}

static inline uint64_t hf__table_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void hf__table_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline bool hf__table_swap(uint64_t *word, uint64_t seen, uint64_t wanted)
{
    return __atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_ACQUIRE);
}

/* What we write where it stands alone; guarded words go through hf__guard_put. */
static inline uint64_t hf__table_sealed(const struct hf__table *table, const uint64_t *word,
                                        uint32_t value)
{
    return hf__seal_close(&table->seal, hf__table_place(table, word), value);
}

static inline bool hf__table_unsealed(const struct hf__table *table, const uint64_t *word,
                                      uint64_t found, uint32_t *out_value)
{
    return hf__seal_open(&table->seal, hf__table_place(table, word), found, out_value);
}

/* Texts for people, which others may be writing: word by word, and always terminated. The room is a
 * multiple of 8 bytes. */
static inline void hf__table_write_text(char *cell, const char *text, size_t bytes)
{
    uint64_t *words = (uint64_t *)(void *)cell;

    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word;

        memcpy(&word, text + 8 * i, 8);
        __atomic_store_n(&words[i], word, __ATOMIC_RELAXED);
    }
}

static inline void hf__table_read_text(const char *cell, char *out_text, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)(const void *)cell;

    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

        memcpy(out_text + 8 * i, &word, 8);
    }
    out_text[bytes - 1] = '\0';
}

static inline uint64_t hf__table_floor_check(const struct hf__table *table, uint64_t floor)
{
    return hf__seal_mix(&table->seal, floor ^ HF__SEAL_BLOCK,
                        offsetof(struct hf__header_cell, floor));
}

#endif
