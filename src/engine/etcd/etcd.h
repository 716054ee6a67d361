/* etcd.h: what the files of this engine share.
 *
 * Two connections go to one server: calls, and what is kept: leases and the watch. Leases outlive
 * them, and so do the stands: each claim of the core is one (stand.c), with one key at the server,
 * which goes when its lease ends. Stands for the same lock are in one line (rank.c), where events
 * of the watch find them. */
#ifndef HF_ENGINE_ETCD_ETCD_H
#define HF_ENGINE_ETCD_ETCD_H

#include "base/list.h"
#include "base/name.h"
#include "base/secret.h"
#include "base/stream.h"
#include "engine/bearer.h"
#include "engine/engine.h"
#include "engine/etcd/memory.h"
#include "engine/etcd/message.h"
#include "engine/etcd/rpc.h"
#include "engine/roll.h"

#define HF__ETCD_PORT      2379
#define HF__LOCK_KEY_BYTES 2304                      /* path, prefix, a name and "/" */
#define HF__STAND_TOKEN    (1 + 2 * HF__TOKEN_BYTES) /* "w" or "r", as it came, and digits */
#define HF__OWN_KEY_BYTES  (HF__LOCK_KEY_BYTES + HF__STAND_TOKEN + 1)
#define HF__LINE_MAX_ETCD  65536 /* who waits for one lock */
#define HF__SPARE_TOKENS   64    /* that can be used again: a bit of 64 for each */

struct hf__etcd;
struct hf__stand;

enum hf__way { HF__WAY_CALLS, HF__WAY_KEEP };
#define HF__WAYS 2

/* What a question to the server is for. */
enum hf__query {
    HF__QUERY_NONE, /* nobody waits for the answer */
    HF__QUERY_LOGIN,
    HF__QUERY_STATUS,
    HF__QUERY_MEMBERS,
    HF__QUERY_HELLO, /* a read that only the true leader can answer */
    HF__QUERY_PROBE, /* the same, again and again */
    HF__QUERY_TERM,  /* the term, where that read was denied */
    HF__QUERY_GRANT, /* a lease */
    HF__QUERY_REVOKE,
    HF__QUERY_CLAIM,
    HF__QUERY_LOOK,
    HF__QUERY_DELETE, /* the own key */
    HF__QUERY_UNDO,   /* the same, where a claim may still be under way */
    HF__QUERY_CONVOY, /* claims that hope, and the own keys of others are deleted */
    HF__QUERY_MOVE,   /* to another lease */
    HF__QUERY_LOWER,
    HF__QUERY_LIST,
    HF__QUERY_SPAN, /* how long a lease that was listed has to live */
    HF__QUERY_SEEK, /* what is to be broken */
    HF__QUERY_BREAK,
};

/* A question that is under way. */
struct hf__quest {
    struct hf__list place; /* in conn->quests, or in conn->free_quests */
    enum hf__query query;
    uint64_t number; /* of all that were asked */
    uint64_t sent_ns;
    enum hf__way way;
    struct hf__stand *stand; /* NULL: nobody's, or nobody's any more */
    uint32_t course;         /* of the stand, or of the listing: answers to an earlier one mean
                              * nothing */
    int64_t lease_id;
    bool raises_guard;      /* of the lease that the stand is about to leave */
    bool hopes;             /* a claim: that nobody is in the line */
    int64_t seen_revision;  /* when it was asked */
    struct hf__quest *next; /* that travels by the same question; NULL: none does */
};

/* What became of the last sign of life: it counts when a read that was sent behind its answer shows
 * who leads. */
enum hf__sign { HF__SIGN_NONE, HF__SIGN_SENT, HF__SIGN_ANSWERED, HF__SIGN_READ };

