/* secret.c: is the password of a file found, and a file that is not for it refused? */
#include "base/secret.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "holdfast/holdfast.h"

#define PATH_BYTES 256

/* A file of this content and mode, in a folder of its own. */
static void make_file(char path[PATH_BYTES], const void *bytes, size_t count, mode_t mode)
{
    const char *folder = getenv("TMPDIR");
    int fd;

    (void)snprintf(path, PATH_BYTES, "%s/secret-XXXXXX", folder ? folder : "/tmp");
    fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQUAL(write(fd, bytes, count), count);
    CHECK_EQUAL(fchmod(fd, mode), 0);
    CHECK_EQUAL(close(fd), 0);
}

static void check_read(const char *content, const char *wanted)
{
    char path[PATH_BYTES];
    char secret[HF__SECRET_BYTES_MAX + 1];
    char error[HF__ERROR_BYTES];

    make_file(path, content, strlen(content), 0600);
    CHECK_EQUAL(hf__secret_read(path, secret, sizeof(secret), error), HF_OK);
    CHECK_TEXT(secret, wanted);
    CHECK_EQUAL(unlink(path), 0);
}

static void check_refused(const void *bytes, size_t count, mode_t mode, const char *reason)
{
    char path[PATH_BYTES];
    char secret[HF__SECRET_BYTES_MAX + 1] = "untouched";
    char error[HF__ERROR_BYTES] = "";

    make_file(path, bytes, count, mode);
    CHECK_EQUAL(hf__secret_read(path, secret, sizeof(secret), error), HF_EURL);
    CHECK(strstr(error, reason));
    CHECK(strstr(error, path));
    CHECK(!strstr(error, "s3cret"));
    CHECK_TEXT(secret, "untouched");
    CHECK_EQUAL(unlink(path), 0);
}

TEST(secret, the_end_of_the_line_is_no_part_of_it)
{
    check_read("s3cret", "s3cret");
    check_read("s3cret\n", "s3cret");
    check_read("s3cret\r\n", "s3cret");
    check_read(" with blanks \n", " with blanks ");
    check_read("\xc3\xa9\t\x01\n", "\xc3\xa9\t\x01");
}

TEST(secret, the_longest_fits_and_one_more_byte_does_not)
{
    static const char *const endings[] = { "", "\n", "\r\n" };
    char line[HF__SECRET_BYTES_MAX + 3];
    char wanted[HF__SECRET_BYTES_MAX + 1];

    memset(wanted, 'x', sizeof(wanted));
    wanted[HF__SECRET_BYTES_MAX] = '\0';
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        (void)snprintf(line, sizeof(line), "%s%s", wanted, endings[i]);
        check_read(line, wanted);
    }
    memset(line, 'x', sizeof(line));
    check_refused(line, HF__SECRET_BYTES_MAX + 1, 0600, "longer than 255 bytes");
    check_refused(line, sizeof(line), 0600, "longer than 255 bytes");
}

TEST(secret, a_file_that_holds_none_is_refused)
{
    check_refused("", 0, 0600, "holds no password");
    check_refused("\n", 1, 0600, "holds no password");
    check_refused("\r\n", 2, 0600, "holds no password");
    check_refused("s3cret\ns3cret\n", 14, 0600, "more than one line");
    check_refused("s3cret\n\n", 8, 0600, "more than one line");
    check_refused("s3\0cret\n", 8, 0600, "more than one line");
}

TEST(secret, a_file_that_everybody_may_write_is_refused)
{
    check_refused("s3cret", 6, 0602, "everybody may write");
    check_refused("s3cret", 6, 0666, "mode 0666");
}

TEST(secret, a_group_may_read_it)
{
    char path[PATH_BYTES];
    char secret[HF__SECRET_BYTES_MAX + 1];
    char error[HF__ERROR_BYTES];

    make_file(path, "s3cret", 6, 0640);
    CHECK_EQUAL(hf__secret_read(path, secret, sizeof(secret), error), HF_OK);
    CHECK_EQUAL(unlink(path), 0);
}

TEST(secret, what_is_no_file_is_refused_and_not_waited_for)
{
    char path[PATH_BYTES];
    char secret[HF__SECRET_BYTES_MAX + 1];
    char error[HF__ERROR_BYTES];

    make_file(path, "", 0, 0600);
    CHECK_EQUAL(unlink(path), 0);
    CHECK_EQUAL(hf__secret_read(path, secret, sizeof(secret), error), HF_EURL);
    CHECK(strstr(error, "No such file or directory"));

    CHECK_EQUAL(mkfifo(path, 0600), 0);
    CHECK_EQUAL(hf__secret_read(path, secret, sizeof(secret), error), HF_EURL);
    CHECK(strstr(error, "is not a regular file"));
    CHECK_EQUAL(unlink(path), 0);

    CHECK_EQUAL(hf__secret_read("/", secret, sizeof(secret), error), HF_EURL);
    CHECK(strstr(error, "is not a regular file"));
}
