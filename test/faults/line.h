/* line.h: one who holds a lock, others who wait for it in line, and what they count. */
#ifndef FAULTS_LINE_H
#define FAULTS_LINE_H

#include "scene.h"

#define LONG_MS     8000 /* a lease that outlasts what is done to the server */
#define RECORDS_MAX 1000000

/* numbers[] of the stage */
#define HOLDS   0
#define IN_LINE 1
#define SERVED  2
#define GO      3
#define FIRST   4 /* what the holder saw first after it went on: 1 + valid */
#define GAVE_UP 5
#define LEASE   6
#define LOSSES  7
/* The lease of who waits in line is what keeps its place: long, so that a slow machine costs nobody
 * the place that the judge wants it to have. */
#define PATIENCE 8
#define LOST     9 /* the holder saw that it holds no longer */

/* The lease is that of the clients and of the holder. */
struct stage *line_begin(struct scene *scene, int64_t lease_ms);
struct hf_acquire_options line_leasing(const struct scene *scene);

/* Roles. The holder looks all the time, until GO; then it gives back. */
void line_hold_and_look(struct scene *scene, int part);
void line_wait(struct scene *scene, int part);

/* A holder (part 0), and so many behind it, in the order of their parts. */
void line_up(struct scene *scene, int waiters);
void line_leave(struct scene *scene, int first, int last);

#endif
