/* zookeeper.h: what the files of this engine share.
 *
 * A connection carries a session, which outlives it: the nodes of a client are ephemeral, and go
 * with the session. Every claim has a place (place.c), which knows its node; a place walks through
 * few questions to the server, each of which is `asked` until its answer comes (asked.c). */
#ifndef HF_ENGINE_ZOOKEEPER_ZOOKEEPER_H
#define HF_ENGINE_ZOOKEEPER_ZOOKEEPER_H

#include "base/list.h"
#include "base/name.h"
#include "base/secret.h"
#include "base/stream.h"
#include "engine/bearer.h"
#include "engine/engine.h"
#include "engine/roll.h"
#include "engine/zookeeper/jute.h"

#define HF__ZOOKEEPER_PORT     2181
#define HF__ZOOKEEPER_TLS_PORT 2281

#define HF__PATH_BYTES        2560 /* chroot, prefix and an encoded name, or a raw one */
#define HF__NODE_NAME_BYTES   256  /* of a child, with its number */
#define HF__NODE_DATA_BYTES   HF__BEARER_BYTES
#define HF__LINE_MAX          65536 /* who waits for one lock */
#define HF__SESSION_KEY_BYTES 16
#define HF__TOKEN_TEXT_BYTES  (2 * HF__TOKEN_BYTES + 1)

enum hf__opcode {
    HF__OPCODE_CREATE = 1,
    HF__OPCODE_DELETE = 2,
    HF__OPCODE_EXISTS = 3,
    HF__OPCODE_GET_DATA = 4,
    HF__OPCODE_SET_DATA = 5,
    HF__OPCODE_SYNC = 9,
    HF__OPCODE_GET_CHILDREN = 8,
    HF__OPCODE_CHECK = 13,
    HF__OPCODE_MULTI = 14,
    HF__OPCODE_CREATE2 = 15,
    HF__OPCODE_REMOVE_WATCHES = 18,
    HF__OPCODE_CREATE_CONTAINER = 19,
    HF__OPCODE_AUTH = 100,
    HF__OPCODE_SET_WATCHES = 101,
    HF__OPCODE_CLOSE = -11,
    HF__OPCODE_FAILED = -1, /* only in answers: of a part of a transaction */
};

/* What a server answers instead of OK. */
enum hf__zerror {
    HF__ZERROR_OK = 0,
    HF__ZERROR_CONNECTION_LOSS = -4,
    HF__ZERROR_UNIMPLEMENTED = -6,
    HF__ZERROR_NO_NODE = -101,
    HF__ZERROR_NO_AUTH = -102,
    HF__ZERROR_BAD_VERSION = -103,
    HF__ZERROR_NO_CHILDREN_FOR_EPHEMERALS = -108,
    HF__ZERROR_NODE_EXISTS = -110,
    HF__ZERROR_NOT_EMPTY = -111,
    HF__ZERROR_SESSION_EXPIRED = -112,
    HF__ZERROR_INVALID_ACL = -114,
    HF__ZERROR_AUTH_FAILED = -115,
    HF__ZERROR_SESSION_MOVED = -118,
    HF__ZERROR_NOT_READ_ONLY = -119,
    HF__ZERROR_NO_WATCHER = -121,
    HF__ZERROR_WANTS_SASL = -124,
    HF__ZERROR_QUOTA_EXCEEDED = -125,
    HF__ZERROR_THROTTLED = -127,
};

/* The numbers of answers that are not in line. */
enum hf__xid {
    HF__XID_EVENT = -1,
    HF__XID_AUTH = -4,
};

enum hf__watch_event {
    HF__WATCH_CREATED = 1,
    HF__WATCH_DELETED = 2,
    HF__WATCH_CHANGED = 3,
    HF__WATCH_CHILDREN = 4,
};

/* How nodes are named. */
enum hf__layout_kind {
    HF__LAYOUT_OWN,
    HF__LAYOUT_CURATOR,
    HF__LAYOUT_CURATOR_RW,
    HF__LAYOUT_KAZOO,
};

