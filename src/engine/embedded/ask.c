/* ask.c: how does a claim enter the contest?
 *
 * The fast way: a free lock, asked for exclusively and without a lease, is one compare-and-swap,
 * which also issues the fence. No guard, no node, no system call. The order matters: the word is
 * read first, then the name is compared, then the word is swapped. If the lock got another name in
 * between, its fence has risen and the swap fails.
 *
 * Everything else goes through the line (line.c): a claim appends its node and lets the line
 * settle, which may grant it at once. If it must wait, it watches whoever is ahead of it (watch.c).
 *
 * What can go wrong: whoever is ahead is dead already: he is removed at once, and we look again.
 * The table is full, out of memory, damaged: the request is refused (< 0) and nothing is left
 * behind. */
#include <string.h>

#include "base/text.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define FAST_TRIES_MAX 4u
#define SLOW_TRIES_MAX 64u
#define OWNERS_MAX     32u

/* --- what a claim wants --- */

static bool wants_other_purpose(const struct hf__embedded *conn, const char *purpose)
{
    return purpose && purpose[0] != '\0' &&
           strncmp(purpose, conn->purpose, HF__PURPOSE_BYTES - 1) != 0;
}

static bool may_be_fast(const struct hf__embedded *conn, const struct hf__request *request)
{
    return request->mode == HF_EXCLUSIVE && !request->ends && request->grace_ns == 0 &&
           !wants_other_purpose(conn, request->purpose);
}

static struct hf__stake *new_stake(struct hf__embedded *conn, const struct hf__request *request,
                                   uint32_t lock)
{
    struct hf__stake *stake = hf__stakes_add(conn, request->token);

    if (!stake) {
        hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        return NULL;
    }
    stake->ticket = request->ticket;
    stake->lock = lock;
    stake->shared = request->mode == HF_SHARED;
    stake->blocking = request->blocking;
    stake->ends = request->ends;
    stake->lease_ns = request->lease_ns;
    return stake;
}

/* --- the fast way --- */

/* The lock of this name, as we last knew it, or looked up. */
static int find_lock(struct hf__embedded *conn, const struct hf__request *request,
                     uint32_t *out_lock)
{
    uint64_t hash = hf__index_hash(&conn->table, request->name, request->name_bytes);
    const struct hf__shortcut *shortcut = &conn->shortcuts[hash % HF__SHORTCUTS];

    if (shortcut->hash == hash && shortcut->lock != 0) {
        *out_lock = shortcut->lock - 1;
        return HF_OK;
    }
    return hf__index_find(conn, request, true, out_lock);
}

static bool is_takable(struct hf__word word)
{
    return (word.low & HF__WORD_FLAGS) == 0 && (uint32_t)word.high == HF__OWNER_NONE &&
           (word.low >> HF__WORD_SHIFT & HF__COUNTER_MAX) < HF__COUNTER_LATE;
}

struct hf__word hf__ask_word(const struct hf__embedded *conn, uint32_t lock, uint64_t fence,
                             uint32_t owner)
{
    struct hf__word word;

    word.low = fence << HF__WORD_SHIFT;
    word.high = hf__seal_high(&conn->table.seal, lock, word.low, owner);
    return word;
}

/* 1: granted; 0: not this way. */
static int claim_fast(struct hf__embedded *conn, const struct hf__request *request,
                      struct hf__stake **out_stake)
{
    struct hf__word word;
    struct hf__word taken;
    struct hf__stake *stake;
    uint32_t lock;
    int status = find_lock(conn, request, &lock);

    if (status < 0)
        return status;
    if (!hf__line_peek(conn, lock, &word) || !is_takable(word) ||
        !hf__index_is(conn, lock, request->name, request->name_bytes))
        return 0;

    stake = new_stake(conn, request, lock);
    if (!stake)
        return HF_ENOMEM;
    stake->fence = (word.low >> HF__WORD_SHIFT) + 1;
    taken = hf__ask_word(conn, lock, stake->fence, conn->owner);
    hf__death_point("before the fast claim");
    if (!hf__word_exchange(&hf__table_lock(&conn->table, lock)->low, word, taken)) {
        hf__stakes_remove(conn, stake);
        return 0;
    }
    hf__death_point("after the fast claim");
    hf__table_store(&hf__table_lock(&conn->table, lock)->since_ns, request->ticket.sent_ns);
    stake->word = taken;
    hf__list_append(&conn->fast, &stake->place);
    *out_stake = stake;
    return 1;
}

