/* name.c: has every name one form and every form one name? */
#include "base/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dice.h"
#include "holdfast/holdfast.h"

#define PAIRS 200000

struct form {
    char text[HF__NAME_ENCODED_BYTES];
    size_t length;
    bool hashed;
};

static struct form encode(const char *name, size_t name_bytes)
{
    struct form form;

    memset(&form, 0x55, sizeof(form));
    form.length = hf__name_encode(name, name_bytes, form.text, &form.hashed);
    CHECK(form.length < sizeof(form.text));
    CHECK_EQUAL(strlen(form.text), form.length);
    return form;
}

static void check_form(const char *name, const char *wanted)
{
    char back[HF_NAME_BYTES_MAX + 1];
    struct form form = encode(name, strlen(name));

    CHECK_TEXT(form.text, wanted);
    CHECK(!form.hashed);
    CHECK_EQUAL(hf__name_decode(form.text, form.length, back), strlen(name));
    CHECK_TEXT(back, name);
}

TEST(name, one_to_1024_bytes_are_a_name)
{
    char text[HF_NAME_BYTES_MAX + 2];

    for (size_t length = 0; length <= HF_NAME_BYTES_MAX + 1; length++) {
        bool fits = length >= 1 && length <= HF_NAME_BYTES_MAX;
        size_t bytes = 4711;

        memset(text, 'n', length);
        text[length] = '\0';
        CHECK_EQUAL(hf__name_check(text, &bytes), fits ? HF_OK : HF_ENAME);
        CHECK_EQUAL(bytes, fits ? length : 4711);
    }
}

/* The text has no end within the memory that it stands in: the sanitizer would see a byte more. */
TEST(name, no_byte_beyond_the_limit_is_looked_at)
{
    char *endless = malloc(HF_NAME_BYTES_MAX + 1);
    size_t bytes = 0;

    CHECK(endless);
    memset(endless, 'n', HF_NAME_BYTES_MAX + 1);
    CHECK_EQUAL(hf__name_check(endless, &bytes), HF_ENAME);
    free(endless);
}

TEST(name, plain_names_are_written_as_they_are)
{
    char longest[129];

    check_form("a", "a");
    check_form("A", "A");
    check_form("nightly-backup_2.x", "nightly-backup_2.x");
    check_form("...", "...");
    check_form(".hidden", ".hidden");
    check_form("-n", "-n");
    memset(longest, 'z', 128);
    longest[128] = '\0';
    check_form(longest, longest);
}

TEST(name, other_names_are_written_in_hex)
{
    check_form(".", "~x2e");
    check_form("..", "~x2e2e");
    check_form("a/b", "~x612f62");
    check_form("a ", "~x6120");
    check_form("~", "~x7e");
    check_form("~x61", "~x7e783631");
    check_form("{tag}", "~x7b7461677d");
    check_form("\xc3\xa9", "~xc3a9");
    check_form("e\xcc\x81", "~x65cc81");
    check_form("\x01\xff\n", "~x01ff0a");
}

TEST(name, every_byte_alone_has_a_form_of_its_own)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    for (int byte = 1; byte < 256; byte++) {
        char name[2] = { (char)byte, '\0' };
        char hex[8];

        (void)snprintf(hex, sizeof(hex), "~x%02x", (unsigned)byte);
        check_form(name, strchr(plain, byte) ? name : hex);
    }
}

TEST(name, the_form_goes_by_the_length)
{
    char name[HF_NAME_BYTES_MAX];
    char back[HF_NAME_BYTES_MAX + 1];

    memset(name, 'n', sizeof(name));
    for (size_t bytes = 1; bytes <= sizeof(name); bytes++) {
        struct form form = encode(name, bytes);
        size_t wanted = bytes <= 128 ? bytes : bytes <= 200 ? 2 + 2 * bytes : 66;

        CHECK_EQUAL(form.length, wanted);
        CHECK(form.hashed == (bytes > 200));
        CHECK_EQUAL(hf__name_decode(form.text, form.length, back), form.hashed ? 0 : bytes);
        CHECK(form.hashed || memcmp(back, name, bytes) == 0);
    }
    CHECK_TEXT(encode(name, 201).text,
               "~s291c4194382c6bd5c12b872660b0fb6d2316508d4632c9b289ed5928c2588b1b");
    CHECK_TEXT(encode(name, 1024).text,
               "~s3de86bf06f2b582df37e00296e87144bd2ef7e6d76660fa2fb3ba88c25200983");
}

TEST(name, no_form_needs_more_than_plain_bytes_and_a_tilde)
{
    struct dice dice = { 7 };

    for (int round = 0; round < 20000; round++) {
        char name[HF_NAME_BYTES_MAX];
        size_t bytes = 1 + dice_below(&dice, round % 2 ? sizeof(name) : 20);
        struct form form;

        for (size_t i = 0; i < bytes; i++)
            name[i] = (char)(1 + dice_below(&dice, 255));
        form = encode(name, bytes);
        CHECK_EQUAL(strspn(form.text + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_.-"),
                    form.length - 1);
        CHECK(strcmp(form.text, ".") != 0 && strcmp(form.text, "..") != 0);
    }
}

/* Names that differ in one thing that some store would not see, or that are forms of one another. */
TEST(name, names_that_look_alike_have_different_forms)
{
    const char *names[] = { "a",         "A",         "a ",  " a",    "a/b",       "a//b",
                            "a/b/",      "/a/b",      ".",   "..",    "...",       "\xc3\xa9",
                            "e\xcc\x81", "E\xcc\x81", "~",   "~x",    "~x61",      "~x2e",
                            "~s",        "~s61",      "a\n", "a\r\n", "a\t",       "a*",
                            "a?",        "a\\",       "{a}", "a:",    "zookeeper", "~xzz" };
    size_t count = sizeof(names) / sizeof(*names);

    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < a; b++)
            CHECK(strcmp(encode(names[a], strlen(names[a])).text,
                         encode(names[b], strlen(names[b])).text) != 0);
    }
}

