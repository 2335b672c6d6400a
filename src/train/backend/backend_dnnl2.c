/*
 * The backend on oneDNN 2 (operation descriptors, dnnl_memory_desc_t by value).
 *
 * Scratchpads are the caller's (user mode), so that they are planned with everything else. The instruction set is capped at
 * AVX-512 with bfloat16, since with AMX this version can die of an illegal instruction, or lower where our own kernels are.
 */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "train/backend/backend.h"
#include "train/math/elementwise.h"

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

static const int dnnl_args[ARG_MULTIPLE] = {
    [ARG_SRC] = DNNL_ARG_SRC_0,
    [ARG_SRC_1] = DNNL_ARG_SRC_1,
    [ARG_WEIGHTS] = DNNL_ARG_WEIGHTS,
    [ARG_BIAS] = DNNL_ARG_BIAS,
    [ARG_DST] = DNNL_ARG_DST,
    [ARG_WORKSPACE] = DNNL_ARG_WORKSPACE,
    [ARG_DIFF_SRC] = DNNL_ARG_DIFF_SRC,
    [ARG_DIFF_DST] = DNNL_ARG_DIFF_DST,
    [ARG_DIFF_WEIGHTS] = DNNL_ARG_DIFF_WEIGHTS,
    [ARG_DIFF_BIAS] = DNNL_ARG_DIFF_BIAS,
    [ARG_SCRATCH] = DNNL_ARG_SCRATCHPAD,
};

static comet_status check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return COMET_OK;
    if (status == dnnl_out_of_memory)
        return comet_fail(COMET_ERROR_MEMORY, "oneDNN has no memory for %s", what);
    return comet_fail(COMET_ERROR_UNSUPPORTED, "oneDNN cannot do %s (status %d)", what, (int)status);
}

#define TRY_DNNL(call, what) TRY(check((call), (what)))

/* ---- the backend ---- */

/* Attributes with a scratchpad by the user, and what `append` says is done to the result. */
static comet_status make_attribute(dnnl_status_t (*append)(dnnl_post_ops_t post), dnnl_primitive_attr_t *attribute)
{
    dnnl_post_ops_t post = NULL;
    TRY_DNNL(dnnl_primitive_attr_create(attribute), "attributes");
    TRY_DNNL(dnnl_primitive_attr_set_scratchpad_mode(*attribute, dnnl_scratchpad_mode_user), "user scratchpads");
    if (!append)
        return COMET_OK;
    TRY_DNNL(dnnl_post_ops_create(&post), "post-operations");
    comet_status status = check(append(post), "a fused operation");
    if (status == COMET_OK)
        status = check(dnnl_primitive_attr_set_post_ops(*attribute, post), "a fused operation");
    dnnl_post_ops_destroy(post);
    return status;
}

static dnnl_status_t append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_relu, 0, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1);
}

static comet_status make_attributes(backend *b)
{
    TRY(make_attribute(NULL, &b->plain));
    TRY(make_attribute(append_relu, &b->relu));
    return make_attribute(append_sum, &b->sum);
}

/* Where a cap keeps our own kernels below what the machine can run, it holds for oneDNN's too. */
static dnnl_cpu_isa_t highest_isa(void)
{
    const comet_isa active = comet_isa_active();
    if (active == comet_isa_best())
        return dnnl_cpu_isa_avx512_core_bf16;
    return active == COMET_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41;
}

comet_status backend_create(backend **out)
{
    backend *b = calloc(1, sizeof *b);
    if (!b)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for the backend");
    /* Refused once a primitive exists: the first model of a process decides. */
    dnnl_set_max_cpu_isa(highest_isa());
    dnnl_set_primitive_cache_capacity(1024);
    comet_status status = check(dnnl_engine_create(&b->engine, dnnl_cpu, 0), "a CPU engine");
    if (status == COMET_OK)
        status = check(dnnl_stream_create(&b->stream, b->engine, dnnl_stream_default_flags), "a stream");
    if (status == COMET_OK)
        status = make_attributes(b);
    if (status != COMET_OK) {
        backend_destroy(b);
        return status;
    }
    *out = b;
    return COMET_OK;
}

