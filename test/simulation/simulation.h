/* simulation.h: a world in which everything that may happen to the core happens, and nothing else.
 *
 *   world    one seed: a true time, a queue of events, one source of chance
 *   client   a process: the real core, its users, its clock, its memory
 *   user     a thread: claims, holds, nests, extends, gives back; one thing at a time
 *   store    a lock service as an engine sees it, with a clock of its own
 *   session  a connection between the two, as both ends know it
 *   attempt  what is known about one claim of a user's; record: about one claim id at the stores
 *   judge    sees all of it at every instant, and says what must never be
 *
 * True time runs from 0 in nanoseconds; nobody in the world can read it, only clocks that are a
 * little too fast or too slow. */
#ifndef SIMULATION_H
#define SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/core.h"
#include "dice.h"

#define NAMES_MAX    3
#define CLIENTS_MAX  5
#define USERS_MAX    4
#define STORES_MAX   5
#define NEST_MAX     3
#define ENTRIES_MAX  96
#define RECORD_HEADS 1024 /* a power of two */

#define MS HF__NS_PER_MS
#define S  HF__NS_PER_S

#define HEAL_AT_NS   (42 * S) /* faults end                                       */
#define DRAIN_AT_NS  (58 * S) /* no new claims                                    */
#define END_BY_NS    (118 * S)
#define CALM_NS      (10 * S) /* so long after the last fault nothing may go wrong */
#define CONNECT_NS   (2 * S)
#define LEASE_NS_MAX (4 * S)

enum kind {
    KIND_KERNEL,
    KIND_QUEUE,
    KIND_LEASE,
    KIND_CONNECTION,
    KIND_QUORUM3,
    KIND_QUORUM5,
};
#define KINDS 6

enum fault {
    FAULT_LOSS,
    FAULT_NEWS_LOSS,
    FAULT_DELAY,
    FAULT_DUPLICATE,
    FAULT_CUT_BEFORE,
    FAULT_CUT_AFTER,
    FAULT_CUT_LATE,
    FAULT_PARTITION,
    FAULT_STORE_CRASH,
    FAULT_STORE_AMNESIA,
    FAULT_STORE_FAILS,
    FAULT_CLIENT_CRASH,
    FAULT_CLIENT_CLOSE,
    FAULT_PAUSE,
    FAULT_PAUSE_IN_STEP,
    FAULT_DRIFT,
    FAULT_REFUSED_SUBMIT,
    FAULT_ALLOCATION,
};
#define FAULTS 18

/* What must have happened at least once in a long run, or the run has shown nothing. */
enum point {
    POINT_AMBIGUOUS_GRANTED,
    POINT_AMBIGUOUS_NOT_GRANTED,
    POINT_RELEASE_RETRY_NOT_THERE,
    POINT_DEAD_HEAD_PURGED,
    POINT_REQUEUED,
    POINT_APPOINTED,
    POINT_APPOINTED_CONFIRMED,
    POINT_LATE_GRANT_CONFIRMED,
    POINT_LATE_GRANT_GONE,
    POINT_LATE_ANSWER_DROPPED,
    POINT_LATE_REQUEST_REFUSED,
    POINT_HANDED_ON,
    POINT_HANDED_ON_32,
    POINT_HAND_ON_CROWDED,
    POINT_QUORUM_PHASE_2,
    POINT_QUORUM_SPLIT,
    POINT_QUORUM_STRAGGLER,
    POINT_QUORUM_ADMITTED,
    POINT_QUORUM_FOUNDED,
    POINT_QUORUM_HALF_FOUNDED,
    POINT_QUORUM_REJOINED,
    POINT_LOST_EXPIRED,
    POINT_LOST_MAX_HOLD,
    POINT_LOST_GONE,
    POINT_LOST_BROKEN,
    POINT_LOST_SESSION,
    POINT_LOST_CLOSED,
    POINT_LOST_AT_RELEASE,
    POINT_INTEGRITY,
    POINT_AT_RISK,
    POINT_SAFE_AGAIN,
    POINT_GRACE_KEPT,
    POINT_GRACE_OVER,
    POINT_NESTED,
    POINT_NESTED_UNDER_LOST,
    POINT_DEADLOCK,
    POINT_DOWNGRADED,
    POINT_EXTENDED,
    POINT_SHORTENED,
    POINT_SHORTENED_UNKNOWN,
    POINT_CANCELLED,
    POINT_CANCELLED_TOO_LATE,
    POINT_BUSY,
    POINT_TIMED_OUT,
    POINT_UNREACHABLE,
    POINT_UNKNOWN,
    POINT_RELEASE_UNKNOWN,
    POINT_NO_MEMORY,
    POINT_SHARED_TOGETHER,
    POINT_BROKEN,
    POINT_BREAK_TOO_LATE,
    POINT_LISTED,
    POINT_RECONNECTED,
    POINT_EVENT_REPLACED,
    POINT_EVENT_RELEASED,
    POINT_ABANDONED,
    POINT_TAKEN_BRIEFLY,
    POINT_GIVEN_BRIEFLY,
    POINT_FETCHED,
};
#define POINTS 59

