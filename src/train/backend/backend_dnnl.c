/*
 * The backend on oneDNN, of any version in dnnl_api.h.
 *
 * Scratchpads are the caller's (user mode), so that they are planned with everything else. The instruction set is capped where
 * our own kernels are.
 */
#include "train/backend/dnnl_kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comet/train.h"

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

comet_status dnnl_check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return COMET_OK;
    if (status == dnnl_out_of_memory)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: oneDNN could not allocate %s", what);
    return comet_fail(COMET_ERROR_UNSUPPORTED, "oneDNN does not support %s (status %d)", what, (int)status);
}

/* ---- versions ---- */

static char loaded_version[40];

static void print_loaded_version(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(loaded_version, sizeof loaded_version, "%d.%d.%d", v->major, v->minor, v->patch);
}

const char *comet_dnnl_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, print_loaded_version);
    return loaded_version;
}

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *comet_dnnl_version_built(void)
{
    return VERSION_TEXT(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}

comet_status comet_dnnl_check(void)
{
    if (dnnl_version()->major == DNNL_VERSION_MAJOR)
        return COMET_OK;
    return comet_fail(COMET_ERROR_UNSUPPORTED,
                      "Comet was built with oneDNN %s and needs a version %d.x of it, but %s was loaded; see LD_LIBRARY_PATH",
                      comet_dnnl_version_built(), DNNL_VERSION_MAJOR, comet_dnnl_version());
}

uint64_t backend_version(void)
{
    const dnnl_version_t *v = dnnl_version();
    return (uint64_t)v->major * 1000000 + (uint64_t)v->minor * 1000 + (uint64_t)v->patch;
}

uint64_t backend_instructions(void)
{
    return (uint64_t)dnnl_get_effective_cpu_isa();
}

/* The numbers of instruction sets with AMX have the bits of this one. */
bool backend_multiplies_bf16(void)
{
    const unsigned needed = (unsigned)dnnl_cpu_isa_avx512_core_bf16;
    return ((unsigned)dnnl_get_effective_cpu_isa() & needed) == needed;
}

/* ---- the backend ---- */

/* Makes attributes with a scratchpad by the user, and with the operation on the result that `append` adds. */
static comet_status make_attribute(dnnl_status_t (*append)(dnnl_post_ops_t post), dnnl_primitive_attr_t *attribute)
{
    dnnl_post_ops_t post = NULL;
    TRY_DNNL(dnnl_primitive_attr_create(attribute), "attributes");
    TRY_DNNL(dnnl_primitive_attr_set_scratchpad_mode(*attribute, dnnl_scratchpad_mode_user), "user scratchpads");
    if (!append)
        return COMET_OK;
    TRY_DNNL(dnnl_post_ops_create(&post), "post-operations");
    comet_status status = dnnl_check(append(post), "a fused operation");
    if (status == COMET_OK)
        status = dnnl_check(dnnl_primitive_attr_set_post_ops(*attribute, post), "a fused operation");
    dnnl_post_ops_destroy(post);
    return status;
}

static comet_status make_attributes(backend *b)
{
    TRY(make_attribute(NULL, &b->plain));
    TRY(make_attribute(post_append_relu, &b->relu));
    return make_attribute(post_append_sum, &b->sum);
}

/* Where a cap keeps our own kernels below what the machine can run, it holds for oneDNN's too. oneDNN refuses this once a
 * primitive exists: the first model of a process decides. */
static void choose_isa(void)
{
    const comet_isa active = comet_isa_active();
    if (active == comet_isa_best())
        isa_use_best();
    else
        dnnl_set_max_cpu_isa(active == COMET_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
}

comet_status backend_create(backend **out)
{
    TRY(comet_dnnl_check());
    backend *b = calloc(1, sizeof *b);
    if (!b)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate the backend");
    choose_isa();
    dnnl_set_primitive_cache_capacity(1024);
    comet_status status = dnnl_check(dnnl_engine_create(&b->engine, dnnl_cpu, 0), "a CPU engine");
    if (status == COMET_OK)
        status = dnnl_check(dnnl_stream_create(&b->stream, b->engine, dnnl_stream_default_flags), "a stream");
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
        md_free(b->layouts->md);
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

static const dnnl_format_tag_t plain_tags[] = {dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
static const dnnl_format_tag_t known_tags[] = {dnnl_format_tag_any, dnnl_nchw,   dnnl_nhwc,
                                               dnnl_nChw16c,        dnnl_nChw8c, dnnl_nChw4c};

static const dnnl_format_tag_t depthwise_tags[] = {dnnl_Goihw16g, dnnl_Goihw8g, dnnl_Goihw4g};

static bool has_tag(const layout *l, dnnl_format_tag_t tag)
{
    md_own md;
    if (md_by_tag(&md, l->n_dims, l->dims, l->type, tag) != dnnl_success)
        return false;
    const bool equal = dnnl_memory_desc_equal(md, l->md);
    md_free(md);
    return equal;
}

static dnnl_format_tag_t find_tag(const layout *l)
{
    const int n_plain = sizeof plain_tags / sizeof plain_tags[0];
    if (l->n_dims != 4)
        return l->n_dims < n_plain && has_tag(l, plain_tags[l->n_dims]) ? plain_tags[l->n_dims] : dnnl_format_tag_undef;
    for (size_t i = 0; i < sizeof known_tags / sizeof known_tags[0]; i++)
        if (has_tag(l, known_tags[i]))
            return known_tags[i];
    return dnnl_format_tag_undef;
}

comet_status layout_intern(backend *b, md_ref md, const layout **out)
{
    for (const layout *l = b->layouts; l; l = l->next)
        if (dnnl_memory_desc_equal(l->md, md)) {
            *out = l;
            return COMET_OK;
        }
    layout *l = calloc(1, sizeof *l);
    if (!l || md_copy(&l->md, md) != dnnl_success) {
        free(l);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a layout");
    }
    l->n_dims = md_shape(md, l->dims, &l->type);
    l->tag = find_tag(l);
    l->next = b->layouts;
    b->layouts = l;
    *out = l;
    return COMET_OK;
}

comet_status layout_by_tag(backend *b, int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag,
                           const layout **out)
{
    md_own md;
    TRY_DNNL(md_by_tag(&md, n_dims, dims, type, tag), "a tensor of this shape");
    const comet_status status = layout_intern(b, md, out);
    md_free(md);
    return status;
}

comet_status layout_plain(backend *b, uint32_t n_dims, const uint64_t *dims, const layout **l)
{
    dnnl_dims_t d = {0};
    for (uint32_t i = 0; i < n_dims; i++)
        d[i] = (dnnl_dim_t)dims[i];
    return layout_by_tag(b, (int)n_dims, d, dnnl_f32, plain_tags[n_dims], l);
}

comet_status layout_resized(backend *b, const layout *l, uint64_t batch, uint64_t channels, const layout **out)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)batch, (dnnl_dim_t)channels, l->dims[2], l->dims[3]};
    if (dims[0] == l->dims[0] && dims[1] == l->dims[1]) {
        *out = l;
        return COMET_OK;
    }
    if (l->n_dims != 4 || l->tag == dnnl_format_tag_undef)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a tensor in a layout of oneDNN's own cannot be cut into parts");
    return layout_by_tag(b, 4, dims, l->type, l->tag, out);
}

comet_status layout_typed(backend *b, const layout *l, comet_dtype type, const layout **out)
{
    const dnnl_data_type_t wanted = dnnl_type_of(type);
    dnnl_format_tag_t tag = l->tag;
    if (wanted == l->type) {
        *out = l;
        return COMET_OK;
    }
    for (size_t i = 0; tag == dnnl_format_tag_undef && l->n_dims == 5 && i < sizeof depthwise_tags / sizeof depthwise_tags[0];
         i++)
        if (has_tag(l, depthwise_tags[i]))
            tag = depthwise_tags[i];
    if (tag == dnnl_format_tag_undef)
        return comet_fail(COMET_ERROR_UNSUPPORTED, "a tensor in a layout of oneDNN's own cannot have another type");
    return layout_by_tag(b, l->n_dims, l->dims, wanted, tag, out);
}

uint64_t layout_bytes(const layout *l)
{
    return dnnl_memory_desc_get_size(l->md);
}

comet_dtype layout_type(const layout *l)
{
    return l->type == dnnl_bf16 ? COMET_DTYPE_BF16 : COMET_DTYPE_F32;
}

uint64_t layout_elements(const layout *l)
{
    return layout_bytes(l) / comet_dtype_bytes(layout_type(l));
}

uint32_t layout_dims(const layout *l, uint64_t dims[5])
{
    for (int i = 0; i < l->n_dims && i < 5; i++)
        dims[i] = (uint64_t)l->dims[i];
    return (uint32_t)l->n_dims;
}

layout_order layout_describe(const layout *l, uint64_t *block)
{
    *block = l->tag == dnnl_nChw16c ? 16 : l->tag == dnnl_nChw8c ? 8 : l->tag == dnnl_nChw4c ? 4 : 1;
    if (*block > 1)
        return ORDER_BLOCKED;
    if (l->tag == dnnl_nhwc)
        return ORDER_CHANNELS_LAST;
    return l->tag != dnnl_format_tag_undef && l->tag != dnnl_format_tag_any ? ORDER_PLANAR : ORDER_OTHER;
}

bool layout_is_depthwise(const layout *l, uint64_t block)
{
    return l->n_dims == 5 && has_tag(l, block == 16 ? dnnl_Goihw16g : block == 8 ? dnnl_Goihw8g : dnnl_Goihw4g);
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
    free(k->winograd);
    free(k);
}

static const operand *kernel_operand(const kernel *k, kernel_arg arg)
{
    for (size_t i = 0; i < k->n_operands; i++)
        if (k->operands[i].arg == arg)
            return &k->operands[i];
    return NULL;
}

const layout *kernel_layout(const kernel *k, kernel_arg arg)
{
    const operand *o = kernel_operand(k, arg);
    return o ? o->layout : NULL;
}

uint64_t kernel_scratch_bytes(const kernel *k)
{
    return k->scratch_bytes;
}

bool kernel_is_winograd(const kernel *k)
{
    return k->winograd != NULL;
}

const char *kernel_implementation(const kernel *k)
{
    const char *text = NULL;
    if (k->winograd)
        return "comet:winograd";
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
    return dnnl_check(dnnl_stream_wait(k->b->stream), "waiting for a kernel");
}

static void run_own(const winograd_plan *p, void *const *at)
{
    if (p->pass == WINOGRAD_FORWARD)
        winograd_run_data(p, at[ARG_SRC], at[ARG_WEIGHTS], at[ARG_BIAS], at[ARG_DST], at[ARG_SCRATCH]);
    else if (p->pass == WINOGRAD_BACKWARD_DATA)
        winograd_run_data(p, at[ARG_DIFF_DST], at[ARG_WEIGHTS], NULL, at[ARG_DIFF_SRC], at[ARG_SCRATCH]);
    else
        winograd_run_weights(p, at[ARG_SRC], at[ARG_DIFF_DST], at[ARG_DIFF_WEIGHTS], at[ARG_DIFF_BIAS], at[ARG_SCRATCH]);
}

comet_status kernel_run(kernel *k, const kernel_args *args)
{
    if (k->winograd) {
        run_own(k->winograd, args->at);
        return COMET_OK;
    }
    return run_once(k, args->at);
}

static comet_status kernel_add_operand(kernel *k, kernel_arg arg, md_ref md)
{
    dnnl_dims_t dims;
    dnnl_data_type_t type;
    if (md_shape(md, dims, &type) == 0) /* not the size: oneDNN calls that of a view zero */
        return COMET_OK;
    operand *o = &k->operands[k->n_operands];
    TRY(layout_intern(k->b, md, &o->layout));
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
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a kernel");
    }
    *k = (kernel){.b = b, .pd = pd};
    comet_status status = dnnl_check(dnnl_primitive_create(&k->primitive, pd), "a primitive");
    if (status == COMET_OK)
        status = kernel_add_operand(k, ARG_SCRATCH, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    if (status != COMET_OK) {
        kernel_destroy(k);
        return status;
    }
    const operand *scratch = kernel_operand(k, ARG_SCRATCH);
    k->scratch_bytes = scratch ? layout_bytes(scratch->layout) : 0;
    *out = k;
    return COMET_OK;
}

comet_status kernel_make(backend *b, dnnl_primitive_desc_t pd, const operand_md *operands, size_t n, kernel **out)
{
    kernel *k = NULL;
    TRY(kernel_begin(b, pd, &k));
    for (size_t i = 0; i < n; i++) {
        comet_status status = kernel_add_operand(k, operands[i].arg, operands[i].md);
        if (status != COMET_OK) {
            kernel_destroy(k);
            return status;
        }
    }
    *out = k;
    return COMET_OK;
}

comet_status kernel_make_own(backend *b, const winograd_plan *plan, const operand_layout *operands, size_t n, kernel **out)
{
    kernel *k = calloc(1, sizeof *k);
    winograd_plan *kept = malloc(sizeof *kept);
    if (!k || !kept) {
        free(k);
        free(kept);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a kernel");
    }
    *kept = *plan;
    *k = (kernel){.b = b, .winograd = kept, .scratch_bytes = winograd_scratch_bytes(plan)};
    for (size_t i = 0; i < n; i++)
        if (operands[i].layout)
            k->operands[k->n_operands++] = (operand){.arg = operands[i].arg, .layout = operands[i].layout};
    *out = k;
    return COMET_OK;
}

pd_base base_of(const backend *b, const kernel *forward)
{
    return (pd_base){.engine = b->engine, .attribute = b->plain, .forward = forward ? forward->pd : NULL};
}

md_ref md_of(const kernel *k, kernel_arg arg)
{
    const layout *l = kernel_layout(k, arg);
    return l ? l->md : NULL;
}
