/*
 * The adaptive bound; see adapt.h for the contract and docs/theory.md for the derivation.
 *
 * The bound of a tensor is the least of its consumers' limits. A parameter consumer with allowed variance A, gain G and
 * calibration c has the limit AIM * sqrt(A / G) / c, with A / G smoothed; a pass-on consumer with allowed relative energy E has
 * sqrt(E / G).
 *
 * Only + - * / and sqrt, which IEEE 754 fixes to the bit; no logarithms or powers of the math library. A mean on a logarithmic
 * scale at weight 1/2 is sqrt(old * new).
 */
#include "store/adapt.h"

#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"

/* Bounds aim at this part of sigma*: with errors half as large again as expected it is 1.17, with a third less 0.52. */
static const double AIM = 0.78;
/* A bound that moves by more than JUMP between assessments calls for more of them, one by less than DRIFT for fewer. */
static const double JUMP = 2, DRIFT = 1.25;
/* So does a measured error above this part of sigma*, the more so if it is above BROKEN; only where all are below FRESH do
 * bounds last long enough. */
static const double BROKEN = 1.5, WORN = 1.05, FRESH = 0.95;
/* An assessment collects over the last quarter of the gap before it, at most so many steps. */
static const uint64_t MOST_COLLECTED = 8;
/* A prediction that is further off than this is a fault in the measurement. */
static const double CALIBRATION_MIN = 0.25, CALIBRATION_MAX = 16;
/* Measurements with less than this part of the allowed variance do not calibrate: the gradient's own rounding is in them. */
static const double CALIBRATION_LEAST_VARIANCE = 1.0 / 64;
/* Best fit leaves no consumer without budget, and none with a multiple that the rule's user would not recognise. */
static const double SHARE_MIN = 0.125, SHARE_MAX = 4;
/* Relative energy for all pass-on consumers under SIGMA, whose factor says nothing about it. */
static const double SIGMA_PASS_SHARE = 0.01;
/* Whole numbers up to here are exact in a double. */
static const double EXACT_WHOLE = 9007199254740992.0;

enum { VERSION = 3, N_HEAD = 7, N_PER_TENSOR = 3, N_PER_CONSUMER = 17 };

typedef struct tensor_state {
    const char *name;
    uint64_t n_elements;
    double eb;   /* in force */
    double last; /* as of the last assessment, which a retreat does not forget; 0: none yet */
} tensor_state;

/* What was observed since the last assessment: sums over the steps. */
typedef struct collection {
    double n, gain;
    double allowance;           /* of a parameter: what the rule measures by, the gradient's noise or mean |momentum| */
    double measured, predicted; /* squared errors, over the steps in which they were measured */
    double eb;                  /* the least in these */
} collection;

typedef struct consumer_state {
    const char *name;
    uint64_t n_weights; /* 0: pass-on */
    uint32_t tensor;
    bool known;      /* observed since the start or the last retreat */
    bool limits;     /* sets its tensor's bound */
    bool calibrated; /* at least one measurement is in `calibration` */
    collection collected;
    double gain;      /* in the mean of the last assessment's steps */
    double share;     /* best fit's factor */
    double tolerance; /* what the rule measures by, over the gain, smoothed: see tolerate; 0: none yet */
    double allowed;   /* summed variance; NaN: unknown */
    double calibration;
    double limit;    /* of eb; INFINITY: none */
    double measured; /* summed squared error in the last assessment; NaN: not measured */
    bool at_limit;   /* that was with the bound which this consumer had set */
} consumer_state;

struct adapt {
    adapt_params params;
    tensor_state *tensors;
    consumer_state *consumers;
    uint32_t n_tensors, n_consumers, tensor_capacity, consumer_capacity;
    uint64_t first, next; /* of the steps that the next assessment collects, the first and the last */
    uint64_t gap;         /* steps to the one after */
    bool assessed;        /* bounds are in force */
};

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
    return (consumer_state){.name = name,
                            .n_weights = n_weights,
                            .tensor = tensor,
                            .share = 1,
                            .allowed = NAN,
                            .calibration = 1,
                            .limit = INFINITY,
                            .measured = NAN};
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

static void share_out(adapt *a)
{
    if (a->params.rule == ADAPT_NOISE && a->params.best_fit) {
        fill_water(a, true);
        fill_water(a, false);
    }
}

/* ---- collect ---- */

bool adapt_due(const adapt *a, uint64_t step)
{
    return step >= a->first;
}

bool adapt_complete(const adapt *a, uint64_t step)
{
    return step >= a->next;
}