/* Turns of equal length share one; a turn that must not be renewed has its own. */
struct hf__lease {
    struct hf__list member; /* in conn->leases */
    struct hf__list stands;
    struct hf__list renewals; /* stands that want to know that it lives */
    struct hf__list waiting;  /* stands that go on when it is granted */
    uint32_t pins;            /* stands that want to move there */
    int64_t id;               /* chosen by us, so that it may be granted twice */
    int64_t ttl_s;            /* asked for */
    uint64_t ttl_ns;          /* granted */
    bool is_fixed;
    bool is_alive; /* as far as we know */
    bool is_asked; /* a grant is under way */
    uint64_t term; /* who granted it leads in this one, or in a later one */
    bool is_past;  /* another leads now: whoever lodges here moves to a new one */
    enum hf__sign sign;
    uint64_t signed_ns; /* when the last sign of life was sent */
    /* Whatever the server counts, it began to count after this. */
    uint64_t alive_ns;
    /* Claims that may still be under way somewhere, though nobody waits for them, carry an older
     * number: the key that counts lives as long as the lease. */
    int64_t guard;
};

/* A lock that somebody of ours wants. */
struct hf__rank {
    struct hf__rank *chain; /* of one bucket */
    uint64_t hash;
    struct hf__list stands;
    int64_t told_revision; /* of the last event that was heard of it */
    bool hashed;           /* the key has only a hash of the name */
    size_t name_bytes;
    const char *name;
    size_t key_bytes;
    char key[]; /* with the "/" at its end; then the name */
};

enum hf__stand_state {
    HF__STAND_OUTSIDE, /* it has no key that we know of */
    HF__STAND_QUEUED,
    HF__STAND_HELD,
    HF__STAND_LEAVING,
};

/* One claim, from its first question until its key is known to be gone. */
struct hf__stand {
    struct hf__entry entry; /* first */
    struct hf__rank *line;
    struct hf__list neighbour; /* in line->stands */
    struct hf__lease *lease;   /* NULL: none yet */
    struct hf__list lodger;    /* in lease->stands */
    struct hf__lease *next;    /* where it wants to move; NULL: it does not */
    struct hf__list renewal;   /* in lease->renewals or lease->waiting */
    struct hf__list travel;    /* in conn->convoy.claims or .departures */
    bool travels_alone;        /* others were refused with it, or it with them */
    enum hf__stand_state state;
    bool queueing;
    bool is_fixed;
    bool has_grace; /* whoever breaks it marks its key */
    bool extends;   /* what was asked for counts from now on */
    int mode;
    uint64_t lease_ns;
    uint64_t fence; /* RELEASE: of the own grant, or 0 */

    int64_t revision;     /* of the key; 0: it has none that we know of */
    uint32_t claims;      /* so many were sent, ever */
    uint32_t claims_out;  /* claims that may still make its key: they were not answered, ... */
    uint64_t claims_from; /* ... and come behind this question: earlier ones are void */
    bool was_broken;
    bool was_voided;  /* its lease ended */
    bool was_refused; /* it tried once, and leaves: the core hears it when the key is gone */
    uint32_t course;
    uint32_t tries;
    uint32_t asked; /* so many questions about it were sent, ... */
    uint32_t heard; /* ... and so many answers came */

    bool others_wait;
    uint32_t ahead_count;
    bool has_ahead;
    uint64_t ahead_hash; /* of the key of the one that it waits for */
    char *evict_key;     /* of one ahead that was broken; NULL: it was not */
    size_t evict_bytes;
    int64_t evict_revision;
    uint64_t evict_at_ns; /* when it has had its grace */
    uint64_t looked_ns;
    uint64_t held_ns; /* since when */

    char token[HF__STAND_TOKEN + 1];
    char bearer[HF__BEARER_BYTES];
};

#define HF__VALUE_BYTES (HF__BEARER_BYTES + 1 + HF_NAME_BYTES_MAX)
#define HF__DOUBTS      256

/* The watch over all locks of the prefix, and the stream that keeps leases. */
struct hf__watch {
    struct hf__rpc_call *call; /* NULL: none is open */
    bool is_up;                /* what happens from now on is told ... */
    int64_t revision;          /* ... and whatever is later than this */
    uint64_t wanted_ns;        /* when somebody last waited */
    uint32_t unwanted;         /* events since it was seen that somebody wants them */
    uint64_t look_ns;          /* when to see whether somebody wants one; 0: not */
};

