/* proxy.c: a bad network between a client and a server, as bad as it is told to be.
 *
 *     proxy --to PORT [--seed N] [--redis|--zookeeper|--etcd] [--mild]
 *
 * Listens on a free port of 127.0.0.1, prints `port N seed N`, and forwards to 127.0.0.1:PORT.
 * Lines on the standard input change the weather; each is answered by `ok` or `error: why`:
 *
 *     pass                  all is well again; what was held is delivered
 *     delay MS [MS]         everything comes later, by so much and up to so much more
 *     drip                  one byte at a time
 *     stop / go             nothing moves, nothing is lost / it goes on
 *     cut                   every link is reset
 *     cut up|down BYTES     after so many more bytes that way, the link that carries the next one
 *     cut random BYTES      every new link, one way or the other, before so many bytes
 *     lose                  the answers are swallowed; what lost one is reset when this ends
 *     hold                  requests wait here, also when whoever sent them has left
 *     on cut|lose|hold TEXT the same for the link that sends TEXT next, and only for it
 *     ban TEXT              every link that sends TEXT is cut
 *     deaf                  messages of Redis (push frames) and events of ZooKeeper and etcd are
 *                           left out; needs to know which of them it is
 *     mild                  delays of up to 5 ms, and some bytes one at a time
 *     stat                  `ok links N cuts N up N down N lost N dropped N fates N`, and of
 *                           ZooKeeper `events N pings N syncs N packets N`: the first to the
 *                           client, the others to the server; of etcd `events N calls N
 *                           messages N`, likewise
 *
 * What lasts can be combined. The end of the input is the end of the proxy. Random draws come from
 * the seed. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link.h"

#define LINKS_MAX  4096
#define LINE_BYTES 512
#define FIXED_FDS  2

struct proxy {
    uint16_t to;
    int listener;
    bool over;
    struct weather weather;
    struct tally tally;
    size_t link_count;
    struct link *links[LINKS_MAX];
    struct pollfd fds[FIXED_FDS + 2 * LINKS_MAX];
    char line[LINE_BYTES];
    size_t line_bytes;
};

static uint64_t now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 * NS_PER_MS + (uint64_t)time.tv_nsec;
}

/* --- links --- */

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void accept_link(struct proxy *proxy)
{
    struct link *link;
    int one = 1;
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    int server;

    if (client < 0)
        return;
    server = connect_to(proxy->to);
    link = malloc(sizeof(*link));
    assert(link && proxy->link_count < LINKS_MAX);
    link_init(link, server, client, &proxy->weather);
    if (server < 0) {
        link_done(link, true);
        free(link);
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    proxy->links[proxy->link_count++] = link;
    proxy->tally.links++;
}

static void end_link(struct proxy *proxy, size_t index)
{
    struct link *link = proxy->links[index];

    proxy->tally.cuts += link->broken;
    link_done(link, link->broken);
    free(link);
    proxy->links[index] = proxy->links[--proxy->link_count];
}

/* --- orders --- */

static void clear(struct proxy *proxy)
{
    struct weather *weather = &proxy->weather;

    *weather = (struct weather){ .cut_after = { NEVER, NEVER },
                                 .speech = weather->speech,
                                 .dice = weather->dice };
    for (size_t i = 0; i < proxy->link_count; i++) {
        proxy->links[i]->fate = FATE_NONE;
        proxy->links[i]->cut_after[UP] = proxy->links[i]->cut_after[DOWN] = NEVER;
    }
}

static const char *obey_cut(struct proxy *proxy, const char *rest)
{
    uint64_t bytes;

    if (!*rest) {
        for (size_t i = 0; i < proxy->link_count; i++)
            proxy->links[i]->broken = true;
        return NULL;
    }
    if (sscanf(rest, "up %" SCNu64, &bytes) == 1)
        proxy->weather.cut_after[UP] = bytes;
    else if (sscanf(rest, "down %" SCNu64, &bytes) == 1)
        proxy->weather.cut_after[DOWN] = bytes;
    else if (sscanf(rest, "random %" SCNu64, &bytes) == 1 && bytes > 0)
        proxy->weather.cut_random = bytes;
    else
        return "cut what?";
    return NULL;
}

static const char *obey_delay(struct proxy *proxy, const char *rest)
{
    uint64_t delay_ms;
    uint64_t jitter_ms = 0;

    if (sscanf(rest, "%" SCNu64 " %" SCNu64, &delay_ms, &jitter_ms) < 1)
        return "delay by how much?";
    proxy->weather.delay_ns = delay_ms * NS_PER_MS;
    proxy->weather.jitter_ns = jitter_ms * NS_PER_MS;
    return NULL;
}

static const char *obey_on(struct proxy *proxy, const char *rest)
{
    static const struct {
        const char *word;
        enum fate fate;
    } fates[] = { { "cut ", FATE_CUT }, { "lose ", FATE_LOSE }, { "hold ", FATE_HOLD } };

    for (size_t i = 0; i < sizeof(fates) / sizeof(*fates); i++) {
        size_t bytes = strlen(fates[i].word);

        if (strncmp(rest, fates[i].word, bytes) != 0 || !rest[bytes])
            continue;
        if (strlen(rest + bytes) >= TEXT_BYTES)
            return "the text is too long";
        memcpy(proxy->weather.text, rest + bytes, strlen(rest + bytes) + 1);
        proxy->weather.fate = fates[i].fate;
        return NULL;
    }
    return "on what?";
}

static const char *obey_ban(struct proxy *proxy, const char *text)
{
    if (!*text || strlen(text) >= TEXT_BYTES)
        return "ban what?";
    memcpy(proxy->weather.banned, text, strlen(text) + 1);
    return NULL;
}

static const char *obey_word(struct proxy *proxy, const char *word)
{
    struct weather *weather = &proxy->weather;

    if (strcmp(word, "pass") == 0)
        clear(proxy);
    else if (strcmp(word, "drip") == 0)
        weather->dripping = true;
    else if (strcmp(word, "stop") == 0)
        weather->stopped = true;
    else if (strcmp(word, "go") == 0)
        weather->stopped = false;
    else if (strcmp(word, "lose") == 0)
        weather->losing = true;
    else if (strcmp(word, "hold") == 0)
        weather->holding = true;
    else if (strcmp(word, "mild") == 0)
        weather->mild = true;
    else if (strcmp(word, "deaf") == 0 && weather->speech == SPEECH_ANY)
        return "deaf needs --redis, --zookeeper or --etcd";
    else if (strcmp(word, "deaf") == 0)
        weather->deaf = true;
    else
        return "no such order";
    return NULL;
}

static void obey(struct proxy *proxy, const char *line)
{
    const struct tally *tally = &proxy->tally;
    const char *trouble;

    if (strcmp(line, "stat") == 0) {
        (void)printf(
            "ok links %" PRIu64 " cuts %" PRIu64 " up %" PRIu64 " down %" PRIu64 " lost %" PRIu64
            " dropped %" PRIu64 " fates %" PRIu64 " events %" PRIu64 " pings %" PRIu64
            " syncs %" PRIu64 " packets %" PRIu64 " calls %" PRIu64 " messages %" PRIu64 "\n",
            tally->links, tally->cuts, tally->bytes[UP], tally->bytes[DOWN], tally->lost_bytes,
            tally->dropped + tally->jute.dropped + tally->http2.dropped, tally->fates,
            tally->jute.events + tally->http2.events, tally->jute.pings, tally->jute.syncs,
            tally->jute.packets, tally->http2.calls, tally->http2.messages);
        return;
    }
    if (strcmp(line, "cut") == 0 || strncmp(line, "cut ", 4) == 0)
        trouble = obey_cut(proxy, line[3] ? line + 4 : "");
    else if (strncmp(line, "delay ", 6) == 0)
        trouble = obey_delay(proxy, line + 6);
    else if (strncmp(line, "ban ", 4) == 0)
        trouble = obey_ban(proxy, line + 4);
    else if (strncmp(line, "on ", 3) == 0)
        trouble = obey_on(proxy, line + 3);
    else
        trouble = obey_word(proxy, line);
    if (trouble)
        (void)printf("error: %s\n", trouble);
    else
        (void)printf("ok\n");
}

static void hear_orders(struct proxy *proxy)
{
    ssize_t got = read(STDIN_FILENO, proxy->line + proxy->line_bytes,
                       sizeof(proxy->line) - proxy->line_bytes - 1);
    char *end;

    if (got <= 0) {
        proxy->over = got == 0 || errno != EINTR;
        return;
    }
    proxy->line_bytes += (size_t)got;
    proxy->line[proxy->line_bytes] = '\0';
    while ((end = strchr(proxy->line, '\n')) != NULL) {
        *end = '\0';
        obey(proxy, proxy->line);
        proxy->line_bytes -= (size_t)(end + 1 - proxy->line);
        memmove(proxy->line, end + 1, proxy->line_bytes + 1);
    }
    (void)fflush(stdout);
    proxy->over = proxy->line_bytes == sizeof(proxy->line) - 1;
}

/* --- the loop --- */

static void wait_for_something(struct proxy *proxy)
{
    uint64_t now_ns = now();
    uint64_t due_ns = NEVER;
    struct timespec until = { 0 };

    proxy->fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
    proxy->fds[1] =
        (struct pollfd){ .fd = proxy->weather.stopped ? -1 : proxy->listener, .events = POLLIN };
    for (size_t i = 0; i < proxy->link_count; i++)
        link_prepare(proxy->links[i], &proxy->weather, now_ns, proxy->fds + FIXED_FDS + 2 * i,
                     &due_ns);
    if (due_ns != NEVER) {
        until.tv_sec = (time_t)((due_ns - now_ns) / (1000 * NS_PER_MS));
        until.tv_nsec = (long)((due_ns - now_ns) % (1000 * NS_PER_MS));
    }
    (void)ppoll(proxy->fds, FIXED_FDS + 2 * proxy->link_count, due_ns == NEVER ? NULL : &until,
                NULL);
}

static void run(struct proxy *proxy)
{
    while (!proxy->over) {
        uint64_t now_ns;

        wait_for_something(proxy);
        if (proxy->fds[0].revents)
            hear_orders(proxy);
        now_ns = now();
        for (size_t i = proxy->link_count; i-- > 0;) {
            if (!link_advance(proxy->links[i], &proxy->weather, &proxy->tally, now_ns))
                end_link(proxy, i);
        }
        if (proxy->fds[1].revents)
            accept_link(proxy);
    }
    while (proxy->link_count > 0)
        end_link(proxy, 0);
}

static uint16_t listen_somewhere(struct proxy *proxy)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t bytes = sizeof(address);

    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert(proxy->listener >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(proxy->listener, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(proxy->listener, 1024) < 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &bytes) < 0) {
        perror("proxy");
        exit(EXIT_FAILURE);
    }
    return ntohs(address.sin_port);
}

