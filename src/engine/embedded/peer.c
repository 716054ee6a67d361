/* peer.c: how is another process watched and woken?
 *
 * A peer is a session of another process that we had to do with. It is watched through a pidfd in
 * our epoll set, which becomes readable when the process has ended; and it is woken by a byte into
 * its bell, but only if it has said that it is going to sleep. Both descriptors stay open, so that
 * claims that meet again and again cost no system call; those used least recently give way.
 *
 * The pid comes from the record lock (F_GETLK), not from the table; and since it could have been
 * given to another process before the pidfd was made, the lock is asked for once more afterwards.
 *
 * What can go wrong: pidfds do not exist (Linux before 5.3), or the process is in another pid
 * namespace: then we listen at its sign of life, a FIFO, which hangs up when it ends. A fork of it
 * may keep that open, so it is looked at every 100 ms as well. No descriptor or place is left: it
 * is only looked at. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define PIDFD_TRIES_MAX 4u

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* --- the cache --- */

static void close_watch(struct hf__embedded *conn, struct hf__peer *peer)
{
    if (peer->death_fd < 0)
        return;
    /* By name: a fork in another thread may keep the description, and then closing is not
     * enough. */
    (void)epoll_ctl(conn->epoll_fd, EPOLL_CTL_DEL, peer->death_fd, NULL);
    /* We stand by for it since: closing its sign of life would take ours away with it. */
    if (!peer->polled || !hf__session_is_ours(conn, peer->owner))
        close(peer->death_fd);
    peer->death_fd = -1;
}

void hf__peer_forget(struct hf__embedded *conn, struct hf__peer *peer)
{
    assert(peer->needed == 0);

    close_watch(conn, peer);
    if (peer->bell_fd >= 0)
        close(peer->bell_fd);
    conn->peer_of[HF__OWNER_SLOT(peer->owner)] = 0;
    *peer = (struct hf__peer){ .bell_fd = -1, .death_fd = -1 };
}

void hf__peer_close_all(struct hf__embedded *conn)
{
    for (uint32_t i = 0; i < conn->peers_most; i++) {
        struct hf__peer *peer = &conn->peers[i];

        if (peer->owner == HF__OWNER_NONE)
            continue;
        peer->needed = 0;
        hf__peer_forget(conn, peer);
    }
}

struct hf__peer *hf__peer_find(struct hf__embedded *conn, uint32_t owner)
{
    uint32_t slot = HF__OWNER_SLOT(owner);
    struct hf__peer *peer;

    if (slot == 0 || slot > HF__SESSIONS_MAX || conn->peer_of[slot] == 0)
        return NULL;
    peer = &conn->peers[conn->peer_of[slot] - 1];
    if (peer->owner != owner)
        return NULL;
    peer->used = ++conn->calls;
    return peer;
}

/* A place, perhaps that of the one used least recently; NULL: all are needed. */
static struct hf__peer *find_place(struct hf__embedded *conn)
{
    struct hf__peer *oldest = NULL;

    for (uint32_t i = 0; i < conn->peers_most; i++) {
        struct hf__peer *peer = &conn->peers[i];

        if (peer->owner == HF__OWNER_NONE)
            return peer;
        if (peer->needed == 0 && (!oldest || peer->used < oldest->used))
            oldest = peer;
    }
    if (oldest)
        hf__peer_forget(conn, oldest);
    return oldest;
}

static struct hf__peer *find_or_make(struct hf__embedded *conn, uint32_t owner)
{
    uint32_t slot = HF__OWNER_SLOT(owner);
    struct hf__peer *peer = hf__peer_find(conn, owner);
    struct hf__peer *before;

    if (peer || slot == 0 || slot > HF__SESSIONS_MAX)
        return peer;
    if (conn->peer_of[slot] != 0) {
        before = &conn->peers[conn->peer_of[slot] - 1];
        if (before->needed > 0)
            return NULL; /* an earlier session in that slot: its death is still to be worked on */
        hf__peer_forget(conn, before);
    }
    peer = find_place(conn);
    if (!peer)
        return NULL;
    peer->owner = owner;
    peer->used = ++conn->calls;
    conn->peer_of[slot] = (uint16_t)(peer - conn->peers + 1);
    return peer;
}

/* --- watching --- */

static int open_pidfd(int64_t pid)
{
    int fd;

    if (pid <= 0 || hf__death_without_pidfd())
        return -1;
    fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* it is anyway; older kernels' word for it */
    return fd;
}

