/* beginnings.c: a new boot, a lost or damaged epoch, a counter that comes to its end, and deaths
 * while a table is made. Whatever happens, fences rise. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "hooks.h"
#include "world.h"

static const struct wish once_wish = { .once = true };

static void path_of(const struct world *world, const char *name, char out_path[256])
{
    (void)snprintf(out_path, 256, "%s/%s", world->directory, name);
}

static void write_file(const struct world *world, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    path_of(world, name, path);
    file = fopen(path, "w");
    CHECK(file);
    CHECK(fputs(text, file) >= 0);
    CHECK_EQUAL(fclose(file), 0);
    CHECK_EQUAL(chmod(path, 0600), 0);
}

static void read_file(const struct world *world, const char *name, char out_text[128])
{
    char path[256];
    FILE *file;

    path_of(world, name, path);
    file = fopen(path, "r");
    CHECK(file);
    CHECK(fgets(out_text, 128, file));
    CHECK_EQUAL(fclose(file), 0);
}

/* Opens, takes the lock once, closes. */
static uint64_t take_fence(struct world *world)
{
    struct mate mate;
    struct stub stub;
    int status = mate_open(&mate, world, "fence");

    if (status < 0)
        printf("open: %d %s\n", status, mate.conn->error);
    CHECK_EQUAL(status, HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &stub).kind, HF__REPLY_GRANTED);
    CHECK(mate_release(&mate, &stub).released);
    mate_close(&mate);
    return stub.fence;
}

TEST(beginnings, a_new_boot_has_a_new_table_and_a_greater_epoch)
{
    struct world world;
    struct mate mate;
    struct stub stub;
    uint64_t before;
    uint64_t after;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "before"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &stub).kind, HF__REPLY_GRANTED);
    before = stub.fence;
    mate_close(&mate);
    for (int i = 0; i < 5; i++) {
        char boot[64];

        (void)snprintf(boot, sizeof(boot), "00000000-0000-0000-0000-%012d", i);
        hooks_set_boot_id(boot);
        after = take_fence(&world);
        CHECK(after >> HF__COUNTER_BITS == (before >> HF__COUNTER_BITS) + 1);
        before = after;
        CHECK(take_fence(&world) == before + 1); /* the same boot goes on */
        before++;
    }
    hooks_set_boot_id(NULL);
    world_end(&world);
}

TEST(beginnings, the_first_epoch_is_the_hours_since_2020)
{
    struct world world;
    uint64_t hours = ((uint64_t)time(NULL) - 1577836800u) / 3600;
    uint64_t epoch;

    world_make(&world);
    epoch = take_fence(&world) >> HF__COUNTER_BITS;
    CHECK(epoch == hours || epoch == hours + 1);
    world_end(&world);
}

TEST(beginnings, a_lost_epoch_is_taken_from_the_table)
{
    struct world world;
    char before[128];
    char after[128];
    char path[256];
    uint64_t fence;

    world_make(&world);
    fence = take_fence(&world);
    read_file(&world, "epoch", before);
    path_of(&world, "epoch", path);
    CHECK_EQUAL(unlink(path), 0);
    CHECK_EQUAL(take_fence(&world), fence + 1);
    read_file(&world, "epoch", after);
    CHECK_TEXT(after, before);
    world_end(&world);
}

TEST(beginnings, a_lost_table_begins_a_greater_epoch)
{
    struct world world;
    char path[256];
    uint64_t fence;

    world_make(&world);
    fence = take_fence(&world);
    path_of(&world, "table", path);
    CHECK_EQUAL(unlink(path), 0);
    CHECK(take_fence(&world) >> HF__COUNTER_BITS == (fence >> HF__COUNTER_BITS) + 1);
    world_end(&world);
}

TEST(beginnings, a_damaged_epoch_is_an_error_and_never_a_guess)
{
    static const char *const garbage[] = {
        "",
        "\n",
        "holdfast-epoch 1 5 0000000000000000\n",
        "holdfast-epoch 1 60000",
        "60000\n",
        "holdfast-epoch 1 -1 0000000000000000\n",
        "holdfast-epoch 2 60000 0000000000000000\n",
        "holdfast-epoch 1 99999999999999999999 0000000000000000\n",
        "\xff\xff\xff\xff\xff\xff\xff",
    };
    char good[128];

    for (size_t i = 0; i < sizeof(garbage) / sizeof(*garbage); i++) {
        struct world world;
        struct mate mate;
        char text[128];
        char path[256];

        world_make(&world);
        (void)take_fence(&world);
        read_file(&world, "epoch", good);
        write_file(&world, "epoch", garbage[i]);
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EINTEGRITY);
        path_of(&world, "epoch: ", path);
        CHECK(strncmp(mate.conn->error, path, strlen(path)) == 0);
        mate_close(&mate);
        path_of(&world, "table", path); /* nor is it a reason to begin anew */
        CHECK_EQUAL(unlink(path), 0);
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EINTEGRITY);
        mate_close(&mate);
        good[strlen(good) - 2] ^= 1; /* one bit of the check */
        write_file(&world, "epoch", good);
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EINTEGRITY);
        mate_close(&mate);
        good[strlen(good) - 2] ^= 1;
        write_file(&world, "epoch", good);
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
        mate_close(&mate);
        (void)text;
        world_end(&world);
    }
}

