/* postgres.h: the parts of the PostgreSQL engine, as they see each other. */
#ifndef HF_ENGINE_POSTGRES_POSTGRES_H
#define HF_ENGINE_POSTGRES_POSTGRES_H

#include <libpq-fe.h>

#include "base/buffer.h"
#include "base/list.h"
#include "base/resolve.h"
#include "base/secret.h"
#include "engine/bearer.h"
#include "engine/database.h"
#include "engine/engine.h"
#include "engine/roll.h"
#include "engine/vigil.h"

#define HF__POSTGRES_PORT         5432
#define HF__POSTGRES_PREFIX_BYTES 33 /* with the NUL; identifiers have at most 63 */
#define HF__POSTGRES_BATCH_MAX    64
#define HF__POSTGRES_ARRAYS       4
#define HF__POSTGRES_SEATS        16 /* sessions of one client that may stand in line */

/* The statements that are prepared on every connection: those of its recipe. */
enum hf__statement {
    HF__STATEMENT_CLAIM,
    HF__STATEMENT_RELEASE,
    HF__STATEMENT_LOWER,
    HF__STATEMENT_BREAK,
    HF__STATEMENT_RENEW,
    HF__STATEMENT_REFRESH,
    HF__STATEMENT_LIST,
    HF__STATEMENT_ADVISORY_TRY,
    HF__STATEMENT_ADVISORY_WAIT,
    HF__STATEMENT_ADVISORY_LOOK,
    HF__STATEMENT_ADVISORY_ENTER,
    HF__STATEMENT_ADVISORY_LEAVE,
    HF__STATEMENT_ADVISORY_QUIT,
    HF__STATEMENT_ADVISORY_LOWER,
    HF__STATEMENT_ADVISORY_FORGET,
    HF__STATEMENT_ADVISORY_BREAK,
    HF__STATEMENT_ADVISORY_RENEW,
    HF__STATEMENT_ADVISORY_LIST,
    HF__STATEMENT_ADVISORY_IDLE,
};
#define HF__STATEMENTS_OF_QUEUE 7
#define HF__STATEMENTS          19

/* How we come in: each of these is answered before the connection is up. */
enum hf__welcome_step {
    HF__WELCOME_FACTS,   /* who is the server? */
    HF__WELCOME_LISTEN,  /* for messages to this client */
    HF__WELCOME_PREPARE, /* one statement */
    HF__WELCOME_RIGHTS,  /* may we use the tables? */
    HF__WELCOME_CREATE,  /* the tables and functions */
    HF__WELCOME_TIME,    /* its clock, again */
    HF__WELCOME_WATCH,   /* that it notices our death while we stand in line */
};

enum hf__errand_kind {
    HF__ERRAND_WELCOME,
    HF__ERRAND_ONE,  /* one request */
    HF__ERRAND_MANY, /* renewals or refreshes that travel together */
    HF__ERRAND_LIST,
    HF__ERRAND_STEP, /* of a berth, or about the session: the core asked for none of it as it is */
};

struct hf__berth;

/* What was sent and is not answered yet. */
struct hf__errand {
    struct hf__list place; /* in conn->errands: in the order of sending */
    enum hf__errand_kind kind;
    enum hf__welcome_step step;
    uint32_t index; /* PREPARE: of the statement; LIST: how many rows have come */
    uint64_t deadline_ns;
    bool abandoned; /* answered UNKNOWN at its deadline: nobody waits for this any more */
    bool by_rows;   /* LIST: libpq was told to hand out rows as they come */
    bool is_heard;  /* LIST, STEP: the result has come, of which there is one */
    enum hf__statement statement; /* of a STEP */
    struct hf__berth *berth;      /* NULL: of none */
    uint64_t idle_ns;             /* what it tells the session, if it is obeyed */
    uint32_t count;
    uint32_t answered;
    struct hf__ticket tickets[]; /* `count` of them */
};

/* RENEW or INSPECT, until the next advance(). */
struct hf__collected {
    struct hf__ticket ticket;
    uint64_t deadline_ns;
    uint64_t lease_us;
    bool shorten;
    uint8_t token[HF__TOKEN_BYTES];
    size_t name_bytes;
    char name[HF_NAME_BYTES_MAX];
};

