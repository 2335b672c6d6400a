/*
 * Backward of a 1 x 1 convolution z = W a and the batch norm after it in one, without z: it is neither stored nor computed
 * again.
 *
 * With xhat = (z - mean) r, r = 1 / sd, y = gamma xhat + beta, n positions, and given dy, batch norm passes on
 *
 *     dz = g dy - q z + k,     g = gamma r,  q = g r s,  k = q mean - g D / n,     D = sum dy,  s = sum(dy xhat) / n
 *
 * by channel. z is linear in a, so that all gradients can be computed from sums over positions that need a and dy alone:
 *
 *     Q = sum dy a^T,  A = sum a a^T,  S = sum a,  mean = W S / n
 *     d gamma = r (rows of W times rows of Q, summed, - mean D),     d beta = D
 *     dW = g Q - q (W A) + k S^T
 *     da = W^T (g dy) - (W^T q W) a + W^T k
 *
 * A and the product with a cost in^2 a position where the convolution costs in * out three times, so it is done where there are
 * at most half as many channels in as out, and where that is not much beside passes over out channels. Passes over tensors of
 * dy's size are saved as well, and their memory. If a is stored with errors e, the sums are those that a batch norm would get
 * from z with errors W e: docs/theory.md.
 *
 * Where ranks share statistics, what mean, s and D / n are computed from (W S, rows of W times rows of Q, D) is summed over all
 * ranks first. Gradients of parameters stay sums over this rank's positions.
 */
#ifndef COMET_TRAIN_OPS_FOLDED_H
#define COMET_TRAIN_OPS_FOLDED_H

#include "train/ops/ops.h"

struct folded {
    uint32_t summed_by;       /* op whose mask_sums are those of dy, NONE: there is none */
    uint64_t in, out;         /* channels */
    double count;             /* positions, of this rank */
    norm_shape input;         /* how a lies */
    kernel *gram;             /* A */
    kernel *add_input;        /* adds the product with a, and W^T k */
    kernel *weights_to_plain; /* from the kernels' layouts to row by row, and back */
    kernel *products_to_plain, *gram_to_plain, *gradient_from_plain, *data_from_plain, *input_from_plain;
};

/* Blocks within op.buffers.work. */
typedef enum folded_block {
    FOLDED_SUMS,     /* Q, A as kernels make them */
    FOLDED_PART,     /* the same from a part of the batch */
    FOLDED_WEIGHTS,  /* plain, as the next four */
    FOLDED_PRODUCTS, /* Q, then dW */
    FOLDED_OTHER,    /* out x in, for intermediate results */
    FOLDED_GRAM,
    FOLDED_MIX,  /* - W^T q W */
    FOLDED_KEPT, /* dW in the layout of the weights */
    FOLDED_DATA_WEIGHTS,
    FOLDED_INPUT_WEIGHTS,
    FOLDED_INPUT_BIAS,
    FOLDED_GAIN, /* g, q, k and D / n by channel */
    FOLDED_SLOPE,
    FOLDED_SHIFT,
    FOLDED_MEAN,
    FOLDED_DIFF_SUMS,  /* double: D, then sums of dy^2 */
    FOLDED_INPUT_SUMS, /* double: S, then sums of a^2 */
    FOLDED_PART_SUMS,  /* the same from a part of the batch, or from a sample */
    FOLDED_ALL_SUMS,   /* struct folded_sums by channel, of all ranks whose statistics are used, where they are several */
    FOLDED_SCRATCH,    /* of channel_sums */
    N_FOLDED_BLOCKS
} folded_block;

/* Finds batch norms to fold; before slots are declared. */
comet_status folded_find(comet_model *m);
/* NULL where no batch norm is folded into o. */
const folded *folded_of(const op *o);

float *folded_at(const comet_model *m, const op *o, folded_block block);
double *folded_sums_at(const comet_model *m, const op *o, folded_block block);

#endif
