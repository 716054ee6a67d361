/* report.c: how are the figures shown?
 *
 * For people, a table for each workload with a line for each side, under a sentence that says what
 * raw is; placements that say nothing about a workload are left out. For programs, one JSON array
 * of objects that have every field of their workload; what is absent is null. */
#include "report.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#define CELL_BYTES  32
#define URL_BYTES   1024
#define WRAP_COLUMN 76

static const char *const workload_sentences[BENCH_WORKLOADS] = {
    "one thread, one lock: acquire and release",
    "16 threads, 16 locks: acquire and release",
    "one thread, 16 locks: all started, all waited for, all given back; times of all 16",
    "8 threads of one process on one lock",
    "4 processes on one lock",
    "hand-over: from release in one process to the return of acquire in another that waits",
    "200 idle waiters of one process; CPU seconds per 10 s",
    "10 000 locks held by one client for three leases; CPU seconds per 10 s",
};

const char *bench_report_placement_name(enum bench_placement placement)
{
    switch (placement) {
    case BENCH_PLACEMENT_SAME:
        return "same";
    case BENCH_PLACEMENT_SPLIT:
        return "split";
    case BENCH_PLACEMENT_FREE:
        return "free";
    }
    return "?";
}

/* --- for people --- */

void bench_report_open(const struct bench_options *options, const struct bench_store *store)
{
    char shown[URL_BYTES] = "";

    if (options->url)
        hf_url_redact(options->url, shown, sizeof(shown));
    printf("%s, recipe %s%s%s\n", store->engine, store->recipe, *shown ? ", " : "", shown);
    printf("ours and raw in turns, %u slices each; the ratio is the median of the slices' ratios\n",
           options->slices);
    fflush(stdout);
}

static const char *show_rate(double rate, char cell[CELL_BYTES])
{
    if (!isfinite(rate))
        snprintf(cell, CELL_BYTES, "-");
    else if (rate >= 1e6)
        snprintf(cell, CELL_BYTES, "%.2f M", rate / 1e6);
    else if (rate >= 1e4)
        snprintf(cell, CELL_BYTES, "%.1f k", rate / 1e3);
    else
        snprintf(cell, CELL_BYTES, "%.0f", rate);
    return cell;
}

static const char *show_number(double number, int digits, char cell[CELL_BYTES])
{
    if (!isfinite(number))
        snprintf(cell, CELL_BYTES, "-");
    else
        snprintf(cell, CELL_BYTES, "%.*f", digits, number);
    return cell;
}

static const char *show_us(double us, char cell[CELL_BYTES])
{
    return show_number(us, us < 100 ? 2 : 0, cell);
}

static const char *show_shares(const struct bench_figures *figures, char cell[CELL_BYTES])
{
    if (!isfinite(figures->share_min))
        return "-";
    snprintf(cell, CELL_BYTES, "%.0f-%.0f %%", figures->share_min * 100, figures->share_max * 100);
    return cell;
}

static void print_cycles(const char *placement, const char *side,
                         const struct bench_figures *figures, double ratio)
{
    char cells[5][CELL_BYTES];

    printf("    %-9s  %-9s  %10s  %9s  %9s  %9s  %7s\n", placement, side,
           show_rate(figures->cycles_per_s, cells[0]), show_us(figures->p50_us, cells[1]),
           show_us(figures->p99_us, cells[2]), show_shares(figures, cells[3]),
           show_number(ratio, 2, cells[4]));
}

static void print_idle(const char *placement, const char *side, const struct bench_figures *figures)
{
    char cells[3][CELL_BYTES];

    printf("    %-9s  %-9s  %10s  %9s  %11s\n", placement, side,
           show_number(figures->requests_per_s, 1, cells[0]),
           show_number(figures->client_cpu_s, 4, cells[1]),
           show_number(figures->connections, 0, cells[2]));
}

static void print_kept(const char *placement, const struct bench_figures *figures)
{
    char cells[5][CELL_BYTES];

    printf("    %-9s  %-9s  %10s  %9s  %11s  %7s  %9s\n", placement, "ours",
           show_number(figures->requests_per_s, 1, cells[0]),
           show_number(figures->client_cpu_s, 4, cells[1]),
           show_number(figures->connections, 0, cells[2]), show_number(figures->lost, 0, cells[3]),
           show_number(figures->margin_ms, 0, cells[4]));
}

