/* case_list.c: can people see who holds and who waits, and does the list say only what is so? */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"
#include "world.h"

#define SEEN_MAX 128

/* Records live only during the visit: what a case wants to look at, it copies. */
struct seen {
    size_t count;
    struct {
        char name[HF_NAME_BYTES_MAX + 1];
        char host[128];
        char purpose[128];
        struct hf_holding holding;
    } entries[SEEN_MAX];
};

static int copy_one(const struct hf_holding *holding, void *context)
{
    struct seen *seen = (struct seen *)context;

    CHECK(seen->count < SEEN_MAX);
    CHECK(holding->name && holding->host && holding->purpose);
    snprintf(seen->entries[seen->count].name, sizeof seen->entries[0].name, "%s", holding->name);
    snprintf(seen->entries[seen->count].host, sizeof seen->entries[0].host, "%s", holding->host);
    snprintf(seen->entries[seen->count].purpose, sizeof seen->entries[0].purpose, "%s",
             holding->purpose);
    seen->entries[seen->count].holding = *holding;
    seen->count++;
    return 0;
}

static void look(hf_client *client, const char *glob, struct seen *seen)
{
    seen->count = 0;
    CHECK_STATUS(HF_OK, hf_client_list(client, glob, copy_one, seen));
}

/* Another program's layout has no room for host, process and purpose. */
static void check_who(const struct world *world, const struct seen *seen, size_t index,
                      const char *purpose, pid_t pid)
{
    const struct hf_holding *holding = &seen->entries[index].holding;
    char host[128];

    if (holding->pid == 0 && world->recipe.is_legacy)
        return;
    CHECK(gethostname(host, sizeof host) == 0);
    CHECK_NUMBER(pid, holding->pid);
    CHECK_TEXT(purpose, seen->entries[index].purpose);
    CHECK(strncmp(seen->entries[index].host, host, strlen(seen->entries[index].host)) == 0);
    CHECK(seen->entries[index].host[0] != '\0');
}

CASE(the_list_shows_every_field_of_a_holder)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, 60000);
    struct peer other = peer_start(world);
    struct seen seen;
    uint64_t fence;

    options.purpose = "nightly backup";
    fence = peer_acquire(&other, 0, name.text, &options);
    world_sleep_ms(20);
    look(world->client, name.text, &seen);
    CHECK_NUMBER(1, seen.count);
    CHECK(seen.entries[0].holding.struct_size >= sizeof(struct hf_holding));
    CHECK_TEXT(name.text, seen.entries[0].name);
    CHECK_NUMBER(HF_EXCLUSIVE, seen.entries[0].holding.mode);
    CHECK(!seen.entries[0].holding.waiting);
    CHECK_NUMBER(0, seen.entries[0].holding.position);
    CHECK(seen.entries[0].holding.fence == fence ||
          (!(world->promises & HF_PROMISE_FENCE) && seen.entries[0].holding.fence == 0));
    CHECK(seen.entries[0].holding.remaining_ms <= 60000);
    CHECK(seen.entries[0].holding.remaining_ms > 20000 ||
          ((world->recipe.is_legacy || world_has_sessions(world)) &&
           seen.entries[0].holding.remaining_ms == -1));
    CHECK(seen.entries[0].holding.age_ms >= 10 || seen.entries[0].holding.age_ms == -1);
    CHECK(seen.entries[0].holding.age_ms < 40000);
    check_who(world, &seen, 0, "nightly backup", other.pid);
    CHECK_STATUS(HF_OK, peer_release(&other, 0));
    look(world->client, name.text, &seen);
    CHECK_NUMBER(0, seen.count);
    peer_end(&other);
}

/* One that a server knows to stand in line may write down a moment later who it is. */
static bool is_known(const struct world *world, const char *name, size_t index, struct seen *seen)
{
    look(world->client, name, seen);
    return seen->count > index &&
           (world->recipe.is_legacy || seen->entries[index].holding.pid != 0);
}

CASE(the_list_shows_waiters_in_queue_order)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    struct peer waiters[3];
    struct seen seen;
    hf_grant *grant;

    if (!world_is_fair(world))
        return;

    grant = world_take(world->client, name.text, NULL);
    for (size_t i = 0; i < 3; i++) {
        char purpose[2] = { (char)('a' + i), '\0' };

        options.purpose = purpose;
        waiters[i] = peer_start(world);
        peer_ask_acquire(&waiters[i], 0, name.text, &options);
        world_wait_for_waiters(world, name.text, i + 1);
        WAIT_UNTIL(is_known(world, name.text, i + 1, &seen));
    }
    CHECK_NUMBER(4, seen.count);
    CHECK(!seen.entries[0].holding.waiting);
    check_who(world, &seen, 0, PURPOSE, getpid());
    for (size_t i = 1; i < 4; i++) {
        char purpose[2] = { (char)('a' + i - 1), '\0' };

        CHECK(seen.entries[i].holding.waiting);
        CHECK_NUMBER(i, seen.entries[i].holding.position);
        CHECK_NUMBER(HF_EXCLUSIVE, seen.entries[i].holding.mode);
        check_who(world, &seen, i, purpose, waiters[i - 1].pid);
    }
    world_give_back(grant);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(HF_OK, peer_hear(&waiters[i]).status);
        CHECK_STATUS(HF_OK, peer_release(&waiters[i], 0));
        peer_end(&waiters[i]);
    }
}

