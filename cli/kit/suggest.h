/* "Did you mean": the nearest of several words by edit distance, or the word that is meant by another program's. */
#ifndef COMET_CLI_SUGGEST_H
#define COMET_CLI_SUGGEST_H

#include <stddef.h>

typedef struct suggestion {
    const char *text; /* what was written */
    const char *best; /* the nearest candidate so far */
    size_t distance;
} suggestion;

suggestion suggestion_start(const char *text);
void suggestion_offer(suggestion *s, const char *candidate);

/* Offers the candidate too if `text` is one of the words that users of PyTorch, Keras and the like have for such an option,
 * whether written with - or with _. */
void suggestion_offer_option(suggestion *s, const char *candidate);

/* The nearest candidate, or NULL if none is near enough to be what was meant. */
const char *suggestion_best(const suggestion *s);

/* Edits (insert, delete, replace, swap of neighbours) that lead from one word to the other; words over 40 bytes are far. */
size_t edit_distance(const char *from, const char *to);

#endif
