/* raw_zookeeper.c: what is ZooKeeper measured against?
 *
 * libzookeeper (the one with threads), one session for every contender, the least requests that
 * could work: create of one ephemeral node takes the lock, delete gives it back. Who is refused
 * asks again after a millisecond. It has no line, no fence and no validity, and who loses its
 * session is not told. A node stands right below the chroot, so that there are no parents to make.
 *
 * W2 is 16 in flight: contender 0 keeps 16 chains going over one session with the asynchronous
 * calls, the other 15 contenders sleep. A chain is create, delete, create, delete, each sent by the
 * completion of the one before it, in the library's own thread: nobody is woken between. So this
 * is what the server and one connection can do, with no thread that wanted the lock.
 *
 * The hand-over: one create and one delete, by the one who receives, when the other has passed it
 * the turn by a futex: that is what W5 is compared with.
 *
 * What can go wrong: the answer is not the one that was wanted: errno says about what, and the run
 * ends. TLS is refused: Debian's libzookeeper has none. */
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADED
#include <zookeeper/zookeeper.h>

#include "clock.h"
#include "futex.h"
#include "side.h"

#define POLL_NS        1000000u
#define CONNECT_NS_MAX 10000000000ull
#define SESSION_MS     30000
#define PORT           "2181"
#define URL_BYTES      1024
#define PATH_BYTES     (BENCH_NAME_BYTES + 16)
#define ANY_VERSION    (-1)
#define IN_FLIGHT      BENCH_LOCKS_MAX

struct raw_zookeeper;

/* W2: one of those that create and delete by themselves. */
struct chain {
    struct raw_zookeeper *raw;
    char path[PATH_BYTES];
    uint64_t begun_ns;
};

struct raw_zookeeper {
    zhandle_t *handle;
    char path[PATH_BYTES];
    struct chain chains[IN_FLIGHT];
    struct bench_contender *record; /* written by the library's thread while chains are running */
    _Atomic uint64_t cycles;        /* of all chains, ever                     */
    _Atomic uint32_t running;       /* chains that have not stopped; a futex   */
    _Atomic uint32_t pending;       /* answers that are not there; a futex     */
    _Atomic bool stopping;
    _Atomic bool measuring;
    _Atomic int failed; /* the first answer that was not wanted; 0: none */
};

/* --- connecting --- */

static int fail(int error)
{
    errno = error;
    return HF_ESYSTEM;
}

/* errno for an answer of libzookeeper. */
static int fail_as(int answer)
{
    switch (answer) {
    case ZCONNECTIONLOSS:
        return fail(ECONNRESET);
    case ZOPERATIONTIMEOUT:
        return fail(ETIMEDOUT);
    case ZNOAUTH:
    case ZAUTHFAILED:
        return fail(EACCES);
    case ZNONODE:
        return fail(ENOENT);
    case ZNODEEXISTS:
        return fail(EBUSY); /* it was nobody's */
    case ZSESSIONEXPIRED:
        return fail(ESTALE);
    default:
        return fail(EPROTO);
    }
}

static void drop_message(const char *message)
{
    (void)message;
}

static void ignore_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

/* zookeeper://[user:password@]host[:port][,...][/chroot][?...]; both parts lie in the buffer. */
static int cut_url(const char *url, char buffer[URL_BYTES], char **out_user, char **out_servers)
{
    const char *rest = strstr(url, "://");
    char *at;

    if (!rest || strlen(rest) - 3 >= URL_BYTES)
        return fail(EINVAL);
    if (strncmp(url, "zookeeper:", strlen("zookeeper:")) != 0)
        return fail(EPROTONOSUPPORT);
    snprintf(buffer, URL_BYTES, "%s", rest + 3);
    buffer[strcspn(buffer, "?")] = '\0';
    at = strrchr(buffer, '@');
    if (at)
        *at = '\0';
    *out_user = at ? buffer : NULL;
    *out_servers = at ? at + 1 : buffer;
    return HF_OK;
}

