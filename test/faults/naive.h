/* naive.h: RedLock with the fences that everybody thinks of first, to show that they are none.
 *
 * Every server counts its grants, and the fence is the greatest count among those that granted.
 * The lock is as good as any RedLock; only the fences are wrong. */
#ifndef FAULTS_NAIVE_H
#define FAULTS_NAIVE_H

#include <stdbool.h>
#include <stdint.h>

struct naive; /* one client, for one thread */

struct naive_grant {
    char token[40];
    uint64_t fence;
    uint64_t until_ns; /* of history_now_ns() */
};

struct naive *naive_open(const char *url); /* redlock://127.0.0.1:PORT,... */
void naive_close(struct naive *naive);

/* Tries once; false: not granted, and undone wherever that can be said. */
bool naive_take(struct naive *naive, const char *name, uint64_t lease_ms,
                struct naive_grant *out_grant);
void naive_give_back(struct naive *naive, const char *name, const struct naive_grant *grant);

#endif
