/* Processes that take turns: a token goes around a ring of pipes, and who has it works. */
#ifndef COMET_CLI_TURNS_H
#define COMET_CLI_TURNS_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_TURNS = 8 };

/* What the one who starts them holds. */
typedef struct turn_ring {
    size_t n;
    int pipes[MAX_TURNS][2]; /* the first one waits at pipes[0] */
} turn_ring;

/* False with errno set where the machine has no more pipes. */
bool turns_open(turn_ring *ring, size_t n);

/* In a process that is about to become the i-th: leaves its two ends where turn_take and turn_pass find them. */
void turns_hand_over(const turn_ring *ring, size_t i);

/* All have been started: the token goes to the first. The ring is theirs from now on. */
void turns_begin(turn_ring *ring);

/* Gives the ring up, in a process that has its ends or has no use for any; a program that is executed has them closed. */
void turns_close(turn_ring *ring);

/* In one of the processes. Where the one before is gone there is nothing to wait for, and where the one behind is gone nobody
 * to pass the token to: the rest go on. */
void turn_take(void);
void turn_pass(void);

#endif