/* The chroot is made if it is missing, piece by piece. */
static int make_chroot(zhandle_t *handle, const char *chroot)
{
    char path[URL_BYTES];
    size_t bytes = 0;

    while (chroot[bytes]) {
        int answer;

        bytes += 1 + strcspn(chroot + bytes + 1, "/");
        snprintf(path, sizeof(path), "%.*s", (int)bytes, chroot);
        answer = zoo_create(handle, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
        if (answer != ZOK && answer != ZNODEEXISTS)
            return fail_as(answer);
    }
    return HF_OK;
}

/* NULL: no server was there in time. What is asked before the session stands fails with the first
 * server that does not answer, even if another one would. */
static zhandle_t *open_session(const char *servers, const char *user)
{
    uint64_t end_ns = bench_clock_now_ns() + CONNECT_NS_MAX;
    zhandle_t *handle =
        zookeeper_init2(servers, ignore_event, SESSION_MS, NULL, NULL, 0, drop_message);

    if (!handle)
        return NULL;
    if (user)
        zoo_add_auth(handle, "digest", user, (int)strlen(user), NULL, NULL);
    while (zoo_state(handle) != ZOO_CONNECTED_STATE && bench_clock_now_ns() < end_ns)
        bench_clock_sleep(POLL_NS);
    if (zoo_state(handle) == ZOO_CONNECTED_STATE)
        return handle;
    zookeeper_close(handle);
    errno = ETIMEDOUT;
    return NULL;
}

static int prepare_chroot(const char *servers, const char *user)
{
    char copy[URL_BYTES];
    char *slash;
    zhandle_t *handle;
    int status;

    snprintf(copy, sizeof(copy), "%s", servers);
    slash = strchr(copy, '/');
    if (!slash || slash[1] == '\0')
        return HF_OK;
    *slash = '\0';
    handle = open_session(copy, user);
    if (!handle)
        return HF_ESYSTEM;
    *slash = '/';
    status = make_chroot(handle, slash);
    zookeeper_close(handle);
    return status;
}

static int connect_to(struct raw_zookeeper *raw, const char *url)
{
    char buffer[URL_BYTES];
    char *user;
    char *servers;

    if (cut_url(url, buffer, &user, &servers) < 0 || prepare_chroot(servers, user) < 0)
        return HF_ESYSTEM;
    raw->handle = open_session(servers, user);
    return raw->handle ? HF_OK : HF_ESYSTEM;
}

/* The lock's name and a number as one node, whatever slashes the name has. */
static void name_node(const char name[BENCH_NAME_BYTES], uint32_t number, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "/%.*s-%u", BENCH_NAME_BYTES - 1, name, number);
    for (char *slash = path + 1; (slash = strchr(slash, '/'));)
        *slash = '-';
}

static struct raw_zookeeper *raw_of(struct bench_seat *seat)
{
    struct raw_zookeeper *raw = seat->raw;

    if (raw)
        return raw;
    raw = calloc(1, sizeof(*raw));
    if (!raw)
        return NULL;
    seat->raw = raw;
    name_node(seat->name, 0, raw->path);
    if (connect_to(raw, seat->url) < 0)
        return NULL;
    return raw;
}

/* --- one cycle --- */

static int create_node(struct raw_zookeeper *raw, const char *path)
{
    return zoo_create(raw->handle, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
}

static int acquire(struct bench_seat *seat)
{
    struct raw_zookeeper *raw = raw_of(seat);
    int answer;

    if (!raw)
        return HF_ESYSTEM;
    while ((answer = create_node(raw, raw->path)) == ZNODEEXISTS)
        bench_clock_sleep(POLL_NS);
    return answer == ZOK ? HF_OK : fail_as(answer);
}

static int release(struct bench_seat *seat)
{
    struct raw_zookeeper *raw = raw_of(seat);
    int answer = zoo_delete(raw->handle, raw->path, ANY_VERSION);

    return answer == ZOK ? HF_OK : fail_as(answer);
}

/* --- 16 of them at once, by one thread --- */

static void note_failure(struct raw_zookeeper *raw, int answer)
{
    int none = ZOK;

    if (answer != ZOK)
        atomic_compare_exchange_strong(&raw->failed, &none, answer);
}

static void end_one(_Atomic uint32_t *left)
{
    if (atomic_fetch_sub(left, 1) == 1)
        bench_futex_wake(left, 1);
}

static void wait_for_none(_Atomic uint32_t *left)
{
    uint32_t found;

    while ((found = atomic_load(left)) != 0)
        bench_futex_wait(left, found);
}

static void hear_created(int answer, const char *value, const void *data)
{
    struct raw_zookeeper *const *raw = data;

    (void)value;
    note_failure(*raw, answer);
    end_one(&(*raw)->pending);
}

static void hear_deleted(int answer, const void *data)
{
    hear_created(answer, NULL, data);
}

static int finish_all(struct raw_zookeeper *raw)
{
    int answer;

    wait_for_none(&raw->pending);
    answer = atomic_load(&raw->failed);
    return answer == ZOK ? HF_OK : fail_as(answer);
}

static int acquire_all(struct bench_seat *seat)
{
    struct raw_zookeeper *raw = raw_of(seat);

    if (!raw)
        return HF_ESYSTEM;
    atomic_store(&raw->pending, BENCH_BATCH);
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        int answer;

        name_node(seat->batch.names[i], 0, raw->chains[i].path);
        answer = zoo_acreate(raw->handle, raw->chains[i].path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE,
                             ZOO_EPHEMERAL, hear_created, &seat->raw);
        if (answer != ZOK)
            return fail_as(answer);
    }
    return finish_all(raw);
}

