/* The process of the guard, and what ranks and guard tell each other. */
#ifndef COMET_DIST_GUARD_PROCESS_H
#define COMET_DIST_GUARD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "comet/base.h"

enum { GUARD_HOST_BYTES = 64 };

/* A rank's first message; the guard answers with a letter. */
typedef struct guard_hello {
    uint32_t rank, n_here; /* n_here: ranks that the launcher starts on this machine; 0: it does not say */
    char host[GUARD_HOST_BYTES];
} guard_hello;

/* Messages of one byte after that. */
typedef enum guard_letter {
    LETTER_WELCOME = 'w',
    LETTER_DISMISS = 'd',
    LETTER_END = 'e',
    LETTER_HOLD = 'h',
    LETTER_RELEASE = 'r',
} guard_letter;

/* Forks the guard, which takes the ranks of `listener`; n_ranks are in the job. `hold`: it may stop the launcher. */
comet_status guard_process_start(int listener, uint32_t n_ranks, bool hold);

/* The nearest of a few processes above this one whose name begins with one of `names`, which end with NULL; 0: none does. */
pid_t find_above(const char *const *names);

#endif
