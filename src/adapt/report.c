/* Allowed, predicted and measured errors, for the log. */
#include "adapt/state.h"

/* NaN where the last assessment did not measure it, or too few steps were measured. */
static double sigma_ratio(const adapt *a, const consumer_state *c)
{
    const error_history *h = &c->errors[c->at_limit];
    return isfinite(c->measured / c->allowed) && h->n >= ADAPT_RATIO_STEPS ? sqrt(from_average(a, h->quotients / h->n)) : NAN;
}

adapt_state adapt_consumer_state(const adapt *a, uint32_t consumer)
{
    adapt_state state = {NAN, NAN, NAN, NAN, false, false, NAN};
    if (!adapt_is_parameter(a, consumer))
        return state;
    const consumer_state *c = &a->consumers[consumer];
    const double n = (double)c->n_weights;
    state.sigma_target = sqrt(c->allowed / n);
    if (c->known)
        state.sigma_predicted = adapt_eb(a, c->tensor) * sqrt(c->harm * c->reference / n);
    state.sigma_measured = sqrt(c->measured / n);
    state.share = c->share;
    state.limits = c->limits;
    state.at_limit = c->at_limit;
    state.sigma_ratio = sigma_ratio(a, c);
    return state;
}

void adapt_sigma_ratios(const adapt *a, double *least, double *most)
{
    *least = *most = NAN;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const consumer_state *c = &a->consumers[i];
        const double ratio = sigma_ratio(a, c);
        *most = fmax(*most, ratio);
        if (c->at_limit)
            *least = fmin(*least, ratio);
    }
}
