/* session.c: who is alive?
 *
 * A session is a slot of the table (with a generation, so that an old word is never taken for a new
 * session), a FIFO `.life` with a record lock on it, and another one, the bell. The record lock is
 * the proof of life: the kernel drops it when the process ends, however it ends, and not before all
 * its threads are gone. It is a read lock, so that a forked process can stand by with another one
 * on the same file. Others ask for it with F_GETLK. It is on a FIFO, through which nothing is ever
 * sent, because that hangs up on those who listen when the last writing end is closed: a hint of a
 * death where there is no pidfd (peer.c), a hint only, because any fork keeps that end open.
 *
 * Two traps of record locks shape this file. Closing any descriptor of a file drops this process's
 * locks on it, and F_GETLK does not show the process its own ones: so a session of our own process
 * is recognised by its identity, and its life file never opened. That is why the bell is a file of
 * its own: other connections of the same process must be able to open and close that one.
 *
 * Declaring a session dead is final, and must not race with a process that is just about to stand
 * by. So it takes two steps: look, mark it DOOMED, look again, and only then DEAD. Who stands by
 * takes its lock first and then looks at the mark. Either it sees the mark, and takes it back; or
 * the second look sees the lock. Each step raises a count in the word, so that no step can be taken
 * on an older mark.
 *
 * What can go wrong: no descriptors left, the file system fails: it cannot be told (< 0), and
 * nobody is declared dead. A life file is missing though its session is open: somebody cleaned up
 * the directory; HF_EINTEGRITY as long as that process may be running. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define LIFE      ".life"
#define TRIES_MAX 100u
#define TURN_BITS 12

/* --- the state's word --- */

static uint32_t compose(uint32_t generation, uint32_t turn, enum hf__session_state state)
{
    return generation << 16 | (turn & ((1u << TURN_BITS) - 1)) << 4 | (uint32_t)state;
}

static uint32_t generation_of(uint32_t value)
{
    return value >> 16;
}

static enum hf__session_state state_of(uint32_t value)
{
    return (enum hf__session_state)(value & 15u);
}

/* The same session in another state. */
static uint32_t moved(uint32_t value, enum hf__session_state state)
{
    return compose(generation_of(value), (value >> 4) + 1, state);
}

static bool swap(const struct hf__embedded *conn, struct hf__session_cell *cell, uint32_t seen,
                 uint32_t wanted)
{
    return hf__table_swap(&cell->state, hf__table_sealed(&conn->table, &cell->state, seen),
                          hf__table_sealed(&conn->table, &cell->state, wanted));
}

static bool load(const struct hf__embedded *conn, const struct hf__session_cell *cell,
                 uint32_t *out_value)
{
    return hf__table_unsealed(&conn->table, &cell->state, hf__table_load(&cell->state), out_value);
}

static uint64_t check_record(const struct hf__embedded *conn, const struct hf__session_cell *cell,
                             uint32_t owner)
{
    const struct hf__seal *seal = &conn->table.seal;
    uint64_t hash = hf__seal_mix(seal, HF__SEAL_BLOCK ^ owner, hf__table_load(&cell->identity));

    hash = hf__seal_mix(seal, hash ^ hf__table_load(&cell->pid), hf__table_load(&cell->uid));
    return hf__seal_mix(seal, hash, hf__table_load(&cell->pid_namespace));
}

struct hf__session_cell *hf__session_cell(const struct hf__embedded *conn, uint32_t owner)
{
    uint32_t slot = HF__OWNER_SLOT(owner);

    if (slot == 0 || slot > conn->table.rooms[HF__REGION_SESSIONS])
        return NULL;
    return hf__table_session(&conn->table, slot);
}

/* NULL: no such slot, or its record is garbage. */
static struct hf__session_cell *cell_of(struct hf__embedded *conn, uint32_t owner)
{
    struct hf__session_cell *cell;

