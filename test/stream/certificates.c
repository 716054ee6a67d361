/* certificates.c: certificates of every kind, made once, in a directory that goes with the
 * program. */
#include "certificates.h"

#include <assert.h>
#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DAY_S (24 * 3600L)

struct kind {
    const char *name;
    const char *issuer; /* NULL: itself */
    const char *alternative;
    long from_s;
    long until_s;
    const char *passphrase;
};

static const struct kind kinds[] = {
    { "authority", NULL, NULL, -DAY_S, DAY_S, NULL },
    { "stranger", NULL, NULL, -DAY_S, DAY_S, NULL },
    { "good", "authority", "DNS:good.test,IP:127.0.0.1", -DAY_S, DAY_S, NULL },
    { "named", "authority", "DNS:good.test", -DAY_S, DAY_S, NULL },
    { "expired", "authority", "DNS:good.test", -2 * DAY_S, -DAY_S, NULL },
    { "early", "authority", "DNS:good.test", DAY_S, 2 * DAY_S, NULL },
    { "alone", NULL, "DNS:good.test", -DAY_S, DAY_S, NULL },
    { "strange", "stranger", "DNS:good.test", -DAY_S, DAY_S, NULL },
    { "client", "authority", "DNS:client.test", -DAY_S, DAY_S, NULL },
    { "sealed", "authority", "DNS:client.test", -DAY_S, DAY_S, "secret" },
};

static char directory[CERTIFICATES_PATH_BYTES / 2];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t maker;

static void must(bool good)
{
    if (!good)
        abort();
}

static void remove_all(void)
{
    char path[CERTIFICATES_PATH_BYTES];
    DIR *entries = getpid() == maker ? opendir(directory) : NULL;

    if (!entries)
        return;
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        if (entry->d_name[0] == '.')
            continue;
        certificates_place(entry->d_name, path);
        (void)unlink(path);
    }
    (void)closedir(entries);
    (void)rmdir(directory);
}

static FILE *open_file(const char *name, const char *kind, const char *mode)
{
    char path[CERTIFICATES_PATH_BYTES];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s.%s", directory, name, kind);
    file = fopen(path, mode);
    must(file != NULL);
    return file;
}

static void extend(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);

    must(extension && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* Who signs: read back from where it was written. */
static void sign(X509 *certificate, EVP_PKEY *own_key, const struct kind *kind)
{
    X509 *issuer = certificate;
    EVP_PKEY *key = own_key;

    if (kind->issuer) {
        FILE *file = open_file(kind->issuer, "pem", "r");

        issuer = PEM_read_X509(file, NULL, NULL, NULL);
        (void)fclose(file);
        file = open_file(kind->issuer, "key", "r");
        key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        (void)fclose(file);
    }
    must(issuer && key);
    must(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1);
    must(X509_sign(certificate, key, EVP_sha256()) > 0);
    if (kind->issuer) {
        X509_free(issuer);
        EVP_PKEY_free(key);
    }
}

static void make(const struct kind *kind, long serial)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    FILE *file;

    must(key && certificate && subject);
    must(X509_set_version(certificate, 2) == 1 && X509_set_pubkey(certificate, key) == 1);
    must(ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial) == 1);
    must(X509_gmtime_adj(X509_getm_notBefore(certificate), kind->from_s) != NULL);
    must(X509_gmtime_adj(X509_getm_notAfter(certificate), kind->until_s) != NULL);
    must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)kind->name,
                                    -1, -1, 0) == 1);
    if (kind->alternative)
        extend(certificate, NID_subject_alt_name, kind->alternative);
    else
        extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
    sign(certificate, key, kind);

    file = open_file(kind->name, "pem", "w");
    must(PEM_write_X509(file, certificate) == 1);
    (void)fclose(file);
    file = open_file(kind->name, "key", "w");
    must(PEM_write_PKCS8PrivateKey(
             file, key, kind->passphrase ? EVP_aes_256_cbc() : NULL, kind->passphrase,
             kind->passphrase ? (int)strlen(kind->passphrase) : 0, NULL, NULL) == 1);
    (void)fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static void make_all(void)
{
    const char *where = getenv("TMPDIR");

    (void)snprintf(directory, sizeof(directory), "%s/stream-XXXXXX", where ? where : "/tmp");
    must(mkdtemp(directory) != NULL);
    maker = getpid();
    must(atexit(remove_all) == 0);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        make(&kinds[i], (long)i + 1);
}

void certificates_path(const char *name, const char *kind, char out_path[CERTIFICATES_PATH_BYTES])
{
    (void)pthread_once(&once, make_all);
    (void)snprintf(out_path, CERTIFICATES_PATH_BYTES, "%s/%s.%s", directory, name, kind);
}

void certificates_place(const char *name, char out_path[CERTIFICATES_PATH_BYTES])
{
    (void)pthread_once(&once, make_all);
    (void)snprintf(out_path, CERTIFICATES_PATH_BYTES, "%s/%s", directory, name);
}
