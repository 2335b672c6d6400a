/* Wall-clock seconds from a steady clock. */
#ifndef COMET_CLI_STOPWATCH_H
#define COMET_CLI_STOPWATCH_H

double stopwatch_now(void);

#endif
