/*
 * Plateaus: values that many positions of a plane share, as a plain background leaves them behind every convolution. Rounded to
 * a grid they all have the same error, and where backward sums over positions it adds up instead of averaging out: the error of
 * a gradient was up to three hundred times what independent ones give. So they are exact.
 *
 * A plot is the part of a tile that lies in one plane of the channels side by side in memory. It may have one plateau a
 * channel. Elements that are near it, within a small part of the bound, are replaced before coding with a value that nothing
 * else there has, so that it comes back as such: zero where channels with plateaus have no zeros, as in what a batch norm
 * stores; or a negative one where there is none, as behind a relu. Which plots and channels have one is found on a sample, so
 * that tiles without any cost next to nothing and are coded as they are.
 *
 * What is replaced must be coded with QUANTISE_SUPPORT, whose zeros and signs are exact. Results depend on the elements alone.
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

/* What the figures of the elements lose where they are replaced. */
typedef struct plateau_figures {
    uint64_t n_zeros;      /* elements that became zero */
    double sum_of_squares; /* of what was replaced, each plateau with its one value */
    double min, max;       /* of all finite elements; +Inf and -Inf where there is none */
} plateau_figures;

/* Bytes that no record of n elements exceeds. */
size_t plateau_record_bound(size_t n);

/* Looks for plateaus in x; an element is near one if it is within `reach`. Where there are some, copy receives all elements
 * with those replaced, and record what plateau_restore needs. Returns the record's bytes; 0: there are none. */
size_t plateau_replace(const plateau_span *span, float reach, const float *x, float *copy, uint8_t *record,
                       plateau_figures *figures);

/* Gives decoded elements their plateaus back. False if the record makes no sense. */
bool plateau_restore(const plateau_span *span, const uint8_t *record, size_t bytes, float *x);

#endif
