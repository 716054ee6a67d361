/* table.c: is there a table, and is it of this boot?
 *
 * Usually there is: it is mapped whole, its header is checked, and that is all. If there is none,
 * or it is of another boot, a new one is made under init.lock: beside the old one, with a new and
 * durable epoch, and renamed into its place. The file is sparse and has its full size from the
 * beginning; what may be touched of it grows in steps, and blocks are reserved before (a page
 * without a block on a full disk would be SIGBUS).
 *
 * What can go wrong. The header is garbage, or the size is wrong: HF_EINTEGRITY, and the user
 * decides; nothing is thrown away by itself. The table was removed while others use it: a second
 * one beside it would grant every lock twice, so none is made as long as any session in the
 * directory shows a sign of life. The disk is full: HF_ESYSTEM, and what is there goes on
 * working. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define BOOT_FILE      "/proc/sys/kernel/random/boot_id"
#define GROW_TRIES_MAX 64u

static const struct {
    const char *limit; /* what is full, in the user's words */
    uint32_t most;
    uint32_t step;
} regions[HF__REGIONS] = {
    [HF__REGION_SHORT] = { "names of up to 96 bytes in use", HF__SHORT_NAMES_MAX,
                           HF__SHORT_NAMES_STEP },
    [HF__REGION_LONG] = { "names of more than 96 bytes in use", HF__LONG_NAMES_MAX,
                          HF__LONG_NAMES_STEP },
    [HF__REGION_NODES] = { "claims in line, shared or with a lease", HF__NODES_MAX,
                           HF__NODES_STEP },
    [HF__REGION_SESSIONS] = { "clients", HF__SESSIONS_MAX, HF__SESSIONS_STEP },
};

int hf__table_damaged(struct hf__embedded *conn, const char *what)
{
    return hf__error_set(conn->base.error, HF_EINTEGRITY,
                         "%s/table: %s is damaged; stop all programs that use it, then remove it",
                         conn->table.path, what);
}

static int cannot(struct hf__embedded *conn, const char *what, int number)
{
    int status = number == ENOMEM ? HF_ENOMEM : HF_ESYSTEM;

    return hf__error_set(conn->base.error, status, "%s/table: cannot %s: %s", conn->table.path,
                         what, strerror(number));
}

/* --- the header --- */

static uint64_t shape(void)
{
    struct hf__seal fixed = { { HF__SEAL_WORD, HF__SEAL_LOCK } };
    const uint64_t sizes[] = {
        HF__SESSIONS_MAX, HF__SHORT_NAMES_MAX, HF__LONG_NAMES_MAX,   HF__NODES_MAX,
        HF__BUCKETS,      HF__CHANGES_MAX,     HF__SHORT_NAME_BYTES, HF__TABLE_BYTES,
        HF__GUARDS,       HF__REGIONS,         HF__LONG_NAME_BYTES,  HF__PURPOSE_BYTES,
    };
    uint64_t hash = HF__SEAL_BLOCK;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        hash = hf__seal_mix(&fixed, hash, sizes[i] + i);
    return hash;
}

/* Not with the salt that stands beside it: zeros over both would fit each other. */
static uint64_t check_header(const struct hf__header_cell *header)
{
    uint8_t digest[32];
    uint64_t check;

    hf__sha256(header, offsetof(struct hf__header_cell, check), digest);
    memcpy(&check, digest, sizeof(check));
    return check;
}

static int read_boot(struct hf__embedded *conn, uint64_t out_boot[2])
{
    char text[64] = "";
    uint8_t digest[32];
    const char *other = hf__death_boot_id();
    ssize_t got;
    int fd;

    fd = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hf__error_set(conn->base.error, HF_ESYSTEM, "%s: %s (is /proc mounted?)", BOOT_FILE,
                             strerror(errno));
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got < 36)
        return hf__error_set(conn->base.error, HF_ESYSTEM, "%s: too short", BOOT_FILE);

    if (other)
        (void)snprintf(text, sizeof(text), "%s", other);
    hf__sha256(text, strlen(text), digest);
    memcpy(out_boot, digest, 2 * sizeof(uint64_t));
    return HF_OK;
}

/* --- mapping --- */

