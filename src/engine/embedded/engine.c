/* engine.c: the embedded engine behind the seam: one machine, no server.
 *
 * open() finds or makes the table, takes a session in it, and sweeps up after the dead. submit()
 * does what is asked at once, and notes the reply down; advance() hands the replies out. If there
 * is none, it looks for news: a word that others raise, an epoll descriptor (only after pollset(),
 * because that costs a system call), and timers. pollset() offers that one descriptor, and says in
 * the table that we are about to sleep, so that others ring.
 *
 * What can go wrong: the table is damaged, or others have declared us dead: every request is
 * answered, and the connection is DOWN; opening it anew makes a new session, which holds nothing. A
 * guard whose owner is stopped: that is no reason to go down, we come again. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/embedded/embedded.h"

#define RETRY_NS        (10 * HF__NS_PER_MS)
#define PEERS_MIN       4u
#define FDS_PER_PEER    2u
#define SHARE_OF_FDS    4u
#define JANITOR_SLOT    HF__SESSIONS_MAX
#define VOLATILE_LOSSES ((uint32_t)HF_PROMISE_DURABLE | (uint32_t)HF_PROMISE_FENCE)

extern const struct hf__engine hf__embedded_engine;

static struct hf__embedded *embedded_of(struct hf__conn *conn)
{
    return (struct hf__embedded *)conn;
}

/* --- opening and closing --- */

static void reset(struct hf__embedded *conn)
{
    struct hf__conn base = conn->base;

    memset(conn, 0, sizeof(*conn));
    conn->base = base;
    conn->table.directory_fd = -1;
    conn->table.fd = -1;
    conn->bell_fd = -1;
    conn->life_fd = -1;
    conn->epoll_fd = -1;
    conn->guard = HF__GUARDS;
    conn->due_ns = HF__NEVER;
    conn->net_ns = HF__NEVER;
    conn->poll_ns = HF__NEVER;
    hf__list_init(&conn->fast);
    hf__list_init(&conn->waiting);
    hf__list_init(&conn->holding);
    hf__list_init(&conn->leaving);
    hf__list_init(&conn->stakes.idle);
    for (uint32_t i = 0; i < HF__PEERS_MAX; i++)
        conn->peers[i] = (struct hf__peer){ .bell_fd = -1, .death_fd = -1 };
}

static int check_options(struct hf__embedded *conn, const struct hf__url *url)
{
    for (size_t i = 0; i < url->option_count; i++) {
        if (strcmp(url->options[i].key, "recipe") != 0)
            return hf__error_set(conn->base.error, HF_EURL, "file: has no option '%s'",
                                 url->options[i].key);
    }
    if (url->server_count > 0)
        return hf__error_set(conn->base.error, HF_EURL,
                             "file: is on this machine: file:DIR or file:///DIR, without a host");
    return HF_OK;
}

static uint32_t count_peers(void)
{
    struct rlimit limit;
    uint64_t most = HF__PEERS_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur / SHARE_OF_FDS / FDS_PER_PEER < most)
        most = limit.rlim_cur / SHARE_OF_FDS / FDS_PER_PEER;
    return most < PEERS_MIN ? PEERS_MIN : (uint32_t)most;
}

static int open_epoll(struct hf__embedded *conn)
{
    struct epoll_event event = { .events = EPOLLIN, .data = { .u32 = 0 } };

    conn->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (conn->epoll_fd < 0 || epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, conn->bell_fd, &event))
        return hf__error_set(conn->base.error, HF_ESYSTEM, "epoll: %s", strerror(errno));
    return HF_OK;
}

/* Under init.lock. */
static int enter(struct hf__embedded *conn, const char *purpose)
{
    int lock_fd;
    int status = hf__directory_lock(conn, &lock_fd);

    if (status < 0)
        return status;
    if (!conn->table.map)
        status = hf__table_open(conn);
    if (status == HF_OK) {
        hf__sweep_files(conn);
        status = hf__session_open(conn, purpose);
    }
    hf__directory_unlock(lock_fd);
    return status;
}

