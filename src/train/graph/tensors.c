/*
 * A model's tensors by number: first all parameters (weights and running statistics in the net's order), then the momentum, the
 * second moments and the gradients of those that are trained, in the same order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/memory.h"
#include "train/graph/graph.h"
#include "train/graph/staging.h"

typedef struct located {
    comet_tensor_kind kind;
    const parameter *p;
    float *data; /* in the layout of p */
} located;

static float *block_of(const comet_model *m, comet_tensor_kind kind)
{
    switch (kind) {
    case COMET_TENSOR_WEIGHT: return m->weights;
    case COMET_TENSOR_STATISTIC: return m->statistics;
    case COMET_TENSOR_MOMENTUM: return m->momentum;
    case COMET_TENSOR_SECOND_MOMENT: return m->second_moment;
    case COMET_TENSOR_GRADIENT: return m->gradients;
    }
    return NULL;
}

static size_t count_trained(const comet_model *m)
{
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_parameters; i++)
        n += m->parameters[i].learnt && !m->parameters[i].frozen;
    return n;
}

static const parameter *nth_trained(const comet_model *m, size_t n)
{
    for (uint32_t i = 0; i < m->n_parameters; i++)
        if (m->parameters[i].learnt && !m->parameters[i].frozen && n-- == 0)
            return &m->parameters[i];
    return NULL;
}

static const comet_tensor_kind derived[] = {COMET_TENSOR_MOMENTUM, COMET_TENSOR_SECOND_MOMENT, COMET_TENSOR_GRADIENT};
enum { N_DERIVED = sizeof derived / sizeof derived[0] };

static comet_status locate(const comet_model *m, size_t index, located *l)
{
    const size_t asked = index, n_trained = count_trained(m);
    *l = (located){.kind = COMET_TENSOR_WEIGHT};
    if (index < m->n_parameters) {
        l->p = &m->parameters[index];
        l->kind = l->p->learnt ? COMET_TENSOR_WEIGHT : COMET_TENSOR_STATISTIC;
    } else {
        index -= m->n_parameters;
        for (size_t i = 0; i < N_DERIVED && !l->p; i++) {
            if (!block_of(m, derived[i]))
                continue;
            l->kind = derived[i];
            l->p = index < n_trained ? nth_trained(m, index) : NULL;
            index -= index < n_trained ? 0 : n_trained;
        }
    }
    if (!l->p)
        return comet_fail(COMET_ERROR_ARGUMENT, "there is no tensor %zu: the model has %zu tensors", asked,
                          comet_model_n_tensors(m));
    l->data = block_of(m, l->kind) + l->p->offset;
    return COMET_OK;
}

size_t comet_model_n_tensors(const comet_model *m)
{
    size_t n = m->n_parameters;
    for (size_t i = 0; i < N_DERIVED; i++)
        if (block_of(m, derived[i]))
            n += count_trained(m);
    return n;
}

void comet_tensor_info_init(comet_tensor_info *info)
{
    *info = (comet_tensor_info){.size = sizeof *info};
}

comet_status comet_model_describe_tensor(const comet_model *m, size_t index, comet_tensor_info *info)
{
    located l;
    TRY(locate(m, index, &l));
    comet_tensor_info found = {.kind = l.kind, .n_dims = l.p->n_dims, .n_elements = 1};
    memcpy(found.name, l.p->name, sizeof found.name);
    for (uint32_t i = 0; i < l.p->n_dims; i++) {
        found.dims[i] = l.p->dims[i];
        found.n_elements *= l.p->dims[i];
    }
    return GIVE(comet_tensor_info, info, &found);
}

/* Copies between two layouts. No step runs, so the scratchpad may come from the heap. */
static comet_status move(const comet_model *m, const layout *from, const layout *to, void *src, void *dst)
{
    if (from == to) {
        memcpy(dst, src, layout_bytes(from));
        return COMET_OK;
    }
    kernel *k;
    TRY(kernel_reorder(m->backend, from, to, &k));
    const comet_allocator allocator = comet_allocator_of(NULL);
    const uint64_t scratch_bytes = kernel_scratch_bytes(k);
    void *scratch = scratch_bytes > 0 ? comet_allocate(&allocator, scratch_bytes) : NULL;
    comet_status status = COMET_ERROR_MEMORY;
    if (scratch || scratch_bytes == 0) {
        const kernel_args args = {.at = {[ARG_SRC] = src, [ARG_DST] = dst, [ARG_SCRATCH] = scratch}};
        status = kernel_run(k, &args);
    }
    if (scratch)
        comet_release(&allocator, scratch, scratch_bytes);
    kernel_destroy(k);
    return status;
}

comet_status comet_model_tensor_read(const comet_model *m, size_t index, float *elements)
{
    located l;
    TRY(locate(m, index, &l));
    return move(m, l.p->layout, l.p->plain, l.data, elements);
}

comet_status comet_model_tensor_write(comet_model *m, size_t index, const float *elements)
{
    union {
        const float *in;
        void *out;
    } source = {.in = elements}; /* read only, but kernels take operands without const */
    located l;
    TRY(locate(m, index, &l));
    return move(m, l.p->plain, l.p->layout, source.out, l.data);
}

void *model_staging_begin(const comet_model *m, size_t *bytes)
{
    const bool dead = m->gradients && m->n_accumulated == 0;
    *bytes = dead ? (size_t)m->n_learnt * sizeof *m->gradients : 0;
    return dead ? m->gradients : NULL;
}

/* Sets the block to zeros again: gaps between the gradients count in their norm. */
void model_staging_end(const comet_model *m)
{
    if (m->gradients && m->n_accumulated == 0)
        memset(m->gradients, 0, (size_t)m->n_learnt * sizeof *m->gradients);
}
