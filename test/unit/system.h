/* system.h: the real calls of the base layer into the system, counted, and refused on demand.
 *
 * The program is linked with --wrap for calloc, free, getrandom and syscall, so calls that our
 * objects make come through here and go on to the real ones unless a test asked for something else.
 * All requests hold until system_as_usual(). */
#ifndef TEST_UNIT_SYSTEM_H
#define TEST_UNIT_SYSTEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct system_control {
    _Atomic size_t calloc_refusals;   /* so many of the next ones give NULL                     */
    _Atomic size_t calloc_calls;      /* counts, refused ones included                          */
    _Atomic size_t calloc_refuse_at;  /* 0: none; else the call with this number gives NULL     */
    _Atomic bool calloc_refuse_later; /* ... and all that come after it                         */
    _Atomic size_t calloc_refused;    /* counts                                                 */
    _Atomic int64_t blocks;           /* given by calloc less freed, by our objects             */
    _Atomic size_t getrandom_calls;   /* counts                                                 */
    _Atomic int getrandom_errno;      /* 0: as usual; else all fail with this                   */
    _Atomic size_t getrandom_at_most; /* 0: as usual; else no call gives more, and every second *
                                       * one is interrupted                                     */
    _Atomic size_t syscalls;          /* counts calls of syscall(2), which here means futex(2)  */
};

extern struct system_control system_control;

void system_as_usual(void);

#endif
