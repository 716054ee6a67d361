/* engine.c: the seam, as the core sees it: an engine that speaks to simulated stores.
 *
 * A connection greets, and is up when it is welcomed; requests that come earlier wait. Each
 * accepted request is answered exactly once: by the store, or as UNKNOWN (as FAILED if it was never
 * sent) at its deadline or when the connection dies. An answer that comes after that is dropped
 * here. In the connection recipe the claims of a connection die with it, and each is told so.
 *
 * The kernel recipe has no network: its store answers within submit(). */
#include <assert.h>
#include <string.h>

#include "simulation.h"

#define CLAIMS_MAX 64

struct mail {
    struct letter *first;
    struct letter **end;
};

struct sim_conn {
    struct hf__conn base;
    struct client *client;
    size_t lane;
    size_t store;
    uint64_t serial;
    uint64_t connect_by_ns;
    bool doomed;
    struct mail arrived;
    struct mail pending;  /* questions without an answer; end_ns: by when, held: it was sent */
    struct letter *shown; /* what the last reply points at */
    uint64_t claims[CLAIMS_MAX];
    size_t claim_count;
};

static bool is_local(const struct sim_conn *conn)
{
    return conn->client->world->plan.kind == KIND_KERNEL;
}

/* --- lists of letters --- */

static void clear(struct mail *mail)
{
    mail->first = NULL;
    mail->end = &mail->first;
}

static void append(struct mail *mail, struct letter *letter)
{
    letter->next = NULL;
    *mail->end = letter;
    mail->end = &letter->next;
}

static struct letter *take(struct mail *mail, struct letter **place)
{
    struct letter *letter = *place;

    *place = letter->next;
    if (mail->end == &letter->next)
        mail->end = place;
    return letter;
}

static void drop_all(struct world *world, struct mail *mail)
{
    while (mail->first)
        network_drop(world, take(mail, &mail->first));
}

/* --- open and close --- */

static size_t lane_of(const struct client *client, const struct hf__conn *conn, size_t store)
{
    const struct hf__driver *driver = &client->core->driver;

    return driver->links[HF__LANE_KEEP][store].conn == conn ? HF__LANE_KEEP : HF__LANE_CALL;
}

static int open(struct hf__conn *base, const struct hf__conn_options *options)
{
    struct sim_conn *conn = (struct sim_conn *)base;
    struct client *client = base->env->memory_context;

    assert(!conn->client || (!conn->pending.first && !conn->shown));

    if (conn->client)
        drop_all(client->world, &conn->arrived);
    conn->client = client;
    conn->store = options->server;
    conn->lane = lane_of(client, base, options->server);
    conn->doomed = false;
    conn->claim_count = 0;
    clear(&conn->arrived);
    clear(&conn->pending);
    conn->connect_by_ns = options->now_ns + S;
    conn->serial = network_open(client, conn->store, base);
    client->serials[conn->lane][conn->store] = conn->serial;
    base->state = is_local(conn) ? HF__CONN_UP : HF__CONN_CONNECTING;
    base->promises = base->recipe->promises;
    return HF_OK;
}

static void hang_up(struct sim_conn *conn)
{
    struct client *client = conn->client;

    network_close(client->world, conn->serial);
    network_know(client->world, conn->serial);
    if (client->serials[conn->lane][conn->store] == conn->serial)
        client->serials[conn->lane][conn->store] = 0;
}

void engine_drop(struct hf__conn *base)
{
    struct sim_conn *conn = (struct sim_conn *)base;
    struct world *world;

    if (!conn->client)
        return;
    world = conn->client->world;
    hang_up(conn);
    drop_all(world, &conn->arrived);
    drop_all(world, &conn->pending);
    if (conn->shown)
        network_drop(world, conn->shown);
    conn->shown = NULL;
}

static void close(struct hf__conn *base)
{
    engine_drop(base);
}

void engine_receive(struct hf__conn *base, struct letter *letter)
{
    append(&((struct sim_conn *)base)->arrived, letter);
}

