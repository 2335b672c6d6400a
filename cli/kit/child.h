/* This program once more, in a process of its own: its memory and its peak belong to nothing else. */
#ifndef COMET_CLI_CHILD_H
#define COMET_CLI_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kit/say.h"
#include "kit/turns.h"

enum { COMMAND_WORDS = 64, COMMAND_NUMBER_BYTES = 40 };

/* A command line; texts are kept, not copied. */
typedef struct command {
    const char *words[COMMAND_WORDS + 1];
    char numbers[COMMAND_WORDS][COMMAND_NUMBER_BYTES];
    size_t n;
} command;

void command_word(command *c, const char *word);
void command_flag(command *c, const char *name, bool on);
void command_text(command *c, const char *name, const char *value); /* nothing for NULL */
void command_number(command *c, const char *name, uint64_t value);
void command_share(command *c, const char *name, double value); /* nothing below 0 */

/* One that was started. */
typedef struct running {
    pid_t process;
    int output;
} running;

/* Where there is a ring of turns, at this place in it. `what` it is for, should no process be to be had. */
cli_exit command_start(command *c, const char *what, const turn_ring *ring, size_t place, running *r);

/* Waits for its end. *output: all it wrote on stdout, ending with a 0, to be freed; stderr is ours. `what` it was for, where
 * a signal ended it; otherwise it said itself why it failed, and its exit code is given. */
cli_exit command_end(running *r, const char *what, char **output);

/* From its start to its end. */
cli_exit command_run(command *c, const char *what, char **output);

/* Runs work(data) in a copy of this process and brings the `bytes` bytes of *data back, so that what the work takes and leaves
 * in memory is gone afterwards. For a process without other threads. */
cli_exit run_apart(cli_exit (*work)(void *data), void *data, size_t bytes);

#endif
