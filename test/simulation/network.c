/* network.c: how do letters travel, and how do they fail to?
 *
 * A session is a connection. Letters of one direction arrive in the order in which they were sent,
 * each after its own delay, unless a fault that is on drops, doubles or delays one. A session that
 * is cut ends for the client at once and for the store a while later; what was under way to the
 * store is lost, or executed without anybody hearing the answer, or executed much later.
 *
 * In a connection recipe nothing gets lost on the way, because a stream does not lose single
 * letters: what would be lost comes late. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "simulation.h"

struct letter *network_letter(struct world *world, enum letter_kind kind, uint64_t serial)
{
    struct letter *letter = world->spare_letters;

    if (letter) {
        world->spare_letters = letter->next;
    } else {
        letter = malloc(sizeof(*letter));
        if (!letter)
            abort();
    }
    memset(letter, 0, sizeof(*letter));
    letter->kind = kind;
    letter->serial = serial;
    return letter;
}

/* What a reply pointed at must not be read any more: spoil it. */
void network_drop(struct world *world, struct letter *letter)
{
    memset(letter, 0xdd, sizeof(*letter));
    letter->next = world->spare_letters;
    world->spare_letters = letter;
}

static struct session *find(struct world *world, uint64_t serial)
{
    assert(serial >= 1 && serial <= world->session_count);

    return &world->sessions[serial - 1];
}

void network_know(struct world *world, uint64_t serial)
{
    find(world, serial)->known = true;
}

/* --- delays, losses, doubles --- */

static bool is_stream(const struct world *world)
{
    return world->plan.kind == KIND_CONNECTION;
}

static bool between_halves(struct world *world, const struct session *session)
{
    if (!fault_on(world, FAULT_PARTITION))
        return false;
    return world->partition_client == session->client ||
           (world->partition_client < 0 && world->partition_store == session->store);
}

static bool is_news(const struct letter *letter)
{
    return letter->kind == LETTER_ANSWER && letter->reply.ticket.kind == HF__REQUEST_NONE;
}

static bool gets_lost(struct world *world, const struct session *session,
                      const struct letter *letter)
{
    bool news = is_news(letter);

    if (is_stream(world))
        return false;
    if (between_halves(world, session)) {
        fault_count(world, FAULT_PARTITION);
        return true;
    }
    if (news && fault_on(world, FAULT_NEWS_LOSS) && world_chance(world, 60)) {
        fault_count(world, FAULT_NEWS_LOSS);
        return true;
    }
    if (fault_on(world, FAULT_LOSS) && world_chance(world, 15)) {
        fault_count(world, FAULT_LOSS);
        return true;
    }
    return false;
}

static bool is_appointment(const struct world *world, const struct letter *letter)
{
    return is_news(letter) && letter->reply.kind == HF__REPLY_GRANTED && !is_stream(world);
}

static uint64_t draw_delay(struct world *world, const struct session *session,
                           const struct letter *letter)
{
    uint64_t latency_ns = world->plan.latency_ns;
    uint64_t delay_ns = world_between(world, latency_ns / 2, latency_ns);
    /* Appointments come late more often: they are what may lapse on the way. */
    bool news = is_appointment(world, letter);

    if (fault_on(world, FAULT_DELAY) && world_chance(world, news ? 40 : 15)) {
        bool is_long = world_chance(world, news ? 80 : 20);

        delay_ns += world_between(world, 5 * MS, is_long ? 2500 * MS : 200 * MS);
        fault_count(world, FAULT_DELAY);
    }
    if (is_stream(world) && between_halves(world, session)) {
        delay_ns += world->window_ns[FAULT_PARTITION] - world->now_ns;
        fault_count(world, FAULT_PARTITION);
    }
    return delay_ns;
}

/* An appointment that lapses while its waiter is stopped, and comes when that has asked again and
 * stands in line again: whoever believes it holds what another does. */
