/* listing.c: who holds, and who waits?
 *
 * Lock by lock: each line is copied under its guard, so it is consistent in itself, and then handed
 * out entry by entry. Locks that nobody holds have none. A glob without wildcards is looked up like
 * any name; otherwise every name of the table is compared.
 *
 * Whoever is dead is not shown but removed, and the line is copied once more. */
#include <string.h>

#include "base/clock.h"
#include "base/name.h"
#include "base/text.h"
#include "engine/embedded/embedded.h"

#define TRIES_MAX  64u
#define KNOWN      64u
#define FIRST_ROOM 16u

struct row {
    uint32_t owner;
    bool shared;
    bool waiting;
    uint64_t fence;
    uint64_t ends_ns;
    uint64_t since_ns;
    char purpose[HF__PURPOSE_BYTES];
};

struct hf__listing {
    struct hf__listing *next;
    struct hf__ticket ticket;
    char *glob; /* NULL: all */
    bool is_exact;
    uint32_t region;
    uint32_t cursor;
    struct row *rows;
    size_t row_count;
    size_t row_room;
    size_t row_next;
    uint32_t known_alive[KNOWN]; /* by slot */
    int status;
    char name[HF__LONG_NAME_BYTES + 1];
    size_t name_bytes;
    struct hf__holder who;
    struct hf_holding entry;
};

/* --- asking --- */

/* True: the glob is a name, written into out_name. */
static bool is_plain(const char *glob, char out_name[HF__LONG_NAME_BYTES + 1], size_t *out_bytes)
{
    size_t bytes = 0;

    for (const char *at = glob; *at; at++) {
        if (*at == '*' || *at == '?' || bytes == HF__LONG_NAME_BYTES)
            return false;
        if (*at == '\\' && at[1] != '\0')
            at++;
        out_name[bytes++] = *at;
    }
    out_name[bytes] = '\0';
    *out_bytes = bytes;
    return bytes > 0;
}

static void free_listing(struct hf__embedded *conn, struct hf__listing *listing)
{
    hf__env_free(conn->base.env, listing->rows);
    hf__env_free(conn->base.env, listing->glob);
    hf__env_free(conn->base.env, listing);
}

int hf__listing_ask(struct hf__embedded *conn, const struct hf__request *request)
{
    struct hf__listing *listing = hf__env_new(conn->base.env, sizeof(*listing));
    struct hf__listing **at = &conn->listings;

    if (!listing)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    listing->ticket = request->ticket;
    if (request->glob) {
        listing->glob = hf__env_copy_text(conn->base.env, request->glob);
        if (!listing->glob) {
            free_listing(conn, listing);
            return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
        }
        listing->is_exact = is_plain(request->glob, listing->name, &listing->name_bytes);
    }
    while (*at)
        at = &(*at)->next;
    *at = listing;
    return HF_OK;
}

/* --- copying one line --- */

static struct row *add_row(struct hf__embedded *conn, struct hf__listing *listing)
{
    if (listing->row_count == listing->row_room) {
        size_t room = listing->row_room ? listing->row_room * 2 : FIRST_ROOM;
        struct row *rows = hf__env_new(conn->base.env, room * sizeof(*rows));

        if (!rows)
            return NULL;
        if (listing->rows)
            memcpy(rows, listing->rows, listing->row_count * sizeof(*rows));
        hf__env_free(conn->base.env, listing->rows);
        listing->rows = rows;
        listing->row_room = room;
    }
    return &listing->rows[listing->row_count++];
}

static int no_memory(struct hf__embedded *conn)
{
    return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
}

static int copy_fast(struct hf__embedded *conn, struct hf__listing *listing, uint32_t lock,
                     struct hf__word word)
{
    struct row *row = add_row(conn, listing);

    if (!row)
        return no_memory(conn);
    *row = (struct row){
        .owner = (uint32_t)word.high,
        .fence = word.low >> HF__WORD_SHIFT,
        .since_ns = hf__table_load(&hf__table_lock(&conn->table, lock)->since_ns),
    };
    return HF_OK;
}

