/* world.c: a directory with a table, and connections that are driven through the seam.
 *
 * What is not asked for is never printed; what must not happen here is an assert. */
#include "world.h"

#include <assert.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/registry.h"

extern const struct hf__engine hf__embedded_engine;

void world_make_at(struct world *world, const char *directory)
{
    char text[256];
    char error[HF__ERROR_BYTES];

    memset(world, 0, sizeof(*world));
    (void)hf__text_copy(world->directory, sizeof(world->directory), directory);
    assert(hf__env_init(&world->env) == HF_OK);
    (void)snprintf(text, sizeof(text), "file:%s", world->directory);
    assert(hf__url_parse(text, &world->url, error) == HF_OK);
}

void world_make(struct world *world)
{
    const char *base = getenv("TMPDIR");
    char directory[128];

    (void)snprintf(directory, sizeof(directory), "%s/embedded.XXXXXX", base ? base : "/tmp");
    assert(mkdtemp(directory));
    world_make_at(world, directory);
}

size_t world_files(const struct world *world, const char *prefix)
{
    DIR *directory = opendir(world->directory);
    struct dirent *entry;
    size_t count = 0;

    while (directory && (entry = readdir(directory)))
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && entry->d_name[0] != '.';
    if (directory)
        closedir(directory);
    return count;
}

void world_remove(const struct world *world, const char *prefix)
{
    DIR *directory = opendir(world->directory);
    struct dirent *entry;
    char path[512];

    while (directory && (entry = readdir(directory))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", world->directory, entry->d_name);
        (void)unlink(path);
    }
    if (directory)
        closedir(directory);
}

void world_end(struct world *world)
{
    world_remove(world, "");
    (void)rmdir(world->directory);
    hf__env_done(&world->env);
}

/* --- connections --- */

int mate_open(struct mate *mate, struct world *world, const char *purpose)
{
    struct hf__conn_options options = {
        .url = &world->url,
        .purpose = purpose,
        .lease_ns = 30 * HF__NS_PER_S,
        .now_ns = hf__clock_now_ns(),
    };

    memset(mate, 0, sizeof(*mate));
    mate->world = world;
    mate->next_id = 1;
    mate->news = calloc(WORLD_NEWS_MAX, sizeof(*mate->news));
    mate->conn = hf__env_new(&world->env, hf__embedded_engine.conn_size);
    assert(mate->news && mate->conn);
    mate->conn->engine = &hf__embedded_engine;
    mate->conn->recipe = hf__embedded_engine.recipes[0];
    mate->conn->env = &world->env;
    return hf__embedded_engine.open(mate->conn, &options);
}

void mate_close(struct mate *mate)
{
    hf__embedded_engine.close(mate->conn);
    hf__env_free(&mate->world->env, mate->conn);
    free(mate->news);
    memset(mate, 0, sizeof(*mate));
}

struct hf__embedded *mate_inside(const struct mate *mate)
{
    return (struct hf__embedded *)mate->conn;
}

/* --- replies --- */

static struct world_reply copy(const struct hf__reply *reply)
{
    struct world_reply copied = {
        .kind = reply->kind,
        .ticket = reply->ticket,
        .fence = reply->fence,
        .ahead = reply->ahead,
        .released = reply->released,
        .others_wait = reply->others_wait,
        .status = reply->status,
        .wake = reply->wake,
    };

    if (reply->cause)
        (void)hf__text_copy(copied.cause, sizeof(copied.cause), reply->cause);
    if (reply->holder) {
        copied.holder = *reply->holder;
        copied.has_holder = true;
    }
    return copied;
}

static void note_entry(struct mate *mate, const struct hf_holding *entry)
{
    struct world_entry *to = &mate->entries[mate->entry_count];

    if (mate->entry_count++ >= mate->entry_most)
        return;
    (void)hf__text_copy(to->name, sizeof(to->name), entry->name);
    to->mode = entry->mode;
    to->waiting = entry->waiting;
    to->position = entry->position;
    to->fence = entry->fence;
    to->remaining_ms = entry->remaining_ms;
    to->age_ms = entry->age_ms;
    to->pid = entry->pid;
    (void)hf__text_copy(to->host, sizeof(to->host), entry->host);
    (void)hf__text_copy(to->purpose, sizeof(to->purpose), entry->purpose);
}