/* A child of a lock's node, as its name tells. */
struct hf__child {
    char name[HF__NODE_NAME_BYTES];
    int32_t sequence;
    int mode; /* enum hf_mode; of one that is not ours and does not tell: exclusive */
};

/* What a question to the server is for. */
enum hf__step {
    HF__STEP_NONE, /* nobody waits for the answer */
    HF__STEP_AUTH, /* it has no place in line */
    HF__STEP_BEAT, /* through the leader: the session lives */
    HF__STEP_CONFIG,
    HF__STEP_WATCHES, /* after the session came to another connection */
    HF__STEP_PARENT,
    HF__STEP_FULL_NAME, /* of a lock whose node has only a hash of it */
    HF__STEP_CREATE,
    HF__STEP_CHILDREN,
    HF__STEP_TOGETHER,  /* the same, for several who came at once */
    HF__STEP_SELF,      /* of a node that was found again: its number */
    HF__STEP_CHECK,     /* through the leader: the own node is there, and the session lives */
    HF__STEP_AHEAD,     /* the one whose end we wait for; with a watch */
    HF__STEP_FOOTPRINT, /* a watch on the lock's own node */
    HF__STEP_GLANCE,    /* the same, long after: is it still there? */
    HF__STEP_HOLDER,    /* who holds it: for a text */
    HF__STEP_OWN,       /* a watch on the own node */
    HF__STEP_CROWD,     /* a watch on the children, of one who holds */
    HF__STEP_LOWER,
    HF__STEP_DELETE,
    HF__STEP_LIST_ROOT,
    HF__STEP_LIST_NAME,
    HF__STEP_LIST_CHILDREN,
    HF__STEP_LIST_CHILD,
    HF__STEP_BREAK,
};

struct hf__place;
struct hf__zookeeper;

/* Is it a part of a transaction with others? */
enum hf__joined {
    HF__JOINED_NOT,
    HF__JOINED_MORE, /* the next belongs to it too */
    HF__JOINED_LAST,
};

/* A question that is under way. Answers come in the order of asking. */
struct hf__zasked {
    struct hf__list place;
    enum hf__step step;
    int32_t xid;
    uint64_t sent_ns;
    struct hf__place *owner; /* NULL: nobody, or nobody any more */
    uint32_t course;         /* of the owner: answers to an earlier one mean nothing */
    uint32_t index;          /* of a listing: which child */
    bool watches;            /* the answer says that the server watches for us */
    bool leads;              /* the leader answers it, and not the server by itself */
    enum hf__joined joined;
};

enum hf__place_state {
    HF__PLACE_OUTSIDE, /* no node is known */
    HF__PLACE_QUEUED,
    HF__PLACE_HELD,
    HF__PLACE_LEAVING, /* the node is to be deleted */
};

/* One claim at the server, from its first question until its node is known to be gone. */
struct hf__place {
    struct hf__entry entry;  /* first */
    struct hf__list renewal; /* in conn->renewals: it waits for an answer to a beat */
    enum hf__place_state state;
    bool queueing;
    int mode;
    uint64_t lease_ns;
    uint64_t grace_ns;
    char token[HF__TOKEN_TEXT_BYTES];
    char data[HF__NODE_DATA_BYTES];

    /* Its node. */
    bool has_node;
    bool maybe_made; /* a create was sent, and its answer never came */
    bool is_creating;
    bool was_broken;
    bool was_voided;  /* the session ended */
    bool was_refused; /* it tried once, and leaves: the core hears it when the node is gone */
    bool is_doubted;  /* a node that is not told from another's: it may be another's by now */
    struct hf__child node;
    int64_t czxid;

    /* The course: of what the core asked, several questions of ours. */
    uint64_t fence; /* RELEASE: of the own grant, or 0 */
    uint32_t course;
    uint32_t open;        /* answers that the course waits for */
    uint32_t tries;       /* how often it began anew because something had changed meanwhile */
    int32_t parent_error; /* why a node above could not be made */
    int32_t error;        /* the first that one of the answers had */
    bool searches;        /* is there a node of ours? */
    bool makes;
    bool confirms; /* it waited: only the leader's word counts */
    bool is_listed;
    bool ahead_is_gone;
    bool is_strange; /* the lock's node is none of a lock */
    bool collides;   /* another name has the same hash */
    bool skips;      /* those that are not before `skip` do not count: they let readers in */
    int32_t skip;
    struct hf__child ahead; /* whom it waits for; "": nobody */
    struct hf__child first; /* who holds it */
    uint32_t ahead_count;
    bool others_wait;

