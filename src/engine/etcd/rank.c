/* rank.c: which locks does somebody of ours want, and whose key is this?
 *
 * The keys of a lock begin with path, prefix, the name as names are written, and "/"; behind it
 * each claim has a token of its own. An event of the watch finds the line by what its key begins
 * with, up to the last "/".
 *
 * What can go wrong: with layout=etcd a name that has a "/" would stand in another lock's line:
 * HF_ENAME. */
#include <string.h>

#include "engine/etcd/etcd.h"

#define BUCKETS_FIRST 64

uint64_t hf__rank_hash(const void *key, size_t key_bytes)
{
    return hf__name_hash(key, key_bytes, 0);
}

/* 0, with the error: no such name. */
size_t hf__rank_key(struct hf__etcd *conn, const char *name, size_t name_bytes,
                    char out_key[HF__LOCK_KEY_BYTES], bool *out_hashed)
{
    char encoded[HF__NAME_ENCODED_BYTES];
    size_t bytes = conn->prefix_bytes;

    *out_hashed = false;
    if (!conn->is_raw) {
        name_bytes = hf__name_encode(name, name_bytes, encoded, out_hashed);
        name = encoded;
    } else if (memchr(name, '/', name_bytes)) {
        (void)hf__error_set(conn->base.error, HF_ENAME, "with layout=etcd a name has no '/'");
        return 0;
    }
    memcpy(out_key, conn->prefix, bytes);
    memcpy(out_key + bytes, name, name_bytes);
    bytes += name_bytes;
    out_key[bytes++] = '/';
    return bytes;
}

static struct hf__rank **bucket_of(const struct hf__etcd *conn, uint64_t hash)
{
    return &conn->buckets[hash & (conn->bucket_count - 1)];
}

static struct hf__rank *find(const struct hf__etcd *conn, const void *key, size_t key_bytes)
{
    uint64_t hash = hf__rank_hash(key, key_bytes);
    struct hf__rank *line = conn->bucket_count > 0 ? *bucket_of(conn, hash) : NULL;

    while (line && (line->hash != hash || line->key_bytes != key_bytes ||
                    memcmp(line->key, key, key_bytes) != 0))
        line = line->chain;
    return line;
}

struct hf__rank *hf__rank_find(const struct hf__etcd *conn, const uint8_t *key, size_t key_bytes)
{
    const uint8_t *slash = key_bytes > 0 ? memrchr(key, '/', key_bytes) : NULL;

    if (!slash || conn->line_count == 0)
        return NULL;
    return find(conn, key, (size_t)(slash - key) + 1);
}

static bool make_room(struct hf__etcd *conn)
{
    size_t count = conn->bucket_count > 0 ? 2 * conn->bucket_count : BUCKETS_FIRST;
    struct hf__rank **buckets;
    struct hf__rank **before = conn->buckets;
    size_t before_count = conn->bucket_count;

    if (conn->line_count < conn->bucket_count)
        return true;
    buckets = hf__env_new(conn->base.env, count * sizeof(*buckets));
    if (!buckets)
        return false;
    conn->buckets = buckets;
    conn->bucket_count = count;
    for (size_t i = 0; i < before_count; i++) {
        for (struct hf__rank *line = before[i], *next; line; line = next) {
            struct hf__rank **bucket = bucket_of(conn, line->hash);

            next = line->chain;
            line->chain = *bucket;
            *bucket = line;
        }
    }
    hf__env_free(conn->base.env, before);
    return true;
}

int hf__rank_enter(struct hf__etcd *conn, const char *name, size_t name_bytes,
                   struct hf__rank **out_line)
{
    char key[HF__LOCK_KEY_BYTES];
    bool hashed;
    size_t key_bytes = hf__rank_key(conn, name, name_bytes, key, &hashed);
    struct hf__rank *line = key_bytes > 0 ? find(conn, key, key_bytes) : NULL;

    if (key_bytes == 0)
        return HF_ENAME;
    *out_line = line;
    if (line) /* two names with one hash would be seen by whoever reads what stands beside it */
        return HF_OK;
    line = make_room(conn) ? hf__env_new(conn->base.env, sizeof(*line) + key_bytes + name_bytes + 1)
                           : NULL;
    if (!line)
        return hf__error_set(conn->base.error, HF_ENOMEM, "out of memory");
    hf__list_init(&line->stands);
    line->hash = hf__rank_hash(key, key_bytes);
    line->hashed = hashed;
    line->key_bytes = key_bytes;
    memcpy(line->key, key, key_bytes);
    line->name = memcpy(line->key + key_bytes, name, name_bytes);
    line->name_bytes = name_bytes;
    line->chain = *bucket_of(conn, line->hash);
    *bucket_of(conn, line->hash) = line;
    conn->line_count++;
    *out_line = line;
    return HF_OK;
}

void hf__rank_leave(struct hf__etcd *conn, struct hf__rank *line)
{
    struct hf__rank **link = bucket_of(conn, line->hash);

    if (!hf__list_empty(&line->stands))
        return;
    while (*link != line)
        link = &(*link)->chain;
    *link = line->chain;
    conn->line_count--;
    hf__env_free(conn->base.env, line);
}

void hf__rank_done(struct hf__etcd *conn)
{
    for (size_t i = 0; i < conn->bucket_count; i++) {
        for (struct hf__rank *line = conn->buckets[i], *next; line; line = next) {
            next = line->chain;
            hf__env_free(conn->base.env, line);
        }
    }
    hf__env_free(conn->base.env, conn->buckets);
    conn->buckets = NULL;
    conn->bucket_count = 0;
    conn->line_count = 0;
}
