/* "Did you mean": the nearest of several words by edit distance (insert, delete, replace), or the one that is meant by a word
 * of PyTorch, Keras or the like. */
#ifndef COMET_TRAIN_NET_NEAREST_H
#define COMET_TRAIN_NET_NEAREST_H

#include <stddef.h>

typedef struct nearest_word {
    const char *text; /* what was written: `length` characters */
    size_t length;
    const char *best; /* the nearest candidate so far */
    size_t distance;
} nearest_word;

nearest_word nearest_to(const char *text, size_t length);
void nearest_offer(nearest_word *nearest, const char *candidate);

/* Offers the candidate too if what was written is one of `others`: words in small letters between blanks, without - and _, as
 * in " conv2d convolution ". "Conv_2D" is conv2d there. */
void nearest_offer_for(nearest_word *nearest, const char *candidate, const char *others);

/* The nearest candidate, or NULL if none is near enough to be what was meant. */
const char *nearest_best(const nearest_word *nearest);

#endif
