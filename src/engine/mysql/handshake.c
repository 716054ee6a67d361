/* handshake.c: who are we to each other?
 *
 * The server greets with its version and a challenge. We answer with our name, the proof of the
 * password (scramble.c) and the database; before that TLS is begun where the URL wants it, so that
 * nothing of ours is seen by anybody but the server whose certificate was verified. The server may
 * ask for another proof than the one that it greeted with, and then says yes or no.
 *
 * What can go wrong: no MySQL, or one older than twenty years: HF_EPROTOCOL. A server without TLS
 * where it is wanted. A way to sign in that is not ours, or that would show the password to
 * whoever listens: HF_EDENIED, with its name. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/mysql/mysql.h"

#define PROTOCOL_10  10
#define PART_BYTES   8
#define OLD_BYTES    10 /* that have no meaning for us */
#define CHARSET      63 /* binary: bytes are what they are */
#define PACKET_MAX   (1u << 24)
#define FILL_BYTES   23
#define SHA2_OK      3
#define SHA2_IN_FULL 4

#define WRONG_PASSWORD 1045

#define ABLE_LONG_PASSWORD 0x1u
#define ABLE_FOUND_ROWS    0x2u
#define ABLE_LONG_FLAG     0x4u
#define ABLE_DATABASE      0x8u
#define ABLE_41            0x200u
#define ABLE_TLS           0x800u
#define ABLE_TRANSACTIONS  0x2000u
#define ABLE_SECURE        0x8000u
#define ABLE_RESULTS       0x20000u
#define ABLE_CALL_RESULTS  0x40000u
#define ABLE_PLUGINS       0x80000u

#define NEEDED (ABLE_41 | ABLE_SECURE | ABLE_PLUGINS)
#define OURS                                                                                       \
    (NEEDED | ABLE_LONG_PASSWORD | ABLE_FOUND_ROWS | ABLE_LONG_FLAG | ABLE_DATABASE |              \
     ABLE_TRANSACTIONS | ABLE_RESULTS | ABLE_CALL_RESULTS)

static bool wants_tls(const struct hf__cable *cable)
{
    const char *choice = hf__url_option(cable->url, "tls");

    return choice && strcmp(choice, "verify") == 0;
}

static bool is_secret(const struct hf__cable *cable)
{
    return wants_tls(cable) || hf__url_option(cable->url, "socket");
}

static void finish_letter(struct hf__cable *cable, struct hf__letter *letter)
{
    if (hf__packet_end(letter) < 0)
        hf__cable_fail(cable, HF_ENOMEM, "out of memory");
}

/* How both our letters begin. */
static void begin_answer(struct hf__cable *cable, struct hf__letter *letter)
{
    static const uint8_t fill[FILL_BYTES] = { 0 };

    hf__packet_begin(letter, &cable->output, cable->sequence++);
    hf__packet_put_number(letter, wants_tls(cable) ? OURS | ABLE_TLS : OURS, 4);
    hf__packet_put_number(letter, PACKET_MAX, 4);
    hf__packet_put_number(letter, CHARSET, 1);
    hf__packet_put(letter, fill, sizeof(fill));
}

void hf__handshake_sign(struct hf__cable *cable)
{
    const struct hf__url *url = cable->url;
    const char *database = *url->path && url->path[1] ? url->path + 1 : url->user;
    const char *plugin = hf__scramble_name(cable->scramble);
    uint8_t proof[HF__MYSQL_PROOF_MAX];
    size_t proof_bytes =
        hf__scramble_prove(cable->scramble, cable->password, cable->challenge, proof);
    struct hf__letter letter;

    begin_answer(cable, &letter);
    hf__packet_put(&letter, url->user, strlen(url->user) + 1);
    hf__packet_put_number(&letter, proof_bytes, 1);
    hf__packet_put(&letter, proof, proof_bytes);
    hf__packet_put(&letter, database, strlen(database) + 1);
    hf__packet_put(&letter, plugin, strlen(plugin) + 1);
    cable->phase = HF__CABLE_SIGNING;
    finish_letter(cable, &letter);
}

static void secure(struct hf__cable *cable)
{
    struct hf__letter letter;

    begin_answer(cable, &letter);
    finish_letter(cable, &letter);
    if (cable->phase == HF__CABLE_DOWN)
        return;
    if (hf__stream_write(cable->stream, hf__buffer_front(&cable->output),
                         hf__buffer_count(&cable->output)) !=
        (ssize_t)hf__buffer_count(&cable->output)) {
        hf__cable_fail(cable, HF_EUNREACHABLE, "the connection takes no bytes");
        return;
    }
    hf__buffer_consume(&cable->output, hf__buffer_count(&cable->output));
    cable->phase = HF__CABLE_SECURING;
    hf__stream_secure(cable->stream);
}

/* An error, instead of a greeting or of a welcome. */
static void refuse(struct hf__cable *cable, struct hf__reading *scan)
{
    uint32_t code = (uint32_t)hf__packet_number(scan, 2);
    char text[HF__ERROR_BYTES / 2];
    char whole[HF__ERROR_BYTES];
    size_t bytes;
    const char *meant = "the server said no";
    int status = hf__failure_greeting(code, &meant);
    const char *said;

    if (scan->at < scan->end && *scan->at == '#')
        (void)hf__packet_bytes(scan, 6);
    said = hf__packet_text(scan, &bytes);
    if (bytes >= sizeof(text))
        bytes = sizeof(text) - 1;
    (void)hf__text_escape(said, bytes, text, sizeof(text));
    /* What MariaDB says of a password that came without TLS, where that is required. */
    if (code == WRONG_PASSWORD && cable->offers_tls && !is_secret(cable))
        meant = "the user or the password is wrong, or not let in without tls=verify";
    (void)snprintf(whole, sizeof(whole), "%s (%s; error %u)", meant, text, code);
    hf__cable_fail(cable, status, whole);
}

