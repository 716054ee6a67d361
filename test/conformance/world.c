/* world.c: what does a case find, and how does it tell what it saw?
 *
 * A case opens clients, takes locks and checks. A failed check prints where and what, and ends the
 * process at once: the threads and handles of a case that has failed are nobody's business. A case
 * that passed is looked at once more: everything that it left in the store must be gone, perhaps
 * only when the leases of those it killed have ended.
 *
 * What may be refused comes from the promises of the live store and from the recipe's own caveat;
 * a refusal counts only with the documented code. */

#include "world.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LITTLE_NS 1000000 /* between two looks */

/* clang-format off */
static const struct {
    int status;
    const char *name;
} status_names[] = {
    { HF_PENDING, "HF_PENDING" },           { HF_OK, "HF_OK" },
    { HF_EBUSY, "HF_EBUSY" },               { HF_ETIMEDOUT, "HF_ETIMEDOUT" },
    { HF_ECANCELLED, "HF_ECANCELLED" },     { HF_EUNREACHABLE, "HF_EUNREACHABLE" },
    { HF_EUNKNOWN, "HF_EUNKNOWN" },         { HF_ELOST, "HF_ELOST" },
    { HF_EINVAL, "HF_EINVAL" },             { HF_ENAME, "HF_ENAME" },
    { HF_EURL, "HF_EURL" },                 { HF_EUNSUPPORTED, "HF_EUNSUPPORTED" },
    { HF_EPROMISE, "HF_EPROMISE" },         { HF_EDEADLOCK, "HF_EDEADLOCK" },
    { HF_EFORKED, "HF_EFORKED" },           { HF_EDENIED, "HF_EDENIED" },
    { HF_EPROTOCOL, "HF_EPROTOCOL" },       { HF_EINTEGRITY, "HF_EINTEGRITY" },
    { HF_ELIMIT, "HF_ELIMIT" },             { HF_ENOMEM, "HF_ENOMEM" },
    { HF_ESYSTEM, "HF_ESYSTEM" },
};
/* clang-format on */

const char *world_status_name(int status)
{
    for (size_t i = 0; i < sizeof status_names / sizeof status_names[0]; i++) {
        if (status_names[i].status == status)
            return status_names[i].name;
    }
    return "no such status";
}

_Noreturn void world_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, what);
    fflush(stderr);
    _exit(1);
}

void world_check_status(const char *file, int line, const char *call, int expected, int actual)
{
    if (actual == expected)
        return;

    fprintf(stderr, "%s:%d: %s answered %s (%d), not %s; last failure: '%s'\n", file, line, call,
            world_status_name(actual), actual, world_status_name(expected), hf_client_error(NULL));
    fflush(stderr);
    _exit(1);
}

void world_check_number(const char *file, int line, const char *what, int64_t expected,
                        int64_t actual)
{
    if (actual == expected)
        return;

    fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", file, line, what, (long long)actual,
            (long long)expected);
    fflush(stderr);
    _exit(1);
}

void world_check_text(const char *file, int line, const char *what, const char *expected,
                      const char *actual)
{
    if (actual && strcmp(actual, expected) == 0)
        return;

    fprintf(stderr, "%s:%d: %s is '%s', not '%s'\n", file, line, what, actual ? actual : "NULL",
            expected);
    fflush(stderr);
    _exit(1);
}

uint64_t world_now_ns(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
        world_fail(__FILE__, __LINE__, "CLOCK_BOOTTIME can be read");
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void world_sleep_ms(int64_t ms)
{
    uint64_t until_ns = world_now_ns() + (uint64_t)ms * NS_PER_MS;
    struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000ull),
                              .tv_nsec = (long)(until_ns % 1000000000ull) };

    while (world_now_ns() < until_ns)
        clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL);
}

void world_wait_a_little(uint64_t until_ns, const char *file, int line, const char *what)
{
    struct timespec little = { .tv_nsec = LITTLE_NS };

    if (world_now_ns() > until_ns)
        world_fail(file, line, what);
    nanosleep(&little, NULL);
}

