/* tls_text.c: why did a TLS connection fail, and what is to be done about it?
 *
 * The order of the questions matters, for one cause has many traces. First the certificate that we
 * refused ourselves (HF_EDENIED, with what was wrong about it); then whether what came was TLS at
 * all (HF_EPROTOCOL: by its first bytes, not by where in the parser they were noticed); then the
 * socket: reset or ended (HF_EUNREACHABLE: try again); then the alert in which the server says
 * what it did not like about us (HF_EDENIED); and for the rest, OpenSSL's own words.
 *
 * Reads OpenSSL's queue of errors; no I/O, no allocation. */
#include "base/tls_text.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <string.h>

#include "base/text.h"
#include "holdfast/holdfast.h"

/* A TLS record: its type, and the greater half of its version (RFC 8446, section 5.1). */
#define RECORD_TYPE_MIN 20
#define RECORD_TYPE_MAX 24
#define RECORD_VERSION  3

void hf__tls_text_hear(struct hf__tls_wire *wire, const void *bytes, size_t count)
{
    size_t left = sizeof(wire->opening) - wire->opening_bytes;
    size_t part = count < left ? count : left;

    if (part == 0)
        return;
    memcpy(wire->opening + wire->opening_bytes, bytes, part);
    wire->opening_bytes += part;
}

const char *hf__tls_text_reason(char reason[HF__ERROR_BYTES])
{
    unsigned long number = ERR_peek_error();
    const char *text;

    assert(reason);

    if (ERR_SYSTEM_ERROR(number))
        text = strerror(ERR_GET_REASON(number));
    else
        text = ERR_reason_error_string(number);
    (void)hf__text_copy(reason, HF__ERROR_BYTES, text ? text : "unknown reason");
    return reason;
}

static bool was_tls(const struct hf__tls_wire *wire)
{
    if (wire->opening_bytes > 0 &&
        (wire->opening[0] < RECORD_TYPE_MIN || wire->opening[0] > RECORD_TYPE_MAX))
        return false;
    return wire->opening_bytes < 2 || wire->opening[1] == RECORD_VERSION;
}

/* clang-format off */
static const struct {
    long result;
    const char *text;
} doubts[] = {
    { X509_V_ERR_CERT_HAS_EXPIRED,   "has expired" },
    { X509_V_ERR_CERT_NOT_YET_VALID, "is not valid yet" },
    { X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "is self-signed, and not one that is trusted (ca)" },
    { X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,         "is by nobody that is trusted (ca)" },
    { X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,         "is by nobody that is trusted (ca)" },
    { X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "is by nobody that is trusted (ca)" },
    { X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,   "is by nobody that is trusted (ca)" },
};

/* What a server says about a certificate of ours that it did not like, or that it missed. */
static const int refusals[] = {
    SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,     SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
    SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
    SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, SSL_R_TLSV1_ALERT_UNKNOWN_CA,
    SSL_R_TLSV1_ALERT_ACCESS_DENIED,       SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
    SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, /* so TLS 1.2 says it, and also for other reasons */
};
/* clang-format on */

static int explain_certificate(const struct hf__tls_failure *failure, char *error)
{
    long result = SSL_get_verify_result(failure->ssl);

    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return hf__error_set(error, HF_EDENIED, "the server's certificate is not for '%s'",
                             failure->host);
    for (size_t i = 0; i < sizeof(doubts) / sizeof(*doubts); i++) {
        if (doubts[i].result == result)
            return hf__error_set(error, HF_EDENIED, "the server's certificate %s", doubts[i].text);
    }
    return hf__error_set(error, HF_EDENIED, "the server's certificate: %s",
                         X509_verify_cert_error_string(result));
}

/* 0: it is none of the alerts that are about us. */
static int explain_alert(const struct hf__tls_failure *failure, int reason, char *error)
{
    const char *hint = "";
    char words[HF__ERROR_BYTES];

    if (!failure->has_own_certificate)
        hint = reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE
                   ? "; perhaps it wants a certificate of ours (cert, cert_key)"
                   : "; it wants a certificate of ours (cert, cert_key)";
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        if (refusals[i] == reason)
            return hf__error_set(error, HF_EDENIED, "the server refused us: %s%s",
                                 hf__tls_text_reason(words), hint);
    }
    return 0;
}

int hf__tls_text_explain(const struct hf__tls_failure *failure, char error[HF__ERROR_BYTES])
{
    const char *where = failure->is_agreed ? "" : " during the TLS handshake";
    unsigned long number = ERR_peek_error();
    int reason = ERR_GET_LIB(number) == ERR_LIB_SSL ? ERR_GET_REASON(number) : 0;
    char words[HF__ERROR_BYTES];
    int status;

    assert(failure->ssl && failure->wire && failure->host);
    assert(failure->code != SSL_ERROR_NONE);

    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return explain_certificate(failure, error);
    if (!was_tls(failure->wire))
        return hf__error_set(error, HF_EPROTOCOL, "the server does not speak TLS");
    if (failure->wire->failure)
        return hf__error_set(error, HF_EUNREACHABLE, "%s%s", strerror(failure->wire->failure),
                             where);
    if (failure->wire->has_ended || failure->code == SSL_ERROR_ZERO_RETURN)
        return hf__error_set(error, HF_EUNREACHABLE, "closed by the server%s", where);
    if (ERR_GET_REASON(number) == ERR_R_MALLOC_FAILURE)
        return hf__error_set(error, HF_ENOMEM, "TLS: out of memory");
    status = explain_alert(failure, reason, error);
    if (status < 0)
        return status;
    return hf__error_set(error, HF_EPROTOCOL, "TLS: %s%s", hf__tls_text_reason(words), where);
}
