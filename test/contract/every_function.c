/* every_function.c: can a program that knows only the installed header use all of it?
 *
 * Written in what C99 and C++17 have in common; the driver compiles it as both, against an
 * installed tree, and checks that no function of the header is left out. It does a day's work on
 * the locks at the URL that it is given: each call must answer as documented. */

#define _POSIX_C_SOURCE 200809L

#include <holdfast.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 30000
#define NAME     "contract/lock"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail(__LINE__, #condition);                                                            \
    } while (0)

static void fail(int line, const char *what)
{
    fprintf(stderr, "every_function.c:%d: this does not hold: %s ('%s')\n", line, what,
            hf_client_error(NULL));
    exit(1);
}

static void count_trace(void *context, const char *line)
{
    int *lines = (int *)context;

    *lines += line != NULL;
}

static hf_client *open_client(const char *url, bool caller_driven, int *lines)
{
    struct hf_open_options options;
    hf_client *client = NULL;

    hf_open_options_init(&options);
    CHECK(options.struct_size == sizeof options);
    options.require = HF_PROMISE_FENCE;
    options.caller_driven = caller_driven;
    options.connect_ms = LIMIT_MS;
    options.lease_ms = LIMIT_MS;
    options.purpose = "contract";
    options.trace = count_trace;
    options.trace_context = lines;
    CHECK(hf_open(url, &options, &client) == HF_OK);
    CHECK(hf_client_promises(client) & HF_PROMISE_FENCE);
    return client;
}

static void use_grant(hf_client *client)
{
    struct hf_acquire_options options;
    hf_grant *grant = NULL;
    hf_grant *inner = NULL;

    hf_acquire_options_init(&options);
    CHECK(options.struct_size == sizeof options && options.wait_ms == HF_FOREVER);
    options.mode = HF_EXCLUSIVE;
    options.owner = HF_OWNER_NAMED;
    options.owner_name = "contract";
    options.wait_ms = LIMIT_MS;
    options.lease_ms = LIMIT_MS;
    options.max_hold_ms = 2 * LIMIT_MS;
    options.fixed_lease = false;
    options.purpose = "a day's work";
    options.user = &options;
    options.grace_ms = 100;
    CHECK(hf_acquire(client, NAME, &options, &grant) == HF_OK);
    CHECK(hf_grant_valid(grant) && hf_grant_remaining_ms(grant) > 0);
    CHECK(hf_grant_fence(grant) > 0 && hf_grant_mode(grant) == HF_EXCLUSIVE);
    CHECK(strcmp(hf_grant_name(grant), NAME) == 0);
    CHECK(hf_grant_extend(grant, LIMIT_MS) == HF_OK);
    CHECK(hf_acquire(client, NAME, &options, &inner) == HF_OK);
    CHECK(hf_grant_fence(inner) == hf_grant_fence(grant));
    CHECK(hf_release(inner) == HF_OK);
    CHECK(hf_grant_downgrade(grant) == HF_OK && hf_grant_mode(grant) == HF_SHARED);
    CHECK(hf_release(grant) == HF_OK);
}

static struct hf_event next_event(hf_client *client, int kind)
{
    struct hf_event event;
    struct pollfd descriptor;

    memset(&event, 0, sizeof event);
    event.struct_size = sizeof event;
    descriptor.fd = hf_client_event_fd(client);
    descriptor.events = POLLIN;
    CHECK(poll(&descriptor, 1, LIMIT_MS) == 1);
    CHECK(hf_client_next_event(client, &event) == 1);
    CHECK(event.kind == kind);
    return event;
}

static void use_claims(hf_client *client)
{
    struct hf_acquire_options options;
    struct hf_event event;
    hf_claim *claim = NULL;
    hf_claim *second = NULL;
    hf_grant *grant = NULL;
    hf_grant *none = NULL;

    hf_acquire_options_init(&options);
    options.user = &options;
    CHECK(hf_claim_start(client, NAME, &options, &claim) == HF_OK);
    event = next_event(client, HF_EVENT_GRANTED);
    CHECK(event.claim == claim && event.user == &options && event.status == HF_OK);
    CHECK(hf_claim_wait(claim, LIMIT_MS, &grant) == HF_OK);
    CHECK(hf_claim_start(client, NAME, NULL, &second) == HF_OK);
    CHECK(hf_claim_wait(second, 0, &none) == HF_PENDING && !none);
    CHECK(hf_claim_position(second) >= -1);
    hf_claim_cancel(second);
    CHECK(hf_claim_wait(second, LIMIT_MS, &none) == HF_ECANCELLED);
    hf_claim_free(second);
    hf_claim_free(claim);
    hf_release_start(grant);
    event = next_event(client, HF_EVENT_RELEASED);
    CHECK(event.status == HF_OK && event.user == &options);
}

