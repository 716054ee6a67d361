/* seat.c: which other sessions of a client are there to wait in?
 *
 * PostgreSQL answers who waits for an advisory lock when it is granted, and nothing else on that
 * connection until then. So whoever waits gets a connection of its own, a seat, which also keeps
 * the lock when it has come. One that nobody uses is kept for a while for the next.
 *
 * What can go wrong: all seats are taken, or the server has no room for another connection: there
 * is none, and whoever wanted one asks again and again. A seat that is lost takes with it what it
 * had, and nothing else. One that would be at another server, or at the same after a restart: it
 * does not come up. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/postgres/postgres.h"

#define KEPT_NS  (10 * HF__NS_PER_S)
#define AGAIN_NS (1 * HF__NS_PER_S)

static struct hf__postgres *open_seat(struct hf__postgres *conn)
{
    struct hf__conn_options options = {
        .url = conn->url,
        .purpose = conn->purpose,
        .now_ns = conn->now_ns,
        .client_id = conn->client_id,
    };
    struct hf__postgres *seat = hf__env_new(conn->base.env, sizeof(*seat));

    if (!seat)
        return NULL;
    seat->base.engine = conn->base.engine;
    seat->base.recipe = conn->base.recipe;
    seat->base.env = conn->base.env;
    if (hf__postgres_start(seat, &options, conn) < 0) {
        hf__postgres_finish(seat);
        hf__env_free(conn->base.env, seat);
        return NULL;
    }
    conn->base.polls_more = true; /* of the seat: whoever sleeps knows nothing of it */
    return seat;
}

/* Also one whose lock is being given back: what is asked next is obeyed after that. Unless a call
 * is under way for who leaves, which could meet the next. */
static bool is_free(const struct hf__postgres *seat)
{
    const struct hf__berth *sitter = seat->sitter;

    if (seat->ending)
        return false;
    return !sitter || (sitter->state == HF__BERTH_LEAVING && !sitter->quits);
}

struct hf__postgres *hf__seat_take(struct hf__postgres *conn, struct hf__berth *berth)
{
    struct hf__postgres *chosen = NULL;
    struct hf__postgres **room = NULL;

    for (size_t i = 0; i < HF__POSTGRES_SEATS; i++) {
        struct hf__postgres *seat = conn->seats[i];

        if (!seat)
            room = room ? room : &conn->seats[i];
        else if (is_free(seat) && (!chosen || seat->greeted))
            chosen = seat;
    }
    if (!chosen && room && conn->now_ns >= conn->seats_from_ns)
        chosen = *room = open_seat(conn);
    if (chosen)
        chosen->sitter = berth;
    return chosen;
}

void hf__seat_give_back(struct hf__postgres *seat)
{
    assert(seat->main && seat->sitter);

    seat->sitter = NULL;
    seat->free_since_ns = seat->main->now_ns;
}

static void close_seat(struct hf__postgres *conn, struct hf__postgres **place)
{
    struct hf__postgres *seat = *place;

    *place = NULL;
    hf__postgres_finish(seat);
    hf__env_free(conn->base.env, seat);
}

static void lose_seat(struct hf__postgres *conn, struct hf__postgres **place)
{
    struct hf__postgres *seat = *place;

    hf__trace(conn->base.env, "postgres: a seat is lost: %s", seat->base.error);
    if (!seat->greeted)
        conn->seats_from_ns = conn->now_ns + AGAIN_NS;
    (void)hf__text_copy(conn->base.error, sizeof(conn->base.error), seat->base.error);
    hf__advisory_bereft(seat);
    close_seat(conn, place);
}

int hf__seat_advance(struct hf__postgres *conn, struct hf__reply *out_reply)
{
    for (size_t i = 0; i < HF__POSTGRES_SEATS; i++) {
        struct hf__postgres *seat = conn->seats[i];
        bool was_up = seat && seat->base.state == HF__CONN_UP;
        int got = seat ? hf__postgres_advance(seat, conn->now_ns, out_reply) : 0;

        if (got > 0)
            return 1;
        if (got < 0)
            lose_seat(conn, &conn->seats[i]);
        else if (seat && !was_up && seat->base.state == HF__CONN_UP)
            hf__berth_seated(seat);
        else if (seat && !seat->sitter && seat->base.state == HF__CONN_UP &&
                 conn->now_ns >= seat->free_since_ns + KEPT_NS)
            close_seat(conn, &conn->seats[i]);
    }
    return 0;
}

void hf__seat_pollset(struct hf__postgres *conn, struct hf__pollset *set)
{
    for (size_t i = 0; i < HF__POSTGRES_SEATS; i++) {
        struct hf__postgres *seat = conn->seats[i];

        if (!seat)
            continue;
        hf__postgres_await(seat, set);
        if (!seat->sitter && seat->base.state == HF__CONN_UP)
            hf__pollset_until(set, seat->free_since_ns + KEPT_NS);
    }
}

void hf__seat_done(struct hf__postgres *conn)
{
    for (size_t i = 0; i < HF__POSTGRES_SEATS; i++) {
        if (conn->seats[i])
            close_seat(conn, &conn->seats[i]);
    }
}
