/*
 * Samples serve to measure the error of a convolution's gradient. Forward keeps a few channels of its input for as many images
 * as there is room for; backward has them as they were stored; and since the gradient is linear in the input, the gradient from
 * the difference is the error that the sample made. A kernel of the sample's own size computes it, at a small part of what the
 * whole gradient costs. Images differ more than channels do, so many images with few channels say most.
 *
 * The error is at most the bound, which forward knows. So an element is kept modulo four bounds, in 8 bits.
 */
#ifndef COMET_TRAIN_ASSESS_SAMPLE_H
#define COMET_TRAIN_ASSESS_SAMPLE_H

#include "train/graph/graph.h"

struct sampler {
    uint32_t n_images;  /* the first ones */
    uint64_t channels;  /* that are sampled at once: */
    uint64_t n_choices; /* one of n_choices groups of channels */
    comet_dtype type;   /* of the input's elements */
    uint64_t n;         /* elements of these channels in an image: they lie together, from `first` on */
    uint64_t first;
    uint64_t turn;    /* of model.samples.n_turns */
    uint64_t offset;  /* bytes, among the samples of its turn */
    kernel *gradient; /* of the weights that read these channels; NULL: own_depthwise */
    kernel *to_plain; /* folded: its result row by row, out x channels; else NULL */
    uint8_t *x;       /* as kept, in units of `unit`, modulo 256; NULL: there is no sample */
    float unit;
    uint64_t n_nonzero; /* elements of what was stored, in the parts of the batch so far */
};

/* Makes samplers for all convolutions whose inputs are stored with errors. */
comet_status sample_find(comet_model *m);
void sample_destroy(comet_model *m);

/* NULL where o's input is exact, or o is not a convolution. */
static inline sampler *sampler_of(const comet_model *m, const op *o)
{
    return m->samples.samplers ? m->samples.samplers[o->index] : NULL;
}

/* Copies channels of o's input, as forward has them, to their place among `samples`; each round of all turns takes other
 * channels. Nothing is kept where the bound is not known yet, 0, or far below the tensor's deviation. */
void sample_keep(const comet_model *m, const op *o, uint64_t round, void *samples);
/* Writes the error of part `part` of the batch, which has been taken, to its place in `work`. */
void sample_compare(const comet_model *m, const op *o, uint32_t part, void *work);
/* The share of non-zeros in what was stored, without the padding of blocks; to be called after all parts. */
double sample_nonzero(const comet_model *m, const op *o);
/* Computes the gradient from the error in `work`: *n floats, which lie in `work`, too. */
comet_status sample_gradient(comet_model *m, const op *o, void *work, const float **gradient, uint64_t *n);

#endif
