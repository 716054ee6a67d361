/* quorum.c: is every verdict one that the votes allow, and does it come as soon as they force it?
 *
 * All assignments of answers to 3 and to 5 stores are walked: each store accepts, is low, refuses,
 * does not have it, failed, is unknown, or has not answered yet. What may be said is derived from
 * the assignment itself, by looking at all its ends (the open stores filled in every way), and not
 * by the sums that quorum.c makes. */
#include "check.h"
#include "pattern/pattern.h"

enum answer { ACCEPTS, LOW, REFUSES, GONE, FAILED, UNKNOWN, OPEN };
#define ANSWERS    7
#define STORES_MAX 5

static const enum hf__request_kind kinds[] = { HF__REQUEST_CLAIM,   HF__REQUEST_INSPECT,
                                               HF__REQUEST_RENEW,   HF__REQUEST_DOWNGRADE,
                                               HF__REQUEST_RELEASE, HF__REQUEST_BREAK };
#define KINDS (sizeof(kinds) / sizeof(*kinds))

struct assignment {
    uint32_t stores;
    enum answer answers[STORES_MAX];
};

static uint32_t count_of(const struct assignment *assignment, enum answer answer)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < assignment->stores; i++)
        count += assignment->answers[i] == answer;
    return count;
}

static enum hf__verdict verdict_of(const struct assignment *assignment, enum hf__request_kind kind)
{
    struct hf__votes votes = {
        .stores = assignment->stores,
        .accepted = count_of(assignment, ACCEPTS),
        .low = count_of(assignment, LOW),
        .refused = count_of(assignment, REFUSES),
        .gone = count_of(assignment, GONE),
        .failed = count_of(assignment, FAILED),
        .unknown = count_of(assignment, UNKNOWN),
    };

    return hf__quorum_verdict(kind, &votes);
}

/* The assignment with this number, of all that there are; false: no such. */
static bool make(uint32_t stores, uint32_t number, struct assignment *out_assignment)
{
    out_assignment->stores = stores;
    for (uint32_t i = 0; i < stores; i++) {
        out_assignment->answers[i] = (enum answer)(number % ANSWERS);
        number /= ANSWERS;
    }
    return number == 0;
}

/* More than half, said without dividing. */
static bool is_majority(uint32_t count, uint32_t stores)
{
    return count + count > stores;
}

/* What stays open can no longer help. */
static bool out_of_reach(uint32_t count, const struct assignment *assignment)
{
    return !is_majority(count + count_of(assignment, OPEN), assignment->stores);
}

static bool holds(enum hf__request_kind kind)
{
    return kind == HF__REQUEST_INSPECT || kind == HF__REQUEST_RENEW ||
           kind == HF__REQUEST_DOWNGRADE;
}

static bool leaves(enum hf__request_kind kind)
{
    return kind == HF__REQUEST_RELEASE || kind == HF__REQUEST_BREAK;
}

#define FOR_ALL(assignment)                                                                        \
    for (uint32_t stores = 3; stores <= STORES_MAX; stores += 2)                                   \
        for (uint32_t number = 0; make(stores, number, &(assignment)); number++)

TEST(quorum, a_majority_is_more_than_half_and_two_always_meet)
{
    for (uint32_t stores = 1; stores <= HF_SERVERS_MAX; stores++) {
        uint32_t majority = hf__quorum_majority(stores);

        CHECK(is_majority(majority, stores));
        CHECK(!is_majority(majority - 1, stores));
        CHECK(majority + majority > stores && majority <= stores);
    }
    CHECK_ABORTS(hf__quorum_majority(0));
    CHECK_ABORTS(hf__quorum_majority(HF_SERVERS_MAX + 1));
}

TEST(quorum, a_claim_is_granted_when_a_majority_accepts_and_never_otherwise)
{
    struct assignment a;

    FOR_ALL(a)
    {
        bool granted = verdict_of(&a, HF__REQUEST_CLAIM) == HF__VERDICT_GRANTED;

        CHECK(granted == is_majority(count_of(&a, ACCEPTS), stores));
    }
}

TEST(quorum, a_higher_fence_is_proposed_only_to_a_majority_of_locks)
{
    struct assignment a;

    FOR_ALL(a)
    {
        uint32_t locked = count_of(&a, ACCEPTS) + count_of(&a, LOW);
        bool wanted = is_majority(locked, stores) && out_of_reach(count_of(&a, ACCEPTS), &a);

        CHECK((verdict_of(&a, HF__REQUEST_CLAIM) == HF__VERDICT_PROPOSE) == wanted);
    }
}

TEST(quorum, a_grant_is_kept_when_a_majority_says_so_and_never_otherwise)
{
    struct assignment a;

    FOR_ALL(a)
    {
        bool ours = is_majority(count_of(&a, ACCEPTS) + count_of(&a, LOW), stores);

        for (size_t k = 0; k < KINDS; k++) {
            if (holds(kinds[k]))
                CHECK((verdict_of(&a, kinds[k]) == HF__VERDICT_GRANTED) == ours);
        }
    }
}

/* Silence of any number of stores takes nothing away: only the clock may. */
TEST(quorum, a_grant_is_denied_when_a_majority_says_so_and_never_otherwise)
{
    struct assignment a;

    FOR_ALL(a)
    {
        bool denied = is_majority(count_of(&a, GONE) + count_of(&a, REFUSES), stores);

        for (size_t k = 0; k < KINDS; k++) {
            if (holds(kinds[k]) || leaves(kinds[k]))
                CHECK((verdict_of(&a, kinds[k]) == HF__VERDICT_GONE) == denied);
        }
    }
}

