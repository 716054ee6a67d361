/* case_tell.c: does the library tell the truth about itself: statuses, texts, versions, recipes,
 * counters, and never a password? */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "task.h"
#include "world.h"

#define SECRET "s3cr3t-pa55"

CASE(every_status_has_a_text_of_its_own)
{
    (void)world;
    for (int status = HF_ESYSTEM; status <= HF_PENDING; status++) {
        CHECK(hf_strstatus(status) && hf_strstatus(status)[0]);
        for (int other = HF_ESYSTEM; other < status; other++)
            CHECK(strcmp(hf_strstatus(status), hf_strstatus(other)) != 0);
    }
    CHECK(hf_strstatus(12345) && hf_strstatus(-12345));
    CHECK(strcmp(hf_strstatus(12345), hf_strstatus(HF_OK)) != 0);
}

CASE(the_version_is_the_headers)
{
    char version[64];

    (void)world;
    snprintf(version, sizeof version, "%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR,
             HF_VERSION_PATCH);
    CHECK_TEXT(version, hf_version());
}

static void fail_by_name(struct task *task)
{
    hf_grant *grant = NULL;

    task->status = hf_acquire(task->client, "", NULL, &grant);
    CHECK_STATUS(HF_ENAME, task->status);
    CHECK(strlen(hf_client_error(task->client)) > 0);
}

static void say_nothing_failed(struct task *task)
{
    CHECK(hf_client_error(task->client)[0] == '\0');
}

CASE(the_text_of_a_failure_belongs_to_the_thread)
{
    struct task failing = { .client = world->client, .run = fail_by_name };
    struct task quiet = { .client = world->client, .run = say_nothing_failed };
    struct hf_acquire_options options = world_trying(world);
    hf_grant *grant = NULL;
    char text[512];

    options.mode = 77;
    CHECK_STATUS(HF_EINVAL, hf_acquire(world->client, "a", &options, &grant));
    snprintf(text, sizeof text, "%s", hf_client_error(world->client));
    CHECK(text[0] != '\0');
    task_start(&failing);
    task_join(&failing);
    task_start(&quiet);
    task_join(&quiet);
    CHECK_TEXT(hf_client_error(world->client), text);
    CHECK_TEXT(hf_client_error(world->client), text); /* asking changes nothing */
}

/* Not a text of the failure before, and not none. */
static void check_new_text(const struct world *world, int expected, int status, char text[512])
{
    CHECK_STATUS(expected, status);
    CHECK(hf_client_error(world->client)[0] != '\0');
    CHECK(strcmp(hf_client_error(world->client), text) != 0);
    snprintf(text, 512, "%s", hf_client_error(world->client));
}

CASE(every_failure_leaves_its_own_text)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options fixed = world_fixed(world, world->lease_ms);
    struct hf_acquire_options odd = world_trying(world);
    hf_client *client = world->client;
    hf_grant *grant = world_take(client, name.text, &fixed);
    hf_grant *none = NULL;
    hf_claim *claim = NULL;
    char text[512] = "";

    odd.mode = 9;
    check_new_text(world, HF_EINVAL, hf_acquire(client, NULL, NULL, &none), text);
    check_new_text(world, HF_ENAME, hf_acquire(client, "", NULL, &none), text);
    check_new_text(world, HF_EINVAL, hf_acquire(client, "a", &odd, &none), text);
    check_new_text(world, HF_EINVAL, hf_claim_start(client, NULL, NULL, &claim), text);
    check_new_text(world, HF_EINVAL, hf_grant_extend(grant, 1), text);
    check_new_text(world, HF_EINVAL, hf_client_stats(client, NULL), text);
    check_new_text(world, HF_EINVAL, hf_client_next_event(client, NULL), text);
    check_new_text(world, HF_EINVAL, hf_client_list(client, "*", NULL, NULL), text);
    check_new_text(world, HF_EINVAL, hf_client_break(client, NULL, 1), text);
    check_new_text(world, HF_ENAME, hf_client_break(client, "", 1), text);
    check_new_text(world, HF_EBUSY, world_try(client, name.text, HF_EXCLUSIVE), text);
    WAIT_UNTIL(!hf_grant_valid(grant));
    check_new_text(world, HF_ELOST, hf_grant_extend(grant, 1000), text);
    check_new_text(world, HF_ELOST, hf_release(grant), text);
}

