/* See update.h. */
#include "train/update/update.h"

#include "comet/ranks.h"
#include "train/graph/saving.h"

optimiser_step update_step_of(const comet_model *m, double rate, uint64_t step, float gradient_scale)
{
    return (optimiser_step){.optimiser = &m->params.optimiser,
                            .rate = rate,
                            .step = step,
                            .seed = m->params.seed,
                            .gradient_scale = gradient_scale};
}

optimiser_step update_step(const comet_model *m)
{
    return update_step_of(m, m->rate, m->step, 1);
}

/* The optimiser does not see a momentum that is there for bounds only. */
static optimiser_state state_for(const comet_model *m, state_block momentum, state_block second_moment, uint64_t first)
{
    return (optimiser_state){.momentum = model_hides_momentum(m) ? (state_block){.data = NULL} : momentum,
                             .second_moment = second_moment,
                             .first = first};
}

void update_part(comet_model *m, const optimiser_step *s, const parameter *p, uint64_t first, uint64_t n, const float *gradient,
                 state_block momentum, state_block second_moment)
{
    const uint64_t at = p->offset + first;
    const optimiser_state state = state_for(m, momentum, second_moment, at);
    optimiser_step own = *s;
    own.rate *= p->rate_factor;
    optimiser_apply(&own, n, m->weights + at, gradient, &state, true);
}

static void update_parameter(comet_model *m, const optimiser_step *s, const parameter *p, const float *gradient)
{
    update_part(m, s, p, 0, p->n, gradient, state_at(m->momentum, p->offset), state_at(m->second_moment, p->offset));
}

static void tell_parameter(comet_model *m, const op *o, uint32_t index, uint64_t step)
{
    if (!is_trained(m, index))
        return;
    const uint64_t n = m->parameters[index].n, offset = m->parameters[index].offset;
    const gradient_part part = {.op = o,
                                .parameter = index,
                                .n = n,
                                .gradient = gradient_at(m, o, index),
                                .own_n = n,
                                .state_n = n,
                                .momentum = state_at(m->momentum, offset)};
    tell_gradient_used(m, &part, step);
}

static void tell_op(comet_model *m, const op *o, uint64_t step)
{
    tell_parameter(m, o, o->weight, step);
    tell_parameter(m, o, o->bias, step);
}

void update_op(comet_model *m, const op *o)
{
    const optimiser_step s = update_step(m);
    const uint32_t own[2] = {o->weight, o->bias};
    tell_op(m, o, m->step);
    for (int i = 0; i < 2; i++)
        if (is_trained(m, own[i]))
            update_parameter(m, &s, &m->parameters[own[i]], gradient_at(m, o, own[i]));
}

void update_tell_all(comet_model *m, uint64_t step)
{
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (op_learns(m, &m->ops[i]) && m->ops[i].buffers.diff_dst != NO_BUFFER)
            tell_op(m, &m->ops[i], step);
}

void update_all(comet_model *m, const optimiser_step *s)
{
    if (!m->params.rates) {
        const optimiser_state state = state_for(m, m->momentum, m->second_moment, 0);
        optimiser_apply(s, m->n_learnt, m->weights, m->gradients, &state, true);
        return;
    }
    for (uint32_t i = 0; i < m->n_parameters; i++)
        if (m->parameters[i].learnt && is_trained(m, i))
            update_parameter(m, s, &m->parameters[i], m->gradients + m->parameters[i].offset);
}
