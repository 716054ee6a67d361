/* rpc_text.c: how does gRPC write codes, times and texts into the headers of HTTP?
 *
 * As its protocol document has it ("gRPC over HTTP2"; "HTTP to gRPC Status Code Mapping"). Whatever
 * a server writes is taken: what cannot be understood becomes UNKNOWN, and what a terminal should
 * not see is escaped.
 *
 * Pure: no clock, no I/O, no allocation. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/etcd/rpc_inside.h"

#define TIMEOUT_DIGITS_END 100000000u

void hf__rpc_text_timeout(uint64_t left_ns, char out_text[HF__RPC_TIMEOUT_BYTES])
{
    static const struct {
        uint64_t size; /* in ns; from a second on in seconds */
        char unit;
    } units[] = { { 1, 'n' }, { 1000, 'u' }, { 1, 'S' }, { 60, 'M' }, { 3600, 'H' } };
    bool is_long = left_ns >= HF__NS_PER_S;
    uint64_t left = is_long ? (left_ns - 1) / HF__NS_PER_S + 1 : left_ns;
    char digits[HF__TEXT_U64_BYTES];
    size_t count;
    size_t i = is_long ? 2 : 0;

    if (left == 0)
        left = 1;
    while (left / units[i].size >= TIMEOUT_DIGITS_END && i + 1 < sizeof(units) / sizeof(*units))
        i++;
    assert(left / units[i].size < TIMEOUT_DIGITS_END); /* 2^64 ns are five million hours */
    count = hf__text_from_u64(left / units[i].size, digits);
    memcpy(out_text, digits, count);
    out_text[count] = units[i].unit;
    out_text[count + 1] = '\0';
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
