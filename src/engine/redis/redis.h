/* redis.h: the parts of the Redis engine, as they see each other. */
#ifndef HF_ENGINE_REDIS_REDIS_H
#define HF_ENGINE_REDIS_REDIS_H

#include "base/list.h"
#include "base/name.h"
#include "base/secret.h"
#include "base/stream.h"
#include "engine/engine.h"
#include "engine/redis/wire.h"

#define HF__REDIS_PREFIX_BYTES 256
#define HF__REDIS_KEY_BYTES    (HF__REDIS_PREFIX_BYTES + HF_NAME_BYTES_MAX + 8)
#define HF__REDIS_WHO_BYTES    (HF__PURPOSE_BYTES + HF__HOST_BYTES + 64)
#define HF__REDIS_NODE_BYTES   (HF__REDIS_PREFIX_BYTES + 8)
#define HF__REDIS_TAG_BYTES    17 /* of a claim's number in hex */
#define HF__REDIS_BATCH_MAX    64
#define HF__REDIS_SCRIPTS_MAX  8
#define HF__SHA1_HEX_BYTES     40

struct hf__redis;
struct hf__course;

/* What was sent and is not answered yet. */
enum hf__asked_kind {
    HF__ASKED_GREETING, /* a step of the handshake: `step` says which */
    HF__ASKED_LOAD,     /* a script, again */
    HF__ASKED_ONE,      /* one request */
    HF__ASKED_MANY,     /* renewals or refreshes that travel together */
    HF__ASKED_SCAN,     /* LIST: which names are there? */
    HF__ASKED_PAGE,     /* LIST: one lock */
    HF__ASKED_STEP,     /* one command of a request that takes several: course.c answers it */
};

struct hf__asked {
    struct hf__list place; /* in conn->asked: in the order of sending */
    enum hf__asked_kind kind;
    uint32_t step;
    struct hf__course *course; /* STEP: of which; NULL: it was answered without this */
    uint64_t from; /* its bytes, counted from the first that this connection ever sent */
    uint64_t until;
    uint64_t deadline_ns;
    bool abandoned; /* answered UNKNOWN at its deadline: nobody waits for this any more */
    uint32_t count;
    uint32_t answered;
    struct hf__ticket tickets[]; /* `count` of them */
};

/* A waiting claim that is first in line looks again when the holder's lease must have ended. */
struct hf__lookout {
    struct hf__list place; /* in conn->lookouts, or in conn->free_lookouts */
    uint64_t claim_id;
    uint64_t at_ns;
};

/* RENEW or INSPECT, until the next advance(). */
struct hf__gathered {
    struct hf__ticket ticket;
    uint64_t deadline_ns;
    uint64_t lease_ms;
    bool shorten;
    char token[2 * HF__TOKEN_BYTES + 1];
    size_t key_bytes;
    char key[HF__REDIS_KEY_BYTES];
};

/* One script of a recipe. */
struct hf__script {
    const char *text;
    /* Calls it by the name that the server gave it when it was loaded. */
    char call[sizeof("$7\r\nEVALSHA\r\n$40\r\n\r\n") + HF__SHA1_HEX_BYTES];
};

/* A key of one of our locks that a scan met. */
struct hf__found {
    char *key; /* of the lock, without the ending */
    const char *ending;
};

/* A LIST under way: SCAN finds keys, then the locks are asked for. One at a time. */
struct hf__scan {
    bool active;
    struct hf__ticket ticket;
    uint64_t deadline_ns;
    bool all;
    char glob[HF_NAME_BYTES_MAX + 1];
    uint64_t cursor; /* 0 when the scan has come round */
    struct hf__found *found;
    size_t found_count;
    size_t found_at; /* those before it are listed */
    uint64_t skip;   /* where the script takes the next one up again */
    uint32_t lock_index;
    uint32_t entry_index; /* how far the page is handed out */
    uint64_t *seen;       /* hashes of the keys that were met */
    size_t seen_count;
    size_t seen_room;
};

/* What the server says about itself. */
struct hf__redis_server {
    char version[24];
    char run_id[48];
    uint64_t uptime_s;
    bool replica;
    bool append_only;
    bool append_always;
    bool tells_config; /* we may ask it for its configuration */
    bool evicts;
    uint64_t time_asked_ns;
    int64_t clock_offset_us; /* its wall clock - our clock, at most a round trip too great */
};

