/* breaking.c: how is a turn taken away?
 *
 * The rule is that the holder knows before the store lets another in. So the turn is only marked as
 * broken, and its session told; the holder's side leaves when its user has heard of it (at once, or
 * when he releases, if he asked for a grace). Whoever waits treats the broken turn as ended after
 * the grace, or after one second if that is longer: a stopped process cannot keep it for ever. The
 * answer DONE comes when the holder has left, so that whoever asks after it finds the lock free;
 * for one with a grace it comes at once, because the turn is lost to him from the mark on, and he
 * may take long.
 *
 * A turn without a node gets one, made in the name of its owner.
 *
 * What can go wrong: that turn is over: GONE. The holder is dead: he is removed at once. We die
 * before anybody is told: so they are rung first, while we hold the guard, and find the mark when
 * they get it, or that there is none. */
#include "base/clock.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define TRIES_MAX 64u
#define LOOK_NS   (100 * HF__NS_PER_MS) /* how often to look, if nobody tells */

/* --- the mark --- */

/* 1: found, holding with that fence. */
static int find_turn(struct hf__line *line, uint64_t fence, struct hf__node *out_node)
{
    int got = hf__line_first(line, out_node);

    while (got > 0 && out_node->state == HF__NODE_HOLDING) {
        if (out_node->fence == fence)
            return 1;
        got = hf__line_next(line, out_node);
    }
    return got < 0 ? got : 0;
}

/* Rings while the guard is ours and nothing is committed yet. */
static void tell_first(struct hf__line *line, const struct hf__node *node)
{
    struct hf__session_cell *session = hf__session_cell(line->conn, node->owner);

    hf__line_ring(line, node, false);
    hf__line_ring_behind(line, node);
    if (session)
        __atomic_fetch_add(&session->fast_news, 1, __ATOMIC_SEQ_CST);
    hf__line_tell(line->conn);
    hf__death_point("break told, not marked");
}

static int mark(struct hf__line *line, struct hf__node *node, uint64_t now_ns)
{
    uint64_t stay_ns = node->grace_ns > HF__BROKEN_NS_MIN ? node->grace_ns : HF__BROKEN_NS_MIN;

    if (node->broken)
        return HF_OK; /* somebody else has, and the clock runs since then */
    tell_first(line, node);
    node->broken = true;
    if (node->ends_ns == 0 || node->ends_ns > now_ns + stay_ns)
        node->ends_ns = now_ns + stay_ns;
    hf__node_write(line->conn, node);
    return HF_OK;
}

/* --- the request --- */

struct breaking {
    struct hf__embedded *conn;
    const struct hf__request *request;
    uint32_t lock;
    uint32_t owner; /* whose turn it is */
    uint32_t spare; /* a node in his name; 0: none yet */
    uint32_t spare_owner;
    struct hf__node node;
};

/* 1: marked; 0: that turn is over; HF__LINE_STALE + 1: a node is needed first. */
static int mark_in_line(struct breaking *breaking)
{
    struct hf__embedded *conn = breaking->conn;
    uint64_t fence = breaking->request->fence;
    struct hf__line line;
    int found;
    int status = hf__line_enter(conn, breaking->lock, &line);

    if (status != HF_OK)
        return status < 0 ? status : 0;
    if (!hf__index_is(conn, breaking->lock, breaking->request->name, breaking->request->name_bytes))
        return hf__line_leave(&line);
    status = hf__line_settle(&line, conn->now_ns);
    if (status < 0)
        return hf__line_fail(&line, status);

    if (line.owner != HF__OWNER_NONE && line.fence == fence) {
        if (breaking->spare == 0 || breaking->spare_owner != line.owner) {
            breaking->owner = line.owner;
            status = hf__line_leave(&line);
            return status < 0 ? status : 2;
        }
        breaking->node = (struct hf__node){ .index = breaking->spare, .owner = line.owner };
        found = hf__line_seat(&line, &breaking->node);
        breaking->spare = found < 0 ? breaking->spare : 0;
        found = found < 0 ? found : 1;
    } else {
        found = find_turn(&line, fence, &breaking->node);
    }
    if (found > 0) {
        hf__table_store(&hf__table_node(&conn->table, breaking->node.index)->breaker, conn->owner);
        status = mark(&line, &breaking->node, conn->now_ns);
    }
    if (found < 0 || status < 0)
        return hf__line_fail(&line, found < 0 ? found : status);
    status = hf__line_leave(&line);
    return status < 0 ? status : found;
}

static int mark_turn(struct breaking *breaking)
{
    struct hf__embedded *conn = breaking->conn;
    int found = 2;

    for (uint32_t i = 0; found == 2 && i < TRIES_MAX; i++) {
        found = mark_in_line(breaking);
        if (found != 2)
            break;
        if (breaking->spare != 0)
            hf__node_free(conn, breaking->spare, breaking->spare_owner);
        breaking->spare = 0;
        if (breaking->owner == conn->owner || hf__session_gone(conn, breaking->owner) == 0) {
            int status = hf__node_take(conn, breaking->owner, &breaking->spare);

            if (status < 0)
                return status;
            breaking->spare_owner = breaking->owner;
            hf__ask_write_purpose(conn, breaking->spare, NULL);
        } else {
            int status = hf__watch_mend(conn, breaking->lock, breaking->owner);

            if (status < 0)
                return status;
        }
    }
    if (breaking->spare != 0)
        hf__node_free(conn, breaking->spare, breaking->spare_owner);
    return found == 2 ? 0 : found;
}

