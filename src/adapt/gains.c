/*
 * What an error does to the gradient of a parameter consumer: its harm, predicted by the gain or measured, in units of the
 * reference M of the consumer's rule. A batch that is harder than others has more of both, so their quotient is steady.
 */
#include "adapt/state.h"

/* A measured harm is trusted if the tensor was stored with at least this part of the consumer's limit. */
static const double MIN_PART_OF_LIMIT = 0.125;
/* The history of errors is a mean over several assessments, since the error of one hard batch may be ten times that of others:
 * each further measured step leaves this part of an older one's weight. Weights sum to at most 32 where steps are measured one
 * at a time; sixty steps measured ten at a time reach ADAPT_RATIO_STEPS. */
static const double FADE = 31.0 / 32;

/* Goes from old to new, both above 0, on a logarithmic scale: half of the way, or three quarters under SIGMA, whose target
 * moves with the momentum. Without an old value: the new one. */
static double smooth(const adapt *a, double old, double new, bool have_old)
{
    if (!have_old)
        return new;
    const double half_way = sqrt(old) * sqrt(new);
    return a->params.rule == ADAPT_NOISE ? half_way : sqrt(half_way) * sqrt(new);
}

/* M from a sum over n steps: the variance of the gradient, or the squares of its mean |momentum|, summed over the weights. */
static double reference_of(const adapt *a, const consumer_state *c, double sum, double n)
{
    const double mean = sum / n;
    return a->params.rule == ADAPT_NOISE ? mean : (double)c->n_weights * mean * mean;
}

/* The measured harm; 0: there is none to trust. Errors of a bound far below the limit are less correlated than those at the
 * limit, so their harm is trusted only if it is worse than the known one. */
static double measured_harm(const adapt *a, const consumer_state *c)
{
    const collection *k = &c->collected;
    if (!(k->n_measured > 0) || !(c->reference > 0))
        return 0;
    const double harm = from_average(a, k->harm / k->n_measured) / c->reference;
    return isfinite(harm) && (k->eb >= MIN_PART_OF_LIMIT * c->limit || harm > c->harm) ? harm : 0;
}

/* M, what the error may add, and what it added. Where the error was measured, M is taken over the same steps: a batch that is
 * harder than others, or whose gradients are alike over large areas, has more of both. */
static void assess_gradient(const adapt *a, consumer_state *c)
{
    const collection *k = &c->collected;
    const bool measured = k->n_measured > 0;
    c->reference = measured ? reference_of(a, c, k->measured_reference, k->n_measured) : reference_of(a, c, k->reference, k->n);
    c->allowed = adapt_parameter_share(a, c) * c->reference;
    c->measured = measured ? from_average(a, k->measured / k->n_measured) : NAN;
}

/* The harm, smoothed: as it was measured, or predicted as long as it was never measured. After a retreat a prediction that is
 * worse than what was measured counts too. */
static void assess_harm(const adapt *a, consumer_state *c, bool was_known)
{
    const double measured = measured_harm(a, c), predicted = c->reference > 0 ? c->gain / c->reference : 0;
    if (!(measured > 0) && c->harm_measured && (was_known || predicted <= c->harm))
        return;
    const double now = measured > 0 ? measured : predicted;
    if (!(now > 0) || !isfinite(now))
        return;
    c->harm = smooth(a, c->harm, now, c->harm > 0 && was_known && (measured > 0) == c->harm_measured);
    c->harm_measured = measured > 0;
}

/* Both histories fade; the error is added to the one it belongs to: at the limit, or below it. */
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