/* How long a lease has to live, of those that are listed. */
#define HF__TERMS_MAX 256
struct hf__etcd_term {
    int64_t lease;
    int64_t left_ms; /* -1: not known */
};

/* A LIST or BREAK under way. One at a time. */
struct hf__listing {
    bool active;
    struct hf__ticket ticket;
    uint64_t deadline_ns;
    uint64_t fence;
    bool all;
    char glob[HF_NAME_BYTES_MAX + 1];
    uint32_t number;  /* of this listing: answers to an earlier one mean nothing */
    int64_t revision; /* all pages tell of this one */
    int64_t page_limit;
    Hf__Etcd__RangeResponse *page;
    struct hf__etcd_term terms[HF__TERMS_MAX]; /* of the page */
    size_t term_count;
    uint32_t terms_open;         /* those that were asked for, and not answered yet */
    size_t page_at;              /* those before it are told */
    size_t line_to;              /* the line that is told now ends there */
    char key[HF__OWN_KEY_BYTES]; /* where the page begins, or the line with what is to be broken */
    size_t key_bytes;
    char name[HF_NAME_BYTES_MAX + 1];
    size_t name_bytes;
    size_t waiting;
    bool writer_is_seen;
    bool reader_is_seen;
    struct hf_holding entry;
    struct hf__holder holder;
    bool has_reply;
    struct hf__reply reply;
};

/* Stands that are asked for by one transaction when the connection writes next. */
#define HF__CONVOY_MAX 16
struct hf__convoy {
    struct hf__list claims; /* of one lease, and of different locks */
    struct hf__list departures;
    size_t count;            /* of both */
    bool is_refused;         /* the server takes no such transaction */
    struct hf__buffer texts; /* while it is written down */
};

/* One of the two connections. */
struct hf__etcd_link {
    struct hf__stream *stream; /* NULL: none */
    enum hf__stream_state state;
    struct hf__rpc *rpc;
    uint64_t heard_ns; /* when anything last came, ... */
    uint64_t read_ns;  /* ... and when it was last looked for */
    bool was_heard;    /* anything came at all */
    bool may_read;
    uint32_t reads_left;
};

struct hf__etcd {
    struct hf__conn base;
    bool is_born;
    const struct hf__url *url;
    struct hf__etcd_link links[HF__WAYS];
    uint64_t now_ns;
    size_t server; /* whom we are connected to, or try */
    size_t tried;  /* so many servers since open() */
    uint64_t server_by_ns;
    bool is_greeting; /* the first questions were asked */
    uint32_t greetings_left;
    bool greeted;
    bool is_parting; /* the leases are being given back */
    bool ending;
    int end_status;

    struct hf__roll roll;
    struct hf__rank **buckets;
    size_t bucket_count;
    size_t line_count;
    struct hf__list leases;
    struct hf__list quests;
    struct hf__list free_quests;
    struct hf__convoy convoy;
    uint64_t quest_count;   /* so many were asked, ... */
    uint64_t sent_quests;   /* ... and so many of them have left */
    uint64_t held_since_ns; /* since when the others wait, if they do */
    char spare_tokens[HF__SPARE_TOKENS][HF__STAND_TOKEN];
    uint64_t spares; /* a bit for each of them that there is */
    struct hf__watch watch;
    struct hf__rpc_call *keeping; /* the stream of signs of life; NULL: none is open */
    struct hf__listing listing;
    uint64_t evict_at_ns;  /* no stand has an earlier one */
    uint64_t look_at_ns;   /* when somebody may look though nothing was heard */
    bool is_probing;       /* a read behind signs of life is under way */
    int64_t seen_revision; /* the greatest that a question was answered with */
    uint64_t cluster_id;   /* of the first that greeted us; 0: none did */
    uint64_t member_id;    /* of the server that we are connected to; 0: not known yet ... */
    uint64_t term;         /* ... and the last that it knew of */
    uint64_t lease_count;  /* so many were made */
    uint64_t client_id;
    uint8_t doubts[HF__DOUBTS]; /* by the hash of a line: turns until one is hoped for again */

