/* sequence.c: a line of numbered nodes: who comes first holds, the others each watch one ahead.
 *
 * The happy path: a CLAIM creates its node and lists the line, both sent at once; the lowest number
 * holds. A reader waits for the last writer ahead of it, a writer for whatever is ahead. Whoever
 * waits watches that one alone; when it is gone, it lists again and has the leader confirm that its
 * own node is there. Whoever holds watches the line, until others wait, and then its own node.
 *
 * What can go wrong: a create whose answer is lost: when we are connected again, the line is
 * searched for our token, after the server has caught up with the leader. A list that is out of
 * date: a session that has seen its own node sees all lower ones that are still there, so it can
 * only wait for too long. A holder that was broken with a grace: its data say so, and whoever waits
 * for it deletes it when that time is over. */
#include <string.h>

#include "base/clock.h"
#include "engine/zookeeper/zookeeper.h"

#define TRIES_MAX 100 /* of one course that finds the world changed again and again */

static void own_path(const struct hf__place *place,
                     char out_path[HF__PATH_BYTES + HF__NODE_NAME_BYTES])
{
    hf__ask_child_path(place, place->node.name, out_path);
}

/* --- courses --- */

static void list(struct hf__zookeeper *conn, struct hf__place *place)
{
    place->open++;
    hf__ask_about(conn, HF__STEP_CHILDREN, place, HF__OPCODE_GET_CHILDREN, place->path);
    hf__ask_watch(conn, false);
}

static void make(struct hf__zookeeper *conn, struct hf__place *place)
{
    uint32_t tries = place->tries;

    hf__place_begin(place);
    place->tries = tries;
    place->makes = true;
    place->is_creating = true;
    place->czxid = 0;
    place->skips = false;
    place->open++;
    if (tries > 0)
        hf__ask_parents(conn, place);
    if (place->full_name_bytes > 0) {
        place->open++;
        hf__ask_about(conn, HF__STEP_FULL_NAME, place, HF__OPCODE_GET_DATA, place->path);
        hf__ask_watch(conn, false);
    }
    place->was_first = false;
    place->hopes = tries == 0 && hf__footprint_hopes(conn, place);
    if (place->hopes) {
        hf__join_pass(conn, place);
        return;
    }
    hf__ask_create(conn, place);
    hf__together_list(conn, place);
}

/* Where do we stand now? */
static void look(struct hf__zookeeper *conn, struct hf__place *place)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];

    hf__place_begin(place);
    place->confirms = true;
    own_path(place, path);
    list(conn, place);
    place->open++;
    hf__ask_check(conn, place, path);
    if (place->czxid > 0)
        return;
    place->open++;
    hf__ask_about(conn, HF__STEP_SELF, place, HF__OPCODE_EXISTS, path);
    hf__ask_watch(conn, false);
}

static void search(struct hf__zookeeper *conn, struct hf__place *place)
{
    hf__place_begin(place);
    place->searches = true;
    hf__ask_sync(conn, place->path);
    list(conn, place);
}

static void again(struct hf__zookeeper *conn, struct hf__place *place)
{
    if (++place->tries > TRIES_MAX) {
        hf__place_fail(conn, place, HF__ZERROR_THROTTLED);
        return;
    }
    if (place->has_node)
        look(conn, place);
    else
        make(conn, place);
}

static void claim(struct hf__zookeeper *conn, struct hf__place *place)
{
    if (place->was_refused) { /* its node may still be there */
        hf__place_leave(conn, place);
        return;
    }
    place->tries = 0;
    place->skips = false;
    if (place->has_node)
        look(conn, place);
    else if (place->maybe_made || place->is_creating) /* its answer comes before that of a search */
        search(conn, place);
    else
        make(conn, place);
}

