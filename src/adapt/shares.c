/* Who may have how much of the noise budget. */
#include "adapt/state.h"

/* Best fit leaves no consumer without budget, and none with a multiple that the rule's user would not recognise. */
static const double SHARE_MIN = 0.125, SHARE_MAX = 4;
/* Relative energy for all pass-on consumers under SIGMA, whose factor says nothing about it. */
static const double SIGMA_PASS_SHARE = 0.01;

/* ---- best fit ---- */

static uint32_t count_consumers(const adapt *a, bool parameter)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++)
        n += (a->consumers[i].n_weights > 0) == parameter;
    return n;
}

/* Elements of the tensor for each of its consumers of that kind: what best fit's shares are proportional to. */
static double weight_of(const adapt *a, const consumer_state *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++)
        n += a->consumers[i].tensor == c->tensor && (a->consumers[i].n_weights > 0) == (c->n_weights > 0);
    return (double)a->tensors[c->tensor].n_elements / n;
}

/* Sum of the shares at multiplier `lambda`; c->share holds the weight. */
static double sum_of_shares(const adapt *a, bool parameter, double lambda)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const consumer_state *c = &a->consumers[i];
        if ((c->n_weights > 0) == parameter)
            sum += clamp(lambda * c->share, SHARE_MIN, SHARE_MAX);
    }
    return sum;
}

/* Shares clamp(lambda * weight) with mean 1. Their sum grows with lambda, from n/8 to 4n: bisection to the last bit. */
static void distribute(adapt *a, bool parameter)
{
    double least = INFINITY, most = 0;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        if ((c->n_weights > 0) != parameter)
            continue;
        c->share = weight_of(a, c);
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
        if ((c->n_weights > 0) == parameter)
            c->share = clamp(low * c->share, SHARE_MIN, SHARE_MAX);
    }
}

void adapt_distribute_shares(adapt *a)
{
    if (a->params.rule == ADAPT_NOISE && a->params.best_fit) {
        distribute(a, true);
        distribute(a, false);
    }
}

/* ---- what a consumer may have ---- */

/* Of M, that the error may add. */
double adapt_parameter_share(const adapt *a, const consumer_state *c)
{
    return a->params.rule == ADAPT_NOISE ? a->params.share * c->share : a->params.share * a->params.share;
}

/* Relative energy that a pass-on consumer may let in. */
double adapt_pass_share(const adapt *a, const consumer_state *c)
{
    const double share = a->params.rule == ADAPT_NOISE ? a->params.share : SIGMA_PASS_SHARE;
    return share * c->share / count_consumers(a, false);
}
