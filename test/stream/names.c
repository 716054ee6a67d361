/* names.c: names whose addresses the tests decide; all others are asked of the real resolver. */
#include "names.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define MANY 20

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out_first);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out_first);

static sem_t slow_gate;
static atomic_uint asked;
static atomic_bool was_loud;

__attribute__((constructor)) static void prepare(void)
{
    int failed = sem_init(&slow_gate, 0, 0);

    assert(failed == 0);
    (void)failed;
}

void names_let_go(void)
{
    (void)sem_post(&slow_gate);
}

unsigned names_asked(void)
{
    return atomic_load(&asked);
}

bool names_asked_quietly(void)
{
    return !atomic_load(&was_loud);
}

/* glibc frees the records of a list one by one, so lists can be put together. */
static int answer(const char *const *hosts, const char *port, const struct addrinfo *hints,
                  struct addrinfo **out_first)
{
    struct addrinfo **end = out_first;

    for (size_t i = 0; hosts[i]; i++) {
        int failed = __real_getaddrinfo(hosts[i], port, hints, end);

        if (failed)
            return failed;
        end = &(*end)->ai_next;
    }
    return 0;
}

static void listen_for_signals(void)
{
    static const int some[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, SIGCHLD };
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
        if (!sigismember(&blocked, some[i]))
            atomic_store(&was_loud, true);
    }
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **out_first)
{
    static const char *const one[] = { "127.0.0.1", NULL };
    static const char *const two[] = { "127.0.0.2", "127.0.0.1", NULL };
    const char *many[MANY + 1] = { NULL };

    if (hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(host, port, hints, out_first);
    atomic_fetch_add(&asked, 1);
    listen_for_signals();
    for (size_t i = 0; i < MANY; i++)
        many[i] = "127.0.0.1";

    if (strcmp(host, "broken.test") == 0) {
        errno = EIO;
        return EAI_SYSTEM;
    }
    if (strcmp(host, "slow.test") == 0)
        while (sem_wait(&slow_gate) < 0)
            assert(errno == EINTR);
    if (strcmp(host, "two.test") == 0)
        return answer(two, port, hints, out_first);
    if (strcmp(host, "many.test") == 0)
        return answer(many, port, hints, out_first);
    if (strstr(host, ".test"))
        return answer(one, port, hints, out_first);
    return __real_getaddrinfo(host, port, hints, out_first);
}
