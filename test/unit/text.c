/* text.c: is text shown without harm, and are numbers read as they were meant? */
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dice.h"

TEST(text, copy_takes_what_fits_and_says_if_it_was_all)
{
    char buffer[8];

    for (size_t room = 1; room <= sizeof(buffer); room++) {
        memset(buffer, '!', sizeof(buffer));
        CHECK(hf__text_copy(buffer, room, "abcde") == (room > 5));
        CHECK_EQUAL(strlen(buffer), room > 5 ? 5 : room - 1);
        CHECK_EQUAL(memcmp(buffer, "abcde", strlen(buffer)), 0);
        for (size_t i = room; i < sizeof(buffer); i++)
            CHECK(buffer[i] == '!');
    }
    CHECK(hf__text_copy(buffer, 1, ""));
    CHECK_TEXT(buffer, "");
    CHECK_ABORTS(hf__text_copy(buffer, 0, ""));
}

static void check_escape(const char *bytes, size_t count, const char *wanted)
{
    char shown[256];

    CHECK_EQUAL(hf__text_escape(bytes, count, shown, sizeof(shown)), strlen(wanted));
    CHECK_TEXT(shown, wanted);
}

TEST(text, what_is_harmless_is_shown_as_it_is)
{
    check_escape("", 0, "");
    check_escape("jobs/42 'x' \"y\"", 15, "jobs/42 'x' \"y\"");
    check_escape("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\x92", 11,
                 "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\x92");
    check_escape("e\xcc\x81", 3, "e\xcc\x81");
}

TEST(text, what_a_terminal_would_obey_is_escaped)
{
    check_escape("\x1b[2J", 4, "\\x1b[2J");
    check_escape("a\nb\r\t\0c", 7, "a\\x0ab\\x0d\\x09\\x00c");
    check_escape("\x7f", 1, "\\x7f");
    check_escape("\xc2\x9b"
                 "2J",
                 4, "\\xc2\\x9b2J"); /* CSI in one character */
    check_escape("a\\x00", 5, "a\\x5cx00");
}

TEST(text, what_is_not_utf8_is_escaped)
{
    check_escape("\xff", 1, "\\xff");
    check_escape("\xc3", 1, "\\xc3");
    check_escape("\xc3z", 2, "\\xc3z");
    check_escape("\xe2\x82", 2, "\\xe2\\x82");
    check_escape("\xc0\xaf", 2, "\\xc0\\xaf");                   /* overlong slash */
    check_escape("\xe0\x80\xaf", 3, "\\xe0\\x80\\xaf");          /* and longer     */
    check_escape("\xed\xa0\x80", 3, "\\xed\\xa0\\x80");          /* a surrogate    */
    check_escape("\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80"); /* U+110000       */
}

