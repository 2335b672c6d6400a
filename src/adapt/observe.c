/* What consumers see in a step. */
#include "adapt/state.h"

void adapt_observe(adapt *a, uint32_t consumer, const adapt_observation *seen)
{
    if (consumer >= a->n_consumers)
        return;
    consumer_state *c = &a->consumers[consumer];
    collection *k = &c->collected;
    const double allowance = c->n_weights == 0               ? 0
                             : a->params.rule == ADAPT_NOISE ? seen->gradient_noise
                                                             : seen->mean_momentum,
                 predicted = seen->gain * seen->eb * seen->eb, harm = seen->measured / (seen->eb * seen->eb);
    if (!usable(seen->gain) || !usable(seen->eb) || !usable(allowance) || !usable(predicted))
        return;
    a->tensors[c->tensor].stored = seen->eb;
    k->n++;
    k->gain += c->n_weights > 0 ? to_average(a, seen->gain) : seen->gain;
    k->allowance += allowance;
    if (predicted > 0 && usable(harm)) {
        k->eb = k->n_measured > 0 ? fmin(k->eb, seen->eb) : seen->eb;
        k->n_measured++;
        k->measured += to_average(a, seen->measured);
        k->harm += to_average(a, harm);
        k->measured_allowance += allowance;
    }
}

double adapt_noise(double squared_distance, double beta, uint64_t n_steps)
{
    if (n_steps == 0)
        return 0;
    if (!(beta >= 0 && beta <= 1))
        return NAN;
    const double faded = power(beta, n_steps);
    const double of_mean = faded < 1 ? (1 - beta) * (1 + faded) / ((1 + beta) * (1 - faded)) : 1 / (double)n_steps;
    return squared_distance / (1 + of_mean);
}
