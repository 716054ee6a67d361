/* names.c: is what was seen of a lock remembered, and forgotten only when it is oldest? */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "failing_env.h"

#define TEXT_BYTES 32

struct scene {
    struct failing_env memory;
    struct hf__core core;
};

static void begin(struct scene *scene, size_t fail_nth)
{
    *scene = (struct scene){ .core = { .hash_seed = 0x5eed } };
    failing_env_init(&scene->memory, fail_nth);
    scene->core.env = &scene->memory.env;
    hf__list_init(&scene->core.idle_names);
}

static void finish(struct scene *scene)
{
    hf__names_done(&scene->core);
    CHECK_EQUAL(scene->memory.live, 0);
}

static struct hf__name *get(struct scene *scene, const char *text)
{
    struct hf__name *name = NULL;

    CHECK_EQUAL(hf__names_get(&scene->core, text, strlen(text), &name), HF_OK);
    return name;
}

static struct hf__name *get_nth(struct scene *scene, size_t nth)
{
    char text[TEXT_BYTES];

    snprintf(text, sizeof(text), "lock/%zu", nth);
    return get(scene, text);
}

/* Sees this fence of it, and goes away; what it had seen before. */
static uint64_t visit(struct scene *scene, size_t nth, uint64_t fence)
{
    struct hf__name *name = get_nth(scene, nth);
    uint64_t before = name->fence_seen;

    name->fence_seen = fence;
    hf__names_settle(&scene->core, name);
    return before;
}

TEST(names, the_same_text_is_the_same_name)
{
    static const char *const texts[] = { "a", "b",  "aa", "a/",   "a/b",
                                         "A", " a", "a ", "\xff", "\x01" };
    struct hf__name *names[sizeof(texts) / sizeof(*texts)];
    struct scene scene;

    begin(&scene, 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        names[i] = get(&scene, texts[i]);
        CHECK_TEXT(names[i]->text, texts[i]);
        for (size_t j = 0; j < i; j++)
            CHECK(names[i] != names[j]);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        CHECK(get(&scene, texts[i]) == names[i]);
    finish(&scene);
}

TEST(names, the_longest_fits_and_a_longer_one_is_refused)
{
    char text[HF_NAME_BYTES_MAX + 2];
    struct hf__name *name = NULL;
    struct scene scene;

    begin(&scene, 0);
    memset(text, 'x', sizeof(text));
    CHECK_EQUAL(hf__names_get(&scene.core, text, HF_NAME_BYTES_MAX, &name), HF_OK);
    CHECK_EQUAL(strlen(name->text), HF_NAME_BYTES_MAX);
    CHECK_ABORTS(hf__names_get(&scene.core, text, HF_NAME_BYTES_MAX + 1, &name));
    CHECK_ABORTS(hf__names_get(&scene.core, text, 0, &name));
    finish(&scene);
}

TEST(names, fences_are_remembered_while_the_table_grows)
{
    struct scene scene;

    begin(&scene, 0);
    for (size_t i = 0; i < 10000; i++)
        CHECK_EQUAL(visit(&scene, i, 100 + i), 0);
    for (size_t i = 0; i < 10000; i++)
        CHECK_EQUAL(visit(&scene, i, 100 + i), 100 + i);
    CHECK_EQUAL(scene.core.name_count, 10000);
    CHECK_EQUAL(scene.core.idle_count, 10000);
    finish(&scene);
}

TEST(names, the_one_idle_for_longest_is_forgotten_first)
{
    struct scene scene;

    begin(&scene, 0);
    for (size_t i = 0; i < HF__NAMES_KEPT; i++)
        visit(&scene, i, 1 + i);
    CHECK_EQUAL(scene.core.idle_count, HF__NAMES_KEPT);
    CHECK_EQUAL(visit(&scene, 0, 1), 1);              /* used again: the youngest now */
    CHECK_EQUAL(visit(&scene, HF__NAMES_KEPT, 7), 0); /* pushes out the oldest, which is 1 */
    CHECK_EQUAL(scene.core.idle_count, HF__NAMES_KEPT);
    CHECK_EQUAL(scene.core.name_count, HF__NAMES_KEPT);
    CHECK_EQUAL(visit(&scene, 0, 1), 1);
    CHECK_EQUAL(visit(&scene, 2, 3), 3);
    CHECK_EQUAL(visit(&scene, HF__NAMES_KEPT, 7), 7);
    CHECK_EQUAL(visit(&scene, 1, 2), 0);
    finish(&scene);
}

/* A claim, a waiting claim, a hold and a turn: each alone keeps a name. */
TEST(names, what_is_used_is_never_forgotten)
{
    struct hf__list nodes[3];
    struct hf__name *used[4];
    struct scene scene;

    begin(&scene, 0);
    for (size_t i = 0; i < 4; i++) {
        used[i] = get_nth(&scene, i);
        used[i]->fence_seen = 1000 + i;
    }
    for (size_t i = 0; i < 3; i++)
        hf__list_init(&nodes[i]);
    used[0]->claim_count = 1;
    hf__list_append(&used[1]->waiting, &nodes[0]);
    hf__list_append(&used[2]->holds, &nodes[1]);
    hf__list_append(&used[3]->turns, &nodes[2]);
    for (size_t i = 0; i < 4; i++)
        hf__names_settle(&scene.core, used[i]);
    CHECK_EQUAL(scene.core.idle_count, 0);

    for (size_t i = 4; i < HF__NAMES_KEPT + 1000; i++)
        visit(&scene, i, 1);
    CHECK_EQUAL(scene.core.name_count, HF__NAMES_KEPT + 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK(get_nth(&scene, i) == used[i]);
        CHECK_EQUAL(used[i]->fence_seen, 1000 + i);
    }
    used[0]->claim_count = 0;
    for (size_t i = 0; i < 3; i++)
        hf__list_remove(&nodes[i]);
    finish(&scene);
}

TEST(names, settling_twice_counts_once)
{
    struct hf__name *name;
    struct scene scene;

    begin(&scene, 0);
    name = get(&scene, "once");
    hf__names_settle(&scene.core, name);
    hf__names_settle(&scene.core, name);
    CHECK_EQUAL(scene.core.idle_count, 1);
    CHECK(get(&scene, "once") == name);
    CHECK_EQUAL(scene.core.idle_count, 0);
    finish(&scene);
}

/* Without memory for a wider table it is only slower. */
TEST(names, survives_every_refused_allocation)
{
    size_t refused = 1;

    for (size_t nth = 1; refused > 0; nth++) {
        struct hf__name *name = NULL;
        size_t failures = 0;
        struct scene scene;

        begin(&scene, nth);
        for (size_t i = 0; i < 300; i++) {
            char text[TEXT_BYTES];
            int status;

            snprintf(text, sizeof(text), "lock/%zu", i);
            status = hf__names_get(&scene.core, text, strlen(text), &name);
            CHECK(status == HF_OK || status == HF_ENOMEM);
            failures += status != HF_OK;
            if (status == HF_OK)
                CHECK_TEXT(name->text, text);
        }
        refused = scene.memory.refused;
        CHECK(failures <= refused);
        CHECK_EQUAL(scene.core.name_count, 300 - failures);
        finish(&scene);
    }
}