    (void)hf__table_reaches(conn, HF__REGION_SESSIONS, HF__OWNER_SLOT(owner));
    cell = hf__session_cell(conn, owner);
    if (!cell || hf__table_load(&cell->check) != check_record(conn, cell, owner))
        return NULL;
    return cell;
}

/* --- files --- */

static int write_name(uint32_t owner, uint64_t identity, const char *suffix, char out_name[64])
{
    return snprintf(out_name, 64, "s.%u.%u.%016llx%s", HF__OWNER_SLOT(owner),
                    HF__OWNER_GENERATION(owner), (unsigned long long)identity, suffix);
}

int hf__session_name(const struct hf__embedded *conn, uint32_t owner, const char *suffix,
                     char out_name[64])
{
    const struct hf__session_cell *cell = hf__session_cell(conn, owner);

    if (!cell || hf__table_load(&cell->check) != check_record(conn, cell, owner))
        return HF_EINTEGRITY;
    (void)write_name(owner, hf__table_load(&cell->identity), suffix, out_name);
    return HF_OK;
}

/* Whose lock is on it: a pid, 0 for none, -1 for somebody we cannot see; -2: errno says why not. */
static int64_t ask_lock(struct hf__embedded *conn, const char *name)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
    int fd = openat(conn->table.directory_fd, name,
                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int failed;
    int number;

    if (fd < 0)
        return -2;
    failed = fcntl(fd, F_GETLK, &lock);
    number = errno;
    close(fd);
    errno = number;
    if (failed)
        return -2;
    if (lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid > 0 ? lock.l_pid : -1;
}

/* Exactly what write_name writes, with either suffix. */
static bool parse_name(const char *name, uint32_t *out_owner, uint64_t *out_identity)
{
    unsigned slot;
    unsigned generation;
    unsigned long long identity;
    char bell[64];
    char life[64];

    if (sscanf(name, "s.%u.%u.%16llx", &slot, &generation, &identity) != 3 || slot == 0 ||
        slot > HF__SESSIONS_MAX || generation > 0xffff)
        return false;
    *out_owner = HF__OWNER(slot, generation);
    *out_identity = identity;
    (void)write_name(*out_owner, identity, "", bell);
    (void)write_name(*out_owner, identity, LIFE, life);
    return strcmp(name, bell) == 0 || strcmp(name, life) == 0;
}

bool hf__session_parse(const char *name, uint32_t *out_owner)
{
    uint64_t identity;

    return parse_name(name, out_owner, &identity);
}

int64_t hf__session_file_lives(struct hf__embedded *conn, const char *name)
{
    char life[64];
    uint64_t identity;
    uint32_t owner;
    int64_t pid;

    if (!parse_name(name, &owner, &identity))
        return 0;
    if (identity == hf__identity_make())
        return getpid();
    (void)write_name(owner, identity, LIFE, life);
    pid = ask_lock(conn, life);
    return pid == -2 && errno == ENOENT ? 0 : pid;
}

/* --- opening --- */

static int find_free_slot(struct hf__embedded *conn, uint32_t *out_slot, uint32_t *out_value)
{
    /* The last slot is only for whoever sweeps when all others are taken (engine.c). */
    for (uint32_t slot = 1; slot <= HF__SESSIONS_MAX + 1; slot++) {
        uint32_t value;

        if (!hf__table_reaches(conn, HF__REGION_SESSIONS, slot)) {
            int status = hf__table_grow_sessions(conn, slot);

            if (status < 0)
                return status;
        }
        if (!load(conn, hf__table_session(&conn->table, slot), &value))
            return hf__table_damaged(conn, "a session");
        if (state_of(value) == HF__SESSION_FREE) {
            *out_slot = slot;
            *out_value = value;
            return HF_OK;
        }
    }
    assert(!"growing beyond the last slot fails");
    return HF_ELIMIT;
}

static int cannot(struct hf__embedded *conn, const char *name, const char *what)
{
    return hf__error_set(conn->base.error, HF_ESYSTEM, "%s/%s: cannot %s: %s", conn->table.path,
                         name, what, strerror(errno));
}

/* Both ends are ours: so it never says end-of-file to us, and nobody who writes gets a signal. */
static int make_fifo(struct hf__embedded *conn, const char *suffix, int *out_fd)
{
    unsigned mode = hf__directory_mode(conn);
    char name[64];

    (void)write_name(conn->owner, conn->identity, suffix, name);
    if (mkfifoat(conn->table.directory_fd, name, mode))
        return cannot(conn, name, "make a FIFO");
    *out_fd = hf__directory_file(conn, name, O_RDWR, S_IFIFO);
    if (*out_fd < 0)
        return *out_fd;
    if (fchmod(*out_fd, mode))
        return cannot(conn, name, "set its mode");
    return HF_OK;
}

static int show_life(struct hf__embedded *conn)
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
    struct stat about;
    int status = make_fifo(conn, LIFE, &conn->life_fd);

    if (status < 0)
        return status;
    if (fcntl(conn->life_fd, F_SETLK, &lock) || fstat(conn->life_fd, &about))
        return cannot(conn, "its sign of life", "lock it");
    conn->life_inode = (uint64_t)about.st_ino;
    return HF_OK;
}