/* Nothing has changed as long as nothing was heard: then it is enough that the session lives. */
static void inspect(struct hf__zookeeper *conn, struct hf__place *place)
{
    if (!place->has_node) {
        hf__place_answer(conn, place, HF__REPLY_GONE);
        return;
    }
    if (place->state == HF__PLACE_QUEUED && place->watches_ahead) {
        hf__place_renew(conn, place);
        return;
    }
    place->tries = 0;
    place->skips = false;
    look(conn, place);
}

/* --- what the answers mean --- */

/* One child of the line, and what it is to us. */
static void weigh(struct hf__place *place, const struct hf__child *child)
{
    bool conflicts = place->mode == HF_EXCLUSIVE || child->mode == HF_EXCLUSIVE;

    if (!*place->first.name || hf__layout_is_before(child->sequence, place->first.sequence))
        place->first = *child;
    if (!hf__layout_is_before(child->sequence, place->node.sequence)) {
        place->others_wait = true;
        return;
    }
    place->ahead_count++;
    if (place->skips && !hf__layout_is_before(child->sequence, place->skip))
        return;
    if (conflicts &&
        (!*place->ahead.name || hf__layout_is_before(place->ahead.sequence, child->sequence)))
        place->ahead = *child;
}

/* It carries our token. Of several the lowest is ours, and the others are deleted; but what we
 * stand in line with, or hold by, is kept: no other of ours is ahead of it. */
static void adopt(struct hf__zookeeper *conn, struct hf__place *place,
                  const struct hf__child *child)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];
    bool lower = !place->has_node ||
                 (place->searches && hf__layout_is_before(child->sequence, place->node.sequence));

    if (place->has_node && strcmp(child->name, place->node.name) == 0) {
        place->is_listed = true;
        return;
    }
    if (place->has_node) {
        hf__ask_child_path(place, lower ? place->node.name : child->name, path);
        hf__ask_delete(conn, HF__STEP_NONE, path);
    }
    if (!lower)
        return;
    place->node = *child;
    place->has_node = true;
    place->czxid = 0; /* it is asked for with the next look */
}

static void read_line(struct hf__zookeeper *conn, struct hf__place *place,
                      struct hf__jute_reader *answer)
{
    size_t count = hf__jute_get_count(answer, 4);
    char stem[HF__NODE_NAME_BYTES]; /* written once: lines may be long */
    size_t stem_bytes;
    struct hf__child child;

    hf__layout_stem(conn, place, stem);
    stem_bytes = strlen(stem);
    place->ahead.name[0] = place->first.name[0] = '\0';
    place->ahead_count = 0;
    place->others_wait = false;
    for (size_t i = 0; i < count && !answer->broken; i++) {
        struct hf__jute_text name = hf__jute_get_text(answer);

        if (!hf__layout_child(conn, name.bytes, name.count, &child))
            continue;
        if ((place->searches || place->has_node) && strncmp(child.name, stem, stem_bytes) == 0)
            adopt(conn, place, &child);
        else if (place->has_node)
            weigh(place, &child);
    }
}

static void hear_create(struct hf__zookeeper *conn, struct hf__place *place, int32_t error,
                        struct hf__jute_reader *answer)
{
    struct hf__jute_text path;
    struct hf__jute_stat stat;
    size_t stem = place->path_bytes + 1;

    place->is_creating = false;
    if (error != HF__ZERROR_OK)
        return;
    path = hf__jute_get_text(answer);
    hf__jute_get_stat(answer, &stat);
    if (answer->broken || path.count <= stem || !hf__session_is_new(conn, stat.czxid) ||
        !hf__layout_child(conn, path.bytes + stem, path.count - stem, &place->node) ||
        !hf__layout_is_of(conn, &place->node, place)) {
        answer->broken = true;
        place->maybe_made = true;
        return;
    }
    place->has_node = true;
    place->maybe_made = false;
    place->was_broken = false;
    place->czxid = stat.czxid;
}

