/* ask.c: how are questions put to the server?
 *
 * Each has a number and waits in conn->asked until its answer comes; answers come in the order of
 * asking. What is written down here is sent by the next advance(), all in one piece.
 *
 * What can go wrong: no memory: half a packet is in the buffer, so the connection is at its end. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/zookeeper/zookeeper.h"

#define EPHEMERAL            1
#define EPHEMERAL_SEQUENTIAL 3
#define CONTAINER            4
#define PERMISSIONS_ALL      31
#define WATCH_CHILDREN       1

#define XID_WATCHES (-8)

/* --- the list --- */

static struct hf__zasked *take(struct hf__zookeeper *conn)
{
    struct hf__zasked *asked;

    if (!hf__list_empty(&conn->free_asked)) {
        asked = HF__LIST_ENTRY(conn->free_asked.next, struct hf__zasked, place);
        hf__list_remove(&asked->place);
        return asked;
    }
    asked = hf__env_new(conn->base.env, sizeof(*asked));
    if (asked)
        hf__list_init(&asked->place);
    return asked;
}

void hf__ask_free(struct hf__zookeeper *conn, struct hf__zasked *asked)
{
    hf__list_remove(&asked->place);
    hf__list_append(&conn->free_asked, &asked->place);
}

void hf__ask_done(struct hf__zookeeper *conn)
{
    struct hf__list *lists[] = { &conn->asked, &conn->free_asked };

    for (size_t i = 0; i < 2; i++) {
        HF__LIST_FOR(place, lists[i])
        {
            hf__list_remove(place);
            hf__env_free(conn->base.env, HF__LIST_ENTRY(place, struct hf__zasked, place));
        }
    }
}

/* Of what changes nothing, only a `sync` goes to the leader; the rest any server answers alone. */
static bool is_led(enum hf__opcode opcode)
{
    switch (opcode) {
    case HF__OPCODE_CREATE:
    case HF__OPCODE_DELETE:
    case HF__OPCODE_SET_DATA:
    case HF__OPCODE_SYNC:
    case HF__OPCODE_MULTI:
    case HF__OPCODE_CREATE2:
    case HF__OPCODE_CREATE_CONTAINER:
    case HF__OPCODE_CLOSE:
        return true;
    case HF__OPCODE_EXISTS:
    case HF__OPCODE_GET_DATA:
    case HF__OPCODE_GET_CHILDREN:
    case HF__OPCODE_CHECK:
    case HF__OPCODE_REMOVE_WATCHES:
    case HF__OPCODE_AUTH:
    case HF__OPCODE_SET_WATCHES:
    case HF__OPCODE_FAILED:
        return false;
    }
    return false;
}

int32_t hf__ask_number(struct hf__zookeeper *conn)
{
    conn->xid = conn->xid == INT32_MAX ? 1 : conn->xid + 1;
    return conn->xid;
}

struct hf__zasked *hf__ask_note(struct hf__zookeeper *conn, enum hf__step step,
                                struct hf__place *owner)
{
    struct hf__zasked *asked = take(conn);

    if (!asked) {
        hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        hf__zookeeper_end(conn, HF_ENOMEM);
        return NULL;
    }
    *asked = (struct hf__zasked){
        .step = step,
        .sent_ns = conn->now_ns,
        .owner = owner,
        .course = owner ? owner->course : 0,
        .leads = true,
    };
    hf__list_init(&asked->place);
    hf__list_append(&conn->asked, &asked->place);
    if (owner)
        owner->entry.sent = true;
    return asked;
}

/* NULL: it has no place in line, or memory ran out: what is written then goes nowhere. */
struct hf__zasked *hf__ask_begin(struct hf__zookeeper *conn, enum hf__step step,
                                 struct hf__place *owner, enum hf__opcode opcode)
{
    struct hf__zasked *asked;

    hf__join_write(conn); /* what was asked before goes before */
    hf__jute_begin(&conn->out);
    if (step == HF__STEP_AUTH) { /* its answer comes out of line */
        hf__jute_put_i32(&conn->out, HF__XID_AUTH);
        hf__jute_put_i32(&conn->out, opcode);
        return NULL;
    }
    asked = hf__ask_note(conn, step, owner);
    if (!asked)
        return NULL;
    asked->xid = step == HF__STEP_WATCHES ? XID_WATCHES : hf__ask_number(conn);
    asked->leads = is_led(opcode);
    hf__jute_put_i32(&conn->out, asked->xid);
    hf__jute_put_i32(&conn->out, opcode);
    return asked;
}

