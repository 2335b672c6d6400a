/* Elementwise work that oneDNN has no fast kernel for, or that goes tile by tile. Elements are of one type in all arrays of a
 * call, f32 or bf16; arithmetic is in float. */
#ifndef COMET_TRAIN_MATH_ELEMENTWISE_H
#define COMET_TRAIN_MATH_ELEMENTWISE_H

#include <stdbool.h>

#include "train/backend/backend.h"

typedef struct dropout_spec {
    comet_dtype type;
    uint64_t seed, step;
    uint32_t layer; /* keeps the masks of layers apart */
    float p;
    bool per_sample;
    uint64_t rows, n;   /* images, and elements of all of them */
    uint64_t first_row; /* among all ranks' images, whose rows are as long: the mask is that of these rows of the whole */
} dropout_spec;

/* y = x times the mask of (seed, step, layer) by position in all ranks' batch, scaled by 1 / (1 - p). y may be x. The same call
 * on gradients is backward. */
void dropout_apply(const dropout_spec *spec, const void *x, void *y);

/* How the factor b of a product lies against a: the same shape, or one value for each image and channel. */
typedef struct multiply_spec {
    comet_dtype type;
    bool spread; /* b is N x C x 1 x 1 */
    layout_order order;
    uint64_t batch, channels, plane, block; /* channels with the padding of a blocked layout */
} multiply_spec;

void multiply_forward(const multiply_spec *spec, const void *a, const void *b, void *y);
/* da = dy b; db = dy a, summed over the plane if spread. Either may be NULL. da may be dy. */
void multiply_backward(const multiply_spec *spec, const void *a, const void *b, const void *dy, void *da, void *db);

/* dx = dy where y is positive, else 0; dx may be dy. */
void relu_backward(comet_dtype type, uint64_t n, const void *y, const void *dy, void *dx);

enum { SIGNS_A_WORD = 16 };
/* The sign mask of x: bit i % 16 of signs[i / 16] says whether x[i] is positive. relu_backward_mask is relu_backward with the
 * mask in place of y. */
void signs_of(comet_dtype type, uint64_t n, const void *x, uint16_t *signs);
void relu_backward_mask(comet_dtype type, uint64_t n, const uint16_t *signs, const void *dy, void *dx);

/* y = a + b, or with relu 0 where that is not positive; y may be a or b. */
void sum_of(comet_dtype type, uint64_t n, const void *a, const void *b, bool relu, void *y);

#endif
