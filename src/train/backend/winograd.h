/*
 * Convolutions of 3 x 3 with stride 1 by Winograd's algorithm F(4 x 4, 3 x 3): a quarter of the multiplications of direct
 * convolution, and two to six times its rounding error. Tensors lie in blocks of channels, see winograd_kernels.h. A plan is
 * made once; running it allocates nothing. Results do not depend on the number of threads, nor on the bytes of scratch.
 */
#ifndef COMET_TRAIN_BACKEND_WINOGRAD_H
#define COMET_TRAIN_BACKEND_WINOGRAD_H

#include "train/backend/winograd_kernels.h"

typedef enum winograd_pass { WINOGRAD_FORWARD, WINOGRAD_BACKWARD_DATA, WINOGRAD_BACKWARD_WEIGHTS } winograd_pass;

typedef struct winograd_shape {
    comet_dtype type;              /* of src and dst, f32 or bf16; weights, bias and what is added up are f32 */
    uint64_t batch, in[3], out[3]; /* channels, height, width */
    uint64_t padding[2];           /* before the first row and column, at most 2; after the last, what `out` needs */
    bool bias, relu, adds;         /* relu, adds: forward only, to what is in the output */
} winograd_shape;

typedef struct winograd_plan {
    winograd_shape shape;
    winograd_pass pass;
    const winograd_kernels *kernels;
    size_t n_threads;
    winograd_grid from, to;                /* the tensor that is transformed, and the one that is written or multiplied with */
    uint64_t n_from, n_to;                 /* blocks of channels */
    uint64_t n_tiles, tiles;               /* in all; those that are worked on at once */
    uint64_t blocks;                       /* backward weights: of outputs, that are worked on at once */
    bool channels_outside;                 /* weights are transformed and used block by block of outputs, for all `tiles` */
    uint64_t v_points, u_points, m_points; /* floats from one point to the next: sources, weights, products */
    uint64_t shared_floats, thread_floats; /* of scratch: for all threads, for each */
} winograd_plan;

/* Channels of a block in the layouts that it works on, with the instruction set in use. */
size_t winograd_block(void);

/* Is it faster than direct convolution? The rule is by shape and nothing else, so that two runs choose alike. */
bool winograd_pays(const winograd_shape *s);

/* Plans a pass with at most scratch_bytes of scratch; false where the shape or that limit does not allow it. */
bool winograd_make(const winograd_shape *s, winograd_pass pass, size_t n_threads, uint64_t scratch_bytes, winograd_plan *p);
uint64_t winograd_scratch_bytes(const winograd_plan *p);

/* Forward and backward data: from `src` (the gradient of the output, for backward data) to `dst`. Bias or NULL. */
void winograd_run_data(const winograd_plan *p, const void *src, const float *weights, const float *bias, void *dst,
                       float *scratch);
/* Gradients of the weights, and of the bias unless NULL. */
void winograd_run_weights(const winograd_plan *p, const void *src, const void *diff_dst, float *diff_weights, float *diff_bias,
                          float *scratch);

#endif
