/* memory.h: memory for a command, which has nothing better to do without it than to end. */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include <stddef.h>

/* Never NULL: the command ends with status 71 instead. */
void *memory_get(size_t count, size_t bytes);
void *memory_grow(void *memory, size_t count, size_t bytes);
char *memory_copy(const char *text);

#endif