static size_t encode_utf8(uint32_t point, char out_bytes[4])
{
    if (point < 0x80) {
        out_bytes[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out_bytes[0] = (char)(0xc0 | point >> 6);
        out_bytes[1] = (char)(0x80 | (point & 63));
        return 2;
    }
    if (point < 0x10000) {
        out_bytes[0] = (char)(0xe0 | point >> 12);
        out_bytes[1] = (char)(0x80 | (point >> 6 & 63));
        out_bytes[2] = (char)(0x80 | (point & 63));
        return 3;
    }
    out_bytes[0] = (char)(0xf0 | point >> 18);
    out_bytes[1] = (char)(0x80 | (point >> 12 & 63));
    out_bytes[2] = (char)(0x80 | (point >> 6 & 63));
    out_bytes[3] = (char)(0x80 | (point & 63));
    return 4;
}

TEST(text, every_character_is_shown_unless_it_controls)
{
    for (uint32_t point = 0; point <= 0x110010; point++) {
        bool is_control = point < 0x20 || (point >= 0x7f && point < 0xa0);
        bool is_surrogate = point >= 0xd800 && point < 0xe000;
        bool shown = !is_control && !is_surrogate && point != '\\' && point <= 0x10ffff;
        char bytes[4];
        size_t count = encode_utf8(point, bytes);
        char text[32];
        size_t length = (size_t)hf__text_escape(bytes, count, text, sizeof(text));

        if (length != (shown ? count : 4 * count) || (shown && memcmp(text, bytes, count) != 0))
            fail_msg("U+%04X is shown as %s", point, text);
    }
}

/* All sequences of two and of three bytes: as many are characters as there are characters. */
TEST(text, nothing_but_utf8_passes_for_utf8)
{
    size_t two = 0;
    size_t three = 0;

    for (uint32_t word = 0; word < 1 << 24; word++) {
        char bytes[3] = { (char)(word >> 16), (char)(word >> 8), (char)word };

        if (word < 1 << 16 && (word & 0x8000))
            two += hf__text_escape(bytes + 1, 2, NULL, 0) == 2;
        if ((word & 0xc00000) == 0xc00000 && (bytes[1] & 0x80) && (bytes[2] & 0x80))
            three += hf__text_escape(bytes, 3, NULL, 0) == 3;
    }
    CHECK_EQUAL(two, 0x800 - 0xa0);
    CHECK_EQUAL(three, 0x10000 - 0x800 - 0x800);
}

static int unescape(const char *text, char *out_bytes)
{
    int count = 0;

    while (*text) {
        unsigned value = (unsigned char)*text;
        bool is_escape = *text == '\\';

        if (is_escape && sscanf(text, "\\x%2x", &value) != 1)
            return -1;
        out_bytes[count++] = (char)value;
        text += is_escape ? 4 : 1;
    }
    return count;
}

TEST(text, what_is_shown_can_be_read_back)
{
    struct dice dice = { 5 };

    for (int round = 0; round < 20000; round++) {
        char bytes[40], text[161], again[161];
        size_t count = dice_below(&dice, sizeof(bytes) + 1);

        for (size_t i = 0; i < count; i++)
            bytes[i] = dice_below(&dice, 3) ? "\\x0\xc2\xe2\xf0\x80\x9b"[dice_below(&dice, 8)]
                                            : (char)dice_roll(&dice);
        CHECK(hf__text_escape(bytes, count, text, sizeof(text)) <= 160);
        for (const char *byte = text; *byte; byte++)
            CHECK((unsigned char)*byte >= ' ' && *byte != 0x7f);
        CHECK_EQUAL(unescape(text, again), count);
        CHECK_EQUAL(memcmp(again, bytes, count), 0);
    }
}

TEST(text, a_short_buffer_gets_whole_characters_and_the_full_length)
{
    const char *bytes = "a\n\xe2\x82\xac\\z";
    const char *wanted = "a\\x0a\xe2\x82\xac\\x5cz";
    const size_t cuts[] = { 0, 1, 5, 8, 12, 13 }; /* where a character ends */

    for (size_t room = 0; room <= strlen(wanted) + 2; room++) {
        char *text = malloc(room + 1);
        size_t cut = 0;

        CHECK(text);
        memset(text, '!', room + 1);
        for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++)
            cut = cuts[i] < room ? cuts[i] : cut;
        CHECK_EQUAL(hf__text_escape(bytes, strlen(bytes), text, room), strlen(wanted));
        if (room > 0) {
            CHECK_EQUAL(strlen(text), cut);
            CHECK_EQUAL(memcmp(text, wanted, cut), 0);
        }
        CHECK(text[room] == '!');
        free(text);
    }
}

TEST(text, numbers_are_read_up_to_the_greatest)
{
    uint64_t number = 0;
    char text[32];

    for (int bit = 0; bit < 64; bit++) {
        for (uint64_t around = 0; around < 3; around++) {
            uint64_t wanted = (1ull << bit) - 1 + around;

            (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)wanted);
            CHECK(hf__text_to_u64(text, strlen(text), &number));
            CHECK(number == wanted);
        }
    }
    CHECK(hf__text_to_u64("18446744073709551615", 20, &number) && number == UINT64_MAX);
    CHECK(hf__text_to_u64("0", 1, &number) && number == 0);
    CHECK(hf__text_to_u64("000000000000000000000000000007", 30, &number) && number == 7);
    CHECK(hf__text_to_u64("12ab", 2, &number) && number == 12);
}