/* Where a claim of the recipe advisory stands. Its session is the one that has the lock, or waits
 * for it. */
enum hf__berth_state {
    HF__BERTH_OUT,      /* nothing of it is at the server */
    HF__BERTH_TRYING,   /* takes it if it is free */
    HF__BERTH_CALLING,  /* for a session that can wait */
    HF__BERTH_BLOCKED,  /* its session waits in line */
    HF__BERTH_LOCKED,   /* has the lock, but no fence: somebody's lease may not have ended yet */
    HF__BERTH_ENTERING, /* asks for the fence */
    HF__BERTH_HELD,
    HF__BERTH_LEAVING,
};

struct hf__berth {
    struct hf__entry entry;
    struct hf__list parted; /* in conn->parted: it is OUT */
    struct hf__list timed;  /* in conn->timed: something is to be done at at_ns */
    enum hf__berth_state state;
    struct hf__postgres *session;
    struct hf__postgres *leaves; /* LEAVING: which session; another may wait there already */
    uint32_t under_way;          /* errands */
    int64_t key;
    bool shared;
    bool queueing;
    bool beside;       /* TRYING: another reader in the same session */
    bool in_line;      /* BLOCKED: it was seen there */
    bool looks;        /* LOOK is under way */
    bool quits;        /* BLOCKED: it is to come back ... */
    bool is_called;    /* ... QUIT is under way ... */
    bool is_back;      /* ... and it has, without the lock */
    bool tells_broken; /* LEAVING: the core does not know why */
    bool was_broken;
    bool was_crowded;
    uint64_t at_ns;
    uint64_t lease_ns;
    uint64_t grace_ns;
    uint32_t ahead;
    uint8_t token[HF__TOKEN_BYTES];
    char who[HF__BEARER_BYTES];
    size_t name_bytes;
    char name[];
};

/* The way to a server, until there is one. */
struct hf__dial {
    size_t server;     /* of the URL: being tried, or in use */
    size_t tried;      /* so many servers since open() */
    uint64_t by_ns;    /* the end of it all */
    uint64_t share_ns; /* the end of this address' time */
    size_t address;    /* of this server: being tried, or in use */
    bool is_set_out;   /* libpq is at work */
    short events;      /* that it waits for */
    struct hf__addresses addresses;
    struct hf__resolve *resolve;
};

/* What libpq has read, and where messages begin in it. */
struct hf__inflow {
    size_t unheard_bytes;  /* that came since the last answer or message */
    bool is_hidden;        /* what comes cannot be looked at */
    bool is_known;         /* where messages begin: what follows says it */
    uint64_t read_bytes;   /* since the connection began */
    unsigned char head[5]; /* of the next message: its kind and its length, ... */
    size_t head_bytes;     /* ... of which so much was read */
    size_t left;           /* of the message that was begun */
};

/* What the server says about itself. */
struct hf__postgres_server {
    int version;
    bool forgets;        /* after a crash it may lack what it had confirmed */
    bool unlogged;       /* the tables are emptied after a crash */
    uint64_t started_us; /* since when it runs: no other has the same */
    bool is_asked_time;
    uint64_t time_asked_ns;
    int64_t clock_offset_us; /* its wall clock - our clock, at most a round trip too great */
};

struct hf__postgres {
    struct hf__conn base;
    const struct hf__url *url;
    PGconn *pg;
    struct hf__dial dial;
    bool connected; /* libpq has a connection: what is asked is sent */
    bool greeted;
    bool ending; /* every request is being answered; then it is DOWN */
    int end_status;
    bool may_read;      /* somebody waited since the last read */
    uint64_t looked_ns; /* whether something has come: once in a step */
    uint64_t late_ns;   /* it was read because an answer was late then */
    bool is_cut;        /* nothing more will come */
    bool wants_write;
    bool has_open_end;  /* the last statement is not sent off yet */
    bool sends_at_once; /* not only when advance() comes */
    struct hf__inflow inflow;
    uint64_t first_deadline_ns;
    uint64_t now_ns; /* as advance() was told */
    struct hf__list errands;
    struct hf__vigils vigils;

