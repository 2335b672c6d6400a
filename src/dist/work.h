/* A thing that the thread of the ranks moves, a little at a time, until it has ended: a reduction, a sum, a message. */
#ifndef COMET_DIST_WORK_H
#define COMET_DIST_WORK_H

#include "comet/base.h"
#include "dist/transport.h"

typedef struct work work;

struct work {
    /* Starts what can be started and looks at what is under way; never waits. *moved becomes true where something happened,
     * *ended where there is nothing left to do. A failure breaks the job. */
    comet_status (*advance)(work *w, transport *t, bool *moved, bool *ended);
    bool is_reduction; /* its time counts in seconds_moving */
    /* the mover's */
    work *next;
    bool ended;
};

/* Tags. Reductions use the tags from TAG_REDUCTION on. */
enum { TAG_CARDS = 1, TAG_HEALTH, TAG_POINT, TAG_RECEIPT, TAG_SUM, TAG_BROADCAST, TAG_REDUCTION = 1024 };

/* The status for a call of the transport that returned false. */
comet_status transport_failed(const transport *t);

/* Looks at a request that may be TRANSPORT_NONE, which it becomes when it is done. *moved: it is done now. */
comet_status request_poll(transport *t, int *request, bool *moved, size_t *bytes);

#endif