    bool hopes;           /* to be first, without a list */
    bool was_first;       /* it held alone: whoever is there now came later */
    uint64_t watch_at_ns; /* when it wants to know who comes; HF__NEVER: it does, or holds not */
    bool wants_list;      /* one that is asked for from now on */
    uint32_t list_number; /* of the one that it waits for with others; 0: none */
    uint32_t list_course;
    bool watches_ahead; /* and nothing was heard of it yet */
    bool watches_own;
    bool watches_children;
    uint64_t evict_at_ns; /* when the one ahead, which was broken, has had its grace */

    size_t full_name_bytes; /* 0: the path has the whole name */
    const char *full_name;
    const char *path; /* of the lock's node */
    size_t path_bytes;
    uint32_t path_hash;
    char text[];
};

/* What we know of a lock that we have left. */
#define HF__FOOTPRINTS 1024
struct hf__footprint {
    char *path; /* of the lock's node; NULL: nothing is known */
    bool is_asked;
    bool is_watched; /* if that node goes, we are told before anything else */
    bool is_fresh;   /* `next` is the number that the next node gets, if nobody was there since */
    int32_t next;
    uint32_t number; /* of the question */
};

/* It outlives the connection. */
struct hf__session {
    int64_t id; /* 0: none */
    uint8_t key[HF__SESSION_KEY_BYTES];
    uint64_t timeout_ns; /* as agreed upon */
    int64_t seen_zxid;
    /* When two requests were written that the leader answered. It hears of who was heard by other
     * servers only every half tick: of the newer one perhaps never, if that server died or was cut
     * off; of the older one it has heard, because they still spoke with each other a tick later. */
    uint64_t newer_ns;
    uint64_t newer_heard_ns; /* when its answer came: the leader lived after it was written */
    uint64_t older_ns;
    int64_t known_zxid; /* what was seen before the answer that is being heard */
};

/* One of a line that is listed: small, for there may be many. */
struct hf__listed {
    uint32_t name_at; /* in listing.line */
    int32_t sequence;
};

/* A LIST or BREAK under way. One at a time. */
struct hf__listing {
    bool active;
    struct hf__ticket ticket; /* LIST or BREAK */
    uint64_t deadline_ns;
    uint64_t fence;
    bool all;
    char glob[HF_NAME_BYTES_MAX + 1];
    char *names; /* of the root's children, each with a NUL */
    size_t names_bytes;
    size_t names_at; /* those before it are done */
    char name[HF_NAME_BYTES_MAX + 1];
    size_t name_bytes;
    char path[HF__PATH_BYTES];
    size_t path_bytes;
    char *line;                  /* the names of its children, each with a NUL */
    struct hf__listed *children; /* in order */
    size_t child_count;
    size_t child_asked;
    uint32_t waiting;    /* so many of this name wait, as far as it was told */
    bool writer_is_seen; /* among those that were told */
    bool reader_is_seen;
    uint32_t open;   /* nodes that were asked for */
    uint32_t number; /* of this listing: answers to an earlier one mean nothing */
    bool breaks;     /* the one that is meant was found */
    bool goes_on;    /* when what was found is told */
    struct hf_holding entry;
    struct hf__holder holder;
    bool has_reply;
    struct hf__reply reply;
};

/* What one recipe does with the questions of the core and the answers of the server. */
struct hf__zookeeper_recipe {
    struct hf__recipe recipe; /* first: the seam sees only this */
    bool single;              /* one node, which is the lock's */
    void (*claim)(struct hf__zookeeper *conn, struct hf__place *place);
    void (*inspect)(struct hf__zookeeper *conn, struct hf__place *place);
    void (*hear)(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                 struct hf__jute_reader *answer);
    void (*event)(struct hf__zookeeper *conn, struct hf__place *place, int32_t type,
                  const struct hf__jute_text *path);
};

