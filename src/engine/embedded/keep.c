/* keep.c: where does a claim stand, and how does it leave?
 *
 * Giving back a lock that was taken the fast way, and for which nobody waits, is one
 * compare-and-swap. If that fails, somebody has come meanwhile, or the turn has been ended by
 * others: then the line tells.
 *
 * A release answers GONE, and says whether the claim was there until now; if its turn was ended by
 * others, the cause too. Inspecting and renewing what is gone answers GONE as well. */
#include <string.h>

#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

/* --- answers --- */

void hf__keep_answer_granted(struct hf__embedded *conn, const struct hf__stake *stake,
                             const struct hf__ticket *ticket, bool others_wait)
{
    struct hf__outbox_item *answer = hf__outbox_add(conn, ticket, HF__REPLY_GRANTED);

    answer->reply.fence = stake->fence;
    answer->reply.others_wait = others_wait;
    answer->reply.lease_ns = stake->ends ? stake->lease_ns : 0;
}

void hf__keep_answer_gone(struct hf__embedded *conn, const struct hf__ticket *ticket, bool released,
                          const char *cause)
{
    struct hf__outbox_item *answer = hf__outbox_add(conn, ticket, HF__REPLY_GONE);

    answer->reply.released = released;
    answer->reply.cause = cause;
}

void hf__keep_describe(struct hf__line *line, uint32_t until, struct hf__outbox_item *answer)
{
    const struct hf__table *table = &line->conn->table;
    struct hf__node node = { 0 };
    uint32_t holder = line->owner;
    uint64_t fence = line->fence;

    answer->reply.ahead = hf__line_ahead(line, until);
    if (holder == HF__OWNER_NONE) {
        if (hf__line_first(line, &node) <= 0 || node.state != HF__NODE_HOLDING)
            return;
        holder = node.owner;
        fence = node.fence;
    }
    hf__session_describe(line->conn, holder, &answer->holder);
    answer->holder.fence = fence;
    answer->reply.holder = &answer->holder;
    if (line->owner == HF__OWNER_NONE) {
        char purpose[HF__PURPOSE_BYTES];

        hf__table_read_text(hf__table_node(table, node.index)->purpose, purpose, sizeof(purpose));
        if (purpose[0] != '\0')
            memcpy(answer->holder.purpose, purpose, sizeof(purpose));
    }
}

void hf__keep_answer_queued(struct hf__line *line, const struct hf__stake *stake,
                            const struct hf__ticket *ticket)
{
    struct hf__outbox_item *answer = hf__outbox_add(line->conn, ticket, HF__REPLY_QUEUED);

    hf__keep_describe(line, stake->node, answer);
    if (stake->blocking)
        answer->reply.wake = &hf__table_node(&line->conn->table, stake->node)->wake;
}

/* --- leaving --- */

/* Its node must be out of the line, and its lock's guard held since. */
void hf__keep_drop(struct hf__embedded *conn, struct hf__stake *stake)
{
    hf__watch_stop(conn, stake);
    if (stake->node != 0)
        hf__node_give(conn, stake->node);
    hf__stakes_remove(conn, stake);
}

const char *hf__keep_cause(const struct hf__node *node)
{
    if (node->broken)
        return "broken";
    return node->expired ? "expired" : "session ended";
}

int hf__keep_adopted(struct hf__line *line, const struct hf__stake *stake,
                     struct hf__node *out_node)
{
    int got = hf__line_first(line, out_node);

    while (got > 0 && out_node->state == HF__NODE_HOLDING) {
        if (out_node->owner == line->conn->owner && out_node->fence == stake->fence)
            return 1;
        got = hf__line_next(line, out_node);
    }
    return got < 0 ? got : 0;
}

/* Takes our part out of the line. 1: it was there; 0: it was not. *out_cause: why, or that it was
 * broken but still there. */