static bool usable(double x)
{
    return isfinite(x) && x >= 0;
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
                 predicted = seen->gain * seen->eb * seen->eb;
    if (!usable(seen->gain) || !usable(allowance) || !usable(predicted))
        return;
    k->n++;
    k->gain += seen->gain;
    k->allowance += allowance;
    if (predicted > 0 && usable(seen->measured)) {
        k->eb = k->predicted > 0 ? fmin(k->eb, seen->eb) : seen->eb;
        k->measured += seen->measured;
        k->predicted += predicted;
    }
}

/* ---- assess ---- */

/* The mean of old and new on a logarithmic scale; only the new where there is no old. Both above 0. */
static double smooth(double old, double new, bool have_old)
{
    return have_old ? sqrt(old) * sqrt(new) : new;
}

/* The squared bound at which the error would be as large as what the rule measures by: the variance of the gradient, or the
 * square of its momentum. A batch that is harder than others has more of both this and the gain, so that their quotient moves
 * little; what is left of chance is smoothed. 0: unknown. */
static double tolerate(consumer_state *c, double measure)
{
    if (measure > 0 && c->gain > 0)
        c->tolerance = smooth(c->tolerance, measure / c->gain, c->tolerance > 0);
    return measure > 0 ? c->tolerance : 0;
}

/* Gradient assessment: the summed variance that the error may add in this step, and the bound that does. The paper's rule says
 * what is allowed to the letter, so that its bounds fall at once; under NOISE the smoothed quotient is the better estimate of
 * the variance too. */
static void assess_gradient(const adapt *a, consumer_state *c)
{
    const bool noise = a->params.rule == ADAPT_NOISE;
    const double allowance = c->collected.allowance / c->collected.n,
                 share = noise ? a->params.share * c->share : a->params.share * a->params.share,
                 measure = noise ? allowance : (double)c->n_weights * allowance * allowance, tolerance = tolerate(c, measure);
    c->limit = INFINITY;
    c->allowed = share * measure;
    if (c->gain > 0) {
        c->limit = AIM * sqrt(share * (noise ? tolerance : fmin(tolerance, measure / c->gain)));
        c->allowed = noise ? share * tolerance * c->gain : c->allowed;
    }
}

static void calibrate(consumer_state *c)
{
    const collection *k = &c->collected;
    if (!(k->predicted > 0))
        return;
    const double predicted = c->gain * k->eb * k->eb, quotient = k->measured / k->predicted;
    c->measured = quotient * predicted;
    if (!(quotient > 0) || !(predicted >= CALIBRATION_LEAST_VARIANCE * c->allowed))
        return;
    const double ratio = clamp(sqrt(quotient), CALIBRATION_MIN, CALIBRATION_MAX);
    c->calibration = clamp(smooth(c->calibration, ratio, c->calibrated), CALIBRATION_MIN, CALIBRATION_MAX);
    c->calibrated = true;
}

/* Relative energy that a pass-on consumer may let in. */
static double pass_share(const adapt *a, const consumer_state *c)
{
    const double share = a->params.rule == ADAPT_NOISE ? a->params.share : SIGMA_PASS_SHARE;
    return share * c->share / count_consumers(a, false);
}

static double pass_limit(const adapt *a, const consumer_state *c)
{
    return c->gain == 0 ? INFINITY : sqrt(pass_share(a, c) / c->gain);
}

static void assess_parameter(const adapt *a, consumer_state *c)
{
    /* The caller may have stored more exactly than allowed; then the measurement says nothing about the bound. */
    c->at_limit = c->limits && c->collected.eb >= 0.99 * a->tensors[c->tensor].eb;
    assess_gradient(a, c);
    calibrate(c);
    c->limit /= c->calibration;
}

static void assess_consumer(const adapt *a, consumer_state *c)
{
    c->measured = NAN;
    c->at_limit = false;
    if (c->collected.n == 0)
        return;
    c->known = true;
    c->gain = c->collected.gain / c->collected.n;
    if (c->n_weights > 0)
        assess_parameter(a, c);
    else
        c->limit = pass_limit(a, c);
    c->collected = (collection){0};
}

