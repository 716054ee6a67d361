/* mysql.h: the parts of the MySQL and MariaDB engine, as they see each other. */
#ifndef HF_ENGINE_MYSQL_MYSQL_H
#define HF_ENGINE_MYSQL_MYSQL_H

#include "base/buffer.h"
#include "base/list.h"
#include "base/secret.h"
#include "base/stream.h"
#include "engine/bearer.h"
#include "engine/database.h"
#include "engine/engine.h"
#include "engine/mysql/anchor.h"
#include "engine/vigil.h"

#define HF__MYSQL_PORT         3306
#define HF__MYSQL_PREFIX_BYTES 33 /* with the NUL; names of locks of the server have at most 64 */
#define HF__MYSQL_BATCH_MAX    64
#define HF__MYSQL_PACKET_MAX   (256u << 10) /* an answer is much smaller */
#define HF__MYSQL_SCRAMBLE     20
#define HF__MYSQL_PROOF_MAX    32
#define HF__MYSQL_NEWS_BYTES   17 /* of a claim: its token, and what became of it */
#define HF__MYSQL_NEWS_MAX     64
#define HF__MYSQL_LIST_COLUMNS 7
#define HF__MYSQL_SLOTS        256
#define HF__MYSQL_ANSWER       1    /* the number of its first packet */
#define HF__MYSQL_BYTE_ERROR   0xff /* that an error begins with */

/* The clock of the server, in microseconds, when this is evaluated: behind a row that was waited
 * for, that is after the wait. */
#define HF__MYSQL_CLOCK "timestampdiff(MICROSECOND, '1970-01-01', sysdate(6))"

/* Whoever holds a lock that is a session's, as far as the account may see the sessions. */
#define HF__MYSQL_LIST_SESSIONS(kind)                                                              \
    "SELECT s.name, '0', '0', cast(s.fence AS char),"                                              \
    " cast(greatest(s.lease_us - p.time * 1000000, 0) AS char),"                                   \
    " cast(" HF__MYSQL_CLOCK " - s.since_us AS char), s.who"                                       \
    " FROM hf_session AS s JOIN information_schema.processlist AS p ON p.id = s.session"           \
    " WHERE s.kind = " kind " AND s.name BETWEEN ? AND ? AND s.name BETWEEN ? AND ?"               \
    " ORDER BY s.name"

/* Errors of the server that more than one file knows by name. */
#define HF__MYSQL_NO_SUCH_THREAD 1094
#define HF__MYSQL_NOT_OURS       1095
#define HF__MYSQL_INTERRUPTED    1317
#define HF__MYSQL_NO_TABLE       1146
#define HF__MYSQL_NO_ROUTINE     1305

/* The statements that are prepared on every connection; LISTEN and LOOK on the bell's alone. */
enum hf__sql {
    HF__SQL_TAKE, /* what is free, and nobody wants */
    HF__SQL_GIVE, /* back, what nobody wants */
    HF__SQL_HAND, /* on, to the first in line ... */
    HF__SQL_RING, /* ... who is to be woken */
    HF__SQL_CLAIM,
    HF__SQL_RELEASE,
    HF__SQL_LOWER,
    HF__SQL_BREAK,
    HF__SQL_TOGETHER,
    HF__SQL_LIST,
    HF__SQL_TRY,   /* steps of a lock that is a session's: take it if it is free */
    HF__SQL_WAIT,  /* for it */
    HF__SQL_ENTER, /* draw the fence */
    HF__SQL_LEAVE,
    HF__SQL_LEASE, /* another one is written down */
    HF__SQL_LISTEN,
    HF__SQL_LOOK, /* at the news alone */
    HF__SQL_IDLE, /* not prepared: how long may the session be silent? */
    HF__SQL_KILL, /* nor this: end another session of ours */
};
#define HF__SQLS 17

/* --- packet.c: what do the bytes of the protocol say? --- */

