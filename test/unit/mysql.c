/* mysql.c (unit): are the bytes of a MySQL server read as they are meant, and never beyond their
 * end?
 *
 * Proofs of passwords are compared with those that Python's hashlib gives. Answers are written here
 * as the protocol's documents have them, and read whole, cut short at every byte, and with every
 * byte changed. */
#include "engine/mysql/mysql.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

#define ANSWER_BYTES 512

TEST(mysql, a_password_is_proved_as_others_prove_it)
{
    static const struct {
        char letter;
        size_t count;
        const char *native;
        const char *sha2;
    } examples[] = {
        { 'x', 1, "d6735703ddb55a10a902fa57c33fe543b1f57040",
          "6de9055332ab03b0277f5c582964cf1404aff68d7b3c26f9aa6aa1f2caeae10d" },
        { 'a', 55, "3e39775550a32cd9f5f12f32745d27ec5132f43d",
          "9e9f5508a3984b28169a0ab6aee1f325dbe5813bb601203454ccd2cfb3a7f260" },
        { 'a', 56, "1ed416e469ef8273636c7697f6a2d8d544c11c30",
          "f196d6ca0d9e281a4f05bde5be5e7ad291a8cd268c13a426f7ac9e651981ee5b" },
        { 'b', 64, "1b368cde0ae28a51558493679de8473119b61c36",
          "cf1823e6922fed7baf146ca580a5870862b19b6f812e3955c2ea94bd18cfb3bc" },
        { 'c', 200, "71b6290e481043a2888208b0f9835cb377643230",
          "8b48d961a6bd1f70ff486e2de0b736173f9a8588e694ce271750212bb0dccdfe" },
    };
    uint8_t challenge[HF__MYSQL_SCRAMBLE];
    uint8_t proof[HF__MYSQL_PROOF_MAX];

    for (size_t i = 0; i < sizeof(challenge); i++)
        challenge[i] = (uint8_t)(i + 1);
    for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
        for (unsigned way = HF__SCRAMBLE_NATIVE; way < HF__SCRAMBLE_NONE; way++) {
            char password[256] = "";
            char hex[2 * HF__MYSQL_PROOF_MAX + 1] = "";
            size_t bytes;

            memset(password, examples[i].letter, examples[i].count);
            bytes = hf__scramble_prove((enum hf__scramble)way, password, challenge, proof);
            for (size_t k = 0; k < bytes; k++)
                (void)snprintf(hex + 2 * k, 3, "%02x", proof[k]);
            CHECK_TEXT(hex, way == HF__SCRAMBLE_NATIVE ? examples[i].native : examples[i].sha2);
        }
    }
    CHECK(hf__scramble_prove(HF__SCRAMBLE_NATIVE, "", challenge, proof) == 0);
    CHECK(hf__scramble_find("mysql_native_password", 21) == HF__SCRAMBLE_NATIVE);
    CHECK(hf__scramble_find("mysql_clear_password", 20) == HF__SCRAMBLE_NONE);
}

TEST(mysql, a_string_of_every_length_is_written_and_read_back)
{
    static const size_t counts[] = { 0, 1, 250, 251, 252, 65535, 65536, 100000 };
    struct hf__env env;
    struct hf__buffer buffer;
    static uint8_t bytes[100000];

    CHECK(hf__env_init(&env) == HF_OK);
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        struct hf__letter letter;
        struct hf__reading reading;
        const uint8_t *at;
        size_t count;

        hf__buffer_init(&buffer, &env, 1 << 20);
        memset(bytes, (int)i + 1, sizeof(bytes));
        hf__packet_begin(&letter, &buffer, 0);
        hf__packet_put_string(&letter, bytes, counts[i]);
        CHECK(hf__packet_end(&letter) == HF_OK);
        reading.at = hf__buffer_front(&buffer);
        reading.end = reading.at + hf__buffer_count(&buffer);
        reading.failed = false;
        CHECK(hf__packet_number(&reading, 3) == hf__buffer_count(&buffer) - 4);
        (void)hf__packet_number(&reading, 1);
        at = hf__packet_string(&reading, &count);
        CHECK(!reading.failed && reading.at == reading.end && count == counts[i]);
        CHECK(count == 0 || memcmp(at, bytes, count) == 0);
        hf__buffer_done(&buffer);
    }
    hf__env_done(&env);
}

/* --- answers --- */

struct answer {
    uint8_t bytes[ANSWER_BYTES];
    size_t count;
    uint8_t number;
};

static void put(struct answer *answer, const void *bytes, size_t count)
{
    const uint8_t head[] = { (uint8_t)count, (uint8_t)(count >> 8), 0, ++answer->number };

    CHECK(answer->count + sizeof(head) + count <= sizeof(answer->bytes));
    memcpy(answer->bytes + answer->count, head, sizeof(head));
    memcpy(answer->bytes + answer->count + sizeof(head), bytes, count);
    answer->count += sizeof(head) + count;
}

