/* roster.c: LIST and BREAK: who holds and who waits, and how is a turn taken away?
 *
 * The happy path of LIST: the keys behind the prefix are read page by page, all of one revision.
 * The keys of a lock lie side by side; a line that is whole in its page is put into the order of
 * its revisions and told, one after the other; the next page begins with the first that is not. A
 * BREAK seeks the key whose revision is meant: if it holds, it is deleted, or, if it has a grace,
 * marked.
 *
 * What can go wrong: a line that is longer than a page: a larger page is asked for. What was meant
 * is gone, or waits, and so has no fence yet: it is told as gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/etcd/etcd.h"

#define PAGE     500
#define PAGE_MAX 65536
#define AHEAD    2 /* so many before a turn are enough to tell whether it holds */

static void drop_page(struct hf__etcd *conn)
{
    if (conn->listing.page)
        hf__message_free(&conn->memory, &conn->listing.page->base);
    conn->listing.page = NULL;
}

static void answer(struct hf__etcd *conn, enum hf__reply_kind kind, int status)
{
    struct hf__listing *listing = &conn->listing;

    drop_page(conn);
    listing->active = false;
    hf__roll_reply(&listing->ticket, kind, &listing->reply);
    listing->reply.status = status;
    listing->has_reply = true;
}

void hf__roster_done(struct hf__etcd *conn)
{
    drop_page(conn);
    conn->listing.active = false;
    conn->listing.has_reply = false;
}

void hf__roster_end(struct hf__etcd *conn, int status)
{
    bool breaks = conn->listing.ticket.kind == HF__REQUEST_BREAK;

    if (conn->listing.active) /* a listing changes nothing */
        answer(conn, breaks ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED, status);
}

/* --- questions --- */

static void put_end(const char *key, size_t key_bytes, char *out_end)
{
    memcpy(out_end, key, key_bytes);
    if (key_bytes > 0)
        out_end[key_bytes - 1]++;
}

static void ask_about(struct hf__etcd *conn, enum hf__query query, const ProtobufCMessage *message)
{
    struct hf__quest *quest = hf__query_send(conn, query, HF__WAY_CALLS, message);

    if (quest)
        quest->course = conn->listing.number;
}

static void ask_page(struct hf__etcd *conn)
{
    struct hf__listing *listing = &conn->listing;
    Hf__Etcd__RangeRequest request = HF__ETCD__RANGE_REQUEST__INIT;
    char end[HF__LOCK_KEY_BYTES];

    put_end(conn->prefix, conn->prefix_bytes, end);
    request.key = hf__etcd_bytes(listing->key, listing->key_bytes);
    request.range_end = hf__etcd_bytes(end, conn->prefix_bytes);
    request.limit = listing->page_limit;
    request.revision = listing->revision;
    ask_about(conn, HF__QUERY_LIST, &request.base);
}

/* What came before the turn that is to be broken: the last of those keys. */
static void read_ahead(struct hf__txn *txn, const struct hf__listing *listing,
                       ProtobufCBinaryData from, ProtobufCBinaryData to)
{
    Hf__Etcd__RangeRequest *range = hf__txn_range(txn, from);

    range->range_end = to;
    range->max_create_revision = (int64_t)(listing->fence / 256) - 1;
    range->sort_target = HF__ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    range->sort_order = HF__ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    range->limit = AHEAD;
}

/* The key that has this number, and who is in its way: anybody, or those who are not written down
 * as readers. */
static void seek(struct hf__etcd *conn)
{
    struct hf__listing *listing = &conn->listing;
    size_t bytes = listing->key_bytes;
    char end[HF__LOCK_KEY_BYTES];
    char readers[HF__LOCK_KEY_BYTES + 1];
    char behind[HF__LOCK_KEY_BYTES + 1];
    ProtobufCBinaryData from = hf__etcd_bytes(listing->key, bytes);
    ProtobufCBinaryData to = hf__etcd_bytes(end, bytes);
    Hf__Etcd__RangeRequest *own;
    struct hf__txn txn;

    put_end(listing->key, bytes, end);
    memcpy(readers, listing->key, bytes);
    memcpy(behind, listing->key, bytes);
    readers[bytes] = 'r';
    behind[bytes] = 's';
    hf__txn_init(&txn);
    own = hf__txn_range(&txn, from);
    own->range_end = to;
    own->min_create_revision = own->max_create_revision = (int64_t)(listing->fence / 256);
    read_ahead(&txn, listing, from, to);
    read_ahead(&txn, listing, from, hf__etcd_bytes(readers, bytes + 1));
    read_ahead(&txn, listing, hf__etcd_bytes(behind, bytes + 1), to);
    ask_about(conn, HF__QUERY_SEEK, &txn.request.base);
}

