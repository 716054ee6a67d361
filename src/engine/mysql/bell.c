/* bell.c: who wakes us?
 *
 * MySQL has no messages. A connection of its own waits in a procedure (hf_listen_1), and holds a
 * lock of the server that is called by the number of this client. Whoever does something to a claim
 * of ours writes that down in its row, commits, looks who holds that lock, and ends the statement
 * that it is in: so we look at the rows, hear the news, and wait again. Nothing gets lost in
 * between: the look comes first in the same statement that waits, and what comes before the look
 * is seen by it.
 *
 * What can go wrong: the connection dies: another is made, and reads all the news that there are.
 * Until then, and where those who should wake us may not (another account), vigil.c looks. News
 * stay until we have answered them by a renewal or a release: what was seen is said, so that it is
 * not told again. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/mysql/mysql.h"

#define CONNECT_NS     (5 * HF__NS_PER_S)
#define AGAIN_NS_FIRST (100 * HF__NS_PER_MS)
#define AGAIN_DOUBLED  7
#define LISTEN_S       30
#define AT_ONCE        2  /* LISTEN, and LOOK behind it */
#define ANSWER_BYTES   64 /* more than an ended wait says, less than with a look behind it */
#define PAUSE_NS       (100 * HF__NS_PER_MS)
#define SILENCE_NS     ((LISTEN_S + 20) * HF__NS_PER_S)

/* It sleeps for long, and nobody should be told how slow that is. */
static const char *const settings[] = {
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET time_zone = '+00:00', autocommit = 1, long_query_time = 31536000"
    " /*M!100101 , max_statement_time = 0 */",
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))

static void fail(struct hf__mysql *conn)
{
    struct hf__bell *bell = &conn->bell;

    hf__trace(conn->base.env, "mysql: the bell is out of order: %s", bell->cable.error);
    hf__cable_close(&bell->cable);
    bell->phase = HF__BELL_OFF;
    bell->at_ns = conn->now_ns; /* at once, the first time: nobody else wakes who waits */
    if (bell->tries > 0)
        bell->at_ns += AGAIN_NS_FIRST << (bell->tries - 1);
    if (bell->tries < AGAIN_DOUBLED)
        bell->tries++;
}

static void start(struct hf__mysql *conn)
{
    struct hf__bell *bell = &conn->bell;

    bell->cable.password = conn->password;
    bell->cable.by_ns = conn->now_ns + CONNECT_NS;
    bell->at_ns = bell->cable.by_ns;
    bell->seen_count = 0;
    bell->phase = HF__BELL_CONNECTING;
    conn->base.polls_more = true;
    if (hf__cable_open(&bell->cable, conn->base.env, conn->url, conn->server, conn->now_ns) < 0)
        fail(conn);
}

/* With a look behind it: when the wait is ended, the server goes on with that, and its answer is
 * under way to us before we know. False: there is nothing to say, or no time for it: whoever has
 * just heard that it holds does not wait until others can be told. */
static bool listen(struct hf__mysql *conn)
{
    struct hf__bell *bell = &conn->bell;

    if (bell->phase != HF__BELL_LISTENING || bell->under_way > 0 ||
        conn->base.pace == HF__PACE_LATER)
        return false;
    bell->under_way = AT_ONCE;
    if (hf__sql_send_listen(conn, LISTEN_S) < 0)
        fail(conn);
    return true;
}

static void begin_to_listen(struct hf__mysql *conn)
{
    conn->bell.phase = HF__BELL_LISTENING;
    conn->bell.is_telling = false;
    conn->bell.told = 0;
    conn->bell.under_way = 0;
    conn->bell.at_ns = conn->now_ns + SILENCE_NS;
}

static void set(struct hf__mysql *conn)
{
    struct hf__bell *bell = &conn->bell;

    bell->phase = HF__BELL_SETTING;
    bell->settings_left = SETTINGS;
    for (size_t i = 0; i < SETTINGS && bell->phase != HF__BELL_OFF; i++) {
        if (hf__sql_query(conn, &bell->cable, settings[i]) < 0)
            fail(conn);
    }
}

/* What was told stays until we have answered it; where that is more than we can say that we have
 * seen, it would be told again and again. */
static void hear_end(struct hf__mysql *conn)
{
    struct hf__bell *bell = &conn->bell;

    bell->tries = 0;
    bell->under_way--;
    if (!bell->is_telling)
        bell->told = 0;
    bell->is_telling = false;
    bell->at_ns = conn->now_ns + SILENCE_NS;
    if (bell->told <= HF__MYSQL_NEWS_MAX || bell->under_way > 0)
        return;
    bell->phase = HF__BELL_PAUSING;
    bell->at_ns = conn->now_ns + PAUSE_NS;
}

static int hear_news(struct hf__mysql *conn, struct hf__result *result, struct hf__reply *out_reply)
{
    conn->bell.is_telling = true;
    conn->bell.told++;
    if (!hf__mysql_queue_news(conn, result, out_reply))
        return 0;
    return !hf__sql_recipe(conn)->moors || hf__outcome_news(conn, out_reply) ? 1 : 0;
}