/* What a CALL is answered with: a column, a row with a text, and the procedure's own OK. */
static void put_call(struct answer *answer)
{
    put(answer, "\1", 1);
    put(answer, "\3def\0\0\0\1a\0\x0c\x3f\0\0\1\0\0\xfd\0\0\0\0\0", 23);
    put(answer, "\xfe\0\0\x0a\0", 5);
    put(answer, "\0\0\x0dgranted 256 0", 16);
    put(answer, "\xfe\0\0\x0a\0", 5);
    put(answer, "\0\0\0\2\0\0\0", 7);
}

static void begin(struct hf__cable *cable, const struct hf__env *env, const uint8_t *bytes,
                  size_t count)
{
    memset(cable, 0, sizeof(*cable));
    hf__buffer_init(&cable->input, env, HF__MYSQL_PACKET_MAX);
    hf__buffer_init(&cable->output, env, HF__MYSQL_PACKET_MAX);
    CHECK(count == 0 || hf__buffer_append(&cable->input, bytes, count) == HF_OK);
    cable->phase = HF__CABLE_UP;
    cable->sequence = HF__MYSQL_ANSWER;
}

static void end(struct hf__cable *cable)
{
    hf__buffer_done(&cable->input);
    hf__buffer_done(&cable->output);
}

TEST(mysql, the_answer_of_a_procedure_is_its_row_and_an_end)
{
    struct hf__env env;
    struct hf__cable cable;
    struct hf__result result;
    struct answer answer = { .count = 0 };
    const uint8_t *text;
    size_t bytes;

    CHECK(hf__env_init(&env) == HF_OK);
    put_call(&answer);
    begin(&cable, &env, answer.bytes, answer.count);
    hf__result_next(&cable, HF__RESULT_OF_EXECUTING, &result);
    CHECK(result.kind == HF__RESULT_ROW && result.columns == 1 && !result.is_last);
    text = hf__packet_string(&result.row, &bytes);
    CHECK(bytes == 13 && memcmp(text, "granted 256 0", bytes) == 0);
    hf__result_next(&cable, HF__RESULT_OF_EXECUTING, &result);
    CHECK(result.kind == HF__RESULT_OK && !result.is_last);
    hf__result_next(&cable, HF__RESULT_OF_EXECUTING, &result);
    CHECK(result.kind == HF__RESULT_OK && result.is_last && !result.in_transaction);
    hf__result_next(&cable, HF__RESULT_OF_EXECUTING, &result);
    CHECK(result.kind == HF__RESULT_NONE && cable.phase == HF__CABLE_UP);
    end(&cable);
    hf__env_done(&env);
}

/* Whatever comes, it ends, and nothing is read that is not there (the sanitizers look). */
static void read_all(const struct hf__env *env, const struct answer *answer, size_t count)
{
    for (unsigned form = HF__RESULT_OF_QUERY; form <= HF__RESULT_OF_EXECUTING; form++) {
        struct hf__cable cable;
        struct hf__result result;
        size_t bytes;
        unsigned results = 0;

        begin(&cable, env, answer->bytes, count);
        do {
            hf__result_next(&cable, (enum hf__result_form)form, &result);
            for (uint32_t i = 0; result.kind == HF__RESULT_ROW && i < result.columns; i++)
                (void)hf__packet_string(&result.row, &bytes);
            results++;
        } while (result.kind != HF__RESULT_NONE);
        CHECK(results <= ANSWER_BYTES);
        end(&cable);
    }
}

TEST(mysql, answers_that_are_cut_short_or_wrong_are_never_read_beyond)
{
    struct hf__env env;
    struct answer whole = { .count = 0 };

    CHECK(hf__env_init(&env) == HF_OK);
    put_call(&whole);
    put(&whole, "\xff\x15\x04#28000Access denied", 22);
    for (size_t count = 0; count <= whole.count; count++)
        read_all(&env, &whole, count);
    for (size_t at = 0; at < whole.count; at++) {
        for (unsigned value = 0; value < 256; value++) {
            struct answer changed = whole;

            changed.bytes[at] = (uint8_t)value;
            read_all(&env, &changed, changed.count);
        }
    }
    hf__env_done(&env);
}

TEST(mysql, an_error_has_its_number_and_its_words)
{
    struct hf__env env;
    struct hf__cable cable;
    struct hf__result result;
    struct answer answer = { .count = 0 };

    CHECK(hf__env_init(&env) == HF_OK);
    put(&answer, "\xff\x15\x04#28000Access denied", 22);
    begin(&cable, &env, answer.bytes, answer.count);
    hf__result_next(&cable, HF__RESULT_OF_QUERY, &result);
    CHECK(result.kind == HF__RESULT_ERROR && result.is_last && result.code == 1045);
    CHECK_TEXT(result.text, "Access denied");
    end(&cable);
    hf__env_done(&env);
}

