/*
 * One step of a model: forward, loss, backward, update; and evaluation.
 */
#include <math.h>

#include "train/assess/assess.h"
#include "train/backend/parallel.h"
#include "train/graph/ranks.h"
#include "train/math/loss.h"
#include "train/math/optimiser.h"
#include "train/math/reduce.h"
#include "train/memory/memory.h"
#include "train/ops/ops.h"
#include "train/update/exchange.h"
#include "train/update/update.h"

static void begin(comet_model *m, const float *images, uint64_t step)
{
    parallel_set_threads(m->params.n_threads);
    m->images = images;
    m->step = step;
    for (uint32_t i = 0; i < m->n_ops; i++)
        m->ops[i].own.decoded = false;
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
        if (saves)
            trace_add(m, o, false);
        ranks_mark(m);
    }
    return COMET_OK;
}

comet_status comet_model_calibrate(comet_model *m, const float *images)
{
    if (!m || !images || m->params.inference)
        return comet_fail(COMET_ERROR_ARGUMENT, "calibrating needs a model that trains, and images");
    begin(m, images, 0);
    m->calibrates = true;
    const comet_status status = forward(m, RUN_INSPECT);
    m->calibrates = false;
    return status;
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
                            .gradient_scale = 1.0f / (float)((uint64_t)m->params.accumulate * model_ranks(m)),
                            .gradient = gradient};
    return loss_compute(&spec, scores);
}

static comet_status add_gradients(comet_model *m, op *o)
{
    for (uint32_t j = 0; j < o->n_inputs; j++) {
        const delivery *d = &o->buffers.deliveries[j];
        if (d->sum == NO_BUFFER || d->by_parts)
            continue;
        const kernel_args args = {.at = {[ARG_SRC] = arena_at(&m->arena, d->a),
                                         [ARG_SRC_1] = arena_at(&m->arena, d->b),
                                         [ARG_DST] = arena_at(&m->arena, d->sum),
                                         [ARG_SCRATCH] = arena_at(&m->arena, o->buffers.scratch_backward)}};
        TRY(kernel_run(o->add[j], &args));
    }
    return COMET_OK;
}

static comet_status finish_gradient(comet_model *m, const op *o)
{
    comet_status status = COMET_OK;
    TRY(tell_gradient_ready(m, o));
    const step_part before = step_clock_switch(&m->clock, STEP_UPDATE);
    if (m->exchange && is_last_batch(m))
        status = exchange_add(m, o);
    else if (m->params.fused_update)
        update_op(m, o);
    step_clock_switch(&m->clock, before);
    return status;
}

static comet_status backward_op(comet_model *m, op *o)
{
    if (o->mask.used)
        TRY(mask_gradient(m, o));
    TRY(saved_take(m, o));
    TRY(o->type->backward(m, o));
    TRY(add_gradients(m, o));
    if (op_learns(m, o))
        TRY(finish_gradient(m, o));
    if (o->folds != NONE)
        TRY(finish_gradient(m, &m->ops[o->folds]));
    return saved_drop(m, o);
}

static comet_status backward(comet_model *m)
{
    for (uint32_t i = m->n_ops; i-- > 0;)
        if (m->ops[i].buffers.diff_dst != NO_BUFFER && m->ops[i].backward_by == i) {
            TRY(backward_op(m, &m->ops[i]));
            trace_add(m, &m->ops[i], true);
            ranks_mark(m);
        }
    if (!m->exchange || !is_last_batch(m))
        return COMET_OK;
    step_clock_switch(&m->clock, STEP_UPDATE);
    return exchange_finish(m);
}

/* Are an op's parameters and batch statistics finite? Its output alone does not tell: oneDNN's relu makes a zero of NaN. */
static bool op_is_finite(const comet_model *m, const op *o, bool with_weights)
{
    const uint32_t parameters[2] = {o->weight, o->bias};
    for (int i = 0; with_weights && i < 2; i++)
        if (parameters[i] != NONE) {
            const parameter *p = &m->parameters[parameters[i]];
            if (!all_finite(COMET_DTYPE_F32, p->n, m->weights + p->offset))
                return false;
        }
    const batch_norm *b = batch_norm_of(o);
    if (!b)
        return true;
    const uint64_t channels = m->parameters[b->mean].n;
    return all_finite(COMET_DTYPE_F32, channels, m->statistics + b->batch_mean) &&
           all_finite(COMET_DTYPE_F32, channels, m->statistics + b->batch_variance);
}

/* Images are finite, and what batch norms saw was. */
static bool forward_was_finite(const comet_model *m)
{
    if (!all_finite(COMET_DTYPE_F32, layout_elements(m->values[0].layout), m->images))
        return false;
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (!op_is_finite(m, &m->ops[i], false))
            return false;
    return true;
}

static buffer_id output_gradient(const comet_model *m)
{
    return m->ops[m->values[m->output].producer].buffers.diff_dst;
}