    bool is_raw; /* layout=etcd: names as they are */
    char prefix[HF__LOCK_KEY_BYTES];
    size_t prefix_bytes;
    char user[256];
    char password[HF__SECRET_BYTES_MAX + 1];
    char token[512];
    char whence[HF__WHENCE_BYTES];
    char purpose[HF__PURPOSE_BYTES];
    struct hf__buffer packed; /* what a message is packed into */
    struct hf__memory memory; /* what an answer is unpacked into */
};

/* --- demand.c: what does the URL ask for? --- */

int hf__demand_read(struct hf__etcd *conn, const struct hf__conn_options *options);
bool hf__demand_tls(const struct hf__url *url);

/* --- link.c: the two connections --- */

int hf__link_open(struct hf__etcd *conn);
void hf__link_close(struct hf__etcd *conn);
/* 1: both are up; 0: not yet; < 0: this server is none. */
int hf__link_connect(struct hf__etcd *conn);
void hf__link_send(struct hf__etcd *conn);
/* The connection ends for the reason for which the rpc has ended; false: that goes on. */
bool hf__link_end_if_over(struct hf__etcd *conn, const struct hf__etcd_link *link);
/* Reads, and has what came heard. 0: nothing came. */
int hf__link_receive(struct hf__etcd *conn);
void hf__link_listen(struct hf__etcd *conn); /* to the calls */
void hf__link_heard(struct hf__etcd *conn, const void *bytes, size_t count);
/* When the server has said nothing for too long, though it was asked; HF__NEVER: it was not. */
uint64_t hf__link_silent_at(const struct hf__etcd *conn);
void hf__link_pollset(struct hf__etcd *conn, struct hf__pollset *set);
bool hf__link_is_idle(const struct hf__etcd *conn);

/* --- query.c: questions to the server, and their answers --- */

/* `message` goes to `path`; NULL if it could not: then the connection ends. */
struct hf__quest *hf__query_send(struct hf__etcd *conn, enum hf__query query, enum hf__way way,
                                 const ProtobufCMessage *message);
void hf__query_hear(struct hf__etcd *conn, enum hf__way way, const struct hf__rpc_event *event);
/* The same, on behalf of a stand: its course, and the lease that the answer is about. */
struct hf__quest *hf__query_send_for(struct hf__etcd *conn, enum hf__query query,
                                     struct hf__stand *stand, const ProtobufCMessage *message);
/* One more for which the same question asks as for `last`, on behalf of another stand; NULL: out of
 * memory, the connection ends. */
struct hf__quest *hf__query_chain(struct hf__etcd *conn, struct hf__quest *last,
                                  struct hf__stand *stand);
/* Nobody waits for what this stand has asked. */
void hf__query_forget(struct hf__etcd *conn, const struct hf__stand *stand);
void hf__query_done(struct hf__etcd *conn);
/* HF_E* of what a server said instead of an answer, with the text; perhaps: it may have been done
 * all the same. */
int hf__query_status(struct hf__etcd *conn, const struct hf__rpc_event *event, bool *out_perhaps);
/* NULL: what came is none; the connection ends. Freed by hf__message_free(). */
void *hf__query_unpack(struct hf__etcd *conn, const ProtobufCMessageDescriptor *type,
                       const struct hf__rpc_event *event);

