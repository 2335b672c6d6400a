/* Are the other ranks alive, and do they get on? Rank 0 and every other rank tell each other so. */
#ifndef COMET_DIST_HEALTH_H
#define COMET_DIST_HEALTH_H

#include "comet/base.h"
#include "dist/cards.h"
#include "dist/pulse.h"

typedef struct health health;

enum { HEALTH_TEXT_BYTES = 500 };

/* Why the job has to end. */
typedef struct verdict {
    bool found;
    bool speak; /* this rank says it */
    char text[HEALTH_TEXT_BYTES];
} verdict;

/* `cards` stays the caller's. */
comet_status health_create(health **out, transport *t, const card *cards, double silent_seconds);
void health_destroy(health *h, transport *t);

/* Is it time for health_tick, which is to be called several times a second? */
bool health_is_due(const health *h, double now);
/* Sends and receives what is due; `own` is how this rank gets on. */
comet_status health_tick(health *h, transport *t, double now, const pulse_report *own, verdict *found);

/* Begins to tell the others that the job ends because of `text`; true once they have been told. */
bool health_tell(health *h, transport *t, const char *text);

#endif
