/* env.h: what the library takes from the world besides time and descriptors: memory, randomness
 * and the trace. Handed in, never global, so that a test can count, refuse and repeat each. */
#ifndef HF_BASE_ENV_H
#define HF_BASE_ENV_H

#include <stddef.h>
#include <stdint.h>

struct hf__env {
    void *(*allocate)(void *context, size_t bytes); /* zeroed memory, or NULL */
    void (*release)(void *context, void *memory);   /* accepts NULL */
    void (*random)(void *context, void *out_bytes, size_t bytes);
    void (*trace)(void *context, const char *line); /* NULL: no trace */
    void *memory_context;
    void *random_context;
    void *trace_context;
};

/* The real world: calloc, the kernel's random numbers (drawn in blocks, which must be renewed after
 * fork by making a new env), no trace. hf__env_done releases what init took: random_context must be
 * the one that init made. Memory may be asked for by any thread; random numbers only by one at a
 * time. HF_ENOMEM; HF_ESYSTEM: the kernel gives no random numbers. */
int hf__env_init(struct hf__env *env);
void hf__env_done(struct hf__env *env);

void *hf__env_new(const struct hf__env *env, size_t bytes);
void hf__env_free(const struct hf__env *env, void *memory);
char *hf__env_copy_text(const struct hf__env *env, const char *text); /* NULL when memory is out */
void hf__env_random(const struct hf__env *env, void *out_bytes, size_t bytes);

/* Does nothing, and formats nothing, where no trace is wanted. */
#define hf__trace(env, ...)                                                                        \
    do {                                                                                           \
        if ((env)->trace)                                                                          \
            hf__env_trace_line((env), __VA_ARGS__);                                                \
    } while (0)
void hf__env_trace_line(const struct hf__env *env, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ownership on one visible line: HF__CLEANUP(x_freep) on a local, HF__TAKE(local) at the end. */
#define HF__CLEANUP(function) __attribute__((cleanup(function)))
#define HF__TAKE(pointer)                                                                          \
    __extension__({                                                                                \
        __typeof__(pointer) hf__taken = (pointer);                                                 \
        (pointer) = NULL;                                                                          \
        hf__taken;                                                                                 \
    })

#endif
