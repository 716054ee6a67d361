/* history_test.c: does the checker of histories find what is wrong, and only that?
 *
 * Small histories by hand, one for each thing that can be wrong; then thousands of random ones, on
 * which the sweep must agree with a slow checker that compares every stay with every other. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "dice.h"
#include "history.h"
#include "holdfast/holdfast.h"

#define RECORDS_MAX 4096
#define RANDOM_RUNS 100000
#define STAYS       6

/* One stay, as a test writes it down; times are small numbers. */
struct line {
    uint32_t lock;
    int mode;
    uint64_t fence;
    uint64_t ask;
    uint64_t queued; /* 0: no record of it */
    uint64_t granted;
    uint64_t end; /* 0: no record of it */
};

static void write_line(struct history *history, const struct line *line, pid_t process)
{
    struct history_record record = { .lock = line->lock,
                                     .mode = line->mode,
                                     .process = process,
                                     .attempt = history_attempt(history) };

    record.kind = HISTORY_ASK;
    record.at_ns = line->ask;
    history_add(history, &record);
    record.kind = HISTORY_QUEUED;
    record.at_ns = line->queued;
    if (line->queued)
        history_add(history, &record);
    record.kind = HISTORY_GRANTED;
    record.fence = line->fence;
    record.at_ns = line->granted;
    history_add(history, &record);
    record.kind = HISTORY_END;
    record.at_ns = line->end;
    if (line->end)
        history_add(history, &record);
}

static struct history_report report_of(const struct line *lines, size_t count,
                                       enum history_order order)
{
    struct history *history = history_new(RECORDS_MAX);
    struct history_report report;

    for (size_t i = 0; i < count; i++)
        write_line(history, &lines[i], (pid_t)(100 + i));
    report = history_check(history, order);
    history_free(history);
    return report;
}

#define REPORT(order, ...)                                                                         \
    report_of((const struct line[]){ __VA_ARGS__ },                                                \
              sizeof((const struct line[]){ __VA_ARGS__ }) / sizeof(struct line), (order))

/* lock, mode, fence, ask, queued, granted, end */
#define WRITE HF_EXCLUSIVE
#define READ  HF_SHARED

TEST(history, turns_one_after_the_other_are_kept)
{
    struct history_report report = REPORT(
        HISTORY_QUEUE_ORDER, { 1, WRITE, 1, 10, 11, 12, 20 }, { 1, WRITE, 2, 13, 14, 20, 30 },
        { 1, WRITE, 3, 15, 16, 31, 40 }, { 2, WRITE, 1, 10, 0, 11, 40 });

    CHECK_TEXT(report.text, "");
    CHECK(report.kept);
    CHECK_EQUAL(report.grants, 4);
}

TEST(history, two_writers_at_once_are_found)
{
    struct history_report report =
        REPORT(HISTORY_ANY_ORDER, { 1, WRITE, 1, 10, 0, 11, 21 }, { 1, WRITE, 2, 12, 0, 20, 30 });

    CHECK(!report.kept);
    CHECK(strstr(report.text, "still believed 1 ns after"));
}

TEST(history, a_long_stay_is_found_by_a_much_later_one)
{
    struct history_report report =
        REPORT(HISTORY_ANY_ORDER, { 1, READ, 1, 1, 0, 2, 100 }, { 1, READ, 2, 3, 0, 4, 5 },
               { 1, READ, 3, 3, 0, 4, 5 }, { 1, WRITE, 4, 6, 0, 50, 60 });

    CHECK(!report.kept);
}

TEST(history, readers_together_are_kept)
{
    struct history_report report =
        REPORT(HISTORY_QUEUE_ORDER, { 1, READ, 1, 10, 0, 11, 50 }, { 1, READ, 2, 12, 0, 13, 40 },
               { 1, WRITE, 3, 14, 15, 50, 60 }, { 1, READ, 4, 20, 21, 60, 70 });

    CHECK_TEXT(report.text, "");
}

TEST(history, a_writer_among_readers_is_found)
{
    CHECK(
        !REPORT(HISTORY_ANY_ORDER, { 1, READ, 1, 1, 0, 2, 9 }, { 1, WRITE, 2, 1, 0, 8, 10 }).kept);
    CHECK(
        !REPORT(HISTORY_ANY_ORDER, { 1, WRITE, 1, 1, 0, 2, 9 }, { 1, READ, 2, 1, 0, 8, 10 }).kept);
    CHECK(!REPORT(HISTORY_ANY_ORDER, { 1, WRITE, 1, 1, 0, 2, 9 }, { 1, READ, 2, 1, 0, 10, 12 },
                  { 1, READ, 3, 1, 0, 8, 10 })
               .kept);
}

