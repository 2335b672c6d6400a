/* The figures of a run as an event file, which TensorBoard opens. */
#ifndef COMET_CLI_EVENTS_H
#define COMET_CLI_EVENTS_H

#include "report/run.h"

/* Writes FOLDER/NAME/events.out.tfevents.SECONDS.comet, where NAME is the run's name and SECONDS when it began; makes the
 * folders. An event file that is there stays unless `force`. Runs without lines have no file. */
cli_exit events_write(const run *r, const char *folder, bool force);

/* The path of that file, for free(); NULL without memory. */
char *events_path(const run *r, const char *folder);

#endif
