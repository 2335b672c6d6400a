/*
 * The adaptive bound; see adapt.h for the contract and docs/theory.md for the derivation.
 *
 * The bound of a tensor is the least of its consumers' limits. A parameter consumer may have `share` of what its rule measures
 * by, M, and an error of bound 1 adds `harm` times M: its limit is AIM * sqrt(share / harm), with harm measured, or gain / M
 * where it is not; a pass-on consumer with allowed relative energy E has sqrt(E / gain).
 *
 * Only + - * / and sqrt, which IEEE 754 fixes to the bit; no logarithms or powers of the math library. A mean on a logarithmic
 * scale at weight 1/2 is sqrt(old * new), at weight 3/4 sqrt(sqrt(old * new) * new).
 */
#include <math.h>
#include <stdlib.h>

#include "adapt/state.h"
#include "base/bytes.h"
#include "base/status.h"

/* Bounds aim at this part of sigma*: with errors half as large again as expected it is 1.17, with a third less 0.52. */
static const double AIM = 0.78;
/* A bound that moves by JUMP between assessments calls for more of them, one by less than DRIFT for fewer. */
static const double JUMP = 2, DRIFT = 1.25;
/* So does a measured error above this part of sigma*; only where all are below FRESH do bounds last long enough. */
static const double WORN = 1.05, FRESH = 0.95;
/* Nor does a bound rise by more than CLIMB at once, from what tensors were stored with: what larger errors do is measured on
 * the way, not foreseen. */
static const double CLIMB = 2;
/* At their closest, once the first few are over, assessments are this part of the window apart. */
static const uint32_t CLOSE = 100;
/* A gap is at most this part of the steps so far: a net that has barely begun may change at once. */
static const uint64_t YOUNG = 8;
/* An assessment collects over the gap before it, at most FEW steps, or half of a long one, at most so many: late in training
 * few images of a batch make most of its gradient, and means over few steps tell little. */
static const uint64_t FEW = 10, MOST_COLLECTED = 20;
/* A measurement tells of bounds near the one it was made with: from this part of the limit on. */
static const double LEAST_OF_LIMIT = 0.125;
/* What is told of errors goes over several assessments: each step measured since leaves this part of one's weight, and a weight
 * of ADAPT_RATIO_STEPS tells something, as sixty have it ten at a time: the error of one hard batch may be ten times that of
 * others. There cannot be more than 32 where steps are measured one at a time. */
static const double FADE = 31.0 / 32;
/* Best fit leaves no consumer without budget, and none with a multiple that the rule's user would not recognise. */
static const double SHARE_MIN = 0.125, SHARE_MAX = 4;
/* Relative energy for all pass-on consumers under SIGMA, whose factor says nothing about it. */
static const double SIGMA_PASS_SHARE = 0.01;

/* ---- create ---- */

comet_status adapt_create(adapt **out, const adapt_params *params)
{
    if (!(params->share > 0) || !isfinite(params->share) || params->window == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "the share %g must be above 0 and the window %u at least 1", params->share,
                          params->window);
    if (params->rule != ADAPT_NOISE && params->rule != ADAPT_SIGMA)
        return comet_fail(COMET_ERROR_ARGUMENT, "%d is no rule for the bound", (int)params->rule);
    adapt *a = calloc(1, sizeof *a);
    if (!a)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for the adaptive bound");
    a->params = *params;
    a->first = a->next = 1;
    a->gap = 1;
    *out = a;
    return COMET_OK;
}

void adapt_destroy(adapt *a)
{
    if (a) {
        free(a->tensors);
        free(a->consumers);
    }
    free(a);
}

/* Room for one more item of `bytes` bytes. */
static comet_status grow(void **items, uint32_t n, uint32_t *capacity, size_t bytes)
{
    if (n < *capacity)
        return COMET_OK;
    const uint32_t more = *capacity ? 2 * *capacity : 64;
    void *larger = realloc(*items, more * bytes);
    if (!larger)
        return comet_fail(COMET_ERROR_MEMORY, "no memory for %u entries of the adaptive bound", more);
    *items = larger;
    *capacity = more;
    return COMET_OK;
}

comet_status adapt_add_tensor(adapt *a, const char *name, uint64_t n_elements, uint32_t *tensor)
{
    if (n_elements == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "tensor %s has no elements to bound", name);
    void *items = a->tensors;
    TRY(grow(&items, a->n_tensors, &a->tensor_capacity, sizeof *a->tensors));
    a->tensors = items;
    a->tensors[a->n_tensors] = (tensor_state){.name = name, .n_elements = n_elements};
    *tensor = a->n_tensors++;
    return COMET_OK;
}

