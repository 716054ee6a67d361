/* case_option.c: is nonsense in an argument or option refused as such, before anything happens,
 * and are programs compiled against other headers understood? */

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

CASE(init_functions_and_macros_agree)
{
    struct hf_open_options opened = HF_OPEN_OPTIONS_INIT;
    struct hf_acquire_options acquired = HF_ACQUIRE_OPTIONS_INIT;
    struct hf_open_options open_options;
    struct hf_acquire_options acquire_options;

    (void)world;
    memset(&open_options, 0xA5, sizeof open_options);
    memset(&acquire_options, 0xA5, sizeof acquire_options);
    hf_open_options_init(&open_options);
    hf_acquire_options_init(&acquire_options);
    CHECK_NUMBER(sizeof open_options, open_options.struct_size);
    CHECK_NUMBER(sizeof acquire_options, acquire_options.struct_size);
    CHECK_NUMBER(opened.struct_size, open_options.struct_size);
    CHECK(!open_options.require && !open_options.caller_driven && !open_options.connect_ms);
    CHECK(!open_options.lease_ms && !open_options.purpose && !open_options.trace);
    CHECK(!open_options.trace_context);
    CHECK_NUMBER(acquired.wait_ms, acquire_options.wait_ms);
    CHECK_NUMBER(HF_FOREVER, acquire_options.wait_ms);
    CHECK_NUMBER(HF_EXCLUSIVE, acquire_options.mode);
    CHECK_NUMBER(HF_OWNER_NONE, acquire_options.owner);
    CHECK(!acquire_options.owner_name && !acquire_options.lease_ms && !acquire_options.max_hold_ms);
    CHECK(!acquire_options.fixed_lease && !acquire_options.purpose && !acquire_options.user);
    CHECK(!acquire_options.grace_ms);
}

/* By both doors, on a free lock: nothing may be taken. */
static void check_acquire_refused(const struct world *world,
                                  const struct hf_acquire_options *options, const char *what)
{
    struct name name = world_name(world, "lock");
    hf_grant *grant = UNTOUCHED(hf_grant);
    hf_claim *claim = UNTOUCHED(hf_claim);

    fprintf(stderr, "%s\n", what);
    CHECK_STATUS(HF_EINVAL, hf_acquire(world->client, name.text, options, &grant));
    CHECK_STATUS(HF_EINVAL, hf_claim_start(world->client, name.text, options, &claim));
    CHECK(grant == UNTOUCHED(hf_grant));
    CHECK(claim == UNTOUCHED(hf_claim));
    CHECK_NUMBER(0, world_listed(world, name.text).holders);
}

#define REFUSE(field, value)                                                                       \
    do {                                                                                           \
        struct hf_acquire_options options = world_waiting(world, HF_FOREVER);                      \
        options.field = (value);                                                                   \
        check_acquire_refused(world, &options, #field " = " #value);                               \
    } while (0)

CASE(nonsense_in_acquire_options_is_refused)
{
    REFUSE(mode, 2);
    REFUSE(mode, -1);
    REFUSE(owner, 3);
    REFUSE(owner, -1);
    REFUSE(owner, HF_OWNER_NAMED); /* and no owner_name */
    REFUSE(wait_ms, -2);
    REFUSE(wait_ms, INT64_MIN);
    REFUSE(lease_ms, -1);
    REFUSE(lease_ms, 1);
    REFUSE(lease_ms, HF_LEASE_MS_MIN - 1);
    REFUSE(lease_ms, (int64_t)HF_LEASE_MS_MAX + 1);
    REFUSE(lease_ms, INT64_MAX);
    REFUSE(max_hold_ms, -1);
    REFUSE(max_hold_ms, INT64_MIN);
    REFUSE(grace_ms, -1);
}

CASE(nonsense_in_the_size_of_acquire_options_is_refused)
{
    REFUSE(struct_size, 0);
    REFUSE(struct_size, 1);
    REFUSE(struct_size, sizeof(size_t));
    REFUSE(struct_size, offsetof(struct hf_acquire_options, wait_ms) + 1); /* half a field */
    REFUSE(struct_size, SIZE_MAX);
}

/* What the first header knew: everything before the fields that came later. */
CASE(acquire_options_of_an_older_program_are_understood)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, 60000);
    hf_grant *grant;

    options.struct_size = offsetof(struct hf_acquire_options, grace_ms);
    options.grace_ms = -12345; /* beyond its end: whatever lies there is not read */
    grant = world_take(world->client, name.text, &options);
    CHECK(hf_grant_remaining_ms(grant) > world_left_ms(world, 30000));
    world_give_back(grant);
}