static void print_row(const struct bench_store *store, const struct bench_row *row)
{
    const char *placement = bench_report_placement_name(row->placement);

    if (row->workload == BENCH_W7) {
        print_kept(placement, &row->ours);
    } else if (row->workload == BENCH_W6) {
        print_idle(placement, "ours", &row->ours);
        if (store->raw)
            print_idle("", "raw", &row->raw);
        if (row->beside_name)
            print_idle("", row->beside_name, &row->beside);
    } else {
        print_cycles(placement, "ours", &row->ours, NAN);
        if (store->raw)
            print_cycles("", "raw", &row->raw, row->ratio);
        if (row->beside_name)
            print_cycles("", row->beside_name, &row->beside, row->beside_ratio);
    }
    if (row->rescued)
        printf("    %llu hand-overs were found by a safety-net timer, not by a wake-up\n",
               (unsigned long long)row->rescued);
}

static void print_heads(enum bench_workload workload)
{
    if (workload == BENCH_W7)
        printf("    %-9s  %-9s  %10s  %9s  %11s  %7s  %9s\n", "placement", "side", "scripts/s",
               "CPU s", "connections", "lost", "margin ms");
    else if (workload == BENCH_W6)
        printf("    %-9s  %-9s  %10s  %9s  %11s\n", "placement", "side", "requests/s", "CPU s",
               "connections");
    else
        printf("    %-9s  %-9s  %10s  %9s  %9s  %9s  %7s\n", "placement", "side", "cycles/s",
               "p50 us", "p99 us", "share", "ours/it");
}

void bench_report_workload(const struct bench_store *store, const struct bench_row *rows,
                           size_t count)
{
    enum bench_workload workload = rows[0].workload;

    printf("\n%s  %s\n", bench_workload_name(workload), workload_sentences[workload]);
    if (store->raw)
        printf("    raw: %s\n",
               store->raw->sentences[workload] ? store->raw->sentences[workload] : "none");
    else
        printf("    raw: none; this build has no raw client for the engine %s\n", store->engine);
    print_heads(workload);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].meaningful)
            print_row(store, &rows[i]);
    }
    fflush(stdout);
}

/* --- for programs --- */

static void print_field(const char *before, const char *name, double number, int digits)
{
    printf("%s\"%s\": ", before, name);
    if (isfinite(number))
        printf("%.*f", digits, number);
    else
        printf("null");
}

static void print_figures(const char *name, enum bench_workload workload,
                          const struct bench_figures *figures)
{
    printf(",\n   \"%s\": ", name);
    print_field("{", "cycles_per_s", figures->cycles_per_s, 1);
    print_field(", ", "p50_us", figures->p50_us, 3);
    print_field(", ", "p99_us", figures->p99_us, 3);
    if (workload == BENCH_W3 || workload == BENCH_W4) {
        print_field(", ", "share_min", figures->share_min, 4);
        print_field(", ", "share_max", figures->share_max, 4);
    }
    if (workload == BENCH_W6 || workload == BENCH_W7) {
        print_field(", ", "requests_per_s", figures->requests_per_s, 2);
        print_field(", ", "client_cpu_s", figures->client_cpu_s, 5);
        print_field(", ", "connections", figures->connections, 0);
    }
    if (workload == BENCH_W7) {
        print_field(", ", "lost", figures->lost, 0);
        print_field(", ", "margin_ms", figures->margin_ms, 0);
    }
    printf("}");
}

/* Engines, recipes and the names above need no escapes: what a URL names is one of the library's.
 */
static void print_text(const char *before, const char *name, const char *text)
{
    printf("%s\"%s\": \"%s\"", before, name, text);
}

void bench_report_json(const struct bench_store *store, const struct bench_row *rows, size_t count)
{
    printf("[");
    for (size_t i = 0; i < count; i++) {
        const struct bench_row *row = &rows[i];

        print_text(i ? ",\n  {" : "\n  {", "engine", store->engine);
        print_text(", ", "recipe", store->recipe);
        print_text(", ", "workload", bench_workload_name(row->workload));
        print_text(", ", "placement", bench_report_placement_name(row->placement));
        print_figures("ours", row->workload, &row->ours);
        print_figures("raw", row->workload, &row->raw);
        if (row->workload == BENCH_W5 && row->beside_name)
            print_figures("beside", row->workload, &row->beside);
        print_field(",\n   ", "ratio", row->ratio, 4);
        printf("}");
    }
    printf("\n]\n");
    fflush(stdout);
}
