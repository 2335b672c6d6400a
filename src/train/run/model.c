/*
 * Models: creation, one step forward and backward, the update, evaluation.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/assess/state.h"
#include "train/backend/parallel.h"
#include "train/graph/graph.h"
#include "train/math/initialise.h"
#include "train/math/loss.h"
#include "train/math/optimiser.h"
#include "train/math/reduce.h"
#include "train/ops/folded.h"

#define MAX_ELEMENTS 0x1p34 /* of one tensor: 64 GiB */

/* ---- creation ---- */

void comet_model_params_init(comet_model_params *params)
{
    *params = (comet_model_params){.size = sizeof *params, .batch = 1, .accumulate = 1};
    comet_optimiser_init(&params->optimiser, COMET_OPTIMISER_SGD);
    comet_compression_init(&params->compression);
}

static comet_status check_params(const comet_net *net, const comet_model_params *p)
{
    if (!net || !p || p->size != sizeof *p || p->optimiser.size != sizeof p->optimiser)
        return comet_fail(COMET_ERROR_ARGUMENT, "a model needs a net, and parameters filled by comet_model_params_init");
    if (p->batch == 0 || p->batch > 65536)
        return comet_fail(COMET_ERROR_ARGUMENT, "a batch of %u images; it must be 1 to 65536", p->batch);
    if (!(p->label_smoothing >= 0 && p->label_smoothing < 1))
        return comet_fail(COMET_ERROR_ARGUMENT, "label smoothing %g; it must be at least 0 and below 1", p->label_smoothing);
    const comet_optimiser *o = &p->optimiser;
    if (!(o->momentum >= 0 && o->momentum < 1) || !(o->weight_decay >= 0) || !(o->clip_norm >= 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "momentum %g must be in [0, 1), weight decay %g and clipping %g not negative",
                          o->momentum, o->weight_decay, o->clip_norm);
    const comet_compression *c = &p->compression;
    if (c->size != sizeof *c || (unsigned)c->mode > COMET_COMPRESS_AUTO || !(c->overhead >= 0) || !(c->planned_ratio >= 0))
        return comet_fail(
            COMET_ERROR_ARGUMENT,
            "compression must be filled by comet_compression_init; its mode %d, overhead %g or planned ratio %g is "
            "out of range",
            (int)c->mode, c->overhead, c->planned_ratio);
    if (p->fused_update && c->spill_folder)
        return comet_fail(COMET_ERROR_ARGUMENT,
                          "fused updates do not go with spilling: a disk may fail half way through a step");
    if (p->fused_update && (p->accumulate > 1 || o->clip_norm > 0))
        return comet_fail(COMET_ERROR_ARGUMENT, "fused updates do not go with accumulation (%u) or clipping (%g)",
                          p->accumulate, (double)o->clip_norm);
    return COMET_OK;
}

static comet_status copy_net(const comet_net *net, comet_net **copy)
{
    const comet_shape in = comet_net_shape(net, 0);
    TRY(comet_net_create(copy, comet_net_name(net), in.channels, in.height, in.width));
    for (uint32_t v = 1; v < comet_net_n_values(net); v++)
        TRY(comet_net_add(*copy, comet_net_layer(net, v), NULL));
    return COMET_OK;
}

/* Sizes beyond any machine are refused before oneDNN computes with them. */
static comet_status check_sizes(const comet_net *net, uint32_t batch)
{
    for (uint32_t v = 0; v < comet_net_n_values(net); v++) {
        const comet_shape s = comet_net_shape(net, v);
        const double elements = (double)batch * s.channels * s.height * s.width;
        if (elements > MAX_ELEMENTS)
            return comet_fail(COMET_ERROR_MEMORY, "%s: a batch of %u makes %.3g elements there, %.0f GiB; take a smaller batch",
                              comet_net_layer(net, v)->name, batch, elements, elements * sizeof(float) / 0x1p30);
    }
    return COMET_OK;
}

static comet_status create_store(comet_model *m)
{
    const comet_compression *c = &m->params.compression;
    comet_hooks hooks;
    comet_store_params params;
    comet_hooks_init(&hooks);
    hooks.parallel.run = parallel_run;
    comet_store_params_init(&params);
    params.hooks = &hooks;
    params.n_workers = m->params.n_threads;
    params.checksums = c->checksums;
    params.spill_folder = c->spill_folder;
    m->coded = !m->params.inference && c->mode != COMET_COMPRESS_OFF;
    return comet_store_create(&m->store, &params);
}

/* A model whose memory is planned but not there. */
static comet_status plan_model(comet_model *m, const comet_net *net, const comet_model_params *params)
{
    TRY(check_sizes(net, params->batch));
    m->params = *params;
    if (m->params.accumulate == 0)
        m->params.accumulate = 1;
    m->params.n_threads = (uint32_t)parallel_set_threads(params->n_threads);
    TRY(copy_net(net, &m->net));
    TRY(backend_create(&m->backend));
    TRY(create_store(m));
    TRY(graph_build(m));
    TRY(lower(m));
    return params->inference ? COMET_OK : assess_create(m);
}

static comet_status allocate_block(uint64_t n, float **block)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    float *memory = n > 0 ? comet_allocate(&allocator, n * sizeof(float)) : NULL;
    if (n > 0 && !memory)
        return COMET_ERROR_MEMORY;
    if (memory)
        memset(memory, 0, n * sizeof(float));
    *block = memory;
    return COMET_OK;
}

