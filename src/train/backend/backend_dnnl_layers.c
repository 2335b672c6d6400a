/* Kernels on oneDNN other than convolutions: linear, activations, pooling, normalisation, joining and moving. */
#include "train/backend/dnnl_kernel.h"

#include <string.h>

/* ---- linear ---- */

comet_status kernel_linear_forward(backend *b, uint64_t outputs, bool bias, bool relu, const layout *src, kernel **k)
{
    const dnnl_dim_t n_out = (dnnl_dim_t)outputs;
    const layout *weights, *bias_of, *dst;
    dnnl_dims_t w = {0};
    memcpy(w, src->dims, sizeof(dnnl_dim_t) * (size_t)src->n_dims);
    w[0] = n_out;
    TRY(layout_by_tag(b, src->n_dims, w, src->type, dnnl_format_tag_any, &weights));
    TRY(layout_by_tag(b, 1, (const dnnl_dims_t){n_out}, dnnl_f32, dnnl_a, &bias_of));
    TRY(layout_by_tag(b, 2, (const dnnl_dims_t){src->dims[0], n_out}, src->type, dnnl_ab, &dst));
    pd_base base = base_of(b, NULL);
    base.attribute = relu ? b->relu : b->plain;
    const pd_operands o = {src->md, weights->md, bias ? bias_of->md : NULL, dst->md};
    dnnl_primitive_desc_t pd;
    TRY_DNNL(pd_linear(&base, PASS_FORWARD, &o, &pd), "a linear layer of this shape");
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)},
                                   {ARG_WEIGHTS, MD(pd, weights, 0)},
                                   {ARG_BIAS, MD(pd, weights, 1)},
                                   {ARG_DST, MD(pd, dst, 0)}};
    return MAKE(b, pd, operands, k);
}

/* In bf16 each pass has weights of its own, and their gradient is in floats. */
static comet_status backward_weights_layout(backend *b, kernel_pass pass, const kernel *forward, const layout **l)
{
    *l = kernel_layout(forward, ARG_WEIGHTS);
    if ((*l)->type == dnnl_f32)
        return COMET_OK;
    return layout_by_tag(b, (*l)->n_dims, (*l)->dims, pass == PASS_BACKWARD_WEIGHTS ? dnnl_f32 : (*l)->type,
                         dnnl_format_tag_any, l);
}

static comet_status linear_backward_pd(backend *b, kernel_pass pass, bool bias, const kernel *forward,
                                       dnnl_primitive_desc_t *pd)
{
    const pd_base base = base_of(b, forward);
    const layout *weights;
    TRY(backward_weights_layout(b, pass, forward, &weights));
    const pd_operands o = {md_of(forward, ARG_SRC), weights->md, bias ? md_of(forward, ARG_BIAS) : NULL,
                           md_of(forward, ARG_DST)};
    return dnnl_check(pd_linear(&base, pass, &o, pd), "a linear layer backward");
}