int world_thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    CHECK(tasks);
    for (struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

#ifdef __SANITIZE_ADDRESS__
#define FORKS_AT_ANY_MOMENT false
#else
#define FORKS_AT_ANY_MOMENT true
#endif

/* Its name may hold what looks like a state. */
static bool task_sleeps(int tasks_fd, const char *id)
{
    char text[512];
    char path[64];
    const char *name_end;
    ssize_t bytes;
    int fd;

    snprintf(path, sizeof path, "%s/stat", id);
    fd = openat(tasks_fd, path, O_RDONLY | O_CLOEXEC);
    bytes = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = '\0'; /* it may have ended since it was listed */
    name_end = strrchr(text, ')');
    return !name_end || strncmp(name_end, ") S", 3) == 0;
}

static bool other_threads_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool all_sleep = true;

    CHECK(tasks);
    for (struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks)) {
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != gettid())
            all_sleep = all_sleep && task_sleeps(dirfd(tasks), entry->d_name);
    }
    closedir(tasks);
    return all_sleep;
}

pid_t world_fork(void)
{
    pid_t pid;

    WAIT_UNTIL(FORKS_AT_ANY_MOMENT || other_threads_sleep());
    pid = fork();
    CHECK(pid >= 0);
    return pid;
}

static bool scheme_matches(const char *forms, const char *url)
{
    size_t bytes = strcspn(url, ":") + 1; /* with its colon */

    for (const char *form = forms; form; form = strchr(form, ' ')) {
        form += *form == ' ';
        if (strncmp(form, url, bytes) == 0)
            return true;
    }
    return false;
}

/* Chosen by ?recipe=, or the engine's default. */
struct hf_recipe_info world_recipe(const char *url)
{
    struct hf_recipe_info info = { .struct_size = sizeof info };
    const char *chosen = strstr(url, "recipe=");
    const char *recipe = chosen ? chosen + strlen("recipe=") : "";
    size_t recipe_bytes = strcspn(recipe, "&");

    for (size_t i = 0; hf_recipe_info(i, &info) == 1; i++) {
        bool named =
            strlen(info.recipe) == recipe_bytes && strncmp(info.recipe, recipe, recipe_bytes) == 0;

        if (scheme_matches(info.url_forms, url) && (chosen ? named : info.is_default))
            return info;
    }
    world_fail(__FILE__, __LINE__, "hf_recipe_info() knows the recipe of this URL");
}

void world_begin(struct world *world)
{
    world->recipe = world_recipe(world->url);
    world->client = world_open(world);
    world->promises = hf_client_promises(world->client);
}

static int count_one(const struct hf_holding *holding, void *context)
{
    struct listed *listed = (struct listed *)context;

    listed->waiters += holding->waiting;
    listed->holders += !holding->waiting;
    return 0;
}

static int tell_one(const struct hf_holding *holding, void *context)
{
    (void)context;
    fprintf(stderr, "left behind: '%s' %s by process %lld\n", holding->name,
            holding->waiting ? "waited for" : "held", (long long)holding->pid);
    return 0;
}

static struct listed count_matching(hf_client *client, const char *glob)
{
    struct listed listed = { 0 };

    CHECK_STATUS(HF_OK, hf_client_list(client, glob, count_one, &listed));
    return listed;
}

static bool left_nothing(hf_client *client, const char *glob)
{
    struct listed listed = count_matching(client, glob);

    return listed.holders + listed.waiters == 0;
}

void world_end(struct world *world)
{
    struct name glob = world_glob(world);
    uint64_t until_ns = world_now_ns() + LIMIT_MS * NS_PER_MS;
    hf_client *looker;

    if (world->client)
        CHECK_NUMBER(0, world_stats(world->client).rescued); /* every hand-over by a wake-up */
    hf_close(world->client);
    world->client = NULL;

    looker = world_open(world);
    while (!left_nothing(looker, glob.text) && world_now_ns() < until_ns)
        world_sleep_ms(1);
    if (!left_nothing(looker, glob.text)) {
        CHECK_STATUS(HF_OK, hf_client_list(looker, glob.text, tell_one, NULL));
        world_fail(__FILE__, __LINE__, "nothing is left in the store");
    }
    hf_close(looker);
}

struct name world_name(const struct world *world, const char *suffix)
{
    struct name name;
    int bytes = snprintf(name.text, sizeof name.text, "%s%s", world->prefix, suffix);

