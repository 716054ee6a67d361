/* core.h: one client, seen from inside: names, claims, turns, holds and what connects them.
 *
 *   claim  one attempt of a user's on one name, until it has its final answer
 *   turn   one claim at the store: the ONE state machine (turn.c)
 *   hold   one possession by one owner: valid until when, with which fence; carried by a turn
 *   grant  a user's handle on a hold; nested acquires have several handles on one hold
 *   name   what this client knows about one lock: its queue, its holds, its turns, the last fence
 *
 * Nothing here reads a clock, blocks or starts a thread: time is handed in, answers are fetched
 * from the connections by hf__core_step, and what the users have to know is left in the objects (a
 * final status, a wake word rung, an event in the queue). The caller serialises all calls. */
#ifndef HF_CORE_CORE_H
#define HF_CORE_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/wake.h"
#include "core/driver.h"
#include "engine/engine.h"
#include "holdfast/holdfast.h"

#define HF__WAITERS_MAX    65536u   /* per name and per client                      */
#define HF__GRANTS_MAX     1048576u /* per client                                   */
#define HF__NAMES_KEPT     65536u   /* names whose last fence is remembered         */
#define HF__SPARES_MAX     256u     /* claims and grants kept for the next acquire  */
#define HF__RENEWALS       3u       /* in one lease                                 */
#define HF__HAND_ON_MAX    32u      /* local hand-offs within one turn              */
#define HF__OWNER_BYTES    1025u    /* an owner's name, with the NUL                */
#define HF__FENCE_MAX      (1ull << 62)
#define HF__HOLD_MS_MAX    31622400000ll /* 366 days: the longest maximal hold */
#define HF__CAUSE_EXPIRED  "expired"
#define HF__CAUSE_MAX_HOLD "max hold"
#define HF__CAUSE_GONE     "gone from the store"
#define HF__CAUSE_CLOSED   "client closed"

#define HF__ASK_NS_MAX (5 * HF__NS_PER_S) /* no store accepts a claim that is older */

struct hf__core;
struct hf__name;
struct hf__turn;
struct hf__hold;

/* Who may nest: nobody, a thread by its serial number, or a name. */
struct hf__owner {
    int kind; /* enum hf_owner */
    uint64_t thread;
    const char *name;
};

/* An answer that somebody may wait for: HF_PENDING, then final. */
struct hf__answer {
    int status;
    struct hf__wake wake;
};

/* The one event that is pending for a handle, claim or grant. */
struct hf__note {
    struct hf__list place; /* in core->notes, or alone */
    struct hf_event event;
};

/* What a claim is made of, checked and with its defaults filled in by the api. */
struct hf__terms {
    int mode;
    struct hf__owner owner;
    int64_t wait_ms; /* HF_FOREVER, 0: try once */
    uint64_t lease_ns;
    uint64_t max_hold_ns; /* 0: none */
    uint64_t grace_ns;
    bool fixed_lease;
    bool blocking; /* a thread waits for it at once, and wants no GRANTED event */
    const char *purpose;
    void *user;
};

struct hf_claim {
    struct hf__core *core;
    void *client; /* the api's */
    struct hf__name *name;
    struct hf__list place;  /* in name->waiting while it is pending */
    struct hf__list member; /* in core->claims: every claim that is not freed */
    struct hf__turn *turn;  /* that stands for it at the store; NULL: queued locally */
    struct hf_grant *grant; /* won, not yet fetched */
    struct hf__answer answer;
    struct hf__wake *bell; /* where to wait: answer.wake, or the store's own word */
    struct hf__heap_node timer;
    struct hf__terms terms; /* with its own copies of the texts */
    char *owner_name;
    uint64_t number; /* order of arrival in this client */
    uint64_t wait_until_ns;
    uint64_t reach_until_ns; /* by when the store must have answered once; HF__NEVER: not asked */
    uint64_t retry_at_ns;    /* HF__NEVER, or when a refused claim asks with a new turn */
    uint32_t tries;
    uint32_t ahead;
    bool heard_busy;   /* an answer said that others hold it */
    bool heard_here;   /* ... to a claim of this client that it was queued behind */
    bool perhaps_done; /* a question was left without an answer */
    struct hf__holder holder;
    struct hf__note note;
    char purpose[HF__PURPOSE_BYTES];
    char error[HF__ERROR_BYTES];
};

