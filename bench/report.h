/* report.h: the rows, for people and for programs. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stddef.h>

#include "job.h"

/* For people: what is measured, then each workload as it ends. */
void bench_report_open(const struct bench_options *options, const struct bench_store *store);
void bench_report_workload(const struct bench_store *store, const struct bench_row *rows,
                           size_t count);

/* For programs: all at once, so that what was cut short is not taken for a result. */
void bench_report_json(const struct bench_store *store, const struct bench_row *rows, size_t count);

const char *bench_report_placement_name(enum bench_placement placement);

#endif
