/* identity.c: which process is this?
 *
 * Pid, start time, pid namespace, and the sixteen random bytes that the kernel gives to every
 * program that it starts, hashed. A fork has another pid, an exec other bytes, a pid that is used
 * again another start time, and another namespace may use the same pid: so no two processes that
 * ever lived in this boot have the same. It needs no variable that all connections would share.
 *
 * What can go wrong: /proc is not mounted: start time and namespace are 0 then, which leaves enough
 * to tell processes apart. The random bytes guard the stack elsewhere, so they leave this file only
 * as a digest. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "engine/embedded/embedded.h"

#define START_FIELD 22 /* of /proc/self/stat, see proc(5) */

static uint64_t start_time(void)
{
    char text[512];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    const char *at;

    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

uint64_t hf__identity_pid_namespace(void)
{
    struct stat about;

    return stat("/proc/self/ns/pid", &about) ? 0 : (uint64_t)about.st_ino;
}

uint64_t hf__identity_make(void)
{
    struct {
        uint64_t pid;
        uint64_t start;
        uint64_t pid_namespace;
        uint8_t random[16];
    } facts;
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint8_t digest[32];
    uint64_t identity;

    memset(&facts, 0, sizeof(facts));
    facts.pid = (uint64_t)getpid();
    facts.start = start_time();
    facts.pid_namespace = hf__identity_pid_namespace();
    if (random)
        memcpy(facts.random, random, sizeof(facts.random));
    hf__sha256(&facts, sizeof(facts), digest);
    memcpy(&identity, digest, sizeof(identity));
    return identity ? identity : 1;
}