static int release_all(struct bench_seat *seat)
{
    struct raw_zookeeper *raw = raw_of(seat);

    atomic_store(&raw->pending, BENCH_BATCH);
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        int answer =
            zoo_adelete(raw->handle, raw->chains[i].path, ANY_VERSION, hear_deleted, &seat->raw);

        if (answer != ZOK)
            return fail_as(answer);
    }
    return finish_all(raw);
}

/* --- 16 chains that keep themselves going --- */

static void stop_chain(struct chain *chain, int answer)
{
    note_failure(chain->raw, answer);
    end_one(&chain->raw->running);
}

static void keep_sample(struct chain *chain)
{
    struct bench_contender *record = chain->raw->record;
    uint64_t taken_ns = bench_clock_now_ns() - chain->begun_ns;

    if (!atomic_load(&chain->raw->measuring) || record->sample_count == BENCH_SAMPLES_MAX)
        return;
    record->samples_ns[record->sample_count++] =
        taken_ns < UINT32_MAX ? (uint32_t)taken_ns : UINT32_MAX;
}

static void begin_cycle(struct chain *chain);

static void end_cycle(int answer, const void *data)
{
    struct chain *chain = (struct chain *)(uintptr_t)data;

    if (answer != ZOK) {
        stop_chain(chain, answer);
        return;
    }
    atomic_fetch_add(&chain->raw->cycles, 1);
    keep_sample(chain);
    begin_cycle(chain);
}

static void go_on(int answer, const char *value, const void *data)
{
    struct chain *chain = (struct chain *)(uintptr_t)data;

    (void)value;
    if (answer == ZOK)
        answer = zoo_adelete(chain->raw->handle, chain->path, ANY_VERSION, end_cycle, chain);
    if (answer != ZOK)
        stop_chain(chain, answer);
}

static void begin_cycle(struct chain *chain)
{
    int answer;

    if (atomic_load(&chain->raw->stopping)) {
        stop_chain(chain, ZOK);
        return;
    }
    chain->begun_ns = bench_clock_now_ns();
    answer = zoo_acreate(chain->raw->handle, chain->path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE,
                         ZOO_EPHEMERAL, go_on, chain);
    if (answer != ZOK)
        stop_chain(chain, answer);
}

static void start_chains(struct raw_zookeeper *raw, const char name[BENCH_NAME_BYTES])
{
    atomic_store(&raw->stopping, false);
    atomic_store(&raw->running, IN_FLIGHT);
    for (uint32_t i = 0; i < IN_FLIGHT; i++) {
        struct chain *chain = &raw->chains[i];

        chain->raw = raw;
        name_node(name, i, chain->path);
        begin_cycle(chain);
    }
}

/* While they are running, the library's thread writes the samples, and nobody else the record. */
static int run_chains(struct bench_seat *seat, struct bench_contender *record)
{
    struct bench_floor *floor = seat->floor;
    struct raw_zookeeper *raw = raw_of(seat);
    uint64_t before;
    int answer;

    if (!raw)
        return HF_ESYSTEM;
    raw->record = record;
    start_chains(raw, seat->name);
    bench_floor_wait(floor, BENCH_STAGE_WARM);
    before = atomic_load(&raw->cycles);
    atomic_store(&raw->measuring, true);
    bench_floor_wait(floor, BENCH_STAGE_MEASURE);
    atomic_store(&raw->measuring, false);
    record->cycles = atomic_load(&raw->cycles) - before;
    atomic_store(&raw->stopping, true);
    wait_for_none(&raw->running);
    record->cycles_ever = record->cycles;
    answer = atomic_load(&raw->failed);
    return answer == ZOK ? HF_OK : fail_as(answer);
}