/* All slots but the last are taken, perhaps by the dead: sweep, and come in by the front door. */
static int enter_again(struct hf__embedded *conn, const char *purpose)
{
    int status;

    if (HF__OWNER_SLOT(conn->owner) != JANITOR_SLOT)
        return HF_OK;
    hf__session_leave(conn);
    hf__session_close(conn);
    status = enter(conn, purpose);
    if (status < 0 || HF__OWNER_SLOT(conn->owner) != JANITOR_SLOT)
        return status;
    /* All others live. Nobody may stay here, or the next one could not sweep. */
    hf__session_leave(conn);
    hf__session_close(conn);
    return hf__table_grow_sessions(conn, HF__SESSIONS_MAX + 1);
}

static void let_go(struct hf__embedded *conn)
{
    hf__session_close(conn);
    hf__peer_close_all(conn);
    if (conn->epoll_fd >= 0)
        close(conn->epoll_fd);
    hf__table_close(conn);
    if (conn->table.directory_fd >= 0)
        close(conn->table.directory_fd);
    hf__stakes_done(conn);
    hf__outbox_done(conn);
}

/* Of ours: locks, nodes. False: something is left, for those who sweep up after us. */
static bool release_all(struct hf__embedded *conn)
{
    struct hf__list *lists[] = { &conn->fast, &conn->waiting, &conn->holding, &conn->leaving };
    bool clean = true;

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        HF__LIST_FOR(place, lists[i])
        {
            struct hf__stake *stake = HF__LIST_ENTRY(place, struct hf__stake, place);
            const char *cause;

            if (hf__keep_release_fast(conn, stake))
                continue;
            /* After one failure no more is tried: each could take as long as a guard is stuck. */
            clean = clean && hf__keep_leave(conn, stake, &cause) >= 0;
        }
    }
    if (clean)
        hf__node_free_spare(conn);
    return clean;
}

static void close_conn(struct hf__conn *base)
{
    struct hf__embedded *conn = embedded_of(base);
    bool was_open = conn->opened;

    if (!was_open)
        return;
    conn->opened = false;
    hf__listing_done(conn);
    hf__breaking_done(conn);
    if (hf__session_self(conn) == HF_OK && release_all(conn)) {
        if (!hf__session_tidy(conn))
            hf__sweep_self(conn);
        hf__session_leave(conn);
    }
    let_go(conn);
    conn->base.state = HF__CONN_DOWN;
}

static int open_all(struct hf__embedded *conn, const struct hf__conn_options *options)
{
    int status = check_options(conn, options->url);

    if (status == HF_OK)
        status = hf__directory_open(conn, options->url);
    if (status == HF_OK)
        status = enter(conn, options->purpose);
    if (status < 0)
        return status;
    hf__sweep_look(conn);
    status = enter_again(conn, options->purpose);
    if (status < 0)
        return status;
    return open_epoll(conn);
}

static int open_conn(struct hf__conn *base, const struct hf__conn_options *options)
{
    struct hf__embedded *conn = embedded_of(base);
    int status;

    close_conn(base);
    reset(conn);
    conn->now_ns = options->now_ns;
    conn->peers_most = count_peers();
    if (gethostname(conn->host, sizeof(conn->host)))
        conn->host[0] = '\0';
    conn->host[sizeof(conn->host) - 1] = '\0';

    status = open_all(conn, options);
    if (status < 0) {
        if (conn->session)
            hf__session_leave(conn); /* nothing was asked for yet */
        let_go(conn);
        conn->base.state = HF__CONN_DOWN;
        return status;
    }
    conn->opened = true;
    conn->node_hint = HF__OWNER_SLOT(conn->owner) * 97u;
    conn->base.promises = conn->base.recipe->promises;
    if (conn->table.is_volatile)
        conn->base.promises &= ~VOLATILE_LOSSES;
    conn->base.state = HF__CONN_UP;
    return HF_OK;
}

/* --- requests --- */

