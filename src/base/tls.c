/* tls.c: how do bytes pass a socket so that only the right server can read them?
 *
 * A context is made from the files that the URL names. On each socket the handshake is gone through
 * (TLS 1.2 at least; the server's certificate checked against the authorities and against the name
 * that was asked for; our own shown if there is one), then bytes are read and written. OpenSSL
 * reaches the socket by a BIO of ours, for its own would write without MSG_NOSIGNAL, and whoever
 * uses the library would have to do without SIGPIPE. The BIO takes whatever it is given: what the
 * socket does not take waits in a buffer behind it. So no write of OpenSSL's is ever left half
 * done; a server that asks for new keys in that moment breaks OpenSSL 3.0's connection, for its
 * answer may not pass the record that waits ("bad length").
 *
 * What can go wrong is told by tls_text.c. A server that asks for new keys without end and reads
 * nothing would fill the buffer: nothing more is read until it has room. Renegotiation is refused.
 * A connection that breaks while we write may still hold what the server said last, its reason
 * perhaps: reading decides what became of it, and only the second write in vain is a failure.
 * OpenSSL judges by what lies in the thread's queue of errors, so that is emptied before each call.
 * It would clean itself up in exit(), under the feet of a keeper thread that still works: it is
 * told not to.
 *
 * Memory is OpenSSL's own, but for the struct and the buffer. Nothing here is global. */
#include "base/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/text.h"
#include "base/tls_text.h"
#include "holdfast/holdfast.h"

#define ADDRESS_BYTES      64
#define HOST_BYTES         256
#define PROTOCOL_BYTES_MAX 32
#define RECORD_BYTES_MAX   SSL3_RT_MAX_PLAIN_LENGTH
#define WAITING_BYTES_MAX  (256 * 1024) /* for the socket: a flight of a handshake, or a record */
#define WAITING_BYTES_READ (64 * 1024)  /* with more of them, nothing is read */

struct hf__tls {
    const struct hf__env *env;
    struct hf__tls_options options;
    SSL_CTX *context;
    BIO_METHOD *method;
    SSL *ssl; /* NULL until the first start */
    int fd;
    struct hf__tls_wire wire;
    struct hf__buffer waiting; /* encrypted, and not yet taken by the socket */
    bool is_agreed;
    bool is_broken;
    bool write_has_failed;
    bool is_dry; /* the last read found that the socket must speak first */
    bool passphrase_was_asked;
};

/* --- The socket, as OpenSSL sees it --- */

static int receive(BIO *bio, char *buffer, int buffer_bytes)
{
    struct hf__tls *tls = BIO_get_data(bio);
    ssize_t got = recv(tls->fd, buffer, (size_t)buffer_bytes, 0);

    BIO_clear_retry_flags(bio);
    if (got > 0) {
        hf__tls_text_hear(&tls->wire, buffer, (size_t)got);
        return (int)got;
    }
    if (got == 0)
        tls->wire.has_ended = true;
    else if (errno == EAGAIN || errno == EINTR)
        BIO_set_retry_read(bio);
    else
        tls->wire.failure = errno;
    return (int)got;
}

/* What the socket takes of these, or -1: it is broken. Others than those of a connection that is
 * over will not be told again by reading, so they are noted. */
static ssize_t send_some(struct hf__tls *tls, const void *bytes, size_t count)
{
    ssize_t sent = send(tls->fd, bytes, count, MSG_NOSIGNAL);

    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    if (errno != EPIPE && errno != ECONNRESET)
        tls->wire.failure = errno;
    return -1;
}

/* As send_some, of what waits. */
static ssize_t flush(struct hf__tls *tls)
{
    size_t count = hf__buffer_count(&tls->waiting);
    ssize_t sent;

    if (count == 0)
        return 0;
    sent = send_some(tls, hf__buffer_front(&tls->waiting), count);
    if (sent > 0)
        hf__buffer_consume(&tls->waiting, (size_t)sent);
    return sent;
}

