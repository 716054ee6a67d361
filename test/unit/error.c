/* error.c: has every status a name and a text, and do texts climb without harm? */
#include "base/error.h"

#include <ctype.h>
#include <string.h>

#include "check.h"
#include "holdfast/holdfast.h"

/* Without a default: whoever adds a status is sent here by the compiler, and to status.def. */
static const char *name_of(enum hf_status status)
{
    switch (status) {
#define STATUS(name, text)                                                                         \
    case name:                                                                                     \
        return #name;
#include "base/status.def"
#undef STATUS
    }
    return NULL;
}

TEST(error, every_status_has_a_name_and_a_text_of_its_own)
{
    for (int a = HF_ESYSTEM; a <= HF_PENDING; a++) {
        CHECK(name_of((enum hf_status)a));
        CHECK_TEXT(hf__error_name(a), name_of((enum hf_status)a));
        for (int b = HF_ESYSTEM; b < a; b++) {
            CHECK(strcmp(hf__error_name(a), hf__error_name(b)) != 0);
            CHECK(strcmp(hf__error_text(a), hf__error_text(b)) != 0);
        }
    }
    CHECK_TEXT(hf__error_name(HF_EBUSY), "HF_EBUSY");
    CHECK_TEXT(hf__error_text(HF_EBUSY), "held by others");
}

TEST(error, every_text_is_short_and_begins_in_lower_case)
{
    for (int status = HF_ESYSTEM; status <= HF_PENDING; status++) {
        const char *text = hf__error_text(status);

        CHECK(strlen(text) >= 5 && strlen(text) <= 72);
        CHECK(islower((unsigned char)text[0]));
        CHECK(text[strlen(text) - 1] != '.');
    }
}

TEST(error, a_status_that_is_none_says_so)
{
    const int strangers[] = { HF_PENDING + 1, HF_ESYSTEM - 1, 12345, -12345 };

    for (size_t i = 0; i < sizeof(strangers) / sizeof(*strangers); i++) {
        CHECK_TEXT(hf__error_name(strangers[i]), "HF_?");
        CHECK_TEXT(hf__error_text(strangers[i]), "unknown status");
    }
}

TEST(error, set_returns_the_status_it_was_given)
{
    char error[HF__ERROR_BYTES];

    for (int status = HF_ESYSTEM; status < HF_OK; status++)
        CHECK_EQUAL(hf__error_set(error, status, "number %d", status), status);
    CHECK_TEXT(error, "number -1");
}

TEST(error, a_text_is_prefixed_as_it_climbs)
{
    char error[HF__ERROR_BYTES];

    (void)hf__error_set(error, HF_EUNREACHABLE, "connection refused");
    (void)hf__error_set(error, HF_EUNREACHABLE, "connect to %s: %s", "10.0.0.5:2379", error);
    (void)hf__error_set(error, HF_EUNREACHABLE, "acquire '%s': %s", "jobs/42", error);
    CHECK_TEXT(error, "acquire 'jobs/42': connect to 10.0.0.5:2379: connection refused");
}

TEST(error, a_text_that_does_not_fit_is_cut_at_the_end)
{
    char guarded[HF__ERROR_BYTES + 1];

    for (int width = HF__ERROR_BYTES - 3; width < HF__ERROR_BYTES + 3; width++) {
        size_t length = width < HF__ERROR_BYTES ? (size_t)width : HF__ERROR_BYTES - 1;

        memset(guarded, '!', sizeof(guarded));
        (void)hf__error_set(guarded, HF_ESYSTEM, "%-*s", width, "begin");
        CHECK_EQUAL(strlen(guarded), length);
        CHECK_EQUAL(memcmp(guarded, "begin ", 6), 0);
        CHECK(guarded[HF__ERROR_BYTES] == '!');
    }
    for (int i = 0; i < 100; i++)
        (void)hf__error_set(guarded, HF_ESYSTEM, "layer: %s", guarded);
    CHECK_EQUAL(strlen(guarded), HF__ERROR_BYTES - 1);
}

TEST(error, success_is_not_a_failure)
{
    char error[HF__ERROR_BYTES];

    CHECK_ABORTS((void)hf__error_set(error, HF_OK, "fine"));
    CHECK_ABORTS((void)hf__error_set(error, HF_PENDING, "later"));
}