struct hf__redis_recipe {
    struct hf__recipe recipe; /* first: the seam sees only this */
    const char *default_prefix;
    bool has_node;              /* its servers are marked: one of a quorum */
    bool raw_names;             /* prefix + name as it is, shared with other programs */
    const char *const *scripts; /* NULL ends */
    /* Bits: those that are called often go by their names, and may be forgotten by the server: then
     * they are loaded again, and whoever asked asks again. The others are sent whole each time. */
    uint32_t by_name;
    uint32_t list_script;
    const char *const *endings; /* how the keys end by which a lock is found; NULL ends */
    bool releases_apart;        /* on a connection of their own */
    /* Takes a request that takes several commands: 1, or < 0 as ask() does; 0: it takes one. NULL:
     * none does. */
    int (*start)(struct hf__redis *conn, const struct hf__request *request);
    /* The answer to one of them; 1: *out_reply is the answer to the request. */
    int (*step)(struct hf__redis *conn, struct hf__course *course, const struct hf__asked *asked,
                const struct hf__value *value, struct hf__reply *out_reply);
    /* The request is given up before it came to its end; true: its course goes on all the same.
     * NULL: nothing is to be done then. */
    bool (*forsake)(struct hf__redis *conn, struct hf__course *course);
    /* Starts what had to wait for others; NULL: nothing does. */
    int (*proceed)(struct hf__redis *conn);
    /* Appends the command for a request. < 0: refused, with conn->base.error. */
    int (*ask)(struct hf__redis *conn, const struct hf__request *request);
    /* Appends one command for all that is gathered. */
    void (*ask_many)(struct hf__redis *conn);
    /* What the answer means. */
    void (*hear)(struct hf__redis *conn, const struct hf__ticket *ticket,
                 const struct hf__value *value, struct hf__reply *out_reply);
    /* A message on one of our channels; false: it means nothing. */
    bool (*news)(struct hf__redis *conn, const struct hf__value *message,
                 struct hf__reply *out_reply);
};

struct hf__redis {
    struct hf__conn base;
    const struct hf__redis_recipe *recipe;
    const struct hf__url *url;
    struct hf__stream *stream;
    enum hf__stream_state stream_state;
    struct hf__outgoing out;
    struct hf__incoming in;
    uint64_t sent_bytes; /* that this connection ever sent */
    bool has_heard;      /* anything at all, from this server on this connection */
    bool may_read;       /* somebody waited since the last read came back empty */
    uint32_t reads_left; /* until somebody waits again */
    uint32_t reads;
    int peer_cpu; /* where the server ran when it last sent, as far as we looked; -1: elsewhere */
    bool greeted;
    bool ending; /* every request is being answered; then it is DOWN */
    int end_status;
    uint64_t greet_by_ns;
    uint64_t first_deadline_ns; /* none of `asked` has an earlier one */
    struct hf__list asked;
    struct hf__list free_asked; /* of one ticket each */
    struct hf__list lookouts;
    struct hf__list free_lookouts;
    struct hf__list courses;
    struct hf__redis *apart;        /* the connection for releases, or NULL */
    struct hf__redis *beside;       /* of that one: this; or NULL */
    int64_t wall_offset_us;         /* of our wall clock from our clock */
    struct hf__sighting *sightings; /* setnx.c */
    uint64_t now_ns;                /* as advance() was told */
    uint32_t greetings_left;
    uint32_t channels_left;
    struct hf__script scripts[HF__REDIS_SCRIPTS_MAX];
    struct hf__redis_server server;
    bool clock_doubted; /* the server's clock is to be asked for again */
    uint64_t restart_wait_ns;
    uint64_t open_from_ns; /* of a server that forgets: nothing is granted before */

    struct hf__gathered *gathered; /* room for HF__REDIS_BATCH_MAX */
    uint32_t gathered_count;
    enum hf__request_kind gathered_kind;

    /* The answer to a batch, while its replies are handed out one by one. */
    struct hf__asked *current;
    const struct hf__value *current_value;
    const struct hf__value *current_item; /* the answer to the next ticket */
    struct hf__scan listing;

    char prefix[HF__REDIS_PREFIX_BYTES];
    char password[HF__SECRET_BYTES_MAX + 1]; /* of the URL or its file, as of this connection */
    char client[17];                         /* its number in hex: channels and records carry it */
    char whence[HF__HOST_BYTES + 24];        /* "pid host" */
    char purpose[HF__PURPOSE_BYTES];
    bool listens_to_calls;
    bool listens_to_keeper;
    struct hf__holder holder; /* that a reply points at */
    struct hf_holding entry;
    char entry_name[HF_NAME_BYTES_MAX + 1];
};

/* --- terms.c: what does the URL ask for? --- */

int hf__terms_read(struct hf__redis *conn, const struct hf__conn_options *options);
bool hf__terms_tls(const struct hf__url *url);

/* --- traffic.c: bytes out and in --- */

#define HF__REDIS_PORT      6379
#define HF__REDIS_READS_MAX 64 /* between two waits: a server that sends without end gets no more */

void hf__traffic_send(struct hf__redis *conn);
bool hf__traffic_awaits_answer(const struct hf__redis *conn);
int hf__traffic_receive(struct hf__redis *conn); /* 1: something came */
void hf__traffic_heard(struct hf__redis *conn, const void *bytes, size_t count);
/* Nothing more is sent or read: what is left is answered, and then the connection is DOWN. */
void hf__traffic_end(struct hf__redis *conn, int status);
void hf__traffic_end_with_stream(struct hf__redis *conn);

/* --- answers.c: whose is this answer? --- */

/* 1 with a reply; 0: nothing more has come. */
int hf__answers_next(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply);
/* The same, while conn->current is a batch that is not handed out yet. */
int hf__answers_next_of_batch(struct hf__redis *conn, struct hf__reply *out_reply);