/* A server that asks for a file of ours, or for one answer without end. */
TEST(mysql, a_server_that_asks_for_a_file_gets_none)
{
    struct hf__env env;
    struct hf__cable cable;
    struct hf__result result;
    struct answer answer = { .count = 0 };

    CHECK(hf__env_init(&env) == HF_OK);
    put(&answer, "\xfb/etc/passwd", 12);
    begin(&cable, &env, answer.bytes, answer.count);
    hf__result_next(&cable, HF__RESULT_OF_QUERY, &result);
    CHECK(result.kind == HF__RESULT_NONE && cable.phase == HF__CABLE_DOWN);
    CHECK(cable.status == HF_EPROTOCOL && hf__buffer_count(&cable.output) == 0);
    end(&cable);
    hf__env_done(&env);
}

/* --- signing in --- */

static void greet(struct hf__cable *cable, const struct hf__env *env, const struct hf__url *url)
{
    static const char hello[] = "\x0a"
                                "8.0.36\0"
                                "\7\0\0\0"
                                "abcdefgh\0"
                                "\xff\xf7"
                                "\x2d\2\0"
                                "\xff\xdf"
                                "\x15"
                                "\0\0\0\0\0\0\0\0\0\0"
                                "ijklmnopqrst\0"
                                "mysql_native_password";

    begin(cable, env, NULL, 0);
    cable->env = env;
    cable->url = url;
    cable->password = "secret";
    cable->phase = HF__CABLE_GREETED;
    hf__handshake_hear(cable, (const uint8_t *)hello, sizeof(hello));
    CHECK(cable->phase == HF__CABLE_SIGNING && cable->number == 7);
    CHECK_TEXT(cable->version, "8.0.36");
    CHECK(memcmp(cable->challenge, "abcdefghijklmnopqrst", HF__MYSQL_SCRAMBLE) == 0);
}

static bool holds(const struct hf__buffer *buffer, const char *text)
{
    return memmem(hf__buffer_front(buffer), hf__buffer_count(buffer), text, strlen(text)) != NULL;
}

TEST(mysql, a_way_to_sign_in_that_would_tell_the_password_is_refused)
{
    static const struct {
        const char *words;
        size_t count;
    } demands[] = {
        { "\xfe"
          "mysql_clear_password\0",
          22 },
        { "\xfe"
          "dialog\0",
          8 },
        { "\xfe", 1 },
    };
    struct hf__env env;
    struct hf__url url = { .user = "owner", .path = "/locks" };
    struct hf__cable cable;

    CHECK(hf__env_init(&env) == HF_OK);
    for (size_t i = 0; i < sizeof(demands) / sizeof(*demands); i++) {
        greet(&cable, &env, &url);
        hf__handshake_hear(&cable, (const uint8_t *)demands[i].words, demands[i].count);
        CHECK(cable.phase == HF__CABLE_DOWN && cable.status == HF_EDENIED);
        CHECK(!holds(&cable.output, "secret"));
        end(&cable);
    }
    greet(&cable, &env, &url); /* caching_sha2_password, and then the password itself */
    hf__handshake_hear(&cable,
                       (const uint8_t *)"\xfe"
                                        "caching_sha2_password\0"
                                        "ABCDEFGHIJKLMNOPQRST\0",
                       44);
    CHECK(cable.phase == HF__CABLE_SIGNING);
    hf__handshake_hear(&cable, (const uint8_t *)"\1\4", 2);
    CHECK(cable.phase == HF__CABLE_DOWN && cable.status == HF_EDENIED);
    CHECK(!holds(&cable.output, "secret"));
    end(&cable);
    hf__env_done(&env);
}

TEST(mysql, greetings_that_are_cut_short_or_wrong_are_never_read_beyond)
{
    static const char hello[] = "\x0a"
                                "8.0.36\0"
                                "\7\0\0\0"
                                "abcdefgh\0"
                                "\xff\xf7"
                                "\x2d\2\0"
                                "\xff\xdf"
                                "\x15"
                                "\0\0\0\0\0\0\0\0\0\0"
                                "ijklmnopqrst\0"
                                "mysql_native_password";
    struct hf__env env;
    struct hf__url url = { .user = "owner", .path = "/locks" };
    struct hf__cable cable;

    CHECK(hf__env_init(&env) == HF_OK);
    for (size_t at = 0; at < sizeof(hello); at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t changed[sizeof(hello)];

            memcpy(changed, hello, sizeof(hello));
            changed[at] = (uint8_t)value;
            begin(&cable, &env, NULL, 0);
            cable.url = &url;
            cable.password = "secret";
            cable.phase = HF__CABLE_GREETED;
            hf__handshake_hear(&cable, changed, value < sizeof(hello) ? value : sizeof(hello));
            CHECK(!holds(&cable.output, "secret"));
            end(&cable);
        }
    }
    hf__env_done(&env);
}
