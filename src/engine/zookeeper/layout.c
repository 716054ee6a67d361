/* layout.c: how are locks, claims and people written in ZooKeeper?
 *
 * A lock is a node; a claim is a child of it whose name ends with the number that the server gave
 * it. Ours: root + name as names are written, and "w-SESSION-TOKEN-0000000007" (r: a reader). The
 * layouts of other projects have their own words between a random part and the number:
 *
 *     curator      _c_UUID-lock-0000000007               its InterProcessMutex
 *     curator-rw   _c_UUID-__WRIT__0000000007, __READ__  its InterProcessReadWriteLock
 *     kazoo        UUID__lock__0000000007, __rlock__
 *
 * What can go wrong: a child that is none of these. If it ends with a number it stands in line, and
 * excludes everybody; if not, it means nothing. The number is 32 bits wide and goes round.
 *
 * Pure. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/zookeeper/zookeeper.h"

#define SEQUENCE_DIGITS 10

static const struct {
    const char *word;
    int mode;
} words[][3] = {
    [HF__LAYOUT_OWN] = { { NULL, 0 } },
    [HF__LAYOUT_CURATOR] = { { "lock-", HF_EXCLUSIVE }, { NULL, 0 } },
    [HF__LAYOUT_CURATOR_RW] = { { "__WRIT__", HF_EXCLUSIVE },
                                { "__READ__", HF_SHARED },
                                { NULL, 0 } },
    [HF__LAYOUT_KAZOO] = { { "__lock__", HF_EXCLUSIVE }, { "__rlock__", HF_SHARED }, { NULL, 0 } },
};

/* --- the lock --- */

/* As the server would judge it. */
static bool is_path(const char *path, size_t bytes)
{
    size_t part = 0;

    for (size_t i = 0; i <= bytes; i++) {
        unsigned char c = i < bytes ? (unsigned char)path[i] : '/';

        if (c < ' ' || c == 0x7f)
            return false;
        if (c != '/')
            continue;
        if (i > 0 && i == part)
            return false; /* an empty part, or a slash at the end */
        if ((i - part == 1 && path[part] == '.') ||
            (i - part == 2 && memcmp(path + part, "..", 2) == 0))
            return false;
        part = i + 1;
    }
    return bytes > 1 && path[0] == '/';
}

int hf__layout_path(struct hf__zookeeper *conn, const char *name, size_t name_bytes,
                    char out_path[HF__PATH_BYTES], bool *out_hashed)
{
    char encoded[HF__NAME_ENCODED_BYTES];
    size_t bytes = conn->root_bytes;

    *out_hashed = false;
    memcpy(out_path, conn->root, bytes);
    if (conn->layout == HF__LAYOUT_OWN) {
        size_t encoded_bytes = hf__name_encode(name, name_bytes, encoded, out_hashed);

        memcpy(out_path + bytes, encoded, encoded_bytes + 1);
        return HF_OK;
    }
    if (bytes > 0 && name[0] == '/')
        bytes--;
    else if (bytes == 0 && name[0] != '/')
        out_path[bytes++] = '/';
    memcpy(out_path + bytes, name, name_bytes);
    bytes += name_bytes;
    out_path[bytes] = '\0';
    if (!is_path(out_path, bytes))
        return hf__error_set(conn->base.error, HF_ENAME,
                             "with this layout a name must be a ZooKeeper path");
    return HF_OK;
}

size_t hf__layout_name(const struct hf__zookeeper *conn, const char *child,
                       char out_name[HF_NAME_BYTES_MAX + 1])
{
    size_t bytes = strlen(child);

    if (conn->layout == HF__LAYOUT_OWN)
        return hf__name_decode(child, bytes, out_name);
    if (bytes > HF_NAME_BYTES_MAX)
        return 0;
    memcpy(out_name, child, bytes + 1);
    return bytes;
}

/* --- the claim --- */

/* A random number as others write it. */
static void put_uuid(const char *token, char out_uuid[40])
{
    (void)snprintf(out_uuid, 40, "%.8s-%.4s-%.4s-%.4s-%.12s", token, token + 8, token + 12,
                   token + 16, token + 20);
}

static const char *word_for(enum hf__layout_kind layout, int mode)
{
    for (size_t i = 0; words[layout][i].word; i++) {
        if (words[layout][i].mode == mode)
            return words[layout][i].word;
    }
    return "";
}

