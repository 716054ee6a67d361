/* link.h: one connection through the proxy, and what is done to it. */
#ifndef PROXY_LINK_H
#define PROXY_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dice.h"
#include "http2.h"
#include "jute.h"
#include "resp.h"

#define NS_PER_MS   1000000ull
#define NEVER       UINT64_MAX
#define CHUNK_BYTES 16384
#define QUEUE_BYTES (8u << 20) /* then the sender has to wait */
#define TEXT_BYTES  256

enum direction { UP, DOWN }; /* to the server, to the client */
enum speech { SPEECH_ANY, SPEECH_REDIS, SPEECH_ZOOKEEPER, SPEECH_ETCD };
enum fate { FATE_NONE, FATE_CUT, FATE_LOSE, FATE_HOLD };

/* What the network does now, to all links. */
struct weather {
    uint64_t delay_ns;
    uint64_t jitter_ns;
    bool stopped;  /* nothing is read, nothing is written            */
    bool holding;  /* requests wait here, even if their sender leaves */
    bool losing;   /* answers are swallowed                          */
    bool dripping; /* one byte at a time                             */
    bool deaf;     /* messages (push frames, events) are left out    */
    bool mild;
    uint64_t cut_after[2]; /* so many more bytes, then the link that carries the next one is cut */
    uint64_t cut_random;   /* every new link is cut before so many bytes */
    char text[TEXT_BYTES]; /* the next link that sends this ...       */
    enum fate fate;        /* ... has this done to it                 */
    char banned[TEXT_BYTES]; /* every link that sends this is cut */
    enum speech speech;
    struct dice dice;
};

struct tally {
    uint64_t links;
    uint64_t cuts;
    uint64_t bytes[2];
    uint64_t lost_bytes;
    uint64_t dropped; /* messages of Redis */
    uint64_t fates;   /* how often the text was met */
    struct jute_counts jute;
    struct http2_counts http2;
};

struct chunk {
    struct chunk *next;
    uint64_t due_ns;
    size_t begin;
    size_t end;
    size_t drip; /* so many of its bytes go one at a time */
    uint8_t bytes[];
};

struct pipe {
    struct chunk *first;
    struct chunk **last;
    size_t queued;
    uint64_t due_ns; /* of the last that came */
    bool ended;      /* its sender will send no more */
    bool closed;     /* and its receiver knows */
};

struct link {
    int ends[2];          /* ends[UP] is the server's socket, ends[DOWN] the client's; -1: closed */
    struct pipe pipes[2]; /* pipes[UP] goes to ends[UP] */
    uint64_t cut_after[2]; /* its own, drawn */
    enum fate fate;
    bool lost_something; /* what follows would be nonsense */
    bool broken;         /* to be cut */
    struct resp resp;
    struct jute jute[2];
    struct http2 http2[2];
};

void link_init(struct link *link, int server, int client, struct weather *weather);
void link_done(struct link *link, bool reset);
/* What to poll for; the time at which something is due is put into *due_ns if it is earlier. */
void link_prepare(struct link *link, const struct weather *weather, uint64_t now_ns,
                  struct pollfd fds[2], uint64_t *due_ns);
/* Reads and writes what can be. False: it is over. */
bool link_advance(struct link *link, struct weather *weather, struct tally *tally, uint64_t now_ns);

#endif