int hf__roster_start(struct hf__etcd *conn, const struct hf__request *request)
{
    struct hf__listing *listing = &conn->listing;
    uint32_t number = listing->number;
    bool hashed;

    if (listing->active || listing->has_reply) /* one at a time; the core asks again */
        return HF_PENDING;
    if (request->ticket.kind == HF__REQUEST_LIST && conn->prefix_bytes == 0)
        return hf__error_set(conn->base.error, HF_EUNSUPPORTED,
                             "without prefix= every key of the server would be listed");
    *listing = (struct hf__listing){ .number = number + 1,
                                     .ticket = request->ticket,
                                     .deadline_ns = request->deadline_ns,
                                     .fence = request->fence,
                                     .all = !request->glob,
                                     .page_limit = PAGE };
    if (request->glob && !hf__text_copy(listing->glob, sizeof(listing->glob), request->glob))
        return hf__error_set(conn->base.error, HF_EINVAL, "a pattern has at most %d bytes",
                             HF_NAME_BYTES_MAX);
    if (request->ticket.kind == HF__REQUEST_BREAK) {
        listing->key_bytes =
            hf__rank_key(conn, request->name, request->name_bytes, listing->key, &hashed);
        if (listing->key_bytes == 0)
            return HF_ENAME;
        listing->active = true;
        seek(conn);
        return HF_OK;
    }
    memcpy(listing->key, conn->prefix, conn->prefix_bytes);
    listing->key_bytes = conn->prefix_bytes;
    listing->active = true;
    ask_page(conn);
    return HF_OK;
}

/* --- telling --- */

/* With the "/" at its end; 0: the key is no claim's. */
static size_t line_bytes_of(const struct hf__etcd *conn, const Hf__Etcd__KeyValue *kv)
{
    const uint8_t *slash =
        kv->key.len > conn->prefix_bytes
            ? memrchr(kv->key.data + conn->prefix_bytes, '/', kv->key.len - conn->prefix_bytes)
            : NULL;

    return slash ? (size_t)(slash - kv->key.data) + 1 : 0;
}

/* The name behind it, if it is wanted. */
static bool read_name(struct hf__etcd *conn, const Hf__Etcd__KeyValue *kv, size_t line_bytes)
{
    struct hf__listing *listing = &conn->listing;
    const char *text = (const char *)kv->key.data + conn->prefix_bytes;
    size_t bytes = line_bytes - 1 - conn->prefix_bytes;
    const uint8_t *beside = kv->value.len > 0 ? memchr(kv->value.data, '\n', kv->value.len) : NULL;

    if (conn->is_raw) {
        if (bytes == 0 || bytes > HF_NAME_BYTES_MAX || memchr(text, '\0', bytes))
            return false;
        memcpy(listing->name, text, bytes);
        listing->name_bytes = bytes;
    } else {
        listing->name_bytes = hf__name_decode(text, bytes, listing->name);
        if (listing->name_bytes == 0 && beside && strncmp(text, "~s", 2) == 0) {
            listing->name_bytes = kv->value.len - (size_t)(beside + 1 - kv->value.data);
            if (listing->name_bytes > HF_NAME_BYTES_MAX ||
                memchr(beside + 1, '\0', listing->name_bytes))
                return false;
            memcpy(listing->name, beside + 1, listing->name_bytes);
        }
    }
    listing->name[listing->name_bytes] = '\0';
    return listing->name_bytes > 0 &&
           (listing->all || hf__name_matches(listing->glob, listing->name, listing->name_bytes));
}

static int compare(const void *a, const void *b)
{
    const Hf__Etcd__KeyValue *one = *(Hf__Etcd__KeyValue *const *)a;
    const Hf__Etcd__KeyValue *other = *(Hf__Etcd__KeyValue *const *)b;

    return one->create_revision < other->create_revision ? -1 : 1;
}

