/*
 * Where the time of training steps goes. At any moment one part of a step is counted; changing the part is one reading of the
 * clock, at boundaries of operators alone, and none where the part stays the same. Parts are therefore disjoint.
 *
 * Coding runs inside forward and backward in all threads at once: it is moved to parts of its own after each of them, as work
 * of all threads divided by threads.
 */
#ifndef COMET_TRAIN_GRAPH_STEP_CLOCK_H
#define COMET_TRAIN_GRAPH_STEP_CLOCK_H

#include <stdint.h>

typedef enum step_part {
    STEP_IDLE, /* between steps, and in all that is no training step */
    STEP_FORWARD,
    STEP_BACKWARD,
    STEP_UPDATE,
    STEP_ASSESS,
    STEP_ENCODE,
    STEP_DECODE,
    N_STEP_PARTS
} step_part;

typedef struct step_clock {
    double seconds[N_STEP_PARTS]; /* since the model was created */
    double since;                 /* when `now` began */
    step_part now;
    double coded[N_STEP_PARTS];  /* seconds of coding that were moved, by where they went */
    double before[N_STEP_PARTS]; /* seconds when forward or backward began */
} step_clock;

/* From idle, whatever a step that failed has left. */
void step_clock_begin(step_clock *c, step_part part);
/* Changes the part and returns the one before; while idle it stays idle. */
step_part step_clock_switch(step_clock *c, step_part part);
void step_clock_end(step_clock *c);
/* Moves what coding took since the last call from `part` to `coding`; `seconds` are those of coding since the model was
 * created. At most what `part` took since step_clock_mark. */
void step_clock_mark(step_clock *c, step_part part);
void step_clock_move(step_clock *c, step_part part, step_part coding, double seconds);

#endif
