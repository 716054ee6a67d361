/* job.c: what does a job need before its workers can begin?
 *
 * For flock(2), files that lose their names before anybody works with them, so that nothing has
 * to be tidied up; every contender gets a description of its own, opened before the fork. For the
 * placements, the CPUs that this process may use. In the worker, the client and the seats.
 *
 * What can go wrong: no room for a temporary file, no store: each is told with the value and ends
 * the run. A CPU that went away while we pin to it is not noticed: the row is then as good as
 * `free`. */
#include "job.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

#define PATH_BYTES 4096

static int refuse_file(const char *path)
{
    bench_say("cannot make a file for flock(2) at '%s': %s (set TMPDIR to a directory that can be "
              "written)",
              path, strerror(errno));
    return BENCH_EXIT_SYSTEM;
}

static int open_file(struct bench_job *job, const char *folder, uint32_t count)
{
    char path[PATH_BYTES];
    int first;

    snprintf(path, sizeof(path), "%s/holdfast-bench-XXXXXX", folder);
    first = mkostemp(path, O_CLOEXEC);
    if (first < 0)
        return refuse_file(path);
    job->files[job->file_count++] = first;
    for (uint32_t i = 1; i < count; i++) {
        int fd = open(path, O_RDWR | O_CLOEXEC);

        if (fd < 0) {
            int exit_status = refuse_file(path);

            unlink(path);
            return exit_status;
        }
        job->files[job->file_count++] = fd;
    }
    if (unlink(path) < 0)
        return refuse_file(path);
    return 0;
}

int bench_job_open_files(struct bench_job *job, uint32_t files, uint32_t count)
{
    const char *folder = getenv("TMPDIR");

    assert(files * count <= BENCH_FILES_MAX);

    for (uint32_t i = 0; i < files; i++) {
        int exit_status = open_file(job, folder && *folder ? folder : "/tmp", count);

        if (exit_status != 0)
            return exit_status;
    }
    return 0;
}

void bench_job_close_files(struct bench_job *job)
{
    for (uint32_t i = 0; i < job->file_count; i++)
        close(job->files[i]);
    job->file_count = 0;
}

void bench_job_find_cpus(struct bench_job *job)
{
    cpu_set_t set;

    job->cpu_count = 0;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE && job->cpu_count < BENCH_CPUS_MAX; cpu++) {
        if (CPU_ISSET(cpu, &set))
            job->cpus[job->cpu_count++] = cpu;
    }
}

void bench_job_pin(const struct bench_job *job, uint32_t contender)
{
    cpu_set_t set;
    uint32_t which = job->placement == BENCH_PLACEMENT_SAME ? 0 : contender % job->cpu_count;

    if (job->placement == BENCH_PLACEMENT_FREE)
        return;
    assert(job->cpu_count > 0);

    CPU_ZERO(&set);
    CPU_SET(job->cpus[which], &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        bench_floor_fail(job->floor, BENCH_EXIT_SYSTEM, "cannot bind a thread to CPU %zu: %s",
                         job->cpus[which], strerror(errno));
}

hf_client *bench_job_open(const struct bench_job *job)
{
    struct hf_open_options options;
    hf_client *client = NULL;
    int status;

    hf_open_options_init(&options);
    options.require = job->options->require;
    options.purpose = "holdfast bench";
    status = hf_open(job->options->url, &options, &client);
    if (status < 0) {
        const char *text = hf_client_error(NULL);
        const char *hint = bench_say_hint(status);

        bench_floor_fail(job->floor, bench_say_exit_of(status), "%s%s%s%s",
                         text && *text ? text : hf_strstatus(status), *hint ? " (" : "", hint,
                         *hint ? ")" : "");
    }
    return client;
}

void bench_job_close(const struct bench_job *job, hf_client *client)
{
    struct hf_client_stats stats = { .struct_size = sizeof(stats) };

    if (hf_client_stats(client, &stats) == HF_OK)
        atomic_fetch_add(&job->floor->rescued, stats.rescued);
    hf_close(client);
}

static void name_lock(const struct bench_job *job, uint32_t number, char name[BENCH_NAME_BYTES])
{
    snprintf(name, BENCH_NAME_BYTES, "holdfast-bench/%016llx/%s/%u",
             (unsigned long long)job->store->run, bench_workload_name(job->workload), number);
}

void bench_job_seat(const struct bench_job *job, uint32_t side, uint32_t contender,
                    hf_client *client, struct bench_seat *out_seat)
{
    struct bench_seat seat = {
        .side = job->sides[side],
        .floor = job->floor,
        .number = contender,
        .client = client,
        .url = job->options->url ? job->options->url : getenv("HOLDFAST_URL"),
        .fd = contender < job->file_count ? job->files[contender] : -1,
    };

    assert(side < job->side_count);

    name_lock(job, job->locks > 1 ? contender : 0, seat.name);
    for (uint32_t i = 0; i < BENCH_BATCH && job->batch > 1; i++) {
        name_lock(job, i, seat.batch.names[i]);
        seat.batch.fds[i] = i < job->file_count ? job->files[i] : -1;
    }
    *out_seat = seat;
}
