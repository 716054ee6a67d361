/* usage.c: what does a process use while nothing happens?
 *
 * The workers get to where they should be and arrive. They are left alone for a moment, and then
 * watched for as long as was asked: the CPU time that each process uses, and what the store counts
 * meanwhile. Then they are let go, and end by themselves.
 *
 * What can go wrong: the store's counter cannot be read: not a number. */
#include "usage.h"

#include <assert.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"

#define NS_PER_S      1e9
#define US_PER_S      1e6
#define SETTLE_NS_MAX 1000000000u
#define PER_SECONDS   10.0

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / US_PER_S;
}

double bench_usage_sockets(void)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    double count = 0;

    if (!folder)
        return NAN;
    while ((entry = readdir(folder))) {
        char target[32];
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target));

        count += bytes > 0 && strncmp(target, "socket:", strlen("socket:")) == 0;
    }
    closedir(folder);
    return count;
}

void bench_usage_watch(const struct bench_job *job, uint32_t process)
{
    struct bench_usage *usage = &job->floor->usages[process];
    uint64_t begun_ns;
    double cpu_s;

    bench_floor_wait(job->floor, BENCH_STAGE_WARM);
    begun_ns = bench_clock_now_ns();
    cpu_s = cpu_seconds();
    bench_floor_arrive(job->floor);
    bench_floor_wait(job->floor, BENCH_STAGE_MEASURE);
    usage->cpu_s = cpu_seconds() - cpu_s;
    usage->seconds = (double)(bench_clock_now_ns() - begun_ns) / NS_PER_S;
    bench_floor_arrive(job->floor);
}

static double ask(const struct bench_job *job, double (*count)(const char *url))
{
    const char *url = job->options->url ? job->options->url : getenv("HOLDFAST_URL");

    return count && url ? count(url) : NAN;
}

int bench_usage_run(struct bench_crew *crew, uint64_t watch_ns, double (*count)(const char *url),
                    double *out_counted)
{
    const struct bench_job *job = crew->job;
    const struct bench_raw *raw = job->store->raw;
    uint64_t settle_ns = watch_ns / 4 < SETTLE_NS_MAX ? watch_ns / 4 : SETTLE_NS_MAX;
    double before;
    int answer = bench_crew_gather(crew, job->processes);

    if (answer != 0)
        return answer;
    if (count && raw->counted_after_ns > settle_ns)
        settle_ns = raw->counted_after_ns;
    bench_floor_set_stage(job->floor, BENCH_STAGE_WARM);
    answer = bench_crew_gather(crew, job->processes);
    if (answer == 0)
        answer = bench_crew_sleep(crew, settle_ns);
    if (answer != 0)
        return answer;
    bench_floor_set_stage(job->floor, BENCH_STAGE_MEASURE);
    answer = bench_crew_gather(crew, job->processes);
    before = ask(job, count);
    if (answer == 0)
        answer = bench_crew_sleep(crew, watch_ns);
    *out_counted = ask(job, count) - before;
    if (answer != 0)
        return answer;
    bench_floor_set_stage(job->floor, BENCH_STAGE_REST);
    answer = bench_crew_gather(crew, job->processes);
    if (answer != 0)
        return answer;
    return bench_crew_finish(crew);
}

void bench_usage_conclude(const struct bench_job *job, uint32_t process,
                          struct bench_figures *figures)
{
    const struct bench_usage *usage = &job->floor->usages[process];

    assert(usage->seconds > 0);

    figures->client_cpu_s = usage->cpu_s / usage->seconds * PER_SECONDS;
    figures->connections = usage->connections;
}