/* The answer to the last thing that was said on it. 1: news. */
static int hear(struct hf__mysql *conn, struct hf__result *result, struct hf__reply *out_reply)
{
    struct hf__bell *bell = &conn->bell;
    bool failed = result->kind == HF__RESULT_ERROR && result->code != HF__MYSQL_INTERRUPTED;

    if (result->kind == HF__RESULT_ROW)
        return hear_news(conn, result, out_reply);
    if (!result->is_last)
        return 0;
    if (failed || (bell->phase == HF__BELL_LISTENING && bell->under_way == 0)) {
        (void)hf__error_set(bell->cable.error, HF_EUNREACHABLE, "%s",
                            failed ? result->text : "an answer that nobody asked for");
        fail(conn);
    } else if (bell->phase == HF__BELL_SETTING && --bell->settings_left == 0) {
        bell->phase = HF__BELL_PREPARING;
        bell->prepared = 0;
        if (hf__sql_prepare(conn, &bell->cable, HF__SQL_LISTEN) < 0 ||
            hf__sql_prepare(conn, &bell->cable, HF__SQL_LOOK) < 0)
            fail(conn);
    } else if (bell->phase == HF__BELL_PREPARING) {
        bell->statements[bell->prepared++] = result->code;
        if (bell->prepared == AT_ONCE) {
            begin_to_listen(conn);
            /* That a wait was ended need not wake us: what counts is the answer behind it. */
            hf__stream_wait_for(bell->cable.stream, ANSWER_BYTES);
        }
    } else if (bell->phase == HF__BELL_LISTENING) {
        hear_end(conn);
    }
    return 0;
}

static enum hf__result_form form_of(const struct hf__bell *bell)
{
    if (bell->phase == HF__BELL_PREPARING)
        return HF__RESULT_OF_PREPARING;
    return bell->phase == HF__BELL_LISTENING ? HF__RESULT_OF_EXECUTING : HF__RESULT_OF_QUERY;
}

/* Says and hears what there is. */
static int go_on(struct hf__mysql *conn, struct hf__reply *out_reply)
{
    struct hf__bell *bell = &conn->bell;
    bool has_moved = true;

    while (has_moved && bell->phase != HF__BELL_OFF) {
        struct hf__result result = { .kind = HF__RESULT_NONE };

        hf__cable_advance(&bell->cable, conn->now_ns);
        has_moved = bell->phase == HF__BELL_CONNECTING && bell->cable.phase == HF__CABLE_UP;
        if (has_moved)
            set(conn);
        else
            hf__result_next(&bell->cable, form_of(bell), &result);
        if (result.kind != HF__RESULT_NONE) {
            has_moved = true;
            if (hear(conn, &result, out_reply) > 0)
                return 1;
        } else if (!has_moved) {
            has_moved = listen(conn); /* only now, for what was heard has been seen */
        }
    }
    return 0;
}

int hf__bell_advance(struct hf__mysql *conn, struct hf__reply *out_reply)
{
    struct hf__bell *bell = &conn->bell;

    if (!conn->listens || !conn->greeted || conn->ending)
        return 0;
    if (bell->phase == HF__BELL_OFF && conn->now_ns >= bell->at_ns && !bell->is_parting)
        start(conn);
    if (bell->phase == HF__BELL_PAUSING && conn->now_ns >= bell->at_ns)
        begin_to_listen(conn);
    if (go_on(conn, out_reply) > 0)
        return 1;
    if (bell->phase != HF__BELL_OFF &&
        (bell->cable.phase == HF__CABLE_DOWN || conn->now_ns >= bell->at_ns))
        fail(conn);
    return 0;
}

void hf__bell_pollset(struct hf__mysql *conn, struct hf__pollset *set)
{
    if (!conn->listens || !conn->greeted)
        return;
    if (conn->bell.phase != HF__BELL_OFF || !conn->bell.is_parting)
        hf__pollset_until(set, conn->bell.at_ns);
    hf__cable_pollset(&conn->bell.cable, set);
}

bool hf__bell_part(struct hf__mysql *conn)
{
    struct hf__bell *bell = &conn->bell;

    if (!bell->is_parting && bell->cable.phase == HF__CABLE_UP && !conn->ending &&
        hf__arrival_ask_to_part(conn) == HF_OK)
        hf__cable_advance(&conn->cable, conn->now_ns);
    bell->is_parting = true;
    return (conn->arrivals_left > 0 || hf__parcel_has(conn, HF__PARCEL_RING)) && !conn->ending;
}

void hf__bell_done(struct hf__mysql *conn)
{
    hf__cable_close(&conn->bell.cable);
    conn->bell.phase = HF__BELL_OFF;
    conn->bell.at_ns = 0;
    conn->bell.told = 0;
}
