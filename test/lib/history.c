/* history.c: did what happened keep the promises of a lock?
 *
 * The records of an attempt become one stay: asked, perhaps queued, granted, believed until.
 * Sorted by fence, one sweep over the stays of a lock finds every violation, because each
 * condition on a pair asks only for the greatest time among those with lower fences:
 *
 *   exclusion  a stay ends before any conflicting one with a greater fence was granted
 *   order      nobody who asked after another had been granted has a lower fence than it
 *   queue      nobody who asked after another stood in line, and conflicts with it, comes before it
 *
 * All times are read on the safe side (history.h), so a violation that is found is one.
 *
 * What can go wrong: a process dies between two records, even inside one. A record that was not
 * finished does not exist; a stay without an end lasts, if its process was killed, until the kill
 * was decided (it cannot have begun to release before) or it would have lost it anyway, as far as
 * it knew when it last looked, else until it was last seen valid. A log
 * that overflowed, or that contradicts itself, is a violation: silence must not look like
 * success. */
#include "history.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "holdfast/holdfast.h"

struct slot {
    struct history_record record;
    atomic_bool written;
};

struct history {
    size_t records_max;
    size_t bytes;
    atomic_size_t count;
    _Atomic uint64_t attempts;
    struct slot slots[];
};

struct stay {
    uint64_t attempt;
    uint64_t fence; /* 0: never granted */
    uint64_t ask_ns;
    uint64_t queued_ns; /* 0: not known to have stood in line */
    uint64_t granted_ns;
    uint64_t until_ns; /* 0: no end of its own */
    uint64_t valid_ns;
    uint64_t end_ns; /* 0: none was recorded */
    pid_t process;
    uint32_t lock;
    int mode;
};

struct history *history_new(size_t records_max)
{
    size_t bytes = sizeof(struct history) + records_max * sizeof(struct slot);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct history *history = (struct history *)memory;

    assert(records_max > 0);
    assert(memory != MAP_FAILED);

    history->records_max = records_max;
    history->bytes = bytes;
    return history;
}

void history_free(struct history *history)
{
    if (history)
        munmap(history, history->bytes);
}

uint64_t history_attempt(struct history *history)
{
    return atomic_fetch_add(&history->attempts, 1) + 1;
}

uint64_t history_now_ns(void)
{
    struct timespec now = { 0 };
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);

    assert(!failed);
    (void)failed;
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void history_add(struct history *history, const struct history_record *record)
{
    size_t place = atomic_fetch_add(&history->count, 1);

    if (place >= history->records_max)
        return; /* history_check sees the count */
    history->slots[place].record = *record;
    atomic_store_explicit(&history->slots[place].written, true, memory_order_release);
}

/* --- from records to stays --- */

__attribute__((format(printf, 2, 3))) static void complain(struct history_report *report,
                                                           const char *format, ...)
{
    va_list arguments;

    if (!report->kept)
        return; /* the first one is the cause, the others may be its effects */
    report->kept = false;
    va_start(arguments, format);
    vsnprintf(report->text, sizeof report->text, format, arguments);
    va_end(arguments);
}

static void take_grant(struct stay *stay, const struct history_record *record,
                       struct history_report *report)
{
    if (stay->fence)
        complain(report, "attempt %" PRIu64 " was granted twice", record->attempt);
    if (!record->fence)
        complain(report, "attempt %" PRIu64 " was granted without a fence", record->attempt);
    if (!stay->ask_ns || record->at_ns < stay->ask_ns)
        complain(report, "attempt %" PRIu64 " was granted before it asked", record->attempt);
    stay->fence = record->fence;
    stay->granted_ns = record->at_ns;
    stay->until_ns = record->until_ns;
    report->grants++;
}

static void take(struct stay *stay, const struct history_record *record,
                 struct history_report *report)
{
    switch (record->kind) {
    case HISTORY_ASK:
        stay->ask_ns = record->at_ns;
        stay->lock = record->lock;
        stay->mode = record->mode;
        stay->process = record->process;
        stay->attempt = record->attempt;
        break;
    case HISTORY_QUEUED:
        stay->queued_ns = record->at_ns;
        break;
    case HISTORY_GRANTED:
        take_grant(stay, record, report);
        break;
    case HISTORY_VALID:
        if (!stay->fence || stay->end_ns)
            complain(report, "attempt %" PRIu64 " was valid outside of its stay", record->attempt);
        stay->valid_ns = record->at_ns > stay->valid_ns ? record->at_ns : stay->valid_ns;
        if (record->until_ns) /* it was renewed */
            stay->until_ns = record->until_ns;
        break;
    case HISTORY_END:
        if (!stay->fence || stay->end_ns)
            complain(report, "attempt %" PRIu64 " ended what it did not hold", record->attempt);
        stay->end_ns = record->at_ns;
        break;
    case HISTORY_KILL:
        break;
    }
}

static uint64_t find_kill(const struct history *history, size_t count, pid_t process,
                          uint64_t after_ns)
{
    for (size_t i = 0; i < count; i++) {
        const struct history_record *record = &history->slots[i].record;

        /* A number may be given again: the kill that ends a stay comes after its grant. */
        if (atomic_load(&history->slots[i].written) && record->kind == HISTORY_KILL &&
            record->process == process && record->at_ns >= after_ns)
            return record->at_ns;
    }
    return 0;
}