struct hf__zookeeper {
    struct hf__conn base;
    const struct hf__zookeeper_recipe *recipe; /* NULL: never opened */
    const struct hf__url *url;
    struct hf__stream *stream;
    enum hf__stream_state stream_state;
    struct hf__jute_out out;
    struct hf__jute_in in;
    bool may_read;
    uint32_t reads_left;
    uint64_t now_ns;
    size_t server; /* whom we are connected to, or try */
    size_t tried;  /* so many servers since open() */
    uint64_t connect_by_ns;
    uint64_t server_by_ns; /* until then this server must have let us in */
    uint64_t knocked_ns;   /* when we asked for the session */
    bool introduced;
    bool greeted;       /* the session is confirmed on this connection */
    bool session_ended; /* just now: the server says so */
    bool ending;
    int end_status;
    int32_t xid;
    uint64_t heard_ns; /* when an answer last came */
    uint64_t led_ns;   /* when the last was written that the leader answered, or a beat */
    uint64_t lived_ns; /* when the last beat that was answered was written; 0: none on this one */
    bool is_beating;   /* a beat is under way */
    struct hf__session session;
    uint64_t evict_at_ns;  /* no place has an earlier one */
    uint64_t glance_at_ns; /* when the next of those who wait looks by itself */
    uint64_t watch_at_ns;  /* when the first of those who hold wants to know who comes */
    struct hf__footprint footprints[HF__FOOTPRINTS]; /* by the hash of the path */
    uint32_t footprint_number;
    struct hf__list asked;
    struct hf__list free_asked;
    size_t joining;            /* so many of the last asked are not written down yet, ... */
    uint64_t joining_since_ns; /* ... the first of them since then */
    struct hf__roll roll;      /* of places */
    struct hf__list renewals;
    uint32_t list_number; /* of the last list that several waited for */
    struct hf__listing listing;

    enum hf__layout_kind layout;
    uint64_t lease_ns;
    uint64_t tick_ns;
    char root[HF__PATH_BYTES]; /* chroot and prefix */
    size_t root_bytes;
    size_t chroot_bytes;
    char secret[HF__SECRET_BYTES_MAX + 258]; /* "user:password" */
    char whence[HF__WHENCE_BYTES];
    char purpose[HF__PURPOSE_BYTES];
};

/* --- wishes.c: what does the URL ask for? --- */

int hf__wishes_read(struct hf__zookeeper *conn, const struct hf__conn_options *options);
bool hf__wishes_tls(const struct hf__url *url);

/* --- layout.c: how are locks, claims and people written? --- */

/* The lock's node; HF_ENAME: such a name cannot be one. */
int hf__layout_path(struct hf__zookeeper *conn, const char *name, size_t name_bytes,
                    char out_path[HF__PATH_BYTES], bool *out_hashed);
/* The name behind a child of the root; 0: none of ours, or only a hash. */
size_t hf__layout_name(const struct hf__zookeeper *conn, const char *child,
                       char out_name[HF_NAME_BYTES_MAX + 1]);
/* What the name of a claim's child begins with; the server adds the number. */
bool hf__layout_has_mode(const struct hf__zookeeper *conn, int mode);
void hf__layout_stem(const struct hf__zookeeper *conn, const struct hf__place *place,
                     char out_stem[HF__NODE_NAME_BYTES]);
/* false: it stands in no line. */
bool hf__layout_child(const struct hf__zookeeper *conn, const char *name, size_t name_bytes,
                      struct hf__child *out_child);
bool hf__layout_is_before(int32_t sequence, int32_t other); /* also when the counter went round */
/* Is it the child of this claim, in this session? */
bool hf__layout_is_of(const struct hf__zookeeper *conn, const struct hf__child *child,
                      const struct hf__place *place);
void hf__layout_data(const struct hf__zookeeper *conn, const struct hf__request *request,
                     char out_data[HF__NODE_DATA_BYTES]);