struct tally {
    uint64_t seeds;
    uint64_t grants;
    uint64_t events;
    uint64_t requests;
    uint64_t faults[FAULTS];
    uint64_t points[POINTS];
    uint64_t kinds[KINDS];
};

struct timepiece {
    uint64_t base_ns;
    int64_t ppm; /* faster than true time by so much */
};

/* --- what travels --- */

struct question {
    struct hf__ticket ticket;
    int name;
    int client;
    uint32_t life;   /* of the client */
    uint64_t serial; /* of the session */
    uint8_t token[HF__TOKEN_BYTES];
    int mode;
    bool queueing;
    bool ends;
    bool shorten;
    bool repeated; /* a second copy, made by the network */
    uint64_t lease_ns;
    uint64_t grace_ns;
    uint64_t fence;
    uint64_t not_after_ns; /* true time */
};

enum letter_kind {
    LETTER_HELLO,
    LETTER_WELCOME,
    LETTER_RESET,
    LETTER_QUESTION,
    LETTER_ANSWER,
};

struct letter {
    enum letter_kind kind;
    uint64_t serial;
    struct question question;
    struct hf__reply reply;
    struct hf__holder holder;
    struct hf_holding entry;
    uint64_t end_ns; /* kernel: of a turn that ends by itself */
    bool held;       /* it was under way when the connection was cut, and comes late */
    struct letter *next;
};

enum event_kind {
    EVENT_STEP,
    EVENT_USER,
    EVENT_LETTER,
    EVENT_FAULT,
    EVENT_RESUME,
    EVENT_STORE_UP,
    EVENT_STORE_TIMER,
    EVENT_NOTICE,
    EVENT_CLIENT_UP,
    EVENT_PHASE,
};

struct event {
    uint64_t at_ns;
    uint64_t order;
    enum event_kind kind;
    uint32_t who;
    uint64_t what;
    struct letter *letter;
};

struct calendar {
    struct event *events;
    size_t count;
    size_t room;
    uint64_t next_order;
};

struct session {
    int client;
    uint32_t life; /* of the client */
    size_t store;
    uint32_t epoch; /* of the store: a restart ends all */
    bool cut_at_client;
    bool known; /* the client has noticed that it is cut */
    bool cut_at_store;
    bool drops_requests; /* cut: what is under way does not arrive */
    uint64_t late_ns;    /* cut: what is under way arrives so much later */
    uint64_t ordered_up_ns;
    uint64_t ordered_down_ns;
    struct hf__conn *conn; /* NULL: the client has closed it */
};

/* --- stores --- */

enum ending { ENDING_NONE, ENDING_RELEASED, ENDING_EXPIRED, ENDING_BROKEN, ENDING_FORGOTTEN };

struct entry {
    uint8_t token[HF__TOKEN_BYTES];
    bool owner;
    bool broken; /* its grace runs */
    bool ends;
    int client;
    uint32_t life;
    int mode;
    uint64_t claim_id;
    uint64_t serial;
    uint64_t number; /* order of arrival */
    uint64_t lease_ns;
    uint64_t grace_ns;
    uint64_t end_ns; /* store's clock: of the turn, or the waiter's deadline; HF__NEVER: none */
    uint64_t fence;
    uint64_t since_ns; /* true time, in this line */
    uint32_t passed[CLIENTS_MAX];
};

