/* crowd.c: what does it cost the others when one of many who wait leaves or is served?
 *
 *     crowd URL NAME COUNT LEASE_MS [HOLDERS_URL]
 *
 * So many clients, each with a session of its own, stand in line for one lock, in the order of
 * their numbers; number 0 holds. When all do, it prints `ready`, and then obeys:
 *
 *     next         whoever holds gives it back; prints the number of who holds then
 *     close N      this client leaves; prints `closed`
 *
 * With HOLDERS_URL there are so many locks instead, and two clients: the one there holds them all,
 * and the other waits for each. When it does, it prints `ready`, and leaves at the end of the
 * input.
 *
 * What can go wrong: anything; then it says what, and exits with 1. */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#define LOOK_MS    1
#define LIMIT_MS   60000
#define LINE_BYTES 64

struct member {
    hf_client *client;
    hf_claim *claim;
    hf_grant *grant;
};

static void check(int status, const char *what, size_t number)
{
    if (status >= 0)
        return;
    (void)fprintf(stderr, "%s, number %zu: %s\n", what, number, hf_strstatus(status));
    exit(EXIT_FAILURE);
}

static void wait_in_line(struct member *member, size_t number)
{
    int waited_ms = 0;

    while (hf_claim_position(member->claim) <= 0) {
        (void)poll(NULL, 0, LOOK_MS);
        waited_ms += LOOK_MS;
        check(waited_ms < LIMIT_MS ? HF_OK : HF_ETIMEDOUT, "stand in line", number);
    }
}

static void enter(struct member *member, char **words, size_t number)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct hf_acquire_options terms = HF_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = strtoll(words[4], NULL, 10);
    check(hf_open(words[1], &options, &member->client), "open", number);
    check(hf_claim_start(member->client, words[2], &terms, &member->claim), "start", number);
    if (number == 0)
        check(hf_claim_wait(member->claim, LIMIT_MS, &member->grant), "acquire", number);
    else
        wait_in_line(member, number);
}

/* In a line of its own, each. */
static void wait_in_lines(struct member *members, size_t count, char **words)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct hf_acquire_options terms = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *holder;
    hf_client *waiter;
    char name[LINE_BYTES];

    options.lease_ms = strtoll(words[4], NULL, 10);
    check(hf_open(words[5], &options, &holder), "open", 0);
    check(hf_open(words[1], &options, &waiter), "open", 1);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "%.32s%zu", words[2], i);
        check(hf_acquire(holder, name, &terms, &members[i].grant), "acquire", i);
        check(hf_claim_start(waiter, name, &terms, &members[i].claim), "start", i);
        wait_in_line(&members[i], i);
    }
    (void)printf("ready\n");
    (void)getchar();
    hf_close(waiter);
    for (size_t i = 0; i < count; i++) {
        hf_claim_free(members[i].claim);
        check(hf_release(members[i].grant), "release", i);
    }
    hf_close(holder);
}

static size_t serve_next(struct member *members, size_t count, size_t holder)
{
    struct member *next;

    check(hf_release(members[holder].grant), "release", holder);
    members[holder].grant = NULL;
    do
        holder++;
    while (holder < count && !members[holder].client);
    assert(holder < count);
    next = &members[holder];
    check(hf_claim_wait(next->claim, LIMIT_MS, &next->grant), "be served", holder);
    return holder;
}

static void leave(struct member *member)
{
    if (member->grant)
        check(hf_release(member->grant), "release", 0);
    if (member->client)
        hf_close(member->client);
    hf_claim_free(member->claim);
    *member = (struct member){ 0 };
}

static void obey(struct member *members, size_t count)
{
    char line[LINE_BYTES];
    size_t holder = 0;

    while (fgets(line, sizeof(line), stdin)) {
        if (strncmp(line, "next", 4) == 0) {
            holder = serve_next(members, count, holder);
            (void)printf("%zu\n", holder);
            continue;
        }
        assert(strncmp(line, "close ", 6) == 0);
        leave(&members[strtoull(line + 6, NULL, 10)]);
        (void)printf("closed\n");
    }
}

int main(int argument_count, char **words)
{
    struct member *members;
    size_t count;

    assert(argument_count == 5 || argument_count == 6);
    count = strtoull(words[3], NULL, 10);
    members = calloc(count, sizeof(*members));
    assert(members);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argument_count == 6) {
        wait_in_lines(members, count, words);
        free(members);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < count; i++)
        enter(&members[i], words, i);
    (void)printf("ready\n");
    obey(members, count);
    for (size_t i = 0; i < count; i++)
        leave(&members[i]);
    free(members);
    return EXIT_SUCCESS;
}
