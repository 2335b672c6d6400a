/* The two ways to compute a pass of a convolution, where there is a choice between them. */
#ifndef COMET_TRAIN_OPS_CONV_CANDIDATES_H
#define COMET_TRAIN_OPS_CONV_CANDIDATES_H

#include "train/backend/backend.h"

enum { CANDIDATE_DIRECT, CANDIDATE_WINOGRAD, N_CANDIDATES };

typedef struct conv_candidate {
    kernel *pass;
    kernel *reorder; /* of the weights, or of their gradient, between this pass and forward; NULL: they lie alike */
} conv_candidate;

typedef struct conv_candidates {
    bool choice; /* false: nothing below is set */
    const layout *src, *dst;
    conv_candidate by[N_CANDIDATES];
} conv_candidates;

/* There is a choice where our own Winograd can compute forward and this pass, and direct convolution takes source and
 * destination as they then lie; so a choice never changes how tensors lie. `src` may be of another batch than the spec. The
 * spec's own ways do not matter. */
comet_status conv_candidates_make(backend *b, const conv_spec *spec, const layout *src, kernel_pass pass, conv_candidates *c);
void conv_candidates_free(conv_candidates *c);

/* The scratch that is needed whichever is chosen, with room for weights that are reordered. */
uint64_t conv_candidates_scratch_bytes(const conv_candidates *c);

/* The layout of the weights, or of their gradient, that a kernel for `pass` has. */
const layout *conv_weights_layout(const kernel *k, kernel_pass pass);

#endif
