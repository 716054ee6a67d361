/* server_tls.c: the server's end of TLS, written through memory so that the bytes can be meddled
 * with. */
#include "server_tls.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct server_tls_end {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in;
    BIO *out;
};

/* Sends what OpenSSL wants sent. */
static bool flush(struct server *server)
{
    char bytes[16384];
    int count = BIO_read(server->end->out, bytes, sizeof(bytes));

    while (count > 0) {
        if (!server_send(server, bytes, (size_t)count))
            return false;
        count = BIO_read(server->end->out, bytes, sizeof(bytes));
    }
    return true;
}

/* 1: bytes came; 0: the client ended it; -1: broken. */
static int fill(struct server *server)
{
    char bytes[16384];
    ssize_t got = recv(server->fd, bytes, sizeof(bytes), 0);

    if (got > 0)
        (void)BIO_write(server->end->in, bytes, (int)got);
    return got > 0 ? 1 : (int)got;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
                           const unsigned char *offered, unsigned offered_bytes, void *context)
{
    const struct server *server = context;
    unsigned char list[64];
    size_t bytes = strlen(server->manner.protocol);
    unsigned char *chosen = NULL;

    (void)ssl;
    list[0] = (unsigned char)bytes;
    memcpy(list + 1, server->manner.protocol, bytes);
    if (SSL_select_next_proto(&chosen, out_bytes, list, (unsigned)bytes + 1, offered,
                              offered_bytes) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    for (unsigned i = 0; i < offered_bytes; i++) { /* must point into what was offered */
        if (memcmp(offered + i, chosen, *out_bytes) == 0) {
            *out = offered + i;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_NOACK;
}

static SSL_CTX *make_context(struct server *server)
{
    const struct server_manner *manner = &server->manner;
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    char path[CERTIFICATES_PATH_BYTES];
    int good;

    assert(context);
    certificates_path(manner->certificate, "pem", path);
    good = SSL_CTX_use_certificate_chain_file(context, path);
    certificates_path(manner->certificate, "key", path);
    good &= SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
    if (manner->tls == SERVER_TLS_1_2)
        good &= (int)SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    if (manner->wants_certificate) {
        certificates_path("authority", "pem", path);
        good &= SSL_CTX_load_verify_file(context, path);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    if (manner->protocol)
        SSL_CTX_set_alpn_select_cb(context, choose_protocol, server);
    assert(good == 1);
    (void)good;
    return context;
}

bool server_tls_begin(struct server *server)
{
    struct server_tls_end *end = calloc(1, sizeof(*end));
    const char *host;
    int answer;

    assert(end);
    server->end = end;
    end->context = make_context(server);
    end->ssl = SSL_new(end->context);
    end->in = BIO_new(BIO_s_mem());
    end->out = BIO_new(BIO_s_mem());
    assert(end->ssl && end->in && end->out);
    SSL_set_bio(end->ssl, end->in, end->out);

    ERR_clear_error();
    answer = SSL_accept(end->ssl);
    while (answer != 1) {
        bool wants_more = SSL_get_error(end->ssl, answer) == SSL_ERROR_WANT_READ;

        if (!flush(server) || !wants_more || fill(server) <= 0)
            return false;
        ERR_clear_error();
        answer = SSL_accept(end->ssl);
    }
    host = SSL_get_servername(end->ssl, TLSEXT_NAMETYPE_host_name);
    (void)snprintf(server->asked_host, sizeof(server->asked_host), "%s", host ? host : "");
    if (!flush(server))
        return false;
    atomic_fetch_add(&server->agreed, 1);
    return true;
}

void server_tls_end(struct server *server)
{
    if (!server->end)
        return;
    SSL_free(server->end->ssl);
    SSL_CTX_free(server->end->context);
    free(server->end);
    server->end = NULL;
}

ssize_t server_tls_read(struct server *server, void *buffer, size_t buffer_bytes)
{
    struct server_tls_end *end = server->end;
    size_t got = 0;

    ERR_clear_error();
    while (SSL_read_ex(end->ssl, buffer, buffer_bytes, &got) != 1) {
        int code = SSL_get_error(end->ssl, 0);

        if (code == SSL_ERROR_ZERO_RETURN)
            return 0;
        if (code != SSL_ERROR_WANT_READ || !flush(server) || fill(server) <= 0)
            return -1;
        ERR_clear_error();
    }
    return (ssize_t)got;
}

bool server_tls_write(struct server *server, const void *bytes, size_t count)
{
    size_t sent = 0;

    ERR_clear_error();
    if (SSL_write_ex(server->end->ssl, bytes, count, &sent) != 1)
        return false;
    return flush(server);
}

void server_tls_ask_anew(struct server *server)
{
    if (SSL_version(server->end->ssl) == TLS1_3_VERSION)
        (void)SSL_key_update(server->end->ssl, SSL_KEY_UPDATE_REQUESTED);
}