    /* The welcome. */
    uint32_t welcomes_left;
    uint32_t prepared; /* bits */
    bool is_missing;   /* tables or functions, or some of them */
    bool has_created;
    bool clock_doubted; /* the server's clock is to be asked for again */
    int create_status;  /* why they could not be made, with the text */
    char create_error[HF__ERROR_BYTES];
    struct hf__postgres_server server;

    struct hf__collected *collected; /* room for HF__POSTGRES_BATCH_MAX */
    uint32_t collected_count;
    enum hf__request_kind collected_kind;
    struct hf__buffer arrays[HF__POSTGRES_ARRAYS];

    /* The answer to a batch or a list, while its replies are handed out one by one. */
    PGresult *current;
    int current_row;
    bool list_all;
    char list_glob[HF_NAME_BYTES_MAX + 1];

    /* The recipe advisory. This connection is a session that holds locks; others of the client,
     * its seats, can wait for one. */
    struct hf__roll roll;
    struct hf__list parted;
    struct hf__list timed;
    struct hf__postgres *main; /* of a seat; NULL: this is it */
    struct hf__postgres *seats[HF__POSTGRES_SEATS];
    struct hf__berth *sitter; /* of a seat: who uses it */
    uint64_t free_since_ns;   /* of a seat that nobody uses */
    uint64_t seats_from_ns;   /* no other is opened before: the server had no room for one */
    uint32_t berths;          /* whose session this is */
    uint64_t idle_ns;         /* the shortest lease of theirs: so long it may be silent ... */
    uint32_t idle_count;      /* ... and how many have that one */
    uint64_t idle_told_ns;    /* the limit that the server knows; 0: none */
    bool has_key;             /* lock_key= was given */
    int64_t lock_key;
    uint64_t client_id;

    char prefix[HF__POSTGRES_PREFIX_BYTES];
    char password[HF__SECRET_BYTES_MAX + 1];
    char client[17]; /* its number in hex: the channel carries it */
    char whence[HF__WHENCE_BYTES];
    char purpose[HF__PURPOSE_BYTES];
    bool listens;
    char peer[300]; /* of the address being tried or in use */
    struct hf__bearer bearer;
    struct hf_holding entry; /* that a reply points at */
    char entry_name[HF_NAME_BYTES_MAX + 1];
};

/* --- dsn.c: what does the URL ask for, and how is libpq told? --- */

int hf__dsn_read(struct hf__postgres *conn, const struct hf__conn_options *options);
/* The connection string for this address ("": the Unix socket), to be wiped and freed by
 * hf__dsn_free; NULL: out of memory. */
char *hf__dsn_write(const struct hf__postgres *conn, const char *address);
void hf__dsn_free(const struct hf__postgres *conn, char *dsn);
uint16_t hf__dsn_port(const struct hf__postgres *conn);

/* --- dial.c: how do we get to a server? --- */

int hf__dial_start(struct hf__postgres *conn);
/* Goes on; conn->connected: there is one. conn->ending: there is none to be had. */
void hf__dial_advance(struct hf__postgres *conn);
/* This server will not do, for the reason that is in base.error: true: another is tried. */
bool hf__dial_next_server(struct hf__postgres *conn);
void hf__dial_pollset(const struct hf__postgres *conn, struct hf__pollset *set);
void hf__dial_done(struct hf__postgres *conn);

/* --- inflow.c: how much may libpq read? --- */

void hf__inflow_begin(struct hf__postgres *conn);
/* false: the connection is cut. If the server sends without end, it ends. */
bool hf__inflow_read(struct hf__postgres *conn);
void hf__inflow_heard(struct hf__postgres *conn);           /* an answer, or a message */
size_t hf__inflow_waiting(const struct hf__postgres *conn); /* came, and was not read */

/* --- sqlstate.c: what does an error mean? --- */

/* HF_E*, with the text in conn->base.error; *out_kind: FAILED or UNKNOWN. The connection ends
 * where that is what it means. */
int hf__sqlstate_judge(struct hf__postgres *conn, const PGresult *result,
                       enum hf__reply_kind *out_kind);
/* Of a connection that libpq could not make. */
int hf__sqlstate_judge_connect(struct hf__postgres *conn);
/* Nothing is there by this name. */
bool hf__sqlstate_is_missing(const PGresult *result);
/* A setting that this server does not take. */
bool hf__sqlstate_is_refusal(const PGresult *result);
bool hf__sqlstate_is(const PGresult *result, const char *wanted);