void hf__ask_end(struct hf__zookeeper *conn)
{
    hf__jute_end(&conn->out);
    if (conn->out.status < 0 && !conn->ending)
        hf__zookeeper_end(conn, hf__error_set(conn->base.error, conn->out.status, "out of memory"));
}

/* --- each kind of question --- */

static void put_path(struct hf__zookeeper *conn, const char *path)
{
    hf__jute_put_text(&conn->out, *path ? path : "/", *path ? strlen(path) : 1);
}

/* Whoever names itself owns what it makes; otherwise it is everybody's. */
static void put_acl(struct hf__zookeeper *conn)
{
    const char *scheme = *conn->secret ? "auth" : "world";
    const char *who = *conn->secret ? "" : "anyone";

    hf__jute_put_i32(&conn->out, 1);
    hf__jute_put_i32(&conn->out, PERMISSIONS_ALL);
    hf__jute_put_text(&conn->out, scheme, strlen(scheme));
    hf__jute_put_text(&conn->out, who, strlen(who));
}

static void put_create(struct hf__zookeeper *conn, const char *path, const char *data,
                       size_t data_bytes)
{
    put_path(conn, path);
    hf__jute_put_text(&conn->out, data, data_bytes);
    put_acl(conn);
    hf__jute_put_i32(&conn->out, conn->recipe->single ? EPHEMERAL : EPHEMERAL_SEQUENTIAL);
}

void hf__ask_create_single(struct hf__zookeeper *conn, struct hf__place *place, const char *data,
                           size_t data_bytes)
{
    hf__ask_begin(conn, HF__STEP_CREATE, place, HF__OPCODE_CREATE2);
    put_create(conn, place->path, data, data_bytes);
    hf__ask_end(conn);
}

void hf__ask_create(struct hf__zookeeper *conn, struct hf__place *place)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];
    char stem[HF__NODE_NAME_BYTES];

    hf__layout_stem(conn, place, stem);
    hf__ask_child_path(place, stem, path);
    hf__ask_begin(conn, HF__STEP_CREATE, place, HF__OPCODE_CREATE2);
    put_create(conn, path, place->data, strlen(place->data));
    hf__ask_end(conn);
}

/* Of a lock's node `container`: the server removes it when nobody has been there for a while. */
static void make_parent(struct hf__zookeeper *conn, const char *path, bool container,
                        struct hf__place *place)
{
    hf__ask_begin(conn, HF__STEP_PARENT, place,
                  container ? HF__OPCODE_CREATE_CONTAINER : HF__OPCODE_CREATE);
    put_path(conn, path);
    if (container && place->full_name_bytes > 0)
        hf__jute_put_text(&conn->out, place->full_name, place->full_name_bytes);
    else
        hf__jute_put_text(&conn->out, "", 0);
    put_acl(conn);
    hf__jute_put_i32(&conn->out, container ? CONTAINER : 0);
    hf__ask_end(conn);
}

/* All that lie above the claim's node; those that are there stay as they are. */
void hf__ask_parents(struct hf__zookeeper *conn, struct hf__place *place)
{
    char path[HF__PATH_BYTES];

    memcpy(path, place->path, place->path_bytes + 1);
    for (size_t i = 1; i < place->path_bytes; i++) {
        if (path[i] != '/')
            continue;
        path[i] = '\0';
        make_parent(conn, path, false, place);
        path[i] = '/';
    }
    if (!conn->recipe->single) /* a Lock object of kazoo looks for it once, and then counts on it */
        make_parent(conn, path, conn->layout != HF__LAYOUT_KAZOO, place);
}

struct hf__zasked *hf__ask_about(struct hf__zookeeper *conn, enum hf__step step,
                                 struct hf__place *owner, enum hf__opcode opcode, const char *path)
{
    struct hf__zasked *asked = hf__ask_begin(conn, step, owner, opcode);

    put_path(conn, path);
    return asked;
}

void hf__ask_watch(struct hf__zookeeper *conn, bool watch)
{
    hf__jute_put_bool(&conn->out, watch);
    if (!hf__list_empty(&conn->asked))
        HF__LIST_ENTRY(conn->asked.prev, struct hf__zasked, place)->watches = watch;
    hf__ask_end(conn);
}

/* A transaction that changes nothing: the leader says whether the node is there, and wakes nobody
 * who watches it, as a change would. */
