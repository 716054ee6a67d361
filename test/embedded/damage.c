/* damage.c: garbage in the table, while somebody holds locks.
 *
 * A process holds three locks, and another waits. Ten thousand times the table is overwritten
 * somewhere (a byte, a word, a block; random, zeros or ones; most often where it hurts), before or
 * after a third process opened it; that one then tries everything. It may get an error, or hear
 * that the locks are busy. It must not crash, hang, or be granted what another holds. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "check.h"
#include "dice.h"
#include "world.h"

#define DAMAGES    10000u
#define PATIENCE_S 60

enum outcome { CLEAN, REPORTED, FALSE_GRANT, ODD_ERROR, CRASHED, HUNG };

struct scene {
    _Atomic uint32_t step;
    _Atomic uint32_t counts[8];
    char texts[8][HF__ERROR_BYTES];
};

static const char *const held_names[] = { "held/fast", "held/node", "held/read" };

/* --- those who live with it --- */

static int hold(struct world *world, void *context)
{
    struct scene *scene = context;
    struct mate holder;
    struct mate waiter;
    struct stub stubs[4];
    struct wish other = { .purpose = "other" };
    struct wish shared = { .shared = true };

    if (mate_open(&holder, world, "holder") < 0 || mate_open(&waiter, world, "waiter") < 0)
        return 1;
    if (mate_claim(&holder, held_names[0], NULL, &stubs[0]).kind != HF__REPLY_GRANTED ||
        mate_claim(&holder, held_names[1], &other, &stubs[1]).kind != HF__REPLY_GRANTED ||
        mate_claim(&holder, held_names[2], &shared, &stubs[2]).kind != HF__REPLY_GRANTED ||
        mate_claim(&waiter, held_names[1], NULL, &stubs[3]).kind != HF__REPLY_QUEUED)
        return 2;
    world_step(&scene->step, 1);
    while (true)
        pause();
}

/* --- the table, from outside --- */

struct span {
    uint64_t offset;
    uint64_t bytes;
};

/* What is in use, each part with the same chance to be hit. */
static const struct span spans[] = {
    { 0, 256 },
    { offsetof(struct hf__header_cell, rooms), 96 },
    { HF__GUARDS_OFFSET, HF__GUARDS * sizeof(struct hf__guard_cell) },
    { HF__BUCKETS_OFFSET, HF__BUCKETS * 8ull },
    { HF__SESSIONS_OFFSET, 4 * sizeof(struct hf__session_cell) },
    { HF__NODES_OFFSET, HF__NODES_STEP * sizeof(struct hf__node_cell) },
    { HF__LOCKS_OFFSET, 6 * sizeof(struct hf__lock_cell) },
    { HF__SHORT_NAMES_OFFSET, 6 * (uint64_t)HF__SHORT_NAME_BYTES },
};
#define SPANS (sizeof(spans) / sizeof(*spans))

static uint8_t *map_table(const struct world *world)
{
    char path[256];
    uint8_t *map;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/table", world->directory);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert(fd >= 0);
    map = mmap(NULL, HF__TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert(map != MAP_FAILED);
    close(fd);
    return map;
}

/* Where the chains of the held names begin: a needle in a megabyte otherwise. */
static uint64_t find_bucket(const uint8_t *map, struct dice *dice)
{
    const uint64_t *buckets = (const uint64_t *)(const void *)(map + HF__BUCKETS_OFFSET);
    uint64_t start = dice_below(dice, HF__BUCKETS);

    for (uint64_t i = 0; i < HF__BUCKETS; i++) {
        uint64_t at = (start + i) % HF__BUCKETS;

        if ((uint32_t)buckets[at] != 0)
            return HF__BUCKETS_OFFSET + at * 8;
    }
    return HF__BUCKETS_OFFSET;
}

static void corrupt(uint8_t *map, struct dice *dice)
{
    const struct span *span = &spans[dice_below(dice, SPANS)];
    static const uint64_t sizes[] = { 1, 8, 8, 64, 256, 4096 };
    uint64_t bytes = sizes[dice_below(dice, 6)];
    uint64_t offset = span->offset + dice_below(dice, span->bytes);
    uint64_t how = dice_below(dice, 4);

    if (span->offset == HF__BUCKETS_OFFSET && dice_below(dice, 2) == 0)
        offset = find_bucket(map, dice);
    if (bytes >= 8)
        offset = offset / 8 * 8;
    if (offset + bytes > span->offset + span->bytes && bytes > span->bytes)
        bytes = span->bytes;
    if (offset + bytes > span->offset + span->bytes)
        offset = span->offset + span->bytes - bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        if (how == 0)
            map[offset + i] = 0;
        else if (how == 1)
            map[offset + i] = 0xff;
        else if (how == 2)
            map[offset + i] ^= (uint8_t)(1u << dice_below(dice, 8));
        else
            map[offset + i] = (uint8_t)dice_roll(dice);
    }
}

