/* memory.c: what does the command do when there is no memory left?
 *
 * It says so and ends with status 71. Whatever it held then goes the way of a process that was
 * killed: the guard ends the command's group, and the lock is free. */
#include "memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exit.h"

static void *insist(void *memory)
{
    static const char text[] = "holdfast: out of memory\n";

    if (memory)
        return memory;

    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(EXIT_SYSTEM);
    _exit(EXIT_SYSTEM);
}

void *memory_get(size_t count, size_t bytes)
{
    assert(count > 0 && bytes > 0);
    return insist(calloc(count, bytes));
}

void *memory_grow(void *memory, size_t count, size_t bytes)
{
    assert(count > 0 && bytes > 0);
    return insist(reallocarray(memory, count, bytes));
}

char *memory_copy(const char *text)
{
    assert(text);
    return insist(strdup(text));
}
