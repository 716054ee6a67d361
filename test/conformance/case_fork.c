/* case_fork.c: does a forked child leave its parent's locks alone, and can it stand by for them
 * when it is asked to? */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"
#include "world.h"

static int visit_none(const struct hf_holding *holding, void *context)
{
    (void)holding;
    (void)context;
    return 0;
}

struct inherited {
    struct world *world;
    struct name name;
    hf_grant *grants[2]; /* the second one is ended by the child */
    hf_claim *claims[2];
};

static void check_client_is_forked(const struct inherited *inherited)
{
    hf_client *client = inherited->world->client;
    struct hf_client_stats stats = { .struct_size = sizeof stats };
    struct hf_event event = { .struct_size = sizeof event };
    struct pollfd fds[8];
    hf_grant *grant = UNTOUCHED(hf_grant);
    hf_claim *claim = UNTOUCHED(hf_claim);

    CHECK_STATUS(HF_EFORKED, hf_acquire(client, inherited->name.text, NULL, &grant));
    CHECK_STATUS(HF_EFORKED, hf_claim_start(client, inherited->name.text, NULL, &claim));
    CHECK_STATUS(HF_EFORKED, hf_client_event_fd(client));
    CHECK_STATUS(HF_EFORKED, hf_client_next_event(client, &event));
    CHECK_STATUS(HF_EFORKED, hf_client_pollfds(client, fds, 8));
    CHECK_STATUS(HF_EFORKED, hf_client_step(client));
    CHECK_STATUS(HF_EFORKED, hf_client_list(client, NULL, visit_none, NULL));
    CHECK_STATUS(HF_EFORKED, hf_client_break(client, inherited->name.text, 1));
    CHECK_STATUS(HF_EFORKED, hf_client_stats(client, &stats));
    CHECK(grant == UNTOUCHED(hf_grant) && claim == UNTOUCHED(hf_claim));
    CHECK(strlen(hf_client_error(client)) > 0);
}

static void check_handles_are_forked(const struct inherited *inherited)
{
    hf_grant *grant = UNTOUCHED(hf_grant);

    CHECK(!hf_grant_valid(inherited->grants[0]));
    CHECK_NUMBER(0, hf_grant_remaining_ms(inherited->grants[0]));
    CHECK_STATUS(HF_EFORKED, hf_grant_extend(inherited->grants[0], 1000));
    CHECK_STATUS(HF_EFORKED, hf_grant_downgrade(inherited->grants[0]));
    CHECK_STATUS(HF_EFORKED, hf_claim_wait(inherited->claims[0], 0, &grant));
    CHECK_STATUS(HF_EFORKED, hf_claim_wait(inherited->claims[0], HF_FOREVER, &grant));
    CHECK(grant == UNTOUCHED(hf_grant));
    hf_claim_cancel(inherited->claims[0]);
    hf_claim_free(inherited->claims[1]);
    CHECK_STATUS(HF_EFORKED, hf_release(inherited->grants[1]));
    hf_release_start(inherited->grants[0]);
    hf_close(inherited->world->client);
}

static int wait_for_child(pid_t pid)
{
    int how = 0;

    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK(WIFEXITED(how));
    return WEXITSTATUS(how);
}

/* Whichever comes first: not every recipe keeps them in order. */
static bool fetch_either(hf_claim *claims[2], hf_grant **out_grant)
{
    for (int i = 0; i < 2; i++) {
        int status = claims[i] ? hf_claim_wait(claims[i], 0, out_grant) : HF_PENDING;

        if (status == HF_PENDING)
            continue;
        CHECK_STATUS(HF_OK, status);
        hf_claim_free(claims[i]);
        claims[i] = NULL;
        return true;
    }
    return false;
}