static void remove_files(const struct hf__embedded *conn, uint32_t owner, uint64_t identity)
{
    char name[64];

    (void)write_name(owner, identity, "", name);
    (void)unlinkat(conn->table.directory_fd, name, 0);
    (void)write_name(owner, identity, LIFE, name);
    (void)unlinkat(conn->table.directory_fd, name, 0);
}

static void write_record(struct hf__embedded *conn, const char *purpose)
{
    struct hf__session_cell *cell = conn->session;

    hf__table_store(&cell->identity, conn->identity);
    hf__table_store(&cell->pid, (uint64_t)conn->pid);
    hf__table_store(&cell->uid, (uint64_t)geteuid());
    hf__table_store(&cell->pid_namespace, conn->pid_namespace);
    hf__table_store(&cell->check, check_record(conn, cell, conn->owner));
    hf__table_store(&cell->stand_by, 0);
    hf__table_store(&cell->sweeper, 0);
    hf__table_store(&cell->polling, 0);
    hf__table_store(&cell->news, 0);
    hf__table_store(&cell->holding_news, 0);
    hf__table_store(&cell->fast_news, 0);
    (void)hf__text_copy(conn->purpose, sizeof(conn->purpose), purpose ? purpose : "");
    hf__table_write_text(cell->purpose, conn->purpose, sizeof(cell->purpose));
}

int hf__session_open(struct hf__embedded *conn, const char *purpose)
{
    uint32_t slot = 0;
    uint32_t before = 0;
    uint32_t open_value;
    int status = find_free_slot(conn, &slot, &before);

    if (status < 0)
        return status;
    conn->pid = getpid();
    conn->identity = hf__identity_make();
    conn->pid_namespace = hf__identity_pid_namespace();
    conn->owner = HF__OWNER(slot, (generation_of(before) + 1) & 0xffffu);
    conn->session = hf__table_session(&conn->table, slot);

    status = show_life(conn);
    hf__death_point("life file made");
    if (status == HF_OK)
        status = make_fifo(conn, "", &conn->bell_fd);
    if (status < 0) {
        remove_files(conn, conn->owner, conn->identity);
        conn->session = NULL;
        return status;
    }

    write_record(conn, purpose);
    hf__death_point("session written");
    open_value = compose(HF__OWNER_GENERATION(conn->owner), 0, HF__SESSION_OPEN);
    if (!swap(conn, conn->session, before, open_value)) {
        remove_files(conn, conn->owner, conn->identity);
        conn->session = NULL;
        return hf__table_damaged(conn, "a session");
    }
    conn->session_word = hf__table_sealed(&conn->table, &conn->session->state, open_value);
    hf__death_point("session open");
    return HF_OK;
}