/* Short names over few letters meet often; a copy with one change is the likeliest to be confused. */
static size_t change(struct dice *dice, const char *name, size_t bytes, char *out_other)
{
    const char *letters = "~xs2e6.-/ aA";
    size_t at = dice_below(dice, bytes);

    memcpy(out_other, name, bytes);
    if (dice_below(dice, 3) == 0 && bytes < HF_NAME_BYTES_MAX) {
        out_other[bytes] = letters[dice_below(dice, 12)];
        return bytes + 1;
    }
    out_other[at] = letters[dice_below(dice, 12)];
    return bytes;
}

TEST(name, different_names_have_different_forms)
{
    const char *letters = "~xs2e6.-/ aA";
    struct dice dice = { 11 };
    size_t different = 0;

    for (int pair = 0; pair < PAIRS; pair++) {
        char a[HF_NAME_BYTES_MAX], b[HF_NAME_BYTES_MAX + 1];
        size_t a_bytes = 1 + dice_below(&dice, pair % 10 ? 8 : pair % 100 ? 220 : sizeof(a));
        size_t b_bytes;
        struct form a_form, b_form;
        bool same;

        for (size_t i = 0; i < a_bytes; i++)
            a[i] = letters[dice_below(&dice, 12)];
        b_bytes = change(&dice, a, a_bytes, b);
        a_form = encode(a, a_bytes);
        b_form = encode(b, b_bytes);
        same = a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
        CHECK((strcmp(a_form.text, b_form.text) == 0) == same);
        different += !same;
    }
    CHECK(different > PAIRS / 2);
}

TEST(name, nothing_is_decoded_that_is_not_encoded_so)
{
    const char *forms[] = { "",      ".",     "..",    "a/b",    "~",      "~x",    "~x6",
                            "~x616", "~x61",  "~xAB",  "~x2F",   "~x2g",   "~x00",  "~x6100",
                            "~s",    "~s61",  "~y2f",  "~2f",    "x~2f",   "~x2e.", "a ",
                            "~X2f",  "~x 2f", "~x2f ", "~x-12f", "~x0x2f", "~~x2f" };
    char form[HF_NAME_BYTES_MAX];
    char back[HF_NAME_BYTES_MAX + 1];

    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        memset(back, '!', sizeof(back));
        CHECK_EQUAL(hf__name_decode(forms[i], strlen(forms[i]), back), 0);
        CHECK(back[0] == '!');
    }
    memset(form, 'z', sizeof(form));
    CHECK_EQUAL(hf__name_decode(form, 129, back), 0);
    memset(form, '2', sizeof(form));
    form[0] = '~';
    form[1] = 'x';
    CHECK_EQUAL(hf__name_decode(form, 2 + 2 * 200, back), 200); /* "\x22" 200 times */
    CHECK_EQUAL(hf__name_decode(form, 2 + 2 * 201, back), 0);
    CHECK_EQUAL(hf__name_decode("a\0b", 3, back), 0);
}

/* What can be decoded is exactly what encode writes: over random texts near the border. */
TEST(name, decode_undoes_encode_and_nothing_else)
{
    const char *letters = "~x0123456789abcdefA./-";
    struct dice dice = { 13 };
    size_t decoded = 0;

    for (int round = 0; round < PAIRS; round++) {
        char text[20], back[HF_NAME_BYTES_MAX + 1];
        size_t count = 1 + dice_below(&dice, sizeof(text) - 1);
        size_t bytes;

        for (size_t i = 0; i < count; i++)
            text[i] = letters[dice_below(&dice, 22)];
        if (count > 2 && round % 2) {
            text[0] = '~';
            text[1] = 'x';
        }
        bytes = hf__name_decode(text, count, back);
        if (bytes > 0) {
            struct form form = encode(back, bytes);

            CHECK(form.length == count && memcmp(form.text, text, count) == 0);
            CHECK(back[bytes] == '\0');
            decoded++;
        }
    }
    CHECK(decoded > PAIRS / 10);
}

TEST(name, a_name_with_nul_or_of_a_wrong_length_is_a_mistake)
{
    char text[HF__NAME_ENCODED_BYTES];
    char name[HF_NAME_BYTES_MAX + 1] = "a";
    bool hashed;

    CHECK_ABORTS(hf__name_encode(name, 2, text, &hashed));
    CHECK_ABORTS(hf__name_encode(name, 0, text, &hashed));
    memset(name, 'n', sizeof(name));
    CHECK_ABORTS(hf__name_encode(name, sizeof(name), text, &hashed));
}