TEST(history, a_fence_given_twice_is_found)
{
    struct history_report report =
        REPORT(HISTORY_ANY_ORDER, { 1, READ, 7, 1, 0, 2, 3 }, { 1, READ, 7, 4, 0, 5, 6 });

    CHECK(strstr(report.text, "given twice"));
    CHECK(REPORT(HISTORY_ANY_ORDER, { 1, READ, 7, 1, 0, 2, 3 }, { 2, READ, 7, 4, 0, 5, 6 }).kept);
}

TEST(history, fences_that_fall_are_found)
{
    CHECK(
        !REPORT(HISTORY_ANY_ORDER, { 1, WRITE, 2, 1, 0, 2, 3 }, { 1, WRITE, 1, 4, 0, 5, 6 }).kept);
    CHECK(!REPORT(HISTORY_ANY_ORDER, { 1, READ, 2, 1, 0, 2, 3 }, { 1, READ, 1, 4, 0, 5, 6 }).kept);
    CHECK(
        !REPORT(HISTORY_ANY_ORDER, { 1, WRITE, 9, 1, 0, 2, 3 }, { 1, WRITE, 0, 4, 0, 5, 6 }).kept);
}

TEST(history, readers_that_asked_together_may_have_any_order)
{
    CHECK(REPORT(HISTORY_ANY_ORDER, { 1, READ, 2, 1, 0, 2, 9 }, { 1, READ, 1, 2, 0, 5, 6 }).kept);
}

TEST(history, whoever_is_passed_by_in_the_queue_is_found)
{
    struct line lines[] = { { 1, WRITE, 1, 1, 0, 2, 20 },
                            { 1, WRITE, 3, 3, 4, 30, 40 },
                            { 1, WRITE, 2, 5, 6, 20, 30 } };

    CHECK(strstr(report_of(lines, 3, HISTORY_QUEUE_ORDER).text, "stood in line before"));
    CHECK(report_of(lines, 3, HISTORY_ANY_ORDER).kept);
    lines[1].queued = 5; /* not certainly before the other asked */
    CHECK(report_of(lines, 3, HISTORY_QUEUE_ORDER).kept);
}

TEST(history, a_reader_that_passes_a_waiting_writer_is_found)
{
    CHECK(!REPORT(HISTORY_QUEUE_ORDER, { 1, READ, 1, 1, 0, 2, 20 }, { 1, WRITE, 3, 3, 4, 20, 30 },
                  { 1, READ, 2, 5, 0, 6, 7 })
               .kept);
    CHECK(REPORT(HISTORY_QUEUE_ORDER, { 1, READ, 1, 1, 0, 2, 20 }, { 1, READ, 3, 3, 4, 20, 30 },
                 { 1, READ, 2, 5, 0, 6, 7 })
              .kept);
}

/* Killed while it held: it held until somebody decided to kill it, and not beyond. */
TEST(history, a_killed_holder_holds_until_the_kill)
{
    struct line dead = { 1, WRITE, 1, 1, 0, 2, 0 };
    struct line next = { 1, WRITE, 2, 3, 0, 10, 11 };
    struct history_record death = { .kind = HISTORY_KILL, .process = 55, .at_ns = 10 };

    for (uint64_t at = 9; at <= 11; at++) {
        struct history *history = history_new(RECORDS_MAX);
        struct history_report report;

        death.at_ns = at;
        write_line(history, &dead, 55);
        history_add(history, &death);
        write_line(history, &next, 56);
        report = history_check(history, HISTORY_ANY_ORDER);
        CHECK_EQUAL(report.killed_holders, 1);
        CHECK_EQUAL(report.kills, 1);
        CHECK_EQUAL(report.kept, at <= 10);
        history_free(history);
    }
}

/* Its lease may have ended before; it was believed until that end, and not beyond. */
TEST(history, a_killed_holder_with_a_lease_holds_no_longer_than_that)
{
    struct history_record records[] = {
        { .kind = HISTORY_ASK, .lock = 1, .process = 55, .at_ns = 1 },
        { .kind = HISTORY_GRANTED, .lock = 1, .process = 55, .fence = 1, .at_ns = 2 },
        { .kind = HISTORY_KILL, .process = 55, .at_ns = 20 },
    };
    struct line next = { 1, WRITE, 2, 3, 0, 10, 11 };

    for (uint64_t until = 9; until <= 11; until++) {
        struct history *history = history_new(RECORDS_MAX);

        records[1].until_ns = until;
        records[0].attempt = records[1].attempt = history_attempt(history);
        for (int i = 0; i < 3; i++)
            history_add(history, &records[i]);
        write_line(history, &next, 56);
        CHECK_EQUAL(history_check(history, HISTORY_ANY_ORDER).kept, until <= 10);
        history_free(history);
    }
}

