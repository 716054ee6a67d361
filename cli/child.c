/* child.c: how does the command start, so that nobody can lose sight of it?
 *
 * The child gets its process group from both sides, whoever comes first, and then waits for one
 * byte. Meanwhile the guard is told of the group and the terminal is handed over; only then the
 * byte is sent. If holdfast dies before, the child reads end of file and ends: there is no
 * instant at which a command runs that nobody would end.
 *
 * Signals stay blocked in the child until its last step before exec. One that is sent to the
 * group in between waits, and then acts as on any new program: none is lost.
 *
 * What can go wrong: the command cannot be executed: the errno comes through a pipe that a
 * successful exec closes. Holdfast is killed later: the kernel kills the child by itself, should
 * the guard have been killed too. */
#include "child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "exit.h"

struct ends {
    int go[2];
    int answer[2];
};

_Noreturn static void be_command(const struct program *program, const struct signals *signals,
                                 const struct ends *ends, pid_t parent)
{
    char go;
    int failure;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends->go[1]);
    if (getppid() != parent || read(ends->go[0], &go, 1) != 1)
        _exit(EXIT_SYSTEM);

    signals_give_back(signals);
    failure = program_execute(program);
    if (write(ends->answer[1], &failure, sizeof(failure)) < 0)
        _exit(EXIT_SYSTEM);
    _exit(EXIT_NOT_FOUND);
}

static int open_ends(struct ends *out_ends)
{
    if (pipe2(out_ends->go, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(out_ends->answer, O_CLOEXEC) != 0) {
        close(out_ends->go[0]);
        close(out_ends->go[1]);
        return errno;
    }
    return 0;
}

int child_fork(struct child *child, const struct program *program, const struct signals *signals)
{
    struct ends ends;
    pid_t parent = getpid();
    pid_t pid;
    int failure = open_ends(&ends);

    if (failure)
        return failure;

    pid = fork();
    if (pid == 0)
        be_command(program, signals, &ends, parent);
    failure = pid < 0 ? errno : 0;
    close(ends.go[0]);
    close(ends.answer[1]);
    if (failure) {
        close(ends.go[1]);
        close(ends.answer[0]);
        return failure;
    }
    setpgid(pid, pid); /* refused if it has executed already, and then it has done it itself */
    *child = (struct child){ .pid = pid, .go = ends.go[1], .answer = ends.answer[0] };
    return 0;
}

void child_go(struct child *child)
{
    ssize_t written = write(child->go, "", 1);

    assert(written == 1 || errno == EPIPE); /* it may have been killed */
    close(child->go);
    child->go = -1;
}

int child_answer(struct child *child)
{
    int failure = 0;
    ssize_t bytes;

    assert(child->answer >= 0);

    do {
        bytes = read(child->answer, &failure, sizeof(failure));
    } while (bytes < 0 && errno == EINTR);
    close(child->answer);
    child->answer = -1;
    return bytes == (ssize_t)sizeof(failure) ? failure : 0;
}
