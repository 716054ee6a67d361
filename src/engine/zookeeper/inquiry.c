/* inquiry.c: who holds and who waits, and how is one of them taken out?
 *
 * The happy path of LIST: the children of the root are the locks; of each that matches its line is
 * asked for, then each node of the line, in its order, and told. A BREAK asks for one line, and for
 * its nodes until one has the number that is meant: it is deleted, or, if it has a grace, marked.
 * A LIST looks behind a `sync`, and a BREAK behind a transaction: a server that lags would say that
 * a turn which has just begun is over.
 *
 * What can go wrong: what was listed may be gone when it is asked for: it is left out. A line that
 * is longer than memory: HF_ENOMEM. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/zookeeper/zookeeper.h"

#define ASKED_AT_ONCE 64u
#define LINE_MAX      65537u /* who holds, and as many as may wait */

/* --- beginning and ending --- */

static void drop_line(struct hf__zookeeper *conn)
{
    hf__env_free(conn->base.env, conn->listing.children);
    hf__env_free(conn->base.env, conn->listing.line);
    conn->listing.children = NULL;
    conn->listing.line = NULL;
    conn->listing.child_count = conn->listing.child_asked = 0;
}

void hf__inquiry_done(struct hf__zookeeper *conn)
{
    drop_line(conn);
    hf__env_free(conn->base.env, conn->listing.names);
    conn->listing.names = NULL;
    conn->listing.active = false;
}

static void answer(struct hf__zookeeper *conn, enum hf__reply_kind kind, int status)
{
    struct hf__listing *listing = &conn->listing;

    hf__roll_reply(&listing->ticket, kind, &listing->reply);
    listing->reply.status = status;
    listing->has_reply = true;
    hf__inquiry_done(conn);
}

static void ask(struct hf__zookeeper *conn, enum hf__step step, enum hf__opcode opcode,
                const char *path, uint32_t index)
{
    struct hf__zasked *asked = hf__ask_about(conn, step, NULL, opcode, path);

    if (asked) {
        asked->course = conn->listing.number;
        asked->index = index;
    }
    hf__ask_watch(conn, false);
}

static void ask_line(struct hf__zookeeper *conn)
{
    conn->listing.waiting = 0;
    conn->listing.writer_is_seen = false;
    conn->listing.reader_is_seen = false;
    ask(conn, HF__STEP_LIST_CHILDREN,
        conn->recipe->single ? HF__OPCODE_GET_DATA : HF__OPCODE_GET_CHILDREN, conn->listing.path,
        0);
}

/* The root without its last slash. */
static void ask_root(struct hf__zookeeper *conn)
{
    char root[HF__PATH_BYTES];
    size_t bytes = conn->root_bytes;

    memcpy(root, conn->root, bytes + 1);
    while (bytes > 0 && root[bytes - 1] == '/')
        root[--bytes] = '\0';
    hf__ask_sync(conn, root);
    ask(conn, HF__STEP_LIST_ROOT, HF__OPCODE_GET_CHILDREN, root, 0);
}

int hf__inquiry_start(struct hf__zookeeper *conn, const struct hf__request *request)
{
    struct hf__listing *listing = &conn->listing;
    bool breaks = request->ticket.kind == HF__REQUEST_BREAK;
    bool hashed;
    uint32_t number;
    int status;

    if (listing->active || listing->has_reply) /* one at a time; the core asks again */
        return HF_PENDING;
    number = listing->number;
    memset(listing, 0, sizeof(*listing));
    listing->number = number + 1;
    listing->ticket = request->ticket;
    listing->deadline_ns = request->deadline_ns;
    listing->fence = request->fence;
    listing->all = !request->glob;
    if (request->glob && !hf__text_copy(listing->glob, sizeof(listing->glob), request->glob))
        return hf__error_set(conn->base.error, HF_EINVAL, "a pattern has at most %d bytes",
                             HF_NAME_BYTES_MAX);
    if (breaks) {
        status = hf__layout_path(conn, request->name, request->name_bytes, listing->path, &hashed);
        if (status < 0)
            return status;
        memcpy(listing->name, request->name, request->name_bytes);
        listing->name_bytes = request->name_bytes;
        listing->active = true;
        hf__ask_barrier(conn, listing->path);
        ask_line(conn);
        return HF_OK;
    }
    if (conn->layout != HF__LAYOUT_OWN && conn->root_bytes == 0)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "without prefix= every node of the server would be listed");
    listing->active = true;
    ask_root(conn);
    return HF_OK;
}

