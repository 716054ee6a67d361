/* jute_oracle.c: are ZooKeeper's records written and read as ZooKeeper's own library does it?
 *
 * Random records of every kind that a client sends or is sent, as libzookeeper's structs: its
 * encoder and ours must give the same bytes, its bytes must give us the same fields, it must read
 * our bytes, and where one of its records is cut off, both must refuse it. Only its static library
 * shows the encoder. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.jute.h>

#include "check.h"
#include "dice.h"
#include "engine/zookeeper/jute.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"

#define SEEDS        2000 /* for each kind of record and each law */
#define TEXT_MAX     50
#define ELEMENTS_MAX 6
#define FIELDS_MAX   6
#define RECORD_BYTES 256

enum kind {
    KIND_NONE, /* behind the last */
    KIND_BOOL,
    KIND_I32,
    KIND_I64,
    KIND_TEXT,
    KIND_BUFFER,
    KIND_TEXTS,
    KIND_ACLS,
    KIND_STAT,
};

struct field {
    enum kind kind;
    size_t at; /* in their struct */
};

struct record {
    const char *name;
    struct field fields[FIELDS_MAX + 1];
    int (*serialize)(struct oarchive *out, void *value);
    int (*deserialize)(struct iarchive *in, void *value);
    void (*deallocate)(void *value);
};

/* Theirs, with one type for all. */
#define ADAPT(type)                                                                                \
    static int serialize_any_##type(struct oarchive *out, void *value)                             \
    {                                                                                              \
        _Static_assert(sizeof(struct type) <= RECORD_BYTES, "there is room");                      \
        return serialize_##type(out, "record", value);                                             \
    }                                                                                              \
    static int deserialize_any_##type(struct iarchive *in, void *value)                            \
    {                                                                                              \
        return deserialize_##type(in, "record", value);                                            \
    }                                                                                              \
    static void deallocate_any_##type(void *value)                                                 \
    {                                                                                              \
        deallocate_##type(value);                                                                  \
    }

