/* The adaptive bound for Python: src/adapt/adapt.h with checked numbers and names of its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/adapt.h"
#include "base/status.h"
#include "comet_native.h"

/* A name that the adaptive bound points to. */
typedef struct name {
    struct name *next;
    char text[];
} name;

struct comet_native_adapt {
    adapt *bound;
    uint32_t n_tensors;
    name *names;
};

static comet_status copy_name(comet_native_adapt *a, const char *text, const char **copy)
{
    if (!a || !text)
        return comet_fail(COMET_ERROR_ARGUMENT, "an adaptive bound and a name are needed");
    const size_t bytes = strlen(text) + 1;
    name *kept = malloc(sizeof *kept + bytes);
    if (!kept)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes", sizeof *kept + bytes);
    memcpy(kept->text, text, bytes);
    kept->next = a->names;
    a->names = kept;
    *copy = kept->text;
    return COMET_OK;
}

static comet_status check_tensor(const comet_native_adapt *a, uint32_t tensor)
{
    if (tensor >= a->n_tensors)
        return comet_fail(COMET_ERROR_ARGUMENT, "there is no tensor %u: there are %u", tensor, a->n_tensors);
    return COMET_OK;
}

static comet_status check_consumer(const comet_native_adapt *a, uint32_t consumer)
{
    if (consumer >= adapt_n_consumers(a->bound))
        return comet_fail(COMET_ERROR_ARGUMENT, "there is no consumer %u: there are %u", consumer, adapt_n_consumers(a->bound));
    return COMET_OK;
}

int comet_native_adapt_create(comet_native_adapt **out, int rule, double share, uint32_t window, int best_fit)
{
    if (!out || (rule != ADAPT_NOISE && rule != ADAPT_SIGMA))
        return comet_fail(COMET_ERROR_ARGUMENT, "%d is no rule: 0 (noise) and 1 (sigma) are known", rule);
    if (!(share > 0) || isinf(share) || window == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "a share of %g and a window of %u: both must be positive and finite", share,
                          window);
    comet_native_adapt *a = calloc(1, sizeof *a);
    if (!a)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes", sizeof *a);
    const adapt_params params = {(adapt_rule)rule, share, window, best_fit != 0};
    const comet_status status = adapt_create(&a->bound, &params);
    if (status != COMET_OK)
        comet_native_adapt_destroy(a);
    else
        *out = a;
    return status;
}

void comet_native_adapt_destroy(comet_native_adapt *a)
{
    if (!a)
        return;
    adapt_destroy(a->bound);
    for (name *kept = a->names, *next = NULL; kept; kept = next) {
        next = kept->next;
        free(kept);
    }
    free(a);
}

int comet_native_adapt_add_tensor(comet_native_adapt *a, const char *text, uint64_t n_elements, uint32_t *tensor)
{
    const char *copy = NULL;
    TRY(copy_name(a, text, &copy));
    TRY(adapt_add_tensor(a->bound, copy, n_elements, tensor));
    a->n_tensors++;
    return COMET_OK;
}

int comet_native_adapt_add_parameter(comet_native_adapt *a, uint32_t tensor, const char *text, uint64_t n_weights,
                                     uint32_t *consumer)
{
    const char *copy = NULL;
    TRY(copy_name(a, text, &copy));
    TRY(check_tensor(a, tensor));
    return adapt_add_parameter(a->bound, tensor, copy, n_weights, consumer);
}

int comet_native_adapt_add_pass(comet_native_adapt *a, uint32_t tensor, const char *text, uint32_t *consumer)
{
    const char *copy = NULL;
    TRY(copy_name(a, text, &copy));
    TRY(check_tensor(a, tensor));
    return adapt_add_pass(a->bound, tensor, copy, consumer);
}

int comet_native_adapt_due(const comet_native_adapt *a, uint64_t step)
{
    return adapt_due(a->bound, step);
}

int comet_native_adapt_complete(const comet_native_adapt *a, uint64_t step)
{
    return adapt_complete(a->bound, step);
}

int comet_native_adapt_observe(comet_native_adapt *a, uint32_t consumer, double gain, double gradient_noise,
                               double mean_momentum, double measured, double eb)
{
    const adapt_observation seen = {gain, gradient_noise, mean_momentum, measured, eb};
    TRY(check_consumer(a, consumer));
    adapt_observe(a->bound, consumer, &seen);
    return COMET_OK;
}

void comet_native_adapt_assess(comet_native_adapt *a, uint64_t step)
{
    adapt_assess(a->bound, step);
}

void comet_native_adapt_retreat(comet_native_adapt *a, uint64_t step)
{
    adapt_retreat(a->bound, step);
}

void comet_native_adapt_restart(comet_native_adapt *a, uint64_t step)
{
    adapt_restart(a->bound, step);
}

uint64_t comet_native_adapt_n_assessed(const comet_native_adapt *a)
{
    return adapt_n_assessed(a->bound);
}

double comet_native_adapt_eb(const comet_native_adapt *a, uint32_t tensor)
{
    return check_tensor(a, tensor) == COMET_OK ? adapt_eb(a->bound, tensor) : (double)NAN;
}

double comet_native_adapt_pass_left(const comet_native_adapt *a, uint32_t consumer)
{
    return check_consumer(a, consumer) == COMET_OK ? adapt_pass_left(a->bound, consumer) : (double)NAN;
}

int comet_native_adapt_consumer(const comet_native_adapt *a, uint32_t consumer, comet_native_consumer *state)
{
    if (!state || state->size != sizeof *state)
        return comet_fail(COMET_ERROR_ARGUMENT, "a consumer's state of %zu bytes is needed", sizeof *state);
    TRY(check_consumer(a, consumer));
    const bool is_parameter = adapt_is_parameter(a->bound, consumer);
    adapt_state found = {NAN, NAN, NAN, NAN, false, false, NAN};
    if (is_parameter)
        found = adapt_consumer_state(a->bound, consumer);
    *state = (comet_native_consumer){.size = sizeof *state,
                                     .sigma_target = found.sigma_target,
                                     .sigma_predicted = found.sigma_predicted,
                                     .sigma_measured = found.sigma_measured,
                                     .share = found.share,
                                     .sigma_ratio = found.sigma_ratio,
                                     .limits = found.limits,
                                     .at_limit = found.at_limit,
                                     .is_parameter = is_parameter,
                                     .tensor = adapt_consumer_tensor(a->bound, consumer)};
    return COMET_OK;
}

uint32_t comet_native_adapt_n_consumers(const comet_native_adapt *a)
{
    return adapt_n_consumers(a->bound);
}

void comet_native_adapt_sigma_ratios(const comet_native_adapt *a, double *least, double *most)
{
    adapt_sigma_ratios(a->bound, least, most);
}

double comet_native_adapt_noise(double squared_distance, double beta, uint64_t n_steps)
{
    return adapt_noise(squared_distance, beta, n_steps);
}

uint64_t comet_native_adapt_n_numbers(const comet_native_adapt *a)
{
    return adapt_n_numbers(a->bound);
}

int comet_native_adapt_export(const comet_native_adapt *a, double *numbers, uint64_t n)
{
    if (n != adapt_n_numbers(a->bound))
        return comet_fail(COMET_ERROR_CAPACITY, "the state has %zu numbers; there is room for %llu", adapt_n_numbers(a->bound),
                          (unsigned long long)n);
    adapt_export(a->bound, numbers);
    return COMET_OK;
}

int comet_native_adapt_import(comet_native_adapt *a, const double *numbers, uint64_t n)
{
    return adapt_import(a->bound, numbers, (size_t)n);
}
