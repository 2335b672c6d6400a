/*
 * A model's tensors by number: first all parameters (weights and running statistics in the net's order), then the momentum, the
 * second moments and the gradients of those that are trained, in the same order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "train/graph/graph.h"
#include "train/graph/saving.h"

typedef struct located {
    comet_tensor_kind kind;
    const parameter *p;
    float *data; /* in the layout of p */
    bool copied; /* state of the optimiser that is not floats, or of which other ranks have parts: `data` is room for a copy */
} located;

/* Without what fills up its layout. */
static uint64_t elements_of(const parameter *p)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < p->n_dims; i++)
        n *= p->dims[i];
    return n;
}

static bool is_state(comet_tensor_kind kind)
{
    return kind == COMET_TENSOR_MOMENTUM || kind == COMET_TENSOR_SECOND_MOMENT;
}

static state_block state_of(const comet_model *m, comet_tensor_kind kind)
{
    return kind == COMET_TENSOR_MOMENTUM ? m->momentum : m->second_moment;
}

/* Floats, or a state in its format. */
static void *block_of(const comet_model *m, comet_tensor_kind kind)
{
    switch (kind) {
    case COMET_TENSOR_WEIGHT: return m->weights;
    case COMET_TENSOR_STATISTIC: return m->statistics;
    case COMET_TENSOR_MOMENTUM:
    case COMET_TENSOR_SECOND_MOMENT: return state_of(m, kind).data;
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

/* The room of a parameter's gradient, which is unused between updates. */
static float *gradient_room(const comet_model *m, const parameter *p)
{
    const uint32_t index = (uint32_t)(p - m->parameters);
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].weight == index || m->ops[i].bias == index)
            return gradient_at(m, &m->ops[i], index);
    return NULL;
}

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
    l->copied = is_state(l->kind) && (m->move_state || state_of(m, l->kind).format != COMET_STATE_F32);
    l->data = l->copied ? gradient_room(m, l->p) : (float *)block_of(m, l->kind) + l->p->offset;
    return COMET_OK;
}

/* The copy needs memory of gradients. */
static comet_status check_copy(const comet_model *m)
{
    if (m->gradients && m->n_accumulated > 0)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "gradients of %u batches wait for an update, in memory that is needed to read or "
                          "write the optimiser's state",
                          m->n_accumulated);
    return COMET_OK;
}

static comet_status move_copy(const comet_model *m, const located *l, bool write)
{
    const state_block state = state_at(state_of(m, l->kind), l->p->offset);
    if (m->move_state)
        return m->move_state(m, l->kind, l->p, l->data, write);
    if (write)
        state_write(state, l->p->n, l->data);
    else
        state_read(state, l->p->n, l->data);
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
    comet_tensor_info found = {.kind = l.kind, .n_dims = l.p->n_dims, .n_elements = elements_of(l.p)};
    memcpy(found.name, l.p->name, sizeof found.name);
    memcpy(found.dims, l.p->dims, l.p->n_dims * sizeof found.dims[0]);
    return GIVE(comet_tensor_info, info, &found);
}

comet_status model_tensor_read_part(const comet_model *m, size_t index, uint64_t first, uint64_t n, float *elements)
{
    located l;
    TRY(locate(m, index, &l));
    if (l.copied && first == 0) {
        TRY(check_copy(m));
        TRY(move_copy(m, &l, false));
    }
    return layout_gather(l.p->layout, l.data, first, n, elements);
}

comet_status model_tensor_write_part(comet_model *m, size_t index, uint64_t first, uint64_t n, const float *elements)
{
    located l;
    TRY(locate(m, index, &l));
    if (l.copied && first == 0)
        TRY(check_copy(m));
    TRY(layout_scatter(l.p->layout, l.data, first, n, elements));
    return l.copied && first + n == elements_of(l.p) ? move_copy(m, &l, true) : COMET_OK;
}

comet_status comet_model_tensor_read(const comet_model *m, size_t index, float *elements)
{
    located l;
    TRY(locate(m, index, &l));
    return model_tensor_read_part(m, index, 0, elements_of(l.p), elements);
}

comet_status comet_model_tensor_write(comet_model *m, size_t index, const float *elements)
{
    located l;
    TRY(locate(m, index, &l));
    return model_tensor_write_part(m, index, 0, elements_of(l.p), elements);
}