static int copy_line(struct hf__line *line, struct hf__listing *listing)
{
    struct hf__embedded *conn = line->conn;
    struct hf__node node;
    int got = hf__line_first(line, &node);

    if (line->owner != HF__OWNER_NONE) {
        struct hf__word word = { line->fence << HF__WORD_SHIFT, line->owner };
        int status = copy_fast(conn, listing, line->lock, word);

        if (status < 0)
            return status;
    }
    for (uint32_t i = 0; got > 0 && i <= HF__NODES_MAX; i++) {
        const struct hf__node_cell *cell = hf__table_node(&conn->table, node.index);
        struct row *row = add_row(conn, listing);

        if (!row)
            return no_memory(conn);
        *row = (struct row){
            .owner = node.owner,
            .shared = node.shared,
            .waiting = node.state == HF__NODE_WAITING,
            .fence = node.state == HF__NODE_WAITING ? 0 : node.fence,
            .ends_ns = node.ends_ns,
            .since_ns = hf__table_load(&cell->since_ns),
        };
        hf__table_read_text(cell->purpose, row->purpose, sizeof(row->purpose));
        got = hf__line_next(line, &node);
    }
    return got < 0 ? got : HF_OK;
}

static int copy_lock(struct hf__embedded *conn, struct hf__listing *listing, uint32_t lock)
{
    struct hf__line line;
    struct hf__word word;
    int status;

    listing->row_count = 0;
    listing->row_next = 0;
    if (hf__line_peek(conn, lock, &word) && !(word.low & HF__WORD_INFLATED))
        return (uint32_t)word.high == HF__OWNER_NONE || (word.low & HF__WORD_RETIRED)
                   ? HF_OK
                   : copy_fast(conn, listing, lock, word);

    status = hf__line_enter(conn, lock, &line);
    if (status != HF_OK)
        return status < 0 ? status : HF_OK;
    status = hf__line_settle(&line, conn->now_ns);
    if (status == HF_OK)
        status = copy_line(&line, listing);
    if (status < 0)
        return hf__line_fail(&line, status);
    return hf__line_leave(&line);
}

/* 1: somebody was dead, and has been removed. */
static int check_rows(struct hf__embedded *conn, struct hf__listing *listing, uint32_t lock)
{
    for (size_t i = 0; i < listing->row_count; i++) {
        uint32_t owner = listing->rows[i].owner;
        uint32_t *known = &listing->known_alive[owner % KNOWN];
        int dead = *known == owner ? 0 : hf__session_dead(conn, owner, NULL);

        if (dead > 0) {
            int status = hf__watch_mend(conn, lock, owner);

            return status < 0 ? status : 1;
        }
        *known = owner;
    }
    return 0;
}

static int take_lock(struct hf__embedded *conn, struct hf__listing *listing, uint32_t lock)
{
    int again = 1;

    for (uint32_t i = 0; again > 0 && i < TRIES_MAX; i++) {
        int status = copy_lock(conn, listing, lock);

        if (status < 0)
            return status;
        again = check_rows(conn, listing, lock);
    }
    return again < 0 ? again : HF_OK;
}

/* --- finding the next lock --- */

static bool is_idle(const struct hf__embedded *conn, uint32_t lock)
{
    const struct hf__lock_cell *cell = hf__table_lock(&conn->table, lock);

    return (hf__table_load(&cell->low) & HF__WORD_INFLATED) == 0 &&
           (uint32_t)hf__table_load(&cell->high) == HF__OWNER_NONE;
}

/* 1: there are rows; 0: that was all. */
static int find_exact(struct hf__embedded *conn, struct hf__listing *listing)
{
    struct hf__request request = { .name = listing->name, .name_bytes = listing->name_bytes };
    uint32_t lock;
    int status;

    if (listing->cursor++ > 0)
        return 0;
    status = hf__index_find(conn, &request, false, &lock);
    if (status != HF_OK)
        return status < 0 ? status : 0;
    status = take_lock(conn, listing, lock);
    return status < 0 ? status : listing->row_count > 0;
}