    CHECK(bytes > 0 && (size_t)bytes < sizeof name.text);
    return name;
}

struct name world_glob(const struct world *world)
{
    return world_name(world, "*");
}

bool world_has_sessions(const struct world *world)
{
    return strncmp(world->url, "zookeeper", strlen("zookeeper")) == 0;
}

bool world_agrees_first(const struct world *world)
{
    return world_has_sessions(world) || strncmp(world->url, "etcd", strlen("etcd")) == 0;
}

int64_t world_left_ms(const struct world *world, int64_t ms)
{
    int64_t session_ms = world->lease_ms / 2; /* and never less than that is left of it */

    return world_has_sessions(world) && session_ms < ms ? session_ms : ms;
}

int64_t world_brief_ms(const struct world *world)
{
    return strncmp(world->url, "file:", strlen("file:")) == 0 ? 200 : 2000;
}

static hf_client *open_as(const struct world *world, int64_t lease_ms, bool is_driven)
{
    struct hf_open_options options;
    hf_client *client = NULL;

    hf_open_options_init(&options);
    options.connect_ms = LIMIT_MS; /* how long a busy store takes is not judged here */
    options.lease_ms = lease_ms;
    options.purpose = PURPOSE;
    options.caller_driven = is_driven;
    CHECK_STATUS(HF_OK, hf_open(world->url, &options, &client));
    CHECK(client);
    return client;
}

hf_client *world_open(const struct world *world)
{
    return open_as(world, world->lease_ms, false);
}

hf_client *world_open_for(const struct world *world, int64_t lease_ms)
{
    return open_as(world, lease_ms, false);
}

hf_client *world_open_driven(const struct world *world)
{
    return open_as(world, world->lease_ms, true);
}

struct hf_acquire_options world_waiting(const struct world *world, int64_t wait_ms)
{
    struct hf_acquire_options options;

    hf_acquire_options_init(&options);
    options.lease_ms = world->lease_ms;
    options.wait_ms = wait_ms;
    return options;
}

struct hf_acquire_options world_trying(const struct world *world)
{
    return world_waiting(world, 0);
}

struct hf_acquire_options world_shared(const struct world *world, int64_t wait_ms)
{
    struct hf_acquire_options options = world_waiting(world, wait_ms);

    options.mode = HF_SHARED;
    return options;
}

struct hf_acquire_options world_fixed(const struct world *world, int64_t lease_ms)
{
    struct hf_acquire_options options = world_waiting(world, HF_FOREVER);

    options.lease_ms = lease_ms;
    options.fixed_lease = true;
    return options;
}

hf_grant *world_take(hf_client *client, const char *name, const struct hf_acquire_options *options)
{
    hf_grant *grant = NULL;

    CHECK_STATUS(HF_OK, hf_acquire(client, name, options, &grant));
    CHECK(grant);
    return grant;
}

hf_claim *world_claim(hf_client *client, const char *name, const struct hf_acquire_options *options)
{
    hf_claim *claim = NULL;

    CHECK_STATUS(HF_OK, hf_claim_start(client, name, options, &claim));
    CHECK(claim);
    return claim;
}

hf_grant *world_fetch(hf_claim *claim)
{
    hf_grant *grant = NULL;

    CHECK_STATUS(HF_OK, hf_claim_wait(claim, LIMIT_MS, &grant));
    CHECK(grant);
    return grant;
}

void world_give_back(hf_grant *grant)
{
    CHECK_STATUS(HF_OK, hf_release(grant));
}

int world_try(hf_client *client, const char *name, int mode)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_grant *grant = NULL;
    int status;

    options.wait_ms = 0;
    options.mode = mode;
    status = hf_acquire(client, name, &options, &grant);
    if (status == HF_OK)
        world_give_back(grant);
    return status;
}

bool world_fd_readable(int fd)
{
    struct pollfd descriptor = { .fd = fd, .events = POLLIN };

    CHECK(fd >= 0);
    return poll(&descriptor, 1, 0) == 1 && (descriptor.revents & POLLIN);
}

struct hf_event world_event(hf_client *client, int kind)
{
    struct hf_event event = { .struct_size = sizeof event };
    struct pollfd descriptor = { .fd = hf_client_event_fd(client), .events = POLLIN };

