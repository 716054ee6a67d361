/* events.c: does every handle keep one event, the last one, and LOST whatever comes? */
#include "check.h"
#include "core/core.h"

#define HANDLES 5

struct scene {
    struct hf__core core;
    struct hf_grant grants[HANDLES];
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){ .core = { .closing = false } };
    hf__list_init(&scene->core.notes);
    for (size_t i = 0; i < HANDLES; i++)
        hf__list_init(&scene->grants[i].note.place);
}

static void put(struct scene *scene, size_t handle, int kind)
{
    struct hf_grant *grant = &scene->grants[handle];
    struct hf_event event = { .kind = kind, .grant = grant, .cause = "" };

    hf__events_put(&scene->core, &grant->note, &event);
}

/* The next event must be this one. */
static void check_next(struct scene *scene, size_t handle, int kind)
{
    struct hf_event event = { .kind = 0 };
    struct hf_grant *ended = NULL;

    CHECK(hf__events_take(&scene->core, &event, &ended));
    CHECK_EQUAL(event.kind, kind);
    CHECK(event.grant == &scene->grants[handle]);
    CHECK(ended == (kind == HF_EVENT_RELEASED ? &scene->grants[handle] : NULL));
}

static void check_none(struct scene *scene)
{
    struct hf_event event;
    struct hf_grant *ended;

    CHECK(!hf__events_take(&scene->core, &event, &ended));
}

TEST(events, come_in_the_order_in_which_they_were_put)
{
    struct scene scene;

    begin(&scene);
    check_none(&scene);
    put(&scene, 2, HF_EVENT_GRANTED);
    put(&scene, 0, HF_EVENT_AT_RISK);
    put(&scene, 1, HF_EVENT_LOST);
    check_next(&scene, 2, HF_EVENT_GRANTED);
    check_next(&scene, 0, HF_EVENT_AT_RISK);
    check_next(&scene, 1, HF_EVENT_LOST);
    check_none(&scene);
}

TEST(events, a_later_one_replaces_an_earlier_one_and_goes_to_the_end)
{
    struct scene scene;

    begin(&scene);
    put(&scene, 0, HF_EVENT_AT_RISK);
    put(&scene, 1, HF_EVENT_AT_RISK);
    put(&scene, 0, HF_EVENT_SAFE);
    check_next(&scene, 1, HF_EVENT_AT_RISK);
    check_next(&scene, 0, HF_EVENT_SAFE);
    check_none(&scene);
}

/* Whoever never fetches has no more than one for each handle. */
TEST(events, never_overflow)
{
    struct scene scene;
    size_t pending = 0;

    begin(&scene);
    for (size_t i = 0; i < 100000; i++)
        put(&scene, i % HANDLES, i % 2 ? HF_EVENT_SAFE : HF_EVENT_AT_RISK);
    HF__LIST_FOR(node, &scene.core.notes)
    {
        pending++;
    }
    CHECK_EQUAL(pending, HANDLES);
    for (size_t i = 0; i < HANDLES; i++) /* the last five puts, in their order */
        check_next(&scene, i, (100000 - HANDLES + i) % 2 ? HF_EVENT_SAFE : HF_EVENT_AT_RISK);
    check_none(&scene);
}

/* All orders of two events of one handle. */
TEST(events, lost_is_replaced_by_nothing_but_the_answer_to_a_release)
{
    for (int first = HF_EVENT_GRANTED; first <= HF_EVENT_RELEASED; first++) {
        for (int second = HF_EVENT_GRANTED; second <= HF_EVENT_RELEASED; second++) {
            bool stays = first == HF_EVENT_LOST && second != HF_EVENT_RELEASED;
            struct scene scene;

            begin(&scene);
            put(&scene, 0, first);
            put(&scene, 1, HF_EVENT_SAFE);
            put(&scene, 0, second);
            if (stays)
                check_next(&scene, 0, HF_EVENT_LOST); /* and it keeps its place in line */
            check_next(&scene, 1, HF_EVENT_SAFE);
            if (!stays)
                check_next(&scene, 0, second);
            check_none(&scene);
        }
    }
}

TEST(events, once_lost_was_fetched_the_next_is_told)
{
    struct scene scene;

    begin(&scene);
    put(&scene, 0, HF_EVENT_LOST);
    check_next(&scene, 0, HF_EVENT_LOST);
    put(&scene, 0, HF_EVENT_RELEASED);
    check_next(&scene, 0, HF_EVENT_RELEASED);
    check_none(&scene);
}

TEST(events, of_a_handle_that_has_ended_are_dropped)
{
    struct scene scene;

    begin(&scene);
    put(&scene, 0, HF_EVENT_LOST);
    put(&scene, 1, HF_EVENT_SAFE);
    hf__events_drop(&scene.grants[0].note);
    hf__events_drop(&scene.grants[0].note); /* harmless when repeated */
    check_next(&scene, 1, HF_EVENT_SAFE);
    check_none(&scene);
}

TEST(events, an_answer_is_given_once_and_rings)
{
    struct hf__core core = { 0 };
    struct hf__answer answer = { .status = HF_PENDING };
    uint32_t seen = hf__wake_look(&answer.wake);

    hf__events_answer(&core, &answer, HF_EBUSY);
    CHECK_EQUAL(answer.status, HF_EBUSY);
    CHECK(hf__wake_look(&answer.wake) != seen);
    CHECK_ABORTS(hf__events_answer(&core, &answer, HF_OK));
    answer.status = HF_PENDING;
    CHECK_ABORTS(hf__events_answer(&core, &answer, HF_PENDING));
}
