/* name_search.c: are names found again, by hash and by glob? */
#include "base/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dice.h"

#define NAMES      100000
#define BUCKETS    (1 << 16)
#define GLOB_BYTES 12

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Names as people make them, which differ in little. */
static size_t make_name(size_t number, char out_name[64])
{
    static const char *const forms[] = { "%zu", "job-%zu", "tenant/%zu/invoices", "%08zu",
                                         "orders-of-the-year-2024/customer/%zu" };

    return (size_t)snprintf(out_name, 64, forms[number % 5], number / 5);
}

TEST(name_hash, no_two_of_many_similar_names_collide)
{
    static uint64_t hashes[NAMES];

    for (uint64_t seed = 0; seed < 3; seed++) {
        for (size_t i = 0; i < NAMES; i++) {
            char name[64];
            size_t bytes = make_name(i, name);

            hashes[i] = hf__name_hash(name, bytes, seed);
        }
        qsort(hashes, NAMES, sizeof(*hashes), compare_hashes);
        for (size_t i = 1; i < NAMES; i++)
            CHECK(hashes[i - 1] != hashes[i]);
    }
}

/* A table takes some of the bits, low or high: with 1.5 names to a bucket, a fair hash leaves e^-1.5
 * = 22.3 % of the buckets empty. */
TEST(name_hash, names_spread_evenly_over_a_table)
{
    static bool taken[BUCKETS];

    for (unsigned shift = 0; shift <= 48; shift += 16) {
        size_t empty = 0;

        memset(taken, 0, sizeof(taken));
        for (size_t i = 0; i < NAMES; i++) {
            char name[64];
            size_t bytes = make_name(i, name);

            taken[hf__name_hash(name, bytes, 42) >> shift & (BUCKETS - 1)] = true;
        }
        for (size_t i = 0; i < BUCKETS; i++)
            empty += !taken[i];
        CHECK(empty > BUCKETS / 100 * 20 && empty < BUCKETS / 100 * 24);
    }
}

/* Each bit of the name turns about half of the bits of the hash. */
TEST(name_hash, every_bit_of_a_name_reaches_every_bit_of_the_hash)
{
    struct dice dice = { 17 };

    for (size_t bytes = 1; bytes <= 40; bytes++) {
        for (size_t bit = 0; bit < 8 * bytes; bit++) {
            unsigned turned[64] = { 0 };

            for (int round = 0; round < 200; round++) {
                uint64_t seed = dice_roll(&dice);
                uint64_t difference;
                char name[40];

                dice_fill(&dice, name, bytes);
                difference = hf__name_hash(name, bytes, seed);
                name[bit / 8] = (char)(name[bit / 8] ^ 1 << bit % 8);
                difference ^= hf__name_hash(name, bytes, seed);
                for (int i = 0; i < 64; i++)
                    turned[i] += difference >> i & 1;
            }
            for (int i = 0; i < 64; i++)
                CHECK(turned[i] > 50 && turned[i] < 150);
        }
    }
}

TEST(name_hash, goes_by_bytes_length_and_seed_and_by_nothing_else)
{
    char memory[64];

    for (size_t bytes = 0; bytes <= 40; bytes++) {
        uint64_t first = 0;

        for (size_t shift = 0; shift < 8; shift++) {
            memset(memory, (int)shift, sizeof(memory));
            memset(memory + shift, 'n', bytes);
            if (shift == 0)
                first = hf__name_hash(memory, bytes, 1);
            CHECK(hf__name_hash(memory + shift, bytes, 1) == first);
            CHECK(hf__name_hash(memory + shift, bytes, 2) != first);
            CHECK(hf__name_hash(memory + shift, bytes + 1, 1) != first);
        }
    }
    CHECK(hf__name_hash("a\0\0", 1, 0) != hf__name_hash("a\0\0", 2, 0));
}

static bool matches(const char *glob, const char *name)
{
    return hf__name_matches(glob, name, strlen(name));
}

