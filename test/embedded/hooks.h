/* hooks.h: where a process of a test dies, and what it believes of the machine.
 *
 * For programs that are built from the engine's sources with HF__EMBEDDED_HOOKS. */
#ifndef TEST_EMBEDDED_HOOKS_H
#define TEST_EMBEDDED_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HOOKS_POINTS_MAX 96

struct hooks_point {
    const char *_Atomic name; /* a literal: the same in every fork */
    _Atomic uint32_t hits;
    _Atomic uint32_t deaths;
};

/* In memory that all processes share. */
struct hooks {
    struct hooks_point points[HOOKS_POINTS_MAX];
    _Atomic uint32_t *doomed; /* set before dying; NULL: nobody asks */
};

/* Must be called before anything else; the processes forked afterwards share it. */
struct hooks *hooks_share(void);
void hooks_unshare(struct hooks *hooks);

/* This process dies when it comes to that point for the n-th time; NULL: nowhere. */
void hooks_arm(const char *point, uint32_t nth, _Atomic uint32_t *doomed);

void hooks_set_boot_id(const char *boot_id); /* NULL: the real one */
void hooks_set_without_pidfd(bool without);

#endif