CASE(acquire_options_of_a_newer_program_are_understood_while_their_new_fields_are_zero)
{
    struct name name = world_name(world, "lock");
    struct {
        struct hf_acquire_options options;
        uint64_t newer[4];
    } space = { .options = world_waiting(world, HF_FOREVER) };
    hf_grant *grant = NULL;

    space.options.struct_size = sizeof space;
    CHECK_STATUS(HF_OK, hf_acquire(world->client, name.text, &space.options, &grant));
    world_give_back(grant);
    space.newer[2] = 1; /* asks for something that this library does not know */
    check_acquire_refused(world, &space.options, "a newer field is set");
}

static void check_open_refused(const struct world *world, const struct hf_open_options *options,
                               const char *what)
{
    hf_client *client = UNTOUCHED(hf_client);

    fprintf(stderr, "%s\n", what);
    CHECK_STATUS(HF_EINVAL, hf_open(world->url, options, &client));
    CHECK(client == UNTOUCHED(hf_client));
}

#define REFUSE_OPEN(field, value)                                                                  \
    do {                                                                                           \
        struct hf_open_options options;                                                            \
        hf_open_options_init(&options);                                                            \
        options.field = (value);                                                                   \
        check_open_refused(world, &options, #field " = " #value);                                  \
    } while (0)

CASE(nonsense_in_open_options_is_refused)
{
    REFUSE_OPEN(struct_size, 0);
    REFUSE_OPEN(struct_size, 3);
    REFUSE_OPEN(struct_size, SIZE_MAX);
    REFUSE_OPEN(require, 1u << 7);
    REFUSE_OPEN(require, 1u << 31);
    REFUSE_OPEN(connect_ms, -1);
    REFUSE_OPEN(lease_ms, -1);
    REFUSE_OPEN(lease_ms, HF_LEASE_MS_MIN - 1);
    REFUSE_OPEN(lease_ms, (int64_t)HF_LEASE_MS_MAX + 1);
    CHECK_STATUS(HF_EINVAL, hf_open(world->url, NULL, NULL));
}

CASE(open_options_of_a_newer_program_are_understood_while_their_new_fields_are_zero)
{
    struct {
        struct hf_open_options options;
        uint64_t newer[4];
    } space = { .options = HF_OPEN_OPTIONS_INIT };
    hf_client *client = NULL;

    space.options.struct_size = sizeof space;
    CHECK_STATUS(HF_OK, hf_open(world->url, &space.options, &client));
    hf_close(client);
    space.newer[3] = 1;
    check_open_refused(world, &space.options, "a newer field is set");
}

CASE(a_lease_at_each_limit_is_accepted)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_fixed(world, HF_LEASE_MS_MAX);
    hf_grant *grant = world_take(world->client, name.text, &options);

    CHECK(hf_grant_remaining_ms(grant) <= HF_LEASE_MS_MAX);
    CHECK(hf_grant_remaining_ms(grant) > world_left_ms(world, HF_LEASE_MS_MAX / 100 * 98));
    CHECK_STATUS(HF_OK, hf_grant_extend(grant, HF_LEASE_MS_MAX));
    world_give_back(grant);

    options.lease_ms = HF_LEASE_MS_MIN;
    grant = world_take(world->client, name.text, &options);
    CHECK(hf_grant_remaining_ms(grant) <= HF_LEASE_MS_MIN);
    WAIT_UNTIL(!hf_grant_valid(grant));
    CHECK_STATUS(HF_ELOST, hf_release(grant));
}

