/* epoch.c: which epoch may fences begin with?
 *
 * A fence is epoch << 40 | counter. The counters live in the table, which does not outlive a boot;
 * so every new table begins with a greater epoch, and the file `epoch` remembers it: one line with
 * the number and its check. It is written durably (beside, fsync, rename, fsync of the directory)
 * before the first fence of that epoch exists.
 *
 * What can go wrong. The file is missing: the hours since 2020 are a floor that only a restored
 * disk and a clock set back together can beat, and a table of this boot knows better still. The
 * file is damaged: HF_EINTEGRITY, never a guess. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/text.h"
#include "engine/embedded/death.h"
#include "engine/embedded/embedded.h"

#define LINE_BYTES 64
#define HEAD       "holdfast-epoch 1 "
#define YEAR_2020  1577836800ll
#define EPOCH_MAX  ((1ull << HF__EPOCH_BITS) - 1)

static void write_line(uint64_t epoch, char out_line[LINE_BYTES])
{
    uint8_t digest[32];
    int length = snprintf(out_line, LINE_BYTES, HEAD "%llu", (unsigned long long)epoch);

    assert(length > 0 && length < LINE_BYTES - 20);

    hf__sha256(out_line, (size_t)length, digest);
    (void)snprintf(out_line + length, (size_t)(LINE_BYTES - length),
                   " %02x%02x%02x%02x%02x%02x%02x%02x\n", digest[0], digest[1], digest[2],
                   digest[3], digest[4], digest[5], digest[6], digest[7]);
}

static int damaged(struct hf__embedded *conn)
{
    return hf__error_set(conn->base.error, HF_EINTEGRITY,
                         "%s/epoch: is damaged; restore it, or write a greater epoch than was ever "
                         "used (see holdfast(7))",
                         conn->table.path);
}

static bool parse_line(const char *line, uint64_t *out_epoch)
{
    char expected[LINE_BYTES];
    const char *number = line + strlen(HEAD);
    uint64_t epoch;

    if (strncmp(line, HEAD, strlen(HEAD)) != 0)
        return false;
    if (!hf__text_to_u64(number, strcspn(number, " "), &epoch) || epoch > EPOCH_MAX)
        return false;

    write_line(epoch, expected);
    if (strcmp(line, expected) != 0)
        return false;
    *out_epoch = epoch;
    return true;
}

int hf__epoch_read(struct hf__embedded *conn, uint64_t *out_epoch)
{
    char line[LINE_BYTES] = "";
    int fd = hf__directory_file(conn, "epoch", O_RDONLY, S_IFREG);
    ssize_t got;

    if (fd < 0 && errno == ENOENT) {
        *out_epoch = 0;
        return HF_OK;
    }
    if (fd < 0)
        return fd;

    got = read(fd, line, sizeof(line) - 1);
    close(fd);
    if (got < 0)
        return hf__error_set(conn->base.error, HF_ESYSTEM, "%s/epoch: cannot read it: %s",
                             conn->table.path, strerror(errno));
    line[got] = '\0';
    if (!parse_line(line, out_epoch))
        return damaged(conn);
    return HF_OK;
}

uint64_t hf__epoch_after(uint64_t epoch)
{
    long long seconds = (long long)time(NULL) - YEAR_2020;
    uint64_t hours = seconds > 0 ? (uint64_t)seconds / 3600 : 0;

    return epoch + 1 > hours ? epoch + 1 : hours;
}

static int cannot_write(struct hf__embedded *conn, int number)
{
    return hf__error_set(conn->base.error, HF_ESYSTEM, "%s/epoch: cannot write it: %s",
                         conn->table.path, strerror(number));
}

int hf__epoch_write(struct hf__embedded *conn, uint64_t epoch)
{
    int directory_fd = conn->table.directory_fd;
    char line[LINE_BYTES];
    size_t bytes;
    int fd;

    if (epoch > EPOCH_MAX)
        return hf__error_set(conn->base.error, HF_ELIMIT, "%s/epoch: the last epoch is used up",
                             conn->table.path);

    write_line(epoch, line);
    bytes = strlen(line);
    (void)unlinkat(directory_fd, "epoch.new", 0); /* of somebody who died here */
    fd = hf__directory_file(conn, "epoch.new", O_WRONLY | O_CREAT | O_EXCL, S_IFREG);
    if (fd < 0)
        return fd;

    hf__death_point("epoch begun");
    if (write(fd, line, bytes) != (ssize_t)bytes || fsync(fd)) {
        int number = errno ? errno : ENOSPC;

        close(fd);
        (void)unlinkat(directory_fd, "epoch.new", 0);
        return cannot_write(conn, number);
    }
    close(fd);
    hf__death_point("epoch written");
    if (renameat(directory_fd, "epoch.new", directory_fd, "epoch") || fsync(directory_fd))
        return cannot_write(conn, errno);
    hf__death_point("epoch renamed");
    return HF_OK;
}