void backend_destroy(backend *b)
{
    if (!b)
        return;
    while (b->layouts) {
        layout *next = b->layouts->next;
        free(b->layouts);
        b->layouts = next;
    }
    if (b->plain)
        dnnl_primitive_attr_destroy(b->plain);
    if (b->relu)
        dnnl_primitive_attr_destroy(b->relu);
    if (b->sum)
        dnnl_primitive_attr_destroy(b->sum);
    if (b->stream)
        dnnl_stream_destroy(b->stream);
    if (b->engine)
        dnnl_engine_destroy(b->engine);
    free(b);
}

void backend_settle(backend *b)
{
    (void)b;
    dnnl_set_primitive_cache_capacity(0);
}

/* ---- layouts ---- */

static comet_status intern(backend *b, const dnnl_memory_desc_t *md, const layout **out)
{
    for (const layout *l = b->layouts; l; l = l->next)
        if (dnnl_memory_desc_equal(&l->md, md)) {
            *out = l;
            return COMET_OK;
        }
    layout *l = malloc(sizeof *l);
    if (!l)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a layout");
    l->md = *md;
    l->next = b->layouts;
    b->layouts = l;
    *out = l;
    return COMET_OK;
}

static const dnnl_format_tag_t plain_tags[] = {dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};

static comet_status plain_md(dnnl_memory_desc_t *md, int n_dims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    return check(dnnl_memory_desc_init_by_tag(md, n_dims, dims, dnnl_f32, tag), "a tensor of this shape");
}

comet_status layout_plain(backend *b, uint32_t n_dims, const uint64_t *dims, const layout **l)
{
    dnnl_dims_t d = {0};
    dnnl_memory_desc_t md;
    for (uint32_t i = 0; i < n_dims; i++)
        d[i] = (dnnl_dim_t)dims[i];
    TRY(plain_md(&md, (int)n_dims, d, plain_tags[n_dims]));
    return intern(b, &md, l);
}

uint64_t layout_bytes(const layout *l)
{
    return dnnl_memory_desc_get_size(&l->md);
}

uint32_t layout_dims(const layout *l, uint64_t dims[5])
{
    for (int i = 0; i < l->md.ndims && i < 5; i++)
        dims[i] = (uint64_t)l->md.dims[i];
    return (uint32_t)l->md.ndims;
}

static bool is_tag(const layout *l, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    return dnnl_memory_desc_init_by_tag(&md, l->md.ndims, l->md.dims, l->md.data_type, tag) == dnnl_success &&
           dnnl_memory_desc_equal(&md, &l->md);
}

layout_order layout_describe(const layout *l, uint64_t *block)
{
    *block = 1;
    if (l->md.ndims != 4)
        return is_tag(l, plain_tags[l->md.ndims]) ? ORDER_PLANAR : ORDER_OTHER;
    if (is_tag(l, dnnl_nchw))
        return ORDER_PLANAR;
    if (is_tag(l, dnnl_nhwc))
        return ORDER_CHANNELS_LAST;
    *block = is_tag(l, dnnl_nChw16c) ? 16 : is_tag(l, dnnl_nChw8c) ? 8 : is_tag(l, dnnl_nChw4c) ? 4 : 1;
    return *block > 1 ? ORDER_BLOCKED : ORDER_OTHER;
}

bool layout_is_depthwise(const layout *l, uint64_t block)
{
    return l->md.ndims == 5 && is_tag(l, block == 16 ? dnnl_Goihw16g : block == 8 ? dnnl_Goihw8g : dnnl_Goihw4g);
}

/* ---- kernels in general ---- */

void kernel_destroy(kernel *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->n_operands; i++)
        if (k->operands[i].memory)
            dnnl_memory_destroy(k->operands[i].memory);
    if (k->primitive)
        dnnl_primitive_destroy(k->primitive);
    if (k->pd)
        dnnl_primitive_desc_destroy(k->pd);
    free(k);
}

static const operand *find_operand(const kernel *k, kernel_arg arg)
{
    for (size_t i = 0; i < k->n_operands; i++)
        if (k->operands[i].arg == arg)
            return &k->operands[i];
    return NULL;
}

const layout *kernel_layout(const kernel *k, kernel_arg arg)
{
    const operand *o = find_operand(k, arg);
    return o ? o->layout : NULL;
}

uint64_t kernel_scratch_bytes(const kernel *k)
{
    return k->scratch_bytes;
}