static int map(struct hf__embedded *conn, int fd)
{
    void *memory = hf__death_map(fd, HF__TABLE_BYTES);

    if (memory == MAP_FAILED)
        return cannot(conn, "map it", errno);
    conn->table.map = memory;
    conn->table.fd = fd;
    return HF_OK;
}

void hf__table_close(struct hf__embedded *conn)
{
    if (conn->table.map)
        hf__death_unmap(conn->table.map, HF__TABLE_BYTES);
    conn->table.map = NULL;
    if (conn->table.fd >= 0)
        close(conn->table.fd);
    conn->table.fd = -1;
}

/* --- room --- */

static int reserve_bytes(struct hf__embedded *conn, uint64_t offset, uint64_t bytes)
{
    uint64_t from = offset / HF__PAGE_BYTES * HF__PAGE_BYTES;
    int number =
        posix_fallocate(conn->table.fd, (off_t)from, (off_t)(HF__PAGES(offset + bytes) - from));

    if (number)
        return cannot(conn, "reserve space for it", number);
    return HF_OK;
}

/* Blocks for the cells from..to of the region. */
static int reserve(struct hf__embedded *conn, enum hf__region region, uint32_t from, uint32_t to)
{
    uint64_t count = to - from;
    uint64_t lock = region == HF__REGION_LONG ? (uint64_t)HF__SHORT_NAMES_MAX + from : from;
    int status;

    switch (region) {
    case HF__REGION_SESSIONS:
        return reserve_bytes(conn, HF__SESSIONS_OFFSET + from * sizeof(struct hf__session_cell),
                             count * sizeof(struct hf__session_cell));
    case HF__REGION_NODES:
        return reserve_bytes(conn, HF__NODES_OFFSET + from * sizeof(struct hf__node_cell),
                             count * sizeof(struct hf__node_cell));
    case HF__REGION_SHORT:
    case HF__REGION_LONG:
        break;
    }

    status = reserve_bytes(conn, HF__LOCKS_OFFSET + lock * sizeof(struct hf__lock_cell),
                           count * sizeof(struct hf__lock_cell));
    if (status < 0)
        return status;
    if (region == HF__REGION_SHORT)
        return reserve_bytes(conn, HF__SHORT_NAMES_OFFSET + lock * HF__SHORT_NAME_BYTES,
                             count * HF__SHORT_NAME_BYTES);
    return reserve_bytes(conn, HF__LONG_NAMES_OFFSET + from * (uint64_t)HF__LONG_NAME_BYTES,
                         count * HF__LONG_NAME_BYTES);
}

/* Cells that others may look at as soon as the room says so. Locks are made one by one
 * (index.c). */
static void prepare(struct hf__embedded *conn, enum hf__region region, uint32_t from, uint32_t to)
{
    const struct hf__table *table = &conn->table;

    if (region == HF__REGION_NODES) {
        for (uint32_t i = from + 1; i <= to; i++) {
            uint64_t *word = &hf__table_node(table, i)->owner;

            hf__table_store(word, hf__table_sealed(table, word, HF__OWNER_NONE));
        }
    }
    if (region == HF__REGION_SESSIONS) {
        for (uint32_t i = from + 1; i <= to; i++) {
            uint64_t *word = &hf__table_session(table, i)->state;

            hf__table_store(word, hf__table_sealed(table, word, HF__SESSION_FREE));
        }
    }
}

bool hf__table_reaches(struct hf__embedded *conn, enum hf__region region, uint32_t count)
{
    uint64_t *word;
    uint32_t room;

    if (count <= conn->table.rooms[region])
        return true;

    word = &hf__table_header(&conn->table)->rooms[region];
    if (!hf__table_unsealed(&conn->table, word, hf__table_load(word), &room) ||
        room > regions[region].most)
        return false;
    conn->table.rooms[region] = room;
    return count <= room;
}

static int full(struct hf__embedded *conn, enum hf__region region)
{
    return hf__error_set(conn->base.error, HF_ELIMIT,
                         "%s/table: is full: %u %s; end some, or use another directory",
                         conn->table.path, regions[region].most, regions[region].limit);
}

