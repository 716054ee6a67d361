/* rpc_text.c: how does gRPC write codes, times and texts into the headers of HTTP?
 *
 * As its protocol document has it ("gRPC over HTTP2"; "HTTP to gRPC Status Code Mapping"). Whatever
 * a server writes is taken: what cannot be understood becomes UNKNOWN, and what a terminal should
 * not see is escaped.
 *
 * Pure: no clock, no I/O, no allocation. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/etcd/rpc_inside.h"

#define TIMEOUT_DIGITS_END 100000000u

void hf__rpc_text_timeout(uint64_t left_ns, char out_text[HF__RPC_TIMEOUT_BYTES])
{
    static const struct {
        uint64_t ns;
        char unit;
    } units[] = {
        { 1, 'n' },          { 1000, 'u' },        { 1000000, 'm' },
        { 1000000000, 'S' }, { 60000000000, 'M' }, { 3600000000000, 'H' },
    };
    size_t i = 0;

    if (left_ns == 0)
        left_ns = 1;
    while (left_ns / units[i].ns >= TIMEOUT_DIGITS_END && i + 1 < sizeof(units) / sizeof(*units))
        i++;
    assert(left_ns / units[i].ns < TIMEOUT_DIGITS_END); /* 2^64 ns are five million hours */
    (void)snprintf(out_text, HF__RPC_TIMEOUT_BYTES, "%" PRIu32 "%c",
                   (uint32_t)(left_ns / units[i].ns), units[i].unit);
}

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

void hf__rpc_text_message(const uint8_t *bytes, size_t count, char out_text[HF__ERROR_BYTES])
{
    char decoded[HF__ERROR_BYTES];
    size_t decoded_count = 0;

    for (size_t i = 0; i < count && decoded_count < sizeof(decoded); i++) {
        int high = bytes[i] == '%' && count - i > 2 ? digit_of(bytes[i + 1]) : -1;
        int low = high >= 0 ? digit_of(bytes[i + 2]) : -1;

        decoded[decoded_count++] = low >= 0 ? (char)(high * 16 + low) : (char)bytes[i];
        i += low >= 0 ? 2 : 0;
    }
    (void)hf__text_escape(decoded, decoded_count, out_text, HF__ERROR_BYTES);
}

int hf__rpc_text_code_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return HF__RPC_CODE_INTERNAL;
    case 401:
        return HF__RPC_CODE_UNAUTHENTICATED;
    case 403:
        return HF__RPC_CODE_PERMISSION_DENIED;
    case 404:
        return HF__RPC_CODE_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return HF__RPC_CODE_UNAVAILABLE;
    default:
        return HF__RPC_CODE_UNKNOWN;
    }
}

int hf__rpc_text_code_of_reset(uint32_t error_code)
{
    if (error_code == NGHTTP2_REFUSED_STREAM)
        return HF__RPC_CODE_UNAVAILABLE;
    if (error_code == NGHTTP2_CANCEL)
        return HF__RPC_CODE_CANCELLED;
    if (error_code == NGHTTP2_ENHANCE_YOUR_CALM)
        return HF__RPC_CODE_RESOURCE_EXHAUSTED;
    if (error_code == NGHTTP2_INADEQUATE_SECURITY)
        return HF__RPC_CODE_PERMISSION_DENIED;
    return HF__RPC_CODE_INTERNAL;
}

bool hf__rpc_text_is_grpc(const uint8_t *type, size_t count)
{
    static const char wanted[] = "application/grpc";
    size_t wanted_count = sizeof(wanted) - 1;

    if (count < wanted_count || memcmp(type, wanted, wanted_count) != 0)
        return false;
    return count == wanted_count || type[wanted_count] == '+' || type[wanted_count] == ';';
}