static bool add_watch(struct hf__embedded *conn, struct hf__peer *peer, int pid_fd, int64_t pid)
{
    struct epoll_event event = { .events = EPOLLIN };

    event.data.u32 = (uint32_t)(peer - conn->peers) + 1;
    if (epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, pid_fd, &event))
        return false;
    peer->death_fd = pid_fd;
    peer->pid = pid;
    peer->polled = false;
    return true;
}

static void poll_soon(struct hf__embedded *conn)
{
    if (conn->poll_ns == HF__NEVER)
        conn->poll_ns = conn->now_ns + HF__POLL_NS;
    hf__embedded_due(conn, conn->poll_ns);
}

/* 1: dead. 0: polled from now on, and listened to if possible. */
static int listen_to(struct hf__embedded *conn, struct hf__peer *peer)
{
    int fd = hf__session_open_life(conn, peer->owner);
    /* Only now: what had hung up before we came does not do so again. */
    int dead = hf__session_dead(conn, peer->owner, NULL);

    if (fd >= 0 && (dead != 0 || !add_watch(conn, peer, fd, 0)))
        close(fd);
    if (dead != 0)
        return dead;
    peer->polled = true;
    poll_soon(conn);
    return 0;
}

/* 1: dead. 0: watched, or polled from now on. */
static int start_watch(struct hf__embedded *conn, struct hf__peer *peer)
{
    for (uint32_t tries = 0; tries < PIDFD_TRIES_MAX; tries++) {
        int64_t pid = 0;
        int64_t again = 0;
        int fd;
        int dead = hf__session_dead(conn, peer->owner, &pid);

        if (dead != 0)
            return dead;
        fd = open_pidfd(pid);
        if (fd < 0)
            break;
        dead = hf__session_dead(conn, peer->owner, &again);
        if (dead == 0 && again == pid && add_watch(conn, peer, fd, pid))
            return 0;
        close(fd);
        if (dead != 0)
            return dead;
    }
    return listen_to(conn, peer);
}

int hf__peer_watch(struct hf__embedded *conn, uint32_t owner, struct hf__peer **out_peer)
{
    struct hf__peer *peer;
    int dead;

    *out_peer = NULL;
    if (owner == conn->owner)
        return 0;
    dead = hf__session_gone(conn, owner);
    if (dead != 0 || hf__session_is_ours(conn, owner))
        return dead;

    peer = find_or_make(conn, owner);
    if (!peer)
        dead = hf__session_dead(conn, owner, NULL); /* no place left: polled without one */
    else if (peer->death_fd < 0 && !peer->polled)
        dead = start_watch(conn, peer);
    if (!peer || dead < 0)
        poll_soon(conn);
    if (dead == 0)
        *out_peer = peer;
    return dead;
}

int hf__peer_check(struct hf__embedded *conn, struct hf__peer *peer)
{
    int64_t pid = 0;
    int dead = hf__session_dead(conn, peer->owner, &pid);

    if (dead != 0 || peer->polled)
        return dead;
    if (pid == peer->pid)
        return 0;
    /* Another process holds the sign of life now: one that stands by. */
    close_watch(conn, peer);
    return start_watch(conn, peer);
}

void hf__peer_poll(struct hf__embedded *conn, struct hf__peer *peer)
{
    close_watch(conn, peer);
    peer->polled = true;
    poll_soon(conn);
}

/* --- waking --- */

static int open_bell(struct hf__embedded *conn, uint32_t owner)
{
    char name[64];

    if (hf__session_name(conn, owner, "", name) < 0)
        return -1;
    /* Both ways, so that a bell without a reader is no broken pipe. */
    return hf__directory_file(conn, name, O_RDWR, S_IFIFO);
}

void hf__peer_ring(struct hf__embedded *conn, uint32_t owner)
{
    struct hf__session_cell *cell = hf__session_cell(conn, owner);
    struct hf__peer *peer;
    int fd = -1;
    ssize_t written;

    if (!cell || hf__session_gone(conn, owner) != 0)
        return;
    if (__atomic_exchange_n(&cell->polling, 0, __ATOMIC_SEQ_CST) != 1)
        return; /* it is awake, and will look before it sleeps */

    peer = find_or_make(conn, owner);
    if (peer && peer->bell_fd < 0)
        peer->bell_fd = open_bell(conn, owner);
    fd = peer ? peer->bell_fd : open_bell(conn, owner);
    if (fd < 0)
        return; /* it will find out by itself, later */
    written = write(fd, "", 1);
    (void)written; /* a full bell rings already */
    if (!peer)
        close(fd);
}