/* --- closing --- */

static bool move_to(struct hf__embedded *conn, uint32_t owner, enum hf__session_state from_most,
                    enum hf__session_state to)
{
    struct hf__session_cell *cell = hf__session_cell(conn, owner);

    for (uint32_t tries = 0; cell && tries < TRIES_MAX; tries++) {
        uint32_t value;

        if (!load(conn, cell, &value) || generation_of(value) != HF__OWNER_GENERATION(owner) ||
            state_of(value) == HF__SESSION_FREE || state_of(value) > from_most)
            return false;
        if (swap(conn, cell, value, moved(value, to)))
            return true;
    }
    return false;
}

void hf__session_leave(struct hf__embedded *conn)
{
    if (!move_to(conn, conn->owner, HF__SESSION_DOOMED, HF__SESSION_DEAD))
        return;
    hf__death_point("session closing");
    hf__session_free(conn, conn->owner);
}

/* What we did not leave, others sweep up: the record lock goes with its descriptor. */
void hf__session_close(struct hf__embedded *conn)
{
    if (conn->bell_fd >= 0)
        close(conn->bell_fd);
    if (conn->life_fd >= 0)
        close(conn->life_fd);
    conn->bell_fd = -1;
    conn->life_fd = -1;
    conn->owner = HF__OWNER_NONE;
    conn->session = NULL;
}

bool hf__session_tidy(const struct hf__embedded *conn)
{
    return __atomic_load_n(&conn->session->fast_news, __ATOMIC_SEQ_CST) == 0;
}

void hf__session_free(struct hf__embedded *conn, uint32_t owner)
{
    const struct hf__session_cell *cell = cell_of(conn, owner);

    if (cell)
        remove_files(conn, owner, hf__table_load(&cell->identity));
    hf__death_point("session files removed");
    (void)move_to(conn, owner, HF__SESSION_DEAD, HF__SESSION_FREE);
}

/* --- who lives --- */

int hf__session_self(struct hf__embedded *conn)
{
    uint64_t word = hf__table_load(&conn->session->state);
    uint32_t value;

    if (word == conn->session_word)
        return HF_OK;
    if (!hf__table_unsealed(&conn->table, &conn->session->state, word, &value))
        return hf__table_damaged(conn, "our session");
    if (generation_of(value) != HF__OWNER_GENERATION(conn->owner) ||
        (state_of(value) != HF__SESSION_OPEN && state_of(value) != HF__SESSION_DOOMED))
        return hf__error_set(conn->base.error, HF_ELOST,
                             "%s: our session was declared dead (were its descriptors closed?)",
                             conn->table.path);
    conn->session_word = word;
    return HF_OK;
}

bool hf__session_is_ours(const struct hf__embedded *conn, uint32_t owner)
{
    const struct hf__session_cell *cell = hf__session_cell(conn, owner);

    if (owner == conn->owner)
        return true;
    if (!cell || hf__table_load(&cell->check) != check_record(conn, cell, owner))
        return false;
    return hf__table_load(&cell->identity) == conn->identity ||
           hf__table_load(&cell->stand_by) == conn->identity;
}

int hf__session_gone(struct hf__embedded *conn, uint32_t owner)
{
    struct hf__session_cell *cell;
    uint32_t value;

    (void)hf__table_reaches(conn, HF__REGION_SESSIONS, HF__OWNER_SLOT(owner));
    cell = hf__session_cell(conn, owner);
    if (!cell || !load(conn, cell, &value))
        return hf__table_damaged(conn, "a session");
    if (generation_of(value) != HF__OWNER_GENERATION(owner))
        return 1;
    return state_of(value) == HF__SESSION_FREE || state_of(value) == HF__SESSION_DEAD;
}