static void check(struct hf__zookeeper *conn, enum hf__step step, struct hf__place *owner,
                  const char *path)
{
    hf__ask_begin(conn, step, owner, HF__OPCODE_MULTI);
    hf__jute_put_i32(&conn->out, HF__OPCODE_CHECK);
    hf__jute_put_bool(&conn->out, false);
    hf__jute_put_i32(&conn->out, -1);
    put_path(conn, path);
    hf__jute_put_i32(&conn->out, -1);
    hf__jute_put_i32(&conn->out, -1);
    hf__jute_put_bool(&conn->out, true);
    hf__jute_put_i32(&conn->out, -1);
    hf__ask_end(conn);
}

void hf__ask_check(struct hf__zookeeper *conn, struct hf__place *owner, const char *path)
{
    check(conn, HF__STEP_CHECK, owner, path);
}

/* A leader tells its followers to commit before it does so itself, and does not wait for that when
 * it is asked for a `sync` directly: whoever reads there may not see what another was told is done.
 * It answers a transaction, though, only when it has done all before it. */
void hf__ask_barrier(struct hf__zookeeper *conn, const char *path)
{
    check(conn, HF__STEP_NONE, NULL, path);
}

void hf__ask_delete(struct hf__zookeeper *conn, enum hf__step step, const char *path)
{
    hf__ask_begin(conn, step, NULL, HF__OPCODE_DELETE);
    put_path(conn, path);
    hf__jute_put_i32(&conn->out, -1);
    hf__ask_end(conn);
}

void hf__ask_put_delete(struct hf__zookeeper *conn, const struct hf__place *place)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];

    hf__ask_child_path(place, place->node.name, path);
    put_path(conn, conn->recipe->single ? place->path : path);
    hf__jute_put_i32(&conn->out, -1);
}

void hf__ask_delete_own(struct hf__zookeeper *conn, struct hf__place *place)
{
    hf__ask_begin(conn, HF__STEP_DELETE, place, HF__OPCODE_DELETE);
    hf__ask_put_delete(conn, place);
    hf__ask_end(conn);
}

void hf__ask_set_data(struct hf__zookeeper *conn, enum hf__step step, struct hf__place *owner,
                      const char *path, const char *data)
{
    hf__ask_begin(conn, step, owner, HF__OPCODE_SET_DATA);
    put_path(conn, path);
    hf__jute_put_text(&conn->out, data, strlen(data));
    hf__jute_put_i32(&conn->out, -1);
    hf__ask_end(conn);
}

void hf__ask_sync(struct hf__zookeeper *conn, const char *path)
{
    hf__ask_begin(conn, HF__STEP_NONE, NULL, HF__OPCODE_SYNC);
    put_path(conn, path);
    hf__ask_end(conn);
}

void hf__ask_unwatch_children(struct hf__zookeeper *conn, const char *path)
{
    hf__ask_begin(conn, HF__STEP_NONE, NULL, HF__OPCODE_REMOVE_WATCHES);
    put_path(conn, path);
    hf__jute_put_i32(&conn->out, WATCH_CHILDREN);
    hf__ask_end(conn);
}

/* A ping would be answered by a server whose leader does not hear of us any more. */
void hf__ask_beat(struct hf__zookeeper *conn)
{
    hf__ask_begin(conn, HF__STEP_BEAT, NULL, HF__OPCODE_SYNC);
    put_path(conn, "");
    hf__ask_end(conn);
    conn->led_ns = conn->now_ns;
    conn->is_beating = true;
}

void hf__ask_auth(struct hf__zookeeper *conn)
{
    hf__ask_begin(conn, HF__STEP_AUTH, NULL, HF__OPCODE_AUTH);
    hf__jute_put_i32(&conn->out, 0);
    hf__jute_put_text(&conn->out, "digest", 6);
    hf__jute_put_text(&conn->out, conn->secret, strlen(conn->secret));
    hf__ask_end(conn);
}

void hf__ask_close(struct hf__zookeeper *conn)
{
    hf__ask_begin(conn, HF__STEP_NONE, NULL, HF__OPCODE_CLOSE);
    hf__ask_end(conn);
}