/* --- errand.c: what is under way on this connection? --- */

/* Whatever came before it is sent off. */
struct hf__errand *hf__errand_new(struct hf__postgres *conn, enum hf__errand_kind kind,
                                  uint32_t tickets);
/* It was given to libpq (accepted: or not, and then the connection is at its end). */
int hf__errand_send(struct hf__postgres *conn, struct hf__errand *errand, int accepted);
/* Sends off what was given to libpq. */
void hf__errand_flush(struct hf__postgres *conn);
void hf__errand_free(struct hf__postgres *conn, struct hf__errand *errand);
void hf__errand_done(struct hf__postgres *conn);
/* The next that must be told that no answer came in time (or, while the connection ends, ever). 1:
 * *out_reply is for it; 0: none. */
int hf__errand_expire(struct hf__postgres *conn, uint64_t now_ns, struct hf__reply *out_reply);
int hf__errand_end_next(struct hf__postgres *conn, struct hf__reply *out_reply);

/* --- answer.c: whose is this answer, and what does it become? --- */

/* 1 with a reply; 0: nothing more has come. */
int hf__answer_next(struct hf__postgres *conn, struct hf__reply *out_reply);
/* A listing was sent: told before anything else is asked of libpq. */
void hf__answer_expect(struct hf__postgres *conn);
void hf__postgres_end(struct hf__postgres *conn, int status);
/* 1: the result is one text, *out_text. */
int hf__answer_text(const PGresult *result, const char **out_text);
void hf__postgres_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                        struct hf__reply *out_reply);

/* --- welcome.c: who is the server, and what does it promise? --- */

int hf__welcome_send(struct hf__postgres *conn);
int hf__welcome_ask_time(struct hf__postgres *conn);
/* The answer to a step; < 0, with conn->base.error: this server will not do. */
int hf__welcome_hear(struct hf__postgres *conn, const struct hf__errand *errand,
                     const PGresult *result);
/* A step is over; after the last the connection is up, or tables are made. */
int hf__welcome_arrive(struct hf__postgres *conn);

/* --- statement.c: the SQL, and what is in its parameters --- */

extern const char hf__statement_schema[]; /* with HF__DATABASE_PREFIX */
extern const char hf__statement_advisory[];
/* Is it prepared on this connection? */
bool hf__statement_is_for(const struct hf__postgres *conn, enum hf__statement statement);
/* The text with the prefix of this connection; to be freed; NULL: out of memory. */
char *hf__statement_prefixed(const struct hf__postgres *conn, const char *text);
/* The text of a statement, and its name. */
const char *hf__statement_text(enum hf__statement statement);
const char *hf__statement_name(enum hf__statement statement);
/* 1: libpq took it. */
int hf__statement_send(struct hf__postgres *conn, const struct hf__request *request);
int hf__statement_send_collected(struct hf__postgres *conn);
int hf__statement_send_list(struct hf__postgres *conn, const char *glob);
/* A step of a berth (NULL: IDLE, which is about the session). */
int hf__statement_send_step(struct hf__postgres *session, enum hf__statement statement,
                            const struct hf__berth *berth);

/* --- queue.c: the recipe: what do the answers mean? --- */

void hf__queue_hear(struct hf__postgres *conn, const struct hf__ticket *ticket, const char *answer,
                    struct hf__reply *out_reply);
/* False: it means nothing. */
bool hf__queue_news(const char *message, struct hf__reply *out_reply);
/* One row of a list; false: it is not asked for. */
bool hf__queue_entry(struct hf__postgres *conn, const PGresult *result, int row);

extern const struct hf__recipe hf__postgres_queue;

/* --- engine.c --- */

/* Sets out for a server, as `conn` did; main: it becomes a seat of this one. */
int hf__postgres_start(struct hf__postgres *conn, const struct hf__conn_options *options,
                       struct hf__postgres *main);
/* As an engine's advance(), for one connection. */
int hf__postgres_advance(struct hf__postgres *conn, uint64_t now_ns, struct hf__reply *out_reply);
void hf__postgres_await(struct hf__postgres *conn, struct hf__pollset *set);
void hf__postgres_finish(struct hf__postgres *conn);
/* A renewal, to be sent with others. */
int hf__postgres_collect(struct hf__postgres *conn, const struct hf__request *request);

