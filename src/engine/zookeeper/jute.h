/* jute.h: the bytes of the ZooKeeper protocol: packets out, packets in.
 *
 * A packet is a length and a record; all numbers are big-endian. Out:
 *
 *     hf__jute_begin(&out);
 *     hf__jute_put_i32(&out, xid);
 *     hf__jute_put_i32(&out, HF__OPCODE_DELETE);
 *     hf__jute_put_text(&out, path, strlen(path));
 *     hf__jute_put_i32(&out, -1);
 *     hf__jute_end(&out);                                     out.status says whether all fitted
 *
 * In: a reader walks over one packet. Whatever lacks, or is longer than what is left, makes it
 * `broken`, and every answer from then on is 0 or empty: it is enough to look once, at the end. */
#ifndef HF_ENGINE_ZOOKEEPER_JUTE_H
#define HF_ENGINE_ZOOKEEPER_JUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Of one packet from a server: the names of 29 000 who stand in one line. ZooKeeper's own clients
 * take half of it (jute.maxbuffer). It is what fits, with a read behind it, into a buffer of 2 MiB:
 * with the next size, what a server can have us keep is beyond 8 MiB, of which much is memory that
 * was given back, and that the C library holds on to. */
#define HF__JUTE_BYTES_MAX (30u << 16)
#define HF__JUTE_OUT_MAX   (64u << 20)

/* --- out --- */

/* Packets that are to be sent. Once memory has run out in the middle of one, nothing more can. */
struct hf__jute_out {
    struct hf__buffer buffer;
    size_t packet_bytes; /* of the one that was begun, with its length */
    int status;
};

void hf__jute_out_init(struct hf__jute_out *out, const struct hf__env *env);
void hf__jute_out_done(struct hf__jute_out *out);
void hf__jute_begin(struct hf__jute_out *out);
void hf__jute_put_bool(struct hf__jute_out *out, bool value);
void hf__jute_put_i32(struct hf__jute_out *out, int32_t value);
void hf__jute_put_i64(struct hf__jute_out *out, int64_t value);
/* A text or a buffer: its length, then the bytes. */
void hf__jute_put_text(struct hf__jute_out *out, const char *bytes, size_t count);
void hf__jute_put_nothing(struct hf__jute_out *out); /* a buffer that is not there: length -1 */
void hf__jute_end(struct hf__jute_out *out);         /* writes the length at its front */

/* --- in --- */

struct hf__jute_in {
    struct hf__buffer buffer;
    size_t taken; /* the packet that was handed out last: it goes with the next call */
};

/* A piece of a packet: not terminated; lives as long as the packet. */
struct hf__jute_text {
    const char *bytes; /* never NULL */
    size_t count;
    bool is_absent; /* its length was -1 */
};

struct hf__jute_reader {
    const uint8_t *at;
    size_t left;
    bool broken;
};

/* As the server keeps it of a node. */
struct hf__jute_stat {
    int64_t czxid;
    int64_t mzxid;
    int64_t ctime;
    int64_t mtime;
    int32_t version;
    int32_t cversion;
    int32_t aversion;
    int64_t ephemeral_owner;
    int32_t data_length;
    int32_t num_children;
    int64_t pzxid;
};

void hf__jute_in_init(struct hf__jute_in *in, const struct hf__env *env);
void hf__jute_in_done(struct hf__jute_in *in);
/* 1: a whole packet, which lives until the next call; 0: not yet; < 0: HF_EPROTOCOL, with why: a
 * length below 0 or above the limit. Nothing is allocated for what was only announced. */
int hf__jute_in_next(struct hf__jute_in *in, struct hf__jute_reader *out_packet,
                     char error[HF__ERROR_BYTES]);

void hf__jute_read(struct hf__jute_reader *reader, const void *bytes, size_t count);
bool hf__jute_get_bool(struct hf__jute_reader *reader);
int32_t hf__jute_get_i32(struct hf__jute_reader *reader);
int64_t hf__jute_get_i64(struct hf__jute_reader *reader);
struct hf__jute_text hf__jute_get_text(struct hf__jute_reader *reader);
void hf__jute_get_stat(struct hf__jute_reader *reader, struct hf__jute_stat *out_stat);
/* How many elements follow, of at least `bytes_min` each (> 0); 0 for -1; broken if so many cannot
 * follow. */
size_t hf__jute_get_count(struct hf__jute_reader *reader, size_t bytes_min);

#endif