/* A transaction, while it is written down. */
#define HF__TXN_COMPARES   (HF__CONVOY_MAX + 1) /* and the guard */
#define HF__TXN_OPERATIONS HF__CONVOY_MAX
struct hf__txn_operation {
    Hf__Etcd__RequestOp operation;
    union {
        Hf__Etcd__RangeRequest range;
        Hf__Etcd__PutRequest put;
        Hf__Etcd__DeleteRangeRequest delete_range;
    };
};
struct hf__txn {
    Hf__Etcd__TxnRequest request;
    Hf__Etcd__Compare compares[HF__TXN_COMPARES];
    Hf__Etcd__Compare *compare_list[HF__TXN_COMPARES];
    struct hf__txn_operation operations[HF__TXN_OPERATIONS];
    size_t operation_count;
    Hf__Etcd__RequestOp *success_list[HF__TXN_OPERATIONS];
    Hf__Etcd__RequestOp *failure_list[HF__TXN_OPERATIONS];
    bool otherwise; /* what is added now is done if a condition does not hold */
};
void hf__txn_init(struct hf__txn *txn);
void hf__txn_if_revision(struct hf__txn *txn, ProtobufCBinaryData key, int64_t revision);
void hf__txn_if_version(struct hf__txn *txn, ProtobufCBinaryData key, int64_t version);
void hf__txn_if_none(struct hf__txn *txn, ProtobufCBinaryData from, ProtobufCBinaryData to);
void hf__txn_if_lease(struct hf__txn *txn, ProtobufCBinaryData key, int64_t lease);
void hf__txn_if_unmarked(struct hf__txn *txn, ProtobufCBinaryData key); /* and if it is there */
/* One key; the caller may make more of it. */
Hf__Etcd__RangeRequest *hf__txn_range(struct hf__txn *txn, ProtobufCBinaryData key);
Hf__Etcd__PutRequest *hf__txn_put(struct hf__txn *txn, ProtobufCBinaryData key,
                                  ProtobufCBinaryData value, int64_t lease);
/* `tells_past`: the answer has what was deleted. */
void hf__txn_delete(struct hf__txn *txn, ProtobufCBinaryData key, bool tells_past);
void hf__txn_do_anyway(struct hf__txn *txn); /* what was added last, if a condition fails, too */
/* The part of an answer, if it is one of that kind; NULL: it is not. */
const Hf__Etcd__RangeResponse *hf__txn_ranged(const Hf__Etcd__TxnResponse *response, size_t index);

/* --- rank.c: the locks that somebody of ours wants --- */

/* HF_ENAME: such a name cannot be one here; HF_ENOMEM. */
int hf__rank_enter(struct hf__etcd *conn, const char *name, size_t name_bytes,
                   struct hf__rank **out_line);
void hf__rank_leave(struct hf__etcd *conn, struct hf__rank *line); /* frees it with the last */
/* Whose key is this? NULL: nobody's of ours. */
struct hf__rank *hf__rank_find(const struct hf__etcd *conn, const uint8_t *key, size_t key_bytes);
size_t hf__rank_key(struct hf__etcd *conn, const char *name, size_t name_bytes,
                    char out_key[HF__LOCK_KEY_BYTES], bool *out_hashed);
void hf__rank_done(struct hf__etcd *conn);
uint64_t hf__rank_hash(const void *key, size_t key_bytes);

/* --- lease.c: how long does the server keep what is ours? --- */

/* One that this stand can live with, perhaps not granted yet; NULL: out of memory. */
struct hf__lease *hf__lease_for(struct hf__etcd *conn, struct hf__stand *stand);
void hf__lease_ask(struct hf__etcd *conn, struct hf__lease *lease);
void hf__lease_hear_grant(struct hf__etcd *conn, const struct hf__quest *quest,
                          const struct hf__rpc_event *event);
void hf__lease_hear_probe(struct hf__etcd *conn, const struct hf__quest *quest,
                          const struct hf__rpc_event *event);
void hf__lease_hear_kept(struct hf__etcd *conn, const struct hf__rpc_event *event);
/* The stand is answered when it is known that its lease lives, which may be now. */
void hf__lease_renew(struct hf__etcd *conn, struct hf__stand *stand);
void hf__lease_leave(struct hf__etcd *conn, struct hf__stand *stand);
/* That is where it wants to move; NULL: nowhere. */
void hf__lease_aim(struct hf__stand *stand, struct hf__lease *lease);
void hf__lease_lodge(struct hf__stand *stand, struct hf__lease *lease);
void hf__lease_wait(struct hf__etcd *conn, struct hf__stand *stand, struct hf__lease *lease);
/* The server does not know it any more: neither does it know its keys. */
void hf__lease_void(struct hf__etcd *conn, struct hf__lease *lease);
struct hf__lease *hf__lease_find(const struct hf__etcd *conn, int64_t id);
size_t hf__lease_guard_key(const struct hf__etcd *conn, const struct hf__lease *lease,
                           char out_key[HF__LOCK_KEY_BYTES]);
