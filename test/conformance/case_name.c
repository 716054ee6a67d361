/* case_name.c: is every name of 1 to 1024 bytes a lock of its own? */

#include <stdio.h>
#include <string.h>

#include "world.h"

/* Recipes that share another program's names cannot carry all of them, and say so. */
static bool may_refuse_names(const struct world *world)
{
    return world->recipe.is_legacy || strstr(world->url, "layout=");
}

/* Without the case's prefix, so that the odd bytes stand alone; nobody else uses them. */
static const char *const odd_names[] = {
    ".",
    "..",
    "../..",
    "/",
    "//",
    "a/../b",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\x01",
    "\x7f",
    "\xff",
    "\xff\xfe\xfd",
    "\xc3\xa9",
    "e\xcc\x81",
    "~",
    "~x",
    "~x61",
    "~s",
    "%00",
    "%2e%2e",
    "*",
    "?",
    "\\",
    "\\*",
    "'",
    "\"; DROP TABLE locks; --",
    "{a}",
    "$(reboot)",
    "CON",
    "zookeeper",
    "-rf",
};
#define ODD_COUNT (sizeof odd_names / sizeof odd_names[0])

CASE(odd_names_are_locks_of_their_own)
{
    hf_client *other = world_open(world);
    hf_grant *grants[ODD_COUNT] = { 0 };

    for (size_t i = 0; i < ODD_COUNT; i++) {
        int status = hf_acquire(world->client, odd_names[i], NULL, &grants[i]);

        fprintf(stderr, "name %zu\n", i);
        CHECK(status == HF_OK || (status == HF_ENAME && may_refuse_names(world)));
    }
    for (size_t i = 0; i < ODD_COUNT; i++) {
        if (!grants[i])
            continue;
        CHECK_TEXT(odd_names[i], hf_grant_name(grants[i]));
        CHECK_STATUS(HF_EBUSY, world_try(other, odd_names[i], HF_EXCLUSIVE));
        world_give_back(grants[i]);
        CHECK_STATUS(HF_OK, world_try(other, odd_names[i], HF_EXCLUSIVE));
    }
    hf_close(other);
}

CASE(names_that_look_alike_are_distinct)
{
    static const char *const suffixes[] = { "a",  "A",     "a ",  " a",          "a\t",
                                            "a.", "a/",    "a//", "\xc3\xa9",    "e\xcc\x81",
                                            "E",  "a\x01", "a0",  "\xef\xbb\xbf" };
    hf_grant *grants[sizeof suffixes / sizeof suffixes[0]] = { 0 };
    size_t count = sizeof suffixes / sizeof suffixes[0];

    for (size_t i = 0; i < count; i++) {
        struct name name = world_name(world, suffixes[i]);
        struct hf_acquire_options options = world_trying(world);
        int status = hf_acquire(world->client, name.text, &options, &grants[i]);

        fprintf(stderr, "suffix '%s'\n", suffixes[i]);
        CHECK(status == HF_OK || (status == HF_ENAME && may_refuse_names(world)));
    }
    for (size_t i = 0; i < count; i++)
        CHECK_STATUS(HF_OK, hf_release(grants[i]));
}

static struct name fill_name(const struct world *world, size_t bytes, char filler)
{
    struct name name = world_name(world, "");
    size_t prefix_bytes = strlen(name.text);

    CHECK(bytes < sizeof name.text);
    memset(name.text + prefix_bytes, filler, bytes - prefix_bytes);
    name.text[bytes] = '\0';
    return name;
}

/* Around the lengths at which a store's encoding may change its form. */
CASE(long_names_are_distinct_to_the_last_byte)
{
    static const size_t lengths[] = { 127, 128, 129, 199, 200, 201, 255, 256, 512, 1023, 1024 };

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct name one = fill_name(world, lengths[i], 'x');
        struct name two = one;
        struct name odd = fill_name(world, lengths[i], '\xfe');
        struct hf_acquire_options options = world_trying(world);
        hf_grant *grants[3] = { 0 };
        int status;

        fprintf(stderr, "%zu bytes\n", lengths[i]);
        two.text[lengths[i] - 1] = 'y';
        status = hf_acquire(world->client, one.text, &options, &grants[0]);
        if (status == HF_ENAME && may_refuse_names(world))
            continue;
        CHECK_STATUS(HF_OK, status);
        grants[1] = world_take(world->client, two.text, &options);
        status = hf_acquire(world->client, odd.text, &options, &grants[2]);
        CHECK(status == HF_OK || (status == HF_ENAME && may_refuse_names(world)));
        CHECK_TEXT(one.text, hf_grant_name(grants[0]));
        CHECK_NUMBER(1, world_listed(world, one.text).holders);
        CHECK_STATUS(HF_EBUSY, world_try(world->client, one.text, HF_EXCLUSIVE));
        for (int each = 0; each < 3; each++)
            CHECK_STATUS(HF_OK, hf_release(grants[each]));
    }
}

CASE(what_is_no_name_is_refused)
{
    char too_long[HF_NAME_BYTES_MAX + 2];
    char far_too_long[8192];
    const char *const bad[] = { "", too_long, far_too_long };
    bool can_break = (world->promises & HF_PROMISE_FENCE) && !world_caveat_names(world, "break");

    memset(too_long, 'n', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    memset(far_too_long, 'n', sizeof far_too_long - 1);
    far_too_long[sizeof far_too_long - 1] = '\0';

    for (int i = 0; i < 3; i++) {
        hf_grant *grant = UNTOUCHED(hf_grant);
        hf_claim *claim = UNTOUCHED(hf_claim);

        CHECK_STATUS(HF_ENAME, hf_acquire(world->client, bad[i], NULL, &grant));
        CHECK(strlen(hf_client_error(world->client)) > 0);
        CHECK_STATUS(HF_ENAME, hf_claim_start(world->client, bad[i], NULL, &claim));
        CHECK_STATUS(HF_ENAME, hf_client_break(world->client, bad[i], 1));
        CHECK(grant == UNTOUCHED(hf_grant) && claim == UNTOUCHED(hf_claim));
    }
    too_long[HF_NAME_BYTES_MAX] = '\0'; /* the longest that is one */
    CHECK_STATUS(can_break ? HF_ELOST : HF_EUNSUPPORTED,
                 hf_client_break(world->client, too_long, 1));
}

/* The library keeps no pointer into the caller's memory. */
CASE(names_and_texts_are_copied)
{
    struct name name = world_name(world, "lock");
    struct name copy = name;
    char purpose[32] = "for a while";
    char owner[32] = "alice";
    struct hf_acquire_options options = world_trying(world);
    hf_grant *outer;
    hf_grant *inner;

    options.purpose = purpose;
    options.owner = HF_OWNER_NAMED;
    options.owner_name = owner;
    outer = world_take(world->client, copy.text, &options);
    memset(copy.text, 'z', strlen(copy.text));
    memset(purpose, 'z', strlen(purpose));
    memset(owner, 'z', strlen(owner));
    CHECK_TEXT(name.text, hf_grant_name(outer));
    CHECK_NUMBER(1, world_listed(world, name.text).holders);
    options.owner_name = "alice";
    inner = world_take(world->client, name.text, &options);
    CHECK_NUMBER(hf_grant_fence(outer), hf_grant_fence(inner));
    world_give_back(inner);
    world_give_back(outer);
}
