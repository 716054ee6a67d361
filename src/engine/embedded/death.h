/* death.h: where may a process die? Everywhere; these are the places where a test lets it. And what
 * else a test wants otherwise: another boot, a kernel without pidfds, one mapping for all
 * connections of a process (the thread sanitizer does not know that two addresses are the same
 * memory).
 *
 * In the library these are nothing. A test program is compiled from the same sources with
 * HF__EMBEDDED_HOOKS and brings these functions. */
#ifndef HF_EMBEDDED_DEATH_H
#define HF_EMBEDDED_DEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#ifdef HF__EMBEDDED_HOOKS

void hf__death_point(const char *name);
const char *hf__death_boot_id(void); /* NULL: the real one */
bool hf__death_without_pidfd(void);
void *hf__death_map(int fd, size_t bytes);
void hf__death_unmap(void *memory, size_t bytes);

#else

static inline void hf__death_point(const char *name)
{
    (void)name;
}

static inline const char *hf__death_boot_id(void)
{
    return NULL;
}

static inline bool hf__death_without_pidfd(void)
{
    return false;
}

static inline void *hf__death_map(int fd, size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static inline void hf__death_unmap(void *memory, size_t bytes)
{
    (void)munmap(memory, bytes);
}

#endif

#endif