static void answer(struct hf__embedded *conn, const struct hf__ticket *ticket,
                   enum hf__reply_kind kind)
{
    (void)hf__outbox_add(conn, ticket, kind);
}

/* Waits for the holder to leave. */
static int defer(struct breaking *breaking)
{
    struct hf__embedded *conn = breaking->conn;
    struct hf__breaking *job = hf__env_new(conn->base.env, sizeof(*job));

    if (!job)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    job->ticket = breaking->request->ticket;
    job->lock = breaking->lock;
    job->node = breaking->node.index;
    job->fence = breaking->request->fence;
    job->until_ns = breaking->node.ends_ns;
    job->deadline_ns = breaking->request->deadline_ns;
    job->next = conn->breakings;
    conn->breakings = job;
    hf__embedded_due(conn, conn->now_ns);
    return HF_OK;
}

int hf__breaking_ask(struct hf__embedded *conn, const struct hf__request *request)
{
    struct breaking breaking = { .conn = conn, .request = request };
    int dead;
    int found;
    int status = hf__index_find(conn, request, false, &breaking.lock);

    if (status < 0)
        return status;
    found = status == HF_OK ? mark_turn(&breaking) : 0;
    if (found < 0)
        return found;
    if (found == 0) {
        answer(conn, &request->ticket, HF__REPLY_GONE);
        return HF_OK;
    }

    dead = hf__session_dead(conn, breaking.node.owner, NULL);
    if (dead > 0) {
        status = hf__watch_mend(conn, breaking.lock, breaking.node.owner);
        if (status < 0)
            return status;
    }
    if (dead <= 0 && breaking.node.grace_ns == 0)
        return defer(&breaking);
    answer(conn, &request->ticket, HF__REPLY_DONE);
    return HF_OK;
}

/* --- until he has left --- */

/* 1: he has left; 0: not yet. */
static int has_left(struct hf__embedded *conn, const struct hf__breaking *job)
{
    struct hf__line line;
    struct hf__node node;
    int found;
    int status = hf__line_enter(conn, job->lock, &line);

    if (status != HF_OK)
        return status < 0 ? status : 1;
    status = hf__line_settle(&line, conn->now_ns); /* puts him out if his time is over */
    found = status < 0 ? status : find_turn(&line, job->fence, &node);
    if (found < 0)
        return hf__line_fail(&line, found);
    status = hf__line_leave(&line);
    if (status < 0)
        return status;
    if (found > 0 && hf__session_gone(conn, node.owner) > 0) {
        status = hf__watch_mend(conn, job->lock, node.owner);
        return status < 0 ? status : 1;
    }
    return !found;
}

static int finish(struct hf__embedded *conn, const struct hf__breaking *job, int left)
{
    int status = hf__outbox_reserve(conn, 1);

    if (status < 0)
        return status;
    if (left > 0) {
        answer(conn, &job->ticket, HF__REPLY_DONE);
        return HF_OK;
    }
    hf__outbox_add(conn, &job->ticket, HF__REPLY_UNKNOWN)->reply.status = HF_EUNKNOWN;
    hf__error_set(conn->base.error, HF_EUNKNOWN,
                  "the holder is told, and has not left yet; the lock is taken from him soon");
    return HF_OK;
}

int hf__breaking_check(struct hf__embedded *conn)
{
    struct hf__breaking **at = &conn->breakings;

    while (*at) {
        struct hf__breaking *job = *at;
        int left = has_left(conn, job);
        int status = HF_OK;

        if (left < 0)
            return left;
        if (left == 0 && conn->now_ns < job->deadline_ns) {
            hf__embedded_due(conn, conn->now_ns + LOOK_NS);
            hf__embedded_due(conn, job->until_ns > conn->now_ns ? job->until_ns : conn->now_ns + 1);
            at = &job->next;
            continue;
        }
        status = finish(conn, job, left);
        if (status < 0)
            return status;
        *at = job->next;
        hf__env_free(conn->base.env, job);
    }
    return HF_OK;
}

/* Answers all that are left, if there is room for it, and forgets them. */
void hf__breaking_done(struct hf__embedded *conn)
{
    while (conn->breakings) {
        struct hf__breaking *job = conn->breakings;

        if (conn->opened && hf__outbox_reserve(conn, 1) == HF_OK)
            hf__outbox_add(conn, &job->ticket, HF__REPLY_UNKNOWN)->reply.status = HF_EUNKNOWN;
        conn->breakings = job->next;
        hf__env_free(conn->base.env, job);
    }
}