/* Under init.lock, like everything that touches this region's room; no session is needed yet. */
int hf__table_grow_sessions(struct hf__embedded *conn, uint32_t count)
{
    uint64_t *word = &hf__table_header(&conn->table)->rooms[HF__REGION_SESSIONS];
    uint32_t step = regions[HF__REGION_SESSIONS].step;
    uint32_t wanted = (count + step - 1) / step * step;
    uint32_t room;
    int status;

    if (count > regions[HF__REGION_SESSIONS].most)
        return full(conn, HF__REGION_SESSIONS);
    if (!hf__table_unsealed(&conn->table, word, hf__table_load(word), &room) || room > wanted)
        return hf__table_damaged(conn, "its header");
    status = reserve(conn, HF__REGION_SESSIONS, room, wanted);
    if (status < 0)
        return status;

    prepare(conn, HF__REGION_SESSIONS, room, wanted);
    hf__table_store(word, hf__table_sealed(&conn->table, word, wanted));
    return hf__table_reaches(conn, HF__REGION_SESSIONS, count)
               ? HF_OK
               : hf__table_damaged(conn, "its header");
}

/* One attempt; somebody else may have grown it meanwhile, and less than we need. */
static int grow_once(struct hf__embedded *conn, enum hf__region region, uint32_t count)
{
    uint64_t *word = &hf__table_header(&conn->table)->rooms[region];
    uint32_t step = regions[region].step;
    uint32_t wanted = (count + step - 1) / step * step;
    uint32_t room;
    int status;

    if (!hf__table_unsealed(&conn->table, word, hf__table_load(word), &room) ||
        room > regions[region].most)
        return hf__table_damaged(conn, "its header");
    if (room >= count)
        return HF_OK; /* somebody else has grown it, perhaps beyond what we want */
    status = reserve(conn, region, room, wanted);
    if (status < 0)
        return status;
    status = hf__guard_take(conn, HF__TABLE_GUARD);
    if (status < 0)
        return status;

    /* Cells that are in use must not be made anew. */
    if (hf__table_load(word) == hf__table_sealed(&conn->table, word, room)) {
        prepare(conn, region, room, wanted);
        hf__death_point("room prepared");
        hf__guard_put(conn, word, hf__table_sealed(&conn->table, word, wanted));
        hf__guard_commit(conn);
    }
    return hf__guard_give(conn);
}

int hf__table_grow(struct hf__embedded *conn, enum hf__region region, uint32_t count)
{
    assert(region != HF__REGION_SESSIONS);

    if (count > regions[region].most)
        return full(conn, region);

    for (uint32_t tries = 0; tries < GROW_TRIES_MAX; tries++) {
        int status;

        if (hf__table_reaches(conn, region, count))
            return HF_OK;
        status = grow_once(conn, region, count);
        if (status < 0)
            return status;
    }
    return hf__table_damaged(conn, "its header");
}

int hf__table_locks_used(struct hf__embedded *conn, enum hf__region region, uint32_t *out_used)
{
    uint64_t *word = &hf__table_header(&conn->table)->used[region];
    uint32_t used;

    assert(region == HF__REGION_SHORT || region == HF__REGION_LONG);

    if (!hf__table_unsealed(&conn->table, word, hf__table_load(word), &used) ||
        !hf__table_reaches(conn, region, used))
        return hf__table_damaged(conn, "its header");
    *out_used = used;
    return HF_OK;
}

/* --- making one --- */