bool hf__layout_has_mode(const struct hf__zookeeper *conn, int mode)
{
    return conn->layout == HF__LAYOUT_OWN || *word_for(conn->layout, mode);
}

void hf__layout_stem(const struct hf__zookeeper *conn, const struct hf__place *place,
                     char out_stem[HF__NODE_NAME_BYTES])
{
    const char *word = word_for(conn->layout, place->mode);
    char uuid[40];

    put_uuid(place->token, uuid);
    if (conn->layout == HF__LAYOUT_OWN)
        (void)snprintf(out_stem, HF__NODE_NAME_BYTES, "%c-%016llx-%s-",
                       place->mode == HF_SHARED ? 'r' : 'w', (unsigned long long)conn->session.id,
                       place->token);
    else if (conn->layout == HF__LAYOUT_KAZOO)
        (void)snprintf(out_stem, HF__NODE_NAME_BYTES, "%s%s", place->token, word);
    else
        (void)snprintf(out_stem, HF__NODE_NAME_BYTES, "_c_%s-%s", uuid, word);
}

/* The number at the end: ten digits, or a minus and ten. */
static bool read_sequence(const char *text, size_t bytes, int32_t *out_sequence)
{
    bool negative = bytes == SEQUENCE_DIGITS + 1 && *text == '-';
    uint64_t number;

    if (negative) {
        text++;
        bytes--;
    }
    if (bytes != SEQUENCE_DIGITS || !hf__text_to_u64(text, bytes, &number) ||
        number > (uint64_t)INT32_MAX + negative)
        return false;
    *out_sequence = negative ? (int32_t)(-(int64_t)number) : (int32_t)number;
    return true;
}

/* "w-" SESSION "-" TOKEN "-": where the number begins; 0: it is not ours. */
static size_t own_stem(const char *name, size_t bytes)
{
    const size_t stem = 2 + 16 + 1 + 2 * HF__TOKEN_BYTES + 1;

    if (bytes < stem + SEQUENCE_DIGITS || (name[0] != 'r' && name[0] != 'w') || name[1] != '-' ||
        name[18] != '-' || name[stem - 1] != '-')
        return 0;
    return stem;
}

bool hf__layout_child(const struct hf__zookeeper *conn, const char *name, size_t name_bytes,
                      struct hf__child *out_child)
{
    size_t stem = own_stem(name, name_bytes);

    if (name_bytes >= sizeof(out_child->name) || name_bytes < SEQUENCE_DIGITS)
        return false;
    memcpy(out_child->name, name, name_bytes);
    out_child->name[name_bytes] = '\0';
    out_child->mode = HF_EXCLUSIVE;
    if (conn->layout == HF__LAYOUT_OWN && stem > 0) {
        out_child->mode = name[0] == 'r' ? HF_SHARED : HF_EXCLUSIVE;
        return read_sequence(name + stem, name_bytes - stem, &out_child->sequence);
    }
    for (size_t i = 0; words[conn->layout][i].word; i++) {
        const char *found = strstr(out_child->name, words[conn->layout][i].word);
        size_t from =
            found ? (size_t)(found - out_child->name) + strlen(words[conn->layout][i].word) : 0;

        if (!found || !read_sequence(name + from, name_bytes - from, &out_child->sequence))
            continue;
        out_child->mode = words[conn->layout][i].mode;
        return true;
    }
    return read_sequence(name + name_bytes - SEQUENCE_DIGITS, SEQUENCE_DIGITS,
                         &out_child->sequence);
}

bool hf__layout_is_before(int32_t sequence, int32_t other)
{
    return (int32_t)((uint32_t)sequence - (uint32_t)other) < 0;
}

bool hf__layout_is_of(const struct hf__zookeeper *conn, const struct hf__child *child,
                      const struct hf__place *place)
{
    char stem[HF__NODE_NAME_BYTES];

    hf__layout_stem(conn, place, stem);
    return strncmp(child->name, stem, strlen(stem)) == 0;
}

/* --- who it is --- */

void hf__layout_data(const struct hf__zookeeper *conn, const struct hf__request *request,
                     char out_data[HF__NODE_DATA_BYTES])
{
    hf__bearer_write(request, conn->whence, conn->purpose, out_data);
}

void hf__layout_bearer(const struct hf__zookeeper *conn, const struct hf__jute_text *data,
                       struct hf__bearer *out_bearer)
{
    bool is_ours = conn->layout == HF__LAYOUT_OWN;

    hf__bearer_read(data->bytes, is_ours ? data->count : 0, out_bearer);
}
