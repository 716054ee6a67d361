/* directory.c: is this a directory where locks may live?
 *
 * The path comes from the URL, or is the default one: /var/lib/holdfast for root, else
 * $XDG_STATE_HOME/holdfast, else $HOME/.local/state/holdfast. A directory that is missing is made,
 * for us alone. All files are opened by their name inside the opened directory, never by a path.
 *
 * Two kinds of directory are taken. A private one belongs to us or to root, and nobody else may
 * write to it: its files are 0600. One for a group has the group's write bit and the setgid bit
 * (2770, so that every file gets that group): its files are 0660, and the members trust each other.
 *
 * What can go wrong, each with its own text: a symbolic link, no directory, another owner, writable
 * for everybody, writable for a group without setgid, a network file system (whose locks and memory
 * other machines do not see), read-only, full, and files that are not what we would have made. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/embedded/embedded.h"

#define ROOT_DIRECTORY "/var/lib/holdfast"
#define NAP_NS         1000000l
#define LOCK_NAPS_MAX  10000u /* ten seconds */
#define OPEN_NAPS_MAX  50u

static void nap(void)
{
    struct timespec pause = { .tv_sec = 0, .tv_nsec = NAP_NS };

    (void)nanosleep(&pause, NULL);
}

/* --- the path --- */

static int default_path(struct hf__embedded *conn)
{
    char *path = conn->table.path;
    const char *state = secure_getenv("XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    int length;

    if (geteuid() == 0)
        length = snprintf(path, HF__PATH_BYTES, "%s", ROOT_DIRECTORY);
    else if (state && state[0] == '/')
        length = snprintf(path, HF__PATH_BYTES, "%s/holdfast", state);
    else if (home && home[0] == '/')
        length = snprintf(path, HF__PATH_BYTES, "%s/.local/state/holdfast", home);
    else
        return hf__error_set(conn->base.error, HF_EURL,
                             "no default directory: neither $XDG_STATE_HOME nor $HOME is set; "
                             "give one as file:DIR");

    if (length < 0 || length >= HF__PATH_BYTES)
        return hf__error_set(conn->base.error, HF_EURL, "the default directory's path is too long");
    return HF_OK;
}

static int cannot(struct hf__embedded *conn, const char *what, int number)
{
    int status = number == EACCES || number == EPERM ? HF_EDENIED : HF_ESYSTEM;

    return hf__error_set(conn->base.error, status, "%s: cannot %s: %s", conn->table.path, what,
                         strerror(number));
}

/* Makes every part of the path that is missing. */
static int make_parents(struct hf__embedded *conn)
{
    char *path = conn->table.path;

    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        int failed;

        *slash = '\0';
        failed = mkdir(path, 0700);
        *slash = '/';
        if (failed && errno != EEXIST && errno != EISDIR)
            return cannot(conn, "make its parent directory", errno);
    }
    return HF_OK;
}

static int find_path(struct hf__embedded *conn, const struct hf__url *url)
{
    char *path = conn->table.path;
    size_t bytes;
    int status;

    if (url->path[0] == '\0') {
        status = default_path(conn);
        if (status < 0)
            return status;
        return make_parents(conn);
    }
    if (!hf__text_copy(path, HF__PATH_BYTES, url->path))
        return hf__error_set(conn->base.error, HF_EURL, "the directory's path is too long");

    /* With a slash behind it, a link would be followed. */
    bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        path[--bytes] = '\0';
    return HF_OK;
}

/* --- the directory --- */

static const struct {
    uint64_t magic;
    const char *name;
} network[] = {
    { NFS_SUPER_MAGIC, "NFS" },
    { SMB_SUPER_MAGIC, "SMB" },
    { 0xff534d42, "CIFS" },
    { 0xfe534d42, "SMB2" },
    { FUSE_SUPER_MAGIC, "FUSE" },
    { V9FS_MAGIC, "9p" },
    { 0x00c36400, "Ceph" },
    { AFS_SUPER_MAGIC, "AFS" },
    { 0x6b414653, "AFS" },
    { CODA_SUPER_MAGIC, "Coda" },
    { 0x564c, "NCP" },
    { 0x01161970, "GFS2" },
    { 0x7461636f, "OCFS2" },
    { 0x0bd00bd0, "Lustre" },
    { 0x786f4256, "vboxsf" },
    { 0xbacbacbc, "vmhgfs" },
    { 0x47504653, "GPFS" },
    { 0x19830326, "BeeGFS" },
};