bool hf__session_vanished(struct hf__embedded *conn, uint32_t owner)
{
    struct hf__session_cell *cell;
    uint32_t value;

    (void)hf__table_reaches(conn, HF__REGION_SESSIONS, HF__OWNER_SLOT(owner));
    cell = hf__session_cell(conn, owner);
    if (!cell || !load(conn, cell, &value))
        return false;
    return generation_of(value) != HF__OWNER_GENERATION(owner) ||
           state_of(value) == HF__SESSION_FREE;
}

bool hf__session_owner(struct hf__embedded *conn, uint32_t slot, uint32_t *out_owner)
{
    uint32_t value;

    if (!load(conn, hf__table_session(&conn->table, slot), &value) ||
        state_of(value) == HF__SESSION_FREE)
        return false;
    *out_owner = HF__OWNER(slot, generation_of(value));
    return true;
}

/* Nobody can be asked any more; but a process that does not exist is dead for certain. */
static int64_t ask_process(struct hf__embedded *conn, const struct hf__session_cell *cell)
{
    pid_t pid = (pid_t)hf__table_load(&cell->pid);

    if (hf__table_load(&cell->pid_namespace) == conn->pid_namespace && pid > 0 && kill(pid, 0) &&
        errno == ESRCH)
        return 0;
    return hf__table_damaged(conn, "its directory (a .life file is missing, which)");
}

/* As ask_lock, and < -1: HF_E* with its text. */
static int64_t ask_life(struct hf__embedded *conn, uint32_t owner, uint64_t word)
{
    struct hf__session_cell *cell = cell_of(conn, owner);
    char name[64];
    int64_t pid;

    if (!cell && hf__table_load(&hf__session_cell(conn, owner)->state) != word)
        return -1; /* the slot has just been given to another */
    if (!cell)
        return hf__table_damaged(conn, "a session");
    (void)write_name(owner, hf__table_load(&cell->identity), LIFE, name);
    pid = ask_lock(conn, name);
    if (pid != -2)
        return pid;
    if (errno == ENOENT && hf__table_load(&cell->state) != word)
        return -1; /* it has just been swept: look again */
    if (errno == ENOENT)
        return ask_process(conn, cell);
    return cannot(conn, name, "look whether it is locked");
}

/* One round: 1 dead, 0 alive, 2 look again. */
static int judge(struct hf__embedded *conn, uint32_t owner, int64_t *out_pid)
{
    struct hf__session_cell *cell = hf__session_cell(conn, owner);
    uint64_t word = hf__table_load(&cell->state);
    uint32_t value;
    uint32_t doomed;
    int64_t pid;

    if (!hf__table_unsealed(&conn->table, &cell->state, word, &value))
        return hf__table_damaged(conn, "a session");
    if (generation_of(value) != HF__OWNER_GENERATION(owner) ||
        state_of(value) == HF__SESSION_FREE || state_of(value) == HF__SESSION_DEAD)
        return 1;
    pid = ask_life(conn, owner, word);
    if (pid < -1)
        return (int)pid;
    if (hf__table_load(&cell->state) != word)
        return 2;
    if (pid != 0) {
        if (state_of(value) == HF__SESSION_DOOMED)
            (void)swap(conn, cell, value, moved(value, HF__SESSION_OPEN));
        *out_pid = pid > 0 ? pid : 0;
        return 0;
    }

    doomed = moved(value, HF__SESSION_DOOMED);
    if (!swap(conn, cell, value, doomed))
        return 2;
    hf__death_point("session doomed");
    word = hf__table_sealed(&conn->table, &cell->state, doomed);
    pid = ask_life(conn, owner, word);
    if (pid < -1)
        return (int)pid;
    if (pid != 0) {
        (void)swap(conn, cell, doomed, moved(doomed, HF__SESSION_OPEN));
        return 2;
    }
    return swap(conn, cell, doomed, moved(doomed, HF__SESSION_DEAD)) ? 1 : 2;
}

