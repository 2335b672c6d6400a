/*
 * Does the thread that runs the model get on? It counts its moments (comet_ranks.mark); the mover's thread looks at the count
 * several times a second. So a rank that was stopped as a whole, or whose machine slept, does not seem to hang: nobody counted.
 */
#ifndef COMET_DIST_PULSE_H
#define COMET_DIST_PULSE_H

#include <stdatomic.h>

#include "comet/ranks.h"

enum { PULSE_PHASES = COMET_RANK_FILES + 1 };

/* What a rank tells of itself, in seconds. */
typedef struct pulse_report {
    double idle, patience; /* since the last moment; as long as that may be */
    double waited;         /* for others, so far; 0: it does not wait */
} pulse_report;

typedef struct pulse {
    double hung_seconds;
    _Atomic uint64_t n_marks;
    _Atomic int phase;
    /* the mover's thread alone */
    uint64_t n_seen;
    int phase_seen;
    double idle, last_tick, longest[PULSE_PHASES];
} pulse;

/* A moment may take hung_seconds in a step, 8 times that where files are read or written, 80 times that before the first step;
 * but always 10 times the longest that one of its kind has taken. */
void pulse_begin(pulse *p, double hung_seconds);

/* The model's thread got on. */
void pulse_mark(pulse *p, comet_rank_phase phase);

/* Looks; `waited` is for how long the model's thread has waited for other ranks, which is no idling. */
pulse_report pulse_tick(pulse *p, double now, double waited);

#endif