static int remember_fence(const struct hf_holding *holding, void *context)
{
    uint64_t *fence = (uint64_t *)context;

    CHECK(strcmp(holding->name, NAME) == 0);
    CHECK(holding->mode == HF_EXCLUSIVE && !holding->waiting && holding->position == 0);
    CHECK(holding->host && holding->purpose && holding->age_ms >= -1);
    CHECK(holding->remaining_ms >= -1 && holding->pid == (int64_t)getpid());
    *fence = holding->fence;
    return 0;
}

static void use_care(hf_client *client)
{
    struct hf_client_stats stats;
    struct hf_event event;
    hf_grant *grant = NULL;
    uint64_t fence = 0;

    CHECK(hf_acquire(client, NAME, NULL, &grant) == HF_OK);
    CHECK(hf_client_list(client, "contract/*", remember_fence, &fence) == HF_OK);
    CHECK(fence == hf_grant_fence(grant));
    CHECK(hf_client_break(client, NAME, fence) == HF_OK);
    event = next_event(client, HF_EVENT_LOST);
    CHECK(event.grant == grant && event.cause && event.cause[0]);
    CHECK(!hf_grant_valid(grant));
    CHECK(hf_release(grant) == HF_ELOST);
    CHECK(strlen(hf_client_error(client)) > 0);
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    CHECK(hf_client_stats(client, &stats) == HF_OK);
    CHECK(stats.acquired > 0 && stats.lost == 1 && stats.held == 0 && stats.waiting == 0);
    CHECK(stats.rescued == 0);
}

static void use_loop(const char *url, int *lines)
{
    hf_client *client = open_client(url, true, lines);
    struct hf_event event;
    struct pollfd fds[16];
    hf_claim *claim = NULL;
    hf_grant *grant = NULL;

    memset(&event, 0, sizeof event);
    event.struct_size = sizeof event;
    CHECK(hf_claim_start(client, NAME, NULL, &claim) == HF_OK);
    while (hf_client_next_event(client, &event) == 0) {
        int count = hf_client_pollfds(client, fds, 16);
        int64_t timeout_ms = hf_client_timeout_ms(client);

        CHECK(count >= 0 && count <= 16);
        CHECK(poll(fds, (nfds_t)count, timeout_ms < 0 ? LIMIT_MS : (int)timeout_ms) >= 0);
        CHECK(hf_client_step(client) == HF_OK);
    }
    CHECK(event.kind == HF_EVENT_GRANTED && event.claim == claim);
    CHECK(hf_claim_wait(claim, 0, &grant) == HF_OK);
    CHECK(hf_release(grant) == HF_OK);
    hf_claim_free(claim);
    hf_close(client);
}

static void use_fork(hf_client *client)
{
    int how = 0;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        hf_grant *grant = NULL;
        int status = hf_client_stand_by(client);

        CHECK(status == HF_OK || status == HF_EUNSUPPORTED);
        CHECK(hf_acquire(client, NAME, NULL, &grant) == HF_EFORKED);
        _exit(0);
    }
    CHECK(waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void use_texts(void)
{
    struct hf_recipe_info info;
    char version[32];
    char text[64];

    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    CHECK(hf_recipe_info(0, &info) == 1);
    CHECK(hf_recipe_schema(info.engine, info.recipe));
    CHECK(info.url_forms && info.summary && info.caveat && info.promises);
    CHECK(info.is_default || info.is_legacy || info.engine);
    snprintf(version, sizeof version, "%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR,
             HF_VERSION_PATCH);
    CHECK(strcmp(hf_version(), version) == 0);
    CHECK(strlen(hf_strstatus(HF_EBUSY)) > 0);
    CHECK(hf_url_redact("redis://me:secret@host", text, sizeof text) == (int)strlen(text));
    CHECK(!strstr(text, "secret"));
}

int main(int count, char **arguments)
{
    hf_client *client;
    int lines = 0;

    CHECK(count == 2);
    client = open_client(arguments[1], false, &lines);
    use_grant(client);
    use_claims(client);
    use_care(client);
    use_loop(arguments[1], &lines);
    use_fork(client);
    use_texts();
    hf_close(client);
    CHECK(lines > 0);
    return 0;
}