/* --- questions --- */

static int name_of(const struct hf__request *request)
{
    return request->name ? request->name[1] - '0' : 0;
}

static struct question translate(const struct sim_conn *conn, const struct hf__request *request)
{
    struct question question = {
        .ticket = request->ticket,
        .name = name_of(request),
        .client = conn->client->index,
        .life = conn->client->life,
        .serial = conn->serial,
        .mode = request->mode,
        .queueing = request->queueing,
        .ends = request->ends,
        .shorten = request->shorten,
        .lease_ns = request->lease_ns,
        .grace_ns = request->grace_ns,
        .fence = request->fence,
        .not_after_ns = world_when(&conn->client->clock, request->deadline_ns),
    };

    if (request->token)
        memcpy(question.token, request->token, HF__TOKEN_BYTES);
    return question;
}

static int refuse(struct sim_conn *conn)
{
    static const int reasons[] = { HF_EUNREACHABLE, HF_ENOMEM, HF_ELIMIT, HF_ESYSTEM };
    struct world *world = conn->client->world;
    int status = reasons[world_between(world, 0, 3)];

    fault_count(world, FAULT_REFUSED_SUBMIT);
    return hf__error_set(conn->base.error, status, "not today");
}

static void forget_claim(struct sim_conn *conn, uint64_t claim_id)
{
    for (size_t i = 0; i < conn->claim_count; i++) {
        if (conn->claims[i] == claim_id)
            conn->claims[i] = conn->claims[--conn->claim_count];
    }
}

static void note_claim(struct sim_conn *conn, const struct question *question)
{
    uint64_t claim_id = question->ticket.claim_id;

    if (question->ticket.kind == HF__REQUEST_CLAIM) {
        forget_claim(conn, claim_id);
        assert(conn->claim_count < CLAIMS_MAX);
        conn->claims[conn->claim_count++] = claim_id;
    }
    if (question->ticket.kind == HF__REQUEST_RELEASE)
        forget_claim(conn, claim_id);
}

static int submit(struct hf__conn *base, const struct hf__request *request)
{
    struct sim_conn *conn = (struct sim_conn *)base;
    struct world *world = conn->client->world;
    struct question question = translate(conn, request);
    struct letter *letter;

    assert(base->state != HF__CONN_DOWN);

    if (fault_on(world, FAULT_REFUSED_SUBMIT) && world_chance(world, 20))
        return refuse(conn);
    if (request->prompt)
        return store_prompt(world, &question, request->prompt);

    world->tally->requests++;
    witness_question(conn->client, &question);
    if (world->plan.kind == KIND_CONNECTION)
        note_claim(conn, &question);
    letter = network_letter(world, LETTER_QUESTION, conn->serial);
    letter->question = question;
    letter->end_ns = request->deadline_ns;
    append(&conn->pending, letter);
    if (base->state != HF__CONN_UP)
        return HF_OK;

    letter->held = true;
    if (is_local(conn))
        (void)store_answer(world, &world->stores[0], &question);
    else
        network_ask(world, conn->serial, &question);
    return HF_OK;
}

static void pollset(struct hf__conn *base, struct hf__pollset *set)
{
    const struct sim_conn *conn = (const struct sim_conn *)base;

    if (conn->arrived.first || conn->doomed)
        hf__pollset_until(set, 0);
    if (base->state == HF__CONN_CONNECTING)
        hf__pollset_until(set, conn->connect_by_ns);
    for (const struct letter *letter = conn->pending.first; letter; letter = letter->next)
        hf__pollset_until(set, letter->end_ns);
}

/* --- answers --- */

static void give_up_on(struct sim_conn *conn, struct letter *letter, struct hf__reply *out_reply)
{
    bool sent = letter->held;

    *out_reply = (struct hf__reply){
        .kind = sent ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED,
        .ticket = letter->question.ticket,
        .status = sent ? HF_EUNKNOWN : HF_EUNREACHABLE,
    };
    hf__error_set(conn->base.error, out_reply->status, "no answer");
    conn->shown = letter;
}