/* Reads from the front; whatever is missing sets `failed`, and is 0 or empty. */
struct hf__reading {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

uint64_t hf__packet_number(struct hf__reading *scan, size_t bytes);
/* A number that says how long it is. */
uint64_t hf__packet_count(struct hf__reading *scan);
const uint8_t *hf__packet_bytes(struct hf__reading *scan, size_t bytes);
/* Up to a NUL, or to the end. */
const char *hf__packet_text(struct hf__reading *scan, size_t *out_bytes);
/* Bytes that say how many they are; NULL (and no failure) for an SQL NULL. */
const uint8_t *hf__packet_string(struct hf__reading *scan, size_t *out_bytes);

/* A command, while it is written: the first failure stays. */
struct hf__letter {
    struct hf__buffer *to;
    size_t began;
    uint8_t sequence;
    int status;
};

void hf__packet_begin(struct hf__letter *letter, struct hf__buffer *to, uint8_t sequence);
void hf__packet_put(struct hf__letter *letter, const void *bytes, size_t count);
void hf__packet_put_number(struct hf__letter *letter, uint64_t number, size_t bytes);
void hf__packet_put_string(struct hf__letter *letter, const void *bytes, size_t count);
int hf__packet_end(struct hf__letter *letter);

/* --- scramble.c: how is a password shown without being told? --- */

enum hf__scramble {
    HF__SCRAMBLE_NATIVE, /* mysql_native_password */
    HF__SCRAMBLE_SHA2,   /* caching_sha2_password */
    HF__SCRAMBLE_NONE,   /* one that we do not know */
};

enum hf__scramble hf__scramble_find(const char *plugin, size_t bytes);
const char *hf__scramble_name(enum hf__scramble scramble);
/* How many bytes it has; 0: of an empty password. */
size_t hf__scramble_prove(enum hf__scramble scramble, const char *password,
                          const uint8_t challenge[HF__MYSQL_SCRAMBLE],
                          uint8_t out_proof[HF__MYSQL_PROOF_MAX]);

/* --- cable.c: how do packets get to a server, and back? --- */

enum hf__cable_phase {
    HF__CABLE_CLOSED,
    HF__CABLE_CONNECTING,
    HF__CABLE_GREETED, /* by us: it is the server's turn */
    HF__CABLE_SECURING,
    HF__CABLE_SIGNING, /* it looks at our password */
    HF__CABLE_UP,
    HF__CABLE_DOWN, /* for the reason that is in `error` */
};

struct hf__cable {
    const struct hf__env *env;
    const struct hf__url *url;
    const char *password;
    struct hf__stream *stream;
    struct hf__buffer input;
    struct hf__buffer output;
    enum hf__cable_phase phase;
    uint64_t by_ns;   /* up by then, or never */
    bool may_read;    /* somebody waited since the last read */
    bool is_cut;      /* nothing more will come; what has come is heard */
    uint8_t sequence; /* the number of the packet that is due, theirs or ours */
    enum hf__scramble scramble;
    uint8_t challenge[HF__MYSQL_SCRAMBLE];
    uint64_t number; /* of the connection, as the greeting says */
    bool offers_tls; /* likewise */
    char version[64];

    /* The result that is being read (result.c). */
    uint32_t columns;
    uint32_t definitions_left;
    bool in_rows;
    uint32_t prepared; /* a statement, whose definitions are being read */
    bool has_heard;    /* the first packet is done with */