static int depart(struct hf__line *line, struct hf__stake *stake, const char **out_cause)
{
    struct hf__embedded *conn = line->conn;
    struct hf__node node;
    int got = 1;

    if (stake->node == 0 && line->owner == conn->owner && line->fence == stake->fence) {
        hf__line_unown(line);
        return 1;
    }
    if (stake->node == 0) {
        got = hf__keep_adopted(line, stake, &node);
        *out_cause = "broken";
        if (got <= 0)
            return got;
        stake->node = node.index;
    } else if (hf__line_member(line, stake->node, &node) < 0) {
        return HF_EINTEGRITY;
    }
    if (node.owner != conn->owner)
        return hf__table_damaged(conn, "a place in a line");
    if (node.state == HF__NODE_ENDED || node.state == HF__NODE_IDLE) {
        *out_cause = hf__keep_cause(&node);
        return 0; /* we have held the guard since: the node may be used again */
    }
    if (node.broken)
        *out_cause = "broken";
    got = hf__line_remove(line, &node, HF__NODE_IDLE);
    return got < 0 ? got : 1;
}

/* Put out by others, and the name is collected already. 0: so it was not there. */
static int drop_ended(struct hf__embedded *conn, struct hf__stake *stake, const char **out_cause)
{
    struct hf__node node = { .broken = true }; /* fast until then: nothing else ends that */
    int status = stake->node ? hf__watch_ended(conn, stake, &node) : HF_OK;

    if (status < 0)
        return status;
    *out_cause = hf__keep_cause(&node);
    hf__keep_drop(conn, stake);
    return 0;
}

int hf__keep_leave(struct hf__embedded *conn, struct hf__stake *stake, const char **out_cause)
{
    struct hf__line line;
    const char *cause = NULL;
    int found;
    int status = hf__line_enter(conn, stake->lock, &line);

    if (status == HF__LINE_STALE)
        return drop_ended(conn, stake, out_cause);
    if (status < 0)
        return status;
    found = depart(&line, stake, &cause);
    if (found > 0)
        status = hf__line_settle(&line, conn->now_ns);
    if (found < 0 || status < 0)
        return hf__line_fail(&line, found < 0 ? found : status);
    status = hf__line_leave(&line);
    if (status < 0)
        return status;
    hf__keep_drop(conn, stake);
    *out_cause = cause;
    return found;
}

bool hf__keep_release_fast(struct hf__embedded *conn, struct hf__stake *stake)
{
    struct hf__word free = hf__ask_word(conn, stake->lock, stake->fence, HF__OWNER_NONE);

    if (stake->node != 0)
        return false;
    hf__death_point("before the fast release");
    if (!hf__word_exchange(&hf__table_lock(&conn->table, stake->lock)->low, stake->word, free))
        return false;
    hf__death_point("after the fast release");
    hf__stakes_remove(conn, stake);
    return true;
}

int hf__keep_give_at_once(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = hf__stakes_find(&conn->stakes, request->token);

    return stake && hf__keep_release_fast(conn, stake);
}

int hf__keep_release(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = hf__stakes_find(&conn->stakes, request->token);
    const char *cause = NULL;
    int released = 0;

    if (stake && hf__keep_release_fast(conn, stake))
        released = 1;
    else if (stake)
        released = hf__keep_leave(conn, stake, &cause);
    if (released < 0)
        return released;
    hf__keep_answer_gone(conn, &request->ticket, released > 0, cause);
    return HF_OK;
}

/* --- where do I stand? --- */

/* 1: it stands, holding or waiting; 0: it is gone, and that has been answered. */
static int look_again(struct hf__embedded *conn, struct hf__stake *stake,
                      const struct hf__ticket *ticket)
{
    const char *cause = NULL;
    int status = hf__watch_refresh(conn, stake, &cause);

    if (status != 0)
        return status;
    hf__keep_answer_gone(conn, ticket, false, cause);
    return 0;
}

static int answer_where(struct hf__embedded *conn, struct hf__stake *stake,
                        const struct hf__ticket *ticket)
{
    struct hf__line line;
    int status;

    if (!stake->waiting) {
        hf__keep_answer_granted(conn, stake, ticket, hf__watch_crowded(conn, stake));
        return HF_OK;
    }
    status = hf__line_enter(conn, stake->lock, &line);
    if (status == HF__LINE_STALE) { /* let in and put out, just now */
        status = look_again(conn, stake, ticket);
        return status > 0 ? hf__table_damaged(conn, "a lock") : status;
    }
    if (status < 0)
        return status;
    hf__keep_answer_queued(&line, stake, ticket);
    return hf__line_leave(&line);
}