void mate_drain(struct mate *mate)
{
    struct hf__reply reply;
    int got = 1;

    while (mate->dead == 0 && got > 0) {
        got = hf__embedded_engine.advance(mate->conn, hf__clock_now_ns(), &reply);
        if (got < 0)
            mate->dead = got;
        if (got > 0 && reply.kind == HF__REPLY_ENTRY)
            note_entry(mate, reply.entry);
        if (got > 0 && reply.kind != HF__REPLY_ENTRY) {
            assert(mate->news_count < WORLD_NEWS_MAX);
            mate->news[mate->news_count++] = copy(&reply);
        }
    }
}

static bool take(struct mate *mate, uint64_t id, int kind, uint32_t round,
                 struct world_reply *out_reply)
{
    for (size_t i = 0; i < mate->news_count; i++) {
        struct world_reply *reply = &mate->news[i];

        if (reply->ticket.claim_id != id || (kind >= 0 && (int)reply->kind != kind) ||
            (round != 0 &&
             (reply->ticket.round != round || reply->ticket.kind == HF__REQUEST_NONE)))
            continue;
        if (out_reply)
            *out_reply = *reply;
        mate->news_count--;
        memmove(reply, reply + 1, (mate->news_count - i) * sizeof(*reply));
        return true;
    }
    return false;
}

void mate_sleep(struct mate *mate, int64_t wait_ms)
{
    struct hf__pollset set;
    uint64_t now_ns = hf__clock_now_ns();
    int64_t ms;

    if (mate->dead != 0)
        return;
    hf__pollset_init(&set);
    hf__pollset_until(&set, hf__clock_after_ms(now_ns, wait_ms));
    hf__embedded_engine.pollset(mate->conn, &set);
    ms = hf__clock_wait_ms(now_ns, set.deadline_ns);
    (void)poll(set.fds, set.count, (int)ms);
    mate_drain(mate);
}

bool mate_hears_within(struct mate *mate, const struct stub *stub, enum hf__reply_kind kind,
                       struct world_reply *out_reply, int64_t wait_ms)
{
    uint64_t end_ns = hf__clock_after_ms(hf__clock_now_ns(), wait_ms);

    mate_drain(mate);
    while (!take(mate, stub->id, (int)kind, 0, out_reply)) {
        int64_t left_ms = hf__clock_wait_ms(hf__clock_now_ns(), end_ns);

        if (left_ms <= 0 || mate->dead != 0)
            return false;
        mate_sleep(mate, left_ms);
    }
    return true;
}

bool mate_hears(struct mate *mate, const struct stub *stub, enum hf__reply_kind kind,
                struct world_reply *out_reply)
{
    return mate_hears_within(mate, stub, kind, out_reply, WORLD_PATIENCE_MS);
}

/* --- requests --- */

struct world_reply mate_ask(struct mate *mate, struct hf__request *request)
{
    struct world_reply reply = { .kind = (enum hf__reply_kind) - 1 };
    uint64_t end_ns = hf__clock_after_ms(hf__clock_now_ns(), WORLD_PATIENCE_MS);
    int status;

    request->ticket.round = ++mate->round;
    request->ticket.sent_ns = hf__clock_now_ns();
    if (request->deadline_ns == 0)
        request->deadline_ns = HF__NEVER;
    if (mate->dead != 0) {
        reply.status = mate->dead;
        return reply;
    }
    status = hf__embedded_engine.submit(mate->conn, request);
    if (status < 0) {
        reply.status = status;
        return reply;
    }
    mate_drain(mate);
    while (!take(mate, request->ticket.claim_id, -1, request->ticket.round, &reply)) {
        if (mate->dead != 0 || hf__clock_now_ns() >= end_ns) {
            reply.status = mate->dead ? mate->dead : HF_ETIMEDOUT;
            return reply;
        }
        mate_sleep(mate, 100);
    }
    return reply;
}

struct world_reply mate_claim(struct mate *mate, const char *name, const struct wish *wish,
                              struct stub *out_stub)
{
    static const struct wish plain;
    struct world_reply reply;
    struct hf__request request;

    if (!wish)
        wish = &plain;
    memset(out_stub, 0, sizeof(*out_stub));
    out_stub->id = mate->next_id++;
    out_stub->name = name;
    out_stub->shared = wish->shared;
    hf__env_random(&mate->world->env, out_stub->token, sizeof(out_stub->token));
    request = (struct hf__request){
        .ticket = { .kind = HF__REQUEST_CLAIM, .claim_id = out_stub->id },
        .name = name,
        .name_bytes = strlen(name),
        .token = out_stub->token,
        .mode = wish->shared ? HF_SHARED : HF_EXCLUSIVE,
        .queueing = !wish->once,
        .blocking = wish->blocking,
        .ends = wish->ends,
        .lease_ns = wish->lease_ns ? wish->lease_ns : 30 * HF__NS_PER_S,
        .grace_ns = wish->grace_ns,
        .purpose = wish->purpose,
    };
    reply = mate_ask(mate, &request);
    if (reply.kind == HF__REPLY_GRANTED)
        out_stub->fence = reply.fence;
    return reply;
}

