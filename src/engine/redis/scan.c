/* scan.c: who holds which locks, and who waits?
 *
 * SCAN walks over all keys of the database; those of our locks are picked out, and a script tells
 * about many of them at once. A scan may meet a key twice: it is listed once.
 *
 * What can go wrong: a second listing on the same connection while one is under way is told to come
 * again; an answer that never comes ends the listing at its deadline. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/redis/raw.h"

#define SCAN_COUNT 1000
#define SEEN_FIRST 256
#define LOCKS_MAX  64 /* asked for at one time */

/* What the keys begin with that speak for locks. Where these are other programs' keys too, it is
 * the ones beside them that are ours: an empty prefix must not list the database. */
static const char *own_prefix(const struct hf__redis *conn)
{
    return conn->recipe->raw_names ? HF__RAW_SIDE_PREFIX : conn->prefix;
}

/* --- asking --- */

static int send_scan(struct hf__redis *conn)
{
    struct hf__asked *asked = hf__asked_begin(conn, HF__ASKED_SCAN, 1);
    char pattern[2 * HF__REDIS_PREFIX_BYTES + 4];
    size_t bytes = 0;

    if (!asked)
        return HF_ENOMEM;
    asked->tickets[0] = conn->listing.ticket;
    for (const char *at = own_prefix(conn); *at; at++) {
        if (strchr("*?[]^-\\", *at))
            pattern[bytes++] = '\\';
        pattern[bytes++] = *at;
    }
    pattern[bytes++] = '{';
    pattern[bytes++] = '*';
    hf__wire_out_begin(&conn->out, 6);
    hf__wire_out_text(&conn->out, "SCAN");
    hf__wire_out_number(&conn->out, conn->listing.cursor);
    hf__wire_out_text(&conn->out, "MATCH");
    hf__wire_out_word(&conn->out, pattern, bytes);
    hf__wire_out_text(&conn->out, "COUNT");
    hf__wire_out_number(&conn->out, SCAN_COUNT);
    return hf__asked_end(conn, asked, conn->listing.deadline_ns);
}

/* What the script must be told of one lock: which of its keys was met; or its key, where that which
 * was met is the one beside it. */
static void add_found(struct hf__redis *conn, const struct hf__found *found)
{
    char key[HF_NAME_BYTES_MAX + 1];

    if (conn->recipe->raw_names)
        hf__wire_out_word(&conn->out, key,
                          hf__raw_key_of_side(found->key, strlen(found->key), key));
    else
        hf__wire_out_text(&conn->out, found->ending);
}

static int send_page(struct hf__redis *conn)
{
    struct hf__scan *listing = &conn->listing;
    struct hf__asked *asked = hf__asked_begin(conn, HF__ASKED_PAGE, 1);
    size_t left = listing->found_count - listing->found_at;
    size_t count = left < LOCKS_MAX ? left : LOCKS_MAX;
    char channels[] = "";

    if (!asked)
        return HF_ENOMEM;
    asked->tickets[0] = listing->ticket;
    hf__words_begin(conn, conn->recipe->list_script, count, 3 + count);
    for (size_t i = 0; i < count; i++)
        hf__wire_out_text(&conn->out, listing->found[listing->found_at + i].key);
    hf__wire_out_text(&conn->out, channels);
    hf__wire_out_text(&conn->out, "");
    hf__wire_out_number(&conn->out, listing->skip);
    for (size_t i = 0; i < count; i++)
        add_found(conn, &listing->found[listing->found_at + i]);
    return hf__asked_end(conn, asked, listing->deadline_ns);
}

static void forget_found(struct hf__redis *conn)
{
    struct hf__scan *listing = &conn->listing;

    for (size_t i = 0; i < listing->found_count; i++)
        hf__env_free(conn->base.env, listing->found[i].key);
    listing->found_count = 0;
    listing->found_at = 0;
    listing->skip = 0;
}

void hf__scan_done(struct hf__redis *conn)
{
    struct hf__scan *listing = &conn->listing;

    forget_found(conn);
    hf__env_free(conn->base.env, listing->found);
    hf__env_free(conn->base.env, listing->seen);
    *listing = (struct hf__scan){ 0 };
}

