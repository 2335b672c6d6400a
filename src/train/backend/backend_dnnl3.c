/*
 * oneDNN 3 under dnnl_api.h: descriptions of tensors are opaque, and a descriptor of a primitive is made in one call. Uses what
 * version 3.2 has and 3.7 does not deprecate.
 */
#include <string.h>

#include "train/backend/dnnl_api.h"

/* ---- descriptions of tensors ---- */

dnnl_status_t md_by_tag(md_own *md, int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(md, n_dims, dims, type, tag);
}

dnnl_status_t md_copy(md_own *copy, md_ref md)
{
    return dnnl_memory_desc_clone(copy, md);
}

dnnl_status_t md_part(md_own *part, md_ref whole, const dnnl_dims_t dims, const dnnl_dims_t offsets)
{
    return dnnl_memory_desc_create_submemory(part, whole, dims, offsets);
}

void md_free(md_own md)
{
    dnnl_memory_desc_destroy(md);
}

int md_shape(md_ref md, dnnl_dims_t dims, dnnl_data_type_t *type)
{
    int32_t n_dims = 0;
    dnnl_dims_t *found = NULL;
    if (!md || dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &n_dims) != dnnl_success || n_dims == 0 ||
        dnnl_memory_desc_query(md, dnnl_query_dims, &found) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_data_type, type) != dnnl_success)
        return 0;
    for (int i = 0; i < n_dims; i++)
        dims[i] = (*found)[i];
    return n_dims;
}

dnnl_status_t md_blocking(md_ref md, md_blocks *blocks)
{
    int32_t n_dims = 0, n_inner = 0;
    dnnl_dims_t *strides = NULL, *sizes = NULL, *dims = NULL;
    if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &n_dims) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &n_inner) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_blks, &sizes) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &dims) != dnnl_success)
        return dnnl_unimplemented;
    blocks->n_inner = n_inner;
    memcpy(blocks->strides, *strides, (size_t)n_dims * sizeof(dnnl_dim_t));
    memcpy(blocks->sizes, *sizes, (size_t)n_inner * sizeof(dnnl_dim_t));
    memcpy(blocks->dims, *dims, (size_t)n_inner * sizeof(dnnl_dim_t));
    return dnnl_success;
}

/* ---- attributes ---- */

/* This version does so by itself, AMX included, and ONEDNN_MAX_CPU_ISA may say less. */
void isa_use_best(void)
{
}

dnnl_status_t post_append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, dnnl_eltwise_relu, 0, 0);
}

dnnl_status_t post_append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1, 0, dnnl_data_type_undef);
}

/* ---- descriptors of primitives ---- */

dnnl_status_t pd_conv(const pd_base *base, kernel_pass pass, dnnl_alg_kind_t algorithm, const pd_operands *o,
                      const pd_windows *w, dnnl_primitive_desc_t *pd)
{
    if (pass == PASS_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(pd, base->engine, dnnl_forward_training, algorithm, o->src,
                                                              o->weights, o->bias, o->dst, w->stride, w->dilation, w->before,
                                                              w->after, base->attribute);
    if (pass == PASS_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(pd, base->engine, algorithm, o->src, o->weights, o->dst,
                                                                    w->stride, w->dilation, w->before, w->after, base->forward,
                                                                    base->attribute);
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, base->engine, algorithm, o->src, o->weights, o->bias,
                                                                   o->dst, w->stride, w->dilation, w->before, w->after,
                                                                   base->forward, base->attribute);
}

dnnl_status_t pd_linear(const pd_base *base, kernel_pass pass, const pd_operands *o, dnnl_primitive_desc_t *pd)
{
    if (pass == PASS_FORWARD)
        return dnnl_inner_product_forward_primitive_desc_create(pd, base->engine, dnnl_forward_training, o->src, o->weights,
                                                                o->bias, o->dst, base->attribute);
    if (pass == PASS_BACKWARD_DATA)
        return dnnl_inner_product_backward_data_primitive_desc_create(pd, base->engine, o->src, o->weights, o->dst,
                                                                      base->forward, base->attribute);
    return dnnl_inner_product_backward_weights_primitive_desc_create(pd, base->engine, o->src, o->weights, o->bias, o->dst,
                                                                     base->forward, base->attribute);
}

dnnl_status_t pd_eltwise(const pd_base *base, const pd_activation *a, md_ref data, dnnl_primitive_desc_t *pd)
{
    return base->forward ? dnnl_eltwise_backward_primitive_desc_create(pd, base->engine, a->algorithm, data, data, data,
                                                                       a->alpha, a->beta, base->forward, base->attribute)
                         : dnnl_eltwise_forward_primitive_desc_create(pd, base->engine, dnnl_forward_training, a->algorithm,
                                                                      data, data, a->alpha, a->beta, base->attribute);
}

dnnl_status_t pd_pool(const pd_base *base, dnnl_alg_kind_t algorithm, md_ref src, md_ref dst, const pd_windows *w,
                      dnnl_primitive_desc_t *pd)
{
    return base->forward
               ? dnnl_pooling_backward_primitive_desc_create(pd, base->engine, algorithm, src, dst, w->stride, w->kernel,
                                                             w->dilation, w->before, w->after, base->forward, base->attribute)
               : dnnl_pooling_forward_primitive_desc_create(pd, base->engine, dnnl_forward_training, algorithm, src, dst,
                                                            w->stride, w->kernel, w->dilation, w->before, w->after,
                                                            base->attribute);
}

dnnl_status_t pd_lrn(const pd_base *base, const comet_layer *l, md_ref data, dnnl_primitive_desc_t *pd)
{
    const dnnl_alg_kind_t algorithm = dnnl_lrn_across_channels;
    return base->forward
               ? dnnl_lrn_backward_primitive_desc_create(pd, base->engine, algorithm, data, data, data, l->lrn_size,
                                                         l->lrn_alpha, l->lrn_beta, l->lrn_k, base->forward, base->attribute)
               : dnnl_lrn_forward_primitive_desc_create(pd, base->engine, dnnl_forward_training, algorithm, data, data,
                                                        l->lrn_size, l->lrn_alpha, l->lrn_beta, l->lrn_k, base->attribute);
}

dnnl_status_t pd_add(const pd_base *base, md_ref data, dnnl_primitive_desc_t *pd)
{
    return dnnl_binary_primitive_desc_create(pd, base->engine, dnnl_binary_add, data, data, data, base->attribute);
}

dnnl_status_t pd_concat(const pd_base *base, md_ref dst, int n, const md_ref *sources, dnnl_primitive_desc_t *pd)
{
    return dnnl_concat_primitive_desc_create(pd, base->engine, dst, n, 1, sources, base->attribute);
}
