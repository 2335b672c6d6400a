/*
 * The noise budget: which share of it each consumer gets.
 *
 * Best fit distributes the same total noise so that memory is least. A bound of eb costs about -log2(eb) bits an element, so
 * the noise of a tensor should be in proportion to its elements. A consumer gets share = clamp(lambda * elements), where lambda
 * makes the mean share 1; parameter and pass-on consumers apart.
 */
#include "adapt/state.h"

/* Limits of best fit's factor: no consumer is left without budget, and none gets far more than the user asked for. */
static const double SHARE_MIN = 0.125, SHARE_MAX = 4;
/* What all pass-on consumers together may add to the passed energy under SIGMA, whose factor says nothing about it. */
static const double SIGMA_PASS_SHARE = 0.01;

/* ---- best fit ---- */

static uint32_t count_consumers(const adapt *a, bool parameter)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++)
        n += is_parameter(&a->consumers[i]) == parameter;
    return n;
}

/* Elements of c's tensor, divided among the tensor's consumers of the same kind. */
static double elements_per_consumer(const adapt *a, const consumer_state *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++)
        n += a->consumers[i].tensor == c->tensor && is_parameter(&a->consumers[i]) == is_parameter(c);
    return (double)a->tensors[c->tensor].n_elements / n;
}

/* The sum of the shares for a given lambda, while c->share holds elements_per_consumer. */
static double sum_of_shares(const adapt *a, bool parameter, double lambda)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const consumer_state *c = &a->consumers[i];
        if (is_parameter(c) == parameter)
            sum += clamp(lambda * c->share, SHARE_MIN, SHARE_MAX);
    }
    return sum;
}

/* The sum of the n shares grows with lambda, from n/8 to 4n, so bisection finds the lambda for a sum of n, to the last bit. */
static void distribute_shares(adapt *a, bool parameter)
{
    double least = INFINITY, most = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        if (is_parameter(c) != parameter)
            continue;
        c->share = elements_per_consumer(a, c);
        least = fmin(least, c->share);
        most = fmax(most, c->share);
    }
    if (most == 0)
        return;
    const double n = count_consumers(a, parameter);
    double low = SHARE_MIN / most, high = SHARE_MAX / least;
    for (int i = 0; i < 200; i++) {
        const double middle = 0.5 * (low + high);
        *(sum_of_shares(a, parameter, middle) < n ? &low : &high) = middle;
    }
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        if (is_parameter(c) == parameter)
            c->share = clamp(low * c->share, SHARE_MIN, SHARE_MAX);
    }
}

void adapt_distribute_shares(adapt *a)
{
    if (a->params.rule == ADAPT_NOISE && a->params.best_fit) {
        distribute_shares(a, true);
        distribute_shares(a, false);
    }
}

/* ---- what the error may add ---- */

double adapt_parameter_share(const adapt *a, const consumer_state *c)
{
    return a->params.rule == ADAPT_NOISE ? a->params.share * c->share : a->params.share * a->params.share;
}

double adapt_pass_share(const adapt *a, const consumer_state *c)
{
    const double share = a->params.rule == ADAPT_NOISE ? a->params.share : SIGMA_PASS_SHARE;
    return share * c->share / count_consumers(a, false);
}
