/*
 * What the files of the backend on oneDNN 2 share: backend_dnnl2.c (backend, layouts, kernels in general), backend_dnnl2_conv.c
 * and backend_dnnl2_layers.c (the kinds of kernels).
 */
#ifndef COMET_TRAIN_BACKEND_DNNL2_H
#define COMET_TRAIN_BACKEND_DNNL2_H

#include <dnnl.h>

#include "base/status.h"
#include "train/backend/backend.h"

struct layout {
    struct layout *next;
    dnnl_memory_desc_t md;
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
    const layout *layout; /* of the whole batch */
    uint64_t slice_bytes; /* from one slice of the batch to the next; 0: all slices share it */
} operand;

enum { MAX_OPERANDS = 12 + COMET_MAX_INPUTS };

struct kernel {
    backend *b;
    dnnl_primitive_desc_t pd; /* kept: a backward kernel takes its forward's as a hint */
    dnnl_primitive_t primitive;
    size_t n_operands;
    operand operands[MAX_OPERANDS];
    uint64_t scratch_bytes;
    uint32_t n_slices;    /* the primitive runs so many times, each on a part of the batch; 0: it is not sliced */
    uint64_t sums_offset; /* backward weights in slices: where in the scratchpad a slice's gradient is put */
};

/* COMET_OK, or a sentence about `what`. */
comet_status dnnl_check(dnnl_status_t status, const char *what);

#define TRY_DNNL(call, what) TRY(dnnl_check((call), (what)))

bool layout_has_tag(const layout *l, dnnl_format_tag_t tag);
/* The one layout of the backend with this description. */
comet_status layout_intern(backend *b, const dnnl_memory_desc_t *md, const layout **out);
comet_status md_plain(dnnl_memory_desc_t *md, int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag);
/* Is it a gradient that slices of the batch add up to? */
bool is_slice_sum(kernel_arg arg);
/* A primitive descriptor of `desc`, with a relu or without. */
comet_status make_pd(backend *b, const void *desc, bool relu, const kernel *hint, const char *what, dnnl_primitive_desc_t *pd);
/* NULL where the kernel has no such operand. */
const dnnl_memory_desc_t *md_of(const kernel *k, kernel_arg arg);

/* An operand and the layout it must have; NULL or an empty one: the kernel has no such operand. */
typedef struct operand_md {
    kernel_arg arg;
    const dnnl_memory_desc_t *md;
} operand_md;

#define MD(pd, what, index) dnnl_primitive_desc_query_md(pd, dnnl_query_##what##_md, index)

comet_status kernel_make(backend *b, dnnl_primitive_desc_t pd, const operand_md *operands, size_t n, kernel **out);

#define MAKE(b, pd, operands, k) kernel_make(b, pd, operands, sizeof(operands) / sizeof((operands)[0]), k)

#endif