int hf__scan_start(struct hf__redis *conn, const struct hf__request *request)
{
    struct hf__scan *listing = &conn->listing;

    if (listing->active)
        return hf__error_set(conn->base.error, HF_EBUSY, "another listing is under way");
    hf__scan_done(conn);
    if (request->glob && !hf__text_copy(listing->glob, sizeof(listing->glob), request->glob))
        return hf__error_set(conn->base.error, HF_EINVAL, "a pattern has at most %d bytes",
                             HF_NAME_BYTES_MAX);
    listing->all = request->glob == NULL;
    listing->ticket = request->ticket;
    listing->deadline_ns = request->deadline_ns;
    listing->active = true;
    return send_scan(conn);
}

/* The next question, or the end. */
static int go_on(struct hf__redis *conn, struct hf__reply *out_reply)
{
    struct hf__scan *listing = &conn->listing;
    int status = HF_OK;

    if (listing->found_at < listing->found_count)
        status = send_page(conn);
    else if (listing->cursor != 0) {
        forget_found(conn);
        status = send_scan(conn);
    } else {
        hf__redis_reply(&listing->ticket, HF__REPLY_DONE, out_reply);
        hf__scan_done(conn);
        return 1;
    }
    if (status == HF_OK)
        return 0;
    hf__redis_reply(&listing->ticket, HF__REPLY_FAILED, out_reply);
    out_reply->status = status;
    hf__scan_done(conn);
    return 1;
}

/* --- what a scan met --- */

/* False: it was there before. */
static bool remember(struct hf__redis *conn, const char *key, size_t bytes, bool *out_failed)
{
    struct hf__scan *listing = &conn->listing;
    uint64_t hash = hf__name_hash(key, bytes, 0) | 1;
    size_t at;

    if (2 * listing->seen_count >= listing->seen_room) {
        size_t room = listing->seen_room ? 2 * listing->seen_room : SEEN_FIRST;
        uint64_t *seen = hf__env_new(conn->base.env, room * sizeof(*seen));

        if (!seen) {
            *out_failed = true;
            return false;
        }
        for (size_t i = 0; i < listing->seen_room; i++) {
            if (listing->seen[i] == 0)
                continue;
            for (at = listing->seen[i] % room; seen[at] != 0; at = (at + 1) % room)
                continue;
            seen[at] = listing->seen[i];
        }
        hf__env_free(conn->base.env, listing->seen);
        listing->seen = seen;
        listing->seen_room = room;
    }
    for (at = hash % listing->seen_room; listing->seen[at] != 0; at = (at + 1) % listing->seen_room)
        if (listing->seen[at] == hash)
            return false;
    listing->seen[at] = hash;
    listing->seen_count++;
    return true;
}

/* prefix{name} with one of the recipe's endings; other keys say nothing of their own. */
static bool is_lock(const struct hf__redis *conn, const struct hf__value *key, size_t *out_bytes,
                    const char **out_ending)
{
    size_t prefix_bytes = strlen(own_prefix(conn));

    for (const char *const *ending = conn->recipe->endings; *ending; ending++) {
        size_t ending_bytes = strlen(*ending);
        size_t bytes = key->bytes - ending_bytes;

        if (key->bytes > prefix_bytes + 2 + ending_bytes && key->text[bytes - 1] == '}' &&
            memcmp(key->text + bytes, *ending, ending_bytes) == 0) {
            *out_bytes = bytes;
            *out_ending = *ending;
            return !memchr(key->text, '\0', bytes);
        }
    }
    return false;
}

/* The keys beside other programs' stay for ever: those of other names need not be asked for. Of a
 * hash the server must tell the name. */
static bool is_wanted(const struct hf__redis *conn, const struct hf__value *side, size_t bytes)
{
    char key[HF_NAME_BYTES_MAX + 1];
    size_t prefix_bytes = strlen(conn->prefix);
    size_t key_bytes;

    if (!conn->recipe->raw_names)
        return true;
    key_bytes = hf__raw_key_of_side(side->text, bytes, key);
    if (key_bytes == 0)
        return true;
    if (key_bytes <= prefix_bytes || memcmp(key, conn->prefix, prefix_bytes) != 0)
        return false;
    return conn->listing.all ||
           hf__name_matches(conn->listing.glob, key + prefix_bytes, key_bytes - prefix_bytes);
}

