/* cable.c: how do packets get to a server, and back?
 *
 * The stream connects; the server greets; handshake.c answers, over TLS where that is wanted; and
 * the cable is UP. From then on whole packets are handed out in the order of their coming, and what
 * was written is sent. One cable carries one connection of the server's.
 *
 * What can go wrong: the stream ends: what has come is handed out, and then the cable is DOWN. A
 * packet greater than any answer of ours: DOWN as well, before it is read. No answer to the
 * handshake in time: DOWN. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/mysql/mysql.h"

#define HEAD_BYTES 4
#define READ_BYTES 16384

static bool wants_tls(const struct hf__url *url)
{
    const char *choice = hf__url_option(url, "tls");

    return choice && strcmp(choice, "verify") == 0;
}

void hf__cable_fail(struct hf__cable *cable, int status, const char *text)
{
    assert(status < 0);

    cable->phase = HF__CABLE_DOWN;
    cable->status = hf__error_set(cable->error, status, "%s: %s", hf__cable_peer(cable), text);
}

int hf__cable_open(struct hf__cable *cable, const struct hf__env *env, const struct hf__url *url,
                   size_t server, uint64_t now_ns)
{
    const char *password = cable->password;
    uint64_t by_ns = cable->by_ns;
    int status;

    assert(cable->phase == HF__CABLE_CLOSED);

    *cable = (struct hf__cable){ .env = env, .url = url, .password = password, .by_ns = by_ns };
    hf__buffer_init(&cable->input, env, HF__MYSQL_PACKET_MAX + HEAD_BYTES + READ_BYTES);
    hf__buffer_init(&cable->output, env, 4 * HF__MYSQL_PACKET_MAX);
    status = hf__stream_open(
        &(struct hf__stream_options){
            .env = env,
            .url = url,
            .server = server,
            .port = HF__MYSQL_PORT,
            .tls = wants_tls(url),
            .tls_later = true,
            .now_ns = now_ns,
            .deadline_ns = cable->by_ns,
        },
        &cable->stream, cable->error);
    if (status < 0)
        return status;
    cable->phase = HF__CABLE_CONNECTING;
    return HF_OK;
}

const char *hf__cable_peer(const struct hf__cable *cable)
{
    return cable->stream ? hf__stream_peer(cable->stream) : "the server";
}

void hf__cable_close(struct hf__cable *cable)
{
    if (cable->phase == HF__CABLE_CLOSED)
        return;
    hf__stream_close(cable->stream);
    cable->stream = NULL;
    hf__buffer_done(&cable->input);
    hf__buffer_done(&cable->output);
    cable->phase = HF__CABLE_CLOSED;
}

/* --- bytes --- */

static void stream_is_down(struct hf__cable *cable)
{
    cable->status = hf__stream_error(cable->stream, cable->error);
    cable->is_cut = true;
}

static void send_waiting(struct hf__cable *cable)
{
    while (!cable->is_cut && hf__buffer_count(&cable->output) > 0) {
        ssize_t sent = hf__stream_write(cable->stream, hf__buffer_front(&cable->output),
                                        hf__buffer_count(&cable->output));

        if (sent < 0)
            stream_is_down(cable);
        if (sent <= 0)
            return;
        hf__buffer_consume(&cable->output, (size_t)sent);
    }
}

/* Once for every time that somebody waited. */
static void receive(struct hf__cable *cable)
{
    ssize_t got = READ_BYTES;
    void *space;

    while (cable->may_read && !cable->is_cut && got == READ_BYTES) {
        if (hf__buffer_count(&cable->input) >= HEAD_BYTES + HF__MYSQL_PACKET_MAX ||
            hf__buffer_reserve(&cable->input, READ_BYTES, &space) < 0)
            return; /* what is there is to be heard first */
        got = hf__stream_read(cable->stream, space, READ_BYTES);
        if (got < 0)
            stream_is_down(cable);
        else
            hf__buffer_commit(&cable->input, (size_t)got);
    }
    cable->may_read = false;
}

const uint8_t *hf__cable_packet(struct hf__cable *cable, size_t *out_bytes)
{
    const uint8_t *front = hf__buffer_front(&cable->input);
    size_t count = hf__buffer_count(&cable->input);
    size_t bytes;

    if (count < HEAD_BYTES)
        return NULL;
    bytes = (size_t)front[0] | (size_t)front[1] << 8 | (size_t)front[2] << 16;
    if (bytes > HF__MYSQL_PACKET_MAX) {
        hf__cable_fail(cable, HF_EPROTOCOL, "the server sends more than any answer has");
        return NULL;
    }
    if (count < HEAD_BYTES + bytes)
        return NULL;
    *out_bytes = bytes;
    return front + HEAD_BYTES;
}

