/* case_open.c: does opening a client give what was asked for or say what is wrong, and does
 * closing it leave nobody waiting? */

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "task.h"
#include "world.h"

#define URL_BYTES 4200

static int open_with(const char *url, const struct hf_open_options *options)
{
    hf_client *client = UNTOUCHED(hf_client);
    int status = hf_open(url, options, &client);

    CHECK(status == HF_OK || client == UNTOUCHED(hf_client));
    if (status == HF_OK)
        hf_close(client);
    return status;
}

static int open_with_suffix(const struct world *world, const char *option)
{
    char url[URL_BYTES];

    snprintf(url, sizeof url, "%s%c%s", world->url, strchr(world->url, '?') ? '&' : '?', option);
    return open_with(url, NULL);
}

CASE(open_refuses_what_is_no_url)
{
    char long_url[8192];

    (void)world;
    CHECK_STATUS(HF_EURL, open_with("nonsense", NULL));
    CHECK_STATUS(HF_EURL, open_with("nonsense://somewhere", NULL));
    CHECK_STATUS(HF_EURL, open_with("://", NULL));
    CHECK_STATUS(HF_EURL, open_with(":", NULL));
    CHECK_STATUS(HF_EURL, open_with("file:/tmp/a\nb", NULL));
    CHECK_STATUS(HF_EURL, open_with(" ", NULL));
    memset(long_url, 'a', sizeof long_url - 1);
    long_url[sizeof long_url - 1] = '\0';
    CHECK_STATUS(HF_EURL, open_with(long_url, NULL));
    CHECK(strlen(hf_client_error(NULL)) > 0);
}

CASE(open_refuses_unknown_recipes_and_options)
{
    CHECK_STATUS(HF_EURL, open_with_suffix(world, "no_such_option=1"));
    CHECK_STATUS(HF_EURL, open_with_suffix(world, "recipe=no-such-recipe&recipe=no-such-recipe"));
    CHECK_STATUS(HF_EURL, open_with_suffix(world, "=1"));
    if (!strstr(world->url, "recipe="))
        CHECK_STATUS(HF_EURL, open_with_suffix(world, "recipe=no-such-recipe"));
    if (!strstr(world->url, "prefix="))
        CHECK_STATUS(HF_EURL, open_with_suffix(world, "prefix=a&prefix=a"));
}

CASE(open_finds_the_recipe_by_its_name)
{
    char option[128];

    if (strstr(world->url, "recipe="))
        return;
    snprintf(option, sizeof option, "recipe=%s", world->recipe.recipe);
    CHECK_STATUS(HF_OK, open_with_suffix(world, option));
}

CASE(open_without_a_url_takes_it_from_the_environment)
{
    struct name name = world_name(world, "lock");
    hf_grant *grant = world_take(world->client, name.text, NULL);
    hf_client *client = NULL;

    CHECK(setenv("HOLDFAST_URL", world->url, 1) == 0);
    CHECK_STATUS(HF_OK, hf_open(NULL, NULL, &client));
    CHECK_STATUS(HF_EBUSY, world_try(client, name.text, HF_EXCLUSIVE));
    hf_close(client);
    CHECK_STATUS(HF_OK, hf_open("", NULL, &client));
    CHECK_STATUS(HF_EBUSY, world_try(client, name.text, HF_EXCLUSIVE));
    hf_close(client);
    CHECK(setenv("HOLDFAST_URL", "nonsense://", 1) == 0);
    CHECK_STATUS(HF_EURL, open_with(NULL, NULL));
    CHECK_STATUS(HF_OK, open_with(world->url, NULL)); /* a URL that was given wins */
    world_give_back(grant);
}

CASE(required_promises_are_kept_or_refused)
{
    for (uint32_t bit = HF_PROMISE_FENCE; bit <= HF_PROMISE_CRASH; bit <<= 1) {
        struct hf_open_options options;

        hf_open_options_init(&options);
        options.require = bit;
        CHECK_STATUS(world->promises & bit ? HF_OK : HF_EPROMISE, open_with(world->url, &options));
        if (!(world->promises & bit))
            CHECK(strlen(hf_client_error(NULL)) > 0);
    }
}