/* A look tells how long it would last now: it was renewed, and a kill long after it was lost is
 * not its end. */
TEST(history, a_killed_holder_holds_no_longer_than_it_knew_at_its_last_look)
{
    struct history_record records[] = {
        { .kind = HISTORY_ASK, .lock = 1, .process = 55, .at_ns = 1 },
        { .kind = HISTORY_GRANTED,
          .lock = 1,
          .process = 55,
          .fence = 1,
          .until_ns = 4,
          .at_ns = 2 },
        { .kind = HISTORY_VALID, .lock = 1, .process = 55, .at_ns = 3 },
        { .kind = HISTORY_KILL, .process = 55, .at_ns = 20 },
    };
    struct line next = { 1, WRITE, 2, 3, 0, 10, 11 };

    for (uint64_t until = 9; until <= 30; until++) {
        struct history *history = history_new(RECORDS_MAX);

        records[2].until_ns = until;
        records[0].attempt = records[1].attempt = records[2].attempt = history_attempt(history);
        for (int i = 0; i < 4; i++)
            history_add(history, &records[i]);
        write_line(history, &next, 56);
        CHECK_EQUAL(history_check(history, HISTORY_ANY_ORDER).kept, until <= 10);
        history_free(history);
    }
}

TEST(history, a_kill_before_the_grant_was_another_process_of_that_number)
{
    struct line holder = { 1, WRITE, 1, 5, 0, 6, 0 };
    struct history_record death = { .kind = HISTORY_KILL, .process = 55, .at_ns = 3 };
    struct history *history = history_new(RECORDS_MAX);

    history_add(history, &death);
    write_line(history, &holder, 55);
    CHECK_EQUAL(history_check(history, HISTORY_ANY_ORDER).killed_holders, 0);
    death.at_ns = 8;
    history_add(history, &death);
    CHECK_EQUAL(history_check(history, HISTORY_ANY_ORDER).killed_holders, 1);
    history_free(history);
}

TEST(history, a_look_that_found_it_valid_counts)
{
    struct line lost = { 1, WRITE, 1, 1, 0, 2, 0 };
    struct line next = { 1, WRITE, 2, 3, 0, 10, 11 };
    struct history_record look = { .kind = HISTORY_VALID, .attempt = 1, .lock = 1 };

    for (uint64_t at = 9; at <= 11; at++) {
        struct history *history = history_new(RECORDS_MAX);

        write_line(history, &lost, 55);
        look.at_ns = at;
        history_add(history, &look);
        write_line(history, &next, 56);
        CHECK_EQUAL(history_check(history, HISTORY_ANY_ORDER).kept, at <= 10);
        history_free(history);
    }
}

TEST(history, a_log_that_contradicts_itself_is_found)
{
    static const enum history_kind stories[][4] = {
        { HISTORY_GRANTED, HISTORY_END },                               /* never asked */
        { HISTORY_ASK, HISTORY_END },                                   /* never granted */
        { HISTORY_ASK, HISTORY_VALID },                                 /* never granted */
        { HISTORY_ASK, HISTORY_GRANTED, HISTORY_GRANTED },              /* twice */
        { HISTORY_ASK, HISTORY_GRANTED, HISTORY_END, HISTORY_END },     /* twice */
        { HISTORY_ASK, HISTORY_GRANTED, HISTORY_END, HISTORY_VALID },   /* after its end */
        { HISTORY_ASK, HISTORY_GRANTED, HISTORY_END, HISTORY_GRANTED }, /* after its end */
    };
    static const size_t lengths[] = { 2, 2, 2, 3, 4, 4, 4 };

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct history *history = history_new(RECORDS_MAX);
        struct history_record record = { .lock = 1, .attempt = history_attempt(history) };

        for (size_t k = 0; k < lengths[i]; k++) {
            record.kind = stories[i][k];
            record.fence = record.kind == HISTORY_GRANTED ? 1 : 0;
            record.at_ns = k + 1;
            history_add(history, &record);
        }
        CHECK(!history_check(history, HISTORY_ANY_ORDER).kept);
        history_free(history);
    }
}