/* A packet that was left out, or told twice, has everything behind it answer something else. */
bool hf__cable_is_in_order(struct hf__cable *cable, const uint8_t *packet, size_t bytes)
{
    uint8_t number = packet[-1];
    bool is_error = bytes > 0 && packet[0] == HF__MYSQL_BYTE_ERROR;

    if (number != cable->sequence && !is_error) {
        hf__cable_fail(cable, HF_EPROTOCOL, "the server's packets are out of order");
        return false;
    }
    cable->sequence = (uint8_t)(number + 1);
    return true;
}

void hf__cable_drop(struct hf__cable *cable)
{
    const uint8_t *front = hf__buffer_front(&cable->input);
    size_t bytes = (size_t)front[0] | (size_t)front[1] << 8 | (size_t)front[2] << 16;

    assert(hf__buffer_count(&cable->input) >= HEAD_BYTES + bytes);
    hf__buffer_consume(&cable->input, HEAD_BYTES + bytes);
}

/* --- coming up --- */

static void hear_handshake(struct hf__cable *cable)
{
    const uint8_t *packet;
    size_t bytes;

    while (cable->phase == HF__CABLE_GREETED || cable->phase == HF__CABLE_SIGNING) {
        packet = hf__cable_packet(cable, &bytes);
        if (!packet || !hf__cable_is_in_order(cable, packet, bytes))
            break;
        hf__handshake_hear(cable, packet, bytes);
        if (cable->phase != HF__CABLE_DOWN)
            hf__cable_drop(cable);
    }
}

static void go_on_connecting(struct hf__cable *cable, uint64_t now_ns)
{
    enum hf__stream_state state = hf__stream_advance(cable->stream, now_ns);

    if (state == HF__STREAM_CONNECTING)
        return;
    if (state == HF__STREAM_DOWN) {
        stream_is_down(cable);
        cable->phase = HF__CABLE_DOWN;
        return;
    }
    /* What came behind the greeting was not protected: somebody else may have said it. */
    if (cable->phase == HF__CABLE_SECURING && hf__buffer_count(&cable->input) > 0)
        hf__cable_fail(cable, HF_EPROTOCOL, "the server did not wait for TLS");
    else if (cable->phase == HF__CABLE_SECURING)
        hf__handshake_sign(cable);
    else
        cable->phase = HF__CABLE_GREETED;
    cable->may_read = true;
}

static bool is_connecting(const struct hf__cable *cable)
{
    return cable->phase == HF__CABLE_CONNECTING || cable->phase == HF__CABLE_SECURING;
}

void hf__cable_advance(struct hf__cable *cable, uint64_t now_ns)
{
    size_t bytes;

    assert(cable->phase != HF__CABLE_CLOSED);

    if (cable->phase == HF__CABLE_DOWN)
        return;
    if (is_connecting(cable))
        go_on_connecting(cable, now_ns);
    if (cable->phase == HF__CABLE_DOWN || is_connecting(cable))
        return;
    send_waiting(cable);
    receive(cable);
    hear_handshake(cable);
    if (is_connecting(cable))
        go_on_connecting(cable, now_ns);
    if (cable->phase != HF__CABLE_DOWN && !is_connecting(cable))
        send_waiting(cable);
    if (cable->phase == HF__CABLE_GREETED || cable->phase == HF__CABLE_SIGNING) {
        if (!cable->is_cut && now_ns >= cable->by_ns)
            hf__cable_fail(cable, HF_EUNREACHABLE, "the server does not greet in time");
    }
    if (cable->is_cut && cable->phase != HF__CABLE_DOWN && !hf__cable_packet(cable, &bytes))
        cable->phase = HF__CABLE_DOWN;
}

void hf__cable_pollset(struct hf__cable *cable, struct hf__pollset *set)
{
    if (cable->phase == HF__CABLE_CLOSED)
        return;
    if (cable->phase == HF__CABLE_DOWN || cable->is_cut) {
        hf__pollset_until(set, 0);
        return;
    }
    cable->may_read = true;
    if (cable->phase != HF__CABLE_UP)
        hf__pollset_until(set, cable->by_ns);
    (void)hf__stream_pollset(cable->stream, hf__buffer_count(&cable->output) > 0, set);
}