struct hf_grant {
    struct hf__core *core; /* NULL once the client is closed */
    void *client;
    struct hf__hold *hold;
    struct hf__list place;    /* in hold->grants */
    struct hf__answer answer; /* of release, extend or downgrade, one at a time */
    struct hf__note note;
    void *user;
    int mode; /* as asked: shared under exclusive says shared */
    bool releasing;
    bool announces; /* RELEASED is wanted, and ends the memory */
    bool abandoned; /* nobody wants the answer */
};

struct hf__hold {
    struct hf__list place; /* in name->holds */
    struct hf__list grants;
    struct hf__name *name;
    struct hf__turn *turn; /* NULL: lost, and the store has nothing of it any more */
    struct hf__owner owner;
    char *owner_name;
    uint32_t grant_count;
    int mode;
    uint64_t fence;
    _Atomic uint64_t valid_until_ns; /* 0: not valid; read without the mutex */
    _Atomic uint64_t lease_ns;       /* what remaining_ms says where nothing ends by itself */
    uint64_t end_ns;                 /* fixed lease or maximal hold; HF__NEVER: none */
    bool end_is_lease;      /* the end moves with the lease (fixed lease); false: maximal hold */
    uint64_t latest_ns;     /* the maximal hold, which no extend moves; HF__NEVER: none */
    const char *lost_cause; /* NULL: not lost */
    bool asked;             /* the api's: an extend or downgrade is under way */
};

enum hf__turn_state {
    HF__TURN_IDLE,
    HF__TURN_ASKING,
    HF__TURN_WAITING,
    HF__TURN_HELD,
    HF__TURN_DOUBTED,
    HF__TURN_LEAVING,
    HF__TURN_LOST,
};

struct hf__turn {
    enum hf__turn_state state;
    uint64_t id;
    uint32_t round;               /* the question whose answer counts */
    enum hf__request_kind asking; /* under way, or HF__REQUEST_NONE */
    uint8_t token[HF__TOKEN_BYTES];
    struct hf__core *core;
    struct hf__name *name;
    struct hf__list place;   /* in name->turns */
    struct hf__list waiting; /* in core->waiting_turns while WAITING */
    struct hf_claim *claim;  /* ASKING, WAITING: for whom */
    struct hf__hold *hold;   /* HELD, DOUBTED, LOST: whose */
    struct hf__heap_node timer;
    struct hf__ballot ballot;
    int mode;
    bool ends;
    bool calls; /* its CLAIM travels with the calls: somebody blocks on it */
    bool others_wait;
    bool lowered;         /* a DOWNGRADE has been asked for and not confirmed */
    bool lowered_perhaps; /* ... and one was left without an answer */
    bool overtaken;       /* the asker's question was put again before it was answered */
    bool
        left_unanswered; /* a RELEASE sent while valid got no answer: a later "not there" is ours */
    bool at_risk;        /* AT_RISK was told */
    uint64_t lease_ns;
    uint64_t grace_ns;
    uint64_t asked_ns;        /* when the question under way was sent */
    uint64_t asked_lease_ns;  /* ... and the lease that it asks for */
    uint64_t heard_ns;        /* when the last answered CLAIM or INSPECT was sent */
    uint64_t stored_until_ns; /* the store keeps nothing of it beyond; HF__NEVER: only we end it */
    uint64_t valid_until_ns;
    uint64_t renew_at_ns;
    uint64_t fence;
    uint64_t fence_floor;    /* known before the first question was sent */
    uint64_t fence_passed;   /* given out by the store when it said that we wait */
    uint64_t proposal;       /* of a quorum's next CLAIM; 0: the driver's */
    uint64_t leave_until_ns; /* by when the leaver gets its answer */
    uint64_t ask_again_ns;   /* HF__NEVER, or when the question is put again */
    int refused; /* a request that was not even taken: its status, until the next step */
    uint64_t extend_lease_ns; /* of an extend under way; 0: none */
    uint32_t tries;
    uint32_t handed_on;
    uint64_t hand_on_until;  /* once others wait: claims with a smaller number may still get it */
    struct hf_grant *leaver; /* waits for the answer to RELEASE */
    struct hf_grant *asker;  /* waits for the answer to extend or downgrade */
    struct hf__turn *next_free;
};

