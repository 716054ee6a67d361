/* node.c: one ephemeral node: who creates it holds the lock.
 *
 * The happy path: a CLAIM creates the node; a RELEASE deletes it. Who is refused watches the node,
 * is woken with all the others when it goes, and tries again.
 *
 * What can go wrong: a create whose answer is lost: the node is there when we ask again, and it is
 * of our session and carries our token. A delete whose answer is lost, or late: before it is asked
 * for again, we look whose the node is. Nodes have no numbers and are not told apart by delete: one
 * that was broken, and gives it back at the same moment, may delete its successor's (which is told
 * so). That is this recipe's weakness, and why it is legacy. */
#include <string.h>

#include "base/clock.h"
#include "engine/zookeeper/zookeeper.h"

/* The token stands before what the node tells of its holder; a line of its own has the name, where
 * the path has only a hash of it. */
static size_t put_data(const struct hf__place *place, char *out_data)
{
    size_t bytes = sizeof(place->token) + strlen(place->data);

    memcpy(out_data, place->token, sizeof(place->token) - 1);
    out_data[sizeof(place->token) - 1] = ' ';
    memcpy(out_data + sizeof(place->token), place->data, bytes - sizeof(place->token));
    if (place->full_name_bytes == 0)
        return bytes;
    out_data[bytes++] = '\n';
    memcpy(out_data + bytes, place->full_name, place->full_name_bytes);
    return bytes + place->full_name_bytes;
}

static void look(struct hf__zookeeper *conn, struct hf__place *place, bool watch)
{
    place->open++;
    hf__ask_about(conn, HF__STEP_HOLDER, place, HF__OPCODE_GET_DATA, place->path);
    hf__ask_watch(conn, watch);
}

static void claim(struct hf__zookeeper *conn, struct hf__place *place)
{
    char data[HF__TOKEN_TEXT_BYTES + HF__NODE_DATA_BYTES + 1 + HF_NAME_BYTES_MAX];
    uint32_t tries = place->tries;

    hf__place_begin(place);
    if (place->is_creating) { /* asked again before the answer came: one create is enough */
        look(conn, place, true);
        return;
    }
    place->is_creating = true;
    place->open++;
    if (tries > 0)
        hf__ask_parents(conn, place);
    hf__ask_create_single(conn, place, data, put_data(place, data));
    look(conn, place, true);
}

static void inspect(struct hf__zookeeper *conn, struct hf__place *place)
{
    hf__place_answer(conn, place, HF__REPLY_GONE); /* nobody stands in line here */
}

static void hear_create(const struct hf__zookeeper *conn, struct hf__place *place, int32_t error,
                        struct hf__jute_reader *answer)
{
    struct hf__jute_stat stat;

    place->is_creating = false;
    if (error != HF__ZERROR_OK)
        return;
    (void)hf__jute_get_text(answer);
    hf__jute_get_stat(answer, &stat);
    if (answer->broken || !hf__session_is_new(conn, stat.czxid)) {
        answer->broken = true;
        place->maybe_made = true;
        return;
    }
    place->has_node = true;
    place->maybe_made = false;
    place->was_broken = false;
    place->czxid = stat.czxid;
}

static bool has_other_name(const struct hf__place *place, const struct hf__jute_text *data)
{
    const char *line = memchr(data->bytes, '\n', data->count);
    size_t bytes = line ? data->count - (size_t)(line + 1 - data->bytes) : 0;

    return place->full_name_bytes > 0 && line &&
           (bytes != place->full_name_bytes || memcmp(line + 1, place->full_name, bytes) != 0);
}

/* Whose is it? */
static void hear_holder(struct hf__zookeeper *conn, struct hf__place *place,
                        struct hf__jute_reader *answer)
{
    const size_t token_bytes = sizeof(place->token) - 1;
    struct hf__jute_text data = hf__jute_get_text(answer);
    struct hf__jute_stat stat;
    struct hf__bearer bearer = { 0 };
    bool tells = data.count > token_bytes && data.bytes[token_bytes] == ' ';
    bool ours;

    hf__jute_get_stat(answer, &stat);
    if (answer->broken)
        return;
    ours = tells && memcmp(data.bytes, place->token, token_bytes) == 0 &&
           stat.ephemeral_owner == conn->session.id;
    if (tells) {
        data.bytes += token_bytes + 1;
        data.count -= token_bytes + 1;
        hf__layout_bearer(conn, &data, &bearer);
        place->collides = has_other_name(place, &data);
    }
    if (ours) {
        place->has_node = true;
        place->maybe_made = false;
        place->czxid = stat.czxid;
        place->was_broken = bearer.is_broken;
        return;
    }
    place->was_broken = place->was_broken || place->has_node; /* it was ours, and is another's */
    place->has_node = false;
    place->entry.has_holder = bearer.is_known;
    place->entry.holder = bearer.holder;
    place->is_strange = stat.ephemeral_owner == 0;
    if (!bearer.is_broken)
        place->evict_at_ns = HF__NEVER;
    else if (place->evict_at_ns == HF__NEVER)
        place->evict_at_ns = conn->now_ns + bearer.grace_ms * (uint64_t)HF__NS_PER_MS;
    if (place->evict_at_ns < conn->evict_at_ns)
        conn->evict_at_ns = place->evict_at_ns;
}

