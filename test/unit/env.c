/* env.c: does the library get memory, chance and trace from where it should, and survive refusal? */
#include "base/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "failing_env.h"
#include "holdfast/holdfast.h"
#include "system.h"

#define DRAWS      100000
#define BLOCK_SIZE 4096

struct token {
    uint8_t bytes[16];
};

static int compare_tokens(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct token));
}

TEST(env, memory_is_zeroed_and_of_the_given_size)
{
    struct hf__env env;

    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    for (size_t bytes = 1; bytes <= 1 << 16; bytes *= 2) {
        char *memory = hf__env_new(&env, bytes);

        CHECK(memory);
        for (size_t i = 0; i < bytes; i++)
            CHECK(memory[i] == 0);
        memset(memory, 1, bytes);
        hf__env_free(&env, memory);
    }
    hf__env_free(&env, NULL);
    hf__env_done(&env);
}

TEST(env, a_text_is_copied_whole)
{
    struct failing_env world;
    char *copy;

    failing_env_init(&world, 2);
    copy = hf__env_copy_text(&world.env, "");
    CHECK_TEXT(copy, "");
    hf__env_free(&world.env, copy);
    CHECK(!hf__env_copy_text(&world.env, "no room"));
    copy = hf__env_copy_text(&world.env, "jobs/42");
    CHECK_TEXT(copy, "jobs/42");
    hf__env_free(&world.env, copy);
    CHECK_EQUAL(world.live, 0);
}

TEST(env, no_random_token_comes_twice)
{
    static struct token tokens[DRAWS];
    struct hf__env env;

    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    for (size_t i = 0; i < DRAWS; i++)
        hf__env_random(&env, &tokens[i], sizeof(tokens[i]));
    hf__env_done(&env);

    qsort(tokens, DRAWS, sizeof(*tokens), compare_tokens);
    for (size_t i = 1; i < DRAWS; i++)
        CHECK(compare_tokens(&tokens[i - 1], &tokens[i]) < 0);
}

TEST(env, a_token_does_not_cost_a_system_call)
{
    struct hf__env env;
    struct token token;

    system_as_usual();
    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    for (size_t i = 0; i < DRAWS; i++)
        hf__env_random(&env, &token, sizeof(token));
    CHECK(system_control.getrandom_calls <= DRAWS * sizeof(token) / BLOCK_SIZE + 1);
    hf__env_done(&env);
}

/* Every position of a request against the end of the block, and requests longer than a block. */
TEST(env, all_of_the_bytes_asked_for_are_random)
{
    static uint8_t bytes[3 * BLOCK_SIZE];
    static bool seen[sizeof(bytes)];
    struct hf__env env;
    size_t count = 1;

    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    hf__env_random(&env, bytes, 0);
    for (int i = 0; i < 40; i++) {
        count = count * 7 % sizeof(bytes) + 1;
        for (int round = 0; round < 8; round++) {
            memset(bytes, 0, sizeof(bytes));
            hf__env_random(&env, bytes, count);
            for (size_t at = 0; at < count; at++)
                seen[at] |= bytes[at] != 0;
            for (size_t at = count; at < sizeof(bytes); at++)
                CHECK(bytes[at] == 0);
        }
        for (size_t at = 0; at < count; at++)
            CHECK(seen[at]);
    }
    hf__env_done(&env);
}

TEST(env, random_numbers_survive_signals_and_short_answers)
{
    static struct token tokens[1000];
    struct hf__env env;

    system_as_usual();
    system_control.getrandom_at_most = 100;
    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    for (size_t i = 0; i < 1000; i++)
        hf__env_random(&env, &tokens[i], sizeof(tokens[i]));
    hf__env_done(&env);
    system_as_usual();

    qsort(tokens, 1000, sizeof(*tokens), compare_tokens);
    for (size_t i = 1; i < 1000; i++)
        CHECK(compare_tokens(&tokens[i - 1], &tokens[i]) < 0);
}

TEST(env, a_machine_without_random_numbers_is_refused)
{
    struct hf__env env;

    system_as_usual();
    system_control.getrandom_errno = ENOSYS;
    CHECK_EQUAL(hf__env_init(&env), HF_ESYSTEM);
    system_as_usual();
}

