/* terminal.c: who has the keyboard?
 *
 * The command runs in a process group of its own, and only the foreground group may read from the
 * terminal and gets ^C, ^\ and ^Z. So we make it the foreground group if ours was, and take the
 * terminal back when it stops or ends; to the shell it looks as if we had been there all along.
 *
 * In a pipeline (standard input or output is a pipe) others of our group may want the keyboard, a
 * pager for instance. There the command gets it only when it asks for it, that is when the kernel
 * stops it for reading from the background; ^C, ^\ and ^Z reach us and are passed on.
 *
 * What can go wrong: no terminal (cron): nothing is done. We are in the background: it is not ours
 * to give. The command died with the terminal in raw mode: the modes are restored. tcsetpgrp(3)
 * needs SIGTTOU blocked, which signals.c has done. */
#include "terminal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_piped(int fd)
{
    struct stat stat;

    return fstat(fd, &stat) == 0 && (S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode));
}

void terminal_open(struct terminal *terminal)
{
    *terminal = (struct terminal){ .fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) };
    terminal->eager = terminal->fd >= 0 && !is_piped(STDIN_FILENO) && !is_piped(STDOUT_FILENO);
}

bool terminal_is_ours(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

void terminal_hand_over(struct terminal *terminal, pid_t group)
{
    if (!terminal_is_ours(terminal))
        return;
    terminal->has_modes = tcgetattr(terminal->fd, &terminal->modes) == 0;
    terminal->handed = tcsetpgrp(terminal->fd, group) == 0;
    terminal->eager = true; /* who asked once will ask again */
}

void terminal_take_back(struct terminal *terminal, bool restore)
{
    if (!terminal->handed)
        return;
    terminal->handed = false;
    if (tcsetpgrp(terminal->fd, getpgrp()) == 0 && restore && terminal->has_modes)
        tcsetattr(terminal->fd, TCSADRAIN, &terminal->modes);
}

void terminal_look_again(struct terminal *terminal, pid_t group)
{
    terminal->handed = terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group;
}