/* Something is due earlier than whoever sleeps on our descriptor was told: wake him up. */
static void announce_due(struct hf__embedded *conn)
{
    ssize_t written;

    if (conn->due_ns >= conn->told_ns)
        return;
    conn->told_ns = conn->due_ns;
    if (__atomic_exchange_n(&conn->session->polling, 0, __ATOMIC_SEQ_CST) != 1)
        return;
    written = write(conn->bell_fd, "", 1);
    (void)written; /* a full bell rings already */
}

static int dispatch(struct hf__embedded *conn, const struct hf__request *request)
{
    switch (request->ticket.kind) {
    case HF__REQUEST_CLAIM:
        return hf__ask_claim(conn, request);
    case HF__REQUEST_INSPECT:
        return hf__keep_inspect(conn, request);
    case HF__REQUEST_RENEW:
        return hf__keep_renew(conn, request);
    case HF__REQUEST_RELEASE:
        return hf__keep_release(conn, request);
    case HF__REQUEST_DOWNGRADE:
        return hf__keep_downgrade(conn, request);
    case HF__REQUEST_BREAK:
        return hf__breaking_ask(conn, request);
    case HF__REQUEST_LIST:
        return hf__listing_ask(conn, request);
    case HF__REQUEST_SURVEY:
    case HF__REQUEST_ADMIT:
    case HF__REQUEST_FOUND:
    case HF__REQUEST_NONE:
        break;
    }
    assert(!"a request that does not exist");
    return HF_EINVAL;
}

static int submit(struct hf__conn *base, const struct hf__request *request)
{
    struct hf__embedded *conn = embedded_of(base);
    int status;

    assert(conn->opened && conn->base.state == HF__CONN_UP);

    if (request->ticket.sent_ns > conn->now_ns)
        conn->now_ns = request->ticket.sent_ns;
    if (request->prompt)
        return request->ticket.kind == HF__REQUEST_CLAIM ? hf__ask_at_once(conn, request)
                                                         : hf__keep_give_at_once(conn, request);
    status = hf__outbox_reserve(conn, 2);
    if (status < 0)
        return status;
    status = dispatch(conn, request);
    announce_due(conn);
    return status;
}

/* --- replies --- */

/* Nothing can have happened: the usual case, and it must cost next to nothing. */
static bool is_quiet(const struct hf__embedded *conn)
{
    return __atomic_load_n(&conn->session->news, __ATOMIC_SEQ_CST) == conn->news_seen &&
           hf__table_load(&conn->session->state) == conn->session_word && !conn->slept &&
           conn->now_ns < conn->due_ns && conn->failure == 0 && !conn->breakings &&
           !conn->listings && conn->sweep_count == 0 && hf__list_empty(&conn->leaving);
}

/* Whoever sleeps on our descriptor may sleep on: the ring that was meant for him is fetched here,
 * by another thread. So the bell must ring for what comes next, and for what is due before he wakes
 * by himself; for nothing else, or he who fetched it would ring for himself, again and again. */
static void rearm(struct hf__embedded *conn)
{
    __atomic_store_n(&conn->session->polling, 1, __ATOMIC_SEQ_CST);
    conn->told_ns = conn->polled_ns;
}

/* Everything that may have happened meanwhile. */
static int look_around(struct hf__embedded *conn)
{
    int status = hf__session_self(conn);

    if (status == HF_OK)
        status = hf__news_leave(conn);
    if (status == HF_OK && conn->slept) {
        conn->slept = false;
        status = hf__news_events(conn);
        rearm(conn);
    }
    if (status == HF_OK && conn->now_ns >= conn->due_ns)
        status = hf__news_timers(conn);
    if (status == HF_OK)
        status = hf__news_fetch(conn);
    if (status == HF_OK && conn->breakings)
        status = hf__breaking_check(conn);
    if (status == HF_OK && conn->sweep_count > 0 && conn->outbox.count == 0)
        hf__sweep_run(conn, false);
    return status;
}

