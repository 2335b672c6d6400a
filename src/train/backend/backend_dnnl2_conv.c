/* Convolutions on oneDNN 2: direct or Winograd, whole or in slices of the batch. */
#include "train/backend/dnnl2.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv_geometry {
    dnnl_memory_desc_t src, weights, bias, dst; /* of any layout */
    dnnl_dims_t stride, dilation, before, after;
} conv_geometry;

static comet_status conv_describe(const conv_spec *s, conv_geometry *g)
{
    const dnnl_dim_t n = (dnnl_dim_t)s->batch, groups = s->groups;
    const dnnl_dims_t src = {n, (dnnl_dim_t)s->in[0], (dnnl_dim_t)s->in[1], (dnnl_dim_t)s->in[2]};
    const dnnl_dims_t dst = {n, (dnnl_dim_t)s->out[0], (dnnl_dim_t)s->out[1], (dnnl_dim_t)s->out[2]};
    const dnnl_dims_t grouped = {groups, dst[1] / groups, src[1] / groups, s->kernel[0], s->kernel[1]};
    const dnnl_dims_t whole = {dst[1], src[1], s->kernel[0], s->kernel[1]};
    const dnnl_dims_t bias = {dst[1]};
    for (int i = 0; i < 2; i++) {
        g->stride[i] = s->stride[i];
        g->dilation[i] = (dnnl_dim_t)s->dilation[i] - 1;
        g->before[i] = s->padding[i];
        /* What the last window really covers; torch ignores the rest of the padding. */
        g->after[i] = (dst[2 + i] - 1) * g->stride[i] + (dnnl_dim_t)s->dilation[i] * ((dnnl_dim_t)s->kernel[i] - 1) + 1 -
                      src[2 + i] - g->before[i];
    }
    TRY(md_plain(&g->src, 4, src, dnnl_format_tag_any));
    TRY(md_plain(&g->dst, 4, dst, dnnl_format_tag_any));
    TRY(md_plain(&g->bias, 1, bias, dnnl_a));
    return groups > 1 ? md_plain(&g->weights, 5, grouped, dnnl_format_tag_any)
                      : md_plain(&g->weights, 4, whole, dnnl_format_tag_any);
}

static uint64_t pd_scratch_bytes(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
}

/* Descriptors of one pass of a convolution for an algorithm. */
typedef dnnl_status_t (*conv_init)(dnnl_convolution_desc_t *desc, dnnl_alg_kind_t algorithm, const conv_geometry *g, bool bias);

static dnnl_status_t init_forward(dnnl_convolution_desc_t *d, dnnl_alg_kind_t algorithm, const conv_geometry *g, bool bias)
{
    return dnnl_dilated_convolution_forward_desc_init(d, dnnl_forward_training, algorithm, &g->src, &g->weights,
                                                      bias ? &g->bias : NULL, &g->dst, g->stride, g->dilation, g->before,
                                                      g->after);
}

static dnnl_status_t init_backward_data(dnnl_convolution_desc_t *d, dnnl_alg_kind_t algorithm, const conv_geometry *g,
                                        bool bias)
{
    (void)bias;
    return dnnl_dilated_convolution_backward_data_desc_init(d, algorithm, &g->src, &g->weights, &g->dst, g->stride, g->dilation,
                                                            g->before, g->after);
}

static dnnl_status_t init_backward_weights(dnnl_convolution_desc_t *d, dnnl_alg_kind_t algorithm, const conv_geometry *g,
                                           bool bias)
{
    return dnnl_dilated_convolution_backward_weights_desc_init(d, algorithm, &g->src, &g->weights, bias ? &g->bias : NULL,
                                                               &g->dst, g->stride, g->dilation, g->before, g->after);
}

static bool is_slow(const_dnnl_primitive_desc_t pd)
{
    const char *text = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&text) != dnnl_success || !text)
        return false;
    return strncmp(text, "ref", 3) == 0 || strncmp(text, "gemm", 4) == 0;
}

static void set_batch(dnnl_memory_desc_t *md, dnnl_dim_t batch)
{
    md->dims[0] = md->padded_dims[0] = batch;
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
        dnnl_memory_desc_t whole = o->layout->md;
        o->slice_bytes = layout_bytes(o->layout);
        set_batch(&whole, (dnnl_dim_t)batch);
        TRY(layout_intern(k->b, &whole, &o->layout));
    }
    return COMET_OK;
}

bool kernel_is_slow(const kernel *k)
{
    return is_slow(k->pd);
}

static dnnl_primitive_attr_t conv_attribute(const backend *b, const conv_spec *s, const kernel *hint)
{
    return hint ? b->plain : s->adds ? b->sum : s->relu ? b->relu : b->plain;
}

/* Winograd F(4,3) for the smallest number of slices whose scratchpad is not too large. */
static bool winograd_pd(backend *b, const conv_spec *s, conv_init init, const conv_geometry *g, const kernel *hint,
                        uint64_t scratch_bytes, dnnl_primitive_desc_t *pd, uint32_t *n_slices)
{
    const dnnl_primitive_attr_t attr = conv_attribute(b, s, hint);
    for (uint32_t n = 1; n <= s->batch; n++) {
        if (s->batch % n != 0)
            continue;
        conv_geometry sliced = *g;
        dnnl_convolution_desc_t desc;
        set_batch(&sliced.src, (dnnl_dim_t)(s->batch / n));
        set_batch(&sliced.dst, (dnnl_dim_t)(s->batch / n));
        if (init(&desc, dnnl_convolution_winograd, &sliced, s->bias) != dnnl_success ||
            dnnl_primitive_desc_create(pd, &desc, attr, b->engine, hint ? hint->pd : NULL) != dnnl_success)
            return false;
        if (pd_scratch_bytes(*pd) <= scratch_bytes) {
            *n_slices = n;
            return true;
        }
        dnnl_primitive_desc_destroy(*pd);
    }
    return false;
}