/* It has no number: it is the first word on a connection. */
void hf__ask_connect(struct hf__zookeeper *conn)
{
    const struct hf__session *session = &conn->session;
    uint64_t timeout_ms = conn->lease_ns / 1000000;

    hf__jute_begin(&conn->out);
    hf__jute_put_i32(&conn->out, 0);
    hf__jute_put_i64(&conn->out, session->seen_zxid);
    hf__jute_put_i32(&conn->out, timeout_ms < INT32_MAX ? (int32_t)timeout_ms : INT32_MAX);
    hf__jute_put_i64(&conn->out, session->id);
    hf__jute_put_text(&conn->out, (const char *)session->key, HF__SESSION_KEY_BYTES);
    hf__jute_put_bool(&conn->out, false); /* one that cannot write is of no use */
    hf__ask_end(conn);
}

/* --- watches that outlive a connection --- */

enum watched { AHEAD, OWN, CHILDREN };

static bool watches(const struct hf__place *place, enum watched what)
{
    switch (what) {
    case AHEAD:
        return place->watches_ahead;
    case OWN:
        return place->watches_own;
    case CHILDREN:
        return place->watches_children;
    }
    return false;
}

static void put_watched(struct hf__zookeeper *conn, const struct hf__place *place,
                        enum watched what)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];

    if (what == CHILDREN || conn->recipe->single) {
        put_path(conn, place->path);
        return;
    }
    hf__ask_child_path(place, what == AHEAD ? place->ahead.name : place->node.name, path);
    put_path(conn, path);
}

/* One packet for each place: seldom, and far below what a packet may hold. The events of what
 * happened meanwhile come before the answer. */
static void watch_again(struct hf__zookeeper *conn, const struct hf__place *place)
{
    hf__ask_begin(conn, HF__STEP_WATCHES, NULL, HF__OPCODE_SET_WATCHES);
    hf__jute_put_i64(&conn->out, conn->session.seen_zxid);
    hf__jute_put_i32(&conn->out, watches(place, AHEAD) + watches(place, OWN));
    if (watches(place, AHEAD))
        put_watched(conn, place, AHEAD);
    if (watches(place, OWN))
        put_watched(conn, place, OWN);
    hf__jute_put_i32(&conn->out, 0);
    hf__jute_put_i32(&conn->out, watches(place, CHILDREN));
    if (watches(place, CHILDREN))
        put_watched(conn, place, CHILDREN);
    hf__ask_end(conn);
}

void hf__ask_watches(struct hf__zookeeper *conn)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        const struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (watches(place, AHEAD) || watches(place, OWN) || watches(place, CHILDREN))
            watch_again(conn, place);
    }
}

void hf__ask_child_path(const struct hf__place *place, const char *child,
                        char out_path[HF__PATH_BYTES + HF__NODE_NAME_BYTES])
{
    (void)snprintf(out_path, HF__PATH_BYTES + HF__NODE_NAME_BYTES, "%s/%s", place->path, child);
}

/* --- errors --- */

int hf__ask_status(struct hf__zookeeper *conn, int32_t error)
{
    static const struct {
        int32_t error;
        int status;
        const char *text;
    } errors[] = {
        { HF__ZERROR_NO_AUTH, HF_EDENIED, "the account lacks a right to this node" },
        { HF__ZERROR_AUTH_FAILED, HF_EDENIED, "the user or the password is wrong" },
        { HF__ZERROR_WANTS_SASL, HF_EDENIED, "the server wants SASL, which is not supported" },
        { HF__ZERROR_INVALID_ACL, HF_EDENIED, "the server does not take our access list" },
        { HF__ZERROR_SESSION_EXPIRED, HF_EUNREACHABLE, "the session has ended" },
        { HF__ZERROR_SESSION_MOVED, HF_EUNREACHABLE, "the session moved to another connection" },
        { HF__ZERROR_NOT_READ_ONLY, HF_EUNREACHABLE,
          "the server is cut off, and takes no changes" },
        { HF__ZERROR_CONNECTION_LOSS, HF_EUNREACHABLE, "the server lost its leader" },
        { HF__ZERROR_THROTTLED, HF_EUNREACHABLE, "the server is too busy" },
        { HF__ZERROR_QUOTA_EXCEEDED, HF_ELIMIT, "a quota of the server is exceeded" },
        { HF__ZERROR_NO_CHILDREN_FOR_EPHEMERALS, HF_EPROTOCOL,
          "the lock's node is an ephemeral one: it belongs to another recipe or program" },
        { HF__ZERROR_UNIMPLEMENTED, HF_EUNSUPPORTED, "the server is too old: it takes 3.5" },
    };

    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].error == error)
            return hf__error_set(conn->base.error, errors[i].status, "%s", errors[i].text);
    }
    return hf__error_set(conn->base.error, HF_EPROTOCOL, "the server answered error %d", error);
}