int hf__session_dead(struct hf__embedded *conn, uint32_t owner, int64_t *out_pid)
{
    int64_t pid = 0;
    int gone = hf__session_gone(conn, owner);
    int verdict = 2;

    if (gone != 0)
        return gone;
    if (!hf__session_is_ours(conn, owner)) {
        for (uint32_t tries = 0; verdict == 2 && tries < TRIES_MAX; tries++)
            verdict = judge(conn, owner, &pid);
    } else {
        verdict = 0;
        pid = conn->pid;
    }
    if (verdict == 0 && out_pid)
        *out_pid = pid;
    return verdict == 2 ? 0 : verdict; /* for ever changing: alive, whoever it is */
}

int hf__session_open_life(struct hf__embedded *conn, uint32_t owner)
{
    char name[64];

    if (hf__session_is_ours(conn, owner) || hf__session_name(conn, owner, LIFE, name) < 0)
        return -1;
    return hf__directory_file(conn, name, O_RDONLY, S_IFIFO);
}

/* --- standing by --- */

static int stood_by(const struct hf__embedded *conn, char error[HF__ERROR_BYTES])
{
    for (uint32_t tries = 0; tries < TRIES_MAX; tries++) {
        uint32_t value;

        if (!load(conn, conn->session, &value))
            return hf__error_set(error, HF_EINTEGRITY, "%s/table: our session is damaged",
                                 conn->table.path);
        if (generation_of(value) != HF__OWNER_GENERATION(conn->owner) ||
            (state_of(value) != HF__SESSION_OPEN && state_of(value) != HF__SESSION_DOOMED))
            return hf__error_set(error, HF_ELOST, "the process to stand by for is dead already");
        if (state_of(value) == HF__SESSION_OPEN)
            return HF_OK;
        (void)swap(conn, conn->session, value, moved(value, HF__SESSION_OPEN));
    }
    return hf__error_set(error, HF_ELOST, "the process to stand by for is dead already");
}

int hf__session_stand_by(const struct hf__embedded *conn, char error[HF__ERROR_BYTES])
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
    struct stat about;

    if (!conn->session || conn->life_fd < 0)
        return hf__error_set(error, HF_EINVAL, "not connected");
    if (getpid() == (pid_t)conn->pid)
        return hf__error_set(error, HF_EINVAL, "this is the process itself, not a fork of it");
    if (fstat(conn->life_fd, &about) || (uint64_t)about.st_ino != conn->life_inode)
        return hf__error_set(error, HF_EINVAL, "the inherited descriptors have been closed");
    if (fcntl(conn->life_fd, F_SETLK, &lock))
        return hf__error_set(error, HF_ESYSTEM, "cannot lock the life file: %s", strerror(errno));

    hf__death_point("standing by");
    hf__table_store(&conn->session->stand_by, hf__identity_make());
    return stood_by(conn, error);
}

/* --- for people --- */

int64_t hf__session_pid(const struct hf__embedded *conn, uint32_t owner)
{
    const struct hf__session_cell *cell = hf__session_cell(conn, owner);

    if (!cell || hf__table_load(&cell->check) != check_record(conn, cell, owner) ||
        hf__table_load(&cell->pid_namespace) != conn->pid_namespace)
        return 0;
    return (int64_t)hf__table_load(&cell->pid);
}

void hf__session_describe(const struct hf__embedded *conn, uint32_t owner,
                          struct hf__holder *out_holder)
{
    const struct hf__session_cell *cell = hf__session_cell(conn, owner);

    out_holder->pid = hf__session_pid(conn, owner);
    memcpy(out_holder->host, conn->host, sizeof(out_holder->host));
    out_holder->purpose[0] = '\0';
    if (!cell)
        return;
    hf__table_read_text(cell->purpose, out_holder->purpose, sizeof(out_holder->purpose));
}