/* clang-format off */
#define AT(kind, type, member) { KIND_##kind, offsetof(struct type, member) }
#define RECORD(type, ...) \
    { #type, { __VA_ARGS__ }, serialize_any_##type, deserialize_any_##type, deallocate_any_##type }

ADAPT(Id) ADAPT(ACL) ADAPT(Stat) ADAPT(ConnectRequest) ADAPT(ConnectResponse) ADAPT(SetWatches)
ADAPT(SetWatches2) ADAPT(RequestHeader) ADAPT(MultiHeader) ADAPT(AuthPacket) ADAPT(ReplyHeader)
ADAPT(GetDataRequest) ADAPT(SetDataRequest) ADAPT(SetDataResponse) ADAPT(CreateRequest)
ADAPT(CreateTTLRequest) ADAPT(DeleteRequest) ADAPT(GetChildrenRequest) ADAPT(GetChildren2Request)
ADAPT(CheckVersionRequest) ADAPT(SyncRequest) ADAPT(SyncResponse) ADAPT(GetACLRequest)
ADAPT(SetACLRequest) ADAPT(AddWatchRequest) ADAPT(WatcherEvent) ADAPT(ErrorResponse)
ADAPT(CreateResponse) ADAPT(Create2Response) ADAPT(ExistsRequest) ADAPT(ExistsResponse)
ADAPT(GetDataResponse) ADAPT(GetChildrenResponse) ADAPT(GetChildren2Response)
ADAPT(GetACLResponse) ADAPT(CheckWatchesRequest) ADAPT(RemoveWatchesRequest)

static const struct record records[] = {
    RECORD(Id, AT(TEXT, Id, scheme), AT(TEXT, Id, id)),
    RECORD(ACL, AT(I32, ACL, perms), AT(TEXT, ACL, id.scheme), AT(TEXT, ACL, id.id)),
    RECORD(Stat, AT(STAT, Stat, czxid)),
    RECORD(ConnectRequest, AT(I32, ConnectRequest, protocolVersion),
           AT(I64, ConnectRequest, lastZxidSeen), AT(I32, ConnectRequest, timeOut),
           AT(I64, ConnectRequest, sessionId), AT(BUFFER, ConnectRequest, passwd)),
    RECORD(ConnectResponse, AT(I32, ConnectResponse, protocolVersion),
           AT(I32, ConnectResponse, timeOut), AT(I64, ConnectResponse, sessionId),
           AT(BUFFER, ConnectResponse, passwd)),
    RECORD(SetWatches, AT(I64, SetWatches, relativeZxid), AT(TEXTS, SetWatches, dataWatches),
           AT(TEXTS, SetWatches, existWatches), AT(TEXTS, SetWatches, childWatches)),
    RECORD(SetWatches2, AT(I64, SetWatches2, relativeZxid), AT(TEXTS, SetWatches2, dataWatches),
           AT(TEXTS, SetWatches2, existWatches), AT(TEXTS, SetWatches2, childWatches),
           AT(TEXTS, SetWatches2, persistentWatches),
           AT(TEXTS, SetWatches2, persistentRecursiveWatches)),
    RECORD(RequestHeader, AT(I32, RequestHeader, xid), AT(I32, RequestHeader, type)),
    RECORD(MultiHeader, AT(I32, MultiHeader, type), AT(BOOL, MultiHeader, done),
           AT(I32, MultiHeader, err)),
    RECORD(AuthPacket, AT(I32, AuthPacket, type), AT(TEXT, AuthPacket, scheme),
           AT(BUFFER, AuthPacket, auth)),
    RECORD(ReplyHeader, AT(I32, ReplyHeader, xid), AT(I64, ReplyHeader, zxid),
           AT(I32, ReplyHeader, err)),
    RECORD(GetDataRequest, AT(TEXT, GetDataRequest, path), AT(BOOL, GetDataRequest, watch)),
    RECORD(SetDataRequest, AT(TEXT, SetDataRequest, path), AT(BUFFER, SetDataRequest, data),
           AT(I32, SetDataRequest, version)),
    RECORD(SetDataResponse, AT(STAT, SetDataResponse, stat)),
    RECORD(CreateRequest, AT(TEXT, CreateRequest, path), AT(BUFFER, CreateRequest, data),
           AT(ACLS, CreateRequest, acl), AT(I32, CreateRequest, flags)),
    RECORD(CreateTTLRequest, AT(TEXT, CreateTTLRequest, path), AT(BUFFER, CreateTTLRequest, data),
           AT(ACLS, CreateTTLRequest, acl), AT(I32, CreateTTLRequest, flags),
           AT(I64, CreateTTLRequest, ttl)),
    RECORD(DeleteRequest, AT(TEXT, DeleteRequest, path), AT(I32, DeleteRequest, version)),
    RECORD(GetChildrenRequest, AT(TEXT, GetChildrenRequest, path),
           AT(BOOL, GetChildrenRequest, watch)),
    RECORD(GetChildren2Request, AT(TEXT, GetChildren2Request, path),
           AT(BOOL, GetChildren2Request, watch)),
    RECORD(CheckVersionRequest, AT(TEXT, CheckVersionRequest, path),
           AT(I32, CheckVersionRequest, version)),
    RECORD(SyncRequest, AT(TEXT, SyncRequest, path)),
    RECORD(SyncResponse, AT(TEXT, SyncResponse, path)),
    RECORD(GetACLRequest, AT(TEXT, GetACLRequest, path)),
    RECORD(SetACLRequest, AT(TEXT, SetACLRequest, path), AT(ACLS, SetACLRequest, acl),
           AT(I32, SetACLRequest, version)),
    RECORD(AddWatchRequest, AT(TEXT, AddWatchRequest, path), AT(I32, AddWatchRequest, mode)),
    RECORD(WatcherEvent, AT(I32, WatcherEvent, type), AT(I32, WatcherEvent, state),
           AT(TEXT, WatcherEvent, path)),
    RECORD(ErrorResponse, AT(I32, ErrorResponse, err)),
    RECORD(CreateResponse, AT(TEXT, CreateResponse, path)),
    RECORD(Create2Response, AT(TEXT, Create2Response, path), AT(STAT, Create2Response, stat)),
    RECORD(ExistsRequest, AT(TEXT, ExistsRequest, path), AT(BOOL, ExistsRequest, watch)),
    RECORD(ExistsResponse, AT(STAT, ExistsResponse, stat)),
    RECORD(GetDataResponse, AT(BUFFER, GetDataResponse, data), AT(STAT, GetDataResponse, stat)),
    RECORD(GetChildrenResponse, AT(TEXTS, GetChildrenResponse, children)),
    RECORD(GetChildren2Response, AT(TEXTS, GetChildren2Response, children),
           AT(STAT, GetChildren2Response, stat)),
    RECORD(GetACLResponse, AT(ACLS, GetACLResponse, acl), AT(STAT, GetACLResponse, stat)),
    RECORD(CheckWatchesRequest, AT(TEXT, CheckWatchesRequest, path),
           AT(I32, CheckWatchesRequest, type)),
    RECORD(RemoveWatchesRequest, AT(TEXT, RemoveWatchesRequest, path),
           AT(I32, RemoveWatchesRequest, type)),
};
/* clang-format on */

/* --- drawn: in their memory, which their deallocate gives back --- */

static int64_t draw_number(struct dice *dice)
{
    int64_t number = (int64_t)dice_roll(dice) >> dice_below(dice, 64);

    return dice_below(dice, 20) == 0 ? INT64_MIN : number;
}

/* Their texts end at a zero. One in ten is not there, but that they cannot read themselves. */
static char *draw_text(struct dice *dice, bool may_lack)
{
    size_t count = dice_below(dice, TEXT_MAX);
    char *text;

    if (may_lack && dice_below(dice, 10) == 0)
        return NULL;
    text = calloc(1, count + 1);
    CHECK(text);
    for (size_t i = 0; i < count; i++)
        text[i] = (char)(1 + dice_below(dice, 255));
    return text;
}

static struct buffer draw_buffer(struct dice *dice)
{
    struct buffer buffer = { .len = (int32_t)dice_below(dice, TEXT_MAX) - 1 };

    if (buffer.len < 0)
        return buffer;
    buffer.buff = calloc(1, (size_t)buffer.len + 1);
    CHECK(buffer.buff);
    dice_fill(dice, buffer.buff, (size_t)buffer.len);
    return buffer;
}

static int32_t draw_count(struct dice *dice, bool may_lack)
{
    return (int32_t)dice_below(dice, ELEMENTS_MAX) - (may_lack ? 1 : 0);
}

static struct Stat draw_stat(struct dice *dice)
{
    return (struct Stat){
        .czxid = draw_number(dice),
        .mzxid = draw_number(dice),
        .ctime = draw_number(dice),
        .mtime = draw_number(dice),
        .version = (int32_t)draw_number(dice),
        .cversion = (int32_t)draw_number(dice),
        .aversion = (int32_t)draw_number(dice),
        .ephemeralOwner = draw_number(dice),
        .dataLength = (int32_t)draw_number(dice),
        .numChildren = (int32_t)draw_number(dice),
        .pzxid = draw_number(dice),
    };
}

static void draw_texts(struct dice *dice, struct String_vector *texts, bool may_lack)
{
    texts->count = draw_count(dice, may_lack);
    if (texts->count > 0)
        CHECK(allocate_String_vector(texts, texts->count) == 0);
    for (int32_t i = 0; i < texts->count; i++)
        texts->data[i] = draw_text(dice, may_lack);
}

static void draw_acls(struct dice *dice, struct ACL_vector *acls, bool may_lack)
{
    acls->count = draw_count(dice, may_lack);
    if (acls->count > 0)
        CHECK(allocate_ACL_vector(acls, acls->count) == 0);
    for (int32_t i = 0; i < acls->count; i++) {
        acls->data[i].perms = (int32_t)draw_number(dice);
        acls->data[i].id.scheme = draw_text(dice, may_lack);
        acls->data[i].id.id = draw_text(dice, may_lack);
    }
}

/* may_lack: texts and vectors may be absent. */
static void draw(struct dice *dice, const struct record *record, char *value, bool may_lack)
{
    memset(value, 0, RECORD_BYTES);
    for (const struct field *field = record->fields; field->kind != KIND_NONE; field++) {
        void *at = value + field->at;

        switch (field->kind) {
        case KIND_BOOL:
            *(int32_t *)at = (int32_t)dice_below(dice, 2);
            break;
        case KIND_I32:
            *(int32_t *)at = (int32_t)draw_number(dice);
            break;
        case KIND_I64:
            *(int64_t *)at = draw_number(dice);
            break;
        case KIND_TEXT:
            *(char **)at = draw_text(dice, may_lack);
            break;
        case KIND_BUFFER:
            *(struct buffer *)at = draw_buffer(dice);
            break;
        case KIND_TEXTS:
            draw_texts(dice, at, may_lack);
            break;
        case KIND_ACLS:
            draw_acls(dice, at, may_lack);
            break;
        case KIND_STAT:
            *(struct Stat *)at = draw_stat(dice);
            break;
        case KIND_NONE:
            break;
        }
    }
}

/* --- written by us --- */

static void put_text(struct hf__jute_out *out, const char *text)
{
    if (text)
        hf__jute_put_text(out, text, strlen(text));
    else
        hf__jute_put_nothing(out);
}

static void put_stat(struct hf__jute_out *out, const struct Stat *stat)
{
    hf__jute_put_i64(out, stat->czxid);
    hf__jute_put_i64(out, stat->mzxid);
    hf__jute_put_i64(out, stat->ctime);
    hf__jute_put_i64(out, stat->mtime);
    hf__jute_put_i32(out, stat->version);
    hf__jute_put_i32(out, stat->cversion);
    hf__jute_put_i32(out, stat->aversion);
    hf__jute_put_i64(out, stat->ephemeralOwner);
    hf__jute_put_i32(out, stat->dataLength);
    hf__jute_put_i32(out, stat->numChildren);
    hf__jute_put_i64(out, stat->pzxid);
}

static void put_buffer(struct hf__jute_out *out, const struct buffer *buffer)
{
    if (buffer->len >= 0)
        hf__jute_put_text(out, buffer->buff, (size_t)buffer->len);
    else
        hf__jute_put_nothing(out);
}

static void put_texts(struct hf__jute_out *out, const struct String_vector *texts)
{
    hf__jute_put_i32(out, texts->count);
    for (int32_t i = 0; i < texts->count; i++)
        put_text(out, texts->data[i]);
}

static void put_acls(struct hf__jute_out *out, const struct ACL_vector *acls)
{
    hf__jute_put_i32(out, acls->count);
    for (int32_t i = 0; i < acls->count; i++) {
        hf__jute_put_i32(out, acls->data[i].perms);
        put_text(out, acls->data[i].id.scheme);
        put_text(out, acls->data[i].id.id);
    }
}

/* One packet. */
static void put(struct hf__jute_out *out, const struct record *record, const char *value)
{
    hf__jute_begin(out);
    for (const struct field *field = record->fields; field->kind != KIND_NONE; field++) {
        const void *at = value + field->at;

        switch (field->kind) {
        case KIND_BOOL:
            hf__jute_put_bool(out, *(const int32_t *)at != 0);
            break;
        case KIND_I32:
            hf__jute_put_i32(out, *(const int32_t *)at);
            break;
        case KIND_I64:
            hf__jute_put_i64(out, *(const int64_t *)at);
            break;
        case KIND_TEXT:
            put_text(out, *(char *const *)at);
            break;
        case KIND_BUFFER:
            put_buffer(out, at);
            break;
        case KIND_TEXTS:
            put_texts(out, at);
            break;
        case KIND_ACLS:
            put_acls(out, at);
            break;
        case KIND_STAT:
            put_stat(out, at);
            break;
        case KIND_NONE:
            break;
        }
    }
    hf__jute_end(out);
    CHECK_EQUAL(out->status, HF_OK);
}

/* --- read by us: whether it is the same, for a broken reader gives something else --- */

static bool is_text(struct hf__jute_reader *reader, const char *wanted, size_t count)
{
    struct hf__jute_text text = hf__jute_get_text(reader);

    if (!wanted)
        return text.is_absent && text.count == 0 && text.bytes;
    return !text.is_absent && text.count == count && memcmp(text.bytes, wanted, count) == 0;
}

static bool is_string(struct hf__jute_reader *reader, const char *wanted)
{
    return is_text(reader, wanted, wanted ? strlen(wanted) : 0);
}

static bool is_stat(struct hf__jute_reader *reader, const struct Stat *wanted)
{
    struct hf__jute_stat stat;

    hf__jute_get_stat(reader, &stat);
    return stat.czxid == wanted->czxid && stat.mzxid == wanted->mzxid &&
           stat.ctime == wanted->ctime && stat.mtime == wanted->mtime &&
           stat.version == wanted->version && stat.cversion == wanted->cversion &&
           stat.aversion == wanted->aversion && stat.ephemeral_owner == wanted->ephemeralOwner &&
           stat.data_length == wanted->dataLength && stat.num_children == wanted->numChildren &&
           stat.pzxid == wanted->pzxid;
}

static bool are_texts(struct hf__jute_reader *reader, const struct String_vector *wanted)
{
    size_t count = hf__jute_get_count(reader, 4);
    bool same = (int32_t)count == (wanted->count < 0 ? 0 : wanted->count);

    for (size_t i = 0; same && i < count; i++)
        same = is_string(reader, wanted->data[i]);
    return same;
}

static bool are_acls(struct hf__jute_reader *reader, const struct ACL_vector *wanted)
{
    size_t count = hf__jute_get_count(reader, 12);
    bool same = (int32_t)count == (wanted->count < 0 ? 0 : wanted->count);

    for (size_t i = 0; same && i < count; i++)
        same = hf__jute_get_i32(reader) == wanted->data[i].perms &&
               is_string(reader, wanted->data[i].id.scheme) &&
               is_string(reader, wanted->data[i].id.id);
    return same;
}

static bool is_field(struct hf__jute_reader *reader, enum kind kind, const void *at)
{
    const struct buffer *buffer = at;

    switch (kind) {
    case KIND_BOOL:
        return hf__jute_get_bool(reader) == (*(const int32_t *)at != 0);
    case KIND_I32:
        return hf__jute_get_i32(reader) == *(const int32_t *)at;
    case KIND_I64:
        return hf__jute_get_i64(reader) == *(const int64_t *)at;
    case KIND_TEXT:
        return is_string(reader, *(char *const *)at);
    case KIND_BUFFER:
        return is_text(reader, buffer->buff, buffer->len > 0 ? (size_t)buffer->len : 0);
    case KIND_TEXTS:
        return are_texts(reader, at);
    case KIND_ACLS:
        return are_acls(reader, at);
    case KIND_STAT:
        return is_stat(reader, at);
    case KIND_NONE:
        break;
    }
    return false;
}

/* All of the record and nothing behind it. */
static bool is_same(struct hf__jute_reader *reader, const struct record *record, const char *value)
{
    bool same = true;

    for (const struct field *field = record->fields; field->kind != KIND_NONE; field++)
        same = is_field(reader, field->kind, value + field->at) && same;
    return same && !reader->broken && reader->left == 0;
}

/* --- the laws --- */

/* What a law is given: a record, as both have written it. */
struct sample {
    const struct record *record;
    char *value;
    char *theirs;
    size_t their_bytes;
    const char *ours; /* with the length before it */
    size_t our_bytes;
};

typedef void law(const struct sample *sample, struct dice *dice);

static void try_one(const struct record *record, struct dice *dice, bool may_lack, law *holds)
{
    _Alignas(max_align_t) char value[RECORD_BYTES];
    struct sample sample = { .record = record, .value = value };
    struct oarchive *archive = create_buffer_oarchive();
    struct failing_env world;
    struct hf__jute_out out;

    CHECK(archive);
    failing_env_init(&world, 0);
    hf__jute_out_init(&out, &world.env);
    draw(dice, record, value, may_lack);
    CHECK_EQUAL(record->serialize(archive, value), 0);
    put(&out, record, value);
    sample.theirs = get_buffer(archive);
    sample.their_bytes = (size_t)get_buffer_len(archive);
    sample.ours = hf__buffer_front(&out.buffer);
    sample.our_bytes = hf__buffer_count(&out.buffer);
    holds(&sample, dice);
    record->deallocate(value);
    close_buffer_oarchive(&archive, 1);
    hf__jute_out_done(&out);
    CHECK_EQUAL(world.live, 0);
}

static void try_all(uint64_t seed, bool may_lack, law *holds)
{
    struct dice dice = { .state = seed };

    for (size_t i = 0; i < sizeof(records) / sizeof(*records); i++)
        for (int k = 0; k < SEEDS; k++)
            try_one(&records[i], &dice, may_lack, holds);
}

static void bytes_are_the_same(const struct sample *sample, struct dice *dice)
{
    struct hf__jute_reader length;

    (void)dice;
    hf__jute_read(&length, sample->ours, 4);
    if (sample->our_bytes != 4 + sample->their_bytes ||
        memcmp(sample->ours + 4, sample->theirs, sample->their_bytes) != 0)
        fail_msg("%s: other bytes", sample->record->name);
    CHECK_EQUAL(hf__jute_get_i32(&length), sample->their_bytes);
}

TEST(jute_oracle, our_bytes_are_theirs)
{
    try_all(40, true, bytes_are_the_same);
}

/* As a packet, in two pieces. */
static void fields_are_the_same(const struct sample *sample, struct dice *dice)
{
    size_t cut = dice_below(dice, sample->their_bytes + 1);
    uint32_t length = __builtin_bswap32((uint32_t)sample->their_bytes);
    char error[HF__ERROR_BYTES] = "";
    struct hf__jute_reader reader;
    struct failing_env world;
    struct hf__jute_in in;

    failing_env_init(&world, 0);
    hf__jute_in_init(&in, &world.env);
    CHECK_EQUAL(hf__buffer_append(&in.buffer, &length, 4), HF_OK);
    CHECK_EQUAL(hf__buffer_append(&in.buffer, sample->theirs, cut), HF_OK);
    if (cut < sample->their_bytes)
        CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 0);
    CHECK_EQUAL(hf__buffer_append(&in.buffer, sample->theirs + cut, sample->their_bytes - cut),
                HF_OK);
    CHECK_EQUAL(hf__jute_in_next(&in, &reader, error), 1);
    CHECK_EQUAL(reader.left, sample->their_bytes);
    if (!is_same(&reader, sample->record, sample->value))
        fail_msg("%s: other fields", sample->record->name);
    hf__jute_in_done(&in);
    CHECK_EQUAL(world.live, 0);
}