/* Winograd where it is allowed and exists (3 x 3, stride 1, AVX-512), about twice as fast as direct convolution in every shape
 * measured; else direct. */
static comet_status conv_pd(backend *b, const conv_spec *s, conv_init init, const conv_geometry *g, const kernel *hint,
                            dnnl_primitive_desc_t *pd, uint32_t *n_slices)
{
    const uint64_t scratch_bytes = init == init_backward_weights ? s->weights_scratch_bytes : s->data_scratch_bytes;
    const dnnl_primitive_attr_t attr = conv_attribute(b, s, hint);
    dnnl_convolution_desc_t desc;
    if (s->winograd && winograd_pd(b, s, init, g, hint, scratch_bytes, pd, n_slices))
        return COMET_OK;
    *n_slices = 1;
    TRY_DNNL(init(&desc, dnnl_convolution_direct, g, s->bias), "a convolution of this shape");
    return dnnl_check(dnnl_primitive_desc_create(pd, &desc, attr, b->engine, hint ? hint->pd : NULL),
                      "a convolution of this shape");
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

/* Takes the source as it lies if there is a fast implementation for that, else as the library prefers. */
comet_status kernel_conv_forward(backend *b, const conv_spec *spec, const layout *src, kernel **k)
{
    conv_geometry g;
    dnnl_primitive_desc_t pd, preferred;
    uint32_t n_slices, n_preferred;
    TRY(conv_describe(spec, &g));
    const dnnl_memory_desc_t any = g.src;
    g.src = src->md;
    comet_status status = conv_pd(b, spec, init_forward, &g, NULL, &pd, &n_slices);
    if (status != COMET_OK || is_slow(pd)) {
        g.src = any;
        if (status != COMET_OK)
            TRY(conv_pd(b, spec, init_forward, &g, NULL, &pd, &n_slices));
        else if (conv_pd(b, spec, init_forward, &g, NULL, &preferred, &n_preferred) == COMET_OK) {
            dnnl_primitive_desc_destroy(pd);
            pd = preferred;
            n_slices = n_preferred;
        }
    }
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)},
                                   {ARG_WEIGHTS, MD(pd, weights, 0)},
                                   {ARG_BIAS, MD(pd, weights, 1)},
                                   {ARG_DST, MD(pd, dst, 0)}};
    return CONV_MAKE(b, spec, pd, n_slices, operands, k);
}

/* Reduces the channels, by whole blocks, where the channels of an image lie one after another. */
static void set_channels(dnnl_memory_desc_t *md, dnnl_dim_t channels)
{
    if (channels == md->dims[1])
        return;
    md->format_desc.blocking.strides[0] = md->format_desc.blocking.strides[0] / md->padded_dims[1] * channels;
    md->dims[1] = md->padded_dims[1] = channels;
}

static comet_status conv_backward_geometry(const conv_spec *spec, const kernel *forward, conv_geometry *g)
{
    TRY(conv_describe(spec, g));
    g->src = *md_of(forward, ARG_SRC);
    g->dst = *md_of(forward, ARG_DST);
    set_batch(&g->src, (dnnl_dim_t)spec->batch);
    set_batch(&g->dst, (dnnl_dim_t)spec->batch);
    set_channels(&g->src, (dnnl_dim_t)spec->in[0]);
    return COMET_OK;
}

/* A descriptor with the forward kernel's weights layout, unless that has no fast implementation. */
static comet_status conv_backward_pd(backend *b, const conv_spec *spec, conv_init init, conv_geometry *g, const kernel *forward,
                                     dnnl_primitive_desc_t *pd, uint32_t *n_slices)
{
    const dnnl_memory_desc_t any = g->weights;
    g->weights = *md_of(forward, ARG_WEIGHTS);
    if (conv_pd(b, spec, init, g, forward, pd, n_slices) == COMET_OK) {
        if (!is_slow(*pd))
            return COMET_OK;
        dnnl_primitive_desc_destroy(*pd);
    }
    g->weights = any;
    return conv_pd(b, spec, init, g, forward, pd, n_slices);
}

comet_status kernel_conv_backward_data(backend *b, const conv_spec *spec, const kernel *forward, kernel **k)
{
    conv_geometry g;
    dnnl_primitive_desc_t pd;
    uint32_t n_slices;
    TRY(conv_backward_geometry(spec, forward, &g));
    TRY(conv_backward_pd(b, spec, init_backward_data, &g, forward, &pd, &n_slices));
    const operand_md operands[] = {
        {ARG_DIFF_SRC, MD(pd, diff_src, 0)}, {ARG_WEIGHTS, MD(pd, weights, 0)}, {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return CONV_MAKE(b, spec, pd, n_slices, operands, k);
}

comet_status kernel_conv_backward_weights(backend *b, const conv_spec *spec, const kernel *forward, kernel **k)
{
    conv_geometry g;
    dnnl_primitive_desc_t pd;
    uint32_t n_slices;
    TRY(conv_backward_geometry(spec, forward, &g));
    TRY(conv_backward_pd(b, spec, init_backward_weights, &g, forward, &pd, &n_slices));
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)},
                                   {ARG_DIFF_WEIGHTS, MD(pd, diff_weights, 0)},
                                   {ARG_DIFF_BIAS, MD(pd, diff_weights, 1)},
                                   {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return CONV_MAKE(b, spec, pd, n_slices, operands, k);
}
