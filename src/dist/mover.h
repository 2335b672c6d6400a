/* The thread that makes all calls of the transport: it moves works, and watches over the other ranks. */
#ifndef COMET_DIST_MOVER_H
#define COMET_DIST_MOVER_H

#include "dist/cards.h"
#include "dist/guard.h"
#include "dist/pulse.h"
#include "dist/work.h"

typedef struct mover mover;

typedef struct mover_settings {
    /* Called on the thread; NULL with a sentence in `error` where it fails. */
    transport *(*open)(void *arg, char *error, size_t bytes);
    void *arg;
    double silent_seconds, hung_seconds;
    guard *guard; /* NULL: none; kept by the caller */
    /* The job ends. `ending` may print; `end` is called after it and ends the process (the tests' returns). */
    void (*ending)(void *user, const char *sentence, bool speak);
    void *user;
    void (*end)(transport *t, bool speak);
} mover_settings;

/* Starts the thread, which opens the transport and meets the other ranks; waits until it has. */
comet_status mover_create(mover **out, const mover_settings *settings);
/* Closes the transport, after all ranks said that they leave (mover_leave), or without a word where the job has failed. */
void mover_destroy(mover *m);

/* Read only; only the thread may call the transport. */
const transport *mover_transport(const mover *m);
const card *mover_cards(const mover *m);

/* Works are moved in the order in which they are given; they are the thread's until they have ended. */
void mover_give(mover *m, work *w);
bool mover_has_ended(mover *m, work *w);
/* Waits until it has ended or the job has failed. */
comet_status mover_wait(mover *m, work *w);

/* The caller's thread got on. */
void mover_mark(mover *m, comet_rank_phase phase);

/* The others need not watch this rank any more. All ranks have to call it before one of them ends. */
void mover_leave(mover *m);
/* Tells the others that this rank ends; waits for that, a second at most. */
void mover_tell(mover *m, const char *sentence);

double mover_seconds_waited(mover *m);
double mover_seconds_moving(mover *m);

#endif