struct hf__name {
    struct hf__name *chain;
    struct hf__list idle; /* in core->idle_names while nothing uses it */
    struct hf__list waiting;
    struct hf__list holds;
    struct hf__list turns;
    uint64_t hash;
    uint64_t fence_seen;
    uint64_t busy_before; /* claims with a smaller number were here when it was found to be held */
    uint32_t waiting_count;
    uint32_t claim_count; /* that point here, pending or not */
    size_t bytes;
    char text[];
};

/* LIST or BREAK: answered once, then freed by whoever started it. Of a quorum, all stores are
 * asked, and what a majority says is the answer. */
struct hf__operation {
    struct hf__list place; /* in core->operations */
    struct hf__list entries;
    uint64_t id;
    struct hf__request request; /* its texts are the caller's, who waits */
    uint64_t ask_until_ns;      /* so long a store may take to come up */
    uint32_t unasked;           /* stores, a bit each */
    uint32_t open;              /* stores that were asked and have not answered */
    uint32_t done;
    uint32_t gone;
    uint32_t unsure;                /* BREAK: something is held there that may be the turn's ... */
    uint64_t turns[HF_SERVERS_MAX]; /* ... or these turns' */
    bool known;                     /* BREAK: the fence, to one of them */
    int failure;                    /* what one of the others said, or HF_OK */
    struct hf__answer answer;
    char error[HF__ERROR_BYTES];
};

struct hf__entry {
    struct hf__list place;
    uint32_t votes;            /* stores that told it */
    struct hf_holding holding; /* its texts are in `texts` */
    char texts[];
};

struct hf__core_options {
    const struct hf__url *url;
    const char *purpose;
    uint64_t lease_ns;
    uint64_t connect_ns;
    bool caller_driven;
    uint64_t now_ns;
    uint64_t wall_us; /* at now_ns; for fences that are proposed, never for time */
};

/* Who is to be called when the mutex is free. */
#define HF__RINGS_MAX 32
struct hf__rings {
    struct hf__wake *wakes[HF__RINGS_MAX];
    uint32_t count;
};

struct hf__core {
    const struct hf__env *env;
    struct hf__rings rings;
    const struct hf__recipe *recipe;
    struct hf__driver driver;
    struct hf__heap turn_timers;
    struct hf__heap claim_timers;
    struct hf__list notes;
    struct hf__list claims;
    struct hf__list operations;
    struct hf__list waiting_turns;
    struct hf__list idle_names;
    struct hf__name **buckets;
    size_t bucket_count;
    size_t name_count;
    size_t idle_count;
    uint64_t hash_seed;
    struct hf__turn **turns; /* by index in the id */
    size_t turn_room;
    size_t turn_count;
    struct hf__turn *free_turns;
    struct hf__list free_holds;
    struct hf__list free_claims; /* a few, so that an acquire need not allocate */
    struct hf__list free_grants;
    uint32_t free_claim_count;
    uint32_t free_grant_count;
    struct hf_claim *fresh; /* has just asked, and has no timer yet */
    uint64_t next_number;
    uint64_t refresh_at_ns;
    uint64_t random_state;
    uint64_t connect_ns;
    uint64_t lease_ns;
    uint32_t required; /* HF_PROMISE_*: grants without them are refused */
    char purpose[HF__PURPOSE_BYTES];
    struct hf_client_stats stats;
    bool closing;
};

/* --- core.c: the client as a whole --- */

int hf__core_init(struct hf__core *core, const struct hf__env *env,
                  const struct hf__core_options *options, char error[HF__ERROR_BYTES]);
void hf__core_done(struct hf__core *core);

/* Fetch what the stores answered, and do what is due. Call it after every wait, and after every
 * request below. */
void hf__core_step(struct hf__core *core, uint64_t now_ns);
/* Only until the answer is there: true. False: it was not there to fetch, and a step is still
 * owed. */