static void close_stay(const struct history *history, size_t count, struct stay *stay,
                       struct history_report *report)
{
    uint64_t kill_ns;

    if (!stay->fence || stay->end_ns)
        return;
    kill_ns = find_kill(history, count, stay->process, stay->granted_ns);
    if (kill_ns) {
        report->killed_holders++;
        stay->end_ns = kill_ns;
        if (stay->until_ns && stay->until_ns < kill_ns)
            stay->end_ns = stay->until_ns; /* it was lost before */
    }
    /* Stopped for so long on its way out of the call that it was over before anybody saw it. */
    if (stay->until_ns == stay->granted_ns && stay->valid_ns == 0) {
        stay->end_ns = stay->ask_ns;
        return;
    }
    if (stay->end_ns < stay->granted_ns)
        stay->end_ns = stay->granted_ns;
    if (stay->end_ns < stay->valid_ns)
        stay->end_ns = stay->valid_ns;
}

/* --- from stays to a verdict --- */

static int compare(const void *left, const void *right)
{
    const struct stay *a = (const struct stay *)left;
    const struct stay *b = (const struct stay *)right;

    if (a->lock != b->lock)
        return a->lock < b->lock ? -1 : 1;
    if (a->fence != b->fence)
        return a->fence < b->fence ? -1 : 1;
    return 0;
}

/* Of the stays with lower fences than the one in hand: who reached furthest? */
struct furthest {
    const struct stay *any_end;
    const struct stay *exclusive_end;
    const struct stay *any_ask;
    const struct stay *exclusive_ask;
};

static void advance(struct furthest *furthest, const struct stay *stay)
{
    bool exclusive = stay->mode == HF_EXCLUSIVE;

    if (!furthest->any_end || stay->end_ns > furthest->any_end->end_ns)
        furthest->any_end = stay;
    if (!furthest->any_ask || stay->ask_ns > furthest->any_ask->ask_ns)
        furthest->any_ask = stay;
    if (exclusive && (!furthest->exclusive_end || stay->end_ns > furthest->exclusive_end->end_ns))
        furthest->exclusive_end = stay;
    if (exclusive && (!furthest->exclusive_ask || stay->ask_ns > furthest->exclusive_ask->ask_ns))
        furthest->exclusive_ask = stay;
}

static void judge(const struct furthest *before, const struct stay *stay, enum history_order order,
                  struct history_report *report)
{
    bool exclusive = stay->mode == HF_EXCLUSIVE;
    const struct stay *end = exclusive ? before->any_end : before->exclusive_end;
    const struct stay *ask = exclusive ? before->any_ask : before->exclusive_ask;

    if (end && end->end_ns > stay->granted_ns)
        complain(report,
                 "lock %u: fence %" PRIu64 " (process %d) was still believed %" PRIu64
                 " ns after fence %" PRIu64 " (process %d) had been granted",
                 stay->lock, end->fence, (int)end->process, end->end_ns - stay->granted_ns,
                 stay->fence, (int)stay->process);
    if (before->any_ask && before->any_ask->ask_ns > stay->granted_ns)
        complain(report,
                 "lock %u: fence %" PRIu64 " was granted before fence %" PRIu64
                 " was asked for, and is greater",
                 stay->lock, stay->fence, before->any_ask->fence);
    if (order == HISTORY_QUEUE_ORDER && stay->queued_ns && ask && ask->ask_ns > stay->queued_ns)
        complain(report,
                 "lock %u: fence %" PRIu64 " (process %d) stood in line before fence %" PRIu64
                 " (process %d) was asked for, and came after it",
                 stay->lock, stay->fence, (int)stay->process, ask->fence, (int)ask->process);
}

static void sweep(const struct stay *stays, size_t count, enum history_order order,
                  struct history_report *report)
{
    struct furthest before = { 0 };

    for (size_t i = 0; i < count; i++) {
        if (i > 0 && stays[i].lock != stays[i - 1].lock)
            before = (struct furthest){ 0 };
        else if (i > 0 && stays[i].fence == stays[i - 1].fence)
            complain(report, "lock %u: fence %" PRIu64 " was given twice", stays[i].lock,
                     stays[i].fence);
        judge(&before, &stays[i], order, report);
        advance(&before, &stays[i]);
    }
}

struct history_report history_check(const struct history *history, enum history_order order)
{
    struct history_report report = { .kept = true };
    size_t count = atomic_load(&history->count);
    size_t attempts = (size_t)atomic_load(&history->attempts) + 1;
    struct stay *stays = (struct stay *)calloc(attempts, sizeof *stays);
    size_t granted = 0;

    assert(stays);
    if (count > history->records_max) {
        complain(&report, "%zu records did not fit", count - history->records_max);
        count = history->records_max;
    }
    for (size_t i = 0; i < count; i++) {
        const struct history_record *record = &history->slots[i].record;

        if (!atomic_load_explicit(&history->slots[i].written, memory_order_acquire))
            continue;
        report.kills += record->kind == HISTORY_KILL;
        if (record->attempt < attempts)
            take(&stays[record->attempt], record, &report);
        else
            complain(&report, "record %zu is of no attempt", i);
    }
    for (size_t i = 1; i < attempts; i++) {
        close_stay(history, count, &stays[i], &report);
        if (stays[i].fence)
            stays[granted++] = stays[i];
    }
    qsort(stays, granted, sizeof *stays, compare);
    sweep(stays, granted, order, &report);
    free(stays);
    return report;
}
