/* samples.h: medians and percentiles. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* All the samples of one side in one job. */
struct bench_samples {
    uint32_t *ns;
    size_t count;
    size_t room;
};

/* 0; -1: no memory. */
int bench_samples_init(struct bench_samples *samples, size_t room);
void bench_samples_done(struct bench_samples *samples);
/* Drops what does not fit. */
void bench_samples_add(struct bench_samples *samples, const uint32_t *ns, size_t count);
/* Of those from `first` on, in microseconds; not a number: there are none. Sorts them. */
double bench_samples_quantile_us(struct bench_samples *samples, size_t first, double quantile);

/* Sorts; not a number for none, and those that are not numbers do not count. */
double bench_samples_median(double *values, size_t count);

#endif
