/* client.c: how does a client come to be, and how does it end?
 *
 * hf_open: the URL names an engine and a recipe; the core connects; unless the caller steps the
 * client itself, hf_open waits until the store is there and its promises are known, and starts the
 * keeper.
 *
 * hf_close: no new claims; every waiting one is cancelled, every turn given back; blocked threads
 * are woken and leave; what the store has not confirmed after connect_ms is left to its lease.
 * Handles that the user still has keep the memory, not the lock. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#include "api/client.h"
#include "base/text.h"
#include "engine/registry.h"

#define SPIN_PAUSES_FIRST 1024
#define REST_NS           (100 * HF__NS_PER_MS)
#define GOODBYE_NS        (300 * HF__NS_PER_MS)

static void client_freep(struct hf_client **client)
{
    hf__entry_free(*client);
}

/* --- open --- */

static int new_client(const struct hf_open_options *options, struct hf_client **out_client)
{
    struct hf__env env;
    struct hf_client *client;

    if (hf__env_init(&env) < 0)
        return hf__report(NULL, HF_ENOMEM, "out of memory");
    env.trace = options->trace;
    env.trace_context = options->trace_context;
    client = hf__env_new(&env, sizeof(*client));
    if (!client) {
        hf__env_done(&env);
        return hf__report(NULL, HF_ENOMEM, "out of memory");
    }
    client->env = env;
    pthread_mutex_init(&client->mutex, NULL);
    pthread_cond_init(&client->answered, NULL);
    hf__list_init(&client->followers);
    client->self = client;
    client->references = 1;
    client->caller_driven = options->caller_driven;
    client->spin_pauses = SPIN_PAUSES_FIRST;
    client->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->leader_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->alive = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (client->alive == MAP_FAILED)
        client->alive = NULL;
    if (!client->alive || madvise(client->alive, 1, MADV_WIPEONFORK) < 0 || client->event_fd < 0 ||
        client->leader_fd < 0 || client->keeper_fd < 0) {
        hf__entry_free(client);
        return hf__report(NULL, HF_ESYSTEM, "no descriptors or memory left: %s", strerror(errno));
    }
    *client->alive = 1;
    *out_client = client;
    return HF_OK;
}

static int find_url(const char *text, struct hf__url *out_url)
{
    char error[HF__ERROR_BYTES];
    const char *password = getenv("HOLDFAST_PASSWORD");

    if (!text || !*text)
        text = getenv("HOLDFAST_URL");
    if (!text || !*text)
        text = "file:"; /* the embedded engine in its default directory */
    if (hf__url_parse(text, out_url, error) < 0)
        return hf__report(NULL, HF_EURL, "%s", error);
    if (password && !out_url->password[0] && !hf__url_option(out_url, "password_file") &&
        !hf__text_copy(out_url->password, sizeof(out_url->password), password))
        return hf__report(NULL, HF_EURL, "$HOLDFAST_PASSWORD is longer than %zu bytes",
                          sizeof(out_url->password) - 1);
    return HF_OK;
}

static int choose(struct hf__core *core, const struct hf__url *url)
{
    const char *recipe = hf__url_option(url, "recipe");

    core->driver.engine = hf__registry_find(url->scheme);
    if (!core->driver.engine)
        return hf__report(NULL, HF_EURL, "no engine for '%s:' in this build (see holdfast engines)",
                          url->scheme);
    core->recipe = hf__registry_recipe(core->driver.engine, recipe);
    if (!core->recipe)
        return hf__report(NULL, HF_EURL, "%s: no recipe '%s' (see holdfast engines)",
                          core->driver.engine->name, recipe);
    return HF_OK;
}

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / HF__NS_PER_US;
}

static int connect_core(struct hf_client *client, const struct hf__url *url,
                        const struct hf_open_options *options)
{
    char error[HF__ERROR_BYTES];
    struct hf__core_options core_options = {
        .url = url,
        .purpose = options->purpose,
        .lease_ns = (uint64_t)options->lease_ms * HF__NS_PER_MS,
        .connect_ns = (uint64_t)options->connect_ms * HF__NS_PER_MS,
        .caller_driven = options->caller_driven,
        .now_ns = hf__clock_now_ns(),
        .wall_us = wall_us(),
    };
    int status = hf__core_init(&client->core, &client->env, &core_options, error);

    if (status < 0)
        return hf__report(NULL, status, "open: %s", error);
    client->core.required = options->require;
    return HF_OK;
}

/* A majority suffices, but what is taken on all servers outlives the loss of some. */
static void wait_for_the_rest(struct hf_client *client, uint64_t until_ns)
{
    struct hf__driver *driver = &client->core.driver;
    uint64_t rest_ns = hf__clock_now_ns() + REST_NS;

    if (rest_ns < until_ns)
        until_ns = rest_ns;
    while (hf__driver_state(driver) == HF__CONN_UP && !hf__driver_settled(driver) &&
           hf__clock_now_ns() < until_ns) {
        hf__loop_linger(client, until_ns);
        hf__loop_step(client);
    }
}