    int status;
    char error[HF__ERROR_BYTES];
};

/* `password` and `by_ns` are set already. */
int hf__cable_open(struct hf__cable *cable, const struct hf__env *env, const struct hf__url *url,
                   size_t server, uint64_t now_ns);
/* Of a line that was opened: sends and receives what can be; DOWN only when all is heard. */
void hf__cable_advance(struct hf__cable *cable, uint64_t now_ns);
/* The next packet, or NULL; consumed by hf__cable_drop. */
const uint8_t *hf__cable_packet(struct hf__cable *cable, size_t *out_bytes);
/* Has it the number that is due? If not, the cable is DOWN; once for every packet. An error may
 * have any: a server may part with one when nobody asked. */
bool hf__cable_is_in_order(struct hf__cable *cable, const uint8_t *packet, size_t bytes);
void hf__cable_drop(struct hf__cable *cable);
void hf__cable_fail(struct hf__cable *cable, int status, const char *text);
void hf__cable_pollset(struct hf__cable *cable, struct hf__pollset *set);
const char *hf__cable_peer(const struct hf__cable *cable);
void hf__cable_close(struct hf__cable *cable);

/* --- handshake.c: who are we to each other? --- */

/* A packet of the server while the line is GREETED or SIGNING. */
void hf__handshake_hear(struct hf__cable *cable, const uint8_t *packet, size_t bytes);
/* TLS is agreed upon. */
void hf__handshake_sign(struct hf__cable *cable);

/* --- result.c: what does the server answer? --- */

enum hf__result_kind {
    HF__RESULT_NONE, /* nothing more has come */
    HF__RESULT_OK,   /* of a statement, or after the last row of a result */
    HF__RESULT_ERROR,
    HF__RESULT_ROW,
    HF__RESULT_PREPARED,
};

/* To what. Rows are texts after a query, and in a form of their own after a prepared statement. */
enum hf__result_form {
    HF__RESULT_OF_QUERY,
    HF__RESULT_OF_PREPARING,
    HF__RESULT_OF_EXECUTING,
};

struct hf__result {
    enum hf__result_kind kind;
    bool is_last; /* the command is answered */
    bool in_transaction;
    uint32_t code;          /* ERROR: its number; PREPARED: the statement's */
    uint64_t changed;       /* OK: how many rows */
    uint64_t number;        /* OK: LAST_INSERT_ID() */
    uint32_t columns;       /* ROW, and OK after the last row */
    struct hf__reading row; /* ROW: its columns, all of them strings */
    char text[HF__ERROR_BYTES / 2];
};

/* Valid until the next call. */
void hf__result_next(struct hf__cable *cable, enum hf__result_form form,
                     struct hf__result *out_result);

/* --- recipes: one file each --- */

struct hf__mysql_recipe {
    struct hf__recipe recipe;
    const char *const *texts; /* by enum hf__sql; NULL: it has no such thing */
    const char *rights;       /* fails where a right is missing, and changes nothing */
    const char *table;        /* that ?table= replaces; NULL: none */
    bool moors;               /* a lock is a session's (anchor.c) ... */
    bool keeps_open;          /* ... and a transaction's */
};

/* --- the engine's own --- */

/* How we come in: each of these is answered before the connection is up. */
enum hf__arrival_step {
    HF__ARRIVAL_FACTS,     /* who is the server? */
    HF__ARRIVAL_VARIABLES, /* and how is it set up? */
    HF__ARRIVAL_SET,       /* what the session needs */
    HF__ARRIVAL_PREPARE,   /* one statement */
    HF__ARRIVAL_RIGHTS,    /* may we use the tables? */
    HF__ARRIVAL_CREATE,    /* one table or procedure */
    HF__ARRIVAL_TIME,      /* its clock, again */
    HF__ARRIVAL_PART,      /* the bell is given up */
};

enum hf__parcel_kind {
    HF__PARCEL_ARRIVAL,
    HF__PARCEL_ONE,  /* one request */
    HF__PARCEL_MANY, /* renewals or refreshes that travel together */
    HF__PARCEL_LIST,
    HF__PARCEL_RING, /* behind a ONE that hands it on */
    HF__PARCEL_STEP, /* of a lock that is a session's: the core asked for none of it as it is */
};

/* What was sent and is not answered yet. */
struct hf__parcel {
    struct hf__list place; /* in conn->parcels: in the order of sending */
    enum hf__parcel_kind kind;
    enum hf__arrival_step step;
    uint32_t index; /* PREPARE: of the statement; STEP: which time it is that this is for */
    uint64_t deadline_ns;
    bool abandoned;   /* answered UNKNOWN at its deadline: nobody waits for this any more */
    bool is_heard;    /* all of the answer is there */
    uint32_t code;    /* MANY: of the error that is the answer; 0: none */
    enum hf__sql sql; /* of a STEP ... */
    struct hf__anchor *anchor; /* ... and whose; NULL: the session's own */
    /* A statement that takes or gives back what nobody else wants; if it changes nothing, this is
     * sent: a call of the procedure that knows what to do. */
    bool is_brief;
    bool hands_on; /* a RING must follow */
    uint32_t slot; /* of conn->is_crowded */
    uint8_t *fallback;
    size_t fallback_bytes;
    uint32_t count;
    uint32_t answered;
    struct hf__ticket tickets[]; /* `count` of them */
};

/* RENEW or INSPECT, until the next advance(). */
struct hf__gathered {
    struct hf__ticket ticket;
    uint64_t deadline_ns;
    uint64_t lease_us;
    bool shorten;
    uint8_t token[HF__TOKEN_BYTES];
    size_t name_bytes;
    char name[HF_NAME_BYTES_MAX];
};

/* What the server says about itself. */
struct hf__mysql_server {
    bool is_told; /* it has answered when it was last asked who it is, or what the time is */
    bool is_mariadb;
    bool forgets;   /* it never writes to its disk on purpose */
    bool flushes;   /* a commit is on the disk when it is answered */
    bool has_log;   /* a binary log */
    bool syncs_log; /* which is there too */
    uint64_t time_asked_ns;
    int64_t clock_offset_us; /* its wall clock - our clock, at most a round trip too great */
};

enum hf__bell_phase {
    HF__BELL_OFF, /* until `at_ns` */
    HF__BELL_CONNECTING,
    HF__BELL_SETTING,
    HF__BELL_PREPARING,
    HF__BELL_LISTENING,
    HF__BELL_PAUSING, /* more is told again than can be remembered */
};

/* The connection that waits to be woken. */
struct hf__bell {
    struct hf__cable cable;
    enum hf__bell_phase phase;
    uint64_t at_ns; /* OFF: when it is tried again; else when it must have moved on */
    uint32_t tries; /* since it last listened */
    uint32_t settings_left;
    uint32_t under_way;     /* LISTENING: statements that are not answered */
    uint32_t told;          /* news since there were last none */
    bool is_telling;        /* there were some in what is being heard */
    bool is_parting;        /* nobody listens any more */
    uint32_t statements[2]; /* the numbers of LISTEN and LOOK */
    uint32_t prepared;
    uint32_t seen_count;
    uint8_t seen[HF__MYSQL_NEWS_MAX][HF__MYSQL_NEWS_BYTES];
};

struct hf__mysql {
    struct hf__conn base;
    const struct hf__url *url;
    struct hf__cable cable;
    size_t server;  /* of the URL: being tried, or in use */
    size_t tried;   /* so many servers since open() */
    uint64_t by_ns; /* the end of the beginning */
    bool greeted;
    bool ending; /* every request is being answered; then it is DOWN */
    int end_status;
    bool sends_at_once;
    uint64_t first_deadline_ns;
    uint64_t now_ns;     /* as advance() was told */
    uint64_t look_at_ns; /* from then on it is read though nobody waits */
    struct hf__list parcels;
    struct hf__vigils vigils;
    uint32_t statements[HF__SQLS]; /* their numbers */
    /* Names, by their hash, of which the brief way was tried in vain when it was last tried: to
     * take, and to give back. */
    bool is_crowded[2][HF__MYSQL_SLOTS];

