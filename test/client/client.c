/* client.c: what does each call of the library answer on this server?
 *
 * Reads orders, one on a line, and prints a line for each: the status as a number and the text of a
 * failure, or what was asked for.
 *
 *     open CONNECT_MS REQUIRE URL    promises    close
 *     acquire LEASE_MS WAIT_MS NAME    valid    remaining    extend MS    downgrade    release
 *     start LEASE_MS WAIT_MS NAME    wait MS    position    cancel
 *     event    list GLOB    break FENCE NAME
 *     crowd COUNT LEASE_MS NAME    so many readers at once, by leases that nobody renews: how many
 *                                  hold it when the last of them does? They leave then.
 *     turns THREADS TURNS NAME     each thread has a lock of its own, NAME-NUMBER, and takes it so
 *                                  often: how many turns they had, and how many connections were
 *                                  lost meanwhile
 *     gather COUNT LEASE_MS NAME   takes as many locks, NAME-NUMBER
 *     muster COUNT LEASE_MS NAME   tries to, each by a thread of its own: what each was answered
 *     volley COUNT LEASE_MS NAME   one thread starts to take as many, waits for all of them, and
 *                                  starts to give them back: how many were granted and released
 *     scatter    gives them back, each by a thread of its own: what each was answered
 *     lease MS    mode MODE    of what is opened, acquired and started from then on
 *     hold    waits for the end of validity; prints when it was last seen, in ns since boot
 *
 * `event` waits for one. */
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <holdfast/holdfast.h>

#define LINE_BYTES 4096
#define EVENT_MS   60000
#define LOOK_MS    1
#define NS_PER_S   1000000000
#define NAME_BYTES 64

struct world {
    hf_client *client;
    hf_claim *claim;
    hf_grant *grant;
    int64_t first; /* the numbers of the order */
    int64_t second;
    const char *text; /* what follows them */
    int64_t lease_ms;
    int mode;
    hf_grant **gathered;
    size_t gathered_count;
};

static void assert_ok(int status)
{
    if (status != HF_OK) {
        printf("%d: %s\n", status, hf_strstatus(status));
        exit(EXIT_FAILURE);
    }
}

static void answer(const struct world *world, int status)
{
    const char *text = status < 0 ? hf_client_error(world->client) : "";

    if (status == HF_OK && world->grant)
        printf("%d %" PRIu64 "\n", status, hf_grant_fence(world->grant));
    else
        printf("%d %s\n", status, text);
}

static void do_open(struct world *world)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;

    options.connect_ms = world->first;
    options.require = (uint32_t)world->second;
    options.lease_ms = world->lease_ms;
    answer(world, hf_open(world->text, &options, &world->client));
}

static struct hf_acquire_options terms(const struct world *world)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = world->first;
    options.wait_ms = world->second;
    options.mode = world->mode;
    return options;
}

static void do_acquire(struct world *world)
{
    struct hf_acquire_options options = terms(world);

    answer(world, hf_acquire(world->client, world->text, &options, &world->grant));
}

static void do_start(struct world *world)
{
    struct hf_acquire_options options = terms(world);

    answer(world, hf_claim_start(world->client, world->text, &options, &world->claim));
}

static void do_wait(struct world *world)
{
    answer(world, hf_claim_wait(world->claim, world->first, &world->grant));
}

static void do_position(struct world *world)
{
    printf("%d\n", hf_claim_position(world->claim));
}

static void do_valid(struct world *world)
{
    printf("%d\n", hf_grant_valid(world->grant));
}

static void do_remaining(struct world *world)
{
    printf("%" PRId64 "\n", hf_grant_remaining_ms(world->grant));
}

static int64_t now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_BOOTTIME, &time);
    return (int64_t)time.tv_sec * NS_PER_S + time.tv_nsec;
}

static void do_hold(struct world *world)
{
    int64_t look_ns = now_ns();
    int64_t valid_ns = 0;

    while (hf_grant_valid(world->grant)) {
        valid_ns = look_ns;
        (void)poll(NULL, 0, LOOK_MS);
        look_ns = now_ns();
    }
    printf("%" PRId64 "\n", valid_ns);
}

static void do_downgrade(struct world *world)
{
    answer(world, hf_grant_downgrade(world->grant));
}

static void do_cancel(struct world *world)
{
    hf_claim_free(world->claim);
    world->claim = NULL;
    printf("%d\n", HF_OK);
}

static void do_lease(struct world *world)
{
    world->lease_ms = world->first;
    printf("%d\n", HF_OK);
}

static void do_mode(struct world *world)
{
    world->mode = (int)world->first;
    printf("%d\n", HF_OK);
}

static void do_extend(struct world *world)
{
    answer(world, hf_grant_extend(world->grant, world->first));
}

