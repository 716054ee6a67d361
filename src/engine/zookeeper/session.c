/* session.c: how does a session begin, live and end?
 *
 * The first word on a connection asks for a session, or for the one that we have; the server
 * answers with what it granted. Then we name ourselves, if there is a user, and ask which servers
 * there are. The session lives as long as something is asked within its time. What a server answers
 * alone, a ping among it, proves nothing of the leader, which is who ends sessions: so a `sync`,
 * which the leader answers, is the beat where nothing else goes there. One answers for all turns
 * and waiters of the client.
 *
 * What can go wrong: the session has ended meanwhile: its nodes are gone, and all places are told.
 * The server says nothing: after two thirds of the time we go to another one. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/zookeeper/zookeeper.h"

#define CONFIG_PATH    "/zookeeper/config"
#define SESSION_MS_MIN 100
#define BEATS          5 /* in the time of a session in which the leader is asked nothing else */
#define TICKS          4 /* a tick counts for no more than such a part of a session */

static void resume(struct hf__zookeeper *conn)
{
    hf__ask_watches(conn);
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (place->entry.forsaken && place->state == HF__PLACE_LEAVING)
            hf__place_leave(conn, place);
        if (place->state == HF__PLACE_QUEUED && !place->watches_ahead) {
            place->entry.changed = true;
            hf__roll_tell(&conn->roll, &place->entry);
        }
        if (place->state == HF__PLACE_HELD && !place->watches_own && !place->watches_children)
            conn->recipe->event(conn, place, HF__WATCH_CHILDREN, NULL);
    }
}

static void greet(struct hf__zookeeper *conn)
{
    if (*conn->secret)
        hf__ask_auth(conn);
    hf__ask_about(conn, HF__STEP_CONFIG, NULL, HF__OPCODE_GET_DATA, CONFIG_PATH);
    hf__ask_watch(conn, false);
}

/* The answer to the first word. */
static int hear_welcome(struct hf__zookeeper *conn, struct hf__jute_reader *packet)
{
    int32_t version = hf__jute_get_i32(packet);
    int32_t timeout_ms = hf__jute_get_i32(packet);
    int64_t id = hf__jute_get_i64(packet);
    struct hf__jute_text key = hf__jute_get_text(packet);

    (void)version;
    if (packet->broken || (id != 0 && timeout_ms > 0 && key.count != HF__SESSION_KEY_BYTES))
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "the server does not speak the ZooKeeper protocol");
    if (id == 0 || timeout_ms <= 0) {
        bool had_one = conn->session.id != 0;

        conn->session_ended = had_one;
        conn->session.id = 0;
        memset(conn->session.key, 0, sizeof(conn->session.key));
        hf__place_void_all(conn);
        return hf__error_set(conn->base.error, HF_EUNREACHABLE,
                             had_one ? "the session has ended" : "the server gave no session");
    }
    if (timeout_ms < SESSION_MS_MIN)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "the server grants a session of %d ms: it takes %d", timeout_ms,
                             SESSION_MS_MIN);
    if (conn->session.id != 0 && conn->session.id != id)
        hf__place_void_all(conn);
    conn->session.id = id;
    memcpy(conn->session.key, key.bytes, HF__SESSION_KEY_BYTES);
    conn->session.timeout_ns = (uint64_t)timeout_ms * (uint64_t)HF__NS_PER_MS;
    conn->session.older_ns = conn->session.newer_ns = conn->knocked_ns; /* the leader was asked */
    conn->session.newer_heard_ns = conn->now_ns;
    conn->led_ns = conn->knocked_ns;
    conn->introduced = true;
    greet(conn);
    return HF_OK;
}

/* Several servers that vote: the loss of one is survived. */
static void hear_config(struct hf__zookeeper *conn, int32_t error, struct hf__jute_reader *answer)
{
    struct hf__jute_text config = hf__jute_get_text(answer);
    const char *at = config.bytes;
    size_t left = error == HF__ZERROR_OK ? config.count : 0;
    uint32_t servers = 0;

    while (left > 0) { /* line by line, each once: it may be long */
        const char *end = memchr(at, '\n', left);
        size_t bytes = end ? (size_t)(end - at) : left;

        servers += bytes > 7 && memcmp(at, "server.", 7) == 0 && !memmem(at, bytes, ":observer", 9);
        left -= bytes + (end ? 1 : 0);
        at += bytes + (end ? 1 : 0);
    }
    conn->base.promises = conn->base.recipe->promises;
    conn->base.withheld[0] = '\0';
    if (servers < 3) {
        conn->base.promises &= ~(uint32_t)HF_PROMISE_FAILOVER;
        hf__text_copy(conn->base.withheld, sizeof(conn->base.withheld),
                      error == HF__ZERROR_OK ? "the server is alone"
                                             : "the server does not tell of others");
    }
    if (conn->greeted)
        return;
    conn->greeted = true;
    resume(conn);
}

