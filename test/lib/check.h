/* check.h: how is a test written?
 *
 *     TEST(lease, late_grant_after_release_is_dropped)
 *     {
 *         CHECK(grant_count == 0);
 *         CHECK_EQUAL(status, HF_ELOST);
 *         CHECK_TEXT(error, "no such lock");
 *     }
 *
 * That is all: a test enters itself into the list of its program, and check.c has the main() that
 * runs them in the order in which they stand (`program 'lease.*'` runs those that match) and ends
 * with the line `N passed, N failed`.
 *
 * A failed CHECK ends the test by a jump, so it may stand only in the thread that runs the tests,
 * and not between fork() and the end of the child: threads and children return what they saw, and
 * the test checks that. */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

struct check_test {
    const char *name; /* "area.sentence" */
    void (*run)(void **state);
    struct check_test *next;
};

void check_enter(struct check_test *test);

#define TEST(area, sentence)                                                                       \
    static void area##_##sentence(void **state);                                                   \
    __attribute__((constructor)) static void enter_##area##_##sentence(void)                       \
    {                                                                                              \
        static struct check_test test = { #area "." #sentence, area##_##sentence, NULL };          \
                                                                                                   \
        check_enter(&test);                                                                        \
    }                                                                                              \
    static void area##_##sentence(__attribute__((unused)) void **state)

#define CHECK(expression) _assert_true((expression) ? 1 : 0, #expression, __FILE__, __LINE__)

/* Integers, of any type; both are shown when they differ. */
#define CHECK_EQUAL(found, wanted) assert_int_equal((found), (wanted))

/* Texts, none of them NULL; both are shown when they differ. */
#define CHECK_TEXT(found, wanted) assert_string_equal((found), (wanted))

/* The statement must run into an assert. It runs in a child, which leaves no core and no noise. */
#define CHECK_ABORTS(statement)                                                                    \
    do {                                                                                           \
        pid_t check_child = check_fork_quietly();                                                  \
                                                                                                   \
        if (check_child == 0) {                                                                    \
            statement;                                                                             \
            check_exit(0);                                                                         \
        }                                                                                          \
        _assert_true(check_has_aborted(check_child), #statement " aborts", __FILE__, __LINE__);    \
    } while (0)

/* For CHECK_ABORTS. */
pid_t check_fork_quietly(void);
bool check_has_aborted(pid_t child);

/* Ends a child at once: no atexit, and no second copy of what the parent had still to print. */
_Noreturn void check_exit(int status);

/* Waits for the child and returns its exit status, or -1 if a signal ended it. */
int check_reap(pid_t child);

#endif