static bool parse(int count, char **words, struct proxy *proxy)
{
    static const struct option options[] = {
        { "to", required_argument, NULL, 't' },
        { "seed", required_argument, NULL, 's' },
        { "redis", no_argument, NULL, 'r' },
        { "zookeeper", no_argument, NULL, 'z' },
        { "etcd", no_argument, NULL, 'e' },
        { "mild", no_argument, NULL, 'm' },
        { NULL, 0, NULL, 0 },
    };
    int letter;

    while ((letter = getopt_long(count, words, "", options, NULL)) != -1) {
        if (letter == 't')
            proxy->to = (uint16_t)strtoul(optarg, NULL, 10);
        else if (letter == 's')
            proxy->weather.dice.state = strtoull(optarg, NULL, 10);
        else if (letter == 'r')
            proxy->weather.speech = SPEECH_REDIS;
        else if (letter == 'z')
            proxy->weather.speech = SPEECH_ZOOKEEPER;
        else if (letter == 'e')
            proxy->weather.speech = SPEECH_ETCD;
        else if (letter == 'm')
            proxy->weather.mild = true;
        else
            return false;
    }
    return optind == count && proxy->to > 0;
}

int main(int count, char **words)
{
    struct proxy *proxy = calloc(1, sizeof(*proxy));
    uint16_t port;

    assert(proxy);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    proxy->weather.dice.state = now();
    proxy->weather.cut_after[UP] = proxy->weather.cut_after[DOWN] = NEVER;
    if (!parse(count, words, proxy)) {
        (void)fprintf(stderr,
                      "usage: %s --to PORT [--seed N] [--redis|--zookeeper|--etcd] [--mild]\n",
                      words[0]);
        return 2;
    }
    port = listen_somewhere(proxy);
    (void)printf("port %u seed %" PRIu64 "\n", port, proxy->weather.dice.state);
    (void)fflush(stdout);
    run(proxy);
    (void)close(proxy->listener);
    free(proxy);
    return EXIT_SUCCESS;
}
