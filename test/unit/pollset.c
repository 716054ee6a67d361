/* pollset.c: does the set keep all that it takes, and say when it is full? */
#include "base/pollset.h"

#include "base/clock.h"
#include "check.h"

TEST(pollset, begins_empty_and_without_a_deadline)
{
    struct hf__pollset set;

    hf__pollset_init(&set);
    CHECK_EQUAL(set.count, 0);
    CHECK(set.deadline_ns == HF__NEVER);
}

TEST(pollset, takes_as_many_as_it_says_and_refuses_the_next)
{
    struct hf__pollset set;

    hf__pollset_init(&set);
    for (int fd = 0; fd < HF__POLLSET_MAX; fd++)
        CHECK(hf__pollset_add(&set, fd, fd % 2 ? POLLIN : POLLOUT));
    CHECK(!hf__pollset_add(&set, 4711, POLLIN));

    CHECK_EQUAL(set.count, HF__POLLSET_MAX);
    for (int fd = 0; fd < HF__POLLSET_MAX; fd++) {
        CHECK_EQUAL(set.fds[fd].fd, fd);
        CHECK_EQUAL(set.fds[fd].events, fd % 2 ? POLLIN : POLLOUT);
        CHECK_EQUAL(set.fds[fd].revents, 0);
    }
}

TEST(pollset, keeps_the_earliest_deadline)
{
    const uint64_t deadlines[] = { HF__NEVER, 50, 70, 50, 20, 21, HF__NEVER };
    const uint64_t earliest[] = { HF__NEVER, 50, 50, 50, 20, 20, 20 };
    struct hf__pollset set;

    hf__pollset_init(&set);
    for (size_t i = 0; i < sizeof(deadlines) / sizeof(*deadlines); i++) {
        hf__pollset_until(&set, deadlines[i]);
        CHECK(set.deadline_ns == earliest[i]);
    }
    hf__pollset_until(&set, 0);
    CHECK(set.deadline_ns == 0);
}

TEST(pollset, a_descriptor_that_is_none_is_a_mistake)
{
    struct hf__pollset set;

    hf__pollset_init(&set);
    CHECK_ABORTS(hf__pollset_add(&set, -1, POLLIN));
}
