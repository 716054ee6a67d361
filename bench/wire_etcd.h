/* wire_etcd.h: etcd as the raw client speaks it: a key that is put if it is absent, and deleted.
 *
 *     bench_wire_open(url, &wire);
 *     bench_wire_put(wire, key, tag);              any number of them
 *     while (bench_wire_next(wire, &answer) == HF_OK) ...
 *
 * Requests leave when somebody waits for an answer. Whatever fails leaves its reason in errno. */
#ifndef BENCH_WIRE_ETCD_H
#define BENCH_WIRE_ETCD_H

#include <stdbool.h>
#include <stdint.h>

struct bench_wire;

struct bench_answer {
    uint32_t tag;
    bool is_done; /* false: the key was there already, or was not there */
};

/* HF_OK or HF_ESYSTEM, as everything here. One connection, to the first server of the URL. */
int bench_wire_open(const char *url, struct bench_wire **out_wire);

/* Whoever puts by an old lease should renew it, while nothing is under way. */
bool bench_wire_is_old(const struct bench_wire *wire);
int bench_wire_renew(struct bench_wire *wire);

int bench_wire_put(struct bench_wire *wire, const char *key, uint32_t tag);
int bench_wire_delete(struct bench_wire *wire, const char *key, uint32_t tag);
/* Waits until there is one. */
int bench_wire_next(struct bench_wire *wire, struct bench_answer *out_answer);

/* Messages that all servers of the URL have received; not a number: one did not tell. */
double bench_wire_count(const char *url);

#endif