static int hear_event(struct hf__zookeeper *conn, struct hf__jute_reader *packet)
{
    int32_t type = hf__jute_get_i32(packet);
    int32_t state = hf__jute_get_i32(packet);
    struct hf__jute_text path = hf__jute_get_text(packet);

    (void)state;
    if (packet->broken)
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server sent half an event");
    hf__footprint_event(conn, type, &path);
    HF__LIST_FOR(member, &conn->roll.members)
    {
        conn->recipe->event(conn, HF__LIST_ENTRY(member, struct hf__place, entry.member), type,
                            &path);
    }
    return HF_OK;
}

/* From here on events are about this watch, and not about an earlier one on the same node. */
static void note_watch(const struct hf__zasked *asked)
{
    struct hf__place *place = asked->owner;

    if (asked->step == HF__STEP_CHILDREN || asked->step == HF__STEP_CROWD)
        place->watches_children = true;
    else if (asked->step == HF__STEP_AHEAD)
        place->watches_ahead = asked->course == place->course;
    else
        place->watches_own = true;
}

/* What the leader has heard of, as far as an answer can tell. Of two that it answers together,
 * after it stood still, the second proves nothing of the first: it must have been written a tick
 * after the answer to that one. */
void hf__session_lives(struct hf__zookeeper *conn, uint64_t sent_ns)
{
    struct hf__session *session = &conn->session;
    uint64_t most_ns = session->timeout_ns / TICKS;
    uint64_t tick_ns = conn->tick_ns < most_ns ? conn->tick_ns : most_ns;

    if (sent_ns > conn->led_ns)
        conn->led_ns = sent_ns;
    if (sent_ns < session->newer_heard_ns + tick_ns)
        return;
    session->older_ns = session->newer_ns;
    session->newer_ns = sent_ns;
    session->newer_heard_ns = conn->now_ns;
}

static int hear_beat(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error)
{
    if (error != HF__ZERROR_OK)
        return hf__ask_status(conn, error);
    conn->is_beating = false;
    conn->lived_ns = asked->sent_ns;
    hf__place_renewed(conn, conn->lived_ns);
    return HF_OK;
}

static int hear_answer(struct hf__zookeeper *conn, struct hf__zasked *asked, int32_t error,
                       struct hf__jute_reader *packet)
{
    if (asked->watches && asked->owner && error == HF__ZERROR_OK)
        note_watch(asked);
    switch (asked->step) {
    case HF__STEP_CONFIG:
        if (error == HF__ZERROR_WANTS_SASL)
            return hf__ask_status(conn, error);
        hear_config(conn, error, packet);
        return HF_OK;
    case HF__STEP_BEAT:
        return hear_beat(conn, asked, error);
    case HF__STEP_NONE:
    case HF__STEP_AUTH:
    case HF__STEP_WATCHES:
        return HF_OK;
    case HF__STEP_DELETE:
        if (asked->joined != HF__JOINED_NOT)
            hf__join_hear(conn, asked, error, packet);
        else if (asked->owner && asked->course == asked->owner->course)
            hf__place_hear_delete(conn, asked->owner, error);
        return HF_OK;
    case HF__STEP_LIST_ROOT:
    case HF__STEP_LIST_NAME:
    case HF__STEP_LIST_CHILDREN:
    case HF__STEP_LIST_CHILD:
    case HF__STEP_BREAK:
        hf__inquiry_hear(conn, asked, error, packet);
        return HF_OK;
    case HF__STEP_PARENT:
        if (asked->owner && error != HF__ZERROR_OK && error != HF__ZERROR_NODE_EXISTS)
            asked->owner->parent_error = error;
        return HF_OK;
    case HF__STEP_TOGETHER:
        hf__together_hear(conn, asked, error, packet);
        return HF_OK;
    case HF__STEP_FOOTPRINT:
        hf__footprint_hear(conn, asked, error);
        return HF_OK;
    case HF__STEP_GLANCE:
        if (asked->owner)
            hf__glance_hear(conn, asked, error, packet);
        return HF_OK;
    case HF__STEP_FULL_NAME:
    case HF__STEP_CREATE:
    case HF__STEP_CHILDREN:
    case HF__STEP_SELF:
    case HF__STEP_CHECK:
    case HF__STEP_AHEAD:
    case HF__STEP_HOLDER:
    case HF__STEP_OWN:
    case HF__STEP_CROWD:
    case HF__STEP_LOWER:
        if (asked->owner)
            conn->recipe->hear(conn, asked, error, packet);
        return HF_OK;
    }
    return HF_OK;
}