/* A session of any table that ever was in this directory, with a sign of life. */
static int check_nobody_lives(struct hf__embedded *conn)
{
    int fd = openat(conn->table.directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int64_t pid = 0;

    if (!directory) {
        int number = errno;

        if (fd >= 0)
            close(fd);
        return cannot(conn, "look into its directory", number);
    }
    while (pid == 0 && (entry = readdir(directory)))
        pid = hf__session_file_lives(conn, entry->d_name);
    closedir(directory);
    if (pid == 0)
        return HF_OK;
    return hf__error_set(conn->base.error, HF_EINTEGRITY,
                         "%s/table: is missing or of another boot, but in use (process %lld); stop "
                         "all programs that use the directory first",
                         conn->table.path, (long long)(pid > 0 ? pid : 0));
}

static int check_file_size_limit(struct hf__embedded *conn)
{
    struct rlimit limit;

    /* Beyond it the kernel would not fail but send SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < HF__TABLE_BYTES)
        return cannot(conn, "make it: ulimit -f is too low", EFBIG);
    return HF_OK;
}

static void fill(struct hf__embedded *conn, const uint64_t boot[2], uint64_t epoch)
{
    struct hf__table *table = &conn->table;
    struct hf__header_cell *header = hf__table_header(table);

    header->magic = HF__TABLE_MAGIC;
    header->version = HF__TABLE_VERSION;
    header->shape = shape();
    memcpy(header->boot, boot, sizeof(header->boot));
    hf__env_random(conn->base.env, header->salt, sizeof(header->salt));
    header->first_epoch = epoch;
    header->check = check_header(header);
    memcpy(table->seal.salt, header->salt, sizeof(header->salt));

    for (uint32_t i = 0; i < HF__REGIONS; i++) {
        prepare(conn, (enum hf__region)i, 0, regions[i].step);
        header->rooms[i] = hf__table_sealed(table, &header->rooms[i], regions[i].step);
    }
    for (uint32_t i = 0; i < 2; i++) {
        header->used[i] = hf__table_sealed(table, &header->used[i], 0);
        header->free_locks[i] = hf__table_sealed(table, &header->free_locks[i], 0);
    }
    header->epoch = hf__table_sealed(table, &header->epoch, (uint32_t)epoch);
    header->floor = epoch << HF__COUNTER_BITS;
    header->floor_check = hf__table_floor_check(table, header->floor);
    for (uint32_t i = 0; i < HF__GUARDS; i++) {
        struct hf__guard_cell *cell = hf__table_guard(table, i);

        cell->word = hf__table_sealed(table, &cell->word, HF__OWNER_NONE);
    }
    for (uint32_t i = 0; i < HF__BUCKETS; i++) {
        uint64_t *bucket = hf__table_bucket(table, i);

        *bucket = hf__table_sealed(table, bucket, 0);
    }
}

static int build(struct hf__embedded *conn, const uint64_t boot[2], uint64_t epoch)
{
    int fd;
    int status;

    (void)unlinkat(conn->table.directory_fd, "table.new", 0); /* of somebody who died here */
    fd = hf__directory_file(conn, "table.new", O_RDWR | O_CREAT | O_EXCL, S_IFREG);
    if (fd < 0)
        return fd;
    conn->table.fd = fd;
    if (ftruncate(fd, (off_t)HF__TABLE_BYTES))
        return cannot(conn, "make it", errno);

    status = reserve_bytes(conn, 0, HF__SESSIONS_OFFSET);
    for (uint32_t i = 0; i < HF__REGIONS && status == HF_OK; i++)
        status = reserve(conn, (enum hf__region)i, 0, regions[i].step);
    if (status < 0)
        return status;
    status = map(conn, fd);
    if (status < 0)
        return status;

    fill(conn, boot, epoch);
    /* After a power cut the header must still tell that the rest is of another boot. */
    if (msync(conn->table.map, HF__PAGE_BYTES, MS_SYNC) || fsync(fd))
        return cannot(conn, "write it", errno);
    hf__death_point("table filled");
    if (renameat(conn->table.directory_fd, "table.new", conn->table.directory_fd, "table"))
        return cannot(conn, "put it in its place", errno);
    hf__death_point("table renamed");
    return HF_OK;
}

/* A new table, with an epoch greater than any that we can know of. */
static int make(struct hf__embedded *conn, const uint64_t boot[2], uint64_t known_epoch)
{
    uint64_t epoch = 0;
    int status = check_nobody_lives(conn);

    if (status == HF_OK)
        status = check_file_size_limit(conn);
    if (status == HF_OK)
        status = hf__epoch_read(conn, &epoch);
    if (status < 0)
        return status;

    epoch = hf__epoch_after(epoch > known_epoch ? epoch : known_epoch);
    status = hf__epoch_write(conn, epoch);
    if (status < 0)
        return status;

    status = build(conn, boot, epoch);
    if (status < 0) {
        hf__table_close(conn);
        (void)unlinkat(conn->table.directory_fd, "table.new", 0);
    }
    return status;
}

/* --- opening one --- */

/* The table is ahead of the file if that was lost, or set back: then the file follows. */
static int check_epoch(struct hf__embedded *conn)
{
    uint64_t *word = &hf__table_header(&conn->table)->epoch;
    uint32_t ours;
    uint64_t stored;
    int status;

    if (!hf__table_unsealed(&conn->table, word, hf__table_load(word), &ours))
        return hf__table_damaged(conn, "its header");
    status = hf__epoch_read(conn, &stored);
    if (status < 0 || stored >= ours)
        return status;
    return hf__epoch_write(conn, ours);
}

static int check_shape(struct hf__embedded *conn)
{
    const struct hf__header_cell *header = hf__table_header(&conn->table);

    if (header->version != HF__TABLE_VERSION || header->shape != shape())
        return hf__error_set(conn->base.error, HF_EINTEGRITY,
                             "%s/table: was made by another version of holdfast; stop all programs "
                             "that use it, then remove it",
                             conn->table.path);
    memcpy(conn->table.seal.salt, header->salt, sizeof(header->salt));
    return check_epoch(conn);
}

static int look_at(struct hf__embedded *conn, int fd)
{
    struct stat about;
    int status;

    if (fstat(fd, &about)) {
        status = cannot(conn, "ask for its size", errno);
        close(fd);
        return status;
    }
    if (about.st_size != (off_t)HF__TABLE_BYTES) {
        close(fd);
        return hf__table_damaged(conn, "its size");
    }
    status = map(conn, fd);
    if (status < 0)
        close(fd);
    return status;
}

/* Of a table that is thrown away: whatever it says can only raise what the file says. */
static uint64_t newest_epoch(struct hf__embedded *conn, const struct hf__header_cell *header)
{
    uint32_t newest;

    memcpy(conn->table.seal.salt, header->salt, sizeof(header->salt));
    if (!hf__table_unsealed(&conn->table, &header->epoch, header->epoch, &newest) ||
        newest < header->first_epoch)
        return header->first_epoch;
    return newest;
}

int hf__table_open(struct hf__embedded *conn)
{
    const struct hf__header_cell *header;
    uint64_t boot[2];
    uint64_t epoch;
    int status = read_boot(conn, boot);
    int fd;

    if (status < 0)
        return status;
    fd = hf__directory_file(conn, "table", O_RDWR, S_IFREG);
    if (fd < 0 && errno == ENOENT)
        return make(conn, boot, 0);
    if (fd < 0)
        return fd;
    status = look_at(conn, fd);
    if (status < 0)
        return status;

    header = hf__table_header(&conn->table);
    if (header->magic != HF__TABLE_MAGIC || header->check != check_header(header))
        return hf__table_damaged(conn, "its header");
    if (memcmp(header->boot, boot, sizeof(boot)) == 0)
        return check_shape(conn);

    epoch = newest_epoch(conn, header);
    hf__table_close(conn);
    return make(conn, boot, epoch);
}

/* --- a new epoch for a counter that has come to its end --- */

static int publish_epoch(struct hf__embedded *conn, uint64_t epoch)
{
    uint64_t *word = &hf__table_header(&conn->table)->epoch;
    int status = hf__guard_take(conn, HF__TABLE_GUARD);

    if (status < 0)
        return status;
    hf__guard_put(conn, word, hf__table_sealed(&conn->table, word, (uint32_t)epoch));
    hf__guard_commit(conn);
    return hf__guard_give(conn);
}

int hf__table_new_epoch(struct hf__embedded *conn, uint64_t *out_epoch)
{
    uint64_t *word = &hf__table_header(&conn->table)->epoch;
    uint32_t ours = 0;
    uint64_t epoch;
    int lock_fd;
    int status = hf__directory_lock(conn, &lock_fd);

    if (status < 0)
        return status;
    if (!hf__table_unsealed(&conn->table, word, hf__table_load(word), &ours))
        status = hf__table_damaged(conn, "its header");
    if (status == HF_OK)
        status = hf__epoch_read(conn, &epoch);
    if (status == HF_OK) {
        epoch = hf__epoch_after(epoch > ours ? epoch : ours);
        status = hf__epoch_write(conn, epoch);
    }
    if (status == HF_OK)
        status = publish_epoch(conn, epoch);
    hf__directory_unlock(lock_fd);
    if (status == HF_OK)
        *out_epoch = epoch;
    return status;
}