CASE(the_promises_of_a_client_are_no_more_than_its_recipes)
{
    CHECK_NUMBER(0, world->promises & ~world->recipe.promises);
    CHECK_NUMBER(0, world->promises & ~0x7fu);
    CHECK(!(world->promises & HF_PROMISE_FAILOVER) || (world->promises & HF_PROMISE_DURABLE));
}

CASE(many_clients_may_be_open_at_once)
{
    struct name name = world_name(world, "lock");
    hf_client *clients[32];

    for (int i = 0; i < 32; i++)
        clients[i] = world_open(world);
    for (int i = 0; i < 32; i++)
        world_give_back(world_take(clients[i], name.text, NULL));
    for (int i = 0; i < 32; i++)
        hf_close(clients[i]);
}

CASE(close_releases_what_is_held)
{
    struct name name = world_name(world, "lock");
    struct peer other = peer_start(world);
    hf_client *client = world_open(world);
    hf_grant *grant = world_take(client, name.text, NULL);
    uint64_t fence = hf_grant_fence(grant);

    peer_ask_acquire(&other, 0, name.text, NULL);
    world_wait_for_waiters(world, name.text, 1);
    hf_close(client);
    CHECK_STATUS(HF_OK, peer_hear(&other).status);

    /* The handle is still memory, and knows that it holds nothing. */
    CHECK(!hf_grant_valid(grant));
    CHECK_NUMBER(0, hf_grant_remaining_ms(grant));
    CHECK_NUMBER(fence, hf_grant_fence(grant));
    CHECK_TEXT(name.text, hf_grant_name(grant));
    CHECK_STATUS(HF_ELOST, hf_grant_extend(grant, 10000));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    peer_end(&other);
}

CASE(close_wakes_every_blocked_call)
{
    struct name name = world_name(world, "lock");
    hf_client *client = world_open(world);
    hf_grant *held = world_take(world->client, name.text, NULL);
    hf_claim *claim = world_claim(client, name.text, NULL);
    struct task tasks[6];

    for (int i = 0; i < 6; i++) {
        tasks[i] = (struct task){ .client = client, .name = name.text };
        if (i == 0)
            tasks[i].claim = claim;
        task_start(&tasks[i]);
    }
    WAIT_UNTIL(world_stats(client).waiting == 6);
    hf_close(client);
    for (int i = 0; i < 6; i++) {
        CHECK_STATUS(HF_ECANCELLED, task_join(&tasks[i]));
        CHECK(!tasks[i].grant);
    }
    hf_claim_free(claim);
    WAIT_UNTIL(world_listed(world, name.text).waiters == 0);
    CHECK(hf_grant_valid(held));
    world_give_back(held);
}