CASE(the_text_of_a_failed_open_needs_no_client)
{
    hf_client *client = NULL;

    (void)world;
    CHECK_STATUS(HF_EURL, hf_open("no-such-engine://somewhere", NULL, &client));
    CHECK(strstr(hf_client_error(NULL), "no-such-engine"));
    CHECK(!client);
}

CASE(no_text_holds_a_password)
{
    static const char *const urls[] = {
        "no-such-engine://user:" SECRET "@host:1/0",
        "redis://user:" SECRET "@127.0.0.1:1/0?no_such_option=1",
        "redis://:" SECRET "@127.0.0.1:notaport/0",
        "mysql://user:" SECRET "@127.0.0.1:99999/db",
        "postgres://user:" SECRET "@:1/db?recipe=no-such-recipe",
        "redis://user:" SECRET "@@127.0.0.1",
        "user:" SECRET "@host",
    };

    (void)world;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct hf_open_options options;
        hf_client *client = NULL;
        int status;

        hf_open_options_init(&options);
        options.connect_ms = 200;
        status = hf_open(urls[i], &options, &client);
        CHECK(status < 0);
        fprintf(stderr, "%s: %s\n", urls[i], hf_client_error(NULL));
        CHECK(!strstr(hf_client_error(NULL), SECRET));
    }
}

CASE(a_redacted_url_hides_the_password_and_nothing_else)
{
    char text[256];
    char small[8];
    int bytes = hf_url_redact("redis://user:" SECRET "@host:6379/1?recipe=set", text, sizeof text);

    (void)world;
    CHECK(!strstr(text, SECRET));
    CHECK(strstr(text, "redis://") && strstr(text, "host:6379/1?recipe=set"));
    CHECK(strstr(text, "user"));
    CHECK_NUMBER(strlen(text), bytes);

    /* As snprintf: the length that it would have had, what fits, terminated. */
    CHECK_NUMBER(bytes, hf_url_redact("redis://user:" SECRET "@host:6379/1?recipe=set", NULL, 0));
    memset(small, 'z', sizeof small);
    CHECK_NUMBER(bytes, hf_url_redact("redis://user:" SECRET "@host:6379/1?recipe=set", small,
                                      sizeof small));
    CHECK(strncmp(small, text, sizeof small - 1) == 0);
    CHECK_NUMBER('\0', small[sizeof small - 1]);

    hf_url_redact("file:/var/lib/holdfast", text, sizeof text);
    CHECK_TEXT("file:/var/lib/holdfast", text);
    hf_url_redact("redis://host/0", text, sizeof text);
    CHECK_TEXT("redis://host/0", text);
    hf_url_redact("rubbish:" SECRET "@what@ever", text, sizeof text);
    CHECK(!strstr(text, SECRET));
    CHECK(hf_url_redact(NULL, text, sizeof text) <= 0);
}

CASE(every_recipe_of_this_build_is_described)
{
    struct hf_recipe_info info = { .struct_size = sizeof info };
    size_t count = 0;

    while (hf_recipe_info(count, &info) == 1) {
        fprintf(stderr, "%s %s\n", info.engine, info.recipe);
        CHECK(info.engine && info.engine[0] && info.recipe && info.recipe[0]);
        CHECK(info.url_forms && strchr(info.url_forms, ':'));
        CHECK(info.summary && info.summary[0] && info.caveat);
        CHECK(!info.is_legacy || info.caveat[0]);
        CHECK(hf_recipe_schema(info.engine, info.recipe));
        count++;
    }
    CHECK(count > 0);
    CHECK_NUMBER(0, hf_recipe_info(count, &info));
    CHECK_NUMBER(0, hf_recipe_info(SIZE_MAX, &info));
    CHECK_STATUS(HF_EINVAL, hf_recipe_info(0, NULL));
    CHECK(!hf_recipe_schema("no-such-engine", "queue"));
    CHECK(!hf_recipe_schema(world->recipe.engine, "no-such-recipe"));
    CHECK(!hf_recipe_schema(NULL, NULL));
    CHECK(hf_recipe_schema(world->recipe.engine, world->recipe.recipe));
}