/* How long a turn that is asked about now lasts without a word from us. */
uint64_t hf__lease_left_ns(const struct hf__stand *stand);
/* The server that answers calls knows of this term; `is_first`: what was known is another's. */
void hf__lease_see_term(struct hf__etcd *conn, const Hf__Etcd__ResponseHeader *header,
                        bool is_first);
void hf__lease_keep(struct hf__etcd *conn); /* whatever is due */
uint64_t hf__lease_deadline(const struct hf__etcd *conn);
void hf__lease_disconnect(struct hf__etcd *conn);
void hf__lease_revoke_all(struct hf__etcd *conn);
void hf__lease_done(struct hf__etcd *conn);

/* --- stand.c: who stands where, and what the core must hear --- */

int hf__stand_enter(struct hf__etcd *conn, const struct hf__request *request,
                    struct hf__stand **out_stand);
void hf__stand_free(struct hf__etcd *conn, struct hf__stand *stand);
void hf__stand_answer(struct hf__etcd *conn, struct hf__stand *stand, enum hf__reply_kind kind);
void hf__stand_fail(struct hf__etcd *conn, struct hf__stand *stand, int status);
/* The same, of what the server said; its lease may be what is missing. */
void hf__stand_fail_by(struct hf__etcd *conn, struct hf__stand *stand,
                       const struct hf__rpc_event *event);
void hf__stand_leave(struct hf__etcd *conn, struct hf__stand *stand);
void hf__stand_hear_leave(struct hf__etcd *conn, struct hf__stand *stand,
                          const struct hf__quest *quest, const struct hf__rpc_event *event);
/* Its key was deleted, if it was there. */
void hf__stand_hear_deleted(struct hf__etcd *conn, struct hf__stand *stand,
                            const Hf__Etcd__DeleteRangeResponse *response);
/* Must the server tell what its key was when it is deleted? */
bool hf__stand_has_past(const struct hf__stand *stand);
/* A claim of this one is sent. */
void hf__stand_count_claim(struct hf__stand *stand);
/* Whatever is still under way is void: the guard was raised, or the lease is gone. */
void hf__stand_forget_claims(const struct hf__etcd *conn, struct hf__stand *stand);
/* A claim of this one was answered, or never left. */
void hf__stand_hear_claimed(struct hf__stand *stand, const struct hf__quest *quest);
void hf__stand_lose(struct hf__etcd *conn, struct hf__stand *stand, const char *cause);
int hf__stand_next(struct hf__etcd *conn, struct hf__reply *out_reply);
void hf__stand_expire(struct hf__etcd *conn);
void hf__stand_disconnect(struct hf__etcd *conn);
void hf__stand_reconnect(struct hf__etcd *conn);
size_t hf__stand_key(const struct hf__stand *stand, char out_key[HF__OWN_KEY_BYTES]);
bool hf__stand_owns(const struct hf__stand *stand, const ProtobufCBinaryData *key);
void hf__stand_evict(struct hf__etcd *conn); /* those ahead that were broken, and had their time */

/* --- revision.c: the recipe --- */

void hf__revision_claim(struct hf__etcd *conn, struct hf__stand *stand);
void hf__revision_look(struct hf__etcd *conn, struct hf__stand *stand);
void hf__revision_inspect(struct hf__etcd *conn, struct hf__stand *stand);
void hf__revision_renew(struct hf__etcd *conn, struct hf__stand *stand);
void hf__revision_lower(struct hf__etcd *conn, struct hf__stand *stand);
/* With what was asked, now that its lease is another, or lives. */
void hf__revision_go_on(struct hf__etcd *conn, struct hf__stand *stand);
void hf__revision_hear(struct hf__etcd *conn, const struct hf__quest *quest,
                       const struct hf__rpc_event *event);