bool hf__core_fetch(struct hf__core *core, const struct hf__answer *answer, uint64_t now_ns);
/* When a step is due though nothing happens. */
uint64_t hf__core_deadline(const struct hf__core *core);
/* Cancels every claim, gives back every turn; what is not confirmed goes on until
 * `hf__core_idle`. */
void hf__core_close(struct hf__core *core, uint64_t now_ns);
bool hf__core_idle(const struct hf__core *core);
/* Whoever still waits for the answer to a release gets HF_EUNKNOWN. */
void hf__core_forsake(struct hf__core *core);

/* --- claim.c: attempts and the local queue --- */

/* HF_OK: the claim is started, perhaps answered already; the caller must hf__core_step. */
int hf__claim_start(struct hf__core *core, const char *text, const struct hf__terms *terms,
                    uint64_t now_ns, struct hf_claim **out_claim);
void hf__claim_cancel(struct hf_claim *claim, uint64_t now_ns);
/* Frees a claim that has its answer and whose grant was fetched. */
void hf__claim_free(struct hf_claim *claim);
/* Final. `format` may be NULL. */
void hf__claim_finish(struct hf_claim *claim, int status, uint64_t now_ns);
void hf__claim_win(struct hf_claim *claim, struct hf__turn *turn, uint64_t now_ns);
void hf__claim_due(struct hf_claim *claim, uint64_t now_ns);
void hf__claim_set_timer(struct hf_claim *claim);
/* Sends to the store those waiting claims whose time has come. */
void hf__claim_serve(struct hf__core *core, struct hf__name *name, uint64_t now_ns);
/* The waiting claim that this turn may be handed to without asking the store; NULL: none. */
struct hf_claim *hf__claim_next_local(const struct hf__turn *turn, uint64_t now_ns);

/* --- brief.c: a lock that nobody else wants --- */

/* NULL: not this way, and nothing has happened that a step would not undo: start a claim. The time
 * is only shown to people: nothing ends by it. */
struct hf_grant *hf__brief_take(struct hf__core *core, const char *text,
                                const struct hf__terms *terms, void *client, uint64_t now_ns);
/* Ends the handle; false: not this way, and nothing has happened. */
bool hf__brief_give(struct hf_grant *grant, uint64_t now_ns);

/* --- turn.c: the life of one claim at the store --- */

int hf__turn_new(struct hf_claim *claim, struct hf__turn **out_turn);
void hf__turn_ask(struct hf__turn *turn, uint64_t now_ns);
void hf__turn_due(struct hf__turn *turn, uint64_t now_ns);
void hf__turn_refresh(struct hf__turn *turn, uint64_t now_ns);
/* Where the store is at hand: asks for a lock that may be free. It is ours by the store, with this
 * fence; NULL: it is not, and nothing is left behind. */
struct hf__turn *hf__turn_try(struct hf__core *core, struct hf__name *name,
                              const struct hf__terms *terms, uint64_t now_ns, uint64_t *out_fence);
/* Gives back what is ours by the store, and ends the turn; false: not at once, and nothing has
 * happened. */
bool hf__turn_quit(struct hf__turn *turn, uint64_t now_ns);
/* Gives it back, or undoes it, until that is confirmed. */
void hf__turn_leave(struct hf__turn *turn, uint64_t now_ns);
void hf__turn_extend(struct hf__turn *turn, uint64_t lease_ns, uint64_t now_ns);
void hf__turn_lower(struct hf__turn *turn, uint64_t now_ns);
void hf__turn_free(struct hf__turn *turn);
struct hf__turn *hf__turn_find(const struct hf__core *core, uint64_t id);
const char *hf__turn_state_name(enum hf__turn_state state);
/* For hear.c: the only places where a state changes, a question is sent, a timer set. */
void hf__turn_move(struct hf__turn *turn, enum hf__turn_state next);
void hf__turn_send(struct hf__turn *turn, enum hf__request_kind kind, uint64_t now_ns);
/* Asks whether it is still ours, by what is to be asked anyway: extend, downgrade, or renew. */
void hf__turn_verify(struct hf__turn *turn, uint64_t now_ns);
void hf__turn_set_timer(struct hf__turn *turn);

/* --- hear.c: what an answer means --- */