/* It is ours, and others may come: they show in the line, as the end of our own node does. */
static void watch_over(struct hf__zookeeper *conn, struct hf__place *place)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];

    if (place->watches_own || (place->watches_children && !place->others_wait))
        return;
    if (!place->others_wait) {
        hf__ask_about(conn, HF__STEP_CROWD, place, HF__OPCODE_GET_CHILDREN, place->path);
        hf__ask_watch(conn, true);
        return;
    }
    own_path(place, path);
    hf__ask_about(conn, HF__STEP_OWN, place, HF__OPCODE_GET_DATA, path);
    hf__ask_watch(conn, true);
}

static void grant(struct hf__zookeeper *conn, struct hf__place *place, bool is_proved)
{
    place->state = HF__PLACE_HELD;
    place->watches_ahead = false;
    place->was_first = place->mode == HF_EXCLUSIVE;
    if (is_proved)
        hf__footprint_watch_later(conn, place);
    else
        watch_over(conn, place);
    hf__footprint_hold(conn, place);
    hf__place_answer(conn, place, HF__REPLY_GRANTED);
}

/* Does another place of ours need the watch on this line? */
static bool is_needed(const struct hf__zookeeper *conn, const struct hf__place *place)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        const struct hf__place *other = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (other != place && other->watches_children && strcmp(other->path, place->path) == 0)
            return true;
    }
    return false;
}

static void queue(struct hf__zookeeper *conn, struct hf__place *place)
{
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES];

    if (place->watches_children && !is_needed(conn, place))
        hf__ask_unwatch_children(conn, place->path);
    place->watches_children = false;
    hf__ask_child_path(place, place->ahead.name, path);
    place->ahead_is_gone = false;
    place->entry.has_holder = false;
    place->open++;
    hf__ask_about(conn, HF__STEP_AHEAD, place, HF__OPCODE_GET_DATA, path);
    hf__ask_watch(conn, place->queueing);
    if (strcmp(place->first.name, place->ahead.name) == 0)
        return;
    place->open++;
    hf__ask_child_path(place, place->first.name, path);
    hf__ask_about(conn, HF__STEP_HOLDER, place, HF__OPCODE_GET_DATA, path);
    hf__ask_watch(conn, false);
}

/* All have answered who were asked at once. */
static void decide(struct hf__zookeeper *conn, struct hf__place *place)
{
    bool was_asked = place->confirms || place->makes || place->searches;

    if (place->collides) {
        hf__place_answer(conn, place, HF__REPLY_FAILED);
        place->entry.reply.status =
            hf__error_set(conn->base.error, HF_EINTEGRITY, "another name has the same hash");
        return;
    }
    if (place->has_node && place->node.sequence == INT32_MAX) {
        hf__place_answer(conn, place, HF__REPLY_FAILED);
        place->entry.reply.status =
            hf__error_set(conn->base.error, HF_ELIMIT,
                          "the line has used up its numbers; it begins anew when it is empty");
        return;
    }
    if (place->error == HF__ZERROR_NO_NODE && place->makes && place->parent_error) {
        hf__place_fail(conn, place, place->parent_error);
        return;
    }
    if (place->error == HF__ZERROR_NO_NODE && place->makes && !place->has_node) {
        again(conn, place); /* the lock's own node was not there yet, or has just gone */
        return;
    }
    if (place->error == HF__ZERROR_NO_NODE && place->searches)
        place->error = HF__ZERROR_OK;
    if (place->error == HF__ZERROR_NO_NODE && place->confirms) {
        place->has_node = false;
        place->state = HF__PLACE_OUTSIDE;
        hf__place_answer(conn, place, HF__REPLY_GONE);
        return;
    }
    if (place->error != HF__ZERROR_OK) {
        hf__place_fail(conn, place, place->error);
        return;
    }
    if (place->searches) {
        place->maybe_made = false;
        again(conn, place);
        return;
    }
    if (place->hopes) {
        place->hopes = false;
        if (hf__footprint_proves(conn, place))
            grant(conn, place, true);
        else
            hf__together_list(conn, place);
        return;
    }
    if (was_asked && !place->is_listed) {
        again(conn, place);
        return;
    }
    if (!*place->ahead.name) {
        grant(conn, place, false);
    } else if (place->ahead_count >= HF__LINE_MAX) {
        hf__place_answer(conn, place, HF__REPLY_FAILED);
        place->entry.reply.status = hf__error_set(conn->base.error, HF_ELIMIT,
                                                  "%u wait for this lock already", HF__LINE_MAX);
    } else {
        queue(conn, place);
    }
    place->makes = place->confirms = false;
}

