/* group.h: a command's process group: all that it started and that did not leave. */
#ifndef CLI_GROUP_H
#define CLI_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

struct group {
    pid_t id;           /* the leader's process id too; 0: there is none yet           */
    bool leader_reaped; /* its number is no longer kept for it by an unwaited-for child */
};

/* Both are plain system calls, for use after fork as well. */

/* Nobody of the group lives any more. Zombies that nobody waits for do not count. */
bool group_is_gone(const struct group *group);

/* To all of them; nothing happens if the group is gone. */
void group_signal(const struct group *group, int number);

#endif
