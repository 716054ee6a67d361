/* rope.c: which other sessions of a client are there, to wait in and to hold with?
 *
 * The server answers who waits for a lock when it is granted, and nothing else on that connection
 * until then; and a transaction that is held open is one lock's. So whoever needs it gets a
 * connection of its own, a rope, to the server that the first one is at. One that nobody uses is
 * kept for a while for the next.
 *
 * What can go wrong: there are as many as there may be, or the server has no room for another:
 * whoever wanted one asks again and again. A rope that is lost takes with it what it had, and
 * nothing else. */
#include <assert.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/mysql/mysql.h"

#define KEPT_NS  (10 * HF__NS_PER_S)
#define AGAIN_NS (1 * HF__NS_PER_S)

static struct hf__mysql *open_rope(struct hf__mysql *conn)
{
    struct hf__conn_options options = {
        .url = conn->url,
        .purpose = conn->purpose,
        .now_ns = conn->now_ns,
        .client_id = conn->mooring.client_id,
    };
    struct hf__mysql *rope = hf__env_new(conn->base.env, sizeof(*rope));

    if (!rope)
        return NULL;
    rope->base.engine = conn->base.engine;
    rope->base.recipe = conn->base.recipe;
    rope->base.env = conn->base.env;
    rope->server = conn->server;
    if (conn->base.engine->open(&rope->base, &options) < 0) {
        conn->base.engine->close(&rope->base);
        hf__env_free(conn->base.env, rope);
        return NULL;
    }
    rope->mooring.main = conn;
    conn->base.polls_more = true; /* of the rope: whoever sleeps knows nothing of it */
    return rope;
}

struct hf__mysql *hf__rope_take(struct hf__mysql *conn, struct hf__anchor *anchor)
{
    struct hf__mysql *chosen = NULL;
    struct hf__mysql **room = NULL;

    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        struct hf__mysql *rope = conn->mooring.ropes[i];

        if (!rope)
            room = room ? room : &conn->mooring.ropes[i];
        else if (!rope->mooring.anchor && !rope->ending && (!chosen || rope->greeted))
            chosen = rope;
    }
    if (!chosen && room && conn->now_ns >= conn->mooring.ropes_from_ns)
        chosen = *room = open_rope(conn);
    if (chosen)
        chosen->mooring.anchor = anchor;
    return chosen;
}

void hf__rope_give_back(struct hf__mysql *rope)
{
    assert(rope->mooring.main && rope->mooring.anchor);

    rope->mooring.anchor = NULL;
    rope->mooring.free_since_ns = rope->mooring.main->now_ns;
}

static void close_rope(struct hf__mysql *conn, struct hf__mysql **place)
{
    struct hf__mysql *rope = *place;

    *place = NULL;
    conn->base.engine->close(&rope->base);
    hf__env_free(conn->base.env, rope);
}

void hf__rope_cut(struct hf__mysql *rope)
{
    struct hf__mysql *conn = rope->mooring.main;

    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        if (conn->mooring.ropes[i] == rope)
            close_rope(conn, &conn->mooring.ropes[i]);
    }
}

uint32_t hf__rope_blocked(const struct hf__mysql *conn)
{
    uint32_t count = 0;

    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        const struct hf__mysql *rope = conn->mooring.ropes[i];
        const struct hf__anchor *anchor = rope ? rope->mooring.anchor : NULL;

        count += anchor && (anchor->state == HF__ANCHOR_BLOCKED ||
                            (anchor->state == HF__ANCHOR_CALLING && anchor->waits));
    }
    return count;
}

void hf__rope_ready(struct hf__mysql *rope)
{
    struct hf__anchor *anchor = rope->mooring.anchor;

    if (!anchor || !rope->greeted || rope->ending)
        return;
    assert(anchor->state == HF__ANCHOR_CALLING);

    anchor->state = anchor->waits ? HF__ANCHOR_BLOCKED : HF__ANCHOR_TRYING;
    hf__mooring_step(rope, anchor->waits ? HF__SQL_WAIT : HF__SQL_TRY, anchor);
}

static void lose_rope(struct hf__mysql *conn, struct hf__mysql **place)
{
    struct hf__mysql *rope = *place;

    hf__trace(conn->base.env, "mysql: a rope is lost: %s", rope->base.error);
    if (!rope->greeted)
        conn->mooring.ropes_from_ns = conn->now_ns + AGAIN_NS;
    (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), rope->base.error);
    hf__anchor_bereft(rope);
    close_rope(conn, place);
}

int hf__rope_advance(struct hf__mysql *conn, struct hf__reply *out_reply)
{
    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        struct hf__mysql *rope = conn->mooring.ropes[i];
        bool was_up = rope && rope->base.state == HF__CONN_UP;
        int got = rope ? conn->base.engine->advance(&rope->base, conn->now_ns, out_reply) : 0;

        if (got > 0) {
            (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), rope->base.error);
            return 1;
        }
        if (got < 0)
            lose_rope(conn, &conn->mooring.ropes[i]);
        else if (rope && !was_up && rope->base.state == HF__CONN_UP)
            hf__rope_ready(rope);
        else if (rope && !rope->mooring.anchor && rope->base.state == HF__CONN_UP &&
                 conn->now_ns >= rope->mooring.free_since_ns + KEPT_NS)
            close_rope(conn, &conn->mooring.ropes[i]);
    }
    return 0;
}

void hf__rope_end(struct hf__mysql *conn)
{
    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        struct hf__mysql *rope = conn->mooring.ropes[i];

        if (!rope || rope->ending)
            continue;
        (void)hf__text_copy(rope->base.error, sizeof(rope->base.error), conn->base.error);
        hf__mysql_end(rope, conn->end_status);
    }
}

void hf__rope_pollset(struct hf__mysql *conn, struct hf__pollset *set)
{
    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        struct hf__mysql *rope = conn->mooring.ropes[i];

        if (!rope)
            continue;
        conn->base.engine->pollset(&rope->base, set);
        if (!rope->mooring.anchor && rope->base.state == HF__CONN_UP)
            hf__pollset_until(set, rope->mooring.free_since_ns + KEPT_NS);
    }
}

void hf__rope_done(struct hf__mysql *conn)
{
    for (size_t i = 0; i < HF__MYSQL_ROPES; i++) {
        if (conn->mooring.ropes[i])
            close_rope(conn, &conn->mooring.ropes[i]);
    }
}