const char *kernel_implementation(const kernel *k)
{
    const char *text = NULL;
    return dnnl_primitive_desc_query(k->pd, dnnl_query_impl_info_str, 0, (void *)&text) == dnnl_success && text ? text : "?";
}

static comet_status run_once(kernel *k, void *const *at)
{
    dnnl_exec_arg_t exec[MAX_OPERANDS];
    for (size_t i = 0; i < k->n_operands; i++) {
        const operand *o = &k->operands[i];
        void *now = NULL;
        TRY_DNNL(dnnl_memory_get_data_handle(o->memory, &now), "a memory object");
        /* Setting a handle fills the padding of blocked layouts with zeros, so it is done only where it changed. */
        if (now != at[o->arg])
            TRY_DNNL(dnnl_memory_set_data_handle(o->memory, at[o->arg]), "a memory object");
        exec[i].arg = o->arg >= ARG_MULTIPLE ? DNNL_ARG_MULTIPLE_SRC + (int)(o->arg - ARG_MULTIPLE) : dnnl_args[o->arg];
        exec[i].memory = o->memory;
    }
    TRY_DNNL(dnnl_primitive_execute(k->primitive, k->b->stream, (int)k->n_operands, exec), kernel_implementation(k));
    return check(dnnl_stream_wait(k->b->stream), "waiting for a kernel");
}

static bool is_sum(kernel_arg arg)
{
    return arg == ARG_DIFF_WEIGHTS || arg == ARG_DIFF_BIAS;
}

/* Slice `slice` of the batch. Gradients of weights are those of all slices together: the first slice writes them, the others
 * are put beside and added. */
static comet_status run_slice(kernel *k, const kernel_args *args, uint32_t slice)
{
    void *at[N_KERNEL_ARGS];
    memcpy(at, args->at, sizeof at);
    uint64_t beside = k->sums_offset;
    for (size_t i = 0; i < k->n_operands; i++) {
        const operand *o = &k->operands[i];
        if (is_sum(o->arg) && slice > 0) {
            at[o->arg] = (char *)args->at[ARG_SCRATCH] + beside;
            beside += layout_bytes(o->layout);
        } else if (o->slice_bytes > 0) {
            at[o->arg] = (char *)args->at[o->arg] + slice * o->slice_bytes;
        }
    }
    TRY(run_once(k, at));
    for (size_t i = 0; i < k->n_operands && slice > 0; i++) {
        const operand *o = &k->operands[i];
        if (is_sum(o->arg))
            add_to(layout_bytes(o->layout) / sizeof(float), at[o->arg], args->at[o->arg]);
    }
    return COMET_OK;
}

comet_status kernel_run(kernel *k, const kernel_args *args)
{
    if (k->n_slices <= 1)
        return run_once(k, args->at);
    for (uint32_t slice = 0; slice < k->n_slices; slice++)
        TRY(run_slice(k, args, slice));
    return COMET_OK;
}

static comet_status add_operand(kernel *k, kernel_arg arg, const dnnl_memory_desc_t *md)
{
    if (!md || md->ndims == 0) /* not the size: oneDNN calls that of a view zero */
        return COMET_OK;
    operand *o = &k->operands[k->n_operands];
    TRY(intern(k->b, md, &o->layout));
    TRY_DNNL(dnnl_memory_create(&o->memory, md, k->b->engine, DNNL_MEMORY_NONE), "a memory object");
    o->arg = arg;
    k->n_operands++;
    return COMET_OK;
}

