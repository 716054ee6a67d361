/* sweep.c: what did the dead leave behind?
 *
 * Guards that they were in, nodes in lines or aside, locks that they held, files, and their slot:
 * in this order, and the slot last, so that nothing can name a session that is not there any more.
 * Claims that stand in the same lines do not wait for this: they mend their own line at once
 * (watch.c).
 *
 * The work is done in pieces, a few thousand cells for each call of advance(), and by one process:
 * it writes its name into the dead session. If that one dies too, whoever notices takes the work
 * over. Two that sweep the same session do no harm. At open everybody who died unnoticed is swept
 * as well.
 *
 * What can go wrong: a cell is damaged: it is left alone, and so is the slot. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define CELLS_PER_CALL 4096u

enum phase { GUARDS, NODES, SHORT_LOCKS, LONG_LOCKS, SLOT };

/* --- whom to sweep --- */

/* True: it is ours to sweep. */
static bool take_on(struct hf__embedded *conn, uint32_t owner)
{
    struct hf__session_cell *cell = hf__session_cell(conn, owner);
    uint64_t sweeper;

    if (!cell)
        return false;
    sweeper = hf__table_load(&cell->sweeper);
    if (sweeper != HF__OWNER_NONE && sweeper != conn->owner &&
        hf__session_gone(conn, (uint32_t)sweeper) == 0)
        return false;
    return hf__table_swap(&cell->sweeper, sweeper, conn->owner);
}

void hf__sweep_add(struct hf__embedded *conn, uint32_t owner)
{
    for (uint32_t i = 0; i < conn->sweep_count; i++) {
        if (conn->sweeps[i] == owner)
            return;
    }
    if (conn->sweep_count == HF__SWEEPS_MAX || hf__session_vanished(conn, owner) ||
        !take_on(conn, owner))
        return;
    conn->sweeps[conn->sweep_count++] = owner;
    hf__embedded_due(conn, conn->now_ns);
}

/* Those whom the dead one was sweeping after. */
static void inherit_work(struct hf__embedded *conn, uint32_t dead)
{
    for (uint32_t slot = 1; slot <= conn->table.rooms[HF__REGION_SESSIONS]; slot++) {
        const struct hf__session_cell *cell = hf__table_session(&conn->table, slot);
        uint32_t owner;

        if (hf__table_load(&cell->sweeper) == dead && hf__session_owner(conn, slot, &owner) &&
            owner != dead)
            hf__sweep_add(conn, owner);
    }
}

void hf__sweep_look(struct hf__embedded *conn)
{
    uint32_t room;

    (void)hf__table_reaches(conn, HF__REGION_SESSIONS, HF__SESSIONS_MAX);
    room = conn->table.rooms[HF__REGION_SESSIONS];
    for (uint32_t slot = 1; slot <= room; slot++) {
        uint32_t owner;

        if (!hf__session_owner(conn, slot, &owner) || owner == conn->owner)
            continue;
        if (hf__session_dead(conn, owner, NULL) <= 0)
            continue;
        hf__sweep_add(conn, owner);
        if (conn->sweep_count == HF__SWEEPS_MAX)
            hf__sweep_run(conn, true);
    }
    hf__sweep_run(conn, true);
}

/* --- guards --- */

/* Goes once through every guard. Afterwards no journal is left that somebody wrote before: neither
 * the dead one, nor one who died while he finished the dead one's work. */
static int pass_guards(struct hf__embedded *conn)
{
    int status = HF_OK;

    for (uint32_t i = 0; i < HF__GUARDS && status == HF_OK; i++) {
        status = hf__guard_take(conn, i);
        if (status == HF_OK)
            status = hf__guard_give(conn);
    }
    return status;
}

/* --- nodes --- */

static bool exists(struct hf__embedded *conn, uint32_t lock)
{
    if (lock < HF__SHORT_NAMES_MAX)
        return hf__table_reaches(conn, HF__REGION_SHORT, lock + 1);
    return lock < HF__LOCKS_MAX &&
           hf__table_reaches(conn, HF__REGION_LONG, lock - HF__SHORT_NAMES_MAX + 1);
}