TEST(text, numbers_are_written_as_they_are_read)
{
    for (int bit = 0; bit < 64; bit++) {
        for (uint64_t around = 0; around < 3; around++) {
            uint64_t wanted = (1ull << bit) - 1 + around;
            char text[HF__TEXT_U64_BYTES];
            uint64_t number = 0;

            CHECK(hf__text_to_u64(text, hf__text_from_u64(wanted, text), &number));
            CHECK(number == wanted);
        }
    }
    for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10) {
        char text[HF__TEXT_U64_BYTES + 1] = { 0 };
        char wanted[32];

        (void)snprintf(wanted, sizeof(wanted), "%llu", (unsigned long long)power);
        CHECK_EQUAL(hf__text_from_u64(power, text), strlen(wanted));
        CHECK_TEXT(text, wanted);
    }
}

TEST(text, what_is_not_a_number_is_refused_and_nothing_written)
{
    const char *refused[] = { "",
                              "-1",
                              "+1",
                              " 1",
                              "1 ",
                              "1.0",
                              "0x1",
                              "1e3",
                              "1,0",
                              "1\n",
                              "18446744073709551616",
                              "18446744073709551620",
                              "99999999999999999999",
                              "184467440737095516150",
                              "\xd9\xa1" };

    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        uint64_t number = 4711;

        CHECK(!hf__text_to_u64(refused[i], strlen(refused[i]), &number));
        CHECK_EQUAL(number, 4711);
    }
    for (int byte = 0; byte < 256; byte++) {
        char text[3] = { '1', (char)byte, '1' };
        uint64_t number = 0;

        CHECK(hf__text_to_u64(text, 3, &number) == (byte >= '0' && byte <= '9'));
    }
}

TEST(text, durations_mean_what_people_write)
{
    static const struct {
        const char *text;
        int64_t ms;
    } examples[] = {
        { "250ms", 250 },
        { "30s", 30000 },
        { "5m", 300000 },
        { "2h", 7200000 },
        { "7", 7000 },
        { "0", 0 },
        { "0ms", 0 },
        { "1.5s", 1500 },
        { "1.5", 1500 },
        { "0.25h", 900000 },
        { "0.5m", 30000 },
        { "1.001", 1001 },
        { "0.0001", 1 },
        { "0.1ms", 1 },
        { "1.0000000000001ms", 2 },
        { "1.0000000000000ms", 1 },
        { "0.999999999999", 1000 },
        { "0.0000000000000000001h", 1 },
        { "9223372036854775807ms", INT64_MAX },
        { "9223372036854775.807", INT64_MAX },
        { "2562047788015.2h", 9223372036854720000 },
        { "00012s", 12000 },
    };

    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
        int64_t ms = -1;

        CHECK(hf__text_to_duration_ms(examples[i].text, &ms));
        CHECK(ms == examples[i].ms);
    }
}

TEST(text, what_is_not_a_duration_is_refused_and_nothing_written)
{
    const char *refused[] = { "",
                              "s",
                              "ms",
                              ".5",
                              "1.",
                              "1.s",
                              "-1",
                              "+1s",
                              " 1s",
                              "1s ",
                              "1 s",
                              "1S",
                              "1d",
                              "1us",
                              "1.5.5",
                              "1e3s",
                              "1m30s",
                              "1,5s",
                              "infinity",
                              "0x10s",
                              "1mss",
                              "9223372036854775808ms",
                              "9223372036854775.808",
                              "9223372036854775807.1ms",
                              "2562047788015.3h",
                              "18446744073709551616ms",
                              "99999999999999999999h" };

    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        int64_t ms = 4711;

        bool taken = hf__text_to_duration_ms(refused[i], &ms);

        if (taken)
            print_message("'%s' was taken\n", refused[i]);
        CHECK(!taken);
        CHECK_EQUAL(ms, 4711);
    }
}

TEST(text, every_millisecond_is_read_as_itself_in_every_unit)
{
    for (int64_t wanted = 0; wanted < 100000; wanted++) {
        char text[64];
        int64_t ms = -1;

        (void)snprintf(text, sizeof(text), "%lldms", (long long)wanted);
        CHECK(hf__text_to_duration_ms(text, &ms) && ms == wanted);
        (void)snprintf(text, sizeof(text), "%lld.%03lld", (long long)(wanted / 1000),
                       (long long)(wanted % 1000));
        CHECK(hf__text_to_duration_ms(text, &ms) && ms == wanted);
        (void)snprintf(text, sizeof(text), "%lldm", (long long)wanted);
        CHECK(hf__text_to_duration_ms(text, &ms) && ms == wanted * 60000);
    }
}
