/*
 * Which part of sigma* a limit aims at.
 *
 * The harm that a limit is computed from is an estimate: it scatters with the batches that were measured, lags where the harm
 * moves, and is a mean on a logarithmic scale. So the error that is measured next is not the one that was aimed at. Let p be
 * its square over the square aimed at (SIGMA: both without the square). Over assessments p has a mean and a standard error of
 * that mean, and the limit aims so high that mean + standard error is sigma*: the less p scatters, the closer to sigma*. Until
 * p is known, the limit aims at 0.78. Where errors are not measured, p is what the gain now predicts.
 */
#include "adapt/state.h"

/* While nothing is known: errors half as large again as expected are then 1.17 sigma*, a third smaller 0.52. */
static const double FIRST_AIM = 0.78;
/* Whatever was measured. Above 1: the harm falls steadily, and what is known of it lags. */
static const double LEAST_AIM = 0.6, MOST_AIM = 1.1;
/* p is known from so many measured steps on, in at least so many assessments. */
static const double MIN_STEPS = 10, MIN_ASSESSMENTS = 3;
/* Squared error of a consumer whose error is not measured, over what its gain predicts: simulations have 0.95 to 1.05 of sigma.
 */
static const double PREDICTED = 1.1;
/* No square counts as more, or as less than its inverse: a net that suddenly learns is no scatter. */
static const double JUMP = 4;
/* The standard deviation of p is assumed to be at least this part of its mean: a few assessments may agree by chance. */
static const double LEAST_SCATTER = 0.1;
/* An older step's weight falls by this factor with each further measured one. */
static const double FADE = 31.0 / 32;

void adapt_reset_aim(consumer_state *c)
{
    c->aim = FIRST_AIM;
    c->scatter = (error_scatter){0};
}

/* Each assessment weighs as many steps as it measured. */
static void remember(error_scatter *s, double n, double p)
{
    const double kept = power(FADE, (uint64_t)n);
    s->n = kept * s->n + n;
    s->n_squares = kept * kept * s->n_squares + n * n;
    s->sum = kept * s->sum + n * p;
    s->squares = kept * s->squares + n * p * p;
}

/* The mean of p, and its standard error. */
static double cautious_mean(const error_scatter *s, double n_assessments)
{
    const double mean = s->sum / s->n, least = LEAST_SCATTER * mean;
    const double variance = fmax(s->squares / s->n - mean * mean, least * least);
    return mean + sqrt(variance / (n_assessments - 1));
}

/* p; NaN: there is none. The first measurement after a prediction says how far that was off, not how errors scatter. */
static double error_over_aim(const adapt *a, const consumer_state *c, const known_harm *before)
{
    if (!(before->harm > 0) || before->measured != c->harm_measured || (c->harm_measured && !c->at_limit))
        return NAN;
    const double p =
        c->harm_measured ? c->measured / c->allowed / (c->aim * c->aim) : PREDICTED * c->gain / c->reference / before->harm;
    return isfinite(p) ? to_average(a, clamp(p, 1 / JUMP, JUMP)) : NAN;
}

void adapt_follow_aim(const adapt *a, consumer_state *c, const known_harm *before)
{
    error_scatter *s = &c->scatter;
    const double p = error_over_aim(a, c, before);
    if (!isfinite(p))
        return;
    remember(s, c->harm_measured ? c->collected.n_measured : c->collected.n, p);
    const double n_assessments = s->n * s->n / s->n_squares;
    if (s->n < MIN_STEPS || n_assessments < MIN_ASSESSMENTS)
        return;
    const double aim = 1 / cautious_mean(s, n_assessments);
    c->aim = clamp(a->params.rule == ADAPT_NOISE ? sqrt(aim) : aim, LEAST_AIM, MOST_AIM);
}