/* The connection is dead: every question gets its answer, every claim of it is told. */
static int die(struct sim_conn *conn, struct hf__reply *out_reply)
{
    if (conn->pending.first) {
        give_up_on(conn, take(&conn->pending, &conn->pending.first), out_reply);
        return 1;
    }
    if (conn->claim_count > 0) {
        *out_reply = (struct hf__reply){
            .kind = HF__REPLY_GONE,
            .ticket = { .kind = HF__REQUEST_NONE, .claim_id = conn->claims[--conn->claim_count] },
            .cause = "session ended",
        };
        return 1;
    }
    hang_up(conn);
    conn->base.state = HF__CONN_DOWN;
    return hf__error_set(conn->base.error, HF_EUNREACHABLE, "connection closed");
}

/* The question that a letter answers, taken out; NULL: nobody asked any more. */
static struct letter *match(struct sim_conn *conn, const struct hf__ticket *ticket, bool keep)
{
    struct letter **place = &conn->pending.first;

    while (*place) {
        const struct hf__ticket *asked = &(*place)->question.ticket;

        if (asked->claim_id == ticket->claim_id && asked->round == ticket->round &&
            asked->kind == ticket->kind)
            break;
        place = &(*place)->next;
    }
    if (!*place || keep)
        return *place;
    return take(&conn->pending, place);
}

/* A store tells since when it is there in whole seconds. */
static void welcome(struct sim_conn *conn, uint64_t now_ns)
{
    const struct world *world = conn->client->world;
    const struct store *store = &world->stores[conn->store];

    conn->base.state = HF__CONN_UP;
    conn->base.doubted = store->doubted;
    conn->base.doubted_since_ns = now_ns - (world->now_ns - store->up_since_ns) / S * S;
    for (struct letter *letter = conn->pending.first; letter; letter = letter->next) {
        letter->held = true;
        network_ask(conn->client->world, conn->serial, &letter->question);
    }
}

static void fill_reply(struct sim_conn *conn, struct letter *letter, uint64_t now_ns,
                       struct hf__reply *out_reply)
{
    struct hf__reply *reply = &letter->reply;
    bool busy = reply->kind == HF__REPLY_QUEUED || reply->kind == HF__REPLY_REFUSED;

    reply->holder = busy && letter->holder.pid ? &letter->holder : NULL;
    reply->entry = reply->kind == HF__REPLY_ENTRY ? &letter->entry : NULL;
    if (is_local(conn)) {
        reply->wake = reply->kind == HF__REPLY_QUEUED ? &conn->client->wake : NULL;
        if (letter->end_ns > 0) /* what is left of a turn that ends by itself */
            reply->lease_ns = letter->end_ns > now_ns ? letter->end_ns - now_ns : 1;
    }
    if (reply->status < 0)
        hf__error_set(conn->base.error, reply->status, "the store says no");
    if (reply->ticket.kind == HF__REQUEST_SURVEY && reply->kind == HF__REPLY_DONE)
        conn->base.doubted = false; /* another client has admitted it */
    *out_reply = *reply;
    conn->shown = letter;
}

/* 1: a reply; 0: the letter said nothing to the core. */
static int read_letter(struct sim_conn *conn, struct letter *letter, uint64_t now_ns,
                       struct hf__reply *out_reply)
{
    struct world *world = conn->client->world;
    const struct hf__ticket *ticket = &letter->reply.ticket;
    struct letter *asked;

    if (letter->kind != LETTER_ANSWER) {
        if (letter->kind == LETTER_WELCOME && conn->base.state == HF__CONN_CONNECTING)
            welcome(conn, now_ns);
        if (letter->kind == LETTER_RESET)
            conn->doomed = true;
        network_drop(world, letter);
        return 0;
    }
    if (ticket->kind != HF__REQUEST_NONE) {
        bool keep = letter->reply.kind == HF__REPLY_ENTRY;

        asked = match(conn, ticket, keep);
        if (!asked) {
            world_point(world, POINT_LATE_ANSWER_DROPPED);
            network_drop(world, letter);
            return 0;
        }
        if (!keep)
            network_drop(world, asked);
    }
    fill_reply(conn, letter, now_ns, out_reply);
    return 1;
}