void hf__inquiry_end(struct hf__zookeeper *conn, int status)
{
    bool breaks = conn->listing.ticket.kind == HF__REQUEST_BREAK;

    if (conn->listing.active) /* a listing changes nothing */
        answer(conn, breaks ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED, status);
}

/* --- going on --- */

static void put_path(struct hf__zookeeper *conn, const char *child)
{
    struct hf__listing *listing = &conn->listing;
    size_t bytes = strlen(child);

    memcpy(listing->path, conn->root, conn->root_bytes);
    memcpy(listing->path + conn->root_bytes, child, bytes + 1);
}

/* The next lock of the root. */
static void next_name(struct hf__zookeeper *conn)
{
    struct hf__listing *listing = &conn->listing;

    drop_line(conn);
    while (listing->names_at < listing->names_bytes) {
        const char *child = listing->names + listing->names_at;

        listing->names_at += strlen(child) + 1;
        listing->name_bytes = hf__layout_name(conn, child, listing->name);
        if (conn->root_bytes + strlen(child) >= sizeof(listing->path))
            continue;
        put_path(conn, child);
        if (listing->name_bytes == 0 && strncmp(child, "~s", 2) == 0) {
            ask(conn, HF__STEP_LIST_NAME, HF__OPCODE_GET_DATA, listing->path, 0);
            return;
        }
        if (listing->name_bytes == 0 ||
            (!listing->all && !hf__name_matches(listing->glob, listing->name, listing->name_bytes)))
            continue;
        ask_line(conn);
        return;
    }
    answer(conn, HF__REPLY_DONE, HF_OK);
}

static void next_line(struct hf__zookeeper *conn)
{
    if (conn->listing.ticket.kind == HF__REQUEST_BREAK)
        answer(conn, HF__REPLY_GONE, HF_OK);
    else
        next_name(conn);
}

/* What was asked is answered and told. */
static void go_on(struct hf__zookeeper *conn)
{
    struct hf__listing *listing = &conn->listing;
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES + 1];
    size_t bytes = strlen(listing->path);

    if (listing->breaks)
        return;
    if (listing->child_asked == listing->child_count) {
        next_line(conn);
        return;
    }
    memcpy(path, listing->path, bytes);
    path[bytes++] = '/';
    for (uint32_t i = 0; i < ASKED_AT_ONCE && listing->child_asked < listing->child_count; i++) {
        size_t index = listing->child_asked++;
        const char *name = listing->line + listing->children[index].name_at;

        memcpy(path + bytes, name, strlen(name) + 1);
        listing->open++;
        ask(conn, HF__STEP_LIST_CHILD, HF__OPCODE_GET_DATA, path, (uint32_t)index);
    }
}

/* --- hearing --- */

