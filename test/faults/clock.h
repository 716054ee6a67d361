/* clock.h: a wall clock for every process of a test, as wrong as it is told to be. */
#ifndef FAULTS_CLOCK_H
#define FAULTS_CLOCK_H

#include <stdint.h>

/* From now on CLOCK_REALTIME is so far ahead (or behind) in this process. */
void clock_set_ahead(int64_t ahead_s);

#endif
