/* url_secret.c: does a password stay out of everything that is printed? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "check.h"
#include "dice.h"

static void check_shown(const char *text, const char *wanted)
{
    char shown[HF__URL_BYTES_MAX * 2];

    CHECK_EQUAL(hf__url_redacted(text, shown, sizeof(shown)), strlen(wanted));
    CHECK_TEXT(shown, wanted);
}

TEST(url_secret, a_url_is_shown_with_its_password_hidden)
{
    check_shown("redis://ann:s3cret@h:6379/7?recipe=set", "redis://ann:***@h:6379/7?recipe=set");
    check_shown("redis://:s3cret@h", "redis://:***@h");
    check_shown("redis://ann:@h", "redis://ann:***@h");
    check_shown("REDIS://a:b%40c:d@h1,h2", "REDIS://a:***@h1,h2");
}

TEST(url_secret, a_url_without_a_password_is_shown_whole)
{
    const char *texts[] = { "redis://h:6379",
                            "redis://ann@h:6379",
                            "redis://[::1]:80,h:90",
                            "file:/var/lib/holdfast",
                            "file:a@b:c",
                            "x://h?password_file=/etc/pw&cert_key=/etc/key",
                            "x://u@h/p:q?ca=a:b" };

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        check_shown(texts[i], texts[i]);
}

TEST(url_secret, what_is_no_url_is_hidden_up_to_its_last_at)
{
    check_shown("redis://ann:s3@cret@h", "***@h");
    check_shown("redis://ann:s3/cret@h:1/2", "***@h:1/2");
    check_shown("redis://ann:s3?cret@h", "***@h");
    check_shown("redis://ann:s3?cret=1@h", "***");
    check_shown("ann:s3cret@h", "***@h");
    check_shown("ann:s3cret@", "***@");
    check_shown("@", "***@");
    check_shown("file://ann:s3cret@h/dir", "***@h/dir");
    check_shown("redis://ann:s3cret@h:99999", "***@h:99999");
    check_shown("", "");
    check_shown("nonsense", "nonsense");
}

TEST(url_secret, what_stands_where_a_port_belongs_is_hidden)
{
    check_shown("redis://ann:s3cret", "redis://ann:***");
    check_shown("redis://ann:s3/cret?x", "redis://ann:***");
    check_shown("redis://h:1,ann:s3cret", "redis://h:1,ann:***");
    check_shown("redis://:", "redis://:***");
    check_shown("redis://h:123456", "redis://h:***");
    check_shown("redis://h:1?nonsense=1", "redis://h:1?nonsense=***");
    check_shown("redis://h:1,i:2/x:y", "redis://h:1,i:2/x:y");
}

TEST(url_secret, a_password_in_an_option_is_hidden_with_all_that_follows)
{
    check_shown("redis://h?password=s3&cret=1&ca=x", "redis://h?password=***");
    check_shown("redis://h?ca=x&password=s3cret", "redis://h?ca=x&password=***");
    check_shown("redis://h?s3cret", "redis://h?***");
    check_shown("redis://h?ca=x&s3cret&tls=off", "redis://h?ca=x&***");
    check_shown("redis://ann:s3@h?password=s3cret", "***@h?password=***");
    check_shown("redis://h?password=s3@cret", "***");
    check_shown("file:x?token=s3cret", "file:x?token=***");
}

TEST(url_secret, what_a_terminal_would_obey_is_not_shown)
{
    check_shown("x\x1b[2J\ny\x7f", "x?[2J?y?");
    check_shown("u:p@\x1b[2J", "***@?[2J");
}

TEST(url_secret, a_short_buffer_gets_the_beginning_and_the_full_length)
{
    const char *text = "redis://ann:s3cret@h:6379/7?recipe=set&password=x";
    char whole[100];
    int length = hf__url_redacted(text, whole, sizeof(whole));

    CHECK_EQUAL(length, strlen(whole));
    CHECK_EQUAL(hf__url_redacted(text, NULL, 0), length);
    for (size_t room = 1; room <= (size_t)length + 2; room++) {
        char *shown = malloc(room); /* the sanitizer watches its end */
        size_t kept = room <= (size_t)length ? room - 1 : (size_t)length;

        CHECK(shown);
        memset(shown, '!', room);
        CHECK_EQUAL(hf__url_redacted(text, shown, room), length);
        CHECK_EQUAL(strlen(shown), kept);
        CHECK_EQUAL(memcmp(shown, whole, kept), 0);
        free(shown);
    }
}

TEST(url_secret, a_very_long_text_is_shown_too)
{
    static char text[20000];
    char shown[8];

    memset(text, 'a', sizeof(text) - 1);
    CHECK_EQUAL(hf__url_redacted(text, shown, sizeof(shown)), sizeof(text) - 1);
    CHECK_TEXT(shown, "aaaaaaa");
    text[15000] = '@';
    CHECK_EQUAL(hf__url_redacted(text, shown, sizeof(shown)), sizeof(text) - 1 - 15000 + 3);
    CHECK_TEXT(shown, "***@aaa");
}

/* A password of Qs and of whatever breaks a URL; nothing else in the text has a Q. */
static void draw_secret(struct dice *dice, char *out_text, size_t out_bytes_max)
{
    const char *odd = "@@//??::&&==%%%[],#\\ \t\n\x7f~4025";
    size_t length = 1 + dice_below(dice, out_bytes_max - 1);

    for (size_t i = 0; i < length; i++)
        out_text[i] = dice_below(dice, 2) ? 'Q' : odd[dice_below(dice, strlen(odd))];
    out_text[length] = '\0';
}

TEST(url_secret, no_text_ever_shows_a_byte_of_the_password)
{
    const char *forms[] = { "redis://ann:%s@h:6379/7?recipe=set",
                            "redis://:%s@h",
                            "redis://ann:%s@h?nonsense=1",
                            "x://ann:%s@[::1]:1,h2:0",
                            "an_n:%s@h",
                            "redis:ann:%s@h",
                            "redis:/ann:%s@h/",
                            "//ann:%s@h",
                            "redis://h?password=%s@h",
                            "x://h/p?password=%s" };
    struct dice dice = { 23 };
    size_t taken = 0;

    for (int round = 0; round < 300000; round++) {
        char error[HF__ERROR_BYTES] = "";
        char secret[16], text[128], shown[256];
        struct hf__url url;

        draw_secret(&dice, secret, sizeof(secret));
        (void)snprintf(text, sizeof(text), forms[round % 10], secret);
        taken += hf__url_parse(text, &url, error) == HF_OK;
        (void)hf__url_redacted(text, shown, sizeof(shown));
        if (strchr(error, 'Q') || strchr(shown, 'Q'))
            print_message("%s\n  says:  %s\n  shows: %s\n", text, error, shown);
        CHECK(!strchr(error, 'Q'));
        CHECK(!strchr(shown, 'Q'));
    }
    CHECK(taken > 1000);
}
