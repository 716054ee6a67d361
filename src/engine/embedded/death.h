/* death.h: where may a process die? Everywhere; these are the places where a test lets it.
 *
 * In the library these are nothing. A test program is compiled from the same sources with
 * HF__EMBEDDED_HOOKS and brings these functions. */
#ifndef HF_EMBEDDED_DEATH_H
#define HF_EMBEDDED_DEATH_H

#include <stdbool.h>
#include <stddef.h>

#ifdef HF__EMBEDDED_HOOKS

void hf__death_point(const char *name);
const char *hf__death_boot_id(void); /* NULL: the real one */
bool hf__death_without_pidfd(void);

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

#endif

#endif