/* What a node's data tell; of what is not ours nothing. */
void hf__layout_bearer(const struct hf__zookeeper *conn, const struct hf__jute_text *data,
                       struct hf__bearer *out_bearer);

/* --- ask.c: questions to the server --- */

struct hf__zasked *hf__ask_begin(struct hf__zookeeper *conn, enum hf__step step,
                                 struct hf__place *owner, enum hf__opcode opcode);
void hf__ask_end(struct hf__zookeeper *conn);
/* It will be written down; NULL: memory ran out, and the connection ends. */
struct hf__zasked *hf__ask_note(struct hf__zookeeper *conn, enum hf__step step,
                                struct hf__place *owner);
int32_t hf__ask_number(struct hf__zookeeper *conn);
void hf__ask_put_delete(struct hf__zookeeper *conn, const struct hf__place *place);
/* The place's own node; of a recipe that has one for a lock `_single`. */
void hf__ask_create(struct hf__zookeeper *conn, struct hf__place *place);
void hf__ask_create_single(struct hf__zookeeper *conn, struct hf__place *place, const char *data,
                           size_t data_bytes);
void hf__ask_delete_own(struct hf__zookeeper *conn, struct hf__place *place);
/* exists, getData, getChildren; the path may be in two pieces: `child` "" or a name. */
struct hf__zasked *hf__ask_about(struct hf__zookeeper *conn, enum hf__step step,
                                 struct hf__place *owner, enum hf__opcode opcode, const char *path);
void hf__ask_watch(struct hf__zookeeper *conn, bool watch); /* ends what hf__ask_about began */
void hf__ask_parents(struct hf__zookeeper *conn, struct hf__place *place);
void hf__ask_check(struct hf__zookeeper *conn, struct hf__place *owner, const char *path);
/* Any node; no place waits for its end. */
void hf__ask_delete(struct hf__zookeeper *conn, enum hf__step step, const char *path);
void hf__ask_set_data(struct hf__zookeeper *conn, enum hf__step step, struct hf__place *owner,
                      const char *path, const char *data);
/* What is read behind it is as new as what anybody has been told. */
void hf__ask_barrier(struct hf__zookeeper *conn, const char *path);
void hf__ask_sync(struct hf__zookeeper *conn, const char *path);
void hf__ask_unwatch_children(struct hf__zookeeper *conn, const char *path);
void hf__ask_beat(struct hf__zookeeper *conn);
void hf__ask_auth(struct hf__zookeeper *conn);
void hf__ask_connect(struct hf__zookeeper *conn);
void hf__ask_close(struct hf__zookeeper *conn);
void hf__ask_watches(struct hf__zookeeper *conn);
void hf__ask_free(struct hf__zookeeper *conn, struct hf__zasked *asked);
void hf__ask_done(struct hf__zookeeper *conn);
/* HF_E* and the text of an error that the server answered. */
int hf__ask_status(struct hf__zookeeper *conn, int32_t error);
void hf__ask_child_path(const struct hf__place *place, const char *child,
                        char out_path[HF__PATH_BYTES + HF__NODE_NAME_BYTES]);

/* --- join.c: which nodes are deleted together? --- */

/* The place's own node. */
void hf__join_delete(struct hf__zookeeper *conn, struct hf__place *place);
/* Asks for the place's node to be made, before those who wait. */
void hf__join_pass(struct hf__zookeeper *conn, struct hf__place *place);
bool hf__join_holds_back(const struct hf__zookeeper *conn);
uint64_t hf__join_deadline(const struct hf__zookeeper *conn);
void hf__join_write(struct hf__zookeeper *conn); /* those who wait, if any do */
void hf__join_hear(struct hf__zookeeper *conn, struct hf__zasked *first, int32_t error,
                   struct hf__jute_reader *answer);

/* --- place.c: who stands where, and what the core must hear --- */

struct hf__place *hf__place_find(const struct hf__zookeeper *conn, uint64_t claim_id);
struct hf__place *hf__place_new(struct hf__zookeeper *conn, const struct hf__request *request);
void hf__place_free(struct hf__zookeeper *conn, struct hf__place *place);
/* The answer to what the core asked; the course is over. */
void hf__place_answer(struct hf__zookeeper *conn, struct hf__place *place,
                      enum hf__reply_kind kind);
