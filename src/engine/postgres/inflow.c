/* inflow.c: how much may libpq read?
 *
 * libpq reads as long as there is something, and takes the room that a message says it needs: a
 * server that tells of a gigabyte, and sends faster than we read, is read until memory ends. So we
 * look at what has come before libpq reads it. If that is messages as an honest server sends them,
 * libpq may read; if not, the kernel lets nothing in meanwhile, so that no more is read at a time
 * than was there (it will be sent again), and after so many bytes without an answer in them the
 * connection ends.
 *
 * What can go wrong: more came in the moment between our look and libpq's, and was read unseen.
 * Then we do not know where messages begin, until an answer was heard: where it ends the next
 * message begins, and if that is not so, what comes does not look like messages. Through TLS, and
 * by a Unix socket, nothing of this can be seen: then what is no answer yet may be anything. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "engine/postgres/postgres.h"

#define LOOK_BYTES        16384
#define ROOM_BYTES        8192 /* libpq has at least so much when it reads */
#define UNHEARD_BYTES_MAX (1u << 20)
#define MESSAGE_BYTES_MAX (1u << 20) /* no honest one has a tenth of it */
#define COUNTS_MAX        3

/* --- counting --- */

size_t hf__inflow_waiting(const struct hf__postgres *conn)
{
    int waiting = 0;

    (void)ioctl(PQsocket(conn->pg), FIONREAD, &waiting);
    return waiting > 0 ? (size_t)waiting : 0;
}

/* All bytes of this connection; false: that cannot be told. */
static bool count_received(const struct hf__postgres *conn, uint64_t *out_bytes)
{
    struct tcp_info info;
    socklen_t info_bytes = sizeof(info);

    if (getsockopt(PQsocket(conn->pg), IPPROTO_TCP, TCP_INFO, &info, &info_bytes) < 0 ||
        info_bytes < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(uint64_t))
        return false;
    *out_bytes = info.tcpi_bytes_received;
    return true;
}

/* Of these, so many were read. If as much waits before and behind the count, nothing came in
 * between. */
static bool count_read(const struct hf__postgres *conn, uint64_t *out_bytes)
{
    for (int i = 0; i < COUNTS_MAX; i++) {
        size_t waiting = hf__inflow_waiting(conn);
        uint64_t received;

        if (!count_received(conn, &received) || received < waiting)
            return false;
        if (hf__inflow_waiting(conn) == waiting) {
            *out_bytes = received - waiting;
            return true;
        }
    }
    return false;
}

void hf__inflow_begin(struct hf__postgres *conn)
{
    uint64_t received;

    conn->inflow = (struct hf__inflow){ 0 };
    conn->inflow.is_hidden = PQsslInUse(conn->pg) || !count_received(conn, &received);
}

void hf__inflow_heard(struct hf__postgres *conn)
{
    conn->inflow.unheard_bytes = 0;
}

/* --- looking --- */

/* false: it tells of a message that cannot be, and there is no way on from there. */
static bool walk(struct hf__inflow *inflow, const unsigned char *bytes, size_t count)
{
    assert(inflow->head_bytes < sizeof(inflow->head));

    while (count > 0) {
        bool is_head = inflow->left == 0;
        size_t wanted = is_head ? sizeof(inflow->head) - inflow->head_bytes : inflow->left;
        size_t part = wanted < count ? wanted : count;
        uint32_t length;

        if (is_head)
            memcpy(inflow->head + inflow->head_bytes, bytes, part);
        bytes += part;
        count -= part;
        inflow->left -= is_head ? 0 : part;
        inflow->head_bytes += is_head ? part : 0;
        if (inflow->head_bytes < sizeof(inflow->head))
            continue;
        memcpy(&length, inflow->head + 1, sizeof(length)); /* behind its kind; it counts itself */
        length = ntohl(length);
        if (length < sizeof(length) || length > MESSAGE_BYTES_MAX)
            return false;
        inflow->head_bytes = 0;
        inflow->left = length - sizeof(length);
    }
    return true;
}