static comet_status add_consumer(adapt *a, const consumer_state *c, uint32_t *consumer)
{
    if (c->tensor >= a->n_tensors)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s reads tensor %u of %u", c->name, c->tensor, a->n_tensors);
    void *items = a->consumers;
    TRY(grow(&items, a->n_consumers, &a->consumer_capacity, sizeof *a->consumers));
    a->consumers = items;
    a->consumers[a->n_consumers] = *c;
    *consumer = a->n_consumers++;
    return COMET_OK;
}

static consumer_state new_consumer(uint32_t tensor, const char *name, uint64_t n_weights)
{
    return (consumer_state){
        .name = name, .n_weights = n_weights, .tensor = tensor, .share = 1, .allowed = NAN, .limit = INFINITY, .measured = NAN};
}

comet_status adapt_add_parameter(adapt *a, uint32_t tensor, const char *name, uint64_t n_weights, uint32_t *consumer)
{
    if (n_weights == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "parameter %s has no weights", name);
    const consumer_state c = new_consumer(tensor, name, n_weights);
    return add_consumer(a, &c, consumer);
}

comet_status adapt_add_pass(adapt *a, uint32_t tensor, const char *name, uint32_t *consumer)
{
    const consumer_state c = new_consumer(tensor, name, 0);
    return add_consumer(a, &c, consumer);
}

/* ---- best fit ---- */

static double clamp(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

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
static void fill_water(adapt *a, bool parameter)
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

void adapt_share_out(adapt *a)
{
    if (a->params.rule == ADAPT_NOISE && a->params.best_fit) {
        fill_water(a, true);
        fill_water(a, false);
    }
}

/* ---- collect ---- */

/* A squared error as it is averaged over steps: NOISE is about variances, SIGMA about standard deviations. */
static double to_average(const adapt *a, double square)
{
    return a->params.rule == ADAPT_NOISE ? square : sqrt(square);
}

/* And back, of such a mean. */
static double from_average(const adapt *a, double mean)
{
    return a->params.rule == ADAPT_NOISE ? mean : mean * mean;
}

bool adapt_due(const adapt *a, uint64_t step)
{
    return step >= a->first;
}

bool adapt_complete(const adapt *a, uint64_t step)
{
    return step >= a->next;
}

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

/* ---- assess ---- */

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

/* Of M, that the error may add. */
static double share_of(const adapt *a, const consumer_state *c)
{
    return a->params.rule == ADAPT_NOISE ? a->params.share * c->share : a->params.share * a->params.share;
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
    c->allowed = share_of(a, c) * c->measure;
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

/* Relative energy that a pass-on consumer may let in. */
static double pass_share(const adapt *a, const consumer_state *c)
{
    const double share = a->params.rule == ADAPT_NOISE ? a->params.share : SIGMA_PASS_SHARE;
    return share * c->share / count_consumers(a, false);
}

/* A few mini-batches say little: it falls as far as it must, but rises three quarters of the way on a logarithmic scale. */
static double pass_limit(const adapt *a, const consumer_state *c)
{
    const double last = c->limit, limit = c->gain == 0 ? INFINITY : sqrt(pass_share(a, c) / c->gain);
    return last > 0 && isfinite(last) && isfinite(limit) && limit > last ? limit * sqrt(sqrt(last / limit)) : limit;
}

/* By squaring: the same bits everywhere, which pow does not promise. */
static double power(double x, uint64_t n)
{
    double result = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
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

static void assess_parameter(const adapt *a, consumer_state *c, bool was_known)
{
    /* The caller may have stored more exactly than allowed; then the measurement says nothing about the bound. */
    const double eb = a->tensors[c->tensor].eb;
    c->at_limit = c->limits && c->collected.n_measured > 0 && eb > 0 && c->collected.eb >= 0.99 * eb;
    assess_gradient(a, c);
    remember_error(a, c);
    assess_harm(a, c, was_known);
    c->limit = c->gain == 0 ? INFINITY : c->measure > 0 && c->harm > 0 ? AIM * sqrt(share_of(a, c) / c->harm) : 0;
}

static void assess_consumer(const adapt *a, consumer_state *c)
{
    c->measured = NAN;
    c->at_limit = false;
    if (c->collected.n == 0)
        return;
    const bool was_known = c->known;
    c->known = true;
    c->gain = c->collected.gain / c->collected.n;
    if (c->n_weights > 0) {
        c->gain = from_average(a, c->gain);
        assess_parameter(a, c, was_known);
    } else {
        c->limit = pass_limit(a, c);
    }
    c->collected = (collection){0};
}

/* Activation assessment: the least limit, of the first consumer among equals, as far as the bound may rise at once; 0 while any
 * consumer's harm is unknown. */
static double assess_tensor(adapt *a, uint32_t tensor)
{
    consumer_state *least = NULL;
    const tensor_state *t = &a->tensors[tensor];
    const double from = t->eb > 0 ? t->eb : t->stored, most = from > 0 ? CLIMB * from : INFINITY;
    double eb = INFINITY;
    bool known = true;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        if (c->tensor != tensor)
            continue;
        c->limits = false;
        known = known && c->known;
        if (c->limit < eb) {
            eb = c->limit;
            least = c;
        }
    }
    if (!known)
        return 0;
    if (least)
        least->limits = eb <= most;
    return isfinite(eb) ? fmin(eb, most) : eb;
}

/* By which factor since the last assessment, up or down; a first bound has not moved. */
static double moved_by(const tensor_state *t)
{
    if (t->last == 0 || t->eb == t->last)
        return 1;
    return t->eb > t->last ? t->eb / t->last : t->eb > 0 ? t->last / t->eb : INFINITY;
}

/* A part of the window, at least a step. */
static uint64_t window_part(const adapt *a, uint32_t divisor)
{
    return max_u64(a->params.window / divisor, 1);
}

/* Measured to target in the assessment just made; NaN: nothing was measured. */
static double largest_error(const adapt *a)
{
    double largest = NAN;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const double error = sqrt(a->consumers[i].measured / a->consumers[i].allowed);
        if (isfinite(error))
            largest = fmax(largest, error);
    }
    return largest;
}

/* From 1 up to CLOSE while nothing jumps; then up to the window, or what a run's age allows, while nothing moves and errors
 * stay as they should. */
static void plan_next(adapt *a, uint64_t step, double moved)
{
    const uint64_t close = window_part(a, CLOSE), most = max_u64(min_u64(a->params.window, step / YOUNG), close);
    const double largest = largest_error(a);
    if (a->gap < close)
        a->gap = moved >= JUMP ? a->gap : min_u64(2 * a->gap, close);
    else if (moved >= JUMP || largest > WORN)
        a->gap = max_u64(a->gap / 2, close);
    else if (moved <= DRIFT && !(largest > FRESH))
        a->gap = min_u64(2 * a->gap, most);
    a->next = step + a->gap;
    a->first = a->next + 1 - max_u64(min_u64(a->gap, FEW), min_u64(a->gap / 2, MOST_COLLECTED));
}

void adapt_assess(adapt *a, uint64_t step)
{
    adapt_share_out(a);
    for (uint32_t i = 0; i < a->n_consumers; i++)
        assess_consumer(a, &a->consumers[i]);
    double moved = 1;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        tensor_state *t = &a->tensors[i];
        t->eb = assess_tensor(a, i);
        moved = fmax(moved, moved_by(t));
        t->last = t->eb;
    }
    a->n_assessed++;
    plan_next(a, step, moved);
}