bool hf__session_is_new(const struct hf__zookeeper *conn, int64_t czxid)
{
    return czxid > conn->session.known_zxid && czxid <= conn->session.seen_zxid;
}

int hf__session_hear(struct hf__zookeeper *conn, struct hf__jute_reader *packet)
{
    struct hf__zasked *asked = HF__LIST_ENTRY(conn->asked.next, struct hf__zasked, place);
    int32_t xid;
    int64_t zxid;
    int32_t error;
    int status;

    if (!conn->introduced) {
        conn->heard_ns = conn->now_ns;
        return hear_welcome(conn, packet);
    }
    xid = hf__jute_get_i32(packet);
    zxid = hf__jute_get_i64(packet);
    error = hf__jute_get_i32(packet);
    if (packet->broken)
        return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server sent half an answer");
    conn->session.known_zxid = conn->session.seen_zxid;
    /* What an answer out of line tells may be ahead of events that are still to come. */
    if (xid != HF__XID_AUTH && zxid > conn->session.seen_zxid)
        conn->session.seen_zxid = zxid;
    if (xid == HF__XID_AUTH)
        return error == HF__ZERROR_OK ? HF_OK : hf__ask_status(conn, error);
    if (xid == HF__XID_EVENT)
        return hear_event(conn, packet);
    if (hf__list_empty(&conn->asked) || asked->xid != xid || xid == 0) /* 0: it has not left us */
        return hf__error_set(conn->base.error, HF_EPROTOCOL,
                             "the server answered what nobody asked");
    hf__list_remove(&asked->place);
    conn->heard_ns = conn->now_ns;
    if (asked->leads && error == HF__ZERROR_OK)
        hf__session_lives(conn, asked->sent_ns);
    status = hear_answer(conn, asked, error, packet);
    hf__list_append(&conn->free_asked, &asked->place);
    if (status == HF_OK && error == HF__ZERROR_OK && packet->broken)
        status = hf__error_set(conn->base.error, HF_EPROTOCOL, "the server sent half an answer");
    return status;
}

/* When the next beat is due: whoever asked the leader something has been heard. */
static uint64_t beat_at(const struct hf__zookeeper *conn)
{
    if (!conn->greeted || conn->is_beating)
        return HF__NEVER;
    if (!hf__list_empty(&conn->renewals))
        return 0;
    return conn->led_ns + conn->session.timeout_ns / BEATS;
}

static uint64_t silent_at(const struct hf__zookeeper *conn)
{
    return conn->greeted && !hf__list_empty(&conn->asked)
               ? conn->heard_ns + 2 * conn->session.timeout_ns / 3
               : HF__NEVER;
}

void hf__session_keep(struct hf__zookeeper *conn)
{
    if (conn->now_ns >= beat_at(conn))
        hf__ask_beat(conn);
    if (conn->now_ns < silent_at(conn))
        return;
    hf__zookeeper_end(conn, hf__error_set(conn->base.error, HF_EUNREACHABLE,
                                          "%s: it has not answered for long",
                                          hf__stream_peer(conn->stream)));
}

uint64_t hf__session_deadline(const struct hf__zookeeper *conn)
{
    uint64_t beat_ns = beat_at(conn);
    uint64_t silent_ns = silent_at(conn);
    uint64_t glance_ns = conn->greeted ? conn->glance_at_ns : HF__NEVER;
    uint64_t watch_ns = conn->greeted ? conn->watch_at_ns : HF__NEVER;
    uint64_t first_ns = beat_ns < silent_ns ? beat_ns : silent_ns;

    if (watch_ns < first_ns)
        first_ns = watch_ns;
    return first_ns < glance_ns ? first_ns : glance_ns;
}
