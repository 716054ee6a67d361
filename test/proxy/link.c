/* link.c: how do bytes get from one end of a link to the other, and what happens to them?
 *
 * What is read is queued as a chunk with the time at which it is due; what is due is written. The
 * weather decides about both. A client that leaves while its requests are held here does not take
 * them with it: they are delivered when the weather allows.
 *
 * What can go wrong: an end is reset: the client's, then what it sent is still delivered; the
 * server's, then the client is cut off too. */
#include "link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MILD_NS     (5 * NS_PER_MS)
#define MILD_ONE_IN 16 /* chunks that drip */
#define MILD_DRIP   48

static void pipe_init(struct pipe *pipe)
{
    *pipe = (struct pipe){ 0 };
    pipe->last = &pipe->first;
}

static void drop_first(struct pipe *pipe)
{
    struct chunk *chunk = pipe->first;

    pipe->queued -= chunk->end - chunk->begin;
    pipe->first = chunk->next;
    if (!pipe->first)
        pipe->last = &pipe->first;
    free(chunk);
}

static void drop_all(struct pipe *pipe)
{
    while (pipe->first)
        drop_first(pipe);
}

static void close_end(struct link *link, enum direction which, bool reset)
{
    struct linger now = { .l_onoff = 1, .l_linger = 0 };

    if (link->ends[which] < 0)
        return;
    if (reset)
        (void)setsockopt(link->ends[which], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(link->ends[which]);
    link->ends[which] = -1;
}

void link_init(struct link *link, int server, int client, struct weather *weather)
{
    *link =
        (struct link){ .ends = { [UP] = server, [DOWN] = client }, .cut_after = { NEVER, NEVER } };
    pipe_init(&link->pipes[UP]);
    pipe_init(&link->pipes[DOWN]);
    if (weather->cut_random > 0)
        link->cut_after[dice_below(&weather->dice, 2)] =
            dice_below(&weather->dice, weather->cut_random);
}

void link_done(struct link *link, bool reset)
{
    for (enum direction way = UP; way <= DOWN; way++) {
        drop_all(&link->pipes[way]);
        close_end(link, way, reset);
    }
}

/* --- reading --- */

static uint64_t draw_delay(struct weather *weather)
{
    uint64_t delay_ns = weather->delay_ns;

    if (weather->jitter_ns > 0)
        delay_ns += dice_below(&weather->dice, weather->jitter_ns);
    if (weather->mild)
        delay_ns += dice_below(&weather->dice, MILD_NS);
    return delay_ns;
}

static void queue(struct pipe *pipe, struct weather *weather, const uint8_t *bytes, size_t count,
                  uint64_t now_ns)
{
    struct chunk *chunk;

    if (count == 0)
        return;
    chunk = malloc(sizeof(*chunk) + count);
    assert(chunk);
    *chunk = (struct chunk){ .end = count, .due_ns = now_ns + draw_delay(weather) };
    if (chunk->due_ns < pipe->due_ns) /* nothing overtakes in a stream */
        chunk->due_ns = pipe->due_ns;
    pipe->due_ns = chunk->due_ns;
    if (weather->mild && dice_below(&weather->dice, MILD_ONE_IN) == 0)
        chunk->drip = MILD_DRIP;
    memcpy(chunk->bytes, bytes, count);
    *pipe->last = chunk;
    pipe->last = &chunk->next;
    pipe->queued += count;
}

static void look_for_text(struct link *link, struct weather *weather, struct tally *tally,
                          const uint8_t *bytes, size_t count)
{
    if (weather->banned[0] && memmem(bytes, count, weather->banned, strlen(weather->banned)))
        link->broken = true;
    if (!weather->text[0] || !memmem(bytes, count, weather->text, strlen(weather->text)))
        return;
    link->fate = weather->fate;
    link->broken = link->broken || link->fate == FATE_CUT;
    weather->text[0] = '\0'; /* once */
    tally->fates++;
}

static void take_answer(struct link *link, struct weather *weather, struct tally *tally,
                        const uint8_t *bytes, size_t count, uint64_t now_ns)
{
    uint8_t kept[CHUNK_BYTES + RESP_FRAME_BYTES];

    if (weather->losing || link->fate == FATE_LOSE || link->ends[DOWN] < 0) {
        tally->lost_bytes += count;
        link->lost_something = link->ends[DOWN] >= 0;
        link->broken = link->broken || link->fate == FATE_LOSE;
        return;
    }
    switch (weather->speech) {
    case SPEECH_ANY:
        break;
    case SPEECH_REDIS:
        count = resp_filter(&link->resp, bytes, count, weather->deaf, kept, &tally->dropped);
        bytes = kept;
        break;
    case SPEECH_ZOOKEEPER:
        count = jute_filter(&link->jute[DOWN], bytes, count, weather->deaf, kept, &tally->jute);
        bytes = kept;
        break;
    case SPEECH_ETCD:
        count = http2_filter(&link->http2[DOWN], bytes, count, weather->deaf, kept, &tally->http2);
        bytes = kept;
        break;
    }
    queue(&link->pipes[DOWN], weather, bytes, count, now_ns);
}

static void lose_sender(struct link *link, enum direction way)
{
    link->pipes[way].ended = true;
    if (way == DOWN) {
        link->broken = true;
        return;
    }
    close_end(link, DOWN, true);
    drop_all(&link->pipes[DOWN]);
}

static void read_some(struct link *link, enum direction way, struct weather *weather,
                      struct tally *tally, uint64_t now_ns)
{
    uint8_t bytes[CHUNK_BYTES];
    int sender = link->ends[way == UP ? DOWN : UP];
    ssize_t count;

    if (sender < 0 || link->pipes[way].ended || weather->stopped ||
        link->pipes[way].queued >= QUEUE_BYTES)
        return;
    count = recv(sender, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count < 0) {
        lose_sender(link, way);
        return;
    }
    if (count == 0) {
        link->pipes[way].ended = true;
        return;
    }
    tally->bytes[way] += (uint64_t)count;
    if (way == DOWN) {
        take_answer(link, weather, tally, bytes, (size_t)count, now_ns);
        return;
    }
    if (weather->speech == SPEECH_ZOOKEEPER)
        jute_count(&link->jute[UP], bytes, (size_t)count, &tally->jute);
    if (weather->speech == SPEECH_ETCD)
        http2_count(&link->http2[UP], bytes, (size_t)count, &tally->http2);
    look_for_text(link, weather, tally, bytes, (size_t)count);
    queue(&link->pipes[UP], weather, bytes, (size_t)count, now_ns);
}

/* --- writing --- */

static bool may_write(const struct link *link, enum direction way, const struct weather *weather)
{
    if (weather->stopped)
        return false;
    return way == DOWN || (!weather->holding && link->fate != FATE_HOLD);
}

static void lose_receiver(struct link *link, enum direction way)
{
    if (way == UP) {
        link->broken = true;
        return;
    }
    close_end(link, DOWN, true);
    drop_all(&link->pipes[DOWN]);
    link->pipes[UP].ended = true;
}

/* How many of these bytes go before the link is cut; 0: it is cut now. */
static size_t limit_by_cut(const struct link *link, const struct weather *weather,
                           enum direction way, size_t count)
{
    if (count > weather->cut_after[way])
        count = (size_t)weather->cut_after[way];
    if (count > link->cut_after[way])
        count = (size_t)link->cut_after[way];
    return count;
}

static void count_down(uint64_t *counter, size_t count)
{
    if (*counter != NEVER)
        *counter -= count;
}

/* True: there may be more to write at once. */
static bool write_chunk(struct link *link, enum direction way, struct weather *weather)
{
    struct pipe *pipe = &link->pipes[way];
    struct chunk *chunk = pipe->first;
    bool drips = weather->dripping || chunk->drip > 0;
    size_t count = drips ? 1 : chunk->end - chunk->begin;
    ssize_t sent;

    count = limit_by_cut(link, weather, way, count);
    if (count == 0) {
        weather->cut_after[way] = NEVER; /* that was for one link */
        link->broken = true;
        return false;
    }
    sent = send(link->ends[way], chunk->bytes + chunk->begin, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        lose_receiver(link, way);
    if (sent <= 0)
        return false;
    count_down(&weather->cut_after[way], (size_t)sent);
    count_down(&link->cut_after[way], (size_t)sent);
    chunk->begin += (size_t)sent;
    pipe->queued -= (size_t)sent;
    if (chunk->drip > 0)
        chunk->drip--;
    if (chunk->begin == chunk->end)
        drop_first(pipe);
    return !drips;
}

static void write_some(struct link *link, enum direction way, struct weather *weather,
                       uint64_t now_ns)
{
    struct pipe *pipe = &link->pipes[way];
    bool more = may_write(link, way, weather);

    while (more && pipe->first && pipe->first->due_ns <= now_ns)
        more = link->ends[way] >= 0 && write_chunk(link, way, weather);
    if (!pipe->first && pipe->ended && !pipe->closed) {
        pipe->closed = true;
        if (link->ends[way] >= 0)
            (void)shutdown(link->ends[way], SHUT_WR);
    }
}

/* --- both --- */

void link_prepare(struct link *link, const struct weather *weather, uint64_t now_ns,
                  struct pollfd fds[2], uint64_t *due_ns)
{
    for (enum direction way = UP; way <= DOWN; way++)
        fds[way] = (struct pollfd){ .fd = link->ends[way] };
    for (enum direction way = UP; way <= DOWN; way++) {
        struct pipe *pipe = &link->pipes[way];

        if (!pipe->ended && !weather->stopped && pipe->queued < QUEUE_BYTES)
            fds[way == UP ? DOWN : UP].events |= POLLIN;
        if (!pipe->first || !may_write(link, way, weather))
            continue;
        if (pipe->first->due_ns <= now_ns)
            fds[way].events |= POLLOUT;
        else if (pipe->first->due_ns < *due_ns)
            *due_ns = pipe->first->due_ns;
    }
    for (enum direction way = UP; way <= DOWN; way++) {
        if (!fds[way].events) /* or the end of its peer would wake us for ever */
            fds[way].fd = -1;
    }
}

bool link_advance(struct link *link, struct weather *weather, struct tally *tally, uint64_t now_ns)
{
    /* No byte goes where one before it was lost: a stream has no holes. */
    if (link->lost_something && !weather->losing)
        link->broken = true;
    for (enum direction way = UP; way <= DOWN && !link->broken; way++) {
        read_some(link, way, weather, tally, now_ns);
        if (!link->broken)
            write_some(link, way, weather, now_ns);
    }
    return !link->broken && !(link->pipes[UP].closed && link->pipes[DOWN].closed);
}
