/*
 * "Did you mean": the nearest of several words by edit distance, or the word that PyTorch, Keras and the like call otherwise.
 *
 * An edit inserts, deletes or replaces a character, or swaps two neighbours. A word of n characters may have max(1, n / 3)
 * edits.
 */
#ifndef COMET_BASE_NEAREST_H
#define COMET_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nearest_word {
    const char *text; /* what was written: `length` characters */
    size_t length;
    const char *best; /* the nearest candidate so far */
    size_t distance;
} nearest_word;

nearest_word nearest_to(const char *text, size_t length);
void nearest_offer(nearest_word *nearest, const char *candidate);

/* Offers the candidate as the word that was meant if what was written is one of `synonyms`, lower-case words separated by
 * blanks, as in "conv2d convolution"; else by its distance. Upper case, - and _ make no difference between words. */
void nearest_offer_for(nearest_word *nearest, const char *candidate, const char *synonyms);

/* The nearest candidate, or NULL if none is near enough to be what was meant. */
const char *nearest_best(const nearest_word *nearest);

#endif