TEST(env, random_numbers_that_fail_later_end_the_program)
{
    uint8_t bytes[BLOCK_SIZE];
    struct hf__env env;

    system_as_usual();
    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    system_control.getrandom_errno = EIO;
    CHECK_ABORTS(hf__env_random(&env, bytes, sizeof(bytes)));
    system_as_usual();
    hf__env_done(&env);
}

TEST(env, no_memory_is_told)
{
    struct hf__env env;

    system_as_usual();
    system_control.calloc_refusals = 1;
    CHECK_EQUAL(hf__env_init(&env), HF_ENOMEM);
    CHECK_EQUAL(system_control.calloc_refusals, 0);
    CHECK_EQUAL(hf__env_init(&env), HF_OK);
    system_control.calloc_refusals = 1;
    CHECK(!hf__env_new(&env, 1));
    system_as_usual();
    hf__env_done(&env);
}

static void keep_line(void *context, const char *line)
{
    char *kept = context;

    CHECK(strlen(line) < 2000);
    memcpy(kept, line, strlen(line) + 1);
}

TEST(env, a_trace_line_arrives_formatted)
{
    char kept[2000] = "";
    struct hf__env env = { .trace = keep_line, .trace_context = kept };

    hf__trace(&env, "%s: %s -> %s, %d", "jobs/42", "asking", "held", 7);
    CHECK_TEXT(kept, "jobs/42: asking -> held, 7");
    hf__trace(&env, "plain");
    CHECK_TEXT(kept, "plain");
}

TEST(env, a_trace_line_cannot_forge_another_or_command_a_terminal)
{
    char kept[2000] = "";
    struct hf__env env = { .trace = keep_line, .trace_context = kept };

    hf__trace(&env, "a\nb\r\x1b[2J\x7f\tz \xc3\xa9");
    CHECK_TEXT(kept, "a?b??[2J??z \xc3\xa9");
}

TEST(env, a_long_trace_line_is_cut)
{
    char kept[2000] = "";
    struct hf__env env = { .trace = keep_line, .trace_context = kept };

    hf__trace(&env, "%*s", 5000, "x");
    CHECK_EQUAL(strlen(kept), 1023);
}

TEST(env, without_a_sink_nothing_is_formatted)
{
    struct hf__env env = { .trace = NULL };
    int evaluated = 0;

    hf__trace(&env, "%d", ++evaluated);
    CHECK_EQUAL(evaluated, 0);
}

static void count_and_forget(int **pointer)
{
    if (*pointer)
        ++**pointer;
}

static int *give(int *counter)
{
    HF__CLEANUP(count_and_forget) int *owned = counter;

    return HF__TAKE(owned);
}

static void keep(int *counter)
{
    HF__CLEANUP(count_and_forget) int *owned = counter;

    (void)owned;
}

TEST(env, what_is_taken_is_not_cleaned_up)
{
    int cleaned = 0;

    CHECK(give(&cleaned) == &cleaned);
    CHECK_EQUAL(cleaned, 0);
    keep(&cleaned);
    CHECK_EQUAL(cleaned, 1);
}

TEST(failing_env, refuses_the_nth_and_counts_what_lives)
{
    struct failing_env world;
    void *first, *third;

    failing_env_init(&world, 2);
    first = hf__env_new(&world.env, 1);
    CHECK(first && !hf__env_new(&world.env, 1));
    third = hf__env_new(&world.env, 1);
    CHECK(third);
    CHECK_EQUAL(world.allocations, 3);
    CHECK_EQUAL(world.refused, 1);
    CHECK_EQUAL(world.live, 2);
    hf__env_free(&world.env, first);
    hf__env_free(&world.env, third);
    hf__env_free(&world.env, NULL);
    CHECK_EQUAL(world.live, 0);

    failing_env_init(&world, 1);
    world.fail_later = true;
    CHECK(!hf__env_new(&world.env, 1) && !hf__env_new(&world.env, 1));
}

TEST(failing_env, chance_repeats_itself)
{
    struct failing_env world;
    struct token first, second, other;

    failing_env_init(&world, 0);
    hf__env_random(&world.env, &first, sizeof(first));
    hf__env_random(&world.env, &other, sizeof(other));
    failing_env_init(&world, 0);
    hf__env_random(&world.env, &second, sizeof(second));
    CHECK_EQUAL(compare_tokens(&first, &second), 0);
    CHECK(compare_tokens(&first, &other) != 0);
}