void adapt_retreat(adapt *a, uint64_t step)
{
    for (uint32_t i = 0; i < a->n_tensors; i++)
        a->tensors[i].eb = a->tensors[i].stored = 0;
    /* What was predicted before belongs to another state of the net; what was measured belongs to the layer. */
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        c->known = c->limits = c->at_limit = false;
        c->collected = (collection){0};
        c->errors[0] = c->errors[1] = (error_history){0};
        c->harm = c->harm_measured ? c->harm : 0;
        c->limit = INFINITY;
        c->allowed = c->measured = NAN;
    }
    a->n_assessed = 0;
    a->first = a->next = step + 1;
    a->gap = 1;
}

uint64_t adapt_n_assessed(const adapt *a)
{
    return a->n_assessed;
}

double adapt_eb(const adapt *a, uint32_t tensor)
{
    return tensor < a->n_tensors && a->n_assessed > 0 ? a->tensors[tensor].eb : 0;
}

double adapt_pass_left(const adapt *a, uint32_t consumer)
{
    if (consumer >= a->n_consumers || adapt_is_parameter(a, consumer) || !a->consumers[consumer].known)
        return 0;
    const consumer_state *c = &a->consumers[consumer];
    const double eb = adapt_eb(a, c->tensor), left = pass_share(a, c) - c->gain * eb * eb;
    return left > 0 && isfinite(left) ? left : 0;
}

/* ---- for the log ---- */

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
        state.sigma_predicted = adapt_eb(a, c->tensor) * sqrt(c->harm * c->measure / n);
    state.sigma_measured = sqrt(c->measured / n);
    state.share = c->share;
    state.limits = c->limits;
    state.at_limit = c->at_limit;
    state.sigma_ratio = sigma_ratio(a, c);
    return state;
}

uint32_t adapt_n_consumers(const adapt *a)
{
    return a->n_consumers;
}

uint32_t adapt_consumer_tensor(const adapt *a, uint32_t consumer)
{
    return consumer < a->n_consumers ? a->consumers[consumer].tensor : ADAPT_NONE;
}

const char *adapt_consumer_name(const adapt *a, uint32_t consumer)
{
    return consumer < a->n_consumers ? a->consumers[consumer].name : "";
}

bool adapt_is_parameter(const adapt *a, uint32_t consumer)
{
    return consumer < a->n_consumers && a->consumers[consumer].n_weights > 0;
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

/* ---- the gradient's own noise ---- */

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
