/* Kernels on oneDNN 2 other than convolutions: linear, activations, pooling, normalisation, joining and moving. */
#include "train/backend/dnnl2.h"

#include <string.h>

/* ---- linear ---- */

comet_status kernel_linear_forward(backend *b, uint64_t outputs, bool bias, bool relu, const layout *src, kernel **k)
{
    const dnnl_dim_t n_out = (dnnl_dim_t)outputs;
    dnnl_memory_desc_t weights, bias_md, dst;
    dnnl_dims_t w = {0};
    memcpy(w, src->md.dims, sizeof(dnnl_dim_t) * (size_t)src->md.ndims);
    w[0] = n_out;
    TRY(md_plain(&weights, src->md.ndims, w, dnnl_format_tag_any));
    TRY(md_plain(&bias_md, 1, (const dnnl_dims_t){n_out}, dnnl_a));
    TRY(md_plain(&dst, 2, (const dnnl_dims_t){src->md.dims[0], n_out}, dnnl_ab));
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY_DNNL(
        dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_training, &src->md, &weights, bias ? &bias_md : NULL, &dst),
        "a linear layer of this shape");
    TRY(make_pd(b, &desc, relu, NULL, "a linear layer of this shape", &pd));
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)},
                                   {ARG_WEIGHTS, MD(pd, weights, 0)},
                                   {ARG_BIAS, MD(pd, weights, 1)},
                                   {ARG_DST, MD(pd, dst, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_linear_backward_data(backend *b, const kernel *forward, kernel **k)
{
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_inner_product_backward_data_desc_init(&desc, md_of(forward, ARG_SRC), md_of(forward, ARG_WEIGHTS),
                                                        md_of(forward, ARG_DST)),
             "a linear layer backward");
    TRY(make_pd(b, &desc, false, forward, "a linear layer backward", &pd));
    const operand_md operands[] = {
        {ARG_DIFF_SRC, MD(pd, diff_src, 0)}, {ARG_WEIGHTS, MD(pd, weights, 0)}, {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_linear_backward_weights(backend *b, bool bias, const kernel *forward, kernel **k)
{
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_inner_product_backward_weights_desc_init(&desc, md_of(forward, ARG_SRC), md_of(forward, ARG_WEIGHTS),
                                                           bias ? md_of(forward, ARG_BIAS) : NULL, md_of(forward, ARG_DST)),
             "a linear layer backward");
    TRY(make_pd(b, &desc, false, forward, "a linear layer backward", &pd));
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)},
                                   {ARG_DIFF_WEIGHTS, MD(pd, diff_weights, 0)},
                                   {ARG_DIFF_BIAS, MD(pd, diff_weights, 1)},
                                   {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return MAKE(b, pd, operands, k);
}

/* ---- activations ---- */

typedef struct activation {
    dnnl_alg_kind_t forward, backward;
    float alpha, beta;
    bool from_src; /* backward needs the input, else the output */
} activation;

static const activation activations[COMET_N_OPS] = {
    [COMET_OP_RELU] = {dnnl_eltwise_relu, dnnl_eltwise_relu_use_dst_for_bwd, 0, 0, false},
    [COMET_OP_RELU6] = {dnnl_eltwise_clip_v2, dnnl_eltwise_clip_v2_use_dst_for_bwd, 0, 6, false},
    [COMET_OP_SILU] = {dnnl_eltwise_swish, dnnl_eltwise_swish, 1, 0, true},
    [COMET_OP_SIGMOID] = {dnnl_eltwise_logistic, dnnl_eltwise_logistic_use_dst_for_bwd, 0, 0, false},
};

static comet_status activation_pd(backend *b, const activation *a, const layout *data, dnnl_alg_kind_t algorithm,
                                  dnnl_primitive_desc_t *pd)
{
    dnnl_eltwise_desc_t desc;
    TRY_DNNL(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training, algorithm, &data->md, a->alpha, a->beta),
             "an activation");
    return make_pd(b, &desc, false, NULL, "an activation", pd);
}

comet_status kernel_activation_forward(backend *b, comet_op op, const layout *data, kernel **k)
{
    dnnl_primitive_desc_t pd;
    TRY(activation_pd(b, &activations[op], data, activations[op].forward, &pd));
    const operand_md operands[] = {{ARG_SRC, &data->md}, {ARG_DST, &data->md}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_activation_backward(backend *b, comet_op op, const layout *data, kernel **k)
{
    const activation *a = &activations[op];
    dnnl_eltwise_desc_t desc;
    dnnl_primitive_desc_t pd, hint;
    TRY_DNNL(dnnl_eltwise_backward_desc_init(&desc, a->backward, &data->md, &data->md, a->alpha, a->beta),
             "an activation backward");
    TRY(activation_pd(b, a, data, a->backward, &hint));
    comet_status status =
        dnnl_check(dnnl_primitive_desc_create(&pd, &desc, b->plain, b->engine, hint), "an activation backward");
    dnnl_primitive_desc_destroy(hint);
    TRY(status);
    const operand_md operands[] = {
        {a->from_src ? ARG_SRC : ARG_DST, &data->md}, {ARG_DIFF_SRC, &data->md}, {ARG_DIFF_DST, &data->md}};
    return MAKE(b, pd, operands, k);
}

/* ---- pooling ---- */

typedef struct pool_geometry {
    dnnl_alg_kind_t algorithm;
    dnnl_memory_desc_t dst; /* of any layout */
    dnnl_dims_t stride, kernel, dilation, before, after;
} pool_geometry;

static comet_status pool_describe(const pool_spec *s, const dnnl_memory_desc_t *src, pool_geometry *g)
{
    const dnnl_dims_t dst = {src->dims[0], src->dims[1], (dnnl_dim_t)s->out[0], (dnnl_dim_t)s->out[1]};
    /* Without padding a last window that is not full divides by what it covers, as torch does. */
    const bool padded = s->padding[0] > 0 || s->padding[1] > 0;
    g->algorithm = s->max ? dnnl_pooling_max : padded ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
    for (int i = 0; i < 2; i++) {
        g->stride[i] = s->stride[i];
        g->kernel[i] = s->kernel[i];
        g->dilation[i] = 0;
        g->before[i] = s->padding[i];
        g->after[i] = (dst[2 + i] - 1) * g->stride[i] + g->kernel[i] - src->dims[2 + i] - g->before[i];
    }
    return md_plain(&g->dst, 4, dst, dnnl_format_tag_any);
}

comet_status kernel_pool_forward(backend *b, const pool_spec *spec, const layout *src, kernel **k)
{
    pool_geometry g;
    dnnl_pooling_v2_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY(pool_describe(spec, &src->md, &g));
    TRY_DNNL(dnnl_pooling_v2_forward_desc_init(&desc, dnnl_forward_training, g.algorithm, &src->md, &g.dst, g.stride, g.kernel,
                                               g.dilation, g.before, g.after),
             "pooling of this shape");
    TRY(make_pd(b, &desc, false, NULL, "pooling of this shape", &pd));
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)}, {ARG_DST, MD(pd, dst, 0)}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_pool_backward(backend *b, const pool_spec *spec, const kernel *forward, kernel **k)
{
    const dnnl_memory_desc_t *src = md_of(forward, ARG_SRC), *dst = md_of(forward, ARG_DST);
    pool_geometry g;
    dnnl_pooling_v2_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY(pool_describe(spec, src, &g));
    TRY_DNNL(
        dnnl_pooling_v2_backward_desc_init(&desc, g.algorithm, src, dst, g.stride, g.kernel, g.dilation, g.before, g.after),
        "pooling backward");
    TRY(make_pd(b, &desc, false, forward, "pooling backward", &pd));
    const operand_md operands[] = {
        {ARG_DIFF_SRC, MD(pd, diff_src, 0)}, {ARG_DIFF_DST, MD(pd, diff_dst, 0)}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

/* ---- local response normalisation ---- */

comet_status kernel_lrn_forward(backend *b, const comet_layer *l, const layout *data, kernel **k)
{
    dnnl_lrn_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_lrn_forward_desc_init(&desc, dnnl_forward_training, dnnl_lrn_across_channels, &data->md, l->lrn_size,
                                        l->lrn_alpha, l->lrn_beta, l->lrn_k),
             "lrn");
    TRY(make_pd(b, &desc, false, NULL, "lrn", &pd));
    const operand_md operands[] = {{ARG_SRC, &data->md}, {ARG_DST, &data->md}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_lrn_backward(backend *b, const comet_layer *l, const kernel *forward, kernel **k)
{
    const dnnl_memory_desc_t *data = md_of(forward, ARG_SRC);
    dnnl_lrn_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_lrn_backward_desc_init(&desc, dnnl_lrn_across_channels, data, data, l->lrn_size, l->lrn_alpha, l->lrn_beta,
                                         l->lrn_k),
             "lrn backward");
    TRY(make_pd(b, &desc, false, forward, "lrn backward", &pd));
    const operand_md operands[] = {
        {ARG_SRC, data}, {ARG_DIFF_SRC, data}, {ARG_DIFF_DST, data}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

/* ---- joining and moving ---- */

comet_status kernel_add(backend *b, const layout *data, kernel **k)
{
    dnnl_binary_desc_t desc;
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_binary_desc_init(&desc, dnnl_binary_add, &data->md, &data->md, &data->md), "an addition");
    TRY(make_pd(b, &desc, false, NULL, "an addition", &pd));
    const operand_md operands[] = {{ARG_SRC, &data->md}, {ARG_SRC_1, &data->md}, {ARG_DST, &data->md}};
    return MAKE(b, pd, operands, k);
}

/* The order of `like`, which oneDNN does not always choose itself, for another number of channels. */
static comet_status md_like(const dnnl_memory_desc_t *like, dnnl_dim_t channels, dnnl_memory_desc_t *md)
{
    const dnnl_format_tag_t tags[] = {dnnl_nchw, dnnl_nhwc, dnnl_nChw16c, dnnl_nChw8c, dnnl_nChw4c};
    const layout lies = {.md = *like};
    dnnl_format_tag_t tag = dnnl_ab;
    dnnl_dims_t dims;
    for (size_t i = 0; like->ndims == 4 && i < sizeof tags / sizeof tags[0]; i++)
        if (layout_has_tag(&lies, tags[i])) {
            tag = tags[i];
            break;
        }
    memcpy(dims, like->dims, sizeof dims);
    dims[1] = channels;
    return md_plain(md, like->ndims, dims, tag);
}

comet_status kernel_concat(backend *b, uint32_t n, const layout *const *sources, kernel **k)
{
    dnnl_memory_desc_t mds[COMET_MAX_INPUTS], dst;
    operand_md operands[COMET_MAX_INPUTS + 1];
    dnnl_primitive_desc_t pd;
    dnnl_dim_t channels = 0;
    for (uint32_t i = 0; i < n; i++) {
        mds[i] = sources[i]->md;
        operands[i] = (operand_md){(kernel_arg)(ARG_MULTIPLE + i), &mds[i]};
        channels += mds[i].dims[1];
    }
    TRY(md_like(&mds[0], channels, &dst));
    TRY_DNNL(dnnl_concat_primitive_desc_create(&pd, &dst, (int)n, 1, mds, b->plain, b->engine), "concat");
    operands[n] = (operand_md){ARG_DST, MD(pd, dst, 0)};
    return kernel_make(b, pd, operands, n + 1, k);
}

static comet_status reorder_pd(backend *b, const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *dst, kernel **k)
{
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_reorder_primitive_desc_create(&pd, src, b->engine, dst, b->engine, b->plain), "a change of layout");
    const operand_md operands[] = {{ARG_SRC, src}, {ARG_DST, dst}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_take_channels(backend *b, const layout *whole, uint64_t first, const layout *part, kernel **k)
{
    const dnnl_dims_t offsets = {0, (dnnl_dim_t)first};
    dnnl_memory_desc_t view;
    TRY_DNNL(dnnl_memory_desc_init_submemory(&view, &whole->md, part->md.dims, offsets), "a view of some channels");
    return reorder_pd(b, &view, &part->md, k);
}

comet_status backend_multiply(const product_spec *p, const float *a, const float *b, float *c)
{
    const dnnl_dim_t rows = (dnnl_dim_t)p->rows, columns = (dnnl_dim_t)p->columns, inner = (dnnl_dim_t)p->inner;
    return dnnl_check(dnnl_sgemm(p->transposed ? 'T' : 'N', 'N', rows, columns, inner, 1, a, p->transposed ? rows : inner, b,
                                 columns, 0, c, columns),
                      "a product of matrices");
}

comet_status kernel_reorder(backend *b, const layout *src, const layout *dst, kernel **k)
{
    return reorder_pd(b, &src->md, &dst->md, k);
}
