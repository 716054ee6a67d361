/* peers.c: who is alive? Other processes, forks, those who stand by, those in another pid
 * namespace, and those who are stopped. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "world.h"

#ifdef HF__EMBEDDED_HOOKS
#include "hooks.h"
#endif

static const struct wish once_wish = { .once = true };
static const struct wish shared_wish = { .shared = true };

struct scene {
    _Atomic uint32_t step;
    _Atomic uint32_t go;
    _Atomic uint64_t fence;
    _Atomic int32_t inner_pid;
    const struct wish *wish;
};

static int hold(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", scene->wish, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    atomic_store(&scene->fence, stub.fence);
    world_step(&scene->step, 1);
    while (true)
        mate_sleep(&mate, 1000);
}

/* Arrives in line and waits, for ever. */
static int stand_in_line(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "waiter") < 0 ||
        mate_claim(&mate, "a", scene->wish, &stub).kind != HF__REPLY_QUEUED)
        return 1;
    world_step(&scene->step, 2);
    while (true)
        mate_sleep(&mate, 1000);
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST(peers, a_dead_holder_is_noticed_by_whoever_waits)
{
    for (int shared = 0; shared < 2; shared++) {
        struct scene *scene = world_share(sizeof(*scene));
        struct world world;
        struct mate mate;
        struct stub waiting;
        struct world_reply reply;
        pid_t child;

        world_make(&world);
        scene->wish = shared ? &shared_wish : NULL;
        child = world_fork(&world, hold, scene);
        CHECK(world_wait_step(&scene->step, 1));
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
        CHECK_EQUAL(mate_claim(&mate, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
        CHECK(!mate_hears_within(&mate, &waiting, HF__REPLY_GRANTED, NULL, 20));
        end(child);
        CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, &reply));
        CHECK_EQUAL(reply.fence, scene->fence + 1);
        CHECK_EQUAL(mate.conn->rescued, 0);
        mate_drain(&mate);
        CHECK_EQUAL(mate_remains(&mate).sessions, 1); /* swept as well */
        CHECK_EQUAL(world_files(&world, "s."), 2);
        mate_close(&mate);
        world_end(&world);
        world_unshare(scene, sizeof(*scene));
    }
}

TEST(peers, a_dead_holder_does_not_refuse_whoever_tries_once)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub stub;
    struct world_entry entry;
    pid_t child;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    child = world_fork(&world, hold, scene);
    CHECK(world_wait_step(&scene->step, 1));
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &stub).kind, HF__REPLY_REFUSED);
    CHECK_EQUAL(mate_list(&mate, "*", &entry, 1), 1);
    CHECK_EQUAL(entry.pid, child);
    end(child);
    CHECK_EQUAL(mate_list(&mate, "*", &entry, 1), 0);
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &stub).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

TEST(peers, a_dead_waiter_falls_out_of_the_line)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct mate last;
    struct stub held;
    struct stub waiting;
    pid_t child;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "holder"), HF_OK);
    CHECK_EQUAL(mate_open(&last, &world, "last"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &held).kind, HF__REPLY_GRANTED);
    child = world_fork(&world, stand_in_line, scene);
    CHECK(world_wait_step(&scene->step, 2));
    CHECK_EQUAL(mate_claim(&last, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_list(&mate, "a", NULL, 0), 3);
    end(child);
    for (int i = 0; i < WORLD_PATIENCE_MS / 10; i++) {
        if (mate_remains(&mate).sessions == 2)
            break;
        mate_sleep(&last, 10);
    }
    CHECK_EQUAL(mate_remains(&mate).sessions, 2);
    CHECK_EQUAL(mate_tell(&last, HF__REQUEST_INSPECT, &waiting).ahead, 1);
    CHECK_EQUAL(mate_list(&mate, "a", NULL, 0), 2);
    CHECK(mate_release(&mate, &held).released);
    CHECK(mate_hears(&last, &waiting, HF__REPLY_GRANTED, NULL));
    CHECK_EQUAL(last.conn->rescued, 0);
    mate_close(&mate);
    mate_close(&last);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

/* The waiter in the middle is stopped and cannot notice that the holder died; behind him is a
 * reader who could be let in with him. That is what the safety net is for. */
TEST(peers, behind_a_stopped_waiter_the_net_holds)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct scene *second = world_share(sizeof(*second));
    struct world world;
    struct mate mate;
    struct stub waiting;
    pid_t holder;
    pid_t stopped;

    world_make(&world);
    holder = world_fork(&world, hold, scene);
    CHECK(world_wait_step(&scene->step, 1));
    second->wish = &shared_wish;
    stopped = world_fork(&world, stand_in_line, second);
    CHECK(world_wait_step(&second->step, 2));
    kill(stopped, SIGSTOP);
    CHECK_EQUAL(mate_open(&mate, &world, "behind"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", &shared_wish, &waiting).kind, HF__REPLY_QUEUED);
    end(holder);
    CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, NULL));
    CHECK_EQUAL(mate.conn->rescued, 1);
    end(stopped);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
    world_unshare(second, sizeof(*second));
}