/* --- the one who tries --- */

struct attempt {
    struct scene *scene;
    uint64_t seed;
    uint8_t *map;
};

static enum outcome judge_error(struct scene *scene, int status, const char *text)
{
    /* Others may hear that the holder is dead, that nothing fits any more, that a guard is
     * stuck. */
    if (status == HF_EINTEGRITY || status == HF_ELIMIT || status == HF_EUNREACHABLE)
        return REPORTED;
    (void)hf__text_copy(scene->texts[ODD_ERROR], HF__ERROR_BYTES, text);
    return ODD_ERROR;
}

static enum outcome worse(enum outcome a, enum outcome b)
{
    return a > b ? a : b;
}

static enum outcome try_held(struct mate *mate, struct scene *scene, const char *name)
{
    struct wish once = { .once = true };
    struct stub stub;
    enum outcome outcome = CLEAN;
    struct world_reply reply = mate_claim(mate, name, &once, &stub);

    if (reply.kind == HF__REPLY_GRANTED)
        return FALSE_GRANT;
    if (reply.kind != HF__REPLY_REFUSED)
        outcome = judge_error(scene, reply.status, mate->conn->error);
    reply = mate_claim(mate, name, NULL, &stub);
    if (reply.kind == HF__REPLY_GRANTED ||
        mate_hears_within(mate, &stub, HF__REPLY_GRANTED, NULL, 0))
        return FALSE_GRANT;
    if (reply.kind != HF__REPLY_QUEUED)
        return worse(outcome, judge_error(scene, reply.status, mate->conn->error));
    reply = mate_release(mate, &stub);
    if (reply.kind != HF__REPLY_GONE)
        outcome = worse(outcome, judge_error(scene, reply.status, mate->conn->error));
    return outcome;
}

static enum outcome try_others(struct mate *mate, struct scene *scene)
{
    enum outcome outcome = CLEAN;
    struct wish shared = { .shared = true };
    struct world_reply reply;
    struct stub stub;
    struct world_entry entry;
    int count;

    reply = mate_claim(mate, "held/read", &shared, &stub);
    if (reply.kind == HF__REPLY_GRANTED)
        reply = mate_release(mate, &stub);
    if ((int)reply.kind == -1)
        outcome = judge_error(scene, reply.status, mate->conn->error);
    reply = mate_claim(mate, "free/one", NULL, &stub);
    if (reply.kind == HF__REPLY_GRANTED)
        reply = mate_release(mate, &stub);
    if ((int)reply.kind == -1)
        outcome = worse(outcome, judge_error(scene, reply.status, mate->conn->error));
    count = mate_list(mate, NULL, &entry, 1);
    if (count < 0)
        outcome = worse(outcome, judge_error(scene, count, mate->conn->error));
    reply = mate_claim(mate, "free/new", &shared, &stub);
    if ((int)reply.kind == -1)
        outcome = worse(outcome, judge_error(scene, reply.status, mate->conn->error));
    return outcome;
}