static int check_file_system(struct hf__embedded *conn)
{
    struct statfs about;
    uint64_t magic;

    if (fstatfs(conn->table.directory_fd, &about))
        return cannot(conn, "ask for its file system", errno);

    magic = (uint64_t)about.f_type & 0xffffffffu;
    for (size_t i = 0; i < sizeof(network) / sizeof(*network); i++) {
        if (network[i].magic == magic)
            return hf__error_set(conn->base.error, HF_EDENIED,
                                 "%s: is on a %s file system, where other machines do not see our "
                                 "locks; give a local directory",
                                 conn->table.path, network[i].name);
    }
    conn->table.is_volatile = magic == TMPFS_MAGIC || magic == RAMFS_MAGIC;
    return HF_OK;
}

static int check_rights(struct hf__embedded *conn, const struct stat *about)
{
    bool for_group = (about->st_mode & S_IWGRP) != 0;

    if (about->st_mode & S_IWOTH)
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s: everybody may write to it: chmod o-w, or give another directory",
                             conn->table.path);
    if (for_group && !(about->st_mode & S_ISGID))
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s: its group may write to it, but it is not setgid: chmod 2770 to "
                             "share it with the group, or chmod g-w",
                             conn->table.path);
    if (!for_group && about->st_uid != geteuid() && about->st_uid != 0)
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s: belongs to user %u, not to us: give a directory of our own, or "
                             "one that is shared with a group (2770)",
                             conn->table.path, (unsigned)about->st_uid);

    conn->table.is_shared = for_group;
    conn->table.group = about->st_gid;
    return HF_OK;
}

static int cannot_open(struct hf__embedded *conn, int number)
{
    struct stat about;

    if (lstat(conn->table.path, &about) == 0 && S_ISLNK(about.st_mode))
        return hf__error_set(conn->base.error, HF_EDENIED,
                             "%s: is a symbolic link: give the directory itself", conn->table.path);
    if (number == ENOTDIR)
        return hf__error_set(conn->base.error, HF_EURL, "%s: is not a directory", conn->table.path);
    return cannot(conn, "open it", number);
}

