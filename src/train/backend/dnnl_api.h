/*
 * What differs between oneDNN 2 and 3, as far as this backend uses it: how tensors are described and how descriptors of
 * primitives are made. backend_dnnl2.c and backend_dnnl3.c implement it; the build compiles the one of the version it found.
 * The calls that both versions have stand in the other files as they are.
 */
#ifndef COMET_TRAIN_BACKEND_DNNL_API_H
#define COMET_TRAIN_BACKEND_DNNL_API_H

#include <dnnl.h>
#include <stdbool.h>

#include "train/backend/backend.h"

/* A description of a tensor: dims, type and how it lies; owned by whoever made it, or only looked at. */
#if DNNL_VERSION_MAJOR == 2
typedef dnnl_memory_desc_t *md_own;
typedef const dnnl_memory_desc_t *md_ref;
#else
typedef dnnl_memory_desc_t md_own;
typedef const_dnnl_memory_desc_t md_ref;
#endif

/* md_free gives back what these make. */
dnnl_status_t md_by_tag(md_own *md, int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag);
dnnl_status_t md_copy(md_own *copy, md_ref md);
dnnl_status_t md_part(md_own *part, md_ref whole, const dnnl_dims_t dims, const dnnl_dims_t offsets);
void md_free(md_own md);

/* Returns the number of dims, and fills in those and the type; 0 where there is no tensor, also of NULL. */
int md_shape(md_ref md, dnnl_dims_t dims, dnnl_data_type_t *type);

/* How the elements lie. `strides` are those of the outermost blocks; within them `n_inner` dense blocks, the fastest last, each
 * of sizes[i] indices of dimension dims[i]. */
typedef struct md_blocks {
    dnnl_dims_t strides;
    int n_inner;
    dnnl_dims_t sizes, dims;
} md_blocks;

dnnl_status_t md_blocking(md_ref md, md_blocks *blocks);

/* Lets primitives use all instructions of the machine with which this version works. */
void isa_use_best(void);
dnnl_status_t post_append_relu(dnnl_post_ops_t post);
/* Adds what is in the output already to the result. */
dnnl_status_t post_append_sum(dnnl_post_ops_t post);

/* ---- descriptors of primitives ---- */

/* What every descriptor needs. */
typedef struct pd_base {
    dnnl_engine_t engine;
    const_dnnl_primitive_attr_t attribute;
    const_dnnl_primitive_desc_t forward; /* the forward descriptor of a backward one, else NULL */
} pd_base;

/* Operands of the forward pass; a backward pass takes their gradients to lie alike. */
typedef struct pd_operands {
    md_ref src, weights, bias, dst; /* bias: NULL where there is none */
} pd_operands;

typedef struct pd_windows {
    dnnl_dims_t kernel, stride, dilation, before, after; /* dilation: 0 for windows without gaps; before, after: padding */
} pd_windows;

dnnl_status_t pd_conv(const pd_base *base, kernel_pass pass, dnnl_alg_kind_t algorithm, const pd_operands *o,
                      const pd_windows *w, dnnl_primitive_desc_t *pd);
dnnl_status_t pd_linear(const pd_base *base, kernel_pass pass, const pd_operands *o, dnnl_primitive_desc_t *pd);

typedef struct pd_activation {
    dnnl_alg_kind_t algorithm;
    float alpha, beta;
} pd_activation;

/* Backward where base->forward is set; so are the two after it. */
dnnl_status_t pd_eltwise(const pd_base *base, const pd_activation *a, md_ref data, dnnl_primitive_desc_t *pd);
dnnl_status_t pd_pool(const pd_base *base, dnnl_alg_kind_t algorithm, md_ref src, md_ref dst, const pd_windows *w,
                      dnnl_primitive_desc_t *pd);
dnnl_status_t pd_lrn(const pd_base *base, const comet_layer *layer, md_ref data, dnnl_primitive_desc_t *pd);

dnnl_status_t pd_add(const pd_base *base, md_ref data, dnnl_primitive_desc_t *pd);
/* Along channels; at most COMET_MAX_INPUTS sources. */
dnnl_status_t pd_concat(const pd_base *base, md_ref dst, int n, const md_ref *sources, dnnl_primitive_desc_t *pd);

#endif