static void do_release(struct world *world)
{
    int status = hf_release(world->grant);

    world->grant = NULL;
    answer(world, status);
}

static void do_event(struct world *world)
{
    static const char *const kinds[] = { [HF_EVENT_GRANTED] = "granted",
                                         [HF_EVENT_AT_RISK] = "at-risk",
                                         [HF_EVENT_SAFE] = "safe",
                                         [HF_EVENT_LOST] = "lost",
                                         [HF_EVENT_RELEASED] = "released" };
    struct pollfd waits = { .fd = hf_client_event_fd(world->client), .events = POLLIN };
    struct hf_event event = { .struct_size = sizeof(event) };

    (void)poll(&waits, 1, EVENT_MS);
    if (hf_client_next_event(world->client, &event) == 1)
        printf("%s %s\n", kinds[event.kind], event.cause ? event.cause : "");
    else
        printf("none\n");
}

static int count_one(const struct hf_holding *holding, void *context)
{
    *(int *)context += holding->name != NULL;
    return 0;
}

static void do_list(struct world *world)
{
    int count = 0;
    int status = hf_client_list(world->client, world->text, count_one, &count);

    if (status == HF_OK)
        printf("%d %d\n", status, count);
    else
        answer(world, status);
}

static void do_break(struct world *world)
{
    answer(world, hf_client_break(world->client, world->text, (uint64_t)world->first));
}

static void do_crowd(struct world *world)
{
    size_t count = (size_t)world->first;
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_claim **claims = calloc(count, sizeof(*claims));
    hf_grant **grants = calloc(count, sizeof(*grants));
    int valid = 0;

    assert(claims && grants);
    options.lease_ms = world->second;
    options.fixed_lease = true;
    options.wait_ms = HF_FOREVER;
    options.mode = HF_SHARED;
    for (size_t i = 0; i < count; i++)
        assert_ok(hf_claim_start(world->client, world->text, &options, &claims[i]));
    for (size_t i = 0; i < count; i++)
        assert_ok(hf_claim_wait(claims[i], HF_FOREVER, &grants[i]));
    for (size_t i = 0; i < count; i++)
        valid += hf_grant_valid(grants[i]) == 1;
    for (size_t i = 0; i < count; i++) {
        hf_claim_free(claims[i]);
        hf_release_start(grants[i]);
    }
    free(claims);
    free(grants);
    printf("%d\n", valid);
}

struct thread {
    struct world *world;
    pthread_t id;
    size_t number;
    int64_t turns;
    int status;
};

static void name_of(const struct world *world, size_t number, char out_name[NAME_BYTES])
{
    (void)snprintf(out_name, NAME_BYTES, "%s-%zu", world->text, number);
}

/* One for each number; returns when the last of them has ended. */
static struct thread *run_threads(struct world *world, size_t count, void *(*act)(void *))
{
    struct thread *threads = calloc(count, sizeof(*threads));

    assert(threads);
    for (size_t i = 0; i < count; i++) {
        threads[i].world = world;
        threads[i].number = i;
        if (pthread_create(&threads[i].id, NULL, act, &threads[i]) != 0)
            assert_ok(HF_ESYSTEM);
    }
    for (size_t i = 0; i < count; i++)
        (void)pthread_join(threads[i].id, NULL);
    return threads;
}

static void *take_turns(void *context)
{
    struct thread *thread = context;
    char name[NAME_BYTES];
    hf_grant *grant;

    name_of(thread->world, thread->number, name);
    while (thread->turns < thread->world->second) {
        assert_ok(hf_acquire(thread->world->client, name, NULL, &grant));
        assert_ok(hf_release(grant));
        thread->turns++;
    }
    return NULL;
}

static void do_turns(struct world *world)
{
    size_t count = (size_t)world->first;
    struct thread *threads = run_threads(world, count, take_turns);
    struct hf_client_stats stats = { .struct_size = sizeof(stats) };
    int64_t turns = 0;

    for (size_t i = 0; i < count; i++)
        turns += threads[i].turns;
    free(threads);
    assert_ok(hf_client_stats(world->client, &stats));
    printf("%" PRId64 " %" PRIu64 "\n", turns, stats.reconnected);
}

static void make_room(struct world *world)
{
    world->gathered_count = (size_t)world->first;
    world->gathered = calloc(world->gathered_count, sizeof(*world->gathered));
    assert(world->gathered);
}

static void do_gather(struct world *world)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    char name[NAME_BYTES];

    make_room(world);
    options.lease_ms = world->second;
    for (size_t i = 0; i < world->gathered_count; i++) {
        name_of(world, i, name);
        assert_ok(hf_acquire(world->client, name, &options, &world->gathered[i]));
    }
    printf("%d\n", HF_OK);
}