/* Connections of one process: closing one must not make the others look dead, though closing any
 * descriptor of a file drops a process's record locks on it. */
TEST(peers, connections_of_one_process_do_not_kill_each_other)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate first;
    struct stub held;
    struct stub stub;
    struct mate judge;
    pid_t child;

    world_make(&world);
    CHECK_EQUAL(mate_open(&first, &world, "first"), HF_OK);
    CHECK_EQUAL(mate_claim(&first, "b", NULL, &held).kind, HF__REPLY_GRANTED);
    for (int i = 0; i < 20; i++) {
        struct mate other;

        CHECK_EQUAL(mate_open(&other, &world, "other"), HF_OK);
        CHECK_EQUAL(mate_claim(&other, "b", &once_wish, &stub).kind, HF__REPLY_REFUSED);
        CHECK_EQUAL(mate_claim(&other, "b", NULL, &stub).kind, HF__REPLY_QUEUED);
        mate_sleep(&first, 0); /* says that it sleeps: so that the other opens its bell to ring */
        mate_close(&other);
    }
    child = world_fork(&world, hold, scene); /* another process's opinion */
    CHECK(world_wait_step(&scene->step, 1));
    CHECK_EQUAL(mate_open(&judge, &world, "judge"), HF_OK);
    CHECK_EQUAL(mate_list(&judge, "*", NULL, 0), 2);
    CHECK_EQUAL(mate_tell(&first, HF__REQUEST_RENEW, &held).kind, HF__REPLY_GRANTED);
    end(child);
    CHECK(mate_release(&first, &held).released);
    mate_close(&first);
    mate_close(&judge);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

/* --- forks --- */

static int fork_and_die(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;
    pid_t grandchild;

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    grandchild = fork();
    if (grandchild == 0) { /* has all the descriptors, and stays */
        atomic_store(&scene->inner_pid, getpid());
        world_step(&scene->step, 1);
        (void)world_wait_step(&scene->go, 1);
        _exit(0);
    }
    while (true)
        pause();
}

TEST(peers, a_fork_does_not_keep_its_parents_locks)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub waiting;
    pid_t child;

    world_make(&world);
    child = world_fork(&world, fork_and_die, scene);
    CHECK(world_wait_step(&scene->step, 1));
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    end(child);
    CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, NULL));
    CHECK_EQUAL(kill(scene->inner_pid, 0), 0); /* it is still there */
    world_step(&scene->go, 1);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

static int fork_and_stand_by(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;
    char error[HF__ERROR_BYTES] = "";

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    if (mate.conn->engine->stand_by(mate.conn, error) != HF_EINVAL)
        return 2; /* not a fork */
    atomic_store(&scene->fence, stub.fence);
    if (fork() == 0) {
        int status = mate.conn->engine->stand_by(mate.conn, error);

        atomic_store(&scene->inner_pid, getpid());
        world_step(&scene->step, status == HF_OK ? 1 : 9);
        (void)world_wait_step(&scene->go, 1);
        _exit(0);
    }
    while (true)
        pause();
}

TEST(peers, who_stands_by_keeps_the_turn_until_he_ends)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub waiting;
    struct stub tried;
    struct world_reply reply;
    pid_t child;

    world_make(&world);
    child = world_fork(&world, fork_and_stand_by, scene);
    CHECK(world_wait_step(&scene->step, 1));
    CHECK_EQUAL(scene->step, 1);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    end(child);
    CHECK(!mate_hears_within(&mate, &waiting, HF__REPLY_GRANTED, NULL, 1500)); /* net included */
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &tried).kind, HF__REPLY_REFUSED);
    world_step(&scene->go, 1);
    CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, &reply));
    CHECK(reply.fence > scene->fence);
    CHECK_EQUAL(mate.conn->rescued, 0);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

static int stand_by_too_late(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;
    char error[HF__ERROR_BYTES] = "";

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    if (fork() == 0) {
        world_step(&scene->step, 1);
        (void)world_wait_step(&scene->go, 1);
        world_step(&scene->step, mate.conn->engine->stand_by(mate.conn, error) == HF_ELOST ? 2 : 9);
        _exit(0);
    }
    while (true)
        pause();
}

