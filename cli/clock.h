/* clock.h: the time that goes on while the machine sleeps, as leases count it. */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdint.h>

#define NS_PER_MS 1000000ull

uint64_t clock_now_ns(void);

/* For poll(2): rounded up, so that who wakes is not too early; 0 when the instant has passed. */
int clock_poll_ms(uint64_t now_ns, uint64_t until_ns);

#endif
