/* secret.c: which password lies in this file?
 *
 * The file has one line; what ends the line is not part of the password.
 *
 * What can go wrong: the file is missing, or not for us: the system's own words. It is no regular
 * file: reading could block, and a second time there would be nothing. Everybody on the machine may
 * read or write it: refused, as ssh does with keys, because nobody would notice otherwise; a group
 * may, for that is how a service is given a file of root's. It is empty, longer than a password can
 * be, or has more than a line: it is the wrong file. No text repeats anything of what it holds. */
#include "base/secret.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "holdfast/holdfast.h"

#define LINE_END_BYTES 2 /* CR LF */

static int check_file(int fd, const char *path, char *error)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return hf__error_set(error, HF_EURL, "password_file: '%s': %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return hf__error_set(error, HF_EURL, "password_file: '%s' is not a regular file", path);
    if (status.st_mode & S_IWOTH)
        return hf__error_set(error, HF_EURL,
                             "password_file: everybody may write '%s' (mode %04o; chmod o-w)", path,
                             (unsigned)(status.st_mode & 07777));
    return HF_OK;
}

/* How many bytes there are, up to `room`; -1: errno. */
static ssize_t read_all(int fd, char *bytes, size_t room)
{
    size_t count = 0;
    ssize_t got = 1;

    while (got > 0 && count < room) {
        got = read(fd, bytes + count, room - count);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            count += (size_t)got;
    }
    return got < 0 ? -1 : (ssize_t)count;
}

static size_t cut_line_end(const char *bytes, size_t count)
{
    if (count > 0 && bytes[count - 1] == '\n')
        count--;
    else
        return count;
    return count > 0 && bytes[count - 1] == '\r' ? count - 1 : count;
}

static bool is_one_line(const char *bytes, size_t count)
{
    return !memchr(bytes, '\n', count) && !memchr(bytes, '\r', count) &&
           !memchr(bytes, '\0', count);
}

static int read_secret(int fd, const char *path, char *out_secret, size_t secret_bytes_max,
                       char *error)
{
    char bytes[HF__SECRET_BYTES_MAX + LINE_END_BYTES + 1];
    ssize_t got = read_all(fd, bytes, sizeof(bytes));
    size_t count = got > 0 ? cut_line_end(bytes, (size_t)got) : 0;
    int status = HF_OK;

    if (got < 0)
        status = hf__error_set(error, HF_EURL, "password_file: '%s': %s", path, strerror(errno));
    else if (count == 0)
        status = hf__error_set(error, HF_EURL, "password_file: '%s' holds no password", path);
    else if (!is_one_line(bytes, count))
        status = hf__error_set(error, HF_EURL, "password_file: '%s' has more than one line", path);
    else if (count >= secret_bytes_max)
        status = hf__error_set(error, HF_EURL, "password_file: '%s': longer than %zu bytes", path,
                               secret_bytes_max - 1);
    if (status == HF_OK) {
        memcpy(out_secret, bytes, count);
        out_secret[count] = '\0';
    }
    explicit_bzero(bytes, sizeof(bytes));
    return status;
}

int hf__secret_read(const char *path, char *out_secret, size_t secret_bytes_max,
                    char error[HF__ERROR_BYTES])
{
    int fd;
    int status;

    assert(path && out_secret);
    assert(secret_bytes_max > 1 && secret_bytes_max <= HF__SECRET_BYTES_MAX + 1);

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return hf__error_set(error, HF_EURL, "password_file: '%s': %s", path, strerror(errno));
    status = check_file(fd, path, error);
    if (status == HF_OK)
        status = read_secret(fd, path, out_secret, secret_bytes_max, error);
    (void)close(fd);
    return status;
}

int hf__secret_of(const struct hf__url *url, char out_secret[HF__SECRET_BYTES_MAX + 1],
                  char error[HF__ERROR_BYTES])
{
    const char *path = hf__url_option(url, "password_file");

    if (path && *url->password)
        return hf__error_set(error, HF_EURL, "a password and password_file: which one is it?");
    if (path)
        return hf__secret_read(path, out_secret, HF__SECRET_BYTES_MAX + 1, error);
    (void)hf__text_copy(out_secret, HF__SECRET_BYTES_MAX + 1, url->password);
    return HF_OK;
}