/* --- berth.c: where does a claim of the recipe advisory stand, and which step does it take? --- */

#define HF__BERTH_ENDED "session ended"

static inline struct hf__berth *hf__berth_of(struct hf__entry *entry)
{
    return (struct hf__berth *)entry;
}

static inline struct hf__postgres *hf__berth_main(struct hf__postgres *session)
{
    return session->main ? session->main : session;
}

/* In ms, as the server is told; "0": for ever. */
void hf__berth_idle_text(uint64_t idle_ns, char out_text[24]);
void hf__berth_join(struct hf__postgres *session, struct hf__berth *berth);
void hf__berth_part(struct hf__postgres *conn, struct hf__berth *berth);
void hf__berth_set_timer(struct hf__postgres *conn, struct hf__berth *berth, uint64_t at_ns);
void hf__berth_step(struct hf__postgres *session, enum hf__statement statement,
                    struct hf__berth *berth);
void hf__berth_go_out(struct hf__postgres *conn, struct hf__berth *berth);
/* Nothing, unless the core asked. */
void hf__berth_answer(struct hf__postgres *conn, struct hf__berth *berth,
                      const struct hf__reply *reply);
void hf__berth_answer_plainly(struct hf__postgres *conn, struct hf__berth *berth,
                              enum hf__reply_kind kind);
void hf__berth_fail(struct hf__postgres *conn, struct hf__berth *berth, int status);
void hf__berth_leave(struct hf__postgres *conn, struct hf__berth *berth);
void hf__berth_enter(struct hf__berth *berth);
void hf__berth_look(struct hf__postgres *conn, struct hf__berth *berth);
void hf__berth_quit(struct hf__postgres *conn, struct hf__berth *berth);
/* A session that waits for a lock is ready to. */
void hf__berth_seated(struct hf__postgres *seat);

/* --- heard.c: what does the server's answer mean to a berth? --- */

/* The answer to a step. */
void hf__heard_step(struct hf__postgres *session, const struct hf__errand *errand,
                    const PGresult *result);
/* The answer to a renewal, as the core is about to hear it. */
void hf__heard_renewal(struct hf__postgres *session, const struct hf__reply *reply);
void hf__heard_message(struct hf__postgres *conn, const char *message);
/* It has the lock: whoever asks goes on, and who does not is told that it is worth to ask. */
void hf__heard_lock(struct hf__postgres *conn, struct hf__berth *berth);

/* --- advisory.c: a lock that is a session's: what does the core ask of it? --- */

/* 1: it is for the engine, as one statement. */
int hf__advisory_submit(struct hf__postgres *conn, const struct hf__request *request);
/* Whatever was asked, as far as it can be answered where the claim stands now. */
void hf__advisory_serve(struct hf__postgres *conn, struct hf__berth *berth);
/* For a session that can wait; other: whom this one's first session has it for. */
void hf__advisory_call(struct hf__postgres *conn, struct hf__berth *berth,
                       const struct hf__berth *other);
/* Does what is due; 1: *out_reply is for the core. */
int hf__advisory_advance(struct hf__postgres *conn, struct hf__reply *out_reply);
void hf__advisory_pollset(struct hf__postgres *conn, struct hf__pollset *set);
/* The session is over, with all that it had. */
void hf__advisory_bereft(struct hf__postgres *session);
void hf__advisory_done(struct hf__postgres *conn);

extern const struct hf__recipe hf__postgres_advisory;

static inline bool hf__postgres_is_advisory(const struct hf__postgres *conn)
{
    return conn->base.recipe == &hf__postgres_advisory;
}

/* --- seat.c: which other sessions are there to wait in? --- */

/* One for this berth, perhaps not connected yet; NULL: there is none. */
struct hf__postgres *hf__seat_take(struct hf__postgres *conn, struct hf__berth *berth);
void hf__seat_give_back(struct hf__postgres *seat);
/* Goes on with all of them; 1: *out_reply is for the core. */
int hf__seat_advance(struct hf__postgres *conn, struct hf__reply *out_reply);
void hf__seat_pollset(struct hf__postgres *conn, struct hf__pollset *set);
void hf__seat_done(struct hf__postgres *conn);

#endif
