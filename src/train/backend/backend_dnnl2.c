/*
 * oneDNN 2 under dnnl_api.h: tensors are described by structs, and a descriptor of a primitive is made of a descriptor of the
 * operation.
 */
#include <stdlib.h>
#include <string.h>

#include "train/backend/dnnl_api.h"

/* ---- descriptions of tensors ---- */

/* Allocates *md where it can. */
static dnnl_status_t md_alloc(md_own *md)
{
    *md = calloc(1, sizeof **md);
    return *md ? dnnl_success : dnnl_out_of_memory;
}

/* Passes on the status of the call that filled *md, and frees that where it failed. */
static dnnl_status_t md_keep(dnnl_status_t status, md_own *md)
{
    if (status != dnnl_success)
        free(*md);
    return status;
}

dnnl_status_t md_by_tag(md_own *md, int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    const dnnl_status_t status = md_alloc(md);
    return status == dnnl_success ? md_keep(dnnl_memory_desc_init_by_tag(*md, n_dims, dims, type, tag), md) : status;
}

dnnl_status_t md_copy(md_own *copy, md_ref md)
{
    const dnnl_status_t status = md_alloc(copy);
    if (status == dnnl_success)
        **copy = *md;
    return status;
}

dnnl_status_t md_part(md_own *part, md_ref whole, const dnnl_dims_t dims, const dnnl_dims_t offsets)
{
    const dnnl_status_t status = md_alloc(part);
    return status == dnnl_success ? md_keep(dnnl_memory_desc_init_submemory(*part, whole, dims, offsets), part) : status;
}

void md_free(md_own md)
{
    free(md);
}

int md_shape(md_ref md, dnnl_dims_t dims, dnnl_data_type_t *type)
{
    if (!md)
        return 0;
    memcpy(dims, md->dims, sizeof md->dims);
    *type = md->data_type;
    return md->ndims;
}

dnnl_status_t md_blocking(md_ref md, md_blocks *blocks)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    if (md->format_kind != dnnl_blocked)
        return dnnl_unimplemented;
    blocks->n_inner = b->inner_nblks;
    memcpy(blocks->strides, b->strides, sizeof b->strides);
    memcpy(blocks->sizes, b->inner_blks, sizeof b->inner_blks);
    memcpy(blocks->dims, b->inner_idxs, sizeof b->inner_idxs);
    return dnnl_success;
}

/* ---- attributes ---- */

/* With AMX this version can die of an illegal instruction. */
void isa_use_best(void)
{
    dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

dnnl_status_t post_append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_relu, 0, 0);
}

dnnl_status_t post_append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1);
}

/* ---- descriptors of primitives ---- */

/* The descriptor of a primitive for that of its operation, unless making the latter failed. */
static dnnl_status_t pd_create(const pd_base *base, dnnl_status_t status, const void *operation, dnnl_primitive_desc_t *pd)
{
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, operation, base->attribute, base->engine, base->forward)
                                  : status;
}

dnnl_status_t pd_conv(const pd_base *base, kernel_pass pass, dnnl_alg_kind_t algorithm, const pd_operands *o,
                      const pd_windows *w, dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t status;
    if (pass == PASS_FORWARD)
        status = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, algorithm, o->src, o->weights, o->bias,
                                                            o->dst, w->stride, w->dilation, w->before, w->after);
    else if (pass == PASS_BACKWARD_DATA)
        status = dnnl_dilated_convolution_backward_data_desc_init(&d, algorithm, o->src, o->weights, o->dst, w->stride,
                                                                  w->dilation, w->before, w->after);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(&d, algorithm, o->src, o->weights, o->bias, o->dst,
                                                                     w->stride, w->dilation, w->before, w->after);
    return pd_create(base, status, &d, pd);
}

dnnl_status_t pd_linear(const pd_base *base, kernel_pass pass, const pd_operands *o, dnnl_primitive_desc_t *pd)
{
    dnnl_inner_product_desc_t d;
    dnnl_status_t status;
    if (pass == PASS_FORWARD)
        status = dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, o->src, o->weights, o->bias, o->dst);
    else if (pass == PASS_BACKWARD_DATA)
        status = dnnl_inner_product_backward_data_desc_init(&d, o->src, o->weights, o->dst);
    else
        status = dnnl_inner_product_backward_weights_desc_init(&d, o->src, o->weights, o->bias, o->dst);
    return pd_create(base, status, &d, pd);
}

dnnl_status_t pd_eltwise(const pd_base *base, const pd_activation *a, md_ref data, dnnl_primitive_desc_t *pd)
{
    dnnl_eltwise_desc_t d;
    const dnnl_status_t status =
        base->forward ? dnnl_eltwise_backward_desc_init(&d, a->algorithm, data, data, a->alpha, a->beta)
                      : dnnl_eltwise_forward_desc_init(&d, dnnl_forward_training, a->algorithm, data, a->alpha, a->beta);
    return pd_create(base, status, &d, pd);
}

dnnl_status_t pd_pool(const pd_base *base, dnnl_alg_kind_t algorithm, md_ref src, md_ref dst, const pd_windows *w,
                      dnnl_primitive_desc_t *pd)
{
    dnnl_pooling_v2_desc_t d;
    const dnnl_status_t status =
        base->forward ? dnnl_pooling_v2_backward_desc_init(&d, algorithm, src, dst, w->stride, w->kernel, w->dilation,
                                                           w->before, w->after)
                      : dnnl_pooling_v2_forward_desc_init(&d, dnnl_forward_training, algorithm, src, dst, w->stride, w->kernel,
                                                          w->dilation, w->before, w->after);
    return pd_create(base, status, &d, pd);
}

dnnl_status_t pd_lrn(const pd_base *base, const comet_layer *l, md_ref data, dnnl_primitive_desc_t *pd)
{
    dnnl_lrn_desc_t d;
    const dnnl_status_t status = base->forward
                                     ? dnnl_lrn_backward_desc_init(&d, dnnl_lrn_across_channels, data, data, l->lrn_size,
                                                                   l->lrn_alpha, l->lrn_beta, l->lrn_k)
                                     : dnnl_lrn_forward_desc_init(&d, dnnl_forward_training, dnnl_lrn_across_channels, data,
                                                                  l->lrn_size, l->lrn_alpha, l->lrn_beta, l->lrn_k);
    return pd_create(base, status, &d, pd);
}

dnnl_status_t pd_add(const pd_base *base, md_ref data, dnnl_primitive_desc_t *pd)
{
    dnnl_binary_desc_t d;
    return pd_create(base, dnnl_binary_desc_init(&d, dnnl_binary_add, data, data, data), &d, pd);
}

dnnl_status_t pd_concat(const pd_base *base, md_ref dst, int n, const md_ref *sources, dnnl_primitive_desc_t *pd)
{
    dnnl_memory_desc_t mds[COMET_MAX_INPUTS];
    for (int i = 0; i < n; i++)
        mds[i] = *sources[i];
    return dnnl_concat_primitive_desc_create(pd, dst, n, 1, mds, base->attribute, base->engine);
}