TEST(jute_oracle, their_fields_are_ours)
{
    try_all(41, true, fields_are_the_same);
}

/* What they make of our bytes, they write as the same bytes again. */
static void they_understand(const struct sample *sample, struct dice *dice)
{
    _Alignas(max_align_t) char value[RECORD_BYTES] = { 0 };
    int bytes = (int)sample->our_bytes - 4;
    char *ours = malloc(sample->our_bytes);
    struct oarchive *out = create_buffer_oarchive();
    struct iarchive *in;

    (void)dice;
    CHECK(ours && out);
    memcpy(ours, sample->ours + 4, (size_t)bytes);
    in = create_buffer_iarchive(ours, bytes);
    CHECK(in);
    CHECK_EQUAL(sample->record->deserialize(in, value), 0);
    CHECK_EQUAL(sample->record->serialize(out, value), 0);
    CHECK_EQUAL(get_buffer_len(out), bytes);
    CHECK(memcmp(get_buffer(out), ours, (size_t)bytes) == 0);
    sample->record->deallocate(value);
    close_buffer_iarchive(&in);
    close_buffer_oarchive(&out, 1);
    free(ours);
}

TEST(jute_oracle, they_read_what_we_wrote)
{
    try_all(42, false, they_understand);
}

/* Of a vector whose end is not there, theirs says that all is well. */
static bool has_vector(const struct record *record)
{
    const struct field *field = record->fields;

    while (field->kind != KIND_NONE && field->kind != KIND_TEXTS && field->kind != KIND_ACLS)
        field++;
    return field->kind != KIND_NONE;
}

static void both_refuse_a_part(const struct sample *sample, struct dice *dice)
{
    size_t cut = dice_below(dice, sample->their_bytes);
    struct hf__jute_reader reader;

    hf__jute_read(&reader, sample->theirs, cut);
    (void)is_same(&reader, sample->record, sample->value);
    if (!reader.broken)
        fail_msg("%s: %zu of %zu bytes are enough", sample->record->name, cut, sample->their_bytes);
    if (!has_vector(sample->record)) {
        _Alignas(max_align_t) char value[RECORD_BYTES] = { 0 };
        struct iarchive *in = create_buffer_iarchive(sample->theirs, (int)cut);

        CHECK(in);
        CHECK(sample->record->deserialize(in, value) != 0);
        sample->record->deallocate(value);
        close_buffer_iarchive(&in);
    }
}

TEST(jute_oracle, what_is_cut_off_is_refused_by_both)
{
    try_all(43, false, both_refuse_a_part);
}