static comet_status check_step(const comet_model *m, const float *images, const uint32_t *labels, const comet_scores *scores)
{
    if (!m || !images || !labels || !scores)
        return comet_fail(COMET_ERROR_ARGUMENT, "gradients need a model, images, labels and a place for the scores");
    if (m->params.inference)
        return comet_fail(COMET_ERROR_ARGUMENT, "the model was created for evaluation only");
    return COMET_OK;
}

/* All that is held for backward is held now. */
static void forward_done(comet_model *m)
{
    comet_store_totals t;
    comet_store_totals_init(&t);
    comet_store_describe(m->store, &t);
    m->step_saved = m->coded ? t.held : m->memory.saved_raw;
    m->step_spilled = t.spilled;
    step_clock_switch(&m->clock, STEP_BACKWARD);
    step_clock_move(&m->clock, STEP_FORWARD, STEP_ENCODE, t.seconds_put / m->params.n_threads);
    step_clock_mark(&m->clock, STEP_BACKWARD);
}

static void backward_done(comet_model *m)
{
    comet_store_totals t;
    comet_store_totals_init(&t);
    comet_store_describe(m->store, &t);
    step_clock_end(&m->clock);
    step_clock_move(&m->clock, STEP_BACKWARD, STEP_DECODE, t.seconds_take / m->params.n_threads);
    trace_end(m);
    m->n_passes++;
}

static comet_status compute_gradients(comet_model *m, const float *images, const uint32_t *labels, uint64_t step,
                                      comet_scores *scores)
{
    comet_scores result;
    begin(m, images, step);
    if (m->n_accumulated == m->params.accumulate)
        m->n_accumulated = 0;
    step_clock_begin(&m->clock, STEP_FORWARD);
    trace_begin(m);
    TRY(tell_step_begins(m));
    TRY(policy_set_all(m));
    TRY(forward(m, RUN_TRAIN));
    TRY(compute_loss(m, labels, m->params.batch, arena_at(&m->arena, output_gradient(m)), &result));
    if (!forward_was_finite(m))
        result.loss = NAN;
    TRY(ranks_join_scores(m, &result));
    tell_loss_known(m, result.loss);
    forward_done(m);
    if (isfinite(result.loss)) {
        if (m->exchange && is_last_batch(m))
            TRY(exchange_begin(m));
        TRY(backward(m));
        m->n_accumulated++;
    }
    backward_done(m);
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

static comet_status squares_of_gradients(comet_model *m, double *squares)
{
    if (m->exchange)
        return exchange_squares(m, squares);
    *squares = sum_of_squares(COMET_DTYPE_F32, m->n_learnt, m->gradients);
    return COMET_OK;
}

comet_status comet_model_update(comet_model *m, double rate, uint64_t step)
{
    if (!m || m->params.inference || m->params.fused_update || m->n_accumulated == 0 || !isfinite(rate))
        return comet_fail(COMET_ERROR_ARGUMENT, "an update needs gradients of a training model and a finite rate");
    parallel_set_threads(m->params.n_threads);
    step_clock_begin(&m->clock, STEP_UPDATE);
    if (!m->exchange)
        update_tell_all(m, step);
    TRY(tell_update_done(m, step));
    const comet_optimiser *o = &m->params.optimiser;
    double squares = 0;
    if (o->clip_norm > 0)
        TRY(squares_of_gradients(m, &squares));
    const optimiser_step s = update_step_of(m, rate, step, optimiser_clip_scale(sqrt(squares), o->clip_norm));
    if (exchange_shards(m))
        TRY(exchange_update(m, &s));
    else
        update_all(m, &s);
    m->n_accumulated = 0;
    step_clock_end(&m->clock);
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
    step_clock_begin(&m->clock, STEP_UPDATE);
    TRY(tell_update_done(m, step));
    step_clock_end(&m->clock);
    return COMET_OK;
}

comet_status comet_model_evaluate(comet_model *m, const float *images, const uint32_t *labels, uint32_t n_valid,
                                  comet_scores *scores)
{
    if (!m || !images || !labels || !scores || n_valid > m->params.batch)
        return comet_fail(COMET_ERROR_ARGUMENT, "evaluation needs a model, images, labels and at most a batch of valid rows");
    if (n_valid == 0) {
        *scores = (comet_scores){0};
        return COMET_OK;
    }
    begin(m, images, 0);
    TRY(forward(m, RUN_EVALUATE));
    return compute_loss(m, labels, n_valid, NULL, scores);
}

static bool op_ran_finite(const comet_model *m, const op *o)
{
    const layout *output = m->values[o->output].layout;
    for (uint32_t j = 0; j < o->n_inputs; j++)
        if (m->values[o->inputs[j]].producer == NONE &&
            !all_finite(COMET_DTYPE_F32, layout_elements(m->values[o->inputs[j]].layout), m->images))
            return false;
    return op_is_finite(m, o, true) && all_finite(layout_type(output), layout_elements(output), value_data(m, o->output));
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