int hf__directory_open(struct hf__embedded *conn, const struct hf__url *url)
{
    struct stat about;
    int status = find_path(conn, url);

    if (status < 0)
        return status;
    if (mkdir(conn->table.path, 0700) && errno != EEXIST)
        return cannot(conn, "make the directory", errno);

    conn->table.directory_fd =
        open(conn->table.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (conn->table.directory_fd < 0)
        return cannot_open(conn, errno);
    if (fstat(conn->table.directory_fd, &about))
        return cannot(conn, "ask for its rights", errno);

    status = check_rights(conn, &about);
    if (status < 0)
        return status;
    return check_file_system(conn);
}

/* --- files in it --- */

unsigned hf__directory_mode(const struct hf__embedded *conn)
{
    return conn->table.is_shared ? 0660 : 0600;
}

static int refuse(struct hf__embedded *conn, const char *name, const char *why)
{
    return hf__error_set(conn->base.error, HF_EDENIED, "%s/%s: %s", conn->table.path, name, why);
}

static int check_file(struct hf__embedded *conn, const char *name, int fd, unsigned kind)
{
    struct stat about;
    unsigned others = conn->table.is_shared ? 07 : 077;

    if (fstat(fd, &about))
        return cannot(conn, "ask for the rights of a file in it", errno);
    if ((about.st_mode & S_IFMT) != kind)
        return refuse(conn, name, "is not a file of the kind that belongs there; remove it");
    if (about.st_nlink > 1)
        return refuse(conn, name, "has a second name (hard link); remove it");
    if (conn->table.is_shared && about.st_gid != conn->table.group)
        return refuse(conn, name, "does not belong to the directory's group; remove it");
    if (!conn->table.is_shared && about.st_uid != geteuid() && about.st_uid != 0)
        return refuse(conn, name, "belongs to another user; remove it");
    if (about.st_mode & others)
        return refuse(conn, name, "is open to more users than it should be; chmod it");
    return HF_OK;
}

static int cannot_file(struct hf__embedded *conn, const char *name, int number)
{
    int status = number == EACCES || number == EPERM || number == ELOOP ? HF_EDENIED : HF_ESYSTEM;

    if (number == ELOOP)
        return refuse(conn, name, "is a symbolic link; remove it");
    if (number == ENXIO || number == EISDIR)
        return refuse(conn, name, "is not a file of the kind that belongs there; remove it");
    return hf__error_set(conn->base.error, status, "%s/%s: cannot open it: %s", conn->table.path,
                         name, strerror(number));
}

/* Returns the descriptor; -ENOENT and -EEXIST are for the caller to judge, other failures are
 * told. */
static int open_once(struct hf__embedded *conn, const char *name, int flags)
{
    mode_t mode = hf__directory_mode(conn);
    int fd = openat(conn->table.directory_fd, name,
                    flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);

    if (fd < 0)
        return -errno;
    /* The user's umask is not ours to change, and must not shut the group out. */
    if ((flags & O_EXCL) && fchmod(fd, mode)) {
        int number = errno;

        close(fd);
        return -number;
    }
    return fd;
}

int hf__directory_file(struct hf__embedded *conn, const char *name, int flags, unsigned kind)
{
    int fd = open_once(conn, name, flags);
    int status;

    /* Another member of the group has just made it, and not yet opened it for us. */
    for (unsigned i = 0; fd == -EACCES && conn->table.is_shared && i < OPEN_NAPS_MAX; i++) {
        nap();
        fd = open_once(conn, name, flags);
    }
    if (fd < 0) {
        int number = -fd;

        status = cannot_file(conn, name, number);
        errno = number;
        return status;
    }

    status = check_file(conn, name, fd, kind);
    if (status < 0) {
        close(fd);
        errno = 0;
        return status;
    }
    return fd;
}

/* --- init.lock --- */

static int open_lock_file(struct hf__embedded *conn)
{
    int fd = hf__directory_file(conn, "init.lock", O_RDWR, S_IFREG);

    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = hf__directory_file(conn, "init.lock", O_RDWR | O_CREAT | O_EXCL, S_IFREG);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    return hf__directory_file(conn, "init.lock", O_RDWR, S_IFREG);
}

static bool is_still_there(const struct hf__embedded *conn, int fd)
{
    struct stat ours;
    struct stat there;

    if (fstat(fd, &ours) ||
        fstatat(conn->table.directory_fd, "init.lock", &there, AT_SYMLINK_NOFOLLOW))
        return false;
    return ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

int hf__directory_lock(struct hf__embedded *conn, int *out_fd)
{
    for (unsigned i = 0; i < LOCK_NAPS_MAX; i++) {
        int fd = open_lock_file(conn);

        if (fd < 0)
            return fd;
        while (flock(fd, LOCK_EX | LOCK_NB) && i < LOCK_NAPS_MAX) {
            nap();
            i++;
        }
        if (i < LOCK_NAPS_MAX && is_still_there(conn, fd)) {
            *out_fd = fd;
            return HF_OK;
        }
        close(fd);
    }
    return hf__error_set(conn->base.error, HF_EUNREACHABLE,
                         "%s/init.lock: another process has held it for ten seconds (stopped?)",
                         conn->table.path);
}

/* Unlocked by name: a fork in another thread may have a copy of the descriptor. */
void hf__directory_unlock(int fd)
{
    (void)flock(fd, LOCK_UN);
    close(fd);
}
