/* guard.c: who ends the command when holdfast cannot?
 *
 * A second process, forked before the command starts. It stands by for the client, so that the
 * lock outlives our death (embedded engine), and listens on a pipe. When all is done, holdfast
 * ends it. End of file means that holdfast died: the guard kills the command's whole group again
 * and again until nobody is left, and only then ends, which frees the lock. So the next holder's
 * command never meets the old one.
 *
 * It also has a time by which the command must be dead: if we were stopped (SIGSTOP) we can
 * neither renew a lease nor end the command in time, and it can.
 *
 * What can go wrong: it is killed: holdfast sees that and starts another. ^C, a closed terminal,
 * a signal to holdfast's group: it has a session of its own and all signals blocked. It would
 * keep a pipeline open: it closes whatever the command would inherit. The number of the group was
 * given away: see group.c; the leader is watched through a descriptor, which cannot be confused.
 *
 * Holdfast has threads when it forks, so the guard makes plain system calls only;
 * hf_client_stand_by is made for such a process. */
#include "guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "group.h"

#define PAUSE_NS_FIRST 1000000l
#define PAUSE_NS_MAX   50000000l

/* One message; small enough to be written whole. */
struct order {
    int64_t group;
    uint64_t kill_at_ns;
};

/* What the guard knows. */
struct charge {
    struct group group;
    int leader_fd; /* -1: none, or the leader was gone before we could look */
    uint64_t kill_at_ns;
};

static void pause_ns(long ns)
{
    struct timespec time = { .tv_sec = 0, .tv_nsec = ns };

    nanosleep(&time, NULL);
}

static void look_at_leader(struct charge *charge)
{
    if (charge->leader_fd < 0)
        return;
    if (syscall(SYS_pidfd_send_signal, charge->leader_fd, 0, NULL, 0) != 0 && errno == ESRCH)
        charge->group.leader_reaped = true;
}

static void end_group(struct charge *charge)
{
    long ns = PAUSE_NS_FIRST;

    if (!charge->group.id)
        return;
    for (;;) {
        look_at_leader(charge);
        if (group_is_gone(&charge->group))
            return;
        group_signal(&charge->group, SIGKILL);
        pause_ns(ns);
        ns = ns * 2 > PAUSE_NS_MAX ? PAUSE_NS_MAX : ns * 2;
    }
}

static void take_order(struct charge *charge, const struct order *order)
{
    if (charge->group.id != (pid_t)order->group) {
        charge->group = (struct group){ .id = (pid_t)order->group };
        charge->leader_fd = (int)syscall(SYS_pidfd_open, charge->group.id, 0);
        charge->group.leader_reaped = charge->leader_fd < 0 && errno == ESRCH;
    }
    charge->kill_at_ns = order->kill_at_ns;
}

_Noreturn static void listen_to(int control, const struct order *first)
{
    struct charge charge = { .leader_fd = -1, .kill_at_ns = GUARD_NEVER_NS };

    if (first->group)
        take_order(&charge, first);
    for (;;) {
        struct pollfd control_poll = { .fd = control, .events = POLLIN };
        bool limited = charge.kill_at_ns != GUARD_NEVER_NS;
        struct order order;
        ssize_t bytes;

        if (poll(&control_poll, 1,
                 limited ? clock_poll_ms(clock_now_ns(), charge.kill_at_ns) : -1) == 0) {
            end_group(&charge);
            charge.kill_at_ns = GUARD_NEVER_NS;
            continue;
        }
        bytes = read(control, &order, sizeof(order));
        if (bytes == (ssize_t)sizeof(order)) {
            take_order(&charge, &order);
        } else if (bytes == 0) {
            end_group(&charge);
            _exit(0);
        }
    }
}

/* The standard three become /dev/null, so that nothing else ever gets their numbers. */
static void let_go_of_descriptors(const struct guard *guard)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd <= guard->inherited_fd_max; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (flags < 0 || (flags & FD_CLOEXEC))
            continue;
        if (fd > STDERR_FILENO || null_fd < 0)
            close(fd);
        else
            dup3(null_fd, fd, O_CLOEXEC);
    }
    for (size_t i = 0; i < GUARD_OWN_FDS; i++) {
        if (guard->own_fds[i] > STDERR_FILENO)
            close(guard->own_fds[i]);
    }
}

_Noreturn static void be_guard(const struct guard *guard, const struct order *first, int control,
                               int ready)
{
    sigset_t all;
    int status;
    ssize_t written;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    let_go_of_descriptors(guard);

    status = hf_client_stand_by(guard->client);
    prctl(PR_SET_NAME, "holdfast-guard"); /* who sees the name may rely on it */
    written = write(ready, &status, sizeof(status));
    close(ready);
    if (written != (ssize_t)sizeof(status) || (status != HF_OK && status != HF_EUNSUPPORTED))
        _exit(1);
    listen_to(control, first);
}

/* The guard's first word is what hf_client_stand_by() answered. */
static int hear_ready(int ready)
{
    int status;
    ssize_t bytes;

    do {
        bytes = read(ready, &status, sizeof(status));
    } while (bytes < 0 && errno == EINTR);
    return bytes == (ssize_t)sizeof(status) ? status : HF_ESYSTEM;
}

int guard_start(struct guard *guard, pid_t group, uint64_t kill_at_ns)
{
    struct order first = { .group = group, .kill_at_ns = kill_at_ns };
    int control[2];
    int ready[2];
    pid_t pid;

    assert(guard->pid == 0);

    if (pipe2(control, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(ready, O_CLOEXEC) != 0) {
        close(control[0]);
        close(control[1]);
        return errno;
    }
    fcntl(control[1], F_SETFL, O_NONBLOCK); /* a guard that was stopped must not stop us */

    pid = fork();
    if (pid == 0) {
        close(control[1]);
        close(ready[0]);
        be_guard(guard, &first, control[0], ready[1]);
    }
    close(control[0]);
    close(ready[1]);
    if (pid < 0) {
        close(control[1]);
        close(ready[0]);
        return EAGAIN;
    }
    guard->pid = pid;
    guard->control = control[1];
    guard->stand_by = hear_ready(ready[0]);
    close(ready[0]);
    if (guard->stand_by == HF_OK || guard->stand_by == HF_EUNSUPPORTED)
        return 0;
    guard_finish(guard);
    return guard->stand_by;
}

void guard_tell(const struct guard *guard, pid_t group, uint64_t kill_at_ns)
{
    struct order order = { .group = group, .kill_at_ns = kill_at_ns };

    assert(guard->pid > 0 && group > 1);

    /* A dead guard is seen by its SIGCHLD; a stopped one has not read the last order either. */
    if (write(guard->control, &order, sizeof(order)) < 0)
        return;
}

void guard_died(struct guard *guard)
{
    assert(guard->pid > 0);

    close(guard->control);
    guard->pid = 0;
}

/* Killed rather than asked: it may have been stopped, and then it would not hear. */
void guard_finish(struct guard *guard)
{
    if (guard->pid == 0)
        return;
    kill(guard->pid, SIGKILL);
    waitpid(guard->pid, NULL, 0);
    guard_died(guard);
}