static void take_challenge(struct hf__cable *cable, const uint8_t *bytes, size_t at, size_t count)
{
    if (!bytes)
        return;
    memcpy(cable->challenge + at, bytes, count);
}

/* https://mariadb.com/kb/en/connection/ : the initial handshake packet */
static void hear_greeting(struct hf__cable *cable, struct hf__reading *scan)
{
    size_t bytes;
    const char *text = hf__packet_text(scan, &bytes);
    uint64_t able;

    bytes = bytes < sizeof(cable->version) ? bytes : sizeof(cable->version) - 1;
    (void)hf__text_escape(text, bytes, cable->version, sizeof(cable->version));
    cable->number = hf__packet_number(scan, 4);
    take_challenge(cable, hf__packet_bytes(scan, PART_BYTES), 0, PART_BYTES);
    (void)hf__packet_bytes(scan, 1);
    able = hf__packet_number(scan, 2);
    (void)hf__packet_bytes(scan, 3);
    able |= hf__packet_number(scan, 2) << 16;
    (void)hf__packet_bytes(scan, 1 + OLD_BYTES);
    take_challenge(cable, hf__packet_bytes(scan, HF__MYSQL_SCRAMBLE - PART_BYTES), PART_BYTES,
                   HF__MYSQL_SCRAMBLE - PART_BYTES);
    (void)hf__packet_bytes(scan, 1);
    text = hf__packet_text(scan, &bytes);
    cable->scramble = hf__scramble_find(text, bytes);
    if (cable->scramble == HF__SCRAMBLE_NONE) /* it is asked to name another one */
        cable->scramble = HF__SCRAMBLE_NATIVE;
    if (scan->failed || (able & NEEDED) != NEEDED) {
        hf__cable_fail(cable, HF_EPROTOCOL, "no MySQL or MariaDB of today");
        return;
    }
    cable->offers_tls = able & ABLE_TLS;
    if (!wants_tls(cable)) {
        hf__handshake_sign(cable);
        return;
    }
    if (cable->offers_tls)
        secure(cable);
    else
        hf__cable_fail(cable, HF_EPROTOCOL, "the server does not speak TLS");
}

static void send_bytes(struct hf__cable *cable, const void *bytes, size_t count)
{
    struct hf__letter letter;

    hf__packet_begin(&letter, &cable->output, cable->sequence++);
    hf__packet_put(&letter, bytes, count);
    finish_letter(cable, &letter);
}

/* The account's password is kept in another form than the one that it greeted with. */
static void hear_switch(struct hf__cable *cable, struct hf__reading *scan)
{
    uint8_t proof[HF__MYSQL_PROOF_MAX];
    char name[128];
    char text[HF__ERROR_BYTES];
    size_t bytes;
    const char *plugin = hf__packet_text(scan, &bytes);

    cable->scramble = hf__scramble_find(plugin, bytes);
    if (cable->scramble == HF__SCRAMBLE_NONE) {
        (void)hf__text_escape(plugin, bytes < 64 ? bytes : 64, name, sizeof(name));
        (void)snprintf(text, sizeof(text), "the account signs in by '%s', which is not ours", name);
        hf__cable_fail(cable, HF_EDENIED, text);
        return;
    }
    take_challenge(cable, hf__packet_bytes(scan, HF__MYSQL_SCRAMBLE), 0, HF__MYSQL_SCRAMBLE);
    if (scan->failed) {
        hf__cable_fail(cable, HF_EPROTOCOL, "the server's challenge is too short");
        return;
    }
    bytes = hf__scramble_prove(cable->scramble, cable->password, cable->challenge, proof);
    send_bytes(cable, proof, bytes);
}

/* caching_sha2_password: it knows the proof, or wants the password itself. */
static void hear_more(struct hf__cable *cable, struct hf__reading *scan)
{
    uint64_t what = hf__packet_number(scan, 1);

    if (what == SHA2_OK)
        return;
    if (what != SHA2_IN_FULL || cable->scramble != HF__SCRAMBLE_SHA2)
        hf__cable_fail(cable, HF_EPROTOCOL, "the server asks what it never should");
    else if (!is_secret(cable))
        hf__cable_fail(cable, HF_EDENIED,
                       "the server wants the password itself (caching_sha2_password): tls=verify");
    else
        send_bytes(cable, cable->password, strlen(cable->password) + 1);
}

static void go_up(struct hf__cable *cable)
{
    cable->phase = HF__CABLE_UP;
    cable->sequence = HF__MYSQL_ANSWER;
}

void hf__handshake_hear(struct hf__cable *cable, const uint8_t *packet, size_t bytes)
{
    struct hf__reading scan = { .at = packet, .end = packet + bytes };
    uint64_t first = hf__packet_number(&scan, 1);

    if (scan.failed)
        hf__cable_fail(cable, HF_EPROTOCOL, "no MySQL or MariaDB");
    else if (first == HF__MYSQL_BYTE_ERROR)
        refuse(cable, &scan);
    else if (cable->phase == HF__CABLE_GREETED && first == PROTOCOL_10)
        hear_greeting(cable, &scan);
    else if (cable->phase == HF__CABLE_GREETED)
        hf__cable_fail(cable, HF_EPROTOCOL, "no MySQL or MariaDB of today");
    else if (first == 0)
        go_up(cable);
    else if (first == 0xfe)
        hear_switch(cable, &scan);
    else if (first == 1)
        hear_more(cable, &scan);
    else
        hf__cable_fail(cable, HF_EPROTOCOL, "the server asks what it never should");
}