static int attempt(struct world *world, void *context)
{
    struct attempt *mine = context;
    struct dice dice = { mine->seed };
    bool first = dice_below(&dice, 2) == 0;
    enum outcome outcome = CLEAN;
    struct mate mate;
    int status;

    alarm(PATIENCE_S);
    if (first)
        corrupt(mine->map, &dice);
    status = mate_open(&mate, world, "tester");
    if (status < 0)
        return (int)judge_error(mine->scene, status, mate.conn->error);
    if (!first)
        corrupt(mine->map, &dice);
    for (int i = 0; i < 3; i++)
        outcome = worse(outcome, try_held(&mate, mine->scene, held_names[i]));
    outcome = worse(outcome, try_others(&mate, mine->scene));
    mate_close(&mate);
    return (int)outcome;
}

/* --- the test --- */

struct copy {
    uint8_t *bytes[SPANS];
};

static void remember(struct copy *copy, const uint8_t *map)
{
    for (size_t i = 0; i < SPANS; i++) {
        copy->bytes[i] = malloc(spans[i].bytes);
        assert(copy->bytes[i]);
        memcpy(copy->bytes[i], map + spans[i].offset, spans[i].bytes);
    }
}

static void restore(const struct copy *copy, uint8_t *map)
{
    for (size_t i = 0; i < SPANS; i++)
        memcpy(map + spans[i].offset, copy->bytes[i], spans[i].bytes);
}

static void forget(struct copy *copy)
{
    for (size_t i = 0; i < SPANS; i++)
        free(copy->bytes[i]);
}

/* The files of a session that the restored table does not know. */
static void remove_strangers(const struct world *world)
{
    char command[512];

    for (int slot = 3; slot < 8; slot++) {
        (void)snprintf(command, sizeof(command), "%s/s.%d.1.", world->directory, slot);
        world_remove(world, command + strlen(world->directory) + 1);
    }
}

TEST(damage, garbage_is_never_a_grant)
{
    static const char *const words[] = { "clean",     "reported", "FALSE GRANT",
                                         "odd error", "CRASHED",  "HUNG" };
    const char *asked = getenv("EMBEDDED_DAMAGES");
    const char *asked_seed = getenv("EMBEDDED_SEED");
    uint32_t damages = asked ? (uint32_t)strtoul(asked, NULL, 10) : DAMAGES;
    struct scene *scene = world_share(sizeof(*scene));
    struct world world;
    struct copy copy;
    uint8_t *map;
    pid_t holder;

    world_make(&world);
    holder = world_fork(&world, hold, scene);
    CHECK(world_wait_step(&scene->step, 1));
    map = map_table(&world);
    remember(&copy, map);
    for (uint32_t i = 0; i < damages; i++) {
        struct attempt mine = { scene,
                                (asked_seed ? (uint32_t)strtoul(asked_seed, NULL, 10) : 1000) + i,
                                map };
        pid_t child = world_fork(&world, attempt, &mine);
        int status;
        enum outcome outcome;

        waitpid(child, &status, 0);
        outcome = WIFEXITED(status) && WEXITSTATUS(status) <= ODD_ERROR
                      ? (enum outcome)WEXITSTATUS(status)
                  : WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? HUNG
                                                                       : CRASHED;
        if (outcome > REPORTED && scene->counts[outcome] < 5)
            printf("seed %u: %s %s\n", 1000 + i, words[outcome], scene->texts[outcome]);
        scene->counts[outcome]++;
        restore(&copy, map);
        remove_strangers(&world);
    }
    printf("damages: %u;", damages);
    for (int i = 0; i <= HUNG; i++)
        printf(" %s: %u%s", words[i], scene->counts[i], i < HUNG ? "," : "\n");
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    CHECK(scene->counts[CLEAN] > 0 && scene->counts[REPORTED] > 0);
    for (int i = FALSE_GRANT; i <= HUNG; i++)
        CHECK_EQUAL(scene->counts[i], 0);
    forget(&copy);
    (void)munmap(map, HF__TABLE_BYTES);
    world_end(&world);
    world_unshare(scene, sizeof(*scene));
}