static void decide(struct hf__zookeeper *conn, struct hf__place *place)
{
    if (place->has_node) {
        place->state = HF__PLACE_HELD;
        place->others_wait = false;
        hf__place_answer(conn, place, HF__REPLY_GRANTED);
    } else if (place->collides) {
        hf__place_answer(conn, place, HF__REPLY_FAILED);
        place->entry.reply.status =
            hf__error_set(conn->base.error, HF_EINTEGRITY, "another name has the same hash");
    } else if (place->is_strange) {
        hf__place_answer(conn, place, HF__REPLY_FAILED);
        place->entry.reply.status =
            hf__error_set(conn->base.error, HF_EPROTOCOL,
                          "the lock's node is not ephemeral: it belongs to another recipe or "
                          "program");
    } else if (place->error == HF__ZERROR_NO_NODE && place->parent_error) {
        hf__place_fail(conn, place, place->parent_error);
    } else if (place->error == HF__ZERROR_NO_NODE && place->tries++ < 3) {
        claim(conn, place);
    } else if (place->error == HF__ZERROR_NODE_EXISTS || place->error == HF__ZERROR_NO_NODE ||
               place->error == HF__ZERROR_OK) {
        place->ahead_count = HF__AHEAD_UNKNOWN;
        place->maybe_made = false;
        hf__place_answer(conn, place, HF__REPLY_REFUSED);
    } else {
        hf__place_fail(conn, place, place->error);
    }
}

/* A watch on the own node: it goes, or is another's. */
static void hear_own(struct hf__zookeeper *conn, struct hf__place *place, int32_t error,
                     struct hf__jute_reader *answer)
{
    if (error == HF__ZERROR_OK)
        hear_holder(conn, place, answer);
    else
        place->has_node = place->has_node && error != HF__ZERROR_NO_NODE;
    if (place->state != HF__PLACE_HELD || (place->has_node && !place->was_broken)) {
        if (place->state == HF__PLACE_HELD && error == HF__ZERROR_OK)
            place->is_doubted = false;
        return;
    }
    place->was_broken = true;
    place->entry.gone = "broken";
    hf__roll_tell(&conn->roll, &place->entry);
}

/* Once it is known whose the node is. */
static void go_on_leaving(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                          struct hf__jute_reader *answer)
{
    struct hf__place *place = asked->owner;

    if (asked->step == HF__STEP_CREATE) {
        hf__place_leave(conn, place);
        return;
    }
    if (asked->step != HF__STEP_CHILDREN || asked->course != place->course)
        return;
    if (error == HF__ZERROR_OK)
        hear_holder(conn, place, answer);
    else if (error == HF__ZERROR_NO_NODE)
        place->has_node = false;
    else
        return;
    place->is_doubted = place->maybe_made = false;
    hf__place_leave(conn, place);
}

static void hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                 struct hf__jute_reader *answer)
{
    struct hf__place *place = asked->owner;

    if (asked->step == HF__STEP_CREATE)
        hear_create(conn, place, error, answer);
    if (asked->step == HF__STEP_OWN) {
        hear_own(conn, place, error, answer);
        return;
    }
    if (place->state == HF__PLACE_LEAVING) {
        go_on_leaving(conn, asked, error, answer);
        return;
    }
    if (asked->course != place->course)
        return;
    if (asked->step == HF__STEP_HOLDER && error == HF__ZERROR_OK)
        hear_holder(conn, place, answer);
    if (error == HF__ZERROR_OK && answer->broken)
        return; /* half an answer decides nothing: the connection ends */
    if (error != HF__ZERROR_OK && !place->error)
        place->error = error;
    if (--place->open == 0)
        decide(conn, place);
}

static void event(struct hf__zookeeper *conn, struct hf__place *place, int32_t type,
                  const struct hf__jute_text *path)
{
    bool ours = !path || (path->count == place->path_bytes &&
                          memcmp(path->bytes, place->path, path->count) == 0);

    if (!ours || (path && !place->watches_own))
        return;
    place->watches_own = false;
    if (place->state == HF__PLACE_HELD) {
        place->is_doubted = true;
        hf__ask_about(conn, HF__STEP_OWN, place, HF__OPCODE_GET_DATA, place->path);
        hf__ask_watch(conn, true);
    } else if (type == HF__WATCH_DELETED) {
        place->entry.changed = true;
        hf__roll_tell(&conn->roll, &place->entry);
    }
}

const struct hf__zookeeper_recipe hf__zookeeper_node = {
    .recipe = {
        .name = "node",
        .url_forms = "zookeeper://[user[:password]@]host[:port][,host...][/chroot]?recipe=node",
        .summary = "One ephemeral node: for fleets that use it already.",
        .caveat = "Not in order of arrival; all who wait are woken at once, and all but one in "
                  "vain. A holder that was broken and gives it back at the same moment may delete "
                  "its successor's node, which is told so. Use `sequence`.",
        .schema = "",
        .pattern = HF__PATTERN_LEASE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_DURABLE | HF_PROMISE_FAILOVER |
                    HF_PROMISE_CRASH,
        .is_legacy = true,
        .hands_on = true,
        .leases = true,
        .in_session = true,
    },
    .single = true,
    .claim = claim,
    .inspect = inspect,
    .hear = hear,
    .event = event,
};