    /* The welcome. */
    uint32_t arrivals_left;
    bool is_missing; /* tables or procedures, or some of them */
    bool has_created;
    bool clock_doubted; /* the server's clock is to be asked for again */
    int create_status;  /* why they could not be made, with the text */
    char create_error[HF__ERROR_BYTES];
    struct hf__mysql_server about;

    struct hf__gathered *gathered; /* room for HF__MYSQL_BATCH_MAX */
    uint32_t gathered_count;
    enum hf__request_kind gathered_kind;

    /* The answer that is being heard, or handed out line by line. */
    struct hf__buffer said;
    struct hf__buffer spare; /* for what is being written */
    size_t said_at;
    bool list_all;
    char list_glob[HF_NAME_BYTES_MAX + 1];

    struct hf__bell bell;
    bool listens;
    struct hf__mooring mooring;

    char prefix[HF__MYSQL_PREFIX_BYTES];
    char table[HF__MYSQL_PREFIX_BYTES]; /* "": the recipe's own */
    char password[HF__SECRET_BYTES_MAX + 1];
    char client[17]; /* its number in hex: its bell is called by it */
    char whence[HF__WHENCE_BYTES];
    char purpose[HF__PURPOSE_BYTES];
    struct hf__bearer bearer;
    struct hf_holding entry; /* that a reply points at */
    char entry_name[HF_NAME_BYTES_MAX + 1];
};

/* --- engine.c --- */

/* A renewal or a refresh, which travels with others. */
int hf__mysql_gather(struct hf__mysql *conn, const struct hf__request *request);

/* --- whither.c: what does the URL ask for? --- */

int hf__whither_read(struct hf__mysql *conn, const struct hf__conn_options *options);

/* --- failure.c: what does an error mean? --- */

/* HF_E*, with the text in conn->base.error; *out_kind: FAILED or UNKNOWN. The connection ends
 * where that is what it means. */
int hf__failure_judge(struct hf__mysql *conn, const struct hf__result *result,
                      enum hf__reply_kind *out_kind);
/* The status for a request of this kind: what was named long ago is not a bad name. */
int hf__failure_of(enum hf__request_kind kind, int status);
/* Of an error that a server greets with; HF_OK: not one that we know. */
int hf__failure_greeting(uint32_t code, const char **out_text);

/* --- parcel.c: what is under way on this connection? --- */

struct hf__parcel *hf__parcel_new(struct hf__mysql *conn, enum hf__parcel_kind kind,
                                  uint32_t tickets);
/* It was written down for the server (or not: then it is FAILED, and so is the connection). */
int hf__parcel_send(struct hf__mysql *conn, struct hf__parcel *parcel, int written);
void hf__parcel_free(struct hf__mysql *conn, struct hf__parcel *parcel);
void hf__parcel_done(struct hf__mysql *conn);
struct hf__parcel *hf__parcel_oldest(const struct hf__mysql *conn);
bool hf__parcel_has(const struct hf__mysql *conn, enum hf__parcel_kind kind);
int hf__parcel_expire(struct hf__mysql *conn, uint64_t now_ns, struct hf__reply *out_reply);
int hf__parcel_end_next(struct hf__mysql *conn, struct hf__reply *out_reply);

/* --- inbox.c: whose is this answer, and what does it become? --- */

/* 1 with a reply; 0: nothing more has come. */
int hf__inbox_next(struct hf__mysql *conn, struct hf__reply *out_reply);
void hf__mysql_end(struct hf__mysql *conn, int status);
void hf__mysql_end_by_nonsense(struct hf__mysql *conn);
void hf__mysql_reply(const struct hf__ticket *ticket, enum hf__reply_kind kind,
                     struct hf__reply *out_reply);

/* --- bell.c: who wakes us? --- */

/* 1: *out_reply is news. */
int hf__bell_advance(struct hf__mysql *conn, struct hf__reply *out_reply);
void hf__bell_pollset(struct hf__mysql *conn, struct hf__pollset *set);
/* True as long as the server has not let go of it. */
bool hf__bell_part(struct hf__mysql *conn);
void hf__bell_done(struct hf__mysql *conn);

/* --- arrival.c: who is the server, and what does it promise? --- */

int hf__arrival_send(struct hf__mysql *conn);
int hf__arrival_ask_time(struct hf__mysql *conn);
int hf__arrival_ask_to_part(struct hf__mysql *conn);
/* One result of a step; < 0, with conn->base.error: this server will not do. */
int hf__arrival_hear(struct hf__mysql *conn, const struct hf__parcel *parcel,
                     struct hf__result *result);
/* A step is over; after the last the connection is up, or tables are made. */
int hf__arrival_finish(struct hf__mysql *conn);

/* --- sql.c: the SQL, and what is in its parameters --- */

extern const char hf__sql_queue_schema[]; /* with HF__DATABASE_PREFIX */
extern const char hf__sql_row_schema[];
extern const char hf__sql_named_schema[];
extern const char hf__sql_for_update_schema[];
extern const char hf__sql_version_schema[];
/* The text with the prefix of this connection; to be freed; NULL: out of memory. */
char *hf__sql_prefixed(const struct hf__mysql *conn, const char *text, size_t bytes);
const struct hf__mysql_recipe *hf__sql_recipe(const struct hf__mysql *conn);
int hf__sql_query(struct hf__mysql *conn, struct hf__cable *cable, const char *text);
int hf__sql_prepare(struct hf__mysql *conn, struct hf__cable *cable, enum hf__sql sql);
int hf__sql_send(struct hf__mysql *conn, const struct hf__request *request,
                 struct hf__parcel *parcel);
int hf__sql_send_ring(struct hf__mysql *conn);
int hf__sql_send_gathered(struct hf__mysql *conn);
int hf__sql_send_list(struct hf__mysql *conn, const char *glob);
/* Both of them. */
int hf__sql_send_listen(struct hf__mysql *conn, uint32_t wait_s);
int hf__sql_send_step(struct hf__mysql *session, enum hf__sql sql, const struct hf__anchor *anchor);

/* --- queue.c: the recipe `queue`: what do the answers mean? --- */

void hf__mysql_queue_hear(struct hf__mysql *conn, const struct hf__ticket *ticket,
                          const char *answer, struct hf__reply *out_reply);
/* One row of news; false: it means nothing. */
bool hf__mysql_queue_news(struct hf__mysql *conn, struct hf__result *result,
                          struct hf__reply *out_reply);
/* One row of a list; false: it is not asked for. */
bool hf__mysql_queue_entry(struct hf__mysql *conn, struct hf__result *result);

extern const struct hf__mysql_recipe hf__mysql_queue;

/* --- row.c: the recipe `row` --- */

extern const struct hf__mysql_recipe hf__mysql_row;

/* --- named.c, for_update.c, version.c: the recipes of these names --- */

extern const struct hf__mysql_recipe hf__mysql_named;
extern const struct hf__mysql_recipe hf__mysql_for_update;
extern const struct hf__mysql_recipe hf__mysql_version;

#endif
