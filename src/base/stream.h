/* stream.h: bytes to and from one server: a TCP or Unix socket, perhaps with TLS on it.
 *
 * Never blocks, but for listen(). A name is resolved, each of its addresses tried, and TLS agreed
 * upon, all inside hf__stream_advance(); then bytes pass. The only time that it sees is the one it
 * is handed. */
#ifndef HF_BASE_STREAM_H
#define HF_BASE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/env.h"
#include "base/error.h"
#include "base/pollset.h"
#include "base/url.h"

#define HF__LISTEN_BYTES 4096

struct hf__stream; /* made by open, freed by close */

enum hf__stream_state {
    HF__STREAM_CONNECTING,
    HF__STREAM_UP,
    HF__STREAM_DOWN, /* the error says why; only close() is left to do */
};

struct hf__stream_options {
    const struct hf__env *env;
    const struct hf__url *url; /* borrowed until close(): options socket, tls, ca, cert, cert_key */
    size_t server;             /* index into url->servers; its host is also the name that TLS
                                * verifies, and with `socket` only that */
    uint16_t port;             /* where the URL gives none */
    bool tls;                  /* false: tls=verify, ca, cert and cert_key are HF_EURL */
    bool tls_later;            /* it comes up without, until hf__stream_secure() */
    const char *protocol;      /* that TLS must agree upon (ALPN): "h2"; NULL: none; static text */
    uint64_t now_ns;
    uint64_t deadline_ns; /* not up by then: it is down, HF_EUNREACHABLE */
};

/* HF_OK with a stream that is connecting (or up, or already down); HF_ENOMEM; HF_EURL: a
 * certificate file that cannot be read, options that contradict each other; HF_ESYSTEM: no
 * descriptor; HF_EUNSUPPORTED: TLS, in a build without it. The text names the value that was
 * wrong. */
int hf__stream_open(const struct hf__stream_options *options, struct hf__stream **out_stream,
                    char error[HF__ERROR_BYTES]);
/* Accepts NULL. A resolver that is still at work ends by itself, and touches nothing of ours. */
void hf__stream_close(struct hf__stream *stream);

/* Goes on connecting. */
enum hf__stream_state hf__stream_advance(struct hf__stream *stream, uint64_t now_ns);

/* With tls_later, while UP: both sides have agreed to go on in TLS. It is CONNECTING again. */
void hf__stream_secure(struct hf__stream *stream);

/* HF_EUNREACHABLE (refused, no such host, timed out, reset, ended), HF_EDENIED (the certificate is
 * not trusted, or not for this name, or ours is not; no right to the Unix socket), HF_EPROTOCOL
 * (not TLS at all), HF_ENOMEM, HF_ESYSTEM (no descriptor); and the text: "10.0.0.1:6379: Connection
 * refused". Only once DOWN. */
int hf__stream_error(const struct hf__stream *stream, char error[HF__ERROR_BYTES]);

/* Bytes moved; 0: not now (poll); -1: it is DOWN. Only while UP. An orderly end by the peer is DOWN
 * with "closed by the server".
 *
 * A write that finds the connection broken answers 0 the first time, so that read() can still fetch
 * what the server said before it hung up: read before giving up. */
ssize_t hf__stream_read(struct hf__stream *stream, void *buffer, size_t buffer_bytes);
ssize_t hf__stream_write(struct hf__stream *stream, const void *bytes, size_t count);

/* Instead of poll() and read(): a descriptor from which a thread may read with listen(), while
 * nobody else reads or closes; -1: none (TLS). Only while UP. */
int hf__stream_listener(const struct hf__stream *stream);
/* Blocks until bytes come, for a few ms at the most. 0: none; read() tells why. */
size_t hf__stream_listen(int fd, char out_bytes[HF__LISTEN_BYTES]);
/* Whoever listens comes back at once, and nothing more can be sent. */
void hf__stream_hush(const struct hf__stream *stream);

/* Where the system can do that, poll() tells of no fewer bytes than so many, or of the end. With
 * TLS, or once DOWN, it changes nothing. */
void hf__stream_wait_for(const struct hf__stream *stream, int bytes);

/* What must happen before going on makes sense; `wants_write`: there are bytes that write() did not
 * take. Whenever one of it happens, read(): TLS may have to write in order to read. Bytes that TLS
 * has decrypted but nobody has read set the deadline to 0. false: the set is full. */
bool hf__stream_pollset(const struct hf__stream *stream, bool wants_write, struct hf__pollset *set);

/* The CPU that the peer ran on when it last sent; -1: on another machine, or not known. */
int hf__stream_peer_cpu(const struct hf__stream *stream);

/* "10.0.0.1:6379" or the path of the Unix socket, of the address being tried or in use; "host:port"
 * before there is one. */
const char *hf__stream_peer(const struct hf__stream *stream);

#endif
