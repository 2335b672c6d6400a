/*
 * Convolutions: our own Winograd where that pays (winograd.h), else oneDNN's direct ones. oneDNN 3 has no Winograd in float32
 * for x86; that of oneDNN 2, which needs AVX-512 and several times the scratch, was slower in most shapes measured.
 */
#include "train/backend/dnnl_kernel.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv_geometry {
    const layout *src, *weights, *bias, *dst; /* of any layout, or one that is given; bias: NULL where there is none */
    pd_windows windows;
} conv_geometry;

static comet_status conv_describe(backend *b, const conv_spec *s, kernel_pass pass, conv_geometry *g)
{
    const dnnl_dim_t n = (dnnl_dim_t)s->batch, groups = s->groups;
    const dnnl_dims_t src = {n, (dnnl_dim_t)s->in[0], (dnnl_dim_t)s->in[1], (dnnl_dim_t)s->in[2]};
    const dnnl_dims_t dst = {n, (dnnl_dim_t)s->out[0], (dnnl_dim_t)s->out[1], (dnnl_dim_t)s->out[2]};
    const dnnl_dims_t grouped = {groups, dst[1] / groups, src[1] / groups, s->kernel[0], s->kernel[1]};
    const dnnl_dims_t whole = {dst[1], src[1], s->kernel[0], s->kernel[1]};
    const dnnl_dims_t bias = {dst[1]};
    const dnnl_data_type_t type = dnnl_type_of(s->type);
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
    TRY(layout_by_tag(b, 4, src, type, dnnl_format_tag_any, &g->src));
    TRY(layout_by_tag(b, 4, dst, type, dnnl_format_tag_any, &g->dst));
    if (s->bias)
        TRY(layout_by_tag(b, 1, bias, dnnl_f32, dnnl_a, &g->bias));
    const dnnl_data_type_t of_weights = pass == PASS_BACKWARD_WEIGHTS ? dnnl_f32 : type;
    return groups > 1 ? layout_by_tag(b, 5, grouped, of_weights, dnnl_format_tag_any, &g->weights)
                      : layout_by_tag(b, 4, whole, of_weights, dnnl_format_tag_any, &g->weights);
}

enum { REFERENCE_COST = 100 };

/* Has the name of an implementation a part that begins with this word? Parts are separated by ':' and '+', as in
 * "x64:gemm:jit", and in "jit_uni_ncsp_convolution:conv+ref:any", which reorders tensors around another implementation. */
static bool has_part(const char *name, const char *word)
{
    while (name && strncmp(name, word, strlen(word)) != 0) {
        name = strpbrk(name, ":+");
        name = name ? name + 1 : NULL;
    }
    return name != NULL;
}

/* How slow an implementation is, by its name: 0 is fast, a product of matrices is slower by a few times, reference code by
 * hundreds. */
static int slowness(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success || !name)
        return 0;
    return has_part(name, "ref") ? REFERENCE_COST : has_part(name, "gemm");
}

bool kernel_is_slow(const kernel *k)
{
    return k->pd && slowness(k->pd) > 0;
}

/* One pass of a convolution. */
typedef struct conv_call {
    backend *b;
    const conv_spec *spec;
    kernel_pass pass;
    const_dnnl_primitive_desc_t forward; /* of a backward pass, else NULL */
} conv_call;

static comet_status conv_pd(const conv_call *c, const conv_geometry *g, dnnl_primitive_desc_t *pd)
{
    const backend *b = c->b;
    pd_base base = {.engine = b->engine, .attribute = b->plain, .forward = c->forward};
    if (c->pass == PASS_FORWARD)
        base.attribute = c->spec->adds ? b->sum : c->spec->relu ? b->relu : b->plain;
    const pd_operands o = {g->src->md, g->weights->md, g->bias ? g->bias->md : NULL, g->dst->md};
    return dnnl_check(pd_conv(&base, c->pass, dnnl_convolution_direct, &o, &g->windows, pd), "a convolution of this shape");
}

