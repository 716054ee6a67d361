/* wake.c: how does one thread wake another, in this process or in another one?
 *
 * The sleeper looks at the word, looks for news, and finding none waits for the word to change: it
 * spins for a while, then sets the lowest bit and sleeps in the kernel (futex(2)). The ringer
 * writes its news, then adds one ring to the word and takes the bit off in the same step; only if
 * the bit was set it calls the kernel.
 *
 * Why no ring is lost. Count and bit are one word, so all changes to it have one order. Either the
 * sleeper's bit comes before the ring: then the ringer sees it and wakes. Or the ring comes first:
 * then the sleeper's compare-and-swap finds another word, or the kernel does, which compares once
 * more under the lock that a wake takes too. There is no second variable, so no store-then-load
 * pair (Dekker) and no full fence. A sleeper that left at its deadline leaves the bit behind: one
 * needless system call at the next ring.
 *
 * Why the news is seen. The ring is a release, every read of the word an acquire: who sees the ring
 * sees what was written before it. Other rings and the sleepers' bit are read-modify-writes of the
 * same word, so they continue the release sequence: the last ring shows the news of all before. The
 * look is an acquire too, so a search for news after it cannot be moved ahead of it.
 *
 * What can go wrong. A ringer killed between its step and its system call leaves the sleeper asleep
 * until its deadline: who shares a word with other processes must bound the deadline or watch for
 * their deaths. The count wraps after 2^31 rings: a sleeper would have to be stopped between look
 * and wait for exactly so many. The kernel counts the timeout without the machine's sleep, so after
 * a resume the deadline may be noticed late, never early. */
#include "base/wake.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define SLEEPER  1u
#define ONE_RING 2u

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__) || defined(__arm__)
#define PAUSE() __asm__ __volatile__("yield" ::: "memory")
#else
#define PAUSE() __asm__ __volatile__("" ::: "memory")
#endif

static_assert(sizeof(struct hf__wake) == 4, "futex(2) wants 32 bits");
static_assert(ATOMIC_INT_LOCK_FREE == 2, "a lock inside would not be shared between processes");

static bool changed(const struct hf__wake *wake, uint32_t seen)
{
    return ((hf__wake_look(wake) ^ seen) & ~SLEEPER) != 0;
}

/* Without FUTEX_PRIVATE_FLAG: the word may be mapped by several processes, anywhere in each. */
static long call_futex(struct hf__wake *wake, int operation, uint32_t value,
                       const struct timespec *timeout)
{
    return syscall(SYS_futex, &wake->word, operation, value, timeout, NULL, 0);
}

/* false: the word has changed, so there is no need to sleep. */
static bool announce_sleeper(struct hf__wake *wake, uint32_t seen)
{
    uint32_t awake = seen & ~SLEEPER;
    uint32_t found = awake;

    if (atomic_compare_exchange_strong_explicit(&wake->word, &found, awake | SLEEPER,
                                                memory_order_relaxed, memory_order_relaxed))
        return true;
    return found == (awake | SLEEPER);
}

/* Once, until rung, interrupted or timed out. false: a signal came; let the caller look around. */
static bool sleep_once(struct hf__wake *wake, uint32_t seen, uint64_t wait_ns)
{
    struct timespec timeout = {
        .tv_sec = (time_t)(wait_ns / HF__NS_PER_S),
        .tv_nsec = (long)(wait_ns % HF__NS_PER_S),
    };
    bool forever = wait_ns == HF__NEVER;

    if (call_futex(wake, FUTEX_WAIT, seen | SLEEPER, forever ? NULL : &timeout) == 0)
        return true;

    assert(errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR);
    return errno != EINTR;
}

uint32_t hf__wake_look(const struct hf__wake *wake)
{
    return atomic_load_explicit(&wake->word, memory_order_acquire);
}

bool hf__wake_mark(struct hf__wake *wake)
{
    uint32_t before = atomic_load_explicit(&wake->word, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(&wake->word, &before,
                                                  (before + ONE_RING) & ~SLEEPER,
                                                  memory_order_release, memory_order_relaxed))
        PAUSE();
    return (before & SLEEPER) != 0;
}

void hf__wake_call(struct hf__wake *wake)
{
    long woken = call_futex(wake, FUTEX_WAKE, INT_MAX, NULL);

    assert(woken >= 0 || errno == EFAULT);
    (void)woken;
}

void hf__wake_ring(struct hf__wake *wake)
{
    if (hf__wake_mark(wake))
        hf__wake_call(wake);
}

bool hf__wake_wait(struct hf__wake *wake, uint32_t seen, uint64_t deadline_ns, uint32_t spin_pauses,
                   bool *out_spun)
{
    bool undisturbed = true;

    assert(wake && out_spun);

    *out_spun = true;
    if (changed(wake, seen))
        return true;
    for (uint32_t i = 0; i < spin_pauses; i++) {
        PAUSE();
        if (changed(wake, seen))
            return true;
    }

    *out_spun = false;
    while (undisturbed && !changed(wake, seen)) {
        bool forever = deadline_ns == HF__NEVER;
        uint64_t now_ns = forever ? 0 : hf__clock_now_ns();

        if (now_ns >= deadline_ns)
            return false;
        if (announce_sleeper(wake, seen))
            undisturbed = sleep_once(wake, seen, forever ? HF__NEVER : deadline_ns - now_ns);
    }
    return changed(wake, seen);
}