/* The last answer ends where the next message begins. */
static void assume(struct hf__postgres *conn)
{
    struct hf__inflow *inflow = &conn->inflow;

    if (inflow->is_known || inflow->unheard_bytes > 0)
        return;
    inflow->left = inflow->head_bytes = 0;
    inflow->is_known = count_read(conn, &inflow->read_bytes);
}

/* libpq has read: just what was seen, or a part of it, or more. */
static void settle(struct hf__postgres *conn, const unsigned char *bytes, size_t count)
{
    struct hf__inflow *inflow = &conn->inflow;
    uint64_t seen_bytes = inflow->read_bytes + count;
    uint64_t read_bytes = 0;
    bool is_all = count <= ROOM_BYTES && count_received(conn, &read_bytes) &&
                  read_bytes == seen_bytes; /* and nothing else came */

    inflow->is_known = is_all || (count_read(conn, &read_bytes) && read_bytes <= seen_bytes &&
                                  read_bytes >= inflow->read_bytes);
    if (!inflow->is_known)
        return;
    (void)walk(inflow, bytes, (size_t)(read_bytes - inflow->read_bytes));
    inflow->read_bytes = read_bytes;
}

/* --- reading --- */

static bool read_behind_gate(struct hf__postgres *conn)
{
    struct sock_filter nothing[] = { { BPF_RET | BPF_K, 0, 0, 0 } };
    struct sock_fprog gate = { .len = 1, .filter = nothing };
    bool is_read;

    (void)setsockopt(PQsocket(conn->pg), SOL_SOCKET, SO_ATTACH_FILTER, &gate, sizeof(gate));
    conn->inflow.unheard_bytes += hf__inflow_waiting(conn);
    is_read = PQconsumeInput(conn->pg) == 1;
    if (PQsocket(conn->pg) >= 0)
        (void)setsockopt(PQsocket(conn->pg), SOL_SOCKET, SO_DETACH_FILTER, &gate, sizeof(gate));
    return is_read;
}

/* Nothing came, nor the end. Through TLS that cannot be told: libpq may have more than we see. */
static bool is_silent(const struct hf__postgres *conn)
{
    char byte;

    return !PQsslInUse(conn->pg) &&
           recv(PQsocket(conn->pg), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* If nothing was there, libpq must not look: what comes in that moment it would read uncounted. */
static bool read_hidden(struct hf__postgres *conn)
{
    size_t waiting = hf__inflow_waiting(conn);

    if (waiting == 0 && is_silent(conn))
        return true;
    if (conn->inflow.unheard_bytes > 0)
        return read_behind_gate(conn);
    conn->inflow.unheard_bytes = waiting > 0 ? waiting : hf__inflow_waiting(conn);
    return PQconsumeInput(conn->pg) == 1;
}

static bool read_open(struct hf__postgres *conn)
{
    struct hf__inflow ahead;
    unsigned char bytes[LOOK_BYTES];
    ssize_t got = recv(PQsocket(conn->pg), bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    size_t count = got > 0 ? (size_t)got : 0;

    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return true;
    assume(conn);
    ahead = conn->inflow;
    if (!conn->inflow.is_known || !walk(&ahead, bytes, count)) {
        conn->inflow.is_known = false;
        return read_behind_gate(conn);
    }
    if (PQconsumeInput(conn->pg) != 1)
        return false;
    conn->inflow.unheard_bytes += count;
    settle(conn, bytes, count);
    return true;
}

bool hf__inflow_read(struct hf__postgres *conn)
{
    bool is_read = conn->inflow.is_hidden ? read_hidden(conn) : read_open(conn);

    if (is_read && conn->inflow.unheard_bytes > UNHEARD_BYTES_MAX)
        hf__postgres_end(conn, hf__error_set(conn->base.error, HF_EPROTOCOL,
                                             "%s: the server sends without end", conn->peer));
    return is_read;
}
