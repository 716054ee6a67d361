/* client.c (hostile): what does a program see of a server that means harm?
 *
 *     client URL GOOD-URL NAME
 *
 * Uses every kind of request on URL once: it takes NAME, extends, lists, waits in vain for a lock
 * that is held through GOOD-URL, downgrades, breaks, and gives back. Prints a line for each call,
 * `CALL STATUS MILLISECONDS TEXT`, and last `memory N`: the most that this process ever had in
 * memory, in KiB. It exits with 0 whatever the answers were. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <holdfast/holdfast.h>

#define CONNECT_MS 1000
#define LEASE_MS   300
#define WAIT_MS    700
#define FULL_MS    20000

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

static int open_client(const char *url, const char *call, hf_client **out_client)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    int64_t began_ms = now_ms();

    options.connect_ms = CONNECT_MS;
    options.lease_ms = LEASE_MS;
    return tell(NULL, call, hf_open(url, &options, out_client), began_ms);
}

static int acquire(hf_client *client, const char *call, const char *name, int64_t lease_ms,
                   hf_grant **out_grant)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    int64_t began_ms = now_ms();

    options.wait_ms = WAIT_MS;
    options.lease_ms = lease_ms;
    return tell(client, call, hf_acquire(client, name, &options, out_grant), began_ms);
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

/* Somebody else holds it, as an honest server says. */
static void wait_in_vain(hf_client *client, hf_client *good, const char *name)
{
    char busy[256];
    hf_grant *theirs = NULL;
    hf_grant *ours = NULL;

    (void)snprintf(busy, sizeof(busy), "%s-busy", name);
    if (acquire(good, "good-acquire", busy, FULL_MS, &theirs) < 0)
        exit(EXIT_FAILURE);
    if (acquire(client, "wait", busy, LEASE_MS, &ours) == HF_OK)
        hf_release_start(ours);
    hf_release_start(theirs);
}

static void use_grant(hf_client *client, const char *name, hf_grant *grant)
{
    int64_t began_ms = now_ms();

    (void)tell(client, "extend", hf_grant_extend(grant, LEASE_MS), began_ms);
    began_ms = now_ms();
    (void)tell(client, "downgrade", hf_grant_downgrade(grant), began_ms);
    began_ms = now_ms();
    (void)tell(client, "break", hf_client_break(client, name, hf_grant_fence(grant) + 256),
               began_ms);
    began_ms = now_ms();
    (void)tell(client, "release", hf_release(grant), began_ms);
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

int main(int argument_count, char **arguments)
{
    hf_client *client = NULL;
    hf_client *good = NULL;
    hf_grant *grant = NULL;
    int64_t began_ms;

    if (argument_count != 4)
        return 2;
    if (open_client(arguments[2], "good-open", &good) < 0)
        return EXIT_FAILURE;
    if (open_client(arguments[1], "open", &client) == HF_OK) {
        if (acquire(client, "acquire", arguments[3], LEASE_MS, &grant) == HF_OK)
            use_grant(client, arguments[3], grant);
        look_around(client);
        wait_in_vain(client, good, arguments[3]);
    }
    began_ms = now_ms();
    hf_close(client);
    (void)tell(NULL, "close", HF_OK, began_ms);
    hf_close(good);
    tell_memory();
    return EXIT_SUCCESS;
}
