/* system.h: the real calls of the base layer into the system, counted, and refused on demand.
 *
 * The program is linked with --wrap for calloc, getrandom and syscall, so calls that our objects
 * make come through here and go on to the real ones unless a test asked for something else. All
 * requests hold until system_as_usual(). */
#ifndef TEST_UNIT_SYSTEM_H
#define TEST_UNIT_SYSTEM_H

#include <stdatomic.h>
#include <stddef.h>

struct system_control {
    _Atomic size_t calloc_refusals;   /* so many of the next ones give NULL                     */
    _Atomic size_t getrandom_calls;   /* counts                                                 */
    _Atomic int getrandom_errno;      /* 0: as usual; else all fail with this                   */
    _Atomic size_t getrandom_at_most; /* 0: as usual; else no call gives more, and every second *
                                       * one is interrupted                                     */
    _Atomic size_t syscalls;          /* counts calls of syscall(2), which here means futex(2)  */
};

extern struct system_control system_control;

void system_as_usual(void);

#endif
