/* env.c: where do memory and random numbers come from, and where does the trace go?
 *
 * Memory is calloc's. Random numbers come from the kernel, as a key for each 4 KiB of ChaCha8,
 * because a claim needs 16 bytes and must not pay a system call, nor the kernel's price for each
 * byte; what was handed out is wiped at once, so that no id can be read from memory after its use.
 * The random source belongs to whoever owns the env: it has no lock of its own. A trace line is cut
 * at LINE_BYTES, and its control bytes become question marks: it may hold a lock's name, and names
 * are anybody's bytes.
 *
 * What can go wrong: no memory is HF_ENOMEM, a kernel without random numbers is HF_ESYSTEM, both
 * at init. The first block is drawn there, so a later refusal would be a broken kernel: then we
 * stop, for an id that repeats is two holders. A fork would repeat the block: the child makes an
 * env of its own. */
#include "base/env.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/chacha.h"
#include "holdfast/holdfast.h"

static_assert(4096 % (HF__CHACHA_LANES * HF__CHACHA_BLOCK_BYTES) == 0, "whole calls fill a block");

#define BLOCK_BYTES 4096
#define KEY_WORDS   8
#define ROUNDS      8
#define EIGHT_BYTES (HF__CHACHA_LANES * HF__CHACHA_BLOCK_BYTES)
#define LINE_BYTES  1024

struct random_source {
    size_t used;
    uint8_t block[BLOCK_BYTES];
};

static void *allocate(void *context, size_t bytes)
{
    (void)context;
    return calloc(1, bytes);
}

static void release(void *context, void *memory)
{
    (void)context;
    free(memory);
}

/* A signal may cut the answer short: go on where it stopped. */
static bool draw_key(uint32_t out_key[KEY_WORDS])
{
    uint8_t bytes[KEY_WORDS * sizeof(uint32_t)];
    size_t filled = 0;

    while (filled < sizeof(bytes)) {
        ssize_t drawn = getrandom(bytes + filled, sizeof(bytes) - filled, 0);

        if (drawn < 0 && errno != EINTR)
            return false;
        if (drawn > 0)
            filled += (size_t)drawn;
    }
    memcpy(out_key, bytes, sizeof(bytes));
    explicit_bzero(bytes, sizeof(bytes));
    return true;
}

static bool draw(struct random_source *source)
{
    uint32_t key[KEY_WORDS];
    static const uint32_t nonce[3];

    if (!draw_key(key))
        return false;
    for (uint32_t done = 0; done < BLOCK_BYTES; done += EIGHT_BYTES)
        hf__chacha_eight(key, nonce, done / HF__CHACHA_BLOCK_BYTES, ROUNDS, source->block + done);
    explicit_bzero(key, sizeof(key));
    source->used = 0;
    return true;
}

static void fill_with_random(void *context, void *out_bytes, size_t bytes)
{
    struct random_source *source = context;
    uint8_t *out = out_bytes;

    while (bytes > 0) {
        size_t left = BLOCK_BYTES - source->used;
        size_t part = bytes < left ? bytes : left;

        memcpy(out, source->block + source->used, part);
        memset(source->block + source->used, 0, part);
        source->used += part;
        out += part;
        bytes -= part;
        if (source->used == BLOCK_BYTES && !draw(source))
            abort();
    }
}

int hf__env_init(struct hf__env *env)
{
    struct random_source *source;

    assert(env);

    source = calloc(1, sizeof(*source));
    if (!source)
        return HF_ENOMEM;
    if (!draw(source)) {
        free(source);
        return HF_ESYSTEM;
    }

    *env = (struct hf__env){
        .allocate = allocate,
        .release = release,
        .random = fill_with_random,
        .random_context = source,
    };
    return HF_OK;
}

void hf__env_done(struct hf__env *env)
{
    assert(env);

    if (env->random_context)
        explicit_bzero(env->random_context, sizeof(struct random_source));
    free(env->random_context);
    env->random_context = NULL;
}

void *hf__env_new(const struct hf__env *env, size_t bytes)
{
    assert(env && env->allocate);
    assert(bytes > 0);

    return env->allocate(env->memory_context, bytes);
}

void hf__env_free(const struct hf__env *env, void *memory)
{
    assert(env && env->release);

    env->release(env->memory_context, memory);
}

char *hf__env_copy_text(const struct hf__env *env, const char *text)
{
    size_t bytes;
    char *copy;

    assert(text);

    bytes = strlen(text) + 1;
    copy = hf__env_new(env, bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void hf__env_random(const struct hf__env *env, void *out_bytes, size_t bytes)
{
    assert(env && env->random);
    assert(out_bytes);

    env->random(env->random_context, out_bytes, bytes);
}

void hf__env_trace_line(const struct hf__env *env, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;

    assert(env && env->trace);
    assert(format);

    va_start(arguments, format);
    if (vsnprintf(line, sizeof(line), format, arguments) < 0)
        line[0] = '\0';
    va_end(arguments);

    for (char *byte = line; *byte; byte++) {
        if ((unsigned char)*byte < ' ' || *byte == 0x7f)
            *byte = '?';
    }
    env->trace(env->trace_context, line);
}