int hf__ask_at_once(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = NULL;
    int status = hf__session_self(conn);

    assert(may_be_fast(conn, request));

    if (status == HF_OK)
        status = claim_fast(conn, request, &stake);
    if (stake)
        *request->prompt = stake->fence;
    return status;
}

/* --- the line --- */

/* A counter near its end begins anew in a greater epoch, which must be durable first. */
static int renew_counter(struct hf__embedded *conn, uint32_t lock)
{
    struct hf__line line;
    struct hf__word word;
    uint64_t epoch;
    int status;

    if (!hf__line_peek(conn, lock, &word) ||
        (word.low >> HF__WORD_SHIFT & HF__COUNTER_MAX) < HF__COUNTER_LATE ||
        (uint32_t)word.high != HF__OWNER_NONE)
        return HF_OK;
    status = hf__table_new_epoch(conn, &epoch);
    if (status < 0)
        return status;
    status = hf__line_enter(conn, lock, &line);
    if (status != HF_OK)
        return status < 0 ? status : HF_OK;
    if (line.owner == HF__OWNER_NONE)
        hf__line_raise(&line, epoch << HF__COUNTER_BITS);
    return hf__line_leave(&line);
}

/* Would a claim be granted if it came now? */
static bool is_open_to(struct hf__line *line, bool shared)
{
    struct hf__node first;

    if (line->owner != HF__OWNER_NONE)
        return false;
    if (line->first == 0)
        return true;
    return shared && !hf__line_crowded(line) && hf__line_first(line, &first) > 0 && first.shared;
}

/* Whoever stands in the way, to see whether they live. */
static uint32_t list_owners(struct hf__line *line, uint32_t out_owners[OWNERS_MAX])
{
    struct hf__node node;
    uint32_t count = 0;
    int got = hf__line_first(line, &node);

    if (line->owner != HF__OWNER_NONE)
        out_owners[count++] = line->owner;
    while (got > 0 && count < OWNERS_MAX) {
        bool known = false;

        for (uint32_t i = 0; i < count; i++)
            known = known || out_owners[i] == node.owner;
        if (!known)
            out_owners[count++] = node.owner;
        got = hf__line_next(line, &node);
    }
    return count;
}

/* 1: somebody was dead, and is gone now. */
static int bury(struct hf__embedded *conn, uint32_t lock, const uint32_t *owners, uint32_t count)
{
    int buried = 0;

    for (uint32_t i = 0; i < count; i++) {
        int dead = hf__session_dead(conn, owners[i], NULL);
        int status;

        if (dead <= 0)
            continue; /* alive, or nobody knows */
        status = hf__watch_mend(conn, lock, owners[i]);
        if (status < 0)
            return status;
        buried = 1;
    }
    return buried;
}

/* Not to stand in line. 2: refused and answered; 0: try again. */
static int refuse(struct hf__line *line, const struct hf__request *request)
{
    struct hf__embedded *conn = line->conn;
    uint32_t owners[OWNERS_MAX];
    uint32_t count = list_owners(line, owners);
    struct hf__outbox_item *answer = hf__outbox_add(conn, &request->ticket, HF__REPLY_REFUSED);
    int status;

    hf__keep_describe(line, 0, answer);
    status = hf__line_leave(line);
    if (status == HF_OK)
        status = bury(conn, line->lock, owners, count);
    if (status == 0)
        return 2;
    conn->outbox.count--; /* the last one in: it was not true */
    return status < 0 ? status : 0;
}

void hf__ask_write_purpose(struct hf__embedded *conn, uint32_t node, const char *purpose)
{
    char text[HF__PURPOSE_BYTES] = "";

    if (wants_other_purpose(conn, purpose))
        (void)hf__text_copy(text, sizeof(text), purpose);
    hf__table_write_text(hf__table_node(&conn->table, node)->purpose, text, sizeof(text));
}