/* Where the line ends that begins at `from`. */
static size_t end_of_line(const struct hf__etcd *conn, const Hf__Etcd__RangeResponse *page,
                          size_t from)
{
    size_t bytes = line_bytes_of(conn, page->kvs[from]);
    size_t to = from + 1;

    while (to < page->n_kvs && line_bytes_of(conn, page->kvs[to]) == bytes &&
           memcmp(page->kvs[to]->key.data, page->kvs[from]->key.data, bytes) == 0)
        to++;
    return to;
}

static void next_page(struct hf__etcd *conn, const Hf__Etcd__KeyValue *from, bool whole)
{
    struct hf__listing *listing = &conn->listing;
    size_t bytes = from->key.len;

    if (whole && listing->page_limit < PAGE_MAX)
        listing->page_limit *= 2; /* one line alone does not fit into it */
    if (bytes >= sizeof(listing->key)) {
        answer(conn, HF__REPLY_FAILED,
               hf__error_set(conn->base.error, HF_ELIMIT, "a key of %zu bytes", bytes));
        return;
    }
    memcpy(listing->key, from->key.data, bytes);
    listing->key_bytes = bytes;
    drop_page(conn);
    ask_page(conn);
}

/* The next line of the page that is wanted; its entries are told one by one. */
static void next_line(struct hf__etcd *conn)
{
    struct hf__listing *listing = &conn->listing;
    const Hf__Etcd__RangeResponse *page = listing->page;

    while (listing->page_at < page->n_kvs) {
        size_t from = listing->page_at;
        size_t to = end_of_line(conn, page, from);
        size_t bytes = line_bytes_of(conn, page->kvs[from]);

        if (to == page->n_kvs && page->more && bytes > 0) { /* there may be more of it */
            next_page(conn, page->kvs[from], from == 0);
            return;
        }
        listing->line_to = to;
        if (bytes > 0 && read_name(conn, page->kvs[from], bytes)) {
            qsort(page->kvs + from, to - from, sizeof(*page->kvs), compare);
            listing->waiting = 0;
            listing->writer_is_seen = listing->reader_is_seen = false;
            return;
        }
        listing->page_at = to;
    }
    if (page->more && page->n_kvs > 0)
        next_page(conn, page->kvs[page->n_kvs - 1], false);
    else
        answer(conn, HF__REPLY_DONE, HF_OK);
}

static struct hf__etcd_term *find_term(struct hf__listing *listing, int64_t lease)
{
    for (size_t i = 0; i < listing->term_count; i++) {
        if (listing->terms[i].lease == lease)
            return &listing->terms[i];
    }
    return NULL;
}

static int64_t left_ms(struct hf__listing *listing, int64_t lease)
{
    const struct hf__etcd_term *term = find_term(listing, lease);

    return term ? term->left_ms : -1;
}

static void tell_entry(struct hf__etcd *conn, const Hf__Etcd__KeyValue *kv)
{
    struct hf__listing *listing = &conn->listing;
    bool is_first = listing->waiting == 0 && !listing->writer_is_seen;
    struct hf__bearer bearer = { .mode = HF_EXCLUSIVE };
    bool holds;

    if (!conn->is_raw)
        hf__bearer_read((const char *)kv->value.data, kv->value.len, &bearer);
    if (!bearer.is_known)
        bearer.holder = (struct hf__holder){ 0 };
    holds = is_first && (bearer.mode == HF_SHARED || !listing->reader_is_seen);
    listing->holder = bearer.holder;
    listing->waiting += !holds;
    listing->writer_is_seen = listing->writer_is_seen || bearer.mode == HF_EXCLUSIVE;
    listing->reader_is_seen = listing->reader_is_seen || bearer.mode == HF_SHARED;
    listing->entry = (struct hf_holding){
        .struct_size = sizeof(listing->entry),
        .name = listing->name,
        .mode = bearer.mode,
        .waiting = !holds,
        .position = holds ? 0 : (uint32_t)listing->waiting,
        .fence = holds ? (uint64_t)kv->create_revision * 256 : 0,
        .remaining_ms = left_ms(listing, kv->lease),
        .age_ms = -1,
        .host = listing->holder.host,
        .pid = listing->holder.pid,
        .purpose = listing->holder.purpose,
    };
    hf__roll_reply(&listing->ticket, HF__REPLY_ENTRY, &listing->reply);
    listing->reply.entry = &listing->entry;
    listing->has_reply = true;
}

