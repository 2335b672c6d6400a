/*
 * What the files of the backend on oneDNN share: backend_dnnl.c (backend, layouts, kernels in general), backend_dnnl_elements.c
 * (single elements), backend_dnnl_conv.c and backend_dnnl_layers.c (the kinds of kernels). They serve every version; dnnl_api.h
 * has what differs.
 */
#ifndef COMET_TRAIN_BACKEND_DNNL_KERNEL_H
#define COMET_TRAIN_BACKEND_DNNL_KERNEL_H

#include "base/status.h"
#include "train/backend/backend.h"
#include "train/backend/dnnl_api.h"
#include "train/backend/winograd.h"

struct layout {
    struct layout *next;
    md_own md;
    int n_dims;
    dnnl_dims_t dims;
    dnnl_data_type_t type;
    dnnl_format_tag_t tag; /* one of known_tags for its number of dims, else dnnl_format_tag_undef */
};

struct backend {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t plain, relu, sum; /* all: scratchpad by the user */
    struct layout *layouts;
};

typedef struct operand {
    kernel_arg arg;
    dnnl_memory_t memory;
    const layout *layout;
} operand;

enum { MAX_OPERANDS = 12 + COMET_MAX_INPUTS };

struct kernel {
    backend *b;
    dnnl_primitive_desc_t pd; /* kept: a backward kernel takes its forward's as a hint; NULL where the kernel is our own */
    dnnl_primitive_t primitive;
    winograd_plan *winograd; /* our own convolution instead of a primitive, or NULL */
    size_t n_operands;
    operand operands[MAX_OPERANDS];
    uint64_t scratch_bytes;
};

/* COMET_OK, or a sentence about `what`. */
comet_status dnnl_check(dnnl_status_t status, const char *what);

#define TRY_DNNL(call, what) TRY(dnnl_check((call), (what)))

/* The one layout of the backend with this description. */
comet_status layout_intern(backend *b, md_ref md, const layout **out);
/* With dnnl_format_tag_any it only asks the library to choose. */
comet_status layout_by_tag(backend *b, int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag,
                           const layout **out);

/* What descriptors of primitives need: `forward` of a backward one, else NULL. */
pd_base base_of(const backend *b, const kernel *forward);
/* NULL where the kernel has no such operand. */
md_ref md_of(const kernel *k, kernel_arg arg);

/* An operand and the layout it must have; NULL or an empty one: the kernel has no such operand. */
typedef struct operand_md {
    kernel_arg arg;
    md_ref md;
} operand_md;

/* The library's name of a type of activations: f32 or bf16. */
static inline dnnl_data_type_t dnnl_type_of(comet_dtype type)
{
    return type == COMET_DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

#define MD(pd, what, index) dnnl_primitive_desc_query_md(pd, dnnl_query_##what##_md, index)

/* A kernel of a descriptor, which it owns from now on. */
comet_status kernel_make(backend *b, dnnl_primitive_desc_t pd, const operand_md *operands, size_t n, kernel **out);

/* A kernel of our own for a plan, with operands of these layouts; NULL: the kernel has no such operand. */
typedef struct operand_layout {
    kernel_arg arg;
    const layout *layout;
} operand_layout;
comet_status kernel_make_own(backend *b, const winograd_plan *plan, const operand_layout *operands, size_t n, kernel **out);

/* backend_dnnl_winograd.c: our own Winograd for a pass of a convolution, *k; NULL where spec->ways says otherwise or
 * where it cannot be. A backward pass must work on tensors that lie like `src` and `dst`; forward ignores both and says what it
 * needs. */
comet_status winograd_kernel(backend *b, const conv_spec *spec, kernel_pass pass, const layout *src, const layout *dst,
                             kernel **k);

#define MAKE(b, pd, operands, k) kernel_make(b, pd, operands, sizeof(operands) / sizeof((operands)[0]), k)

#endif