/* Sets a lock's fence, as if it had been granted so often. Nobody may hold it. */
static uint64_t set_counter(struct mate *mate, const char *name, uint64_t counter)
{
    struct hf__embedded *conn = mate_inside(mate);
    struct hf__request request = { .name = name, .name_bytes = strlen(name) };
    struct hf__line line;
    uint32_t lock;
    uint64_t fence;

    CHECK_EQUAL(hf__index_find(conn, &request, true, &lock), HF_OK);
    CHECK_EQUAL(hf__line_enter(conn, lock, &line), HF_OK);
    fence = (line.fence & ~HF__COUNTER_MAX) | counter;
    hf__line_raise(&line, fence);
    CHECK_EQUAL(hf__line_leave(&line), HF_OK);
    return fence;
}

TEST(beginnings, a_counter_at_its_end_takes_a_new_durable_epoch)
{
    static const struct wish wishes[] = { { .once = true }, { .shared = true }, { .ends = true } };

    for (size_t i = 0; i < 3; i++) {
        struct world world;
        struct mate mate;
        struct stub stub;
        char before[128];
        char after[128];
        uint64_t fence;

        world_make(&world);
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
        fence = set_counter(&mate, "a", HF__COUNTER_LATE - 1);
        read_file(&world, "epoch", before);
        CHECK_EQUAL(mate_claim(&mate, "a", &wishes[i], &stub).kind, HF__REPLY_GRANTED);
        CHECK_EQUAL(stub.fence, fence + 1); /* the last of its epoch */
        CHECK(mate_release(&mate, &stub).released);
        CHECK_EQUAL(mate_claim(&mate, "a", &wishes[i], &stub).kind, HF__REPLY_GRANTED);
        CHECK_EQUAL(stub.fence, (((fence >> HF__COUNTER_BITS) + 1) << HF__COUNTER_BITS) + 1);
        CHECK(mate_release(&mate, &stub).released);
        read_file(&world, "epoch", after);
        CHECK(strcmp(before, after) != 0);
        CHECK_EQUAL(mate_claim(&mate, "a", &wishes[i], &stub).kind, HF__REPLY_GRANTED);
        CHECK_EQUAL(stub.fence, (((fence >> HF__COUNTER_BITS) + 1) << HF__COUNTER_BITS) + 2);
        mate_close(&mate);
        hooks_set_boot_id("00000000-0000-0000-0000-00000000beef");
        CHECK(take_fence(&world) > stub.fence); /* also after a reboot */
        hooks_set_boot_id(NULL);
        world_end(&world);
    }
}

/* A crowd that waits when the counter comes to its end is still served. */
TEST(beginnings, waiters_are_served_beyond_the_late_mark)
{
    struct world world;
    struct mate mates[2];
    struct stub stubs[8];
    struct world_reply reply;
    uint64_t last;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mates[0], &world, "test"), HF_OK);
    CHECK_EQUAL(mate_open(&mates[1], &world, "test"), HF_OK);
    last = set_counter(&mates[0], "a", HF__COUNTER_LATE - 3);
    for (int i = 0; i < 8; i++)
        (void)mate_claim(&mates[i % 2], "a", NULL, &stubs[i]);
    for (int i = 0; i < 8; i++) {
        if (i > 0)
            CHECK(mate_hears(&mates[i % 2], &stubs[i], HF__REPLY_GRANTED, &reply));
        CHECK((i == 0 ? stubs[0].fence : reply.fence) > last);
        last = i == 0 ? stubs[0].fence : reply.fence;
        CHECK(mate_release(&mates[i % 2], &stubs[i]).released);
    }
    CHECK_EQUAL(mate_claim(&mates[0], "a", NULL, &stubs[0]).kind, HF__REPLY_GRANTED);
    CHECK(stubs[0].fence > last);
    CHECK(stubs[0].fence >> HF__COUNTER_BITS == (last >> HF__COUNTER_BITS) + 1);
    mate_close(&mates[0]);
    mate_close(&mates[1]);
    world_end(&world);
}

/* --- a table that is taken away --- */

struct scene {
    _Atomic uint32_t step;
};

static int hold(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "child") < 0 ||
        mate_claim(&mate, "a", NULL, &stub).kind != HF__REPLY_GRANTED)
        return 1;
    world_step(&scene->step, 1);
    while (true)
        pause();
}

