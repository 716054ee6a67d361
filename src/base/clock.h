/* clock.h: what time is it, by the one clock that every deadline uses? */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdint.h>

#define HF__NS_PER_US 1000ull
#define HF__NS_PER_MS 1000000ull
#define HF__NS_PER_S  1000000000ull
#define HF__NEVER     UINT64_MAX /* a deadline that does not come */

/* CLOCK_BOOTTIME: it counts while the machine sleeps, as the store's clock does. */
uint64_t hf__clock_now_ns(void);
/* Another number at every tick of the kernel's, each 1 to 10 ms, and four times as cheap. As
 * long as it is the same, what the clock said before is no older than a tick (and a sleep of the
 * machine). */
uint64_t hf__clock_tick(void);

/* now + ms; HF__NEVER for negative ms; never wraps. */
uint64_t hf__clock_after_ms(uint64_t now_ns, int64_t ms);

/* Milliseconds from now until then, rounded up (for a time to wait) or down (for a time still
 * valid); HF__NEVER gives -1 in the first and INT64_MAX in the second; the past gives 0. */
int64_t hf__clock_wait_ms(uint64_t now_ns, uint64_t then_ns);
int64_t hf__clock_left_ms(uint64_t now_ns, uint64_t then_ns);

#endif
