/* pollset.h: what to wait for: descriptors, and a deadline. */
#ifndef HF_BASE_POLLSET_H
#define HF_BASE_POLLSET_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF__POLLSET_MAX 128

struct hf__pollset {
    struct pollfd fds[HF__POLLSET_MAX];
    size_t count;
    uint64_t deadline_ns; /* HF__NEVER: none; in the past: do not wait */
};

void hf__pollset_init(struct hf__pollset *set);
/* false: the set is full, which a caller must treat as a limit reached. */
bool hf__pollset_add(struct hf__pollset *set, int fd, short events);
/* Keeps the earlier of the two. */
void hf__pollset_until(struct hf__pollset *set, uint64_t deadline_ns);

#endif