/* Takes all, or fails for want of memory. A broken socket is found out by who flushes or reads. */
static int transmit(BIO *bio, const char *bytes, int count)
{
    struct hf__tls *tls = BIO_get_data(bio);
    ssize_t sent = 0;

    BIO_clear_retry_flags(bio);
    if (hf__buffer_count(&tls->waiting) == 0)
        sent = send_some(tls, bytes, (size_t)count);
    if (sent < 0)
        sent = 0;
    if (hf__buffer_append(&tls->waiting, bytes + sent, (size_t)(count - sent)) == HF_OK)
        return count;
    tls->wire.failure = ENOBUFS;
    return -1;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0; /* nothing is held back, and nothing else is known */
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast socket");

    if (!method)
        return NULL;
    if (BIO_meth_set_read(method, receive) && BIO_meth_set_write(method, transmit) &&
        BIO_meth_set_ctrl(method, control))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* --- The context --- */

/* OpenSSL's own would ask on the terminal. */
static int refuse_passphrase(char *buffer, int buffer_bytes, int writes, void *asked)
{
    (void)buffer;
    (void)buffer_bytes;
    (void)writes;
    *(bool *)asked = true;
    return -1;
}

static int load_authorities(struct hf__tls *tls, char *error)
{
    char reason[HF__ERROR_BYTES];

    ERR_clear_error();
    if (!tls->options.ca) {
        if (SSL_CTX_set_default_verify_paths(tls->context) != 1)
            return hf__error_set(error, HF_ESYSTEM, "the system's certificates: %s",
                                 hf__tls_text_reason(reason));
        return HF_OK;
    }
    if (SSL_CTX_load_verify_file(tls->context, tls->options.ca) != 1)
        return hf__error_set(error, HF_EURL, "ca: '%s': %s", tls->options.ca,
                             hf__tls_text_reason(reason));
    return HF_OK;
}

static int load_own_certificate(struct hf__tls *tls, char *error)
{
    const struct hf__tls_options *options = &tls->options;
    char reason[HF__ERROR_BYTES];

    if (!options->cert)
        return HF_OK;
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(tls->context, options->cert) != 1)
        return hf__error_set(error, HF_EURL, "cert: '%s': %s", options->cert,
                             hf__tls_text_reason(reason));
    SSL_CTX_set_default_passwd_cb(tls->context, refuse_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(tls->context, &tls->passphrase_was_asked);
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(tls->context, options->cert_key, SSL_FILETYPE_PEM) == 1)
        return HF_OK;
    return hf__error_set(error, HF_EURL, "cert_key: '%s': %s", options->cert_key,
                         tls->passphrase_was_asked
                             ? "it is encrypted, and there is no way to give its passphrase"
                             : hf__tls_text_reason(reason));
}

static int make_context(struct hf__tls *tls, char *error)
{
    int status;

    ERR_clear_error();
    /* Who began with OpenSSL before us has decided already, and this changes nothing. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return hf__error_set(error, HF_ESYSTEM, "OpenSSL does not start");
    tls->method = make_method();
    tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls->method || !tls->context)
        return hf__error_set(error, HF_ENOMEM, "TLS: out of memory");

    if (SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1)
        return hf__error_set(error, HF_ESYSTEM, "OpenSSL knows no TLS 1.2");
    (void)SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_read_ahead(tls->context, 1); /* a record by one system call, not by two */
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);

    status = load_authorities(tls, error);
    return status < 0 ? status : load_own_certificate(tls, error);
}

int hf__tls_new(const struct hf__env *env, const struct hf__tls_options *options,
                struct hf__tls **out_tls, char error[HF__ERROR_BYTES])
{
    struct hf__tls *tls;
    int status;

    assert(env && options && options->host && out_tls);
    assert(!options->cert == !options->cert_key);

    tls = hf__env_new(env, sizeof(*tls));
    if (!tls)
        return hf__error_set(error, HF_ENOMEM, "TLS: out of memory");
    tls->env = env;
    tls->options = *options;
    tls->fd = -1;
    hf__buffer_init(&tls->waiting, env, WAITING_BYTES_MAX);
    status = make_context(tls, error);
    if (status < 0) {
        hf__tls_free(tls);
        return status;
    }
    *out_tls = tls;
    return HF_OK;
}

void hf__tls_free(struct hf__tls *tls)
{
    if (!tls)
        return;
    ERR_clear_error();
    if (tls->is_agreed && !tls->is_broken)
        (void)SSL_shutdown(tls->ssl); /* says goodbye if there is room for it; waits for nothing */
    if (tls->is_agreed)
        (void)flush(tls);
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    ERR_clear_error();
    hf__buffer_done(&tls->waiting);
    hf__env_free(tls->env, tls);
}

/* --- A connection --- */

/* The certificate must be for this name, or for this address. */
static bool set_host(const struct hf__tls *tls)
{
    char address[ADDRESS_BYTES];
    char name[HOST_BYTES]; /* OpenSSL's macro would cast the const away */
    uint8_t bytes[sizeof(struct in6_addr)];
    bool fits = hf__text_copy(address, sizeof(address), tls->options.host);

    address[strcspn(address, "%")] = '\0'; /* the zone of fe80::1%eth0 is ours, not the server's */
    if (fits &&
        (inet_pton(AF_INET, address, bytes) == 1 || inet_pton(AF_INET6, address, bytes) == 1))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), address) == 1;

    SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return hf__text_copy(name, sizeof(name), tls->options.host) &&
           SSL_set1_host(tls->ssl, name) == 1 && SSL_set_tlsext_host_name(tls->ssl, name) == 1;
}

static bool set_protocol(const struct hf__tls *tls)
{
    unsigned char list[1 + PROTOCOL_BYTES_MAX];
    size_t bytes = tls->options.protocol ? strlen(tls->options.protocol) : 0;

    assert(bytes <= PROTOCOL_BYTES_MAX);

    if (bytes == 0)
        return true;
    list[0] = (unsigned char)bytes;
    memcpy(list + 1, tls->options.protocol, bytes);
    return SSL_set_alpn_protos(tls->ssl, list, (unsigned)bytes + 1) == 0;
}