struct world_reply mate_tell(struct mate *mate, enum hf__request_kind kind, const struct stub *stub)
{
    struct hf__request request = {
        .ticket = { .kind = kind, .claim_id = stub->id },
        .name = stub->name,
        .name_bytes = strlen(stub->name),
        .token = stub->token,
        .mode = stub->shared ? HF_SHARED : HF_EXCLUSIVE,
        .fence = stub->fence,
        .lease_ns = 30 * HF__NS_PER_S,
    };

    return mate_ask(mate, &request);
}

struct world_reply mate_release(struct mate *mate, const struct stub *stub)
{
    return mate_tell(mate, HF__REQUEST_RELEASE, stub);
}

struct world_reply mate_break(struct mate *mate, const char *name, uint64_t fence)
{
    struct hf__request request = {
        .ticket = { .kind = HF__REQUEST_BREAK, .claim_id = mate->next_id++ },
        .name = name,
        .name_bytes = strlen(name),
        .fence = fence,
    };

    return mate_ask(mate, &request);
}

int mate_list(struct mate *mate, const char *glob, struct world_entry *out_entries, size_t most)
{
    struct hf__request request = {
        .ticket = { .kind = HF__REQUEST_LIST, .claim_id = mate->next_id++ },
        .glob = glob,
    };
    struct world_reply reply;

    mate->entries = out_entries;
    mate->entry_most = most;
    mate->entry_count = 0;
    reply = mate_ask(mate, &request);
    mate->entry_most = 0;
    return reply.kind == HF__REPLY_DONE ? (int)mate->entry_count : reply.status;
}

/* --- what is left --- */

struct remains mate_remains(const struct mate *mate)
{
    struct hf__embedded *conn = mate_inside(mate);
    const struct hf__table *table = &conn->table;
    struct remains remains = { 0 };

    for (uint32_t region = HF__REGION_SHORT; region <= HF__REGION_LONG; region++) {
        uint32_t base = region == HF__REGION_LONG ? HF__SHORT_NAMES_MAX : 0;
        uint32_t used = 0;

        assert(hf__table_locks_used(conn, (enum hf__region)region, &used) == HF_OK);
        for (uint32_t i = 0; i < used; i++) {
            struct hf__word word;

            assert(hf__line_peek(conn, base + i, &word));
            remains.owned += (uint32_t)word.high != HF__OWNER_NONE;
            remains.inflated += (word.low & HF__WORD_INFLATED) != 0;
        }
    }
    (void)hf__table_reaches(conn, HF__REGION_NODES, HF__NODES_MAX);
    for (uint32_t i = 1; i <= table->rooms[HF__REGION_NODES]; i++)
        remains.nodes += hf__node_owner(conn, i) != HF__OWNER_NONE;
    (void)hf__table_reaches(conn, HF__REGION_SESSIONS, HF__SESSIONS_MAX);
    for (uint32_t i = 1; i <= table->rooms[HF__REGION_SESSIONS]; i++) {
        uint32_t owner;

        remains.sessions += hf__session_owner(conn, i, &owner);
    }
    for (uint32_t i = 0; i < HF__GUARDS; i++) {
        const struct hf__guard_cell *cell = hf__table_guard(table, i);

        remains.guards += (uint32_t)hf__table_load(&cell->word) != HF__OWNER_NONE;
        remains.journals += hf__table_load(&cell->journal) != 0;
    }
    return remains;
}

/* --- processes --- */

pid_t world_fork(struct world *world, int (*run)(struct world *world, void *context), void *context)
{
    pid_t child = fork();

    assert(child >= 0);
    if (child == 0) {
        struct hf__env env;

        assert(hf__env_init(&env) == HF_OK); /* its own random numbers */
        world->env = env;
        _exit(run(world, context));
    }
    return child;
}

void world_step(_Atomic uint32_t *step, uint32_t value)
{
    atomic_store(step, value);
}

bool world_wait_step(_Atomic uint32_t *step, uint32_t value)
{
    for (uint32_t i = 0; i < WORLD_PATIENCE_MS; i++) {
        if (atomic_load(step) >= value)
            return true;
        usleep(1000);
    }
    return false;
}

void *world_share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert(memory != MAP_FAILED);
    return memory;
}

void world_unshare(void *memory, size_t bytes)
{
    (void)munmap(memory, bytes);
}
