/* storm.h: many who take and give back locks all the time, whatever happens around them. */
#ifndef FAULTS_STORM_H
#define FAULTS_STORM_H

#include "line.h"

#define STORM_PARTS 6
#define STORM_MS    6000
#define STORM_LONG  60000

void storm_live(struct scene *scene, int part); /* their role, until the stage is over */
void storm_begin(struct scene *scene);          /* returns when each has had a turn */
/* The weather is good again: each of them gets on. Then all leave, and are judged. */
void storm_end(struct scene *scene);

#endif