static uint64_t outlast_pause(struct world *world, const struct session *session,
                              const struct letter *letter)
{
    uint64_t paused_ns = world->clients[session->client].paused_until;

    if (!is_appointment(world, letter) || paused_ns <= world->now_ns ||
        !(world->plan.faults & 1u << FAULT_DELAY) || !world_chance(world, 80))
        return 0;
    fault_count(world, FAULT_DELAY);
    return paused_ns - world->now_ns + world_between(world, 2 * MS, 300 * MS);
}

static void post(struct world *world, struct letter *letter, uint64_t at_ns)
{
    calendar_add(world, (struct event){ .at_ns = at_ns, .kind = EVENT_LETTER, .letter = letter });
}

static void send(struct world *world, struct letter *letter, bool to_store)
{
    struct session *session = find(world, letter->serial);
    uint64_t *ordered_ns = to_store ? &session->ordered_up_ns : &session->ordered_down_ns;
    uint64_t at_ns =
        world->now_ns + draw_delay(world, session, letter) + outlast_pause(world, session, letter);

    if (gets_lost(world, session, letter)) {
        TRACE(world, -1, "lost on the way: letter %d of session %llu", (int)letter->kind,
              (unsigned long long)letter->serial);
        if (letter->kind == LETTER_QUESTION && letter->question.ticket.kind == HF__REQUEST_CLAIM)
            record_get(world, letter->question.token)->claims_under_way--;
        network_drop(world, letter);
        return;
    }
    if (!is_appointment(world, letter)) { /* which comes by a channel of its own */
        if (at_ns < *ordered_ns)
            at_ns = *ordered_ns;
        *ordered_ns = at_ns;
    }
    post(world, letter, at_ns);
}

/* A second copy of what was executed. One that moves an end in is only harmless at once: engines
 * must see to it that it does not come later. */
static void perhaps_double(struct world *world, const struct letter *letter)
{
    const struct question *question = &letter->question;
    struct letter *copy;

    if (!fault_on(world, FAULT_DUPLICATE) || !world_chance(world, 20) || question->repeated)
        return;
    if (question->shorten || question->ticket.kind == HF__REQUEST_LIST ||
        question->ticket.kind == HF__REQUEST_BREAK)
        return;

    fault_count(world, FAULT_DUPLICATE);
    copy = network_letter(world, LETTER_QUESTION, letter->serial);
    copy->question = *question;
    copy->question.repeated = true;
    if (question->ticket.kind == HF__REQUEST_CLAIM)
        record_get(world, question->token)->claims_under_way++;
    post(world, copy, world->now_ns + world_between(world, MS, 500 * MS));
}

void network_ask(struct world *world, uint64_t serial, const struct question *question)
{
    struct letter *letter = network_letter(world, LETTER_QUESTION, serial);

    letter->question = *question;
    letter->question.serial = serial;
    if (question->ticket.kind == HF__REQUEST_CLAIM)
        record_get(world, question->token)->claims_under_way++;
    send(world, letter, true);
}

void network_answer(struct world *world, struct letter *letter)
{
    struct session *session = find(world, letter->serial);

    if (session->cut_at_store || !session->conn) {
        network_drop(world, letter);
        return;
    }
    if (world->plan.kind == KIND_KERNEL) {
        network_arrive(world, letter);
        return;
    }
    send(world, letter, false);
}

/* --- sessions --- */

uint64_t network_open(struct client *client, size_t store, struct hf__conn *conn)
{
    struct world *world = client->world;

    if (world->session_count == world->session_room) {
        world->session_room = world->session_room ? world->session_room * 2 : 64;
        world->sessions = realloc(world->sessions, world->session_room * sizeof(*world->sessions));
        if (!world->sessions)
            abort();
    }
    world->sessions[world->session_count++] = (struct session){
        .client = client->index,
        .life = client->life,
        .store = store,
        .epoch = world->stores[store].epoch,
        .conn = conn,
    };
    if (world->plan.kind != KIND_KERNEL)
        send(world, network_letter(world, LETTER_HELLO, world->session_count), true);
    return world->session_count;
}