TEST(history, a_log_that_overflowed_is_no_proof)
{
    struct history *history = history_new(3);
    struct line line = { 1, WRITE, 1, 1, 0, 2, 3 };

    write_line(history, &line, 1);
    CHECK(history_check(history, HISTORY_ANY_ORDER).kept);
    line = (struct line){ 1, WRITE, 2, 4, 0, 5, 6 };
    write_line(history, &line, 1);
    CHECK(strstr(history_check(history, HISTORY_ANY_ORDER).text, "did not fit"));
    history_free(history);
}

TEST(history, children_write_into_the_same_log)
{
    struct history *history = history_new(RECORDS_MAX);
    struct history_report report;
    pid_t children[4];

    for (uint64_t i = 0; i < 4; i++) {
        struct line line = { 1, WRITE, i + 1, 10 * i + 1, 0, 10 * i + 2, 10 * i + 5 };

        children[i] = fork();
        if (children[i] == 0) {
            write_line(history, &line, getpid());
            check_exit(0);
        }
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(check_reap(children[i]), 0);
    report = history_check(history, HISTORY_ANY_ORDER);
    CHECK_TEXT(report.text, "");
    CHECK_EQUAL(report.grants, 4);
    history_free(history);
}

/* --- against a slow checker --- */

static bool conflict(const struct line *a, const struct line *b)
{
    return a->lock == b->lock && (a->mode == WRITE || b->mode == WRITE);
}

static bool pair_is_kept(const struct line *low, const struct line *high, enum history_order order)
{
    if (low->lock != high->lock)
        return true;
    if (low->fence == high->fence || low->ask > high->granted)
        return false;
    if (!conflict(low, high))
        return true;
    if (low->end > high->granted)
        return false;
    return order == HISTORY_ANY_ORDER || !high->queued || low->ask <= high->queued;
}

static bool is_kept(const struct line *lines, size_t count, enum history_order order)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            bool low =
                lines[i].fence < lines[k].fence || (lines[i].fence == lines[k].fence && i < k);

            if (i != k && low && !pair_is_kept(&lines[i], &lines[k], order))
                return false;
        }
    }
    return true;
}

/* A run of turns that is right, and then one number of it changed, in half of the runs. */
static void draw(struct dice *dice, struct line lines[STAYS], bool corrupt)
{
    uint64_t now[3] = { 10, 10, 10 };
    struct line *line = &lines[dice_below(dice, STAYS)];
    uint64_t *numbers[] = { &line->fence, &line->granted, &line->end, &line->ask, &line->queued };

    for (size_t i = 0; i < STAYS; i++) {
        uint32_t lock = 1 + (uint32_t)dice_below(dice, 2);
        uint64_t ask = now[lock] - dice_below(dice, 4);

        lines[i] = (struct line){ .lock = lock,
                                  .mode = dice_below(dice, 3) == 0 ? READ : WRITE,
                                  .fence = i + 1,
                                  .ask = ask,
                                  .queued = dice_below(dice, 2) ? ask + 1 : 0,
                                  .granted = now[lock] + 1,
                                  .end = now[lock] + 2 + dice_below(dice, 3) };
        now[lock] = lines[i].end + dice_below(dice, 3);
    }
    if (corrupt)
        *numbers[dice_below(dice, 5)] = 1 + dice_below(dice, 30);
}

static bool is_story(const struct line *lines)
{
    for (size_t i = 0; i < STAYS; i++) {
        if (lines[i].ask > lines[i].granted || lines[i].granted > lines[i].end)
            return false;
    }
    return true;
}

TEST(history, the_sweep_agrees_with_a_checker_of_all_pairs)
{
    struct dice dice = { .state = 20 };
    size_t kept = 0;
    size_t broken = 0;

    for (int run = 0; run < RANDOM_RUNS; run++) {
        enum history_order order = run % 3 ? HISTORY_QUEUE_ORDER : HISTORY_ANY_ORDER;
        struct line lines[STAYS];
        bool expected;

        draw(&dice, lines, run % 2);
        if (!is_story(lines))
            continue;
        expected = is_kept(lines, STAYS, order);
        CHECK_EQUAL(report_of(lines, STAYS, order).kept, expected);
        kept += expected;
        broken += !expected;
    }
    printf("%zu kept, %zu broken\n", kept, broken);
    CHECK(kept > RANDOM_RUNS / 10 && broken > RANDOM_RUNS / 10);
}