static int find_next(struct hf__embedded *conn, struct hf__listing *listing)
{
    if (listing->is_exact)
        return find_exact(conn, listing);

    while (listing->region <= HF__REGION_LONG) {
        uint32_t base = listing->region == HF__REGION_LONG ? HF__SHORT_NAMES_MAX : 0;
        uint32_t used;
        int status = hf__table_locks_used(conn, (enum hf__region)listing->region, &used);

        if (status < 0)
            return status;
        while (listing->cursor < used) {
            uint32_t lock = base + listing->cursor++;

            if (is_idle(conn, lock))
                continue;
            listing->name_bytes = hf__index_name(conn, lock, listing->name);
            if (listing->name_bytes == 0 ||
                !hf__name_matches(listing->glob, listing->name, listing->name_bytes))
                continue;
            status = take_lock(conn, listing, lock);
            if (status < 0)
                return status;
            if (listing->row_count > 0)
                return 1;
        }
        listing->region++;
        listing->cursor = 0;
    }
    return 0;
}

/* --- handing out --- */

static uint32_t position_of(const struct hf__listing *listing, size_t row)
{
    uint32_t position = 0;

    for (size_t i = 0; i <= row; i++)
        position += listing->rows[i].waiting;
    return position;
}

static void hand_out(struct hf__embedded *conn, struct hf__listing *listing,
                     struct hf__reply *out_reply)
{
    size_t index = listing->row_next++;
    const struct row *row = &listing->rows[index];
    uint64_t now_ns = conn->now_ns;

    hf__session_describe(conn, row->owner, &listing->who);
    if (row->purpose[0] != '\0')
        (void)hf__text_copy(listing->who.purpose, sizeof(listing->who.purpose), row->purpose);
    listing->entry = (struct hf_holding){
        .struct_size = sizeof(listing->entry),
        .name = listing->name,
        .mode = row->shared ? HF_SHARED : HF_EXCLUSIVE,
        .waiting = row->waiting,
        .position = row->waiting ? position_of(listing, index) : 0,
        .fence = row->fence,
        .remaining_ms = row->ends_ns ? hf__clock_left_ms(now_ns, row->ends_ns) : -1,
        .age_ms = row->since_ns && row->since_ns <= now_ns
                      ? (int64_t)((now_ns - row->since_ns) / HF__NS_PER_MS)
                      : 0,
        .host = listing->who.host,
        .pid = listing->who.pid,
        .purpose = listing->who.purpose,
    };
    *out_reply = (struct hf__reply){
        .kind = HF__REPLY_ENTRY,
        .ticket = listing->ticket,
        .entry = &listing->entry,
    };
}

int hf__listing_next(struct hf__embedded *conn, struct hf__reply *out_reply)
{
    struct hf__listing *listing = conn->listings;
    int got = 1;

    if (!listing)
        return 0;
    if (listing->row_next >= listing->row_count)
        got = find_next(conn, listing);
    if (got > 0) {
        hand_out(conn, listing, out_reply);
        return 1;
    }
    *out_reply = (struct hf__reply){
        .kind = got < 0 ? HF__REPLY_FAILED : HF__REPLY_DONE,
        .ticket = listing->ticket,
        .status = got,
    };
    conn->listings = listing->next;
    free_listing(conn, listing);
    return 1;
}

void hf__listing_done(struct hf__embedded *conn)
{
    while (conn->listings) {
        struct hf__listing *listing = conn->listings;

        if (conn->opened && hf__outbox_reserve(conn, 1) == HF_OK)
            hf__outbox_add(conn, &listing->ticket, HF__REPLY_FAILED)->reply.status =
                HF_EUNREACHABLE;
        conn->listings = listing->next;
        free_listing(conn, listing);
    }
}
