/*
 * Plateaus: values that many positions of a plane share, as the output of every convolution does where an image has a plain
 * background. Rounded to a grid they all have the same error, and where backward sums over positions it adds up instead of
 * averaging out: the error of a gradient may be three hundred times that of independent errors. So plateaus are kept exact.
 *
 * A plot is the part of a tile that lies in one plane of the channels side by side in memory. It may have one plateau for each
 * channel. Before coding, elements near the plateau, within a small part of the bound, are replaced with a symbol: a value that
 * no other element of the plot has, so that decoding finds them again. The symbol is zero if channels with plateaus have no
 * zeros, as in what a batch norm stores; else a negative value if the plot has none, as after a relu. Plateaus are looked for
 * on a sample of each plot, so that tiles without any cost next to nothing; these are coded as they are.
 *
 * Replaced elements must be coded with QUANTISE_SUPPORT, whose zeros and signs are exact. Results depend on the elements alone.
 */
#ifndef COMET_STORE_PLATEAU_H
#define COMET_STORE_PLATEAU_H

#include "codec/geometry.h"

/* Elements of a tensor, from number `first` on. */
typedef struct plateau_span {
    const geometry *shape;
    uint64_t first;
    size_t n;
} plateau_span;

/* What must be added to the figures of the elements after replacing, to get those of the original elements. */
typedef struct plateau_figures {
    uint64_t n_zeros;      /* elements that became zero */
    double sum_of_squares; /* of the replaced elements, each taken as its plateau's value */
    double min, max;       /* of all finite elements; +Inf and -Inf where there is none */
} plateau_figures;

/* The most bytes that a record of n elements takes. */
size_t plateau_record_bound(size_t n);

/* Looks for plateaus in x; elements within `reach` of one belong to it. Where there are some, copy receives all elements with
 * these replaced, and record what plateau_restore needs. Returns the record's bytes; 0: there are no plateaus. */
size_t plateau_replace(const plateau_span *span, float reach, const float *x, float *copy, uint8_t *record,
                       plateau_figures *figures);

/* Replaces symbols in decoded elements with the values of their plateaus. False if the record is damaged. */
bool plateau_restore(const plateau_span *span, const uint8_t *record, size_t bytes, float *x);

#endif