static int pull_out(struct hf__embedded *conn, uint32_t index, uint32_t lock, uint32_t owner)
{
    struct hf__line line;
    struct hf__node node;
    int status = hf__line_enter(conn, lock, &line);

    if (status != HF_OK)
        return status < 0 ? status : HF_OK;
    status = hf__node_read(conn, index, &node);
    if (status == HF_OK && node.owner == owner && node.lock == lock &&
        (node.state == HF__NODE_WAITING || node.state == HF__NODE_HOLDING)) {
        status = hf__line_remove(&line, &node, HF__NODE_ENDED);
        if (status == HF_OK)
            status = hf__line_settle(&line, conn->now_ns);
        if (status == HF_OK)
            status = hf__line_alert(&line, true);
    }
    if (status < 0)
        return hf__line_fail(&line, status);
    return hf__line_leave(&line);
}

static int sweep_node(struct hf__embedded *conn, uint32_t index, uint32_t owner)
{
    struct hf__node node;
    int status;

    if (!hf__node_peek(conn, index, &node)) {
        /* Somebody died while he was changing it; or its owner, before he wrote its first word. */
        status = pass_guards(conn);
        if (status < 0)
            return status;
        if (!hf__node_peek(conn, index, &node)) {
            node.lock = 0;
            node.state = HF__NODE_IDLE;
        }
    }
    if (!exists(conn, node.lock))
        return hf__table_damaged(conn, "a place in a line");
    if (node.state == HF__NODE_WAITING || node.state == HF__NODE_HOLDING) {
        status = pull_out(conn, index, node.lock, owner);
    } else { /* so that no journal writes to it any more */
        status = hf__guard_take(conn, node.lock % HF__LOCK_GUARDS);
        if (status == HF_OK)
            status = hf__guard_give(conn);
    }
    if (status < 0)
        return status;
    hf__death_point("before freeing a node of the dead");
    hf__node_free(conn, index, owner);
    return HF_OK;
}

static int look_at_node(struct hf__embedded *conn, uint32_t index, uint32_t dead)
{
    uint32_t owner = hf__node_owner(conn, index);

    if (owner == HF__OWNER_NONE)
        return HF_OK;
    /* Or of a session that is long gone: made in its name by somebody who died over it. */
    if (owner != dead && !hf__session_vanished(conn, owner))
        return HF_OK;
    return sweep_node(conn, index, owner);
}

/* --- locks --- */

/* Somebody died before he could deflate it: whoever leaves the line next does that. */
static int look_at_line(struct hf__embedded *conn, uint32_t lock)
{
    const struct hf__table *table = &conn->table;
    struct hf__lock_cell *cell = hf__table_lock(table, lock);
    struct hf__line line;
    int status;

    if (hf__table_load(&cell->line) !=
        hf__seal_pair(&table->seal, hf__table_place(table, &cell->line), 0, 0))
        return HF_OK;
    status = hf__line_enter(conn, lock, &line);
    if (status != HF_OK)
        return status < 0 ? status : HF_OK;
    return hf__line_leave(&line);
}

static int look_at_lock(struct hf__embedded *conn, uint32_t lock, uint32_t dead)
{
    struct hf__lock_cell *cell = hf__table_lock(&conn->table, lock);
    struct hf__word word;

    if ((uint32_t)hf__table_load(&cell->high) != dead)
        return hf__table_load(&cell->low) & HF__WORD_INFLATED ? look_at_line(conn, lock) : HF_OK;
    if (!hf__line_peek(conn, lock, &word))
        return hf__watch_mend(conn, lock, dead);
    if ((uint32_t)word.high != dead)
        return HF_OK;
    if (!(word.low & HF__WORD_INFLATED)) {
        struct hf__word free = { word.low,
                                 hf__seal_high(&conn->table.seal, lock, word.low, HF__OWNER_NONE) };

        if (hf__word_exchange(&cell->low, word, free))
            return HF_OK;
    }
    return hf__watch_mend(conn, lock, dead);
}

/* --- the work --- */