CASE(a_forked_child_gets_forked_from_every_function)
{
    struct name second = world_name(world, "second");
    struct inherited inherited = { .world = world, .name = world_name(world, "lock") };
    hf_client *other = world_open(world);
    hf_grant *grant = NULL;
    pid_t pid;

    inherited.grants[0] = world_take(world->client, inherited.name.text, NULL);
    inherited.grants[1] = world_take(world->client, second.text, NULL);
    for (int i = 0; i < 2; i++)
        inherited.claims[i] = world_claim(world->client, inherited.name.text, NULL);
    WAIT_UNTIL(world_stats(world->client).waiting == 2);

    pid = world_fork();
    if (pid == 0) {
        check_client_is_forked(&inherited);
        check_handles_are_forked(&inherited);
        _exit(0);
    }
    CHECK_NUMBER(0, wait_for_child(pid));

    /* Nothing that the child did, and not its end, touched what the parent has. */
    for (int i = 0; i < 2; i++) {
        CHECK(hf_grant_valid(inherited.grants[i]));
        CHECK_STATUS(HF_PENDING, hf_claim_wait(inherited.claims[i], 0, &grant));
    }
    CHECK_STATUS(HF_EBUSY, world_try(other, inherited.name.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_EBUSY, world_try(other, second.text, HF_EXCLUSIVE));
    world_give_back(inherited.grants[1]);
    world_give_back(inherited.grants[0]);
    for (int i = 0; i < 2; i++) {
        WAIT_UNTIL(fetch_either(inherited.claims, &grant));
        world_give_back(grant);
    }
    hf_close(other);
}

CASE(a_forked_child_may_open_a_client_of_its_own)
{
    struct name held = world_name(world, "held");
    struct name free_name = world_name(world, "free");
    hf_grant *grant = world_take(world->client, held.text, NULL);
    pid_t pid = world_fork();

    if (pid == 0) {
        hf_client *own = world_open(world);
        hf_grant *childs = world_take(own, free_name.text, NULL);

        CHECK_STATUS(HF_EBUSY, world_try(own, held.text, HF_EXCLUSIVE));
        CHECK(hf_grant_valid(childs));
        world_give_back(childs);
        hf_close(own);
        _exit(0);
    }
    CHECK_NUMBER(0, wait_for_child(pid));
    CHECK(hf_grant_valid(grant));
    CHECK_STATUS(HF_EBUSY, world_try(world->client, held.text, HF_EXCLUSIVE));
    CHECK_STATUS(HF_OK, world_try(world->client, free_name.text, HF_EXCLUSIVE));
    world_give_back(grant);
}

/* The child inherits descriptors and memory; the lock is the dead parent's all the same. */
CASE(a_lock_goes_with_its_process_though_a_child_lives_on)
{
    struct name name = world_name(world, "lock");
    struct hf_acquire_options options = world_waiting(world, LIMIT_MS);
    struct peer holder;
    pid_t child;
    hf_grant *grant;

    if (!world_frees_the_dead(world))
        return;
    holder = peer_start(world);
    peer_acquire(&holder, 0, name.text, NULL);
    child = (pid_t)peer_do(&holder, PEER_FORK, 0, 0).number;
    CHECK(child > 0);
    peer_kill(&holder);
    CHECK(kill(child, 0) == 0);
    grant = world_take(world->client, name.text, &options);
    CHECK(kill(child, 0) == 0);
    CHECK(kill(child, SIGKILL) == 0);
    world_give_back(grant);
}

/* Where a stopped holder outlives its lease, turns have no lease, and end with their process. */
static bool turns_have_leases(struct world *world)
{
    struct name name = world_name(world, "has-leases");
    struct peer holder = peer_start(world);
    struct peer_call question = { .verb = PEER_VALID };
    bool valid;

    peer_acquire(&holder, 0, name.text, NULL);
    peer_stop(&holder);
    world_sleep_ms(world->lease_ms * 3 / 2);
    peer_ask(&holder, &question);
    peer_signal(&holder, SIGCONT);
    valid = peer_hear(&holder).number;
    CHECK_STATUS(valid ? HF_OK : HF_ELOST, peer_release(&holder, 0));
    peer_end(&holder);
    return !valid;
}

CASE(a_child_that_stands_by_keeps_the_turns_of_a_dead_parent)
{
    struct name name = world_name(world, "lock");
    struct peer holder = peer_start(world);
    struct peer_answer answer;
    struct hf_acquire_options options = world_waiting(world, 2 * A_WHILE_MS);
    hf_grant *grant = NULL;
    pid_t child;

    peer_acquire(&holder, 0, name.text, NULL);
    answer = peer_do(&holder, PEER_STAND_BY, 0, 0);
    child = (pid_t)answer.number;
    if (turns_have_leases(world)) {
        CHECK_STATUS(HF_EUNSUPPORTED, answer.status);
        CHECK(kill(child, SIGKILL) == 0);
        CHECK_STATUS(HF_OK, peer_release(&holder, 0));
        peer_end(&holder);
        world->refused = HF_EUNSUPPORTED;
        return;
    }
    CHECK_STATUS(HF_OK, answer.status);
    peer_kill(&holder);
    CHECK_STATUS(HF_ETIMEDOUT, hf_acquire(world->client, name.text, &options, &grant));
    CHECK_NUMBER(1, world_listed(world, name.text).holders);
    CHECK(kill(child, SIGKILL) == 0);
    options.wait_ms = LIMIT_MS;
    grant = world_take(world->client, name.text, &options);
    world_give_back(grant);
}

CASE(a_child_that_stood_by_does_not_outlast_a_release)
{
    struct name name = world_name(world, "lock");
    struct peer holder;
    struct peer_answer answer;

    if (turns_have_leases(world)) {
        world->refused = HF_EUNSUPPORTED;
        return;
    }
    holder = peer_start(world);
    peer_acquire(&holder, 0, name.text, NULL);
    answer = peer_do(&holder, PEER_STAND_BY, 0, 0);
    CHECK_STATUS(HF_OK, answer.status);
    CHECK_STATUS(HF_OK, peer_release(&holder, 0));
    CHECK_STATUS(HF_OK, world_try(world->client, name.text, HF_EXCLUSIVE));
    CHECK(kill((pid_t)answer.number, SIGKILL) == 0);
    peer_end(&holder);
}

CASE(only_a_child_may_stand_by)
{
    int status = hf_client_stand_by(world->client);

    CHECK(status == HF_EINVAL || status == HF_EUNSUPPORTED);
}