/* The node enters the line. */
static int join(struct hf__line *line, struct hf__stake *stake, const struct hf__request *request)
{
    struct hf__embedded *conn = line->conn;
    struct hf__node_cell *cell = hf__table_node(&conn->table, stake->node);
    struct hf__node node = {
        .index = stake->node,
        .owner = conn->owner,
        .state = HF__NODE_WAITING,
        .shared = stake->shared,
        .blocking = request->blocking,
        .lease_ns = request->ends ? request->lease_ns : 0,
        .grace_ns = request->grace_ns,
    };
    int status;

    hf__table_store(&cell->since_ns, request->ticket.sent_ns);
    hf__table_store(&cell->seen_fence, 0); /* of another lock, which may well be at the same */
    hf__table_store(&cell->watching, HF__OWNER_NONE);
    hf__table_store(&cell->breaker, HF__OWNER_NONE);
    status = hf__line_append(line, &node);
    if (status == HF_OK)
        status = hf__line_settle(line, conn->now_ns);
    if (status == HF_OK)
        status = hf__line_member(line, stake->node, &node);
    if (status < 0)
        return status;
    if (node.state == HF__NODE_HOLDING) {
        hf__line_forget_ring(line, stake->node); /* we know */
        hf__watch_hold(conn, stake, &node);
        hf__keep_answer_granted(conn, stake, &request->ticket, hf__line_crowded(line));
        return HF_OK;
    }
    stake->waiting = true;
    hf__list_append(&conn->waiting, &stake->place);
    status = hf__watch_ahead(line, stake, &node);
    if (status == HF_OK)
        hf__keep_answer_queued(line, stake, &request->ticket);
    return status;
}

/* 1: answered, the claim holds or waits; 2: refused, and answered; 0: try again, because the lock
 * has another name by now, or because somebody in the way was dead. */
static int claim_once(struct hf__embedded *conn, const struct hf__request *request,
                      struct hf__stake *stake)
{
    struct hf__line line;
    int status = hf__index_find(conn, request, true, &stake->lock);

    if (status == HF_OK)
        status = renew_counter(conn, stake->lock);
    if (status == HF_OK)
        status = hf__line_enter(conn, stake->lock, &line);
    if (status != HF_OK)
        return status < 0 ? status : 0;
    if (!hf__index_is(conn, stake->lock, request->name, request->name_bytes))
        return hf__line_leave(&line);
    status = hf__line_settle(&line, conn->now_ns);
    if (status < 0)
        return hf__line_fail(&line, status);
    if (!request->queueing && !is_open_to(&line, stake->shared))
        return refuse(&line, request);
    status = join(&line, stake, request);
    if (status < 0)
        return hf__line_fail(&line, status);
    status = hf__line_leave(&line);
    return status < 0 ? status : 1;
}

static int claim_slowly(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = new_stake(conn, request, 0);
    struct hf__node_cell *cell;
    int status;
    int done = 0;

    if (!stake)
        return HF_ENOMEM;
    status = hf__node_take(conn, conn->owner, &stake->node);
    if (status < 0) {
        hf__keep_drop(conn, stake);
        return status;
    }
    cell = hf__table_node(&conn->table, stake->node);
    stake->seen_notice = __atomic_load_n(&cell->notice, __ATOMIC_ACQUIRE);
    hf__ask_write_purpose(conn, stake->node, request->purpose);

    for (uint32_t tries = 0; done == 0 && tries < SLOW_TRIES_MAX; tries++)
        done = claim_once(conn, request, stake);
    if (done == 1) {
        if (stake->waiting && hf__watch_start(conn, stake) > 0)
            (void)hf__watch_look(conn, stake, true);
        return HF_OK;
    }
    hf__keep_drop(conn, stake);
    if (done == 0)
        return hf__error_set(conn->base.error, HF_EUNREACHABLE,
                             "%s/table: it changes faster than we can follow", conn->table.path);
    return done < 0 ? done : HF_OK;
}

int hf__ask_claim(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__stake *stake = NULL;
    int status;

    if (hf__stakes_find(&conn->stakes, request->token))
        return hf__keep_inspect(conn, request);
    status = hf__session_self(conn);
    if (status < 0)
        return status;
    if (may_be_fast(conn, request)) {
        status = claim_fast(conn, request, &stake);
        if (status < 0)
            return status;
        if (status > 0) {
            hf__keep_answer_granted(conn, stake, &request->ticket, false);
            return HF_OK;
        }
    }
    return claim_slowly(conn, request);
}