/* How many cells this phase has to look at. */
static int phase_cells(struct hf__embedded *conn, enum phase phase, uint32_t *out_count)
{
    switch (phase) {
    case GUARDS:
    case SLOT:
        *out_count = 1;
        return HF_OK;
    case NODES:
        (void)hf__table_reaches(conn, HF__REGION_NODES, HF__NODES_MAX);
        *out_count = conn->table.rooms[HF__REGION_NODES];
        return HF_OK;
    case SHORT_LOCKS:
        return hf__table_locks_used(conn, HF__REGION_SHORT, out_count);
    case LONG_LOCKS:
        return hf__table_locks_used(conn, HF__REGION_LONG, out_count);
    }
    assert(!"a phase that does not exist");
    return HF_EINVAL;
}

static int sweep_cell(struct hf__embedded *conn, enum phase phase, uint32_t index, uint32_t dead)
{
    switch (phase) {
    case GUARDS:
        return pass_guards(conn);
    case NODES:
        return look_at_node(conn, index + 1, dead);
    case SHORT_LOCKS:
        return look_at_lock(conn, index, dead);
    case LONG_LOCKS:
        return look_at_lock(conn, HF__SHORT_NAMES_MAX + index, dead);
    case SLOT:
        hf__session_free(conn, dead);
        inherit_work(conn, dead);
        return HF_OK;
    }
    assert(!"a phase that does not exist");
    return HF_EINVAL;
}

/* 1: this session is done with; 0: more to do. */
static int run_phase(struct hf__embedded *conn, uint32_t dead, uint32_t *budget)
{
    enum phase phase = (enum phase)conn->sweep_phase;
    uint32_t count;
    int status = phase_cells(conn, phase, &count);

    while (status == HF_OK && conn->sweep_index<count && * budget> 0) {
        status = sweep_cell(conn, phase, conn->sweep_index++, dead);
        (*budget)--;
    }
    if (status < 0)
        return status;
    if (conn->sweep_index < count)
        return 0;
    conn->sweep_index = 0;
    conn->sweep_phase++;
    return phase == SLOT;
}

void hf__sweep_run(struct hf__embedded *conn, bool all)
{
    uint32_t budget = all ? UINT32_MAX : CELLS_PER_CALL;

    while (conn->sweep_count > 0 && budget > 0) {
        int done = run_phase(conn, conn->sweeps[0], &budget);

        if (done == 0)
            continue;
        conn->sweep_phase = GUARDS;
        conn->sweep_index = 0;
        conn->sweep_count--;
        memmove(conn->sweeps, conn->sweeps + 1, conn->sweep_count * sizeof(*conn->sweeps));
    }
    if (conn->sweep_count > 0)
        hf__embedded_due(conn, conn->now_ns);
}

void hf__sweep_self(struct hf__embedded *conn)
{
    uint32_t count;

    if (phase_cells(conn, NODES, &count) < 0)
        return;
    for (uint32_t i = 1; i <= count; i++) {
        if (hf__node_owner(conn, i) == conn->owner)
            (void)sweep_node(conn, i, conn->owner);
    }
}

/* --- files --- */

/* Of a session that is in the table; or that shows a sign of life, whatever the table says. */
static bool belongs(struct hf__embedded *conn, const char *name)
{
    uint32_t owner;
    uint32_t in_slot;

    if (!hf__session_parse(name, &owner))
        return true; /* not a name of ours: not our business */
    if (hf__table_reaches(conn, HF__REGION_SESSIONS, HF__OWNER_SLOT(owner)) &&
        hf__session_owner(conn, HF__OWNER_SLOT(owner), &in_slot) && in_slot == owner)
        return true;
    return hf__session_file_lives(conn, name) != 0;
}

void hf__sweep_files(struct hf__embedded *conn)
{
    int fd = openat(conn->table.directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!directory) {
        if (fd >= 0)
            close(fd);
        return; /* the next one will */
    }
    while ((entry = readdir(directory))) {
        if (strncmp(entry->d_name, "s.", 2) == 0 && !belongs(conn, entry->d_name))
            (void)unlinkat(conn->table.directory_fd, entry->d_name, 0);
    }
    closedir(directory);
}
