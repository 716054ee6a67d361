/* program.c: what exactly is executed, and with which environment?
 *
 * Everything that needs memory is done before the fork: the places where $PATH says the command may
 * be, the environment with what the command must know of its lock and without the password, and the
 * arguments for a file that only a shell understands. After the fork there is one execve(2) after
 * the other, as execvp(3) would make them; execvp itself may allocate, and the process had threads.
 *
 * What can go wrong: nowhere found (ENOENT), found and not executable (EACCES); the latter is told
 * when both happened, because it is the one to mend. */
#include "program.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

#define USUAL_PATH "/bin:/usr/bin"
#define SHELL      "/bin/sh"

static char *join(const char *left, const char *between, const char *right)
{
    size_t bytes = strlen(left) + strlen(between) + strlen(right) + 1;
    char *text = memory_get(bytes, 1);

    snprintf(text, bytes, "%s%s%s", left, between, right);
    return text;
}

/* The lock's own variables are set anew, and the password is not passed on. */
static bool is_inherited(const char *variable)
{
    static const char *const left_out[] = { "HOLDFAST_NAME=", "HOLDFAST_FENCE=", "HOLDFAST_URL=",
                                            "HOLDFAST_PASSWORD=" };

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
        if (strncmp(variable, left_out[i], strlen(left_out[i])) == 0)
            return false;
    }
    return true;
}

static void prepare_environment(struct program *program, const struct program_lock *lock)
{
    char fence[24];
    size_t count = 0;
    size_t used = 0;

    while (environ[count])
        count++;
    snprintf(fence, sizeof(fence), "%" PRIu64, lock->fence);
    program->environment = memory_get(count + PROGRAM_OWN_VARIABLES + 1, sizeof(char *));
    program->environment[used++] = join("HOLDFAST_NAME", "=", lock->name);
    program->environment[used++] = join("HOLDFAST_FENCE", "=", fence);
    program->environment[used++] = join("HOLDFAST_URL", "=", lock->url);
    assert(used == PROGRAM_OWN_VARIABLES);
    for (size_t i = 0; i < count; i++) {
        if (is_inherited(environ[i]))
            program->environment[used++] = environ[i];
    }
}

static void prepare_paths(struct program *program)
{
    const char *name = program->argv[0];
    const char *search = getenv("PATH");
    size_t count = 1;

    if (!search)
        search = USUAL_PATH;
    for (const char *at = search; *at; at++)
        count += *at == ':' ? 1 : 0;
    program->paths = memory_get(count, sizeof(char *));
    if (strchr(name, '/') || !*name) {
        program->paths[program->path_count++] = memory_copy(name);
        return;
    }
    for (;;) {
        size_t length = strcspn(search, ":");
        char *folder = memory_copy(length ? search : "."); /* an empty place is this one */

        if (length)
            folder[length] = '\0';
        program->paths[program->path_count++] = join(folder, "/", name);
        free(folder);
        if (!search[length])
            break;
        search += length + 1;
    }
    assert(program->path_count == count);
}

static void prepare_script(struct program *program)
{
    size_t count = 0;

    while (program->argv[count])
        count++;
    program->script = memory_get(count + 2, sizeof(char *));
    program->script[0] = memory_copy(SHELL);
    for (size_t i = 1; i < count; i++)
        program->script[i + 1] = program->argv[i];
}

void program_prepare(struct program *program, char **argv, const struct program_lock *lock)
{
    assert(argv[0]);

    *program = (struct program){ .argv = argv };
    prepare_environment(program, lock);
    prepare_paths(program);
    prepare_script(program);
}

void program_done(struct program *program)
{
    for (size_t i = 0; program->environment && i < PROGRAM_OWN_VARIABLES; i++)
        free(program->environment[i]);
    free(program->environment);
    for (size_t i = 0; i < program->path_count; i++)
        free(program->paths[i]);
    free(program->paths);
    if (program->script)
        free(program->script[0]);
    free(program->script);
    *program = (struct program){ 0 };
}

/* A text without "#!" is a shell's, by old custom. */
static void execute_script(const struct program *program, char *path)
{
    program->script[1] = path;
    execve(SHELL, program->script, program->environment);
    errno = ENOEXEC;
}

/* A folder in $PATH that may not be searched is not a command that may not be executed. */
static bool is_there(const struct program *program, const char *path)
{
    return program->path_count == 1 || access(path, F_OK) == 0;
}

int program_execute(const struct program *program)
{
    bool was_denied = false;

    for (size_t i = 0; i < program->path_count; i++) {
        execve(program->paths[i], program->argv, program->environment);
        if (errno == ENOEXEC)
            execute_script(program, program->paths[i]);
        if (errno == EACCES) {
            was_denied = was_denied || is_there(program, program->paths[i]);
            continue;
        }
        if (errno != ENOENT && errno != ENOTDIR && errno != ENODEV && errno != ESTALE &&
            errno != ETIMEDOUT)
            return errno;
    }
    return was_denied ? EACCES : ENOENT;
}