static struct letter *take_expired(struct sim_conn *conn, uint64_t now_ns)
{
    struct letter **place = &conn->pending.first;

    while (*place && (*place)->end_ns > now_ns)
        place = &(*place)->next;
    return *place ? take(&conn->pending, place) : NULL;
}

static int fetch(struct sim_conn *conn, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct letter *expired;

    if (conn->shown)
        network_drop(conn->client->world, conn->shown);
    conn->shown = NULL;
    while (conn->arrived.first && !conn->doomed) {
        struct letter *letter = take(&conn->arrived, &conn->arrived.first);

        if (read_letter(conn, letter, now_ns, out_reply))
            return 1;
    }
    if (conn->base.state == HF__CONN_CONNECTING && now_ns >= conn->connect_by_ns)
        conn->doomed = true;
    if (conn->doomed)
        return die(conn, out_reply);
    expired = take_expired(conn, now_ns);
    if (!expired)
        return 0;
    give_up_on(conn, expired, out_reply);
    return 1;
}

static int advance(struct hf__conn *base, uint64_t now_ns, struct hf__reply *out_reply)
{
    struct sim_conn *conn = (struct sim_conn *)base;
    int got = fetch(conn, now_ns, out_reply);

    if (got > 0 && (out_reply->kind == HF__REPLY_REFUSED || out_reply->kind == HF__REPLY_GONE))
        forget_claim(conn, out_reply->ticket.claim_id);
    if (got > 0)
        witness_reply(conn->client, out_reply);
    return got;
}

/* --- what there is --- */

#define PROMISES_QUEUE (HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED)

static const struct hf__recipe recipes[] = {
    [KIND_KERNEL] = { .name = "kernel",
                      .pattern = HF__PATTERN_QUEUE,
                      .promises = PROMISES_QUEUE | HF_PROMISE_CRASH,
                      .keeper_listens = true,
                      .local_tokens = true,
                      .at_hand = true },
    [KIND_QUEUE] = { .name = "queue",
                     .pattern = HF__PATTERN_QUEUE,
                     .promises = PROMISES_QUEUE | HF_PROMISE_DURABLE,
                     .hands_on = true,
                     .leases = true },
    [KIND_LEASE] = { .name = "lease",
                     .pattern = HF__PATTERN_LEASE,
                     .promises = HF_PROMISE_FENCE,
                     .hands_on = true,
                     .leases = true },
    [KIND_CONNECTION] = { .name = "connection",
                          .pattern = HF__PATTERN_CONNECTION,
                          .promises = PROMISES_QUEUE,
                          .leases = true,
                          .keeper_listens = true },
    [KIND_QUORUM3] = { .name = "quorum3",
                       .pattern = HF__PATTERN_QUORUM,
                       .promises = HF_PROMISE_FENCE,
                       .leases = true },
    [KIND_QUORUM5] = { .name = "quorum5",
                       .pattern = HF__PATTERN_QUORUM,
                       .promises = HF_PROMISE_FENCE,
                       .leases = true },
};

const struct hf__recipe *engine_recipe(enum kind kind)
{
    return &recipes[kind];
}

static const char *const schemes[] = { "sim", NULL };

static const struct hf__recipe *const recipe_list[] = { &recipes[KIND_QUEUE], NULL };

const struct hf__engine engine_simulated = {
    .name = "sim",
    .url_schemes = schemes,
    .recipes = recipe_list,
    .conn_size = sizeof(struct sim_conn),
    .open = open,
    .close = close,
    .submit = submit,
    .pollset = pollset,
    .advance = advance,
};
