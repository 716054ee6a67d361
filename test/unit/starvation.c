/* starvation.c: what happens when memory runs out, wherever it does?
 *
 * One course through the public functions, over the embedded engine and without a thread: take
 * locks the short and the long way, nest, wait in line, try, list, give back. Every allocation of
 * it is refused in turn, once alone and once with all that come after it. Each call must answer
 * HF_ENOMEM or what it answers with plenty; what was taken can always be given back; and afterwards
 * nothing is left, neither in memory nor in the store. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "holdfast/holdfast.h"
#include "system.h"

#define WAIT_MS    10000
#define PATH_BYTES 256

struct place {
    char directory[PATH_BYTES];
    char url[PATH_BYTES + 8];
};

static void make_place(struct place *place)
{
    const char *base = getenv("TMPDIR");

    snprintf(place->directory, sizeof(place->directory), "%s/starvation-XXXXXX",
             base ? base : "/tmp");
    CHECK(mkdtemp(place->directory) != NULL);
    snprintf(place->url, sizeof(place->url), "file:%s", place->directory);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_place(const struct place *place)
{
    CHECK_EQUAL(nftw(place->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* --- the course --- */

/* As with plenty, or HF_ENOMEM. */
static bool worked(int status, int with_plenty)
{
    if (status != with_plenty)
        CHECK_EQUAL(status, HF_ENOMEM);
    return status == HF_OK;
}

static int open_client(const char *url, hf_client **out_client)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;

    options.caller_driven = true;
    options.purpose = "starvation";
    return hf_open(url, &options, out_client);
}

static hf_grant *acquire(hf_client *client, const char *name, const char *owner, int with_plenty)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_grant *grant = NULL;
    int status;

    options.wait_ms = 0;
    options.owner = owner ? HF_OWNER_NAMED : HF_OWNER_NONE;
    options.owner_name = owner;
    options.mode = owner ? HF_SHARED : HF_EXCLUSIVE;
    options.purpose = owner; /* with a purpose of its own it goes the long way */
    status = hf_acquire(client, name, &options, &grant);
    CHECK(worked(status, with_plenty) == (grant != NULL));
    return grant;
}

static hf_claim *queue(hf_client *client, const char *name)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_claim *claim = NULL;

    CHECK(worked(hf_claim_start(client, name, &options, &claim), HF_OK) == (claim != NULL));
    return claim;
}

static int count_one(const struct hf_holding *holding, void *context)
{
    size_t *count = context;

    CHECK(holding->name && holding->purpose && holding->host);
    ++*count;
    return 0;
}

/* What is held, and only that, can be given back. */
static void release(hf_grant *grant)
{
    CHECK_EQUAL(hf_release(grant), HF_OK);
}

static void follow_claim(hf_claim *claim)
{
    hf_grant *grant = NULL;

    if (!claim)
        return;
    worked(hf_claim_wait(claim, WAIT_MS, &grant), HF_OK);
    release(grant);
    hf_claim_free(claim);
}

static void drain_events(hf_client *client)
{
    struct hf_event event = { .struct_size = sizeof(event) };
    int got = 1;

    while (got > 0)
        got = hf_client_next_event(client, &event);
    CHECK_EQUAL(got, 0);
}

static void run_course(const char *url)
{
    hf_client *client = NULL;
    hf_grant *one, *two, *inner, *many[40];
    hf_claim *claim;
    size_t listed = 0;

    if (!worked(open_client(url, &client), HF_OK)) {
        CHECK(!client);
        return;
    }
    one = acquire(client, "one", NULL, HF_OK);
    two = acquire(client, "two", "anna", HF_OK);
    inner = acquire(client, "two", "anna", HF_OK);
    claim = queue(client, "one");
    if (one)
        CHECK(!acquire(client, "one", NULL, HF_EBUSY));
    for (size_t i = 0; i < 40; i++) {
        char name[16];

        snprintf(name, sizeof(name), "many/%zu", i);
        many[i] = acquire(client, name, i % 2 ? "bert" : NULL, HF_OK);
    }
    worked(hf_client_list(client, "*", count_one, &listed), HF_OK);
    release(one);
    follow_claim(claim);
    release(inner);
    release(two);
    for (size_t i = 0; i < 40; i++)
        release(many[i]);
    drain_events(client);
    hf_close(client);
}

static void check_nothing_is_left(const char *url)
{
    hf_client *client = NULL;
    size_t listed = 0;

    CHECK_EQUAL(open_client(url, &client), HF_OK);
    CHECK_EQUAL(hf_client_list(client, NULL, count_one, &listed), HF_OK);
    CHECK_EQUAL(listed, 0);
    release(acquire(client, "one", NULL, HF_OK));
    release(acquire(client, "two", NULL, HF_OK));
    hf_close(client);
}

/* How many allocations there are to refuse. */
static size_t refuse_in_turn(bool later)
{
    struct place place;
    size_t refused = 1;
    size_t nth = 0;

    make_place(&place);
    while (refused > 0) {
        nth++;
        system_as_usual();
        atomic_store(&system_control.calloc_refuse_at, nth);
        atomic_store(&system_control.calloc_refuse_later, later);
        run_course(place.url);
        refused = atomic_load(&system_control.calloc_refused);
        CHECK_EQUAL(atomic_load(&system_control.blocks), 0);
        system_as_usual();
        check_nothing_is_left(place.url);
        CHECK_EQUAL(atomic_load(&system_control.blocks), 0);
    }
    remove_place(&place);
    return nth - 1;
}

TEST(starvation, one_refusal_anywhere_is_survived)
{
    CHECK(refuse_in_turn(false) > 100);
}

TEST(starvation, no_memory_from_any_point_on_is_survived)
{
    CHECK(refuse_in_turn(true) > 100);
}