static comet_status allocate_model(comet_model *m)
{
    const comet_optimiser *o = &m->params.optimiser;
    const bool trains = !m->params.inference;
    TRY(allocate_block(m->n_learnt, &m->weights));
    TRY(allocate_block(m->n_statistics, &m->statistics));
    TRY(allocate_block(model_keeps_steps(m) ? m->n_statistics : 0, &m->kept_statistics));
    TRY(allocate_block(trains && !m->params.fused_update ? m->n_learnt : 0, &m->gradients));
    TRY(allocate_block(m->memory.optimiser > 0 ? m->n_learnt : 0, &m->first));
    TRY(allocate_block(trains && o->kind == COMET_OPTIMISER_ADAMW ? m->n_learnt : 0, &m->second));
    TRY(arena_allocate(&m->arena));
    return memory_share_region(m, false);
}

static comet_status initialise_parameter(comet_model *m, size_t tensor, uint32_t index)
{
    const parameter *p = &m->parameters[index];
    comet_tensor_info info;
    TRY(comet_model_tensor_info(m, tensor, &info));
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
    TRY(check_params(net, params));
    comet_model *m = calloc(1, sizeof *m);
    if (!m)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for a model");
    comet_status status = plan_model(m, net, params);
    if (status == COMET_OK)
        *memory = m->memory;
    comet_model_destroy(m);
    return status;
}

comet_status comet_model_create(comet_model **model, const comet_net *net, const comet_model_params *params)
{
    TRY(check_params(net, params));
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

static void free_block(float *block, uint64_t n)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    if (block)
        comet_release(&allocator, block, n * sizeof(float));
}

void comet_model_destroy(comet_model *m)
{
    if (!m)
        return;
    assess_destroy(m);
    for (uint32_t i = 0; i < m->n_ops; i++)
        op_destroy(&m->ops[i]);
    free_block(m->weights, m->n_learnt);
    free_block(m->gradients, m->n_learnt);
    free_block(m->first, m->n_learnt);
    free_block(m->second, m->n_learnt);
    free_block(m->statistics, m->n_statistics);
    free_block(m->kept_statistics, m->n_statistics);
    free(m->kept_state);
    arena_free(&m->arena);
    free(m->ops);
    free(m->values);
    free(m->parameters);
    comet_store_destroy(m->store);
    backend_destroy(m->backend);
    comet_net_destroy(m->net);
    free(m);
}

/* ---- what stands in a model ---- */

