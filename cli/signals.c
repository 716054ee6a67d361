/* signals.c: how are signals received without losing one and without a handler?
 *
 * They are blocked and read from a signalfd, so that they wait while we are busy and are seen in
 * order by one loop. What was ignored when we started (nohup, a shell's background job) stays
 * ignored, here and in the command. Faults (SIGSEGV and the like) keep their way of ending us: the
 * guard cleans up.
 *
 * What can go wrong: a signal arrives before signals_take(): it ends us as always, and nothing is
 * held yet. SIGCHLD was ignored: then children would not be waited for, so it is set to its default
 * and given back to the command as it was. SIGTTIN and SIGTTOU are blocked but not read: a process
 * may then hand the terminal over from the background. */
#include "signals.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "exit.h"

static bool is_taken(int number)
{
    static const int left_alone[] = { SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,
                                      SIGFPE,  SIGILL,  SIGSYS,  SIGTRAP };
    struct sigaction action;

    for (size_t i = 0; i < sizeof(left_alone) / sizeof(left_alone[0]); i++) {
        if (number == left_alone[i])
            return false;
    }
    if (number == SIGCHLD)
        return true;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN;
}

int signals_take(struct signals *signals)
{
    struct sigaction usual = { .sa_handler = SIG_DFL };
    sigset_t blocked;
    sigset_t read_set;

    sigemptyset(&blocked);
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (is_taken(number))
            sigaddset(&blocked, number); /* refuses the two that the C library keeps */
    }
    read_set = blocked;
    sigaddset(&blocked, SIGTTIN);
    sigaddset(&blocked, SIGTTOU);
    sigdelset(&read_set, SIGTTIN);
    sigdelset(&read_set, SIGTTOU);

    if (sigprocmask(SIG_BLOCK, &blocked, &signals->received) != 0 ||
        sigaction(SIGCHLD, &usual, &signals->child_action) != 0)
        return errno;
    signals->fd = signalfd(-1, &read_set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? errno : 0;
}

static enum signals_kind kind_of(const struct signalfd_siginfo *info)
{
    switch (info->ssi_signo) {
    case SIGTSTP:
        return SIGNALS_STOP;
    case SIGCONT:
        return SIGNALS_CONTINUE;
    case SIGCHLD:
        return SIGNALS_CHILD;
    case SIGWINCH:
    case SIGURG:
        return SIGNALS_QUIET;
    case SIGPIPE:
        return info->ssi_pid == (uint32_t)getpid() ? SIGNALS_OWN : SIGNALS_FATAL;
    default:
        return SIGNALS_FATAL;
    }
}

bool signals_next(const struct signals *signals, struct signals_one *out_one)
{
    struct signalfd_siginfo info;

    if (read(signals->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return false;

    out_one->number = (int)info.ssi_signo;
    out_one->kind = kind_of(&info);
    out_one->from_keyboard = info.ssi_code == SI_KERNEL;
    return true;
}

void signals_give_back(const struct signals *signals)
{
    sigaction(SIGCHLD, &signals->child_action, NULL);
    sigprocmask(SIG_SETMASK, &signals->received, NULL);
}

/* The SIGCONT that ended our stop is not news. Read later, it would continue a command that ^Z has
 * stopped again in the meantime, and nobody would hear of that stop. */
static void forget_continue(void)
{
    struct timespec at_once = { 0 };
    sigset_t only;

    sigemptyset(&only);
    sigaddset(&only, SIGCONT);
    sigtimedwait(&only, NULL, &at_once);
}

void signals_stop(int number)
{
    sigset_t only;

    assert(number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU);

    sigemptyset(&only);
    sigaddset(&only, number);
    if (number == SIGSTOP)
        raise(SIGSTOP);
    else
        kill(0, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL); /* here it stops */
    sigprocmask(SIG_BLOCK, &only, NULL);
    forget_continue();
}

_Noreturn void signals_die(int number)
{
    struct sigaction usual = { .sa_handler = SIG_DFL };
    struct rlimit no_core = { 0, 0 };
    sigset_t only;

    setrlimit(RLIMIT_CORE, &no_core);
    sigaction(number, &usual, NULL);
    sigemptyset(&only);
    sigaddset(&only, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    _exit(EXIT_SIGNAL_BASE + number);
}
