/* client.c (hostile): what does a program see of a server that means harm?
 *
 *     client URL GOOD-URL NAME [first] [fences] [patient] [longer] [breaks] [crowd] [mended]
 *            [extra WAIT-MS]
 *
 * Uses every kind of request on URL once: it takes NAME, extends, downgrades, breaks, gives back,
 * lists a lock that is held through GOOD-URL, and waits for it in vain. `first`: GOOD-URL is opened
 * only when it is needed. `fences`: NAME is taken through GOOD-URL too, before (unless `first`) and
 * after. `patient`: it has time, because it must succeed. `longer`: it extends to another length
 * than it took it for. `breaks`: it takes NAME-broken away from the honest one. `crowd`: many
 * threads take locks of their own, again and again, and all at once. `mended`: at last it prints
 * `mend`, waits for a line, from when on the server is honest, and takes NAME-mended. `extra`:
 * before all that it takes NAME-extra, which somebody else has left there.
 *
 * Prints a line for each call, `CALL STATUS MILLISECONDS TEXT`; a line `fence CALL NUMBER` for each
 * grant; and last `memory N`: the most that this process ever had in memory, in KiB. It exits with
 * 0 whatever the answers were. */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#define CONNECT_MS      1000
#define LEASE_MS        300
#define WAIT_MS         700
#define LONGER_MS       4000
#define PATIENT_MS      5000
#define PATIENT_WAIT_MS 2500 /* in vain: long enough for the answers, and no longer */
#define FULL_MS         20000
#define AGAIN_US        50000

#define THREADS   8
#define CYCLES    40
#define NO_STATUS (-99) /* a fence that did not rise */

struct plan {
    const char *url;
    const char *good_url;
    const char *name;
    bool first;
    bool fences;
    bool patient;
    bool longer;
    bool breaks;
    bool mended;
    bool crowd;
    int64_t extra_ms; /* 0: none */
};

static int64_t now_ms(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int tell(const hf_client *client, const char *call, int status, int64_t began_ms)
{
    (void)printf("%s %d %" PRId64 " %s\n", call, status, now_ms() - began_ms,
                 status < 0 ? hf_client_error(client) : "");
    (void)fflush(stdout);
    return status;
}

static int open_client(const char *url, const char *call, int64_t connect_ms,
                       hf_client **out_client)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    int64_t began_ms = now_ms();

    options.connect_ms = connect_ms;
    options.lease_ms = LEASE_MS;
    return tell(NULL, call, hf_open(url, &options, out_client), began_ms);
}

static int acquire(hf_client *client, const char *call, const char *name,
                   const struct hf_acquire_options *options, hf_grant **out_grant)
{
    int64_t began_ms = now_ms();
    int status = tell(client, call, hf_acquire(client, name, options, out_grant), began_ms);

    if (status == HF_OK)
        (void)printf("fence %s %" PRIu64 "\n", call, hf_grant_fence(*out_grant));
    return status;
}

static struct hf_acquire_options terms(int64_t lease_ms, int64_t wait_ms)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = lease_ms;
    options.wait_ms = wait_ms;
    return options;
}

static int count(const struct hf_holding *holding, void *context)
{
    size_t *entries = (size_t *)context;

    (*entries) += strlen(holding->name) + strlen(holding->host) + strlen(holding->purpose) > 0;
    return 0;
}

static void look_around(hf_client *client)
{
    int64_t began_ms = now_ms();
    size_t entries = 0;
    int status = hf_client_list(client, NULL, count, &entries);

    (void)tell(client, "list", status, began_ms);
}

/* Somebody else holds it, as an honest server says, and the list should. */
static void wait_in_vain(hf_client *client, hf_client *good, const struct plan *plan)
{
    struct hf_acquire_options long_lease = terms(FULL_MS, FULL_MS);
    struct hf_acquire_options in_vain =
        plan->patient ? terms(PATIENT_MS, PATIENT_WAIT_MS) : terms(LEASE_MS, WAIT_MS);
    char busy[256];
    hf_grant *theirs = NULL;
    hf_grant *ours = NULL;

    (void)snprintf(busy, sizeof(busy), "%s-busy", plan->name);
    if (acquire(good, "good-acquire", busy, &long_lease, &theirs) < 0)
        exit(EXIT_FAILURE);
    look_around(client);
    if (acquire(client, "wait", busy, &in_vain, &ours) == HF_OK)
        hf_release_start(ours);
    hf_release_start(theirs);
}

