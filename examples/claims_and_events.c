/* claims_and_events.c: how does one thread wait for many locks, and hear when it loses one?
 *
 *     claims_and_events NAME...
 *
 * Starts a claim on every name at once, none of which blocks, and sleeps on the client's event
 * descriptor. The thread of the library does the waiting and the renewing. Each event carries the
 * `user` pointer that its claim was started with; here it is the record of the name.
 *
 * To have something to lose, the grants are fixed leases of LEASE_MS: nobody renews them, and at
 * their end the program is told, before another could be let in. The program ends when it has lost
 * every lock that it was given. */
#include <holdfast.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#define LEASE_MS  300
#define NAMES_MAX 16

struct wanted {
    const char *name;
    hf_claim *claim;
    hf_grant *grant;
};

/* The claim is decided: fetch the grant, or learn why there is none. */
static bool take(struct wanted *wanted)
{
    int status = hf_claim_wait(wanted->claim, 0, &wanted->grant);

    if (status != HF_OK) {
        printf("refused %s: %s\n", wanted->name, hf_strstatus(status));
        return false;
    }
    printf("granted %s fence %" PRIu64 "\n", wanted->name, hf_grant_fence(wanted->grant));
    return true;
}

/* The lock is another's now, or soon: stop the work, and end the handle. */
static void let_go(struct wanted *wanted, const char *cause)
{
    int status;

    printf("lost %s: %s, valid: %s\n", wanted->name, cause,
           hf_grant_valid(wanted->grant) ? "yes" : "no");
    status = hf_release(wanted->grant);
    wanted->grant = NULL;
    printf("released %s: %s\n", wanted->name, hf_strstatus(status));
}

/* Returns how many names are settled by this event. */
static int handle(const struct hf_event *event)
{
    struct wanted *wanted = event->user;

    switch ((enum hf_event_kind)event->kind) {
    case HF_EVENT_GRANTED:
        return take(wanted) ? 0 : 1;
    case HF_EVENT_LOST:
        let_go(wanted, event->cause);
        return 1;
    case HF_EVENT_AT_RISK: /* a fixed lease is not renewed, so these two do not come here */
    case HF_EVENT_SAFE:
    case HF_EVENT_RELEASED:
        return 0;
    }
    return 0;
}

static void wait_until_settled(hf_client *client, int names)
{
    struct pollfd fd = { .fd = hf_client_event_fd(client), .events = POLLIN };

    while (names > 0 && poll(&fd, 1, -1) >= 0) {
        struct hf_event event = { .struct_size = sizeof(event) };

        while (hf_client_next_event(client, &event) == 1)
            names -= handle(&event);
    }
}

static int start_all(hf_client *client, struct wanted *wanted, char **names, int count)
{
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = LEASE_MS;
    options.fixed_lease = true;
    for (int i = 0; i < count; i++) {
        int status;

        wanted[i].name = names[i];
        options.user = &wanted[i];
        status = hf_claim_start(client, names[i], &options, &wanted[i].claim);
        if (status < 0)
            return status;
    }
    return HF_OK;
}

int main(int argc, char **argv)
{
    struct wanted wanted[NAMES_MAX] = { { 0 } };
    hf_client *client = NULL;
    int count = argc - 1;
    int status;

    if (count < 1 || count > NAMES_MAX) {
        fprintf(stderr, "usage: claims_and_events NAME...   (at most %d)\n", NAMES_MAX);
        return 64;
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
    status = hf_open(NULL, NULL, &client);
    if (status == HF_OK)
        status = start_all(client, wanted, argv + 1, count);
    if (status == HF_OK)
        wait_until_settled(client, count);
    else
        fprintf(stderr, "claims_and_events: %s\n", hf_client_error(client));

    for (int i = 0; i < count; i++)
        hf_claim_free(wanted[i].claim);
    hf_close(client);
    return status == HF_OK ? 0 : 1;
}