CASE(missing_arguments_are_refused)
{
    struct name name = world_name(world, "lock");
    hf_grant *grant = UNTOUCHED(hf_grant);
    hf_claim *claim = NULL;

    CHECK_STATUS(HF_EINVAL, hf_acquire(world->client, NULL, NULL, &grant));
    CHECK_STATUS(HF_EINVAL, hf_acquire(world->client, name.text, NULL, NULL));
    CHECK_STATUS(HF_EINVAL, hf_claim_start(world->client, NULL, NULL, &claim));
    CHECK_STATUS(HF_EINVAL, hf_claim_start(world->client, name.text, NULL, NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_break(world->client, NULL, 1));
    CHECK_STATUS(HF_EINVAL, hf_client_list(world->client, NULL, NULL, NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_stats(world->client, NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_next_event(world->client, NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_pollfds(world->client, NULL, 1));
    CHECK(grant == UNTOUCHED(hf_grant));

    claim = world_claim(world->client, name.text, NULL);
    CHECK_STATUS(HF_EINVAL, hf_claim_wait(claim, LIMIT_MS, NULL));
    CHECK_STATUS(HF_EINVAL, hf_claim_wait(claim, -2, &grant));
    world_give_back(world_fetch(claim));
    hf_claim_free(claim);
}

CASE(missing_handles_are_refused)
{
    struct name name = world_name(world, "lock");
    struct hf_client_stats stats = { .struct_size = sizeof stats };
    struct hf_event event = { .struct_size = sizeof event };
    struct pollfd fds[1];
    hf_grant *grant = UNTOUCHED(hf_grant);
    hf_claim *claim = UNTOUCHED(hf_claim);

    CHECK_STATUS(HF_EINVAL, hf_acquire(NULL, name.text, NULL, &grant));
    CHECK_STATUS(HF_EINVAL, hf_claim_start(NULL, name.text, NULL, &claim));
    CHECK_STATUS(HF_EINVAL, hf_claim_wait(NULL, 0, &grant));
    CHECK_STATUS(HF_EINVAL, hf_grant_extend(NULL, 1000));
    CHECK_STATUS(HF_EINVAL, hf_grant_downgrade(NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_event_fd(NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_next_event(NULL, &event));
    CHECK_STATUS(HF_EINVAL, hf_client_pollfds(NULL, fds, 1));
    CHECK_STATUS(HF_EINVAL, hf_client_step(NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_list(NULL, NULL, NULL, NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_break(NULL, name.text, 1));
    CHECK_STATUS(HF_EINVAL, hf_client_stand_by(NULL));
    CHECK_STATUS(HF_EINVAL, hf_client_stats(NULL, &stats));
    CHECK(grant == UNTOUCHED(hf_grant) && claim == UNTOUCHED(hf_claim));
    CHECK(!hf_grant_valid(NULL));
    CHECK_NUMBER(0, hf_grant_remaining_ms(NULL));
    CHECK_NUMBER(0, hf_grant_fence(NULL));
    CHECK(hf_grant_mode(NULL) == HF_EINVAL || hf_grant_mode(NULL) == 0);
    CHECK(hf_claim_position(NULL) == HF_EINVAL || hf_claim_position(NULL) <= 0);
    CHECK(!hf_grant_name(NULL) || !hf_grant_name(NULL)[0]);
    CHECK_NUMBER(0, hf_client_promises(NULL));
    CHECK(hf_client_timeout_ms(NULL) <= 0);
    CHECK(hf_client_error(NULL));
}

CASE(ending_nothing_does_nothing)
{
    CHECK_STATUS(HF_OK, hf_release(NULL));
    hf_release_start(NULL);
    hf_claim_cancel(NULL);
    hf_claim_free(NULL);
    hf_close(NULL);
    CHECK_NUMBER(0, world_stats(world->client).held);
}