void hf__hear_reply(struct hf__turn *turn, const struct hf__reply *reply, uint64_t now_ns);
/* The answer to hf__turn_try: false: it is not to be believed, and the turn must leave. */
bool hf__hear_prompt(struct hf__turn *turn, uint64_t fence);
/* `gone`: the store has nothing of it any more. */
void hf__hear_loss(struct hf__turn *turn, const char *cause, bool gone, uint64_t now_ns);
void hf__hear_leaver(struct hf__turn *turn, int status);

/* --- hold.c: possession, and its loss --- */

struct hf__hold *hf__hold_find(const struct hf__name *name, const struct hf__owner *owner);
int hf__hold_new(struct hf_claim *claim, struct hf__turn *turn, uint64_t now_ns);
/* The same without a claim; NULL: out of memory. */
struct hf_grant *hf__hold_take(struct hf__turn *turn, const struct hf__terms *terms, void *client,
                               uint64_t now_ns);
/* Ends the handle if the store can say so at once; false: nothing has happened. */
bool hf__hold_give(struct hf_grant *grant, uint64_t now_ns);
int hf__hold_nest(struct hf__hold *hold, struct hf_claim *claim);
/* Of a fixed lease: here it ends, or earlier, at the maximal hold. */
void hf__hold_end(struct hf__hold *hold, uint64_t end_ns);
void hf__hold_set_validity(struct hf__hold *hold, uint64_t valid_until_ns);
void hf__hold_lose(struct hf__hold *hold, const char *cause, uint64_t now_ns);
void hf__hold_tell(struct hf__hold *hold, int event_kind, uint64_t now_ns);
bool hf__hold_valid(const struct hf__hold *hold, uint64_t now_ns);
/* By the clock alone; only while it has its turn. And by which end. */
bool hf__hold_ended(const struct hf__hold *hold, uint64_t now_ns);
const char *hf__hold_cause(const struct hf__hold *hold, uint64_t now_ns);
/* Ends the handle. grant->answer is final at once, or when the store has answered. */
void hf__hold_release(struct hf_grant *grant, uint64_t now_ns);
void hf__hold_extend(struct hf_grant *grant, uint64_t lease_ns, uint64_t now_ns);
void hf__hold_downgrade(struct hf_grant *grant, uint64_t now_ns);
/* Releases a handle that nobody has: no answer, no event. It is freed. */
void hf__hold_abandon(struct hf_grant *grant, uint64_t now_ns);
void hf__hold_answer(struct hf_grant *grant, int status);
/* Frees a handle whose release has its answer. */
void hf__hold_free_grant(struct hf_grant *grant);

/* --- names.c: what is known by name --- */

int hf__names_get(struct hf__core *core, const char *text, size_t bytes,
                  struct hf__name **out_name);
/* Call when something that used the name has gone. */
void hf__names_settle(struct hf__core *core, struct hf__name *name);
void hf__names_done(struct hf__core *core);

/* --- events.c: what the user has to know, in order --- */

void hf__events_put(struct hf__core *core, struct hf__note *note, const struct hf_event *event);
bool hf__events_take(struct hf__core *core, struct hf_event *out_event,
                     struct hf_grant **out_ended);
void hf__events_drop(struct hf__note *note);
void hf__events_ring(struct hf__core *core, struct hf__wake *wake);
void hf__events_answer(struct hf__core *core, struct hf__answer *answer, int status);

/* --- operation.c: for people who look after locks --- */

int hf__operation_list(struct hf__core *core, const char *glob, uint64_t now_ns,
                       struct hf__operation **out_operation);
int hf__operation_break(struct hf__core *core, const char *name, uint64_t fence, uint64_t now_ns,
                        struct hf__operation **out_operation);
void hf__operation_hear(struct hf__core *core, const struct hf__reply *reply);
void hf__operation_step(struct hf__core *core, uint64_t now_ns); /* asks who has come up since */
uint64_t hf__operation_deadline(const struct hf__core *core);
void hf__operation_free(struct hf__core *core, struct hf__operation *operation);

/* --- validity.c, retry.c: pure --- */

uint64_t hf__validity_until(uint64_t sent_ns, uint64_t lease_ns);
uint64_t hf__retry_after(uint64_t now_ns, uint32_t tries, uint64_t first_ns, uint64_t most_ns,
                         uint64_t *random_state);

#endif