void hf__place_fail(struct hf__zookeeper *conn, struct hf__place *place, int32_t error);
/* 1: *out_reply is the next that the core must hear. */
int hf__place_next(struct hf__zookeeper *conn, struct hf__reply *out_reply);
void hf__place_expire(struct hf__zookeeper *conn);
void hf__place_end_all(struct hf__zookeeper *conn);  /* the connection ends */
void hf__place_void_all(struct hf__zookeeper *conn); /* the session has ended */
void hf__place_renewed(struct hf__zookeeper *conn, uint64_t sent_ns);
/* That the session lives is all that it asks: it is answered with the next beat, or at once if one
 * was answered a moment ago. */
void hf__place_renew(struct hf__zookeeper *conn, struct hf__place *place);
/* The node goes; the answer to a RELEASE, or to a CLAIM that was refused, follows when it is
 * gone. */
void hf__place_leave(struct hf__zookeeper *conn, struct hf__place *place);
void hf__place_hear_delete(struct hf__zookeeper *conn, struct hf__place *place, int32_t error);
void hf__place_begin(struct hf__place *place); /* a new course */
/* How long a grant lasts without a word from us. */
uint64_t hf__place_lease_ns(const struct hf__zookeeper *conn, const struct hf__place *place);

/* --- session.c: how does a session begin, live and end? --- */

/* Can a node that was made for us have it? It is later than all that was seen before. */
bool hf__session_is_new(const struct hf__zookeeper *conn, int64_t czxid);
int hf__session_hear(struct hf__zookeeper *conn, struct hf__jute_reader *packet);
/* What was written then, the leader has answered. */
void hf__session_lives(struct hf__zookeeper *conn, uint64_t sent_ns);
void hf__session_keep(struct hf__zookeeper *conn);
uint64_t hf__session_deadline(const struct hf__zookeeper *conn);

/* --- together.c: lists for many --- */

/* One more answer that the course waits for: the line, with all nodes asked for so far. */
void hf__together_list(struct hf__zookeeper *conn, struct hf__place *place);
void hf__together_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                       struct hf__jute_reader *answer);

/* --- footprint.c: has anybody been here since we left? --- */

bool hf__footprint_hopes(struct hf__zookeeper *conn, const struct hf__place *place);
bool hf__footprint_proves(struct hf__zookeeper *conn, const struct hf__place *place);
void hf__footprint_hold(struct hf__zookeeper *conn, struct hf__place *place);
void hf__footprint_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error);
void hf__footprint_leave(struct hf__zookeeper *conn, const struct hf__place *place);
void hf__footprint_event(struct hf__zookeeper *conn, int32_t type,
                         const struct hf__jute_text *path);
void hf__footprint_forget(struct hf__zookeeper *conn); /* with the connection */
void hf__footprint_watch_later(struct hf__zookeeper *conn, struct hf__place *place);
void hf__footprint_keep(struct hf__zookeeper *conn);

/* --- glance.c: what if an event never comes? --- */

void hf__glance_begin(struct hf__zookeeper *conn); /* somebody waits */
void hf__glance_keep(struct hf__zookeeper *conn);
void hf__glance_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                     struct hf__jute_reader *answer);

/* --- inquiry.c: LIST and BREAK --- */

int hf__inquiry_start(struct hf__zookeeper *conn, const struct hf__request *request);
void hf__inquiry_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                      struct hf__jute_reader *reader);
int hf__inquiry_next(struct hf__zookeeper *conn, struct hf__reply *out_reply);
void hf__inquiry_end(struct hf__zookeeper *conn, int status);
void hf__inquiry_done(struct hf__zookeeper *conn);

void hf__zookeeper_end(struct hf__zookeeper *conn, int status);

extern const struct hf__zookeeper_recipe hf__zookeeper_sequence;
extern const struct hf__zookeeper_recipe hf__zookeeper_node;

#endif