/* --- asked.c: what is under way on this connection --- */

/* Starts a command of so many tickets; NULL: out of memory. What is appended to conn->out until
 * hf__asked_end belongs to it. */
struct hf__asked *hf__asked_begin(struct hf__redis *conn, enum hf__asked_kind kind,
                                  uint32_t tickets);
int hf__asked_end(struct hf__redis *conn, struct hf__asked *asked, uint64_t deadline_ns);
void hf__asked_free(struct hf__redis *conn, struct hf__asked *asked);
void hf__asked_done(struct hf__redis *conn);
/* The next that must be told that no answer came in time (or, while the connection ends, ever). 1:
 * *out_reply is for it; 0: none. */
int hf__asked_expire(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply);
int hf__asked_end_next(struct hf__redis *conn, struct hf__reply *out_reply);

/* --- lookout.c: when is it worth to look again? --- */

void hf__lookout_set(struct hf__redis *conn, uint64_t claim_id, uint64_t left_ms);
/* 1: *out_reply is news for somebody who should look. */
int hf__lookout_due(struct hf__redis *conn, uint64_t now_ns, struct hf__reply *out_reply);
uint64_t hf__lookout_first(const struct hf__redis *conn);
void hf__lookout_done(struct hf__redis *conn);

/* --- greet.c: who are we, who is the server, what does it promise? --- */

int hf__greet_send(struct hf__redis *conn, uint64_t now_ns);
/* 0, or < 0 with conn->base.error: this server will not do. */
int hf__greet_hear(struct hf__redis *conn, const struct hf__asked *asked,
                   const struct hf__value *value, uint64_t now_ns);
/* A channel is open. */
void hf__greet_listens(struct hf__redis *conn);
int hf__greet_ask_time(struct hf__redis *conn, uint64_t now_ns);
int hf__greet_load(struct hf__redis *conn, uint32_t script, uint64_t deadline_ns);

/* --- scan.c --- */

int hf__scan_start(struct hf__redis *conn, const struct hf__request *request);
/* 1 with a reply, 0 if none came of it. */
int hf__scan_hear(struct hf__redis *conn, struct hf__asked *asked, const struct hf__value *value,
                  struct hf__reply *out_reply);
/* The same, while conn->current is a page that is not handed out yet. */
int hf__scan_next(struct hf__redis *conn, struct hf__reply *out_reply);
void hf__scan_done(struct hf__redis *conn);

/* --- words.c: how are names, tokens and people written in Redis? --- */

/* The key of this lock; HF_ENAME if the store cannot carry it. `out_hashed`: the name itself must
 * be stored beside it. */
size_t hf__words_key(const struct hf__redis *conn, const char *name, size_t name_bytes,
                     char out_key[HF__REDIS_KEY_BYTES], bool *out_hashed);
void hf__words_token(const uint8_t token[HF__TOKEN_BYTES], char out_text[2 * HF__TOKEN_BYTES + 1]);
size_t hf__words_tag(uint64_t claim_id, char out_tag[HF__REDIS_TAG_BYTES]);
/* The key under which a server of a quorum keeps what it must not forget. */
void hf__words_node(const struct hf__redis *conn, char out_key[HF__REDIS_NODE_BYTES]);
size_t hf__words_who(const struct hf__redis *conn, uint64_t claim_id, const char *purpose,
                     char out_who[HF__REDIS_WHO_BYTES]);
/* "client pid host purpose"; false: written by somebody else. */
bool hf__words_read_who(const char *text, size_t bytes, struct hf__holder *out_holder);
/* An error of the server: which of ours is it, and was the command perhaps executed? */
void hf__words_error(struct hf__redis *conn, const struct hf__value *error,
                     struct hf__reply *out_reply);

void hf__redis_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                     struct hf__reply *out_reply);
void hf__redis_protocol_error(struct hf__redis *conn, const struct hf__value *value,
                              struct hf__reply *out_reply);

/* Calls this script on so many keys; the caller adds the keys and so many words more. */
void hf__words_begin(struct hf__redis *conn, uint32_t script, size_t keys, size_t words);
/* What all channels begin with. */
void hf__words_channels(struct hf__redis *conn);
/* The latest time by the server's clock at which a request may still be executed. */
uint64_t hf__words_latest_us(const struct hf__redis *conn, const struct hf__request *request);
/* "WHO" behind so many words; the second word is the number. NULL: written by somebody else. */
const struct hf__holder *hf__words_holder(struct hf__redis *conn, const struct hf__value *value,
                                          int words);
/* What has nothing more to say than one number is answered by that alone, because a table costs the
 * server as much as two commands: of a claim the number that was granted, of a release whether it
 * was there. */
bool hf__words_hear_plain(const struct hf__value *value, struct hf__reply *out_reply);

extern const struct hf__redis_recipe hf__redis_fair;
extern const struct hf__redis_recipe hf__redis_quorum;
extern const struct hf__redis_recipe hf__redis_set;
extern const struct hf__redis_recipe hf__redis_setnx;
extern const struct hf__redis_recipe hf__redis_getset;

#endif
