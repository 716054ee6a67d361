/* places.c: directories where locks may live, and those where they may not; each refusal says why.
 *
 * What needs another user or a file system of its own is tried as root, in a process that becomes
 * nobody or has a mount namespace of its own, and left out otherwise. */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "world.h"

#define NOBODY 65534

static bool is_root(void)
{
    if (geteuid() == 0)
        return true;
    printf("  (left out: it takes root)\n");
    return false;
}

static void inside(const struct world *world, const char *name, char out_path[256])
{
    (void)snprintf(out_path, 256, "%s/%s", world->directory, name);
}

/* What open() says of it: the status, and a word that its text must have. */
static void check_refused(const char *directory, int wanted, const char *word)
{
    struct world world;
    struct mate mate;
    int status;

    world_make_at(&world, directory);
    status = mate_open(&mate, &world, "test");
    if (status != wanted || !strstr(mate.conn->error, word))
        printf("  %s: %d %s\n", directory, status, mate.conn->error);
    CHECK_EQUAL(status, wanted);
    CHECK(strstr(mate.conn->error, word) != NULL);
    CHECK(strstr(mate.conn->error, directory) != NULL);
    mate_close(&mate);
    hf__env_done(&world.env);
}

static void check_works(const char *directory)
{
    struct world world;
    struct mate mate;
    struct stub stub;
    int status;

    world_make_at(&world, directory);
    status = mate_open(&mate, &world, "test");
    if (status < 0)
        printf("  %s: %d %s\n", directory, status, mate.conn->error);
    CHECK_EQUAL(status, HF_OK);
    CHECK_EQUAL(mate_claim(&mate, "a", NULL, &stub).kind, HF__REPLY_GRANTED);
    mate_close(&mate);
    hf__env_done(&world.env);
}

static void remove_all(const char *directory)
{
    struct world world;

    world_make_at(&world, directory);
    world_end(&world);
}

TEST(places, a_missing_directory_is_made_for_us_alone)
{
    struct world world;
    struct stat about;
    char path[256];

    world_make(&world);
    inside(&world, "new", path);
    check_works(path);
    CHECK_EQUAL(stat(path, &about), 0);
    CHECK_EQUAL(about.st_mode & 07777, 0700);
    inside(&world, "new/table", path);
    CHECK_EQUAL(stat(path, &about), 0);
    CHECK_EQUAL(about.st_mode & 07777, 0600);
    inside(&world, "new", path);
    remove_all(path);
    inside(&world, "no/such/parent", path);
    check_refused(path, HF_ESYSTEM, "cannot make the directory");
    world_end(&world);
}

TEST(places, a_link_is_refused_also_with_a_slash_behind_it)
{
    struct world world;
    char real[256];
    char link[256];
    char with_slash[300];

    world_make(&world);
    inside(&world, "real", real);
    inside(&world, "link", link);
    CHECK_EQUAL(mkdir(real, 0700), 0);
    CHECK_EQUAL(symlink(real, link), 0);
    check_refused(link, HF_EDENIED, "symbolic link");
    (void)snprintf(with_slash, sizeof(with_slash), "%s//", real);
    {
        struct world slashed;
        struct mate mate;

        world_make_at(&slashed, with_slash);
        CHECK_EQUAL(mate_open(&mate, &slashed, "test"), HF_OK);
        mate_close(&mate);
        hf__env_done(&slashed.env);
        (void)snprintf(with_slash, sizeof(with_slash), "%s/", link);
        world_make_at(&slashed, with_slash);
        CHECK_EQUAL(mate_open(&mate, &slashed, "test"), HF_EDENIED);
        mate_close(&mate);
        hf__env_done(&slashed.env);
    }
    remove_all(real);
    world_end(&world);
}

TEST(places, what_is_no_directory_is_refused)
{
    struct world world;
    char path[256];
    FILE *file;

    world_make(&world);
    inside(&world, "file", path);
    file = fopen(path, "w");
    CHECK(file);
    (void)fclose(file);
    check_refused(path, HF_EURL, "not a directory");
    world_end(&world);
}

