/* options.c: what did the caller ask for, with the defaults filled in?
 *
 * An options struct says its own size, so that a program built against an older header has a
 * shorter one (the rest is default) and one built against a newer header a longer one (refused
 * only if it asks for something that this library does not know). Nonsense is refused here, and
 * nowhere below. */
#include <errno.h>
#include <string.h>

#include "api/client.h"

#define STRUCT_BYTES_MAX 4096
#define CONNECT_MS       5000
#define LEASE_MS         30000
#define WAIT_MS_MAX      (INT64_MAX / 4000000)

/* As much of it as both sides know; HF_EINVAL when the rest says something, and for a size that no
 * header has had. `first_bytes` is what the first one had. */
static int copy_struct(void *out_known, size_t known_bytes, size_t first_bytes, const void *given)
{
    const unsigned char *bytes = given;
    size_t given_bytes;

    memcpy(&given_bytes, given, sizeof(given_bytes));
    if (given_bytes > STRUCT_BYTES_MAX || (given_bytes < known_bytes && given_bytes != first_bytes))
        return HF_EINVAL;
    for (size_t i = known_bytes; i < given_bytes; i++) {
        if (bytes[i])
            return HF_EINVAL;
    }
    memcpy(out_known, given, given_bytes < known_bytes ? given_bytes : known_bytes);
    return HF_OK;
}

HF_API void hf_open_options_init(struct hf_open_options *options)
{
    if (options)
        *options = (struct hf_open_options)HF_OPEN_OPTIONS_INIT;
}

HF_API void hf_acquire_options_init(struct hf_acquire_options *options)
{
    if (options)
        *options = (struct hf_acquire_options)HF_ACQUIRE_OPTIONS_INIT;
}

static bool lease_is_sane(int64_t lease_ms)
{
    return lease_ms >= HF_LEASE_MS_MIN && lease_ms <= HF_LEASE_MS_MAX;
}

int hf__options_open(const struct hf_open_options *given, struct hf_open_options *out_options)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    uint32_t promises = HF_PROMISE_FENCE | HF_PROMISE_FAIR | HF_PROMISE_WAKEUP | HF_PROMISE_SHARED |
                        HF_PROMISE_DURABLE | HF_PROMISE_FAILOVER | HF_PROMISE_CRASH;

    if (given && copy_struct(&options, sizeof(options), sizeof(options), given) < 0)
        return hf__report(NULL, HF_EINVAL, "hf_open_options: struct_size %zu does not fit",
                          given->struct_size);
    if (options.connect_ms == 0)
        options.connect_ms = CONNECT_MS;
    if (options.lease_ms == 0)
        options.lease_ms = LEASE_MS;
    if (!options.purpose)
        options.purpose = program_invocation_short_name;

    if (options.require & ~promises)
        return hf__report(NULL, HF_EINVAL, "require: 0x%x is not a promise",
                          options.require & ~promises);
    if (options.connect_ms < 0 || options.connect_ms > WAIT_MS_MAX)
        return hf__report(NULL, HF_EINVAL, "connect_ms: %lld is not a time to wait",
                          (long long)options.connect_ms);
    if (!lease_is_sane(options.lease_ms))
        return hf__report(NULL, HF_EINVAL, "lease_ms: %lld is not within %d and %d",
                          (long long)options.lease_ms, HF_LEASE_MS_MIN, HF_LEASE_MS_MAX);
    *out_options = options;
    return HF_OK;
}

static int set_owner(const struct hf_client *client, const struct hf_acquire_options *options,
                     struct hf__owner *out_owner)
{
    out_owner->kind = options->owner;
    if (options->owner == HF_OWNER_NONE)
        return HF_OK;
    if (options->owner == HF_OWNER_THREAD) {
        out_owner->thread = hf__report_thread_serial();
        return HF_OK;
    }
    if (options->owner != HF_OWNER_NAMED)
        return hf__report(client, HF_EINVAL, "owner: %d is not an enum hf_owner", options->owner);

    out_owner->name = options->owner_name;
    if (options->owner_name && *options->owner_name &&
        strnlen(options->owner_name, HF__OWNER_BYTES) < HF__OWNER_BYTES)
        return HF_OK;
    return hf__report(client, HF_EINVAL, "owner_name: a named owner has 1 to %u bytes",
                      HF__OWNER_BYTES - 1);
}

static int check_times(const struct hf_client *client, const struct hf_acquire_options *options)
{
    if (options->wait_ms < HF_FOREVER || options->wait_ms > WAIT_MS_MAX)
        return hf__report(client, HF_EINVAL, "wait_ms: %lld is neither a time nor HF_FOREVER",
                          (long long)options->wait_ms);
    if (options->lease_ms != 0 && !lease_is_sane(options->lease_ms))
        return hf__report(client, HF_EINVAL, "lease_ms: %lld is not within %d and %d",
                          (long long)options->lease_ms, HF_LEASE_MS_MIN, HF_LEASE_MS_MAX);
    if (options->max_hold_ms < 0 || options->max_hold_ms > HF__HOLD_MS_MAX)
        return hf__report(client, HF_EINVAL, "max_hold_ms: %lld is not within 0 and %lld",
                          (long long)options->max_hold_ms, HF__HOLD_MS_MAX);
    if (options->grace_ms < 0 || options->grace_ms > HF_LEASE_MS_MAX)
        return hf__report(client, HF_EINVAL, "grace_ms: %lld is not within 0 and %d",
                          (long long)options->grace_ms, HF_LEASE_MS_MAX);
    return HF_OK;
}

int hf__options_terms(const struct hf_client *client, const struct hf_acquire_options *given,
                      struct hf__terms *out_terms)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    struct hf__terms terms = { 0 };
    int status = HF_OK;

    if (given) {
        status = copy_struct(&options, sizeof(options),
                             offsetof(struct hf_acquire_options, grace_ms), given);
        if (status < 0)
            return hf__report(client, status, "hf_acquire_options: struct_size %zu does not fit",
                              given->struct_size);
        status = check_times(client, &options);
    }
    if (status == HF_OK)
        status = set_owner(client, &options, &terms.owner);
    if (status < 0)
        return status;
    if (options.mode != HF_EXCLUSIVE && options.mode != HF_SHARED)
        return hf__report(client, HF_EINVAL, "mode: %d is not an enum hf_mode", options.mode);

    terms.mode = options.mode;
    terms.wait_ms = options.wait_ms;
    terms.lease_ns =
        options.lease_ms > 0 ? (uint64_t)options.lease_ms * HF__NS_PER_MS : client->core.lease_ns;
    terms.max_hold_ns = (uint64_t)options.max_hold_ms * HF__NS_PER_MS;
    terms.grace_ns = (uint64_t)options.grace_ms * HF__NS_PER_MS;
    terms.fixed_lease = options.fixed_lease;
    terms.purpose = options.purpose;
    terms.user = options.user;
    *out_terms = terms;
    return HF_OK;
}