CASE(the_list_shows_modes)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_shared(world, HF_FOREVER);
    struct seen seen;
    hf_grant *grants[2];

    if (!world_can_share(world))
        return;

    grants[0] = world_take(world->client, name.text, &reading);
    grants[1] = world_take(world->client, name.text, &reading);
    look(world->client, name.text, &seen);
    CHECK_NUMBER(2, seen.count);
    for (size_t i = 0; i < 2; i++) {
        CHECK_NUMBER(HF_SHARED, seen.entries[i].holding.mode);
        CHECK_NUMBER(0, seen.entries[i].holding.position);
        CHECK(!seen.entries[i].holding.waiting);
    }
    world_give_back(grants[0]);
    world_give_back(grants[1]);
}

static size_t count_matches(struct world *world, const char *pattern)
{
    struct name glob = world_name(world, pattern);
    struct seen seen;

    look(world->client, glob.text, &seen);
    return seen.count;
}

CASE(the_list_matches_globs)
{
    static const char *const suffixes[] = { "a", "b", "ab", "a/b", "a*b", "a?b", "a\\b", "[a]" };
    static const struct {
        const char *pattern;
        size_t count;
    } globs[] = {
        { "*", 8 },     { "?", 2 },     { "a", 1 },      { "a*", 6 },  { "a?b", 4 },
        { "a\\*b", 1 }, { "a\\?b", 1 }, { "a\\\\b", 1 }, { "a/b", 1 }, { "*b", 6 },
        { "[a]", 1 },   { "[ab]", 0 },  { "??", 1 },     { "", 0 },    { "*?*", 8 },
        { "a**b", 5 },  { "\\a", 1 },   { "*/*", 1 },    { "c*", 0 },
    };
    hf_grant *grants[8];

    for (size_t i = 0; i < 8; i++) {
        struct name name = world_name(world, suffixes[i]);

        grants[i] = world_take(world->client, name.text, NULL);
    }
    for (size_t i = 0; i < sizeof globs / sizeof globs[0]; i++) {
        fprintf(stderr, "glob '%s'\n", globs[i].pattern);
        CHECK_NUMBER(globs[i].count, count_matches(world, globs[i].pattern));
    }
    for (size_t i = 0; i < 8; i++)
        world_give_back(grants[i]);
}

/* All entries of a name stand together, whatever the order of the names. */
CASE(the_list_goes_name_by_name)
{
    struct name glob = world_glob(world);
    hf_client *other = world_open(world);
    struct seen seen;
    hf_grant *grants[10];
    hf_claim *claims[10];
    size_t changes = 0;

    for (int i = 0; i < 10; i++) {
        char suffix[2] = { (char)('a' + i), '\0' };
        struct name name = world_name(world, suffix);

        grants[i] = world_take(world->client, name.text, NULL);
        claims[i] = world_claim(other, name.text, NULL);
        world_wait_for_waiters(world, name.text, 1);
    }
    look(world->client, glob.text, &seen);
    CHECK(seen.count == 20 || !(world->promises & HF_PROMISE_FAIR));
    for (size_t i = 1; i < seen.count; i++) {
        bool same = strcmp(seen.entries[i].name, seen.entries[i - 1].name) == 0;

        changes += !same;
        CHECK(!same || seen.entries[i].holding.position >= seen.entries[i - 1].holding.position);
        CHECK(same || !seen.entries[i].holding.waiting);
    }
    CHECK_NUMBER(9, changes);
    for (int i = 0; i < 10; i++) {
        hf_claim_free(claims[i]);
        world_give_back(grants[i]);
    }
    hf_close(other);
}

static int stop_at_second(const struct hf_holding *holding, void *context)
{
    int *visits = (int *)context;

    (void)holding;
    (*visits)++;
    return *visits == 2 ? 4242 : 0;
}

static int stop_with_negative(const struct hf_holding *holding, void *context)
{
    (void)holding;
    (void)context;
    return -77;
}