/* Activation assessment: the least limit, of the first consumer among equals; 0 while any consumer's harm is unknown. */
static double assess_tensor(adapt *a, uint32_t tensor)
{
    consumer_state *least = NULL;
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
        least->limits = true;
    return eb;
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

static uint64_t halve(uint64_t gap, uint64_t least)
{
    return max_u64(gap / 2, min_u64(gap, least));
}

static uint64_t twice(uint64_t gap, uint64_t most)
{
    return min_u64(2 * gap, most);
}

/* From 1 up to a sixteenth of the window while nothing jumps; then up to the window while nothing moves and errors stay as they
 * should. */
static void plan_next(adapt *a, uint64_t step, double moved)
{
    const uint64_t usual = window_part(a, 16);
    double smallest, largest;
    adapt_sigma_ratios(a, &smallest, &largest);
    if (largest > BROKEN)
        a->gap = halve(a->gap, window_part(a, 64));
    else if (a->gap < usual)
        a->gap = moved > JUMP ? a->gap : twice(a->gap, usual);
    else if (moved > JUMP || largest > WORN)
        a->gap = halve(a->gap, usual);
    else if (moved <= DRIFT && !(largest > FRESH))
        a->gap = twice(a->gap, a->params.window);
    a->next = step + a->gap;
    a->first = a->next + 1 - min_u64(max_u64(a->gap / 4, 1), MOST_COLLECTED);
}

/* A few mini-batches say little: a bound falls as far as it must, but rises three quarters of the way on a logarithmic scale.
 */
static double rise_slowly(double last, double eb)
{
    return last > 0 && isfinite(last) && isfinite(eb) && eb > last ? eb * sqrt(sqrt(last / eb)) : eb;
}

void adapt_assess(adapt *a, uint64_t step)
{
    share_out(a);
    for (uint32_t i = 0; i < a->n_consumers; i++)
        assess_consumer(a, &a->consumers[i]);
    double moved = 1;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        tensor_state *t = &a->tensors[i];
        t->eb = rise_slowly(t->last, assess_tensor(a, i));
        moved = fmax(moved, moved_by(t));
        t->last = t->eb;
    }
    a->assessed = true;
    plan_next(a, step, moved);
}

void adapt_retreat(adapt *a, uint64_t step)
{
    for (uint32_t i = 0; i < a->n_tensors; i++)
        a->tensors[i].eb = 0;
    /* What was seen before belongs to another state of the net; calibration belongs to the layer. */
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        consumer_state *c = &a->consumers[i];
        c->known = c->limits = c->at_limit = false;
        c->collected = (collection){0};
        c->tolerance = 0;
        c->limit = INFINITY;
        c->allowed = c->measured = NAN;
    }
    a->assessed = false;
    a->first = a->next = step + 1;
    a->gap = min_u64(a->gap, window_part(a, 16));
}

double adapt_eb(const adapt *a, uint32_t tensor)
{
    return tensor < a->n_tensors && a->assessed ? a->tensors[tensor].eb : 0;
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

adapt_state adapt_consumer_state(const adapt *a, uint32_t consumer)
{
    adapt_state state = {NAN, NAN, NAN, NAN, NAN, false};
    if (!adapt_is_parameter(a, consumer))
        return state;
    const consumer_state *c = &a->consumers[consumer];
    const double n = (double)c->n_weights;
    state.sigma_target = sqrt(c->allowed / n);
    if (c->known)
        state.sigma_predicted = adapt_eb(a, c->tensor) * c->calibration * sqrt(c->gain / n);
    state.sigma_measured = sqrt(c->measured / n);
    state.calibration = c->calibration;
    state.share = c->share;
    state.limits = c->limits;
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
        const double ratio = sqrt(c->measured / c->allowed);
        if (!isfinite(ratio))
            continue;
        *most = fmax(*most, ratio);
        if (c->at_limit)
            *least = fmin(*least, ratio);
    }
}

/* ---- the gradient's own noise ---- */