TEST(places, a_directory_for_everybody_is_refused)
{
    struct world world;

    world_make(&world);
    CHECK_EQUAL(chmod(world.directory, 0777), 0);
    check_refused(world.directory, HF_EDENIED, "everybody may write");
    CHECK_EQUAL(chmod(world.directory, 01777), 0);
    check_refused(world.directory, HF_EDENIED, "everybody may write");
    CHECK_EQUAL(chmod(world.directory, 0770), 0);
    check_refused(world.directory, HF_EDENIED, "not setgid");
    CHECK_EQUAL(chmod(world.directory, 0755), 0);
    check_works(world.directory);
    world_end(&world);
}

TEST(places, files_that_are_not_ours_to_trust_are_refused)
{
    struct world world;
    char table[256];
    char other[256];

    world_make(&world);
    check_works(world.directory);
    inside(&world, "table", table);
    inside(&world, "other", other);

    CHECK_EQUAL(chmod(table, 0644), 0);
    check_refused(world.directory, HF_EDENIED, "open to more users");
    CHECK_EQUAL(chmod(table, 0600), 0);
    CHECK_EQUAL(link(table, other), 0);
    check_refused(world.directory, HF_EDENIED, "hard link");
    CHECK_EQUAL(unlink(other), 0);
    CHECK_EQUAL(rename(table, other), 0);
    CHECK_EQUAL(symlink(other, table), 0);
    check_refused(world.directory, HF_EDENIED, "symbolic link");
    CHECK_EQUAL(unlink(table), 0);
    CHECK_EQUAL(mkfifo(table, 0600), 0);
    check_refused(world.directory, HF_EDENIED, "not a file of the kind");
    CHECK_EQUAL(unlink(table), 0);
    CHECK_EQUAL(mkdir(table, 0700), 0);
    check_refused(world.directory, HF_EDENIED, "not a file of the kind");
    CHECK_EQUAL(rmdir(table), 0);
    CHECK_EQUAL(rename(other, table), 0);
    check_works(world.directory);
    inside(&world, "init.lock", table);
    CHECK_EQUAL(unlink(table), 0);
    CHECK_EQUAL(symlink("/etc/passwd", table), 0);
    check_refused(world.directory, HF_EDENIED, "symbolic link");
    world_end(&world);
}

TEST(places, options_of_other_engines_are_refused)
{
    struct world world;
    struct mate mate;
    char text[300];
    char error[HF__ERROR_BYTES];

    world_make(&world);
    (void)snprintf(text, sizeof(text), "file:%s?prefix=a", world.directory);
    CHECK_EQUAL(hf__url_parse(text, &world.url, error), HF_OK);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_EURL);
    CHECK(strstr(mate.conn->error, "prefix") != NULL);
    mate_close(&mate);
    (void)snprintf(text, sizeof(text), "file:%s?recipe=queue", world.directory);
    CHECK_EQUAL(hf__url_parse(text, &world.url, error), HF_OK);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    mate_close(&mate);
    world_end(&world);
}

/* --- in a process of its own --- */

/* Runs `body` in a child, which may change what it likes; a CHECK cannot stand in there. */
static int in_child(int (*body)(const char *directory), const char *directory)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0)
        _exit(body(directory));
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* 0 if open() answers that, with that word in its text. */
static int answers(const char *directory, int wanted, const char *word)
{
    struct world world;
    struct mate mate;
    int status;

    world_make_at(&world, directory);
    status = mate_open(&mate, &world, "test");
    if (status != wanted || (status < 0 && !strstr(mate.conn->error, word))) {
        printf("  %s: %d %s\n", directory, status, mate.conn->error);
        return 1;
    }
    mate_close(&mate);
    return 0;
}

static int become_nobody(void)
{
    return setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY);
}

static int refused_as_nobody(const char *directory)
{
    return become_nobody() ? 2 : answers(directory, HF_EDENIED, "");
}

static int foreign_as_root(const char *directory)
{
    return answers(directory, HF_EDENIED, "belongs to user");
}

TEST(places, another_users_directory_is_refused)
{
    struct world world;

    if (!is_root())
        return;
    world_make(&world);
    CHECK_EQUAL(in_child(refused_as_nobody, world.directory), 0); /* 0700, root's */
    CHECK_EQUAL(chmod(world.directory, 0755), 0);
    CHECK_EQUAL(in_child(refused_as_nobody, world.directory), 0); /* may look, not write */
    CHECK_EQUAL(chown(world.directory, NOBODY, NOBODY), 0);
    CHECK_EQUAL(in_child(foreign_as_root, world.directory), 0);
    world_end(&world);
}