struct shelf {
    struct entry entries[ENTRIES_MAX]; /* by order of arrival */
    size_t count;
    uint64_t counter;
    struct {
        int client;
        uint32_t life;
        uint64_t claim_id;
    } curious[16]; /* lease: who was refused and wants news */
    size_t curious_count;
};

struct store {
    size_t index;
    struct timepiece clock;
    bool up;
    bool doubted;              /* of a quorum: it is new or has forgotten, and is not counted */
    bool is_founding;          /* and it knows that it never was */
    uint64_t up_since_ns;      /* true time */
    uint64_t longest_lease_ns; /* that it was ever asked for */
    uint32_t epoch;
    uint64_t next_number;
    struct shelf shelves[NAMES_MAX];
};

/* --- clients --- */

struct attempt {
    int client;
    int user;
    int name;
    int mode;
    int64_t wait_ms;
    int status; /* HF_PENDING, then final */
    uint64_t started_ns;
    uint64_t number;      /* the core's order of arrival */
    uint64_t fence_floor; /* what its client had seen before it began */
    bool heard_busy;
    bool busy_at_home; /* others of its client were there before it */
    bool asked_store;
    bool unknown;   /* a CLAIM of it was left without an answer */
    bool confirmed; /* a RENEW went out before it was held */
    bool appointed; /* was told so */
    bool cancelled;
    bool lost_place;                /* GONE while waiting */
    uint8_t token[HF__TOKEN_BYTES]; /* of its last CLAIM */
};

struct record {
    uint8_t token[HF__TOKEN_BYTES];
    int client;
    int name;
    size_t attempt;
    uint32_t claims_under_way; /* copies of CLAIM that may still be executed */
    enum ending endings[STORES_MAX];
    bool granted[STORES_MAX];
    bool crowded;
    uint64_t crowded_number; /* claims from this one on came after the news */
    bool released_unanswered;
    uint64_t chain;
};

enum user_state {
    USER_IDLE,
    USER_WAITING,
    USER_HOLDING,
    USER_ASKING,  /* extend or downgrade */
    USER_LEAVING, /* the last handle is being released */
    USER_LOOKING, /* list or break */
};

struct user {
    int index;
    enum user_state state;
    uint64_t next_ns; /* when it acts again */
    int name;
    int mode; /* as far as it relies on it: shared once a downgrade was asked for */
    int owner_kind;
    bool fixed_lease;
    bool max_hold;
    bool handed_on;          /* the release was answered without asking the store */
    uint64_t max_hold_ns;    /* 0: none */
    uint64_t max_until_ns;   /* by its own clock it may not be valid beyond: maximal hold ... */
    uint64_t fixed_until_ns; /* ... or fixed lease */
    bool broken;             /* the store has taken it away: no promise holds any more */
    bool downgrading;
    bool lowered_perhaps; /* a downgrade was left without an answer */
    bool lost_told;       /* the event was fetched */
    int pending_event;    /* kind of the one that waits to be fetched; 0: none */
    bool valid_before;    /* when the release was asked for */
    uint64_t valid_until_ns;
    bool granted_told; /* the event GRANTED was fetched */
    bool seen_over;    /* was not valid by the clock */
    bool lost;         /* was seen to be lost: for good */
    uint64_t lease_ns;
    uint64_t fence;
    uint64_t granted_ns;
    uint64_t asked_ns; /* true time of the question under way */
    uint64_t extend_ns;
    bool extend_shortens;
    const char *lost_cause; /* as the hold had it when the release was asked for */
    uint8_t token[HF__TOKEN_BYTES];
    size_t attempt;
    struct hf_claim *claim;
    struct hf_grant *grants[NEST_MAX];
    size_t grant_count;
    struct hf_grant *leaver;
    bool announced; /* the answer to the release comes as an event */
    struct hf__operation *operation;
    bool breaking;
};

enum client_state { CLIENT_DOWN, CLIENT_UP, CLIENT_CLOSING };

struct block; /* memory of a client's, in a list */