/* By squaring: the same bits everywhere, which pow does not promise. */
static double power(double x, uint64_t n)
{
    double result = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
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

/* ---- checkpoints: all numbers are finite, -1 stands for "infinite" or "unknown" ---- */

static double pack(double x)
{
    return isfinite(x) ? x : -1;
}

static double unpack(double x, double otherwise)
{
    return x < 0 ? otherwise : x;
}

size_t adapt_n_numbers(const adapt *a)
{
    return N_HEAD + (size_t)N_PER_TENSOR * a->n_tensors + (size_t)N_PER_CONSUMER * a->n_consumers;
}

void adapt_export(const adapt *a, double *numbers)
{
    double *x = numbers;
    const double head[N_HEAD] = {VERSION,         a->n_tensors,   a->n_consumers, (double)a->first,
                                 (double)a->next, (double)a->gap, a->assessed};
    for (size_t i = 0; i < N_HEAD; i++)
        *x++ = head[i];
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const tensor_state *t = &a->tensors[i];
        *x++ = (double)t->n_elements;
        *x++ = pack(t->eb);
        *x++ = pack(t->last);
    }
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const consumer_state *c = &a->consumers[i];
        const collection *k = &c->collected;
        const double own[N_PER_CONSUMER] = {(double)c->n_weights,
                                            c->tensor,
                                            c->known,
                                            c->limits,
                                            c->calibrated,
                                            c->tolerance,
                                            pack(c->allowed),
                                            c->calibration,
                                            pack(c->limit),
                                            pack(c->measured),
                                            c->gain,
                                            k->n,
                                            k->gain,
                                            k->allowance,
                                            k->eb,
                                            k->measured,
                                            k->predicted};
        for (size_t j = 0; j < N_PER_CONSUMER; j++)
            *x++ = own[j];
    }
}

static bool is_flag(double x)
{
    return x == 0 || x == 1;
}

static bool is_whole(double x)
{
    return x >= 0 && x <= EXACT_WHOLE && x == floor(x);
}

static bool is_packed(double x)
{
    return usable(x) || x == -1;
}

static bool head_fits(const adapt *a, const double *x)
{
    return x[0] == VERSION && x[1] == a->n_tensors && x[2] == a->n_consumers && is_whole(x[3]) && is_whole(x[4]) &&
           is_whole(x[5]) && x[5] >= 1 && is_flag(x[6]);
}

static bool tensor_fits(const tensor_state *t, const double *x)
{
    return x[0] == (double)t->n_elements && is_packed(x[1]) && is_packed(x[2]);
}

static bool consumer_fits(const consumer_state *c, const double *x)
{
    return x[0] == (double)c->n_weights && x[1] == c->tensor && is_flag(x[2]) && is_flag(x[3]) && is_flag(x[4]) &&
           usable(x[5]) && is_packed(x[6]) && x[7] >= CALIBRATION_MIN && x[7] <= CALIBRATION_MAX && is_packed(x[8]) &&
           is_packed(x[9]) && usable(x[10]) && is_whole(x[11]) && usable(x[12]) && usable(x[13]) && usable(x[14]) &&
           usable(x[15]) && usable(x[16]);
}

static bool numbers_fit(const adapt *a, const double *x, size_t n)
{
    if (n != adapt_n_numbers(a) || !head_fits(a, x))
        return false;
    x += N_HEAD;
    bool fit = true;
    for (uint32_t i = 0; i < a->n_tensors; i++, x += N_PER_TENSOR)
        fit = fit && tensor_fits(&a->tensors[i], x);
    for (uint32_t i = 0; i < a->n_consumers; i++, x += N_PER_CONSUMER)
        fit = fit && consumer_fits(&a->consumers[i], x);
    return fit;
}

static void import_consumer(consumer_state *c, const double *x)
{
    c->at_limit = false;
    c->known = x[2] != 0;
    c->limits = x[3] != 0;
    c->calibrated = x[4] != 0;
    c->tolerance = x[5];
    c->allowed = unpack(x[6], NAN);
    c->calibration = x[7];
    c->limit = unpack(x[8], INFINITY);
    c->measured = unpack(x[9], NAN);
    c->gain = x[10];
    c->collected =
        (collection){.n = x[11], .gain = x[12], .allowance = x[13], .eb = x[14], .measured = x[15], .predicted = x[16]};
}

comet_status adapt_import(adapt *a, const double *numbers, size_t n)
{
    const double *x = numbers;
    if (!numbers_fit(a, x, n))
        return comet_fail(COMET_ERROR_CORRUPT, "%zu numbers are not the state of %u adaptive bounds with %u consumers", n,
                          a->n_tensors, a->n_consumers);
    a->first = (uint64_t)x[3];
    a->next = (uint64_t)x[4];
    /* A run may go on with another window. */
    a->gap = x[5] < a->params.window ? (uint64_t)x[5] : a->params.window;
    a->assessed = x[6] != 0;
    x += N_HEAD;
    for (uint32_t i = 0; i < a->n_tensors; i++, x += N_PER_TENSOR) {
        a->tensors[i].eb = unpack(x[1], INFINITY);
        a->tensors[i].last = unpack(x[2], INFINITY);
    }
    for (uint32_t i = 0; i < a->n_consumers; i++, x += N_PER_CONSUMER)
        import_consumer(&a->consumers[i], x);
    share_out(a);
    return COMET_OK;
}
