/*
 * Batch normalisation by spans: a = (z - mean) gamma / sd + beta, then relu if asked, over contiguous elements of a tensor that
 * may come in pieces, as a stored one does. Elements are of one type in all arrays of a batch norm; arithmetic is in float.
 *
 * Channels in memory order: groups of `rows` rows of `period` elements, whose lanes are the channels [first, first + period) of
 * the group; groups repeat every n_groups. Planar: rows = H W, period 1. Blocked: rows = H W, period = block. Channels last:
 * one group. Coefficients are kept for `width` lanes a group: 16, with the period repeated, or the period where it does not
 * divide 16.
 *
 * What backward is given is either z itself, or the lossy w = (z - mean) g / sd + h with g = gamma and h = beta, except where
 * gamma is so small that z could not be recovered: there g is larger, see norm_code. With a relu the sign of w is its mask, and
 * elements that it cut off matter so little to backward that they may be stored more coarsely: -w is stored, divided by
 * `coarse` where it is not negative. (Then the many elements near zero are those for which the codec has the shortest code.)
 * The same code reads z and w with different coefficients. Sums are taken in float over short runs, then in double, in an order
 * that depends on the tensor alone, so results are the same for any number of threads.
 */
#ifndef COMET_TRAIN_MATH_NORM_H
#define COMET_TRAIN_MATH_NORM_H

#include <stdbool.h>

#include "train/backend/backend.h"

typedef struct norm_shape {
    comet_dtype type; /* of elements: f32 or bf16 */
    uint64_t n_elements, channels;
    uint64_t period, rows, n_groups; /* see above */
    uint64_t width;                  /* lanes of coefficients a group */
    bool relu;
} norm_shape;

norm_shape norm_shape_of(const layout *l, bool relu);

/* Coefficients of one kind for all lanes: n_groups * width floats. */
static inline uint64_t norm_lanes(const norm_shape *s)
{
    return s->n_groups * s->width; /* NOLINT(clang-analyzer-core.NullDereference): batch norms have a shape */
}

/* Spreads values by channel over the lanes. Padding channels get 0. */
void norm_spread(const norm_shape *s, const float *by_channel, float *lanes);

/* Partial sums of the elements [first, first + n), which begin and end between rows, go to segments: one for each group they
 * touch, at most norm_segments(n) of them. A segment is NORM_SUMS * width doubles. */
enum { NORM_SUMS = 4 };
uint64_t norm_segments(const norm_shape *s, uint64_t n);

/* sums of z - shift and of its squares. */
void norm_sum_moments(const norm_shape *s, const void *z, uint64_t first, uint64_t n, const float *shift, double *segments);

/* Adds the segments of elements [first, first + n) to the first n_sums sums, each by channel: sums[n_sums * channels]. */
void norm_fold(const norm_shape *s, uint64_t first, uint64_t n, const double *segments, int n_sums, double *sums);

/* By lanes. */
typedef struct norm_apply_coefficients {
    const float *mean, *scale, *shift;    /* a = (z - mean) scale + shift */
    const float *code_scale, *code_shift; /* w = (z - mean) code_scale + code_shift; -w with a relu */
    float coarse;                         /* at least 1 */
} norm_apply_coefficients;

/* y = a, or relu(a); y may be z. If w is not NULL it receives what is to be stored, from its own start, for the elements
 * [first, first + n). */
void norm_apply(const norm_shape *s, const void *z, uint64_t first, uint64_t n, const norm_apply_coefficients *c, void *y,
                void *w);

/* By lanes: what is computed from a stored element v. */
typedef struct norm_stored_coefficients {
    const float *mask_from, *mask_scale, *mask_shift; /* relu passed: (v - from) scale + shift > 0; NULL: v < 0 */
    const float *from, *scale;                        /* xhat = (v - from) scale */
    const float *out_from, *out_scale, *out_shift;    /* output before relu: (v - from) scale + shift */
    float coarse;                                     /* without mask_from: v stands for v coarse where it is not negative */
} norm_stored_coefficients;

/* Computes the output again. */
void norm_output(const norm_shape *s, const void *v, uint64_t first, uint64_t n, const norm_stored_coefficients *c, void *y);

/* sums of d and of d xhat, d = dy where the relu passed; without mask_from also that of xhat; if asked for that of d^2. */
void norm_sum_gradients(const norm_shape *s, const void *v, const void *dy, uint64_t first, uint64_t n,
                        const norm_stored_coefficients *c, bool squares, double *segments);

/* dx = d gain + (v - from) slope + offset; dx may be dy. By lanes, too. */
typedef struct norm_gradient_coefficients {
    const float *gain, *slope, *offset;
} norm_gradient_coefficients;

void norm_gradient(const norm_shape *s, const void *v, const void *dy, uint64_t first, uint64_t n,
                   const norm_stored_coefficients *c, const norm_gradient_coefficients *g, void *dx);

/* The scale and shift in which a channel with gamma and beta is stored: gamma is lifted to `floor` in size; the threshold of
 * the relu stays where it is, as far as it lies within 8 deviations of the mean. */
void norm_code(float gamma, float beta, float floor, float *code_gamma, float *code_beta);

#endif
