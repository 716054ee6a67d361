/* news.c: what has happened since we last looked?
 *
 * Others raise a word in our session when something about our claims has changed: then those that
 * changed are looked at (watch.c), and what the caller does not know yet is told. A pidfd in the
 * epoll set becomes readable when the process of a peer has ended: then the lines in which we stand
 * behind it are looked at. And some things come with time: the end of a lease, ours or that of the
 * one ahead; a look at peers that cannot be watched; the safety net (net.c).
 *
 * What can go wrong: a process has ended, and yet its sign of life is there: it is looked at again
 * soon. A line cannot be looked at now (somebody is stopped inside its guard): so is its claim. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/embedded/embedded.h"

#define EVENTS_MAX 64

/* --- news --- */

int hf__news_check(struct hf__embedded *conn, struct hf__stake *stake)
{
    struct hf__ticket ticket = stake->ticket;
    bool was_waiting = stake->waiting;
    bool was_told = stake->cause != NULL;
    const char *cause = NULL;
    int status = hf__outbox_reserve(conn, 1);

    if (status < 0)
        return status;
    ticket.kind = HF__REQUEST_NONE;
    ticket.sent_ns = conn->now_ns;
    status = hf__watch_refresh(conn, stake, &cause);
    if (status < 0 && stake->node != 0)
        hf__watch_again(conn, stake);
    if (status < 0)
        return status;
    if (status == 0 && !was_told)
        hf__keep_answer_gone(conn, &ticket, false, cause);
    if (status > 0 && was_waiting && !stake->waiting)
        hf__keep_answer_granted(conn, stake, &ticket, hf__watch_crowded(conn, stake));
    return HF_OK;
}

/* First at the one ahead, who may have made room without telling; then what became of ours. */
static int look_and_check(struct hf__embedded *conn, struct hf__stake *stake, bool death)
{
    int status = hf__watch_look(conn, stake, death);

    return status == HF_OK ? hf__news_check(conn, stake) : status;
}

static int check_if_changed(struct hf__embedded *conn, struct hf__stake *stake)
{
    const struct hf__node_cell *cell = hf__table_node(&conn->table, stake->node);
    uint32_t notice = __atomic_load_n(&cell->notice, __ATOMIC_ACQUIRE);
    uint64_t state = hf__table_load(&cell->state);
    bool was_waiting = stake->waiting;
    uint32_t noticed = stake->seen_notice;

    if (notice == noticed && state == stake->seen_state)
        return HF_OK;
    stake->seen_notice = notice;
    stake->seen_state = state;
    if (notice != noticed && (!was_waiting || (state & 3u) == HF__NODE_WAITING))
        return look_and_check(conn, stake, false);
    return hf__news_check(conn, stake);
}

static int check_list(struct hf__embedded *conn, struct hf__list *list)
{
    HF__LIST_FOR(place, list)
    {
        struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
        int status = stake->node ? check_if_changed(conn, stake) : hf__news_check(conn, stake);

        if (status < 0)
            return status;
    }
    return HF_OK;
}

int hf__news_fetch(struct hf__embedded *conn)
{
    uint64_t news = __atomic_load_n(&conn->session->news, __ATOMIC_SEQ_CST);
    uint64_t holding_news;
    uint64_t fast_news;
    int status;

    if (news == conn->news_seen)
        return HF_OK;
    holding_news = __atomic_load_n(&conn->session->holding_news, __ATOMIC_SEQ_CST);
    fast_news = __atomic_load_n(&conn->session->fast_news, __ATOMIC_SEQ_CST);
    status = check_list(conn, &conn->waiting);
    if (status == HF_OK && holding_news != conn->holding_news_seen)
        status = check_list(conn, &conn->holding);
    if (status == HF_OK && fast_news != conn->fast_news_seen)
        status = check_list(conn, &conn->fast);
    if (status < 0)
        return status;
    conn->news_seen = news;
    conn->holding_news_seen = holding_news;
    conn->fast_news_seen = fast_news;
    return HF_OK;
}

/* Those that were told last time: the caller knows by now, so the next one may come in. */
int hf__news_leave(struct hf__embedded *conn)
{
    HF__LIST_FOR(place, &conn->leaving)
    {
        struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
        const char *cause;
        int status = hf__keep_leave(conn, stake, &cause);

        if (status < 0)
            return status;
    }
    return HF_OK;
}

/* --- deaths --- */

static int mourn_in(struct hf__embedded *conn, struct hf__list *list, uint32_t owner)
{
    HF__LIST_FOR(place, list)
    {
        struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
        int status;

        if (stake->watched != owner)
            continue;
        status = look_and_check(conn, stake, true);
        if (status < 0)
            return status;
    }
    return HF_OK;
}