static int open_as_member(const char *directory)
{
    gid_t groups[] = { 12345 };

    if (setgroups(1, groups) || setgid(NOBODY) || setuid(NOBODY))
        return 2;
    umask(077); /* must not shut the others out */
    return answers(directory, HF_OK, "");
}

static int open_as_root(const char *directory)
{
    umask(077);
    return answers(directory, HF_OK, "");
}

TEST(places, a_directory_for_a_group_is_shared_by_its_members)
{
    struct world world;
    struct stat about;
    struct mate mate;
    struct stub stub;
    char path[256];

    if (!is_root())
        return;
    for (int member_first = 0; member_first < 2; member_first++) {
        world_make(&world);
        CHECK_EQUAL(chown(world.directory, 0, 12345), 0);
        CHECK_EQUAL(chmod(world.directory, 02770), 0);
        CHECK_EQUAL(in_child(member_first ? open_as_member : open_as_root, world.directory), 0);
        CHECK_EQUAL(in_child(member_first ? open_as_root : open_as_member, world.directory), 0);
        inside(&world, "table", path);
        CHECK_EQUAL(stat(path, &about), 0);
        CHECK_EQUAL(about.st_mode & 07777, 0660);
        CHECK_EQUAL(about.st_gid, 12345);
        CHECK_EQUAL(in_child(refused_as_nobody, world.directory), 0); /* no member */
        CHECK_EQUAL(mate_open(&mate, &world, "root"), HF_OK);
        CHECK_EQUAL(mate_claim(&mate, "a", NULL, &stub).kind, HF__REPLY_GRANTED);
        CHECK_EQUAL(mate_remains(&mate).sessions, 1); /* the others are dead, and swept */
        mate_close(&mate);
        world_end(&world);
    }
}

/* --- the defaults --- */

static int open_default(struct mate *mate, struct world *world)
{
    char error[HF__ERROR_BYTES];

    memset(world, 0, sizeof(*world));
    if (hf__env_init(&world->env) < 0 || hf__url_parse("file:", &world->url, error) < 0)
        return -1000;
    return mate_open(mate, world, "test");
}

static int default_as_nobody(const char *directory)
{
    struct world world;
    struct mate mate;
    char path[300];
    struct stat about;

    if (become_nobody())
        return 2;
    (void)unsetenv("XDG_STATE_HOME");
    (void)setenv("HOME", directory, 1);
    if (open_default(&mate, &world) != HF_OK)
        return 3;
    (void)snprintf(path, sizeof(path), "%s/.local/state/holdfast", directory);
    if (stat(path, &about) || (about.st_mode & 07777) != 0700)
        return 4;
    mate_close(&mate);
    (void)snprintf(path, sizeof(path), "%s/state", directory);
    (void)setenv("XDG_STATE_HOME", path, 1);
    if (open_default(&mate, &world) != HF_OK)
        return 5;
    (void)snprintf(path, sizeof(path), "%s/state/holdfast", directory);
    if (stat(path, &about) || (about.st_mode & 07777) != 0700)
        return 6;
    mate_close(&mate);
    (void)unsetenv("XDG_STATE_HOME");
    (void)unsetenv("HOME");
    if (open_default(&mate, &world) != HF_EURL || !strstr(mate.conn->error, "XDG_STATE_HOME"))
        return 7;
    return 0;
}

TEST(places, the_default_directory_follows_the_user)
{
    struct world world;
    char command[300];

    if (!is_root())
        return;
    world_make(&world);
    CHECK_EQUAL(chown(world.directory, NOBODY, NOBODY), 0);
    CHECK_EQUAL(in_child(default_as_nobody, world.directory), 0);
    (void)snprintf(command, sizeof(command), "%s/.local/state/holdfast", world.directory);
    remove_all(command);
    (void)snprintf(command, sizeof(command), "%s/.local/state", world.directory);
    remove_all(command);
    (void)snprintf(command, sizeof(command), "%s/.local", world.directory);
    remove_all(command);
    (void)snprintf(command, sizeof(command), "%s/state/holdfast", world.directory);
    remove_all(command);
    (void)snprintf(command, sizeof(command), "%s/state", world.directory);
    remove_all(command);
    world_end(&world);
}

/* --- file systems --- */

static int mount_tmpfs(const char *directory, const char *options)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return 2;
    return mount("tmpfs", directory, "tmpfs", 0, options) ? 3 : 0;
}

