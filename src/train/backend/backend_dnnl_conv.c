/*
 * Convolutions: our own Winograd where that pays (winograd.h), else oneDNN's, direct or Winograd, whole or in slices of the
 * batch. oneDNN 3 has no Winograd in float32 for x86, and oneDNN 2 has it with AVX-512 only.
 */
#include "train/backend/dnnl_kernel.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv_geometry {
    const layout *src, *weights, *bias, *dst; /* of any layout, or one that is given; bias: NULL where there is none */
    pd_windows windows;
} conv_geometry;

static comet_status conv_describe(backend *b, const conv_spec *s, conv_geometry *g)
{
    const dnnl_dim_t n = (dnnl_dim_t)s->batch, groups = s->groups;
    const dnnl_dims_t src = {n, (dnnl_dim_t)s->in[0], (dnnl_dim_t)s->in[1], (dnnl_dim_t)s->in[2]};
    const dnnl_dims_t dst = {n, (dnnl_dim_t)s->out[0], (dnnl_dim_t)s->out[1], (dnnl_dim_t)s->out[2]};
    const dnnl_dims_t grouped = {groups, dst[1] / groups, src[1] / groups, s->kernel[0], s->kernel[1]};
    const dnnl_dims_t whole = {dst[1], src[1], s->kernel[0], s->kernel[1]};
    const dnnl_dims_t bias = {dst[1]};
    *g = (conv_geometry){.bias = NULL};
    pd_windows *w = &g->windows;
    for (int i = 0; i < 2; i++) {
        w->stride[i] = s->stride[i];
        w->dilation[i] = (dnnl_dim_t)s->dilation[i] - 1;
        w->before[i] = s->padding[i];
        /* What the last window really covers; torch ignores the rest of the padding. */
        w->after[i] = (dst[2 + i] - 1) * w->stride[i] + (dnnl_dim_t)s->dilation[i] * ((dnnl_dim_t)s->kernel[i] - 1) + 1 -
                      src[2 + i] - w->before[i];
    }
    TRY(layout_by_tag(b, 4, src, dnnl_format_tag_any, &g->src));
    TRY(layout_by_tag(b, 4, dst, dnnl_format_tag_any, &g->dst));
    if (s->bias)
        TRY(layout_by_tag(b, 1, bias, dnnl_a, &g->bias));
    return groups > 1 ? layout_by_tag(b, 5, grouped, dnnl_format_tag_any, &g->weights)
                      : layout_by_tag(b, 4, whole, dnnl_format_tag_any, &g->weights);
}

static uint64_t pd_scratch_bytes(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(MD(pd, scratchpad, 0));
}

/* How slow an implementation is, by its name: 0 is fast, a product of matrices is slower by a few times, reference code by
 * hundreds. */
static int slowness(const_dnnl_primitive_desc_t pd)
{
    static const struct {
        const char *prefix;
        int cost;
    } slow[] = {{"ref", 100}, {"gemm", 1}, {"x64:gemm", 1}};
    /* Products of matrices compete well with what else oneDNN 2 has for odd numbers of channels. */
    const size_t n = forward_may_be_alone() ? 3 : 2;
    const char *text = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&text) != dnnl_success || !text)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(text, slow[i].prefix, strlen(slow[i].prefix)) == 0)
            return slow[i].cost;
    return 0;
}

/* After a kernel was made for a slice of the batch: its operands are those of the whole batch. */
static comet_status widen(kernel *k, uint32_t n_slices, uint64_t batch)
{
    k->n_slices = n_slices;
    k->sums_offset = k->scratch_bytes = (k->scratch_bytes + 63) / 64 * 64;
    for (size_t i = 0; n_slices > 1 && i < k->n_operands; i++) {
        operand *o = &k->operands[i];
        if (is_slice_sum(o->arg))
            k->scratch_bytes += layout_bytes(o->layout);
        if (o->arg != ARG_SRC && o->arg != ARG_DST && o->arg != ARG_DIFF_SRC && o->arg != ARG_DIFF_DST)
            continue;
        o->slice_bytes = layout_bytes(o->layout);
        TRY(layout_resized(k->b, o->layout, batch, (uint64_t)o->layout->dims[1], &o->layout));
    }
    return COMET_OK;
}

bool kernel_is_slow(const kernel *k)
{
    return k->pd && slowness(k->pd) > 0;
}

/* One pass of a convolution. */
typedef struct conv_call {
    backend *b;
    const conv_spec *spec;
    pd_pass pass;
    const_dnnl_primitive_desc_t forward; /* of a backward pass, else NULL */
} conv_call;

