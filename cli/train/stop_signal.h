/* SIGINT and SIGTERM ask a run to stop: it finishes its step, saves and leaves. */
#ifndef COMET_CLI_STOP_SIGNAL_H
#define COMET_CLI_STOP_SIGNAL_H

#include <signal.h>

#include "kit/say.h"

/* The signal that came, or 0. */
extern volatile sig_atomic_t stop_signal_flag;

/* A signal that was ignored at the start (nohup, a job in the background of a script) stays ignored. The second signal ends
 * the program at once. */
void stop_signal_catch(void);

/* The exit code of a run that was asked to stop. Where there was no signal here, another rank had it. */
cli_exit stop_signal_exit(void);

#endif