static int read_only(const char *directory)
{
    int failed = mount_tmpfs(directory, "mode=0700");

    if (failed)
        return failed;
    if (answers(directory, HF_OK, "")) /* with a table, and without one below */
        return 4;
    if (mount("tmpfs", directory, "tmpfs", MS_REMOUNT | MS_RDONLY, "mode=0700"))
        return 5;
    return answers(directory, HF_ESYSTEM, "Read-only file system");
}

static int read_only_and_empty(const char *directory)
{
    int failed = mount_tmpfs(directory, "mode=0700");

    if (failed || mount("tmpfs", directory, "tmpfs", MS_REMOUNT | MS_RDONLY, "mode=0700"))
        return 5;
    return answers(directory, HF_ESYSTEM, "Read-only file system");
}

static int full_from_the_beginning(const char *directory)
{
    int failed = mount_tmpfs(directory, "mode=0700,size=256k");

    return failed ? failed : answers(directory, HF_ESYSTEM, "No space left");
}

/* It becomes full while it is used: that is an error, and never SIGBUS. */
static int full_later(const char *directory)
{
    struct world world;
    struct mate mate;
    struct stub stub;
    int failed = mount_tmpfs(directory, "mode=0700,size=4m");
    bool was_refused = false;
    char name[200];

    if (failed)
        return failed;
    world_make_at(&world, directory);
    if (mate_open(&mate, &world, "test") < 0)
        return 4;
    for (uint32_t i = 0; i < 30000; i++) {
        struct world_reply reply;

        (void)snprintf(name, sizeof(name), "%s%0150u", "long/", i);
        reply = mate_claim(&mate, name, NULL, &stub);
        if ((int)reply.kind == -1) {
            was_refused = reply.status == HF_ESYSTEM && strstr(mate.conn->error, "No space left");
            break;
        }
    }
    if (!was_refused)
        return 5;
    if (mate_claim(&mate, "short", NULL, &stub).kind != HF__REPLY_GRANTED) /* has room still */
        return 6;
    mate_close(&mate);
    return 0;
}

static int withheld_on_tmpfs(const char *directory)
{
    struct world world;
    struct mate mate;
    int failed = mount_tmpfs(directory, "mode=0700");

    if (failed)
        return failed;
    world_make_at(&world, directory);
    if (mate_open(&mate, &world, "test") < 0)
        return 4;
    if (mate.conn->promises & (HF_PROMISE_DURABLE | HF_PROMISE_FENCE))
        return 5;
    return (mate.conn->promises & HF_PROMISE_CRASH) ? 0 : 6;
}

TEST(places, read_only_full_and_volatile_file_systems)
{
    struct world world;
    struct mate mate;

    world_make(&world);
    CHECK_EQUAL(mate_open(&mate, &world, "test"), HF_OK);
    CHECK_EQUAL(mate.conn->promises, mate.conn->recipe->promises);
    mate_close(&mate);
    if (is_root()) {
        CHECK_EQUAL(in_child(read_only, world.directory), 0);
        CHECK_EQUAL(in_child(read_only_and_empty, world.directory), 0);
        CHECK_EQUAL(in_child(full_from_the_beginning, world.directory), 0);
        CHECK_EQUAL(in_child(full_later, world.directory), 0);
        CHECK_EQUAL(in_child(withheld_on_tmpfs, world.directory), 0);
    }
    world_end(&world);
}

static int too_small_a_file_limit(const char *directory)
{
    struct rlimit limit = { 1 << 20, 1 << 20 };

    if (setrlimit(RLIMIT_FSIZE, &limit))
        return 2;
    return answers(directory, HF_ESYSTEM, "ulimit -f");
}

static int too_few_descriptors(const char *directory)
{
    struct rlimit limit = { 6, 6 };

    if (setrlimit(RLIMIT_NOFILE, &limit))
        return 2;
    return answers(directory, HF_ESYSTEM, "Too many open files");
}

TEST(places, limits_of_the_process_are_errors_and_not_signals)
{
    struct world world;

    world_make(&world);
    CHECK_EQUAL(in_child(too_small_a_file_limit, world.directory), 0);
    CHECK_EQUAL(in_child(too_few_descriptors, world.directory), 0);
    check_works(world.directory);
    world_end(&world);
}
