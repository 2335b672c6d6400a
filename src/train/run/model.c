/*
 * Models: creation, and what stands in one. plan.c plans them, step.c runs them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/describe.h"
#include "base/memory.h"
#include "train/graph/graph.h"
#include "train/graph/groups.h"
#include "train/math/initialise.h"
#include "train/memory/memory.h"
#include "train/run/plan.h"
#include "train/update/exchange.h"

/* ---- creation ---- */

void comet_model_params_init(comet_model_params *params)
{
    *params = (comet_model_params){.size = sizeof *params, .batch = 1, .accumulate = 1};
    comet_optimiser_init(&params->optimiser, COMET_OPTIMISER_SGD);
    comet_compression_init(&params->compression);
}

static comet_status allocate_bytes(uint64_t bytes, void **block)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    void *memory = bytes > 0 ? comet_allocate(&allocator, bytes) : NULL;
    if (bytes > 0 && !memory)
        return COMET_ERROR_MEMORY;
    if (memory)
        memset(memory, 0, bytes);
    *block = memory;
    return COMET_OK;
}

static comet_status allocate_block(uint64_t n, float **block)
{
    void *memory;
    TRY(allocate_bytes(n * sizeof(float), &memory));
    *block = memory;
    return COMET_OK;
}

static comet_status allocate_state(const comet_model *m, bool kept, bool squares, state_block *state)
{
    *state = (state_block){.format = m->params.optimiser.state, .squares = squares};
    return allocate_bytes(kept ? state_bytes(state->format, m->n_state) : 0, &state->data);
}

static comet_status allocate_model(comet_model *m)
{
    const bool trains = !m->params.inference;
    TRY(allocate_block(m->n_learnt + m->n_frozen, &m->weights));
    TRY(allocate_block(m->n_statistics, &m->statistics));
    TRY(allocate_block(memory_keeps_steps(m) ? m->n_statistics : 0, &m->kept_statistics));
    TRY(allocate_block(trains && !m->params.fused_update ? m->n_learnt : 0, &m->gradients));
    TRY(allocate_state(m, model_keeps_momentum(m), false, &m->momentum));
    TRY(allocate_state(m, model_keeps_second_moment(m), true, &m->second_moment));
    TRY(exchange_allocate(m));
    TRY(arena_allocate(&m->arena));
    return memory_share_region(m, false);
}

static comet_status initialise_parameter(comet_model *m, size_t tensor, uint32_t index)
{
    const parameter *p = &m->parameters[index];
    comet_tensor_info info = {.size = sizeof info};
    TRY(comet_model_describe_tensor(m, tensor, &info));
    float *elements = malloc(info.n_elements * sizeof *elements);
    if (!elements)
        return comet_fail(COMET_ERROR_MEMORY, "no memory to initialise %s", info.name);
    if (p->filled)
        for (uint64_t i = 0; i < info.n_elements; i++)
            elements[i] = p->fill;
    else if (p->n_dims == 1)
        initialise_bias(m->params.seed, index, p->init, p->fan_in, info.n_elements, elements);
    else
        initialise_weight(m->params.seed, index, p->init, p->fan_in, p->fan_out, info.n_elements, elements);
    comet_status status = comet_model_tensor_write(m, tensor, elements);
    free(elements);
    return status;
}

static comet_status initialise(comet_model *m)
{
    for (uint32_t i = 0; i < m->n_parameters; i++)
        TRY(initialise_parameter(m, i, i));
    return COMET_OK;
}

comet_status comet_model_plan(const comet_net *net, const comet_model_params *params, comet_memory *memory)
{
    TRY(model_check_params(net, params));
    TRY(CHECK_SIZE(comet_memory, memory));
    comet_model *m = calloc(1, sizeof *m);
    if (!m)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a model");
    comet_status status = plan_model(m, net, params);
    if (status == COMET_OK)
        status = GIVE(comet_memory, memory, &m->memory);
    comet_model_destroy(m);
    return status;
}