/* What op k needs in backward beside the values it reads: a batch norm's input, a workspace. */
static bool op_line(const comet_model *m, const op *o, bool workspace, comet_saved_line *line)
{
    const comet_slot slot = workspace ? o->workspace_slot : o->norm_slot;
    if (!workspace && o->folded_into != NONE) {
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

bool comet_model_saved_line(const comet_model *m, size_t index, comet_saved_line *line)
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

/* ---- a step ---- */

static void begin(comet_model *m, const float *images, uint64_t step)
{
    parallel_set_threads(m->params.n_threads);
    m->images = images;
    m->step = step;
    for (uint32_t i = 0; i < m->n_ops; i++)
        m->ops[i].norm_decoded = false;
    for (uint32_t v = 0; v < m->n_values; v++)
        m->values[v].decoded = m->values[v].signs_known = false;
    comet_store_clear(m->store);
}

static comet_status forward(comet_model *m, run_mode mode)
{
    const bool saves = mode == RUN_TRAIN;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (saves)
            TRY(saved_put_before(m, o));
        TRY(o->type->forward(m, o, mode));
        if (saves)
            TRY(saved_put_after(m, o));
    }
    return COMET_OK;
}

static comet_status compute_loss(comet_model *m, const uint32_t *labels, uint32_t n_valid, float *gradient,
                                 comet_scores *scores)
{
    const comet_shape out = comet_net_shape(m->net, comet_net_n_values(m->net) - 1);
    const loss_spec spec = {.scores = value_data(m, m->output),
                            .labels = labels,
                            .rows = m->params.batch,
                            .n_valid = n_valid,
                            .classes = out.channels * out.height * out.width,
                            .smoothing = m->params.label_smoothing,
                            .gradient_scale = 1.0f / (float)m->params.accumulate,
                            .gradient = gradient};
    return loss_compute(&spec, scores);
}

static comet_status add_gradients(comet_model *m, op *o)
{
    for (uint32_t j = 0; j < o->n_inputs; j++) {
        const delivery *d = &o->deliveries[j];
        if (d->sum == NO_BUFFER || d->by_parts)
            continue;
        const kernel_args args = {.at = {[ARG_SRC] = arena_at(&m->arena, d->a),
                                         [ARG_SRC_1] = arena_at(&m->arena, d->b),
                                         [ARG_DST] = arena_at(&m->arena, d->sum),
                                         [ARG_SCRATCH] = arena_at(&m->arena, o->scratch_backward)}};
        TRY(kernel_run(o->add[j], &args));
    }
    return COMET_OK;
}

/* The optimiser's step of a part of the block of learnt tensors. */
static void update_part(comet_model *m, const optimiser_step *s, uint64_t first, uint64_t n, const float *gradient)
{
    float *momentum = m->first && !model_hides_momentum(m) ? m->first + first : NULL;
    optimiser_apply(s, n, m->weights + first, gradient, momentum, m->second ? m->second + first : NULL, true);
}

static void update_op(comet_model *m, const op *o)
{
    const optimiser_step s = {.optimiser = &m->params.optimiser, .rate = m->rate, .step = m->step, .gradient_scale = 1};
    const uint32_t own[2] = {o->weight, o->bias};
    assess_gradient(m, o, m->step);
    for (int i = 0; i < 2; i++)
        if (own[i] != NONE)
            update_part(m, &s, m->parameters[own[i]].offset, m->parameters[own[i]].n, gradient_at(m, o, own[i]));
}

static comet_status backward_op(comet_model *m, op *o)
{
    if (o->masks)
        TRY(saved_mask(m, o));
    TRY(saved_take(m, o));
    TRY(o->type->backward(m, o));
    TRY(add_gradients(m, o));
    if (m->params.fused_update && o->weight != NONE)
        update_op(m, o);
    if (m->params.fused_update && o->folded)
        update_op(m, &m->ops[o->folded->norm]);
    return saved_drop(m, o);
}

static comet_status backward(comet_model *m)
{
    for (uint32_t i = m->n_ops; i-- > 0;)
        if (m->ops[i].diff_dst != NO_BUFFER && m->ops[i].folded_into == NONE)
            TRY(backward_op(m, &m->ops[i]));
    return COMET_OK;
}

/* Are an op's parameters and batch statistics finite? Its output alone does not tell: oneDNN's relu makes a zero of NaN. */
static bool op_is_finite(const comet_model *m, const op *o, bool with_weights)
{
    const uint32_t parameters[2] = {o->weight, o->bias};
    for (int i = 0; with_weights && i < 2; i++)
        if (parameters[i] != NONE) {
            const parameter *p = &m->parameters[parameters[i]];
            if (!all_finite(p->n, m->weights + p->offset))
                return false;
        }
    if (o->mean == NONE)
        return true;
    const uint64_t channels = m->parameters[o->mean].n;
    return all_finite(channels, m->statistics + o->batch_mean) && all_finite(channels, m->statistics + o->batch_variance);
}

/* Images are finite, and what batch norms saw was. */
static bool forward_was_finite(const comet_model *m)
{
    if (!all_finite(layout_bytes(m->values[0].layout) / sizeof(float), m->images))
        return false;
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (!op_is_finite(m, &m->ops[i], false))
            return false;
    return true;
}

static buffer_id output_gradient(const comet_model *m)
{
    return m->ops[m->values[m->output].producer].diff_dst;
}

static comet_status check_step(const comet_model *m, const float *images, const uint32_t *labels, const comet_scores *scores)
{
    if (!m || !images || !labels || !scores)
        return comet_fail(COMET_ERROR_ARGUMENT, "gradients need a model, images, labels and a place for the scores");
    if (m->params.inference)
        return comet_fail(COMET_ERROR_ARGUMENT, "the model was created for evaluation only");
    return COMET_OK;
}

static comet_status compute_gradients(comet_model *m, const float *images, const uint32_t *labels, uint64_t step,
                                      comet_scores *scores)
{
    comet_scores result;
    begin(m, images, step);
    if (m->n_accumulated == m->params.accumulate)
        m->n_accumulated = 0;
    TRY(assess_set_policies(m));
    TRY(forward(m, RUN_TRAIN));
    TRY(compute_loss(m, labels, m->params.batch, arena_at(&m->arena, output_gradient(m)), &result));
    if (!forward_was_finite(m))
        result.loss = NAN;
    assess_loss(m, result.loss);
    if (isfinite(result.loss)) {
        TRY(backward(m));
        m->n_accumulated++;
    }
    *scores = result;
    return COMET_OK;
}

comet_status comet_model_gradients(comet_model *m, const float *images, const uint32_t *labels, uint64_t step,
                                   comet_scores *scores)
{
    TRY(check_step(m, images, labels, scores));
    if (m->params.fused_update)
        return comet_fail(COMET_ERROR_ARGUMENT, "with fused updates gradients are not kept: call comet_model_step");
    return compute_gradients(m, images, labels, step, scores);
}

comet_status comet_model_update(comet_model *m, double rate, uint64_t step)
{
    if (!m || m->params.inference || m->params.fused_update || m->n_accumulated == 0 || !isfinite(rate))
        return comet_fail(COMET_ERROR_ARGUMENT, "an update needs gradients of a training model and a finite rate");
    parallel_set_threads(m->params.n_threads);
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].weight != NONE && m->ops[i].diff_dst != NO_BUFFER)
            assess_gradient(m, &m->ops[i], step);
    TRY(assess_update(m, step));
    const comet_optimiser *o = &m->params.optimiser;
    const double norm = o->clip_norm > 0 ? sqrt(sum_of_squares(m->n_learnt, m->gradients)) : 0;
    const optimiser_step s = {
        .optimiser = o, .rate = rate, .step = step, .gradient_scale = optimiser_clip_scale(norm, o->clip_norm)};
    update_part(m, &s, 0, m->n_learnt, m->gradients);
    m->n_accumulated = 0;
    return COMET_OK;
}