    CHECK_NUMBER(1, poll(&descriptor, 1, LIMIT_MS));
    CHECK_NUMBER(1, hf_client_next_event(client, &event));
    CHECK_NUMBER(kind, event.kind);
    return event;
}

bool world_tells_break(const char *cause)
{
    return cause && (strcmp(cause, "broken") == 0 || strcmp(cause, "gone from the store") == 0);
}

struct hf_client_stats world_stats(hf_client *client)
{
    struct hf_client_stats stats = { .struct_size = sizeof stats };

    CHECK_STATUS(HF_OK, hf_client_stats(client, &stats));
    return stats;
}

/* The glob that matches this name alone. */
static struct glob escape(const char *name)
{
    struct glob glob;
    size_t bytes = 0;

    for (const char *at = name; *at; at++) {
        CHECK(bytes + 2 < sizeof glob.text);
        if (*at == '*' || *at == '?' || *at == '\\')
            glob.text[bytes++] = '\\';
        glob.text[bytes++] = *at;
    }
    glob.text[bytes] = '\0';
    return glob;
}

struct listed world_listed(const struct world *world, const char *name)
{
    struct glob glob = escape(name);

    return count_matching(world->client, glob.text);
}

void world_wait_for_waiters(const struct world *world, const char *name, size_t count)
{
    if (!(world->promises & HF_PROMISE_FAIR)) {
        world_sleep_ms(A_WHILE_MS);
        return;
    }
    WAIT_UNTIL(world_listed(world, name).waiters == count);
}

/* A client that requires what is not promised is refused. */
static bool is_promised(struct world *world, uint32_t promises)
{
    struct hf_open_options options;
    hf_client *client = NULL;

    if ((world->promises & promises) == promises)
        return true;

    hf_open_options_init(&options);
    options.require = promises;
    CHECK_STATUS(HF_EPROMISE, hf_open(world->url, &options, &client));
    world->refused = HF_EPROMISE;
    return false;
}

bool world_has_fences(struct world *world)
{
    return is_promised(world, HF_PROMISE_FENCE);
}

bool world_is_fair(struct world *world)
{
    return is_promised(world, HF_PROMISE_FAIR);
}

bool world_frees_the_dead(struct world *world)
{
    return is_promised(world, HF_PROMISE_CRASH);
}

bool world_can_share(struct world *world)
{
    struct name name = world_name(world, "can-share");
    struct hf_acquire_options options = world_shared(world, 0);
    hf_grant *grant = UNTOUCHED(hf_grant);

    if (world->promises & HF_PROMISE_SHARED)
        return true;

    CHECK_STATUS(HF_EUNSUPPORTED, hf_acquire(world->client, name.text, &options, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    world->refused = HF_EUNSUPPORTED;
    return false;
}

bool world_caveat_names(const struct world *world, const char *word)
{
    return strstr(world->recipe.caveat, word) != NULL;
}

bool world_can_downgrade(struct world *world)
{
    struct name name = world_name(world, "can-downgrade");
    hf_grant *grant = NULL;

    if (world_can_share(world) && !world_caveat_names(world, "downgrade"))
        return true;

    grant = world_take(world->client, name.text, NULL);
    CHECK_STATUS(HF_EUNSUPPORTED, hf_grant_downgrade(grant));
    CHECK(hf_grant_valid(grant));
    CHECK_NUMBER(HF_EXCLUSIVE, hf_grant_mode(grant));
    world_give_back(grant);
    world->refused = HF_EUNSUPPORTED;
    return false;
}

bool world_can_break(struct world *world)
{
    struct name name = world_name(world, "can-break");
    hf_grant *grant = NULL;

    /* Of the recipe, not of this store: who cannot promise that fences rise can still break. */
    if (world->recipe.promises & HF_PROMISE_FENCE && !world_caveat_names(world, "break"))
        return true;

    grant = world_take(world->client, name.text, NULL);
    CHECK_STATUS(HF_EUNSUPPORTED, hf_client_break(world->client, name.text, hf_grant_fence(grant)));
    CHECK(hf_grant_valid(grant));
    world_give_back(grant);
    world->refused = HF_EUNSUPPORTED;
    return false;
}
