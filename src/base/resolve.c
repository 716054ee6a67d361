/* resolve.c: which addresses has a name?
 *
 * A numeric address is its own answer. For a name a thread is started that asks getaddrinfo, writes
 * what it learnt into a record, makes the record's descriptor readable, and ends.
 *
 * What can go wrong: getaddrinfo knows no time limit, and cannot be called off. So the record
 * belongs to the thread and to whoever asked in equal parts, and the last of the two frees it; the
 * thread touches nothing else, and nobody waits for it. The record comes from calloc and not from
 * the env, which may be gone before the resolver gives up. The thread takes no signals: those are
 * for the threads of the program. No memory, no descriptor and no thread are each told at the
 * start. */
#include "base/resolve.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Name service modules are anybody's code: they get more than our own would take. */
#define STACK_BYTES    (512 * 1024)
#define PORT_TEXT_SIZE 8

struct record {
    atomic_int owners;
    atomic_bool is_answered;
    int answer_fd;
    struct hf__url_server server;
    /* Written by the thread, before is_answered. */
    struct hf__addresses addresses;
    char error[HF__ERROR_BYTES]; /* "" if there are addresses */
};

struct hf__resolve {
    const struct hf__env *env;
    struct record *record;
};

static void leave(struct record *record)
{
    if (atomic_fetch_sub(&record->owners, 1) > 1)
        return;
    (void)close(record->answer_fd);
    free(record);
}

/* An answer of getaddrinfo, 0 if it was one. Writes only then. */
static int ask(const struct hf__url_server *server, int flags, struct hf__addresses *out_addresses)
{
    struct addrinfo hints = { .ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct hf__addresses addresses = { .count = 0 };
    struct addrinfo *first = NULL;
    char port[PORT_TEXT_SIZE];
    int failed;

    (void)snprintf(port, sizeof(port), "%u", (unsigned)server->port);
    failed = getaddrinfo(server->host, port, &hints, &first);
    if (failed)
        return failed;

    for (struct addrinfo *info = first; info; info = info->ai_next) {
        struct hf__address *address = &addresses.list[addresses.count];

        if (info->ai_family != AF_INET && info->ai_family != AF_INET6)
            continue;
        if (addresses.count == HF__ADDRESSES_MAX)
            break;
        assert(info->ai_addrlen <= sizeof(address->socket));
        memcpy(&address->socket, info->ai_addr, info->ai_addrlen);
        address->bytes = info->ai_addrlen;
        addresses.count++;
    }
    freeaddrinfo(first);
    if (addresses.count == 0)
        return EAI_NONAME;

    *out_addresses = addresses;
    return 0;
}

static void *run(void *argument)
{
    struct record *record = argument;
    int failed = ask(&record->server, AI_ADDRCONFIG, &record->addresses);

    if (failed)
        (void)hf__error_set(record->error, HF_EUNREACHABLE, "%s: %s", record->server.host,
                            failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
    atomic_store(&record->is_answered, true);
    (void)eventfd_write(record->answer_fd, 1);
    leave(record);
    return NULL;
}

/* 0, or an errno. */
static int start_thread(struct record *record)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    int failed = pthread_attr_init(&attributes);

    if (failed)
        return failed;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, &attributes, run, record);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

static int start_question(struct hf__resolve *resolve, const struct hf__url_server *server,
                          char *error)
{
    struct record *record = calloc(1, sizeof(*record));
    int failed;

    if (!record)
        return hf__error_set(error, HF_ENOMEM, "%s: out of memory", server->host);
    record->server = *server;
    record->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (record->answer_fd < 0) {
        failed = errno;
        free(record);
        return hf__error_set(error, HF_ESYSTEM, "%s: no descriptor to wait for its address: %s",
                             server->host, strerror(failed));
    }

    atomic_store(&record->owners, 2);
    failed = start_thread(record);
    if (failed) {
        (void)close(record->answer_fd);
        free(record);
        return hf__error_set(error, HF_ESYSTEM, "%s: no thread to ask for its address: %s",
                             server->host, strerror(failed));
    }
    resolve->record = record;
    return HF_OK;
}

int hf__resolve_start(const struct hf__env *env, const struct hf__url_server *server,
                      struct hf__addresses *out_addresses, struct hf__resolve **out_resolve,
                      char error[HF__ERROR_BYTES])
{
    struct hf__resolve *resolve;
    int status;

    assert(env && server && out_addresses && out_resolve);
    assert(server->host[0] && server->port > 0);

    if (ask(server, AI_NUMERICHOST, out_addresses) == 0) {
        *out_resolve = NULL;
        return HF_OK;
    }
    if (strchr(server->host, ':')) /* no name has one, and no resolver should be bothered */
        return hf__error_set(error, HF_EURL, "'%s' is not an address", server->host);

    resolve = hf__env_new(env, sizeof(*resolve));
    if (!resolve)
        return hf__error_set(error, HF_ENOMEM, "%s: out of memory", server->host);
    resolve->env = env;
    status = start_question(resolve, server, error);
    if (status < 0) {
        hf__env_free(env, resolve);
        return status;
    }
    *out_resolve = resolve;
    return HF_OK;
}

int hf__resolve_fd(const struct hf__resolve *resolve)
{
    assert(resolve && resolve->record);

    return resolve->record->answer_fd;
}

int hf__resolve_finish(struct hf__resolve *resolve, struct hf__addresses *out_addresses,
                       char error[HF__ERROR_BYTES])
{
    struct record *record;
    int status = 1;

    assert(resolve && resolve->record);
    assert(out_addresses && error);

    record = resolve->record;
    if (!atomic_load(&record->is_answered))
        return 0;
    if (record->error[0])
        status = hf__error_set(error, HF_EUNREACHABLE, "%s", record->error);
    else
        *out_addresses = record->addresses;
    hf__resolve_drop(resolve);
    return status;
}

void hf__resolve_drop(struct hf__resolve *resolve)
{
    if (!resolve)
        return;
    leave(resolve->record);
    hf__env_free(resolve->env, resolve);
}
