/* check.c: runs the tests of a program, in the order in which they stand, and counts.
 *
 * Tests enter themselves before main() begins. The first argument, if there is one, is a pattern
 * (`*` and `?`) that picks some of them. A pattern that picks none is a failure: a suite that runs
 * nothing must not look like one that passed. */
#include "check.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTS_MAX 1024

static struct check_test *first_test;
static struct check_test **next_place = &first_test;

void check_enter(struct check_test *test)
{
    *next_place = test;
    next_place = &test->next;
}

_Noreturn void check_exit(int status)
{
    _exit(status);
}

pid_t check_fork_quietly(void)
{
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    assert(child >= 0);
    if (child == 0) {
        struct rlimit none = { 0, 0 };
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        if (nowhere >= 0)
            (void)dup2(nowhere, STDERR_FILENO);
    }
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    pid_t ended;

    do
        ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    assert(ended == child);
    return status;
}

bool check_has_aborted(pid_t child)
{
    int status = wait_for(child);

    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int check_reap(pid_t child)
{
    int status = wait_for(child);

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argument_count, char **arguments)
{
    const char *pattern = argument_count > 1 ? arguments[1] : "*";
    static struct CMUnitTest picked[TESTS_MAX];
    size_t count = 0;
    int failed;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (struct check_test *test = first_test; test; test = test->next) {
        if (fnmatch(pattern, test->name, 0) != 0)
            continue;
        assert(count < TESTS_MAX);
        picked[count++] = (struct CMUnitTest){ .name = test->name, .test_func = test->run };
    }
    if (count == 0) {
        (void)fprintf(stderr, "no test matches '%s'\n", pattern);
        return EXIT_FAILURE;
    }

    failed = _cmocka_run_group_tests("tests", picked, count, NULL, NULL);
    (void)fflush(stderr);
    (void)printf("%zu passed, %d failed\n", count - (size_t)failed, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