comet_status kernel_linear_backward_data(backend *b, const kernel *forward, kernel **k)
{
    dnnl_primitive_desc_t pd;
    TRY(linear_backward_pd(b, PASS_BACKWARD_DATA, false, forward, &pd));
    const operand_md operands[] = {
        {ARG_DIFF_SRC, MD(pd, diff_src, 0)}, {ARG_WEIGHTS, MD(pd, weights, 0)}, {ARG_DIFF_DST, MD(pd, diff_dst, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_linear_backward_weights(backend *b, bool bias, const kernel *forward, kernel **k)
{
    dnnl_primitive_desc_t pd;
    TRY(linear_backward_pd(b, PASS_BACKWARD_WEIGHTS, bias, forward, &pd));
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

/* With base->forward set, the descriptor of the backward pass. */
static comet_status activation_pd(const pd_base *base, const activation *a, dnnl_alg_kind_t algorithm, const layout *data,
                                  dnnl_primitive_desc_t *pd)
{
    const pd_activation operation = {algorithm, a->alpha, a->beta};
    return dnnl_check(pd_eltwise(base, &operation, data->md, pd), "an activation");
}

comet_status kernel_activation_forward(backend *b, comet_op op, const layout *data, kernel **k)
{
    const pd_base base = base_of(b, NULL);
    dnnl_primitive_desc_t pd;
    TRY(activation_pd(&base, &activations[op], activations[op].forward, data, &pd));
    const operand_md operands[] = {{ARG_SRC, data->md}, {ARG_DST, data->md}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_activation_backward(backend *b, comet_op op, const layout *data, kernel **k)
{
    const activation *a = &activations[op];
    pd_base base = base_of(b, NULL);
    dnnl_primitive_desc_t pd, forward;
    TRY(activation_pd(&base, a, a->backward, data, &forward));
    base.forward = forward;
    comet_status status = activation_pd(&base, a, a->backward, data, &pd);
    dnnl_primitive_desc_destroy(forward);
    TRY(status);
    const operand_md operands[] = {
        {a->from_src ? ARG_SRC : ARG_DST, data->md}, {ARG_DIFF_SRC, data->md}, {ARG_DIFF_DST, data->md}};
    return MAKE(b, pd, operands, k);
}

/* ---- pooling ---- */

typedef struct pool_geometry {
    dnnl_alg_kind_t algorithm;
    dnnl_dims_t dst;
    pd_windows windows;
} pool_geometry;

static void pool_describe(const pool_spec *s, const layout *src, pool_geometry *g)
{
    const dnnl_dims_t dst = {src->dims[0], src->dims[1], (dnnl_dim_t)s->out[0], (dnnl_dim_t)s->out[1]};
    /* Without padding a last window that is not full divides by what it covers, as torch does. */
    const bool padded = s->padding[0] > 0 || s->padding[1] > 0;
    *g = (pool_geometry){.algorithm = s->max   ? dnnl_pooling_max
                                      : padded ? dnnl_pooling_avg_include_padding
                                               : dnnl_pooling_avg_exclude_padding};
    memcpy(g->dst, dst, sizeof dst);
    pd_windows *w = &g->windows;
    for (int i = 0; i < 2; i++) {
        w->stride[i] = s->stride[i];
        w->kernel[i] = s->kernel[i];
        w->before[i] = s->padding[i];
        w->after[i] = (dst[2 + i] - 1) * w->stride[i] + w->kernel[i] - src->dims[2 + i] - w->before[i];
    }
}

comet_status kernel_pool_forward(backend *b, const pool_spec *spec, const layout *src, kernel **k)
{
    const pd_base base = base_of(b, NULL);
    pool_geometry g;
    const layout *dst;
    dnnl_primitive_desc_t pd;
    pool_describe(spec, src, &g);
    TRY(layout_by_tag(b, 4, g.dst, src->type, dnnl_format_tag_any, &dst));
    TRY_DNNL(pd_pool(&base, g.algorithm, src->md, dst->md, &g.windows, &pd), "pooling of this shape");
    const operand_md operands[] = {{ARG_SRC, MD(pd, src, 0)}, {ARG_DST, MD(pd, dst, 0)}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_pool_backward(backend *b, const pool_spec *spec, const kernel *forward, kernel **k)
{
    const pd_base base = base_of(b, forward);
    const layout *src = kernel_layout(forward, ARG_SRC);
    pool_geometry g;
    dnnl_primitive_desc_t pd;
    pool_describe(spec, src, &g);
    TRY_DNNL(pd_pool(&base, g.algorithm, src->md, md_of(forward, ARG_DST), &g.windows, &pd), "pooling backward");
    const operand_md operands[] = {
        {ARG_DIFF_SRC, MD(pd, diff_src, 0)}, {ARG_DIFF_DST, MD(pd, diff_dst, 0)}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

/* ---- local response normalisation ---- */

comet_status kernel_lrn_forward(backend *b, const comet_layer *layer, const layout *data, kernel **k)
{
    const pd_base base = base_of(b, NULL);
    dnnl_primitive_desc_t pd;
    TRY_DNNL(pd_lrn(&base, layer, data->md, &pd), "lrn");
    const operand_md operands[] = {{ARG_SRC, data->md}, {ARG_DST, data->md}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_lrn_backward(backend *b, const comet_layer *layer, const kernel *forward, kernel **k)
{
    const pd_base base = base_of(b, forward);
    const md_ref data = md_of(forward, ARG_SRC);
    dnnl_primitive_desc_t pd;
    TRY_DNNL(pd_lrn(&base, layer, data, &pd), "lrn backward");
    const operand_md operands[] = {
        {ARG_SRC, data}, {ARG_DIFF_SRC, data}, {ARG_DIFF_DST, data}, {ARG_WORKSPACE, MD(pd, workspace, 0)}};
    return MAKE(b, pd, operands, k);
}

/* ---- joining and moving ---- */

comet_status kernel_add(backend *b, const layout *data, kernel **k)
{
    const pd_base base = base_of(b, NULL);
    dnnl_primitive_desc_t pd;
    TRY_DNNL(pd_add(&base, data->md, &pd), "an addition");
    const operand_md operands[] = {{ARG_SRC, data->md}, {ARG_SRC_1, data->md}, {ARG_DST, data->md}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_concat(backend *b, uint32_t n, const layout *const *sources, kernel **k)
{
    const pd_base base = base_of(b, NULL);
    md_ref mds[COMET_MAX_INPUTS];
    operand_md operands[COMET_MAX_INPUTS + 1];
    dnnl_primitive_desc_t pd;
    dnnl_dims_t dims;
    memcpy(dims, sources[0]->dims, sizeof dims);
    dims[1] = 0;
    for (uint32_t i = 0; i < n; i++) {
        mds[i] = sources[i]->md;
        operands[i] = (operand_md){(kernel_arg)(ARG_MULTIPLE + i), mds[i]};
        dims[1] += sources[i]->dims[1];
    }
    /* The result lies as the first source, which oneDNN does not always choose itself. */
    const dnnl_format_tag_t known = sources[0]->tag;
    const layout *dst;
    TRY(layout_by_tag(b, sources[0]->n_dims, dims, sources[0]->type, known != dnnl_format_tag_undef ? known : dnnl_ab, &dst));
    TRY_DNNL(pd_concat(&base, dst->md, (int)n, mds, &pd), "concat");
    operands[n] = (operand_md){ARG_DST, MD(pd, dst, 0)};
    return kernel_make(b, pd, operands, n + 1, k);
}

static comet_status reorder_pd(backend *b, md_ref src, md_ref dst, kernel **k)
{
    dnnl_primitive_desc_t pd;
    TRY_DNNL(dnnl_reorder_primitive_desc_create(&pd, src, b->engine, dst, b->engine, b->plain), "a change of layout");
    const operand_md operands[] = {{ARG_SRC, src}, {ARG_DST, dst}};
    return MAKE(b, pd, operands, k);
}

comet_status kernel_take_channels(backend *b, const layout *whole, uint64_t first, const layout *part, kernel **k)
{
    const dnnl_dims_t offsets = {0, (dnnl_dim_t)first};
    md_own view;
    TRY_DNNL(md_part(&view, whole->md, part->dims, offsets), "a view of some channels");
    const comet_status status = reorder_pd(b, view, part->md, k);
    md_free(view);
    return status;
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
    return reorder_pd(b, src->md, dst->md, k);
}
