/* wake.h: how does one thread wake another, in this process or in another one?
 *
 * A word that lies in memory both can see. Its lowest bit says that somebody sleeps on it; the rest
 * counts the rings. A ring is a hint: whoever wakes looks again. Ringing costs a system call only
 * if somebody sleeps, and a sleeper first spins for a while, so that a hand-over between running
 * threads costs none at all. */
#ifndef HF_BASE_WAKE_H
#define HF_BASE_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hf__wake {
    _Atomic uint32_t word;
};

/* What the word says now; to be read before looking for news, and handed to wait. */
uint32_t hf__wake_look(const struct hf__wake *wake);

/* Everybody who waits on it looks again. The memory may be shared between processes. */
void hf__wake_ring(struct hf__wake *wake);

/* The two halves of a ring. True: somebody sleeps and is still to be called, which may be done when
 * the word's memory has ended: then nobody sleeps there any more. */
bool hf__wake_mark(struct hf__wake *wake);
void hf__wake_call(struct hf__wake *wake);

/* Returns true when the word is no longer `seen` (compared without the sleeper's bit), false at the
 * deadline (CLOCK_BOOTTIME); may return early. Spins up to spin_pauses first; *out_spun says
 * whether the spin was enough. */
bool hf__wake_wait(struct hf__wake *wake, uint32_t seen, uint64_t deadline_ns, uint32_t spin_pauses,
                   bool *out_spun);

#endif