static void decide_wait(struct hf__zookeeper *conn, struct hf__place *place)
{
    if (place->ahead_is_gone) {
        again(conn, place);
        return;
    }
    if (place->error != HF__ZERROR_OK) {
        hf__place_fail(conn, place, place->error);
        return;
    }
    if (!place->queueing) { /* it tried, and stands in no line: it is told when its node is gone */
        place->was_refused = true;
        hf__place_leave(conn, place);
        return;
    }
    place->state = HF__PLACE_QUEUED;
    hf__glance_begin(conn);
    hf__place_answer(conn, place, HF__REPLY_QUEUED);
}

static void hear_ahead(struct hf__zookeeper *conn, struct hf__place *place, int32_t error,
                       struct hf__jute_reader *answer)
{
    struct hf__bearer bearer;
    struct hf__jute_text data;

    if (error != HF__ZERROR_OK) {
        place->ahead_is_gone = error == HF__ZERROR_NO_NODE;
        return;
    }
    data = hf__jute_get_text(answer);
    hf__layout_bearer(conn, &data, &bearer);
    if (place->mode == HF_SHARED && bearer.is_known && bearer.mode == HF_SHARED) {
        place->skips = true; /* a writer that has become a reader lets readers in */
        place->skip = place->ahead.sequence;
        place->ahead_is_gone = true;
        return;
    }
    place->evict_at_ns =
        bearer.is_broken ? conn->now_ns + bearer.grace_ms * HF__NS_PER_MS : HF__NEVER;
    if (place->evict_at_ns < conn->evict_at_ns)
        conn->evict_at_ns = place->evict_at_ns;
    if (strcmp(place->first.name, place->ahead.name) != 0)
        return;
    place->entry.holder = bearer.holder;
    place->entry.has_holder = bearer.is_known;
}

static void hear_self(struct hf__zookeeper *conn, struct hf__place *place,
                      struct hf__jute_reader *answer)
{
    struct hf__jute_stat stat;

    hf__jute_get_stat(answer, &stat);
    if (stat.ephemeral_owner == conn->session.id && stat.czxid > 0)
        place->czxid = stat.czxid;
    else if (!place->error)
        place->error = HF__ZERROR_NO_NODE;
}

static void hear_full_name(struct hf__place *place, int32_t error, struct hf__jute_reader *answer)
{
    struct hf__jute_text name = hf__jute_get_text(answer);

    if (error == HF__ZERROR_OK && !answer->broken &&
        (name.count != place->full_name_bytes ||
         memcmp(name.bytes, place->full_name, name.count) != 0))
        place->collides = true;
}

/* Of a leaver that searches, or whose create was answered after all. */
static bool goes_on_leaving(struct hf__zookeeper *conn, struct hf__place *place, enum hf__step step)
{
    if (place->state != HF__PLACE_LEAVING)
        return false;
    if (step == HF__STEP_CHILDREN && place->searches)
        place->maybe_made = false;
    if (step == HF__STEP_CREATE || (step == HF__STEP_CHILDREN && place->searches))
        hf__place_leave(conn, place);
    return true;
}

