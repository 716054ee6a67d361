/* clock.h: time stamps that two processes can compare. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>

uint64_t bench_clock_now_ns(void);
/* What a pair of stamps shows when nothing lies between them; to be taken off. */
uint64_t bench_clock_cost_ns(void);
/* What is left without it: 1 ns at the least, for nothing takes no time. */
uint64_t bench_clock_net_ns(uint64_t taken_ns, uint64_t cost_ns);
void bench_clock_sleep(uint64_t wait_ns);

#endif
