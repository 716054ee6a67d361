/* observe.c: what can be seen from outside: events, descriptors, listings, counts, recipes,
 * texts. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/client.h"
#include "engine/registry.h"

/* --- events --- */

HF_API int hf_client_event_fd(hf_client *client)
{
    if (!client)
        return HF_EINVAL;
    return hf__entry_forked(client) ? HF_EFORKED : client->event_fd;
}

/* Copies as much of a struct as the caller knows. */
static void give(void *out, size_t out_bytes, const void *from, size_t from_bytes)
{
    memcpy(out, from, out_bytes < from_bytes ? out_bytes : from_bytes);
    memcpy(out, &out_bytes, sizeof(out_bytes));
}

HF_API int hf_client_next_event(hf_client *client, struct hf_event *out_event)
{
    struct hf_event event;
    struct hf_grant *ended = NULL;
    int status;

    if (!out_event || out_event->struct_size <= sizeof(size_t))
        return hf__report(client, HF_EINVAL, "event: there is nowhere to put it");
    status = hf__entry_lock(client);
    if (status < 0)
        return status;

    hf__loop_step(client);
    status = hf__events_take(&client->core, &event, &ended);
    if (ended)
        hf__hold_free_grant(ended);
    hf__loop_step(client); /* the descriptor says whether there are more */
    hf__entry_unlock(client);
    if (status > 0)
        give(out_event, out_event->struct_size, &event, sizeof(event));
    return status;
}

/* --- for programs with a loop of their own --- */

static int lock_driven(hf_client *client)
{
    int status = hf__entry_lock(client);

    if (status < 0 || client->caller_driven)
        return status;
    hf__entry_unlock(client);
    return hf__report(client, HF_EINVAL, "this client was not opened as caller_driven");
}

HF_API int hf_client_pollfds(hf_client *client, struct pollfd *fds, size_t fds_max)
{
    struct hf__pollset set;
    int status;

    if (!fds && fds_max > 0)
        return hf__report(client, HF_EINVAL, "pollfds: there is nowhere to put %zu", fds_max);
    status = lock_driven(client);
    if (status < 0)
        return status;
    hf__loop_step(client);
    hf__loop_pollset(client, &set);
    hf__entry_unlock(client);
    for (size_t i = 0; i < set.count && i < fds_max; i++)
        fds[i] = set.fds[i];
    return (int)set.count;
}

HF_API int64_t hf_client_timeout_ms(hf_client *client)
{
    struct hf__pollset set;
    int status = lock_driven(client);

    if (status < 0)
        return status;
    hf__loop_pollset(client, &set);
    hf__entry_unlock(client);
    return hf__clock_wait_ms(hf__clock_now_ns(), set.deadline_ns);
}

HF_API int hf_client_step(hf_client *client)
{
    int status = lock_driven(client);

    if (status < 0)
        return status;
    hf__loop_step_polled(client);
    status = client->core.driver.status;
    if (status < 0)
        hf__report(client, status, "%s", hf__driver_error(&client->core.driver));
    hf__entry_unlock(client);
    return status;
}

/* --- for people who look after locks --- */

static int finish(struct hf_client *client, struct hf__operation *operation, const char *verb,
                  const char *what)
{
    struct hf__wake *bell = &operation->answer.wake;
    int status;

    hf__loop_wait(client, &(struct hf__awaited){ &operation->answer, &bell, NULL });
    status = operation->answer.status;
    if (status < 0)
        hf__report_named(client, status, verb, what, operation->error);
    return status;
}

HF_API int hf_client_list(hf_client *client, const char *glob,
                          int (*visit)(const struct hf_holding *holding, void *context),
                          void *context)
{
    struct hf__operation *operation = NULL;
    int status;

    if (!visit)
        return hf__report(client, HF_EINVAL, "list: there is nobody to visit");
    status = hf__entry_lock(client);
    if (status < 0)
        return status;
    status = hf__operation_list(&client->core, glob, hf__loop_now(client), &operation);
    if (status < 0) {
        hf__report_named(client, status, "list", glob ? glob : "*", client->core.driver.error);
        hf__entry_unlock(client);
        return status;
    }
    status = finish(client, operation, "list", glob ? glob : "*");
    hf__list_remove(&operation->place); /* the entries are ours alone from here */
    hf__entry_unlock(client);

    HF__LIST_FOR(node, &operation->entries)
    {
        if (status != HF_OK)
            break;
        status = visit(&HF__LIST_ENTRY(node, struct hf__entry, place)->holding, context);
    }
    pthread_mutex_lock(&client->mutex);
    hf__operation_free(&client->core, operation);
    hf__entry_unlock(client);
    return status;
}

