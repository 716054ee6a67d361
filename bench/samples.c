/* samples.c: what is in the middle, and what is at the end? */
#include "samples.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_US 1e3

int bench_samples_init(struct bench_samples *samples, size_t room)
{
    samples->ns = calloc(room ? room : 1, sizeof(*samples->ns));
    samples->count = 0;
    samples->room = room;
    return samples->ns ? 0 : -1;
}

void bench_samples_done(struct bench_samples *samples)
{
    free(samples->ns);
    *samples = (struct bench_samples){ 0 };
}

void bench_samples_add(struct bench_samples *samples, const uint32_t *ns, size_t count)
{
    size_t left = samples->room - samples->count;
    size_t taken = count < left ? count : left;

    memcpy(samples->ns + samples->count, ns, taken * sizeof(*ns));
    samples->count += taken;
}

static int compare_ns(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static int compare_values(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

double bench_samples_quantile_us(struct bench_samples *samples, size_t first, double quantile)
{
    size_t count = samples->count - first;

    assert(first <= samples->count);
    assert(quantile >= 0 && quantile < 1);

    if (count == 0)
        return NAN;
    qsort(samples->ns + first, count, sizeof(*samples->ns), compare_ns);
    return (double)samples->ns[first + (size_t)(quantile * (double)count)] / NS_PER_US;
}

double bench_samples_median(double *values, size_t count)
{
    size_t numbers = 0;

    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]))
            values[numbers++] = values[i];
    }
    if (numbers == 0)
        return NAN;
    qsort(values, numbers, sizeof(*values), compare_values);
    if (numbers % 2 == 1)
        return values[numbers / 2];
    return (values[numbers / 2 - 1] + values[numbers / 2]) / 2;
}