static int note_found(struct hf__redis *conn, const struct hf__value *keys)
{
    struct hf__scan *listing = &conn->listing;
    const struct hf__value *key = keys + 1;
    bool failed = false;

    hf__env_free(conn->base.env, listing->found);
    listing->found = hf__env_new(conn->base.env, (keys->count + 1) * sizeof(*listing->found));
    if (!listing->found)
        return HF_ENOMEM;
    for (uint32_t i = 0; i < keys->count; i++, key += key->span) {
        struct hf__found *found = &listing->found[listing->found_count];
        size_t bytes;

        if (key->kind != HF__VALUE_TEXT || !is_lock(conn, key, &bytes, &found->ending) ||
            !is_wanted(conn, key, bytes) || !remember(conn, key->text, key->bytes, &failed))
            continue;
        found->key = hf__env_new(conn->base.env, bytes + 1);
        if (!found->key)
            return HF_ENOMEM;
        memcpy(found->key, key->text, bytes);
        listing->found_count++;
    }
    return failed ? HF_ENOMEM : HF_OK;
}

static int hear_scan(struct hf__redis *conn, const struct hf__value *value,
                     struct hf__reply *out_reply)
{
    struct hf__scan *listing = &conn->listing;
    const struct hf__value *keys = value->count == 2 ? hf__wire_at(value, 1) : NULL;
    const struct hf__value *cursor = keys ? hf__wire_at(value, 0) : NULL;

    if (!keys || keys->kind != HF__VALUE_ARRAY || cursor->kind != HF__VALUE_TEXT ||
        !hf__text_to_u64(cursor->text, cursor->bytes, &listing->cursor)) {
        hf__redis_reply(&listing->ticket, HF__REPLY_FAILED, out_reply);
        hf__redis_protocol_error(conn, value, out_reply);
        hf__scan_done(conn);
        return 1;
    }
    if (note_found(conn, keys) < 0) {
        hf__redis_reply(&listing->ticket, HF__REPLY_FAILED, out_reply);
        out_reply->status = hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        hf__scan_done(conn);
        return 1;
    }
    return go_on(conn, out_reply);
}

/* --- what a page tells --- */

/* The name is what follows our prefix; other keys are not ours to list. */
static size_t name_of_key(struct hf__redis *conn, const struct hf__value *key)
{
    size_t prefix_bytes = strlen(conn->prefix);
    size_t bytes;

    if (!key || key->kind != HF__VALUE_TEXT || key->bytes <= prefix_bytes ||
        key->bytes - prefix_bytes > HF_NAME_BYTES_MAX ||
        memcmp(key->text, conn->prefix, prefix_bytes) != 0)
        return 0;
    bytes = key->bytes - prefix_bytes;
    memcpy(conn->entry_name, key->text + prefix_bytes, bytes);
    conn->entry_name[bytes] = '\0';
    return strlen(conn->entry_name) == bytes ? bytes : 0;
}

/* 0: it has none, or is not to be listed. */
static size_t name_of(struct hf__redis *conn, const struct hf__value *lock, const char *key)
{
    const struct hf__value *full = hf__wire_at(lock, 0);
    size_t prefix_bytes = strlen(conn->prefix) + 1;
    size_t bytes = strlen(key) - prefix_bytes - 1;

    if (conn->recipe->raw_names)
        return name_of_key(conn, full);
    if (full && full->kind == HF__VALUE_TEXT && full->bytes > 0 &&
        full->bytes <= HF_NAME_BYTES_MAX) {
        memcpy(conn->entry_name, full->text, full->bytes);
        conn->entry_name[full->bytes] = '\0';
        return full->bytes;
    }
    bytes = hf__name_decode(key + prefix_bytes, bytes, conn->entry_name);
    return bytes;
}