CASE(close_ends_claims_as_cancelled)
{
    struct name name = world_name(world, "lock");
    hf_client *client = world_open(world);
    hf_grant *held = world_take(world->client, name.text, NULL);
    hf_claim *claim = world_claim(client, name.text, NULL);
    hf_grant *grant = UNTOUCHED(hf_grant);

    world_wait_for_waiters(world, name.text, 1);
    hf_close(client);
    CHECK_STATUS(HF_ECANCELLED, hf_claim_wait(claim, 0, &grant));
    CHECK_STATUS(HF_ECANCELLED, hf_claim_wait(claim, HF_FOREVER, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    hf_claim_cancel(claim);
    CHECK(hf_claim_position(claim) <= 1);
    hf_claim_free(claim);
    WAIT_UNTIL(world_listed(world, name.text).waiters == 0);
    world_give_back(held);
}

CASE(close_releases_a_grant_that_was_never_fetched)
{
    struct name name = world_name(world, "lock");
    hf_client *client = world_open(world);
    hf_claim *claim = world_claim(client, name.text, NULL);
    hf_grant *grant = NULL;
    int status;

    WAIT_UNTIL(world_stats(client).held == 1);
    hf_close(client);
    status = hf_claim_wait(claim, 0, &grant);
    CHECK(status != HF_PENDING);
    CHECK(!hf_grant_valid(grant));
    CHECK_STATUS(grant ? HF_ELOST : HF_OK, hf_release(grant));
    hf_claim_free(claim);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

CASE(handles_of_a_closed_client_may_end_in_any_way)
{
    struct name one = world_name(world, "one");
    struct name two = world_name(world, "two");
    hf_client *client = world_open(world);
    struct hf_acquire_options nested = world_trying(world);
    hf_grant *started;
    hf_grant *outer;
    hf_grant *inner;
    hf_claim *never_asked;

    nested.owner = HF_OWNER_THREAD;
    started = world_take(client, one.text, NULL);
    outer = world_take(client, two.text, &nested);
    inner = world_take(client, two.text, &nested);
    never_asked = world_claim(client, two.text, NULL);
    hf_close(client);
    hf_release_start(started);
    CHECK_STATUS(HF_ELOST, hf_release(outer));
    CHECK(!hf_grant_valid(inner));
    CHECK_STATUS(HF_ELOST, hf_release(inner));
    hf_claim_free(never_asked);
    CHECK_STATUS(HF_OK, world_try(world->client, one.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_OK, world_try(world->client, two.text, HF_EXCLUSIVE));
}

CASE(a_started_release_is_done_when_close_returns)
{
    struct name name = world_name(world, "lock");
    hf_client *client = world_open(world);
    hf_grant *grant = world_take(client, name.text, NULL);

    hf_release_start(grant);
    hf_close(client);
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
}

struct traced {
    atomic_int lines;
    atomic_int bad_lines;
};

static void count_line(void *context, const char *line)
{
    struct traced *traced = (struct traced *)context;

    atomic_fetch_add(&traced->lines, 1);
    if (!line || !line[0] || strchr(line, '\n'))
        atomic_fetch_add(&traced->bad_lines, 1);
}

CASE(the_trace_tells_every_state_change)
{
    struct name name = world_name(world, "lock");
    struct hf_open_options options;
    struct traced traced = { 0 };
    hf_client *client = NULL;
    int before;
    int after;

    hf_open_options_init(&options);
    options.trace = count_line;
    options.trace_context = &traced;
    CHECK_STATUS(HF_OK, hf_open(world->url, &options, &client));
    before = atomic_load(&traced.lines);
    world_give_back(world_take(client, name.text, NULL));
    after = atomic_load(&traced.lines);
    CHECK(after - before >= 2); /* it was taken, and it was given back */
    hf_close(client);
    CHECK_NUMBER(0, atomic_load(&traced.bad_lines));
    after = atomic_load(&traced.lines);
    world_sleep_ms(A_WHILE_MS);
    CHECK_NUMBER(after, atomic_load(&traced.lines)); /* not after close */
}

/* How many descriptors this process has, and how many of them a program that it executes would
 * inherit. */
struct descriptors {
    int all;
    int inherited;
};

static struct descriptors count_descriptors(void)
{
    struct descriptors count = { 0 };
    DIR *directory = opendir("/proc/self/fd");

    CHECK(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        int flags = fcntl(fd, F_GETFD);

        if (entry->d_name[0] == '.' || fd == dirfd(directory) || flags < 0)
            continue;
        count.all++;
        count.inherited += !(flags & FD_CLOEXEC);
    }
    closedir(directory);
    return count;
}

CASE(a_client_leaves_no_thread_and_no_descriptor_behind)
{
    struct name name = world_name(world, "lock");
    struct descriptors before = count_descriptors();
    struct descriptors meanwhile;
    int threads = world_thread_count();

    for (int i = 0; i < 5; i++) {
        hf_client *client = world_open(world);
        hf_client *driven = world_open_driven(world);
        hf_grant *grant = world_take(client, name.text, NULL);
        hf_claim *claim = world_claim(driven, name.text, NULL);

        meanwhile = count_descriptors();
        CHECK_NUMBER(before.inherited, meanwhile.inherited); /* all are closed on exec */
        hf_claim_free(claim);
        world_give_back(grant);
        hf_close(driven);
        hf_close(client);
    }
    CHECK_NUMBER(before.all, count_descriptors().all);
    WAIT_UNTIL(world_thread_count() == threads); /* one that was joined is seen a moment longer */
}