struct client {
    struct world *world;
    int index;
    uint32_t life;
    enum client_state state;
    struct timepiece clock;
    struct hf__env env;
    struct hf__core *core;
    struct block *blocks;
    size_t block_count;
    struct dice dice; /* what the core gets as randomness */
    struct user users[USERS_MAX];
    int user_count;
    bool caller_driven;
    bool eager;            /* users come back at once */
    uint64_t step_at_ns;   /* true time; HF__NEVER: none is planned */
    uint64_t paused_until; /* true time; 0: runs */
    uint64_t stale_ns;     /* 0, or the clock as read before the pause */
    uint64_t seen_ns;      /* its clock as it was read last */
    uint64_t close_by_ns;
    uint64_t serials[HF__LANES][STORES_MAX]; /* of its sessions; 0: none */
    uint64_t fence_seen[NAMES_MAX];
    uint64_t acquired, busy, timed_out, handed_on;
    uint64_t half_lease_ns[NAMES_MAX]; /* of the turn that was released last, at ... */
    uint64_t released_ns[NAMES_MAX];
    struct hf__wake wake;
};

/* What chance decided about this seed before it began. */
struct plan {
    enum kind kind;
    uint32_t faults; /* bits */
    int clients;
    int names;
    size_t stores;
    uint64_t latency_ns;
    uint64_t lease_ns;
    uint64_t think_ns;
    uint64_t hold_ns;
    uint64_t fault_gap_ns;
    bool news_grants; /* the releaser's message says GRANTED; false: CHANGED */
    bool wakes;       /* lease: refused clients get news */
    bool forgets_fences;
    bool begins;  /* a quorum that was never one before */
    bool hurries; /* now and then each client has a name of its own, and users in a hurry */
};

enum phase { PHASE_SAFETY, PHASE_HEALING, PHASE_DRAINING, PHASE_CLOSING };

struct world {
    uint64_t seed;
    uint64_t now_ns;
    enum phase phase;
    struct plan plan;
    struct dice dice;
    struct hf__url url;
    struct calendar calendar;
    struct store stores[STORES_MAX];
    struct client clients[CLIENTS_MAX];
    uint64_t window_ns[FAULTS]; /* a fault that lasts is on until then */
    int partition_client;
    size_t partition_store;
    uint64_t last_fault_ns; /* HF__NEVER: none yet */
    struct letter *spare_letters;
    struct session *sessions;
    size_t session_count, session_room;
    struct attempt *attempts;
    size_t attempt_count, attempt_room;
    struct record *records;
    size_t record_count, record_room;
    uint64_t *record_heads;
    uint64_t fence_any[NAMES_MAX];
    uint64_t fence_exclusive[NAMES_MAX];
    uint64_t last_shared[NAMES_MAX][16];
    size_t last_shared_count[NAMES_MAX];
    uint64_t grants;
    uint64_t grants_in_phase;
    uint64_t hash;
    struct tally *tally;
    FILE *trace;
    bool violated;
    int violated_name; /* -1: none in particular */
    char violation[512];
};

/* --- world.c: one seed from beginning to end --- */

struct world *world_new(struct tally *tally, FILE *trace);
void world_free(struct world *world);
/* True: nothing was violated. `kind` < 0: drawn. */
bool world_run(struct world *world, uint64_t seed, int kind);
uint64_t world_clock(const struct timepiece *clock, uint64_t true_ns);
/* The first true instant at which the clock shows at least this. */
uint64_t world_when(const struct timepiece *clock, uint64_t clock_ns);
bool world_chance(struct world *world, unsigned percent);
uint64_t world_between(struct world *world, uint64_t low, uint64_t high); /* both included */
void world_mix(struct world *world, uint64_t number);
void world_point(struct world *world, enum point point);
bool world_calm(const struct world *world);

/* --- report.c: words for what happened --- */