static void hear_holder(struct hf__zookeeper *conn, struct hf__place *place, int32_t error,
                        struct hf__jute_reader *answer)
{
    struct hf__jute_text data = hf__jute_get_text(answer);
    struct hf__bearer bearer;

    hf__layout_bearer(conn, &data, &bearer);
    place->entry.has_holder = error == HF__ZERROR_OK && bearer.is_known;
    place->entry.holder = bearer.holder;
}

/* Of a transaction the head says OK also where a part of it failed: each part has its own word. */
static int32_t read_check(struct hf__jute_reader *answer)
{
    int32_t opcode = hf__jute_get_i32(answer);
    bool is_end = hf__jute_get_bool(answer);
    int32_t error = hf__jute_get_i32(answer);

    if (opcode != HF__OPCODE_CHECK && opcode != HF__OPCODE_FAILED)
        answer->broken = true;
    answer->broken = answer->broken || is_end || (opcode == HF__OPCODE_FAILED && error == 0);
    return answer->broken ? HF__ZERROR_OK : error;
}

/* Answers of the course that is under way. */
static void hear_course(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                        struct hf__jute_reader *answer)
{
    struct hf__place *place = asked->owner;
    bool waits = asked->step == HF__STEP_AHEAD || asked->step == HF__STEP_HOLDER;

    if (error == HF__ZERROR_OK && asked->step == HF__STEP_CHECK)
        error = read_check(answer);
    if (error == HF__ZERROR_OK && asked->step == HF__STEP_CHILDREN)
        read_line(conn, place, answer);
    if (error == HF__ZERROR_OK && asked->step == HF__STEP_SELF)
        hear_self(conn, place, answer);
    if (asked->step == HF__STEP_AHEAD)
        hear_ahead(conn, place, error, answer);
    if (asked->step == HF__STEP_HOLDER)
        hear_holder(conn, place, error, answer);
    if (asked->step == HF__STEP_FULL_NAME)
        hear_full_name(place, error, answer);
    if (error == HF__ZERROR_OK && answer->broken)
        return; /* half an answer decides nothing: the connection ends */
    if (error != HF__ZERROR_OK && error != HF__ZERROR_NO_NODE && !place->error)
        place->error = error;
    if (error == HF__ZERROR_NO_NODE && !waits && asked->step != HF__STEP_FULL_NAME && !place->error)
        place->error = error;
    if (goes_on_leaving(conn, place, asked->step) || --place->open > 0)
        return;
    if (waits)
        decide_wait(conn, place);
    else
        decide(conn, place);
}

static void lose(struct hf__zookeeper *conn, struct hf__place *place, bool has_node)
{
    place->has_node = has_node;
    place->was_broken = true;
    place->entry.gone = "broken";
    hf__roll_tell(&conn->roll, &place->entry);
}

static void hear_own(struct hf__zookeeper *conn, struct hf__place *place, int32_t error,
                     struct hf__jute_reader *answer)
{
    struct hf__jute_text data = hf__jute_get_text(answer);
    struct hf__bearer bearer;

    hf__layout_bearer(conn, &data, &bearer);
    if (place->state != HF__PLACE_HELD || (error != HF__ZERROR_OK && error != HF__ZERROR_NO_NODE))
        return;
    if (error == HF__ZERROR_NO_NODE || bearer.is_broken)
        lose(conn, place, error == HF__ZERROR_OK);
}

static void hear_crowd(struct hf__zookeeper *conn, struct hf__place *place, int32_t error,
                       struct hf__jute_reader *answer)
{
    bool others_waited = place->others_wait;

    if (place->state != HF__PLACE_HELD || error != HF__ZERROR_OK)
        return;
    place->is_listed = false;
    read_line(conn, place, answer);
    if (answer->broken)
        return;
    if (!place->is_listed)
        lose(conn, place, false);
    if (!place->others_wait || others_waited)
        return;
    place->entry.crowded = true;
    hf__roll_tell(&conn->roll, &place->entry);
}