/* Blocks until the store is there or says no for good, or the time to connect is over. */
static int reach(struct hf_client *client, const struct hf_open_options *options)
{
    struct hf__core *core = &client->core;
    uint64_t until_ns = hf__clock_now_ns() + (uint64_t)options->connect_ms * HF__NS_PER_MS;
    const char *error = hf__driver_error(&core->driver);
    uint32_t missing;
    int status;

    pthread_mutex_lock(&client->mutex);
    hf__loop_step(client);
    while (hf__driver_state(&core->driver) != HF__CONN_UP &&
           hf__driver_refusal(&core->driver) == HF_OK && hf__clock_now_ns() < until_ns) {
        hf__loop_linger(client, until_ns);
        hf__loop_step(client);
    }
    wait_for_the_rest(client, until_ns);
    missing = options->require & ~hf__driver_promises(&core->driver);
    status = hf__driver_refusal(&core->driver);
    if (status == HF_OK)
        status = core->driver.status < 0 ? core->driver.status : HF_EUNREACHABLE;
    hf__entry_unlock(client);

    if (hf__driver_state(&core->driver) != HF__CONN_UP)
        return hf__report(NULL, status, "open: %s%s", *error ? "" : core->driver.engine->name,
                          *error ? error : ": no answer in time");
    if (missing) {
        bool withheld = missing & core->recipe->promises;
        const char *why = withheld ? hf__driver_withheld(&core->driver) : "";

        return hf__report(NULL, HF_EPROMISE, "open: %s %s does not promise%s%s%s%s%s%s%s here%s%s",
                          core->driver.engine->name, core->recipe->name,
                          missing & HF_PROMISE_FENCE ? " fence" : "",
                          missing & HF_PROMISE_FAIR ? " fair" : "",
                          missing & HF_PROMISE_WAKEUP ? " wakeup" : "",
                          missing & HF_PROMISE_SHARED ? " shared" : "",
                          missing & HF_PROMISE_DURABLE ? " durable" : "",
                          missing & HF_PROMISE_FAILOVER ? " failover" : "",
                          missing & HF_PROMISE_CRASH ? " crash" : "", *why ? ": " : "", why);
    }
    return HF_OK;
}

HF_API int hf_open(const char *text, const struct hf_open_options *given, hf_client **out_client)
{
    HF__CLEANUP(client_freep) struct hf_client *client = NULL;
    struct hf_open_options options;
    struct hf__url url;
    int status;

    if (!out_client)
        return hf__report(NULL, HF_EINVAL, "open: there is nowhere to put the client");
    status = hf__options_open(given, &options);
    if (status < 0)
        return status;
    status = find_url(text, &url);
    if (status < 0)
        return status;
    status = new_client(&options, &client);
    assert(status < 0 || client);
    if (status == HF_OK)
        status = choose(&client->core, &url);
    if (status == HF_OK)
        status = connect_core(client, &url, &options);
    hf__url_wipe(&url);
    if (status < 0)
        return status;

    if (!options.caller_driven) {
        status = reach(client, &options);
        if (status < 0)
            return status;
        if (hf__loop_start_keeper(client) < 0)
            return hf__report(NULL, HF_ESYSTEM, "open: the keeper's thread does not start");
    }
    *out_client = HF__TAKE(client);
    return HF_OK;
}

/* --- close --- */

/* Turns that were given back are free; what else a store keeps of us ends by itself, in time. */
static void part(struct hf_client *client)
{
    uint64_t until_ns = hf__clock_now_ns() + GOODBYE_NS;

    while (hf__driver_parting(&client->core.driver) && hf__clock_now_ns() < until_ns) {
        hf__loop_step(client);
        if (hf__driver_parting(&client->core.driver))
            hf__loop_linger(client, until_ns);
    }
}

HF_API void hf_close(hf_client *client)
{
    uint64_t until_ns;

    if (!client || hf__entry_forked(client))
        return;

    pthread_mutex_lock(&client->mutex);
    assert(!client->closed);
    client->closed = true;
    until_ns = hf__clock_now_ns() + client->core.connect_ns;
    hf__core_close(&client->core, hf__clock_now_ns());
    hf__loop_step(client);
    hf__loop_stop_keeper(client);
    while (client->callers > 0 ||
           (!hf__core_idle(&client->core) && hf__clock_now_ns() < until_ns)) {
        hf__loop_linger(client, client->callers > 0 ? HF__NEVER : until_ns);
        hf__loop_step(client);
    }
    part(client);
    hf__core_forsake(&client->core);
    hf__driver_close(&client->core.driver);
    hf__entry_drop(client);
}

HF_API int hf_client_stand_by(hf_client *client)
{
    const struct hf__driver *driver;
    char error[HF__ERROR_BYTES];
    int status;

    if (!client)
        return HF_EINVAL;
    if (!hf__entry_forked(client))
        return hf__report(client, HF_EINVAL,
                          "stand by: this is not a fork of the client's process");

    /* The parent's memory as it was at the fork: only what does not change once open is read. */
    driver = &client->core.driver;
    if (!driver->engine->stand_by)
        return hf__report(client, HF_EUNSUPPORTED, "stand by: %s: turns do not end with a process",
                          driver->engine->name);
    status = driver->engine->stand_by(driver->links[HF__LANE_CALL][0].conn, error);
    if (status < 0)
        return hf__report(client, status, "stand by: %s: %s", driver->engine->name, error);
    return HF_OK;
}