comet_status comet_model_step(comet_model *m, const float *images, const uint32_t *labels, uint64_t step, double rate,
                              comet_scores *scores)
{
    TRY(check_step(m, images, labels, scores));
    if (!isfinite(rate) || m->params.accumulate > 1)
        return comet_fail(COMET_ERROR_ARGUMENT, "a whole step needs a finite rate and a model that does not accumulate");
    m->rate = rate;
    TRY(compute_gradients(m, images, labels, step, scores));
    if (!isfinite(scores->loss))
        return COMET_OK;
    if (!m->params.fused_update)
        return comet_model_update(m, rate, step);
    m->n_accumulated = 0;
    return assess_update(m, step);
}

comet_status comet_model_evaluate(comet_model *m, const float *images, const uint32_t *labels, uint32_t n_valid,
                                  comet_scores *scores)
{
    if (!m || !images || !labels || !scores || n_valid > m->params.batch)
        return comet_fail(COMET_ERROR_ARGUMENT, "evaluation needs a model, images, labels and at most a batch of valid rows");
    begin(m, images, 0);
    TRY(forward(m, RUN_EVALUATE));
    return compute_loss(m, labels, n_valid, NULL, scores);
}

static bool op_ran_finite(const comet_model *m, const op *o)
{
    for (uint32_t j = 0; j < o->n_inputs; j++)
        if (m->values[o->inputs[j]].producer == NONE &&
            !all_finite(layout_bytes(m->values[o->inputs[j]].layout) / sizeof(float), m->images))
            return false;
    return op_is_finite(m, o, true) &&
           all_finite(layout_bytes(m->values[o->output].layout) / sizeof(float), value_data(m, o->output));
}

const char *comet_model_first_bad(comet_model *m, const float *images, uint64_t step)
{
    if (!m || !images)
        return NULL;
    begin(m, images, step);
    const run_mode mode = m->params.inference ? RUN_EVALUATE : RUN_INSPECT;
    for (uint32_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if (o->type->forward(m, o, mode) != COMET_OK || !op_ran_finite(m, o))
            return o->layer->name;
    }
    return NULL;
}