CASE(every_engine_has_one_default_recipe)
{
    struct hf_recipe_info info = { .struct_size = sizeof info };
    struct hf_recipe_info other = { .struct_size = sizeof other };

    (void)world;
    for (size_t i = 0; hf_recipe_info(i, &info) == 1; i++) {
        int defaults = 0;

        for (size_t j = 0; hf_recipe_info(j, &other) == 1; j++)
            defaults += strcmp(info.engine, other.engine) == 0 && other.is_default;
        CHECK_NUMBER(1, defaults);
    }
}

CASE(stats_count_what_happened)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options brief = world_waiting(world, world->lease_ms / 8);
    struct hf_acquire_options fixed = world_fixed(world, world->lease_ms);
    struct hf_client_stats stats = world_stats(world->client);
    hf_client *other = world_open(world);
    hf_grant *grant = NULL;
    hf_grant *held;

    CHECK_NUMBER(0, stats.acquired + stats.busy + stats.timed_out + stats.released + stats.lost);
    CHECK_NUMBER(0, stats.unknown + stats.held + stats.waiting + stats.rescued);
    for (int i = 0; i < 5; i++)
        world_give_back(world_take(world->client, name.text, NULL));
    grant = world_take(world->client, name.text, NULL);
    CHECK_NUMBER(1, world_stats(world->client).held);
    world_give_back(grant);

    held = world_take(other, name.text, NULL);
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_ETIMEDOUT, hf_acquire(world->client, name.text, &brief, &grant));
    world_give_back(held);
    grant = world_take(world->client, name.text, &fixed);
    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));

    stats = world_stats(world->client);
    CHECK_NUMBER(7, stats.acquired);
    CHECK_NUMBER(6, stats.released);
    CHECK_NUMBER(2, stats.busy);
    CHECK_NUMBER(1, stats.timed_out);
    CHECK_NUMBER(1, stats.lost);
    CHECK_NUMBER(0, stats.held + stats.waiting + stats.unknown + stats.rescued);
    hf_close(other);
}

CASE(stats_say_who_waits_now)
{
    struct name name = world_name(world, "lock");
    hf_client *other = world_open(world);
    hf_grant *held = world_take(other, name.text, NULL);
    hf_claim *claims[3];

    for (int i = 0; i < 3; i++)
        claims[i] = world_claim(world->client, name.text, NULL);
    WAIT_UNTIL(world_stats(world->client).waiting == 3);
    hf_claim_cancel(claims[1]);
    WAIT_UNTIL(world_stats(world->client).waiting == 2);
    world_give_back(held);
    WAIT_UNTIL(world_stats(world->client).held == 1);
    WAIT_UNTIL(world_stats(world->client).waiting == 1);
    for (int i = 0; i < 3; i++)
        hf_claim_free(claims[i]);
    WAIT_UNTIL(world_stats(world->client).held == 0);
    CHECK_NUMBER(0, world_stats(world->client).waiting);
    hf_close(other);
}

/* A program compiled against an older header hands in a smaller struct. */
CASE(stats_are_written_no_further_than_the_callers_struct)
{
    union {
        struct hf_client_stats stats;
        unsigned char bytes[sizeof(struct hf_client_stats)];
    } space;
    size_t small = offsetof(struct hf_client_stats, rescued);
    struct hf_client_stats none = { 0 };

    memset(space.bytes, 0xA5, sizeof space);
    space.stats.struct_size = small;
    CHECK_STATUS(HF_OK, hf_client_stats(world->client, &space.stats));
    CHECK_NUMBER(0, space.stats.acquired);
    for (size_t i = small; i < sizeof space; i++)
        CHECK_NUMBER(0xA5, space.bytes[i]);
    CHECK_STATUS(HF_EINVAL, hf_client_stats(world->client, &none));
}