/* What a dead program left. */
static void take_extra(hf_client *client, const struct plan *plan)
{
    struct hf_acquire_options options = terms(LEASE_MS, plan->extra_ms);
    char extra[256];
    hf_grant *grant = NULL;

    (void)snprintf(extra, sizeof(extra), "%s-extra", plan->name);
    if (acquire(client, "extra", extra, &options, &grant) == HF_OK)
        hf_release_start(grant);
}

/* An honest turn, to see its fence. */
static void take_honestly(hf_client *good, const char *call, const char *name)
{
    struct hf_acquire_options options = terms(FULL_MS, FULL_MS);
    hf_grant *grant = NULL;

    if (acquire(good, call, name, &options, &grant) < 0 || hf_release(grant) < 0)
        exit(EXIT_FAILURE);
}

static void use_grant(hf_client *client, const char *name, hf_grant *grant, int64_t lease_ms)
{
    int64_t began_ms = now_ms();

    (void)tell(client, "extend", hf_grant_extend(grant, lease_ms), began_ms);
    began_ms = now_ms();
    (void)tell(client, "downgrade", hf_grant_downgrade(grant), began_ms);
    began_ms = now_ms();
    (void)tell(client, "break", hf_client_break(client, name, hf_grant_fence(grant) + 256),
               began_ms);
    began_ms = now_ms();
    (void)tell(client, "release", hf_release(grant), began_ms);
}

/* As a program that comes again: a client may be told at once what the last server had said. */
static int acquire_at_last(hf_client *client, const char *name, hf_grant **out_grant)
{
    struct hf_acquire_options options = terms(FULL_MS, FULL_MS);
    int64_t began_ms = now_ms();
    int status;

    do {
        status = hf_acquire(client, name, &options, out_grant);
        (void)usleep(AGAIN_US);
    } while (status < 0 && now_ms() < began_ms + FULL_MS);
    return tell(client, "mended", status, began_ms);
}

/* The server is honest again, and that must be found out. */
static void be_served_again(hf_client **client, const struct plan *plan)
{
    char line[16];
    char name[256];
    hf_grant *grant = NULL;
    int64_t began_ms;

    (void)printf("mend\n");
    (void)fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        exit(EXIT_FAILURE);
    (void)snprintf(name, sizeof(name), "%s-mended", plan->name);
    if (!*client && open_client(plan->url, "mended-open", FULL_MS, client) < 0)
        return;
    if (acquire_at_last(*client, name, &grant) < 0)
        return;
    began_ms = now_ms();
    (void)tell(*client, "mended-release", hf_release(grant), began_ms);
}

static void break_other(hf_client *client, hf_client *good, const struct plan *plan)
{
    struct hf_acquire_options options = terms(FULL_MS, FULL_MS);
    char name[256];
    hf_grant *theirs = NULL;
    int64_t began_ms;

    (void)snprintf(name, sizeof(name), "%s-broken", plan->name);
    if (acquire(good, "good-broken", name, &options, &theirs) < 0)
        exit(EXIT_FAILURE);
    began_ms = now_ms();
    (void)tell(client, "break-other", hf_client_break(client, name, hf_grant_fence(theirs)),
               began_ms);
    hf_release_start(theirs);
}

/* --- many at once --- */

struct member {
    hf_client *client;
    char name[256];
    int64_t wait_ms;
    int status;
};

static int take_turn(const struct member *member, uint64_t *fence)
{
    struct hf_acquire_options options = terms(FULL_MS, member->wait_ms);
    hf_grant *grant = NULL;
    int status = hf_acquire(member->client, member->name, &options, &grant);
    uint64_t before = *fence;

    if (status < 0)
        return status;
    *fence = hf_grant_fence(grant);
    status = hf_release(grant);
    return *fence > before ? status : NO_STATUS;
}

