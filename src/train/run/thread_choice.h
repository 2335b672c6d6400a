/* The search for the number of threads that is fastest now; the clock is the caller's, so that tests can bring their own. */
#ifndef COMET_TRAIN_RUN_THREAD_CHOICE_H
#define COMET_TRAIN_RUN_THREAD_CHOICE_H

#include "comet/train.h"

/* Sets the mean time of a step with so many threads. */
typedef comet_status step_timer(void *user, uint32_t n_threads, double *seconds);

/* Times n_cores threads and fewer, until fewer are no longer faster. Fewer than n_cores are chosen only where they are clearly
 * faster: the other program may end while the run goes on. Fills n_threads, seconds and seconds_all. */
comet_status thread_choice_search(uint32_t n_cores, step_timer *timer, void *user, comet_thread_choice *choice);

/* The same with timed steps of the run's own net and data. Sets `timed`. */
comet_status thread_choice_by_trial(const comet_train_params *p, uint32_t n_cores, comet_thread_choice *choice);

#endif