CASE(a_visitor_ends_the_listing_with_its_own_answer)
{
    struct name glob = world_glob(world);
    hf_grant *grants[4];
    int visits = 0;

    for (int i = 0; i < 4; i++) {
        char suffix[2] = { (char)('a' + i), '\0' };
        struct name name = world_name(world, suffix);

        grants[i] = world_take(world->client, name.text, NULL);
    }
    CHECK_NUMBER(4242, hf_client_list(world->client, glob.text, stop_at_second, &visits));
    CHECK_NUMBER(2, visits);
    CHECK_NUMBER(-77, hf_client_list(world->client, glob.text, stop_with_negative, NULL));
    for (int i = 0; i < 4; i++)
        world_give_back(grants[i]);
}

CASE(a_list_of_nothing_is_no_failure)
{
    struct name glob = world_glob(world);
    int visits = 0;

    CHECK_STATUS(HF_OK, hf_client_list(world->client, glob.text, stop_at_second, &visits));
    CHECK_NUMBER(0, visits);
}

struct search {
    const char *name;
    size_t found;
};

static int find_name(const struct hf_holding *holding, void *context)
{
    struct search *search = (struct search *)context;

    search->found += strcmp(holding->name, search->name) == 0;
    return 0;
}

CASE(a_list_without_a_glob_visits_all)
{
    struct name name = world_name(world, "lock");
    struct search search = { .name = name.text };
    hf_grant *grant = world_take(world->client, name.text, NULL);

    CHECK_STATUS(HF_OK, hf_client_list(world->client, NULL, find_name, &search));
    CHECK_NUMBER(1, search.found);
    world_give_back(grant);
}

struct visit {
    struct world *world;
    int visits;
};

/* No internal lock is held: every call is allowed from inside. */
static int call_back(const struct hf_holding *holding, void *context)
{
    struct visit *visit = (struct visit *)context;
    struct world *world = visit->world;
    struct name name = world_name(world, "inside");
    struct search search = { .name = holding->name };
    hf_grant *grant = world_take(world->client, name.text, NULL);

    CHECK_STATUS(HF_OK, hf_client_list(world->client, name.text, find_name, &search));
    world_give_back(grant);
    CHECK_NUMBER(0, holding->position); /* the record outlived the calls */
    visit->visits++;
    return 0;
}

CASE(a_visitor_may_call_the_library)
{
    struct name name = world_name(world, "lock");
    struct visit visit = { .world = world };
    hf_grant *grant = world_take(world->client, name.text, NULL);

    CHECK_STATUS(HF_OK, hf_client_list(world->client, name.text, call_back, &visit));
    CHECK_NUMBER(1, visit.visits);
    world_give_back(grant);
}

CASE(a_purpose_is_the_clients_unless_the_grant_has_one)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);
    struct hf_open_options open_options;
    struct seen seen;
    hf_client *client = NULL;
    hf_grant *grant = world_take(world->client, name.text, NULL);

    look(world->client, name.text, &seen);
    check_who(world, &seen, 0, PURPOSE, getpid());
    world_give_back(grant);

    options.purpose = "of the grant";
    grant = world_take(world->client, name.text, &options);
    look(world->client, name.text, &seen);
    check_who(world, &seen, 0, "of the grant", getpid());
    world_give_back(grant);

    hf_open_options_init(&open_options);
    CHECK_STATUS(HF_OK, hf_open(world->url, &open_options, &client));
    grant = world_take(client, name.text, NULL);
    look(world->client, name.text, &seen);
    check_who(world, &seen, 0, "conformance", getpid()); /* the program's name */
    world_give_back(grant);
    hf_close(client);
}

#define CROWD        2500 /* more than any store tells in one answer */
#define CROWD_LEASES 2    /* where they live in a session, to list them all takes a part of it */

CASE(a_crowd_of_readers_is_listed_whole)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options reading = world_fixed(world, LIMIT_MS);
    struct hf_acquire_options writing = world_fixed(world, LIMIT_MS);
    struct listed listed;
    hf_claim *claims[CROWD];
    hf_grant *grants[CROWD];
    hf_claim *writer;

    if (!world_can_share(world))
        return;
    hf_close(world->client);
    world->client = world_open_for(world, CROWD_LEASES * world->lease_ms);
    reading.mode = HF_SHARED;
    for (size_t i = 0; i < CROWD; i++)
        claims[i] = world_claim(world->client, name.text, &reading);
    for (size_t i = 0; i < CROWD; i++) {
        grants[i] = world_fetch(claims[i]);
        hf_claim_free(claims[i]);
    }
    writing.mode = HF_EXCLUSIVE;
    writer = world_claim(world->client, name.text, &writing);
    world_wait_for_waiters(world, name.text, 1);

    listed = world_listed(world, name.text);
    CHECK_NUMBER(CROWD, listed.holders);
    CHECK_NUMBER(1, listed.waiters);
    hf_claim_free(writer);
    for (size_t i = 0; i < CROWD; i++)
        hf_release_start(grants[i]);
}
