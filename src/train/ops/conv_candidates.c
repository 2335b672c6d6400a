/* Candidates for a pass of a convolution; see conv_candidates.h. */
#include "train/ops/conv_candidates.h"

#include "base/bytes.h"
#include "base/status.h"

const layout *conv_weights_layout(const kernel *k, kernel_pass pass)
{
    return kernel_layout(k, pass == PASS_BACKWARD_WEIGHTS ? ARG_DIFF_WEIGHTS : ARG_WEIGHTS);
}

static comet_status make_pass(backend *b, conv_spec spec, const layout *src, kernel_pass pass, conv_way way,
                              const kernel *forward, kernel **k)
{
    spec.ways.of[pass] = way;
    switch (pass) {
    case PASS_BACKWARD_DATA: return kernel_conv_backward_data(b, &spec, forward, k);
    case PASS_BACKWARD_WEIGHTS: return kernel_conv_backward_weights(b, &spec, forward, k);
    default: return kernel_conv_forward(b, &spec, src, k);
    }
}

/* In bf16 direct passes read a copy of the weights in any case, and Winograd may: neither is counted. */
static comet_status make_reorder(backend *b, kernel_pass pass, const kernel *forward, conv_candidate *c)
{
    const layout *kept = kernel_layout(forward, ARG_WEIGHTS), *here = conv_weights_layout(c->pass, pass);
    if (here == kept || layout_type(kept) == COMET_DTYPE_BF16)
        return COMET_OK;
    return pass == PASS_BACKWARD_WEIGHTS ? kernel_reorder(b, here, kept, &c->reorder)
                                         : kernel_reorder(b, kept, here, &c->reorder);
}

/* A backward pass by both ways, after the forward pass of the model. */
static comet_status make_backward(backend *b, const conv_spec *spec, kernel_pass pass, const kernel *forward,
                                  conv_candidates *c)
{
    static const conv_way ways[N_CANDIDATES] = {[CANDIDATE_DIRECT] = CONV_DIRECT, [CANDIDATE_WINOGRAD] = CONV_WINOGRAD};
    for (int i = 0; i < N_CANDIDATES; i++) {
        TRY(make_pass(b, *spec, NULL, pass, ways[i], forward, &c->by[i].pass));
        TRY(make_reorder(b, pass, forward, &c->by[i]));
    }
    c->choice = kernel_is_winograd(c->by[CANDIDATE_WINOGRAD].pass);
    return COMET_OK;
}

static bool lie_alike(const kernel *a, const kernel *b)
{
    return kernel_layout(a, ARG_SRC) == kernel_layout(b, ARG_SRC) && kernel_layout(a, ARG_DST) == kernel_layout(b, ARG_DST);
}

/* Both forward kernels; where there is a choice, those of a backward pass in their place. */
static comet_status make_both(backend *b, const conv_spec *spec, const layout *src, kernel_pass pass, conv_candidates *c)
{
    kernel **direct = &c->by[CANDIDATE_DIRECT].pass, **winograd = &c->by[CANDIDATE_WINOGRAD].pass;
    TRY(make_pass(b, *spec, src, PASS_FORWARD, CONV_WINOGRAD, NULL, winograd));
    if (!kernel_is_winograd(*winograd))
        return COMET_OK;
    TRY(make_pass(b, *spec, src, PASS_FORWARD, CONV_DIRECT, NULL, direct));
    c->choice = lie_alike(*direct, *winograd);
    c->src = kernel_layout(*direct, ARG_SRC);
    c->dst = kernel_layout(*direct, ARG_DST);
    if (!c->choice || pass == PASS_FORWARD)
        return COMET_OK;
    kernel *forward = *direct;
    kernel_destroy(*winograd);
    *direct = *winograd = NULL;
    const comet_status status = make_backward(b, spec, pass, forward, c);
    kernel_destroy(forward);
    return status;
}

comet_status conv_candidates_make(backend *b, const conv_spec *spec, const layout *src, kernel_pass pass, conv_candidates *c)
{
    const layout *resized;
    *c = (conv_candidates){.choice = false};
    if (layout_resized(b, src, spec->batch, spec->in[0], &resized) != COMET_OK)
        return COMET_OK; /* a layout of the library's own: Winograd does not take it */
    const comet_status status = make_both(b, spec, resized, pass, c);
    if (status != COMET_OK || !c->choice)
        conv_candidates_free(c);
    return status;
}

void conv_candidates_free(conv_candidates *c)
{
    for (int i = 0; i < N_CANDIDATES; i++) {
        kernel_destroy(c->by[i].pass);
        kernel_destroy(c->by[i].reorder);
    }
    *c = (conv_candidates){.choice = false};
}

uint64_t conv_candidates_scratch_bytes(const conv_candidates *c)
{
    uint64_t most = 0;
    for (int i = 0; i < N_CANDIDATES && c->choice; i++) {
        const kernel *reorder = c->by[i].reorder;
        uint64_t bytes = kernel_scratch_bytes(c->by[i].pass);
        if (reorder)
            bytes += kernel_scratch_bytes(reorder) + layout_bytes(kernel_layout(reorder, ARG_DST));
        most = max_u64(most, bytes);
    }
    return most;
}