/* --- hearing --- */

/* Of many leases the first are enough; of locks that nobody asked about, none. */
static void ask_terms(struct hf__etcd *conn)
{
    struct hf__listing *listing = &conn->listing;
    Hf__Etcd__LeaseTimeToLiveRequest request = HF__ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;

    listing->term_count = 0;
    listing->terms_open = 0;
    for (size_t i = 0; i < listing->page->n_kvs && listing->term_count < HF__TERMS_MAX; i++) {
        const Hf__Etcd__KeyValue *kv = listing->page->kvs[i];
        size_t bytes = line_bytes_of(conn, kv);
        struct hf__quest *quest;

        request.id = kv->lease;
        if (request.id == 0 || bytes == 0 || find_term(listing, request.id) ||
            !read_name(conn, kv, bytes))
            continue;
        listing->terms[listing->term_count++] =
            (struct hf__etcd_term){ .lease = request.id, .left_ms = -1 };
        quest = hf__query_send(conn, HF__QUERY_SPAN, HF__WAY_CALLS, &request.base);
        if (!quest)
            return; /* the connection ends */
        quest->course = listing->number;
        quest->lease_id = request.id;
        listing->terms_open++;
    }
}

static void hear_term(struct hf__etcd *conn, const struct hf__quest *quest,
                      const struct hf__rpc_event *event)
{
    struct hf__listing *listing = &conn->listing;
    struct hf__etcd_term *term = find_term(listing, quest->lease_id);
    Hf__Etcd__LeaseTimeToLiveResponse *response;

    if (listing->terms_open > 0)
        listing->terms_open--;
    if (event->kind == HF__RPC_FAILED)
        return; /* then it is not told */
    response = hf__query_unpack(conn, &hf__etcd__lease_time_to_live_response__descriptor, event);
    if (!response)
        return;
    if (term && response->ttl >= 0 && response->ttl <= HF_LEASE_MS_MAX / 1000 + 60)
        term->left_ms = response->ttl * 1000;
    hf__message_free(&conn->memory, &response->base);
}

static void hear_page(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    struct hf__listing *listing = &conn->listing;

    listing->page = hf__query_unpack(conn, &hf__etcd__range_response__descriptor, event);
    if (!listing->page)
        return;
    if (listing->revision == 0 && listing->page->header)
        listing->revision = listing->page->header->revision;
    listing->page_at = listing->line_to = 0;
    ask_terms(conn);
}

/* Out at once, or marked, so that it may leave by itself. */
static void break_it(struct hf__etcd *conn, const Hf__Etcd__KeyValue *kv)
{
    char marked[HF__BEARER_BYTES + HF_NAME_BYTES_MAX + 2] = "!";
    struct hf__bearer bearer = { 0 };
    struct hf__quest *quest;
    struct hf__txn txn;

    if (!conn->is_raw)
        hf__bearer_read((const char *)kv->value.data, kv->value.len, &bearer);
    if (bearer.is_broken) {
        answer(conn, HF__REPLY_GONE, HF_OK);
        return;
    }
    hf__txn_init(&txn);
    hf__txn_if_revision(&txn, kv->key, kv->create_revision);
    if (bearer.grace_ms == 0 || kv->value.len >= sizeof(marked)) {
        hf__txn_delete(&txn, kv->key, false);
    } else {
        memcpy(marked + 1, kv->value.data, kv->value.len);
        hf__txn_put(&txn, kv->key, hf__etcd_bytes(marked, kv->value.len + 1), 0)->ignore_lease =
            true; /* it may have moved since it was read */
    }
    quest = hf__query_send(conn, HF__QUERY_BREAK, HF__WAY_CALLS, &txn.request.base);
    if (quest)
        quest->course = conn->listing.number;
}