HF_API int hf_client_break(hf_client *client, const char *name, uint64_t fence)
{
    struct hf__operation *operation = NULL;
    int status;

    if (!name)
        return hf__report(client, HF_EINVAL, "break: NULL is not a name");
    status = hf__entry_lock(client);
    if (status < 0)
        return status;
    status = hf__operation_break(&client->core, name, fence, hf__loop_now(client), &operation);
    if (status < 0) {
        hf__report_named(client, status, "break", name, client->core.driver.error);
    } else {
        status = finish(client, operation, "break", name);
        hf__operation_free(&client->core, operation);
    }
    hf__entry_unlock(client);
    return status;
}

HF_API int hf_client_stats(hf_client *client, struct hf_client_stats *out_stats)
{
    struct hf_client_stats stats;
    const struct hf__driver *driver;
    int status;

    if (!out_stats || out_stats->struct_size <= sizeof(size_t))
        return hf__report(client, HF_EINVAL, "stats: there is nowhere to put them");
    status = hf__entry_lock(client);
    if (status < 0)
        return status;
    driver = &client->core.driver;
    stats = client->core.stats;
    stats.reconnected = driver->reconnected;
    for (size_t i = 0; i < driver->stores; i++)
        stats.rescued += driver->links[HF__LANE_CALL][i].conn->rescued;
    hf__entry_unlock(client);
    give(out_stats, out_stats->struct_size, &stats, sizeof(stats));
    return HF_OK;
}

/* --- what this build can do --- */

static void describe(const struct hf__engine *engine, const struct hf__recipe *recipe,
                     struct hf_recipe_info *out_info)
{
    struct hf_recipe_info info = {
        .engine = engine->name,
        .recipe = recipe->name,
        .url_forms = recipe->url_forms,
        .summary = recipe->summary,
        .caveat = recipe->caveat,
        .promises = recipe->promises,
        .is_default = recipe->is_default,
        .is_legacy = recipe->is_legacy,
    };

    give(out_info, out_info->struct_size, &info, sizeof(info));
}

HF_API int hf_recipe_info(size_t index, struct hf_recipe_info *out_info)
{
    if (!out_info || out_info->struct_size <= sizeof(size_t))
        return HF_EINVAL;
    for (size_t i = 0; hf__registry_engine(i); i++) {
        const struct hf__engine *engine = hf__registry_engine(i);

        for (size_t k = 0; engine->recipes[k]; k++) {
            if (index-- > 0)
                continue;
            describe(engine, engine->recipes[k], out_info);
            return 1;
        }
    }
    return 0;
}

HF_API const char *hf_recipe_schema(const char *engine, const char *recipe)
{
    const struct hf__recipe *found;

    if (!engine)
        return NULL;
    for (size_t i = 0; hf__registry_engine(i); i++) {
        if (strcmp(hf__registry_engine(i)->name, engine) != 0)
            continue;
        found = hf__registry_recipe(hf__registry_engine(i), recipe);
        return found ? found->schema : NULL;
    }
    return NULL;
}

/* --- texts --- */

HF_API uint32_t hf_client_promises(const hf_client *client)
{
    uint32_t promises;

    if (!client || hf__entry_lock(client->self) < 0)
        return 0;
    promises = hf__driver_promises(&client->core.driver);
    hf__entry_unlock(client->self);
    return promises;
}

HF_API const char *hf_client_error(const hf_client *client)
{
    return hf__report_text(client);
}

HF_API int hf_url_redact(const char *url, char *buffer, size_t buffer_bytes)
{
    if (!url || (!buffer && buffer_bytes > 0))
        return HF_EINVAL;
    return hf__url_redacted(url, buffer, buffer_bytes);
}

HF_API const char *hf_strstatus(int status)
{
    return hf__error_text(status);
}

#define TEXT_OF(number)                   #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

HF_API const char *hf_version(void)
{
    return VERSION_TEXT(HF_VERSION_MAJOR, HF_VERSION_MINOR, HF_VERSION_PATCH);
}