TEST(peers, standing_by_for_the_dead_is_refused)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub stub;
    pid_t child;

    world_make(&world);
    child = world_fork(&world, stand_by_too_late, scene);
    CHECK(world_wait_step(&scene->step, 1));
    end(child);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &stub).kind, HF__REPLY_GRANTED);
    world_step(&scene->go, 1);
    CHECK(world_wait_step(&scene->step, 2));
    CHECK_EQUAL(scene->step, 2);
    CHECK_EQUAL(mate_tell(&mate, HF__REQUEST_RENEW, &stub).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

/* Somebody is inside the guard for so long that we give up looking. What we were told is not
 * forgotten over it: whom to watch, now that the one ahead has left. */
TEST(peers, a_look_that_failed_is_made_again)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate slow;
    struct mate leaving;
    struct mate mate;
    const struct hf__stake *stake;
    struct stub left;
    struct stub waiting;
    pid_t child;

    world_make(&world);
    child = world_fork(&world, hold, scene);
    CHECK(world_wait_step(&scene->step, 1));
    CHECK_EQUAL(mate_open(&slow, &world, "slow"), HF_OK);
    CHECK_EQUAL(mate_open(&leaving, &world, "leaving"), HF_OK);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate_claim(&leaving, "a", NULL, &left).kind, HF__REPLY_QUEUED);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    CHECK(mate_release(&leaving, &left).released);
    stake = hf__stakes_find(&mate_inside(&mate)->stakes, waiting.token);
    CHECK_EQUAL(hf__guard_take(mate_inside(&slow), stake->lock % HF__LOCK_GUARDS), HF_OK);
    mate_drain(&mate); /* two seconds */
    CHECK_EQUAL(mate.dead, 0);
    CHECK(strstr(mate.conn->error, "inside guard") != NULL);
    CHECK_EQUAL(hf__guard_give(mate_inside(&slow)), HF_OK);
    end(child);
    CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, NULL));
    CHECK_EQUAL(mate.conn->rescued, 0);
    mate_close(&mate);
    mate_close(&leaving);
    mate_close(&slow);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

/* --- pid namespaces --- */

static int hold_elsewhere(struct world *world, void *context)
{
    struct scene *scene = context;
    pid_t inner;
    int status;

    if (unshare(CLONE_NEWPID)) {
        world_step(&scene->step, errno == EPERM ? 8 : 9);
        return 1;
    }
    inner = world_fork(world, hold, scene);
    atomic_store(&scene->inner_pid, inner);
    waitpid(inner, &status, 0);
    return 0;
}

/* From outside the pid is known, and a pidfd works; from inside, the outer one is nobody. */
static int wait_elsewhere(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "inner") < 0)
        return 1;
    if (mate_claim(&mate, "a", &once_wish, &stub).kind != HF__REPLY_REFUSED)
        return 2;
    if (mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_QUEUED)
        return 3;
    world_step(&scene->go, 1);
    if (!mate_hears(&mate, &stub, HF__REPLY_GRANTED, NULL))
        return 4;
    if (mate.conn->rescued != 0)
        return 5;
    mate_close(&mate);
    return 0;
}