int hf__keep_inspect(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = hf__stakes_find(&conn->stakes, request->token);
    int status;

    if (!stake) {
        hf__keep_answer_gone(conn, &request->ticket, false, NULL);
        return HF_OK;
    }
    stake->ticket = request->ticket;
    status = look_again(conn, stake, &request->ticket);
    if (status <= 0)
        return status;
    return answer_where(conn, stake, &request->ticket);
}

/* --- renew and downgrade --- */

static int change_end(struct hf__embedded *conn, struct hf__stake *stake,
                      const struct hf__request *request)
{
    uint64_t ends_ns = request->ticket.sent_ns + request->lease_ns;
    struct hf__line line;
    struct hf__node node;
    int status = hf__line_enter(conn, stake->lock, &line);

    if (status != HF_OK)
        return status < 0 ? status : HF_OK; /* ended by others, which the inspection will tell */
    status = hf__line_member(&line, stake->node, &node);
    if (status < 0)
        return hf__line_fail(&line, status);
    if (node.state == HF__NODE_WAITING || node.state == HF__NODE_HOLDING) {
        bool sooner = node.state == HF__NODE_HOLDING && ends_ns < node.ends_ns;

        if (!sooner || request->shorten)
            node.lease_ns = request->lease_ns;
        if (node.state == HF__NODE_HOLDING && !node.broken && (!sooner || request->shorten))
            node.ends_ns = ends_ns;
        stake->lease_ns = node.lease_ns;
        stake->ends_ns = node.state == HF__NODE_HOLDING ? node.ends_ns : stake->ends_ns;
        hf__node_write(conn, &node);
        if (sooner && request->shorten)
            hf__line_ring_behind(&line, &node);
        hf__embedded_due(conn, stake->ends_ns ? stake->ends_ns : UINT64_MAX);
    }
    return hf__line_leave(&line);
}

int hf__keep_renew(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = hf__stakes_find(&conn->stakes, request->token);
    int status;

    if (!stake)
        return hf__keep_inspect(conn, request);
    if (stake->ends && stake->node != 0) {
        status = change_end(conn, stake, request);
        if (status < 0)
            return status;
    }
    return hf__keep_inspect(conn, request);
}

/* 1: seated, it was fast until now. */
static int lower(struct hf__line *line, struct hf__stake *stake, uint32_t spare,
                 struct hf__node *out_node)
{
    struct hf__embedded *conn = line->conn;
    bool fast = line->owner == conn->owner && line->fence == stake->fence;
    int status;

    if (fast && stake->node == 0) {
        *out_node = (struct hf__node){ .index = spare, .owner = conn->owner, .shared = true };
        status = hf__line_seat(line, out_node);
    } else if (stake->node != 0) {
        status = hf__line_member(line, stake->node, out_node);
        if (status < 0 || out_node->state != HF__NODE_HOLDING)
            return status;
        out_node->shared = true;
        hf__node_write(conn, out_node);
    } else {
        return HF_OK; /* ended by others, which the inspection will tell */
    }
    if (status == HF_OK)
        status = hf__line_settle(line, conn->now_ns);
    return status < 0 ? status : fast;
}

int hf__keep_downgrade(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = hf__stakes_find(&conn->stakes, request->token);
    struct hf__line line;
    struct hf__node node;
    uint32_t spare;
    int seated;
    int status;

    if (!stake || stake->waiting || stake->shared)
        return hf__keep_inspect(conn, request);
    status = hf__node_take(conn, conn->owner, &spare);
    if (status < 0)
        return status;
    hf__ask_write_purpose(conn, spare, NULL);

    status = hf__line_enter(conn, stake->lock, &line);
    if (status != HF_OK) {
        hf__node_give(conn, spare);
        return status < 0 ? status : hf__keep_inspect(conn, request); /* ended by others */
    }
    seated = lower(&line, stake, spare, &node);
    status = seated < 0 ? hf__line_fail(&line, seated) : hf__line_leave(&line);
    if (seated > 0 && status == HF_OK) {
        stake->node = spare;
        hf__watch_hold(conn, stake, &node);
    } else {
        hf__node_give(conn, spare);
    }
    if (status < 0)
        return status;
    stake->shared = true;
    return hf__keep_inspect(conn, request);
}
