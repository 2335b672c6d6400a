/* What a consumer saw in one step, added to the sums of the next assessment; and the noise that a gradient has anyway. */
#include "adapt/state.h"

/* The step's contribution to the reference of a consumer's rule. */
static double reference_of(const adapt *a, const consumer_state *c, const adapt_observation *seen)
{
    if (!is_parameter(c))
        return 0;
    return a->params.rule == ADAPT_NOISE ? seen->gradient_noise : seen->mean_momentum;
}

void adapt_observe(adapt *a, uint32_t consumer, const adapt_observation *seen)
{
    if (consumer >= a->n_consumers)
        return;
    consumer_state *c = &a->consumers[consumer];
    collection *k = &c->collected;
    const double reference = reference_of(a, c, seen), predicted = seen->gain * seen->eb * seen->eb,
                 harm = seen->measured / (seen->eb * seen->eb);
    if (!usable(seen->gain) || !usable(seen->eb) || !usable(reference) || !usable(predicted))
        return;
    a->tensors[c->tensor].stored = seen->eb;
    k->n++;
    k->gain += is_parameter(c) ? to_average(a, seen->gain) : seen->gain;
    k->reference += reference;
    if (predicted > 0 && usable(harm)) {
        k->eb = k->n_measured > 0 ? fmin(k->eb, seen->eb) : seen->eb;
        k->n_measured++;
        k->measured += to_average(a, seen->measured);
        k->harm += to_average(a, harm);
        k->measured_reference += reference;
    }
}

double adapt_noise(double squared_distance, double beta, uint64_t n_steps)
{
    if (n_steps == 0)
        return 0;
    if (!(beta >= 0 && beta <= 1))
        return NAN;
    /* Variance of the mean gradient that momentum estimates, in units of one gradient's: c_n of docs/theory.md. */
    const double faded = power(beta, n_steps);
    const double mean_noise = faded < 1 ? (1 - beta) * (1 + faded) / ((1 + beta) * (1 - faded)) : 1 / (double)n_steps;
    return squared_distance / (1 + mean_noise);
}