TEST(quorum, a_release_grants_proposes_and_refuses_nothing)
{
    struct assignment a;

    FOR_ALL(a)
    {
        for (size_t k = 0; k < KINDS; k++) {
            enum hf__verdict verdict = verdict_of(&a, kinds[k]);

            CHECK(!leaves(kinds[k]) ||
                  (verdict != HF__VERDICT_GRANTED && verdict != HF__VERDICT_PROPOSE &&
                   verdict != HF__VERDICT_REFUSED));
        }
    }
}

TEST(quorum, busy_is_said_only_if_a_store_said_so)
{
    struct assignment a;

    FOR_ALL(a)
    {
        uint32_t locked = count_of(&a, ACCEPTS) + count_of(&a, LOW);

        if (verdict_of(&a, HF__REQUEST_CLAIM) == HF__VERDICT_REFUSED)
            CHECK(count_of(&a, REFUSES) > 0 && out_of_reach(locked, &a));
    }
}

/* FAILED means: certainly not applied. One store that perhaps did it, or has not answered, is
 * enough to make that a lie for a release. */
TEST(quorum, failed_is_never_said_when_one_perhaps_did_it)
{
    struct assignment a;

    FOR_ALL(a)
    {
        for (size_t k = 0; k < KINDS; k++) {
            if (kinds[k] == HF__REQUEST_CLAIM || verdict_of(&a, kinds[k]) != HF__VERDICT_FAILED)
                continue;
            CHECK_EQUAL(count_of(&a, UNKNOWN), 0);
            CHECK(!leaves(kinds[k]) || count_of(&a, OPEN) == 0);
        }
    }
}

/* A minority has taken nothing, and the undo follows in either case; but who is silent may have
 * locked. */
TEST(quorum, a_claim_is_unknown_when_a_majority_perhaps_has_it_and_failed_otherwise)
{
    struct assignment a;

    FOR_ALL(a)
    {
        enum hf__verdict verdict = verdict_of(&a, HF__REQUEST_CLAIM);
        uint32_t perhaps =
            count_of(&a, ACCEPTS) + count_of(&a, LOW) + count_of(&a, UNKNOWN) + count_of(&a, OPEN);

        if (verdict == HF__VERDICT_UNKNOWN || verdict == HF__VERDICT_FAILED)
            CHECK((verdict == HF__VERDICT_UNKNOWN) == is_majority(perhaps, stores));
    }
}

TEST(quorum, unknown_is_never_said_when_all_have_answered_for_certain)
{
    struct assignment a;

    FOR_ALL(a)
    {
        bool certain = count_of(&a, UNKNOWN) == 0 && count_of(&a, OPEN) == 0;

        for (size_t k = 0; certain && k < KINDS; k++)
            CHECK(verdict_of(&a, kinds[k]) != HF__VERDICT_UNKNOWN);
    }
}

TEST(quorum, when_all_have_answered_it_is_decided)
{
    struct assignment a;

    FOR_ALL(a)
    {
        for (size_t k = 0; count_of(&a, OPEN) == 0 && k < KINDS; k++)
            CHECK(verdict_of(&a, kinds[k]) != HF__VERDICT_OPEN);
    }
}

/* Whatever the next store says: what was granted, and what was denied, stays so. */
TEST(quorum, a_verdict_is_not_taken_back_by_later_votes)
{
    struct assignment a;

    FOR_ALL(a)
    {
        for (uint32_t i = 0; i < stores; i++) {
            for (size_t k = 0; a.answers[i] == OPEN && k < KINDS; k++) {
                enum hf__verdict before = verdict_of(&a, kinds[k]);
                bool final = before == HF__VERDICT_GRANTED || before == HF__VERDICT_PROPOSE ||
                             before == HF__VERDICT_REFUSED ||
                             (before == HF__VERDICT_GONE && kinds[k] != HF__REQUEST_CLAIM);

                for (int later = ACCEPTS; final && later < OPEN; later++) {
                    struct assignment after = a;

                    after.answers[i] = (enum answer)later;
                    CHECK_EQUAL(verdict_of(&after, kinds[k]), before);
                }
            }
        }
    }
}

/* Some way of filling in the open stores with this answer leads to this verdict. */
static bool reaches(struct assignment assignment, enum hf__request_kind kind, enum answer filling,
                    enum hf__verdict verdict)
{
    for (uint32_t i = 0; i < assignment.stores; i++) {
        if (assignment.answers[i] == OPEN)
            assignment.answers[i] = filling;
    }
    return verdict_of(&assignment, kind) == verdict;
}

TEST(quorum, a_claim_stays_open_as_long_as_the_rest_could_grant_it)
{
    struct assignment a;

    FOR_ALL(a)
    {
        bool could = reaches(a, HF__REQUEST_CLAIM, ACCEPTS, HF__VERDICT_GRANTED) ||
                     reaches(a, HF__REQUEST_CLAIM, LOW, HF__VERDICT_PROPOSE);
        enum hf__verdict verdict = verdict_of(&a, HF__REQUEST_CLAIM);
        bool decided = verdict == HF__VERDICT_GRANTED || verdict == HF__VERDICT_PROPOSE;

        CHECK((verdict == HF__VERDICT_OPEN) == (could && !decided));
    }
}

TEST(quorum, more_answers_than_stores_are_refused)
{
    struct hf__votes votes = { .stores = 3, .accepted = 2, .unknown = 2 };

    CHECK_ABORTS(hf__quorum_verdict(HF__REQUEST_CLAIM, &votes));
}