/* A kernel around a primitive descriptor, which it owns from now on, with a scratchpad but no operands yet. */
static comet_status kernel_begin(backend *b, dnnl_primitive_desc_t pd, kernel **out)
{
    kernel *k = calloc(1, sizeof *k);
    if (!k) {
        dnnl_primitive_desc_destroy(pd);
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a kernel");
    }
    *k = (kernel){.b = b, .pd = pd};
    comet_status status = check(dnnl_primitive_create(&k->primitive, pd), "a primitive");
    if (status == COMET_OK)
        status = add_operand(k, ARG_SCRATCH, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    if (status != COMET_OK) {
        kernel_destroy(k);
        return status;
    }
    const operand *scratch = find_operand(k, ARG_SCRATCH);
    k->scratch_bytes = scratch ? layout_bytes(scratch->layout) : 0;
    *out = k;
    return COMET_OK;
}

/* An operand and the layout it must have; NULL or an empty one: the kernel has no such operand. */
typedef struct operand_md {
    kernel_arg arg;
    const dnnl_memory_desc_t *md;
} operand_md;

#define MD(pd, what, index) dnnl_primitive_desc_query_md(pd, dnnl_query_##what##_md, index)

static comet_status kernel_make(backend *b, dnnl_primitive_desc_t pd, const operand_md *operands, size_t n, kernel **out)
{
    kernel *k = NULL;
    TRY(kernel_begin(b, pd, &k));
    for (size_t i = 0; i < n; i++) {
        comet_status status = add_operand(k, operands[i].arg, operands[i].md);
        if (status != COMET_OK) {
            kernel_destroy(k);
            return status;
        }
    }
    *out = k;
    return COMET_OK;
}

#define MAKE(b, pd, operands, k) kernel_make(b, pd, operands, sizeof(operands) / sizeof((operands)[0]), k)

static comet_status make_pd(backend *b, const void *desc, bool relu, const kernel *hint, const char *what,
                            dnnl_primitive_desc_t *pd)
{
    return check(dnnl_primitive_desc_create(pd, desc, relu ? b->relu : b->plain, b->engine, hint ? hint->pd : NULL), what);
}

static const dnnl_memory_desc_t *md_of(const kernel *k, kernel_arg arg)
{
    const layout *l = kernel_layout(k, arg);
    return l ? &l->md : NULL;
}

/* ---- convolution ---- */

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
    TRY(plain_md(&g->src, 4, src, dnnl_format_tag_any));
    TRY(plain_md(&g->dst, 4, dst, dnnl_format_tag_any));
    TRY(plain_md(&g->bias, 1, bias, dnnl_a));
    return groups > 1 ? plain_md(&g->weights, 5, grouped, dnnl_format_tag_any)
                      : plain_md(&g->weights, 4, whole, dnnl_format_tag_any);
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
        if (is_sum(o->arg))
            k->scratch_bytes += layout_bytes(o->layout);
        if (o->arg != ARG_SRC && o->arg != ARG_DST && o->arg != ARG_DIFF_SRC && o->arg != ARG_DIFF_DST)
            continue;
        dnnl_memory_desc_t whole = o->layout->md;
        o->slice_bytes = layout_bytes(o->layout);
        set_batch(&whole, (dnnl_dim_t)batch);
        TRY(intern(k->b, &whole, &o->layout));
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
    return check(dnnl_primitive_desc_create(pd, &desc, attr, b->engine, hint ? hint->pd : NULL), "a convolution of this shape");
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

/* With the source as it lies if there is a fast implementation for that, else as the library prefers. */
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

/* Fewer channels, by whole blocks, where the channels of an image lie one after another. */
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

/* ---- linear ---- */

comet_status kernel_linear_forward(backend *b, uint64_t outputs, bool bias, bool relu, const layout *src, kernel **k)
{
    const dnnl_dim_t n_out = (dnnl_dim_t)outputs;
    dnnl_memory_desc_t weights, bias_md, dst;
    dnnl_dims_t w = {0};
    memcpy(w, src->md.dims, sizeof(dnnl_dim_t) * (size_t)src->md.ndims);
    w[0] = n_out;
    TRY(plain_md(&weights, src->md.ndims, w, dnnl_format_tag_any));
    TRY(plain_md(&bias_md, 1, (const dnnl_dims_t){n_out}, dnnl_a));
    TRY(plain_md(&dst, 2, (const dnnl_dims_t){src->md.dims[0], n_out}, dnnl_ab));
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
    comet_status status = check(dnnl_primitive_desc_create(&pd, &desc, b->plain, b->engine, hint), "an activation backward");
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
    return plain_md(&g->dst, 4, dst, dnnl_format_tag_any);
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
        if (is_tag(&lies, tags[i])) {
            tag = tags[i];
            break;
        }
    memcpy(dims, like->dims, sizeof dims);
    dims[1] = channels;
    return plain_md(md, like->ndims, dims, tag);
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
    return check(dnnl_sgemm(p->transposed ? 'T' : 'N', 'N', rows, columns, inner, 1, a, p->transposed ? rows : inner, b,
                            columns, 0, c, columns),
                 "a product of matrices");
}

comet_status kernel_reorder(backend *b, const layout *src, const layout *dst, kernel **k)
{
    return reorder_pd(b, &src->md, &dst->md, k);
}