/* How slow a backward pass is after a forward pass. */
static int backward_slowness(const conv_call *forward, const_dnnl_primitive_desc_t pd, kernel_pass pass)
{
    const conv_spec *s = forward->spec;
    const conv_call call = {.b = forward->b, .spec = s, .pass = pass, .forward = pd};
    const int none = 1000;
    conv_geometry backward;
    dnnl_primitive_desc_t made;
    if (conv_describe(call.b, s, pass, &backward) != COMET_OK ||
        layout_intern(call.b, MD(pd, src, 0), &backward.src) != COMET_OK ||
        layout_intern(call.b, MD(pd, dst, 0), &backward.dst) != COMET_OK ||
        layout_resized(call.b, backward.src, s->batch, s->in[0], &backward.src) != COMET_OK ||
        layout_resized(call.b, backward.dst, s->batch, s->out[0], &backward.dst) != COMET_OK ||
        conv_pd(&call, &backward, &made) != COMET_OK)
        return none;
    const int cost = slowness(made);
    dnnl_primitive_desc_destroy(made);
    return cost;
}

/* The same of the gradient of the weights: both versions of oneDNN may prefer a planar source of 4 to 15 channels, and have
 * only reference code for its gradients. Our own kernel serves depthwise convolutions where oneDNN has none. */
static int weights_slowness(const conv_call *forward, const_dnnl_primitive_desc_t pd)
{
    const conv_spec *s = forward->spec;
    const bool depthwise = s->groups > 1 && s->groups == s->in[0] && s->groups == s->out[0];
    return depthwise ? 0 : backward_slowness(forward, pd, PASS_BACKWARD_WEIGHTS);
}

typedef struct conv_choice {
    dnnl_primitive_desc_t pd; /* NULL: none yet */
    int cost;
} conv_choice;

/* Makes the choice that of tensors that lie like g->src and g->dst where that is faster than the choice so far, by at least
 * `by`. */
static comet_status try_layouts(const conv_call *c, const conv_geometry *g, int by, conv_choice *best)
{
    conv_choice made;
    if (best->pd && best->cost == 0)
        return COMET_OK;
    TRY(conv_pd(c, g, &made.pd));
    made.cost = slowness(made.pd) + weights_slowness(c, made.pd);
    const bool better = !best->pd || best->cost - made.cost >= by;
    const dnnl_primitive_desc_t worse = better ? best->pd : made.pd;
    if (worse)
        dnnl_primitive_desc_destroy(worse);
    if (better)
        *best = made;
    return COMET_OK;
}

/* The forward pass: takes the source as it lies if forward and the gradient of the weights are fast for it, else as the library
 * prefers it for forward, else in blocks where only they have a fast gradient, else planes throughout: with AVX2 a source of
 * one channel, as of grey images, has no fast gradient otherwise. */
static comet_status choose_forward(const conv_call *call, const layout *src, conv_choice *best)
{
    static const dnnl_format_tag_t blocked[] = {dnnl_nChw16c, dnnl_nChw8c};
    backend *b = call->b;
    conv_geometry g;
    *best = (conv_choice){.pd = NULL};
    TRY(conv_describe(b, call->spec, PASS_FORWARD, &g));
    const layout *any = g.src;
    if (layout_typed(b, src, call->spec->type, &g.src) == COMET_OK)
        (void)try_layouts(call, &g, 0, best);
    g.src = any;
    const comet_status status = try_layouts(call, &g, 0, best);
    if (!best->pd)
        return status;
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++)
        if (layout_by_tag(b, 4, any->dims, any->type, blocked[i], &g.src) == COMET_OK)
            (void)try_layouts(call, &g, 1, best);
    if (layout_by_tag(b, 4, any->dims, any->type, dnnl_nchw, &g.src) == COMET_OK &&
        layout_by_tag(b, 4, g.dst->dims, any->type, dnnl_nchw, &g.dst) == COMET_OK)
        (void)try_layouts(call, &g, REFERENCE_COST / 2, best);
    return COMET_OK;
}