static bool is_the_one(const struct hf__listing *listing, const Hf__Etcd__RangeResponse *own)
{
    const Hf__Etcd__KeyValue *kv = own && own->n_kvs == 1 ? own->kvs[0] : NULL;

    return kv && (uint64_t)kv->create_revision == listing->fence / 256 &&
           kv->key.len > listing->key_bytes &&
           memcmp(kv->key.data, listing->key, listing->key_bytes) == 0;
}

/* A writer that has become a reader is in no reader's way: there is one at the most. */
static bool holds(const struct hf__etcd *conn, const Hf__Etcd__TxnResponse *found,
                  const Hf__Etcd__KeyValue *kv)
{
    struct hf__bearer bearer = { .mode = HF_EXCLUSIVE };
    bool is_free = true;

    if (!conn->is_raw)
        hf__bearer_read((const char *)kv->value.data, kv->value.len, &bearer);
    for (size_t i = bearer.mode == HF_SHARED ? 2 : 1; i < found->n_responses; i++) {
        const Hf__Etcd__RangeResponse *ahead = hf__txn_ranged(found, i);

        for (size_t at = 0; ahead && at < ahead->n_kvs; at++) {
            struct hf__bearer other = { .mode = HF_EXCLUSIVE };

            if (bearer.mode == HF_SHARED)
                hf__bearer_read((const char *)ahead->kvs[at]->value.data, ahead->kvs[at]->value.len,
                                &other);
            is_free = is_free && other.mode == HF_SHARED;
        }
    }
    return is_free;
}

static void hear_sought(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    Hf__Etcd__TxnResponse *found =
        hf__query_unpack(conn, &hf__etcd__txn_response__descriptor, event);
    const Hf__Etcd__RangeResponse *own;

    if (!found)
        return;
    own = hf__txn_ranged(found, 0);
    if (is_the_one(&conn->listing, own) && holds(conn, found, own->kvs[0]))
        break_it(conn, own->kvs[0]);
    else
        answer(conn, HF__REPLY_GONE, HF_OK);
    hf__message_free(&conn->memory, &found->base);
}

static void hear_broken(struct hf__etcd *conn, const struct hf__rpc_event *event)
{
    Hf__Etcd__TxnResponse *response =
        hf__query_unpack(conn, &hf__etcd__txn_response__descriptor, event);

    if (!response)
        return;
    answer(conn, response->succeeded ? HF__REPLY_DONE : HF__REPLY_GONE, HF_OK);
    hf__message_free(&conn->memory, &response->base);
}

void hf__roster_hear(struct hf__etcd *conn, const struct hf__quest *quest,
                     const struct hf__rpc_event *event)
{
    bool perhaps;
    int status;

    if (!conn->listing.active || quest->course != conn->listing.number)
        return;
    if (quest->query == HF__QUERY_SPAN) {
        hear_term(conn, quest, event);
    } else if (event->kind == HF__RPC_FAILED) {
        status = hf__query_status(conn, event, &perhaps);
        perhaps = perhaps && quest->query == HF__QUERY_BREAK;
        answer(conn, perhaps ? HF__REPLY_UNKNOWN : HF__REPLY_FAILED, status);
    } else if (quest->query == HF__QUERY_LIST) {
        hear_page(conn, event);
    } else if (quest->query == HF__QUERY_SEEK) {
        hear_sought(conn, event);
    } else {
        hear_broken(conn, event);
    }
}

int hf__roster_next(struct hf__etcd *conn, struct hf__reply *out_reply)
{
    struct hf__listing *listing = &conn->listing;

    if (!listing->has_reply && !listing->active)
        return 0;
    if (!listing->has_reply && listing->active && listing->page && listing->terms_open == 0) {
        if (listing->page_at < listing->line_to)
            tell_entry(conn, listing->page->kvs[listing->page_at++]);
        else
            next_line(conn);
        if (!listing->has_reply && listing->active && listing->page &&
            listing->page_at < listing->line_to)
            tell_entry(conn, listing->page->kvs[listing->page_at++]);
    }
    if (!listing->has_reply && listing->active && conn->now_ns >= listing->deadline_ns)
        hf__roster_end(conn, hf__error_set(conn->base.error, HF_EUNREACHABLE, "no answer in time"));
    if (!listing->has_reply)
        return 0;
    *out_reply = listing->reply;
    listing->has_reply = false;
    return 1;
}