static dnnl_status_t algorithm_pd(const conv_call *c, dnnl_alg_kind_t algorithm, const conv_geometry *g,
                                  dnnl_primitive_desc_t *pd)
{
    const backend *b = c->b;
    pd_base base = {.engine = b->engine, .attribute = b->plain, .forward = c->forward};
    if (c->pass == PASS_FORWARD)
        base.attribute = c->spec->adds ? b->sum : c->spec->relu ? b->relu : b->plain;
    const pd_operands o = {g->src->md, g->weights->md, g->bias ? g->bias->md : NULL, g->dst->md};
    return pd_conv(&base, c->pass, algorithm, &o, &g->windows, pd);
}

/* Winograd F(4,3) for the smallest number of slices whose scratchpad is not too large. */
static bool winograd_pd(const conv_call *c, const conv_geometry *g, dnnl_primitive_desc_t *pd, uint32_t *n_slices)
{
    const conv_spec *s = c->spec;
    const uint64_t most = c->pass == PASS_BACKWARD_WEIGHTS ? s->weights_scratch_bytes : s->data_scratch_bytes;
    for (uint32_t n = 1; n <= s->batch; n++) {
        if (s->batch % n != 0)
            continue;
        conv_geometry sliced = *g;
        if (layout_resized(c->b, g->src, s->batch / n, s->in[0], &sliced.src) != COMET_OK ||
            layout_resized(c->b, g->dst, s->batch / n, s->out[0], &sliced.dst) != COMET_OK ||
            algorithm_pd(c, dnnl_convolution_winograd, &sliced, pd) != dnnl_success)
            return false;
        if (pd_scratch_bytes(*pd) <= most) {
            *n_slices = n;
            return true;
        }
        dnnl_primitive_desc_destroy(*pd);
    }
    return false;
}

/* Winograd where it is allowed and exists (3 x 3, stride 1, AVX-512, oneDNN 2), about twice as fast as direct convolution in
 * every shape measured; else direct. */
static comet_status conv_pd(const conv_call *c, const conv_geometry *g, dnnl_primitive_desc_t *pd, uint32_t *n_slices)
{
    if (c->spec->winograd && winograd_pd(c, g, pd, n_slices))
        return COMET_OK;
    *n_slices = 1;
    return dnnl_check(algorithm_pd(c, dnnl_convolution_direct, g, pd), "a convolution of this shape");
}

static comet_status conv_make(backend *b, const conv_spec *s, dnnl_primitive_desc_t pd, uint32_t n_slices,
                              const operand_md *operands, size_t n, kernel **k)
{
    kernel *made = NULL;
    TRY(kernel_make(b, pd, operands, n, &made));
    comet_status status = widen(made, n_slices, s->batch);
    if (status != COMET_OK) {
        kernel_destroy(made);
        return status;
    }
    *k = made;
    return COMET_OK;
}

#define CONV_MAKE(b, s, pd, n_slices, operands, k) \
    conv_make(b, s, pd, n_slices, operands, sizeof(operands) / sizeof((operands)[0]), k)

/* How slow the gradient of the weights is after a forward pass. Our own kernel serves depthwise convolutions where oneDNN has
 * none. */
static int backward_slowness(const conv_call *forward, const_dnnl_primitive_desc_t pd, const conv_geometry *g)
{
    const conv_spec *s = forward->spec;
    const conv_call call = {.b = forward->b, .spec = s, .pass = PASS_BACKWARD_WEIGHTS, .forward = pd};
    const int none = 1000;
    conv_geometry backward = *g;
    dnnl_primitive_desc_t made;
    uint32_t n_slices;
    if (!forward_may_be_alone() || (s->groups > 1 && s->groups == s->in[0] && s->groups == s->out[0]))
        return 0;
    if (layout_intern(call.b, MD(pd, src, 0), &backward.src) != COMET_OK ||
        layout_intern(call.b, MD(pd, dst, 0), &backward.dst) != COMET_OK ||
        layout_resized(call.b, backward.src, s->batch, s->in[0], &backward.src) != COMET_OK ||
        layout_resized(call.b, backward.dst, s->batch, s->out[0], &backward.dst) != COMET_OK ||
        conv_pd(&call, &backward, &made, &n_slices) != COMET_OK)
        return none;
    const int cost = slowness(made);
    dnnl_primitive_desc_destroy(made);
    return cost;
}

typedef struct conv_choice {
    dnnl_primitive_desc_t pd; /* NULL: none yet */
    uint32_t n_slices;
    int cost;
} conv_choice;

/* Makes the choice that of a source that lies like g->src where that is faster than the choice so far, by at least `by`. */
static comet_status try_source(const conv_call *c, const conv_geometry *g, int by, conv_choice *best)
{
    conv_choice made;
    if (best->pd && best->cost == 0)
        return COMET_OK;
    TRY(conv_pd(c, g, &made.pd, &made.n_slices));
    made.cost = slowness(made.pd) + backward_slowness(c, made.pd, g);
    const bool better = !best->pd || best->cost - made.cost >= by;
    const dnnl_primitive_desc_t worse = better ? best->pd : made.pd;
    if (worse)
        dnnl_primitive_desc_destroy(worse);
    if (better)
        *best = made;
    return COMET_OK;
}