static int run_together(struct bench_seat *seat, struct bench_contender *record)
{
    record->cycles = 0;
    record->cycles_ever = 0;
    record->sample_count = 0;
    if (seat->number == 0)
        return run_chains(seat, record);
    bench_floor_wait(seat->floor, BENCH_STAGE_WARM);
    bench_floor_wait(seat->floor, BENCH_STAGE_MEASURE);
    return HF_OK;
}

/* --- a hand-over --- */

static int acquire_turn(struct bench_seat *seat)
{
    struct raw_zookeeper *raw = raw_of(seat);
    _Atomic uint32_t *word = &seat->floor->token.word;
    uint32_t found;
    int answer;

    if (!raw)
        return HF_ESYSTEM;
    while ((found = atomic_load(word)) != seat->number)
        bench_futex_wait(word, found);
    seat->floor->baton.released_ns = bench_clock_now_ns();
    answer = create_node(raw, raw->path);
    if (answer == ZOK)
        answer = zoo_delete(raw->handle, raw->path, ANY_VERSION);
    return answer == ZOK ? HF_OK : fail_as(answer);
}

static int release_turn(struct bench_seat *seat)
{
    _Atomic uint32_t *word = &seat->floor->token.word;

    atomic_store(word, 1 - seat->number);
    bench_futex_wake(word, 1);
    return HF_OK;
}

/* --- what the servers have been asked --- */

static int connect_plainly(const char *host, const char *port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int fd;

    if (getaddrinfo(host, port, &hints, &found) != 0)
        return -1;
    fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* What one server counts, in the answer to its command `srvr`; not a number: it did not tell. */
static double ask_server(const char *host, const char *port)
{
    static const char field[] = "\nReceived: ";
    char text[4096];
    size_t bytes = 0;
    ssize_t more = 1;
    const char *found;
    int fd = connect_plainly(host, port);

    if (fd < 0)
        return NAN;
    if (write(fd, "srvr", 4) == 4) {
        while (more > 0 && bytes < sizeof(text) - 1) {
            more = read(fd, text + bytes, sizeof(text) - 1 - bytes);
            bytes += more > 0 ? (size_t)more : 0;
        }
    }
    close(fd);
    text[bytes] = '\0';
    found = strstr(text, field);
    return found ? strtod(found + strlen(field), NULL) : NAN;
}

/* All packets that all servers of the URL have received, pings among them. */
static double count_requests(const char *url)
{
    char buffer[URL_BYTES];
    char *user;
    char *host;
    double sum = 0;

    if (cut_url(url, buffer, &user, &host) < 0)
        return NAN;
    host[strcspn(host, "/")] = '\0';
    while (host && *host) {
        char *next = strchr(host, ',');
        char *colon;

        if (next)
            *next++ = '\0';
        colon = strrchr(host, ':');
        if (colon)
            *colon = '\0';
        sum += ask_server(host, colon ? colon + 1 : PORT);
        host = next;
    }
    return sum;
}

static const struct bench_side cycle = { "libzookeeper", acquire, release, NULL, NULL };
static const struct bench_side together = { "libzookeeper", NULL, NULL, NULL, run_together };
static const struct bench_side batch = { "libzookeeper", acquire_all, release_all, NULL, NULL };
static const struct bench_side handover = { "libzookeeper", acquire_turn, release_turn, NULL,
                                            NULL };

const struct bench_raw bench_raw_zookeeper = {
    .engine = "zookeeper",
    .cycle = &cycle,
    .together = &together,
    .batch = &batch,
    .contended = &cycle,
    .handover = &handover,
    .count_requests = count_requests,
    .counting = 1, /* the second look counts itself; the first one was counted before it */
    .sentences = {
        [BENCH_W1] = "libzookeeper: create of an ephemeral node, then delete",
        [BENCH_W2] = "the same, 16 in flight on one session: asynchronous calls, each sent by the\n"
                     "    completion of the one before it",
        [BENCH_W2B] = "the same, one session: 16 creates at once, all awaited, then 16 deletes",
        [BENCH_W3] = "the same, 8 threads with a session each, asking again after 1 ms",
        [BENCH_W4] = "the same, 4 processes, asking again after 1 ms",
        [BENCH_W5] = "one create and one delete of it",
    },
};
