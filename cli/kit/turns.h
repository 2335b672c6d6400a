/* Processes that take turns: a token goes around a ring of pipes, and the process that has it works. */
#ifndef COMET_CLI_TURNS_H
#define COMET_CLI_TURNS_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_TURNS = 8 };

/* What the parent holds. */
typedef struct turn_ring {
    size_t n;
    int pipes[MAX_TURNS][2]; /* process i waits at pipes[i] */
} turn_ring;

/* Returns false with errno where no pipe can be made. */
bool turns_open(turn_ring *ring, size_t n);

/* Called in the i-th child before it executes: puts its two ends where turn_take and turn_pass find them. */
void turns_hand_over(const turn_ring *ring, size_t i);

/* Called after all children were started: gives the token to the first, and closes the ring in this process. */
void turns_begin(turn_ring *ring);

/* Closes the ring in a process that does not take part. Executing a program closes it, too. */
void turns_close(turn_ring *ring);

/* Called in a child. If the process before it has ended, turn_take does not wait; if the next one has ended, turn_pass does
 * nothing. The others go on. */
void turn_take(void);
void turn_pass(void);

#endif