static void hear_root(struct hf__zookeeper *conn, struct hf__jute_reader *reader)
{
    struct hf__listing *listing = &conn->listing;
    size_t count = hf__jute_get_count(reader, 4);
    size_t room = reader->left + 1; /* each name has four bytes before it, and gets one behind */

    listing->names = hf__env_new(conn->base.env, room);
    if (!listing->names) {
        answer(conn, HF__REPLY_FAILED, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return;
    }
    for (size_t i = 0; i < count && !reader->broken; i++) {
        struct hf__jute_text name = hf__jute_get_text(reader);

        if (reader->broken || memchr(name.bytes, '\0', name.count))
            continue;
        memcpy(listing->names + listing->names_bytes, name.bytes, name.count);
        listing->names_bytes += name.count;
        listing->names[listing->names_bytes++] = '\0';
    }
    if (!reader->broken) /* or the connection ends */
        next_name(conn);
}

static void hear_name(struct hf__zookeeper *conn, int32_t error, struct hf__jute_reader *reader)
{
    struct hf__listing *listing = &conn->listing;
    struct hf__jute_text name = hf__jute_get_text(reader);
    const char *line = conn->recipe->single ? memchr(name.bytes, '\n', name.count) : NULL;

    if (line) {
        name.count -= (size_t)(line + 1 - name.bytes);
        name.bytes = line + 1;
    }
    if (error != HF__ZERROR_OK || name.count == 0 || name.count > HF_NAME_BYTES_MAX ||
        memchr(name.bytes, '\0', name.count) ||
        (!listing->all && !hf__name_matches(listing->glob, name.bytes, name.count))) {
        next_name(conn);
        return;
    }
    memcpy(listing->name, name.bytes, name.count);
    listing->name[name.count] = '\0';
    listing->name_bytes = name.count;
    ask_line(conn);
}

static int compare(const void *a, const void *b)
{
    const struct hf__listed *one = a;
    const struct hf__listed *other = b;

    if (one->sequence == other->sequence)
        return one->name_at < other->name_at ? -1 : 1;
    return hf__layout_is_before(one->sequence, other->sequence) ? -1 : 1;
}

static void read_line(struct hf__zookeeper *conn, size_t count, struct hf__jute_reader *reader)
{
    struct hf__listing *listing = &conn->listing;
    struct hf__child child;
    size_t bytes = 0;

    for (size_t i = 0; i < count && !reader->broken; i++) {
        struct hf__jute_text name = hf__jute_get_text(reader);

        if (memchr(name.bytes, '\0', name.count) ||
            !hf__layout_child(conn, name.bytes, name.count, &child))
            continue;
        listing->children[listing->child_count++] =
            (struct hf__listed){ .name_at = (uint32_t)bytes, .sequence = child.sequence };
        memcpy(listing->line + bytes, child.name, name.count + 1);
        bytes += name.count + 1;
    }
}

static void hear_line(struct hf__zookeeper *conn, struct hf__jute_reader *reader)
{
    struct hf__listing *listing = &conn->listing;
    size_t count = hf__jute_get_count(reader, 4);

    if (reader->broken)
        return; /* the connection ends */
    if (count == 0) {
        next_line(conn);
        return;
    }
    if (count > LINE_MAX) {
        answer(conn, HF__REPLY_FAILED,
               hf__error_set(conn->base.error, HF_ELIMIT, "%zu stand in one line", count));
        return;
    }
    listing->children = hf__env_new(conn->base.env, count * sizeof(*listing->children));
    listing->line = hf__env_new(conn->base.env, reader->left); /* four bytes before each are more */
    if (!listing->children || !listing->line) {
        answer(conn, HF__REPLY_FAILED, hf__error_set(conn->base.error, HF_ENOMEM, "out of memory"));
        return;
    }
    read_line(conn, count, reader);
    if (reader->broken)
        return;
    qsort(listing->children, listing->child_count, sizeof(*listing->children), compare);
    go_on(conn);
}

static void tell(struct hf__zookeeper *conn, const struct hf__bearer *bearer, int mode,
                 const struct hf__jute_stat *stat)
{
    struct hf__listing *listing = &conn->listing;
    bool first = listing->waiting == 0 && !listing->writer_is_seen;
    bool holds = first && (mode == HF_SHARED || !listing->reader_is_seen);

    listing->holder = bearer->holder;
    listing->waiting += !holds;
    listing->writer_is_seen = listing->writer_is_seen || mode == HF_EXCLUSIVE;
    listing->reader_is_seen = listing->reader_is_seen || mode == HF_SHARED;
    listing->entry = (struct hf_holding){
        .struct_size = sizeof(listing->entry),
        .name = listing->name,
        .mode = mode,
        .waiting = !holds,
        .position = holds ? 0 : listing->waiting,
        .fence = holds ? (uint64_t)stat->czxid * 256 : 0,
        .remaining_ms = -1, /* the server tells nobody how long a session has to live */
        .age_ms = -1,
        .host = listing->holder.host,
        .pid = listing->holder.pid,
        .purpose = listing->holder.purpose,
    };
    hf__roll_reply(&listing->ticket, HF__REPLY_ENTRY, &listing->reply);
    listing->reply.entry = &listing->entry;
    listing->has_reply = true;
}

/* The one that is meant: out at once, or marked, so that it may leave by itself. */
static void break_it(struct hf__zookeeper *conn, const char *path, const struct hf__bearer *bearer,
                     const struct hf__jute_text *data)
{
    size_t token_bytes = conn->recipe->single ? HF__TOKEN_TEXT_BYTES : 0;
    char marked[HF__TOKEN_TEXT_BYTES + HF__NODE_DATA_BYTES + 2 + HF_NAME_BYTES_MAX];

    conn->listing.breaks = true;
    if (bearer->grace_ms == 0 || data->count < token_bytes || data->count + 2 > sizeof(marked)) {
        hf__ask_delete(conn, HF__STEP_BREAK, path);
    } else {
        memcpy(marked, data->bytes, token_bytes);
        marked[token_bytes] = '!';
        memcpy(marked + token_bytes + 1, data->bytes + token_bytes, data->count - token_bytes);
        marked[data->count + 1] = '\0';
        hf__ask_set_data(conn, HF__STEP_BREAK, NULL, path, marked);
    }
    HF__LIST_ENTRY(conn->asked.prev, struct hf__zasked, place)->course = conn->listing.number;
}

static void hear_child(struct hf__zookeeper *conn, const char *path, int mode, int32_t error,
                       struct hf__jute_reader *reader)
{
    struct hf__listing *listing = &conn->listing;
    struct hf__jute_text data = hf__jute_get_text(reader);
    struct hf__jute_text told = data;
    struct hf__bearer bearer;
    struct hf__jute_stat stat;

    hf__jute_get_stat(reader, &stat);
    if (error != HF__ZERROR_OK || reader->broken || stat.ephemeral_owner == 0)
        return; /* it has gone meanwhile, or is no claim */
    if (conn->recipe->single && told.count >= HF__TOKEN_TEXT_BYTES) {
        told.bytes += HF__TOKEN_TEXT_BYTES;
        told.count -= HF__TOKEN_TEXT_BYTES;
    }
    hf__layout_bearer(conn, &told, &bearer);
    if (bearer.is_known)
        mode = bearer.mode;
    if (listing->ticket.kind == HF__REQUEST_LIST)
        tell(conn, &bearer, mode, &stat);
    else if ((uint64_t)stat.czxid == listing->fence / 256 && !bearer.is_broken)
        break_it(conn, path, &bearer, &data);
}

/* Of a lock that is one node, that node is all there is. */
static void hear_single(struct hf__zookeeper *conn, int32_t error, struct hf__jute_reader *reader)
{
    conn->listing.goes_on = true;
    hear_child(conn, conn->listing.path, HF_EXCLUSIVE, error, reader);
}

static void hear_indexed(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                         struct hf__jute_reader *reader)
{
    struct hf__listing *listing = &conn->listing;
    const char *name = listing->line + listing->children[asked->index].name_at;
    char path[HF__PATH_BYTES + HF__NODE_NAME_BYTES + 1];
    struct hf__child child;

    (void)hf__layout_child(conn, name, strlen(name), &child); /* it was one when it was listed */
    (void)snprintf(path, sizeof(path), "%s/%s", listing->path, name);
    listing->goes_on = --listing->open == 0;
    hear_child(conn, path, child.mode, error, reader);
}

static void hear_break(struct hf__zookeeper *conn, int32_t error)
{
    answer(conn, error == HF__ZERROR_OK ? HF__REPLY_DONE : HF__REPLY_GONE, HF_OK);
}

void hf__inquiry_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                      struct hf__jute_reader *reader)
{
    struct hf__listing *listing = &conn->listing;
    bool missing = error == HF__ZERROR_NO_NODE;

    if (!listing->active || asked->course != listing->number)
        return;
    if (error != HF__ZERROR_OK && !missing) {
        answer(conn, HF__REPLY_FAILED, hf__ask_status(conn, error));
        return;
    }
    if (asked->step == HF__STEP_LIST_ROOT && missing)
        answer(conn, HF__REPLY_DONE, HF_OK);
    else if (asked->step == HF__STEP_LIST_ROOT)
        hear_root(conn, reader);
    else if (asked->step == HF__STEP_LIST_NAME)
        hear_name(conn, error, reader);
    else if (asked->step == HF__STEP_LIST_CHILDREN && conn->recipe->single)
        hear_single(conn, error, reader);
    else if (asked->step == HF__STEP_LIST_CHILDREN && missing)
        next_line(conn);
    else if (asked->step == HF__STEP_LIST_CHILDREN)
        hear_line(conn, reader);
    else if (asked->step == HF__STEP_LIST_CHILD)
        hear_indexed(conn, asked, error, reader);
    else
        hear_break(conn, error);
}

int hf__inquiry_next(struct hf__zookeeper *conn, struct hf__reply *out_reply)
{
    struct hf__listing *listing = &conn->listing;

    if (!listing->has_reply && listing->active && listing->goes_on) {
        listing->goes_on = false;
        go_on(conn);
    }
    if (!listing->has_reply && listing->active && conn->now_ns >= listing->deadline_ns)
        hf__inquiry_end(conn,
                        hf__error_set(conn->base.error, HF_EUNREACHABLE, "no answer in time"));
    if (!listing->has_reply)
        return 0;
    *out_reply = listing->reply;
    listing->has_reply = false;
    return 1;
}