static void hear_lower(struct hf__zookeeper *conn, struct hf__place *place, int32_t error)
{
    if (error == HF__ZERROR_OK) {
        place->mode = HF_SHARED;
        hf__place_answer(conn, place, HF__REPLY_GRANTED);
    } else if (error == HF__ZERROR_NO_NODE) {
        hf__place_answer(conn, place, HF__REPLY_GONE);
    } else {
        hf__place_fail(conn, place, error);
    }
}

static void hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                 struct hf__jute_reader *answer)
{
    struct hf__place *place = asked->owner;

    if (asked->step == HF__STEP_CREATE)
        hear_create(conn, place, error, answer);
    if (asked->step == HF__STEP_OWN)
        hear_own(conn, place, error, answer);
    else if (asked->step == HF__STEP_CROWD)
        hear_crowd(conn, place, error, answer);
    else if (asked->step == HF__STEP_LOWER && asked->course == place->course)
        hear_lower(conn, place, error);
    else if (asked->course == place->course)
        hear_course(conn, asked, error, answer);
    else if (asked->step == HF__STEP_CREATE)
        (void)goes_on_leaving(conn, place, asked->step);
}

/* --- what the server tells by itself --- */

static bool is_child(const struct hf__place *place, const struct hf__child *child,
                     const struct hf__jute_text *path)
{
    size_t bytes = strlen(child->name);

    return bytes > 0 && path->count == place->path_bytes + 1 + bytes &&
           memcmp(path->bytes, place->path, place->path_bytes) == 0 &&
           memcmp(path->bytes + place->path_bytes + 1, child->name, bytes) == 0;
}

/* Without a path: as if the line had changed. */
static void event(struct hf__zookeeper *conn, struct hf__place *place, int32_t type,
                  const struct hf__jute_text *path)
{
    bool of_line = !path || (path->count == place->path_bytes &&
                             memcmp(path->bytes, place->path, path->count) == 0);

    if (of_line && type == HF__WATCH_CHILDREN) {
        bool news = place->watches_children || !path;

        place->watches_children = false;
        if (place->state != HF__PLACE_HELD || !news)
            return;
        if (path && !place->others_wait) {
            place->others_wait = true;
            place->entry.crowded = true;
            hf__roll_tell(&conn->roll, &place->entry);
        }
        watch_over(conn, place);
        return;
    }
    if (!path)
        return;
    if (place->watches_ahead && is_child(place, &place->ahead, path)) {
        place->watches_ahead = false;
        place->entry.changed = true;
        hf__roll_tell(&conn->roll, &place->entry);
    }
    if (place->watches_own && is_child(place, &place->node, path)) {
        char own[HF__PATH_BYTES + HF__NODE_NAME_BYTES];

        place->watches_own = false;
        own_path(place, own);
        hf__ask_about(conn, HF__STEP_OWN, place, HF__OPCODE_GET_DATA, own);
        hf__ask_watch(conn, true);
    }
}

const struct hf__zookeeper_recipe hf__zookeeper_sequence = {
    .recipe = {
        .name = "sequence",
        .url_forms = "zookeeper://[user[:password]@]host[:port][,...][/chroot] zookeepers://...",
        .summary = "Numbered ephemeral nodes: in order of arrival, each waiter woken alone; shared "
                   "and exclusive.",
        .caveat = "A session lasts for what the server grants of the client's lease, and validity "
                  "for what is sure of it (tick= tells the server's tickTime, if it is not 2 s).",
        .schema = "",
        .pattern = HF__PATTERN_QUEUE,
        .promises = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                    HF_PROMISE_DURABLE | HF_PROMISE_FAILOVER | HF_PROMISE_CRASH,
        .is_default = true,
        .hands_on = true,
        .leases = true,
        .in_session = true,
    },
    .claim = claim,
    .inspect = inspect,
    .hear = hear,
    .event = event,
};