static void notice_later(struct world *world, uint64_t serial)
{
    calendar_add(world, (struct event){ .at_ns = world->now_ns + world_between(world, MS, S),
                                        .kind = EVENT_NOTICE,
                                        .what = serial });
}

void network_close(struct world *world, uint64_t serial)
{
    struct session *session = find(world, serial);

    if (!session->conn)
        return;
    session->conn = NULL;
    session->cut_at_client = true;
    notice_later(world, serial);
}

void network_cut(struct world *world, uint64_t serial, enum fault how)
{
    struct session *session = find(world, serial);
    struct client *client = &world->clients[session->client];
    struct hf__conn *conn = session->conn;

    if (!conn)
        return;
    TRACE(world, -1, "session %llu of client %d is cut", (unsigned long long)serial,
          session->client);
    session->drops_requests = how == FAULT_CUT_BEFORE;
    session->late_ns = how == FAULT_CUT_LATE ? world_between(world, 50 * MS, 3 * S) : 0;
    network_close(world, serial);
    engine_receive(conn, network_letter(world, LETTER_RESET, serial));
    client_wake(client);
}

void network_cut_store(struct world *world, size_t store)
{
    for (uint64_t serial = 1; serial <= world->session_count; serial++) {
        struct session *session = find(world, serial);

        if (session->store != store || session->cut_at_store)
            continue;
        if (session->conn)
            post(world, network_letter(world, LETTER_RESET, serial),
                 world->now_ns + world->plan.latency_ns);
        session->cut_at_store = true;
    }
}

void network_cut_client(struct world *world, struct client *client)
{
    for (uint64_t serial = 1; serial <= world->session_count; serial++) {
        const struct session *session = find(world, serial);

        if (session->client == client->index && session->conn)
            network_close(world, serial);
    }
}

uint64_t network_channel(const struct world *world, int client, size_t store)
{
    const struct client *to = &world->clients[client];
    uint64_t keep = to->serials[HF__LANE_KEEP][store];

    return keep ? keep : to->serials[HF__LANE_CALL][store];
}

/* --- arrival --- */

static void reset(struct world *world, uint64_t serial)
{
    post(world, network_letter(world, LETTER_RESET, serial),
         world->now_ns + world->plan.latency_ns);
}

static void arrive_at_store(struct world *world, struct letter *letter)
{
    struct session *session = find(world, letter->serial);
    struct store *store = &world->stores[session->store];
    struct question question = letter->question;

    if (session->late_ns > 0 && !letter->held) {
        letter->held = true;
        post(world, letter, world->now_ns + session->late_ns);
        return;
    }
    if (letter->kind == LETTER_QUESTION && question.ticket.kind == HF__REQUEST_CLAIM)
        record_get(world, question.token)->claims_under_way--;
    if (!store->up || store->epoch != session->epoch) {
        reset(world, letter->serial);
    } else if (letter->kind == LETTER_HELLO) {
        struct letter *welcome = network_letter(world, LETTER_WELCOME, letter->serial);
        network_answer(world, welcome);
    } else if (session->drops_requests ||
               (session->cut_at_store && (is_stream(world) || !letter->held))) {
        TRACE(world, question.name, "dropped at the end of session %llu",
              (unsigned long long)letter->serial);
    } else if (store_answer(world, store, &question)) {
        perhaps_double(world, letter);
    }
    network_drop(world, letter);
}

void network_arrive(struct world *world, struct letter *letter)
{
    const struct session *session = find(world, letter->serial);

    if (letter->kind == LETTER_HELLO || letter->kind == LETTER_QUESTION) {
        arrive_at_store(world, letter);
        return;
    }
    if (!session->conn) {
        network_drop(world, letter);
        return;
    }
    engine_receive(session->conn, letter);
    client_wake(&world->clients[session->client]);
}
