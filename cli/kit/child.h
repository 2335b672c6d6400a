/* Child processes that run this program again: their memory and its peak are their own. */
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
void command_text(command *c, const char *name, const char *value); /* adds nothing for NULL */
void command_number(command *c, const char *name, uint64_t value);
void command_share(command *c, const char *name, double value); /* adds nothing below 0 */

/* A child that was started. */
typedef struct running {
    pid_t process;
    int output;
} running;

/* Starts the command; with a ring of turns, as its process number `place`. `what` names the work in error messages. */
cli_exit command_start(command *c, const char *what, const turn_ring *ring, size_t place, running *r);

/* Waits for its end. *output is all that it wrote on stdout, ended by a 0, for free(); it shares our stderr. A child that fails
 * prints the reason itself, and its exit code is returned; where a signal ended it, this function prints so. */
cli_exit command_end(running *r, const char *what, char **output);

/* command_start and command_end. */
cli_exit command_run(command *c, const char *what, char **output);

/* Runs work(data) in a copy of this process and brings the `bytes` bytes of *data back, so that the memory
 * that the work takes is free again afterwards. The process must have no other threads. */
cli_exit run_apart(cli_exit (*work)(void *data), void *data, size_t bytes);

#endif