/* What is answered when the connection cannot go on. */
static int go_down(struct hf__embedded *conn, int status)
{
    char error[HF__ERROR_BYTES];

    memcpy(error, conn->base.error, sizeof(error));
    close_conn(&conn->base);
    memcpy(conn->base.error, error, sizeof(error));
    return status;
}

static bool is_passing(int status)
{
    return status == HF_EUNREACHABLE || status == HF_ENOMEM;
}

static int advance(struct hf__conn *base, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct hf__embedded *conn = embedded_of(base);
    int status;

    assert(conn->opened && conn->base.state == HF__CONN_UP);

    if (now_ns > conn->now_ns)
        conn->now_ns = now_ns;
    if (hf__outbox_fetch(conn, out_reply))
        return 1;
    if (is_quiet(conn))
        return 0;
    if (conn->failure < 0)
        return go_down(conn, conn->failure);

    status = look_around(conn);
    if (status < 0 && is_passing(status)) {
        conn->due_ns = conn->now_ns + RETRY_NS;
        status = HF_OK;
    }
    if (status < 0) {
        conn->failure = status; /* what is asked must be answered first */
        hf__listing_done(conn);
        hf__breaking_done(conn);
    }
    if (hf__outbox_fetch(conn, out_reply))
        return 1;
    if (conn->failure < 0)
        return go_down(conn, conn->failure);
    announce_due(conn);
    return hf__listing_next(conn, out_reply);
}

static void pollset(struct hf__conn *base, struct hf__pollset *set)
{
    struct hf__embedded *conn = embedded_of(base);

    assert(conn->opened);

    /* First say that we sleep, then look once more: whoever raised the news before he could see
     * that we sleep did not ring. */
    __atomic_store_n(&conn->session->polling, 1, __ATOMIC_SEQ_CST);
    conn->slept = true;
    conn->told_ns = conn->due_ns;
    conn->polled_ns = conn->due_ns;
    (void)hf__pollset_add(set, conn->epoll_fd, POLLIN);
    hf__pollset_until(set, conn->due_ns);
    if (__atomic_load_n(&conn->session->news, __ATOMIC_SEQ_CST) != conn->news_seen)
        hf__pollset_until(set, 0);
}

static int stand_by(const struct hf__conn *base, char error[HF__ERROR_BYTES])
{
    return hf__session_stand_by((const struct hf__embedded *)base, error);
}

/* --- what it is --- */

static const struct hf__recipe queue = {
    .name = "queue",
    .url_forms = "file:DIR",
    .summary =
        "Processes of one machine share a table in memory: first come, first served, without "
        "a server; a dead holder is noticed at once.",
    .caveat =
        "One machine only. A grant ends with its process, not with time, unless it has a fixed "
        "lease or a maximal hold: a stopped (SIGSTOP) holder keeps the lock. No grant can outlive "
        "a "
        "reboot, because no process does; fences keep rising across it, except on a file system "
        "that a reboot empties (tmpfs), where DURABLE and FENCE are withheld. root and other users "
        "have different default directories, so they do not exclude each other unless they name "
        "the "
        "same one. The members of a shared directory's group are trusted not to truncate or forge "
        "the table.",
    .schema = "",
    .pattern = HF__PATTERN_QUEUE,
    .promises = (uint32_t)HF_PROMISE_FENCE | (uint32_t)HF_PROMISE_FAIR |
                (uint32_t)HF_PROMISE_WAKEUP | (uint32_t)HF_PROMISE_SHARED |
                (uint32_t)HF_PROMISE_DURABLE | (uint32_t)HF_PROMISE_CRASH,
    .is_default = true,
    .keeper_listens = true,
    .local_tokens = true,
    .at_hand = true,
};

static const struct hf__recipe *const recipes[] = { &queue, NULL };
static const char *const schemes[] = { "file", NULL };

const struct hf__engine hf__embedded_engine = {
    .name = "embedded",
    .url_schemes = schemes,
    .recipes = recipes,
    .conn_size = sizeof(struct hf__embedded),
    .open = open_conn,
    .close = close_conn,
    .submit = submit,
    .pollset = pollset,
    .advance = advance,
    .stand_by = stand_by,
};
