/* grant.c: what a holder may ask of its grant, and how it gives it back.
 *
 * Validity, remaining time and the rest are read without a lock and without a system call; they
 * look at the clock themselves, because a thread that was stopped may run before anybody could set
 * a flag. */
#include "api/client.h"

static bool usable(const hf_grant *grant)
{
    return grant && !hf__entry_forked(grant->client);
}

HF_API bool hf_grant_valid(const hf_grant *grant)
{
    uint64_t until_ns;

    if (!usable(grant))
        return false;
    until_ns = atomic_load_explicit(&grant->hold->valid_until_ns, memory_order_acquire);
    return until_ns == HF__NEVER || (until_ns > 0 && hf__clock_now_ns() < until_ns);
}

HF_API int64_t hf_grant_remaining_ms(const hf_grant *grant)
{
    uint64_t until_ns;

    if (!usable(grant))
        return 0;
    until_ns = atomic_load_explicit(&grant->hold->valid_until_ns, memory_order_acquire);
    if (until_ns == HF__NEVER)
        return (int64_t)(atomic_load(&grant->hold->lease_ns) / HF__NS_PER_MS);
    return hf__clock_left_ms(hf__clock_now_ns(), until_ns);
}

HF_API uint64_t hf_grant_fence(const hf_grant *grant)
{
    return usable(grant) ? grant->hold->fence : 0;
}

HF_API int hf_grant_mode(const hf_grant *grant)
{
    if (!grant)
        return HF_EINVAL;
    if (!usable(grant))
        return HF_EFORKED;
    return grant->mode == HF_SHARED ? HF_SHARED : grant->hold->mode;
}

HF_API const char *hf_grant_name(const hf_grant *grant)
{
    return usable(grant) ? grant->hold->name->text : "";
}

/* Waits for the answer that somebody has asked for; reports it under the verb. */
static int await(struct hf_client *client, hf_grant *grant, const char *verb)
{
    struct hf__wake *bell = &grant->answer.wake;
    const char *reason = hf__driver_error(&client->core.driver);
    int status;

    hf__loop_wait(client, &(struct hf__awaited){ &grant->answer, &bell, NULL });
    status = grant->answer.status;
    if (status < 0) /* a loss has its own reasons; for all else the store was asked */
        hf__report(client, status, "%s: %s", verb,
                   *reason && status != HF_ELOST ? reason : hf__error_text(status));
    return status;
}

HF_API int hf_release(hf_grant *grant)
{
    struct hf_client *client;
    int status;

    if (!grant)
        return HF_OK;
    client = grant->client;
    status = hf__entry_lock(client);
    if (status < 0)
        return status;

    if (!client->closed && hf__brief_give(grant, client->seen_ns)) {
        hf__hold_free_grant(grant);
        hf__entry_drop(client);
        return HF_OK;
    }
    hf__hold_release(grant, hf__loop_now(client)); /* the store's time to answer counts from here */
    if (client->closed)
        status = hf__report(client, HF_ELOST, "release: the client was closed before");
    else
        status = await(client, grant, "release");
    hf__hold_free_grant(grant);
    hf__entry_drop(client);
    return status;
}

HF_API void hf_release_start(hf_grant *grant)
{
    struct hf_client *client;

    if (!grant)
        return;
    client = grant->client;
    if (hf__entry_lock(client) < 0)
        return;

    if (client->closed) { /* nobody can fetch an event any more */
        hf__hold_abandon(grant, hf__clock_now_ns());
        hf__entry_drop(client);
        return;
    }
    grant->announces = true;
    hf__hold_release(grant, hf__clock_now_ns());
    hf__loop_step_soon(client);
    hf__entry_drop(client);
}

/* One question at a time about one turn: the next comes when the one before has its answer. */
static void begin_asking(struct hf_client *client, const hf_grant *grant)
{
    client->callers++;
    while (grant->hold->asked) {
        hf__entry_ring(client);
        pthread_cond_wait(&client->answered, &client->mutex);
    }
    client->callers--;
    grant->hold->asked = true;
}

static int end_asking(struct hf_client *client, hf_grant *grant, const char *verb)
{
    int status = await(client, grant, verb);

    grant->hold->asked = false;
    pthread_cond_broadcast(&client->answered);
    hf__entry_unlock(client);
    return status;
}

HF_API int hf_grant_extend(hf_grant *grant, int64_t lease_ms)
{
    struct hf_client *client;
    int status;

    if (!grant)
        return HF_EINVAL;
    client = grant->client;
    if (lease_ms < HF_LEASE_MS_MIN || lease_ms > HF_LEASE_MS_MAX)
        return hf__report(client, HF_EINVAL, "extend: %lld ms is not within %d and %d",
                          (long long)lease_ms, HF_LEASE_MS_MIN, HF_LEASE_MS_MAX);
    status = hf__entry_lock(client);
    if (status < 0)
        return status;
    begin_asking(client, grant);
    hf__hold_extend(grant, (uint64_t)lease_ms * HF__NS_PER_MS, hf__loop_now(client));
    return end_asking(client, grant, "extend");
}

HF_API int hf_grant_downgrade(hf_grant *grant)
{
    struct hf_client *client;
    int status;

    if (!grant)
        return HF_EINVAL;
    client = grant->client;
    status = hf__entry_lock(client);
    if (status < 0)
        return status;
    if (!(client->core.recipe->promises & HF_PROMISE_SHARED)) {
        hf__entry_unlock(client);
        return hf__report(client, HF_EUNSUPPORTED, "downgrade: this recipe has no shared mode");
    }
    begin_asking(client, grant);
    hf__hold_downgrade(grant, hf__loop_now(client));
    return end_asking(client, grant, "downgrade");
}
