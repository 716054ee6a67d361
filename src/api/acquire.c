/* acquire.c: the public forms of an attempt: blocking, and as a claim. */
#include <assert.h>

#include "api/client.h"

/* Takes the grant, the text and the memory of a claim that has its answer. With the mutex. */
static int conclude(struct hf_client *client, struct hf_claim *claim, const char *name,
                    hf_grant **out_grant)
{
    int status = claim->answer.status;

    if (status == HF_OK) {
        *out_grant = claim->grant;
        claim->grant = NULL;
        client->references++;
    } else {
        hf__report_named(client, status, "acquire", name, claim->error);
    }
    return status;
}

static struct hf__awaited await_claim(struct hf_claim *claim)
{
    return (struct hf__awaited){ &claim->answer, &claim->bell, &claim->ahead };
}

HF_API int hf_acquire(hf_client *client, const char *name, const struct hf_acquire_options *options,
                      hf_grant **out_grant)
{
    struct hf__terms terms;
    struct hf_claim *claim = NULL;
    struct hf__awaited awaited;
    hf_grant *grant;
    int status;

    if (!client || !name || !out_grant)
        return hf__report(client, HF_EINVAL,
                          "acquire: NULL is not a client, name or place for a grant");
    if (hf__entry_forked(client))
        return hf__report(client, HF_EFORKED, "%s", hf__error_text(HF_EFORKED));
    status = hf__options_terms(client, options, &terms);
    if (status < 0)
        return status;

    terms.blocking = true;
    pthread_mutex_lock(&client->mutex);
    grant = hf__brief_take(&client->core, name, &terms, client, hf__loop_lately(client));
    if (grant) {
        client->references++;
        hf__entry_unlock(client);
        *out_grant = grant;
        return HF_OK;
    }
    status = hf__claim_start(&client->core, name, &terms, hf__loop_now(client), &claim);
    if (status < 0) {
        hf__report_named(client, status, "acquire", name, client->core.driver.error);
        hf__entry_unlock(client);
        return status;
    }
    claim->client = client;
    awaited = await_claim(claim);
    hf__loop_wait(client, &awaited);
    status = conclude(client, claim, name, out_grant);
    hf__claim_free(claim);
    hf__entry_unlock(client);
    return status;
}

HF_API int hf_claim_start(hf_client *client, const char *name,
                          const struct hf_acquire_options *options, hf_claim **out_claim)
{
    struct hf__terms terms;
    struct hf_claim *claim = NULL;
    int status;

    if (!client || !name || !out_claim)
        return hf__report(client, HF_EINVAL,
                          "claim: NULL is not a client, name or place for a claim");
    if (hf__entry_forked(client))
        return hf__report(client, HF_EFORKED, "%s", hf__error_text(HF_EFORKED));
    status = hf__options_terms(client, options, &terms);
    if (status < 0)
        return status;

    pthread_mutex_lock(&client->mutex);
    status = hf__claim_start(&client->core, name, &terms, hf__loop_now(client), &claim);
    if (status < 0) {
        hf__report_named(client, status, "claim", name, client->core.driver.error);
        hf__entry_unlock(client);
        return status;
    }
    claim->client = client;
    client->references++;
    *out_claim = claim;
    hf__loop_step_soon(client);
    hf__entry_unlock(client);
    return HF_OK;
}

HF_API int hf_claim_wait(hf_claim *claim, int64_t wait_ms, hf_grant **out_grant)
{
    struct hf_client *client;
    struct hf__awaited awaited;
    int status;

    if (!claim)
        return HF_EINVAL;
    client = claim->client;
    if (!out_grant || wait_ms < HF_FOREVER)
        return hf__report(client, HF_EINVAL, "wait: no place for a grant, or %lld is not a time",
                          (long long)wait_ms);
    status = hf__entry_lock(client);
    if (status < 0)
        return status;

    awaited = await_claim(claim);
    if (claim->answer.status == HF_PENDING)
        hf__loop_wait_until(client, &awaited, hf__clock_after_ms(hf__loop_now(client), wait_ms));
    if (claim->answer.status == HF_PENDING) {
        hf__entry_unlock(client);
        return HF_PENDING;
    }
    hf__events_drop(&claim->note); /* whoever has the answer needs no news of it */
    if (claim->grant)
        claim->grant->client = client;
    status = conclude(client, claim, claim->name->text, out_grant);
    if (status == HF_OK && !*out_grant)
        client->references--; /* it was handed out before */
    hf__loop_step(client);
    hf__entry_unlock(client);
    return status;
}

HF_API int hf_claim_position(const hf_claim *claim)
{
    struct hf_client *client;
    int position;

    if (!claim)
        return HF_EINVAL;
    client = claim->client;
    if (hf__entry_lock(client) < 0)
        return -1;
    position = claim->ahead == HF__AHEAD_UNKNOWN ? -1 : (int)claim->ahead;
    hf__entry_unlock(client);
    return position;
}

HF_API void hf_claim_cancel(hf_claim *claim)
{
    struct hf_client *client;

    if (!claim)
        return;
    client = claim->client;
    if (hf__entry_lock(client) < 0)
        return;
    hf__claim_cancel(claim, hf__clock_now_ns());
    hf__loop_step(client);
    hf__entry_unlock(client);
}

HF_API void hf_claim_free(hf_claim *claim)
{
    struct hf_client *client;
    uint64_t now_ns = hf__clock_now_ns();

    if (!claim)
        return;
    client = claim->client;
    if (hf__entry_lock(client) < 0)
        return;
    hf__claim_cancel(claim, now_ns);
    if (claim->grant)
        hf__hold_abandon(HF__TAKE(claim->grant), now_ns);
    hf__claim_free(claim);
    if (!client->closed)
        hf__loop_step(client);
    hf__entry_drop(client);
}