static void *give_back(void *context)
{
    struct thread *thread = context;

    thread->status = hf_release(thread->world->gathered[thread->number]);
    return NULL;
}

/* What each of them was answered. */
static void tell_statuses(struct world *world, void *(*act)(void *))
{
    struct thread *threads = run_threads(world, world->gathered_count, act);

    for (size_t i = 0; i < world->gathered_count; i++)
        printf("%d%c", threads[i].status, i + 1 < world->gathered_count ? ' ' : '\n');
    free(threads);
}

static void *try_one(void *context)
{
    struct thread *thread = context;
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    char name[NAME_BYTES];

    name_of(thread->world, thread->number, name);
    options.lease_ms = thread->world->second;
    options.wait_ms = 0;
    thread->status =
        hf_acquire(thread->world->client, name, &options, &thread->world->gathered[thread->number]);
    return NULL;
}

static void do_muster(struct world *world)
{
    make_room(world);
    tell_statuses(world, try_one);
}

static void do_scatter(struct world *world)
{
    tell_statuses(world, give_back);
    free(world->gathered);
    world->gathered = NULL;
}

static int count_releases(struct world *world, size_t count)
{
    struct pollfd waits = { .fd = hf_client_event_fd(world->client), .events = POLLIN };
    struct hf_event event = { .struct_size = sizeof(event) };
    int released = 0;

    for (size_t told = 0; told < count;) {
        int found = hf_client_next_event(world->client, &event);

        if (found == 0 && poll(&waits, 1, EVENT_MS) <= 0)
            return released;
        if (found == 1 && event.kind == HF_EVENT_RELEASED) {
            told++;
            released += event.status == HF_OK;
        }
    }
    return released;
}

static void do_volley(struct world *world)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    size_t count = (size_t)world->first;
    hf_claim **claims = calloc(count, sizeof(*claims));
    char name[NAME_BYTES];

    make_room(world);
    assert(claims);
    options.lease_ms = world->second;
    for (size_t i = 0; i < count; i++) {
        name_of(world, i, name);
        assert_ok(hf_claim_start(world->client, name, &options, &claims[i]));
    }
    for (size_t i = 0; i < count; i++) {
        assert_ok(hf_claim_wait(claims[i], HF_FOREVER, &world->gathered[i]));
        hf_claim_free(claims[i]);
    }
    for (size_t i = 0; i < count; i++)
        hf_release_start(world->gathered[i]);
    printf("%zu %d\n", count, count_releases(world, count));
    free(claims);
    free(world->gathered);
    world->gathered = NULL;
}

static void do_promises(struct world *world)
{
    printf("%" PRIu32 "\n", hf_client_promises(world->client));
}

static void do_close(struct world *world)
{
    hf_claim_free(world->claim);
    world->claim = NULL;
    hf_close(world->client);
    world->client = NULL;
    printf("%d\n", HF_OK);
}

static const struct {
    const char *word;
    int numbers; /* how many follow it */
    void (*act)(struct world *world);
} orders[] = {
    { "open", 2, do_open },         { "acquire", 2, do_acquire },     { "start", 2, do_start },
    { "wait", 1, do_wait },         { "position", 0, do_position },   { "valid", 0, do_valid },
    { "extend", 1, do_extend },     { "release", 0, do_release },     { "event", 0, do_event },
    { "list", 0, do_list },         { "break", 1, do_break },         { "close", 0, do_close },
    { "promises", 0, do_promises }, { "downgrade", 0, do_downgrade }, { "hold", 0, do_hold },
    { "cancel", 0, do_cancel },     { "remaining", 0, do_remaining }, { "lease", 1, do_lease },
    { "mode", 1, do_mode },         { "crowd", 2, do_crowd },         { "turns", 2, do_turns },
    { "gather", 2, do_gather },     { "scatter", 0, do_scatter },     { "muster", 2, do_muster },
    { "volley", 2, do_volley },
};

static void obey(struct world *world, char *line)
{
    char *next = line + strcspn(line, " \n");

    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        if (strlen(orders[i].word) != (size_t)(next - line) ||
            memcmp(orders[i].word, line, (size_t)(next - line)) != 0)
            continue;
        if (orders[i].numbers > 0)
            world->first = strtoll(next, &next, 10);
        if (orders[i].numbers > 1)
            world->second = strtoll(next, &next, 10);
        next += strspn(next, " ");
        next[strcspn(next, "\n")] = '\0';
        world->text = next;
        orders[i].act(world);
        return;
    }
    assert(!"an order");
}

int main(void)
{
    struct world world = { .first = 0 };
    char line[LINE_BYTES];

    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), stdin))
        obey(&world, line);
    if (world.client)
        hf_close(world.client);
    return 0;
}
