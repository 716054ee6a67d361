/* group.c: is anybody of the command's process group still alive?
 *
 * kill(2) with a negative number reaches all members at once, also one that is just being forked,
 * so nobody slips through. It answers ESRCH when the group is gone; that is the usual case and
 * costs one call.
 *
 * What can go wrong: somebody's zombie that its parent never waits for keeps the group in being;
 * then /proc is read, and a group of zombies counts as gone. A group of nobody's sets the number
 * free for others: as long as the leader is not waited for, or another member lives, the number
 * cannot be given to a new process; so once the leader has been waited for, a process with the
 * group's own number is a stranger, and the group is gone. Where /proc cannot be read, a group
 * that can be signalled counts as alive: to hold on too long is safe. A member that may not be
 * signalled (it has become another user's) keeps the group alive until it ends by itself. */
#include "group.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES_BYTES 16384
#define STAT_BYTES    512 /* the name of a program is short, and stands in front */

struct dirent_64 { /* as getdents64(2) writes it */
    ino64_t d_ino;
    off64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

/* The number at *text, which is moved on behind it. */
static long take_number(const char **text)
{
    long number = 0;
    bool negative = **text == '-';

    if (negative)
        (*text)++;
    for (; **text >= '0' && **text <= '9'; (*text)++)
        number = number * 10 + (**text - '0');
    return negative ? -number : number;
}

/* "PID (NAME) STATE PARENT GROUP ...": lives, and is of this group? The name may hold anything, so
 * the last bracket counts. */
static bool stat_tells_member(char *text, pid_t group)
{
    const char *rest = strrchr(text, ')');
    char state;

    if (!rest || strlen(rest) < 5)
        return false;
    state = rest[2];
    rest += 4;
    take_number(&rest);
    if (*rest != ' ')
        return false;
    rest++;
    return take_number(&rest) == group && state != 'Z' && state != 'X';
}

static bool is_living_member(int proc_fd, const char *process, pid_t group)
{
    char path[64];
    char text[STAT_BYTES];
    size_t length = strlen(process);
    ssize_t bytes;
    int fd;

    if (process[0] < '1' || process[0] > '9' || length > 16)
        return false;
    memcpy(path, process, length);
    memcpy(path + length, "/stat", sizeof("/stat"));
    fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bytes = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    return stat_tells_member(text, group);
}

/* Not readdir(3), which allocates: this also runs in a fork of a program with threads. */
static bool has_living_member(pid_t group)
{
    _Alignas(struct dirent_64) char entries[ENTRIES_BYTES];
    int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool found = proc_fd < 0;

    while (!found) {
        long bytes = syscall(SYS_getdents64, proc_fd, entries, sizeof(entries));

        if (bytes < 0)
            found = true;
        if (bytes <= 0)
            break;
        for (long at = 0; at < bytes && !found;) {
            const struct dirent_64 *entry = (const void *)(entries + at);

            found = is_living_member(proc_fd, entry->d_name, group);
            at += entry->d_reclen;
        }
    }
    if (proc_fd >= 0)
        close(proc_fd);
    return found;
}

static bool number_was_given_away(const struct group *group)
{
    return group->leader_reaped && (kill(group->id, 0) == 0 || errno != ESRCH);
}

bool group_is_gone(const struct group *group)
{
    assert(group->id > 1);

    if (kill(-group->id, 0) != 0 && errno == ESRCH)
        return true;
    if (number_was_given_away(group))
        return true;
    if (has_living_member(group->id))
        return false;

    /* One that was forked behind the reader's back must not live on: the first look cannot rule it
     * out, but nobody forks once SIGKILL has been sent to all, so the second look can. */
    kill(-group->id, SIGKILL);
    return !has_living_member(group->id);
}

void group_signal(const struct group *group, int number)
{
    assert(group->id > 1);

    if (number_was_given_away(group))
        return;
    kill(-group->id, number);
}