/* Takes the source as it lies if forward and the gradient of the weights are fast for it, else as the library prefers it for
 * forward, else in blocks where only they have a fast gradient. */
comet_status kernel_conv_forward(backend *b, const conv_spec *spec, const layout *src, kernel **k)
{
    static const dnnl_format_tag_t blocked[] = {dnnl_nChw16c, dnnl_nChw8c};
    const conv_call call = {.b = b, .spec = spec, .pass = PASS_FORWARD};
    conv_choice best = {.pd = NULL};
    conv_geometry g;
    TRY(winograd_kernel(b, spec, PASS_FORWARD, NULL, NULL, k));
    if (*k)
        return COMET_OK;
    TRY(conv_describe(b, spec, &g));
    const layout *any = g.src;
    g.src = src;
    (void)try_source(&call, &g, 0, &best);
    g.src = any;
    /* Without such cases the library's preference counts more than names of implementations. */
    const comet_status status = try_source(&call, &g, forward_may_be_alone() ? 0 : -1000, &best);
    if (!best.pd)
        return status;
    for (size_t i = 0; forward_may_be_alone() && i < sizeof blocked / sizeof blocked[0]; i++)
        if (layout_by_tag(b, 4, any->dims, blocked[i], &g.src) == COMET_OK)
            (void)try_source(&call, &g, 1, &best);
    const operand_md operands[] = {{ARG_SRC, MD(best.pd, src, 0)},
                                   {ARG_WEIGHTS, MD(best.pd, weights, 0)},
                                   {ARG_BIAS, MD(best.pd, weights, 1)},
                                   {ARG_DST, MD(best.pd, dst, 0)}};
    return CONV_MAKE(b, spec, best.pd, best.n_slices, operands, k);
}

static comet_status conv_backward_geometry(const conv_call *c, const kernel *forward, conv_geometry *g)
{
    const conv_spec *s = c->spec;
    TRY(conv_describe(c->b, s, g));
    TRY(layout_resized(c->b, kernel_layout(forward, ARG_SRC), s->batch, s->in[0], &g->src));
    return layout_resized(c->b, kernel_layout(forward, ARG_DST), s->batch, s->out[0], &g->dst);
}

static comet_status backward_winograd(const conv_call *c, const kernel *forward, kernel **k)
{
    conv_geometry g;
    TRY(conv_backward_geometry(c, forward, &g));
    return winograd_kernel(c->b, c->spec, c->pass, g.src, g.dst, k);
}

/* A descriptor with the forward kernel's weights layout, unless that has no fast implementation. */
static comet_status conv_backward_pd(const conv_call *c, const kernel *forward, dnnl_primitive_desc_t *pd, uint32_t *n_slices)
{
    conv_geometry g;
    TRY(conv_backward_geometry(c, forward, &g));
    const layout *any = g.weights;
    g.weights = kernel_layout(forward, ARG_WEIGHTS);
    if (conv_pd(c, &g, pd, n_slices) == COMET_OK) {
        if (slowness(*pd) == 0)
            return COMET_OK;
        dnnl_primitive_desc_destroy(*pd);
    }
    g.weights = any;
    return conv_pd(c, &g, pd, n_slices);
}

comet_status kernel_conv_backward_data(backend *b, const conv_spec *spec, const kernel *forward, kernel **k)
{
    const conv_call call = {.b = b, .spec = spec, .pass = PASS_BACKWARD_DATA, .forward = forward->pd};
    dnnl_primitive_desc_t pd;
    uint32_t n_slices;
    TRY(backward_winograd(&call, forward, k));
    if (*k)
        return COMET_OK;
    TRY(conv_backward_pd(&call, forward, &pd, &n_slices));
    const operand_md operands[] = {
        {ARG_DIFF_SRC, MD(pd, diff_src, 0)}, {ARG_WEIGHTS, MD(pd, weights, 0)}, {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return CONV_MAKE(b, spec, pd, n_slices, operands, k);
}

comet_status kernel_conv_backward_weights(backend *b, const conv_spec *spec, const kernel *forward, kernel **k)
{
    const conv_call call = {.b = b, .spec = spec, .pass = PASS_BACKWARD_WEIGHTS, .forward = forward->pd};
    dnnl_primitive_desc_t pd;
    uint32_t n_slices;
    TRY(backward_winograd(&call, forward, k));
    if (*k)
        return COMET_OK;
    TRY(conv_backward_pd(&call, forward, &pd, &n_slices));
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)},
                                   {ARG_DIFF_WEIGHTS, MD(pd, diff_weights, 0)},
                                   {ARG_DIFF_BIAS, MD(pd, diff_weights, 1)},
                                   {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return CONV_MAKE(b, spec, pd, n_slices, operands, k);
}