int hf__tls_start(struct hf__tls *tls, int fd, char error[HF__ERROR_BYTES])
{
    BIO *bio;

    assert(tls && tls->context && !tls->is_agreed);
    assert(fd >= 0);

    SSL_free(tls->ssl);
    tls->fd = fd;
    tls->wire = (struct hf__tls_wire){ .failure = 0 };
    tls->write_has_failed = false;
    tls->is_broken = false;
    hf__buffer_done(&tls->waiting);
    ERR_clear_error();
    tls->ssl = SSL_new(tls->context);
    bio = tls->ssl ? BIO_new(tls->method) : NULL;
    if (!bio)
        return hf__error_set(error, HF_ENOMEM, "TLS: out of memory");
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio); /* which owns it now */
    if (!set_host(tls) || !set_protocol(tls))
        return hf__error_set(error, HF_ENOMEM, "TLS: '%s' cannot be asked for", tls->options.host);
    return HF_OK;
}

/* 0: the socket must speak first; or a failure. */
static int judge(struct hf__tls *tls, int answer, char *error)
{
    struct hf__tls_failure failure = {
        .ssl = tls->ssl,
        .code = SSL_get_error(tls->ssl, answer),
        .wire = &tls->wire,
        .host = tls->options.host,
        .is_agreed = tls->is_agreed,
        .has_own_certificate = tls->options.cert != NULL,
    };

    if (failure.code == SSL_ERROR_WANT_READ)
        return 0;
    tls->is_broken = true;
    return hf__tls_text_explain(&failure, error);
}

static int check_protocol(const struct hf__tls *tls, char *error)
{
    const char *wanted = tls->options.protocol;
    const unsigned char *chosen = NULL;
    unsigned bytes = 0;

    if (!wanted)
        return 1;
    SSL_get0_alpn_selected(tls->ssl, &chosen, &bytes);
    if (bytes == strlen(wanted) && memcmp(chosen, wanted, bytes) == 0)
        return 1;
    return hf__error_set(error, HF_EPROTOCOL, "the server does not offer %s by TLS", wanted);
}

int hf__tls_shake(struct hf__tls *tls, char error[HF__ERROR_BYTES])
{
    int answer;

    assert(tls && tls->ssl);
    assert(!tls->is_agreed && !tls->is_broken);

    (void)flush(tls);
    ERR_clear_error();
    answer = SSL_connect(tls->ssl);
    if (answer != 1)
        return judge(tls, answer, error);
    tls->is_agreed = true;
    return check_protocol(tls, error);
}

ssize_t hf__tls_read(struct hf__tls *tls, void *buffer, size_t buffer_bytes,
                     char error[HF__ERROR_BYTES])
{
    size_t got = 0;
    int answer;

    assert(tls && tls->is_agreed && !tls->is_broken);
    assert(buffer && buffer_bytes > 0);

    if (flush(tls) >= 0 && hf__buffer_count(&tls->waiting) > WAITING_BYTES_READ)
        return 0;
    ERR_clear_error();
    answer = SSL_read_ex(tls->ssl, buffer, buffer_bytes, &got);
    tls->is_dry = answer != 1;
    return answer == 1 ? (ssize_t)got : judge(tls, answer, error);
}

/* One record at most, and only when nothing waits: so little is ever taken that is not sent. */
ssize_t hf__tls_write(struct hf__tls *tls, const void *bytes, size_t count,
                      char error[HF__ERROR_BYTES])
{
    size_t sent = 0;
    int answer;

    assert(tls && tls->is_agreed && !tls->is_broken);
    assert(bytes && count > 0);

    if (flush(tls) < 0) {
        int number = errno;

        tls->is_broken = tls->write_has_failed;
        tls->write_has_failed = true;
        if (tls->is_broken)
            return hf__error_set(error, HF_EUNREACHABLE, "%s", strerror(number));
    }
    if (hf__buffer_count(&tls->waiting) > 0)
        return 0;
    ERR_clear_error();
    answer =
        SSL_write_ex(tls->ssl, bytes, count < RECORD_BYTES_MAX ? count : RECORD_BYTES_MAX, &sent);
    return answer == 1 ? (ssize_t)sent : judge(tls, answer, error);
}

short hf__tls_events(const struct hf__tls *tls, bool wants_write)
{
    size_t waiting;
    int events = 0;

    assert(tls && tls->ssl);

    waiting = hf__buffer_count(&tls->waiting);
    if (waiting <= WAITING_BYTES_READ)
        events |= POLLIN;
    if (waiting > 0 || wants_write)
        events |= POLLOUT;
    return (short)events;
}

/* As long as the last read went through there may be more; a record that is there only in part is
 * not counted twice, for the next read will wait for the rest of it. */
bool hf__tls_has_bytes(const struct hf__tls *tls)
{
    assert(tls && tls->ssl);

    return tls->is_agreed && !tls->is_dry &&
           hf__buffer_count(&tls->waiting) <= WAITING_BYTES_READ && SSL_has_pending(tls->ssl) == 1;
}