TEST(name_glob, stars_and_question_marks_match_any_byte)
{
    CHECK(matches(NULL, "anything") && matches(NULL, ""));
    CHECK(matches("*", "") && matches("*", "a/b") && matches("**", "x"));
    CHECK(matches("jobs/*", "jobs/42") && matches("jobs/*", "jobs/"));
    CHECK(!matches("jobs/*", "jobs") && !matches("jobs/*", "xjobs/1"));
    CHECK(matches("a?c", "abc") && matches("a?c", "a/c") &&
          matches("a?c", "a\xff"
                         "c"));
    CHECK(!matches("a?c", "ac") && !matches("?", "") && !matches("?", "\xc3\xa9"));
    CHECK(matches("*b*", "abc") && matches("a*c*e", "abcde") && !matches("a*c*e", "abcd"));
    CHECK(matches("", "") && !matches("", "a"));
    CHECK(matches("[ab]", "[ab]") && !matches("[ab]", "a"));
    CHECK(hf__name_matches("a?b", "a\0b", 3));
    CHECK(!hf__name_matches("a", "a\0b", 3));
}

TEST(name_glob, a_backslash_makes_the_next_byte_literal)
{
    CHECK(matches("a\\*", "a*") && !matches("a\\*", "ab"));
    CHECK(matches("a\\?", "a?") && !matches("a\\?", "ab"));
    CHECK(matches("a\\\\b", "a\\b") && matches("\\a", "a") && !matches("\\a", "\\a"));
    CHECK(matches("a\\", "a\\") && !matches("a\\", "a"));
    CHECK(matches("*\\", "x\\") && matches("*\\**", "a*b") && !matches("*\\**", "ab"));
}

/* Slow and plain: can[i][j] says whether the first i elements match the first j bytes. */
static bool matches_by_table(const char *glob, const char *name)
{
    bool can[GLOB_BYTES + 1][GLOB_BYTES + 1] = { { true } };
    size_t name_bytes = strlen(name);
    size_t i = 0;

    for (; *glob; glob++, i++) {
        bool is_literal = *glob == '\\' && glob[1] != '\0';

        glob += is_literal;
        can[i + 1][0] = can[i][0] && *glob == '*' && !is_literal;
        for (size_t j = 0; j < name_bytes; j++) {
            if (*glob == '*' && !is_literal)
                can[i + 1][j + 1] = can[i][j + 1] || can[i + 1][j];
            else
                can[i + 1][j + 1] =
                    can[i][j] && ((*glob == '?' && !is_literal) || *glob == name[j]);
        }
    }
    return can[i][name_bytes];
}

static void draw_text(struct dice *dice, const char *letters, char out_text[GLOB_BYTES + 1])
{
    size_t length = dice_below(dice, GLOB_BYTES + 1);

    for (size_t i = 0; i < length; i++)
        out_text[i] = letters[dice_below(dice, strlen(letters))];
    out_text[length] = '\0';
}

TEST(name_glob, agrees_with_a_table_on_random_globs)
{
    struct dice dice = { 19 };
    size_t matched = 0;

    for (int round = 0; round < 500000; round++) {
        char glob[GLOB_BYTES + 1], name[GLOB_BYTES + 1];
        bool found;

        draw_text(&dice, round % 2 ? "ab**?" : "ab*?\\", glob);
        draw_text(&dice, round % 2 ? "ab" : "ab*?\\", name);
        found = matches(glob, name);
        if (found != matches_by_table(glob, name)) {
            print_message("glob '%s', name '%s'\n", glob, name);
            CHECK(!"agrees with a table");
        }
        matched += found;
    }
    CHECK(matched > 10000);
}

/* With recursion per star this would take longer than the universe; it must simply end. */
TEST(name_glob, many_stars_do_not_explode)
{
    char glob[2 * 500 + 2];
    char name[1024];

    for (size_t i = 0; i < 500; i++) {
        glob[2 * i] = '*';
        glob[2 * i + 1] = 'a';
    }
    glob[1000] = 'b';
    glob[1001] = '\0';
    memset(name, 'a', sizeof(name));
    CHECK(!hf__name_matches(glob, name, sizeof(name)));
    name[1023] = 'b';
    CHECK(hf__name_matches(glob, name, sizeof(name)));
}