comet_status kernel_conv_forward(backend *b, const conv_spec *spec, const layout *src, kernel **k)
{
    const conv_call call = {.b = b, .spec = spec, .pass = PASS_FORWARD};
    conv_choice best;
    TRY(winograd_kernel(b, spec, PASS_FORWARD, NULL, NULL, k));
    if (*k)
        return COMET_OK;
    TRY(choose_forward(&call, src, &best));
    const operand_md operands[] = {{ARG_SRC, MD(best.pd, src, 0)},
                                   {ARG_WEIGHTS, MD(best.pd, weights, 0)},
                                   {ARG_BIAS, MD(best.pd, weights, 1)},
                                   {ARG_DST, MD(best.pd, dst, 0)}};
    return MAKE(b, best.pd, operands, k);
}

static comet_status conv_backward_geometry(const conv_call *c, const kernel *forward, conv_geometry *g)
{
    const conv_spec *s = c->spec;
    TRY(conv_describe(c->b, s, c->pass, g));
    TRY(layout_resized(c->b, kernel_layout(forward, ARG_SRC), s->batch, s->in[0], &g->src));
    return layout_resized(c->b, kernel_layout(forward, ARG_DST), s->batch, s->out[0], &g->dst);
}

static comet_status backward_winograd(const conv_call *c, const kernel *forward, kernel **k)
{
    conv_geometry g;
    TRY(conv_backward_geometry(c, forward, &g));
    return winograd_kernel(c->b, c->spec, c->pass, g.src, g.dst, k);
}

/* A descriptor with the forward kernel's weights layout, unless that has no fast implementation, as always in bf16. */
static comet_status conv_backward_pd(const conv_call *c, const kernel *forward, dnnl_primitive_desc_t *pd)
{
    conv_geometry g;
    TRY(conv_backward_geometry(c, forward, &g));
    const layout *any = g.weights;
    g.weights = kernel_layout(forward, ARG_WEIGHTS);
    if (c->spec->type == COMET_DTYPE_F32 && conv_pd(c, &g, pd) == COMET_OK) {
        if (slowness(*pd) == 0)
            return COMET_OK;
        dnnl_primitive_desc_destroy(*pd);
    }
    g.weights = any;
    return conv_pd(c, &g, pd);
}

comet_status kernel_conv_backward_data(backend *b, const conv_spec *spec, const kernel *forward, kernel **k)
{
    const conv_call call = {.b = b, .spec = spec, .pass = PASS_BACKWARD_DATA, .forward = forward->pd};
    dnnl_primitive_desc_t pd;
    TRY(backward_winograd(&call, forward, k));
    if (*k)
        return COMET_OK;
    TRY(conv_backward_pd(&call, forward, &pd));
    const operand_md operands[] = {
        {ARG_DIFF_SRC, MD(pd, diff_src, 0)}, {ARG_WEIGHTS, MD(pd, weights, 0)}, {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_conv_backward_weights(backend *b, const conv_spec *spec, const kernel *forward, kernel **k)
{
    const conv_call call = {.b = b, .spec = spec, .pass = PASS_BACKWARD_WEIGHTS, .forward = forward->pd};
    dnnl_primitive_desc_t pd;
    TRY(backward_winograd(&call, forward, k));
    if (*k)
        return COMET_OK;
    TRY(conv_backward_pd(&call, forward, &pd));
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)},
                                   {ARG_DIFF_WEIGHTS, MD(pd, diff_weights, 0)},
                                   {ARG_DIFF_BIAS, MD(pd, diff_weights, 1)},
                                   {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status conv_is_fast(backend *b, const conv_spec *spec, const layout *src, bool data, bool *fast)
{
    const conv_call call = {.b = b, .spec = spec, .pass = PASS_FORWARD};
    conv_choice best;
    *fast = false;
    if (choose_forward(&call, src, &best) != COMET_OK)
        return COMET_OK; /* there is none */
    *fast = best.cost == 0 && (!data || backward_slowness(&call, best.pd, PASS_BACKWARD_DATA) == 0);
    dnnl_primitive_desc_destroy(best.pd);
    return COMET_OK;
}