/* The server has come so far, and must not fall back. */
void hf__revision_see(struct hf__etcd *conn, const Hf__Etcd__ResponseHeader *header);
/* HF_EPROTOCOL, HF_EINTEGRITY: what an answer says of revisions cannot be. */
int hf__revision_check(struct hf__etcd *conn, const struct hf__quest *quest,
                       const Hf__Etcd__TxnResponse *response);
/* One that hoped has its answer; its part of it was found to be there. */
void hf__revision_hear_hope(struct hf__etcd *conn, const struct hf__quest *quest,
                            const Hf__Etcd__TxnResponse *response);
void hf__revision_again(struct hf__etcd *conn, struct hf__stand *stand); /* with a look */
/* What its key says. */
size_t hf__revision_value(const struct hf__stand *stand, char out_value[HF__VALUE_BYTES]);

/* --- hope.c: may a claim take it that nobody is there? --- */

bool hf__hope_may(struct hf__etcd *conn, const struct hf__stand *stand);
void hf__hope_disappoint(struct hf__etcd *conn, const struct hf__stand *stand);
void hf__hope_revive(struct hf__etcd *conn, const struct hf__stand *stand);

/* --- convoy.c: which claims are made, and which keys are deleted, together? --- */

void hf__convoy_init(struct hf__convoy *convoy, const struct hf__env *env);
void hf__convoy_done(struct hf__convoy *convoy);
void hf__convoy_claim(struct hf__etcd *conn,
                      struct hf__stand *stand); /* it has a lease, and hopes */
void hf__convoy_delete(struct hf__etcd *conn, struct hf__stand *stand);
bool hf__convoy_leave(struct hf__etcd *conn, struct hf__stand *stand); /* false: it is not there */
/* Something is asked about this lock, and goes behind whoever of it waits. */
void hf__convoy_pass(struct hf__etcd *conn, const struct hf__rank *line);
bool hf__convoy_waits(const struct hf__etcd *conn); /* somebody does */
void hf__convoy_send(struct hf__etcd *conn);
void hf__convoy_hear(struct hf__etcd *conn, const struct hf__quest *first,
                     const struct hf__rpc_event *event);

/* --- watch.c: what happens at the server without our asking --- */

/* With the stream that keeps leases. */
void hf__watch_open(struct hf__etcd *conn);
void hf__watch_want(struct hf__etcd *conn); /* somebody waits */
void hf__watch_see_grant(struct hf__etcd *conn);
void hf__watch_tend(struct hf__etcd *conn); /* whatever is due */
uint64_t hf__watch_deadline(const struct hf__etcd *conn);
void hf__watch_hear(struct hf__etcd *conn, const struct hf__rpc_event *event);

/* --- roster.c: LIST and BREAK --- */

int hf__roster_start(struct hf__etcd *conn, const struct hf__request *request);
void hf__roster_hear(struct hf__etcd *conn, const struct hf__quest *quest,
                     const struct hf__rpc_event *event);
int hf__roster_next(struct hf__etcd *conn, struct hf__reply *out_reply);
void hf__roster_end(struct hf__etcd *conn, int status);
void hf__roster_done(struct hf__etcd *conn);

/* --- engine.c --- */

void hf__etcd_end(struct hf__etcd *conn, int status);
void hf__etcd_end_by_nonsense(struct hf__etcd *conn); /* which it said */
void hf__etcd_hear_greeting(struct hf__etcd *conn, const struct hf__quest *quest,
                            const struct hf__rpc_event *event);
ProtobufCBinaryData hf__etcd_bytes(const void *bytes, size_t count);
/* What is read, as anybody may who has rights to the prefix, to hear from the true leader. */
ProtobufCBinaryData hf__etcd_proof_key(const struct hf__etcd *conn);

extern const struct hf__recipe hf__etcd_revision;

#endif