static int enter_and_wait(struct world *world, void *context)
{
    pid_t inner;
    int status;

    if (unshare(CLONE_NEWPID))
        return 8;
    inner = world_fork(world, wait_elsewhere, context);
    waitpid(inner, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(peers, a_holder_in_another_pid_namespace_dies)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub waiting;
    pid_t child;

    world_make(&world);
    child = world_fork(&world, hold_elsewhere, scene);
    CHECK(world_wait_step(&scene->step, 1));
    if (scene->step == 8) {
        printf("  (left out: it takes root)\n");
    } else {
        CHECK_EQUAL(scene->step, 1);
        CHECK_EQUAL(mate_open(&mate, &world, "outer"), HF_OK);
        CHECK_EQUAL(mate_claim(&mate, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
        kill(scene->inner_pid, SIGKILL);
        CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, NULL));
        CHECK_EQUAL(mate.conn->rescued, 0);
        mate_close(&mate);
    }
    waitpid(child, NULL, 0);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

TEST(peers, a_waiter_in_another_pid_namespace_notices)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    pid_t child;
    pid_t waiter;
    int status;

    if (geteuid() != 0) {
        printf("  (left out: it takes root)\n");
        return;
    }
    world_make(&world);
    child = world_fork(&world, hold, scene);
    CHECK(world_wait_step(&scene->step, 1));
    waiter = world_fork(&world, enter_and_wait, scene);
    CHECK(world_wait_step(&scene->go, 1));
    end(child);
    waitpid(waiter, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

#ifdef HF__EMBEDDED_HOOKS

/* Holds; and a fork of it, which is no stand-by, keeps open what it inherited. */
static int hold_with_fork(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    if (fork() == 0) {
        world_step(&scene->step, 1);
        (void)world_wait_step(&scene->go, 1);
        world_step(&scene->step, 2);
        _exit(0);
    }
    while (true)
        mate_sleep(&mate, 1000);
}

/* As on Linux before 5.3, or in another pid namespace. What hangs up is heard at once; what does
 * not is found by looking. */
TEST(peers, without_pidfds_the_sign_of_life_hangs_up)
{
    hooks_set_without_pidfd(true);
    for (int forked = 0; forked < 2; forked++) {
        struct scene *scene = world_share(sizeof(*scene));
        struct world world;
        struct mate mate;
        struct stub waiting;
        struct pollfd heard = { .events = POLLIN };
        pid_t child;

        world_make(&world);
        child = world_fork(&world, forked ? hold_with_fork : hold, scene);
        CHECK(world_wait_step(&scene->step, 1));
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
        CHECK_EQUAL(mate_claim(&mate, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
        CHECK(mate_inside(&mate)->peers[0].death_fd >= 0);
        CHECK(mate_inside(&mate)->peers[0].polled);
        heard.fd = mate_inside(&mate)->epoll_fd;
        CHECK_EQUAL(poll(&heard, 1, 0), 0);
        end(child);
        CHECK_EQUAL(poll(&heard, 1, forked ? 0 : WORLD_PATIENCE_MS), !forked);
        CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, NULL));
        CHECK_EQUAL(mate.conn->rescued, 0);
        mate_close(&mate);
        world_step(&scene->go, 1);
        CHECK(!forked || world_wait_step(&scene->step, 2));
        world_end(&world);
        world_unshare(scene, sizeof(*scene));
    }
    hooks_set_without_pidfd(false);
}

/* A fork that listened to its parent's sign of life before it stood by for it. */
static int listen_and_stand_by(struct world *world, struct mate *parent, struct scene *scene)
{
    struct mate mate;
    struct stub stub;
    char error[HF__ERROR_BYTES] = "";

    hooks_set_without_pidfd(true);
    if (mate_open(&mate, world, "fork") < 0 ||
        mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_QUEUED ||
        mate_inside(&mate)->peers[0].death_fd < 0)
        return 1;
    if (parent->conn->engine->stand_by(parent->conn, error) < 0)
        return 2;
    mate_close(&mate);
    world_step(&scene->step, 1);
    return world_wait_step(&scene->go, 1) ? 0 : 3;
}

static int hold_until_forked(struct world *world, void *context)
{
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    if (fork() == 0)
        _exit(listen_and_stand_by(world, &mate, context));
    while (true)
        pause();
}

TEST(peers, who_listened_before_he_stood_by_stands_by)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub tried;
    struct stub waiting;
    pid_t child;

    world_make(&world);
    child = world_fork(&world, hold_until_forked, scene);
    CHECK(world_wait_step(&scene->step, 1));
    end(child);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &tried).kind, HF__REPLY_REFUSED);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &waiting).kind, HF__REPLY_QUEUED);
    world_step(&scene->go, 1);
    CHECK(mate_hears(&mate, &waiting, HF__REPLY_GRANTED, NULL));
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

#endif

/* --- descriptors --- */

static int close_the_sign_of_life(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub held;
    struct stub stub;

    if (mate_open(&mate, world, "daemon") < 0 ||
        mate_claim(&mate, "a", NULL, &held).kind != HF__REPLY_GRANTED)
        return 1;
    close(mate_inside(&mate)->life_fd);
    world_step(&scene->step, 1);
    if (!world_wait_step(&scene->go, 1))
        return 2;
    if ((int)mate_claim(&mate, "b", NULL, &stub).kind != -1)
        return 3;
    mate_drain(&mate);
    return mate.dead == HF_ELOST ? 0 : 4;
}

/* A program that has closed what was not its own (daemons do) is dead to the others, and must hear
 * of it. */
TEST(peers, a_program_that_closes_our_descriptors_is_told)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub stub;
    pid_t child;
    int status;

    world_make(&world);
    child = world_fork(&world, close_the_sign_of_life, scene);
    CHECK(world_wait_step(&scene->step, 1));
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &stub).kind, HF__REPLY_GRANTED);
    world_step(&scene->go, 1);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
    CHECK_EQUAL(mate_tell(&mate, HF__REQUEST_RENEW, &stub).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}