static void *take_turns(void *argument)
{
    struct member *member = argument;
    uint64_t fence = 0;

    for (int i = 0; i < CYCLES && member->status == HF_OK; i++)
        member->status = take_turn(member, &fence);
    return NULL;
}

static void be_many(hf_client *client, const struct plan *plan)
{
    struct member members[THREADS] = { 0 };
    pthread_t threads[THREADS];
    int64_t began_ms = now_ms();
    int status = HF_OK;

    for (int i = 0; i < THREADS; i++) {
        members[i].client = client;
        members[i].wait_ms = plan->patient ? FULL_MS : WAIT_MS;
        (void)snprintf(members[i].name, sizeof(members[i].name), "%s-%d", plan->name, i);
        if (pthread_create(&threads[i], NULL, take_turns, &members[i]) != 0)
            exit(EXIT_FAILURE);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        if (members[i].status < status)
            status = members[i].status;
    }
    (void)printf("crowd %d %" PRId64 " %s\n", status, now_ms() - began_ms, hf_strstatus(status));
}

static void tell_memory(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            (void)printf("memory %ld\n", strtol(line + 6, NULL, 10));
    }
    if (file)
        (void)fclose(file);
}

static hf_client *open_good(const struct plan *plan)
{
    hf_client *good = NULL;

    if (open_client(plan->good_url, "good-open", PATIENT_MS, &good) < 0)
        exit(EXIT_FAILURE);
    if (plan->fences && !plan->first)
        take_honestly(good, "good-before", plan->name);
    return good;
}

static void use_client(hf_client *client, const struct plan *plan)
{
    int64_t lease_ms = plan->patient ? PATIENT_MS : LEASE_MS;
    struct hf_acquire_options options = terms(lease_ms, plan->patient ? PATIENT_MS : WAIT_MS);
    hf_grant *grant = NULL;

    if (plan->extra_ms > 0)
        take_extra(client, plan);
    if (acquire(client, "acquire", plan->name, &options, &grant) == HF_OK)
        use_grant(client, plan->name, grant, plan->longer ? LONGER_MS : lease_ms);
}

static void play(const struct plan *plan)
{
    hf_client *good = plan->first ? NULL : open_good(plan);
    hf_client *client = NULL;
    int64_t began_ms;
    int64_t connect_ms = plan->patient ? PATIENT_MS : CONNECT_MS;
    bool is_open = open_client(plan->url, "open", connect_ms, &client) == HF_OK;

    if (is_open)
        use_client(client, plan);
    if (!good)
        good = open_good(plan);
    if (is_open)
        wait_in_vain(client, good, plan);
    if (is_open && plan->breaks)
        break_other(client, good, plan);
    if (is_open && plan->crowd)
        be_many(client, plan);
    if (plan->mended)
        be_served_again(&client, plan);
    began_ms = now_ms();
    hf_close(client);
    (void)tell(NULL, "close", HF_OK, began_ms);
    if (plan->fences)
        take_honestly(good, "good-after", plan->name);
    hf_close(good);
}

int main(int argument_count, char **arguments)
{
    struct plan plan = { 0 };

    if (argument_count < 4)
        return 2;
    plan.url = arguments[1];
    plan.good_url = arguments[2];
    plan.name = arguments[3];
    for (int i = 4; i < argument_count; i++) {
        plan.first = plan.first || strcmp(arguments[i], "first") == 0;
        plan.patient = plan.patient || strcmp(arguments[i], "patient") == 0;
        plan.fences = plan.fences || strcmp(arguments[i], "fences") == 0;
        plan.longer = plan.longer || strcmp(arguments[i], "longer") == 0;
        plan.breaks = plan.breaks || strcmp(arguments[i], "breaks") == 0;
        plan.mended = plan.mended || strcmp(arguments[i], "mended") == 0;
        plan.crowd = plan.crowd || strcmp(arguments[i], "crowd") == 0;
        if (strcmp(arguments[i], "extra") == 0 && i + 1 < argument_count)
            plan.extra_ms = strtoll(arguments[i + 1], NULL, 10);
    }
    play(&plan);
    tell_memory();
    return EXIT_SUCCESS;
}