/* A second table beside one in use would grant every lock twice. */
TEST(beginnings, no_second_table_while_somebody_uses_the_first)
{
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct mate mate;
    struct stub stub;
    char path[256];
    char aside[256];
    pid_t child;

    world_make(&world);
    child = world_fork(&world, hold, scene);
    CHECK(world_wait_step(&scene->step, 1));
    path_of(&world, "table", path);
    path_of(&world, "aside", aside);
    CHECK_EQUAL(rename(path, aside), 0);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EINTEGRITY);
    CHECK(strstr(mate.conn->error, "stop all programs") != NULL);
    mate_close(&mate);
    CHECK_EQUAL(rename(aside, path), 0);
    hooks_set_boot_id("00000000-0000-0000-0000-00000000cafe");
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EINTEGRITY);
    mate_close(&mate);
    hooks_set_boot_id(NULL);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", &once_wish, &stub).kind, HF__REPLY_REFUSED);
    mate_close(&mate);
    CHECK_EQUAL(truncate(path, 4096), 0);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EINTEGRITY);
    mate_close(&mate);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EINTEGRITY); /* damage is not thrown away */
    mate_close(&mate);
    CHECK_EQUAL(unlink(path), 0); /* as the text says */
    (void)take_fence(&world);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}

/* --- deaths while it is made --- */

struct arming {
    const char *point;
};

static int open_and_die(struct world *world, void *context)
{
    struct arming *arming = context;
    struct mate mate;

    hooks_arm(arming->point, 1, NULL);
    if (mate_open(&mate, world, "victim") < 0)
        return 1;
    mate_close(&mate);
    return 0;
}

static int end_counter_and_die(struct world *world, void *context)
{
    struct arming *arming = context;
    struct mate mate;
    struct stub stub;

    if (mate_open(&mate, world, "victim") < 0)
        return 1;
    (void)set_counter(&mate, "a", HF__COUNTER_LATE);
    hooks_arm(arming->point, 1, NULL);
    (void)mate_claim(&mate, "a", NULL, &stub);
    return 0;
}

TEST(beginnings, deaths_while_a_table_or_an_epoch_is_made)
{
    static const char *const points[] = { "epoch begun",     "epoch written", "epoch renamed",
                                          "table filled",    "table renamed", "life file made",
                                          "session written", "session open" };
    struct hooks *hooks = hooks_share();

    for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
        struct arming arming = { points[i] };
        struct world world;
        struct mate mate;
        uint64_t fence = 0;
        char boot[64];
        int status;

        world_make(&world);
        for (int round = 0; round < 4; round++) {
            pid_t child;
            uint64_t next;

            (void)snprintf(boot, sizeof(boot), "00000000-0000-0000-0000-%012d", round);
            hooks_set_boot_id(boot);
            child = world_fork(&world, open_and_die, &arming);
            waitpid(child, &status, 0);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            next = take_fence(&world);
            CHECK(next > fence);
            fence = next;
        }
        if (strncmp(points[i], "epoch", 5) == 0) {
            pid_t child = world_fork(&world, end_counter_and_die, &arming);

            waitpid(child, &status, 0);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            CHECK(take_fence(&world) > fence);
        }
        hooks_set_boot_id("00000000-0000-0000-0000-000000000003");
        CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
        CHECK_EQUAL(mate_remains(&mate).sessions, 1);
        CHECK_EQUAL(world_files(&world, "s."), 2);
        CHECK_EQUAL(world_files(&world, "table.new"), 0);
        CHECK_EQUAL(world_files(&world, "epoch.new"), 0);
        mate_close(&mate);
        hooks_set_boot_id(NULL);
        world_end(&world);
    }
    hooks_unshare(hooks);
}

/* --- deaths while it grows --- */

static int take_names(struct mate *mate, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        char name[32];
        struct stub stub;

        (void)snprintf(name, sizeof(name), "grown/%u", i);
        if (mate_claim(mate, name, NULL, &stub).kind != HF__REPLY_GRANTED)
            return HF_EINTEGRITY;
    }
    return HF_OK;
}

static int grow_and_die(struct world *world, void *context)
{
    uint32_t *from = context;
    struct mate mate;

    if (mate_open(&mate, world, "victim") < 0)
        return 1;
    hooks_arm("room prepared", 1, NULL);
    (void)take_names(&mate, *from, *from + 1);
    return 0;
}

/* Cells that were prepared and never announced are prepared again; those in use are not. */
TEST(beginnings, deaths_while_a_table_grows)
{
    struct hooks *hooks = hooks_share();
    struct world world;
    struct mate mate;
    int status;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "grower"), HF_OK);
    CHECK_EQUAL(take_names(&mate, 0, HF__SHORT_NAMES_STEP), HF_OK);
    for (uint32_t room = HF__SHORT_NAMES_STEP; room < HF__SHORT_NAMES_MAX;
         room += HF__SHORT_NAMES_STEP) {
        pid_t child = world_fork(&world, grow_and_die, &room);

        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK_EQUAL(mate_remains(&mate).owned, room);
        CHECK_EQUAL(take_names(&mate, room, room + HF__SHORT_NAMES_STEP), HF_OK);
    }
    CHECK_EQUAL(mate_remains(&mate).owned, HF__SHORT_NAMES_MAX);
    CHECK_EQUAL(mate_remains(&mate).guards, 0);
    mate_close(&mate);
    hooks_unshare(hooks);
    world_end(&world);
}
