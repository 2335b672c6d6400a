/*
 * The arrays of a model's graph, and where its tensors are.
 */
#include "train/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/graph/groups.h"
#include "train/math/optimiser.h"

/* ---- growing arrays ---- */

static comet_status grow(void **items, uint32_t *capacity, uint32_t needed, size_t item_bytes)
{
    if (needed <= *capacity)
        return COMET_OK;
    const uint32_t larger = *capacity ? 2 * *capacity : 64;
    void *moved = realloc(*items, larger * item_bytes);
    if (!moved)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a graph of %u items", larger);
    *items = moved;
    *capacity = larger;
    return COMET_OK;
}

comet_status graph_add_value(comet_model *m, uint32_t *index)
{
    TRY(grow((void **)&m->values, &m->values_capacity, m->n_values + 1, sizeof *m->values));
    m->values[m->n_values] = (value){.root = m->n_values,
                                     .producer = NONE,
                                     .last_reader = NONE,
                                     .slot = COMET_NO_SLOT,
                                     .whole = NO_BUFFER,
                                     .signs = NO_BUFFER,
                                     .first_backward = NONE,
                                     .last_backward = NONE,
                                     .buffer = NO_BUFFER};
    *index = m->n_values++;
    return COMET_OK;
}

static op_buffers no_buffers(void)
{
    op_buffers b = {.workspace = NO_BUFFER,
                    .room_output = NO_BUFFER,
                    .room_workspace = NO_BUFFER,
                    .scratch_forward = NO_BUFFER,
                    .scratch_weights = NO_BUFFER,
                    .scratch_backward = NO_BUFFER,
                    .forward_weights = NO_BUFFER,
                    .weights_copy = NO_BUFFER,
                    .fresh_weight = NO_BUFFER,
                    .fresh_bias = NO_BUFFER,
                    .gradient = NO_BUFFER,
                    .part_gradient = NO_BUFFER,
                    .work = NO_BUFFER,
                    .diff_dst = NO_BUFFER,
                    .diff = NO_BUFFER,
                    .sample_work = NO_BUFFER,
                    .mask_sums = NO_BUFFER};
    for (int i = 0; i < COMET_MAX_INPUTS; i++) {
        b.deliveries[i] = (delivery){NO_BUFFER, NO_BUFFER, NO_BUFFER, NO_BUFFER, false};
        b.rooms[i] = NO_BUFFER;
    }
    return b;
}

comet_status graph_add_op(comet_model *m, const op_type *type, const comet_layer *layer, op **out)
{
    TRY(grow((void **)&m->ops, &m->ops_capacity, m->n_ops + 1, sizeof *m->ops));
    op *o = &m->ops[m->n_ops];
    *o = (op){.type = type,
              .layer = layer,
              .index = m->n_ops,
              .weight = NONE,
              .bias = NONE,
              .backward_by = m->n_ops,
              .folds = NONE,
              .own = {.slot = COMET_NO_SLOT, .whole = NO_BUFFER},
              .workspace = {.slot = COMET_NO_SLOT},
              .buffers = no_buffers()};
    m->n_ops++;
    *out = o;
    return COMET_OK;
}

comet_status graph_add_parameter(comet_model *m, const parameter *p, uint32_t *index)
{
    TRY(grow((void **)&m->parameters, &m->parameters_capacity, m->n_parameters + 1, sizeof *m->parameters));
    parameter *added = &m->parameters[m->n_parameters];
    *added = *p;
    groups_apply(&m->params, added);
    uint64_t *block = added->frozen ? &m->n_frozen : added->learnt ? &m->n_learnt : &m->n_statistics;
    added->n = layout_bytes(p->layout) / sizeof(float);
    added->offset = *block;
    *block += (added->n + 15) / 16 * 16; /* each begins at a cache line */
    *index = m->n_parameters++;
    return COMET_OK;
}

comet_status graph_plain_like(comet_model *m, const layout *l, const layout **plain)
{
    uint64_t dims[5];
    const uint32_t n_dims = layout_dims(l, dims);
    TRY(layout_plain(m->backend, n_dims, dims, plain));
    return layout_typed(m->backend, *plain, layout_type(l), plain);
}

/* ---- where things are ---- */

void *value_data(const comet_model *m, uint32_t v)
{
    const value *x = &m->values[v];
    if (x->producer != NONE)
        return arena_at(&m->arena, x->buffer);
    /* The caller's images; kernels take operands without const but do not write to sources. */
    union {
        const float *in;
        void *out;
    } images = {.in = m->images};
    return images.out;
}

float *learnt(const comet_model *m, float *block, uint32_t index)
{
    return index == NONE || !block ? NULL : block + m->parameters[index].offset;
}

float *gradient_at(const comet_model *m, const op *o, uint32_t index)
{
    if (!is_trained(m, index))
        return NULL;
    if (m->gradients)
        return learnt(m, m->gradients, index);
    float *own = arena_at(&m->arena, o->buffers.gradient);
    return index == o->weight || !is_trained(m, o->weight) ? own : own + padded_floats(m->parameters[o->weight].n);
}

bool model_hides_momentum(const comet_model *m)
{
    return model_is_lossy(m) && !optimiser_keeps_momentum(&m->params.optimiser);
}

bool model_keeps_momentum(const comet_model *m)
{
    return !m->params.inference && (optimiser_keeps_momentum(&m->params.optimiser) || model_hides_momentum(m));
}

bool model_keeps_second_moment(const comet_model *m)
{
    return !m->params.inference && optimiser_keeps_second_moment(&m->params.optimiser);
}

uint64_t model_state_bytes(const comet_model *m, uint64_t n)
{
    const uint64_t n_blocks = (uint64_t)model_keeps_momentum(m) + (uint64_t)model_keeps_second_moment(m);
    return n_blocks * state_bytes(m->params.optimiser.state, n);
}

void op_destroy(op *o)
{
    kernel_destroy(o->forward);
    kernel_destroy(o->backward_data);
    kernel_destroy(o->backward_weights);
    for (uint32_t i = 0; i < COMET_MAX_INPUTS; i++)
        kernel_destroy(o->add[i]);
    if (o->type->destroy)
        o->type->destroy(o);
}

/* ---- parameters ---- */

parameter named_parameter(const op *o, const char *suffix)
{
    parameter p = {.learnt = true};
    snprintf(p.name, sizeof p.name, "%s.%s", o->layer->name, suffix);
    return p;
}

comet_status graph_add_vector(comet_model *m, const parameter *described, uint64_t n, uint32_t *index)
{
    parameter p = *described;
    p.n_dims = 1;
    p.dims[0] = n;
    TRY(layout_plain(m->backend, 1, &n, &p.plain));
    p.layout = p.plain;
    return graph_add_parameter(m, &p, index);
}
