/* job.h: one workload in one placement: who works, with what, where. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include <stdint.h>

#include "floor.h"
#include "options.h"
#include "side.h"
#include "workload.h"

#define BENCH_FILES_MAX  256
#define BENCH_CPUS_MAX   64
#define BENCH_TEXT_BYTES 64

/* What the URL means. */
struct bench_store {
    char engine[BENCH_TEXT_BYTES];
    char recipe[BENCH_TEXT_BYTES];
    uint64_t run; /* random: in the names of the locks, so that two runs do not meet */
    const struct bench_raw *raw; /* NULL: none */
};

struct bench_job {
    const struct bench_options *options;
    const struct bench_store *store;
    enum bench_workload workload;
    enum bench_placement placement;
    uint32_t processes;
    uint32_t threads; /* of each process */
    uint32_t locks;   /* 1: all on one; otherwise as many as threads */
    uint32_t batch;   /* so many locks are one cycle's               */
    bool contended;   /* keep a tally, and time the acquire alone    */
    const struct bench_side *sides[BENCH_SIDES_MAX]; /* ours, raw, beside */
    uint32_t side_count;
    struct bench_floor *floor;
    int files[BENCH_FILES_MAX]; /* descriptions for flock, one for each contender */
    uint32_t file_count;
    size_t cpus[BENCH_CPUS_MAX]; /* that this process may use */
    uint32_t cpu_count;
};

/* The URL, or what stands for one that was not given. Never fails: what is no URL at all is told by
 * whoever opens it. */
void bench_store_find(const char *url, struct bench_store *out_store);

/* Opens `count` descriptions of each of `files` temporary files that have no name any more, file by
 * file. 0, or the exit status after telling why. */
int bench_job_open_files(struct bench_job *job, uint32_t files, uint32_t count);
void bench_job_close_files(struct bench_job *job);
/* Which CPUs there are. */
void bench_job_find_cpus(struct bench_job *job);

/* In a worker: binds the calling thread as the placement wants it. */
void bench_job_pin(const struct bench_job *job, uint32_t contender);
/* In a worker: the client, or NULL with the reason on the floor. */
hf_client *bench_job_open(const struct bench_job *job);
/* In a worker: adds what the client knows to the floor, and closes it. */
void bench_job_close(const struct bench_job *job, hf_client *client);
/* In a worker: a contender's place on one side. */
void bench_job_seat(const struct bench_job *job, uint32_t side, uint32_t contender,
                    hf_client *client, struct bench_seat *out_seat);

#endif