static int mourn(struct hf__embedded *conn, uint32_t owner)
{
    struct hf__peer *peer;
    int status = mourn_in(conn, &conn->waiting, owner);

    if (status == HF_OK)
        status = mourn_in(conn, &conn->holding, owner);
    hf__sweep_add(conn, owner);
    peer = hf__peer_find(conn, owner);
    if (peer && peer->needed == 0)
        hf__peer_forget(conn, peer);
    else if (peer)
        hf__peer_poll(conn, peer); /* we could not finish: come back */
    return status;
}

/* A pidfd says that a process has ended. */
static int heed(struct hf__embedded *conn, struct hf__peer *peer)
{
    uint32_t owner = peer->owner;
    int64_t pid = peer->pid;
    int dead;

    if (owner == HF__OWNER_NONE || peer->death_fd < 0)
        return HF_OK; /* an event of before */
    dead = hf__peer_check(conn, peer);
    if (dead > 0)
        return mourn(conn, owner);
    if (peer->death_fd >= 0 && peer->pid == pid)
        hf__peer_poll(conn, peer); /* ended, and yet its lock is there: look again soon */
    return HF_OK;
}

static void drain_bell(struct hf__embedded *conn)
{
    char bytes[256];
    ssize_t got = read(conn->bell_fd, bytes, sizeof(bytes));

    (void)got; /* what it says stands in the table */
}

int hf__news_events(struct hf__embedded *conn)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(conn->epoll_fd, events, EVENTS_MAX, 0);
    int status = HF_OK;

    if (count < 0 && errno != EINTR)
        return hf__error_set(conn->base.error, HF_ESYSTEM,
                             "epoll_wait: descriptor closed by the program?");
    for (int i = 0; i < count && status == HF_OK; i++) {
        uint32_t which = events[i].data.u32;

        if (which == 0)
            drain_bell(conn);
        else if (which <= conn->peers_most)
            status = heed(conn, &conn->peers[which - 1]);
    }
    return status;
}

/* --- time --- */

static int poll_in(struct hf__embedded *conn, struct hf__list *list, uint32_t *out_count)
{
    HF__LIST_FOR(place, list)
    {
        struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
        int status;

        if (stake->watched == HF__OWNER_NONE || stake->watch ||
            hf__session_is_ours(conn, stake->watched))
            continue;
        (*out_count)++;
        status = look_and_check(conn, stake, false);
        if (status < 0)
            return status;
    }
    return HF_OK;
}

/* Those that cannot be watched. */
static int poll_peers(struct hf__embedded *conn)
{
    uint32_t count = 0;
    int status = HF_OK;

    for (uint32_t i = 0; i < conn->peers_most && status == HF_OK; i++) {
        struct hf__peer *peer = &conn->peers[i];

        if (peer->owner == HF__OWNER_NONE || !peer->polled)
            continue;
        if (peer->needed == 0) {
            hf__peer_forget(conn, peer);
            continue;
        }
        count++;
        if (hf__peer_check(conn, peer) > 0)
            status = mourn(conn, peer->owner);
    }
    if (status == HF_OK)
        status = poll_in(conn, &conn->waiting, &count);
    if (status == HF_OK)
        status = poll_in(conn, &conn->holding, &count);
    conn->poll_ns = count > 0 ? conn->now_ns + HF__POLL_NS : HF__NEVER;
    return status;
}

/* Somebody's time is over: ours, or that of the one ahead. */
static int end_in(struct hf__embedded *conn, struct hf__list *list)
{
    HF__LIST_FOR(place, list)
    {
        struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
        int status;

        if (stake->ends_ns == 0 || stake->ends_ns > conn->now_ns)
            continue;
        stake->ends_ns = 0;
        status = look_and_check(conn, stake, false);
        if (status < 0)
            return status;
    }
    return HF_OK;
}

static void note_ends(struct hf__embedded *conn, struct hf__list *list)
{
    HF__LIST_FOR(place, list)
    {
        const struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);

        if (stake->ends_ns != 0)
            hf__embedded_due(conn, stake->ends_ns);
    }
}

int hf__news_timers(struct hf__embedded *conn)
{
    int status = end_in(conn, &conn->waiting);

    if (status == HF_OK)
        status = end_in(conn, &conn->holding);
    if (status == HF_OK && conn->poll_ns <= conn->now_ns)
        status = poll_peers(conn);
    if (status == HF_OK && conn->net_ns <= conn->now_ns)
        status = hf__net_look(conn);

    conn->due_ns = conn->poll_ns < conn->net_ns ? conn->poll_ns : conn->net_ns;
    note_ends(conn, &conn->waiting);
    note_ends(conn, &conn->holding);
    return status;
}
