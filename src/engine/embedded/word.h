/* word.h: how are 128 bits exchanged at once between processes?
 *
 * By the processor's own instruction, written out: compilers may turn their 16-byte builtins into a
 * call that takes a mutex of this process, and the thread sanitizer does, which between processes
 * would not be atomic at all. There is no 128-bit load that every processor promises, so a reader
 * takes two halves and believes them only if the check inside fits (seal.h). */
#ifndef HF_EMBEDDED_WORD_H
#define HF_EMBEDDED_WORD_H

#include <stdbool.h>
#include <stdint.h>

struct hf__word {
    uint64_t low;
    uint64_t high;
};

/* The thread sanitizer does not look into assembler: show it an ordinary release before and an
 * acquire after. */
#if defined(__SANITIZE_THREAD__)
#define HF__WORD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HF__WORD_SANITIZED 1
#endif
#endif
#ifndef HF__WORD_SANITIZED
#define HF__WORD_SANITIZED 0
#endif

static inline void hf__word_show_release(uint64_t *low)
{
    if (HF__WORD_SANITIZED)
        __atomic_fetch_add(low, 0, __ATOMIC_RELEASE);
}

static inline void hf__word_show_acquire(uint64_t *low)
{
    if (HF__WORD_SANITIZED)
        (void)__atomic_load_n(low, __ATOMIC_ACQUIRE);
}

#if defined(__x86_64__)

/* `low` must be aligned to 16 bytes, with the high half behind it. */
static inline bool hf__word_exchange(uint64_t *low, struct hf__word seen, struct hf__word wanted)
{
    bool swapped;

    hf__word_show_release(low);
    __asm__ __volatile__("lock cmpxchg16b %1"
                         : "=@ccz"(swapped), "+m"(*(uint64_t(*)[2])(void *)low), "+a"(seen.low),
                           "+d"(seen.high)
                         : "b"(wanted.low), "c"(wanted.high)
                         : "memory");
    hf__word_show_acquire(low);
    return swapped;
}

#define HF__WORD_PAUSE() __builtin_ia32_pause()

#elif defined(__aarch64__)

static inline bool hf__word_exchange(uint64_t *low, struct hf__word seen, struct hf__word wanted)
{
    uint64_t found_low;
    uint64_t found_high;
    uint32_t failed;

    hf__word_show_release(low);
    do {
        __asm__ __volatile__("ldaxp %0, %1, %2"
                             : "=&r"(found_low), "=&r"(found_high)
                             : "Q"(*(uint64_t(*)[2])(void *)low)
                             : "memory");
        if (found_low != seen.low || found_high != seen.high) {
            __asm__ __volatile__("clrex" ::: "memory");
            return false;
        }
        __asm__ __volatile__("stlxp %w0, %2, %3, %1"
                             : "=&r"(failed), "=Q"(*(uint64_t(*)[2])(void *)low)
                             : "r"(wanted.low), "r"(wanted.high)
                             : "memory");
    } while (failed);
    hf__word_show_acquire(low);
    return true;
}

#define HF__WORD_PAUSE() __asm__ __volatile__("yield" ::: "memory")

#else
#error "the embedded engine needs a 128-bit compare-and-swap: x86-64 or aarch64"
#endif

/* The halves may belong to two different moments. */
static inline struct hf__word hf__word_peek(const uint64_t *low)
{
    struct hf__word word;

    word.low = __atomic_load_n(low, __ATOMIC_ACQUIRE);
    word.high = __atomic_load_n(low + 1, __ATOMIC_ACQUIRE);
    return word;
}

#endif