comet_status comet_model_plan_peak(comet_peak **peak, const comet_net *net, const comet_model_params *params)
{
    TRY(model_check_params(net, params));
    if (!peak || params->compression.spill_folder)
        return comet_fail(COMET_ERROR_ARGUMENT, "the peak of a step needs a place for it, and a model that does not spill");
    comet_model *m = calloc(1, sizeof *m);
    if (!m)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a model");
    comet_status status = plan_model(m, net, params);
    if (status == COMET_OK)
        status = peak_of_model(m, peak);
    comet_model_destroy(m);
    return status;
}

comet_status comet_model_create(comet_model **model, const comet_net *net, const comet_model_params *params)
{
    TRY(model_check_params(net, params));
    TRY(groups_check_rates(params));
    comet_model *m = calloc(1, sizeof *m);
    if (!m)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a model");
    comet_status status = plan_model(m, net, params);
    if (status == COMET_OK)
        status = allocate_model(m);
    if (status == COMET_OK)
        status = initialise(m);
    if (status != COMET_OK) {
        comet_model_destroy(m);
        return status;
    }
    backend_settle(m->backend);
    *model = m;
    return COMET_OK;
}

static void free_bytes(void *block, uint64_t bytes)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    if (block)
        comet_release(&allocator, block, bytes);
}

static void free_block(float *block, uint64_t n)
{
    free_bytes(block, n * sizeof(float));
}

void comet_model_destroy(comet_model *m)
{
    if (!m)
        return;
    free_block(m->weights, m->n_learnt + m->n_frozen);
    free_block(m->gradients, m->n_learnt);
    free_bytes(m->momentum.data, state_bytes(m->momentum.format, m->n_state));
    free_bytes(m->second_moment.data, state_bytes(m->second_moment.format, m->n_state));
    free_block(m->statistics, m->n_statistics);
    free_block(m->kept_statistics, m->n_statistics);
    free(m->kept_state);
    arena_free(&m->arena);
    plan_destroy(m);
    free(m);
}

/* ---- what stands in a model ---- */

/* What op o needs in backward beside the values it reads: a batch norm's input, a workspace. */
static bool op_line(const comet_model *m, const op *o, bool workspace, comet_saved_line *line)
{
    const comet_slot slot = workspace ? o->workspace.slot : o->own.slot;
    if (!workspace && o->backward_by != o->index) {
        *line = (comet_saved_line){.layer = o->layer->name,
                                   .what = "bn input",
                                   .bytes = layout_bytes(m->values[o->inputs[0]].layout),
                                   .recomputed = true};
        return true;
    }
    if (slot == COMET_NO_SLOT)
        return false;
    *line = (comet_saved_line){.layer = o->layer->name,
                               .what = workspace ? o->type->kept_as : "bn input",
                               .bytes = comet_store_slot_spec(m->store, slot)->bytes};
    return true;
}

static bool find_line(const comet_model *m, size_t index, comet_saved_line *line)
{
    size_t i = 0;
    for (uint32_t v = 0; v < m->n_values; v++) {
        const value *x = &m->values[v];
        if (!x->saved || i++ != index)
            continue;
        *line = (comet_saved_line){.layer = x->producer == NONE ? "input" : m->ops[x->producer].layer->name,
                                   .what = x->saved_for,
                                   .bytes = layout_bytes(x->layout),
                                   .recomputed = x->derived};
        return true;
    }
    for (uint32_t k = 0; k < 2 * m->n_ops; k++)
        if (op_line(m, &m->ops[k / 2], k % 2, line) && i++ == index)
            return true;
    return false;
}

void comet_saved_line_init(comet_saved_line *line)
{
    *line = (comet_saved_line){.size = sizeof *line};
}

comet_status comet_model_describe_saved(const comet_model *m, size_t index, comet_saved_line *line)
{
    comet_saved_line found;
    if (!m || !find_line(m, index, &found))
        return comet_fail(COMET_ERROR_ARGUMENT, "there is no model, or fewer than %zu lines of what it saves", index + 1);
    return GIVE(comet_saved_line, line, &found);
}

const comet_net *comet_model_net(const comet_model *m)
{
    return m->net;
}

uint32_t comet_model_batch(const comet_model *m)
{
    return m->params.batch;
}

const float *comet_model_outputs(const comet_model *m)
{
    return value_data(m, m->output);
}
