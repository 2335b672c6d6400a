/* What an error does to a gradient: as a gain predicts it, and as it was measured. */
#include "adapt/state.h"

/* A measurement tells of bounds near the one it was made with: from this part of the limit on. */
static const double LEAST_OF_LIMIT = 0.125;
/* What is told of errors goes over several assessments: each step measured since leaves this part of one's weight, and a weight
 * of so many steps tells something, as sixty have it ten at a time: the error of one hard batch may be ten times that of
 * others. There cannot be more than 32 where steps are measured one at a time. */
static const double FADE = 31.0 / 32;

/* From old to new on a logarithmic scale, both above 0: half of the way, or three quarters under SIGMA, whose target moves with
 * the momentum. Only the new where there is no old. */
static double smooth(const adapt *a, double old, double new, bool have_old)
{
    if (!have_old)
        return new;
    const double half_way = sqrt(old) * sqrt(new);
    return a->params.rule == ADAPT_NOISE ? half_way : sqrt(half_way) * sqrt(new);
}

/* What the rule measures by, from the sum over n steps: the variance of the gradient, or the square of its momentum. */
static double measure_of(const adapt *a, const consumer_state *c, double allowance, double n)
{
    const double mean = allowance / n;
    return a->params.rule == ADAPT_NOISE ? mean : (double)c->n_weights * mean * mean;
}

/* The harm that was measured; 0: none, or of errors such as the bound does not make. Those of a finer grid are more
 * independent: there only what is worse than known tells something. */
static double measured_harm(const adapt *a, const consumer_state *c)
{
    const collection *k = &c->collected;
    if (!(k->n_measured > 0) || !(c->measure > 0))
        return 0;
    const double harm = from_average(a, k->harm / k->n_measured) / c->measure;
    return isfinite(harm) && (k->eb >= LEAST_OF_LIMIT * c->limit || harm > c->harm) ? harm : 0;
}

/* Gradient assessment: M, what the error may add, and what it did. Where it was measured all are of the same steps: a batch
 * that is harder than others, or whose gradients are alike over large areas, has more of the one and the other. */
static void assess_gradient(const adapt *a, consumer_state *c)
{
    const collection *k = &c->collected;
    const bool measured = k->n_measured > 0;
    c->measure = measured ? measure_of(a, c, k->measured_allowance, k->n_measured) : measure_of(a, c, k->allowance, k->n);
    c->allowed = adapt_parameter_share(a, c) * c->measure;
    c->measured = measured ? from_average(a, k->measured / k->n_measured) : NAN;
}

/* Harm as it was measured, else as it is predicted while it never was; smoothed. Behind a retreat a prediction counts too, if
 * it is worse. */
static void assess_harm(const adapt *a, consumer_state *c, bool was_known)
{
    const double measured = measured_harm(a, c), predicted = c->measure > 0 ? c->gain / c->measure : 0;
    if (!(measured > 0) && c->harm_measured && (was_known || predicted <= c->harm))
        return;
    const double now = measured > 0 ? measured : predicted;
    if (!(now > 0) || !isfinite(now))
        return;
    c->harm = smooth(a, c->harm, now, c->harm > 0 && was_known && (measured > 0) == c->harm_measured);
    c->harm_measured = measured > 0;
}

/* Both histories fade; the error is added to the one that it belongs to. */
static void remember_error(const adapt *a, consumer_state *c)
{
    const double n = c->collected.n_measured, quotient = to_average(a, c->measured / c->allowed);
    if (!isfinite(quotient))
        return;
    const double kept = power(FADE, (uint64_t)n);
    for (int at_limit = 0; at_limit < 2; at_limit++) {
        error_history *h = &c->errors[at_limit];
        const double added = at_limit == c->at_limit ? n : 0;
        h->n = kept * h->n + added;
        h->quotients = kept * h->quotients + added * quotient;
    }
}

void adapt_assess_gradient(const adapt *a, consumer_state *c, bool was_known)
{
    assess_gradient(a, c);
    remember_error(a, c);
    assess_harm(a, c, was_known);
}
