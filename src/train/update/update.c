/* See update.h. */
#include "train/update/update.h"

#include "comet/ranks.h"

static bool optimiser_uses_momentum(const comet_model *m)
{
    return m->momentum && !model_hides_momentum(m);
}

optimiser_step update_step(const comet_model *m)
{
    return (optimiser_step){.optimiser = &m->params.optimiser, .rate = m->rate, .step = m->step, .gradient_scale = 1};
}

void update_part(comet_model *m, const optimiser_step *s, const parameter *p, uint64_t first, uint64_t n, const float *gradient,
                 float *momentum, float *second_moment)
{
    optimiser_step own = *s;
    own.rate *= p->rate_factor;
    optimiser_apply(&own, n, m->weights + p->offset + first, gradient, optimiser_uses_momentum(m) ? momentum : NULL,
                    second_moment, true);
}

static void update_parameter(comet_model *m, const optimiser_step *s, const parameter *p, const float *gradient)
{
    update_part(m, s, p, 0, p->n, gradient, m->momentum ? m->momentum + p->offset : NULL,
                m->second_moment ? m->second_moment + p->offset : NULL);
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
                                .momentum = m->momentum ? m->momentum + offset : NULL};
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
        optimiser_apply(s, m->n_learnt, m->weights, m->gradients, optimiser_uses_momentum(m) ? m->momentum : NULL,
                        m->second_moment, true);
        return;
    }
    for (uint32_t i = 0; i < m->n_parameters; i++)
        if (m->parameters[i].learnt && is_trained(m, i))
            update_parameter(m, s, &m->parameters[i], m->gradients + m->parameters[i].offset);
}