static bool read_entry(struct hf__redis *conn, const struct hf__value *value)
{
    const struct hf__value *who = hf__wire_at(value, 5);
    struct hf__holder *holder = &conn->holder;
    int64_t waits;
    int64_t n;
    int64_t left;
    int64_t age;

    if (!who || who->kind != HF__VALUE_TEXT || !hf__wire_number(hf__wire_at(value, 0), &waits) ||
        !hf__wire_number(hf__wire_at(value, 2), &n) ||
        !hf__wire_number(hf__wire_at(value, 3), &left) ||
        !hf__wire_number(hf__wire_at(value, 4), &age) || waits < 0 || waits > UINT32_MAX)
        return false;
    if (!hf__words_read_who(who->text, who->bytes, holder)) {
        if (!conn->recipe->raw_names)
            return false;
        memset(holder, 0, sizeof(*holder)); /* another program holds it */
    }
    conn->entry = (struct hf_holding){
        .struct_size = sizeof(conn->entry),
        .name = conn->entry_name,
        .mode = hf__wire_is(hf__wire_at(value, 1), "s") ? HF_SHARED : HF_EXCLUSIVE,
        .waiting = waits > 0,
        .position = (uint32_t)waits,
        .fence = (uint64_t)n * 256,
        .remaining_ms = left >= 0                 ? left
                        : conn->recipe->raw_names ? -1
                                                  : 0,
        .age_ms = age >= 0                  ? age
                  : conn->recipe->raw_names ? -1
                                            : 0,
        .host = holder->host,
        .pid = holder->pid,
        .purpose = holder->purpose,
    };
    return true;
}

/* One entry of the page; 0: that was the last. */
static int next_entry(struct hf__redis *conn, struct hf__reply *out_reply)
{
    struct hf__scan *listing = &conn->listing;
    const struct hf__value *page = conn->current_value;

    while (listing->lock_index + 2 < page->count) {
        const struct hf__value *lock = hf__wire_at(page, listing->lock_index + 2);
        const struct hf__value *entry = hf__wire_at(lock, listing->entry_index + 1);
        size_t found = listing->found_at + listing->lock_index;

        if (!entry || found >= listing->found_count) {
            listing->lock_index++;
            listing->entry_index = 0;
            continue;
        }
        listing->entry_index++;
        size_t bytes = name_of(conn, lock, listing->found[found].key);
        if (bytes == 0 ||
            (!listing->all && !hf__name_matches(listing->glob, conn->entry_name, bytes)))
            continue;
        if (!read_entry(conn, entry))
            continue; /* written by somebody else */
        hf__redis_reply(&listing->ticket, HF__REPLY_ENTRY, out_reply);
        out_reply->entry = &conn->entry;
        return 1;
    }
    return 0;
}

int hf__scan_next(struct hf__redis *conn, struct hf__reply *out_reply)
{
    struct hf__scan *listing = &conn->listing;
    int64_t done;
    int64_t skip;

    if (next_entry(conn, out_reply) > 0)
        return 1;
    if (!hf__wire_number(hf__wire_at(conn->current_value, 0), &done) ||
        !hf__wire_number(hf__wire_at(conn->current_value, 1), &skip) || done < 0 || skip < 0 ||
        (done == 0 && skip == 0) || (size_t)done > listing->found_count - listing->found_at) {
        hf__redis_reply(&listing->ticket, HF__REPLY_FAILED, out_reply);
        hf__redis_protocol_error(conn, conn->current_value, out_reply);
        hf__asked_free(conn, HF__TAKE(conn->current));
        hf__scan_done(conn);
        return 1;
    }
    listing->found_at += (size_t)done;
    listing->skip = (uint64_t)skip;
    hf__asked_free(conn, HF__TAKE(conn->current));
    return go_on(conn, out_reply);
}

int hf__scan_hear(struct hf__redis *conn, struct hf__asked *asked, const struct hf__value *value,
                  struct hf__reply *out_reply)
{
    struct hf__scan *listing = &conn->listing;

    if (!listing->active || value->kind == HF__VALUE_ERROR) {
        hf__redis_reply(&asked->tickets[0], HF__REPLY_FAILED, out_reply);
        if (value->kind == HF__VALUE_ERROR)
            hf__words_error(conn, value, out_reply);
        hf__asked_free(conn, asked);
        if (!listing->active)
            return 0;
        hf__scan_done(conn);
        return 1;
    }
    if (asked->kind == HF__ASKED_SCAN) {
        hf__asked_free(conn, asked);
        return hear_scan(conn, value, out_reply);
    }
    conn->current = asked;
    conn->current_value = value;
    listing->lock_index = 0;
    listing->entry_index = 0;
    return hf__scan_next(conn, out_reply);
}
