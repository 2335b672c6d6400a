/*
 * The optimiser's state between updates: momentum and second moments, in one of three formats.
 *
 *   f32     floats
 *   bf16    the upper half of each float
 *   coded   17 bytes for each block of 16 floats: 16 codes c, then the block's scale S
 *             momentum        c |c| 2^(S-127), with c from -127 to 127 and S odd; S = 0: zeros, 255: not all are finite
 *             second moment   0 where c = 0, else the float whose bits begin with 16 S + c in 13 digits: c from 1 to 255 spans
 *                             16 octaves in steps of 1/16 to 1/32. What is smaller, but not 0, has c = 1
 *
 * An update rounds stochastically: up with the probability that keeps the mean (docs/theory.md, section 10). The draw is a hash
 * of seed, step and the float's number in the model, so it depends on neither threads nor ranks.
 *
 * Decoded floats that are encoded again keep their values, whatever is drawn: files hold floats, and a run that is resumed goes
 * on with the same bits. Blocks begin at multiples of 16 floats, where parameters and the ranks' segments begin as well.
 */
#ifndef COMET_TRAIN_MATH_OPTIMISER_STATE_H
#define COMET_TRAIN_MATH_OPTIMISER_STATE_H

#include <stddef.h>

#include "comet/model.h"

enum { STATE_BLOCK = 16, STATE_BLOCK_BYTES = STATE_BLOCK + 1 };

typedef struct state_block {
    comet_state_format format;
    bool squares; /* second moments, which are never negative */
    void *data;   /* NULL: there is none */
} state_block;

/* The size of n floats; coded and bf16 ones are counted in whole blocks. */
uint64_t state_bytes(comet_state_format format, uint64_t n);

/* The same state from float `first` on, a multiple of STATE_BLOCK. */
state_block state_at(state_block s, uint64_t first);

/* n floats, by the calling thread; what is written is rounded to the nearest that the format has. The rest of the last block is
 * written as zeros. */
void state_read(state_block s, size_t n, float *x);
void state_write(state_block s, size_t n, const float *x);

#endif