const char *report_fault(enum fault fault);
const char *report_point(enum point point);
const char *report_kind(enum kind kind);
const char *report_request(enum hf__request_kind kind);
const char *report_reply(enum hf__reply_kind kind);
void report_line(struct world *world, int name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define TRACE(world, name, ...)                                                                    \
    do {                                                                                           \
        if ((world)->trace)                                                                        \
            report_line((world), (name), __VA_ARGS__);                                             \
    } while (0)

/* --- calendar.c --- */

void calendar_add(struct world *world, struct event event);
bool calendar_take(struct world *world, struct event *out_event);

/* --- network.c: letters between clients and stores --- */

struct letter *network_letter(struct world *world, enum letter_kind kind, uint64_t serial);
void network_drop(struct world *world, struct letter *letter);
uint64_t network_open(struct client *client, size_t store, struct hf__conn *conn);
void network_close(struct world *world, uint64_t serial);
void network_know(struct world *world, uint64_t serial); /* that it is cut */
void network_ask(struct world *world, uint64_t serial, const struct question *question);
/* From a store; `letter` is handed over. */
void network_answer(struct world *world, struct letter *letter);
void network_arrive(struct world *world, struct letter *letter);
void network_cut(struct world *world, uint64_t serial, enum fault how);
void network_cut_store(struct world *world, size_t store);
void network_cut_client(struct world *world, struct client *client);
/* Which session carries news to this client; 0: none. */
uint64_t network_channel(const struct world *world, int client, size_t store);

/* --- engine.c: the seam --- */

extern const struct hf__engine engine_simulated;
const struct hf__recipe *engine_recipe(enum kind kind);
void engine_receive(struct hf__conn *conn, struct letter *letter);
void engine_drop(struct hf__conn *conn); /* the process is dead: no close() */

/* --- witness.c: what a client asks and hears, noted for the judge --- */

void witness_question(struct client *client, const struct question *question);
void witness_reply(struct client *client, const struct hf__reply *reply);

/* --- store.c: who holds, who waits, as the store sees it --- */

void store_start(struct world *world, size_t index);
/* False: it was refused unread. */
bool store_answer(struct world *world, struct store *store, const struct question *question);
/* Within the call: 1 if it was done, with the fence; 0: nothing has happened. */
int store_prompt(struct world *world, const struct question *question, uint64_t *out_fence);
void store_settle(struct world *world, struct store *store, int name, const struct entry *asker);
void store_forget(struct world *world, struct store *store, bool fences_too);
void store_bury(struct world *world, struct store *store, int client);
void store_notice(struct world *world, struct store *store, uint64_t serial);
uint64_t store_clock(const struct world *world, const struct store *store);

/* --- client.c: a process --- */

void client_start(struct world *world, int index);
void client_step(struct client *client);
void client_plan_step(struct client *client, uint64_t at_ns);
void client_wake(struct client *client); /* something arrived for it */
void client_crash(struct client *client);
void client_pause(struct client *client, uint64_t for_ns, bool in_step);
void client_resume(struct client *client);
void client_close(struct client *client);
uint64_t client_now(const struct client *client);
bool client_runs(const struct client *client);

/* --- user.c: what people do with locks --- */

void user_act(struct client *client, struct user *user);
/* After a step: look at the answers. */
void user_look(struct client *client, struct user *user);
void user_event(struct client *client, const struct hf_event *event);
void user_plan(struct client *client, struct user *user, uint64_t in_ns);

/* --- fault.c: what goes wrong --- */

void fault_draw(struct world *world, int kind);
void fault_strike(struct world *world);
void fault_heal(struct world *world);
/* The stores of a new quorum are started one after the other, perhaps amid faults. */
void fault_begin(struct world *world);
bool fault_on(struct world *world, enum fault fault); /* its window is open */
void fault_count(struct world *world, enum fault fault);

/* --- record.c: what is known about claims --- */

size_t record_attempt(struct world *world, const struct attempt *attempt);
struct record *record_find(struct world *world, const uint8_t *token);
struct record *record_get(struct world *world, const uint8_t *token);

/* --- judge.c: what must never be --- */

void judge_violation(struct world *world, int name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool judge_busy_at_home(const struct client *client, const struct user *user);
void judge_grant(struct client *client, struct user *user, const struct attempt *attempt);
void judge_answer(struct client *client, struct user *user, struct attempt *attempt, int status);
void judge_asking(struct client *client, struct user *user, int status);
void judge_operation(struct client *client, struct user *user, int status);
void judge_release(struct client *client, struct user *user, int status);
void judge_exclusion(struct world *world);
void judge_client(struct client *client, uint64_t now_ns);
void judge_stored_grant(struct world *world, const struct store *store, const struct entry *entry);
void judge_loss(struct client *client, struct user *user, const char *cause);
void judge_done(struct client *client);
void judge_purged(struct world *world, int name, const struct entry *entry);
void judge_broken(struct world *world, const uint8_t *token);
void judge_orphans(struct world *world);
void judge_end(struct world *world);

#endif
